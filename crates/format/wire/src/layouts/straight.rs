//! The straight path: packets whose values are bits of single words, in records of at most one kind.
//!
//! It accepts a datagram or leaves it to [`walk`](Compiled::walk), which alone refuses and gives
//! reasons: what is rare needs no second implementation. What it accepts, the walk accepts with the
//! same fragments; a test of random layouts and datagrams compares them.
//!
//! ```text
//! record      one read for its order, one for its length, and, if all other values stand within 8
//!             bytes of the head (a *compact* record), one for these; otherwise one for each value
//! constants   of 8 bytes in one comparison
//! ```
//!
//! The byte order is a constant of the loop: it changes to the other loop at a record of another order.

use super::compile::{Blueprint, Compiled, Load, Loads, slot};
use super::declaration::Order;
use super::walk::{Accepted, Common, Extent};
use crate::decoder::{PARTS_MAX, Part};

/// What the straight path needs besides the blueprints.
#[derive(Clone, Debug)]
pub(super) struct Straight {
    order: OrderWord,
    /// Whether the packet has values that hold for its records.
    has_common: bool,
    record: Option<Record>,
}

/// The word that tells a block's byte order.
#[derive(Clone, Copy, Debug)]
struct OrderWord {
    at: usize,
    /// By byte order: mask and value, in the order in which the bytes stand.
    fits: [(u32, u32); 2],
}

#[derive(Clone, Debug)]
struct Record {
    least: usize,
    head: u64,
    tail: u64,
    align_mask: u64,
    bytes_max: u64,
    /// What is added to a length.
    plus: u64,
    /// Whether it has constants or checksums.
    is_checked: bool,
    /// The fewest bytes from one record to the next.
    step_min: u64,
    /// By byte order.
    lengths: [LengthBits; 2],
    /// All bits of the values that the record lacks.
    absent: Common,
    /// By byte order; none if the values do not stand within 8 bytes.
    compact: Option<[Compact; 2]>,
}

/// A length times its unit: bits of 8 bytes.
#[derive(Clone, Copy, Debug)]
struct LengthBits {
    at: usize,
    rotate: u32,
    mask: u64,
}

/// The values of a fragment: bits of 8 bytes.
#[derive(Clone, Copy, Debug)]
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
    /// The path for checked blueprints of records that are read from the head.
    ///
    /// # Errors
    /// Why they have none.
    pub(super) fn new(
        order: Order,
        packet: &Blueprint,
        records: &[Blueprint],
    ) -> Result<Self, &'static str> {
        let mut blocks = std::iter::once(packet).chain(records);
        let mut loads = blocks.clone().flat_map(|block| &block.loads);
        match () {
            () if records.len() > 1 => return Err("there are several kinds of records"),
            () if loads.clone().any(|one| !one.parts.is_empty()) => {
                return Err("a value has several parts");
            }
            () if loads.clone().any(|one| !one.each.is_empty()) => return Err("there is each"),
            () if loads.any(|one| !one.choose.is_empty()) => return Err("there is choose"),
            () if blocks.clone().any(|block| block.ticks_end != u64::MAX) => {
                return Err("there are seconds");
            }
            () if blocks.any(|block| block.least < 8) => {
                return Err("a block may have less than 8 bytes");
            }
            () => {}
        }
        let record = records.first().map(Record::new).transpose()?;
        let of_fragments = [slot::KEY, slot::SOURCE, slot::BROKEN, slot::TAG];
        let has_common = of_fragments.iter().any(|&slot| packet.loads[0].slots[slot].is_present());
        Ok(Self { order: OrderWord::new(order), has_common, record })
    }

    /// Decodes a datagram; none leaves it to the walk, with whatever stands in `parts` then.
    #[inline]
    pub(super) fn decode(
        &self,
        compiled: &Compiled,
        bytes: &[u8],
        parts: &mut Vec<Part>,
    ) -> Option<Accepted> {
        if bytes.len() < compiled.packet.least {
            return None;
        }
        match self.order.of(bytes)? {
            false => self.packet::<false>(compiled, bytes, parts),
            true => self.packet::<true>(compiled, bytes, parts),
        }
    }

    #[inline(always)]
    fn packet<const BIG: bool>(
        &self,
        compiled: &Compiled,
        bytes: &[u8],
        parts: &mut Vec<Part>,
    ) -> Option<Accepted> {
        let (packet, order) = (&compiled.packet, usize::from(BIG));
        let loads = &packet.loads[order];
        let value = |slot: usize| loads.slots[slot].bits(bytes);
        if !loads.head.iter().chain(&loads.tail).all(|one| one.holds(bytes)) {
            return None;
        }
        let extent = packet.datagram(value(slot::LENGTH), bytes).ok()?;
        if !packet.checksums.iter().all(|one| one.is_right(bytes, order)) {
            return None;
        }
        let common = match self.has_common {
            true => loads.common(Common::default(), value),
            false => Common::default(),
        };
        let has = |slot: usize| loads.slots[slot].is_present();
        let sequence = has(slot::SEQUENCE).then(|| value(slot::SEQUENCE));
        let accepted = Accepted { sequence, ..Accepted::default() };
        let Some(record) = &self.record else {
            parts.push(compiled.part(packet, (0, order), extent, common));
            return Some(accepted);
        };
        let body = &bytes[..extent.body_end];
        // The last record may lack its padding, and is one more.
        if (body.len() - packet.head) as u64 >= PARTS_MAX as u64 * record.step_min {
            return None;
        }
        let first = parts.len();
        let common = record.packets_own(common);
        match &record.compact {
            Some(compact) => {
                let values = |order: usize, block: &[u8]| compact[order].read(order == 1, block);
                self.records::<BIG>(compiled, record, body, values, common, parts)?;
            }
            None => {
                let values = |order: usize, block: &[u8]| {
                    let loads = &compiled.records[0].loads[order];
                    Some(loads.common(Common::default(), |slot| loads.slots[slot].bits(block)))
                };
                self.records::<BIG>(compiled, record, body, values, common, parts)?;
            }
        }
        let is_counted = has(slot::COUNT);
        let count = (parts.len() - first) as u64;
        (!is_counted || value(slot::COUNT) == count).then_some(accepted)
    }

    /// All records, by one loop for each byte order.
    #[inline(always)]
    fn records<const BIG: bool>(
        &self,
        compiled: &Compiled,
        record: &Record,
        body: &[u8],
        values: impl Fn(usize, &[u8]) -> Option<Common>,
        common: Common,
        parts: &mut Vec<Part>,
    ) -> Option<()> {
        let mut run = Run { order: self.order, compiled, record, body, common, parts };
        let mut offset = compiled.packet.head;
        while offset < body.len() {
            // The packet's order first. A loop that takes nothing ends at a record of the other
            // order, which the other loop takes, or at none.
            offset = run.take::<BIG>(offset, &values)?;
            offset = match BIG {
                true => run.take::<false>(offset, &values)?,
                false => run.take::<true>(offset, &values)?,
            };
        }
        Some(())
    }
}

/// Records of one packet.
struct Run<'a> {
    order: OrderWord,
    compiled: &'a Compiled,
    record: &'a Record,
    body: &'a [u8],
    common: Common,
    parts: &'a mut Vec<Part>,
}

impl Run<'_> {
    /// Takes records of one byte order. Returns where the first of the other order begins, or a
    /// place at or behind the body's end.
    #[inline(always)]
    fn take<const BIG: bool>(
        &mut self,
        mut offset: usize,
        values: impl Fn(usize, &[u8]) -> Option<Common>,
    ) -> Option<usize> {
        let (record, order) = (self.record, usize::from(BIG));
        let blueprint = &self.compiled.records[0];
        while offset < self.body.len() {
            let rest = &self.body[offset..];
            let room = rest.len() as u64;
            if rest.len() < record.least {
                return None;
            }
            if self.order.of(rest)? != BIG {
                return Some(offset);
            }
            let length = record.lengths[order].read(BIG, rest)?.wrapping_add(record.plus);
            // Also of lengths below 0, which come out as large ones.
            if length.wrapping_sub(record.head) > room - record.head {
                return None;
            }
            let next = ((length + record.align_mask) & !record.align_mask) + record.tail;
            let end = if record.tail == 0 { length } else { next };
            if end > room.min(record.bytes_max) {
                return None;
            }
            let block = &rest[..end as usize];
            if record.is_checked {
                let loads = &blueprint.loads[order];
                let constants = loads.head.iter().chain(&loads.tail).all(|one| one.holds(block));
                if !constants || !blueprint.checksums.iter().all(|one| one.is_right(block, order)) {
                    return None;
                }
            }
            let own = values(order, block)?;
            // A value that the record lacks is 0, and the packet's is 0 where the record has one.
            let values = Common {
                key: own.key | self.common.key,
                source: own.source | self.common.source,
                broken: own.broken | self.common.broken,
                tag: own.tag | self.common.tag,
            };
            let extent =
                Extent { body_end: length as usize, end: end as usize, next: next as usize };
            self.parts.push(self.compiled.part(blueprint, (offset, order), extent, values));
            offset += next as usize;
        }
        Some(offset)
    }
}

impl OrderWord {
    fn new(order: Order) -> Self {
        // Every word has value 0 under mask 0, and none has value 1.
        let (always, never) = ((0, 0), (0, 1));
        match order {
            Order::Little => Self { at: 0, fits: [always, never] },
            Order::Big => Self { at: 0, fits: [never, always] },
            Order::Detected { at, mask, equals } => {
                let swapped = (mask.swap_bytes(), equals.swap_bytes());
                Self { at: at as usize, fits: [(mask, equals), swapped] }
            }
        }
    }

    /// Whether a block is big-endian; none if no order fits, or both do.
    #[inline(always)]
    fn of(&self, block: &[u8]) -> Option<bool> {
        let word = u32::from_le_bytes(*block.get(self.at..)?.first_chunk()?);
        let [little, big] = self.fits.map(|(mask, value)| word & mask == value);
        (little != big).then_some(big)
    }
}

impl Record {
    fn new(record: &Blueprint) -> Result<Self, &'static str> {
        let length = record.loads[0].slots[slot::LENGTH];
        let unit_bits = record.unit.trailing_zeros();
        if record.has_length && !record.unit.is_power_of_two() {
            return Err("the unit of a record's length is no power of two");
        }
        if record.has_length && length.mask > u64::from(u32::MAX) {
            return Err("a record's length has more than 32 bits");
        }
        let lengths = [0, 1].map(|order| {
            let load = record.loads[order].slots[slot::LENGTH];
            // Rotated so far that the value comes out multiplied by its unit.
            let rotate = load.shift.wrapping_sub(unit_bits) % 64;
            LengthBits { at: load.at as usize, rotate, mask: load.mask << unit_bits }
        });
        let step = record.bytes.unwrap_or(record.head as u64);
        let has_constants = |one: &Loads| !one.head.is_empty() || !one.tail.is_empty();
        Ok(Self {
            least: record.least,
            head: record.head as u64,
            tail: record.tail as u64,
            align_mask: record.align_mask,
            bytes_max: record.bytes_max,
            plus: record.bytes.unwrap_or(record.plus as u64),
            is_checked: has_constants(&record.loads[0]) || !record.checksums.is_empty(),
            step_min: ((step + record.align_mask) & !record.align_mask) + record.tail as u64,
            lengths,
            absent: record.loads[0].common(ALL, |_| 0),
            compact: Compact::new(record, 0).zip(Compact::new(record, 1)).map(<[_; 2]>::from),
        })
    }

    /// Of the packet's values those that the record lacks.
    #[inline(always)]
    fn packets_own(&self, common: Common) -> Common {
        Common {
            key: common.key & self.absent.key,
            source: common.source & self.absent.source,
            broken: common.broken & self.absent.broken,
            tag: common.tag & self.absent.tag,
        }
    }
}

impl LengthBits {
    #[inline(always)]
    fn read(&self, is_big: bool, block: &[u8]) -> Option<u64> {
        Some(read(is_big, block, self.at)?.rotate_right(self.rotate) & self.mask)
    }
}

impl Compact {
    /// Values within 8 bytes of the head.
    fn new(record: &Blueprint, order: usize) -> Option<Self> {
        let slots = &record.loads[order].slots;
        (0..=record.head.checked_sub(8)?).find_map(|at| {
            let bits = |slot: usize| Bits::of(slots[slot], order == 1, at);
            let (key, source) = (bits(slot::KEY)?, bits(slot::SOURCE)?);
            Some(Self { at, key, source, broken: bits(slot::BROKEN)?, tag: bits(slot::TAG)? })
        })
    }

    #[inline(always)]
    fn read(&self, is_big: bool, block: &[u8]) -> Option<Common> {
        let word = read(is_big, block, self.at)?;
        let bits = |bits: Bits| (word >> (bits.shift & 63)) & bits.mask;
        Some(Common {
            key: bits(self.key),
            source: bits(self.source),
            broken: bits(self.broken),
            tag: bits(self.tag),
        })
    }
}

impl Bits {
    /// The bits of a load, read from another byte on; none if these 8 bytes have not all of them.
    fn of(load: Load, is_big: bool, at: usize) -> Option<Self> {
        if !load.is_present() {
            return Some(Self::default());
        }
        let ahead = 8 * (load.at - isize::try_from(at).ok()?);
        let shift = load.shift as isize + if is_big { -ahead } else { ahead };
        let shift = u32::try_from(shift).ok()?;
        let bits = u64::BITS - load.mask.leading_zeros();
        (load.at >= 0 && shift.saturating_add(bits) <= u64::BITS).then_some(Self { shift, mask: load.mask })
    }
}

const ALL: Common = Common { key: u64::MAX, source: u64::MAX, broken: u64::MAX, tag: u64::MAX };

/// 8 bytes as a number in their order.
#[inline(always)]
fn read(is_big: bool, block: &[u8], at: usize) -> Option<u64> {
    let bytes = *block.get(at..)?.first_chunk()?;
    Some(if is_big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
}
