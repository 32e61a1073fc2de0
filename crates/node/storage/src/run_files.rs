//! The files of a run, which grow while it is recorded.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::error::StorageError;
use crate::open::{self, FileProblem, RunFile};

/// New data since a run was opened or refreshed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// New frames, of any kind.
    pub frames: usize,
    /// New files.
    pub files: usize,
    /// Files that have been closed.
    pub closed: usize,
}

/// A run's files and their problems, including a folder's new files.
pub(crate) struct RunFiles {
    pub path: PathBuf,
    /// By rising index; at least one.
    pub files: Vec<RunFile>,
    pub problems: Vec<FileProblem>,
    /// Bytes read from all of them.
    pub bytes_read: Arc<AtomicU64>,
}

impl RunFiles {
    pub(crate) fn open(path: &Path) -> Result<Self, StorageError> {
        let bytes_read = Arc::default();
        let (files, problems) = open::files(path, &bytes_read)?;
        Ok(Self { path: path.to_owned(), files, problems, bytes_read })
    }

    pub(crate) fn last(&self) -> &RunFile {
        self.files.last().expect("a run has a file")
    }

    /// Whether the last file marks an orderly end of the run.
    pub(crate) fn ended(&self) -> bool {
        self.last().reader.flags().is_some_and(|flags| flags.run_ended)
    }

    /// Adds new frames and files to `came`, including those found before an error.
    pub(crate) fn refresh(&mut self, came: &mut Refreshed) -> Result<(), StorageError> {
        let Self { path, files, problems, bytes_read } = self;
        let is_folder = path.is_dir();
        let paths = if is_folder { open::paths(path)? } else { Vec::new() };
        for file in files.iter_mut().filter(|file| !file.reader.closed()) {
            file.locked = open::is_locked(&file.path);
            let frames = file
                .reader
                .refresh()
                .map_err(|source| StorageError::Frame { path: file.path.clone(), source })?;
            came.frames += frames;
            came.closed += usize::from(file.reader.closed());
            if file.reader.closed() {
                file.locked = false;
            }
        }
        if is_folder {
            let known: HashSet<_> = files.iter().map(|file| file.path.clone()).collect();
            let mut fresh = Vec::new();
            let mut unread = Vec::new();
            for path in paths.into_iter().filter(|path| !known.contains(path)) {
                match open::open_file(&path, bytes_read)? {
                    Ok(file) => fresh.push(file),
                    Err(problem) => unread.push(problem),
                }
            }
            files.extend(fresh);
            let ordered = open::put_in_order(files);
            if ordered.is_err() {
                files.retain(|file| known.contains(&file.path));
            }
            let fresh = files.iter().filter(|file| !known.contains(&file.path));
            for file in fresh {
                came.files += 1;
                came.frames += file.reader.frames().len();
            }
            unread.extend(ordered?);
            *problems = unread;
        }
        Ok(())
    }

    /// Whether the run has ended, or none of its files is being written.
    pub(crate) fn at_rest(&self) -> Result<bool, StorageError> {
        if self.ended() {
            return Ok(true);
        }
        // A recorder begins the next file before it releases the last: in this order none is
        // missed.
        let files = &self.files;
        let last = files.len() - 1;
        let mut growing =
            files.iter().enumerate().filter(|(at, f)| *at == last || !f.reader.closed());
        if growing.any(|(_, file)| open::is_locked(&file.path)) {
            return Ok(false);
        }
        if !self.path.is_dir() {
            return Ok(true);
        }
        let known = |path: &std::path::Path| files.iter().any(|file| file.path == path);
        for entry in catchment_disk::list_folder(&self.path)? {
            let extension = entry.path.extension().and_then(OsStr::to_str);
            let is_next = extension == Some(open::EXTENSION) && !known(&entry.path);
            // A file written without a recorder gets its name only when it is closed.
            let is_part = entry.name.ends_with(".catch.part");
            if !entry.is_folder && (is_next || is_part) && open::is_locked(&entry.path) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
