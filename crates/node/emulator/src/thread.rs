//! An emulator on its own thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use catchment_net::{TimerReport, TimerServer, pin_to_cpu};
use catchment_runner::{Idle, Sleep};
use catchment_telemetry::{Clock, ThreadTime, ThreadTimes};

use crate::pace::{Pace, Schedule};
use crate::sender::{Sender, Traffic};
use crate::{
    DummyConfig, DummyReport, Emulator, EmulatorConfig, EmulatorError, EmulatorLive,
    EmulatorReport, LinkEmulator, LinkEmulatorConfig, LinkEmulatorReport, TrainConfig, TrainReport,
};
use crate::{dummy, trains};

/// An emulator of sources or of links that sends from its own thread.
#[derive(Debug)]
pub struct EmulatorThread<Report = EmulatorReport> {
    thread: JoinHandle<Result<Report, EmulatorError>>,
    observer: EmulatorObserver,
}

/// The state of an emulator's thread, which outlives the thread.
#[derive(Clone, Debug, Default)]
pub struct EmulatorObserver(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    ended: AtomicBool,
    times: ThreadTimes,
    live: EmulatorLive,
}

impl EmulatorThread {
    /// Starts sending as sources. The thread is named `emulate`.
    ///
    /// # Errors
    /// The configuration is wrong, or the system refused a thread.
    pub fn start(config: EmulatorConfig) -> Result<Self, EmulatorError> {
        let emulator = Emulator::new(config)?;
        Self::spawn("emulate", move |stop, live| emulator.run(stop, live))
    }
}

impl EmulatorThread<LinkEmulatorReport> {
    /// Starts sending as links. The thread is named `emulate-links`.
    ///
    /// # Errors
    /// The configuration is wrong, or the system refused a thread.
    pub fn start_links(config: LinkEmulatorConfig) -> Result<Self, EmulatorError> {
        let emulator = LinkEmulator::new(config)?;
        Self::spawn("emulate-links", move |stop, live| emulator.run(stop, live))
    }
}

impl EmulatorThread<DummyReport> {
    /// Starts front-ends, each with a thread of its own beside this one, which is named
    /// `emulate-dummies`.
    ///
    /// # Errors
    /// The system refused a thread.
    pub fn start_dummies(config: DummyConfig) -> Result<Self, EmulatorError> {
        Self::spawn("emulate-dummies", move |stop, live| dummy::run(&config, stop, live))
    }
}

impl EmulatorThread<TrainReport> {
    /// Starts feeders of trains, each with a thread of its own beside this one, which is named
    /// `emulate-trains`.
    ///
    /// # Errors
    /// The configuration is wrong, or the system refused a thread.
    pub fn start_trains(config: TrainConfig) -> Result<Self, EmulatorError> {
        config.protocol()?;
        Self::spawn("emulate-trains", move |stop, live| trains::run(&config, stop, live))
    }
}

impl EmulatorThread<TimerReport> {
    /// Starts a timer that listens. The thread is named `emulate-timer`; its events are ticks sent.
    ///
    /// # Errors
    /// The system refused a thread.
    pub fn start_timer(timer: TimerServer) -> Result<Self, EmulatorError> {
        Self::spawn("emulate-timer", move |stop, live| {
            let address = timer.address();
            let told = |report: &TimerReport| live.events.store(report.sent, Relaxed);
            timer.run(stop, told).map_err(|source| EmulatorError::Timer { address, source })
        })
    }
}

impl<Report: Send + 'static> EmulatorThread<Report> {
    fn spawn<F>(name: &'static str, run: F) -> Result<Self, EmulatorError>
    where
        F: FnOnce(&AtomicBool, &EmulatorLive) -> Result<Report, EmulatorError> + Send + 'static,
    {
        let observer = EmulatorObserver::default();
        let shared = Arc::clone(&observer.0);
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
            let _ends = Ends(&shared.ended);
            let _guard = shared.times.register(name);
            run(&shared.stop, &shared.live)
        });
        Ok(Self { thread: thread.map_err(EmulatorError::Thread)?, observer })
    }

    /// Its state.
    pub fn observer(&self) -> &EmulatorObserver {
        &self.observer
    }

    /// Tells it to end.
    pub fn stop(&self) {
        self.observer.0.stop.store(true, Relaxed);
    }

    /// Stops it, if it has not ended, and waits for it.
    ///
    /// # Errors
    /// Why it could not send; also if its thread panicked.
    pub fn finish(self) -> Result<Report, EmulatorError> {
        self.stop();
        self.thread.join().unwrap_or(Err(EmulatorError::Panicked))
    }
}

impl EmulatorObserver {
    /// The counts so far.
    pub fn live(&self) -> &EmulatorLive {
        &self.0.live
    }

    /// The CPU time of its thread.
    pub fn threads(&self) -> Vec<ThreadTime> {
        self.0.times.read()
    }

    /// Whether it has finished, or failed.
    pub fn ended(&self) -> bool {
        self.0.ended.load(Relaxed)
    }
}

/// Marks the end of a thread, even after a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// What was sent, and how long that took.
pub(crate) struct Sent<T> {
    pub(crate) traffic: T,
    /// Events, or slices.
    pub(crate) events: u64,
    /// Packets that the system refused.
    pub(crate) refused: u64,
    pub(crate) seconds: f64,
    /// CPU time of the calling thread.
    pub(crate) cpu_ns: u64,
}

/// Sends on the calling thread, pinned to that CPU, until the schedule ends or `stop` is set.
pub(crate) fn send<T: Traffic>(
    cpu: Option<usize>,
    schedule: &Schedule,
    traffic: T,
    stop: &AtomicBool,
    live: &EmulatorLive,
) -> Result<Sent<T>, EmulatorError> {
    cpu.map_or(Ok(()), pin_to_cpu)?;
    let mut sender = Sender::new(traffic, Pace::new(schedule), stop, live);
    let (clock, cpu_before_ns) = (Clock::start(), thread_cpu_ns());
    Idle::default().run(&mut sender, clock, &mut Sleep);
    Ok(Sent {
        traffic: sender.traffic,
        events: sender.events,
        refused: sender.refused,
        seconds: clock.elapsed_ns() as f64 / 1e9,
        cpu_ns: thread_cpu_ns() - cpu_before_ns,
    })
}

/// User and system time of the calling thread.
fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the target can be written to.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "every thread has a CPU clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
