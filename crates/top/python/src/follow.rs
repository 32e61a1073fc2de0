//! Following a run: its frames in the order in which storage's follower hands them out.
//!
//! One follower looks at the files of a run, and what it handed out is noted, so that each of any
//! number of iterators gets every frame once. A frame is read from the follower's own run, which
//! takes up what comes without reopening files. Places in a run move when a file in the middle
//! grows: what is noted is the folder, the file's index and the frame's index in that file, 24
//! bytes per frame.
//!
//! Locks are taken without the interpreter's, so that neither waits for the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use catchment_model::printable;
use catchment_storage::{Follow, Followed, Run, StorageError};
use parking_lot::RwLock;
use pyo3::prelude::*;

use crate::errors::{FileError, python_error};
use crate::opened::OpenRun;

/// A run that is followed.
pub(crate) struct Following {
    state: RwLock<State>,
    /// Rises whenever the run has changed.
    version: AtomicUsize,
}

struct State {
    follow: Follow,
    /// What was handed out, in this order.
    given: Vec<Given>,
}

/// A frame that was handed out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) kind: Kind,
    folder: usize,
    file_index: u32,
    index: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Events,
    Channels,
}

/// Where a frame is read from.
pub(crate) enum Origin {
    /// A run that is read.
    Run(Arc<OpenRun>, Given),
    /// One that is followed: the follower has it, too.
    Followed(Arc<OpenRun>, Arc<Following>, Given),
}

enum NextFrame {
    Came(Given),
    NotYet,
    Ended,
}

impl Following {
    /// Follows a run; the frames that are there are handed out already.
    pub(crate) fn new(run: Run) -> Result<Self, StorageError> {
        let follow = Follow::new(run, POLL)?;
        let state = RwLock::new(State { follow, given: Vec::new() });
        let following = Self { state, version: AtomicUsize::new(0) };
        following.look(usize::MAX)?;
        Ok(following)
    }

    /// Another number than before: frames have been handed out since, or the run has ended.
    pub(crate) fn version(&self) -> usize {
        self.version.load(Ordering::Acquire)
    }

    /// The frame that is, or will be, handed out at a position from 0. Waits for it; `None`: the
    /// run has ended, or the time is over.
    pub(crate) fn next(
        &self,
        py: Python<'_>,
        run: &OpenRun,
        at: usize,
        timeout: Option<f64>,
    ) -> PyResult<Option<Given>> {
        let begun = Instant::now();
        loop {
            run.check_open()?;
            py.check_signals()?;
            // The thread that is given a frame reads it, even if another thread waited for it.
            Follow::lower_io_priority();
            match py.detach(|| self.look(at)).map_err(python_error)? {
                NextFrame::Came(given) => return Ok(Some(given)),
                NextFrame::Ended => return Ok(None),
                NextFrame::NotYet => {}
            }
            if timeout.is_some_and(|timeout| begun.elapsed().as_secs_f64() >= timeout) {
                return Ok(None);
            }
            py.detach(|| std::thread::sleep(POLL));
        }
    }

    /// Reads something of a frame that was handed out: the run and the frame's index in it, now.
    pub(crate) fn with<T>(
        &self,
        given: Given,
        read: impl FnOnce(&Run, usize) -> PyResult<T>,
    ) -> PyResult<T> {
        let state = self.state.read();
        given.with(state.follow.run(), read)
    }

    /// What is handed out at that position; looks once for new frames where it is not yet known.
    fn look(&self, at: usize) -> Result<NextFrame, StorageError> {
        let known = self.state.read().given(at);
        if let Some(given) = known {
            return Ok(NextFrame::Came(given));
        }
        let mut state = self.state.write();
        let next = state.look(at);
        let version = state.given.len() + usize::from(state.follow.ended());
        self.version.store(version, Ordering::Release);
        next
    }
}

impl State {
    fn given(&self, at: usize) -> Option<Given> {
        self.given.get(at).copied()
    }

    fn look(&mut self, at: usize) -> Result<NextFrame, StorageError> {
        loop {
            if let Some(given) = self.given(at) {
                return Ok(NextFrame::Came(given));
            }
            let Some(followed) = self.follow.next_within(Duration::ZERO)? else {
                let ended = self.follow.ended();
                return Ok(if ended { NextFrame::Ended } else { NextFrame::NotYet });
            };
            self.given.push(Given::new(self.follow.run(), followed));
        }
    }
}

impl Given {
    pub(crate) fn new(run: &Run, followed: Followed) -> Self {
        let (kind, frame) = match followed {
            Followed::Events(index) => (Kind::Events, run.frames()[index]),
            Followed::Channels(index) => (Kind::Channels, run.channel_frames()[index]),
        };
        let file = run.files().nth(frame.file).expect("a frame is in one of the run's files");
        let (folder, file_index) = (file.folder, file.header.file_index);
        Self { kind, folder, file_index, index: frame.index }
    }

    /// Reads something of that frame, wherever it is now.
    fn with<T>(self, run: &Run, read: impl FnOnce(&Run, usize) -> PyResult<T>) -> PyResult<T> {
        let index = self.index_in(run).ok_or_else(|| {
            let path = run.path().display();
            let (file, index) = (self.file_index, self.index);
            let text = format!("{path}: frame {index} of file {file} is gone");
            FileError::new_err(printable(&text).into_owned())
        })?;
        read(run, index)
    }

    fn index_in(&self, run: &Run) -> Option<usize> {
        let its = (self.folder, self.file_index);
        let file = run.files().position(|file| (file.folder, file.header.file_index) == its)?;
        match self.kind {
            Kind::Events => run.frame_at(file, self.index),
            Kind::Channels => run.channel_frame_at(file, self.index),
        }
    }
}

impl Origin {
    /// Reads something: the run, and the frame's index in it.
    pub(crate) fn with<T>(&self, read: impl FnOnce(&Run, usize) -> PyResult<T>) -> PyResult<T> {
        match self {
            Self::Run(open, given) => given.with(&*open.run()?, read),
            Self::Followed(open, following, given) => {
                open.check_open()?;
                following.with(*given, read)
            }
        }
    }
}

/// How often a run that is followed is looked at. Also how long Python's signals may wait.
const POLL: Duration = Duration::from_millis(20);
