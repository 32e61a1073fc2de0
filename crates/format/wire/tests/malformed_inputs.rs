//! Invalid datagrams: an error that names the reason, never a panic.

use catchment_fixtures::{Random, corpus};
use catchment_model::Entry;
use catchment_wire::hadtu::{
    ByteOrder, Hadtu, Packet, PacketEncoder, PacketError, SUB_EVENT_DECODING, SubEventHeader,
};
use catchment_wire::{Protocol, fuzz_packet};

fn packet(order: ByteOrder, payloads: &[usize]) -> Vec<u8> {
    let mut buffer = vec![0; 65_507];
    let mut encoder = PacketEncoder::begin(&mut buffer, order);
    for (number, &bytes) in payloads.iter().enumerate() {
        let header = SubEventHeader {
            decoding: SUB_EVENT_DECODING,
            id: 0x8000,
            error: false,
            trigger_number: number as u32,
            trigger_tag: 1,
        };
        assert!(encoder.push(&header, &vec![0xab; bytes]));
    }
    let bytes = encoder.finish();
    buffer.truncate(bytes);
    buffer
}

/// Sets a byte in the head and in its copy, so that only the check after the trailer's can notice
/// it.
fn patch(bytes: &mut [u8], at: usize, value: u8) {
    bytes[at] = value;
    if at < 32 {
        let trailer = bytes.len() - 32;
        bytes[trailer + at] = value;
    }
}

fn reason(bytes: &[u8]) -> Entry {
    let mut parts = Vec::new();
    let reason = Hadtu.decoder().decode(0, bytes, &mut parts).unwrap_err();
    assert!(parts.is_empty());
    Hadtu.reasons()[reason].kind
}

#[test]
fn every_datagram_below_forty_bytes_is_short() {
    let bytes = packet(ByteOrder::Big, &[]);
    for length in 0..40 {
        assert_eq!(
            Packet::parse(&bytes[..length]).unwrap_err(),
            PacketError::Short { got: length }
        );
    }
    assert_eq!(reason(&[]), Entry::PacketsMalformedShort);
}

#[test]
fn a_cut_or_lengthened_datagram_has_the_wrong_length() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let bytes = packet(order, &[100, 7, 0]);
        for length in 40..bytes.len() {
            let error = Packet::parse(&bytes[..length]).unwrap_err();
            assert_eq!(error, PacketError::Length { expected: bytes.len() as u64, got: length });
        }
        let mut long = bytes.clone();
        long.push(0);
        assert_eq!(reason(&long), Entry::PacketsMalformedLength);
    }
}

#[test]
fn a_queue_shorter_than_its_own_header_has_the_wrong_length() {
    for size in 0..8 {
        let mut bytes = packet(ByteOrder::Big, &[]);
        bytes.chunks_mut(8).for_each(|chunk| chunk[3] = size);
        assert_eq!(reason(&bytes), Entry::PacketsMalformedLength);
    }
}

#[test]
fn the_largest_size_word_does_not_overflow() {
    let mut bytes = packet(ByteOrder::Big, &[64]);
    for at in 0..4 {
        patch(&mut bytes, at, 0xff);
    }
    let error = Packet::parse(&bytes).unwrap_err();
    assert_eq!(error, PacketError::Length { expected: (1 << 32) + 32, got: bytes.len() });
}

#[test]
fn a_decoding_word_without_byte_order_is_refused() {
    for (most, least) in [(0, 0), (1, 1), (0x80, 0xff)] {
        let mut bytes = packet(ByteOrder::Big, &[64]);
        patch(&mut bytes, 4, most);
        patch(&mut bytes, 7, least);
        assert_eq!(reason(&bytes), Entry::PacketsMalformedHeader);
    }
}

#[test]
fn sub_events_with_lying_sizes_are_refused() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let good = packet(order, &[100, 40, 16]);
        let second = 8 + 16 + 100 + 4;
        let low = if order == ByteOrder::Little { second } else { second + 3 };
        for lie in [0, 15, 56 - 8, 56 + 8, 255] {
            let mut bytes = good.clone();
            patch(&mut bytes, low, lie);
            assert_eq!(reason(&bytes), Entry::PacketsMalformedFragment, "{order:?} {lie}");
        }
        for high in [second, second + 1, second + 2, second + 3].iter().filter(|&&at| at != low) {
            let mut bytes = good.clone();
            patch(&mut bytes, *high, 0xff);
            assert_eq!(reason(&bytes), Entry::PacketsMalformedFragment, "{order:?} byte {high}");
        }
    }
}

#[test]
fn a_sub_event_without_byte_order_is_refused() {
    let mut bytes = packet(ByteOrder::Big, &[100]);
    patch(&mut bytes, 15, 0);
    assert_eq!(
        Packet::parse(&bytes).unwrap_err(),
        PacketError::SubEvent { offset: 8, size: 116, decoding: 0x0002_0000 }
    );
}

#[test]
fn eight_bytes_behind_the_last_sub_event_are_refused() {
    let mut bytes = packet(ByteOrder::Big, &[100, 8]);
    patch(&mut bytes, 8 + 3, 116 + 16);
    let error = Packet::parse(&bytes).unwrap_err();
    assert_eq!(error, PacketError::SubEvent { offset: 144, size: 8, decoding: 0 });
}

#[test]
fn every_single_bit_flip_in_head_or_trailer_is_noticed() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        // From queues that the trailer overlaps to one that it does not.
        for payloads in [&[][..], &[0], &[0, 0], &[5], &[100, 100]] {
            let good = packet(order, payloads);
            let trailer = good.len() - 32;
            for at in (0..32).chain(trailer..good.len()) {
                for bit in 0..8 {
                    let mut bytes = good.clone();
                    bytes[at] ^= 1 << bit;
                    assert!(Packet::parse(&bytes).is_err(), "{order:?} {payloads:?} {at} {bit}");
                }
            }
        }
    }
}

#[test]
fn random_bytes_are_no_packets() {
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        let length = random.index(300);
        let bytes: Vec<u8> = (0..length).map(|_| random.next_u64() as u8).collect();
        assert!(Packet::parse(&bytes).is_err());
    }
}

#[test]
fn mutated_packets_never_break_the_decoder() {
    let seeds = [
        packet(ByteOrder::Big, &[]),
        packet(ByteOrder::Little, &[0]),
        packet(ByteOrder::Big, &[100, 7, 0, 33, 1_000]),
        packet(ByteOrder::Little, &[100, 7, 0, 33, 1_000]),
    ];
    let mut random = Random::new(2);
    let mut accepted = 0;
    for _ in 0..200_000 {
        let mut bytes = seeds[random.index(seeds.len())].clone();
        for _ in 0..random.index(4) {
            let at = random.index(bytes.len());
            let value = random.damaged(bytes[at]);
            // Half of the changes have a right trailer, so that they reach the checks after it.
            if random.index(2) == 0 { bytes[at] = value } else { patch(&mut bytes, at, value) }
        }
        if random.index(10) == 0 {
            bytes.truncate(random.index(bytes.len()));
        }
        fuzz_packet(&bytes);
        accepted += u32::from(Packet::parse(&bytes).is_ok());
    }
    assert!(accepted > 10_000, "the mutations leave enough packets whole: {accepted}");
}

#[test]
fn a_packet_larger_than_any_datagram_is_no_defect() {
    let mut bytes = vec![0; 8 + 100_000 + 32];
    let size = 100_008_u32.to_be_bytes();
    bytes[..4].copy_from_slice(&size);
    bytes[4..8].copy_from_slice(&[0, 2, 0, 1]);
    bytes[8..12].copy_from_slice(&100_000_u32.to_be_bytes());
    bytes[12..16].copy_from_slice(&[0, 2, 0, 0x11]);
    bytes.copy_within(..32, 100_008);
    fuzz_packet(&bytes);
    assert_eq!(Packet::parse(&bytes).unwrap().sub_events().next().unwrap().bytes.len(), 100_000);
}

#[test]
fn the_seeds_of_the_fuzz_target_never_break_the_decoder() {
    let (mut accepted, mut refused) = (0, 0);
    for bytes in corpus("hadtu_packet") {
        fuzz_packet(&bytes);
        if Packet::parse(&bytes).is_ok() { accepted += 1 } else { refused += 1 }
    }
    assert!(accepted >= 6 && refused >= 6, "{accepted} accepted, {refused} refused");
}
