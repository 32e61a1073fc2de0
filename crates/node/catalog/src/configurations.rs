//! The configurations that were run, each text once.

use catchment_model::Utc;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::CONFIGURATION_BYTES_MAX;
use crate::error::CatalogError;
use crate::row::{out, stored};

/// A configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Configuration {
    /// Its number, from 1, in the order in which they came.
    pub version: u64,
    /// SHA-256 of its text, in hexadecimal.
    pub sha256: String,
    /// Bytes of its text.
    pub bytes: u64,
    /// When it came.
    pub created: Utc,
    /// From whom.
    pub who: String,
}

/// A configuration with its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigurationText {
    /// What is known of it.
    #[serde(flatten)]
    pub about: Configuration,
    /// TOML, as it was written.
    pub text: String,
}

/// Refuses a text that is too long.
pub(crate) fn check(text: &str) -> Result<(), CatalogError> {
    if text.len() > CONFIGURATION_BYTES_MAX {
        return Err(CatalogError::Text {
            what: "a configuration of",
            expected: format!("at most {CONFIGURATION_BYTES_MAX} bytes"),
            got: format!("{} bytes", text.len()),
        });
    }
    Ok(())
}

/// The configurations, newest first.
pub(crate) fn all(connection: &Connection) -> rusqlite::Result<Vec<Configuration>> {
    let sql = format!("SELECT {ABOUT} FROM configurations ORDER BY version DESC");
    connection.prepare(&sql)?.query_map([], about)?.collect()
}

/// A configuration with its text, if there is one of that version.
pub(crate) fn of_version(
    connection: &Connection,
    version: u64,
) -> rusqlite::Result<Option<ConfigurationText>> {
    let sql = format!("SELECT {ABOUT}, text FROM configurations WHERE version = ?");
    connection.query_row(&sql, [stored(version)], with_text).optional()
}

/// The version of a text, which is added if it is new.
pub(crate) fn put(
    connection: &Connection,
    text: &str,
    who: &str,
    now: Utc,
) -> rusqlite::Result<u64> {
    let digest = sha256(text);
    let sql = "SELECT version FROM configurations WHERE sha256 = ?";
    let known = connection.query_row(sql, [&digest], |row| row.get(0)).optional()?;
    if let Some(version) = known {
        return Ok(out(version));
    }
    connection.execute(
        "INSERT INTO configurations (sha256, text, created_ns, who) VALUES (?, ?, ?, ?)",
        params![digest, text, stored(now.0), who],
    )?;
    Ok(out(connection.last_insert_rowid()))
}

/// Writes a configuration as it was in another catalogue.
pub(crate) fn insert(connection: &Connection, old: &ConfigurationText) -> rusqlite::Result<()> {
    let about = &old.about;
    connection.execute(
        "INSERT INTO configurations (version, sha256, text, created_ns, who) VALUES (?, ?, ?, ?, ?)",
        params![stored(about.version), about.sha256, old.text, stored(about.created.0), about.who],
    )?;
    Ok(())
}

pub(crate) fn sha256(text: &str) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn about(row: &Row<'_>) -> rusqlite::Result<Configuration> {
    Ok(Configuration {
        version: out(row.get("version")?),
        sha256: row.get("sha256")?,
        bytes: out(row.get("bytes")?),
        created: Utc(out(row.get("created_ns")?)),
        who: row.get("who")?,
    })
}

/// As [`about`], with the text.
pub(crate) fn with_text(row: &Row<'_>) -> rusqlite::Result<ConfigurationText> {
    Ok(ConfigurationText { about: about(row)?, text: row.get("text")? })
}

pub(crate) const ABOUT: &str = "version, sha256, octet_length(text) AS bytes, created_ns, who";
