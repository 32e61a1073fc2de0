//! The node at its edge: folders, disks, threads, and the files of an earlier node.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use catchment_agent::{FolderStore, Waker};
use catchment_disk::{DiskConfig, DiskError};
use catchment_model::RunId;
use catchment_net::{NetError, TcpConfig, TcpReceiver};
use catchment_runner::{SystemEntropy, Threads};
use catchment_storage::{EXTENSION, StorageError, list_removed};
use catchment_telemetry::{Clock, ThreadTimes};
use catchment_writer::{Disks, WriteCounts};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::config::StoreConfig;
use crate::described::Question;
use crate::folder_marks;
use crate::host::{Events, HasEnded, Host, HostDisks, OnThread, plan};
use crate::items::Item;
use crate::memory::{Reserved, buffered};
use crate::receive::{Answer, NotOpened, OpenedStream, Order, Receive, ReceiveParts};
use crate::sessions::CONNECTIONS_MAX;
use crate::state::{
    Durable, Fault, FolderState, NodeObserver, NodeSnapshot, NodeState, StreamKey, StreamState,
};
use crate::stored::{self, Stored};
use crate::writer::{ROOM_BYTES, Writer, WriterParts};

/// Why a storage node did not start, or did not end in order.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The port.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Recorders need what the program has not got.
    #[error("recorders need TLS or tokens, and this program has no certificate or no tokens")]
    Access,
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
        let absent = folder_marks::absent_folders(&config.folders);
        folder_marks::make(&config.folders, &absent)
            .map_err(|(folder, source)| StoreError::Folder { folder, source })?;
        if !config.access.is_whole() {
            return Err(StoreError::Access);
        }
        let tls = config.access.certificate.clone();
        let tls = tls.filter(|_| config.access.tls.needs_certificate());
        let tcp_config =
            TcpConfig { connections_max: CONNECTIONS_MAX, tls, ..TcpConfig::default() };
        let receiver = TcpReceiver::bind(&[config.address], tcp_config)?;
        let (address, readiness) = (receiver.local_addr(0), receiver.readiness());
        let state = Arc::new(NodeState::new(config.memory_bytes, &config.folders));
        let stop = Arc::new(AtomicBool::new(false));
        let (orders, ordered) = bounded(ORDERS_MAX);
        let (answers, answers_out) = bounded(ORDERS_MAX);
        let receive = Receive::new(ReceiveParts {
            ingress: Box::new(receiver),
            entropy: Box::new(SystemEntropy),
            state: Arc::clone(&state),
            orders,
            answers: answers_out,
            stop: Arc::clone(&stop),
            close_after_ns: config.close_after_ns,
            access: config.access.clone(),
        });
        let system = |what| move |source| StoreError::System { what, source };
        let clock = Clock::start();
        let host = OnThread::new(clock).map_err(system("an event"))?;
        let manager = Manager::new(config, host, Arc::clone(&state)).without(absent);
        let manage = move || manager.run(&ordered, &answers);
        let manager = std::thread::Builder::new().name("streams".to_owned()).spawn(manage);
        let manager = Some(manager.map_err(system("a thread"))?);
        let mut threads = Threads::new(clock, Arc::new(ThreadTimes::default()), Arc::new(Events));
        threads
            .spawn(receive, plan(RECEIVE.to_owned(), Box::new(readiness)))
            .map_err(system("a thread"))?;
        Ok(Self { address, state, stop, receive: threads, manager })
    }

    /// Where recorders connect.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it takes nothing more although it was not told to end: its thread has failed.
    pub fn has_failed(&self) -> bool {
        self.receive.has_ended(RECEIVE)
    }

    /// What it has done so far.
    pub fn snapshot(&self) -> NodeSnapshot {
        self.state.snapshot()
    }

    /// Sees it from elsewhere.
    pub fn observer(&self) -> NodeObserver {
        NodeObserver(Arc::clone(&self.state))
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

/// A writer that is not begun yet, what wakes it, and how it will wait.
type NewWriter<H> = (Writer<<H as Host>::Store>, Waker, <H as Host>::Park);

/// Makes the writers of streams.
pub(crate) struct Manager<H: Host> {
    config: StoreConfig,
    pub(crate) host: H,
    state: Arc<NodeState>,
    writers: BTreeMap<String, Running>,
    /// By stream.
    left_out: BTreeMap<String, FoldersLeftOut>,
    /// Folders that were used before and whose disks are not mounted.
    absent: Vec<PathBuf>,
    /// Streams that were begun meanwhile: nothing of them is there.
    begun_without: BTreeSet<String>,
}

/// Folders in which a stream cannot go on, since what it has there cannot be ended.
#[derive(Default)]
struct FoldersLeftOut {
    folders: Vec<PathBuf>,
    /// Above the numbers of the files there, which keep them.
    next_index: u32,
    /// Whether one has something that was durable.
    has_durable: bool,
}

/// A writer that was begun, and what it shows.
struct Running {
    state: Arc<StreamState>,
    has_ended: HasEnded,
    /// The room of its disks' buffers; none if it has the least that a disk works with.
    buffers: Option<Reserved>,
}

impl<H: Host> Manager<H> {
    pub(crate) fn new(config: StoreConfig, host: H, state: Arc<NodeState>) -> Self {
        let (writers, left_out) = (BTreeMap::new(), BTreeMap::new());
        let (absent, begun_without) = (Vec::new(), BTreeSet::new());
        Self { config, host, state, writers, left_out, absent, begun_without }
    }

    /// Does not use these folders until their disks are mounted.
    fn without(self, absent: Vec<PathBuf>) -> Self {
        for folder in self.state.folders.iter().filter(|one| absent.contains(&one.path)) {
            folder.note_absent(folder_marks::absent_words(&folder.path));
        }
        Self { absent, ..self }
    }

    /// Uses folders again whose disks were mounted, for streams that are opened from now on.
    fn look_for_absent(&mut self) {
        let before = self.absent.len();
        self.absent.retain(|folder| !folder_marks::is_there(folder));
        if self.absent.len() == before {
            return;
        }
        let is_back = |one: &&Arc<FolderState>| !self.absent.contains(&one.path);
        let back = self.state.folders.iter().filter(is_back);
        back.for_each(|folder| folder.is_back());
        folder_marks::mark(&self.config.folders, &self.absent);
        if self.absent.is_empty() {
            self.begun_without.clear();
        }
    }

    /// Whether all of a stream is in folders that are there.
    fn check_whole(&mut self, name: &str) -> Result<(), String> {
        let is_begun = self.writers.contains_key(name) || self.begun_without.contains(name);
        let Some(absent) = self.absent.first().filter(|_| !is_begun) else { return Ok(()) };
        // It has a folder in each that was there when it was begun.
        if self.folders_of(name).iter().any(|folder| folder.exists()) {
            let absent = absent.display();
            return Err(format!("a part of it may be in {absent}, whose disk is not mounted"));
        }
        if self.absent.len() == self.config.folders.len() {
            return Err("the disks of all folders are not mounted".to_owned());
        }
        Ok(())
    }

    /// Carries out orders until the agent that gives them has ended, and then waits for all
    /// writers. Returns the name of one that had panicked.
    fn run(mut self, orders: &Receiver<Order>, answers: &Sender<Answer>) -> Option<String> {
        let mut looked = Instant::now();
        loop {
            match orders.recv_timeout(LOOK_EVERY) {
                Ok(order) => {
                    if answers.send(self.carry_out(order)).is_err() {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if looked.elapsed() >= LOOK_EVERY {
                looked = Instant::now();
                self.forget_ended();
                self.look_for_absent();
                self.state.forget_unopened(self.host.now_ns());
            }
        }
        self.host.end()
    }

    /// Forgets writers that have ended as they were asked to, and the buffers of all that have. For
    /// how long nothing had come is kept for the sender that has asked, and what is durable where a
    /// folder was left out.
    fn forget_ended(&mut self) {
        let ended = self.writers.values_mut().filter(|one| one.has_ended.get());
        ended.for_each(|one| one.buffers = None);
        let is_asked = |state: &StreamState| state.idle_ns.load(Relaxed) > 0;
        self.writers.retain(|name, one| {
            let is_needed = one.state.has_failed() || is_asked(&one.state);
            !one.has_ended.get() || is_needed || self.left_out.contains_key(name)
        });
    }

    pub(crate) fn carry_out(&mut self, order: Order) -> Answer {
        match order {
            Order::Open(key, asks) => {
                let name = key.name.clone();
                let opened = self.open(key, asks);
                let error = opened.as_ref().err().map(|error| error.text().to_owned());
                self.state.note_open(&name, error, self.host.now_ns());
                Answer::Opened(name, opened)
            }
            Order::Keep(name, generation) => {
                let folders = self.folders_of(&name);
                let kept = keep_generation(&folders, generation).map_err(|error| error.to_string());
                Answer::Kept(name, kept.map(|()| generation))
            }
            Order::Find => {
                let mut names = stored::unclosed(&self.config.folders);
                names.retain(|name| !self.writers.contains_key(name));
                Answer::Found(names)
            }
            Order::Close(name) => {
                let closed = self.close(&name);
                self.state.note_close(&name, closed.as_ref().err());
                Answer::Closed(name, closed.is_ok())
            }
        }
    }

    /// The folders of a stream, but for those that were left as they are, or are not there.
    fn folders_of(&self, name: &str) -> Vec<PathBuf> {
        let left_out = self.left_out.get(name).map_or(&[][..], |one| &one.folders[..]);
        let there = self.config.folders.iter().filter(|folder| !self.absent.contains(folder));
        let folders = there.map(|folder| folder.join(name));
        folders.filter(|one| !left_out.contains(one)).collect()
    }

    /// The states of the node's folders in which these folders of a stream are.
    fn states_of(&self, folders: &[PathBuf]) -> Vec<Arc<FolderState>> {
        let of = |folder: &PathBuf| {
            let all = self.state.folders.iter();
            let mut own = all.filter(|state| folder.parent() == Some(&state.path));
            Arc::clone(own.next().expect("streams have folders in the node's"))
        };
        folders.iter().map(of).collect()
    }

    /// Closes the files of a stream that has no writer, and says why its last one has failed, if it
    /// has. If its sender `asks`, frames are cut off as it says, and what there is then is
    /// described.
    fn close_files(
        &mut self,
        key: &StreamKey,
        asks: Option<&Question>,
    ) -> Result<(Stored, Option<Fault>), NotOpened> {
        let later = NotOpened::Later;
        let (mut fault, mut before, mut stored, mut idle_ns) = (None, None, None, 0);
        if let Some(running) = self.writers.get_mut(&key.name) {
            if !running.has_ended.get() {
                return Err(later("its files are being closed".to_owned()));
            }
            running.buffers = None;
            let state = Arc::clone(&running.state);
            idle_ns = state.idle_ns.load(Relaxed);
            fault = state.fault.lock().clone();
            before = state.at_end.lock().clone();
            if let Some(fault) = &fault {
                self.cut_after(key, &state, fault, before.as_ref())?;
            }
            stored = self.stored_beside(&state, before.as_ref(), asks.is_some())?;
        }
        let found = || stored::close_in(&self.folders_of(&key.name), key, asks);
        let mut stored = stored.map_or_else(found, Ok)?;
        if let Some(left_out) = self.left_out.get(&key.name) {
            stored.next_index = stored.next_index.max(left_out.next_index);
        }
        if let Some(described) = &mut stored.described {
            described.age_ns = described.age_ns.max(idle_ns);
        }
        let before = before.filter(|_| fault.is_some());
        if let Some(before) = before.as_ref().filter(|one| stored.is_new && one.folders.is_empty())
        {
            // It begins behind what others have, and nothing of it was durable.
            (stored.sequence, stored.is_new) = (before.sequence, false);
        }
        let below = match asks.map_or(u64::MAX, |question| question.below) {
            // It counts frames, not items.
            below if key.is_dealt && below < u64::MAX => 0,
            below => below,
        };
        if let Some(before) = before.filter(|one| stored.sequence < one.sequence.min(below)) {
            let (got, expected) = (stored.sequence, before.sequence);
            let text = format!("the files have frames up to {got}, and {expected} were durable");
            return Err(later(text));
        }
        Ok((stored, fault))
    }

    /// What there is of a stream of which a folder that was left out has a part: what its last
    /// writer has known. The other folders alone say neither where it goes on nor what its frames
    /// count.
    fn stored_beside(
        &self,
        state: &StreamState,
        before: Option<&Durable>,
        asks: bool,
    ) -> Result<Option<Stored>, NotOpened> {
        let left_out = self.left_out.get(&state.key.name).filter(|one| one.has_durable);
        let Some(left_out) = left_out else { return Ok(None) };
        if asks {
            let folders: Vec<_> =
                left_out.folders.iter().map(|one| one.display().to_string()).collect();
            let text = format!("a part of it is in {}, which has failed", folders.join(", "));
            return Err(NotOpened::Unknown(text));
        }
        let Some(before) = before else {
            // The other folders alone would lack what is durable there.
            let text = "its writer has failed, and a part of it is in a folder that was left out";
            return Err(NotOpened::Later(text.to_owned()));
        };
        let Durable { sequence, next_index, ledger, .. } = before.clone();
        let has_ended = state.has_ended.load(Relaxed);
        // What is closed stays, but for what was cut.
        let mut files = state.files.lock().clone();
        files.retain(|one| one.first_file < next_index);
        if let Some(last) = next_index.checked_sub(1) {
            files.iter_mut().for_each(|one| one.cut_behind(last));
        }
        Ok(Some(Stored {
            files,
            sequence: sequence - u64::from(has_ended),
            next_index,
            lacks_end: next_index > 0 && !has_ended,
            ledger,
            has_ended,
            is_new: false,
            described: None,
        }))
    }

    /// Closes a stream that nobody sends and that has no writer.
    fn close(&mut self, name: &str) -> Result<(), String> {
        if let Some(Running { state, has_ended, .. }) = self.writers.get(name) {
            if has_ended.get() && !state.has_failed() {
                return Ok(());
            }
            let state = Arc::clone(state);
            self.close_files(&state.key, None).map_err(NotOpened::into_text)?;
            // What is in a folder that was left out is found when the stream is opened again.
            if !self.left_out.contains_key(name) {
                self.writers.remove(name);
                *state.fault.lock() = None;
            }
            return Ok(());
        }
        self.check_whole(name)?;
        let folders = self.folders_of(name);
        if !folders.iter().any(|folder| stored::has_unclosed(folder, name)) {
            return Ok(());
        }
        let Some(key) = stored::key_of(&folders, name)? else { return Ok(()) };
        let (stored, _) = self.close_files(&key, None).map_err(NotOpened::into_text)?;
        let state = StreamState::new(key, stored.sequence + u64::from(stored.has_ended));
        state.has_ended.store(stored.has_ended, Relaxed);
        state.is_given_up.store(true, Relaxed);
        *state.files.lock() = stored.files;
        self.state.show_closed(state);
        Ok(())
    }

    fn open(&mut self, key: StreamKey, asks: Option<Question>) -> Result<OpenedStream, NotOpened> {
        let later = NotOpened::Later;
        self.check_whole(&key.name).map_err(later)?;
        let (mut stored, fault) = self.close_files(&key, asks.as_ref())?;
        if !self.absent.is_empty() {
            self.begun_without.insert(key.name.clone());
        }
        let description = stored.described.take();
        let folders = self.folders_of(&key.name);
        make_folders(&folders)?;
        let has_ended = stored.has_ended;
        let durable = stored.sequence + u64::from(has_ended);
        let state = Arc::new(StreamState::new(key, durable));
        state.has_ended.store(has_ended, Relaxed);
        state.files.lock().clone_from(&stored.files);
        let is_new = stored.is_new;
        let generation = kept_generation(&folders);
        let (input, items) = bounded(ITEMS_MAX);
        let (disk, buffers) = buffered(&self.config.disk, &self.state.buffers, folders.len());
        let parts = self.writer(&folders, disk, &state, stored, fault.as_ref(), items);
        let (writer, waker, park) = parts.map_err(|error| later(error.to_string()))?;
        let name = state.key.name.clone();
        let begun = self.host.begin(&name, writer, park);
        let writer_ended = begun.map_err(|error| later(error.to_string()))?;
        self.state.count(|counters| &counters.disk_faults, u64::from(fault.is_some()));
        self.state.show(&state);
        let state_shown = Arc::clone(&state);
        let running = Running { state: state_shown, has_ended: writer_ended, buffers };
        self.writers.insert(name, running);
        Ok(OpenedStream { state, input, waker, has_ended, is_new, generation, description })
    }

    /// Cuts the files of a stream behind what was durable when a disk failed. If its folder is
    /// gone, or its files cannot be cut, and there are other folders, it is left as it is and the
    /// stream goes on in those.
    fn cut_after(
        &mut self,
        key: &StreamKey,
        state: &StreamState,
        fault: &Fault,
        before: Option<&Durable>,
    ) -> Result<(), NotOpened> {
        let is_beside = self.left_out.get(&key.name).is_some_and(|one| one.has_durable);
        let left_out = self.left_out.get(&key.name).map_or(&[][..], |one| &one.folders[..]);
        let folder = fault.folder.as_ref();
        // The files of a thread that has panicked are ended as those of a killed node, if nothing
        // else must be known of them.
        let Some(before) = before.filter(|_| folder.is_some() || is_beside) else { return Ok(()) };
        let is_known = folder.is_some_and(|folder| left_out.contains(folder));
        let are_several = is_known || self.folders_of(&key.name).len() > 1;
        // A folder that is gone would be made again, with nothing in it.
        let is_gone = folder.is_some_and(|folder| !folder.is_dir());
        let mut is_left_out = is_known || are_several && is_gone;
        let is_in = |path: &Path| folder.is_some_and(|folder| path.starts_with(folder));
        // The last one first: no file may be missing before one that is there.
        for (path, bytes) in fault.cuts.iter().rev() {
            let Err(error) = cut_listed(path, *bytes, key) else { continue };
            let is_there = are_several && is_in(path);
            is_left_out |= is_there;
            if !is_there {
                let text = format!("cannot cut {}: {error}", path.display());
                return Err(NotOpened::Later(text));
            }
        }
        // Beside a part in a folder that was left out, nobody else closes what was cut.
        let (there, others): (Vec<_>, Vec<_>) =
            fault.cuts.iter().partition(|(path, _)| is_left_out && is_in(path));
        let is_closed_here = is_left_out || is_beside;
        for (path, _) in others.iter().filter(|(_, bytes)| is_closed_here && *bytes > 0) {
            let failed = |error: StorageError| NotOpened::Later(error.to_string());
            stored::close_cut(path, state).map_err(failed)?;
        }
        let Some(folder) = folder.filter(|_| is_left_out) else { return Ok(()) };
        let last = there.iter().filter_map(|(path, _)| index_of(path, &key.name)).max();
        let next_index = last.map_or(0, |last| last.saturating_add(1)).max(before.next_index);
        let left_out = self.left_out.entry(key.name.clone()).or_default();
        left_out.next_index = left_out.next_index.max(next_index);
        left_out.has_durable |=
            before.folders.contains(folder) || there.iter().any(|(_, bytes)| *bytes > 0);
        if !left_out.folders.contains(folder) {
            left_out.folders.push(folder.clone());
        }
        Ok(())
    }

    fn writer(
        &mut self,
        folders: &[PathBuf],
        disk: DiskConfig,
        state: &Arc<StreamState>,
        stored: Stored,
        fault: Option<&Fault>,
        input: Receiver<Item>,
    ) -> Result<NewWriter<H>, DiskError> {
        let file_bytes = self.config.file_bytes;
        let DiskConfig { buffer_bytes, sync_interval_ns, .. } = disk;
        let now_ns = self.host.now_ns();
        let HostDisks { stores, waker, park } =
            self.host.disks(folders, &StoreConfig { disk, ..self.config.clone() })?;
        let mut disks = Disks::new(folders, file_bytes, ROOM_BYTES, now_ns);
        for (number, store) in stores.iter().enumerate() {
            disks.polled(number, WriteCounts::default(), store.spare_bytes(), now_ns);
        }
        if let Some(Fault { folder: Some(folder), reason, .. }) = fault
            && let Some(failed) = folders.iter().position(|one| one == folder)
        {
            disks.leave(failed, reason, now_ns);
        }
        let listed = folders.iter().map(|folder| files_in(folder, &state.key.name)).collect();
        let writer = Writer::new(WriterParts {
            stores,
            disks,
            listed,
            folders: self.states_of(folders),
            is_spread: self.config.folders.len() > 1,
            input,
            state: Arc::clone(state),
            entropy: self.host.entropy(),
            next_index: stored.next_index,
            lacks_end: stored.lacks_end,
            ledger: stored.ledger,
            buffer_bytes,
            file_bytes,
            sync_interval_ns,
            sync_bytes: self.config.sync_bytes,
        });
        Ok((writer, waker, park))
    }
}

/// Makes a stream's folders that are not there.
fn make_folders(folders: &[PathBuf]) -> Result<(), NotOpened> {
    for folder in folders {
        let later = |error: io::Error| NotOpened::Later(format!("{}: {error}", folder.display()));
        std::fs::create_dir_all(folder).map_err(later)?;
        if let Some(parent) = folder.parent() {
            let synced = catchment_disk::sync_folder(parent);
            synced.map_err(|error| NotOpened::Later(error.to_string()))?;
        }
    }
    Ok(())
}

/// One above the index of the last of a stream's files in a folder.
fn files_in(folder: &Path, name: &str) -> u32 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let last = entries.filter_map(|entry| index_of(&entry.path(), name)).max();
    last.map_or(0, |last| last.saturating_add(1))
}

/// The index of a file of a stream.
pub(crate) fn index_of(path: &Path, name: &str) -> Option<u32> {
    let is_file = path.extension().is_some_and(|extension| extension == EXTENSION);
    let stem = path.file_stem()?.to_str()?.strip_prefix(name)?.strip_prefix('-')?;
    stem.parse().ok().filter(|_| is_file)
}

/// The highest writer generation that was granted for a stream.
fn kept_generation(folders: &[PathBuf]) -> u64 {
    let texts = folders.iter().filter_map(|one| std::fs::read_to_string(one.join(GENERATION)).ok());
    texts.filter_map(|text| text.trim().parse().ok()).max().unwrap_or(0)
}

/// Writes it to each of the stream's folders; one is enough.
fn keep_generation(folders: &[PathBuf], generation: u64) -> io::Result<()> {
    let keep = |folder: &PathBuf| -> io::Result<()> {
        let (path, new) = (folder.join(GENERATION), folder.join(GENERATION).with_extension("new"));
        let mut file = std::fs::File::create(&new)?;
        writeln!(file, "{generation}")?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        std::fs::File::open(folder)?.sync_all()
    };
    let none = || io::Error::other("the stream has no folder");
    let mut kept = folders.iter().map(keep);
    let first = kept.next().ok_or_else(none)?;
    kept.fold(first, |one, other| if one.is_ok() { one } else { other })
}

/// Cuts a file behind what is durable of it. One of which nothing is leaves the list of its folder
/// first: what it had comes again, and may go to another folder, under its index or another.
fn cut_listed(path: &Path, bytes: u64, key: &StreamKey) -> Result<(), String> {
    let index = index_of(path, &key.name).filter(|_| bytes == 0);
    if let (Some(index), Some(folder)) = (index, path.parent()) {
        list_removed(folder, RunId(key.run), index).map_err(|error| error.to_string())?;
    }
    cut(path, bytes).map_err(|error| error.to_string())
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

/// The file of a stream's folder that has the highest writer generation.
const GENERATION: &str = "generation";
/// The thread that takes what recorders send.
const RECEIVE: &str = "receive";
/// Orders that wait.
pub(crate) const ORDERS_MAX: usize = 256;
/// Frames that wait for a writer, beside their bound in bytes.
const ITEMS_MAX: usize = 256;
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
