//! How far the items of a link source are, and how long they take from *taken* to *durable*.
//!
//! The thread that receives writes, anybody reads. Delays are counted in bins of a quarter of an
//! octave; whenever there are many, all bins are halved, so that they are of the last seconds.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use catchment_wire::session::Release;

/// Of a source that front-ends deliver, or of a channel link over a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkProgress {
    /// Items that its sender has made, as far as it has said so.
    pub made: u64,
    /// Items that are in memory, or were.
    pub taken: u64,
    /// Items that are durable.
    pub durable: u64,
    /// Until when its sender keeps them: until they are *durable*, or *taken*; none if it has not
    /// come.
    pub release: Option<&'static str>,
    /// The time from taken to durable, of the last seconds; none if nothing was durable yet.
    pub delay: Option<Delay>,
}

/// The time that items took, to a fifth of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Of half of them.
    pub median_ns: u64,
    /// Of 99 % of them.
    pub p99_ns: u64,
}

/// The same, in the form that the agent writes.
#[derive(Debug)]
pub(crate) struct LiveProgress {
    made: AtomicU64,
    taken: AtomicU64,
    durable: AtomicU64,
    pub(crate) release: AtomicU8,
    delays: [AtomicU32; BINS],
}

impl Default for LiveProgress {
    fn default() -> Self {
        let (made, taken, durable, release) = Default::default();
        let delays = std::array::from_fn(|_| AtomicU32::new(0));
        Self { made, taken, durable, release, delays }
    }
}

impl LiveProgress {
    pub(crate) fn read(&self) -> LinkProgress {
        LinkProgress {
            made: self.made.load(Relaxed),
            taken: self.taken.load(Relaxed),
            durable: self.durable.load(Relaxed),
            release: match self.release.load(Relaxed) {
                release if release == Release::Durable as u8 => Some("durable"),
                release if release == Release::Taken as u8 => Some("taken"),
                _ => None,
            },
            delay: self.delay(),
        }
    }

    fn delay(&self) -> Option<Delay> {
        let counts = self.delays.each_ref().map(|bin| u64::from(bin.load(Relaxed)));
        let total: u64 = counts.iter().sum();
        let within = |percent: u64| {
            let mut left = (total * percent).div_ceil(100);
            let bin = counts.iter().position(|count| {
                let is_it = left <= *count;
                left = left.saturating_sub(*count);
                is_it
            });
            bin.map(end_ns)
        };
        (total > 0).then_some(Delay { median_ns: within(50)?, p99_ns: within(99)? })
    }

    /// Counts a delay.
    fn count(&self, delay_ns: u64) {
        let add = |bin: &AtomicU32, count| bin.store(count, Relaxed);
        let bin = &self.delays[bin_of(delay_ns)];
        add(bin, bin.load(Relaxed) + 1);
        let total: u32 = self.delays.iter().map(|bin| bin.load(Relaxed)).sum();
        if total >= COUNTED_MAX {
            self.delays.iter().for_each(|bin| add(bin, bin.load(Relaxed) / 2));
        }
    }
}

/// Which items were taken when, until they are durable.
pub(crate) struct Progress {
    /// What was shown last: made, taken, durable.
    shown: [u64; 3],
    /// Positions, and when they had been taken.
    waits: VecDeque<(u64, u64)>,
    due_ns: u64,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { shown: [0; 3], waits: VecDeque::with_capacity(WAITS_MAX), due_ns: 0 }
    }

    /// Shows how far a log is.
    pub(crate) fn show(&mut self, live: &LiveProgress, now_ns: u64, now: [u64; 3]) {
        let [made, taken, durable] = now;
        if now != self.shown {
            self.shown = now;
            live.made.store(made, Relaxed);
            live.taken.store(taken, Relaxed);
            live.durable.store(durable, Relaxed);
        }
        while let Some(&(position, at_ns)) = self.waits.front()
            && position <= durable
        {
            live.count(now_ns.saturating_sub(at_ns));
            self.waits.pop_front();
        }
        let last = self.waits.back().map_or(durable, |(position, _)| *position);
        if taken > last && now_ns >= self.due_ns && self.waits.len() < WAITS_MAX {
            self.due_ns = now_ns + LOOK_EVERY_NS;
            self.waits.push_back((taken, now_ns));
        }
    }
}

/// Which bin a delay is in: of four in each octave of quarters of a millisecond.
fn bin_of(delay_ns: u64) -> usize {
    let quarters = (delay_ns / QUARTER_NS).max(1);
    let octave = quarters.ilog2();
    let part = ((u128::from(quarters) << 2) >> octave) as usize & 3;
    (octave as usize * 4 + part).min(BINS - 1)
}

/// Where a bin ends.
fn end_ns(bin: usize) -> u64 {
    (((5 + bin as u64 % 4) << (bin / 4)).div_ceil(4)) * QUARTER_NS
}

const QUARTER_NS: u64 = 250_000;
/// Up to four minutes.
const BINS: usize = 80;
/// Delays at which bins are halved: of ten seconds and more.
const COUNTED_MAX: u32 = 1_024;
/// How often a log is looked at, and for how many looks it is remembered what was taken: later ones
/// are not looked at until some of these are durable.
const LOOK_EVERY_NS: u64 = 20_000_000;
const WAITS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_bin_ends_above_what_is_in_it_and_by_a_quarter_at_most() {
        for delay_ns in [MS, 7 * MS, 250 * MS, 251 * MS, 999 * MS, 60_000 * MS] {
            let end_ns = end_ns(bin_of(delay_ns));
            assert!(end_ns > delay_ns && end_ns <= delay_ns / 4 * 5 + QUARTER_NS, "{delay_ns}");
        }
        assert_eq!((bin_of(0), bin_of(u64::MAX)), (0, BINS - 1));
    }

    #[test]
    fn delays_are_those_of_items_from_taken_to_durable_of_the_last_seconds() {
        let (live, mut progress) = (LiveProgress::default(), Progress::new());
        assert_eq!(live.read(), LinkProgress::default());
        let mut now_ns = 0;
        // One item each 20 ms; each is durable 100 ms later, and from the 3,000th on 400 ms later.
        for item in 0..6_000 {
            let behind = if item < 3_000 { 5 } else { 20 };
            let durable = live.read().durable.max(u64::saturating_sub(item, behind));
            progress.show(&live, now_ns, [item + 7, item, durable]);
            now_ns += 20 * MS;
            if item == 2_000 {
                let delay = live.read().delay.unwrap();
                assert!((100 * MS..=130 * MS).contains(&delay.median_ns), "{delay:?}");
                assert!((100 * MS..=130 * MS).contains(&delay.p99_ns), "{delay:?}");
            }
        }
        let LinkProgress { made, taken, durable, delay, .. } = live.read();
        assert_eq!((made, taken, durable), (6_006, 5_999, 5_979));
        let delay = delay.unwrap();
        assert!((400 * MS..=500 * MS).contains(&delay.median_ns), "{delay:?}");
        assert!((400 * MS..=500 * MS).contains(&delay.p99_ns), "{delay:?}");
    }

    #[test]
    fn what_waits_for_long_is_looked_at_now_and_then_and_remembered_within_bounds() {
        let (live, mut progress) = (LiveProgress::default(), Progress::new());
        for item in 1..=1_000 {
            progress.show(&live, item * 20 * MS, [item, item, 0]);
        }
        assert_eq!((progress.waits.len(), live.read().delay), (WAITS_MAX, None));
        progress.show(&live, 20_000 * MS, [1_000; 3]);
        let delay = live.read().delay.unwrap();
        assert!(progress.waits.is_empty() && delay.median_ns >= 19_000 * MS, "{delay:?}");
    }
}
