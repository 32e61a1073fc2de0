//! Slices as the builder's event numbers, and the handling of links whose clocks jump.
//!
//! A slice is its own number: slices are a millisecond long or longer and end within 2^63 ns, so
//! that [`SLICE_BITS`] bits hold every one, twice over. The bits above them in a builder's key are
//! a turn, which counts restarts of time: when most links step further back than [`back_max`], or
//! further ahead than the builder's window. docs/decisions/numbering.md says why.

use catchment_builder::NUMBER_BITS_MAX;

use crate::links::SLICE_NS_MIN;

/// Bits of the number of any slice, and one more: so that any two slices are less than half the
/// range apart, and their order never depends on their distance.
pub(crate) const SLICE_BITS: u32 = 45;

/// The slice of a builder's key.
#[inline]
pub(crate) fn slice_of(key: u64) -> u64 {
    key & ((1 << SLICE_BITS) - 1)
}

/// How many slices a link may step back without a restart of time, for slices of that length and a
/// builder's `window`: samples already present are not replaced, and their
/// repetitions are counted. A larger step back restarts time.
pub(crate) fn back_max(slice_ns: u64, window: u64) -> u64 {
    (BACK_NS / slice_ns.max(1)).clamp(BACK_MIN, window / 4)
}

/// How far a clock may be set back without a restart of time.
const BACK_NS: u64 = 10_000_000_000;
/// Packets reordered by the network are not a clock that was set back.
const BACK_MIN: u64 = 16;

const _: () = {
    assert!(i64::MAX as u64 / SLICE_NS_MIN < 1 << (SLICE_BITS - 1));
    assert!(SLICE_BITS <= NUMBER_BITS_MAX);
};

#[cfg(test)]
mod tests;
