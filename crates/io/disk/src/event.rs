//! The event on which a disk's owner sleeps.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Wakes a thread in [`DiskSleeper::sleep`], so that one thread can wait for its disk and for work
/// from elsewhere. Cheap to clone; a wake costs one system call, so wake once per batch.
#[derive(Clone, Debug)]
pub struct Waker {
    event: Arc<Event>,
}

impl Waker {
    pub(crate) fn new(event: Arc<Event>) -> Self {
        Self { event }
    }

    pub(crate) fn event(&self) -> Arc<Event> {
        Arc::clone(&self.event)
    }

    /// Ends the present wait, or otherwise the next one.
    pub fn wake(&self) {
        self.event.signal();
    }
}

/// The handle with which a thread sleeps that owns a disk, or several that were made beside each
/// other.
#[derive(Clone, Debug)]
pub struct DiskSleeper {
    event: Arc<Event>,
}

impl DiskSleeper {
    /// For a thread whose disks are still to be made, beside its [`waker`](Self::waker).
    ///
    /// # Errors
    /// The system has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self::of(Arc::new(Event::new()?)))
    }

    pub(crate) fn of(event: Arc<Event>) -> Self {
        Self { event }
    }

    /// The handle with which other threads wake this one.
    pub fn waker(&self) -> Waker {
        Waker::new(Arc::clone(&self.event))
    }

    /// Sleeps until something has completed, until [`Waker::wake`], or until the time is over.
    pub fn sleep(&self, timeout: Duration) {
        let is_impatient = self.event.impatient.load(Relaxed) > 0;
        let most = if is_impatient { IMPATIENT } else { timeout };
        // Whether signalled or not, the caller checks everything again.
        let _signalled = self.event.wait(timeout.min(most));
    }
}

/// The longest sleep while something may complete without an event.
pub(crate) const IMPATIENT: Duration = Duration::from_millis(1);

/// An eventfd: io_uring, the portable engine and the helpers signal it; the owner sleeps on it.
#[derive(Debug)]
pub(crate) struct Event {
    fd: OwnedFd,
    /// Disks of which something may complete without an event.
    impatient: AtomicUsize,
}

impl Event {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just made and has no other owner.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, impatient: AtomicUsize::new(0) })
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Something of one more disk may complete without an event, or of one less.
    pub(crate) fn set_impatient(&self, is_impatient: bool) {
        match is_impatient {
            true => self.impatient.fetch_add(1, Relaxed),
            false => self.impatient.fetch_sub(1, Relaxed),
        };
    }

    pub(crate) fn signal(&self) {
        let one = 1_u64;
        // SAFETY: `one` is eight readable bytes, as an eventfd requires.
        let written = unsafe { libc::write(self.raw(), (&raw const one).cast(), 8) };
        // The write fails only when the counter is full, and then the event is already signalled.
        debug_assert!(written == 8 || written == -1);
    }

    /// Sleeps until signalled or until the time is over, and clears the signal. True if signalled.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let mut poll = libc::pollfd { fd: self.raw(), events: libc::POLLIN, revents: 0 };
        let time = libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        // SAFETY: one valid pollfd, a valid timespec, and no signal mask.
        let ready = unsafe { libc::ppoll(&mut poll, 1, &time, std::ptr::null()) };
        // An interruption by a signal (EINTR) looks like a time-out: callers check again anyway.
        if ready <= 0 {
            return false;
        }
        let mut count = 0_u64;
        // SAFETY: `count` is eight writable bytes, as an eventfd requires.
        let read = unsafe { libc::read(self.raw(), (&raw mut count).cast(), 8) };
        read == 8
    }
}
