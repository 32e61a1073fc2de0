//! The way through a datagram: its blocks, their checks and their values. One way for decoding and
//! for showing what was found, so that the two cannot differ.
//!
//! A datagram is checked from its first byte to its last before a part of it counts. Each step
//! through the records is at least one byte, and there are at most [`PARTS_MAX`]. Numbers from the
//! datagram are compared with its length before anything is read by them.

use super::compile::{Blueprint, Compiled, Loads, slot};
use super::declaration::Order;
use crate::decoder::{PARTS_MAX, Part, PartFlags};

/// Why a datagram is refused, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) why: Why,
    /// The kind of record; none: the packet.
    pub(super) record: Option<usize>,
    /// Where the block begins in the datagram.
    pub(super) offset: usize,
    /// What was there, where that is a number.
    pub(super) got: u64,
}

/// The reasons, in the order of [`super::REASONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Short,
    Length,
    LeftOver,
    Order,
    Constant,
    Range,
    Checksum,
    Record,
    RecordVariant,
    Count,
}

/// A block that was checked.
pub(super) struct Seen<'a> {
    /// The kind of record; none: the packet.
    pub(super) record: Option<usize>,
    pub(super) offset: usize,
    pub(super) bytes: &'a [u8],
    /// Bytes of head and body.
    pub(super) body_end: usize,
    pub(super) is_big: bool,
}

/// What watches a walk.
pub(super) trait Watch {
    fn block(&mut self, seen: &Seen<'_>);
}

/// Nothing does.
pub(super) struct Unwatched;

impl Watch for Unwatched {
    #[inline(always)]
    fn block(&mut self, _seen: &Seen<'_>) {}
}

/// What a packet says for all of its records.
#[derive(Clone, Copy, Debug, Default)]
struct Common {
    key: u64,
    source: u64,
    broken: u64,
    tag: u64,
}

/// What an accepted packet says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Accepted {
    pub(super) sequence: Option<u64>,
    pub(super) skipped: u64,
}

/// Where a block ends.
#[derive(Clone, Copy)]
struct Extent {
    /// Head and body.
    body_end: usize,
    /// All of it, as far as it is recorded: with padding only if there is a tail.
    end: usize,
    /// Where the next block begins.
    next: usize,
}

impl Compiled {
    /// Walks through a datagram. What stands in `parts` after a fault does not count.
    #[inline]
    pub(super) fn walk(
        &self,
        bytes: &[u8],
        parts: &mut Vec<Part>,
        watch: &mut impl Watch,
    ) -> Result<Accepted, Fault> {
        match self.general {
            None => self.walk_as::<true>(bytes, parts, watch),
            Some(_) => self.walk_as::<false>(bytes, parts, watch),
        }
    }

    /// `SIMPLE`: values have one part, and there is at most one kind of record, read from the head.
    #[inline(always)]
    fn walk_as<const SIMPLE: bool>(
        &self,
        bytes: &[u8],
        parts: &mut Vec<Part>,
        watch: &mut impl Watch,
    ) -> Result<Accepted, Fault> {
        let packet = &self.packet;
        let fault = |why, got| Fault { why, record: None, offset: 0, got };
        if bytes.len() < packet.least {
            return Err(fault(Why::Short, bytes.len() as u64));
        }
        let Some(order) = self.order(bytes) else { return Err(fault(Why::Order, 0)) };
        let loads = &packet.loads[order];
        if !loads.head.iter().chain(&loads.tail).all(|one| one.holds(bytes)) {
            return Err(fault(Why::Constant, 0));
        }
        let extent = packet.datagram::<SIMPLE>(loads, bytes)?;
        if !packet.checksums.iter().all(|one| one.is_right(bytes, order)) {
            return Err(fault(Why::Checksum, 0));
        }
        let body = &bytes[packet.head..extent.body_end];
        if !SIMPLE && !loads.each.iter().all(|one| one.holds(body)) {
            return Err(fault(Why::Constant, 0));
        }
        if !packet.is_in_range::<SIMPLE>(loads, bytes) {
            return Err(fault(Why::Range, 0));
        }
        let seen =
            Seen { record: None, offset: 0, bytes, body_end: extent.body_end, is_big: order == 1 };
        watch.block(&seen);
        let value = |slot| loads.value::<SIMPLE>(slot, bytes);
        let common = loads.common::<SIMPLE>(bytes, Common::default());
        let has_sequence = loads.slots[slot::SEQUENCE].is_there();
        let mut accepted =
            Accepted { sequence: has_sequence.then(|| value(slot::SEQUENCE)), skipped: 0 };
        if self.records.is_empty() {
            parts.push(self.part(packet, (0, order), extent, common));
            return Ok(accepted);
        }
        let count = match SIMPLE || !self.from_end {
            true => {
                self.forward::<SIMPLE>(bytes, extent.body_end, common, parts, watch, &mut accepted)?
            }
            false => self.backward(bytes, extent.body_end, common, parts, watch)?,
        };
        let has_count = loads.slots[slot::COUNT].is_there();
        if has_count && value(slot::COUNT) != count {
            return Err(fault(Why::Count, count));
        }
        Ok(accepted)
    }

    /// Records from the packet's head on. Returns how many.
    #[inline(always)]
    fn forward<const SIMPLE: bool>(
        &self,
        bytes: &[u8],
        end: usize,
        common: Common,
        parts: &mut Vec<Part>,
        watch: &mut impl Watch,
        accepted: &mut Accepted,
    ) -> Result<u64, Fault> {
        let bytes = &bytes[..end];
        let (mut offset, mut count) = (self.packet.head, 0);
        while offset < end {
            let rest = &bytes[offset..];
            let kind = if SIMPLE { 0 } else { self.kind(rest, offset)? };
            let record = &self.records[kind];
            let fault = |why, got| Fault { why, record: Some(kind), offset, got };
            if rest.len() < record.least {
                return Err(fault(Why::LeftOver, rest.len() as u64));
            }
            if count as usize == PARTS_MAX {
                return Err(fault(Why::Count, count + 1));
            }
            let Some(order) = self.order(rest) else { return Err(fault(Why::Record, 0)) };
            let loads = &record.loads[order];
            let Some(extent) = record.extent(loads.value::<SIMPLE>(slot::LENGTH, rest), rest.len())
            else {
                return Err(fault(Why::Record, loads.value::<SIMPLE>(slot::LENGTH, rest)));
            };
            let block = &rest[..extent.end];
            self.check::<SIMPLE>((kind, order), block, extent, offset)?;
            let seen = Seen {
                record: Some(kind),
                offset,
                bytes: block,
                body_end: extent.body_end,
                is_big: order == 1,
            };
            watch.block(&seen);
            if SIMPLE || !record.skip {
                let values = loads.common::<SIMPLE>(block, common);
                parts.push(self.part(record, (offset, order), extent, values));
            } else {
                accepted.skipped += 1;
            }
            offset += extent.next;
            count += 1;
        }
        Ok(count)
    }

    /// Records from the packet's end on, which are given out in their order. Returns how many.
    fn backward(
        &self,
        bytes: &[u8],
        mut end: usize,
        common: Common,
        parts: &mut Vec<Part>,
        watch: &mut impl Watch,
    ) -> Result<u64, Fault> {
        let (record, begin, first) = (&self.records[0], self.packet.head, parts.len());
        while end > begin {
            let rest = &bytes[begin..end];
            let fault = |why, got| Fault { why, record: Some(0), offset: end, got };
            if rest.len() < record.least {
                return Err(fault(Why::LeftOver, rest.len() as u64));
            }
            if parts.len() - first == PARTS_MAX {
                return Err(fault(Why::Count, PARTS_MAX as u64 + 1));
            }
            // The order stands in the head, which is found by the length: with a word that tells
            // it, the length is read in the order of each of its readings that fits.
            let (order, extent) = self.last(rest).ok_or_else(|| fault(Why::Record, 0))?;
            let offset = end - extent.end;
            let block = &bytes[offset..end];
            let loads = &record.loads[order];
            self.check::<false>((0, order), block, extent, offset)?;
            let seen = Seen {
                record: Some(0),
                offset,
                bytes: block,
                body_end: extent.body_end,
                is_big: order == 1,
            };
            watch.block(&seen);
            if !record.skip {
                let values = loads.common::<false>(block, common);
                parts.push(self.part(record, (offset, order), extent, values));
            }
            end = offset;
        }
        parts[first..].reverse();
        Ok((parts.len() - first) as u64)
    }

    /// The order and extent of the record that ends where `rest` does.
    fn last(&self, rest: &[u8]) -> Option<(usize, Extent)> {
        let record = &self.records[0];
        let extent = |order: usize| {
            let length = record.loads[order].value::<false>(slot::LENGTH, rest);
            record.extent(length, rest.len())
        };
        match self.order {
            Order::Little => Some((0, extent(0)?)),
            Order::Big => Some((1, extent(1)?)),
            Order::Told { .. } => (0..2).find_map(|order| {
                let extent = extent(order)?;
                let block = &rest[rest.len() - extent.end..];
                (self.order(block) == Some(order)).then_some((order, extent))
            }),
        }
    }

    /// The kind of the record that begins a slice: the first one whose constants fit.
    #[inline]
    fn kind(&self, rest: &[u8], offset: usize) -> Result<usize, Fault> {
        let fits = |record: &Blueprint| {
            rest.len() >= record.head
                && self.order(rest).is_some_and(|order| {
                    record.loads[order].choose.iter().all(|one| one.holds(rest))
                })
        };
        self.records.iter().position(fits).ok_or_else(|| {
            let least = self.records.iter().map(|record| record.least).min().unwrap_or(0);
            let why = if rest.len() < least { Why::LeftOver } else { Why::RecordVariant };
            Fault { why, record: None, offset, got: rest.len() as u64 }
        })
    }

    /// Checks a record whose extent is known.
    #[inline(always)]
    fn check<const SIMPLE: bool>(
        &self,
        (kind, order): (usize, usize),
        block: &[u8],
        extent: Extent,
        offset: usize,
    ) -> Result<(), Fault> {
        let record = &self.records[kind];
        let loads = &record.loads[order];
        let fault = |why| Err(Fault { why, record: Some(kind), offset, got: 0 });
        if !loads.head.iter().chain(&loads.tail).all(|one| one.holds(block)) {
            return fault(Why::Record);
        }
        if !record.checksums.iter().all(|one| one.is_right(block, order)) {
            return fault(Why::Checksum);
        }
        if !SIMPLE {
            let body = &block[record.head..extent.body_end];
            if !loads.each.iter().all(|one| one.holds(body)) {
                return fault(Why::Record);
            }
            // A record that is read from the end has no choice.
            if !loads.choose.iter().all(|one| one.holds(block)) {
                return fault(Why::RecordVariant);
            }
        }
        match record.is_in_range::<SIMPLE>(loads, block) {
            true => Ok(()),
            false => fault(Why::Range),
        }
    }

    /// The byte order of a block that has its head: 0 for little, 1 for big.
    #[inline(always)]
    fn order(&self, block: &[u8]) -> Option<usize> {
        match self.order {
            Order::Little => Some(0),
            Order::Big => Some(1),
            Order::Told { at, mask, equals } => {
                let word = block.get(at as usize..)?.first_chunk::<4>()?;
                let little = u32::from_le_bytes(*word) & mask == equals;
                let big = u32::from_be_bytes(*word) & mask == equals;
                (little != big).then_some(usize::from(big))
            }
        }
    }

    #[inline(always)]
    fn part(
        &self,
        block: &Blueprint,
        (offset, order): (usize, usize),
        extent: Extent,
        values: Common,
    ) -> Part {
        let (begin, end) = match self.records_body {
            true => (block.head, extent.body_end),
            false => (0, extent.end),
        };
        let error = values.broken as u8 * PartFlags::SENDER_ERROR;
        Part {
            lane: 0,
            number: values.key,
            position: 0,
            fragment_bytes: (end - begin) as u64,
            offset: (offset + begin) as u32,
            bytes: (end - begin) as u32,
            id: values.source as u32,
            tag: values.tag as u8,
            flags: error | (order as u8 * PartFlags::BIG_ENDIAN),
        }
    }
}

impl Blueprint {
    /// The extent of a packet that is a datagram and has its least length.
    #[inline(always)]
    fn datagram<const SIMPLE: bool>(&self, loads: &Loads, bytes: &[u8]) -> Result<Extent, Fault> {
        let has = bytes.len() as u64;
        let fault = |got| Fault { why: Why::Length, record: None, offset: 0, got };
        let length = if self.has_length {
            self.length(loads.value::<SIMPLE>(slot::LENGTH, bytes))
        } else {
            self.bytes.or(Some((bytes.len() - self.tail) as u64))
        };
        let length = length.filter(|&length| length <= has && has <= self.bytes_max);
        let length = length.ok_or_else(|| fault(0))?;
        let padded = (length + self.align_mask) & !self.align_mask;
        let whole = padded + self.tail as u64;
        if whole != has {
            return Err(fault(whole));
        }
        let end = if self.tail == 0 { length } else { whole };
        Ok(Extent { body_end: length as usize, end: end as usize, next: bytes.len() })
    }

    /// The extent of a record of which a length is said; none if it is not within `room` bytes.
    /// Behind the last one, padding may be missing.
    #[inline(always)]
    fn extent(&self, said: u64, room: usize) -> Option<Extent> {
        let length = match self.bytes {
            Some(bytes) => bytes,
            None => self.length(said)?,
        };
        if length > room as u64 {
            return None;
        }
        let padded = (length + self.align_mask) & !self.align_mask;
        let next = padded + self.tail as u64;
        let end = if self.tail == 0 { length } else { next };
        let fits = end <= room as u64 && end <= self.bytes_max;
        fits.then_some(Extent { body_end: length as usize, end: end as usize, next: next as usize })
    }

    /// Bytes of head and body; none if there are less than the head has, or far too many.
    #[inline(always)]
    fn length(&self, said: u64) -> Option<u64> {
        let length = said.checked_mul(self.unit)?.checked_add_signed(self.plus)?;
        (length >= self.head as u64).then_some(length)
    }

    #[inline(always)]
    fn is_in_range<const SIMPLE: bool>(&self, loads: &Loads, block: &[u8]) -> bool {
        self.ticks_end == u64::MAX || loads.value::<SIMPLE>(slot::TIME, block) < self.ticks_end
    }
}

impl Loads {
    /// The values of a fragment: those of this block, and where it has none those around it.
    #[inline(always)]
    fn common<const SIMPLE: bool>(&self, block: &[u8], around: Common) -> Common {
        let value = |slot: usize, around: u64| {
            let is_absent = !self.slots[slot].is_there();
            self.value::<SIMPLE>(slot, block) | around & u64::from(is_absent).wrapping_neg()
        };
        Common {
            key: value(slot::KEY, around.key),
            source: value(slot::SOURCE, around.source),
            broken: value(slot::BROKEN, around.broken),
            tag: value(slot::TAG, around.tag),
        }
    }

    /// A value; 0 if the block has none.
    #[inline(always)]
    pub(super) fn value<const SIMPLE: bool>(&self, slot: usize, block: &[u8]) -> u64 {
        let first = self.slots[slot].bits(block);
        if SIMPLE {
            return first;
        }
        let parts = self.parts.iter().filter(|(of, _)| *of == slot);
        parts.fold(first, |value, (_, load)| value | load.part(block))
    }
}
