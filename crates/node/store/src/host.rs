//! What calls the writers of a node, and what they stand on: a thread and disks here, or those of a
//! caller that steps them (assembly.rs).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::thread::JoinHandle;

use catchment_agent::{Agent, Entropy, FolderStore, Waker, Work};
use catchment_disk::{Disk, DiskConfig, DiskError, DiskHelpers, DiskSleeper};
use catchment_runner::{Idle, Park, Plan, SystemEntropy, ThreadEvents, Threads};
use catchment_telemetry::{Clock, Priority, ThreadTimes};
use crossbeam_channel::{Sender, bounded};

use crate::config::StoreConfig;
use crate::sessions::STREAMS_MAX;
use crate::state::Fault;
use crate::writer::Writer;
use crate::writers::Writers;

/// What calls a node's writers, and what they stand on.
pub(crate) trait Host {
    /// The disk of a folder.
    type Store: FolderStore + 'static;
    /// How a writer that was not begun will wait.
    type Park;

    fn now_ns(&self) -> u64;

    fn entropy(&mut self) -> Box<dyn Entropy>;

    /// The disks of a stream's folders, and who wakes their writer.
    fn disks(
        &mut self,
        folders: &[PathBuf],
        config: &StoreConfig,
    ) -> Result<HostDisks<Self>, DiskError>;

    /// Has a stream's writer called from now on.
    fn begin(
        &mut self,
        stream: &str,
        writer: Writer<Self::Store>,
        park: Self::Park,
    ) -> io::Result<HasEnded>;

    /// Waits until all writers have ended. Returns the name of a thread that has panicked.
    fn end(&mut self) -> Option<String>;
}

/// The disks of a stream, by folder.
pub(crate) struct HostDisks<H: Host + ?Sized> {
    pub(crate) stores: Vec<H::Store>,
    pub(crate) waker: Waker,
    pub(crate) park: H::Park,
}

/// A writer that was begun.
pub(crate) struct Begun<S: FolderStore> {
    pub(crate) writer: Writer<S>,
    // Behind the writer: it has ended when it and its disks are gone.
    _ends: Ends,
}

/// Whether a writer that was begun has ended, and with it all that it had.
pub(crate) struct HasEnded(Arc<AtomicBool>);

struct Ends(Arc<AtomicBool>);

impl<S: FolderStore> Begun<S> {
    pub(crate) fn new(writer: Writer<S>) -> (Self, HasEnded) {
        let has_ended = Arc::new(AtomicBool::new(false));
        (Self { writer, _ends: Ends(Arc::clone(&has_ended)) }, HasEnded(has_ended))
    }
}

/// A panic is that of all streams of its thread: their sessions end.
impl<S: FolderStore> Begun<S> {
    /// Gives its stream a fault if it is dropped since its thread panics.
    pub(crate) fn note_panic(&self) {
        if !std::thread::panicking() {
            return;
        }
        let thread = std::thread::current();
        let reason = format!("the thread {} has failed", thread.name().unwrap_or_default());
        // A panic of its own would end the program. Its files are ended as those of a killed node.
        let left = catch_unwind(AssertUnwindSafe(|| self.writer.leave()));
        let cuts = left.unwrap_or_default();
        *self.writer.state.fault.lock() = Some(Fault { reason, cuts, folder: None });
    }
}

impl<S: FolderStore> Drop for Begun<S> {
    fn drop(&mut self) {
        self.note_panic();
    }
}

impl<S: FolderStore> Agent for Begun<S> {
    fn work(&mut self, now_ns: u64) -> Work {
        self.writer.work(now_ns)
    }
}

impl HasEnded {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Acquire)
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Release);
    }
}

/// Drops writers that have ended, those that wait for a disk on threads of their own.
#[derive(Default)]
pub(crate) struct Dropping(Vec<JoinHandle<()>>);

impl Dropping {
    pub(crate) fn take(&mut self, mut ended: Begun<Disk>) {
        let files = &mut ended.writer.files;
        if (0..files.stores()).all(|disk| files.store(disk).is_idle()) {
            return;
        }
        self.0.retain(|thread| !thread.is_finished());
        let thread = std::thread::Builder::new().name("write-end".to_owned());
        // Where there is no thread left it is dropped here, and the others wait for its disk.
        self.0.extend(thread.spawn(move || drop(ended)));
    }
}

impl Drop for Dropping {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // A panic there is one of a writer that has ended: nothing of its stream is lost.
            let _ended = thread.join();
        }
    }
}

/// All writers on one thread, which is there from the first on. Their disks have helper threads by
/// folder of the node.
pub(crate) struct OnThread {
    clock: Clock,
    sleeper: DiskSleeper,
    threads: Threads,
    /// To the thread, if there is one.
    writers: Option<Sender<Begun<Disk>>>,
    helpers: Vec<Option<DiskHelpers>>,
}

impl OnThread {
    pub(crate) fn new(clock: Clock) -> io::Result<Self> {
        let threads = Threads::new(clock, Arc::new(ThreadTimes::default()), Arc::new(Events));
        let (sleeper, writers, helpers) = (DiskSleeper::new()?, None, Vec::new());
        Ok(Self { clock, sleeper, threads, writers, helpers })
    }

    /// The helper threads of the disks in one of the node's folders.
    fn helpers(&mut self, folder: usize, disk: &DiskConfig) -> Result<DiskHelpers, DiskError> {
        if self.helpers.len() <= folder {
            self.helpers.resize(folder + 1, None);
        }
        if let Some(helpers) = &self.helpers[folder] {
            return Ok(helpers.clone());
        }
        let helpers = DiskHelpers::start(STREAMS_MAX, disk)?;
        Ok(self.helpers[folder].insert(helpers).clone())
    }
}

impl Host for OnThread {
    type Store = Disk;
    type Park = ();

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn entropy(&mut self) -> Box<dyn Entropy> {
        Box::new(SystemEntropy)
    }

    fn disks(
        &mut self,
        folders: &[PathBuf],
        config: &StoreConfig,
    ) -> Result<HostDisks<Self>, DiskError> {
        let mut stores: Vec<Disk> = Vec::new();
        for path in folders {
            let mut all = config.folders.iter();
            let folder = all.position(|one| path.parent() == Some(one)).unwrap_or(0);
            let mut disk = DiskConfig {
                name: (folder > 0).then(|| folder.to_string()),
                beside: Some(self.sleeper.waker()),
                file_bytes: config.file_bytes,
                keeps_reserve: true,
                faults: config.disk.faults.clone().filter(|_| folder == 0),
                ..config.disk.clone()
            };
            disk.helpers = Some(self.helpers(folder, &disk)?);
            let mut store = Disk::new(disk)?;
            store.begin_in(path);
            stores.push(store);
        }
        let waker = self.sleeper.waker();
        Ok(HostDisks { stores, waker: Waker::new(move || waker.wake()), park: () })
    }

    fn begin(&mut self, _stream: &str, writer: Writer<Disk>, _park: ()) -> io::Result<HasEnded> {
        let (begun, has_ended) = Begun::new(writer);
        let unsent = match &self.writers {
            Some(writers) => writers.send(begun).err().map(|error| error.into_inner()),
            None => Some(begun),
        };
        // The first one, or the thread has panicked.
        if let Some(begun) = unsent {
            let (writers, new) = bounded(STREAMS_MAX);
            let plan = plan(WRITE.to_owned(), Box::new(self.sleeper.clone()));
            self.threads.spawn(Writers::new(vec![begun], new), plan)?;
            self.writers = Some(writers);
        }
        self.sleeper.waker().wake();
        Ok(has_ended)
    }

    fn end(&mut self) -> Option<String> {
        self.writers = None;
        self.sleeper.waker().wake();
        self.threads.join().failed
    }
}

/// Tells nobody: the faults of streams say which thread has failed.
pub(crate) struct Events;

impl ThreadEvents for Events {
    fn unpinned(&self, _name: &str, _error: &dyn std::fmt::Display) {}

    fn failed(&self, _name: &str) {}
}

pub(crate) fn plan(name: String, park: Box<dyn Park>) -> Plan {
    let (priority, idle) = (Some(Priority::Data), Idle::default());
    Plan { name, cpu: None, priority, idle, park, may_be_left: false }
}

/// The thread of the writers.
pub(crate) const WRITE: &str = "write";
