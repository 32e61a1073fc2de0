//! Rates of the last ten minutes, second by second, and of the last day, minute by minute.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::api::{History, Series};
use crate::time::rfc3339;

/// Seconds that are kept.
const SECONDS_MAX: usize = 600;
/// Minutes that are kept.
const MINUTES_MAX: usize = 1_440;
const S: u64 = 1_000_000_000;

/// One second's, or minute's, mean rates: events, bytes, bytes written, loss.
pub(crate) type Point = [f64; 4];

/// What plots are made of. Bounded: 2,040 points.
#[derive(Debug, Default)]
pub(crate) struct Past {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    seconds: VecDeque<(u64, Point)>,
    minutes: VecDeque<(u64, Point)>,
    minute: Option<(u64, Point, u32)>,
}

impl Past {
    /// Adds the rates of the second that `now_ns` lies in.
    pub(crate) fn push(&self, now_ns: u64, point: Point) {
        let mut kept = self.lock();
        let second = now_ns / S;
        if kept.seconds.back().is_some_and(|(last, _)| *last >= second) {
            return;
        }
        if kept.seconds.len() == SECONDS_MAX {
            kept.seconds.pop_front();
        }
        kept.seconds.push_back((second, point));
        let minute = second / 60;
        match &mut kept.minute {
            Some((current, sum, count)) if *current == minute => {
                sum.iter_mut().zip(point).for_each(|(sum, value)| *sum += value);
                *count += 1;
            }
            _ => {
                if let Some((last, sum, count)) = kept.minute.replace((minute, point, 1)) {
                    if kept.minutes.len() == MINUTES_MAX {
                        kept.minutes.pop_front();
                    }
                    kept.minutes.push_back((last, sum.map(|value| value / f64::from(count))));
                }
            }
        }
    }

    /// The last so many seconds in at most so many points.
    pub(crate) fn of(&self, now_ns: u64, seconds: u64, points: u64) -> History {
        let kept = self.lock();
        let (from, unit) = match seconds {
            0..=600 => (&kept.seconds, 1),
            _ => (&kept.minutes, 60),
        };
        let step = seconds.div_ceil(points).next_multiple_of(unit);
        let count = seconds.div_ceil(step);
        // Whole steps, so that a point does not change its value while it moves left.
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
            start: rfc3339(start * step * S),
            step_seconds: step as f64,
            series: Series {
                events_per_second: series(0),
                bytes_per_second: series(1),
                bytes_written_per_second: series(2),
                loss_per_second: series(3),
            },
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
}
