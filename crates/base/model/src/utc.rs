//! Moments as people write them: `2026-11-21T07:42:23.125Z` (RFC 3339, UTC).

use std::fmt;

use serde::{Serialize, Serializer};

/// Nanoseconds since 1970, UTC. Shown to the millisecond; in JSON a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Utc(pub u64);

/// A text that is no moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a time such as 2026-11-21, 2026-11-21T07:42 or 2026-11-21T07:42:23Z, got {got:?}"
)]
pub struct ParseUtcError {
    /// The text's beginning.
    pub got: String,
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, ms) = (self.0 / NS_PER_S, self.0 % NS_PER_S / 1_000_000);
        let (days, second) = (seconds / S_PER_DAY, seconds % S_PER_DAY);
        let (year, month, day) = date_of(days);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        f.pad(&format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"))
    }
}

impl std::str::FromStr for Utc {
    type Err = ParseUtcError;

    /// A date, or a date and a time of day with or without seconds and their fraction. Without `Z`
    /// or an offset (`+01:00`) it is UTC. These are bounds of a search: what is before 1970 becomes
    /// 0, what 64 bits do not hold `u64::MAX`, so that `9999-12-31` is an open end.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (ns, _) = parse_date(text)?;
        Ok(Self(ns.clamp(0, i128::from(u64::MAX)) as u64))
    }
}

impl ParseUtcError {
    pub(crate) fn of(text: &str) -> Self {
        Self { got: text.chars().take(64).collect() }
    }
}

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Nanoseconds from 1970 to a date, of days that have 86,400 seconds, as UTC where the text names
/// an offset; and whether it does.
pub(crate) fn parse_date(text: &str) -> Result<(i128, bool), ParseUtcError> {
    parse(text.trim()).ok_or_else(|| ParseUtcError::of(text))
}

fn parse(text: &str) -> Option<(i128, bool)> {
    if !text.is_ascii() {
        return None;
    }
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let days = days_until(year, month, day)?;
    let (of_day_ns, offset_s) = match time {
        None => (0, None),
        Some(time) => {
            let (time, offset_s) = split_offset(time)?;
            (time_of_day_ns(time)?, offset_s)
        }
    };
    let local = i128::from(days) * i128::from(S_PER_DAY * NS_PER_S) + i128::from(of_day_ns);
    let ns = local - i128::from(offset_s.unwrap_or(0)) * i128::from(NS_PER_S);
    Some((ns, offset_s.is_some()))
}

/// A time of day without its offset, and the offset in seconds if there is one.
fn split_offset(text: &str) -> Option<(&str, Option<i64>)> {
    if let Some(time) = text.strip_suffix(['Z', 'z']) {
        return Some((time, Some(0)));
    }
    let Some(at) = text.find(['+', '-']) else { return Some((text, None)) };
    let [hours, minutes] = numbers(&text[at + 1..], ':', [2, 2])?;
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = (hours * 3_600 + minutes * 60) as i64;
    Some((&text[..at], Some(if text[at..].starts_with('-') { -seconds } else { seconds })))
}

fn time_of_day_ns(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let [hour, minute, second] = match whole.len() {
        5 if whole == text => {
            let [hour, minute] = numbers(whole, ':', [2, 2])?;
            [hour, minute, 0]
        }
        _ => numbers(whole, ':', [2, 2, 2])?,
    };
    let digits = fraction.len();
    let is_number = (1..=9).contains(&digits) && fraction.bytes().all(|b| b.is_ascii_digit());
    // A leap second has the POSIX time of the second after it.
    if hour > 23 || minute > 59 || second > 60 || !is_number {
        return None;
    }
    let fraction_ns = fraction.parse::<u64>().ok()? * 10_u64.pow(9 - digits as u32);
    Some((hour * 3_600 + minute * 60 + second) * NS_PER_S + fraction_ns)
}

/// Numbers of so many digits each.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[u64; N]> {
    let mut found = [0; N];
    let mut parts = text.split(between);
    for (number, digits) in found.iter_mut().zip(digits) {
        let part = parts.next()?;
        if part.len() != digits || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(found)
}

/// Days from 1970-01-01 until a date of the Gregorian calendar; before it, fewer than none.
fn days_until(year: u64, month: u64, day: u64) -> Option<i64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if year == 0 || !(1..=12).contains(&month) || !(1..=last).contains(&day) {
        return None;
    }
    // Years that begin in March, so that the leap day is a year's last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400;
    Some((days + (153 * month + 2) / 5 + day - 1) as i64 - DAYS_UNTIL_1970 as i64)
}

/// Year, month and day.
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_UNTIL_1970;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (era * 400 + year, month + 3);
    if month > 12 { (year + 1, month - 12, day) } else { (year, month, day) }
}

const NS_PER_S: u64 = 1_000_000_000;
const S_PER_DAY: u64 = 86_400;
/// From March of the year 0.
const DAYS_UNTIL_1970: u64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_until_the_year_2400_survives_its_text() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..157_000 {
            let ns = days * S_PER_DAY * NS_PER_S;
            assert_eq!(date_of(days), (year, month, day));
            assert_eq!(format!("{year:04}-{month:02}-{day:02}").parse(), Ok(Utc(ns)));
            day += 1;
            if days_until(year, month, day).is_none() {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        assert_eq!(year, 2399);
    }

    #[test]
    fn moments_are_read_as_people_write_them() {
        let ns = 1_795_246_943_125_000_000;
        assert_eq!(Utc(ns).to_string(), "2026-11-21T07:42:23.125Z");
        for same in [
            "2026-11-21T07:42:23.125Z",
            "2026-11-21 07:42:23.125",
            "2026-11-21t08:42:23.125000000+01:00",
            "2026-11-20T23:12:23.125-08:30",
        ] {
            assert_eq!(same.parse(), Ok(Utc(ns)), "{same}");
        }
        assert_eq!("1970-01-01T00:01".parse(), Ok(Utc(60 * NS_PER_S)));
        assert_eq!("2016-12-31T23:59:60Z".parse::<Utc>(), "2017-01-01".parse());
        let last = Utc(u64::MAX).to_string();
        assert_eq!(last.parse(), Ok(Utc(u64::MAX / 1_000_000 * 1_000_000)));
    }

    #[test]
    fn what_64_bits_do_not_hold_is_an_open_end() {
        for late in ["2999-01-01", "9999-12-31", "9999-12-31T23:59:59-23:00"] {
            assert_eq!(late.parse(), Ok(Utc(u64::MAX)), "{late}");
        }
        for early in ["0001-01-01", "1969-12-31", "1970-01-01T00:00:00+01:00"] {
            assert_eq!(early.parse(), Ok(Utc(0)), "{early}");
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for bad in [
            "",
            "now",
            "2026-11",
            "2026-13-01",
            "2026-02-29",
            "2026-11-21T",
            "2026-11-21T7:42",
            "2026-11-21T07:42.5",
            "2026-11-21T24:00:00",
            "2026-11-21T07:42:23.",
            "2026-11-21T07:42:23+1:00",
            "2026-11-21T07:42:23+24:00",
            "2026-11-21T07:42:23Zulu",
            "+026-11-21",
            "2026-11-2\u{661}",
        ] {
            assert!(bad.parse::<Utc>().is_err(), "{bad:?}");
        }
    }
}
