//! Agents and their ports.
//!
//! An [`Agent`] is a state machine with a duty cycle: it is given the time, does what can be done
//! now, and returns. It has no thread, and never sleeps, waits or asks the system for the time;
//! what it must wait for is part of its state. What it touches of the world are *ports*: an
//! [`Ingress`] hands out what arrives, a [`Store`] takes files, an [`Entropy`] gives random bits. A
//! runner puts agents on threads; a simulator steps all of them in one thread, in virtual time.
//!
//! Invariants:
//! - One call of [`Agent::work`] does a bounded amount of work.
//! - An agent that returns a time to be called again needs no other wake-up than that time, or one
//!   by the [`Waker`] that its peers hold.

mod ingress;
mod read_at;
mod store;

use std::fmt;
use std::io;
use std::sync::Arc;

pub use ingress::{Arrival, Flow, Ingress, Received};
pub use read_at::{FailedRead, ReadAt};
pub use store::{
    Completion, CompletionKind, FileEnd, FileId, FolderStore, NewFile, OpenError, Presence, Store,
};

/// A state machine with a duty cycle.
pub trait Agent: Send {
    /// Does what there is to do at `now_ns`: nanoseconds of a clock that never goes back.
    fn work(&mut self, now_ns: u64) -> Work;
}

impl<A: Agent + ?Sized> Agent for Box<A> {
    fn work(&mut self, now_ns: u64) -> Work {
        (**self).work(now_ns)
    }
}

/// What one duty cycle came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// How much was done: 0 if there was nothing to do. The unit is the agent's.
    pub done: u64,
    /// When to call again at the latest; a time that has passed means at once.
    pub wake_at_ns: u64,
    /// Whether a call before that time would find nothing to do, whatever has arrived.
    pub is_blocked: bool,
    /// Whether the agent has ended. It is not called again, but dropped, which its peers may see.
    pub ended: bool,
}

impl Work {
    /// There is, or may be, more to do at once.
    pub fn again(done: u64) -> Self {
        Self { done, wake_at_ns: 0, is_blocked: false, ended: false }
    }

    /// Nothing more can be done before that time, unless the agent is woken.
    pub fn until(done: u64, wake_at_ns: u64) -> Self {
        Self { done, wake_at_ns, is_blocked: false, ended: false }
    }

    /// Nothing more can be done before that time, whatever arrives: others need the CPU meanwhile.
    pub fn blocked_until(done: u64, wake_at_ns: u64) -> Self {
        Self { is_blocked: true, ..Self::until(done, wake_at_ns) }
    }

    /// Nothing more can be done before the agent is woken.
    pub fn until_woken(done: u64) -> Self {
        Self::until(done, u64::MAX)
    }

    /// The agent has ended.
    pub fn ended() -> Self {
        Self { done: 1, wake_at_ns: 0, is_blocked: false, ended: true }
    }
}

/// Wakes an agent that others have given something to do. Cheap to clone; without a runner that
/// sleeps, as in a simulation, it does nothing.
#[derive(Clone, Default)]
pub struct Waker(Option<Arc<dyn Fn() + Send + Sync>>);

impl Waker {
    /// A waker that calls `wake`.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(wake)))
    }

    /// Has the agent called again soon.
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
    /// The system has none.
    fn random_u64(&mut self) -> io::Result<u64>;
}
