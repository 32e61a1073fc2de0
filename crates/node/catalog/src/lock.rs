//! Who has the catalogue open, and which runs are alive.
//!
//! Both are advisory locks on files that hold nothing: the kernel lets go of them when the process
//! ends, however it ends. On a file system without locks, no lock seems to be held.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::CatalogError;
use crate::facts;
use crate::numbers;
use crate::schema::{self, Paths};

/// How long one waits for another process: a commit takes milliseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// How long what must go on waits for the catalogue: a run's beginning and its end.
pub const PATIENCE_AT_START: Duration = Duration::from_millis(500);
/// How long a rebuild waits until no other process has the catalogue open.
pub(crate) const REBUILD_PATIENCE: Duration = Duration::from_secs(10);

/// The right to have the catalogue open, or to have it alone.
#[derive(Debug)]
pub(crate) struct OpenLock {
    _file: Option<File>,
    /// Announces that this process wants or has exclusive access.
    _wanted: Option<File>,
}

impl OpenLock {
    /// Together with others; a rebuild waits.
    pub(crate) fn shared(paths: &Paths, patience: Duration) -> Result<Self, CatalogError> {
        let what = "`catchment catalog rebuild`";
        let path = paths.lock();
        let file = take(paths, &path, what, patience, File::try_lock_shared)?;
        Ok(Self { _file: Some(file), _wanted: None })
    }

    /// Exclusive: other processes wait, and those that have it open are asked to close it.
    pub(crate) fn alone(paths: &Paths) -> Result<Self, CatalogError> {
        let (what, lock) = ("another process", File::try_lock);
        let wanted = take(paths, &paths.wanted(), what, REBUILD_PATIENCE, lock)?;
        let file = take(paths, &paths.lock(), what, REBUILD_PATIENCE, lock)?;
        Ok(Self { _file: Some(file), _wanted: Some(wanted) })
    }

    /// As [`OpenLock::shared`], where nothing may be written: without a lock file there is no lock.
    pub(crate) fn for_reading(paths: &Paths) -> Result<Self, CatalogError> {
        match File::open(paths.lock()) {
            Ok(file) => {
                let what = "`catchment catalog rebuild`";
                let file = wait(file, paths, what, PATIENCE, File::try_lock_shared)?;
                Ok(Self { _file: Some(file), _wanted: None })
            }
            Err(_) => Ok(Self { _file: None, _wanted: None }),
        }
    }
}

/// Whether a process wants exclusive access to the catalogue, or has it.
pub(crate) fn is_wanted(paths: &Paths) -> bool {
    is_held(&paths.wanted())
}

/// Takes a lock on a file, which is made if need be.
pub(crate) fn take(
    paths: &Paths,
    path: &Path,
    what: &'static str,
    patience: Duration,
    lock: fn(&File) -> Result<(), TryLockError>,
) -> Result<File, CatalogError> {
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let file = open.map_err(CatalogError::system("open", path))?;
    wait(file, paths, what, patience, lock)
}

fn wait(
    file: File,
    paths: &Paths,
    what: &'static str,
    patience: Duration,
    lock: fn(&File) -> Result<(), TryLockError>,
) -> Result<File, CatalogError> {
    let start = Instant::now();
    while let Err(error) = lock(&file) {
        match error {
            TryLockError::WouldBlock if start.elapsed() < patience => {
                std::thread::sleep(LOOK_EVERY);
            }
            TryLockError::WouldBlock => {
                return Err(CatalogError::InUse { path: paths.database(), what });
            }
            // A file system without locks.
            TryLockError::Error(_) => break,
        }
    }
    Ok(file)
}

/// A run that was given a number and has not ended: the process that holds this starts or records
/// it. When this is dropped, or the process is gone, the run is over; without an entered end it was
/// interrupted.
#[derive(Debug)]
pub struct LiveRun {
    number: u64,
    path: PathBuf,
    _file: File,
}

impl LiveRun {
    /// The run's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Takes a number without the catalogue, which cannot be opened or written: from the file
    /// beside it that knows the highest. A rebuild finds the run by its files.
    ///
    /// # Errors
    /// The system refuses to write there too.
    pub fn without_catalog(
        folder: impl AsRef<Path>,
        wanted: Option<u64>,
    ) -> Result<Self, CatalogError> {
        let paths = Paths::new(folder.as_ref());
        paths.make()?;
        let numbers = numbers::Numbers::lock(&paths)?;
        // A locked database can most often be read. Without that file and the database, the runs
        // themselves say which numbers were given.
        let in_database = schema::highest_number(&paths.database());
        let known = match (numbers.highest(), in_database) {
            (0, None) => facts::highest_number(&paths.data),
            (_, in_database) => in_database.unwrap_or(0),
        };
        let number = numbers.next(known, wanted)?;
        let live = Self::hold(&paths, number)?;
        numbers.keep(number)?;
        Ok(live)
    }

    /// Locks a number's file. The caller made sure that no other process has or takes this number.
    pub(crate) fn hold(paths: &Paths, number: u64) -> Result<Self, CatalogError> {
        let path = paths.live(number);
        let what = "another process that is starting a run";
        // Whoever looks whether the number's process is alive shares the lock for a moment; a
        // process that is alive keeps it.
        let patience = if is_held(&path) { Duration::ZERO } else { PATIENCE };
        // On a file system without locks the run's end is entered by the process that records it.
        let file = take(paths, &path, what, patience, File::try_lock)?;
        Ok(Self { number, path, _file: file })
    }
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        // While it is locked. If it stays, the next to open the catalogue removes it.
        let _removed = std::fs::remove_file(&self.path);
    }
}

/// Whether a process starts or records the run.
pub(crate) fn is_live(paths: &Paths, number: u64) -> bool {
    is_held(&paths.live(number))
}

fn is_held(path: &Path) -> bool {
    // The probe shares the lock, so that two do not meet.
    let probe = File::open(path).map(|file| file.try_lock_shared());
    matches!(probe, Ok(Err(TryLockError::WouldBlock)))
}

/// The numbers that have a lock file, held or left over.
pub(crate) fn live_numbers(paths: &Paths) -> Vec<u64> {
    let Ok(entries) = std::fs::read_dir(paths.live_folder()) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let numbers = names.filter_map(|name| name.parse().ok());
    numbers.filter(|number| (1..=crate::RUN_NUMBER_MAX).contains(number)).collect()
}

/// The numbers that have a lock file which no process holds.
pub(crate) fn left_over(paths: &Paths) -> Vec<u64> {
    let mut numbers = live_numbers(paths);
    numbers.retain(|number| !is_live(paths, *number));
    numbers
}

/// Removes the lock files of runs that are over. No other process may take a number meanwhile.
pub(crate) fn remove_left_over(paths: &Paths) {
    for number in live_numbers(paths) {
        let path = paths.live(number);
        if !is_held(&path) {
            // A file that stays does no harm: no process holds it.
            let _removed = std::fs::remove_file(path);
        }
    }
}

/// Removes a file, if it is there.
pub(crate) fn remove(path: &Path) -> Result<(), CatalogError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(CatalogError::system("remove", path)),
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(5);
