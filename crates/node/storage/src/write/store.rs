//! The destination of a run's bytes: past the page cache, or through it for small data that are
//! read at once.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::time::Duration;

use catchment_agent::{FileEnd, FileId, Store};
use catchment_disk::{Buffer, Completion, Disk, DiskError, PageCache};

/// One of the two.
pub(super) enum RunStore {
    Disk(Box<Disk>),
    PageCache(PageCache),
}

/// A buffer of either.
pub(super) enum RunBuffer {
    Disk(Buffer),
    PageCache(Vec<u8>),
}

impl RunStore {
    /// Makes a file that does not exist yet.
    pub(super) fn create(&mut self, path: &Path) -> Result<FileId, DiskError> {
        match self {
            Self::Disk(disk) => disk.create(path),
            Self::PageCache(store) => store.create(path),
        }
    }

    /// Sleeps until something has completed, for a limited time.
    pub(super) fn sleep(&self) {
        if let Self::Disk(disk) = self {
            disk.sleeper().sleep(SLEEP);
        }
    }
}

impl Store for RunStore {
    type Buffer = RunBuffer;

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        match self {
            Self::Disk(disk) => Store::poll(&mut **disk, completions),
            Self::PageCache(store) => store.poll(completions),
        }
    }

    fn try_buffer(&mut self) -> Option<RunBuffer> {
        match self {
            Self::Disk(disk) => disk.try_buffer().map(RunBuffer::Disk),
            Self::PageCache(store) => store.try_buffer().map(RunBuffer::PageCache),
        }
    }

    fn write(&mut self, file: FileId, offset: u64, buffer: RunBuffer, bytes: usize, token: u64) {
        match (self, buffer) {
            (Self::Disk(disk), RunBuffer::Disk(buffer)) => {
                disk.write(file, offset, buffer, bytes, token);
            }
            (Self::PageCache(store), RunBuffer::PageCache(buffer)) => {
                store.write(file, offset, buffer, bytes, token);
            }
            _ => unreachable!("a buffer of this store"),
        }
    }

    fn sync(&mut self, file: FileId, token: u64) -> bool {
        match self {
            Self::Disk(disk) => disk.sync(file, token).is_ok(),
            Self::PageCache(store) => store.sync(file, token),
        }
    }

    fn finish(&mut self, file: FileId, end: FileEnd) {
        match self {
            Self::Disk(disk) => Store::finish(&mut **disk, file, end),
            Self::PageCache(store) => store.finish(file, end),
        }
    }
}

impl Deref for RunBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Disk(buffer) => buffer,
            Self::PageCache(buffer) => buffer,
        }
    }
}

impl DerefMut for RunBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Disk(buffer) => buffer,
            Self::PageCache(buffer) => buffer,
        }
    }
}

/// How long to wait for the disk before checking again.
const SLEEP: Duration = Duration::from_millis(100);
