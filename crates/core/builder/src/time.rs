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
//! | [`Promises`](promises::Promises) | what front-ends say of themselves |
//! | [`Queues`] | fragments by time, and the events that they are |
//! | [`Pieces`](pieces::Pieces) | several fragments of a source in an event |
//! | [`alone`] | rows of one fragment: in no event, late, out of step |
//! | [`Floods`] | sources of which most fragments are in no event |
//! | [`Offsets`] | how far the times of a source are from its events |
//! | [`Beyond`] | how far they are from events without it |
//!
//! Where a reference source names the groups that took part in an event, the event waits for the
//! sources of these alone, and takes fragments of these alone: whether another one's came early or
//! late changes nothing.
//!
//! The key of an event is the time of its anchor. Keys rise: at least by one from row to row.

mod alone;
mod beyond;
mod clock;
mod cluster;
mod drift;
mod flood;
mod group;
mod horizon;
mod offsets;
mod ordinals;
mod pieces;
mod promised;
mod promises;
mod regroup;
mod settings;
mod states;
mod unread;
mod voter;

use catchment_model::{CloseReason, Entry, EventFlags};

pub use self::beyond::{Beyond, BeyondBin};
pub use self::drift::Drifts;
pub use self::flood::Floods;
use self::group::{Next, Put, Queues, Waiting};
use self::horizon::{GivenUp, Held, Horizon, Said};
pub use self::offsets::{Offsets, Suggested};
use self::pieces::Building;
pub use self::regroup::{Group, regroup};
pub use self::settings::{
    ClockConfig, Flooding, Late, OFFSET_NS_MAX, TimeConfig, Unmatched, WindowKind,
};
use crate::closing::{Closing, ClosingEvent};
use crate::edges::Edges;
use crate::excused::Excused;
use crate::wanted::Wanted;
use crate::{
    BuilderConfig, BuilderStatus, ConfigError, Continues, Fragment, Matched, Matcher, Needs,
    Restart, Row, SourceNote, SourceStatus,
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
    looks: beyond::Looks,
    closing: Closing,
    excused: Excused,
    /// The same of front-ends whose clocks begin anew: what is added to their times is not known.
    excused_anew: Excused,
    wanted: Wanted,
    edges: Edges,
    required: Vec<bool>,
    /// Sparse sources, with their lag, and what was last waited for of each.
    sparse: Vec<(usize, i64, i64)>,
    floods: Floods,
    /// The source whose fragments name groups, and what those name that come next.
    reference: Option<usize>,
    named: u64,
    /// Whether some source is in groups.
    has_groups: bool,
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
    /// The source without which the next event is not final, what it had passed, and how many of
    /// its fragments waited.
    blocker: Option<(usize, i64, usize)>,
    /// Events that the longest span ended.
    capped: u64,
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
        let mut horizon = Horizon::new(config, time);
        let mut queues = Queues::new(time, config.sources.len());
        if config.positions.contains(&true) {
            queues.keep_ordinals();
        }
        let waits = |&index: &usize| config.pausable.get(index) == Some(&true);
        sources().filter(waits).for_each(|index| queues.set_pausable(index));
        if let Some(Continues { closed_key, sources }) = &config.continues {
            let (closed_ns, had) = (closed_key.cast_signed(), sources.iter().enumerate());
            let had = had.filter_map(|(index, key)| key.map(|_| index));
            horizon.continue_at(closed_ns, had);
            queues.continue_at(closed_ns - time.before_ns.cast_signed());
        }
        Ok(Self {
            horizon,
            queues,
            offsets: sources().map(|index| Offsets::new(time, time.opens(index))).collect(),
            looks: beyond::Looks::default(),
            closing: Closing::new(config),
            excused: Excused::default(),
            excused_anew: Excused::default(),
            wanted: Wanted::default(),
            edges: Edges::new(config),
            required: sources().map(|index| config.sources[index].is_required()).collect(),
            sparse: sparse
                .map(|index| (index, time.clocks[index].lag_ns.cast_signed(), i64::MIN))
                .collect(),
            floods: Floods::new(time, time.opener_count(&config.sources), config.timeout_ns),
            reference: time.reference,
            named: 0,
            has_groups: config.expected_in.iter().any(|&groups| groups > 0),
            unmatched: time.unmatched,
            late: time.late,
            waiting_bytes_max: config.waiting_bytes_max,
            waiting_max: config.parked_max,
            rows_max: time.rows_max,
            now_ns: 0,
            next_key: config.continues.as_ref().map_or(0, |run| run.closed_key),
            epochs: 0,
            last_epoch: None,
            blocker: None,
            capped: 0,
        })
    }

    /// Takes fragments of a source that follow those of it that wait, up to the first that takes a
    /// closer look. Returns how many.
    #[inline]
    fn push_next(&mut self, index: usize, run: &[Fragment], matched: &mut Matched) -> usize {
        let (queues, most, arrived_ns) = (&mut self.queues, self.waiting_max, self.now_ns);
        let done = self.horizon.take_run(index, run, arrived_ns, |ns, &fragment| {
            let put = queues.put_next(index, ns, Waiting { fragment, arrived_ns }, most);
            if put {
                matched.reach(index, key_of(ns));
            }
            put
        });
        self.queues.name_next((index, done), self.named);
        if let Some(ordinals) = self.queues.ordinals.get_mut(index) {
            let first = matched.first_ordinal(index, run);
            ordinals.extend(first..first + done as u64);
        }
        done
    }

    /// Takes a fragment whose time is known.
    #[inline]
    fn put(&mut self, index: usize, ns: i64, held: &Held, matched: &mut Matched) {
        let &Held { ref fragment, arrived_ns, ordinal, groups } = held;
        if self.queues.len(index) >= self.waiting_max {
            return matched.discard(index, ordinal, fragment, Entry::FragmentsDiscardedMemory);
        }
        let waiting = Waiting { fragment: *fragment, arrived_ns };
        match self.queues.put(index, ns, waiting, (ordinal, groups)) {
            Put::Waits if self.queues.pieces.are_several() => {
                matched.reach_again(index, key_of(ns));
            }
            Put::Waits => matched.reach(index, key_of(ns)),
            Put::Repeated => matched.discard(index, ordinal, fragment, fragment.repeated()),
            Put::Ambiguous => {
                matched.discard(index, ordinal, fragment, Entry::FragmentsAmbiguous);
            }
            Put::Late => self.take_late(index, ns, (waiting, ordinal), matched),
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
            self.horizon.promises.begin_anew();
            self.excuse_anew(0..self.required.len(), epoch.shift_ns);
            for &index in &cluster.members {
                matched.count(index, Entry::NumberingRestarts, 1);
            }
            self.join(at_end || is_quiet, matched);
        }
        self.take_given_up(matched);
    }

    fn join(&mut self, at_end: bool, matched: &mut Matched) {
        let was_started = self.horizon.is_started();
        let placed = self.horizon.join(at_end);
        self.excuse_anew(placed.iter().copied(), 0);
        for &index in &placed {
            for (held, ns) in self.horizon.take_held(index) {
                match ns {
                    Some(ns) => self.put(index, ns, &held, matched),
                    None => {
                        let Held { ordinal, ref fragment, .. } = held;
                        matched.discard(index, ordinal, fragment, Entry::FragmentsOutOfRange);
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
        self.settle_edges();
        if self.forced(forced) == Forced::No && self.is_blocked() {
            return;
        }
        self.blocker = None;
        let passed_ns = self.passed_ns(0, matched);
        // What a front-end says of the future closes nothing, but where all begins anew or ends.
        let bound_ns = match forced {
            Forced::No | Forced::By(CloseReason::TimedOut) => self.horizon.bound_ns(self.now_ns),
            Forced::By(_) => i64::MAX,
        };
        while matched.row_count() < self.rows_max {
            let is_forced = self.forced(forced);
            // Where memory is short, the oldest event closes whatever the clocks say.
            let bound_ns = if self.is_short() { i64::MAX } else { bound_ns };
            match self.queues.next() {
                Some(Next::Lone { ns, .. }) if ns > bound_ns => break,
                Some(Next::Event { anchor_ns, .. }) if anchor_ns > bound_ns => break,
                Some(Next::Lone { index, ns, until_ns }) => {
                    // No other source opens events, and those that are expected in none that come
                    // do not delay them.
                    let reference = self.reference.filter(|_| self.has_groups);
                    let reference_ns = reference.map_or(i64::MAX, |one| self.horizon.lows[one]);
                    let passed_ns = if reference_ns < i64::MAX { reference_ns } else { passed_ns };
                    // What its own source may still deliver before it would be late.
                    let is_first = self.horizon.is_in_order(index) || self.horizon.lows[index] > ns;
                    let waits = self.edges.waits(key_of(until_ns));
                    let is_final = until_ns < passed_ns && is_first && !waits;
                    if !is_final && is_forced == Forced::No {
                        break;
                    }
                    self.close_alone(index, matched);
                }
                Some(Next::Event { begin_ns, anchor_ns, end_ns, openers }) => {
                    let named = if self.has_groups { self.queues.named() } else { 0 };
                    let passed_ns = match self.has_groups {
                        true => self.passed_ns(named, matched),
                        false => passed_ns,
                    };
                    let blocker = match end_ns < passed_ns {
                        true => None,
                        false => self.blocker(begin_ns, end_ns, named, matched),
                    };
                    let is_final = blocker.is_none() && !self.edges.waits(key_of(end_ns));
                    if !is_final && is_forced == Forced::No {
                        self.note_blocker(blocker);
                        break;
                    }
                    if openers < self.floods.coincidence() {
                        let Some(index) = self.queues.anchor(anchor_ns) else { break };
                        self.close_alone(index, matched);
                        continue;
                    }
                    let reason = match is_forced {
                        Forced::By(reason) if !is_final => reason,
                        _ if self.horizon.rests(self.now_ns) => CloseReason::TimedOut,
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
            Forced::No if self.is_short() => Forced::By(CloseReason::Overtaken),
            forced => forced,
        }
    }

    /// Whether what waits takes more memory than it may.
    fn is_short(&self) -> bool {
        self.queues.bytes > self.waiting_bytes_max
    }

    /// The time that every awaited source has passed which an event of these groups expects.
    fn passed_ns(&mut self, named: u64, matched: &Matched) -> i64 {
        if self.sparse.is_empty() {
            return self.lowest(named, matched);
        }
        // A sparse source is waited for a lag behind the others, however long it is silent.
        for &(index, ..) in &self.sparse {
            self.horizon.lows[index] = i64::MAX;
        }
        let mut others_ns = self.lowest(named, matched);
        let (promises, time_ns) = (&self.horizon.promises, self.horizon.time_at(self.now_ns));
        if promises.is_any() {
            // What a front-end promises of the future costs no fragment of another source, nor
            // does it that all others are idle or gone.
            others_ns = others_ns.min(time_ns.unwrap_or(i64::MAX));
        }
        for (index, lag_ns, waited_ns) in &mut self.sparse {
            let (index, lag_ns) = (*index, *lag_ns);
            if promises.has(index) && !promises.is_awaited(index) {
                continue;
            }
            let own_ns = self.horizon.passed_ns(index, self.now_ns).unwrap_or(i64::MIN);
            let mut behind_ns = match others_ns {
                i64::MAX => i64::MAX,
                others_ns => others_ns.saturating_sub(lag_ns),
            };
            if self.horizon.is_unread_now(index) {
                behind_ns = behind_ns.min(*waited_ns);
            } else if named == 0 && behind_ns < i64::MAX {
                *waited_ns = behind_ns;
            }
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
                || self.horizon.is_in_order(index) && self.queues.has_all(index, begin_ns, end_ns)
                || !matched.is_expected(index, named)
        };
        let lows = self.horizon.lows.iter().enumerate();
        // Sources are read in turn: the last one is what the event waits for longest.
        lows.rev().find(|&(index, &low_ns)| !nothing_can_change(index, low_ns)).map(|(at, _)| at)
    }

    /// Notes what the next event waits for. Of a sparse source or a group more than its own
    /// fragments says whether it does.
    fn note_blocker(&mut self, blocker: Option<usize>) {
        let is_plain = self.sparse.is_empty() && !self.has_groups;
        let several = self.queues.pieces.are_several();
        let waits = |&index: &usize| is_plain && (several || self.queues.len(index) == 0);
        let state = |index| (index, self.horizon.lows[index], self.queues.len(index));
        self.blocker = blocker.filter(waits).map(state);
    }

    /// Whether the next event still waits for what it waited for, so that no other source needs to
    /// be looked at: with a thousand of them a look costs more than what came since the last one.
    fn is_blocked(&self) -> bool {
        self.blocker.is_some_and(|(index, low_ns, count)| {
            self.horizon.lows[index] == low_ns
                && self.queues.len(index) == count
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
        self.look_beyond((begin_ns, anchor_ns, end_ns), groups, matched);
        self.queues.close(end_ns);
        self.floods.drain(&mut self.queues);
        self.capped += u64::from(std::mem::take(&mut self.queues.is_capped));
        let mut building = Building::new(key_of(anchor_ns).max(self.next_key), anchor_ns);
        let mut complete = true;
        for index in 0..self.required.len() {
            if !matched.is_expected(index, groups) {
                continue;
            }
            if !self.queues.is_in(index, begin_ns, end_ns) {
                complete &= !self.required[index];
                self.queues.close_without(index, end_ns);
                continue;
            }
            self.take_fragment(index, &mut building, matched);
            if self.queues.pieces.are_several() {
                self.take_pieces(index, (begin_ns, end_ns), &mut building, matched);
            }
        }
        let Building { key, first_ns, bytes, flags, .. } = building;
        let reason = if complete { CloseReason::Complete } else { reason };
        let unwanted = self.unwanted(anchor_ns, (begin_ns, end_ns));
        let event =
            ClosingEvent { key, first_ns, bytes, flags, groups, complete, unwanted, reason };
        self.release_row(&event, matched);
    }

    fn release_row(&mut self, event: &ClosingEvent, matched: &mut Matched) {
        let row: Row = self.closing.row(event);
        matched.release(row, self.now_ns);
        self.next_key = event.key + 1;
    }
}

impl Matcher for TimeMatcher {
    fn needs(&self) -> Needs {
        Needs::rows(self.rows_max)
    }

    fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    fn resume(&mut self, now_ns: u64) {
        if now_ns > self.now_ns {
            self.horizon.resume(self.now_ns, now_ns);
        }
    }

    fn push(&mut self, fragments: &[Fragment], matched: &mut Matched) {
        self.horizon.count_delivery(self.now_ns);
        let arrived_ns = self.now_ns;
        for run in fragments.chunk_by(|one, other| one.source == other.source) {
            let Some(index) = matched.usable(run) else { continue };
            let mut rest = run;
            while !rest.is_empty() {
                rest = &rest[self.push_next(index, rest, matched)..];
                let Some((&fragment, after)) = rest.split_first() else { break };
                let ordinal = matched.first_ordinal(index, rest);
                rest = after;
                let held = Held { fragment, arrived_ns, ordinal, groups: self.named };
                match self.horizon.take(index, &held) {
                    Said::Next(ns) => self.put(index, ns, &held, matched),
                    Said::Behind(ns) => self.take_behind(index, ns, &held, matched),
                    Said::Held => {}
                    Said::NoRoom => {
                        let claimed_ns = self.horizon.claimed_ns(index, &fragment);
                        self.take_out_of_step(&GivenUp { index, held, claimed_ns }, matched);
                    }
                }
            }
            if self.horizon.promises.has(index) {
                self.edges.deliver(index, run[0].number);
                self.horizon.hear(index);
            }
        }
    }

    fn note(&mut self, source: usize, note: SourceNote, matched: &mut Matched) {
        match note {
            SourceNote::Named(groups) if self.reference == Some(source) => self.named = groups,
            _ if self.horizon.promises.has(source) => self.take_note(source, note, matched),
            _ => {}
        }
    }

    fn hold(&mut self, source: usize, _matched: &Matched) {
        self.horizon.mark_held(source, self.now_ns);
    }

    fn hold_unread(&mut self, source: usize, _matched: &Matched) {
        self.horizon.mark_unread(source, self.now_ns);
    }

    fn poll(&mut self, matched: &mut Matched) {
        self.horizon.look(self.now_ns);
        if self.horizon.holds_some() {
            self.settle(false, matched);
        }
        let is_quiet = self.horizon.is_quiet(self.now_ns);
        let forced = match is_quiet && self.horizon.promises.are_quiet(self.now_ns) {
            true => Forced::By(CloseReason::TimedOut),
            false => Forced::No,
        };
        if self.horizon.rests(self.now_ns) {
            self.horizon.rest();
        }
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
        self.take_given_up(matched);
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
        let last_ns = self.queues.last_ns().min(self.horizon.bound_ns(self.now_ns));
        let from = (key_of(last_ns) + 1).max(self.next_key);
        self.wanted.change(from, wanted);
    }

    fn is_drained(&mut self) -> bool {
        let from = self.wanted.last_change();
        !self.wanted.waits_for_start() && self.queues.first_ns().is_none_or(|ns| key_of(ns) >= from)
    }

    fn parked(&self, source: usize) -> usize {
        self.queues.len(source) + self.horizon.held_of(source)
    }

    fn first_parked(&self, source: usize) -> Option<u64> {
        let waiting = self.queues.ordinals.get(source)?.lowest();
        waiting.into_iter().chain(self.horizon.first_held(source)).min()
    }

    fn has_passed(&self, source: usize, key: u64) -> bool {
        self.has_passed_window(source, key)
    }

    fn not_sent(&self, source: usize, key: u64) -> bool {
        self.was_not_sent(source, key)
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
                astray: self.horizon.astray(index),
                // Times of different sources are never the same: what waits says who is behind.
                is_awaited: waits
                    && source.is_required()
                    && self.queues.len(index) == 0
                    && !self.horizon.promises.is_absent(index),
                given_up: self.horizon.promises.has_given_up(index),
                is_flooding: self.floods.has(index),
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
        status.events_capped = self.capped;
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
