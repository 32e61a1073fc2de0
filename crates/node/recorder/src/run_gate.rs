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
/// Sources that send together are heard within this time of each other, and what they sent while
/// other sockets were being opened is in the sockets by then.
const SETTLED_AFTER_NS: u64 = 50_000_000;
/// How long a run waits for receive agents that do not come to the end of what stands in their
/// endpoints: they are held up, or sources send faster than they read.
const READ_WITHIN_NS: u64 = 2_000_000_000;

/// Tells the builders whether events that begin now belong to the run.
pub(crate) struct RunGate {
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
    started_ns: u64,
    /// Since when the run is to begin between two events.
    beginning_since_ns: Option<u64>,
    /// Whether the build agent's rings had all that stood in the endpoints when the last cycle
    /// began.
    is_passed_on: bool,
    stopping_since_ns: Option<u64>,
    /// The value that the builders have; none before the first cycle, when they record everything.
    recording: Option<bool>,
}

impl RunGate {
    pub(crate) fn new(live: &Arc<Live>, stop: &Arc<AtomicBool>, started_ns: u64) -> Self {
        let (live, stop) = (Arc::clone(live), Arc::clone(stop));
        Self {
            live,
            stop,
            started_ns,
            beginning_since_ns: None,
            is_passed_on: false,
            stopping_since_ns: None,
            recording: None,
        }
    }

    /// Tells the builders of a change. Once all events that began in time are closed, the receive
    /// agents need not continue.
    pub(crate) fn apply(&mut self, now_ns: u64, pipelines: &mut [Pipeline]) {
        self.begin_if_due(now_ns, pipelines);
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
    /// were already sending have arrived, or after the time in which they would have; and once all
    /// that had arrived by then is in events, which begin before the run does.
    fn begin_if_due(&mut self, now_ns: u64, pipelines: &[Pipeline]) {
        if !self.live.begin.load(Relaxed) {
            (self.beginning_since_ns, self.is_passed_on) = (None, false);
            return;
        }
        let since_ns = *self.beginning_since_ns.get_or_insert(now_ns);
        // What was in the rings before a cycle that emptied them is in events.
        let is_built = self.is_passed_on && pipelines.iter().all(|one| one.has_emptied_rings);
        let from_ns = since_ns.max(self.started_ns + SETTLED_AFTER_NS);
        self.is_passed_on |= pipelines.iter().all(|one| one.is_passed_on_since(from_ns));
        let after_ns = now_ns.saturating_sub(self.started_ns);
        let ledger = &self.live.ledger;
        let heard = |source| ledger.read(SourceId(source), Entry::PacketsReceived) > 0;
        let any_heard = || (0..ledger.source_count() as u32).any(heard);
        let is_heard = after_ns >= HEARD_WITHIN_NS || after_ns >= SETTLED_AFTER_NS && any_heard();
        let is_late = now_ns.saturating_sub(since_ns) >= READ_WITHIN_NS;
        if is_heard && (is_built || is_late) {
            self.live.paused.store(false, Relaxed);
            self.live.begin.store(false, Release);
        }
    }
}
