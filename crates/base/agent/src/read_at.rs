//! Reading at offsets, from any file, slice or test double.

use std::io;

/// Data that many threads can read at any offset at once.
pub trait ReadAt {
    /// Reads into `buffer` from `offset` on and returns the number of bytes read: fewer than
    /// requested only at the end or if unavoidable, 0 at the end.
    ///
    /// # Errors
    /// The system's error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// The current number of bytes.
    ///
    /// # Errors
    /// The system's error.
    fn bytes(&self) -> io::Result<u64>;

    /// The offset of the next bytes, from `offset` on, that may not be zeros; none if only zeros
    /// follow. A file system knows which allocated ranges were never written.
    fn next_data(&self, offset: u64) -> Option<u64> {
        Some(offset)
    }

    /// Fills `buffer` from `offset` on with the available bytes, and returns how many there were.
    ///
    /// # Errors
    /// The first read that fails for a reason other than a signal.
    ///
    /// # Panics
    /// If a read returns more bytes than its buffer holds.
    fn read_full(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, FailedRead> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(offset + filled as u64, &mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => {
                    assert!(count <= buffer.len() - filled, "a reader filled more than its buffer");
                    filled += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(FailedRead { filled, source }),
            }
        }
        Ok(filled)
    }
}

/// Why [`ReadAt::read_full`] stopped.
#[derive(Debug)]
pub struct FailedRead {
    /// How many bytes were read before the error.
    pub filled: usize,
    /// The system's error.
    pub source: io::Error,
}

impl ReadAt for [u8] {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let count = buffer.len().min(self.len() - start);
        buffer[..count].copy_from_slice(&self[start..start + count]);
        Ok(count)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.as_slice().read_at(offset, buffer)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for &R {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(offset, buffer)
    }

    fn bytes(&self) -> io::Result<u64> {
        (**self).bytes()
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        (**self).next_data(offset)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for std::sync::Arc<R> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(offset, buffer)
    }

    fn bytes(&self) -> io::Result<u64> {
        (**self).bytes()
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        (**self).next_data(offset)
    }
}
