//! Freeing disk space that a killed recorder had allocated and not used: blocks after the data of
//! its last file, and the file that was made ahead.
//!
//! No written byte changes, so this is safe without a request, unlike a repair: a file is truncated
//! if only zeros follow its last whole frame, and a file of zeros is removed if its index is above
//! those of all files with headers. What the file system's map calls a hole, as it does blocks that
//! were allocated and never written, is not read: a gigabyte of them costs a start of the node
//! seconds. A file keeps the time of its last write, by which a run that was interrupted may go on.
//! Files are examined under the lock that their recorder would hold; if one file of the run is
//! locked, or the file system has no locks, nothing is done.

use std::io;
use std::path::{Path, PathBuf};

use catchment_disk::{EditFile, ReadFile};
use catchment_frame::{BLOCK_BYTES, FileReader, ReadAt, Reopened};

use crate::error::StorageError;
use crate::open;
use crate::whole::any_list;

/// The freed disk space of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Files that were made ahead and never begun, and are removed.
    pub removed: Vec<PathBuf>,
    /// Files that were truncated behind their data.
    pub cut: Vec<PathBuf>,
    /// The total bytes removed from the run's files.
    pub bytes: u64,
}

/// Frees the unused disk space in a run's folder. Does nothing while the run is being recorded.
///
/// # Errors
/// The system refuses to read or write.
pub fn remove_leftovers(folder: &Path) -> Result<Leftovers, StorageError> {
    let mut found = Leftovers::default();
    let paths = open::paths(folder)?;
    // A recorder always holds a file with a header, except while it creates its first.
    if paths.iter().any(|path| open::is_locked(path)) {
        return Ok(found);
    }
    let mut blank = Vec::new();
    // The highest index of the begun files plus one, as far as it is known.
    let listed = any_list(folder).map(|list| list.files_expected());
    let mut begun = None;
    for path in paths {
        // A file that must not be written is left as it is.
        let Ok(Some(lock)) = EditFile::open_alone(&path) else { continue };
        let file = ReadFile::open(&path)?.without_read_ahead();
        let read_error = |source| StorageError::Read { path: path.clone(), source };
        let bytes = file.bytes().map_err(read_error)?;
        let Ok(reader) = FileReader::open(&file) else {
            if open::is_blank(&file, false).map_err(read_error)? {
                blank.push((path, lock, bytes));
            }
            continue;
        };
        begun = begun.max(Some(reader.header().file_index.saturating_add(1)));
        if reader.closed() {
            continue;
        }
        // A recorder writes a frame's header last, and headers in order: without one here, no frame
        // follows. Anything else there must be judged by a repair.
        let end = match reader.reopened() {
            Some(Reopened::Longer { closed_bytes, .. }) => closed_bytes,
            _ => reader.next_frame_offset(),
        };
        let mut next = [0; BLOCK_BYTES as usize];
        let read = file.read_at(end, &mut next).map_err(read_error)?;
        let no_frame_follows = next[..read].iter().all(|&byte| byte == 0);
        if !no_frame_follows {
            continue;
        }
        let end = end_of_data(&file, end).map_err(read_error)?;
        if end < bytes {
            lock.cut_unwritten(end)?;
            lock.sync()?;
            found.bytes += bytes - end;
            found.cut.push(path);
        }
    }
    for (path, _lock, bytes) in blank {
        // Zeros in a begun file are damage, which a person has to examine.
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let ahead = |index| begun.is_some_and(|begun| index >= begun.max(listed.unwrap_or(0)));
        if !open::index_of_name(&stem).is_some_and(ahead) {
            continue;
        }
        let read_error = |source| StorageError::Read { path: path.clone(), source };
        std::fs::remove_file(&path).map_err(read_error)?;
        found.bytes += bytes;
        found.removed.push(path);
    }
    Ok(found)
}

/// The end of the last block from `from` on that has a non-zero byte.
fn end_of_data(file: &ReadFile, from: u64) -> io::Result<u64> {
    let mut end = from.next_multiple_of(BLOCK_BYTES);
    let mut buffer = vec![0; PIECE_BYTES];
    let mut at = from;
    while let Some(data) = file.next_data(at) {
        at = data.max(at);
        let read = file.read_at(at, &mut buffer)?;
        if read == 0 {
            break;
        }
        if let Some(last) = buffer[..read].iter().rposition(|&byte| byte != 0) {
            end = (at + last as u64 + 1).next_multiple_of(BLOCK_BYTES);
        }
        at += read as u64;
    }
    Ok(end)
}

const PIECE_BYTES: usize = 1 << 20;
