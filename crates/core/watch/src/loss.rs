//! Which sources lost what, or sent bad data, lately.

use catchment_model::ledger::{BAD_DATA, Role};
use catchment_model::{Entry, Ledger};

use crate::rates::Rates;

/// What grew of one source's losses, or of its bad data, within the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossGrowth {
    /// The source's index in the ledger.
    pub source: usize,
    /// Of what kind.
    pub entry: Entry,
    /// By how much.
    pub count: u64,
    /// How long ago it last grew.
    pub age_ns: u64,
}

/// Watches entries of a ledger: those that mean lost data, or bad data. It keeps 22 samples of 8
/// bytes for each source and each such entry: for 1,000 sources 4.8 MB of the 28 entries of loss,
/// and 0.5 MB of the 3 of bad data.
#[derive(Clone, Debug)]
pub struct LossWatch {
    entries: Vec<Entry>,
    rates: Rates,
    sources: usize,
    counters: Vec<u64>,
}

/// Whether an entry of the ledger means that something that was sent is in no file.
pub fn is_loss(entry: Entry) -> bool {
    let gap = matches!(
        entry,
        Entry::PacketsDroppedByKernel
            | Entry::PacketsMissing
            | Entry::FragmentsMissing
            | Entry::FragmentsMissingUnrecorded
            | Entry::FragmentsRemoved
            | Entry::FragmentsUnconfirmed
            | Entry::FragmentsAbandoned
            | Entry::FragmentsLostSender
            | Entry::FragmentsLostRestart
            | Entry::FragmentsLostTaken
            | Entry::FragmentsNotSent
    );
    gap || matches!(entry.role(), Role::PacketsLost | Role::FragmentsLost)
}

/// Whether an entry of the ledger means that something is recorded that is not as it should be.
pub fn is_bad(entry: Entry) -> bool {
    BAD_DATA.contains(&entry)
}

/// What an entry of the ledger that means loss or bad data is called, on the page and in texts of
/// the node.
pub fn words_of_entry(entry: Entry) -> &'static str {
    match entry {
        Entry::PacketsDroppedByKernel => "packets dropped by the kernel",
        Entry::PacketsMalformedShort => "malformed packets: too short",
        Entry::PacketsMalformedLength => "malformed packets: wrong length",
        Entry::PacketsMalformedHeader => "malformed packets: unknown header",
        Entry::PacketsMalformedChecksum => "malformed packets: wrong checksum or trailer",
        Entry::PacketsMalformedFragment => "malformed packets: impossible fragment",
        Entry::PacketsMissing => "packets lost on the network",
        Entry::FragmentsLate => "late fragments",
        Entry::FragmentsOutOfRange => "fragments out of range",
        Entry::FragmentsUnknownSource => "fragments of another source",
        Entry::FragmentsDiscardedMemory => "discarded: memory full",
        Entry::FragmentsDiscardedDisk => "discarded: disk failed",
        Entry::FragmentsDiscardedIncomplete => "discarded: event incomplete",
        Entry::FragmentsDiscardedUnfinished => "discarded: parts of the fragment missing",
        Entry::FragmentsDiscardedTooLarge => "discarded: event too large",
        Entry::FragmentsDiscardedOrder => "discarded: key does not rise",
        Entry::FragmentsDiscardedTooLong => "discarded: fragment too long",
        Entry::FragmentsAbandoned => "fragments dropped by the front-end",
        Entry::FragmentsLostSender => "fragments lost in a front-end that died",
        Entry::FragmentsDiscardedRestart => "discarded: recorder died",
        Entry::FragmentsLostRestart => "fragments lost while no recorder was there",
        Entry::FragmentsLostTaken => "fragments released as taken before the recorder died",
        Entry::FragmentsNotSent => "fragments that the front-end never sent",
        Entry::FragmentsTimeRepeated => "fragments whose time came before",
        Entry::FragmentsMissing => "missing fragments",
        Entry::FragmentsMissingUnrecorded => "missing fragments of lost events",
        Entry::FragmentsRemoved => "recorded fragments whose files were removed",
        Entry::FragmentsUnconfirmed => "recorded fragments that their disk did not confirm",
        Entry::FragmentsBadSender => "fragments marked broken by their sender",
        Entry::FragmentsBadTag => "fragments of another trigger",
        Entry::FragmentsWithHoles => "fragments of which a part is missing",
        Entry::FragmentsBadChecksum => "fragments with a wrong checksum",
        other => other.name(),
    }
}

impl LossWatch {
    /// Watches those entries over that time: [`is_loss`], [`is_bad`].
    pub fn new(window_ns: u64, is_watched: fn(Entry) -> bool) -> Self {
        let entries = Entry::ALL.iter().copied().filter(|&entry| is_watched(entry)).collect();
        Self { entries, rates: Rates::new(window_ns), sources: 0, counters: Vec::new() }
    }

    /// The ledger as it is now. A first one counts from zero: losses from before one looked show.
    pub fn push(&mut self, now_ns: u64, ledger: &Ledger) {
        self.counters.clear();
        for source in &ledger.sources {
            self.counters.extend(self.entries.iter().map(|&entry| source[entry]));
        }
        if self.sources != ledger.sources.len() {
            self.sources = ledger.sources.len();
            self.rates.push(now_ns, &vec![0; self.counters.len()]);
        }
        self.rates.push(now_ns, &self.counters);
    }

    /// What grew not longer ago than `within_ns` (the window at most), the worst first.
    pub fn recent(&self, now_ns: u64, within_ns: u64) -> Vec<LossGrowth> {
        let mut found = Vec::new();
        for index in 0..self.rates.len() {
            if let Some(age_ns) = self.rates.since_grown_ns(index, now_ns)
                && age_ns <= within_ns
            {
                found.push(LossGrowth {
                    source: index / self.entries.len(),
                    entry: self.entries[index % self.entries.len()],
                    // It may have left the window just now.
                    count: self.rates.grown(index).max(1),
                    age_ns,
                });
            }
        }
        found.sort_by_key(|loss| (std::cmp::Reverse(loss.count), loss.source, loss.entry));
        found
    }
}
