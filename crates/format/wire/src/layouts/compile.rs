//! From a checked declaration to *loads*: one read of 8 bytes each, then swap, shift and mask.

use super::declaration::{Block, ChecksumKind, Field, FieldKind, Layout, Order, Role};

/// A layout to decode with.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub(super) order: Order,
    pub(super) packet: Blueprint,
    pub(super) records: Box<[Blueprint]>,
    /// Whether records are read from the packet's end, as their lengths stand in their tails.
    pub(super) from_end: bool,
    pub(super) records_body: bool,
}

/// A block to decode with.
#[derive(Clone, Debug)]
pub(super) struct Blueprint {
    pub(super) head: usize,
    pub(super) tail: usize,
    pub(super) align_mask: u64,
    /// The fewest bytes of such a block.
    pub(super) least: usize,
    pub(super) bytes: Option<u64>,
    pub(super) bytes_max: u64,
    pub(super) skip: bool,
    pub(super) skip_rest: bool,
    pub(super) has_length: bool,
    pub(super) unit: u64,
    pub(super) plus: i64,
    /// Bytes in which positions and totals count; none without them.
    pub(super) part_units: Option<[u64; 2]>,
    /// Ticks of a second, if there are seconds beside them.
    pub(super) ticks_end: u64,
    /// Ticks of a second that are added to a fragment's number for each of its seconds.
    pub(super) seconds_hz: u64,
    /// By byte order: little, big.
    pub(super) loads: [Loads; 2],
    pub(super) checksums: Box<[Sum]>,
}

/// The loads of a block in one byte order.
#[derive(Clone, Debug)]
pub(super) struct Loads {
    pub(super) slots: [Load; SLOTS],
    /// Further parts of values.
    pub(super) parts: Box<[(usize, Load)]>,
    /// Constants of head and tail.
    pub(super) constants: Box<[Constant]>,
    /// Those that select a record, or the layout of a packet. Those of a packet are among its
    /// constants, too: it is none of another layout.
    pub(super) choose: Box<[Constant]>,
    pub(super) each: Box<[Each]>,
}

/// Bits of 8 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Where they begin, from the block's first byte or, if negative, from its end.
    pub(super) at: isize,
    swap: bool,
    pub(super) shift: u32,
    pub(super) mask: u64,
    /// Where they go in the value.
    to: u32,
}

/// Constants of one word, which are compared at once, in the order in which the bytes stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Constant {
    /// As that of [`Load`].
    at: isize,
    mask: u64,
    value: u64,
}

/// A constant of every word of a body.
#[derive(Clone, Copy, Debug)]
pub(super) struct Each {
    width: usize,
    constant: Constant,
}

/// A checksum: the bytes that it covers, and where it stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    kind: ChecksumKind,
    from: i64,
    to: i64,
    at: i64,
    loads: [Load; 2],
}

/// The index of a value in [`Loads::slots`].
pub(super) mod slot {
    pub(in super::super) const LENGTH: usize = 0;
    pub(in super::super) const KEY: usize = 1;
    pub(in super::super) const SOURCE: usize = 2;
    pub(in super::super) const BROKEN: usize = 3;
    pub(in super::super) const TAG: usize = 4;
    pub(in super::super) const TIME: usize = 5;
    pub(in super::super) const SECONDS: usize = 6;
    pub(in super::super) const SEQUENCE: usize = 7;
    pub(in super::super) const COUNT: usize = 8;
    pub(in super::super) const POSITION: usize = 9;
    pub(in super::super) const TOTAL: usize = 10;
    pub(in super::super) const GROUPS: usize = 11;
}
const SLOTS: usize = 12;

impl Load {
    /// The load of a field in a block of at least `least` bytes.
    fn new(field: &Field, is_big: bool, least: usize, to: u32) -> Self {
        let (first, bits) = field.range();
        let (at, width, least) = (field.at as isize, field.width as isize, least as isize);
        // Within the block's least length, where that has 8 bytes; otherwise `word` looks.
        let begin = match at < 0 {
            false => at.min((least - 8).max(0)),
            true => at.min(-8).max(-least),
        };
        let before = 8 * (at - begin) as u32;
        let behind = 8 * (8 - width) as u32 - before;
        Self {
            at: begin,
            swap: is_big,
            shift: if is_big { behind } else { before } + first,
            mask: u64::MAX >> (64 - bits),
            to,
        }
    }

    /// The field's bits. The block has at least its least length.
    #[inline(always)]
    pub(super) fn bits(self, block: &[u8]) -> u64 {
        let end = if self.at < 0 { block.len() } else { 0 };
        let word = word(block, end.wrapping_add_signed(self.at));
        let word = if self.swap { word.swap_bytes() } else { word };
        (word >> self.shift) & self.mask
    }

    /// The value, of one part.
    #[inline(always)]
    pub(super) fn part(self, block: &[u8]) -> u64 {
        self.bits(block) << self.to
    }

    /// Whether it has bits at all: an absent value has none.
    #[inline(always)]
    pub(super) fn is_present(self) -> bool {
        self.mask != 0
    }
}

/// 8 bytes, or what a shorter block has of them, then zeros.
#[inline(always)]
fn word(block: &[u8], at: usize) -> u64 {
    match block.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => short_word(block.get(at..).unwrap_or_default()),
    }
}

#[cold]
#[inline(never)]
fn short_word(rest: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(rest).for_each(|(byte, from)| *byte = *from);
    u64::from_le_bytes(bytes)
}

impl Constant {
    fn new(load: Load, value: u64) -> Self {
        let placed = |bits: u64| match load.swap {
            true => (bits << load.shift).swap_bytes(),
            false => bits << load.shift,
        };
        Self { at: load.at, mask: placed(load.mask), value: placed(value) }
    }

    #[inline(always)]
    pub(super) fn holds(&self, block: &[u8]) -> bool {
        let end = if self.at < 0 { block.len() } else { 0 };
        word(block, end.wrapping_add_signed(self.at)) & self.mask == self.value
    }

    pub(super) fn is_of_head(&self) -> bool {
        self.at >= 0
    }

    /// Puts a constant that stands behind this one into the same word, if it is within 8 bytes.
    fn take(&mut self, later: &Self) -> bool {
        let bits = 8 * later.at.abs_diff(self.at);
        let is_near = bits < 64 && (self.at < 0) == (later.at < 0);
        let shifted =
            |word: u64| is_near.then(|| word << bits).filter(|moved| moved >> bits == word);
        let (Some(mask), Some(value)) = (shifted(later.mask), shifted(later.value)) else {
            return false;
        };
        // Constants that contradict each other stay apart, so that one of them fails.
        if self.mask & mask & (self.value ^ value) != 0 {
            return false;
        }
        (self.mask, self.value) = (self.mask | mask, self.value | value);
        true
    }

    /// The same constants in as few words as this order gives.
    fn joined(mut all: Vec<Self>) -> Box<[Self]> {
        all.sort_by_key(|one| one.at);
        let mut joined: Vec<Self> = Vec::new();
        for one in all {
            if !joined.last_mut().is_some_and(|last| last.take(&one)) {
                joined.push(one);
            }
        }
        joined.into()
    }
}

impl Each {
    /// Whether it holds in each word of a body, which whole words fill.
    pub(super) fn holds(&self, body: &[u8]) -> bool {
        let words = body.chunks_exact(self.width);
        words.remainder().is_empty() && words.into_iter().all(|word| self.constant.holds(word))
    }
}

impl Sum {
    /// Whether the bytes of a block have it.
    #[inline(always)]
    pub(super) fn is_right(&self, block: &[u8], order: usize) -> bool {
        match self.is_copy() {
            true => self.is_copied(block),
            false => self.is_computed_right(block, order),
        }
    }

    /// Whether it is a copy.
    pub(super) fn is_copy(&self) -> bool {
        self.kind == ChecksumKind::Copy
    }

    /// Whether the bytes of a block are there again.
    #[inline(always)]
    pub(super) fn is_copied(&self, block: &[u8]) -> bool {
        let Some(covered) = block.get(self.from as usize..self.to as usize) else { return false };
        let copy = block.get(place(self.at, block)..).and_then(|rest| rest.get(..covered.len()));
        copy.is_some_and(|copy| is_same(covered, copy))
    }

    #[inline(never)]
    fn is_computed_right(&self, block: &[u8], order: usize) -> bool {
        let Some(covered) = block.get(place(self.from, block)..place(self.to, block)) else {
            return false;
        };
        let sum = self.kind.of(covered, order == 1);
        u64::from(sum) == self.loads[order].bits(block)
    }
}

impl ChecksumKind {
    /// The checksum of some bytes; 0 for a copy, which is none.
    pub(super) fn of(self, bytes: &[u8], is_big: bool) -> u32 {
        let words = || {
            bytes.chunks(4).map(|word| {
                let mut whole = [0; 4];
                whole[..word.len()].copy_from_slice(word);
                if is_big { u32::from_be_bytes(whole) } else { u32::from_le_bytes(whole) }
            })
        };
        match self {
            Self::Crc32c => crc_fast::crc32_iscsi(bytes),
            Self::Crc32 => crc_fast::crc32_iso_hdlc(bytes),
            Self::Sum32 => words().fold(0, u32::wrapping_add),
            Self::Xor32 => words().fold(0, |sum, word| sum ^ word),
            Self::Copy => 0,
        }
    }
}

/// A byte's index in a block; negative ones count from its end.
#[inline(always)]
fn place(at: i64, block: &[u8]) -> usize {
    match at < 0 {
        true => block.len().wrapping_add_signed(at as isize),
        false => at as usize,
    }
}

/// Whether slices of the same length are equal. Copies have a few words, for which a call of the
/// library takes longer than the comparison.
#[inline(always)]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    // As long as the copies of which most boards send one.
    if let (Ok(one), Ok(other)) = (<&[u8; 32]>::try_from(one), <&[u8; 32]>::try_from(other)) {
        return one == other;
    }
    let (words, rest) = one.as_chunks::<16>();
    let (other_words, other_rest) = other.as_chunks::<16>();
    let mut is_same = words.len() == other_words.len() && rest.len() == other_rest.len();
    for (one, other) in words.iter().zip(other_words) {
        is_same &= one == other;
    }
    for (one, other) in rest.iter().zip(other_rest) {
        is_same &= one == other;
    }
    is_same
}

impl Compiled {
    /// With times in place of keys, if they are matched by time.
    pub(super) fn new(layout: &Layout, by_time: bool) -> Self {
        let of_record = |one| Blueprint::new(one, false, by_time);
        let records: Box<[Blueprint]> = layout.records.iter().map(of_record).collect();
        let from_end =
            layout.records.iter().any(|one| one.with("length").any(|field| field.at < 0));
        let packet = Blueprint::new(&layout.packet, true, by_time);
        let records_body = layout.recorded == super::Recorded::Body;
        let order = layout.order;
        Self { order, packet, records, from_end, records_body }
    }
}

impl Blueprint {
    pub(super) fn has_groups(&self) -> bool {
        self.loads[0].slots[slot::GROUPS].is_present()
    }

    fn new(block: &Block, is_packet: bool, by_time: bool) -> Self {
        let least = block.bytes_min() as usize;
        let (unit, plus) = match block.with("length").next().and_then(Field::role) {
            Some(Role::Length { unit, plus }) => (unit, plus),
            _ => (1, 0),
        };
        let rate = block.with("time").find_map(|field| match field.role() {
            Some(Role::Time { rate_hz }) => rate_hz,
            _ => None,
        });
        let rate = rate.filter(|_| block.has("seconds"));
        let part_unit = |name| match block.with(name).next().and_then(Field::role) {
            Some(Role::Position { unit } | Role::Total { unit }) => Some(unit),
            _ => None,
        };
        let sums = block.fields.iter().filter_map(|field| match field.role()? {
            Role::Checksum { kind, from, to } => {
                // A copy is no word, and may be shorter than one.
                let loads = [false, true].map(|is_big| match kind {
                    ChecksumKind::Copy => Load::default(),
                    _ => Load::new(field, is_big, least, 0),
                });
                Some(Sum { kind, from, to: to.unwrap_or(field.at), at: field.at, loads })
            }
            _ => None,
        });
        let loads = |is_big| {
            let mut loads = Loads::new(block, is_big, least, by_time);
            if is_packet {
                let all = loads.constants.iter().chain(&loads.choose).copied().collect();
                loads.constants = Constant::joined(all);
            }
            loads
        };
        Self {
            head: block.head as usize,
            tail: block.tail as usize,
            align_mask: u64::from(block.align) - 1,
            least,
            bytes: block.bytes,
            bytes_max: block.bytes_max.unwrap_or(u64::MAX),
            skip: block.skip,
            skip_rest: block.skip_rest,
            has_length: block.has("length"),
            unit,
            plus,
            part_units: part_unit("position").zip(part_unit("total")).map(<[_; 2]>::from),
            ticks_end: rate.unwrap_or(u64::MAX),
            seconds_hz: rate.filter(|_| by_time).unwrap_or(0),
            loads: [false, true].map(loads),
            checksums: sums.collect(),
        }
    }
}

impl Loads {
    fn new(block: &Block, is_big: bool, least: usize, by_time: bool) -> Self {
        let mut slots = [Load::default(); SLOTS];
        let mut bits = [0; SLOTS];
        let (mut parts, mut constants) = (Vec::new(), Vec::new());
        let (mut choose, mut each) = (Vec::new(), Vec::new());
        for field in &block.fields {
            // Not of every field: a copy is no word, and may be shorter than one.
            let load = || Load::new(field, is_big, least, 0);
            let constant = |value| Constant::new(load(), value);
            match field.kind {
                FieldKind::Equals(value) => constants.push(constant(value)),
                FieldKind::Choose(value) => choose.push(constant(value)),
                FieldKind::Each(value) => {
                    let width = field.width as usize;
                    let load = Load::new(field, is_big, width, 0);
                    each.push(Each { width, constant: Constant::new(load, value) });
                }
                FieldKind::Is(role) => {
                    let Some(slot) = slot_of(role) else { continue };
                    let load = Load { to: bits[slot], ..load() };
                    match bits[slot] {
                        0 => slots[slot] = load,
                        _ => parts.push((slot, load)),
                    }
                    bits[slot] += field.range().1;
                }
            }
        }
        if by_time {
            // What fragments are told apart by.
            slots[slot::KEY] = slots[slot::TIME];
            let again = parts.iter().filter(|(slot, _)| *slot == slot::TIME);
            let again: Vec<(usize, Load)> = again.map(|&(_, load)| (slot::KEY, load)).collect();
            parts.extend(again);
        }
        Self {
            slots,
            parts: parts.into(),
            constants: Constant::joined(constants),
            choose: Constant::joined(choose),
            each: each.into(),
        }
    }
}

fn slot_of(role: Role) -> Option<usize> {
    Some(match role {
        Role::Length { .. } => slot::LENGTH,
        Role::Key => slot::KEY,
        Role::Source => slot::SOURCE,
        Role::Broken => slot::BROKEN,
        Role::Groups => slot::GROUPS,
        Role::Tag => slot::TAG,
        Role::Time { .. } => slot::TIME,
        Role::Seconds => slot::SECONDS,
        Role::Sequence => slot::SEQUENCE,
        Role::Count => slot::COUNT,
        Role::Position { .. } => slot::POSITION,
        Role::Total { .. } => slot::TOTAL,
        Role::Checksum { .. } => return None,
    })
}
