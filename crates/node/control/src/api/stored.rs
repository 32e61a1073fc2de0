//! The files that a node has, their frames and columns.

use serde::Serialize;
use utoipa::ToSchema;

/// The runs of which a node has files, by their folders' names.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StoredList {
    /// The runs, by name, or the newest first.
    pub runs: Vec<StoredRun>,
    /// How many there are, without a limit.
    pub total: u64,
}

/// The folders of one name.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StoredRun {
    /// The folders' name.
    pub name: String,
    /// The number of its files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The streams of which it has files, by their names.
    pub streams: Vec<u32>,
    /// How many of its files are being written.
    pub being_written: u64,
}

/// The files of a run.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StoredFiles {
    /// The folders' name.
    pub name: String,
    /// The files, by folder and name.
    pub files: Vec<StoredFile>,
}

/// A file of a run.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StoredFile {
    /// Its name.
    pub name: String,
    /// Which of the node's folders it is in, from 0; its path asks for it if several have that
    /// name.
    pub folder: u64,
    /// Its stream, by its name.
    pub stream: u32,
    /// Its bytes; of a file that is being written, with room for what comes.
    pub bytes: u64,
    /// Whether it is being written.
    pub being_written: bool,
}

/// Frames of a file.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StoredFrames {
    /// The run's identity.
    pub run: String,
    /// The file's index in the run.
    pub file_index: u32,
    /// Whether it has its table of contents.
    pub closed: bool,
    /// The number of its frames.
    pub total: u64,
    /// The frames asked for, in the file's order.
    pub frames: Vec<StoredFrame>,
}

/// A frame of a file.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StoredFrame {
    /// Its index in the file, from 0.
    pub index: u64,
    /// What it holds: events, channels, skipped.
    pub kind: String,
    /// Its stream, and its number there.
    pub stream: u32,
    /// Its number.
    pub sequence: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Events, or samples of all channels.
    pub rows: u64,
    /// The lowest and the highest key of its events.
    pub keys: [u64; 2],
    /// Its first and last time, in nanoseconds; of channels in their time scale.
    pub times_ns: [u64; 2],
    /// The number of its columns.
    pub columns: u32,
}

/// The columns of a frame.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StoredColumns {
    /// The frame.
    pub frame: StoredFrame,
    /// Its columns.
    pub columns: Vec<StoredColumn>,
}

/// A column of a frame.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StoredColumn {
    /// Its id in the file's schema.
    pub id: u32,
    /// What it holds, by the specification's name.
    pub kind: String,
    /// Its source.
    pub source: Option<String>,
    /// Its channel.
    pub channel: Option<String>,
    /// The type of its elements.
    pub dtype: String,
    /// Its rows.
    pub rows: u64,
    /// How it is stored.
    pub codec: String,
    /// Where its stored bytes begin in the file.
    pub offset: u64,
    /// Bytes as stored.
    pub stored_bytes: u64,
    /// Bytes as decoded.
    pub raw_bytes: u64,
    /// CRC-32C of the stored bytes.
    pub crc32c: u32,
    /// Of a channel: the number of its first sample.
    pub first_sample: Option<u64>,
}
