//! Declared layouts: the specification's examples with their bytes, and datagrams that are none.

use catchment_fixtures::{Random, corpus};
use catchment_wire::hadtu::{ByteOrder, Hadtu, PacketEncoder, SUB_EVENT_DECODING, SubEventHeader};
use catchment_wire::layouts::{
    Block, Field, FieldKind, Layout, Layouts, Order, RecordValues, Recorded, Role, Values,
    alpha_72, example_counted, example_layouts, example_variants,
};
use catchment_wire::{Decoded, Part, PartFlags, Protocol, fuzz_layout};
use proptest::prelude::*;

/// The layout's index, and a packet of it.
const EXAMPLES: [(usize, &str); 5] = [
    (0, "00000030 00020001 00000014 00020011 00008000 ffffff15 deadbeef 00000000 00000010 00020011 80008000 00000016
         00000030 00020001 00000014 00020011 00008000 ffffff15 deadbeef 00000000"),
    (1, "0000004d 0003cae0 2a030200 28014123 28074fff 2c0000a1 2e000000 2a030000 2c0000a2"),
    (2, "21fe0000 00000000 00020000 7856e103 3412e104 0df0e105 d317e106 c0ffee00 17000000 01000002
         00020000 485ee103 3412e104 0df0e105 d317e106 00000000 14000000 02000002"),
    (3, "6aa10700 e8030000 04000500 f0ffffff ffff0200 00000000 01020304 e5a5ee65"),
    (3, "6aa10700 e9030000 00000500 10000000 00000200 00000000 0d62b027"),
];

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks_exact(2).map(pair).collect()
}

fn examples() -> Vec<(Layouts, Vec<u8>)> {
    let layouts = example_layouts();
    EXAMPLES.iter().map(|(index, hex)| (layouts[*index].clone(), bytes_of(hex))).collect()
}

fn decode(layouts: &Layouts, bytes: &[u8]) -> Result<(Decoded, Vec<Part>), &'static str> {
    let mut parts = Vec::new();
    match layouts.decoder().decode(0, bytes, &mut parts) {
        Ok(decoded) => Ok((decoded, parts)),
        Err(reason) => {
            assert!(parts.is_empty());
            Err(layouts.reasons()[reason].name)
        }
    }
}

/// Sequence modulo 2^8, and source, number, tag, flags, first and last byte of each fragment.
type Found = (Option<u64>, Vec<(u32, u64, u8, u8, u32, u32)>);

fn found((layouts, bytes): &(Layouts, Vec<u8>)) -> Found {
    let (decoded, parts) = decode(layouts, bytes).unwrap();
    let part = |part: &Part| {
        assert!(part.is_whole());
        let last = part.offset + part.bytes - 1;
        (part.id, part.number, part.tag, part.flags, part.offset, last)
    };
    (decoded.sequence.map(|number| number % (1 << 32)), parts.iter().map(part).collect())
}

#[test]
fn the_examples_are_decoded_as_the_specification_says() {
    let examples = examples();
    let big = PartFlags::BIG_ENDIAN;
    let broken = big | PartFlags::SENDER_ERROR;
    let trb = vec![(0x8000, 0xff_ffff, 0x15, big, 8, 27), (0x8000, 0, 0x16, broken, 32, 47)];
    assert_eq!(found(&examples[0]), (None, trb));
    assert_eq!(decode(&examples[1].0, &examples[1].1).unwrap().0.skipped, 1);
    let tagged = vec![(3, 0xa1, 0, big, 8, 23), (3, 0xa2, 0, big, 28, 35)];
    assert_eq!(found(&examples[1]), (Some(77), tagged));
    let time = 0x17d3_f00d_1234_5678;
    let batch = vec![(1, time, 0, 0, 8, 39), (2, time + 2_000, 0, 0, 40, 71)];
    assert_eq!(found(&examples[2]), (Some(254), batch));
    let wraps = (1_u64 << 48) - 16;
    assert_eq!(found(&examples[3]), (Some(1_000), vec![(7, wraps, 2, 0, 0, 31)]));
    assert_eq!(found(&examples[4]), (Some(1_001), vec![(7, 16, 2, 0, 0, 27)]));
}

#[test]
fn a_layout_is_simple_or_says_why_it_is_not() {
    let general = example_layouts().map(|layouts| layouts.general());
    let expected =
        [None, Some("there are several kinds of records"), Some("lengths stand in tails"), None];
    assert_eq!(general, expected);
    assert_eq!(example_layouts().map(|one| one.number_bits()), [24, 24, 64, 48]);
    assert_eq!(example_layouts().map(|one| one.layout().has_keys()), [true, true, false, false]);
    assert_eq!(example_layouts().map(|one| one.id_bits()), [31, 8, 8, 8]);
    assert_eq!(example_layouts()[3].fragment_bytes_max(), 8_928);
}

#[test]
fn what_is_behind_the_counted_records_is_skipped_and_fewer_records_are_refused() {
    let layouts = example_counted();
    assert_eq!(layouts.general(), Some("what follows the records is skipped"));
    let packet = |count: u16, records: u32, rest: usize| {
        let mut packet = [&[0, 0, 0, 9][..], &count.to_be_bytes(), &[0x7d, 0x01]].concat();
        (0..records).for_each(|key| packet.extend([key.to_be_bytes(), [3, 0, 0, 0]].concat()));
        packet.resize(packet.len() + rest, 0xee);
        packet
    };
    for (count, rest) in [(0, 0), (0, 20), (1, 0), (2, 1), (2, 8), (100, 1_000)] {
        let bytes = packet(count, count.into(), rest);
        let (decoded, parts) = decode(&layouts, &bytes).unwrap();
        let keys = parts.iter().map(|part| (part.number, part.id, part.bytes));
        assert!(keys.eq((0..count.into()).map(|key| (key, 3, 8))), "{count}, {rest}");
        assert_eq!(decoded.skipped, u64::from(rest > 0));
        let described = layouts.describe(&bytes);
        assert_eq!((described.left_over, described.refused), (0, None));
        let line = described.lines.last().filter(|_| rest > 0);
        assert_eq!(line, (rest > 0).then(|| format!("rest: {rest} bytes, skipped")).as_ref());
    }
    assert_eq!(decode(&layouts, &packet(3, 2, 0)).unwrap_err(), "count");
    assert_eq!(decode(&layouts, &packet(3, 2, 5)).unwrap_err(), "left_over");
}

#[test]
fn a_packet_is_described_field_by_field() {
    let (layouts, bytes) = &examples()[1];
    let description = layouts.describe(bytes);
    assert_eq!((description.left_over, description.fragments), (0, 2));
    assert_eq!(description.refused, None);
    let text = description.lines.join("\n");
    for line in [
        "packet: bytes 0 to 35, big",
        "  sequence: 77 (0x4d), byte 0, bits 0 to 31",
        "  equals 0xcae0: 0xcae0, byte 6, bits 0 to 15",
        "record 1 \"event\": bytes 8 to 23, big",
        "  source: 3 (0x3), byte 8, bits 16 to 23",
        "  key: 161 (0xa1), byte 20, bits 0 to 23",
        "  body: 8 bytes from byte 12",
        "record 2 \"filler\": bytes 24 to 27, big, skipped",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

/// What is left over after a change of one byte, and the reason.
fn changed(index: usize, change: impl Fn(&mut Vec<u8>)) -> (&'static str, usize, String) {
    let (layouts, mut bytes) = examples().swap_remove(index);
    change(&mut bytes);
    let description = layouts.describe(&bytes);
    let reason = decode(&layouts, &bytes).unwrap_err();
    let (name, sentence) = description.refused.unwrap();
    assert_eq!(name, reason);
    assert_eq!(description.fragments, 0, "a packet is dropped whole");
    (reason, description.left_over, sentence)
}

#[test]
fn each_reason_is_given_for_its_fault() {
    let reason = |index, change: fn(&mut Vec<u8>)| changed(index, change).0;
    assert_eq!(reason(0, |bytes| bytes.truncate(39)), "short");
    assert_eq!(reason(0, |bytes| bytes.push(0)), "length");
    assert_eq!(reason(4, |bytes| bytes[8] = 1), "length");
    // No order fits the word that tells it, and both do.
    assert_eq!(reason(0, |bytes| bytes[4..8].fill(1)), "order");
    assert_eq!(reason(0, |bytes| bytes[4..8].fill(0)), "order");
    let (reason_of, _, sentence) = changed(3, |bytes| bytes[0] = 0);
    assert_eq!(reason_of, "constant");
    assert_eq!(sentence, "the packet: expected 0xa16a at byte 0, got 0xa100");
    assert_eq!(reason(0, |bytes| bytes[50] ^= 1), "checksum");
    assert_eq!(reason(3, |bytes| bytes[25] ^= 1), "checksum");
    assert_eq!(reason(1, |bytes| bytes[12] = 0x2a), "record");
    assert_eq!(reason(1, |bytes| bytes[20] = 0x28), "record");
    assert_eq!(reason(1, |bytes| bytes[24] = 0x2b), "record_variant");
    assert_eq!(reason(1, |bytes| bytes[5] = 4), "count");
    assert_eq!(reason(2, |bytes| bytes[64] = 0x1c), "record");
    // hadtu's first sub-event has 20 bytes and 4 of padding, which are not left over.
    let (_, left_over, sentence) = changed(0, |bytes| bytes[36..40].fill(0));
    assert_eq!((reason(0, |bytes| bytes[36..40].fill(0)), left_over), ("record", 16));
    assert!(sentence.starts_with("the record at byte 32:"), "{sentence}");
    // A byte behind the last record, and before the first where records are read from the end.
    let (reason, left_over, sentence) = changed(1, |bytes| bytes.push(0));
    assert_eq!((reason, left_over), ("left_over", 1));
    assert_eq!(sentence, "1 byte is left over from byte 36, too few for a record");
    let (reason, left_over, _) = changed(2, |bytes| bytes.splice(8..8, [0; 4]).for_each(drop));
    assert_eq!((reason, left_over), ("left_over", 4));
}

#[test]
fn a_refused_packet_is_described_up_to_the_wrong_field() {
    let described = |index: usize, change: fn(&mut Vec<u8>)| {
        let (layouts, mut bytes) = examples().swap_remove(index);
        change(&mut bytes);
        let description = layouts.describe(&bytes);
        let (_, sentence) = description.refused.unwrap();
        let mut explained = layouts.decoder();
        assert!(explained.decode(0, &bytes, &mut Vec::new()).is_err());
        assert_eq!(explained.explain(&bytes), sentence, "as the log has it");
        (description.lines, sentence)
    };
    let (lines, sentence) = described(3, |bytes| bytes[25] ^= 1);
    let sum = "0xc0af379b, the crc32c of bytes 0 to 27";
    assert_eq!(sentence, format!("the packet: expected {sum}, at byte 28, got 0x65eea5e5"));
    assert_eq!(lines[0], "packet: bytes 0 to 31, little, refused");
    assert_eq!(lines.len(), 9, "the groups stand behind the checksum: {lines:?}");
    let last = format!(
        "  checksum: 1710138853 (0x65eea5e5), byte 28, bits 0 to 31, refused: expected {sum}"
    );
    assert_eq!(lines[8], last);
    for (index, change, line, expected) in WRONG {
        let (lines, sentence) = described(index, change);
        assert_eq!(sentence, expected);
        assert!(lines.iter().any(|one| one == line), "{line}\n{lines:#?}");
    }
}

/// A change of an example's packet, a line that then describes it, and why it is refused.
type Wrong = (usize, fn(&mut Vec<u8>), &'static str, &'static str);
const WRONG: [Wrong; 10] = [
    (
        0,
        |bytes| bytes[50] ^= 1,
        "  length: 48 (0x30), byte 0, bits 0 to 31",
        "the packet: expected 0x00, as at byte 2, at byte 50, got 0x01",
    ),
    (
        0,
        |bytes| bytes.push(0),
        "  length: 48 (0x30), byte 0, bits 0 to 31, refused: expected that of the datagram, \
         81 bytes",
        "the packet's length says a datagram of 80 bytes, got 81",
    ),
    (
        1,
        |bytes| bytes[20] = 0x28,
        "  equals 0x4: 0x0, byte 20, bits 24 to 26, refused: expected 0x4",
        "record 1 \"event\" at byte 8: expected 0x4 at byte 20, got 0x0",
    ),
    (
        1,
        |bytes| bytes[16] = 0x2a,
        "  each 0x0: in all words of the body, refused: expected 0x0",
        "record 1 \"event\" at byte 8: expected 0x0 at byte 16, got 0x2",
    ),
    (
        1,
        |bytes| bytes[10] = 0x3f,
        "  length: 63 (0x3f), 256 bytes, byte 8, bits 8 to 13, refused: expected a length of \
         4 to 24 bytes",
        "record 1 \"event\" at byte 8: expected a length of 4 to 24 bytes at byte 8, got 256",
    ),
    (
        1,
        |bytes| bytes[5] = 4,
        "record 2 \"filler\": bytes 24 to 27, big, skipped",
        "the packet says 4 records, got 3",
    ),
    (
        1,
        |bytes| bytes[24] = 0x2b,
        "record 1 \"event\": bytes 8 to 23, big",
        "no kind of record fits at byte 24: record 1 \"event\" expected 0x2 at byte 24, got \
         0x3; record 2 \"filler\" expected 0x6 at byte 24, got 0x3",
    ),
    // Read from its end: where it begins, if that is known, and otherwise where it ends.
    (
        2,
        |bytes| bytes[64] = 0x1c,
        "record 1: bytes 32 to 71, little, refused",
        "record 1 at byte 32: expected 0x200 at byte 32, got 0x17",
    ),
    (
        2,
        |bytes| bytes[64] = 0xff,
        "record 1: before byte 72, little, refused",
        "record 1 that ends before byte 72: expected a length of 20 to 56 bytes at byte 64, \
         got 255",
    ),
    (
        0,
        |bytes| bytes.truncate(9),
        "packet: from byte 0 on, big, refused",
        "a packet has at least 40 bytes, got 9",
    ),
];

#[test]
fn a_value_of_several_parts_is_one_line_and_a_time_is_in_nanoseconds() {
    let (layouts, bytes) = &examples()[2];
    let lines = layouts.describe(bytes).lines;
    let times: Vec<&String> = lines.iter().filter(|line| line.contains("time:")).collect();
    let places = [12, 16, 20, 24].map(|at| format!("byte {at}, bits 0 to 15")).join("; ");
    let time = "1716979821888951928";
    let first = format!("  time: {time} (0x17d3f00d12345678), {time} ns, {places}");
    assert_eq!(times.len(), 2, "{lines:#?}");
    assert!(times.contains(&&first), "{times:#?}");
    let (layouts, bytes) = &examples()[4];
    let lines = layouts.describe(bytes).lines;
    let time = "  time: 16 (0x10), 128 ns, byte 12, bits 0 to 47".to_owned();
    assert!(lines.contains(&time), "{lines:#?}");
}

#[test]
fn ticks_of_a_second_that_has_fewer_are_refused() {
    let field = |at, width, role| Field { at, width, bits: None, kind: FieldKind::Is(role) };
    let fields = vec![
        field(0, 4, Role::Key),
        field(4, 4, Role::Time { rate_hz: Some(1_000) }),
        field(8, 4, Role::Seconds),
    ];
    let packet = Block { head: 12, fields, ..Block::default() };
    let (name, order, records) = ("gps".to_owned(), Order::Little, Vec::new());
    let layout =
        Layout { name, is_stream: false, order, packet, records, recorded: Recorded::Body };
    let layouts = Layouts::new(layout).unwrap();
    let packet = |ticks: u32| [1, ticks, 7].map(u32::to_le_bytes).concat();
    assert_eq!(decode(&layouts, &packet(1_000)).unwrap_err(), "range");
    let described = layouts.describe(&packet(1_000));
    let expected = "the packet: expected fewer ticks than a second has, 1000, at byte 4, got 1000";
    assert_eq!(described.refused.unwrap().1, expected);
    let last = "  time: 1000 (0x3e8), 8000000000 ns with the seconds, byte 4, bits 0 to 31, \
                refused: expected fewer ticks than a second has, 1000";
    assert_eq!(described.lines.last().unwrap(), last);
    let mut bytes = packet(999);
    bytes.extend([1, 2, 3]);
    let (_, parts) = decode(&layouts, &bytes).unwrap();
    assert_eq!((parts[0].number, parts[0].offset, parts[0].bytes), (1, 12, 3), "the body alone");
    // By time, all ticks since the first second.
    let by_time = layouts.by_time().unwrap();
    assert_eq!((by_time.number_bits(), by_time.clock_hz()), (64, Some(1_000)));
    let (_, parts) = decode(&by_time, &bytes).unwrap();
    assert_eq!((parts[0].number, parts[0].offset), (7_999, 12));
    assert_eq!(decode(&by_time, &packet(1_000)).unwrap_err(), "range");
    // Seconds that wrap within a day are no time.
    let mut short = layouts.layout().clone();
    short.packet.fields[2].width = 2;
    let refused = Layouts::new(short).unwrap().by_time().unwrap_err();
    assert!(refused.starts_with("seconds of 32 bits or more"), "{refused}");
}

#[test]
fn seconds_of_a_packet_hold_for_its_records_and_go_beyond_64_bits_of_ticks() {
    let field = |at, width, role| Field { at, width, bits: None, kind: FieldKind::Is(role) };
    let rate_hz = 1_000_000_000_000;
    let fields =
        vec![field(0, 8, Role::Time { rate_hz: Some(rate_hz) }), field(8, 4, Role::Seconds)];
    let packet = Block { head: 12, fields, ..Block::default() };
    let fields = vec![field(0, 4, Role::Length { unit: 1, plus: 0 })];
    let records = vec![Block { head: 4, fields, ..Block::default() }];
    let (name, order, recorded) = ("gps".to_owned(), Order::Big, Recorded::Whole);
    let layout = Layout { name, is_stream: false, order, packet, records, recorded };
    let layouts = Layouts::new(layout).unwrap().by_time().unwrap();
    let seconds = 1_800_000_000_u32;
    let bytes = [&999_u64.to_be_bytes()[..], &seconds.to_be_bytes(), &[0, 0, 0, 4]].concat();
    let (_, parts) = decode(&layouts, &bytes).unwrap();
    let whole = u128::from(seconds) * u128::from(rate_hz) + 999;
    assert!(whole > u64::MAX.into());
    assert_eq!(parts[0].number, whole as u64, "modulo 2^64");
}

#[test]
fn a_record_from_the_end_that_both_byte_orders_fit_is_refused() {
    let field = |at, width, role| Field { at, width, bits: None, kind: FieldKind::Is(role) };
    let length = field(-2, 2, Role::Length { unit: 1, plus: 0 });
    let fields = vec![field(4, 4, Role::Key), length];
    let records = vec![Block { head: 8, tail: 2, fields, ..Block::default() }];
    let packet = Block { head: 4, ..Block::default() };
    let order = Order::Detected { at: 0, mask: 0xffff_0000, equals: 0x7132_0000 };
    let (name, recorded) = ("board".to_owned(), Recorded::Whole);
    let layout = Layout { name, is_stream: false, order, packet, records, recorded };
    let layouts = Layouts::new(layout).unwrap();
    let record = |is_big: bool, bytes: u16| {
        let bytes_of = |word: u32| if is_big { word.to_be_bytes() } else { word.to_le_bytes() };
        let tail = if is_big { bytes.to_be_bytes() } else { bytes.to_le_bytes() };
        let body = vec![0; usize::from(bytes) - 8];
        [&bytes_of(0x7132_0000)[..], &bytes_of(1), &body, &tail].concat()
    };
    // The second one's length, read in the other order, reaches to the first one's head.
    let packet =
        |is_big| [&[0x71, 0x32, 0, 0][..], &record(is_big, 2_038), &record(false, 8)].concat();
    assert_eq!(decode(&layouts, &packet(true)).unwrap_err(), "record");
    assert_eq!(decode(&layouts, &packet(false)).unwrap().1.len(), 2);
}

#[test]
fn sequences_go_on_where_their_bits_wrap() {
    let (layouts, mut bytes) = examples().swap_remove(2);
    let mut decoder = layouts.decoder();
    let mut take = |number| {
        bytes[1] = number;
        let mut parts = Vec::new();
        decoder.decode(0, &bytes, &mut parts).unwrap().sequence.unwrap()
    };
    let first = take(254);
    let later = [take(255), take(1), take(0), take(100), take(220)];
    assert_eq!(later.map(|number| number - first), [1, 3, 2, 102, 222]);
}

/// hadtu's declaration takes what hadtu's decoder takes, with the same parts, and refuses the rest.
fn agree(bytes: &[u8]) -> bool {
    let [trb, ..] = example_layouts();
    let mut parts = Vec::new();
    let own = Hadtu.decoder().decode(0, bytes, &mut parts).map(|_| parts);
    match (own, decode(&trb, bytes)) {
        (Ok(own), Ok((_, declared))) => {
            assert_eq!(own, declared);
            true
        }
        (Err(_), Err(_)) => false,
        (own, declared) => panic!("{own:?} {declared:?} of {bytes:?}"),
    }
}

fn hadtu_packet(random: &mut Random) -> Vec<u8> {
    let mut buffer = vec![0; 4_000];
    let order = if random.index(2) == 0 { ByteOrder::Little } else { ByteOrder::Big };
    let mut encoder = PacketEncoder::begin(&mut buffer, order);
    for _ in 0..random.index(6) {
        let header = SubEventHeader {
            decoding: SUB_EVENT_DECODING,
            id: random.next_u64() as u32 >> 1,
            error: random.index(4) == 0,
            trigger_number: random.next_u64() as u32 >> 8,
            trigger_tag: random.next_u64() as u8,
        };
        let payload = vec![random.next_u64() as u8; random.index(200)];
        assert!(encoder.push(&header, &payload));
    }
    let bytes = encoder.finish();
    buffer.truncate(bytes);
    buffer
}

#[test]
fn the_declaration_of_hadtu_agrees_with_its_decoder() {
    let mut random = Random::new(7);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..20_000 {
        let mut bytes = hadtu_packet(&mut random);
        for _ in 0..round % 3 {
            let at = random.index(bytes.len());
            bytes[at] = random.damaged(bytes[at]);
            if at < 32 {
                // So that the checks behind the trailer's are reached.
                let trailer = bytes.len() - 32;
                bytes[trailer + at] = bytes[at];
            }
        }
        if agree(&bytes) { accepted += 1 } else { refused += 1 }
    }
    assert!(accepted > 5_000 && refused > 1_000, "{accepted} accepted, {refused} refused");
    assert!(corpus("hadtu_packet").iter().filter(|bytes| agree(bytes)).count() >= 6);
}

#[test]
fn each_byte_of_each_example_cut_doubled_and_changed_breaks_nothing() {
    let mut refused = 0;
    for (layouts, bytes) in examples() {
        let mut tries: Vec<Vec<u8>> =
            (0..bytes.len()).map(|length| bytes[..length].to_vec()).collect();
        for at in 0..bytes.len() {
            let (before, behind) = bytes.split_at(at);
            tries.push([before, &behind[1..]].concat());
            tries.push([before, &behind[..1], behind].concat());
            // Each bit, and the values at both ends.
            for flip in (0..8).map(|bit| 1 << bit).chain([bytes[at], !bytes[at]]) {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                tries.push(changed);
            }
        }
        for bytes in &tries {
            fuzz_layout(bytes);
            refused += usize::from(decode(&layouts, bytes).is_err());
        }
    }
    assert!(refused > 1_500, "{refused}");
}

#[test]
fn the_seeds_of_the_fuzz_target_never_break_the_decoder() {
    let (mut accepted, mut refused) = (0, 0);
    for bytes in corpus("layout_packet") {
        fuzz_layout(&bytes);
        let of_one = example_layouts().iter().any(|layouts| decode(layouts, &bytes).is_ok());
        let is_one = of_one || example_variants().describe(&bytes).refused.is_none();
        if is_one { accepted += 1 } else { refused += 1 }
    }
    assert!(accepted >= 5 && refused >= 5, "{accepted} accepted, {refused} refused");
}

proptest! {
    #[test]
    fn what_a_load_reads_is_what_the_bytes_say(
        (width, first, bits, at, is_big, in_tail) in (1_u32..=8).prop_flat_map(|width| {
            let most = 8 * width;
            (16..=most.max(16)).prop_flat_map(move |bits| {
                (Just(width), 0..=most.saturating_sub(bits), Just(bits), 0_i64..20, any::<bool>(), any::<bool>())
            })
        }),
        bytes in prop::collection::vec(any::<u8>(), 60..80),
    ) {
        prop_assume!(first + bits <= 8 * width);
        let at = if in_tail { at - 28 } else { at };
        let kind = FieldKind::Is(Role::Key);
        let key = Field { at, width, bits: Some([first, first + bits - 1]), kind };
        let packet = Block { head: 28, tail: 28, fields: vec![key], ..Block::default() };
        let order = if is_big { Order::Big } else { Order::Little };
        let layout = Layout { name: "one".into(), is_stream: false, order, packet, records: Vec::new(), recorded: Recorded::Whole };
        let layouts = Layouts::new(layout).unwrap();
        let (_, parts) = decode(&layouts, &bytes).unwrap();
        let begin = if at < 0 { bytes.len() as i64 + at } else { at } as usize;
        let word = &bytes[begin..begin + width as usize];
        let add = |number: u128, byte: &u8| number << 8 | u128::from(*byte);
        let word = if is_big { word.iter().fold(0, add) } else { word.iter().rev().fold(0, add) };
        let expected = (word >> first) & ((1 << bits) - 1);
        prop_assert_eq!(u128::from(parts[0].number), expected);
    }

    #[test]
    fn no_bytes_break_a_layout(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        fuzz_layout(&bytes);
    }
}

#[test]
fn a_copy_may_be_shorter_than_a_word_and_stand_at_the_end() {
    let kind = catchment_wire::layouts::ChecksumKind::Copy;
    let copy = FieldKind::Is(Role::Checksum { kind, from: 0, to: Some(1) });
    let fields = vec![
        Field { at: 0, width: 2, bits: None, kind: FieldKind::Is(Role::Key) },
        Field { at: -1, width: 4, bits: None, kind: copy },
    ];
    let packet = Block { head: 2, tail: 1, fields, ..Block::default() };
    let (name, records) = ("short".to_owned(), Vec::new());
    let (order, recorded) = (Order::Big, Recorded::Whole);
    let layouts =
        Layouts::new(Layout { name, is_stream: false, order, packet, records, recorded }).unwrap();
    assert_eq!(decode(&layouts, &[1, 2, 9, 1]).unwrap().1[0].number, 0x102);
    assert_eq!(decode(&layouts, &[1, 2, 9, 2]).unwrap_err(), "checksum");
}

#[test]
fn packets_with_one_fragment_are_made_as_their_layouts_say() {
    let mut random = Random::new(7);
    for (index, layouts) in example_layouts().into_iter().enumerate() {
        for round in 0..200 {
            let wanted = random.below(70_000) as usize;
            let body_bytes = layouts.body_bytes_near(0, wanted);
            assert!(body_bytes <= wanted, "layout {index}: {body_bytes} for {wanted}");
            assert_eq!(layouts.body_bytes_near(0, body_bytes), body_bytes);
            let values = Values {
                key: random.below(1 << 24),
                time: random.below(1 << 48),
                sequence: round,
                source: 1 + random.below(200),
                ..Values::default()
            };
            // What stood in the room does not show.
            let mut room = vec![0xa5; 70_000];
            let fill = |room: &mut [u8]| room[..body_bytes].fill(0x11);
            let is_big = round % 2 == 0;
            let bytes = layouts.encode_one(is_big, &values, body_bytes, &mut room, fill).unwrap();
            let body = vec![0x11; body_bytes];
            let record = [RecordValues { kind: 0, values, body: &body }];
            let (of_packet, records) = match layouts.layout().records.is_empty() {
                true => (&*body, &record[..0]),
                false => (&body[..0], &record[..]),
            };
            let same = layouts.encode(is_big, &values, of_packet, records).unwrap();
            assert_eq!(&room[..bytes], &same[..], "layout {index}");
            let (_, parts) = decode(&layouts, &room[..bytes]).unwrap();
            let number = if layouts.layout().has_keys() { values.key } else { values.time };
            assert_eq!((parts.len(), parts[0].number), (1, number), "layout {index}");
            assert_eq!(u64::from(parts[0].id), values.source);
        }
    }
}

#[test]
fn the_packets_of_alpha_72_are_those_of_the_example() {
    let values =
        Values { time: (1 << 48) - 16, source: 7, tag: 2, groups: 0b101, ..Values::default() };
    for (example, time, sequence, body) in
        [(3, values.time, 1_000, &[1, 2, 3, 4][..]), (4, 16, 1_001, &[][..])]
    {
        let packet = bytes_of(EXAMPLES[example].1);
        let values = Values { time, sequence, ..values };
        assert_eq!(alpha_72().encode(false, &values, body, &[]).unwrap(), packet);
        let (_, parts) = decode(&alpha_72(), &packet).unwrap();
        assert_eq!(parts[0].groups, 0b101);
    }
}
