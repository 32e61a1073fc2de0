//! The ledger as a mapping.

use catchment_frame::SourceInfo;
use catchment_model::{Entry, Ledger, SourceLedger};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict, PyIterator, PyList};

use crate::errors::{UnknownSourceError, warn};
use crate::sources::unknown_name;

/// What became of everything that the sources sent: a mapping from source names to counts.
#[pyclass(name = "Ledger", frozen, mapping, module = "catchment")]
pub(crate) struct RunLedger {
    names: Vec<String>,
    reasons: Vec<Vec<String>>,
    ledger: Ledger,
    recomputed: bool,
}

impl RunLedger {
    fn new(sources: &[SourceInfo], ledger: Ledger, recomputed: bool) -> Self {
        let names = sources.iter().map(|source| source.name.clone()).collect();
        let reasons = sources.iter().map(|source| source.malformed_reasons.clone()).collect();
        Self { names, reasons, ledger, recomputed }
    }

    fn counts(&self, index: usize) -> Counts {
        Counts {
            name: self.names[index].clone(),
            reasons: self.reasons[index].clone(),
            counts: self.ledger.sources[index].clone(),
        }
    }
}

#[pymethods]
impl RunLedger {
    /// All sources together.
    #[getter]
    fn total(&self) -> Counts {
        let name = "all sources".to_owned();
        Counts { name, reasons: Vec::new(), counts: self.ledger.total() }
    }

    /// Whether everything that came in is explained, for every source. While a run goes on, or when
    /// its recorder was killed, some fragments are in flight and it is not.
    #[getter]
    fn balanced(&self) -> bool {
        self.ledger.balance().holds()
    }

    /// Fragments that were sent and are in no file: lost on the way, or dropped.
    #[getter]
    fn lost(&self) -> u64 {
        let balance = self.ledger.balance();
        balance.fragments_lost.saturating_add(balance.fragments_dropped)
    }

    /// Whether anything that was sent is in no file; malformed packets count too.
    #[getter]
    fn lost_data(&self) -> bool {
        self.ledger.balance().lost_data()
    }

    /// How many recorded fragments are bad: marked broken by their sender, of another trigger than
    /// their event, or with a part missing. They are no loss.
    #[getter]
    fn bad_data(&self) -> u64 {
        self.ledger.bad_data()
    }

    /// Whether these counts were taken from the frames, because the file's end does not have them:
    /// the run is being recorded, or its recorder was killed.
    #[getter]
    fn recomputed(&self) -> bool {
        self.recomputed
    }

    fn __getitem__(&self, name: &str) -> PyResult<Counts> {
        let index = self.names.iter().position(|known| known == name);
        let names = self.names.iter().map(String::as_str);
        let unknown = || UnknownSourceError::new_err(unknown_name("source", name, names));
        Ok(self.counts(index.ok_or_else(unknown)?))
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<&str>().is_ok_and(|name| self.names.iter().any(|known| known == name))
    }

    fn __len__(&self) -> usize {
        self.names.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys(py)?.try_iter()
    }

    /// The names of the sources.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, &self.names)
    }

    /// The counts of the source of that name, or `default` if there is none.
    #[pyo3(signature = (source, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        source: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.names.iter().position(|known| known == source) {
            Some(index) => self.counts(index).into_bound_py_any(py),
            None => Ok(default.unwrap_or_else(|| py.None().into_bound(py))),
        }
    }

    /// The counts of each source.
    fn values(&self) -> Vec<Counts> {
        (0..self.names.len()).map(|index| self.counts(index)).collect()
    }

    /// Names and counts.
    fn items(&self) -> Vec<(String, Counts)> {
        let indices = 0..self.names.len();
        indices.map(|index| (self.names[index].clone(), self.counts(index))).collect()
    }

    fn __repr__(&self) -> String {
        let total = self.ledger.total();
        let recorded = total[Entry::FragmentsRecorded];
        let balance = if self.balanced() { "balanced" } else { "not balanced" };
        format!(
            "<catchment.Ledger of {} sources: {recorded} fragments recorded, {} lost, {balance}>",
            self.names.len(),
            self.lost()
        )
    }
}

/// One source's counts: a mapping from the names of entries to numbers.
#[pyclass(name = "SourceLedger", frozen, mapping, module = "catchment")]
#[derive(Clone)]
pub(crate) struct Counts {
    name: String,
    /// The names of its reasons for malformed packets.
    reasons: Vec<String>,
    counts: SourceLedger,
}

#[pymethods]
impl Counts {
    /// Whether everything that came in is explained.
    #[getter]
    fn balanced(&self) -> bool {
        self.counts.balance().holds()
    }

    /// Fragments that were sent and are in no file: lost on the way, or dropped.
    #[getter]
    fn lost(&self) -> u64 {
        let balance = self.counts.balance();
        balance.fragments_lost.saturating_add(balance.fragments_dropped)
    }

    /// Fragments that came in and are neither recorded nor counted as dropped.
    #[getter]
    fn in_flight(&self) -> i128 {
        self.counts.balance().fragments_in_flight
    }

    /// Malformed packets by the reasons of the source's protocol, as far as there were any.
    #[getter]
    fn malformed_reasons<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counted = self.reasons.iter().zip(self.counts.reasons);
        counted.filter(|(_, count)| *count > 0).into_py_dict(py)
    }

    fn __getitem__(&self, name: &str) -> PyResult<u64> {
        match Entry::from_name(name) {
            Some(entry) => Ok(self.counts[entry]),
            None => Err(pyo3::exceptions::PyKeyError::new_err(name.to_owned())),
        }
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> bool {
        name.extract::<&str>().is_ok_and(|name| Entry::from_name(name).is_some())
    }

    fn __len__(&self) -> usize {
        Entry::COUNT
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.keys(py)?.try_iter()
    }

    /// The names of the entries.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, Entry::ALL.iter().map(|entry| entry.name()))
    }

    /// The number of that entry, or `default` if there is none.
    #[pyo3(signature = (entry, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        entry: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match Entry::from_name(entry) {
            Some(entry) => self.counts[entry].into_bound_py_any(py),
            None => Ok(default.unwrap_or_else(|| py.None().into_bound(py))),
        }
    }

    /// The numbers, in the order of the names.
    fn values(&self) -> Vec<u64> {
        self.counts.iter().map(|(_, count)| count).collect()
    }

    /// Names and numbers.
    fn items(&self) -> Vec<(&'static str, u64)> {
        self.counts.iter().map(|(entry, count)| (entry.name(), count)).collect()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let py = other.py();
        if let Ok(other) = other.cast::<Self>() {
            return (self.counts == other.get().counts).into_py_any(py);
        }
        if other.is_instance_of::<PyDict>() {
            let mine = PyDict::new(py);
            for (entry, count) in self.counts.iter() {
                mine.set_item(entry.name(), count)?;
            }
            return mine.eq(other)?.into_py_any(py);
        }
        Ok(py.NotImplemented())
    }

    fn __repr__(&self) -> String {
        let counts = self.counts.iter().filter(|(_, count)| *count != 0);
        let text: Vec<_> = counts.map(|(entry, count)| format!("{entry}: {count}")).collect();
        format!("<catchment.SourceLedger of {}: {}>", self.name, text.join(", "))
    }
}

/// The ledger of a run: the recorder's total, or the sum over the frames where there is none.
pub(crate) fn of_run(py: Python<'_>, run: &catchment_storage::Run) -> PyResult<RunLedger> {
    let sources = run.sources();
    let recorded = py.detach(|| run.recorded_ledger());
    if let Some(ledger) = recorded.map_err(crate::errors::python_error)? {
        return Ok(RunLedger::new(sources, ledger, false));
    }
    let (ledger, problems) = py.detach(|| catchment_storage::recompute(run));
    if let Some(problem) = problems.first() {
        let file = problem.file.display();
        warn(py, &format!("{file}: {} (not in the ledger)", problem.problem))?;
    }
    Ok(RunLedger::new(sources, ledger, true))
}
