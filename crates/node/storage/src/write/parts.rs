//! What a run that is to be written consists of.

use std::path::PathBuf;

use catchment_disk::FaultControl;
use catchment_frame::{Codec, Codings, Numbering, Schema, Span};
use catchment_model::{Ledger, RunId, SourceId};

use crate::error::StorageError;
use crate::trend_writer::{TrendOptions, TrendReport};
use crate::write::{Growing, no_random_bits};

/// A run that is to be written.
#[derive(Clone, Debug)]
pub struct NewRun {
    /// The folder of its files; made if it is not there.
    pub folder: PathBuf,
    /// What its files' names begin with: `NAME-00000.catch`.
    pub name: String,
    /// Its identity.
    pub run: RunId,
    /// What people call it.
    pub run_number: u64,
    /// The configuration that it came from: TOML.
    pub config: String,
    /// Whether its data are emulated.
    pub emulated: bool,
    /// Sources and columns.
    pub schema: Schema,
    /// What the numbers of its frames count.
    pub numbering: Numbering,
}

impl NewRun {
    /// A run with an identity drawn at random.
    ///
    /// # Errors
    /// A system that has no random bits.
    pub fn new(
        folder: impl Into<PathBuf>,
        name: impl Into<String>,
        schema: Schema,
    ) -> Result<Self, StorageError> {
        let mut run = RunId([0; 16]);
        getrandom::fill(&mut run.0).map_err(no_random_bits)?;
        let (folder, name) = (folder.into(), name.into());
        let (run_number, config, emulated) = (0, String::new(), false);
        let numbering = Numbering::Run;
        Ok(Self { folder, name, run, run_number, config, emulated, schema, numbering })
    }
}

/// How a run is written.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Bytes of a file before the next is begun.
    pub file_bytes: u64,
    /// Time of data, in nanoseconds, in one file before the next is begun.
    pub file_time_ns: Option<u64>,
    /// Threads that encode, the caller's included. 0: as many as there are CPUs.
    pub threads: usize,
    /// Bytes of one buffer of the disk.
    pub buffer_bytes: usize,
    /// Buffers of the disk.
    pub buffers: usize,
    /// How columns are encoded.
    pub codings: Codings,
    /// Write the channels' trends too, to `trends/second` and `trends/minute` in the run's folder.
    /// Columns that are copied in their stored form are not in them.
    pub trends: Option<TrendOptions>,
    /// Number of the first frame.
    pub first_sequence: u64,
    /// Number of the first file.
    pub first_index: u32,
    /// Bytes of a file's table of contents before the next file is begun: it is kept in memory
    /// until the file is closed.
    pub toc_bytes: u64,
    /// Let the files be read while they grow; otherwise they get their names when they are closed.
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

/// A column's bytes, and who has them.
pub enum ColumnData<'a> {
    /// Raw bytes.
    Raw(&'a [u8]),
    /// Raw bytes that are made when their turn comes, on the thread that encodes them.
    Make(Make<'a>),
    /// Stored bytes of another file, to be written as they are.
    Stored(StoredColumn<'a>),
}

/// Raw bytes yet to be made.
pub struct Make<'a> {
    /// How many.
    pub raw_bytes: usize,
    /// Fills exactly those; what was there before is undefined.
    pub make: &'a MakeBytes<'a>,
}

/// What makes a column's bytes.
pub type MakeBytes<'a> = dyn Fn(&mut [u8]) -> Result<(), StorageError> + Sync + 'a;

/// A column that is encoded already.
#[derive(Clone, Copy, Debug)]
pub struct StoredColumn<'a> {
    /// How.
    pub codec: Codec,
    /// Bytes as decoded.
    pub raw_bytes: u64,
    /// The stored bytes.
    pub bytes: &'a [u8],
}

impl ColumnData<'_> {
    pub(crate) fn raw_bytes(&self) -> usize {
        match self {
            Self::Raw(raw) => raw.len(),
            Self::Make(make) => make.raw_bytes,
            Self::Stored(stored) => stored.raw_bytes as usize,
        }
    }
}

/// Built events, as a frame holds them.
pub struct EventFrame<'a> {
    /// Keys of the events.
    pub keys: &'a [u64],
    /// Their times: nanoseconds UTC.
    pub times_ns: &'a [u64],
    /// Their flags.
    pub flags: &'a [u32],
    /// Those sources that have a fragment here.
    pub sources: Vec<EventSource<'a>>,
    /// What the ledger counted beside what the frame itself says.
    pub increments: Option<&'a Ledger>,
}

/// One source's fragments in a frame.
pub struct EventSource<'a> {
    /// The source.
    pub source: SourceId,
    /// Bytes of each row's fragment.
    pub lengths: &'a [u32],
    /// Which rows have one, a bit each; `None`: all.
    pub validity: Option<&'a [u8]>,
    /// The fragments, one behind the other.
    pub payload: ColumnData<'a>,
}

/// Channels of one stretch of time.
pub struct ChannelFrame<'a> {
    /// Where the stretch begins: nanoseconds in the channels' time scale.
    pub start_ns: u64,
    /// Where it ends: the first nanosecond behind it.
    pub end_ns: u64,
    /// Those channels that have samples in it.
    pub columns: Vec<ChannelColumn<'a>>,
    /// Numbers of the first and last slice, where a link delivered it; otherwise 0.
    pub keys: (u64, u64),
    /// What the ledger counted, all of it: a frame of channels does not say it itself.
    pub increments: Option<&'a Ledger>,
}

/// One channel's samples in a frame.
pub struct ChannelColumn<'a> {
    /// The channel's column.
    pub id: u32,
    /// The number of the first sample.
    pub first_sample: u64,
    /// Where samples go on behind a gap; empty where there is none.
    pub spans: &'a [Span],
    /// The samples, those of all pieces one behind the other.
    pub samples: ColumnData<'a>,
}

/// How a run ends.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    /// The ledger's total; `None`: what the frames and their increments add up to.
    pub ledger: Option<Ledger>,
    /// Whether this is the run's end, and not that of a part.
    pub run_ended: bool,
    /// Whether data were lost that the ledger does not show.
    pub data_lost: bool,
}

/// What was written.
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
    /// The trends, where they were asked for.
    pub trends: Option<Box<TrendReport>>,
    /// What of the run that is written anew is damaged and therefore left out, a line for each
    /// place.
    pub left_out: Vec<String>,
}
