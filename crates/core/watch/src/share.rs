//! The recent shares of lost and of bad data.

use catchment_model::{Entry, Ledger, SourceLedger};

use crate::rates::Rates;

/// The time over which the share is computed.
const SHARE_NS: u64 = 10_000_000_000;

/// Losses, and data that should have been recorded, over the time in which anything arrived.
///
/// An event's missing fragments are counted when it closes, after the others' fragments arrived.
/// While nothing arrives, time stops here, so that the last losses do not become the whole share.
#[derive(Clone, Debug)]
pub(crate) struct LossShare {
    rates: Rates,
    /// The total arrivals when they last grew, and the time of that.
    came: (u64, u64),
}

impl LossShare {
    pub(crate) fn new() -> Self {
        Self { rates: Rates::new(SHARE_NS), came: (0, 0) }
    }

    pub(crate) fn push(&mut self, now_ns: u64, ledger: &Ledger) {
        if self.rates.is_empty() {
            // Losses before the first update count, too.
            self.came.1 = now_ns;
            self.rates.push(now_ns, &[0; 4]);
        }
        let total = ledger.total();
        let came = total[Entry::FragmentsReceived] + total[Entry::PacketsDroppedByKernel];
        if came != self.came.0 {
            self.came = (came, now_ns);
        }
        let lost = ledger.sources.iter().map(lost).sum();
        let expected = ledger.sources.iter().map(expected).sum();
        let (bad, recorded) = (ledger.bad_data(), total[Entry::FragmentsRecorded]);
        self.rates.push(self.came.1, &[lost, expected, bad, recorded]);
    }

    /// The lost share, from 0 to 1. If nothing arrived for longer than the share's time, nothing
    /// should have been recorded.
    pub(crate) fn lost_at(&self, now_ns: u64) -> f64 {
        self.share(now_ns, 0)
    }

    /// The bad share of the recorded data, from 0 to 1.
    pub(crate) fn bad_at(&self, now_ns: u64) -> f64 {
        self.share(now_ns, 2)
    }

    /// A counter's growth as a share of the growth of the next one.
    fn share(&self, now_ns: u64, counter: usize) -> f64 {
        if now_ns.saturating_sub(self.came.1) > SHARE_NS {
            return 0.0;
        }
        let (part, whole) = (self.rates.grown(counter), self.rates.grown(counter + 1));
        part as f64 / whole.max(part).max(1) as f64
    }
}

/// The data that should have been recorded according to a source's ledger: wanted arrivals, and
/// losses before arrival.
pub fn expected(source: &SourceLedger) -> u64 {
    let unwanted = [
        Entry::FragmentsDuplicate,
        Entry::FragmentsAmbiguous,
        Entry::FragmentsDiscardedDisabled,
        Entry::FragmentsDiscardedPaused,
        Entry::FragmentsOutsideRun,
        Entry::FragmentsNotOwned,
        Entry::FragmentsForeign,
        Entry::FragmentsDiscardedUnmatched,
    ];
    let unwanted = unwanted.iter().map(|&entry| source[entry]).fold(0, u64::saturating_add);
    let balance = source.balance();
    // These arrived and were counted as lost.
    let came = balance.fragments_dropped.saturating_add(balance.fragments_removed);
    let lost = lost(source);
    let wanted = source[Entry::FragmentsReceived].saturating_sub(unwanted);
    wanted.saturating_add(lost.saturating_sub(came)).max(lost)
}

/// A source's losses according to its ledger. A gap whose fragment arrived, but too late, is one
/// loss.
pub fn lost(source: &SourceLedger) -> u64 {
    let balance = source.balance();
    let seen = balance
        .fragments_lost
        .saturating_add(balance.fragments_dropped)
        .saturating_add(balance.packets_malformed)
        .saturating_add(balance.fragments_removed);
    seen.max(balance.packets_dropped_by_kernel).max(balance.packets_missing)
}
