//! The devices, which carry out orders. Each has its own thread, so a hanging one blocks no other.
//!
//! ```text
//! node/catalog            the catalogue of runs
//! node/recorder           opens and ends the run
//!   node/recorder/write   |
//!   node/recorder/build   | threads of the recorder: they follow it, and report their own faults
//!   node/recorder/receive |
//! node/front_ends         where the configuration has some (`front_ends.rs`)
//! node/emulator           where the configuration has one
//! node/store              in place of all but the catalogue, where the program is a storage node
//! ```
//!
//! *Armed* is a recorder that runs but is paused: sockets are open, memory is touched, the first
//! file exists, and arrivals are counted as discarded. So *start* takes a moment, not a second.
//! Before that, in *configured*, a preflight with its own sockets counts arrivals.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use catchment_catalog::{LiveRun, NumberRequest, Remark};
use catchment_emulator::{
    EmulatorConfig, EmulatorError, EmulatorObserver, EmulatorReport, EmulatorThread,
    LinkEmulatorReport,
};
use catchment_model::Utc;
use catchment_recorder::{
    AdmittedSource, Arrivals, FrontEnd, FrontEnds, Preflight, Recorder, RecorderConfig, RunSummary,
    Stage, Standby, Standing,
};
use catchment_run::{
    Action, DeviceSpec, Failed, Order, Request, State, UnderWay, usual_timeout_ns,
};
use catchment_telemetry::utc_now;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use parking_lot::Mutex;

use crate::conductor::ending::remark_of;
use crate::configuration::Configuration;
use crate::front_ends::{self, Commanding, FRONT_ENDS};
use crate::settings::Start;
use crate::shared::NodeShared;

mod active;
mod listening;
mod resuming;

pub(crate) use active::Active;

/// The most orders waiting for one device: control gives one at a time, and *safe* after a
/// time-out.
const ORDERS_MAX: usize = 16;

/// How often a device without orders checks for remaining work.
const IDLE_EVERY: Duration = Duration::from_secs(1);

/// How long devices have to end after the state machine has.
const FAREWELL: Duration = Duration::from_secs(5);

/// The recorder's path.
pub(crate) const RECORDER: &str = "node/recorder";
/// The write thread's.
pub(crate) const WRITE: &str = "node/recorder/write";
/// The build thread's.
pub(crate) const BUILD: &str = "node/recorder/build";
/// The receive threads'.
pub(crate) const RECEIVE: &str = "node/recorder/receive";
/// The emulator's.
pub(crate) const EMULATOR: &str = "node/emulator";
/// The catalogue's.
pub(crate) const CATALOG: &str = "node/catalog";
/// The storage node's, which takes no orders.
pub(crate) const STORE: &str = "node/store";

/// An order with its data.
pub(crate) struct Job {
    pub(crate) order: Order,
    pub(crate) configuration: Arc<Configuration>,
    pub(crate) origin: Origin,
    /// Why devices go back from where a command led, if they do.
    pub(crate) why_back: Option<String>,
}

/// The author and the comment of a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) who: String,
    pub(crate) comment: String,
    /// Both, to be added to the remarks of the run.
    pub(crate) remark: Option<Remark>,
    /// Whether it is for the interrupted run only, and begins no other.
    pub(crate) goes_on_only: bool,
}

impl Origin {
    /// The origin of a command in progress.
    pub(crate) fn of(command: UnderWay) -> Self {
        let UnderWay { request, since_ns, .. } = command;
        let Request { id, who, comment, command, .. } = request;
        let comment = comment.unwrap_or_default();
        let remark = remark_of(since_ns, command, &who, &comment);
        let goes_on_only = id.as_str().starts_with(resuming::GO_ON);
        Self { who, comment, remark, goes_on_only }
    }
}

/// The answer of a device.
pub(crate) struct Done {
    pub(crate) path: &'static str,
    pub(crate) token: u64,
    pub(crate) result: Result<State, Failed>,
}

/// The state of the run and of the emulators: written by the devices, read by the node.
#[derive(Debug, Default)]
pub(crate) struct RunStatus {
    pub(crate) active: Mutex<Option<Active>>,
    /// Arrivals while there is no run and one could begin, or why nothing can be received.
    pub(crate) arrivals: Mutex<Option<Result<Arrivals, String>>>,
    /// Where front-ends are between runs.
    pub(crate) standby: Standby,
    unheard: Mutex<Vec<(String, String)>>,
    /// The configuration of a run that was armed, with what was admitted, until that was seen.
    pub(crate) recorded: Mutex<Option<Arc<Configuration>>>,
    /// Whether a run could not be armed: it had no source, or too few that open events.
    pub(crate) lacks_sources: AtomicBool,
    /// The sources of front-ends with which a run was armed last, or could not be.
    pub(crate) tried: Mutex<Vec<AdmittedSource>>,
    /// Where front-ends connect, with ports that the system chose.
    pub(crate) listeners: Mutex<Vec<SocketAddr>>,
    /// The emulators of sources and of links that send now, or sent in the last run.
    pub(crate) emulators: Mutex<Vec<EmulatorObserver>>,
    /// The data sent by the emulator of sources in the last run, once it has ended.
    pub(crate) sent: Mutex<Option<EmulatorReport>>,
    /// Whether a run lost data, or has bad data, for the program's exit code.
    pub(crate) imperfect: AtomicBool,
    /// Why a run, or the node, did not end in order: the first reason.
    pub(crate) failure: Mutex<Option<String>>,
    /// The last run's number and result.
    pub(crate) last: Mutex<Option<(u64, RunSummary)>>,
}

impl RunStatus {
    /// The front-ends, those between runs, too.
    pub(crate) fn front_ends(&self) -> &FrontEnds {
        self.standby.front_ends()
    }

    /// The front-ends of which alarms are raised: none while a run ends, which may send them away.
    pub(crate) fn watched_front_ends(&self) -> BTreeMap<String, FrontEnd> {
        let ends = |active: &Active| active.ending && !active.ended;
        let is_ending = self.active.lock().as_ref().is_some_and(ends);
        if is_ending { BTreeMap::new() } else { self.front_ends().list() }
    }

    /// Where nobody listens for front-ends between runs, and why.
    pub(crate) fn unheard(&self) -> Vec<(String, String)> {
        self.unheard.lock().clone()
    }

    pub(crate) fn active(&self) -> Option<Active> {
        self.active.lock().clone()
    }

    pub(crate) fn arrivals(&self) -> Option<Result<Arrivals, String>> {
        self.arrivals.lock().clone()
    }

    fn set_arrivals(&self, arrivals: Option<Result<Arrivals, String>>) {
        *self.arrivals.lock() = arrivals;
    }

    /// Records that a run, or the node, does not end in order.
    pub(crate) fn fail(&self, reason: impl std::fmt::Display) {
        self.failure.lock().get_or_insert_with(|| reason.to_string());
    }

    pub(crate) fn change_active(&self, change: impl FnOnce(&mut Active)) {
        if let Some(active) = &mut *self.active.lock() {
            change(active);
        }
    }
}

/// All devices and their channels.
pub(crate) struct Devices {
    recorder: Sender<Job>,
    emulator: Sender<Job>,
    front_ends: Sender<Job>,
    /// Of the devices' threads, and kept, since a node may have none.
    done: Sender<Done>,
    pub(crate) results: Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
    pub(crate) run_status: Arc<RunStatus>,
}

/// The line of devices; data reach the catalogue last.
pub(crate) fn specs(configuration: &Configuration) -> Vec<DeviceSpec> {
    // All steps wait for the disk. A stop also waits for the last data, and for a hanging disk; to
    // arm may be to go on with an interrupted run, the last files of which are read.
    let timeout_ns = |action| match action {
        Action::Start | Action::Disarm => 30_000_000_000,
        Action::Arm | Action::Stop => 120_000_000_000,
        other => usual_timeout_ns(other),
    };
    if configuration.store.is_some() {
        return vec![DeviceSpec::new(CATALOG, "catalogue"), DeviceSpec::new(STORE, "store")];
    }
    let mut specs = vec![
        DeviceSpec::new(CATALOG, "catalogue"),
        DeviceSpec { stops_run: true, timeout_ns, ..DeviceSpec::new(RECORDER, "recorder") },
        DeviceSpec::new(WRITE, "writer"),
        DeviceSpec::new(BUILD, "builder"),
        DeviceSpec::new(RECEIVE, "receiver"),
    ];
    if configuration.recorder.has_front_ends() {
        specs.push(front_ends::spec());
    }
    if configuration.emulates() {
        specs.push(DeviceSpec::new(EMULATOR, "emulator"));
    }
    specs
}

impl Devices {
    /// Starts the threads of these devices of the node's first configuration.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start(
        shared: &Arc<NodeShared>,
        specs: &[DeviceSpec],
        first: &Arc<Configuration>,
    ) -> std::io::Result<Self> {
        let has = |device| specs.iter().any(|spec| spec.path == device);
        let (done, results) = bounded(64);
        let run_status: Arc<RunStatus> = Arc::default();
        let (recorder, recorder_jobs) = bounded(ORDERS_MAX);
        let (emulator, emulator_jobs) = bounded(ORDERS_MAX);
        let (front_ends, front_end_jobs) = bounded(ORDERS_MAX);
        let mut recording = Recording {
            shared: Arc::clone(shared),
            run_status: Arc::clone(&run_status),
            open: None,
            preflight: None,
            standing: None,
            awaits_first: shared.settings.start == Start::Auto,
            may_resume: shared.settings.resume,
            goes_on_alone: (shared.settings.start == Start::Manual).then(|| Arc::clone(first)),
            since: Instant::now(),
        };
        let mut emulating =
            Emulating { run_status: Arc::clone(&run_status), sources: None, links: None };
        let mut commanding = Commanding::new(shared, &run_status);
        let mut threads = Vec::new();
        if has(FRONT_ENDS) {
            let obey = move |job: Option<&Job>| commanding.obey(job);
            threads.push(spawn("control-command", front_end_jobs, done.clone(), obey)?);
        }
        if has(RECORDER) {
            let obey = move |job: Option<&Job>| match job {
                Some(job) => recording.obey(job),
                None => {
                    recording.go_on_alone();
                    recording.listen_again();
                    recording.shared.catalog.settle();
                    Ok(())
                }
            };
            threads.push(spawn("control-record", recorder_jobs, done.clone(), obey)?);
        }
        if has(EMULATOR) {
            let obey = move |job: Option<&Job>| job.map_or(Ok(()), |job| emulating.obey(job));
            threads.push(spawn("control-emulate", emulator_jobs, done.clone(), obey)?);
        }
        Ok(Self { recorder, emulator, front_ends, done, results, threads, run_status })
    }

    /// Gives an order to its device. Those that follow the recorder have none of their own: the
    /// answer is theirs.
    pub(crate) fn give(&self, job: Job) -> Option<Done> {
        let way = match job.order.path {
            RECORDER => &self.recorder,
            EMULATOR => &self.emulator,
            FRONT_ENDS => &self.front_ends,
            _ => {
                let Order { path, token, action, .. } = job.order;
                return Some(Done { path, token, result: Ok(action.target()) });
            }
        };
        // A device that has not taken sixteen orders hangs: this order times out like the others.
        if way.try_send(job).is_err() {
            tracing::error!("a device takes no orders");
        }
        None
    }

    /// Waits for the devices' threads, which end when they have done their last order; not for a
    /// hanging one.
    pub(crate) fn end(self) {
        let Self { recorder, emulator, front_ends, done, results, threads, run_status } = self;
        drop((recorder, emulator, front_ends, done, results));
        let until = Instant::now() + FAREWELL;
        for thread in threads {
            while !thread.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(10));
            }
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if !thread.is_finished() || thread.join().is_err() {
                tracing::error!(name, "a device's thread hangs, or failed");
                run_status.fail(format_args!("the device's thread {name} hangs, or failed"));
            }
        }
    }
}

/// A device's thread: it carries out orders and, in between, remaining work from time to time.
fn spawn(
    name: &str,
    jobs: Receiver<Job>,
    done: Sender<Done>,
    mut obey: impl FnMut(Option<&Job>) -> Result<(), Failed> + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(move || {
        loop {
            let job = match jobs.recv_timeout(IDLE_EVERY) {
                Ok(job) => job,
                Err(error) => {
                    // Remaining work is not an order, and fails no command.
                    obey(None).ok();
                    match error {
                        RecvTimeoutError::Timeout => continue,
                        RecvTimeoutError::Disconnected => return,
                    }
                }
            };
            let result = obey(Some(&job)).map(|()| job.order.action.target());
            let Order { path, token, .. } = job.order;
            // Nothing waits any more once the node has ended.
            if done.send(Done { path, token, result }).is_err() {
                return;
            }
        }
    })
}

/// A failure after which the device is in that state.
fn failed(reason: impl std::fmt::Display, state: State) -> Failed {
    Failed { reason: reason.to_string(), state }
}

/// The recorder's device.
struct Recording {
    shared: Arc<NodeShared>,
    run_status: Arc<RunStatus>,
    open: Option<Open>,
    /// Open while there is no run and one could begin.
    preflight: Option<Preflight>,
    /// Listens for front-ends while there is no run, by that configuration.
    /// Without one, that has failed, and is tried again.
    standing: Option<(Option<Standing>, Arc<Configuration>)>,
    /// Whether the first run, which begins by itself, is still to come: front-ends wait for it.
    awaits_first: bool,
    /// Whether the next run may be an interrupted one that goes on: the first one alone.
    may_resume: bool,
    /// Whether to look for one that goes on without a command, and the configuration for that.
    goes_on_alone: Option<Arc<Configuration>>,
    /// When the program began.
    since: Instant,
}

/// A run that is armed or recorded.
struct Open {
    recorder: Recorder,
    live: LiveRun,
    begun: bool,
    /// When it began, if it goes on.
    started: Option<Utc>,
}

impl Recording {
    fn obey(&mut self, job: &Job) -> Result<(), Failed> {
        // The run owns its sockets.
        self.count_arrivals(None);
        match job.order.action {
            Action::Arm => self.awaits_first = false,
            Action::Reset => self.run_status.front_ends().forget_absent(),
            Action::Shutdown => {
                self.run_status.standby.end();
                self.standing = None;
            }
            _ => {}
        }
        let done = self.carry_out(job);
        if self.open.is_none() && job.order.action != Action::Shutdown {
            self.listen(&job.configuration);
        }
        let state =
            done.as_ref().map_or_else(|failed| failed.state, |()| job.order.action.target());
        if state == State::Configured {
            self.count_arrivals(Some(&job.configuration));
        }
        done
    }

    fn carry_out(&mut self, job: &Job) -> Result<(), Failed> {
        match job.order.action {
            Action::Configure => {
                let checked = job.configuration.recorder.check();
                checked.map_err(|error| failed(error, State::Idle))
            }
            Action::Arm => self.arm(job),
            Action::Start => self.begin(job),
            Action::Pause => self.pause(true, job),
            Action::Resume => self.pause(false, job),
            Action::Stop | Action::Disarm => self.end(State::Fault, job),
            Action::Reset | Action::Safe | Action::Shutdown => self.end(State::Safe, job),
        }
    }

    /// From now on, counts arrivals for that configuration, or for none. Not if an emulator sends:
    /// it begins with the run.
    fn count_arrivals(&mut self, configuration: Option<&Configuration>) {
        self.run_status.set_arrivals(None);
        self.preflight = None;
        let Some(configuration) = configuration.filter(|one| !one.emulates()) else { return };
        match Preflight::start(&configuration.recorder) {
            Ok(preflight) => {
                self.run_status.set_arrivals(Some(Ok(preflight.arrivals())));
                self.preflight = Some(preflight);
            }
            Err(error) => {
                tracing::warn!(%error, "what arrives before the run is not counted");
                self.run_status.set_arrivals(Some(Err(error.to_string())));
            }
        }
    }

    fn arm(&mut self, job: &Job) -> Result<(), Failed> {
        let config = &job.configuration.recorder;
        if self.may_resume && config.has_front_ends() {
            let resumed = self.resumed(job).map_err(|why| failed(why, State::Configured))?;
            if let Some(open) = resumed {
                self.may_resume = false;
                self.show(&open, job);
                self.open = Some(open);
                return Ok(());
            }
        }
        if job.origin.goes_on_only {
            return Err(failed("the interrupted run cannot go on", State::Configured));
        }
        self.may_resume = false;
        let configuration = self.with_admitted(&job.configuration);
        let configuration = configuration.map_err(|why| failed(why, State::Configured))?;
        let config = &configuration.recorder;
        let timed = resuming::of_timer(config).map_err(|why| failed(why, State::Configured))?;
        let wanted = timed.map(|(_, number)| number).or(job.configuration.number);
        let emulated = job.configuration.emulates();
        let live = self.shared.catalog.take(&NumberRequest {
            who: &job.origin.who,
            comment: &job.origin.comment,
            remark: job.origin.remark.as_ref(),
            configuration: &config.text,
            emulated,
            wanted,
            now: utc_now(),
        });
        let live = live.map_err(|error| failed(error, State::Configured))?;
        let run_number = live.number();
        if let Some((_, of_timer)) = timed.filter(|&(_, number)| number != run_number) {
            tracing::warn!(run = run_number, of_timer, "the timer's number has been used here");
        }
        let run_id = timed.map(|(id, _)| id).or(config.run_id);
        let completed = self.completed(config).map_err(|error| error.to_string());
        let started = completed.and_then(|config| {
            let config = RecorderConfig { run_number, run_id, emulated, ..config };
            Recorder::start_paused(config).map_err(|error| error.to_string())
        });
        self.leave_listeners();
        let recorder = match started {
            Ok(recorder) => recorder,
            Err(error) => {
                self.shared.catalog.fail(&live, &error);
                return Err(failed(error, State::Configured));
            }
        };
        let open = Open { recorder, live, begun: false, started: None };
        *self.run_status.recorded.lock() = Some(configuration);
        self.show(&open, job);
        self.open = Some(open);
        Ok(())
    }

    fn show(&self, Open { recorder, live, started, .. }: &Open, job: &Job) {
        let (who, comment) = (job.origin.who.clone(), job.origin.comment.clone());
        let emulated = job.configuration.emulates();
        let active = Active { who, comment, emulated, ..Active::of(recorder, live.number()) };
        *self.run_status.listeners.lock() = recorder.listeners().to_vec();
        let started_ns = started.map_or(active.started_ns, |started| started.0);
        // Who comes from here on knows that the run has not begun.
        active.observer.front_ends().go_to(Stage::Prepared);
        *self.run_status.active.lock() = Some(Active { started_ns, ..active });
    }

    fn begin(&mut self, job: &Job) -> Result<(), Failed> {
        let Some(open) = &mut self.open else {
            return Err(failed("there is no run to start", State::Configured));
        };
        if !job.origin.comment.is_empty() {
            // The client that armed it may not have given a comment yet.
            self.run_status.change_active(|active| active.comment.clone_from(&job.origin.comment));
            self.shared.catalog.comment(&open.live, &job.origin.comment);
        }
        // An emulator begins later; external sources may already be sending.
        match job.configuration.emulates() {
            true => open.recorder.pause(false),
            false => open.recorder.begin_between_events(),
        }
        open.begun = true;
        let now = utc_now();
        let started = open.started.unwrap_or(now);
        self.run_status.change_active(|active| {
            (active.started_ns, active.recorded_since_ns) = (started.0, now.0);
        });
        if let Some(remark) = &job.origin.remark {
            self.shared.catalog.note(remark);
        }
        let (recorder, locations) = (&open.recorder, open.recorder.locations());
        let of_run = (recorder.run(), recorder.folder());
        self.shared.catalog.begin(&open.live, of_run, locations);
        tracing::info!(run = open.live.number(), folder = %open.recorder.folder().display(),
            "recording");
        Ok(())
    }

    fn pause(&self, paused: bool, job: &Job) -> Result<(), Failed> {
        let Some(open) = &self.open else {
            return Err(failed("there is no run", State::Configured));
        };
        open.recorder.pause(paused);
        if let Some(remark) = &job.origin.remark {
            self.shared.catalog.remark(&open.live, remark);
        }
        Ok(())
    }

    fn end(&mut self, state: State, job: &Job) -> Result<(), Failed> {
        let Some(Open { recorder, live, begun, started }) = self.open.take() else {
            return Ok(());
        };
        if let Some(remark) = &job.origin.remark {
            self.shared.catalog.note(remark);
        }
        self.run_status.change_active(|active| active.ending = true);
        let stopped = recorder.stop();
        self.run_status.change_active(|active| active.ended = true);
        if job.order.action != Action::Shutdown {
            self.listen(&job.configuration);
        }
        let active = self.run_status.active();
        let summary = match stopped {
            Ok(summary) => summary,
            Err(error) => {
                self.run_status.fail(format_args!("the recorder: {error}"));
                self.shared.catalog.fail(&live, &error.to_string());
                return Err(failed(error, state));
            }
        };
        if !begun && started.is_none() {
            let why = job.why_back.as_deref().unwrap_or("it was disarmed before it began");
            self.shared.catalog.disarm(live, why, &summary);
            return Ok(());
        }
        let (number, started_ns) = (live.number(), active.map_or(0, |active| active.started_ns));
        self.shared.catalog.end(live, started_ns, &summary);
        let balance = summary.last.ledger.balance();
        let fault = matches!(summary.last.state, catchment_recorder::State::Fault { .. });
        let bad = summary.last.ledger.bad_data();
        if balance.lost_data() || bad > 0 || fault {
            self.run_status.imperfect.store(true, Relaxed);
        }
        tracing::info!(
            run = number,
            events = summary.last.counts.events_recorded,
            lost = balance.fragments_lost + balance.fragments_dropped,
            bad,
            "the run has ended"
        );
        front_ends::note_small_frames(&job.configuration.recorder, number, &summary.last.counts);
        *self.run_status.last.lock() = Some((number, summary));
        Ok(())
    }
}

/// The emulator's device: one thread for the emulated sources, and one for the links.
struct Emulating {
    run_status: Arc<RunStatus>,
    sources: Option<EmulatorThread>,
    links: Option<EmulatorThread<LinkEmulatorReport>>,
}

impl Emulating {
    fn obey(&mut self, job: &Job) -> Result<(), Failed> {
        match job.order.action {
            Action::Start => self.begin(&job.configuration).map_err(|reason| {
                // If one of the two fails, neither runs.
                let ended = self.end();
                Failed { reason, state: ended.map_or(State::Fault, |()| State::Armed) }
            }),
            Action::Stop | Action::Disarm | Action::Reset | Action::Safe | Action::Shutdown => {
                self.end().map_err(|reason| failed(reason, State::Fault))
            }
            // Detectors do not pause.
            Action::Configure | Action::Arm | Action::Pause | Action::Resume => Ok(()),
        }
    }

    fn begin(&mut self, configuration: &Configuration) -> Result<(), String> {
        if !configuration.emulates() {
            return Err("the configuration has no emulator any more".into());
        }
        let active = self.run_status.active().ok_or("there is no recorder to send to")?;
        self.run_status.emulators.lock().clear();
        *self.run_status.sent.lock() = None;
        // Links come after the sources.
        let sources = configuration.recorder.sources.len().min(active.addresses.len());
        let (sources, links) = active.addresses.split_at(sources);
        if let Some(config) = configuration.emulator.clone() {
            let targets = sources[..config.sources.len().min(sources.len())].to_vec();
            let thread = EmulatorThread::start(EmulatorConfig { targets, ..config });
            let thread = self.sources.insert(thread.map_err(|error| error.to_string())?);
            self.run_status.emulators.lock().push(thread.observer().clone());
        }
        if let Some(mut config) = configuration.link_emulator.clone() {
            for (link, address) in config.links.iter_mut().zip(links) {
                link.target = *address;
            }
            let thread = EmulatorThread::start_links(config);
            let thread = self.links.insert(thread.map_err(|error| error.to_string())?);
            self.run_status.emulators.lock().push(thread.observer().clone());
        }
        Ok(())
    }

    /// Ends all senders; returns the first one's reason if any failed.
    fn end(&mut self) -> Result<(), String> {
        let (sources, links) = (self.sources.take(), self.links.take());
        // Before waiting for the sources.
        links.iter().for_each(EmulatorThread::stop);
        let sources = sources.map(|thread| {
            let report = thread.finish()?;
            tracing::info!(events = report.events, "the emulator has sent its last event");
            *self.run_status.sent.lock() = Some(report);
            Ok(())
        });
        let links = links.map(|thread| {
            let report = thread.finish()?;
            tracing::info!(slices = report.slices, "the emulator has sent its last slice");
            Ok(())
        });
        let ended: Result<(), EmulatorError> = sources.into_iter().chain(links).collect();
        ended.map_err(|error| {
            let reason = format!("the emulator: {error}");
            self.run_status.fail(&reason);
            reason
        })
    }
}
