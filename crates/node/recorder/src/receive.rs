//! The receive agent: from datagrams to fragments in chunks.
//!
//! For every datagram: decode, copy each fragment to the end of its source's chunk, and pass a
//! 24-byte descriptor on (`ingest.rs`). The cycle here is the same for every protocol; what a
//! datagram says is an [`Intake`]'s.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_agent::{Agent, Arrival, Flow, Ingress, Received, Work};
use catchment_builder::{Fragment, FragmentFlags};
use catchment_model::Entry;
use catchment_wire::hadtu::{ByteOrder, Packet, SubEvent};

use crate::allow_list::AllowList;
use crate::config::SourceConfig;
use crate::ingest::Ingest;

/// How long a cycle may be away while nothing arrives: how fast the agent sees that it should stop.
const IDLE_NS: u64 = 20_000_000;
/// The same while it is stopping.
const STOPPING_NS: u64 = 1_000_000;
/// How long a full ring of descriptors is left to the build agent.
const RING_FULL_NS: u64 = 200_000;
/// After the stop, sockets must have been empty for this long before they count as drained.
const DRAIN_QUIET_NS: u64 = 50_000_000;
/// How often the ingress is asked for its drop counts.
const REFRESH_DROPS_EVERY_NS: u64 = 1_000_000_000;
/// How long sources that go on sending after the stop can hold it up.
const DRAIN_MAX_NS: u64 = 1_500_000_000;

/// Receives from some endpoints.
pub(crate) struct Receive<I, T> {
    ingress: I,
    intake: T,
    /// Who may send to each endpoint.
    allowed: Vec<AllowList>,
    stop: Arc<AtomicBool>,
    drops_asked_ns: u64,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Receiving,
    /// Told to stop: since when, and since when nothing has come.
    Draining {
        since_ns: u64,
        quiet_ns: Option<u64>,
    },
    /// What the endpoints have now is the last that is taken.
    Last,
    /// Only descriptors are left to be passed on.
    PassingOn,
}

/// What becomes of the datagrams of one protocol.
pub(crate) trait Intake: Send {
    /// A datagram came to that endpoint.
    fn datagram(&mut self, endpoint: usize, bytes: &[u8]);

    /// Where its counts and descriptors go.
    fn ingest(&mut self) -> &mut Ingest;

    /// No datagram will come any more.
    fn end(&mut self) {}
}

impl<I: Ingress, T: Intake> Receive<I, T> {
    /// The ingress has its endpoints in the intake's order, and each takes datagrams from those who
    /// are allowed.
    pub(crate) fn new(
        ingress: I,
        intake: T,
        allowed: Vec<AllowList>,
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let (stop, stage) = (Arc::clone(stop), Stage::Receiving);
        Self { ingress, intake, allowed, stop, drops_asked_ns: 0, stage }
    }

    /// Takes what has arrived, as far as there is room for its descriptors; also how many datagrams
    /// came from those who may send.
    fn take(&mut self) -> (Received, u64) {
        let Self { intake, allowed, .. } = self;
        let mut accepted = 0;
        let received = self.ingress.poll(|Arrival { endpoint, sender, bytes }| {
            if !intake.ingest().has_room() {
                return Flow::Paused;
            }
            match allowed[endpoint].allows(sender) {
                true => {
                    accepted += 1;
                    intake.datagram(endpoint, bytes);
                }
                false => intake.ingest().reject(endpoint, sender, bytes.len()),
            }
            Flow::Taken
        });
        let ingest = self.intake.ingest();
        self.ingress.take_drops(|endpoint, drops| {
            ingest.count(endpoint, Entry::PacketsDroppedByKernel, drops);
        });
        if let Some((endpoint, error)) = self.ingress.take_error() {
            ingest.warn_once(match endpoint {
                Some(endpoint) => format!("source {}: receiving: {error}", ingest.source(endpoint)),
                None => format!("receiving: {error}"),
            });
        }
        (received, accepted)
    }

    /// How far the end is, after a cycle in which so much was accepted.
    fn next_stage(&mut self, now_ns: u64, accepted: u64) -> Stage {
        if !self.stop.load(Relaxed) {
            return Stage::Receiving;
        }
        let (since_ns, quiet_ns) = match self.stage {
            Stage::Draining { since_ns, quiet_ns } => (since_ns, quiet_ns),
            _ => (now_ns, None),
        };
        let quiet_ns = if accepted > 0 { None } else { quiet_ns.or(Some(now_ns)) };
        let quiet = quiet_ns.is_some_and(|quiet| now_ns - quiet >= DRAIN_QUIET_NS);
        if quiet || now_ns - since_ns >= DRAIN_MAX_NS || self.intake.ingest().is_past_end() {
            return Stage::Last;
        }
        Stage::Draining { since_ns, quiet_ns }
    }
}

impl<I: Ingress, T: Intake> Agent for Receive<I, T> {
    /// Receives until told to stop and the endpoints are empty, or not empty for too long. Dropping
    /// the agent, and with it the ring's end, tells the build agent.
    fn work(&mut self, now_ns: u64) -> Work {
        self.intake.ingest().begin_cycle(now_ns);
        if self.stage == Stage::PassingOn {
            return match self.intake.ingest().pass_on() {
                true => Work::ended(),
                false => Work::blocked_until(1, now_ns + RING_FULL_NS),
            };
        }
        // Datagrams that an endpoint drops last are not told of by any later datagram.
        let last = self.stage == Stage::Last;
        if last || now_ns.saturating_sub(self.drops_asked_ns) >= REFRESH_DROPS_EVERY_NS {
            self.ingress.refresh_drops();
            self.drops_asked_ns = now_ns;
        }
        let (received, accepted) = self.take();
        let Received { arrivals, more, paused, .. } = received;
        if !self.intake.ingest().pass_on() {
            return Work::blocked_until(received.arrivals, now_ns + RING_FULL_NS);
        }
        if paused {
            return Work::again(arrivals);
        }
        if last {
            self.intake.end();
            self.stage = Stage::PassingOn;
            return Work::again(1);
        }
        self.stage = self.next_stage(now_ns, accepted);
        match self.stage {
            _ if more => Work::again(arrivals),
            Stage::Receiving => Work::until(arrivals, now_ns + IDLE_NS),
            Stage::Draining { .. } => Work::until(arrivals, now_ns + STOPPING_NS),
            Stage::Last | Stage::PassingOn => Work::again(1),
        }
    }
}

/// Sources that send `hadtu` packets, one per socket. A source's chunk has its socket's number.
pub(crate) struct HadtuIntake {
    pub(crate) ingest: Ingest,
    /// What each socket's source must carry.
    pub(crate) sub_event_ids: Vec<Option<u32>>,
    /// What to say of a big-endian sub-event of each socket's source, if it matters; it is said
    /// once.
    pub(crate) if_big_endian: Vec<Option<String>>,
}

impl Intake for HadtuIntake {
    #[inline]
    fn datagram(&mut self, socket: usize, bytes: &[u8]) {
        self.ingest.received(socket, bytes);
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(error) => return self.ingest.malformed(socket, error.entry(), &error, bytes),
        };
        self.ingest.counts(socket)[Entry::PacketsAccepted] += 1;
        for sub_event in packet.sub_events() {
            self.fragment(socket, &sub_event);
        }
    }

    fn ingest(&mut self) -> &mut Ingest {
        &mut self.ingest
    }
}

impl HadtuIntake {
    #[inline]
    fn fragment(&mut self, socket: usize, sub_event: &SubEvent<'_>) {
        let counts = self.ingest.counts(socket);
        counts[Entry::FragmentsReceived] += 1;
        counts[Entry::FragmentBytesReceived] += sub_event.bytes.len() as u64;
        if self.sub_event_ids[socket].is_some_and(|expected| expected != sub_event.id) {
            counts[Entry::FragmentsUnknownSource] += 1;
            return;
        }
        if sub_event.order == ByteOrder::Big
            && let Some(warning) = self.if_big_endian[socket].take()
        {
            self.ingest.warn_once(warning);
        }
        let Some(offset) = self.ingest.store(socket, socket, sub_event.bytes, 1) else {
            self.ingest.counts(socket)[Entry::FragmentsDiscardedMemory] += 1;
            return;
        };
        let flags = if sub_event.error { FragmentFlags::SENDER_ERROR } else { 0 };
        let (source, number) = (self.ingest.source(socket).0, u64::from(sub_event.trigger_number));
        let fragment = Fragment::new(source, number, offset, sub_event.bytes.len() as u32);
        self.ingest.describe(Fragment { tag: sub_event.trigger_tag, flags, ..fragment });
    }
}

/// What to say if a source sends big-endian sub-events; nothing where no number has several bytes.
pub(crate) fn if_big_endian(source: &SourceConfig) -> Option<String> {
    let payload = source.payload.as_ref()?;
    let of_fields = payload.fields.iter().map(|field| field.dtype);
    let mut dtypes = std::iter::once(payload.dtype).chain(of_fields);
    let dtype = dtypes.find(|dtype| dtype.bits().is_some_and(|bits| bits > 8))?;
    Some(format!(
        "source {}: its sub-events are big-endian, but its payload is read as little-endian: \
         the bytes of each {} come out in the wrong order",
        source.name,
        dtype.name()
    ))
}
