//! Runs that could not be entered in the catalogue when they began or ended, because another
//! process had locked it.
//!
//! Such a run takes its number from the file beside the database. All that is known of it is
//! written to `pending/NUMBER.json`, whole and durable, and rewritten when more is known. The next
//! process that opens the catalogue for writing enters it and removes the file; a lock excludes
//! concurrent access.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use catchment_disk::sync_folder;
use catchment_frame::{LocationKind, RunLocation};
use catchment_model::{RunId, Utc};
use rusqlite::{Connection, OptionalExtension, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use crate::catalog::RunEnd;
use crate::configurations;
use crate::error::CatalogError;
use crate::locations;
use crate::lock::{LiveRun, PATIENCE_AT_START, take};
use crate::remarks::{self, Remark};
use crate::row::{RunRow, RunState, StoredTotals, stored};
use crate::schema::{self, Paths};
use crate::step::step;
use crate::target_sources::{self, TargetSource};

/// All that is known of a run. What was entered before is entered again, so that nothing depends on
/// which of it could be.
#[derive(Clone, Debug, Default)]
pub struct RunKnown {
    /// Who started it.
    pub who: String,
    /// What it is for.
    pub comment: String,
    /// The configuration's text (TOML); empty if there is none.
    pub configuration: String,
    /// Whether its data are emulated.
    pub emulated: bool,
    /// When it got its number.
    pub taken: Utc,
    /// What was said of it so far.
    pub remarks: Vec<Remark>,
    /// Where its frames are sent; once it is over, with what is there.
    pub locations: Vec<RunLocation>,
    /// Once it is over, what became of its fragments in each target, if there were several.
    pub targets: Vec<TargetSource>,
    /// That it records.
    pub begun: Option<Begun>,
    /// That it is over.
    pub over: Option<Over>,
}

impl RunKnown {
    /// Whether files of it are in a folder here: not if storage nodes alone have it.
    pub fn has_folder(&self) -> bool {
        let mut kinds = self.locations.iter().map(|place| place.kind);
        self.locations.is_empty() || kinds.any(|kind| kind == LocationKind::Folder)
    }
}

/// A run's recording.
#[derive(Clone, Debug)]
pub struct Begun {
    /// Its identity.
    pub id: RunId,
    /// Its folder.
    pub folder: PathBuf,
    /// When it began.
    pub started: Utc,
}

/// What became of a run.
#[derive(Clone, Debug)]
pub enum Over {
    /// It was recorded.
    Ended(RunEnd),
    /// It did not come to a recording.
    Failed {
        /// Why.
        why: String,
        /// When.
        at: Utc,
    },
}

impl RunKnown {
    /// Writes it for the next process that opens the catalogue. Durable when this returns.
    ///
    /// # Errors
    /// The system refuses to write there too.
    pub fn keep(&self, folder: impl AsRef<Path>, live: &LiveRun) -> Result<(), CatalogError> {
        let paths = Paths::new(folder.as_ref());
        let (number, path) = (live.number(), paths.pending(live.number()));
        let pending = paths.pending_folder();
        std::fs::create_dir_all(&pending).map_err(CatalogError::system("make", &pending))?;
        let entry = Entry::of(&paths, number, self);
        let text = serde_json::to_vec_pretty(&entry).expect("strings and numbers are valid JSON");
        let _lock = lock(&paths)?;
        let new = path.with_extension("new");
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&text)?;
            step();
            file.sync_all()?;
            std::fs::rename(&new, &path)
        };
        write().map_err(CatalogError::system("write", &path))?;
        Ok(sync_folder(&pending)?)
    }
}

/// A run as it waits.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    number: u64,
    who: String,
    comment: String,
    configuration: String,
    #[serde(default)]
    emulated: bool,
    #[serde(default)]
    remarks: Vec<RemarkEntry>,
    #[serde(default, deserialize_with = "known")]
    locations: Vec<RunLocation>,
    #[serde(default, deserialize_with = "known")]
    targets: Vec<TargetSource>,
    taken_ns: u64,
    id: Option<String>,
    folder: Option<String>,
    started_ns: Option<u64>,
    over: Option<OverEntry>,
}

/// Those that are understood: one of a later version must not keep the run waiting.
fn known<'de, T, D>(from: D) -> Result<Vec<T>, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    let all = Vec::<serde_json::Value>::deserialize(from)?;
    Ok(all.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect())
}

#[derive(Debug, Serialize, Deserialize)]
struct RemarkEntry {
    time_ns: u64,
    kind: String,
    who: String,
    text: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct OverEntry {
    ended_ns: u64,
    state: String,
    reason: Option<String>,
    totals: Option<StoredTotals>,
}

impl RemarkEntry {
    fn of(remark: &Remark) -> Self {
        let Remark { time, kind, who, text } = remark.clone();
        Self { time_ns: time.0, kind, who, text }
    }

    fn remark(&self) -> Remark {
        let Self { time_ns, kind, who, text } = self;
        Remark { time: Utc(*time_ns), kind: kind.clone(), who: who.clone(), text: text.clone() }
    }
}

impl Entry {
    fn of(paths: &Paths, number: u64, known: &RunKnown) -> Self {
        let begun = known.begun.as_ref();
        let over = known.over.as_ref().map(|over| match over {
            Over::Ended(end) => {
                let state = if end.fault.is_some() { RunState::Fault } else { RunState::Complete };
                OverEntry {
                    ended_ns: end.ended.0,
                    state: state.name().into(),
                    reason: end.fault.as_deref().map(shortened),
                    totals: Some(StoredTotals::of(&end.totals)),
                }
            }
            Over::Failed { why, at } => OverEntry {
                ended_ns: at.0,
                state: RunState::Failed.name().into(),
                reason: Some(shortened(why)),
                totals: None,
            },
        });
        Self {
            number,
            who: known.who.clone(),
            comment: known.comment.clone(),
            configuration: known.configuration.clone(),
            emulated: known.emulated,
            remarks: known.remarks.iter().map(RemarkEntry::of).collect(),
            locations: known.locations.clone(),
            targets: known.targets.clone(),
            taken_ns: known.taken.0,
            id: begun.map(|begun| begun.id.to_string()),
            folder: begun.map(|begun| paths.folder_name(&begun.folder)),
            started_ns: begun.map(|begun| begun.started.0),
            over,
        }
    }

    /// Writes it. If another run has its number: that run's identity, and nothing is written.
    fn put(&self, connection: &Connection) -> rusqlite::Result<Option<String>> {
        let number = stored(self.number);
        let sql = "SELECT id, state IN ('complete', 'fault') OR \
            (state = 'failed' AND ended_ns IS NOT NULL) FROM runs WHERE number = ?";
        let there: Option<(Option<String>, bool)> =
            connection.query_row(sql, [number], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        match &there {
            Some((Some(got), _)) if self.id.as_ref() != Some(got) => {
                return Ok(Some(got.clone()));
            }
            Some(_) => self.fill_in(connection)?,
            None => self.insert(connection)?,
        }
        // The run's end was entered, and the process died before it removed what had waited.
        let is_old = self.over.is_none() && there.is_some_and(|(_, is_over)| is_over);
        connection.execute("UPDATE numbers SET highest = max(highest, ?)", [number])?;
        let remarks: Vec<Remark> = self.remarks.iter().map(RemarkEntry::remark).collect();
        remarks::put(connection, self.number, &remarks)?;
        if !is_old || locations::of_run(connection, self.number)?.is_empty() {
            locations::put(connection, self.number, &self.locations)?;
        }
        target_sources::put(connection, self.number, &self.targets)?;
        if let Some(started_ns) = self.started_ns {
            connection.execute(
                "UPDATE runs SET id = ?2, folder = ?3, started_ns = ?4, \
                 state = iif(?5, state, 'recording'), reason = iif(?5, reason, NULL) \
                 WHERE number = ?1",
                params![number, self.id, self.folder, stored(started_ns), is_old],
            )?;
        }
        let Some(over) = &self.over else { return Ok(None) };
        connection.execute(
            "UPDATE runs SET ended_ns = ?2, state = ?3, reason = ?4 WHERE number = ?1",
            params![number, stored(over.ended_ns), over.state, over.reason],
        )?;
        if let Some(totals) = &over.totals {
            totals.write(connection, self.number)?;
        }
        Ok(None)
    }

    /// Has the next look at what processes have left find the run's files: nobody looked at them.
    fn leave_files(&self, paths: &Paths) {
        if self.over.is_some() && self.folder.is_some() {
            // Without that the catalogue lacks them.
            let _left = File::options().append(true).create(true).open(paths.live(self.number));
        }
    }

    fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        let configuration = self.put_configuration(connection)?;
        let (comment, emulated) = (self.comment.clone(), self.emulated);
        let row = RunRow::starting(self.number, &self.who, Utc(self.taken_ns));
        RunRow { configuration, comment, emulated, ..row }.insert(connection)
    }

    /// Adds what people said to a row that lacks it: that of a rebuild is made from files, which
    /// have none of it.
    fn fill_in(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql = "UPDATE runs SET who = ?2 WHERE number = ?1 AND who = ''";
        connection.execute(sql, params![stored(self.number), self.who])?;
        let sql = "UPDATE runs SET comment = ?2 WHERE number = ?1 AND comment = ''";
        connection.execute(sql, params![stored(self.number), self.comment])?;
        let sql = "SELECT configuration FROM runs WHERE number = ?";
        let known: Option<i64> =
            connection.query_row(sql, [stored(self.number)], |row| row.get(0))?;
        if known.is_none()
            && let Some(version) = self.put_configuration(connection)?
        {
            let sql = "UPDATE runs SET configuration = ?2 WHERE number = ?1";
            connection.execute(sql, params![stored(self.number), stored(version)])?;
        }
        Ok(())
    }

    fn put_configuration(&self, connection: &Connection) -> rusqlite::Result<Option<u64>> {
        match self.configuration.as_str() {
            "" => Ok(None),
            text => configurations::put(connection, text, &self.who, Utc(self.taken_ns)).map(Some),
        }
    }
}

/// Enters all that is known of a run. If another run has its number: that run's identity.
pub(crate) fn enter(
    connection: &Connection,
    paths: &Paths,
    number: u64,
    known: &RunKnown,
) -> rusqlite::Result<Option<String>> {
    Entry::of(paths, number, known).put(connection)
}

/// Enters what waits, as far as it can be.
pub(crate) fn enter_all(connection: &mut Connection, paths: &Paths) -> Result<(), CatalogError> {
    if !is_any_pending(paths) {
        return Ok(());
    }
    let database = paths.database();
    let error = |source| CatalogError::sqlite(&database, source);
    let transaction = schema::begin(connection).map_err(error)?;
    let lock = lock(paths)?;
    let mut done = Vec::new();
    for path in pending(paths) {
        let text = std::fs::read(&path).map_err(CatalogError::system("read", &path))?;
        let entry: Option<Entry> = serde_json::from_slice(&text).ok();
        let refused = match entry {
            Some(entry) => {
                entry.leave_files(paths);
                entry.put(&transaction).map_err(error)?.is_some()
            }
            None => true,
        };
        done.push((path, refused));
    }
    step();
    transaction.commit().map_err(error)?;
    step();
    for (path, refused) in done {
        // What stays is entered again by the next process, with the same result.
        let _removed = match refused {
            false => std::fs::remove_file(&path),
            // Another run has its number, or it is no entry: it is kept for people to look at.
            true => std::fs::rename(&path, path.with_extension("refused")),
        };
    }
    drop(lock);
    Ok(())
}

/// A reason as it is stored: of bounded length.
fn shortened(reason: &str) -> String {
    reason.chars().take(REASON_CHARS_MAX).collect()
}

/// Whether something waits.
pub(crate) fn is_any_pending(paths: &Paths) -> bool {
    !pending(paths).is_empty()
}

fn pending(paths: &Paths) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(paths.pending_folder()) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|name| name == "json")).collect();
    paths.sort();
    paths
}

fn lock(paths: &Paths) -> Result<File, CatalogError> {
    let what = "another process that is entering runs";
    take(paths, &paths.pending_lock(), what, PATIENCE_AT_START, File::try_lock)
}

const REASON_CHARS_MAX: usize = 2_000;
