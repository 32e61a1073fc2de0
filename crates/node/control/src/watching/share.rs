//! The share of the data that was lost lately.

use catchment_model::{Entry, Ledger, SourceLedger};
use catchment_watch::Rates;

use super::{S, lost};

/// The share is of this.
const SHARE_NS: u64 = 10 * S;

/// What was lost, and what should have been recorded, in the time in which anything came.
///
/// What events lack is counted when they close, after the others' fragments came. While nothing
/// comes time stands still here, so that the last losses are not all that there is.
pub(super) struct LossShare {
    rates: Rates,
    /// How much had come when something last did, and when that was.
    came: (u64, u64),
}

impl LossShare {
    pub(super) fn new() -> Self {
        Self { rates: Rates::new(SHARE_NS), came: (0, 0) }
    }

    pub(super) fn push(&mut self, now_ns: u64, lost: u64, ledger: &Ledger) {
        if self.rates.is_empty() {
            // What was lost before one looked counts, too.
            self.came.1 = now_ns;
            self.rates.push(now_ns, &[0, 0]);
        }
        let total = ledger.total();
        let came = total[Entry::FragmentsReceived] + total[Entry::PacketsDroppedByKernel];
        if came != self.came.0 {
            self.came = (came, now_ns);
        }
        let expected = ledger.sources.iter().map(expected).sum();
        self.rates.push(self.came.1, &[lost, expected]);
    }

    /// From 0 to 1. Where nothing came for longer than the share is of, nothing should have been
    /// recorded.
    pub(super) fn at(&self, now_ns: u64) -> f64 {
        if now_ns.saturating_sub(self.came.1) > SHARE_NS {
            return 0.0;
        }
        let (lost, expected) = (self.rates.grown(0), self.rates.grown(1));
        lost as f64 / expected.max(lost).max(1) as f64
    }
}

/// What a source's ledger says should have been recorded: what came and was wanted, and what was
/// lost before it came.
pub(super) fn expected(source: &SourceLedger) -> u64 {
    let unwanted = [
        Entry::FragmentsDuplicate,
        Entry::FragmentsAmbiguous,
        Entry::FragmentsDiscardedDisabled,
        Entry::FragmentsDiscardedPaused,
        Entry::FragmentsNotOwned,
    ];
    let unwanted = unwanted.iter().map(|&entry| source[entry]).fold(0, u64::saturating_add);
    let balance = source.balance();
    // These came and were counted as lost.
    let came = balance.fragments_dropped.saturating_add(balance.fragments_removed);
    let lost = lost(source);
    let wanted = source[Entry::FragmentsReceived].saturating_sub(unwanted);
    wanted.saturating_add(lost.saturating_sub(came)).max(lost)
}
