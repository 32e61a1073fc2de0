//! A run's files, what their frames cover, and their copies.
//!
//! A file's table of contents has every frame and every column, and is read in kilobytes. The
//! catalogue has what one asks before a file is opened: which files, and about which frames, hold a
//! time or an event. So frames stand here in spans, at most [`SPANS_PER_FILE_MAX`] a file: the
//! catalogue of a day at a gigabyte per second has some ten thousand rows, not millions.

use catchment_model::{Utc, named};
use rusqlite::{Connection, Row, params};
use serde::Serialize;

#[cfg(doc)]
use crate::SPANS_PER_FILE_MAX;
use crate::error::CatalogError;
use crate::facts::Facts;
use crate::locations;
use crate::lock;
use crate::row::{RunDetail, RunState, StoredTotals, out, stored, word};
use crate::schema::Paths;

/// A file of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileRow {
    /// Its index among the run's files, from 0.
    #[serde(rename = "place")]
    pub index: u32,
    /// Its name in the run's folder.
    pub name: String,
    /// When it was begun.
    pub created: Utc,
    /// Its length.
    pub bytes: u64,
    /// Its frames.
    pub frames: u64,
    /// Events in them.
    pub events: u64,
    /// Whether it has its table of contents.
    pub closed: bool,
}

named! {
    /// What frames hold.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    FrameKind {
        /// Events.
        Events = "events",
        /// Channels.
        Channels = "channels",
    }
}

/// Frames of one kind that follow each other in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FrameSpan {
    /// The file's index among the run's files.
    pub file: u32,
    /// What they hold.
    pub kind: FrameKind,
    /// The first one's index among the file's frames.
    pub first: u64,
    /// How many they are.
    pub count: u64,
    /// The earliest time in them, in nanoseconds. Of channels: in their time scale.
    pub time_first_ns: u64,
    /// The latest.
    pub time_last_ns: u64,
    /// The lowest key in them.
    pub key_first: u64,
    /// The highest.
    pub key_last: u64,
    /// Events; of channels, samples of all together.
    pub rows: u64,
    /// Bytes of the frames.
    pub bytes: u64,
}

/// A file's copy elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Copy {
    /// The file's index among the run's files.
    pub file: u32,
    /// Where the copy is: a path or an address.
    #[serde(rename = "place")]
    pub location: String,
    /// Its checksum, with the name of the kind: `sha256:…`.
    pub checksum: String,
    /// Its length.
    pub bytes: u64,
    /// When it was made.
    pub made: Utc,
    /// When it was last read and found right.
    pub checked: Option<Utc>,
}

impl FileRow {
    /// A run's files.
    pub(crate) fn of_run(connection: &Connection, run: u64) -> rusqlite::Result<Vec<Self>> {
        let mut select = connection.prepare("SELECT * FROM files WHERE run = ? ORDER BY place")?;
        let file = |row: &Row<'_>| {
            Ok(Self {
                index: row.get("place")?,
                name: row.get("name")?,
                created: Utc(out(row.get("created_ns")?)),
                bytes: out(row.get("bytes")?),
                frames: out(row.get("frames")?),
                events: out(row.get("events")?),
                closed: row.get("closed")?,
            })
        };
        select.query_map([stored(run)], file)?.collect()
    }
}

impl FrameSpan {
    /// What the frames of a run's files cover, by file and kind.
    pub(crate) fn of_run(connection: &Connection, run: u64) -> rusqlite::Result<Vec<Self>> {
        let sql = "SELECT * FROM frames WHERE run = ? ORDER BY file, kind, first";
        let mut select = connection.prepare(sql)?;
        let span = |row: &Row<'_>| {
            Ok(Self {
                file: row.get("file")?,
                kind: word(row, "kind", FrameKind::from_name)?,
                first: out(row.get("first")?),
                count: out(row.get("count")?),
                time_first_ns: out(row.get("time_first_ns")?),
                time_last_ns: out(row.get("time_last_ns")?),
                key_first: row.get::<_, i64>("key_first")?.cast_unsigned(),
                key_last: row.get::<_, i64>("key_last")?.cast_unsigned(),
                rows: out(row.get("rows")?),
                bytes: out(row.get("bytes")?),
            })
        };
        select.query_map([stored(run)], span)?.collect()
    }
}

impl Copy {
    /// Writes it, or that it was found intact again.
    pub(crate) fn insert(&self, connection: &Connection, run: u64) -> rusqlite::Result<()> {
        connection.execute(
            "INSERT OR REPLACE INTO copies VALUES (?, ?, ?, ?, ?, ?, ?)",
            params![
                stored(run),
                self.file,
                self.location,
                self.checksum,
                stored(self.bytes),
                stored(self.made.0),
                self.checked.map(|checked| stored(checked.0)),
            ],
        )?;
        Ok(())
    }

    /// The copies of a run's files.
    pub(crate) fn of_run(connection: &Connection, run: u64) -> rusqlite::Result<Vec<Self>> {
        let sql = "SELECT * FROM copies WHERE run = ? ORDER BY file, place";
        let mut select = connection.prepare(sql)?;
        let copy = |row: &Row<'_>| {
            Ok(Self {
                file: row.get("file")?,
                location: row.get("place")?,
                checksum: row.get("checksum")?,
                bytes: out(row.get("bytes")?),
                made: Utc(out(row.get("made_ns")?)),
                checked: row.get::<_, Option<i64>>("checked_ns")?.map(|ns| Utc(out(ns))),
            })
        };
        select.query_map([stored(run)], copy)?.collect()
    }
}

/// What a run's files say, to be written.
pub(crate) struct Found {
    number: u64,
    /// The run's state when they were looked at.
    state: RunState,
    own_ledger: bool,
    facts: Facts,
}

impl Found {
    /// Reads a run's files. None for a run that has no folder.
    pub(crate) fn read(paths: &Paths, detail: RunDetail) -> Result<Option<Self>, CatalogError> {
        let RunDetail { run, ledger, .. } = detail;
        let Some(folder) = run.folder else { return Ok(None) };
        let live = lock::is_live(paths, run.number);
        let facts = Facts::read(&paths.data.join(&folder), &folder, live)?;
        if run.id.is_some_and(|id| id != facts.id) {
            return Err(CatalogError::OtherRun { number: run.number, got: facts.id.to_string() });
        }
        let own_ledger = keeps_own_ledger(run.state, !ledger.is_empty(), &facts);
        Ok(Some(Self { number: run.number, state: run.state, own_ledger, facts }))
    }

    pub(crate) fn put(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Self { number, state, own_ledger, facts } = self;
        put_facts(connection, *number, facts, *state, *own_ledger)?;
        let ended = facts.ended.filter(|_| state.is_final());
        connection.execute(
            "UPDATE runs SET ended_ns = coalesce(ended_ns, ?2), emulated = ?3 WHERE number = ?1",
            params![stored(*number), ended.map(|ended| stored(ended.0)), facts.emulated],
        )?;
        // Its end could not be entered when it came: the disk was full, the program in a hurry.
        let sql = "UPDATE runs SET state = 'complete', reason = NULL \
            WHERE number = ? AND state = 'interrupted'";
        if facts.complete {
            connection.execute(sql, [stored(*number)])?;
        }
        Ok(())
    }
}

/// Whether a run keeps its recorder's ledger, which counts what no file has: the recorder ended the
/// run, and the files do not have the end.
pub(crate) fn keeps_own_ledger(state: RunState, known: bool, facts: &Facts) -> bool {
    known && matches!(state, RunState::Complete | RunState::Fault) && !facts.complete
}

/// Writes what a run's files say, instead of what was there: files, frames and totals. With
/// `own_ledger` the ledger and the loss stay as they are.
pub(crate) fn put_facts(
    connection: &Connection,
    run: u64,
    facts: &Facts,
    state: RunState,
    own_ledger: bool,
) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM frames WHERE run = ?", [stored(run)])?;
    connection.execute("DELETE FROM files WHERE run = ?", [stored(run)])?;
    insert_files(connection, run, &facts.files, &facts.spans)?;
    locations::put(connection, run, &facts.locations)?;
    let mut totals = StoredTotals::of(&facts.totals);
    totals.loss_count = facts.loss_count(state);
    if own_ledger {
        (totals.fragments, totals.loss_count) = (None, None);
    }
    totals.write(connection, run)
}

/// Writes a run's files and frames.
pub(crate) fn insert_files(
    connection: &Connection,
    run: u64,
    files: &[FileRow],
    spans: &[FrameSpan],
) -> rusqlite::Result<()> {
    let mut insert =
        connection.prepare("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?)")?;
    for file in files {
        insert.execute(params![
            stored(run),
            file.index,
            file.name,
            stored(file.created.0),
            stored(file.bytes),
            stored(file.frames),
            stored(file.events),
            file.closed,
        ])?;
    }
    let mut insert = connection
        .prepare("INSERT OR REPLACE INTO frames VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    // Of a damaged catalogue some files may be unknown.
    for span in spans.iter().filter(|span| files.iter().any(|file| file.index == span.file)) {
        insert.execute(params![
            stored(run),
            span.file,
            span.kind.name(),
            stored(span.first),
            stored(span.count),
            stored(span.time_first_ns),
            stored(span.time_last_ns),
            // All 64 bits may mean something: they come back as they were.
            span.key_first.cast_signed(),
            span.key_last.cast_signed(),
            stored(span.rows),
            stored(span.bytes),
        ])?;
    }
    Ok(())
}
