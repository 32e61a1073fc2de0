//! Why a datagram is refused, in words: the field that is wrong, what it should be, and what it is.
//! For people: only packets that are refused come here, once more.

use catchment_model::units::counted;

use super::Layouts;
use super::check::label;
use super::compile::Blueprint;
use super::declaration::{Block, ChecksumKind, Field, FieldKind, Order, Role};
use super::values::{begin, lines, value, whole};
use super::walk::{CheckedBlock, Fault, FaultKind, Observer};

/// The record that a walk refused, if its extent is known.
#[derive(Default)]
pub(super) struct RefusedRecord(Option<RecordExtent>);

#[derive(Clone, Copy)]
struct RecordExtent {
    kind: usize,
    begin: usize,
    end: usize,
    body_end: usize,
    is_big: bool,
}

impl Observer for RefusedRecord {
    fn block(&mut self, _seen: &CheckedBlock<'_>) {}

    fn refused(&mut self, seen: &CheckedBlock<'_>) {
        let Some(kind) = seen.record else { return };
        let (begin, end) = (seen.offset, seen.offset + seen.bytes.len());
        let (body_end, is_big) = (seen.body_end, seen.is_big);
        self.0 = Some(RecordExtent { kind, begin, end, body_end, is_big });
    }
}

/// Why a datagram is refused.
pub(super) struct Refusal {
    /// The fields of the block that is refused, up to the wrong one.
    pub(super) lines: Vec<String>,
    pub(super) sentence: String,
}

/// A field that is wrong.
struct Wrong {
    index: usize,
    expected: String,
    /// What is expected and what is there.
    sentence: String,
}

impl Wrong {
    /// A field of which something at a byte of the datagram is wrong.
    fn at(index: usize, at: usize, expected: String, got: String) -> Option<Self> {
        let sentence = format!("expected {expected} at byte {at}, got {got}");
        Some(Self { index, expected, sentence })
    }
}

/// A block that is refused, as far as it is known.
struct Refused<'a> {
    block: &'a Block,
    blueprint: &'a Blueprint,
    /// Its bytes. Where one of its ends is not known, those that could be of it.
    bytes: &'a [u8],
    offset: usize,
    is_big: bool,
    has_head: bool,
    has_tail: bool,
    body_end: Option<usize>,
}

impl Layouts {
    /// Why a datagram is refused, or, with `is_begun`, the packet that begins a stream, of which
    /// only the head has been looked at.
    pub(super) fn refusal(
        &self,
        fault: &Fault,
        bytes: &[u8],
        record: &RefusedRecord,
        is_begun: bool,
    ) -> Refusal {
        let refused = self.refused(fault, bytes, record, is_begun);
        let wrong = refused.as_ref().and_then(|one| one.wrong(fault.kind));
        let sentence = match (&refused, &wrong) {
            (_, Some(wrong)) if fault.kind == FaultKind::Length => wrong.sentence.clone(),
            (_, Some(wrong)) => format!("{}: {}", self.block_of(fault), wrong.sentence),
            (refused, None) => self.sentence(fault, bytes, refused.as_ref()),
        };
        // Fields of a block that has been shown are not shown again.
        let is_shown = matches!(fault.kind, FaultKind::Part | FaultKind::Count);
        let lines = match refused.filter(|_| !is_shown) {
            Some(refused) => refused.lines(&self.name_of(fault.record), wrong.as_ref()),
            None => Vec::new(),
        };
        Refusal { lines, sentence }
    }

    /// The block in which a fault is, if there is one whose byte order is known.
    fn refused<'a>(
        &'a self,
        fault: &Fault,
        bytes: &'a [u8],
        record: &RefusedRecord,
        is_begun: bool,
    ) -> Option<Refused<'a>> {
        let (layout, compiled) = (&self.layout, &self.compiled);
        if let RefusedRecord(Some(RecordExtent { kind, begin, end, body_end, is_big })) = *record {
            return Some(Refused {
                block: &layout.records[kind],
                blueprint: &compiled.records[kind],
                bytes: &bytes[begin..end],
                offset: begin,
                is_big,
                has_head: true,
                has_tail: true,
                body_end: Some(body_end),
            });
        }
        let packet = &compiled.packet;
        let body_end = |order: usize| {
            let length = packet.loads[order].value(super::compile::slot::LENGTH, bytes);
            packet.datagram(length, bytes).ok().map(|extent| extent.body_end)
        };
        let Some(kind) = fault.record else {
            use FaultKind::{Checksum, Constant, Count, Length, Part, Range, Short};
            let is_of_packet =
                matches!(fault.kind, Checksum | Constant | Count | Length | Part | Range | Short);
            let order = compiled.order(bytes).filter(|_| is_of_packet)?;
            let is_short = fault.kind == Short;
            return Some(Refused {
                block: &layout.packet,
                blueprint: packet,
                bytes,
                offset: 0,
                is_big: order == 1,
                has_head: true,
                has_tail: !is_short && !is_begun,
                body_end: if is_short { None } else { body_end(order) },
            });
        };
        let rest = match fault.is_end {
            true => &bytes[packet.head..fault.offset],
            false => &bytes[fault.offset..body_end(compiled.order(bytes)?)?],
        };
        let order = match (layout.order, fault.is_end) {
            (Order::Little, true) => 0,
            (Order::Big, true) => 1,
            // It stands in the head, which is not found.
            (Order::Detected { .. }, true) => return None,
            (_, false) => compiled.order(rest)?,
        };
        Some(Refused {
            block: &layout.records[kind],
            blueprint: &compiled.records[kind],
            bytes: rest,
            offset: if fault.is_end { packet.head } else { fault.offset },
            is_big: order == 1,
            has_head: !fault.is_end,
            has_tail: fault.is_end,
            body_end: None,
        })
    }

    fn name_of(&self, record: Option<usize>) -> String {
        record.map_or("packet".to_owned(), |kind| label(kind, &self.layout.records[kind]))
    }

    /// The block of a fault and where it is, as a sentence begins with it.
    fn block_of(&self, fault: &Fault) -> String {
        let place = if fault.is_end { "that ends before byte" } else { "at byte" };
        let offset = fault.offset;
        match fault.record {
            None if fault.kind == FaultKind::Record => format!("the record {place} {offset}"),
            None => "the packet".to_owned(),
            record => format!("{} {place} {offset}", self.name_of(record)),
        }
    }

    /// Why a datagram is refused, where no field alone is wrong.
    fn sentence(&self, fault: &Fault, bytes: &[u8], refused: Option<&Refused<'_>>) -> String {
        let Fault { kind, offset, got, .. } = *fault;
        let block = self.block_of(fault);
        let counted_of = |what: &str| refused.map_or(0, |one| one.whole(what));
        match kind {
            FaultKind::Short => {
                let least = self.compiled.packet.least;
                format!("a packet has at least {least} bytes, got {got}")
            }
            FaultKind::Length => self.length_fault(bytes.len() as u64),
            FaultKind::LeftOver => {
                let are = if got == 1 { "is" } else { "are" };
                let place = if fault.is_end { "before" } else { "from" };
                let bytes = counted(got, "byte");
                format!("{bytes} {are} left over {place} byte {offset}, too few for a record")
            }
            FaultKind::Order => format!("{block}: {}", self.order_fault(bytes)),
            FaultKind::Record if fault.record.is_none() => {
                format!("{block}: {}", self.order_fault(&bytes[offset.min(bytes.len())..]))
            }
            FaultKind::Record if fault.is_end => {
                let rest = &bytes[self.compiled.packet.head..offset];
                format!("{block}: {}", self.orders_from_end(rest))
            }
            FaultKind::Record => format!("{block}: it has too many bytes"),
            FaultKind::RecordVariant => {
                let rest = &bytes[offset.min(bytes.len())..];
                format!(
                    "no kind of record fits at byte {offset}: {}",
                    self.not_fitting(rest, offset)
                )
            }
            FaultKind::Count if fault.record.is_some() => {
                format!("{block}: expected at most {} records", crate::decoder::PARTS_MAX)
            }
            FaultKind::Count => {
                format!("the packet says {} records, got {got}", counted_of("count"))
            }
            FaultKind::Part => {
                let (end, total) = refused.map_or((0, 0), Refused::part_end);
                format!("{block}: its part ends at byte {end} of a fragment of {total} bytes")
            }
            FaultKind::Constant | FaultKind::Range | FaultKind::Checksum => {
                format!("{block}: a field is wrong")
            }
        }
    }

    /// Why a packet without a length that it says has a wrong one.
    fn length_fault(&self, has: u64) -> String {
        let Blueprint { bytes, bytes_max, align_mask, tail, .. } = self.compiled.packet;
        match bytes.map(|bytes| ((bytes + align_mask) & !align_mask) + tail as u64) {
            Some(whole) => format!("a packet has {whole} bytes, got {has}"),
            None if has > bytes_max => {
                format!("a packet has at most {bytes_max} bytes, got {has}")
            }
            None => {
                let align = align_mask + 1;
                format!("a packet has a multiple of {align} bytes and {tail} more, got {has}")
            }
        }
    }

    /// Why no record ends with some bytes, in one byte order alone.
    fn orders_from_end(&self, rest: &[u8]) -> String {
        let record = &self.compiled.records[0];
        let [little, big] = [0, 1].map(|order| {
            let length = record.loads[order].value(super::compile::slot::LENGTH, rest);
            i128::from(length) * i128::from(record.unit) + i128::from(record.plus)
        });
        format!(
            "expected a length and a byte order that fit each other, in one order, got a length \
             of {little} (little) and {big} (big)"
        )
    }

    /// Why the word that tells a block's byte order does not.
    fn order_fault(&self, block: &[u8]) -> String {
        let Order::Detected { at, mask, equals } = self.layout.order else {
            return "no byte order".to_owned();
        };
        let Some(word) = block.get(at as usize..).and_then(|rest| rest.first_chunk::<4>()) else {
            return format!("expected 4 bytes at its byte {at}, which tell its byte order");
        };
        let [little, big] = [u32::from_le_bytes(*word), u32::from_be_bytes(*word)];
        format!(
            "expected {equals:#x} of the bits {mask:#x} at its byte {at} in one byte order, got \
             {:#x} (little) and {:#x} (big)",
            little & mask,
            big & mask
        )
    }

    /// Why the bytes behind a record begin none of any kind.
    fn not_fitting(&self, rest: &[u8], offset: usize) -> String {
        let is_big = self.compiled.order(rest) == Some(1);
        let kinds = self.layout.records.iter().enumerate().map(|(kind, block)| {
            let name = label(kind, block);
            if rest.len() < block.head as usize {
                return format!("{name} has a head of {} bytes, got {}", block.head, rest.len());
            }
            format!("{name} {}", wrong_choice(block, (rest, offset), is_big))
        });
        kinds.collect::<Vec<_>>().join("; ")
    }

    /// Why the packet has another layout of its source: it is shorter than the head, its byte order
    /// is not told, or the first `choose` that does not hold.
    pub(super) fn not_chosen(&self, bytes: &[u8]) -> String {
        let (name, head) = (&self.layout.name, self.compiled.packet.head);
        if bytes.len() < head {
            return format!("{name:?} has a head of {head} bytes, got {}", bytes.len());
        }
        let Some(order) = self.compiled.order(bytes) else {
            return format!("{name:?} has a word for its byte order, which tells none or both");
        };
        format!("{name:?} {}", wrong_choice(&self.layout.packet, (bytes, 0), order == 1))
    }
}

/// The first `choose` that does not hold of a block, which begins with these bytes at an offset.
fn wrong_choice(block: &Block, (bytes, offset): (&[u8], usize), is_big: bool) -> String {
    let choice = block.choice().into_iter().find_map(|field| {
        let FieldKind::Choose(expected) = field.kind else { return None };
        let got = value(&field, bytes, is_big);
        let at = offset + begin(&field, bytes);
        (got != expected).then(|| format!("expected {expected:#x} at byte {at}, got {got:#x}"))
    });
    choice.unwrap_or_else(|| "is chosen otherwise".to_owned())
}

impl Refused<'_> {
    fn lines(&self, name: &str, wrong: Option<&Wrong>) -> Vec<String> {
        let order = if self.is_big { "big" } else { "little" };
        let (first, end) = (self.offset, self.offset + self.bytes.len());
        let place = match (self.has_head, self.has_tail) {
            (true, true) => format!("bytes {first} to {}", end.saturating_sub(1)),
            (true, false) => format!("from byte {first} on"),
            (false, _) => format!("before byte {end}"),
        };
        let until = wrong.map_or(self.block.fields.len(), |wrong| wrong.index + 1);
        let is_known = |field: &Field| {
            let end = begin(field, self.bytes) + field.width as usize;
            let is_within = self.bytes.len() as i64 + field.at.min(0) >= 0;
            self.is_known(field) && is_within && end <= self.bytes.len()
        };
        let mut all = vec![format!("{name}: {place}, {order}, refused")];
        let seen = (self.bytes, self.offset, self.is_big);
        all.extend(lines(self.block, until, seen, is_known));
        if let (Some(wrong), Some(last)) = (wrong, all.last_mut()) {
            *last += &format!(", refused: expected {}", wrong.expected.trim_end_matches(','));
        }
        all
    }

    fn is_known(&self, field: &Field) -> bool {
        if field.at < 0 { self.has_tail } else { self.has_head }
    }

    fn whole(&self, name: &str) -> u64 {
        whole(self.block, name, self.bytes, self.is_big)
    }

    /// The first field that is wrong, in the order in which a walk checks.
    fn wrong(&self, kind: FaultKind) -> Option<Wrong> {
        match kind {
            FaultKind::Constant => self.constant().or_else(|| self.each()),
            FaultKind::Record if self.body_end.is_none() => self.record_length(),
            FaultKind::Record => self.constant().or_else(|| self.each()),
            FaultKind::Length => self.packet_length(),
            FaultKind::Range => self.range(),
            FaultKind::Checksum => self.checksum(),
            _ => None,
        }
    }

    fn place(&self, field: &Field) -> usize {
        begin(field, self.bytes) + self.offset
    }

    fn constant(&self) -> Option<Wrong> {
        let fields = self.block.fields.iter().enumerate();
        for (index, field) in fields.filter(|(_, field)| self.is_known(field)) {
            let (FieldKind::Equals(expected) | FieldKind::Choose(expected)) = field.kind else {
                continue;
            };
            let got = value(field, self.bytes, self.is_big);
            if got != expected {
                let (expected, got) = (format!("{expected:#x}"), format!("{got:#x}"));
                return Wrong::at(index, self.place(field), expected, got);
            }
        }
        None
    }

    fn each(&self) -> Option<Wrong> {
        let head = self.block.head as usize;
        let body = self.bytes.get(head..self.body_end?)?;
        for (index, field) in self.block.fields.iter().enumerate() {
            let FieldKind::Each(expected) = field.kind else { continue };
            let width = field.width as usize;
            let words = body.chunks(width).enumerate().map(|(at, word)| (at * width, word));
            for (at, word) in words {
                let at = self.offset + head + at;
                if word.len() < width {
                    let expected = format!("words of {width} bytes");
                    return Wrong::at(index, at, expected, counted(word.len() as u64, "byte"));
                }
                let got = value(field, word, self.is_big);
                if got != expected {
                    let (expected, got) = (format!("{expected:#x}"), format!("{got:#x}"));
                    return Wrong::at(index, at, expected, got);
                }
            }
        }
        None
    }

    /// The first field of a role.
    fn first(&self, name: &str) -> Option<(usize, &Field)> {
        let is_it = |field: &Field| field.role().is_some_and(|role| role.name() == name);
        self.block.fields.iter().enumerate().find(|(_, field)| is_it(field))
    }

    /// Bytes of head and body that the length says.
    fn bytes_said(&self) -> i128 {
        let Blueprint { unit, plus, .. } = *self.blueprint;
        i128::from(self.whole("length")) * i128::from(unit) + i128::from(plus)
    }

    /// A record's length that is impossible.
    fn record_length(&self) -> Option<Wrong> {
        let (index, field) = self.first("length").filter(|(_, field)| self.is_known(field))?;
        let Blueprint { head, tail, bytes_max, .. } = *self.blueprint;
        let most = (self.bytes.len() as u64).min(bytes_max).saturating_sub(tail as u64);
        let expected = format!("a length of {head} to {most} bytes");
        Wrong::at(index, self.place(field), expected, self.bytes_said().to_string())
    }

    /// A packet's length that is not that of its datagram.
    fn packet_length(&self) -> Option<Wrong> {
        let (index, _) = self.first("length")?;
        let Blueprint { head, tail, align_mask, bytes_max, .. } = *self.blueprint;
        let (said, has) = (self.bytes_said(), self.bytes.len());
        let align = i128::from(align_mask);
        let whole = ((said + align) & !align) + tail as i128;
        let most = i128::from(bytes_max);
        let says = "the packet's length says";
        let (expected, sentence) = match () {
            () if said < head as i128 => {
                let expected = format!("{head} bytes or more");
                (expected.clone(), format!("{says} {said} bytes, expected {expected}"))
            }
            () if whole > most => {
                let expected = format!("at most {most} bytes");
                (expected.clone(), format!("{says} {whole} bytes, expected {expected}"))
            }
            () if whole == has as i128 => return None,
            () => (
                format!("that of the datagram, {has} bytes"),
                format!("{says} a datagram of {whole} bytes, got {has}"),
            ),
        };
        Some(Wrong { index, expected, sentence })
    }

    /// Ticks of more than a second.
    fn range(&self) -> Option<Wrong> {
        let (index, field) = self.first("time")?;
        let expected = format!("fewer ticks than a second has, {},", self.blueprint.ticks_end);
        let got = self.whole("time").to_string();
        Wrong::at(index, self.place(field), expected, got)
    }

    /// The first checksum that is not that of its bytes.
    fn checksum(&self) -> Option<Wrong> {
        let fields = self.block.fields.iter().enumerate();
        for (index, field) in fields {
            let Some(Role::Checksum { kind, from, to }) = field.role() else { continue };
            let end = |at: i64| {
                let end = if at < 0 { self.bytes.len() } else { 0 };
                end.saturating_add_signed(at as isize)
            };
            let (from, to) = (end(from), end(to.unwrap_or(field.at)));
            let covered = self.bytes.get(from..to)?;
            let [first, last] = [from, to.saturating_sub(1)].map(|at| at + self.offset);
            if kind == ChecksumKind::Copy {
                let copy = self.bytes.get(begin(field, self.bytes)..)?;
                let mut bytes = covered.iter().zip(copy).enumerate();
                let Some((differs, (expected, got))) = bytes.find(|(_, (one, other))| one != other)
                else {
                    continue;
                };
                let at = self.place(field) + differs;
                let expected = format!("{expected:#04x}, as at byte {},", first + differs);
                return Wrong::at(index, at, expected, format!("{got:#04x}"));
            }
            let (sum, got) =
                (u64::from(kind.of(covered, self.is_big)), value(field, self.bytes, self.is_big));
            if sum != got {
                let name = format!("{kind:?}").to_lowercase();
                let expected = format!("{sum:#010x}, the {name} of bytes {first} to {last},");
                let got = format!("{got:#010x}");
                return Wrong::at(index, self.place(field), expected, got);
            }
        }
        None
    }

    /// Where a part ends in its fragment, and the fragment's bytes.
    fn part_end(&self) -> (u128, u128) {
        let [position, total] = self.blueprint.part_units.unwrap_or_default();
        let body = self.body_end.unwrap_or(0).saturating_sub(self.block.head as usize);
        let of = |name, unit: u64| u128::from(self.whole(name)) * u128::from(unit);
        (of("position", position) + body as u128, of("total", total))
    }
}
