//! A recorder's life: start its threads in order, stop them in the order in which data flow.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use catchment_disk::DiskError;
use catchment_model::{Entry, RunId, Utc};
use catchment_net::{NetError, pin_to_cpu};
use catchment_telemetry::{Clock, Priority};

use crate::build::{Build, Kind, Side};
use crate::config::{ConfigError, RecorderConfig};
use crate::frame_writer::Sources;
use crate::live::{Counts, Live, Observer, RunSummary, Snapshot, State};
use crate::trend_thread::{TrendFeed, TrendPlan, Trends};
use crate::wanted::Wanted;
use crate::wiring::{Pools, Wiring};
use crate::write::{RunIdentity, Write};

/// Threads that go before others where the system allows it.
const PREFERRED: [&str; 3] = ["receive", "build", "write"];
/// Frames between the build and the write thread; what more there is waits in the build thread.
const FRAMES_QUEUED: usize = 2;

/// Within what time sources that are sending are heard.
const HEARD_WITHIN: Duration = Duration::from_millis(250);
/// What came between the opening of the first socket and the last is dealt with by then.
const SETTLED_AFTER: Duration = Duration::from_millis(50);
/// How often that is looked at.
const HEARD_POLL: Duration = Duration::from_millis(5);

/// A recorder that runs.
#[derive(Debug)]
pub struct Recorder {
    run: RunId,
    folder: PathBuf,
    addresses: Vec<SocketAddr>,
    granted_bytes: Vec<usize>,
    clock: Clock,
    opened: Instant,
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
    // In the order in which they end.
    threads: Vec<JoinHandle<()>>,
}

/// Why a recorder did not start, or did not end in order.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// A value that cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The builder refused its part of the configuration.
    #[error("build: {0}")]
    Build(#[from] catchment_builder::ConfigError),
    /// A socket could not be had.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The disk could not be had, or the first file not be opened.
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
    /// The trends' files could not be made.
    #[error("trends: {source}")]
    Trends {
        /// Why.
        source: Box<catchment_storage::StorageError>,
    },
    /// The system refused memory, randomness or a thread.
    #[error("{what}: {source}")]
    System {
        /// What was asked for.
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

impl Recorder {
    /// Opens the sockets and the first file, and starts recording.
    ///
    /// # Errors
    /// Anything that would keep it from recording now; nothing is left running.
    pub fn start(config: RecorderConfig) -> Result<Self, RecorderError> {
        Self::begin(config, false)
    }

    /// As [`Recorder::start`], but paused: everything is open, and nothing is recorded until
    /// [`Recorder::pause`] says so.
    ///
    /// # Errors
    /// As [`Recorder::start`].
    pub fn start_paused(config: RecorderConfig) -> Result<Self, RecorderError> {
        Self::begin(config, true)
    }

    fn begin(config: RecorderConfig, paused: bool) -> Result<Self, RecorderError> {
        config.check()?;
        let clock = Clock::start();
        let system = |what| move |source| RecorderError::System { what, source };
        let mut run = RunId([0; 16]);
        getrandom::fill(&mut run.0).map_err(|error| system("random bits")(error.into()))?;
        let name = format!("run-{}-{}", Utc(clock.start_ns()).compact(), &run.to_string()[..8]);
        let folder = config.folder.join(&name);
        let live = Arc::new(Live::new(config.ledger_names()));
        let told = config.lowered().into_iter().chain(config.warnings());
        told.for_each(|warning| live.warn_once(warning));
        live.paused.store(paused, Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let wired = Wiring::of(&config, &live, &stop)?;
        std::fs::create_dir_all(&folder)
            .map_err(|source| RecorderError::Folder { folder: folder.clone(), source })?;
        let identity = RunIdentity { run, folder: folder.clone(), name, clock };
        let (frames_in, frames_out) = crossbeam_channel::bounded(FRAMES_QUEUED);
        let (done_in, done_out) = crossbeam_channel::bounded(FRAMES_QUEUED + 2);
        let Wiring { sides, receives, pools, channels, addresses, granted_bytes } = wired;
        let waiting = |kind| {
            let side = sides.iter().find(|side: &&Side| side.kind == kind)?;
            Some(Arc::clone(&side.waiting_fill))
        };
        let trends = config.trends.then(|| Self::trends(&config, &identity, &live)).transpose()?;
        let (trends_in, trends) = trends.unzip();
        let sources = Sources {
            events: pools.events.clone().zip(waiting(Kind::Events)),
            channels: channels.zip(waiting(Kind::Channels)),
            trends: trends_in,
        };
        let write = Write::new(&config, identity, sources, &live, (frames_out, done_in))?;
        let wanted = Wanted::new(&live, &stop);
        let build = Build {
            clock,
            live: Arc::clone(&live),
            wanted,
            sides,
            frames: frames_in,
            done: done_out,
        };
        let threads = Vec::new();
        let mut recorder = Self {
            run,
            folder,
            addresses,
            granted_bytes,
            clock,
            opened: Instant::now(),
            live,
            stop,
            threads,
        };
        // If one thread cannot be started, dropping the recorder ends those that were.
        if let Some(trends) = trends {
            recorder.spawn("trends".into(), None, || trends.run())?;
        }
        recorder.spawn("write".into(), config.write.cpu, || write.run())?;
        recorder.spawn("build".into(), config.build.cpu, || build.run())?;
        let cpus = &config.receive.cpus;
        for (thread, receive) in receives.into_iter().enumerate() {
            let cpu = (!cpus.is_empty()).then(|| cpus[thread % cpus.len()]);
            recorder.spawn(format!("receive-{thread}"), cpu, receive)?;
        }
        let (live, stop) = (Arc::clone(&recorder.live), Arc::clone(&recorder.stop));
        recorder.spawn("memory".into(), None, move || populate(&pools, &live, &stop))?;
        // They end in the order in which data flow.
        recorder.threads.reverse();
        Ok(recorder)
    }

    /// The trend thread's state, and the way to it.
    fn trends(
        config: &RecorderConfig,
        identity: &RunIdentity,
        live: &Arc<Live>,
    ) -> Result<(TrendFeed, Trends), RecorderError> {
        let (frames_in, frames) = TrendFeed::new(live);
        let plan = TrendPlan::of(config, identity)?;
        let trends = Trends::new(&plan, (identity.clock, live), frames);
        Ok((frames_in, trends.map_err(|error| RecorderError::Trends { source: Box::new(error) })?))
    }

    fn spawn(
        &mut self,
        name: String,
        cpu: Option<usize>,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<(), RecorderError> {
        let live = Arc::clone(&self.live);
        let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
            if let Some(Err(error)) = cpu.map(pin_to_cpu) {
                live.warn_once(format!("{name} runs unpinned: {error}"));
            }
            if PREFERRED.iter().any(|preferred| name.starts_with(preferred)) {
                Priority::Data.apply();
            }
            let _failure = Failure { live: &live, name: &name };
            let _guard = live.threads.register(name.clone());
            body();
        });
        let thread = thread.map_err(|source| RecorderError::System { what: "a thread", source })?;
        self.threads.push(thread);
        Ok(())
    }

    /// The run's identity.
    pub fn run(&self) -> RunId {
        self.run
    }

    /// The run's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where each source must send to, in the sources' order, and then each link.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The socket buffer that the system granted each source and link, in bytes.
    pub fn granted_socket_bytes(&self) -> &[usize] {
        &self.granted_bytes
    }

    /// Its counts beside the ledger, for whoever wants them often: they are read and nothing is
    /// locked.
    pub fn counts(&self) -> Counts {
        self.live.counters.read()
    }

    /// Discards events that begin from now on, countedly (`fragments_discarded_paused`), or records
    /// them again. No event is torn: those that have begun are built to their end.
    pub fn pause(&self, paused: bool) {
        self.live.paused.store(paused, Relaxed);
    }

    /// Begins to record what a recorder that was started paused receives. Sources that were sending
    /// already are heard within a quarter of a second after the sockets were opened, and then the
    /// run begins between two events; without any it begins after that time. What is sent after
    /// this has returned belongs to the run.
    pub fn begin_between_events(&self) {
        let heard = || self.live.ledger.snapshot().total()[Entry::PacketsReceived] > 0;
        let over = |after| after >= HEARD_WITHIN || (after >= SETTLED_AFTER && heard());
        while !over(self.opened.elapsed()) {
            std::thread::sleep(HEARD_POLL);
        }
        self.pause(false);
        // The build thread may have read the flag just before: what it takes until it reads it
        // again is not wanted. A thread that has ended will not, and is told of elsewhere.
        let ended = || self.threads.iter().any(JoinHandle::is_finished);
        while !self.live.wanted.load(Acquire) && !ended() {
            std::thread::sleep(HEARD_POLL);
        }
    }

    /// What others look at it with.
    pub fn observer(&self) -> Observer {
        Observer(Arc::clone(&self.live))
    }

    /// The recorder now.
    pub fn snapshot(&self) -> Snapshot {
        self.live.snapshot()
    }

    /// Ends the run: what is in the sockets is still received, open events are closed, the last
    /// file gets its table of contents. Where sources go on sending, the run ends between two
    /// events (`wanted.rs`), and what comes for later ones is discarded
    /// (`fragments_discarded_paused`).
    ///
    /// # Errors
    /// [`RecorderError::Thread`] if a thread had failed. Lost data are no error here: see the
    /// ledger.
    pub fn stop(mut self) -> Result<RunSummary, RecorderError> {
        self.stop.store(true, Relaxed);
        let mut failed = None;
        for thread in self.threads.drain(..) {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                failed.get_or_insert(name);
            }
        }
        self.live.forget_gauges();
        if let Some(name) = failed {
            return Err(RecorderError::Thread { name });
        }
        let seconds = self.clock.elapsed_ns() as f64 / 1e9;
        let last = self.live.snapshot();
        if last.state == State::Recording {
            let total = last.ledger.total();
            let recorded = total[Entry::FragmentsRecorded];
            let unsure = recorded.saturating_sub(total[Entry::FragmentsDurable]);
            self.live.set_state(match unsure {
                0 => State::Stopped,
                _ => State::Fault { reason: format!("{unsure} fragments may not be durable") },
            });
        }
        let last = self.live.snapshot();
        Ok(RunSummary { run: self.run, folder: self.folder.clone(), seconds, last })
    }
}

impl Drop for Recorder {
    /// A recorder that is dropped without [`Recorder::stop`] ends its threads in the same order.
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // A panic was printed when it happened, and there is nobody left to return it to.
            let _ = thread.join();
        }
        self.live.forget_gauges();
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

/// Tells of a thread that panics: a defect, and no reason to go on as if nothing had happened.
struct Failure<'a> {
    live: &'a Live,
    name: &'a str,
}

impl Drop for Failure<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = format!("the thread {} failed; stop the run and repair it", self.name);
            self.live.set_state(State::Fault { reason });
        }
    }
}

/// Fetches the pools' pages in the background.
fn populate(pools: &Pools, live: &Live, stop: &AtomicBool) {
    for pool in pools.events.iter().chain(&pools.channels) {
        if let Err(error) = pool.populate_rest(stop) {
            live.warn_once(format!("the memory budget cannot be had in full: {error}"));
        }
    }
}
