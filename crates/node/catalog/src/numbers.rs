//! The highest run number, in a small file beside the database.
//!
//! The database knows it too. The file is there for the day on which the database is damaged,
//! deleted or an old copy: runs can still be numbered, and no number is given twice. It is replaced
//! as a whole (write, sync, rename, sync), so that a killed process leaves the old or the new one.

use std::fs::File;
use std::io::{Read, Write};

use catchment_disk::sync_folder;

use crate::RUN_NUMBER_MAX;
use crate::error::CatalogError;
use crate::lock::{PATIENCE, take};
use crate::schema::Paths;
use crate::step::step;

/// The file, held by this process alone.
pub(crate) struct Numbers<'a> {
    paths: &'a Paths,
    highest: u64,
    _lock: File,
}

impl<'a> Numbers<'a> {
    /// Waits until no other process takes a number, and reads the highest.
    pub(crate) fn lock(paths: &'a Paths) -> Result<Self, CatalogError> {
        let what = "another process that is taking a run number";
        let lock = take(paths, &paths.numbers_lock(), what, PATIENCE, File::try_lock)?;
        Ok(Self { paths, highest: read(paths), _lock: lock })
    }

    /// The highest number that was given.
    pub(crate) fn highest(&self) -> u64 {
        self.highest
    }

    /// The number to be given next: the one behind the highest that this file or the caller knows,
    /// or the wanted one if that is higher. Numbers only rise: a lower one may have been given
    /// before.
    pub(crate) fn next(&self, known: u64, wanted: Option<u64>) -> Result<u64, CatalogError> {
        let highest = self.highest.max(known);
        match wanted {
            Some(wanted) if wanted > highest && wanted <= RUN_NUMBER_MAX => Ok(wanted),
            _ if highest >= RUN_NUMBER_MAX => Err(CatalogError::NoNumbers { highest }),
            _ => Ok(highest + 1),
        }
    }

    /// Makes it durable that `number` is given.
    pub(crate) fn keep(&self, number: u64) -> Result<(), CatalogError> {
        if number <= self.highest {
            return Ok(());
        }
        let (path, new) = (self.paths.numbers(), self.paths.numbers_new());
        let write = || {
            let mut file = File::create(&new)?;
            writeln!(file, "{number}")?;
            step();
            file.sync_all()?;
            step();
            std::fs::rename(&new, &path)
        };
        write().map_err(CatalogError::system("write", &path))?;
        step();
        sync_folder(&self.paths.folder())?;
        Ok(())
    }
}

/// What the file says; 0 if there is none, or no number in it: the other places decide then.
pub(crate) fn read(paths: &Paths) -> u64 {
    let mut text = String::new();
    let read = File::open(paths.numbers()).and_then(|file| file.take(32).read_to_string(&mut text));
    let number = read.ok().and_then(|_| text.trim().parse::<u64>().ok()).unwrap_or(0);
    if number <= RUN_NUMBER_MAX { number } else { 0 }
}
