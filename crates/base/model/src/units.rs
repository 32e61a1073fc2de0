//! Quantities as people write and read them: `32 MiB`, `1.5 s`, `4.5 M/s`.
//!
//! Configurations use [`Size`] and [`Time`] to read the plain number that a field holds:
//! `#[serde(deserialize_with = "Size::read")]`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// Reads a size: a number and B, kB, MB, GB, TB (powers of 1,000) or KiB, MiB, GiB, TiB.
///
/// # Errors
/// A text that is not a size, or a size beyond 64 bits.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    parse(
        text,
        "a size such as \"32 MiB\" or \"1.5 GB\"",
        &[
            ("", 1.0),
            ("B", 1.0),
            ("kB", 1e3),
            ("MB", 1e6),
            ("GB", 1e9),
            ("TB", 1e12),
            ("KiB", 1024.0),
            ("MiB", 1_048_576.0),
            ("GiB", 1_073_741_824.0),
            ("TiB", 1_099_511_627_776.0),
        ],
    )
}

/// Reads a duration in nanoseconds: a number and ns, us, ms, s, min or h.
///
/// # Errors
/// A text that is not a duration, or a duration beyond 64 bits of nanoseconds.
pub fn parse_duration_ns(text: &str) -> Result<u64, UnitError> {
    parse(
        text,
        "a duration such as \"500 ms\" or \"1.5 s\"",
        &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3_600e9)],
    )
}

/// A whole number with thousands separators: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things whose plural ends in s: `1 source`, `4,096 sources`.
pub fn counted(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", grouped(number))
}

/// A quantity that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, got {got:?}")]
pub struct UnitError {
    /// What was expected.
    pub expected: &'static str,
    /// The text as written.
    pub got: String,
}

/// Bytes as written: `"32 MiB"`, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

/// Nanoseconds as written: `"1 s"`. Never a bare number, which would not show its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub u64);

/// A duration that may be negative, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset(pub i64);

impl Size {
    /// Reads a size into a number of bytes.
    ///
    /// # Errors
    /// The value is not a size.
    pub fn read<'de, T: From<Self>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        Self::deserialize(deserializer).map(T::from)
    }
}

impl Time {
    /// Reads a duration into a number of nanoseconds, or a [`Duration`].
    ///
    /// # Errors
    /// The value is not a duration with its unit.
    pub fn read<'de, T: From<Self>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        Self::deserialize(deserializer).map(T::from)
    }
}

impl Offset {
    /// Reads an offset into a number of nanoseconds.
    ///
    /// # Errors
    /// The value is not a duration with its unit.
    pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        Self::deserialize(deserializer).map(|offset| offset.0)
    }
}

impl FromStr for Size {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_bytes(text).map(Self)
    }
}

impl FromStr for Time {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse_duration_ns(text).map(Self)
    }
}

impl FromStr for Offset {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (size, is_negative) = match text.trim().strip_prefix('-') {
            Some(size) => (size, true),
            None => (text, false),
        };
        let ns = i64::try_from(parse_duration_ns(size)?).unwrap_or(i64::MAX);
        Ok(Self(if is_negative { -ns } else { ns }))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a size such as \"32 MiB\", or a number of bytes";
        deserialize_text(deserializer, expected, |bytes| u64::try_from(bytes).ok().map(Self))
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a duration with its unit, such as \"500 ms\"";
        deserialize_text(deserializer, expected, |_| None)
    }
}

impl<'de> Deserialize<'de> for Offset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a duration with its unit, such as \"-120 ns\"";
        deserialize_text(deserializer, expected, |_| None)
    }
}

impl From<Size> for u64 {
    fn from(size: Size) -> Self {
        size.0
    }
}

impl From<Size> for usize {
    fn from(size: Size) -> Self {
        Self::try_from(size.0).unwrap_or(Self::MAX)
    }
}

impl From<Size> for f64 {
    fn from(size: Size) -> Self {
        size.0 as Self
    }
}

impl From<Time> for u64 {
    fn from(time: Time) -> Self {
        time.0
    }
}

impl From<Time> for Option<u64> {
    fn from(time: Time) -> Self {
        Some(time.0)
    }
}

impl From<Time> for Duration {
    fn from(time: Time) -> Self {
        Self::from_nanos(time.0)
    }
}

/// In the largest unit that gives a whole number: `20 ms`.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(&str, u64); 5] = [
            ("h", 3_600_000_000_000),
            ("min", 60_000_000_000),
            ("s", 1_000_000_000),
            ("ms", 1_000_000),
            ("us", 1_000),
        ];
        let whole = UNITS.iter().find(|(_, ns)| self.0 > 0 && self.0.is_multiple_of(*ns));
        let (unit, ns) = *whole.unwrap_or(&("ns", 1));
        write!(f, "{} {unit}", self.0 / ns)
    }
}

/// Reads a value written as text, or as an integer if `integer` accepts it. `expected` describes
/// the right form for the error.
///
/// The text's own error, or that it is neither.
/// The text's own error, or that it is neither.
pub fn deserialize_text<'de, T, D>(
    deserializer: D,
    expected: &'static str,
    integer: fn(i64) -> Option<T>,
) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    deserializer.deserialize_any(Text { expected, integer })
}

struct Text<T> {
    expected: &'static str,
    integer: fn(i64) -> Option<T>,
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        let refused = || E::invalid_value(Unexpected::Signed(number), &self);
        (self.integer)(number).ok_or_else(refused)
    }
}

/// Bytes, shown with three digits: `1.27 GB`.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&scaled(self.0 as f64, &["B", "kB", "MB", "GB", "TB", "PB"]))
    }
}

/// A count or a rate, shown with three digits: `4.50 M`.
#[derive(Clone, Copy, Debug)]
pub struct Count(pub f64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(scaled(self.0, &["", "k", "M", "G", "T", "P"]).trim_end())
    }
}

fn parse(text: &str, expected: &'static str, units: &[(&str, f64)]) -> Result<u64, UnitError> {
    let error = || UnitError { expected, got: text.chars().take(64).collect() };
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'));
    let (number, unit) = trimmed.split_at(digits.unwrap_or(trimmed.len()));
    let &(_, scale) = units.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(error)?;
    let number: f64 = number.replace('_', "").parse().map_err(|_| error())?;
    let value = (number * scale).round();
    if value.is_finite() && value < u64::MAX as f64 { Ok(value as u64) } else { Err(error()) }
}

fn scaled(value: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= 999.5 && unit + 1 < units.len() {
        value /= 1_000.0;
        unit += 1;
    }
    let digits = match value.abs() {
        v if unit == 0 && v.fract() == 0.0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", units[unit])
}

/// The share of a part in the whole, in percent, rounded up: only nothing is 0 %.
pub fn percent_of(part: u64, whole: u64) -> u64 {
    (u128::from(part) * 100).div_ceil(u128::from(whole.max(1))).min(100) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_counted_in_their_number() {
        let texts = [0, 1, 4_096].map(|number| counted(number, "source"));
        assert_eq!(texts, ["0 sources", "1 source", "4,096 sources"]);
    }

    #[test]
    fn sizes_and_durations_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("32 MiB"), Ok(32 << 20));
        assert_eq!(parse_bytes("1.5kB"), Ok(1_500));
        assert_eq!(parse_bytes("4_096"), Ok(4_096));
        assert_eq!(parse_duration_ns("1.5 s"), Ok(1_500_000_000));
        assert_eq!(parse_duration_ns("10us"), Ok(10_000));
        for bad in ["", "MiB", "1 mib", "-1 B", "1e3 B", "99999999999 TiB", "1.2.3 B"] {
            assert!(parse_bytes(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times_are_shown_as_people_write_them() {
        let times = [0, 1_500, 20_000_000, 90_000_000_000, 7_200_000_000_000];
        let shown = times.map(|ns| Time(ns).to_string());
        assert_eq!(shown, ["0 ns", "1500 ns", "20 ms", "90 s", "2 h"]);
    }

    #[test]
    fn quantities_show_three_digits() {
        assert_eq!(Bytes(1_271_000_000).to_string(), "1.27 GB");
        assert_eq!(Bytes(999).to_string(), "999 B");
        assert_eq!(Bytes(999_999).to_string(), "1.00 MB");
        assert_eq!(Count(4_500_000.0).to_string(), "4.50 M");
        assert_eq!(Count(0.0).to_string(), "0");
    }

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }

    #[test]
    fn only_nothing_is_no_percent() {
        assert_eq!([percent_of(0, 7), percent_of(1, 1_000), percent_of(9, 3)], [0, 1, 100]);
    }
}
