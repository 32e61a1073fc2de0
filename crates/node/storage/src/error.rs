//! Errors of recorded runs, each with its file.

use std::io;
use std::path::{Path, PathBuf};

use catchment_disk::DiskError;
use catchment_frame::FrameError;
use catchment_model::RunId;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The system refused to open, list, write or sync.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A file that is damaged, truncated, or not a frame file.
    #[error("{}: {source}", path.display())]
    Frame {
        /// The file.
        path: PathBuf,
        /// The error.
        source: FrameError,
    },
    /// The system could not read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system could not write.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Data that cannot be written, because they contradict the schema or each other.
    #[error("{what} cannot be written: {problem}")]
    Unwritable {
        /// The data.
        what: String,
        /// The reason.
        problem: String,
    },
    /// Events that cannot be built again from their fragments.
    #[error("events of source {name} cannot be built again: {problem}")]
    NotRebuilt {
        /// The source.
        name: String,
        /// The reason.
        problem: &'static str,
    },
    /// The caller stopped the operation before its end.
    #[error("stopped before its end")]
    Stopped,
    /// A merge whose result is not that of its sources.
    #[error(
        "{}: the ledger of what was merged does not balance ({what}), that of its sources does",
        path.display()
    )]
    MergedUnbalanced {
        /// The folder that was written.
        path: PathBuf,
        /// The first difference.
        what: String,
    },
    /// A file that was made ahead and never begun.
    #[error("{}: nothing was ever recorded in this file", path.display())]
    Blank {
        /// The file.
        path: PathBuf,
    },
    /// A folder with no readable `.catch` file.
    #[error("{}: no .catch file with a header in this folder{elsewhere}", path.display())]
    NoFiles {
        /// The folder.
        path: PathBuf,
        /// Where its list says that the run's frames are, as the end of a sentence; or nothing.
        elsewhere: String,
    },
    /// A folder with files of two runs.
    #[error("{} is of run {got}, but {} is of run {expected}", path.display(), first.display())]
    ForeignFile {
        /// The file that does not belong.
        path: PathBuf,
        /// Its run.
        got: RunId,
        /// The file of the run with which it was compared.
        first: PathBuf,
        /// That file's run.
        expected: RunId,
    },
    /// Two files of a run that do not describe the same sources and columns.
    #[error("{} and {} are of one run but have different schemas", path.display(), first.display())]
    SchemaDiffers {
        /// One file.
        path: PathBuf,
        /// The other.
        first: PathBuf,
    },
    /// Two files that have different selections of a run's sources and channels.
    #[error(
        "{} is variant {} of its run and {} variant {}: each has sources or channels that the \
         other may lack; open them one by one, or with a folder that has all",
        first.display(), variants[0], path.display(), variants[1]
    )]
    VariantDiffers {
        /// One file.
        path: PathBuf,
        /// The other, which is the first.
        first: PathBuf,
        /// The variants of the first and of the other.
        variants: [u32; 2],
    },
    /// Two files with the same index in the run.
    #[error(
        "{} and {} are both file {index} of their run{differ}; move one of them elsewhere",
        path.display(),
        first.display()
    )]
    IndexTwice {
        /// The index.
        index: u32,
        /// One file.
        path: PathBuf,
        /// The other.
        first: PathBuf,
        /// The difference.
        differ: &'static str,
    },
    /// Two folders with different frames of one number.
    #[error(
        "{}: frame {sequence} has other rows than in {}: one of them is a copy in other frames",
        path.display(), first.display()
    )]
    OtherFrame {
        /// The frame's number.
        sequence: u64,
        /// The file with the second.
        path: PathBuf,
        /// The file with the first.
        first: PathBuf,
    },
    /// An operation that is of one folder, for a run that was opened from several.
    #[error("{operation} is of one folder of a run: {folders} folders were given")]
    OneFolder {
        /// The operation.
        operation: &'static str,
        /// The number of folders.
        folders: usize,
    },
    /// A superseded frame: the run was resumed from a point before it.
    #[error(
        "{}: frame {sequence} of stream {stream} is superseded, since the run was resumed before it; \
         this program does not read runs with such frames",
        path.display()
    )]
    Superseded {
        /// The file.
        path: PathBuf,
        /// The frame's stream.
        stream: u32,
        /// Its number.
        sequence: u64,
    },
    /// A place elsewhere that has less of an interrupted run than it had.
    #[error(
        "{place} has the run's frames below {end}; all below {synced} were durable there, or were \
         given up"
    )]
    Behind {
        /// The place.
        place: String,
        /// The number of the first frame that it does not have.
        end: u64,
        /// The one below which all were settled.
        synced: u64,
    },
    /// A file that is in none of the folders that are there, while others begin behind its frames.
    #[error("file {index} of the run is missing, so that its files are left as they are")]
    MissingFile {
        /// Its index.
        index: u32,
    },
    /// A run whose files a recorder still holds.
    #[error("{} is still being written", path.display())]
    BeingRecorded {
        /// The file.
        path: PathBuf,
    },
    /// A column that cannot be read, or columns that contradict each other; the rest of the run can
    /// be read.
    #[error("{}: frame {frame}, {kind}{}: {problem}", path.display(), of(channel, source_name))]
    Column {
        /// The file.
        path: PathBuf,
        /// The frame's index in that file, from 0.
        frame: usize,
        /// The meaning of the column.
        kind: String,
        /// Its source, if it has one.
        source_name: Option<String>,
        /// Its channel, if it is one.
        channel: Option<Box<str>>,
        /// The error.
        problem: String,
    },
    /// A run with payload in its base, which cannot be opened.
    #[error(
        "{}: the payload is in its base, {} (run {run}), which cannot be opened: {source}",
        path.display(), base.display()
    )]
    NoBase {
        /// A file without the payload.
        path: PathBuf,
        /// Where its base should be.
        base: PathBuf,
        /// The run.
        run: RunId,
        /// The error.
        source: Box<StorageError>,
    },
    /// Files in the place of a run's base that are not its base.
    #[error("{} is not the base of {}: it is {problem}", base.display(), path.display())]
    OtherBase {
        /// A file without the payload.
        path: PathBuf,
        /// What is in the place of its base.
        base: PathBuf,
        /// The difference.
        problem: String,
    },
    /// An event that is in no frame of the run.
    #[error("there is no event {key} in this run")]
    NoEvent {
        /// The requested key.
        key: u64,
    },
    /// A source that the run does not have.
    #[error("there is no source {id}: the run has {count}")]
    NoSource {
        /// The requested number.
        id: u32,
        /// The number of sources.
        count: usize,
    },
    /// A source or channel whose data are not in these files, but in another target's.
    #[error(
        "{what} {name} is not stored here: the target of this folder does not get its data (these \
         files are variant {variant} of the run)"
    )]
    NotStored {
        /// Source or channel.
        what: &'static str,
        /// Its name.
        name: String,
        /// What the files have of the run.
        variant: u32,
    },
    /// A channel that the run does not have.
    #[error("there is no channel {name} in this run")]
    NoChannel {
        /// The requested channel.
        name: String,
    },
    /// A trend whose columns contradict each other.
    #[error("{}: {what} does not have a number for each row of its trend", path.display())]
    Trend {
        /// The trend's folder.
        path: PathBuf,
        /// The column.
        what: String,
    },
    /// A frame that the run does not have.
    #[error("there is no frame {index}: the run has {count}")]
    NoFrame {
        /// The requested number.
        index: usize,
        /// The number of frames.
        count: usize,
    },
}

impl StorageError {
    /// A folder with no readable file, of which no list says where the run's frames are.
    pub fn no_files(path: impl Into<PathBuf>) -> Self {
        Self::NoFiles { path: path.into(), elsewhere: String::new() }
    }

    /// The system's error and the file that it concerns, for errors of the operating system.
    pub fn system(&self) -> Option<(&Path, &io::Error)> {
        match self {
            Self::Disk(
                DiskError::Path { path, source, .. } | DiskError::Create { path, source },
            )
            | Self::Read { path, source }
            | Self::Write { path, source }
            | Self::Frame { path, source: FrameError::Read { source, .. } }
            | Self::Frame { path, source: FrameError::Length(source) } => Some((path, source)),
            _ => None,
        }
    }

    /// Whether the cause is the contents of a file, not the request or the system.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Frame { source, .. } => {
                !matches!(source, FrameError::Read { .. } | FrameError::Length(_))
            }
            Self::Column { .. }
            | Self::Trend { .. }
            | Self::ForeignFile { .. }
            | Self::SchemaDiffers { .. }
            | Self::VariantDiffers { .. }
            | Self::Superseded { .. }
            | Self::IndexTwice { .. } => true,
            Self::Disk(_)
            | Self::Read { .. }
            | Self::Write { .. }
            | Self::Unwritable { .. }
            | Self::NotRebuilt { .. }
            | Self::Stopped
            | Self::MergedUnbalanced { .. }
            | Self::Blank { .. }
            | Self::NoFiles { .. }
            | Self::Behind { .. }
            | Self::OneFolder { .. }
            | Self::BeingRecorded { .. }
            | Self::OtherFrame { .. }
            | Self::NoBase { .. }
            | Self::OtherBase { .. }
            | Self::NoEvent { .. }
            | Self::NoSource { .. }
            | Self::NotStored { .. }
            | Self::NoChannel { .. }
            | Self::NoFrame { .. }
            | Self::MissingFile { .. } => false,
        }
    }
}

fn of(channel: &Option<Box<str>>, source: &Option<String>) -> String {
    match (channel, source) {
        // Its kind is "channel".
        (Some(name), _) => format!(" {name}"),
        (None, Some(name)) => format!(" of source {name}"),
        (None, None) => String::new(),
    }
}
