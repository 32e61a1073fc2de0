//! The populate agent: makes the system provide the pages of the pools that were not provided at
//! the start.
//!
//! The first touch of a page costs a receive agent more than copying the data to it, and it happens
//! when the disk is slow and memory is needed. Pages are therefore touched in advance, step by
//! step, with a fifth of a CPU at most.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_agent::{Agent, Work};

use crate::live::Live;
use crate::pool::ChunkPool;

/// The pause after a step, as a multiple of its length.
const PAUSES: u64 = 4;

/// Touches the pools' memory, one after the other.
pub(crate) struct Populate {
    pools: VecDeque<Arc<ChunkPool>>,
    /// The progress in the first pool.
    populated_bytes: usize,
    /// When the last step began, until the pause after it begins.
    began_ns: Option<u64>,
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
}

impl Populate {
    pub(crate) fn new(
        pools: impl Iterator<Item = Arc<ChunkPool>>,
        live: &Arc<Live>,
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let pools: VecDeque<_> = pools.collect();
        let populated_bytes = pools.front().map_or(0, |pool| pool.populated_at_start());
        let (live, stop) = (Arc::clone(live), Arc::clone(stop));
        Self { pools, populated_bytes, began_ns: None, live, stop }
    }

    fn next_pool(&mut self) {
        self.pools.pop_front();
        self.populated_bytes = self.pools.front().map_or(0, |pool| pool.populated_at_start());
    }
}

impl Agent for Populate {
    fn work(&mut self, now_ns: u64) -> Work {
        if let Some(began_ns) = self.began_ns.take() {
            return Work::until(1, now_ns + PAUSES * now_ns.saturating_sub(began_ns));
        }
        let Some(pool) = self.pools.front().filter(|_| !self.stop.load(Relaxed)) else {
            return Work::ended();
        };
        match pool.populate_step(self.populated_bytes) {
            Ok(0) => self.next_pool(),
            Ok(bytes) => {
                self.populated_bytes += bytes;
                self.began_ns = Some(now_ns);
            }
            Err(error) => {
                self.live.warn_once(format!("the memory budget is not available in full: {error}"));
                self.next_pool();
            }
        }
        Work::again(1)
    }
}
