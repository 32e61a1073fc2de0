//! The port through which an agent answers the connections of its [`Ingress`](crate::Ingress).

/// Answers to connections.
///
/// An answer is made only when there is room for it: what an agent has to say stays its own state
/// until then, so that a newer answer replaces an older one and nothing queues. A peer that reads
/// nothing for 3 s is closed.
pub trait Egress {
    /// Sends what `write` appends to the empty buffer that it gets, at most [`ANSWER_BYTES_MAX`].
    /// `write` is not called, and nothing is sent, while an earlier answer waits for the peer to
    /// read, and at an endpoint that is no open connection: ask again after the next poll.
    fn answer(&mut self, _endpoint: usize, _write: &mut dyn FnMut(&mut Vec<u8>)) {}

    /// Closes a connection. What the system has of the last answer is still sent; the next poll
    /// hands out nothing of the connection but its end.
    fn close(&mut self, _endpoint: usize) {}
}

/// The longest answer.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
