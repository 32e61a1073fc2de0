//! How many packets of a link are missing.
//!
//! Each packet brings at least one channel's part of a slice. Between two packets at most so many
//! can therefore be missing as there are parts of their slices, and of those between, that neither
//! has brought. Sequence numbers that leave a larger gap are wrong, or their sender counts anew:
//! that is no loss.

use catchment_wire::link::{Header, Kind};
use catchment_wire::sequence::{Arrival, Gaps};

/// The sequence numbers of one link, and what they say is missing.
pub(crate) struct LinkGaps {
    gaps: Gaps,
    channels: u64,
    /// The slice of the newest packet, and how many of its parts have come.
    slice: u64,
    parts: u64,
    /// Parts of other slices in packets since, whose numbers fit in nowhere yet.
    aside: u64,
}

impl LinkGaps {
    /// Of a link of so many channels, before its first packet.
    pub(crate) fn new(channels: usize) -> Self {
        Self { gaps: Gaps::new(), channels: channels as u64, slice: 0, parts: 0, aside: 0 }
    }

    /// Takes a packet of so many parts of its slice. Returns how it relates to those before (none
    /// for a heartbeat), and how many packets are now counted as missing.
    pub(crate) fn take(&mut self, header: &Header, parts: usize) -> (Option<Arrival>, u64) {
        let &Header { kind, sequence, slice, .. } = header;
        let (parts, known) = (parts as u64, self.gaps.next());
        let slices = slice.abs_diff(self.slice).saturating_add(1);
        let all = slices.saturating_mul(self.channels);
        let brought = self.parts.saturating_add(self.aside).saturating_add(parts);
        let room = all.saturating_sub(brought);
        let (arrival, missing) = match kind {
            Kind::Samples => {
                let (arrival, missing) = self.gaps.take_within(sequence, room);
                (Some(arrival), missing)
            }
            Kind::Heartbeat => (None, self.gaps.expect_within(sequence, room)),
        };
        let is_newest = self.gaps.next() != known;
        if is_newest {
            self.aside = 0;
        }
        if is_newest && slice != self.slice {
            (self.slice, self.parts) = (slice, 0);
        }
        if slice == self.slice && arrival != Some(Arrival::Repeated) {
            self.parts = (self.parts + parts).min(self.channels);
        } else if arrival == Some(Arrival::New) {
            self.aside = self.aside.saturating_add(parts);
        }
        (arrival, missing)
    }

    /// No packet will come any more. Returns how many are missing beside those counted before.
    pub(crate) fn settle(&mut self) -> u64 {
        self.gaps.settle()
    }
}

#[cfg(test)]
mod tests {
    use catchment_fixtures::Random;
    use catchment_wire::link::{Packet, PacketEncoder, encode_heartbeat};

    use super::*;

    const CHANNELS: usize = 12;

    fn header(kind: Kind, sequence: u64, slice: u64) -> Header {
        Header { kind, link: 1, sequence, slice, slice_ns: 250_000_000 }
    }

    /// A packet without samples of so many channels; a heartbeat, if of none.
    fn packet(sequence: u64, slice: u64, parts: usize) -> Vec<u8> {
        let mut buffer = vec![0; 48 + 16 * CHANNELS];
        if parts == 0 {
            let header = header(Kind::Heartbeat, sequence, slice);
            let bytes = encode_heartbeat(&mut buffer, &header);
            buffer.truncate(bytes);
            return buffer;
        }
        let header = header(Kind::Samples, sequence, slice);
        let mut encoder = PacketEncoder::begin(&mut buffer, &header);
        for channel in 0..parts as u32 {
            let entry = catchment_wire::link::EntryHeader { channel, first_sample: 0, bytes: 0 };
            assert!(encoder.push(&entry), "fits");
        }
        let bytes = encoder.finish_with(|_, _| {});
        buffer.truncate(bytes);
        buffer
    }

    fn take(gaps: &mut LinkGaps, datagram: &[u8]) -> u64 {
        let Ok(packet) = Packet::parse(datagram) else { return 0 };
        gaps.take(packet.header(), packet.entry_count()).1
    }

    /// Whatever is damaged of copies, nothing that was sent is missing.
    #[test]
    fn a_million_mutated_packets_are_no_loss() {
        for parts in [CHANNELS, 5, 1] {
            let (mut gaps, mut random) = (LinkGaps::new(CHANNELS), Random::new(parts as u64));
            let (mut missing, mut sequence) = (0, 1_000_u64);
            for slice in 7_000_000_u64..7_000_000 + (340_000 / CHANNELS * parts) as u64 {
                for _ in 0..CHANNELS.div_ceil(parts) {
                    let good = packet(sequence, slice, parts.min(CHANNELS));
                    sequence += 1;
                    missing += take(&mut gaps, &good);
                    if slice % 4 == 0 {
                        missing += take(&mut gaps, &packet(sequence, slice + 1, 0));
                    }
                    let mut bad = good;
                    for _ in 0..1 + random.below(3) {
                        // Many of them in the numbers.
                        let at = 16 + random.index(64.min(bad.len() - 16));
                        bad[at] ^= 1 << random.below(8);
                    }
                    missing += take(&mut gaps, &bad);
                }
            }
            missing += gaps.settle();
            assert_eq!(missing, 0, "{parts} parts in a packet");
        }
    }

    #[test]
    fn packets_that_are_missing_are_counted_whatever_their_number() {
        for parts in [CHANNELS, 4] {
            for lost in [1, 2, 3, 40, 5_000, 70_000] {
                let mut gaps = LinkGaps::new(CHANNELS);
                let per_slice = (CHANNELS / parts) as u64;
                let numbers = (0..100).chain(100 + lost..200 + lost);
                let mut missing = 0;
                for number in numbers {
                    missing += take(&mut gaps, &packet(number, 50 + number / per_slice, parts));
                }
                assert_eq!(missing + gaps.settle(), lost, "{parts} parts, {lost} lost");
            }
        }
    }
}
