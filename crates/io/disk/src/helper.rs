//! The two threads that do a disk's slow work: one opens, preallocates, removes and checks the free
//! space, one finishes.
//!
//! There are two because the sync at the end of a file may take seconds, and the file being written
//! must get its next blocks meanwhile. Disks in one folder, which wait for the same device, may
//! share them ([`DiskHelpers`]). Several finish then, so that a file that is slow to close delays
//! few others: a network file system takes its time for each, not for all together.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use catchment_agent::{FileEnd, NewFile, Presence};
use crossbeam_channel::{Receiver, Sender, bounded};

use crate::aside;
use crate::config::DiskConfig;
use crate::disk::FILES_MAX;
use crate::error::DiskError;
use crate::event::Event;
use crate::faults::FaultControl;
use crate::files::{self, Created, Preallocation};
use crate::room::{Expected, Room, presence_of};

pub(crate) enum Job {
    Open {
        new: NewFile,
        /// The file system on which the file must be.
        device: Option<u64>,
        how: Preallocation,
    },
    Preallocate {
        file: u64,
        handle: Arc<File>,
        from: u64,
        how: Preallocation,
    },
    /// Remove a file that was opened ahead and is not wanted.
    Remove(Created),
    /// Check the free space, and whether the file still exists.
    Look {
        file: u64,
        expected: Expected,
    },
    /// Check the free space of a folder.
    LookAt {
        folder: PathBuf,
    },
    Finish {
        file: u64,
        /// The part of it that must exist.
        expected: Expected,
        end: FileEnd,
        blocks_bytes: u64,
    },
    Append {
        path: PathBuf,
        header: String,
        text: String,
    },
}

pub(crate) enum Reply {
    Opened(Result<Created, DiskError>),
    Removed,
    Preallocated { file: u64, from: u64, result: io::Result<u64> },
    Looked { file: u64, room: Option<Room>, presence: Presence },
    LookedAt { room: Option<Room>, device: Option<u64> },
    Finished { file: u64, result: io::Result<()>, found: Presence },
    Appended { text: String, result: io::Result<()> },
}

/// The helper threads of one disk, or of several in one folder, which keep them for as long as one
/// of them has a clone.
#[derive(Clone, Debug)]
pub struct DiskHelpers(Arc<HelperThreads>);

#[derive(Debug)]
struct HelperThreads {
    ahead: Option<Sender<Order>>,
    finish: Option<Sender<Order>>,
    threads: Vec<JoinHandle<()>>,
    /// Whether one of them hangs, and is not waited for.
    is_abandoned: AtomicBool,
}

/// A job, and where its reply goes.
struct Order {
    job: Job,
    /// Whether the disk is there, or has waited for its jobs until they were done.
    is_wanted: Arc<AtomicBool>,
    replies: Sender<Reply>,
    event: Arc<Event>,
    faults: Option<FaultControl>,
}

impl DiskHelpers {
    /// Starts the threads for that many disks at a time, with the names that `config` gives them.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(disks_max: usize, config: &DiskConfig) -> Result<Self, DiskError> {
        Self::with_threads(disks_max, config)
            .map_err(|source| DiskError::Resource { what: "a helper thread", source })
    }

    fn with_threads(disks_max: usize, config: &DiskConfig) -> io::Result<Self> {
        let (ahead, ahead_orders) = bounded(disks_max * JOBS_MAX);
        let (finish, finish_orders) = bounded(disks_max * JOBS_MAX);
        let (ahead, finish, is_abandoned) = (Some(ahead), Some(finish), AtomicBool::new(false));
        let mut all = HelperThreads { ahead, finish, threads: Vec::new(), is_abandoned };
        let finishing = (0..disks_max.min(FINISHING_MAX)).map(|number| {
            let name = match number {
                0 => "disk-finish".to_owned(),
                number => format!("disk-finish-{}", number + 1),
            };
            (name, finish_orders.clone())
        });
        for (name, orders) in [("disk-ahead".to_owned(), ahead_orders)].into_iter().chain(finishing)
        {
            let (name, times) = (config.thread(&name), config.threads.clone());
            let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
                let _time = times.as_ref().map(|times| times.register(name));
                work(&orders);
            })?;
            all.threads.push(thread);
        }
        Ok(Self(Arc::new(all)))
    }
}

impl Drop for HelperThreads {
    fn drop(&mut self) {
        self.ahead = None;
        self.finish = None;
        if *self.is_abandoned.get_mut() {
            return;
        }
        for thread in self.threads.drain(..) {
            // The threads do nothing that can panic; if one did, nothing could report it.
            let _ended = thread.join();
        }
    }
}

/// The helper threads, as one disk sees them.
pub(crate) struct Helpers {
    threads: DiskHelpers,
    sender: Sender<Reply>,
    replies: Receiver<Reply>,
    event: Arc<Event>,
    faults: Option<FaultControl>,
    is_wanted: Arc<AtomicBool>,
}

impl Helpers {
    pub(crate) fn new(
        threads: DiskHelpers,
        event: Arc<Event>,
        faults: Option<FaultControl>,
    ) -> Self {
        // For the jobs of both threads, so that no reply ever waits.
        let (sender, replies) = bounded(2 * JOBS_MAX);
        let is_wanted = Arc::new(AtomicBool::new(true));
        Self { threads, sender, replies, event, faults, is_wanted }
    }

    /// Passes a job to its thread; never waits.
    pub(crate) fn send(&self, job: Job) -> Result<(), DiskError> {
        let queue = match job {
            Job::Open { .. }
            | Job::Preallocate { .. }
            | Job::Remove(_)
            | Job::Look { .. }
            | Job::LookAt { .. } => &self.threads.0.ahead,
            Job::Finish { .. } | Job::Append { .. } => &self.threads.0.finish,
        };
        let (replies, event) = (self.sender.clone(), Arc::clone(&self.event));
        let (faults, is_wanted) = (self.faults.clone(), Arc::clone(&self.is_wanted));
        let order = Order { job, is_wanted, replies, event, faults };
        let sent = queue.as_ref().is_some_and(|queue| queue.try_send(order).is_ok());
        if sent { Ok(()) } else { Err(DiskError::HelperGone) }
    }

    pub(crate) fn reply(&self) -> Option<Reply> {
        self.replies.try_recv().ok()
    }

    /// Lets the threads end when they can, instead of waiting for them, and without the jobs of
    /// this disk that they have not begun: its files are another's by then.
    pub(crate) fn abandon(&self) {
        self.is_wanted.store(false, Relaxed);
        self.threads.0.is_abandoned.store(true, Relaxed);
    }
}

/// Threads that finish files of several disks.
const FINISHING_MAX: usize = 2;
/// Jobs of a disk for each of the threads: of every file, of one that is opened ahead, and an
/// append.
const JOBS_MAX: usize = FILES_MAX + 3;

fn work(orders: &Receiver<Order>) {
    for Order { job, is_wanted, replies, event, faults } in orders {
        if !is_wanted.load(Relaxed) && !matches!(job, Job::Remove(_)) {
            continue;
        }
        // A disk that was dropped while this one hung wants no reply.
        let _wanted = replies.send(perform(job, faults.as_ref())).is_ok();
        event.signal();
    }
}

/// The free space of a folder, and its file system, as far as they are known.
pub(crate) fn look_at(folder: &Path, faults: Option<&FaultControl>) -> (Option<Room>, Option<u64>) {
    let room = Room::of(folder, faults).unwrap_or(None);
    (room, folder.metadata().ok().map(|found| found.dev()))
}

fn perform(job: Job, faults: Option<&FaultControl>) -> Reply {
    match job {
        Job::Open { new, device, how } => {
            Reply::Opened(files::create_in(&new, device, how, faults))
        }
        Job::Preallocate { file, handle, from, how } => {
            let result = files::preallocate(&handle, from, how, faults);
            Reply::Preallocated { file, from, result }
        }
        Job::Remove(Created { handle, path, .. }) => {
            // It is empty. If it cannot be removed, repair recognises it by that. It is locked
            // until then: another program may replace a blank file that is not.
            let _removed = std::fs::remove_file(path);
            drop(handle);
            Reply::Removed
        }
        Job::Look { file, expected } => {
            // Unknown if the file system does not report it.
            let room = Room::of_file(&expected.file, faults).unwrap_or(None);
            Reply::Looked { file, room, presence: presence_of(&expected) }
        }
        Job::LookAt { folder } => {
            let (room, device) = look_at(&folder, faults);
            Reply::LookedAt { room, device }
        }
        Job::Finish { file, expected, end, blocks_bytes } => {
            // Before the end is set, which would restore the length of a truncated file.
            let found = presence_of(&expected);
            faults.inspect(|faults| faults.wait_for_finish());
            let Expected { file: handle, path, .. } = expected;
            let (result, kept_bytes) = match end {
                FileEnd::Cut(bytes) => (files::finish(&handle, &path, bytes, faults), bytes),
                FileEnd::Delete => (std::fs::remove_file(&path), 0),
            };
            drop(handle);
            if let (Ok(()), Some(faults)) = (&result, faults) {
                faults.add_space(blocks_bytes.saturating_sub(kept_bytes));
            }
            Reply::Finished { file, result, found }
        }
        Job::Append { path, header, text } => {
            let result = aside::append(&path, &header, &text);
            Reply::Appended { text, result }
        }
    }
}
