//! The port through which files are written.

use std::ops::DerefMut;
use std::path::{Path, PathBuf};

/// A file of a [`Store`]; an id is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// The result of an accepted operation.
#[derive(Debug)]
pub struct Completion {
    /// The kind of operation.
    pub kind: CompletionKind,
    /// The file.
    pub file: FileId,
    /// For a write, its offset in the file; otherwise 0.
    pub offset: u64,
    /// For a write, the number of bytes requested; for a finish, the file's final size;
    /// otherwise 0.
    pub bytes: u64,
    /// The caller's tag for the operation; 0 for a finish.
    pub token: u64,
    /// Whether it succeeded completely. After an error, any part of a write's bytes may be in the
    /// file.
    pub result: std::io::Result<()>,
    /// For a finish in a [`FolderStore`], the state of the file just before its end was set, which
    /// may restore its length; otherwise [`Presence::There`].
    pub found: Presence,
}

/// Kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionKind {
    /// [`Store::write`].
    Write,
    /// [`Store::sync`].
    Sync,
    /// [`Store::finish`].
    Finished,
}

/// Whether a file is still where it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is, or the file system does not respond.
    There,
    /// Its path leads nowhere or to another file system, and the file itself is elsewhere: it was
    /// moved, or its file system was unmounted.
    Elsewhere,
    /// It was removed: data written to it cannot be read again.
    Removed {
        /// Whether its folder still has other files of its kind.
        others: bool,
    },
    /// It is where it was made, but was truncated: some of the data written to it are gone.
    Truncated,
}

/// A file to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Its path. A missing folder is made again, but never on a file system other than that of the
    /// store's first file: otherwise a disk was unmounted.
    pub path: PathBuf,
    /// Bytes that must be free for data: with less, the file is not made.
    pub room_bytes: u64,
}

/// Why a file was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// A file of that name exists. It is left as it is.
    #[error("{} exists already, and is not overwritten", path.display())]
    Exists {
        /// Its path.
        path: PathBuf,
    },
    /// Less space is free than requested.
    #[error(
        "disk full: {} has {spare_bytes} bytes left for data, {room_bytes} are needed",
        folder.display()
    )]
    NoRoom {
        /// The folder.
        folder: PathBuf,
        /// The space free for data.
        spare_bytes: u64,
        /// The space requested.
        room_bytes: u64,
    },
    /// Any other reason, in the store's words.
    #[error("{0}")]
    Other(String),
}

/// How a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileEnd {
    /// It is cut to that many bytes and made durable, including its name.
    Cut(u64),
    /// It is deleted: nothing in it can be read.
    Delete,
}

/// Open files that one agent writes. Nothing here waits: operations are accepted, and
/// [`Store::poll`] returns their results. Every accepted operation gives exactly one
/// [`Completion`].
pub trait Store: Send {
    /// Memory for writes, all of one size. A buffer dropped unused is free again.
    type Buffer: DerefMut<Target = [u8]> + Send;

    /// Appends the completions that have arrived, and submits accepted operations.
    fn poll(&mut self, completions: &mut Vec<Completion>);

    /// A free buffer, if there is one. Otherwise the agent is woken when one becomes free.
    fn try_buffer(&mut self) -> Option<Self::Buffer>;

    /// Writes the buffer's first `bytes` at `offset`: multiples of 4 KiB. The buffer is free again
    /// when the write has completed, with or without an error.
    fn write(&mut self, file: FileId, offset: u64, buffer: Self::Buffer, bytes: usize, token: u64);

    /// Makes earlier writes durable; false if too many syncs are in progress. Fails if any earlier
    /// write, or an earlier sync of the file, has failed.
    fn sync(&mut self, file: FileId, token: u64) -> bool;

    /// Ends a file when all its accepted operations have completed. All bytes before a cut must
    /// have been written, and the first of them is not zero.
    fn finish(&mut self, file: FileId, end: FileEnd);
}

/// A [`Store`] that makes its files ahead, and observes their folder. Nothing here waits either:
/// results are available at a later call.
pub trait FolderStore: Store {
    /// Whether a write was queued or has completed since the last sync was queued, and the time
    /// between two syncs has passed since this last returned true.
    fn sync_due(&mut self, now_ns: u64) -> bool;

    /// Requests a file with blocks for its first step. One at a time.
    fn open(&mut self, new: NewFile);

    /// The file that was made, or why it was not; none while it is being made, or if none was
    /// requested.
    fn take_opened(&mut self) -> Option<Result<FileId, OpenError>>;

    /// The end of the blocks of the file that was made and not yet taken; none if there is no such
    /// file.
    fn opened_bytes(&self) -> Option<u64>;

    /// Abandons the file that was requested and not taken, and has it deleted.
    fn discard_opened(&mut self);

    /// Whether a file that was made and abandoned is not deleted yet.
    fn is_removing(&self) -> bool;

    /// The end of an open file's blocks: up to there it can be written on a full disk.
    fn blocks_bytes(&mut self, file: FileId) -> u64;

    /// Requests a check of the free space, and of whether the file still exists with its first
    /// `written_bytes`, unless a check is in progress. All of these bytes must have been written,
    /// and the first of them is not zero.
    fn look(&mut self, file: FileId, written_bytes: u64);

    /// As [`FolderStore::look`], of the free space of a folder in which no file is open.
    fn look_at(&mut self, folder: &Path);

    /// Whether a check is in progress.
    fn is_looking(&self) -> bool;

    /// The space left for data, as known from the last check.
    fn spare_bytes(&self) -> Option<u64>;

    /// Whether the file still existed at the last check.
    fn presence(&mut self, file: FileId) -> Presence;

    /// Requests that lines be appended to a small text file and made durable. A file without a
    /// whole line gets the header first.
    fn append_text(&mut self, path: &Path, header: &str, lines: &str);

    /// Whether an append is in progress.
    fn text_under_way(&self) -> bool;

    /// Why the last text could not be appended; returned once.
    fn take_text_error(&mut self) -> Option<String>;
}
