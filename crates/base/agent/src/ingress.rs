//! The port through which data arrive.

use std::net::SocketAddr;

/// One arrival: a datagram, or the next bytes of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// The index of the endpoint at which it arrived.
    pub endpoint: usize,
    /// Its sender, if the ingress was asked for it and the system knows it.
    pub sender: Option<SocketAddr>,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// How an arrival was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It was taken.
    Taken,
    /// There is no room for it now. The next poll delivers it again, before anything else. Later
    /// arrivals wait where they are: a stream's sender waits, and datagrams queue in the endpoint's
    /// buffer, which drops and counts the excess.
    Paused,
}

/// The result of one poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Arrivals that were taken.
    pub arrivals: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether some endpoint had more than one pass takes.
    pub more: bool,
    /// Whether an arrival was paused.
    pub paused: bool,
}

/// The endpoints from which one agent receives.
pub trait Ingress: Send {
    /// Delivers arrivals, in order for each endpoint, without waiting. No endpoint takes more than
    /// a bounded share of one poll.
    fn poll(&mut self, sink: impl FnMut(Arrival<'_>) -> Flow) -> Received;

    /// Updates the counts of dropped datagrams.
    fn refresh_drops(&mut self);

    /// Calls `f(endpoint, datagrams)` for every endpoint at which datagrams were dropped since the
    /// last call.
    fn take_drops(&mut self, f: impl FnMut(usize, u64));

    /// The last error, and the endpoint that reported it, if one did; cleared when taken.
    fn take_error(&mut self) -> Option<(Option<usize>, String)>;
}
