//! What a recorder's frames are made of: ranges of the pool's chunks, and bytes of their own.

use std::sync::Arc;

use catchment_builder::{Cut, Span};
use catchment_encoder::Column;
use catchment_trends::{Seen, Watch};

use crate::pool::ChunkPool;

/// The raw bytes of one column of a frame.
#[derive(Debug)]
pub(crate) enum ColumnBytes {
    /// Of the column's own.
    Own(Vec<u8>),
    /// Payload, where it arrived.
    Chunks(ChunkBytes),
}

/// Ranges of a pool's chunks, which are free when this is dropped.
#[derive(Debug)]
pub(crate) struct ChunkBytes {
    /// Which column of the cut it is.
    pub(crate) index: usize,
    /// What the samples are watched for, if they are.
    pub(crate) watch: Option<Watch>,
    pool: Arc<ChunkPool>,
    spans: Vec<Span>,
    bytes: usize,
}

impl ChunkBytes {
    /// Takes a column's payload out of a cut.
    pub(crate) fn take(index: usize, cut: &mut Cut, pool: &Arc<ChunkPool>) -> Self {
        let column = &mut cut.columns[index];
        let bytes = column.payload_bytes as usize;
        let spans = std::mem::take(&mut column.spans);
        Self { index, watch: None, pool: Arc::clone(pool), spans, bytes }
    }

    /// How many bytes they are.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

impl Drop for ChunkBytes {
    fn drop(&mut self) {
        self.pool.release(&self.spans);
    }
}

impl ColumnBytes {
    /// Numbers, as files have them.
    pub(crate) fn of_u64(numbers: &[u64]) -> Self {
        let mut bytes = Vec::with_capacity(size_of_val(numbers));
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        Self::Own(bytes)
    }

    /// As [`ColumnBytes::of_u64`].
    pub(crate) fn of_u32(numbers: &[u32]) -> Self {
        let mut bytes = Vec::with_capacity(size_of_val(numbers));
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        Self::Own(bytes)
    }
}

impl Column for ColumnBytes {
    type Seen = Seen;

    fn raw_bytes(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.len(),
            Self::Chunks(chunks) => chunks.bytes,
        }
    }

    fn piece(&self, index: usize) -> Option<&[u8]> {
        match self {
            Self::Own(bytes) => (index == 0).then_some(bytes),
            Self::Chunks(chunks) => {
                let span = chunks.spans.get(index)?;
                // SAFETY: the spans came from the receive agents through the builder, and are
                // released when this is dropped, and not before.
                Some(unsafe { chunks.pool.bytes(span.offset, span.bytes) })
            }
        }
    }

    fn looks(&self) -> bool {
        matches!(self, Self::Chunks(ChunkBytes { watch: Some(_), .. }))
    }

    fn look(&self, seen: &mut Seen, bytes: &[u8]) {
        if let Self::Chunks(ChunkBytes { watch: Some(watch), .. }) = self {
            watch.look(seen, bytes);
        }
    }
}
