//! Where a run begins, pauses and ends: between two events, also while sources go on sending.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::build::Side;
use crate::live::Live;

/// After a stop, how long what begins still belongs to the run: time for what is in the sockets.
/// Where receiving ends earlier, since nothing comes any more, all of it does.
const LAST_WORDS_NS: u64 = 300_000_000;

/// What the build thread tells its builders of what is wanted.
pub(crate) struct Wanted {
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
    stopping_since_ns: Option<u64>,
    /// As the builders know it; none before they were first looked after, when they want all.
    wanted: Option<bool>,
}

impl Wanted {
    pub(crate) fn new(live: &Arc<Live>, stop: &Arc<AtomicBool>) -> Self {
        let (live, stop) = (Arc::clone(live), Arc::clone(stop));
        Self { live, stop, stopping_since_ns: None, wanted: None }
    }

    /// Tells the builders what has changed. Once all events are closed that began in time, the
    /// receive threads need not go on.
    pub(crate) fn heed(&mut self, now_ns: u64, sides: &mut [Side]) {
        let stopping = self.stop.load(Relaxed);
        if stopping {
            self.stopping_since_ns.get_or_insert(now_ns);
        }
        let over = self.stopping_since_ns.is_some_and(|since| now_ns - since >= LAST_WORDS_NS);
        let wanted = !over && !self.live.paused.load(Relaxed);
        let known = self.wanted.replace(wanted);
        if known.unwrap_or(true) != wanted {
            sides.iter_mut().for_each(|side| side.builder.want(wanted));
        }
        if known != Some(wanted) {
            self.live.wanted.store(wanted, Release);
        }
        if over && sides.iter_mut().all(|side| side.builder.is_past_change()) {
            self.live.past_end.store(true, Relaxed);
        }
    }
}
