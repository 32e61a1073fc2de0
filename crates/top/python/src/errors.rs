//! From this program's errors to Python's exceptions, which `_errors.py` defines.

use std::io;
use std::path::Path;

use catchment_model::printable;
use catchment_storage::StorageError;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

pyo3::import_exception!(catchment._errors, CatalogError);
pyo3::import_exception!(catchment._errors, CatchmentError);
pyo3::import_exception!(catchment._errors, FileError);
pyo3::import_exception!(catchment._errors, FrontendError);
pyo3::import_exception!(catchment._errors, RunClosedError);
pyo3::import_exception!(catchment._errors, UnknownChannelError);
pyo3::import_exception!(catchment._errors, UnknownEventError);
pyo3::import_exception!(catchment._errors, UnknownSourceError);

/// Warns that something is missing or damaged.
pub(crate) fn warn(py: Python<'_>, text: &str) -> PyResult<()> {
    let category = py.import("catchment._errors")?.getattr("DamageWarning")?;
    py.import("warnings")?.call_method1("warn", (printable(text), category))?;
    Ok(())
}

/// The text of an error. It has names and paths as they are in files, and a traceback is printed to
/// a terminal.
fn text(error: &impl ToString) -> String {
    printable(&error.to_string()).into_owned()
}

/// The exception that says the same. What the system refused is an `OSError`, as everywhere in
/// Python.
pub(crate) fn python_error(error: StorageError) -> PyErr {
    if let Some((path, source)) = error.system() {
        return os_error(path, source);
    }
    match error {
        error @ (StorageError::NoEvent { .. } | StorageError::NoFrame { .. }) => {
            UnknownEventError::new_err(text(&error))
        }
        error @ StorageError::OneFolder { .. } => PyValueError::new_err(text(&error)),
        error @ StorageError::NotStored { what: "channel", .. } => {
            UnknownChannelError::new_err(text(&error))
        }
        error @ (StorageError::NoSource { .. } | StorageError::NotStored { .. }) => {
            UnknownSourceError::new_err(text(&error))
        }
        error @ StorageError::NoChannel { .. } => UnknownChannelError::new_err(text(&error)),
        error @ (StorageError::Frame { .. }
        | StorageError::Column { .. }
        | StorageError::Trend { .. }
        | StorageError::NoFiles { .. }
        | StorageError::Blank { .. }
        | StorageError::ForeignFile { .. }
        | StorageError::SchemaDiffers { .. }
        | StorageError::VariantDiffers { .. }
        | StorageError::OtherFrame { .. }
        | StorageError::NoBase { .. }
        | StorageError::OtherBase { .. }
        | StorageError::IndexTwice { .. }
        | StorageError::Superseded { .. }) => FileError::new_err(text(&error)),
        error @ (StorageError::Disk(_)
        | StorageError::Read { .. }
        | StorageError::Write { .. }
        | StorageError::Unwritable { .. }
        | StorageError::MergedUnbalanced { .. }
        | StorageError::NotRebuilt { .. }
        | StorageError::Behind { .. }
        | StorageError::MissingFile { .. }
        | StorageError::BeingRecorded { .. }
        | StorageError::Stopped) => CatchmentError::new_err(text(&error)),
    }
}

/// The same for what is wrong with a catalogue.
pub(crate) fn catalog_error(error: catchment_catalog::CatalogError) -> PyErr {
    match error {
        catchment_catalog::CatalogError::Missing { folder } => {
            let missing = io::Error::from_raw_os_error(NO_SUCH_FILE);
            os_error(&folder.join(catchment_catalog::CATALOG_FOLDER), &missing)
        }
        error => match error.as_system() {
            Some((path, source)) => os_error(path, source),
            None => CatalogError::new_err(text(&error)),
        },
    }
}

/// The same for a front-end. What the caller gave wrongly is a `ValueError`.
pub(crate) fn frontend_error(error: catchment_frontend::Error) -> PyErr {
    use catchment_frontend::Error;
    match error {
        Error::Push(_) | Error::Address { .. } | Error::Tls { .. } | Error::Config(_) => {
            PyValueError::new_err(text(&error))
        }
        _ => FrontendError::new_err(text(&error)),
    }
}

/// ENOENT.
const NO_SUCH_FILE: i32 = 2;

/// `OSError` makes itself a `FileNotFoundError` or whatever its number says. Its path stays as it
/// is, for programs; Python escapes it where it is shown.
fn os_error(path: &Path, source: &io::Error) -> PyErr {
    let path = path.display().to_string();
    match source.raw_os_error() {
        Some(number) => PyOSError::new_err((number, source.to_string(), path)),
        None => PyOSError::new_err(text(&format!("{path}: {source}"))),
    }
}
