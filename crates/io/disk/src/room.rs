//! Free space of a file system, and the part of it that data may take.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catchment_agent::Presence;
use catchment_model::limits::DISK_ALIGN_BYTES;

use crate::faults::FaultControl;

/// Free space of a file system.
///
/// A reserve of a sixty-fourth of the file system, at most 64 MiB, is not for data: tables of
/// contents, trends and the catalogue of runs are small, and must be written even when the disk is
/// full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes that are free.
    pub free_bytes: u64,
    /// The part of them that is not for data.
    pub reserve_bytes: u64,
}

impl Room {
    /// Of the file system of a path; none if it does not report it. Tests inject another value.
    pub(crate) fn of(path: &Path, faults: Option<&FaultControl>) -> io::Result<Option<Self>> {
        if let Some(room) = Self::injected(faults) {
            return Ok(Some(room));
        }
        let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
        Self::query(|stat| {
            // SAFETY: the path ends with a zero byte, and the target is valid.
            unsafe { libc::statvfs(path.as_ptr(), stat) }
        })
    }

    /// Of the file system of a file; tests inject another value.
    pub(crate) fn of_file(file: &File, faults: Option<&FaultControl>) -> io::Result<Option<Self>> {
        if let Some(room) = Self::injected(faults) {
            return Ok(Some(room));
        }
        Self::query(|stat| {
            // SAFETY: the descriptor is the file's, and the target is valid.
            unsafe { libc::fstatvfs(file.as_raw_fd(), stat) }
        })
    }

    fn injected(faults: Option<&FaultControl>) -> Option<Self> {
        let free_bytes = faults.and_then(FaultControl::space)?;
        Some(Self { free_bytes, reserve_bytes: 0 })
    }

    fn query(ask: impl FnOnce(*mut libc::statvfs) -> libc::c_int) -> io::Result<Option<Self>> {
        // SAFETY: statvfs is plain integers, for which zero is a valid value.
        let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
        if ask(&raw mut stat) != 0 {
            return Err(io::Error::last_os_error());
        }
        let total_bytes = stat.f_blocks.saturating_mul(stat.f_frsize);
        // Some network file systems report nothing.
        Ok((total_bytes > 0).then(|| Self {
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            reserve_bytes: (total_bytes / RESERVE_SHARE).min(RESERVE_BYTES_MAX),
        }))
    }

    /// Bytes free for data, less the reserve if the caller keeps it.
    pub(crate) fn spare_bytes(&self, keeps_reserve: bool) -> u64 {
        self.free_bytes.saturating_sub(if keeps_reserve { self.reserve_bytes } else { 0 })
    }
}

/// An open file, the path where it was made, and the part of it that must exist.
#[derive(Debug)]
pub(crate) struct Expected {
    pub file: Arc<File>,
    pub path: PathBuf,
    /// Length of the completely written part at its beginning: now, and at the previous check.
    pub written_bytes: u64,
    pub written_before: u64,
    /// The file that was made ahead, which is empty.
    pub ahead: Option<PathBuf>,
}

/// Whether an open file still exists. May block for as long as the file system does.
pub(crate) fn presence_of(expected: &Expected) -> Presence {
    let Expected { file, path, ahead, .. } = expected;
    let Ok(own) = file.metadata() else { return Presence::There };
    let removed = || Presence::Removed { others: has_others(path, ahead.as_deref()) };
    let gone = || if own.nlink() == 0 { removed() } else { Presence::Elsewhere };
    let there = || if is_cut(expected, own.len()) { Presence::Truncated } else { Presence::There };
    match path.metadata() {
        Ok(found) if (found.dev(), found.ino()) == (own.dev(), own.ino()) => there(),
        // Some file systems occasionally renumber their files.
        Ok(found) if found.dev() == own.dev() && own.nlink() > 0 => there(),
        Ok(_) => gone(),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => gone(),
            // A server's answer about a file that it has removed.
            Some(libc::ESTALE) => removed(),
            // A path without permission, or a faulty disk: the next write will report it.
            _ => Presence::There,
        },
    }
}

/// Whether an open file was truncated, detected by its length or by the hole that its writer left:
/// the writer continues behind the lost part, and restores the file's length. A cut reaches to the
/// end of the file at that moment, so it leaves a hole in the data written since the previous
/// check, or just before that.
fn is_cut(expected: &Expected, file_bytes: u64) -> bool {
    let Expected { file, written_bytes, written_before, .. } = expected;
    if *written_bytes == 0 {
        return false;
    }
    // The first byte is not zero, so no file system stores it as a hole.
    let has_begin = match seek(file, 0, libc::SEEK_DATA) {
        Ok(data) => data == 0,
        Err(error) => error.raw_os_error() != Some(libc::ENXIO),
    };
    let from = written_before.saturating_sub(1) / BLOCK_BYTES * BLOCK_BYTES;
    let has_hole = || {
        is_on_a_local_disk(file)
            && seek(file, from, libc::SEEK_HOLE).is_ok_and(|hole| hole < *written_bytes)
    };
    file_bytes < *written_bytes || !has_begin || has_hole()
}

/// Where data or a hole begins, from an offset on.
fn seek(file: &File, from: u64, whence: libc::c_int) -> io::Result<u64> {
    let from = libc::off_t::try_from(from).map_err(io::Error::other)?;
    // SAFETY: lseek takes no pointers. Nothing uses the file's position.
    let found = unsafe { libc::lseek(file.as_raw_fd(), from, whence) };
    u64::try_from(found).map_err(|_| io::Error::last_os_error())
}

/// Whether the file system is known as one of local disks. These keep blocks for all written data,
/// and begin a write without waiting for it. Others may store written zeros as a hole (ZFS, and
/// servers on it), or wait for their server.
pub(crate) fn is_on_a_local_disk(file: &File) -> bool {
    // SAFETY: statfs is plain integers, for which zero is a valid value.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is the file's, and the target is valid.
    let known = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut stat) } == 0;
    let local =
        [libc::EXT4_SUPER_MAGIC, libc::XFS_SUPER_MAGIC, libc::BTRFS_SUPER_MAGIC, libc::TMPFS_MAGIC];
    known && local.contains(&stat.f_type)
}

/// Whether a file's folder has other files with the same extension, except the one made ahead.
fn has_others(path: &Path, ahead: Option<&Path>) -> bool {
    let entries = path.parent().and_then(|folder| folder.read_dir().ok());
    let other = |other: &Path| {
        other != path && Some(other) != ahead && other.extension() == path.extension()
    };
    entries.is_some_and(|entries| entries.flatten().any(|entry| other(&entry.path())))
}

/// The remaining space between two checks.
#[derive(Default)]
pub(crate) struct RoomEstimate {
    /// At the last check, less the space preallocated since.
    room: Option<Room>,
    /// Bytes of all writes so far for which files had no blocks, and of the completed ones among
    /// them.
    new_bytes: u64,
    new_bytes_ended: u64,
    /// The latter when the last check began, and when the one in progress began.
    ended_then: u64,
    looking: Option<u64>,
}

impl RoomEstimate {
    pub(crate) fn is_looking(&self) -> bool {
        self.looking.is_some()
    }

    pub(crate) fn look(&mut self) {
        self.looking = Some(self.new_bytes_ended);
    }

    pub(crate) fn looked(&mut self, room: Option<Room>) {
        self.ended_then = self.looking.take().unwrap_or(self.new_bytes_ended);
        self.room = room;
    }

    pub(crate) fn written(&mut self, new_bytes: u64) {
        self.new_bytes += new_bytes;
    }

    pub(crate) fn write_ended(&mut self, new_bytes: u64) {
        self.new_bytes_ended += new_bytes;
    }

    pub(crate) fn preallocated(&mut self, bytes: u64) {
        if let Some(room) = &mut self.room {
            room.free_bytes = room.free_bytes.saturating_sub(bytes);
        }
    }

    /// The space left for data. Writes in progress at the last check may count twice.
    pub(crate) fn spare_bytes(&self, keeps_reserve: bool) -> Option<u64> {
        let spare = self.room?.spare_bytes(keeps_reserve);
        Some(spare.saturating_sub(self.new_bytes - self.ended_then))
    }
}

const BLOCK_BYTES: u64 = DISK_ALIGN_BYTES as u64;
const RESERVE_SHARE: u64 = 64;
const RESERVE_BYTES_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn a_file_is_there_until_it_is_moved_or_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, moved) = (folder.path().join("a"), folder.path().join("b"));
        let expected = made(&path, 0);
        assert_eq!(presence_of(&expected), Presence::There);
        std::fs::rename(&path, &moved).expect("moves");
        assert_eq!(presence_of(&expected), Presence::Elsewhere);
        std::fs::remove_file(&moved).expect("removes");
        assert_eq!(presence_of(&expected), Presence::Removed { others: false });
        std::fs::write(&path, "another").expect("writes");
        assert_eq!(presence_of(&expected), Presence::Removed { others: false });
    }

    /// A file of that many bytes, whose first block is not zeros.
    fn made(path: &Path, blocks: u64) -> Expected {
        let file = File::create_new(path).expect("a file");
        for block in 0..blocks {
            let bytes = vec![u8::from(block == 0); BLOCK_BYTES as usize];
            file.write_all_at(&bytes, block * BLOCK_BYTES).expect("writes");
        }
        let written_bytes = blocks * BLOCK_BYTES;
        let (file, path) = (Arc::new(file), path.to_owned());
        Expected { file, path, written_bytes, written_before: written_bytes, ahead: None }
    }

    #[test]
    fn a_file_that_was_cut_is_known_also_where_it_has_grown_again() {
        let memory = tempfile::tempdir_in("/dev/shm");
        let folders = [Ok(tempfile::tempdir().expect("a folder")), memory];
        for folder in folders.into_iter().flatten() {
            for cut_bytes in [0, 1, BLOCK_BYTES, 5 * BLOCK_BYTES, 7 * BLOCK_BYTES] {
                let path = folder.path().join(cut_bytes.to_string());
                let mut expected = made(&path, 8);
                assert_eq!(presence_of(&expected), Presence::There, "{}", path.display());
                // Through another handle, like `: > FILE`.
                let other = File::options().write(true).open(&path).expect("opens");
                other.set_len(cut_bytes).expect("cuts");
                assert_eq!(presence_of(&expected), Presence::Truncated, "{cut_bytes}");
                // Blocks ahead, and then two more that are written behind the lost part.
                let end = expected.written_bytes;
                crate::files::allocate(&expected.file, end, end).expect("allocates");
                if cut_bytes == 0 {
                    assert_eq!(presence_of(&expected), Presence::Truncated, "{cut_bytes}");
                }
                let more = vec![7; 2 * BLOCK_BYTES as usize];
                expected.file.write_all_at(&more, end).expect("writes");
                expected.written_bytes += more.len() as u64;
                let is_known = cut_bytes == 0 || is_on_a_local_disk(&expected.file);
                let known = if is_known { Presence::Truncated } else { Presence::There };
                assert_eq!(presence_of(&expected), known, "{cut_bytes} of {}", path.display());
            }
        }
    }

    #[test]
    fn zeros_that_were_written_and_blocks_ahead_are_no_sign_of_a_cut() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut expected = made(&folder.path().join("a"), 1);
        crate::files::allocate(&expected.file, 0, 1 << 20).expect("allocates");
        assert_eq!(presence_of(&expected), Presence::There);
        let zeros = vec![0; 64 * BLOCK_BYTES as usize];
        expected.file.write_all_at(&zeros, BLOCK_BYTES).expect("writes");
        expected.written_bytes += zeros.len() as u64;
        assert_eq!(presence_of(&expected), Presence::There);
        expected.file.sync_all().expect("syncs");
        assert_eq!(presence_of(&expected), Presence::There);
    }

    #[test]
    fn a_reserve_is_left_of_what_is_free() {
        let folder = tempfile::tempdir().expect("a folder");
        let room = Room::of(folder.path(), None).expect("a folder has room").expect("and says so");
        assert!(room.reserve_bytes <= RESERVE_BYTES_MAX);
        assert_eq!(room.spare_bytes(false), room.free_bytes);
        assert_eq!(room.spare_bytes(true), room.free_bytes.saturating_sub(room.reserve_bytes));
        assert!(Room::of(&folder.path().join("missing"), None).is_err());
        let none = Room { free_bytes: 5, reserve_bytes: 7 };
        assert_eq!((none.spare_bytes(true), none.spare_bytes(false)), (0, 5));
    }
}
