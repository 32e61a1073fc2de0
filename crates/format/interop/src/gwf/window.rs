//! Reading a file through one buffer: the requested bytes, and those likely to be needed next.

use catchment_agent::FailedRead;

use crate::ReadAt;
use crate::gwf::error::{GwfError, Part};
use crate::gwf::{HEAD_BYTES, STRUCTURE_BYTES_MAX};

/// The beginning of every structure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// Its offset.
    pub offset: u64,
    /// Its whole length, including this and the checksum.
    pub bytes: u64,
    /// 1 means that its checksum is valid.
    pub checksum_kind: u8,
    pub class: u8,
    pub instance: u32,
}

impl Head {
    pub(crate) fn end(&self) -> u64 {
        self.offset + self.bytes
    }

    /// This structure as the part in an error.
    pub(crate) fn part(&self, class: &'static str) -> Part {
        Part::Structure { class, offset: self.offset }
    }
}

/// A file and its most recently read bytes.
pub(crate) struct Window<'a, R> {
    source: &'a R,
    file_bytes: u64,
    buffer: Vec<u8>,
    /// The file offset of the buffer's first byte.
    start: u64,
    /// The end of reading ahead, at most `ahead_bytes`.
    ahead_end: u64,
    ahead_bytes: u64,
}

impl<'a, R: ReadAt> Window<'a, R> {
    /// Reads by `ahead_bytes` and never beyond `ahead_end`, unless more is requested.
    pub(crate) fn new(source: &'a R, file_bytes: u64, ahead_end: u64, ahead_bytes: u64) -> Self {
        let ahead_end = ahead_end.min(file_bytes);
        Self { source, file_bytes, buffer: Vec::new(), start: 0, ahead_end, ahead_bytes }
    }

    /// All of the `bytes` bytes at `offset`.
    pub(crate) fn at(&mut self, part: Part, offset: u64, bytes: u64) -> Result<&[u8], GwfError> {
        let there = self.file_bytes.saturating_sub(offset);
        if bytes > there {
            return Err(GwfError::Truncated { part, offset, expected: bytes, got: there });
        }
        let begin = offset.wrapping_sub(self.start);
        let held = self.buffer.len() as u64;
        if offset < self.start || begin > held || bytes > held - begin {
            let ahead = self.ahead_end.saturating_sub(offset).min(self.ahead_bytes);
            self.fill(part, offset, bytes.max(ahead))?;
        }
        let begin = (offset - self.start) as usize;
        Ok(&self.buffer[begin..begin + bytes as usize])
    }

    /// The head of the structure at `offset`, whose length is possible in this file.
    pub(crate) fn head(&mut self, offset: u64) -> Result<Head, GwfError> {
        let part = Part::Structure { class: "structure", offset };
        let file_bytes = self.file_bytes;
        let fixed = self.at(part, offset, HEAD_BYTES as u64)?;
        let head = parse_head(offset, fixed);
        if head.bytes < HEAD_BYTES as u64 + 4 {
            let expected = "18 or more";
            return Err(GwfError::Field { part, field: "length", expected, got: head.bytes });
        }
        let there = file_bytes - offset;
        if head.bytes > there {
            return Err(GwfError::Truncated { part, offset, expected: head.bytes, got: there });
        }
        Ok(head)
    }

    fn fill(&mut self, part: Part, offset: u64, bytes: u64) -> Result<(), GwfError> {
        // No more than the file has: checked by `at`, and `ahead_end` lies within the file.
        self.start = offset;
        self.buffer.clear();
        self.buffer.resize(bytes as usize, 0);
        let filled = read_exact(self.source, part, offset, &mut self.buffer);
        if filled.is_err() {
            self.buffer.clear();
        }
        filled
    }
}

pub(crate) fn parse_head(offset: u64, fixed: &[u8]) -> Head {
    Head {
        offset,
        bytes: u64::from_le_bytes(fixed[..8].try_into().expect("eight bytes")),
        checksum_kind: fixed[8],
        class: fixed[9],
        instance: u32::from_le_bytes(fixed[10..14].try_into().expect("four bytes")),
    }
}

/// Refuses a structure longer than [`STRUCTURE_BYTES_MAX`].
pub(crate) fn check_length(part: Part, bytes: u64) -> Result<(), GwfError> {
    if bytes > STRUCTURE_BYTES_MAX {
        let expected = "at most 16 MiB";
        return Err(GwfError::Field { part, field: "length", expected, got: bytes });
    }
    Ok(())
}

/// Fills `buffer` from `offset`; a file that ends earlier is an error.
pub(crate) fn read_exact<R: ReadAt + ?Sized>(
    source: &R,
    part: Part,
    offset: u64,
    buffer: &mut [u8],
) -> Result<(), GwfError> {
    let buffer_bytes = buffer.len();
    let filled = source.read_full(offset, buffer).map_err(|FailedRead { filled, source }| {
        let bytes = (buffer_bytes - filled) as u64;
        GwfError::Read { offset: offset + filled as u64, bytes, source }
    })?;
    if filled == buffer_bytes {
        return Ok(());
    }
    let (expected, got) = (buffer_bytes as u64, filled as u64);
    Err(GwfError::Truncated { part, offset, expected, got })
}
