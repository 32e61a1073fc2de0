//! What one thread counts and others look at while it goes on.
//!
//! [`LiveLedger`]: the ledger's counts; [`FillLevel`]: a bounded queue or pool as two counters, in
//! and out; [`ThreadTimes`]: the CPU time of named threads. Writers pay a relaxed atomic addition
//! per batch, never per packet; readers take a snapshot that is consistent only once writers are at
//! rest.

mod fill;
mod ledger;
mod threads;

pub use fill::FillLevel;
pub use ledger::LiveLedger;
pub use threads::{ThreadTime, ThreadTimes};
