//! Columns as numpy arrays, without a copy.

use std::ops::Range;
use std::sync::Arc;

use catchment_frame::Hole;
use catchment_model::Piece;
use catchment_storage::{FragmentColumn, FrameEvents, InUse, give_back};
use numpy::ndarray::ArrayView1;
use numpy::{Element, PyArray1, PyArrayMethods};
use pyo3::prelude::*;

/// The memory that arrays are views of. An array holds it as its base and keeps it alive.
#[pyclass(frozen, module = "catchment._native")]
pub(crate) struct Memory(pub(crate) Backing);

/// The data that arrays are views of. They never move or change.
pub(crate) enum Backing {
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
    pub(crate) expected: Vec<bool>,
    pub(crate) holes: Vec<Hole>,
    /// Empty if they are not known.
    pub(crate) times_ns: Vec<u64>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) data: Vec<u8>,
}

impl Backing {
    fn keys(&self) -> &[u64] {
        match self {
            Self::Events(events) => events.keys(),
            Self::Column(column) => column.events().keys(),
            Self::Joined(joined) => &joined.keys,
        }
    }

    pub(crate) fn offsets(&self) -> &[u64] {
        match self {
            Self::Events(_) => &[],
            Self::Column(column) => column.offsets(),
            Self::Joined(joined) => &joined.offsets,
        }
    }

    pub(crate) fn data(&self) -> &[u8] {
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

    /// Whether the source was expected in the event of a row.
    pub(crate) fn is_expected(&self, row: usize) -> bool {
        match self {
            Self::Events(_) => false,
            Self::Column(column) => column.is_expected(row),
            Self::Joined(joined) => joined.expected[row],
        }
    }

    /// The own times of all rows; none if they are not known.
    pub(crate) fn times_ns(&self) -> &[u64] {
        match self {
            Self::Events(_) => &[],
            Self::Column(column) => column.times_ns(),
            Self::Joined(joined) => &joined.times_ns,
        }
    }

    /// The holes in the fragments of some rows, in order.
    pub(crate) fn holes(&self, rows: Range<usize>) -> impl Iterator<Item = &Hole> {
        let all = match self {
            Self::Events(_) => &[],
            Self::Column(column) => column.holes(rows.clone()),
            Self::Joined(joined) => &joined.holes,
        };
        all.iter().filter(move |hole| rows.contains(&(hole.row as usize)))
    }

    /// The fragments of those of some rows that have several, in order.
    pub(crate) fn pieces(&self, rows: Range<usize>) -> impl Iterator<Item = &Piece> {
        let all = match self {
            Self::Events(_) => &[],
            Self::Column(column) => column.pieces(rows.clone()),
            Self::Joined(joined) => &joined.pieces,
        };
        all.iter().filter(move |piece| rows.contains(&(piece.row as usize)))
    }

    /// How many bytes so many rows and their data take.
    pub(crate) fn bytes_of(rows: usize, data_bytes: usize) -> usize {
        rows.saturating_mul(ROW_BYTES).saturating_add(data_bytes)
    }

    /// Whether an array of so many rows and data bytes is enough of this to be a view of it. Less
    /// is copied, so that a small array does not hold a whole column in memory.
    pub(crate) fn is_worth_a_view(&self, rows: usize, data_bytes: usize) -> bool {
        let all = Self::bytes_of(self.offsets().len().saturating_sub(1), self.data().len());
        Self::bytes_of(rows, data_bytes).saturating_mul(VIEW_SHARE) >= all
    }

    /// The bytes that a row takes in the data.
    pub(crate) fn range(&self, row: usize) -> Range<usize> {
        let offsets = self.offsets();
        offsets[row] as usize..offsets[row + 1] as usize
    }
}

impl Memory {
    pub(crate) fn new(py: Python<'_>, backing: Backing) -> PyResult<Py<Self>> {
        Py::new(py, Self(backing))
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
    ) -> Bound<'py, PyArray1<i64>> {
        // They are within the memory of the data, and so below 2^63.
        view(signed(&memory.get().0.offsets()[rows.start..=rows.end]), memory)
    }

    /// A view of some bytes of the data.
    pub(crate) fn data<'py>(
        memory: &Bound<'py, Self>,
        range: Range<usize>,
    ) -> Bound<'py, PyArray1<u8>> {
        view(&memory.get().0.data()[range], memory)
    }

    /// The times of a frame's events: a view, unless a file says of one what int64 does not hold.
    pub(crate) fn times<'py>(memory: &Bound<'py, Self>) -> Bound<'py, PyArray1<i64>> {
        let times = memory.get().events().map_or(&[][..], |events| events.times_ns());
        if times.iter().all(|&time| i64::try_from(time).is_ok()) {
            return view(signed(times), memory);
        }
        owned(memory.py(), times.iter().copied().map(signed_time).collect())
    }

    /// A view of the flags of a frame's events.
    pub(crate) fn flags<'py>(memory: &Bound<'py, Self>) -> Bound<'py, PyArray1<u32>> {
        view(memory.get().events().map_or(&[], |events| events.flags()), memory)
    }

    fn events(&self) -> Option<&FrameEvents> {
        match &self.0 {
            Backing::Events(events) => Some(events),
            Backing::Column(column) => Some(column.events()),
            Backing::Joined(_) => None,
        }
    }
}

/// The memory of samples: when the last array of it is gone, the next read uses it again.
#[pyclass(frozen, module = "catchment._native")]
pub(crate) struct Samples {
    bytes: Vec<u8>,
    /// Behind the bytes, which are given back first.
    _in_use: InUse,
}

impl Samples {
    /// The bytes as an array that can be written, and holds them.
    pub(crate) fn array(py: Python<'_>, mut bytes: Vec<u8>) -> PyResult<Bound<'_, PyArray1<u8>>> {
        let (count, first) = (bytes.len(), bytes.as_mut_ptr());
        let in_use = InUse::new(bytes.capacity());
        let owner = Bound::new(py, Self { bytes, _in_use: in_use })?.into_any();
        // SAFETY: so many bytes stand there, and stay: only the array and arrays derived from it
        // reads or writes them before `owner` is dropped, which these keep alive.
        let array = unsafe {
            PyArray1::borrow_from_array(&ArrayView1::from_shape_ptr(count, first), owner)
        };
        Ok(array)
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.bytes));
    }
}

/// A copy of some bytes, read-only like the views.
pub(crate) fn copied<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyArray1<u8>> {
    read_only(PyArray1::from_slice(py, bytes))
}

/// A time in int64; what that does not hold becomes its largest.
pub(crate) fn signed_time(time_ns: u64) -> i64 {
    i64::try_from(time_ns).unwrap_or(i64::MAX)
}

/// Numbers below 2^63 as signed ones.
fn signed(numbers: &[u64]) -> &[i64] {
    // SAFETY: both types have the same size and alignment, and any bits are a number of either.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), numbers.len()) }
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
    // The array has no other references yet, so that the borrow cannot fail.
    let borrowed = array.readwrite().make_nonwriteable();
    drop(borrowed);
    array
}

/// A view is at least this part of what it keeps in memory: one to so many.
const VIEW_SHARE: usize = 16;
/// What a row takes beside its data: key, time, flags, offset.
const ROW_BYTES: usize = 28;
