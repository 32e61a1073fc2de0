//! Ctrl-C and the service manager's stop end a run in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Set by the first SIGINT or SIGTERM; a second one ends the process at once.
pub(crate) struct Stop {
    flag: Arc<AtomicBool>,
    ids: Vec<SigId>,
}

impl Stop {
    /// Listens from now on.
    pub(crate) fn listen() -> anyhow::Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        let mut ids = Vec::new();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the flag is looked at before it is set.
            let code = 128 + signal;
            ids.push(signal_hook::flag::register_conditional_shutdown(
                signal,
                code,
                Arc::clone(&flag),
            )?);
            ids.push(signal_hook::flag::register(signal, Arc::clone(&flag))?);
        }
        Ok(Self { flag, ids })
    }

    /// Whether to stop.
    pub(crate) fn asked(&self) -> bool {
        self.flag.load(Relaxed)
    }

    /// Waits until then, or until it is to stop.
    pub(crate) fn wait(&self, until: Instant) {
        while !self.asked() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }
}

/// How long a stop can go unnoticed while somebody waits.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Drop for Stop {
    fn drop(&mut self) {
        for &id in &self.ids {
            signal_hook::low_level::unregister(id);
        }
    }
}
