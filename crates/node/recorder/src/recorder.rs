//! A recorder's life: its agents are started in order, and end in the order in which data flow.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use catchment_agent::{Agent, Waker};
use catchment_disk::{Disk, DiskConfig, DiskError};
use catchment_model::{RunId, Utc};
use catchment_net::{LinkAccess, NetError, Readiness};
use catchment_runner::{
    Idle, Joined, Park, Plan, Signal, Sleep, SystemEntropy, ThreadEvents, Threads,
};
use catchment_storage::{Resumable, StorageError, TrendFiles};
use catchment_telemetry::{Clock, Priority};
use crossbeam_channel::SendError;

use crate::agents::{AgentParts, Agents, TargetPart, Wakers, Way};
use crate::beginning::{Beginning, FileBeginning, TargetBeginning};
use crate::config::{ConfigError, RecorderConfig};
use crate::counts::Counts;
use crate::file::{FileMaker, FirstFile, RunIdentity};
use crate::frame_feed::node_part;
use crate::live::{Live, Observer, RunSummary, Snapshot, State};
use crate::locations::is_empty_spill;
use crate::sessions::OfRun;
use crate::sockets::Sockets;
use crate::spill::Identity;
use crate::store_target::SpillParts;
use crate::target_config::{Place, TargetConfig, suffix};
use crate::trend_agent::{TrendFeed, TrendPlan, Trends};
use crate::wiring::Wiring;
use crate::write_config::disk_config;

/// How often [`Recorder::begin_between_events`] checks whether the build agent has begun the run.
const BEGUN_POLL: Duration = Duration::from_millis(5);
/// How long the start of a run waits for the folder of a target that is best effort.
const FOLDER_WITHIN: Duration = Duration::from_secs(2);

/// A running recorder.
#[derive(Debug)]
pub struct Recorder {
    run: RunId,
    folder: PathBuf,
    addresses: Vec<SocketAddr>,
    listeners: Vec<SocketAddr>,
    granted_bytes: Vec<usize>,
    clock: Clock,
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
    threads: Threads,
}

/// Why a recorder did not start or did not end in order.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// A value that cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The builder refused its part of the configuration.
    #[error("build: {0}")]
    Build(#[from] catchment_builder::ConfigError),
    /// Front-ends need what the program that records has not got.
    #[error("front-ends need TLS or tokens, and this program has no certificate or no tokens")]
    Access,
    /// A socket could not be opened.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The disk is not usable, or the first file could not be opened.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The run's folder could not be made.
    #[error("cannot make the run's folder {}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The run with the configuration's identity was already recorded here.
    #[error("expected a new run.id for a new run, got that of {}", folder.display())]
    UsedId {
        /// Its folder.
        folder: PathBuf,
    },
    /// An interrupted run cannot be continued.
    #[error("cannot continue {name}: {source}")]
    Resume {
        /// The run's name.
        name: String,
        /// Why.
        source: Box<catchment_storage::StorageError>,
    },
    /// It was begun with another configuration, or by another version of the program.
    #[error("cannot continue {name}: it has another {what}")]
    OtherRun {
        /// The run's name.
        name: String,
        /// What differs.
        what: &'static str,
    },
    /// A storage node that it needs cannot say where it goes on, or a part of it is in a spill.
    #[error("cannot continue {name}: {why}")]
    NodeTarget {
        /// The run's name.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// The storage node that has it does not say how to go on.
    #[error("cannot continue {name}: storage node {address}: {why}")]
    NodeLeft {
        /// The run's name.
        name: String,
        /// The node's address.
        address: String,
        /// Why.
        why: String,
        /// Whether it may say so later.
        may_pass: bool,
    },
    /// What a target names cannot be used.
    #[error("target {name}: {error}")]
    Target {
        /// The target's name.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// The trends' files could not be made.
    #[error("trends: {source}")]
    Trends {
        /// Why.
        source: Box<catchment_storage::StorageError>,
    },
    /// The system refused memory, randomness or a thread.
    #[error("{what}: {source}")]
    System {
        /// The requested resource.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A thread ended by a panic: a defect.
    #[error("the thread {name} failed; the run's last file may be unclosed: use repair")]
    Thread {
        /// The thread's name.
        name: String,
    },
}

impl RecorderError {
    /// Whether an interrupted run may go on when it is tried again: not if its files are others
    /// than this configuration, or this program, writes.
    pub fn may_pass(&self) -> bool {
        use StorageError::{Behind, ForeignFile, Frame, NoFiles, SchemaDiffers};
        match self {
            Self::Config(_)
            | Self::Build(_)
            | Self::Access
            | Self::UsedId { .. }
            | Self::OtherRun { .. }
            | Self::NodeTarget { .. } => false,
            Self::NodeLeft { may_pass, .. } => *may_pass,
            Self::Resume { source, .. } => !matches!(
                **source,
                Behind { .. }
                    | ForeignFile { .. }
                    | Frame { .. }
                    | NoFiles { .. }
                    | SchemaDiffers { .. }
            ),
            _ => true,
        }
    }
}

impl Recorder {
    /// Opens the sockets and the first file, and starts recording.
    ///
    /// # Errors
    /// Anything that prevents recording now; nothing is left running.
    pub fn start(config: RecorderConfig) -> Result<Self, RecorderError> {
        Self::begin(config, false, None)
    }

    /// Goes on with a run whose recorder has died: under the same identity and in the same folders,
    /// in a new epoch.
    ///
    /// # Errors
    /// As [`Recorder::start`].
    pub fn resume(config: RecorderConfig, from: &Resumable) -> Result<Self, RecorderError> {
        Self::begin(config, false, Some(from))
    }

    /// As [`Recorder::resume`], but paused as by [`Recorder::start_paused`].
    ///
    /// # Errors
    /// As [`Recorder::start`].
    pub fn resume_paused(config: RecorderConfig, from: &Resumable) -> Result<Self, RecorderError> {
        Self::begin(config, true, Some(from))
    }

    /// As [`Recorder::start`], but paused: everything is open, and nothing is recorded until
    /// [`Recorder::pause`] ends the pause.
    ///
    /// # Errors
    /// As [`Recorder::start`].
    pub fn start_paused(config: RecorderConfig) -> Result<Self, RecorderError> {
        Self::begin(config, true, None)
    }

    fn begin(
        config: RecorderConfig,
        paused: bool,
        from: Option<&Resumable>,
    ) -> Result<Self, RecorderError> {
        config.check().and_then(|()| config.check_run())?;
        let clock = Clock::start();
        let (run, name) = match from {
            Some(from) => (from.run, from.name.clone()),
            None => new_run(&config, &clock)?,
        };
        let folder = config.folder.join(&name);
        if let Some(standby) = &config.standby {
            standby.front_ends().enter(&config, true);
        }
        let live = Arc::new(Live::begin(&config, Beginning::of(&config, from)));
        let warnings = config.lowered().into_iter().chain(config.warnings());
        warnings.chain(from.and_then(of_cut_off)).for_each(|warning| live.warn_once(warning));
        live.paused.store(paused, Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let mut sockets = Sockets::new(&config, &live);
        if !config.accesses().iter().all(LinkAccess::is_whole) {
            return Err(RecorderError::Access);
        }
        let of_run = || OfRun {
            is_standby: false,
            run,
            number: config.run_number,
            epoch: live.beginning.epoch,
            entropy: Box::new(SystemEntropy),
            access: config.accesses(),
            live: Arc::clone(&live),
        };
        let wired = Wiring::of(&config, &live, &stop, &of_run, &mut sockets)?;
        if let Some(standby) = &config.standby {
            standby.rest();
            standby.clear();
        }
        std::fs::create_dir_all(&folder)
            .map_err(|source| RecorderError::Folder { folder: folder.clone(), source })?;
        let (folders, of_run) = (vec![folder.clone()], "local".to_owned());
        let begins = FileBeginning::default();
        let identity = RunIdentity { run, folders, name, target: of_run, begins };
        let mut targets = Vec::new();
        let mut parks = Vec::new();
        for (number, target) in config.targets().into_iter().enumerate() {
            let (part, park) = target_part(&config, (number, &target), &identity, &live)?;
            targets.push(part);
            parks.push((park, target.required));
        }
        let (framing, encoding, trending) =
            (Signal::default(), Signal::default(), Signal::default());
        let wakers = Wakers { frames: framing.waker(), encoders: encoding.waker() };
        let trends = trends(&config, &identity, &live, trending.waker())?;
        let (feed, trends) = trends.unzip();
        let (live_of, stop_of) = (Arc::clone(&live), Arc::clone(&stop));
        let parts =
            AgentParts { wired, live: live_of, stop: stop_of, targets, trends: feed, wakers };
        let agents = Agents::new(&config, parts, clock.now_ns())?;
        let events = Arc::new(Events(Arc::clone(&live)));
        let threads = Threads::new(clock, Arc::clone(&live.threads), events);
        let Sockets { addresses, listeners, granted_bytes, readiness, .. } = sockets;
        let mut recorder =
            Self { run, folder, addresses, listeners, granted_bytes, clock, live, stop, threads };
        // If one thread cannot be started, dropping the recorder ends those that were.
        if let Some(trends) = trends {
            recorder.spawn(trends, plan("trends", trending))?;
        }
        let parking = Parking { readiness, framing, encoding, targets: parks };
        recorder.start_threads(&config, agents, parking)?;
        Ok(recorder)
    }

    /// Starts a thread for each agent, from the last one on the data path to the first; they end in
    /// the reverse order.
    fn start_threads(
        &mut self,
        config: &RecorderConfig,
        agents: Agents,
        Parking { readiness, framing, encoding, targets: parks }: Parking,
    ) -> Result<(), RecorderError> {
        let Agents { receives, build, frames, encoders, targets, populate } = agents;
        for (number, encoder) in encoders.into_iter().enumerate() {
            let priority = Some(Priority::Background);
            let plan = plan(&format!("encode-{number}"), encoding.clone());
            self.spawn(encoder, Plan { priority, ..plan })?;
        }
        let priority = Some(Priority::Data);
        let live = Arc::clone(&self.live);
        let of_targets = targets.into_iter().zip(parks).zip(&live.targets);
        for (((name, target), (park, required)), of_target) in of_targets {
            // One that is best effort has what the others leave, and may be late at the end. So may
            // a folder that hangs, whose frames are in its spill.
            let has_spill = of_target.spill.is_some() && of_target.place.folder().is_some();
            let (cpu, priority) = match required {
                true => (config.write.cpu, Priority::Data),
                false => (None, Priority::Background),
            };
            let (priority, idle) = (Some(priority), Idle::default());
            let may_be_left = !required || has_spill;
            self.spawn(target, Plan { name, cpu, priority, idle, park, may_be_left })?;
        }
        self.spawn(frames, Plan { priority, ..plan("frames", framing) })?;
        let cpu = config.build.cpu;
        self.spawn(build, Plan { cpu, priority, ..plan("build", Sleep) })?;
        let cpus = &config.receive.cpus;
        let idle = Idle { spin: config.receive.spin, nap: config.receive.coalesce };
        for (thread, (receive, readiness)) in receives.into_iter().zip(readiness).enumerate() {
            let cpu = (!cpus.is_empty()).then(|| cpus[thread % cpus.len()]);
            let plan = plan(&format!("receive-{thread}"), readiness);
            self.spawn(receive, Plan { cpu, priority, idle, ..plan })?;
        }
        self.spawn(populate, plan("memory", Sleep))
    }

    fn spawn(&mut self, agent: impl Agent + 'static, plan: Plan) -> Result<(), RecorderError> {
        self.threads.spawn(agent, plan).map_err(system("a thread"))
    }

    /// The run's identity.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// How often the run went on after its recorder's death.
    pub fn epoch(&self) -> u32 {
        self.live.beginning.epoch
    }

    /// The run's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The target address of each source, in the sources' order, and then of each link.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where front-ends of events connect: the addresses of all listeners.
    pub fn listeners(&self) -> &[SocketAddr] {
        &self.listeners
    }

    /// The socket buffer that the system granted each source and link, in bytes.
    pub fn granted_socket_bytes(&self) -> &[usize] {
        &self.granted_bytes
    }

    /// Counters outside the ledger, for frequent polling; reading them takes no lock.
    pub fn counts(&self) -> Counts {
        self.live.counts()
    }

    /// Discards and counts events that begin from now on (`fragments_discarded_paused`), or records
    /// them again. No event is split: events that have begun are built completely.
    pub fn pause(&self, paused: bool) {
        self.live.pause(paused);
    }

    /// Begins the run of a recorder that was started paused. Packets of sources that were already
    /// sending arrive within a quarter of a second after the sockets were opened, and then the run
    /// begins between two events; without such sources it begins after that time. It waits until
    /// all that had arrived by then is read, for 2 s at most. Data that are sent after this call
    /// has returned belong to the run.
    pub fn begin_between_events(&self) {
        let live = &self.live;
        live.begin.store(true, Relaxed);
        let is_begun = || {
            // A pause that was requested in the meantime also ends the wait.
            !live.begin.load(Acquire) && (live.recording.load(Acquire) || live.paused.load(Relaxed))
        };
        // A failed build agent will not begin the run; its failure is reported elsewhere.
        while !is_begun() && !self.threads.has_ended("build") {
            std::thread::sleep(BEGUN_POLL);
        }
    }

    /// A handle with which others observe the recorder.
    pub fn observer(&self) -> Observer {
        Observer(Arc::clone(&self.live))
    }

    /// The recorder's present state.
    pub fn snapshot(&self) -> Snapshot {
        self.live.snapshot()
    }

    /// Ends the run: datagrams in the sockets are still received, open events are closed, and the
    /// last file gets its table of contents. If sources continue to send, the run ends between two
    /// events (`run_gate.rs`), and fragments of later events are discarded
    /// (`fragments_discarded_paused`).
    ///
    /// # Errors
    /// [`RecorderError::Thread`] if a thread had failed. Lost data are not an error here: see the
    /// ledger.
    pub fn stop(mut self) -> Result<RunSummary, RecorderError> {
        self.live.is_ending.store(true, Relaxed);
        self.stop.store(true, Relaxed);
        let Joined { failed, left } = self.threads.join();
        self.live.forget_gauges();
        for name in left {
            let reason = "it is still closing its files, and the run has ended without it";
            self.live.set_left(&name, reason);
        }
        if let Some(name) = failed {
            return Err(RecorderError::Thread { name });
        }
        let seconds = self.clock.elapsed_ns() as f64 / 1e9;
        let last = self.live.snapshot();
        if last.state == State::Recording {
            self.live.set_state(match self.live.unsure() {
                0 => State::Stopped,
                unsure => State::Fault { reason: format!("{unsure} fragments may not be durable") },
            });
        }
        let mut locations = self.live.locations(&self.folder, true);
        self.live.list_locations(self.run, &self.folder, &locations);
        locations.retain(|one| !is_empty_spill(one));
        let (folder, last) = (self.folder.clone(), self.live.snapshot());
        let names = self.live.names.clone();
        Ok(RunSummary { run: self.run, folder, locations, names, seconds, last })
    }
}

impl Drop for Recorder {
    /// A recorder dropped without [`Recorder::stop`] ends its threads in the same order.
    fn drop(&mut self) {
        self.live.is_ending.store(true, Relaxed);
        self.stop.store(true, Relaxed);
        // A panic was printed when it happened, and there is no caller to return it to.
        let _joined = self.threads.join();
        self.live.forget_gauges();
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

/// An identity for a new run, and its name. Where it is given, other nodes record the same run,
/// each as a stream with a name of its own.
pub(crate) fn new_run(
    config: &RecorderConfig,
    clock: &Clock,
) -> Result<(RunId, String), RecorderError> {
    let mut run = RunId([0; 16]);
    let no_bits = |error: getrandom::Error| system("random bits")(error.into());
    match config.run_id {
        Some(given) => run = given,
        None => getrandom::fill(&mut run.0).map_err(no_bits)?,
    }
    let stream = if config.stream > 0 { format!("-s{}", config.stream) } else { String::new() };
    let end = format!("-{}{stream}", &run.to_string()[..8]);
    if config.run_id.is_some() {
        unused(config, &end)?;
    }
    Ok((run, format!("run-{}{end}", Utc(clock.start_ns()).compact())))
}

/// Checks that no run's folder has a name with that end: two runs would be read as one.
fn unused(config: &RecorderConfig, end: &str) -> Result<(), RecorderError> {
    let targets = config.targets();
    let folders = targets.iter().flat_map(|target| target.place.folders());
    let folders = folders.map(PathBuf::as_path).chain([&*config.folder]);
    for entry in folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("run-") && name.ends_with(end) {
            return Err(RecorderError::UsedId { folder: entry.path() });
        }
    }
    Ok(())
}

/// The objects on which the agents' threads sleep.
struct Parking {
    /// The receive agents'.
    readiness: Vec<Readiness>,
    framing: Signal,
    encoding: Signal,
    /// The targets', each with whether it is required.
    targets: Vec<(Box<dyn Park>, bool)>,
}

/// What the operator learns about threads.
pub(crate) struct Events(pub(crate) Arc<Live>);

impl ThreadEvents for Events {
    fn unpinned(&self, name: &str, error: &dyn std::fmt::Display) {
        self.0.warn_once(format!("{name} runs unpinned: {error}"));
    }

    fn failed(&self, name: &str) {
        self.0.fail(name);
    }
}

/// What a target is made of, and what its thread sleeps on. If the folder of one that is best
/// effort cannot be made, does not answer, or is left out of a run that goes on, its frames go
/// nowhere, and it is in fault.
fn target_part(
    config: &RecorderConfig,
    (number, target): (usize, &TargetConfig),
    of_run: &RunIdentity,
    live: &Arc<Live>,
) -> Result<(TargetPart<Disk>, Box<dyn Park>), RecorderError> {
    let nothing = || {
        let signal = Signal::default();
        (TargetPart { waker: signal.waker(), way: Way::Nowhere }, Box::new(signal) as Box<dyn Park>)
    };
    let failed = |reason: &str| {
        let reason = format!("it gets no frames of this run: {reason}");
        live.set_target_state(number, State::Fault { reason });
        Ok(nothing())
    };
    let TargetBeginning { files: begins, left_out, .. } = &live.beginning.targets[number];
    if let Some(reason) = left_out {
        return failed(reason);
    }
    let folders = match &target.place {
        Place::Folders(folders) => folders,
        Place::Node(node) => {
            let of_run = (of_run.run, &*of_run.name);
            return node_part(config, (number, target, node), of_run, live);
        }
        Place::None => return Ok(nothing()),
    };
    let name = of_run.name.clone();
    let folders = folders.iter().map(|folder| folder.join(&name)).collect();
    let (target_name, begins) = (target.name.clone(), begins.clone());
    let identity = RunIdentity { run: of_run.run, folders, name, target: target_name, begins };
    let mut disk = disk_config(&config.write);
    (disk.name, disk.threads) = (suffix(number, &target.name), Some(Arc::clone(&live.threads)));
    if target.required {
        let of_target = &live.targets[number];
        let spill = target.spill.as_ref().zip(of_target.spill.as_ref());
        let spill = spill.map(|(spill, counts)| {
            Box::new(SpillParts {
                config: spill.clone(),
                identity: Identity {
                    node: target.place.shown(),
                    name: identity.name.clone(),
                    run: identity.run,
                    stream: config.stream,
                    variant: of_target.variant.number,
                    begins: live.beginning.sequence,
                },
                header: Vec::new(),
                counts: Arc::clone(counts),
                entropy: Box::new(SystemEntropy),
            })
        });
        return folder_part(disk, identity, (live, number), spill);
    }
    let (made_in, made) = crossbeam_channel::bounded(1);
    let of_thread = Arc::clone(live);
    let make = move || {
        let part = folder_part(disk, identity, (&of_thread, number), None);
        if let Err(SendError(Ok((TargetPart { way: Way::Files(identity, first), .. }, _)))) =
            made_in.send(part)
        {
            // The start has gone on without it.
            let path = FileMaker::first_path(&identity, first.disk);
            drop(first);
            let _removed = std::fs::remove_file(path);
        }
    };
    std::thread::Builder::new().name("folder".into()).spawn(make).map_err(system("a thread"))?;
    match made.recv_timeout(FOLDER_WITHIN) {
        Ok(Ok(part)) => Ok(part),
        Ok(Err(error)) => failed(&error.to_string()),
        Err(_) => failed("its disk does not answer"),
    }
}

/// The disks of a target's folders, and the first file, in the best of them. Folders in which none
/// can be made are tried again later, unless there is none in which one can.
fn folder_part(
    disk: DiskConfig,
    identity: RunIdentity,
    (live, number): (&Live, usize),
    spill: Option<Box<SpillParts>>,
) -> Result<(TargetPart<Disk>, Box<dyn Park>), RecorderError> {
    let target = &live.targets[number];
    let (mut stores, mut failed): (Vec<Disk>, _) = (Vec::new(), Vec::new());
    for (folder, path) in identity.folders.iter().enumerate() {
        let beside = stores.first().map(Disk::waker);
        let name = match (folder, &disk.name) {
            (0, name) => name.clone(),
            (_, None) => Some(folder.to_string()),
            (_, Some(name)) => Some(format!("{name}-{folder}")),
        };
        let mut store = open_disk(DiskConfig { name, beside, ..disk.clone() }, live)?;
        match std::fs::create_dir_all(path) {
            Ok(()) => store.begin_in(path),
            Err(source) => {
                failed.push((folder, RecorderError::Folder { folder: path.clone(), source }));
            }
        }
        target.set_disk(folder, store.stats());
        stores.push(store);
    }
    let spare_bytes = |folder: usize| stores[folder].spare_bytes().unwrap_or(0);
    let mut folders: Vec<usize> = (0..stores.len()).collect();
    folders.retain(|&folder| failed.iter().all(|(other, _)| *other != folder));
    // The first one of equals.
    folders.sort_by_key(|&folder| std::cmp::Reverse(spare_bytes(folder)));
    for folder in folders {
        match stores[folder].create(&FileMaker::first_path(&identity, folder)) {
            Ok(id) => {
                for (_, error) in failed {
                    live.warn_once(format!("target {}: {error}", target.name));
                }
                let (waker, sleeper) = (stores[0].waker(), stores[0].sleeper());
                let waker = Waker::new(move || waker.wake());
                let entropy = Box::new(SystemEntropy);
                let first = FirstFile { stores, disk: folder, id, entropy, spill };
                let way = Way::Files(identity, first);
                return Ok((TargetPart { waker, way }, Box::new(sleeper)));
            }
            Err(error) => failed.push((folder, error.into())),
        }
    }
    Err(failed.swap_remove(0).1)
}

/// That frames of a target were cut off when the run was resumed, if any were.
fn of_cut_off(from: &Resumable) -> Option<String> {
    let (sequence, why) = (from.sequence, from.cut_off.as_ref()?);
    let resumed = format!("the run was resumed at frame {sequence}");
    Some(format!("{resumed}, and later frames of a target were cut off: {why}"))
}

/// The disk to which a target's files are written.
fn open_disk(config: DiskConfig, live: &Live) -> Result<Disk, DiskError> {
    let disk = Disk::new(config)?;
    if let Some(note) = disk.engine_note() {
        live.warn_once(format!("writing by {}: {note}", disk.engine()));
    }
    Ok(disk)
}

/// The trend agent and the queue to it, if any folder has trends.
fn trends(
    config: &RecorderConfig,
    identity: &RunIdentity,
    live: &Arc<Live>,
    waker: Waker,
) -> Result<Option<(TrendFeed, Trends<TrendFiles>)>, RecorderError> {
    let plan = TrendPlan::of(config, identity, live.beginning.epoch > 0)?;
    if !config.trends || !plan.has_folders() {
        return Ok(None);
    }
    let failed = |error| RecorderError::Trends { source: Box::new(error) };
    plan.mend().map_err(failed)?;
    let (feed, frames) = TrendFeed::new(live, waker);
    let make = |folder, series| plan.files(folder, series);
    Ok(Some((feed, Trends::new(&plan, live, frames, make).map_err(failed)?)))
}

/// A thread that sleeps on `park` when it has no work.
fn plan(name: &str, park: impl Park + 'static) -> Plan {
    let (name, park) = (name.to_owned(), Box::new(park));
    let (idle, may_be_left) = (Idle::default(), false);
    Plan { name, cpu: None, priority: None, idle, park, may_be_left }
}

pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> RecorderError {
    move |source| RecorderError::System { what, source }
}
