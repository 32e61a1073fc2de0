//! Sending fragments to a recorder: what catchment/frontend.py stands on. The interpreter's lock is
//! released while bytes are copied and while a full ring is waited for.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Duration;

use catchment_frontend::{
    AbandonReason, Callbacks, CommandKind, Fragment, Frontend, KeyKind, Presence, Push, Reading,
    Release, ReportError, Reports, Setting, SourceConfig, SourceHandle, testing,
};
use numpy::PyReadonlyArray1;
use parking_lot::Mutex;
use pyo3::IntoPyObjectExt as _;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::frontend_error;

/// A front-end's connection to a recorder.
#[pyclass(frozen, module = "catchment._native")]
pub(crate) struct FrontendLink {
    frontend: Mutex<Option<Frontend>>,
    sources: Vec<SourceHandle>,
    reports: Reports,
    /// The thread of its callbacks, once that has called one.
    calls: Arc<OnceLock<ThreadId>>,
}

/// A value of a setting.
#[derive(FromPyObject)]
enum Value {
    // `True` is a number in Python, and a whole number is taken for a float.
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl From<Value> for Reading {
    fn from(value: Value) -> Self {
        match value {
            Value::Bool(value) => Self::Bool(value),
            Value::Int(value) => Self::I64(value),
            Value::Float(value) => Self::F64(value),
            Value::Text(value) => Self::Text(value),
        }
    }
}

/// A bound of the type of a value.
fn bound(value: &Reading, bound: f64) -> PyResult<Reading> {
    match value {
        Reading::F64(_) => Ok(Reading::F64(bound)),
        Reading::I64(_) if bound.fract() == 0.0 => Ok(Reading::I64(bound as i64)),
        Reading::I64(_) => Err(wrong("bounds", &bound.to_string(), "whole as the value is")),
        _ => Err(wrong("bounds", &bound.to_string(), "for numbers")),
    }
}

fn reported(result: Result<(), ReportError>) -> PyResult<()> {
    result.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// What a source is made of, by the names of `frontend.Source`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct SourceArgument {
    name: String,
    fragment_bytes_max: u64,
    key: String,
    key_bits: u8,
    presence: String,
    groups: u64,
    reference: bool,
    marks: bool,
    dtype: u8,
}

impl SourceArgument {
    fn config(self) -> PyResult<SourceConfig> {
        let key_kind = match self.key.as_str() {
            "number" => KeyKind::Number,
            "time" => KeyKind::Time,
            key => return Err(wrong("key", key, "number or time")),
        };
        let presence = match self.presence.as_str() {
            "configured" => Presence::Configured,
            "required" => Presence::Required,
            "optional" => Presence::Optional,
            "sparse" => Presence::Sparse,
            presence => {
                return Err(wrong("presence", presence, "configured, required, optional, sparse"));
            }
        };
        Ok(SourceConfig {
            name: self.name,
            fragment_bytes_max: self.fragment_bytes_max,
            key_kind,
            key_bits: self.key_bits,
            presence,
            groups: self.groups,
            is_reference: self.reference,
            marks: self.marks,
            dtype: self.dtype,
            buffer_bytes: None,
        })
    }
}

fn wrong(field: &str, got: &str, expected: &str) -> PyErr {
    PyValueError::new_err(format!("{field} is {expected}; got {got:?}"))
}

#[pymethods]
impl FrontendLink {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "frontend.py passes all, by name")]
    #[pyo3(signature = (
        url, name, *, channels, sources, buffer, release, token, token_in_clear, certificate, index,
        wait, callback, skew=0, buffer_ms=0, stops_in_pause=false
    ))]
    fn new(
        py: Python<'_>,
        url: &str,
        name: &str,
        channels: bool,
        sources: Vec<SourceArgument>,
        buffer: u64,
        release: &str,
        token: &str,
        token_in_clear: bool,
        certificate: Option<PathBuf>,
        index: Option<u32>,
        wait: f64,
        callback: Option<Py<PyAny>>,
        skew: u64,
        buffer_ms: u32,
        stops_in_pause: bool,
    ) -> PyResult<Self> {
        let release = match release {
            "durable" => Release::Durable,
            "taken" => Release::Taken,
            release => return Err(wrong("release", release, "durable or taken")),
        };
        let builder = if channels { Frontend::channels } else { Frontend::builder };
        let mut builder = builder(url, name).buffer(buffer).release(release).token(token);
        builder = builder.wait(seconds(wait)?).skew(skew).buffer_ms(buffer_ms);
        if stops_in_pause {
            builder = builder.stops_in_pause();
        }
        for source in sources {
            builder = builder.source_of(source.config()?);
        }
        if token_in_clear {
            builder = builder.send_token_in_clear();
        }
        if let Some(certificate) = certificate {
            builder = builder.certificate(certificate);
        }
        if let Some(index) = index {
            builder = builder.index(index);
        }
        let calls = Arc::new(OnceLock::new());
        if let Some(callback) = callback {
            builder = builder.callbacks(callbacks(callback, Arc::clone(&calls)));
        }
        let frontend = py.detach(|| builder.connect()).map_err(frontend_error)?;
        let (sources, reports) = (frontend.sources().to_vec(), frontend.reports().clone());
        Ok(Self { frontend: Mutex::new(Some(frontend)), sources, reports, calls })
    }

    /// Appends a fragment, and waits while there is no room for it.
    #[expect(clippy::too_many_arguments, reason = "frontend.py passes all")]
    fn send(
        &self,
        py: Python<'_>,
        source: usize,
        key: u64,
        payload: PyReadonlyArray1<'_, u8>,
        tag: u8,
        flags: u8,
        groups: u64,
    ) -> PyResult<()> {
        let handle = self.source(source)?;
        let bytes = payload.as_slice()?;
        let fragment = Fragment { key, bytes, tag, flags, groups };
        loop {
            let sent = py.detach(|| handle.send_within(fragment, SIGNALS_EACH));
            if sent.map_err(frontend_error)? {
                return Ok(());
            }
            py.check_signals()?;
        }
    }

    /// Appends a fragment if there is room: 0 accepted, 1 full, 2 ended.
    #[expect(clippy::too_many_arguments, reason = "frontend.py passes all")]
    fn try_send(
        &self,
        py: Python<'_>,
        source: usize,
        key: u64,
        payload: PyReadonlyArray1<'_, u8>,
        tag: u8,
        flags: u8,
        groups: u64,
    ) -> PyResult<u8> {
        let handle = self.source(source)?;
        let bytes = payload.as_slice()?;
        let fragment = Fragment { key, bytes, tag, flags, groups };
        let pushed = py.detach(|| handle.try_send_fragment(fragment));
        Ok(number_of(pushed.map_err(|error| frontend_error(error.into()))?))
    }

    /// Appends a packet to a channel link, and waits while there is no room for it.
    fn send_packet(
        &self,
        py: Python<'_>,
        link: usize,
        packet: PyReadonlyArray1<'_, u8>,
    ) -> PyResult<()> {
        let handle = self.source(link)?;
        let packet = packet.as_slice()?;
        loop {
            let sent = py.detach(|| handle.send_packet_within(packet, SIGNALS_EACH));
            if sent.map_err(frontend_error)? {
                return Ok(());
            }
            py.check_signals()?;
        }
    }

    /// Appends a packet if there is room: 0 accepted, 1 full, 2 ended.
    fn try_send_packet(
        &self,
        py: Python<'_>,
        link: usize,
        packet: PyReadonlyArray1<'_, u8>,
    ) -> PyResult<u8> {
        let handle = self.source(link)?;
        let packet = packet.as_slice()?;
        let pushed = py.detach(|| handle.try_send_packet(packet));
        Ok(number_of(pushed.map_err(|error| frontend_error(error.into()))?))
    }

    /// Says that fragments were made and dropped.
    fn abandon(
        &self,
        py: Python<'_>,
        source: usize,
        count: u64,
        reason: &str,
        keys: Option<(u64, u64)>,
    ) -> PyResult<()> {
        let reason = match reason {
            "buffer" => AbandonReason::BUFFER,
            "hardware" => AbandonReason::HARDWARE,
            "busy" => AbandonReason::BUSY,
            reason => return Err(wrong("reason", reason, "buffer, hardware or busy")),
        };
        let handle = self.source(source)?;
        py.detach(|| handle.abandon(count, reason, keys)).map_err(frontend_error)
    }

    /// Says that a setting has changed before the next fragment.
    fn setting(&self, py: Python<'_>, source: usize, name: &str, value: &str) -> PyResult<()> {
        if name.len() + value.len() > 1_023 || name.contains('\0') || value.contains('\0') {
            let what = "a setting's name and value have at most 1,023 bytes, and no zero";
            return Err(PyValueError::new_err(what));
        }
        let handle = self.source(source)?;
        py.detach(|| handle.setting(name, value)).map_err(frontend_error)
    }

    /// Says that numbers begin again.
    fn renumber(&self, py: Python<'_>, source: usize, key: u64) -> PyResult<()> {
        let handle = self.source(source)?;
        py.detach(|| handle.renumber(key)).map_err(frontend_error)
    }

    /// Promises that no lower key will follow.
    fn low_water(&self, source: usize, key: Option<u64>, idle: bool) -> PyResult<()> {
        self.source(source)?.low_water(key, idle);
        Ok(())
    }

    /// Where the front-end stands, in one line.
    fn status(&self) -> String {
        let frontend = self.frontend.lock();
        frontend.as_ref().map_or("closed".to_owned(), Frontend::status)
    }

    /// What happened to a source so far.
    fn counts<'py>(&self, py: Python<'py>, source: usize) -> PyResult<Bound<'py, PyDict>> {
        let status = self.source(source)?.status();
        let counts = PyDict::new(py);
        for (name, count) in [
            ("made", status.made),
            ("taken", status.taken),
            ("durable", status.durable),
            ("released", status.released),
            ("held_bytes", status.held_bytes),
            ("sent_again", status.sent_again),
            ("abandoned", status.abandoned.iter().sum()),
            ("full", status.full),
            ("waited_ns", status.waited_ns),
            ("key_refused", status.key_refused),
            ("held_at_run_end", status.held_at_run_end),
            ("resumes", status.resumes),
        ] {
            counts.set_item(name, count)?;
        }
        Ok(counts)
    }

    /// Reports what something is set to.
    fn declare(
        &self,
        name: &str,
        value: Value,
        unit: &str,
        bounds: Option<(f64, f64)>,
        writable: bool,
    ) -> PyResult<()> {
        let value = Reading::from(value);
        let bounds = match bounds {
            Some((low, high)) => Some((bound(&value, low)?, bound(&value, high)?)),
            None => None,
        };
        let unit = unit.to_owned();
        let setting = Setting { value, unit, bounds, is_writable: writable };
        reported(self.reports.setting(name, setting))
    }

    /// The present value of a setting.
    fn value<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match self.reports.reading(name) {
            None => None,
            Some(Reading::Bool(value)) => Some(value.into_bound_py_any(py)?),
            Some(Reading::I64(value)) => Some(value.into_bound_py_any(py)?),
            Some(Reading::U64(value)) => Some(value.into_bound_py_any(py)?),
            Some(Reading::F64(value)) => Some(value.into_bound_py_any(py)?),
            Some(Reading::Text(value)) => Some(value.into_bound_py_any(py)?),
        })
    }

    /// Reports a counter.
    fn count(&self, name: &str, value: u64, unit: &str) -> PyResult<()> {
        reported(self.reports.counter(name, value, unit))
    }

    /// Raises an alarm, or ends it.
    fn alarm(&self, name: &str, text: Option<&str>) -> PyResult<()> {
        reported(self.reports.alarm(name, text))
    }

    /// Reports a line of status.
    fn say(&self, text: &str) -> PyResult<()> {
        reported(self.reports.status(text))
    }

    /// Waits until everything is confirmed, at most for so many seconds, ends, and waits until a
    /// callback that runs has returned. Returns how many items are not confirmed, and how many a
    /// run has ended without.
    fn close(&self, py: Python<'_>, timeout: f64) -> PyResult<(u64, u64)> {
        let timeout = seconds(timeout)?;
        if self.calls.get() == Some(&thread::current().id()) {
            let what = "a callback cannot close the session that calls it";
            return Err(PyRuntimeError::new_err(what));
        }
        let closed = py.detach(|| {
            let frontend = self.frontend.lock().take();
            frontend.map(|frontend| frontend.close(timeout))
        });
        let closed = closed.unwrap_or_default();
        Ok((closed.not_confirmed, closed.held_at_run_end))
    }
}

impl FrontendLink {
    fn source(&self, source: usize) -> PyResult<&SourceHandle> {
        let found = self.sources.get(source);
        found.ok_or_else(|| PyValueError::new_err(format!("there is no source {source}")))
    }
}

/// The value of `frontend.Sent`.
fn number_of(pushed: Push) -> u8 {
    match pushed {
        Push::Accepted => 0,
        Push::Full => 1,
        Push::Ended => 2,
    }
}

/// Calls `callback(kind, run, settings)`; an exception refuses the command, by its text, or by its
/// type's name if it has none.
fn callbacks(callback: Py<PyAny>, calls: Arc<OnceLock<ThreadId>>) -> Callbacks {
    Box::new(move |command| {
        calls.get_or_init(|| thread::current().id());
        Python::attach(|py| {
            let kind = CommandKind(command.kind).name().unwrap_or("unknown");
            let settings = command.settings.clone();
            let called = callback.call1(py, (kind, command.run_number, settings));
            called.map(|_answer| ()).map_err(|error| match error.value(py).to_string() {
                text if text.is_empty() => {
                    error.get_type(py).name().map_or(text, |name| name.to_string())
                }
                text => text,
            })
        })
    })
}

fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|error| PyValueError::new_err(format!("{seconds} seconds: {error}")))
}

/// A recorder for the tests of front-ends.
#[pyclass(frozen, module = "catchment._native")]
pub(crate) struct TestRecorder {
    recorder: testing::Recorder,
}

#[pymethods]
impl TestRecorder {
    #[new]
    fn new() -> PyResult<Self> {
        let recorder = testing::Recorder::start();
        let recorder = recorder.map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(Self { recorder })
    }

    /// Where front-ends connect.
    #[getter]
    fn url(&self) -> String {
        self.recorder.url()
    }

    /// What front-ends did wrong, in words.
    #[getter]
    fn faults(&self) -> Vec<String> {
        self.recorder.faults()
    }

    /// Cuts all connections. Front-ends may come back at once.
    fn cut(&self) {
        self.recorder.cut();
    }

    /// Dies and comes back at once: what was not durable is forgotten.
    fn restart(&self) {
        self.recorder.restart();
    }

    /// Reads no data until `go_on`.
    fn pause(&self) {
        self.recorder.pause();
    }

    /// Reads data again.
    fn go_on(&self) {
        self.recorder.go_on();
    }

    /// Whether what is taken is durable at once, or when `tell_durable` says so.
    fn durable_at_once(&self, at_once: bool) {
        self.recorder.durable_at_once(at_once);
    }

    /// All items of a source below a position are durable, as far as they are taken.
    fn tell_durable(&self, source: &str, position: u64) {
        self.recorder.tell_durable(source, position);
    }

    /// Gives front-ends a command of this kind, and returns its number.
    fn command(&self, kind: &str, run: u64) -> PyResult<u64> {
        let kinds = (1..=7).map(CommandKind);
        let mut found = kinds.filter(|known| known.name() == Some(kind));
        let Some(found) = found.next() else {
            return Err(wrong("kind", kind, "a command"));
        };
        Ok(self.recorder.with(|recorder| recorder.command(found.0, run, &[])))
    }

    /// The answers to commands so far: number, answer, text.
    fn answers(&self) -> Vec<(u64, String, String)> {
        self.recorder.with(|recorder| {
            let answers = recorder.commands.iter();
            answers
                .map(|(number, kind, text)| (*number, format!("{kind:?}"), text.clone()))
                .collect()
        })
    }

    /// Keys and bytes of the fragments that it took of a source.
    fn taken<'py>(&self, py: Python<'py>, source: &str) -> Vec<(u64, Bound<'py, PyBytes>)> {
        let taken = py.detach(|| self.recorder.taken(source));
        taken.into_iter().map(|(key, bytes)| (key, PyBytes::new(py, &bytes))).collect()
    }
}

/// A wait looks so often whether the interpreter was interrupted.
const SIGNALS_EACH: Duration = Duration::from_millis(100);
