//! Slices as the builder's event numbers, and what becomes of links whose clocks jump.
//!
//! A slice is its own number: slices are a millisecond long or longer and end within 2^63 ns, so that
//! [`SLICE_BITS`] bits hold every one, twice over. What stands above them in a builder's key is a turn,
//! which counts how often time began anew: when most channels step further back than
//! [`Jumps::back_max`], or further ahead than [`Jumps::ahead_max`]. docs/decisions/0058 says why.

use catchment_wire::sequence::NUMBER_BITS_MAX;

use crate::links::SLICE_NS_MIN;

/// Bits of the number of any slice, and one more: so that any two slices are less than half the
/// range apart, and which one is the later never depends on how far it is.
pub(crate) const SLICE_BITS: u32 = 45;

/// The slice of a builder's key.
#[inline]
pub(crate) fn slice_of(key: u64) -> u64 {
    key & ((1 << SLICE_BITS) - 1)
}

/// How far a channel's slices may step and still go on in the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Jumps {
    /// So far back it is the same time again: samples that are there already are not replaced, and
    /// what came for them is counted. Further back, time begins anew.
    pub(crate) back_max: u64,
    /// So far ahead the slices between are missing. Further ahead, time begins anew.
    pub(crate) ahead_max: u64,
}

impl Jumps {
    /// For slices of that length, and a builder's window of so many.
    pub(crate) fn of(slice_ns: u64, window: u64) -> Self {
        let back = BACK_NS / slice_ns.max(1);
        let ahead = AHEAD_NS / slice_ns.max(1);
        Self { back_max: back.clamp(BACK_MIN, window / 4), ahead_max: ahead.max(4 * window) }
    }
}

/// What a clock that is set right may be set back without its time beginning anew.
const BACK_NS: u64 = 10_000_000_000;
/// Packets that the network reorders are not a clock that was set back.
const BACK_MIN: u64 = 16;
/// The longest time that can be missing: an hour.
const AHEAD_NS: u64 = 3_600_000_000_000;

const _: () = {
    assert!(i64::MAX as u64 / SLICE_NS_MIN < 1 << (SLICE_BITS - 1));
    assert!(SLICE_BITS <= NUMBER_BITS_MAX);
};

#[cfg(test)]
mod tests;
