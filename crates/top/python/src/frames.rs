//! The frames of a run, which are what it was written in.

use std::sync::Arc;

use catchment_storage::{FragmentRows, FrameEvents, Run};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::errors::python_error;
use crate::follow::{Following, Kind, Origin};
use crate::fragments::{Fragments, about, row_of};
use crate::run::{PyRun, SourceKey, find_source};
use crate::views::{Kept, Memory};

/// The frames of a run: a sequence of `Frame`, read one at a time.
#[pyclass(frozen, sequence, module = "catchment")]
pub(crate) struct Frames {
    run: Arc<Run>,
}

impl Frames {
    pub(crate) fn new(run: Arc<Run>) -> Self {
        Self { run }
    }
}

#[pymethods]
impl Frames {
    fn __len__(&self) -> usize {
        self.run.frames().len()
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Frame> {
        let index = row_of(index, self.__len__())?;
        Frame::read(py, Origin::Run(Arc::clone(&self.run), index))
    }

    fn __iter__(&self) -> FrameIterator {
        FrameIterator { run: Arc::clone(&self.run), next: 0 }
    }

    fn __repr__(&self) -> String {
        format!("<catchment.Frames: {} with {} events>", self.__len__(), self.run.event_count())
    }
}

/// Some megabytes of a run: its events, and one column of fragments for each source.
///
/// `frame[source]`, by name or number, gives the source's fragments, as views without a copy.
#[pyclass(frozen, module = "catchment")]
pub(crate) struct Frame {
    origin: Origin,
    index: usize,
    key_first: u64,
    key_last: u64,
    events: Arc<FrameEvents>,
    memory: Py<Memory>,
}

impl Frame {
    fn read(py: Python<'_>, origin: Origin) -> PyResult<Self> {
        let read = |run: &Run, index: usize| {
            let events = run.events(index).map_err(python_error)?;
            let info = run.frames()[index].summary.info;
            Ok((index, info, events))
        };
        let (index, info, events) = py.detach(|| origin.with(read))?;
        let memory = Memory::new(py, Kept::Events(Arc::clone(&events)))?;
        let (key_first, key_last) = (info.key_first, info.key_last);
        Ok(Self { origin, index, key_first, key_last, events, memory })
    }
}

#[pymethods]
impl Frame {
    /// The frame's place in the run when it was read, from 0.
    #[getter]
    fn index(&self) -> usize {
        self.index
    }

    /// What the fragments of each event were matched by (trigger number), shape (n,), uint64.
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        Memory::keys(self.memory.bind(py), 0..self.events.len())
    }

    /// When each event's first fragment arrived, shape (n,), uint64: nanoseconds since 1970, UTC.
    #[getter]
    fn times<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        Memory::times(self.memory.bind(py))
    }

    /// Conditions of each event, shape (n,), uint32: bits of `EventFlag`; 0: complete.
    #[getter]
    fn flags<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        Memory::flags(self.memory.bind(py))
    }

    /// How many events it has.
    fn __len__(&self) -> usize {
        self.events.len()
    }

    fn __getitem__(&self, py: Python<'_>, source: SourceKey) -> PyResult<Fragments> {
        let read = |run: &Run, frame: usize| {
            let id = find_source(run, &source)?;
            let column = run.fragments(frame, id).map_err(python_error)?;
            let rows = 0..column.rows();
            Ok((about(run, id), FragmentRows { frame, rows, column }))
        };
        let (about, rows) = py.detach(|| self.origin.with(read))?;
        Fragments::of_frame(py, about, rows)
    }

    fn __contains__(&self, source: &Bound<'_, PyAny>) -> bool {
        let Ok(name) = source.extract::<SourceKey>() else { return false };
        source.py().detach(|| self.origin.with(|run, _| find_source(run, &name))).is_ok()
    }

    fn __iter__(&self) -> PyResult<()> {
        let text = "a frame is not iterated over: use frame[source], or for source in run.sources";
        Err(pyo3::exceptions::PyTypeError::new_err(text))
    }

    fn __repr__(&self) -> String {
        let (index, events) = (self.index, self.events.len());
        let (first, last) = (self.key_first, self.key_last);
        format!("<catchment.Frame {index}: {events} events, keys {first} to {last}>")
    }
}

/// Iterates over frames.
#[pyclass(module = "catchment._native")]
pub(crate) struct FrameIterator {
    run: Arc<Run>,
    next: usize,
}

#[pymethods]
impl FrameIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Frame>> {
        if self.next == self.run.frames().len() {
            return Ok(None);
        }
        let frame = Frame::read(py, Origin::Run(Arc::clone(&self.run), self.next))?;
        self.next += 1;
        Ok(Some(frame))
    }
}

/// Iterates over the frames of a run that is followed; waits for the next, until the run has ended.
#[pyclass(module = "catchment._native")]
pub(crate) struct FollowedFrames {
    run: Py<PyRun>,
    following: Arc<Following>,
    next: usize,
}

impl FollowedFrames {
    pub(crate) fn new(run: Py<PyRun>, following: Arc<Following>) -> Self {
        Self { run, following, next: 0 }
    }
}

#[pymethods]
impl FollowedFrames {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Frame>> {
        while let Some(given) = self.following.next(py, self.run.get(), self.next, None)? {
            // Also where it cannot be read: whoever goes on gets the next.
            self.next += 1;
            if given.kind == Kind::Events {
                let origin = Origin::Followed(Arc::clone(&self.following), given);
                return Frame::read(py, origin).map(Some);
            }
        }
        Ok(None)
    }
}
