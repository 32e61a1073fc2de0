//! Arithmetic of numbers that wrap, and of the keys that end in them.

/// The end of the keys: far beyond those of any detector, and far from overflow.
pub const KEY_END: u64 = 1 << 62;

/// Arithmetic of numbers that wrap, as they are on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    bits: u32,
}

/// Where the first number of a source is to be.
#[derive(Clone, Copy, Debug)]
pub enum Placing {
    /// It is the key, or that in the first cycle of the numbering.
    First,
    /// Near a key, and not below the base of the numbering.
    Near(u64),
}

impl Numbers {
    pub fn new(bits: u32) -> Self {
        Self { bits }
    }

    /// The distance from one number to another; negative if it is backward. A key stands for the
    /// number that it ends in.
    #[inline]
    pub fn offset(self, from: u64, to: u64) -> i64 {
        let unused = 64 - self.bits;
        (to.wrapping_sub(from) << unused).cast_signed() >> unused
    }

    /// The key of `number` that is nearest to `key`. A result below 0 wraps to a value beyond all
    /// keys.
    #[inline]
    pub fn near(self, key: u64, number: u64) -> u64 {
        key.wrapping_add_signed(self.offset(key, number))
    }

    /// The number that a key ends in.
    #[inline]
    pub fn number_of(self, key: u64) -> u64 {
        key & ((1 << self.bits) - 1)
    }

    /// The key of `number` in the first cycle of the numbers that begins after `key`; none if the
    /// keys end before it.
    pub fn next_cycle(self, key: u64, number: u64) -> Option<u64> {
        let cycle = (key >> self.bits) + 1;
        (cycle < KEY_END >> self.bits).then_some((cycle << self.bits) + self.number_of(number))
    }
}
