//! Columns as numpy arrays, without a copy.

use std::ops::Range;
use std::sync::Arc;

use catchment_storage::{FragmentColumn, FrameEvents, give_back};
use numpy::ndarray::ArrayView1;
use numpy::{Element, PyArray1, PyArrayMethods};
use pyo3::prelude::*;

/// The memory that arrays are views of. An array holds it as its base and keeps it alive.
#[pyclass(frozen, module = "catchment._native")]
pub(crate) struct Memory(pub(crate) Kept);

/// What is kept. Nothing of it moves or changes once it is here.
pub(crate) enum Kept {
    Events(Arc<FrameEvents>),
    Column(Arc<FragmentColumn>),
    Joined(Joined),
}

/// Fragments of several frames, joined.
#[derive(Default)]
pub(crate) struct Joined {
    pub(crate) keys: Vec<u64>,
    pub(crate) offsets: Vec<u64>,
    pub(crate) valid: Vec<bool>,
    pub(crate) data: Vec<u8>,
}

impl Kept {
    fn keys(&self) -> &[u64] {
        match self {
            Self::Events(events) => events.keys(),
            Self::Column(column) => column.events().keys(),
            Self::Joined(joined) => &joined.keys,
        }
    }

    fn offsets(&self) -> &[u64] {
        match self {
            Self::Events(_) => &[],
            Self::Column(column) => column.offsets(),
            Self::Joined(joined) => &joined.offsets,
        }
    }

    fn data(&self) -> &[u8] {
        match self {
            Self::Events(_) => &[],
            Self::Column(column) => column.payload(),
            Self::Joined(joined) => &joined.data,
        }
    }

    /// Whether that row has a fragment.
    pub(crate) fn is_there(&self, row: usize) -> bool {
        match self {
            Self::Events(_) => false,
            Self::Column(column) => column.validity().is_set(row),
            Self::Joined(joined) => joined.valid[row],
        }
    }

    /// The bytes that a row takes in the data.
    pub(crate) fn range(&self, row: usize) -> Range<usize> {
        let offsets = self.offsets();
        offsets[row] as usize..offsets[row + 1] as usize
    }
}

impl Memory {
    pub(crate) fn new(py: Python<'_>, kept: Kept) -> PyResult<Py<Self>> {
        Py::new(py, Self(kept))
    }

    /// A view of the keys of some rows.
    pub(crate) fn keys<'py>(
        memory: &Bound<'py, Self>,
        rows: Range<usize>,
    ) -> Bound<'py, PyArray1<u64>> {
        view(&memory.get().0.keys()[rows], memory)
    }

    /// A view of the offsets of some rows and of the end of the last.
    pub(crate) fn offsets<'py>(
        memory: &Bound<'py, Self>,
        rows: Range<usize>,
    ) -> Bound<'py, PyArray1<u64>> {
        view(&memory.get().0.offsets()[rows.start..=rows.end], memory)
    }

    /// A view of some bytes of the data.
    pub(crate) fn data<'py>(
        memory: &Bound<'py, Self>,
        range: Range<usize>,
    ) -> Bound<'py, PyArray1<u8>> {
        view(&memory.get().0.data()[range], memory)
    }

    /// A view of the times of a frame's events.
    pub(crate) fn times<'py>(memory: &Bound<'py, Self>) -> Bound<'py, PyArray1<u64>> {
        view(memory.get().events().map_or(&[], |events| events.times_ns()), memory)
    }

    /// A view of the flags of a frame's events.
    pub(crate) fn flags<'py>(memory: &Bound<'py, Self>) -> Bound<'py, PyArray1<u32>> {
        view(memory.get().events().map_or(&[], |events| events.flags()), memory)
    }

    fn events(&self) -> Option<&FrameEvents> {
        match &self.0 {
            Kept::Events(events) => Some(events),
            Kept::Column(column) => Some(column.events()),
            Kept::Joined(_) => None,
        }
    }
}

/// The memory of samples: when the last array of it is gone, the next read uses it again.
#[pyclass(frozen, module = "catchment._native")]
pub(crate) struct Samples(Vec<u8>);

impl Samples {
    /// The bytes as an array that can be written, and holds them.
    pub(crate) fn array(py: Python<'_>, mut bytes: Vec<u8>) -> PyResult<Bound<'_, PyArray1<u8>>> {
        let (count, first) = (bytes.len(), bytes.as_mut_ptr());
        let owner = Bound::new(py, Self(bytes))?.into_any();
        // SAFETY: so many bytes stand there, and stay: nobody but the array and what is made of it
        // reads or writes them before `owner` is dropped, which these keep alive.
        let array = unsafe {
            PyArray1::borrow_from_array(&ArrayView1::from_shape_ptr(count, first), owner)
        };
        Ok(array)
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.0));
    }
}

/// An array of its own, read-only like the views.
pub(crate) fn owned<T: Element>(py: Python<'_>, values: Vec<T>) -> Bound<'_, PyArray1<T>> {
    read_only(PyArray1::from_vec(py, values))
}

/// `slice` must be memory that `memory` keeps.
fn view<'py, T: Element>(slice: &[T], memory: &Bound<'py, Memory>) -> Bound<'py, PyArray1<T>> {
    let owner = memory.clone().into_any();
    // SAFETY: the slice is memory that `memory` owns (every caller takes it from there), which is
    // frozen: it is neither moved nor changed nor freed before `memory` is, and the array keeps
    // `memory` alive. The array is read-only, also for `setflags`, because `memory` offers no
    // buffer that could be written.
    read_only(unsafe { PyArray1::borrow_from_array(&ArrayView1::from(slice), owner) })
}

fn read_only<T: Element>(array: Bound<'_, PyArray1<T>>) -> Bound<'_, PyArray1<T>> {
    // Nobody else has this array yet, so that the borrow cannot fail.
    let borrowed = array.readwrite().make_nonwriteable();
    drop(borrowed);
    array
}
