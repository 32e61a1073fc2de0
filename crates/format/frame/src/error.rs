//! Errors in a frame file: the part, the field, what was expected and found.

use std::fmt;

use catchment_codec::CodecError;

/// The frame of a file that an error concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameRef {
    /// The frame with that index in [`crate::FileReader::frames`].
    Index(usize),
    /// The table of contents.
    Toc,
    /// The checkpoint at that offset.
    Checkpoint(u64),
}

impl fmt::Display for FrameRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => write!(f, "frame {index}"),
            Self::Toc => f.write_str("the TOC"),
            Self::Checkpoint(offset) => write!(f, "the checkpoint at offset {offset}"),
        }
    }
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The file header.
    FileHeader,
    /// The header of the frame at that offset.
    FrameHeader(u64),
    /// One column of a frame.
    Column(FrameRef, u32),
    /// The list of that column's entries in the TOC.
    TocList(u32),
    /// The block of the TOC's column index that contains that column.
    TocIndex(u32),
    /// The trailer.
    Trailer,
    /// The range being searched for frames.
    Hole,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileHeader => f.write_str("file header"),
            Self::FrameHeader(offset) => write!(f, "header of the frame at offset {offset}"),
            Self::Column(frame, column) => write!(f, "{frame}, column {column}"),
            Self::TocList(column) => write!(f, "TOC's list of column {column}"),
            Self::TocIndex(column) => write!(f, "TOC's index at column {column}"),
            Self::Trailer => f.write_str("trailer"),
            Self::Hole => f.write_str("space without frames"),
        }
    }
}

/// An error in one column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnProblem {
    /// Stored bytes that are damaged.
    #[error("checksum is {got:#010x}, its entry says {expected:#010x}")]
    Checksum {
        /// The checksum in the directory.
        expected: u32,
        /// The checksum of the bytes.
        got: u32,
    },
    /// A damaged block of the stored bytes.
    #[error("bytes {start} to {end}: checksum is {got:#010x}, the table says {expected:#010x}")]
    Block {
        /// Where the block begins.
        start: u64,
        /// Where it ends.
        end: u64,
        /// The checksum in the table.
        expected: u32,
        /// The checksum of the bytes.
        got: u32,
    },
    /// A table of checksums by block that is damaged, or beyond its frame.
    #[error("its table of checksums by block is damaged; its bytes are checked as a whole")]
    Table,
    /// A codec that this version cannot decode, or bytes with a right checksum that do not decode.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// An impossible field in the directory entry.
    #[error("{field} is {got}, expected {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// The possible values.
        expected: &'static str,
        /// The actual value.
        got: u64,
    },
    /// Columns of one source that contradict each other, or a missing column that is required.
    #[error("{reason}")]
    Content {
        /// The contradiction.
        reason: &'static str,
    },
}

/// An error in a file, or in reading it.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The system could not read.
    #[error("cannot read {bytes} bytes of the {part} at offset {offset}: {source}")]
    Read {
        /// The part to be read.
        part: Part,
        /// Its offset.
        offset: u64,
        /// Its length.
        bytes: u64,
        /// The system's error.
        source: std::io::Error,
    },
    /// The system could not return the file's length.
    #[error("cannot get the file's length: {0}")]
    Length(std::io::Error),
    /// The file ends within a part.
    #[error("the file ends within the {part}: expected {expected} bytes at {offset}, got {got}")]
    Truncated {
        /// The part to be read.
        part: Part,
        /// Its offset.
        offset: u64,
        /// Its length.
        expected: u64,
        /// The available length.
        got: u64,
    },
    /// A part does not begin with its magic bytes.
    #[error("no {part} here: it begins with {got:02x?}")]
    Magic {
        /// The expected bytes.
        part: Part,
        /// The actual bytes.
        got: [u8; 8],
    },
    /// A major version that this crate does not know.
    #[error("the file has version {major}.{minor}; this program reads version 1")]
    Version {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// Another variant of the run than the one that is read: its sources or data differ.
    #[error("{part}: variant is {got}, and variant {expected} of the run is read")]
    Variant {
        /// The part that states the variant.
        part: Part,
        /// The variant that is read.
        expected: u32,
        /// The variant found.
        got: u32,
    },
    /// An impossible field.
    #[error("{part}: {field} is {got}, expected {expected}")]
    Field {
        /// The part.
        part: Part,
        /// The field.
        field: &'static str,
        /// The possible values.
        expected: &'static str,
        /// The actual value.
        got: u64,
    },
    /// A damaged part.
    #[error("{part}: checksum is {got:#010x}, expected {expected:#010x}")]
    Checksum {
        /// The part.
        part: Part,
        /// The stored checksum.
        expected: u32,
        /// The checksum of the bytes.
        got: u32,
    },
    /// Metadata that are not JSON of the required form.
    #[error("file header: metadata: {0}")]
    Metadata(#[source] serde_json::Error),
    /// A schema that contradicts itself.
    #[error("file header: schema: {0}")]
    Schema(#[from] SchemaError),
    /// A column that cannot be read; other columns can.
    #[error("{frame}, column {column}: {problem}")]
    Column {
        /// The frame.
        frame: FrameRef,
        /// The column's id.
        column: u32,
        /// The error.
        problem: ColumnProblem,
    },
    /// The file header cannot be read, but frames follow it.
    #[error(
        "{problem}; but {frames} whole frames stand behind it: keep the file. `catchment repair` makes \
         the header again where another file of the run is whole"
    )]
    HeaderLost {
        /// The error in the header.
        problem: Box<FrameError>,
        /// The number of frames.
        frames: u64,
    },
    /// A requested frame is not in the file.
    #[error("there is no frame {index}: the file has {frames}")]
    NoFrame {
        /// The requested index.
        index: usize,
        /// The number of frames.
        frames: usize,
    },
}

/// A schema that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Too many sources or columns.
    #[error("{count} {what}, at most {max}")]
    TooMany {
        /// Sources or columns.
        what: &'static str,
        /// The number.
        count: usize,
        /// The maximum.
        max: usize,
    },
    /// A source's id is not its index.
    #[error("the source at index {index} has id {got}")]
    SourceId {
        /// Its index.
        index: usize,
        /// Its id.
        got: u32,
    },
    /// Two columns have the same id.
    #[error("column id {id} occurs twice")]
    ColumnTwice {
        /// The id.
        id: u32,
    },
    /// A column whose kind has another element type.
    #[error("column {id} is {kind:?}, which is {expected}, not {got}")]
    ColumnDtype {
        /// The column.
        id: u32,
        /// Its kind.
        kind: &'static str,
        /// The type required by the kind.
        expected: &'static str,
        /// The type in the schema.
        got: &'static str,
    },
    /// A column names a source that does not exist.
    #[error("column {id} belongs to source {got}, but there are {sources} sources")]
    ColumnSource {
        /// The column.
        id: u32,
        /// The source that it names.
        got: u32,
        /// The number of sources.
        sources: usize,
    },
    /// A column of a source whose data are not in the file.
    #[error("column {id} belongs to source {source_id}, which is not stored")]
    ColumnNotStored {
        /// The column.
        id: u32,
        /// The source that it names.
        source_id: u32,
    },
    /// A source whose data are not in the file, and without which events would be incomplete.
    #[error("source {id} is required and not stored")]
    RequiredNotStored {
        /// The source.
        id: u32,
    },
    /// A source that may be in an event or not, and without which events would be incomplete.
    #[error("source {id} is required and sparse")]
    RequiredSparse {
        /// The source.
        id: u32,
    },
    /// An impossible key of a column.
    #[error("column {id}: {key} must be {expected}")]
    ColumnKey {
        /// The column.
        id: u32,
        /// The key.
        key: &'static str,
        /// The possible values.
        expected: &'static str,
    },
    /// Two channels have the same name.
    #[error("there are two channels {name:?}")]
    ChannelTwice {
        /// The name.
        name: String,
    },
}

impl FrameError {
    pub(crate) fn column(frame: FrameRef, column: u32, problem: ColumnProblem) -> Self {
        Self::Column { frame, column, problem }
    }

    /// Whether the error is a bad table of checksums by block. That loses no data: the column's own
    /// checksum covers all of it.
    pub fn is_bad_table(&self) -> bool {
        matches!(self, Self::Column { problem: ColumnProblem::Table, .. })
    }
}
