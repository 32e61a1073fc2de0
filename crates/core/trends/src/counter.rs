//! Trends of numbers that are looked at now and then, as a recorder's own counters are.

use crate::accumulator::Accumulator;
use crate::series::{Completed, TrendSeries};

/// The trend of a number that is sampled at any times.
#[derive(Clone, Debug, Default)]
pub struct CounterTrend {
    series: TrendSeries,
    second: u64,
    current: Accumulator,
}

impl CounterTrend {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the value at a time, in nanoseconds since the epoch of the time scale that the rows
    /// are wanted in.
    pub fn push(&mut self, time_ns: u64, value: f64) {
        let second = time_ns / 1_000_000_000;
        if second != self.second {
            self.flush();
            self.second = second;
        }
        self.current.push(value);
    }

    /// As [`TrendSeries::take_complete`].
    pub fn take_complete(&mut self, until: u64) -> Completed {
        self.flush();
        self.series.take_complete(until)
    }

    /// As [`TrendSeries::finish`].
    pub fn finish(&mut self) -> Completed {
        self.flush();
        self.series.finish()
    }

    /// As [`TrendSeries::late_samples`].
    pub fn late_samples(&self) -> u64 {
        self.series.late_samples()
    }

    fn flush(&mut self) {
        let current = std::mem::take(&mut self.current);
        if !current.is_empty() {
            self.series.add_second(self.second, &current);
        }
    }
}
