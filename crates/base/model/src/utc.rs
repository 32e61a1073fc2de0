//! Times as people write them: `2026-11-21T07:42:23.125Z` (RFC 3339, UTC).

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
use serde::{Serialize, Serializer};

/// Nanoseconds since 1970, UTC. Displayed to the millisecond; text in JSON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Utc(pub u64);

/// A text that is not a time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected a time such as 2026-11-21, 2026-11-21T07:42 or 2026-11-21T07:42:23Z, got {got:?}"
)]
pub struct ParseUtcError {
    /// The text's beginning.
    pub got: String,
}

impl Utc {
    /// The time to the second without separators: `20261121-074223`, as in folder names.
    pub fn compact(self) -> String {
        self.timestamp().strftime("%Y%m%d-%H%M%S").to_string()
    }

    fn timestamp(self) -> Timestamp {
        Timestamp::from_nanosecond(i128::from(self.0)).expect("64 bits end in the year 2554")
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.timestamp().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string())
    }
}

impl std::str::FromStr for Utc {
    type Err = ParseUtcError;

    /// A date, or a date and a time of day with or without seconds and their fraction. Without `Z`
    /// or an offset (`+01:00`) it is UTC. These are bounds of a search: times before 1970 become 0,
    /// those beyond 64 bits `u64::MAX`, so `9999-12-31` is an open end.
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

/// Nanoseconds from 1970 to a date, with days of 86,400 seconds, in UTC if the text has an offset;
/// and whether it does.
pub(crate) fn parse_date(text: &str) -> Result<(i128, bool), ParseUtcError> {
    parse(text.trim()).ok_or_else(|| ParseUtcError::of(text))
}

fn parse(text: &str) -> Option<(i128, bool)> {
    let pieces = Pieces::parse(text).ok()?;
    // A zone's name would add to its offset, or contradict it.
    if pieces.time_zone_annotation().is_some() {
        return None;
    }
    let date_time = pieces.date().to_datetime(pieces.time().unwrap_or_default());
    let offset_s = pieces.offset().map(|offset| offset.to_numeric_offset().seconds());
    let local = date_time.duration_since(EPOCH).as_nanos();
    // The library reads a leap second as the previous second; POSIX time uses the following one.
    let leap_s = i128::from(is_leap_second(text));
    let offset_s = i128::from(offset_s.unwrap_or(0));
    Some((local + (leap_s - offset_s) * NS_PER_S, pieces.offset().is_some()))
}

/// Whether a text that is a date and a time of day has second 60.
fn is_leap_second(text: &str) -> bool {
    let mut parts = text.splitn(3, ':').skip(2);
    parts.next().is_some_and(|seconds| seconds.starts_with("60"))
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);
const NS_PER_S: i128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_until_the_year_2400_survives_its_text() {
        for days in 0..157_000 {
            let midnight = Utc(days * 86_400 * 1_000_000_000);
            let text = midnight.to_string();
            assert!(text.ends_with("T00:00:00.000Z"), "{text}");
            assert_eq!([text[..10].parse(), text.parse()], [Ok(midnight), Ok(midnight)]);
        }
    }

    #[test]
    fn moments_are_read_as_people_write_them() {
        let ns = 1_795_246_943_125_000_000;
        assert_eq!(Utc(ns).to_string(), "2026-11-21T07:42:23.125Z");
        assert_eq!(Utc(ns).compact(), "20261121-074223");
        for same in [
            "2026-11-21T07:42:23.125Z",
            "2026-11-21 07:42:23.125",
            "2026-11-21t08:42:23.125000000+01:00",
            "2026-11-20T23:12:23.125-08:30",
        ] {
            assert_eq!(same.parse(), Ok(Utc(ns)), "{same}");
        }
        assert_eq!("1970-01-01T00:01".parse(), Ok(Utc(60_000_000_000)));
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
            "2026-11-21T07:42:23+26:00",
            "2026-11-21T07:42:23+01:00[Europe/Berlin]",
            "2026-11-21T07:42:23Zulu",
            "+026-11-21",
            "2026-11-2\u{661}",
        ] {
            assert!(bad.parse::<Utc>().is_err(), "{bad:?}");
        }
    }
}
