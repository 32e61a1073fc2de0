//! The channel link's packets, made and read.

use catchment_wire::link::{
    ENTRY_BYTES, EntryHeader, HEADER_BYTES, Header, Kind, Packet, PacketEncoder, SAMPLES_BYTES_MAX,
    encode_heartbeat,
};
use proptest::prelude::*;

fn header() -> Header {
    Header {
        kind: Kind::Samples,
        link: 7,
        sequence: 12,
        slice: 6_800_000_000,
        slice_ns: 62_500_000,
    }
}

fn entry(channel: u32, bytes: usize) -> EntryHeader {
    EntryHeader { channel, first_sample: channel * 2, bytes: bytes as u32 }
}

fn encode(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut buffer = vec![0xee; 65_507];
    let mut encoder = PacketEncoder::begin(&mut buffer, &header());
    for (channel, samples) in (0..).zip(parts) {
        assert!(encoder.push(&entry(channel, samples.len())));
    }
    let expected = encoder.packet_bytes();
    let bytes = encoder.finish_with(|entry, out| {
        out.copy_from_slice(&parts[entry.channel as usize]);
    });
    assert_eq!(bytes, expected);
    buffer.truncate(bytes);
    buffer
}

#[test]
fn a_packet_stands_as_the_specification_draws_it() {
    let bytes = encode(&[vec![1, 2, 3, 4, 5], vec![], vec![6; 8]]);
    #[rustfmt::skip]
    let expected = [
        b'C', b'T', b'L', b'K', 1, 1, 0, 0,
        7, 0, 0, 0, 3, 0, 0, 0,
        12, 0, 0, 0, 0, 0, 0, 0,
        0x00, 0xc4, 0x4f, 0x95, 1, 0, 0, 0,
        0xa0, 0xac, 0xb9, 3, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
        1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        2, 0, 0, 0, 4, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0,
        1, 2, 3, 4, 5, 0, 0, 0,
        6, 6, 6, 6, 6, 6, 6, 6,
    ];
    assert_eq!(bytes, expected);
}

#[test]
fn a_heartbeat_is_a_header_alone() {
    let mut buffer = [0xee; 64];
    let bytes = encode_heartbeat(&mut buffer, &header());
    assert_eq!(bytes, HEADER_BYTES);
    let packet = Packet::parse(&buffer[..bytes]).unwrap();
    assert_eq!(*packet.header(), Header { kind: Kind::Heartbeat, ..header() });
    assert_eq!(packet.entries().len(), 0);
}

#[test]
fn the_largest_entry_fills_one_datagram() {
    let samples = vec![0x5a; SAMPLES_BYTES_MAX];
    let bytes = encode(std::slice::from_ref(&samples));
    assert!((65_500..=65_507).contains(&bytes.len()));
    assert_eq!(Packet::parse(&bytes).unwrap().entries().next().unwrap().samples, samples);

    let mut buffer = vec![0; 70_000];
    let mut encoder = PacketEncoder::begin(&mut buffer, &header());
    assert!(!encoder.push(&entry(0, SAMPLES_BYTES_MAX + 1)));
    assert!(!encoder.push(&EntryHeader { bytes: u32::MAX, ..entry(0, 0) }));
    assert_eq!(encoder.entry_count(), 0);
}

#[test]
fn a_full_buffer_refuses_the_next_entry_and_stays_whole() {
    let mut buffer = vec![0; HEADER_BYTES + ENTRY_BYTES + 8];
    let mut encoder = PacketEncoder::begin(&mut buffer, &header());
    assert!(encoder.push(&entry(3, 5)));
    assert!(!encoder.push(&entry(4, 0)));
    let bytes = encoder.finish_with(|_, out| out.fill(1));
    let packet = Packet::parse(&buffer[..bytes]).unwrap();
    assert_eq!(packet.entry_count(), 1);
}

#[test]
fn a_datagram_holds_as_many_empty_entries_as_have_room() {
    let bytes = encode(&vec![vec![]; 4_091]);
    assert_eq!(
        Packet::parse(&bytes).unwrap().entries().filter(|e| e.samples.is_empty()).count(),
        4_091
    );
}

proptest! {
    #[test]
    fn what_was_packed_comes_out(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..50)
    ) {
        let bytes = encode(&parts);
        let packet = Packet::parse(&bytes).unwrap();
        prop_assert_eq!(*packet.header(), header());
        prop_assert_eq!(packet.entry_count(), parts.len());
        for ((number, entry), part) in (0_u32..).zip(packet.entries()).zip(&parts) {
            prop_assert_eq!((entry.channel, entry.first_sample), (number, number * 2));
            prop_assert_eq!(entry.samples, part.as_slice());
        }
    }
}
