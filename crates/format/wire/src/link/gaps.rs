//! Counts the missing packets of a link.
//!
//! Each packet carries at least one channel's part of a slice. The number of packets missing
//! between two is therefore at most the number of parts of their slices, and of the slices between,
//! that neither carried. A larger gap in the sequence numbers means that they are wrong, or that
//! their sender has restarted its numbering: that is not a loss.
//!
//! The contents of packets prove nothing: any two may agree on a slice years ahead. Since slices
//! take time, no more slices lie between two packets than fit the elapsed time that earlier slices
//! did not use, plus [`SLICES_EARLY`]. Time left unused during a stall of the link or of the
//! recorder is kept, up to [`UNUSED_NS_MAX`]: the packets queued meanwhile arrive at once, with
//! gaps.

use crate::link::{Header, Kind};
use crate::sequence::{Arrival, Gaps};

/// The sequence numbers of one link, and the missing packets that they imply.
pub(crate) struct LinkGaps {
    gaps: Gaps,
    channels: u64,
    /// The slice of the newest packet, and how many of its parts have arrived.
    slice: u64,
    parts: u64,
    /// Parts of other slices in packets since then, whose numbers do not fit yet.
    aside: u64,
    /// When a packet was last the newest one, and the time until then that no slice used.
    newest_ns: u64,
    unused_ns: u64,
}

/// Slices that may arrive before their time: a delayed link sends many at once.
const SLICES_EARLY: u64 = 16;
/// The most unused time kept from one packet to the next: a slow clock leaves a little each day.
const UNUSED_NS_MAX: u64 = 60_000_000_000;

impl LinkGaps {
    /// For a link of `channels` channels, before its first packet.
    pub(crate) fn new(channels: usize) -> Self {
        let (channels, gaps) = (channels as u64, Gaps::new());
        Self { gaps, channels, slice: 0, parts: 0, aside: 0, newest_ns: 0, unused_ns: 0 }
    }

    /// Takes a packet with `parts` parts of its slice. Returns how it relates to those before (none
    /// for a heartbeat), and how many packets are now counted as missing.
    pub(crate) fn take(
        &mut self,
        header: &Header,
        parts: usize,
        now_ns: u64,
    ) -> (Option<Arrival>, u64) {
        let &Header { kind, sequence, slice, slice_ns, .. } = header;
        let (parts, known) = (parts as u64, self.gaps.next());
        let passed_ns = self.unused_ns.saturating_add(now_ns.saturating_sub(self.newest_ns));
        let ahead = slice.abs_diff(self.slice);
        let slices = ahead.min(passed_ns / slice_ns.max(1) + SLICES_EARLY) + 1;
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
            let unused_ns = passed_ns.saturating_sub(ahead.saturating_mul(slice_ns));
            self.unused_ns = known.map_or(0, |_| unused_ns.min(UNUSED_NS_MAX));
            self.newest_ns = now_ns;
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

    /// No further packet will arrive. Returns how many are missing beyond those counted before.
    pub(crate) fn settle(&mut self) -> u64 {
        self.gaps.settle()
    }
}

#[cfg(test)]
mod tests {
    use crate::link::{EntryHeader, Packet, PacketEncoder, encode_heartbeat};
    use catchment_fixtures::Random;

    use super::*;

    const CHANNELS: usize = 12;
    const SLICE_NS: u64 = 250_000_000;

    fn header(kind: Kind, sequence: u64, slice: u64) -> Header {
        Header { kind, link: 1, sequence, slice, slice_ns: SLICE_NS }
    }

    /// A packet without samples of that many channels; a heartbeat, if of none.
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
            let entry = EntryHeader { channel, first_sample: 0, bytes: 0 };
            assert!(encoder.push(&entry), "fits");
        }
        let bytes = encoder.finish_with(|_, _| {});
        buffer.truncate(bytes);
        buffer
    }

    /// Takes it at the time of that slice.
    fn take(gaps: &mut LinkGaps, at_slice: u64, datagram: &[u8]) -> u64 {
        let Ok(packet) = Packet::parse(datagram) else { return 0 };
        gaps.take(packet.header(), packet.entry_count(), at_slice * SLICE_NS).1
    }

    /// Whatever damage copies have, no sent packet is missing.
    #[test]
    fn a_million_mutated_packets_are_no_loss() {
        for parts in [CHANNELS, 5, 1] {
            let (mut gaps, mut random) = (LinkGaps::new(CHANNELS), Random::new(parts as u64));
            let (mut missing, mut sequence) = (0, 1_000_u64);
            for slice in 7_000_000_u64..7_000_000 + (340_000 / CHANNELS * parts) as u64 {
                for _ in 0..CHANNELS.div_ceil(parts) {
                    let good = packet(sequence, slice, parts.min(CHANNELS));
                    sequence += 1;
                    missing += take(&mut gaps, slice, &good);
                    if slice % 4 == 0 {
                        missing += take(&mut gaps, slice, &packet(sequence, slice + 1, 0));
                    }
                    let mut bad = good;
                    for _ in 0..1 + random.below(3) {
                        // Many of them in the numbers.
                        let at = 16 + random.index(64.min(bad.len() - 16));
                        bad[at] ^= 1 << random.below(8);
                    }
                    missing += take(&mut gaps, slice, &bad);
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
                    let slice = 50 + number / per_slice;
                    missing += take(&mut gaps, slice, &packet(number, slice, parts));
                }
                assert_eq!(missing + gaps.settle(), lost, "{parts} parts, {lost} lost");
            }
        }
    }

    /// Two that agree, equal heartbeats or packets in order, between those of a link that
    /// continues.
    #[test]
    fn forged_packets_that_agree_are_no_loss() {
        for parts in [0, 1, CHANNELS] {
            let mut gaps = LinkGaps::new(CHANNELS);
            let mut missing = 0;
            for number in 0..20_000 {
                let slice = 7_000_000 + number;
                if number % 1_000 == 500 {
                    for forged in [0, u64::from(parts > 0)] {
                        let sequence = number + (1 << 31) + forged;
                        let forged = packet(sequence, slice + 1_000_000_000, parts);
                        missing += take(&mut gaps, slice, &forged);
                    }
                }
                missing += take(&mut gaps, slice, &packet(number, slice, CHANNELS));
            }
            assert_eq!(missing + gaps.settle(), 0, "{parts} parts");
        }
    }

    /// The recorder stopped for that many slices. Only the first of them are in its socket.
    #[test]
    fn what_is_missing_behind_packets_that_queued_is_counted() {
        for stood_still in [40, 200] {
            let (mut gaps, mut missing) = (LinkGaps::new(CHANNELS), 0);
            let (begin, end) = (50, 50 + stood_still);
            for slice in (0..begin + stood_still / 2).chain(end..end + 100) {
                let now = if slice < begin { slice } else { slice.max(end) };
                for number in (0..CHANNELS as u64).map(|part| slice * CHANNELS as u64 + part) {
                    missing += take(&mut gaps, now, &packet(number, slice, 1));
                }
            }
            assert_eq!(missing + gaps.settle(), stood_still / 2 * CHANNELS as u64);
        }
    }
}
