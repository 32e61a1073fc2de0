//! The events of a run.

use std::sync::Arc;

use catchment_model::EventFlags;
use catchment_storage::{FrameEvents, Run, StorageError};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::errors::{UnknownEventError, python_error};
use crate::fragments::row_of;
use crate::views::{Kept, Memory, owned};

/// The events of a run, in the order in which they were recorded.
///
/// A sequence of `Event`; `keys`, `times` and `flags` give all at once. They are read when first
/// asked for. `key in events` asks for a key, `events[i]` gives the i-th event.
#[pyclass(frozen, sequence, module = "catchment")]
pub(crate) struct Events {
    run: Arc<Run>,
    arrays: PyOnceLock<Arrays>,
}

struct Arrays {
    keys: Py<PyArray1<u64>>,
    times: Py<PyArray1<u64>>,
    flags: Py<PyArray1<u32>>,
}

impl Events {
    pub(crate) fn new(run: Arc<Run>) -> Self {
        Self { run, arrays: PyOnceLock::new() }
    }

    fn arrays(&self, py: Python<'_>) -> PyResult<&Arrays> {
        self.arrays.get_or_try_init(py, || {
            if self.run.frames().len() == 1 {
                let events = py.detach(|| self.run.events(0)).map_err(python_error)?;
                let memory = Memory::new(py, Kept::Events(Arc::clone(&events)))?;
                let memory = memory.bind(py);
                return Ok(Arrays {
                    keys: Memory::keys(memory, 0..events.len()).unbind(),
                    times: Memory::times(memory).unbind(),
                    flags: Memory::flags(memory).unbind(),
                });
            }
            let (keys, times, flags) = py.detach(|| join(&self.run)).map_err(python_error)?;
            Ok(Arrays {
                keys: owned(py, keys).unbind(),
                times: owned(py, times).unbind(),
                flags: owned(py, flags).unbind(),
            })
        })
    }

    fn place(&self, py: Python<'_>, key: u64) -> PyResult<(usize, usize)> {
        let place = py.detach(|| self.run.find(key)).map_err(python_error)?;
        place.ok_or_else(|| unknown(key))
    }
}

#[pymethods]
impl Events {
    /// What the fragments of each event were matched by (trigger number), shape (n,), uint64.
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        Ok(self.arrays(py)?.keys.bind(py).clone())
    }

    /// When each event's first fragment arrived, shape (n,), uint64: nanoseconds since 1970, UTC.
    /// `times.view("datetime64[ns]")` makes dates of them.
    #[getter]
    fn times<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        Ok(self.arrays(py)?.times.bind(py).clone())
    }

    /// Conditions of each event, shape (n,), uint32: bits of `EventFlag`; 0: complete.
    #[getter]
    fn flags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u32>>> {
        Ok(self.arrays(py)?.flags.bind(py).clone())
    }

    /// How many events lack a source that was required.
    #[getter]
    fn incomplete(&self, py: Python<'_>) -> PyResult<u64> {
        let counts = py.detach(|| self.run.event_counts()).map_err(python_error)?;
        Ok(counts.incomplete)
    }

    /// Names of the required sources that the event with that key lacks.
    ///
    /// Raises UnknownEventError if the run has no such event.
    fn missing(&self, py: Python<'_>, key: u64) -> PyResult<Vec<String>> {
        let (frame, row) = self.place(py, key)?;
        let missing = py.detach(|| self.run.missing(frame, row)).map_err(python_error)?;
        let sources = self.run.sources();
        Ok(missing.iter().map(|id| sources[id.index()].name.clone()).collect())
    }

    /// The event with that key.
    ///
    /// Raises UnknownEventError if the run has no such event.
    fn find(&self, py: Python<'_>, key: u64) -> PyResult<Event> {
        let (frame, row) = self.place(py, key)?;
        let events = py.detach(|| self.run.events(frame)).map_err(python_error)?;
        Ok(Event::new(&events, row))
    }

    fn __len__(&self) -> usize {
        self.run.event_count() as usize
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        // What is no key at all is in no run.
        let Ok(key) = key.extract() else { return Ok(false) };
        Ok(py.detach(|| self.run.find(key)).map_err(python_error)?.is_some())
    }

    fn __getitem__(&self, py: Python<'_>, index: isize) -> PyResult<Event> {
        let row = row_of(index, self.__len__())? as u64;
        let frames = self.run.frames();
        let frame = frames.partition_point(|frame| frame.first_row <= row) - 1;
        let events = py.detach(|| self.run.events(frame)).map_err(python_error)?;
        Ok(Event::new(&events, (row - frames[frame].first_row) as usize))
    }

    fn __iter__(&self) -> EventIterator {
        EventIterator { run: Arc::clone(&self.run), next_frame: 0, current: None, row: 0 }
    }

    fn __repr__(&self) -> String {
        let frames = self.run.frames().len();
        format!("<catchment.Events: {} in {frames} frames>", self.run.event_count())
    }
}

/// One event: its key, when it came, and its conditions.
#[pyclass(frozen, eq, hash, module = "catchment")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Event {
    /// What its fragments were matched by (trigger number).
    #[pyo3(get)]
    key: u64,
    /// When its first fragment arrived: nanoseconds since 1970, UTC.
    #[pyo3(get)]
    time_ns: u64,
    /// Conditions: bits of `EventFlag`; 0: complete.
    #[pyo3(get)]
    flags: u32,
}

impl Event {
    fn new(events: &FrameEvents, row: usize) -> Self {
        Self {
            key: events.keys()[row],
            time_ns: events.times_ns()[row],
            flags: events.flags()[row],
        }
    }
}

#[pymethods]
impl Event {
    /// Whether every source that was required is in it.
    #[getter]
    fn complete(&self) -> bool {
        !EventFlags(self.flags).contains(EventFlags::INCOMPLETE)
    }

    fn __repr__(&self) -> String {
        format!("<catchment.Event {}: {}>", self.key, EventFlags(self.flags))
    }
}

/// Iterates over events, a frame at a time.
#[pyclass(module = "catchment._native")]
pub(crate) struct EventIterator {
    run: Arc<Run>,
    next_frame: usize,
    current: Option<Arc<FrameEvents>>,
    row: usize,
}

#[pymethods]
impl EventIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Event>> {
        loop {
            if let Some(events) = self.current.as_ref().filter(|events| self.row < events.len()) {
                let event = Event::new(events, self.row);
                self.row += 1;
                return Ok(Some(event));
            }
            if self.next_frame == self.run.frames().len() {
                return Ok(None);
            }
            let (run, frame) = (&self.run, self.next_frame);
            self.current = Some(py.detach(|| run.events(frame)).map_err(python_error)?);
            self.next_frame += 1;
            self.row = 0;
        }
    }
}

pub(crate) fn unknown(key: u64) -> PyErr {
    UnknownEventError::new_err(StorageError::NoEvent { key }.to_string())
}

type Joined = (Vec<u64>, Vec<u64>, Vec<u32>);

fn join(run: &Run) -> Result<Joined, StorageError> {
    let (mut keys, mut times, mut flags) = Joined::default();
    for frame in 0..run.frames().len() {
        let events = run.events(frame)?;
        keys.extend_from_slice(events.keys());
        times.extend_from_slice(events.times_ns());
        flags.extend_from_slice(events.flags());
    }
    Ok((keys, times, flags))
}
