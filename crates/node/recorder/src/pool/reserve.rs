//! Chunks that are set aside for one data connection (docs/spec/event-link.md, section 5): what its
//! sources bring ahead of the one that events wait for, beyond their shares.
//!
//! A reserve has so many chunks. Those that are not in use are free, and nobody else takes them.
//! Those that are used come back to all, as any chunk does: then the reserve sets others aside, as
//! soon as its sources hold less beyond their shares ([`Reserve::refill`]).
//!
//! Limit: the reserves of a pool have a quarter of its chunks.

use std::sync::Arc;

use super::{Chunk, ChunkPool};

/// The part of a pool that its reserves may have: a quarter.
pub(crate) const RESERVES: usize = 4;

/// What is set aside. It is given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Reserve {
    pool: Arc<ChunkPool>,
    chunks: usize,
    /// How many of them are set aside now.
    left: usize,
}

impl Reserve {
    /// Sets chunks aside for so many bytes in fragments of so many sources, however they fit, but
    /// for `used` ones that the sources hold beyond their shares. None if these are too many now.
    pub(crate) fn new(
        pool: &Arc<ChunkPool>,
        (bytes, sources): (u64, usize),
        used: usize,
    ) -> Option<Self> {
        // Two neighbours of a source that are in two chunks are longer than one together; the last
        // chunk of each source may have little.
        let full = usize::try_from(bytes.div_ceil(pool.chunk_bytes as u64)).ok()?;
        let chunks = full.checked_mul(2)?.checked_add(sources)?;
        let left = chunks.saturating_sub(used);
        let mut free = pool.free.lock();
        if free.promised + chunks > pool.chunk_count() / RESERVES || left > free.rest() {
            return None;
        }
        (free.promised, free.set_aside) = (free.promised + chunks, free.set_aside + left);
        drop(free);
        Some(Self { pool: Arc::clone(pool), chunks, left })
    }

    /// Whether some of its chunks are in use.
    pub(crate) fn is_used(&self) -> bool {
        self.left < self.chunks
    }

    /// One of its chunks.
    pub(crate) fn take(&mut self) -> Option<Chunk> {
        let mut chunk = Vec::new();
        self.take_chain(1, &mut chunk);
        chunk.pop()
    }

    /// Takes so many of its chunks, if it has them.
    pub(crate) fn take_chain(&mut self, count: usize, chunks: &mut Vec<Chunk>) -> bool {
        let has_them = count <= self.left;
        if has_them {
            let mut free = self.pool.free.lock();
            (self.left, free.set_aside) = (self.left - count, free.set_aside - count);
            self.pool.take_last(&mut free, count, chunks);
        }
        has_them
    }

    /// Sets chunks aside again for those that it has not, but for `used` ones, as far as they are
    /// free.
    pub(crate) fn refill(&mut self, used: usize) {
        let wanted = (self.chunks - self.left).saturating_sub(used);
        if wanted > 0 {
            let mut free = self.pool.free.lock();
            let count = wanted.min(free.rest());
            (self.left, free.set_aside) = (self.left + count, free.set_aside + count);
        }
    }
}

impl Drop for Reserve {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock();
        free.set_aside -= self.left;
        free.promised -= self.chunks;
    }
}
