//! Packets as a layout declares them, for emulators and tests: the decoder's other direction.

use std::mem::discriminant;

use catchment_model::limits::DATAGRAM_BYTES_MAX;

use super::declaration::{Block, ChecksumKind, Field, FieldKind, Order, Role};
use super::{Layouts, values};
use crate::decoder::PARTS_MAX;

/// The values of a packet or a record. Those that its block does not have are left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// The event number.
    pub key: u64,
    /// Clock ticks.
    pub time: u64,
    /// Seconds beside ticks.
    pub seconds: u64,
    /// Packets sent before.
    pub sequence: u64,
    /// The source's id.
    pub source: u64,
    /// The trigger's type.
    pub tag: u64,
    /// Whether the data are broken.
    pub broken: bool,
    /// The groups that took part in the event, one in each bit.
    pub groups: u64,
    /// Where in its fragment the body belongs.
    pub position: u64,
    /// Bytes of that fragment.
    pub total: u64,
}

/// A record to be encoded.
#[derive(Clone, Copy, Debug)]
pub struct RecordValues<'a> {
    /// Which of the layout's kinds of records.
    pub kind: usize,
    /// Its values.
    pub values: Values,
    /// Its body.
    pub body: &'a [u8],
}

/// A packet that is encoded in place.
#[derive(Clone, Copy, Debug)]
pub struct PacketShape<F> {
    /// The order of its bytes, where the layout leaves it to the sender.
    pub is_big: bool,
    /// How many records it has, one or more; of a layout without records one, which is the packet
    /// itself.
    pub count: usize,
    /// Each of them, by its index. The packet's own values are those of the first.
    pub record: F,
    /// Bytes behind its counted records.
    pub rest_bytes: usize,
}

/// A record of such a packet.
#[derive(Clone, Copy, Debug)]
pub struct RecordShape {
    /// Which of the layout's kinds of records; without records, it says nothing.
    pub kind: usize,
    /// Its values.
    pub values: Values,
    /// Bytes of its body.
    pub body_bytes: usize,
}

/// How a fragment is cut into parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes of the fragment.
    pub total: usize,
    /// Bytes of each part; the last one has what is left.
    pub part: usize,
}

/// Why a packet cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A block's length cannot be said in its field.
    #[error("a length of {bytes} bytes has no value in its field")]
    Length {
        /// Bytes of head and body.
        bytes: u64,
    },
    /// The packet is longer than a datagram, which is the most that is encoded of streams, too.
    #[error("an encoded packet has at most {DATAGRAM_BYTES_MAX} bytes, got {bytes}")]
    TooLong {
        /// Bytes of the packet.
        bytes: usize,
    },
    /// No word tells one byte order and not the other.
    #[error("no word tells that byte order alone")]
    Order,
}

impl Layouts {
    /// Encodes a packet with these records, or, of a layout without records, with this body.
    ///
    /// # Errors
    /// A packet that the layout cannot describe.
    ///
    /// # Panics
    /// A kind of record that the layout does not have.
    pub fn encode(
        &self,
        is_big: bool,
        values: &Values,
        body: &[u8],
        records: &[RecordValues<'_>],
    ) -> Result<Vec<u8>, EncodeError> {
        let layout = self.layout();
        let of_records =
            records.iter().map(|one| layout.records[one.kind].bytes_with(one.body.len()));
        let whole = body.len() + of_records.sum::<usize>();
        let mut bytes = vec![0; layout.packet.bytes_with(whole)];
        if bytes.len() > DATAGRAM_BYTES_MAX {
            return Err(EncodeError::TooLong { bytes: bytes.len() });
        }
        let of_packet =
            Content { values, count: records.len() as u64, body_bytes: whole, kind: None };
        self.block(is_big, &of_packet, &mut bytes, |room| {
            room[..body.len()].copy_from_slice(body);
            let mut used = body.len();
            for &RecordValues { kind, values, body } in records {
                let (values, body_bytes) = (&values, body.len());
                let content = Content { values, count: 0, body_bytes, kind: Some(kind) };
                let fill = |room: &mut [u8]| {
                    room[..body.len()].copy_from_slice(body);
                    Ok(())
                };
                used += self.block(is_big, &content, &mut room[used..], fill)?;
            }
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Encodes a packet with one fragment into the beginning of `room`: with a record of the first
    /// kind that is one, or, of a layout without records, with this body. `fill` writes the body's
    /// bytes first, and may write beyond them; words of which the layout says some bits get these.
    /// Returns the bytes of the packet. Allocates nothing.
    ///
    /// # Errors
    /// A packet that the layout cannot describe, or for which there is no room.
    pub fn encode_one(
        &self,
        is_big: bool,
        values: &Values,
        body_bytes: usize,
        room: &mut [u8],
        mut fill: impl FnMut(&mut [u8]),
    ) -> Result<usize, EncodeError> {
        let kind = self.kinds(false).next().unwrap_or(0);
        let record = |_| RecordShape { kind, values: *values, body_bytes };
        let shape = PacketShape { is_big, count: 1, record, rest_bytes: 0 };
        self.encode_in_place(&shape, room, |_, room| fill(room))
    }

    /// Encodes a packet into the beginning of `room`. `fill` writes the bytes of each record's body
    /// as with [`encode_one`](Self::encode_one), by the record's index, and then those behind the
    /// records, if there are any. Returns the bytes of the packet. Allocates nothing.
    ///
    /// # Errors
    /// As [`encode_one`](Self::encode_one).
    ///
    /// # Panics
    /// A kind of record that the layout does not have.
    pub fn encode_in_place(
        &self,
        shape: &PacketShape<impl Fn(usize) -> RecordShape>,
        room: &mut [u8],
        mut fill: impl FnMut(usize, &mut [u8]),
    ) -> Result<usize, EncodeError> {
        let records = &self.layout().records;
        let PacketShape { is_big, count, ref record, rest_bytes } = *shape;
        let RecordShape { values, body_bytes, .. } = record(0);
        let of_packet =
            |count, body_bytes| Content { values: &values, count, body_bytes, kind: None };
        if records.is_empty() {
            return self.block(is_big, &of_packet(0, body_bytes), room, |room| {
                fill(0, room);
                Ok(())
            });
        }
        let bytes_of = |one: RecordShape| records[one.kind].bytes_with(one.body_bytes);
        let whole = (0..count).map(|index| bytes_of(record(index))).sum::<usize>() + rest_bytes;
        self.block(is_big, &of_packet(count as u64, whole), room, |room| {
            let mut used = 0;
            for index in 0..count {
                let RecordShape { kind, values, body_bytes } = record(index);
                let content = Content { values: &values, count: 0, body_bytes, kind: Some(kind) };
                let fill = |room: &mut [u8]| {
                    fill(index, room);
                    Ok(())
                };
                used += self.block(is_big, &content, &mut room[used..], fill)?;
            }
            if rest_bytes > 0 {
                fill(count, &mut room[used..]);
            }
            Ok(())
        })
    }

    /// The kinds of records that are fragments, or those that are skipped.
    pub fn kinds(&self, are_skipped: bool) -> impl Iterator<Item = usize> {
        let kinds = self.layout().records.iter().enumerate();
        kinds.filter(move |(_, kind)| kind.skip == are_skipped).map(|(index, _)| index)
    }

    /// Whether it is the packet that says of which event its records are, so that all of them are
    /// of one.
    pub fn is_of_event(&self) -> bool {
        let Self { layout, .. } = self;
        let of_event = ["key", "time", "seconds", "tag", "groups"];
        let says = |role: &&str| {
            let mut kinds = layout.records.iter().filter(|kind| !kind.skip);
            layout.packet.has(role) && kinds.any(|kind| !kind.has(role))
        };
        layout.records.is_empty() || of_event.iter().any(says)
    }

    /// How many records a packet may have, skipped ones too; one, if it has none.
    pub fn records_max(&self) -> u64 {
        let Self { layout, .. } = self;
        let counted = match layout.packet.bits_of("count") {
            0 => u64::MAX,
            bits => u64::MAX >> (64 - bits),
        };
        if layout.records.is_empty() { 1 } else { counted.min(PARTS_MAX as u64) }
    }

    /// Bytes of a record with a body of so many; none, if the layout has no records.
    pub fn record_bytes(&self, kind: usize, body_bytes: usize) -> usize {
        self.layout().records.get(kind).map_or(0, |record| record.bytes_with(body_bytes))
    }

    /// Bytes of a packet with records of so many bytes in all; none if it cannot be so long.
    pub fn packet_bytes(&self, records_bytes: usize) -> Option<usize> {
        let packet = &self.layout().packet;
        let (length, bytes) =
            (packet.head as usize + records_bytes, packet.bytes_with(records_bytes));
        let most = packet.bytes_max.unwrap_or(u64::MAX).min(DATAGRAM_BYTES_MAX as u64);
        let is_said = !packet.has("length") || length_value(packet, length as u64).is_ok();
        (bytes as u64 <= most && is_said).then_some(bytes)
    }

    /// The block that is a fragment, or a part of one: a record of a kind, or the packet.
    fn of_kind(&self, kind: usize) -> &Block {
        self.layout().records.get(kind).unwrap_or(&self.layout().packet)
    }

    /// The length of a body of a kind of record, or of a packet without records, that can be said,
    /// near `wanted` bytes.
    pub fn body_bytes_near(&self, kind: usize, wanted: usize) -> usize {
        let (packet, block) = (&self.layout().packet, self.of_kind(kind));
        let head = u64::from(block.head);
        if let Some(bytes) = block.bytes {
            return bytes.saturating_sub(head) as usize;
        }
        let around = |block: &Block| u64::from(block.head + block.tail + block.align - 1);
        let outer = if self.layout().records.is_empty() { 0 } else { around(packet) };
        let packet_most = packet.bytes_max.unwrap_or(DATAGRAM_BYTES_MAX as u64);
        let packet_most = packet_most.min(DATAGRAM_BYTES_MAX as u64).saturating_sub(outer);
        let most = packet_most.min(block.bytes_max.unwrap_or(u64::MAX));
        let bytes = (wanted as u64).min(most.saturating_sub(around(block)));
        let Some(Role::Length { unit, plus }) = block.with("length").next().and_then(Field::role)
        else {
            return bytes as usize;
        };
        // Words of which the layout says some bits are whole.
        let step = block.each_widths().fold(unit, u64::max);
        let value_max = u64::MAX >> (64 - block.bits_of("length"));
        let said = |bytes: u64| i128::from(head + bytes) - i128::from(plus);
        let value = said(bytes).div_euclid(step.into()) * i128::from(step / unit);
        // The body is not shorter than nothing.
        let least = -(-said(0)).div_euclid(unit.into());
        let value = value.min(value_max.into()).max(least.max(0));
        let bytes = value * i128::from(unit) + i128::from(plus) - i128::from(head);
        usize::try_from(bytes).unwrap_or(0)
    }

    /// How a fragment of a kind is cut, near `wanted` bytes and into so many parts, or into more
    /// if a packet has no room for them; none if fragments are sent whole.
    pub fn cut(&self, kind: usize, wanted: usize, parts: usize) -> Option<Cut> {
        let compiled = self.compiled.records.get(kind).unwrap_or(&self.compiled.packet);
        let [position, total] = compiled.part_units?;
        let block = self.of_kind(kind);
        let of_length = match block.with("length").next().and_then(Field::role) {
            Some(Role::Length { unit, .. }) => unit,
            _ => block.bytes.map_or(1, |bytes| bytes - u64::from(block.head)),
        };
        // All lengths and positions are multiples of this.
        let grain = block.each_widths().fold(lcm(lcm(position, total), of_length), lcm);
        let most = |name, unit| (u64::MAX >> (64 - block.bits_of(name))).saturating_mul(unit);
        let most = most("position", position).min(most("total", total));
        let grains = |bytes: u64| (bytes / grain).max(1).saturating_mul(grain) as usize;
        let total = grains(most.min(wanted as u64));
        let part = total.div_ceil(parts).next_multiple_of(grain as usize);
        Some(Cut { total, part: grains(self.body_bytes_near(kind, part) as u64) })
    }

    /// The length of a fragment of a kind that its packets can say, near `wanted` bytes.
    pub fn fragment_bytes_near(&self, kind: usize, wanted: usize) -> usize {
        self.cut(kind, wanted, 1)
            .map_or_else(|| self.body_bytes_near(kind, wanted), |cut| cut.total)
    }

    /// Writes a block into the beginning of `room`; returns its bytes.
    fn block(
        &self,
        is_big: bool,
        content: &Content<'_>,
        room: &mut [u8],
        fill: impl FnOnce(&mut [u8]) -> Result<(), EncodeError>,
    ) -> Result<usize, EncodeError> {
        let block = content.kind.map_or(&self.layout().packet, |kind| &self.layout().records[kind]);
        let head = block.head as usize;
        let (length, whole) = (head + content.body_bytes, block.bytes_with(content.body_bytes));
        if whole > room.len().min(DATAGRAM_BYTES_MAX) {
            return Err(EncodeError::TooLong { bytes: whole });
        }
        fill(&mut room[head..])?;
        let bytes = &mut room[..whole];
        bytes[..head].fill(0);
        bytes[length..].fill(0);
        let is_big = self.set_order(bytes, is_big)?;
        for (index, field) in block.fields.iter().enumerate() {
            match field.kind {
                FieldKind::Equals(value) | FieldKind::Choose(value) => {
                    put(field, bytes, is_big, value);
                }
                FieldKind::Each(value) => {
                    let body = &mut bytes[head..length];
                    for word in body.chunks_exact_mut(field.width as usize) {
                        put(field, word, is_big, value);
                    }
                }
                FieldKind::Is(Role::Checksum { .. }) => {}
                FieldKind::Is(role) => {
                    let value = match role {
                        Role::Length { .. } => length_value(block, length as u64)?,
                        Role::Count => content.count,
                        _ => content.values.of(role),
                    };
                    // Parts of a value come with the least significant one first.
                    let is_part = |field: &&Field| match field.kind {
                        FieldKind::Is(other) => discriminant(&other) == discriminant(&role),
                        _ => false,
                    };
                    let before = block.fields[..index].iter().filter(is_part);
                    let before: u32 = before.map(|field| field.range().1).sum();
                    put(field, bytes, is_big, value.checked_shr(before).unwrap_or(0));
                }
            }
        }
        self.layout().records[..content.kind.unwrap_or(0)]
            .iter()
            .for_each(|earlier| tell_apart(block, earlier, bytes, is_big));
        for field in &block.fields {
            set_checksum(field, bytes, is_big);
        }
        Ok(whole)
    }

    /// Writes the word that tells the order, if there is one. Returns the order.
    fn set_order(&self, bytes: &mut [u8], is_big: bool) -> Result<bool, EncodeError> {
        let Order::Detected { at, mask, equals } = self.layout().order else {
            return Ok(self.layout().order == Order::Big);
        };
        // Bits that the other order compares and this one does not are the opposite.
        let others = mask.swap_bytes() & !mask;
        let word = equals | others & !equals.swap_bytes();
        if word.swap_bytes() & mask == equals {
            return Err(EncodeError::Order);
        }
        let word = if is_big { word.to_be_bytes() } else { word.to_le_bytes() };
        bytes[at as usize..at as usize + 4].copy_from_slice(&word);
        Ok(is_big)
    }
}

/// What a block says beside its body.
struct Content<'a> {
    values: &'a Values,
    /// Its records.
    count: u64,
    body_bytes: usize,
    /// The kind of record that it is; none: the packet.
    kind: Option<usize>,
}

impl Block {
    /// Bytes of the whole block with a body of so many.
    fn bytes_with(&self, body_bytes: usize) -> usize {
        let length = self.head as usize + body_bytes;
        length.next_multiple_of(self.align as usize) + self.tail as usize
    }

    /// Bytes of words that have a constant in the whole body.
    fn each_widths(&self) -> impl Iterator<Item = u64> {
        let each = |field: &Field| matches!(field.kind, FieldKind::Each(_)).then_some(field.width);
        self.fields.iter().filter_map(each).map(u64::from)
    }
}

impl Values {
    fn of(&self, role: Role) -> u64 {
        match role {
            Role::Key => self.key,
            Role::Time { .. } => self.time,
            Role::Seconds => self.seconds,
            Role::Sequence => self.sequence,
            Role::Source => self.source,
            Role::Tag => self.tag,
            Role::Broken => self.broken.into(),
            Role::Groups => self.groups,
            Role::Position { unit } => self.position / unit,
            Role::Total { unit } => self.total / unit,
            Role::Length { .. } | Role::Count | Role::Checksum { .. } => 0,
        }
    }
}

/// The value with which a block's field says a length.
fn length_value(block: &Block, bytes: u64) -> Result<u64, EncodeError> {
    let fault = EncodeError::Length { bytes };
    let Some(Role::Length { unit, plus }) = block.with("length").next().and_then(Field::role)
    else {
        return Err(fault);
    };
    let units = bytes.checked_add_signed(-plus).ok_or(fault)?;
    let (value, bits) = (units / unit, block.bits_of("length"));
    let fits = units.is_multiple_of(unit) && (bits >= 64 || value >> bits == 0);
    fits.then_some(value).ok_or(fault)
}

/// Changes a bit of a record that none of its fields has, where it would be taken for one of a kind
/// that is tried earlier.
fn tell_apart(block: &Block, earlier: &Block, bytes: &mut [u8], is_big: bool) {
    let chosen = |field: &Field| match field.kind {
        FieldKind::Choose(value) => Some((*field, value)),
        _ => None,
    };
    let mut choice = earlier.fields.iter().filter_map(chosen);
    let holds = |(field, value): (Field, u64)| values::value(&field, bytes, is_big) == value;
    if !choice.clone().all(holds) {
        return;
    }
    let is_free = |field: &Field| !block.fields.iter().any(|own| overlaps(own, field));
    if let Some((field, value)) = choice.find(|(field, _)| is_free(field)) {
        put(&field, bytes, is_big, value ^ 1);
    }
}

/// Whether two fields have bits of a block in common, or may have.
fn overlaps(own: &Field, other: &Field) -> bool {
    let meet = |(one, size): (i64, i64), (other, other_size): (i64, i64)| {
        one < other + other_size && other < one + size
    };
    let bytes = |field: &Field| (field.at, i64::from(field.width));
    let bits = |field: &Field| (i64::from(field.range().0), i64::from(field.range().1));
    match own.kind {
        // They are in the body.
        FieldKind::Each(_) => false,
        _ if bytes(own) == bytes(other) => meet(bits(own), bits(other)),
        _ => meet(bytes(own), bytes(other)),
    }
}

/// The least common multiple of two numbers from 1 on, as far as there are such numbers.
fn lcm(one: u64, other: u64) -> u64 {
    let (mut a, mut b) = (one.max(1), other.max(1));
    while b != 0 {
        (a, b) = (b, a % b);
    }
    (one.max(1) / a).saturating_mul(other.max(1))
}

fn set_checksum(field: &Field, bytes: &mut [u8], is_big: bool) {
    let Some(Role::Checksum { kind, from, to }) = field.role() else { return };
    let place = |at: i64| match at < 0 {
        true => bytes.len().saturating_add_signed(at as isize),
        false => at as usize,
    };
    let (from, to, at) = (place(from), place(to.unwrap_or(field.at)), place(field.at));
    match kind {
        ChecksumKind::Copy => {
            // One after the other: the copy may overlap the bytes that it repeats.
            for (index, from) in (from..to).enumerate() {
                bytes[at + index] = bytes[from];
            }
        }
        _ => {
            let sum = kind.of(&bytes[from..to], is_big);
            put(field, bytes, is_big, sum.into());
        }
    }
}

/// Sets the bits of a field.
fn put(field: &Field, bytes: &mut [u8], is_big: bool, value: u64) {
    let (first, bits) = field.range();
    let begin = match field.at < 0 {
        true => bytes.len().saturating_add_signed(field.at as isize),
        false => field.at as usize,
    };
    let width = field.width as usize;
    let word = &mut bytes[begin..begin + width];
    let mask = (u64::MAX >> (64 - bits)) << first;
    let mut all = [0; 8];
    all[..width].copy_from_slice(word);
    if is_big {
        all[..width].reverse();
    }
    let number = u64::from_le_bytes(all) & !mask | (value << first) & mask;
    all = number.to_le_bytes();
    if is_big {
        all[..width].reverse();
    }
    word.copy_from_slice(&all[..width]);
}
