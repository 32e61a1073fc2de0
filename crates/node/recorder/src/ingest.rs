//! The parts that all receive agents share: memory to copy to, counts, and the ring to the build
//! agent.
//!
//! Counts are accumulated per source and added to the ledger before the descriptors are passed on,
//! so that nothing is recorded before it was received.
//!
//! Rules when something is full: without a free chunk (or with the source's share of chunks spent)
//! the fragment of a datagram is dropped and counted as `fragments_discarded_memory`, and a
//! connection is held; without room for descriptors nothing more is taken from the ingress,
//! datagrams queue in the socket, and the kernel's drops are counted as
//! `packets_dropped_by_kernel`.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use catchment_builder::{Fragment, SourceNote};
use catchment_model::{Entry, SourceId, SourceLedger};
use catchment_telemetry::FillLevel;
use catchment_wire::{PARTS_MAX, Reason};
use rtrb::{Producer, RingBuffer};

use crate::live::{Live, MalformedPacket};
use crate::live_link::LiveLink;
use crate::pool::{CHUNKS_BESIDE, Chunk, ChunkPool, Held, Reserve, Space};
use crate::senders::SenderPair;
use crate::train_room::TrainRoom;
use crate::unread::Look;

/// Malformed packets of one source, and rejected senders, are shown at most this often.
const SHOWN_EVERY_NS: u64 = 1_000_000_000;

/// A receive agent's memory, counts and descriptors.
pub(crate) struct Ingest {
    now_ns: u64,
    look: Look,
    accounts: Vec<Account>,
    dirty: Vec<usize>,
    // The chunks that are being filled, by the index that the intake gave them.
    chunks: Vec<Option<Chunk>>,
    batch: Vec<Fragment>,
    /// Descriptors gathered before they are passed on.
    batch_fragments: usize,
    /// Fragments of a source that waits which may be in no event.
    waiting_max: u32,
    /// The source of a port whose fragments name groups, by the builder's number, and what the last
    /// one named.
    reference: Option<u32>,
    named: Option<u16>,
    /// None once the last descriptor was passed on, and outside a run.
    ring: Option<Producer<Fragment>>,
    ring_fill: Arc<FillLevel>,
    /// Whether the last descriptor was passed on.
    is_over: bool,
    pool: Arc<ChunkPool>,
    /// What is set aside for the connection whose items are taken now, if they may use it.
    reserve: Option<Reserve>,
    trains: Option<Arc<TrainRoom>>,
    held: Arc<Held>,
    live: Arc<Live>,
}

/// The counts of one source.
struct Account {
    source: SourceId,
    /// How many chunks the source may hold.
    share: u32,
    counts: SourceLedger,
    dirty: bool,
    malformed_shown_ns: Option<u64>,
    rejected_shown_ns: Option<u64>,
}

/// Why a datagram is refused: a reason, and its index among the source's reasons.
#[derive(Clone, Copy)]
pub(crate) struct Refused {
    pub(crate) index: usize,
    pub(crate) reason: Reason,
}

/// State that the receive agents share.
#[derive(Clone)]
pub(crate) struct SourceMemory {
    pub(crate) pool: Arc<ChunkPool>,
    /// Where several sources send trains.
    pub(crate) trains: Option<Arc<TrainRoom>>,
    pub(crate) held: Arc<Held>,
    pub(crate) live: Arc<Live>,
    /// Descriptors that a receive agent gathers before it passes them on.
    pub(crate) batch_fragments: usize,
    /// Fragments of a source that waits which may be in no event.
    pub(crate) waiting_max: u32,
    /// The source of a port whose fragments name groups, by the builder's number.
    pub(crate) reference: Option<u32>,
}

impl Ingest {
    /// With an account for each of these sources, and the chunks that each may hold; it fills
    /// `chunk_count` chunks at a time.
    pub(crate) fn new(
        sources: impl Iterator<Item = (SourceId, u32)>,
        chunk_count: usize,
        (ring, ring_fill, look): (Producer<Fragment>, Arc<FillLevel>, Look),
        memory: &SourceMemory,
    ) -> Self {
        let accounts: Vec<_> = sources
            .map(|(source, share)| Account {
                source,
                share,
                counts: SourceLedger::default(),
                dirty: false,
                malformed_shown_ns: None,
                rejected_shown_ns: None,
            })
            .collect();
        let SourceMemory { pool, trains, held, live, .. } = memory.clone();
        Self {
            now_ns: 0,
            look,
            dirty: Vec::with_capacity(accounts.len()),
            accounts,
            chunks: (0..chunk_count).map(|_| None).collect(),
            // One message may exceed a full batch, with a note before each of its fragments.
            batch: Vec::with_capacity(memory.batch_fragments + 2 * PARTS_MAX),
            batch_fragments: memory.batch_fragments,
            waiting_max: memory.waiting_max,
            reference: memory.reference,
            named: None,
            ring: Some(ring),
            ring_fill,
            is_over: false,
            pool,
            reserve: None,
            trains,
            held,
            live,
        }
    }

    /// With accounts only: nobody takes a descriptor.
    pub(crate) fn outside(
        sources: impl Iterator<Item = (SourceId, u32)>,
        chunk_count: usize,
        memory: &SourceMemory,
    ) -> Self {
        let (ring, _) = RingBuffer::new(1);
        let ring = (ring, Arc::new(FillLevel::new("", 0)), Look::default());
        Self { ring: None, ..Self::new(sources, chunk_count, ring, memory) }
    }

    /// The counts of an account, which will be added to the ledger with the next batch.
    #[inline]
    pub(crate) fn counts(&mut self, account: usize) -> &mut SourceLedger {
        if !self.accounts[account].dirty {
            self.accounts[account].dirty = true;
            self.dirty.push(account);
        }
        &mut self.accounts[account].counts
    }

    /// Copies bytes to the end of a chunk, or of a new one, and returns the offset of the first;
    /// none if there is no memory for the account's source. They are no more than a chunk holds.
    /// `align` is a power of two.
    #[inline]
    pub(crate) fn store(
        &mut self,
        account: usize,
        chunk: usize,
        bytes: &[u8],
        align: usize,
    ) -> Option<u64> {
        let current = self.chunks[chunk].as_mut();
        let appended = current.and_then(|current| self.pool.append(current, bytes, align));
        appended.or_else(|| self.store_in_next_chunk(account, chunk, bytes))
    }

    /// Appends to a new chunk, if the source may have one and one is free. The build agent frees
    /// the old chunk, if any, when it sees that the source has moved on.
    #[cold]
    fn store_in_next_chunk(&mut self, account: usize, chunk: usize, bytes: &[u8]) -> Option<u64> {
        let mut next = self.take_chunk(account)?;
        let offset = self.pool.append(&mut next, bytes, 1);
        assert!(offset.is_some(), "the bytes fit in an empty chunk");
        self.chunks[chunk] = Some(next);
        offset
    }

    /// A new chunk, if the source may have one and one is free.
    fn take_chunk(&mut self, account: usize) -> Option<Chunk> {
        let Account { source, share, .. } = self.accounts[account];
        let has_share = self.held.in_share(source.0) < share;
        let own = if has_share { self.pool.take() } else { None };
        let next = own.or_else(|| self.reserve.as_mut()?.take())?;
        self.held.took(source.0, 1);
        Some(next)
    }

    /// Takes memory for a fragment of so many bytes, at least one, which are still to come: where
    /// [`store`](Self::store) would copy them, or in chunks of its own if it is longer than one.
    /// No other source may use that chunk.
    pub(crate) fn take_space(
        &mut self,
        account: usize,
        chunk: usize,
        bytes: u64,
        align: usize,
    ) -> Option<Space> {
        if bytes > self.pool.chunk_bytes() as u64 {
            let mut chunks = Vec::new();
            return self.take_chain(account, bytes, &mut chunks).then_some(Space::Chain(chunks));
        }
        let bytes = bytes as usize;
        let current = self.chunks[chunk].as_mut();
        let offset = match current.and_then(|one| self.pool.reserve(one, bytes, align)) {
            Some(offset) => offset,
            None => {
                let mut next = self.take_chunk(account)?;
                let offset = self.pool.reserve(&mut next, bytes, 1)?;
                self.chunks[chunk] = Some(next);
                offset
            }
        };
        Some(Space::Range { offset, bytes })
    }

    /// Gives memory back that was taken for a fragment which will not come.
    pub(crate) fn give_back_space(&mut self, account: usize, chunk: usize, space: Space) {
        match space {
            Space::Range { offset, bytes } => {
                if let Some(current) = &mut self.chunks[chunk] {
                    self.pool.give_back_range(current, offset, bytes);
                }
            }
            Space::Chain(mut chunks) => self.give_back_chain(account, &mut chunks),
        }
    }

    /// Takes chunks for a fragment that is assembled from parts, if the source's share allows it
    /// and enough chunks are free.
    pub(crate) fn take_chain(
        &mut self,
        account: usize,
        bytes: u64,
        chunks: &mut Vec<Chunk>,
    ) -> bool {
        let Account { source: SourceId(source), share, .. } = self.accounts[account];
        let count = bytes.div_ceil(self.pool.chunk_bytes() as u64);
        let own = u64::from(self.held.in_share(source)) + count <= u64::from(share)
            && self.pool.take_chain(bytes, chunks);
        let reserve = self.reserve.as_mut();
        let taken = own || reserve.is_some_and(|one| one.take_chain(count as usize, chunks));
        if taken {
            self.held.took(source, count as u32);
        }
        taken
    }

    /// As [`take_chain`](Self::take_chain), for the fragment of that number. A train gets memory in
    /// all its sources, or in none.
    pub(crate) fn take_chain_of(
        &mut self,
        account: usize,
        (number, bytes): (u64, u64),
        chunks: &mut Vec<Chunk>,
    ) -> bool {
        let source = self.accounts[account].source.0;
        match self.trains.clone().filter(|trains| trains.has(source)) {
            None => self.take_chain(account, bytes, chunks),
            Some(trains) => {
                let whole = bytes.next_multiple_of(self.pool.chunk_bytes() as u64);
                let (pool, now_ns) = (Arc::clone(&self.pool), self.now_ns);
                let free = || pool.free_bytes();
                let take = || self.take_chain(account, bytes, chunks);
                trains.take((number, whole), now_ns, free, take)
            }
        }
    }

    /// Whether the train of that number, of which a packet brings the whole of an account's source,
    /// is recorded. So is every fragment that is no train.
    #[inline]
    pub(crate) fn has_train(&self, account: usize, number: u64) -> bool {
        let source = self.accounts[account].source.0;
        self.trains.as_ref().filter(|trains| trains.has(source)).is_none_or(|trains| {
            trains.take((number, 0), self.now_ns, || self.pool.free_bytes(), || true)
        })
    }

    /// Whether a source's share allows a fragment of that length beside so many chunks.
    pub(crate) fn has_share(&self, account: usize, chunks: u64, bytes: u64) -> bool {
        let count = bytes.div_ceil(self.pool.chunk_bytes() as u64);
        chunks + count + CHUNKS_BESIDE <= u64::from(self.accounts[account].share)
    }

    /// Frees the chunks of an unfinished fragment.
    pub(crate) fn give_back_chain(&mut self, account: usize, chunks: &mut Vec<Chunk>) {
        self.held.gave(self.accounts[account].source.0, chunks.len() as u32);
        self.pool.take_back(chunks);
    }

    /// Lets what is taken from now on use a reserve, or no more. Returns what it could use before.
    pub(crate) fn lend(&mut self, reserve: Option<Reserve>) -> Option<Reserve> {
        std::mem::replace(&mut self.reserve, reserve)
    }

    /// A reserve for so many bytes of a connection with these sources, by account and the builder's
    /// number; none if so much cannot be set aside now.
    pub(crate) fn set_aside(&self, bytes: u64, sources: &[(usize, u32)]) -> Option<Reserve> {
        Reserve::new(&self.pool, (bytes, sources.len()), self.excess(sources))
    }

    /// How many chunks these sources hold beyond their shares.
    pub(crate) fn excess(&self, sources: &[(usize, u32)]) -> usize {
        let of_one = |&(account, _): &(usize, u32)| {
            let Account { source, share, .. } = self.accounts[account];
            self.held.in_share(source.0).saturating_sub(share) as usize
        };
        sources.iter().map(of_one).sum()
    }

    /// Whether the next event waits for an account's source, whose connection is held.
    pub(crate) fn is_awaited(&self, account: usize) -> bool {
        self.held.is_awaited(self.accounts[account].source.0)
    }

    /// See [`Held::calm`].
    pub(crate) fn calm(&self) -> u64 {
        self.held.calm()
    }

    /// Where payload is stored.
    pub(crate) fn pool(&self) -> &ChunkPool {
        &self.pool
    }

    /// A cycle begins at that time.
    pub(crate) fn begin_cycle(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        self.look.set(now_ns);
    }

    /// All that stood in the endpoints when the cycle began is taken and passed on.
    pub(crate) fn has_emptied_endpoints(&self) {
        self.look.set_emptied(self.now_ns);
    }

    /// When the cycle began.
    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Adds a descriptor to the batch.
    #[inline(always)]
    pub(crate) fn describe(&mut self, fragment: Fragment) {
        self.batch.push(fragment);
        if self.batch.len() == self.batch_fragments {
            self.pass_on();
        }
    }

    /// The next fragment that is described, of that source, names these groups. Of the reference
    /// source a note says so, wherever they change.
    #[inline(always)]
    pub(crate) fn name(&mut self, source: u32, groups: u16) {
        if self.reference == Some(source) && self.named != Some(groups) {
            self.named = Some(groups);
            self.describe(Fragment::said(source, SourceNote::Named(groups.into())));
        }
    }

    /// Whether the builder has room for another fragment of an account's source, which waits.
    #[inline]
    pub(crate) fn has_place(&self, account: usize) -> bool {
        self.held.waiting(self.accounts[account].source.0) < self.waiting_max
    }

    /// A connection that delivers an account's source is held, or no longer.
    pub(crate) fn set_held(&self, account: usize, is_held: bool) {
        let SourceId(source) = self.accounts[account].source;
        match is_held {
            true => self.held.hold(source),
            false => self.held.release(source),
        }
    }

    /// The counts of what befalls the connections of an account's source; none once the last
    /// descriptor was passed on, since all of them end then.
    pub(crate) fn link(&self, account: usize) -> Option<&LiveLink> {
        let source = self.accounts[account].source;
        (!self.is_over).then(|| &self.live.links[source.index()])
    }

    /// Adds a descriptor of an account's source, which waits, to the batch.
    #[inline]
    pub(crate) fn describe_waiting(&mut self, account: usize, fragment: Fragment) {
        self.held.passed_on(self.accounts[account].source.0);
        self.describe(fragment);
    }

    /// Whether there is room for the descriptors of another message.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.batch.len() < self.batch_fragments
    }

    /// Passes descriptors on to the build agent as far as its ring has room, and returns whether
    /// all were passed on. The counts go first: nothing is recorded before it was received.
    pub(crate) fn pass_on(&mut self) -> bool {
        self.flush_counts();
        let Some(ring) = &mut self.ring else {
            // Nobody takes a descriptor any more.
            self.batch.clear();
            return true;
        };
        let room = ring.slots().min(self.batch.len());
        if room > 0
            && let Ok(chunk) = ring.write_chunk_uninit(room)
        {
            chunk.fill_from_iter(self.batch.drain(..room));
            self.ring_fill.put((room * size_of::<Fragment>()) as u64);
        }
        if ring.is_abandoned() {
            // The build agent has failed; that is reported elsewhere.
            self.batch.clear();
        }
        self.batch.is_empty()
    }

    /// Tells the build agent that all descriptors were passed on.
    pub(crate) fn end(&mut self) {
        (self.ring, self.is_over) = (None, true);
    }

    /// Adds the counts to the ledger; but what comes behind the last descriptor is of no run, and
    /// the run's last frame, which has its totals, may be made.
    fn flush_counts(&mut self) {
        for account in self.dirty.drain(..) {
            let account = &mut self.accounts[account];
            account.dirty = false;
            if self.is_over {
                account.counts = SourceLedger::default();
                continue;
            }
            for (entry, count) in account.counts.iter() {
                self.live.ledger.add(account.source, entry, count);
            }
            for (reason, &count) in account.counts.reasons.iter().enumerate() {
                self.live.ledger.add_reason(account.source, reason, count);
            }
            account.counts = SourceLedger::default();
        }
    }

    /// Counts for an account.
    pub(crate) fn count(&mut self, account: usize, entry: Entry, count: u64) {
        self.counts(account)[entry] += count;
    }

    /// Whether the builder has taken all descriptors and waits for nothing.
    pub(crate) fn is_settled(&self) -> bool {
        let is_taken = |ring: &Producer<Fragment>| ring.slots() == ring.buffer().capacity();
        self.ring.as_ref().is_none_or(is_taken) && self.live.settled.load(Acquire)
    }

    /// Whether no further arrival belongs to the run.
    pub(crate) fn is_past_end(&self) -> bool {
        self.live.past_end.load(Relaxed)
    }

    /// Adds a warning, once.
    pub(crate) fn warn_once(&self, warning: String) {
        self.live.warn_once(warning);
    }

    /// Counts a message that arrived.
    #[inline]
    pub(crate) fn received(&mut self, account: usize, bytes: &[u8]) {
        let counts = self.counts(account);
        counts[Entry::PacketsReceived] += 1;
        counts[Entry::PacketBytesReceived] += bytes.len() as u64;
    }

    /// Counts a message that is dropped whole, and occasionally keeps the beginning of one for
    /// diagnosis.
    #[cold]
    pub(crate) fn malformed(
        &mut self,
        account: usize,
        Refused { index, reason }: Refused,
        explain: impl FnOnce() -> String,
        bytes: &[u8],
    ) {
        let counts = self.counts(account);
        counts[reason.kind] += 1;
        counts.reasons[index] += 1;
        self.show_malformed(account, explain, bytes);
    }

    /// Occasionally keeps the beginning of a message for diagnosis, and why it is none.
    #[cold]
    pub(crate) fn show_malformed(
        &mut self,
        account: usize,
        explain: impl FnOnce() -> String,
        bytes: &[u8],
    ) {
        let account = &mut self.accounts[account];
        if !due(&mut account.malformed_shown_ns, self.now_ns) {
            return;
        }
        self.live.show_malformed(MalformedPacket {
            source: account.source,
            reason: explain(),
            first_bytes: bytes[..bytes.len().min(64)].to_vec(),
        });
    }

    /// Publishes which two senders an account's source has, or that there is only one.
    pub(crate) fn show_senders(&self, account: usize, pair: Option<SenderPair>) {
        self.live.show_senders(self.accounts[account].source, pair);
    }

    /// Counts what arrived from a sender that the source's `from` does not allow.
    #[cold]
    pub(crate) fn reject(&mut self, account: usize, sender: Option<IpAddr>, bytes: usize) {
        let counts = self.counts(account);
        counts[Entry::PacketsRefused] += 1;
        counts[Entry::PacketBytesRefused] += bytes as u64;
        let account = &mut self.accounts[account];
        if let Some(sender) = sender
            && due(&mut account.rejected_shown_ns, self.now_ns)
        {
            self.live.show_rejected_sender(account.source, sender);
        }
    }
}

/// Whether something last shown at that time may be shown again; if so, sets the time to now.
pub(crate) fn due(shown_ns: &mut Option<u64>, now_ns: u64) -> bool {
    let due = shown_ns.is_none_or(|shown| now_ns.saturating_sub(shown) >= SHOWN_EVERY_NS);
    if due {
        *shown_ns = Some(now_ns);
    }
    due
}
