//! Reads fields in order from untrusted bytes.

use crate::gwf::error::{GwfError, Part};

/// A reference to a structure: its class and number, both 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub class: u16,
    pub instance: u32,
}

impl Pointer {
    pub(crate) fn is_null(self) -> bool {
        self == Self::default()
    }
}

/// A position in the bytes of a structure's fields.
pub(crate) struct Cursor<'a> {
    part: Part,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(part: Part, bytes: &'a [u8]) -> Self {
        Self { part, bytes, at: 0 }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], GwfError> {
        if count > self.remaining() {
            return Err(GwfError::Truncated {
                part: self.part,
                offset: self.at as u64,
                expected: count as u64,
                got: self.remaining() as u64,
            });
        }
        let taken = &self.bytes[self.at..self.at + count];
        self.at += count;
        Ok(taken)
    }

    /// Skips `count` items of `item_bytes` each.
    pub(crate) fn skip(&mut self, count: u64, item_bytes: u64) -> Result<(), GwfError> {
        let bytes = self.check_count(count, item_bytes)? * item_bytes as usize;
        self.take(bytes).map(drop)
    }

    /// `count` as a number of items of at least `item_bytes_min` each, if that many can be here:
    /// checked before anything is allocated or looped over.
    pub(crate) fn check_count(&self, count: u64, item_bytes_min: u64) -> Result<usize, GwfError> {
        if count.checked_mul(item_bytes_min).is_some_and(|bytes| bytes <= self.remaining() as u64) {
            return Ok(count as usize);
        }
        Err(GwfError::Truncated {
            part: self.part,
            offset: self.at as u64,
            expected: count.saturating_mul(item_bytes_min),
            got: self.remaining() as u64,
        })
    }

    pub(crate) fn u16(&mut self) -> Result<u16, GwfError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, GwfError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, GwfError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, GwfError> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn f32(&mut self) -> Result<f32, GwfError> {
        self.array().map(f32::from_le_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, GwfError> {
        self.array().map(f64::from_le_bytes)
    }

    pub(crate) fn pointer(&mut self) -> Result<Pointer, GwfError> {
        Ok(Pointer { class: self.u16()?, instance: self.u32()? })
    }

    /// A string; invalid UTF-8 becomes U+FFFD.
    pub(crate) fn string(&mut self) -> Result<String, GwfError> {
        let bytes = self.string_bytes()?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    /// A string's bytes, without the NUL at its end.
    pub(crate) fn string_bytes(&mut self) -> Result<&'a [u8], GwfError> {
        let length = self.u16()?;
        let bytes = self.take(length.into())?;
        // Some writers store an empty string without its NUL.
        let Some((last, text)) = bytes.split_last() else { return Ok(&[]) };
        if *last != 0 {
            return Err(GwfError::Field {
                part: self.part,
                field: "last byte of a string",
                expected: "0",
                got: (*last).into(),
            });
        }
        Ok(text)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], GwfError> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("as many bytes as were taken"))
    }
}

/// Bytes of the shortest string: its length.
pub(crate) const STRING_BYTES_MIN: u64 = 2;
