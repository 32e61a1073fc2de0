//! What boards' packets are like: what a configuration declares of them (docs/spec/layouts.md),
//! and, beside that, how they are written. The program's own encoder has no part in it.
//!
//! ```text
//!   packet     | word | count or length | record | filler | record | .. | rest | tail |
//!   fragment   | word | time, groups, length, in any order | body | padding | tail |
//! ```
//!
//! The first word of each block has a constant in its upper half, which also tells the byte order
//! where it is told, and in its lowest byte what kind of record it is. Values stand in one to four
//! words of one to eight bytes, at any bits of these, and what stands beside them is noise.

use catchment_fixtures::Random;
use catchment_wire::layouts::{
    Block, ChecksumKind, Field, FieldKind, Layout, Layouts, Order, Recorded, Role,
};
use catchment_wire::{Decoded, PartFlags, Protocol as _};

use super::marks::{Id, Marks};

/// What the packets of a source are like.
#[derive(Clone, Debug)]
pub struct LayoutPlan {
    order: ByteOrder,
    /// Records in a packet at most; none: the packet is the fragment.
    pub records: Option<u64>,
    pub is_whole: bool,
    pub marks: Marks,
    /// Bytes before the body of each fragment.
    pub head: usize,
    /// What is a fragment: one kind of blocks, or two that a constant tells apart.
    kinds: Vec<BlockPlan>,
    has_fillers: bool,
    /// The packet around records, and where these end.
    packet: BlockPlan,
    ends: Ends,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
    /// In each block another one.
    Told,
}

/// Where the records of a packet end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// With the datagram.
    Body,
    /// The same, and there are as many as it says.
    Count,
    /// When there are as many as it says: what is behind them is passed over.
    Rest,
    /// With its length.
    Length,
}

#[derive(Clone, Debug)]
struct BlockPlan {
    align: usize,
    tail: usize,
    /// What a length counts in, and what it does not count.
    unit: u64,
    plus: i64,
    words: Vec<Word>,
    /// In the tail's last bytes.
    check: Option<ChecksumKind>,
}

/// Bits of a word that are a value or a part of it, from its bit `below` on.
#[derive(Clone, Copy, Debug)]
struct Word {
    what: What,
    at: i64,
    width: usize,
    first: u32,
    bits: u32,
    below: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Time,
    Groups,
    Length,
    Count,
    Sequence,
    Source,
    Tag,
    Broken,
}

/// What a fragment says, beside its body.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    pub ticks: u64,
    pub groups: u64,
    /// The number of its packet, as it stands there, which a packet without records has.
    pub sequence: u64,
    pub tag: u8,
    pub is_broken: bool,
}

/// A fragment as it stands in packets.
#[derive(Clone, Debug, Default)]
pub struct Written {
    bytes: Vec<u8>,
    /// Bytes behind it, if another record follows.
    padding: usize,
}

/// What a layout has by its source.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub names_groups: bool,
    pub records: Option<u64>,
    pub has_fillers: bool,
    pub is_whole: bool,
    pub marks: Marks,
}

/// A packet as it is sent.
#[derive(Clone, Debug)]
pub struct Datagram {
    pub bytes: Vec<u8>,
    /// How many of its records are no fragments.
    pub skipped: u64,
    /// Its number, as it stands in it.
    pub sequence: u64,
}

impl LayoutPlan {
    /// For a clock of so many bits.
    pub fn draw(chance: &mut Random, bits: u32, wanted: Wanted) -> Self {
        let Wanted { names_groups, records, has_fillers, is_whole, marks } = wanted;
        let is_packet = records.is_none();
        let length_in_tail = chance.below(4) == 0;
        let has_length = !is_packet || chance.below(3) > 0;
        let are_alike = is_packet || length_in_tail;
        let values = |chance: &mut Random| {
            let mut words = Vec::new();
            split(chance, What::Time, bits, &mut words);
            if names_groups {
                let bits = 3 + chance.below(14) as u32;
                split(chance, What::Groups, bits, &mut words);
            }
            if has_length {
                let bits = 16 + chance.below(9) as u32;
                split(chance, What::Length, bits, &mut words);
            }
            split_marks(chance, &marks, (is_packet, true), &mut words);
            words
        };
        let count = if are_alike { 1 } else { 1 + chance.index(2) };
        let kinds: Vec<(BlockPlan, usize)> = (0..count)
            .map(|_| {
                let words = values(chance);
                BlockPlan::draw(chance, words, has_length.then_some(length_in_tail))
            })
            .collect();
        let head = kinds.iter().map(|(_, head)| *head).max().unwrap_or(0);
        let mut kinds: Vec<BlockPlan> = kinds.into_iter().map(|(kind, _)| kind).collect();
        for kind in &mut kinds {
            kind.plus = [0, head as i64, -(kind.tail as i64)][chance.index(3)];
        }
        // Records that are read from the end have no count.
        let ends = [Ends::Body, Ends::Length, Ends::Count, Ends::Rest]
            [chance.index(if length_in_tail { 2 } else { 4 })];
        let mut words = Vec::new();
        match ends {
            Ends::Body => {}
            Ends::Length => split(chance, What::Length, 20, &mut words),
            _ => {
                let bits = 5 + chance.below(10) as u32;
                split(chance, What::Count, bits, &mut words);
            }
        }
        split_marks(chance, &marks, (true, is_packet), &mut words);
        let (mut packet, packet_head) = BlockPlan::draw(chance, words, Some(false));
        packet.unit = 1;
        packet.plus = [0, packet_head as i64][chance.index(2)];
        if ends != Ends::Length || packet.tail == 0 {
            packet.align = 1;
        }
        let order = match [ByteOrder::Little, ByteOrder::Big, ByteOrder::Told][chance.index(3)] {
            // Read from the end, some records have both orders, and are refused.
            ByteOrder::Told if length_in_tail && !is_packet => ByteOrder::Big,
            order => order,
        };
        let has_fillers = has_fillers && !are_alike;
        Self { order, records, is_whole, marks, head, kinds, has_fillers, packet, ends }
    }

    /// As a configuration declares it.
    pub fn declared(&self, rate_hz: u64) -> Layouts {
        let order = match self.order {
            ByteOrder::Little => Order::Little,
            ByteOrder::Big => Order::Big,
            ByteOrder::Told => Order::Detected { at: 0, mask: 0xffff_0000, equals: MAGIC << 16 },
        };
        let is_chosen = self.kinds.len() + usize::from(self.has_fillers) > 1;
        let constants = |number: Option<usize>| {
            let field = |bits, kind| Field { at: 0, width: 4, bits: Some(bits), kind };
            let is_told = self.order == ByteOrder::Told;
            let magic = (!is_told).then(|| field([16, 31], FieldKind::Equals(MAGIC.into())));
            let number = number.filter(|_| is_chosen);
            let kind = number.map(|number| field([0, 7], FieldKind::Choose(number as u64)));
            magic.into_iter().chain(kind)
        };
        let block = |plan: &BlockPlan, head, number| Block {
            fields: constants(number).chain(plan.fields(rate_hz)).collect(),
            head: head as u32,
            tail: plan.tail as u32,
            align: plan.align as u32,
            ..Block::default()
        };
        let kinds = self.kinds.iter().enumerate();
        let mut kinds: Vec<Block> =
            kinds.map(|(number, kind)| block(kind, self.head, Some(number))).collect();
        let filler = Block {
            head: FILLER_BYTES as u32,
            bytes: Some(FILLER_BYTES as u64),
            skip: true,
            fields: constants(Some(kinds.len())).collect(),
            ..Block::default()
        };
        let (packet, records) = match self.records {
            None => (kinds.remove(0), Vec::new()),
            Some(_) => {
                kinds.extend(self.has_fillers.then_some(filler));
                let packet = block(&self.packet, self.packet.head(), None);
                (Block { skip_rest: self.ends == Ends::Rest, ..packet }, kinds)
            }
        };
        let recorded = if self.is_whole { Recorded::Whole } else { Recorded::Body };
        let name = "board".to_owned();
        let layout = Layout { name, is_stream: false, order, packet, records, recorded };
        Layouts::new(layout).expect("a layout that can be")
    }

    /// Writes a fragment: its body is filled up to what a length can say.
    pub fn write(&self, stamp: Stamp, body: &mut Vec<u8>, chance: &mut Random) -> Written {
        let number = chance.index(self.kinds.len());
        let kind = &self.kinds[number];
        let length = (self.head + body.len()) as i64 - kind.plus;
        let over = length.rem_euclid(kind.unit as i64) as usize;
        body.resize(body.len() + (kind.unit as usize - over) % kind.unit as usize, 0);
        let length = self.head + body.len();
        let value = |what| match what {
            What::Time => stamp.ticks,
            What::Groups => stamp.groups,
            What::Sequence => stamp.sequence,
            What::Source => self.id(),
            What::Tag => stamp.tag.into(),
            What::Broken => stamp.is_broken.into(),
            _ => (length as i64 - kind.plus) as u64 / kind.unit,
        };
        let is_big = self.is_big(chance);
        let bytes = kind.write((self.head, number), is_big, value, body, chance);
        // With a tail it is in the block.
        let padding = match kind.tail {
            0 => length.next_multiple_of(kind.align) - length,
            _ => 0,
        };
        Written { bytes, padding }
    }

    /// The packet of that number with these fragments.
    pub fn packet<'a>(
        &self,
        sequence: u64,
        written: impl Iterator<Item = &'a Written>,
        chance: &mut Random,
    ) -> Datagram {
        let (mut body, mut padding, mut count, mut skipped) = (Vec::new(), 0, 0, 0);
        for one in written {
            while self.has_fillers && chance.below(4) == 0 {
                let word = first_word(self.kinds.len(), chance);
                let filler = body.len();
                body.extend(chance.noise(FILLER_BYTES));
                put(&mut body[filler..filler + 4], (0, 32), word.into(), self.is_big(chance));
                skipped += 1;
            }
            body.extend(&one.bytes);
            body.resize(body.len() + one.padding, 0);
            (padding, count) = (one.padding, count + 1);
        }
        if self.records.is_none() {
            return Datagram { bytes: body, skipped: 0, sequence };
        }
        count += skipped;
        match self.ends {
            Ends::Rest => {
                let rest = chance.index(2) * chance.index(12);
                body.extend(chance.noise(rest));
                skipped += u64::from(rest > 0);
            }
            // The last one needs none.
            _ if chance.below(2) == 0 => body.truncate(body.len() - padding),
            _ => {}
        }
        let (packet, head) = (&self.packet, self.packet.head());
        let value = |what| match what {
            What::Count => count,
            What::Sequence => sequence,
            What::Source => self.id(),
            _ => ((head + body.len()) as i64 - packet.plus) as u64,
        };
        let is_big = self.is_big(chance);
        let bytes = packet.write((head, 0), is_big, value, &body, chance);
        Datagram { bytes, skipped, sequence }
    }

    /// That of another board, which names itself otherwise, and whose numbers are its own.
    pub fn of_another(&self, chance: &mut Random) -> Option<Self> {
        let mut plan = self.clone();
        plan.marks.id.as_mut()?.value ^= 1;
        if let Some(sequence) = &mut plan.marks.sequence {
            sequence.first = chance.next_u64();
        }
        Some(plan)
    }

    /// More than the bytes of a fragment beside those of its payload that are drawn.
    pub fn bytes_around_max(&self) -> u64 {
        let tail = self.kinds.iter().map(|kind| kind.tail).max().unwrap_or(0);
        // What says whose it is, what a length counts in, and padding.
        100.max((self.head + tail) as u64 + 16 + 4 + 8)
    }

    fn id(&self) -> u64 {
        self.marks.id.map_or(0, |id| id.value.into())
    }

    /// What of a written fragment is recorded.
    pub fn recorded(&self, written: &Written, body: &[u8]) -> Vec<u8> {
        if self.is_whole { written.bytes.clone() } else { body.to_vec() }
    }

    fn is_big(&self, chance: &mut Random) -> bool {
        match self.order {
            ByteOrder::Little => false,
            ByteOrder::Big => true,
            ByteOrder::Told => chance.below(2) == 0,
        }
    }
}

impl BlockPlan {
    /// A block with these words, and the bytes of its head. `length_in_tail` says where a length
    /// is; what else it has is anywhere, but for a count.
    fn draw(
        chance: &mut Random,
        mut words: Vec<Word>,
        length_in_tail: Option<bool>,
    ) -> (Self, usize) {
        let (mut head, mut tail) = (4, 0);
        let mut order: Vec<usize> = (0..words.len()).collect();
        order.sort_by_cached_key(|_| chance.next_u64());
        for index in order {
            let word = &mut words[index];
            let in_tail = match word.what {
                What::Length => length_in_tail == Some(true),
                What::Count => false,
                _ => chance.below(4) == 0,
            };
            let end = if in_tail { &mut tail } else { &mut head };
            let begin = *end + chance.index(2);
            *end = begin + word.width;
            // Those of the tail are put right below.
            word.at = if in_tail { -1 - begin as i64 } else { begin as i64 };
        }
        let sums = [ChecksumKind::Crc32c, ChecksumKind::Crc32, ChecksumKind::Sum32];
        let check = (chance.below(3) == 0).then(|| sums[chance.index(3)]);
        tail += if check.is_some() { CHECK_BYTES } else { 0 };
        for word in words.iter_mut().filter(|word| word.at < 0) {
            word.at = -1 - word.at - tail as i64;
        }
        let has_length = words.iter().any(|word| word.what == What::Length);
        let unit = [1, 1, 2, 4][chance.index(4)];
        // Without a length nobody knows what of a body is padding.
        let align = if has_length { 1 << chance.index(4) } else { 1 };
        (Self { align, tail, unit, plus: 0, words, check }, head)
    }

    /// Bytes of the head of a packet with records.
    fn head(&self) -> usize {
        let in_head = self.words.iter().filter(|word| word.at >= 0);
        in_head.map(|word| word.at as usize + word.width).fold(4, usize::max)
    }

    fn fields(&self, rate_hz: u64) -> Vec<Field> {
        let field = |word: &Word| {
            // What belongs to a value stands with its first part.
            let is_first = word.below == 0;
            let role = match word.what {
                What::Time => Role::Time { rate_hz: is_first.then_some(rate_hz) },
                What::Groups => Role::Groups,
                What::Count => Role::Count,
                What::Length if is_first => Role::Length { unit: self.unit, plus: self.plus },
                What::Length => Role::Length { unit: 1, plus: 0 },
                What::Sequence => Role::Sequence,
                What::Source => Role::Source,
                What::Tag => Role::Tag,
                What::Broken => Role::Broken,
            };
            let bits = Some([word.first, word.first + word.bits - 1]);
            Field { at: word.at, width: word.width as u32, bits, kind: FieldKind::Is(role) }
        };
        let check = self.check.map(|kind| {
            let role = Role::Checksum { kind, from: 0, to: None };
            let (at, width) = (-(CHECK_BYTES as i64), CHECK_BYTES as u32);
            Field { at, width, bits: None, kind: FieldKind::Is(role) }
        });
        self.words.iter().map(field).chain(check).collect()
    }

    fn write(
        &self,
        (head, number): (usize, usize),
        is_big: bool,
        value: impl Fn(What) -> u64,
        body: &[u8],
        chance: &mut Random,
    ) -> Vec<u8> {
        let mut bytes = chance.noise(head);
        bytes.extend(body);
        if self.tail > 0 {
            bytes.resize(bytes.len().next_multiple_of(self.align), 0);
            bytes.extend(chance.noise(self.tail));
        }
        put(&mut bytes[..4], (0, 32), first_word(number, chance).into(), is_big);
        for word in &self.words {
            let begin = match word.at {
                at if at < 0 => bytes.len() - at.unsigned_abs() as usize,
                at => at as usize,
            };
            let of_word = &mut bytes[begin..begin + word.width];
            put(of_word, (word.first, word.bits), value(word.what) >> word.below, is_big);
        }
        if let Some(kind) = self.check {
            let covered = bytes.len() - CHECK_BYTES;
            let sum = checksum(kind, &bytes[..covered], is_big);
            put(&mut bytes[covered..], (0, 32), sum.into(), is_big);
        }
        bytes
    }
}

/// Holds what a decoder makes of a packet to what was written into it.
///
/// # Errors
/// What differs.
pub fn check_decoded<'a>(
    layouts: &Layouts,
    marks: &Marks,
    &Datagram { ref bytes, skipped, sequence }: &Datagram,
    sent: impl ExactSizeIterator<Item = (Stamp, &'a [u8])>,
) -> Result<(), String> {
    let mut parts = Vec::new();
    let decoded = layouts.decoder().decode(0, bytes, &mut parts);
    let Decoded { skipped: is_skipped, sequence: numbered, .. } = decoded.map_err(|reason| {
        format!("a packet is refused ({}): {:?}", layouts.reasons()[reason].name, layouts.layout())
    })?;
    if (parts.len(), is_skipped) != (sent.len(), skipped) {
        let got = (parts.len(), is_skipped);
        let (count, layout) = (sent.len(), layouts.layout());
        return Err(format!(
            "{got:?} decoded, {count} and {skipped} sent: {bytes:?} by {layout:?}"
        ));
    }
    let number = |number: u64, bits: u32| number & u64::MAX >> (64 - bits);
    let wanted = marks.sequence.map(|numbers| number(sequence, numbers.bits));
    let numbered = numbered.map(|is| number(is, marks.sequence.map_or(64, |one| one.bits)));
    if numbered != wanted {
        return Err(format!("{numbered:?} decoded, {wanted:?} sent: {:?}", layouts.layout()));
    }
    for (part, (stamp, recorded)) in parts.iter().zip(sent) {
        let mask = u64::MAX >> (64 - layouts.number_bits());
        let groups = if layouts.layout().has_groups() { stamp.groups } else { 0 };
        let end = (part.offset + part.bytes) as usize;
        let is_right = part.number == stamp.ticks & mask
            && u64::from(part.groups) == groups
            && part.id == marks.id.map_or(0, |id| id.value)
            && part.tag == if marks.tag_bits.is_some() { stamp.tag } else { 0 }
            && (part.flags & PartFlags::SENDER_ERROR != 0) == (marks.has_broken && stamp.is_broken)
            && bytes.get(part.offset as usize..end) == Some(recorded);
        if !is_right {
            return Err(format!("{part:?} decoded, {stamp:?} sent: {:?}", layouts.layout()));
        }
    }
    Ok(())
}

/// Cuts a value of so many bits into the words of one to four parts, the least significant first.
fn split(chance: &mut Random, what: What, bits: u32, words: &mut Vec<Word>) {
    let parts = [1, 1, 2, 4][chance.index(4)].min(bits);
    let mut below = 0;
    for left in (1..=parts).rev() {
        let own = (bits - below).div_ceil(left);
        let width = (own.div_ceil(8) + chance.below(2) as u32).min(8);
        let first = chance.below(u64::from(8 * width - own + 1)) as u32;
        words.push(Word { what, at: 0, width: width as usize, first, bits: own, below });
        below += own;
    }
}

/// The words of what a packet has beside its records, or a fragment beside its time, or a packet
/// that is one.
fn split_marks(
    chance: &mut Random,
    &Marks { sequence, id, tag_bits, has_broken }: &Marks,
    (is_packet, is_fragment): (bool, bool),
    words: &mut Vec<Word>,
) {
    if let Some(sequence) = sequence.filter(|_| is_packet) {
        split(chance, What::Sequence, sequence.bits, words);
    }
    let is_here = |id: &Id| is_packet && is_fragment || id.in_records == is_fragment;
    if let Some(id) = id.filter(is_here) {
        split(chance, What::Source, id.bits, words);
    }
    if let Some(bits) = tag_bits.filter(|_| is_fragment) {
        split(chance, What::Tag, bits, words);
    }
    if has_broken && is_fragment {
        split(chance, What::Broken, 1, words);
    }
}

fn first_word(number: usize, chance: &mut Random) -> u32 {
    MAGIC << 16 | (chance.below(256) as u32) << 8 | number as u32
}

/// Sets bits of a word.
fn put(word: &mut [u8], (first, bits): (u32, u32), value: u64, is_big: bool) {
    for bit in 0..bits {
        let at = (first + bit) as usize;
        let byte = if is_big { word.len() - 1 - at / 8 } else { at / 8 };
        let is_set = value >> bit & 1 == 1;
        word[byte] = word[byte] & !(1 << (at % 8)) | u8::from(is_set) << (at % 8);
    }
}

fn checksum(kind: ChecksumKind, bytes: &[u8], is_big: bool) -> u32 {
    let crc = |polynomial: u32| {
        let step = |crc: u32, _| crc >> 1 ^ if crc & 1 == 1 { polynomial } else { 0 };
        let of_byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), step);
        !bytes.iter().fold(!0, of_byte)
    };
    let word = |word: &[u8]| {
        let mut all = [0; 4];
        all[..word.len()].copy_from_slice(word);
        if is_big { u32::from_be_bytes(all) } else { u32::from_le_bytes(all) }
    };
    match kind {
        ChecksumKind::Crc32c => crc(0x82f6_3b78),
        ChecksumKind::Crc32 => crc(0xedb8_8320),
        _ => bytes.chunks(4).map(word).fold(0, u32::wrapping_add),
    }
}

/// The upper half of each block's first word.
const MAGIC: u32 = 0x7132;
const FILLER_BYTES: usize = 8;
const CHECK_BYTES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_that_are_known() {
        assert_eq!(checksum(ChecksumKind::Crc32, b"123456789", false), 0xcbf4_3926);
        assert_eq!(checksum(ChecksumKind::Crc32c, b"123456789", false), 0xe306_9283);
        assert_eq!(checksum(ChecksumKind::Sum32, &[1, 0, 0, 0, 2], true), 0x0300_0000);
    }

    #[test]
    fn what_is_declared_and_written_is_what_is_decoded() {
        for seed in 0..3_000 {
            let mut chance = Random::new(seed);
            let bits = 16 + chance.below(49) as u32;
            let records = (chance.below(2) == 0).then_some(5);
            let wanted = Wanted {
                names_groups: chance.below(2) == 0,
                records,
                has_fillers: chance.below(2) == 0,
                is_whole: chance.below(2) == 0,
                marks: Marks::draw(&mut chance),
            };
            let Marks { sequence, tag_bits, has_broken, .. } = wanted.marks;
            let plan = LayoutPlan::draw(&mut chance, bits, wanted);
            let packet = chance.below(1_000);
            let sequence = sequence.map_or(0, |numbers| numbers.of(packet));
            let layouts = plan.declared(1_000_000);
            let written: Vec<(Stamp, Written, Vec<u8>)> = (0..records.unwrap_or(1))
                .map(|_| {
                    let stamp = Stamp {
                        ticks: chance.next_u64(),
                        groups: chance.below(8),
                        sequence,
                        tag: tag_bits.map_or(0, |bits| (chance.below(1 << bits)) as u8),
                        is_broken: has_broken && chance.below(2) == 0,
                    };
                    let count = chance.index(60);
                    let mut body = chance.noise(count);
                    let written = plan.write(stamp, &mut body, &mut chance);
                    let recorded = plan.recorded(&written, &body);
                    (stamp, written, recorded)
                })
                .collect();
            let packet = plan.packet(sequence, written.iter().map(|one| &one.1), &mut chance);
            let sent = written.iter().map(|(stamp, _, recorded)| (*stamp, &recorded[..]));
            let checked = check_decoded(&layouts, &plan.marks, &packet, sent);
            assert_eq!(checked, Ok(()), "seed {seed}: {plan:?}");
        }
    }
}
