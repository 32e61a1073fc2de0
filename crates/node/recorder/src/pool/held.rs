//! What each source holds of a pool, and what the build agent says of sources that are held.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// What each source holds: receive agents increase the counts, the build agent decreases them. And
/// what the build agent says of sources that are held.
#[derive(Debug)]
pub(crate) struct Held {
    chunks: Box<[AtomicU32]>,
    /// Where every source waits: of each, the bytes in frames that no target has written yet.
    in_frames: Box<[AtomicU64]>,
    chunk_bytes: u64,
    /// Of sources that wait: fragments that the build agent has not taken yet, and those that it
    /// has taken and that are in no event.
    passed_on: Box<[AtomicU32]>,
    parked: Box<[AtomicU32]>,
    /// Of each source, its connections that are held, or take chunks that are set aside.
    connections: Box<[AtomicU32]>,
    /// Of each source whose connection is held, whether the next event waits for it.
    awaited: Box<[AtomicBool]>,
    /// While no event is closed and not written yet, so that no memory will come free before
    /// another one closes: which such time that is. Otherwise 0.
    calm: AtomicU64,
}

impl Held {
    /// Of so many sources; with the bytes of a chunk if every one of them waits.
    pub(crate) fn new(source_count: usize, chunk_bytes: Option<usize>) -> Self {
        let zeros = || (0..source_count).map(|_| AtomicU32::new(0)).collect();
        let waiting_count = chunk_bytes.map_or(0, |_| source_count);
        Self {
            chunks: zeros(),
            in_frames: (0..waiting_count).map(|_| AtomicU64::new(0)).collect(),
            chunk_bytes: chunk_bytes.unwrap_or(1) as u64,
            passed_on: zeros(),
            parked: zeros(),
            connections: zeros(),
            awaited: (0..source_count).map(|_| AtomicBool::new(false)).collect(),
            calm: AtomicU64::new(0),
        }
    }

    pub(crate) fn of(&self, source: u32) -> u32 {
        self.chunks[source as usize].load(Relaxed)
    }

    /// How many of a source's chunks count towards its share. Where every source waits, those that
    /// frames fill do not: nobody loses anything if these take all memory while targets pause.
    /// Where a source cannot wait, they leave room for what it sends.
    pub(crate) fn in_share(&self, source: u32) -> u32 {
        let in_frames = self.in_frames.get(source as usize).map_or(0, |bytes| bytes.load(Relaxed));
        let filled = (in_frames / self.chunk_bytes).try_into().unwrap_or(u32::MAX);
        self.of(source).saturating_sub(filled)
    }

    /// So many bytes of a source are in a frame.
    pub(crate) fn framed(&self, source: u32, bytes: u64) {
        if let Some(all) = self.in_frames.get(source as usize) {
            all.fetch_add(bytes, Relaxed);
        }
    }

    /// A frame no longer needs so many bytes of a source.
    pub(crate) fn released(&self, source: u32, bytes: u64) {
        if let Some(all) = self.in_frames.get(source as usize) {
            all.fetch_sub(bytes, Relaxed);
        }
    }

    pub(crate) fn took(&self, source: u32, chunks: u32) {
        self.chunks[source as usize].fetch_add(chunks, Relaxed);
    }

    pub(crate) fn gave(&self, source: u32, chunks: u32) {
        self.chunks[source as usize].fetch_sub(chunks, Relaxed);
    }

    /// Fragments of a source that waits and that are in no event.
    pub(crate) fn waiting(&self, source: u32) -> u32 {
        // In this order: a fragment that is parked meanwhile counts twice, and not never.
        let passed_on = self.passed_on[source as usize].load(Acquire);
        passed_on.saturating_add(self.parked[source as usize].load(Relaxed))
    }

    /// A connection of a source is held from now on.
    pub(crate) fn hold(&self, source: u32) {
        self.connections[source as usize].fetch_add(1, Relaxed);
    }

    /// A connection of a source is no longer held.
    pub(crate) fn release(&self, source: u32) {
        self.connections[source as usize].fetch_sub(1, Relaxed);
    }

    /// Whether a connection of a source is held.
    pub(crate) fn is_held(&self, source: u32) -> bool {
        self.connections[source as usize].load(Relaxed) > 0
    }

    /// Whether the next event waits for a source whose connection is held.
    pub(crate) fn is_awaited(&self, source: u32) -> bool {
        self.awaited[source as usize].load(Relaxed)
    }

    /// The build agent says whether the next event waits for a source.
    pub(crate) fn show_awaited(&self, source: u32, is_awaited: bool) {
        self.awaited[source as usize].store(is_awaited, Relaxed);
    }

    /// The time in which nothing is on its way to the targets, or 0. What was freed before it is
    /// free for who asks.
    pub(crate) fn calm(&self) -> u64 {
        self.calm.load(Acquire)
    }

    /// The build agent has given all memory back that can be, or not.
    pub(crate) fn show_calm(&self, calm: u64) {
        self.calm.store(calm, Release);
    }

    /// A fragment of a source that waits is passed on to the build agent.
    pub(crate) fn passed_on(&self, source: u32) {
        self.passed_on[source as usize].fetch_add(1, Relaxed);
    }

    /// The build agent has taken so many fragments of a source that waits, and `parked` are parked
    /// now.
    pub(crate) fn built(&self, source: u32, taken: u32, parked: usize) {
        self.parked[source as usize].store(parked.try_into().unwrap_or(u32::MAX), Relaxed);
        self.passed_on[source as usize].fetch_sub(taken, Release);
    }
}
