//! CRC-32C, in hardware if available.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C (Castagnoli) of bytes that arrive in parts.
#[derive(Clone, Copy)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// The checksum of no bytes yet.
    pub fn new() -> Self {
        // iSCSI is another name for CRC-32C.
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Adds the next bytes.
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

/// CRC-32C of `bytes` with the four bytes at `at`, the position of the checksum itself, taken as
/// zero.
pub(crate) fn crc32c_around(bytes: &[u8], at: usize) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(&bytes[..at]);
    crc.update(&[0; 4]);
    crc.update(&bytes[at + 4..]);
    crc.finish()
}

/// CRC-32C of bytes with that checksum, followed by `bytes` others with theirs.
pub(crate) fn combined(before: u32, behind: u32, bytes: u64) -> u32 {
    // Following bytes shift the checksum of those before: it is multiplied by x to the power of the
    // number of bits. crc-fast's own function squares matrices: 212 us for 64 KiB, whose checksum
    // takes 1.2 us.
    let (mut shift, mut bytes, mut index) = (1 << 31, bytes, 3);
    while bytes > 0 {
        if bytes & 1 == 1 {
            shift = product(POWERS[index % 31], shift);
        }
        (bytes, index) = (bytes >> 1, index + 1);
    }
    product(shift, before) ^ behind
}

/// The product of two polynomials modulo Castagnoli's, with the highest power in the last bit.
const fn product(a: u32, mut b: u32) -> u32 {
    let (mut sum, mut bit) = (0, 1 << 31);
    while bit != 0 {
        if a & bit != 0 {
            sum ^= b;
        }
        b = (b >> 1) ^ if b & 1 != 0 { POLYNOMIAL } else { 0 };
        bit >>= 1;
    }
    sum
}

/// Castagnoli's polynomial, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// x to the powers 2^0, 2^1, ..., which repeat from 2^31 on.
const POWERS: [u32; 31] = {
    let mut powers = [1 << 30; 31];
    let mut index = 1;
    while index < 31 {
        powers[index] = product(powers[index - 1], powers[index - 1]);
        index += 1;
    }
    powers
};

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

    #[test]
    fn checksums_combine_to_that_of_the_whole() {
        let bytes: Vec<u8> = (0..150_000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for (split, end) in [(0, 9), (9, 9), (1, 5_000), (65_536, 131_072), (65_536, 150_000)] {
            let (before, behind) = (&bytes[..split], &bytes[split..end]);
            let got = combined(crc32c(before), crc32c(behind), behind.len() as u64);
            assert_eq!(got, crc32c(&bytes[..end]), "{split} of {end}");
        }
        for long in [1 << 31, (1 << 36) + 12_345] {
            let (a, b) = (0x1234_5678, 0x9abc_def0);
            let expected = crc_fast::checksum_combine(CrcAlgorithm::Crc32Iscsi, a, b, long);
            assert_eq!(u64::from(combined(a as u32, b as u32, long)), expected);
        }
    }
}
