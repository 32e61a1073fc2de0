//! One connection and its next arrival.
//!
//! First that it is open, then its bytes, then that it is closed; each until the sink takes it. The
//! socket is read only when the sink waits for more bytes: into the buffer, or by the sink itself
//! into memory of its own. Behind such bytes only a little is read at first, since the next message
//! may be one that the sink wants elsewhere. So the end is never read before the last
//! whole message was taken, however long that was held. It is handed out by the poll after the one
//! that read it, so that the last bytes can be answered.

use std::io::{self, IoSlice, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;

use catchment_agent::{ANSWER_BYTES_MAX, Arrival, Flow, Incoming, Piece, Received};

use crate::NetError;
use crate::epoll::Epoll;
use crate::stream::StreamBuffer;
use crate::tls_stream::Stream;

/// One poll: where pieces go, and what comes of it.
pub(crate) struct Pass<'a> {
    pub sink: &'a mut dyn FnMut(Arrival<'_>) -> Flow,
    pub received: Received,
    /// The last error, and the port that it concerns, if one.
    pub error: Option<(Option<usize>, NetError)>,
}

/// Why no more is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// More must be read first.
    Drained,
    /// The sink has no room for this connection.
    Held,
    /// The sink has no room.
    Paused,
    /// The sink knows that the connection has ended.
    Closed,
}

pub(crate) struct Connection {
    stream: Stream,
    sender: SocketAddr,
    came_by: CameBy,
    endpoint: usize,
    buffer: StreamBuffer,
    /// The last answer, of which the system has taken the first `answered` bytes.
    answer: Vec<u8>,
    answered: usize,
    /// Why the last answer could not be sent.
    unanswerable: Option<io::Error>,
    phase: Phase,
    /// Whether the sink knows that it is under TLS.
    is_told_secured: bool,
    watched: bool,
    /// Whether the sink reads the next bytes itself, and whether it has read those before.
    is_direct: bool,
    was_direct: bool,
    /// Bytes that may still be read in this pass, and whether the last read found no more.
    bytes_max: usize,
    is_dry: bool,
}

/// The port that a connection came to, and by which of its listeners.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CameBy {
    pub port: usize,
    pub listener: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The sink does not know of it.
    Opening,
    Open,
    /// Nothing more comes of it but that it is closed.
    Ended,
}

impl Connection {
    /// A connection that came by a port; its socket does not wait.
    pub fn new(
        stream: Stream,
        sender: SocketAddr,
        came_by: CameBy,
        endpoint: usize,
        buffer_bytes: usize,
    ) -> Self {
        let (buffer, phase) = (StreamBuffer::new(buffer_bytes), Phase::Opening);
        let (answer, answered, unanswerable) = (Vec::new(), 0, None);
        Self {
            stream,
            sender,
            came_by,
            endpoint,
            buffer,
            answer,
            answered,
            unanswerable,
            phase,
            is_told_secured: false,
            watched: false,
            is_direct: false,
            was_direct: false,
            bytes_max: 0,
            is_dry: false,
        }
    }

    /// A pass begins, in which at most so many bytes are read.
    #[inline]
    pub fn begin_pass(&mut self, bytes_max: usize) {
        (self.bytes_max, self.is_dry) = (bytes_max, false);
    }

    /// Whether more may be there than this pass has read, which it may not.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.bytes_max == 0
    }

    /// Whether the last read found no more than it brought.
    #[inline]
    pub fn is_dry(&self) -> bool {
        self.is_dry
    }

    /// Whether epoll says when it has something. If not, it has something now.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.watched
    }

    /// Whether it has bytes to be read of which epoll knows nothing.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.watched && self.stream.has_more()
    }

    /// The bytes that arrived and were not taken.
    pub fn untaken(&self) -> &[u8] {
        self.buffer.untaken()
    }

    /// Has epoll say, or not say, when it has something. One that cannot be watched is ended.
    pub fn watch(&mut self, watched: bool, epoll: &Epoll, pass: &mut Pass<'_>) {
        if watched == self.watched {
            return;
        }
        let fd = self.stream.as_fd();
        let result = if watched { epoll.add(fd, self.endpoint) } else { epoll.remove(fd) };
        self.watched = watched && result.is_ok();
        match result {
            Ok(()) => {}
            Err(source) if watched => {
                pass.received.more = true;
                self.end(NetError::Connection { sender: self.sender, source }, pass);
            }
            Err(source) => pass.error = Some((Some(self.came_by.port), NetError::Epoll { source })),
        }
    }

    /// Reads once into the buffer, unless the sink reads itself. Returns whether there is something
    /// to hand out.
    pub fn read(&mut self, pass: &mut Pass<'_>) -> bool {
        if self.is_offered() {
            return true;
        }
        let most = if self.was_direct { HEAD_BYTES.min(self.bytes_max) } else { self.bytes_max };
        match self.buffer.read(&mut self.stream, most) {
            Ok(intake) => {
                if intake.bytes == 0 && self.phase != Phase::Ended {
                    self.phase = Phase::Ended;
                    pass.received.more = true;
                    return false;
                }
                self.was_direct = false;
                self.bytes_max -= intake.bytes;
                self.is_dry = !intake.filled;
                true
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => false,
                _ => {
                    self.end(NetError::Connection { sender: self.sender, source: error }, pass);
                    self.is_dry = true;
                    true
                }
            },
        }
    }

    /// Whether it is under TLS, and the sink does not know.
    #[inline]
    fn is_untold(&self) -> bool {
        !self.is_told_secured && self.stream.is_secured()
    }

    /// Whether the sink reads the next bytes itself.
    #[inline]
    fn is_offered(&self) -> bool {
        self.is_direct && self.phase == Phase::Open
    }

    /// Has the sink read the next bytes. Returns why no more is handed out, if so.
    ///
    /// # Panics
    /// A sink that wants bytes, and reads none.
    fn offer(&mut self, pass: &mut Pass<'_>) -> Option<Stop> {
        if self.is_dry || self.is_spent() {
            return Some(Stop::Drained);
        }
        let (endpoint, sender) = (self.endpoint, Some(self.sender));
        let Self { stream, bytes_max, .. } = self;
        let mut reader = Reader { stream, bytes_max, bytes: 0, end: None };
        let piece = Piece::Incoming(&mut reader);
        let flow = (pass.sink)(Arrival { endpoint, sender, piece });
        let Reader { bytes, end, .. } = reader;
        pass.received.arrivals += u64::from(bytes > 0);
        pass.received.bytes += bytes as u64;
        match flow {
            Flow::Held => return Some(Stop::Held),
            Flow::Paused => return Some(Stop::Paused),
            Flow::Refused => {
                self.phase = Phase::Ended;
                return None;
            }
            Flow::Into => assert!(bytes > 0 || end.is_some(), "nothing was read"),
            _ => (self.is_direct, self.was_direct) = (false, true),
        }
        match end? {
            End::Dry => self.is_dry = true,
            End::Closed => {
                self.phase = Phase::Ended;
                pass.received.more = true;
                self.is_dry = true;
            }
            End::Failed(source) => {
                self.end(NetError::Connection { sender: self.sender, source }, pass);
                return None;
            }
        }
        Some(Stop::Drained)
    }

    /// Hands out what is next until the sink or the bytes say stop. Each round takes at least a
    /// byte or brings the end nearer.
    ///
    /// # Panics
    /// A sink that used no byte, or more than there were.
    pub fn hand_out(&mut self, pass: &mut Pass<'_>) -> Stop {
        loop {
            if self.is_offered() {
                match self.offer(pass) {
                    Some(stop) => return stop,
                    None => continue,
                }
            }
            let bytes = self.buffer.untaken();
            let piece = match self.phase {
                Phase::Opening => {
                    let CameBy { port, listener } = self.came_by;
                    Piece::Opened { port, listener }
                }
                Phase::Open if bytes.is_empty() => return Stop::Drained,
                Phase::Open if self.is_untold() => Piece::Secured,
                Phase::Open => Piece::Bytes(bytes),
                Phase::Ended => Piece::Closed { left: bytes },
            };
            let (endpoint, sender) = (self.endpoint, Some(self.sender));
            let flow = (pass.sink)(Arrival { endpoint, sender, piece });
            let taken = match (self.phase, flow) {
                (_, Flow::Paused) => return Stop::Paused,
                (_, Flow::Held) => return Stop::Held,
                (Phase::Ended, _) => {
                    pass.received.arrivals += 1;
                    return Stop::Closed;
                }
                (_, Flow::Refused) => {
                    self.phase = Phase::Ended;
                    continue;
                }
                (Phase::Opening, _) => {
                    self.phase = Phase::Open;
                    0
                }
                (Phase::Open, _) if self.is_untold() => {
                    self.is_told_secured = true;
                    0
                }
                (_, Flow::Short) if !self.buffer.is_full() => return Stop::Drained,
                (_, Flow::Short) => {
                    let (sender, bytes) = (self.sender, bytes.len());
                    self.end(NetError::NoMessage { sender, bytes }, pass);
                    continue;
                }
                (_, Flow::Used(used)) => {
                    assert!(used > 0, "no byte was used: that is no progress");
                    used
                }
                (_, Flow::Into) => {
                    self.is_direct = true;
                    bytes.len()
                }
                (_, Flow::Taken) => bytes.len(),
            };
            self.buffer.take(taken);
            pass.received.arrivals += 1;
            pass.received.bytes += taken as u64;
        }
    }

    /// Sends an answer, if the system has taken the last one completely.
    pub fn answer(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        if !self.pass_on() {
            return;
        }
        self.answered = 0;
        self.answer.clear();
        write(&mut self.answer);
        debug_assert!(self.answer.len() <= ANSWER_BYTES_MAX, "an answer that is too long");
        self.pass_on();
    }

    /// Nothing more is taken of it. Not watched, it is handed out by the next poll.
    pub fn close(&mut self, epoll: &Epoll) -> io::Result<()> {
        self.phase = Phase::Ended;
        match std::mem::take(&mut self.watched) {
            true => epoll.remove(self.stream.as_fd()),
            false => Ok(()),
        }
    }

    /// The socket of one that was answered, whose peer may still be reading. Closed with bytes in
    /// it that nobody has read, it would be reset, and the peer lose the answer.
    pub fn linger(self) -> Option<TcpStream> {
        let is_answered = self.answer.capacity() > 0 && self.unanswerable.is_none();
        Some(self.stream).filter(|_| is_answered)?.into_closing().ok()
    }

    /// Passes the rest of an answer to the system. A connection that cannot be answered is ended.
    pub fn flush(&mut self, pass: &mut Pass<'_>) {
        self.pass_on();
        if let Some(source) = self.unanswerable.take() {
            self.end(NetError::Connection { sender: self.sender, source }, pass);
        }
    }

    /// Passes the rest of an answer to the system, and returns whether nothing is left of it.
    fn pass_on(&mut self) -> bool {
        loop {
            let result = match &self.answer[self.answered..] {
                [] => match self.stream.flush() {
                    Ok(is_all) => return is_all,
                    Err(error) => Err(error),
                },
                rest => self.stream.write_vectored(&[IoSlice::new(rest)]),
            };
            match result {
                Ok(bytes) => self.answered += bytes,
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => return false,
                    _ => {
                        self.answered = self.answer.len();
                        self.unanswerable = Some(error);
                        return true;
                    }
                },
            }
        }
    }

    #[cold]
    fn end(&mut self, error: NetError, pass: &mut Pass<'_>) {
        pass.error = Some((Some(self.came_by.port), error));
        self.phase = Phase::Ended;
    }
}

/// Reads what comes next of a connection for its sink.
struct Reader<'a> {
    stream: &'a mut Stream,
    /// Bytes that may still be read in this pass.
    bytes_max: &'a mut usize,
    bytes: usize,
    end: Option<End>,
}

/// Why there is nothing more to read.
#[derive(Debug)]
enum End {
    Dry,
    Closed,
    Failed(io::Error),
}

impl Incoming for Reader<'_> {
    fn read(&mut self, room: &mut [u8]) -> usize {
        let most = room.len().min(*self.bytes_max);
        if most == 0 || self.end.is_some() {
            self.end.get_or_insert(End::Dry);
            return 0;
        }
        match self.stream.read(&mut room[..most]) {
            Ok(0) => self.end = Some(End::Closed),
            Ok(bytes) => {
                self.bytes += bytes;
                *self.bytes_max -= bytes;
                if bytes < most {
                    self.end = Some(End::Dry);
                }
                return bytes;
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {
                    self.end = Some(End::Dry);
                }
                _ => self.end = Some(End::Failed(error)),
            },
        }
        0
    }
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Bytes that are read at first behind those that the sink has read itself: of a long message the
/// head, and little of the body.
const HEAD_BYTES: usize = 4_096;
