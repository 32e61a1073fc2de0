//! Channels: the native part, which `catchment._channels` wraps for users.

use std::path::PathBuf;
use std::sync::Arc;

use catchment_frame::{ChannelInfo, Dtype};
use catchment_model::SampleRate;
use catchment_storage::{Channel, Run, Segment, Select, StorageError, TrendKind};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::python_error;
use crate::follow::{Following, Kind};
use crate::run::PyRun;
use crate::views::{Samples, owned, signed_time};

/// A channel of a run: what is stored of it.
#[pyclass(frozen, module = "catchment._native")]
pub(crate) struct ChannelReader {
    run: Py<PyRun>,
    index: usize,
}

impl ChannelReader {
    pub(crate) fn new(run: Py<PyRun>, index: usize) -> Self {
        Self { run, index }
    }

    /// The run as it is now: it may have grown.
    fn run(&self) -> PyResult<Arc<Run>> {
        self.run.get().open().run()
    }

    fn channel<'a>(&self, run: &'a Run) -> Result<Channel<'a>, StorageError> {
        channel(run, self.index)
    }

    fn channel_info<'a>(&self, run: &'a Run) -> &'a ChannelInfo {
        run.channel_info(self.index).expect(KEEPS)
    }
}

fn channel(run: &Run, index: usize) -> Result<Channel<'_>, StorageError> {
    Ok(run.stored_channel(index)?.expect(KEEPS))
}

const KEEPS: &str = "a run that grows keeps its channels";

/// First sample, start in ns, samples: of a piece without a gap.
type Read<'py> = (u64, u64, Bound<'py, PyAny>);

/// What people get of it.
pub(crate) fn channel_object(py: Python<'_>, reader: ChannelReader) -> PyResult<Bound<'_, PyAny>> {
    py.import("catchment._channels")?.getattr("Channel")?.call1((reader,))
}

/// A trend's columns, and what they are of.
pub(crate) fn trend_columns<'py>(
    py: Python<'py>,
    run: &Run,
    name: &str,
    kind: TrendKind,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    let trend = py.detach(|| run.trend(name, kind, &Select::All)).map_err(python_error)?;
    let Some(trend) = trend else { return Ok(None) };
    let info = run.channel(name).map(|channel| channel.info().clone());
    let dict = PyDict::new(py);
    dict.set_item("unit", info.as_ref().map_or("", |info| info.unit.as_str()))?;
    let scale = info.map_or_else(|| "utc".to_owned(), |info| info.time_scale.to_string());
    dict.set_item("time_scale", scale)?;
    let times = trend.start_ns.iter().copied().map(signed_time);
    dict.set_item("times", owned(py, times.collect()))?;
    dict.set_item("mean", owned(py, trend.mean))?;
    dict.set_item("min", owned(py, trend.min))?;
    dict.set_item("max", owned(py, trend.max))?;
    dict.set_item("rms", owned(py, trend.rms))?;
    dict.set_item("n", owned(py, trend.n))?;
    Ok(Some(dict))
}

#[pymethods]
impl ChannelReader {
    /// The path that the run was opened at.
    #[getter]
    fn path(&self) -> PyResult<PathBuf> {
        Ok(self.run()?.path().to_owned())
    }

    /// The run.
    #[getter]
    fn run_object(&self, py: Python<'_>) -> Py<PyRun> {
        self.run.clone_ref(py)
    }

    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let run = self.run()?;
        let info = self.channel_info(&run);
        let dict = PyDict::new(py);
        dict.set_item("name", &info.name)?;
        dict.set_item("dtype", numpy_name(info.dtype))?;
        dict.set_item("shape", &info.shape)?;
        dict.set_item("unit", &info.unit)?;
        dict.set_item("rate", (info.rate.num(), info.rate.den()))?;
        dict.set_item("time_scale", info.time_scale.to_string())?;
        dict.set_item("scale", info.scale)?;
        dict.set_item("offset", info.offset)?;
        dict.set_item("stored", run.check_channel_stored(&info.name).is_ok())?;
        Ok(dict)
    }

    /// (frame, first sample, samples) of every piece without a gap in one frame.
    fn pieces(&self, py: Python<'_>) -> PyResult<Vec<(usize, u64, u64)>> {
        let run = self.run()?;
        let pieces = py.detach(|| self.channel(&run)?.pieces()).map_err(python_error)?;
        Ok(pieces.iter().map(|piece| (piece.frame, piece.first_sample, piece.samples)).collect())
    }

    /// (first sample, start in ns, samples) of every piece without a gap in a range; samples by
    /// their numbers in one frame, where one is given. An array has its memory for itself.
    #[pyo3(signature = (kind, first, last, frame = None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        first: u64,
        last: u64,
        frame: Option<usize>,
    ) -> PyResult<Vec<Read<'py>>> {
        let select = match (select(kind, first, last)?, frame) {
            (Select::Samples(samples), Some(frame)) => Select::FrameSamples(frame, samples),
            (select, _) => select,
        };
        let run = self.run()?;
        let segments = py.detach(|| self.channel(&run)?.read(&select)).map_err(python_error)?;
        self.run.get().open().warn_of_tables(py, &run.bad_tables())?;
        arrays(py, self.channel_info(&run), segments)
    }

    /// What `read` gives, of each frame of a run that is followed; waits for the next, until the
    /// run has ended.
    fn follow(&self, py: Python<'_>) -> PyResult<FollowedChannel> {
        self.channel(&*self.run()?).map_err(python_error)?;
        let following = Arc::clone(self.run.get().open().following()?);
        let run = self.run.clone_ref(py);
        Ok(FollowedChannel { run, following, index: self.index, next: 0 })
    }

    /// (first sample, samples) of every piece without a gap in a range. Reads the index only.
    fn runs(&self, py: Python<'_>, kind: &str, first: u64, last: u64) -> PyResult<Vec<(u64, u64)>> {
        let select = select(kind, first, last)?;
        let run = self.run()?;
        let pieces = py.detach(|| self.channel(&run)?.pieces_in(&select)).map_err(python_error)?;
        Ok(pieces.iter().map(|piece| (piece.first_sample, piece.samples)).collect())
    }
}

/// Iterates over a channel's samples in the frames of a run that is followed.
#[pyclass(module = "catchment._native")]
pub(crate) struct FollowedChannel {
    run: Py<PyRun>,
    following: Arc<Following>,
    index: usize,
    next: usize,
}

#[pymethods]
impl FollowedChannel {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Vec<Read<'py>>>> {
        while let Some(given) = self.following.next(py, self.run.get().open(), self.next, None)? {
            // Even if the frame cannot be read, the next call continues behind it.
            self.next += 1;
            if given.kind == Kind::Channels {
                let index = self.index;
                let read = |run: &Run, frame: usize| {
                    let channel = channel(run, index).map_err(python_error)?;
                    let segments = channel.read(&Select::Frames(frame..frame + 1));
                    let segments = segments.map_err(python_error)?;
                    Ok((channel.info().clone(), segments, run.bad_tables()))
                };
                let (info, segments, tables) = py.detach(|| self.following.with(given, read))?;
                self.run.get().open().warn_of_tables(py, &tables)?;
                return arrays(py, &info, segments).map(Some);
            }
        }
        Ok(None)
    }
}

/// Times of consecutive samples, in nanoseconds since the epoch.
#[pyfunction]
pub(crate) fn sample_times(
    py: Python<'_>,
    num: u64,
    den: u64,
    first: u64,
    count: usize,
) -> PyResult<Bound<'_, PyArray1<i64>>> {
    let rate =
        SampleRate::new(num, den).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let times = py.detach(|| {
        let times = rate.times_ns(first).map(signed_time);
        let mut all = Vec::with_capacity(count);
        all.extend(times.take(count));
        all
    });
    Ok(owned(py, times))
}

/// Segments as arrays that have their memory for themselves.
fn arrays<'py>(
    py: Python<'py>,
    info: &ChannelInfo,
    segments: Vec<Segment>,
) -> PyResult<Vec<Read<'py>>> {
    let array = |segment: Segment| {
        let bytes = Samples::array(py, segment.bytes)?;
        let values = bytes.call_method1("view", (numpy_name(info.dtype),))?;
        let values = if info.shape.is_empty() {
            values
        } else {
            let shape: Vec<u64> =
                std::iter::once(segment.samples).chain(info.shape.iter().copied()).collect();
            values.call_method1("reshape", (shape,))?
        };
        Ok((segment.first_sample, segment.start_ns, values))
    };
    segments.into_iter().map(array).collect()
}

fn select(kind: &str, first: u64, last: u64) -> PyResult<Select> {
    let last = last.max(first);
    Ok(match kind {
        "all" => Select::All,
        "time" => Select::TimeNs(first..last),
        "samples" => Select::Samples(first..last),
        "frames" => Select::Frames(first as usize..last as usize),
        other => return Err(PyValueError::new_err(format!("no range in {other}"))),
    })
}

/// numpy's name of an element type; bytes for what numpy does not know.
pub(crate) fn numpy_name(dtype: Dtype) -> &'static str {
    dtype.numpy().unwrap_or("|u1")
}
