//! The receive thread: from datagrams to fragments in segments.
//!
//! For every datagram: decode, copy each sub-event to the end of its source's chunk, and pass a
//! 24-byte descriptor on. Counts are gathered per source and added to the ledger before
//! the descriptors are passed on.
//!
//! Rules when something is full: without a free chunk (or with the source's share of chunks spent)
//! the sub-event is dropped and counted as `fragments_discarded_memory`; without room for descriptors
//! the thread waits, datagrams queue in the socket, and what the kernel then drops is counted as
//! `packets_dropped_by_kernel`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use catchment_builder::{Fragment, FragmentFlags};
use catchment_model::{Entry, SourceId, SourceLedger};
use catchment_net::UdpReceiver;
use catchment_telemetry::FillLevel;
use catchment_wire::hadtu::{Packet, PacketError, SubEvent};
use rtrb::Producer;

use crate::live::{Live, MalformedPacket};
use crate::pool::{Chunk, ChunkPool, Held};

/// Descriptors gathered before they are passed on.
const BATCH_FRAGMENTS: usize = 4_096;
/// How long one cycle may wait for datagrams; bounds how fast the thread sees that it should stop.
const WAIT_MAX: Duration = Duration::from_millis(20);
/// After the stop, sockets must have been empty for this long before they count as drained.
const DRAIN_QUIET: Duration = Duration::from_millis(50);
/// How long to leave a full ring to the build thread.
const RING_FULL_SLEEP: Duration = Duration::from_micros(200);
/// How often the kernel is asked for its drop counts.
const REFRESH_DROPS_EVERY: Duration = Duration::from_secs(1);
/// How long sources that go on sending after the stop can hold it up.
const DRAIN_MAX: Duration = Duration::from_secs(1);
/// Malformed packets of one source are shown at most this often.
const MALFORMED_SHOWN_EVERY: Duration = Duration::from_secs(1);

/// A receive thread's state.
pub(crate) struct Receive {
    receiver: UdpReceiver,
    output: Output,
    stop: Arc<AtomicBool>,
}

struct Output {
    sources: Vec<Source>,
    dirty: Vec<usize>,
    batch: Vec<Fragment>,
    ring: Producer<Fragment>,
    ring_fill: Arc<FillLevel>,
    pool: Arc<ChunkPool>,
    held: Arc<Held>,
    live: Arc<Live>,
}

struct Source {
    id: SourceId,
    sub_event_id: Option<u32>,
    chunk: Option<Chunk>,
    counts: SourceLedger,
    dirty: bool,
    malformed_shown: Option<Instant>,
}

impl Receive {
    /// A thread's state for these sources, whose sockets the receiver has in the same order.
    pub(crate) fn new(
        receiver: UdpReceiver,
        sources: impl Iterator<Item = (SourceId, Option<u32>)>,
        ring: Producer<Fragment>,
        ring_fill: Arc<FillLevel>,
        shared: (&Arc<ChunkPool>, &Arc<Held>, &Arc<Live>, &Arc<AtomicBool>),
    ) -> Self {
        let (pool, held, live, stop) = shared;
        let sources: Vec<_> = sources
            .map(|(id, sub_event_id)| Source {
                id,
                sub_event_id,
                chunk: None,
                counts: SourceLedger::default(),
                dirty: false,
                malformed_shown: None,
            })
            .collect();
        let output = Output {
            dirty: Vec::with_capacity(sources.len()),
            sources,
            batch: Vec::with_capacity(BATCH_FRAGMENTS),
            ring,
            ring_fill,
            pool: Arc::clone(pool),
            held: Arc::clone(held),
            live: Arc::clone(live),
        };
        Self { receiver, output, stop: Arc::clone(stop) }
    }

    /// Receives until told to stop and the sockets are empty, or not empty for too long. Dropping the
    /// ring's end tells the build thread.
    pub(crate) fn run(mut self) {
        let mut quiet_since: Option<Instant> = None;
        let mut stopping_since: Option<Instant> = None;
        let mut refreshed = Instant::now();
        loop {
            // Datagrams that a socket drops last are not told of by any later datagram.
            if refreshed.elapsed() >= REFRESH_DROPS_EVERY {
                self.receiver.refresh_drops();
                refreshed = Instant::now();
            }
            let stopping = self.stop.load(Relaxed);
            let datagrams = self.cycle(if stopping { Duration::from_millis(1) } else { WAIT_MAX });
            if stopping && stopping_since.get_or_insert_with(Instant::now).elapsed() >= DRAIN_MAX {
                break;
            }
            if !stopping || datagrams > 0 {
                quiet_since = None;
            } else if quiet_since.get_or_insert_with(Instant::now).elapsed() >= DRAIN_QUIET {
                break;
            }
        }
        self.receiver.refresh_drops();
        self.cycle(Duration::ZERO);
    }

    fn cycle(&mut self, wait_max: Duration) -> u64 {
        let output = &mut self.output;
        let result = self.receiver.poll(wait_max, |socket, bytes| output.datagram(socket, bytes));
        self.receiver.take_drops(|socket, drops| {
            output.count(socket, Entry::PacketsDroppedByKernel, drops);
        });
        if let Some((socket, error)) = self.receiver.take_error() {
            let source = output.sources[socket].id;
            output.live.warn_once(format!("source {source}: receiving: {error}"));
        }
        output.pass_on();
        match result {
            Ok(work) => work.datagrams,
            Err(error) => {
                output.live.warn_once(format!("receiving: {error}"));
                0
            }
        }
    }
}

impl Output {
    #[inline]
    fn datagram(&mut self, socket: usize, bytes: &[u8]) {
        self.mark(socket);
        let counts = &mut self.sources[socket].counts;
        counts[Entry::PacketsReceived] += 1;
        counts[Entry::PacketBytesReceived] += bytes.len() as u64;
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(error) => {
                counts[error.entry()] += 1;
                self.show_malformed(socket, &error, bytes);
                return;
            }
        };
        counts[Entry::PacketsAccepted] += 1;
        for sub_event in packet.sub_events() {
            self.fragment(socket, &sub_event);
        }
    }

    #[inline]
    fn fragment(&mut self, socket: usize, sub_event: &SubEvent<'_>) {
        let source = &mut self.sources[socket];
        source.counts[Entry::FragmentsReceived] += 1;
        source.counts[Entry::FragmentBytesReceived] += sub_event.bytes.len() as u64;
        if source.sub_event_id.is_some_and(|expected| expected != sub_event.id) {
            source.counts[Entry::FragmentsUnknownSource] += 1;
            return;
        }
        let appended =
            source.chunk.as_mut().and_then(|chunk| self.pool.append(chunk, sub_event.bytes));
        let Some(offset) = appended.or_else(|| self.append_to_next_chunk(socket, sub_event.bytes))
        else {
            self.sources[socket].counts[Entry::FragmentsDiscardedMemory] += 1;
            return;
        };
        let flags = if sub_event.error { FragmentFlags::SENDER_ERROR } else { 0 };
        self.batch.push(Fragment {
            offset,
            source: self.sources[socket].id.0,
            number: sub_event.trigger_number,
            bytes: sub_event.bytes.len() as u32,
            tag: sub_event.trigger_tag,
            flags,
            pad: 0,
        });
        if self.batch.len() == BATCH_FRAGMENTS {
            self.pass_on();
            self.mark(socket);
        }
    }

    /// Appends to a new chunk, if the source may have one and there is one. The old chunk, if any, is
    /// given back by the build thread, which sees that the source has gone on.
    #[cold]
    fn append_to_next_chunk(&mut self, socket: usize, bytes: &[u8]) -> Option<u64> {
        let source = &mut self.sources[socket];
        if self.held.of(source.id.0) >= self.pool.share() {
            return None;
        }
        let mut chunk = self.pool.take()?;
        self.held.took(source.id.0);
        let offset = self.pool.append(&mut chunk, bytes);
        assert!(offset.is_some(), "a datagram fits in an empty chunk");
        source.chunk = Some(chunk);
        offset
    }

    /// Passes the batch on to the build thread, which never waits for anybody, so that a full ring
    /// drains soon. The counts go first: nothing is recorded before it was received.
    fn pass_on(&mut self) {
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

    fn count(&mut self, socket: usize, entry: Entry, count: u64) {
        self.mark(socket);
        self.sources[socket].counts[entry] += count;
    }

    #[inline]
    fn mark(&mut self, socket: usize) {
        if !self.sources[socket].dirty {
            self.sources[socket].dirty = true;
            self.dirty.push(socket);
        }
    }

    fn flush_counts(&mut self) {
        for socket in self.dirty.drain(..) {
            let source = &mut self.sources[socket];
            source.dirty = false;
            for (entry, count) in source.counts.iter() {
                self.live.ledger.add(source.id, entry, count);
            }
            source.counts = SourceLedger::default();
        }
    }

    #[cold]
    fn show_malformed(&mut self, socket: usize, error: &PacketError, bytes: &[u8]) {
        let source = &mut self.sources[socket];
        if source.malformed_shown.is_some_and(|shown| shown.elapsed() < MALFORMED_SHOWN_EVERY) {
            return;
        }
        source.malformed_shown = Some(Instant::now());
        self.live.show_malformed(MalformedPacket {
            source: source.id,
            reason: error.to_string(),
            first_bytes: bytes[..bytes.len().min(64)].to_vec(),
        });
    }
}
