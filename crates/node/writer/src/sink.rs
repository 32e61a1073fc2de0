//! The destination of frames.

use catchment_codec::Codec;
use catchment_frame::{BlockChecksums, ColumnEntry, FrameInfo, FrameSummary, column_flags};

use crate::frame::ColumnForm;

/// Takes frames, column by column, one frame at a time.
///
/// A frame is *copied* when [`FrameSink::finish`] has returned its summary: the memory of its
/// columns is free. Later it is *recorded* (its writes have completed), *durable* (a sync has
/// completed), or it has *failed*; the sink then returns the frame's tag to its owner.
pub trait FrameSink {
    /// The owner's data for a frame, returned when its outcome is known.
    type Tag;

    /// Begins a frame of at most `columns_max` columns.
    ///
    /// # Panics
    /// A frame is in progress, or the sink has no file for one: the owner rules out both
    /// beforehand.
    fn begin(&mut self, info: FrameInfo, columns_max: usize);

    /// Takes as much of a column as there is room for and as the budget of bytes lasts; true when
    /// it has all of it. Otherwise the caller calls again with the same column, when there may be
    /// room.
    fn append(&mut self, column: &StoredColumn<'_>, budget: &mut usize) -> bool;

    /// Ends the frame.
    ///
    /// # Errors
    /// The tag, if there is no room yet: the caller calls again.
    fn finish(&mut self, tag: Self::Tag) -> Result<FrameSummary, Self::Tag>;
}

/// A column as it is stored.
#[derive(Clone, Copy)]
pub struct StoredColumn<'a> {
    /// Its description.
    pub form: ColumnForm,
    /// How it is encoded.
    pub codec: Codec,
    /// Checksums of the stored bytes; none if the sink is to compute them.
    pub checksums: Option<&'a BlockChecksums>,
    /// Bytes as decoded.
    pub raw_bytes: u64,
    /// Bytes as stored.
    pub stored_bytes: u64,
    /// The stored bytes, piece by piece.
    pub piece: &'a dyn Fn(usize) -> Option<&'a [u8]>,
}

impl StoredColumn<'_> {
    /// The column's entry in the frame's directory, except for its offset.
    pub(crate) fn entry(&self, crc32c: u32) -> ColumnEntry {
        let ColumnForm { id, dtype, rows, first_sample, start_ns } = self.form;
        ColumnEntry {
            id,
            codec: self.codec,
            dtype,
            flags: column_flags(self.stored_bytes),
            crc32c,
            offset: 0,
            stored_bytes: self.stored_bytes,
            raw_bytes: self.raw_bytes,
            rows,
            start_ns,
            first_sample,
        }
    }
}

impl std::fmt::Debug for StoredColumn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredColumn").field("form", &self.form).finish_non_exhaustive()
    }
}

/// A copied frame, as a table of contents lists it.
#[derive(Clone, Debug)]
pub struct WrittenFrame {
    /// Its position and its header.
    pub summary: FrameSummary,
    /// Its columns.
    pub entries: Vec<ColumnEntry>,
}
