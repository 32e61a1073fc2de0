//! Files written from their beginning to their end, through the disk's aligned buffers.
//!
//! A file has a temporary name until it is closed and durable, so that no reader meets half a file
//! under its final name. What is left of a file that was not closed is deleted.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use catchment_disk::{Buffer, Completion, CompletionKind, Disk, DiskConfig, DiskError, FileId};

use crate::error::StorageError;

/// A disk, the file that is being written, and those that are being closed.
pub(crate) struct Output {
    disk: Disk,
    completions: Vec<Completion>,
    current: Option<Growing>,
    closing: Vec<Closing>,
    /// Buffers that are filled in turn.
    buffer_bytes: usize,
    buffer_count: usize,
    /// The first error that a write met; nothing goes on behind it.
    failed: Option<(PathBuf, std::io::Error)>,
    finished: Vec<PathBuf>,
}

struct Growing {
    file: FileId,
    path: PathBuf,
    /// Where the buffer will be written.
    start: u64,
    buffer: Option<Buffer>,
    filled: usize,
    held: Option<Held>,
}

/// Bytes of a file that are filled in later, and the full buffers that they stand in.
struct Held {
    bytes: Range<u64>,
    aside: Vec<(u64, Buffer, usize)>,
}

struct Closing {
    file: FileId,
    path: PathBuf,
}

impl Output {
    pub(crate) fn new(config: DiskConfig) -> Result<Self, StorageError> {
        let (buffer_bytes, buffer_count) = (config.buffer_bytes, config.buffer_count);
        Ok(Self {
            disk: Disk::new(config)?,
            completions: Vec::new(),
            current: None,
            closing: Vec::new(),
            buffer_bytes,
            buffer_count,
            failed: None,
            finished: Vec::new(),
        })
    }

    /// Begins a file that will have that name.
    pub(crate) fn create(&mut self, path: PathBuf) -> Result<(), StorageError> {
        assert!(self.current.is_none(), "the file before is closed");
        if path.exists() {
            return Err(DiskError::Exists { path }.into());
        }
        let file = self.disk.create(&temporary(&path))?;
        self.current = Some(Growing { file, path, start: 0, buffer: None, filled: 0, held: None });
        Ok(())
    }

    /// Bytes of the current file so far.
    pub(crate) fn position(&self) -> u64 {
        self.current.as_ref().map_or(0, |file| file.start + file.filled as u64)
    }

    /// Appends bytes.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (at, room) = self.room()?;
            let (now, later) = rest.split_at(rest.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            self.filled(at + now.len());
            rest = later;
        }
        Ok(())
    }

    /// Appends zeros up to that position of the file.
    pub(crate) fn pad_to(&mut self, position: u64) -> Result<(), StorageError> {
        while self.position() < position {
            let left = position - self.position();
            let (at, room) = self.room()?;
            let bytes = left.min(room.len() as u64) as usize;
            room[..bytes].fill(0);
            self.filled(at + bytes);
        }
        Ok(())
    }

    /// Whether so many bytes can be held: the buffers that they are in must leave others.
    pub(crate) fn can_hold(&self, bytes: usize) -> bool {
        bytes <= self.buffer_bytes && self.buffer_count > HELD_BUFFERS_MAX + 1
    }

    /// Leaves out that many bytes, which [`Output::fill_held`] fills in; until then the buffers
    /// that they are in are not written.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), StorageError> {
        assert!(self.can_hold(bytes), "{bytes} bytes can be held");
        let start = self.position();
        let end = start + bytes as u64;
        let file = self.current.as_mut().expect("a file was begun");
        assert!(file.held.is_none(), "what was held before is filled in");
        file.held = Some(Held { bytes: start..end, aside: Vec::new() });
        self.pad_to(end)
    }

    /// Fills in what was held, and writes the buffers that waited for it.
    pub(crate) fn fill_held(&mut self, bytes: &[u8]) {
        let file = self.current.as_mut().expect("a file was begun");
        let held = file.held.take().expect("bytes are held");
        assert_eq!(bytes.len() as u64, held.bytes.end - held.bytes.start, "all of them");
        for (start, mut buffer, filled) in held.aside {
            fill_in(&mut buffer[..filled], start, &held.bytes, bytes);
            self.disk.write(file.file, start, buffer, filled, 0);
        }
        if let Some(buffer) = &mut file.buffer {
            fill_in(&mut buffer[..file.filled], file.start, &held.bytes, bytes);
        }
    }

    /// Closes the current file, which ends on a 4 KiB border. Its final name comes later.
    pub(crate) fn close(&mut self) -> Result<(), StorageError> {
        let bytes = self.position();
        self.put_away();
        if let Some(Growing { file, path, .. }) = self.current.take() {
            self.disk.finish(file, bytes);
            self.closing.push(Closing { file, path });
        }
        self.poll()
    }

    /// Waits until every closed file has its final name; returns those that came since last time.
    pub(crate) fn wait(&mut self) -> Result<Vec<PathBuf>, StorageError> {
        while !self.closing.is_empty() {
            self.disk.wait(WAIT, &mut self.completions);
            self.book()?;
        }
        self.book()?;
        Ok(std::mem::take(&mut self.finished))
    }

    /// The place in the current buffer, and what is free of it.
    fn room(&mut self) -> Result<(usize, &mut [u8]), StorageError> {
        while self.current.as_ref().is_some_and(|file| file.buffer.is_none()) {
            let buffer = self.disk.buffer(WAIT, &mut self.completions);
            self.book()?;
            let file = self.current.as_mut().expect("just seen");
            file.buffer = buffer;
        }
        let file = self.current.as_mut().expect("a file was begun");
        let at = file.filled;
        let buffer = file.buffer.as_mut().expect("just filled");
        Ok((at, &mut buffer[at..]))
    }

    fn filled(&mut self, filled: usize) {
        if let Some(file) = &mut self.current {
            file.filled = filled;
        }
        if filled == self.buffer_bytes {
            self.put_away();
        }
    }

    fn put_away(&mut self) {
        let Some(file) = &mut self.current else { return };
        let Some(buffer) = file.buffer.take() else { return };
        match &mut file.held {
            Some(held) if file.start < held.bytes.end => {
                held.aside.push((file.start, buffer, file.filled));
            }
            _ => self.disk.write(file.file, file.start, buffer, file.filled, 0),
        }
        file.start += file.filled as u64;
        file.filled = 0;
    }

    fn poll(&mut self) -> Result<(), StorageError> {
        self.disk.poll(&mut self.completions);
        self.book()
    }

    fn book(&mut self) -> Result<(), StorageError> {
        let mut completions = std::mem::take(&mut self.completions);
        for completion in completions.drain(..) {
            if let Err(error) = completion.result {
                let path = self.path_of(completion.file).unwrap_or_default();
                self.failed.get_or_insert((path, error));
            } else if completion.kind == CompletionKind::Finished && self.failed.is_none() {
                self.name(completion.file)?;
            }
        }
        self.completions = completions;
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

    fn path_of(&self, file: FileId) -> Option<PathBuf> {
        let growing = self.current.as_ref().filter(|growing| growing.file == file);
        let closing = self.closing.iter().find(|closing| closing.file == file);
        growing.map(|file| file.path.clone()).or(closing.map(|file| file.path.clone()))
    }

    /// Gives a file that is durable its final name, and makes that durable too.
    fn name(&mut self, file: FileId) -> Result<(), StorageError> {
        let Some(place) = self.closing.iter().position(|closing| closing.file == file) else {
            return Ok(());
        };
        let path = &self.closing[place].path;
        let failed = |source| StorageError::Write { path: path.clone(), source };
        // A link fails where the name is taken, a renaming would overwrite what is there.
        let temporary = temporary(path);
        match std::fs::hard_link(&temporary, path) {
            Ok(()) => std::fs::remove_file(&temporary).map_err(failed)?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(DiskError::Exists { path: path.clone() }.into());
            }
            // A file system without links.
            Err(_) => std::fs::rename(&temporary, path).map_err(failed)?,
        }
        if let Some(folder) = path.parent() {
            catchment_disk::sync_folder(folder)?;
        }
        let closing = self.closing.swap_remove(place);
        self.finished.push(closing.path);
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let current = self.current.iter().map(|file| &file.path);
        for path in current.chain(self.closing.iter().map(|file| &file.path)) {
            // It is no part of a run. If it cannot be deleted, its name says what it is.
            let _deleted = std::fs::remove_file(temporary(path));
        }
    }
}

/// Copies what of the held bytes stands in a buffer that will be written to `start`.
fn fill_in(buffer: &mut [u8], start: u64, held: &Range<u64>, bytes: &[u8]) {
    let from = held.start.max(start);
    let to = held.end.min(start + buffer.len() as u64);
    if from < to {
        let source = &bytes[(from - held.start) as usize..(to - held.start) as usize];
        buffer[(from - start) as usize..(to - start) as usize].copy_from_slice(source);
    }
}

/// The name that a file has until it is closed: readers do not look at it.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// How long to wait for the disk before looking again.
const WAIT: Duration = Duration::from_millis(100);
/// Buffers that held bytes stand in: no more than fit into one buffer are held.
const HELD_BUFFERS_MAX: usize = 2;
