//! One source's fragments in a range of events.

use std::ops::Range;
use std::sync::Arc;

use catchment_frame::{ColumnInfo, ColumnKind, Dtype, FieldInfo, PayloadType};
use catchment_model::SourceId;
use catchment_storage::{FragmentRows, Run, SelectEvents, StorageError};
use numpy::PyArray1;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::channels::numpy_name;
use crate::views::{Joined, Kept, Memory, owned};

/// Fragments of one source, one row per event.
///
/// A sequence of the fragments themselves: read-only numpy arrays of bytes, or None where the event
/// has no fragment of this source. `data`, `offsets` and `keys` give all at once.
#[pyclass(frozen, sequence, module = "catchment")]
pub(crate) struct Fragments {
    source: String,
    /// What the source says of its payload, where it says more than bytes.
    payload: Option<PayloadType>,
    memory: Py<Memory>,
    rows: Range<usize>,
}

impl Fragments {
    /// All rows of one frame's column; `about` says what source it is of.
    pub(crate) fn of_frame(
        py: Python<'_>,
        (source, payload): (String, Option<PayloadType>),
        part: FragmentRows,
    ) -> PyResult<Self> {
        let memory = Memory::new(py, Kept::Column(part.column))?;
        Ok(Self { source, payload, memory, rows: part.rows })
    }

    /// The rows of the selected events. Rows of one frame that follow each other are a view of its
    /// column; others are joined.
    pub(crate) fn of_events(
        py: Python<'_>,
        run: &Arc<Run>,
        source: SourceId,
        select: SelectEvents,
    ) -> PyResult<Self> {
        let (name, payload) = about(run, source);
        let kept =
            py.detach(|| collect(run, source, select)).map_err(crate::errors::python_error)?;
        let (kept, rows) = match kept {
            Collected::One(part) => (Kept::Column(part.column), part.rows),
            Collected::Many(joined) => {
                let rows = 0..joined.keys.len();
                (Kept::Joined(joined), rows)
            }
        };
        Ok(Self { source: name, payload, memory: Memory::new(py, kept)?, rows })
    }

    fn data_range(&self) -> Range<usize> {
        let kept = &self.memory.get().0;
        if self.rows.is_empty() {
            return 0..0;
        }
        kept.range(self.rows.start).start..kept.range(self.rows.end - 1).end
    }

    fn fragment<'py>(&self, py: Python<'py>, row: usize) -> Option<Bound<'py, PyArray1<u8>>> {
        let memory = self.memory.bind(py);
        let kept = &memory.get().0;
        kept.is_there(row).then(|| Memory::data(memory, kept.range(row)))
    }
}

#[pymethods]
impl Fragments {
    /// The source's name.
    #[getter]
    fn source(&self) -> &str {
        &self.source
    }

    /// Keys of the events, shape (n,), uint64.
    #[getter]
    fn keys<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        Memory::keys(self.memory.bind(py), self.rows.clone())
    }

    /// Where each row's fragment begins in `data`, shape (n + 1,), uint64; the last is the end.
    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        let view = Memory::offsets(self.memory.bind(py), self.rows.clone());
        let base = self.data_range().start as u64;
        if base == 0 {
            return view;
        }
        let kept = &self.memory.get().0;
        let mut offsets: Vec<u64> =
            self.rows.clone().map(|row| kept.range(row).start as u64 - base).collect();
        offsets.push(self.data_range().end as u64 - base);
        owned(py, offsets)
    }

    /// The fragments of all rows, one behind the other, shape (bytes,), uint8.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u8>> {
        Memory::data(self.memory.bind(py), self.data_range())
    }

    /// Whether each row has a fragment, shape (n,), bool. A fragment that is there can be empty.
    #[getter]
    fn valid<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        let kept = &self.memory.get().0;
        owned(py, self.rows.clone().map(|row| kept.is_there(row)).collect())
    }

    /// What the source says of its payload: `dtype` (numpy's), `shape` of one fragment's array (empty
    /// if fragments differ in length) and `skip`, the bytes before it. None for plain bytes.
    #[getter]
    fn payload<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.payload.as_ref().map(|payload| payload_dict(py, payload)).transpose()
    }

    /// The fragments as one array of the source's own type, shape (n, ...), without a copy where all
    /// are there; where some are missing a masked array. Raises TypeError if the source has no type,
    /// ValueError if a fragment does not have the length that its type has.
    #[getter]
    fn array<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("catchment._typed")?.call_method1("array", (slf,))
    }

    fn __len__(&self) -> usize {
        self.rows.len()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        index: isize,
    ) -> PyResult<Option<Bound<'py, PyArray1<u8>>>> {
        let row = row_of(index, self.rows.len())?;
        Ok(self.fragment(py, self.rows.start + row))
    }

    fn __iter__(slf: Bound<'_, Self>) -> FragmentIterator {
        let next = slf.get().rows.start;
        FragmentIterator { fragments: slf.unbind(), next }
    }

    fn __repr__(&self) -> String {
        let bytes = self.data_range().len();
        format!(
            "<catchment.Fragments of '{}': {} rows, {bytes} bytes>",
            self.source,
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

/// A Python index as a row: negative ones count from the end.
pub(crate) fn row_of(index: isize, rows: usize) -> PyResult<usize> {
    let row = if index < 0 { index.checked_add_unsigned(rows) } else { Some(index) };
    let row = row.and_then(|row| usize::try_from(row).ok()).filter(|row| *row < rows);
    row.ok_or_else(|| PyIndexError::new_err(format!("index {index} of {rows}")))
}

/// Name and type of a source.
pub(crate) fn about(run: &Run, source: SourceId) -> (String, Option<PayloadType>) {
    let schema = &run.header().schema;
    let id = schema.column(Some(source), &ColumnKind::FragmentPayload);
    let column = schema.columns.iter().find(|column| Some(column.id) == id);
    let typed = |payload: &PayloadType| {
        payload.dtype != Dtype::U8 || !payload.shape.is_empty() || payload.skip > 0
    };
    let payload = column.and_then(ColumnInfo::payload_type).filter(typed);
    (run.sources()[source.index()].name.clone(), payload)
}

fn payload_dict<'py>(py: Python<'py>, payload: &PayloadType) -> PyResult<Bound<'py, PyDict>> {
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
    let Some(second) = parts.next() else { return Ok(Collected::One(part)) };
    let mut joined = Joined { offsets: vec![0], ..Joined::default() };
    joined.add(&part);
    joined.add(&second?);
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
        self.data.extend_from_slice(part.payload());
    }
}
