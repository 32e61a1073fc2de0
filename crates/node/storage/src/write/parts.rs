//! The parts of a run to be written.

use std::path::PathBuf;

use catchment_disk::FaultControl;
use catchment_frame::{
    BaseFiles, BlockChecksums, Codec, Codings, FileHeader, Numbering, Schema, Superseded,
};
use catchment_model::{Ledger, RunId};

use crate::error::StorageError;
use crate::trend_writer::{TrendOptions, TrendReport};
use crate::write::{Growing, no_random_bits};

/// A run to be written.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The folder of its files; made if it does not exist.
    pub folder: PathBuf,
    /// The prefix of its files' names: `NAME-00000.catch`.
    pub name: String,
    /// Its identity.
    pub run: RunId,
    /// Its number for people.
    pub run_number: u64,
    /// The configuration from which it came: TOML.
    pub config: String,
    /// Whether its data are emulated.
    pub emulated: bool,
    /// Sources and columns.
    pub schema: Schema,
    /// The scope of its frames' numbers.
    pub numbering: Numbering,
    /// The variant of the run.
    pub variant: u32,
    /// The stream of its frames; 0 for frames of several.
    pub stream: u32,
    /// Frames of the run that are superseded.
    pub superseded: Vec<Superseded>,
    /// The files with the payload of its fragments, if it is not written.
    pub base: Option<BaseFiles>,
}

impl NewRun {
    /// A run with a random identity.
    ///
    /// # Errors
    /// The system has no random bits.
    pub fn new(
        folder: impl Into<PathBuf>,
        name: impl Into<String>,
        schema: Schema,
    ) -> Result<Self, StorageError> {
        let mut run = RunId([0; 16]);
        getrandom::fill(&mut run.0).map_err(no_random_bits)?;
        let (folder, name) = (folder.into(), name.into());
        let (run_number, config, emulated) = (0, String::new(), false);
        Ok(Self {
            folder,
            name,
            run,
            run_number,
            config,
            emulated,
            schema,
            numbering: Numbering::Run,
            variant: 0,
            stream: 0,
            superseded: Vec::new(),
            base: None,
        })
    }

    /// The run of an existing file, written again: with its identity, schema and configuration.
    pub(crate) fn again(
        header: &FileHeader,
        folder: impl Into<PathBuf>,
        name: impl Into<String>,
    ) -> Self {
        Self {
            folder: folder.into(),
            name: name.into(),
            run: header.run,
            run_number: header.run_number,
            config: header.config.clone(),
            emulated: header.emulated,
            schema: Schema::clone(&header.schema),
            numbering: header.numbering,
            variant: header.variant,
            stream: 0,
            superseded: Vec::new(),
            base: None,
        }
    }
}

/// How to write a run.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Bytes of a file before the next is begun.
    pub file_bytes: u64,
    /// Time of data, in nanoseconds, in one file before the next is begun.
    pub file_time_ns: Option<u64>,
    /// Threads that encode, including the caller's. 0: as many as CPUs.
    pub threads: usize,
    /// Bytes of one buffer of the disk.
    pub buffer_bytes: usize,
    /// Buffers of the disk.
    pub buffers: usize,
    /// How columns are encoded.
    pub codings: Codings,
    /// Whether to write the channels' trends too, to `trends/second` and `trends/minute` in the
    /// run's folder. Columns copied in stored form are not in them.
    pub trends: Option<TrendOptions>,
    /// Number of the first frame.
    pub first_sequence: u64,
    /// Number of the first file.
    pub first_index: u32,
    /// Size in bytes of a file's table of contents at which the next file is begun: it is kept in
    /// memory until the file is closed.
    pub toc_bytes: u64,
    /// Whether the files are read while they grow; otherwise they get their names when they are
    /// closed.
    pub growing: Option<Growing>,
    /// Faults of the disk, for tests.
    pub faults: Option<FaultControl>,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            file_bytes: catchment_model::limits::FILE_BYTES_DEFAULT,
            file_time_ns: None,
            threads: 0,
            buffer_bytes: 4 << 20,
            buffers: 8,
            codings: Codings::default(),
            trends: None,
            first_sequence: 0,
            first_index: 0,
            toc_bytes: 64 << 20,
            growing: None,
            faults: None,
        }
    }
}

impl WriteOptions {
    /// For runs of small frames: less memory.
    pub fn small() -> Self {
        Self { buffer_bytes: 256 << 10, buffers: 4, threads: 1, ..Self::default() }
    }
}

/// A column's bytes, and their source.
pub enum ColumnData<'a> {
    /// Raw bytes.
    Raw(&'a [u8]),
    /// Raw bytes of its own.
    Own(Vec<u8>),
    /// Raw bytes made when their turn comes, on the thread that encodes them.
    Make(Make<'a>),
    /// Stored bytes of another file, to be written unchanged.
    Stored(StoredColumn<'a>),
}

/// Raw bytes yet to be made.
pub struct Make<'a> {
    /// Their number.
    pub raw_bytes: usize,
    /// Fills exactly those bytes; their previous contents are undefined.
    pub make: &'a MakeBytes<'a>,
}

/// Makes a column's bytes.
pub type MakeBytes<'a> = dyn Fn(&mut [u8]) -> Result<(), StorageError> + Sync + 'a;

/// An encoded column.
#[derive(Clone, Copy, Debug)]
pub struct StoredColumn<'a> {
    /// Its codec.
    pub codec: Codec,
    /// Bytes as decoded.
    pub raw_bytes: u64,
    /// The stored bytes.
    pub bytes: &'a [u8],
    /// Of a damaged column: the checksums that it was stored with.
    pub checksums: Option<&'a BlockChecksums>,
}

impl ColumnData<'_> {
    pub(crate) fn raw_bytes(&self) -> usize {
        match self {
            Self::Raw(raw) => raw.len(),
            Self::Own(raw) => raw.len(),
            Self::Make(make) => make.raw_bytes,
            Self::Stored(stored) => stored.raw_bytes as usize,
        }
    }
}

/// Built events, as in a frame.
pub type EventFrame<'a> = catchment_writer::EventFrame<'a, ColumnData<'a>>;
/// One source's fragments in a frame.
pub type EventSource<'a> = catchment_writer::EventSource<'a, ColumnData<'a>>;
/// Channels of one interval of time.
pub type ChannelFrame<'a> = catchment_writer::ChannelFrame<'a, ColumnData<'a>>;
/// One channel's samples in a frame.
pub type ChannelColumn<'a> = catchment_writer::ChannelColumn<'a, ColumnData<'a>>;

/// How a run ends.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// The ledger's total; `None`: the sum of the frames and their increments.
    pub ledger: Option<Ledger>,
    /// Whether this is the end of the run, not of a part.
    pub run_ended: bool,
    /// Whether data were lost that the ledger does not show.
    pub data_lost: bool,
}

/// The written run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteReport {
    /// The files, in order.
    pub files: Vec<PathBuf>,
    /// Frames in them.
    pub frames: u64,
    /// Bytes of the columns, raw.
    pub raw_bytes: u64,
    /// Bytes of the columns as stored.
    pub stored_bytes: u64,
    /// Bytes of the files.
    pub file_bytes: u64,
    /// The trends, if requested.
    pub trends: Option<Box<TrendReport>>,
    /// Damaged parts of the rewritten run that were left out, one line per place.
    pub left_out: Vec<String>,
}
