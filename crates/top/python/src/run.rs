//! A run.

use std::path::PathBuf;
use std::sync::Arc;

use catchment_model::printable;
use catchment_model::units::{counted, grouped};
use catchment_storage::{Run, RunOptions, TrendKind};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyOverflowError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyAny, PyDict, PyIterator, PyList, PyTuple};

use crate::channels::{ChannelReader, channel_object, trend_columns};
use crate::errors::{UnknownChannelError, UnknownSourceError, python_error, warn};
use crate::events::Events;
use crate::frames::{FollowedFrames, Frames};
use crate::keys::{PathsArgument, Wanted};
use crate::ledger::{RunLedger, of_run};
use crate::opened::OpenRun;
use crate::sources::{Source, Sources, find_source, unknown_name};

/// A recorded run, open for reading: a mapping from the names of sources and channels to them.
/// Sources are found by their numbers, too.
///
/// `catchment.open` makes it. Data are read when they are asked for. Arrays stay valid after the
/// run was closed, because they keep what they show.
#[pyclass(name = "Run", frozen, mapping, module = "catchment")]
pub(crate) struct PyRun {
    open: Arc<OpenRun>,
    events: PyOnceLock<Py<Events>>,
    ledger: PyOnceLock<Py<RunLedger>>,
    config: PyOnceLock<Py<PyDict>>,
}

impl PyRun {
    /// What everything that is made of this run reads from.
    pub(crate) fn open(&self) -> &Arc<OpenRun> {
        &self.open
    }

    fn run(&self) -> PyResult<Arc<Run>> {
        self.open.run()
    }
}

#[pymethods]
impl PyRun {
    /// The path that was opened; of several folders, the first.
    #[getter]
    fn path(&self) -> PathBuf {
        self.open.path().to_owned()
    }

    /// The paths that were opened: one, or several folders of the run.
    #[getter]
    fn paths(&self) -> Vec<PathBuf> {
        self.open.paths().to_vec()
    }

    /// The folder whose ledger is the run's, and which says whether the run has ended: of several
    /// folders, that with the most rows.
    #[getter]
    fn ledger_path(&self) -> PyResult<PathBuf> {
        Ok(self.run()?.ledger_path().to_owned())
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

    /// What is wrong with the run's files and does not keep the rest from being read: files that
    /// are missing, unreadable, or were never begun, locations in them where frames cannot be
    /// recognized, frames that are missing by their numbers, and columns whose checksums by block
    /// were found to be damaged when a part of them was read, by which no data are lost. Damage
    /// within frames is found by `catchment.verify`.
    #[getter]
    fn problems(&self) -> PyResult<Vec<String>> {
        let run = self.run()?;
        let files = run.problems().iter().map(ToString::to_string);
        // The frame that a recorder is writing is no hole.
        let holes = run.holes().filter(|_| !run.being_recorded());
        let problems = files.chain(holes).chain(missing_frames(&run)).chain(run.bad_tables());
        Ok(problems.map(|problem| printable(&problem).into_owned()).collect())
    }

    /// The sources, by name or number.
    #[getter]
    fn sources(&self) -> PyResult<Sources> {
        self.open.check_open()?;
        Ok(Sources::new(Arc::clone(&self.open)))
    }

    /// The names of the channels that are stored in these files, in the order of the run.
    #[getter]
    fn channels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let run = self.run()?;
        PyList::new(py, run.channels().iter().map(|channel| &channel.name))
    }

    /// Names of the run's channels that are not stored in these files: a target may get some.
    #[getter]
    fn channels_not_stored<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let run = self.run()?;
        PyList::new(py, run.channels_not_stored().iter().map(|channel| &channel.name))
    }

    /// The channel of that name, stored or not. Raises UnknownChannelError if there is none.
    fn channel<'py>(slf: &Bound<'py, Self>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let run = slf.get().run()?;
        let mut all = run.channels().iter().chain(run.channels_not_stored());
        let index = all.position(|channel| channel.name == name);
        let index = index.ok_or_else(|| unknown_channel(&run, name, None))?;
        channel_object(slf.py(), ChannelReader::new(slf.clone().unbind(), index))
    }

    /// The trend of a channel: mean, min, max, rms and n of every "second" or "minute". Of a
    /// counter of the recorder, too: "catchment:packets_received",
    /// "catchment:SOURCE:packets_received". While the run is recorded, as far as it has come.
    ///
    /// None if the run has no trends of channels (`catchment trend RUN` makes them), or of
    /// counters, and for a channel of a type that has none. Raises UnknownChannelError for what is
    /// the name of no channel or counter, patterns among it.
    #[pyo3(signature = (name, period = "second"))]
    fn trend<'py>(slf: &Bound<'py, Self>, name: &str, period: &str) -> PyResult<Bound<'py, PyAny>> {
        exports(slf.py())?.call_method1("trend", (slf, name, period))
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
        let run = self.run()?;
        let found = trend_columns(py, &run, name, kind)?;
        if found.is_none() && run.channel(name).is_none() {
            run.check_channel_stored(name).map_err(python_error)?;
            let counters = py.detach(|| run.counter_names(kind)).map_err(python_error)?;
            if !name.starts_with("catchment:") || !counters.is_empty() {
                return Err(unknown_channel(&run, name, Some(&counters)));
            }
        }
        Ok(found)
    }

    /// Channels as an xarray.Dataset: all, or those of some names or patterns; a range of time.
    #[pyo3(signature = (names = None, start = None, stop = None))]
    fn to_xarray<'py>(
        slf: &Bound<'py, Self>,
        names: Option<Bound<'py, PyAny>>,
        start: Option<Bound<'py, PyAny>>,
        stop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        exports(slf.py())?.call_method1("to_xarray", (slf, names, start, stop))
    }

    /// Channels of one rate, or the events of a run without channels, as a pyarrow.Table.
    #[pyo3(signature = (names = None, start = None, stop = None))]
    fn to_arrow<'py>(
        slf: &Bound<'py, Self>,
        names: Option<Bound<'py, PyAny>>,
        start: Option<Bound<'py, PyAny>>,
        stop: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        exports(slf.py())?.call_method1("to_arrow", (slf, names, start, stop))
    }

    /// Looks for what was written since the run was opened. `frames`, channels and events are then
    /// those of the longer run; what was read before stays.
    fn refresh(&self, py: Python<'_>) -> PyResult<()> {
        self.open.check_open()?;
        py.detach(|| self.open.bring_up_to_date()).map_err(python_error)
    }

    /// Waits until frames are written, for a run that is followed: True when there are more than
    /// before, False when `timeout` seconds have passed or the run has ended.
    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let following = self.open.following()?;
        let seen = frame_count(&*self.run()?);
        Ok(following.next(py, &self.open, seen, timeout)?.is_some())
    }

    #[getter]
    fn _follows(&self) -> bool {
        self.open.follows()
    }

    /// The events.
    #[getter]
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Events>> {
        self.open.check_open()?;
        let new = || Py::new(py, Events::new(Arc::clone(&self.open)));
        Ok(self.events.get_or_try_init(py, new)?.bind(py).clone())
    }

    /// What became of everything that the sources sent. The recorder's own total where the last
    /// file has one; otherwise it is counted from the frames. Of several folders, that of
    /// `ledger_path`, in which frames that it lacks and another has are counted as recorded.
    #[getter]
    fn ledger<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, RunLedger>> {
        let run = self.run()?;
        if self.open.follows() {
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

    /// The frames of events: what the run was written in, some megabytes each. The way to read
    /// much. Of a run that is followed: an iterator that waits for the next, until the run has
    /// ended.
    fn frames<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let open = slf.get().open();
        let count = open.run()?.frames().len();
        if open.follows() {
            return FollowedFrames::new(Arc::clone(open))?.into_bound_py_any(slf.py());
        }
        Frames::new(Arc::clone(open), 0..count).into_bound_py_any(slf.py())
    }

    /// Closes the files: everything that was made of this run, such as its sources, channels and
    /// frames, raises RunClosedError when it is to read on. Arrays that were read stay.
    fn close(&self) {
        self.open.close();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().run()?;
        Ok(slf)
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyAny>) {
        self.close();
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        name: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (run, wanted) = (slf.get().run()?, Wanted::of(name)?);
        let source = find_source(&run, &wanted);
        if let (Err(_), Wanted::Name(text)) = (&source, &wanted)
            && (!run.channels().is_empty() || !run.channels_not_stored().is_empty())
        {
            return Self::channel(slf, text);
        }
        Source::new(Arc::clone(slf.get().open()), source?).into_bound_py_any(slf.py())
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> PyResult<bool> {
        let run = self.run()?;
        Ok(Wanted::of(name).is_ok_and(|wanted| {
            let channel = |channel: &catchment_storage::ChannelInfo| match &wanted {
                Wanted::Name(text) => channel.name == *text,
                Wanted::Number(_) => false,
            };
            find_source(&run, &wanted).is_ok() || run.channels().iter().any(channel)
        }))
    }

    /// The names of sources and channels, in the order of the run.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let run = self.run()?;
        let sources = run.sources().iter().map(|source| &source.name);
        let channels = run.channels().iter().map(|channel| &channel.name);
        PyList::new(py, sources.chain(channels).collect::<Vec<_>>())
    }

    /// The sources and channels, in that order.
    fn values<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let names = slf.get().keys(slf.py())?;
        let values: PyResult<Vec<_>> =
            names.iter().map(|name| Self::__getitem__(slf, &name)).collect();
        PyList::new(slf.py(), values?)
    }

    /// Names with sources and channels, in that order.
    fn items<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyList>> {
        let (names, values) = (slf.get().keys(slf.py())?, Self::values(slf)?);
        let pairs = names.iter().zip(values.iter());
        let pairs: PyResult<Vec<_>> =
            pairs.map(|(name, value)| PyTuple::new(slf.py(), [name, value])).collect();
        PyList::new(slf.py(), pairs?)
    }

    /// The source or channel of that name, or the source of that number; `default` if there is
    /// none.
    #[pyo3(signature = (name, default = None))]
    fn get<'py>(
        slf: &Bound<'py, Self>,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        match Self::__getitem__(slf, name) {
            Err(error)
                if error.is_instance_of::<UnknownSourceError>(py)
                    || error.is_instance_of::<UnknownChannelError>(py) =>
            {
                Ok(default.unwrap_or_else(|| py.None().into_bound(py)))
            }
            found => found,
        }
    }

    fn __len__(&self) -> PyResult<usize> {
        let run = self.run()?;
        Ok(run.sources().len() + run.channels().len())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys(py)?.try_iter()
    }

    fn __repr__(&self) -> String {
        let mut path = self.open.path().display().to_string();
        if let Some(more) = self.open.paths().len().checked_sub(1).filter(|more| *more > 0) {
            path += &format!(" and {more} more");
        }
        let Ok(run) = self.run() else {
            return format!("<catchment.Run {path}: closed for reading>");
        };
        format!(
            "<catchment.Run {} at {path}: {}, {}, {} in {}, {}, {}>",
            run.header().run_number,
            counted(run.sources().len() as u64, "source"),
            counted(run.channels().len() as u64, "channel"),
            counted(run.event_count(), "event"),
            counted(frame_count(&run) as u64, "frame"),
            counted(run.files().len() as u64, "file"),
            status(&run)
        )
    }
}

/// What is said of frames that are missing by their numbers.
fn missing_frames(run: &Run) -> Option<String> {
    let missing = run.frames_missing();
    let (frames, are) = (counted(missing, "frame"), if missing == 1 { "is" } else { "are" });
    (missing > 0).then(|| format!("{frames} {are} missing, by the numbers of the others"))
}

/// Opens a file or a run's folder for reading, or a list of several folders of one run.
///
/// Several folders, those of a run's targets or copies of them, are read as one run: each frame is
/// there once, from the first folder of the list that has it, or has it whole if a power cut may
/// have taken a part of it. Any other damaged column raises FileError, which names the file:
/// another folder's is read if that folder stands first. `follow` takes one folder.
///
/// Works on files that are being recorded and on those of a recorder that was killed; `status` says
/// so. `cache_bytes` bounds the decoded columns that are cached.
///
/// What is read is checked. Of a column that is stored raw and has no checksums by block, as in
/// files of before version 1.3 of the format, a range is given when the whole column was checked,
/// which is done once; with `check_columns` false ranges of columns without these checksums are
/// given unchecked, in files of any version. All else is checked in any case. Where the checksums
/// by block are damaged themselves, the whole column is checked, with one DamageWarning.
///
/// Where events were built again (`catchment reframe --window`) without their payload, it is read
/// from the run that the files name, their base; `base` says where that run is, if it is elsewhere.
///
/// With `follow`, `frames` and iterating over a channel go on as the run is written, and end with
/// it; `wait` waits for more.
///
/// Warns (DamageWarning) of what is missing or damaged, as far as opening tells: `Run.problems` has
/// all of it.
///
/// Raises FileError if there is nothing that can be read, or files do not belong together; OSError
/// if the system refuses.
#[pyfunction]
#[pyo3(signature = (path, *, follow = false, cache_bytes = None, check_columns = true, base = None))]
pub(crate) fn open(
    py: Python<'_>,
    path: PathsArgument,
    follow: bool,
    cache_bytes: Option<Bound<'_, PyAny>>,
    check_columns: bool,
    base: Option<PathBuf>,
) -> PyResult<PyRun> {
    let mut options = RunOptions { check_columns, base, ..RunOptions::default() };
    if let Some(bytes) = &cache_bytes {
        options.cache_bytes_max = bytes_of(bytes)?;
    }
    let open = py.detach(|| OpenRun::open(path.0, follow, options)).map_err(python_error)?;
    warn_of_damage(py, &*open.run()?)?;
    let (events, ledger, config) = (PyOnceLock::new(), PyOnceLock::new(), PyOnceLock::new());
    Ok(PyRun { open: Arc::new(open), events, ledger, config })
}

/// Warns once of what is missing of a run that nobody is recording.
fn warn_of_damage(py: Python<'_>, run: &Run) -> PyResult<()> {
    let damage = if run.being_recorded() { Vec::new() } else { run.damage() };
    let mut lines = damage.into_iter().chain(missing_frames(run));
    let Some(first) = lines.next() else { return Ok(()) };
    let more = match lines.count() as u64 {
        0 => String::new(),
        more => format!(" (and {} more: see Run.problems)", grouped(more)),
    };
    warn(py, &format!("{first}{more}"))
}

/// The argument `cache_bytes`.
fn bytes_of(number: &Bound<'_, PyAny>) -> PyResult<usize> {
    number.extract().map_err(|error: PyErr| {
        if !error.is_instance_of::<PyOverflowError>(number.py()) {
            return error;
        }
        PyValueError::new_err(format!(
            "cache_bytes={number}: expected a number of bytes, 0 or more"
        ))
    })
}

/// Frames of events and of channels.
fn frame_count(run: &Run) -> usize {
    run.frames().len() + run.channel_frames().len()
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

/// The Python module that makes trends and tables of other packages from a run's columns.
fn exports(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("catchment._exports")
}

/// The message for an unknown channel, or an unknown channel or counter with a trend.
fn unknown_channel(run: &Run, name: &str, counters: Option<&[String]>) -> PyErr {
    let channels = run.channels().iter().map(|channel| channel.name.as_str());
    let Some(counters) = counters else {
        return UnknownChannelError::new_err(unknown_name("channel", name, channels));
    };
    let names = channels.chain(counters.iter().map(String::as_str));
    let mut message = unknown_name("channel or counter", name, names);
    if name.contains(['*', '?']) {
        message += " (a trend is one channel's: patterns are not taken)";
    }
    UnknownChannelError::new_err(message)
}

fn status(run: &Run) -> &'static str {
    match (run.ended(), run.closed()) {
        (true, true) => "ended",
        (_, false) => "open",
        (false, true) => "closed",
    }
}
