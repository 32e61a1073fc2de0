//! One source as its front-end sees it: fragments go in, at once or not at all.
//!
//! ```text
//! bytes     |  free  | released | held: durable..taken..sent | unsent |  free  |   one ring
//! entries              popped   | key, bytes, tag, .. of each item    |            one queue
//! ```
//!
//! Two locks, both held shortly: *writer* keeps several threads of a front-end apart for the time
//! of a copy, *state* is shared with the session, which reads entries and gives room back. So a
//! front-end never waits for a socket. The bytes themselves need no lock: those of published
//! entries are not written until the session gives them back.

use std::collections::VecDeque;
use std::sync::Arc;

use catchment_wire::channel_link::{PACKET_BYTES_MAX, Samples};
use catchment_wire::event_link::{ABANDONED_MAX, AbandonReason, MarkKind, SourceLog};
use catchment_wire::session::{Fields, SEQUENCE_END};
use parking_lot::{Mutex, MutexGuard};

use crate::SourceConfig;
use crate::keys::{Keys, Order};
use crate::ring::ByteRing;

/// One source's part of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// By which the event is known.
    pub key: u64,
    /// What is recorded.
    pub bytes: &'a [u8],
    /// Common to all fragments of the event that have one: a trigger's type; 0: it has none.
    pub tag: u8,
    /// The bits of [`PartFlags`](catchment_wire::PartFlags).
    pub flags: u8,
    /// Of a reference source, bit *i*: group *i* took part in the event. Others name none.
    pub groups: u64,
}

impl<'a> Fragment<'a> {
    /// A fragment with nothing but its key.
    pub fn new(key: u64, bytes: &'a [u8]) -> Self {
        Self { key, bytes, tag: 0, flags: 0, groups: 0 }
    }
}

/// What became of an item.
#[must_use = "an item that was not accepted is not sent"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// It is in the log, and stays there until it is released.
    Accepted,
    /// There is no room; nothing was done.
    Full,
    /// The source has ended, [`Source::end_reason`] says why; nothing was done.
    Ended,
}

/// Why an item can never go into the log. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// Events are known by rising keys.
    #[error("the key {got} does not rise above {last}, the last one of the source")]
    Order {
        /// The last key.
        last: u64,
        /// The key that was given.
        got: u64,
    },
    /// A key beyond the width that the source has.
    #[error("the key {got} has more bits than the source's keys, {bits}")]
    Width {
        /// The key that was given.
        got: u64,
        /// Bits of the source's keys.
        bits: u32,
    },
    /// Longer than what was granted.
    #[error("the fragment has {got} bytes; the source's longest may have {max}")]
    TooLong {
        /// Its bytes.
        got: u64,
        /// Bytes of the longest.
        max: u64,
    },
    /// A heartbeat, of which the session has its own, or no bytes.
    #[error("expected a packet of samples, got a heartbeat or no bytes")]
    NoSamples,
    /// No items, or more than one range may name.
    #[error("a range has 1 to 2^40 items, got {got}")]
    Count {
        /// How many were given.
        got: u64,
    },
}

/// What happened to a source so far. Items are fragments, marks and abandoned ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceStatus {
    /// Items so far.
    pub made: u64,
    /// Position: all items below are in the recorder's memory.
    pub taken: u64,
    /// Position: all items below are durable.
    pub durable: u64,
    /// Position: all items below were given back.
    pub released: u64,
    /// Bytes that are held.
    pub held_bytes: u64,
    /// Items that were sent more than once.
    pub sent_again: u64,
    /// Fragments that the front-end dropped, by reason: buffer, hardware, busy, other.
    pub abandoned: [u64; 4],
    /// How often there was no room, and the caller did not wait for it.
    pub full: u64,
    /// How long callers waited for room.
    pub waited_ns: u64,
    /// Keys that were refused.
    pub key_refused: u64,
    /// Items that were held when their run ended, and were given up.
    pub held_at_run_end: u64,
    /// How often its session went on after a break.
    pub resumes: u64,
}

/// The end of one source at which items go in. Clones are of the same source; any thread may use
/// any of them.
#[derive(Clone)]
pub struct Source {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub config: SourceConfig,
    /// It is a channel link, whose items are packets: they have no keys.
    is_packets: bool,
    ring: ByteRing,
    entries_max: usize,
    writer: Mutex<Writer>,
    state: Mutex<State>,
}

struct Writer {
    keys: Keys,
    /// Where the next byte goes.
    head: u64,
    /// Position below which bytes are free, and entries that certainly fit, as last looked up.
    freed: u64,
    entries: usize,
}

/// What front-end and session share.
pub(crate) struct State {
    /// Items that are held.
    pub entries: VecDeque<Entry>,
    /// Entries that were given back, and entries that are given back or in messages: the next one
    /// to be sent is at `cursor - popped`.
    pub popped: u64,
    pub cursor: u64,
    /// Position below which bytes are free.
    freed: u64,
    /// Bytes of the longest fragment, as granted.
    pub fragment_bytes_max: u64,
    /// Sequence of the last mark *begin*; all ones: none.
    begin: u64,
    /// That no lower key will follow the items so far.
    pub promise: Option<(u64, Order)>,
    pub is_idle: bool,
    /// Where the last item stands.
    pub order: Order,
    pub ended: Option<Arc<str>>,
    pub status: SourceStatus,
}

/// An item in the log: 64 bytes, a line of cache.
pub(crate) struct Entry {
    pub sequence: u64,
    /// Where its bytes begin. An item without bytes has it too, so that releasing it frees what is
    /// before.
    pub position: u64,
    pub key: u64,
    pub order: u64,
    pub bytes: u32,
    pub numbering: u32,
    pub item: Item,
}

pub(crate) enum Item {
    Fragment { tag: u8, flags: u8, groups: u64 },
    Abandoned { reason: AbandonReason, key_last: Option<u64>, count: u64 },
    Mark(Box<MarkItem>),
}

/// What a mark says beside its sequence.
#[derive(Clone, Debug)]
pub(crate) struct MarkItem {
    pub kind: MarkKind,
    pub key_last: Option<u64>,
    pub run_number: u64,
    pub text: String,
}

const _: () = assert!(size_of::<Entry>() <= 72);

impl Entry {
    /// The sequence behind it.
    pub fn end(&self) -> u64 {
        let count = if let Item::Abandoned { count, .. } = self.item { count } else { 1 };
        self.sequence + count
    }

    pub fn order(&self) -> Order {
        Order { numbering: self.numbering, key: self.order }
    }
}

impl State {
    /// Items so far.
    pub fn made(&self) -> u64 {
        self.status.made
    }

    /// Gives back the items below a position, all of which are at most taken.
    pub fn release(&mut self, position: u64) -> bool {
        let popped = self.popped;
        while let Some(entry) = self.entries.front().filter(|entry| entry.end() <= position) {
            self.freed = entry.position + u64::from(entry.bytes);
            self.status.held_bytes -= u64::from(entry.bytes);
            self.popped += 1;
            self.entries.pop_front();
        }
        self.status.released = self.status.released.max(position);
        self.popped > popped
    }
}

impl Source {
    pub(crate) fn new(mut config: SourceConfig, ring_bytes: u64, is_packets: bool) -> Self {
        if is_packets {
            config.fragment_bytes_max = config.fragment_bytes_max.min(PACKET_BYTES_MAX as u64);
            config.marks = false;
        }
        let entries_max = (ring_bytes / RING_BYTES_PER_ENTRY).clamp(ENTRIES_MIN, ENTRIES_MAX);
        let entries_max = entries_max as usize;
        let keys = Keys::new(&config);
        let entries = entries_max - ENTRIES_FOR_MARKS;
        let writer = Mutex::new(Writer { keys, head: 0, freed: 0, entries });
        let state = Mutex::new(State {
            entries: VecDeque::with_capacity(entries_max),
            popped: 0,
            cursor: 0,
            freed: 0,
            fragment_bytes_max: config.fragment_bytes_max,
            begin: u64::MAX,
            promise: None,
            is_idle: false,
            order: Order::default(),
            ended: None,
            status: SourceStatus::default(),
        });
        let ring = ByteRing::new(ring_bytes as usize);
        Self { shared: Arc::new(Shared { config, is_packets, ring, entries_max, writer, state }) }
    }

    /// What it was made of.
    pub fn config(&self) -> &SourceConfig {
        &self.shared.config
    }

    /// The caller waited so long for room, and was answered [`Push::Full`] so often meanwhile.
    pub fn waited(&self, ns: u64, answers: u64) {
        let status = &mut self.shared.state.lock().status;
        status.full -= answers.min(status.full);
        status.waited_ns += ns;
    }

    /// Appends a fragment: copies its bytes, once.
    ///
    /// # Errors
    /// A key that does not rise, or a fragment that is too long: neither gets a sequence.
    ///
    /// # Panics
    /// A channel link.
    pub fn push(&self, fragment: Fragment<'_>) -> Result<Push, PushError> {
        self.expect_keys();
        self.put(fragment)
    }

    /// Appends a packet of samples (docs/spec/link.md) of a channel link: copies its bytes, once.
    ///
    /// # Errors
    /// A heartbeat, or a packet that is longer than a datagram. Whether it is a good one the
    /// recorder says.
    ///
    /// # Panics
    /// A source of events.
    pub fn push_packet(&self, packet: &[u8]) -> Result<Push, PushError> {
        assert!(self.shared.is_packets, "a source of events has no packets");
        if !Samples::is_item(packet) {
            return Err(PushError::NoSamples);
        }
        self.put(Fragment::new(0, packet))
    }

    fn expect_keys(&self) {
        assert!(!self.shared.is_packets, "a channel link has packets alone, without keys");
    }

    fn put(&self, fragment: Fragment<'_>) -> Result<Push, PushError> {
        let shared = &*self.shared;
        let mut writer = shared.writer.lock();
        let keys = match writer.keys.risen(fragment.key) {
            _ if shared.is_packets => writer.keys.clone(),
            Ok(keys) => keys,
            Err(error) => return Err(self.key_refused(error)),
        };
        let got = fragment.bytes.len() as u64;
        if got > shared.config.fragment_bytes_max {
            return Err(PushError::TooLong { got, max: shared.config.fragment_bytes_max });
        }
        let ring_bytes = shared.ring.bytes() as u64;
        if writer.head + got > writer.freed + ring_bytes || writer.entries == 0 {
            let mut state = shared.state.lock();
            writer.freed = state.freed;
            let room = shared.entries_max - state.entries.len();
            writer.entries = room.saturating_sub(ENTRIES_FOR_MARKS);
            if writer.head + got > writer.freed + ring_bytes || writer.entries == 0 {
                if state.ended.is_some() {
                    return Ok(Push::Ended);
                }
                state.status.full += 1;
                return Ok(Push::Full);
            }
        }
        // SAFETY: these positions are not those of a published entry, so that the session does not
        // read them; and `writer` is locked, so that nobody else writes them.
        unsafe { shared.ring.write(writer.head, fragment.bytes) };
        let mut state = shared.state.lock();
        if state.ended.is_some() {
            return Ok(Push::Ended);
        }
        if got > state.fragment_bytes_max {
            return Err(PushError::TooLong { got, max: state.fragment_bytes_max });
        }
        let Fragment { key, tag, flags, groups, .. } = fragment;
        let groups = if shared.config.is_reference { groups } else { 0 };
        let item = Item::Fragment { tag, flags, groups };
        let order = keys.order();
        if !state.append(writer.head, key, got as u32, order, item) {
            return Ok(Push::Ended);
        }
        writer.head += got;
        writer.entries -= 1;
        writer.keys = keys;
        Ok(Push::Accepted)
    }

    /// Names `count` fragments that were made and dropped before they came into the log, with their
    /// lowest and highest key if they are known. Each takes a sequence, and nothing else.
    ///
    /// # Errors
    /// A range of no items, or of too many; keys that do not rise.
    ///
    /// # Panics
    /// A channel link.
    pub fn abandon(
        &self,
        count: u64,
        reason: AbandonReason,
        keys: Option<(u64, u64)>,
    ) -> Result<Push, PushError> {
        self.expect_keys();
        if !(1..=ABANDONED_MAX).contains(&count) {
            return Err(PushError::Count { got: count });
        }
        let mut writer = self.shared.writer.lock();
        let risen = match keys {
            None => writer.keys.clone(),
            Some((first, last)) => {
                let risen = writer
                    .keys
                    .risen(first)
                    .and_then(|keys| if last == first { Ok(keys) } else { keys.risen(last) });
                risen.map_err(|error| self.key_refused(error))?
            }
        };
        let mut state = self.shared.state.lock();
        let (key, key_last) = (keys.map_or(0, |keys| keys.0), keys.map(|keys| keys.1));
        let position = writer.head;
        let item = Item::Abandoned { reason, key_last, count };
        if state.ended.is_some() {
            return Ok(Push::Ended);
        }
        // A front-end that is full says so again and again: that takes no room.
        if !state.widen(reason, keys, count) {
            if state.entries.len() == self.shared.entries_max {
                state.status.full += 1;
                return Ok(Push::Full);
            }
            if !state.append(position, key, 0, risen.order(), item) {
                return Ok(Push::Ended);
            }
            writer.entries = writer.entries.saturating_sub(1);
        }
        writer.keys = risen;
        let index = match reason {
            AbandonReason::BUFFER => 0,
            AbandonReason::HARDWARE => 1,
            AbandonReason::BUSY => 2,
            _ => 3,
        };
        state.status.abandoned[index] += count;
        Ok(Push::Accepted)
    }

    /// Says that the numbers of this source begin again behind what was pushed, with `key`.
    ///
    /// # Panics
    /// A channel link.
    pub fn renumber(&self, key: u64) -> Push {
        let (kind, key_last, text) = (MarkKind::Numbering, None, String::new());
        self.mark(Some(key), MarkItem { kind, key_last, run_number: 0, text })
    }

    /// Says that a setting has changed before the next fragment.
    ///
    /// # Panics
    /// A name and a value of more than 1,023 bytes together, or with a zero; a channel link.
    pub fn setting(&self, name: &str, value: &str) -> Push {
        let text = format!("{name}={value}");
        assert!(text.len() <= 1_024 && !text.contains('\0'), "a text of a mark");
        let (kind, key_last) = (MarkKind::Setting, None);
        self.mark(None, MarkItem { kind, key_last, run_number: 0, text })
    }

    pub(crate) fn mark(&self, key: Option<u64>, mark: MarkItem) -> Push {
        self.expect_keys();
        let mut writer = self.shared.writer.lock();
        let mut state = self.shared.state.lock();
        if state.ended.is_some() {
            return Push::Ended;
        }
        if state.entries.len() == self.shared.entries_max {
            return Push::Full;
        }
        let kind = mark.kind;
        if kind == MarkKind::Numbering {
            writer.keys.restart();
            // It was of the numbers before.
            state.promise = None;
        }
        let sequence = state.made();
        // A key that is known travels with a flag, which `key_last` stands for.
        let last = if kind == MarkKind::End { writer.keys.last() } else { key.map(|_| 0) };
        let mark = MarkItem { key_last: mark.key_last.or(last), ..mark };
        let (position, order) = (writer.head, writer.keys.order());
        if !state.append(position, key.unwrap_or(0), 0, order, Item::Mark(Box::new(mark))) {
            return Push::Ended;
        }
        writer.entries = writer.entries.saturating_sub(1);
        if kind == MarkKind::Begin {
            state.begin = sequence;
        }
        Push::Accepted
    }

    /// Promises that no fragment with a lower key will follow what was pushed so far, and whether
    /// the source may now be silent for long: events then do not wait for it until its next
    /// fragment. Marks do not change that, but numbers that begin again are others than promised.
    pub fn low_water(&self, key: Option<u64>, is_idle: bool) {
        let writer = self.shared.writer.lock();
        let mut state = self.shared.state.lock();
        state.promise = key.map(|key| (key, writer.keys.order_of(key)));
        state.is_idle = is_idle;
    }

    /// What happened to it so far.
    pub fn status(&self) -> SourceStatus {
        self.shared.state.lock().status
    }

    /// Why it takes nothing any more.
    pub fn end_reason(&self) -> Option<Arc<str>> {
        self.shared.state.lock().ended.clone()
    }

    /// Items that no answer has confirmed: with `release` 2 those that are not taken.
    pub fn unconfirmed(&self) -> u64 {
        let state = self.shared.state.lock();
        state.status.made - state.status.released
    }

    /// From now on it takes nothing.
    pub(crate) fn end(&self, reason: &Arc<str>) {
        self.shared.state.lock().ended.get_or_insert_with(|| Arc::clone(reason));
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }

    /// Bytes of its ring.
    pub(crate) fn ring_bytes(&self) -> u64 {
        self.shared.ring.bytes() as u64
    }

    /// The bytes of a held item.
    ///
    /// # Safety
    /// They are those of published entries, and none of these is released while the slices live.
    pub(crate) unsafe fn bytes(&self, position: u64, bytes: usize) -> (&[u8], &[u8]) {
        // SAFETY: the writer does not touch what is published and not released.
        unsafe { self.shared.ring.slices(position, bytes) }
    }

    /// Whether it is a channel link.
    pub(crate) fn is_packets(&self) -> bool {
        self.shared.is_packets
    }

    /// Its part of the table of logs.
    pub(crate) fn service(&self) -> [u8; SourceLog::BYTES] {
        let config = &self.shared.config;
        let mut service = [0; SourceLog::BYTES];
        if self.shared.is_packets {
            return service;
        }
        let marks = if config.marks { SourceLog::MARKS } else { 0 };
        let reference = if config.is_reference { SourceLog::REFERENCE } else { 0 };
        SourceLog {
            fragment_bytes_max: config.fragment_bytes_max,
            groups: config.groups,
            flags: marks | reference,
            key_kind: config.key_kind,
            key_bits: config.key_bits,
            presence: config.presence,
            dtype: config.dtype,
            begin: self.shared.state.lock().begin,
        }
        .write(&mut service);
        service
    }

    #[cold]
    fn key_refused(&self, error: PushError) -> PushError {
        self.shared.state.lock().status.key_refused += 1;
        error
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = &self.shared.config.name;
        f.debug_struct("Source").field("name", name).field("status", &self.status()).finish()
    }
}

impl State {
    /// Publishes an item. Returns false at the end of all sequences.
    fn append(&mut self, position: u64, key: u64, bytes: u32, order: Order, item: Item) -> bool {
        let Order { numbering, key: order } = order;
        let sequence = self.status.made;
        let entry = Entry { sequence, position, key, order, bytes, numbering, item };
        let end = entry.end();
        if end > SEQUENCE_END {
            return false;
        }
        self.order = entry.order();
        self.status.made = end;
        self.status.held_bytes += u64::from(bytes);
        // A mark, as of a setting that was set from the page, is nothing to wait for.
        self.is_idle &= matches!(entry.item, Item::Mark(_));
        self.entries.push_back(entry);
        true
    }

    /// Adds to the abandoned range at the end, if there is one of this reason that is not sent.
    fn widen(&mut self, why: AbandonReason, keys: Option<(u64, u64)>, more: u64) -> bool {
        if self.popped + self.entries.len() as u64 == self.cursor {
            return false;
        }
        let Some(Entry { item, .. }) = self.entries.back_mut() else { return false };
        let Item::Abandoned { reason, key_last, count } = item else { return false };
        let is_same = *reason == why && key_last.is_some() == keys.is_some();
        if !is_same || *count + more > ABANDONED_MAX || self.status.made + more > SEQUENCE_END {
            return false;
        }
        *count += more;
        *key_last = keys.map(|keys| keys.1);
        self.status.made += more;
        true
    }
}

/// A ring has an entry for each so many bytes, within these bounds.
const RING_BYTES_PER_ENTRY: u64 = 256;
const ENTRIES_MIN: u64 = 4_096;
const ENTRIES_MAX: u64 = 1 << 22;
/// Entries that fragments leave free.
const ENTRIES_FOR_MARKS: usize = 256;
