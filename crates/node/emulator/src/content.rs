//! The content of fragments: a pure function of seed, source and event.
//!
//! Word *i* (little-endian, 64 bits) of a payload is `TABLE[i mod 8192] ^ h`: the table is 64 KiB
//! of random numbers from the seed, *h* one number from seed, source and event. As *h* differs in
//! every fragment, there is no repetition for a codec to use, and an exchanged fragment is
//! detected. The length is a Gaussian draw from the same numbers, rounded to 4 bytes (a HADES
//! word), at least 8; of a board, as its layout can say it.

use catchment_wire::hadtu::PAYLOAD_BYTES_MAX;

use crate::boards::Board;
use crate::config::{EmulatedSource, EmulatorConfig};

/// The lengths and the bytes of all fragments of one emulated detector.
#[derive(Clone, Debug)]
pub struct Content {
    table: Box<[u64; TABLE_WORDS]>,
    // Lengths at equal steps of probability, one list per mean and sigma.
    lengths: Vec<Box<[u16; QUANTILES]>>,
    sources: Vec<Source>,
    tag_base: u64,
    // Huge if the low bits of `h` are below this.
    huge_below: u64,
    huge_bytes: usize,
    burst: u64,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    base: u64,
    lengths: usize,
}

/// One fragment, drawn: its number `h` and its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub h: u64,
    pub bytes: usize,
}

impl Content {
    /// The content sent by an emulator with these settings.
    ///
    /// # Panics
    /// Huge payloads that exceed a datagram.
    pub fn new(
        seed: u64,
        sources: &[EmulatedSource],
        huge_every: u64,
        huge_bytes: usize,
        equal_bursts: Option<u32>,
    ) -> Self {
        assert!(huge_bytes <= PAYLOAD_BYTES_MAX, "{huge_bytes} bytes fit into no datagram");
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_add(GOLDEN);
            mix(state)
        };
        let table = (0..TABLE_WORDS).map(|_| next()).collect::<Box<[u64]>>();
        let tag_base = next();
        let mut classes: Vec<(f64, f64, Option<&Board>)> = Vec::new();
        let sources = sources
            .iter()
            .map(|source| {
                let class = (source.mean_bytes, source.sigma, source.board.as_ref());
                let lengths = classes.iter().position(|known| *known == class);
                let lengths = lengths.unwrap_or_else(|| {
                    classes.push(class);
                    classes.len() - 1
                });
                Source { base: next(), lengths }
            })
            .collect();
        let quantiles = normal_quantiles();
        Self {
            table: table.try_into().expect("the length is the array's"),
            lengths: classes
                .iter()
                .map(|&(mean, sigma, board)| lengths(mean, sigma, board, &quantiles))
                .collect(),
            sources,
            tag_base,
            huge_below: HUGE_RANGE.checked_div(huge_every).unwrap_or(0),
            huge_bytes,
            burst: u64::from(equal_bursts.unwrap_or(1).max(1)),
        }
    }

    /// The content sent by an emulator with this configuration.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn of(config: &EmulatorConfig) -> Self {
        Self::new(
            config.seed,
            &config.sources,
            config.huge_every,
            config.huge_bytes,
            config.equal_bursts,
        )
    }

    /// Bytes of the payload of that source in that event.
    ///
    /// # Panics
    /// A source index out of range, as everywhere here.
    #[inline]
    pub fn payload_bytes(&self, source: u32, event: u64) -> usize {
        self.draw(source, event).bytes
    }

    /// Whether that fragment is one of the huge ones.
    #[inline]
    pub fn is_huge(&self, source: u32, event: u64) -> bool {
        self.h(source, event) & (HUGE_RANGE - 1) < self.huge_below
    }

    /// The trigger tag of an event, the same from all sources.
    #[inline]
    pub fn tag(&self, event: u64) -> u8 {
        mix(self.tag_base.wrapping_add(event.wrapping_mul(GOLDEN))) as u8
    }

    /// Writes the first `out.len()` bytes of a payload.
    pub fn fill(&self, source: u32, event: u64, out: &mut [u8]) {
        let h = self.h(source, event);
        for block in out.chunks_mut(TABLE_WORDS * 8) {
            let (words, rest) = block.as_chunks_mut::<8>();
            for (word, entry) in words.iter_mut().zip(self.table.iter()) {
                *word = (entry ^ h).to_le_bytes();
            }
            let last = (self.table[words.len() % TABLE_WORDS] ^ h).to_le_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }

    /// Whether a payload equals, in length and in every byte, the one that source sent for that
    /// event.
    pub fn verify(&self, source: u32, event: u64, payload: &[u8]) -> bool {
        let Draw { h, bytes } = self.draw(source, event);
        if payload.len() != bytes {
            return false;
        }
        // Differences are collected, not branched on, so that the loop works on whole vectors.
        let (chunks, rest) = payload.as_chunks::<64>();
        let (table, _) = self.table.as_chunks::<8>();
        let mut differences = [0_u64; 8];
        for (chunk, entries) in chunks.iter().zip(table) {
            let (words, _) = chunk.as_chunks::<8>();
            for lane in 0..8 {
                differences[lane] |= u64::from_le_bytes(words[lane]) ^ entries[lane] ^ h;
            }
        }
        let mut difference = differences.iter().fold(0, |all, lane| all | lane);
        for (piece, entry) in rest.chunks(8).zip(&self.table[chunks.len() * 8..]) {
            let mut word = (entry ^ h).to_le_bytes();
            word[..piece.len()].copy_from_slice(piece);
            difference |= u64::from_le_bytes(word) ^ entry ^ h;
        }
        difference == 0
    }

    #[inline]
    pub(crate) fn draw(&self, source: u32, event: u64) -> Draw {
        let entry = self.sources[source as usize];
        let h = h_of(entry.base, event);
        if h & (HUGE_RANGE - 1) < self.huge_below {
            return Draw { h, bytes: self.huge_bytes };
        }
        let drawn = if self.burst == 1 { h } else { h_of(!entry.base, event / self.burst) };
        let quantile = drawn >> (64 - QUANTILES.ilog2());
        Draw { h, bytes: usize::from(self.lengths[entry.lengths][quantile as usize]) }
    }

    /// Writes a drawn payload in whole vectors: up to [`OVERSHOOT_BYTES`] more than its length.
    #[inline]
    pub(crate) fn fill_beyond(&self, draw: Draw, room: &mut [u8]) {
        let (chunks, _) = room.as_chunks_mut::<OVERSHOOT_BYTES>();
        let (table, _) = self.table.as_chunks::<{ OVERSHOOT_BYTES / 8 }>();
        let count = draw.bytes.div_ceil(OVERSHOOT_BYTES);
        for (chunk, entries) in chunks[..count].iter_mut().zip(table) {
            let words = entries.map(|entry| (entry ^ draw.h).to_le_bytes());
            chunk.copy_from_slice(words.as_flattened());
        }
    }

    /// Writes that many bytes of a drawn payload from a position on: with
    /// [`fill_beyond`](Self::fill_beyond), if that is its beginning.
    #[inline]
    pub(crate) fn fill_from(&self, draw: Draw, begin: usize, room: &mut [u8]) {
        if begin == 0 {
            return self.fill_beyond(draw, room);
        }
        for (at, byte) in (begin..).zip(&mut room[..draw.bytes]) {
            *byte = (self.table[at / 8] ^ draw.h).to_le_bytes()[at % 8];
        }
    }

    #[inline]
    fn h(&self, source: u32, event: u64) -> u64 {
        h_of(self.sources[source as usize].base, event)
    }
}

/// Payloads are written in pieces of that many bytes; the last may extend beyond the end.
pub(crate) const OVERSHOOT_BYTES: usize = 32;

#[inline]
fn h_of(base: u64, event: u64) -> u64 {
    mix(base.wrapping_add(event.wrapping_mul(GOLDEN)))
}

/// SplitMix64's output function: every bit of the result depends on every bit of `x`.
#[inline]
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Lengths in the middle of equal steps of probability.
fn lengths(
    mean: f64,
    sigma: f64,
    board: Option<&Board>,
    quantiles: &[f64],
) -> Box<[u16; QUANTILES]> {
    let mut lengths = Box::new([0; QUANTILES]);
    for (length, z) in lengths.iter_mut().zip(quantiles) {
        let words = (mean * (1.0 + sigma * z) / 4.0).round();
        *length = (words * 4.0).clamp(PAYLOAD_BYTES_MIN as f64, PAYLOAD_BYTES_MAX as f64) as u16;
        if let Some(board) = board {
            *length = board.drawn((*length).into()) as u16;
        }
    }
    lengths
}

/// The normal distribution's quantiles in the middle of equal steps of probability. They are
/// computed upwards from 0 by Newton's method: the distribution is concave there, so no step
/// overshoots, and each result is a good starting point for the next. The lower half mirrors the
/// upper.
fn normal_quantiles() -> Box<[f64]> {
    let mut quantiles = vec![0.0; QUANTILES].into_boxed_slice();
    let mut z = 0.0_f64;
    for index in QUANTILES / 2..QUANTILES {
        let p = (index as f64 + 0.5) / QUANTILES as f64;
        for _ in 0..8 {
            z += (p - normal_cumulative(z)) / normal_density(z);
        }
        quantiles[index] = z;
        quantiles[QUANTILES - 1 - index] = -z;
    }
    quantiles
}

fn normal_density(z: f64) -> f64 {
    (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// The probability that a normal variable is below `z`: 1/2 + phi(z) (z + z^3/3 + z^5/15 + ...).
fn normal_cumulative(z: f64) -> f64 {
    let mut term = z;
    let mut sum = z;
    let mut n = 3.0;
    while term.abs() > sum.abs() * 1e-15 {
        term *= z * z / n;
        sum += term;
        n += 2.0;
    }
    0.5 + sum * normal_density(z)
}

const TABLE_WORDS: usize = 8_192;
const QUANTILES: usize = 4_096;
const PAYLOAD_BYTES_MIN: usize = 8;
/// 2^64 divided by the golden ratio: SplitMix64's step.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// The low bits decide whether a fragment is huge; the high bits decide its length.
const HUGE_RANGE: u64 = 1 << 52;

const _: () = {
    assert!(QUANTILES.is_power_of_two() && 52 + QUANTILES.ilog2() <= 64);
    // One table covers the longest payload, and its length fits into 16 bits.
    assert!(PAYLOAD_BYTES_MAX + OVERSHOOT_BYTES <= TABLE_WORDS * 8);
    assert!(PAYLOAD_BYTES_MAX <= u16::MAX as usize);
};
