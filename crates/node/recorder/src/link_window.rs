//! When a listener takes data of a run.

use std::sync::atomic::Ordering::{Acquire, Relaxed};

use crate::live::Live;

/// A run that has not begun by then waits for its start.
const BEGINS_WITHIN_NS: u64 = 5_000_000_000;
/// How long after a stop data are taken: less than events belong to the run (`run_gate.rs`).
const TAKEN_WITHIN_NS: u64 = 150_000_000;

/// Whether data are taken. What comes in the moments before a run begins, and behind its end, is
/// not: it would be in no file, and its sender be told that it is durable. In a pause, and while a
/// run that is armed waits for its start, data are taken and discarded.
#[derive(Default)]
pub(crate) struct Window {
    pub(crate) is_open: bool,
    /// Whether the run has begun, and since when the listener waits for that.
    has_begun: bool,
    since_ns: Option<u64>,
    /// Since when the run is to end, and whether the last datum was taken.
    stopping_ns: Option<u64>,
    pub(crate) has_ended: bool,
}

impl Window {
    pub(crate) fn look(&mut self, now_ns: u64, is_stopping: bool, live: &Live) {
        let is_recording = live.recording.load(Acquire);
        self.has_begun |= is_recording;
        let waited_ns = now_ns - *self.since_ns.get_or_insert(now_ns);
        let begins = !self.has_begun && waited_ns < BEGINS_WITHIN_NS || live.begin.load(Relaxed);
        let is_outside = !is_recording && (begins || !live.paused.load(Relaxed));
        let stopping_ns = is_stopping.then(|| *self.stopping_ns.get_or_insert(now_ns));
        let is_late = stopping_ns.is_some_and(|since_ns| now_ns - since_ns >= TAKEN_WITHIN_NS);
        self.is_open = !is_outside && !is_late && !self.has_ended;
    }
}
