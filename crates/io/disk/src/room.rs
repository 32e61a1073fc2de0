//! What a file system has left, and what of it data may take.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::faults::FaultControl;

/// What a file system has left for this process.
///
/// Data do not take the last of it: a sixty-fourth of the file system, 64 MiB at most, is kept for
/// what is small and must be written when nothing else can be: tables of contents, trends, the
/// catalogue of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Bytes of these that are not for data.
    pub kept_bytes: u64,
}

/// Whether a file is still where it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is, or nobody can say.
    There,
    /// Its path leads nowhere or to another file system, and the file itself is somewhere else: it
    /// was moved, or its file system was unmounted.
    Elsewhere,
    /// It was removed: nobody will read what is written to it.
    Removed,
}

impl Room {
    /// Of the file system that a path is on; none where that does not say. A test may say
    /// otherwise.
    pub(crate) fn of(path: &Path, faults: Option<&FaultControl>) -> io::Result<Option<Self>> {
        if let Some(room) = Self::said(faults) {
            return Ok(Some(room));
        }
        let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
        Self::asked(|stat| {
            // SAFETY: the path ends with a zero byte, and the place is valid.
            unsafe { libc::statvfs(path.as_ptr(), stat) }
        })
    }

    /// Of the file system that a file is on; a test may say otherwise.
    pub(crate) fn of_file(file: &File, faults: Option<&FaultControl>) -> io::Result<Option<Self>> {
        if let Some(room) = Self::said(faults) {
            return Ok(Some(room));
        }
        Self::asked(|stat| {
            // SAFETY: the descriptor is the file's, and the place is valid.
            unsafe { libc::fstatvfs(file.as_raw_fd(), stat) }
        })
    }

    fn said(faults: Option<&FaultControl>) -> Option<Self> {
        let free_bytes = faults.and_then(FaultControl::space)?;
        Some(Self { free_bytes, kept_bytes: 0 })
    }

    fn asked(ask: impl FnOnce(*mut libc::statvfs) -> libc::c_int) -> io::Result<Option<Self>> {
        // SAFETY: statvfs is plain integers, for which zero is a value.
        let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
        if ask(&raw mut stat) != 0 {
            return Err(io::Error::last_os_error());
        }
        let total_bytes = stat.f_blocks.saturating_mul(stat.f_frsize);
        // Some file systems of networks say nothing.
        Ok((total_bytes > 0).then(|| Self {
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            kept_bytes: (total_bytes / KEPT_SHARE).min(KEPT_BYTES_MAX),
        }))
    }

    /// What is left for data, where they leave something to others, and where not.
    pub(crate) fn spare_bytes(&self, keeps_room: bool) -> u64 {
        self.free_bytes.saturating_sub(if keeps_room { self.kept_bytes } else { 0 })
    }
}

impl Presence {
    /// Of an open file that was made at that path. May block for as long as the file system does.
    pub(crate) fn of(file: &File, path: &Path) -> Self {
        let Ok(own) = file.metadata() else { return Self::There };
        let gone = if own.nlink() == 0 { Self::Removed } else { Self::Elsewhere };
        match path.metadata() {
            Ok(found) if (found.dev(), found.ino()) == (own.dev(), own.ino()) => Self::There,
            // Some file systems number their files anew now and then.
            Ok(found) if found.dev() == own.dev() && own.nlink() > 0 => Self::There,
            Ok(_) => gone,
            Err(error) => match error.raw_os_error() {
                Some(libc::ENOENT | libc::ENOTDIR) => gone,
                // A server's answer to those who ask for what it has removed.
                Some(libc::ESTALE) => Self::Removed,
                // A path that may not be looked at, a disk that is ill: writes tell more.
                _ => Self::There,
            },
        }
    }
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
    pub(crate) fn spare_bytes(&self, keeps_room: bool) -> Option<u64> {
        let spare = self.room?.spare_bytes(keeps_room);
        Some(spare.saturating_sub(self.new_bytes - self.ended_then))
    }
}

const KEPT_SHARE: u64 = 64;
const KEPT_BYTES_MAX: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_until_it_is_moved_or_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, moved) = (folder.path().join("a"), folder.path().join("b"));
        let file = File::create(&path).expect("a file");
        assert_eq!(Presence::of(&file, &path), Presence::There);
        std::fs::rename(&path, &moved).expect("moves");
        assert_eq!(Presence::of(&file, &path), Presence::Elsewhere);
        std::fs::remove_file(&moved).expect("removes");
        assert_eq!(Presence::of(&file, &path), Presence::Removed);
        std::fs::write(&path, "another").expect("writes");
        assert_eq!(Presence::of(&file, &path), Presence::Removed);
    }

    #[test]
    fn a_little_is_kept_of_what_is_free() {
        let folder = tempfile::tempdir().expect("a folder");
        let room = Room::of(folder.path(), None).expect("a folder has room").expect("and says so");
        assert!(room.kept_bytes <= KEPT_BYTES_MAX);
        assert_eq!(room.spare_bytes(false), room.free_bytes);
        assert_eq!(room.spare_bytes(true), room.free_bytes.saturating_sub(room.kept_bytes));
        assert!(Room::of(&folder.path().join("missing"), None).is_err());
        let none = Room { free_bytes: 5, kept_bytes: 7 };
        assert_eq!((none.spare_bytes(true), none.spare_bytes(false)), (0, 5));
    }
}
