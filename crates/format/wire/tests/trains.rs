//! Packets of trains: golden ones, every layout, and datagrams that are none.

use catchment_fixtures::{Random, corpus};
use catchment_model::Entry;
use catchment_wire::hadtu::ByteOrder;
use catchment_wire::trains::{Checksum, MarkField, MarkPlace, TrainSettings, Trains};
use catchment_wire::{FragmentChecksum, Part, Protocol, fuzz_train, train_layouts};
use proptest::prelude::*;

const GOLDEN: &str = include_str!("golden_trains/packets.hex");

fn decode(trains: &Trains, bytes: &[u8]) -> Result<Part, usize> {
    let mut parts = Vec::new();
    let decoded = trains.decoder().decode(0, bytes, &mut parts)?;
    assert_eq!((decoded.sequence, decoded.missing, parts.len()), (None, 0, 1));
    Ok(parts[0])
}

/// Layout, what it is, and its bytes.
fn golden() -> Vec<(Trains, &'static str, Vec<u8>)> {
    let lines: Vec<&str> = GOLDEN.lines().collect();
    let pairs = lines.chunks_exact(2).map(|pair| {
        let (layout, says) = pair[0].trim_start_matches("# ").split_once(": ").expect("a comment");
        let [little, big] = train_layouts();
        let byte = |at| u8::from_str_radix(&pair[1][at..at + 2], 16).expect("hex");
        let bytes = (0..pair[1].len()).step_by(2).map(byte).collect();
        (if layout.ends_with("little") { little } else { big }, says, bytes)
    });
    pairs.collect()
}

#[test]
fn golden_packets_are_decoded_or_refused_for_the_reason_that_the_page_names() {
    let golden = golden();
    assert_eq!(golden.len(), 38);
    let train: Vec<u8> = (0..20).collect();
    for (trains, says, bytes) in golden {
        let decoded = decode(&trains, &bytes);
        if let Some(refused) = says.strip_prefix("refused, ") {
            let name = refused.split(':').next().expect("a reason");
            let reason = decoded.map_err(|reason| trains.reasons()[reason].name);
            assert_eq!(reason, Err(name), "{says}");
            continue;
        }
        let part = decoded.unwrap_or_else(|reason| panic!("{says}: reason {reason}"));
        let packet: u64 = says["packet ".len()..][..1].parse().expect("a number");
        let range = (packet * 8) as usize..(packet * 8 + 8).min(20) as usize;
        assert_eq!((part.position, part.fragment_bytes), (packet * 8, 20), "{says}");
        let (begin, end) = (part.offset as usize, (part.offset + part.bytes) as usize);
        assert_eq!(bytes[begin..end], train[range], "{says}");
        let is_big = trains.settings().byte_order == ByteOrder::Big;
        let frame = match (says.contains("last frame"), is_big) {
            (false, false) => 0x0102_0304,
            (false, true) => 0x0102_0304_0506_0708,
            (true, false) => u32::MAX.into(),
            (true, true) => u64::MAX,
        };
        assert_eq!(part.number, frame, "{says}");
    }
}

#[test]
fn the_defaults_are_those_of_the_reference() {
    let trains = Trains::new(TrainSettings::default()).unwrap();
    assert_eq!((trains.packets(), trains.packet_bytes()), (131_202, 8_192));
    let mut packet = vec![0; 8_192];
    let last = trains.encode((7, 131_201), &mut packet, |room| room.fill(1));
    assert_eq!(last, 5_189 + 8);
    let part = decode(&trains, &packet[..last]).unwrap();
    assert_eq!(part.position + u64::from(part.bytes), 1_073_754_173);
    assert_eq!((trains.number_bits(), trains.fragment_bytes_max()), (32, 1_073_754_173));
    assert_eq!((trains.holes_bytes_max(), trains.checksum()), (Some(134_219_271), None));
}

#[test]
fn settings_out_of_their_bounds_are_refused_by_name() {
    let refused = |change: fn(&mut TrainSettings)| {
        let mut settings = TrainSettings::default();
        change(&mut settings);
        Trains::new(settings).map_err(|error| error.key)
    };
    let keys = [
        refused(|s| s.train_bytes = 0),
        refused(|s| s.train_bytes = (1_920 << 20) + 1),
        refused(|s| s.payload_bytes = 0),
        refused(|s| s.payload_bytes = 65_500),
        refused(|s| s.payload_bytes = 50),
        refused(|s| s.frame_bytes = 2),
        refused(|s| s.flags_bytes = 0),
        refused(|s| s.packet_bytes = 5),
        refused(|s| s.fields[1] = MarkField::Frame),
        refused(|s| s.adler32_at = Some(1_073_754_170)),
    ];
    let expected = [
        "train_bytes",
        "train_bytes",
        "payload_bytes",
        "payload_bytes",
        "train_bytes / payload_bytes",
        "frame_bytes",
        "flags_bytes",
        "packet_bytes",
        "fields",
        "adler32_at",
    ];
    assert_eq!(keys.map(Result::unwrap_err), expected);
    assert!(refused(|s| s.adler32_at = Some(1_073_754_169)).is_ok());
    let keeps_none = TrainSettings { holes_bytes_max: Some(0), ..TrainSettings::default() };
    assert_eq!(Trains::new(keeps_none).unwrap().holes_bytes_max(), None);
}

#[test]
fn a_checksum_is_found_whatever_the_pieces_and_a_changed_byte_too() {
    let mut random = Random::new(5);
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut train: Vec<u8> = (0..1_000).map(|_| random.below(256) as u8).collect();
        let mut sum = Checksum::default();
        sum.add(&train[..990]);
        let stored = match order {
            ByteOrder::Little => sum.value().to_le_bytes(),
            ByteOrder::Big => sum.value().to_be_bytes(),
        };
        train[990..994].copy_from_slice(&stored);
        let checksum = FragmentChecksum { offset: 990, big_endian: order == ByteOrder::Big };
        for size in [1, 7, 495, 991, 993, 1_000] {
            assert!(checksum.is_right(train.chunks(size)), "{size}");
            for at in [0, 500, 989, 990, 993] {
                let mut changed = train.clone();
                changed[at] ^= 1;
                assert!(!checksum.is_right(changed.chunks(size)), "{size}, {at}");
            }
            // What stands behind it is no part of it.
            train[999] ^= 1;
            assert!(checksum.is_right(train.chunks(size)), "{size}");
        }
        assert!(!checksum.is_right(train[..993].chunks(9)), "a fragment that ends within it");
    }
}

#[test]
fn damaged_packets_are_refused_with_a_reason_that_a_sentence_explains() {
    let mut random = Random::new(1);
    for (trains, _, bytes) in golden() {
        for length in 0..=bytes.len() + 9 {
            let mut changed = bytes.clone();
            changed.resize(length, 0);
            fuzz_train(&changed);
            if let Some(byte) = changed.get_mut(random.below(length.max(1) as u64) as usize) {
                *byte = random.below(256) as u8;
            }
            fuzz_train(&changed);
        }
        if let Err(reason) = decode(&trains, &bytes) {
            assert!(matches!(
                trains.reasons()[reason].kind,
                Entry::PacketsMalformedShort
                    | Entry::PacketsMalformedHeader
                    | Entry::PacketsMalformedLength
                    | Entry::PacketsMalformedFragment
            ));
        }
    }
}

#[test]
fn the_seeds_of_the_fuzz_target_never_break_the_decoder() {
    let seeds = corpus("train_packet");
    assert!(seeds.len() >= 30, "{} seeds", seeds.len());
    seeds.iter().for_each(|bytes| fuzz_train(bytes));
}

fn any_settings() -> impl Strategy<Value = TrainSettings> {
    use MarkField::{Flags, Frame, Packet};
    let fields = prop::sample::select(vec![
        [Frame, Flags, Packet],
        [Frame, Packet, Flags],
        [Flags, Frame, Packet],
        [Packet, Flags, Frame],
    ]);
    let widths = (3_u32..9, 1_u32..5, 2_u32..5);
    let sizes = (1_u64..50_000, 1_u32..9_000);
    (sizes, widths, fields, any::<bool>(), any::<bool>()).prop_map(
        |((train_bytes, payload_bytes), widths, fields, is_big, is_header)| TrainSettings {
            train_bytes,
            payload_bytes,
            mark: if is_header { MarkPlace::Header } else { MarkPlace::Trailer },
            fields,
            frame_bytes: widths.0,
            flags_bytes: widths.1,
            packet_bytes: widths.2,
            byte_order: if is_big { ByteOrder::Big } else { ByteOrder::Little },
            adler32_at: None,
            holes_bytes_max: None,
        },
    )
}

proptest! {
    /// In any layout the packets of a train carry each of its bytes once.
    #[test]
    fn a_train_is_what_its_packets_carry(settings in any_settings(), frame: u64, seed: u64) {
        let Ok(trains) = Trains::new(settings.clone()) else { return Ok(()) };
        prop_assume!(trains.packets() <= 2_000);
        let mut random = Random::new(seed);
        let train: Vec<u8> = (0..settings.train_bytes).map(|_| random.below(256) as u8).collect();
        let frame = if settings.frame_bytes == 8 { frame } else {
            frame & ((1 << (8 * settings.frame_bytes)) - 1)
        };
        let (mut again, mut buffer) = (vec![0; train.len()], vec![0; trains.packet_bytes()]);
        let mut carried = 0;
        for packet in 0..trains.packets() {
            let range = trains.range(packet);
            let of_packet = &train[range.start as usize..range.end as usize];
            let fill = |room: &mut [u8]| room.copy_from_slice(of_packet);
            let bytes = trains.encode((frame, packet), &mut buffer, fill);
            let part = decode(&trains, &buffer[..bytes]).expect("an encoded packet");
            prop_assert_eq!(part.number, frame);
            let begin = part.offset as usize;
            let payload = &buffer[begin..begin + part.bytes as usize];
            again[part.position as usize..][..payload.len()].copy_from_slice(payload);
            carried += payload.len();
        }
        prop_assert_eq!(carried, train.len());
        prop_assert!(again == train);
    }
}
