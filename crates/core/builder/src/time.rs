//! Matching by time: fragments whose times agree within a window are one event.
//!
//! Each source has a clock, whose ticks become nanoseconds at this door, once. A fragment then
//! waits in the queue of its source, in the order of time, until its event is final:
//!
//! - every source that is awaited has passed the event's window, or its fragment is there and none
//!   of it can come before that; or
//! - nobody has delivered anything for two time-outs, or memory is short, or the run ends.
//!
//! Silent sources, and those whose clock does not fit, are not awaited: a dead one costs one
//! time-out, a wrong clock no other source's event (docs/decisions/building-by-time.md).
//!
//! | part | what it is |
//! |---|---|
//! | [`clock`] | ticks that wrap, as nanoseconds |
//! | [`Horizon`] | whose clock stands, who is awaited, what a quorum claims |
//! | [`Queues`] | fragments by time, and the events that they are |
//! | [`Offsets`] | how far the times of a source are from its events |
//!
//! Where a reference source names the groups that took part in an event, the event waits for the
//! sources of these alone, and takes fragments of these alone: whether another one's came early or
//! late changes nothing.
//!
//! The key of an event is the time of its anchor. Keys rise: at least by one from row to row.

mod clock;
mod group;
mod horizon;
mod offsets;
mod regroup;
mod settings;

use std::collections::VecDeque;

use catchment_model::{CloseReason, Entry, EventFlags};

use self::group::{Next, Put, Queues, Waiting};
use self::horizon::{Held, Horizon, Said};
pub use self::offsets::{Offsets, Suggested};
pub use self::regroup::{Group, regroup};
pub use self::settings::{ClockConfig, Late, TimeConfig, Unmatched, WindowKind};
use crate::matched::{Closing, ClosingEvent};
use crate::wanted::Wanted;
use crate::{
    BuilderConfig, BuilderStatus, ConfigError, Fragment, Matched, Matcher, Restart, Row,
    SourceNote, SourceStatus,
};

/// Matches fragments by time.
///
/// Memory is bounded: `parked_max` waiting fragments of each source, and as many held ones.
#[derive(Debug)]
pub struct TimeMatcher {
    horizon: Horizon,
    queues: Queues,
    /// By source.
    offsets: Vec<Offsets>,
    closing: Closing,
    wanted: Wanted,
    required: Vec<bool>,
    sparse: Vec<(usize, i64)>,
    coincidence: u32,
    /// The source whose fragments name groups, and what those name that come next.
    reference: Option<usize>,
    named: u64,
    unmatched: Unmatched,
    late: Late,
    waiting_bytes_max: u64,
    waiting_max: usize,
    rows_max: u64,
    now_ns: u64,
    /// One above the last key.
    next_key: u64,
    epochs: u64,
    last_epoch: Option<Restart>,
    /// The source without which the next event is not final, and what it had passed.
    blocker: Option<(usize, i64)>,
}

/// Why an event closes that is not final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forced {
    No,
    By(CloseReason),
}

impl TimeMatcher {
    /// A matcher for these settings.
    ///
    /// # Errors
    /// Settings that cannot be.
    pub fn new(config: &BuilderConfig, time: &TimeConfig) -> Result<Self, ConfigError> {
        time.check(config)?;
        let sources = || 0..config.sources.len();
        let sparse = sources().filter(|&index| TimeConfig::is_sparse(config, index));
        Ok(Self {
            horizon: Horizon::new(config, time),
            queues: Queues::new(time, config.sources.len()),
            offsets: sources().map(|index| Offsets::new(time, time.opens(index))).collect(),
            closing: Closing::new(config),
            wanted: Wanted::default(),
            required: sources().map(|index| config.sources[index].is_required()).collect(),
            sparse: sparse.map(|index| (index, time.clocks[index].lag_ns.cast_signed())).collect(),
            coincidence: time.coincidence,
            reference: time.reference,
            named: 0,
            unmatched: time.unmatched,
            late: time.late,
            waiting_bytes_max: config.waiting_bytes_max,
            waiting_max: config.parked_max,
            rows_max: config.window_events,
            now_ns: 0,
            next_key: 0,
            epochs: 0,
            last_epoch: None,
            blocker: None,
        })
    }

    /// Takes fragments of a source that follow those of it that wait, up to the first that takes a
    /// closer look. Returns how many.
    #[inline]
    fn push_next(&mut self, index: usize, run: &[Fragment], matched: &mut Matched) -> usize {
        let (queues, most, arrived_ns) = (&mut self.queues, self.waiting_max, self.now_ns);
        if queues.is_reference(index) {
            return 0;
        }
        self.horizon.take_run(index, run, arrived_ns, |ns, &fragment| {
            let put = queues.put_next(index, ns, Waiting { fragment, arrived_ns }, most);
            if put {
                matched.reach(index, key_of(ns));
            }
            put
        })
    }

    /// Takes a fragment whose time is known.
    #[inline]
    fn put(&mut self, index: usize, ns: i64, held: &Held, matched: &mut Matched) {
        let &Held { ref fragment, arrived_ns, groups } = held;
        if self.queues.len(index) >= self.waiting_max {
            return matched.discard(index, 0, fragment, Entry::FragmentsDiscardedMemory);
        }
        let waiting = Waiting { fragment: *fragment, arrived_ns };
        match self.queues.put(index, ns, waiting, groups) {
            Put::Waits => matched.reach(index, key_of(ns)),
            Put::Repeated => matched.discard(index, 0, fragment, fragment.repeated()),
            Put::Late => self.take_late(index, ns, waiting, matched),
        }
    }

    #[cold]
    fn take_late(&mut self, index: usize, ns: i64, waiting: Waiting, matched: &mut Matched) {
        let fragment = &waiting.fragment;
        let reason = match self.wanted.has(key_of(ns)) {
            true => Entry::FragmentsLate,
            false => Entry::FragmentsDiscardedPaused,
        };
        match self.late {
            Late::Keep if reason == Entry::FragmentsLate => {
                self.release_alone(index, ns, &waiting, EventFlags::LATE, matched);
            }
            _ => matched.discard(index, 0, fragment, reason),
        }
    }

    #[cold]
    fn take_behind(&mut self, index: usize, ns: i64, held: &Held, matched: &mut Matched) {
        self.horizon.mark_alive(index);
        self.put(index, ns, held, matched);
    }

    /// Places what is held, follows a quorum that claims other times, and gives up what waited too
    /// long.
    fn settle(&mut self, at_end: bool, matched: &mut Matched) {
        let is_quiet = self.horizon.is_quiet(self.now_ns);
        self.join(at_end || is_quiet, matched);
        if let Some(cluster) = self.horizon.claims_epoch() {
            self.release(Forced::By(CloseReason::Overtaken), matched);
            if self.queues.count > 0 {
                return; // Rows wait to be cut first.
            }
            let after_ns = self.queues.last_ns().max(self.next_key.cast_signed()).saturating_add(1);
            let epoch = self.horizon.follow(&cluster, after_ns, self.now_ns);
            self.epochs += 1;
            let [from, to] = [epoch.from_ns, epoch.to_ns].map(key_of);
            self.last_epoch = Some(Restart { from, to });
            for &index in &cluster.members {
                matched.count(index, Entry::NumberingRestarts, 1);
            }
            self.join(at_end || is_quiet, matched);
        }
        for (index, fragment) in self.horizon.take_given_up() {
            matched.discard(index, 0, &fragment, Entry::FragmentsOutOfRange);
        }
    }

    fn join(&mut self, at_end: bool, matched: &mut Matched) {
        let was_started = self.horizon.is_started();
        let placed = self.horizon.join(at_end);
        for &index in &placed {
            for (held, ns) in self.horizon.take_held(index) {
                match ns {
                    Some(ns) => self.put(index, ns, &held, matched),
                    None => {
                        matched.discard(index, 0, &held.fragment, Entry::FragmentsOutOfRange);
                    }
                }
            }
        }
        if !was_started && self.horizon.is_started() {
            let (horizon, now_ns) = (&self.horizon, self.now_ns);
            let begun = |at_ns: u64| horizon.time_at(at_ns.min(now_ns)).map_or(0, key_of) + 1;
            self.wanted.start(begun);
        }
    }

    /// Closes the events that are final, or all that may be.
    fn release(&mut self, forced: Forced, matched: &mut Matched) {
        if self.forced(forced) == Forced::No && self.is_blocked() {
            return;
        }
        self.blocker = None;
        let passed_ns = self.passed_ns(0, matched);
        while matched.row_count() < self.rows_max {
            let is_forced = self.forced(forced);
            match self.queues.next() {
                Some(Next::Lone { index, ns, until_ns }) => {
                    // No other source opens events, and those that are expected in none that come
                    // do not delay them.
                    let reference_ns =
                        self.reference.map_or(i64::MAX, |one| self.horizon.lows[one]);
                    let passed_ns = if reference_ns < i64::MAX { reference_ns } else { passed_ns };
                    // What its own source may still deliver before it would be late.
                    let is_first = self.horizon.is_in_order(index) || self.horizon.lows[index] > ns;
                    let is_final = until_ns < passed_ns && is_first;
                    if !is_final && is_forced == Forced::No {
                        break;
                    }
                    self.close_alone(index, matched);
                }
                Some(Next::Event { begin_ns, anchor_ns, end_ns, openers }) => {
                    let named = self.queues.named();
                    let passed_ns = match self.reference {
                        Some(_) => self.passed_ns(named, matched),
                        None => passed_ns,
                    };
                    let blocker = match end_ns < passed_ns {
                        true => None,
                        false => self.blocker(begin_ns, end_ns, named, matched),
                    };
                    let is_final = blocker.is_none();
                    if !is_final && is_forced == Forced::No {
                        self.note_blocker(blocker);
                        break;
                    }
                    if openers < self.coincidence {
                        let Some(index) = self.queues.anchor(anchor_ns) else { break };
                        self.close_alone(index, matched);
                        continue;
                    }
                    let reason = match is_forced {
                        Forced::By(reason) if !is_final => reason,
                        _ => CloseReason::Overtaken,
                    };
                    self.close_event((begin_ns, anchor_ns, end_ns), reason, matched);
                }
                None => break,
            }
        }
    }

    /// Whether events close that are not final: as said, or since memory is short.
    fn forced(&self, forced: Forced) -> Forced {
        match forced {
            Forced::No if self.queues.bytes > self.waiting_bytes_max => {
                Forced::By(CloseReason::Overtaken)
            }
            forced => forced,
        }
    }

    /// The time that every awaited source has passed which an event of these groups expects.
    fn passed_ns(&mut self, named: u64, matched: &Matched) -> i64 {
        if self.sparse.is_empty() {
            return self.lowest(named, matched);
        }
        // A sparse source is waited for a lag behind the others, however long it is silent.
        for &(index, _) in &self.sparse {
            self.horizon.lows[index] = i64::MAX;
        }
        let others_ns = self.lowest(named, matched);
        for &(index, lag_ns) in &self.sparse {
            let own_ns = self.horizon.passed_ns(index).unwrap_or(i64::MIN);
            let behind_ns = match others_ns {
                i64::MAX => i64::MAX,
                others_ns => others_ns - lag_ns,
            };
            self.horizon.lows[index] = own_ns.max(behind_ns);
        }
        self.lowest(named, matched)
    }

    fn lowest(&self, named: u64, matched: &Matched) -> i64 {
        let lows = self.horizon.lows.iter().copied();
        match named {
            0 => lows.fold(i64::MAX, i64::min),
            _ => {
                let expected =
                    lows.enumerate().filter(|&(index, _)| matched.is_expected(index, named));
                expected.map(|(_, low_ns)| low_ns).fold(i64::MAX, i64::min)
            }
        }
    }

    /// A source that may still change an event: it is awaited and expected, has not passed the
    /// event's window, and is not in it with the earliest fragment that can be of it.
    fn blocker(&self, begin_ns: i64, end_ns: i64, named: u64, matched: &Matched) -> Option<usize> {
        let nothing_can_change = |index: usize, low_ns: i64| {
            low_ns > end_ns
                || self.horizon.is_in_order(index) && self.queues.is_in(index, begin_ns, end_ns)
                || !matched.is_expected(index, named)
        };
        let lows = self.horizon.lows.iter().enumerate();
        // Sources are read in turn: the last one is what the event waits for longest.
        lows.rev().find(|&(index, &low_ns)| !nothing_can_change(index, low_ns)).map(|(at, _)| at)
    }

    /// Notes what the next event waits for. Of a sparse source or a group more than its own
    /// fragments says whether it does.
    fn note_blocker(&mut self, blocker: Option<usize>) {
        let is_plain = self.sparse.is_empty() && self.reference.is_none();
        let waits = |&index: &usize| is_plain && self.queues.len(index) == 0;
        self.blocker = blocker.filter(waits).map(|index| (index, self.horizon.lows[index]));
    }

    /// Whether the next event still waits for what it waited for, so that no other source needs to
    /// be looked at: with a thousand of them a look costs more than what came since the last one.
    fn is_blocked(&self) -> bool {
        self.blocker.is_some_and(|(index, low_ns)| {
            self.horizon.lows[index] == low_ns
                && self.queues.len(index) == 0
                && !self.queues.has_earlier
        })
    }

    fn close_event(
        &mut self,
        (begin_ns, anchor_ns, end_ns): (i64, i64, i64),
        reason: CloseReason,
        matched: &mut Matched,
    ) {
        let groups = self.queues.named();
        self.queues.close(end_ns);
        let key = key_of(anchor_ns).max(self.next_key);
        let (mut first_ns, mut bytes, mut flags) = (u64::MAX, 0, EventFlags::default());
        let (mut complete, mut tag) = (true, None);
        for index in 0..self.required.len() {
            if !matched.is_expected(index, groups) {
                continue;
            }
            if !self.queues.is_in(index, begin_ns, end_ns) {
                complete &= !self.required[index];
                self.queues.close_without(index, end_ns);
                continue;
            }
            let Some(waiting) = self.queues.pop(index) else { continue };
            let fragment = &waiting.fragment;
            first_ns = first_ns.min(waiting.arrived_ns);
            bytes += u64::from(fragment.bytes);
            flags = flags | flags_of(fragment);
            if *tag.get_or_insert(fragment.tag) != fragment.tag {
                flags = flags | EventFlags::TAG_MISMATCH;
            }
            self.offsets[index].add(waiting.ns() - anchor_ns);
            matched.append_timed(index, key, fragment, key_of(waiting.ns()));
        }
        let reason = if complete { CloseReason::Complete } else { reason };
        let event =
            ClosingEvent { key, first_ns, bytes, flags, groups, complete, ..self.event(reason) };
        self.release_row(&event, matched);
    }

    /// Closes the first fragment of a source, which is in no event.
    #[cold]
    fn close_alone(&mut self, index: usize, matched: &mut Matched) {
        let Some(waiting) = self.queues.pop(index) else { return };
        let ns = waiting.ns();
        match self.unmatched {
            Unmatched::Keep => {
                self.release_alone(index, ns, &waiting, EventFlags::UNMATCHED, matched);
            }
            Unmatched::Count => {
                let reason = match self.wanted.has(key_of(ns)) {
                    true => Entry::FragmentsDiscardedUnmatched,
                    false => Entry::FragmentsDiscardedPaused,
                };
                matched.discard(index, 0, &waiting.fragment, reason);
            }
        }
    }

    /// Makes a row of one fragment, in which nobody is absent.
    fn release_alone(
        &mut self,
        index: usize,
        ns: i64,
        waiting: &Waiting,
        flag: EventFlags,
        matched: &mut Matched,
    ) {
        let fragment = &waiting.fragment;
        let key = key_of(ns).max(self.next_key);
        matched.append_timed(index, key, fragment, key_of(ns));
        let recorded = u64::from(self.wanted.has(key));
        matched.count(index, Entry::FragmentsUnmatched, recorded);
        let (first_ns, bytes) = (waiting.arrived_ns, fragment.bytes.into());
        let flags = flag | flags_of(fragment);
        let event = ClosingEvent {
            key,
            first_ns,
            bytes,
            flags,
            complete: true,
            ..self.event(CloseReason::Complete)
        };
        self.release_row(&event, matched);
    }

    fn event(&self, reason: CloseReason) -> ClosingEvent {
        let flags = EventFlags::default();
        ClosingEvent {
            key: 0,
            first_ns: 0,
            bytes: 0,
            flags,
            groups: 0,
            complete: false,
            unwanted: None,
            reason,
        }
    }

    fn release_row(&mut self, event: &ClosingEvent, matched: &mut Matched) {
        let is_unwanted = !self.wanted.has(event.key);
        let unwanted = is_unwanted.then_some(Entry::FragmentsDiscardedPaused);
        let row: Row = self.closing.row(&ClosingEvent { unwanted, ..*event });
        matched.release(row, self.now_ns);
        self.next_key = event.key + 1;
    }
}

impl Matcher for TimeMatcher {
    fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    fn resume(&mut self, now_ns: u64) {
        if now_ns > self.now_ns {
            self.horizon.resume(self.now_ns, now_ns);
        }
    }

    fn push(&mut self, fragments: &[Fragment], matched: &mut Matched) {
        self.horizon.count_time(self.now_ns);
        let arrived_ns = self.now_ns;
        for run in fragments.chunk_by(|one, other| one.source == other.source) {
            let Some(index) = matched.usable(run) else { continue };
            let mut rest = run;
            while !rest.is_empty() {
                rest = &rest[self.push_next(index, rest, matched)..];
                let Some((&fragment, after)) = rest.split_first() else { break };
                rest = after;
                let held = Held { fragment, arrived_ns, groups: self.named };
                match self.horizon.take(index, &held) {
                    Said::Next(ns) => self.put(index, ns, &held, matched),
                    Said::Behind(ns) => self.take_behind(index, ns, &held, matched),
                    Said::Held => {}
                    Said::NoRoom => {
                        matched.discard(index, 0, &fragment, Entry::FragmentsOutOfRange);
                    }
                }
            }
        }
    }

    fn note(&mut self, source: usize, note: SourceNote, _matched: &mut Matched) {
        if let SourceNote::Named(groups) = note
            && self.reference == Some(source)
        {
            self.named = groups;
        }
    }

    fn hold(&mut self, source: usize, _matched: &Matched) {
        self.horizon.mark_held(source, self.now_ns);
    }

    fn poll(&mut self, matched: &mut Matched) {
        self.horizon.look(self.now_ns);
        if self.horizon.holds_some() {
            self.settle(false, matched);
        }
        let forced = match self.horizon.is_quiet(self.now_ns) {
            true => Forced::By(CloseReason::TimedOut),
            false => Forced::No,
        };
        self.release(forced, matched);
    }

    fn finish(&mut self, matched: &mut Matched) {
        self.horizon.look(self.now_ns);
        self.release(Forced::No, matched);
        if self.horizon.holds_some() {
            self.settle(true, matched);
        }
        self.rows_max = u64::MAX;
        self.release(Forced::By(CloseReason::RunEnded), matched);
        self.settle(true, matched);
        self.release(Forced::By(CloseReason::RunEnded), matched);
        self.horizon.give_up_all();
        for (index, fragment) in self.horizon.take_given_up() {
            matched.discard(index, 0, &fragment, Entry::FragmentsOutOfRange);
        }
    }

    fn set_recording(&mut self, wanted: bool) {
        if !self.horizon.is_started() {
            if self.horizon.holds_some() || self.wanted.waits_for_start() {
                self.wanted.change_at_start(self.now_ns, wanted);
            } else {
                self.wanted.change(0, wanted);
            }
            return;
        }
        // An event that has begun is that of a fragment that came.
        let from = (key_of(self.queues.last_ns()) + 1).max(self.next_key);
        self.wanted.change(from, wanted);
    }

    fn is_drained(&mut self) -> bool {
        let from = self.wanted.last_change();
        !self.wanted.waits_for_start() && self.queues.first_ns().is_none_or(|ns| key_of(ns) >= from)
    }

    fn parked(&self, source: usize) -> usize {
        self.queues.len(source) + self.horizon.held_of(source)
    }

    fn first_parked(&self, _source: usize) -> Option<u64> {
        None
    }

    fn offsets(&self) -> &[Offsets] {
        &self.offsets
    }

    fn status(&self, matched: &Matched) -> BuilderStatus {
        let waits = self.queues.count > 0;
        let of_source = |(index, source): (usize, &crate::matched::Source)| {
            let (_, silent, out_of_step) = self.horizon.state(index);
            SourceStatus {
                silent,
                out_of_step,
                // Times of different sources are never the same: what waits says who is behind.
                is_awaited: waits && source.is_required() && self.queues.len(index) == 0,
                parked: self.horizon.held_of(index) as u64,
                other_sender: source.is_other_sender(),
                ..SourceStatus::default()
            }
        };
        let mut status = BuilderStatus {
            base_key: self.next_key,
            open_events: self.queues.longest() as u64,
            waiting_bytes: self.queues.bytes,
            fragments_held: self.queues.count + self.horizon.held_count() as u64,
            restarts_followed: self.epochs,
            last_restart: self.last_epoch,
            sources: matched.sources.iter().enumerate().map(of_source).collect(),
            ..BuilderStatus::default()
        };
        self.closing.add_to(&mut status);
        status
    }
}

/// The key of a time. Those before the common clock's zero, as with an offset, have key 0.
fn key_of(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}

fn flags_of(fragment: &Fragment) -> EventFlags {
    if fragment.is_flagged() { EventFlags::SENDER_ERROR } else { EventFlags::default() }
}

impl Matched {
    /// Appends a fragment with a time of its own, as [`append`](Self::append) does. Its key is
    /// beyond those of all that its source has in its queue.
    #[inline]
    fn append_timed(&mut self, index: usize, key: u64, fragment: &Fragment, time_ns: u64) {
        if self.times.is_empty() {
            self.times.resize_with(self.sources.len(), VecDeque::new);
        }
        self.times[index].push_back(time_ns);
        self.append(index, key, fragment, 0);
    }
}
