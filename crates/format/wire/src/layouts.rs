//! `layout`: a board's packets as a configuration declares them, docs/spec/layouts.md.
//!
//! A [`Layout`] is checked once, when the protocol is made ([`Layouts::new`]), and compiled to
//! *loads*: each field is one read of 8 bytes at a fixed place, a shift and a mask. Decoding
//! allocates nothing, does not recurse, and looks at each byte a bounded number of times: the
//! fields of a block are at most [`FIELDS_MAX`], the kinds of records [`RECORDS_MAX`], the records
//! of a datagram [`PARTS_MAX`](crate::PARTS_MAX).
//!
//! Layouts with at most one kind of record and values of one part are decoded by the *straight*
//! path (`straight.rs`); packets that it does not accept, and other layouts, by the general one
//! (`walk.rs`). Of several layouts of a source, `variants.rs` gives each packet to one.

mod check;
mod compile;
mod declaration;
mod describe;
mod encode;
mod examples;
mod refusal;
mod straight;
#[cfg(test)]
mod tests;
mod values;
mod variants;
mod walk;

use std::marker::PhantomData;

use catchment_model::Entry;

pub use check::{FIELDS_MAX, LayoutError, RECORDS_MAX};
pub use declaration::{Block, ChecksumKind, Field, FieldKind, Layout, Order, Recorded, Role};
pub use describe::Description;
pub use encode::{Cut, EncodeError, PacketShape, RecordShape, RecordValues, Values};

pub use examples::alpha_72;
#[doc(hidden)]
pub use examples::{example_counted, example_layouts, example_variants};
pub use variants::{VARIANTS_MAX, Variants};

use crate::decoder::{Decoded, Decoder, Part, Protocol, Reason, Transport};
use compile::Compiled;
use refusal::RefusedRecord;
use straight::{Shape, Straight, shaped};
use walk::{Accepted, Fault};

/// The protocol's name in configurations and files.
pub const NAME: &str = "layout";

/// The protocol of one layout. A fragment is a record, or a packet without records. Sources whose
/// packets have several layouts have [`Variants`].
#[derive(Clone, Debug)]
pub struct Layouts {
    layout: Layout,
    compiled: Compiled,
    /// The straight path, or why the layout has none.
    straight: Result<Straight, &'static str>,
    key_bits: u32,
    /// Ticks of a second, if numbers are times.
    clock_hz: Option<u64>,
    sequence_bits: u32,
}

impl Layouts {
    /// The protocol of a declaration.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn new(layout: Layout) -> Result<Self, LayoutError> {
        check::check(&layout)?;
        let clock = if layout.has_keys() { None } else { layout.clock() };
        Ok(Self::matched_by(layout, clock))
    }

    /// The same, whose fragments are matched by their times, also where they have keys.
    ///
    /// # Errors
    /// What its fragments lack for that.
    pub fn by_time(&self) -> Result<Self, &'static str> {
        if self.layout.has_seconds() && !self.layout.has_long_seconds() {
            return Err("seconds of 32 bits or more beside every time");
        }
        let clock = self.layout.clock().ok_or("a time of as many bits in every fragment")?;
        Ok(Self::matched_by(self.layout.clone(), Some(clock)))
    }

    /// By the time with so many bits and ticks in a second, or by keys.
    fn matched_by(layout: Layout, clock: Option<(u32, u64)>) -> Self {
        let kinds = layout.records.iter().filter(|one| !one.skip).chain([&layout.packet]);
        let key_bits = kinds.map(|one| one.bits_of("key")).find(|bits| *bits > 0).unwrap_or(0);
        let by_time = clock.is_some() || !layout.has_keys();
        // With seconds, a time is all ticks since their beginning, modulo 2^64.
        let whole = layout.has_seconds().then_some(u64::BITS);
        let compiled = Compiled::new(&layout, by_time);
        let straight = Straight::new(&compiled);
        Self {
            compiled,
            straight,
            key_bits: clock.map_or(key_bits, |(bits, _)| whole.unwrap_or(bits)),
            clock_hz: clock.map(|(_, rate_hz)| rate_hz),
            sequence_bits: layout.packet.bits_of("sequence"),
            layout,
        }
    }

    /// The declaration.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The most bytes of a fragment, if the declaration says so.
    pub fn bytes_max(&self) -> Option<u64> {
        let Layout { packet, records, .. } = &self.layout;
        if self.layout.has_parts() {
            return None;
        }
        let mut kinds = records.iter().filter(|one| !one.skip);
        let of_records = kinds.try_fold(0, |most, one| Some(one.bytes_max?.max(most)));
        of_records.filter(|most| *most > 0).or(packet.bytes_max)
    }

    /// Whether its packets are counted, so that none is taken for a repetition.
    pub fn has_sequence(&self) -> bool {
        self.sequence_bits > 0
    }

    /// Why the straight path is not taken; none if it is.
    pub fn general(&self) -> Option<&'static str> {
        self.straight.as_ref().err().copied()
    }
}

impl Layouts {
    /// Decodes a packet into `parts`, which is empty. What stands there after a fault does not
    /// count.
    #[inline(always)]
    fn decode<S: Shape>(&self, bytes: &[u8], parts: &mut Vec<Part>) -> Result<Accepted, Fault> {
        if let Ok(straight) = &self.straight {
            if let Some(accepted) = straight.decode::<S>(&self.compiled, bytes, parts) {
                return Ok(accepted);
            }
            parts.clear();
        }
        self.compiled.walk_unobserved(bytes, parts)
    }

    /// A decoder that continues sequence numbers of so many bits over their wrap.
    fn decoder_of(&self, sequence_bits: u32) -> Box<dyn Decoder> {
        let shape = self.straight.as_ref().map_or((0, false, false), Straight::shape);
        shaped!(shape, Known => self.shaped::<Known>(sequence_bits))
    }

    fn shaped<S: Shape>(&self, sequence_bits: u32) -> Box<dyn Decoder> {
        let unwrapped = Unwrapped::of(sequence_bits);
        Box::new(LayoutDecoder::<S> { layouts: self.clone(), unwrapped, shape: PhantomData })
    }
}

impl Protocol for Layouts {
    fn name(&self) -> &str {
        NAME
    }

    fn reasons(&self) -> &[Reason] {
        &REASONS[..variants::REASON]
    }

    fn number_bits(&self) -> u32 {
        self.key_bits
    }

    fn clock_hz(&self) -> Option<u64> {
        self.clock_hz
    }

    fn declared(&self) -> &[Layouts] {
        std::slice::from_ref(self)
    }

    fn id_bits(&self) -> u32 {
        let blocks = std::iter::once(&self.layout.packet).chain(&self.layout.records);
        blocks.map(|block| block.bits_of("source")).max().unwrap_or(0)
    }

    fn names_groups(&self) -> bool {
        self.layout.has_groups()
    }

    fn has_tags(&self) -> bool {
        self.layout.has_tags()
    }

    fn transport(&self) -> Transport {
        match self.layout.is_stream {
            true => Transport::Connections,
            false => Transport::Datagrams,
        }
    }

    fn fragment_bytes_max(&self) -> u64 {
        if self.layout.has_parts() {
            return PARTED_BYTES_DEFAULT;
        }
        let most = self.layout.packet_bytes_most();
        self.bytes_max().map_or(most, |bytes| bytes.min(most))
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        self.decoder_of(self.sequence_bits)
    }
}

/// The longest fragment in parts, unless its source says otherwise.
const PARTED_BYTES_DEFAULT: u64 = 4 << 20;

/// The reasons for which a packet is refused, by the numbers of `walk::FaultKind`; the last one,
/// [`variants::REASON`], by sources with several layouts alone.
const REASONS: [Reason; 12] = [
    Reason { name: "short", kind: Entry::PacketsMalformedShort },
    Reason { name: "length", kind: Entry::PacketsMalformedLength },
    Reason { name: "left_over", kind: Entry::PacketsMalformedLength },
    Reason { name: "order", kind: Entry::PacketsMalformedHeader },
    Reason { name: "constant", kind: Entry::PacketsMalformedHeader },
    Reason { name: "range", kind: Entry::PacketsMalformedHeader },
    Reason { name: "checksum", kind: Entry::PacketsMalformedChecksum },
    Reason { name: "record", kind: Entry::PacketsMalformedFragment },
    Reason { name: "record_variant", kind: Entry::PacketsMalformedFragment },
    Reason { name: "count", kind: Entry::PacketsMalformedFragment },
    Reason { name: "part", kind: Entry::PacketsMalformedFragment },
    Reason { name: "variant", kind: Entry::PacketsMalformedHeader },
];

/// The shape is that of the straight path.
struct LayoutDecoder<S> {
    layouts: Layouts,
    unwrapped: Unwrapped,
    shape: PhantomData<S>,
}

impl<S: Shape> Decoder for LayoutDecoder<S> {
    #[inline]
    fn decode(
        &mut self,
        _now_ns: u64,
        bytes: &[u8],
        parts: &mut Vec<Part>,
    ) -> Result<Decoded, usize> {
        if self.layouts.layout.is_stream {
            return self.next_packet(bytes, parts);
        }
        self.packet(bytes, parts)
    }

    fn disown(&mut self) {
        self.unwrapped.take_back();
    }

    fn explain(&self, bytes: &[u8]) -> String {
        let compiled = &self.layouts.compiled;
        let mut record = RefusedRecord::default();
        let bytes = match self.layouts.layout.is_stream {
            true => match compiled.packet_bytes(bytes) {
                Ok(whole) => &bytes[..whole.unwrap_or(0).min(bytes.len())],
                Err(fault) => return self.layouts.refusal(&fault, bytes, &record, true).sentence,
            },
            false => bytes,
        };
        let fault = compiled.walk(bytes, &mut Vec::new(), &mut record).err();
        let sentence = |fault| self.layouts.refusal(&fault, bytes, &record, false).sentence;
        fault.map_or_else(String::new, sentence)
    }
}

impl<S: Shape> LayoutDecoder<S> {
    /// The packet that begins a stream, if it has arrived.
    fn next_packet(&mut self, bytes: &[u8], parts: &mut Vec<Part>) -> Result<Decoded, usize> {
        let used = match self.layouts.compiled.packet_bytes(bytes) {
            Ok(Some(used)) if used <= bytes.len() => used,
            Ok(_) => return Ok(Decoded::default()),
            Err(fault) => return Err(fault.kind as usize),
        };
        let decoded = self.packet(&bytes[..used], parts)?;
        Ok(Decoded { used, ..decoded })
    }

    #[inline(always)]
    fn packet(&mut self, bytes: &[u8], parts: &mut Vec<Part>) -> Result<Decoded, usize> {
        match self.layouts.decode::<S>(bytes, parts) {
            Ok(accepted) => {
                let sequence = accepted.sequence.map(|number| self.unwrapped.take(number));
                Ok(Decoded { sequence, skipped: accepted.skipped, ..Decoded::default() })
            }
            Err(fault) => {
                parts.clear();
                Err(fault.kind as usize)
            }
        }
    }
}

/// Numbers that wrap at their bits, continued: each is the one nearest to the one before.
#[derive(Clone, Copy, Debug)]
struct Unwrapped {
    bits: u32,
    newest: Option<u64>,
    /// The newest one before it.
    before: Option<u64>,
}

impl Unwrapped {
    fn of(bits: u32) -> Self {
        Self { bits, newest: None, before: None }
    }

    /// The last number is not one of these. From one that is half a cycle away, the next one would
    /// be continued into another cycle.
    fn take_back(&mut self) {
        self.newest = self.before;
    }

    fn take(&mut self, number: u64) -> u64 {
        if self.bits > UNWRAPPED_BITS_MAX {
            return number;
        }
        let whole = 1_u64 << self.bits;
        // A sequence of numbers that leads to either end goes around it, as the numbers do.
        let newest = self.newest.unwrap_or((1 << 62) + number);
        let ahead = number.wrapping_sub(newest) & (whole - 1);
        let taken = match ahead < whole / 2 {
            true => newest.wrapping_add(ahead),
            false => newest.wrapping_add(ahead).wrapping_sub(whole),
        };
        self.before = self.newest.replace(taken);
        taken
    }
}

/// Wider numbers never wrap.
const UNWRAPPED_BITS_MAX: u32 = 48;
