//! The clock of a node.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use catchment_model::Utc;

/// Nanoseconds since 1970 (UTC) that never go back: the wall clock at the start, advanced by the
/// monotonic clock, so setting the machine's clock moves no time-out.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    start_ns: u64,
}

impl Clock {
    /// A clock that begins at the machine's time.
    pub fn start() -> Self {
        Self { start: Instant::now(), start_ns: utc_now().0 }
    }

    /// Now.
    pub fn now_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.elapsed_ns())
    }

    /// The time since the start.
    pub fn elapsed_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// The start, since 1970.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }
}

/// The machine's time; it may be set, and so may go back.
pub fn utc_now() -> Utc {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Utc(u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX))
}
