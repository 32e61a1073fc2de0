//! What people say of runs and with commands: appended, and never changed.

use catchment_model::Utc;
use rusqlite::{Connection, params};
use serde::Serialize;

use crate::error::{CatalogError, check_comment, check_text};
use crate::row::{RunRow, out, stored};
use crate::{REMARKS_MAX, WHO_BYTES_MAX};

/// What somebody said of a run. Two that are the same in everything are one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Remark {
    /// When.
    pub time: Utc,
    /// What it was said with: the name of a command, [`Remark::ALONE`] or [`Remark::COMMENT`].
    pub kind: String,
    /// Who; empty if nobody wrote that down.
    pub who: String,
    /// What.
    pub text: String,
}

impl Remark {
    /// The kind of a remark that came with no command.
    pub const ALONE: &'static str = "remark";
    /// The kind of a comment from before there were remarks, when one replaced the other.
    pub const COMMENT: &'static str = "comment";

    /// The one that a run's comment is in a catalogue without remarks.
    pub(crate) fn of_comment(run: &RunRow) -> Option<Self> {
        let time = run.started.unwrap_or(run.taken);
        let (kind, who, text) = (Self::COMMENT.into(), String::new(), run.comment.clone());
        (!text.is_empty()).then_some(Self { time, kind, who, text })
    }

    /// Refuses what is too long, is no text, or says nothing.
    pub(crate) fn check(&self) -> Result<(), CatalogError> {
        check_text("a kind of remark of", &self.kind, KIND_BYTES_MAX)?;
        check_text("who", &self.who, WHO_BYTES_MAX)?;
        check_comment(&self.text)?;
        if self.text.trim().is_empty() {
            let (expected, got) = ("a text".to_owned(), format!("{:?}", self.text));
            return Err(CatalogError::Text { what: "a remark of", expected, got });
        }
        Ok(())
    }

    /// Appends it to those of a run.
    pub(crate) fn add(&self, connection: &Connection, run: u64) -> rusqlite::Result<Added> {
        let count = |sql: &str| connection.query_row(sql, [stored(run)], |row| row.get(0)).map(out);
        if count("SELECT count(*) FROM runs WHERE number = ?")? == 0 {
            return Ok(Added::NoRun);
        }
        if count("SELECT count(*) FROM remarks WHERE run = ?")? >= REMARKS_MAX as u64 {
            return Ok(Added::TooMany);
        }
        put(connection, run, std::slice::from_ref(self))?;
        Ok(Added::Yes)
    }
}

/// Whether a remark was appended.
pub(crate) enum Added {
    Yes,
    NoRun,
    TooMany,
}

/// Appends remarks; those that are there already are left as they are.
pub(crate) fn put(connection: &Connection, run: u64, remarks: &[Remark]) -> rusqlite::Result<()> {
    let sql = "INSERT OR IGNORE INTO remarks (run, time_ns, kind, who, text) \
               VALUES (?, ?, ?, ?, ?)";
    let mut insert = connection.prepare(sql)?;
    for Remark { time, kind, who, text } in remarks {
        insert.execute(params![stored(run), stored(time.0), kind, who, text])?;
    }
    Ok(())
}

/// A run's remarks, the oldest first.
pub(crate) fn of_run(connection: &Connection, run: u64) -> rusqlite::Result<Vec<Remark>> {
    let sql = "SELECT time_ns, kind, who, text FROM remarks WHERE run = ? ORDER BY time_ns";
    let mut select = connection.prepare(sql)?;
    let rows = select.query_map([stored(run)], |row| {
        let time = Utc(out(row.get(0)?));
        Ok(Remark { time, kind: row.get(1)?, who: row.get(2)?, text: row.get(3)? })
    })?;
    rows.collect()
}

const KIND_BYTES_MAX: usize = 32;
