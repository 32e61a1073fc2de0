//! What arrives.

use std::net::SocketAddr;

/// One piece of what arrived: a datagram, or the next bytes of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The endpoint that it came to, by its index.
    pub endpoint: usize,
    /// Who sent it, where the ingress was asked to say so and the system knows.
    pub sender: Option<SocketAddr>,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// What became of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It was taken.
    Taken,
    /// There is no room for it now. It is handed out again, first of all, at the next poll; nothing
    /// else is until then. What arrives meanwhile waits where it is: a stream's sender waits, and
    /// datagrams queue in the endpoint's buffer, which drops and counts what exceeds it.
    Paused,
}

/// What one poll came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Arrivals that were taken.
    pub arrivals: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether some endpoint has more than was taken in one pass.
    pub more: bool,
    /// Whether an arrival was paused.
    pub paused: bool,
}

/// Endpoints that one agent receives from.
pub trait Ingress: Send {
    /// Hands out what has arrived, each endpoint's in its order, without waiting. No endpoint takes
    /// more than a bounded share of one poll.
    fn poll(&mut self, sink: impl FnMut(Arrival<'_>) -> Flow) -> Received;

    /// Brings the counts of dropped datagrams up to date.
    fn refresh_drops(&mut self);

    /// Calls `f(endpoint, datagrams)` for every endpoint at which datagrams were dropped since the
    /// last call.
    fn take_drops(&mut self, f: impl FnMut(usize, u64));

    /// The last error, and the endpoint that reported it, if it was one; forgotten once taken.
    fn take_error(&mut self) -> Option<(Option<usize>, String)>;
}
