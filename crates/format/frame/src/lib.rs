//! The frame file: encoding and decoding without I/O of its own.
//!
//! The layout is specified in `docs/spec/frame-file.md`; this crate is its only implementation. It
//! opens no file and reads no clock: a writer asks [`FrameLayout`] for the positions of a frame's
//! columns and writes them itself, a reader supplies a [`ReadAt`].
//!
//! | to do | use |
//! |---|---|
//! | begin a file | [`FileHeader::encode`] |
//! | write a frame | [`ColumnEncoder`], [`FrameLayout`], [`BlockChecksums`]; [`write_frame`] |
//! | close a file | [`TocBuilder`] |
//! | read | [`FileReader`] |
//! | close a file that a killed writer left | [`repair`](fn@repair) |
//!
//! Everything in a file is checked before it is used: no size from a file is allocated, and no
//! count is looped over, before it has been compared with the file's own length and the limits
//! below.
//!
//! ```
//! use catchment_frame::*;
//! use catchment_model::{Ledger, RunId};
//!
//! let schema = Schema::events(vec![SourceInfo {
//!     id: 0,
//!     name: "board-0".into(),
//!     group: String::new(),
//!     protocol: "hadtu".into(),
//!     required: true,
//!     malformed_reasons: Vec::new(),
//!     stored: true,
//!     sparse: false,
//! }]);
//! let columns = EventColumns::of(&schema);
//! let header = FileHeader {
//!     run: RunId([1; 16]),
//!     run_number: 1,
//!     file_index: 0,
//!     file_id: 0x1234_5678,
//!     created_ns: 0,
//!     writer: "example".into(),
//!     config: String::new(),
//!     emulated: false,
//!     schema: schema.into(),
//!     ledger_entries: EntryNames::default(),
//!     locator: false,
//!     numbering: Numbering::Run,
//!     variant: 0,
//!     target: None,
//!     part: None,
//!     stream: 0,
//!     epoch: 0,
//!     superseded: Vec::new(),
//!     base: None,
//! };
//! let mut file = header.encode();
//! let mut toc = TocBuilder::new(&file);
//!
//! // A frame of one column. A recorder streams the bytes to the disk; here they go to memory.
//! let info = FrameInfo {
//!     kind: FrameKind::Events,
//!     flags: 0,
//!     file_id: header.file_id,
//!     sequence: 0,
//!     origin: Origin::SINGLE,
//!     time_first_ns: 0,
//!     time_last_ns: 0,
//!     key_first: 41,
//!     key_last: 42,
//!     rows: 2,
//! };
//! let keys = [41u64.to_le_bytes(), 42u64.to_le_bytes()].concat();
//! let mut layout = FrameLayout::begin(info, 1);
//! let mut frame = vec![0; layout.header_space()];
//! frame.resize(layout.next_offset() as usize, 0);
//! frame.extend_from_slice(&keys);
//! layout.push(ColumnEntry {
//!     id: columns.key.unwrap(),
//!     codec: Codec::None,
//!     dtype: Dtype::U64,
//!     flags: 0,
//!     crc32c: crc32c(&keys),
//!     offset: 0,
//!     stored_bytes: 16,
//!     raw_bytes: 16,
//!     rows: 2,
//!     start_ns: 0,
//!     first_sample: 0,
//! });
//! frame.resize(layout.frame_bytes() as usize, 0);
//! let summary = layout.finish(file.len() as u64, &mut frame); // The header comes last.
//! toc.add_frame(summary, layout.entries());
//! file.extend_from_slice(&frame);
//! let closing = toc.finish(file.len() as u64, &Ledger::new(1), TocFlags::default());
//! file.extend_from_slice(&closing);
//!
//! let reader = FileReader::open(&file)?;
//! let mut bytes = Vec::new();
//! assert!(reader.closed());
//! assert!(reader.read(0, reader.event_columns().key.unwrap(), &mut bytes)?);
//! assert_eq!(bytes, keys);
//! # Ok::<(), FrameError>(())
//! ```

mod base;
mod blocks;
mod bytes;
mod channel_info;
mod channels;
mod checkpoint;
mod checksum;
mod codings;
mod column_info;
mod error;
mod events;
mod file_frames;
mod file_list;
mod frame;
mod frame_index;
mod fuzz;
mod header;
mod headless;
mod holes;
mod kinds;
mod known;
mod ledger;
mod lists;
mod locator;
mod pattern;
mod pieces;
mod positions;
mod read_at;
mod reader;
mod repair;
mod schema;
mod stored;
mod toc;
mod toc_reader;
mod uncut;
mod verify;
mod walk;

pub use base::{
    BASE_PART_BYTES, BaseFiles, BasePart, PartOrder, decode_base_parts, encode_base_parts,
    is_in_base,
};
pub use blocks::{
    BLOCK_CHECKSUMS, BadBlock, BlockCheck, BlockChecksums, BlockDigest, Blocks,
    CHECKED_BLOCK_BYTES, column_flags, stored_space,
};
pub use catchment_agent::ReadAt;
pub use catchment_codec::{
    Codec, CodecError, Coding, ColumnEncoder, Element, Encoded, UnknownCoding, decode_column,
};
pub use channel_info::ChannelInfo;
pub use channels::{
    ChannelColumns, SampleRun, Span, Spans, decode_spans, encode_spans, select_spans,
};
pub use checksum::{Crc32c, crc32c};
pub use codings::{Codings, ColumnCoding, UnknownColumnCoding};
pub use column_info::{ColumnInfo, FieldInfo, PayloadType};
pub use error::{ColumnProblem, FrameError, FrameRef, Part, SchemaError};
pub use events::{EventColumns, SourceColumns};
pub use file_frames::{FileFrames, LOCATION_RANGES_MAX};
pub use file_list::{
    FILE_LIST_BYTES_MAX, FILE_LIST_LINE_BYTES_MAX, FILE_LIST_NAME, FileList, FileListError,
    FileListLine, LOCATION_TEXT_BYTES_MAX, LOCATIONS_MAX, ListedFile, LocationKind, RunLocation,
};
pub use frame::{ColumnEntry, FrameInfo, FrameLayout, FrameSummary, Origin, write_frame};
pub use fuzz::fuzz_file;
pub use header::{DealtPart, FileHeader, HeaderRest, Numbering, Superseded};
pub use headless::{Headless, find_headless};
pub use holes::{HOLE_BYTES, Hole, decode_holes, encode_holes, qualified, unqualified};
pub use kinds::{ColumnKind, Dtype, FrameKind};
pub use known::KnownSchemas;
pub use ledger::{
    EntryNames, decode_ledger, encode_channel_increment, encode_ledger_increment,
    encode_ledger_total, is_derived,
};
pub use lists::FrameEntry;
pub use locator::{encode_locator, locator_offset};
pub use pattern::{Pattern, PatternError};
pub use pieces::{PIECE_BYTES, decode_pieces, encode_pieces, further_pieces};
pub use positions::{Position, Positions, SESSIONS_MAX, decode_positions, encode_positions};
pub use reader::{Condition, FileReader, OpenOptions, Reopened};
pub use repair::{Closing, RepairPlan, close_behind, repair, sequences_missing};
pub use schema::{Schema, SourceInfo};
pub use stored::StoredColumn;
pub use toc::{TocBuilder, TocFlags};
pub use uncut::{Rewrite, header_of_uncut};
pub use verify::{frame_ledger, verify_frame};
pub use walk::{Skipped, SkippedReason, is_zero_between};

/// Major version of the format that this crate reads and writes.
pub const VERSION_MAJOR: u16 = 1;
/// Minor version of the format that this crate writes.
pub const VERSION_MINOR: u16 = 3;
/// Files, frames and the trailer are aligned to this.
pub const BLOCK_BYTES: u64 = catchment_model::limits::DISK_ALIGN_BYTES as u64;
/// Columns are aligned to this within their frame.
pub const COLUMN_ALIGN_BYTES: u64 = 64;
/// Bytes of a file header.
pub const FILE_HEADER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of a frame header: fixed part and directory.
pub const FRAME_HEADER_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Columns in a schema.
pub const SCHEMA_COLUMNS_MAX: usize = 1_048_576;

const _: () = {
    // Sizes in files are 64-bit; a frame must fit into the address space.
    assert!(usize::BITS == 64);
    assert!(FRAME_HEADER_BYTES_MAX < catchment_model::limits::FRAME_BYTES_MAX);
    assert!(BLOCK_BYTES.is_multiple_of(COLUMN_ALIGN_BYTES));
};
