//! Packets as a layout declares them, for emulators and tests: the decoder's other direction.

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
        let mut whole = body.to_vec();
        for record in records {
            let block = &layout.records[record.kind];
            whole.extend(self.block(block, is_big, &record.values, record.body, 0)?);
        }
        let bytes = self.block(&layout.packet, is_big, values, &whole, records.len() as u64)?;
        match bytes.len() {
            0..=DATAGRAM_BYTES_MAX => Ok(bytes),
            bytes => Err(EncodeError::TooLong { bytes }),
        }
    }

    fn block(
        &self,
        block: &Block,
        is_big: bool,
        values: &Values,
        body: &[u8],
        count: u64,
    ) -> Result<Vec<u8>, EncodeError> {
        let mut bytes = vec![0; block.head as usize];
        bytes.extend(body);
        let length = bytes.len() as u64;
        bytes.resize(bytes.len().next_multiple_of(block.align as usize) + block.tail as usize, 0);
        let is_big = self.set_order(&mut bytes, is_big)?;
        let mut bits_before: Vec<(&str, u32)> = Vec::new();
        for field in &block.fields {
            match field.kind {
                FieldKind::Equals(value) | FieldKind::Choose(value) => {
                    put(field, &mut bytes, is_big, value);
                }
                FieldKind::Each(value) => {
                    let body = &mut bytes[block.head as usize..length as usize];
                    for word in body.chunks_exact_mut(field.width as usize) {
                        put(field, word, is_big, value);
                    }
                }
                FieldKind::Is(Role::Checksum { .. }) => {}
                FieldKind::Is(role) => {
                    let value = match role {
                        Role::Length { .. } => length_value(block, length)?,
                        Role::Count => count,
                        _ => values.of(role),
                    };
                    let name = role.name();
                    let before = bits_before.iter().filter(|one| one.0 == name).map(|one| one.1);
                    let before: u32 = before.sum();
                    bits_before.push((name, field.range().1));
                    put(field, &mut bytes, is_big, value.checked_shr(before).unwrap_or(0));
                }
            }
        }
        for field in &block.fields {
            set_checksum(field, &mut bytes, is_big);
        }
        Ok(bytes)
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
