//! A run's files without a recorder: made, filled with frames, closed and named.
//!
//! Files that are not read before they are closed have a temporary name until they are durable, so
//! no reader finds an incomplete file under its final name; an unclosed file is deleted. Files that
//! are read while they grow have their names from the beginning, and a written frame is in them, or
//! durable; a file with a failed write is closed after its last whole frame if possible, and the
//! next frame begins another one: a writer remains usable after an error.

use std::path::{Path, PathBuf};

use catchment_agent::{CompletionKind, FileEnd};
use catchment_disk::{Disk, DiskConfig, DiskError, FILES_MAX, FaultPlan, PageCache};
use catchment_frame::{ColumnEntry, FileHeader, FrameInfo, FrameSummary, TocFlags};
use catchment_model::Ledger;
use catchment_writer::{
    EncodedColumn, Ended, FileParts, FrameFile, FrameFiles, HeaderOrder, StoreFile, WrittenFrame,
};

use super::WriteOptions;
use super::column::RunColumn;
use super::store::RunStore;
use crate::error::StorageError;

/// How to write files that are read while they grow.
#[derive(Clone, Debug)]
pub struct Growing {
    /// Each frame is durable when it has been written.
    pub durable: bool,
    /// Files get a table of contents. Without one they take less memory, and stay as if their
    /// writer had been killed: for files to be deleted.
    pub listed: bool,
}

/// The files of a run.
pub(super) struct Output {
    files: FrameFiles<RunStore, ()>,
    growing: Option<Growing>,
    /// The first error of a write.
    failed: Option<(PathBuf, std::io::Error)>,
    finished: Vec<PathBuf>,
    /// The columns of the frame that was ended last.
    entries: Vec<ColumnEntry>,
}

impl Output {
    /// `header_bytes_max` is the longest header of a frame: it fits into one buffer.
    pub(super) fn new(
        options: &WriteOptions,
        header_bytes_max: usize,
    ) -> Result<Self, StorageError> {
        let whole = |bytes: usize| bytes.max(header_bytes_max).next_multiple_of(BLOCK_BYTES);
        let growing = options.growing.clone();
        let (store, buffer_bytes, order) = match &growing {
            Some(_) => {
                let bytes = whole(GROWING_BUFFER_BYTES);
                (
                    RunStore::PageCache(PageCache::new(bytes, options.faults.clone())),
                    bytes,
                    HeaderOrder::Last,
                )
            }
            None => {
                let buffer_bytes = whole(options.buffer_bytes);
                let disk = Disk::new(DiskConfig {
                    buffer_bytes,
                    buffer_count: options.buffers,
                    preallocate_bytes: PREALLOCATE_BYTES
                        .min(options.file_bytes.next_multiple_of(BLOCK_BYTES as u64)),
                    faults: options
                        .faults
                        .clone()
                        .map(|control| FaultPlan { control, ..FaultPlan::default() }),
                    ..DiskConfig::default()
                })?;
                (RunStore::Disk(Box::new(disk)), buffer_bytes, HeaderOrder::Held)
            }
        };
        let files = FrameFiles::new([store], buffer_bytes, order);
        Ok(Self { files, growing, failed: None, finished: Vec::new(), entries: Vec::new() })
    }

    /// The overhead of a frame with that many columns, besides their bytes.
    pub(super) fn header_space(&mut self, columns: usize) -> u64 {
        self.files.header_space(columns)
    }

    /// The file that receives frames.
    pub(super) fn file(&self) -> Option<&FrameFile> {
        self.files.current.as_ref()
    }

    /// Begins the file with that name. If that fails, the previous one stays as it was; otherwise
    /// it is abandoned as it is.
    pub(super) fn begin_file(
        &mut self,
        path: PathBuf,
        header: &FileHeader,
    ) -> Result<(), StorageError> {
        if self.growing.is_none() && path.exists() {
            return Err(DiskError::Exists { path }.into());
        }
        // Files can be made faster than they become durable.
        while self.growing.is_none() && self.files.closing.len() > CLOSING_MAX {
            self.wait_for_room()?;
        }
        let name = self.name_before(&path);
        let id = StoreFile { store: 0, id: self.files.store(0).create(&name)? };
        let is_listed = self.growing.as_ref().is_none_or(|growing| growing.listed);
        let parts = FileParts { id, path: path.clone(), is_listed, attached: () };
        let (file, header) = FrameFile::begin(parts, header, header.created_ns);
        let before = self.files.current.take();
        self.files.begin_file(file, header);
        if let Err(error) = self.stream_pages() {
            self.files.current = before;
            if self.growing.is_some() {
                self.let_go(id);
            }
            // It is empty. If it cannot be deleted, readers treat it as one made ahead.
            let _deleted = std::fs::remove_file(name);
            return Err(error);
        }
        if let Some(before) = before {
            self.let_go(before.id);
        }
        Ok(())
    }

    /// Begins a frame in the current file.
    pub(super) fn begin_frame(&mut self, info: FrameInfo, columns_max: usize) {
        self.files.begin(info, columns_max);
    }

    /// Writes a column of the frame.
    pub(super) fn append(
        &mut self,
        column: &EncodedColumn<RunColumn<'_>>,
    ) -> Result<(), StorageError> {
        let mut unlimited = usize::MAX;
        while !column.with_stored(|stored| self.files.append(stored, &mut unlimited)) {
            self.wait_for_room()?;
        }
        Ok(())
    }

    /// Ends a frame whose columns it has.
    pub(super) fn end_frame(&mut self) -> Result<(FrameSummary, &[ColumnEntry]), StorageError> {
        let summary = loop {
            match self.files.finish(()) {
                Ok(summary) => break summary,
                Err(()) => self.wait_for_room()?,
            }
        };
        self.entries.clear();
        self.entries.extend_from_slice(self.files.entries());
        // In files that are not read yet, a later failed write fails the run.
        if let Some(Growing { durable, .. }) = self.growing {
            self.poll()?;
            let id = self.file().map(|file| file.id).filter(|_| durable);
            if let Some(id) = id {
                self.files.sync(id);
                self.poll()?;
            }
        }
        if let Some(file) = &mut self.files.current {
            file.recorded(&WrittenFrame { summary, entries: self.entries.clone() });
        }
        Ok((summary, &self.entries))
    }

    /// Closes the current file after its recorded frames; returns its size. It gets its final name
    /// later.
    pub(super) fn close_file(
        &mut self,
        ledger: &Ledger,
        flags: TocFlags,
    ) -> Result<u64, StorageError> {
        let Some(id) = self.file().map(|file| file.id) else { return Ok(0) };
        self.files.leave();
        let file_bytes = self.files.begin_toc(id, ledger, flags);
        let closed = self.stream_pages().and_then(|()| {
            self.files.finish_file(id, FileEnd::Cut(file_bytes));
            self.poll()
        });
        if closed.is_err() && self.growing.is_some() {
            // Readable as far as it goes; `catchment repair` closes it.
            self.let_go(id);
        }
        closed.map(|()| file_bytes)
    }

    /// Abandons a growing file after an error: closed after its last whole frame if possible,
    /// otherwise as if its writer had been killed. Returns true if it contained no frame and was
    /// deleted.
    pub(super) fn leave_file(&mut self, ledger: &Ledger) -> bool {
        self.files.abandon_frame();
        // The error is known.
        let _error = self.poll();
        self.failed = None;
        let Some(file) = &mut self.files.current else { return false };
        file.reopen();
        let (id, path) = (file.id, file.path.clone());
        if !file.has_frames() {
            self.files.leave();
            self.let_go(id);
            let _deleted = std::fs::remove_file(path);
            return true;
        }
        // If that fails, it is abandoned as it is.
        let _closed = self.close_file(ledger, TocFlags::default());
        false
    }

    /// Forgets a growing file, which stays as it is.
    fn let_go(&mut self, id: StoreFile) {
        self.failed = None;
        self.files.closing.retain(|file| file.id != id);
        if let RunStore::PageCache(store) = self.files.store(0) {
            store.close(id.id);
        }
    }

    /// Waits until every closed file is durable and has its final name; returns those completed
    /// since the last call.
    pub(super) fn wait(&mut self) -> Result<Vec<PathBuf>, StorageError> {
        self.poll()?;
        while !self.files.closing.is_empty() {
            self.files.store(0).sleep();
            self.poll()?;
        }
        Ok(std::mem::take(&mut self.finished))
    }

    /// Waits until there may be more room.
    pub(super) fn wait_for_room(&mut self) -> Result<(), StorageError> {
        if self.files.poll() == 0 {
            self.files.store(0).sleep();
        }
        self.poll()
    }

    fn stream_pages(&mut self) -> Result<(), StorageError> {
        while self.files.has_pages() {
            let mut unlimited = usize::MAX;
            if !self.files.stream_page(&mut unlimited) {
                self.wait_for_room()?;
            }
        }
        self.poll()
    }

    /// Handles the disk's completions.
    fn poll(&mut self) -> Result<(), StorageError> {
        self.files.poll();
        while let Some(Ended { file, error, .. }) = self.files.next_ended() {
            if let Some(error) = error {
                self.fail(file, error);
            }
        }
        for (store, completion) in self.files.take_others() {
            let file = StoreFile { store, id: completion.file };
            match (completion.kind, completion.result) {
                (_, Err(error)) => self.fail(file, error),
                (CompletionKind::Finished, Ok(())) if self.failed.is_none() => self.name(file)?,
                _ => {}
            }
        }
        match &self.failed {
            None => Ok(()),
            Some((path, error)) => {
                let source = error.raw_os_error().map_or_else(
                    || std::io::Error::new(error.kind(), error.to_string()),
                    std::io::Error::from_raw_os_error,
                );
                Err(StorageError::Write { path: path.clone(), source })
            }
        }
    }

    fn fail(&mut self, id: StoreFile, error: std::io::Error) {
        let mut files = self.files.current.iter().chain(&self.files.closing);
        let path = files.find(|file| file.id == id).map(|file| file.path.clone());
        self.failed.get_or_insert((path.unwrap_or_default(), error));
    }

    /// Gives a durable file its final name, and makes the name durable too.
    fn name(&mut self, id: StoreFile) -> Result<(), StorageError> {
        let Some(index) = self.files.closing.iter().position(|file| file.id == id) else {
            return Ok(());
        };
        let path = &self.files.closing[index].path;
        if self.growing.is_none() {
            rename(&temporary(path), path)?;
        }
        let file = self.files.closing.swap_remove(index);
        self.finished.push(file.path);
        Ok(())
    }

    /// The name that a file has until it is closed.
    fn name_before(&self, path: &Path) -> PathBuf {
        match self.growing {
            Some(_) => path.to_owned(),
            None => temporary(path),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.growing.is_none() {
            let files = self.files.current.iter().chain(&self.files.closing);
            for file in files {
                // It is not part of a run. If it cannot be deleted, its name shows what it is.
                let _deleted = std::fs::remove_file(temporary(&file.path));
            }
        }
    }
}

fn rename(from: &Path, to: &Path) -> Result<(), StorageError> {
    let failed = |source| StorageError::Write { path: to.to_owned(), source };
    // A link fails if the name exists; renaming would overwrite the existing file.
    match std::fs::hard_link(from, to) {
        Ok(()) => std::fs::remove_file(from).map_err(failed)?,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(DiskError::Exists { path: to.to_owned() }.into());
        }
        // A file system without links.
        Err(_) => std::fs::rename(from, to).map_err(failed)?,
    }
    if let Some(folder) = to.parent() {
        catchment_disk::sync_folder(folder)?;
    }
    Ok(())
}

/// The name of a file until it is closed: readers ignore it.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

const BLOCK_BYTES: usize = catchment_model::limits::DISK_ALIGN_BYTES;
/// Bytes written at a time to growing files.
const GROWING_BUFFER_BYTES: usize = 128 << 10;
/// Files that may be becoming durable, besides the current one and the next.
const CLOSING_MAX: usize = FILES_MAX - 2;
/// Bytes of preallocation per step.
const PREALLOCATE_BYTES: u64 = 256 << 20;
