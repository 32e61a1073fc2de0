//! The node at its edge: folders, disks, threads, and what an earlier node has left.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use catchment_disk::{Disk, DiskConfig, DiskError};
use catchment_frame::{FILE_LIST_NAME, FileList};
use catchment_model::{Ledger, RunId};
use catchment_net::{NetError, TcpConfig, TcpReceiver};
use catchment_runner::{Idle, Park, Plan, SystemEntropy, ThreadEvents, Threads};
use catchment_storage::{EXTENSION, Interrupted, RunPlace, StorageError};
use catchment_telemetry::{Clock, Priority, ThreadTimes};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::config::StoreConfig;
use crate::receive::{NotOpened, Opened, OpenedStream, Order, Receive, ReceiveParts};
use crate::state::{NodeSnapshot, NodeState, StreamKey, StreamState};
use crate::writer::{Writer, WriterParts};

/// Why a storage node did not start, or did not end in order.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The port.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The folder.
    #[error("cannot use {}: {source}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system refuses something else.
    #[error("{what}: {source}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A thread has panicked: a defect.
    #[error("the thread {name} has failed")]
    Failed {
        /// The thread's name.
        name: String,
    },
}

/// A running storage node.
#[derive(Debug)]
pub struct Node {
    address: SocketAddr,
    state: Arc<NodeState>,
    stop: Arc<AtomicBool>,
    receive: Threads,
    manager: Option<JoinHandle<Option<String>>>,
}

impl Node {
    /// Starts a node.
    ///
    /// # Errors
    /// The folder or the port cannot be used, or the system has no thread left.
    pub fn start(config: StoreConfig) -> Result<Self, StoreError> {
        let folder = &config.folder;
        std::fs::create_dir_all(folder)
            .map_err(|source| StoreError::Folder { folder: folder.clone(), source })?;
        let receiver = TcpReceiver::bind(&[config.address], TcpConfig::default())?;
        let (address, readiness) = (receiver.local_addr(0), receiver.readiness());
        let state = Arc::new(NodeState::new(config.memory_bytes));
        let stop = Arc::new(AtomicBool::new(false));
        let (orders, ordered) = bounded(ORDERS_MAX);
        let (opened, opened_out) = bounded(ORDERS_MAX);
        let receive = Receive::new(ReceiveParts {
            ingress: Box::new(receiver),
            entropy: Box::new(SystemEntropy),
            state: Arc::clone(&state),
            orders,
            opened: opened_out,
            stop: Arc::clone(&stop),
            close_after_ns: config.close_after_ns,
        });
        let system = |what| move |source| StoreError::System { what, source };
        let clock = Clock::start();
        let manager =
            Manager { config, clock, state: Arc::clone(&state), writers: BTreeMap::new() };
        let manage = move || manager.run(&ordered, &opened);
        let manager = std::thread::Builder::new().name("streams".to_owned()).spawn(manage);
        let manager = Some(manager.map_err(system("a thread"))?);
        let events = Arc::new(Events(Arc::clone(&state)));
        let mut threads = Threads::new(clock, Arc::new(ThreadTimes::default()), events);
        threads
            .spawn(receive, plan("receive".to_owned(), Box::new(readiness)))
            .map_err(system("a thread"))?;
        Ok(Self { address, state, stop, receive: threads, manager })
    }

    /// Where recorders connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done so far.
    pub fn snapshot(&self) -> NodeSnapshot {
        self.state.snapshot()
    }

    /// Tells senders that the node ends, and closes all files.
    ///
    /// # Errors
    /// A thread has panicked.
    pub fn stop(mut self) -> Result<NodeSnapshot, StoreError> {
        match self.end() {
            Some(name) => Err(StoreError::Failed { name }),
            None => Ok(self.state.snapshot()),
        }
    }

    /// Ends all threads. Returns the name of one that had panicked.
    fn end(&mut self) -> Option<String> {
        self.stop.store(true, Relaxed);
        let failed = self.receive.join().failed;
        let of_writers = match self.manager.take()?.join() {
            Ok(failed) => failed,
            Err(_) => Some("streams".to_owned()),
        };
        failed.or(of_writers)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _failed = self.end();
    }
}

/// Makes the writers of streams.
struct Manager {
    config: StoreConfig,
    clock: Clock,
    state: Arc<NodeState>,
    writers: BTreeMap<String, Running>,
}

/// A writer on its thread.
struct Running {
    state: Arc<StreamState>,
    threads: Threads,
}

impl Manager {
    /// Carries out orders until the agent that gives them has ended, and then waits for all
    /// writers. Returns the name of one that had panicked.
    fn run(mut self, orders: &Receiver<Order>, opened: &Sender<Opened>) -> Option<String> {
        loop {
            match orders.recv_timeout(LOOK_EVERY) {
                Ok(Order::Open(key)) => {
                    let (name, result) = (key.name.clone(), self.open(key));
                    if opened.send(Opened { name, result }).is_err() {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.forget_ended(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let writers = self.writers.values_mut();
        writers.filter_map(|running| running.threads.join().failed).next()
    }

    /// Forgets writers that have ended as they were asked to.
    fn forget_ended(&mut self) {
        self.writers.retain(|name, running| {
            !running.threads.has_ended(&thread_name(name)) || running.state.has_failed()
        });
    }

    fn open(&mut self, key: StreamKey) -> Result<OpenedStream, NotOpened> {
        let folder = self.config.folder.join(&key.name);
        if let Some(running) = self.writers.get_mut(&key.name) {
            if !running.threads.has_ended(&thread_name(&key.name)) {
                return Err(NotOpened::Later("its files are being closed".to_owned()));
            }
            let fault = running.state.fault.lock().clone();
            if let Some(fault) = fault {
                for (path, bytes) in &fault.cuts {
                    cut(path, *bytes).map_err(|error| {
                        NotOpened::Later(format!("cannot cut {}: {error}", path.display()))
                    })?;
                }
                self.state.count(|counters| &counters.disk_faults, 1);
            }
            let failed = running.threads.join().failed;
            self.writers.remove(&key.name);
            if let Some(name) = failed {
                return Err(NotOpened::Later(format!("the thread {name} has failed")));
            }
        }
        let left = left_in(&folder, &key)?;
        let later = |error: String| NotOpened::Later(error);
        let has_ended = left.has_ended;
        let durable = left.sequence + u64::from(has_ended);
        let state = Arc::new(StreamState::new(key, durable));
        state.has_ended.store(has_ended, Relaxed);
        let is_new = left.is_new;
        let (input, items) = bounded(ITEMS_MAX);
        let (writer, waker, park) =
            self.writer(&folder, &state, left, items).map_err(|error| later(error.to_string()))?;
        let events = Arc::new(Events(Arc::clone(&self.state)));
        let mut threads = Threads::new(self.clock, Arc::new(ThreadTimes::default()), events);
        let name = state.key.name.clone();
        threads
            .spawn(writer, plan(thread_name(&name), park))
            .map_err(|error| later(error.to_string()))?;
        self.state.show(&state);
        let running = Running { state: Arc::clone(&state), threads };
        self.writers.insert(name, running);
        Ok(OpenedStream { state, input, waker, has_ended, is_new })
    }

    #[expect(clippy::type_complexity, reason = "what a thread is made of")]
    fn writer(
        &self,
        folder: &Path,
        state: &Arc<StreamState>,
        left: Left,
        input: Receiver<crate::writer::Item>,
    ) -> Result<(Writer<Disk>, catchment_agent::Waker, Box<dyn Park>), DiskError> {
        let file_bytes = self.config.file_bytes;
        let disk = DiskConfig { file_bytes, keeps_reserve: true, ..self.config.disk.clone() };
        let (buffer_bytes, sync_interval_ns) = (disk.buffer_bytes, disk.sync_interval_ns);
        let mut store = Disk::new(disk)?;
        store.begin_in(folder);
        let (waker, park) = (store.waker(), Box::new(store.sleeper()));
        let writer = Writer::new(WriterParts {
            store,
            input,
            state: Arc::clone(state),
            entropy: Box::new(SystemEntropy),
            folder: folder.to_owned(),
            next_index: left.next_index,
            ledger: left.ledger,
            buffer_bytes,
            file_bytes,
            sync_interval_ns,
        });
        Ok((writer, catchment_agent::Waker::new(move || waker.wake()), park))
    }
}

/// What is left of a stream, closed and durable.
struct Left {
    /// The number of the next frame.
    sequence: u64,
    next_index: u32,
    ledger: Ledger,
    has_ended: bool,
    is_new: bool,
}

/// Ends the files that are left of a stream, behind their last whole frame without a gap.
fn left_in(folder: &Path, key: &StreamKey) -> Result<Left, NotOpened> {
    let later = |error: io::Error| NotOpened::Later(format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(later)?;
    if let Some(parent) = folder.parent() {
        catchment_disk::sync_folder(parent).map_err(|error| NotOpened::Later(error.to_string()))?;
    }
    remove_blank(folder).map_err(later)?;
    let folders = vec![folder.to_owned()];
    let place = RunPlace { folders, is_required: true, trusts_lists: true };
    let found = match Interrupted::find(&[place]) {
        Ok(found) => found,
        Err(StorageError::NoFiles { .. }) => {
            let ledger = Ledger::new(0);
            return Ok(Left { sequence: 0, next_index: 0, ledger, has_ended: false, is_new: true });
        }
        Err(error) => return Err(NotOpened::Later(error.to_string())),
    };
    let header = found.header();
    let own = (RunId(key.run), key.stream, key.variant);
    if (header.run, header.stream, header.variant) != own {
        let text = format!("{} has the files of another run here", key.name);
        return Err(NotOpened::Never(text));
    }
    let list = std::fs::read(folder.join(FILE_LIST_NAME)).unwrap_or_default();
    let has_ended = FileList::decode(&list).is_ok_and(|list| list.ended.is_some());
    let mut resumed = found.take().map_err(|error| NotOpened::Later(error.to_string()))?;
    let place = resumed.places.swap_remove(0);
    Ok(Left {
        sequence: resumed.sequence,
        next_index: place.next_index,
        ledger: place.ledger,
        has_ended,
        is_new: false,
    })
}

/// Removes files that were made and never begun: they have nothing but zeros where a header is.
fn remove_blank(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != EXTENSION) {
            continue;
        }
        let mut begin = Vec::new();
        std::fs::File::open(&path)?.take(4_096).read_to_end(&mut begin)?;
        if begin.iter().all(|&byte| byte == 0) {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Cuts a file behind what is durable of it.
fn cut(path: &Path, bytes: u64) -> io::Result<()> {
    if bytes == 0 {
        return match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let file = std::fs::OpenOptions::new().write(true).open(path)?;
    if file.metadata()?.len() > bytes {
        file.set_len(bytes)?;
    }
    file.sync_all()
}

fn thread_name(stream: &str) -> String {
    format!("write-{stream}")
}

fn plan(name: String, park: Box<dyn Park>) -> Plan {
    let (priority, idle) = (Some(Priority::Data), Idle::default());
    Plan { name, cpu: None, priority, idle, park, may_be_left: false }
}

/// A thread that panics ends the sessions of its stream.
struct Events(Arc<NodeState>);

impl ThreadEvents for Events {
    fn unpinned(&self, _name: &str, _error: &dyn fmt::Display) {}

    fn failed(&self, name: &str) {
        let streams = self.0.streams.lock();
        for stream in streams.iter().filter(|stream| thread_name(&stream.key.name) == name) {
            let reason = format!("the thread {name} has failed");
            *stream.fault.lock() = Some(crate::state::Fault { reason, cuts: Vec::new() });
        }
    }
}

/// Orders that wait.
const ORDERS_MAX: usize = 256;
/// Frames that wait for a writer, beside their bound in bytes.
const ITEMS_MAX: usize = 256;
const LOOK_EVERY: Duration = Duration::from_secs(1);
