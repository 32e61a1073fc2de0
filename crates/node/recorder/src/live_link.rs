//! What befalls the connections of a link source, beside its ledger: nothing is dropped by it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
}

/// The same, in the form that agents write.
#[derive(Debug, Default)]
pub(crate) struct LiveLink {
    pub(crate) waits: AtomicU64,
    pub(crate) waited_ns: AtomicU64,
    pub(crate) marks_ignored: AtomicU64,
    pub(crate) fragments_skew: AtomicU64,
}

impl LiveLink {
    pub(crate) fn read(&self) -> LinkCounts {
        LinkCounts {
            waits: self.waits.load(Relaxed),
            waited_ms: self.waited_ns.load(Relaxed) / 1_000_000,
            marks_ignored: self.marks_ignored.load(Relaxed),
            fragments_skew: self.fragments_skew.load(Relaxed),
        }
    }
}
