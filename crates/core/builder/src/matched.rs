//! What stands between the matcher and the cutter: the rows of released events, and the accepted
//! fragments of each source in key order.
//!
//! ```text
//!   rows      | key 4 | key 5 | key 7 |                 closed, and in no cut yet
//!   source 0  | 4     | 5     | 7     | 8 | 9 |         8 and 9: of events still open
//!   source 1  | 4     |       | 7     | 8 |             5 is missing
//! ```
//!
//! Both are queues: the matcher appends, the cutter takes from the front. The fragments of a row
//! are in the queues before the row is.

use std::collections::VecDeque;

use catchment_model::{Entry, SourceId};

use crate::source::Source;
use crate::tally::Tally;
use crate::{BuilderConfig, BuilderStatus, Discard, Fragment};

/// What a [`Matcher`](crate::Matcher) has decided and no cut has taken yet.
#[derive(Debug)]
pub struct Matched {
    pub(crate) sources: Vec<Source>,
    pub(crate) rows: VecDeque<Row>,
    pub(crate) tally: Tally,
    /// Number of fragments in the queues of all sources.
    pub(crate) fragment_count: u64,
    /// By source.
    unsettled: Vec<Unsettled>,
    /// Bytes of the rows.
    pub(crate) released_bytes: u64,
    /// Since when rows wait to be cut.
    pub(crate) rows_since_ns: u64,
    /// Absent events not yet counted for each required source.
    absent_uncounted: u64,
    /// The same of skipped events.
    skipped_uncounted: u64,
    fragments_of_no_source: u64,
}

/// Fragments of a source that fit nowhere, and that another sender than its own sent, since its own
/// was last heard: a stranger, or one that takes the place of its own.
#[derive(Clone, Copy, Debug, Default)]
struct Unsettled {
    /// How many, for each reason of [`FITS_NOWHERE`].
    counts: [u64; 2],
    /// Which of two senders sent them.
    other_sender: bool,
}

/// A released event.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its key. Keys ascend.
    pub key: u64,
    /// When its first fragment was pushed.
    pub first_ns: u64,
    /// Bytes of its fragments.
    pub bytes: u64,
    /// Its [`EventFlags`](catchment_model::EventFlags).
    pub flags: u32,
    /// Why it will be in no frame, by the ledger's entry that counts its fragments; none if it will
    /// be in one.
    pub dropped: Option<Entry>,
}

impl Matched {
    /// Empty queues for these sources.
    pub(crate) fn new(config: &BuilderConfig) -> Self {
        let sources = config.sources.iter().enumerate();
        let sources = sources.map(|(index, &role)| Source::new(role, config.voter_of(index)));
        Self {
            sources: sources.collect(),
            rows: VecDeque::new(),
            tally: Tally::new(config.sources.len()),
            fragment_count: 0,
            unsettled: vec![Unsettled::default(); config.sources.len()],
            released_bytes: 0,
            rows_since_ns: 0,
            absent_uncounted: 0,
            skipped_uncounted: 0,
            fragments_of_no_source: 0,
        }
    }

    /// The index of the source of a run of fragments, which all name the same. None if there is no
    /// such source or it is disabled; the run is then discarded and counted.
    pub fn usable(&mut self, run: &[Fragment]) -> Option<usize> {
        let first = run.first()?;
        let index = first.source as usize;
        match self.sources.get_mut(index) {
            Some(source) if source.enabled => {
                source.replace_sender(first);
                if self.unsettled[index].counts != [0; 2] {
                    let own_is_heard = run.iter().any(|fragment| !source.is_foreign(fragment));
                    self.settle(index, own_is_heard);
                }
                return Some(index);
            }
            Some(_) => run.iter().for_each(|fragment| {
                self.discard(index, fragment, Entry::FragmentsDiscardedDisabled);
            }),
            None => {
                self.fragments_of_no_source += run.len() as u64;
                run.iter().for_each(|fragment| self.tally.discard_of_no_source(fragment));
            }
        }
        None
    }

    /// Appends an accepted fragment to the queue of its source. The key must be beyond those of all
    /// rows.
    #[inline]
    pub fn append(&mut self, index: usize, key: u64, fragment: &Fragment) {
        self.sources[index].append(key, fragment);
        self.fragment_count += 1;
    }

    /// Appends the row of an event that closed at `now_ns`. Its key must be beyond those of all
    /// rows before it.
    #[inline]
    pub fn release(&mut self, row: Row, now_ns: u64) {
        let last = self.rows.back();
        debug_assert!(last.is_none_or(|last| last.key < row.key), "keys ascend");
        if last.is_none() {
            self.rows_since_ns = now_ns;
        }
        self.released_bytes += row.bytes;
        self.rows.push_back(row);
    }

    /// How many rows wait to be cut.
    pub fn row_count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Adds to an entry of a source's ledger.
    #[inline]
    pub fn count(&mut self, index: usize, entry: Entry, count: u64) {
        self.tally.add(index, entry, count);
    }

    /// Counts and notes a fragment that is not used. One that is too far from all events, or too
    /// late, is no loss of its source if another sender sent it than what fits: it is counted when
    /// the source's own sender is heard again, or another one has taken its place.
    pub fn discard(&mut self, index: usize, fragment: &Fragment, reason: Entry) {
        let kind = FITS_NOWHERE.iter().position(|&entry| entry == reason);
        match kind.filter(|_| self.sources[index].is_foreign(fragment)) {
            Some(kind) => {
                let other_sender = fragment.is_of_other_sender();
                if self.unsettled[index].other_sender != other_sender {
                    self.settle(index, false);
                }
                let unsettled = &mut self.unsettled[index];
                unsettled.other_sender = other_sender;
                unsettled.counts[kind] += 1;
                self.tally.note(index, fragment.offset, fragment.bytes, reason);
            }
            None => self.tally.discard(index, fragment.offset, fragment.bytes, reason),
        }
    }

    /// Counts what another sender than a source's own sent: a loss if that one is its own now, and
    /// otherwise a stranger's, once its own is heard again.
    #[cold]
    fn settle(&mut self, index: usize, own_is_heard: bool) {
        let unsettled = &mut self.unsettled[index];
        let is_own = unsettled.other_sender == self.sources[index].is_other_sender();
        if !is_own && !own_is_heard {
            return;
        }
        for (entry, count) in FITS_NOWHERE.into_iter().zip(std::mem::take(&mut unsettled.counts)) {
            let entry = if is_own { entry } else { Entry::FragmentsForeign };
            self.tally.add(index, entry, count);
        }
    }

    /// Counts what is not counted yet, at the end.
    pub(crate) fn settle_all(&mut self) {
        (0..self.unsettled.len()).for_each(|index| self.settle(index, true));
    }

    /// Counts events of which no source delivered anything: `fragments_missing_unrecorded` of each
    /// required source.
    pub fn count_absent(&mut self, events: u64) {
        self.absent_uncounted += events;
    }

    /// Counts events that all senders skipped alike: `fragments_skipped` of each required source.
    pub fn count_skipped(&mut self, events: u64) {
        self.skipped_uncounted += events;
    }

    /// Counts a fragment of a source that comes after a later one.
    pub(crate) fn reach(&mut self, index: usize, key: u64) {
        let reordered = self.sources[index].reach(key);
        self.tally.add(index, Entry::FragmentsReordered, u64::from(reordered));
    }

    /// Takes a source's fragments of those of the first rows that are dropped out of its queue.
    /// Returns how many.
    pub(crate) fn drop_fragments(&mut self, index: usize, row_count: usize) -> u64 {
        let Self { rows, sources, tally, .. } = self;
        let source = &mut sources[index];
        let dropped = |row: &Row| row.dropped.map(|reason| (row.key, reason));
        let mut rows = rows.range(..row_count).filter_map(dropped).peekable();
        let gap = |reason| u64::from(reason != Entry::FragmentsDiscardedPaused);
        let (mut found, mut gaps) = (0, 0);
        source.accepted.retain(|accepted| {
            while let Some((_, reason)) = rows.next_if(|(key, _)| *key < accepted.key) {
                gaps += gap(reason);
            }
            let drop = rows.next_if(|(key, _)| *key == accepted.key);
            if let Some((_, reason)) = drop {
                found += 1;
                tally.discard(index, accepted.offset, accepted.bytes, reason);
            }
            drop.is_none()
        });
        gaps += rows.map(|(_, reason)| gap(reason)).sum::<u64>();
        if source.required {
            tally.add(index, Entry::FragmentsMissingUnrecorded, gaps);
        }
        found
    }

    /// Moves all discarded fragments to `into`'s end.
    pub(crate) fn take_discards(&mut self, into: &mut Vec<Discard>) {
        self.tally.take_discards(into);
    }

    /// Hands the ledger's increments since the last call to `add`.
    pub(crate) fn take_counts(&mut self, add: impl FnMut(SourceId, Entry, u64)) {
        let absent = std::mem::take(&mut self.absent_uncounted);
        let skipped = std::mem::take(&mut self.skipped_uncounted);
        if absent + skipped > 0 {
            let required = self.sources.iter().enumerate().filter(|(_, source)| source.required);
            for (index, _) in required {
                self.tally.add(index, Entry::FragmentsMissingUnrecorded, absent);
                self.tally.add(index, Entry::FragmentsSkipped, skipped);
            }
        }
        self.tally.take_counts(add);
    }

    /// Adds what waits here to the matcher's status.
    pub(crate) fn add_to(&self, status: &mut BuilderStatus) {
        status.released_events = self.row_count();
        status.released_bytes = self.released_bytes;
        status.fragments_held += self.fragment_count;
        status.fragments_unsettled = self.unsettled.iter().flat_map(|one| one.counts).sum();
        status.fragments_of_no_source = self.fragments_of_no_source;
        let voters = self.sources.iter().map(Source::voter).max().map_or(0, |voter| voter + 1);
        let mut newest = vec![0; voters];
        for source in &self.sources {
            let newest = &mut newest[source.voter()];
            *newest = source.reached.max(*newest);
        }
        for (source, status) in self.sources.iter().zip(&mut status.sources) {
            let behind = newest[source.voter()] - source.reached;
            status.is_awaited = source.required && (1..=AWAITED_KEYS).contains(&behind);
        }
    }
}

/// A source that its sender has left out of more keys than this is not waited for: it is off.
const AWAITED_KEYS: u64 = 4;

/// Why a fragment may be a stranger's: it is no part of any event.
const FITS_NOWHERE: [Entry; 2] = [Entry::FragmentsOutOfRange, Entry::FragmentsLate];
