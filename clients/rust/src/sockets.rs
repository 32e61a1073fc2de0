//! Sockets that never wait, and the one place where the client's thread does.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use catchment_net::{Stream, TlsClient};
use catchment_sender::Slices;

/// By which other threads end the wait of the client's thread.
#[derive(Debug)]
pub(crate) struct Waker {
    read: UnixStream,
    write: UnixStream,
}

impl Waker {
    pub fn new() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        Ok(Self { read, write })
    }

    /// Ends the wait that is under way, or the next one.
    pub fn wake(&self) {
        // A pipe that is full wakes as well.
        let _full = (&self.write).write(&[1]);
    }

    /// Takes note that it was woken.
    pub fn drain(&self) {
        let mut bytes = [0; 64];
        while matches!((&self.read).read(&mut bytes), Ok(64)) {}
    }

    pub fn descriptor(&self) -> RawFd {
        self.read.as_raw_fd()
    }
}

/// A connection to the recorder.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    /// The system had no room: it is waited for.
    pub is_blocked: bool,
}

impl Socket {
    /// Connects, under TLS if a host and what is trusted are given, and waits for that.
    pub fn connect(
        address: SocketAddr,
        tls: Option<(&TlsClient, &str)>,
        timeout: Duration,
    ) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, timeout)?;
        socket.set_nodelay(true)?;
        let stream = match tls {
            Some((client, host)) => {
                socket.set_read_timeout(Some(timeout))?;
                socket.set_write_timeout(Some(timeout))?;
                Stream::connected(socket, client, host)?
            }
            None => {
                socket.set_nonblocking(true)?;
                Stream::plain(socket)
            }
        };
        Ok(Self { stream, is_blocked: false })
    }

    /// There may be room again: writes what waits here, if anything.
    pub fn unblock(&mut self) -> io::Result<()> {
        self.is_blocked = !self.stream.flush()?;
        Ok(())
    }

    /// Writes what there is room for.
    pub fn write(&mut self, slices: &Slices<'_>) -> io::Result<usize> {
        let slices = slices.0.map(IoSlice::new);
        match self.stream.write_vectored(&slices) {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => {
                // What TLS has taken and the system has not must be written, too.
                self.unblock()?;
                Ok(bytes)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_blocked = true;
                Ok(0)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Reads what there is: nothing, or an end of the stream as an error.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stream.read(buffer) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, CLOSED)),
            Ok(bytes) => Ok(bytes),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            },
        }
    }

    pub fn descriptor(&self) -> RawFd {
        self.stream.as_fd().as_raw_fd()
    }
}

const CLOSED: &str = "the recorder has closed the connection";

/// What to wait for at one descriptor.
pub(crate) fn interest(descriptor: RawFd, is_blocked: bool) -> libc::pollfd {
    let events = if is_blocked { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
    libc::pollfd { fd: descriptor, events, revents: 0 }
}

/// Waits until something is ready, for a time at most.
pub(crate) fn wait(descriptors: &mut [libc::pollfd], timeout: Duration) {
    let timeout = libc::timespec {
        tv_sec: timeout.as_secs().min(WAIT_S_MAX) as libc::time_t,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let count = descriptors.len() as libc::nfds_t;
    // SAFETY: the descriptors are a slice of `count`, the time is on the stack, and no signal mask
    // is given. Whatever it returns, the sockets are asked themselves.
    let _ready =
        unsafe { libc::ppoll(descriptors.as_mut_ptr(), count, &timeout, std::ptr::null()) };
}

const WAIT_S_MAX: u64 = 3_600;
