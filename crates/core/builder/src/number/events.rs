//! The open events of the number matcher, and how they close, in the order of their keys.
//!
//! The open event with the lowest key closes when
//!
//! - all sources have delivered it, and no owned key before it may still come;
//! - every sender that has a position is past it by more than `reorder_events`: *overtaken*;
//! - its time-out has passed, and the quorum was past it a time-out ago: *timed out*;
//! - waiting fragments hold too much (`shares.rs`), and the quorum is past it: *overtaken* too;
//! - the run ends.
//!
//! Events do not wait for a sender that is silent or out of step, so that a dead one costs one
//! time-out and not one per event (docs/decisions/event-building.md). No event closes before the
//! quorum has passed it (`horizon.rs`).

use std::ops::Range;

use catchment_model::{CloseReason, Entry, EventFlags};

use super::claim::Likeness;
use super::horizon::{Horizon, Rules};
use super::numbers::{KEY_END, Numbers};
use crate::matched::{Closing, ClosingEvent};
use crate::wanted::Wanted;
use crate::{BuilderConfig, BuilderStatus, Fragment, Jump, Matched, OwnedKeys, SourceRole};

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
    pub owned: OwnedKeys,
    /// Bytes of the fragments of open events.
    pub bytes: u64,
    absent: AbsentKeys,
    closing: Closing,
    limits: Limits,
    /// Whether keys that all sources skipped are always lost: a lone sender agrees with itself.
    skips_are_losses: bool,
    jumps: u64,
    last_jump: Option<Jump>,
    /// Weight of the required sources in a complete event, and of all.
    required_count: u32,
    weight_all: u32,
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
}

impl OpenEvents {
    pub fn new(config: &BuilderConfig) -> Self {
        let enabled = config.sources.iter().filter(|role| role.is_enabled());
        let weight_all = enabled.map(|&role| weight(role == SourceRole::Required)).sum();
        Self {
            window: Window::new(config.window_events),
            seen: Seen::new(config.sources.len(), config.window_events),
            wanted: Wanted::default(),
            owned: config.owned.clone(),
            bytes: 0,
            absent: AbsentKeys::default(),
            closing: Closing::new(config),
            limits: Limits { timeout_ns: config.timeout_ns, reorder_events: config.reorder_events },
            skips_are_losses: config.skips_are_losses || config.required_voter_count() < 2,
            jumps: 0,
            last_jump: None,
            required_count: required_count(weight_all),
            weight_all,
        }
    }

    /// Whether a key is in the window and its source has not delivered it.
    pub fn is_new(&self, index: usize, key: u64) -> bool {
        self.window.contains(key) && !self.seen.contains(index, key)
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
        let weight = weight(matched.sources[index].required);
        self.window.add(key, fragment, weight, arrived_ns);
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
        } else if self.wanted.has(key) {
            Entry::FragmentsLate
        } else {
            Entry::FragmentsDiscardedPaused
        }
    }

    /// Closes the heads that need not wait. Open events may hold `open_bytes_max`.
    pub fn release(
        &mut self,
        now_ns: u64,
        open_bytes_max: u64,
        horizon: &mut Horizon,
        matched: &mut Matched,
    ) {
        let opened_before_ns = now_ns.checked_sub(self.limits.timeout_ns);
        // Both bounds scan all voters: computed only when needed, and once.
        let (mut overtaken_below, mut timed_out_below) = (None, None);
        while matched.row_count() < self.window.events() {
            let Some((key, slot)) = self.window.head() else { break };
            let all = slot.weight == self.weight_all;
            if all && (key == self.window.base || self.owned.has_none_of(self.window.base..key)) {
                self.close_head(key, slot, CloseReason::Complete, now_ns, horizon, matched);
                continue;
            }
            let reorder_events = self.limits.reorder_events;
            let overtaken_below = *overtaken_below
                .get_or_insert_with(|| horizon.passed_by_all().saturating_sub(reorder_events));
            let reason = if all && key <= overtaken_below {
                CloseReason::Complete
            } else if key < overtaken_below || self.is_squeezed_out(key, open_bytes_max, horizon) {
                CloseReason::Overtaken
            } else if opened_before_ns.is_some_and(|before| slot.first_ns <= before) {
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
        self.absent = AbsentKeys { expected: None, numbered_from };
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

    /// Adds totals and state to a status.
    pub fn add_to(&self, status: &mut BuilderStatus) {
        self.closing.add_to(status);
        (status.jumps, status.last_jump) = (self.jumps, self.last_jump);
        status.base_key = self.window.base;
        status.open_events = self.window.open;
        status.waiting_bytes += self.bytes;
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
        let wanted = self.wanted.has(key);
        // Fragments missing in unwanted events are not counted. Nor are keys before an event that
        // the quorum has not passed: they may never have been numbered.
        let numbered = weight == self.weight_all || key < horizon.passed();
        let absent = self.absent.before(key);
        let complete = required_count(weight) == self.required_count;
        if wanted && numbered && !absent.is_empty() {
            self.count_absent(absent, complete, horizon, matched);
        }
        let flags = EventFlags(u32::from(flags));
        let event = ClosingEvent { key, first_ns, bytes, flags, complete, wanted, reason };
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
        let count = self.owned.count(absent);
        let all_beyond = || complete || horizon.passed_by_all() > to;
        let jumped = to - from > self.limits.reorder_events
            && !self.skips_are_losses
            && horizon.placed_count() >= 2
            && all_beyond();
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
        expected.max(self.numbered_from)..key
    }
}

/// What is known of one open event. 24 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    /// When its first fragment came.
    pub first_ns: u64,
    /// Bytes of its fragments.
    pub bytes: u64,
    /// Sources that delivered, as a sum of weights; 0: the slot is empty.
    pub weight: u32,
    /// The tag of its first fragment.
    pub tag: u8,
    /// The low bits of its flags.
    pub flags: u8,
}

const _: () = assert!(size_of::<Slot>() == 24);

/// What a source adds to a slot's weight: 1, and 65,536 if it is required.
pub fn weight(required: bool) -> u32 {
    1 | if required { REQUIRED } else { 0 }
}

/// How many required sources are in a weight.
#[inline]
pub fn required_count(weight: u32) -> u32 {
    weight / REQUIRED
}

/// The events that are open: a ring of slots, one per key.
///
/// ```text
///        base            scan                     newest          base + window
///   closed | no fragment  | open events, and gaps    | no fragment     | parked
/// ```
#[derive(Debug)]
pub struct Window {
    slots: Vec<Slot>,
    mask: u64,
    /// The lowest key that can take fragments.
    pub base: u64,
    /// No key below it has fragments.
    pub scan: u64,
    /// The highest key that took a fragment; `base` before that.
    pub newest: u64,
    /// Slots that are not empty.
    pub open: u64,
}

impl Window {
    /// `events` is a power of two.
    pub fn new(events: u64) -> Self {
        let slots = vec![Slot::default(); events as usize];
        Self { slots, mask: events - 1, base: 0, scan: 0, newest: 0, open: 0 }
    }

    /// How many keys it spans.
    pub fn events(&self) -> u64 {
        self.mask + 1
    }

    /// The first key beyond it.
    pub fn end(&self) -> u64 {
        self.base + self.events()
    }

    /// Whether a key is inside.
    #[inline]
    pub fn contains(&self, key: u64) -> bool {
        key.wrapping_sub(self.base) <= self.mask
    }

    /// The key inside that has this number, if there is one.
    pub fn key_of(&self, number: u64, numbers: Numbers) -> Option<u64> {
        let forward = numbers.number_of(number.wrapping_sub(self.base));
        (forward <= self.mask).then(|| self.base + forward)
    }

    /// Moves to keys from `base` on. All slots are empty.
    pub fn restart(&mut self, base: u64) {
        assert_eq!(self.open, 0, "the window jumps only when no event is open");
        (self.base, self.scan, self.newest) = (base, base, base);
    }

    /// Moves on to a base up to which all events are closed.
    pub fn advance(&mut self, base: u64) {
        assert!(
            base >= self.base && (self.open == 0 || base <= self.scan),
            "no open event is lost"
        );
        self.base = base;
        self.scan = self.scan.max(base);
        self.newest = self.newest.max(base);
    }

    /// Adds a fragment to the event of its key, which is inside.
    #[inline]
    pub fn add(&mut self, key: u64, fragment: &Fragment, weight: u32, arrived_ns: u64) {
        let slot = &mut self.slots[(key & self.mask) as usize];
        if slot.weight == 0 {
            *slot = Slot { first_ns: arrived_ns, tag: fragment.tag, ..Slot::default() };
            self.open += 1;
            self.scan = self.scan.min(key);
            self.newest = self.newest.max(key);
        }
        slot.weight += weight;
        slot.bytes += u64::from(fragment.bytes);
        // A fragment that was parked can have come before the one that opened the event.
        slot.first_ns = slot.first_ns.min(arrived_ns);
        if slot.tag != fragment.tag {
            slot.flags |= EventFlags::TAG_MISMATCH.0 as u8;
        }
        if fragment.is_flagged() {
            slot.flags |= EventFlags::SENDER_ERROR.0 as u8;
        }
    }

    /// The open event with the lowest key.
    #[inline]
    pub fn head(&mut self) -> Option<(u64, Slot)> {
        if self.open == 0 {
            return None;
        }
        // Ends: some slot up to the newest key is not empty. Each empty one is passed once.
        loop {
            assert!(self.scan <= self.newest, "an open event lies before the newest key");
            let slot = self.slots[(self.scan & self.mask) as usize];
            if slot.weight != 0 {
                return Some((self.scan, slot));
            }
            self.scan += 1;
        }
    }

    /// Empties the slot of the head and moves the base past it.
    #[inline]
    pub fn close_head(&mut self) {
        self.slots[(self.scan & self.mask) as usize].weight = 0;
        self.open -= 1;
        self.scan += 1;
        self.base = self.scan;
        self.newest = self.newest.max(self.base);
    }
}

/// Which fragments have been accepted: one bit per source and key.
///
/// A ring over at least twice the window, so that a key is known for about one window after its
/// event closed, and a duplicate can be distinguished from a late fragment. The bits of one source
/// for 512 consecutive keys are one cache line, and the lines of all sources for these keys are
/// adjacent:
///
/// ```text
/// | keys 0..512: source 0 | source 1 | .. | keys 512..1024: source 0 | source 1 | ..
/// ```
///
/// so that only the lines near the head are in the cache, and clearing 512 keys is one fill. A
/// source costs 64 kB with a window of 262,144 events.
#[derive(Debug)]
pub struct Seen {
    words: Vec<u64>,
    source_count: usize,
    block_mask: u64,
    // Bits are valid for keys from `end - ring` (but not before `start`) up to `end`.
    start: u64,
    end: u64,
    // Whether `restart` was called before.
    used: bool,
}

impl Seen {
    /// For that many sources; `window_events` is a power of two.
    pub fn new(source_count: usize, window_events: u64) -> Self {
        let ring = (2 * window_events).max(4 * BLOCK_KEYS);
        let blocks = ring / BLOCK_KEYS;
        let words = vec![0; blocks as usize * source_count * BLOCK_WORDS];
        Self { words, source_count, block_mask: blocks - 1, start: 0, end: 0, used: false }
    }

    /// Clears all bits, for keys from `base` on. The words are cleared as keys are covered. On the
    /// first call they are clean: with 1,000 sources the ring has 64 MB, and writing to it would
    /// make the kernel provide all its pages at once.
    pub fn restart(&mut self, base: u64) {
        let clean = if std::mem::replace(&mut self.used, true) { 0 } else { self.ring() };
        self.start = base;
        self.end = base / BLOCK_KEYS * BLOCK_KEYS + clean;
    }

    /// Makes all keys below `end` usable and clears the oldest ones. Before the first
    /// [`restart`](Self::restart) there are no keys.
    pub fn cover(&mut self, end: u64) {
        if !self.used {
            return;
        }
        let ring = self.ring();
        if end.saturating_sub(self.end) > ring {
            self.restart(end - ring);
        }
        while self.end < end {
            let block = (self.end / BLOCK_KEYS) & self.block_mask;
            let words = self.source_count * BLOCK_WORDS;
            let first = block as usize * words;
            self.words[first..first + words].fill(0);
            self.end += BLOCK_KEYS;
        }
    }

    /// Whether the fragment has been accepted; false for keys that have left the ring.
    pub fn contains(&self, source: usize, key: u64) -> bool {
        let known = key >= self.start && key < self.end && key + self.ring() >= self.end;
        known && self.words[self.word(source, key)] & bit(key) != 0
    }

    /// Records the fragment; false if it was recorded before. The key must be covered.
    #[inline]
    pub fn insert(&mut self, source: usize, key: u64) -> bool {
        debug_assert!(key >= self.start && key < self.end, "key {key} below {}", self.end);
        let index = self.word(source, key);
        let word = &mut self.words[index];
        let new = *word & bit(key) == 0;
        *word |= bit(key);
        new
    }

    fn ring(&self) -> u64 {
        (self.block_mask + 1) * BLOCK_KEYS
    }

    #[inline]
    fn word(&self, source: usize, key: u64) -> usize {
        let block = ((key / BLOCK_KEYS) & self.block_mask) as usize;
        let word = (key / 64) as usize % BLOCK_WORDS;
        (block * self.source_count + source) * BLOCK_WORDS + word
    }
}

#[inline]
fn bit(key: u64) -> u64 {
    1 << (key % 64)
}

const BLOCK_WORDS: usize = BLOCK_KEYS as usize / 64;

const REQUIRED: u32 = 1 << 16;

const _: () = {
    assert!(catchment_model::limits::SOURCES_MAX < REQUIRED as usize);
    assert!(EventFlags::TAG_MISMATCH.0 < 256);
    assert!(EventFlags::SENDER_ERROR.0 < 256);
};

/// Keys whose bits are one line, and are cleared together.
pub const BLOCK_KEYS: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_is_new_once_and_known_for_a_window_after() {
        let mut seen = Seen::new(3, 1_024);
        seen.restart(100);
        seen.cover(100 + 1_024);
        assert!(seen.insert(1, 100));
        assert!(!seen.insert(1, 100));
        assert!(seen.insert(2, 100));
        assert!(!seen.contains(0, 100));
        for base in 101..=600 {
            seen.cover(base + 1_024);
            assert!(seen.contains(1, 100), "{base}");
        }
        seen.cover(100 + 3 * 1_024);
        assert!(!seen.contains(1, 100));
    }

    #[test]
    fn nothing_is_known_after_a_restart_wherever_it_begins() {
        let mut seen = Seen::new(2, 1_024);
        seen.cover(1_024);
        for base in [700, 0, 512, 100, 3_000] {
            seen.restart(base);
            for end in [1_024, 2_048, 4_096] {
                seen.cover(base + end);
                let new = (base + end - 1_024)..(base + end);
                assert!(new.clone().all(|key| !seen.contains(1, key)), "{base}, {end}");
                assert!(new.clone().all(|key| seen.insert(1, key)), "{base}, {end}");
                assert!(new.clone().all(|key| seen.contains(1, key)), "{base}, {end}");
            }
        }
    }

    #[test]
    fn a_jump_beyond_the_ring_forgets_everything() {
        let mut seen = Seen::new(2, 256);
        seen.restart(0);
        seen.cover(256);
        assert!(seen.insert(0, 5));
        seen.cover(1_000_003);
        assert!((990_000..1_000_003).all(|key| !seen.contains(0, key)));
        assert!(seen.insert(0, 1_000_002));
        assert!(seen.contains(0, 1_000_002));
    }
}
