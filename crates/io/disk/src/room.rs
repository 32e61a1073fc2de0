//! Free space of a file system, and how much of it data may take.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use catchment_agent::Presence;

use crate::faults::FaultControl;

/// Free space of a file system.
///
/// A reserve of a sixty-fourth of the file system, at most 64 MiB, is not for data: tables of
/// contents, trends and the catalogue of runs are small, and must be written when the disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes that are free.
    pub free_bytes: u64,
    /// How many of them are not for data.
    pub reserve_bytes: u64,
}

impl Room {
    /// Of the file system that a path is on; none if it does not say. Tests inject another value.
    pub(crate) fn of(path: &Path, faults: Option<&FaultControl>) -> io::Result<Option<Self>> {
        if let Some(room) = Self::injected(faults) {
            return Ok(Some(room));
        }
        let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
        Self::query(|stat| {
            // SAFETY: the path ends with a zero byte, and the place is valid.
            unsafe { libc::statvfs(path.as_ptr(), stat) }
        })
    }

    /// Of the file system that a file is on; tests inject another value.
    pub(crate) fn of_file(file: &File, faults: Option<&FaultControl>) -> io::Result<Option<Self>> {
        if let Some(room) = Self::injected(faults) {
            return Ok(Some(room));
        }
        Self::query(|stat| {
            // SAFETY: the descriptor is the file's, and the place is valid.
            unsafe { libc::fstatvfs(file.as_raw_fd(), stat) }
        })
    }

    fn injected(faults: Option<&FaultControl>) -> Option<Self> {
        let free_bytes = faults.and_then(FaultControl::space)?;
        Some(Self { free_bytes, reserve_bytes: 0 })
    }

    fn query(ask: impl FnOnce(*mut libc::statvfs) -> libc::c_int) -> io::Result<Option<Self>> {
        // SAFETY: statvfs is plain integers, for which zero is a value.
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

    /// Bytes that are free for data, less the reserve if the caller keeps it.
    pub(crate) fn spare_bytes(&self, keeps_reserve: bool) -> u64 {
        self.free_bytes.saturating_sub(if keeps_reserve { self.reserve_bytes } else { 0 })
    }
}

/// Whether an open file that was made at that path is still there. `ahead` is the file that was
/// made ahead. May block for as long as the file system does.
pub(crate) fn presence_of(file: &File, path: &Path, ahead: Option<&Path>) -> Presence {
    let Ok(own) = file.metadata() else { return Presence::There };
    let removed = || Presence::Removed { others: has_others(path, ahead) };
    let gone = || if own.nlink() == 0 { removed() } else { Presence::Elsewhere };
    match path.metadata() {
        Ok(found) if (found.dev(), found.ino()) == (own.dev(), own.ino()) => Presence::There,
        // Some file systems number their files anew now and then.
        Ok(found) if found.dev() == own.dev() && own.nlink() > 0 => Presence::There,
        Ok(_) => gone(),
        Err(error) => match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => gone(),
            // A server's answer to those who ask for what it has removed.
            Some(libc::ESTALE) => removed(),
            // A path without permission, or a faulty disk: the next write reports it.
            _ => Presence::There,
        },
    }
}

/// Whether a file's folder has other files of the same extension, but for the one made ahead.
fn has_others(path: &Path, ahead: Option<&Path>) -> bool {
    let entries = path.parent().and_then(|folder| folder.read_dir().ok());
    let other = |other: &Path| {
        other != path && Some(other) != ahead && other.extension() == path.extension()
    };
    entries.is_some_and(|entries| entries.flatten().any(|entry| other(&entry.path())))
}

/// What is left, between two looks.
#[derive(Default)]
pub(crate) struct RoomEstimate {
    /// At the last look, less what was preallocated since.
    room: Option<Room>,
    /// Bytes of all writes so far for which files had no blocks, and of those that have ended.
    new_bytes: u64,
    new_bytes_ended: u64,
    /// The latter when the last look began, and when the one began that is under way.
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

    /// What is left for data. What was being written at the last look may count twice.
    pub(crate) fn spare_bytes(&self, keeps_reserve: bool) -> Option<u64> {
        let spare = self.room?.spare_bytes(keeps_reserve);
        Some(spare.saturating_sub(self.new_bytes - self.ended_then))
    }
}

const RESERVE_SHARE: u64 = 64;
const RESERVE_BYTES_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_until_it_is_moved_or_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, moved) = (folder.path().join("a"), folder.path().join("b"));
        let file = File::create(&path).expect("a file");
        assert_eq!(presence_of(&file, &path, None), Presence::There);
        std::fs::rename(&path, &moved).expect("moves");
        assert_eq!(presence_of(&file, &path, None), Presence::Elsewhere);
        std::fs::remove_file(&moved).expect("removes");
        assert_eq!(presence_of(&file, &path, None), Presence::Removed { others: false });
        std::fs::write(&path, "another").expect("writes");
        assert_eq!(presence_of(&file, &path, None), Presence::Removed { others: false });
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
