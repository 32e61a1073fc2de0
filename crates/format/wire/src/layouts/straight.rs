//! The straight path: packets whose values are bits of single words, with records of one kind or
//! none.
//!
//! It accepts a datagram or leaves it to [`walk`](Compiled::walk), which alone refuses and gives
//! reasons: what is rare needs no second implementation. What it accepts, the walk accepts with the
//! same fragments; a test of random layouts and datagrams compares them.
//!
//! ```text
//! record      one check of its length, one read for its order, one for its length, and, if its
//!             other values stand in 8 of its first 8 or 16 bytes (the *window*), one for these;
//!             otherwise one for each value
//! constants   those of 8 bytes in one comparison
//! ```
//!
//! Byte order and [`Shape`] are constants of the loop; records of the other order have another one.
//! What limits that loop is the way from one record's length to where the next one stands: it is
//! kept to a load, a swap, two additions and a mask, as in a decoder in code.

use super::compile::{Blueprint, Compiled, Load, Sum, slot};
use super::declaration::Order;
use super::walk::{Accepted, Common, Extent};
use crate::decoder::{PARTS_MAX, Part, PartFlags};

/// What the straight path needs besides the blueprints.
#[derive(Clone, Debug)]
pub(super) struct Straight {
    order: OrderWord,
    packet: Packet,
    record: Option<Record>,
}

#[derive(Clone, Debug)]
struct Packet {
    /// The fewest and the most bytes of a datagram.
    least: usize,
    most: usize,
    /// From this many bytes behind the head on, there could be more than [`PARTS_MAX`] records.
    body_most: u64,
    length: Length,
    /// Whether it has as many bytes as the datagram.
    is_open: bool,
    checks: Checks,
    /// Whether it has values that hold for its records, or a sequence.
    has_values: bool,
    is_counted: bool,
}

/// What a packet has of constants and checksums.
#[derive(Clone, Debug)]
enum Checks {
    None,
    /// A copy of some of its bytes alone, as many boards have it.
    Copy(Sum),
    Several,
}

/// The word that tells a block's byte order.
#[derive(Clone, Copy, Debug)]
struct OrderWord {
    at: usize,
    /// By byte order: mask and value, in the order in which the bytes stand.
    fits: [(u32, u32); 2],
    /// The bits of both masks: all that the order depends on.
    mask: u32,
}

#[derive(Clone, Debug)]
struct Record {
    least: usize,
    length: Length,
    bytes_max: u64,
    /// Whether it is recorded whole, without a tail, a longest length, constants and checksums.
    is_plain: bool,
    /// The fewest bytes from one record to the next.
    step_min: u64,
    /// Where its length is, if that is a word of 4 bytes that counts bytes.
    word_at: Option<usize>,
    /// All bits of the values that the record lacks.
    absent: Common,
    window: usize,
    /// By byte order, with a window.
    compact: [Compact; 2],
}

/// Bytes of head and body: bits of 8 bytes, times a unit, and what is added.
#[derive(Clone, Copy, Debug)]
struct Length {
    /// By byte order.
    at: [usize; 2],
    rotate: [u32; 2],
    mask: u64,
    plus: u64,
    /// What is added besides, for rounding up.
    plus_padding: u64,
    head: u64,
    align_mask: u64,
    tail: u64,
}

/// What is known of a layout when its decoder is made, so that its loop does not ask.
pub(super) trait Shape: Send + 'static {
    /// Bytes of the window in which all that a record says of itself stands; 0 if there is none.
    const WINDOW: usize;
    /// Whether records are recorded whole, without a tail, a longest length, constants and
    /// checksums, and their packet says nothing for them.
    const IS_PLAIN: bool;
    /// Whether the length of plain records is a word of 4 bytes that counts bytes.
    const IS_WORD: bool;
}

/// A shape.
pub(super) struct Shaped<const WINDOW: usize, const IS_PLAIN: bool, const IS_WORD: bool>;

impl<const WINDOW: usize, const IS_PLAIN: bool, const IS_WORD: bool> Shape
    for Shaped<WINDOW, IS_PLAIN, IS_WORD>
{
    const WINDOW: usize = WINDOW;
    const IS_PLAIN: bool = IS_PLAIN;
    const IS_WORD: bool = IS_WORD;
}

/// Runs code with the shape of a straight path as a type; without one, with the most general shape.
macro_rules! shaped {
    ($shape:expr, $name:ident => $run:expr) => {
        match $shape {
            (8, false, _) => shaped!(8, false, false, $name => $run),
            (8, true, false) => shaped!(8, true, false, $name => $run),
            (8, true, true) => shaped!(8, true, true, $name => $run),
            (16, false, _) => shaped!(16, false, false, $name => $run),
            (16, true, false) => shaped!(16, true, false, $name => $run),
            (16, true, true) => shaped!(16, true, true, $name => $run),
            _ => shaped!(0, false, false, $name => $run),
        }
    };
    ($window:expr, $is_plain:expr, $is_word:expr, $name:ident => $run:expr) => {{
        type $name = $crate::layouts::straight::Shaped<$window, $is_plain, $is_word>;
        $run
    }};
}
pub(super) use shaped;

/// The values of a fragment: bits of 8 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Compact {
    at: usize,
    key: Bits,
    source: Bits,
    broken: Bits,
    tag: Bits,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bits {
    shift: u32,
    mask: u64,
}

impl Straight {
    /// The path for a compiled layout.
    ///
    /// # Errors
    /// Why they have none.
    pub(super) fn new(compiled: &Compiled) -> Result<Self, &'static str> {
        let Compiled { order, ref packet, ref records, from_end, records_body } = *compiled;
        if from_end {
            return Err("lengths stand in tails");
        }
        let mut blocks = std::iter::once(packet).chain(records.iter());
        let loads = blocks.clone().flat_map(|block| &block.loads);
        match () {
            () if records.len() > 1 => return Err("there are several kinds of records"),
            () if loads.clone().any(|one| !one.parts.is_empty()) => {
                return Err("a value has several parts");
            }
            () if loads.clone().any(|one| !one.each.is_empty()) => return Err("there is each"),
            () if records.iter().any(|one| !one.loads[0].choose.is_empty()) => {
                return Err("there is choose");
            }
            () if packet.skip => return Err("packets are no fragments"),
            () if packet.skip_rest => return Err("what follows the records is skipped"),
            () if blocks.clone().any(|block| block.ticks_end != u64::MAX) => {
                return Err("there are seconds");
            }
            () if blocks.clone().any(|block| block.part_units.is_some()) => {
                return Err("fragments have parts");
            }
            () if blocks.any(|block| block.least < 8) => {
                return Err("a block may have less than 8 bytes");
            }
            () if records.iter().any(Blueprint::has_groups) => return Err("records name groups"),
            () => {}
        }
        let of_word = match order {
            Order::Detected { at, .. } => at as usize + 4,
            Order::Little | Order::Big => 4,
        };
        let record = records
            .first()
            .map(|record| Record::new(record, !records_body, of_word))
            .transpose()?;
        let packet = Packet::new(packet, record.as_ref())?;
        Ok(Self { order: OrderWord::new(order), packet, record })
    }

    /// The [`Shape`]: its window, whether it is plain, and whether its length is a word.
    pub(super) fn shape(&self) -> (usize, bool, bool) {
        let Some(record) = &self.record else { return (0, false, false) };
        let is_plain = record.is_plain && !self.packet.has_values;
        (record.window, is_plain, is_plain && record.word_at.is_some())
    }

    /// Decodes a datagram; none leaves it to the walk, with whatever stands in `parts` then.
    /// The shape is [`Self::shape`].
    #[inline(always)]
    pub(super) fn decode<S: Shape>(
        &self,
        compiled: &Compiled,
        bytes: &[u8],
        parts: &mut Vec<Part>,
    ) -> Option<Accepted> {
        if bytes.len() < self.packet.least || bytes.len() > self.packet.most {
            return None;
        }
        match self.order.of(self.order.word(bytes)?)? {
            false => self.packet::<false, S>(compiled, bytes, parts),
            true => self.packet::<true, S>(compiled, bytes, parts),
        }
    }

    #[inline(always)]
    fn packet<const BIG: bool, S: Shape>(
        &self,
        compiled: &Compiled,
        bytes: &[u8],
        parts: &mut Vec<Part>,
    ) -> Option<Accepted> {
        let (packet, order) = (&self.packet, usize::from(BIG));
        let loads = &compiled.packet.loads[order];
        let value = |slot: usize| loads.slots[slot].bits(bytes);
        let has = bytes.len() as u64;
        let length = match packet.is_open {
            true => has - packet.length.tail,
            false => {
                let word = read(BIG, bytes, packet.length.at[order])?;
                packet.length.value(order, word).wrapping_add(packet.length.plus)
            }
        };
        let whole = packet.length.next(length);
        if length < packet.length.head || length > has || whole != has {
            return None;
        }
        let is_right = match &packet.checks {
            Checks::None => true,
            Checks::Copy(copy) => copy.is_copied(bytes),
            Checks::Several => {
                let sums = &compiled.packet.checksums;
                loads.constants.iter().all(|one| one.holds(bytes))
                    && sums.iter().all(|one| one.is_right(bytes, order))
            }
        };
        if !is_right {
            return None;
        }
        let mut accepted = Accepted::default();
        let mut common = Common::default();
        if !S::IS_PLAIN && packet.has_values {
            let has = |slot: usize| loads.slots[slot].is_present();
            accepted.sequence = has(slot::SEQUENCE).then(|| value(slot::SEQUENCE));
            common = loads.common(common, value);
        }
        let Some(record) = &self.record else {
            let end = if packet.length.tail == 0 { length } else { whole };
            let extent = Extent { body_end: length as usize, end: end as usize, next: bytes.len() };
            parts.push(compiled.part(&compiled.packet, (0, order), extent, common));
            return Some(accepted);
        };
        let body = &bytes[..length as usize];
        if length - packet.length.head >= packet.body_most {
            return None;
        }
        let common = record.of_packet(common);
        let first = parts.len();
        let run = Run { order: self.order, compiled, record, body, common };
        let mut offset = packet.length.head as usize;
        while offset < body.len() {
            // The packet's order first. A loop that takes nothing ends at a record of the other
            // order, which the other loop takes, or at none.
            offset = run.take::<BIG, S>(offset, parts)?;
            if offset < body.len() {
                offset = run.take_others::<BIG, S>(offset, parts)?;
            }
        }
        let count = (parts.len() - first) as u64;
        (!packet.is_counted || value(slot::COUNT) == count).then_some(accepted)
    }
}

/// Records of one packet.
#[derive(Clone, Copy)]
struct Run<'a> {
    order: OrderWord,
    compiled: &'a Compiled,
    record: &'a Record,
    body: &'a [u8],
    common: Common,
}

impl Run<'_> {
    /// Those of the other order than the packet's, which are rare.
    #[cold]
    #[inline(never)]
    fn take_others<const BIG: bool, S: Shape>(
        self,
        offset: usize,
        parts: &mut Vec<Part>,
    ) -> Option<usize> {
        match BIG {
            true => self.take::<false, S>(offset, parts),
            false => self.take::<true, S>(offset, parts),
        }
    }

    /// Takes records of one byte order. Returns where the first of the other order begins, or a
    /// place at or behind the body's end.
    #[inline(always)]
    fn take<const BIG: bool, S: Shape>(
        self,
        mut offset: usize,
        parts: &mut Vec<Part>,
    ) -> Option<usize> {
        let (record, order) = (self.record, usize::from(BIG));
        // Copied: what is behind a reference would be read again after each push.
        let (form, compact) = (record.length, record.compact[order]);
        let (order_word, word_at) = (self.order, record.word_at.unwrap_or(0));
        // The bits that gave the previous record's order: nearly always the next record has the
        // same.
        let mut order_bits_before = u64::MAX;
        while offset < self.body.len() {
            let rest = &self.body[offset..];
            let room = rest.len() as u64;
            // One check for all reads of the window.
            let window = if S::WINDOW > 0 { rest.get(..S::WINDOW)? } else { rest };
            if S::WINDOW == 0 && rest.len() < record.least {
                return None;
            }
            let word = order_word.word_in::<S>(window)?;
            let order_bits = u64::from(word & order_word.mask);
            if order_bits != order_bits_before {
                if order_word.of(word)? != BIG {
                    return Some(offset);
                }
                order_bits_before = order_bits;
            }
            let value = match S::IS_WORD {
                true => read_word::<BIG, S>(window, word_at)?,
                false => form.value(order, read_in::<S>(BIG, window, form.at[order])?),
            };
            let length = value.wrapping_add(form.plus);
            // Also of lengths below 0, which come out as large ones.
            if length < form.head || length > room {
                return None;
            }
            let padded = value.wrapping_add(form.plus_padding) & !form.align_mask;
            let mut part = match S::IS_PLAIN {
                true => Part {
                    fragment_bytes: length,
                    offset: offset as u32,
                    bytes: length as u32,
                    ..Part::default()
                },
                false => {
                    let next = padded + form.tail;
                    let end = if form.tail == 0 { length } else { next };
                    let (body_end, end, next) = (length as usize, end as usize, next as usize);
                    self.part::<BIG, S>(offset, rest.get(..end)?, Extent { body_end, end, next })?
                }
            };
            let mut values = if S::IS_PLAIN { Common::default() } else { self.common };
            if S::WINDOW > 0 {
                let word = read_in::<S>(BIG, window, compact.at)?;
                values.key |= compact.key.of(word);
                values.source |= compact.source.of(word);
                values.broken |= compact.broken.of(word);
                values.tag |= compact.tag.of(word);
            }
            part.number |= values.key;
            part.id |= values.source as u32;
            part.tag |= values.tag as u8;
            part.flags |= values.broken as u8 * PartFlags::SENDER_ERROR;
            part.flags |= order as u8 * PartFlags::BIG_ENDIAN;
            parts.push(part);
            // The tail first: it does not wait for the length.
            let behind = if S::IS_PLAIN { offset } else { offset + form.tail as usize };
            offset = behind + padded as usize;
        }
        Some(offset)
    }

    /// The part of a record that is not plain, and its values if they are in no window; none of one
    /// that is wrong.
    #[inline(always)]
    fn part<const BIG: bool, S: Shape>(
        &self,
        offset: usize,
        block: &[u8],
        extent: Extent,
    ) -> Option<Part> {
        let order = usize::from(BIG);
        if !self.record.holds(self.compiled, block, order) {
            return None;
        }
        let blueprint = &self.compiled.records[0];
        let values = match S::WINDOW {
            0 => {
                let loads = &blueprint.loads[order];
                loads.common(Common::default(), |slot| loads.slots[slot].bits(block))
            }
            _ => Common::default(),
        };
        let values = Common { groups: self.common.groups, ..values };
        Some(self.compiled.part(blueprint, (offset, order), extent, values))
    }
}

impl OrderWord {
    fn new(order: Order) -> Self {
        // Every word has value 0 under mask 0, and none has value 1.
        let (always, never) = ((0, 0), (0, 1));
        match order {
            Order::Little => Self { at: 0, fits: [always, never], mask: 0 },
            Order::Big => Self { at: 0, fits: [never, always], mask: 0 },
            Order::Detected { at, mask, equals } => {
                let swapped = (mask.swap_bytes(), equals.swap_bytes());
                Self { at: at as usize, fits: [(mask, equals), swapped], mask: mask | swapped.0 }
            }
        }
    }

    /// The word of a block.
    #[inline(always)]
    fn word(&self, block: &[u8]) -> Option<u32> {
        Some(u32::from_le_bytes(*block.get(self.at..)?.first_chunk()?))
    }

    /// As [`Self::word`], in a window.
    #[inline(always)]
    fn word_in<S: Shape>(&self, window: &[u8]) -> Option<u32> {
        let at = if S::WINDOW > 0 { self.at.min(S::WINDOW - 4) } else { self.at };
        Some(u32::from_le_bytes(*window.get(at..)?.first_chunk()?))
    }

    /// Whether a block with this word is big-endian; none if no order fits, or both do.
    #[inline(always)]
    fn of(&self, word: u32) -> Option<bool> {
        let [little, big] = self.fits.map(|(mask, value)| word & mask == value);
        (little != big).then_some(big)
    }
}

impl Packet {
    fn new(packet: &Blueprint, record: Option<&Record>) -> Result<Self, &'static str> {
        let of_fragments = [slot::KEY, slot::SOURCE, slot::BROKEN, slot::TAG, slot::GROUPS];
        let has = |slot: usize| packet.loads[0].slots[slot].is_present();
        let has_values = of_fragments.into_iter().chain([slot::SEQUENCE]).any(has);
        Ok(Self {
            least: packet.least,
            most: usize::try_from(packet.bytes_max).unwrap_or(usize::MAX),
            // The last record may lack its padding, and is one more.
            body_most: record.map_or(0, |record| PARTS_MAX as u64 * record.step_min),
            length: Length::new(packet)?,
            is_open: !packet.has_length && packet.bytes.is_none(),
            checks: match (&*packet.loads[0].constants, &*packet.checksums) {
                ([], []) => Checks::None,
                ([], [one]) if one.is_copy() => Checks::Copy(*one),
                _ => Checks::Several,
            },
            has_values,
            is_counted: has(slot::COUNT),
        })
    }
}

impl Record {
    /// `order_end` is the end of the word that tells the order.
    fn new(record: &Blueprint, is_whole: bool, order_end: usize) -> Result<Self, &'static str> {
        let length = Length::new(record)?;
        let is_checked = !record.loads[0].constants.is_empty() || !record.checksums.is_empty();
        let in_window = |window: usize| {
            let is_wide = record.head >= window && order_end <= window;
            let compact = [0, 1].map(|order| Compact::new(record, order, window));
            let is_within = length.at.iter().all(|at| at + 8 <= window);
            let [little, big] = compact;
            (is_wide && is_within).then_some((window, [little?, big?]))
        };
        let found = WINDOWS.into_iter().find_map(in_window);
        let (window, compact) = found.unwrap_or_default();
        let is_plain = record.tail == 0 && record.bytes_max == u64::MAX && !is_checked;
        Ok(Self {
            least: record.least,
            length,
            bytes_max: record.bytes_max,
            // Values that stand anywhere are read where the block is known.
            is_plain: is_plain && is_whole && window > 0,
            step_min: length.next(record.bytes.unwrap_or(record.head as u64)),
            word_at: word_at(record).filter(|at| at + 4 <= window),
            absent: record.loads[0].common(ALL, |_| 0),
            window,
            compact,
        })
    }

    /// Of the packet's values those that the record lacks.
    #[inline(always)]
    fn of_packet(&self, common: Common) -> Common {
        Common {
            key: common.key & self.absent.key,
            source: common.source & self.absent.source,
            broken: common.broken & self.absent.broken,
            tag: common.tag & self.absent.tag,
            groups: common.groups,
        }
    }

    /// Whether a block has what is constant, the right checksums, and not too many bytes.
    fn holds(&self, compiled: &Compiled, block: &[u8], order: usize) -> bool {
        let record = &compiled.records[0];
        block.len() as u64 <= self.bytes_max
            && record.loads[order].constants.iter().all(|one| one.holds(block))
            && record.checksums.iter().all(|one| one.is_right(block, order))
    }
}

impl Length {
    fn new(block: &Blueprint) -> Result<Self, &'static str> {
        let of_order = |order: usize| block.loads[order].slots[slot::LENGTH];
        let unit_bits = block.unit.trailing_zeros();
        if block.has_length && !block.unit.is_power_of_two() {
            return Err("the unit of a length is no power of two");
        }
        if block.has_length && of_order(0).mask > u64::from(u32::MAX) {
            return Err("a length has more than 32 bits");
        }
        if of_order(0).at < 0 {
            return Err("a length stands in a tail");
        }
        let plus = block.bytes.unwrap_or(block.plus as u64);
        Ok(Self {
            at: [0, 1].map(|order| of_order(order).at as usize),
            // Rotated so far that the value comes out multiplied by its unit.
            rotate: [0, 1].map(|order| of_order(order).shift.wrapping_sub(unit_bits) % 64),
            mask: of_order(0).mask << unit_bits,
            plus,
            plus_padding: plus.wrapping_add(block.align_mask),
            head: block.head as u64,
            align_mask: block.align_mask,
            tail: block.tail as u64,
        })
    }

    /// What a word says of the length. With [`Self::plus`] it is the length; one that is below 0
    /// comes out far beyond all others.
    #[inline(always)]
    fn value(&self, order: usize, word: u64) -> u64 {
        word.rotate_right(self.rotate[order]) & self.mask
    }

    /// Bytes of the block with padding and tail.
    #[inline(always)]
    fn next(&self, length: u64) -> u64 {
        (length.wrapping_add(self.align_mask) & !self.align_mask).wrapping_add(self.tail)
    }
}

impl Compact {
    /// Values within 8 bytes of the first `window`.
    fn new(record: &Blueprint, order: usize, window: usize) -> Option<Self> {
        let slots = &record.loads[order].slots;
        (0..=window - 8).find_map(|at| {
            let bits = |slot: usize| Bits::new(slots[slot], order == 1, at);
            let (key, source) = (bits(slot::KEY)?, bits(slot::SOURCE)?);
            Some(Self { at, key, source, broken: bits(slot::BROKEN)?, tag: bits(slot::TAG)? })
        })
    }
}

impl Bits {
    /// The bits of a load, read from another byte on; none if these 8 bytes have not all of them.
    fn new(load: Load, is_big: bool, at: usize) -> Option<Self> {
        if !load.is_present() {
            return Some(Self::default());
        }
        let ahead = 8 * (load.at - isize::try_from(at).ok()?);
        let shift = load.shift as isize + if is_big { -ahead } else { ahead };
        let shift = u32::try_from(shift).ok()?;
        let bits = u64::BITS - load.mask.leading_zeros();
        let is_within = load.at >= 0 && shift.saturating_add(bits) <= u64::BITS;
        is_within.then_some(Self { shift, mask: load.mask })
    }

    #[inline(always)]
    fn of(self, word: u64) -> u64 {
        (word >> (self.shift & 63)) & self.mask
    }
}

/// 8 bytes as a number in their order.
#[inline(always)]
fn read(is_big: bool, block: &[u8], at: usize) -> Option<u64> {
    let bytes = *block.get(at..)?.first_chunk()?;
    Some(if is_big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
}

/// As [`read`], in a window: there the place is within it, and nothing has to be checked.
#[inline(always)]
fn read_in<S: Shape>(is_big: bool, window: &[u8], at: usize) -> Option<u64> {
    read(is_big, window, if S::WINDOW > 0 { at.min(S::WINDOW - 8) } else { at })
}

/// 4 bytes of a window as a number in their order.
#[inline(always)]
fn read_word<const BIG: bool, S: Shape>(window: &[u8], at: usize) -> Option<u64> {
    let bytes = *window.get(at.min(S::WINDOW - 4)..)?.first_chunk()?;
    let word = if BIG { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
    Some(u64::from(word))
}

/// Where a length stands that is 4 whole bytes and counts bytes, in either order.
fn word_at(block: &Blueprint) -> Option<usize> {
    let [little, big] = [0, 1].map(|order| block.loads[order].slots[slot::LENGTH]);
    let is_word = block.has_length && block.unit == 1 && little.mask == u64::from(u32::MAX);
    let is_aligned = little.shift.is_multiple_of(8) && big.shift.is_multiple_of(8);
    let at = little.at + little.shift as isize / 8;
    let is_same = at == big.at + (32 - big.shift as isize) / 8;
    (is_word && is_aligned && is_same).then_some(at as usize)
}

/// Windows that are tried, in bytes.
const WINDOWS: [usize; 2] = [8, 16];

const ALL: Common =
    Common { key: u64::MAX, source: u64::MAX, broken: u64::MAX, tag: u64::MAX, groups: u64::MAX };
