//! Declared packets that follow each other on a connection, fragments in parts, and checksums.

use catchment_wire::layouts::{
    Block, ChecksumKind, Field, FieldKind, Layout, LayoutError, Layouts, Order, Recorded, Role,
    Values,
};
use catchment_wire::{Decoder, Part, Protocol, Transport, fuzz_decoder};

fn is(at: i64, width: u32, role: Role) -> Field {
    Field { at, width, bits: None, kind: FieldKind::Is(role) }
}

/// Parts of fragments on a connection: 28 bytes of head, and a CRC-32 behind the body.
fn layout() -> Layout {
    let magic = Field { at: 0, width: 2, bits: None, kind: FieldKind::Equals(0xb0a2) };
    let checksum = Role::Checksum { kind: ChecksumKind::Crc32, from: 0, to: None };
    let packet = Block {
        head: 28,
        tail: 4,
        align: 4,
        bytes_max: Some(2_000),
        fields: vec![
            magic,
            is(2, 2, Role::Source),
            is(4, 4, Role::Length { unit: 1, plus: 28 }),
            is(8, 8, Role::Key),
            is(16, 4, Role::Position { unit: 4 }),
            is(20, 4, Role::Total { unit: 1 }),
            is(24, 4, Role::Sequence),
            is(-4, 4, checksum),
        ],
        ..Block::default()
    };
    let (name, order) = ("stream".to_owned(), Order::Big);
    let recorded = Recorded::Body;
    Layout { name, is_stream: true, order, packet, records: Vec::new(), recorded }
}

fn packet(layouts: &Layouts, sequence: u64, position: u64, total: u64, body: &[u8]) -> Vec<u8> {
    let values = Values { key: 77, source: 9, sequence, position, total, ..Values::default() };
    layouts.encode(true, &values, body, &[]).unwrap()
}

fn decode(
    decoder: &mut dyn Decoder,
    bytes: &[u8],
) -> Result<(usize, Option<u64>, Vec<Part>), usize> {
    let mut parts = Vec::new();
    let decoded = decoder.decode(0, bytes, &mut parts)?;
    Ok((decoded.used, decoded.sequence, parts))
}

#[test]
fn packets_of_a_stream_are_found_whatever_the_pieces_in_which_they_come() {
    let layouts = Layouts::new(layout()).unwrap();
    assert_eq!(layouts.transport(), Transport::Connections);
    let first = packet(&layouts, 0, 0, 90, &[1; 41]);
    let second = packet(&layouts, 1, 44, 90, &[2; 46]);
    let stream = [first.clone(), second.clone()].concat();
    let mut decoder = layouts.decoder();
    for arrived in 0..first.len() {
        let (used, _, parts) = decode(decoder.as_mut(), &stream[..arrived]).unwrap();
        assert_eq!((used, parts.len()), (0, 0), "{arrived} bytes");
    }
    let (used, before, parts) = decode(decoder.as_mut(), &stream).unwrap();
    assert_eq!(used, first.len());
    let part = parts[0];
    assert_eq!((part.number, part.id, part.position, part.fragment_bytes), (77, 9, 0, 90));
    assert_eq!((part.offset, part.bytes), (28, 41));
    let (used, after, parts) = decode(decoder.as_mut(), &stream[used..]).unwrap();
    assert_eq!((used, parts[0].position, parts[0].bytes), (second.len(), 44, 46));
    assert_eq!(after.unwrap() - before.unwrap(), 1);
}

#[test]
fn what_begins_no_packet_is_refused_when_its_head_is_there() {
    let layouts = Layouts::new(layout()).unwrap();
    let good = packet(&layouts, 0, 0, 90, &[1; 60]);
    let refused = |bytes: &[u8]| {
        let mut decoder = layouts.decoder();
        let reason = decode(decoder.as_mut(), bytes).unwrap_err();
        assert!(!decoder.explain(bytes).is_empty());
        layouts.reasons()[reason].name
    };
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut bytes = good.clone();
        change(&mut bytes);
        bytes
    };
    // Of these only the head has arrived.
    assert_eq!(refused(&changed(|bytes| bytes[0] ^= 1)[..32]), "constant");
    assert_eq!(refused(&changed(|bytes| bytes[4] = 0xff)[..32]), "length");
    assert_eq!(refused(&changed(|bytes| bytes[6] = 0x08)[..32]), "length");
    assert_eq!(refused(&changed(|bytes| bytes[40] ^= 1)), "checksum");
    assert_eq!(refused(&packet(&layouts, 0, 32, 90, &[1; 60])), "part");
    for at in 0..good.len() {
        fuzz_decoder(&layouts, &good[..at]);
        let mut bytes = good.clone();
        bytes[at] ^= 0x81;
        fuzz_decoder(&layouts, &bytes);
    }
}

/// The error of the layout after a change.
fn error(change: impl FnOnce(&mut Layout)) -> String {
    let mut layout = layout();
    change(&mut layout);
    Layouts::new(layout).map(|_| ()).map_err(|error: LayoutError| error.to_string()).unwrap_err()
}

#[test]
fn streams_without_length_bound_or_source_are_refused() {
    let length = error(|layout| layout.packet.fields.retain(|field| field.at != 4));
    let expected =
        "packet: expected bytes, or length in the head, with transport = \"stream\", got";
    assert_eq!(length, format!("{expected} neither"));
    let bound = error(|layout| layout.packet.bytes_max = None);
    assert!(bound.starts_with("packet.bytes_max: expected at most 131071 with"), "{bound}");
    let bound = error(|layout| layout.packet.bytes_max = Some(200_000));
    assert!(bound.ends_with("got 200000"), "{bound}");
    let source = error(|layout| layout.packet.fields.retain(|field| field.at != 2));
    assert!(source.starts_with("packet: expected source in each fragment"), "{source}");
}

#[test]
fn parts_need_a_total_a_position_and_bodies() {
    let position = error(|layout| layout.packet.fields.retain(|field| field.at != 20));
    assert_eq!(position, "packet.fields[4]: expected total with position, got none");
    let total = error(|layout| layout.packet.fields.retain(|field| field.at != 16));
    assert_eq!(total, "packet.fields[4]: expected position with total, got none");
    let whole = error(|layout| layout.recorded = Recorded::Whole);
    assert!(whole.contains("expected fragment = \"body\" with position"), "{whole}");
    let unit =
        error(|layout| layout.packet.fields[4].kind = FieldKind::Is(Role::Position { unit: 0 }));
    assert_eq!(unit, "packet.fields[4].unit: expected 1 to 65536, got 0");
}

#[test]
fn each_kind_of_checksum_is_that_of_its_bytes() {
    let with = |kind: ChecksumKind, order: Order| {
        let checksum = Role::Checksum { kind, from: 2, to: None };
        let fields = vec![is(0, 2, Role::Key), is(-4, 4, checksum)];
        let packet = Block { head: 2, tail: 4, fields, ..Block::default() };
        let (name, records, recorded) = ("sum".to_owned(), Vec::new(), Recorded::Body);
        Layouts::new(Layout { name, is_stream: false, order, packet, records, recorded }).unwrap()
    };
    // The check values of the catalogues, and sums of the words of the same digits.
    let words = [0x3132_3334_u32, 0x3536_3738, 0x3900_0000];
    let expected = [
        (ChecksumKind::Crc32c, 0xe306_9283),
        (ChecksumKind::Crc32, 0xcbf4_3926),
        (ChecksumKind::Sum32, words.into_iter().fold(0, u32::wrapping_add)),
        (ChecksumKind::Xor32, words.into_iter().fold(0, |sum, word| sum ^ word)),
    ];
    for (kind, sum) in expected {
        let layouts = with(kind, Order::Big);
        let mut bytes = [&[0, 5], &b"123456789"[..], &sum.to_be_bytes()].concat();
        assert!(decode(layouts.decoder().as_mut(), &bytes).is_ok(), "{kind:?}");
        bytes[4] ^= 4;
        let reason = decode(layouts.decoder().as_mut(), &bytes).unwrap_err();
        assert_eq!(layouts.reasons()[reason].name, "checksum");
    }
    let little = with(ChecksumKind::Sum32, Order::Little);
    let bytes = [5, 0, 1, 0, 0, 0, 2, 3, 0, 0, 0];
    assert!(decode(little.decoder().as_mut(), &bytes).is_ok(), "1 + 2");
}
