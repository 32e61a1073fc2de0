//! Receives from many connections in one thread.
//!
//! A pass first delivers what the sink had no room for, then asks epoll which sockets are readable.
//! Readable ports accept connections; each connection is read into a buffer of its own, in which
//! untaken bytes stay contiguous until the rest of their message comes. Where a sink wants the next
//! bytes in memory of its own, it reads them itself.
//!
//! Nothing is lost here: what the sink has no room for stays in the buffer, what the buffer has no
//! room for stays with the system, and what that has no room for stays with the sender.
//!
//! Answers go directly to the socket. The rest of one that the system has no room for is passed on
//! by later polls, before anything is received.
//!
//! A connection whose bytes are held is neither read nor watched, so that a thread that waits does
//! not wake for it. The same holds for a port that cannot take a connection (no descriptor is left,
//! say). Both are tried at every poll.

use std::collections::VecDeque;
use std::io::{self, Read as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use catchment_agent::{Arrival, Egress, Flow, Ingress, Received, STREAM_BYTES_MIN};

use crate::NetError;
use crate::certificates::TlsServer;
use crate::connection::{CameBy, Connection, Pass, Stop};
use crate::epoll::{Epoll, Readiness};
use crate::options::{Buffer, ask_buffer, set};
use crate::tls_stream::{Stream, TLS_BYTES};

/// How a receiver of connections spends memory: `connections_max` times `buffer_bytes` at most, and
/// what the system spends.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// Bytes of a connection's buffer, at least twice [`STREAM_BYTES_MIN`]. It is made when the
    /// connection opens.
    pub buffer_bytes: usize,
    /// Connections that may be open at once, over all ports. Others are closed at once.
    pub connections_max: usize,
    /// Bytes of buffer to ask of the system for each connection.
    pub socket_buffer_bytes: usize,
    /// The certificate, where connections are under TLS.
    pub tls: Option<TlsServer>,
    /// Whether connections in the clear are taken beside those under TLS; the first byte tells
    /// which they are. Those under TLS are said to be so ([`Piece::Secured`]).
    ///
    /// [`Piece::Secured`]: catchment_agent::Piece::Secured
    pub takes_clear: bool,
}

/// A port of a [`TcpReceiver`]: one or more listeners for the same senders.
#[derive(Clone, Debug)]
pub struct TcpPort {
    /// Where it listens, at least at one.
    pub addresses: Vec<SocketAddr>,
    /// Whether its connections may be under TLS, if there is a certificate.
    pub takes_tls: bool,
}

impl Default for TcpConfig {
    fn default() -> Self {
        let (buffer_bytes, socket_buffer_bytes) = (256 * 1024, 4 * 1024 * 1024);
        let (tls, takes_clear) = (None, false);
        Self { buffer_bytes, connections_max: 64, socket_buffer_bytes, tls, takes_clear }
    }
}

impl TcpConfig {
    /// Bytes of all buffers, as many as there may be.
    pub fn bytes_max(&self) -> usize {
        let tls_bytes = if self.tls.is_some() { TLS_BYTES } else { 0 };
        (self.buffer_bytes + tls_bytes) * self.connections_max
    }
}

/// Ports at which one thread takes connections, and receives from them.
///
/// The endpoints are numbered: the ports from 0 on, as they were given, and behind them the
/// connections; a new one gets the lowest number that is free. Listeners beyond the first of a port
/// have no numbers among them.
///
/// Every piece names the peer as its sender. An error names the port that took the connection, and
/// the peer in its text, since the connection's number may be another's when the error is read.
pub struct TcpReceiver {
    ports: usize,
    // Those of the first port first.
    listeners: Vec<Listener>,
    // By their numbers less the number of ports.
    connections: Vec<Option<Connection>>,
    // The connection whose piece the sink had no room for, by its index.
    paused: Option<usize>,
    // Closed connections whose peers may still be reading, and until when.
    lingering: VecDeque<(TcpStream, Instant)>,
    epoll: Epoll,
    config: TcpConfig,
    last_error: Option<(Option<usize>, NetError)>,
}

struct Listener {
    came_by: CameBy,
    takes_tls: bool,
    socket: TcpListener,
    address: SocketAddr,
    granted_bytes: usize,
    watched: bool,
}

impl TcpReceiver {
    /// Listens at each address; the index of an address is the number of its port everywhere.
    ///
    /// # Errors
    /// As [`TcpReceiver::listen`].
    ///
    /// # Panics
    /// As [`TcpReceiver::listen`].
    pub fn bind(addresses: &[SocketAddr], config: TcpConfig) -> Result<Self, NetError> {
        let port = |&address: &SocketAddr| TcpPort { addresses: vec![address], takes_tls: true };
        Self::listen(&addresses.iter().map(port).collect::<Vec<_>>(), config)
    }

    /// Listens at the addresses of each port.
    ///
    /// # Errors
    /// An address that cannot be bound, or an option without which a peer that is gone would not be
    /// noticed.
    ///
    /// # Panics
    /// A buffer of less than twice [`STREAM_BYTES_MIN`], or a port without an address.
    pub fn listen(ports: &[TcpPort], config: TcpConfig) -> Result<Self, NetError> {
        let TcpConfig { buffer_bytes, connections_max, socket_buffer_bytes, .. } = config;
        assert!(buffer_bytes >= BUFFER_BYTES_MIN, "a buffer of {buffer_bytes} bytes");
        let error = |source| NetError::Epoll { source };
        let count: usize = ports.iter().map(|port| port.addresses.len()).sum();
        let epoll = Epoll::new(count.saturating_add(connections_max)).map_err(error)?;
        let mut listeners = Vec::with_capacity(count);
        for (port, TcpPort { addresses, takes_tls }) in ports.iter().enumerate() {
            assert!(!addresses.is_empty(), "port {port} has no address");
            for (listener, &address) in addresses.iter().enumerate() {
                let came_by = CameBy { port, listener };
                let bound = Listener::bind(address, came_by, *takes_tls, socket_buffer_bytes)?;
                let number = LISTENERS + listeners.len();
                epoll.add(bound.socket.as_fd(), number).map_err(error)?;
                listeners.push(bound);
            }
        }
        let (connections, paused, last_error) = (Vec::new(), None, None);
        let (ports, lingering) = (ports.len(), VecDeque::new());
        Ok(Self { ports, listeners, connections, paused, lingering, epoll, config, last_error })
    }

    /// The first address at which port `port` takes connections, its port resolved if it was 0.
    ///
    /// # Panics
    /// A number beyond the ports.
    pub fn local_addr(&self, port: usize) -> SocketAddr {
        self.first(port).address
    }

    /// Where that port listens, in the order in which its addresses were given.
    pub fn addresses_of(&self, port: usize) -> impl Iterator<Item = SocketAddr> {
        let own = self.listeners.iter().filter(move |one| one.came_by.port == port);
        own.map(|listener| listener.address)
    }

    fn first(&self, port: usize) -> &Listener {
        let mut listeners = self.listeners.iter();
        listeners.find(|one| one.came_by.port == port).expect("a port has a listener")
    }

    /// Bytes of the system's buffer that each connection of port `port` gets.
    ///
    /// # Panics
    /// A number beyond the ports.
    pub fn granted_bytes(&self, port: usize) -> usize {
        self.first(port).granted_bytes
    }

    /// From now on, connections that open are received in this way.
    pub fn configure(&mut self, config: TcpConfig) {
        assert!(
            config.buffer_bytes >= BUFFER_BYTES_MIN,
            "a buffer of {} bytes",
            config.buffer_bytes
        );
        self.config = config;
    }

    /// Connections that are open, or whose end was not taken yet.
    pub fn connections(&self) -> usize {
        self.connections.iter().flatten().count()
    }

    /// What a thread can wait on for connections and their bytes.
    pub fn readiness(&self) -> Readiness {
        self.epoll.readiness()
    }

    /// Reads and drops what peers of lingering connections still send, until they have closed.
    fn linger(&mut self) {
        if self.lingering.is_empty() {
            return;
        }
        let (now, mut bytes) = (Instant::now(), [0; 4_096]);
        self.lingering.retain_mut(|(socket, until)| {
            let result = socket.read(&mut bytes);
            let is_open = match result {
                Ok(count) => count > 0,
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
            };
            is_open && now < *until
        });
    }

    /// Hands out everything that is due, until the sink has no more room.
    fn pass(&mut self, pass: &mut Pass<'_>) -> ControlFlow<()> {
        self.linger();
        for connection in self.connections.iter_mut().flatten() {
            connection.begin_pass(self.config.buffer_bytes);
            connection.flush(pass);
        }
        let paused = self.paused.take();
        if let Some(index) = paused {
            self.hand_out(index, pass)?;
        }
        // From there on: otherwise the first ones would take all room that there is.
        let first = paused.unwrap_or(0);
        for index in (first..self.connections.len()).chain(0..first) {
            let is_watched = self.connections[index].as_ref().is_none_or(Connection::is_watched);
            if !is_watched && Some(index) != paused {
                self.hand_out(index, pass)?;
            }
            // Of what TLS has read ahead the system says nothing.
            if self.connections[index].as_ref().is_some_and(Connection::has_more) {
                self.receive(index, pass)?;
            }
        }
        for listener in 0..self.listeners.len() {
            if !self.listeners[listener].watched {
                self.accept(listener, pass)?;
            }
        }
        let ready = self.epoll.ask().unwrap_or_else(|source| {
            pass.error = Some((None, NetError::Epoll { source }));
            0
        });
        if let Some(index) = paused {
            self.epoll.begin_behind(ready, self.ports + index);
        }
        for position in 0..ready {
            // From here on a connection is closed at its own entry only, so that no entry is of one
            // whose number is another's by now.
            let number = self.epoll.ready(position);
            match number.checked_sub(LISTENERS) {
                Some(listener) => self.accept(listener, pass)?,
                None => self.receive(number - self.ports, pass)?,
            }
        }
        ControlFlow::Continue(())
    }

    /// Takes a few connections from a listener.
    fn accept(&mut self, number: usize, pass: &mut Pass<'_>) -> ControlFlow<()> {
        for _ in 0..ACCEPTS_PER_PASS {
            let listener = &mut self.listeners[number];
            match listener.accept() {
                Ok((socket, sender)) => self.open(number, socket, sender, pass)?,
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    io::ErrorKind::WouldBlock => {
                        listener.watch(number, &self.epoll, pass);
                        return ControlFlow::Continue(());
                    }
                    _ => {
                        listener.leave(error, &self.epoll, pass);
                        return ControlFlow::Continue(());
                    }
                },
            }
        }
        pass.received.more = true;
        ControlFlow::Continue(())
    }

    fn open(
        &mut self,
        listener: usize,
        socket: TcpStream,
        sender: SocketAddr,
        pass: &mut Pass<'_>,
    ) -> ControlFlow<()> {
        let &Listener { came_by, takes_tls, address, .. } = &self.listeners[listener];
        let port = Some(came_by.port);
        let free = self.connections.iter().position(Option::is_none);
        let index = free.unwrap_or(self.connections.len());
        if index >= self.config.connections_max {
            let connections = self.connections();
            pass.error = Some((port, NetError::Connections { address, connections, sender }));
            return ControlFlow::Continue(());
        }
        let stream = match self.config.tls.as_ref().filter(|_| takes_tls) {
            None => Stream::plain(socket),
            Some(server) if self.config.takes_clear => Stream::either(socket, server),
            Some(server) => match Stream::accepted(socket, server) {
                Ok(stream) => stream,
                Err(error) => {
                    let source = io::Error::other(error);
                    pass.error = Some((port, NetError::Connection { sender, source }));
                    return ControlFlow::Continue(());
                }
            },
        };
        let (endpoint, buffer_bytes) = (self.ports + index, self.config.buffer_bytes);
        let connection = Connection::new(stream, sender, came_by, endpoint, buffer_bytes);
        match self.connections.get_mut(index) {
            Some(free) => *free = Some(connection),
            None => self.connections.push(Some(connection)),
        }
        self.hand_out(index, pass)
    }

    /// Reads a connection, a buffer's worth at most, and hands out what comes.
    fn receive(&mut self, index: usize, pass: &mut Pass<'_>) -> ControlFlow<()> {
        loop {
            let connection = self.connections.get_mut(index).and_then(Option::as_mut);
            let Some(connection) = connection.filter(|connection| connection.is_watched()) else {
                return ControlFlow::Continue(());
            };
            if connection.is_dry() {
                return ControlFlow::Continue(());
            }
            if connection.is_spent() {
                pass.received.more = true;
                return ControlFlow::Continue(());
            }
            if !connection.read(pass) {
                return ControlFlow::Continue(());
            }
            self.hand_out(index, pass)?;
        }
    }

    /// Hands out what a connection has.
    fn hand_out(&mut self, index: usize, pass: &mut Pass<'_>) -> ControlFlow<()> {
        let Some(connection) = &mut self.connections[index] else {
            return ControlFlow::Continue(());
        };
        match connection.hand_out(pass) {
            Stop::Drained => connection.watch(true, &self.epoll, pass),
            Stop::Held => {
                pass.received.held = true;
                connection.watch(false, &self.epoll, pass);
            }
            Stop::Paused => {
                pass.received.paused = true;
                self.paused = Some(index);
                return ControlFlow::Break(());
            }
            Stop::Closed => {
                connection.watch(false, &self.epoll, pass);
                if let Some(socket) = self.connections[index].take().and_then(Connection::linger) {
                    self.lingering.push_back((socket, Instant::now() + LINGER));
                    if self.lingering.len() > self.config.connections_max {
                        self.lingering.pop_front();
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }
}

impl Egress for TcpReceiver {
    fn answer(&mut self, endpoint: usize, write: &mut dyn FnMut(&mut Vec<u8>)) {
        if let Some(connection) = open(&mut self.connections, self.ports, endpoint) {
            connection.answer(write);
        }
    }

    fn close(&mut self, endpoint: usize) {
        if let Some(connection) = open(&mut self.connections, self.ports, endpoint)
            && let Err(source) = connection.close(&self.epoll)
        {
            self.last_error = Some((None, NetError::Epoll { source }));
        }
    }
}

/// The open connection with that number, behind so many ports.
fn open(
    connections: &mut [Option<Connection>],
    ports: usize,
    endpoint: usize,
) -> Option<&mut Connection> {
    connections.get_mut(endpoint.checked_sub(ports)?)?.as_mut()
}

impl Ingress for TcpReceiver {
    fn poll(&mut self, sink: &mut dyn FnMut(Arrival<'_>) -> Flow) -> Received {
        let mut pass = Pass { sink, received: Received::default(), error: None };
        // Whether it ended early stands in what was received.
        let _flow = self.pass(&mut pass);
        let Pass { received, error, .. } = pass;
        if error.is_some() {
            self.last_error = error;
        }
        received
    }

    fn end(&mut self, f: &mut dyn FnMut(usize, &[u8]) -> bool) {
        let ports = self.ports;
        for (index, connection) in self.connections.iter_mut().enumerate() {
            let is_closed = |open: &mut Connection| f(ports + index, open.untaken());
            drop(connection.take_if(is_closed));
        }
        self.paused = None;
    }

    fn lingers(&self) -> bool {
        !self.lingering.is_empty()
    }

    fn take_error(&mut self) -> Option<(Option<usize>, String)> {
        self.last_error.take().map(|(port, error)| (port, error.to_string()))
    }
}

impl std::fmt::Debug for TcpReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TcpReceiver")
            .field("ports", &self.ports)
            .field("connections", &self.connections())
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Listener {
    /// Listens; the socket's options are those of the connections that it will take.
    fn bind(
        address: SocketAddr,
        came_by: CameBy,
        takes_tls: bool,
        buffer_bytes: usize,
    ) -> Result<Self, NetError> {
        let error = |source| NetError::Bind { address, source };
        // With SO_REUSEADDR, closed on exec, and 128 connections that wait.
        let socket = TcpListener::bind(address).map_err(error)?;
        socket.set_nonblocking(true).map_err(error)?;
        let granted_bytes = ask_buffer(&socket, Buffer::Receive, buffer_bytes)
            .map_err(|source| NetError::Option { option: "SO_RCVBUF", source })?;
        for (option, level, name, value) in [
            ("SO_KEEPALIVE", libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
            ("TCP_KEEPIDLE", libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, KEEPALIVE_IDLE_S),
            ("TCP_KEEPINTVL", libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S),
            ("TCP_KEEPCNT", libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEPALIVE_COUNT),
            ("TCP_USER_TIMEOUT", libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, ANSWER_TAKEN_WITHIN_MS),
            ("TCP_NODELAY", libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
        ] {
            set(socket.as_fd(), level, name, value)
                .map_err(|source| NetError::Option { option, source })?;
        }
        let address = socket.local_addr().map_err(error)?;
        Ok(Self { came_by, takes_tls, socket, address, granted_bytes, watched: true })
    }

    /// Takes one connection, whose socket then does not wait, and names its peer, with an address
    /// of IP version 4 where that is what it stands for.
    fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, sender) = self.socket.accept()?;
        socket.set_nonblocking(true)?;
        Ok((socket, SocketAddr::new(sender.ip().to_canonical(), sender.port())))
    }

    /// Has epoll say again when a connection waits. One that cannot be watched is left alone.
    fn watch(&mut self, number: usize, epoll: &Epoll, pass: &mut Pass<'_>) {
        if self.watched {
            return;
        }
        match epoll.add(self.socket.as_fd(), LISTENERS + number) {
            Ok(()) => self.watched = true,
            Err(source) => {
                pass.error = Some((Some(self.came_by.port), NetError::Epoll { source }));
            }
        }
    }

    /// The connection that waits cannot be taken now: reported once, then tried at every poll.
    #[cold]
    fn leave(&mut self, source: io::Error, epoll: &Epoll, pass: &mut Pass<'_>) {
        if !self.watched {
            return;
        }
        self.watched = false;
        let error = match epoll.remove(self.socket.as_fd()) {
            Ok(()) => NetError::Accept { address: self.address, source },
            Err(source) => NetError::Epoll { source },
        };
        pass.error = Some((Some(self.came_by.port), error));
    }
}

/// Listeners have numbers from here on for epoll, and connections those of their endpoints.
const LISTENERS: usize = 1 << 32;

/// How long a closed connection lingers at most.
const LINGER: Duration = Duration::from_secs(1);

/// Connections that one port takes in one pass.
const ACCEPTS_PER_PASS: usize = 16;

/// A buffer in which, whatever was taken before, something can be taken.
const BUFFER_BYTES_MIN: usize = 2 * STREAM_BYTES_MIN;

/// A peer counts as gone after 1 s of silence and two unanswered keepalive probes, 1 s apart.
const KEEPALIVE_IDLE_S: i32 = 1;
const KEEPALIVE_INTERVAL_S: i32 = 1;
const KEEPALIVE_COUNT: i32 = 2;

/// A peer also counts as gone when it has taken nothing of an answer for so long.
const ANSWER_TAKEN_WITHIN_MS: i32 = 3_000;
