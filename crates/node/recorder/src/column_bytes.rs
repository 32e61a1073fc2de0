//! The raw bytes of the columns of frames: of their own, or in the chunks where they arrived.

use std::sync::Arc;

use catchment_builder::{ColumnCut, Span};
use catchment_encoder::Column;
use catchment_trends::{Seen, Watch};

use crate::pool::ChunkPool;

/// The raw bytes of one column of a frame.
#[derive(Debug)]
pub(crate) enum ColumnBytes {
    /// Bytes of its own.
    Own(Vec<u8>),
    /// Bytes that others have, too.
    Shared(Arc<[u8]>),
    /// Payload in the chunks where it arrived.
    Chunks(ChunkBytes),
}

/// Ranges of a pool's chunks, which are freed when this is dropped.
#[derive(Debug)]
pub(crate) struct ChunkBytes {
    /// The index of its column in the cut.
    pub(crate) index: usize,
    /// The trend to compute from the samples, if any.
    pub(crate) watch: Option<Watch>,
    pool: Arc<ChunkPool>,
    spans: Vec<Span>,
    bytes: usize,
}

impl ChunkBytes {
    /// Takes the payload of a cut's column with that index.
    pub(crate) fn take(index: usize, column: &mut ColumnCut, pool: &Arc<ChunkPool>) -> Self {
        let bytes = column.payload_bytes as usize;
        let spans = std::mem::take(&mut column.spans);
        Self { index, watch: None, pool: Arc::clone(pool), spans, bytes }
    }

    /// The number of bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

impl Drop for ChunkBytes {
    fn drop(&mut self) {
        self.pool.release(&self.spans);
    }
}

impl From<Vec<u8>> for ColumnBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Own(bytes)
    }
}

impl From<ChunkBytes> for ColumnBytes {
    fn from(chunks: ChunkBytes) -> Self {
        Self::Chunks(chunks)
    }
}

impl Column for ColumnBytes {
    type Seen = Seen;

    fn raw_bytes(&self) -> usize {
        match self {
            Self::Own(bytes) => bytes.len(),
            Self::Shared(bytes) => bytes.len(),
            Self::Chunks(chunks) => chunks.bytes,
        }
    }

    fn piece(&self, index: usize) -> Option<&[u8]> {
        match self {
            Self::Own(bytes) => (index == 0).then_some(bytes),
            Self::Shared(bytes) => (index == 0).then_some(bytes),
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
