//! The check of a declaration: what it says is possible and without contradiction. Errors name the
//! key.

use std::collections::BTreeSet;

use catchment_model::limits::FRAGMENT_BYTES_MAX;

use super::declaration::{
    Block, ChecksumKind, Field, FieldKind, Layout, Order, Recorded, Role, STREAM_PACKET_BYTES_MAX,
};

/// What is wrong with a declaration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct LayoutError {
    /// The key in the layout's table, such as `record[1].fields[0].at`; empty: the layout itself.
    pub key: String,
    /// What was expected, and what was there.
    pub message: String,
}

/// Kinds of records of one layout.
pub const RECORDS_MAX: usize = 8;
/// Fields of one block.
pub const FIELDS_MAX: usize = 32;
/// Bytes of a head, and of a tail.
pub const HEAD_BYTES_MAX: u32 = 4_096;
/// What a length may be multiplied by, and what may be added to it.
pub const UNIT_MAX: u64 = 65_536;
/// The highest rate of a clock.
pub const RATE_HZ_MAX: u64 = 1_000_000_000_000;

/// Checks a declaration.
pub(super) fn check(layout: &Layout) -> Result<(), LayoutError> {
    if layout.records.len() > RECORDS_MAX {
        return expected("record", format!("at most {RECORDS_MAX} records"), layout.records.len());
    }
    if let Order::Detected { at, mask, equals } = layout.order {
        let blocks = std::iter::once(&layout.packet).chain(&layout.records);
        let last = blocks.map(|block| block.head).min().unwrap_or(0).saturating_sub(4);
        if at > last || layout.packet.head < 4 || layout.records.iter().any(|one| one.head < 4) {
            return expected("order.at", "a word of 4 bytes in the head of every block", at);
        }
        if mask == 0 || equals & !mask != 0 {
            let got = format!("mask {mask:#x}, equals {equals:#x}");
            return expected("order.equals", "bits of a mask that is not 0", got);
        }
    }
    BlockCheck { path: "packet".into(), block: &layout.packet, is_record: false, layout }.run()?;
    for (index, block) in layout.records.iter().enumerate() {
        let path = format!("record[{index}]");
        BlockCheck { path, block, is_record: true, layout }.run()?;
    }
    check_variants(layout)?;
    check_keys(layout)?;
    check_stream(layout)
}

/// A packet of a stream tells its length in its head, and each fragment tells its source.
fn check_stream(layout: &Layout) -> Result<(), LayoutError> {
    let Layout { packet, records, .. } = layout;
    if !layout.is_stream {
        return Ok(());
    }
    let in_head = packet.with("length").all(|field| field.at >= 0);
    if packet.bytes.is_none() && !(packet.has("length") && in_head) {
        let got = if packet.has("length") { "it in the tail" } else { "neither" };
        return expected(
            "packet",
            "bytes, or length in the head, with transport = \"stream\"",
            got,
        );
    }
    let most = STREAM_PACKET_BYTES_MAX;
    match packet.bytes_max {
        Some(bytes) if bytes <= most => {}
        got => {
            let got = got.map_or_else(|| "none".to_owned(), |bytes| bytes.to_string());
            let wanted = format!("at most {most} with transport = \"stream\"");
            return expected("packet.bytes_max", wanted, got);
        }
    }
    let mut fragments = records.iter().filter(|one| !one.skip);
    let has_source = match records.is_empty() {
        true => packet.has("source"),
        false => packet.has("source") || fragments.all(|one| one.has("source")),
    };
    match has_source {
        true => Ok(()),
        false => expected("packet", "source in each fragment with transport = \"stream\"", "none"),
    }
}

/// Every kind of record can be chosen, and is read from one end.
fn check_variants(layout: &Layout) -> Result<(), LayoutError> {
    let records = &layout.records;
    for (later, block) in records.iter().enumerate() {
        for (before, other) in records[..later].iter().enumerate() {
            let Some(why) = hides(other, block) else { continue };
            let [block, other] =
                [(later, block), (before, other)].map(|(index, one)| label(index, one));
            let message = format!("{block} can never be chosen: {other} has {why}");
            return refuse(format!("record[{later}]"), message);
        }
    }
    let in_tail = |block: &Block| block.with("length").any(|field| field.at < 0);
    if let Some(index) = records.iter().position(in_tail) {
        let is_alone = records.len() == 1 && records[0].choice().is_empty();
        if !is_alone || layout.packet.has("count") {
            let got = match records.len() {
                1 => "choose or count".to_owned(),
                many => many.to_string(),
            };
            let expected =
                "its length stands in the tail; expected one record without choose and count";
            return refuse(format!("record[{index}]"), format!("{expected}, got {got}"));
        }
    }
    Ok(())
}

/// Why a block that is tried later is never chosen, if the one before hides it.
pub(super) fn hides(before: &Block, later: &Block) -> Option<&'static str> {
    let own = later.choice();
    match before.choice() {
        none if none.is_empty() => Some("no choose"),
        part if part.iter().all(|one| own.contains(one)) => {
            Some("the same choose, or a part of it")
        }
        _ => None,
    }
}

/// `record 2 "filler"`, numbered as people count.
pub(super) fn label(index: usize, block: &Block) -> String {
    match block.name.as_str() {
        "" => format!("record {}", index + 1),
        name => format!("record {} {name:?}", index + 1),
    }
}

/// Every fragment has a key, or every one a time, all of as many bits.
fn check_keys(layout: &Layout) -> Result<(), LayoutError> {
    let Layout { packet, records, .. } = layout;
    if packet.skip {
        return Ok(());
    }
    let mut kinds: Vec<&Block> = records.iter().filter(|one| !one.skip).collect();
    if records.is_empty() {
        kinds.push(packet);
    }
    let mut bits = BTreeSet::new();
    for block in &kinds {
        let of = |name| match block.bits_of(name) {
            0 => packet.bits_of(name),
            own => own,
        };
        match (of("key"), of("time")) {
            (0, 0) => {
                let message = "expected key or time in each record that is not skipped, or in the \
                               packet, got neither";
                return refuse(String::new(), message.into());
            }
            (0, time) => bits.insert(("time", time)),
            (key, _) => bits.insert(("key", key)),
        };
    }
    match bits.len() {
        0 => expected("record", "a record that is not skipped", "none"),
        1 => Ok(()),
        _ => {
            let kinds: Vec<String> =
                bits.iter().map(|(name, bits)| format!("a {name} of {bits} bits")).collect();
            expected("record", "all keys, or all times, of as many bits", kinds.join(" and "))
        }
    }
}

struct BlockCheck<'a> {
    path: String,
    block: &'a Block,
    is_record: bool,
    layout: &'a Layout,
}

impl BlockCheck<'_> {
    fn run(&self) -> Result<(), LayoutError> {
        self.sizes()?;
        for (index, field) in self.block.fields.iter().enumerate() {
            let path = format!("{}.fields[{index}]", self.path);
            self.place(&path, field)?;
            self.constant(&path, field)?;
            if let Some(role) = field.role() {
                self.role(&path, field, role)?;
            }
        }
        self.values()
    }

    fn sizes(&self) -> Result<(), LayoutError> {
        let Block { head, tail, align, bytes, bytes_max, skip, skip_rest, fields, .. } = self.block;
        let key = |name| format!("{}.{name}", self.path);
        for (name, got) in [("head", *head), ("tail", *tail)] {
            if got > HEAD_BYTES_MAX {
                return expected(&key(name), format!("0 to {HEAD_BYTES_MAX} bytes"), got);
            }
        }
        if !align.is_power_of_two() || *align > 64 {
            return expected(&key("align"), "1, 2, 4, 8, 16, 32 or 64", align);
        }
        if head + tail == 0 {
            return expected(&key("head"), "head or tail of at least 1 byte", "neither");
        }
        let least = u64::from(*head).max(1);
        if let Some(got) = bytes.filter(|got| !(least..=FRAGMENT_BYTES_MAX).contains(got)) {
            return expected(&key("bytes"), format!("{least} to {FRAGMENT_BYTES_MAX}"), got);
        }
        let least = self.block.bytes_min().max(1);
        if let Some(got) = bytes_max.filter(|got| !(least..=FRAGMENT_BYTES_MAX).contains(got)) {
            return expected(&key("bytes_max"), format!("{least} to {FRAGMENT_BYTES_MAX}"), got);
        }
        let longest = self.layout.packet_bytes_most();
        if least > longest {
            let most = format!("blocks of at most a packet's {longest} bytes");
            return expected(&key("bytes"), most, least);
        }
        if *skip && !self.is_record && !self.layout.records.is_empty() {
            let got = "it in a packet with records";
            return expected(&key("skip"), "it in a record, or a packet without records", got);
        }
        let is_counted = !self.layout.records.is_empty() && self.block.has("count");
        if *skip_rest && (self.is_record || !is_counted) {
            let wanted = "it in a packet with records and count";
            return expected(&key("skip_rest"), wanted, "it elsewhere");
        }
        if fields.len() > FIELDS_MAX {
            return expected(&key("fields"), format!("at most {FIELDS_MAX} fields"), fields.len());
        }
        let has_length = self.block.has("length");
        match bytes {
            Some(_) if has_length => expected(&key("bytes"), "length or bytes", "both"),
            None if self.is_record && !has_length => {
                let message =
                    "expected length or bytes where records follow each other, got neither";
                refuse(self.path.clone(), message.into())
            }
            _ => Ok(()),
        }
    }

    /// The word is in the head or the tail, and the bits are in the word.
    fn place(&self, path: &str, field: &Field) -> Result<(), LayoutError> {
        let Field { at, width, bits, .. } = *field;
        if !(1..=8).contains(&width) {
            return expected(&format!("{path}.width"), "1 to 8 bytes", width);
        }
        let most = 8 * width - 1;
        if let Some([first, last]) = bits
            && (first > last || last > most)
        {
            let got = format!("[{first}, {last}]");
            return expected(&format!("{path}.bits"), format!("bits 0 to {most}, rising"), got);
        }
        if let FieldKind::Each(_) = field.kind {
            return match at {
                0 => Ok(()),
                at => expected(&format!("{path}.at"), "0 with each", at),
            };
        }
        let copied = match field.kind {
            FieldKind::Is(Role::Checksum { kind: ChecksumKind::Copy, from, to }) => {
                Some(to.unwrap_or(at).saturating_sub(from)).filter(|bytes| *bytes > 0)
            }
            _ => None,
        };
        let bytes = copied.unwrap_or(width.into());
        let end = at.saturating_add(bytes);
        let (head, tail) = (i64::from(self.block.head), i64::from(self.block.tail));
        if (0..=head).contains(&at) && end <= head || (-tail..0).contains(&at) && end <= 0 {
            return Ok(());
        }
        let places = match (head, tail) {
            (0, tail) => format!("bytes -{tail} to -1 (tail)"),
            (head, 0) => format!("bytes 0 to {} (head)", head - 1),
            (head, tail) => format!("bytes 0 to {} (head) or -{tail} to -1 (tail)", head - 1),
        };
        expected(&format!("{path}.at"), places, format!("{at} to {}", end - 1))
    }

    fn constant(&self, path: &str, field: &Field) -> Result<(), LayoutError> {
        let (name, value) = match field.kind {
            FieldKind::Is(_) => return Ok(()),
            FieldKind::Equals(value) => ("equals", value),
            FieldKind::Choose(value) => ("choose", value),
            FieldKind::Each(value) => ("each", value),
        };
        let (_, bits) = field.range();
        if bits < 64 && value >> bits != 0 {
            let message = format!("expected a value of {bits} bits, got {value:#x}");
            return refuse(format!("{path}.{name}"), message);
        }
        match name {
            "choose" if !self.is_record && self.layout.is_stream => expected(
                &format!("{path}.choose"),
                "it in a record: a source of a stream has one layout",
                "it in the packet",
            ),
            "choose" if field.at < 0 => {
                expected(&format!("{path}.at"), "a word of the head with choose", field.at)
            }
            "each" => self.each(path, field),
            _ => Ok(()),
        }
    }

    /// The words of a body divide it.
    fn each(&self, path: &str, field: &Field) -> Result<(), LayoutError> {
        let key = format!("{path}.each");
        if !self.is_record && !self.layout.records.is_empty() {
            return expected(
                &key,
                "it in a record, or a packet without records",
                "it in the packet",
            );
        }
        let (head, width) = (i64::from(self.block.head), i64::from(field.width));
        let divides = |bytes: i64| bytes.rem_euclid(width) == 0;
        let length = self.block.with("length").find_map(|field| match field.role() {
            Some(Role::Length { unit, plus }) => Some((unit as i64, plus)),
            _ => None,
        });
        let (steps, is_right) = match (length, self.block.bytes) {
            (Some((unit, plus)), _) => (unit, divides(unit) && divides(plus.saturating_sub(head))),
            (None, Some(bytes)) => (bytes as i64 - head, divides(bytes as i64 - head)),
            // The length of a datagram is looked at when it comes.
            (None, None) => (width, true),
        };
        match is_right {
            true => Ok(()),
            false => refuse(
                key,
                format!("words of {width} bytes do not divide lengths in steps of {steps}"),
            ),
        }
    }

    fn role(&self, path: &str, field: &Field, role: Role) -> Result<(), LayoutError> {
        let key = |name: &str| format!("{path}.{name}");
        match role {
            Role::Count | Role::Sequence if self.is_record => {
                expected(&key("is"), format!("{} in the packet", role.name()), "it in a record")
            }
            Role::Count if self.layout.records.is_empty() => {
                expected(&key("is"), "records with count", "none")
            }
            Role::Position { .. } | Role::Total { .. }
                if !self.is_record && !self.layout.records.is_empty() =>
            {
                expected(&key("is"), format!("{} in a record", role.name()), "it in the packet")
            }
            Role::Position { .. } | Role::Total { .. }
                if self.layout.recorded == Recorded::Whole =>
            {
                let what = format!("fragment = \"body\" with {}", role.name());
                expected(&key("is"), what, "\"record\"")
            }
            Role::Length { unit, .. } | Role::Position { unit } | Role::Total { unit }
                if !(1..=UNIT_MAX).contains(&unit) =>
            {
                expected(&key("unit"), format!("1 to {UNIT_MAX}"), unit)
            }
            Role::Length { plus, .. } if plus.unsigned_abs() > UNIT_MAX => {
                expected(&key("plus"), format!("-{UNIT_MAX} to {UNIT_MAX}"), plus)
            }
            Role::Time { rate_hz: Some(hz) } if !(1..=RATE_HZ_MAX).contains(&hz) => {
                expected(&key("rate"), "1 Hz to 1 THz", format!("{hz} Hz"))
            }
            Role::Checksum { kind, from, to } => {
                self.checksum(path, field, kind, [from, to.unwrap_or(field.at)])
            }
            _ => Ok(()),
        }
    }

    /// What a checksum covers is there, and is not the checksum.
    fn checksum(
        &self,
        path: &str,
        field: &Field,
        kind: ChecksumKind,
        [from, to]: [i64; 2],
    ) -> Result<(), LayoutError> {
        let key = |name: &str| format!("{path}.{name}");
        let least = self.block.bytes_min() as i64;
        // In the shortest block, as in longer ones: positions from both ends.
        let place = |at: i64| if at < 0 { least + at } else { at };
        let is_present = |at: i64| (-least..=least).contains(&at);
        for (name, at) in [("from", from), ("to", to)] {
            if !is_present(at) {
                return expected(
                    &key(name),
                    format!("a byte of the shortest block, -{least} to {least}"),
                    at,
                );
            }
        }
        // Between both ends there may be nothing: the body of the shortest block.
        let is_fixed = (from < 0) == (to < 0);
        let is_reversed = place(from) > place(to) || is_fixed && from == to;
        if is_reversed || from < 0 && to >= 0 {
            return expected(&key("to"), format!("an end behind byte {from}"), to);
        }
        match kind {
            ChecksumKind::Copy if from < 0 || to < 0 => {
                let message = "bytes from the beginning with kind = \"copy\"";
                expected(&key("to"), message, format!("{from} to {to}"))
            }
            ChecksumKind::Copy if field.bits.is_some() => {
                expected(&key("bits"), "whole bytes with kind = \"copy\"", "bits")
            }
            ChecksumKind::Copy => Ok(()),
            _ => {
                let (begin, end) = (place(field.at), place(field.at) + i64::from(field.width));
                if place(from) < end && begin < place(to) {
                    let message = format!("bytes {from} to {to} overlap it at {}", field.at);
                    return refuse(path.to_owned(), message);
                }
                Ok(())
            }
        }
    }

    /// Values whose parts are several fields.
    fn values(&self) -> Result<(), LayoutError> {
        let mut seen = BTreeSet::new();
        for (index, field) in self.block.fields.iter().enumerate() {
            let Some(role) = field.role() else { continue };
            let path = format!("{}.fields[{index}]", self.path);
            let name = role.name();
            if matches!(role, Role::Checksum { .. }) {
                if !matches!(role, Role::Checksum { kind: ChecksumKind::Copy, .. })
                    && field.range().1 != 32
                {
                    return expected(&format!("{path}.bits"), "32 bits", field.range().1);
                }
                continue;
            }
            if !seen.insert(name) {
                self.other_part(&path, name, role, field)?;
                self.own_bits(&path, name, index)?;
                continue;
            }
            let (least, most) = role.bits();
            let bits = self.block.bits_of(name);
            if !(least..=most).contains(&bits) {
                let expected = match least == most {
                    true => format!(
                        "a value of {}",
                        catchment_model::units::counted(most.into(), "bit")
                    ),
                    false => format!("a value of {least} to {most} bits"),
                };
                return refuse(
                    format!("{path}.bits"),
                    format!("{name}: expected {expected}, got {bits}"),
                );
            }
            self.length_range(&path, role)?;
            match role {
                Role::Time { rate_hz: None } => return expected(&path, "rate with time", "none"),
                Role::Position { .. } if !self.block.has("total") => {
                    return expected(&path, "total with position", "none");
                }
                Role::Total { .. } if !self.block.has("position") => {
                    return expected(&path, "position with total", "none");
                }
                Role::Seconds if !self.block.has("time") => {
                    return expected(&path, "time with seconds", "none");
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A part has bits that no earlier part of its value has, as far as they are of one word.
    fn own_bits(&self, path: &str, name: &str, index: usize) -> Result<(), LayoutError> {
        let field = &self.block.fields[index];
        let is_part = |one: &Field| one.role().is_some_and(|role| role.name() == name);
        let before = self.block.fields[..index].iter().enumerate().filter(|(_, one)| is_part(one));
        let is_same_word = |one: &Field| (one.at, one.width) == (field.at, field.width);
        let (first, bits) = field.range();
        for (other, one) in before.filter(|(_, one)| is_same_word(one)) {
            let (other_first, other_bits) = one.range();
            if first < other_first + other_bits && other_first < first + bits {
                let got = format!("bits of fields[{other}]");
                return expected(path, format!("bits of {name} once"), got);
            }
        }
        Ok(())
    }

    /// A length whose largest value is as long as the head.
    fn length_range(&self, path: &str, role: Role) -> Result<(), LayoutError> {
        let Role::Length { unit, plus } = role else { return Ok(()) };
        let (bits, head) = (self.block.bits_of("length"), self.block.head);
        let value = u64::MAX >> (64 - bits);
        let most = i128::from(value) * i128::from(unit) + i128::from(plus);
        match most >= i128::from(head) {
            true => Ok(()),
            false => {
                let wanted = format!("lengths that reach the head of {head} bytes");
                expected(path, wanted, format!("{most} bytes at most, in {bits} bits"))
            }
        }
    }

    /// A part that is not the first: what belongs to the value stands with that.
    fn other_part(
        &self,
        path: &str,
        name: &str,
        role: Role,
        field: &Field,
    ) -> Result<(), LayoutError> {
        let first = self.block.with(name).next().expect("it was seen");
        match role {
            Role::Length { unit, plus } if (unit, plus) != (1, 0) => {
                expected(path, "unit and plus with the first part of length", "them here")
            }
            Role::Position { unit } | Role::Total { unit } if unit != 1 => {
                expected(path, format!("unit with the first part of {name}"), "it here")
            }
            Role::Length { .. } if (first.at < 0) != (field.at < 0) => {
                expected(&format!("{path}.at"), "all parts of length in head or tail", "both")
            }
            Role::Time { rate_hz: Some(_) } => {
                expected(path, "rate with the first part of time", "it here")
            }
            _ => Ok(()),
        }
    }
}

fn expected<T>(
    key: &str,
    expected: impl std::fmt::Display,
    got: impl std::fmt::Display,
) -> Result<T, LayoutError> {
    refuse(key.to_owned(), format!("expected {expected}, got {got}"))
}

fn refuse<T>(key: String, message: String) -> Result<T, LayoutError> {
    Err(LayoutError { key, message })
}
