//! The catalogue made again from the runs' files.
//!
//! What the files say counts. From the old catalogue come the things that stand in no file:
//! comments, remarks, quality, who; where frames were sent, if the list of files does not say it;
//! numbers that were given to runs that failed; runs whose files are elsewhere now. The new one is
//! written beside the old one, and replaces it by a rename:
//!
//! ```text
//! catalog.sqlite.new ──whole, synced──► catalog.sqlite.ready ──► catalog.sqlite
//!                                        from here on it counts   the old one: .before-rebuild
//! ```
//!
//! After a kill before `.ready`, nothing has changed; after a later kill, the next process that
//! opens the catalogue finishes it. All of it under a lock, since SQLite's log beside a database
//! belongs to that database and no other: it must not be open when it is replaced.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

use catchment_disk::sync_folder;
use catchment_model::{RunId, Utc};
use catchment_storage::StorageError;
use rusqlite::Connection;
use serde::Serialize;

use crate::RUN_NUMBER_MAX;
use crate::configurations;
use crate::error::CatalogError;
use crate::facts::{self, Facts};
use crate::files;
use crate::locations;
use crate::lock::{self, OpenLock};
use crate::numbers::Numbers;
use crate::remarks;
use crate::row::{self, RunRow, RunState, stored};
use crate::salvage::{self, OldRun, Salvaged};
use crate::schema::{self, Paths, beside};
use crate::step::step;
use crate::target_sources;

/// What a rebuild came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RebuildReport {
    /// Runs in the catalogue now.
    pub runs: usize,
    /// Those of them whose files are here.
    pub runs_with_files: usize,
    /// Numbers of runs that were found without a normal end.
    pub interrupted: Vec<u64>,
    /// Runs that got another number than their files say.
    pub renumbered: Vec<Renumbered>,
    /// What could not be read of the runs, in words.
    pub problems: Vec<String>,
    /// What could not be read of the old catalogue; its comments may be lost.
    pub old_catalog: Option<String>,
    /// The highest number that was ever given.
    pub highest_number: u64,
    /// Where the old catalogue is now, if there was one.
    pub kept_as: Option<PathBuf>,
}

/// A run that has another number than its files say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Renumbered {
    /// Its number.
    pub number: u64,
    /// What its files say; 0: none.
    pub number_in_files: u64,
    /// Its folder.
    pub folder: String,
}

/// Makes a data folder's catalogue again. `progress` hears how many folders of how many were read.
///
/// # Errors
/// Somebody has the catalogue open for too long, a newer program made it, or the system refuses.
/// The old one is then as it was.
pub fn rebuild(
    folder: impl AsRef<Path>,
    mut progress: impl FnMut(usize, usize),
) -> Result<RebuildReport, CatalogError> {
    let paths = Paths::new(folder.as_ref());
    // A folder that is not there has no runs, and is more likely mistyped.
    paths.data.metadata().map_err(CatalogError::system("open", &paths.data))?;
    paths.make()?;
    let _alone = OpenLock::alone(&paths)?;
    finish(&paths)?;
    make(&paths, &mut progress)
}

/// Makes the catalogue. The caller has it alone.
pub(crate) fn make(
    paths: &Paths,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<RebuildReport, CatalogError> {
    let old = salvage::read(paths)?;
    let mut report = RebuildReport {
        old_catalog: old.as_ref().and_then(|old| old.problem.clone()),
        kept_as: paths.database().exists().then(|| paths.former_database()),
        ..RebuildReport::default()
    };
    let old = old.unwrap_or_default();
    let found = find(paths, &old, &mut report.problems, progress)?;
    let numbers = Numbers::lock(paths)?;
    let plan = Plan::of(paths, old, found, numbers.highest(), &mut report)?;
    let new = paths.new_database();
    for suffix in ["", "-journal", "-wal", "-shm"] {
        lock::remove(&beside(&new, suffix))?;
    }
    let mut connection = schema::create(&new)?;
    let error = |source| CatalogError::sqlite(&new, source);
    let transaction = schema::begin(&mut connection).map_err(error)?;
    plan.write(&transaction).map_err(error)?;
    transaction.commit().map_err(error)?;
    step();
    connection.close().map_err(|(_, source)| error(source))?;
    let file = File::open(&new).and_then(|file| file.sync_all());
    file.map_err(CatalogError::system("sync", &new))?;
    numbers.keep(plan.highest)?;
    step();
    rename(&new, &paths.ready_database())?;
    sync_folder(&paths.folder())?;
    step();
    finish(paths)?;
    Ok(report)
}

/// Replaces the catalogue by a rebuilt one that is complete. The caller has exclusive access.
pub(crate) fn finish(paths: &Paths) -> Result<(), CatalogError> {
    let (ready, database, former) =
        (paths.ready_database(), paths.database(), paths.former_database());
    if !ready.exists() {
        return Ok(());
    }
    if database.exists() {
        lock::remove(&beside(&former, "-wal"))?;
        lock::remove(&beside(&former, "-shm"))?;
        step();
        rename(&database, &former)?;
    }
    step();
    // The log goes with its database, and never with another.
    let log = beside(&database, "-wal");
    if log.exists() {
        rename(&log, &beside(&former, "-wal"))?;
    }
    step();
    lock::remove(&beside(&database, "-shm"))?;
    step();
    rename(&ready, &database)?;
    sync_folder(&paths.folder())?;
    Ok(())
}

fn rename(from: &Path, to: &Path) -> Result<(), CatalogError> {
    std::fs::rename(from, to).map_err(CatalogError::system("rename", from))
}

/// The runs in the data folder, each identity once.
fn find(
    paths: &Paths,
    old: &Salvaged,
    problems: &mut Vec<String>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Facts>, CatalogError> {
    let folders = facts::run_folders(&paths.data)?;
    let known: HashMap<RunId, &str> = old
        .runs
        .values()
        .filter_map(|old| Some((old.row.id?, old.row.folder.as_deref()?)))
        .collect();
    let mut found: Vec<Facts> = Vec::new();
    let count = folders.len();
    for (done, (name, path)) in folders.into_iter().enumerate() {
        progress(done, count);
        let facts = match Facts::read(&path, &name, true) {
            Ok(facts) => facts,
            // A folder of something else.
            Err(StorageError::NoFiles { .. }) => continue,
            Err(error) => {
                problems.push(error.to_string());
                continue;
            }
        };
        problems.extend(facts.problems.iter().cloned());
        // A run that was written again in other frames has the same identity.
        match found.iter_mut().find(|other| other.id == facts.id) {
            Some(other) => {
                let (mut taken, mut left) = (other.folder.clone(), name.clone());
                if known.get(&facts.id) == Some(&name.as_str()) {
                    std::mem::swap(&mut taken, &mut left);
                    *other = facts;
                }
                problems.push(format!("{left} is the same run as {taken}, which stands for both"));
            }
            None => found.push(facts),
        }
    }
    progress(count, count);
    found.sort_by(|one, other| (one.started, &one.folder).cmp(&(other.started, &other.folder)));
    Ok(found)
}

/// What is to be written.
struct Plan {
    configurations: Vec<configurations::ConfigurationText>,
    runs: BTreeMap<u64, Planned>,
    highest: u64,
}

struct Planned {
    old: Option<OldRun>,
    facts: Option<Facts>,
    row: RunRow,
}

impl Planned {
    /// Whether the run keeps its recorder's ledger, since the files do not have the end.
    fn keeps_own_ledger(&self) -> bool {
        let both = self.old.as_ref().zip(self.facts.as_ref());
        both.is_some_and(|(old, facts)| {
            files::keeps_own_ledger(old.row.state, !old.ledger.is_empty(), facts)
        })
    }
}

impl Plan {
    fn of(
        paths: &Paths,
        mut old: Salvaged,
        found: Vec<Facts>,
        known_highest: u64,
        report: &mut RebuildReport,
    ) -> Result<Self, CatalogError> {
        let live = lock::live_numbers(paths);
        let in_files = found.iter().map(|facts| facts.number).filter(|&n| n <= RUN_NUMBER_MAX);
        let given = old.runs.keys().copied().chain(live).chain(in_files);
        let given = given.chain([old.highest, known_highest]);
        let mut highest = given.filter(|&n| n <= RUN_NUMBER_MAX).max().unwrap_or(0);

        let numbers = assign(&old, &found, &mut highest)?;
        let mut runs = BTreeMap::new();
        for (facts, number) in found.into_iter().zip(numbers) {
            if facts.number != number {
                let (number_in_files, folder) = (facts.number, facts.folder.clone());
                report.renumbered.push(Renumbered { number, number_in_files, folder });
            }
            let old = old.runs.remove(&number);
            let row = merged(paths, number, old.as_ref(), &facts);
            if row.state == RunState::Interrupted {
                report.interrupted.push(number);
            }
            runs.insert(number, Planned { old, facts: Some(facts), row });
        }
        report.runs_with_files = runs.len();
        for (number, old) in std::mem::take(&mut old.runs) {
            let row = old.row.clone().seen_from(paths);
            runs.insert(number, Planned { old: Some(old), facts: None, row });
        }
        report.interrupted.sort_unstable();
        report.renumbered.sort_by_key(|run| run.number);
        report.runs = runs.len();
        report.highest_number = highest;
        Ok(Self { configurations: old.configurations, runs, highest })
    }

    fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        for old in &self.configurations {
            configurations::insert(connection, old)?;
        }
        let versions: Vec<u64> = self.configurations.iter().map(|c| c.about.version).collect();
        for (&number, planned) in &self.runs {
            let Planned { old, facts, row } = planned;
            let configuration = match facts {
                Some(Facts { configuration, .. }) if !configuration.is_empty() => {
                    let (who, now) = (&row.who, row.taken);
                    Some(configurations::put(connection, configuration, who, now)?)
                }
                // Of a run whose files are not here, if that could be read.
                _ => row.configuration.filter(|version| versions.contains(version)),
            };
            RunRow { configuration, ..row.clone() }.insert(connection)?;
            match (facts, old) {
                (Some(facts), _) => {
                    let own_ledger = planned.keeps_own_ledger();
                    files::put_facts(connection, number, facts, row.state, own_ledger)?;
                }
                (None, Some(old)) => {
                    files::insert_files(connection, number, &old.files, &old.spans)?;
                }
                (None, None) => {}
            }
            let Some(old) = old else { continue };
            remarks::put(connection, number, &old.remarks)?;
            target_sources::put(connection, number, &old.targets)?;
            if facts.as_ref().is_none_or(|facts| facts.locations.is_empty()) {
                locations::put(connection, number, &old.locations)?;
            }
            let in_files = facts.as_ref().is_some_and(|facts| facts.totals.ledger.is_some());
            if !in_files || planned.keeps_own_ledger() {
                row::put_ledger(connection, number, &old.ledger)?;
            }
            for copy in &old.copies {
                copy.insert(connection, number)?;
            }
        }
        connection.execute("UPDATE numbers SET highest = ?", [stored(self.highest)])?;
        Ok(())
    }
}

/// The numbers of the runs that were found, in their order.
fn assign(old: &Salvaged, found: &[Facts], highest: &mut u64) -> Result<Vec<u64>, CatalogError> {
    let by_id: HashMap<RunId, u64> =
        old.runs.values().filter_map(|old| Some((old.row.id?, old.row.number))).collect();
    let mut taken: std::collections::HashSet<u64> = by_id.values().copied().collect();
    let mut numbers: Vec<Option<u64>> = Vec::with_capacity(found.len());
    for facts in found {
        let own = by_id.get(&facts.id).copied().or_else(|| {
            let usable = (1..=RUN_NUMBER_MAX).contains(&facts.number);
            // A row of that number without an identity is this run, before it could say so.
            (usable && taken.insert(facts.number)).then_some(facts.number)
        });
        numbers.push(own);
    }
    // The first that says a number has it; the others get new ones.
    let mut all = Vec::with_capacity(found.len());
    for number in numbers {
        all.push(match number {
            Some(number) => number,
            None if *highest >= RUN_NUMBER_MAX => {
                return Err(CatalogError::NoNumbers { highest: *highest });
            }
            None => {
                *highest += 1;
                *highest
            }
        });
    }
    Ok(all)
}

/// A run's row: what the files say, and what only the old catalogue can know.
fn merged(paths: &Paths, number: u64, old: Option<&OldRun>, facts: &Facts) -> RunRow {
    let old = match old {
        Some(old) => old.row.clone(),
        None => RunRow::starting(number, "", facts.started),
    };
    // What was ended is not recorded any more, though its files be locked: a process that is being
    // started holds its parent's locks for a moment, and a recorder that has entered the end looks
    // at the files before it lets go.
    let has_end = facts.complete || matches!(old.state, RunState::Complete | RunState::Fault);
    let live = !has_end && (facts.recording || lock::is_live(paths, number));
    let (state, reason) = match old.state {
        _ if live => (RunState::Recording, None),
        RunState::Fault => (RunState::Fault, old.reason.clone()),
        RunState::Interrupted if !facts.complete => (RunState::Interrupted, old.reason.clone()),
        _ if facts.complete => (RunState::Complete, None),
        _ => {
            let (state, reason) = RunState::Recording.abandoned();
            (state, reason.map(str::to_owned))
        }
    };
    let ended: Option<Utc> = if live { None } else { old.ended.or(facts.ended) };
    RunRow {
        id: Some(facts.id),
        folder: Some(facts.folder.clone()),
        number_in_files: (facts.number != number).then_some(facts.number),
        emulated: facts.emulated,
        started: old.started.or(Some(facts.started)),
        ended,
        state,
        reason,
        ..old
    }
}
