//! The two threads that do a disk's slow work: one opens, preallocates and checks the free space,
//! one finishes.
//!
//! There are two because the sync at the end of a file may take seconds, and the file being written
//! must get its next blocks meanwhile.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use catchment_agent::{FileEnd, NewFile, Presence};
use crossbeam_channel::{Receiver, Sender, bounded};

use crate::aside;
use crate::config::DiskConfig;
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
    Preallocated { file: u64, from: u64, result: io::Result<u64> },
    Looked { file: u64, room: Option<Room>, presence: Presence },
    LookedAt { room: Option<Room>, device: Option<u64> },
    Finished { file: u64, result: io::Result<()>, found: Presence },
    Appended { text: String, result: io::Result<()> },
}

/// The threads and the queues to and from them.
pub(crate) struct Helpers {
    ahead: Option<Sender<Job>>,
    finish: Option<Sender<Job>>,
    replies: Receiver<Reply>,
    threads: Vec<JoinHandle<()>>,
}

impl Helpers {
    /// Starts the threads. `jobs_max` bounds the number of jobs, so that no send ever waits.
    pub(crate) fn start(
        jobs_max: usize,
        event: &Arc<Event>,
        faults: Option<&FaultControl>,
        config: &DiskConfig,
    ) -> io::Result<Self> {
        let (ahead, ahead_jobs) = bounded(jobs_max);
        let (finish, finish_jobs) = bounded(jobs_max);
        let (reply_sender, replies) = bounded(2 * jobs_max);
        let mut helpers =
            Self { ahead: Some(ahead), finish: Some(finish), replies, threads: Vec::new() };
        for (name, jobs) in [("disk-ahead", ahead_jobs), ("disk-finish", finish_jobs)] {
            let (replies, event) = (reply_sender.clone(), Arc::clone(event));
            let (faults, times) = (faults.cloned(), config.threads.clone());
            let name = config.thread(name);
            let thread = std::thread::Builder::new().name(name.clone()).spawn(move || {
                let _time = times.as_ref().map(|times| times.register(name));
                work(&jobs, &replies, &event, faults.as_ref());
            })?;
            helpers.threads.push(thread);
        }
        Ok(helpers)
    }

    /// Passes a job to its thread; never waits.
    pub(crate) fn send(&self, job: Job) -> Result<(), DiskError> {
        let queue = match job {
            Job::Open { .. } | Job::Preallocate { .. } | Job::Look { .. } | Job::LookAt { .. } => {
                &self.ahead
            }
            Job::Finish { .. } | Job::Append { .. } => &self.finish,
        };
        let sent = queue.as_ref().is_some_and(|queue| queue.try_send(job).is_ok());
        if sent { Ok(()) } else { Err(DiskError::HelperGone) }
    }

    pub(crate) fn reply(&self) -> Option<Reply> {
        self.replies.try_recv().ok()
    }

    /// Lets the threads end when they can, instead of waiting for them.
    pub(crate) fn abandon(&mut self) {
        self.threads.clear();
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.ahead = None;
        self.finish = None;
        for thread in self.threads.drain(..) {
            // The threads do nothing that can panic; if one did, nothing could report it.
            let _ended = thread.join();
        }
    }
}

fn work(
    jobs: &Receiver<Job>,
    replies: &Sender<Reply>,
    event: &Event,
    faults: Option<&FaultControl>,
) {
    for job in jobs {
        if replies.send(perform(job, faults)).is_err() {
            return;
        }
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
