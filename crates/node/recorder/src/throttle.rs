//! How much compression there is time for.

use std::sync::Arc;

use catchment_encoder::Level;
use catchment_telemetry::FillLevel;

/// How much compression there is time for, from the payload that waits behind the frame being
/// encoded: the less room is left, the less is compressed. Compression returns at half the level at
/// which it was reduced, so that it does not oscillate.
#[derive(Debug)]
pub(crate) struct CompressionThrottle {
    waiting: Arc<FillLevel>,
    frame_bytes: u64,
    level: Level,
}

impl CompressionThrottle {
    /// For frames counted in `waiting` from their cut until they are written.
    pub(crate) fn new(waiting: Arc<FillLevel>) -> Self {
        Self { waiting, frame_bytes: 0, level: Level::default() }
    }

    /// A frame of that payload is encoded from now on.
    pub(crate) fn begin(&mut self, frame_bytes: u64) {
        self.frame_bytes = frame_bytes;
    }

    /// The level for columns encoded now.
    pub(crate) fn level(&mut self) -> Level {
        let percent = self.percent();
        self.level = match self.level {
            _ if percent >= NONE_FROM_PERCENT => Level::None,
            Level::None if percent >= NONE_FROM_PERCENT / 2 => Level::None,
            _ if percent >= CHEAPER_FROM_PERCENT => Level::Cheaper,
            Level::None | Level::Cheaper if percent >= CHEAPER_FROM_PERCENT / 2 => Level::Cheaper,
            _ => Level::AsAsked,
        };
        self.level
    }

    /// Whether so little waits that all requested compression can be done.
    pub(crate) fn has_time(&self) -> bool {
        self.percent() < CHEAPER_FROM_PERCENT
    }

    /// The waiting payload, in percent of the room.
    fn percent(&self) -> u64 {
        let behind = self.waiting.level().saturating_sub(self.frame_bytes);
        behind.saturating_mul(100) / self.waiting.capacity().max(1)
    }
}

const CHEAPER_FROM_PERCENT: u64 = 25;
const NONE_FROM_PERCENT: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    fn throttle() -> (Arc<FillLevel>, CompressionThrottle) {
        let waiting = Arc::new(FillLevel::new("frames waiting", 100));
        (Arc::clone(&waiting), CompressionThrottle::new(waiting))
    }

    #[test]
    fn compression_goes_step_by_step_and_comes_back_later() {
        let (waiting, mut throttle) = throttle();
        let mut level = |percent| {
            waiting.take(waiting.level());
            waiting.put(percent);
            throttle.level()
        };
        let (asked, cheaper, none) = (Level::AsAsked, Level::Cheaper, Level::None);
        assert_eq!([0, 24, 25, 20, 13].map(&mut level), [asked, asked, cheaper, cheaper, cheaper]);
        assert_eq!([11, 24, 49].map(&mut level), [asked, asked, cheaper]);
        assert_eq!([50, 30, 25, 24, 11].map(&mut level), [none, none, none, cheaper, asked]);
        assert_eq!([90, 5].map(&mut level), [none, asked]);
    }

    /// Memory fills at a speed of 1, and encoding empties it at the speed of each level: however
    /// slow compression is, it ends before memory is full, columns in progress included.
    #[test]
    fn compression_that_is_too_slow_is_given_up_before_memory_is_full() {
        let capacity = 3_200;
        for (asked, cheaper) in [(0.25, 0.25), (0.3, 0.9), (0.6, 0.7), (0.9, 0.95), (0.99, 2.0)] {
            for under_way_max in [1, 30, 100] {
                let waiting = Arc::new(FillLevel::new("frames waiting", capacity));
                let mut throttle = CompressionThrottle::new(Arc::clone(&waiting));
                let mut under_way = std::collections::VecDeque::new();
                let (mut arrived, mut raw, mut most) = (0.0_f64, 0, 0);
                for _ in 0..100_000 {
                    while under_way.len() < under_way_max {
                        under_way.push_back(throttle.level());
                    }
                    let speed = match under_way.pop_front().unwrap() {
                        Level::AsAsked => asked,
                        Level::Cheaper => cheaper,
                        // As fast as where nothing is compressed, which keeps up.
                        Level::None => 1.5,
                    };
                    raw += u32::from(speed == 1.5);
                    waiting.take(waiting.level().min(1));
                    arrived += 1.0 / speed;
                    waiting.put(arrived as u64);
                    arrived = arrived.fract();
                    most = most.max(waiting.level());
                }
                // A quarter is left to events that wait for sources.
                assert!(most <= capacity * 3 / 4, "{asked} {under_way_max}: {most}");
                assert!(raw > 0 || cheaper > 1.0);
            }
        }
    }

    #[test]
    fn there_is_time_as_long_as_nothing_would_be_compressed_less() {
        let (waiting, mut throttle) = throttle();
        assert!(throttle.has_time());
        waiting.put(24);
        assert!(throttle.has_time() && throttle.level() == Level::AsAsked);
        waiting.put(1);
        assert!(!throttle.has_time() && throttle.level() == Level::Cheaper);
    }

    #[test]
    fn the_frame_that_is_being_encoded_does_not_wait_for_itself() {
        let (waiting, mut throttle) = throttle();
        waiting.put(25);
        throttle.begin(25);
        assert!(throttle.has_time() && throttle.level() == Level::AsAsked);
        // The next one is cut before this one is written: that is where room begins to be short.
        waiting.put(25);
        assert!(!throttle.has_time() && throttle.level() == Level::Cheaper);
        waiting.take(25);
        throttle.begin(25);
        assert_eq!(throttle.level(), Level::AsAsked);
    }
}
