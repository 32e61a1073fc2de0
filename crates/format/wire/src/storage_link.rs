//! The storage link: encoded frames of a stream, as service 3 of the [session
//! layer](crate::session). Here are the bytes of its data connections, and of its part of the table
//! of logs. The specification is docs/spec/storage-link.md.
//!
//! A log is a stream of frames; an item is a frame under its number in the run, or the stream's
//! end. A frame is a [`Frame`], its columns one after the other in one or more [`Column`] messages
//! each, and an [`End`]. What one message alone does not show is for the state of the session:
//! order, sums, checksums, and numbers that the file format gives a meaning.

use crate::fields::{bound, fields};
use crate::message::{Type, bound_sequences};
use crate::session::{Attach, Bounds, Encoder, Fault, Fixed as _, MESSAGE_BYTES_MAX, Message};

pub use crate::stored_files::{
    Files, LEFT_BYTES_MAX, LEFT_PARTS_MAX, Left, LeftPart, STORED_FILES_MAX, StoredFiles,
};

/// The version of the storage link that this module has.
pub const VERSION: u8 = 1;
/// Bytes of the longest header of files that is described, 32 MiB: beginning a file adds to it.
pub const HEADER_BYTES_MAX: u64 = 32 << 20;
/// Bytes of the longest column, raw or stored: that of the file format.
pub const COLUMN_BYTES_MAX: u64 = 0x7e00_0000;
/// Bytes of the longest frame, 64 GiB.
pub const FRAME_BYTES_MAX: u64 = 64 << 30;
/// The most columns of a frame.
pub const COLUMNS_MAX: u32 = 1 << 20;
/// Bytes of a record of [`End`]'s body: those of the file format's ledger columns.
pub const LEDGER_RECORD_BYTES: usize = 16;

const TYPES: &[Type] = &[
    Type::of::<Column>().body(0),
    Type::of::<Frame>(),
    Type::of::<End>().body(0),
    Type::of::<Alive>(),
    Type::of::<Open>().body(1),
    Type::of::<Close>(),
    Type::of::<Attach>(),
];

/// The bounds of a data connection of frames.
pub const BOUNDS: Bounds = Bounds::data(TYPES, *MESSAGE_BYTES_MAX.end());

fields! {
    /// A stream in the table of logs: [`Log::service`](crate::session::Log::service). Section 1.
    StreamLog: 40 {
        /// Number of the recorder's stream within the run.
        0 stream: u32,
        /// The data set of the run that it has.
        4 variant: u32,
        /// The writer generation that was granted to this session before; 0: none.
        8 generation: u64,
        /// The sum of [`StreamLog::DEALT`], [`StreamLog::ASKS`], [`StreamLog::CUTS`] and
        /// [`StreamLog::SUMS`], as far as they hold.
        16 flags: u32 = 0..=15,
    }
}

impl StreamLog {
    /// The node is one of several that share the run's frames: the sequence of an item is its
    /// count in this log, and frames have gaps in their numbers, which may fall.
    pub const DEALT: u32 = 1;
    /// The sender that the stream had is dead, and this one asks what the node has of it: the node
    /// closes its files and says it ([`Left`]).
    pub const ASKS: u32 = 2;
    /// The sender asks, and the run goes on at its `made`: the node first cuts its files there.
    pub const CUTS: u32 = 4;
    /// The sender asks, and the stream is dealt: of the frames with numbers from its `first` on,
    /// below its `made`, what they count.
    pub const SUMS: u32 = 8;
}

fields! {
    /// What is granted to a stream: [`Grant::service`](crate::session::Grant::service). Section 1.
    StreamGrant: 32 {
        /// The writer generation, with which each frame is sent.
        0 generation: u64,
    }
}

fields! {
    /// A part of the header of the stream's files: the body. Section 2.
    Open: type 64, 24 check is_part_of_header {
        /// The stream's log.
        8 log: u32,
        /// Bytes of the whole header.
        12 header_bytes: u32 = 1..=HEADER_BYTES_MAX,
        /// Where in it the body belongs.
        16 offset: u32,
    }
}

fn is_part_of_header(open: &Open) -> Result<(), Fault> {
    bound("offset", open.offset.into(), 0..=u64::from(open.header_bytes) - 1)
}

fields! {
    /// A frame begins: its header. Section 3.
    Frame: type 65, 112 check has_numbers {
        /// The stream's log.
        8 log: u32,
        /// Its kind: a number of docs/spec/frame-file.md.
        12 kind: u16,
        /// Its flags there.
        14 flags: u16,
        /// Its number in the run, which is the item's, unless the stream is dealt.
        16 sequence: u64,
        /// The writer generation.
        24 generation: u64,
        /// Events, samples, or the frames that a skipped one stands for.
        32 rows: u64,
        /// Smallest time.
        40 time_first_ns: u64,
        /// Largest time.
        48 time_last_ns: u64,
        /// Smallest key.
        56 key_first: u64,
        /// Largest key.
        64 key_last: u64,
        /// Number of the first slice that it covers.
        72 first_slice: u64,
        /// Consecutive slices that it covers.
        80 slice_count: u32,
        /// The epoch of its builder.
        84 epoch: u32,
        /// No more columns than this follow.
        88 columns_max: u32 = 0..=COLUMNS_MAX as u64,
        /// Of a stream that is dealt: the low 32 bits of the item's sequence; else 0.
        92 item: u32,
        /// Numbers that it takes in the log, 1 but for a skipped frame.
        96 numbers: u64 = 1..=1 << 62,
        /// Their stored bytes are no more than this.
        104 bytes_max: u64 = 0..=FRAME_BYTES_MAX,
    }
}

fn has_numbers(frame: &Frame) -> Result<(), Fault> {
    bound_sequences(frame.sequence, frame.numbers)
}

fields! {
    /// Stored bytes of a column of the frame: the body. Section 3.
    Column: type 66, 80 check is_part_of_column {
        /// The stream's log.
        8 log: u32,
        /// Its id in the schema.
        12 id: u32,
        /// The frame's number.
        16 sequence: u64,
        /// Where in its stored bytes the body belongs.
        24 offset: u64,
        /// All stored bytes.
        32 stored_bytes: u64 = 0..=COLUMN_BYTES_MAX,
        /// All bytes as decoded.
        40 raw_bytes: u64 = 0..=COLUMN_BYTES_MAX,
        /// Its rows.
        48 rows: u64,
        /// Of a channel: number of the first sample.
        56 first_sample: u64,
        /// Of a channel: time of the first sample.
        64 start_ns: u64,
        /// CRC-32C of all stored bytes, in the message that has the last of them.
        72 crc32c: u32,
        /// Its codec, as in a file's directory.
        76 codec: u16,
        /// The type of its elements, as there.
        78 dtype: u16,
    }
}

fn is_part_of_column(column: &Column) -> Result<(), Fault> {
    bound("offset", column.offset, 0..=column.stored_bytes)
}

fields! {
    /// A frame has all its columns. The body has what it adds to the ledger, in records of 16
    /// bytes as in a file. Section 3.
    End: type 67, 24 {
        /// The stream's log.
        8 log: u32,
        /// The columns that came.
        12 columns: u32,
        /// The frame's number.
        16 sequence: u64,
    }
}

fields! {
    /// The stream ends: the last item. Section 4.
    Close: type 68, 24 check is_an_item {
        /// The stream's log.
        8 log: u32,
        /// The item's number.
        16 sequence: u64,
    }
}

fn is_an_item(close: &Close) -> Result<(), Fault> {
    bound_sequences(close.sequence, 1)
}

fields! {
    /// A sign of life of a sender that has nothing to send. Section 6.
    Alive: type 69, 8 {}
}

/// A message of a data connection, whose framing is completely checked. Its body may be missing
/// in part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Data<'a> {
    /// The first message.
    Attach(Attach),
    /// With that part of the header.
    Open(Open, &'a [u8]),
    /// A frame begins.
    Frame(Frame),
    /// With bytes of a column.
    Column(Column, &'a [u8]),
    /// With the ledger's records.
    End(End, &'a [u8]),
    /// The stream ends.
    Close(Close),
    /// A sign of life.
    Alive,
}

impl<'a> Data<'a> {
    /// Reads a message that was parsed within [`BOUNDS`]. Returns `None` for one to be skipped: a
    /// type with bit 15 that this version does not know.
    ///
    /// # Errors
    /// A field that its table does not allow, or a body that is not within what it is a part of.
    pub fn read(message: &Message<'a>) -> Result<Option<Self>, Fault> {
        let (body, body_bytes) = (message.body, message.body_bytes as u64);
        let within = |field, max| bound(field, body_bytes, 0..=max);
        Ok(Some(match message.kind {
            Column::TYPE => {
                let column: Column = message.fixed()?;
                within("a part of a column", column.stored_bytes - column.offset)?;
                // So that messages of no use cannot come without end.
                bound("body_bytes", body_bytes, u64::from(column.stored_bytes > 0)..=u64::MAX)?;
                Self::Column(column, body)
            }
            Frame::TYPE => Self::Frame(message.fixed()?),
            End::TYPE => {
                let record_bytes = LEDGER_RECORD_BYTES as u64;
                bound("body_bytes modulo 16", body_bytes % record_bytes, 0..=0)?;
                Self::End(message.fixed()?, body)
            }
            Open::TYPE => {
                let open: Open = message.fixed()?;
                within("a part of the header", u64::from(open.header_bytes - open.offset))?;
                Self::Open(open, body)
            }
            Close::TYPE => Self::Close(message.fixed()?),
            Alive::TYPE => Self::Alive,
            Attach::TYPE => Self::Attach(message.fixed()?),
            _ => return Ok(None),
        }))
    }

    /// Writes it with its body to the beginning of `out`, and returns its bytes.
    ///
    /// # Panics
    /// As [`Encoder`]; the bytes that it was read from are room enough.
    pub fn encode(&self, number: u32, out: &mut [u8]) -> usize {
        match self {
            Self::Attach(attach) => Encoder::begin(out, number, attach).finish("", &[]),
            Self::Open(open, body) => Encoder::begin(out, number, open).finish("", body),
            Self::Frame(frame) => Encoder::begin(out, number, frame).finish("", &[]),
            Self::Column(column, body) => Encoder::begin(out, number, column).finish("", body),
            Self::End(end, body) => Encoder::begin(out, number, end).finish("", body),
            Self::Close(close) => Encoder::begin(out, number, close).finish("", &[]),
            Self::Alive => Encoder::begin(out, number, &Alive {}).finish("", &[]),
        }
    }

    /// Writes header and head alone, and returns their bytes: a body of `body_bytes` and its
    /// padding follow from elsewhere.
    ///
    /// # Panics
    /// As [`Encoder`]. [`HEAD_BYTES_MAX`] are room enough.
    pub fn encode_head(&self, number: u32, body_bytes: usize, out: &mut [u8]) -> usize {
        let bytes = body_bytes as u32;
        match self {
            Self::Open(open, _) => Encoder::begin(out, number, open).finish_head("", bytes),
            Self::Column(column, _) => Encoder::begin(out, number, column).finish_head("", bytes),
            Self::End(end, _) => Encoder::begin(out, number, end).finish_head("", bytes),
            _ => self.encode(number, out),
        }
    }
}

/// Room for any header and head.
pub const HEAD_BYTES_MAX: usize = 256;
