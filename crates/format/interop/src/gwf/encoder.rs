//! Assembles structures.

use crate::gwf::checksum::cksum;
use crate::gwf::cursor::Pointer;
use crate::gwf::{CHECKSUM_BYTES, HEAD_BYTES};

/// A structure being assembled, in memory that is reused for the next.
#[derive(Default)]
pub(crate) struct Encoder {
    bytes: Vec<u8>,
}

impl Encoder {
    /// Begins a structure with that class and number.
    pub(crate) fn begin(&mut self, class: u8, instance: u32) -> &mut Self {
        self.bytes.clear();
        self.bytes.resize(8, 0);
        self.bytes.extend_from_slice(&[CHECKSUM_KIND, class]);
        self.u32(instance)
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn i32(&mut self, value: i32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn f32(&mut self, value: f32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn f64(&mut self, value: f64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub(crate) fn pointer(&mut self, pointer: Pointer) -> &mut Self {
        self.u16(pointer.class).u32(pointer.instance)
    }

    /// `count` null references.
    pub(crate) fn nulls(&mut self, count: usize) -> &mut Self {
        for _ in 0..count {
            self.pointer(Pointer::default());
        }
        self
    }

    /// A text, which is short enough and has no NUL: the caller has checked this.
    pub(crate) fn string(&mut self, text: &str) -> &mut Self {
        assert!(text.len() <= STRING_BYTES_MAX && !text.contains('\0'), "an unchecked text");
        self.u16(text.len() as u16 + 1).raw(text.as_bytes()).raw(&[0])
    }

    pub(crate) fn u32s(&mut self, values: impl IntoIterator<Item = u32>) -> &mut Self {
        for value in values {
            self.u32(value);
        }
        self
    }

    pub(crate) fn u64s(&mut self, values: impl IntoIterator<Item = u64>) -> &mut Self {
        for value in values {
            self.u64(value);
        }
        self
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Ends the structure with a checksum over its contents, which is returned with the structure's
    /// bytes. `behind` bytes follow the checksum and are included in the length.
    pub(crate) fn finish(&mut self, behind: usize) -> &[u8] {
        assert!(self.bytes.len() >= HEAD_BYTES);
        let length = (self.bytes.len() + CHECKSUM_BYTES + behind) as u64;
        self.bytes[..8].copy_from_slice(&length.to_le_bytes());
        let sum = cksum(&self.bytes);
        self.bytes.extend_from_slice(&sum.to_le_bytes());
        &self.bytes
    }
}

/// Bytes of a text, without its NUL.
pub(crate) const STRING_BYTES_MAX: usize = u16::MAX as usize - 1;
/// The checksum of POSIX's `cksum`.
const CHECKSUM_KIND: u8 = 1;
