//! Counters that one thread writes and others read while it runs; the clock and the priorities of
//! threads.
//!
//! [`LiveLedger`]: the ledger's counts; [`FillLevel`]: a bounded queue or pool as two counters, in
//! and out; [`ThreadTimes`]: the CPU time of named threads. Writers do one relaxed atomic addition
//! per batch, never per packet; a reader's snapshot is consistent only once writers are at rest.

mod clock;
mod fill;
mod ledger;
mod priority;
mod threads;

pub use clock::{Clock, utc_now};
pub use fill::FillLevel;
pub use ledger::LiveLedger;
pub use priority::{Priority, nice, set_nice};
pub use threads::{ThreadTime, ThreadTimes, cpu_shares};
