//! A store for small amounts of data that are read while they are written: through the page cache,
//! on the caller's thread, without its own memory or threads. Every call may take as long as the
//! disk does.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use catchment_agent::{Completion, CompletionKind, FileEnd, FileId, Presence, Store};
use catchment_model::limits::DISK_ALIGN_BYTES;

use crate::error::DiskError;
use crate::faults::FaultControl;
use crate::files;

/// Files under their final names. Each is locked while it is open, like a recorder's files. Written
/// data outlive the process at once, and a power cut once a sync has completed.
#[derive(Debug)]
pub struct PageCache {
    files: Vec<OpenFile>,
    /// The file finished last, until another is made: a run in which no file is locked counts as
    /// ended.
    finished: Option<File>,
    next_id: u64,
    buffer_bytes: usize,
    completions: Vec<Completion>,
    faults: Option<FaultControl>,
}

#[derive(Debug)]
struct OpenFile {
    id: FileId,
    file: File,
    path: PathBuf,
    /// Whether its name is durable.
    is_named: bool,
    /// Whether a write has failed, and whether a sync has: the kernel may have dropped data that it
    /// could not write, and report the next sync as successful.
    write_failed: bool,
    sync_failed: bool,
}

impl PageCache {
    /// A store with buffers of that size.
    pub fn new(buffer_bytes: usize, faults: Option<FaultControl>) -> Self {
        Self {
            files: Vec::new(),
            finished: None,
            next_id: 0,
            buffer_bytes,
            completions: Vec::new(),
            faults,
        }
    }

    /// Makes a file that does not exist yet.
    ///
    /// # Errors
    /// It exists, or the system refuses.
    pub fn create(&mut self, path: &Path) -> Result<FileId, DiskError> {
        let refused = |error| files::create_error(path, error);
        self.faults.as_ref().map_or(Ok(()), FaultControl::check_open).map_err(refused)?;
        let file = files::create_new(path).map_err(refused)?;
        files::lock(&file);
        self.finished = None;
        let id = FileId(self.next_id);
        self.next_id += 1;
        let path = path.to_owned();
        let (is_named, write_failed, sync_failed) = (false, false, false);
        self.files.push(OpenFile { id, file, path, is_named, write_failed, sync_failed });
        Ok(id)
    }

    /// Closes a file as it is.
    pub fn close(&mut self, id: FileId) {
        self.files.retain(|open| open.id != id);
    }

    fn open(&mut self, id: FileId) -> &mut OpenFile {
        self.files.iter_mut().find(|open| open.id == id).expect("the file is open")
    }
}

impl Store for PageCache {
    type Buffer = Vec<u8>;

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.completions);
    }

    fn try_buffer(&mut self) -> Option<Vec<u8>> {
        Some(vec![0; self.buffer_bytes])
    }

    fn write(&mut self, file: FileId, offset: u64, buffer: Vec<u8>, bytes: usize, token: u64) {
        let room = self
            .faults
            .as_ref()
            .map_or(Ok(()), |faults| faults.check_write().and_then(|()| faults.check_space(bytes)));
        let open = self.open(file);
        // A kill may cut a write short: the statements of the first block about the others are true
        // even then, because it is written last.
        let (first, rest) = buffer[..bytes].split_at(bytes.min(DISK_ALIGN_BYTES));
        let result = room
            .and_then(|()| open.file.write_all_at(rest, offset + first.len() as u64))
            .and_then(|()| open.file.write_all_at(first, offset));
        open.write_failed |= result.is_err();
        let (kind, bytes) = (CompletionKind::Write, bytes as u64);
        let found = Presence::There;
        self.completions.push(Completion { kind, file, offset, bytes, token, result, found });
    }

    fn sync(&mut self, file: FileId, token: u64) -> bool {
        let allowed = self
            .faults
            .as_ref()
            .map_or(Ok(()), |faults| faults.check_sync().and_then(|()| faults.check_finish()));
        let result = self.open(file).sync(allowed);
        let (kind, offset, bytes) = (CompletionKind::Sync, 0, 0);
        let found = Presence::There;
        self.completions.push(Completion { kind, file, offset, bytes, token, result, found });
        true
    }

    fn finish(&mut self, file: FileId, end: FileEnd) {
        let allowed = self.faults.as_ref().map_or(Ok(()), FaultControl::check_finish);
        let open = self.open(file);
        let result = match end {
            FileEnd::Delete => std::fs::remove_file(&open.path),
            FileEnd::Cut(bytes) => {
                // Earlier failures lie behind the cut, or are overwritten.
                open.write_failed = false;
                open.file.set_len(bytes).and_then(|()| open.sync(allowed))
            }
        };
        if let Some(index) = self.files.iter().position(|open| open.id == file) {
            self.finished = Some(self.files.swap_remove(index).file);
        }
        let bytes = if let FileEnd::Cut(bytes) = end { bytes } else { 0 };
        let (kind, offset, token) = (CompletionKind::Finished, 0, 0);
        let found = Presence::There;
        self.completions.push(Completion { kind, file, offset, bytes, token, result, found });
    }
}

impl OpenFile {
    /// Makes it durable, unless a fault is to be injected.
    fn sync(&mut self, allowed: io::Result<()>) -> io::Result<()> {
        if self.write_failed || self.sync_failed {
            let operation = if self.sync_failed { "sync" } else { "write" };
            return Err(io::Error::other(format!("an earlier {operation} has failed")));
        }
        let synced = allowed.and_then(|()| self.file.sync_data());
        self.sync_failed = synced.is_err();
        synced?;
        if !self.is_named {
            files::sync_folder_of(&self.path)?;
            self.is_named = true;
        }
        Ok(())
    }
}
