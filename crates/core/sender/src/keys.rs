//! How keys of a source rise. docs/spec/event-link.md, section 3.

use catchment_wire::event_link::KeyKind;

use crate::{PushError, SourceConfig};

/// The last key of a source, and what it tells of the next one.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    kind: KeyKind,
    bits: u32,
    last: Option<u64>,
    order: Order,
}

/// Where an item stands among those of other sources: its numbering, and its key unwrapped within
/// that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Order {
    pub numbering: u32,
    pub key: u64,
}

impl Order {
    pub const MAX: Self = Self { numbering: u32::MAX, key: u64::MAX };
}

impl Keys {
    pub fn new(config: &SourceConfig) -> Self {
        let (kind, bits) = (config.key_kind, config.key_bits.into());
        Self { kind, bits, last: None, order: Order::default() }
    }

    /// The last key, as on the wire.
    pub fn last(&self) -> Option<u64> {
        self.last
    }

    /// Where the last item stands.
    pub fn order(&self) -> Order {
        self.order
    }

    /// Whether a key is one of this width.
    pub fn fits(&self, key: u64) -> bool {
        key < 1 << self.bits.min(WHOLE_BITS)
    }

    /// These keys after `key`.
    ///
    /// # Errors
    /// A key that has too many bits, or does not rise.
    pub fn risen(&self, key: u64) -> Result<Self, PushError> {
        if !self.fits(key) {
            return Err(PushError::Width { got: key, bits: self.bits.min(WHOLE_BITS) });
        }
        let last = self.last.unwrap_or(0);
        self.after(key).ok_or(PushError::Order { last, got: key })
    }

    /// These keys after `key`, or `None` if it does not rise.
    pub fn after(&self, key: u64) -> Option<Self> {
        let rise = match self.last {
            None => return Some(Self { last: Some(key), order: self.first(key), ..*self }),
            Some(last) if self.bits > WHOLE_BITS => key.checked_sub(last)?,
            Some(last) => key.wrapping_sub(last) & (u64::MAX >> (64 - self.bits)),
        };
        let rise_min = u64::from(self.kind == KeyKind::Number);
        let rises = rise >= rise_min && rise < 1 << (self.bits.min(WHOLE_BITS + 1) - 1);
        let order = Order { key: self.order.key.saturating_add(rise), ..self.order };
        rises.then_some(Self { last: Some(key), order, ..*self })
    }

    /// A new numbering: the next key may be any.
    pub fn restart(&mut self) {
        self.last = None;
        self.order = Order { numbering: self.order.numbering.saturating_add(1), key: 0 };
    }

    /// Where a promise stands that no lower key will follow.
    pub fn order_of(&self, low_water: u64) -> Order {
        self.after(low_water).map_or(self.order, |keys| keys.order)
    }

    fn first(&self, key: u64) -> Order {
        Order { key, ..self.order }
    }
}

/// Whole keys are below 2^62.
const WHOLE_BITS: u32 = 62;

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(kind: KeyKind, bits: u8, last: u64) -> Keys {
        let config = SourceConfig { key_kind: kind, key_bits: bits, ..SourceConfig::default() };
        Keys::new(&config).after(last).expect("a first key")
    }

    #[test]
    fn numbers_rise_strictly_and_by_less_than_half_of_their_width() {
        let of_16 = keys(KeyKind::Number, 16, 65_000);
        assert!(of_16.after(65_000).is_none() && of_16.after(64_999).is_none());
        assert_eq!(of_16.after(10).map(|keys| keys.order.key), Some(65_546));
        let last = 65_000_u64 + 32_767 - 65_536;
        assert!(of_16.after(last).is_some() && of_16.after(last + 1).is_none());
        assert!(of_16.fits(65_535) && !of_16.fits(65_536));
        let whole = keys(KeyKind::Number, 64, 7);
        assert!(whole.fits((1 << 62) - 1) && !whole.fits(1 << 62));
        assert!(whole.after((1 << 62) - 1).is_some() && whole.after(7).is_none());
    }

    #[test]
    fn times_may_be_equal_and_numberings_begin_anywhere() {
        let mut times = keys(KeyKind::Time, 64, 7);
        assert!(times.after(7).is_some() && times.after(6).is_none());
        times.restart();
        let again = times.after(3).expect("a new numbering");
        assert!(again.order > times.order && again.last == Some(3));
    }
}
