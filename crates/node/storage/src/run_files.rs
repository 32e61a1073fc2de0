//! The files of a run, which grow while it is recorded.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::copies::numbers_identify;
use crate::error::StorageError;
use crate::folders;
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
    /// At least one.
    pub paths: Vec<PathBuf>,
    /// At least one of each place, in the order of the places, then by rising index.
    pub files: Vec<RunFile>,
    pub problems: Vec<FileProblem>,
    /// Bytes read from all of them.
    pub bytes_read: Arc<AtomicU64>,
    /// The places whose ledgers together are the run's: one of each stream.
    ledger_places: Vec<usize>,
}

impl RunFiles {
    pub(crate) fn open(mut paths: Vec<PathBuf>) -> Result<Self, StorageError> {
        let bytes_read = Arc::default();
        let (mut files, mut problems) = (Vec::new(), Vec::new());
        let mut empty = None;
        for (folder, path) in paths.iter().enumerate() {
            let (mut of_folder, its_problems) = match open::files(path, &bytes_read) {
                Err(error @ StorageError::NoFiles { .. }) => {
                    empty.get_or_insert(error);
                    continue;
                }
                found => found?,
            };
            of_folder.iter_mut().for_each(|file| file.folder = folder);
            files.extend(of_folder);
            problems.extend(its_problems.into_iter().map(|one| folders::named(one, &paths, path)));
        }
        // A short run may have files in some of its target's folders alone.
        if let Some(error) = empty.filter(|_| files.iter().all(|one| one.header().target.is_none()))
        {
            return Err(error);
        }
        if paths.len() > 1 {
            folders::take_whole(&mut paths, &mut files, &mut problems);
            folders::join(&mut files, &mut problems)?;
        }
        if paths.iter().all(|path| path.is_dir()) {
            problems.extend(folders::missing_parts(&paths, &files));
        }
        let ledger_places = folders::fullest(&files);
        Ok(Self { paths, files, problems, bytes_read, ledger_places })
    }

    /// Each place's files, at least one, and the path of the first.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&Path, &[RunFile])> {
        let places = self.files.chunk_by(|file, next| file.place == next.place);
        places.map(|files| (&*self.paths[files[0].folder], files))
    }

    /// The files of the places whose ledgers together are the run's; at least one.
    pub(crate) fn of_ledgers(&self) -> impl Iterator<Item = (&Path, &[RunFile])> {
        let places = self.places().enumerate();
        places.filter(|(place, _)| self.ledger_places.contains(place)).map(|(_, files)| files)
    }

    /// The files of the first of them.
    pub(crate) fn of_ledger(&self) -> (&Path, &[RunFile]) {
        self.of_ledgers().next().expect("a run has a place")
    }

    /// The last file of the place whose ledger is the run's; of several parts, that of one that
    /// marks an orderly end.
    pub(crate) fn last(&self) -> &RunFile {
        let files = self.of_ledger().1;
        let lasts = || folders::parts(files).filter_map(<[RunFile]>::last);
        let ended = lasts().find(|last| marks_end(last));
        ended.or_else(|| files.last()).expect("a place has a file")
    }

    /// The last file of each place, and of each part of one, whose ledger is part of the run's.
    pub(crate) fn lasts(&self) -> impl Iterator<Item = &RunFile> {
        let parts = self.of_ledgers().flat_map(|(_, files)| folders::parts(files));
        parts.filter_map(<[RunFile]>::last)
    }

    /// Whether the last files mark an orderly end of the run. Of several parts one does: a node
    /// that was left out when the run ended is not told.
    pub(crate) fn ended(&self) -> bool {
        let has_end = |files| folders::parts(files).filter_map(<[RunFile]>::last).any(marks_end);
        self.of_ledgers().all(|(_, files)| has_end(files))
    }

    /// The last file of the first other place that marks an orderly end, if [`Self::ended`] is
    /// false.
    pub(crate) fn end_elsewhere(&self) -> Option<&RunFile> {
        let places = self.places().enumerate();
        let others = places.filter(|(place, _)| !self.ledger_places.contains(place));
        let lasts = others.flat_map(|(_, (_, files))| folders::parts(files));
        let mut lasts = lasts.filter_map(<[RunFile]>::last).filter(|_| !self.ended());
        lasts.find(|last| marks_end(last))
    }

    /// Adds new frames and files to `came`, including those found before an error.
    pub(crate) fn refresh(&mut self, came: &mut Refreshed) -> Result<(), StorageError> {
        let Self { paths, files, problems, bytes_read, .. } = self;
        let refreshed = match paths.as_slice() {
            [path] => refresh_folder(path, files, bytes_read, came)?,
            // Files whose numbers do not identify frames are in no folder's order: none is added.
            _ if !files.iter().all(numbers_identify) => {
                refresh_files(files, came)?;
                None
            }
            paths => Some(refresh_folders(paths, files, bytes_read, came)?),
        };
        if let Some(found) = refreshed {
            *problems = found;
            problems.extend(folders::missing_parts(paths, files));
        }
        self.ledger_places = folders::fullest(&self.files);
        Ok(())
    }

    /// Whether the run has ended, or none of its files is being written.
    pub(crate) fn at_rest(&self) -> Result<bool, StorageError> {
        let is_folder = |folder: usize| move |file: &&RunFile| file.folder == folder;
        for (_, files) in self.places() {
            let ended = |file: &RunFile| file.reader.flags().is_some_and(|flags| flags.run_ended);
            if files.last().is_some_and(ended) {
                continue;
            }
            for (folder, path) in self.paths.iter().enumerate() {
                let files: Vec<_> = files.iter().filter(is_folder(folder)).collect();
                if !folder_at_rest(path, &files)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Whether a file marks an orderly end of the run.
fn marks_end(file: &RunFile) -> bool {
    file.reader.flags().is_some_and(|flags| flags.run_ended)
}

/// Refreshes the files of several folders, each as one; the new files of a folder whose files no
/// longer belong together are not taken.
fn refresh_folders(
    paths: &[PathBuf],
    files: &mut Vec<RunFile>,
    bytes_read: &Arc<AtomicU64>,
    came: &mut Refreshed,
) -> Result<Vec<FileProblem>, StorageError> {
    let (mut problems, mut result) = (Vec::new(), Ok(()));
    for (folder, path) in paths.iter().enumerate() {
        let (mut of_folder, others): (Vec<_>, Vec<_>) =
            files.drain(..).partition(|file| file.folder == folder);
        *files = others;
        match refresh_folder(path, &mut of_folder, bytes_read, came) {
            Ok(found) => {
                let found = found.into_iter().flatten();
                problems.extend(found.map(|one| folders::named(one, paths, path)));
            }
            Err(error) => result = result.and(Err(error)),
        }
        of_folder.iter_mut().for_each(|file| file.folder = folder);
        files.extend(of_folder);
    }
    let joined = folders::join_places(files, &mut problems);
    result.and(joined).map(|()| problems)
}

/// Refreshes the files of one path and adds those that are new in its folder. Returns the folder's
/// problems; none for a file.
fn refresh_folder(
    path: &Path,
    files: &mut Vec<RunFile>,
    bytes_read: &Arc<AtomicU64>,
    came: &mut Refreshed,
) -> Result<Option<Vec<FileProblem>>, StorageError> {
    let is_folder = path.is_dir();
    let paths = if is_folder { open::paths(path)? } else { Vec::new() };
    refresh_files(files, came)?;
    if !is_folder {
        return Ok(None);
    }
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
    Ok(Some(unread))
}

/// Takes up the new frames of files that were not closed.
fn refresh_files(files: &mut [RunFile], came: &mut Refreshed) -> Result<(), StorageError> {
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
    Ok(())
}

fn folder_at_rest(path: &Path, files: &[&RunFile]) -> Result<bool, StorageError> {
    // A recorder begins the next file before it releases the last: in this order none is missed.
    let last = files.len().saturating_sub(1);
    let mut growing = files.iter().enumerate().filter(|(at, f)| *at == last || !f.reader.closed());
    if growing.any(|(_, file)| open::is_locked(&file.path)) {
        return Ok(false);
    }
    if !path.is_dir() {
        return Ok(true);
    }
    let known = |path: &Path| files.iter().any(|file| file.path == path);
    for entry in catchment_disk::list_folder(path)? {
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
