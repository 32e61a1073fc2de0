//! A run's files, what their frames cover, and their copies.
//!
//! A file's table of contents has every frame and every column, and is read in kilobytes. The
//! catalogue has what one asks before a file is opened: which files, and about which frames, hold a
//! time or an event. So frames stand here in spans, at most [`SPANS_PER_FILE_MAX`] a file: the
//! catalogue of a day at a gigabyte per second has some ten thousand rows, not millions.

use std::path::Path;

use catchment_model::{RunId, Utc};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

#[cfg(doc)]
use crate::SPANS_PER_FILE_MAX;
use crate::catalog::{Catalog, check_text, put_totals};
use crate::error::CatalogError;
use crate::facts::Facts;
use crate::lock;
use crate::row::{RunDetail, RunState, out, stored, word};
use crate::schema::Paths;

/// A file of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileRow {
    /// Its place among the run's files, from 0.
    pub place: u32,
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

/// What frames hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameKind {
    /// Events.
    Events,
    /// Channels.
    Channels,
}

impl FrameKind {
    fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Channels => "channels",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Events, Self::Channels].into_iter().find(|kind| kind.name() == name)
    }
}

/// Frames of one kind that follow each other in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FrameSpan {
    /// The file's place among the run's files.
    pub file: u32,
    /// What they hold.
    pub kind: FrameKind,
    /// The first one's place among the file's frames.
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
    /// The file's place among the run's files.
    pub file: u32,
    /// Where the copy is: a path or an address.
    pub place: String,
    /// Its checksum, with the name of the kind: `sha256:…`.
    pub checksum: String,
    /// Its length.
    pub bytes: u64,
    /// When it was made.
    pub made: Utc,
    /// When it was last read and found right.
    pub checked: Option<Utc>,
}

impl Catalog {
    /// Looks at a run's files and writes what they hold into the catalogue, in place of what was
    /// there: files, frames, totals, and the books as far as the files have them, unless its
    /// recorder's own are there and the files do not have the run's end. A run that was taken for
    /// interrupted, and whose files were ended in order, is complete. Reads headers and tables of
    /// contents; of a run that was killed, the books of its frames too, if they are not many.
    ///
    /// # Errors
    /// No such run, files that cannot be read or are another run's, or a catalogue that cannot be
    /// written.
    pub fn scan(&mut self, number: u64) -> Result<(), CatalogError> {
        match self.look(number)? {
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
        number.map_or(Ok(()), |number| self.scan(out(number)))
    }

    /// Looks at a run's files, and writes nothing. None for a run that has no folder.
    pub(crate) fn look(&self, number: u64) -> Result<Option<Found>, CatalogError> {
        let RunDetail { run, ledger, .. } = self.run(number)?;
        let Some(folder) = run.folder else { return Ok(None) };
        let place = self.paths.data.join(&folder);
        let facts = Facts::read(&place, &folder, lock::is_live(&self.paths, number))?;
        if run.id.is_some_and(|id| id != facts.id) {
            return Err(CatalogError::OtherRun { number, got: facts.id.to_string() });
        }
        let own_books = keeps_books(run.state, !ledger.is_empty(), &facts);
        Ok(Some(Found { number, state: run.state, own_books, facts }))
    }

    /// What the frames of a run's files cover, by file and kind.
    ///
    /// # Errors
    /// A database that cannot be read.
    pub fn frames(&self, number: u64) -> Result<Vec<FrameSpan>, CatalogError> {
        self.read(|connection| spans_of(connection, number))
    }

    /// Says that there is a copy of a file, or that it was found right again.
    ///
    /// # Errors
    /// Texts that are too long, no such run, or a catalogue that cannot be written.
    pub fn put_copy(&mut self, number: u64, copy: &Copy) -> Result<(), CatalogError> {
        check_text("a copy's place of", &copy.place, PLACE_BYTES_MAX)?;
        check_text("a checksum of", &copy.checksum, CHECKSUM_BYTES_MAX)?;
        self.run(number)?;
        self.write(|connection| insert_copy(connection, number, copy))
    }

    /// Says that there is no such copy any more; whether there was one.
    ///
    /// # Errors
    /// A catalogue that cannot be written.
    pub fn remove_copy(
        &mut self,
        number: u64,
        file: u32,
        place: &str,
    ) -> Result<bool, CatalogError> {
        let sql = "DELETE FROM copies WHERE run = ? AND file = ? AND place = ?";
        let values = params![stored(number), file, place];
        let removed = self.write(|connection| connection.execute(sql, values))?;
        Ok(removed > 0)
    }

    /// The copies of a run's files.
    ///
    /// # Errors
    /// A database that cannot be read.
    pub fn copies(&self, number: u64) -> Result<Vec<Copy>, CatalogError> {
        self.read(|connection| copies_of(connection, number))
    }

    /// Where a run's folder is.
    pub fn folder_of(&self, run: &crate::RunRow) -> Option<std::path::PathBuf> {
        let Paths { data } = &self.paths;
        run.folder.as_ref().map(|folder| data.join(folder))
    }
}

/// What a run's files say, to be written.
pub(crate) struct Found {
    number: u64,
    /// The run's state when they were looked at.
    state: RunState,
    own_books: bool,
    facts: Facts,
}

impl Found {
    pub(crate) fn put(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Self { number, state, own_books, facts } = self;
        put_files(connection, *number, facts)?;
        let mut totals = facts.totals.clone();
        totals.ledger.take_if(|_| *own_books);
        let loss = if *own_books { None } else { facts.loss_count(*state) };
        put_totals(connection, *number, &totals, loss)?;
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

/// Whether the books that a run has are its recorder's own, which count what no file could be told
/// of: it ended the run, and its files do not have the end.
pub(crate) fn keeps_books(state: RunState, known: bool, facts: &Facts) -> bool {
    known && matches!(state, RunState::Complete | RunState::Fault) && !facts.complete
}

/// Writes a run's files and frames in place of those that were there.
pub(crate) fn put_files(connection: &Connection, run: u64, facts: &Facts) -> rusqlite::Result<()> {
    connection.execute("DELETE FROM frames WHERE run = ?", [stored(run)])?;
    connection.execute("DELETE FROM files WHERE run = ?", [stored(run)])?;
    insert_files(connection, run, &facts.files, &facts.spans)
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
            file.place,
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
    for span in spans.iter().filter(|span| files.iter().any(|file| file.place == span.file)) {
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

pub(crate) fn insert_copy(connection: &Connection, run: u64, copy: &Copy) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT OR REPLACE INTO copies VALUES (?, ?, ?, ?, ?, ?, ?)",
        params![
            stored(run),
            copy.file,
            copy.place,
            copy.checksum,
            stored(copy.bytes),
            stored(copy.made.0),
            copy.checked.map(|checked| stored(checked.0)),
        ],
    )?;
    Ok(())
}

pub(crate) fn of_run(connection: &Connection, run: u64) -> rusqlite::Result<Vec<FileRow>> {
    let mut select = connection.prepare("SELECT * FROM files WHERE run = ? ORDER BY place")?;
    let file = |row: &Row<'_>| {
        Ok(FileRow {
            place: row.get("place")?,
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

pub(crate) fn spans_of(connection: &Connection, run: u64) -> rusqlite::Result<Vec<FrameSpan>> {
    let sql = "SELECT * FROM frames WHERE run = ? ORDER BY file, kind, first";
    let mut select = connection.prepare(sql)?;
    let span = |row: &Row<'_>| {
        Ok(FrameSpan {
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

pub(crate) fn copies_of(connection: &Connection, run: u64) -> rusqlite::Result<Vec<Copy>> {
    let sql = "SELECT * FROM copies WHERE run = ? ORDER BY file, place";
    let mut select = connection.prepare(sql)?;
    let copy = |row: &Row<'_>| {
        Ok(Copy {
            file: row.get("file")?,
            place: row.get("place")?,
            checksum: row.get("checksum")?,
            bytes: out(row.get("bytes")?),
            made: Utc(out(row.get("made_ns")?)),
            checked: row.get::<_, Option<i64>>("checked_ns")?.map(|ns| Utc(out(ns))),
        })
    };
    select.query_map([stored(run)], copy)?.collect()
}

const PLACE_BYTES_MAX: usize = 4_096;
const CHECKSUM_BYTES_MAX: usize = 256;
