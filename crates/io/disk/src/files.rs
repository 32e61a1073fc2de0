//! Making, preallocating and closing files: the calls that may take long.

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
use crate::room::Room;

/// How a file gets blocks before it needs them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preallocation {
    /// Bytes at a time, at most.
    pub step_bytes: u64,
    /// What the file comes to.
    pub file_bytes: u64,
    pub keeps_reserve: bool,
}

/// A file just made.
#[derive(Debug)]
pub(crate) struct Created {
    pub handle: Arc<File>,
    pub path: PathBuf,
    /// It bypasses the page cache.
    pub direct: bool,
    /// Bytes that are preallocated; 0 where too little is free, or that is not possible.
    pub allocated: u64,
    /// Whether the file system preallocates, when there is room.
    pub preallocates: bool,
}

/// The file system on which a file's folder is.
pub(crate) fn device_of_folder(path: &Path) -> Option<u64> {
    path.parent()?.metadata().ok().map(|found| found.dev())
}

/// As [`create`], where the folder has room for data; the folder is made again where it was
/// removed, but not on another file system than `device`: that is where a disk was unmounted.
pub(crate) fn create_in(
    new: &NewFile,
    device: Option<u64>,
    how: Preallocation,
    faults: Option<&FaultControl>,
) -> Result<Created, DiskError> {
    if let Some(folder) = new.path.parent() {
        find_folder(folder, device)?;
        // Where nobody can say how much there is, writes tell.
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

/// Makes a folder again where it was removed from that file system.
fn find_folder(folder: &Path, device: Option<u64>) -> Result<(), DiskError> {
    match folder.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        // It is there, or making the file tells what is wrong.
        _ => return Ok(()),
    }
    let above = folder.ancestors().find_map(|above| above.metadata().ok());
    if device.is_some() && above.map(|found| found.dev()) != device {
        return Err(DiskError::Unmounted { folder: folder.to_owned() });
    }
    std::fs::create_dir_all(folder).map_err(|source| DiskError::path("make again", folder, source))
}

/// Makes a file that does not exist yet, direct if the file system can, and preallocates its first
/// step. Its name is durable when this returns.
pub(crate) fn create(
    path: &Path,
    how: Preallocation,
    faults: Option<&FaultControl>,
) -> Result<Created, DiskError> {
    faults.map_or(Ok(()), FaultControl::check_open).map_err(|e| create_error(path, e))?;
    let handle = create_new(path).map_err(|e| create_error(path, e))?;
    lock(&handle);
    // Asked for afterwards, because an open that refuses O_DIRECT has made the file already.
    let direct = set_direct(&handle, true).is_ok();
    if let Err(error) = sync_folder_of(path) {
        drop(handle);
        // The file is empty. If it cannot be deleted either, the error to report is the first one.
        let _deleted = std::fs::remove_file(path);
        return Err(create_error(path, error));
    }
    // Without preallocation all goes on, only slower. A disk that is full or broken fails the
    // writes.
    let preallocated = preallocate(&handle, 0, how, faults);
    if preallocated.is_err() {
        // Some file systems keep what they had found when they found no more (ext4). Nothing was
        // written yet: all of it goes back. If that is refused too, it stays the file's.
        let _given_back = handle.set_len(0);
    }
    let preallocates = preallocated.as_ref().map_or_else(is_full, |_| how.step_bytes > 0);
    let allocated = preallocated.unwrap_or(0);
    Ok(Created { handle: Arc::new(handle), path: path.to_owned(), direct, allocated, preallocates })
}

/// Makes a file that does not exist yet.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    descriptors::with_spares(|| OpenOptions::new().write(true).create_new(true).open(path))
}

/// Whether an error says that nothing is free, which may change.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// Locks a file that was just made, so that repair keeps off while it is written, and readers know
/// that it grows. Where locks are not supported it goes without.
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

/// Gives the file blocks from `from` on, and the size that goes with them, so that writes there
/// need not extend the file. Returns for how many bytes: none where too little is free.
///
/// # Errors
/// What the system says. The file may have got some of the blocks all the same.
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

/// Has the file system find blocks for a range.
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
    match descriptors::with_spares(|| File::open(folder))?.sync_all() {
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

/// The part of what is free that one step of preallocation may take at most: on a disk that is
/// nearly full, steps become small, and what no file has is there for the one that needs it.
const SPARE_SHARE: u64 = 8;
/// Smaller steps are not worth their call.
const STEP_BYTES_MIN: u64 = 256 << 10;
/// How often and how long a file that was just made waits for a reader that looks whether it is
/// locked.
const PROBES_MAX: u32 = 100;
const PROBE_TIME: Duration = Duration::from_millis(1);
