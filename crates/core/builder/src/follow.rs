//! Fragments beyond the window, and how the window follows.
//!
//! A fragment beyond the window is kept aside (parked), for a time-out at most. Three things can come
//! of it:
//!
//! - the window gets there in its usual course, and the fragment takes its place;
//! - more than half of the sources that are waited for stand beyond the window: then it moves to
//!   them. It does so at once if all of them are there, and otherwise gives the rest half a time-out,
//!   because sources that restart together do not do so at the same instant;
//! - neither, and it is more than another window away: then the source is out of step. Its parked fragments are out of range, nobody waits for
//!   it, and it is back as soon as its numbers fall into the window.
//!
//! docs/decisions/0032 says why.

use catchment_model::{CloseReason, Entry};

use crate::Builder;
use crate::source::{Parked, State};

impl Builder {
    /// Deals with parked fragments; whether any came into the window. At the end of the run nothing
    /// is waited for.
    pub(crate) fn follow(&mut self, at_end: bool) -> bool {
        let mut took = self.take_parked();
        if let Some(lowest) = self.majority_ahead(at_end) {
            took |= self.move_window(lowest);
        }
        self.expire_parked();
        took
    }

    /// Discards everything that is parked.
    pub(crate) fn discard_parked(&mut self) {
        for index in 0..self.sources.len() {
            self.discard_parked_of(index, |_| true);
        }
    }

    // Brings parked fragments in that are now inside the window.
    fn take_parked(&mut self) -> bool {
        let end = self.window.end();
        let mut took = false;
        for index in 0..self.sources.len() {
            while let Some(parked) =
                self.sources[index].parked.pop_front_if(|parked| parked.key < end)
            {
                took = true;
                self.forget_parked(parked.fragment.bytes);
                self.take_one(index, parked.key, parked.arrived_ns, &parked.fragment);
            }
            if self.sources[index].parked.is_empty() {
                self.sources[index].state.clear(State::AHEAD);
            }
        }
        took
    }

    fn take_one(&mut self, index: usize, key: u64, arrived_ns: u64, fragment: &crate::Fragment) {
        if self.seen.contains(index, key) {
            self.discard(index, fragment, fragment.repeated());
        } else if self.window.contains(key) {
            self.accept(index, key, fragment, arrived_ns);
        } else {
            self.discard(index, fragment, self.too_late(key));
        }
    }

    // The lowest key of the sources beyond the window, if they are so many that it must follow.
    fn majority_ahead(&self, at_end: bool) -> Option<u64> {
        if self.rows.len() as u64 > self.window.events() {
            return None; // Nobody cuts; it is not for the builder to pile up more.
        }
        let (mut waited, mut ahead, mut sure) = (0, 0, 0);
        let (mut lowest, mut since_ns, mut fullest) = (u64::MAX, u64::MAX, 0);
        for source in self.sources.iter().filter(|source| source.is_waited_for()) {
            waited += 1;
            if let Some(first) = source.parked.front().filter(|_| source.state.has(State::AHEAD)) {
                ahead += 1;
                lowest = lowest.min(first.key);
                since_ns = since_ns.min(first.arrived_ns);
                fullest = fullest.max(source.parked.len());
                // One fragment can be a number that was garbled.
                sure += usize::from(source.parked.len() > 1);
            }
        }
        let due = sure == waited
            || at_end
            || self.now_ns.saturating_sub(since_ns) >= self.config.timeout_ns / 2
            || fullest >= self.config.parked_max - self.config.parked_max / 4;
        (2 * ahead > waited && due).then_some(lowest)
    }

    // Moves the window so that `lowest`, which is beyond it, fits; whether fragments came in.
    fn move_window(&mut self, lowest: u64) -> bool {
        let events = self.window.events();
        let bits = self.config.number_bits;
        let base = lowest + 1 + events / 16 - events;
        if base <= self.window.newest {
            self.close_below(base, CloseReason::Overtaken);
            self.window.advance(base.max(self.window.base));
            self.seen.cover(self.window.end());
            return self.take_parked();
        }
        self.close_below(u64::MAX, CloseReason::Overtaken);
        let restarted = lowest >> bits > self.window.newest >> bits;
        // Room for sources that are behind the first, but not in the numbers' turn before.
        let turn = (lowest >> bits) << bits;
        let behind = (events / 2).min(if restarted { lowest - turn } else { u64::MAX });
        let base = lowest - behind;
        if !restarted {
            self.window.advance(base.max(self.window.base));
            self.seen.cover(self.window.end());
            return self.take_parked();
        }
        self.status.restarts_followed += 1;
        self.place_window(base);
        for index in 0..self.sources.len() {
            self.bring_to_turn(index, lowest >> bits);
        }
        self.take_parked()
    }

    // A source whose parked fragments are in a later turn counted a restart too many (it restarted
    // alone before, or an old number came between the new ones). All restarted now: this is its turn.
    fn bring_to_turn(&mut self, index: usize, turn: u64) {
        let bits = self.config.number_bits;
        let source = &mut self.sources[index];
        let first = source.parked.front().map_or(0, |first| first.key >> bits);
        if first <= turn {
            return;
        }
        let back = (first - turn) << bits;
        source.parked.iter_mut().for_each(|parked| parked.key -= back);
        let newest = source.unwrapper.newest().unwrap_or(0);
        let newest = newest.saturating_sub(back);
        source.unwrapper.realign(newest);
        self.progress.set(index, newest + 1, source.is_waited_for());
    }

    // Gives up what has been parked for a time-out and is so far away that the window will not get
    // there.
    fn expire_parked(&mut self) {
        let Some(before_ns) = self.now_ns.checked_sub(self.config.timeout_ns) else { return };
        if self.parked_count == 0 {
            return;
        }
        let far = self.window.end() + self.window.events();
        for index in 0..self.sources.len() {
            let source = &self.sources[index];
            let given_up = |parked: &Parked| parked.arrived_ns <= before_ns && parked.key >= far;
            // The lowest of those far away is about the oldest, too.
            let lowest = source.parked.partition_point(|parked| parked.key < far);
            if source.parked.get(lowest).is_some_and(given_up) {
                self.discard_parked_of(index, given_up);
                if self.sources[index].state.has(State::AHEAD) {
                    self.set_out_of_step(index);
                }
            }
        }
    }

    fn set_out_of_step(&mut self, index: usize) {
        self.discard_parked_of(index, |_| true);
        let source = &mut self.sources[index];
        source.state.clear(State::AHEAD);
        source.state.set(State::OUT_OF_STEP);
        self.progress.wait_for(index, false);
    }

    fn discard_parked_of(&mut self, index: usize, which: impl Fn(&Parked) -> bool) {
        let mut parked = std::mem::take(&mut self.sources[index].parked);
        parked.retain(|one| {
            if which(one) {
                self.forget_parked(one.fragment.bytes);
                self.discard(index, &one.fragment, Entry::FragmentsOutOfRange);
            }
            !which(one)
        });
        self.sources[index].parked = parked;
    }

    // Takes a parked fragment out of the books, before it goes elsewhere.
    fn forget_parked(&mut self, bytes: u32) {
        self.parked_count -= 1;
        self.status.fragments_held -= 1;
        self.status.waiting_bytes -= u64::from(bytes);
    }
}
