//! One recording of an emulated detector: the recorder, the emulator on a thread, and their CPU
//! shares, until the emulator ends or the bench is stopped.
//!
//! No terminal and no catalogue has a part in it: a figure is that of recorder and emulator alone.

use std::time::{Duration, Instant};

use anyhow::Context;
use catchment_console::Stop;
use catchment_emulator::{EmulatorConfig, EmulatorReport, EmulatorThread};
use catchment_model::Balance;
use catchment_recorder::{Recorder, RecorderConfig, RunSummary, State};
use catchment_telemetry::cpu_shares;

/// A recording that has ended.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) summary: RunSummary,
    /// The emulator's own counts.
    pub(crate) sent: EmulatorReport,
    /// Each thread's share of one CPU from the start until the emulator ended, in percent.
    busy: Vec<(String, f64)>,
    /// From the end of the emulator until all was durable.
    pub(crate) ending: Duration,
}

impl Recording {
    /// The ledger's balance, of the whole run.
    pub(crate) fn balance(&self) -> Balance {
        self.summary.last.ledger.balance()
    }

    /// Whether anything was lost on the way from the sources to the files, or the files could not
    /// be written to the end.
    pub(crate) fn lost(&self) -> bool {
        let fault = matches!(self.summary.last.state, State::Fault { .. });
        self.balance().lost_data() || fault
    }

    /// The share of one CPU of the threads whose names begin so, in percent.
    pub(crate) fn busy_of(&self, name: &str) -> f64 {
        self.busy.iter().filter(|(thread, _)| thread.starts_with(name)).map(|(_, p)| p).sum()
    }
}

/// Records until the emulator ends; its targets are the recorder's own sockets.
///
/// # Errors
/// The recorder or the emulator could not start or did not end in order.
pub(crate) fn record(
    config: RecorderConfig,
    emulator: EmulatorConfig,
    stop: &Stop,
) -> anyhow::Result<Recording> {
    let folder = config.folder.clone();
    let recorder = Recorder::start(RecorderConfig { emulated: true, ..config })
        .with_context(|| format!("cannot start recording to {}", folder.display()))?;
    let start = Instant::now();
    let targets = recorder.addresses().to_vec();
    let emulator = EmulatorThread::start(EmulatorConfig { targets, ..emulator })?;
    let moment = || {
        let mut threads = recorder.snapshot().threads;
        threads.extend(emulator.observer().threads());
        (start.elapsed(), threads)
    };
    let (first, threads_first) = moment();
    while !emulator.observer().ended() && !stop.asked() {
        std::thread::sleep(POLL);
    }
    let (last, threads_last) = moment();
    let busy = cpu_shares(&threads_first, &threads_last, (last - first).as_secs_f64());
    let sent = emulator.finish()?;
    let end = Instant::now();
    let summary = recorder.stop().context("the recorder did not stop in order")?;
    Ok(Recording { summary, sent, busy, ending: end.elapsed() })
}

/// The time between two looks at the emulator.
const POLL: Duration = Duration::from_millis(20);
