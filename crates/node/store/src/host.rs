//! What calls the writers of a node, and what they stand on: threads and disks here, or those of a
//! caller that steps them (assembly.rs).

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use catchment_agent::{Entropy, FolderStore, Waker};
use catchment_disk::{Disk, DiskConfig, DiskError, DiskSleeper};
use catchment_runner::{Idle, Park, Plan, Sleep, SystemEntropy, ThreadEvents, Threads};
use catchment_telemetry::{Clock, Priority, ThreadTimes};

use crate::config::StoreConfig;
use crate::state::{Fault, NodeState};
use crate::writer::Writer;

/// What calls a node's writers, and what they stand on.
pub(crate) trait Host {
    /// The disk of a folder.
    type Store: FolderStore + 'static;
    /// A writer that was begun.
    type Handle: Handle;
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
    ) -> io::Result<Self::Handle>;
}

/// The disks of a stream, by folder.
pub(crate) struct HostDisks<H: Host + ?Sized> {
    pub(crate) stores: Vec<H::Store>,
    pub(crate) waker: Waker,
    pub(crate) park: H::Park,
}

/// A writer that was begun.
pub(crate) trait Handle {
    fn has_ended(&self) -> bool;

    /// Waits until it has ended. Returns the name of its thread if that has panicked.
    fn join(&mut self) -> Option<String>;
}

/// Each writer on a thread of its own.
pub(crate) struct OnThreads {
    pub(crate) clock: Clock,
    pub(crate) state: Arc<NodeState>,
}

/// A writer's thread.
pub(crate) struct WriterThread {
    name: String,
    threads: Threads,
}

impl Host for OnThreads {
    type Store = Disk;
    type Handle = WriterThread;
    type Park = Box<dyn Park>;

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
        let file_bytes = config.file_bytes;
        let disk = DiskConfig { file_bytes, keeps_reserve: true, ..config.disk.clone() };
        let (mut stores, mut sleeper): (Vec<Disk>, Option<DiskSleeper>) = (Vec::new(), None);
        for (number, folder) in folders.iter().enumerate() {
            let is_first = config.folders.first().is_some_and(|one| folder.starts_with(one));
            let mut store = Disk::new(DiskConfig {
                name: (number > 0).then(|| number.to_string()),
                beside: stores.first().map(Disk::waker),
                faults: disk.faults.clone().filter(|_| is_first),
                ..disk.clone()
            })?;
            match &mut sleeper {
                Some(sleeper) => sleeper.add(store.sleeper()),
                None => sleeper = Some(store.sleeper()),
            }
            store.begin_in(folder);
            stores.push(store);
        }
        let waker = stores.first().map(Disk::waker);
        let waker = Waker::new(move || waker.iter().for_each(|waker| waker.wake()));
        let park = sleeper.map_or_else(|| Box::new(Sleep) as Box<dyn Park>, |one| Box::new(one));
        Ok(HostDisks { stores, waker, park })
    }

    fn begin(
        &mut self,
        stream: &str,
        writer: Writer<Disk>,
        park: Box<dyn Park>,
    ) -> io::Result<WriterThread> {
        let events = Arc::new(Events(Arc::clone(&self.state)));
        let mut threads = Threads::new(self.clock, Arc::new(ThreadTimes::default()), events);
        let name = thread_name(stream);
        threads.spawn(writer, plan(name.clone(), park))?;
        Ok(WriterThread { name, threads })
    }
}

impl Handle for WriterThread {
    fn has_ended(&self) -> bool {
        self.threads.has_ended(&self.name)
    }

    fn join(&mut self) -> Option<String> {
        self.threads.join().failed
    }
}

/// A thread that panics ends the sessions of its stream.
pub(crate) struct Events(pub(crate) Arc<NodeState>);

impl ThreadEvents for Events {
    fn unpinned(&self, _name: &str, _error: &dyn fmt::Display) {}

    fn failed(&self, name: &str) {
        let streams = self.0.streams.lock();
        for stream in streams.iter().filter(|stream| thread_name(&stream.key.name) == name) {
            let reason = format!("the thread {name} has failed");
            *stream.fault.lock() = Some(Fault { reason, cuts: Vec::new(), before: None });
        }
    }
}

pub(crate) fn thread_name(stream: &str) -> String {
    format!("write-{stream}")
}

pub(crate) fn plan(name: String, park: Box<dyn Park>) -> Plan {
    let (priority, idle) = (Some(Priority::Data), Idle::default());
    Plan { name, cpu: None, priority, idle, park, may_be_left: false }
}
