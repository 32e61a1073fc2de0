//! Fragments whose number is not near the position of their sender, and how the window follows the
//! quorum. The vote itself is in `horizon.rs`.
//!
//! A source *parks* fragments of two kinds:
//!
//! - *ahead*: with keys beyond the window, of a sender that is ahead of the others. They enter when
//!   the window reaches their keys.
//! - *held*: with numbers that their sender claims and nothing has confirmed. They enter when the
//!   sender or the quorum takes that position, and are given up after two time-outs.
//!
//! Parked fragments have no effect on other sources: each source has a share of the memory for them
//! and for events that the quorum has not passed ([`Builder::share`]), and they close no event.

use catchment_model::{CloseReason, Entry};

use crate::horizon::{HOLD_TIMEOUTS, Quorum};
use crate::source::{Ahead, Held, Source};
use crate::{Builder, Fragment, Restart};

/// How many held fragments of a source are tried per duty cycle.
const TRIED_MAX: usize = 64;

/// How often shares are computed per time-out while memory is short.
const SHARES_PER_TIMEOUT: u64 = 64;

impl Builder {
    /// Handles parked fragments. At the end of the run they no longer wait. Returns whether a
    /// quorum was followed.
    pub(crate) fn follow(&mut self, at_end: bool) -> bool {
        // While released rows wait to be cut, the builder releases no more.
        let backlog = !at_end && self.rows.len() as u64 > self.window.events();
        if !backlog {
            self.follow_runaways();
        }
        self.take_ahead();
        self.join();
        self.take_held_in_reach(TRIED_MAX);
        self.expire_held();
        let quorum = if backlog {
            None
        } else {
            self.horizon.decide(self.is_crowded(), at_end, self.now_ns)
        };
        quorum.is_some_and(|quorum| self.follow_quorum(&quorum))
    }

    /// Discards all parked fragments.
    pub(crate) fn discard_parked(&mut self) {
        for index in 0..self.sources.len() {
            self.discard_oldest(index, |_| true);
            while let Some(ahead) = self.sources[index].rare.ahead.pop_front() {
                self.unpark(&ahead.fragment);
                self.discard(index, &ahead.fragment, Entry::FragmentsOutOfRange);
            }
        }
    }

    /// Sets the position of a voter to `key`, which ends in `number`, and takes the fragments of
    /// its claims that agree.
    pub(crate) fn place_at(&mut self, voter: usize, key: u64, number: u64) {
        let claims = self.horizon.place_at(voter, key, self.now_ns);
        if !claims.is_empty() {
            let claims: Vec<_> = claims.into_iter().map(|claim| (voter, claim)).collect();
            self.take_claims(&claims, key, number);
        }
    }

    /// Holds a fragment until its claim is decided.
    pub(crate) fn hold(&mut self, index: usize, claim: u32, fragment: &Fragment) {
        let hold_ns = HOLD_TIMEOUTS * self.config.timeout_ns;
        let expires_ns = self.horizon.active_ns() + hold_ns;
        let (arrived_ns, order) = (self.now_ns, self.held_ever);
        let held = Held { claim, order, arrived_ns, expires_ns, fragment: *fragment };
        if self.park(index, fragment, None) {
            self.held_ever += 1;
            self.sources[index].rare.held.push_back(held);
        }
    }

    /// Parks a fragment that is beyond the window.
    pub(crate) fn run_ahead(
        &mut self,
        index: usize,
        key: u64,
        arrived_ns: u64,
        fragment: &Fragment,
    ) {
        if self.park(index, fragment, Some(key)) {
            self.sources[index].run_ahead(Ahead { key, arrived_ns, fragment: *fragment });
        }
    }

    /// Discards the newest held fragments of a claim that was a duplicated packet. Older ones,
    /// behind those of other claims, expire.
    pub(crate) fn discard_repeated(&mut self, voter: usize, claim: u32, lasting: bool) {
        for nth in 0..self.sources_of[voter].len() {
            let index = self.sources_of[voter][nth] as usize;
            let of_claim = |held: &mut Held| held.claim == claim;
            while let Some(held) = self.sources[index].rare.held.pop_back_if(of_claim) {
                self.give_up(index, lasting, &held.fragment);
            }
        }
    }

    /// Limits what each source may hold of keys that the quorum has not passed. Together such
    /// fragments may use half of the waiting memory; a source whose part exceeds what is free of
    /// that half is *full*. A single source ahead therefore gets a quarter of the memory, several
    /// get less each, and the other half is reserved for the sources that the quorum waits for.
    pub(crate) fn share(&mut self) {
        let half = self.config.waiting_bytes_max / 2;
        if self.status.waiting_bytes <= half {
            if std::mem::take(&mut self.some_full) {
                self.sources.iter_mut().for_each(|source| source.full = false);
            }
            return;
        }
        // The sum is over all sources and their queues: too slow for each duty cycle.
        if self.some_full && self.now_ns < self.share_due_ns {
            return;
        }
        self.share_due_ns = self.now_ns.saturating_add(self.config.timeout_ns / SHARES_PER_TIMEOUT);
        let passed = self.horizon.passed();
        let ahead: u64 = self.sources.iter().map(|source| source.bytes_from(passed)).sum();
        let share = half.saturating_sub(ahead).max(half / self.sources.len() as u64);
        self.some_full = true;
        for source in &mut self.sources {
            source.full = source.bytes_from(passed) > share;
        }
    }

    /// At the end of the run: moves the window to the lowest parked key that the quorum has passed,
    /// and takes what is there. A backlog of rows may have kept the window behind the quorum.
    /// Returns whether there was one.
    pub(crate) fn reach_ahead(&mut self) -> bool {
        let passed = self.horizon.passed();
        let ahead = self.sources.iter().filter_map(|source| source.rare.ahead.front());
        let lowest = ahead.map(|ahead| ahead.key).min().filter(|&key| key < passed);
        let Some(lowest) = lowest else { return false };
        self.move_window(lowest);
        self.take_ahead();
        true
    }

    /// Parks a fragment, of which the key may be known, or discards it.
    fn park(&mut self, index: usize, fragment: &Fragment, key: Option<u64>) -> bool {
        // Keys that the quorum has passed are beyond the window only while rows wait to be cut:
        // then the source is not ahead, and memory is short for all.
        let passed = key.is_some_and(|key| key < self.horizon.passed());
        let source = &self.sources[index];
        if (source.full && !passed) || source.parked_count() >= self.config.parked_max {
            let reason = match passed {
                true => Entry::FragmentsDiscardedMemory,
                false => Entry::FragmentsOutOfRange,
            };
            self.discard(index, fragment, reason);
            return false;
        }
        self.parked_count += 1;
        self.status.fragments_held += 1;
        self.status.waiting_bytes += u64::from(fragment.bytes);
        true
    }

    // Removes a parked fragment from the totals.
    fn unpark(&mut self, fragment: &Fragment) {
        self.parked_count -= 1;
        self.status.fragments_held -= 1;
        self.status.waiting_bytes -= u64::from(fragment.bytes);
    }

    // When most sources are beyond the window and memory runs short, the lowest parked fragment
    // enters.
    fn follow_runaways(&mut self) {
        if self.horizon.passed() < self.window.end() || !self.is_crowded() {
            return;
        }
        let ahead = self.sources.iter().filter_map(|source| source.rare.ahead.front());
        let events = self.window.events();
        if let Some(lowest) = ahead.map(|ahead| ahead.key).min() {
            self.move_window((lowest + 1 + events / 16).saturating_sub(events));
        }
    }

    /// Closes the events below `base` and moves the window there.
    fn move_window(&mut self, base: u64) {
        let base = base.max(self.window.base);
        self.close_below(base, CloseReason::Overtaken);
        self.window.advance(base.max(self.window.base));
        self.seen.cover(self.window.end());
    }

    // Whether parked fragments leave too little memory.
    fn is_crowded(&self) -> bool {
        let most = self.config.parked_max - self.config.parked_max / 4;
        self.status.waiting_bytes > self.config.waiting_bytes_max / 2
            || self.sources.iter().any(|source| source.parked_count() >= most)
    }

    // Sets the position of voters that have none and whose claims lead into the window.
    fn join(&mut self) {
        if !self.horizon.is_started() {
            return;
        }
        let numbers = self.horizon.rules().numbers;
        for voter in 0..self.horizon.voter_count() {
            let Some((first, newest)) = self.horizon.settled(voter) else { continue };
            let bits = self.config.number_bits;
            let key = |number| self.window.key_of(number, bits);
            let ahead =
                || key(first).map(|key| key.wrapping_add_signed(numbers.offset(first, newest)));
            if let Some(key) = key(newest).or_else(ahead) {
                self.place_at(voter, key, newest);
            }
        }
    }

    // Takes the parked fragments that are in the window now.
    fn take_ahead(&mut self) {
        let end = self.window.end();
        for index in 0..self.sources.len() {
            while let Some(ahead) =
                self.sources[index].rare.ahead.pop_front_if(|ahead| ahead.key < end)
            {
                self.unpark(&ahead.fragment);
                if self.window.contains(ahead.key) && !self.seen.contains(index, ahead.key) {
                    self.accept(index, ahead.key, &ahead.fragment, ahead.arrived_ns);
                } else {
                    let reason = self.unused(index, ahead.key, &ahead.fragment);
                    self.discard(index, &ahead.fragment, reason);
                }
            }
        }
    }

    // Takes held fragments whose numbers the quorum has come near.
    fn take_held_in_reach(&mut self, tried_max: usize) {
        if !self.horizon.is_started() {
            return;
        }
        for index in 0..self.sources.len() {
            // Claims that the sender has abandoned were garbled, or of an older position.
            let latest = self.horizon.latest_claim(self.sources[index].voter);
            if latest.is_none() || self.sources[index].rare.held.is_empty() {
                continue;
            }
            // Fragments of other claims at the front expire later, so each cycle continues where
            // the last one stopped.
            let mut held = std::mem::take(&mut self.sources[index].rare.held);
            let begin = self.sources[index].rare.tried;
            let begin = if begin < held.len() { begin } else { 0 };
            let end = held.len().min(begin.saturating_add(tried_max));
            let mut stayed = begin;
            for at in begin..end {
                let one = held[at];
                let key = self.open_key(index, one.fragment.number);
                match key.filter(|_| Some(one.claim) == latest) {
                    Some(key) => {
                        self.unpark(&one.fragment);
                        self.take(index, key, one.arrived_ns, &one.fragment);
                    }
                    None => {
                        held[stayed] = one;
                        stayed += 1;
                    }
                }
            }
            held.drain(stayed..end);
            self.sources[index].rare.tried = stayed;
            self.sources[index].rare.held = held;
        }
    }

    // Takes the held fragments of these claims, grouped by voter, in the order of arrival. `number`
    // has the key `key`.
    fn take_claims(&mut self, claims: &[(usize, u32)], key: u64, number: u64) {
        let numbers = self.horizon.rules().numbers;
        let mut taken: Vec<(usize, Held)> = Vec::new();
        for of_voter in claims.chunk_by(|(one, _), (other, _)| one == other) {
            for &index in &self.sources_of[of_voter[0].0] {
                let source = &mut self.sources[index as usize];
                let claimed = |held: &Held| of_voter.iter().any(|(_, claim)| *claim == held.claim);
                let (claimed, others): (Vec<Held>, Vec<Held>) =
                    source.rare.held.drain(..).partition(claimed);
                source.rare.held.extend(others);
                taken.extend(claimed.into_iter().map(|held| (index as usize, held)));
            }
        }
        taken.sort_by_key(|(_, held)| held.order);
        for (index, held) in taken {
            self.unpark(&held.fragment);
            let key = key.wrapping_add_signed(numbers.offset(number, held.fragment.number));
            self.take(index, key, held.arrived_ns, &held.fragment);
        }
    }

    // Takes a fragment whose key is now known.
    pub(crate) fn take(&mut self, index: usize, key: u64, arrived_ns: u64, fragment: &Fragment) {
        if self.window.contains(key) && !self.seen.contains(index, key) {
            self.reordered(index, key);
            self.accept(index, key, fragment, arrived_ns);
        } else if key >= self.window.end() && key < u64::MAX / 2 {
            self.reordered(index, key);
            self.run_ahead(index, key, arrived_ns, fragment);
        } else {
            let reason = self.unused(index, key, fragment);
            self.discard(index, fragment, reason);
        }
    }

    /// The entry that counts a fragment without an open event, or one that was accepted before.
    pub(crate) fn unused(&self, index: usize, key: u64, fragment: &Fragment) -> Entry {
        let behind = self.window.base.saturating_sub(key);
        if self.seen.contains(index, key) {
            fragment.repeated()
        } else if (1..=self.window.events()).contains(&behind) {
            self.too_late(key)
        } else {
            Entry::FragmentsOutOfRange
        }
    }

    // Moves the window to the position of a quorum; false if no keys are left for it.
    fn follow_quorum(&mut self, quorum: &Quorum) -> bool {
        let numbers = self.horizon.rules().numbers;
        let events = self.window.events();
        let (lowest, middle) = self.begins(quorum);
        let number = quorum.anchor.wrapping_add_signed(lowest);
        let position = quorum.position.unwrap_or(self.window.newest);
        let ahead = numbers.offset(position, number);
        let started = self.horizon.is_started();
        let gap = started && ahead > 0 && ahead.unsigned_abs() < events;
        let key = match (started, gap) {
            (false, _) => Some(numbers.number_of(number)),
            (true, true) => Some(position + ahead.unsigned_abs()),
            (true, false) => None,
        };
        let after = position.max(self.window.newest);
        let cycle = || numbers.next_cycle(after, number);
        // At the end of the keys, claims expire one by one.
        let Some(key) = key.or_else(cycle) else { return false };
        self.want_at_start(quorum, key, number);
        if gap {
            self.move_window((key + 1 + events / 16).saturating_sub(events));
        } else {
            self.close_below(u64::MAX, CloseReason::Overtaken);
            // Room for sources that are behind the first one, within the same cycle of the numbers.
            self.place_window(key - (events / 2).min(numbers.number_of(key)));
            self.numbered_from = key + lowest.abs_diff(middle);
        }
        let claims = self.horizon.follow(quorum, (number, key), !gap, self.now_ns);
        if started && !gap {
            self.status.restarts_followed += 1;
            self.status.last_restart =
                Some(Restart { from: numbers.number_of(position), to: numbers.number_of(key) });
        }
        if started && !gap {
            quorum.members.iter().for_each(|&(voter, ..)| self.count_restart(voter));
        }
        self.take_claims(&claims, key, number);
        self.join();
        self.take_ahead();
        self.take_held_in_reach(usize::MAX);
        true
    }

    // The first held numbers of the quorum, as offsets from its anchor: the lowest, limited to the
    // room in the window, and the median over the sources.
    fn begins(&self, quorum: &Quorum) -> (i64, i64) {
        let numbers = self.horizon.rules().numbers;
        let room = (self.window.events() / 2).cast_signed();
        let lowest = |source: &Source| {
            let claim = quorum.claim_of(source.voter)?;
            let held = source.rare.held.iter().filter(|held| held.claim == claim);
            held.map(|held| numbers.offset(quorum.anchor, held.fragment.number).max(-room)).min()
        };
        let mut begins: Vec<i64> = self.sources.iter().filter_map(lowest).collect();
        begins.sort_unstable();
        let begin = |rank: usize| begins.get(rank).map_or(0, |&begin| begin);
        (begin(0), begin(begins.len() / 2))
    }

    fn count_restart(&mut self, voter: usize) {
        for &index in &self.sources_of[voter] {
            let count = u64::from(self.sources[index as usize].enabled);
            self.tally.add(index as usize, Entry::NumberingRestarts, count);
        }
    }

    fn expire_held(&mut self) {
        let active_ns = self.horizon.active_ns();
        for index in 0..self.sources.len() {
            self.discard_oldest(index, |held| held.expires_ns <= active_ns);
        }
    }

    fn discard_oldest(&mut self, index: usize, mut which: impl FnMut(&mut Held) -> bool) {
        while let Some(held) = self.sources[index].rare.held.pop_front_if(&mut which) {
            let lasting = self.horizon.is_lasting(self.sources[index].voter, held.claim);
            self.give_up(index, lasting, &held.fragment);
        }
    }

    // Discards a held fragment whose key was never decided. It is counted as it would be at the
    // position of its sender. A lasting claim contains no duplicates.
    fn give_up(&mut self, index: usize, lasting: bool, fragment: &Fragment) {
        self.unpark(fragment);
        let position =
            self.horizon.position(self.sources[index].voter).unwrap_or(self.window.newest);
        let key = self.horizon.rules().numbers.near(position, fragment.number);
        let reason = match self.unused(index, key, fragment) {
            Entry::FragmentsDuplicate if lasting => Entry::FragmentsOutOfRange,
            reason => reason,
        };
        self.discard(index, fragment, reason);
    }
}
