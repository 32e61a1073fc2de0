//! Several layouts of one source, of which constants in the head of a packet choose: event data and
//! settings, say.
//!
//! Each packet is given to the decoder of the first layout all of whose `choose` hold, so that each
//! keeps its own path, and a source with one layout pays nothing. What a receiver knows of a source
//! (bits of its numbers, ids, groups) is the same in all of them. Sequence numbers count the
//! packets of all, and are continued over their wrap here: otherwise a rare kind of packet, between
//! two of which they wrap several times, would look like losses.

use super::check::hides;
use super::walk::FaultKind;
use super::{Description, LayoutError, Layouts, NAME, REASONS, Unwrapped};
use crate::decoder::{Decoded, Decoder, Part, Protocol, Reason};

/// The protocol of several layouts of datagrams.
#[derive(Clone, Debug)]
pub struct Variants {
    layouts: Vec<Layouts>,
    /// The first one with fragments.
    first: usize,
    sequence_bits: u32,
}

/// Layouts of one source.
pub const VARIANTS_MAX: usize = 8;

/// The index of the reason for packets that fit no layout.
pub(super) const REASON: usize = REASONS.len() - 1;

impl Variants {
    /// The protocol of some layouts, in the order in which they are tried.
    ///
    /// # Errors
    /// Why they are not those of one source; the key is the index of the wrong one, such as `[1]`.
    pub fn new(layouts: Vec<Layouts>) -> Result<Self, LayoutError> {
        let refuse = |key: String, message: String| Err(LayoutError { key, message });
        if layouts.len() > VARIANTS_MAX {
            let message = format!("expected at most {VARIANTS_MAX} layouts, got {}", layouts.len());
            return refuse(String::new(), message);
        }
        let Some(first) = layouts.iter().position(|one| !one.layout.packet.skip) else {
            return refuse(String::new(), "expected a layout with fragments, got none".into());
        };
        let mut sequences = layouts.iter().map(|one| one.sequence_bits).filter(|bits| *bits > 0);
        let sequence_bits = sequences.next().unwrap_or(0);
        for (index, one) in layouts.iter().enumerate() {
            let (key, name) = (format!("[{index}]"), &one.layout.name);
            if one.layout.is_stream {
                return refuse(key, format!("expected layouts of datagrams, {name:?} is a stream"));
            }
            for other in &layouts[..index] {
                let is_same_order = other.layout.order == one.layout.order;
                match hides(&other.layout.packet, &one.layout.packet) {
                    Some(why) if is_same_order || other.layout.packet.choice().is_empty() => {
                        let other = &other.layout.name;
                        let message = format!("{name:?} can never be chosen: {other:?} has {why}");
                        return refuse(key, message);
                    }
                    _ => {}
                }
            }
            if let Some(differs) = one.differs(&layouts[first], sequence_bits) {
                let other = &layouts[first].layout.name;
                return refuse(key, format!("expected {differs} in {name:?} as in {other:?}"));
            }
        }
        Ok(Self { layouts, first, sequence_bits })
    }

    /// Decodes a datagram and says how it was understood, and as which layout.
    pub fn describe(&self, bytes: &[u8]) -> Description {
        match self.chosen(bytes) {
            Some(index) => self.layouts[index].describe(bytes),
            None => Description {
                layout: String::new(),
                lines: Vec::new(),
                left_over: bytes.len(),
                fragments: 0,
                ids: Vec::new(),
                refused: Some((REASONS[self.refusal(bytes)].name, self.sentence(bytes))),
            },
        }
    }

    /// The layout of a datagram.
    #[inline]
    fn chosen(&self, bytes: &[u8]) -> Option<usize> {
        self.layouts.iter().position(|one| one.is_chosen(bytes))
    }

    /// Bytes of the shortest head.
    fn least(&self) -> usize {
        self.layouts.iter().map(|one| one.compiled.packet.head).min().unwrap_or(0)
    }

    /// The reason for refusing a datagram of which no layout was chosen.
    fn refusal(&self, bytes: &[u8]) -> usize {
        if bytes.len() < self.least() { FaultKind::Short as usize } else { REASON }
    }

    /// The same as a sentence.
    fn sentence(&self, bytes: &[u8]) -> String {
        if bytes.len() < self.least() {
            return format!("a packet has at least {} bytes, got {}", self.least(), bytes.len());
        }
        let each: Vec<String> = self.layouts.iter().map(|one| one.not_chosen(bytes)).collect();
        format!("it has no layout of its source: {}", each.join("; "))
    }
}

impl Layouts {
    /// Whether a datagram has this layout, as far as its `choose` say.
    #[inline]
    fn is_chosen(&self, bytes: &[u8]) -> bool {
        let packet = &self.compiled.packet;
        let holds = |order: usize| packet.loads[order].choose.iter().all(|one| one.holds(bytes));
        bytes.len() >= packet.head && self.compiled.order(bytes).is_some_and(holds)
    }

    /// What of it is not as in the first layout of its source, or as in those with a sequence.
    fn differs(&self, first: &Self, sequence_bits: u32) -> Option<&'static str> {
        let numbers = |one: &Self| (one.key_bits, one.clock_hz, one.layout.has_seconds());
        let is_any = self.layout.packet.skip;
        match () {
            () if ![0, sequence_bits].contains(&self.sequence_bits) => {
                Some("a sequence of as many bits")
            }
            () if is_any => None,
            () if numbers(self) != numbers(first) => {
                Some("keys, or times, of as many bits, and of the same rate")
            }
            () if (self.id_bits() > 0) != (first.id_bits() > 0) => Some("a source, or none,"),
            () if self.names_groups() != first.names_groups() => Some("groups, or none,"),
            () => None,
        }
    }
}

impl Protocol for Variants {
    fn name(&self) -> &str {
        NAME
    }

    fn reasons(&self) -> &[Reason] {
        &REASONS
    }

    fn number_bits(&self) -> u32 {
        self.layouts[self.first].number_bits()
    }

    fn clock_hz(&self) -> Option<u64> {
        self.layouts[self.first].clock_hz()
    }

    fn declared(&self) -> &[Layouts] {
        &self.layouts
    }

    fn id_bits(&self) -> u32 {
        let fragments = self.layouts.iter().filter(|one| !one.layout.packet.skip);
        fragments.map(Layouts::id_bits).min().unwrap_or(0)
    }

    fn names_groups(&self) -> bool {
        self.layouts[self.first].names_groups()
    }

    fn has_tags(&self) -> bool {
        self.layouts.iter().any(Layouts::has_tags)
    }

    fn fragment_bytes_max(&self) -> u64 {
        let fragments = self.layouts.iter().filter(|one| !one.layout.packet.skip);
        fragments.map(Layouts::fragment_bytes_max).max().unwrap_or(0)
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        // Numbers of all their bits do not wrap in the layouts' own decoders.
        let decoders = self.layouts.iter().map(|one| one.decoder_of(u64::BITS)).collect();
        let unwrapped = Unwrapped::of(self.sequence_bits);
        Box::new(VariantDecoder { variants: self.clone(), decoders, unwrapped })
    }
}

struct VariantDecoder {
    variants: Variants,
    decoders: Vec<Box<dyn Decoder>>,
    unwrapped: Unwrapped,
}

impl Decoder for VariantDecoder {
    #[inline]
    fn decode(
        &mut self,
        now_ns: u64,
        bytes: &[u8],
        parts: &mut Vec<Part>,
    ) -> Result<Decoded, usize> {
        let Some(index) = self.variants.chosen(bytes) else {
            return Err(self.variants.refusal(bytes));
        };
        let decoded = self.decoders[index].decode(now_ns, bytes, parts)?;
        let sequence = decoded.sequence.map(|number| self.unwrapped.take(number));
        Ok(Decoded { sequence, ..decoded })
    }

    fn disown(&mut self) {
        self.unwrapped.take_back();
    }

    fn explain(&self, bytes: &[u8]) -> String {
        match self.variants.chosen(bytes) {
            Some(index) => {
                let name = &self.variants.layouts[index].layout.name;
                format!("as {name:?}: {}", self.decoders[index].explain(bytes))
            }
            None => self.variants.sentence(bytes),
        }
    }
}
