//! The events of a run.

use std::sync::Arc;

use catchment_model::EventFlags;
use catchment_storage::{FrameEvents, Run, StorageError};
use numpy::PyArray1;
use parking_lot::Mutex;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::errors::{UnknownEventError, python_error};
use crate::keys::{Index, Key};
use crate::opened::OpenRun;
use crate::views::{Backing, Memory, owned, signed_time};

/// The events of a run, in the order in which they were recorded.
///
/// A sequence of `Event`; `keys`, `times` and `flags` give all at once. They are read when first
/// asked for. `key in events` asks for a key, `events[i]` gives the i-th event and a slice a list.
#[pyclass(frozen, sequence, module = "catchment")]
pub(crate) struct Events {
    open: Arc<OpenRun>,
    /// Those of so many events: the run may have grown since.
    arrays: Mutex<Option<(u64, Arc<Arrays>)>>,
}

struct Arrays {
    keys: Py<PyArray1<u64>>,
    times: Py<PyArray1<i64>>,
    flags: Py<PyArray1<u32>>,
}

impl Events {
    pub(crate) fn new(open: Arc<OpenRun>) -> Self {
        Self { open, arrays: Mutex::default() }
    }

    fn arrays(&self, py: Python<'_>) -> PyResult<Arc<Arrays>> {
        let run = self.open.run()?;
        let lock = || self.arrays.lock();
        let count = run.event_count();
        if let Some((_, arrays)) = lock().as_ref().filter(|(of, _)| *of == count) {
            return Ok(Arc::clone(arrays));
        }
        // Nothing is locked meanwhile: another thread that holds the lock may want the
        // interpreter's.
        let arrays = Arc::new(read_arrays(py, &run)?);
        *lock() = Some((count, Arc::clone(&arrays)));
        Ok(arrays)
    }

    fn locate(&self, key: &Bound<'_, PyAny>) -> PyResult<(Arc<Run>, usize, usize)> {
        let Key::At(number) = Key::of(key)? else { return Err(unknown(key)) };
        let run = self.open.run()?;
        let location = key.py().detach(|| run.find(number)).map_err(python_error)?;
        let (frame, row) = location.ok_or_else(|| unknown(key))?;
        Ok((run, frame, row))
    }
}

#[pymethods]
impl Events {
    /// What the fragments of each event were matched by (trigger number), shape (n,), uint64.
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u64>>> {
        Ok(self.arrays(py)?.keys.bind(py).clone())
    }

    /// When each event's first fragment arrived, shape (n,), int64: nanoseconds since 1970, UTC.
    /// `times.view("datetime64[ns]")` makes dates of them, `catchment.convert_time` times of a
    /// channel's scale.
    #[getter]
    fn times<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i64>>> {
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
        let run = self.open.run()?;
        let counts = py.detach(|| run.event_counts()).map_err(python_error)?;
        Ok(counts.incomplete)
    }

    /// Names of the required sources that the event with that key lacks.
    ///
    /// Raises UnknownEventError if the run has no such event.
    fn missing(&self, key: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
        let (run, frame, row) = self.locate(key)?;
        let missing = key.py().detach(|| run.missing(frame, row)).map_err(python_error)?;
        let sources = run.sources();
        Ok(missing.iter().map(|id| sources[id.index()].name.clone()).collect())
    }

    /// The event with that key.
    ///
    /// Raises UnknownEventError if the run has no such event.
    fn find(&self, key: &Bound<'_, PyAny>) -> PyResult<Event> {
        let (run, frame, row) = self.locate(key)?;
        let events = key.py().detach(|| run.events(frame)).map_err(python_error)?;
        Ok(Event::new(&events, row))
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.open.run()?.event_count() as usize)
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let run = self.open.run()?;
        // What is no key at all is in no run.
        let Ok(Key::At(number)) = Key::of(key) else { return Ok(false) };
        Ok(key.py().detach(|| run.find(number)).map_err(python_error)?.is_some())
    }

    fn __getitem__<'py>(&self, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (py, run) = (index.py(), self.open.run()?);
        let slice = match Index::of(index, run.event_count() as usize)? {
            Index::One(row) => return event_at(py, &run, row)?.into_bound_py_any(py),
            Index::Some(slice) => slice,
        };
        let rows = (0..slice.slicelength as isize).map(|n| slice.start + n * slice.step);
        let events: PyResult<Vec<_>> = rows.map(|row| event_at(py, &run, row as usize)).collect();
        events?.into_bound_py_any(py)
    }

    fn __iter__(&self) -> PyResult<EventIterator> {
        let (open, run) = (Arc::clone(&self.open), self.open.run()?);
        Ok(EventIterator { open, run, next_frame: 0, current: None, row: 0 })
    }

    fn __repr__(&self) -> String {
        let Ok(run) = self.open.run() else { return "<catchment.Events: closed>".to_owned() };
        format!("<catchment.Events: {} in {} frames>", run.event_count(), run.frames().len())
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
    /// Conditions: an `EventFlag`, 0 where the event is complete.
    #[getter]
    fn flags<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static KIND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let import =
            || Ok::<_, PyErr>(py.import("catchment._flags")?.getattr("EventFlag")?.unbind());
        KIND.get_or_try_init(py, import)?.bind(py).call1((self.flags,))
    }

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
    open: Arc<OpenRun>,
    /// The run as it was when iterating began.
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
        self.open.check_open()?;
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

pub(crate) fn unknown(key: &Bound<'_, PyAny>) -> PyErr {
    UnknownEventError::new_err(format!("there is no event {key} in this run"))
}

/// The event in a row of all that the run has, which must be there.
fn event_at(py: Python<'_>, run: &Run, row: usize) -> PyResult<Event> {
    let (row, frames) = (row as u64, run.frames());
    let frame = frames.partition_point(|frame| frame.first_row <= row) - 1;
    let events = py.detach(|| run.events(frame)).map_err(python_error)?;
    Ok(Event::new(&events, (row - frames[frame].first_row) as usize))
}

fn read_arrays(py: Python<'_>, run: &Run) -> PyResult<Arrays> {
    if run.frames().len() == 1 {
        let events = py.detach(|| run.events(0)).map_err(python_error)?;
        let memory = Memory::new(py, Backing::Events(Arc::clone(&events)))?;
        let memory = memory.bind(py);
        return Ok(Arrays {
            keys: Memory::keys(memory, 0..events.len()).unbind(),
            times: Memory::times(memory).unbind(),
            flags: Memory::flags(memory).unbind(),
        });
    }
    let (keys, times, flags) = py.detach(|| join(run)).map_err(python_error)?;
    Ok(Arrays {
        keys: owned(py, keys).unbind(),
        times: owned(py, times).unbind(),
        flags: owned(py, flags).unbind(),
    })
}

type Joined = (Vec<u64>, Vec<i64>, Vec<u32>);

fn join(run: &Run) -> Result<Joined, StorageError> {
    let (mut keys, mut times, mut flags) = Joined::default();
    for frame in 0..run.frames().len() {
        let events = run.events(frame)?;
        keys.extend_from_slice(events.keys());
        times.extend(events.times_ns().iter().copied().map(signed_time));
        flags.extend_from_slice(events.flags());
    }
    Ok((keys, times, flags))
}
