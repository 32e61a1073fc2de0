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
//! are in the queues before the row is; several of a source with the key of one row are its pieces.
//! How an event closed decides its row ([`Closing`](crate::closing::Closing)).

use std::collections::VecDeque;
use std::ops::Range;

use catchment_model::{Entry, SourceId};

use crate::closing::is_unwanted;
use crate::expected::{is_expected, row_expects};
use crate::tally::Tally;
use crate::undecided::Undecided;
use crate::{BuilderConfig, BuilderStatus, Discard, Fragment, FragmentFlags, Needs, SourceRole};

/// What a [`Matcher`](crate::Matcher) has decided and no cut has taken yet.
#[derive(Debug)]
pub struct Matched {
    pub(crate) sources: Vec<Source>,
    pub(crate) rows: VecDeque<Row>,
    pub(crate) tally: Tally,
    /// By source, the times of the fragments in its queue; empty unless the rule knows times.
    pub(crate) times: Vec<VecDeque<u64>>,
    /// By source, the groups in whose events it is expected; 0: in all.
    pub(crate) expected_in: Vec<u64>,
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
    /// By source; empty if the settings do not ask for positions.
    pub(crate) undecided: Vec<Undecided>,
    /// If they do: absent and skipped events, by the key of the row before which they are.
    absences: VecDeque<(u64, [u64; 2])>,
    /// The key below which all events were cut or dropped.
    pub(crate) closed_key: u64,
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
    /// The groups that took part in it, one in each bit; 0 if they were not named.
    pub groups: u64,
    /// Why it will be in no frame, by the ledger's entry that counts its fragments; none if it will
    /// be in one.
    pub dropped: Option<Entry>,
}

impl Matched {
    /// Empty queues for these sources.
    pub(crate) fn new(config: &BuilderConfig, needs: &Needs) -> Self {
        let continues = config.continues.as_ref();
        let reached = |index: usize| continues.and_then(|run| run.sources[index]).unwrap_or(0);
        let sources = config.sources.iter().enumerate();
        let sources =
            sources.map(|(index, &role)| Source { reached: reached(index), ..Source::new(role) });
        let expected_in = |(index, &role): (usize, &SourceRole)| match role {
            SourceRole::Sparse => 0,
            _ => config.expected_in.get(index).copied().unwrap_or(0),
        };
        let undecided =
            |(index, _)| Undecided { decided_key: reached(index), ..Undecided::default() };
        Self {
            sources: sources.collect(),
            rows: VecDeque::new(),
            tally: Tally::new(config.sources.len()),
            times: Vec::new(),
            expected_in: config.sources.iter().enumerate().map(expected_in).collect(),
            fragment_count: 0,
            unsettled: vec![Unsettled::default(); config.sources.len()],
            released_bytes: 0,
            rows_since_ns: 0,
            absent_uncounted: 0,
            skipped_uncounted: 0,
            fragments_of_no_source: 0,
            undecided: match config.positions.contains(&true) || needs.ordinals {
                true => config.sources.iter().enumerate().map(undecided).collect(),
                false => Vec::new(),
            },
            absences: VecDeque::new(),
            closed_key: continues.map_or(0, |run| run.closed_key),
        }
    }

    /// The index of the source of a run of fragments, which all name the same. None if there is no
    /// such source or it is disabled; the run is then discarded and counted.
    pub fn usable(&mut self, run: &[Fragment]) -> Option<usize> {
        let first = run.first()?;
        let index = first.source as usize;
        if self.has_positions() {
            self.note_pushed(index, run.len());
        }
        match self.sources.get_mut(index) {
            Some(source) if source.enabled => {
                source.replace_sender(first);
                if self.unsettled[index].counts != [0; 2] {
                    let own_is_heard = run.iter().any(|fragment| !source.is_foreign(fragment));
                    self.settle(index, own_is_heard);
                }
                return Some(index);
            }
            Some(_) => {
                (self.first_ordinal(index, run)..).zip(run).for_each(|(ordinal, fragment)| {
                    self.discard(index, ordinal, fragment, Entry::FragmentsDiscardedDisabled);
                })
            }
            None => {
                self.fragments_of_no_source += run.len() as u64;
                run.iter().for_each(|fragment| self.tally.discard_of_no_source(fragment));
            }
        }
        None
    }

    /// From now on a source is expected in the events of these groups, one in each bit; 0: in all.
    pub(crate) fn expect_in(&mut self, index: usize, groups: u64) {
        self.expected_in[index] = groups;
    }

    /// Whether a source is expected in an event in which these groups took part; with 0, which says
    /// that they are not known, every one is.
    #[inline]
    pub(crate) fn is_expected(&self, index: usize, named: u64) -> bool {
        is_expected(self.expected_in[index], named)
    }

    /// Whether the settings ask for positions.
    #[inline]
    pub(crate) fn has_positions(&self) -> bool {
        !self.undecided.is_empty()
    }

    #[inline(never)]
    fn note_pushed(&mut self, index: usize, count: usize) {
        if let Some(undecided) = self.undecided.get_mut(index) {
            undecided.pushed += count as u64;
        }
    }

    /// The ordinal of the first of the last fragments of the run that [`usable`](Self::usable) was
    /// asked about; 0 if the settings do not ask for positions.
    #[inline]
    pub fn first_ordinal(&self, index: usize, rest: &[Fragment]) -> u64 {
        self.undecided.get(index).map_or(0, |undecided| undecided.pushed - rest.len() as u64)
    }

    /// Appends an accepted fragment to the queue of its source. The key must be beyond those of all
    /// rows.
    #[inline]
    pub fn append(&mut self, index: usize, key: u64, fragment: &Fragment, ordinal: u64) {
        let source = &mut self.sources[index];
        source.append(key, fragment);
        self.fragment_count += 1;
        let Some(Undecided { accepted, .. }) = self.undecided.get_mut(index) else { return };
        match std::mem::take(&mut source.inserted) {
            false => accepted.put_last(ordinal, 1),
            true => accepted.put_at(source.place_of(key), ordinal),
        }
    }

    /// Notes fragments that were appended to a source's queue, with consecutive ordinals, if the
    /// settings ask for positions.
    #[inline(never)]
    pub(crate) fn note_appended(&mut self, index: usize, ordinal: u64, count: u64) {
        let Undecided { accepted, .. } = &mut self.undecided[index];
        match std::mem::take(&mut self.sources[index].inserted) {
            false => accepted.put_last(ordinal, count),
            true => accepted.put_mixed(ordinal, count),
        }
    }

    /// The events up to `key` are cut or dropped, and their fragments leave the queues.
    pub(crate) fn close(&mut self, key: u64) {
        self.closed_key = key + 1;
        while let Some((_, [absent, skipped])) = self.absences.pop_front_if(|(row, _)| *row <= key)
        {
            self.absent_uncounted += absent;
            self.skipped_uncounted += skipped;
        }
        for (undecided, source) in self.undecided.iter_mut().zip(&self.sources) {
            let count = source.accepted.partition_point(|accepted| accepted.key <= key);
            if let Some(last) = count.checked_sub(1) {
                undecided.accepted.take(count as u64);
                undecided.decided_key = source.accepted[last].key + 1;
            }
        }
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
        if self.has_positions() && self.absent_uncounted + self.skipped_uncounted > 0 {
            // They are counted with the row.
            let counts = [&mut self.absent_uncounted, &mut self.skipped_uncounted];
            self.absences.push_back((row.key, counts.map(std::mem::take)));
        }
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
    pub fn discard(&mut self, index: usize, ordinal: u64, fragment: &Fragment, reason: Entry) {
        let &Fragment { offset, bytes, .. } = fragment;
        let discard = Discard { source: SourceId(index as u32), offset, bytes, reason, ordinal };
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
                self.tally.note(discard);
            }
            None => self.tally.discard(discard),
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
    #[inline]
    pub(crate) fn reach(&mut self, index: usize, key: u64) {
        if self.sources[index].reach(key) {
            self.tally.add(index, Entry::FragmentsReordered, 1);
        }
    }

    /// The same of a fragment with a time that one before it has.
    #[cold]
    pub(crate) fn reach_again(&mut self, index: usize, key: u64) {
        if self.sources[index].reached != key + 1 {
            self.reach(index, key);
        }
    }

    /// Takes a source's fragments of those of the first rows that are dropped out of its queue.
    /// Returns how many.
    pub(crate) fn drop_fragments(&mut self, index: usize, row_count: usize) -> u64 {
        let Self { rows, sources, tally, expected_in, times, .. } = self;
        let (source, expected_in) = (&mut sources[index], expected_in[index]);
        if let Some(times) = times.get_mut(index) {
            let mut accepted = source.accepted.iter();
            let mut rows = rows.range(..row_count).peekable();
            times.retain(|_| {
                let Some(accepted) = accepted.next() else { return true };
                while rows.next_if(|row| row.key < accepted.key).is_some() {}
                rows.peek().is_none_or(|row| row.key > accepted.key || row.dropped.is_none())
            });
        }
        let dropped = |row: &&Row| row.dropped.is_some();
        let mut rows = rows.range(..row_count).filter(dropped).peekable();
        let gap = |row: &Row| {
            let is_missed = !row.dropped.is_some_and(is_unwanted);
            u64::from(is_missed && row_expects(expected_in, row.named()))
        };
        let (mut found, mut gaps) = (0, 0);
        let mut dropping = None;
        source.accepted.retain(|accepted| {
            while let Some(row) = rows.next_if(|row| row.key < accepted.key) {
                gaps += gap(row);
            }
            // Pieces follow the first fragment of a row.
            dropping = rows.next_if(|row| row.key == accepted.key).or(dropping);
            let drop = dropping.filter(|row| row.key == accepted.key);
            if let Some(reason) = drop.and_then(|row| row.dropped) {
                found += 1;
                let (source, ordinal) = (SourceId(index as u32), 0);
                let &Accepted { offset, bytes, .. } = accepted;
                tally.discard(Discard { source, offset, bytes, reason, ordinal });
            }
            drop.is_none()
        });
        gaps += rows.map(gap).sum::<u64>();
        if source.is_required() {
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
            let required =
                self.sources.iter().enumerate().filter(|(_, source)| source.is_required());
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
    }
}

/// A fragment that was accepted. 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    pub key: u64,
    pub offset: u64,
    pub bytes: u32,
    pub tag: u8,
    /// Whether `tag` is one.
    pub has_tag: bool,
    /// Whether its sender marked it as broken.
    pub bad_sender: bool,
}

const _: () = assert!(size_of::<Accepted>() == 24);

/// A source: the queue of its accepted fragments, and what the matcher uses for each of them, in
/// one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub struct Source {
    /// Accepted and in no cut yet, by ascending key.
    pub accepted: VecDeque<Accepted>,
    /// One more than its newest key; 0 before its first.
    pub reached: u64,
    /// The keys that its newest one skipped, up to and with that one, until it is confirmed.
    skipped: Range<u64>,
    pub enabled: bool,
    pub role: SourceRole,
    /// Whether it is full: it may hold no more of keys that others have not passed.
    pub full: bool,
    /// Which of two senders its newest accepted fragment is of, or the one that has since taken the
    /// place of one that is gone.
    other_sender: bool,
    /// Which of the two last took the place of one that is gone.
    new_sender: bool,
    /// Whether a fragment was put before others in its queue since this was last false.
    pub inserted: bool,
}

const _: () = assert!(size_of::<Source>() == 64);

impl Source {
    pub fn new(role: SourceRole) -> Self {
        let enabled = role.is_enabled();
        Self {
            enabled,
            role,
            full: false,
            other_sender: false,
            new_sender: false,
            inserted: false,
            reached: 0,
            skipped: 0..0,
            accepted: VecDeque::with_capacity(if enabled { ACCEPTED_AT_START } else { 0 }),
        }
    }

    /// Whether events without it are incomplete.
    pub fn is_required(&self) -> bool {
        self.role == SourceRole::Required
    }

    /// Takes its next key, and returns whether a later one came before it.
    #[inline]
    pub fn reach(&mut self, key: u64) -> bool {
        let reordered = key < self.reached;
        // By time, each key skips some.
        if key > self.reached {
            self.skipped = self.reached..key + 1;
            self.reached = key + 1;
            return false;
        }
        self.reached = match key == self.reached {
            true => key + 1,
            false => self.reach_out_of_order(self.reached, key),
        };
        reordered
    }

    /// What it has reached with a key that is not the next one. A single early or garbled key makes
    /// one key after it reordered, not all that it skipped.
    #[cold]
    pub fn reach_out_of_order(&mut self, reached: u64, key: u64) -> u64 {
        if key >= reached {
            self.skipped = reached..key + 1;
            return key + 1;
        }
        if self.skipped.end == reached && self.skipped.contains(&key) {
            self.skipped = 0..0;
            return key + 1;
        }
        reached
    }

    /// Takes the sender of a fragment for its own, if that has taken the place of one that is gone.
    #[inline]
    pub fn replace_sender(&mut self, fragment: &Fragment) {
        let other = fragment.is_of_other_sender();
        if fragment.flags & FragmentFlags::NEW_SENDER != 0 && other != self.new_sender {
            // What is accepted decides from then on.
            (self.new_sender, self.other_sender) = (other, other);
        }
    }

    /// Whether its own sender is the one whose fragments carry the flag for it.
    pub fn is_other_sender(&self) -> bool {
        self.other_sender
    }

    /// Sets whether that is its own sender, as [`is_other_sender`](Self::is_other_sender) has it.
    pub fn set_other_sender(&mut self, other: bool) {
        self.other_sender = other;
    }

    /// Whether a fragment that fits to no event is a stranger's: of another sender than what fits.
    pub fn is_foreign(&self, fragment: &Fragment) -> bool {
        self.reached > 0 && fragment.is_of_other_sender() != self.other_sender
    }

    /// Bytes of its accepted fragments of keys from `key` on.
    pub fn bytes_from(&self, key: u64) -> u64 {
        let accepted = self.accepted.iter().rev().take_while(|accepted| accepted.key >= key);
        accepted.map(|accepted| u64::from(accepted.bytes)).sum()
    }

    /// Appends an accepted fragment in key order.
    #[inline]
    pub fn append(&mut self, key: u64, fragment: &Fragment) {
        self.other_sender = fragment.is_of_other_sender();
        match self.accepted.back() {
            Some(newest) if newest.key > key => self.insert_reordered(key, fragment),
            _ => self.accepted.push_back(Accepted::of(key, fragment)),
        }
    }

    /// How many of its accepted fragments have a lower key.
    fn place_of(&self, key: u64) -> usize {
        self.accepted.partition_point(|other| other.key < key)
    }

    // Shifts those after it.
    #[cold]
    fn insert_reordered(&mut self, key: u64, fragment: &Fragment) {
        self.inserted = true;
        let at = self.place_of(key);
        self.accepted.insert(at, Accepted::of(key, fragment));
    }
}

impl Accepted {
    // Made where it is stored: a value that is also passed on by reference would go over the stack.
    #[inline]
    fn of(key: u64, fragment: &Fragment) -> Self {
        let &Fragment { offset, bytes, tag, .. } = fragment;
        let (has_tag, bad_sender) = (fragment.has_tag(), fragment.is_flagged());
        Self { key, offset, bytes, tag, has_tag, bad_sender }
    }
}

const ACCEPTED_AT_START: usize = 256;

/// Why a fragment may be a stranger's: it is no part of any event.
const FITS_NOWHERE: [Entry; 2] = [Entry::FragmentsOutOfRange, Entry::FragmentsLate];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_early_key_makes_one_reordered_and_a_packet_that_came_late_all_of_its_keys() {
        let reordered = |keys: &[u64]| {
            let mut source = Source::new(SourceRole::Required);
            keys.iter().filter(|&&key| source.reach(key)).copied().collect::<Vec<u64>>()
        };
        assert_eq!(reordered(&[0, 1, 3, 2, 4, 5]), [2]);
        assert_eq!(reordered(&[0, 1, 1_000, 2, 3, 4, 5]), [2]);
        assert_eq!(reordered(&[0, 1, 1_000, 3, 4, 2]), [3, 2]);
        assert_eq!(reordered(&[0, 1, 4, 2, 3, 5, 6, 2]), [2, 2]);
        assert_eq!(reordered(&[0, 5, 6, 1, 2, 3, 4, 7]), [1, 2, 3, 4]);
        assert_eq!(reordered(&[7, 9, 20, 21, 30]), [0; 0]);
    }
}
