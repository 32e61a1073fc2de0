//! The types that samples have, read from little-endian bytes wherever they lie.

use crate::kernel::BLOCK_SAMPLES;

/// A raw sample. Minimum and maximum are found among [`Element::Key`]s, which is quicker than among
/// `f64` and gives the same: scale and offset, and the rounding to `f64`, keep the order.
pub(crate) trait Element: Copy {
    /// The sample's bytes.
    type Raw: Copy;
    /// What samples are ordered by.
    type Key: Copy + PartialOrd;
    /// Above, or equal to, every key.
    const HIGHEST: Self::Key;
    /// Below, or equal to, every key.
    const LOWEST: Self::Key;

    fn split(bytes: &[u8]) -> &[Self::Raw];
    fn load(raw: Self::Raw) -> Self;
    /// The value: `raw * scale + offset`, of complex numbers the magnitude of that.
    fn value<const SCALED: bool>(self, scale: f64, offset: f64) -> f64;
    fn key(self, value: f64) -> Self::Key;
    /// The smallest and largest value from the smallest and largest key.
    fn extremes<const SCALED: bool>(
        keys: (Self::Key, Self::Key),
        scale: f64,
        offset: f64,
    ) -> (f64, f64);
    /// Whether samples between these keys can be at a limit.
    fn may_saturate(keys: (Self::Key, Self::Key), limits: (f64, f64)) -> bool;
    /// Whether the sample is at a limit, which is one of raw samples.
    fn saturates(self, limits: (f64, f64)) -> bool;

    /// The exact sums of a block of raw samples, of types where that is quicker than through `f64`.
    #[inline(always)]
    fn exact(_samples: &[Self::Raw]) -> Option<Exact<Self>> {
        None
    }
}

/// Exact sums of raw samples, with the smallest and largest key.
pub(crate) struct Exact<E: Element> {
    pub sum: i64,
    pub squares: i64,
    pub keys: (E::Key, E::Key),
}

/// Sums of a block's squares fit into 32 bits when their lower and upper halves are summed apart.
/// No lanes here: the compiler may add integers in any order, and takes what the CPU has.
macro_rules! exact {
    ($number:ty, $wide:ty) => {
        #[inline(always)]
        fn exact(samples: &[Self::Raw]) -> Option<Exact<Self>> {
            const { assert!(BLOCK_SAMPLES << 16 <= 1 << 31) };
            let (mut sum, mut low, mut high): ($wide, u32, u32) = (0, 0, 0);
            let mut keys = (Self::HIGHEST, Self::LOWEST);
            for raw in samples {
                let sample = Self::load(*raw);
                keys = (keys.0.min(sample), keys.1.max(sample));
                let wide = <$wide>::from(sample);
                let square = wide.wrapping_mul(wide) as u32;
                sum = sum.wrapping_add(wide);
                low = low.wrapping_add(square & 0xffff);
                high = high.wrapping_add(square >> 16);
            }
            let squares = (i64::from(high) << 16) + i64::from(low);
            Some(Exact { sum: i64::from(sum), squares, keys })
        }
    };
}

macro_rules! real {
    ($($number:ty, $bytes:literal, $highest:expr, $lowest:expr $(, $wide:ty)?;)*) => {
        $(impl Element for $number {
            type Raw = [u8; $bytes];
            type Key = $number;
            const HIGHEST: $number = $highest;
            const LOWEST: $number = $lowest;

            #[inline(always)]
            fn split(bytes: &[u8]) -> &[Self::Raw] {
                bytes.as_chunks().0
            }

            #[inline(always)]
            fn load(raw: Self::Raw) -> Self {
                <$number>::from_le_bytes(raw)
            }

            #[inline(always)]
            fn value<const SCALED: bool>(self, scale: f64, offset: f64) -> f64 {
                if SCALED { self as f64 * scale + offset } else { self as f64 }
            }

            #[inline(always)]
            fn key(self, _value: f64) -> Self::Key {
                self
            }

            #[inline(always)]
            fn extremes<const SCALED: bool>(
                keys: (Self::Key, Self::Key),
                scale: f64,
                offset: f64,
            ) -> (f64, f64) {
                let first = keys.0.value::<SCALED>(scale, offset);
                let second = keys.1.value::<SCALED>(scale, offset);
                if scale < 0.0 { (second, first) } else { (first, second) }
            }

            #[inline(always)]
            fn may_saturate(keys: (Self::Key, Self::Key), limits: (f64, f64)) -> bool {
                keys.0 as f64 <= limits.0 || keys.1 as f64 >= limits.1
            }

            #[inline(always)]
            fn saturates(self, limits: (f64, f64)) -> bool {
                (self as f64 <= limits.0) | (self as f64 >= limits.1)
            }

            $(exact!($number, $wide);)?
        })*
    };
}

real! {
    u8, 1, u8::MAX, u8::MIN, u32;
    u16, 2, u16::MAX, u16::MIN, u32;
    u32, 4, u32::MAX, u32::MIN;
    u64, 8, u64::MAX, u64::MIN;
    i8, 1, i8::MAX, i8::MIN, i32;
    i16, 2, i16::MAX, i16::MIN, i32;
    i32, 4, i32::MAX, i32::MIN;
    i64, 8, i64::MAX, i64::MIN;
    f32, 4, f32::INFINITY, f32::NEG_INFINITY;
    f64, 8, f64::INFINITY, f64::NEG_INFINITY;
}

/// A complex number of two parts, the real one first.
#[derive(Clone, Copy)]
pub(crate) struct Complex<P>(P, P);

macro_rules! complex {
    ($($part:ty, $bytes:literal, $both:literal;)*) => {
        $(impl Element for Complex<$part> {
            type Raw = [u8; $both];
            type Key = f64;
            const HIGHEST: f64 = f64::INFINITY;
            const LOWEST: f64 = f64::NEG_INFINITY;

            #[inline(always)]
            fn split(bytes: &[u8]) -> &[Self::Raw] {
                bytes.as_chunks().0
            }

            #[inline(always)]
            fn load(raw: Self::Raw) -> Self {
                let (parts, _) = raw.as_chunks();
                Self(<$part>::from_le_bytes(parts[0]), <$part>::from_le_bytes(parts[1]))
            }

            #[inline(always)]
            fn value<const SCALED: bool>(self, scale: f64, offset: f64) -> f64 {
                let real = self.0.value::<SCALED>(scale, offset);
                let imaginary = if SCALED { self.1 as f64 * scale } else { self.1 as f64 };
                (real * real + imaginary * imaginary).sqrt()
            }

            #[inline(always)]
            fn key(self, value: f64) -> Self::Key {
                value
            }

            #[inline(always)]
            fn extremes<const SCALED: bool>(keys: (f64, f64), _: f64, _: f64) -> (f64, f64) {
                keys
            }

            #[inline(always)]
            fn may_saturate(_keys: (f64, f64), _limits: (f64, f64)) -> bool {
                true
            }

            #[inline(always)]
            fn saturates(self, limits: (f64, f64)) -> bool {
                self.0.saturates(limits) | self.1.saturates(limits)
            }
        })*
    };
}

complex! {
    f32, 4, 8;
    f64, 8, 16;
}
