//! Packets as a layout declares them, for emulators and tests: the decoder's other direction.

use std::mem::discriminant;

use catchment_model::limits::DATAGRAM_BYTES_MAX;

use super::Layouts;
use super::declaration::{Block, ChecksumKind, Field, FieldKind, Order, Role};

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

/// Why a packet cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A block's length cannot be said in its field.
    #[error("a length of {bytes} bytes has no value in its field")]
    Length {
        /// Bytes of head and body.
        bytes: u64,
    },
    /// The packet is longer than a datagram.
    #[error("a datagram has at most {DATAGRAM_BYTES_MAX} bytes, got {bytes}")]
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
        let kind = |record: &RecordValues<'_>| &layout.records[record.kind];
        let of_records = records.iter().map(|one| kind(one).bytes_with(one.body.len()));
        let whole = body.len() + of_records.sum::<usize>();
        let mut bytes = vec![0; layout.packet.bytes_with(whole)];
        if bytes.len() > DATAGRAM_BYTES_MAX {
            return Err(EncodeError::TooLong { bytes: bytes.len() });
        }
        let of_packet = Content { values, count: records.len() as u64, body_bytes: whole };
        self.block(&layout.packet, is_big, &of_packet, &mut bytes, |room| {
            room[..body.len()].copy_from_slice(body);
            let mut used = body.len();
            for record in records {
                let content =
                    Content { values: &record.values, count: 0, body_bytes: record.body.len() };
                let fill = |room: &mut [u8]| {
                    room[..record.body.len()].copy_from_slice(record.body);
                    Ok(())
                };
                used += self.block(kind(record), is_big, &content, &mut room[used..], fill)?;
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
        self.encode_several(is_big, (1, |_| (*values, body_bytes)), room, |_, room| fill(room))
    }

    /// As [`encode_one`](Self::encode_one), with `count` fragments, one or more, each a record with
    /// its values and its body's bytes. Those of the packet itself are those of the first.
    ///
    /// # Errors
    /// As [`encode_one`](Self::encode_one).
    pub fn encode_several(
        &self,
        is_big: bool,
        (count, fragment): (usize, impl Fn(usize) -> (Values, usize)),
        room: &mut [u8],
        mut fill: impl FnMut(usize, &mut [u8]),
    ) -> Result<usize, EncodeError> {
        let layout = self.layout();
        let (values, body_bytes) = &fragment(0);
        let Some(record) = self.of_fragments() else {
            let content = Content { values, count: 0, body_bytes: *body_bytes };
            return self.block(&layout.packet, is_big, &content, room, |room| {
                fill(0, room);
                Ok(())
            });
        };
        let whole = (0..count).map(|index| record.bytes_with(fragment(index).1)).sum();
        let of_packet = Content { values, count: count as u64, body_bytes: whole };
        self.block(&layout.packet, is_big, &of_packet, room, |room| {
            let mut used = 0;
            for index in 0..count {
                let (values, body_bytes) = &fragment(index);
                let content = Content { values, count: 0, body_bytes: *body_bytes };
                let fill = |room: &mut [u8]| {
                    fill(index, room);
                    Ok(())
                };
                used += self.block(record, is_big, &content, &mut room[used..], fill)?;
            }
            Ok(())
        })
    }

    /// How many fragments of different events a packet may have: one, if it has no records, or if
    /// its own head says of which event they are.
    pub fn fragments_max(&self) -> u64 {
        let packet = &self.layout().packet;
        let of_event = ["key", "time", "seconds", "tag", "groups"];
        match self.of_fragments() {
            Some(_) if !of_event.iter().any(|role| packet.has(role)) => {
                let bits = if packet.has("count") { packet.bits_of("count") } else { 64 };
                u64::MAX >> (64 - bits)
            }
            _ => 1,
        }
    }

    /// Bytes of a fragment with a body of so many in a packet with several.
    pub fn record_bytes(&self, body_bytes: usize) -> usize {
        self.of_fragments().map_or(0, |record| record.bytes_with(body_bytes))
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

    /// The kind of records that are fragments, the first one.
    fn of_fragments(&self) -> Option<&Block> {
        self.layout().records.iter().find(|record| !record.skip)
    }

    /// The length of a fragment's body that [`encode_one`](Self::encode_one) can say, near `wanted`
    /// bytes.
    pub fn body_bytes_near(&self, wanted: usize) -> usize {
        let layout = self.layout();
        let of_record = self.of_fragments();
        let block = of_record.unwrap_or(&layout.packet);
        let head = u64::from(block.head);
        if let Some(bytes) = block.bytes {
            return bytes.saturating_sub(head) as usize;
        }
        let around = |block: &Block| u64::from(block.head + block.tail + block.align - 1);
        let outer = if of_record.is_some() { around(&layout.packet) } else { 0 };
        let packet_most = layout.packet.bytes_max.unwrap_or(DATAGRAM_BYTES_MAX as u64);
        let packet_most = packet_most.min(DATAGRAM_BYTES_MAX as u64).saturating_sub(outer);
        let most = packet_most.min(block.bytes_max.unwrap_or(u64::MAX));
        let bytes = (wanted as u64).min(most.saturating_sub(around(block)));
        let Some(Role::Length { unit, plus }) = block.with("length").next().and_then(Field::role)
        else {
            return bytes as usize;
        };
        // Words of which the layout says some bits are whole.
        let each = |field: &Field| matches!(field.kind, FieldKind::Each(_)).then_some(field.width);
        let step = block.fields.iter().filter_map(each).map(u64::from).fold(unit, u64::max);
        let value_max = u64::MAX >> (64 - block.bits_of("length"));
        let said = |bytes: u64| i128::from(head + bytes) - i128::from(plus);
        let value = said(bytes).div_euclid(step.into()) * i128::from(step / unit);
        // The body is not shorter than nothing.
        let least = -(-said(0)).div_euclid(unit.into());
        let value = value.min(value_max.into()).max(least.max(0));
        let bytes = value * i128::from(unit) + i128::from(plus) - i128::from(head);
        usize::try_from(bytes).unwrap_or(0)
    }

    /// Writes a block into the beginning of `room`; returns its bytes.
    fn block(
        &self,
        block: &Block,
        is_big: bool,
        content: &Content<'_>,
        room: &mut [u8],
        fill: impl FnOnce(&mut [u8]) -> Result<(), EncodeError>,
    ) -> Result<usize, EncodeError> {
        let head = block.head as usize;
        let (length, whole) = (head + content.body_bytes, block.bytes_with(content.body_bytes));
        if whole > room.len() {
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
}

impl Block {
    /// Bytes of the whole block with a body of so many.
    fn bytes_with(&self, body_bytes: usize) -> usize {
        let length = self.head as usize + body_bytes;
        length.next_multiple_of(self.align as usize) + self.tail as usize
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
