//! What can still be read of a catalogue, damaged or not.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use catchment_frame::RunLocation;
use catchment_model::RunId;
use rusqlite::{Connection, Row};

use crate::RUN_NUMBER_MAX;
use crate::configurations::{self, ConfigurationText};
use crate::error::CatalogError;
use crate::files::{Copy, FileRow, FrameSpan};
use crate::locations;
use crate::remarks::{self, Remark};
use crate::row::{self, COLUMNS, RunRow, out};
use crate::schema::{self, Paths};
use crate::target_sources::{self, TargetSource};

/// A catalogue's contents.
#[derive(Debug, Default)]
pub(crate) struct Salvaged {
    pub(crate) runs: BTreeMap<u64, OldRun>,
    pub(crate) configurations: Vec<ConfigurationText>,
    /// The highest number that it says was given.
    pub(crate) highest: u64,
    ids: HashSet<RunId>,
    /// The first thing that could not be read.
    pub(crate) problem: Option<String>,
    /// The first thing that was refused, and is not damage.
    refused: Option<CatalogError>,
    path: PathBuf,
}

/// A run as it was in the catalogue.
#[derive(Debug)]
pub(crate) struct OldRun {
    pub(crate) row: RunRow,
    pub(crate) ledger: Vec<(String, u64)>,
    pub(crate) remarks: Vec<Remark>,
    pub(crate) files: Vec<FileRow>,
    pub(crate) spans: Vec<FrameSpan>,
    pub(crate) copies: Vec<Copy>,
    pub(crate) locations: Vec<RunLocation>,
    pub(crate) targets: Vec<TargetSource>,
}

/// Reads the catalogue, or if there is none the one before the last rebuild. None if there is
/// neither.
///
/// # Errors
/// A newer program's catalogue, or the system refuses. Damage is no error here.
pub(crate) fn read(paths: &Paths) -> Result<Option<Salvaged>, CatalogError> {
    let there = |path: &Path| path.metadata().is_ok_and(|file| file.len() > 0);
    let database = paths.database();
    let former = paths.former_database();
    let path = if there(&database) { database } else { former };
    if !there(&path) {
        return Ok(None);
    }
    let mut salvaged = Salvaged::default();
    match schema::open_for_reading(&path) {
        Ok(open) => salvaged.read(&open.connection, open.version, &path),
        Err(error @ CatalogError::Damaged { .. }) => salvaged.problem = Some(error.to_string()),
        Err(error) => return Err(error),
    }
    // Somebody's lock, a disk that cannot be read now: what is there must not be given up for that.
    match salvaged.refused.take() {
        Some(error) => Err(error),
        None => Ok(Some(salvaged)),
    }
}

impl Salvaged {
    fn read(&mut self, connection: &Connection, version: i64, path: &Path) {
        self.path = path.to_owned();
        let highest = connection.query_row("SELECT highest FROM numbers", [], |row| row.get(0));
        self.highest = self.keep(highest).map_or(0, out);
        let about = configurations::ABOUT;
        let sql = format!("SELECT {about}, text FROM configurations");
        // Those of the newest version, whatever this one has.
        let columns = match version >= VERSION_WITH_EMULATED {
            true => COLUMNS.to_owned(),
            false => COLUMNS.replace("emulated", "0 AS emulated"),
        };
        // From both ends, so that what is broken in the middle costs no more than that.
        for order in ["ASC", "DESC"] {
            let found = self.rows(
                connection,
                &format!("{sql} ORDER BY version {order}"),
                configurations::with_text,
            );
            for one in found {
                let known = |old: &ConfigurationText| {
                    old.about.version == one.about.version || old.about.sha256 == one.about.sha256
                };
                let intact = configurations::sha256(&one.text) == one.about.sha256;
                if intact && !self.configurations.iter().any(known) {
                    self.configurations.push(one);
                }
            }
            let runs = format!("SELECT {columns}, NULL AS bad FROM runs ORDER BY number {order}");
            for mut run in self.rows(connection, &runs, RunRow::read) {
                let possible = (1..=RUN_NUMBER_MAX).contains(&run.number);
                if possible && !self.runs.contains_key(&run.number) {
                    // Two cannot have one identity: the files say whose it is.
                    run.id = run.id.filter(|id| self.ids.insert(*id));
                    let old = self.old_run(connection, version, run);
                    self.runs.insert(old.row.number, old);
                }
            }
            if self.problem.is_none() {
                break;
            }
        }
        self.configurations.sort_by_key(|one| one.about.version);
    }

    fn old_run(&mut self, connection: &Connection, version: i64, row: RunRow) -> OldRun {
        let number = row.number;
        let ledger = self.keep(row::ledger_of(connection, number)).unwrap_or_default();
        let remarks = match version >= VERSION_WITH_REMARKS {
            true => self.keep(remarks::of_run(connection, number)).unwrap_or_default(),
            false => Remark::of_comment(&row).into_iter().collect(),
        };
        let locations = match version >= VERSION_WITH_LOCATIONS {
            true => self.keep(locations::of_run(connection, number)).unwrap_or_default(),
            false => Vec::new(),
        };
        let targets = match version >= VERSION_WITH_TARGETS {
            true => self.keep(target_sources::of_run(connection, number)).unwrap_or_default(),
            false => Vec::new(),
        };
        let (files, spans, copies) = (Vec::new(), Vec::new(), Vec::new());
        let mut old = OldRun { row, ledger, remarks, files, spans, copies, locations, targets };
        if version >= VERSION_WITH_FILES {
            old.files = self.keep(FileRow::of_run(connection, number)).unwrap_or_default();
            old.spans = self.keep(FrameSpan::of_run(connection, number)).unwrap_or_default();
            old.copies = self.keep(Copy::of_run(connection, number)).unwrap_or_default();
        }
        old
    }

    /// The rows that can be read.
    fn rows<T>(
        &mut self,
        connection: &Connection,
        sql: &str,
        read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Vec<T> {
        let Some(mut select) = self.keep(connection.prepare(sql)) else { return Vec::new() };
        let Some(rows) = self.keep(select.query_map([], read)) else { return Vec::new() };
        let mut found = Vec::new();
        for row in rows {
            found.extend(self.keep(row));
        }
        found
    }

    fn keep<T>(&mut self, result: rusqlite::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                let problem = error.to_string();
                match CatalogError::sqlite(&self.path, error) {
                    CatalogError::Damaged { .. } => self.problem.get_or_insert(problem),
                    other => {
                        self.refused.get_or_insert(other);
                        return None;
                    }
                };
                None
            }
        }
    }
}

const VERSION_WITH_FILES: i64 = 2;
const VERSION_WITH_EMULATED: i64 = 3;
const VERSION_WITH_REMARKS: i64 = 4;
const VERSION_WITH_LOCATIONS: i64 = 5;
const VERSION_WITH_TARGETS: i64 = 7;
