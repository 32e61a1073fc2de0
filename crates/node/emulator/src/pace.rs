//! The schedule of events.

use std::time::Duration;

use crate::config::EmulatorConfig;

/// Divides a run into ticks: how many events to make now, and when the next tick begins.
#[derive(Debug)]
pub(crate) struct Pace {
    rate_hz: Option<f64>,
    tick: Duration,
    // The approximate maximum of events per tick.
    tick_events: u64,
    // Ticks end where bursts of that many events end; the first event is that far within its burst.
    burst: u64,
    phase: u64,
    // Events in the whole run, and the time that ends it if no number does.
    events_max: u64,
    time_max: Option<Duration>,
    done: u64,
    next_tick: Duration,
}

/// Rate and length of a run of events, or of other items made one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Events per second; none makes them as fast as possible.
    pub rate_hz: Option<f64>,
    /// Mean bytes of an event.
    pub event_bytes: f64,
    /// Ticks end where the event's number is a multiple of this.
    pub burst: u64,
    /// The first event's number.
    pub first_event: u64,
    /// Ends after that many events.
    pub events: Option<u64>,
    /// Ends after that many seconds: with a rate, after exactly the events of that time.
    pub seconds: Option<f64>,
}

impl Schedule {
    pub fn of(config: &EmulatorConfig) -> Self {
        Self {
            rate_hz: config.rate_hz,
            event_bytes: config.event_bytes(),
            burst: u64::from(config.equal_bursts.unwrap_or(1)),
            first_event: config.first_event,
            events: config.events,
            seconds: config.seconds,
        }
    }
}

impl Pace {
    pub fn new(schedule: &Schedule) -> Self {
        let burst = schedule.burst;
        // Large batches are cheap for sender and receiver; but larger ones exceed the cache, and a
        // burst of all sources should stay small compared with the sockets' buffers.
        let burst_events = TICK_BYTES / schedule.event_bytes;
        let (tick, tick_events) = match schedule.rate_hz {
            None => (Duration::ZERO, burst_events.clamp(1.0, TICK_EVENTS_MAX)),
            Some(rate_hz) => {
                let seconds = (burst_events / rate_hz).clamp(TICK_MIN_S, TICK_MAX_S);
                // At lower rates, wait a little for more events, as a system call for one packet
                // costs as much as for ten; at the lowest, the flush timer decides.
                let batch = (TICK_EVENTS_WANTED / rate_hz).min(TICK_LONG_S);
                let seconds = seconds.max(batch).max((1.0 / rate_hz).min(TICK_IDLE_S));
                // Up to four ticks' worth lets a delayed thread catch up in steps.
                (Duration::from_secs_f64(seconds), (rate_hz * seconds * 4.0).max(1.0))
            }
        };
        let by_time = match (schedule.rate_hz, schedule.seconds) {
            (Some(rate_hz), Some(seconds)) => (rate_hz * seconds).round() as u64,
            _ => u64::MAX,
        };
        Self {
            rate_hz: schedule.rate_hz,
            tick,
            tick_events: (tick_events as u64).next_multiple_of(burst),
            burst,
            phase: schedule.first_event % burst,
            events_max: schedule.events.unwrap_or(u64::MAX).min(by_time),
            time_max: match schedule.rate_hz {
                None => schedule.seconds.map(Duration::from_secs_f64),
                Some(_) => None,
            },
            done: 0,
            next_tick: Duration::ZERO,
        }
    }

    /// How many events to make at `elapsed` after the start; none ends the run.
    pub fn due(&mut self, elapsed: Duration) -> Option<u64> {
        let over = self.time_max.is_some_and(|time_max| elapsed >= time_max);
        let left = self.events_max - self.done;
        if left == 0 || over {
            return None;
        }
        let due = match self.rate_hz {
            None => self.tick_events,
            Some(rate_hz) => ((elapsed.as_secs_f64() * rate_hz) as u64)
                .saturating_sub(self.done)
                .min(self.tick_events),
        };
        // At the end of the run there is no whole burst to wait for.
        let due = if due >= left {
            left
        } else {
            let begun = (self.phase + self.done) % self.burst;
            ((begun + due) / self.burst * self.burst).saturating_sub(begun)
        };
        self.done += due;
        Some(due)
    }

    /// When the next tick begins, after the start; none if there is no rate to keep. Deadlines are
    /// multiples of the tick, so a late one does not move later ones.
    pub fn next_tick(&mut self, elapsed: Duration) -> Option<Duration> {
        self.rate_hz?;
        self.next_tick += self.tick;
        if let Some(behind) = elapsed.checked_sub(self.next_tick) {
            let ticks = behind.as_nanos() / self.tick.as_nanos().max(1);
            self.next_tick += self.tick * ticks.min(u128::from(u32::MAX)) as u32;
        }
        Some(self.next_tick)
    }
}

/// Bytes of all sources in one tick, within the limits below.
const TICK_BYTES: f64 = 2e6;
const TICK_EVENTS_MAX: f64 = 128.0;
const TICK_MIN_S: f64 = 200e-6;
const TICK_MAX_S: f64 = 1e-3;
const TICK_EVENTS_WANTED: f64 = 16.0;
const TICK_LONG_S: f64 = 4e-3;
const TICK_IDLE_S: f64 = 20e-3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::hades_90;

    fn config() -> EmulatorConfig {
        EmulatorConfig { sources: hades_90(), ..EmulatorConfig::default() }
    }

    #[test]
    fn a_rate_and_a_time_make_an_exact_number_of_events() {
        let config = EmulatorConfig { rate_hz: Some(4_000.0), seconds: Some(0.5), ..config() };
        let mut pace = Pace::new(&Schedule::of(&config));
        let mut events = 0;
        let mut elapsed = Duration::ZERO;
        while let Some(due) = pace.due(elapsed) {
            assert!(due <= 64);
            events += due;
            elapsed += Duration::from_micros(777);
        }
        assert_eq!(events, 2_000);
    }

    #[test]
    fn bursts_stay_whole_except_the_last() {
        let config = EmulatorConfig {
            rate_hz: Some(10_000.0),
            equal_bursts: Some(32),
            events: Some(1_000),
            ..config()
        };
        let mut pace = Pace::new(&Schedule::of(&config));
        let mut dues = Vec::new();
        let mut elapsed = Duration::ZERO;
        while let Some(due) = pace.due(elapsed) {
            dues.push(due);
            elapsed += Duration::from_millis(1);
        }
        assert_eq!(dues.iter().sum::<u64>(), 1_000);
        // Event 1, the first, is the second of its burst.
        let mut at = 1;
        for due in &dues[..dues.len() - 1] {
            at += due;
            assert_eq!(at % 32, if *due == 0 { at % 32 } else { 0 }, "{dues:?}");
        }
    }

    #[test]
    fn a_late_tick_catches_up_in_bounded_steps() {
        let mut pace =
            Pace::new(&Schedule::of(&EmulatorConfig { rate_hz: Some(10_000.0), ..config() }));
        let step = pace.due(Duration::from_secs(1)).unwrap();
        assert!((16..=64).contains(&step), "{step}");
    }

    #[test]
    fn without_a_rate_every_tick_is_full_until_the_time_is_over() {
        let config = EmulatorConfig { seconds: Some(1.0), ..config() };
        let mut pace = Pace::new(&Schedule::of(&config));
        let full = pace.due(Duration::ZERO).unwrap();
        assert!((16..=128).contains(&full), "{full}");
        assert_eq!(pace.due(Duration::from_millis(999)), Some(full));
        assert_eq!(pace.due(Duration::from_secs(1)), None);
    }
}
