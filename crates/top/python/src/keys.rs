//! What Python puts into brackets, ranges and paths: names, numbers, keys, indices and slices.

use std::ops::Range;
use std::path::PathBuf;

use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::slice::PySliceIndices;
use pyo3::types::{PyBytes, PySequence, PySlice};

/// A source or a channel as it is asked for.
pub(crate) enum Wanted {
    Name(String),
    /// The number of a source.
    Number(i64),
}

impl Wanted {
    /// By name or number.
    ///
    /// # Errors
    /// TypeError for anything else.
    pub(crate) fn of(any: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(name) = any.extract() {
            return Ok(Self::Name(name));
        }
        if let Ok(number) = any.extract() {
            return Ok(Self::Number(number));
        }
        Err(PyTypeError::new_err(format!("expected a name or a number, got {}", kind(any))))
    }
}

/// An event's key as it is asked for: any integer, since one that no event can have is in no run.
pub(crate) enum Key {
    At(u64),
    /// Below 0.
    Below,
    /// Above what 64 bits hold.
    Above,
}

impl Key {
    /// # Errors
    /// TypeError for what is no integer.
    pub(crate) fn of(any: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(key) = any.extract() {
            return Ok(Self::At(key));
        }
        let index = any.call_method0("__index__").map_err(|_| {
            PyTypeError::new_err(format!("expected an event's key, an int, got {}", kind(any)))
        })?;
        Ok(if index.lt(0)? { Self::Below } else { Self::Above })
    }

    /// As a bound of a range.
    pub(crate) fn bound(self) -> u64 {
        match self {
            Self::At(key) => key,
            Self::Below => 0,
            Self::Above => u64::MAX,
        }
    }
}

/// A path as it is given: a str or an os.PathLike of one.
pub(crate) struct PathArgument(pub(crate) PathBuf);

impl FromPyObject<'_, '_> for PathArgument {
    type Error = PyErr;

    fn extract(any: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        any.extract().map(Self).map_err(|_| {
            let message = format!("expected a path, a str or os.PathLike, got {}", kind(&any));
            PyTypeError::new_err(message)
        })
    }
}

/// A run's path, or a sequence of those of several of its folders.
pub(crate) struct PathsArgument(pub(crate) Vec<PathBuf>);

impl FromPyObject<'_, '_> for PathsArgument {
    type Error = PyErr;

    fn extract(any: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let not_a_path = match any.extract() {
            Ok(PathArgument(path)) => return Ok(Self(vec![path])),
            Err(error) => error,
        };
        if any.is_instance_of::<PyBytes>() || any.cast::<PySequence>().is_err() {
            return Err(not_a_path);
        }
        let paths: Vec<PathArgument> = any.extract()?;
        if paths.is_empty() {
            return Err(PyValueError::new_err("expected a path or several, got none"));
        }
        Ok(Self(paths.into_iter().map(|PathArgument(path)| path).collect()))
    }
}

/// One item of a sequence, or several.
pub(crate) enum Index {
    One(usize),
    Some(PySliceIndices),
}

impl Index {
    /// An index or a slice of a sequence of so many items: negative ones count from the end.
    ///
    /// # Errors
    /// IndexError for one beyond the ends, TypeError for what is neither.
    pub(crate) fn of(any: &Bound<'_, PyAny>, count: usize) -> PyResult<Self> {
        if let Ok(slice) = any.cast::<PySlice>() {
            return Ok(Self::Some(slice.indices(count as isize)?));
        }
        let index: Bound<'_, PyAny> = any.call_method0("__index__").map_err(|_| {
            PyTypeError::new_err(format!("expected an index or a slice, got {}", kind(any)))
        })?;
        let beyond = || PyIndexError::new_err(format!("index {index} of {count}"));
        let Ok(position) = index.extract::<isize>() else { return Err(beyond()) };
        let position =
            if position < 0 { position.checked_add_unsigned(count) } else { Some(position) };
        let position = position.and_then(|position| usize::try_from(position).ok());
        position.filter(|position| *position < count).map(Self::One).ok_or_else(beyond)
    }
}

/// The items of a slice that follow each other.
///
/// # Errors
/// ValueError for another step than 1.
pub(crate) fn adjacent(slice: &PySliceIndices, what: &str) -> PyResult<Range<usize>> {
    if slice.step != 1 {
        let message = format!(
            "a slice of {what} is a view of items that follow each other, its step is 1, got {}: \
             list({what})[start:stop:step] takes any step",
            slice.step
        );
        return Err(PyValueError::new_err(message));
    }
    let start = slice.start as usize;
    Ok(start..start + slice.slicelength)
}

/// A range of frames or samples, `name` being the argument: its start and its stop.
///
/// # Errors
/// TypeError for what is no pair of integers, ValueError for negative or overlong ones.
pub(crate) fn number_range(name: &str, bounds: &Bound<'_, PyAny>) -> PyResult<(u64, u64)> {
    let module = bounds.py().import("catchment._times")?;
    module.call_method1("number_range", (name, bounds))?.extract()
}

/// The name of an object's type.
fn kind(any: &Bound<'_, PyAny>) -> String {
    any.get_type().name().map_or_else(|_| "something else".to_owned(), |name| name.to_string())
}
