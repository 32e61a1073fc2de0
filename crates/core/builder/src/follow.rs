//! What becomes of fragments that are not where their source's sender stands, and how the window
//! follows the quorum. Who votes and where the quorum stands is decided in `horizon.rs`.
//!
//! A source *parks* fragments of two kinds:
//!
//! - *ahead*: beyond the window, since its sender runs ahead of the others. They take their places
//!   when the window gets there;
//! - *held*: of numbers that their sender claims and nothing has confirmed. They take their places
//!   when the sender stands there, or the quorum does, and are given up after two time-outs.
//!
//! Neither costs anybody else anything: what a source has parked, or holds of events that the
//! quorum has not passed, is bounded by its own share ([`Builder::share`]), and closes no event.

use catchment_model::{CloseReason, Entry};

use crate::horizon::{KEPT_TIMEOUTS, Quorum};
use crate::source::{Ahead, Held, Source};
use crate::{Builder, Fragment, Restart};

/// How many fragments of a source are tried at a time that are held under no quorum's claim.
const TRIED_MAX: usize = 64;

/// How often in a time-out sources' shares are looked at, while they are short.
const SHARES_PER_TIMEOUT: u64 = 64;

impl Builder {
    /// Deals with parked fragments. At the end of the run nothing is waited for. Returns whether a
    /// quorum was followed.
    pub(crate) fn follow(&mut self, at_end: bool) -> bool {
        // Where nobody cuts it is not for the builder to pile up more.
        let piled_up = self.rows.len() as u64 > self.window.events();
        if !piled_up {
            self.follow_runaways();
        }
        self.take_ahead();
        self.join();
        self.take_held_in_reach(TRIED_MAX);
        self.expire_held();
        let quorum = if piled_up {
            None
        } else {
            self.horizon.decide(self.is_crowded(), at_end, self.now_ns)
        };
        quorum.is_some_and(|quorum| self.follow_quorum(&quorum))
    }

    /// Discards everything that is parked.
    pub(crate) fn discard_parked(&mut self) {
        for index in 0..self.sources.len() {
            self.discard_oldest(index, |_| true);
            while let Some(ahead) = self.sources[index].ahead.pop_front() {
                self.unpark(index, &ahead.fragment);
                self.discard(index, &ahead.fragment, Entry::FragmentsOutOfRange);
            }
        }
    }

    /// A voter stands at `key`, which is that of `number`: what it claims near it is so.
    pub(crate) fn stand_at(&mut self, voter: usize, key: u64, number: u64) {
        let claims = self.horizon.stand_at(voter, key, self.now_ns);
        if !claims.is_empty() {
            let claims: Vec<_> = claims.into_iter().map(|claim| (voter, claim)).collect();
            self.take_claims(&claims, key, number);
        }
    }

    /// Keeps a fragment until its claim is decided.
    pub(crate) fn hold(&mut self, index: usize, claim: u32, fragment: &Fragment) {
        let kept_ns = KEPT_TIMEOUTS * self.config.timeout_ns;
        let expires_ns = self.horizon.active_ns() + kept_ns;
        let (arrived_ns, order) = (self.now_ns, self.held_ever);
        let held = Held { claim, order, arrived_ns, expires_ns, fragment: *fragment };
        if self.park(index, fragment) {
            self.held_ever += 1;
            self.sources[index].held.push_back(held);
        }
    }

    /// Keeps a fragment that is beyond the window.
    pub(crate) fn run_ahead(
        &mut self,
        index: usize,
        key: u64,
        arrived_ns: u64,
        fragment: &Fragment,
    ) {
        if self.park(index, fragment) {
            self.sources[index].run_ahead(Ahead { key, arrived_ns, fragment: *fragment });
        }
    }

    /// Discards what was held last under a claim that was a packet which came twice. What lies
    /// between other numbers expires.
    pub(crate) fn discard_repeated(&mut self, voter: usize, claim: u32, lasting: bool) {
        for place in 0..self.sources_of[voter].len() {
            let index = self.sources_of[voter][place] as usize;
            let of_claim = |held: &mut Held| held.claim == claim;
            while let Some(held) = self.sources[index].held.pop_back_if(of_claim) {
                self.give_up(index, lasting, &held.fragment);
            }
        }
    }

    /// Gives each source its share of what may wait: while what sources are ahead of the quorum by
    /// takes more than it leaves free of half of that, they may hold no more of it. So one source
    /// can have a quarter, several less each, and the other half is left to those whom the quorum
    /// waits for.
    pub(crate) fn share(&mut self) {
        let half = self.config.waiting_bytes_max / 2;
        if self.status.waiting_bytes <= half {
            if std::mem::take(&mut self.some_full) {
                self.sources.iter_mut().for_each(|source| source.full = false);
            }
            return;
        }
        // All that is ahead is counted: not at each poll.
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

    fn park(&mut self, index: usize, fragment: &Fragment) -> bool {
        let source = &mut self.sources[index];
        if source.full || source.parked_count() >= self.config.parked_max {
            self.discard(index, fragment, Entry::FragmentsOutOfRange);
            return false;
        }
        source.parked_bytes += u64::from(fragment.bytes);
        self.parked_count += 1;
        self.status.fragments_held += 1;
        self.status.waiting_bytes += u64::from(fragment.bytes);
        true
    }

    // Takes a parked fragment out of the accounts, before it goes elsewhere.
    fn unpark(&mut self, index: usize, fragment: &Fragment) {
        self.sources[index].parked_bytes -= u64::from(fragment.bytes);
        self.parked_count -= 1;
        self.status.fragments_held -= 1;
        self.status.waiting_bytes -= u64::from(fragment.bytes);
    }

    // More than half have run beyond the window, and wait for the rest until memory ends: then the
    // lowest of what they have parked comes in.
    fn follow_runaways(&mut self) {
        if self.horizon.passed() < self.window.end() || !self.is_crowded() {
            return;
        }
        let ahead = self.sources.iter().filter_map(|source| source.ahead.front());
        let events = self.window.events();
        if let Some(lowest) = ahead.map(|ahead| ahead.key).min() {
            self.move_window((lowest + 1 + events / 16).saturating_sub(events));
        }
    }

    /// Closes what is below `base` and moves the window there.
    fn move_window(&mut self, base: u64) {
        let base = base.max(self.window.base);
        self.close_below(base, CloseReason::Overtaken);
        self.window.advance(base.max(self.window.base));
        self.seen.cover(self.window.end());
    }

    // Whether what waits for a decision leaves too little room.
    fn is_crowded(&self) -> bool {
        let most = self.config.parked_max - self.config.parked_max / 4;
        self.status.waiting_bytes > self.config.waiting_bytes_max / 2
            || self.sources.iter().any(|source| source.parked_count() >= most)
    }

    // Voters that stand nowhere and have claimed numbers which lead into the window stand there.
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
                self.stand_at(voter, key, newest);
            }
        }
    }

    // Brings fragments in that were beyond the window.
    fn take_ahead(&mut self) {
        let end = self.window.end();
        for index in 0..self.sources.len() {
            while let Some(ahead) = self.sources[index].ahead.pop_front_if(|ahead| ahead.key < end)
            {
                self.unpark(index, &ahead.fragment);
                if self.window.contains(ahead.key) && !self.seen.contains(index, ahead.key) {
                    self.accept(index, ahead.key, &ahead.fragment, ahead.arrived_ns);
                } else {
                    let reason = self.unused(index, ahead.key, &ahead.fragment);
                    self.discard(index, &ahead.fragment, reason);
                }
            }
        }
    }

    // Brings fragments in whose numbers nobody confirmed, where the quorum has come near them.
    fn take_held_in_reach(&mut self, tried_max: usize) {
        if !self.horizon.is_started() {
            return;
        }
        for index in 0..self.sources.len() {
            // What its sender has left behind was garbled, or is of another time.
            let latest = self.horizon.latest_claim(self.sources[index].voter);
            if latest.is_none() || self.sources[index].held.is_empty() {
                continue;
            }
            // Those of other claims that are in front expire later: each poll goes on where the last
            // one ended.
            let mut held = std::mem::take(&mut self.sources[index].held);
            let begin = self.sources[index].tried;
            let begin = if begin < held.len() { begin } else { 0 };
            let end = held.len().min(begin.saturating_add(tried_max));
            let mut stayed = begin;
            for place in begin..end {
                let one = held[place];
                let key = self.open_key(index, one.fragment.number);
                match key.filter(|_| Some(one.claim) == latest) {
                    Some(key) => {
                        self.unpark(index, &one.fragment);
                        self.take(index, key, one.arrived_ns, &one.fragment);
                    }
                    None => {
                        held[stayed] = one;
                        stayed += 1;
                    }
                }
            }
            held.drain(stayed..end);
            self.sources[index].tried = stayed;
            self.sources[index].held = held;
        }
    }

    // Brings in, as they came, what voters claimed, each voter's claims side by side: `number` is
    // that key.
    fn take_claims(&mut self, claims: &[(usize, u32)], key: u64, number: u64) {
        let numbers = self.horizon.rules().numbers;
        let mut taken: Vec<(usize, Held)> = Vec::new();
        for of_voter in claims.chunk_by(|(one, _), (other, _)| one == other) {
            for &index in &self.sources_of[of_voter[0].0] {
                let source = &mut self.sources[index as usize];
                let claimed = |held: &Held| of_voter.iter().any(|(_, claim)| *claim == held.claim);
                let (claimed, others): (Vec<Held>, Vec<Held>) =
                    source.held.drain(..).partition(claimed);
                source.held.extend(others);
                taken.extend(claimed.into_iter().map(|held| (index as usize, held)));
            }
        }
        taken.sort_by_key(|(_, held)| held.order);
        for (index, held) in taken {
            self.unpark(index, &held.fragment);
            let key = key.wrapping_add_signed(numbers.offset(number, held.fragment.number));
            self.take(index, key, held.arrived_ns, &held.fragment);
        }
    }

    // A fragment whose key is known now.
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

    /// What a fragment counts as that is in no open event, or was there before.
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

    // Moves everything to where a quorum claims to be; false where no keys are left for it.
    fn follow_quorum(&mut self, quorum: &Quorum) -> bool {
        let numbers = self.horizon.rules().numbers;
        let events = self.window.events();
        let (lowest, middle) = self.begins(quorum);
        let number = quorum.anchor.wrapping_add_signed(lowest);
        let stood = quorum.stood.unwrap_or(self.window.newest);
        let ahead = numbers.offset(stood, number);
        let started = self.horizon.is_started();
        let gap = started && ahead > 0 && ahead.unsigned_abs() < events;
        let key = match (started, gap) {
            (false, _) => Some(numbers.in_turn(number)),
            (true, true) => Some(stood + ahead.unsigned_abs()),
            (true, false) => None,
        };
        let after = stood.max(self.window.newest);
        let turn = || numbers.next_turn(after, number);
        // Where no turn is left the claims are given up in time, one by one.
        let Some(key) = key.or_else(turn) else { return false };
        self.want_at_start(quorum, key, number);
        if gap {
            self.move_window((key + 1 + events / 16).saturating_sub(events));
        } else {
            self.close_below(u64::MAX, CloseReason::Overtaken);
            // Room for sources that are behind the first, but not in the numbers' turn before.
            self.place_window(key - (events / 2).min(numbers.in_turn(key)));
            self.numbered_from = key + lowest.abs_diff(middle);
        }
        let claims = self.horizon.follow(quorum, (number, key), !gap, self.now_ns);
        if started && !gap {
            self.status.restarts_followed += 1;
            self.status.last_restart =
                Some(Restart { from: numbers.in_turn(stood), to: numbers.in_turn(key) });
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

    // Where the numbers of a quorum's sources begin, as ways from its anchor: the lowest that is
    // held, not further back than there is room for in the window, and that which half of them
    // begin before.
    fn begins(&self, quorum: &Quorum) -> (i64, i64) {
        let numbers = self.horizon.rules().numbers;
        let room = (self.window.events() / 2).cast_signed();
        let lowest = |source: &Source| {
            let claim = quorum.claim_of(source.voter)?;
            let held = source.held.iter().filter(|held| held.claim == claim);
            held.map(|held| numbers.offset(quorum.anchor, held.fragment.number).max(-room)).min()
        };
        let mut begins: Vec<i64> = self.sources.iter().filter_map(lowest).collect();
        begins.sort_unstable();
        let begin = |place: usize| begins.get(place).map_or(0, |&begin| begin);
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
        while let Some(held) = self.sources[index].held.pop_front_if(&mut which) {
            let lasting = self.horizon.is_lasting(self.sources[index].voter, held.claim);
            self.give_up(index, lasting, &held.fragment);
        }
    }

    // Discards a held fragment, whose key was never known, by what it would have been to its
    // sender. Of a lasting claim none came twice.
    fn give_up(&mut self, index: usize, lasting: bool, fragment: &Fragment) {
        self.unpark(index, fragment);
        let stand = self.horizon.stand(self.sources[index].voter).unwrap_or(self.window.newest);
        let key = self.horizon.rules().numbers.near(stand, fragment.number);
        let reason = match self.unused(index, key, fragment) {
            Entry::FragmentsDuplicate if lasting => Entry::FragmentsOutOfRange,
            reason => reason,
        };
        self.discard(index, fragment, reason);
    }
}
