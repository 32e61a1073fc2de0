//! Marks in a node's folders, by which it knows one whose disk is not mounted.
//!
//! Each folder has a file [`MARK`] that lists all folders of the node, one a line. A folder that
//! the mark of another one lists, and that has neither a mark nor streams, has been used before:
//! what is at its path now is the folder under a mount, or a new disk, and is left as it is. A
//! folder is listed only once its own mark is on its disk. Of a node with a single folder nobody
//! knows: it has no mark, and where it was made is logged.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Those of a node's folders that have been used before and are not there.
pub fn absent_folders(folders: &[PathBuf]) -> Vec<PathBuf> {
    let listed: BTreeSet<PathBuf> = folders.iter().flat_map(|folder| listed_in(folder)).collect();
    let is_absent = |folder: &&PathBuf| !is_there(folder) && listed.contains(&absolute(folder));
    folders.iter().filter(is_absent).cloned().collect()
}

/// Why a folder that is absent is not used.
pub fn absent_words(folder: &Path) -> String {
    format!(
        "it was used before, and is empty or not there now: is its disk mounted? It is used again \
         once {} is there (make that file for a new disk)",
        folder.join(MARK).display()
    )
}

/// Makes the folders that are not absent, and marks them.
///
/// # Errors
/// A folder that cannot be made. One that cannot be marked, since its disk is full or read-only, is
/// not listed.
pub(crate) fn make(folders: &[PathBuf], absent: &[PathBuf]) -> Result<(), (PathBuf, io::Error)> {
    let there = || folders.iter().filter(|folder| !absent.contains(folder));
    for folder in there() {
        std::fs::create_dir_all(folder).map_err(|error| (folder.clone(), error))?;
    }
    // Nobody asks after a single one.
    if folders.len() > 1 {
        mark(folders, absent);
    }
    Ok(())
}

/// Lists all folders that have a mark, and those that are absent, in each that is there.
pub(crate) fn mark(folders: &[PathBuf], absent: &[PathBuf]) {
    let there = || folders.iter().filter(|folder| !absent.contains(folder));
    for folder in there().filter(|folder| !has_mark(folder)) {
        // Without a mark it is not listed, and was never used for all that the others know.
        let _is_marked = write(folder, &[absolute(folder)].into()).is_ok();
    }
    let is_listed = |folder: &&PathBuf| absent.contains(folder) || has_mark(folder);
    let all: BTreeSet<PathBuf> =
        folders.iter().filter(is_listed).map(|one| absolute(one)).collect();
    for folder in there().filter(|folder| has_mark(folder) && listed_in(folder) != all) {
        // The mark before it stays.
        let _is_written = write(folder, &all).is_ok();
    }
}

/// Whether a folder has a mark, or streams: those of a disk that was away while the others got
/// their first marks.
pub(crate) fn is_there(folder: &Path) -> bool {
    let entries = || std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_stream = |name: &OsStr| !name.as_encoded_bytes().starts_with(b".");
    has_mark(folder) || entries().any(|entry| is_stream(&entry.file_name()))
}

/// Whether a folder has a mark; an empty file is one.
fn has_mark(folder: &Path) -> bool {
    folder.join(MARK).is_file()
}

fn listed_in(folder: &Path) -> BTreeSet<PathBuf> {
    let text = std::fs::read_to_string(folder.join(MARK)).unwrap_or_default();
    text.lines().filter(|line| !line.is_empty()).map(PathBuf::from).collect()
}

fn write(folder: &Path, all: &BTreeSet<PathBuf>) -> io::Result<()> {
    let (path, new) = (folder.join(MARK), folder.join(format!("{MARK}.new")));
    let mut file = File::create(&new)?;
    for one in all {
        writeln!(file, "{}", one.display())?;
    }
    file.sync_all()?;
    std::fs::rename(&new, &path)?;
    File::open(folder)?.sync_all()
}

/// As it was configured, from the root.
fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}

/// The file of the mark. Names of streams begin with no dot.
const MARK: &str = ".catchment-store";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_used_before_and_is_empty_is_absent_until_it_has_its_mark() {
        let parent = tempfile::tempdir().unwrap();
        let folders = ["a", "b", "c"].map(|name| parent.path().join(name));
        assert_eq!(absent_folders(&folders), [] as [PathBuf; 0], "a node begins anew");
        make(&folders[..2], &[]).unwrap();
        assert_eq!(absent_folders(&folders), [] as [PathBuf; 0], "the third one is new");
        std::fs::remove_dir_all(&folders[1]).unwrap();
        let absent = absent_folders(&folders);
        assert_eq!(absent, [folders[1].clone()]);
        make(&folders, &absent).unwrap();
        assert!(!folders[1].exists() && has_mark(&folders[2]));
        assert_eq!(absent_folders(&folders), absent, "also for the next node");
        std::fs::create_dir(&folders[1]).unwrap();
        assert_eq!(absent_folders(&folders), absent, "the folder under a mount");
        assert!(
            absent_folders(&[folders[1].clone()]).is_empty(),
            "nothing is known of a single one"
        );
        std::fs::create_dir(folders[1].join("run-1")).unwrap();
        assert!(absent_folders(&folders).is_empty(), "a disk that was away for the first marks");
        std::fs::remove_dir(folders[1].join("run-1")).unwrap();
        File::create(folders[1].join(MARK)).unwrap();
        assert!(absent_folders(&folders).is_empty(), "a new disk");
        mark(&folders, &[]);
        std::fs::remove_dir_all(&folders[0]).unwrap();
        assert_eq!(absent_folders(&folders), [folders[0].clone()], "the new disk lists the others");
    }
}
