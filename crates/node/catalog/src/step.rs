//! Places at which a test stops the process, as `kill -9` would.
//!
//! In the product nothing is here. In this crate's tests every call counts, as does every handful
//! of instructions of SQLite's, and a process that was told a number is killed when it comes to it.

/// A point between two effects on the disk.
#[cfg(not(test))]
#[inline]
pub(crate) fn step() {}

#[cfg(test)]
pub(crate) use of_tests::{kill_at, step, watch};

#[cfg(test)]
mod of_tests {
    use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

    /// Steps that are left; below zero: for ever.
    static LEFT: AtomicI64 = AtomicI64::new(-1);

    /// Kills this process at the step of that number.
    pub(crate) fn kill_at(step: i64) {
        LEFT.store(step, Relaxed);
    }

    pub(crate) fn step() {
        if LEFT.load(Relaxed) >= 0 && LEFT.fetch_sub(1, Relaxed) == 0 {
            // SAFETY: no pointers; the process ends here.
            unsafe { libc::raise(libc::SIGKILL) };
        }
    }

    /// Counts a connection's instructions too.
    pub(crate) fn watch(connection: &mut rusqlite::Connection) {
        if LEFT.load(Relaxed) >= 0 {
            let count = || {
                step();
                false
            };
            connection.progress_handler(INSTRUCTIONS_PER_STEP, Some(count)).expect("a handler");
        }
    }

    const INSTRUCTIONS_PER_STEP: i32 = 20;
}
