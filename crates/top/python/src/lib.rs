//! The Python package catchment: its native module.
//!
//! `run.rs` is a run, `opened.rs` what all that is made of it reads from, `sources.rs`,
//! `events.rs`, `frames.rs` and `fragments.rs` what it holds, `channels.rs` its channels,
//! `ledger.rs` its ledger; `follow.rs` hands out the frames of a run that is written; `catalog.rs`
//! is the catalogue of runs; `frontend.rs` sends to a recorder; `keys.rs` takes what Python puts
//! into brackets, `times.rs` converts times; `views.rs` is the one place where memory becomes a
//! numpy array. The interpreter's lock is released while files are read and columns decompressed.

mod catalog;
mod channels;
mod codecs;
mod errors;
mod events;
mod follow;
mod fragments;
mod frames;
mod frontend;
mod keys;
mod ledger;
mod opened;
mod run;
mod sources;
mod times;
mod views;

use std::ffi::OsString;

use catchment_storage::{Run, RunOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{CatchmentError, python_error};
use crate::keys::PathsArgument;

/// What `catchment._native` holds; the package's Python files give it its public names.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use crate::catalog::{catalog_runs_json, catalog_show_json};
    #[pymodule_export]
    use crate::channels::{ChannelReader, sample_times};
    #[pymodule_export]
    use crate::codecs::{encode, for_decode, for_encode};
    #[pymodule_export]
    use crate::events::{Event, Events};
    #[pymodule_export]
    use crate::fragments::Fragments;
    #[pymodule_export]
    use crate::frames::{Frame, Frames};
    #[pymodule_export]
    use crate::frontend::{FrontendLink, TestRecorder};
    #[pymodule_export]
    use crate::ledger::{Counts, RunLedger};
    #[pymodule_export]
    use crate::run::{Header, PyRun, open};
    #[pymodule_export]
    use crate::sources::{Source, Sources};
    #[pymodule_export]
    use crate::times::{convert_times, date_in_scale, parse_time};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let flags = PyDict::new(module.py());
        for (flag, name) in catchment_model::EventFlags::NAMES {
            flags.set_item(name, flag.0)?;
        }
        module.add("event_flags", flags)?;
        module.add("leap_seconds_known_until_ns", crate::times::LEAP_SECONDS_KNOWN_UNTIL_NS)
    }

    /// Runs the command line with `args`, the program's name first, and returns its exit code.
    #[pyfunction]
    fn run_command(py: Python<'_>, args: Vec<OsString>) -> i32 {
        py.detach(|| catchment_cli::run(args))
    }

    /// Those of the names that fit a pattern, in their order.
    #[pyfunction]
    fn fitting(pattern: &str, names: Vec<String>) -> PyResult<Vec<String>> {
        let pattern: catchment_frame::Pattern =
            pattern.parse().map_err(|error: catchment_frame::PatternError| {
                PyValueError::new_err(error.to_string())
            })?;
        Ok(names.into_iter().filter(|name| pattern.fits(name)).collect())
    }

    /// The report of an audit, as JSON.
    #[pyfunction]
    fn audit_json(py: Python<'_>, path: PathsArgument) -> PyResult<String> {
        let report = py.detach(|| {
            let run = Run::open_folders(&path.0, RunOptions::default())?;
            catchment_storage::audit(&run)
        });
        serde_json::to_string(&report.map_err(python_error)?).map_err(json_error)
    }

    /// The report of a verification, as JSON.
    #[pyfunction]
    fn verify_json(py: Python<'_>, path: PathsArgument) -> PyResult<String> {
        let report = py.detach(|| {
            let run = Run::open_folders(&path.0, RunOptions::default())?;
            Ok(catchment_storage::verify(&run, |_| ()))
        });
        serde_json::to_string(&report.map_err(python_error)?).map_err(json_error)
    }
}

fn json_error(error: serde_json::Error) -> PyErr {
    CatchmentError::new_err(error.to_string())
}
