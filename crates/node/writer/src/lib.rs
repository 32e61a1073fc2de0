//! The one writer of frame files.
//!
//! ```text
//! FrameMaker ──► FrameEncoder ──► EncodedColumn ──► FrameFiles ──► Jobs ──► Store
//! events or      side by side,    shared            layout, files, aligned  io_uring, page cache,
//! channels       out in order                       TOCs           buffers  memory
//! ```
//!
//! A [`FrameMaker`] makes the columns of a [`Frame`] of events or channels: ranges of a recorder's
//! chunks, bytes of their own, or bytes yet to be made. A [`FrameEncoder`] encodes them with the
//! pool of encode agents; they come out in the frame's order, each an [`EncodedColumn`], which any
//! number of places may take. [`FrameFiles`] writes them to files, for the recorder, `generate`,
//! `convert`, `reframe`, `reduce` and trends. Its owner decides to which file a frame belongs, and
//! what happens when a disk refuses writes.
//!
//! [`Disks`] chooses among several folders of one place.
//!
//! Nothing here blocks, and nothing names a file, a thread or a clock.
//!
//! Three policies, by [`HeaderOrder`] and by the store:
//! - *header last*, for files that are read while they grow: a frame's header is written when the
//!   rest of it, and all older frames, have been written.
//! - *header held*, for files that are not read before they are closed: the header is written with
//!   the bytes behind it, in any order.
//! - *growing*, for little data: header last through the page cache, each frame durable at once.

mod disks;
mod encode;
mod files;
mod frame;
mod jobs;
mod stored;

#[cfg(test)]
mod tests;

pub use disks::{Disks, STALL_NS};
pub use encode::{EncodedColumn, FrameEncoder, FrameUnderWay, Next};
pub use files::{
    Ended, FileParts, FrameFile, FrameFiles, JobKind, StoreFile, TOC_ENTRY_BYTES, header_bytes_max,
};
pub use frame::{
    ChannelColumn, ChannelFrame, ColumnForm, EventFrame, EventSource, Frame, FrameColumn,
    FrameMaker, NoColumn, ledger_column, position_column,
};
pub use jobs::{HeaderOrder, WriteCounts};
pub use stored::{StoredColumn, WrittenFrame};
