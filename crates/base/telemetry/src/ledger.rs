//! The ledger while it is being written.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use catchment_model::{Entry, Ledger, REASONS_MAX, SourceId};

/// Counts that any thread may add to and any thread may read.
#[derive(Debug)]
pub struct LiveLedger {
    // Row by row: the entries and reasons of source 0, then those of source 1.
    cells: Box<[AtomicU64]>,
}

impl LiveLedger {
    /// All counts zero.
    pub fn new(source_count: usize) -> Self {
        Self { cells: (0..source_count * ROW_CELLS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The number of sources.
    pub fn source_count(&self) -> usize {
        self.cells.len() / ROW_CELLS
    }

    /// Adds to a count. Call it per batch, not per fragment.
    pub fn add(&self, source: SourceId, entry: Entry, count: u64) {
        if count > 0 {
            self.cells[source.index() * ROW_CELLS + entry as usize].fetch_add(count, Relaxed);
        }
    }

    /// Adds all counts of a ledger of the same sources.
    pub fn add_all(&self, ledger: &Ledger) {
        for (id, source) in (0..).map(SourceId).zip(&ledger.sources) {
            source.iter().for_each(|(entry, count)| self.add(id, entry, count));
            let reasons = source.reasons.iter().enumerate();
            reasons.for_each(|(reason, &count)| self.add_reason(id, reason, count));
        }
    }

    /// Adds to the malformed packets that the source's protocol refused for that reason.
    ///
    /// # Panics
    /// A reason beyond the bound.
    pub fn add_reason(&self, source: SourceId, reason: usize, count: u64) {
        assert!(reason < REASONS_MAX, "a reason of the protocol");
        if count > 0 {
            let cell = source.index() * ROW_CELLS + Entry::COUNT + reason;
            self.cells[cell].fetch_add(count, Relaxed);
        }
    }

    /// The current value of one count.
    pub fn read(&self, source: SourceId, entry: Entry) -> u64 {
        self.cells[source.index() * ROW_CELLS + entry as usize].load(Relaxed)
    }

    /// All counts, each with its value at some moment during the call.
    pub fn snapshot(&self) -> Ledger {
        let mut ledger = Ledger::new(self.source_count());
        for (row, source) in self.cells.chunks_exact(ROW_CELLS).zip(&mut ledger.sources) {
            let (entries, reasons) = row.split_at(Entry::COUNT);
            for (cell, &entry) in entries.iter().zip(Entry::ALL) {
                source[entry] = cell.load(Relaxed);
            }
            for (cell, reason) in reasons.iter().zip(&mut source.reasons) {
                *reason = cell.load(Relaxed);
            }
        }
        ledger
    }
}

/// Counts of one source.
const ROW_CELLS: usize = Entry::COUNT + REASONS_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_holds_what_was_added() {
        let live = LiveLedger::new(3);
        live.add(SourceId(2), Entry::FragmentsLate, 4);
        live.add(SourceId(2), Entry::FragmentsLate, 3);
        live.add_reason(SourceId(1), 15, 2);
        let ledger = live.snapshot();
        assert_eq!((ledger.sources[1].reasons[15], ledger.total().reasons), (2, [0; 16]));
        assert_eq!(ledger.sources[2][Entry::FragmentsLate], 7);
        assert_eq!(ledger.total()[Entry::FragmentsLate], 7);
        assert_eq!(live.read(SourceId(1), Entry::FragmentsLate), 0);
    }
}
