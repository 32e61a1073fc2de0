//! Valid packets: encode, decode, compare.

use catchment_wire::fuzz_packet;
use catchment_wire::hadtu::{
    ByteOrder, PACKET_BYTES_MIN, PAYLOAD_BYTES_MAX, Packet, PacketEncoder, SUB_EVENT_DECODING,
    SubEventHeader,
};
use proptest::prelude::*;

const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

fn header(id: u32, trigger_number: u32) -> SubEventHeader {
    SubEventHeader {
        decoding: SUB_EVENT_DECODING,
        id,
        error: false,
        trigger_number,
        trigger_tag: 7,
    }
}

fn encode(order: ByteOrder, sub_events: &[(SubEventHeader, Vec<u8>)]) -> Vec<u8> {
    let mut buffer = vec![0xee; 65_600];
    let mut encoder = PacketEncoder::begin(&mut buffer, order);
    for (header, payload) in sub_events {
        assert!(encoder.push(header, payload));
    }
    let bytes = encoder.finish();
    buffer.truncate(bytes);
    buffer
}

#[test]
fn a_big_endian_packet_has_the_bytes_of_the_specification() {
    let sub_events = [(header(0x8001, 0x00ab_cdef), b"hello".to_vec())];
    let bytes = encode(ByteOrder::Big, &sub_events);
    let queue = [
        &[0, 0, 0, 32, 0, 2, 0, 1][..],
        &[0, 0, 0, 21, 0, 2, 0, 0x11, 0, 0, 0x80, 1, 0xab, 0xcd, 0xef, 7],
        b"hello\0\0\0",
    ]
    .concat();
    assert_eq!(bytes, [&queue[..], &queue[..]].concat());
}

#[test]
fn a_little_endian_packet_has_every_word_turned_round() {
    let bytes = encode(ByteOrder::Little, &[(header(0x8001, 0x00ab_cdef), b"hello".to_vec())]);
    assert_eq!(bytes[..8], [32, 0, 0, 0, 1, 0, 2, 0]);
    assert_eq!(bytes[8..24], [21, 0, 0, 0, 0x11, 0, 2, 0, 1, 0x80, 0, 0, 7, 0xef, 0xcd, 0xab]);
    assert_eq!(bytes[24..32], *b"hello\0\0\0");
    assert_eq!(bytes[32..], bytes[..32]);
}

#[test]
fn an_empty_queue_is_its_header_five_times() {
    for order in ORDERS {
        let bytes = encode(order, &[]);
        assert_eq!(bytes.len(), PACKET_BYTES_MIN);
        assert!(bytes.chunks(8).all(|chunk| chunk == &bytes[..8]));
        assert_eq!(Packet::parse(&bytes).unwrap().sub_events().count(), 0);
    }
}

#[test]
fn a_sub_event_without_payload_is_legal() {
    for order in ORDERS {
        // Alone it makes a queue of 24 bytes, which the trailer overlaps.
        for count in 1..4 {
            let bytes = encode(order, &vec![(header(3, 9), vec![]); count]);
            let packet = Packet::parse(&bytes).unwrap();
            assert_eq!(packet.sub_event_count(), count);
            assert!(packet.sub_events().all(|s| s.payload().is_empty() && s.bytes.len() == 16));
        }
    }
}

#[test]
fn the_largest_sub_event_fills_one_datagram() {
    let payload = vec![0x5a; PAYLOAD_BYTES_MAX];
    let bytes = encode(ByteOrder::Big, &[(header(1, 1), payload.clone())]);
    assert!((65_500..=65_507).contains(&bytes.len()));
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!(packet.sub_events().next().unwrap().payload(), payload);

    let mut buffer = vec![0; 70_000];
    let mut encoder = PacketEncoder::begin(&mut buffer, ByteOrder::Big);
    assert!(!encoder.push(&header(1, 1), &vec![0; PAYLOAD_BYTES_MAX + 1]));
    assert!(encoder.is_empty());
}

#[test]
fn a_full_buffer_refuses_the_next_sub_event_and_stays_whole() {
    let mut buffer = vec![0; 8 + 24 + 32];
    let mut encoder = PacketEncoder::begin(&mut buffer, ByteOrder::Big);
    assert!(encoder.push(&header(1, 1), &[1, 2, 3]));
    assert!(!encoder.push(&header(1, 2), &[]));
    let bytes = encoder.finish();
    assert_eq!(Packet::parse(&buffer[..bytes]).unwrap().sub_event_count(), 1);
}

#[test]
fn a_queue_can_be_filled_over_several_visits() {
    let mut buffer = vec![0; 1_000];
    let mut used = PacketEncoder::begin(&mut buffer, ByteOrder::Little).used();
    for number in 0..5 {
        let mut encoder = PacketEncoder::resume(&mut buffer, ByteOrder::Little, used);
        assert!(encoder.push(&header(1, number), &[number as u8; 11]));
        used = encoder.used();
    }
    let bytes = PacketEncoder::resume(&mut buffer, ByteOrder::Little, used).finish();
    let packet = Packet::parse(&buffer[..bytes]).unwrap();
    let numbers: Vec<u32> = packet.sub_events().map(|s| s.trigger_number).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
}

#[test]
fn each_sub_event_is_read_in_its_own_byte_order() {
    let big = encode(ByteOrder::Big, &[(header(0x8001, 5), vec![1, 2, 3, 4])]);
    let mut bytes =
        encode(ByteOrder::Little, &[(header(0x8002, 6), vec![5; 8]), (header(0, 0), vec![0; 4])]);
    bytes[32..56].copy_from_slice(&big[8..32]);
    let packet = Packet::parse(&bytes).unwrap();
    let read: Vec<_> = packet.sub_events().map(|s| (s.order, s.id, s.trigger_number)).collect();
    assert_eq!(read, [(ByteOrder::Little, 0x8002, 6), (ByteOrder::Big, 0x8001, 5)]);
}

#[test]
fn a_queue_may_leave_out_the_last_padding() {
    // The size word is then not a multiple of 8; the datagram is as long as if it were.
    let mut bytes = encode(ByteOrder::Big, &[(header(1, 1), vec![9; 21])]);
    let size = 8 + 16 + 21;
    bytes[3] = size;
    let trailer = bytes.len() - 32;
    bytes[trailer + 3] = size;
    let packet = Packet::parse(&bytes).unwrap();
    assert_eq!(packet.size(), usize::from(size));
    assert_eq!(packet.sub_events().next().unwrap().payload(), [9; 21]);
}

#[test]
fn other_decoding_words_of_boards_are_taken() {
    let mut bytes = encode(ByteOrder::Big, &[(header(1, 1), vec![9; 24])]);
    let trailer = bytes.len() - 32;
    for at in [4, trailer + 4] {
        bytes[at..at + 4].copy_from_slice(&[0, 3, 0, 0x62]);
    }
    assert_eq!(Packet::parse(&bytes).unwrap().order(), ByteOrder::Big);
}

fn sub_event() -> impl Strategy<Value = (SubEventHeader, Vec<u8>)> {
    let words = (any::<u32>(), any::<bool>(), any::<u32>(), any::<u8>(), 1..=255_u32);
    (words, proptest::collection::vec(any::<u8>(), 0..200)).prop_map(
        |((id, error, number, trigger_tag, low), payload)| {
            let header = SubEventHeader {
                decoding: 0x0002_0000 | low,
                id: id & 0x7fff_ffff,
                error,
                trigger_number: number & 0x00ff_ffff,
                trigger_tag,
            };
            (header, payload)
        },
    )
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(
        little in any::<bool>(),
        sub_events in proptest::collection::vec(sub_event(), 0..100),
    ) {
        let order = ORDERS[usize::from(!little)];
        let bytes = encode(order, &sub_events);
        fuzz_packet(&bytes);
        let packet = Packet::parse(&bytes).unwrap();
        prop_assert_eq!(packet.order(), order);
        prop_assert_eq!(packet.sub_event_count(), sub_events.len());
        prop_assert_eq!(packet.sub_events().len(), sub_events.len());
        for (read, (header, payload)) in packet.sub_events().zip(&sub_events) {
            prop_assert_eq!(read.payload(), &payload[..]);
            prop_assert_eq!(read.order, order);
            let read = SubEventHeader {
                decoding: read.decoding,
                id: read.id,
                error: read.error,
                trigger_number: read.trigger_number,
                trigger_tag: read.trigger_tag,
            };
            prop_assert_eq!(&read, header);
        }
    }
}
