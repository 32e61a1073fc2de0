//! One recording: the recorder, an emulator beside it if asked, and the view, until it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use catchment_emulator::{Emulator, EmulatorConfig, EmulatorLive, EmulatorReport};
use catchment_model::{Balance, Entry};
use catchment_recorder::{Recorder, RecorderConfig, RunSummary, State};
use catchment_telemetry::{ThreadTime, ThreadTimes};

use crate::output::Out;
use crate::signals::Stop;
use crate::view::{Moment, Subject, View, busy, groups};

/// When a recording ends, whatever comes first; a stop signal always does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    /// After so many seconds.
    pub(crate) seconds: Option<f64>,
    /// After so many built events.
    pub(crate) events: Option<u64>,
}

/// What a recording became.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) summary: RunSummary,
    /// What the emulator beside it sent.
    pub(crate) sent: Option<EmulatorReport>,
    /// From the start until the sources stopped or were left.
    pub(crate) seconds: f64,
    /// Each thread's share of one CPU over that time, in percent.
    pub(crate) busy: Vec<(String, f64)>,
}

impl Recording {
    /// The books of the whole run.
    pub(crate) fn balance(&self) -> Balance {
        self.summary.last.ledger.balance()
    }

    /// Whether anything was lost on the way from the sources to the files.
    pub(crate) fn lost(&self) -> bool {
        let last = &self.summary.last;
        self.balance().lost_data()
            || last.faults > 0
            || last.ledger.total()[Entry::PacketsDroppedByKernel] > 0
            || last.counts.events_incomplete > 0
    }

    /// The share of one CPU of the threads whose names begin so, in percent.
    pub(crate) fn busy_of(&self, name: &str) -> f64 {
        self.busy.iter().filter(|(thread, _)| thread.starts_with(name)).map(|(_, p)| p).sum()
    }
}

/// An emulator on a thread of its own.
pub(crate) struct Sender {
    thread: JoinHandle<anyhow::Result<EmulatorReport>>,
    stop: Arc<AtomicBool>,
    times: Arc<ThreadTimes>,
    pub(crate) live: Arc<EmulatorLive>,
}

impl Sender {
    pub(crate) fn start(config: EmulatorConfig) -> anyhow::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let times = Arc::new(ThreadTimes::default());
        let live = Arc::new(EmulatorLive::default());
        let (its_stop, its_times, its_live) = (stop.clone(), times.clone(), live.clone());
        let emulator = Emulator::new(config)?;
        let thread = std::thread::Builder::new().name("emulate".into()).spawn(move || {
            let _guard = its_times.register("emulate");
            Ok(emulator.run(&its_stop, &its_live)?)
        })?;
        Ok(Self { thread, stop, times, live })
    }

    pub(crate) fn ended(&self) -> bool {
        self.thread.is_finished()
    }

    pub(crate) fn threads(&self) -> Vec<ThreadTime> {
        self.times.read()
    }

    /// Stops it, if it has not ended, and waits.
    pub(crate) fn finish(self) -> anyhow::Result<EmulatorReport> {
        self.stop.store(true, Relaxed);
        self.thread.join().map_err(|_| anyhow::anyhow!("the emulator's thread failed"))?
    }
}

/// Records until an end is reached. With an emulator, its targets are the recorder's own sockets.
///
/// # Errors
/// The recorder or the emulator could not start or did not end in order.
pub(crate) fn record(
    config: RecorderConfig,
    emulator: Option<EmulatorConfig>,
    ends: Ends,
    stop: &Stop,
    out: &mut Out,
    view: &mut View,
) -> anyhow::Result<Recording> {
    let groups = groups(&config.sources);
    let folder = config.folder.clone();
    let recorder = Recorder::start(config)
        .with_context(|| format!("cannot start recording to {}", folder.display()))?;
    if view.speaks() {
        let count = groups.iter().map(|group| group.sources.len()).sum::<usize>();
        let folder = recorder.folder().display();
        out.say(format_args!("Recording {count} sources to {folder}; Ctrl-C ends it in order."))?;
        out.flush()?;
    }
    let name = recorder.folder().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let planned = ends.seconds.or(emulator.as_ref().and_then(|emulator| emulator.seconds));
    let subject = Subject { name, groups, seconds_planned: planned };
    let start = Instant::now();
    let sender = match emulator {
        Some(config) => {
            let targets = recorder.addresses().to_vec();
            Some(Sender::start(EmulatorConfig { targets, ..config })?)
        }
        None => None,
    };
    let moment = || {
        let snapshot = recorder.snapshot();
        let mut threads = snapshot.threads.clone();
        threads.extend(sender.iter().flat_map(Sender::threads));
        Moment { seconds: start.elapsed().as_secs_f64(), snapshot, threads }
    };
    let first = moment();
    while !ended(&recorder, sender.as_ref(), ends, start, stop) {
        if view.due(Instant::now()) {
            view.show(out, &subject, moment())?;
        }
        std::thread::sleep(POLL);
    }
    let last = moment();
    let seconds = last.seconds - first.seconds;
    let busy = busy(&first.threads, &last.threads, seconds);
    let sent = sender.map(Sender::finish).transpose()?;
    let summary = recorder.stop().context("the recorder did not stop in order")?;
    let threads = summary.last.threads.clone();
    let seconds_shown = start.elapsed().as_secs_f64();
    view.show(
        out,
        &subject,
        Moment { seconds: seconds_shown, snapshot: summary.last.clone(), threads },
    )?;
    Ok(Recording { summary, sent, seconds, busy })
}

fn ended(
    recorder: &Recorder,
    sender: Option<&Sender>,
    ends: Ends,
    start: Instant,
    stop: &Stop,
) -> bool {
    let late = ends.seconds.is_some_and(|seconds| start.elapsed().as_secs_f64() >= seconds);
    let enough = ends.events.is_some_and(|events| {
        let counts = recorder.snapshot().counts;
        counts.events_complete + counts.events_incomplete >= events
    });
    late || enough || stop.asked() || sender.is_some_and(Sender::ended)
}

/// Whether a recorder's last state is one to worry about.
pub(crate) fn fault(state: &State) -> Option<&str> {
    match state {
        State::Fault { reason } => Some(reason),
        State::Recording | State::Stopped => None,
    }
}

/// How often the ends are looked at.
const POLL: Duration = Duration::from_millis(20);
