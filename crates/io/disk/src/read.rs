//! Positioned reads, and the operations on files and folders that repair and readers need.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::time::SystemTime;

use parking_lot::Mutex;

use catchment_frame::ReadAt;

use crate::error::DiskError;
use crate::files;
use crate::room::Room;

/// A file open for positioned reads (`pread`). Any number of threads may read at once. The file may
/// grow meanwhile: its size is queried each time.
#[derive(Debug)]
pub struct ReadFile {
    file: File,
    /// The same file past the page cache, while it is being read that way.
    pub(crate) direct: Mutex<Weak<File>>,
}

impl ReadFile {
    /// Opens a file.
    ///
    /// # Errors
    /// It does not exist, must not be read, or is not a regular file.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let file = open_regular(path, OpenOptions::new().read(true));
        let file = file.map_err(|e| DiskError::path("open", path, e))?;
        Ok(Self { file, direct: Mutex::default() })
    }

    /// Has the system read what is asked for and nothing ahead of that: blocks that were allocated
    /// and not written are a hole in its map only as long as they are not in the page cache.
    #[must_use]
    pub fn without_read_ahead(self) -> Self {
        let file = self.file.as_raw_fd();
        // SAFETY: numbers only. It is a hint: where it is refused, more is read.
        let _refused = unsafe { libc::posix_fadvise(file, 0, 0, libc::POSIX_FADV_RANDOM) };
        self
    }

    /// Whether a recorder, or a repair, holds the file: it is locked while it is written. If locks
    /// are not supported, the file appears unlocked. The probe takes a shared lock, so that two
    /// probes do not collide.
    pub fn is_held(&self) -> bool {
        match self.file.try_lock_shared() {
            // If the unlock fails, the lock ends with the file.
            Ok(()) => drop(self.file.unlock()),
            Err(TryLockError::WouldBlock) => return true,
            Err(TryLockError::Error(_)) => {}
        }
        false
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Reads at a position: fewer bytes than requested only at the end of the file.
    ///
    /// # Errors
    /// The system's error.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match self.file.read_at(&mut buffer[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    /// The file's current size. A file being written is longer than its contents, because it is
    /// preallocated: unwritten parts read as zeros.
    ///
    /// # Errors
    /// The system's error.
    pub fn bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

impl ReadAt for ReadFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        Self::read_at(self, offset, buffer)
    }

    fn bytes(&self) -> io::Result<u64> {
        Self::bytes(self)
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        let from = offset.try_into().ok()?;
        // SAFETY: numbers only. It moves the file's position, which nothing here uses.
        let found = unsafe { libc::lseek(self.file.as_raw_fd(), from, libc::SEEK_DATA) };
        match u64::try_from(found) {
            Ok(data) => Some(data),
            Err(_) if io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) => None,
            // This file system cannot tell where it is.
            Err(_) => Some(offset),
        }
    }
}

/// An existing file open for repair: reads, positioned writes, a cut, a sync. It uses the page
/// cache, so nothing needs to be aligned.
#[derive(Debug)]
pub struct EditFile {
    file: File,
    path: PathBuf,
}

impl EditFile {
    /// Opens an existing file for reading and writing. Never makes one.
    ///
    /// # Errors
    /// It does not exist, must not be written, or is not a regular file.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        let file = open_regular(path, OpenOptions::new().read(true).write(true));
        let file = file.map_err(|e| DiskError::path("open for repair", path, e))?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            let busy = io::Error::new(io::ErrorKind::ResourceBusy, "it is being written");
            return Err(DiskError::path("open for repair", path, busy));
        }
        Ok(Self { file, path: path.to_owned() })
    }

    /// As [`EditFile::open`], but none if the file is locked, or if that is unknown.
    ///
    /// # Errors
    /// It does not exist, must not be written, or is not a regular file.
    pub fn open_alone(path: &Path) -> Result<Option<Self>, DiskError> {
        let file = open_regular(path, OpenOptions::new().read(true).write(true));
        let file = file.map_err(|e| DiskError::path("open", path, e))?;
        Ok(file.try_lock().is_ok().then(|| Self { file, path: path.to_owned() }))
    }

    /// Writes all bytes at a position.
    ///
    /// # Errors
    /// The system's error.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.file.write_all_at(bytes, offset).map_err(|e| DiskError::path("write", &self.path, e))
    }

    /// Makes the file this long.
    ///
    /// # Errors
    /// The system's error.
    pub fn truncate(&self, bytes: u64) -> Result<(), DiskError> {
        self.file.set_len(bytes).map_err(|e| DiskError::path("cut", &self.path, e))
    }

    /// As [`EditFile::truncate`], of blocks that nobody has written: the file keeps the time of its
    /// last write, unless it is another user's.
    ///
    /// # Errors
    /// The system's error.
    pub fn cut_unwritten(&self, bytes: u64) -> Result<(), DiskError> {
        let written = self.written();
        self.truncate(bytes)?;
        self.keep_written(written);
        Ok(())
    }

    /// When the file was last written.
    ///
    /// # Errors
    /// The system does not say it.
    pub fn written(&self) -> io::Result<SystemTime> {
        self.file.metadata()?.modified()
    }

    /// Has the file say that it was last written then, if that is known: what ends a file whose
    /// recorder died is no sign of life of it.
    pub fn keep_written(&self, written: io::Result<SystemTime>) {
        // Only the owner may set it.
        let _set = written.and_then(|written| self.file.set_modified(written));
    }

    /// Makes the file durable, including its name.
    ///
    /// # Errors
    /// The system's error.
    pub fn sync(&self) -> Result<(), DiskError> {
        let synced = self.file.sync_all().and_then(|()| files::sync_folder_of(&self.path));
        synced.map_err(|e| DiskError::path("sync", &self.path, e))
    }
}

/// Opens an existing regular file; symbolic links are followed. Refused at once are a FIFO or a
/// socket, whose opening waits for a peer, and a device, whose opening may have side effects.
///
/// # Errors
/// The system's error, or what exists instead of a regular file.
pub fn open_regular(path: &Path, options: &OpenOptions) -> io::Result<File> {
    check_regular(&std::fs::metadata(path)?)?;
    // The path may by now name something else: opening waits for nothing, and the opened object
    // counts.
    let file = options.clone().custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    check_regular(&file.metadata()?)?;
    // SAFETY: F_GETFL takes no pointers.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    let flags = flags & !libc::O_NONBLOCK;
    // SAFETY: F_SETFL takes no pointers.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

fn check_regular(metadata: &Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "a folder",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () if kind.is_char_device() || kind.is_block_device() => "a device",
        () => "something else",
    };
    let problem = format!("expected a regular file, got {what}");
    Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FolderEntry {
    /// Its name, without the folder.
    pub name: String,
    /// Its whole path.
    pub path: PathBuf,
    /// Its size, if it is a file.
    pub bytes: u64,
    /// Whether it is a folder itself; symbolic links are followed.
    pub is_folder: bool,
}

/// The contents of a folder, sorted by name. Entries that vanish meanwhile, and names that are not
/// UTF-8, are left out: Catchment makes no such names.
///
/// # Errors
/// The folder does not exist, or must not be read.
pub fn list_folder(folder: &Path) -> Result<Vec<FolderEntry>, DiskError> {
    let failed = |e| DiskError::path("list", folder, e);
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        let (Ok(name), Ok(metadata)) = (entry.file_name().into_string(), path.metadata()) else {
            continue;
        };
        let is_folder = metadata.is_dir();
        let bytes = if is_folder { 0 } else { metadata.len() };
        entries.push(FolderEntry { name, path, bytes, is_folder });
    }
    entries.sort();
    Ok(entries)
}

/// The paths of a folder's files with that extension, sorted by name; symbolic links are followed.
///
/// # Errors
/// The folder does not exist, or must not be read.
pub fn list_files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>, DiskError> {
    let failed = |e| DiskError::path("list", folder, e);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        if path.extension().is_none_or(|found| found != extension) {
            continue;
        }
        // Most file systems give the type together with the name.
        let is_file = match entry.file_type() {
            Ok(kind) if !kind.is_symlink() => kind.is_file(),
            _ => path.metadata().is_ok_and(|found| found.is_file()),
        };
        if is_file {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// When the newest of these files was last written, as far as the system says it.
pub fn last_written<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Option<SystemTime> {
    let written = |path: P| path.as_ref().metadata().ok()?.modified().ok();
    paths.into_iter().filter_map(written).max()
}

/// The space in bytes that a folder's file system has left for this process.
///
/// # Errors
/// The system's error, or a path with a zero byte.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    Ok(Room::of(folder, None)?.map_or(0, |room| room.free_bytes))
}

/// Makes the names in a folder durable: after folders or files were made in it.
///
/// # Errors
/// The system's error.
pub fn sync_folder(folder: &Path) -> Result<(), DiskError> {
    // Any name will do: the folder of `folder/x` is `folder`.
    files::sync_folder_of(&folder.join("x")).map_err(|e| DiskError::path("sync", folder, e))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn what_is_no_regular_file_is_refused_at_once_and_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let (fifo, socket) = (folder.path().join("fifo"), folder.path().join("socket"));
        let name = std::ffi::CString::new(fifo.as_os_str().as_bytes()).expect("a name");
        // SAFETY: the name ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("binds");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&fifo, &link).expect("links");
        let null = Path::new("/dev/null");
        for (path, what) in [
            (fifo.as_path(), "a FIFO"),
            (&link, "a FIFO"),
            (&socket, "a socket"),
            (folder.path(), "a folder"),
            (null, "a device"),
        ] {
            let expected = format!("{}: expected a regular file, got {what}", path.display());
            for error in [ReadFile::open(path).err(), EditFile::open(path).err()] {
                let error = error.expect("refused").to_string();
                assert!(error.ends_with(&expected), "{error}");
            }
        }
    }

    #[test]
    fn a_regular_file_is_opened_without_flags_of_its_own_and_through_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&path, "abc").expect("writes");
        std::os::unix::fs::symlink(&path, &link).expect("links");
        let file = ReadFile::open(&link).expect("opens");
        // SAFETY: F_GETFL takes no pointers.
        let flags = unsafe { libc::fcntl(file.file().as_raw_fd(), libc::F_GETFL) };
        assert_eq!(flags & libc::O_NONBLOCK, 0);
        let mut bytes = [0; 3];
        assert_eq!(file.read_at(0, &mut bytes).expect("reads"), 3);
        assert_eq!(&bytes, b"abc");
    }
}
