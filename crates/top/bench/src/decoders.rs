//! Decoders alone: the packets of a board, by hadtu's decoder and by hadtu's declaration.

use std::time::Instant;

use catchment_wire::hadtu::{ByteOrder, Hadtu, PacketEncoder, SUB_EVENT_DECODING, SubEventHeader};
use catchment_wire::layouts::{Layouts, example_layouts};
use catchment_wire::{Decoder, Protocol};
use serde::Serialize;

/// What both needed.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Decoded {
    pub(crate) records: usize,
    pub(crate) packet_bytes: usize,
    pub(crate) nanoseconds_coded: f64,
    pub(crate) nanoseconds_declared: f64,
    /// Both found every record.
    pub(crate) whole: bool,
}

impl Decoded {
    /// How much longer the declaration takes.
    pub(crate) fn ratio(&self) -> f64 {
        self.nanoseconds_declared / self.nanoseconds_coded.max(1e-9)
    }
}

/// Decodes packets of so many records of 260 bytes, in turn by each.
pub(crate) fn measure(records: usize, packets_wanted: u64) -> Decoded {
    let packet = packet(records);
    let [trb, ..]: [Layouts; 4] = example_layouts();
    let mut decoders = [Hadtu.decoder(), trb.decoder()];
    let (mut spent_ns, mut found) = ([0_u128; 2], [0_u64; 2]);
    let rounds = packets_wanted.div_ceil(ROUND_PACKETS);
    for _ in 0..rounds {
        // In turn, so that whatever else the machine does falls on both.
        for (index, decoder) in decoders.iter_mut().enumerate() {
            let start = Instant::now();
            found[index] += decode(decoder.as_mut(), &packet);
            spent_ns[index] += start.elapsed().as_nanos();
        }
    }
    let packets = rounds * ROUND_PACKETS;
    let [coded, declared] = spent_ns.map(|spent| spent as f64 / packets as f64);
    Decoded {
        records,
        packet_bytes: packet.len(),
        nanoseconds_coded: coded,
        nanoseconds_declared: declared,
        whole: found == [packets * records as u64; 2],
    }
}

fn decode(decoder: &mut dyn Decoder, packet: &[u8]) -> u64 {
    let mut parts = Vec::with_capacity(catchment_wire::PARTS_MAX);
    let mut found = 0;
    for _ in 0..ROUND_PACKETS {
        parts.clear();
        let decoded = decoder.decode(0, std::hint::black_box(packet), &mut parts);
        found += decoded.map_or(0, |_| parts.len() as u64);
        std::hint::black_box(&parts);
    }
    found
}

fn packet(records: usize) -> Vec<u8> {
    let mut buffer = vec![0; 65_507];
    let mut encoder = PacketEncoder::begin(&mut buffer, ByteOrder::Big);
    for number in 0..records as u32 {
        let header = SubEventHeader {
            decoding: SUB_EVENT_DECODING,
            id: 0x8000,
            error: false,
            trigger_number: number,
            trigger_tag: 1,
        };
        assert!(encoder.push(&header, &[number as u8; 244]), "{records} records fit a datagram");
    }
    let bytes = encoder.finish();
    buffer.truncate(bytes);
    buffer
}

/// Packets that are timed together.
const ROUND_PACKETS: u64 = 1_000;
