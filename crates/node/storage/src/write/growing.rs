//! Files that are read while they grow: a frame's columns are written first and its header last, so
//! that a reader meets whole frames only, and what was written outlives a writer that is killed.
//!
//! Columns are encoded and written some at a time, so that a frame of any length takes little
//! memory. A file that refuses a write is closed behind its last whole frame if it still can be,
//! and the next frame begins another one: a writer may be used on after an error.

use std::path::{Path, PathBuf};

use catchment_disk::{FaultControl, GrowingFile};
use catchment_frame::{FrameInfo, TocFlags};
use catchment_model::limits::FRAME_BYTES_MAX;

use crate::error::StorageError;
use crate::write::frame::TOC_ENTRY_BYTES;
use crate::write::{Column, RunWriter, unwritable};

/// How files are written that are read while they grow.
#[derive(Clone, Debug)]
pub struct Growing {
    /// Each frame is durable when it has been written.
    pub durable: bool,
    /// Files get a table of contents. Without one they take less memory, and stay as a killed
    /// writer leaves them: for what is to be deleted.
    pub listed: bool,
    /// Faults, for tests.
    pub faults: Option<FaultControl>,
}

/// The file that grows.
#[derive(Debug)]
pub(super) struct GrowingOutput {
    pub(super) how: Growing,
    file: Option<GrowingFile>,
    /// The one before, until the next is begun: a run of which no file is locked is taken for
    /// ended.
    closed: Option<GrowingFile>,
    /// What is behind `written` and not in the file yet.
    buffer: Vec<u8>,
    written: u64,
    /// Where the last whole frame ends.
    recorded: u64,
    header_bytes: u64,
    finished: Vec<PathBuf>,
}

impl GrowingOutput {
    pub(super) fn new(how: Growing) -> Self {
        Self {
            how,
            file: None,
            closed: None,
            buffer: Vec::new(),
            written: 0,
            recorded: 0,
            header_bytes: 0,
            finished: Vec::new(),
        }
    }

    /// Begins a file. If that fails, the one before stays what it was.
    pub(super) fn create(&mut self, path: &Path, header: &[u8]) -> Result<(), StorageError> {
        let file = GrowingFile::create(path, self.how.faults.clone())?;
        if let Err(error) = file.write_at(0, header) {
            drop(file);
            // There is nothing in it. If it cannot be deleted, readers take it for one made ahead.
            let _deleted = std::fs::remove_file(path);
            return Err(error.into());
        }
        self.buffer.clear();
        self.header_bytes = header.len() as u64;
        (self.written, self.recorded) = (self.header_bytes, self.header_bytes);
        self.file = Some(file);
        self.closed = None;
        Ok(())
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(GrowingFile::path)
    }

    pub(super) fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    pub(super) fn pad_to(&mut self, position: u64) -> Result<(), StorageError> {
        let zeros = position.saturating_sub(self.position());
        self.buffer.resize(self.buffer.len() + zeros as usize, 0);
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    /// Ends a frame: its header is written when all else is.
    fn commit(&mut self, start: u64, header: &[u8]) -> Result<(), StorageError> {
        self.flush()?;
        let file = self.file.as_mut().expect("a file was begun");
        file.write_at(start, header)?;
        if self.how.durable {
            file.sync()?;
        }
        self.recorded = self.written;
        Ok(())
    }

    /// Closes the file behind what was appended.
    pub(super) fn close(&mut self) -> Result<(), StorageError> {
        self.flush()?;
        let Some(mut file) = self.file.take() else { return Ok(()) };
        file.truncate(self.written)?;
        file.sync()?;
        self.finished.push(file.path().to_owned());
        self.closed = Some(file);
        Ok(())
    }

    /// The files that were closed since last time.
    pub(super) fn finished(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.finished)
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        if let Some(file) = self.file.as_ref().filter(|_| !self.buffer.is_empty()) {
            file.write_at(self.written, &self.buffer)?;
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
            self.buffer.shrink_to(BUFFER_BYTES);
        }
        Ok(())
    }

    /// Goes back to behind the last whole frame; false if there is none.
    fn back(&mut self) -> bool {
        self.buffer.clear();
        self.written = self.recorded;
        self.file.is_some() && self.recorded > self.header_bytes
    }

    /// Lets go of the file as it is.
    fn abandon(&mut self) -> Option<PathBuf> {
        self.buffer.clear();
        self.file.take().map(|file| file.path().to_owned())
    }
}

impl RunWriter {
    /// Writes a frame to a file that is read while it grows.
    pub(super) fn grow(
        &mut self,
        info: FrameInfo,
        columns: &[Column<'_>],
    ) -> Result<(), StorageError> {
        let grown = self.try_grow(info, columns);
        if grown.is_err() {
            self.leave_file();
        }
        grown
    }

    fn try_grow(&mut self, info: FrameInfo, columns: &[Column<'_>]) -> Result<(), StorageError> {
        // No column is stored in more bytes than it has.
        let padded = |column: &Column<'_>| column.data.raw_bytes().next_multiple_of(64) as u64;
        let most = columns.iter().map(padded).sum::<u64>();
        let most = most + TOC_ENTRY_BYTES * (2 + columns.len() as u64) + 8_192;
        if most > FRAME_BYTES_MAX {
            return Err(unwritable("frame", "it passes 4 GiB"));
        }
        if self.is_full(&info, most, columns.len()) {
            let ledger = self.ledger.clone();
            self.close_file(&ledger, TocFlags::default())?;
        }
        if self.file.is_none() {
            self.begin_file()?;
        }
        self.begin_layout(&info, columns.len());
        let start = self.output.position();
        self.output.pad_to(start + self.layout.header_space() as u64)?;
        let mut rest = columns;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(some(rest));
            self.put_columns(start, now)?;
            rest = later;
        }
        self.output.pad_to(start + self.layout.frame_bytes())?;
        let mut header = vec![0; self.layout.header_space()];
        let summary = self.layout.finish(start, &mut header);
        let listed = match self.output.growing() {
            Some(output) => {
                output.commit(start, &header)?;
                output.how.listed
            }
            None => true,
        };
        self.count_frame(summary, listed);
        Ok(())
    }

    /// Lets go of a file that refused something: closed behind its last whole frame if that can be,
    /// otherwise as a killed writer leaves it; deleted if there is no frame in it.
    fn leave_file(&mut self) {
        let Some(file) = self.file.take() else { return };
        let Some(output) = self.output.growing() else { return };
        if !output.back() {
            if let Some(path) = output.abandon() {
                let _deleted = std::fs::remove_file(path);
                self.next_index -= 1;
            }
            return;
        }
        let (listed, at) = (output.how.listed, output.position());
        let closing = match listed {
            true => file.toc.finish(at, &self.ledger, TocFlags::default()),
            false => Vec::new(),
        };
        let closed = output.append(&closing).and_then(|()| output.close());
        if closed.is_err() {
            // Readable as far as it goes; `catchment repair` closes it.
            let _path = output.abandon();
        }
    }

    /// Begins another file. The one before is left as it is, and may be deleted: it has no table of
    /// contents.
    pub(crate) fn begin_anew(&mut self) -> Result<(), StorageError> {
        let before = self.file.take();
        let begun = self.begin_file();
        if begun.is_err() {
            self.file = before;
        }
        begun
    }

    /// The file that grows.
    pub(crate) fn growing_path(&mut self) -> Option<PathBuf> {
        self.output.growing().and_then(|output| output.path().map(Path::to_owned))
    }
}

/// How many of the columns are encoded and written together.
fn some(columns: &[Column<'_>]) -> usize {
    let mut bytes = 0;
    let fits = columns.iter().take_while(|column| {
        bytes += column.data.raw_bytes();
        bytes <= TOGETHER_BYTES
    });
    fits.count().max(1)
}

/// What is written at a time.
const BUFFER_BYTES: usize = 256 << 10;
/// Raw bytes of the columns that are encoded together.
pub(crate) const TOGETHER_BYTES: usize = 8 << 20;
