//! Rows of one fragment, in which nobody else is expected: what is in no event, what came after its
//! event was closed, and what a clock said that is out of step.
//!
//! | fragment | flags | key, unless the key before is as high | kept if |
//! |---|---|---|---|
//! | in no event | unmatched | its time | `unmatched` is keep |
//! | late | late | its time | `late` is keep |
//! | out of step | both | one above the key before: its time is no time | `unmatched` is keep |
//!
//! Of what is late or out of step nothing is kept that another sender than its source's own sent,
//! and nothing twice: where no sequence says that a packet is new, the last 1,024 such times do;
//! what has one from before these, or between, is ambiguous.
//!
//! The own time of each is that of its clock. What is out of step is of no event, no quorum and no
//! window: its rows change nothing of others, but that each takes a key.

use catchment_model::{CloseReason, Entry, EventFlags};

use super::group::Waiting;
use super::horizon::GivenUp;
use super::settings::{Late, Unmatched};
use super::{TimeMatcher, flags_of, key_of};
use crate::Matched;
use crate::closing::ClosingEvent;

impl TimeMatcher {
    #[cold]
    pub(super) fn take_late(
        &mut self,
        index: usize,
        ns: i64,
        (waiting, ordinal): (Waiting, u64),
        matched: &mut Matched,
    ) {
        let waiting = waiting.at(ns);
        if self.horizon.promises.has(index) {
            self.excuse(index, ns, ns, matched);
        }
        let reason = self.unwanted(ns, (ns, ns)).unwrap_or(Entry::FragmentsLate);
        let is_foreign = matched.sources[index].is_foreign(&waiting.fragment);
        match self.late {
            Late::Keep if reason == Entry::FragmentsLate && !is_foreign => {
                self.release_alone(index, ns, (&waiting, ordinal), EventFlags::LATE, matched);
            }
            _ => matched.discard(index, ordinal, &waiting.fragment, reason),
        }
    }

    /// Closes the first fragment of a source, which is in no event.
    #[cold]
    pub(super) fn close_alone(&mut self, index: usize, matched: &mut Matched) {
        let Some(waiting) = self.queues.pop(index) else { return };
        let (ns, ordinal) = (waiting.ns(), self.queues.pop_ordinal(index));
        self.floods.note_stray(index, ns, &mut self.queues);
        match self.unmatched {
            Unmatched::Keep => {
                self.release_alone(index, ns, (&waiting, ordinal), EventFlags::UNMATCHED, matched);
            }
            Unmatched::Count => {
                let unwanted = self.unwanted(ns, (ns, ns));
                let reason = unwanted.unwrap_or(Entry::FragmentsDiscardedUnmatched);
                matched.discard(index, ordinal, &waiting.fragment, reason);
            }
        }
    }

    /// Takes what was held of clocks that fit to nothing.
    pub(super) fn take_given_up(&mut self, matched: &mut Matched) {
        for given_up in self.horizon.take_given_up() {
            self.take_out_of_step(&given_up, matched);
        }
    }

    /// Takes a fragment whose time fits to nothing. It is wanted if what comes next is: what its
    /// clock says is not asked. Before the clocks are set there is no time for its row.
    #[cold]
    pub(super) fn take_out_of_step(&mut self, given_up: &GivenUp, matched: &mut Matched) {
        let &GivenUp { index, ref held, claimed_ns } = given_up;
        let (fragment, ordinal) = (&held.fragment, held.ordinal);
        let is_kept = self.unmatched == Unmatched::Keep
            && self.horizon.is_started()
            && !matched.sources[index].is_foreign(fragment);
        let Some(ns) = claimed_ns.filter(|_| is_kept) else {
            return matched.discard(index, ordinal, fragment, Entry::FragmentsOutOfRange);
        };
        if let Some(reason) = self.queues.set_aside(index, ns, fragment) {
            return matched.discard(index, ordinal, fragment, reason);
        }
        // No fragment is without a time of its own.
        let waiting = Waiting { fragment: *fragment, arrived_ns: held.arrived_ns }.at(ns.max(1));
        let (next_ns, flags) =
            (self.next_key.cast_signed(), EventFlags::UNMATCHED | EventFlags::LATE);
        self.release_alone(index, next_ns, (&waiting, ordinal), flags, matched);
    }

    /// Makes a row of one fragment, which counts at a time.
    fn release_alone(
        &mut self,
        index: usize,
        ns: i64,
        (waiting, ordinal): (&Waiting, u64),
        flag: EventFlags,
        matched: &mut Matched,
    ) {
        let fragment = &waiting.fragment;
        let key = key_of(ns).max(self.next_key);
        // What fits says whose the source is, and this fits nowhere.
        let other_sender = matched.sources[index].is_other_sender();
        matched.append_timed(index, key, (fragment, ordinal), key_of(waiting.ns()));
        matched.sources[index].set_other_sender(other_sender);
        let unwanted = self.unwanted(ns, (ns, ns));
        let recorded = u64::from(unwanted.is_none());
        matched.count(index, Entry::FragmentsUnmatched, recorded);
        let (first_ns, bytes) = (waiting.arrived_ns, fragment.bytes.into());
        let flags = flag | flags_of(fragment);
        let event = ClosingEvent {
            key,
            first_ns,
            bytes,
            flags,
            groups: 0,
            complete: true,
            unwanted,
            reason: CloseReason::Complete,
        };
        self.release_row(&event, matched);
    }
}
