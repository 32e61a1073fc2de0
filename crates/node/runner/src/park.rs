//! What a thread sleeps on.

use std::sync::Arc;
use std::time::Duration;

use catchment_agent::Waker;
use catchment_disk::DiskSleeper;
use catchment_net::Readiness;
use parking_lot::{Condvar, Mutex};

/// Something that a thread can sleep on until it is woken. It may also wake early.
pub trait Park: Send {
    /// Sleeps until woken, for that long at most.
    fn park(&mut self, timeout: Duration);
}

/// Sleeps for the whole time: for agents that are never woken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sleep;

impl Park for Sleep {
    fn park(&mut self, timeout: Duration) {
        std::thread::sleep(timeout);
    }
}

/// Woken by other agents. Several threads may sleep on one; a wake-up then wakes one of them.
#[derive(Clone, Debug, Default)]
pub struct Signal(Arc<(Mutex<bool>, Condvar)>);

impl Signal {
    /// What wakes a thread that sleeps on it, or the next one that wants to.
    pub fn waker(&self) -> Waker {
        let signal = self.clone();
        Waker::new(move || {
            let (pending, condvar) = &*signal.0;
            *pending.lock() = true;
            condvar.notify_one();
        })
    }
}

impl Park for Signal {
    fn park(&mut self, timeout: Duration) {
        let (pending, condvar) = &*self.0;
        let mut pending = pending.lock();
        if !*pending {
            // Woken or not, the agent looks at everything again.
            let _timed_out = condvar.wait_for(&mut pending, timeout);
        }
        *pending = false;
    }
}

impl Park for DiskSleeper {
    fn park(&mut self, timeout: Duration) {
        self.sleep(timeout);
    }
}

impl Park for Readiness {
    fn park(&mut self, timeout: Duration) {
        self.wait(timeout);
    }
}
