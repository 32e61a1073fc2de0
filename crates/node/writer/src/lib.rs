//! The one writer of frame files.
//!
//! ```text
//! Frame ──► FrameEncoder ──► FrameSink: FrameFiles ──► Jobs ──► Store
//! columns   in their order,  layout, checksums,        aligned  io_uring, page cache,
//!           side by side     files, TOCs               buffers  memory
//! ```
//!
//! A [`Frame`] owns its columns: ranges of a recorder's chunks, bytes of its own, or bytes yet to
//! be made. A [`FrameEncoder`] encodes them with the pool of encode agents and hands each, in the
//! frame's order, to a [`FrameSink`]. [`FrameFiles`] is the sink that writes files: the recorder,
//! `generate`, `convert`, `reframe`, `reduce` and trends write by it. Which file a frame belongs
//! to, and what becomes of a disk that refuses, its owner decides.
//!
//! Nothing here waits, and nothing names a file, a thread or a clock.
//!
//! Three policies, by [`HeaderOrder`] and by the store:
//! - *header last*, for files that others read while they grow: a frame's header is written when
//!   all else of it, and all older frames, have been written.
//! - *header held*, for files that nobody reads before they are closed: the header is written with
//!   the bytes behind it, in no order.
//! - *growing*, for little data: header last through the page cache, each frame durable at once.

mod copy;
mod encode;
mod file;
mod files;
mod frame;
mod jobs;
mod sink;

#[cfg(test)]
mod tests;

pub use encode::{FrameEncoder, FrameOwner, FrameUnderWay, Progress, Streamed};
pub use file::{FileParts, FrameFile, TOC_ENTRY_BYTES, header_bytes_max};
pub use files::{Ended, FrameFiles, JobKind};
pub use frame::{ColumnForm, Frame, FrameColumn, ledger_column};
pub use jobs::{HeaderOrder, WriteCounts};
pub use sink::{FrameSink, StoredColumn, WrittenFrame};
