//! Files of spilled frames in a folder, and their names.

use std::path::Path;
use std::{fmt, io};

use catchment_storage::EXTENSION;

const PREFIX: &str = "spill-";

/// What the name of a file of spilled frames says.
pub(super) struct FileName {
    pub(super) index: u32,
    /// The number of its first frame.
    pub(super) first: u64,
}

impl FileName {
    pub(super) fn of(path: &Path) -> Option<Self> {
        path.extension().filter(|found| *found == EXTENSION)?;
        let stem = path.file_stem()?.to_str()?.strip_prefix(PREFIX)?;
        let (index, first) = stem.split_once('-')?;
        Some(Self { index: index.parse().ok()?, first: first.parse().ok()? })
    }

    /// The names of files with that index, in which the first number is not known.
    pub(super) fn pattern(index: u32) -> String {
        format!("{PREFIX}{index:05}-*.{EXTENSION}")
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:05}-{}.{EXTENSION}", self.index, self.first)
    }
}

/// Whether somebody has removed a file.
pub(super) fn is_removed(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Bytes of the files in the folders of a spill, but for one.
pub(super) fn bytes_beside(spill: &Path, own: &Path) -> io::Result<u64> {
    let list = |folder: &Path| catchment_disk::list_folder(folder).map_err(io::Error::other);
    let others = list(spill)?.into_iter().filter(|entry| entry.is_folder && entry.path != own);
    // One that is gone meanwhile has nothing.
    let bytes = others.flat_map(|entry| list(&entry.path).unwrap_or_default());
    Ok(bytes.map(|entry| entry.bytes).sum())
}
