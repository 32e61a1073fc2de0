//! Making, preallocating and closing files: the calls that may take a long time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use catchment_agent::{NewFile, OpenError};
use catchment_model::limits::DISK_ALIGN_BYTES;

use crate::descriptors;
use crate::error::DiskError;
use crate::faults::FaultControl;
use crate::room::{self, Room};

/// How a file is preallocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preallocation {
    /// The most bytes per step.
    pub step_bytes: u64,
    /// The final size of the file.
    pub file_bytes: u64,
    pub keeps_reserve: bool,
}

/// A new file.
#[derive(Debug)]
pub(crate) struct Created {
    pub handle: Arc<File>,
    pub path: PathBuf,
    /// It bypasses the page cache.
    pub direct: bool,
    /// Whether to begin a write may take as long as the write: the file system is not known as one
    /// that does not wait.
    pub may_block: bool,
    /// Bytes that are preallocated; 0 if too little is free, or if preallocation is not possible.
    pub allocated: u64,
    /// Whether the file system preallocates, if there is room.
    pub preallocates: bool,
}

/// The file system of a file's folder.
pub(crate) fn device_of_folder(path: &Path) -> Option<u64> {
    path.parent()?.metadata().ok().map(|found| found.dev())
}

/// As [`create`], if the folder has room for data. A removed folder is made again, but only on the
/// file system `device`: otherwise a disk was unmounted.
pub(crate) fn create_in(
    new: &NewFile,
    device: Option<u64>,
    how: Preallocation,
    faults: Option<&FaultControl>,
) -> Result<Created, DiskError> {
    if let Some(folder) = new.path.parent() {
        find_folder(folder, device)?;
        // If the free space is unknown, writes will tell.
        let room = Room::of(folder, faults).unwrap_or(None);
        let spare = room.map(|room| room.spare_bytes(how.keeps_reserve));
        if let Some(spare_bytes) = spare.filter(|&spare| spare < new.room_bytes) {
            let (folder, room_bytes) = (folder.to_owned(), new.room_bytes);
            let error = OpenError::NoRoom { folder, spare_bytes, room_bytes };
            return Err(DiskError::Open(error));
        }
    }
    create(&new.path, how, faults)
}

/// Makes a removed folder again on that file system.
fn find_folder(folder: &Path, device: Option<u64>) -> Result<(), DiskError> {
    match folder.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // It exists, or making the file will give the error.
        _ => return Ok(()),
    }
    let above = folder.ancestors().find_map(|above| above.metadata().ok());
    if device.is_some() && above.map(|found| found.dev()) != device {
        return Err(DiskError::Unmounted { folder: folder.to_owned() });
    }
    std::fs::create_dir_all(folder).map_err(|source| DiskError::path("make again", folder, source))
}

/// Makes a file that does not exist yet, direct if the file system supports it, and preallocates
/// its first step. Its name is durable on return.
pub(crate) fn create(
    path: &Path,
    how: Preallocation,
    faults: Option<&FaultControl>,
) -> Result<Created, DiskError> {
    faults.map_or(Ok(()), FaultControl::check_open).map_err(|e| create_error(path, e))?;
    let handle = create_new(path).map_err(|e| create_error(path, e))?;
    lock(&handle);
    // Set afterwards, because an open that refuses O_DIRECT has already made the file.
    let direct = set_direct(&handle, true).is_ok();
    if let Err(error) = sync_folder_of(path) {
        // The file is empty. If it cannot be deleted either, report the first error. It is locked
        // until then: another program may replace a blank file that is not.
        let _deleted = std::fs::remove_file(path);
        drop(handle);
        return Err(create_error(path, error));
    }
    // Without preallocation everything works, only slower. On a full or broken disk, the writes
    // fail.
    let preallocated = preallocate(&handle, 0, how, faults);
    if preallocated.is_err() {
        // When some file systems (ext4) find no more blocks, they keep those that they found.
        // Nothing was written yet, so all of it goes back. If that is refused too, the blocks stay
        // with the file.
        let _given_back = handle.set_len(0);
    }
    let preallocates = preallocated.as_ref().map_or_else(is_full, |_| how.step_bytes > 0);
    let allocated = preallocated.unwrap_or(0);
    let may_block = !room::is_on_a_local_disk(&handle);
    let (handle, path) = (Arc::new(handle), path.to_owned());
    Ok(Created { handle, path, direct, may_block, allocated, preallocates })
}

/// Makes a file that does not exist yet.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    descriptors::with_spares(|| OpenOptions::new().write(true).create_new(true).open(path))
}

/// Whether an error means that no space is free, which may change.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// Locks a new file, so that repair leaves it alone while it is written, and readers know that it
/// grows. If locks are not supported, it remains unlocked.
pub(crate) fn lock(file: &File) {
    // Readers probe with a brief lock of their own.
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

/// Gives the file blocks from `from` on, and extends its size accordingly, so that writes there
/// need not extend the file. Returns the number of bytes: none if too little is free.
///
/// # Errors
/// The system's error. The file may nevertheless have got some of the blocks.
pub(crate) fn preallocate(
    file: &File,
    from: u64,
    how: Preallocation,
    faults: Option<&FaultControl>,
) -> io::Result<u64> {
    let wanted = how.step_bytes.min(how.file_bytes.saturating_sub(from));
    if wanted == 0 {
        return Ok(0);
    }
    let room = Room::of_file(file, faults)?;
    let share = room.map_or(u64::MAX, |room| room.spare_bytes(how.keeps_reserve) / SPARE_SHARE);
    let granted = if share < STEP_BYTES_MIN.min(wanted) { 0 } else { wanted.min(share) };
    // Whole blocks: the file's end may be anywhere.
    let granted = granted / DISK_ALIGN_BYTES as u64 * DISK_ALIGN_BYTES as u64;
    if granted > 0 {
        faults.map_or(Ok(()), |faults| faults.check_preallocate(file, from, granted))?;
        allocate(file, from, granted)?;
    }
    Ok(granted)
}

/// Makes the file system allocate blocks for a range.
pub(crate) fn allocate(file: &File, from: u64, bytes: u64) -> io::Result<()> {
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

/// Cuts the file to `final_bytes` and makes it durable, including its name.
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
    match descriptors::with_spares(|| File::open(folder))?.sync_all() {
        // Some file systems (FUSE, SMB) cannot sync a folder and return an error.
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

/// The most of the free space that one preallocation step may take: on a nearly full disk, steps
/// become small, and the remaining space stays available to the file that needs it.
const SPARE_SHARE: u64 = 8;
/// Smaller steps are not worth a system call.
const STEP_BYTES_MIN: u64 = 256 << 10;
/// How often and how long a new file waits for a reader that probes its lock.
const PROBES_MAX: u32 = 100;
const PROBE_TIME: Duration = Duration::from_millis(1);
