//! Handles the datagrams of event sources: the source's decoder finds the fragments in them, whole
//! fragments are copied to the source's chunk, and parts of longer ones are assembled (`parts.rs`).

use std::net::SocketAddr;
use std::sync::Arc;

use catchment_builder::{Fragment, FragmentFlags};
use catchment_model::Entry;
use catchment_wire::sequence::{Arrival, Gaps};
use catchment_wire::{Decoder, Part, PartFlags, Protocol, RECEIVER_REASONS};

use crate::config::{RecorderConfig, SourceConfig};
use crate::ingest::{Ingest, Refused};
use crate::parts::{Arrived, Parts};
use crate::receive::Intake;
use crate::senders::Senders;

/// How often unfinished fragments are checked, as a fraction of the time-out.
const LOOKS_PER_TIMEOUT: u64 = 8;

/// Event sources, one per socket. The chunk of a source has the number of its socket.
pub(crate) struct EventIntake {
    ingest: Ingest,
    sources: Vec<Source>,
    /// The contents of the current datagram.
    parts: Vec<Part>,
    timeout_ns: u64,
    look_due_ns: u64,
}

struct Source {
    protocol: Arc<dyn Protocol>,
    decoder: Box<dyn Decoder>,
    /// The id that its fragments must carry.
    id: Option<u32>,
    fragment_bytes_max: u64,
    /// The warning about big-endian fragments, if they matter; it is issued once.
    if_big_endian: Option<String>,
    gaps: Gaps,
    unfinished: Parts,
    senders: Senders,
}

impl Source {
    fn new(config: &SourceConfig, fragment_bytes_max: u64) -> Self {
        Self {
            protocol: Arc::clone(&config.protocol),
            decoder: config.protocol.decoder(),
            id: config.id,
            fragment_bytes_max,
            if_big_endian: if_big_endian(config),
            gaps: Gaps::new(),
            unfinished: Parts::default(),
            senders: Senders::default(),
        }
    }

    /// The fault of parts that the decoder has accepted, as an index of the receiver's reasons.
    fn fault(&self, parts: &[Part]) -> Option<usize> {
        // One check for each: nearly always all are whole and short.
        let most = self.fragment_bytes_max;
        let mut unusual =
            parts.iter().filter(|part| part.fragment_bytes > most || !part.is_whole());
        unusual.find_map(|part| match part.fragment_bytes > most {
            true => Some(0),
            false => self.unfinished.contradicts(part).then_some(1),
        })
    }
}

impl EventIntake {
    /// For the sources at these indices of the configuration, in the order of their sockets. A
    /// fragment is abandoned when none of its parts has arrived for the time-out.
    pub(crate) fn new(
        ingest: Ingest,
        indices: impl Iterator<Item = usize>,
        config: &RecorderConfig,
    ) -> Self {
        let sources = indices.map(|index| &config.sources[index]);
        let source = |source| Source::new(source, config.fragment_bytes_max(source));
        let sources = sources.map(source).collect();
        let timeout_ns = config.build.timeout_ns;
        Self { ingest, sources, parts: Vec::new(), timeout_ns, look_due_ns: 0 }
    }

    #[cold]
    fn malformed(&mut self, socket: usize, index: usize, bytes: &[u8]) {
        let source = &self.sources[socket];
        let own = source.protocol.reasons();
        match own.get(index) {
            Some(&reason) => {
                let explain = || source.decoder.explain(bytes);
                self.ingest.malformed(socket, Refused { index, reason }, explain, bytes);
            }
            None => {
                let reason = RECEIVER_REASONS[index - own.len()];
                let longest = self.parts.iter().map(|part| part.fragment_bytes).max();
                let (longest, most) = (longest.unwrap_or(0), source.fragment_bytes_max);
                let explain = || match index - own.len() {
                    0 => format!("fragments of at most {most} bytes were expected, got {longest}"),
                    _ => "a part says another length of its fragment than those before".to_owned(),
                };
                self.ingest.malformed(socket, Refused { index, reason }, explain, bytes);
            }
        }
    }

    #[inline]
    fn part(&mut self, socket: usize, part: &Part, bytes: &[u8], packet_flags: u8) {
        let source = &mut self.sources[socket];
        if source.id.is_some_and(|expected| expected != part.id) {
            return self.unknown_source(socket, part);
        }
        if part.flags & PartFlags::BIG_ENDIAN != 0
            && let Some(warning) = source.if_big_endian.take()
        {
            self.ingest.warn_once(warning);
        }
        if !part.is_whole() {
            let arrived = Arrived { part, bytes, packet_flags };
            let finished = source.unfinished.take(&mut self.ingest, socket, &arrived);
            if let Some(fragment) = finished {
                self.ingest.describe(fragment);
            }
            return;
        }
        let counts = self.ingest.counts(socket);
        counts[Entry::FragmentsReceived] += 1;
        counts[Entry::FragmentBytesReceived] += bytes.len() as u64;
        let Some(offset) = self.ingest.store(socket, socket, bytes, 1) else {
            self.ingest.counts(socket)[Entry::FragmentsDiscardedMemory] += 1;
            return;
        };
        let error = part.flags & PartFlags::SENDER_ERROR != 0;
        let flags = if error { FragmentFlags::SENDER_ERROR } else { 0 } | packet_flags;
        let source = self.ingest.source(socket).0;
        let fragment = Fragment::new(source, part.number, offset, part.bytes);
        self.ingest.describe(Fragment { tag: part.tag, flags, ..fragment });
    }

    /// A fragment in parts is counted when its first bytes arrive. It belongs to a stranger if it
    /// comes from a sender other than the source's.
    #[cold]
    fn unknown_source(&mut self, socket: usize, part: &Part) {
        let source = &mut self.sources[socket];
        let entry = match source.senders.is_foreign(source.id, part.id) {
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
        if let Some(pair) = self.sources[socket].senders.take_unshown(self.ingest.now_ns()) {
            self.ingest.show_senders(socket, pair);
        }
    }

    /// The current packet, which is accepted, is from another sender than the one before.
    #[cold]
    fn accept_sender(&mut self, socket: usize) {
        let source = &mut self.sources[socket];
        let has_id = match source.id {
            None => Some(false),
            Some(_) if self.parts.is_empty() => None,
            Some(id) => Some(self.parts.iter().any(|part| part.id == id)),
        };
        source.senders.accept(has_id, self.ingest.now_ns(), self.timeout_ns);
        self.show_senders(socket);
    }
}

impl Intake for EventIntake {
    #[inline]
    fn datagram(&mut self, socket: usize, bytes: &[u8]) {
        self.ingest.received(socket, bytes);
        let source = &mut self.sources[socket];
        self.parts.clear();
        let decoded = match source.decoder.decode(bytes, &mut self.parts) {
            Ok(decoded) => decoded,
            Err(reason) => return self.malformed(socket, reason, bytes),
        };
        if let Some(fault) = source.fault(&self.parts) {
            let reason = source.protocol.reasons().len() + fault;
            return self.malformed(socket, reason, bytes);
        }
        if source.senders.has_changed() {
            self.accept_sender(socket);
        }
        let source = &mut self.sources[socket];
        let counts = self.ingest.counts(socket);
        counts[Entry::PacketsAccepted] += 1;
        let mut packet_flags = source.senders.flag();
        // Packets of another source have that source's numbers.
        let is_own = |id| self.parts.iter().all(|part| part.id == id);
        if let Some(sequence) = decoded.sequence.filter(|_| source.id.is_none_or(is_own)) {
            let (arrival, missing) = source.gaps.take(sequence);
            counts[Entry::PacketsMissing] += missing;
            let once = arrival != Arrival::Repeated;
            packet_flags |= if once { FragmentFlags::SENT_ONCE } else { 0 };
        }
        let parts = std::mem::take(&mut self.parts);
        for part in &parts {
            let begin = part.offset as usize;
            self.part(socket, part, &bytes[begin..begin + part.bytes as usize], packet_flags);
            packet_flags |= FragmentFlags::CONTINUES;
        }
        self.parts = parts;
    }

    #[cold]
    fn sender_changed(&mut self, socket: usize, sender: Option<SocketAddr>) {
        self.sources[socket].senders.change(sender);
    }

    fn ingest(&mut self) -> &mut Ingest {
        &mut self.ingest
    }

    fn is_settled(&mut self) -> bool {
        self.ingest.is_settled() && self.sources.iter().all(|source| source.unfinished.is_empty())
    }

    fn begin_cycle(&mut self, now_ns: u64) {
        self.ingest.begin_cycle(now_ns);
        if now_ns < self.look_due_ns {
            return;
        }
        self.look_due_ns = now_ns + self.timeout_ns / LOOKS_PER_TIMEOUT;
        for (socket, source) in self.sources.iter_mut().enumerate() {
            source.unfinished.expire(&mut self.ingest, socket, self.timeout_ns);
            source.senders.follow(now_ns, self.timeout_ns);
            if let Some(pair) = source.senders.take_unshown(now_ns) {
                self.ingest.show_senders(socket, pair);
            }
        }
    }

    fn end(&mut self) {
        for (socket, source) in self.sources.iter_mut().enumerate() {
            source.unfinished.end(&mut self.ingest, socket);
            // Otherwise a pair that is not due to be shown yet would never be shown.
            if let Some(pair) = source.senders.take_unshown(u64::MAX) {
                self.ingest.show_senders(socket, pair);
            }
            let missing = source.gaps.settle();
            self.ingest.count(socket, Entry::PacketsMissing, missing);
        }
    }
}

/// The warning for a source that sends big-endian fragments; none if no number has several bytes.
fn if_big_endian(source: &SourceConfig) -> Option<String> {
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
