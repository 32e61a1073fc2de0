//! The open events of the number matcher, and how they close, in the order of their keys.
//!
//! The open event with the lowest key closes when
//!
//! - all senders that vote have delivered it, and no owned key before it may still come;
//! - every sender that has a position is past it by more than `reorder_events`: *overtaken* (in the
//!   first time-out of a run, which any sender may begin late: every sender that votes; so also one
//!   that has not begun while its thread is held up);
//! - its time-out has passed, and the quorum was past it a time-out ago: *timed out*;
//! - waiting fragments hold too much (`shares.rs`), and the quorum is past it: *overtaken* too;
//! - the run ends.
//!
//! And all sources that promise and are awaited have passed it (`promises.rs`); of an event whose
//! time-out has passed, those that said something meanwhile. For memory, too, only the quorum
//! counts.
//!
//! Events do not wait for a sender that is silent or out of step, so that a dead one costs one
//! time-out and not one per event (docs/decisions/event-building.md). No event closes before the
//! quorum has passed it (`horizon.rs`).

use std::ops::Range;

use catchment_model::{CloseReason, Entry, EventFlags};

use super::claim::Likeness;
use super::horizon::{Horizon, Quorum, Rules};
use super::named::Named;
use super::numbers::{KEY_END, Numbers};
use super::window::{Seen, Slot, Window};
use crate::closing::{Closing, ClosingEvent};
use crate::edges::Edges;
use crate::wanted::Wanted;
use crate::{
    BuilderConfig, BuilderStatus, Fragment, Jump, Matched, NumberConfig, OwnedKeys, SourceRole,
};

/// A fragment whose source and key are known.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub index: usize,
    pub key: u64,
    pub ordinal: u64,
    pub arrived_ns: u64,
    pub fragment: &'a Fragment,
}

impl Known<'_> {
    /// Counts and notes it as one that is not used.
    pub fn discard(&self, reason: Entry, matched: &mut Matched) {
        matched.discard(self.index, self.ordinal, self.fragment, reason);
    }
}

/// The window of open events, which fragments they have, and which are wanted.
#[derive(Debug)]
pub struct OpenEvents {
    pub window: Window,
    pub seen: Seen,
    pub wanted: Wanted,
    pub edges: Edges,
    pub owned: OwnedKeys,
    pub named: Named,
    /// Bytes of the fragments of open events.
    pub bytes: u64,
    absent: AbsentKeys,
    closing: Closing,
    limits: Limits,
    /// Whether keys that all sources skipped are always lost: a lone sender agrees with itself.
    skips_are_losses: bool,
    jumps: u64,
    last_jump: Option<Jump>,
    /// By source.
    pub parts: Vec<Part>,
    /// The sum of their weights, and the required sources in it.
    weight_all: u32,
    required_count: u32,
}

/// What a source adds to its events, and who delivers it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// What it adds to a slot's weight.
    pub weight: u32,
    /// The sender that delivers it.
    voter: u32,
}

impl Part {
    /// The sender that delivers it.
    #[inline]
    pub fn voter(self) -> usize {
        self.voter as usize
    }
}

/// When events close that lack a source.
#[derive(Clone, Copy, Debug)]
struct Limits {
    timeout_ns: u64,
    reorder_events: u64,
}

/// Keys of which no source delivered anything, between those of released events.
#[derive(Debug, Default)]
struct AbsentKeys {
    /// The key after the last released one; none where keys before the next one do not count as
    /// absent: at the start, and after a restart.
    expected: Option<u64>,
    /// The key at which the quorum of this epoch began. Absent keys before it were never numbered.
    numbered_from: u64,
    /// The most of them before one event.
    most: u64,
}

impl OpenEvents {
    pub fn new(config: &BuilderConfig, number: &NumberConfig) -> Self {
        let part = |(index, &role): (usize, &SourceRole)| Part {
            weight: match role.is_enabled() {
                true => weight(!config.is_promising(index), role == SourceRole::Required),
                false => 0,
            },
            voter: number.voter_of(index) as u32,
        };
        let parts: Vec<Part> = config.sources.iter().enumerate().map(part).collect();
        let weight_all = parts.iter().map(|part| part.weight).sum();
        Self {
            window: Window::new(number.window_events),
            seen: Seen::new(config.sources.len(), number.window_events),
            wanted: Wanted::default(),
            edges: Edges::new(config),
            owned: number.owned.clone(),
            named: Named::new(config, number),
            bytes: 0,
            absent: AbsentKeys::default(),
            closing: Closing::new(config),
            limits: Limits { timeout_ns: config.timeout_ns, reorder_events: number.reorder_events },
            skips_are_losses: number.skips_are_losses
                || number.required_voter_count(&config.sources) < 2,
            jumps: 0,
            last_jump: None,
            parts,
            weight_all,
            required_count: required_count(weight_all),
        }
    }

    /// The sender that delivers a source.
    #[inline]
    pub fn voter_of(&self, index: usize) -> usize {
        self.parts[index].voter()
    }

    /// Whether a key is in the window and its source has not delivered it.
    pub fn is_new(&self, index: usize, key: u64) -> bool {
        self.window.contains(key) && !self.seen.contains(index, key)
    }

    /// Whether a key is further from one before it than the window is long, and than any two
    /// events in turn were apart.
    pub fn is_far(&self, before: u64, key: u64) -> bool {
        key.saturating_sub(before) >= self.window.events().max(self.absent.most)
    }

    /// Whether a key is of an event that closed, or was skipped, since the quorum began to number.
    pub fn was_numbered(&self, key: u64) -> bool {
        (self.absent.numbered_from..self.window.base).contains(&key)
    }

    /// What a fragment that is not near the position of its sender may be, other than the first of
    /// a new position: as far as its sender's last position in this epoch, if it had one, and the
    /// closed events show.
    pub fn likeness(
        &self,
        index: usize,
        fragment: &Fragment,
        position: Option<u64>,
        Rules { numbers, near, .. }: Rules,
    ) -> Likeness {
        let Self { window, seen, .. } = self;
        let Some(position) = position else {
            // Its first fragments may be late, too, or from before the start of the run.
            let behind = window.base.saturating_sub(numbers.near(window.newest, fragment.number));
            return match (1..=near).contains(&behind) {
                true => Likeness::Late,
                false => Likeness::Foreign,
            };
        };
        let step = numbers.offset(position, fragment.number);
        let key = position.wrapping_add_signed(step);
        let back = step.unsigned_abs();
        // Behind all that is remembered of events.
        let far = window.base.saturating_sub(key) > window.events();
        match step > 0 {
            _ if key >= KEY_END => Likeness::Foreign,
            true if far && back > near => Likeness::Behind,
            true if key < window.base => Likeness::Late,
            true => Likeness::Foreign,
            false if seen.contains(index, key) => Likeness::of_repeated(fragment.flags),
            false if back > near => Likeness::Foreign,
            false if far => Likeness::of_repeated(fragment.flags),
            false if self.was_numbered(key) => Likeness::Late,
            false => Likeness::Repeated,
        }
    }

    /// The key of a number that is in the window and that its source has not delivered, if it is
    /// near enough to the quorum to be accepted at once.
    pub fn new_key_near_quorum(
        &self,
        index: usize,
        number: u64,
        horizon: &mut Horizon,
    ) -> Option<u64> {
        if !horizon.is_started() {
            return None;
        }
        let rules = horizon.rules();
        let key = self.window.key_of(number, rules.numbers)?;
        let in_reach = key < horizon.passed().saturating_add(rules.near);
        (in_reach && !self.seen.contains(index, key)).then_some(key)
    }

    /// The key of a claim that leads into the window: that of its newest number, or what follows
    /// from its first.
    pub fn key_of_claim(&self, first: u64, newest: u64, numbers: Numbers) -> Option<u64> {
        let key = |number| self.window.key_of(number, numbers);
        let ahead = || key(first).map(|key| key.wrapping_add_signed(numbers.offset(first, newest)));
        key(newest).or_else(ahead)
    }

    /// Accepts a fragment whose key [is new](Self::is_new) and owned.
    pub fn accept(&mut self, known: &Known<'_>, matched: &mut Matched) {
        let &Known { index, key, ordinal, arrived_ns, fragment } = known;
        let new = self.seen.insert(index, key);
        assert!(new, "a fragment is accepted once");
        self.window.add(key, fragment, self.parts[index].weight, arrived_ns);
        self.named.accept(index, ordinal, [key]);
        matched.append(index, key, fragment, ordinal);
        self.bytes += u64::from(fragment.bytes);
    }

    /// The entry that counts a fragment without an open event, or one that was accepted before.
    pub fn unused(&self, index: usize, key: u64, fragment: &Fragment) -> Entry {
        let behind = self.window.base.saturating_sub(key);
        if self.seen.contains(index, key) {
            fragment.repeated()
        } else if !(1..=self.window.events()).contains(&behind) {
            Entry::FragmentsOutOfRange
        } else if !self.owned.has(key) {
            Entry::FragmentsNotOwned
        } else {
            self.unwanted(key).unwrap_or(Entry::FragmentsLate)
        }
    }

    /// Why the event of that key is not wanted; none if it is.
    fn unwanted(&self, key: u64) -> Option<Entry> {
        match self.wanted.has(key) {
            false => Some(Entry::FragmentsDiscardedPaused),
            true => self.edges.is_outside(key..=key).then_some(Entry::FragmentsOutsideRun),
        }
    }

    fn settle_edges(&mut self, horizon: &Horizon, now_ns: u64) {
        let Self { edges, window, wanted, .. } = self;
        let is_wanted = || window.head().is_some_and(|(key, _)| wanted.has(key));
        edges.settle(&horizon.promises, is_wanted, now_ns);
    }

    /// Closes the heads that need not wait. Open events may hold `open_bytes_max`.
    pub fn release(
        &mut self,
        now_ns: u64,
        open_bytes_max: u64,
        horizon: &mut Horizon,
        matched: &mut Matched,
    ) {
        self.settle_edges(horizon, now_ns);
        let opened_before_ns = now_ns.checked_sub(self.limits.timeout_ns);
        // Both bounds scan all voters: computed only when needed, and once.
        let (mut overtaken_below, mut timed_out_below) = (None, None);
        let (promised, mut promised_lately) = (horizon.promises.promised(), None);
        while matched.row_count() < self.window.events() {
            let Some((key, slot)) = self.window.head() else { break };
            let (all, complete) = self.has_all(key, slot.weight, matched);
            let is_old = opened_before_ns.is_some_and(|before| slot.first_ns <= before);
            if key >= promised || self.edges.waits(key) {
                let lately = || horizon.promises.promised_lately();
                let is_given_up = is_old && key < *promised_lately.get_or_insert_with(lately);
                let reason = match is_given_up {
                    true if key < horizon.passed_long_ago() => CloseReason::TimedOut,
                    _ if self.is_squeezed_out(key, open_bytes_max, horizon) => {
                        CloseReason::Overtaken
                    }
                    _ => break,
                };
                self.close_head(key, slot, reason, now_ns, horizon, matched);
                continue;
            }
            if all && (key == self.window.base || self.owned.has_none_of(self.window.base..key)) {
                let reason = reason_if_passed(complete);
                self.close_head(key, slot, reason, now_ns, horizon, matched);
                continue;
            }
            let reorder_events = self.limits.reorder_events;
            let overtaken_below = *overtaken_below
                .get_or_insert_with(|| horizon.passed_by_all().saturating_sub(reorder_events));
            let reason = if all && key <= overtaken_below {
                reason_if_passed(complete)
            } else if key < overtaken_below || self.is_squeezed_out(key, open_bytes_max, horizon) {
                CloseReason::Overtaken
            } else if is_old {
                let below = *timed_out_below.get_or_insert_with(|| horizon.passed_long_ago());
                if key >= below {
                    break;
                }
                CloseReason::TimedOut
            } else {
                break;
            };
            self.close_head(key, slot, reason, now_ns, horizon, matched);
        }
        self.seen.cover(self.window.end());
    }

    /// Closes all open events below `end`.
    pub fn close_below(
        &mut self,
        end: u64,
        reason: CloseReason,
        now_ns: u64,
        horizon: &mut Horizon,
        matched: &mut Matched,
    ) {
        self.settle_edges(horizon, now_ns);
        while let Some((key, slot)) = self.window.head().filter(|&(key, _)| key < end) {
            self.close_head(key, slot, reason, now_ns, horizon, matched);
        }
        self.seen.cover(self.window.end());
    }

    /// Closes the events below `base` and moves the window there.
    pub fn move_to(
        &mut self,
        base: u64,
        now_ns: u64,
        horizon: &mut Horizon,
        matched: &mut Matched,
    ) {
        let base = base.max(self.window.base);
        self.close_below(base, CloseReason::Overtaken, now_ns, horizon, matched);
        self.window.advance(base.max(self.window.base));
        self.seen.cover(self.window.end());
    }

    /// Clears the record of seen fragments and begins an epoch: the window at `base`, and keys that
    /// a quorum numbered from `numbered_from` on. No event is open.
    pub fn restart(&mut self, base: u64, numbered_from: u64) {
        self.window.restart(base);
        self.seen.restart(base);
        self.seen.cover(self.window.end());
        self.absent = AbsentKeys { expected: None, numbered_from, most: self.absent.most };
    }

    /// Continues a run whose events below that key are closed.
    pub fn continue_at(&mut self, closed_key: u64) {
        self.restart(closed_key, closed_key);
        self.absent.expected = Some(closed_key);
    }

    /// Whether all events are closed that began before the last change of what is wanted.
    pub fn is_drained(&mut self) -> bool {
        let from = self.wanted.last_change();
        !self.wanted.waits_for_start() && self.window.head().is_none_or(|(key, _)| key >= from)
    }

    /// Adds totals and state to a status, which has those of the sources.
    pub fn add_to(&self, status: &mut BuilderStatus, matched: &Matched) {
        self.closing.add_to(status);
        (status.jumps, status.last_jump) = (self.jumps, self.last_jump);
        status.base_key = self.window.base;
        status.open_events = self.window.open;
        status.waiting_bytes += self.bytes;
        // There are no more senders than sources.
        let mut newest = vec![0; self.parts.len()];
        let sources = || self.parts.iter().zip(&matched.sources);
        for (part, source) in sources() {
            let newest = &mut newest[part.voter()];
            *newest = source.reached.max(*newest);
        }
        for ((part, source), status) in sources().zip(&mut status.sources) {
            let behind = newest[part.voter()] - source.reached;
            status.is_awaited = source.is_required() && (1..=AWAITED_KEYS).contains(&behind);
        }
    }

    /// Counts a restart of the numbers for the sources of the members of a quorum.
    pub fn count_restart(&self, quorum: &Quorum, matched: &mut Matched) {
        for (index, part) in self.parts.iter().enumerate() {
            let is_member = quorum.claim_of(part.voter()).is_some();
            let restarted = matched.sources[index].enabled && is_member;
            matched.count(index, Entry::NumberingRestarts, u64::from(restarted));
        }
    }

    /// Whether an open event has the fragments of all sources that vote, and of all that are
    /// required, as far as they are expected in it.
    #[inline]
    fn has_all(&self, key: u64, weight: u32, matched: &Matched) -> (bool, bool) {
        let all = voter_count(weight) == voter_count(self.weight_all);
        let complete = required_count(weight) == self.required_count;
        match self.named.of(key) {
            named if named > 0 && !(all && complete) => self.has_expected(key, named, matched),
            _ => (all, complete),
        }
    }

    /// The same of an event whose groups were named: source by source.
    #[cold]
    fn has_expected(&self, key: u64, named: u64, matched: &Matched) -> (bool, bool) {
        let lacks = |counted: fn(u32) -> u32| {
            let mut sources = self.parts.iter().enumerate();
            sources.any(|(index, &Part { weight, .. })| {
                let is_expected = counted(weight) > 0 && matched.is_expected(index, named);
                is_expected && !self.seen.contains(index, key)
            })
        };
        (!lacks(voter_count), !lacks(required_count))
    }

    /// Whether memory is short and the quorum has passed the event.
    fn is_squeezed_out(&self, key: u64, open_bytes_max: u64, horizon: &mut Horizon) -> bool {
        self.bytes > open_bytes_max && key < horizon.passed()
    }

    fn close_head(
        &mut self,
        key: u64,
        slot: Slot,
        reason: CloseReason,
        now_ns: u64,
        horizon: &mut Horizon,
        matched: &mut Matched,
    ) {
        let Slot { first_ns, bytes, weight, flags, .. } = slot;
        let unwanted = self.unwanted(key);
        let (all, complete) = self.has_all(key, weight, matched);
        // Fragments missing in unwanted events are not counted. Nor are keys before an event that
        // the quorum has not passed: they may never have been numbered.
        let numbered = all || key < horizon.passed();
        let mut absent = self.absent.before(key);
        absent.start = absent.start.max(self.edges.begin_key());
        if unwanted.is_none() && numbered && !absent.is_empty() {
            self.count_absent(absent, complete, horizon, matched);
        }
        let flags = EventFlags(u32::from(flags));
        let groups = self.named.take(key);
        let event =
            ClosingEvent { key, first_ns, bytes, flags, groups, complete, unwanted, reason };
        self.window.close_head();
        self.bytes -= bytes;
        matched.release(self.closing.row(&event), now_ns);
    }
}

impl OpenEvents {
    /// Counts keys of which no source delivered anything, before an event that closes. Where they
    /// are more than reordering reaches, and at least two senders deliver beyond them and none
    /// before them, the senders skipped them alike: their numbers jumped ahead.
    #[cold]
    fn count_absent(
        &mut self,
        absent: Range<u64>,
        complete: bool,
        horizon: &Horizon,
        matched: &mut Matched,
    ) {
        let (from, to) = (absent.start, absent.end);
        // While most sources have not passed the event, nothing says that these keys were numbered.
        let is_claimed = !complete
            && to - from > self.limits.reorder_events
            && horizon.is_promised_alone()
            && !horizon.promises.have_most_passed(to);
        if is_claimed {
            return;
        }
        let count = self.owned.count(absent);
        let beyond = horizon.passed_by_placed().min(horizon.promises.promised());
        let placed_count = horizon.placed_count() + horizon.promises.placed_count();
        let jumped = to - from > self.limits.reorder_events
            && !self.skips_are_losses
            && placed_count >= 2
            && (complete || beyond > to);
        if jumped && count > 0 {
            self.jumps += 1;
            self.last_jump = Some(Jump { from, to, sources: self.required_count });
            matched.count_skipped(count);
        } else {
            self.closing.count_absent(count);
            matched.count_absent(count);
        }
    }
}

impl AbsentKeys {
    /// The keys just before a released one that no source delivered, those of other nodes included.
    fn before(&mut self, key: u64) -> Range<u64> {
        let expected = self.expected.replace(key + 1).unwrap_or(key);
        let absent = expected.max(self.numbered_from)..key;
        self.most = self.most.max(absent.end.saturating_sub(absent.start));
        absent
    }
}

/// Why an event closes that all sources have delivered or passed.
#[inline]
fn reason_if_passed(complete: bool) -> CloseReason {
    if complete { CloseReason::Complete } else { CloseReason::Overtaken }
}

/// What a source adds to a slot's weight: 1 if it votes, and 65,536 if it is required.
fn weight(votes: bool, required: bool) -> u32 {
    u32::from(votes) + if required { REQUIRED } else { 0 }
}

/// How many required sources are in a weight.
#[inline]
fn required_count(weight: u32) -> u32 {
    weight / REQUIRED
}

/// How many sources that vote are in a weight.
#[inline]
fn voter_count(weight: u32) -> u32 {
    weight % REQUIRED
}

/// A source that its sender has left out of more keys than this is not waited for: it is off.
const AWAITED_KEYS: u64 = 4;
const REQUIRED: u32 = 1 << 16;

const _: () = assert!(catchment_model::limits::SOURCES_MAX < REQUIRED as usize);
