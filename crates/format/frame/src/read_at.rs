//! Reading at offsets.

use std::io;

use catchment_agent::FailedRead;
pub(crate) use catchment_agent::ReadAt;

use crate::error::{FrameError, Part};

/// A file with other bytes in one range.
pub(crate) struct Patched<'a, R> {
    pub reader: &'a R,
    /// The offset of these bytes.
    pub offset: u64,
    pub patch: &'a [u8],
    /// The length of the resulting file.
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

/// A reader that already has the first bytes from some offset on.
pub(crate) struct Ahead<'a, R: ?Sized> {
    reader: &'a R,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a, R: ReadAt + ?Sized> Ahead<'a, R> {
    pub(crate) fn new(reader: &'a R, start: u64) -> Self {
        let mut bytes = vec![0; AHEAD_BYTES];
        // Bytes that cannot be read ahead are read, and fail, when they are requested.
        let part = Part::FrameHeader(start);
        let filled = read_available(reader, part, start, &mut bytes).unwrap_or(0);
        bytes.truncate(filled);
        Self { reader, start, bytes }
    }
}

impl<R: ReadAt + ?Sized> ReadAt for Ahead<'_, R> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let at = offset.checked_sub(self.start).filter(|&at| at < self.bytes.len() as u64);
        let Some(at) = at else { return self.reader.read_at(offset, buffer) };
        let known = &self.bytes[at as usize..];
        let count = known.len().min(buffer.len());
        buffer[..count].copy_from_slice(&known[..count]);
        Ok(count)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.reader.bytes()
    }
}

/// Fills `buffer` from `offset`; a file that ends earlier is an error.
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

/// Fills as much of `buffer` as possible and returns how much.
pub(crate) fn read_available<R: ReadAt + ?Sized>(
    reader: &R,
    part: Part,
    offset: u64,
    buffer: &mut [u8],
) -> Result<usize, FrameError> {
    let buffer_bytes = buffer.len();
    reader.read_full(offset, buffer).map_err(|FailedRead { filled, source }| {
        let bytes = (buffer_bytes - filled) as u64;
        FrameError::Read { part, offset: offset + filled as u64, bytes, source }
    })
}

/// Header, frames and index blocks of a TOC or checkpoint of 64 frames with 2,000 columns.
const AHEAD_BYTES: usize = 8_192;
