//! How the numbers or the clock of a source differ from those of the others, in plain words.

use std::fmt;

use catchment_model::units::grouped;

/// How the numbers or the clock of a source differ from those of the others, so that what it sends
/// is in no event of theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Astray {
    /// Its numbers go on elsewhere.
    Numbers {
        /// Where: the first number there.
        first: u64,
        /// The newest one before that; none if it has sent nothing else.
        after: Option<u64>,
        /// The newest number of the others.
        others: u64,
    },
    /// It has missed that the others began a new numbering.
    Missed,
    /// It has begun a new numbering, and the others have not.
    Early,
    /// Its clock is ahead of the others' by so much; below 0, behind them.
    Clock {
        /// In nanoseconds.
        ahead_ns: i64,
    },
    /// The same, where only one other source delivers: either of the two may be wrong.
    OneOfTwo {
        /// In nanoseconds.
        ahead_ns: i64,
    },
    /// Its clock stands still.
    Stands,
}

impl Astray {
    /// The same as long as it lasts: the numbers that began again are those of the beginning.
    pub fn since(self, before: Option<Self>) -> Self {
        match (before, self) {
            (Some(Self::Numbers { first, after, .. }), Self::Numbers { others, .. }) => {
                Self::Numbers { first, after, others }
            }
            _ => self,
        }
    }
}

impl fmt::Display for Astray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Numbers { first, after, others } => {
                let (first, others) = (grouped(first), grouped(others));
                match after {
                    Some(after) => {
                        let how = if after >= self.first() { "began again" } else { "went on" };
                        let after = grouped(after);
                        write!(f, "its numbers {how} at {first} after {after}")?;
                    }
                    None => write!(f, "its numbers begin at {first}")?,
                }
                write!(f, ", and the others are at {others}")
            }
            Self::Missed => write!(f, "it has missed that the others began a new numbering"),
            Self::Early => write!(f, "it has begun a new numbering, and the others have not"),
            Self::Clock { ahead_ns } => {
                let way = if ahead_ns < 0 { "behind the others'" } else { "ahead of the others'" };
                write!(f, "its clock is {} {way}", words(ahead_ns.unsigned_abs()))
            }
            Self::OneOfTwo { ahead_ns } => {
                let way = if ahead_ns < 0 { "behind" } else { "ahead of" };
                let far = words(ahead_ns.unsigned_abs());
                write!(f, "its clock is {far} {way} the only other one, and either may be wrong")
            }
            Self::Stands => write!(f, "its clock stands still"),
        }
    }
}

impl Astray {
    fn first(&self) -> u64 {
        match *self {
            Self::Numbers { first, .. } => first,
            _ => 0,
        }
    }
}

/// A time as people say it.
fn words(ns: u64) -> String {
    const S: u64 = 1_000_000_000;
    match ns {
        _ if ns < 1_000 => format!("{ns} ns"),
        _ if ns < 1_000_000 => format!("{:.1} µs", ns as f64 / 1e3),
        _ if ns < S => format!("{:.1} ms", ns as f64 / 1e6),
        _ if ns < 120 * S => format!("{:.1} s", ns as f64 / 1e9),
        _ if ns < 7_200 * S => format!("{} min", ns / (60 * S)),
        _ if ns < 172_800 * S => format!("{:.1} hours", ns as f64 / 3.6e12),
        _ => format!("{:.1} days", ns as f64 / 8.64e13),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_source_is_told_to_be_says_which_way_and_by_how_much() {
        let numbers = |first, after| Astray::Numbers { first, after, others: 48_212 };
        for (astray, expected) in [
            (
                numbers(0, Some(48_210)),
                "its numbers began again at 0 after 48,210, and the others are at 48,212",
            ),
            (
                numbers(90_000, Some(48_210)),
                "its numbers went on at 90,000 after 48,210, and the others are at 48,212",
            ),
            (numbers(7, None), "its numbers begin at 7, and the others are at 48,212"),
            (
                Astray::Clock { ahead_ns: -3_700_000_000_000 },
                "its clock is 61 min behind the others'",
            ),
            (Astray::Clock { ahead_ns: 2_500_000 }, "its clock is 2.5 ms ahead of the others'"),
            (
                Astray::OneOfTwo { ahead_ns: -2_500_000 },
                "its clock is 2.5 ms behind the only other one, and either may be wrong",
            ),
        ] {
            assert_eq!(astray.to_string(), expected);
        }
        let later = Astray::Numbers { first: 500, after: None, others: 48_712 };
        let since = later.since(Some(numbers(0, Some(48_210))));
        assert_eq!(since, Astray::Numbers { first: 0, after: Some(48_210), others: 48_712 });
    }
}
