//! The checksum of POSIX's `cksum`: CRC-32 of the bytes, then of their count.

use crc_fast::{CrcAlgorithm, Digest};

use crate::gwf::error::{GwfError, Part};

/// A checksum of bytes that arrive in parts.
#[derive(Clone)]
pub(crate) struct Cksum {
    digest: Digest,
    bytes: u64,
}

impl Cksum {
    pub(crate) fn new() -> Self {
        Self { digest: Digest::new(CrcAlgorithm::Crc32Cksum), bytes: 0 }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    pub(crate) fn finish(&self) -> u32 {
        // The count's bytes are added too, lowest first, up to the highest non-zero one.
        let count = self.bytes.to_le_bytes();
        let used = 8 - self.bytes.leading_zeros() as usize / 8;
        let mut digest = self.digest;
        digest.update(&count[..used]);
        digest.finalize() as u32
    }
}

pub(crate) fn cksum(bytes: &[u8]) -> u32 {
    let mut sum = Cksum::new();
    sum.update(bytes);
    sum.finish()
}

/// Compares a stored checksum with that of the bytes.
pub(crate) fn same(part: Part, expected: u32, got: u32) -> Result<(), GwfError> {
    if expected == got { Ok(()) } else { Err(GwfError::Checksum { part, expected, got }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_that_of_cksum() {
        // printf 123456789 | cksum; printf '' | cksum
        assert_eq!(cksum(b"123456789"), 930_766_865);
        assert_eq!(cksum(b""), 4_294_967_295);
    }

    #[test]
    fn checksum_of_parts_is_that_of_the_whole() {
        let bytes: Vec<u8> = (0..70_000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for split in [0, 1, 255, 256, 65_536, 70_000] {
            let mut sum = Cksum::new();
            sum.update(&bytes[..split]);
            sum.update(&bytes[split..]);
            assert_eq!(sum.finish(), cksum(&bytes), "split at {split}");
        }
    }
}
