//! Unsigned integers of 8 to 64 bits, as which the packing treats elements.

use std::fmt::Debug;
use std::ops::{BitAnd, BitOr, BitOrAssign, BitXor, Not, Shl, Shr};

use fastlanes::FastLanes;

/// An unsigned integer. Signed elements are treated as unsigned ones with the same bits.
pub trait Word:
    FastLanes
    + Copy
    + Default
    + Debug
    + Ord
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitOrAssign
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    /// Its bits.
    const BITS: u32;
    /// Its bytes.
    const BYTES: usize = Self::BITS as usize / 8;
    /// Only the highest bit.
    const TOP: Self;

    /// From the low bits.
    fn low(bits: u64) -> Self;
    /// With zeros above.
    fn wide(self) -> u64;
    /// Sum without overflow.
    fn plus(self, other: Self) -> Self;
    /// Difference without overflow.
    fn minus(self, other: Self) -> Self;
    /// A quotient as signed numbers, towards zero.
    fn signed_over(self, divisor: i64) -> Self;
    /// Small differences of either sign as small numbers: 0, -1, 1, -2, 2 ...
    fn zigzag(self) -> Self;
    /// The inverse of zigzag.
    fn unzigzag(self) -> Self;
    /// How many bits it needs.
    fn length(self) -> u32;
    /// From little-endian bytes, exactly its own length.
    fn read(bytes: &[u8]) -> Self;
    /// To little-endian bytes, exactly its own length.
    fn write(self, bytes: &mut [u8]);
    /// Each word becomes the sum of itself and all before it, and of `before`.
    fn sum_up(words: &mut [Self; 1024], before: Self);
}

macro_rules! word {
    ($T:ident, $Signed:ident) => {
        impl Word for $T {
            const BITS: u32 = $T::BITS;
            const TOP: Self = 1 << ($T::BITS - 1);

            #[inline(always)]
            fn low(bits: u64) -> Self {
                bits as Self
            }
            #[inline(always)]
            fn wide(self) -> u64 {
                u64::from(self)
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn signed_over(self, divisor: i64) -> Self {
                (i64::from(self as $Signed) / divisor) as Self
            }
            #[inline(always)]
            fn zigzag(self) -> Self {
                (self << 1) ^ ((self as $Signed >> ($T::BITS - 1)) as Self)
            }
            #[inline(always)]
            fn unzigzag(self) -> Self {
                (self >> 1) ^ (self & 1).wrapping_neg()
            }
            #[inline(always)]
            fn length(self) -> u32 {
                $T::BITS - self.leading_zeros()
            }
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$T>()];
                own.copy_from_slice(bytes);
                Self::from_le_bytes(own)
            }
            #[inline(always)]
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
            #[inline(always)]
            fn sum_up(words: &mut [Self; 1024], before: Self) {
                super::sum::$T(words, before);
            }
        }
    };
}

word!(u8, i8);
word!(u16, i16);
word!(u32, i32);
word!(u64, i64);
