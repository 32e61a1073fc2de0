//! The two paths through packets, against each other on random layouts.

use catchment_fixtures::Random;
use proptest::prelude::*;

use super::walk::Unobserved;
use super::*;

/// A layout that has the roles of simple boards at random places; whatever comes out is checked.
fn random_layout(random: &mut Random) -> Layout {
    if random.index(4) == 0 {
        return plain_layout(random);
    }
    let order = match random.index(4) {
        0 => Order::Little,
        1 => Order::Big,
        _ => Order::Detected { at: 4 * random.index(2) as u32, mask: 0xff00_0000, equals: 0 },
    };
    let has_records = random.index(3) > 0;
    let mut packet = random_block(random, order);
    let mut record = random_block(random, order);
    let key = |random: &mut Random, block: &mut Block| {
        add(random, block, &[2, 3, 4, 6, 8], FieldKind::Is(Role::Key));
    };
    if random.index(2) == 0 {
        add(random, &mut packet, &[1, 2, 4], FieldKind::Is(Role::Sequence));
    }
    if has_records && random.index(3) == 0 {
        add(random, &mut packet, &[2, 4], FieldKind::Is(Role::Count));
    }
    // Records that name groups have no straight path.
    let named = if random.index(10) == 0 { &mut record } else { &mut packet };
    if random.index(3) == 0 {
        add(random, named, &[1, 2, 4], FieldKind::Is(Role::Groups));
    }
    match has_records && random.index(4) > 0 {
        true => key(random, &mut record),
        false => key(random, &mut packet),
    }
    if random.index(3) == 0 {
        let to = Some(random.index(packet.head as usize) as i64);
        use ChecksumKind::{Copy, Crc32, Crc32c, Sum32, Xor32};
        let kind = [Copy, Copy, Crc32, Crc32c, Sum32, Xor32][random.index(6)];
        packet.tail = packet.tail.max(32);
        let checksum = Role::Checksum { kind, from: 0, to };
        let at = -i64::from(packet.tail);
        packet.fields.push(Field { at, width: 4, bits: None, kind: FieldKind::Is(checksum) });
    }
    let records = if has_records { vec![record] } else { Vec::new() };
    let recorded = if random.index(4) == 0 { Recorded::Body } else { Recorded::Whole };
    Layout { name: "random".into(), is_stream: false, order, packet, records, recorded }
}

/// A layout whose records have all that they say in their first 8 or 16 bytes, as many boards do.
fn plain_layout(random: &mut Random) -> Layout {
    let orders = [Order::Little, Order::Big];
    let detected = Order::Detected { at: 4, mask: 0xff00_0000, equals: 0 };
    let order = [orders[random.index(2)], detected][random.index(2)];
    let head = if order == detected || random.index(2) == 0 { 16 } else { 8 };
    let field = |at, width, role| Field { at, width, bits: None, kind: FieldKind::Is(role) };
    let length = |random: &mut Random| {
        let (unit, plus) = ([1, 1, 2][random.index(3)], random.index(3) as i64);
        field(0, [2, 4, 4][random.index(3)], Role::Length { unit, plus })
    };
    let align = |random: &mut Random| 1 << random.index(4);
    let fields = vec![length(random)];
    let packet = Block { head: 8, align: align(random), fields, ..Block::default() };
    let mut fields = vec![
        length(random),
        field(i64::from(head) - 4, 2, Role::Key),
        field(i64::from(head) - 2, 1, Role::Tag),
    ];
    if random.index(2) == 0 {
        fields.push(field(i64::from(head) - 1, 1, Role::Source));
    }
    let record = Block { head, align: align(random), fields, ..Block::default() };
    let (name, recorded) = ("plain".into(), Recorded::Whole);
    Layout { name, is_stream: false, order, packet, records: vec![record], recorded }
}

fn random_block(random: &mut Random, order: Order) -> Block {
    let mut block = Block { align: 1 << random.index(4), ..Block::default() };
    if let Order::Detected { at, .. } = order {
        block.head = at + 4;
    }
    if random.index(4) == 0 {
        block.tail = 4 * random.index(4) as u32;
    }
    if random.index(4) == 0 {
        block.bytes_max = Some(60 + random.index(200) as u64);
    }
    match random.index(4) {
        0 => block.bytes = Some(40 + random.index(20) as u64),
        _ => {
            let unit = [1, 1, 2, 4, 3][random.index(5)];
            let plus = random.index(20) as i64 - 8;
            add(random, &mut block, &[2, 4, 4, 8], FieldKind::Is(Role::Length { unit, plus }));
        }
    }
    for role in [Role::Source, Role::Tag, Role::Broken] {
        if random.index(2) == 0 {
            add(random, &mut block, &[1, 2, 4], FieldKind::Is(role));
        }
    }
    for _ in 0..random.index(3) {
        let value = random.index(1 << 8) as u64;
        add(random, &mut block, &[1, 2, 3, 4, 8], FieldKind::Equals(value));
    }
    block
}

/// Adds a field behind the others of a head.
fn add(random: &mut Random, block: &mut Block, widths: &[u32], kind: FieldKind) {
    let width = widths[random.index(widths.len())];
    let at = i64::from(block.head) + random.index(3) as i64;
    block.head = at as u32 + width;
    let bits = match kind {
        FieldKind::Is(Role::Tag) => Some([0, 7]),
        FieldKind::Is(Role::Groups) => Some([0, (8 * width - 1).min(15)]),
        FieldKind::Is(Role::Broken) => {
            let bit = random.index(8 * width as usize) as u32;
            Some([bit, bit])
        }
        FieldKind::Is(Role::Key) if width > 2 && random.index(2) == 0 => Some([4, 8 * width - 1]),
        _ => None,
    };
    block.fields.push(Field { at, width, bits, kind });
}

fn random_packet(random: &mut Random, layouts: &Layouts) -> Result<Vec<u8>, EncodeError> {
    let layout = layouts.layout().clone();
    let values = |random: &mut Random| Values {
        key: random.next_u64(),
        time: random.next_u64(),
        seconds: random.next_u64(),
        sequence: random.next_u64(),
        source: random.next_u64(),
        tag: random.next_u64(),
        broken: random.index(2) == 0,
        groups: random.next_u64(),
        ..Values::default()
    };
    let body = |random: &mut Random, block: &Block| {
        let bytes = match block.bytes {
            Some(bytes) => (bytes as usize).saturating_sub(block.head as usize),
            None => 12 * random.index(8) + random.index(2) * random.index(12),
        };
        (0..bytes).map(|_| random.next_u64() as u8).collect::<Vec<u8>>()
    };
    let of_packet = values(random);
    let is_big = random.index(2) == 0;
    let Some(record) = layout.records.first() else {
        let body = body(random, &layout.packet);
        return layouts.encode(is_big, &of_packet, &body, &[]);
    };
    let bodies: Vec<Vec<u8>> = (0..random.index(5)).map(|_| body(random, record)).collect();
    let records: Vec<RecordValues<'_>> =
        bodies.iter().map(|body| RecordValues { kind: 0, values: values(random), body }).collect();
    layouts.encode(is_big, &of_packet, &[], &records)
}

/// Decodes by both paths. Returns whether the packet was accepted.
fn agree(layouts: &Layouts, bytes: &[u8]) -> bool {
    let (mut parts, mut walked) = (Vec::new(), Vec::new());
    let accepted = layouts.compiled.walk(bytes, &mut walked, &mut Unobserved);
    let straight = layouts.straight.as_ref().expect("the layout has a straight path");
    let compiled = &layouts.compiled;
    let shape = straight.shape();
    let taken = shaped!(shape, Known => straight.decode::<Known>(compiled, bytes, &mut parts));
    assert_eq!(taken, accepted.ok(), "{:?} {bytes:?} {accepted:?}", layouts.layout());
    if taken.is_some() {
        assert_eq!(parts, walked, "{:?} {bytes:?}", layouts.layout());
    }
    taken.is_some()
}

/// Layouts with a straight path, those with a window, with plain records, and with words as their
/// lengths, packets that were accepted, and damaged ones that were not.
fn tried(seed: u64) -> [usize; 6] {
    let mut random = Random::new(seed);
    let Ok(layouts) = Layouts::new(random_layout(&mut random)) else { return [0; 6] };
    let Ok(straight) = &layouts.straight else { return [0; 6] };
    let (window, is_plain, is_word) = straight.shape();
    let shape = [window > 0, is_plain, is_word].map(usize::from);
    let mut counts = [1, shape[0], shape[1], shape[2], 0, 0];
    for _ in 0..8 {
        let Ok(mut bytes) = random_packet(&mut random, &layouts) else { continue };
        counts[4] += usize::from(agree(&layouts, &bytes));
        match random.index(4) {
            0 => bytes.truncate(random.index(bytes.len() + 1)),
            1 => bytes.push(0),
            _ => {
                let at = random.index(bytes.len());
                bytes[at] = random.damaged(bytes[at]);
            }
        }
        counts[5] += usize::from(!agree(&layouts, &bytes));
    }
    counts
}

proptest! {
    #[test]
    fn both_paths_take_the_same_packets_of_random_layouts(seed in any::<u64>()) {
        tried(seed);
    }
}

#[test]
fn random_layouts_reach_both_paths_and_both_outcomes() {
    let counts = (0..3_000)
        .map(tried)
        .fold([0; 6], |sum: [usize; 6], one| std::array::from_fn(|index| sum[index] + one[index]));
    let [straight, compact, plain, word, accepted, refused] = counts;
    assert!(straight > 500 && compact > 30, "{counts:?}");
    assert!(plain > 100 && word > 20, "{counts:?}");
    assert!(accepted > 1_000 && refused > 1_000, "{counts:?}");
}
