//! One source's fragments in a range of events.

use std::ops::Range;
use std::sync::Arc;

use catchment_frame::{ColumnInfo, ColumnKind, Dtype, FieldInfo, Hole, PayloadType};
use catchment_model::{Piece, SourceId};
use catchment_storage::{FragmentColumn, FragmentRows, Run, SelectEvents, StorageError};
use numpy::PyArray1;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::channels::numpy_name;
use crate::keys::{Index, adjacent};
use crate::views::{Backing, Joined, Memory, copied, owned};

/// Fragments of one source, one row per event.
///
/// A sequence of the fragments themselves: read-only numpy arrays of bytes, or None where the event
/// has no fragment of this source; a slice gives Fragments. `data`, `offsets` and `keys` give all
/// at once, as views: they keep what was read in memory. A single fragment is a view where it is a
/// sixteenth of that at least, otherwise a copy.
#[pyclass(frozen, sequence, module = "catchment")]
pub(crate) struct Fragments {
    about: About,
    memory: Py<Memory>,
    rows: Range<usize>,
}

/// What a run says of a source.
#[derive(Clone, Default)]
pub(crate) struct About {
    name: String,
    /// The type of its payload, where it is more than bytes.
    pub(crate) payload: Option<PayloadType>,
    /// Whether its fragments have times of their own.
    has_times: bool,
}

impl Fragments {
    /// All rows of one frame's column, of that source.
    pub(crate) fn of_frame(py: Python<'_>, about: About, part: FragmentRows) -> PyResult<Self> {
        let memory = Memory::new(py, Backing::Column(part.column))?;
        Ok(Self { about, memory, rows: part.rows })
    }

    /// The rows of the selected events. Rows of one frame that follow each other, and are not few,
    /// are a view of its column; others are joined.
    pub(crate) fn of_events(
        py: Python<'_>,
        run: &Run,
        source: SourceId,
        select: SelectEvents,
    ) -> PyResult<Self> {
        let about = about(run, source);
        let backing =
            py.detach(|| collect(run, source, select)).map_err(crate::errors::python_error)?;
        let (backing, rows) = match backing {
            Collected::One(part) => (Backing::Column(part.column), part.rows),
            Collected::Many(joined) => {
                let rows = 0..joined.keys.len();
                (Backing::Joined(joined), rows)
            }
        };
        Ok(Self { about, memory: Memory::new(py, backing)?, rows })
    }

    fn data_range(&self) -> Range<usize> {
        let offsets = self.memory.get().0.offsets();
        offsets[self.rows.start] as usize..offsets[self.rows.end] as usize
    }

    fn fragment<'py>(&self, py: Python<'py>, row: usize) -> Option<Bound<'py, PyArray1<u8>>> {
        let memory = self.memory.bind(py);
        let backing = &memory.get().0;
        if !backing.is_there(row) {
            return None;
        }
        let range = backing.range(row);
        Some(match backing.is_worth_a_view(1, range.len()) {
            true => Memory::data(memory, range),
            false => copied(py, &backing.data()[range]),
        })
    }
}

#[pymethods]
impl Fragments {
    /// The source's name.
    #[getter]
    fn source(&self) -> &str {
        &self.about.name
    }

    /// Keys of the events, shape (n,), uint64.
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        Memory::keys(self.memory.bind(py), self.rows.clone())
    }

    /// Where each row's fragment begins in `data`, shape (n + 1,), int64; at last, the end.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let view = Memory::offsets(self.memory.bind(py), self.rows.clone());
        let range = self.data_range();
        if range.start == 0 {
            return view;
        }
        let backing = &self.memory.get().0;
        let begin = |row| (backing.range(row).start - range.start) as i64;
        let mut offsets: Vec<i64> = self.rows.clone().map(begin).collect();
        offsets.push(range.len() as i64);
        owned(py, offsets)
    }

    /// The fragments of all rows, one behind the other, shape (bytes,), uint8.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u8>> {
        Memory::data(self.memory.bind(py), self.data_range())
    }

    /// Whether each row has a fragment, which can be empty, shape (n,), bool.
    #[getter]
    fn valid<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        let backing = &self.memory.get().0;
        owned(py, self.rows.clone().map(|row| backing.is_there(row)).collect())
    }

    /// Whether each row's event expected the source, (n,), bool: `expected & ~valid` lack it.
    #[getter]
    fn expected<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        let backing = &self.memory.get().0;
        owned(py, self.rows.clone().map(|row| backing.is_expected(row)).collect())
    }

    /// Each fragment's own time in nanoseconds, (n,), uint64, 0 without one; None by number.
    #[getter]
    fn times<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<u64>>> {
        // A frame in which the source was silent has no column of them.
        let times_ns = self.memory.get().0.times_ns();
        let time_ns = |row: usize| times_ns.get(row).copied().unwrap_or(0);
        self.about.has_times.then(|| owned(py, self.rows.clone().map(time_ns).collect()))
    }

    /// What never came, zeros in `data`: row, offset in the fragment, bytes; (n, 3), int64.
    #[getter]
    fn holes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let holes = self.memory.get().0.holes(self.rows.clone());
        let numbers = holes.flat_map(|hole| {
            let row = hole.row as i64 - self.rows.start as i64;
            [row, hole.offset as i64, hole.bytes as i64]
        });
        owned(py, numbers.collect()).call_method1("reshape", ((-1, 3),))
    }

    /// Of rows with several fragments: row, own time in ns, bytes of each; (n, 3), int64.
    #[getter]
    fn pieces<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let pieces = self.memory.get().0.pieces(self.rows.clone());
        let numbers = pieces.flat_map(|piece| {
            let row = piece.row as i64 - self.rows.start as i64;
            [row, piece.time_ns as i64, piece.bytes as i64]
        });
        owned(py, numbers.collect()).call_method1("reshape", ((-1, 3),))
    }

    /// What the source says of its payload: `dtype` (numpy's), `shape` of one fragment's array
    /// (empty if fragments differ in length) and `skip`, the bytes before it; or None.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.about.payload.as_ref().map(|payload| payload_dict(py, payload)).transpose()
    }

    /// The fragments as one array of the source's own type, shape (n, ...), without a copy where
    /// all are there and whole; where some are missing or have holes a masked array. Raises
    /// TypeError if the source has no type, ValueError if a fragment does not have the length that
    /// its type has. Where fragments differ in length the first one that is there says it; where
    /// none is there each row has one element.
    #[getter]
    fn array<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("catchment._typed")?.call_method1("array", (slf,))
    }

    fn __len__(&self) -> usize {
        self.rows.len()
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        index: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let start = this.rows.start;
        let slice = match Index::of(index, this.rows.len())? {
            Index::One(row) => return this.fragment(py, start + row).into_bound_py_any(py),
            Index::Some(slice) => adjacent(&slice, "fragments")?,
        };
        let (memory, rows) = (this.memory.clone_ref(py), start + slice.start..start + slice.end);
        Self { about: this.about.clone(), memory, rows }.into_bound_py_any(py)
    }

    fn __iter__(slf: Bound<'_, Self>) -> FragmentIterator {
        let next = slf.get().rows.start;
        FragmentIterator { fragments: slf.unbind(), next }
    }

    fn __repr__(&self) -> String {
        let bytes = self.data_range().len();
        format!(
            "<catchment.Fragments of '{}': {} rows, {bytes} bytes>",
            self.about.name,
            self.rows.len()
        )
    }
}

/// Iterates over fragments.
#[pyclass(module = "catchment._native")]
pub(crate) struct FragmentIterator {
    fragments: Py<Fragments>,
    next: usize,
}

#[pymethods]
impl FragmentIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> Option<Option<Bound<'py, PyArray1<u8>>>> {
        let fragments = self.fragments.get();
        let row = self.next;
        if row >= fragments.rows.end {
            return None;
        }
        self.next += 1;
        Some(fragments.fragment(py, row))
    }
}

/// A source's fragment in a row of a frame; none if it has none there.
pub(crate) fn fragment(
    py: Python<'_>,
    column: Arc<FragmentColumn>,
    row: usize,
) -> PyResult<Option<Bound<'_, PyArray1<u8>>>> {
    let (backing, rows) = (Backing::Column(column), row..row + 1);
    let one = Fragments { about: About::default(), memory: Memory::new(py, backing)?, rows };
    Ok(one.fragment(py, row))
}

/// What a run says of a source.
pub(crate) fn about(run: &Run, source: SourceId) -> About {
    let schema = &run.header().schema;
    let id = schema.column(Some(source), &ColumnKind::FragmentPayload);
    let column = schema.columns.iter().find(|column| Some(column.id) == id);
    let typed = |payload: &PayloadType| {
        payload.dtype != Dtype::U8 || !payload.shape.is_empty() || payload.skip > 0
    };
    let payload = column.and_then(ColumnInfo::payload_type).filter(typed);
    let has_times = schema.column(Some(source), &ColumnKind::FragmentTime).is_some();
    About { name: run.sources()[source.index()].name.clone(), payload, has_times }
}

pub(crate) fn payload_dict<'py>(
    py: Python<'py>,
    payload: &PayloadType,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("shape", &payload.shape)?;
    dict.set_item("skip", payload.skip)?;
    let record = PyDict::new(py);
    if payload.dtype == Dtype::Record {
        let fields = &payload.fields;
        let format = |field: &FieldInfo| -> PyResult<_> {
            Ok((numpy_name(field.dtype), PyTuple::new(py, &field.shape)?))
        };
        record.set_item("names", fields.iter().map(|field| &field.name).collect::<Vec<_>>())?;
        record.set_item("formats", fields.iter().map(format).collect::<PyResult<Vec<_>>>()?)?;
        record.set_item("offsets", fields.iter().map(|field| field.offset).collect::<Vec<_>>())?;
        record.set_item("itemsize", payload.record_bytes)?;
        dict.set_item("dtype", record)?;
    } else {
        dict.set_item("dtype", numpy_name(payload.dtype))?;
    }
    Ok(dict)
}

enum Collected {
    One(FragmentRows),
    Many(Joined),
}

fn collect(run: &Run, source: SourceId, select: SelectEvents) -> Result<Collected, StorageError> {
    let mut parts = run.fragments_in(source, select);
    let Some(part) = parts.next().transpose()? else {
        return Ok(Collected::Many(Joined { offsets: vec![0], ..Joined::default() }));
    };
    let mut joined = Joined { offsets: vec![0], ..Joined::default() };
    match parts.next().transpose()? {
        None => {
            let backing = Backing::Column(Arc::clone(&part.column));
            if backing.is_worth_a_view(part.rows.len(), part.range().len()) {
                return Ok(Collected::One(part));
            }
            joined.add(&part);
        }
        Some(second) => {
            joined.add(&part);
            joined.add(&second);
        }
    }
    for part in parts {
        joined.add(&part?);
    }
    Ok(Collected::Many(joined))
}

impl Joined {
    fn add(&mut self, part: &FragmentRows) {
        let base = self.data.len() as u64;
        let begin = part.range().start as u64;
        let column = &part.column;
        self.keys.extend_from_slice(part.keys());
        let ends = &column.offsets()[part.rows.start + 1..=part.rows.end];
        self.offsets.extend(ends.iter().map(|end| end - begin + base));
        self.valid.extend(part.rows.clone().map(|row| column.validity().is_set(row)));
        self.expected.extend(part.rows.clone().map(|row| column.is_expected(row)));
        if let Some(times_ns) = column.times_ns().get(part.rows.clone()) {
            self.times_ns.resize(self.valid.len() - part.rows.len(), 0);
            self.times_ns.extend_from_slice(times_ns);
        }
        let before = (self.valid.len() - part.rows.len()) as u64;
        let holes = column.holes(part.rows.clone()).iter();
        let begin = part.rows.start as u64;
        self.holes.extend(holes.map(|hole| Hole { row: hole.row - begin + before, ..*hole }));
        let pieces = column.pieces(part.rows.clone()).iter();
        self.pieces.extend(pieces.map(|piece| Piece { row: piece.row - begin + before, ..*piece }));
        self.data.extend_from_slice(part.payload());
    }
}
