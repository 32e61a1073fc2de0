//! Ctrl-C, the service manager's stop and a terminal that goes away end a run in order.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag::{register, register_conditional_shutdown};

/// Set by the first SIGINT, SIGTERM or SIGHUP; a second SIGINT or SIGTERM ends the process at once.
pub struct Stop {
    flag: Arc<AtomicBool>,
    ids: Vec<SigId>,
}

impl Stop {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system refuses to deliver the signals.
    pub fn listen() -> io::Result<Self> {
        let mut stop = Self::listen_but_to_hang_up()?;
        // `nohup` has it ignored so that the program survives its terminal. A second one is
        // no haste: a shell that ends and its terminal each send one.
        if !is_ignored(SIGHUP) {
            stop.ids.push(register(SIGHUP, Arc::clone(&stop.flag))?);
        }
        Ok(stop)
    }

    /// The same; SIGHUP means something else to the caller.
    ///
    /// # Errors
    /// As [`Stop::listen`].
    pub fn listen_but_to_hang_up() -> io::Result<Self> {
        let (flag, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let mut ids = Vec::new();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the flag is looked at before it is set.
            ids.push(register_conditional_shutdown(signal, 128 + signal, Arc::clone(&asked))?);
            ids.push(register(signal, Arc::clone(&asked))?);
            ids.push(register(signal, Arc::clone(&flag))?);
        }
        Ok(Self { flag, ids })
    }

    /// Whether to stop.
    pub fn asked(&self) -> bool {
        self.flag.load(Relaxed)
    }

    /// The same, for those who are asked whether to go on.
    pub fn go_on(&self) -> ControlFlow<()> {
        if self.asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Waits until then, or until it is to stop.
    pub fn wait(&self, until: Instant) {
        while !self.asked() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }
}

/// The longest delay of a stop during a wait.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Drop for Stop {
    fn drop(&mut self) {
        for &id in &self.ids {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// From now on a file that may grow no larger (`ulimit -f`) is an error of the write, as a full
/// disk is, and not the end of the process. Programs that are started get the usual signal again.
pub fn outlive_file_limits() {
    // It fails only for signals that cannot be handled, which this is not.
    register(SIGXFSZ, Arc::default()).ok();
}

fn is_ignored(signal: i32) -> bool {
    let mut now = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: nothing is changed, and the pointer is valid for writing one sigaction.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), now.as_mut_ptr()) };
    // SAFETY: all zeros are a sigaction, whether it was written or not.
    asked == 0 && unsafe { now.assume_init() }.sa_sigaction == libc::SIG_IGN
}
