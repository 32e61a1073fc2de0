//! The recorder's time, and what it draws at random.

use std::io;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970 (UTC) that never go back: the wall clock at the start of the run, carried
/// on by the monotonic clock, so that setting the machine's clock in mid-run closes no event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    start_utc_ns: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), start_utc_ns: since_1970.as_nanos() as u64 }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.start_utc_ns + self.elapsed_ns()
    }

    pub(crate) fn elapsed_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// The start as `20261121-014655`.
    pub(crate) fn start_name(&self) -> String {
        let seconds = (self.start_utc_ns / 1_000_000_000) as libc::time_t;
        // SAFETY: tm is plain integers and a null pointer, for which zero is a value.
        let mut utc: libc::tm = unsafe { std::mem::zeroed() };
        // SAFETY: both places are valid; gmtime_r keeps neither.
        unsafe { libc::gmtime_r(&seconds, &mut utc) };
        format!(
            "{:04}{:02}{:02}-{:02}{:02}{:02}",
            utc.tm_year + 1900,
            utc.tm_mon + 1,
            utc.tm_mday,
            utc.tm_hour,
            utc.tm_min,
            utc.tm_sec
        )
    }
}

/// Random bytes from the system, for identities.
///
/// # Errors
/// The system's, where it has none to give.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0_u8; N];
    // SAFETY: the place is valid for N bytes.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if got == N as isize { Ok(bytes) } else { Err(io::Error::last_os_error()) }
}
