//! A TCP connection that never waits, in the clear or under TLS, or either: then its first byte
//! tells which.

use std::io::{self, IoSlice, Read, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, Connection, ServerConnection};

use crate::certificates::{LINK_PROTOCOL, TlsClient, TlsError, TlsServer};

/// Bytes of memory that TLS takes for a connection, at most.
pub const TLS_BYTES: usize = CIPHER_BYTES + SENDABLE_BYTES + 64 * 1024;

/// A connection whose socket does not wait: what cannot be read or written now is
/// [`WouldBlock`](io::ErrorKind::WouldBlock).
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    tls: Option<Box<Tls>>,
    /// The certificate of one whose first byte has not come, and may begin TLS.
    either: Option<TlsServer>,
}

#[derive(Debug)]
struct Tls {
    connection: Connection,
    /// What the socket brought and the connection has not taken. rustls takes 4 KiB at a time: a
    /// system call for each would be most of the cost.
    cipher: Box<[u8]>,
    begin: usize,
    end: usize,
}

impl Stream {
    /// In the clear. The socket must not wait.
    pub fn plain(socket: TcpStream) -> Self {
        Self { socket, tls: None, either: None }
    }

    /// Under TLS or in the clear, as the first byte tells that the other side sends. The socket
    /// must not wait.
    pub fn either(socket: TcpStream, server: &TlsServer) -> Self {
        Self { socket, tls: None, either: Some(server.clone()) }
    }

    /// Under TLS, on the side that was connected to. The socket must not wait; the handshake goes
    /// on as the stream is read.
    ///
    /// # Errors
    /// None that is known: rustls may refuse its configuration.
    pub fn accepted(socket: TcpStream, server: &TlsServer) -> Result<Self, TlsError> {
        let connection = ServerConnection::new(server.config())?;
        Ok(Self::with(socket, connection.into()))
    }

    /// Whether it is under TLS, as far as that is known.
    pub fn is_secured(&self) -> bool {
        self.tls.is_some()
    }

    /// Finds out what it is. The byte that tells stays where it is.
    fn tell(&mut self) -> io::Result<()> {
        let Some(server) = &self.either else { return Ok(()) };
        let mut first = [0];
        let is_tls = self.socket.peek(&mut first)? > 0 && first[0] == TLS_HANDSHAKE;
        if is_tls {
            let connection = ServerConnection::new(server.config()).map_err(io::Error::other)?;
            self.tls = Some(Tls::boxed(connection.into()));
        }
        self.either = None;
        Ok(())
    }

    /// Under TLS, on the side that has connected to `host`: waits for the handshake, as long as the
    /// socket's time-outs say. The socket does not wait afterwards.
    ///
    /// # Errors
    /// A certificate that is not trusted, or not of that host; or the connection ends.
    pub fn connected(socket: TcpStream, client: &TlsClient, host: &str) -> io::Result<Self> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| io::Error::other(TlsError::Host(host.to_owned())))?;
        let connection = ClientConnection::new(client.0.clone(), name).map_err(io::Error::other)?;
        let mut stream = Self::with(socket, connection.into());
        if let Some(tls) = &mut stream.tls {
            while tls.connection.is_handshaking() {
                tls.connection.complete_io(&mut stream.socket)?;
            }
        }
        stream.socket.set_nonblocking(true)?;
        Ok(stream)
    }

    fn with(socket: TcpStream, connection: Connection) -> Self {
        Self { socket, tls: Some(Tls::boxed(connection)), either: None }
    }

    /// Writes what there is room for, which may still wait here: see [`flush`](Self::flush).
    ///
    /// # Errors
    /// As [`Write::write_vectored`](io::Write::write_vectored).
    pub fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        // Before its first byte has come it may be either, and nothing is written in the clear.
        self.tell()?;
        let Some(tls) = &mut self.tls else { return self.socket.write_vectored(slices) };
        if !tls.flush(&mut self.socket)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let bytes = tls.connection.writer().write_vectored(slices)?;
        tls.flush(&mut self.socket)?;
        match bytes {
            0 if slices.iter().any(|slice| !slice.is_empty()) => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            bytes => Ok(bytes),
        }
    }

    /// Passes what waits here to the system, and returns whether nothing is left.
    ///
    /// # Errors
    /// The connection's end.
    pub fn flush(&mut self) -> io::Result<bool> {
        self.tls.as_mut().map_or(Ok(true), |tls| tls.flush(&mut self.socket))
    }

    /// Whether bytes have been read from the socket that nobody has read from here.
    pub fn has_more(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.begin < tls.end || !tls.connection.wants_read())
    }

    /// Says that nothing more is written, as far as the socket takes it, and returns that.
    ///
    /// # Errors
    /// The connection's end.
    pub fn into_closing(mut self) -> io::Result<TcpStream> {
        if let Some(tls) = &mut self.tls {
            tls.connection.send_close_notify();
            tls.flush(&mut self.socket)?;
        }
        self.socket.shutdown(Shutdown::Write)?;
        Ok(self.socket)
    }
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.tell()?;
        match &mut self.tls {
            None => self.socket.read(room),
            Some(tls) => tls.read(&mut self.socket, room),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Tls {
    fn boxed(mut connection: Connection) -> Box<Self> {
        connection.set_buffer_limit(Some(SENDABLE_BYTES));
        let cipher = vec![0; CIPHER_BYTES].into();
        Box::new(Self { connection, cipher, begin: 0, end: 0 })
    }

    /// Reads until there is no room, or nothing to read. A connection that is cut off ends as one
    /// that is closed: what runs over it says where it ends.
    fn read(&mut self, socket: &mut TcpStream, room: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        loop {
            self.check_protocol()?;
            match self.connection.reader().read(&mut room[filled..]) {
                Ok(0) => return Ok(filled),
                Ok(bytes) => filled += bytes,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {}
                    io::ErrorKind::UnexpectedEof => return Ok(filled),
                    _ => return Err(error),
                },
            }
            if filled == room.len() {
                return Ok(filled);
            }
            match self.advance(socket) {
                Ok(()) => {}
                // What came before is not lost; the next read finds the error, or the end.
                Err(_) if filled > 0 => return Ok(filled),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whoever was connected to takes nothing of a client that names no protocol: rustls refuses
    /// those that name others alone.
    fn check_protocol(&self) -> io::Result<()> {
        let Connection::Server(server) = &self.connection else { return Ok(()) };
        if server.is_handshaking() || server.alpn_protocol() == Some(LINK_PROTOCOL) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "TLS without ALPN catchment/1"))
    }

    /// Takes bytes of the socket, and answers for the handshake.
    fn advance(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        if self.begin == self.end {
            (self.begin, self.end) = (0, 0);
            self.end = socket.read(&mut self.cipher)?;
        }
        // No bytes are the socket's end, which the connection has to know.
        let mut bytes = &self.cipher[self.begin..self.end];
        let taken = self.connection.read_tls(&mut bytes)?;
        self.begin += taken;
        let processed = self.connection.process_new_packets();
        self.flush(socket)?;
        processed.map(drop).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Passes what waits to the system, and returns whether nothing is left.
    fn flush(&mut self, socket: &mut TcpStream) -> io::Result<bool> {
        while self.connection.wants_write() {
            match self.connection.write_tls(socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock => return Ok(false),
                    _ => return Err(error),
                },
            }
        }
        Ok(true)
    }
}

/// The first byte of a TLS connection: its first record is of the handshake.
const TLS_HANDSHAKE: u8 = 0x16;
/// Bytes that one read of the socket may bring.
const CIPHER_BYTES: usize = 64 * 1024;
/// Bytes that may wait for the system's room.
const SENDABLE_BYTES: usize = 256 * 1024;
