//! A file whose reads are counted, so that a test can say that nothing is read that was not asked
//! for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use catchment_disk::ReadFile;
use catchment_frame::ReadAt;

/// An open file, and how many bytes were read from it and its run's other files.
#[derive(Debug)]
pub(crate) struct Counted {
    file: Arc<ReadFile>,
    bytes_read: Arc<AtomicU64>,
}

impl Counted {
    pub(crate) fn new(file: Arc<ReadFile>, bytes_read: &Arc<AtomicU64>) -> Self {
        Self { file, bytes_read: Arc::clone(bytes_read) }
    }
}

impl ReadAt for Counted {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(offset, buffer)?;
        self.bytes_read.fetch_add(read as u64, Relaxed);
        Ok(read)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        self.file.next_data(offset)
    }
}
