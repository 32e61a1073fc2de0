//! A channel's trend: seconds from the frames' partials, minutes from the seconds.

use std::collections::BTreeMap;

use crate::accumulator::{Accumulator, Statistics};
use crate::partial::Partial;

/// One row of a trend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The number of the second or minute since the epoch of the channel's time scale. It is the
    /// absolute sample number in a trend channel of 1 Hz or 1/60 Hz.
    pub index: u64,
    /// What was in it.
    pub statistics: Statistics,
}

/// Rows that will not change any more, both rising.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completed {
    /// Rows of seconds.
    pub seconds: Vec<Row>,
    /// Rows of minutes: seconds 60 m to 60 m + 59 since the epoch.
    pub minutes: Vec<Row>,
}

/// Merges what frames say of a channel's seconds, in whatever order it comes, and gives the rows of
/// seconds and minutes when the caller says that they are complete.
///
/// Nothing is bounded here but by that: a second takes about 150 bytes from its first sample until
/// it is taken.
#[derive(Clone, Debug, Default)]
pub struct TrendSeries {
    seconds: BTreeMap<u64, Accumulator>,
    minutes: BTreeMap<u64, Accumulator>,
    taken_until: u64,
    late_samples: u64,
}

impl TrendSeries {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what a frame says. Seconds that were taken already are left out, of their minute too,
    /// and their samples counted by [`Self::late_samples`]: a row that was given out stays true.
    pub fn add(&mut self, partial: &Partial) {
        for (second, accumulator) in partial.seconds() {
            self.add_second(*second, accumulator);
        }
    }

    /// Takes what was in a second.
    pub fn add_second(&mut self, second: u64, accumulator: &Accumulator) {
        if second < self.taken_until {
            self.late_samples += accumulator.n() + accumulator.not_finite();
        } else {
            self.seconds.entry(second).or_default().merge(accumulator);
        }
    }

    /// The rows that no later frame can change, if none has samples before second `until` any more.
    pub fn take_complete(&mut self, until: u64) -> Completed {
        let mut completed = Completed::default();
        while let Some(entry) = self.seconds.first_entry()
            && *entry.key() < until
        {
            let (second, accumulator) = entry.remove_entry();
            self.minutes.entry(second / 60).or_default().merge(&accumulator);
            completed.seconds.push(row(second, &accumulator));
        }
        while let Some(entry) = self.minutes.first_entry()
            && *entry.key() < until / 60
        {
            let (minute, accumulator) = entry.remove_entry();
            completed.minutes.push(row(minute, &accumulator));
        }
        self.taken_until = self.taken_until.max(until);
        completed
    }

    /// All rows that are left, the last minute as far as it came.
    pub fn finish(&mut self) -> Completed {
        let mut completed = self.take_complete(u64::MAX);
        let minutes = std::mem::take(&mut self.minutes);
        completed.minutes.extend(minutes.iter().map(|(minute, of_minute)| row(*minute, of_minute)));
        completed
    }

    /// Samples of seconds that had been taken already.
    pub fn late_samples(&self) -> u64 {
        self.late_samples
    }
}

fn row(index: u64, accumulator: &Accumulator) -> Row {
    Row { index, statistics: accumulator.statistics() }
}
