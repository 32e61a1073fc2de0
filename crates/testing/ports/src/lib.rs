//! Ports in memory, for tests that step agents in one thread and in virtual time: what arrives
//! comes from a queue, what is written goes to memory and takes its time, and all chance comes from
//! a seed.

pub mod conformance;
mod files;
mod ingress;
mod store;
mod store_faults;

pub use files::MemoryFiles;
pub use ingress::{QueueIngress, Queues};
pub use store::{MemoryBuffer, MemoryStore, StoreWatch};
pub use store_faults::{StoreFault, StoreFaults, StoreTimes};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Time that passes when a test says so. Clones show the same time.
#[derive(Clone, Debug)]
pub struct VirtualClock(Arc<AtomicU64>);

impl VirtualClock {
    /// A clock that shows that time.
    pub fn at(now_ns: u64) -> Self {
        Self(Arc::new(AtomicU64::new(now_ns)))
    }

    /// Now.
    pub fn now_ns(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Lets time pass up to then; it never goes back.
    pub fn advance_to(&self, now_ns: u64) {
        self.0.fetch_max(now_ns, Relaxed);
    }
}
