//! A data connection: what its socket gets next. Sources that share one take turns in the order of
//! their keys, often with a fragment each, so their messages go in batches of one write.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use catchment_wire::channel_link::Samples;
use catchment_wire::event_link::{FragmentRecord, Heartbeat, Heartbeats};
use catchment_wire::session::{
    Attach, Encoder, Fields, HEADER_BYTES, Preamble, RECORDS_MAX, TEXT_BYTES_MAX,
};

use crate::keys::Order;
use crate::log::{Limit, Log, Outgoing, Turn};
use crate::opening::Agreed;
use crate::session::Slices;

/// A data connection, or what it will be.
pub(crate) struct DataConnection {
    pub is_open: bool,
    /// The logs that it carries, by their numbers.
    logs: Vec<u32>,
    /// Whether they are channel links.
    is_packets: bool,
    line: Line,
    batch: Batch,
    /// Messages so far.
    number: u32,
    /// Bytes that the socket took, and that the recorder has read, as last heard.
    bytes: u64,
    received: u64,
    /// For how long the recorder has read nothing, though there was something.
    stalled_ns: u64,
    /// When the last message was begun, and the last promises made.
    message_ns: u64,
    promises_ns: u64,
    skew: Skew,
}

impl DataConnection {
    pub fn new(logs: Vec<u32>, is_packets: bool) -> Self {
        Self {
            is_open: false,
            line: Line::new(&logs),
            // Each packet is a message.
            batch: Batch::new(logs.len() > 1 || is_packets),
            is_packets,
            logs,
            number: 0,
            bytes: 0,
            received: 0,
            stalled_ns: 0,
            message_ns: 0,
            promises_ns: 0,
            skew: Skew::default(),
        }
    }

    /// The socket is gone, or not there yet: what was not sent is not.
    pub fn reset(&mut self) {
        (self.is_open, self.number) = (false, 0);
        (self.bytes, self.received, self.stalled_ns) = (0, 0, 0);
        (self.message_ns, self.promises_ns) = (0, 0);
        self.batch.clear();
        self.line = Line::new(&self.logs);
        self.skew = Skew::default();
    }

    /// The socket is there: preamble and attach are its first message.
    pub fn open(&mut self, now_ns: u64, preamble: &Preamble, attach: &Attach) {
        self.is_open = true;
        self.message_ns = now_ns;
        let room = self.batch.room();
        room[..Preamble::BYTES].copy_from_slice(&preamble.encode());
        let attach = Encoder::begin(&mut room[Preamble::BYTES..], 0, attach).finish("", &[]);
        self.batch.add(bodiless(Preamble::BYTES + attach), &[]);
        self.number = 1;
    }

    /// Makes the next messages, unless some are under way.
    pub fn compose(&mut self, now_ns: u64, logs: &mut [Log], agreed: &Agreed) {
        if !self.is_open || !self.batch.is_sent() {
            return;
        }
        let before = self.number;
        if now_ns.saturating_sub(self.promises_ns) >= PROMISES_NS && self.has_promise(logs) {
            self.promises_ns = now_ns;
            self.heartbeat(logs, true);
        } else {
            self.line.up(logs);
            let takes_more = |batch: &Batch| !agreed.is_paused && batch.takes_more();
            while takes_more(&self.batch) && self.compose_items(logs, agreed) {}
            if self.number == before && now_ns.saturating_sub(self.message_ns) >= agreed.ping_ns {
                self.heartbeat(logs, false);
            }
        }
        if self.number != before {
            self.message_ns = now_ns;
        }
    }

    /// Adds the message of the log whose turn it is. Returns whether there was one.
    fn compose_items(&mut self, logs: &mut [Log], agreed: &Agreed) -> bool {
        let is_shared = self.logs.len() > 1;
        let Some(log) = self.line.step_out() else { return false };
        let limit = match is_shared && !self.is_packets && !logs[log as usize].is_within() {
            true => self.line.limit(&self.skew, agreed.skew_bytes),
            false => Limit::NONE,
        };
        let max = agreed.message_bytes_max;
        let message = logs[log as usize].compose(self.number, max, &limit, self.batch.room());
        self.line.step_in(log, &logs[log as usize]);
        let Some(message) = message else { return false };
        self.batch.add(message, logs);
        self.number = self.number.wrapping_add(1);
        if is_shared {
            self.skew.add(&message, agreed.skew_bytes);
        }
        true
    }

    /// What the socket has to take next.
    pub fn slices<'a>(&'a self, logs: &'a [Log]) -> Slices<'a> {
        self.batch.slices(logs)
    }

    /// Takes note of what the socket took.
    ///
    /// # Panics
    /// More than it was given.
    pub fn sent(&mut self, bytes: usize, logs: &mut [Log]) {
        self.bytes += bytes as u64;
        self.batch.sent(bytes, logs);
    }

    /// Takes note of what the socket has taken of the message under way.
    pub fn sent_within(&self, logs: &mut [Log]) {
        if let Some((message, bytes)) = self.batch.last_sent()
            && let Some(log) = message.log
        {
            logs[log as usize].sent_within(message, bytes);
        }
    }

    /// Takes note of what the recorder has read.
    pub fn heard(&mut self, received: u64, is_unread: bool) {
        if received != self.received || is_unread {
            self.stalled_ns = 0;
        }
        self.received = received;
    }

    /// Adds time in which the session polled. Returns how long the recorder has read nothing.
    pub fn stalled(&mut self, polled_ns: u64) -> u64 {
        let waits = self.is_open && self.bytes > self.received;
        self.stalled_ns = if waits { self.stalled_ns + polled_ns } else { 0 };
        self.stalled_ns
    }

    /// When it has to be looked at again although nothing comes.
    pub fn wake_at_ns(&self, logs: &[Log], agreed: &Agreed) -> u64 {
        if !self.is_open || !self.batch.is_sent() {
            return u64::MAX;
        }
        let promises =
            if self.has_promise(logs) { self.promises_ns + PROMISES_NS } else { u64::MAX };
        promises.min(self.message_ns + agreed.ping_ns)
    }

    fn has_promise(&self, logs: &[Log]) -> bool {
        self.logs.iter().any(|&log| logs[log as usize].has_promise())
    }

    /// Adds a heartbeat with what logs promise, of those that have sent everything.
    fn heartbeat(&mut self, logs: &mut [Log], is_new: bool) {
        if self.is_packets {
            return self.signs_of_life(logs);
        }
        let mut encoder = Encoder::begin(self.batch.room(), self.number, &Heartbeats {});
        for &log in self.logs.iter().take(RECORDS_MAX as usize) {
            let Some((sequence, key, is_idle)) = logs[log as usize].promise(is_new) else {
                continue;
            };
            let idle = if is_idle { Heartbeat::IDLE } else { 0 };
            let known = if key.is_some() { Heartbeat::LOW_WATER } else { 0 };
            let (flags, low_water) = (idle | known, key.unwrap_or(0));
            let has_room = encoder.push(&Heartbeat { log, flags, sequence, low_water });
            assert!(has_room, "the head has room for all logs");
        }
        let message = bodiless(encoder.finish_head("", 0));
        self.batch.add(message, logs);
        self.number = self.number.wrapping_add(1);
    }
}

impl DataConnection {
    /// Adds a message without a packet for each channel link that has sent everything.
    fn signs_of_life(&mut self, logs: &mut [Log]) {
        for &log in &self.logs {
            let Some((sequence, ..)) = logs[log as usize].promise(false) else { continue };
            if self.batch.room().len() < ROOM_BYTES_MIN {
                break;
            }
            let samples = Samples { log, sequence };
            let bytes = Encoder::begin(self.batch.room(), self.number, &samples).finish("", &[]);
            self.batch.add(bodiless(bytes), logs);
            self.number = self.number.wrapping_add(1);
        }
    }
}

fn bodiless(head_bytes: usize) -> Outgoing {
    let order = Order::default();
    Outgoing { head_bytes, position: 0, body_bytes: 0, log: None, end: 0, order }
}

/// Messages that go in one write.
struct Batch {
    /// Heads, and bodies that are short.
    buffer: Box<[u8]>,
    filled: usize,
    /// The last message, if its body is in a ring.
    last: Option<Outgoing>,
    /// Bytes that the socket took.
    done: usize,
    /// Where messages of logs end: the byte of the batch, the log, and its position then.
    ends: VecDeque<(usize, u32, u64)>,
    /// Its logs take turns: short bodies are copied behind their heads.
    is_shared: bool,
}

impl Batch {
    fn new(is_shared: bool) -> Self {
        Self {
            buffer: vec![0; HEAD_BYTES_MAX].into_boxed_slice(),
            filled: 0,
            last: None,
            done: 0,
            ends: VecDeque::with_capacity(if is_shared { MESSAGES_MAX } else { 1 }),
            is_shared,
        }
    }

    fn clear(&mut self) {
        (self.filled, self.last, self.done) = (0, None, 0);
        self.ends.clear();
    }

    fn is_sent(&self) -> bool {
        self.filled == 0
    }

    /// Whether another message of a log may follow.
    fn takes_more(&self) -> bool {
        let has_room = self.buffer.len() - self.filled >= ROOM_BYTES_MIN;
        let is_first = self.filled == 0;
        self.last.is_none() && (is_first || has_room && self.ends.len() < MESSAGES_MAX)
    }

    /// Where the head of the next message goes.
    fn room(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }

    /// Takes a message whose head is in [`room`](Self::room).
    fn add(&mut self, message: Outgoing, logs: &[Log]) {
        let begin = self.filled;
        self.filled += message.head_bytes;
        let padded = message.bytes() - message.head_bytes;
        if let Some(log) = message.log {
            self.ends.push_back((begin + message.bytes(), log, message.end));
            let has_room = self.buffer.len() - self.filled >= padded;
            if self.is_shared && message.body_bytes <= COPIED_BYTES_MAX && has_room {
                let body = &mut self.buffer[self.filled..self.filled + padded];
                // SAFETY: as in `slices`.
                let (first, second) = unsafe { message.body(logs, 0) };
                body[..first.len()].copy_from_slice(first);
                body[first.len()..message.body_bytes].copy_from_slice(second);
                body[message.body_bytes..].fill(0);
                self.filled += padded;
            } else {
                self.last = Some(message);
            }
        }
    }

    fn slices<'a>(&'a self, logs: &'a [Log]) -> Slices<'a> {
        let head = self.buffer[..self.filled].get(self.done..).unwrap_or_default();
        let Some(message) = &self.last else { return Slices([head, &[], &[], &[]]) };
        let done = self.done.saturating_sub(self.filled);
        // SAFETY: items that are not sent are not released: `settle` is given positions of at most
        // `sent_to`, and with `resume` the batch is gone. Of a message whose first items are
        // released, their bytes are before `done`.
        let (first, second) = unsafe { message.body(logs, done.min(message.body_bytes)) };
        let padding = message.bytes() - message.head_bytes - done.max(message.body_bytes);
        Slices([head, first, second, &[0; 8][..padding]])
    }

    /// The message whose body is in a ring, and how many bytes of that body the socket took.
    fn last_sent(&self) -> Option<(&Outgoing, usize)> {
        let message = self.last.as_ref().filter(|_| self.done >= self.filled)?;
        Some((message, message.body_bytes.min(self.done - self.filled)))
    }

    fn sent(&mut self, bytes: usize, logs: &mut [Log]) {
        self.done += bytes;
        let in_ring = self.last.map_or(0, |message| message.bytes() - message.head_bytes);
        assert!(self.done <= self.filled + in_ring, "no more is sent than there is");
        while let Some(&(_, log, end)) = self.ends.front().filter(|end| end.0 <= self.done) {
            logs[log as usize].sent_to = end;
            self.ends.pop_front();
        }
        if self.done == self.filled + in_ring {
            self.clear();
        }
    }
}

/// Whose turn it is: the log whose next item stands lowest.
struct Line {
    /// Those that have something to send, lowest first.
    ready: BinaryHeap<Reverse<(Order, u32)>>,
    /// Those that had nothing when they were last looked at, and the lowest of what they may bring.
    quiet: Vec<(u32, Order)>,
    /// The lowest of all that.
    awaited: Order,
    /// One of which a fragment is sent in part.
    within: Option<u32>,
}

impl Line {
    fn new(logs: &[u32]) -> Self {
        let mut quiet = Vec::with_capacity(logs.len());
        quiet.extend(logs.iter().map(|log| (*log, Order::default())));
        let (ready, awaited) = (BinaryHeap::with_capacity(logs.len()), Order::default());
        Self { ready, quiet, awaited, within: None }
    }

    /// Looks at those that were quiet.
    fn up(&mut self, logs: &[Log]) {
        let Self { ready, quiet, awaited, .. } = self;
        *awaited = Order::MAX;
        quiet.retain_mut(|(log, lowest)| match logs[*log as usize].turn() {
            Turn::Ready(order) => {
                ready.push(Reverse((order, *log)));
                false
            }
            Turn::Quiet(order) => {
                (*lowest, *awaited) = (order, order.min(*awaited));
                true
            }
        });
    }

    /// Takes out the log whose turn it is.
    fn step_out(&mut self) -> Option<u32> {
        self.within.take().or_else(|| self.ready.pop().map(|Reverse((_, log))| log))
    }

    /// How far that log may send: no other one that is waited for may still bring something lower,
    /// but for the skew.
    fn limit(&self, skew: &Skew, skew_bytes: u64) -> Limit {
        let unsent = self.ready.peek().map_or(Order::MAX, |Reverse((order, _))| *order);
        let is_awaited = self.awaited != Order::MAX;
        let ahead_bytes = if is_awaited { skew.ahead_bytes(self.awaited) } else { 0 };
        let ahead_bytes = skew_bytes.saturating_sub(ahead_bytes);
        Limit { unsent, awaited: self.awaited, ahead_bytes }
    }

    /// Puts it back.
    fn step_in(&mut self, log: u32, state: &Log) {
        if state.is_within() {
            self.within = Some(log);
            return;
        }
        match state.turn() {
            Turn::Ready(order) => self.ready.push(Reverse((order, log))),
            Turn::Quiet(order) => {
                self.quiet.push((log, order));
                self.awaited = order.min(self.awaited);
            }
        }
    }
}

/// How far the items of a connection that several logs share are out of order: the highest place
/// so far, and since how many bytes. Neighbours are joined, to the cautious side.
#[derive(Default)]
struct Skew {
    bytes: u64,
    /// A place, and the bytes before the first item that may stand higher than the one before.
    samples: VecDeque<(Order, u64)>,
}

impl Skew {
    fn add(&mut self, message: &Outgoing, skew_bytes: u64) {
        let begin = self.bytes;
        self.bytes += message.bytes() as u64;
        match self.samples.back_mut() {
            Some((highest, _)) if *highest >= message.order => {}
            Some((highest, since)) if begin - *since < skew_bytes / SAMPLES_OF_SKEW => {
                *highest = message.order;
            }
            _ => {
                if self.samples.len() as u64 == 2 * SAMPLES_OF_SKEW {
                    self.samples.pop_front();
                }
                self.samples.push_back((message.order, begin));
            }
        }
    }

    /// Bytes since the first item above a place.
    fn ahead_bytes(&self, place: Order) -> u64 {
        let first = self.samples.partition_point(|(order, _)| *order <= place);
        self.samples.get(first).map_or(0, |(_, begin)| self.bytes - begin)
    }
}

/// How fine a skew is measured.
const SAMPLES_OF_SKEW: u64 = 32;
/// Promises are made at most so often.
const PROMISES_NS: u64 = 10_000_000;
/// The longest head: as many fragments as a message may have, or the text of a mark.
const HEAD_BYTES_MAX: usize =
    HEADER_BYTES + 64 + RECORDS_MAX as usize * FragmentRecord::BYTES + TEXT_BYTES_MAX;
/// Bodies up to this length are copied where logs take turns: a write of many messages costs less
/// than one write for each.
const COPIED_BYTES_MAX: usize = 4_096;
/// Messages of a batch, and the room that any message but a heartbeat can begin in.
const MESSAGES_MAX: usize = 1_024;
const ROOM_BYTES_MIN: usize = HEADER_BYTES + 64 + TEXT_BYTES_MAX;
