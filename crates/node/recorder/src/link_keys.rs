//! The keys of a front-end's source, as its log has them: they rise, and are unwrapped by that.

use catchment_wire::event_link::KeyKind;

/// The keys of a source, which rise.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    /// Times may be equal.
    pub(crate) kind: KeyKind,
    pub(crate) bits: u8,
    /// The last key, unwrapped; none before the first one of a numbering.
    pub(crate) last: Option<u64>,
    /// No lower key will follow, as far as was said; above the last one.
    pub(crate) low_water: u64,
    /// The low-water key that was said last, as it was said.
    promised: Option<u64>,
}

impl Keys {
    /// The keys of a source that has delivered none, with so many bits.
    pub(crate) fn new(kind: KeyKind, bits: u8) -> Self {
        Self { kind, bits, last: None, low_water: 0, promised: None }
    }

    /// The key, unwrapped, if it rises.
    pub(crate) fn rise(self, key: u64) -> Option<u64> {
        if self.bits == WHOLE_BITS {
            return (key < KEY_END && self.is_risen(key)).then_some(key);
        }
        let cycle = 1_u64 << self.bits;
        if key >= cycle || self.low_water == 0 {
            return (key < cycle).then_some(key);
        }
        let rise = key.wrapping_sub(self.low_water) & (cycle - 1);
        let key = match rise < cycle / 2 - 1 {
            true => self.low_water + rise,
            // Below a mark that promised too much.
            false => (self.low_water + rise).checked_sub(cycle)?,
        };
        (key < KEY_END && self.is_risen(key)).then_some(key)
    }

    fn is_risen(self, key: u64) -> bool {
        self.last.is_none_or(|last| key > last || key == last && self.kind == KeyKind::Time)
    }

    /// Takes a key that rises.
    pub(crate) fn take(&mut self, key: u64) {
        self.last = Some(key);
        self.low_water = self.low_water.max(key + u64::from(self.kind == KeyKind::Number));
    }

    /// Takes a low-water key. Returns it, unwrapped, if it says more than was known.
    pub(crate) fn promise(&mut self, key: u64) -> Option<u64> {
        let cycle = 1_u64.checked_shl(self.bits.into()).unwrap_or(0);
        let low_water = match cycle {
            0 => key,
            _ if key >= cycle => return None,
            _ if self.low_water == 0 => key,
            // A lower one is no rise.
            _ => match key.wrapping_sub(self.low_water) & (cycle - 1) {
                rise if rise < cycle / 2 => self.low_water + rise,
                _ => return None,
            },
        };
        let says_more = low_water > self.low_water && low_water <= KEY_END;
        says_more.then(|| self.low_water = low_water).map(|()| low_water)
    }

    /// Whether a low-water key is below the one that was said before it; it is the last one then.
    pub(crate) fn falls(&mut self, key: u64) -> bool {
        let Some(before) = self.promised.replace(key) else { return false };
        match 1_u64.checked_shl(self.bits.into()) {
            None => key < before,
            Some(cycle) => {
                before.wrapping_sub(key) & (cycle - 1) != 0
                    && (before.wrapping_sub(key) & (cycle - 1)) < cycle / 2
            }
        }
    }

    /// None follows that key, or the last one where its sender does not say it. Returns the key
    /// behind it; 0 if there is none.
    pub(crate) fn end(&mut self, last: Option<u64>) -> u64 {
        let mask = if self.bits == WHOLE_BITS { u64::MAX } else { (1 << self.bits) - 1 };
        if let Some(behind) = last.or(self.last).and_then(|last| last.checked_add(1)) {
            self.promise(behind & mask);
        }
        self.low_water
    }

    /// They begin again.
    pub(crate) fn begin(&mut self) {
        (self.last, self.low_water, self.promised) = (None, 0, None);
    }
}

/// The end of whole keys.
const KEY_END: u64 = 1 << 62;
/// The width of keys that do not wrap, in bits.
pub(crate) const WHOLE_BITS: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bits: u8) -> Keys {
        Keys::new(KeyKind::Number, bits)
    }

    #[test]
    fn times_may_be_equal_and_each_promises_nothing_above_itself() {
        let mut times = Keys::new(KeyKind::Time, WHOLE_BITS);
        times.take(9);
        assert_eq!((times.rise(9), times.rise(8), times.low_water), (Some(9), None, 9));
        assert_eq!((times.promise(9), times.promise(10), times.rise(9)), (None, Some(10), Some(9)));
        times.take(10);
        assert_eq!((times.end(None), times.end(Some(10)), times.end(Some(19))), (11, 11, 20));
    }

    #[test]
    fn narrow_keys_are_unwrapped_by_what_was_promised_too() {
        let mut keys = keys(16);
        assert_eq!(keys.rise(1 << 16), None);
        assert_eq!(keys.rise(65_000), Some(65_000));
        keys.take(65_000);
        // Neither the same key, nor one half of a cycle ahead.
        assert_eq!((keys.rise(65_000), keys.rise(65_000 - 32_768)), (None, None));
        assert_eq!(keys.rise(65_000 - 32_769), Some(65_000 + 32_767));
        // A source that is silent for more than a cycle, and says where it is.
        for promised in [65_001 + 20_000, 65_001 + 40_000, 65_001 + 60_000, 65_001 + 80_000] {
            assert_eq!(keys.promise(promised % (1 << 16)), Some(promised));
            assert_eq!(keys.promise(promised % (1 << 16)), None, "nothing new");
        }
        assert_eq!(keys.promise(1 << 16), None);
        assert_eq!(keys.rise(145_001 % (1 << 16)), Some(145_001));
        // It promised too much, and its key rises.
        assert_eq!(keys.rise(145_000 % (1 << 16)), Some(145_000));
        keys.take(145_000);
        assert_eq!((keys.last, keys.low_water), (Some(145_000), 145_001));
        assert_eq!((keys.end(None), keys.end(Some(145_000 % (1 << 16)))), (145_001, 145_001));
        keys.begin();
        assert_eq!((keys.end(None), keys.rise(3)), (0, Some(3)));
    }

    #[test]
    fn whole_keys_promise_no_less_than_they_said_and_nothing_beyond_their_end() {
        let mut keys = keys(WHOLE_BITS);
        keys.take(9);
        assert_eq!((keys.promise(10), keys.promise(11), keys.promise(10)), (None, Some(11), None));
        assert_eq!((keys.rise(9), keys.rise(10), keys.rise(KEY_END)), (None, Some(10), None));
        assert_eq!((keys.promise(KEY_END + 1), keys.promise(KEY_END)), (None, Some(KEY_END)));
    }
}
