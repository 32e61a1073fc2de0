//! The builder: how fragments come in.
//!
//! A fragment in the usual case is unwrapped, marked as seen, added to its event's slot and appended
//! to its source's queue: four places in memory, whatever the number of sources. Everything unusual
//! leaves that path for [`Builder::push_unusual`]. How events close is in `release.rs`, how the
//! builder follows sources that jump in `follow.rs`, how frames are cut in `cut.rs`.

use std::collections::VecDeque;

use catchment_model::{Entry, SourceId};
use catchment_wire::sequence::Step;

use crate::progress::{PERIODS, Progress};
use crate::seen::Seen;
use crate::source::{Parked, Source, State};
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
/// Memory is bounded: a window of slots; per source at most as many descriptors as the window and the
/// released events have rows, and `parked_max` beyond the window. When twice the window's events
/// wait to be cut, no further ones are released.
#[derive(Debug)]
pub struct Builder {
    pub(crate) config: BuilderConfig,
    pub(crate) sources: Vec<Source>,
    pub(crate) window: Window,
    pub(crate) seen: Seen,
    pub(crate) progress: Progress,
    pub(crate) tally: Tally,
    pub(crate) wanted: Wanted,
    /// The time, which never goes back.
    pub(crate) now_ns: u64,
    /// Whether a fragment has come, so that the window stands somewhere.
    pub(crate) started: bool,
    pub(crate) finished: bool,
    /// When the current period of `progress` ends.
    pub(crate) period_end_ns: u64,
    pub(crate) last_push_ns: u64,
    /// Weight of the required sources in a complete event, and of all.
    pub(crate) required_count: u32,
    pub(crate) weight_all: u32,
    /// Fragments beyond the window, all sources.
    pub(crate) parked_count: usize,
    /// The key after the last released one; none where keys before the next one do not count as
    /// absent: at the start, and after a restart.
    pub(crate) expected_key: Option<u64>,
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
        let sources: Vec<Source> =
            config.sources.iter().map(|&role| Source::new(role, config.unwrapper())).collect();
        let mut progress = Progress::new(sources.len());
        for (index, source) in sources.iter().enumerate() {
            progress.wait_for(index, source.is_waited_for());
        }
        let weight_all = sources.iter().filter(|source| source.enabled).map(|s| s.weight).sum();
        Ok(Self {
            window: Window::new(config.window_events),
            seen: Seen::new(sources.len(), config.window_events),
            tally: Tally::new(sources.len()),
            wanted: Wanted::default(),
            required_count: window::required_count(weight_all),
            weight_all,
            sources,
            progress,
            config,
            now_ns: 0,
            started: false,
            finished: false,
            period_end_ns: 0,
            last_push_ns: 0,
            parked_count: 0,
            expected_key: None,
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
        let Some(first) = fragments.first() else { return };
        if self.started {
            self.end_pause();
        } else {
            self.start(first);
        }
        self.last_push_ns = self.now_ns;
        let mut rest = fragments;
        while let Some(first) = rest.first() {
            let other = rest.iter().position(|fragment| fragment.source != first.source);
            let (run, after) = rest.split_at(other.unwrap_or(rest.len()));
            self.push_run(first.source as usize, run);
            rest = after;
        }
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

    /// The state and the totals. It allocates: not for every duty cycle.
    pub fn status(&self) -> BuilderStatus {
        let of_source = |source: &Source| SourceStatus {
            newest_key: source.unwrapper.newest(),
            silent: source.enabled && source.state.has(State::SILENT),
            out_of_step: source.state.has(State::OUT_OF_STEP),
            parked: source.parked.len() as u64,
        };
        BuilderStatus {
            base_key: self.window.base,
            open_events: self.window.open,
            released_events: self.rows.len() as u64,
            sources: self.sources.iter().map(of_source).collect(),
            ..self.status.clone()
        }
    }

    /// Sets the clock, and at the end of each eighth of a time-out notes how far the sources are and
    /// which of them are silent.
    pub(crate) fn advance_time(&mut self, now_ns: u64) {
        self.now_ns = self.now_ns.max(now_ns);
        if !self.started || self.now_ns < self.period_end_ns {
            return;
        }
        let period_ns = self.period_ns();
        let periods = 1 + (self.now_ns - self.period_end_ns) / period_ns;
        for _ in 0..periods.min(PERIODS + 1) {
            self.progress.sample();
        }
        self.period_end_ns = self.period_end_ns.saturating_add(periods.saturating_mul(period_ns));
        for (index, source) in self.sources.iter_mut().enumerate() {
            let quiet_ns = self.now_ns.saturating_sub(source.last_ns);
            if source.enabled && quiet_ns >= self.config.timeout_ns {
                source.state.set(State::SILENT);
                source.state.set(State::AWAY);
                self.progress.wait_for(index, false);
            }
        }
    }

    fn period_ns(&self) -> u64 {
        self.config.timeout_ns.div_ceil(PERIODS)
    }

    // The window is placed so that sources which are behind the first one to speak fit in.
    fn start(&mut self, first: &Fragment) {
        self.started = true;
        self.period_end_ns = self.now_ns.saturating_add(self.period_ns());
        self.last_push_ns = self.now_ns;
        self.sources.iter_mut().for_each(|source| source.last_ns = self.now_ns);
        let (key, _) = self.config.unwrapper().unwrap(first.number);
        self.place_window(key.saturating_sub(self.window.events() / 2));
        // Where the other sources' first numbers are looked for.
        self.window.newest = key;
    }

    /// Empties the memory of seen fragments and moves the window. No event is open.
    pub(crate) fn place_window(&mut self, base: u64) {
        self.window.restart(base);
        self.seen.restart(base);
        self.seen.cover(self.window.end());
        self.expected_key = None;
    }

    // A source is silent when it delivers nothing while others do. While nobody does (no beam, a
    // slow trigger), the time counts little; otherwise the first to speak again would be alone.
    fn end_pause(&mut self) {
        let pause_ns = self.now_ns - self.last_push_ns;
        if pause_ns < 2 * self.period_ns() {
            return;
        }
        let uncounted_ns = pause_ns - self.period_ns();
        for (index, source) in self.sources.iter_mut().enumerate() {
            source.last_ns = source.last_ns.saturating_add(uncounted_ns).min(self.now_ns);
            if self.now_ns - source.last_ns < self.config.timeout_ns {
                source.state.clear(State::SILENT);
                self.progress.wait_for(index, source.is_waited_for());
            }
        }
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
            let (done, unusual) = self.push_usual(index, rest);
            rest = &rest[done..];
            if let Some((first, after)) = rest.split_first() {
                let (key, step) = match unusual {
                    Some((key, Step::Restart)) => self.begun_anew(index, first.number, key),
                    Some(unusual) => unusual,
                    None => self.unwrap_unusual(index, first.number),
                };
                self.push_unusual(index, first, key, step);
                rest = after;
            }
        }
    }

    /// Takes fragments of one source up to the first that is not the usual case. Returns how many,
    /// and that one's key, if it has been unwrapped.
    fn push_usual(&mut self, index: usize, run: &[Fragment]) -> (usize, Option<(u64, Step)>) {
        let Self { sources, window, seen, progress, tally, now_ns, .. } = self;
        let source = &mut sources[index];
        if !source.state.is_usual() {
            return (0, None);
        }
        let (mut reached, mut bytes, mut done) = (progress.reached(index), 0, 0);
        let mut unusual = None;
        let (mut reordered, mut wrong_tag, mut flagged) = (0, 0, 0);
        for fragment in run {
            let (key, step) = source.unwrapper.unwrap(fragment.number);
            if !window.contains(key) || !seen.insert(index, key) {
                unusual = Some((key, step));
                break;
            }
            wrong_tag += u64::from(!window.add(key, fragment, source.weight, *now_ns));
            source.keep(key, fragment);
            if key >= reached {
                reached = key + 1;
            } else {
                reordered += 1;
            }
            flagged += u64::from(fragment.is_flagged());
            bytes += u64::from(fragment.bytes);
            done += 1;
        }
        if done > 0 {
            source.last_ns = *now_ns;
            progress.set(index, reached, true);
            self.status.waiting_bytes += bytes;
            self.status.fragments_held += done as u64;
            tally.add(index, Entry::FragmentsReordered, reordered);
            tally.add(index, Entry::FragmentsWrongTag, wrong_tag);
            tally.add(index, Entry::FragmentsFlaggedError, flagged);
        }
        (done, unusual)
    }

    /// Takes a fragment outside the window, a repeated one, or one of a source whose state is not
    /// the usual one.
    #[cold]
    fn push_unusual(&mut self, index: usize, fragment: &Fragment, key: u64, step: Step) {
        let source = &mut self.sources[index];
        let late = key < self.window.base;
        if step == Step::Restart {
            self.tally.add(index, Entry::NumberingRestarts, 1);
            // It may be the one that the others make, too.
            source.state.clear(State::OUT_OF_STEP);
        }
        source.state.clear(State::NEW);
        source.state.clear(State::AWAY);
        if self.window.contains(key) {
            source.state.clear(State::AHEAD);
            source.state.clear(State::OUT_OF_STEP);
            if self.seen.contains(index, key) {
                self.discard(index, fragment, fragment.repeated());
            } else {
                let reordered = key < self.progress.reached(index);
                self.tally.add(index, Entry::FragmentsReordered, u64::from(reordered));
                self.accept(index, key, fragment, self.now_ns);
            }
        } else if source.state.has(State::OUT_OF_STEP) {
            let key = source.unwrapper.nearest(fragment.number, self.window.newest);
            let late = key < self.window.base;
            let reason = if late { self.too_late(key) } else { Entry::FragmentsOutOfRange };
            self.discard(index, fragment, reason);
        } else if late && self.seen.contains(index, key) {
            self.discard(index, fragment, fragment.repeated());
        } else if late {
            self.discard(index, fragment, self.too_late(key));
        } else {
            self.park(index, key, fragment);
        }
    }

    // The key, found with more than the unwrapper knows.
    #[cold]
    fn unwrap_unusual(&mut self, index: usize, number: u64) -> (u64, Step) {
        let source = &mut self.sources[index];
        let state = source.state;
        if state.has(State::NEW) {
            let newest = self.window.newest;
            source.unwrapper.realign(newest);
            // Too far from the others: it is theirs, or this source's, that are wrong, and all who
            // find that must come to the same keys.
            if !self.window.contains(source.unwrapper.nearest(number, newest)) {
                source.unwrapper.follow(newest);
            }
        }
        let before = source.unwrapper.newest().unwrap_or(0);
        let (key, step) = source.unwrapper.unwrap(number);
        if self.window.contains(key) && !state.has(State::AWAY) {
            return (key, step);
        }
        // After a silence, 0 or 1 is a restart, however few numbers there were before.
        let bits = self.config.number_bits;
        if state.has(State::AWAY) && step == Step::Backward && number <= 1 {
            let turn = ((key >> bits) + 1) << bits;
            source.unwrapper = self.config.unwrapper();
            source.unwrapper.realign(turn);
            return (source.unwrapper.unwrap(number).0, Step::Restart);
        }
        if self.window.contains(key) {
            return (key, step);
        }
        // Does the number fit to the others' now? A source that runs on beyond the window must not
        // be asked: it may have restarted, and the others be about to. One that jumps again may: the
        // number before was garbled.
        let runs_on = step == Step::Forward && key - before <= source.unwrapper.reorder_max();
        let jumped = state.has(State::AHEAD) && !runs_on;
        let asked = state.has(State::AWAY) || state.has(State::OUT_OF_STEP) || jumped;
        if let Some(key) = asked.then(|| self.fit(index, number)).flatten() {
            return (key, Step::Forward);
        }
        match step {
            Step::Restart => self.begun_anew(index, number, key),
            _ => (key, step),
        }
    }

    // A number that seems to begin anew, with the key that it would have then. One that the others
    // are at now comes from a source whose number before was garbled. 0 and 1 are always a beginning.
    #[cold]
    fn begun_anew(&mut self, index: usize, number: u64, key: u64) -> (u64, Step) {
        let fits = if number > 1 { self.fit(index, number) } else { None };
        fits.map_or((key, Step::Restart), |key| (key, Step::Forward))
    }

    // Brings a source to where the window has its number, if it has and the source has not been there.
    fn fit(&mut self, index: usize, number: u64) -> Option<u64> {
        let key = self.window.key_of(number, self.config.number_bits)?;
        if self.seen.contains(index, key) {
            return None;
        }
        let source = &mut self.sources[index];
        source.unwrapper.realign(key);
        // What was reached in another turn says nothing here.
        self.progress.set(index, 0, source.is_waited_for());
        Some(key)
    }

    /// Takes a fragment into the window: its key is inside and has not been seen.
    pub(crate) fn accept(&mut self, index: usize, key: u64, fragment: &Fragment, arrived_ns: u64) {
        let source = &mut self.sources[index];
        let new = self.seen.insert(index, key);
        assert!(new, "a fragment is accepted once");
        let same_tag = self.window.add(key, fragment, source.weight, arrived_ns);
        source.keep(key, fragment);
        source.last_ns = source.last_ns.max(arrived_ns);
        if arrived_ns == self.now_ns {
            source.state.clear(State::SILENT);
        }
        let reached = self.progress.reached(index);
        self.tally.add(index, Entry::FragmentsWrongTag, u64::from(!same_tag));
        self.tally.add(index, Entry::FragmentsFlaggedError, u64::from(fragment.is_flagged()));
        self.progress.set(index, reached.max(key + 1), source.is_waited_for());
        self.status.waiting_bytes += u64::from(fragment.bytes);
        self.status.fragments_held += 1;
    }

    fn park(&mut self, index: usize, key: u64, fragment: &Fragment) {
        let source = &mut self.sources[index];
        source.state.set(State::AHEAD);
        source.state.clear(State::SILENT);
        source.last_ns = self.now_ns;
        let reached = self.progress.reached(index);
        self.progress.set(index, reached.max(key + 1), source.is_waited_for());
        self.tally.add(index, Entry::FragmentsReordered, u64::from(key < reached));
        if source.parked.len() >= self.config.parked_max {
            return self.discard(index, fragment, Entry::FragmentsOutOfRange);
        }
        source.park(Parked { key, arrived_ns: self.now_ns, fragment: *fragment });
        self.parked_count += 1;
        self.status.waiting_bytes += u64::from(fragment.bytes);
        self.status.fragments_held += 1;
    }

    /// What a fragment of a closed event counts as.
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
