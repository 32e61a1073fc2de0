//! Columns and frames as they are stored.

use std::sync::OnceLock;

use catchment_codec::Codec;
use catchment_frame::{BlockChecksums, ColumnEntry, FrameSummary, column_flags, qualified};

use crate::frame::ColumnForm;

/// A column as it is stored.
#[derive(Clone, Copy)]
pub struct StoredColumn<'a> {
    /// Its description.
    pub form: ColumnForm,
    /// How it is encoded.
    pub codec: Codec,
    /// Checksums of the stored bytes: whoever has copied all of them first sets them.
    pub checksums: &'a OnceLock<BlockChecksums>,
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
        let ColumnForm { id, dtype, rows, first_sample, start_ns, is_qualified } = self.form;
        ColumnEntry {
            id,
            codec: if is_qualified { qualified(self.codec) } else { self.codec },
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
