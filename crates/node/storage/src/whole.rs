//! Whether a run has all its files, and whether those that were closed still are.
//!
//! The indices of the files show whether those before the last one are there, and the last one's
//! TOC whether the run ended there. The run's list of files gives the rest
//! (`docs/spec/frame-file.md`, section 12); runs of older versions have none.

use std::io;
use std::path::{Path, PathBuf};

use catchment_disk::{ReadFile, append_lines};
use catchment_frame::{
    BLOCK_BYTES, FILE_LIST_BYTES_MAX, FILE_LIST_NAME, FileHeader, FileList, FileListError,
    FileListLine, LocationKind, Reopened, RunLocation,
};
use catchment_model::{RunId, printable};
use serde::Serialize;

use crate::error::StorageError;
use crate::open::RunFile;
use crate::run::Run;
use crate::verify::{Problem, in_file, of_folder};

/// The known completeness of a run's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// It has ended, and the number of its files is known.
    Ended,
    /// It is being written.
    Growing,
    /// Its writer was killed: the files that it had begun are known. Later ones were never on the
    /// disk.
    Interrupted,
    /// It is unknown whether there were files after the last one.
    #[default]
    Unknown,
    /// One file was opened, not a run.
    Part,
}

/// Whether a run has all its files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Whole {
    pub(crate) extent: Extent,
    /// Files that are missing, files that lost their TOC or trailer, and a base that is not there.
    pub(crate) problems: Vec<Problem>,
}

impl Whole {
    /// Compares a run's files with its list. Of several folders, each is compared with its own, and
    /// the extent is that of the folder of the ledger's last file.
    /// The base, where the payload is in one, must be there.
    pub(crate) fn of(run: &Run) -> Self {
        let (mut problems, mut extent) = (Vec::new(), Extent::default());
        let (all, of_ledger) = (run.run_files(), run.all_files().last().folder);
        for (folder, path) in run.paths().iter().enumerate() {
            let files: Vec<_> = all.iter().filter(|file| file.folder == folder).collect();
            let whole = Self::of_files(run, path, &files);
            problems.extend(whole.problems);
            if folder == of_ledger {
                extent = whole.extent;
            }
        }
        let base = run.check_base().err().map(|error| of_folder(run.path(), error.to_string()));
        problems.extend(base);
        Self { extent, problems }
    }

    fn of_files(run: &Run, path: &Path, files: &[&RunFile]) -> Self {
        let mut whole = Self::default();
        let is_part = path.is_file();
        let folder = if is_part { path.parent().unwrap_or(Path::new("")) } else { path };
        let list = match list_of(folder, run.header().run) {
            Ok(list) => list,
            // For a single file, its neighbours are not considered.
            Err(_) if is_part => None,
            Err(problem) => {
                whole.problems.push(of_folder(path, problem));
                None
            }
        };
        let growing = run.being_recorded();
        if !is_part && !growing {
            let missing = list.iter().flat_map(|list| missing_at_end((path, files), list));
            whole.problems.extend(missing);
        }
        for file in files {
            let problem = list.as_ref().and_then(|list| foreign(file, list));
            let problem = problem.or_else(|| lost_closing(file, list.as_ref()));
            let problem = problem.or_else(|| lost_its_end(file, list.as_ref()?));
            whole.problems.extend(problem.map(|problem| in_file(file, problem)));
        }
        let last = files.last();
        let flags = last.and_then(|file| file.reader.flags());
        whole.extent = match &list {
            _ if is_part => Extent::Part,
            _ if growing => Extent::Growing,
            _ if flags.is_some_and(|flags| flags.run_ended) => Extent::Ended,
            Some(list) if list.ended.is_some() => Extent::Ended,
            Some(_) => Extent::Interrupted,
            // A file without a TOC was the one being written.
            None if flags.is_none_or(|flags| flags.repaired) => Extent::Interrupted,
            None => Extent::Unknown,
        };
        whole
    }
}

/// Files that the list names after the last existing one.
fn missing_at_end((path, files): (&Path, &[&RunFile]), list: &FileList) -> Vec<Problem> {
    let there = files.last().map_or(0, |file| file.header().file_index.saturating_add(1));
    let missing = there..list.files_expected();
    let count = missing.len();
    let say = |index| {
        let expected = list.files_expected();
        of_folder(
            path,
            format!("file {index} of the run is missing: {FILE_LIST_NAME} names {expected}"),
        )
    };
    let mut problems: Vec<Problem> = missing.take(MISSING_NAMED_MAX).map(say).collect();
    if count > MISSING_NAMED_MAX {
        let more = count - MISSING_NAMED_MAX;
        problems.push(of_folder(path, format!("{more} more files of the run are missing")));
    }
    problems
}

/// A file that is not the one written with its index.
fn foreign(file: &RunFile, list: &FileList) -> Option<String> {
    let header = file.header();
    let listed = list.files.get(&header.file_index)?.file_id?;
    let got = header.file_id;
    (listed != got).then(|| {
        format!("it is not the file that {FILE_LIST_NAME} names: its id is {got:016x}, not {listed:016x}")
    })
}

/// Why a file that was closed no longer is.
fn lost_closing(file: &RunFile, list: Option<&FileList>) -> Option<String> {
    if file.reader.closed() || file.locked {
        return None;
    }
    let listed = list.and_then(|list| list.files.get(&file.header().file_index));
    let closed_bytes = listed.and_then(|listed| listed.closed_bytes);
    let found = file.reader.reopened();
    match (closed_bytes, found) {
        (Some(closed), found) => {
            let now = file.reader.file_bytes();
            let why =
                found.map_or("its TOC and trailer are missing".to_owned(), |why| why.to_string());
            Some(format!("it was closed with {closed} bytes and has {now} now: {why}"))
        }
        // A killed writer leaves its allocated blocks, and zeros there.
        (None, None | Some(Reopened::Longer { zeros: true, .. })) => None,
        (None, Some(why)) => Some(format!("it was closed, but {why}")),
    }
}

/// Whether `repair` closed the remainder of a file that had been closed with more. A rebuilt TOC
/// differs from the previous one by less than a block.
fn lost_its_end(file: &RunFile, list: &FileList) -> Option<String> {
    let repaired = file.reader.flags().is_some_and(|flags| flags.repaired);
    let listed = list.files.get(&file.header().file_index).filter(|_| repaired)?;
    let (before, now) = (listed.longest_bytes?, file.reader.file_bytes());
    (before >= now.saturating_add(BLOCK_BYTES)).then(|| {
        format!(
            "it was closed with {before} bytes, and repair closed the {now} that were left of it"
        )
    })
}

/// A run's list of files; none if it has none.
fn list_of(folder: &Path, run: RunId) -> Result<Option<FileList>, String> {
    let problem = |problem: &dyn std::fmt::Display| format!("{FILE_LIST_NAME}: {problem}");
    let text = match read_list(folder) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(None),
        Err(error) => return Err(problem(&error)),
    };
    match FileList::decode(&text) {
        Ok(list) if list.run == run => Ok(Some(list)),
        Ok(list) => Err(problem(&format_args!("it is the list of run {}", list.run))),
        Err(FileListError::Empty) => Ok(None),
        Err(error) => Err(problem(&error)),
    }
}

fn read_list(folder: &Path) -> Result<Option<Vec<u8>>, StorageError> {
    let path = folder.join(FILE_LIST_NAME);
    let read_error = |source| StorageError::Read { path: path.clone(), source };
    match path.symlink_metadata() {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(read_error(error)),
    }
    let file = ReadFile::open(&path)?;
    let bytes = file.bytes().map_err(read_error)?;
    if bytes > FILE_LIST_BYTES_MAX {
        let problem = format!("expected at most {FILE_LIST_BYTES_MAX} bytes, got {bytes}");
        return Err(read_error(io::Error::new(io::ErrorKind::InvalidData, problem)));
    }
    let mut text = vec![0; bytes as usize];
    let filled = file.read_at(0, &mut text).map_err(read_error)?;
    text.truncate(filled);
    Ok(Some(text))
}

/// Writes the list of a run that is written without a recorder: its files are listed when it ends,
/// since they get their names only then.
#[derive(Debug)]
pub(crate) struct ListWriter {
    path: PathBuf,
    header: String,
    lines: String,
    ended: bool,
}

impl ListWriter {
    /// In a folder without files of a run, replacing a list that was left there.
    pub(crate) fn begin(folder: &Path, run: RunId) -> Result<Self, StorageError> {
        let path = folder.join(FILE_LIST_NAME);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(StorageError::Write { path, source });
            }
            _ => {}
        }
        let header = FileListLine::Run(run).encode();
        append_lines(&path, &header, "")?;
        Ok(Self { path, header, lines: String::new(), ended: false })
    }

    /// A file has its TOC.
    pub(crate) fn closed(&mut self, index: u32, file_id: u64, bytes: u64) {
        self.lines.push_str(&FileListLine::Begun { index, file_id }.encode());
        self.lines.push_str(&FileListLine::Closed { index, bytes }.encode());
    }

    /// All files are durable and have their names.
    pub(crate) fn end(mut self, files: u32) -> Result<(), StorageError> {
        self.ended = true;
        self.lines.push_str(&FileListLine::Ended { files }.encode());
        Ok(append_lines(&self.path, &self.header, &self.lines)?)
    }
}

impl Drop for ListWriter {
    fn drop(&mut self) {
        if !self.ended && self.lines.is_empty() {
            // No file was written. If it cannot be deleted, the next run here will do so.
            let _deleted = std::fs::remove_file(&self.path);
        }
    }
}

/// The files according to any list in the run's folder; none if no list can be read.
pub(crate) fn any_list(folder: &Path) -> Option<FileList> {
    FileList::decode(&read_list(folder).ok()??).ok()
}

/// Records in the run's list, if it has one, that a file is closed.
pub(crate) fn list_closed(
    path: &Path,
    run: RunId,
    index: u32,
    bytes: u64,
) -> Result<(), StorageError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    if !list_of(folder, run).is_ok_and(|list| list.is_some()) {
        return Ok(());
    }
    let header = FileListLine::Run(run).encode();
    let line = FileListLine::Closed { index, bytes }.encode();
    Ok(append_lines(&folder.join(FILE_LIST_NAME), &header, &line)?)
}

/// Records in the run's list, if it has one, that a file was cut and closed again: what was said of
/// its length before does not count any more.
pub(crate) fn list_cut(path: &Path, header: &FileHeader, bytes: u64) -> Result<(), StorageError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    if !list_of(folder, header.run).is_ok_and(|list| list.is_some()) {
        return Ok(());
    }
    let (index, file_id) = (header.file_index, header.file_id);
    let lines = FileListLine::Begun { index, file_id }.encode()
        + &FileListLine::Closed { index, bytes }.encode();
    let header = FileListLine::Run(header.run).encode();
    Ok(append_lines(&folder.join(FILE_LIST_NAME), &header, &lines)?)
}

/// Records in the run's list, if it has one, that nothing of a file is kept, which is about to be
/// deleted.
///
/// # Errors
/// The disk refuses the line.
pub fn list_removed(folder: &Path, run: RunId, index: u32) -> Result<(), StorageError> {
    if !list_of(folder, run).is_ok_and(|list| list.is_some()) {
        return Ok(());
    }
    let (header, line) = (FileListLine::Run(run), FileListLine::Removed { index });
    Ok(append_lines(&folder.join(FILE_LIST_NAME), &header.encode(), &line.encode())?)
}

/// Records in the run's list, if it has one, where the run's frames were sent. Returns whether
/// it has one.
///
/// # Errors
/// The disk refuses the lines.
pub fn list_locations(
    folder: &Path,
    run: RunId,
    locations: &[RunLocation],
) -> Result<bool, StorageError> {
    if !list_of(folder, run).is_ok_and(|list| list.is_some()) {
        return Ok(false);
    }
    let lines = locations.iter().cloned().map(|one| FileListLine::Location(one).encode());
    let (header, lines) = (FileListLine::Run(run).encode(), lines.collect::<String>());
    append_lines(&folder.join(FILE_LIST_NAME), &header, &lines)?;
    Ok(true)
}

/// Where the frames of the run in a folder were sent, as its list says; empty if it does not.
pub fn run_locations(folder: &Path, run: RunId) -> Vec<RunLocation> {
    list_of(folder, run).ok().flatten().map(|list| list.locations).unwrap_or_default()
}

/// Where the list of a folder says that the run's frames are, if that is not there, as the end of
/// an error.
pub(crate) fn elsewhere(folder: &Path) -> String {
    let list = read_list(folder).ok().flatten().and_then(|text| FileList::decode(&text).ok());
    let place = |one: RunLocation| {
        let path = Path::new(&one.address).join(&one.name);
        match one.kind {
            LocationKind::Node => Some(format!("{} of storage node {}", one.name, one.address)),
            _ if path.canonicalize().ok() == folder.canonicalize().ok() => None,
            _ => Some(path.display().to_string()),
        }
    };
    let locations = list.into_iter().flat_map(|list| list.locations);
    let places: Vec<String> = locations.filter_map(place).take(PLACES_NAMED_MAX).collect();
    match places.is_empty() {
        true => String::new(),
        false => format!("; its list names {}", printable(&places.join(", "))),
    }
}

const PLACES_NAMED_MAX: usize = 16;
const MISSING_NAMED_MAX: usize = 1_000;
