//! Which sockets have something to read: the system's epoll, asked without waiting by the agent
//! that reads, and waited on by the thread that runs it.
//!
//! Level-triggered: a socket is named until everything is read. One that is not to be read for a
//! while must therefore be removed. No other interest would do: the system reports hang-ups and
//! errors whatever was asked for, and a thread that waits would spin on them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::NetError;

/// Sockets that are watched, each under a number.
#[derive(Debug)]
pub(crate) struct Epoll {
    readiness: Readiness,
    ready: Box<[libc::epoll_event]>,
}

impl Epoll {
    /// Makes one for so many sockets.
    pub fn new(sockets: usize) -> io::Result<Self> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nothing else owns.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let ready = vec![libc::epoll_event { events: 0, u64: 0 }; sockets.clamp(1, READY_MAX)];
        Ok(Self { readiness: Readiness(Arc::new(epoll)), ready: ready.into() })
    }

    /// Watches a socket, under that number.
    pub fn add(&self, fd: BorrowedFd<'_>, number: usize) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, number)
    }

    /// Watches a descriptor for edges in both directions: what comes, and room that it has again.
    pub fn add_edges(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
        self.control_for(libc::EPOLL_CTL_ADD, fd, (events, 0))
    }

    /// Watches a socket no longer.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0)
    }

    /// Asks which sockets have something, without waiting: how many, some of them if they are many.
    pub fn ask(&mut self) -> io::Result<usize> {
        // SAFETY: the list is writable for the length given.
        let count = unsafe {
            let (list, length) = (self.ready.as_mut_ptr(), self.ready.len() as i32);
            libc::epoll_wait(self.readiness.0.as_raw_fd(), list, length, 0)
        };
        match usize::try_from(count) {
            Ok(count) => Ok(count),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                error => Err(error),
            },
        }
    }

    /// The number of socket `position` of those that had something when last asked.
    ///
    /// # Panics
    /// A position beyond those that one call can name.
    #[inline]
    pub fn ready(&self, position: usize) -> usize {
        self.ready[position].u64 as usize
    }

    /// Puts the first `count` of those that had something when last asked in the order of their
    /// numbers, from the one behind `number` on. That one, for which there was no room, goes last.
    pub fn begin_behind(&mut self, count: usize, number: usize) {
        let number = number as u64;
        self.ready[..count].sort_unstable_by_key(|event| (event.u64 <= number, event.u64));
    }

    /// What a thread can wait on for the sockets.
    pub fn readiness(&self) -> Readiness {
        self.readiness.clone()
    }

    fn control(&self, operation: i32, fd: BorrowedFd<'_>, number: usize) -> io::Result<()> {
        self.control_for(operation, fd, (libc::EPOLLIN, number))
    }

    fn control_for(
        &self,
        operation: i32,
        fd: BorrowedFd<'_>,
        (events, number): (i32, usize),
    ) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: number as u64 };
        // SAFETY: both descriptors are open, and the event lives through the call.
        let result = unsafe {
            let epoll = self.readiness.0.as_raw_fd();
            libc::epoll_ctl(epoll, operation, fd.as_raw_fd(), &mut event)
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Says when some socket of a receiver, or of several, has something. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<OwnedFd>);

impl Readiness {
    /// One that has something when any of these has, as long as their receivers are there.
    ///
    /// # Errors
    /// The system has no descriptor left; one of these is named twice; or they are made of others
    /// in turn, more levels deep than the system allows (four).
    pub fn all(parts: &[Self]) -> Result<Self, NetError> {
        let error = |source| NetError::Epoll { source };
        let epoll = Epoll::new(parts.len()).map_err(error)?;
        for (number, part) in parts.iter().enumerate() {
            epoll.add(part.0.as_fd(), number).map_err(error)?;
        }
        Ok(epoll.readiness())
    }

    /// Waits until some socket has something, for that long at most, rounded up to milliseconds.
    /// Whether one has; whoever only sleeps on it looks at the sockets again in any case.
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let timeout_ms = timeout.as_micros().div_ceil(1_000).min(i32::MAX as u128) as i32;
        // SAFETY: one writable event. A signal ends the wait with nothing ready.
        unsafe { libc::epoll_wait(self.0.as_raw_fd(), &mut event, 1, timeout_ms) > 0 }
    }
}

/// Adds to an eventfd, which is an edge for whoever waits on it.
pub(crate) fn write_event(event: BorrowedFd<'_>) {
    let one = 1_u64;
    // SAFETY: eight readable bytes. One that is full has woken whoever waits.
    let _written = unsafe { libc::write(event.as_raw_fd(), (&raw const one).cast(), 8) };
}

/// Sockets that are named at once; with more, they take turns.
const READY_MAX: usize = 1_024;
