//! Handles messages: their sender's decoder finds the fragments in them, whole fragments are copied
//! to the chunk of their source, and parts of longer ones are assembled (`parts.rs`).
//!
//! A sender is whoever sends to a datagram port, or a connection. It delivers one source or many: a
//! decoder numbers the sources of its sender in *lanes*, and on connections fragments name their
//! source by its id. The builder numbers the sources of all senders.
//!
//! Without memory the fragment of a datagram is dropped and counted; a connection is held, and the
//! rest of its message is taken when there is memory.

use std::net::SocketAddr;
use std::sync::Arc;

use catchment_agent::Flow;
use catchment_builder::{Fragment, FragmentFlags};
use catchment_model::{Entry, SourceId};
use catchment_wire::sequence::{Arrival, Gaps};
use catchment_wire::{
    CUT_OFF, Decoded, Decoder, PARTS_MAX, Part, PartFlags, Protocol, RECEIVER_REASONS, Transport,
};

use crate::config::SourceConfig;
use crate::ingest::{Ingest, Refused};
use crate::parts::{Arrived, NoRoom, Parts};
use crate::senders::Senders;

/// How often unfinished fragments are checked, as a fraction of the time-out.
const LOOKS_PER_TIMEOUT: u64 = 8;

/// The senders that one thread receives from.
pub(crate) struct Intake {
    ingest: Ingest,
    /// By port.
    ports: Vec<SenderConfig>,
    /// By endpoint: of each datagram port one, and behind the ports of each open connection.
    senders: Vec<Option<Sender>>,
    /// The contents of the current message.
    parts: Vec<Part>,
    timeout_ns: u64,
    look_due_ns: u64,
}

/// The senders of a port, as the configuration describes them.
#[derive(Clone, Debug)]
pub(crate) struct SenderConfig {
    /// The numbers in the ledger of its sources; at least one. What belongs to no source alone is
    /// counted for the first.
    pub(crate) numbers: Vec<SourceId>,
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) fragment_bytes_max: u64,
    /// The warning about big-endian fragments, if they matter; it is issued once.
    pub(crate) if_big_endian: Option<String>,
    /// Whether strangers are distinguished from it by their addresses.
    pub(crate) tells_strangers: bool,
    /// The destinations of its sources' fragments, by lane; at least one. On connections, where
    /// fragments have the ids of their sources, any order.
    pub(crate) lanes: Vec<Destination>,
}

/// The destination of a source's fragments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    /// The source's number in the builder.
    pub(crate) source: u32,
    /// Where they are counted: at first an index of the sender's `numbers`.
    pub(crate) account: usize,
    /// The id that they must carry.
    pub(crate) id: Option<u32>,
    /// The chunk to which they are copied; several sources may share one.
    pub(crate) chunk: u32,
    /// Their alignment in the chunk, in bytes: a power of two.
    pub(crate) align: usize,
}

impl SenderConfig {
    pub(crate) fn is_connection(&self) -> bool {
        self.protocol.transport() == Transport::Connections
    }

    /// Where what belongs to no source alone is counted.
    fn account(&self) -> usize {
        self.lanes[0].account
    }
}

struct Sender {
    config: SenderConfig,
    is_connection: bool,
    /// The destination of lane 0, which for most senders is the only one. What belongs to no source
    /// alone is counted there.
    first: Destination,
    decoder: Box<dyn Decoder>,
    gaps: Gaps,
    unfinished: Parts,
    addresses: Senders,
    held: HeldMessage,
    /// Whether a message of a connection was malformed: nothing more is taken of it.
    is_refused: bool,
}

/// A message of a connection that is held: the parts that have not been taken.
#[derive(Default)]
struct HeldMessage {
    parts: Vec<Part>,
    /// Bytes of the message.
    used: usize,
    packet_flags: u8,
}

impl Sender {
    fn new(mut config: SenderConfig) -> Self {
        let (is_connection, first) = (config.is_connection(), config.lanes[0]);
        if is_connection {
            config.lanes.sort_unstable_by_key(|lane| lane.id);
        }
        Self {
            is_connection,
            decoder: config.protocol.decoder(),
            first,
            config,
            gaps: Gaps::new(),
            unfinished: Parts::default(),
            addresses: Senders::default(),
            held: HeldMessage::default(),
            is_refused: false,
        }
    }

    /// The destination of a part; none if its id is that of no source.
    #[inline]
    fn destination(&self, part: &Part) -> Option<Destination> {
        if self.is_connection {
            let lanes = &self.config.lanes;
            let index = lanes.binary_search_by_key(&Some(part.id), |lane| lane.id).ok()?;
            return Some(lanes[index]);
        }
        let lane = match part.lane {
            0 => self.first,
            lane => self.config.lanes[lane as usize],
        };
        lane.id.is_none_or(|expected| expected == part.id).then_some(lane)
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
                let source = self.destination(part)?.source;
                self.unfinished.contradicts(part, source).then_some(1)
            }
        })
    }
}

impl Intake {
    /// For the senders of these ports. A fragment is abandoned when none of its parts has arrived
    /// for the time-out.
    pub(crate) fn new(ingest: Ingest, mut ports: Vec<SenderConfig>, timeout_ns: u64) -> Self {
        let mut accounts = 0;
        for port in &mut ports {
            port.lanes.iter_mut().for_each(|lane| lane.account += accounts);
            accounts += port.numbers.len();
        }
        let sender =
            |port: &SenderConfig| (!port.is_connection()).then(|| Sender::new(port.clone()));
        Self {
            ingest,
            senders: ports.iter().map(sender).collect(),
            ports,
            parts: Vec::with_capacity(PARTS_MAX),
            timeout_ns,
            look_due_ns: 0,
        }
    }

    #[cold]
    fn malformed(&mut self, endpoint: usize, index: usize, bytes: &[u8]) {
        let Some(sender) = &self.senders[endpoint] else { return };
        let (own, account) = (sender.config.protocol.reasons(), sender.first.account);
        match own.get(index) {
            Some(&reason) => {
                let explain = || sender.decoder.explain(bytes);
                self.ingest.malformed(account, Refused { index, reason }, explain, bytes);
            }
            None => {
                let reason = RECEIVER_REASONS.get(index - own.len()).copied().unwrap_or(CUT_OFF);
                let longest = self.parts.iter().map(|part| part.fragment_bytes).max();
                let (longest, most) = (longest.unwrap_or(0), sender.config.fragment_bytes_max);
                let explain = || match index - own.len() {
                    0 => format!("fragments of at most {most} bytes were expected, got {longest}"),
                    1 => "a part says another length of its fragment than those before".to_owned(),
                    _ => format!("the connection ended {} bytes into a message", bytes.len()),
                };
                self.ingest.malformed(account, Refused { index, reason }, explain, bytes);
            }
        }
    }

    /// Takes a part.
    ///
    /// # Errors
    /// The part of a connection must wait for memory.
    #[inline]
    fn part(
        &mut self,
        endpoint: usize,
        part: &Part,
        bytes: &[u8],
        packet_flags: u8,
    ) -> Result<(), NoRoom> {
        let Some(sender) = &mut self.senders[endpoint] else { return Ok(()) };
        let Some(destination) = sender.destination(part) else {
            self.unknown_source(endpoint, part);
            return Ok(());
        };
        if part.flags & PartFlags::BIG_ENDIAN != 0
            && let Some(warning) = sender.config.if_big_endian.take()
        {
            self.ingest.warn_once(warning);
        }
        let Destination { source, account, chunk, align, .. } = destination;
        let waits = sender.is_connection;
        if waits && !self.ingest.has_place(account) {
            return Err(NoRoom);
        }
        if !part.is_whole() || bytes.len() > self.ingest.pool().chunk_bytes() {
            let arrived = Arrived { part, source, bytes, packet_flags, waits };
            if let Some(fragment) = sender.unfinished.take(&mut self.ingest, account, &arrived)? {
                self.describe(destination, waits, fragment);
            }
            return Ok(());
        }
        // An empty fragment is recorded as such, and takes no memory.
        let stored = match bytes {
            [] => Some(0),
            bytes => self.ingest.store(account, chunk as usize, bytes, align),
        };
        if stored.is_none() && waits {
            return Err(NoRoom);
        }
        let counts = self.ingest.counts(account);
        counts[Entry::FragmentsReceived] += 1;
        counts[Entry::FragmentBytesReceived] += bytes.len() as u64;
        let Some(offset) = stored else {
            counts[Entry::FragmentsDiscardedMemory] += 1;
            return Ok(());
        };
        let error = part.flags & PartFlags::SENDER_ERROR != 0;
        let flags = if error { FragmentFlags::SENDER_ERROR } else { 0 } | packet_flags;
        let fragment = Fragment::new(source, part.number, offset, part.bytes);
        self.describe(destination, waits, Fragment { tag: part.tag, flags, ..fragment });
        Ok(())
    }

    #[inline]
    fn describe(&mut self, destination: Destination, waits: bool, fragment: Fragment) {
        match waits {
            true => self.ingest.describe_waiting(destination.account, fragment),
            false => self.ingest.describe(fragment),
        }
    }

    /// A fragment in parts is counted when its first bytes arrive. It belongs to a stranger if it
    /// comes from a sender other than the source's.
    #[cold]
    fn unknown_source(&mut self, endpoint: usize, part: &Part) {
        let Some(sender) = &mut self.senders[endpoint] else { return };
        let Destination { id, account, .. } = sender.first;
        let is_foreign = !sender.is_connection && sender.addresses.is_foreign(id, part.id);
        let entry = match is_foreign {
            true => Entry::FragmentsForeign,
            false => Entry::FragmentsUnknownSource,
        };
        self.show_senders(endpoint);
        let counts = self.ingest.counts(account);
        counts[Entry::FragmentBytesReceived] += u64::from(part.bytes);
        if part.position == 0 {
            counts[Entry::FragmentsReceived] += 1;
            counts[entry] += 1;
        }
    }

    #[cold]
    fn show_senders(&mut self, endpoint: usize) {
        let now_ns = self.ingest.now_ns();
        let Some(sender) = &mut self.senders[endpoint] else { return };
        if let Some(pair) = sender.addresses.take_unshown(now_ns) {
            self.ingest.show_senders(sender.first.account, pair);
        }
    }

    /// The current packet, which is accepted, is from another sender than the one before.
    #[cold]
    fn accept_sender(&mut self, endpoint: usize) {
        let Some(sender) = &mut self.senders[endpoint] else { return };
        let has_id = match sender.first.id {
            None => Some(false),
            Some(_) if self.parts.is_empty() => None,
            Some(id) => Some(self.parts.iter().any(|part| part.id == id)),
        };
        sender.addresses.accept(has_id, self.ingest.now_ns(), self.timeout_ns);
        self.show_senders(endpoint);
    }

    /// Decodes a message and checks it; the index of a reason if it is malformed.
    #[inline]
    fn decode(&mut self, endpoint: usize, bytes: &[u8]) -> Result<Decoded, usize> {
        let Some(sender) = &mut self.senders[endpoint] else { return Ok(Decoded::default()) };
        self.parts.clear();
        let decoded = sender.decoder.decode(self.ingest.now_ns(), bytes, &mut self.parts)?;
        match sender.fault(&self.parts) {
            Some(fault) => Err(sender.config.protocol.reasons().len() + fault),
            None => Ok(decoded),
        }
    }

    /// Counts a message that was accepted. Returns the flags of its fragments.
    #[inline]
    fn accept(&mut self, endpoint: usize, decoded: &Decoded) -> u8 {
        let Some(sender) = &mut self.senders[endpoint] else { return 0 };
        let counts = self.ingest.counts(sender.first.account);
        counts[Entry::PacketsAccepted] += 1;
        counts[Entry::PacketsMissing] += decoded.missing;
        let mut sent_once = decoded.sent_once;
        // Packets of another source have that source's numbers.
        let is_own = |id| self.parts.iter().all(|part| part.id == id);
        let has_own = sender.is_connection || sender.first.id.is_none_or(is_own);
        if let Some(sequence) = decoded.sequence.filter(|_| has_own) {
            let (arrival, missing) = sender.gaps.take(sequence);
            counts[Entry::PacketsMissing] += missing;
            sent_once = arrival != Arrival::Repeated;
        }
        let sent_once = if sent_once { FragmentFlags::SENT_ONCE } else { 0 };
        sender.addresses.flag() | sent_once
    }

    /// Takes the parts of a message in their order. Returns how many: all but those of a connection
    /// that must wait.
    #[inline]
    fn take_parts(
        &mut self,
        endpoint: usize,
        parts: &[Part],
        bytes: &[u8],
        packet_flags: u8,
    ) -> usize {
        let mut before = u32::MAX;
        for (index, part) in parts.iter().enumerate() {
            let begin = part.offset as usize;
            let bytes = &bytes[begin..begin + part.bytes as usize];
            let continues = if part.lane == before { FragmentFlags::CONTINUES } else { 0 };
            before = part.lane;
            if self.part(endpoint, part, bytes, packet_flags | continues).is_err() {
                return index;
            }
        }
        parts.len()
    }

    /// A datagram arrived at that port.
    #[inline]
    pub(crate) fn datagram(&mut self, port: usize, bytes: &[u8]) {
        let Some(sender) = &mut self.senders[port] else { return };
        self.ingest.received(sender.first.account, bytes);
        let decoded = match self.decode(port, bytes) {
            Ok(decoded) => decoded,
            Err(reason) => return self.malformed(port, reason, bytes),
        };
        if self.senders[port].as_ref().is_some_and(|sender| sender.addresses.has_changed()) {
            self.accept_sender(port);
        }
        let packet_flags = self.accept(port, &decoded);
        let parts = std::mem::take(&mut self.parts);
        self.take_parts(port, &parts, bytes, packet_flags);
        self.parts = parts;
    }

    /// That port has accepted a connection.
    pub(crate) fn open(&mut self, endpoint: usize, port: usize) {
        if self.senders.len() <= endpoint {
            self.senders.resize_with(endpoint + 1, || None);
        }
        self.senders[endpoint] = Some(Sender::new(self.ports[port].clone()));
    }

    /// Takes the next message of a connection.
    pub(crate) fn message(&mut self, endpoint: usize, bytes: &[u8]) -> Flow {
        let sender = self.senders.get_mut(endpoint).and_then(Option::as_mut);
        let Some(sender) = sender.filter(|sender| !sender.is_refused) else { return Flow::Refused };
        if sender.held.used > 0 {
            return self.take_held(endpoint, bytes);
        }
        let account = sender.first.account;
        let decoded = match self.decode(endpoint, bytes) {
            Ok(Decoded { used: 0, .. }) => return Flow::Short,
            Ok(decoded) => decoded,
            Err(reason) => {
                self.ingest.received(account, bytes);
                self.malformed(endpoint, reason, bytes);
                return self.refuse(endpoint);
            }
        };
        let used = decoded.used.min(bytes.len());
        self.ingest.received(account, &bytes[..used]);
        let packet_flags = self.accept(endpoint, &decoded);
        let parts = std::mem::take(&mut self.parts);
        let taken = self.take_parts(endpoint, &parts, &bytes[..used], packet_flags);
        if let Some(sender) = &mut self.senders[endpoint]
            && taken < parts.len()
        {
            sender.held.parts.extend_from_slice(&parts[taken..]);
            (sender.held.used, sender.held.packet_flags) = (used, packet_flags);
        }
        let is_held = taken < parts.len();
        self.parts = parts;
        if is_held { Flow::Held } else { Flow::Used(used) }
    }

    /// Takes what is left of a message that was held.
    #[cold]
    fn take_held(&mut self, endpoint: usize, bytes: &[u8]) -> Flow {
        let Some(sender) = &mut self.senders[endpoint] else { return Flow::Refused };
        sender.unfinished.touch(self.ingest.now_ns());
        let HeldMessage { mut parts, used, packet_flags } = std::mem::take(&mut sender.held);
        let taken = self.take_parts(endpoint, &parts, &bytes[..used], packet_flags);
        parts.drain(..taken);
        let is_held = !parts.is_empty();
        if let Some(sender) = &mut self.senders[endpoint] {
            let used = if is_held { used } else { 0 };
            sender.held = HeldMessage { parts, used, packet_flags };
        }
        if is_held { Flow::Held } else { Flow::Used(used) }
    }

    #[cold]
    fn refuse(&mut self, endpoint: usize) -> Flow {
        if let Some(sender) = &mut self.senders[endpoint] {
            sender.is_refused = true;
        }
        Flow::Refused
    }

    /// A connection has ended, and these bytes of it, which are no whole message.
    pub(crate) fn close(&mut self, endpoint: usize, left: &[u8]) {
        let Some(sender) = self.senders.get_mut(endpoint).and_then(Option::as_mut) else { return };
        let (account, is_refused) = (sender.first.account, sender.is_refused);
        let cut_off = sender.config.protocol.reasons().len() + RECEIVER_REASONS.len();
        if !is_refused && !left.is_empty() {
            self.ingest.received(account, left);
            self.malformed(endpoint, cut_off, left);
        }
        self.end_sender(endpoint);
        self.senders[endpoint] = None;
    }

    /// From now on, datagrams at that port are from another address than before, whether or not
    /// they can be decoded.
    #[cold]
    pub(crate) fn sender_changed(&mut self, port: usize, address: Option<SocketAddr>) {
        if let Some(sender) = &mut self.senders[port]
            && sender.config.tells_strangers
        {
            sender.addresses.change(address);
        }
    }

    /// Where what belongs to no source of a port alone is counted.
    pub(crate) fn account_of(&self, port: usize) -> usize {
        self.ports[port].account()
    }

    /// The source that stands for an endpoint, if it has one.
    pub(crate) fn source_of(&self, endpoint: usize) -> Option<SourceId> {
        let sender = self.senders.get(endpoint).and_then(Option::as_ref);
        let config = sender.map(|sender| &sender.config).or_else(|| self.ports.get(endpoint))?;
        config.numbers.first().copied()
    }

    /// The destination of its counts and descriptors.
    pub(crate) fn ingest(&mut self) -> &mut Ingest {
        &mut self.ingest
    }

    /// Whether the data received so far form whole events.
    pub(crate) fn is_settled(&mut self) -> bool {
        let mut senders = self.senders.iter().flatten();
        self.ingest.is_settled() && senders.all(|sender| sender.unfinished.is_empty())
    }

    /// Begins a cycle at that time.
    pub(crate) fn begin_cycle(&mut self, now_ns: u64) {
        self.ingest.begin_cycle(now_ns);
        if now_ns < self.look_due_ns {
            return;
        }
        self.look_due_ns = now_ns + self.timeout_ns / LOOKS_PER_TIMEOUT;
        for sender in self.senders.iter_mut().flatten() {
            sender.unfinished.expire(&mut self.ingest, self.timeout_ns);
            sender.addresses.follow(now_ns, self.timeout_ns);
            if let Some(pair) = sender.addresses.take_unshown(now_ns) {
                self.ingest.show_senders(sender.first.account, pair);
            }
        }
    }

    /// No further message will arrive.
    pub(crate) fn end(&mut self) {
        (0..self.senders.len()).for_each(|endpoint| self.end_sender(endpoint));
    }

    /// No further message of a sender will arrive.
    fn end_sender(&mut self, endpoint: usize) {
        let Some(sender) = &mut self.senders[endpoint] else { return };
        for part in std::mem::take(&mut sender.held).parts {
            // It waited for memory, and there was none until the end.
            let lane = sender.destination(&part);
            let counts = self.ingest.counts(lane.map_or(sender.first.account, |lane| lane.account));
            counts[Entry::FragmentBytesReceived] += u64::from(part.bytes);
            let begins = u64::from(part.position == 0);
            counts[Entry::FragmentsReceived] += begins;
            counts[Entry::FragmentsDiscardedMemory] += begins;
        }
        sender.unfinished.end(&mut self.ingest);
        let account = sender.first.account;
        // Otherwise a pair that is not due to be shown yet would never be shown.
        if let Some(pair) = sender.addresses.take_unshown(u64::MAX) {
            self.ingest.show_senders(account, pair);
        }
        let missing = sender.gaps.settle() + sender.decoder.settle();
        self.ingest.count(account, Entry::PacketsMissing, missing);
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
