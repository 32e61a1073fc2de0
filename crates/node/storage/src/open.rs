//! Finding a run's files and putting them in order.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use catchment_disk::{ReadFile, list_files};
use catchment_frame::{
    ColumnEntry, ColumnKind, FileHeader, FileReader, FrameError, FrameRef, FrameSummary,
    KnownSchemas, OpenOptions, ReadAt, Spans, find_headless, is_zero_between,
};
use parking_lot::Mutex;

use crate::error::StorageError;
use crate::parallel;
use crate::superseded;
use crate::whole;

/// Extension of frame files.
pub const EXTENSION: &str = "catch";

/// One file of a run.
#[derive(Debug)]
pub(crate) struct RunFile {
    pub path: PathBuf,
    /// Which of the run's folders it is in.
    pub folder: usize,
    /// Which of the run's places it belongs to: the folders of one target are one place.
    pub place: usize,
    pub reader: FileReader<Counted>,
    /// The same file, for hints to the system.
    pub file: Arc<ReadFile>,
    /// A recorder or a repair was writing it when it was opened.
    pub locked: bool,
    /// Gaps of the most recently requested frames: every channel of a frame requests the same.
    spans: Mutex<VecDeque<(usize, Arc<Spans>)>>,
    /// The indices, rising, of its frames of which another copy is read.
    pub repeated: Vec<usize>,
    /// The damage of frames that were verified because they are stored twice, by offset.
    pub verified: HashMap<u64, Option<String>>,
}

/// A column's name for people.
pub(crate) struct Names {
    pub kind: String,
    pub source: Option<String>,
    pub channel: Option<Box<str>>,
}

impl RunFile {
    /// Its frames with their indices, except those of which another copy is read.
    pub(crate) fn frames(&self) -> impl Iterator<Item = (usize, &FrameSummary)> {
        let all = self.reader.frames().iter().enumerate();
        all.filter(|(index, _)| self.repeated.binary_search(index).is_err())
    }

    /// The gaps of a frame's channels.
    pub(crate) fn spans(&self, frame: usize) -> Result<Arc<Spans>, FrameError> {
        let cached = || self.spans.lock();
        if let Some((_, spans)) = cached().iter().find(|(of, _)| *of == frame) {
            return Ok(Arc::clone(spans));
        }
        let spans = Arc::new(self.reader.spans(frame)?);
        let mut cached = cached();
        cached.truncate(SPANS_CACHED_MAX - 1);
        cached.push_front((frame, Arc::clone(&spans)));
        Ok(spans)
    }

    /// The frames that have a column, and its entries: from the TOC, or from the frames themselves
    /// if the TOC's list is damaged.
    pub(crate) fn locations(&self, column: u32) -> Result<Arc<[(u32, ColumnEntry)]>, StorageError> {
        if let Ok(locations) = self.reader.column_entries(column) {
            return Ok(locations);
        }
        let mut locations = Vec::new();
        for frame in 0..self.reader.frames().len() {
            let found = self.reader.find(frame, column).map_err(|error| self.error(error))?;
            locations.extend(found.map(|entry| (frame as u32, entry)));
        }
        Ok(locations.into())
    }

    pub(crate) fn header(&self) -> &FileHeader {
        self.reader.header()
    }

    /// The error with the names of file, column and source.
    pub(crate) fn error(&self, source: FrameError) -> StorageError {
        let path = self.path.clone();
        match source {
            FrameError::Column { frame: FrameRef::Index(frame), column, problem } => {
                let Names { kind, source: source_name, channel } = self.names(column);
                let problem = problem.to_string();
                StorageError::Column { path, frame, kind, source_name, channel, problem }
            }
            source => StorageError::Frame { path, source },
        }
    }

    /// A column's meaning, and its source or channel.
    pub(crate) fn names(&self, column: u32) -> Names {
        let schema = &self.header().schema;
        let Some(info) = schema.columns.iter().find(|info| info.id == column) else {
            return Names { kind: format!("column {column}"), source: None, channel: None };
        };
        let source = info.source.and_then(|source| schema.sources.get(source as usize));
        let is_channel = info.kind == ColumnKind::Channel;
        Names {
            kind: info.kind.name().to_owned(),
            source: source.map(|source| source.name.clone()),
            channel: is_channel.then(|| info.name.as_str().into()),
        }
    }
}

/// A file whose reads are counted together with those of the run's other files, so that a test can
/// check that nothing is read unrequested.
#[derive(Debug)]
pub(crate) struct Counted {
    file: Arc<ReadFile>,
    bytes_read: Arc<AtomicU64>,
}

impl Counted {
    pub(crate) fn new(file: Arc<ReadFile>, bytes_read: &Arc<AtomicU64>) -> Self {
        Self { file, bytes_read: Arc::clone(bytes_read) }
    }
}

impl ReadAt for Counted {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(offset, buffer)?;
        self.bytes_read.fetch_add(read as u64, Relaxed);
        Ok(read)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        self.file.next_data(offset)
    }
}

/// A defect of a run's files that does not keep the rest from being read.
#[derive(Debug)]
pub enum FileProblem {
    /// A file of the run that is missing from the folder, between or before existing ones.
    Missing {
        /// Its index.
        index: u32,
        /// The folder, if several were opened.
        folder: Option<PathBuf>,
        /// The target that has several folders, in one of which it may be.
        target: Option<String>,
    },
    /// A part of a target whose frames were dealt to several storage nodes: none of its files is
    /// in the folders that were opened.
    MissingPart {
        /// The target.
        target: String,
        /// The node's number among those of the target.
        number: u32,
        /// How many the target has.
        count: u32,
    },
    /// A file that was made ahead and never begun: empty, or all zeros.
    Blank {
        /// The file.
        path: PathBuf,
        /// Whether a recorder holds it, to write to it next.
        locked: bool,
    },
    /// A file with an unreadable header.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error.
        error: FrameError,
    },
    /// A second copy of a file, all of whose frames are in the first. It is left out.
    Copy {
        /// The file that is left out.
        path: PathBuf,
        /// The one that is read.
        of: PathBuf,
    },
    /// A folder that lacks sources or channels, beside one that has all. It is left out.
    Variant {
        /// The folder that is left out.
        path: PathBuf,
        /// What its files have of the run.
        variant: u32,
    },
}

impl FileProblem {
    /// Whether data may be lost by it.
    pub fn is_damage(&self) -> bool {
        !matches!(self, Self::Blank { .. } | Self::Copy { .. } | Self::Variant { .. })
    }
}

impl std::fmt::Display for FileProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing { index, folder, target } => {
                write!(f, "file {index} of the run is missing")?;
                if let Some(folder) = folder {
                    write!(f, " in {}", folder.display())?;
                }
                match target {
                    Some(target) => write!(f, "; the target {target} has several folders"),
                    None => Ok(()),
                }
            }
            Self::MissingPart { target, number, count } => {
                write!(f, "part {number} of the {count} of the target {target} is missing: ")?;
                write!(f, "its storage node has it")
            }
            Self::Blank { path, .. } => {
                write!(f, "{}: made ahead and never begun", path.display())
            }
            Self::Unreadable { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Variant { path, variant } => write!(
                f,
                "{}: variant {variant} of the run, which another folder has whole, left out",
                path.display()
            ),
            Self::Copy { path, of } => {
                write!(f, "{}: a copy of {}, left out", path.display(), of.display())
            }
        }
    }
}

/// The files of a run by rising index, at least one, and their defects.
pub(crate) fn files(
    path: &Path,
    bytes_read: &Arc<AtomicU64>,
) -> Result<(Vec<RunFile>, Vec<FileProblem>), StorageError> {
    if !path.is_dir() {
        let file = open_file(path, bytes_read)?.map_err(|error| match error {
            FileProblem::Unreadable { path, error } => StorageError::Frame { path, source: error },
            _ => StorageError::Blank { path: path.to_owned() },
        })?;
        let files = vec![file];
        superseded::refuse(&files)?;
        return Ok((files, Vec::new()));
    }
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    let paths = paths(path)?;
    let cold = paths.len() > 1 && ReadFile::open(&paths[0]).is_ok_and(|file| announce_ends(&file));
    let each = if cold { 1 } else { FILES_PER_THREAD };
    let threads = (paths.len() / each).clamp(1, THREADS_MAX);
    for opened in parallel::map(paths, threads, |path| open_file(&path, bytes_read))? {
        match opened {
            Ok(file) => files.push(file),
            Err(problem) => problems.push(problem),
        }
    }
    take_one_variant(&mut files, &mut problems);
    if files.is_empty() {
        // A damaged file gives a better error than no file.
        let unreadable = problems.into_iter().find_map(|problem| match problem {
            FileProblem::Unreadable { path, error } => {
                Some(StorageError::Frame { path, source: error })
            }
            _ => None,
        });
        return Err(unreadable.unwrap_or_else(|| {
            let elsewhere = whole::elsewhere(path);
            StorageError::NoFiles { path: path.to_owned(), elsewhere }
        }));
    }
    let missing = put_in_order(&mut files)?;
    problems.extend(missing);
    Ok((files, problems))
}

/// Sorts a run's files by their index, leaves out copies, checks that the files belong together,
/// and names those missing.
pub(crate) fn put_in_order(files: &mut Vec<RunFile>) -> Result<Vec<FileProblem>, StorageError> {
    let copies = take_copies(files);
    if let Err(error) = check_together(files) {
        // There are as many files as before: some of them may belong to a run that is already open.
        files.extend(copies.into_iter().map(|(copy, _)| copy));
        files.sort_by_key(|file| file.header().file_index);
        return Err(error);
    }
    let copies = copies.into_iter();
    let mut problems: Vec<_> =
        copies.map(|(copy, of)| FileProblem::Copy { path: copy.path, of }).collect();
    // An existing but unreadable file does not give its index: it is then named twice.
    let mut expected = 0u32;
    let target = files.first().and_then(|file| file.header().target.clone());
    for file in files {
        let index = file.header().file_index;
        // Bounded, because anyone can write an index of 32 bits.
        let missing = expected..index.min(expected.saturating_add(MISSING_NAMED_MAX));
        let missing = missing.map(|index| FileProblem::Missing {
            index,
            folder: None,
            target: target.clone(),
        });
        problems.extend(missing);
        expected = index.saturating_add(1);
    }
    Ok(problems)
}

/// An opened file of a run.
pub(crate) trait OneFile {
    type Read: ReadAt;

    fn path(&self) -> &Path;

    fn reader(&self) -> &FileReader<Self::Read>;
}

impl OneFile for RunFile {
    type Read = Counted;

    fn path(&self) -> &Path {
        &self.path
    }

    fn reader(&self) -> &FileReader<Counted> {
        &self.reader
    }
}

/// Of files with one index: the one with the most frames, the closed one, the one with the
/// recorder's name for it, the first by name.
fn rank<F: OneFile>(file: &F) -> impl Ord + use<F> {
    let name = file.path().file_stem().unwrap_or_default().to_string_lossy();
    let renamed = index_of_name(&name) != Some(file.reader().header().file_index);
    let frames = file.reader().frames().len();
    (std::cmp::Reverse(frames), !file.reader().closed(), renamed, file.path().to_owned())
}

/// The index in a file's name without extension, as written by recorders: `run-…-00003`.
pub(crate) fn index_of_name(stem: &str) -> Option<u32> {
    let (_, digits) = stem.rsplit_once('-')?;
    let is_index = digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_index.then(|| digits.parse().ok()).flatten()
}

/// The index behind those of the frame files in these folders, by their names.
pub(crate) fn next_index(folders: &[PathBuf]) -> u32 {
    let paths = folders.iter().flat_map(|folder| paths(folder).unwrap_or_default());
    let index = |path: PathBuf| index_of_name(&path.file_stem()?.to_string_lossy());
    paths.filter_map(index).max().map_or(0, |last| last.saturating_add(1))
}

/// Sorts files by their index and removes copies: files with the identity of another one and the
/// same frames or fewer. Returns each copy with the path of that other one.
pub(crate) fn take_copies<F: OneFile>(files: &mut Vec<F>) -> Vec<(F, PathBuf)> {
    files.sort_by_cached_key(|file| (file.reader().header().file_index, rank(file)));
    let identity = |header: &FileHeader| (header.run, header.file_index, header.file_id);
    let mut copies = Vec::new();
    let mut index = 1;
    while index < files.len() {
        let (first, file) = (files[index - 1].reader(), files[index].reader());
        let is_copy = identity(first.header()) == identity(file.header())
            && first.frames().starts_with(file.frames());
        if is_copy {
            let of = files[index - 1].path().to_owned();
            copies.push((files.remove(index), of));
        } else {
            index += 1;
        }
    }
    copies
}

/// The paths of a folder's frame files, by name.
pub(crate) fn paths(folder: &Path) -> Result<Vec<PathBuf>, StorageError> {
    Ok(list_files(folder, EXTENSION)?)
}

/// Whether a file has not been begun: it contains only zeros. A file with zeros in place of its
/// header, followed by anything else, is damaged. For a file being written the beginning is enough,
/// since its header is written first.
pub(crate) fn is_blank<R: ReadAt>(file: &R, being_written: bool) -> std::io::Result<bool> {
    let mut block = [0; catchment_frame::BLOCK_BYTES as usize];
    let filled = file.read_at(0, &mut block)?;
    let begins_blank = block[..filled].iter().all(|&byte| byte == 0);
    let rest = filled as u64..file.bytes()?;
    Ok(begins_blank && (being_written || is_zero_between(file, rest.start, rest.end)))
}

/// The error for a file with an unreadable header: with the frames after it, if there are any.
fn header_error(file: &ReadFile, error: FrameError) -> FrameError {
    let is_damage = !matches!(
        error,
        FrameError::Version { .. } | FrameError::Read { .. } | FrameError::Length(_)
    );
    let found = || find_headless(file, OpenOptions::default().search_bytes_max).ok().flatten();
    match is_damage.then(found).flatten() {
        Some(found) => {
            let frames = found.frames.len() as u64;
            FrameError::HeaderLost { problem: Box::new(error), frames }
        }
        None => error,
    }
}

/// Whether a recorder, or a repair, holds a file.
pub(crate) fn is_locked(path: &Path) -> bool {
    ReadFile::open(path).is_ok_and(|file| file.is_held())
}

/// The file, or why it cannot be part of a run; an error if the system refuses.
pub(crate) fn open_file(
    path: &Path,
    bytes_read: &Arc<AtomicU64>,
) -> Result<Result<RunFile, FileProblem>, StorageError> {
    let path = path.to_owned();
    let file = Arc::new(ReadFile::open(&path)?);
    // Before anything is read: a file that is not locked then is no longer written, and is read as
    // it stays.
    let locked = file.is_held();
    let cold = announce_ends(&file);
    // A growing file is read as far as it goes; in others a hole is searched for later frames.
    let search_bytes_max = if locked { 0 } else { OpenOptions::default().search_bytes_max };
    let options = OpenOptions { search_bytes_max, ..OpenOptions::default() };
    let read = || {
        let counted = Counted::new(Arc::clone(&file), bytes_read);
        FileReader::open_known(counted, &options, Some(&SCHEMAS))
    };
    let opened = read().or_else(|error| match is_blank(&file, locked) {
        // A blank beginning alone is not decisive: a damaged header is read from the TOC's copy.
        Ok(true) => Err(Ok(FileProblem::Blank { path: path.clone(), locked })),
        // It may have been begun since.
        Ok(false) if locked => read().map_err(|error| Ok(unreadable(&path, error))),
        Ok(false) => Err(Ok(unreadable(&path, header_error(&file, error)))),
        Err(source) => Err(Err(StorageError::Read { path: path.clone(), source })),
    });
    match opened {
        Ok(reader) => {
            if let Err(error) = reader.check_variant(reader.header().variant) {
                return Ok(Err(unreadable(&path, error)));
            }
            if cold {
                announce_index(&file, &reader);
            }
            let (spans, repeated, verified) = (Mutex::default(), Vec::new(), HashMap::new());
            Ok(Ok(RunFile {
                path,
                folder: 0,
                place: 0,
                reader,
                file,
                locked,
                spans,
                repeated,
                verified,
            }))
        }
        Err(Ok(problem)) => Ok(Err(problem)),
        Err(Err(error)) => Err(error),
    }
}

/// Leaves the files of variant 0 of the run, if there are any. Otherwise there must be only one
/// variant: several have several schemas.
fn take_one_variant(files: &mut Vec<RunFile>, problems: &mut Vec<FileProblem>) {
    let Some(variant) = files.iter().map(|file| file.header().variant).min() else { return };
    if variant != 0 {
        return;
    }
    files.retain(|file| match file.reader.check_variant(variant) {
        Ok(()) => true,
        Err(error) => {
            problems.push(unreadable(&file.path, error));
            false
        }
    });
}

fn unreadable(path: &Path, error: FrameError) -> FileProblem {
    FileProblem::Unreadable { path: path.to_owned(), error }
}

/// Announces the reads for opening a file, unless they are in the page cache: the schema is at the
/// beginning, the index at the end. Returns whether it did.
fn announce_ends(file: &ReadFile) -> bool {
    if file.is_cached(0) == Some(true) {
        return false;
    }
    // What cannot be announced is simply read.
    let Ok(bytes) = file.bytes() else { return false };
    let end = (bytes / ENDS_SHARE).clamp(ENDS_BYTES_MIN, ENDS_BYTES_MAX).min(bytes);
    file.announce(0..end);
    file.announce(bytes - end..bytes);
    true
}

/// Announces the index of columns, of which a block is read first. The list read after it is a page
/// or two: announcing all lists would take a disk longer.
fn announce_index(file: &ReadFile, reader: &FileReader<Counted>) {
    match reader.index_bytes() {
        Some(bytes) if bytes.end - bytes.start <= INDEX_BYTES_MAX => file.announce(bytes),
        _ => {}
    }
}

fn check_together(files: &[RunFile]) -> Result<(), StorageError> {
    let Some(first) = files.first() else { return Ok(()) };
    for pair in files.windows(2) {
        let (before, file) = (&pair[0], &pair[1]);
        check_alike(file, first)?;
        let header = file.header();
        let path = file.path.clone();
        let index = header.file_index;
        if index == before.header().file_index {
            let same = header.file_id == before.header().file_id;
            let differ =
                if same { ", one a copy of the other, but they have other frames" } else { "" };
            let first = before.path.clone();
            return Err(StorageError::IndexTwice { index, path, first, differ });
        }
    }
    superseded::refuse(files)
}

/// Checks that two files are of one run and have one schema.
pub(crate) fn check_alike(file: &RunFile, first: &RunFile) -> Result<(), StorageError> {
    let (header, path) = (file.header(), file.path.clone());
    if header.run != first.header().run {
        let (got, expected) = (header.run, first.header().run);
        let first = first.path.clone();
        return Err(StorageError::ForeignFile { path, got, first, expected });
    }
    let same = Arc::ptr_eq(&header.schema, &first.header().schema);
    if header.variant != first.header().variant {
        let variants = [first.header().variant, header.variant];
        return Err(StorageError::VariantDiffers { path, first: first.path.clone(), variants });
    }
    if !same && header.schema != first.header().schema {
        return Err(StorageError::SchemaDiffers { path, first: first.path.clone() });
    }
    Ok(())
}

/// Schemas seen in this process: a run's files share theirs, and runs are opened again and again.
static SCHEMAS: KnownSchemas = KnownSchemas::new();
const MISSING_NAMED_MAX: u32 = 1_000;
/// Frames of a file whose decoded gaps are cached.
const SPANS_CACHED_MAX: usize = 16;
/// Files per thread when a run is opened: starting a thread takes as long as opening half a dozen.
/// In cold reads the threads wait for the disk, so there may be more of them than CPUs.
const FILES_PER_THREAD: usize = 16;
const THREADS_MAX: usize = 8;
/// How much of a file's beginning and end is announced: a share of it, within bounds.
const ENDS_SHARE: u64 = 64;
const ENDS_BYTES_MIN: u64 = 16 << 10;
const ENDS_BYTES_MAX: u64 = 128 << 10;
/// Longer indices are not announced: for four thousand columns and more, finding one block is
/// faster.
const INDEX_BYTES_MAX: u64 = 128 << 10;
