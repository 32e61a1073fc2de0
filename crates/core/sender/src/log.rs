//! One log as the session sees it: which item is next, what of it goes into a message, and what an
//! answer gives back.

use catchment_wire::channel_link::Samples;
use catchment_wire::event_link::{
    Data, FRAGMENT_RECORD_BYTES_MIN, FragmentRecord, Fragments, Mark, Part,
};
use catchment_wire::session::{Encoder, Fields, HEADER_BYTES, LogPing};

use crate::keys::Order;
use crate::source::{Entry, Item, MarkItem, Source, State};

/// A log of the session: its source, and how far that is sent.
pub(crate) struct Log {
    pub source: Source,
    pub number: u32,
    /// The data connection that carries it.
    pub connection: u16,
    /// Position: all items below were given to a socket, or lie before what the recorder asked for.
    pub sent_to: u64,
    /// Bytes of the next fragment that are in messages: parts of it.
    part: u64,
    /// The recorder has refused it.
    pub is_refused: bool,
    /// Items so far when its run ended in order; those behind belong to no run.
    run_end: u64,
    /// What the last ping said.
    pinged: Option<LogPing>,
    /// What the last heartbeat promised: the key, and whether it is idle.
    promised: (Option<u64>, bool),
}

/// What of a message is not in its head: bytes of the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    /// Header and head.
    pub head_bytes: usize,
    pub position: u64,
    pub body_bytes: usize,
    /// The log, if it carries items of one.
    pub log: Option<u32>,
    /// The log's position when the message is sent.
    pub end: u64,
    pub order: Order,
}

/// Whether it is a log's turn, among those that share a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    /// It has something to send, which stands here.
    Ready(Order),
    /// It has nothing, and brings nothing lower; the highest place of all if nobody waits for it.
    Quiet(Order),
}

/// How far a log may send that shares its connection with others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// Where another log has something to send.
    pub unsent: Order,
    /// What another log may still bring that has nothing to send, and how many bytes may go ahead
    /// of that.
    pub awaited: Order,
    pub ahead_bytes: u64,
}

impl Limit {
    pub const NONE: Self = Self { unsent: Order::MAX, awaited: Order::MAX, ahead_bytes: u64::MAX };

    /// Whether an item may go, which adds up to so many bytes with those before it.
    fn admits(&self, order: Order, bytes: u64) -> bool {
        order <= self.unsent && (order <= self.awaited || bytes <= self.ahead_bytes)
    }
}

impl Outgoing {
    /// All bytes of the message, padding included.
    pub fn bytes(&self) -> usize {
        self.head_bytes + self.body_bytes.next_multiple_of(8)
    }

    /// Its body from `begin` on, as it lies in the ring.
    ///
    /// # Safety
    /// As [`Source::bytes`].
    pub unsafe fn body<'a>(&self, logs: &'a [Log], begin: usize) -> (&'a [u8], &'a [u8]) {
        match self.log {
            Some(log) if self.body_bytes > begin => {
                let position = self.position + begin as u64;
                // SAFETY: as the caller promises.
                unsafe { logs[log as usize].source.bytes(position, self.body_bytes - begin) }
            }
            _ => Default::default(),
        }
    }
}

impl Log {
    pub fn new(source: Source, number: u32, connection: u16) -> Self {
        let (sent_to, part, is_refused) = (0, 0, false);
        let (run_end, pinged, promised) = (u64::MAX, None, (None, false));
        Self { source, number, connection, sent_to, part, is_refused, run_end, pinged, promised }
    }

    /// Its run has ended in order.
    pub fn run_ends(&mut self) {
        self.run_end = self.source.state().made();
    }

    /// Another run is prepared: what it holds is its own.
    pub fn run_begins(&mut self) {
        self.run_end = u64::MAX;
    }

    /// Whether it holds items of the run that it was in.
    pub fn holds_run(&self) -> bool {
        let (first, made) = self.held();
        first < made.min(self.run_end)
    }

    /// Takes over the longest fragment that is granted.
    pub fn grant(&mut self, fragment_bytes_max: u64) {
        self.run_begins();
        let asked = self.source.config().fragment_bytes_max;
        let granted = if fragment_bytes_max == 0 { asked } else { fragment_bytes_max };
        self.source.state().fragment_bytes_max = asked.min(granted);
    }

    /// The lowest sequence that is held, and all items so far.
    pub fn held(&self) -> (u64, u64) {
        let state = self.source.state();
        (state.status.released, state.made())
    }

    /// Where its next unsent item stands, or what it may still bring.
    pub fn turn(&self) -> Turn {
        let state = self.source.state();
        match unsent(&state).next() {
            _ if self.is_refused => Turn::Quiet(Order::MAX),
            Some(entry) => Turn::Ready(entry.order()),
            None if state.is_idle || state.ended.is_some() => Turn::Quiet(Order::MAX),
            None => {
                let promise = state.promise.map_or(state.order, |(_, order)| order);
                Turn::Quiet(promise.max(state.order))
            }
        }
    }

    /// Whether a fragment is in messages in part.
    pub fn is_within(&self) -> bool {
        self.part > 0
    }

    /// Takes note that of a message's body in the ring, so many bytes were given to a socket: the
    /// recorder may take the first of its items already.
    pub fn sent_within(&mut self, message: &Outgoing, bytes: usize) {
        let state = self.source.state();
        let end = message.position + bytes as u64;
        let is_sent = |entry: &Entry| {
            entry.end() <= message.end && entry.position + u64::from(entry.bytes) <= end
        };
        let count = state.entries.partition_point(is_sent);
        if let Some(last) = count.checked_sub(1).and_then(|last| state.entries.get(last)) {
            self.sent_to = self.sent_to.max(last.end());
        }
    }

    /// Goes on with the item at `next`, of which nothing is sent.
    pub fn resume(&mut self, next: u64) {
        let mut state = self.source.state();
        let index = state.entries.partition_point(|entry| entry.end() <= next);
        let again = state.popped + index as u64;
        state.status.sent_again += state.cursor.saturating_sub(again);
        state.cursor = again;
        drop(state);
        (self.sent_to, self.part) = (next, 0);
        (self.pinged, self.promised) = (None, (None, false));
    }

    /// Takes over positions, and gives back what is below `release`. Returns whether there is more
    /// room.
    pub fn settle(&mut self, taken: u64, durable: u64, is_released_taken: bool) -> bool {
        let mut state = self.source.state();
        state.status.taken = state.status.taken.max(taken);
        state.status.durable = state.status.durable.max(durable);
        let position = if is_released_taken { state.status.taken } else { state.status.durable };
        state.release(position)
    }

    /// Gives up everything below `next`, since its run has ended; `durable` is how far its files
    /// have it. Returns how many items are lost to the run.
    pub fn give_up(&mut self, next: u64, durable: u64) -> u64 {
        let mut state = self.source.state();
        let confirmed = durable.max(state.status.released).min(next);
        let held = next - confirmed;
        state.status.held_at_run_end += held;
        state.status.durable = state.status.durable.max(durable);
        state.release(next);
        held
    }

    /// Puts the next message of its items into `head`; the body stays in the ring.
    pub fn compose(
        &mut self,
        number: u32,
        message_bytes_max: usize,
        limit: &Limit,
        head: &mut [u8],
    ) -> Option<Outgoing> {
        if self.is_refused {
            return None;
        }
        let record_bytes = match self.source.config().is_reference {
            true => FragmentRecord::BYTES,
            false => FRAGMENT_RECORD_BYTES_MIN,
        };
        let mut state = self.source.state();
        let first = unsent(&state).next()?;
        if !limit.admits(first.order(), (record_bytes + first.bytes as usize) as u64) {
            return None;
        }
        let (log, position) = (self.number, first.position);
        let (count, composed) = match &first.item {
            _ if self.source.is_packets() => (1, packet((head, number), log, first)),
            Item::Fragment { tag, flags, groups } => {
                let bytes = first.bytes as usize;
                let is_short = FRAGMENTS_BYTES + record_bytes + bytes.next_multiple_of(8)
                    <= message_bytes_max
                    && bytes <= PARTS_FROM_BYTES;
                if is_short {
                    let mut encoder =
                        Encoder::begin(head, number, &Fragments { log, sequence: first.sequence });
                    // Of short ones a recorder takes a message when it is whole.
                    let is_long = bytes >= LONG_BYTES;
                    let most = if is_long { usize::MAX } else { SHORT_MESSAGE_BYTES };
                    let room = message_bytes_max.min(most) - FRAGMENTS_BYTES;
                    fill(&state, &mut encoder, record_bytes, room, limit)
                        .finish(encoder, log, position)
                } else {
                    let part = Part {
                        log,
                        tag: *tag,
                        flags: *flags,
                        sequence: first.sequence,
                        key: first.key,
                        groups: *groups,
                        position: self.part,
                        fragment_bytes: bytes as u64,
                    };
                    let left = bytes - self.part as usize;
                    let body_bytes = left.min(part_bytes(message_bytes_max));
                    let is_last = body_bytes == left;
                    let encoder = Encoder::begin(head, number, &part);
                    let outgoing = Outgoing {
                        head_bytes: encoder.finish_head("", body_bytes as u32),
                        position: position + self.part,
                        body_bytes,
                        log: Some(log),
                        end: first.sequence + u64::from(is_last),
                        order: first.order(),
                    };
                    self.part = if is_last { 0 } else { self.part + body_bytes as u64 };
                    (u64::from(is_last), outgoing)
                }
            }
            item => {
                let (mark, text) = mark(item, first, log);
                let head_bytes = Data::Mark(mark, text).encode(number, head);
                let (end, order) = (first.end(), first.order());
                (1, Outgoing { head_bytes, position, body_bytes: 0, log: Some(log), end, order })
            }
        };
        state.cursor += count;
        Some(composed)
    }

    /// What a ping says of it, if that has changed.
    pub fn ping(&mut self) -> Option<LogPing> {
        let state = self.source.state();
        let all_sent = unsent(&state).next().is_none();
        let is_full = state.status.held_bytes + state.fragment_bytes_max > self.source.ring_bytes();
        let flags =
            (u32::from(is_full) * LogPing::FULL) | (u32::from(all_sent) * LogPing::ALL_SENT);
        let (made, held_bytes) = (state.made(), state.status.held_bytes);
        let ping = LogPing { log: self.number, flags, made, held_bytes };
        (self.pinged.replace(ping) != Some(ping)).then_some(ping)
    }

    /// The sequence behind all items, the promise and whether it is idle, if nothing is unsent.
    /// `is_new`: only if that was not promised yet.
    pub fn promise(&mut self, is_new: bool) -> Option<(u64, Option<u64>, bool)> {
        let state = self.source.state();
        let promise = (state.promise.map(|(key, _)| key), state.is_idle);
        if self.is_refused
            || unsent(&state).next().is_some()
            || (is_new && promise == self.promised)
        {
            return None;
        }
        self.promised = promise;
        Some((state.made(), promise.0, promise.1))
    }

    /// Whether [`promise`](Self::promise) has something new.
    pub fn has_promise(&self) -> bool {
        let state = self.source.state();
        let promise = (state.promise.map(|(key, _)| key), state.is_idle);
        !self.is_refused && unsent(&state).next().is_none() && promise != self.promised
    }
}

/// Items that are in no message.
fn unsent(state: &State) -> impl Iterator<Item = &Entry> {
    state.entries.range((state.cursor - state.popped) as usize..)
}

/// Fragments of a message so far.
#[derive(Default)]
struct Filled {
    count: u64,
    bytes: usize,
    end: u64,
    order: Order,
}

impl Filled {
    fn finish(self, encoder: Encoder<'_>, log: u32, position: u64) -> (u64, Outgoing) {
        let Self { count, bytes: body_bytes, end, order } = self;
        let head_bytes = encoder.finish_head("", body_bytes as u32);
        (count, Outgoing { head_bytes, position, body_bytes, log: Some(log), end, order })
    }
}

/// Puts the next message of a channel link's log into `head`: a packet.
fn packet((head, number): (&mut [u8], u32), log: u32, first: &Entry) -> Outgoing {
    let samples = Samples { log, sequence: first.sequence };
    Outgoing {
        head_bytes: Encoder::begin(head, number, &samples).finish_head("", first.bytes),
        position: first.position,
        body_bytes: first.bytes as usize,
        log: Some(log),
        end: first.end(),
        order: first.order(),
    }
}

/// Adds records of fragments while they are consecutive and fit.
fn fill(
    state: &State,
    encoder: &mut Encoder<'_>,
    record_bytes: usize,
    room: usize,
    limit: &Limit,
) -> Filled {
    let mut filled = Filled::default();
    for entry in unsent(state) {
        let Item::Fragment { tag, flags, groups } = entry.item else { break };
        let bytes = filled.bytes + entry.bytes as usize;
        let head_bytes = (filled.count as usize + 1) * record_bytes;
        let record = FragmentRecord { key: entry.key, bytes: entry.bytes, tag, flags, groups };
        if head_bytes + bytes.next_multiple_of(8) > room
            || entry.bytes as usize > PARTS_FROM_BYTES
            || !limit.admits(entry.order(), (head_bytes + bytes) as u64)
            || !encoder.push_short(&record, record_bytes)
        {
            break;
        }
        let count = filled.count + 1;
        filled = Filled { count, bytes, end: entry.end(), order: entry.order() };
    }
    filled
}

fn mark<'a>(item: &'a Item, entry: &Entry, log: u32) -> (Mark, &'a str) {
    let &Entry { sequence, key, .. } = entry;
    let flags = |key_last: Option<u64>| if key_last.is_some() { Mark::KEYS } else { 0 };
    let none = catchment_wire::event_link::AbandonReason(0);
    match item {
        Item::Mark(mark) => {
            let MarkItem { kind, key_last, run_number, text } = &**mark;
            let flags = flags(*key_last);
            let (kind, key_last, run_number) = (*kind, key_last.unwrap_or(0), *run_number);
            let (reason, count) = (none, 1);
            (Mark { log, kind, reason, sequence, count, key, key_last, flags, run_number }, text)
        }
        &Item::Abandoned { reason, key_last, count } => {
            let kind = catchment_wire::event_link::MarkKind::Abandoned;
            let (flags, key_last) = (flags(key_last), key_last.unwrap_or(0));
            let run_number = 0;
            (Mark { log, kind, reason, sequence, count, key, key_last, flags, run_number }, "")
        }
        Item::Fragment { .. } => unreachable!("a fragment is no mark"),
    }
}

/// Bytes of a part's body: as many as fit, and a multiple of a page.
fn part_bytes(message_bytes_max: usize) -> usize {
    (message_bytes_max - HEADER_BYTES - Part::BYTES) / PAGE_BYTES * PAGE_BYTES
}

/// A message of fragments without its records and its body.
const FRAGMENTS_BYTES: usize = HEADER_BYTES + Fragments::BYTES;
/// Fragments from that length on fill messages as long as the recorder takes, and shorter ones at
/// most so many bytes.
const LONG_BYTES: usize = 64 << 10;
const SHORT_MESSAGE_BYTES: usize = 131_064;
/// Longer fragments go in parts.
const PARTS_FROM_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4_096;
