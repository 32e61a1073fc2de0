//! The keys of a source over a session: they rise, and those that wrap are unwrapped by their rise
//! (docs/spec/event-link.md, section 3).

/// The end of whole keys.
const KEY_END: u64 = 1 << 62;
/// The width of keys that do not wrap, in bits.
pub(crate) const WHOLE_BITS: u8 = 64;

/// The keys of a source, which rise.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
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
    pub(crate) fn new(bits: u8) -> Self {
        Self { bits, last: None, low_water: 0, promised: None }
    }

    /// The key, unwrapped, if it rises.
    pub(crate) fn rise(self, key: u64) -> Option<u64> {
        if self.bits == WHOLE_BITS {
            return (key < KEY_END && self.last.is_none_or(|last| key > last)).then_some(key);
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
        (key < KEY_END && self.last.is_none_or(|last| key > last)).then_some(key)
    }

    /// Takes a key that rises.
    pub(crate) fn take(&mut self, key: u64) {
        self.last = Some(key);
        self.low_water = self.low_water.max(key + 1);
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

    /// The bits of a key on the wire.
    pub(crate) fn mask(self) -> u64 {
        if self.bits == WHOLE_BITS { u64::MAX } else { (1 << self.bits) - 1 }
    }

    /// They begin again.
    pub(crate) fn begin(&mut self) {
        (self.last, self.low_water, self.promised) = (None, 0, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_keys_are_unwrapped_by_what_was_promised_too() {
        let mut keys = Keys::new(16);
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
        keys.begin();
        assert_eq!(keys.rise(3), Some(3));
    }

    #[test]
    fn whole_keys_promise_no_less_than_they_said_and_nothing_beyond_their_end() {
        let mut keys = Keys::new(WHOLE_BITS);
        keys.take(9);
        assert_eq!((keys.promise(10), keys.promise(11), keys.promise(10)), (None, Some(11), None));
        assert_eq!((keys.rise(9), keys.rise(10), keys.rise(KEY_END)), (None, Some(10), None));
        assert_eq!((keys.promise(KEY_END + 1), keys.promise(KEY_END)), (None, Some(KEY_END)));
    }
}
