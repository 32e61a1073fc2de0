//! What arrives, from queues.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use catchment_agent::{Arrival, Flow, Ingress, Received};
use parking_lot::Mutex;

/// Datagrams on their way to the endpoints of a [`QueueIngress`]: each has a buffer like a
/// socket's, which drops and counts what exceeds it. Clones put into the same buffers.
#[derive(Clone, Debug, Default)]
pub struct Queues(Arc<Mutex<Vec<Queue>>>);

#[derive(Debug, Default)]
struct Queue {
    datagrams: VecDeque<(Option<SocketAddr>, Vec<u8>)>,
    datagrams_max: usize,
    dropped: u64,
}

impl Queues {
    /// Adds an endpoint whose buffer holds so many datagrams, and returns its index.
    pub fn add(&self, datagrams_max: usize) -> usize {
        let mut queues = self.0.lock();
        queues.push(Queue { datagrams_max, ..Queue::default() });
        queues.len() - 1
    }

    /// Sends a datagram to an endpoint, without a sender; false where its buffer is full.
    pub fn send(&self, endpoint: usize, datagram: Vec<u8>) -> bool {
        self.send_from(None, endpoint, datagram)
    }

    /// As [`send`](Self::send), from that sender.
    pub fn send_from(
        &self,
        sender: Option<SocketAddr>,
        endpoint: usize,
        datagram: Vec<u8>,
    ) -> bool {
        let queue = &mut self.0.lock()[endpoint];
        let has_room = queue.datagrams.len() < queue.datagrams_max;
        match has_room {
            true => queue.datagrams.push_back((sender, datagram)),
            false => queue.dropped += 1,
        }
        has_room
    }
}

/// Some of the endpoints of [`Queues`].
#[derive(Debug)]
pub struct QueueIngress {
    queues: Queues,
    endpoints: Vec<usize>,
    per_poll_max: usize,
}

impl QueueIngress {
    /// An ingress of these endpoints, which hands out at most so many datagrams of each in a poll.
    pub fn new(queues: &Queues, endpoints: Vec<usize>, per_poll_max: usize) -> Self {
        Self { queues: queues.clone(), endpoints, per_poll_max }
    }
}

impl Ingress for QueueIngress {
    fn poll(&mut self, mut sink: impl FnMut(Arrival<'_>) -> Flow) -> Received {
        let mut received = Received::default();
        let mut queues = self.queues.0.lock();
        for (endpoint, &queue) in self.endpoints.iter().enumerate() {
            let datagrams = &mut queues[queue].datagrams;
            for _ in 0..self.per_poll_max {
                let Some((sender, bytes)) = datagrams.pop_front() else { break };
                if sink(Arrival { endpoint, sender, bytes: &bytes }) == Flow::Paused {
                    datagrams.push_front((sender, bytes));
                    received.paused = true;
                    return received;
                }
                received.arrivals += 1;
                received.bytes += bytes.len() as u64;
            }
            received.more |= !datagrams.is_empty();
        }
        received
    }

    fn refresh_drops(&mut self) {}

    fn take_drops(&mut self, mut f: impl FnMut(usize, u64)) {
        let mut queues = self.queues.0.lock();
        for (endpoint, &queue) in self.endpoints.iter().enumerate() {
            match std::mem::take(&mut queues[queue].dropped) {
                0 => {}
                dropped => f(endpoint, dropped),
            }
        }
    }

    fn take_error(&mut self) -> Option<(Option<usize>, String)> {
        None
    }
}
