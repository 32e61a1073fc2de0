//! Slices as the builder's event numbers.
//!
//! A slice is a 64-bit number; the builder takes 32 bits. What both differ by is set once, when the
//! first slice comes: so far below it that a sender whose clock is set back is still in range.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How the slices of all links are numbered in the builder.
#[derive(Debug)]
pub(crate) struct SliceNumbers {
    base: AtomicU64,
    /// Slices of a frame: bases are multiples of it, so that the builder's multiples are the slices'.
    multiple: u64,
}

impl SliceNumbers {
    /// Without a slice yet.
    pub(crate) fn new(multiple: u64) -> Self {
        Self { base: AtomicU64::new(UNSET), multiple }
    }

    /// The builder's number of a slice; none where the slice is too far from the first one.
    #[inline]
    pub(crate) fn number(&self, slice: u64) -> Option<u32> {
        let base = match self.base.load(Relaxed) {
            UNSET => self.begin(slice),
            base => base,
        };
        u32::try_from(slice.checked_sub(base)?).ok()
    }

    /// The slice of a builder's key.
    pub(crate) fn slice(&self, key: u64) -> u64 {
        // A key above 32 bits is a number of a later turn.
        self.base.load(Relaxed).saturating_add(key & u64::from(u32::MAX))
    }

    #[cold]
    fn begin(&self, slice: u64) -> u64 {
        let base = slice.saturating_sub(BELOW_FIRST) / self.multiple * self.multiple;
        match self.base.compare_exchange(UNSET, base, Relaxed, Relaxed) {
            Ok(_) => base,
            Err(earlier) => earlier,
        }
    }
}

/// No slice is there: slices end within 2^63 ns.
const UNSET: u64 = u64::MAX;
/// How far below the first slice numbers begin.
const BELOW_FIRST: u64 = 1 << 31;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_slices_and_begin_at_a_multiple() {
        let numbers = SliceNumbers::new(256);
        let first = 7_000_000_123;
        let number = numbers.number(first).unwrap();
        assert_eq!(numbers.slice(u64::from(number)), first);
        assert_eq!(numbers.slice((5 << 32) + u64::from(number)), first);
        assert_eq!((first - u64::from(number)) % 256, 0);
        assert_eq!(numbers.number(first - (1 << 31) - 256), None);
        assert_eq!(numbers.number(first + (1 << 32)), None);
        assert!(numbers.number(first - (1 << 31)).is_some());
    }

    #[test]
    fn a_clock_that_begins_at_zero_is_in_range() {
        let numbers = SliceNumbers::new(256);
        assert_eq!(numbers.number(3), Some(3));
        assert_eq!(numbers.number(0), Some(0));
    }
}
