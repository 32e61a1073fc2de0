//! Handles the datagrams of channel links.
//!
//! An entry of a packet is a *fragment*: one channel's part of one slice. A packet with an entry
//! that does not have the size given by the channel's rate for that slice is dropped whole, as
//! malformed.

use catchment_builder::{Fragment, FragmentFlags};
use catchment_model::{Entry, SampleRate};
use catchment_wire::link::{CHANNEL, Packet, REASONS, SLICE_LENGTH};
use catchment_wire::sequence::Arrival;

use crate::ingest::{Ingest, Refused};
use crate::link_gaps::LinkGaps;
use crate::links::{Lane, LinkConfig};
use crate::receive::Intake;

/// Links whose datagrams one thread receives, one per socket.
pub(crate) struct LinkIntake {
    ingest: Ingest,
    links: Vec<Link>,
}

struct Link {
    slice_ns: u64,
    channels: Vec<Channel>,
    gaps: LinkGaps,
}

struct Channel {
    lane: u32,
    chunk: usize,
    align: usize,
    rate: SampleRate,
    sample_bytes: u32,
    /// Bytes of every slice, if all have the same size.
    slice_bytes: Option<u32>,
}

impl Channel {
    fn new(lane: &Lane, number: u32, slice_ns: u64) -> Self {
        let rate = lane.rate;
        let samples = rate.first_sample_at(slice_ns);
        // The same number in every slice: a slice is a whole number of samples.
        let ticks = u128::from(slice_ns) * u128::from(rate.num());
        let whole = ticks.is_multiple_of(u128::from(rate.den()) * 1_000_000_000);
        let sample_bytes = lane.sample_bytes as u32;
        Self {
            lane: number,
            chunk: lane.chunk_lane as usize,
            align: 1 << lane.sample_bytes.trailing_zeros().min(3),
            rate,
            sample_bytes,
            slice_bytes: whole.then(|| samples as u32 * sample_bytes),
        }
    }

    #[inline]
    fn slice_bytes(&self, slice: u64, slice_ns: u64) -> u64 {
        match self.slice_bytes {
            Some(bytes) => u64::from(bytes),
            None => {
                let samples = self.rate.samples_of_slice(slice, slice_ns);
                (samples.end - samples.start).saturating_mul(u64::from(self.sample_bytes))
            }
        }
    }
}

impl LinkIntake {
    /// For these links, at these indices of the configuration; `lanes` are the channels of all
    /// links.
    pub(crate) fn new(
        ingest: Ingest,
        indices: impl Iterator<Item = usize>,
        (links, lanes): (&[LinkConfig], &[Lane]),
    ) -> Self {
        let link = |index: usize| {
            let slice_ns = links[index].slice_ns;
            let own = lanes.iter().enumerate().filter(|(_, lane)| lane.link == index);
            let channel =
                |(number, lane): (usize, &Lane)| Channel::new(lane, number as u32, slice_ns);
            let channels: Vec<Channel> = own.map(channel).collect();
            let gaps = LinkGaps::new(channels.len());
            Link { slice_ns, channels, gaps }
        };
        Self { ingest, links: indices.map(link).collect() }
    }

    fn samples(&mut self, socket: usize, packet: &Packet<'_>, arrival: Arrival) {
        let slice = packet.header().slice;
        let link = &self.links[socket];
        let flags = if arrival == Arrival::Repeated { 0 } else { FragmentFlags::SENT_ONCE };
        let (mut fragments, mut bytes) = (0, 0);
        for entry in packet.entries() {
            let channel = &link.channels[entry.channel as usize];
            fragments += 1;
            bytes += entry.samples.len() as u64;
            // A channel without a sample in this slice has an empty entry and takes no memory.
            let offset = match entry.samples {
                [] => Some(0),
                samples => self.ingest.store(socket, channel.chunk, samples, channel.align),
            };
            let Some(offset) = offset else {
                self.ingest.counts(socket)[Entry::FragmentsDiscardedMemory] += 1;
                continue;
            };
            let bytes = entry.samples.len() as u32;
            // Counted before it is described, since describing may pass the batch on.
            let counts = self.ingest.counts(socket);
            counts[Entry::FragmentsReceived] += std::mem::take(&mut fragments);
            let fragment = Fragment::new(channel.lane, slice, offset, bytes);
            self.ingest.describe(Fragment { flags, ..fragment });
        }
        let counts = self.ingest.counts(socket);
        counts[Entry::FragmentBytesReceived] += bytes;
        counts[Entry::FragmentsReceived] += fragments;
    }

    /// The reason why a packet is not usable, if any.
    fn fault(&self, socket: usize, packet: &Packet<'_>) -> Option<(usize, &'static str)> {
        let link = &self.links[socket];
        let header = packet.header();
        if header.slice_ns != link.slice_ns {
            return Some((SLICE_LENGTH, "its slices have another length"));
        }
        let fits = |entry: &catchment_wire::link::Entry<'_>| {
            link.channels.get(entry.channel as usize).is_some_and(|channel| {
                let expected = channel.slice_bytes(header.slice, link.slice_ns);
                entry.first_sample == 0 && entry.samples.len() as u64 == expected
            })
        };
        if packet.entries().all(|entry| fits(&entry)) {
            return None;
        }
        let why = "an entry is not what the configuration says for its channel and slice";
        Some((CHANNEL, why))
    }

    #[cold]
    fn malformed(
        &mut self,
        socket: usize,
        reason: usize,
        explain: impl FnOnce() -> String,
        bytes: &[u8],
    ) {
        let refused = Refused { index: reason, reason: REASONS[reason] };
        self.ingest.malformed(socket, refused, explain, bytes);
    }
}

impl Intake for LinkIntake {
    #[inline]
    fn datagram(&mut self, socket: usize, bytes: &[u8]) {
        self.ingest.received(socket, bytes);
        let packet = match Packet::parse(bytes) {
            Ok(packet) => packet,
            Err(error) => {
                let reason = error.reason();
                return self.malformed(socket, reason, || error.to_string(), bytes);
            }
        };
        if let Some((reason, why)) = self.fault(socket, &packet) {
            return self.malformed(socket, reason, || why.to_owned(), bytes);
        }
        let (gaps, now_ns) = (&mut self.links[socket].gaps, self.ingest.now_ns());
        let (arrival, missing) = gaps.take(packet.header(), packet.entry_count(), now_ns);
        let counts = self.ingest.counts(socket);
        counts[Entry::PacketsAccepted] += 1;
        counts[Entry::PacketsMissing] += missing;
        // A heartbeat has no samples: nothing is passed on.
        if let Some(arrival) = arrival {
            self.samples(socket, &packet, arrival);
        }
    }

    fn ingest(&mut self) -> &mut Ingest {
        &mut self.ingest
    }

    fn end(&mut self) {
        for (socket, link) in self.links.iter_mut().enumerate() {
            let missing = link.gaps.settle();
            self.ingest.count(socket, Entry::PacketsMissing, missing);
        }
    }
}
