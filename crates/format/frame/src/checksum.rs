//! CRC-32C, by hardware where there is any.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C (Castagnoli) of bytes that come in parts.
#[derive(Clone, Copy)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// The checksum of no bytes yet.
    pub fn new() -> Self {
        // iSCSI's name for the CRC that everybody else calls CRC-32C.
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Takes the next bytes in.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes so far.
    pub fn finish(&self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Crc32c {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Crc32c({:#010x})", self.finish())
    }
}

/// CRC-32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// CRC-32C of `bytes` with the four bytes at `at`, where it stands itself, taken as zero.
pub(crate) fn crc32c_around(bytes: &[u8], at: usize) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(&bytes[..at]);
    crc.update(&[0; 4]);
    crc.update(&bytes[at + 4..]);
    crc.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
        // RFC 3720, B.4: 32 bytes of zeros, 32 bytes of ones.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
    }

    #[test]
    fn checksum_of_parts_is_that_of_the_whole() {
        let bytes: Vec<u8> = (0..5_000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for split in [0, 1, 15, 64, 255, 256, 1_023, 4_096, 5_000] {
            let mut crc = Crc32c::new();
            crc.update(&bytes[..split]);
            crc.update(&bytes[split..]);
            assert_eq!(crc.finish(), crc32c(&bytes), "split at {split}");
        }
    }
}
