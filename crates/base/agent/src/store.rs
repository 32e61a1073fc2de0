//! Files that are written.

use std::ops::DerefMut;
use std::path::{Path, PathBuf};

/// A file of a [`Store`]; never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u64);

/// What an accepted operation came to.
#[derive(Debug)]
pub struct Completion {
    /// Which kind of operation it was.
    pub kind: CompletionKind,
    /// The file.
    pub file: FileId,
    /// Of a write: where in the file. Else 0.
    pub offset: u64,
    /// Of a write: the bytes asked for. Of a finish: the file's final size. Else 0.
    pub bytes: u64,
    /// What the caller gave with the operation; 0 for a finish.
    pub token: u64,
    /// Whether it was done, all of it. After an error any part of a write's bytes may be in the
    /// file.
    pub result: std::io::Result<()>,
    /// Of a finish in a [`FolderStore`]: what was found of the file just before its end, which may
    /// make it as long as it was. Else [`Presence::There`].
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
    /// It is, or the file system does not answer.
    There,
    /// Its path leads nowhere or to another file system, and the file itself is somewhere else: it
    /// was moved, or its file system was unmounted.
    Elsewhere,
    /// It was removed: what is written to it cannot be read again.
    Removed {
        /// Whether its folder still has other files of its kind.
        others: bool,
    },
    /// It is where it was made, but somebody has cut it: some of what was written to it is gone.
    Truncated,
}

/// A file that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Its path. The folder is made again if it is gone, but never on another file system than the
    /// one on which the store's first file was made: that is where a disk was unmounted.
    pub path: PathBuf,
    /// Bytes that must be free for data: with less the file is not made.
    pub room_bytes: u64,
}

/// Why a file was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is one of that name. It is left as it is.
    #[error("{} exists already, and is not overwritten", path.display())]
    Exists {
        /// Its path.
        path: PathBuf,
    },
    /// Less is free than was asked for.
    #[error(
        "disk full: {} has {spare_bytes} bytes left for data, {room_bytes} are needed",
        folder.display()
    )]
    NoRoom {
        /// The folder.
        folder: PathBuf,
        /// What is free for data.
        spare_bytes: u64,
        /// What was asked for.
        room_bytes: u64,
    },
    /// Anything else, in the store's words.
    #[error("{0}")]
    Other(String),
}

/// How a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileEnd {
    /// It is cut at so many bytes, and made durable, its name included.
    Cut(u64),
    /// It is deleted: nothing in it can be read.
    Delete,
}

/// Open files that one agent writes. Nothing here waits: operations are accepted, and
/// [`Store::poll`] hands out what became of them. Every accepted operation gives exactly one
/// [`Completion`].
pub trait Store: Send {
    /// Memory that writes are made from, all of one size. Dropped unused, it is free again.
    type Buffer: DerefMut<Target = [u8]> + Send;

    /// Appends the completions that have come, and hands on what was accepted.
    fn poll(&mut self, completions: &mut Vec<Completion>);

    /// A free buffer, if there is one. If there is none, the agent is woken when there is.
    fn try_buffer(&mut self) -> Option<Self::Buffer>;

    /// Writes the buffer's first `bytes` at `offset`: multiples of 4 KiB. The buffer is free again
    /// when the write has completed, with or without error.
    fn write(&mut self, file: FileId, offset: u64, buffer: Self::Buffer, bytes: usize, token: u64);

    /// Makes durable what was written before; false where too many syncs are under way. Fails if
    /// any write before it, or an earlier sync of the file, has failed.
    fn sync(&mut self, file: FileId, token: u64) -> bool;

    /// Ends a file, when all that was accepted of it has completed. All bytes before a cut must
    /// have been written, and the first of them is not zero.
    fn finish(&mut self, file: FileId, end: FileEnd);
}

/// A [`Store`] that makes its files ahead, and observes the folder that they are in. Nothing here
/// waits either: what is asked for is there at a later call.
pub trait FolderStore: Store {
    /// Whether something was written since the last sync, and the time between two syncs has
    /// passed since this last said so.
    fn sync_due(&mut self, now_ns: u64) -> bool;

    /// Has a file made, with blocks for its first step. One at a time.
    fn open(&mut self, new: NewFile);

    /// The file that was made, or why it was not; none while that is under way, or if none was
    /// asked for.
    fn take_opened(&mut self) -> Option<Result<FileId, OpenError>>;

    /// How far the file that was made and not taken yet has blocks; none if there is no such file.
    fn opened_bytes(&self) -> Option<u64>;

    /// Gives up the file that was asked for and not taken, and deletes it.
    fn discard_opened(&mut self);

    /// Where the blocks end that an open file has: up to there it can be written on a full disk.
    fn blocks_bytes(&mut self, file: FileId) -> u64;

    /// Has the free space looked at, and whether the file is still there with its first
    /// `written_bytes`, unless that is under way. All of these must have been written, and the
    /// first of them is not zero.
    fn look(&mut self, file: FileId, written_bytes: u64);

    /// Whether such a look is under way.
    fn is_looking(&self) -> bool;

    /// The bytes that are left for data, as far as is known since the last look.
    fn spare_bytes(&self) -> Option<u64>;

    /// Whether the file was still there at the last look.
    fn presence(&mut self, file: FileId) -> Presence;

    /// Has lines appended to a small text file and made durable. A file without a whole line gets
    /// the header first.
    fn append_text(&mut self, path: &Path, header: &str, lines: &str);

    /// Whether such an append is under way.
    fn text_under_way(&self) -> bool;

    /// Why the last text could not be appended; once.
    fn take_text_error(&mut self) -> Option<String>;
}
