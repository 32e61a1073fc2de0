//! A large column encoded in pieces, by several encoders at once.
//!
//! Blocks of a blosc chunk and of `for`, and chunks of a pcodec file, do not depend on each other:
//! encoded apart and put one behind the other, they are one column as any reader takes it. What
//! stands in front of them, the *head*, is known when all are encoded. LZ4 and Zstandard alone
//! have no such borders: a large column for which they are asked is a blosc chunk of their blocks,
//! not shuffled.

use std::cell::Cell;
use std::ops::Range;

use crate::blosc::{self, Filter, Inner};
use crate::codec::Codec;
use crate::coding::Coding;
use crate::element::Element;
use crate::encode::{ColumnEncoder, LZ4_RAW_BYTES_MAX, SAVING_MIN_DIVISOR};
use crate::{numbers, packing};

/// How a column of that many raw bytes is encoded in pieces.
#[derive(Clone, Debug)]
pub struct PieceCoding {
    coding: Coding,
    element: Element,
    raw_bytes: usize,
    piece_bytes: usize,
}

impl PieceCoding {
    /// Pieces of `piece_bytes` raw bytes or a little more. None if the coding is none, or if the
    /// column is too large for any codec or has a rest that the codec has no place for.
    pub fn new(
        coding: Coding,
        element: Element,
        raw_bytes: usize,
        piece_bytes: usize,
    ) -> Option<Self> {
        let coding = coding.for_element(element);
        let is_whole = raw_bytes.is_multiple_of(element.size());
        let fits = !matches!(coding, Coding::Pcodec { .. }) || is_whole;
        if coding == Coding::None || raw_bytes > LZ4_RAW_BYTES_MAX || !fits {
            return None;
        }
        let piece_bytes = piece_bytes.max(1).next_multiple_of(block_bytes(coding, element));
        Some(Self { coding, element, raw_bytes, piece_bytes })
    }

    /// The codec of the column.
    pub fn codec(&self) -> Codec {
        match self.coding.codec() {
            Codec::Lz4 | Codec::Zstd => Codec::Blosc,
            codec => codec,
        }
    }

    /// The number of pieces.
    pub fn count(&self) -> usize {
        self.raw_bytes.div_ceil(self.piece_bytes)
    }

    /// The raw bytes of a piece.
    pub fn raw(&self, index: usize) -> Range<usize> {
        let at = |index: usize| (index * self.piece_bytes).min(self.raw_bytes);
        at(index)..at(index + 1)
    }

    /// The most stored bytes that are worth it.
    pub fn worth_bytes(&self) -> usize {
        self.raw_bytes - self.raw_bytes / SAVING_MIN_DIVISOR
    }

    /// The part of an encoded piece that belongs into the column.
    pub fn body(&self, index: usize, encoded: &[u8]) -> Range<usize> {
        match self.coding {
            Coding::For => packing::HEADER_BYTES..encoded.len(),
            Coding::Pcodec { .. } => {
                let is_last = index + 1 == self.count();
                let count = self.raw(index).len() / self.element.size();
                numbers::header(self.element, count).len()..encoded.len() - usize::from(!is_last)
            }
            _ => blosc::body(encoded),
        }
    }

    /// The bytes in front of the pieces' bodies, from all encoded pieces.
    pub fn head<'a>(&self, encoded: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
        match self.coding {
            Coding::For => packing::header(self.element.size(), self.raw_bytes).to_vec(),
            Coding::Pcodec { .. } => {
                numbers::header(self.element, self.raw_bytes / self.element.size())
            }
            _ => blosc::joined_head(self.raw_bytes, encoded),
        }
    }
}

impl ColumnEncoder {
    /// Whether a sample of a column becomes smaller, so that its pieces are worth encoding.
    pub fn shrinks(&mut self, coding: Coding, element: Element, sample: &[u8]) -> bool {
        self.samples_shrink(coding.for_element(element), element, sample)
    }

    /// Encodes the raw bytes of a piece; `None` when `go_on` has returned false, or the codec
    /// cannot.
    pub fn encode_piece(
        &mut self,
        go_on: &dyn Fn() -> bool,
        pieces: &PieceCoding,
        raw: &[u8],
    ) -> Option<&[u8]> {
        let is_given_up = Cell::new(!go_on());
        let go_on = || {
            is_given_up.set(is_given_up.get() || !go_on());
            !is_given_up.get()
        };
        let (plain, element) = (Element::Bytes, pieces.element);
        let bytes = match pieces.coding {
            _ if is_given_up.get() => None,
            Coding::Lz4 => self.blosc(&go_on, (Filter::None, Inner::Lz4), 0, plain, raw),
            Coding::Zstd { level } => {
                self.blosc(&go_on, (Filter::None, Inner::Zstd), level, plain, raw)
            }
            coding => self.encode_all(&go_on, coding, element, raw),
        };
        bytes.filter(|_| !is_given_up.get()).map(|bytes| self.scratch(bytes))
    }
}

/// Raw bytes whose encoding does not depend on what stands before and behind them.
fn block_bytes(coding: Coding, element: Element) -> usize {
    let size = element.size();
    match coding {
        Coding::None => 1,
        Coding::Lz4 => blosc::block_bytes(1, Inner::Lz4),
        Coding::Zstd { .. } => blosc::block_bytes(1, Inner::Zstd),
        Coding::BitshuffleLz4 | Coding::ShuffleLz4 => blosc::block_bytes(size, Inner::Lz4),
        Coding::BitshuffleZstd { .. } | Coding::ShuffleZstd { .. } => {
            blosc::block_bytes(size, Inner::Zstd)
        }
        Coding::For => packing::BLOCK * size,
        Coding::Pcodec { .. } => numbers::CHUNK * size,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{decode_column, decode_part};

    /// A slope with some noise: every codec makes it smaller.
    fn raw(element: Element, bytes: usize) -> Vec<u8> {
        let mut state = 1u32;
        let mut sample = |n: u64| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (n / 64 + u64::from(state >> 29) * u64::from(n.is_multiple_of(16))).to_le_bytes()
        };
        let samples = (0..bytes as u64).flat_map(|n| sample(n)[..element.size().min(8)].to_vec());
        samples.take(bytes).collect()
    }

    fn encode(pieces: &PieceCoding, raw: &[u8]) -> Vec<u8> {
        // Every piece by another encoder, the last one first.
        let encode = |index| {
            let mut encoder = ColumnEncoder::new();
            let encoded = encoder.encode_piece(&|| true, pieces, &raw[pieces.raw(index)]);
            encoded.expect("it can be encoded").to_vec()
        };
        let mut encoded: Vec<Vec<u8>> = (0..pieces.count()).rev().map(encode).collect();
        encoded.reverse();
        let mut column = pieces.head(encoded.iter().map(Vec::as_slice));
        for (index, piece) in encoded.iter().enumerate() {
            column.extend_from_slice(&piece[pieces.body(index, piece)]);
        }
        column
    }

    #[test]
    fn pieces_are_one_column_whatever_their_size() {
        for (coding, element) in [
            (Coding::Lz4, Element::Bytes),
            (Coding::Zstd { level: 1 }, Element::I16),
            (Coding::BitshuffleLz4, Element::U16),
            (Coding::BitshuffleZstd { level: 1 }, Element::F32),
            (Coding::ShuffleZstd { level: 1 }, Element::Record(7)),
            (Coding::ShuffleLz4, Element::F64),
            (Coding::For, Element::I16),
            (Coding::For, Element::U8),
            (Coding::Pcodec { level: 2 }, Element::U16),
        ] {
            let bytes = (3 << 19) + 5 * element.size();
            for (bytes, rest) in [(bytes, 0), (bytes, element.size() / 2)] {
                let raw = raw(element, bytes + rest);
                let mut sizes = Vec::new();
                for piece_bytes in [1, 300_000, usize::MAX / 2] {
                    let Some(pieces) = PieceCoding::new(coding, element, raw.len(), piece_bytes)
                    else {
                        assert!(rest > 0 && matches!(coding, Coding::Pcodec { .. }));
                        continue;
                    };
                    let column = encode(&pieces, &raw);
                    let mut decoded = Vec::new();
                    let (codec, raw_bytes) = (pieces.codec(), raw.len() as u64);
                    decode_column(codec, &column, raw_bytes, &mut decoded).expect("decodes");
                    assert!(decoded == raw, "{coding} {element} {piece_bytes}");
                    assert!(
                        column.len() < pieces.worth_bytes(),
                        "{coding} {element}: {}",
                        column.len()
                    );
                    let mut part = vec![0; raw.len()];
                    let wanted = 1_000_000..1_000_100;
                    decode_part(codec, &column, wanted.clone(), &mut part).expect("decodes");
                    assert!(part[wanted.clone()] == raw[wanted]);
                    sizes.push(column.len());
                    // Blocks are the same in a column that is encoded at once; pcodec shares its
                    // numbers out equally.
                    let same = codec == coding.codec() && codec != Codec::Pcodec;
                    let mut encoder = ColumnEncoder::new();
                    let whole = encoder.encode_always(coding, element, &raw).expect("encodes");
                    assert!(!same || whole == column, "{coding} {element}");
                }
                assert!(sizes.iter().all(|size| size.abs_diff(sizes[0]) < 1_000), "{coding}");
            }
        }
    }

    #[test]
    fn a_piece_is_given_up_where_there_is_no_time() {
        let raw = raw(Element::U16, 1 << 20);
        let coding = Coding::BitshuffleZstd { level: 19 };
        let pieces = PieceCoding::new(coding, Element::U16, raw.len(), 1).expect("has pieces");
        let piece = &raw[pieces.raw(1)];
        let mut encoder = ColumnEncoder::new();
        for allowed in 0..2 {
            let asked = Cell::new(0);
            let go_on = || asked.replace(asked.get() + 1) < allowed;
            assert!(encoder.encode_piece(&go_on, &pieces, piece).is_none(), "{allowed}");
        }
        assert!(encoder.encode_piece(&|| true, &pieces, piece).is_some());
        for (coding, bytes) in [(Coding::None, 1), (Coding::Lz4, LZ4_RAW_BYTES_MAX + 1)] {
            assert!(PieceCoding::new(coding, Element::U8, bytes, 1).is_none());
        }
    }
}
