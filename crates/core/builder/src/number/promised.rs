//! Sources that promise, in the number matcher: their fragments have keys at once, and where nobody
//! votes they move the window.
//!
//! Their fragments are *unplaced*, and held, until a numbering has begun: that of the run, which
//! votes begin, or where nobody votes the promises of all; or one that their source has marked.

use catchment_model::{CloseReason, Entry};

use super::NumberMatcher;
use super::events::{Known, OpenEvents};
use super::numbers::{KEY_END, Placing};
use super::parked::{Ahead, Held};
use crate::{Fragment, Matched, Restart, SourceNote};

/// What stands for the claim of a fragment that is unplaced, and of one behind the mark of the
/// next numbering.
const UNPLACED: u32 = u32::MAX;
const AHEAD: u32 = u32::MAX - 1;
/// How many fragments of one source move the window far, alone: as many as of a lone voter.
const CLAIMED_MIN: usize = 3;

impl NumberMatcher {
    /// The first parked fragment of a source whose key is a claim: it is far beyond the newest
    /// event, or the fragment before it, and most sources have not passed it. A single one may be
    /// garbled, so that no window moves to it before most have.
    pub(super) fn first_claimed(&self, index: usize) -> Option<&Ahead> {
        let OpenEvents { window, .. } = &self.events;
        let newest = self.parked.ahead(index).next_back()?;
        if !self.events.is_far(window.newest, newest.key) {
            return None;
        }
        let mut before = window.newest;
        self.parked.ahead(index).find(|ahead| {
            let before = std::mem::replace(&mut before, ahead.key);
            self.events.is_far(before, ahead.key) && !self.have_most_passed(ahead.key)
        })
    }

    /// The same, if it came a time-out ago or earlier: its source is out of step.
    pub(super) fn claimed_long_ago(&self, index: usize) -> Option<&Ahead> {
        let timeout_ns = self.horizon.rules().timeout_ns;
        let is_old = |ahead: &&Ahead| self.now_ns.saturating_sub(ahead.arrived_ns) >= timeout_ns;
        self.first_claimed(index).filter(is_old)
    }

    /// Whether the lowest parked key, and so each, is far beyond what most sources have come to,
    /// and no source has three fragments there.
    pub(super) fn is_claimed(&self, lowest: u64) -> bool {
        self.horizon.is_promised_alone()
            && self.events.is_far(self.events.window.newest, lowest)
            && !self.have_most_passed(lowest)
            && !self.parked.has_run(CLAIMED_MIN)
    }

    fn have_most_passed(&self, key: u64) -> bool {
        match self.horizon.is_promised_alone() {
            true => self.horizon.promises.have_most_passed(key),
            false => key < self.horizon.passed_by_placed(),
        }
    }

    /// Gives up what a source claims from a key on: it has gone on below that.
    fn take_back(&mut self, index: usize, from: u64, matched: &mut Matched) {
        while let Some(ahead) = self.parked.pop_ahead_from(index, from) {
            let Ahead { ordinal, ref fragment, .. } = ahead;
            matched.discard(index, ordinal, fragment, Entry::FragmentsOutOfRange);
        }
        let base = self.events.window.base;
        let parked = self.parked.ahead(index).next_back().map(|ahead| ahead.key);
        let source = &mut matched.sources[index];
        let newest = parked.or(source.accepted.back().map(|accepted| accepted.key));
        source.reached = source.reached.min(newest.map_or(base, |key| key + 1));
        self.horizon.promises.take_back(index, base);
    }

    /// Takes what a source says of itself.
    pub(super) fn take_note(&mut self, index: usize, note: SourceNote, matched: &mut Matched) {
        let active_ns = self.horizon.active_ns();
        let closed = self.horizon.is_started().then_some(self.events.window.base);
        // Before the note: at an end, nothing waits for the source any more.
        let passed = self.horizon.promises.passed(index);
        // One that has lost the others' numbers comes back to them by a mark.
        let lost = match note {
            SourceNote::Numbering => self.claimed_long_ago(index).map(|claimed| claimed.key),
            _ => None,
        };
        self.horizon.promises.note(index, note, closed, active_ns);
        if let Some(key) = lost {
            self.take_back(index, key, matched);
        }
        match note {
            SourceNote::LowWater(number) => {
                let number = number.min(KEY_END);
                self.place(index, number, matched);
                self.events.edges.promise(index, number);
                self.horizon.promises.reach(index, number);
            }
            SourceNote::Excused(number) => {
                let number = number.min(KEY_END);
                let is_placed = self.place(index, number, matched).is_some();
                self.events.edges.drop_first(index);
                self.horizon.promises.reach_excused(index, number, is_placed, matched.closed_key);
            }
            // One that is expected in some events alone may begin and end between two of them.
            SourceNote::Begin if matched.expected_in[index] == 0 => {
                self.events.edges.begin(index, self.now_ns);
            }
            SourceNote::End(behind) if matched.expected_in[index] == 0 => {
                if let Some(passed) = passed {
                    self.end(index, passed, behind.min(KEY_END), matched);
                }
            }
            SourceNote::Session { .. } | SourceNote::Numbering => {
                self.events.edges.number_anew(index);
            }
            SourceNote::ExpectedIn(groups) => matched.expect_in(index, groups),
            SourceNote::Named(groups) => self.name(index, groups, matched),
            _ => {}
        }
    }

    /// A source that is awaited has marked its end. It has said the first number of these, and its
    /// mark the other one.
    fn end(&mut self, index: usize, passed: u64, behind: u64, matched: &mut Matched) {
        // A session that has nothing left to send again has said no number: its mark has a key only
        // if it gets its place here.
        if passed == 0
            && behind > 0
            && self.events.edges.takes_part(index)
            && self.place(index, behind, matched).is_some()
        {
            self.horizon.promises.reach(index, behind);
        }
        self.events.edges.end(index, passed.max(behind));
    }

    /// The fragments of a source that follow name these groups.
    pub(super) fn name(&mut self, index: usize, groups: u64, matched: &Matched) {
        let next = matched.first_ordinal(index, &[]);
        let first = self.parked.first_ordinal(index).unwrap_or(next);
        self.events.named.name(index, (first, next), groups);
    }

    /// Takes fragments of a source that promises.
    pub(super) fn push_promised(&mut self, index: usize, run: &[Fragment], matched: &mut Matched) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
        let placed = self.place(index, first.number, matched);
        let before = (matched.sources[index].reached, matched.closed_key);
        self.horizon.promises.compare(index, first.number, before);
        self.events.edges.deliver(index, first.number);
        let next = last.number.saturating_add(1);
        let (closed, active_ns) = (self.events.window.base, self.horizon.active_ns());
        // Each fragment is the end of its source's idleness.
        let is_back = self.horizon.promises.is_idle(index);
        match self.horizon.promises.goes_on(index, next, closed, active_ns) || is_back {
            true => self.horizon.promises.hear(index, active_ns),
            false => self.horizon.promises.hear_nothing_new(index),
        }
        let mut rest = run;
        match placed {
            Some(offset) => {
                while !rest.is_empty() {
                    let done = self.push_placed(index, offset, rest, matched);
                    rest = &rest[done..];
                    if let Some((fragment, after)) = rest.split_first() {
                        let ordinal = matched.first_ordinal(index, rest);
                        let arrived_ns = self.now_ns;
                        let key = fragment.number.wrapping_add(offset);
                        let known = Known { index, key, ordinal, arrived_ns, fragment };
                        self.take_placed(&known, matched);
                        rest = after;
                    }
                }
            }
            None => {
                let is_ahead = self.horizon.promises.is_ahead(index);
                let claim = if is_ahead { AHEAD } else { UNPLACED };
                let first = matched.first_ordinal(index, run);
                for (ordinal, fragment) in (first..).zip(run) {
                    match fragment.number < KEY_END {
                        true => self.hold(index, claim, ordinal, fragment, matched),
                        false => {
                            matched.discard(index, ordinal, fragment, Entry::FragmentsOutOfRange);
                        }
                    }
                }
            }
        }
        self.horizon.promises.reach(index, next);
    }

    /// What is added to the numbers of a source, of which the next one is `number`; none while it
    /// is unplaced.
    fn place(&mut self, index: usize, number: u64, matched: &mut Matched) -> Option<u64> {
        if !self.horizon.is_started() || self.horizon.promises.is_ahead(index) {
            return None;
        }
        if self.horizon.promises.offset(index).is_none() {
            let claimed = self.first_claimed(index).filter(|one| number < one.fragment.number);
            if let Some(key) = claimed.map(|claimed| claimed.key) {
                self.take_back(index, key, matched);
            }
            let OpenEvents { window, .. } = &self.events;
            let placing = Placing::Near(match self.horizon.promises.mark(index) {
                0 => window.newest,
                mark => mark.max(window.base),
            });
            self.horizon.promises.place(index, number, placing);
        }
        self.horizon.promises.offset(index)
    }

    fn take_placed(&mut self, known: &Known<'_>, matched: &mut Matched) {
        match known.key < KEY_END {
            true => self.take(known, matched),
            false => known.discard(Entry::FragmentsOutOfRange, matched),
        }
    }

    /// Begins numberings that sources have promised, where nobody votes, and moves the window to
    /// what they have passed. Returns whether a numbering began.
    pub(super) fn follow_promises(&mut self, at_end: bool, matched: &mut Matched) -> bool {
        if !self.horizon.promises.is_any() {
            return false;
        }
        let alone = self.horizon.is_promised_alone();
        let began = match self.horizon.is_started() {
            false => (alone || at_end) && self.start_promised(at_end, matched),
            true if alone => self.renumber_promised(at_end, matched),
            true => {
                self.give_up_ahead(matched);
                false
            }
        };
        self.follow_parked(matched);
        began
    }

    /// Begins the first numbering, once each awaited source has said where it begins.
    fn start_promised(&mut self, at_end: bool, matched: &mut Matched) -> bool {
        let timeout_ns = self.horizon.rules().timeout_ns;
        let promises = &mut self.horizon.promises;
        let oldest = |index| {
            let held = self.parked.held(index).next().filter(|_| promises.has(index))?;
            Some(held.arrived_ns)
        };
        let oldest = (0..promises.source_count()).filter_map(oldest).min();
        let Some(oldest_ns) = oldest else { return false };
        let has_waited =
            || self.now_ns.saturating_sub(oldest_ns) >= timeout_ns && promises.has_start_waited();
        if !(at_end || promises.have_all_spoken() || has_waited()) {
            return false;
        }
        promises.give_up_unspoken();
        let (lowest, begun) = match self.begin_promised() {
            Some(begun) => begun,
            // All have marked the next numbering, and nothing came of the first one.
            None if self.horizon.promises.is_ahead_any() => (0, Vec::new()),
            None => return false,
        };
        self.horizon.start();
        let begun_at = |at_ns| {
            let begun = begun.iter().filter(|(arrived_ns, _)| *arrived_ns <= at_ns);
            begun.map(|(_, key)| key + 1).max().unwrap_or(0)
        };
        self.events.wanted.start(begun_at);
        self.begin_at(lowest, matched);
        true
    }

    /// Begins the next numbering, once each awaited source has marked it and the events before are
    /// closed.
    fn renumber_promised(&mut self, at_end: bool, matched: &mut Matched) -> bool {
        let promises = &self.horizon.promises;
        if !promises.is_ahead_any() || promises.promised() < u64::MAX && !at_end {
            return false;
        }
        if at_end {
            self.close_below(u64::MAX, CloseReason::RunEnded, matched);
        }
        // What one source alone claims to be of the numbering that ends is of none.
        if self.parked.lowest_ahead().is_some_and(|lowest| self.is_claimed(lowest)) {
            self.give_up_claimed(matched);
        }
        let promises = &self.horizon.promises;
        if self.events.window.open > 0 || self.parked.lowest_ahead().is_some() {
            return false;
        }
        let (numbers, newest) = (promises.numbers(), self.events.window.newest);
        let Some(base) = numbers.next_cycle(newest, 0) else {
            // The keys are used up.
            (0..promises.source_count()).for_each(|index| {
                self.give_up_held(index, |_| true, matched);
            });
            return false;
        };
        for index in (0..promises.source_count()).filter(|&index| promises.is_ahead(index)) {
            matched.count(index, Entry::NumberingRestarts, 1);
        }
        self.horizon.promises.begin_numbering(base);
        let lowest = self.begin_promised().map_or(base, |(lowest, _)| lowest);
        self.restarts_followed += 1;
        let rules = self.horizon.rules().numbers;
        let (from, to) = (rules.number_of(newest), rules.number_of(lowest));
        self.last_restart = Some(Restart { from, to });
        self.begin_at(lowest, matched);
        true
    }

    fn give_up_claimed(&mut self, matched: &mut Matched) {
        for index in 0..self.horizon.promises.source_count() {
            while let Some(Ahead { ordinal, fragment, .. }) = self.parked.pop_ahead_from(index, 0) {
                matched.discard(index, ordinal, &fragment, Entry::FragmentsOutOfRange);
            }
        }
    }

    /// Places all sources that have said a number of the numbering that begins, those with the
    /// widest numbers first. Returns the lowest key, and of each fragment that is held when it
    /// arrived and its key; none if there are no keys.
    fn begin_promised(&mut self) -> Option<(u64, Vec<(u64, u64)>)> {
        let promises = &mut self.horizon.promises;
        let mut indices: Vec<usize> =
            (0..promises.source_count()).filter(|&index| promises.has(index)).collect();
        indices.sort_by_key(|&index| std::cmp::Reverse(promises.key_bits(index)));
        let (mut placing, mut begun) = (Placing::First, Vec::new());
        for index in indices {
            // Before the first numbering, some of a source that has marked the next one are of it.
            let is_ahead = promises.is_ahead(index);
            let is_current = move |held: &&Held| !is_ahead || held.claim == UNPLACED;
            let held = self.parked.held(index).filter(is_current);
            let marked = promises.number(index).filter(|_| !is_ahead);
            let first = held.clone().next().map(|held| held.fragment.number).or(marked);
            let Some(number) = first.filter(|_| !promises.is_behind(index)) else { continue };
            promises.place(index, number, placing);
            let offset = promises.offset(index)?;
            if let Placing::First = placing {
                placing = Placing::Near(number.wrapping_add(offset));
            }
            let key = |held: &Held| held.fragment.number.wrapping_add(offset);
            let keys = held.map(|held| (held.arrived_ns, key(held)));
            begun.extend(keys.filter(|(_, key)| (promises.base()..KEY_END).contains(key)));
        }
        let lowest = begun.iter().map(|(_, key)| *key).min()?;
        Some((lowest, begun))
    }

    /// A numbering begins with that key, or with lower ones that may still come.
    fn begin_at(&mut self, lowest: u64, matched: &mut Matched) {
        let base = lowest.min(self.horizon.promises.promised());
        self.events.restart(base, base);
        self.take_unplaced(matched);
    }

    /// Takes the held fragments of sources that are placed, or can be.
    pub(super) fn take_unplaced(&mut self, matched: &mut Matched) {
        let mut all: Vec<(usize, Held)> = Vec::new();
        for index in 0..self.horizon.promises.source_count() {
            if !self.horizon.promises.has(index) {
                continue;
            }
            let first = self.parked.held(index).next().map(|held| held.fragment.number);
            let Some(number) = first else { continue };
            self.place(index, number, matched);
            let is_ahead = self.horizon.promises.is_ahead(index);
            let held = self.parked.remove_held(index, |one| !is_ahead || one.claim == UNPLACED);
            all.extend(held.into_iter().map(|held| (index, held)));
        }
        all.sort_by_key(|(_, held)| held.order);
        for (index, held) in all {
            let Held { ordinal, arrived_ns, ref fragment, .. } = held;
            let offset = self.horizon.promises.offset(index).unwrap_or(0);
            let key = fragment.number.wrapping_add(offset);
            self.take_placed(&Known { index, key, ordinal, arrived_ns, fragment }, matched);
        }
    }

    /// Gives up what is held of numberings that the quorum has not followed for a time-out.
    fn give_up_ahead(&mut self, matched: &mut Matched) {
        let active_ns = self.horizon.active_ns();
        for index in 0..self.horizon.promises.source_count() {
            if self.horizon.promises.has_numbering_waited(index, active_ns) {
                self.give_up_held(index, |_| true, matched);
            }
        }
    }

    /// Hands over the sources whose promises the next event waits for: the oldest open one, or what
    /// no window has yet.
    pub(super) fn awaited_promises(&mut self, each: &mut dyn FnMut(usize)) {
        let promises = &self.horizon.promises;
        let all = (0..promises.source_count()).filter(|&index| promises.is_awaited(index));
        let next = match self.events.window.head() {
            Some((key, _)) => Some(key),
            None if self.parked.count() == 0 => None,
            // Those that have said no number keep the numbering from beginning.
            None if !self.horizon.is_started() => {
                if self.horizon.is_promised_alone() {
                    all.filter(|&index| promises.number(index).is_none()).for_each(each);
                }
                return;
            }
            None => self.parked.lowest_ahead().or(promises.is_ahead_any().then_some(KEY_END)),
        };
        if let Some(key) = next {
            all.filter(|&index| promises.mark(index) <= key).for_each(each);
        }
    }

    /// While no event is open, moves the window to the lowest parked key that all have passed.
    fn follow_parked(&mut self, matched: &mut Matched) {
        // Ends: each iteration takes a parked fragment into the window.
        loop {
            self.release(matched);
            if self.events.window.open > 0 || matched.row_count() >= self.events.window.events() {
                break;
            }
            let passed = self.horizon.passed().min(self.horizon.promises.promised());
            let lowest = self.parked.lowest_ahead().filter(|&key| key < passed);
            let Some(lowest) = lowest.filter(|&key| !self.is_claimed(key)) else { break };
            self.move_window(lowest, matched);
            self.take_ahead(matched);
        }
    }
}
