//! Making, preallocating and closing files: the calls that may take long.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::DiskError;
use crate::faults::FaultControl;

/// A file just made.
#[derive(Debug)]
pub(crate) struct Created {
    pub handle: Arc<File>,
    pub path: PathBuf,
    /// It bypasses the page cache.
    pub direct: bool,
    /// Bytes that are preallocated; 0 where that is not possible.
    pub allocated: u64,
}

/// Makes a file that does not exist yet, direct if the file system can, and preallocates its first
/// step. Its name is durable when this returns.
pub(crate) fn create(
    path: &Path,
    preallocate_bytes: u64,
    faults: Option<&FaultControl>,
) -> Result<Created, DiskError> {
    faults.map_or(Ok(()), FaultControl::check_open).map_err(|e| create_error(path, e))?;
    let handle = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| create_error(path, e))?;
    lock(&handle);
    // Asked for afterwards, because an open that refuses O_DIRECT has made the file already.
    let direct = set_direct(&handle, true).is_ok();
    if let Err(error) = sync_folder_of(path) {
        drop(handle);
        // The file is empty. If it cannot be deleted either, the error to report is the first one.
        let _deleted = std::fs::remove_file(path);
        return Err(create_error(path, error));
    }
    // Without preallocation all goes on, only slower. A disk that is full or broken fails the writes.
    let preallocated = preallocate_bytes > 0 && preallocate(&handle, 0, preallocate_bytes).is_ok();
    let allocated = if preallocated { preallocate_bytes } else { 0 };
    Ok(Created { handle: Arc::new(handle), path: path.to_owned(), direct, allocated })
}

/// Locks a file that was just made, so that repair keeps off while it is written, and readers know that
/// it grows. Where locks are not supported it goes without.
pub(crate) fn lock(file: &File) {
    // Readers probe with a lock of their own for a moment.
    for _ in 0..PROBES_MAX {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => std::thread::sleep(PROBE_TIME),
            Ok(()) | Err(TryLockError::Error(_)) => return,
        }
    }
}

/// Sets or clears O_DIRECT.
pub(crate) fn set_direct(file: &File, direct: bool) -> io::Result<()> {
    // SAFETY: F_GETFL takes no pointers.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    let flags = if direct { flags | libc::O_DIRECT } else { flags & !libc::O_DIRECT };
    // SAFETY: F_SETFL takes no pointers.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives the file blocks for a range, and the size that goes with it, so that writes to the range
/// need not extend the file.
pub(crate) fn preallocate(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    let from = libc::off_t::try_from(from).map_err(io::Error::other)?;
    let bytes = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
    loop {
        // SAFETY: fallocate takes no pointers.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, from, bytes) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Cuts the file at `final_bytes` and makes it durable, its name included.
pub(crate) fn finish(
    file: &File,
    path: &Path,
    final_bytes: u64,
    faults: Option<&FaultControl>,
) -> io::Result<()> {
    file.set_len(final_bytes)?;
    file.sync_data()?;
    faults.map_or(Ok(()), FaultControl::check_finish)?;
    sync_folder_of(path)
}

/// Makes the names in the folder of `path` durable.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match File::open(folder)?.sync_all() {
        // Some file systems (FUSE, SMB) cannot sync a folder and say so.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
        result => result,
    }
}

pub(crate) fn create_error(path: &Path, source: io::Error) -> DiskError {
    match source.kind() {
        io::ErrorKind::AlreadyExists => DiskError::Exists { path: path.to_owned() },
        _ => DiskError::Create { path: path.to_owned(), source },
    }
}

/// How often and how long a file that was just made waits for a reader that looks whether it is locked.
const PROBES_MAX: u32 = 100;
const PROBE_TIME: Duration = Duration::from_millis(1);
