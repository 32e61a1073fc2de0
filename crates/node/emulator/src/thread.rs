//! An emulator on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use catchment_telemetry::{ThreadTime, ThreadTimes};

use crate::{Emulator, EmulatorConfig, EmulatorError, EmulatorLive, EmulatorReport};

/// An emulator that sends from a thread of its own, named `emulate`.
#[derive(Debug)]
pub struct EmulatorThread {
    thread: JoinHandle<Result<EmulatorReport, EmulatorError>>,
    stop: Arc<AtomicBool>,
    times: Arc<ThreadTimes>,
    live: Arc<EmulatorLive>,
}

impl EmulatorThread {
    /// Begins to send.
    ///
    /// # Errors
    /// The configuration is wrong, or the system gives no thread.
    pub fn start(config: EmulatorConfig) -> Result<Self, EmulatorError> {
        let emulator = Emulator::new(config)?;
        let (stop, times) = (Arc::new(AtomicBool::new(false)), Arc::new(ThreadTimes::default()));
        let live = Arc::new(EmulatorLive::default());
        let (its_stop, its_times, its_live) = (stop.clone(), times.clone(), live.clone());
        let thread = std::thread::Builder::new().name(NAME.into()).spawn(move || {
            let _guard = its_times.register(NAME);
            emulator.run(&its_stop, &its_live)
        });
        let thread = thread.map_err(EmulatorError::Thread)?;
        Ok(Self { thread, stop, times, live })
    }

    /// What it has sent so far.
    pub fn live(&self) -> &EmulatorLive {
        &self.live
    }

    /// The CPU time of its thread.
    pub fn threads(&self) -> Vec<ThreadTime> {
        self.times.read()
    }

    /// Whether it has sent all that it was to send, or failed.
    pub fn ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Stops it, if it has not ended, and waits for it.
    ///
    /// # Errors
    /// Why it could not send.
    ///
    /// # Panics
    /// As its thread did, if that panicked.
    pub fn finish(self) -> Result<EmulatorReport, EmulatorError> {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

const NAME: &str = "emulate";
