//! The receive thread: from datagrams to fragments in segments.
//!
//! For every datagram: decode, copy each fragment to the end of its source's chunk, and pass a
//! 24-byte descriptor on (`desk.rs`). The loop here is the same for every protocol; what a datagram
//! says is an [`Intake`]'s.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use catchment_builder::{Fragment, FragmentFlags};
use catchment_model::Entry;
use catchment_net::UdpReceiver;
use catchment_wire::hadtu::{ByteOrder, Packet, SubEvent};

use crate::config::SourceConfig;
use crate::desk::Desk;

/// How long one cycle may wait for datagrams; bounds how fast the thread sees that it should stop.
const WAIT_MAX: Duration = Duration::from_millis(20);
/// After the stop, sockets must have been empty for this long before they count as drained.
const DRAIN_QUIET: Duration = Duration::from_millis(50);
/// How often the kernel is asked for its drop counts.
const REFRESH_DROPS_EVERY: Duration = Duration::from_secs(1);
/// How long sources that go on sending after the stop can hold it up.
const DRAIN_MAX: Duration = Duration::from_millis(1_500);

/// A receive thread's state.
pub(crate) struct Receive<I> {
    receiver: UdpReceiver,
    intake: I,
    stop: Arc<AtomicBool>,
}

/// What becomes of the datagrams of one protocol.
pub(crate) trait Intake {
    /// A datagram came to that socket.
    fn datagram(&mut self, socket: usize, bytes: &[u8]);

    /// Where its counts and descriptors go.
    fn desk(&mut self) -> &mut Desk;

    /// No datagram will come any more.
    fn end(&mut self) {}
}

impl<I: Intake> Receive<I> {
    /// A thread's state: the receiver has the sockets in the intake's order.
    pub(crate) fn new(receiver: UdpReceiver, intake: I, stop: &Arc<AtomicBool>) -> Self {
        Self { receiver, intake, stop: Arc::clone(stop) }
    }

    /// Receives until told to stop and the sockets are empty, or not empty for too long. Dropping
    /// the ring's end tells the build thread.
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
            if stopping && self.intake.desk().is_past_end() {
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
        self.intake.end();
        self.intake.desk().pass_on();
    }

    fn cycle(&mut self, wait_max: Duration) -> u64 {
        let intake = &mut self.intake;
        let result = self.receiver.poll(wait_max, |socket, bytes| intake.datagram(socket, bytes));
        let desk = intake.desk();
        self.receiver.take_drops(|socket, drops| {
            desk.count(socket, Entry::PacketsDroppedByKernel, drops);
        });
        self.receiver.take_refused(|socket, refused| desk.refused(socket, &refused));
        if let Some((socket, error)) = self.receiver.take_error() {
            let source = desk.source(socket);
            desk.warn_once(format!("source {source}: receiving: {error}"));
        }
        desk.pass_on();
        match result {
            Ok(work) => work.datagrams,
            Err(error) => {
                desk.warn_once(format!("receiving: {error}"));
                0
            }
        }
    }
}

/// Sources that send `hadtu` packets, one per socket. A source's chunk has its socket's number.
pub(crate) struct HadtuIntake {
    pub(crate) desk: Desk,
    /// What each socket's source must carry.
    pub(crate) sub_event_ids: Vec<Option<u32>>,
    /// What to say of a big-endian sub-event of each socket's source, if it matters; it is said
    /// once.
    pub(crate) if_big_endian: Vec<Option<String>>,
}

impl Intake for HadtuIntake {
    #[inline]
    fn datagram(&mut self, socket: usize, bytes: &[u8]) {
        self.desk.received(socket, bytes);
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(error) => return self.desk.malformed(socket, error.entry(), &error, bytes),
        };
        self.desk.counts(socket)[Entry::PacketsAccepted] += 1;
        for sub_event in packet.sub_events() {
            self.fragment(socket, &sub_event);
        }
    }

    fn desk(&mut self) -> &mut Desk {
        &mut self.desk
    }
}

impl HadtuIntake {
    #[inline]
    fn fragment(&mut self, socket: usize, sub_event: &SubEvent<'_>) {
        let counts = self.desk.counts(socket);
        counts[Entry::FragmentsReceived] += 1;
        counts[Entry::FragmentBytesReceived] += sub_event.bytes.len() as u64;
        if self.sub_event_ids[socket].is_some_and(|expected| expected != sub_event.id) {
            counts[Entry::FragmentsUnknownSource] += 1;
            return;
        }
        if sub_event.order == ByteOrder::Big
            && let Some(warning) = self.if_big_endian[socket].take()
        {
            self.desk.warn_once(warning);
        }
        let Some(offset) = self.desk.store(socket, socket, sub_event.bytes, 1) else {
            self.desk.counts(socket)[Entry::FragmentsDiscardedMemory] += 1;
            return;
        };
        let flags = if sub_event.error { FragmentFlags::SENDER_ERROR } else { 0 };
        let (source, number) = (self.desk.source(socket).0, u64::from(sub_event.trigger_number));
        let fragment = Fragment::new(source, number, offset, sub_event.bytes.len() as u32);
        self.desk.describe(Fragment { tag: sub_event.trigger_tag, flags, ..fragment });
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
