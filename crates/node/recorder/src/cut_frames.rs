//! Frames from cuts: one maker for each group of sources that share a builder, here that of events.
//!
//! Payload stays in the chunks where it arrived: a column has ranges of them, and frees them when
//! the last target has copied it.

use std::sync::Arc;

use catchment_builder::{ColumnCut, Cut, Span};
use catchment_encoder::{Coding, Column};
use catchment_model::SourceId;
use catchment_trends::{Seen, Watch};
use catchment_writer::{EventFrame, EventSource, Frame, FrameMaker};

use crate::pool::ChunkPool;

/// Makes frames of one group's cuts.
pub(crate) trait CutFrames: Send {
    /// Makes a frame from a cut and takes its payload.
    fn frame(&mut self, cut: &mut Cut) -> Frame<ColumnBytes>;

    /// The ledger's number of the source of a cut's column.
    fn source_of(&self, index: usize) -> usize;

    /// How small columns are encoded.
    fn small_coding(&self) -> Coding;
}

/// Makes frames of events.
pub(crate) struct EventFrames {
    pub(crate) maker: Arc<FrameMaker>,
    pub(crate) pool: Arc<ChunkPool>,
    pub(crate) small: Coding,
}

impl CutFrames for EventFrames {
    fn source_of(&self, index: usize) -> usize {
        index
    }

    fn small_coding(&self) -> Coding {
        self.small
    }

    fn frame(&mut self, cut: &mut Cut) -> Frame<ColumnBytes> {
        let present = cut.columns.iter_mut().enumerate().filter(|(_, one)| one.fragments > 0);
        let sources = present.map(|(index, column)| EventSource {
            source: SourceId(index as u32),
            payload: ChunkBytes::take(index, column, &self.pool),
            validity: column.validity.take().map(Into::into),
            lengths: &column.lengths,
        });
        let frame = EventFrame {
            sources: sources.collect(),
            keys: &cut.keys,
            times_ns: &cut.times_ns,
            flags: &cut.flags,
            increments: None,
        };
        self.maker.events(frame).expect("columns of every schema of events")
    }
}

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
        let mut take = |index: usize| {
            ColumnBytes::from(ChunkBytes::take(index, &mut cut.columns[index], &pool))
        };
        let (first, second) = (take(0), take(1));
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
