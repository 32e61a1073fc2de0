//! Slices as the builder's event numbers, and what becomes of links whose clocks jump.
//!
//! A slice is its own number: slices are a millisecond long or longer and end within 2^63 ns, so
//! that [`SLICE_BITS`] bits hold every one, twice over. What stands above them in a builder's key
//! is a turn, which counts how often time began anew: when most links step further back than
//! [`back_max`], or further ahead than the builder's window. docs/decisions/numbering.md says
//! why.

use catchment_builder::NUMBER_BITS_MAX;

use crate::links::SLICE_NS_MIN;

/// Bits of the number of any slice, and one more: so that any two slices are less than half the
/// range apart, and which one is the later never depends on how far it is.
pub(crate) const SLICE_BITS: u32 = 45;

/// The slice of a builder's key.
#[inline]
pub(crate) fn slice_of(key: u64) -> u64 {
    key & ((1 << SLICE_BITS) - 1)
}

/// How many slices back it is the same time again, for slices of that length and a builder's window
/// of so many: samples that are there already are not replaced, and what came for them is counted.
/// Further back, time begins anew.
pub(crate) fn back_max(slice_ns: u64, window: u64) -> u64 {
    (BACK_NS / slice_ns.max(1)).clamp(BACK_MIN, window / 4)
}

/// What a clock that is set right may be set back without its time beginning anew.
const BACK_NS: u64 = 10_000_000_000;
/// Packets that the network reorders are not a clock that was set back.
const BACK_MIN: u64 = 16;

const _: () = {
    assert!(i64::MAX as u64 / SLICE_NS_MIN < 1 << (SLICE_BITS - 1));
    assert!(SLICE_BITS <= NUMBER_BITS_MAX);
};

#[cfg(test)]
mod tests;
