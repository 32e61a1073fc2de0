//! Times as people write them, before their time scale is known: the bounds of a range.

use std::str::FromStr;

use crate::TimeScale;
use crate::utc::{ParseUtcError, parse_date};

/// A bound in time.
///
/// As text: nanoseconds of the scale (`1795246943125000000`), or a date with or without a time of
/// day (`2026-11-21`, `2026-11-21T07:42:23.125`). A date is in the scale's own calendar unless it
/// has an offset (`Z`, `+01:00`): then it is an instant in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nanoseconds since the scale's epoch.
    Ns(u64),
    /// Nanoseconds since 1970-01-01 in the scale's calendar, with days of 86,400 seconds.
    Date(i128),
    /// Nanoseconds since 1970-01-01, UTC, without leap seconds.
    Instant(i128),
}

impl Moment {
    /// The moment as a time of that scale, converted as by [`TimeScale::convert_ns`]. A time before
    /// the scale's epoch becomes 0, one beyond 64 bits `u64::MAX`. An instant before 1972, when UTC
    /// was not whole seconds from TAI, also becomes 0 in another scale.
    pub fn in_scale(self, scale: TimeScale) -> u64 {
        match self {
            Self::Ns(time_ns) => time_ns,
            Self::Date(ns) => clamp(ns - i128::from(scale.epoch_ns())),
            Self::Instant(ns) => match clamp(ns) {
                // An open end is open in every scale.
                u64::MAX => u64::MAX,
                // 10 s of TAI, where the table begins, would not be an open end.
                utc_ns if utc_ns < UTC_BEGINS_NS && scale != TimeScale::Utc => 0,
                utc_ns => TimeScale::Utc.convert_ns(scale, utc_ns),
            },
        }
    }
}

impl FromStr for Moment {
    type Err = ParseUtcError;

    fn from_str(text: &str) -> Result<Self, ParseUtcError> {
        let digits = text.trim();
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return digits.parse().map(Self::Ns).map_err(|_| ParseUtcError::of(text));
        }
        let (ns, has_offset) = parse_date(text)?;
        Ok(if has_offset { Self::Instant(ns) } else { Self::Date(ns) })
    }
}

/// 1972-01-01: since then UTC is whole seconds from TAI.
pub const UTC_BEGINS_NS: u64 = 63_072_000_000_000_000;

fn clamp(ns: i128) -> u64 {
    ns.clamp(0, i128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn at(text: &str, scale: TimeScale) -> u64 {
        let moment: Moment = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        moment.in_scale(scale)
    }

    #[test]
    fn a_date_is_one_of_the_scale_and_an_offset_makes_it_an_instant() {
        use TimeScale::{Gps, Tai, Utc};
        // 2024-05-17T16:53:02 UTC is GPS 1400000000.
        for (text, utc, tai, gps) in [
            ("2024-05-17T16:53:02Z", 1_715_964_782, 1_715_964_819, 1_400_000_000),
            ("2024-05-17 18:53:02+02:00", 1_715_964_782, 1_715_964_819, 1_400_000_000),
            ("2024-05-17T16:53:02", 1_715_964_782, 1_715_964_782, 1_399_999_982),
        ] {
            let found = [Utc, Tai, Gps].map(|scale| at(text, scale));
            assert_eq!(found, [utc * S, tai * S, gps * S], "{text}");
        }
        assert_eq!(at("1400000000000000007", Gps), 1_400_000_000_000_000_007);
    }

    #[test]
    fn what_is_out_of_range_is_the_end_of_the_range() {
        for scale in [TimeScale::Utc, TimeScale::Tai, TimeScale::Gps] {
            for text in ["9999-12-31", "9999-12-31T23:59:59Z", "2600-01-01T00:00:00-23:00"] {
                assert_eq!(at(text, scale), u64::MAX, "{text} {scale}");
            }
            assert_eq!(at("0001-01-01", scale), 0);
            assert_eq!(at("1969-12-31T23:59:59", scale), 0);
        }
        assert_eq!(at("1980-01-05", TimeScale::Gps), 0);
        for scale in [TimeScale::Tai, TimeScale::Gps] {
            for text in ["0001-01-01T00:00Z", "1970-01-01T00:00:00Z", "1971-12-31T23:59:59.9Z"] {
                assert_eq!(at(text, scale), 0, "{text} {scale}");
            }
        }
        assert_eq!(at("1972-01-01T00:00:00Z", TimeScale::Tai), UTC_BEGINS_NS + 10 * S);
        assert_eq!(at("1971-12-31T00:00:00Z", TimeScale::Utc), UTC_BEGINS_NS - 86_400 * S);
        for bad in ["", "now", "2026-11", "99999999999999999999", "-5"] {
            assert!(bad.parse::<Moment>().is_err(), "{bad:?}");
        }
    }
}
