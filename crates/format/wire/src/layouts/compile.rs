//! From a checked declaration to *loads*: one read of 8 bytes each, then swap, shift and mask.

use super::declaration::{Block, ChecksumKind, Field, Layout, Order, Role, What};

/// A layout to decode with.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub(super) order: Order,
    pub(super) packet: Blueprint,
    pub(super) records: Box<[Blueprint]>,
    /// Whether records are read from the packet's end, as their lengths stand in their tails.
    pub(super) from_end: bool,
    pub(super) records_body: bool,
    /// Why the path for simple layouts is not taken, if it is not.
    pub(super) general: Option<&'static str>,
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
    pub(super) has_length: bool,
    pub(super) unit: u64,
    pub(super) plus: i64,
    /// Ticks of a second, if there are seconds beside them.
    pub(super) ticks_end: u64,
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
    /// Constants of the head and of the tail, and those that choose.
    pub(super) head: Box<[Constant]>,
    pub(super) tail: Box<[Constant]>,
    pub(super) choose: Box<[Constant]>,
    pub(super) each: Box<[Each]>,
}

/// Bits of 8 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    /// Where they begin, from the block's first byte or, if negative, from its end.
    at: isize,
    swap: bool,
    shift: u32,
    mask: u64,
    /// Where they go in the value.
    to: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Constant {
    load: Load,
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
}
const SLOTS: usize = 9;

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
    pub(super) fn is_there(self) -> bool {
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
fn short_word(rest: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(rest).for_each(|(byte, from)| *byte = *from);
    u64::from_le_bytes(bytes)
}

impl Constant {
    #[inline(always)]
    pub(super) fn holds(&self, block: &[u8]) -> bool {
        self.load.bits(block) == self.value
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
    pub(super) fn is_right(&self, block: &[u8], order: usize) -> bool {
        let place = |at: i64| match at < 0 {
            true => block.len().wrapping_add_signed(at as isize),
            false => at as usize,
        };
        let Some(covered) = block.get(place(self.from)..place(self.to)) else { return false };
        match self.kind {
            ChecksumKind::Crc32c => {
                u64::from(crc_fast::crc32_iscsi(covered)) == self.loads[order].bits(block)
            }
            ChecksumKind::Copy => {
                let at = place(self.at);
                block.get(at..at.saturating_add(covered.len())) == Some(covered)
            }
        }
    }
}

impl Compiled {
    pub(super) fn new(layout: &Layout) -> Self {
        let by_time = !layout.has_keys();
        let records: Box<[Blueprint]> =
            layout.records.iter().map(|one| Blueprint::new(one, by_time)).collect();
        let blocks = || std::iter::once(&layout.packet).chain(&layout.records);
        let has = |test: fn(&Field) -> bool| blocks().any(|block| block.fields.iter().any(test));
        let from_end =
            layout.records.iter().any(|one| one.with("length").any(|field| field.at < 0));
        let is_crc = |field: &Field| {
            matches!(field.role(), Some(Role::Checksum { kind: ChecksumKind::Crc32c, .. }))
        };
        let packet = Blueprint::new(&layout.packet, by_time);
        let has_parts = |one: &Blueprint| one.loads.iter().any(|one| !one.parts.is_empty());
        let general = match () {
            () if layout.records.len() > 1 => Some("there are several kinds of records"),
            () if from_end => Some("lengths stand in tails"),
            () if has_parts(&packet) || records.iter().any(has_parts) => {
                Some("a value has several parts")
            }
            () if has(|field| matches!(field.what, What::Each(_))) => Some("there is each"),
            () if has(is_crc) => Some("there is a checksum"),
            () if has(|field| matches!(field.what, What::Choose(_))) => Some("there is choose"),
            () if layout.records.iter().any(|one| one.skip) => Some("a record is skipped"),
            () => None,
        };
        Self {
            order: layout.order,
            packet,
            records,
            from_end,
            records_body: layout.recorded == super::Recorded::Body,
            general,
        }
    }
}

impl Blueprint {
    fn new(block: &Block, by_time: bool) -> Self {
        let least = block.bytes_min() as usize;
        let (unit, plus) = match block.with("length").next().and_then(Field::role) {
            Some(Role::Length { unit, plus }) => (unit, plus),
            _ => (1, 0),
        };
        let rate = block.with("time").find_map(|field| match field.role() {
            Some(Role::Time { rate_hz }) => rate_hz,
            _ => None,
        });
        let sums = block.fields.iter().filter_map(|field| match field.role()? {
            Role::Checksum { kind, from, to } => {
                // A copy is no word, and may be shorter than one.
                let loads = [false, true].map(|is_big| match kind {
                    ChecksumKind::Crc32c => Load::new(field, is_big, least, 0),
                    ChecksumKind::Copy => Load::default(),
                });
                Some(Sum { kind, from, to: to.unwrap_or(field.at), at: field.at, loads })
            }
            _ => None,
        });
        Self {
            head: block.head as usize,
            tail: block.tail as usize,
            align_mask: u64::from(block.align) - 1,
            least,
            bytes: block.bytes,
            bytes_max: block.bytes_max.unwrap_or(u64::MAX),
            skip: block.skip,
            has_length: block.has("length"),
            unit,
            plus,
            ticks_end: rate.filter(|_| block.has("seconds")).unwrap_or(u64::MAX),
            loads: [false, true].map(|is_big| Loads::new(block, is_big, least, by_time)),
            checksums: sums.collect(),
        }
    }
}

impl Loads {
    fn new(block: &Block, is_big: bool, least: usize, by_time: bool) -> Self {
        let mut slots = [Load::default(); SLOTS];
        let mut bits = [0; SLOTS];
        let (mut parts, mut head, mut tail) = (Vec::new(), Vec::new(), Vec::new());
        let (mut choose, mut each) = (Vec::new(), Vec::new());
        for field in &block.fields {
            // Not of every field: a copy is no word, and may be shorter than one.
            let load = || Load::new(field, is_big, least, 0);
            let constant = |value| Constant { load: load(), value };
            match field.what {
                What::Equals(value) if field.at < 0 => tail.push(constant(value)),
                What::Equals(value) => head.push(constant(value)),
                What::Choose(value) => choose.push(constant(value)),
                What::Each(value) => {
                    let width = field.width as usize;
                    let load = Load::new(field, is_big, width, 0);
                    each.push(Each { width, constant: Constant { load, value } });
                }
                What::Is(role) => {
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
            head: head.into(),
            tail: tail.into(),
            choose: choose.into(),
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
        Role::Tag => slot::TAG,
        Role::Time { .. } => slot::TIME,
        Role::Seconds => slot::SECONDS,
        Role::Sequence => slot::SEQUENCE,
        Role::Count => slot::COUNT,
        Role::Checksum { .. } => return None,
    })
}
