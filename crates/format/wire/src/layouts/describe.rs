//! What a datagram was understood as, in words: for people, not for every packet.

use std::fmt::Write as _;

use super::check::label;
use super::declaration::{Field, FieldKind};
use super::walk::{CheckedBlock, Fault, FaultKind, Observer};
use super::{Layouts, REASONS};

/// What a datagram was understood as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The layout's name; empty if no layout of its source fits.
    pub layout: String,
    /// A line for each block, and for each field in it.
    pub lines: Vec<String>,
    /// Bytes of the datagram that are in no accepted block and no padding: of a refused one, those
    /// from the refused block on.
    pub left_over: usize,
    /// Fragments in it.
    pub fragments: usize,
    /// Of each fragment the id that it carries; 0 if the layout has none.
    pub ids: Vec<u32>,
    /// Why it is refused: the reason's name, and a sentence.
    pub refused: Option<(&'static str, String)>,
}

struct Lines<'a> {
    layouts: &'a Layouts,
    lines: Vec<String>,
    /// Bytes of blocks that were checked, from whichever end.
    checked: usize,
}

impl Observer for Lines<'_> {
    fn block(&mut self, seen: &CheckedBlock<'_>) {
        let layout = self.layouts.layout();
        let (block, name) = match seen.record {
            None => (&layout.packet, "packet".to_owned()),
            Some(kind) => (&layout.records[kind], label(kind, &layout.records[kind])),
        };
        let skipped = if block.skip { ", skipped" } else { "" };
        let order = if seen.is_big { "big" } else { "little" };
        let (begin, end) = (seen.offset, seen.offset + seen.bytes.len());
        self.lines.push(format!("{name}: bytes {begin} to {}, {order}{skipped}", end - 1));
        self.checked += match seen.record {
            None => block.head as usize + seen.bytes.len() - seen.body_end,
            Some(_) => seen.bytes.len() + seen.padding,
        };
        self.lines.extend(block.fields.iter().map(|field| line(field, seen)));
        let body = seen.body_end - block.head as usize;
        let first = begin + block.head as usize;
        let padding = seen.bytes.len() - block.tail as usize - seen.body_end + seen.padding;
        let mut line = format!("  body: {body} bytes from byte {first}");
        if padding > 0 {
            write!(line, ", then {padding} bytes of padding").expect("a string takes all");
        }
        self.lines.push(line);
    }
}

/// The kinds of the records that were checked.
struct Kinds(Vec<usize>);

impl Observer for Kinds {
    fn block(&mut self, seen: &CheckedBlock<'_>) {
        self.0.extend(seen.record);
    }
}

impl Layouts {
    /// The kinds of a packet's records, in the order in which they are read.
    pub fn kinds_of(&self, bytes: &[u8]) -> Vec<usize> {
        let mut kinds = Kinds(Vec::new());
        // Of a packet that is refused, those before the fault.
        let _walked = self.compiled.walk(bytes, &mut Vec::new(), &mut kinds);
        kinds.0
    }

    /// Decodes a datagram and says how it was understood, field by field.
    pub fn describe(&self, bytes: &[u8]) -> Description {
        let mut watch = Lines { layouts: self, lines: Vec::new(), checked: 0 };
        let mut parts = Vec::new();
        let refused = self.compiled.walk(bytes, &mut parts, &mut watch).err();
        let rest = bytes.len().saturating_sub(watch.checked);
        let left_over = if refused.is_some() { rest } else { 0 };
        if refused.is_none() && rest > 0 && self.layout.packet.skip_rest {
            watch.lines.push(format!("rest: {rest} bytes, skipped"));
        }
        if refused.is_some() {
            parts.clear();
        }
        let ids = parts.iter().map(|part| part.id).collect();
        let reason = |fault: &Fault| REASONS[fault.kind as usize].name;
        let refused = refused.map(|fault| (reason(&fault), self.sentence(&fault, bytes)));
        let layout = self.layout.name.clone();
        let (lines, fragments) = (watch.lines, parts.len());
        Description { layout, lines, left_over, fragments, ids, refused }
    }

    /// Describes the packet with which the bytes of a connection begin, and says how many of them
    /// are its own: all, if nobody can tell. None if it has not arrived whole.
    pub fn describe_next(&self, bytes: &[u8]) -> Option<(usize, Description)> {
        let fault = match self.compiled.packet_bytes(bytes) {
            Ok(Some(used)) if used <= bytes.len() => {
                return Some((used, self.describe(&bytes[..used])));
            }
            Ok(_) => return None,
            Err(fault) => fault,
        };
        let refused = Some((REASONS[fault.kind as usize].name, self.sentence(&fault, bytes)));
        let (layout, left_over) = (self.layout.name.clone(), bytes.len());
        let (lines, ids) = (Vec::new(), Vec::new());
        let description = Description { layout, lines, left_over, fragments: 0, ids, refused };
        Some((bytes.len(), description))
    }

    /// Why a datagram is refused, in a sentence.
    pub(super) fn sentence(&self, fault: &Fault, bytes: &[u8]) -> String {
        let Fault { kind, record, offset, got } = *fault;
        let least = self.compiled.packet.least;
        let place = match self.compiled.from_end && record.is_some() {
            true => format!("that ends before byte {offset}"),
            false => format!("at byte {offset}"),
        };
        let block = match record {
            None if kind == FaultKind::Record => format!("the record {place}"),
            None => "the packet".to_owned(),
            Some(kind) => format!("{} {place}", label(kind, &self.layout.records[kind])),
        };
        match kind {
            FaultKind::Short => format!("a packet has at least {least} bytes, got {got}"),
            FaultKind::Length if got > 0 => {
                format!("the packet's length says a datagram of {got} bytes, got {}", bytes.len())
            }
            FaultKind::Length => {
                format!("the packet's length does not fit a datagram of {} bytes", bytes.len())
            }
            FaultKind::LeftOver => {
                format!("{got} bytes are left over, which are too few for a record: {block}")
            }
            FaultKind::Order => {
                format!("no byte order, or both, fits the word that tells it: {block}")
            }
            FaultKind::Constant => {
                let wrong = self.wrong(bytes, |kind| match kind {
                    FieldKind::Equals(value) | FieldKind::Choose(value) => Some(value),
                    _ => None,
                });
                format!("{block}: {wrong}")
            }
            FaultKind::Range => format!("{block}: expected fewer ticks than a second has"),
            FaultKind::Checksum => format!("{block}: its checksum is not that of its bytes"),
            FaultKind::Record => {
                format!("{block}: its length, its order or a constant is impossible")
            }
            FaultKind::RecordVariant => format!("no kind of record fits at byte {offset}"),
            FaultKind::Part => format!("{block}: its part goes beyond the fragment's end"),
            FaultKind::Count => {
                format!(
                    "the packet says another number of records, or it has more than fit, got {got}"
                )
            }
        }
    }

    /// Why the packet has another layout of its source: it is shorter than the head, its byte order
    /// is not told, or the first `choose` that does not hold.
    pub(super) fn not_chosen(&self, bytes: &[u8]) -> String {
        let (name, head) = (&self.layout.name, self.compiled.packet.head);
        if bytes.len() < head {
            return format!("{name:?} has a head of {head} bytes, got {}", bytes.len());
        }
        if self.compiled.order(bytes).is_none() {
            return format!("{name:?} has a word for its byte order, which tells none or both");
        }
        let wrong = self.wrong(bytes, |kind| match kind {
            FieldKind::Choose(value) => Some(value),
            _ => None,
        });
        format!("{name:?} {wrong}")
    }

    /// The first of some constants of the packet that does not hold.
    fn wrong(&self, bytes: &[u8], constant: impl Fn(FieldKind) -> Option<u64>) -> String {
        let fields = self.layout.packet.fields.iter();
        for (field, expected) in fields.filter_map(|one| Some((one, constant(one.kind)?))) {
            let found = [false, true].map(|is_big| value(field, bytes, is_big));
            if !found.contains(&expected) {
                let got = found[usize::from(self.layout.order == super::Order::Big)];
                let at = field.at;
                return format!("expected {expected:#x} at byte {at}, got {got:#x}");
            }
        }
        "a constant does not hold".to_owned()
    }
}

/// A field, as a line.
fn line(field: &Field, seen: &CheckedBlock<'_>) -> String {
    let (first, bits) = field.range();
    let got = value(field, seen.bytes, seen.is_big);
    let place = format!(
        "byte {}, bits {first} to {}",
        begin(field, seen.bytes) + seen.offset,
        first + bits - 1
    );
    match field.kind {
        FieldKind::Is(role) => format!("  {}: {got} ({got:#x}), {place}", role.name()),
        FieldKind::Equals(value) => format!("  equals {value:#x}: {got:#x}, {place}"),
        FieldKind::Choose(value) => format!("  choose {value:#x}: {got:#x}, {place}"),
        FieldKind::Each(value) => format!("  each {value:#x}: in all words of the body"),
    }
}

fn begin(field: &Field, block: &[u8]) -> usize {
    let end = if field.at < 0 { block.len() } else { 0 };
    end.saturating_add_signed(field.at as isize)
}

/// A field's bits, byte by byte: another way than that of the loads, so that each tests the other.
pub(super) fn value(field: &Field, block: &[u8], is_big: bool) -> u64 {
    let begin = begin(field, block);
    let word = block.get(begin..begin + field.width as usize).unwrap_or_default();
    let add = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
    let word = match is_big {
        true => word.iter().fold(0, add),
        false => word.iter().rev().fold(0, add),
    };
    let (first, bits) = field.range();
    (word >> first) & (u64::MAX >> (64 - bits))
}
