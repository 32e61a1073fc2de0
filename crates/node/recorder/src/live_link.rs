//! What befalls the connections of a link source, beside its ledger: nothing is dropped by it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use catchment_wire::event_link::AbandonReason;

use crate::live_progress::LiveProgress;

/// Counts of a source that front-ends deliver, or of a channel link over a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// How often others waited for it, since its connection had ended without a word.
    pub waits: u64,
    /// For how many milliseconds, in all.
    pub waited_ms: u64,
    /// Its marks *begin* and *end* of other runs than this one.
    pub marks_ignored: u64,
    /// Rows without it of events that did not wait for it any more while its connection was held:
    /// what its other sources bring stands before it.
    pub fragments_skew: u64,
    /// Fragments that its sender abandoned in the run, by [reason](ABANDON_REASONS).
    pub abandoned: [u64; 4],
}

/// Why fragments are abandoned.
pub const ABANDON_REASONS: [&str; 4] = ["buffer", "hardware", "busy", "other"];

/// The same, in the form that agents write.
#[derive(Debug, Default)]
pub(crate) struct LiveLink {
    pub(crate) waits: AtomicU64,
    pub(crate) waited_ns: AtomicU64,
    pub(crate) marks_ignored: AtomicU64,
    pub(crate) fragments_skew: AtomicU64,
    abandoned: [AtomicU64; 4],
    pub(crate) progress: LiveProgress,
}

impl LiveLink {
    pub(crate) fn read(&self) -> LinkCounts {
        LinkCounts {
            waits: self.waits.load(Relaxed),
            waited_ms: self.waited_ns.load(Relaxed) / 1_000_000,
            marks_ignored: self.marks_ignored.load(Relaxed),
            fragments_skew: self.fragments_skew.load(Relaxed),
            abandoned: self.abandoned.each_ref().map(|count| count.load(Relaxed)),
        }
    }

    /// Its sender has abandoned so many fragments of the run.
    pub(crate) fn abandoned(&self, reason: AbandonReason, count: u64) {
        let index = match reason {
            AbandonReason::BUFFER => 0,
            AbandonReason::HARDWARE => 1,
            AbandonReason::BUSY => 2,
            _ => 3,
        };
        self.abandoned[index].fetch_add(count, Relaxed);
    }
}
