//! What there is of streams, of an earlier life of the node or of a stream's writer: which ones
//! have files that are not closed, and how these are closed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use catchment_disk::{ReadFile, last_written, list_files};
use catchment_frame::{FILE_LIST_NAME, FileFrames, FileList, FileReader};
use catchment_model::{Ledger, RunId};
use catchment_storage::{EXTENSION, Interrupted, RunPlace, StorageError};

use crate::described::{Description, Question};
use crate::node::index_of;
use crate::receive::NotOpened;
use crate::state::{StreamKey, StreamState};

/// The names of the streams in the folders of a node that have a file which is not closed.
pub(crate) fn unclosed(folders: &[PathBuf]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // A folder that cannot be read now is found at the next start, or when its stream is opened.
    for folder in folders.iter().flat_map(std::fs::read_dir).flatten().flatten() {
        let Ok(name) = folder.file_name().into_string() else { continue };
        // The node's own begins with a dot.
        if !name.starts_with('.') && has_unclosed(&folder.path(), &name) {
            names.insert(name);
        }
    }
    names
}

/// Whether a folder of a stream has a file that is not closed. Most are named as closed by its
/// list; others are opened.
pub(crate) fn has_unclosed(folder: &Path, name: &str) -> bool {
    let text = std::fs::read(folder.join(FILE_LIST_NAME)).unwrap_or_default();
    let listed = FileList::decode(&text).map(|list| list.files).unwrap_or_default();
    let is_listed = |index| listed.get(index).is_some_and(|file| file.closed_bytes.is_some());
    let is_closed = |path: &PathBuf| open(path).is_some_and(|reader| reader.closed());
    files_of(folder, name).iter().any(|(index, path)| !is_listed(index) && !is_closed(path))
}

/// The stream of which there are files under that name; none if there are none with frames.
///
/// # Errors
/// They cannot be read, or lack one: what is behind it would be cut off.
pub(crate) fn key_of(folders: &[PathBuf], name: &str) -> Result<Option<StreamKey>, String> {
    let (mut files, mut indices, mut blank) = (Vec::new(), BTreeSet::new(), Vec::new());
    for folder in folders {
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        if folder.try_exists().map_err(failed)? {
            let (of_stream, never_begun) = (files_of(folder, name), blank_in(folder));
            blank.extend(never_begun.map_err(failed)?);
            indices.extend(of_stream.iter().map(|(index, _)| *index));
            files.extend(of_stream);
        }
    }
    files.retain(|(_, path)| !blank.contains(path));
    let Some(last) = files.iter().map(|(index, _)| *index).max() else {
        remove(&blank).map_err(NotOpened::into_text)?;
        return Ok(None);
    };
    if let Some(index) = (0..last).find(|index| !indices.contains(index)) {
        return Err(StorageError::MissingFile { index }.to_string());
    }
    let reader = files.iter().find_map(|(_, path)| open(path));
    let reader = reader.ok_or("no header of its files can be read")?;
    let header = reader.header();
    Ok(Some(StreamKey {
        name: name.to_owned(),
        run: header.run.0,
        stream: header.stream,
        variant: header.variant,
        is_dealt: header.part.is_some(),
    }))
}

fn files_of(folder: &Path, name: &str) -> Vec<(u32, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter_map(|path| Some((index_of(&path, name)?, path))).collect()
}

fn open(path: &Path) -> Option<FileReader<ReadFile>> {
    // Blocks that a killed node had allocated are not read.
    FileReader::open(ReadFile::open(path).ok()?.without_read_ahead()).ok()
}

/// The files in a folder that were made and never begun: they have nothing but zeros where a header
/// is.
fn blank_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut blank = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != EXTENSION) {
            continue;
        }
        let mut begin = Vec::new();
        File::open(&path)?.take(4_096).read_to_end(&mut begin)?;
        if begin.iter().all(|&byte| byte == 0) {
            blank.push(path);
        }
    }
    Ok(blank)
}

/// Removes files that were made and never begun.
fn remove(blank: &[PathBuf]) -> Result<(), NotOpened> {
    blank.iter().try_for_each(|path| match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(NotOpened::Later(format!("{}: {error}", path.display())))
        }
        _ => Ok(()),
    })
}

/// What there is of a stream, closed and durable.
pub(crate) struct Stored {
    /// Which frames are in which of its files.
    pub(crate) files: Vec<FileFrames>,
    /// The number of the next frame.
    pub(crate) sequence: u64,
    pub(crate) next_index: u32,
    /// Whether there are files, of which the last one does not say that the run has ended.
    pub(crate) lacks_end: bool,
    pub(crate) ledger: Ledger,
    pub(crate) has_ended: bool,
    pub(crate) is_new: bool,
    /// The same for a sender that asks.
    pub(crate) described: Option<Description>,
}

/// Closes the files of a stream behind their last whole frame without a gap, and describes them for
/// a sender that asks, once frames are cut off as it says. A stream that has ended stays as it is.
pub(crate) fn close_in(
    all: &[PathBuf],
    key: &StreamKey,
    asks: Option<&Question>,
) -> Result<Stored, NotOpened> {
    let (folders, blank) = those_there(all)?;
    let place = RunPlace {
        folders: folders.clone(),
        is_required: true,
        trusts_lists: true,
        is_dealt: key.is_dealt,
    };
    let found = match Interrupted::find(&[place]) {
        Ok(found) => found,
        Err(StorageError::NoFiles { .. }) => {
            remove(&blank)?;
            let (ledger, described) = (Ledger::new(0), asks.map(Description::of_nothing));
            let (files, has_ended, is_new) = (Vec::new(), false, true);
            let (sequence, next_index, lacks_end) = (0, 0, false);
            return Ok(Stored {
                files,
                sequence,
                next_index,
                lacks_end,
                ledger,
                has_ended,
                is_new,
                described,
            });
        }
        Err(error) => return Err(NotOpened::Later(error.to_string())),
    };
    let header = found.header();
    let own = (RunId(key.run), key.stream, key.variant);
    if (header.run, header.stream, header.variant) != own {
        let text = format!("{} has the files of another run here", key.name);
        return Err(NotOpened::Never(text));
    }
    // By the other count no frame of these files would be found, and all would be cut off.
    if header.part.is_some() != key.is_dealt {
        let words = |is_dealt| if is_dealt { "some" } else { "all" };
        let (has, sent) = (words(!key.is_dealt), words(key.is_dealt));
        let text = format!(
            "{} has {has} of the frames of its run here, and its sender deals it {sent}: the \
             number of nodes in the target has changed",
            key.name
        );
        return Err(NotOpened::Never(text));
    }
    // Each list that there is says so.
    let lists = folders.iter().filter_map(|folder| std::fs::read(folder.join(FILE_LIST_NAME)).ok());
    let mut lists = lists.filter_map(|text| FileList::decode(&text).ok()).peekable();
    let has_ended = lists.peek().is_some() && lists.all(|list| list.ended.is_some());
    // Closing changes them.
    let (header, age_ns) = (asks.map(|_| header.clone()), age_ns(&folders, &blank));
    let below = asks.filter(|_| !has_ended).map_or(u64::MAX, |question| question.below);
    let mut resumed =
        found.take_below(below).map_err(|error| NotOpened::Later(error.to_string()))?;
    // Not before: until what stood behind them is cut off, they say that no file is missing there.
    remove(&blank)?;
    let of_files = |(header, question): (_, &Question)| {
        Description::of(&header, &resumed, (has_ended, age_ns), question.clone())
    };
    let described = header.zip(asks).map(of_files).transpose();
    let described = described.map_err(NotOpened::Later)?;
    let place = resumed.places.swap_remove(0);
    Ok(Stored {
        files: place.file_frames,
        sequence: if key.is_dealt { place.items } else { resumed.sequence },
        next_index: place.next_index,
        lacks_end: !place.marks_end,
        ledger: place.ledger,
        has_ended,
        is_new: false,
        described,
    })
}

/// Those of a stream's folders that are there, and files in them that were made and never begun.
/// What a power cut left behind the zeros of these was not durable, and is taken out.
fn those_there(all: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<PathBuf>), NotOpened> {
    let (mut folders, mut blank) = (Vec::new(), Vec::new());
    for folder in all {
        let later = |error: io::Error| NotOpened::Later(format!("{}: {error}", folder.display()));
        if folder.try_exists().map_err(later)? {
            for path in blank_in(folder).map_err(later)? {
                let file = File::options().write(true).open(&path);
                file.and_then(|file| file.set_len(0)).map_err(later)?;
                blank.push(path);
            }
            folders.push(folder.clone());
        }
    }
    Ok((folders, blank))
}

/// Closes a file that was cut behind what is durable of it. Its frames are in the closed files of
/// the stream then, and it is not cut again.
pub(crate) fn close_cut(path: &Path, state: &StreamState) -> Result<(), StorageError> {
    catchment_storage::repair(path)?;
    if let Some(reader) = open(path) {
        let frames = reader.frames();
        let ends = frames.first().zip(frames.last());
        let numbers = ends.map(|(first, last)| (first.info.numbers().0, last.info.numbers().1));
        state.closed(reader.header().file_index, numbers);
    }
    if let Some(fault) = &mut *state.fault.lock() {
        fault.cuts.retain(|(one, _)| one != path);
    }
    Ok(())
}

/// For how long none of a stream's files was written, but for those that were never begun.
fn age_ns(folders: &[PathBuf], blank: &[PathBuf]) -> u64 {
    let files = folders.iter().filter_map(|folder| list_files(folder, EXTENSION).ok()).flatten();
    let written = last_written(files.filter(|path| !blank.contains(path)));
    let age = written.and_then(|written| written.elapsed().ok());
    age.map_or(0, |age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
}
