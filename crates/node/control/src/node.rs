//! A node under control: the control thread, the devices and the server, from start to end.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use catchment_recorder::{Recorder, RunSummary};
use catchment_run::{Control, DeviceError, Schema};
use catchment_watch::RuleError;
use crossbeam_channel::{Sender, bounded};

use crate::actions::Actions;
use crate::api;
use crate::audit::AuditLog;
use crate::books::Books;
use crate::conductor::{Clock, Conductor, FIRST, Own, Signals};
use crate::configuration::{ConfigurationFault, Configure};
use crate::desk::{Ask, Counts, Desk, View};
use crate::devices::{self, Active, Devices, Shown};
use crate::history::Past;
use crate::logs::Logs;
use crate::lookout::{self, Seen};
use crate::machine;
use crate::past_runs;
use crate::problem::Problem;
use crate::properties;
use crate::security::guard::Who;
use crate::security::limit::Limit;
use crate::security::roles::Role;
use crate::security::tls::{TlsError, acceptor};
use crate::security::tokens::{TokenError, TokenFile, Tokens};
use crate::settings::{Settings, Start, Tls};
use crate::systemd::Manager;
use crate::time::now_ns;
use crate::watching::Watching;
use crate::web::{Server, bind};

/// Commands and the like that wait for the control thread.
const ASKS_MAX: usize = 1_000;
/// How long the end waits for the last lines of the audit log, and then of the log.
const LINES_WAIT: Duration = Duration::from_secs(2);

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// It would be open to everybody.
    #[error(
        "refused to listen on {address}: {missing}. Everybody who can reach this machine could stop \
         the run. Add what is missing (tls = \"self-made\"; `catchment token add`), listen on \
         127.0.0.1, or, where a node is started with `run`, say --without-protection"
    )]
    Unprotected {
        /// Where it was to listen.
        address: SocketAddr,
        /// TLS, tokens or both.
        missing: &'static str,
    },
    /// The socket could not be had.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The node's own folder, threads, or randomness.
    #[error("{what}: {source}")]
    System {
        /// What was asked for.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The configuration.
    #[error("{}", fault.message)]
    Configuration {
        /// What is wrong with it.
        fault: ConfigurationFault,
    },
    /// Its rules of alarms.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The file of tokens.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The devices: a defect.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// A node under control.
pub struct Node {
    desk: Arc<Desk>,
    signals: Arc<Signals>,
    shown: Arc<Shown>,
    server: Option<Server>,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
}

/// A recorder that somebody else started and ends.
#[derive(Debug)]
pub struct Watched<'a> {
    /// It.
    pub recorder: &'a Recorder,
    /// Its run's number; 0 if it has none.
    pub number: u64,
    /// Who started it.
    pub who: String,
    /// What for.
    pub comment: String,
    /// Whether an emulator sends to it.
    pub emulated: bool,
}

impl Watched<'_> {
    fn active(self) -> Active {
        let Self { recorder, number, who, comment, emulated } = self;
        Active { who, comment, emulated, ..Active::of(recorder, number) }
    }
}

/// What a node became.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Whether any run lost data.
    pub lost: bool,
    /// Whether a run did not end in order.
    pub failed: bool,
    /// The last run's number and what it became.
    pub last: Option<(u64, RunSummary)>,
}

/// Where a node keeps what is its own: beside the runs.
pub fn own_folder(runs: &Path) -> PathBuf {
    runs.join(".catchment")
}

impl Node {
    /// Starts the control thread, the devices and the server; the first run too, if the settings
    /// say so.
    ///
    /// # Errors
    /// What would keep it from being controlled; nothing is left running.
    pub fn start(
        settings: Settings,
        configure: Arc<dyn Configure>,
        logs: Arc<Logs>,
    ) -> Result<Self, NodeError> {
        Self::open(settings, configure, logs, None)
    }

    /// Serves what somebody else's recorder does, to look at: nothing can be changed.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn watch(
        settings: Settings,
        configure: Arc<dyn Configure>,
        logs: Arc<Logs>,
        watched: Watched<'_>,
    ) -> Result<Self, NodeError> {
        let settings = Settings { start: Start::Manual, ..settings };
        Self::open(settings, configure, logs, Some(watched.active()))
    }

    /// The recorder that is watched has ended.
    pub fn watched_ended(&self) {
        self.shown.change_active(|active| active.ended = true);
    }

    fn open(
        settings: Settings,
        configure: Arc<dyn Configure>,
        logs: Arc<Logs>,
        watched: Option<Active>,
    ) -> Result<Self, NodeError> {
        let text = configure.read().map_err(|message| NodeError::Configuration {
            fault: ConfigurationFault { message, place: None },
        })?;
        let checked = configure.check(&text);
        let configuration = checked.map_err(|fault| NodeError::Configuration { fault })?;
        let runs = configuration.recorder.folder.clone();
        let folder = own_folder(&runs);
        let system = |what: String| move |source| NodeError::System { what, source };
        let made = std::fs::create_dir_all(&folder);
        made.map_err(system(format!("the folder {}", folder.display())))?;
        check_protection(&settings, &folder)?;
        let tokens = Tokens::open(TokenFile::in_folder(&folder))?;
        let tls = acceptor(&settings.tls, &folder, &settings.names, settings.listen.ip())?;
        let address = settings.listen;
        let listener = bind(address).map_err(|source| NodeError::Listen { address, source })?;
        let mut settings =
            Settings { listen: listener.local_addr().unwrap_or(address), ..settings };
        // Nobody outside of this network can give an address to the machine's own name.
        settings.names.extend(machine::host_name());
        let audit = AuditLog::open(&folder).map_err(system("the audit log".into()))?;
        let (recorder, rules) = (&configuration.recorder, &configuration.rules);
        let watching = Watching::new(recorder, rules, settings.heavy_loss_share)?;
        let (asks_in, asks) = bounded(ASKS_MAX);
        let clock = Clock::start();
        let (start, auto) = (settings.start, Arc::new(configuration));
        let mut desk = desk(settings, &runs, (tokens, audit, logs), configure, asks_in);
        desk.watched = watched.is_some();
        let desk = Arc::new(desk);
        let version = desk.books.add_configuration(&text, "file").ok();
        desk.set_present(version, text);
        lookout::start(&desk, runs).map_err(system("a thread".into()))?;
        past_runs::recall(&desk).map_err(system("a thread".into()))?;
        let devices = Devices::start(&desk).map_err(system("a thread".into()))?;
        let shown = Arc::clone(&devices.shown);
        shown.set_active(watched);
        let drain_ns = u64::try_from(desk.settings.drain.as_nanos()).unwrap_or(u64::MAX);
        let specs = devices::specs(auto.emulates())?;
        let schemas = specs.iter().filter_map(|spec| {
            let path = spec.path.to_string();
            let (_, found) = properties::of(&path, &auto, &shown, &desk)?;
            Some((path.clone(), Schema::new(&path, found).ok()?.json()))
        });
        let signals: Arc<Signals> = Arc::default();
        let mut conductor = Conductor {
            schemas: Arc::new(schemas.collect()),
            clock,
            control: Control::new(specs, drain_ns.clamp(1, catchment_run::DRAIN_NS_MAX))?,
            actions: Actions::start(&desk).map_err(system("a thread".into()))?,
            desk: Arc::clone(&desk),
            asks,
            devices,
            watching,
            configuration: auto,
            signals: Arc::clone(&signals),
            manager: Manager::from_environment(),
            own: Own::default(),
        };
        conductor.first_look();
        let thread = std::thread::Builder::new().name("control".into());
        let thread = thread.spawn(move || conductor.run()).map_err(system("a thread".into()))?;
        let mut node = Self { desk, signals, shown, server: None, thread: Some(thread), address };
        // From here on dropping the node ends what runs.
        let server = Server::start(&node.desk, listener, tls);
        let server = server.map_err(system("the server's threads".into()))?;
        node.address = server.address();
        node.server = Some(server);
        if start == Start::Auto {
            node.start_first();
        }
        Manager::from_environment().say("READY=1");
        Ok(node)
    }

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What to type into a browser.
    pub fn url(&self) -> String {
        let scheme = if self.desk.tls { "https" } else { "http" };
        let address = match self.address {
            address if address.ip().is_unspecified() => {
                SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), address.port())
            }
            address => address,
        };
        format!("{scheme}://{address}/")
    }

    /// The node now.
    pub fn state(&self) -> api::State {
        self.desk.view().state.clone()
    }

    /// The recorder's counters as the control thread last saw them.
    pub fn snapshot(&self) -> Option<Arc<catchment_recorder::Snapshot>> {
        self.desk.view().snapshot.clone()
    }

    /// Reads the configuration file again (SIGHUP). Says what was not applied.
    ///
    /// # Errors
    /// Why all stays as it was.
    pub fn reload(&self) -> Result<Vec<String>, String> {
        let text = self.desk.configure.read()?;
        self.desk.configure.check(&text).map_err(|fault| fault.message)?;
        let version = self.desk.books.add_configuration(&text, "reload").ok();
        let asked = self.ask(|reply| Ask::Configuration(version, text, reply));
        self.desk.note(&signal(), "reload", asked.as_ref().map_or("refused", |_| "done"));
        asked.map_err(|problem| problem.detail.clone())
    }

    /// Ends the run, within the drain time, and then the node.
    pub fn shutdown(&self) {
        self.signals.shutdown.store(true, Relaxed);
    }

    /// Whether it has ended: since somebody said so, by signal or by command.
    pub fn ended(&self) -> bool {
        // A control thread that failed says nothing any more.
        self.signals.ended.load(Relaxed) || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for its end, and says what became of it.
    pub fn wait(mut self) -> Ended {
        self.end();
        let summaries = self.shown.summaries.lock().unwrap_or_else(PoisonError::into_inner);
        Ended {
            lost: self.shown.lost.load(Relaxed),
            failed: self.shown.faults.load(Relaxed),
            last: summaries.last().cloned(),
        }
    }

    fn end(&mut self) {
        self.shutdown();
        let Some(thread) = self.thread.take() else { return };
        if thread.join().is_err() {
            tracing::error!("the control thread failed");
            self.shown.faults.store(true, Relaxed);
        }
        self.server = None;
        if !self.desk.audit.flush(LINES_WAIT) {
            tracing::error!("the last lines of the audit log are not written");
        }
        self.desk.logs.flush(LINES_WAIT);
        // Last, since it waits for the disk.
        self.desk.books.close();
    }

    fn start_first(&self) {
        let request = api::CommandRequest {
            request: format!("{FIRST}{}", self.desk.started_ns),
            command: "start".into(),
            device: None,
            comment: self.desk.settings.comment.clone(),
            configuration: None,
            run: None,
        };
        let who = Who { name: "catchment".into(), ..signal() };
        // What comes of it stands in the state.
        let (reply, _) = tokio::sync::oneshot::channel();
        self.desk.asks.try_send(Ask::Command(request, None, who, reply)).ok();
    }

    fn ask<T>(&self, make: impl FnOnce(crate::desk::Reply<T>) -> Ask) -> Result<T, Problem> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let gone = || Problem::conflict("the node is ending");
        self.desk.asks.try_send(make(reply)).map_err(|_| gone())?;
        answer.blocking_recv().unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
    }
}

pub(crate) fn signal() -> Who {
    Who {
        name: "signal".into(),
        role: Role::Admin,
        from: "this machine".into(),
        session: None,
        entry: None,
    }
}

fn desk(
    settings: Settings,
    runs: &Path,
    (tokens, audit, logs): (Tokens, AuditLog, Arc<Logs>),
    configure: Arc<dyn Configure>,
    asks: Sender<Ask>,
) -> Desk {
    let per_second = settings.requests_per_second;
    Desk {
        tls: settings.tls != Tls::Off,
        watched: false,
        settings,
        started_ns: now_ns(),
        asks,
        tokens,
        sessions: crate::security::sessions::Sessions::default(),
        requests: Limit::new(per_second, per_second * 5.0),
        // Five wrong tokens at once, then one in ten seconds.
        guesses: Limit::new(0.1, 5.0),
        audit,
        logs,
        books: Books::of(runs),
        disk: Seen::default(),
        past: Past::default(),
        interrupted: AtomicU64::new(0),
        counts: Counts::default(),
        configure,
        configuration: Mutex::default(),
        view: RwLock::new(Arc::new(View::default())),
    }
}

/// Whether a node with these settings, whose own folder is `folder`, would be open to everybody.
///
/// # Errors
/// [`NodeError::Unprotected`] if it would, or why its tokens cannot be read.
pub fn check_protection(settings: &Settings, folder: &Path) -> Result<(), NodeError> {
    let address = settings.listen;
    if address.ip().is_loopback() || settings.without_protection {
        return Ok(());
    }
    let tokens = Tokens::open(TokenFile::in_folder(folder))?;
    let missing = match (settings.tls != Tls::Off, tokens.any()) {
        (true, true) => return Ok(()),
        (false, false) => "there is neither TLS nor a token",
        (false, true) => "there is no TLS, and tokens would go through the network in clear text",
        (true, false) => "there is no token",
    };
    Err(NodeError::Unprotected { address, missing })
}
