//! A catalogue that stays open from one question to the next, and steps aside for a rebuild.
//!
//! Whoever closes a database last merges SQLite's log into it and waits for the disk, which takes
//! half a second beside a recorder that writes 1.5 GB/s: too long for everybody who opens it for
//! one question. A program that is asked often keeps it open, and looks a few times in a second
//! whether somebody wants it alone.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;

use crate::catalog::Catalog;
use crate::error::CatalogError;
use crate::lock::{self, PATIENCE, PATIENCE_AT_START};
use crate::schema::Paths;

/// A data folder's catalogue, open from the first question on. Those who read wait for no one who
/// writes.
///
/// # Errors
/// Of all methods: as those of [`Catalog`]. After an error that is no answer the catalogue is
/// opened anew for the next question.
#[derive(Debug)]
pub struct KeptCatalog {
    paths: Paths,
    reading: Mutex<Option<Kept>>,
    writing: Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    catalog: Catalog,
    /// Which file it is.
    file: (u64, u64),
}

impl KeptCatalog {
    /// Of this data folder; nothing is opened yet.
    pub fn of(folder: impl AsRef<Path>) -> Self {
        let paths = Paths::new(folder.as_ref());
        Self { paths, reading: Mutex::default(), writing: Mutex::default() }
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.paths.data
    }

    /// Reads it, which needs no room on the disk. If there is none it is made.
    pub fn read<T>(
        &self,
        work: impl FnOnce(&Catalog) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let mut reading = self.reading.lock();
        self.check(&mut reading);
        if reading.is_none() {
            match Catalog::open_read_only(&self.paths.data) {
                Ok(catalog) => match self.kept(catalog) {
                    Ok(kept) => *reading = Some(kept),
                    Err(catalog) => return work(&catalog),
                },
                Err(CatalogError::Missing { .. }) => {
                    drop(reading);
                    return self.write(|catalog| work(catalog));
                }
                Err(error) => return Err(error),
            }
        }
        let result = reading.as_ref().map(|kept| work(&kept.catalog)).expect("it is open");
        forget_after(&mut reading, &result);
        result
    }

    /// Changes it. Runs whose process is gone are interrupted before.
    pub fn write<T>(
        &self,
        work: impl FnOnce(&mut Catalog) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let mut writing = self.writing.lock();
        self.check(&mut writing);
        let result = match &mut *writing {
            Some(kept) => kept.catalog.sweep().and_then(|()| work(&mut kept.catalog)),
            None => {
                // To open it may need it alone for a moment.
                *self.reading.lock() = None;
                let mut catalog = Catalog::open(&self.paths.data)?;
                let result = work(&mut catalog);
                *writing = self.kept(catalog).ok();
                result
            }
        };
        forget_after(&mut writing, &result);
        result
    }

    /// As [`KeptCatalog::write`], for what must not wait long: neither for another process nor for
    /// others of this one, beside whom the catalogue is opened once more.
    pub fn write_within<T>(
        &self,
        patience: Duration,
        work: impl FnOnce(&mut Catalog) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let Some(mut writing) = self.writing.try_lock() else {
            return work(&mut Catalog::open_within(&self.paths.data, patience)?);
        };
        self.check(&mut writing);
        let mut kept = match writing.take() {
            Some(kept) => kept.catalog,
            None => {
                *self.reading.lock() = None;
                Catalog::open_within(&self.paths.data, patience)?
            }
        };
        kept.be_patient(patience)?;
        let result = work(&mut kept);
        let well = result.as_ref().map_or_else(CatalogError::is_answer, |_| true);
        if well && kept.be_patient(PATIENCE).is_ok() {
            *writing = self.kept(kept).ok();
        }
        result
    }

    /// Looks at a run's files ([`Catalog::scan`]), and merges SQLite's log into the database for
    /// those who copy the file alone. It waits for the disk; those who ask or write meanwhile do
    /// not wait for it.
    pub fn scan(&self, number: u64) -> Result<(), CatalogError> {
        let mut catalog = Catalog::open_within(&self.paths.data, PATIENCE_AT_START)?;
        catalog.scan(number)?;
        catalog.checkpoint()
    }

    /// Closes it if somebody wants it alone. A rebuild waits for ten seconds: call this more often.
    pub fn step_aside(&self) {
        if lock::is_wanted(&self.paths) {
            self.close();
        }
    }

    /// Closes it until the next question. What somebody is using is left to them: they look, before
    /// each question, whether it is wanted.
    pub fn close(&self) {
        for kept in [&self.writing, &self.reading] {
            if let Some(mut kept) = kept.try_lock() {
                *kept = None;
            }
        }
    }

    /// Closes what is wanted by somebody, or is not the catalogue any more, or that of a newer
    /// program.
    fn check(&self, kept: &mut Option<Kept>) {
        let same = |kept: &Kept| {
            self.file().is_some_and(|file| file == kept.file) && kept.catalog.is_of_this_version()
        };
        if lock::is_wanted(&self.paths) || !kept.as_ref().is_some_and(same) {
            *kept = None;
        }
    }

    /// A catalogue to keep; not one that keeps others out, or that does not see what they write.
    fn kept(&self, catalog: Catalog) -> Result<Kept, Catalog> {
        match self.file() {
            Some(file) if catalog.is_shared() && !lock::is_wanted(&self.paths) => {
                Ok(Kept { catalog, file })
            }
            _ => Err(catalog),
        }
    }

    fn file(&self) -> Option<(u64, u64)> {
        let identity = |data: Metadata| (data.dev(), data.ino());
        self.paths.database().metadata().map(identity).ok()
    }
}

/// After an error nobody knows what it is good for.
fn forget_after<T>(kept: &mut Option<Kept>, result: &Result<T, CatalogError>) {
    if result.as_ref().is_err_and(|error| !error.is_answer()) {
        *kept = None;
    }
}
