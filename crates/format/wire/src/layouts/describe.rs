//! What a datagram was understood as, in words: for people, not for every packet.

use std::fmt::Write as _;

use super::check::label;
use super::refusal::{Refusal, RefusedRecord};
use super::values::lines;
use super::walk::{CheckedBlock, Fault, Observer};
use super::{Layouts, REASONS};

/// What a datagram was understood as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The layout's name; empty if no layout of its source fits.
    pub layout: String,
    /// A line for each block, and for each value in it. Of the block that is refused, they end with
    /// the wrong one.
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
    refused: RefusedRecord,
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
        let bytes = (seen.bytes, seen.offset, seen.is_big);
        self.lines.extend(lines(block, block.fields.len(), bytes, |_| true));
        let body = seen.body_end - block.head as usize;
        let first = begin + block.head as usize;
        let padding = seen.bytes.len() - block.tail as usize - seen.body_end + seen.padding;
        let mut line = format!("  body: {body} bytes from byte {first}");
        if padding > 0 {
            write!(line, ", then {padding} bytes of padding").expect("a string takes all");
        }
        self.lines.push(line);
    }

    fn refused(&mut self, seen: &CheckedBlock<'_>) {
        self.refused.refused(seen);
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
        let (lines, refused) = (Vec::new(), RefusedRecord::default());
        let mut watch = Lines { layouts: self, lines, checked: 0, refused };
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
        let Lines { mut lines, refused: record, .. } = watch;
        let refused = refused.map(|fault| {
            let refusal = self.refusal(&fault, bytes, &record, false);
            lines.extend(refusal.lines);
            (reason(&fault), refusal.sentence)
        });
        let (layout, fragments) = (self.layout.name.clone(), parts.len());
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
        let record = RefusedRecord::default();
        let Refusal { lines, sentence } = self.refusal(&fault, bytes, &record, true);
        let refused = Some((reason(&fault), sentence));
        let (layout, left_over, ids) = (self.layout.name.clone(), bytes.len(), Vec::new());
        let description = Description { layout, lines, left_over, fragments: 0, ids, refused };
        Some((bytes.len(), description))
    }
}

fn reason(fault: &Fault) -> &'static str {
    REASONS[fault.kind as usize].name
}
