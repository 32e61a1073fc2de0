//! A run and its sources.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use catchment_model::SourceId;
use catchment_storage::{Run, SelectEvents, StorageError, TrendKind};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAny, PyDict, PyIterator, PyList};

use crate::channels::{ChannelReader, channel_object, trend_columns};
use crate::errors::{RunClosedError, UnknownChannelError, UnknownSourceError, python_error};
use crate::events::{Events, unknown};
use crate::follow::{Following, open_run};
use crate::fragments::Fragments;
use crate::frames::{FollowedFrames, Frames};
use crate::ledger::{RunLedger, of_run};
use crate::views::{Kept, Memory};

/// A recorded run, open for reading: a mapping from the names of sources and channels to them.
/// Sources are found by their numbers, too.
///
/// `catchment.open` makes it. Data are read when they are asked for. Arrays stay valid after the
/// run was closed, because they keep what they show.
#[pyclass(name = "Run", frozen, mapping, module = "catchment")]
pub(crate) struct PyRun {
    path: PathBuf,
    run: Mutex<Option<Arc<Run>>>,
    events: PyOnceLock<Py<Events>>,
    ledger: PyOnceLock<Py<RunLedger>>,
    config: PyOnceLock<Py<PyDict>>,
    cache_bytes: Option<usize>,
    /// Hands out what is written, where the run is followed.
    following: Option<Arc<Following>>,
    /// That one's version when `run` was brought up to date.
    version: AtomicUsize,
}

impl PyRun {
    /// The run, unless it was closed. Of one that is followed: as far as frames were handed out, at
    /// least.
    pub(crate) fn run(&self) -> PyResult<Arc<Run>> {
        if let Some(following) = &self.following
            && following.version() != self.version.load(Ordering::Acquire)
        {
            Python::attach(|py| py.detach(|| self.bring_up_to_date())).map_err(python_error)?;
        }
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        run.as_ref().map(Arc::clone).ok_or_else(|| self.closed())
    }

    /// An error if the run was closed.
    pub(crate) fn check_open(&self) -> PyResult<()> {
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        if run.is_some() { Ok(()) } else { Err(self.closed()) }
    }

    /// What hands out the frames of a run that is followed.
    pub(crate) fn following(&self) -> PyResult<&Arc<Following>> {
        let message = "the run is not followed: open it with follow=True";
        self.following.as_ref().ok_or_else(|| PyValueError::new_err(message))
    }

    fn closed(&self) -> PyErr {
        RunClosedError::new_err(format!("{} was closed", self.path.display()))
    }

    /// Takes up what was written. Opens the run anew only where somebody still reads what it was.
    fn bring_up_to_date(&self) -> Result<(), StorageError> {
        // Asked before: what is handed out meanwhile is looked for again.
        let version = self.following.as_ref().map_or(0, |following| following.version());
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(run) = run.as_mut() else { return Ok(()) };
        match Arc::get_mut(run) {
            Some(run) => {
                run.refresh()?;
            }
            None => *run = Arc::new(open_run(&self.path, self.cache_bytes)?),
        }
        self.version.store(version, Ordering::Release);
        Ok(())
    }
}

#[pymethods]
impl PyRun {
    /// The path that was opened.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Identity of the run, and its files.
    #[getter]
    fn header(&self) -> PyResult<Header> {
        Ok(Header::new(&*self.run()?))
    }

    /// How the run stands: "ended" by its recorder; "closed", every file has its table of contents
    /// but the run was not ended, as after a repair; "open", it is being recorded, or its recorder
    /// was killed.
    #[getter]
    fn status(&self) -> PyResult<&'static str> {
        Ok(status(&*self.run()?))
    }

    /// What is wrong with the run's files and does not keep the rest from being read: files that are
    /// missing, unreadable, or were never begun.
    #[getter]
    fn problems(&self) -> PyResult<Vec<String>> {
        Ok(self.run()?.problems().iter().map(ToString::to_string).collect())
    }

    /// The sources, by name or number.
    #[getter]
    fn sources(&self) -> PyResult<Sources> {
        Ok(Sources { run: self.run()? })
    }

    /// The names of the channels, in the order of the run.
    #[getter]
    fn channels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let run = self.run()?;
        PyList::new(py, run.channels().iter().map(|channel| &channel.name))
    }

    /// The channel of that name. Raises UnknownChannelError if there is none.
    fn channel<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let run = slf.get().run()?;
        let place = run.channels().iter().position(|channel| channel.name == name);
        let place = place.ok_or_else(|| {
            let count = run.channels().len();
            let message = format!("there is no channel '{name}': the run has {count}");
            UnknownChannelError::new_err(message)
        })?;
        channel_object(slf.py(), ChannelReader::new(slf.clone().unbind(), place))
    }

    /// The trend of a channel: mean, min, max, rms and n of every "second" or "minute". Of a counter of
    /// the recorder, too: "catchment:packets_received", "catchment:SOURCE:packets_received". None if the
    /// run has no trends, or not of this channel. While the run is recorded, as far as it has come.
    #[pyo3(signature = (name, period = "second"))]
    fn trend<'py>(slf: &Bound<'py, Self>, name: &str, period: &str) -> PyResult<Bound<'py, PyAny>> {
        let exports = slf.py().import("catchment._exports")?;
        exports.call_method1("trend", (slf, name, period))
    }

    fn _trend_columns<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        period: &str,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let kind = match period {
            "second" => TrendKind::Second,
            "minute" => TrendKind::Minute,
            other => {
                let message = format!("expected \"second\" or \"minute\", got \"{other}\"");
                return Err(PyValueError::new_err(message));
            }
        };
        trend_columns(py, &*self.run()?, name, kind)
    }

    /// Channels as an xarray.Dataset: all, or those of some names or patterns; a range of time.
    #[pyo3(signature = (names = None, start = None, stop = None))]
    fn to_xarray<'py>(
        slf: &Bound<'py, Self>,
        names: Option<Bound<'py, PyAny>>,
        start: Option<Bound<'py, PyAny>>,
        stop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let exports = slf.py().import("catchment._exports")?;
        exports.call_method1("to_xarray", (slf, names, start, stop))
    }

    /// Channels of one rate, or the events of a run without channels, as a pyarrow.Table.
    #[pyo3(signature = (names = None, start = None, stop = None))]
    fn to_arrow<'py>(
        slf: &Bound<'py, Self>,
        names: Option<Bound<'py, PyAny>>,
        start: Option<Bound<'py, PyAny>>,
        stop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let exports = slf.py().import("catchment._exports")?;
        exports.call_method1("to_arrow", (slf, names, start, stop))
    }

    /// Looks for what was written since the run was opened. `frames`, channels and events are then
    /// those of the longer run; what was read before stays.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.check_open()?;
        py.detach(|| self.bring_up_to_date()).map_err(python_error)
    }

    /// Waits until frames are written, for a run that is followed: True when there are more than
    /// before, False when `timeout` seconds have passed or the run has ended.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let following = self.following()?;
        let seen = frame_count(&*self.run()?);
        Ok(following.next(py, self, seen, timeout)?.is_some())
    }

    #[getter]
    fn _follows(&self) -> bool {
        self.following.is_some()
    }

    /// The events.
    #[getter]
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Events>> {
        let run = self.run()?;
        if self.following.is_some() {
            // The run grows: what was true of it is not kept.
            return Bound::new(py, Events::new(run));
        }
        let events = self.events.get_or_try_init(py, || Py::new(py, Events::new(run)))?;
        Ok(events.bind(py).clone())
    }

    /// What became of everything that the sources sent. The recorder's own total where the last file
    /// has one; otherwise it is counted from the frames.
    #[getter]
    fn ledger<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, RunLedger>> {
        let run = self.run()?;
        if self.following.is_some() {
            return Bound::new(py, of_run(py, &run)?);
        }
        let ledger = self.ledger.get_or_try_init(py, || Py::new(py, of_run(py, &run)?))?;
        Ok(ledger.bind(py).clone())
    }

    /// The configuration that the run was recorded with, as a dict.
    #[getter]
    fn config<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let run = self.run()?;
        let config = self.config.get_or_try_init(py, || {
            let config = py.import("tomllib")?.call_method1("loads", (run.config(),))?;
            Ok::<_, PyErr>(config.cast_into::<PyDict>()?.unbind())
        })?;
        Ok(config.bind(py).clone())
    }

    /// The configuration as it was written: TOML.
    #[getter]
    fn config_text(&self) -> PyResult<String> {
        Ok(self.run()?.config().to_owned())
    }

    /// The frames of events: what the run was written in, some megabytes each. The way to read much.
    /// Of a run that is followed: an iterator that waits for the next, until the run has ended.
    fn frames<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let run = slf.get().run()?;
        if let Some(following) = &slf.get().following {
            let frames = FollowedFrames::new(slf.clone().unbind(), Arc::clone(following));
            return Ok(Bound::new(slf.py(), frames)?.into_any());
        }
        Ok(Bound::new(slf.py(), Frames::new(run))?.into_any())
    }

    /// Closes the files. What was read stays.
    fn close(&self) {
        self.run.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().run()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyAny>) {
        self.close();
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, name: SourceKey) -> PyResult<Bound<'py, PyAny>> {
        let run = slf.get().run()?;
        let source = find_source(&run, &name);
        if let (Err(_), SourceKey::Name(text)) = (&source, &name)
            && !run.channels().is_empty()
        {
            return Self::channel(slf, text);
        }
        Ok(Bound::new(slf.py(), Source { run, id: source? })?.into_any())
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let run = self.run()?;
        Ok(name.extract().is_ok_and(|name: SourceKey| {
            let channel = |channel: &catchment_storage::ChannelInfo| match &name {
                SourceKey::Name(text) => channel.name == *text,
                SourceKey::Number(_) => false,
            };
            find_source(&run, &name).is_ok() || run.channels().iter().any(channel)
        }))
    }

    fn __len__(&self) -> PyResult<usize> {
        let run = self.run()?;
        Ok(run.sources().len() + run.channels().len())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        let run = self.run()?;
        let sources = run.sources().iter().map(|source| &source.name);
        let channels = run.channels().iter().map(|channel| &channel.name);
        PyList::new(py, sources.chain(channels).collect::<Vec<_>>())?.try_iter()
    }

    fn __repr__(&self) -> String {
        let Ok(run) = self.run() else {
            return format!("<catchment.Run {}: closed for reading>", self.path.display());
        };
        let files = run.files().len();
        format!(
            "<catchment.Run {} at {}: {} sources, {} channels, {} events in {} frames, {files} {}, {}>",
            run.header().run_number,
            self.path.display(),
            run.sources().len(),
            run.channels().len(),
            run.event_count(),
            frame_count(&run),
            if files == 1 { "file" } else { "files" },
            status(&run)
        )
    }
}

/// Opens a file or a run's folder for reading.
///
/// Works on files that are being recorded and on those of a recorder that was killed; `status` says
/// so. `cache_bytes` bounds the decoded columns that are kept in case they are wanted again.
///
/// With `follow`, `frames` and iterating over a channel go on as the run is written, and end with it;
/// `wait` waits for more.
///
/// Raises FileError if there is nothing that can be read, or files do not belong together; OSError
/// if the system refuses.
#[pyfunction]
#[pyo3(signature = (path, *, follow = false, cache_bytes = None))]
pub(crate) fn open(
    py: Python<'_>,
    path: PathBuf,
    follow: bool,
    cache_bytes: Option<usize>,
) -> PyResult<PyRun> {
    let opened = py.detach(|| {
        // Before the run is opened: that one then has all that was handed out.
        let following = if follow {
            Some(Arc::new(Following::new(open_run(&path, cache_bytes)?)?))
        } else {
            None
        };
        open_run(&path, cache_bytes).map(|run| (following, run))
    });
    let (following, run) = opened.map_err(python_error)?;
    let version = AtomicUsize::new(following.as_ref().map_or(0, |following| following.version()));
    let run = Mutex::new(Some(Arc::new(run)));
    let (events, ledger, config) = (PyOnceLock::new(), PyOnceLock::new(), PyOnceLock::new());
    Ok(PyRun { path, run, events, ledger, config, cache_bytes, following, version })
}

/// Frames of events and of channels.
fn frame_count(run: &Run) -> usize {
    run.frames().len() + run.channel_frames().len()
}

/// A source by its name or its number.
#[derive(FromPyObject)]
pub(crate) enum SourceKey {
    Name(String),
    Number(i64),
}

/// The number of a source, if the run has it.
pub(crate) fn find_source(run: &Run, source: &SourceKey) -> PyResult<SourceId> {
    let count = run.sources().len();
    let found = match source {
        SourceKey::Name(name) => run.source(name),
        SourceKey::Number(number) => {
            let number = u32::try_from(*number).ok();
            number.filter(|number| (*number as usize) < count).map(SourceId)
        }
    };
    found.ok_or_else(|| {
        let source = match source {
            SourceKey::Name(name) => format!("'{name}'"),
            SourceKey::Number(number) => number.to_string(),
        };
        UnknownSourceError::new_err(format!("there is no source {source}: the run has {count}"))
    })
}

/// The sources of a run: a mapping from names (or numbers) to sources.
#[pyclass(frozen, mapping, module = "catchment")]
pub(crate) struct Sources {
    run: Arc<Run>,
}

impl Sources {
    fn source(&self, index: usize) -> Source {
        Source { run: Arc::clone(&self.run), id: SourceId(index as u32) }
    }
}

#[pymethods]
impl Sources {
    fn __getitem__(&self, source: SourceKey) -> PyResult<Source> {
        let id = find_source(&self.run, &source)?;
        Ok(Source { run: Arc::clone(&self.run), id })
    }

    fn __contains__(&self, source: &Bound<'_, PyAny>) -> bool {
        source.extract().is_ok_and(|source: SourceKey| find_source(&self.run, &source).is_ok())
    }

    fn __len__(&self) -> usize {
        self.run.sources().len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        names(py, &self.run)?.try_iter()
    }

    /// The names, in the order of the numbers.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        names(py, &self.run)
    }

    /// The sources, in the order of their numbers.
    fn values(&self) -> Vec<Source> {
        (0..self.run.sources().len()).map(|index| self.source(index)).collect()
    }

    /// Names and sources.
    fn items(&self) -> Vec<(String, Source)> {
        let sources = self.run.sources().iter().enumerate();
        sources.map(|(index, info)| (info.name.clone(), self.source(index))).collect()
    }

    fn __repr__(&self) -> String {
        let sources = self.run.sources();
        let shown: Vec<_> = sources.iter().take(6).map(|source| source.name.as_str()).collect();
        let more = if sources.len() > shown.len() { ", ..." } else { "" };
        format!("<catchment.Sources: {} ({}{more})>", sources.len(), shown.join(", "))
    }
}

/// One source of a run. Reads its data when asked.
#[pyclass(frozen, module = "catchment")]
pub(crate) struct Source {
    run: Arc<Run>,
    id: SourceId,
}

impl Source {
    fn info(&self) -> &catchment_frame::SourceInfo {
        &self.run.sources()[self.id.index()]
    }
}

#[pymethods]
impl Source {
    /// Its name, unique in the run.
    #[getter]
    fn name(&self) -> &str {
        &self.info().name
    }

    /// Its number: its place in the run, from 0.
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

    /// Its fragment of the event with that key, shape (bytes,), uint8, read-only, without a copy.
    ///
    /// None if the event has no fragment of this source. Raises UnknownEventError if the run has no
    /// such event.
    fn event<'py>(&self, py: Python<'py>, key: u64) -> PyResult<Option<Bound<'py, PyArray1<u8>>>> {
        let found = py.detach(|| match self.run.find(key)? {
            Some((frame, row)) => {
                self.run.fragments(frame, self.id).map(|column| Some((column, row)))
            }
            None => Ok(None),
        });
        let (column, row) = found.map_err(python_error)?.ok_or_else(|| unknown(key))?;
        if !column.validity().is_set(row) {
            return Ok(None);
        }
        let range = column.range(row);
        let memory = Memory::new(py, Kept::Column(column))?;
        Ok(Some(Memory::data(memory.bind(py), range)))
    }

    /// Its fragments of the events with keys from `first` to `last`, both included.
    ///
    /// `time=(start, stop)` takes the events whose first fragment arrived in that range, start included
    /// and stop not: nanoseconds since 1970 as int, numpy.datetime64, datetime or ISO text, all UTC;
    /// None: without that bound. `frames=(start, stop)` takes those in these frames, as `Run.frames`
    /// numbers them, stop not included. What is given together holds together. Frames that hold none
    /// of these events are not read.
    ///
    /// Views without a copy where the events are of one frame; otherwise they are joined by one
    /// copy. Without bounds: of all events of the run, which may be large; `Run.frames` gives them a
    /// frame at a time.
    #[pyo3(signature = (first = None, last = None, *, time = None, frames = None))]
    fn fragments(
        &self,
        py: Python<'_>,
        first: Option<u64>,
        last: Option<u64>,
        time: Option<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
        frames: Option<(usize, usize)>,
    ) -> PyResult<Fragments> {
        let time_ns = time.map(|(start, stop)| -> PyResult<_> {
            let module = py.import("catchment._channels")?;
            let range = module.call_method1("time_range", (start, stop, "utc"))?;
            let (first, last) = range.extract::<(u64, u64)>()?;
            Ok(first..last)
        });
        let select = SelectEvents {
            keys: first.unwrap_or(0)..=last.unwrap_or(u64::MAX),
            time_ns: time_ns.transpose()?,
            frames: frames.map_or(0..usize::MAX, |(start, stop)| start..stop),
        };
        Fragments::of_events(py, &self.run, self.id, select)
    }

    fn __repr__(&self) -> String {
        let info = self.info();
        let role = if info.required { "required" } else { "optional" };
        format!("<catchment.Source {} '{}' of '{}': {role}>", info.id, info.name, info.group)
    }
}

/// Identity of a run, and its files.
#[pyclass(frozen, module = "catchment")]
pub(crate) struct Header {
    /// The run's identity: 32 hexadecimal digits.
    #[pyo3(get)]
    run_id: String,
    /// What people call the run.
    #[pyo3(get)]
    run_number: u64,
    /// When its first file was begun: nanoseconds since 1970, UTC.
    #[pyo3(get)]
    created_ns: u64,
    /// Program and version that recorded it.
    #[pyo3(get)]
    writer: String,
    /// Its files, in order.
    #[pyo3(get)]
    files: Vec<PathBuf>,
    /// Bytes of these files together.
    #[pyo3(get)]
    file_bytes: u64,
}

impl Header {
    fn new(run: &Run) -> Self {
        let header = run.header();
        Self {
            run_id: header.run.to_string(),
            run_number: header.run_number,
            created_ns: header.created_ns,
            writer: header.writer.clone(),
            files: run.files().map(|file| file.path.to_owned()).collect(),
            file_bytes: run.files().fold(0, |sum: u64, file| sum.saturating_add(file.bytes)),
        }
    }
}

#[pymethods]
impl Header {
    fn __repr__(&self) -> String {
        format!(
            "<catchment.Header of run {} ({}) by {}>",
            self.run_number, self.run_id, self.writer
        )
    }
}

fn names<'py>(py: Python<'py>, run: &Run) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, run.sources().iter().map(|source| &source.name))
}

fn status(run: &Run) -> &'static str {
    match (run.ended(), run.closed()) {
        (true, true) => "ended",
        (_, false) => "open",
        (false, true) => "closed",
    }
}
