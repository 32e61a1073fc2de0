//! Reading at offsets.

use std::io;

pub(crate) use catchment_agent::ReadAt;

use crate::error::{FrameError, Part};

/// A file as it would be with other bytes in one place.
pub(crate) struct Patched<'a, R> {
    pub reader: &'a R,
    /// Where these bytes go.
    pub offset: u64,
    pub patch: &'a [u8],
    /// How long the file would be.
    pub file_bytes: u64,
}

impl<R: ReadAt> ReadAt for Patched<'_, R> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.file_bytes.saturating_sub(offset);
        let wanted = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let buffer = &mut buffer[..wanted];
        let end = self.offset + self.patch.len() as u64;
        if (self.offset..end).contains(&offset) {
            return self.patch.read_at(offset - self.offset, buffer);
        }
        let before = self
            .offset
            .checked_sub(offset)
            .map_or(wanted, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX).min(wanted));
        self.reader.read_at(offset, &mut buffer[..before])
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.file_bytes)
    }
}

/// Fills `buffer` from `offset`; a file that ends before is an error.
pub(crate) fn read_exact<R: ReadAt + ?Sized>(
    reader: &R,
    part: Part,
    offset: u64,
    buffer: &mut [u8],
) -> Result<(), FrameError> {
    let filled = read_available(reader, part, offset, buffer)?;
    if filled == buffer.len() {
        return Ok(());
    }
    Err(FrameError::Truncated { part, offset, expected: buffer.len() as u64, got: filled as u64 })
}

/// Fills as much of `buffer` as there is and returns how much.
pub(crate) fn read_available<R: ReadAt + ?Sized>(
    reader: &R,
    part: Part,
    offset: u64,
    buffer: &mut [u8],
) -> Result<usize, FrameError> {
    let mut filled = 0;
    while filled < buffer.len() {
        let at = offset + filled as u64;
        match reader.read_at(at, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => {
                assert!(count <= buffer.len() - filled, "a reader filled more than its buffer");
                filled += count;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => {
                let bytes = (buffer.len() - filled) as u64;
                return Err(FrameError::Read { part, offset: at, bytes, source });
            }
        }
    }
    Ok(filled)
}

/// Makes `buffer` exactly `bytes` long without writing zeros over what it had.
pub(crate) fn set_len(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    } else {
        buffer.truncate(bytes);
    }
}
