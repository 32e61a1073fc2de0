//! What agents of a storage node have in common: the bound of memory, what is durable, and counts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use catchment_frame::FileFrames;
use catchment_model::{Ledger, RunId};
use catchment_wire::session::ByeReason;
use parking_lot::Mutex;
use serde::Serialize;

use crate::memory::Memory;

/// Which stream it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamKey {
    /// Of its folder and its files.
    pub(crate) name: String,
    pub(crate) run: [u8; 16],
    pub(crate) stream: u32,
    pub(crate) variant: u32,
    /// Whether it has some of the run's frames: positions count items.
    pub(crate) is_dealt: bool,
}

/// A stream, as its writer shows it.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub(crate) key: StreamKey,
    /// All frames below this number are durable.
    pub(crate) durable: AtomicU64,
    pub(crate) frames: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// A frame comes; is written once it and the one before are there; a file is synced.
    pub(crate) take: Phase,
    pub(crate) write: Phase,
    pub(crate) sync: Phase,
    /// Why the writer has ended without being asked to.
    pub(crate) fault: Mutex<Option<Fault>>,
    /// What is durable when the writer ends; none while it runs.
    pub(crate) at_end: Mutex<Option<Durable>>,
    /// Why it has no file now, and tries again.
    pub(crate) trouble: Mutex<Option<String>>,
    /// Which frames are in which of the files that are closed.
    pub(crate) files: Mutex<Vec<FileFrames>>,
    /// Which disk completes nothing, while one does not.
    pub(crate) hang: Mutex<Option<String>>,
    /// Whether the stream has ended in order, with files that say so.
    pub(crate) has_ended: AtomicBool,
    /// Frames below this number have come.
    pub(crate) taken: AtomicU64,
    /// Who sends it, or did last, and whether its session is open.
    pub(crate) sender: Mutex<Option<Sender>>,
    pub(crate) is_attached: AtomicBool,
    /// Whether nothing more comes: what cannot be written need not wait.
    pub(crate) input_has_ended: AtomicBool,
    /// Whether its sender has been away for so long that the stream is closed, or is to be.
    pub(crate) is_given_up: AtomicBool,
    /// For how long it had been away when another one asked what there is.
    pub(crate) idle_ns: AtomicU64,
}

/// A recorder, as it says itself, and where it is.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    pub(crate) address: Option<SocketAddr>,
    pub(crate) program: String,
}

impl Sender {
    fn words(&self) -> String {
        match self.address {
            Some(address) => format!("{} at {address}", self.program),
            None => self.program.clone(),
        }
    }
}

/// One of the node's folders.
#[derive(Debug)]
pub(crate) struct FolderState {
    pub(crate) path: PathBuf,
    /// Bytes of frames that were written there.
    pub(crate) bytes: AtomicU64,
    /// How often it was left, or a stream's files there had to be ended.
    failures: AtomicU64,
    /// Why nothing can be written there, until something is.
    fault: Mutex<Option<FolderFault>>,
}

/// Why nothing can be written to a folder.
#[derive(Debug)]
struct FolderFault {
    reason: String,
    /// Whether no file could be made: files that are open there may go on.
    is_of_making: bool,
    /// Whether it was used before and is not there: its disk is not mounted.
    is_absent: bool,
}

impl FolderState {
    /// It was used before, and is not there.
    pub(crate) fn note_absent(&self, reason: String) {
        self.failures.fetch_add(1, Relaxed);
        *self.fault.lock() = Some(FolderFault { reason, is_of_making: true, is_absent: true });
    }

    /// It is there again.
    pub(crate) fn is_back(&self) {
        self.fault.lock().take_if(|fault| fault.is_absent);
    }

    /// A write, a sync or a close failed there, or came to no end.
    pub(crate) fn failed(&self, reason: &str) {
        self.set_fault(reason, false);
    }

    /// No file can be made there.
    pub(crate) fn makes_none(&self, reason: &str) {
        self.set_fault(reason, true);
    }

    fn set_fault(&self, reason: &str, is_of_making: bool) {
        let mut fault = self.fault.lock();
        self.failures.fetch_add(u64::from(fault.is_none()), Relaxed);
        // A fault of another kind ends no fault of making files.
        let is_of_making = is_of_making || fault.as_ref().is_some_and(|one| one.is_of_making);
        let reason = reason.to_owned();
        *fault = Some(FolderFault { reason, is_of_making, is_absent: false });
    }

    /// A file was made there.
    pub(crate) fn makes_files(&self) {
        *self.fault.lock() = None;
    }

    /// A file that is open there was synced, or what was waited for there has completed.
    pub(crate) fn answers(&self) {
        self.fault.lock().take_if(|fault| !fault.is_of_making);
    }
}

/// How long a step of a frame, or of a file, took each time.
#[derive(Debug, Default)]
pub(crate) struct Phase {
    count: AtomicU64,
    total_ns: AtomicU64,
    max_ns: AtomicU64,
    last_ns: AtomicU64,
}

impl Phase {
    pub(crate) fn took(&self, ns: u64) {
        self.count.fetch_add(1, Relaxed);
        self.total_ns.fetch_add(ns, Relaxed);
        self.max_ns.fetch_max(ns, Relaxed);
        self.last_ns.store(ns, Relaxed);
    }

    fn snapshot(&self) -> PhaseSnapshot {
        let all = [&self.count, &self.total_ns, &self.max_ns, &self.last_ns];
        let [count, total_ns, max_ns, last_ns] = all.map(|one| one.load(Relaxed));
        PhaseSnapshot { count, total_ns, max_ns, last_ns }
    }
}

/// A fault of a stream's disk.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) reason: String,
    /// The files of which not all counts, and how many of their first bytes do; 0: none.
    pub(crate) cuts: Vec<(PathBuf, u64)>,
    /// The stream's folder on that disk; none if the writer has panicked.
    pub(crate) folder: Option<PathBuf>,
}

/// What is durable of a stream when its writer ends.
#[derive(Clone, Debug)]
pub(crate) struct Durable {
    /// The stream's folders that have a part of it.
    pub(crate) folders: Vec<PathBuf>,
    /// The numbers of the next frame and of the next file, and what all frames before count.
    pub(crate) sequence: u64,
    pub(crate) next_index: u32,
    pub(crate) ledger: Ledger,
}

impl StreamState {
    pub(crate) fn new(key: StreamKey, durable: u64) -> Self {
        Self {
            key,
            durable: AtomicU64::new(durable),
            frames: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            take: Phase::default(),
            write: Phase::default(),
            sync: Phase::default(),
            fault: Mutex::new(None),
            at_end: Mutex::new(None),
            trouble: Mutex::new(None),
            files: Mutex::new(Vec::new()),
            hang: Mutex::new(None),
            has_ended: AtomicBool::new(false),
            taken: AtomicU64::new(durable),
            sender: Mutex::new(None),
            is_attached: AtomicBool::new(false),
            input_has_ended: AtomicBool::new(false),
            is_given_up: AtomicBool::new(false),
            idle_ns: AtomicU64::new(0),
        }
    }

    /// A file is closed and durable, with frames of these numbers.
    pub(crate) fn closed(&self, index: u32, numbers: Option<(u64, u64)>) {
        if let Some(numbers) = numbers {
            FileFrames::one(index, numbers).add_to(&mut self.files.lock());
        }
    }

    /// Whether nothing of it can be written now, as its sender is told. A sender that has no other
    /// node for its frames keeps sending, and waits for a disk that hangs.
    pub(crate) fn waits(&self) -> bool {
        let hangs = || self.key.is_dealt && self.hang.lock().is_some();
        self.trouble.lock().is_some() || hangs()
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.fault.lock().is_some()
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident,)*) => {
        /// Counts of a storage node.
        #[derive(Debug, Default)]
        pub(crate) struct Counters { $(pub(crate) $name: AtomicU64,)* }

        /// What a storage node has done so far.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
        pub struct NodeSnapshot {
            $($(#[doc = $doc])* pub $name: u64,)*
            /// Bytes of frames that are not written yet.
            pub waiting_bytes: u64,
            /// Sessions that were refused or ended for a fault of their sender, by the reason of
            /// the `bye`.
            pub refusals: BTreeMap<String, u64>,
            /// How the last connection failed that had not begun, if any did.
            pub last_error: Option<String>,
            /// Why a stream whose sender is gone could not be closed, of the last such one; it is
            /// tried again.
            pub close_error: Option<String>,
            /// Which stream a sender could not open in the last minute, and why.
            pub open_error: Option<String>,
            /// Its folders.
            pub folders: Vec<StoreFolder>,
            /// Its streams.
            pub streams: Vec<StreamSnapshot>,
        }

        impl Counters {
            fn snapshot(&self) -> NodeSnapshot {
                NodeSnapshot { $($name: self.$name.load(Relaxed),)* ..NodeSnapshot::default() }
            }
        }
    };
}

counters! {
    /// Sessions that were opened, resumed ones included.
    sessions_opened,
    /// Sessions that were refused: by token or name, or since a run of another identity has that
    /// name.
    sessions_refused,
    /// Frames that came whole, with the checksums that their sender said.
    frames_taken,
    /// Stored bytes of these.
    bytes_taken,
    /// Frames that were there already.
    frames_repeated,
    /// Frames of which a column had another checksum: they are sent again.
    frames_corrupt,
    /// Frames of an earlier writer of their stream.
    frames_superseded,
    /// Frames, and headers of files, that cannot be taken however often they are sent.
    frames_unfit,
    /// Headers of files for which there was no memory: their sessions were refused.
    headers_refused,
    /// Connections that were closed for a framing fault.
    faults,
    /// Connections that ended before they said what they are, or that opened no session in time:
    /// without TLS where it is needed, or not trusting the certificate, or port scans.
    connections_unopened,
    /// Faults of a disk, after which a stream was begun again behind what was durable.
    disk_faults,
}

/// How long something took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PhaseSnapshot {
    /// How often.
    pub count: u64,
    /// All together.
    pub total_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// The last one.
    pub last_ns: u64,
}

/// What a storage node has of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamSnapshot {
    /// Its name: that of its folder.
    pub name: String,
    /// The run's identity, the stream within it, and its variant.
    pub run: String,
    /// The number of the stream within the run.
    pub stream: u32,
    /// The data set of the run that it has.
    pub variant: u32,
    /// Who sends it, or did last: program and address.
    pub recorder: Option<String>,
    /// Whether its session is open.
    pub is_attached: bool,
    /// Frames below this number have come.
    pub taken: u64,
    /// All frames below this number are durable.
    pub durable: u64,
    /// Frames that this node has written since it began.
    pub frames: u64,
    /// Their bytes in the files.
    pub bytes: u64,
    /// From a frame's first message to its last.
    pub take: PhaseSnapshot,
    /// From then, or from the end of the frame before if that is later, until it is written.
    pub write: PhaseSnapshot,
    /// Syncs of files, and their ends, which are synced too.
    pub sync: PhaseSnapshot,
    /// Whether it has ended in order.
    pub has_ended: bool,
    /// Whether it was closed, since its sender had been away for long, or is as soon as its folders
    /// permit that.
    pub is_given_up: bool,
    /// Why it waits, or is begun again.
    pub trouble: Option<String>,
}

impl StreamSnapshot {
    /// Whether its sender is gone and has not ended it, for no reason that the node knows of, and
    /// may still come again before the stream is closed.
    pub fn is_broken_off(&self) -> bool {
        !self.is_attached && !self.has_ended && !self.is_given_up && self.trouble.is_none()
    }
}

/// What a storage node has written to one of its folders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreFolder {
    /// The folder.
    pub path: PathBuf,
    /// Bytes of frames that were written there since the node began.
    pub bytes: u64,
    /// How often it failed.
    pub failures: u64,
    /// Why nothing can be written there, until something is.
    pub fault: Option<String>,
    /// Whether it was used before and is not there: its disk is not mounted.
    pub is_absent: bool,
}

/// What all agents of a node share.
#[derive(Debug)]
pub(crate) struct NodeState {
    /// For frames that are not written yet.
    pub(crate) memory: Memory,
    /// For headers of streams' files.
    pub(crate) headers: Memory,
    /// For the buffers of all streams' disks.
    pub(crate) buffers: Memory,
    pub(crate) counters: Counters,
    pub(crate) folders: Vec<Arc<FolderState>>,
    pub(crate) streams: Mutex<Vec<Arc<StreamState>>>,
    refusals: Mutex<BTreeMap<String, u64>>,
    last_error: Mutex<Option<String>>,
    /// The stream that could not be closed last, and why.
    close_error: Mutex<Option<(String, String)>>,
    /// The stream that could not be opened last, why, and when that was.
    open_error: Mutex<Option<(String, String, u64)>>,
}

/// Sees what a storage node does, from any thread.
#[derive(Clone, Debug)]
pub struct NodeObserver(pub(crate) Arc<NodeState>);

impl NodeObserver {
    /// What it has done so far.
    pub fn snapshot(&self) -> NodeSnapshot {
        self.0.snapshot()
    }
}

impl NodeState {
    /// With that budget: two thirds are for frames, a twelfth is for memory of frames that waits
    /// for the next ones, a twelfth for headers of files, and a sixth for the buffers of disks.
    pub(crate) fn new(memory_bytes: u64, folders: &[PathBuf]) -> Self {
        let folder = |path: &PathBuf| {
            let (bytes, failures, fault) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(None));
            Arc::new(FolderState { path: path.clone(), bytes, failures, fault })
        };
        Self {
            memory: Memory::new("frames", memory_bytes / 3 * 2),
            headers: Memory::new("headers", memory_bytes / 12),
            buffers: Memory::new("write buffers", memory_bytes / 6),
            counters: Counters::default(),
            folders: folders.iter().map(folder).collect(),
            streams: Mutex::new(Vec::new()),
            refusals: Mutex::default(),
            last_error: Mutex::default(),
            close_error: Mutex::default(),
            open_error: Mutex::default(),
        }
    }

    /// Counts a session that is refused or ended by that reason.
    pub(crate) fn refused(&self, reason: ByeReason) {
        *self.refusals.lock().entry(reason.to_string()).or_default() += 1;
    }

    pub(crate) fn note_error(&self, error: String) {
        *self.last_error.lock() = Some(error);
    }

    /// A stream without a sender could not be closed, or is closed.
    pub(crate) fn note_close(&self, name: &str, error: Option<&String>) {
        let mut noted = self.close_error.lock();
        match error {
            Some(error) => *noted = Some((name.to_owned(), error.clone())),
            None => _ = noted.take_if(|noted| noted.0 == name),
        }
    }

    /// A stream could not be opened for its sender, or is open.
    pub(crate) fn note_open(&self, name: &str, error: Option<String>, now_ns: u64) {
        let mut noted = self.open_error.lock();
        match error {
            Some(error) => *noted = Some((name.to_owned(), error, now_ns)),
            None => _ = noted.take_if(|noted| noted.0 == name),
        }
    }

    /// Forgets why a stream could not be opened whose sender has not come again.
    pub(crate) fn forget_unopened(&self, now_ns: u64) {
        let is_old = |at_ns: u64| now_ns.saturating_sub(at_ns) > UNOPENED_NS;
        self.open_error.lock().take_if(|noted| is_old(noted.2));
    }

    pub(crate) fn count(&self, counter: fn(&Counters) -> &AtomicU64, count: u64) {
        counter(&self.counters).fetch_add(count, Relaxed);
    }

    /// Shows a stream in place of an earlier state of it.
    pub(crate) fn show(&self, stream: &Arc<StreamState>) {
        let mut streams = self.streams.lock();
        streams.retain(|one| one.key.name != stream.key.name);
        streams.push(Arc::clone(stream));
        let excess = streams.len().saturating_sub(SHOWN_MAX);
        streams.drain(..excess);
    }

    /// Shows a stream of an earlier node that was closed, behind those of this one.
    pub(crate) fn show_closed(&self, stream: StreamState) {
        let mut streams = self.streams.lock();
        let is_shown = streams.iter().any(|one| one.key.name == stream.key.name);
        if !is_shown && streams.len() < SHOWN_MAX {
            streams.insert(0, Arc::new(stream));
        }
    }

    pub(crate) fn snapshot(&self) -> NodeSnapshot {
        let streams = self.streams.lock();
        let of_stream = |stream: &Arc<StreamState>| StreamSnapshot {
            name: stream.key.name.clone(),
            run: RunId(stream.key.run).to_string(),
            stream: stream.key.stream,
            variant: stream.key.variant,
            recorder: stream.sender.lock().as_ref().map(Sender::words),
            is_attached: stream.is_attached.load(Relaxed),
            taken: stream.taken.load(Relaxed).max(stream.durable.load(Relaxed)),
            durable: stream.durable.load(Relaxed),
            frames: stream.frames.load(Relaxed),
            bytes: stream.bytes.load(Relaxed),
            take: stream.take.snapshot(),
            write: stream.write.snapshot(),
            sync: stream.sync.snapshot(),
            has_ended: stream.has_ended.load(Relaxed),
            is_given_up: stream.is_given_up.load(Relaxed),
            trouble: (stream.fault.lock().as_ref().map(|fault| fault.reason.clone()))
                .or_else(|| stream.trouble.lock().clone())
                .or_else(|| stream.hang.lock().clone()),
        };
        let of_folder = |folder: &Arc<FolderState>| {
            let fault = folder.fault.lock();
            StoreFolder {
                path: folder.path.clone(),
                bytes: folder.bytes.load(Relaxed),
                failures: folder.failures.load(Relaxed),
                fault: fault.as_ref().map(|fault| fault.reason.clone()),
                is_absent: fault.as_ref().is_some_and(|fault| fault.is_absent),
            }
        };
        NodeSnapshot {
            waiting_bytes: self.memory.content(),
            refusals: self.refusals.lock().clone(),
            last_error: self.last_error.lock().clone(),
            close_error: (self.close_error.lock().as_ref())
                .map(|(name, error)| format!("{name}: {error}")),
            open_error: (self.open_error.lock().as_ref())
                .map(|(name, error, _)| format!("{name} cannot be opened: {error}")),
            folders: self.folders.iter().map(of_folder).collect(),
            streams: streams.iter().map(of_stream).collect(),
            ..self.counters.snapshot()
        }
    }
}

/// How long it is said that a stream could not be opened: its sender comes again within seconds.
const UNOPENED_NS: u64 = 60_000_000_000;
/// The most streams that are shown: the newest.
const SHOWN_MAX: usize = 256;
