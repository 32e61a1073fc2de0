//! How much memory each source may use for what others have not reached.

use super::events::OpenEvents;
use super::horizon::Horizon;
use super::parked::Parked;
use crate::{BuilderConfig, Matched, NumberConfig};

/// How often shares are computed per time-out while memory is short.
const SHARES_PER_TIMEOUT: u64 = 64;

/// Limits what each source may hold of keys that the quorum has not passed. Together such fragments
/// may use half of the waiting memory; a source whose part exceeds what is free of that half is
/// *full*. A single source ahead therefore gets a quarter of the memory, several get less each, and
/// the other half is reserved for the sources that the quorum waits for. A run's only source has
/// all of it: nobody else could need the rest.
///
/// Where memory was *admitted* for whole events, as it is for trains, no source is full: a train is
/// large beside a share, and one that has memory in all sources would be lost in the one that is
/// ahead.
///
/// What *pausable* sources hold does not count: it takes no memory of the others', since their
/// receive agents bound it.
#[derive(Debug)]
pub struct Shares {
    pub waiting_bytes_max: u64,
    is_admitted: bool,
    /// By source, whether it waits; empty if none does.
    pausable: Vec<bool>,
    interval_ns: u64,
    /// When shares are computed next.
    due_ns: u64,
    /// When the bytes of pausable sources are summed next.
    pausable_due_ns: u64,
    some_full: bool,
}

impl Shares {
    pub fn new(config: &BuilderConfig, number: &NumberConfig) -> Self {
        Self {
            waiting_bytes_max: config.waiting_bytes_max,
            is_admitted: number.is_admitted,
            pausable: match config.pausable.contains(&true) {
                true => config.pausable.clone(),
                false => Vec::new(),
            },
            interval_ns: config.timeout_ns / SHARES_PER_TIMEOUT,
            due_ns: 0,
            pausable_due_ns: 0,
            some_full: false,
        }
    }

    /// How many bytes open events may hold beside the parked fragments before those close that lack
    /// a source.
    pub fn open_bytes_max(
        &mut self,
        now_ns: u64,
        events: &OpenEvents,
        parked: &Parked,
        matched: &Matched,
    ) -> u64 {
        let mut waiting_bytes_max = self.waiting_bytes_max;
        if events.bytes + parked.bytes() > waiting_bytes_max && !self.pausable.is_empty() {
            // The sum is over their queues: too slow for each duty cycle. An old one would close
            // events for what they have brought since.
            if now_ns < self.pausable_due_ns {
                return u64::MAX;
            }
            self.pausable_due_ns = now_ns.saturating_add(self.interval_ns);
            let base = events.window.base;
            let pausable = (0..matched.sources.len()).filter(|&index| self.is_pausable(index));
            waiting_bytes_max += pausable
                .map(|index| {
                    matched.sources[index].bytes_from(base) + parked.bytes_from(index, base)
                })
                .sum::<u64>();
        }
        waiting_bytes_max.saturating_sub(parked.bytes())
    }

    /// Marks the sources that are full. `waiting_bytes` are those of open events and parked
    /// fragments.
    pub fn update(
        &mut self,
        now_ns: u64,
        waiting_bytes: u64,
        parked: &Parked,
        horizon: &mut Horizon,
        matched: &mut Matched,
    ) {
        if self.is_admitted {
            return;
        }
        let sources = &mut matched.sources;
        let shared_bytes = match sources.len() {
            0 | 1 => self.waiting_bytes_max,
            _ => self.waiting_bytes_max / 2,
        };
        if waiting_bytes <= shared_bytes {
            if std::mem::take(&mut self.some_full) {
                sources.iter_mut().for_each(|source| source.full = false);
            }
            return;
        }
        // The sum is over all sources and their queues: too slow for each duty cycle.
        if self.some_full && now_ns < self.due_ns {
            return;
        }
        self.due_ns = now_ns.saturating_add(self.interval_ns);
        let passed = horizon.passed();
        let ahead =
            sources.iter().enumerate().map(|(index, source)| match self.is_pausable(index) {
                true => 0,
                false => source.bytes_from(passed) + parked.bytes_from(index, passed),
            });
        let ahead: Vec<u64> = ahead.collect();
        let all: u64 = ahead.iter().sum();
        let share = shared_bytes.saturating_sub(all).max(shared_bytes / sources.len() as u64);
        self.some_full = true;
        for (source, bytes) in sources.iter_mut().zip(ahead) {
            source.full = bytes > share;
        }
    }

    fn is_pausable(&self, index: usize) -> bool {
        self.pausable.get(index).is_some_and(|&waits| waits)
    }
}
