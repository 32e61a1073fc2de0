//! Handles messages: their sender's decoder finds the fragments in them, whole fragments are copied
//! to the chunk of their source, and parts of longer ones are assembled (`parts.rs`).
//!
//! A sender is whoever sends to a datagram port, or a connection. It delivers one source or many: a
//! decoder numbers the sources of its sender in *lanes*, and on connections fragments name their
//! source by its id. The builder numbers the sources of all senders.
//!
//! Without memory the fragment of a datagram is dropped and counted; a connection is held, and the
//! rest of its message is taken when there is memory.

mod home;

use std::net::SocketAddr;

use catchment_agent::{Datagrams, Egress, Flow, Incoming};
use catchment_builder::{Fragment, FragmentFlags};
use catchment_model::{Entry, SourceId};
use catchment_wire::sequence::{Arrival, Gaps};
use catchment_wire::{
    CUT_OFF, Decoded, Decoder, PARTS_MAX, Part, PartFlags, RECEIVER_REASONS, Transport,
};

use crate::destinations::{Destination, SenderConfig};
use crate::ingest::{Ingest, Refused};
use crate::parts::{Arrived, NoRoom, Parts};
use crate::senders::Senders;
use crate::sessions::{OfRun, Sessions};
use crate::standby::Home;

/// How often unfinished fragments are checked, as a fraction of the time-out.
const LOOKS_PER_TIMEOUT: u64 = 8;

/// The senders that one thread receives from.
pub(crate) struct Intake {
    ingest: Ingest,
    /// By port.
    ports: Vec<SenderConfig>,
    /// By endpoint: of each datagram port one, and behind the ports of each open connection that is
    /// of no session.
    senders: Vec<Option<Sender>>,
    /// The ports that take sessions.
    listeners: Vec<(usize, Sessions)>,
    /// Where these go on when the run ends.
    home: Option<Home>,
    /// The contents of the current message.
    parts: Vec<Part>,
    timeout_ns: u64,
    look_due_ns: u64,
}

struct Sender {
    config: SenderConfig,
    /// Whether it is a connection: without memory it waits.
    may_wait: bool,
    /// The destination of lane 0, which for most senders is the only one.
    first: Destination,
    /// The first of its accounts. What belongs to no source alone is counted there.
    account: usize,
    fragment_bytes_max: u64,
    /// [`FragmentFlags::UNTAGGED`] if its protocol has no tags.
    untagged: u8,
    decoder: Box<dyn Decoder>,
    gaps: Gaps,
    unfinished: Parts,
    addresses: Senders,
    held: HeldMessage,
    /// Which of its sources a connection has delivered.
    delivers: Vec<bool>,
    /// Whether a message of a connection was malformed: nothing more is taken of it.
    is_refused: bool,
    /// Whether big-endian fragments of a source are still to be warned of.
    may_warn: bool,
}

/// A message of a connection that is held: the parts that have not been taken.
#[derive(Default)]
struct HeldMessage {
    parts: Vec<Part>,
    /// Bytes of the message; 0 if none is held.
    used: usize,
    packet_flags: u8,
    /// The accounts of the sources that wait with it.
    accounts: Vec<usize>,
}

impl Sender {
    fn new(mut config: SenderConfig) -> Self {
        let (may_wait, first) = (config.is_connection(), config.lanes[0]);
        let source_count = config.sources.len();
        if may_wait {
            config.lanes.sort_unstable_by_key(|lane| lane.id);
        }
        Self {
            may_wait,
            first,
            account: first.account as usize,
            fragment_bytes_max: config.fragment_bytes_max(),
            untagged: FragmentFlags::UNTAGGED * u8::from(!config.protocol.has_tags()),
            decoder: config.protocol.decoder(),
            gaps: Gaps::new(),
            unfinished: Parts::new(config.protocol.holes_bytes_max()),
            addresses: Senders::default(),
            may_warn: config.sources.iter().any(|source| source.if_big_endian.is_some()),
            held: HeldMessage::default(),
            delivers: vec![false; source_count],
            is_refused: false,
            config,
        }
    }

    /// The destination of a part; none if no source has its id.
    #[inline]
    fn destination(&self, part: &Part) -> Option<Destination> {
        let lanes = &self.config.lanes;
        let lane = match (self.may_wait, part.lane) {
            (false, 0) => self.first,
            (false, lane) => lanes[lane as usize],
            (true, _) => {
                let index = lanes.binary_search_by_key(&Some(part.id), |lane| lane.id).ok()?;
                lanes[index]
            }
        };
        lane.id.is_none_or(|expected| expected == part.id).then_some(lane)
    }

    /// Decodes a message and checks it.
    ///
    /// # Errors
    /// The index of the reason for which it is refused.
    #[inline]
    fn decode(
        &mut self,
        now_ns: u64,
        bytes: &[u8],
        parts: &mut Vec<Part>,
    ) -> Result<Decoded, usize> {
        parts.clear();
        let decoded = self.decoder.decode(now_ns, bytes, parts)?;
        match self.fault(parts) {
            Some(fault) => Err(self.config.protocol.reasons().len() + fault),
            None => Ok(decoded),
        }
    }

    /// The fault of parts that the decoder has accepted, as an index of the receiver's reasons.
    #[inline]
    fn fault(&self, parts: &[Part]) -> Option<usize> {
        // One check for each: nearly always all are whole and short.
        let most = self.fragment_bytes_max;
        let is_unusual =
            |part: &&Part| self.may_wait || part.fragment_bytes > most || !part.is_whole();
        parts.iter().filter(is_unusual).find_map(|part| {
            let Some(lane) = self.destination(part) else {
                return (part.fragment_bytes > most).then_some(0);
            };
            match part.fragment_bytes > lane.fragment_bytes_max {
                true => Some(0),
                false => self.unfinished.contradicts(part, lane.source).then_some(1),
            }
        })
    }

    #[cold]
    fn malformed(&self, ingest: &mut Ingest, index: usize, bytes: &[u8], parts: &[Part]) {
        let own = self.config.protocol.reasons();
        let Some(&reason) = own.get(index) else {
            let reason = RECEIVER_REASONS.get(index - own.len()).copied().unwrap_or(CUT_OFF);
            let longest = parts.iter().map(|part| part.fragment_bytes).max().unwrap_or(0);
            let most = self.fragment_bytes_max;
            let explain = || match index - own.len() {
                0 => format!("fragments of at most {most} bytes were expected, got {longest}"),
                1 => "a part says another length of its fragment than those before".to_owned(),
                _ => format!("the connection ended {} bytes into a message", bytes.len()),
            };
            return ingest.malformed(self.account, Refused { index, reason }, explain, bytes);
        };
        let explain = || self.decoder.explain(bytes);
        ingest.malformed(self.account, Refused { index, reason }, explain, bytes);
    }

    /// Counts a message that was accepted. Returns the flags of its fragments.
    #[inline]
    fn accept(&mut self, ingest: &mut Ingest, decoded: &Decoded, parts: &[Part]) -> u8 {
        let counts = ingest.counts(self.account);
        counts[Entry::PacketsAccepted] += 1;
        counts[Entry::PacketsMissing] += decoded.missing;
        counts[Entry::RecordsSkipped] += decoded.skipped;
        let mut sent_once = decoded.sent_once;
        // Packets of another source have that source's numbers.
        let is_own = |id| parts.iter().all(|part| part.id == id);
        let has_own = self.may_wait || self.first.id.is_none_or(is_own);
        if !has_own && decoded.sequence.is_some() {
            self.decoder.disown();
        } else if let Some(sequence) = decoded.sequence {
            let (arrival, missing) = self.gaps.take(sequence);
            counts[Entry::PacketsMissing] += missing;
            sent_once = arrival != Arrival::Repeated;
        }
        self.addresses.flag() | self.untagged | (FragmentFlags::SENT_ONCE * u8::from(sent_once))
    }

    /// Takes the parts of a message in their order. Returns how many: all but those of a connection
    /// that must wait, which are those of a connection (`WAITS`).
    #[inline]
    fn take_parts<const WAITS: bool>(
        &mut self,
        ingest: &mut Ingest,
        parts: &[Part],
        bytes: &[u8],
        packet_flags: u8,
    ) -> usize {
        let mut before = u32::MAX;
        for (index, part) in parts.iter().enumerate() {
            let begin = part.offset as usize;
            let bytes = &bytes[begin..begin + part.bytes as usize];
            let Some(destination) = self.destination(part) else {
                self.unknown_source(ingest, part);
                continue;
            };
            let continues = if destination.source == before { FragmentFlags::CONTINUES } else { 0 };
            before = destination.source;
            let flags = packet_flags | continues;
            if self.take_part::<WAITS>(ingest, (part, destination), bytes, flags).is_err() {
                return index;
            }
        }
        parts.len()
    }

    /// Takes a part.
    ///
    /// # Errors
    /// The part of a connection must wait for memory.
    #[inline]
    fn take_part<const WAITS: bool>(
        &mut self,
        ingest: &mut Ingest,
        (part, destination): (&Part, Destination),
        bytes: &[u8],
        packet_flags: u8,
    ) -> Result<(), NoRoom> {
        let Destination { source, account, chunk, align, .. } = destination;
        let account = account as usize;
        if self.may_warn && part.flags & PartFlags::BIG_ENDIAN != 0 {
            self.warn_of_big_endian(ingest, account);
        }
        if WAITS && !ingest.has_place(account) {
            return Err(NoRoom);
        }
        if !part.is_whole() || WAITS && bytes.len() > ingest.pool().chunk_bytes() {
            let arrived = Arrived { part, source, bytes, packet_flags, may_wait: WAITS };
            if let Some(fragment) = self.unfinished.take(ingest, account, &arrived)? {
                ingest.name(source, part.groups);
                self.describe::<WAITS>(ingest, account, fragment);
            }
            return Ok(());
        }
        // An empty fragment is recorded as such, and takes no memory.
        let stored = match bytes {
            [] => Some(0),
            _ if !ingest.has_train(account, part.number) => None,
            bytes => ingest.store(account, chunk as usize, bytes, align as usize),
        };
        if stored.is_none() && WAITS {
            return Err(NoRoom);
        }
        let counts = ingest.counts(account);
        counts[Entry::FragmentsReceived] += 1;
        counts[Entry::FragmentBytesReceived] += bytes.len() as u64;
        let Some(offset) = stored else {
            counts[Entry::FragmentsDiscardedMemory] += 1;
            return Ok(());
        };
        let error = part.flags & PartFlags::SENDER_ERROR != 0;
        let flags = if error { FragmentFlags::SENDER_ERROR } else { 0 } | packet_flags;
        let fragment = Fragment::new(source, part.number, offset, part.bytes);
        ingest.name(source, part.groups);
        self.describe::<WAITS>(ingest, account, Fragment { tag: part.tag, flags, ..fragment });
        Ok(())
    }

    // A descriptor that is passed through memory stalls: its last word has four fields, each of
    // which is stored apart.
    #[inline(always)]
    fn describe<const WAITS: bool>(
        &mut self,
        ingest: &mut Ingest,
        account: usize,
        fragment: Fragment,
    ) {
        if WAITS {
            self.delivers[account - self.account] = true;
            ingest.describe_waiting(account, fragment);
        } else {
            ingest.describe(fragment);
        }
    }

    #[cold]
    fn warn_of_big_endian(&mut self, ingest: &Ingest, account: usize) {
        let warning = &mut self.config.sources[account - self.account].if_big_endian;
        if let Some(warning) = warning.take() {
            ingest.warn_once(warning);
        }
        self.may_warn = self.config.sources.iter().any(|source| source.if_big_endian.is_some());
    }

    /// A fragment in parts is counted when its first bytes arrive. It belongs to a stranger if it
    /// comes from a sender other than the source's.
    #[cold]
    fn unknown_source(&mut self, ingest: &mut Ingest, part: &Part) {
        let is_foreign = !self.may_wait && self.addresses.is_foreign(self.first.id, part.id);
        let entry = match is_foreign {
            true => Entry::FragmentsForeign,
            false => Entry::FragmentsUnknownSource,
        };
        let now_ns = ingest.now_ns();
        self.show_senders(ingest, now_ns);
        let counts = ingest.counts(self.account);
        counts[Entry::FragmentBytesReceived] += u64::from(part.bytes);
        if part.position == 0 {
            counts[Entry::FragmentsReceived] += 1;
            counts[entry] += 1;
        }
    }

    #[cold]
    fn show_senders(&mut self, ingest: &Ingest, now_ns: u64) {
        if let Some(pair) = self.addresses.take_unshown(now_ns) {
            ingest.show_senders(self.account, pair);
        }
    }

    /// The current packet, which is accepted, is from another sender than the one before.
    #[cold]
    fn accept_sender(&mut self, ingest: &Ingest, parts: &[Part], timeout_ns: u64) {
        let has_id = match self.first.id {
            None => Some(false),
            Some(_) if parts.is_empty() => None,
            Some(id) => Some(parts.iter().any(|part| part.id == id)),
        };
        self.addresses.accept(has_id, ingest.now_ns(), timeout_ns);
        self.show_senders(ingest, ingest.now_ns());
    }

    #[inline]
    fn take_datagram(
        &mut self,
        ingest: &mut Ingest,
        parts: &mut Vec<Part>,
        bytes: &[u8],
        timeout_ns: u64,
    ) {
        ingest.received(self.account, bytes);
        let decoded = match self.decode(ingest.now_ns(), bytes, parts) {
            Ok(decoded) => decoded,
            Err(reason) => return self.malformed(ingest, reason, bytes, parts),
        };
        if self.addresses.has_changed() {
            self.accept_sender(ingest, parts, timeout_ns);
        }
        let packet_flags = self.accept(ingest, &decoded, parts);
        self.take_parts::<false>(ingest, parts, bytes, packet_flags);
    }

    /// Takes the next message of a connection.
    fn take_message(&mut self, ingest: &mut Ingest, parts: &mut Vec<Part>, bytes: &[u8]) -> Flow {
        if self.held.used > 0 {
            return self.take_held(ingest, bytes);
        }
        let Decoded { used, .. } = match self.begin_message(ingest, parts, bytes) {
            Ok(decoded) if decoded.used == 0 => return Flow::Short,
            Ok(decoded) => decoded,
            Err(()) => return Flow::Refused,
        };
        let packet_flags = self.held.packet_flags;
        let taken = self.take_parts::<true>(ingest, parts, &bytes[..used], packet_flags);
        if taken == parts.len() {
            return Flow::Used(used);
        }
        self.held.parts.extend_from_slice(&parts[taken..]);
        self.held.used = used;
        self.hold(ingest);
        Flow::Held
    }

    /// The sources that the connection has delivered wait with it.
    fn hold(&mut self, ingest: &Ingest) {
        let waiting = self.held.parts.first().and_then(|part| self.destination(part));
        if let Some(destination) = waiting {
            self.delivers[destination.account as usize - self.account] = true;
        }
        let delivers = (self.account..).zip(&self.delivers).filter(|(_, is_so)| **is_so);
        self.held.accounts.extend(delivers.map(|(account, _)| account));
        self.held.accounts.iter().for_each(|&account| ingest.set_held(account, true));
    }

    fn release(&mut self, ingest: &Ingest) {
        let accounts = self.held.accounts.drain(..);
        accounts.for_each(|account| ingest.set_held(account, false));
    }

    /// Decodes and counts the next message of a connection, and keeps its fragments' flags. Without
    /// bytes, the message has not arrived completely.
    ///
    /// # Errors
    /// It is malformed, and counted as that.
    fn begin_message(
        &mut self,
        ingest: &mut Ingest,
        parts: &mut Vec<Part>,
        bytes: &[u8],
    ) -> Result<Decoded, ()> {
        let decoded = match self.decode(ingest.now_ns(), bytes, parts) {
            Ok(decoded) => decoded,
            Err(reason) => {
                ingest.received(self.account, bytes);
                self.malformed(ingest, reason, bytes, parts);
                self.is_refused = true;
                return Err(());
            }
        };
        if decoded.used > 0 {
            ingest.received(self.account, &bytes[..decoded.used]);
            self.held.packet_flags = self.accept(ingest, &decoded, parts);
        }
        Ok(decoded)
    }

    /// Takes the rest of a message that was held.
    #[cold]
    fn take_held(&mut self, ingest: &mut Ingest, bytes: &[u8]) -> Flow {
        let (mut parts, used) = (std::mem::take(&mut self.held.parts), self.held.used);
        let taken = self.take_parts::<true>(ingest, &parts, &bytes[..used], self.held.packet_flags);
        parts.drain(..taken);
        self.held.parts = parts;
        if !self.held.parts.is_empty() {
            return Flow::Held;
        }
        self.held.used = 0;
        self.release(ingest);
        Flow::Used(used)
    }

    /// A connection ends: counts what is left of it, which nothing can take any more.
    fn discard(&mut self, ingest: &mut Ingest, parts: &mut Vec<Part>, left: &[u8]) {
        self.release(ingest);
        let held = std::mem::take(&mut self.held);
        self.discard_parts(ingest, &held.parts);
        let mut left = left.get(held.used..).unwrap_or_default();
        while !self.is_refused && !left.is_empty() {
            match self.begin_message(ingest, parts, left) {
                Ok(Decoded { used: 0, .. }) => {
                    ingest.received(self.account, left);
                    let cut_off = self.config.protocol.reasons().len() + RECEIVER_REASONS.len();
                    return self.malformed(ingest, cut_off, left, &[]);
                }
                Ok(Decoded { used, .. }) => {
                    self.discard_parts(ingest, parts);
                    left = &left[used..];
                }
                Err(()) => return,
            }
        }
    }

    /// Counts parts for which there was no memory until the end.
    fn discard_parts(&mut self, ingest: &mut Ingest, parts: &[Part]) {
        let mut before = None;
        for part in parts {
            let Some(lane) = self.destination(part) else {
                self.unknown_source(ingest, part);
                continue;
            };
            let fragment = Some((lane.source, part.number));
            let is_open = self.unfinished.has(lane.source, part.number);
            let begins = u64::from(!is_open && fragment != before && part.position == 0);
            before = fragment;
            let counts = ingest.counts(lane.account as usize);
            counts[Entry::FragmentBytesReceived] += u64::from(part.bytes);
            counts[Entry::FragmentsReceived] += begins;
            counts[Entry::FragmentsDiscardedMemory] += begins;
        }
    }

    /// No further message will arrive.
    fn end(&mut self, ingest: &mut Ingest) {
        self.unfinished.end(ingest);
        // Otherwise a pair that is not due to be shown yet would never be shown.
        self.show_senders(ingest, u64::MAX);
        let missing = self.gaps.settle() + self.decoder.settle();
        ingest.count(self.account, Entry::PacketsMissing, missing);
    }
}

impl Intake {
    /// For the senders of these ports. A fragment of datagrams is abandoned when none of its parts
    /// has arrived for the time-out.
    pub(crate) fn new(
        ingest: Ingest,
        mut ports: Vec<SenderConfig>,
        timeout_ns: u64,
        of_run: &dyn Fn() -> OfRun,
    ) -> Self {
        let (mut accounts, mut listeners) = (0, Vec::new());
        for (number, port) in ports.iter_mut().enumerate() {
            port.lanes.iter_mut().for_each(|lane| lane.account += accounts);
            if port.protocol.transport() == Transport::Sessions {
                listeners.push((number, Sessions::new(port, accounts, of_run(), timeout_ns)));
            }
            accounts += port.sources.len() as u32;
        }
        let sender =
            |port: &SenderConfig| (!port.is_connection()).then(|| Sender::new(port.clone()));
        Self {
            ingest,
            senders: ports.iter().map(sender).collect(),
            listeners,
            home: None,
            ports,
            parts: Vec::with_capacity(PARTS_MAX),
            timeout_ns,
            look_due_ns: 0,
        }
    }

    /// Datagrams arrived at that port. There is room for the first; those for which there is none
    /// are left.
    #[inline]
    pub(crate) fn datagrams(&mut self, port: usize, datagrams: Datagrams<'_>) -> Flow {
        let Self { ingest, senders, parts, timeout_ns, .. } = self;
        let Some(sender) = &mut senders[port] else { return Flow::Taken };
        let mut used = 0;
        for bytes in datagrams {
            if used > 0 && !ingest.has_room() {
                return Flow::Used(used);
            }
            sender.take_datagram(ingest, parts, bytes, *timeout_ns);
            used += bytes.len();
        }
        Flow::Taken
    }

    /// A listener of that port has accepted a connection.
    pub(crate) fn open(
        &mut self,
        endpoint: usize,
        (port, listener): (usize, usize),
        sender: Option<SocketAddr>,
    ) {
        if let Some((_, sessions)) = self.listeners.iter_mut().find(|(number, _)| *number == port) {
            return sessions.open(endpoint, listener, sender.map(|sender| sender.ip()));
        }
        if self.senders.len() <= endpoint {
            self.senders.resize_with(endpoint + 1, || None);
        }
        self.senders[endpoint] = Some(Sender::new(self.ports[port].clone()));
    }

    /// A connection is under TLS.
    pub(crate) fn secured(&mut self, endpoint: usize) {
        if let Some((_, sessions)) = self.listeners.iter_mut().find(|(_, one)| one.has(endpoint)) {
            sessions.secured(endpoint);
        }
    }

    /// Takes the next message of a connection.
    pub(crate) fn message(&mut self, endpoint: usize, bytes: &[u8]) -> Flow {
        let Self { ingest, senders, listeners, parts, .. } = self;
        if let Some((_, sessions)) = listeners.iter_mut().find(|(_, one)| one.has(endpoint)) {
            return sessions.message(ingest, endpoint, bytes);
        }
        match senders.get_mut(endpoint).and_then(Option::as_mut) {
            Some(sender) if !sender.is_refused => sender.take_message(ingest, parts, bytes),
            _ => Flow::Refused,
        }
    }

    /// Reads what comes next of a connection to where it belongs. Returns how many bytes, too.
    pub(crate) fn receive(&mut self, endpoint: usize, source: &mut dyn Incoming) -> (Flow, usize) {
        let Self { ingest, listeners, .. } = self;
        let listener = listeners.iter_mut().find(|(_, one)| one.has(endpoint));
        listener.map_or((Flow::Refused, 0), |(_, one)| one.receive(ingest, endpoint, source))
    }

    /// A connection has ended, and these bytes of it were not taken.
    pub(crate) fn close(&mut self, endpoint: usize, left: &[u8]) {
        let Self { ingest, senders, listeners, parts, .. } = self;
        if let Some((_, sessions)) = listeners.iter_mut().find(|(_, one)| one.has(endpoint)) {
            return sessions.close(ingest, endpoint);
        }
        if let Some(mut sender) = senders.get_mut(endpoint).and_then(Option::take) {
            sender.discard(ingest, parts, left);
            sender.end(ingest);
        }
    }

    /// Answers the senders of connections.
    pub(crate) fn answer(&mut self, egress: &mut (impl Egress + ?Sized)) {
        let now_ns = self.ingest.now_ns();
        for (_, sessions) in &mut self.listeners {
            sessions.answer(&mut self.ingest, egress);
        }
        let connections = self.senders.iter_mut().enumerate().skip(self.ports.len());
        for (endpoint, sender) in connections {
            let Some(sender) = sender.as_mut().filter(|sender| !sender.is_refused) else {
                continue;
            };
            let Sender { decoder, held, .. } = sender;
            let is_held = held.used > 0;
            egress.answer(endpoint, &mut |answer| decoder.answer(now_ns, is_held, answer));
        }
    }

    /// Whether there is room for the next message of that endpoint. Control connections need none.
    #[inline]
    pub(crate) fn has_room(&self, endpoint: usize) -> bool {
        let is_control = |one: &Sessions| one.has(endpoint) && !one.is_data(endpoint);
        self.ingest.has_room() || self.listeners.iter().any(|(_, one)| is_control(one))
    }

    /// Whether connections of sessions come to a port.
    pub(crate) fn is_listener(&self, port: usize) -> bool {
        self.listeners.iter().any(|(number, _)| *number == port)
    }

    /// Whether an endpoint is a connection of a session: without room, it waits alone.
    pub(crate) fn is_of_session(&self, endpoint: usize) -> bool {
        self.listeners.iter().any(|(_, one)| one.has(endpoint))
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
        self.ports[port].lanes[0].account as usize
    }

    /// The source that stands for a port.
    pub(crate) fn source_of(&self, port: usize) -> Option<SourceId> {
        Some(self.ports.get(port)?.sources[0].number)
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

    /// Begins a cycle at that time, of a run that may be about to end.
    pub(crate) fn begin_cycle(&mut self, now_ns: u64, is_stopping: bool) {
        let Self { ingest, senders, listeners, timeout_ns, look_due_ns, .. } = self;
        ingest.begin_cycle(now_ns);
        listeners.iter_mut().for_each(|(_, sessions)| sessions.begin_cycle(now_ns, is_stopping));
        if now_ns < *look_due_ns && !is_stopping {
            return;
        }
        *look_due_ns = now_ns + *timeout_ns / LOOKS_PER_TIMEOUT;
        // The rest of a fragment on a connection is still to come.
        for sender in senders.iter_mut().flatten().filter(|sender| !sender.may_wait) {
            sender.unfinished.expire(ingest, *timeout_ns, is_stopping);
            sender.addresses.follow(now_ns, *timeout_ns);
            sender.show_senders(ingest, now_ns);
        }
    }

    /// Whether what an endpoint brings waits for the run, or for the next one.
    pub(crate) fn is_outside_run(&self, endpoint: usize) -> bool {
        self.listeners.iter().any(|(_, one)| one.has(endpoint) && one.is_outside_run())
    }

    /// The sessions of each listener.
    pub(crate) fn sessions(&mut self) -> impl Iterator<Item = &mut Sessions> {
        self.listeners.iter_mut().map(|(_, sessions)| sessions)
    }

    /// No further message will arrive.
    pub(crate) fn end(&mut self) {
        let Self { ingest, senders, listeners, home, parts, .. } = self;
        listeners.iter_mut().for_each(|(_, sessions)| sessions.end(ingest, home.is_some()));
        for sender in senders.iter_mut().flatten() {
            sender.discard(ingest, parts, &[]);
            sender.end(ingest);
        }
    }
}
