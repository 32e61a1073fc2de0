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
    pub(super) kind: FaultKind,
    /// The kind of record; none: the packet.
    pub(super) record: Option<usize>,
    /// Where the block begins in the datagram; with `is_end`, where it ends.
    pub(super) offset: usize,
    /// Whether the block is read from its end, and where it begins is not known.
    pub(super) is_end: bool,
    /// What was there, where that is a number.
    pub(super) got: u64,
}

/// The reasons, in the order of [`super::REASONS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
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
    Part,
}

/// A block that was checked.
pub(super) struct CheckedBlock<'a> {
    /// The kind of record; none: the packet.
    pub(super) record: Option<usize>,
    pub(super) offset: usize,
    pub(super) bytes: &'a [u8],
    /// Bytes of head and body.
    pub(super) body_end: usize,
    /// Bytes of padding behind it that it is not recorded with.
    pub(super) padding: usize,
    pub(super) is_big: bool,
}

/// What watches a walk.
pub(super) trait Observer {
    fn block(&mut self, seen: &CheckedBlock<'_>);

    /// A record whose extent is known, and that is refused.
    #[inline(always)]
    fn refused(&mut self, _seen: &CheckedBlock<'_>) {}
}

/// Nothing does.
pub(super) struct Unobserved;

impl Observer for Unobserved {
    #[inline(always)]
    fn block(&mut self, _seen: &CheckedBlock<'_>) {}
}

/// What a packet says for all of its records.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Common {
    pub(super) key: u64,
    pub(super) source: u64,
    pub(super) broken: u64,
    pub(super) tag: u64,
    pub(super) groups: u64,
}

/// What an accepted packet says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) sequence: Option<u64>,
    pub(super) skipped: u64,
}

/// Where a block ends.
#[derive(Clone, Copy)]
pub(super) struct Extent {
    /// Head and body.
    pub(super) body_end: usize,
    /// All of it, as far as it is recorded: with padding only if there is a tail.
    pub(super) end: usize,
    /// Where the next block begins.
    pub(super) next: usize,
}

impl Compiled {
    #[inline(never)]
    pub(super) fn walk_unobserved(
        &self,
        bytes: &[u8],
        parts: &mut Vec<Part>,
    ) -> Result<Accepted, Fault> {
        self.walk(bytes, parts, &mut Unobserved)
    }

    /// Walks through a datagram. What stands in `parts` after a fault does not count.
    pub(super) fn walk(
        &self,
        bytes: &[u8],
        parts: &mut Vec<Part>,
        observer: &mut impl Observer,
    ) -> Result<Accepted, Fault> {
        let packet = &self.packet;
        let fault = |kind, got| Fault { kind, record: None, offset: 0, is_end: false, got };
        if bytes.len() < packet.least {
            return Err(fault(FaultKind::Short, bytes.len() as u64));
        }
        let Some(order) = self.order(bytes) else { return Err(fault(FaultKind::Order, 0)) };
        let loads = &packet.loads[order];
        if !loads.constants.iter().all(|one| one.holds(bytes)) {
            return Err(fault(FaultKind::Constant, 0));
        }
        let extent = packet.datagram(loads.value(slot::LENGTH, bytes), bytes)?;
        if !packet.checksums.iter().all(|one| one.is_right(bytes, order)) {
            return Err(fault(FaultKind::Checksum, 0));
        }
        let body = &bytes[packet.head..extent.body_end];
        if !loads.each.iter().all(|one| one.holds(body)) {
            return Err(fault(FaultKind::Constant, 0));
        }
        if !packet.is_in_range(loads, bytes) {
            return Err(fault(FaultKind::Range, 0));
        }
        let seen = CheckedBlock {
            record: None,
            offset: 0,
            bytes,
            body_end: extent.body_end,
            padding: 0,
            is_big: order == 1,
        };
        observer.block(&seen);
        let value = |slot| loads.value(slot, bytes);
        let common = packet.values(loads, Common::default(), bytes);
        let has_sequence = loads.slots[slot::SEQUENCE].is_present();
        let mut accepted =
            Accepted { sequence: has_sequence.then(|| value(slot::SEQUENCE)), skipped: 0 };
        if packet.skip {
            accepted.skipped = 1;
            return Ok(accepted);
        }
        if self.records.is_empty() {
            let part = self.part(packet, (0, order), extent, common);
            let part = packet.placed(part, loads, bytes);
            parts.push(part.ok_or_else(|| fault(FaultKind::Part, 0))?);
            return Ok(accepted);
        }
        let count = match self.from_end {
            true => self.backward(bytes, extent.body_end, common, parts, observer)?,
            false => {
                let most = if packet.skip_rest { value(slot::COUNT) } else { u64::MAX };
                let body = (extent.body_end, most);
                self.forward(bytes, body, common, parts, observer, &mut accepted)?
            }
        };
        let has_count = loads.slots[slot::COUNT].is_present();
        if has_count && value(slot::COUNT) != count {
            return Err(fault(FaultKind::Count, count));
        }
        Ok(accepted)
    }

    /// Bytes of the packet that begins a stream; none while its head has not arrived.
    ///
    /// # Errors
    /// Bytes that begin no packet, as far as its head says.
    pub(super) fn packet_bytes(&self, bytes: &[u8]) -> Result<Option<usize>, Fault> {
        let packet = &self.packet;
        let fault = |kind, got| Err(Fault { kind, record: None, offset: 0, is_end: false, got });
        if bytes.len() < packet.least {
            return Ok(None);
        }
        let Some(order) = self.order(bytes) else { return fault(FaultKind::Order, 0) };
        let loads = &packet.loads[order];
        let mut of_head = loads.constants.iter().filter(|one| one.is_of_head());
        if !of_head.all(|one| one.holds(bytes)) {
            return fault(FaultKind::Constant, 0);
        }
        let length = match packet.bytes {
            Some(bytes) => Some(bytes),
            None => packet.length(loads.value(slot::LENGTH, bytes)),
        };
        // A bound, so that rounding up does not go beyond 64 bits.
        let Some(length) = length.filter(|&length| length <= packet.bytes_max) else {
            return fault(FaultKind::Length, 0);
        };
        let whole = ((length + packet.align_mask) & !packet.align_mask) + packet.tail as u64;
        match whole <= packet.bytes_max {
            true => Ok(Some(whole as usize)),
            false => fault(FaultKind::Length, whole),
        }
    }

    /// Records from the packet's head on to the body's end, or so many. Returns how many. What is
    /// behind them is one record to skip.
    fn forward(
        &self,
        bytes: &[u8],
        (end, most): (usize, u64),
        common: Common,
        parts: &mut Vec<Part>,
        observer: &mut impl Observer,
        accepted: &mut Accepted,
    ) -> Result<u64, Fault> {
        let bytes = &bytes[..end];
        let (mut offset, mut count) = (self.packet.head, 0);
        while offset < end && count < most {
            let rest = &bytes[offset..];
            let kind = self.kind(rest, offset)?;
            let record = &self.records[kind];
            let fault =
                |why, got| Fault { kind: why, record: Some(kind), offset, is_end: false, got };
            if rest.len() < record.least {
                return Err(fault(FaultKind::LeftOver, rest.len() as u64));
            }
            if count as usize == PARTS_MAX {
                return Err(fault(FaultKind::Count, count + 1));
            }
            let Some(order) = self.order(rest) else { return Err(fault(FaultKind::Record, 0)) };
            let loads = &record.loads[order];
            let Some(extent) = record.extent(loads.value(slot::LENGTH, rest), rest.len()) else {
                return Err(fault(FaultKind::Record, loads.value(slot::LENGTH, rest)));
            };
            let found = (&rest[..extent.end], offset, extent);
            let padding = extent.next.min(rest.len()) - extent.end;
            let part = self.record((kind, order), found, padding, common, observer)?;
            accepted.skipped += u64::from(part.is_none());
            parts.extend(part);
            offset += extent.next;
            count += 1;
        }
        accepted.skipped += u64::from(offset < end);
        Ok(count)
    }

    /// Records from the packet's end on, which are given out in their order. Returns how many.
    fn backward(
        &self,
        bytes: &[u8],
        mut end: usize,
        common: Common,
        parts: &mut Vec<Part>,
        observer: &mut impl Observer,
    ) -> Result<u64, Fault> {
        let (record, begin, first) = (&self.records[0], self.packet.head, parts.len());
        while end > begin {
            let rest = &bytes[begin..end];
            let fault = |kind, got| Fault { kind, record: Some(0), offset: end, is_end: true, got };
            if rest.len() < record.least {
                return Err(fault(FaultKind::LeftOver, rest.len() as u64));
            }
            if parts.len() - first == PARTS_MAX {
                return Err(fault(FaultKind::Count, PARTS_MAX as u64 + 1));
            }
            // The order stands in the head, which is found by the length: with a word that tells
            // it, the length is read in both orders, of which one must fit.
            let (order, extent) = self.last(rest).ok_or_else(|| fault(FaultKind::Record, 0))?;
            let offset = end - extent.end;
            let found = (&bytes[offset..end], offset, extent);
            // The only kind of record, which is none to skip.
            parts.extend(self.record((0, order), found, 0, common, observer)?);
            end = offset;
        }
        parts[first..].reverse();
        Ok((parts.len() - first) as u64)
    }

    /// Checks a record, and returns what it is; none of one to skip. `padding` bytes follow it.
    #[inline(always)]
    fn record(
        &self,
        (kind, order): (usize, usize),
        (block, offset, extent): (&[u8], usize, Extent),
        padding: usize,
        common: Common,
        observer: &mut impl Observer,
    ) -> Result<Option<Part>, Fault> {
        let seen = CheckedBlock {
            record: Some(kind),
            offset,
            bytes: block,
            body_end: extent.body_end,
            padding,
            is_big: order == 1,
        };
        if let Err(fault) = self.check((kind, order), block, extent, offset) {
            observer.refused(&seen);
            return Err(fault);
        }
        observer.block(&seen);
        let record = &self.records[kind];
        if record.skip {
            return Ok(None);
        }
        let loads = &record.loads[order];
        let values = record.values(loads, common, block);
        let part = record.placed(self.part(record, (offset, order), extent, values), loads, block);
        let Some(part) = part else {
            observer.refused(&seen);
            let (kind, record) = (FaultKind::Part, Some(kind));
            return Err(Fault { kind, record, offset, is_end: false, got: 0 });
        };
        Ok(Some(part))
    }

    /// The order and extent of the record that ends where `rest` does.
    fn last(&self, rest: &[u8]) -> Option<(usize, Extent)> {
        let record = &self.records[0];
        let extent = |order: usize| {
            let length = record.loads[order].value(slot::LENGTH, rest);
            record.extent(length, rest.len())
        };
        match self.order {
            Order::Little => Some((0, extent(0)?)),
            Order::Big => Some((1, extent(1)?)),
            Order::Detected { .. } => {
                let mut fitting = (0..2).filter_map(|order| {
                    let extent = extent(order)?;
                    let block = &rest[rest.len() - extent.end..];
                    (self.order(block) == Some(order)).then_some((order, extent))
                });
                // Where both fit, nobody knows how many records these are.
                fitting.next().filter(|_| fitting.next().is_none())
            }
        }
    }

    /// The kind of the record that begins a slice: the first one whose constants fit.
    fn kind(&self, rest: &[u8], offset: usize) -> Result<usize, Fault> {
        let got = rest.len() as u64;
        let fault = |kind| Err(Fault { kind, record: None, offset, is_end: false, got });
        let least = self.records.iter().map(|record| record.least).min().unwrap_or(0);
        if rest.len() < least {
            return fault(FaultKind::LeftOver);
        }
        let Some(order) = self.order(rest) else { return fault(FaultKind::Record) };
        let fits = |record: &Blueprint| {
            rest.len() >= record.head
                && record.loads[order].choose.iter().all(|one| one.holds(rest))
        };
        let kind = self.records.iter().position(fits);
        kind.map_or_else(|| fault(FaultKind::RecordVariant), Ok)
    }

    /// Checks a record whose extent is known.
    fn check(
        &self,
        (kind, order): (usize, usize),
        block: &[u8],
        extent: Extent,
        offset: usize,
    ) -> Result<(), Fault> {
        let record = &self.records[kind];
        let loads = &record.loads[order];
        let fault =
            |why| Err(Fault { kind: why, record: Some(kind), offset, is_end: false, got: 0 });
        if !loads.constants.iter().all(|one| one.holds(block)) {
            return fault(FaultKind::Record);
        }
        if !record.checksums.iter().all(|one| one.is_right(block, order)) {
            return fault(FaultKind::Checksum);
        }
        let body = &block[record.head..extent.body_end];
        if !loads.each.iter().all(|one| one.holds(body)) {
            return fault(FaultKind::Record);
        }
        match record.is_in_range(loads, block) {
            true => Ok(()),
            false => fault(FaultKind::Range),
        }
    }

    /// The byte order of a block that has its head: 0 for little, 1 for big.
    #[inline(always)]
    pub(super) fn order(&self, block: &[u8]) -> Option<usize> {
        match self.order {
            Order::Little => Some(0),
            Order::Big => Some(1),
            Order::Detected { at, mask, equals } => {
                let word = block.get(at as usize..)?.first_chunk::<4>()?;
                let little = u32::from_le_bytes(*word) & mask == equals;
                let big = u32::from_be_bytes(*word) & mask == equals;
                (little != big).then_some(usize::from(big))
            }
        }
    }

    #[inline(always)]
    pub(super) fn part(
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
            groups: values.groups as u16,
        }
    }
}

impl Blueprint {
    /// The extent of a packet that is a datagram and has its least length.
    #[inline(always)]
    pub(super) fn datagram(&self, value: u64, bytes: &[u8]) -> Result<Extent, Fault> {
        let has = bytes.len() as u64;
        let kind = FaultKind::Length;
        let fault = |got| Fault { kind, record: None, offset: 0, is_end: false, got };
        let length = if self.has_length {
            self.length(value)
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

    /// The extent of a record with that value of its length; none if it is not within `room` bytes.
    /// Behind the last one, padding may be missing.
    #[inline(always)]
    fn extent(&self, value: u64, room: usize) -> Option<Extent> {
        let length = match self.bytes {
            Some(bytes) => bytes,
            None => self.length(value)?,
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
    fn length(&self, value: u64) -> Option<u64> {
        let length = value.checked_mul(self.unit)?.checked_add_signed(self.plus)?;
        (length >= self.head as u64).then_some(length)
    }

    /// A fragment, or the part of one that its block says it is; none beyond the fragment's end.
    fn placed(&self, part: Part, loads: &Loads, block: &[u8]) -> Option<Part> {
        let Some(units) = self.part_units else { return Some(part) };
        let [position, fragment_bytes] = [(slot::POSITION, units[0]), (slot::TOTAL, units[1])]
            .map(|(slot, unit)| loads.value(slot, block).checked_mul(unit));
        let (position, fragment_bytes) = (position?, fragment_bytes?);
        let end = position.checked_add(part.bytes.into())?;
        (end <= fragment_bytes).then_some(Part { position, fragment_bytes, ..part })
    }

    /// The values of a fragment. Its number has the seconds beside its ticks, too: they stand in
    /// the same block.
    #[inline(always)]
    fn values(&self, loads: &Loads, around: Common, block: &[u8]) -> Common {
        let mut values = loads.common(around, |slot| loads.value(slot, block));
        if self.seconds_hz > 0 {
            let seconds = loads.value(slot::SECONDS, block);
            values.key = values.key.wrapping_add(seconds.wrapping_mul(self.seconds_hz));
        }
        values
    }

    #[inline(always)]
    fn is_in_range(&self, loads: &Loads, block: &[u8]) -> bool {
        self.ticks_end == u64::MAX || loads.value(slot::TIME, block) < self.ticks_end
    }
}

impl Loads {
    /// The values of a fragment: those of this block, and where it has none those around it.
    #[inline(always)]
    pub(super) fn common(&self, around: Common, value: impl Fn(usize) -> u64) -> Common {
        let value = |slot: usize, around: u64| {
            if self.slots[slot].is_present() { value(slot) } else { around }
        };
        Common {
            key: value(slot::KEY, around.key),
            source: value(slot::SOURCE, around.source),
            broken: value(slot::BROKEN, around.broken),
            tag: value(slot::TAG, around.tag),
            groups: value(slot::GROUPS, around.groups),
        }
    }

    /// A value; 0 if the block has none.
    #[inline(always)]
    pub(super) fn value(&self, slot: usize, block: &[u8]) -> u64 {
        let first = self.slots[slot].bits(block);
        let parts = self.parts.iter().filter(|(of, _)| *of == slot);
        parts.fold(first, |value, (_, load)| value | load.part(block))
    }
}
