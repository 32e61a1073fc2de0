//! A data connection: one message at a time, of the source whose turn it is.

use std::collections::VecDeque;

use catchment_wire::event_link::{FragmentRecord, Heartbeat, Heartbeats};
use catchment_wire::session::{
    Attach, Encoder, Fields, HEADER_BYTES, Preamble, RECORDS_MAX, TEXT_BYTES_MAX,
};

use crate::keys::Order;
use crate::log::{Limit, Log, Outgoing};
use crate::opening::Agreed;
use crate::session::Slices;

/// A data connection, or what it will be.
pub(crate) struct DataConnection {
    pub is_open: bool,
    /// The logs that it carries, by their numbers.
    logs: Vec<u32>,
    /// Header and head of the message that is being sent.
    head: Box<[u8]>,
    message: Option<Outgoing>,
    /// Bytes of that message that the socket took.
    done: usize,
    /// Messages before.
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
    pub fn new(logs: Vec<u32>) -> Self {
        Self {
            is_open: false,
            logs,
            head: vec![0; HEAD_BYTES_MAX].into_boxed_slice(),
            message: None,
            done: 0,
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
        (self.is_open, self.message, self.done, self.number) = (false, None, 0, 0);
        (self.bytes, self.received, self.stalled_ns) = (0, 0, 0);
        (self.message_ns, self.promises_ns) = (0, 0);
        self.skew = Skew::default();
    }

    /// The socket is there: preamble and attach are its first message.
    pub fn open(&mut self, now_ns: u64, preamble: &Preamble, attach: &Attach) {
        self.is_open = true;
        self.message_ns = now_ns;
        self.head[..Preamble::BYTES].copy_from_slice(&preamble.encode());
        let attach = Encoder::begin(&mut self.head[Preamble::BYTES..], 0, attach).finish("", &[]);
        self.message = Some(bodiless(Preamble::BYTES + attach));
        self.number = 1;
    }

    /// Makes the next message, unless one is under way.
    pub fn compose(&mut self, now_ns: u64, logs: &mut [Log], agreed: &Agreed) {
        if !self.is_open || self.message.is_some() {
            return;
        }
        let is_due = now_ns.saturating_sub(self.message_ns) >= agreed.ping_ns;
        let may_promise = now_ns.saturating_sub(self.promises_ns) >= PROMISES_NS;
        self.message = if may_promise && self.has_promise(logs) {
            self.promises_ns = now_ns;
            Some(self.heartbeat(logs, true))
        } else {
            let max = agreed.message_bytes_max;
            let next = self.next_log(logs, agreed.skew_bytes);
            let items = next.and_then(|(log, limit)| {
                logs[log as usize].compose(self.number, max, &limit, &mut self.head)
            });
            items.or_else(|| is_due.then(|| self.heartbeat(logs, false)))
        };
        if let Some(message) = &self.message {
            self.message_ns = now_ns;
            self.number = self.number.wrapping_add(1);
            if self.logs.len() > 1 && message.log.is_some() {
                self.skew.add(message, agreed.skew_bytes);
            }
        }
    }

    /// What the socket has to take next.
    pub fn slices<'a>(&'a self, logs: &'a [Log]) -> Slices<'a> {
        let Some(message) = &self.message else { return Slices::default() };
        let head = self.head.get(self.done..message.head_bytes).unwrap_or_default();
        let body_done = self.done.saturating_sub(message.head_bytes).min(message.body_bytes);
        let (first, second) = match message.log {
            Some(log) if message.body_bytes > body_done => {
                let position = message.position + body_done as u64;
                // SAFETY: the items of a message that is not sent are not released: `settle` is
                // given positions of at most `sent_to`, and with `resume` the message is gone.
                unsafe { logs[log as usize].source.bytes(position, message.body_bytes - body_done) }
            }
            _ => Default::default(),
        };
        let left = message.bytes() - self.done.max(message.head_bytes + message.body_bytes);
        Slices([head, first, second, &[0; 8][..left]])
    }

    /// Takes note of what the socket took.
    ///
    /// # Panics
    /// More than it was given.
    pub fn sent(&mut self, bytes: usize, logs: &mut [Log]) {
        let Some(message) = self.message else {
            assert!(bytes == 0, "no more is sent than there is");
            return;
        };
        self.done += bytes;
        self.bytes += bytes as u64;
        assert!(self.done <= message.bytes(), "no more is sent than there is");
        if self.done == message.bytes() {
            if let Some(log) = message.log {
                logs[log as usize].sent_to = message.end;
            }
            (self.message, self.done) = (None, 0);
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
        if !self.is_open || self.message.is_some() {
            return u64::MAX;
        }
        let promises =
            if self.has_promise(logs) { self.promises_ns + PROMISES_NS } else { u64::MAX };
        promises.min(self.message_ns + agreed.ping_ns)
    }

    fn has_promise(&self, logs: &[Log]) -> bool {
        self.logs.iter().any(|&log| logs[log as usize].has_promise())
    }

    /// The log that sends next, and how far: what it has is lowest, and no other log that is waited
    /// for may still bring something lower, but for the skew.
    fn next_log(&self, logs: &[Log], skew_bytes: u64) -> Option<(u32, Limit)> {
        let of = |log: &u32| &logs[*log as usize];
        if let [only] = self.logs[..] {
            return of(&only).next_order().map(|_| (only, Limit::NONE));
        }
        if let Some(within) = self.logs.iter().find(|log| of(log).is_within()) {
            return Some((*within, Limit::NONE));
        }
        let unsent = self.logs.iter().filter_map(|log| Some((of(log).next_order()?, *log)));
        let (_, log) = unsent.clone().min()?;
        let others = unsent.filter(|(_, other)| *other != log).map(|(order, _)| order);
        let awaited = self.logs.iter().filter_map(|log| of(log).awaited()).min();
        let ahead_bytes = awaited.map_or(0, |awaited| self.skew.ahead_bytes(awaited));
        let limit = Limit {
            unsent: others.min().unwrap_or(Order::MAX),
            awaited: awaited.unwrap_or(Order::MAX),
            ahead_bytes: skew_bytes.saturating_sub(ahead_bytes),
        };
        Some((log, limit))
    }

    /// A heartbeat with what logs promise, of those that have sent everything.
    fn heartbeat(&mut self, logs: &mut [Log], is_new: bool) -> Outgoing {
        let mut encoder = Encoder::begin(&mut self.head, self.number, &Heartbeats {});
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
        bodiless(encoder.finish_head("", 0))
    }
}

fn bodiless(head_bytes: usize) -> Outgoing {
    let order = Order::default();
    Outgoing { head_bytes, position: 0, body_bytes: 0, log: None, end: 0, order }
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
