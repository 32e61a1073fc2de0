//! How much memory each source may use for what others have not reached.

use super::horizon::Horizon;
use super::parked::Parked;
use crate::{BuilderConfig, Matched};

/// How often shares are computed per time-out while memory is short.
const SHARES_PER_TIMEOUT: u64 = 64;

/// Limits what each source may hold of keys that the quorum has not passed. Together such fragments
/// may use half of the waiting memory; a source whose part exceeds what is free of that half is
/// *full*. A single source ahead therefore gets a quarter of the memory, several get less each, and
/// the other half is reserved for the sources that the quorum waits for.
#[derive(Debug)]
pub struct Shares {
    pub waiting_bytes_max: u64,
    /// The sources that are never full, since they wait; empty if there are none.
    pausable: Vec<bool>,
    interval_ns: u64,
    /// When shares are computed next.
    due_ns: u64,
    some_full: bool,
}

impl Shares {
    pub fn new(config: &BuilderConfig) -> Self {
        Self {
            waiting_bytes_max: config.waiting_bytes_max,
            pausable: config.pausable.clone(),
            interval_ns: config.timeout_ns / SHARES_PER_TIMEOUT,
            due_ns: 0,
            some_full: false,
        }
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
        let sources = &mut matched.sources;
        let shared_bytes = self.waiting_bytes_max / 2;
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
        let ahead: Vec<u64> = sources
            .iter()
            .enumerate()
            .map(|(index, source)| source.bytes_from(passed) + parked.bytes_from(index, passed))
            .collect();
        let all: u64 = ahead.iter().sum();
        let share = shared_bytes.saturating_sub(all).max(shared_bytes / sources.len() as u64);
        self.some_full = true;
        for (index, (source, bytes)) in sources.iter_mut().zip(ahead).enumerate() {
            source.full = bytes > share && !self.pausable.get(index).is_some_and(|&waits| waits);
        }
    }
}
