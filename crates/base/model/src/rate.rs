//! Sample rates, and the only conversion between sample numbers and times.
//!
//! Sample numbers are absolute: sample `n` of a channel with the rate `num/den` Hz is at
//! `n * den / num` seconds since its time scale's epoch. A time in whole nanoseconds is that number
//! rounded down. Everything here is exact, in 128-bit integers; results beyond 64 bits become
//! `u64::MAX`, so numbers from files cannot overflow.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Samples per second, as a fraction in lowest terms: 16,384 Hz, 1/60 Hz.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "(u64, u64)", into = "(u64, u64)")]
pub struct SampleRate {
    num: u64,
    den: u64,
}

/// An impossible rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// Numerator or denominator out of range.
    #[error("a sample rate of {num}/{den} Hz: both numbers must be from 1 to 2^40")]
    Range {
        /// Numerator.
        num: u64,
        /// Denominator.
        den: u64,
    },
    /// A text that is not a rate.
    #[error(
        "expected a sample rate such as \"16384 Hz\", \"1/60 Hz\" or \"16.384 kHz\", got {0:?}"
    )]
    Text(String),
}

impl SampleRate {
    /// `num / den` Hz.
    ///
    /// # Errors
    /// If one of them is 0 or above 2^40.
    pub const fn new(num: u64, den: u64) -> Result<Self, RateError> {
        if num == 0 || den == 0 || num > PART_MAX || den > PART_MAX {
            return Err(RateError::Range { num, den });
        }
        let divisor = gcd(num, den);
        Ok(Self { num: num / divisor, den: den / divisor })
    }

    /// The numerator, in lowest terms.
    pub const fn num(self) -> u64 {
        self.num
    }

    /// The denominator, in lowest terms.
    pub const fn den(self) -> u64 {
        self.den
    }

    /// The rate in Hz, as the nearest float.
    pub fn hz(self) -> f64 {
        self.num as f64 / self.den as f64
    }

    /// Time of a sample in nanoseconds since the epoch, rounded down.
    pub const fn time_ns(self, sample: u64) -> u64 {
        // Whole seconds first: sample * den fits into 104 bits, but its product with 10^9 does not.
        let ticks = sample as u128 * self.den as u128;
        let (seconds, rest) = (ticks / self.num as u128, ticks % self.num as u128);
        if seconds > u64::MAX as u128 {
            return u64::MAX;
        }
        narrow(seconds * NS_PER_S + rest * NS_PER_S / self.num as u128)
    }

    /// The times of consecutive samples, as from [`SampleRate::time_ns`], without a division for
    /// each.
    pub fn times_ns(self, first: u64) -> impl Iterator<Item = u64> {
        let (num, step) = (u128::from(self.num), u128::from(self.den) * NS_PER_S);
        let (whole, part) = (narrow(step / num), (step % num) as u64);
        let ticks = u128::from(first) * u128::from(self.den) % num;
        let begin = (self.time_ns(first), (ticks * NS_PER_S % num) as u64);
        std::iter::successors(Some(begin), move |&(time, rest)| {
            let rest = rest + part;
            let (carry, rest) = if rest < self.num { (0, rest) } else { (1, rest - self.num) };
            Some((time.saturating_add(whole).saturating_add(carry), rest))
        })
        .map(|(time, _)| time)
    }

    /// The first sample whose time is not before `time_ns`.
    pub const fn first_sample_at(self, time_ns: u64) -> u64 {
        let ticks = time_ns as u128 * self.num as u128;
        narrow(ticks.div_ceil(self.den as u128 * NS_PER_S))
    }

    /// The samples of slice `slice` of a time divided into slices of `slice_ns`: those from
    /// `slice * slice_ns` up to the next slice. There may be none.
    pub const fn samples_of_slice(self, slice: u64, slice_ns: u64) -> Range<u64> {
        let start = slice.saturating_mul(slice_ns);
        self.first_sample_at(start)..self.first_sample_at(start.saturating_add(slice_ns))
    }
}

impl fmt::Display for SampleRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.den {
            1 => write!(f, "{} Hz", self.num),
            den => write!(f, "{}/{den} Hz", self.num),
        }
    }
}

impl FromStr for SampleRate {
    type Err = RateError;

    /// Reads `16384`, `1/60`, `16.384 kHz`; without a unit the number is in Hz.
    fn from_str(text: &str) -> Result<Self, RateError> {
        let error = || RateError::Text(text.chars().take(64).collect());
        let trimmed = text.trim();
        let end = trimmed.find(|c: char| !(c.is_ascii_digit() || "._/".contains(c)));
        let (number, unit) = trimmed.split_at(end.unwrap_or(trimmed.len()));
        let units = [("", 1, 1), ("Hz", 1, 1), ("kHz", 1_000, 1), ("MHz", 1_000_000, 1)];
        let units = units.into_iter().chain([("GHz", 1_000_000_000, 1), ("mHz", 1, 1_000)]);
        let (_, up, down) =
            units.into_iter().find(|(name, _, _)| *name == unit.trim()).ok_or_else(error)?;
        let (num, den) = number.split_once('/').unwrap_or((number, "1"));
        let ((num, num_scale), (den, den_scale)) =
            decimal(num).zip(decimal(den)).ok_or_else(error)?;
        // At most 10^12 * 10^12 * 10^9: far below 128 bits.
        let num = u128::from(num) * u128::from(den_scale) * up;
        let den = u128::from(den) * u128::from(num_scale) * down;
        if num == 0 || den == 0 {
            return Err(error());
        }
        let divisor = gcd_wide(num, den);
        let narrow = |part: u128| u64::try_from(part / divisor).map_err(|_| error());
        Self::new(narrow(num)?, narrow(den)?)
    }
}

impl TryFrom<(u64, u64)> for SampleRate {
    type Error = RateError;

    fn try_from((num, den): (u64, u64)) -> Result<Self, RateError> {
        Self::new(num, den)
    }
}

impl From<SampleRate> for (u64, u64) {
    fn from(rate: SampleRate) -> Self {
        (rate.num, rate.den)
    }
}

/// A decimal number as a whole number and the power of ten that divides it; at most 12 digits.
fn decimal(text: &str) -> Option<(u64, u64)> {
    let text = text.replace('_', "");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{whole}{fraction}");
    if whole.is_empty() || digits.len() > 12 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((digits.parse().ok()?, 10u64.pow(fraction.len() as u32)))
}

const fn gcd(a: u64, b: u64) -> u64 {
    gcd_wide(a as u128, b as u128) as u64
}

const fn gcd_wide(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

const fn narrow(value: u128) -> u64 {
    if value > u64::MAX as u128 { u64::MAX } else { value as u64 }
}

const PART_MAX: u64 = 1 << 40;
const NS_PER_S: u128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(num: u64, den: u64) -> SampleRate {
        SampleRate::new(num, den).expect("a rate")
    }

    /// 2025-06-15, as nanoseconds since 1970.
    const NOW_NS: u64 = 1_750_000_000_123_456_789;

    fn rates() -> Vec<SampleRate> {
        let simple = [16_384, 4_096, 2_048, 256, 16, 1, 1_000_000, 44_100].map(|hz| rate(hz, 1));
        let fractions = [(1, 60), (1, 3_600), (10, 3), (1_000_003, 7), (1 << 40, 1 << 20)];
        simple.into_iter().chain(fractions.map(|(num, den)| rate(num, den))).collect()
    }

    #[test]
    fn times_that_follow_each_other_are_those_of_each_alone() {
        for rate in rates() {
            for first in [0, 1, 7, rate.first_sample_at(NOW_NS), u64::MAX / 3] {
                let times: Vec<u64> = rate.times_ns(first).take(2_000).collect();
                let each = (first..first + 2_000).map(|sample| rate.time_ns(sample));
                assert!(each.eq(times), "{rate} from {first}");
            }
        }
    }

    #[test]
    fn times_of_samples_are_exact_and_rounded_down() {
        assert_eq!(rate(16_384, 1).time_ns(1), 61_035);
        assert_eq!(rate(16_384, 1).time_ns(16_384 * 1_400_000_000), 1_400_000_000_000_000_000);
        assert_eq!(rate(1, 60).time_ns(29_166_666), 1_749_999_960_000_000_000);
        assert_eq!(rate(1_000_000, 1).time_ns(1_750_000_000_000_001), 1_750_000_000_000_001_000);
        assert_eq!(rate(3, 1).time_ns(1), 333_333_333);
        assert_eq!(rate(3, 1).time_ns(2), 666_666_666);
        assert_eq!(rate(3, 1).time_ns(3), 1_000_000_000);
    }

    #[test]
    fn the_first_sample_at_a_time_is_the_first_not_before_it() {
        for rate in rates() {
            for time_ns in [0, 1, 999_999_999, NOW_NS, NOW_NS + 1, 4_000_000_000_000_000_000] {
                let first = rate.first_sample_at(time_ns);
                assert!(rate.time_ns(first) >= time_ns, "{rate} at {time_ns}");
                if let Some(before) = first.checked_sub(1) {
                    assert!(rate.time_ns(before) < time_ns, "{rate} at {time_ns}");
                }
            }
            for sample in [0, 1, 77, rate.first_sample_at(NOW_NS)] {
                // Rates up to 1 GHz have at most one sample per nanosecond.
                assert_eq!(rate.first_sample_at(rate.time_ns(sample)), sample, "{rate}");
            }
        }
    }

    #[test]
    fn slices_share_the_samples_out_without_gap_or_overlap() {
        for rate in rates() {
            for slice_ns in [1_000_000, 62_500_000, 333_333_333, 1_000_000_000] {
                let first = NOW_NS / slice_ns;
                let mut next = rate.samples_of_slice(first, slice_ns).start;
                for slice in first..first + 1_000 {
                    let samples = rate.samples_of_slice(slice, slice_ns);
                    assert_eq!(samples.start, next, "{rate}, {slice_ns} ns");
                    let ends = [samples.start, samples.end.saturating_sub(1)];
                    let own = |n: u64| rate.time_ns(n) / slice_ns == slice;
                    assert!(samples.is_empty() || ends.into_iter().all(own));
                    next = samples.end;
                }
            }
        }
        assert_eq!(rate(16_384, 1).samples_of_slice(7, 62_500_000), 7_168..8_192);
        assert!(rate(1, 60).samples_of_slice(61, 1_000_000_000).is_empty());
    }

    #[test]
    fn numbers_beyond_64_bits_saturate() {
        let slowest = rate(1, 1 << 40);
        assert_eq!(slowest.time_ns(u64::MAX), u64::MAX);
        assert_eq!(slowest.first_sample_at(u64::MAX), 1);
        let fastest = rate(1 << 40, 1);
        assert_eq!(fastest.first_sample_at(u64::MAX), u64::MAX);
        assert_eq!(fastest.time_ns(u64::MAX), 16_777_215_999_999_999);
        assert!(fastest.samples_of_slice(u64::MAX, u64::MAX).is_empty());
    }

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, num, den) in [
            ("16384", 16_384, 1),
            ("16384 Hz", 16_384, 1),
            ("1/60", 1, 60),
            ("1/60 Hz", 1, 60),
            ("16.384 kHz", 16_384, 1),
            (" 1MHz ", 1_000_000, 1),
            ("44_100.5 Hz", 88_201, 2),
            ("0.5", 1, 2),
            ("10/4 mHz", 1, 400),
            ("2/4", 1, 2),
        ] {
            assert_eq!(text.parse(), Ok(rate(num, den)), "{text:?}");
        }
        for bad in ["", "Hz", "0", "1/0", "-1", "1e3", "1//2", "1/2/3", ".5", "1.2.3", "9999 GHz"] {
            assert!(bad.parse::<SampleRate>().is_err(), "{bad:?}");
        }
        for shown in rates() {
            assert_eq!(shown.to_string().parse(), Ok(shown));
        }
        assert_eq!(rate(1, 60).to_string(), "1/60 Hz");
        assert_eq!(rate(32_768, 2).to_string(), "16384 Hz");
    }

    #[test]
    fn rates_without_meaning_are_refused() {
        for (num, den) in [(0, 1), (1, 0), (1 << 40 | 1, 1), (1, 1 << 40 | 1)] {
            assert_eq!(SampleRate::new(num, den), Err(RateError::Range { num, den }));
        }
        assert!((rate(1, 60).hz() - 1.0 / 60.0).abs() < 1e-15);
    }
}
