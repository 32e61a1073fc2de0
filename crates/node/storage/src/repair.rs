//! Closing the files of a killed recorder: a TOC and a trailer after the last whole frame.
//!
//! A file that is closed and whole is never opened for writing. In any other, only the part after
//! the last whole frame is overwritten, and the file is cut there; frames are never touched, nor is
//! the time of the file's last write, by which a run may go on. An interrupted repair can be run
//! again. A lost header is rebuilt from the TOC or from another file of the run
//! ([`crate::restore`]); if that is impossible, the file is left as it is.

use std::path::{Path, PathBuf};

use catchment_codec::CodecError;
use catchment_disk::{EditFile, ReadFile};
use catchment_frame::{
    ColumnProblem, FileList, FileReader, FrameError, FrameInfo, FrameKind, Skipped, find_headless,
    frame_ledger,
};
use catchment_model::Ledger;
use serde::Serialize;

use crate::copies::DamagedCopy;
use crate::error::StorageError;
use crate::open::{self, OneFile};
use crate::restore::{Lost, Sibling};
use crate::run::Run;
use crate::verify::is_under_way;
use crate::whole::{any_list, list_closed};

/// The result of repairing a run's files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RepairReport {
    /// One for each file, in the run's order.
    pub files: Vec<FileRepair>,
    /// Damaged frames with a whole copy in the run, which readers use instead.
    pub damaged_copies: Vec<DamagedCopy>,
}

/// The result for one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileRepair {
    /// The file.
    pub path: PathBuf,
    /// The action taken.
    pub outcome: Outcome,
    /// The file of the run from which its lost header was rebuilt: itself, if its TOC had a copy.
    pub header_from: Option<PathBuf>,
    /// The number of whole frames.
    pub frames: u64,
    /// Events in these.
    pub events: u64,
    /// Samples in these, of all channels together.
    pub samples: u64,
    /// Bytes of unrecognized data: neither frames, nor zeros, nor an incomplete last frame.
    pub skipped_bytes: u64,
    /// Bytes of the incomplete frame that the recorder was writing when it was killed.
    pub under_way_bytes: u64,
    /// Frames missing between those found, by their numbers.
    pub frames_missing: u64,
    /// Columns that cannot be read; they stay where they are.
    pub damaged: Vec<String>,
    /// The file's previous length.
    pub bytes_before: u64,
    /// The file's present length.
    pub bytes_after: u64,
}

/// The action taken on a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// None: it is closed and its index intact.
    Intact,
    /// None: it is closed and its index intact, but contains columns with impossible sizes.
    Damaged,
    /// It was closed after its last whole frame.
    Closed,
    /// None: it was made ahead and never begun, and can be deleted.
    Blank,
    /// None: it is a copy of another file of the folder, or of a part of it.
    Copy {
        /// That file. It may be damaged where the copy is not: repair reads no columns.
        of: PathBuf,
    },
    /// None is possible: its header cannot be read.
    Unreadable(String),
}

impl FileRepair {
    /// An empty file is damaged if the run's list has it as begun.
    fn tell_emptied(&mut self, list: Option<&FileList>) {
        let stem = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let index = open::index_of_name(&stem).filter(|_| self.outcome == Outcome::Blank);
        let Some(listed) = index.and_then(|index| list?.files.get(&index)) else { return };
        let before = match listed.longest_bytes {
            Some(bytes) => format!("it was closed with {bytes} bytes"),
            None => "it was begun".to_owned(),
        };
        let now = if self.bytes_before == 0 { "is empty" } else { "has nothing but zeros" };
        self.outcome = Outcome::Unreadable(format!("{before}, and {now} now"));
    }

    /// For a file that is left as it is, with unknown frames.
    pub(crate) fn left(path: PathBuf, outcome: Outcome) -> Self {
        let bytes = path.metadata().map_or(0, |file| file.len());
        Self {
            path,
            outcome,
            header_from: None,
            frames: 0,
            events: 0,
            samples: 0,
            skipped_bytes: 0,
            under_way_bytes: 0,
            frames_missing: 0,
            damaged: Vec::new(),
            bytes_before: bytes,
            bytes_after: bytes,
        }
    }
}

impl RepairReport {
    /// The number of files that were closed.
    pub fn closed(&self) -> usize {
        self.files.iter().filter(|file| file.outcome == Outcome::Closed).count()
    }

    /// Whether data in the files are damaged or missing.
    pub fn found_damage(&self) -> bool {
        !self.damaged_copies.is_empty()
            || self.files.iter().any(|file| {
                file.skipped_bytes > 0
                    || file.header_from.is_some()
                    || file.frames_missing > 0
                    || !file.damaged.is_empty()
                    || matches!(file.outcome, Outcome::Unreadable(_))
            })
    }
}

/// Closes every file of a run (a folder, or one file) that is not closed, or whose index is
/// damaged. The run must not be recorded meanwhile.
///
/// # Errors
/// The system refuses to read, write or sync. Files before that one are done.
pub fn repair(path: impl AsRef<Path>) -> Result<RepairReport, StorageError> {
    let path = path.as_ref();
    let paths = if path.is_dir() { open::paths(path)? } else { vec![path.to_owned()] };
    if paths.is_empty() {
        return Err(StorageError::no_files(path));
    }
    let mut report = RepairReport::default();
    let (found, mut hopeless) = find(paths)?;
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let list = any_list(folder);
    hopeless.iter_mut().for_each(|file| file.tell_emptied(list.as_ref()));
    let last_open = found.iter().rposition(|file| !file.is_intact());
    // The sum of the frames of all files so far, while none is missing. The totals in their TOCs
    // cannot be used: they were taken while the recorder was still counting.
    let mut before = Some(Ledger::default());
    for (index, file) in found.into_iter().enumerate() {
        let header = file.reader.header();
        let sources = header.schema.sources.len();
        let so_far = before.take().filter(|_| header.file_index as usize == index);
        let so_far = if index == 0 { so_far.map(|_| Ledger::new(sources)) } else { so_far };
        let so_far = so_far.filter(|ledger| ledger.sources.len() == sources);
        if file.is_intact() {
            if last_open.is_some_and(|last| index < last) {
                before = so_far.map(|ledger| file.add_frames(ledger));
            }
            let damaged = file.impossible();
            let outcome = if damaged.is_empty() { Outcome::Intact } else { Outcome::Damaged };
            report.files.push(FileRepair { damaged, ..file.untouched(outcome) });
        } else {
            let (done, ledger) = file.close(so_far.as_ref())?;
            report.files.push(done);
            before = so_far.and(Some(ledger));
        }
    }
    report.files.extend(hopeless);
    if let Ok(run) = Run::open(path) {
        report.damaged_copies = run.damaged_copies().to_vec();
    }
    Ok(report)
}

/// Opens the files, rebuilds lost headers, and sorts the files by index. Files that need no action
/// are separate.
pub(crate) fn find(paths: Vec<PathBuf>) -> Result<(Vec<Found>, Vec<FileRepair>), StorageError> {
    let (mut found, mut lost, mut done) = (Vec::new(), Vec::new(), Vec::new());
    for path in &paths {
        match Found::open(path.clone())? {
            Opened::Found(file) => found.push(*file),
            Opened::Lost(file) => lost.push(file),
            Opened::Done(file) => done.push(file),
        }
    }
    let mut others = Vec::new();
    if !lost.is_empty() && paths.len() == 1 {
        // One file was given: the others of its run are in its folder.
        let folder = paths[0].parent().filter(|folder| !folder.as_os_str().is_empty());
        for path in open::paths(folder.unwrap_or(Path::new(".")))? {
            if let Ok(Opened::Found(file)) = Found::open(path) {
                others.push(*file);
            }
        }
    }
    for file in lost {
        let whole = found.iter().chain(&others).filter(|other| other.header_from.is_none());
        let siblings: Vec<_> = whole.map(|other| Sibling::of(&other.path, &other.reader)).collect();
        match file.restore(&siblings)? {
            Ok(from) => match Found::open(file.path.clone())? {
                Opened::Found(file) => found.push(Found { header_from: Some(from), ..*file }),
                Opened::Lost(file) => done.push(file.left(file.problem.to_string())),
                Opened::Done(file) => done.push(file),
            },
            Err(why) => done.push(file.left(why)),
        }
    }
    let copies = open::take_copies(&mut found);
    done.extend(copies.into_iter().map(|(copy, of)| copy.untouched(Outcome::Copy { of })));
    Ok((found, done))
}

/// The state of the file at a path.
enum Opened {
    Found(Box<Found>),
    /// A file with frames but without a header.
    Lost(Lost),
    /// A file that allows no action.
    Done(FileRepair),
}

impl OneFile for Found {
    type Read = ReadFile;

    fn path(&self) -> &Path {
        &self.path
    }

    fn reader(&self) -> &FileReader<ReadFile> {
        &self.reader
    }
}

/// A file with a header.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) reader: FileReader<ReadFile>,
    pub(crate) header_from: Option<PathBuf>,
}

impl Found {
    fn open(path: PathBuf) -> Result<Opened, StorageError> {
        // Blocks that were allocated and not written are not read, as in `remove_leftovers`.
        let file = ReadFile::open(&path)?.without_read_ahead();
        let read_error = |source| StorageError::Read { path: path.clone(), source };
        let blank = open::is_blank(&file, false).map_err(read_error)?;
        let problem = match FileReader::open(file) {
            Ok(reader) => {
                return Ok(Opened::Found(Box::new(Self { path, reader, header_from: None })));
            }
            Err(_) if blank => return Ok(Opened::Done(FileRepair::left(path, Outcome::Blank))),
            Err(problem) => problem,
        };
        let file = ReadFile::open(&path)?;
        // A later version's header is intact, and an unreadable disk may be readable another time.
        let damaged = !matches!(problem, FrameError::Version { .. } | FrameError::Read { .. });
        let found = damaged.then(|| find_headless(&file, u64::MAX).ok().flatten()).flatten();
        Ok(match found {
            Some(found) => Opened::Lost(Lost { path, problem, found }),
            None => {
                let outcome = Outcome::Unreadable(problem.to_string());
                Opened::Done(FileRepair::left(path, outcome))
            }
        })
    }

    /// Closed, with an intact TOC. If only the file header is damaged, it is left as it is: readers
    /// use the TOC's copy.
    fn is_intact(&self) -> bool {
        self.reader.closed() && self.reader.verify_index().is_empty()
    }

    fn add_frames(&self, mut ledger: Ledger) -> Ledger {
        for frame in 0..self.reader.frames().len() {
            ledger.add(&frame_ledger(&self.reader, frame).0);
        }
        ledger
    }

    /// Columns with impossible sizes, whatever the checksums of header and index. Reads no columns.
    fn impossible(&self) -> Vec<String> {
        let of_frame = |frame| {
            let entries = self.reader.columns(frame).unwrap_or_default();
            let problem = |entry| self.reader.stored_column(frame, entry)?.check();
            let found = entries.iter().filter_map(|entry| problem(entry).err());
            found.filter(|error| !is_unknown_codec(error)).collect::<Vec<FrameError>>()
        };
        let found = (0..self.reader.frames().len()).flat_map(of_frame);
        found.take(DAMAGED_MAX).map(|error| error.to_string()).collect()
    }

    fn untouched(self, outcome: Outcome) -> FileRepair {
        let bytes = self.reader.file_bytes();
        let infos = || self.reader.frames().iter().map(|frame| frame.info);
        FileRepair {
            header_from: self.header_from,
            frames: self.reader.frames().len() as u64,
            events: rows_of(infos(), FrameKind::Events),
            samples: rows_of(infos(), FrameKind::Channels),
            bytes_before: bytes,
            bytes_after: bytes,
            ..FileRepair::left(self.path, outcome)
        }
    }

    /// Closes the file after its last whole frame. Also returns the sum of the frames to its end.
    fn close(self, before: Option<&Ledger>) -> Result<(FileRepair, Ledger), StorageError> {
        let bytes_before = self.reader.file_bytes();
        let file = ReadFile::open(&self.path)?;
        let plan = catchment_frame::repair(&file, before)
            .map_err(|source| StorageError::Frame { path: self.path.clone(), source })?;
        let Self { path, reader, header_from } = self;
        let (run, index) = (reader.header().run, reader.header().file_index);
        drop((file, reader));
        let mut bytes_after = bytes_before;
        let mut outcome = Outcome::Intact;
        if let Some(closing) = &plan.closing {
            let file = EditFile::open(&path)?;
            let written = file.written();
            file.write_at(closing.offset, &closing.bytes)?;
            // TOC and trailer are durable before anything after them is cut.
            file.sync()?;
            file.truncate(closing.file_bytes())?;
            file.keep_written(written);
            file.sync()?;
            bytes_after = closing.file_bytes();
            outcome = Outcome::Closed;
            list_closed(&path, run, index, bytes_after)?;
        }
        let last = plan.frames.last();
        let damage = plan.skipped.iter().filter(|skipped| skipped.reason.is_damage());
        let (under_way, damage): (Vec<_>, Vec<_>) =
            damage.partition(|skipped| is_under_way(skipped, last));
        let bytes = |holes: &[&Skipped]| {
            holes.iter().fold(0u64, |sum, hole| sum.saturating_add(hole.bytes))
        };
        let infos = || plan.frames.iter().map(|frame| frame.info);
        let done = FileRepair {
            outcome,
            header_from,
            frames: plan.frames.len() as u64,
            events: rows_of(infos(), FrameKind::Events),
            samples: rows_of(infos(), FrameKind::Channels),
            skipped_bytes: bytes(&damage),
            under_way_bytes: bytes(&under_way),
            frames_missing: plan.frames_missing,
            damaged: plan.damaged.iter().take(DAMAGED_MAX).map(ToString::to_string).collect(),
            bytes_before,
            bytes_after,
            path,
        };
        Ok((done, plan.ledger))
    }
}

/// Rows of the frames of one kind: events, or samples of all channels.
pub(crate) fn rows_of(infos: impl Iterator<Item = FrameInfo>, kind: FrameKind) -> u64 {
    let rows = infos.filter(|info| info.kind == kind).map(|info| info.rows);
    rows.fold(0, u64::saturating_add)
}

/// From a later version, or in the base, which is not damage.
fn is_unknown_codec(error: &FrameError) -> bool {
    let FrameError::Column { problem, .. } = error else { return false };
    matches!(problem, ColumnProblem::Codec(CodecError::Unknown(_) | CodecError::Base))
}

const DAMAGED_MAX: usize = 1_000;
