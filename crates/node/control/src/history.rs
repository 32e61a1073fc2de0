//! Rates of the last ten minutes, second by second, and of the last day, minute by minute.

use std::collections::VecDeque;

use catchment_model::Utc;
use parking_lot::Mutex;

use crate::api::{History, Series};

/// Seconds that are kept.
const SECONDS_MAX: usize = 600;
/// Minutes that are kept.
const MINUTES_MAX: usize = 1_440;
const S: u64 = 1_000_000_000;
/// The time for which seconds are kept.
pub(crate) const TEN_MINUTES_NS: u64 = SECONDS_MAX as u64 * S;
/// The time for which minutes are kept.
pub(crate) const DAY_NS: u64 = MINUTES_MAX as u64 * 60 * S;

/// Mean rates of one second, or minute: events, bytes, bytes written, loss.
pub(crate) type Point = [f64; 4];

/// The data of plots. Bounded: 2,040 points.
#[derive(Debug, Default)]
pub(crate) struct Past {
    all: Mutex<Points>,
}

#[derive(Debug, Default)]
struct Points {
    seconds: VecDeque<(u64, Point)>,
    minutes: VecDeque<(u64, Point)>,
    minute: Option<(u64, Point, u32)>,
}

impl Past {
    /// Adds the rates of the second that contains `now_ns`.
    pub(crate) fn push(&self, now_ns: u64, point: Point) {
        let mut all = self.all.lock();
        let second = now_ns / S;
        if all.seconds.back().is_some_and(|(last, _)| *last >= second) {
            return;
        }
        if all.seconds.len() == SECONDS_MAX {
            all.seconds.pop_front();
        }
        all.seconds.push_back((second, point));
        let minute = second / 60;
        match &mut all.minute {
            Some((current, sum, count)) if *current == minute => {
                sum.iter_mut().zip(point).for_each(|(sum, value)| *sum += value);
                *count += 1;
            }
            _ => {
                if let Some((last, sum, count)) = all.minute.replace((minute, point, 1)) {
                    if all.minutes.len() == MINUTES_MAX {
                        all.minutes.pop_front();
                    }
                    all.minutes.push_back((last, sum.map(|value| value / f64::from(count))));
                }
            }
        }
    }

    /// Adds seconds from another origin, counted since 1970.
    pub(crate) fn recall_seconds(&self, points: &[(u64, Point)]) {
        put_in(&mut self.all.lock().seconds, points, SECONDS_MAX);
    }

    /// Adds minutes from another origin, counted since 1970.
    pub(crate) fn recall_minutes(&self, points: &[(u64, Point)]) {
        put_in(&mut self.all.lock().minutes, points, MINUTES_MAX);
    }

    /// The last seconds, that many, in at most that many points.
    pub(crate) fn of(&self, now_ns: u64, seconds: u64, points: u64) -> History {
        let all = self.all.lock();
        let (from, unit) = match seconds {
            0..=600 => (&all.seconds, 1),
            _ => (&all.minutes, 60),
        };
        let step = seconds.div_ceil(points).next_multiple_of(unit);
        let count = seconds.div_ceil(step);
        // Whole steps, so that a point's value does not change while it moves left.
        let end = now_ns / S / step + 1;
        let start = end.saturating_sub(count);
        let mut sums = vec![([0.0; 4], 0_u32); count as usize];
        for &(at, point) in from {
            let bin = (at * unit / step).checked_sub(start);
            let bin = bin.and_then(|bin| sums.get_mut(usize::try_from(bin).ok()?));
            if let Some((sum, count)) = bin {
                sum.iter_mut().zip(point).for_each(|(sum, value)| *sum += value);
                *count += 1;
            }
        }
        let series = |index: usize| {
            let mean = |(sum, count): &(Point, u32)| match count {
                0 => None,
                count => Some(sum[index] / f64::from(*count)),
            };
            sums.iter().map(mean).collect()
        };
        History {
            start: Utc(start * step * S).to_string(),
            step_seconds: step as f64,
            series: Series {
                events_per_second: series(0),
                bytes_per_second: series(1),
                bytes_written_per_second: series(2),
                loss_per_second: series(3),
            },
        }
    }
}

/// Puts points where they belong by their time, unless that place is taken, and drops the oldest.
fn put_in(series: &mut VecDeque<(u64, Point)>, points: &[(u64, Point)], most: usize) {
    for &(at, point) in points {
        if let Err(index) = series.binary_search_by_key(&at, |(at, _)| *at) {
            series.insert(index, (at, point));
        }
    }
    series.drain(..series.len().saturating_sub(most));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_means_and_gaps_are_none() {
        let past = Past::default();
        for second in 0..1_200_u64 {
            if second % 4 != 3 {
                past.push(second * S, [second as f64, 1.0, 2.0, 0.0]);
            }
        }
        let fine = past.of(1_199 * S, 8, 8);
        assert_eq!(fine.step_seconds, 1.0);
        assert_eq!(
            fine.series.events_per_second[..4],
            [Some(1192.0), Some(1193.0), Some(1194.0), None]
        );
        let hour = past.of(1_199 * S, 3_600, 60);
        assert_eq!((hour.step_seconds, hour.series.bytes_per_second.len()), (60.0, 60));
        let known = hour.series.bytes_per_second.iter().flatten().count();
        assert_eq!(known, 19, "the minute under way is not known yet");
        assert_eq!(hour.series.bytes_written_per_second.iter().flatten().sum::<f64>(), 38.0);
    }

    #[test]
    fn what_was_before_is_put_in_front_and_never_over_what_was_seen() {
        let past = Past::default();
        past.push(100 * S, [1.0; 4]);
        past.push(101 * S, [1.0; 4]);
        past.recall_seconds(&[(98, [2.0; 4]), (99, [2.0; 4]), (100, [2.0; 4])]);
        past.recall_seconds(&[(97, [3.0; 4])]);
        let known = past.of(101 * S, 5, 5).series.loss_per_second;
        assert_eq!(known, [3.0, 2.0, 2.0, 1.0, 1.0].map(Some));
        let old: Vec<_> = (0..97).map(|second| (second, [4.0; 4])).collect();
        past.recall_seconds(&old);
        let many: Vec<_> = (102..=800).map(|second| (second, [5.0; 4])).collect();
        past.recall_seconds(&many);
        assert_eq!(past.all.lock().seconds.len(), SECONDS_MAX);
        assert_eq!(past.all.lock().seconds.back().unwrap().0, 800);
    }
}
