//! Invalid datagrams on a channel link: an error that names the reason, never a panic.

use catchment_fixtures::{Random, corpus};
use catchment_model::Entry;
use catchment_wire::fuzz_link;
use catchment_wire::link::{
    EntryHeader, HEADER_BYTES, Header, Kind, Packet, PacketEncoder, PacketError, REASONS,
    SLICE_NS_MAX, encode_heartbeat,
};

fn packet(parts: &[usize]) -> Vec<u8> {
    let header = Header { kind: Kind::Samples, link: 1, sequence: 2, slice: 3, slice_ns: 4_000 };
    let mut buffer = vec![0; 65_507];
    let mut encoder = PacketEncoder::begin(&mut buffer, &header);
    for (channel, &bytes) in (0..).zip(parts) {
        assert!(encoder.push(&EntryHeader { channel, first_sample: 0, bytes: bytes as u32 }));
    }
    let bytes = encoder.finish_with(|entry, out| out.fill(entry.channel as u8));
    buffer.truncate(bytes);
    buffer
}

fn heartbeat() -> Vec<u8> {
    let header = Header { kind: Kind::Heartbeat, link: 1, sequence: 2, slice: 3, slice_ns: 4_000 };
    let mut buffer = vec![0; HEADER_BYTES];
    encode_heartbeat(&mut buffer, &header);
    buffer
}

fn reason(bytes: &[u8]) -> Entry {
    REASONS[Packet::parse(bytes).unwrap_err().reason()].kind
}

#[test]
fn every_datagram_below_a_header_is_short() {
    let bytes = heartbeat();
    for length in 0..HEADER_BYTES {
        let error = Packet::parse(&bytes[..length]).unwrap_err();
        assert_eq!(error, PacketError::Short { got: length });
    }
    assert_eq!(reason(&[]), Entry::PacketsMalformedShort);
}

#[test]
fn every_bit_flip_in_magic_version_and_kind_is_noticed() {
    for good in [packet(&[100, 3]), heartbeat()] {
        for bit in 0..6 * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Packet::parse(&bytes).is_err(), "bit {bit}");
        }
        for at in 0..6 {
            let mut bytes = good.clone();
            bytes[at] = 0xff;
            assert_eq!(reason(&bytes), Entry::PacketsMalformedHeader);
        }
    }
}

#[test]
fn slices_without_a_time_are_refused() {
    let cases = [
        (0, 0),
        (0, SLICE_NS_MAX + 1),
        (0, u64::MAX),
        (u64::MAX, 1),
        (u64::MAX, u64::MAX),
        (1 << 63, 1),
        ((i64::MAX as u64) / 1_000, 1_000),
    ];
    for (slice, slice_ns) in cases {
        let mut bytes = packet(&[8]);
        bytes[24..32].copy_from_slice(&u64::to_le_bytes(slice));
        bytes[32..40].copy_from_slice(&u64::to_le_bytes(slice_ns));
        assert_eq!(Packet::parse(&bytes).unwrap_err(), PacketError::Slice { slice, slice_ns });
        assert_eq!(reason(&bytes), Entry::PacketsMalformedHeader);
    }
}

#[test]
fn a_cut_datagram_is_refused_wherever_it_is_cut() {
    let bytes = packet(&[100, 7, 0]);
    for length in HEADER_BYTES..bytes.len() {
        let expected = if length < HEADER_BYTES + 48 {
            Entry::PacketsMalformedLength
        } else {
            Entry::PacketsMalformedFragment
        };
        assert_eq!(reason(&bytes[..length]), expected, "{length} bytes");
    }
}

#[test]
fn bytes_behind_the_last_samples_are_refused() {
    for good in [packet(&[100, 7, 0]), packet(&[]), heartbeat()] {
        for more in [1, 8, 16] {
            let mut bytes = good.clone();
            bytes.resize(good.len() + more, 0);
            let error = Packet::parse(&bytes).unwrap_err();
            assert_eq!(error, PacketError::Length { expected: good.len(), got: bytes.len() });
            assert_eq!(reason(&bytes), Entry::PacketsMalformedLength);
        }
    }
}

#[test]
fn a_heartbeat_with_entries_has_the_wrong_length() {
    let mut bytes = packet(&[8]);
    bytes[5] = 2;
    assert_eq!(reason(&bytes), Entry::PacketsMalformedLength);
}

#[test]
fn entries_with_lying_lengths_are_refused() {
    let good = packet(&[100, 40, 16]);
    for entry in 0..3 {
        for lie in [0, 30, 200, 0xffff, u32::MAX, u32::MAX - 7] {
            let mut bytes = good.clone();
            bytes[48 + 16 * entry + 8..][..4].copy_from_slice(&u32::to_le_bytes(lie));
            assert!(Packet::parse(&bytes).is_err(), "entry {entry}: {lie}");
            let beyond = lie >= 200;
            assert!(!beyond || reason(&bytes) == Entry::PacketsMalformedFragment);
        }
    }
}

#[test]
fn the_largest_entry_count_is_no_defect() {
    let mut bytes = packet(&[8]);
    bytes[12..14].copy_from_slice(&[0xff, 0xff]);
    let expected = 48 + 16 * 65_535;
    let error = Packet::parse(&bytes).unwrap_err();
    assert_eq!(error, PacketError::Length { expected, got: bytes.len() });
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
    let seeds = [packet(&[]), heartbeat(), packet(&[0]), packet(&[100, 7, 0, 33, 1_000])];
    let mut random = Random::new(2);
    let mut accepted = 0;
    for _ in 0..200_000 {
        let mut bytes = seeds[random.index(seeds.len())].clone();
        random.damage(&mut bytes, 128);
        fuzz_link(&bytes);
        accepted += u32::from(Packet::parse(&bytes).is_ok());
    }
    assert!(accepted > 10_000, "the mutations leave enough packets whole: {accepted}");
}

#[test]
fn a_packet_larger_than_any_datagram_is_no_defect() {
    let mut bytes = packet(&[8]);
    bytes[56..60].copy_from_slice(&100_000_u32.to_le_bytes());
    bytes.resize(64 + 100_000, 1);
    fuzz_link(&bytes);
    assert_eq!(Packet::parse(&bytes).unwrap().entries().next().unwrap().samples.len(), 100_000);
}

#[test]
fn the_seeds_of_the_fuzz_target_never_break_the_decoder() {
    let (mut accepted, mut refused) = (0, 0);
    for bytes in corpus("link_packet") {
        fuzz_link(&bytes);
        if Packet::parse(&bytes).is_ok() { accepted += 1 } else { refused += 1 }
    }
    assert!(accepted >= 4 && refused >= 6, "{accepted} accepted, {refused} refused");
}
