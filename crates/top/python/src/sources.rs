//! The sources of a run, and what one of them delivered.

use std::sync::Arc;

use catchment_frame::{Hole, SourceInfo};
use catchment_model::{SourceId, near_matches, printable};
use catchment_storage::{Run, SelectEvents, StorageError};
use numpy::PyArray1;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyDict, PyIterator, PyList, PySlice};

use crate::errors::{UnknownSourceError, python_error};
use crate::events::unknown;
use crate::fragments::{Fragments, about, fragment, payload_dict};
use crate::keys::{Key, Wanted, number_range};
use crate::opened::OpenRun;
use crate::views::owned;

/// The number of a source, if the run has it.
pub(crate) fn find_source(run: &Run, wanted: &Wanted) -> PyResult<SourceId> {
    find(run.sources(), wanted)
}

fn find(sources: &[SourceInfo], wanted: &Wanted) -> PyResult<SourceId> {
    let count = sources.len();
    let found = match wanted {
        Wanted::Name(name) => sources.iter().position(|source| source.name == *name),
        Wanted::Number(number) => usize::try_from(*number).ok().filter(|number| *number < count),
    };
    found.map(|index| SourceId(index as u32)).ok_or_else(|| {
        let message = match wanted {
            Wanted::Name(name) => {
                let names = sources.iter().map(|source| source.name.as_str());
                unknown_name("source", name, names)
            }
            Wanted::Number(number) => format!("there is no source {number}: the run has {count}"),
        };
        UnknownSourceError::new_err(message)
    })
}

/// The message for an unknown name: the number of known names, and similar ones.
pub(crate) fn unknown_name<'a>(
    what: &str,
    name: &str,
    names: impl Iterator<Item = &'a str>,
) -> String {
    let names: Vec<&str> = names.collect();
    let near = near_matches(name, &names).join("' or '");
    let hint = if near.is_empty() { String::new() } else { format!("; did you mean '{near}'?") };
    let message = format!("there is no {what} '{name}': the run has {}{hint}", names.len());
    printable(&message).into_owned()
}

/// The sources of a run: a mapping from names (or numbers) to sources.
#[pyclass(frozen, mapping, module = "catchment")]
pub(crate) struct Sources {
    open: Arc<OpenRun>,
}

impl Sources {
    pub(crate) fn new(open: Arc<OpenRun>) -> Self {
        Self { open }
    }

    fn source(&self, index: usize) -> Source {
        Source::new(Arc::clone(&self.open), SourceId(index as u32))
    }
}

/// Bytes of a fragment, and the holes in them.
type Part<'py> = (Bound<'py, PyArray1<u8>>, Bound<'py, PyAny>);

#[pymethods]
impl Sources {
    fn __getitem__(&self, source: &Bound<'_, PyAny>) -> PyResult<Source> {
        let id = find(self.open.sources(), &Wanted::of(source)?)?;
        Ok(Source::new(Arc::clone(&self.open), id))
    }

    fn __contains__(&self, source: &Bound<'_, PyAny>) -> bool {
        Wanted::of(source).is_ok_and(|wanted| find(self.open.sources(), &wanted).is_ok())
    }

    fn __len__(&self) -> usize {
        self.open.sources().len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys(py)?.try_iter()
    }

    /// The names, in the order of the numbers.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.open.sources().iter().map(|source| &source.name))
    }

    /// The sources, in the order of their numbers.
    fn values(&self) -> Vec<Source> {
        (0..self.__len__()).map(|index| self.source(index)).collect()
    }

    /// Names and sources.
    fn items(&self) -> Vec<(String, Source)> {
        let sources = self.open.sources().iter().enumerate();
        sources.map(|(index, info)| (info.name.clone(), self.source(index))).collect()
    }

    /// The source of that name or number, or `default` if there is none.
    #[pyo3(signature = (source, default = None))]
    fn get<'py>(
        &self,
        source: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = source.py();
        match self.__getitem__(source) {
            Ok(found) => found.into_bound_py_any(py),
            Err(error) if error.is_instance_of::<UnknownSourceError>(py) => {
                Ok(default.unwrap_or_else(|| py.None().into_bound(py)))
            }
            Err(error) => Err(error),
        }
    }

    fn __repr__(&self) -> String {
        let sources = self.open.sources();
        let shown: Vec<_> = sources.iter().take(6).map(|source| source.name.as_str()).collect();
        let more = if sources.len() > shown.len() { ", ..." } else { "" };
        format!("<catchment.Sources: {} ({}{more})>", sources.len(), shown.join(", "))
    }
}

/// One source of a run. Reads its data when asked.
#[pyclass(frozen, module = "catchment")]
pub(crate) struct Source {
    open: Arc<OpenRun>,
    id: SourceId,
}

impl Source {
    pub(crate) fn new(open: Arc<OpenRun>, id: SourceId) -> Self {
        Self { open, id }
    }

    fn info(&self) -> &SourceInfo {
        &self.open.sources()[self.id.index()]
    }
}

#[pymethods]
impl Source {
    /// Its name, unique in the run.
    #[getter]
    fn name(&self) -> &str {
        &self.info().name
    }

    /// Its number: its index in the run, from 0.
    #[getter]
    fn number(&self) -> u32 {
        self.id.0
    }

    /// The group that it belongs to; may be empty.
    #[getter]
    fn group(&self) -> &str {
        &self.info().group
    }

    /// What its fragments were received as, for example "hadtu".
    #[getter]
    fn protocol(&self) -> &str {
        &self.info().protocol
    }

    /// Whether an event without it is incomplete.
    #[getter]
    fn required(&self) -> bool {
        self.info().required
    }

    /// Whether it may be in an event or not: in one without it, it was not expected.
    #[getter]
    fn sparse(&self) -> bool {
        self.info().sparse
    }

    /// Whether its data are in these files: a target may get some of the sources. Reading one that
    /// is not stored raises UnknownSourceError.
    #[getter]
    fn stored(&self) -> bool {
        self.info().stored
    }

    /// Its fragment of the event with that key, shape (bytes,), uint8, read-only.
    ///
    /// A view where the fragment is at least a sixteenth of its column, otherwise a copy, so that
    /// an array holds no more than 16 times its bytes in memory. None if the event has
    /// no fragment of this source. Raises UnknownEventError.
    fn event<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyArray1<u8>>>> {
        let py = key.py();
        let Key::At(number) = Key::of(key)? else { return Err(unknown(key)) };
        let run = self.open.run()?;
        run.check_stored(self.id).map_err(python_error)?;
        let found = py.detach(|| match run.find(number)? {
            Some((frame, row)) => run.fragments(frame, self.id).map(|column| Some((column, row))),
            None => Ok(None),
        });
        let (column, row) = found.map_err(python_error)?.ok_or_else(|| unknown(key))?;
        fragment(py, column, row)
    }

    /// Bytes `start` to `stop` of its fragment, as far as it goes, and the holes in them: shapes
    /// (bytes,), uint8, and (n, 2), int64, begins and ends in the former. In holes are zeros. None
    /// without a fragment. Of uncompressed payload about these bytes are read.
    fn part<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        start: u64,
        stop: u64,
    ) -> PyResult<Option<Part<'py>>> {
        let py = key.py();
        let Key::At(number) = Key::of(key)? else { return Err(unknown(key)) };
        let run = self.open.run()?;
        run.check_stored(self.id).map_err(python_error)?;
        let found = py.detach(|| match run.find(number)? {
            Some((frame, row)) => {
                run.fragment_part(frame, self.id, row, start..stop.max(start)).map(Some)
            }
            None => Ok(None),
        });
        let Some(part) = found.map_err(python_error)?.ok_or_else(|| unknown(key))? else {
            return Ok(None);
        };
        let bytes = part.bytes.len() as u64;
        let within = |at: u64| at.saturating_sub(start).min(bytes) as i64;
        let holes = part.holes.iter().flat_map(|hole| [within(hole.start), within(hole.end)]);
        let holes = owned(py, holes.collect()).call_method1("reshape", ((-1, 2),))?;
        Ok(Some((owned(py, part.bytes), holes)))
    }

    /// The holes in its fragment of an event, shape (n, 2): begins and ends. Or None.
    fn holes<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = key.py();
        let Key::At(number) = Key::of(key)? else { return Err(unknown(key)) };
        let run = self.open.run()?;
        run.check_stored(self.id).map_err(python_error)?;
        let found = py.detach(|| {
            let Some((frame, row)) = run.find(number)? else { return Ok(None) };
            let is_there = run.validity(frame, self.id)?.is_set(row);
            let holes = if is_there { run.fragment_holes(frame, self.id)? } else { Vec::new() };
            Ok::<_, StorageError>(Some((is_there, holes, row as u64)))
        });
        let (is_there, holes, row) = found.map_err(python_error)?.ok_or_else(|| unknown(key))?;
        let holes = holes.iter().filter(|hole| hole.row == row);
        let ends = |hole: &Hole| [hole.offset as i64, (hole.offset + hole.bytes) as i64];
        let holes = owned(py, holes.flat_map(ends).collect());
        is_there.then(|| holes.call_method1("reshape", ((-1, 2),))).transpose()
    }

    /// Its fragments of an event, which follow each other in what `event` gives. Or None.
    fn pieces<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, PyAny>>>> {
        let py = key.py();
        let Some(whole) = self.event(key)? else { return Ok(None) };
        let Key::At(number) = Key::of(key)? else { return Err(unknown(key)) };
        let run = self.open.run()?;
        let found = py.detach(|| match run.find(number)? {
            Some((frame, row)) => {
                let column = run.fragments(frame, self.id)?;
                Ok::<_, StorageError>(Some(column.pieces(row..row + 1).to_vec()))
            }
            None => Ok(None),
        });
        let pieces = found.map_err(python_error)?.ok_or_else(|| unknown(key))?;
        if pieces.is_empty() {
            return Ok(Some(vec![whole.into_any()]));
        }
        let mut begin = 0;
        let parts = pieces.iter().map(|piece| {
            let range = begin..begin + piece.bytes as isize;
            begin = range.end;
            whole.as_any().get_item(PySlice::new(py, range.start, range.end, 1))
        });
        parts.collect::<PyResult<Vec<_>>>().map(Some)
    }

    /// What it says of its payload, as `Fragments.payload` does.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let payload = about(&*self.open.run()?, self.id).payload;
        payload.as_ref().map(|payload| payload_dict(py, payload)).transpose()
    }

    /// Its fragments of the events with keys from `start` on and before `stop`.
    ///
    /// `time=(start, stop)` takes the events whose first fragment arrived in that range:
    /// nanoseconds since 1970 as int, numpy.datetime64, datetime or ISO text, all UTC; None:
    /// without that bound. `frames=(start, stop)` takes those in these frames, as `Run.frames`
    /// numbers them. All ranges include their start and not their stop. What is given together
    /// holds together. Frames that hold none of these events are not read.
    ///
    /// Views without a copy where the events are of one frame and a sixteenth of it at least;
    /// otherwise they are joined by one copy. Without bounds: of all events of the run, which may
    /// be large; `Run.frames` gives them a frame at a time, never copied.
    #[pyo3(signature = (start = None, stop = None, *, time = None, frames = None))]
    fn fragments(
        &self,
        py: Python<'_>,
        start: Option<Bound<'_, PyAny>>,
        stop: Option<Bound<'_, PyAny>>,
        time: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
        frames: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Fragments> {
        self.open.run()?.check_stored(self.id).map_err(python_error)?;
        let time_ns = time.map(|(start, stop)| -> PyResult<_> {
            let module = py.import("catchment._times")?;
            let frames = self.open.run()?;
            let first_ns =
                frames.frames().iter().map(|frame| frame.summary.info.time_first_ns).min();
            let range = module.call_method1("event_range", (start, stop, first_ns))?;
            let (first, last) = range.extract::<(u64, u64)>()?;
            Ok(first..last)
        });
        let frames = frames.map(|frames| number_range("frames", &frames)).transpose()?;
        let start = start.as_ref().map(Key::of).transpose()?;
        // One above what 64 bits hold leaves nothing.
        let nothing = matches!(start, Some(Key::Above));
        let first = start.map_or(0, Key::bound);
        let keys = match stop.as_ref().map(Key::of).transpose()? {
            _ if nothing => NO_KEYS,
            None | Some(Key::Above) => first..=u64::MAX,
            Some(stop) => stop.bound().checked_sub(1).map_or(NO_KEYS, |last| first..=last),
        };
        let select = SelectEvents {
            keys,
            time_ns: time_ns.transpose()?,
            frames: frames.map_or(0..usize::MAX, |(start, stop)| start as usize..stop as usize),
        };
        Fragments::of_events(py, &*self.open.run()?, self.id, select)
    }

    fn __repr__(&self) -> String {
        let info = self.info();
        let role = match info {
            SourceInfo { stored: false, .. } => "not stored here",
            SourceInfo { required: true, .. } => "required",
            SourceInfo { sparse: true, .. } => "sparse",
            _ => "optional",
        };
        format!("<catchment.Source {} '{}' of '{}': {role}>", info.id, info.name, info.group)
    }
}

const NO_KEYS: std::ops::RangeInclusive<u64> = std::ops::RangeInclusive::new(1, 0);
