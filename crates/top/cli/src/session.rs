//! One recording: the recorder, an emulator beside it if asked, and the view, until it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use catchment_emulator::{Emulator, EmulatorConfig, EmulatorLive, EmulatorReport};
use catchment_model::units::Bytes;
use catchment_model::{Balance, SourceId};
use catchment_recorder::{Recorder, RecorderConfig, RunSummary, State};
use catchment_telemetry::{ThreadTime, ThreadTimes};

use crate::output::{Out, counted};
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
    /// The sources' names.
    names: Vec<String>,
    /// The socket buffers, in bytes.
    pub(crate) sockets: Sockets,
    /// What the emulator beside it sent.
    pub(crate) sent: Option<EmulatorReport>,
    /// From the start until the sources stopped or were left.
    pub(crate) seconds: f64,
    /// Each thread's share of one CPU over that time, in percent.
    pub(crate) busy: Vec<(String, f64)>,
}

/// Bytes that each source's socket can hold.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(crate) struct Sockets {
    /// The smallest that the system granted.
    pub(crate) granted_bytes_min: usize,
    /// What was asked for.
    pub(crate) asked_bytes: usize,
}

impl Recording {
    /// A source's name.
    pub(crate) fn source_name(&self, source: SourceId) -> String {
        let name = self.names.get(source.0 as usize);
        name.cloned().unwrap_or_else(|| format!("source {}", source.0))
    }

    /// The books of the whole run.
    pub(crate) fn balance(&self) -> Balance {
        self.summary.last.ledger.balance()
    }

    /// Whether anything was lost on the way from the sources to the files: what an audit of these
    /// would say, or that files could not be written to the end.
    pub(crate) fn lost(&self) -> bool {
        self.balance().lost_data() || fault(&self.summary.last.state).is_some()
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
    record_told(config, emulator, ends, stop, out, view, |_, _| ())
}

/// What is recorded, in words.
fn senders_and_channels(senders: usize, channels: usize) -> String {
    if channels == 0 {
        return counted(senders as u64, "source");
    }
    // One alone that brings channels is a link.
    let senders =
        if senders == 1 { "1 link".into() } else { format!("{senders} sources and links") };
    format!("{senders}, {},", counted(channels as u64, "channel"))
}

/// As [`record`]; `began` is told when it records.
///
/// # Errors
/// As [`record`].
pub(crate) fn record_told(
    config: RecorderConfig,
    emulator: Option<EmulatorConfig>,
    ends: Ends,
    stop: &Stop,
    out: &mut Out,
    view: &mut View,
    began: impl FnOnce(&Recorder, &mut Out),
) -> anyhow::Result<Recording> {
    let groups = groups(&config);
    let folder = config.folder.clone();
    let sources = config.sources.iter().map(|source| source.name.clone());
    let names = sources.chain(config.links.iter().map(|link| link.name.clone())).collect();
    let channels: usize = config.links.iter().map(|link| link.channels.len()).sum();
    let asked_bytes = config.receive.socket_buffer_bytes;
    let (lowered, warnings) = (config.lowered(), config.warnings());
    let config = RecorderConfig { emulated: emulator.is_some(), ..config };
    // Sources of others may be sending already; one's own begins later.
    let recorder = match emulator {
        Some(_) => Recorder::start(config),
        None => Recorder::start_paused(config).inspect(Recorder::begin_between_events),
    };
    let recorder =
        recorder.with_context(|| format!("cannot start recording to {}", folder.display()))?;
    began(&recorder, out);
    let granted = recorder.granted_socket_bytes().iter().copied();
    let sockets = Sockets { granted_bytes_min: granted.min().unwrap_or(0), asked_bytes };
    if view.speaks() {
        let count = groups.iter().map(|group| group.sources.len()).sum::<usize>();
        let folder = recorder.folder().display();
        let what = senders_and_channels(count, channels);
        out.say(format_args!("Recording {what} to {folder}; Ctrl-C ends it in order."))?;
        let (least, asked) = (Bytes(sockets.granted_bytes_min as u64), Bytes(asked_bytes as u64));
        out.say(format_args!("Socket buffers of at least {least} each, {asked} asked for."))?;
        let lowered = lowered.iter().map(|lowered| format!("Lowered: {lowered}."));
        let warnings = warnings.iter().map(|warning| format!("Warning: {warning}."));
        lowered.chain(warnings).try_for_each(|text| out.say(format_args!("{text}")))?;
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
    Ok(Recording { summary, names, sockets, sent, seconds, busy })
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
