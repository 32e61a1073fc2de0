//! A catalogue that is open: a run's number, its beginning and its end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use catchment_model::{RunId, Utc};
use rusqlite::{Connection, OptionalExtension, params};

use crate::configurations::{self, Configuration, ConfigurationText};
use crate::error::{CatalogError, check_comment, check_text};
use crate::files::{Copy, FileRow, Found, FrameSpan};
use crate::locations;
use crate::lock::{self, LiveRun, OpenLock, PATIENCE, PATIENCE_AT_START};
use crate::numbers::Numbers;
use crate::pending::{self, RunKnown};
use crate::rebuild;
use crate::remarks::{self, Added, Remark};
use crate::row::{self, Quality, RunDetail, RunRow, RunState, Totals, stored};
use crate::schema::{self, ForReading, Paths, SCHEMA_VERSION};
use crate::search::Search;
use crate::step::step;
use crate::target_sources;
use crate::{
    COMMENT_BYTES_MAX, CONFIGURATION_BYTES_MAX, REMARKS_MAX, SEARCH_LIMIT_MAX, WHO_BYTES_MAX,
};

/// A data folder's catalogue, open. Open it for one task and drop it: while it is open a rebuild
/// waits. Opening takes about a millisecond; for frequent queries there is
/// [`crate::CachedCatalog`].
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
            // The next process that opens the catalogue does it.
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
        // A rebuild that was killed while it replaced the old one.
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
        // Locked before the row is visible, or the run would be taken for one whose process is
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

    /// Has an interrupted run go on, under its number.
    ///
    /// # Errors
    /// There is no interrupted run of that number, or the catalogue cannot be written.
    pub fn resume(&mut self, number: u64) -> Result<LiveRun, CatalogError> {
        let (paths, error) = (self.paths.clone(), self.error());
        // Its end may wait there.
        pending::enter_all(&mut self.connection, &paths)?;
        let transaction = schema::begin(&mut self.connection).map_err(&error)?;
        // Nobody removes the run's lock file meanwhile.
        let _numbers = Numbers::lock(&paths)?;
        // Locked before the row says so, as in `next_run_number`.
        let live = LiveRun::hold(&paths, number)?;
        // Nobody records it, whatever the row says: an attempt to go on may have failed.
        let sql = "UPDATE runs SET state = 'recording', reason = NULL, ended_ns = NULL \
            WHERE number = ? AND state IN ('interrupted', 'recording')";
        if transaction.execute(sql, [stored(number)]).map_err(&error)? == 0 {
            return Err(CatalogError::NoRun { number });
        }
        transaction.commit().map_err(&error)?;
        Ok(live)
    }

    /// A run.
    ///
    /// # Errors
    /// [`CatalogError::NoRun`], or a database that cannot be read.
    pub fn run(&self, number: u64) -> Result<RunDetail, CatalogError> {
        let sql = format!("SELECT {} FROM runs WHERE number = ?", row::selected());
        let detail = self.read(|connection| {
            let found = connection.query_row(&sql, [stored(number)], RunRow::read).optional()?;
            let Some(run) = found else { return Ok(None) };
            let ledger = row::ledger_of(connection, number)?;
            let remarks = remarks::of_run(connection, number)?;
            let file_rows = FileRow::of_run(connection, number)?;
            let locations = locations::of_run(connection, number)?;
            let targets = target_sources::of_run(connection, number)?;
            Ok(Some(RunDetail { run, ledger, remarks, file_rows, locations, targets }))
        })?;
        let detail = detail.ok_or(CatalogError::NoRun { number })?;
        Ok(RunDetail { run: detail.run.seen_from(&self.paths), ..detail })
    }

    /// Enters all that is known of a run, whether it was entered before or not.
    ///
    /// # Errors
    /// Another run has its number, or the catalogue cannot be written: then [`RunKnown::keep`]
    /// writes it for the next process that opens the catalogue.
    pub fn enter(&mut self, live: &LiveRun, known: &RunKnown) -> Result<(), CatalogError> {
        let (number, paths) = (live.number(), self.paths.clone());
        if let Some(got) =
            self.write(|connection| pending::enter(connection, &paths, number, known))?
        {
            return Err(CatalogError::OtherRun { number, got });
        }
        step();
        // What waited of it is entered now. Only this process writes that file.
        lock::remove(&paths.pending(number))
    }

    /// Replaces a run's comment, which is what it is started for: before it begins. What is said of
    /// it otherwise is added by [`Catalog::add_remark`].
    ///
    /// # Errors
    /// A comment that is too long or has control characters, no such run, or a catalogue that
    /// cannot be written.
    pub fn set_comment(&mut self, number: u64, comment: &str) -> Result<(), CatalogError> {
        check_comment(comment)?;
        self.set(number, "UPDATE runs SET comment = ?2 WHERE number = ?1", comment)
    }

    /// Says what a run's data are worth.
    ///
    /// # Errors
    /// No such run, or a catalogue that cannot be written.
    pub fn set_quality(&mut self, number: u64, quality: Quality) -> Result<(), CatalogError> {
        self.set(number, "UPDATE runs SET quality = ?2 WHERE number = ?1", quality.name())
    }

    /// Appends a remark to those of a run.
    ///
    /// # Errors
    /// A text that is empty, too long or has control characters, no such run, too many remarks, or
    /// a catalogue that cannot be written.
    pub fn add_remark(&mut self, number: u64, remark: &Remark) -> Result<(), CatalogError> {
        remark.check()?;
        match self.write_lazily(|connection| remark.add(connection, number))? {
            Added::Yes => Ok(()),
            Added::NoRun => Err(CatalogError::NoRun { number }),
            Added::TooMany => {
                let expected = format!("at most {REMARKS_MAX} remarks");
                let got = "one more".to_owned();
                Err(CatalogError::Text { what: "a run with", expected, got })
            }
        }
    }

    /// Puts a configuration into the catalogue, unless that text is there, and returns its version.
    ///
    /// # Errors
    /// A text that is too long, or a catalogue that cannot be written.
    pub fn put_configuration(
        &mut self,
        text: &str,
        who: &str,
        now: Utc,
    ) -> Result<u64, CatalogError> {
        configurations::check(text)?;
        check_text("who", who, WHO_BYTES_MAX)?;
        self.write(|connection| configurations::put(connection, text, who, now))
    }

    /// The configurations, newest first.
    ///
    /// # Errors
    /// A database that cannot be read.
    pub fn configurations(&self) -> Result<Vec<Configuration>, CatalogError> {
        self.read(configurations::all)
    }

    /// A configuration with its text.
    ///
    /// # Errors
    /// [`CatalogError::NoConfiguration`], or a database that cannot be read.
    pub fn configuration(&self, version: u64) -> Result<ConfigurationText, CatalogError> {
        let found = self.read(|connection| configurations::of_version(connection, version))?;
        found.ok_or(CatalogError::NoConfiguration { version })
    }

    /// The runs that match, newest first.
    ///
    /// # Errors
    /// A text that is too long, or a database that cannot be read.
    pub fn search(&self, search: &Search) -> Result<Vec<RunRow>, CatalogError> {
        search.check()?;
        let limit = search.limit.unwrap_or(SEARCH_LIMIT_MAX).min(SEARCH_LIMIT_MAX);
        let rows = self.read(|connection| search.rows(connection))?;
        let rows = rows.into_iter().map(|row| row.seen_from(&self.paths));
        // A run's state can depend on which processes are alive.
        let fits = |row: &RunRow| search.state.is_none_or(|state| row.state == state);
        Ok(rows.filter(fits).take(limit).collect())
    }

    /// The runs that match, and from where the next page begins, if there is one.
    ///
    /// # Errors
    /// As [`Catalog::search`].
    pub fn page(&self, search: &Search) -> Result<(Vec<RunRow>, Option<u64>), CatalogError> {
        let limit = search.limit.unwrap_or(SEARCH_LIMIT_MAX).clamp(1, SEARCH_LIMIT_MAX - 1);
        let mut rows = self.search(&Search { limit: Some(limit + 1), ..search.clone() })?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| more).map(|row| row.number);
        Ok((rows, next))
    }

    /// Reads a run's files and writes what they hold into the catalogue, instead of what was there:
    /// files, frames, totals, and the ledger as far as the files have it, unless the recorder's own
    /// is there and the files do not have the run's end. A run that was taken for interrupted, and
    /// whose files were ended in order, is complete. Reads headers and tables of contents; of a run
    /// that was killed, the ledgers of its frames too, if they are not many.
    ///
    /// # Errors
    /// No such run, files that cannot be read or are another run's, or a catalogue that cannot be
    /// written.
    pub fn scan(&mut self, number: u64) -> Result<(), CatalogError> {
        match Found::read(&self.paths, self.run(number)?)? {
            Some(found) => self.write(|connection| found.put(connection)),
            None => Ok(()),
        }
    }

    /// As [`Catalog::scan`], of the run that has this identity and lies in this folder. Where the
    /// catalogue has none, nothing is done.
    ///
    /// # Errors
    /// As [`Catalog::scan`].
    pub fn scan_folder(&mut self, folder: &Path, id: RunId) -> Result<(), CatalogError> {
        let name = self.paths.folder_name(folder);
        let sql = "SELECT number FROM runs WHERE id = ?1 AND folder = ?2";
        let values = [id.to_string(), name];
        let number =
            self.read(|connection| connection.query_row(sql, values, |row| row.get(0)).optional())?;
        number.map_or(Ok(()), |number| self.scan(row::out(number)))
    }

    /// What the frames of a run's files cover, by file and kind.
    ///
    /// # Errors
    /// A database that cannot be read.
    pub fn frames(&self, number: u64) -> Result<Vec<FrameSpan>, CatalogError> {
        self.read(|connection| FrameSpan::of_run(connection, number))
    }

    /// The copies of a run's files.
    ///
    /// # Errors
    /// A database that cannot be read.
    pub fn copies(&self, number: u64) -> Result<Vec<Copy>, CatalogError> {
        self.read(|connection| Copy::of_run(connection, number))
    }

    /// Where a run's folder is.
    pub fn folder_of(&self, run: &RunRow) -> Option<PathBuf> {
        run.folder.as_ref().map(|folder| self.paths.data.join(folder))
    }

    /// Runs whose process is gone are interrupted, or failed; what they have on disk is looked up.
    pub(crate) fn sweep(&mut self) -> Result<(), CatalogError> {
        let paths = self.paths.clone();
        pending::enter_all(&mut self.connection, &paths)?;
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
        let left_over = lock::left_over(&paths);
        let runs = gone(self.read(open)?);
        if runs.is_empty() && left_over.is_empty() {
            return Ok(());
        }
        // A process that was killed between the end of its run and the look at the files.
        let is_ended = |number: &&u64| runs.iter().all(|(open, _)| open != *number);
        let ended: Vec<u64> = left_over.iter().filter(is_ended).copied().collect();
        // Before anything is written: what a run is and what it came to are entered at once, so
        // that a process that dies in between leaves both to the next.
        let found: Vec<_> = runs
            .into_iter()
            .map(|(number, state)| {
                let look = || {
                    self.remove_leftovers(number);
                    self.files_of(number)
                };
                (number, state, (state == RunState::Recording).then(look).flatten())
            })
            .collect();
        let of_ended: Vec<_> =
            ended.into_iter().filter_map(|number| Some((number, self.files_of(number)?))).collect();
        step();
        let error = self.error();
        // Again, now that no other process takes a number.
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
        for (_, found) in of_ended.iter().filter(|(number, _)| !lock::is_live(&paths, *number)) {
            found.put(&transaction).map_err(&error)?;
        }
        let numbers = Numbers::lock(&paths)?;
        transaction.commit().map_err(&error)?;
        lock::remove_left_over(&paths);
        drop(numbers);
        Ok(())
    }

    /// What a run's files say. An error is reported when the run is read.
    fn files_of(&self, number: u64) -> Option<Found> {
        Found::read(&self.paths, self.run(number).ok()?).ok().flatten()
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

    /// Merges the log into the database, as far as no process reads there.
    pub(crate) fn checkpoint(&self) -> Result<(), CatalogError> {
        let no_row = |_: &rusqlite::Row<'_>| Ok(());
        self.read(|connection| connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], no_row))
    }

    fn set(&mut self, number: u64, sql: &str, value: &str) -> Result<(), CatalogError> {
        let set = |connection: &Connection| connection.execute(sql, params![stored(number), value]);
        let changed = self.write_lazily(set)?;
        if changed == 0 { Err(CatalogError::NoRun { number }) } else { Ok(()) }
    }

    /// As [`Catalog::write`], without a wait for the disk: a kill loses nothing of it, and of a
    /// power cut it is safe with the next run that begins or ends.
    fn write_lazily<T>(
        &mut self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, CatalogError> {
        self.connection.pragma_update(None, "synchronous", "NORMAL").map_err(self.error())?;
        let result = self.write(change);
        self.connection.pragma_update(None, "synchronous", "FULL").map_err(self.error())?;
        result
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

/// The highest number that was given, as the database knows it.
pub(crate) fn highest(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT max(highest, coalesce((SELECT max(number) FROM runs), 0)) FROM numbers";
    connection.query_row(sql, [], |row| row.get(0)).map(row::out)
}

const _: () = assert!(COMMENT_BYTES_MAX < CONFIGURATION_BYTES_MAX);
