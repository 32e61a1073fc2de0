//! The frames of a run, which are what it was written in.

use std::ops::Range;
use std::sync::Arc;

use catchment_storage::{Followed, FragmentRows, FrameEvents, Run};
use numpy::PyArray1;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;

use crate::errors::python_error;
use crate::follow::{Following, Given, Kind, Origin};
use crate::fragments::{Fragments, about};
use crate::keys::{Index, Wanted, adjacent};
use crate::opened::OpenRun;
use crate::sources::find_source;
use crate::views::{Backing, Memory};

/// The frames of a run: a sequence of `Frame`, read one at a time; a slice gives Frames.
#[pyclass(frozen, sequence, module = "catchment")]
pub(crate) struct Frames {
    open: Arc<OpenRun>,
    /// Which of them.
    range: Range<usize>,
}

impl Frames {
    pub(crate) fn new(open: Arc<OpenRun>, range: Range<usize>) -> Self {
        Self { open, range }
    }
}

#[pymethods]
impl Frames {
    fn __len__(&self) -> usize {
        self.range.len()
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, start) = (index.py(), self.range.start);
        let range = match Index::of(index, self.range.len())? {
            Index::One(index) => {
                let frame = Frame::of_run(py, &self.open, &*self.open.run()?, start + index)?;
                return frame.into_bound_py_any(py);
            }
            Index::Some(slice) => adjacent(&slice, "frames")?,
        };
        let range = start + range.start..start + range.end;
        Self::new(Arc::clone(&self.open), range).into_bound_py_any(py)
    }

    fn __iter__(&self) -> PyResult<FrameIterator> {
        let (open, run) = (Arc::clone(&self.open), self.open.run()?);
        Ok(FrameIterator { open, run, range: self.range.clone() })
    }

    fn __repr__(&self) -> String {
        let Ok(run) = self.open.run() else { return "<catchment.Frames: closed>".to_owned() };
        let frames = &run.frames()[self.range.clone()];
        let events =
            frames.iter().fold(0_u64, |sum, frame| sum.saturating_add(frame.summary.info.rows));
        format!("<catchment.Frames: {} with {events} events>", frames.len())
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
        let memory = Memory::new(py, Backing::Events(Arc::clone(&events)))?;
        let (key_first, key_last) = (info.key_first, info.key_last);
        Ok(Self { origin, index, key_first, key_last, events, memory })
    }

    /// The frame at that index of a run, which must be there.
    fn of_run(py: Python<'_>, open: &Arc<OpenRun>, run: &Run, index: usize) -> PyResult<Self> {
        let given = Given::new(run, Followed::Events(index));
        Self::read(py, Origin::Run(Arc::clone(open), given))
    }
}

#[pymethods]
impl Frame {
    /// The frame's index in the run when it was read, from 0.
    #[getter]
    fn index(&self) -> usize {
        self.index
    }

    /// What the fragments of each event were matched by (trigger number), shape (n,), uint64.
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        Memory::keys(self.memory.bind(py), 0..self.events.len())
    }

    /// When each event's first fragment arrived, shape (n,), int64: ns since 1970, UTC.
    #[getter]
    fn times<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
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

    fn __getitem__(&self, source: &Bound<'_, PyAny>) -> PyResult<Fragments> {
        let (py, wanted) = (source.py(), Wanted::of(source)?);
        let read = |run: &Run, frame: usize| {
            let id = find_source(run, &wanted)?;
            run.check_stored(id).map_err(python_error)?;
            let column = run.fragments(frame, id).map_err(python_error)?;
            let rows = 0..column.rows();
            Ok((about(run, id), FragmentRows { frame, rows, column }))
        };
        let (about, rows) = py.detach(|| self.origin.with(read))?;
        Fragments::of_frame(py, about, rows)
    }

    fn __contains__(&self, source: &Bound<'_, PyAny>) -> bool {
        let Ok(wanted) = Wanted::of(source) else { return false };
        source.py().detach(|| self.origin.with(|run, _| find_source(run, &wanted))).is_ok()
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
    open: Arc<OpenRun>,
    /// The run as it was when iterating began.
    run: Arc<Run>,
    range: Range<usize>,
}

#[pymethods]
impl FrameIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Frame>> {
        self.open.check_open()?;
        let Some(index) = self.range.next() else { return Ok(None) };
        Frame::of_run(py, &self.open, &self.run, index).map(Some)
    }
}

/// Iterates over the frames of a run that is followed; waits for the next, until the run has ended.
#[pyclass(module = "catchment._native")]
pub(crate) struct FollowedFrames {
    open: Arc<OpenRun>,
    following: Arc<Following>,
    next: usize,
}

impl FollowedFrames {
    pub(crate) fn new(open: Arc<OpenRun>) -> PyResult<Self> {
        let following = Arc::clone(open.following()?);
        Ok(Self { open, following, next: 0 })
    }
}

#[pymethods]
impl FollowedFrames {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Frame>> {
        while let Some(given) = self.following.next(py, &self.open, self.next, None)? {
            // Even if the frame cannot be read, the next call continues behind it.
            self.next += 1;
            if given.kind == Kind::Events {
                let (open, following) = (Arc::clone(&self.open), Arc::clone(&self.following));
                let origin = Origin::Followed(open, following, given);
                return Frame::read(py, origin).map(Some);
            }
        }
        Ok(None)
    }
}
