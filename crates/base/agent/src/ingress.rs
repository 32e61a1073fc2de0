//! The port through which data arrive: datagrams, and the bytes of connections.
//!
//! An *endpoint* is a port that takes datagrams, a port that takes connections, or a connection.
//! Ports are there from the start and have the first numbers; a connection has a number from when
//! it opens until it is closed.

use std::fmt;
use std::net::SocketAddr;

use crate::Egress;

/// One arrival.
#[derive(Debug)]
pub struct Arrival<'a> {
    /// The number of the endpoint at which it arrived.
    pub endpoint: usize,
    /// Its sender, if the ingress was asked for it and the system knows it.
    pub sender: Option<SocketAddr>,
    /// Its contents.
    pub piece: Piece<'a>,
}

/// The contents of an arrival.
#[derive(Debug)]
pub enum Piece<'a> {
    /// Datagrams of one sender that arrived together.
    Datagrams(Datagrams<'a>),
    /// The endpoint is a new connection, accepted by that port. Its bytes follow, and then
    /// [`Closed`](Self::Closed), even if the connection is refused.
    Opened {
        /// The port's number.
        port: usize,
        /// By which of the port's listeners it came: the first is 0.
        listener: usize,
    },
    /// The bytes of the connection that follow come under TLS. It precedes the first of them; the
    /// bytes of a connection without it come in the clear.
    Secured,
    /// All bytes of the connection that have arrived and are not taken yet; at least one.
    Bytes(&'a [u8]),
    /// The bytes of the connection that come next, after [`Flow::Into`]. They have been copied
    /// nowhere yet, and there may be none now.
    Incoming(&'a mut dyn Incoming),
    /// The connection has ended. Its number may soon be reused.
    Closed {
        /// Bytes that arrived and were not taken: the beginning of a message whose end is missing.
        left: &'a [u8],
    },
}

/// At least one datagram, in the order of arrival: as an iterator, each once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagrams<'a> {
    rest: Option<&'a [u8]>,
    each: usize,
}

impl<'a> Datagrams<'a> {
    /// One datagram, which may be empty.
    pub fn one(bytes: &'a [u8]) -> Self {
        Self::merged(bytes, bytes.len())
    }

    /// Datagrams of `each` bytes, of which the last may be shorter.
    #[inline]
    pub fn merged(bytes: &'a [u8], each: usize) -> Self {
        Self { rest: Some(bytes), each: each.max(1) }
    }

    /// The bytes of those that have not been iterated over.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.rest.unwrap_or_default()
    }
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let (first, others) = rest.split_at(rest.len().min(self.each));
        self.rest = (!others.is_empty()).then_some(others);
        Some(first)
    }
}

impl<'a> Arrival<'a> {
    /// Its bytes, those of datagrams without a gap; none where a connection opens or is closed, or
    /// they were copied nowhere.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        match self.piece {
            Piece::Datagrams(datagrams) => datagrams.bytes(),
            Piece::Bytes(bytes) => bytes,
            Piece::Opened { .. } | Piece::Secured | Piece::Incoming(_) | Piece::Closed { .. } => {
                &[]
            }
        }
    }

    /// Its datagrams; none of a connection.
    #[inline]
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let datagrams = match self.piece {
            Piece::Datagrams(datagrams) => Some(datagrams),
            _ => None,
        };
        datagrams.into_iter().flatten()
    }
}

/// Bytes that a sink reads into memory of its own.
pub trait Incoming: fmt::Debug {
    /// Reads once, as many bytes as are there and as there is room for, and returns how many: 0 if
    /// there are none now.
    fn read(&mut self, room: &mut [u8]) -> usize;
}

/// How an arrival was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It was taken; of a connection, all bytes.
    Taken,
    /// That many of a connection's bytes were taken, at least one. The others follow at once. Or
    /// the datagrams in so many bytes, and there is no room for the next, as with
    /// [`Paused`](Self::Paused).
    Used(usize),
    /// All these bytes of a connection were taken, and the next ones go straight to memory of the
    /// sink: they are handed out as [`Piece::Incoming`], from which the sink must read. That goes
    /// on until the answer to one is [`Taken`](Self::Taken).
    Into,
    /// These bytes of a connection are the beginning of a message. They are delivered again, with
    /// those that follow them. Some of [`STREAM_BYTES_MIN`] bytes must be taken: an ingress closes
    /// a connection whose buffer is full of bytes that are not taken.
    Short,
    /// There is no room for these bytes of a connection now. The next poll delivers them again;
    /// other endpoints go on. The sender waits.
    Held,
    /// There is no room for anything now. The next poll delivers it again, before anything else.
    /// Later arrivals wait where they are: a connection's sender waits, and datagrams queue in the
    /// endpoint's buffer, which drops and counts the excess.
    Paused,
    /// The connection is to be closed.
    Refused,
}

/// Of any so many bytes of a connection, a sink takes some.
pub const STREAM_BYTES_MIN: usize = 128 << 10;

/// The result of one poll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Arrivals that were taken.
    pub arrivals: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether some endpoint had more than one pass takes.
    pub more: bool,
    /// Whether a connection's bytes were held.
    pub held: bool,
    /// Whether an arrival was paused.
    pub paused: bool,
}

/// The endpoints from which one agent receives. It answers connections through [`Egress`]; what is
/// answered after a connection's last bytes were taken, and before the next poll, still reaches a
/// peer that sends no more.
pub trait Ingress: Egress + Send {
    /// Delivers arrivals, in order for each endpoint, without waiting. No endpoint takes more than
    /// a bounded share of one poll.
    fn poll(&mut self, sink: &mut dyn FnMut(Arrival<'_>) -> Flow) -> Received;

    /// Calls `f(endpoint, left)` for each open connection, with the bytes that arrived and were not
    /// taken, and closes it at once if that returns true.
    fn end(&mut self, _f: &mut dyn FnMut(usize, &[u8]) -> bool) {}

    /// Whether some connection lingers: one that was answered stays open until its peer has read
    /// the last answer and closed it, for a second at most.
    fn lingers(&self) -> bool {
        false
    }

    /// Bytes of datagrams that have arrived and were not polled, with what the system keeps for
    /// each; more than there are, if it gives room back late, and 0 if it does not say.
    fn waiting_bytes(&self) -> u64 {
        0
    }

    /// Updates the counts of dropped datagrams.
    fn refresh_drops(&mut self) {}

    /// Calls `f(endpoint, datagrams)` for every endpoint at which datagrams were dropped since the
    /// last call.
    fn take_drops(&mut self, _f: &mut dyn FnMut(usize, u64)) {}

    /// The last error, and the endpoint that reported it, if one did; cleared when taken.
    fn take_error(&mut self) -> Option<(Option<usize>, String)> {
        None
    }
}
