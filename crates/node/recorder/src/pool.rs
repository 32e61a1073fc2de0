//! The memory in which payload waits: chunks of one size, taken by receive agents and freed by the
//! build agent.
//!
//! The pool is one mapping, made at start. Its chunks are handed out last in, first out, so that a
//! recorder that keeps up works in the same few megabytes, which stay in the cache and need no new
//! pages. A chunk belongs to one *lane* at a time: an event source, a fast channel, or all slow
//! channels of a link together. No source may hold more than [`ChunkPool::share`], eight times its
//! equal share, so that one source that floods cannot take the memory that the others need.
//!
//! A fragment longer than a chunk, or assembled from parts of datagrams, has chunks of its own,
//! which form a *chain*: its offset names the first chunk, and each chunk the next one. Chains are
//! resolved into ranges of bytes ([`ChunkPool::ranges`]) where payload is touched; the builder
//! carries them like any offset.
//!
//! A frame's column of payload is ranges of chunks ([`ChunkBytes`]), which are released when the
//! last target has copied it.
//!
//! Some of the free chunks are *set aside* ([`Reserve`]): nobody takes these but the connection
//! that they are set aside for.
//!
//! Invariant: bytes of a chunk are written only by the holder of its [`Chunk`], or of a [`Space`]
//! in it, only behind what was published, and only published bytes are read, until the chunk is
//! given back.

mod held;
mod reserve;

use std::collections::BTreeMap;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use catchment_builder::Span;
use catchment_telemetry::FillLevel;
use parking_lot::Mutex;

pub(crate) use self::held::Held;
pub(crate) use self::reserve::{RESERVES, Reserve};

/// Populated when the pool is made; chunks are handed out from here first. More would slow down the
/// start: on a virtual machine the first touch of memory may run at 0.4 GB/s.
const POPULATED_BYTES: usize = 1 << 30;
/// But of fragments such as trains, of which few fit there: one that arrives, one that is complete,
/// one that is written, and one that another sender has begun. First touches would cost packets.
const POPULATED_LONGEST: u64 = 4;
/// Populated at a time: a huge page. Meanwhile the system holds the lock on the process's memory,
/// for which all threads wait that allocate, including those of the control plane.
const POPULATE_STEP_BYTES: usize = 2 << 20;

/// Marks the offset of a chain, whose first chunk stands in bits 32 to 62. No range of bytes that
/// ends where a chain begins is joined with it: the bits below are zero, and lengths have 32 bits.
const CHAIN: u64 = 1 << 63;
/// Chunks that a source may hold beside those of a fragment that is assembled.
pub(crate) const CHUNKS_BESIDE: u64 = 4;

/// How much of a pool is populated when it is made. In whole steps, which are whole pages: the
/// system refuses parts of one.
pub(crate) fn populated_bytes(longest_bytes: u64, memory_bytes: usize) -> usize {
    let wanted = longest_bytes.saturating_mul(POPULATED_LONGEST).max(POPULATED_BYTES as u64);
    let steps = usize::try_from(wanted.div_ceil(POPULATE_STEP_BYTES as u64)).unwrap_or(usize::MAX);
    memory_bytes.min(steps.saturating_mul(POPULATE_STEP_BYTES))
}

/// All chunks of a recorder.
#[derive(Debug)]
pub(crate) struct ChunkPool {
    memory: NonNull<u8>,
    memory_bytes: usize,
    chunk_bytes: usize,
    share: u32,
    populated_bytes: usize,
    /// The next chunk of each chunk in a chain.
    next: Box<[AtomicU32]>,
    free: Mutex<Free>,
    /// Ranges of bytes that frames need no more, until the build agent has seen them.
    released: Mutex<Vec<Span>>,
    /// By a chain's first chunk, what is missing of its fragment, until a frame has it or the
    /// builder has discarded it.
    holes: Mutex<BTreeMap<u32, Vec<Range<u64>>>>,
    fill: Arc<FillLevel>,
}

/// The chunks that nobody holds.
#[derive(Debug)]
struct Free {
    chunks: Vec<u32>,
    /// How many of them are set aside.
    set_aside: usize,
    /// How many chunks all reserves have, whether they are free or in use.
    promised: usize,
}

impl Free {
    /// How many chunks anybody may take.
    fn rest(&self) -> usize {
        self.chunks.len() - self.set_aside
    }
}

// SAFETY: the mapping is shared plain memory; who may touch which bytes is the module's invariant.
unsafe impl Send for ChunkPool {}
// SAFETY: as above.
unsafe impl Sync for ChunkPool {}

/// A chunk that a receive agent fills.
#[derive(Debug)]
pub(crate) struct Chunk {
    id: u32,
    used: usize,
}

/// Memory for one fragment whose bytes are still to come.
#[derive(Debug)]
pub(crate) enum Space {
    /// So many bytes of a lane's chunk, from that offset on, which the chunk counts as used.
    Range { offset: u64, bytes: usize },
    /// Chunks of its own.
    Chain(Vec<Chunk>),
}

/// The bytes of a chunk of a pool of `bytes` for so many lanes.
pub(crate) fn chunk_bytes_of(bytes: u64, sizes: RangeInclusive<usize>, lanes: usize) -> usize {
    let wanted = bytes / (lanes as u64 * 16).max(1);
    let (least, most) = sizes.into_inner();
    if wanted >= most as u64 { most } else { least }
}

impl ChunkPool {
    /// A pool of about `bytes` bytes for these lanes and sources. Chunks have the larger of two
    /// sizes if each lane can have 16 of them. Each source may hold two fragments of
    /// `longest_bytes`, whatever its share.
    ///
    /// # Errors
    /// The system's error if it refuses the memory.
    pub(crate) fn new(
        name: &str,
        bytes: u64,
        chunk_sizes: RangeInclusive<usize>,
        lane_count: usize,
        source_count: usize,
        longest_bytes: u64,
    ) -> io::Result<Self> {
        let chunk_bytes = chunk_bytes_of(bytes, chunk_sizes, lane_count);
        let count = u32::try_from(bytes / chunk_bytes as u64).unwrap_or(u32::MAX).max(1);
        let memory_bytes = count as usize * chunk_bytes;
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new anonymous mapping at an address of the system's choice.
        let address =
            unsafe { libc::mmap(std::ptr::null_mut(), memory_bytes, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = NonNull::new(address.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: the range is the mapping just made. Advice only: a refusal costs speed, no more.
        unsafe { libc::madvise(address, memory_bytes, libc::MADV_HUGEPAGE) };
        let longest = 2 * longest_bytes.div_ceil(chunk_bytes as u64) + 2;
        let share = (u64::from(count) * 8 / source_count.max(1) as u64).max(longest.max(4));
        let share = share.min(u64::from(count));
        let pool = Self {
            memory,
            memory_bytes,
            chunk_bytes,
            share: share as u32,
            populated_bytes: populated_bytes(longest_bytes, memory_bytes),
            next: (0..count).map(|_| AtomicU32::new(0)).collect(),
            free: Mutex::new(Free {
                chunks: (0..count).rev().collect(),
                set_aside: 0,
                promised: 0,
            }),
            released: Mutex::default(),
            holes: Mutex::default(),
            fill: Arc::new(FillLevel::new(name, memory_bytes as u64)),
        };
        let mut from = 0;
        while from < pool.populated_at_start() {
            from += pool.populate_step(from)?;
        }
        Ok(pool)
    }

    /// The offset up to which pages were provided when the pool was made.
    pub(crate) fn populated_at_start(&self) -> usize {
        self.populated_bytes
    }

    /// Has the system provide the next pages, from that offset on, and returns for how many bytes:
    /// 0 at the pool's end.
    ///
    /// # Errors
    /// The system's error if it has less memory than it promised.
    pub(crate) fn populate_step(&self, from: usize) -> io::Result<usize> {
        let end = self.memory_bytes.min(from + POPULATE_STEP_BYTES);
        if from < end {
            self.populate(from..end)?;
        }
        Ok(end - from)
    }

    fn populate(&self, range: Range<usize>) -> io::Result<()> {
        assert!(range.start <= range.end && range.end <= self.memory_bytes, "within the pool");
        // SAFETY: the range is within the mapping. Populating does not change what is there.
        let result = unsafe {
            let begin = self.memory.add(range.start).as_ptr().cast();
            libc::madvise(begin, range.len(), libc::MADV_POPULATE_WRITE)
        };
        match result {
            0 => Ok(()),
            _ => match io::Error::last_os_error() {
                // Before Linux 5.14: pages come when they are touched.
                error if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
                error => Err(error),
            },
        }
    }

    /// Bytes of one chunk; a power of two.
    pub(crate) fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    /// How many chunks there are.
    pub(crate) fn chunk_count(&self) -> usize {
        self.memory_bytes / self.chunk_bytes
    }

    /// How many chunks one source may hold.
    pub(crate) fn share(&self) -> u32 {
        self.share
    }

    /// How many chunks each of so many sources that wait may hold ([`Held::in_share`]): together
    /// half of all, so that sources ahead leave memory for the others; but enough for a fragment of
    /// that length.
    pub(crate) fn share_of_waiting(&self, sources: usize, longest_bytes: u64) -> u32 {
        let half = self.chunk_count() as u64 / 2 / sources.max(1) as u64;
        let longest = longest_bytes.div_ceil(self.chunk_bytes as u64) + CHUNKS_BESIDE;
        half.max(longest).min(self.share.into()) as u32
    }

    /// How full the pool is.
    pub(crate) fn fill(&self) -> &Arc<FillLevel> {
        &self.fill
    }

    /// A free chunk, or none when the budget is spent.
    pub(crate) fn take(&self) -> Option<Chunk> {
        let mut free = self.free.lock();
        if free.rest() == 0 {
            return None;
        }
        let id = free.chunks.pop()?;
        drop(free);
        self.fill.put(self.chunk_bytes as u64);
        Some(Chunk { id, used: 0 })
    }

    /// Frees chunks. Offsets within them must no longer be used.
    fn give_back(&self, ids: &[u32]) {
        if ids.is_empty() {
            return;
        }
        self.free.lock().chunks.extend_from_slice(ids);
        self.fill.take(ids.len() as u64 * self.chunk_bytes as u64);
    }

    /// The chunk that an offset lies in.
    pub(crate) fn chunk_of(&self, offset: u64) -> u32 {
        (offset >> self.chunk_bytes.trailing_zeros()) as u32
    }

    /// Appends to a chunk, at a multiple of `align`, a power of two. Returns the offset of the
    /// first byte, or none if the bytes do not fit.
    #[inline]
    pub(crate) fn append(&self, chunk: &mut Chunk, bytes: &[u8], align: usize) -> Option<u64> {
        let begin = (chunk.used + align - 1) & !(align - 1);
        if begin > self.chunk_bytes || bytes.len() > self.chunk_bytes - begin {
            return None;
        }
        let offset = chunk.id as usize * self.chunk_bytes + begin;
        // SAFETY: chunk ids are below the pool's count and the bytes fit in the chunk, so that the
        // target lies in the mapping. The holder of the chunk is alone in writing behind `used`.
        unsafe {
            self.memory
                .add(offset)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        chunk.used = begin + bytes.len();
        Some(offset as u64)
    }

    /// Sets bytes at the end of a chunk aside, as [`append`](Self::append) would place them.
    pub(crate) fn reserve(&self, chunk: &mut Chunk, bytes: usize, align: usize) -> Option<u64> {
        let begin = chunk.used.next_multiple_of(align);
        if begin > self.chunk_bytes || bytes > self.chunk_bytes - begin {
            return None;
        }
        chunk.used = begin + bytes;
        Some((chunk.id as usize * self.chunk_bytes + begin) as u64)
    }

    /// Gives bytes back that were set aside in a chunk, if they are still its last.
    pub(crate) fn give_back_range(&self, chunk: &mut Chunk, offset: u64, bytes: usize) {
        let begin = offset as usize % self.chunk_bytes;
        if self.chunk_of(offset) == chunk.id && chunk.used == begin + bytes {
            chunk.used = begin;
        }
    }

    /// The memory of a fragment from a position on, up to the end of its chunk; empty at its end.
    pub(crate) fn room<'a>(&'a self, space: &'a mut Space, position: u64) -> &'a mut [u8] {
        let position = position as usize;
        let (offset, bytes) = match space {
            Space::Range { offset, bytes } => {
                (*offset as usize + position, bytes.saturating_sub(position))
            }
            Space::Chain(chunks) => {
                let begin = position % self.chunk_bytes;
                let Some(chunk) = chunks.get(position / self.chunk_bytes) else { return &mut [] };
                (chunk.id as usize * self.chunk_bytes + begin, self.chunk_bytes - begin)
            }
        };
        assert!(offset + bytes <= self.memory_bytes, "a range of the pool");
        // SAFETY: the range lies in the mapping. It was taken for this fragment, none of it was
        // published, and who has the space is alone in writing to it.
        unsafe { std::slice::from_raw_parts_mut(self.memory.add(offset).as_ptr(), bytes) }
    }

    /// Publishes a fragment whose bytes are there, and returns its offset.
    pub(crate) fn publish(&self, space: Space) -> u64 {
        match space {
            Space::Range { offset, .. } => offset,
            Space::Chain(mut chunks) => self.link(&mut chunks),
        }
    }

    /// Bytes of the free chunks that anybody may take.
    pub(crate) fn free_bytes(&self) -> u64 {
        (self.free.lock().rest() * self.chunk_bytes) as u64
    }

    /// Takes the chunks for a fragment of that length which is assembled in them, if they are free.
    pub(crate) fn take_chain(&self, bytes: u64, chunks: &mut Vec<Chunk>) -> bool {
        let count = bytes.div_ceil(self.chunk_bytes as u64);
        let mut free = self.free.lock();
        let has_room = count <= free.rest() as u64;
        if has_room {
            self.take_last(&mut free, count as usize, chunks);
        }
        has_room
    }

    /// Takes so many of the free chunks.
    fn take_last(&self, free: &mut Free, count: usize, chunks: &mut Vec<Chunk>) {
        let left = free.chunks.len() - count;
        chunks.extend(free.chunks.drain(left..).rev().map(|id| Chunk { id, used: 0 }));
        self.fill.put((count * self.chunk_bytes) as u64);
    }

    /// Copies a part of a fragment to its place in the chain of the fragment's chunks.
    ///
    /// # Panics
    /// A part beyond the chain's end.
    pub(crate) fn put_part(&self, chunks: &[Chunk], position: u64, part: &[u8]) {
        let (mut position, mut rest) = (position as usize, part);
        while !rest.is_empty() {
            let begin = position % self.chunk_bytes;
            let (now, after) = rest.split_at(rest.len().min(self.chunk_bytes - begin));
            let offset = chunks[position / self.chunk_bytes].id as usize * self.chunk_bytes + begin;
            // SAFETY: chunk ids are below the pool's count and the bytes end within the chunk. Who
            // holds the chain's chunks is alone in writing to them, and has published none of them.
            unsafe {
                let to = self.memory.add(offset);
                to.copy_from_nonoverlapping(NonNull::from(now).cast(), now.len());
            }
            (position, rest) = (position + now.len(), after);
        }
    }

    /// As [`ChunkPool::link`], of a fragment of which these ranges were never put.
    pub(crate) fn link_with_holes(&self, chunks: &mut Vec<Chunk>, holes: Vec<Range<u64>>) -> u64 {
        if !holes.is_empty() {
            self.holes.lock().insert(chunks[0].id, holes);
        }
        self.link(chunks)
    }

    /// Makes the chunks a chain that the build agent will free, and returns the fragment's offset.
    pub(crate) fn link(&self, chunks: &mut Vec<Chunk>) -> u64 {
        for pair in chunks.windows(2) {
            self.next[pair[0].id as usize].store(pair[1].id, Relaxed);
        }
        let first = chunks[0].id;
        chunks.clear();
        CHAIN | u64::from(first) << 32
    }

    /// The holes of the fragment whose chain begins with that chunk, which are then forgotten.
    pub(crate) fn take_holes(&self, chunk: u32) -> Vec<Range<u64>> {
        self.holes.lock().remove(&chunk).unwrap_or_default()
    }

    /// Forgets the holes of a fragment that will be in no frame.
    pub(crate) fn forget_holes(&self, offset: u64) {
        if is_chain(offset) {
            self.take_holes(((offset & !CHAIN) >> 32) as u32);
        }
    }

    /// Fills a range with zeros.
    ///
    /// # Safety
    /// The range must have been published to the calling thread, which alone uses it now.
    ///
    /// # Panics
    /// If the range is not within the pool.
    pub(crate) unsafe fn zero(&self, span: Span) {
        let end = span.offset.checked_add(span.bytes);
        assert!(end.is_some_and(|end| end <= self.memory_bytes as u64), "a range of the pool");
        // SAFETY: the range lies in the mapping and, by the caller's promise, nobody else uses it.
        unsafe {
            self.memory.add(span.offset as usize).write_bytes(0, span.bytes as usize);
        }
    }

    /// Frees chunks of which no byte was published.
    pub(crate) fn take_back(&self, chunks: &mut Vec<Chunk>) {
        let ids: Vec<u32> = chunks.drain(..).map(|chunk| chunk.id).collect();
        self.give_back(&ids);
    }

    /// Marks ranges as no longer needed; the build agent frees their chunks.
    pub(crate) fn release(&self, spans: &[Span]) {
        if !spans.is_empty() {
            self.released.lock().extend_from_slice(spans);
        }
    }

    /// Takes the ranges released since the last call and keeps `empty` in their place.
    pub(crate) fn take_released(&self, empty: Vec<Span>) -> Vec<Span> {
        std::mem::replace(&mut *self.released.lock(), empty)
    }

    /// The ranges of bytes of a fragment, or of joined neighbours: one, or one for each chunk of a
    /// chain.
    pub(crate) fn ranges(&self, span: Span) -> impl Iterator<Item = Span> + '_ {
        let is_chain = span.offset & CHAIN != 0;
        let mut chunk = ((span.offset & !CHAIN) >> 32) as u32;
        let mut left = span.bytes;
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            if !is_chain {
                return Some(Span { offset: span.offset, bytes: std::mem::take(&mut left) });
            }
            let bytes = left.min(self.chunk_bytes as u64);
            let offset = u64::from(chunk) * self.chunk_bytes as u64;
            left -= bytes;
            if left > 0 {
                chunk = self.next[chunk as usize].load(Relaxed);
            }
            Some(Span { offset, bytes })
        })
    }

    /// Published bytes.
    ///
    /// # Safety
    /// The range must have been appended and published to the calling thread, and its chunks must
    /// not be given back while the slice lives.
    ///
    /// # Panics
    /// If the range is not within the pool.
    pub(crate) unsafe fn bytes(&self, offset: u64, bytes: u64) -> &[u8] {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.memory_bytes as u64), "a range of the pool");
        // SAFETY: the range lies in the mapping and, by the caller's promise, is not written to.
        unsafe {
            std::slice::from_raw_parts(self.memory.add(offset as usize).as_ptr(), bytes as usize)
        }
    }
}

impl Drop for ChunkPool {
    fn drop(&mut self) {
        // SAFETY: the mapping is this pool's, and its users are gone with their references.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.memory_bytes) };
    }
}

/// Which chunks are still needed; used by the build agent alone.
///
/// A chunk is freed when its lane has moved on to another and all its bytes were written to a frame
/// or discarded.
pub(crate) struct ChunkUse {
    pending_bytes: Vec<u32>,
    /// The chunk that each lane fills.
    current: Vec<Option<u32>>,
    held: Arc<Held>,
    /// The source of each lane.
    source_of: Vec<u32>,
    /// The lane that each chunk belongs to.
    owner: Vec<u32>,
    freed: Vec<u32>,
}

impl ChunkUse {
    /// Chunks of lanes that belong to these sources.
    pub(crate) fn new(pool: &ChunkPool, source_of: Vec<u32>, held: Arc<Held>) -> Self {
        Self {
            pending_bytes: vec![0; pool.chunk_count()],
            current: vec![None; source_of.len()],
            held,
            source_of,
            owner: vec![0; pool.chunk_count()],
            freed: Vec::new(),
        }
    }

    /// A fragment arrived.
    #[inline]
    pub(crate) fn arrived(&mut self, pool: &ChunkPool, lane: u32, offset: u64, bytes: u32) {
        if is_chain(offset) {
            return self.chain_arrived(pool, lane, Span { offset, bytes: bytes.into() });
        }
        let chunk = pool.chunk_of(offset);
        let current = &mut self.current[lane as usize];
        if *current != Some(chunk) {
            let sealed = current.replace(chunk);
            self.owner[chunk as usize] = lane;
            if let Some(sealed) = sealed.filter(|&sealed| self.pending_bytes[sealed as usize] == 0)
            {
                self.free(sealed);
            }
        }
        self.pending_bytes[chunk as usize] += bytes;
    }

    /// The chunks of a chain hold nothing else: the lane is filling none of them.
    #[cold]
    fn chain_arrived(&mut self, pool: &ChunkPool, lane: u32, span: Span) {
        for Span { offset, bytes } in pool.ranges(span) {
            let chunk = pool.chunk_of(offset) as usize;
            self.owner[chunk] = lane;
            self.pending_bytes[chunk] = bytes as u32;
        }
    }

    /// So many bytes of a lane are in a frame.
    pub(crate) fn framed(&self, lane: u32, bytes: u64) {
        self.held.framed(self.source_of[lane as usize], bytes);
    }

    /// A frame no longer needs a range of bytes.
    pub(crate) fn released(&mut self, pool: &ChunkPool, span: Span) {
        let lane = self.owner[pool.chunk_of(span.offset) as usize];
        self.held.released(self.source_of[lane as usize], span.bytes);
        self.done(pool, span.offset, span.bytes);
    }

    /// Marks a fragment, or a range of bytes that may span chunks, as no longer needed.
    pub(crate) fn done(&mut self, pool: &ChunkPool, offset: u64, bytes: u64) {
        // Looks up the next chunk of a chain before this one is freed.
        for Span { offset, bytes } in pool.ranges(Span { offset, bytes }) {
            self.range_done(pool, offset, bytes);
        }
    }

    fn range_done(&mut self, pool: &ChunkPool, offset: u64, bytes: u64) {
        let mut offset = offset;
        let end = offset + bytes;
        while offset < end {
            let chunk = pool.chunk_of(offset);
            let chunk_end = (u64::from(chunk) + 1) * pool.chunk_bytes() as u64;
            let part = end.min(chunk_end) - offset;
            let pending = &mut self.pending_bytes[chunk as usize];
            assert!(u64::from(*pending) >= part, "bytes are done with once");
            *pending -= part as u32;
            if *pending == 0 && self.current[self.owner[chunk as usize] as usize] != Some(chunk) {
                self.free(chunk);
            }
            offset += part;
        }
    }

    /// Frees the chunks that are no longer needed.
    pub(crate) fn give_back(&mut self, pool: &ChunkPool) {
        pool.give_back(&self.freed);
        self.freed.clear();
    }

    /// Whether no chunk is freed that is not given back.
    pub(crate) fn has_given_back(&self) -> bool {
        self.freed.is_empty()
    }

    fn free(&mut self, chunk: u32) {
        self.held.gave(self.source_of[self.owner[chunk as usize] as usize], 1);
        self.freed.push(chunk);
    }
}

/// Whether an offset names a chain of chunks instead of a byte.
#[inline]
pub(crate) fn is_chain(offset: u64) -> bool {
    offset & CHAIN != 0
}

#[cfg(test)]
mod tests;
