//! The columns of a recorder's frames: ranges of the pool's chunks, and bytes of their own.

use std::sync::Arc;

use catchment_builder::{Cut, Span};
use catchment_encoder::Column;
use catchment_trends::{Seen, Watch};

use crate::pool::ChunkPool;

/// The raw bytes of one column of a frame.
#[derive(Debug)]
pub(crate) enum ColumnBytes {
    /// Bytes of its own.
    Own(Vec<u8>),
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
    /// Takes the payload of a column out of a cut.
    pub(crate) fn take(index: usize, cut: &mut Cut, pool: &Arc<ChunkPool>) -> Self {
        let column = &mut cut.columns[index];
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

#[cfg(test)]
mod tests {
    use catchment_builder::ColumnCut;

    use super::*;
    use crate::pool::{ChunkUse, Held};

    #[test]
    fn a_columns_chunks_are_free_when_whoever_has_it_drops_it() {
        let pool = ChunkPool::new("segments", 512 << 10, 128 << 10..=256 << 10, 1, 1, 0).unwrap();
        let (pool, held) = (Arc::new(pool), Arc::new(Held::new(1)));
        let mut chunks = ChunkUse::new(&pool, vec![0], Arc::clone(&held));
        let mut cut = Cut::default();
        for byte in 0..2 {
            let mut chunk = pool.take().unwrap();
            held.took(0, 1);
            let payload = vec![byte; 1_000];
            let offset = pool.append(&mut chunk, &payload, 1).unwrap();
            chunks.arrived(&pool, 0, offset, 1_000);
            let spans = vec![Span { offset, bytes: 1_000 }];
            cut.columns.push(ColumnCut { spans, payload_bytes: 1_000, ..ColumnCut::default() });
        }
        let take = |index, cut: &mut Cut| ColumnBytes::Chunks(ChunkBytes::take(index, cut, &pool));
        let (first, second) = (take(0, &mut cut), take(1, &mut cut));
        drop(cut);
        assert!(pool.take_released(Vec::new()).is_empty());
        // A stage puts bytes of its own in a column's place.
        let reduced = ColumnBytes::Own(first.piece(0).unwrap()[..10].to_vec());
        drop(first);
        for span in pool.take_released(Vec::new()) {
            chunks.done(&pool, span.offset, span.bytes);
        }
        chunks.give_back(&pool);
        assert_eq!((held.of(0), pool.fill().level()), (1, pool.chunk_bytes() as u64));
        assert_eq!((reduced.raw_bytes(), reduced.piece(0).unwrap()), (10, &[0; 10][..]));
        assert_eq!((second.raw_bytes(), second.piece(0).unwrap()), (1_000, &[1; 1_000][..]));
        assert!(second.piece(1).is_none());
    }
}
