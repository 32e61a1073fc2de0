//! What can go wrong with a catalogue, said with its file and with what helps.

use std::io;
use std::path::{Path, PathBuf};

use catchment_storage::StorageError;

use crate::{COMMENT_BYTES_MAX, RUN_NUMBER_MAX};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A folder without a catalogue.
    #[error(
        "{}: no catalogue of runs; `catchment catalog rebuild` makes one from the files",
        folder.display()
    )]
    Missing {
        /// The data folder.
        folder: PathBuf,
    },
    /// A database that is damaged, or no catalogue.
    #[error(
        "{} is damaged or no catalogue ({problem}); `catchment catalog rebuild` makes it again from \
         the runs' files and keeps the old one",
        path.display()
    )]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A catalogue that a newer program wrote.
    #[error(
        "{} has version {got}, this program knows versions up to {known}: use a newer catchment",
        path.display()
    )]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its version.
        got: i64,
        /// The newest that this program knows.
        known: i64,
    },
    /// Another process has it open for too long.
    #[error("{}: locked by {what}; try again later", path.display())]
    InUse {
        /// The database.
        path: PathBuf,
        /// Who.
        what: &'static str,
    },
    /// The database refused for another reason: a full disk, no permission.
    #[error("{}: {source}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    System {
        /// What was to be done.
        action: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's words.
        source: io::Error,
    },
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] catchment_disk::DiskError),
    /// A run's files could not be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A run that the catalogue does not have.
    #[error("there is no run {number} in the catalogue")]
    NoRun {
        /// The number that was asked for.
        number: u64,
    },
    /// A configuration that the catalogue does not have.
    #[error("there is no configuration {version} in the catalogue")]
    NoConfiguration {
        /// The version that was asked for.
        version: u64,
    },
    /// A run that has another identity than the one that was given.
    #[error("run {number} is another run: it has the identity {got}")]
    OtherRun {
        /// The number.
        number: u64,
        /// Its identity in the catalogue.
        got: String,
    },
    /// Every number was given.
    #[error("there are no run numbers left: {highest} of {RUN_NUMBER_MAX} were given")]
    NoNumbers {
        /// The highest that was given.
        highest: u64,
    },
    /// A text that is too long, or has characters that a text does not have.
    #[error("expected {what} {expected}, got {got}")]
    Text {
        /// Which.
        what: &'static str,
        /// What would do.
        expected: String,
        /// What there was.
        got: String,
    },
}

impl CatalogError {
    /// The error that SQLite's is, for the database at `path`.
    pub(crate) fn sqlite(path: &Path, source: rusqlite::Error) -> Self {
        use rusqlite::Error;
        use rusqlite::ffi::ErrorCode;
        let path = path.to_owned();
        let damaged = matches!(
            source,
            // A table or a column that is not there, a value that is none of those that are
            // written.
            Error::FromSqlConversionFailure(..)
                | Error::InvalidColumnType(..)
                | Error::IntegralValueOutOfRange(..)
                | Error::SqlInputError { .. }
                | Error::Utf8Error(..)
                | Error::InvalidColumnName(..)
                | Error::QueryReturnedNoRows
        );
        match source.sqlite_error_code() {
            _ if damaged => Self::Damaged { path, problem: source.to_string() },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { path, problem: source.to_string() }
            }
            // No such table, and the like: every statement here was tested.
            Some(ErrorCode::Unknown) => Self::Damaged { path, problem: source.to_string() },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::InUse { path, what: "another process that is writing" }
            }
            _ => Self::Database { path, source },
        }
    }

    pub(crate) fn system(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::System { action, path, source }
    }

    /// Whether the catalogue is well, and this its answer: what was asked for is not there, or
    /// cannot be.
    pub fn is_answer(&self) -> bool {
        use CatalogError::{NoConfiguration, NoRun, Text};
        matches!(self, NoRun { .. } | NoConfiguration { .. } | Text { .. })
    }

    /// Whether room on the disk is what helps.
    pub fn wants_room(&self) -> bool {
        use rusqlite::ffi::{ErrorCode, SQLITE_IOERR_SHMSIZE};
        match self {
            Self::Database { source, .. } => {
                let extended = source.sqlite_error().map(|error| error.extended_code);
                source.sqlite_error_code() == Some(ErrorCode::DiskFull)
                    || extended == Some(SQLITE_IOERR_SHMSIZE)
            }
            error => error.as_system().is_some_and(|(_, source)| {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }),
        }
    }

    /// What the system said, and of which file, where it refused to do something.
    pub fn as_system(&self) -> Option<(&Path, &io::Error)> {
        match self {
            Self::System { path, source, .. } => Some((path, source)),
            Self::Storage(error) => error.system(),
            _ => None,
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
