//! The catalogue of runs, read only, as JSON.

use std::path::PathBuf;

use catchment_catalog::{Catalog, Quality, RunState, SEARCH_LIMIT_MAX, Search};
use catchment_model::Utc;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::Value;

use crate::errors::catalog_error;
use crate::json_error;

/// The runs of a folder that are as `query` says, newest first: a JSON object of the fields of a
/// search.
#[pyfunction]
pub(crate) fn catalog_runs_json(py: Python<'_>, folder: PathBuf, query: &str) -> PyResult<String> {
    let query: Value = serde_json::from_str(query).map_err(json_error)?;
    let mut search = search(&query)?;
    let runs = py.detach(|| {
        let catalog = Catalog::open_read_only(folder)?;
        let mut runs = Vec::new();
        loop {
            let (page, next) = catalog.page(&search)?;
            runs.extend(page);
            search.before = next;
            if next.is_none() {
                return Ok(runs);
            }
        }
    });
    serde_json::to_string(&runs.map_err(catalog_error)?).map_err(json_error)
}

/// A run with its ledger, files, frames, copies and configuration.
#[pyfunction]
pub(crate) fn catalog_show_json(py: Python<'_>, folder: PathBuf, number: u64) -> PyResult<String> {
    let shown = py.detach(|| {
        let catalog = Catalog::open_read_only(folder)?;
        let detail = catalog.run(number)?;
        let version = detail.run.configuration;
        let text = version.map(|version| catalog.configuration(version)).transpose()?;
        Ok(serde_json::json!({
            "ledger": detail.ledger.into_iter().collect::<std::collections::BTreeMap<_, _>>(),
            "files": detail.file_rows,
            "frames": catalog.frames(number)?,
            "copies": catalog.copies(number)?,
            "locations": detail.locations,
            "configuration": text.map(|text| text.text),
        }))
    });
    serde_json::to_string(&shown.map_err(catalog_error)?).map_err(json_error)
}

fn search(query: &Value) -> PyResult<Search> {
    let text = |key: &str| query[key].as_str();
    Ok(Search {
        text: text("text").unwrap_or_default().to_owned(),
        from: query["from"].as_u64(),
        before: query["before"].as_u64(),
        since: query["since_ns"].as_u64().map(Utc),
        until: query["until_ns"].as_u64().map(Utc),
        quality: text("quality").map(|name| known(name, Quality::from_name)).transpose()?,
        state: text("state").map(|name| known(name, RunState::from_name)).transpose()?,
        who: text("who").map(str::to_owned),
        limit: Some(SEARCH_LIMIT_MAX),
    })
}

fn known<T>(name: &str, from: impl Fn(&str) -> Option<T>) -> PyResult<T> {
    from(name).ok_or_else(|| PyValueError::new_err(format!("there is no '{name}'")))
}
