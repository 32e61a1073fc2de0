//! Fragments that wait, by source and time, and which of them are one event.
//!
//! The *anchor* is the earliest fragment of a source that may open an event. The event takes of
//! each source the earliest fragment in its window:
//!
//! ```text
//!   opener 0    |  A  |        |        A: the anchor     |<-- before -->A<-- window -->|
//!   opener 1    |     |  x     | x
//!   other 2     | x   |        |
//! ```
//!
//! Where the anchor names groups, sources of others are not expected and none of theirs is taken:
//! it waits on, for an event that expects them.
//!
//! Where an event may have several fragments of a source, its *pieces*, it takes the earliest of
//! them ([`Pieces`]).
//!
//! What it leaves may be the next anchor, so that two close triggers are two events. Whether an
//! event is final is for the caller to say: then nothing that may still come changes it, and the
//! outcome depends on the times alone, not on the order in which sources are read.
//!
//! An event costs one look at the front of each queue, whatever the window's length, and each
//! fragment is put into a queue and taken out once.

use std::collections::VecDeque;

use catchment_model::Entry;

use super::key_of;
use super::ordinals::Ordinals;
use super::pieces::Pieces;
use super::settings::{TimeConfig, WindowKind};
use crate::Fragment;
use crate::excused::Excused;

/// A fragment that waits: its number is its time.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub fragment: Fragment,
    pub arrived_ns: u64,
}

/// What became of a fragment that was put into its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    Waits,
    /// Its source has delivered that time.
    Repeated,
    /// Its event is closed.
    Late,
    /// The same, and whether it came before is not remembered.
    Ambiguous,
}

/// What comes next, by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// An event of fragments from `begin_ns` on; of openers, from its anchor on.
    Event { begin_ns: i64, anchor_ns: i64, end_ns: i64, openers: u32 },
    /// A fragment of a source that opens none, at `ns`, and that is in no event unless an anchor
    /// comes up to `until_ns`.
    Lone { index: usize, ns: i64, until_ns: i64 },
}

/// The fragments that wait.
#[derive(Debug)]
pub struct Queues {
    pub window: Window,
    /// By source, the time of its first fragment, or the end of time: of those that open events,
    /// and of the others.
    anchors: Vec<i64>,
    others: Vec<i64>,
    pub(super) opens: Vec<bool>,
    all_open: bool,
    pub(super) queues: Vec<VecDeque<Waiting>>,
    /// The source whose fragments name groups, and what each of those that wait names.
    reference: Option<usize>,
    named: VecDeque<u64>,
    /// By source, the ordinals of those that wait; empty if positions are not asked for.
    pub ordinals: Vec<Ordinals>,
    /// By source, all bits if its bytes count as those that wait: of one that does not wait where
    /// there is no room.
    counted: Vec<u64>,
    taken: Vec<Taken>,
    pub(super) pieces: Pieces,
    remembered: Remembered,
    /// By source, as they came, the last times that are not among the newest ones though they came
    /// just now: of late fragments that are far behind, and of clocks out of step.
    aside: Vec<VecDeque<i64>>,
    /// By source, the times that were put aside and are forgotten: what has one of them may have
    /// come before. Where they are many, what is between is taken for one of them.
    forgotten: Excused,
    /// The end of the last events.
    end_ns: i64,
    pub bytes: u64,
    pub count: u64,
    /// The anchor that [`next`](Self::next) found, and whether a fragment from before it has come
    /// since then.
    anchor_ns: i64,
    pub has_earlier: bool,
    /// Whether the longest span ends the event that [`next`](Self::next) found.
    pub is_capped: bool,
    scratch: Vec<i64>,
}

/// The window.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    kind: WindowKind,
    window_ns: i64,
    span_ns: i64,
    before_ns: i64,
}

/// What was taken of a source.
#[derive(Clone, Debug)]
struct Taken {
    newest_ns: i64,
    /// The end of the events that are closed without it, though it was expected.
    closed_ns: i64,
}

impl Queues {
    pub fn new(time: &TimeConfig, source_count: usize) -> Self {
        let opens: Vec<bool> = (0..source_count).map(|index| time.opens(index)).collect();
        let taken = Taken { newest_ns: i64::MIN, closed_ns: i64::MIN };
        Self {
            window: Window {
                kind: time.kind,
                window_ns: time.window_ns.cast_signed(),
                span_ns: time.span_ns_max.cast_signed(),
                before_ns: time.before_ns.cast_signed(),
            },
            anchors: vec![i64::MAX; source_count],
            others: vec![i64::MAX; source_count],
            all_open: !opens.contains(&false),
            opens,
            queues: (0..source_count).map(|_| VecDeque::new()).collect(),
            reference: time.reference,
            named: VecDeque::new(),
            ordinals: Vec::new(),
            counted: vec![u64::MAX; source_count],
            taken: vec![taken; source_count],
            pieces: Pieces::new(time.fragments_max, source_count),
            remembered: Remembered::new(source_count),
            aside: vec![VecDeque::new(); source_count],
            forgotten: Excused::default(),
            end_ns: i64::MIN,
            bytes: 0,
            count: 0,
            anchor_ns: i64::MAX,
            has_earlier: false,
            is_capped: false,
            scratch: Vec::with_capacity(source_count),
        }
    }

    /// Keeps the ordinals of fragments.
    pub fn keep_ordinals(&mut self) {
        self.ordinals.resize_with(self.queues.len(), Ordinals::default);
    }

    /// A source waits where there is no room.
    pub fn set_pausable(&mut self, index: usize) {
        self.counted[index] = 0;
    }

    /// Whether a source opens events from now on.
    pub fn set_opens(&mut self, index: usize, opens: bool) {
        let first_ns = std::mem::replace(self.head(index), i64::MAX);
        self.opens[index] = opens;
        *self.head(index) = first_ns;
        self.all_open = !self.opens.contains(&false);
        self.has_earlier = true;
    }

    /// Events that end before that time are closed.
    pub fn continue_at(&mut self, ns: i64) {
        self.taken.iter_mut().for_each(|taken| taken.closed_ns = ns - 1);
    }

    /// Puts a fragment into its queue, by its time; it names these groups.
    #[inline]
    pub fn put(
        &mut self,
        index: usize,
        ns: i64,
        waiting: Waiting,
        (ordinal, groups): (u64, u64),
    ) -> Put {
        let queue = &mut self.queues[index];
        match queue.back() {
            // What is behind a fragment that waits is not closed.
            Some(last) if last.ns() < ns => queue.push_back(waiting.at(ns)),
            Some(_) => return self.put_behind(index, ns, waiting, (ordinal, groups)),
            None => {
                if let Some(put) = self.put_closed(index, ns, &waiting.fragment) {
                    return put;
                }
                self.queues[index].push_back(waiting.at(ns));
                self.begin(index, ns);
            }
        }
        if self.reference == Some(index) {
            self.named.push_back(groups);
        }
        if let Some(ordinals) = self.ordinals.get_mut(index) {
            ordinals.extend(ordinal..ordinal + 1);
        }
        self.bytes += u64::from(waiting.fragment.bytes) & self.counted[index];
        self.count += 1;
        Put::Waits
    }

    #[cold]
    fn put_behind(
        &mut self,
        index: usize,
        ns: i64,
        waiting: Waiting,
        (ordinal, groups): (u64, u64),
    ) -> Put {
        let queue = &mut self.queues[index];
        let mut place = queue.partition_point(|other| other.ns() < ns);
        if queue.get(place).is_some_and(|other| other.ns() == ns) {
            match self.place_behind((index, place), &waiting.fragment, ns) {
                Some(behind) => place = behind,
                None => return Put::Repeated,
            }
        } else if let Some(put) = self.put_closed(index, ns, &waiting.fragment) {
            return put;
        }
        self.queues[index].insert(place, waiting.at(ns));
        if self.reference == Some(index) {
            self.named.insert(place, groups);
        }
        if let Some(ordinals) = self.ordinals.get_mut(index) {
            ordinals.insert(place, ordinal);
        }
        if place == 0 {
            self.begin(index, ns);
        }
        self.bytes += u64::from(waiting.fragment.bytes) & self.counted[index];
        self.count += 1;
        Put::Waits
    }

    /// What a fragment of that time is, if it can be in no event any more. A late one that comes
    /// again is repeated, or ambiguous if that is forgotten.
    fn put_closed(&mut self, index: usize, ns: i64, fragment: &Fragment) -> Option<Put> {
        let taken = &self.taken[index];
        if taken.is_open(ns) || ns > taken.closed_ns && self.follows_taken(index, ns, fragment) {
            return None;
        }
        if !fragment.is_sent_once() && self.aside[index].contains(&ns) {
            return Some(Put::Repeated);
        }
        if self.has_forgotten(index, ns, fragment) && !self.remembered.has(index, ns) {
            return Some(Put::Ambiguous);
        }
        match self.remembered.insert(index, ns) {
            Inserted::IsThere => return Some(Put::Repeated),
            Inserted::Forgets(ns) => self.put_aside(index, ns),
            Inserted::HasRoom => {}
        }
        Some(Put::Late)
    }

    /// Why a fragment that is in no event, and has that time by its clock alone, is not to be
    /// recorded; none if it is the first of its source with that time. One whose packet is known to
    /// be new is not asked for, but a copy of it may follow.
    pub fn set_aside(&mut self, index: usize, ns: i64, fragment: &Fragment) -> Option<Entry> {
        if fragment.is_sent_once() {
            if !self.aside[index].contains(&ns) {
                self.put_aside(index, ns);
            }
            return None;
        }
        let waits = self.queues[index].binary_search_by_key(&ns, Waiting::ns).is_ok();
        if waits || self.aside[index].contains(&ns) || self.remembered.has(index, ns) {
            return Some(fragment.repeated());
        }
        if self.has_forgotten(index, ns, fragment) {
            return Some(Entry::FragmentsAmbiguous);
        }
        self.put_aside(index, ns);
        None
    }

    /// Whether a fragment of a source may have come before, and been put aside.
    fn has_forgotten(&self, index: usize, ns: i64, fragment: &Fragment) -> bool {
        !fragment.is_sent_once() && self.forgotten.has(index, key_of(ns))
    }

    fn put_aside(&mut self, index: usize, ns: i64) {
        let aside = &mut self.aside[index];
        aside.push_back(ns);
        if aside.len() > REMEMBERED
            && let Some(ns) = aside.pop_front()
        {
            self.forgotten.add(index, key_of(ns)..key_of(ns) + 1, 0);
        }
    }

    /// Puts a fragment behind those of its source that wait, unless that takes a closer look:
    /// [`put`](Self::put) does. Its ordinal, and the groups that it names, are for the caller to
    /// add.
    #[inline]
    pub fn put_next(&mut self, index: usize, ns: i64, waiting: Waiting, most: usize) -> bool {
        let queue = &mut self.queues[index];
        let is_first = match queue.back() {
            Some(last) if last.ns() < ns && queue.len() < most => false,
            None if self.taken[index].is_open(ns) && most > 0 => true,
            _ => return false,
        };
        queue.push_back(waiting.at(ns));
        if is_first {
            self.begin(index, ns);
        }
        self.bytes += u64::from(waiting.fragment.bytes) & self.counted[index];
        self.count += 1;
        true
    }

    /// So many fragments were [put next](Self::put_next), which name these groups.
    #[inline]
    pub fn name_next(&mut self, (index, count): (usize, usize), groups: u64) {
        if self.reference == Some(index) {
            self.named.extend(std::iter::repeat_n(groups, count));
        }
    }

    /// The groups that the first fragment of the reference source names; 0 if there is none.
    #[inline]
    pub fn named(&self) -> u64 {
        self.named.front().copied().unwrap_or(0)
    }

    /// A source's first fragment is of that time now.
    #[inline]
    fn begin(&mut self, index: usize, ns: i64) {
        *self.head(index) = ns;
        self.has_earlier |= ns < self.anchor_ns;
    }

    fn head(&mut self, index: usize) -> &mut i64 {
        if self.opens[index] { &mut self.anchors[index] } else { &mut self.others[index] }
    }

    /// Of the fragments that wait, the first event or the first that is in none; none if there are
    /// none.
    #[inline]
    pub fn next(&mut self) -> Option<Next> {
        let anchor_ns = lowest(&self.anchors);
        (self.anchor_ns, self.has_earlier) = (anchor_ns, false);
        if !self.all_open {
            let lone_ns = lowest(&self.others);
            let until_ns = lone_ns.saturating_add(self.window.before_ns);
            if lone_ns < i64::MAX && until_ns < anchor_ns {
                let index = self.others.iter().position(|&ns| ns == lone_ns)?;
                return Some(Next::Lone { index, ns: lone_ns, until_ns });
            }
        }
        if anchor_ns == i64::MAX {
            return None;
        }
        let end_ns = match self.window.kind {
            WindowKind::First => anchor_ns + self.window.window_ns,
            WindowKind::Gap => self.end_of_gaps(anchor_ns),
        };
        let openers = self.anchors.iter().map(|&ns| u32::from(ns <= end_ns)).sum();
        let begin_ns = anchor_ns.saturating_sub(self.window.before_ns);
        Some(Next::Event { begin_ns, anchor_ns, end_ns, openers })
    }

    /// Where an event ends of which each opener moves the end.
    fn end_of_gaps(&mut self, anchor_ns: i64) -> i64 {
        let Window { window_ns, span_ns, .. } = self.window;
        let most_ns = anchor_ns + span_ns;
        self.scratch.clear();
        match self.pieces.are_several() {
            false => {
                self.scratch.extend(self.anchors.iter().copied().filter(|&ns| ns <= most_ns));
            }
            true => {
                let mut times = std::mem::take(&mut self.scratch);
                self.openers_until(most_ns, &mut times);
                self.scratch = times;
            }
        }
        self.scratch.sort_unstable();
        let mut end_ns = anchor_ns + window_ns;
        for &ns in &self.scratch {
            if ns > end_ns {
                break;
            }
            end_ns = end_ns.max(ns + window_ns);
        }
        self.is_capped = end_ns > most_ns;
        end_ns.min(most_ns)
    }

    /// Whether a source's first fragment is in the window of an event.
    #[inline]
    pub fn is_in(&self, index: usize, begin_ns: i64, end_ns: i64) -> bool {
        // An opener's is never before the anchor.
        let ns = self.anchors[index].min(self.others[index]);
        (begin_ns..=end_ns).contains(&ns)
    }

    /// Whether the fragments of a source that an event takes are there, and none that may come in
    /// order is one of them.
    #[inline]
    pub fn has_all(&self, index: usize, begin_ns: i64, end_ns: i64) -> bool {
        let several = self.pieces.are_several();
        self.is_in(index, begin_ns, end_ns) && (!several || self.is_full(index, end_ns))
    }

    /// A source's first fragment.
    pub(super) fn first(&self, index: usize) -> Option<&Waiting> {
        self.queues[index].front()
    }

    /// The time of a source's newest fragment that was taken.
    pub(super) fn newest_ns(&self, index: usize) -> i64 {
        self.taken[index].newest_ns
    }

    /// The index of the source whose first fragment is that anchor.
    pub fn anchor(&self, anchor_ns: i64) -> Option<usize> {
        self.anchors.iter().position(|&ns| ns == anchor_ns)
    }

    /// An event closes that ends there.
    pub fn close(&mut self, end_ns: i64) {
        self.end_ns = self.end_ns.max(end_ns);
    }

    /// It closes without a source that it expected.
    pub fn close_without(&mut self, index: usize, end_ns: i64) {
        let closed_ns = &mut self.taken[index].closed_ns;
        *closed_ns = end_ns.max(*closed_ns);
    }

    /// Takes a source's first fragment.
    #[inline]
    pub fn pop(&mut self, index: usize) -> Option<Waiting> {
        let waiting = self.queues[index].pop_front()?;
        if self.reference == Some(index) {
            self.named.pop_front();
        }
        let next_ns = self.queues[index].front().map_or(i64::MAX, Waiting::ns);
        *self.head(index) = next_ns;
        self.bytes -= u64::from(waiting.fragment.bytes) & self.counted[index];
        self.count -= 1;
        let newest_ns = std::mem::replace(&mut self.taken[index].newest_ns, waiting.ns());
        self.pieces.take(index, newest_ns == waiting.ns());
        self.remembered.push(index, waiting.ns());
        Some(waiting)
    }

    /// The ordinal of a source's first fragment, which leaves its queue; 0 if positions are not
    /// asked for.
    #[inline]
    pub fn pop_ordinal(&mut self, index: usize) -> u64 {
        self.ordinals.get_mut(index).and_then(Ordinals::pop).unwrap_or(0)
    }

    /// How many fragments of a source wait.
    pub fn len(&self, index: usize) -> usize {
        self.queues[index].len()
    }

    /// The time of the first fragment that waits.
    pub fn first_ns(&self) -> Option<i64> {
        let first_ns = lowest(&self.anchors).min(lowest(&self.others));
        (first_ns < i64::MAX).then_some(first_ns)
    }

    /// The time behind all that waits or was in an event.
    pub fn last_ns(&self) -> i64 {
        let waiting = self.queues.iter().filter_map(|queue| Some(queue.back()?.ns())).max();
        let taken = self.taken.iter().map(|taken| taken.newest_ns).max();
        waiting.max(taken).unwrap_or(i64::MIN).max(self.end_ns)
    }

    /// When the first fragment arrived of those that wait longest.
    pub fn longest(&self) -> usize {
        self.queues.iter().map(VecDeque::len).max().unwrap_or(0)
    }
}

impl Window {
    /// How long before its anchor a fragment may be that would have been in an event, as its anchor
    /// or before that.
    pub fn reach_ns(&self) -> u64 {
        self.before_ns.cast_unsigned().max(self.longest_ns())
    }

    /// How long behind it an event ends at most.
    pub fn longest_ns(&self) -> u64 {
        let longest_ns = match self.kind {
            WindowKind::First => self.window_ns,
            WindowKind::Gap => self.span_ns,
        };
        longest_ns.cast_unsigned()
    }
}

impl Taken {
    /// Whether a fragment of that time may still be in an event: what follows its source's fragment
    /// in an event may be in the next one, and so may what is in the window of an event that did
    /// not expect it.
    fn is_open(&self, ns: i64) -> bool {
        ns > self.newest_ns && ns > self.closed_ns
    }
}

/// What became of a time that was to be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inserted {
    IsThere,
    HasRoom,
    /// This one is not among the newest any more.
    Forgets(i64),
}

/// By source, its newest times, ascending, to tell what is repeated from what is late.
///
/// ```text
///   times  | source 0 | source 1 | .. | source 0 | source 1 | ..
///            time 0     time 0          time 1     time 1
/// ```
///
/// The sources of an event are side by side, so that it fills a few cache lines and not one of
/// each source, on a page of its own.
#[derive(Debug)]
struct Remembered {
    times: Vec<i64>,
    /// By source, how many times there were; the last [`REMEMBERED`] of them are there.
    counts: Vec<u64>,
}

impl Remembered {
    fn new(source_count: usize) -> Self {
        Self { times: vec![0; source_count * REMEMBERED], counts: vec![0; source_count] }
    }

    #[inline]
    fn push(&mut self, index: usize, ns: i64) {
        let at = self.at(index, self.counts[index]);
        self.times[at] = ns;
        self.counts[index] += 1;
    }

    /// Inserts a time where it belongs.
    #[cold]
    fn insert(&mut self, index: usize, ns: i64) -> Inserted {
        let (count, place) = (self.counts[index], self.place(index, ns));
        if self.is_at(index, place, ns) {
            return Inserted::IsThere;
        }
        let first = self.first(index);
        if count - first == REMEMBERED as u64 && place == first {
            return Inserted::Forgets(ns);
        }
        let oldest = self.times[self.at(index, first)];
        for number in (place..count).rev() {
            let (from, to) = (self.at(index, number), self.at(index, number + 1));
            self.times[to] = self.times[from];
        }
        let at = self.at(index, place);
        self.times[at] = ns;
        self.counts[index] += 1;
        if count - first < REMEMBERED as u64 {
            Inserted::HasRoom
        } else {
            Inserted::Forgets(oldest)
        }
    }

    fn has(&self, index: usize, ns: i64) -> bool {
        self.is_at(index, self.place(index, ns), ns)
    }

    /// The first of those that are not before a time.
    fn place(&self, index: usize, ns: i64) -> u64 {
        let (mut place, mut end) = (self.first(index), self.counts[index]);
        while place < end {
            let middle = place.midpoint(end);
            match self.times[self.at(index, middle)] < ns {
                true => place = middle + 1,
                false => end = middle,
            }
        }
        place
    }

    fn is_at(&self, index: usize, place: u64, ns: i64) -> bool {
        place < self.counts[index] && self.times[self.at(index, place)] == ns
    }

    /// The oldest that is remembered.
    fn first(&self, index: usize) -> u64 {
        self.counts[index].saturating_sub(REMEMBERED as u64)
    }

    fn at(&self, index: usize, number: u64) -> usize {
        number as usize % REMEMBERED * self.counts.len() + index
    }
}

impl Waiting {
    pub fn ns(&self) -> i64 {
        self.fragment.number.cast_signed()
    }

    pub fn at(mut self, ns: i64) -> Self {
        self.fragment.number = ns.cast_unsigned();
        self
    }
}

/// Without branches, so that it is computed for several at once.
#[inline]
fn lowest(times: &[i64]) -> i64 {
    times.iter().fold(i64::MAX, |lowest, &ns| lowest.min(ns))
}

/// How many times of a source are remembered: of the newest ones, and of others as they came.
const REMEMBERED: usize = 1_024;
