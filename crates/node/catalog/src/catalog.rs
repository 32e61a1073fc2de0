//! A catalogue that is open: a run's number, its beginning and its end.

use std::path::Path;
use std::time::Duration;

use catchment_model::{RunId, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use crate::configurations;
use crate::error::CatalogError;
use crate::files;
use crate::lock::{self, LiveRun, OpenLock, PATIENCE, PATIENCE_AT_START};
use crate::numbers::Numbers;
use crate::pending;
use crate::rebuild;
use crate::remarks::{self, Remark};
use crate::row::{self, COLUMNS, Quality, RunDetail, RunRow, RunState, Totals, stored};
use crate::schema::{self, ForReading, Paths, SCHEMA_VERSION};
use crate::step::step;
use crate::{COMMENT_BYTES_MAX, CONFIGURATION_BYTES_MAX, WHO_BYTES_MAX};

/// A data folder's catalogue, open. Open it for what you want and drop it: while it is open a
/// rebuild waits. Opening takes about a millisecond; for those who ask often there is
/// [`crate::KeptCatalog`].
#[derive(Debug)]
pub struct Catalog {
    pub(crate) paths: Paths,
    pub(crate) connection: Connection,
    shared: bool,
    // Behind the connection: it is closed first.
    _lock: OpenLock,
}

/// What is known of a run before it begins.
#[derive(Clone, Debug, Default)]
pub struct NumberRequest<'a> {
    /// Who starts it.
    pub who: &'a str,
    /// What it is for.
    pub comment: &'a str,
    /// What was said when it was asked for.
    pub remark: Option<&'a Remark>,
    /// The configuration's text (TOML); empty if there is none.
    pub configuration: &'a str,
    /// Whether its data are emulated.
    pub emulated: bool,
    /// The number that it should have. It gets it if that is above every number given so far;
    /// otherwise the next one.
    pub wanted: Option<u64>,
    /// Now.
    pub now: Utc,
}

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct RunEnd {
    /// When.
    pub ended: Utc,
    /// Why its files could not be written to the end, if they could not.
    pub fault: Option<String>,
    /// What it came to.
    pub totals: Totals,
}

impl Catalog {
    /// Opens a data folder's catalogue to read and write. If there is none it is made, from the
    /// runs that are there. Runs whose process is gone become interrupted.
    ///
    /// # Errors
    /// [`CatalogError::Damaged`], [`CatalogError::Newer`], or what the system refuses.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, CatalogError> {
        Self::open_within(folder, PATIENCE)
    }

    /// As [`Catalog::open`], for what must not wait long: another process that has the catalogue is
    /// waited for so long, each time.
    ///
    /// # Errors
    /// As [`Catalog::open`]; [`CatalogError::InUse`] when the time is over.
    pub fn open_within(folder: impl AsRef<Path>, patience: Duration) -> Result<Self, CatalogError> {
        let paths = Paths::new(folder.as_ref());
        paths.make()?;
        let mut lock = OpenLock::shared(&paths, patience)?;
        if !paths.database().exists() || paths.ready_database().exists() {
            drop(lock);
            let alone = OpenLock::alone(&paths)?;
            rebuild::finish(&paths)?;
            // Unless another process has made it meanwhile.
            if !paths.database().exists() {
                rebuild::make(&paths, &mut |_, _| ())?;
            }
            drop(alone);
            lock = OpenLock::shared(&paths, patience)?;
        }
        let connection = schema::open(&paths.database(), patience)?;
        let mut catalog = Self { paths, connection, shared: true, _lock: lock };
        match catalog.sweep() {
            // Whoever opens it next does it.
            Ok(()) | Err(CatalogError::InUse { .. }) => Ok(catalog),
            Err(error) => Err(error),
        }
    }

    /// Opens it to read only. Nothing is made or changed, but that an older version is brought up
    /// to date; a run whose process is gone is shown as what it is.
    ///
    /// # Errors
    /// As [`Catalog::open`]; [`CatalogError::Missing`] if there is none.
    pub fn open_read_only(folder: impl AsRef<Path>) -> Result<Self, CatalogError> {
        let paths = Paths::new(folder.as_ref());
        let lock = OpenLock::for_reading(&paths)?;
        // A rebuild that was killed while it put the new one in its place.
        let ready = paths.ready_database();
        let in_place = !ready.exists();
        let path = if in_place { paths.database() } else { ready };
        if !path.exists() {
            return Err(CatalogError::Missing { folder: paths.data });
        }
        let ForReading { connection, version, shared } = schema::open_for_reading(&path)?;
        if version < SCHEMA_VERSION {
            drop((connection, lock));
            return Self::open(folder);
        }
        Ok(Self { paths, connection, shared: shared && in_place, _lock: lock })
    }

    /// Enters what could not be entered before ([`crate::RunKnown::keep`]), if there is something
    /// and it can be done now.
    pub fn settle(folder: impl AsRef<Path>) {
        let folder = folder.as_ref();
        if pending::is_any_pending(&Paths::new(folder)) {
            // Otherwise it waits on, for the next.
            let _entered = Self::open_within(folder, PATIENCE_AT_START);
        }
    }

    /// Gives a run its number, and puts it into the catalogue as starting. The number is durable
    /// before this returns, and is never given again, whatever becomes of the run.
    ///
    /// # Errors
    /// A text that is too long, no numbers left, or a catalogue that cannot be written; then
    /// [`LiveRun::without_catalog`] may still give one.
    pub fn next_run_number(
        &mut self,
        request: &NumberRequest<'_>,
    ) -> Result<LiveRun, CatalogError> {
        check_text("who", request.who, WHO_BYTES_MAX)?;
        check_comment(request.comment)?;
        request.remark.map_or(Ok(()), Remark::check)?;
        configurations::check(request.configuration)?;
        let (paths, error) = (self.paths.clone(), self.error());
        let transaction = schema::begin(&mut self.connection).map_err(&error)?;
        let configuration = match request.configuration {
            "" => None,
            text => Some(
                configurations::put(&transaction, text, request.who, request.now)
                    .map_err(&error)?,
            ),
        };
        let known = highest(&transaction).map_err(&error)?;
        let numbers = Numbers::lock(&paths)?;
        let number = numbers.next(known, request.wanted)?;
        // Locked before anybody can see the row, or it would be taken for one whose process is
        // gone.
        let live = LiveRun::hold(&paths, number)?;
        step();
        transaction.execute("UPDATE numbers SET highest = ?", [stored(number)]).map_err(&error)?;
        let run = RunRow {
            configuration,
            comment: request.comment.to_owned(),
            emulated: request.emulated,
            ..RunRow::starting(number, request.who, request.now)
        };
        run.insert(&transaction).map_err(&error)?;
        remarks::put(&transaction, number, request.remark.map_or(&[][..], std::slice::from_ref))
            .map_err(&error)?;
        numbers.keep(number)?;
        step();
        transaction.commit().map_err(&error)?;
        step();
        Ok(live)
    }

    /// The run records from now on.
    ///
    /// # Errors
    /// Another run has its number, or the catalogue cannot be written.
    pub fn begin_run(
        &mut self,
        live: &LiveRun,
        id: RunId,
        folder: &Path,
        started: Utc,
    ) -> Result<(), CatalogError> {
        let (number, error) = (live.number(), self.error());
        let folder = self.paths.folder_name(folder);
        let transaction = schema::begin(&mut self.connection).map_err(&error)?;
        ensure(&transaction, number, started).map_err(&error)?;
        let sql = "SELECT id FROM runs WHERE number = ?1";
        let got: Option<String> =
            transaction.query_row(sql, [stored(number)], |row| row.get(0)).map_err(&error)?;
        if let Some(got) = got.filter(|got| *got != id.to_string()) {
            return Err(CatalogError::OtherRun { number, got });
        }
        transaction
            .execute(
                "UPDATE runs SET id = ?2, folder = ?3, started_ns = ?4, state = 'recording', \
                 reason = NULL WHERE number = ?1",
                params![stored(number), id.to_string(), folder, stored(started.0)],
            )
            .map_err(&error)?;
        transaction.commit().map_err(&error)
    }

    /// The run has ended: its state and its books are final. Files and frames are added by
    /// [`Catalog::scan`].
    ///
    /// # Errors
    /// A catalogue that cannot be written.
    pub fn end_run(&mut self, live: &LiveRun, end: &RunEnd) -> Result<(), CatalogError> {
        let state = if end.fault.is_some() { RunState::Fault } else { RunState::Complete };
        let (number, error) = (live.number(), self.error());
        let transaction = schema::begin(&mut self.connection).map_err(&error)?;
        ensure(&transaction, number, end.ended).map_err(&error)?;
        put_totals(&transaction, number, &end.totals, end.totals.loss_count()).map_err(&error)?;
        transaction
            .execute(
                "UPDATE runs SET ended_ns = ?2, state = ?3, reason = ?4 WHERE number = ?1",
                params![stored(number), stored(end.ended.0), state.name(), reason(&end.fault)],
            )
            .map_err(&error)?;
        transaction.commit().map_err(&error)
    }

    /// The run did not come to a recording.
    ///
    /// # Errors
    /// A catalogue that cannot be written.
    pub fn fail_run(&mut self, live: &LiveRun, why: &str, now: Utc) -> Result<(), CatalogError> {
        let (number, error) = (live.number(), self.error());
        let transaction = schema::begin(&mut self.connection).map_err(&error)?;
        ensure(&transaction, number, now).map_err(&error)?;
        transaction
            .execute(
                "UPDATE runs SET ended_ns = ?2, state = 'failed', reason = ?3 WHERE number = ?1",
                params![stored(number), stored(now.0), reason(&Some(why.to_owned()))],
            )
            .map_err(&error)?;
        transaction.commit().map_err(&error)
    }

    /// A run.
    ///
    /// # Errors
    /// [`CatalogError::NoRun`], or a database that cannot be read.
    pub fn run(&self, number: u64) -> Result<RunDetail, CatalogError> {
        let sql = format!("SELECT {COLUMNS} FROM runs WHERE number = ?");
        let detail = self.read(|connection| {
            let found = connection.query_row(&sql, [stored(number)], RunRow::read).optional()?;
            let Some(run) = found else { return Ok(None) };
            let ledger = row::ledger_of(connection, number)?;
            let remarks = remarks::of_run(connection, number)?;
            let file_rows = files::of_run(connection, number)?;
            Ok(Some(RunDetail { run, ledger, remarks, file_rows }))
        })?;
        let detail = detail.ok_or(CatalogError::NoRun { number })?;
        Ok(RunDetail { run: detail.run.seen_from(&self.paths), ..detail })
    }

    /// The highest number that was given.
    ///
    /// # Errors
    /// A database that cannot be read.
    pub fn highest_number(&self) -> Result<u64, CatalogError> {
        self.read(highest)
    }

    /// Runs whose process is gone are interrupted, or failed; what they have on disk is looked up.
    pub(crate) fn sweep(&mut self) -> Result<(), CatalogError> {
        self.enter_pending()?;
        let paths = self.paths.clone();
        let sql = "SELECT number, state FROM runs WHERE state IN ('starting', 'recording')";
        let open = |connection: &Connection| {
            let mut select = connection.prepare(sql)?;
            let state = |row: &rusqlite::Row<'_>| row::word(row, "state", RunState::from_name);
            let rows = select.query_map([], |row| Ok((row::out(row.get(0)?), state(row)?)))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        let gone = |runs: Vec<(u64, RunState)>| -> Vec<(u64, RunState)> {
            runs.into_iter().filter(|(number, _)| !lock::is_live(&paths, *number)).collect()
        };
        let left_over = lock::is_any_left_over(&paths);
        let runs = gone(self.read(open)?);
        if runs.is_empty() && !left_over {
            return Ok(());
        }
        // Before anything is written: what a run is and what it came to are entered at once, so
        // that a process that dies in between leaves both to the next.
        let found: Vec<_> = runs
            .into_iter()
            .map(|(number, state)| {
                let look = || {
                    self.remove_leftovers(number);
                    // What cannot be read is said when somebody reads it.
                    self.look(number).ok().flatten()
                };
                (number, state, (state == RunState::Recording).then(look).flatten())
            })
            .collect();
        step();
        let error = self.error();
        // Again, now that nobody takes a number.
        let transaction = schema::begin(&mut self.connection).map_err(&error)?;
        let still = gone(open(&transaction).map_err(&error)?);
        for (number, state, found) in found {
            if !still.contains(&(number, state)) {
                continue;
            }
            let (state, reason) = state.abandoned();
            transaction
                .execute(
                    "UPDATE runs SET state = ?2, reason = ?3 WHERE number = ?1",
                    params![stored(number), state.name(), reason],
                )
                .map_err(&error)?;
            if let Some(found) = found {
                found.put(&transaction).map_err(&error)?;
            }
        }
        let numbers = Numbers::lock(&paths)?;
        lock::remove_left_over(&paths);
        drop(numbers);
        transaction.commit().map_err(&error)
    }

    /// Gives back what a run that was killed had taken of the disk and not filled.
    fn remove_leftovers(&self, number: u64) {
        let Ok(RunRow { folder: Some(folder), .. }) = self.run(number).map(|detail| detail.run)
        else {
            return;
        };
        // What cannot be given back now is by a repair, which says why not.
        let _removed = catchment_storage::remove_leftovers(&self.paths.data.join(folder));
    }

    pub(crate) fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, CatalogError> {
        query(&self.connection).map_err(self.error())
    }

    /// How long another process is waited for from now on.
    pub(crate) fn be_patient(&self, patience: Duration) -> Result<(), CatalogError> {
        self.connection.busy_timeout(patience).map_err(self.error())
    }

    /// Whether it may stay open: others can write it meanwhile, and what they write is seen.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Whether it has the tables that this program knows: another may bring them up to date
    /// meanwhile.
    pub(crate) fn is_of_this_version(&self) -> bool {
        let version = self.connection.pragma_query_value(None, "user_version", |row| row.get(0));
        version.is_ok_and(|version: i64| version == SCHEMA_VERSION)
    }

    /// Merges the log into the database, as far as nobody reads there.
    pub(crate) fn checkpoint(&self) -> Result<(), CatalogError> {
        let no_row = |_: &rusqlite::Row<'_>| Ok(());
        self.read(|connection| connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], no_row))
    }

    /// What commits wait for from now on: see [`schema::open`].
    pub(crate) fn sync(&self, level: &str) -> Result<(), CatalogError> {
        self.connection.pragma_update(None, "synchronous", level).map_err(self.error())
    }

    /// Runs statements as one transaction.
    pub(crate) fn write<T>(
        &mut self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, CatalogError> {
        let error = self.error();
        let transaction = schema::begin(&mut self.connection).map_err(&error)?;
        let result = change(&transaction).map_err(&error)?;
        transaction.commit().map_err(&error)?;
        Ok(result)
    }

    pub(crate) fn error(&self) -> impl Fn(rusqlite::Error) -> CatalogError + use<> {
        let path = self.paths.database();
        move |source| CatalogError::sqlite(&path, source)
    }
}

impl RunRow {
    /// A run that has just got its number.
    pub(crate) fn starting(number: u64, who: &str, taken: Utc) -> Self {
        Self {
            number,
            id: None,
            folder: None,
            number_in_files: None,
            taken,
            started: None,
            ended: None,
            who: who.to_owned(),
            comment: String::new(),
            configuration: None,
            emulated: false,
            state: RunState::Starting,
            reason: None,
            quality: Quality::Unknown,
            events: None,
            fragments: None,
            bytes: None,
            frames: None,
            files: None,
            loss_count: None,
        }
    }
}

/// Refuses a comment that no catalogue takes.
///
/// # Errors
/// It is too long, or has control characters.
pub fn check_comment(comment: &str) -> Result<(), CatalogError> {
    check_text("a comment of", comment, COMMENT_BYTES_MAX)
}

/// Refuses a text that is too long, or that a terminal would obey.
pub(crate) fn check_text(
    what: &'static str,
    text: &str,
    bytes_max: usize,
) -> Result<(), CatalogError> {
    if text.len() > bytes_max {
        let (expected, got) = (format!("at most {bytes_max} bytes"), text.len().to_string());
        return Err(CatalogError::Text { what, expected, got: format!("{got} bytes") });
    }
    let obeyed = |&c: &char| c.is_control() && !['\n', '\t'].contains(&c);
    if let Some(bad) = text.chars().find(obeyed) {
        let expected = "text without control characters".to_owned();
        return Err(CatalogError::Text { what, expected, got: format!("{bad:?}") });
    }
    Ok(())
}

/// The highest number that was given, as the database knows it.
pub(crate) fn highest(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT max(highest, coalesce((SELECT max(number) FROM runs), 0)) FROM numbers";
    connection.query_row(sql, [], |row| row.get(0)).map(row::out)
}

/// Writes what a run came to. What is not known stays as it was.
pub(crate) fn put_totals(
    connection: &Connection,
    number: u64,
    totals: &Totals,
    loss_count: Option<u64>,
) -> rusqlite::Result<()> {
    connection.execute(
        "UPDATE runs SET events = ?2, bytes = ?3, frames = ?4, files = ?5, \
         fragments = coalesce(?6, fragments), loss = coalesce(?7, loss) WHERE number = ?1",
        params![
            stored(number),
            stored(totals.events),
            stored(totals.bytes),
            stored(totals.frames),
            stored(totals.files),
            totals.fragments().map(stored),
            loss_count.map(stored),
        ],
    )?;
    match totals.ledger {
        Some(_) => row::put_ledger(connection, number, &totals.entries()),
        None => Ok(()),
    }
}

/// A row for a run whose number was given without the catalogue, or by one that is no more.
pub(crate) fn ensure(connection: &Connection, number: u64, now: Utc) -> rusqlite::Result<()> {
    let sql = "SELECT count(*) FROM runs WHERE number = ?";
    let there: i64 = connection.query_row(sql, [stored(number)], |row| row.get(0))?;
    if there == 0 {
        RunRow::starting(number, "", now).insert(connection)?;
    }
    let sql = "UPDATE numbers SET highest = max(highest, ?)";
    connection.execute(sql, [stored(number)]).map(|_| ())
}

/// A reason as it is kept: not for ever long.
pub(crate) fn reason(text: &Option<String>) -> Option<String> {
    text.as_ref().map(|text| text.chars().take(REASON_CHARS_MAX).collect())
}

const REASON_CHARS_MAX: usize = 2_000;

const _: () = assert!(COMMENT_BYTES_MAX < CONFIGURATION_BYTES_MAX);
