//! The cost of making, parsing and verifying without sockets, per fragment and per byte. A figure
//! for this machine, not a test.

use std::hint::black_box;
use std::time::Instant;

use catchment_emulator::{Content, hades_90};
use catchment_wire::hadtu::{ByteOrder, Packet, PacketEncoder, SUB_EVENT_DECODING, SubEventHeader};

fn main() {
    let content = Content::new(1, &hades_90(), 0, 60_000, None);
    for (what, source, sub_events) in
        [("116 B, full packets", 0, 220), ("116 B, one each", 0, 1), ("1170 B, full", 85, 25)]
    {
        let packets = packets(&content, source, sub_events);
        let count = (packets.len() * sub_events) as f64;
        let bytes: f64 = packets.iter().map(|packet| packet.len() as f64).sum();
        let parse_ns = fastest_ns(|| {
            for packet in &packets {
                let packet = Packet::parse(black_box(packet)).expect("just encoded");
                for sub_event in packet.sub_events() {
                    black_box(sub_event);
                }
            }
        });
        let verify_ns = fastest_ns(|| {
            for packet in &packets {
                for sub_event in Packet::parse(packet).expect("just encoded").sub_events() {
                    let event = u64::from(sub_event.trigger_number);
                    assert!(content.verify(source, event, sub_event.payload()));
                }
            }
        });
        println!(
            "{what:20} parse {:.1} ns/fragment ({:.1} GB/s), with proof {:.1} ns/fragment ({:.1} GB/s)",
            parse_ns / count,
            bytes / parse_ns,
            verify_ns / count,
            bytes / verify_ns,
        );
    }
}

/// About 200 kB of packets.
fn packets(content: &Content, source: u32, sub_events: usize) -> Vec<Vec<u8>> {
    let mut event = 0;
    let mut packets = Vec::new();
    while packets.iter().map(Vec::len).sum::<usize>() < 200_000 {
        let mut buffer = vec![0; 65_507];
        let mut encoder = PacketEncoder::begin(&mut buffer, ByteOrder::Big);
        for _ in 0..sub_events {
            let header = SubEventHeader {
                decoding: SUB_EVENT_DECODING,
                id: 0x8000,
                error: false,
                trigger_number: event as u32,
                trigger_tag: content.tag(event),
            };
            let bytes = content.payload_bytes(source, event);
            let fill = |room: &mut [u8]| content.fill(source, event, &mut room[..bytes]);
            assert!(encoder.push_with(&header, bytes, fill));
            event += 1;
        }
        let bytes = encoder.finish();
        buffer.truncate(bytes);
        packets.push(buffer);
    }
    packets
}

/// Nanoseconds of the fastest of many rounds: on a busy machine the others measure the neighbours.
fn fastest_ns(mut work: impl FnMut()) -> f64 {
    (0..500)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_nanos() as f64
        })
        .fold(f64::INFINITY, f64::min)
}
