//! Several fragments of a source in one event: its *pieces*.
//!
//! An event takes of each source the earliest `fragments_max` fragments in its window. What is
//! behind them is surplus: it waits on, and may open the next event. An event waits for a source
//! until it has passed the window, or has delivered all that the event can take of it.
//!
//! Fragments with one time are pieces if their packets are known not to be repetitions
//! ([`FragmentFlags::SENT_ONCE`](crate::FragmentFlags::SENT_ONCE)), and repeated ones otherwise; at
//! most `fragments_max` have one time.
//! All of this costs nothing where an event has one fragment of a source.

use std::collections::VecDeque;

use catchment_model::EventFlags;
use catchment_model::limits::COLUMN_BYTES_MAX;

use super::group::{Queues, Waiting};
use super::{TimeMatcher, flags_of, key_of};
use crate::{Fragment, Matched};

/// How many fragments of a source an event has, and what equal times there were.
#[derive(Debug)]
pub struct Pieces {
    pub max: usize,
    /// By source, how many fragments were taken that have the time of the newest one; empty where
    /// an event has one.
    taken: Vec<usize>,
}

impl Pieces {
    pub fn new(fragments_max: u32, source_count: usize) -> Self {
        let max = fragments_max as usize;
        Self { max, taken: vec![0; if max > 1 { source_count } else { 0 }] }
    }

    /// Whether an event may have several fragments of a source.
    #[inline]
    pub fn are_several(&self) -> bool {
        self.max > 1
    }

    /// A fragment of a source is taken, with the time of the one before or another.
    #[inline]
    pub fn take(&mut self, index: usize, is_equal: bool) {
        if let Some(taken) = self.taken.get_mut(index) {
            *taken = if is_equal { *taken + 1 } else { 1 };
        }
    }

    /// Whether a fragment can be one more piece with a time that `waiting` others have; if `taken`,
    /// so have those that were taken last.
    fn take_one_more(
        &self,
        index: usize,
        fragment: &Fragment,
        waiting: usize,
        taken: bool,
    ) -> bool {
        let is_new = fragment.is_sent_once();
        let taken = if taken { self.taken.get(index).copied().unwrap_or(0) } else { 0 };
        self.are_several() && is_new && waiting + taken < self.max
    }
}

/// An event whose fragments are being taken.
#[derive(Clone, Copy, Debug)]
pub struct Building {
    pub key: u64,
    anchor_ns: i64,
    pub first_ns: u64,
    pub bytes: u64,
    /// Those of the fragment taken last.
    last_bytes: u64,
    pub flags: EventFlags,
    tag: Option<u8>,
}

impl Building {
    pub fn new(key: u64, anchor_ns: i64) -> Self {
        let flags = EventFlags::default();
        Self { key, anchor_ns, first_ns: u64::MAX, bytes: 0, last_bytes: 0, flags, tag: None }
    }
}

impl Queues {
    /// Where a fragment belongs that has the time of the one at `place`, if it is one more piece.
    pub(super) fn place_behind(
        &self,
        (index, place): (usize, usize),
        fragment: &Fragment,
        ns: i64,
    ) -> Option<usize> {
        let equal = self.queues[index].range(place..).take_while(|other| other.ns() == ns).count();
        let taken = self.newest_ns(index) == ns;
        let is_one = self.pieces.take_one_more(index, fragment, equal, taken);
        is_one.then_some(place + equal)
    }

    /// Whether a fragment has the time of those that were taken last, and is one more of them.
    pub(super) fn follows_taken(&self, index: usize, ns: i64, fragment: &Fragment) -> bool {
        self.newest_ns(index) == ns && self.pieces.take_one_more(index, fragment, 0, true)
    }

    /// Whether an event has all that it can take of a source, whatever else comes behind that.
    pub(super) fn is_full(&self, index: usize, end_ns: i64) -> bool {
        let last = self.queues[index].get(self.pieces.max - 1);
        last.is_some_and(|last| last.ns() <= end_ns)
    }

    /// The times of the openers' fragments that an event can take up to `most_ns`.
    pub(super) fn openers_until(&self, most_ns: i64, times: &mut Vec<i64>) {
        let openers = self.queues.iter().zip(&self.opens).filter(|(_, opens)| **opens);
        for (queue, _) in openers {
            let of_event = queue.iter().take(self.pieces.max).map(Waiting::ns);
            times.extend(of_event.take_while(|&ns| ns <= most_ns));
        }
    }
}

impl TimeMatcher {
    /// Takes a source's first fragment into an event.
    #[inline]
    pub(super) fn take_fragment(
        &mut self,
        index: usize,
        building: &mut Building,
        matched: &mut Matched,
    ) {
        let Some(waiting) = self.queues.pop(index) else { return };
        let fragment = &waiting.fragment;
        building.first_ns = building.first_ns.min(waiting.arrived_ns);
        building.last_bytes = u64::from(fragment.bytes);
        building.bytes += building.last_bytes;
        building.flags = building.flags | flags_of(fragment);
        if fragment.has_tag() && *building.tag.get_or_insert(fragment.tag) != fragment.tag {
            building.flags = building.flags | EventFlags::TAG_MISMATCH;
        }
        self.offsets[index].add(waiting.ns() - building.anchor_ns);
        let ordinal = self.queues.pop_ordinal(index);
        matched.append_timed(index, building.key, (fragment, ordinal), key_of(waiting.ns()));
    }

    /// Takes what else an event has of a source of which it has taken the first fragment.
    #[inline(never)]
    pub(super) fn take_pieces(
        &mut self,
        index: usize,
        (begin_ns, end_ns): (i64, i64),
        building: &mut Building,
        matched: &mut Matched,
    ) {
        let mut bytes = building.last_bytes;
        for _ in 1..self.queues.pieces.max {
            if !self.queues.is_in(index, begin_ns, end_ns) {
                // What comes now would have been of this event.
                return self.queues.close_without(index, end_ns);
            }
            // A source's bytes of a row are those of a column at most, and fit 32 bits.
            let Some(next) = self.queues.first(index) else { return };
            bytes += u64::from(next.fragment.bytes);
            if bytes > COLUMN_BYTES_MAX {
                return;
            }
            self.take_fragment(index, building, matched);
        }
    }
}

impl Matched {
    /// Appends a fragment with a time of its own, as [`append`](Self::append) does. Its key is
    /// beyond those of all that its source has in its queue, or that of the last: a piece.
    #[inline]
    pub(super) fn append_timed(
        &mut self,
        index: usize,
        key: u64,
        (fragment, ordinal): (&Fragment, u64),
        time_ns: u64,
    ) {
        if self.times.is_empty() {
            self.times.resize_with(self.sources.len(), VecDeque::new);
        }
        self.times[index].push_back(time_ns);
        self.append(index, key, fragment, ordinal);
    }
}
