//! The configurations that were run, each text once.

use catchment_model::Utc;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::catalog::{Catalog, check_text};
use crate::error::CatalogError;
use crate::row::{out, stored};
use crate::{CONFIGURATION_BYTES_MAX, WHO_BYTES_MAX};

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

impl Catalog {
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
        check(text)?;
        check_text("who", who, WHO_BYTES_MAX)?;
        self.write(|connection| put(connection, text, who, now))
    }

    /// The configurations, newest first.
    ///
    /// # Errors
    /// A database that cannot be read.
    pub fn configurations(&self) -> Result<Vec<Configuration>, CatalogError> {
        self.read(|connection| {
            let sql = format!("SELECT {ABOUT} FROM configurations ORDER BY version DESC");
            let mut select = connection.prepare(&sql)?;
            select.query_map([], about)?.collect()
        })
    }

    /// A configuration with its text.
    ///
    /// # Errors
    /// [`CatalogError::NoConfiguration`], or a database that cannot be read.
    pub fn configuration(&self, version: u64) -> Result<ConfigurationText, CatalogError> {
        let found = self.read(|connection| {
            let sql = format!("SELECT {ABOUT}, text FROM configurations WHERE version = ?");
            let text = |row: &Row<'_>| {
                Ok(ConfigurationText { about: about(row)?, text: row.get("text")? })
            };
            connection.query_row(&sql, [stored(version)], text).optional()
        })?;
        found.ok_or(CatalogError::NoConfiguration { version })
    }
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

pub(crate) fn about(row: &Row<'_>) -> rusqlite::Result<Configuration> {
    Ok(Configuration {
        version: out(row.get("version")?),
        sha256: row.get("sha256")?,
        bytes: out(row.get("bytes")?),
        created: Utc(out(row.get("created_ns")?)),
        who: row.get("who")?,
    })
}

pub(crate) const ABOUT: &str = "version, sha256, octet_length(text) AS bytes, created_ns, who";
