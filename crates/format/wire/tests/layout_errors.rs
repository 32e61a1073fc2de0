//! Declarations that contradict themselves: each is refused with an error that names the key.

use catchment_wire::layouts::{
    Block, ChecksumKind, Field, FieldKind, Layout, Layouts, Order, Role, example_layouts,
};

/// The error of an example that was changed.
fn refused(index: usize, change: impl FnOnce(&mut Layout)) -> String {
    let mut layout = example_layouts()[index].layout().clone();
    change(&mut layout);
    let error = Layouts::new(layout).map(|_| ()).expect_err("it is refused");
    error.to_string()
}

fn is(at: i64, role: Role) -> Field {
    Field { at, width: 4, bits: None, kind: FieldKind::Is(role) }
}

#[test]
fn fields_beyond_their_block_or_their_word_are_refused() {
    let at = |at| refused(1, |layout| layout.records[0].fields[3].at = at);
    let places = "record[0].fields[3].at: expected bytes 0 to 3 (head) or -4 to -1 (tail), got";
    assert_eq!(at(1), format!("{places} 1 to 4"));
    assert_eq!(at(-5), format!("{places} -5 to -2"));
    assert_eq!(at(-3), format!("{places} -3 to 0"));
    assert_eq!(at(i64::MAX), format!("{places} {} to {}", i64::MAX, i64::MAX - 1));
    let bits = |bits| refused(0, |layout| layout.records[0].fields[3].bits = Some(bits));
    let expected = "record[0].fields[3].bits: expected bits 0 to 31, rising, got";
    assert_eq!(bits([8, 40]), format!("{expected} [8, 40]"));
    assert_eq!(bits([9, 8]), format!("{expected} [9, 8]"));
    let width = refused(0, |layout| layout.records[0].fields[3].width = 9);
    assert_eq!(width, "record[0].fields[3].width: expected 1 to 8 bytes, got 9");
    let value = refused(1, |layout| layout.packet.fields[2].kind = FieldKind::Equals(0x3_cae0));
    assert_eq!(value, "packet.fields[2].equals: expected a value of 16 bits, got 0x3cae0");
    let each = refused(1, |layout| layout.records[0].fields[5].at = 4);
    assert_eq!(each, "record[0].fields[5].at: expected 0 with each, got 4");
}

#[test]
fn values_of_too_few_or_too_many_bits_are_refused() {
    let key = refused(0, |layout| layout.records[0].fields[3].bits = Some([8, 15]));
    assert_eq!(key, "record[0].fields[3].bits: key: expected a value of 16 to 64 bits, got 8");
    let tag = refused(0, |layout| layout.records[0].fields[4].bits = Some([0, 8]));
    assert_eq!(tag, "record[0].fields[4].bits: tag: expected a value of 1 to 8 bits, got 9");
    let broken = refused(0, |layout| layout.records[0].fields[2].bits = Some([30, 31]));
    assert_eq!(broken, "record[0].fields[2].bits: broken: expected a value of 1 bit, got 2");
    let parts =
        refused(2, |layout| layout.records[0].fields.push(is(4, Role::Time { rate_hz: None })));
    assert_eq!(parts, "record[0].fields[5].bits: time: expected a value of 16 to 64 bits, got 96");
    let rate = refused(3, |layout| {
        layout.packet.fields[6].kind = FieldKind::Is(Role::Time { rate_hz: None })
    });
    assert_eq!(rate, "packet.fields[6]: expected rate with time, got none");
    let seconds = refused(0, |layout| layout.packet.fields.push(is(0, Role::Seconds)));
    assert_eq!(seconds, "packet.fields[2]: expected time with seconds, got none");
}

#[test]
fn kinds_of_records_that_can_never_be_chosen_are_refused() {
    let none = refused(1, |layout| {
        layout.records[0].fields.remove(0);
    });
    let expected = "record[1]: record 2 \"filler\" can never be chosen: record 1 \"event\" has";
    assert_eq!(none, format!("{expected} no choose"));
    let same = refused(1, |layout| layout.records[1].fields[0] = layout.records[0].fields[0]);
    assert_eq!(same, format!("{expected} the same choose, or a part of it"));
    let part = refused(1, |layout| {
        let more = Field { bits: Some([20, 23]), ..layout.records[1].fields[0] };
        layout.records[1].fields = vec![more, layout.records[0].fields[0]];
    });
    assert_eq!(part, format!("{expected} the same choose, or a part of it"));
    let many = refused(1, |layout| layout.records.resize(9, Block::default()));
    assert_eq!(many, "record: expected at most 8 records, got 9");
    let skipped = refused(0, |layout| layout.records[0].skip = true);
    assert_eq!(skipped, "record: expected a record that is not skipped, got none");
    for (index, of_record) in [(0, false), (1, true), (3, false)] {
        let got = refused(index, |layout| match of_record {
            true => layout.records[0].skip_rest = true,
            false => layout.packet.skip_rest = true,
        });
        let block = if of_record { "record[0]" } else { "packet" };
        let expected = "expected it in a packet with records and count, got it";
        assert_eq!(got, format!("{block}.skip_rest: {expected} elsewhere"));
    }
}

#[test]
fn lengths_that_cannot_be_are_refused() {
    let expected =
        "its length stands in the tail; expected one record without choose and count, got";
    let two = refused(2, |layout| {
        let mut first = layout.records[0].clone();
        first.fields.push(Field { at: 0, width: 4, bits: None, kind: FieldKind::Choose(1) });
        layout.records.insert(0, first);
    });
    assert_eq!(two, format!("record[0]: {expected} 2"));
    let count = refused(2, |layout| layout.packet.fields.push(is(4, Role::Count)));
    assert_eq!(count, format!("record[0]: {expected} choose or count"));
    let none = refused(1, |layout| layout.records[1].bytes = None);
    let expected =
        "record[1]: expected length or bytes where records follow each other, got neither";
    assert_eq!(none, expected);
    let both = refused(0, |layout| layout.records[0].bytes = Some(16));
    assert_eq!(both, "record[0].bytes: expected length or bytes, got both");
    let length = |unit, plus| FieldKind::Is(Role::Length { unit, plus });
    let unit = refused(0, |layout| layout.packet.fields[0].kind = length(0, 0));
    assert_eq!(unit, "packet.fields[0].unit: expected 1 to 65536, got 0");
    let plus = refused(0, |layout| layout.packet.fields[0].kind = length(1, -65_537));
    assert_eq!(plus, "packet.fields[0].plus: expected -65536 to 65536, got -65537");
    let each = refused(1, |layout| layout.records[0].fields[1].kind = length(2, 4));
    assert_eq!(
        each,
        "record[0].fields[5].each: words of 4 bytes do not divide lengths in steps of 2"
    );
}

#[test]
fn sizes_out_of_their_bounds_are_refused() {
    let packet = |change: fn(&mut Block)| refused(3, |layout| change(&mut layout.packet));
    assert_eq!(packet(|one| one.head = 4_097), "packet.head: expected 0 to 4096 bytes, got 4097");
    assert_eq!(
        packet(|one| one.align = 3),
        "packet.align: expected 1, 2, 4, 8, 16, 32 or 64, got 3"
    );
    let most = 1_920 << 20;
    assert_eq!(
        packet(|one| one.bytes = Some(23)),
        format!("packet.bytes: expected 24 to {most}, got 23")
    );
    let bytes_max = packet(|one| one.bytes_max = Some(27));
    assert_eq!(bytes_max, format!("packet.bytes_max: expected 28 to {most}, got 27"));
    let empty = refused(0, |layout| layout.records[0].head = 0);
    assert!(empty.starts_with("order.at: "), "{empty}");
    let empty =
        refused(1, |layout| layout.records[1] = Block { bytes: Some(4), ..Block::default() });
    assert_eq!(empty, "record[1].head: expected head or tail of at least 1 byte, got neither");
    let order = |order| refused(0, |layout| layout.order = order);
    let at = order(Order::Detected { at: 5, mask: 1, equals: 1 });
    assert_eq!(at, "order.at: expected a word of 4 bytes in the head of every block, got 5");
    let mask = order(Order::Detected { at: 4, mask: 1, equals: 2 });
    assert_eq!(
        mask,
        "order.equals: expected bits of a mask that is not 0, got mask 0x1, equals 0x2"
    );
}

#[test]
fn checksums_of_themselves_or_of_what_is_not_there_are_refused() {
    let crc = |from, to| {
        let kind = ChecksumKind::Crc32c;
        refused(3, |layout| {
            layout.packet.fields[7].kind = FieldKind::Is(Role::Checksum { kind, from, to })
        })
    };
    assert_eq!(crc(0, Some(28)), "packet.fields[7]: bytes 0 to 28 overlap it at -4");
    assert_eq!(
        crc(0, Some(29)),
        "packet.fields[7].to: expected a byte of the shortest block, -28 to 28, got 29"
    );
    assert_eq!(crc(24, Some(24)), "packet.fields[7].to: expected an end behind byte 24, got 24");
    let kind = ChecksumKind::Copy;
    let role = Role::Checksum { kind, from: 0, to: Some(32) };
    let copy = refused(0, |layout| layout.packet.fields[1] = is(-31, role));
    assert!(copy.starts_with("packet.fields[1].at: expected bytes 0 to 7 (head) or -32"), "{copy}");
    let width = refused(3, |layout| layout.packet.fields[7].bits = Some([0, 15]));
    assert_eq!(width, "packet.fields[7].bits: expected 32 bits, got 16");
}

#[test]
fn fragments_without_key_and_time_or_with_different_ones_are_refused() {
    let none = refused(1, |layout| {
        layout.records[0].fields.remove(3);
    });
    assert!(none.contains("expected key or time in each record"), "{none}");
    let other = refused(1, |layout| {
        layout.records[1].skip = false;
        layout.records[1].fields.push(is(0, Role::Key));
    });
    assert!(
        other.starts_with("record: expected all keys, or all times, of as many bits"),
        "{other}"
    );
    let count = refused(0, |layout| layout.records[0].fields.push(is(0, Role::Count)));
    assert_eq!(count, "record[0].fields[5].is: expected count in the packet, got it in a record");
}
