//! Matching by event number: fragments that carry the same number are one event.
//!
//! On the fast path (`fast.rs`) a fragment is near the position of its sender. It is marked as
//! seen, added to the slot of its event and appended to the queue of its source: four memory
//! accesses, whatever the number of sources. All other fragments take [`NumberMatcher::push_slow`].
//!
//! The parts, each of which knows nothing of those above it:
//!
//! | part | what it is |
//! |---|---|
//! | [`Horizon`] | the senders' positions, what their quorum claims, and what sources promise |
//! | [`OpenEvents`] | window, seen fragments, how events close |
//! | [`Parked`] | fragments that are in no event yet |
//! | [`Shares`] | how much memory each source may use for what others have not reached |
//!
//! This file moves fragments between them, and the window after the quorum; `promised.rs` does it
//! for sources that promise.

mod claim;
mod events;
mod fast;
mod horizon;
mod named;
mod numbers;
mod parked;
mod probation;
mod progress;
mod promised;
mod promises;
mod settings;
mod shares;
mod states;
mod voter;
mod window;

use catchment_model::{CloseReason, Entry};

use self::claim::{Likeness, Repetition};
use self::events::{Known, OpenEvents};
use self::horizon::{HOLD_TIMEOUTS, Horizon, Quorum, Rules};
pub use self::numbers::KEY_END;
use self::parked::{Ahead, Held, Parked};
pub(crate) use self::settings::NUMBER_BITS_MIN;
pub use self::settings::{NUMBER_BITS_MAX, NumberConfig, WINDOW_EVENTS_MIN};
use self::shares::Shares;
use crate::{
    BuilderConfig, BuilderStatus, ConfigError, Fragment, Matched, Matcher, Needs, Restart,
    SourceNote,
};

/// How many held fragments of a source are tried per duty cycle.
const TRIED_MAX: usize = 64;

/// Matches fragments by event number.
///
/// Memory is bounded: a window of slots, as many descriptors in it as it has rows for each source,
/// and `parked_max` parked ones of each source.
#[derive(Debug)]
pub struct NumberMatcher {
    needs: Needs,
    horizon: Horizon,
    events: OpenEvents,
    parked: Parked,
    shares: Shares,
    /// Distance behind a position within which a number is never a restart.
    number_back_max: u64,
    now_ns: u64,
    restarts_followed: u64,
    last_restart: Option<Restart>,
    /// Whether the next quorum is the first of a builder that continues a run: its senders have
    /// gone on meanwhile, however far.
    continues: bool,
}

impl NumberMatcher {
    /// A matcher for these settings.
    ///
    /// # Errors
    /// Settings that cannot be.
    pub fn new(config: &BuilderConfig, number: &NumberConfig) -> Result<Self, ConfigError> {
        config.check()?;
        number.check(config)?;
        let mut horizon = Horizon::of(config, number);
        let mut events = OpenEvents::new(config, number);
        if let Some(continues) = &config.continues {
            horizon.continue_at(number, &continues.sources);
            events.continue_at(continues.closed_key);
        }
        Ok(Self {
            needs: number.needs(),
            horizon,
            events,
            parked: Parked::new(config, number),
            shares: Shares::new(config, number),
            number_back_max: number.number_back_max,
            now_ns: 0,
            restarts_followed: 0,
            last_restart: None,
            continues: config.continues.is_some(),
        })
    }

    /// Takes a fragment that is not near the position of its sender, outside the window, or a
    /// duplicate.
    #[cold]
    fn push_slow(
        &mut self,
        index: usize,
        ordinal: u64,
        fragment: &Fragment,
        matched: &mut Matched,
    ) {
        let voter = self.events.voter_of(index);
        self.horizon.mark_alive(voter);
        if self.take_near_position(index, ordinal, fragment, matched) {
            return;
        }
        let (number, arrived_ns) = (fragment.number, self.now_ns);
        let known = |key| Known { index, key, ordinal, arrived_ns, fragment };
        if let Some(key) = self.events.new_key_near_quorum(index, number, &mut self.horizon) {
            // The quorum is there, so the sender has returned.
            self.place_at(voter, key, number, matched);
            return self.take_in_share(&known(key), matched);
        }
        let (position, rules) = (self.horizon.last_position(voter), self.horizon.rules());
        let likeness = match self.is_ahead(index, position, number) {
            true => Likeness::of_repeated(fragment.flags),
            false => self.events.likeness(index, fragment, position, rules),
        };
        let claimed = self.horizon.claim(voter, number, likeness, self.now_ns);
        let numbers = self.horizon.rules().numbers;
        let key_of = || self.events.window.key_of(number, numbers);
        let ahead = self.horizon.is_started().then(key_of);
        let passed = self.horizon.passed();
        match ahead.flatten().filter(|&key| key >= passed && claimed.settled) {
            Some(key) if !self.events.seen.contains(index, key) => {
                self.place_at(voter, key, number, matched);
                self.take_in_share(&known(key), matched);
            }
            _ => self.hold(index, claimed.id, ordinal, fragment, matched),
        }
    }

    /// Takes or discards a fragment near the position of its sender; false if it is not near, or
    /// may be a restart behind it.
    fn take_near_position(
        &mut self,
        index: usize,
        ordinal: u64,
        fragment: &Fragment,
        matched: &mut Matched,
    ) -> bool {
        let voter = self.events.voter_of(index);
        let Some(position) = self.horizon.position(voter) else { return false };
        let Rules { numbers, near, .. } = self.horizon.rules();
        let step = numbers.offset(position, fragment.number);
        let key = position.wrapping_add_signed(step);
        let repeats = step <= 0 && step.unsigned_abs() <= self.number_back_max;
        if step.unsigned_abs() > near && !repeats {
            return false;
        }
        let new = self.events.is_new(index, key);
        let is_ahead = || self.parked.has_ahead(index, key);
        let beyond =
            (self.events.window.end()..KEY_END).contains(&key) && (step > 0 || !is_ahead());
        if !(new || beyond || step > 0 || repeats) {
            return false;
        }
        let keys = match step > 0 {
            true => (key, self.events.owned.reached_before(key, position)),
            false => (position, position.saturating_sub(1)),
        };
        if self.horizon.receive(voter, keys, self.now_ns) {
            self.refute(voter, matched);
        }
        let arrived_ns = self.now_ns;
        self.take_in_share(&Known { index, key, ordinal, arrived_ns, fragment }, matched);
        true
    }

    /// Discards the newest held fragments of claims that were duplicated packets. Older ones,
    /// behind those of other claims, expire.
    #[cold]
    fn refute(&mut self, voter: usize, matched: &mut Matched) {
        for (claim, repetition) in self.horizon.refute(voter) {
            for (index, held) in self.parked.pop_newest_of_claim(voter, claim) {
                self.give_up(index, repetition, &held, matched);
            }
        }
    }

    /// Whether a source that was last at `position` has delivered a number that the window has not
    /// reached.
    fn is_ahead(&self, index: usize, position: Option<u64>, number: u64) -> bool {
        let near = |position| self.horizon.rules().numbers.near(position, number);
        position.is_some_and(|position| self.parked.has_ahead(index, near(position)))
    }

    /// Sets a voter's position to `key`, which ends in `number`, and takes claims that agree.
    fn place_at(&mut self, voter: usize, key: u64, number: u64, matched: &mut Matched) {
        let claims = self.horizon.place_at(voter, key, self.now_ns);
        if !claims.is_empty() {
            let claims: Vec<_> = claims.into_iter().map(|claim| (voter, claim)).collect();
            self.take_claims(&claims, key, number, matched);
        }
    }

    /// Takes a fragment, unless its source is full and the quorum has not passed its key.
    fn take_in_share(&mut self, known: &Known<'_>, matched: &mut Matched) {
        let full = matched.sources[known.index].full && self.events.owned.has(known.key);
        if full && known.key >= self.horizon.passed() {
            return known.discard(Entry::FragmentsOutOfRange, matched);
        }
        self.take(known, matched);
    }

    /// Takes a fragment whose key is known.
    fn take(&mut self, known: &Known<'_>, matched: &mut Matched) {
        let &Known { index, key, ordinal, arrived_ns, fragment } = known;
        if key < KEY_END && !self.events.owned.has(key) {
            known.discard(Entry::FragmentsNotOwned, matched);
        } else if self.events.is_new(index, key) {
            matched.reach(index, key);
            self.events.accept(known, matched);
        } else if key >= self.events.window.end() && key < u64::MAX / 2 {
            matched.reach(index, key);
            // Keys that the quorum has passed are beyond the window only while rows wait to be cut:
            // then the source is not ahead, and memory is short for all.
            let passed = key < self.horizon.passed();
            if (matched.sources[index].full && !passed) || !self.parked.has_room(index) {
                let reason = match passed {
                    true => Entry::FragmentsDiscardedMemory,
                    false => Entry::FragmentsOutOfRange,
                };
                return known.discard(reason, matched);
            }
            self.parked.park_ahead(index, Ahead { key, ordinal, arrived_ns, fragment: *fragment });
        } else {
            let reason = self.events.unused(index, key, fragment);
            if reason == Entry::FragmentsLate && self.horizon.promises.has(index) {
                self.horizon.promises.excuse(index, key..key + 1, matched.closed_key);
            }
            known.discard(reason, matched);
        }
    }

    /// Holds a fragment until its claim is decided.
    fn hold(
        &mut self,
        index: usize,
        claim: u32,
        ordinal: u64,
        fragment: &Fragment,
        matched: &mut Matched,
    ) {
        if matched.sources[index].full || !self.parked.has_room(index) {
            return matched.discard(index, ordinal, fragment, Entry::FragmentsOutOfRange);
        }
        let hold_ns = HOLD_TIMEOUTS * self.horizon.rules().timeout_ns;
        let (arrived_ns, fragment, order) = (self.now_ns, *fragment, 0);
        // What is unplaced waits for its numbering.
        let is_placed = !self.horizon.promises.has(index);
        let expires_ns = if is_placed { self.horizon.active_ns() + hold_ns } else { u64::MAX };
        self.parked.hold(index, Held { claim, ordinal, arrived_ns, expires_ns, fragment, order });
    }

    /// Discards a held fragment whose key was never decided. It is counted as it would be at the
    /// position of its sender.
    fn give_up(&self, index: usize, repetition: Repetition, held: &Held, matched: &mut Matched) {
        let Held { ordinal, ref fragment, .. } = *held;
        if self.horizon.promises.has(index) {
            return matched.discard(index, ordinal, fragment, Entry::FragmentsOutOfRange);
        }
        let last = self.horizon.last_position(self.events.voter_of(index));
        let position = last.unwrap_or(self.events.window.newest);
        let key = self.horizon.rules().numbers.near(position, fragment.number);
        let unused = match self.is_ahead(index, last, fragment.number) {
            true => fragment.repeated(),
            false => self.events.unused(index, key, fragment),
        };
        let reason = match (unused, repetition) {
            (Entry::FragmentsDuplicate, Repetition::Ambiguous) => Entry::FragmentsAmbiguous,
            (Entry::FragmentsDuplicate, Repetition::Restart) => Entry::FragmentsOutOfRange,
            (reason, _) => reason,
        };
        matched.discard(index, ordinal, fragment, reason);
    }

    /// Handles parked fragments, which at the end wait no longer. Returns if a quorum was followed.
    fn follow(&mut self, at_end: bool, matched: &mut Matched) -> bool {
        // While released rows wait to be cut, the matcher releases no more.
        let backlog = !at_end && matched.row_count() > self.events.window.events();
        if !backlog {
            self.follow_runaways(matched);
        }
        self.take_ahead(matched);
        self.join(matched);
        self.take_held_in_reach(TRIED_MAX, matched);
        self.expire_held(matched);
        let quorum = if backlog {
            None
        } else {
            self.horizon.decide(self.is_crowded(), at_end, self.now_ns)
        };
        quorum.is_some_and(|quorum| self.follow_quorum(&quorum, at_end, matched))
            || self.follow_promises(at_end, matched)
    }

    /// When most sources are beyond the window and memory runs short, the lowest parked fragment
    /// enters.
    fn follow_runaways(&mut self, matched: &mut Matched) {
        let is_passed = self.horizon.passed() >= self.events.window.end();
        // Sources that promise wait themselves.
        if !is_passed || self.horizon.is_promised_alone() || !self.is_crowded() {
            return;
        }
        if let Some(lowest) = self.parked.lowest_ahead() {
            self.move_window(self.base_before(lowest), matched);
        }
    }

    /// At the end of the run: moves the window to the lowest parked key that the quorum has passed,
    /// and takes what is there. A backlog of rows may have kept the window behind the quorum.
    /// Returns whether there was one.
    fn reach_ahead(&mut self, matched: &mut Matched) -> bool {
        let passed = self.horizon.passed();
        let lowest = self.parked.lowest_ahead().filter(|&key| key < passed);
        let Some(lowest) = lowest.filter(|&key| !self.is_claimed(key)) else { return false };
        self.move_window(lowest, matched);
        self.take_ahead(matched);
        true
    }

    /// Sets the position of voters that have none and whose claims lead into the window, and of
    /// those whose claims lead to where, with them, more than half are.
    fn join(&mut self, matched: &mut Matched) {
        if !self.horizon.is_started() {
            return;
        }
        let numbers = self.horizon.rules().numbers;
        for voter in 0..self.horizon.voter_count() {
            let in_window =
                |(first, newest)| Some((self.events.key_of_claim(first, newest, numbers)?, newest));
            let place = self.horizon.settled(voter).and_then(in_window);
            if let Some((key, newest)) = place.or_else(|| self.horizon.settled_beside_others(voter))
            {
                self.place_at(voter, key, newest, matched);
            }
        }
    }

    /// Takes the parked fragments that are in the window now. Before an event closes for which
    /// others came since the window moved: its own may be among these.
    fn take_ahead(&mut self, matched: &mut Matched) {
        if self.parked.count() == 0 {
            return;
        }
        let end = self.events.window.end();
        for index in 0..matched.sources.len() {
            while let Some(ahead) = self.parked.pop_ahead_below(index, end) {
                let Ahead { key, ordinal, arrived_ns, ref fragment } = ahead;
                let known = Known { index, key, ordinal, arrived_ns, fragment };
                match self.events.is_new(index, key) {
                    true => self.events.accept(&known, matched),
                    false => known.discard(self.events.unused(index, key, fragment), matched),
                }
            }
        }
    }

    /// Takes held fragments whose numbers the quorum has come near.
    fn take_held_in_reach(&mut self, tried_max: usize, matched: &mut Matched) {
        if !self.horizon.is_started() {
            return;
        }
        let Self { horizon, events, parked, .. } = self;
        for index in 0..matched.sources.len() {
            let voter = events.voter_of(index);
            let latest = horizon.latest_claim(voter);
            parked.try_held(index, latest, tried_max, |held| {
                let Held { ordinal, arrived_ns, ref fragment, .. } = *held;
                let number = fragment.number;
                let Some(key) = events.new_key_near_quorum(index, number, horizon) else {
                    return false;
                };
                let known = Known { index, key, ordinal, arrived_ns, fragment };
                if events.owned.has(key) {
                    matched.reach(index, key);
                    events.accept(&known, matched);
                } else {
                    known.discard(Entry::FragmentsNotOwned, matched);
                }
                true
            });
        }
    }

    /// Takes the held fragments of these claims of voters. `number` has the key `key`.
    fn take_claims(
        &mut self,
        claims: &[(usize, u32)],
        key: u64,
        number: u64,
        matched: &mut Matched,
    ) {
        let numbers = self.horizon.rules().numbers;
        for (index, held) in self.parked.take_claims(claims) {
            let key = key.wrapping_add_signed(numbers.offset(number, held.fragment.number));
            let Held { ordinal, arrived_ns, ref fragment, .. } = held;
            self.take(&Known { index, key, ordinal, arrived_ns, fragment }, matched);
        }
    }

    /// Gives up the held fragments whose time has passed.
    fn expire_held(&mut self, matched: &mut Matched) {
        let active_ns = self.horizon.active_ns();
        for index in 0..matched.sources.len() {
            self.give_up_held(index, |expires_ns| expires_ns <= active_ns, matched);
        }
    }

    fn give_up_held(&mut self, index: usize, is_due: impl Fn(u64) -> bool, matched: &mut Matched) {
        let voter = self.events.voter_of(index);
        while let Some(held) = self.parked.pop_oldest_held(index, |held| is_due(held.expires_ns)) {
            let repetition = self.horizon.repetition(voter, held.claim);
            self.give_up(index, repetition, &held, matched);
        }
    }

    /// Moves the window to the position of a quorum; false if no keys are left for it, or if it
    /// must wait for sources that promise.
    fn follow_quorum(&mut self, quorum: &Quorum, at_end: bool, matched: &mut Matched) -> bool {
        let numbers = self.horizon.rules().numbers;
        let events = self.events.window.events();
        let begins = self.parked.begins(quorum, numbers);
        let begin = |rank: usize| begins.get(rank).map_or(0, |&begin| begin);
        // What was held for long may begin further before the anchor than the window has room.
        let lowest = begin(0).max(-(events / 2).cast_signed());
        let number = quorum.anchor.wrapping_add_signed(lowest);
        let position = quorum.position.unwrap_or(self.events.window.newest);
        let ahead = numbers.offset(position, number);
        let started = self.horizon.is_started();
        let gap = started && ahead > 0 && (self.continues || ahead.unsigned_abs() < events);
        let key = match (started, gap) {
            (false, _) => Some(numbers.number_of(number)),
            (true, true) => Some(position + ahead.unsigned_abs()),
            (true, false) => None,
        };
        let after = position.max(self.events.window.newest);
        // At the end of the keys, claims expire one by one.
        let Some(key) = key.or_else(|| numbers.next_cycle(after, number)) else { return false };
        let promised = self.horizon.promises.promised();
        let is_awaited = match gap {
            true => promised < self.base_before(key),
            false => started && promised < u64::MAX,
        };
        if is_awaited && !at_end && !self.horizon.has_quorum_waited() {
            return false;
        }
        self.continues = false;
        self.apply_wanted_at_start(quorum, key, number);
        if gap {
            self.move_window(self.base_before(key), matched);
        } else {
            self.close_below(u64::MAX, CloseReason::Overtaken, matched);
            self.give_up_repeated(quorum, matched);
            // Room for sources that are behind the first one, within the same cycle of the numbers.
            let base = key - (events / 2).min(numbers.number_of(key));
            let numbered_from = begin(begins.len() / 2) - lowest;
            self.events.restart(base, key.saturating_add_signed(numbered_from));
        }
        let claims = self.horizon.follow(quorum, (number, key), !gap, self.now_ns);
        if started && !gap {
            self.restarts_followed += 1;
            self.last_restart =
                Some(Restart { from: numbers.number_of(position), to: numbers.number_of(key) });
            self.events.count_restart(quorum, matched);
            self.horizon.promises.begin_numbering(key - numbers.number_of(key));
        }
        self.take_claims(&claims, key, number, matched);
        self.join(matched);
        self.take_ahead(matched);
        self.take_held_in_reach(usize::MAX, matched);
        self.take_unplaced(matched);
        true
    }

    /// Discards the fragments that are held for other reasons than a quorum and that their sources
    /// delivered before: in the epoch that the quorum begins it is not known that they did.
    fn give_up_repeated(&mut self, quorum: &Quorum, matched: &mut Matched) {
        let numbers = self.horizon.rules().numbers;
        for index in 0..matched.sources.len() {
            if self.horizon.promises.has(index) {
                continue;
            }
            let voter = self.events.voter_of(index);
            let position = self.horizon.last_position(voter).unwrap_or(self.events.window.newest);
            let seen = &self.events.seen;
            let repeated = self.parked.remove_held(index, |held| {
                let key = numbers.near(position, held.fragment.number);
                quorum.claim_of(voter) != Some(held.claim) && seen.contains(index, key)
            });
            for held in repeated {
                let repetition = self.horizon.repetition(voter, held.claim);
                self.give_up(index, repetition, &held, matched);
            }
        }
    }

    /// Applies the changes of what is wanted that were made before the start, each from the newest
    /// event that had begun by then. `number` has the key `key`.
    fn apply_wanted_at_start(&mut self, quorum: &Quorum, key: u64, number: u64) {
        let numbers = self.horizon.rules().numbers;
        let after = |begun| key.saturating_add_signed(numbers.offset(number, begun)) + 1;
        let parked = &self.parked;
        self.events
            .wanted
            .start(|at_ns| parked.numbers_begun(quorum, at_ns).map(after).max().unwrap_or(0));
    }

    /// Where the window begins so that a key is within it, and a sixteenth of it is beyond the key.
    fn base_before(&self, key: u64) -> u64 {
        let events = self.events.window.events();
        (key + 1 + events / 16).saturating_sub(events)
    }

    fn move_window(&mut self, base: u64, matched: &mut Matched) {
        self.events.move_to(base, self.now_ns, &mut self.horizon, matched);
    }

    fn close_below(&mut self, end: u64, reason: CloseReason, matched: &mut Matched) {
        self.events.close_below(end, reason, self.now_ns, &mut self.horizon, matched);
    }

    fn release(&mut self, matched: &mut Matched) {
        let Self { horizon, events, parked, shares, now_ns, .. } = self;
        let open_bytes_max = shares.open_bytes_max(*now_ns, events, parked, matched);
        events.release(*now_ns, open_bytes_max, horizon, matched);
    }

    /// Bytes of open events and parked fragments.
    fn waiting_bytes(&self) -> u64 {
        self.events.bytes + self.parked.bytes()
    }

    /// Whether parked fragments leave too little memory.
    fn is_crowded(&self) -> bool {
        self.waiting_bytes() > self.shares.waiting_bytes_max / 2 || self.parked.is_crowded()
    }
}

impl Matcher for NumberMatcher {
    fn needs(&self) -> Needs {
        self.needs
    }

    fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.horizon.advance(now_ns);
    }

    fn resume(&mut self, now_ns: u64) {
        self.horizon.resume(now_ns);
    }

    fn push(&mut self, fragments: &[Fragment], matched: &mut Matched) {
        self.horizon.count_time(self.now_ns);
        for run in fragments.chunk_by(|one, other| one.source == other.source) {
            match matched.usable(run) {
                Some(index) if self.horizon.promises.has(index) => {
                    self.push_promised(index, run, matched);
                }
                Some(index) => self.push_run(index, run, matched),
                None => {}
            }
        }
    }

    fn hold(&mut self, source: usize, _: &Matched) {
        self.horizon.hold(source, self.events.voter_of(source), self.now_ns);
    }

    fn hold_unread(&mut self, source: usize, _: &Matched) {
        self.horizon.hold_unread(source, self.events.voter_of(source), self.now_ns);
    }

    fn note(&mut self, source: usize, note: SourceNote, matched: &mut Matched) {
        match note {
            _ if self.horizon.promises.has(source) => self.take_note(source, note, matched),
            SourceNote::Named(groups) if self.events.named.is_reference(source) => {
                self.name(source, groups, matched);
            }
            _ => {}
        }
    }

    fn awaited(&mut self, each: &mut dyn FnMut(usize)) {
        self.awaited_promises(each);
    }

    fn poll(&mut self, matched: &mut Matched) {
        self.horizon.begin_cycle(self.parked.count() > 0);
        self.take_ahead(matched);
        self.release(matched);
        if self.parked.count() > 0 {
            self.follow(false, matched);
            self.release(matched);
        }
        let waiting_bytes = self.waiting_bytes();
        self.shares.update(self.now_ns, waiting_bytes, &self.parked, &mut self.horizon, matched);
        self.horizon.end_cycle();
    }

    fn finish(&mut self, matched: &mut Matched) {
        self.horizon.begin_cycle(self.parked.count() > 0);
        self.take_ahead(matched);
        self.release(matched);
        // Ends: each iteration decides a claim or takes a parked fragment.
        while self.parked.count() > 0 && (self.follow(true, matched) | self.reach_ahead(matched)) {
            self.close_below(u64::MAX, CloseReason::RunEnded, matched);
        }
        self.close_below(u64::MAX, CloseReason::RunEnded, matched);
        for index in 0..matched.sources.len() {
            self.give_up_held(index, |_| true, matched);
            while let Some(ahead) = self.parked.pop_ahead_below(index, u64::MAX) {
                let Ahead { ordinal, ref fragment, .. } = ahead;
                matched.discard(index, ordinal, fragment, Entry::FragmentsOutOfRange);
            }
        }
    }

    fn set_recording(&mut self, wanted: bool) {
        let reach = self.horizon.reach();
        let OpenEvents { window, wanted: changes, .. } = &mut self.events;
        let from = match (self.horizon.is_started(), window.open) {
            (false, _) if self.parked.count() > 0 || changes.waits_for_start() => {
                // The key is not known yet.
                return changes.change_at_start(self.now_ns, wanted);
            }
            (false, _) => 0,
            (true, 0) => window.base,
            // Events that only a source ahead has begun have not begun.
            (true, _) => window.newest.min(reach) + 1,
        };
        changes.change(from, wanted);
    }

    fn is_drained(&mut self) -> bool {
        self.events.is_drained()
    }

    fn has_passed(&self, index: usize, key: u64) -> bool {
        self.horizon.promises.has_passed(index, key)
    }

    fn not_sent(&self, index: usize, key: u64) -> bool {
        self.horizon.promises.was_not_sent(index, key)
    }

    fn parked(&self, source: usize) -> usize {
        self.parked.count_of(source)
    }

    fn first_parked(&self, source: usize) -> Option<u64> {
        self.parked.first_ordinal(source)
    }

    fn status(&self, matched: &Matched) -> BuilderStatus {
        let sources = matched.sources.iter().enumerate();
        let mut status = BuilderStatus {
            waiting_bytes: self.parked.bytes(),
            fragments_held: self.parked.count() as u64,
            restarts_followed: self.restarts_followed,
            last_restart: self.last_restart,
            sources: sources.map(|(index, source)| self.state_of(index, source)).collect(),
            ..BuilderStatus::default()
        };
        self.events.add_to(&mut status, matched);
        status
    }
}
