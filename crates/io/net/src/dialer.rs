//! Connections to one peer.
//!
//! A connection is made by a thread of its own, which ends with the attempt: names are looked up,
//! TCP and TLS connect, and each may take seconds. Afterwards nothing waits. The sockets are
//! watched for edges in both directions, so that a thread that waits on [`Dialer::readiness`] is
//! woken once by whatever comes, by room that a socket has again, and by [`Dialer::waker`].

use std::io::{self, IoSlice, Read as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Duration;

use catchment_agent::{Dial, Waker};

use crate::certificates::TlsClient;
use crate::epoll::{Epoll, Readiness, write_event};
use crate::tls_stream::Stream;

/// Where connections go, and how.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Host and port.
    pub address: String,
    /// Connections are under TLS, with what is trusted.
    pub tls: Option<TlsClient>,
    /// A token is shown: in the clear, to this machine only.
    pub sends_token: bool,
}

/// Makes connections to one peer.
#[derive(Debug)]
pub struct Dialer {
    peer: Peer,
    epoll: Arc<Epoll>,
    event: Arc<OwnedFd>,
    lines: Vec<Line>,
}

#[derive(Debug, Default)]
enum Line {
    #[default]
    Closed,
    Connecting(Receiver<io::Result<Stream>>),
    Open(Stream),
}

impl Dialer {
    /// No connection yet.
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new(peer: Peer) -> io::Result<Self> {
        let epoll = Epoll::new(CONNECTIONS_MAX)?;
        // SAFETY: no pointers; the result is checked before it is owned.
        let event = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if event < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nothing else owns.
        let event = Arc::new(unsafe { OwnedFd::from_raw_fd(event) });
        epoll.add_edges(event.as_fd())?;
        Ok(Self { peer, epoll: Arc::new(epoll), event, lines: Vec::new() })
    }

    /// One to another peer, for the same thread: what wakes the one wakes both.
    pub fn beside(&self, peer: Peer) -> Self {
        let (epoll, event) = (Arc::clone(&self.epoll), Arc::clone(&self.event));
        Self { peer, epoll, event, lines: Vec::new() }
    }

    /// What its thread waits on.
    pub fn readiness(&self) -> Readiness {
        self.epoll.readiness()
    }

    /// What wakes the thread that waits.
    pub fn waker(&self) -> Waker {
        let event = Arc::clone(&self.event);
        Waker::new(move || write_event(event.as_fd()))
    }

    fn line(&mut self, number: usize) -> &mut Line {
        assert!(number < CONNECTIONS_MAX, "connection {number}");
        if self.lines.len() <= number {
            self.lines.resize_with(number + 1, Line::default);
        }
        &mut self.lines[number]
    }

    fn stream(&mut self, number: usize) -> io::Result<&mut Stream> {
        match self.line(number) {
            Line::Open(stream) => Ok(stream),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Dial for Dialer {
    fn connect(&mut self, number: usize) {
        let (outcome, made) = sync_channel(1);
        let (peer, event) = (self.peer.clone(), Arc::clone(&self.event));
        let connect = move || {
            // Whoever asked may have given up.
            let _sent = outcome.send(connect(&peer));
            write_event(event.as_fd());
        };
        let started = std::thread::Builder::new().name("connect".to_owned()).spawn(connect);
        // Without a thread the sender is gone, which is the outcome.
        drop(started);
        *self.line(number) = Line::Connecting(made);
    }

    fn take_outcome(&mut self, number: usize) -> Option<io::Result<()>> {
        let Line::Connecting(made) = self.line(number) else { return None };
        let outcome = match made.try_recv() {
            Ok(outcome) => outcome,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(io::Error::other("no thread to connect")),
        };
        let watched = outcome.and_then(|stream| {
            self.epoll.add_edges(stream.as_fd())?;
            Ok(stream)
        });
        Some(match watched {
            Ok(stream) => {
                *self.line(number) = Line::Open(stream);
                Ok(())
            }
            Err(error) => {
                *self.line(number) = Line::Closed;
                Err(error)
            }
        })
    }

    fn write(&mut self, number: usize, slices: &[&[u8]]) -> io::Result<usize> {
        let stream = self.stream(number)?;
        let mut all = [IoSlice::new(&[]); SLICES_MAX];
        let count = slices.len().min(SLICES_MAX);
        for (out, slice) in all.iter_mut().zip(slices) {
            *out = IoSlice::new(slice);
        }
        let is_flushed = stream.flush()?;
        if count == 0 || !is_flushed {
            return Ok(0);
        }
        match stream.write_vectored(&all[..count]) {
            Ok(0) if slices.iter().any(|slice| !slice.is_empty()) => {
                Err(io::ErrorKind::WriteZero.into())
            }
            Ok(bytes) => Ok(bytes),
            Err(error) => nothing(error),
        }
    }

    fn read(&mut self, number: usize, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stream(number)?.read(buffer) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, CLOSED)),
            Ok(bytes) => Ok(bytes),
            Err(error) => nothing(error),
        }
    }

    fn close(&mut self, number: usize) {
        *self.line(number) = Line::Closed;
    }
}

/// What cannot be done now is no error.
fn nothing(error: io::Error) -> io::Result<usize> {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
        _ => Err(error),
    }
}

/// Tries the host's addresses in their order.
fn connect(peer: &Peer) -> io::Result<Stream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in peer.address.to_socket_addrs()? {
        match connect_to(peer, address) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn connect_to(peer: &Peer, address: SocketAddr) -> io::Result<Stream> {
    if peer.sends_token && peer.tls.is_none() && !address.ip().is_loopback() {
        return Err(io::Error::other("a token is sent in the clear to this machine only"));
    }
    let socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    socket.set_nodelay(true)?;
    let Some(tls) = &peer.tls else {
        socket.set_nonblocking(true)?;
        return Ok(Stream::plain(socket));
    };
    socket.set_read_timeout(Some(CONNECT_TIMEOUT))?;
    socket.set_write_timeout(Some(CONNECT_TIMEOUT))?;
    let host = peer.address.rsplit_once(':').map_or(&*peer.address, |(host, _)| host);
    Stream::connected(socket, tls, host.trim_matches(['[', ']'])).map_err(|error| {
        let text = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the peer has closed the connection: is it under TLS?",
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "the peer has not answered",
            kind => return io::Error::new(kind, format!("TLS: {error}")),
        };
        io::Error::new(error.kind(), format!("TLS: {text}"))
    })
}

const CLOSED: &str = "the peer has closed the connection";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Connections at a time.
const CONNECTIONS_MAX: usize = 17;
/// Slices of one write.
const SLICES_MAX: usize = 64;
