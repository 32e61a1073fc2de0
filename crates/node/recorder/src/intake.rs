//! Handles datagrams: their sender's decoder finds the fragments in them, whole fragments are
//! copied to the chunk of their source, and parts of longer ones are assembled (`parts.rs`).
//!
//! A sender delivers one source or many. A decoder numbers the sources of its sender in *lanes*;
//! the builder numbers the sources of all senders.

use std::net::SocketAddr;
use std::sync::Arc;

use catchment_builder::{Fragment, FragmentFlags};
use catchment_model::{Entry, SourceId};
use catchment_wire::sequence::{Arrival, Gaps};
use catchment_wire::{Decoder, Part, PartFlags, Protocol, RECEIVER_REASONS};

use crate::config::SourceConfig;
use crate::ingest::{DATAGRAM_FRAGMENTS, Ingest, Refused};
use crate::parts::{Arrived, Parts};
use crate::senders::Senders;

/// How often unfinished fragments are checked, as a fraction of the time-out.
const LOOKS_PER_TIMEOUT: u64 = 8;

/// The senders that one thread receives from, one per socket.
pub(crate) struct Intake {
    ingest: Ingest,
    senders: Vec<Sender>,
    /// The contents of the current datagram.
    parts: Vec<Part>,
    timeout_ns: u64,
    look_due_ns: u64,
}

/// A sender, as the configuration describes it.
#[derive(Clone, Debug)]
pub(crate) struct SenderConfig {
    /// Its number in the ledger.
    pub(crate) number: SourceId,
    pub(crate) protocol: Arc<dyn Protocol>,
    /// The id that its fragments must carry.
    pub(crate) id: Option<u32>,
    pub(crate) fragment_bytes_max: u64,
    /// The warning about big-endian fragments, if they matter; it is issued once.
    pub(crate) if_big_endian: Option<String>,
    /// Whether strangers are distinguished from it by their addresses.
    pub(crate) tells_strangers: bool,
    /// The destinations of its sources' fragments, by lane; at least one.
    pub(crate) lanes: Vec<Destination>,
}

/// The destination of a source's fragments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    /// The source's number in the builder.
    pub(crate) source: u32,
    /// The chunk to which they are copied; several sources may share one.
    pub(crate) chunk: u32,
    /// Their alignment in the chunk, in bytes: a power of two.
    pub(crate) align: usize,
}

struct Sender {
    config: SenderConfig,
    /// The destination of lane 0, which for most senders is the only one: here it is looked up once
    /// per datagram, not once per part.
    first: Destination,
    decoder: Box<dyn Decoder>,
    gaps: Gaps,
    unfinished: Parts,
    addresses: Senders,
}

impl Sender {
    fn new(config: SenderConfig) -> Self {
        Self {
            decoder: config.protocol.decoder(),
            first: config.lanes[0],
            config,
            gaps: Gaps::new(),
            unfinished: Parts::default(),
            addresses: Senders::default(),
        }
    }

    /// The fault of parts that the decoder has accepted, as an index of the receiver's reasons.
    fn fault(&self, parts: &[Part]) -> Option<usize> {
        // One check for each: nearly always all are whole and short.
        let most = self.config.fragment_bytes_max;
        let mut unusual =
            parts.iter().filter(|part| part.fragment_bytes > most || !part.is_whole());
        unusual.find_map(|part| match part.fragment_bytes > most {
            true => Some(0),
            false => {
                let source = self.config.lanes[part.lane as usize].source;
                self.unfinished.contradicts(part, source).then_some(1)
            }
        })
    }
}

impl Intake {
    /// For senders in the order of their sockets. A fragment is abandoned when none of its parts
    /// has arrived for the time-out.
    pub(crate) fn new(ingest: Ingest, senders: Vec<SenderConfig>, timeout_ns: u64) -> Self {
        let senders = senders.into_iter().map(Sender::new).collect();
        Self {
            ingest,
            senders,
            parts: Vec::with_capacity(DATAGRAM_FRAGMENTS),
            timeout_ns,
            look_due_ns: 0,
        }
    }

    #[cold]
    fn malformed(&mut self, socket: usize, index: usize, bytes: &[u8]) {
        let sender = &self.senders[socket];
        let own = sender.config.protocol.reasons();
        match own.get(index) {
            Some(&reason) => {
                let explain = || sender.decoder.explain(bytes);
                self.ingest.malformed(socket, Refused { index, reason }, explain, bytes);
            }
            None => {
                let reason = RECEIVER_REASONS[index - own.len()];
                let longest = self.parts.iter().map(|part| part.fragment_bytes).max();
                let (longest, most) = (longest.unwrap_or(0), sender.config.fragment_bytes_max);
                let explain = || match index - own.len() {
                    0 => format!("fragments of at most {most} bytes were expected, got {longest}"),
                    _ => "a part says another length of its fragment than those before".to_owned(),
                };
                self.ingest.malformed(socket, Refused { index, reason }, explain, bytes);
            }
        }
    }

    #[inline]
    fn part(
        &mut self,
        socket: usize,
        (part, destination): (&Part, Destination),
        bytes: &[u8],
        packet_flags: u8,
    ) {
        let sender = &mut self.senders[socket];
        if sender.config.id.is_some_and(|expected| expected != part.id) {
            return self.unknown_source(socket, part);
        }
        if part.flags & PartFlags::BIG_ENDIAN != 0
            && let Some(warning) = sender.config.if_big_endian.take()
        {
            self.ingest.warn_once(warning);
        }
        if !part.is_whole() {
            let source = destination.source;
            let arrived = Arrived { part, source, bytes, packet_flags };
            let finished = sender.unfinished.take(&mut self.ingest, socket, &arrived);
            if let Some(fragment) = finished {
                self.ingest.describe(fragment);
            }
            return;
        }
        let counts = self.ingest.counts(socket);
        counts[Entry::FragmentsReceived] += 1;
        counts[Entry::FragmentBytesReceived] += bytes.len() as u64;
        let Destination { source, chunk, align } = destination;
        // An empty fragment is recorded as such, and takes no memory.
        let stored = match bytes {
            [] => Some(0),
            bytes => self.ingest.store(socket, chunk as usize, bytes, align),
        };
        let Some(offset) = stored else {
            self.ingest.counts(socket)[Entry::FragmentsDiscardedMemory] += 1;
            return;
        };
        let error = part.flags & PartFlags::SENDER_ERROR != 0;
        let flags = if error { FragmentFlags::SENDER_ERROR } else { 0 } | packet_flags;
        let fragment = Fragment::new(source, part.number, offset, part.bytes);
        self.ingest.describe(Fragment { tag: part.tag, flags, ..fragment });
    }

    /// A fragment in parts is counted when its first bytes arrive. It belongs to a stranger if it
    /// comes from a sender other than the source's.
    #[cold]
    fn unknown_source(&mut self, socket: usize, part: &Part) {
        let sender = &mut self.senders[socket];
        let entry = match sender.addresses.is_foreign(sender.config.id, part.id) {
            true => Entry::FragmentsForeign,
            false => Entry::FragmentsUnknownSource,
        };
        self.show_senders(socket);
        let counts = self.ingest.counts(socket);
        counts[Entry::FragmentBytesReceived] += u64::from(part.bytes);
        if part.position == 0 {
            counts[Entry::FragmentsReceived] += 1;
            counts[entry] += 1;
        }
    }

    #[cold]
    fn show_senders(&mut self, socket: usize) {
        if let Some(pair) = self.senders[socket].addresses.take_unshown(self.ingest.now_ns()) {
            self.ingest.show_senders(socket, pair);
        }
    }

    /// The current packet, which is accepted, is from another sender than the one before.
    #[cold]
    fn accept_sender(&mut self, socket: usize) {
        let sender = &mut self.senders[socket];
        let has_id = match sender.config.id {
            None => Some(false),
            Some(_) if self.parts.is_empty() => None,
            Some(id) => Some(self.parts.iter().any(|part| part.id == id)),
        };
        sender.addresses.accept(has_id, self.ingest.now_ns(), self.timeout_ns);
        self.show_senders(socket);
    }

    /// A datagram arrived at that socket.
    #[inline]
    pub(crate) fn datagram(&mut self, socket: usize, bytes: &[u8]) {
        self.ingest.received(socket, bytes);
        let sender = &mut self.senders[socket];
        self.parts.clear();
        let decoded = match sender.decoder.decode(self.ingest.now_ns(), bytes, &mut self.parts) {
            Ok(decoded) => decoded,
            Err(reason) => return self.malformed(socket, reason, bytes),
        };
        if let Some(fault) = sender.fault(&self.parts) {
            let reason = sender.config.protocol.reasons().len() + fault;
            return self.malformed(socket, reason, bytes);
        }
        if sender.addresses.has_changed() {
            self.accept_sender(socket);
        }
        let sender = &mut self.senders[socket];
        let counts = self.ingest.counts(socket);
        counts[Entry::PacketsAccepted] += 1;
        counts[Entry::PacketsMissing] += decoded.missing;
        let mut sent_once = decoded.sent_once;
        // Packets of another source have that source's numbers.
        let is_own = |id| self.parts.iter().all(|part| part.id == id);
        if let Some(sequence) = decoded.sequence.filter(|_| sender.config.id.is_none_or(is_own)) {
            let (arrival, missing) = sender.gaps.take(sequence);
            counts[Entry::PacketsMissing] += missing;
            sent_once = arrival != Arrival::Repeated;
        }
        let sent_once = if sent_once { FragmentFlags::SENT_ONCE } else { 0 };
        let packet_flags = sender.addresses.flag() | sent_once;
        let parts = std::mem::take(&mut self.parts);
        let first = sender.first;
        let mut before = u32::MAX;
        for part in &parts {
            let begin = part.offset as usize;
            let bytes = &bytes[begin..begin + part.bytes as usize];
            let destination = match part.lane {
                0 => first,
                lane => self.senders[socket].config.lanes[lane as usize],
            };
            let continues = if part.lane == before { FragmentFlags::CONTINUES } else { 0 };
            before = part.lane;
            self.part(socket, (part, destination), bytes, packet_flags | continues);
        }
        self.parts = parts;
    }

    /// From now on, datagrams at that socket are from another address than before, whether or not
    /// they can be decoded.
    #[cold]
    pub(crate) fn sender_changed(&mut self, socket: usize, address: Option<SocketAddr>) {
        if self.senders[socket].config.tells_strangers {
            self.senders[socket].addresses.change(address);
        }
    }

    /// The destination of its counts and descriptors.
    pub(crate) fn ingest(&mut self) -> &mut Ingest {
        &mut self.ingest
    }

    /// Whether the data received so far form whole events.
    pub(crate) fn is_settled(&mut self) -> bool {
        self.ingest.is_settled() && self.senders.iter().all(|sender| sender.unfinished.is_empty())
    }

    /// Begins a cycle at that time.
    pub(crate) fn begin_cycle(&mut self, now_ns: u64) {
        self.ingest.begin_cycle(now_ns);
        if now_ns < self.look_due_ns {
            return;
        }
        self.look_due_ns = now_ns + self.timeout_ns / LOOKS_PER_TIMEOUT;
        for (socket, sender) in self.senders.iter_mut().enumerate() {
            sender.unfinished.expire(&mut self.ingest, socket, self.timeout_ns);
            sender.addresses.follow(now_ns, self.timeout_ns);
            if let Some(pair) = sender.addresses.take_unshown(now_ns) {
                self.ingest.show_senders(socket, pair);
            }
        }
    }

    /// No further datagram will arrive.
    pub(crate) fn end(&mut self) {
        for (socket, sender) in self.senders.iter_mut().enumerate() {
            sender.unfinished.end(&mut self.ingest, socket);
            // Otherwise a pair that is not due to be shown yet would never be shown.
            if let Some(pair) = sender.addresses.take_unshown(u64::MAX) {
                self.ingest.show_senders(socket, pair);
            }
            let missing = sender.gaps.settle() + sender.decoder.settle();
            self.ingest.count(socket, Entry::PacketsMissing, missing);
        }
    }
}

/// The warning for a source that sends big-endian fragments; none if no number has several bytes.
pub(crate) fn if_big_endian(source: &SourceConfig) -> Option<String> {
    let payload = source.payload.as_ref()?;
    let of_fields = payload.fields.iter().map(|field| field.dtype);
    let mut dtypes = std::iter::once(payload.dtype).chain(of_fields);
    let dtype = dtypes.find(|dtype| dtype.bits().is_some_and(|bits| bits > 8))?;
    Some(format!(
        "source {}: its fragments are big-endian, but its payload is read as little-endian: \
         the bytes of each {} come out in the wrong order",
        source.name,
        dtype.name()
    ))
}
