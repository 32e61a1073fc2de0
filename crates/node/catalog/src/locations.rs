//! Where the frames of a run were sent: folders, storage nodes and spills. The recorder says so
//! when a run begins, and what is there when it has ended; the list of files in the run's folder
//! has the same, for a rebuild.

use catchment_frame::{LocationKind, RunLocation};
use rusqlite::{Connection, Row, params};

use crate::row::{out, stored, word};

/// Replaces those of a run, unless none are known.
pub(crate) fn put(
    connection: &Connection,
    run: u64,
    locations: &[RunLocation],
) -> rusqlite::Result<()> {
    if locations.is_empty() {
        return Ok(());
    }
    connection.execute("DELETE FROM locations WHERE run = ?", [stored(run)])?;
    let sql = "INSERT INTO locations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let mut insert = connection.prepare(sql)?;
    for (number, location) in (0_u32..).zip(locations) {
        let files = serde_json::to_string(&location.files).expect("numbers are valid JSON");
        let of_files = serde_json::to_string(&location.file_frames);
        let of_files = of_files.expect("numbers are valid JSON");
        insert.execute(params![
            stored(run),
            number,
            location.target,
            location.kind.name(),
            location.address,
            location.name,
            location.required,
            location.frames.map(stored),
            location.bytes.map(stored),
            location.first_frame.map(stored),
            location.last_frame.map(stored),
            files,
            of_files,
        ])?;
    }
    Ok(())
}

/// Those of a run, in the order of its targets. One that is not understood, as of a later version,
/// is left out.
pub(crate) fn of_run(connection: &Connection, run: u64) -> rusqlite::Result<Vec<RunLocation>> {
    let mut select = connection.prepare("SELECT * FROM locations WHERE run = ? ORDER BY number")?;
    let location = |row: &Row<'_>| -> rusqlite::Result<RunLocation> {
        // A catalogue of an earlier version has none.
        let of_files = row.get::<_, String>("file_frames").ok();
        let count = |name| row.get::<_, Option<i64>>(name).map(|count| count.map(out));
        Ok(RunLocation {
            target: row.get("target")?,
            kind: word(row, "kind", LocationKind::from_name)?,
            address: row.get("address")?,
            name: row.get("name")?,
            required: row.get("required")?,
            frames: count("frames")?,
            bytes: count("bytes")?,
            first_frame: count("first_frame")?,
            last_frame: count("last_frame")?,
            files: word(row, "files", |text| serde_json::from_str(text).ok())?,
            file_frames: of_files
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
        })
    };
    let rows = select.query_map([stored(run)], |row| Ok(location(row).ok()))?;
    rows.filter_map(Result::transpose).collect()
}
