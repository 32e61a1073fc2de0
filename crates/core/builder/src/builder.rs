//! The builder: how fragments enter.
//!
//! On the fast path a fragment is near the position of its sender. It is marked as seen, added to
//! the slot of its event and appended to the queue of its source: four memory accesses, whatever
//! the number of sources. All other fragments take [`Builder::push_slow`]. The positions are in
//! `horizon.rs`, fragments elsewhere in `follow.rs`, closing in `release.rs`, cutting in `cut.rs`.

use std::collections::VecDeque;

use catchment_model::{Entry, SourceId};

use crate::horizon::{Horizon, KEY_END, Numbers, Rules};
use crate::seen::Seen;
use crate::source::Source;
use crate::tally::Tally;
use crate::wanted::Wanted;
use crate::window::{self, Window};
use crate::{
    BuilderConfig, BuilderStatus, ConfigError, Cut, Discard, Fragment, SourceRole, SourceStatus,
};

/// Builds events from fragments' descriptors.
///
/// One duty cycle is: [`push`](Self::push) what came in, [`poll`](Self::poll) once,
/// [`cut`](Self::cut) until there is none, then take [`discarded`](Self::discarded) and
/// [`counts`](Self::counts).
///
/// Memory is bounded: a window of slots, and for each source at most as many descriptors as the
/// window and the released events have rows, and `parked_max` parked ones. While twice the window's
/// events wait to be cut, no further ones are released.
#[derive(Debug)]
pub struct Builder {
    pub(crate) config: BuilderConfig,
    pub(crate) sources: Vec<Source>,
    /// The sources that each voter delivers.
    pub(crate) sources_of: Vec<Vec<u32>>,
    pub(crate) window: Window,
    pub(crate) seen: Seen,
    pub(crate) horizon: Horizon,
    pub(crate) tally: Tally,
    pub(crate) wanted: Wanted,
    /// The time, which never goes back.
    pub(crate) now_ns: u64,
    pub(crate) finished: bool,
    /// When shares are computed next.
    pub(crate) share_due_ns: u64,
    /// Weight of the required sources in a complete event, and of all.
    pub(crate) required_count: u32,
    pub(crate) weight_all: u32,
    /// Number of parked fragments of all sources.
    pub(crate) parked_count: usize,
    /// Number of fragments ever held.
    pub(crate) held_ever: u64,
    /// Whether any source is full.
    pub(crate) some_full: bool,
    /// The key after the last released one; none where keys before the next one do not count as
    /// absent: at the start, and after a restart.
    pub(crate) expected_key: Option<u64>,
    /// The key at which the quorum of this epoch began. Absent keys before it were never numbered.
    pub(crate) numbered_from: u64,
    /// Absent keys not yet counted for each required source.
    pub(crate) absent_uncounted: u64,
    pub(crate) rows: VecDeque<Row>,
    /// Since when rows wait to be cut.
    pub(crate) rows_since_ns: u64,
    pub(crate) spare: Option<Cut>,
    pub(crate) status: BuilderStatus,
}

/// A released event that is in no cut yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub key: u64,
    pub first_ns: u64,
    pub bytes: u64,
    pub flags: u32,
    /// Why it is in no frame, if it is in none.
    pub dropped: Option<Entry>,
}

impl Builder {
    /// A builder for these settings.
    ///
    /// # Errors
    /// Settings that cannot be.
    pub fn new(config: BuilderConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let sources = config.sources.iter().enumerate();
        let sources = sources.map(|(index, &role)| Source::new(role, config.voter_of(index)));
        let sources: Vec<Source> = sources.collect();
        let weight_all = sources.iter().filter(|source| source.enabled).map(|s| s.weight).sum();
        Ok(Self {
            window: Window::new(config.window_events),
            seen: Seen::new(sources.len(), config.window_events),
            tally: Tally::new(sources.len()),
            wanted: Wanted::default(),
            sources_of: sources_of(&config),
            required_count: window::required_count(weight_all),
            weight_all,
            sources,
            horizon: horizon(&config),
            config,
            now_ns: 0,
            finished: false,
            parked_count: 0,
            held_ever: 0,
            some_full: false,
            share_due_ns: 0,
            expected_key: None,
            numbered_from: 0,
            absent_uncounted: 0,
            rows: VecDeque::new(),
            rows_since_ns: 0,
            spare: None,
            status: BuilderStatus::default(),
        })
    }

    /// Takes fragments, best in runs of one source. All arrived at `now_ns`; a time before an
    /// earlier one is taken for that one.
    ///
    /// # Panics
    /// After [`finish`](Self::finish).
    pub fn push(&mut self, now_ns: u64, fragments: &[Fragment]) {
        assert!(!self.finished, "nothing is pushed after the end of the run");
        self.advance_time(now_ns);
        if fragments.is_empty() {
            return;
        }
        self.horizon.count_time(self.now_ns);
        let mut rest = fragments;
        while let Some(first) = rest.first() {
            let other = rest.iter().position(|fragment| fragment.source != first.source);
            let (run, after) = rest.split_at(other.unwrap_or(rest.len()));
            self.push_run(first.source as usize, run);
            rest = after;
        }
    }

    /// Says that what has arrived since the last call may not have been pushed yet: an eighth of
    /// the time-out passes at most, however long that was. Call it once per duty cycle, before
    /// pushing. A process that was stopped, or a machine, then finds in its sockets what its open
    /// events wait for.
    pub fn resume(&mut self, now_ns: u64) {
        self.horizon.resume(now_ns);
    }

    /// Moves the descriptors of all fragments discarded since the last call to `into`'s end. They
    /// are as many as [`counts`](Self::counts) says, and those that named no source.
    pub fn discarded(&mut self, into: &mut Vec<Discard>) {
        self.tally.take_discards(into);
    }

    /// Hands the ledger's increments since the last call to `add`.
    pub fn counts(&mut self, add: impl FnMut(SourceId, Entry, u64)) {
        let absent = std::mem::take(&mut self.absent_uncounted);
        if absent > 0 {
            let required = self.sources.iter().enumerate().filter(|(_, source)| source.required);
            for (index, _) in required {
                self.tally.add(index, Entry::FragmentsMissingUnrecorded, absent);
            }
        }
        self.tally.take_counts(add);
    }

    /// The state and the totals. It allocates, so it is not for every duty cycle.
    pub fn status(&self) -> BuilderStatus {
        let of_source = |source: &Source| SourceStatus {
            newest_key: self.horizon.position(source.voter),
            silent: self.horizon.is_silent(source.voter),
            out_of_step: self.horizon.is_out_of_step(source.voter),
            parked: source.parked_count() as u64,
        };
        BuilderStatus {
            base_key: self.window.base,
            open_events: self.window.open,
            released_events: self.rows.len() as u64,
            sources: self.sources.iter().map(of_source).collect(),
            ..self.status.clone()
        }
    }

    /// Sets the clock.
    pub(crate) fn advance_time(&mut self, now_ns: u64) {
        if now_ns > self.now_ns {
            self.now_ns = now_ns;
            self.horizon.advance(now_ns);
        }
    }

    /// Clears the record of seen fragments and moves the window. No event is open.
    pub(crate) fn place_window(&mut self, base: u64) {
        self.window.restart(base);
        self.seen.restart(base);
        self.seen.cover(self.window.end());
        self.expected_key = None;
    }

    fn push_run(&mut self, index: usize, run: &[Fragment]) {
        let Some(source) = self.sources.get(index) else {
            self.status.fragments_of_no_source += run.len() as u64;
            return run.iter().for_each(|fragment| self.tally.discard_of_no_source(fragment));
        };
        if !source.enabled {
            let reason = Entry::FragmentsDiscardedDisabled;
            return run.iter().for_each(|f| self.tally.discard(index, f.offset, f.bytes, reason));
        }
        let mut rest = run;
        while !rest.is_empty() {
            let done = self.push_fast(index, rest);
            rest = &rest[done..];
            if let Some((first, after)) = rest.split_first() {
                self.push_slow(index, first);
                rest = after;
            }
        }
    }

    /// Takes fragments of one source on the fast path, up to the first that needs the slow one.
    /// Returns how many.
    fn push_fast(&mut self, index: usize, run: &[Fragment]) -> usize {
        let Self { sources, window, seen, horizon, tally, now_ns, .. } = self;
        let source = &mut sources[index];
        // The queues of parked fragments are another cache line: look only if something is parked.
        if source.full || (self.parked_count > 0 && !source.rare.ahead.is_empty()) {
            return 0;
        }
        let Some((mut newest, mut previous)) = horizon.fast_position(source.voter) else {
            return 0;
        };
        let Rules { numbers, near, .. } = horizon.rules();
        let (mut reached, mut bytes, mut done) = (source.reached, 0, 0);
        let (mut reordered, mut wrong_tag, mut flagged) = (0, 0, 0);
        for fragment in run {
            let step = numbers.offset(newest, fragment.number);
            let key = newest.wrapping_add_signed(step);
            let close = step.unsigned_abs() <= near;
            if !close || !window.contains(key) || !seen.insert(index, key) {
                break;
            }
            wrong_tag += u64::from(!window.add(key, fragment, source.weight, *now_ns));
            source.append(key, fragment);
            if key > newest {
                (newest, previous) = (key, newest);
            } else if key < newest {
                previous = previous.max(key);
            }
            if key == reached {
                reached += 1;
            } else {
                reordered += u64::from(key < reached);
                reached = source.reach_out_of_order(reached, key);
            }
            flagged += u64::from(fragment.is_flagged());
            bytes += u64::from(fragment.bytes);
            done += 1;
        }
        if done > 0 {
            source.reached = reached;
            let voter = source.voter;
            let has_claims = horizon.receive(voter, (newest, previous), *now_ns);
            self.status.waiting_bytes += bytes;
            self.status.fragments_held += done as u64;
            tally.add(index, Entry::FragmentsReordered, reordered);
            tally.add(index, Entry::FragmentsWrongTag, wrong_tag);
            tally.add(index, Entry::FragmentsFlaggedError, flagged);
            if has_claims {
                self.refute(voter);
            }
        }
        done
    }

    /// Takes a fragment that is not near the position of its sender, outside the window, or a
    /// duplicate.
    #[cold]
    fn push_slow(&mut self, index: usize, fragment: &Fragment) {
        let voter = self.sources[index].voter;
        self.horizon.mark_alive(voter);
        if self.take_near_position(index, fragment) {
            return;
        }
        let number = fragment.number;
        if let Some(key) = self.open_key(index, number) {
            // The quorum is there, so the sender has returned.
            self.place_at(voter, key, number);
            return self.take_in_share(index, key, fragment);
        }
        let claimed = self.horizon.claim(voter, number, self.now_ns);
        let ahead =
            self.horizon.is_started().then(|| self.window.key_of(number, self.config.number_bits));
        let passed = self.horizon.passed();
        match ahead.flatten().filter(|&key| key >= passed && claimed.settled) {
            Some(key) if !self.seen.contains(index, key) => {
                self.place_at(voter, key, number);
                self.take_in_share(index, key, fragment);
            }
            _ => self.hold(index, claimed.id, fragment),
        }
    }

    /// Takes or discards a fragment near the position of its sender; false if it is not near, or
    /// may be a restart behind it.
    fn take_near_position(&mut self, index: usize, fragment: &Fragment) -> bool {
        let voter = self.sources[index].voter;
        let Some(position) = self.horizon.position(voter) else { return false };
        let Rules { numbers, near, .. } = self.horizon.rules();
        let step = numbers.offset(position, fragment.number);
        let key = position.wrapping_add_signed(step);
        let repeats = step <= 0 && step.unsigned_abs() <= self.config.number_back_max;
        if step.unsigned_abs() > near && !repeats {
            return false;
        }
        let new = self.window.contains(key) && !self.seen.contains(index, key);
        let ahead = &self.sources[index].rare.ahead;
        let is_ahead = || ahead.binary_search_by_key(&key, |ahead| ahead.key).is_ok();
        let beyond = (self.window.end()..KEY_END).contains(&key) && (step > 0 || !is_ahead());
        if !(new || beyond || step > 0 || repeats) {
            return false;
        }
        let keys = if step > 0 { (key, position) } else { (position, position.saturating_sub(1)) };
        if self.horizon.receive(voter, keys, self.now_ns) {
            self.refute(voter);
        }
        self.take_in_share(index, key, fragment);
        true
    }

    /// The key of a number that is in the window and that its source has not delivered, if it is
    /// near enough to the quorum to be accepted at once.
    pub(crate) fn open_key(&mut self, index: usize, number: u64) -> Option<u64> {
        if !self.horizon.is_started() {
            return None;
        }
        let key = self.window.key_of(number, self.config.number_bits)?;
        let in_reach = key < self.horizon.passed().saturating_add(self.horizon.rules().near);
        (in_reach && !self.seen.contains(index, key)).then_some(key)
    }

    #[cold]
    fn refute(&mut self, voter: usize) {
        for (claim, lasting) in self.horizon.refute(voter) {
            self.discard_repeated(voter, claim, lasting);
        }
    }

    // Takes a fragment, unless its source is full and the quorum has not passed its key.
    fn take_in_share(&mut self, index: usize, key: u64, fragment: &Fragment) {
        if self.sources[index].full && key >= self.horizon.passed() {
            return self.discard(index, fragment, Entry::FragmentsOutOfRange);
        }
        self.take(index, key, self.now_ns, fragment);
    }

    /// Counts a fragment that came after a later one of its source.
    pub(crate) fn reordered(&mut self, index: usize, key: u64) {
        let reordered = self.sources[index].reach(key);
        self.tally.add(index, Entry::FragmentsReordered, u64::from(reordered));
    }

    /// Accepts a fragment whose key is in the window and has not been seen.
    pub(crate) fn accept(&mut self, index: usize, key: u64, fragment: &Fragment, arrived_ns: u64) {
        let source = &mut self.sources[index];
        let new = self.seen.insert(index, key);
        assert!(new, "a fragment is accepted once");
        let same_tag = self.window.add(key, fragment, source.weight, arrived_ns);
        source.append(key, fragment);
        self.tally.add(index, Entry::FragmentsWrongTag, u64::from(!same_tag));
        self.tally.add(index, Entry::FragmentsFlaggedError, u64::from(fragment.is_flagged()));
        self.status.waiting_bytes += u64::from(fragment.bytes);
        self.status.fragments_held += 1;
    }

    /// The entry that counts a fragment of a closed event.
    pub(crate) fn too_late(&self, key: u64) -> Entry {
        match self.wanted.has(key) {
            true => Entry::FragmentsLate,
            false => Entry::FragmentsDiscardedPaused,
        }
    }

    /// Discards a fragment that is not held.
    pub(crate) fn discard(&mut self, index: usize, fragment: &Fragment, reason: Entry) {
        self.tally.discard(index, fragment.offset, fragment.bytes, reason);
    }
}

impl SourceRole {
    /// Whether anything of it is recorded.
    pub fn is_enabled(self) -> bool {
        self != Self::Disabled
    }
}

fn horizon(config: &BuilderConfig) -> Horizon {
    let rules = Rules {
        numbers: Numbers::new(config.number_bits),
        near: config.reorder_events.max(1),
        agree: config.reorder_events.max(config.window_events / 64),
        spread: config.window_events / 2,
        timeout_ns: config.timeout_ns,
    };
    let mut enabled = vec![false; config.voter_count()];
    for (index, role) in config.sources.iter().enumerate() {
        enabled[config.voter_of(index)] |= role.is_enabled();
    }
    Horizon::new(rules, enabled.into_iter())
}

fn sources_of(config: &BuilderConfig) -> Vec<Vec<u32>> {
    let mut of_voter = vec![Vec::new(); config.voter_count()];
    for index in 0..config.sources.len() {
        of_voter[config.voter_of(index)].push(index as u32);
    }
    of_voter
}
