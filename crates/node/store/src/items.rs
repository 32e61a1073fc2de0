//! What goes from the agent that receives to the writer of a stream.

use std::sync::OnceLock;

use catchment_codec::Codec;
use catchment_encoder::Buffer;
use catchment_frame::{BlockChecksums, FileHeader, FrameInfo, unqualified};
use catchment_model::Ledger;
use catchment_writer::ColumnForm;

use crate::memory::Reserved;

/// What a writer gets, in order.
pub(crate) enum Item {
    /// The header of the stream's files, but for what distinguishes them: before any frame.
    Header(Box<FileHeader>),
    Frame(Box<StoredFrame>),
    /// The stream ends; the item has this number.
    Close(u64),
}

/// A frame that is there as a whole.
#[derive(Debug)]
pub(crate) struct StoredFrame {
    pub(crate) info: FrameInfo,
    pub(crate) columns: Vec<ColumnBytes>,
    /// What it adds to the ledger.
    pub(crate) ledger: Ledger,
    /// One above the last sequence that it takes in the stream's log.
    pub(crate) end: u64,
    /// When it was there as a whole.
    pub(crate) taken_ns: u64,
    pub(crate) _memory: Reserved,
}

/// A column as it is stored.
#[derive(Debug)]
pub(crate) struct ColumnBytes {
    pub(crate) form: ColumnForm,
    pub(crate) codec: Codec,
    pub(crate) raw_bytes: u64,
    pub(crate) checksums: OnceLock<BlockChecksums>,
    pub(crate) stored: Buffer,
}

impl ColumnBytes {
    /// A column whose directory entry has that codec.
    pub(crate) fn new(form: ColumnForm, codec: Codec, raw_bytes: u64, stored: Buffer) -> Self {
        let own = unqualified(codec);
        let form = ColumnForm { is_qualified: own.is_some(), ..form };
        Self { form, codec: own.unwrap_or(codec), raw_bytes, checksums: OnceLock::new(), stored }
    }

    /// What its buffer takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.stored.capacity() as u64
    }
}
