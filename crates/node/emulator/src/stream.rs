//! A board's connection, on which its packets follow each other.
//!
//! A recorder ends a connection with a packet that it refuses, or at the end of its run; the board
//! then connects again. Packets that are not written whole, or for which there is no connection,
//! are unsent. A recorder that has no room is waited for, up to [`PATIENCE`] for each write.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use catchment_net::{Datagram, NetError, Sent};

/// One board's connection to its recorder.
#[derive(Debug)]
pub(crate) struct BoardStream {
    target: SocketAddr,
    socket: Option<TcpStream>,
    /// When connecting again last failed.
    failed: Option<Instant>,
}

impl BoardStream {
    /// Connects to a recorder.
    pub fn open(target: SocketAddr) -> Result<Self, NetError> {
        let socket = connect(target).map_err(|source| NetError::Connect { target, source })?;
        Ok(Self { target, socket: Some(socket), failed: None })
    }

    /// Sends packets that stand in `buffer`, in their order.
    pub fn send(&mut self, buffer: &[u8], packets: &[Datagram]) -> Sent {
        let mut sent = Sent::default();
        let follows = |one: &Datagram, next: &Datagram| one.offset + one.bytes == next.offset;
        for run in packets.chunk_by(follows) {
            let begin = run[0].offset as usize;
            let bytes = run.iter().map(|packet| packet.bytes as usize).sum::<usize>();
            let mut left = self.write(&buffer[begin..begin + bytes]);
            sent.calls += 1;
            for packet in run {
                match left.checked_sub(packet.bytes as usize) {
                    Some(rest) => {
                        left = rest;
                        sent.datagrams += 1;
                        sent.bytes += u64::from(packet.bytes);
                    }
                    None => {
                        left = 0;
                        sent.unsent += 1;
                    }
                }
            }
        }
        sent
    }

    /// Ends the connection when the recorder has read all of it, or ends it, too. The next packet
    /// has another one.
    pub fn end(&mut self) {
        self.shut();
        self.end_by(Instant::now() + PATIENCE);
    }

    /// Ends all of them, in no more time than one.
    pub fn end_all(streams: &mut [Option<Self>]) {
        let until = Instant::now() + PATIENCE;
        streams.iter_mut().flatten().for_each(Self::shut);
        streams.iter_mut().flatten().for_each(|stream| stream.end_by(until));
    }

    /// Says that nothing more comes.
    fn shut(&mut self) {
        if self.socket.as_ref().is_some_and(|socket| socket.shutdown(Shutdown::Write).is_err()) {
            self.socket = None;
        }
    }

    /// Reads until the recorder ends the connection, or until that time.
    fn end_by(&mut self, until: Instant) {
        let Some(mut socket) = self.socket.take() else { return };
        let mut answers = [0; 4_096];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let is_over = left.is_zero() || socket.set_read_timeout(Some(left)).is_err();
            if is_over || !matches!(socket.read(&mut answers), Ok(1..)) {
                return;
            }
        }
    }

    /// Writes bytes; returns how many. Fewer: the connection has ended.
    fn write(&mut self, bytes: &[u8]) -> usize {
        self.connect_again();
        let mut written = 0;
        while let Some(socket) = self.socket.as_mut().filter(|_| written < bytes.len()) {
            match socket.write(&bytes[written..]) {
                Ok(more @ 1..) => written += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => self.socket = None,
            }
        }
        written
    }

    fn connect_again(&mut self) {
        let is_early = self.failed.is_some_and(|failed| failed.elapsed() < RETRY_EACH);
        if self.socket.is_some() || is_early {
            return;
        }
        self.socket = connect(self.target).ok();
        self.failed = self.socket.is_none().then(Instant::now);
    }
}

fn connect(target: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&target, RETRY_EACH)?;
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// How long a packet waits for a recorder that takes nothing, and the end for one that reads
/// nothing.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a recorder that is gone is looked for, and how long it may take to answer.
const RETRY_EACH: Duration = Duration::from_secs(1);
