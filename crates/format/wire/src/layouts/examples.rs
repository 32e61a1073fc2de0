//! The declarations of the specification's examples, for tests, fuzzing and benches.

use super::declaration::{Block, ChecksumKind, Field, FieldKind, Layout, Order, Recorded, Role};
use super::{Layouts, Variants};

/// Layouts of four kinds of boards: hadtu's packets, tagged words behind a crate controller,
/// White Rabbit times in a batcher, and a board with a clock.
#[doc(hidden)]
pub fn example_layouts() -> [Layouts; 4] {
    [trb(), tagged(), batcher(), alpha()].map(|layout| Layouts::new(layout).expect("it is right"))
}

/// The packets of the preset `alpha-72`, whose boards have clocks of 125 MHz.
///
/// # Panics
/// Never: the layout is right.
pub fn alpha_72() -> Layouts {
    Layouts::new(alpha()).expect("it is right")
}

/// Hits that the packet counts, and something else behind them.
///
/// # Panics
/// Never: the layout is right.
#[doc(hidden)]
pub fn example_counted() -> Layouts {
    let packet = Block {
        head: 8,
        skip_rest: true,
        fields: vec![
            is(0, 4, Role::Sequence),
            is(4, 2, Role::Count),
            constant(6, 2, FieldKind::Equals(0x7d01)),
        ],
        ..Block::default()
    };
    let fields = vec![is(0, 4, Role::Key), is(4, 1, Role::Source)];
    let record = Block { head: 8, bytes: Some(8), fields, ..Block::default() };
    let layout = Layout {
        name: "hits".into(),
        is_stream: false,
        order: Order::Big,
        packet,
        records: vec![record],
        recorded: Recorded::Whole,
    };
    Layouts::new(layout).expect("it is right")
}

/// A source with two layouts: a digitizer's events, and its settings.
///
/// # Panics
/// Never: the layouts are right.
#[doc(hidden)]
pub fn example_variants() -> Variants {
    let layouts = [digitizer(false), digitizer(true)];
    let layouts = layouts.map(|layout| Layouts::new(layout).expect("it is right"));
    Variants::new(layouts.into()).expect("they are those of one source")
}

fn is(at: i64, width: u32, role: Role) -> Field {
    Field { at, width, bits: None, kind: FieldKind::Is(role) }
}

fn bits(field: Field, first: u32, last: u32) -> Field {
    Field { bits: Some([first, last]), ..field }
}

fn constant(at: i64, width: u32, kind: FieldKind) -> Field {
    Field { at, width, bits: None, kind }
}

const LENGTH: Role = Role::Length { unit: 1, plus: 0 };

fn trb() -> Layout {
    let copy = Role::Checksum { kind: ChecksumKind::Copy, from: 0, to: Some(32) };
    let packet = Block {
        head: 8,
        align: 8,
        tail: 32,
        fields: vec![is(0, 4, LENGTH), is(-32, 4, copy)],
        ..Block::default()
    };
    let record = Block {
        head: 16,
        align: 8,
        fields: vec![
            is(0, 4, LENGTH),
            bits(is(8, 4, Role::Source), 0, 30),
            bits(is(8, 4, Role::Broken), 31, 31),
            bits(is(12, 4, Role::Key), 8, 31),
            bits(is(12, 4, Role::Tag), 0, 7),
        ],
        ..Block::default()
    };
    Layout {
        name: "trb".into(),
        is_stream: false,
        order: Order::Detected { at: 4, mask: 0xff00_0000, equals: 0 },
        packet,
        records: vec![record],
        recorded: Recorded::Whole,
    }
}

fn tagged() -> Layout {
    let packet = Block {
        head: 8,
        fields: vec![
            is(0, 4, Role::Sequence),
            is(4, 2, Role::Count),
            constant(6, 2, FieldKind::Equals(0xcae0)),
        ],
        ..Block::default()
    };
    let event = Block {
        name: "event".into(),
        head: 4,
        tail: 4,
        fields: vec![
            bits(constant(0, 4, FieldKind::Choose(0b010)), 24, 26),
            bits(is(0, 4, Role::Length { unit: 4, plus: 4 }), 8, 13),
            bits(is(0, 4, Role::Source), 16, 23),
            bits(is(-4, 4, Role::Key), 0, 23),
            bits(constant(-4, 4, FieldKind::Equals(0b100)), 24, 26),
            bits(constant(0, 4, FieldKind::Each(0b000)), 24, 26),
        ],
        ..Block::default()
    };
    let filler = Block {
        name: "filler".into(),
        head: 4,
        bytes: Some(4),
        skip: true,
        fields: vec![bits(constant(0, 4, FieldKind::Choose(0b110)), 24, 26)],
        ..Block::default()
    };
    let (order, recorded) = (Order::Big, Recorded::Whole);
    Layout {
        name: "v775-crate".into(),
        is_stream: false,
        order,
        packet,
        records: vec![event, filler],
        recorded,
    }
}

fn batcher() -> Layout {
    let packet = Block {
        head: 8,
        fields: vec![constant(0, 1, FieldKind::Equals(0x21)), is(1, 1, Role::Sequence)],
        ..Block::default()
    };
    let tag = |at, value| bits(constant(at, 4, FieldKind::Equals(value)), 16, 31);
    let time = |at, rate_hz| bits(is(at, 4, Role::Time { rate_hz }), 0, 15);
    let record = Block {
        head: 20,
        align: 8,
        tail: 8,
        fields: vec![
            constant(0, 4, FieldKind::Equals(0x200)),
            tag(4, 0x03e1),
            tag(8, 0x04e1),
            tag(12, 0x05e1),
            tag(16, 0x06e1),
            time(4, Some(1_000_000_000)),
            time(8, None),
            time(12, None),
            time(16, None),
            is(-8, 4, LENGTH),
            is(-4, 1, Role::Source),
        ],
        ..Block::default()
    };
    let (order, recorded) = (Order::Little, Recorded::Whole);
    Layout {
        name: "wr-batch".into(),
        is_stream: false,
        order,
        packet,
        records: vec![record],
        recorded,
    }
}

fn alpha() -> Layout {
    let crc = Role::Checksum { kind: ChecksumKind::Crc32c, from: 0, to: None };
    let packet = Block {
        head: 24,
        tail: 4,
        bytes_max: Some(8_928),
        fields: vec![
            constant(0, 2, FieldKind::Equals(0xa16a)),
            bits(is(2, 2, Role::Source), 0, 7),
            bits(is(2, 2, Role::Broken), 15, 15),
            is(4, 4, Role::Sequence),
            is(8, 2, Role::Length { unit: 1, plus: 24 }),
            is(18, 1, Role::Tag),
            is(12, 6, Role::Time { rate_hz: Some(125_000_000) }),
            is(-4, 4, crc),
            is(10, 2, Role::Groups),
        ],
        ..Block::default()
    };
    let (order, recorded) = (Order::Little, Recorded::Whole);
    Layout {
        name: "alpha-pad".into(),
        is_stream: false,
        order,
        packet,
        records: Vec::new(),
        recorded,
    }
}

fn digitizer(is_settings: bool) -> Layout {
    let (name, head, choice) = match is_settings {
        false => ("digitizer", 16, 0xa),
        true => ("digitizer-settings", 8, 0xc),
    };
    let mut fields = vec![
        bits(constant(0, 4, FieldKind::Choose(choice)), 28, 31),
        bits(is(0, 4, Role::Length { unit: 4, plus: 0 }), 0, 27),
        bits(is(4, 4, Role::Sequence), 0, 15),
    ];
    if !is_settings {
        fields.extend([
            bits(is(4, 4, Role::Source), 27, 31),
            bits(is(8, 4, Role::Key), 0, 23),
            is(12, 4, Role::Time { rate_hz: Some(125_000_000) }),
        ]);
    }
    Layout {
        name: name.into(),
        is_stream: false,
        order: Order::Big,
        packet: Block { head, skip: is_settings, fields, ..Block::default() },
        records: Vec::new(),
        recorded: Recorded::Whole,
    }
}
