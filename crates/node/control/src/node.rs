//! A node under control: the control thread, the devices and the server, from start to end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use catchment_emulator::{EmulatorObserver, EmulatorReport};
use catchment_recorder::{Observer, RunSummary};
use catchment_run::Control;
use catchment_store::{NodeSnapshot, StoreError};
use catchment_telemetry::{Clock, ThreadTime, utc_now};
use catchment_watch::RuleError;
use crossbeam_channel::{Sender, bounded};
use parking_lot::{Mutex, RwLock};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::actions::Actions;
use crate::api;
use crate::audit::AuditLog;
use crate::catalog_client::CatalogClient;
use crate::conductor::{Conductor, ConductorState, FIRST, Signals};
use crate::configuration::{Configuration, ConfigurationFault, Configure, Version};
use crate::devices::{self, Active, Devices, RunStatus};
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
use crate::security::tls::{self, TlsError, acceptor};
use crate::security::tokens::{TokenError, TokenFile, Tokens};
use crate::settings::{Settings, Start, Tls};
use crate::shared::{Answer, Ask, Counts, NodeShared, View};
use crate::storing::{self, Storing};
use crate::systemd::Manager;
use crate::watching::Watching;
use crate::web::stored::Sending;
use crate::web::{Server, bind};

/// The most requests that wait for the control thread.
const ASKS_MAX: usize = 1_000;
/// How long the end waits for the last lines of the audit log, and then of the log.
const LINES_WAIT: Duration = Duration::from_secs(2);

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// It would be open to everyone.
    #[error(
        "refused to listen on {address}: {missing}. Everybody who can reach this machine could stop \
         the run. Add what is missing (tls = \"self-made\"; `catchment token add`), listen on \
         127.0.0.1, or, where a node is started with `run`, say --without-protection"
    )]
    Unprotected {
        /// The address on which to listen.
        address: SocketAddr,
        /// TLS, tokens or both.
        missing: &'static str,
    },
    /// The socket could not be opened.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The node's own folder, threads, or random numbers.
    #[error("{resource}: {source}")]
    System {
        /// The requested resource.
        resource: String,
        /// The system's error.
        source: io::Error,
    },
    /// The storage node.
    #[error("the storage node: {0}")]
    Store(#[from] StoreError),
    /// The configuration.
    #[error("{}", fault.message)]
    Configuration {
        /// The error.
        fault: ConfigurationFault,
    },
    /// An error in its rules of alarms.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// An error in the file of tokens.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// An error in TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A node under control.
pub struct Node {
    shared: Arc<NodeShared>,
    signals: Arc<Signals>,
    run_status: Arc<RunStatus>,
    server: Option<Server>,
    thread: Option<JoinHandle<()>>,
    first: FirstRun,
}

/// The state of the command that starts the first run.
enum FirstRun {
    /// There is no such command.
    None,
    /// It was given and is not answered yet.
    Asked(Answer<api::CommandResult>),
    /// It was answered before it had ended; the request to query.
    UnderWay(String),
    /// It has ended.
    Ended(Result<(), String>),
}

/// The open run, as shown to the program that owns the node.
#[derive(Clone, Debug)]
pub struct OpenRun {
    /// Its number; 0 if it could not get one.
    pub number: u64,
    /// Its folder.
    pub folder: PathBuf,
    /// The observer of its recorder.
    pub observer: Observer,
    /// Bytes of the smallest socket buffer that the system granted; 0 if none was asked for.
    pub granted_bytes_min: usize,
    /// Where each source and each link is received.
    pub addresses: Vec<SocketAddr>,
    /// Where front-ends connect, by listener.
    pub listeners: Vec<SocketAddr>,
    /// How often it went on after its recorder's death.
    pub epoch: u32,
}

/// The result of a node.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Whether any run lost data, or has bad data.
    pub imperfect: bool,
    /// Why a run, or the node, did not end in order.
    pub failed: Option<String>,
    /// The catalogue's error, if any: it may lack the end of a run.
    pub catalog_trouble: Option<String>,
    /// The last run's number and result.
    pub last: Option<(u64, RunSummary)>,
    /// The data that the emulator of sources sent in the last run.
    pub sent: Option<EmulatorReport>,
    /// What a storage node has done.
    pub stored: Option<NodeSnapshot>,
}

/// The folder of a node's own files: beside the runs.
pub fn own_folder(runs: &Path) -> PathBuf {
    runs.join(".catchment")
}

/// The configuration's text, and what it says.
fn read(configure: &dyn Configure) -> Result<(String, Configuration), NodeError> {
    let text = configure.read().map_err(|message| NodeError::Configuration {
        fault: ConfigurationFault { message, position: None },
    })?;
    let checked = configure.check(&text);
    Ok((text, checked.map_err(|fault| NodeError::Configuration { fault })?))
}

impl Node {
    /// Starts the control thread, the devices and the server; also the first run, if the settings
    /// require it.
    ///
    /// # Errors
    /// Any obstacle to controlling it; nothing is left running.
    pub fn start(
        settings: Settings,
        configure: Arc<dyn Configure>,
        logs: Arc<Logs>,
    ) -> Result<Self, NodeError> {
        let (text, configuration) = read(&*configure)?;
        let runs = configuration.recorder.folder.clone();
        let folder = own_folder(&runs);
        let system = |resource: String| move |source| NodeError::System { resource, source };
        let unmade = configuration.store.as_ref().map(storing::unmade).transpose()?;
        let made = std::fs::create_dir_all(&folder);
        made.map_err(system(format!("the folder {}", folder.display())))?;
        check_protection(&settings, &folder)?;
        let tokens = Tokens::open(TokenFile::in_folder(&folder))?;
        let mut settings = settings;
        let listener = listen(&mut settings, &folder)?;
        let audit = AuditLog::open(&folder).map_err(system("the audit log".into()))?;
        let watching = Watching::new(&configuration, settings.heavy_loss_share)?;
        let tokens = Arc::new(tokens);
        let storing = configuration.store.clone();
        let storing = storing.map(|store| Storing::start(store, &settings, &tokens, &folder));
        let storing = storing.transpose()?.map(Arc::new);
        storing::log_made(&unmade.unwrap_or_default());
        let (asks_in, asks) = bounded(ASKS_MAX);
        let clock = Clock::start();
        let (start, auto) = (settings.start, Arc::new(configuration));
        let parts = (tokens, audit, logs, storing);
        let shared = Arc::new(shared(settings, &runs, parts, configure, asks_in));
        let version = shared.catalog.add_configuration(&text, "file").ok();
        shared.set_present(version, text);
        lookout::start(&shared, runs).map_err(system("a thread".into()))?;
        if shared.storing.is_none() {
            past_runs::recall(&shared).map_err(system("a thread".into()))?;
        }
        let specs = devices::specs(&auto);
        let devices = Devices::start(&shared, &specs, &auto).map_err(system("a thread".into()))?;
        let run_status = Arc::clone(&devices.run_status);
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let drain_ns = nanoseconds(shared.settings.drain).max(1);
        let patience_ns = nanoseconds(shared.settings.device_patience);
        let schemas = specs.iter().filter_map(|spec| {
            let found = properties::of(spec.path, &auto, &run_status, &shared)?;
            Some((spec.path.to_owned(), properties::schema(spec.path, &found)))
        });
        let signals: Arc<Signals> = Arc::default();
        let mut conductor = Conductor {
            schemas: Arc::new(schemas.collect()),
            clock,
            control: Control::new(specs, drain_ns, patience_ns),
            actions: Actions::start(&shared).map_err(system("a thread".into()))?,
            shared: Arc::clone(&shared),
            asks,
            devices,
            watching,
            configuration: auto,
            forwarding: None,
            signals: Arc::clone(&signals),
            manager: Manager::from_environment(),
            state: ConductorState::default(),
        };
        conductor.forward();
        conductor.first_look();
        let thread = std::thread::Builder::new().name("control".into());
        let thread = thread.spawn(move || conductor.run()).map_err(system("a thread".into()))?;
        let (server, first) = (None, FirstRun::None);
        let mut node = Self { shared, signals, run_status, server, thread: Some(thread), first };
        // From here on, dropping the node ends everything that runs.
        if let Some((listener, tls)) = listener {
            let server = Server::start(&node.shared, listener, tls);
            node.server = Some(server.map_err(system("the server's threads".into()))?);
        }
        if start == Start::Auto && node.shared.storing.is_none() {
            node.start_first();
        }
        Manager::from_environment().say("READY=1");
        Ok(node)
    }

    /// The address on which it listens, if any, with the port chosen by the system.
    pub fn address(&self) -> Option<SocketAddr> {
        self.server.as_ref().map(Server::address)
    }

    /// The address for a browser, if it listens.
    pub fn url(&self) -> Option<String> {
        let scheme = if self.shared.tls { "https" } else { "http" };
        let address = match self.address()? {
            address if address.ip().is_unspecified() => {
                SocketAddr::new(std::net::Ipv4Addr::LOCALHOST.into(), address.port())
            }
            address => address,
        };
        Some(format!("{scheme}://{address}/"))
    }

    /// Where recorders connect to the storage node, if it is one.
    pub fn store_address(&self) -> Option<SocketAddr> {
        self.shared.storing.as_ref().map(|storing| storing.address())
    }

    /// The present state of the node.
    pub fn state(&self) -> api::State {
        self.shared.view().state.clone()
    }

    /// The recorder's counters as the control thread last saw them.
    pub fn snapshot(&self) -> Option<Arc<catchment_recorder::Snapshot>> {
        self.shared.view().snapshot.clone()
    }

    /// The run that is armed or recorded.
    pub fn open_run(&self) -> Option<OpenRun> {
        let active = self.run_status.active().filter(|active| !active.ended)?;
        let Active { number, folder, observer, granted_bytes_min, addresses, epoch, .. } = active;
        let listeners = self.run_status.listeners.lock().clone();
        Some(OpenRun { number, folder, observer, granted_bytes_min, addresses, listeners, epoch })
    }

    /// The outcome of starting the first run, if the settings require one; `None` while it is in
    /// progress.
    pub fn first_run(&mut self) -> Option<Result<(), String>> {
        let answer = match &mut self.first {
            FirstRun::None => return None,
            FirstRun::Ended(result) => return Some(result.clone()),
            FirstRun::Asked(answer) => match answer.try_recv() {
                Ok(answer) => answer,
                Err(oneshot::error::TryRecvError::Empty) => return None,
                Err(oneshot::error::TryRecvError::Closed) => Err(gone()),
            },
            FirstRun::UnderWay(request) => {
                let request = request.clone();
                self.ask(move |conductor, _| conductor.result_of(&request))
            }
        };
        self.first = match answer {
            Ok(result) if result.status == "under_way" => FirstRun::UnderWay(result.request),
            Ok(result) if result.status == "done" => FirstRun::Ended(Ok(())),
            Ok(result) => FirstRun::Ended(Err(result.reason.unwrap_or(result.status))),
            Err(problem) => FirstRun::Ended(Err(problem.detail.clone())),
        };
        match &self.first {
            FirstRun::Ended(result) => Some(result.clone()),
            _ => None,
        }
    }

    /// Why the catalogue of runs cannot be used, if so.
    pub fn catalog_trouble(&self) -> Option<String> {
        self.shared.catalog.trouble()
    }

    /// Whether all emulated data have been sent: emulators with a limit have ended.
    pub fn emulation_ended(&self) -> bool {
        let emulators = self.run_status.emulators.lock();
        !emulators.is_empty() && emulators.iter().all(EmulatorObserver::ended)
    }

    /// CPU time of the emulators' threads.
    pub fn emulator_threads(&self) -> Vec<ThreadTime> {
        self.run_status.emulators.lock().iter().flat_map(EmulatorObserver::threads).collect()
    }

    /// Reads the configuration file again (SIGHUP). Returns the parts that were not applied.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn reload(&self) -> Result<Vec<String>, String> {
        let text = self.shared.configure.read()?;
        let checked = self.shared.configure.check(&text).map_err(|fault| fault.message)?;
        let number = self.shared.catalog.add_configuration(&text, "reload").ok();
        let version = Version { configuration: Arc::new(checked), number, text };
        let asked = self.ask(|conductor, _| conductor.configure(version));
        self.shared.note(&signal(), "reload", asked.as_ref().map_or("refused", |_| "done"));
        asked.map_err(|problem| problem.detail.clone())
    }

    /// Ends the run, within the drain time, and then the node.
    pub fn shutdown(&self) {
        self.signals.shutdown.store(true, Relaxed);
    }

    /// Whether it has ended, since a signal or a command may have ended it.
    pub fn ended(&self) -> bool {
        let has_failed = |storing: &Arc<Storing>| storing.has_failed();
        // A failed control thread reports nothing any more.
        self.shared.storing.as_ref().is_some_and(has_failed)
            || self.signals.ended.load(Relaxed)
            || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for its end, and returns the result.
    pub fn wait(mut self) -> Ended {
        let stored = self.end();
        Ended {
            imperfect: self.run_status.imperfect.load(Relaxed),
            failed: self.run_status.failure.lock().take(),
            catalog_trouble: self.catalog_trouble(),
            last: self.run_status.last.lock().take(),
            sent: self.run_status.sent.lock().take(),
            stored,
        }
    }

    /// Ends everything. Returns what a storage node has done.
    fn end(&mut self) -> Option<NodeSnapshot> {
        self.shutdown();
        let thread = self.thread.take()?;
        if thread.join().is_err() {
            tracing::error!("the control thread failed");
            self.run_status.fail("the control thread failed");
        }
        let stored = self.shared.storing.as_ref().and_then(|storing| storing.stop());
        let stored = stored.and_then(|stored| {
            stored.map_err(|error| self.run_status.fail(format_args!("the store: {error}"))).ok()
        });
        self.server = None;
        if !self.shared.audit.flush(LINES_WAIT) {
            tracing::error!("the last lines of the audit log are not written");
        }
        self.shared.logs.flush(LINES_WAIT);
        // Last, since it waits for the disk.
        self.shared.catalog.close();
        stored
    }

    fn start_first(&mut self) {
        let request = api::CommandRequest {
            request: format!("{FIRST}{}", self.shared.started_ns),
            command: "start".into(),
            comment: self.shared.settings.comment.clone(),
            ..api::CommandRequest::default()
        };
        let who = Who { name: self.shared.settings.who.clone(), ..signal() };
        let asked =
            self.ask(move |conductor, now_ns| conductor.command(now_ns, &request, None, &who));
        self.first = match asked {
            Ok(answer) => FirstRun::Asked(answer),
            Err(problem) => FirstRun::Ended(Err(problem.detail.clone())),
        };
    }

    /// Has the control thread do something, and waits for the answer.
    fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Conductor, u64) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.shared.put(work)?.blocking_recv().unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _stored = self.end();
    }
}

fn gone() -> Problem {
    Problem::conflict("the node is ending")
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

/// The socket on which the node is served, if any, and its TLS.
fn listen(
    settings: &mut Settings,
    folder: &Path,
) -> Result<Option<(TcpListener, Option<TlsAcceptor>)>, NodeError> {
    let Some(address) = settings.listen else { return Ok(None) };
    let tls = acceptor(&settings.tls, folder, &settings.names, address.ip())?;
    let listener = bind(address).map_err(|source| NodeError::Listen { address, source })?;
    settings.listen = Some(listener.local_addr().unwrap_or(address));
    // Nothing outside this network can give an address to the machine's own name.
    settings.names.extend(machine::host_name());
    Ok(Some((listener, tls)))
}

fn shared(
    settings: Settings,
    runs: &Path,
    (tokens, audit, logs, storing): (Arc<Tokens>, AuditLog, Arc<Logs>, Option<Arc<Storing>>),
    configure: Arc<dyn Configure>,
    asks: Sender<Ask>,
) -> NodeShared {
    let per_second = settings.requests_per_second;
    let of_node = storing.as_ref().map(|storing| storing.folder_paths());
    NodeShared {
        tls: settings.tls != Tls::Off,
        settings,
        started_ns: utc_now().0,
        asks,
        tokens,
        sessions: crate::security::sessions::Sessions::default(),
        requests: Limit::new(per_second, per_second * 5.0),
        // Five wrong tokens at once, then one in ten seconds.
        guesses: Limit::new(0.1, 5.0),
        audit,
        logs,
        catalog: CatalogClient::of(runs),
        disk: Seen::default(),
        past: Past::default(),
        storing,
        served: of_node.unwrap_or_else(|| vec![runs.to_owned()]),
        sending: Sending::default(),
        interrupted: AtomicU64::new(0),
        forwarded_bytes: Arc::default(),
        counts: Counts::default(),
        configure,
        configuration: Mutex::default(),
        view: RwLock::new(Arc::new(View::default())),
    }
}

/// Checks whether the certificate named in these settings can be used.
///
/// # Errors
/// [`NodeError::Tls`] if it cannot, or does not exist.
pub fn check_certificate(settings: &Settings) -> Result<(), NodeError> {
    Ok(tls::check(&settings.tls)?)
}

/// Checks whether a node with these settings, whose own folder is `folder`, would be open to
/// everyone.
///
/// # Errors
/// [`NodeError::Unprotected`] if it would, or why its tokens cannot be read.
pub fn check_protection(settings: &Settings, folder: &Path) -> Result<(), NodeError> {
    let open = |address: &SocketAddr| !address.ip().is_loopback() && !settings.without_protection;
    let Some(address) = settings.listen.filter(open) else { return Ok(()) };
    let tokens = Tokens::open(TokenFile::in_folder(folder))?;
    let missing = match (settings.tls != Tls::Off, tokens.any()) {
        (true, true) => return Ok(()),
        (false, false) => "there is neither TLS nor a token",
        (false, true) => "there is no TLS, and tokens would go through the network in clear text",
        (true, false) => "there is no token",
    };
    Err(NodeError::Unprotected { address, missing })
}
