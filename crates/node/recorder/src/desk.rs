//! What every receive thread has: memory to copy to, counts to keep, and the way to the build
//! thread.
//!
//! Counts are gathered per source and added to the ledger before the descriptors are passed on, so
//! that nothing is recorded before it was received.
//!
//! Rules when something is full: without a free chunk (or with the source's share of chunks spent)
//! the fragment is dropped and counted as `fragments_discarded_memory`; without room for
//! descriptors the thread waits, datagrams queue in the socket, and what the kernel then drops is
//! counted as `packets_dropped_by_kernel`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use catchment_builder::Fragment;
use catchment_model::{Entry, SourceId, SourceLedger};
use catchment_net::Refused;
use catchment_telemetry::FillLevel;
use rtrb::Producer;

use crate::live::{Live, MalformedPacket};
use crate::pool::{Chunk, ChunkPool, Held};

/// Descriptors gathered before they are passed on.
const BATCH_FRAGMENTS: usize = 4_096;
/// How long to leave a full ring to the build thread.
const RING_FULL_SLEEP: Duration = Duration::from_micros(200);
/// Malformed packets of one source, and who else sends to it, are shown at most this often.
const SHOWN_EVERY: Duration = Duration::from_secs(1);

/// A receive thread's memory, counts and descriptors.
pub(crate) struct Desk {
    sockets: Vec<Socket>,
    dirty: Vec<usize>,
    // The chunks that are being filled, by the place that the intake gave them.
    chunks: Vec<Option<Chunk>>,
    batch: Vec<Fragment>,
    ring: Producer<Fragment>,
    ring_fill: Arc<FillLevel>,
    pool: Arc<ChunkPool>,
    held: Arc<Held>,
    live: Arc<Live>,
}

/// Counts of the source that sends to a socket.
struct Socket {
    source: SourceId,
    counts: SourceLedger,
    dirty: bool,
    malformed_shown: Option<Instant>,
    refused_shown: Option<Instant>,
}

/// What receive threads share.
#[derive(Clone)]
pub(crate) struct Memory {
    pub(crate) pool: Arc<ChunkPool>,
    pub(crate) held: Arc<Held>,
    pub(crate) live: Arc<Live>,
}

impl Desk {
    /// A desk for the sources of these sockets, that fills so many chunks at a time.
    pub(crate) fn new(
        sources: impl Iterator<Item = SourceId>,
        chunk_count: usize,
        ring: Producer<Fragment>,
        ring_fill: Arc<FillLevel>,
        memory: &Memory,
    ) -> Self {
        let sockets: Vec<_> = sources
            .map(|source| Socket {
                source,
                counts: SourceLedger::default(),
                dirty: false,
                malformed_shown: None,
                refused_shown: None,
            })
            .collect();
        let Memory { pool, held, live } = memory.clone();
        Self {
            dirty: Vec::with_capacity(sockets.len()),
            sockets,
            chunks: (0..chunk_count).map(|_| None).collect(),
            batch: Vec::with_capacity(BATCH_FRAGMENTS),
            ring,
            ring_fill,
            pool,
            held,
            live,
        }
    }

    /// The counts of a socket's source, which will be added to the ledger with the next batch.
    #[inline]
    pub(crate) fn counts(&mut self, socket: usize) -> &mut SourceLedger {
        if !self.sockets[socket].dirty {
            self.sockets[socket].dirty = true;
            self.dirty.push(socket);
        }
        &mut self.sockets[socket].counts
    }

    /// The source that sends to a socket.
    #[inline]
    pub(crate) fn source(&self, socket: usize) -> SourceId {
        self.sockets[socket].source
    }

    /// Copies bytes to the end of a chunk, or of a new one: the offset of the first. None where
    /// there is no memory for the socket's source. `align` is a power of two.
    #[inline]
    pub(crate) fn store(
        &mut self,
        socket: usize,
        chunk: usize,
        bytes: &[u8],
        align: usize,
    ) -> Option<u64> {
        let current = self.chunks[chunk].as_mut();
        let appended = current.and_then(|current| self.pool.append(current, bytes, align));
        appended.or_else(|| self.store_in_next_chunk(socket, chunk, bytes))
    }

    /// Appends to a new chunk, if the source may have one and there is one. The old chunk, if any,
    /// is given back by the build thread, which sees that the source has gone on.
    #[cold]
    fn store_in_next_chunk(&mut self, socket: usize, chunk: usize, bytes: &[u8]) -> Option<u64> {
        let source = self.sockets[socket].source;
        if self.held.of(source.0) >= self.pool.share() {
            return None;
        }
        let mut next = self.pool.take()?;
        self.held.took(source.0);
        let offset = self.pool.append(&mut next, bytes, 1);
        assert!(offset.is_some(), "a datagram fits in an empty chunk");
        self.chunks[chunk] = Some(next);
        offset
    }

    /// Adds a descriptor to the batch.
    #[inline]
    pub(crate) fn describe(&mut self, fragment: Fragment) {
        self.batch.push(fragment);
        if self.batch.len() == BATCH_FRAGMENTS {
            self.pass_on();
        }
    }

    /// Passes the batch on to the build thread, which never waits for anybody, so that a full ring
    /// drains soon. The counts go first: nothing is recorded before it was received.
    pub(crate) fn pass_on(&mut self) {
        self.flush_counts();
        let mut rest = &self.batch[..];
        while !rest.is_empty() && !self.ring.is_abandoned() {
            let room = self.ring.slots().min(rest.len());
            if room == 0 {
                // Not a spin: the build thread may need this very CPU.
                std::thread::sleep(RING_FULL_SLEEP);
                continue;
            }
            let (now, later) = rest.split_at(room);
            if let Ok(chunk) = self.ring.write_chunk_uninit(room) {
                chunk.fill_from_iter(now.iter().copied());
                self.ring_fill.put((room * size_of::<Fragment>()) as u64);
                rest = later;
            }
        }
        self.batch.clear();
    }

    fn flush_counts(&mut self) {
        for socket in self.dirty.drain(..) {
            let socket = &mut self.sockets[socket];
            socket.dirty = false;
            for (entry, count) in socket.counts.iter() {
                self.live.ledger.add(socket.source, entry, count);
            }
            socket.counts = SourceLedger::default();
        }
    }

    /// Counts for a socket's source.
    pub(crate) fn count(&mut self, socket: usize, entry: Entry, count: u64) {
        self.counts(socket)[entry] += count;
    }

    /// Whether nothing that still comes belongs to the run.
    pub(crate) fn is_past_end(&self) -> bool {
        self.live.past_end.load(Relaxed)
    }

    /// Tells people something once.
    pub(crate) fn warn_once(&self, warning: String) {
        self.live.warn_once(warning);
    }

    /// Counts a datagram that came.
    #[inline]
    pub(crate) fn received(&mut self, socket: usize, bytes: &[u8]) {
        let counts = self.counts(socket);
        counts[Entry::PacketsReceived] += 1;
        counts[Entry::PacketBytesReceived] += bytes.len() as u64;
    }

    /// Counts a datagram that is dropped whole, and keeps the beginning of one for diagnosis, now
    /// and then.
    #[cold]
    pub(crate) fn malformed(
        &mut self,
        socket: usize,
        entry: Entry,
        reason: &dyn std::fmt::Display,
        bytes: &[u8],
    ) {
        self.counts(socket)[entry] += 1;
        let socket = &mut self.sockets[socket];
        if !due(&mut socket.malformed_shown) {
            return;
        }
        self.live.show_malformed(MalformedPacket {
            source: socket.source,
            reason: reason.to_string(),
            first_bytes: bytes[..bytes.len().min(64)].to_vec(),
        });
    }

    /// Counts datagrams that came from elsewhere, and tells from where, now and then.
    #[cold]
    pub(crate) fn refused(&mut self, socket: usize, refused: &Refused) {
        self.count(socket, Entry::PacketsRefused, refused.datagrams);
        self.count(socket, Entry::PacketBytesRefused, refused.bytes);
        let socket = &mut self.sockets[socket];
        if let Some(sender) = refused.sender
            && due(&mut socket.refused_shown)
        {
            self.live.show_stranger(socket.source, sender);
        }
    }
}

/// Whether something that was last shown then may be shown again; if so, it was now.
fn due(shown: &mut Option<Instant>) -> bool {
    let due = shown.is_none_or(|shown| shown.elapsed() >= SHOWN_EVERY);
    if due {
        *shown = Some(Instant::now());
    }
    due
}
