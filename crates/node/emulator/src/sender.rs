//! The sending agent: sends what is due, tick by tick.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use catchment_agent::{Agent, Work};
use catchment_net::Sent;

use crate::pace::Pace;
use crate::report::EmulatorLive;

/// What a sender sends: events of sources, or packets of links.
pub(crate) trait Traffic: Send {
    /// Makes and sends the next `due`, that long after the start. Returns the number of completed
    /// events, or slices.
    fn send(&mut self, due: u64, elapsed_ns: u64) -> u64;

    /// Sends the rest of what has begun; returns as [`Traffic::send`].
    fn finish(&mut self) -> u64;

    /// What it has sent since the last call.
    fn take_sent(&mut self) -> Sent;
}

/// Sends until its schedule ends or it is told to stop.
pub(crate) struct Sender<'a, T> {
    pub(crate) traffic: T,
    pub(crate) events: u64,
    /// Packets that the system refused.
    pub(crate) refused: u64,
    pace: Pace,
    started_ns: Option<u64>,
    stop: &'a AtomicBool,
    live: &'a EmulatorLive,
}

impl<'a, T: Traffic> Sender<'a, T> {
    pub(crate) fn new(
        traffic: T,
        pace: Pace,
        stop: &'a AtomicBool,
        live: &'a EmulatorLive,
    ) -> Self {
        Self { traffic, events: 0, refused: 0, pace, started_ns: None, stop, live }
    }

    fn count(&mut self, events: u64) {
        let sent = self.traffic.take_sent();
        self.events += events;
        self.refused += sent.refused;
        self.live.add(events, sent.datagrams, sent.bytes, sent.refused);
    }
}

impl<T: Traffic> Agent for Sender<'_, T> {
    fn work(&mut self, now_ns: u64) -> Work {
        let started_ns = *self.started_ns.get_or_insert(now_ns);
        let elapsed_ns = now_ns.saturating_sub(started_ns);
        let elapsed = Duration::from_nanos(elapsed_ns);
        let due = if self.stop.load(Relaxed) { None } else { self.pace.due(elapsed) };
        let Some(due) = due else {
            let events = self.traffic.finish();
            self.count(events);
            return Work::ended();
        };
        let events = self.traffic.send(due, elapsed_ns);
        self.count(events);
        match self.pace.next_tick(elapsed) {
            None => Work::again(due),
            Some(next) => Work::until(due, started_ns + next.as_nanos() as u64),
        }
    }
}
