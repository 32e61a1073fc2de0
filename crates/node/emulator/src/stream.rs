//! A board's connection, on which its packets follow each other.
//!
//! A recorder ends a connection with a packet that it refuses, or at the end of its run; the board
//! then connects again. Packets that are not written whole, or for which there is no connection,
//! are unsent. A recorder that has no room is waited for, as [`Waits`] says.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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

/// How long boards wait for recorders: each for [`PATIENCE`] while sending goes on, and all of them
/// together for that long once it is to end, since they share a thread.
#[derive(Debug)]
pub(crate) struct Waits<'a> {
    stop: &'a AtomicBool,
    /// When all waiting is over, once sending is to end.
    until: Option<Instant>,
}

impl<'a> Waits<'a> {
    /// Sending is to end once that is set.
    pub fn new(stop: &'a AtomicBool) -> Self {
        Self { stop, until: None }
    }

    /// Sending is to end: nothing more is due.
    pub fn end(&mut self, now: Instant) {
        self.until.get_or_insert(now + PATIENCE);
    }

    /// Whether a board that has waited since then goes on waiting.
    fn go_on(&mut self, since: Instant, now: Instant) -> bool {
        if self.stop.load(Relaxed) {
            self.end(now);
        }
        let until = since + PATIENCE;
        now < self.until.map_or(until, |all| all.min(until))
    }

    /// Whether no board waits any more.
    fn are_over(&mut self) -> bool {
        let now = Instant::now();
        !self.go_on(now, now)
    }
}

impl BoardStream {
    /// Connects to a recorder.
    pub fn open(target: SocketAddr) -> Result<Self, NetError> {
        let socket = connect(target).map_err(|source| NetError::Connect { target, source })?;
        Ok(Self { target, socket: Some(socket), failed: None })
    }

    /// Sends packets that stand in `buffer`, in their order.
    pub fn send(&mut self, buffer: &[u8], packets: &[Datagram], waits: &mut Waits<'_>) -> Sent {
        let mut sent = Sent::default();
        let follows = |one: &Datagram, next: &Datagram| one.offset + one.bytes == next.offset;
        for run in packets.chunk_by(follows) {
            let begin = run[0].offset as usize;
            let bytes = run.iter().map(|packet| packet.bytes as usize).sum::<usize>();
            let mut left = self.write(&buffer[begin..begin + bytes], waits);
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
    pub fn end(&mut self, waits: &mut Waits<'_>) {
        self.shut();
        let since = Instant::now();
        self.read_while(|now| waits.go_on(since, now));
    }

    /// Ends all of them, in no more time than one.
    pub fn end_all(streams: &mut [Option<Self>]) {
        let until = Instant::now() + PATIENCE;
        streams.iter_mut().flatten().for_each(Self::shut);
        streams.iter_mut().flatten().for_each(|stream| stream.read_while(|now| now < until));
    }

    /// Says that nothing more comes.
    fn shut(&mut self) {
        if self.socket.as_ref().is_some_and(|socket| socket.shutdown(Shutdown::Write).is_err()) {
            self.socket = None;
        }
    }

    /// Reads until the recorder ends the connection, or for as long as that holds.
    fn read_while(&mut self, mut goes_on: impl FnMut(Instant) -> bool) {
        let Some(mut socket) = self.socket.take() else { return };
        let mut answers = [0; 4_096];
        while goes_on(Instant::now()) {
            match socket.read(&mut answers) {
                Ok(1..) => {}
                Err(error) if is_passing(error.kind()) => {}
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Writes bytes; returns how many. Fewer: the connection has ended.
    fn write(&mut self, bytes: &[u8], waits: &mut Waits<'_>) -> usize {
        self.connect_again(waits);
        let (mut written, mut since) = (0, Instant::now());
        while let Some(socket) = self.socket.as_mut().filter(|_| written < bytes.len()) {
            match socket.write(&bytes[written..]) {
                Ok(more @ 1..) => {
                    written += more;
                    since = Instant::now();
                }
                Err(error) if is_passing(error.kind()) => {}
                Ok(_) | Err(_) => self.socket = None,
            }
            // What is left has no room now.
            if written < bytes.len() && !waits.go_on(since, Instant::now()) {
                self.socket = None;
            }
        }
        written
    }

    fn connect_again(&mut self, waits: &mut Waits<'_>) {
        let is_early = self.failed.is_some_and(|failed| failed.elapsed() < RETRY_EACH);
        if self.socket.is_some() || is_early || waits.are_over() {
            return;
        }
        self.socket = connect(self.target).ok();
        self.failed = self.socket.is_none().then(Instant::now);
    }
}

fn connect(target: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&target, RETRY_EACH)?;
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(LOOK_EACH))?;
    socket.set_read_timeout(Some(LOOK_EACH))?;
    Ok(socket)
}

/// Whether an operation that ended so can be tried again: it had no more than [`LOOK_EACH`].
fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Interrupted | ErrorKind::WouldBlock)
}

/// How long a packet waits for a recorder that takes nothing, and the end for one that reads
/// nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How often a board that waits looks whether to go on.
const LOOK_EACH: Duration = Duration::from_millis(20);
/// How often a recorder that is gone is looked for, and how long it may take to answer.
const RETRY_EACH: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_wait_one_after_the_other_until_sending_is_to_end_and_then_all_together() {
        let (stop, begin) = (AtomicBool::new(false), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut waits = Waits::new(&stop);
        for since in [0, 10, 20] {
            assert!(waits.go_on(at(since), at(since + 9)));
            assert!(!waits.go_on(at(since), at(since + 10)));
        }
        stop.store(true, Relaxed);
        // One that waits already has no longer than before.
        assert!(waits.go_on(at(25), at(30)));
        assert!(!waits.go_on(at(25), at(35)));
        assert!(waits.go_on(at(35), at(39)));
        assert!(!waits.go_on(at(35), at(40)));
        assert!(!waits.go_on(at(40), at(40)));
        // A second end changes nothing.
        waits.end(at(50));
        assert!(!waits.go_on(at(50), at(50)));
    }
}
