//! Where a run begins, pauses and ends: between two events, also while sources continue to send.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release};

use catchment_model::{Entry, SourceId};

use crate::build::Pipeline;
use crate::live::Live;

/// How long after a stop new events still belong to the run: time for the data in the sockets. If
/// reception ends earlier, since nothing more arrives, all events belong to it.
const LAST_ARRIVALS_NS: u64 = 300_000_000;
/// The time after the start within which packets of sending sources arrive.
const HEARD_WITHIN_NS: u64 = 250_000_000;
/// Datagrams that arrived between the opening of the first socket and the last are processed by
/// then.
const SETTLED_AFTER_NS: u64 = 50_000_000;

/// Tells the builders whether events that begin now belong to the run.
pub(crate) struct RunGate {
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
    started_ns: u64,
    stopping_since_ns: Option<u64>,
    /// The value that the builders have; none before the first cycle, when they record everything.
    recording: Option<bool>,
}

impl RunGate {
    pub(crate) fn new(live: &Arc<Live>, stop: &Arc<AtomicBool>, started_ns: u64) -> Self {
        let (live, stop) = (Arc::clone(live), Arc::clone(stop));
        Self { live, stop, started_ns, stopping_since_ns: None, recording: None }
    }

    /// Tells the builders of a change. Once all events that began in time are closed, the receive
    /// agents need not continue.
    pub(crate) fn apply(&mut self, now_ns: u64, pipelines: &mut [Pipeline]) {
        self.begin_if_due(now_ns);
        if self.stop.load(Relaxed) {
            self.stopping_since_ns.get_or_insert(now_ns);
            // Read before the cycle takes descriptors: if a ring is empty, this is not older.
            self.live.settled.store(false, Release);
        }
        let over = self.stopping_since_ns.is_some_and(|since| now_ns - since >= LAST_ARRIVALS_NS);
        let recording = !over && !self.live.paused.load(Relaxed);
        let known = self.recording.replace(recording);
        if known.unwrap_or(true) != recording {
            pipelines.iter_mut().for_each(|pipeline| pipeline.builder.set_recording(recording));
        }
        if known != Some(recording) {
            self.live.recording.store(recording, Release);
        }
        if over && pipelines.iter_mut().all(|pipeline| pipeline.builder.is_drained()) {
            self.live.past_end.store(true, Relaxed);
        }
    }

    /// At the end of a cycle of an ending run, publishes whether the builders wait for nothing.
    pub(crate) fn settle(&self, pipelines: &[Pipeline]) {
        if self.stopping_since_ns.is_some() {
            self.live.settled.store(pipelines.iter().all(Pipeline::is_settled), Release);
        }
    }

    /// Ends the pause of a run that is to begin between two events: once packets of sources that
    /// were already sending have arrived, or after the time in which they would have.
    fn begin_if_due(&mut self, now_ns: u64) {
        if !self.live.begin.load(Relaxed) {
            return;
        }
        let after_ns = now_ns.saturating_sub(self.started_ns);
        let ledger = &self.live.ledger;
        let heard = |source| ledger.read(SourceId(source), Entry::PacketsReceived) > 0;
        let any_heard = || (0..ledger.source_count() as u32).any(heard);
        if after_ns >= HEARD_WITHIN_NS || (after_ns >= SETTLED_AFTER_NS && any_heard()) {
            self.live.paused.store(false, Relaxed);
            self.live.begin.store(false, Release);
        }
    }
}
