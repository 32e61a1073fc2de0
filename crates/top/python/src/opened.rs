//! An open run, as every object that was made of it has it.
//!
//! Closing takes the run away from all of them at once, so that its files are closed when the last
//! read that is under way has ended; later reads raise `RunClosedError`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use catchment_frame::SourceInfo;
use catchment_model::printable;
use catchment_storage::{Run, RunOptions, StorageError};
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::{RunClosedError, python_error, warn};
use crate::follow::Following;

/// A run until it is closed.
pub(crate) struct OpenRun {
    paths: Vec<PathBuf>,
    run: Mutex<Option<Arc<Run>>>,
    /// They stay the same while a run grows, and can be named after it was closed.
    sources: Arc<[SourceInfo]>,
    options: RunOptions,
    /// Hands out what is written, where the run is followed.
    following: Option<Arc<Following>>,
    /// That one's version when `run` was brought up to date.
    version: AtomicUsize,
    /// Whether a bad table of checksums was warned of.
    warned_of_tables: AtomicBool,
}

impl OpenRun {
    /// Opens a run in one folder or several, to follow it or to read it as it is.
    pub(crate) fn open(
        paths: Vec<PathBuf>,
        follow: bool,
        options: RunOptions,
    ) -> Result<Self, StorageError> {
        // Before the run is opened: that one then has all that was handed out.
        let following = match follow {
            true => Some(Arc::new(Following::new(Run::open_folders(&paths, options.clone())?)?)),
            false => None,
        };
        let run = Run::open_folders(&paths, options.clone())?;
        let sources = run.sources().into();
        let version =
            AtomicUsize::new(following.as_ref().map_or(0, |following| following.version()));
        let run = Mutex::new(Some(Arc::new(run)));
        let warned_of_tables = AtomicBool::new(false);
        Ok(Self { paths, run, sources, options, following, version, warned_of_tables })
    }

    /// The path that was opened; of several, the first.
    pub(crate) fn path(&self) -> &Path {
        &self.paths[0]
    }

    /// The paths that were opened.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The sources, whether the run is open or not.
    pub(crate) fn sources(&self) -> &Arc<[SourceInfo]> {
        &self.sources
    }

    /// The run, unless it was closed. Of one that is followed: as far as frames were handed out, at
    /// least.
    pub(crate) fn run(&self) -> PyResult<Arc<Run>> {
        if let Some(following) = &self.following
            && following.version() != self.version.load(Ordering::Acquire)
        {
            Python::attach(|py| py.detach(|| self.bring_up_to_date())).map_err(python_error)?;
        }
        let run = self.run.lock();
        run.as_ref().map(Arc::clone).ok_or_else(|| self.closed())
    }

    /// Warns of the first column whose checksums by block are damaged, once.
    pub(crate) fn warn_of_tables(&self, py: Python<'_>, bad: &[String]) -> PyResult<()> {
        let Some(first) = bad.first() else { return Ok(()) };
        if self.warned_of_tables.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        warn(py, &format!("{first}; no data are lost (see Run.problems for others)"))
    }

    /// An error if the run was closed.
    pub(crate) fn check_open(&self) -> PyResult<()> {
        let run = self.run.lock();
        if run.is_some() { Ok(()) } else { Err(self.closed()) }
    }

    /// What hands out the frames of a run that is followed.
    pub(crate) fn following(&self) -> PyResult<&Arc<Following>> {
        let message = "the run is not followed: open it with follow=True";
        self.following.as_ref().ok_or_else(|| PyValueError::new_err(message))
    }

    /// Whether the run is followed.
    pub(crate) fn follows(&self) -> bool {
        self.following.is_some()
    }

    /// Picks up new data. Reopens the run only while a read of it is under way.
    pub(crate) fn bring_up_to_date(&self) -> Result<(), StorageError> {
        // Asked before: what is handed out meanwhile is looked for again.
        let version = self.following.as_ref().map_or(0, |following| following.version());
        let mut run = self.run.lock();
        let Some(run) = run.as_mut() else { return Ok(()) };
        match Arc::get_mut(run) {
            Some(run) => {
                run.refresh()?;
            }
            None => *run = Arc::new(Run::open_folders(&self.paths, self.options.clone())?),
        }
        self.version.store(version, Ordering::Release);
        Ok(())
    }

    /// Closes it for all users of the run.
    pub(crate) fn close(&self) {
        self.run.lock().take();
    }

    fn closed(&self) -> PyErr {
        let text = format!("{} was closed", self.path().display());
        RunClosedError::new_err(printable(&text).into_owned())
    }
}
