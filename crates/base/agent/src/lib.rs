//! Agents and their ports.
//!
//! An [`Agent`] is a state machine with a duty cycle: it gets the time as an argument, does the
//! work that is possible now, and returns. It has no thread, and never sleeps, waits or reads the
//! clock; pending waits are part of its state. It reaches the outside through *ports*: an
//! [`Ingress`] delivers datagrams and the bytes of connections, an [`Egress`] answers connections,
//! a [`Dial`] makes connections, a [`Store`] writes files, an [`Entropy`] gives random bits. A
//! runner puts agents on threads; a simulator steps all of them in one thread, in virtual time.
//!
//! Invariants:
//! - One call of [`Agent::work`] does a bounded amount of work.
//! - An agent that returns a time for its next call needs no wake-up other than that time, or one
//!   by the [`Waker`] that its peers hold.

mod dial;
mod egress;
mod ingress;
mod read_at;
mod store;

use std::fmt;
use std::io;
use std::sync::Arc;

pub use dial::Dial;
pub use egress::{ANSWER_BYTES_MAX, Egress};
pub use ingress::{Arrival, Datagrams, Flow, Incoming, Ingress, Piece, Received, STREAM_BYTES_MIN};
pub use read_at::{FailedRead, ReadAt};
pub use store::{
    Completion, CompletionKind, FileEnd, FileId, FolderStore, NewFile, OpenError, Presence, Store,
};

/// A state machine with a duty cycle.
pub trait Agent: Send {
    /// Does the work that is possible at `now_ns`: nanoseconds of a clock that never goes back.
    fn work(&mut self, now_ns: u64) -> Work;
}

impl<A: Agent + ?Sized> Agent for Box<A> {
    fn work(&mut self, now_ns: u64) -> Work {
        (**self).work(now_ns)
    }
}

/// The result of one duty cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// How much was done: 0 if there was nothing to do. The unit depends on the agent.
    pub done: u64,
    /// When to call again at the latest; a time in the past means at once.
    pub wake_at_ns: u64,
    /// Whether a call before that time would find nothing to do, whatever has arrived.
    pub is_blocked: bool,
    /// Whether the agent has ended. It is dropped instead of being called again, which its peers
    /// may notice.
    pub ended: bool,
}

impl Work {
    /// There is, or may be, more work to do at once.
    pub fn again(done: u64) -> Self {
        Self { done, wake_at_ns: 0, is_blocked: false, ended: false }
    }

    /// No more work is possible before that time, unless the agent is woken.
    pub fn until(done: u64, wake_at_ns: u64) -> Self {
        Self { done, wake_at_ns, is_blocked: false, ended: false }
    }

    /// No more work is possible before that time, whatever arrives: other threads need the CPU
    /// until then.
    pub fn blocked_until(done: u64, wake_at_ns: u64) -> Self {
        Self { is_blocked: true, ..Self::until(done, wake_at_ns) }
    }

    /// No more work is possible before the agent is woken.
    pub fn until_woken(done: u64) -> Self {
        Self::until(done, u64::MAX)
    }

    /// The agent has ended.
    pub fn ended() -> Self {
        Self { done: 1, wake_at_ns: 0, is_blocked: false, ended: true }
    }
}

/// Wakes an agent that has new work. Cheap to clone; it does nothing if the runner does not sleep,
/// as in a simulation.
#[derive(Clone, Default)]
pub struct Waker(Option<Arc<dyn Fn() + Send + Sync>>);

impl Waker {
    /// A waker that calls `wake`.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(wake)))
    }

    /// Requests that the agent be called again soon.
    pub fn wake(&self) {
        if let Some(wake) = &self.0 {
            wake();
        }
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Waker").field(&self.0.is_some()).finish()
    }
}

/// Random bits.
pub trait Entropy: Send {
    /// 64 random bits.
    ///
    /// # Errors
    /// The system has no source of random bits.
    fn random_u64(&mut self) -> io::Result<u64>;
}
