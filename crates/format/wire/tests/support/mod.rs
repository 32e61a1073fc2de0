//! What the tests of malformed datagrams share.

/// A plain generator, so that a failure can be repeated from its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// The seeds of a fuzz target.
#[expect(clippy::disallowed_methods, reason = "the fuzz target's seeds are files")]
pub fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = format!("{}/../../../fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let seeds = std::fs::read_dir(folder).unwrap();
    seeds.map(|seed| std::fs::read(seed.unwrap().path()).unwrap()).collect()
}
