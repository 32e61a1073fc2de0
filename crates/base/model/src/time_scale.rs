//! Time scales: TAI, UTC as in POSIX time, and GPS, and conversions between them.
//!
//! TAI and GPS count every second. POSIX time does not count leap seconds: it gives the second
//! 23:59:60 the number of the following second, so times within a leap second convert back from UTC
//! as that next second.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

crate::named! {
    /// The meaning of a count of nanoseconds.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    TimeScale {
        /// International atomic time, since 1970-01-01T00:00:00 TAI.
        #[default]
        Tai = "tai",
        /// POSIX time: since 1970-01-01T00:00:00 UTC, without leap seconds.
        Utc = "utc",
        /// GPS time, since 1980-01-06T00:00:00 UTC.
        Gps = "gps",
    }
}

impl TimeScale {
    /// The date of its zero: nanoseconds since 1970-01-01, with days of 86,400 seconds.
    pub const fn epoch_ns(self) -> u64 {
        match self {
            Self::Gps => GPS_EPOCH_NS,
            Self::Tai | Self::Utc => 0,
        }
    }

    /// That time of this scale in TAI. TAI is taken as 10 s ahead for times before 1972-01-01 UTC;
    /// a time that a scale cannot express becomes its nearest time.
    pub const fn to_tai_ns(self, time_ns: u64) -> u64 {
        match self {
            Self::Tai => time_ns,
            Self::Gps => time_ns.saturating_add(GPS_EPOCH_TAI_NS),
            Self::Utc => {
                let offset_s = offset_at(time_ns / NS_PER_S, false);
                time_ns.saturating_add(offset_s * NS_PER_S)
            }
        }
    }

    /// That time of this scale as POSIX time.
    pub const fn to_utc_ns(self, time_ns: u64) -> u64 {
        if matches!(self, Self::Utc) {
            return time_ns;
        }
        let tai_ns = self.to_tai_ns(time_ns);
        tai_ns.saturating_sub(offset_at(tai_ns / NS_PER_S, true) * NS_PER_S)
    }

    /// That time of this scale in GPS time; times before its epoch become 0.
    pub const fn to_gps_ns(self, time_ns: u64) -> u64 {
        match self {
            Self::Gps => time_ns,
            _ => self.to_tai_ns(time_ns).saturating_sub(GPS_EPOCH_TAI_NS),
        }
    }

    /// That time of this scale in another.
    pub const fn convert_ns(self, to: Self, time_ns: u64) -> u64 {
        match to {
            Self::Tai => self.to_tai_ns(time_ns),
            Self::Utc => self.to_utc_ns(time_ns),
            Self::Gps => self.to_gps_ns(time_ns),
        }
    }
}

impl FromStr for TimeScale {
    type Err = TimeScaleError;

    fn from_str(text: &str) -> Result<Self, TimeScaleError> {
        Self::from_name(text).ok_or_else(|| TimeScaleError { got: text.chars().take(64).collect() })
    }
}

/// A text that is not a time scale.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a time scale: \"tai\", \"utc\" or \"gps\", got {got:?}")]
pub struct TimeScaleError {
    /// The text's beginning.
    pub got: String,
}

/// TAI - UTC in seconds at a time in seconds of TAI or POSIX time.
const fn offset_at(seconds: u64, is_tai: bool) -> u64 {
    let mut index = LEAP_SECONDS.len();
    while index > 0 {
        index -= 1;
        let (from_utc_s, offset_s) = LEAP_SECONDS[index];
        // In TAI, the leap second itself, just before, still has the previous offset.
        let from_s = if is_tai { from_utc_s + offset_s } else { from_utc_s };
        if seconds >= from_s {
            return offset_s;
        }
    }
    LEAP_SECONDS[0].1
}

/// The table is known to be complete up to this POSIX time: 2026-06-28, when the IERS list against
/// which it was checked expires. Later times are converted as if no leap second had occurred since.
pub const LEAP_SECONDS_KNOWN_UNTIL_UTC_NS: u64 = 1_782_604_800 * NS_PER_S;

/// The POSIX second from which on TAI is that many seconds ahead of UTC, as in IERS's
/// leap-seconds.list.
const LEAP_SECONDS: [(u64, u64); 28] = [
    (63_072_000, 10),    // 1972-01-01
    (78_796_800, 11),    // 1972-07-01
    (94_694_400, 12),    // 1973-01-01
    (126_230_400, 13),   // 1974-01-01
    (157_766_400, 14),   // 1975-01-01
    (189_302_400, 15),   // 1976-01-01
    (220_924_800, 16),   // 1977-01-01
    (252_460_800, 17),   // 1978-01-01
    (283_996_800, 18),   // 1979-01-01
    (315_532_800, 19),   // 1980-01-01
    (362_793_600, 20),   // 1981-07-01
    (394_329_600, 21),   // 1982-07-01
    (425_865_600, 22),   // 1983-07-01
    (489_024_000, 23),   // 1985-07-01
    (567_993_600, 24),   // 1988-01-01
    (631_152_000, 25),   // 1990-01-01
    (662_688_000, 26),   // 1991-01-01
    (709_948_800, 27),   // 1992-07-01
    (741_484_800, 28),   // 1993-07-01
    (773_020_800, 29),   // 1994-07-01
    (820_454_400, 30),   // 1996-01-01
    (867_715_200, 31),   // 1997-07-01
    (915_148_800, 32),   // 1999-01-01
    (1_136_073_600, 33), // 2006-01-01
    (1_230_768_000, 34), // 2009-01-01
    (1_341_100_800, 35), // 2012-07-01
    (1_435_708_800, 36), // 2015-07-01
    (1_483_228_800, 37), // 2017-01-01
];

const NS_PER_S: u64 = 1_000_000_000;
/// 1980-01-06T00:00:00 UTC is 315,964,800 in POSIX time, 19 s behind TAI.
const GPS_EPOCH_TAI_NS: u64 = GPS_EPOCH_NS + 19 * NS_PER_S;
/// 1980-01-06.
const GPS_EPOCH_NS: u64 = 315_964_800 * NS_PER_S;

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = NS_PER_S;

    #[test]
    fn known_instants_are_the_same_in_all_three_scales() {
        // UTC (POSIX), GPS, TAI in seconds.
        for (utc, gps, tai) in [
            (315_964_800, 0, 315_964_819), // 1980-01-06T00:00:00
            (1_126_259_462 + 315_964_783, 1_126_259_462, 1_126_259_462 + 315_964_819), // GW150914
            (1_715_964_782, 1_400_000_000, 1_715_964_819), // 2024-05-17T16:53:02
            (1_483_228_799, 1_167_264_016, 1_483_228_835), // before the leap second of 2016
            (1_483_228_800, 1_167_264_018, 1_483_228_837), // after it
        ] {
            use TimeScale::{Gps, Tai, Utc};
            for ns in [0, 1, 999_999_999] {
                let (utc, gps, tai) = (utc * S + ns, gps * S + ns, tai * S + ns);
                for (scale, own) in [(Utc, utc), (Gps, gps), (Tai, tai)] {
                    assert_eq!(scale.to_utc_ns(own), utc, "{scale} {own}");
                    assert_eq!(scale.to_gps_ns(own), gps, "{scale} {own}");
                    assert_eq!(scale.to_tai_ns(own), tai, "{scale} {own}");
                    assert_eq!(scale.convert_ns(Gps, own), gps);
                }
            }
        }
    }

    #[test]
    fn a_leap_second_has_the_posix_time_of_the_second_after_it() {
        // 2016-12-31T23:59:60 UTC is GPS 1167264017.
        let leap = TimeScale::Gps.to_utc_ns(1_167_264_017 * S);
        assert_eq!(leap, 1_483_228_800 * S);
        assert_eq!(leap, TimeScale::Gps.to_utc_ns(1_167_264_018 * S));
    }

    #[test]
    fn the_table_rises_by_one_second_at_a_time_on_utc_midnights() {
        for pair in LEAP_SECONDS.windows(2) {
            assert!(pair[0].0 < pair[1].0);
            assert_eq!(pair[0].1 + 1, pair[1].1);
        }
        assert!(LEAP_SECONDS.iter().all(|(utc_s, _)| utc_s.is_multiple_of(86_400)));
        let last = LEAP_SECONDS[LEAP_SECONDS.len() - 1].0 * S;
        const { assert!(LEAP_SECONDS_KNOWN_UNTIL_UTC_NS > 1_767_225_600 * S) };
        assert!(last < LEAP_SECONDS_KNOWN_UNTIL_UTC_NS);
    }

    #[test]
    fn times_that_a_scale_cannot_express_become_its_nearest() {
        assert_eq!(TimeScale::Utc.to_gps_ns(0), 0);
        assert_eq!(TimeScale::Tai.to_utc_ns(0), 0);
        for scale in [TimeScale::Tai, TimeScale::Utc, TimeScale::Gps] {
            assert_eq!(scale.to_tai_ns(u64::MAX), u64::MAX);
            assert_eq!(scale.name().parse(), Ok(scale));
        }
        assert!("local".parse::<TimeScale>().is_err());
    }
}
