//! What people say of runs.

use rusqlite::params;

use crate::catalog::{Catalog, check_comment};
use crate::error::CatalogError;
use crate::row::{Quality, stored};

impl Catalog {
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

    fn set(&mut self, number: u64, sql: &str, value: &str) -> Result<(), CatalogError> {
        // A kill loses nothing of it; of a power cut it is safe with the next run that begins or
        // ends.
        self.sync("NORMAL")?;
        let changed =
            self.write(|connection| connection.execute(sql, params![stored(number), value]));
        self.sync("FULL")?;
        let changed = changed?;
        if changed == 0 { Err(CatalogError::NoRun { number }) } else { Ok(()) }
    }
}
