//! What became of each source's fragments in each target of a run that had several. The recorder
//! says so when the run has ended; no file of the run has it.

use std::collections::BTreeMap;

use rusqlite::{Connection, Row, params};
use serde::{Deserialize, Serialize};

use crate::row::{stored, word};

/// What became of a source's fragments in a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSource {
    /// The target's name.
    pub target: String,
    /// The name of the source, or of the link.
    pub source: String,
    /// Entries of the target's ledger, without zeros.
    pub entries: BTreeMap<String, u64>,
}

/// Replaces those of a run, unless none are known.
pub(crate) fn put(connection: &Connection, run: u64, all: &[TargetSource]) -> rusqlite::Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    connection.execute("DELETE FROM target_sources WHERE run = ?", [stored(run)])?;
    let mut insert = connection.prepare("INSERT INTO target_sources VALUES (?, ?, ?, ?, ?)")?;
    for (number, TargetSource { target, source, entries }) in (0_u32..).zip(all) {
        let entries = serde_json::to_string(entries).expect("names and numbers are valid JSON");
        insert.execute(params![stored(run), number, target, source, entries])?;
    }
    Ok(())
}

/// Those of a run, by target. One that is not understood, as of a later version, is left out.
pub(crate) fn of_run(connection: &Connection, run: u64) -> rusqlite::Result<Vec<TargetSource>> {
    let sql = "SELECT target, source, entries FROM target_sources WHERE run = ? ORDER BY number";
    let mut select = connection.prepare(sql)?;
    let one = |row: &Row<'_>| -> rusqlite::Result<TargetSource> {
        Ok(TargetSource {
            target: row.get("target")?,
            source: row.get("source")?,
            entries: word(row, "entries", |text| serde_json::from_str(text).ok())?,
        })
    };
    let rows = select.query_map([stored(run)], |row| Ok(one(row).ok()))?;
    rows.filter_map(Result::transpose).collect()
}
