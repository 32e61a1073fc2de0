//! The frames of a run, which are what it was written in.

use std::sync::Arc;

use catchment_model::SourceId;
use catchment_storage::{FragmentRows, FrameEvents, Run};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::errors::python_error;
use crate::fragments::{Fragments, row_of};
use crate::run::{SourceKey, find_source};
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
        Frame::read(py, &self.run, row_of(index, self.__len__())?)
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
    run: Arc<Run>,
    index: usize,
    events: Arc<FrameEvents>,
    memory: Py<Memory>,
}

impl Frame {
    fn read(py: Python<'_>, run: &Arc<Run>, index: usize) -> PyResult<Self> {
        let events = py.detach(|| run.events(index)).map_err(python_error)?;
        let memory = Memory::new(py, Kept::Events(Arc::clone(&events)))?;
        Ok(Self { run: Arc::clone(run), index, events, memory })
    }
}

#[pymethods]
impl Frame {
    /// The frame's place in the run, from 0.
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
        let id: SourceId = find_source(&self.run, &source)?;
        let (run, frame) = (&self.run, self.index);
        let column = py.detach(|| run.fragments(frame, id)).map_err(python_error)?;
        let rows = 0..column.rows();
        Fragments::of_frame(py, (run, id), FragmentRows { frame, rows, column })
    }

    fn __contains__(&self, source: &Bound<'_, PyAny>) -> bool {
        source.extract().is_ok_and(|source: SourceKey| find_source(&self.run, &source).is_ok())
    }

    fn __iter__(&self) -> PyResult<()> {
        let text = "a frame is not iterated over: use frame[source], or for source in run.sources";
        Err(pyo3::exceptions::PyTypeError::new_err(text))
    }

    fn __repr__(&self) -> String {
        let info = &self.run.frames()[self.index].summary.info;
        let (index, events) = (self.index, self.events.len());
        let (first, last) = (info.key_first, info.key_last);
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
        let frame = Frame::read(py, &self.run, self.next)?;
        self.next += 1;
        Ok(Some(frame))
    }
}
