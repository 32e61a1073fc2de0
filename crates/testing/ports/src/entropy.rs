//! Chance that can be had again.

use std::io;

use catchment_agent::Entropy;

/// Numbers that follow from a seed (SplitMix64).
#[derive(Clone, Copy, Debug)]
pub struct SeededEntropy(u64);

impl SeededEntropy {
    /// The numbers of that seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below that; 0 if it is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64().checked_rem(end).unwrap_or(0)
    }
}

impl Entropy for SeededEntropy {
    fn random_u64(&mut self) -> io::Result<u64> {
        Ok(self.next_u64())
    }
}
