//! A catalogue that stays open between queries, and is closed for a rebuild.
//!
//! The last process that closes a database merges SQLite's log into it and waits for the disk.
//! Beside a recorder that writes 1.5 GB/s this takes half a second, too long for each query. A
//! program with frequent queries keeps the database open, and checks a few times per second whether
//! another process wants exclusive access.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use catchment_model::RunId;
use parking_lot::Mutex;

use crate::catalog::Catalog;
use crate::error::CatalogError;
use crate::lock::{self, PATIENCE, PATIENCE_AT_START};
use crate::schema::Paths;

/// A data folder's catalogue, open from the first query on. Readers do not wait for writers.
///
/// # Errors
/// Of all methods: as those of [`Catalog`]. After an error that is no answer the catalogue is
/// reopened for the next query.
#[derive(Debug)]
pub struct CachedCatalog {
    paths: Paths,
    reading: Mutex<Option<OpenCatalog>>,
    writing: Mutex<Option<OpenCatalog>>,
}

#[derive(Debug)]
struct OpenCatalog {
    catalog: Catalog,
    /// Which file it is.
    file: (u64, u64),
}

impl CachedCatalog {
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
                Ok(catalog) => match self.cacheable(catalog) {
                    Ok(cached) => *reading = Some(cached),
                    Err(catalog) => return work(&catalog),
                },
                Err(CatalogError::Missing { .. }) => {
                    drop(reading);
                    return self.write(|catalog| work(catalog));
                }
                Err(error) => return Err(error),
            }
        }
        let result = reading.as_ref().map(|cached| work(&cached.catalog)).expect("it is open");
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
            Some(cached) => cached.catalog.sweep().and_then(|()| work(&mut cached.catalog)),
            None => {
                // To open it may need it alone for a moment.
                *self.reading.lock() = None;
                let mut catalog = Catalog::open(&self.paths.data)?;
                let result = work(&mut catalog);
                *writing = self.cacheable(catalog).ok();
                result
            }
        };
        forget_after(&mut writing, &result);
        result
    }

    /// As [`CachedCatalog::write`], for what must not wait long: neither for another process nor
    /// for others of this one, beside whom the catalogue is opened once more.
    pub fn write_within<T>(
        &self,
        patience: Duration,
        work: impl FnOnce(&mut Catalog) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let Some(mut writing) = self.writing.try_lock() else {
            return work(&mut Catalog::open_within(&self.paths.data, patience)?);
        };
        self.check(&mut writing);
        let mut cached = match writing.take() {
            Some(cached) => cached.catalog,
            None => {
                *self.reading.lock() = None;
                Catalog::open_within(&self.paths.data, patience)?
            }
        };
        cached.be_patient(patience)?;
        let result = work(&mut cached);
        let well = result.as_ref().map_or_else(CatalogError::is_answer, |_| true);
        if well && cached.be_patient(PATIENCE).is_ok() {
            *writing = self.cacheable(cached).ok();
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

    /// As [`CachedCatalog::scan`], of the run that lies there ([`Catalog::scan_folder`]).
    pub fn scan_folder(&self, folder: &Path, id: RunId) -> Result<(), CatalogError> {
        Catalog::open_within(&self.paths.data, PATIENCE_AT_START)?.scan_folder(folder, id)
    }

    /// Closes it if another process wants exclusive access. A rebuild waits for ten seconds: call
    /// this more often.
    pub fn close_if_wanted(&self) {
        if lock::is_wanted(&self.paths) {
            self.close();
        }
    }

    /// Closes it until the next query. A connection in use stays open: before each query it is
    /// checked whether exclusive access is wanted.
    pub fn close(&self) {
        for cached in [&self.writing, &self.reading] {
            if let Some(mut cached) = cached.try_lock() {
                *cached = None;
            }
        }
    }

    /// Closes the catalogue if another process wants exclusive access, if the file was replaced, or
    /// if a newer program migrated it.
    fn check(&self, cached: &mut Option<OpenCatalog>) {
        let same = |cached: &OpenCatalog| {
            self.file().is_some_and(|file| file == cached.file)
                && cached.catalog.is_of_this_version()
        };
        if lock::is_wanted(&self.paths) || !cached.as_ref().is_some_and(same) {
            *cached = None;
        }
    }

    /// A catalogue that may stay open: not one that locks others out, or that does not see their
    /// changes.
    fn cacheable(&self, catalog: Catalog) -> Result<OpenCatalog, Catalog> {
        match self.file() {
            Some(file) if catalog.is_shared() && !lock::is_wanted(&self.paths) => {
                Ok(OpenCatalog { catalog, file })
            }
            _ => Err(catalog),
        }
    }

    fn file(&self) -> Option<(u64, u64)> {
        let identity = |data: Metadata| (data.dev(), data.ino());
        self.paths.database().metadata().map(identity).ok()
    }
}

/// After an error the state of the connection is unknown.
fn forget_after<T>(cached: &mut Option<OpenCatalog>, result: &Result<T, CatalogError>) {
    if result.as_ref().is_err_and(|error| !error.is_answer()) {
        *cached = None;
    }
}
