//! Streams with files that are not closed and that nobody writes: what an earlier life of the node
//! has left when it was killed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use catchment_disk::ReadFile;
use catchment_frame::{FILE_LIST_NAME, FileList, FileReader};

use crate::node::{index_of, remove_blank};
use crate::state::StreamKey;

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
    let mut files = Vec::new();
    for folder in folders {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        if folder.try_exists().map_err(failed)? {
            remove_blank(folder).map_err(failed)?;
            files.extend(files_of(folder, name));
        }
    }
    let indices: BTreeSet<u32> = files.iter().map(|(index, _)| *index).collect();
    let Some(&last) = indices.last() else { return Ok(None) };
    if let Some(missing) = (0..last).find(|index| !indices.contains(index)) {
        return Err(format!("file {missing} is missing, so that its files are left as they are"));
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
    FileReader::open(ReadFile::open(path).ok()?).ok()
}
