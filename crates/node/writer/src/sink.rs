//! Where frames go.

use catchment_codec::Codec;
use catchment_frame::{BlockChecksums, ColumnEntry, FrameInfo, FrameSummary, column_flags};

use crate::frame::ColumnForm;

/// Takes frames, column by column. One frame is under way at a time.
///
/// A frame is *copied* when [`FrameSink::finish`] has returned its summary: what its columns were
/// made of is free. Later it is *recorded* (its writes have completed), *durable* (a sync has), or
/// it has *failed*; with that the sink returns the frame's tag to its owner.
pub trait FrameSink {
    /// What the owner wants to have again when the frame's fate is known.
    type Tag;

    /// Begins a frame of at most so many columns.
    ///
    /// # Panics
    /// A frame is under way, or the sink has no place for one: the owner sees to that first.
    fn begin(&mut self, info: FrameInfo, columns_max: usize);

    /// Takes as much of a column as there is room for and the budget of bytes lasts; true when it
    /// has all of it. Otherwise it is called again with the same column, when there may be room.
    fn append(&mut self, column: &StoredColumn<'_>, budget: &mut usize) -> bool;

    /// Ends the frame.
    ///
    /// # Errors
    /// The tag, where there is no room yet: it is called again.
    fn finish(&mut self, tag: Self::Tag) -> Result<FrameSummary, Self::Tag>;
}

/// A column as it is stored.
#[derive(Clone, Copy)]
pub struct StoredColumn<'a> {
    /// What it is.
    pub form: ColumnForm,
    /// How it is encoded.
    pub codec: Codec,
    /// Checksums of the stored bytes; none where the sink is to compute them from what it takes.
    pub checksums: Option<&'a BlockChecksums>,
    /// Bytes as decoded.
    pub raw_bytes: u64,
    /// Bytes as stored.
    pub stored_bytes: u64,
    /// The stored bytes, piece by piece.
    pub piece: &'a dyn Fn(usize) -> Option<&'a [u8]>,
}

impl StoredColumn<'_> {
    /// The column's entry in the frame's directory, but for its offset.
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

/// A frame that was copied, as a table of contents lists it.
#[derive(Clone, Debug)]
pub struct WrittenFrame {
    /// Where it stands, and what its header says.
    pub summary: FrameSummary,
    /// Its columns.
    pub entries: Vec<ColumnEntry>,
}
