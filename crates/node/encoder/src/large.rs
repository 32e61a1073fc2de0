//! A large column, which all agents of a pool encode at once.
//!
//! The agent that takes it prepares it: it shows the column its bytes and chooses the coding from
//! samples. Then its pieces are work like small columns, and the agent that ends the last of them
//! puts the column together. So no agent holds a copy of more than a piece. If a piece cannot be
//! encoded, for want of time or memory, or because the data do not compress, the column is stored
//! as it is.

use std::ops::Range;

use catchment_codec::{Coding, Element, FOR_BLOCK, PieceCoding};
use catchment_frame::BlockDigest;
use parking_lot::Mutex;

use crate::buffers::Buffer;
use crate::rule::Ask;
use crate::work::{Column, Done, Means, Stored, Taken, Worker, parts};

/// Samples of a column: their number, spread over it, and the bytes of each. They are whole blocks
/// of `for`, which is the only codec whose blocks must begin where they do in the column.
const SAMPLES: usize = 16;
const SAMPLE_BYTES: usize = 64 << 10;

/// A large column while its pieces are encoded.
pub(crate) struct Large<C: Column> {
    column: C,
    seen: C::Seen,
    coding: Coding,
    lowered: bool,
    pieces: PieceCoding,
    results: Mutex<Results>,
}

struct Results {
    /// By piece.
    encoded: Vec<Option<Buffer>>,
    bytes: usize,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Encoded,
    /// There is no time, or no memory.
    Lowered,
    /// The data do not compress.
    AsItIs,
}

/// The stored bytes of a large column.
#[derive(Debug)]
pub struct Pieces {
    head: Vec<u8>,
    bodies: Vec<(Buffer, Range<usize>)>,
}

impl Pieces {
    pub(crate) fn bytes(&self) -> usize {
        self.head.len() + self.bodies.iter().map(|(_, body)| body.len()).sum::<usize>()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let buffers = self.bodies.iter().map(|(buffer, _)| buffer.capacity());
        self.head.len() + buffers.sum::<usize>()
    }

    pub(crate) fn get(&self, index: usize) -> Option<&[u8]> {
        let Some(index) = index.checked_sub(1) else { return Some(&self.head) };
        let (buffer, body) = self.bodies.get(index)?;
        Some(&buffer[body.clone()])
    }
}

impl Worker {
    /// Prepares a large column.
    pub(crate) fn begin<C: Column>(&mut self, column: C, ask: &Ask, means: &Means<'_>) -> Taken<C> {
        let mut seen = C::Seen::default();
        if column.looks() {
            parts(&column).for_each(|part| column.look(&mut seen, part));
        }
        let raw_bytes = column.raw_bytes();
        let Self { encoder, gathered } = self;
        gathered.clear();
        samples(ask.element, raw_bytes).for_each(|sample| gather(&column, sample, gathered));
        let (coding, lowered) = ask.coding(encoder, gathered, means.free_cpu_share);
        let pieces = PieceCoding::new(coding, ask.element, raw_bytes, means.piece_bytes);
        match pieces.filter(|_| encoder.shrinks(coding, ask.element, gathered)) {
            Some(pieces) => {
                let encoded = (0..pieces.count()).map(|_| None).collect();
                let results = Results { encoded, bytes: 0, outcome: Outcome::Encoded }.into();
                Taken::Large(Large { column, seen, coding, lowered, pieces, results })
            }
            None => Taken::Done(Done { seen, coding, lowered, ..Done::as_it_is(column) }),
        }
    }

    /// Encodes a piece of a large column.
    pub(crate) fn encode_piece<C: Column>(
        &mut self,
        large: &Large<C>,
        index: usize,
        means: &Means<'_>,
    ) {
        let Large { column, pieces, results, .. } = large;
        if results.lock().outcome != Outcome::Encoded {
            return;
        }
        let range = pieces.raw(index);
        let raw = match within(column, &range) {
            Some(raw) => raw,
            None => {
                self.gathered.clear();
                gather(column, range, &mut self.gathered);
                &self.gathered
            }
        };
        let encoded = self.encoder.encode_piece(means.go_on, pieces, raw);
        let buffer = encoded.and_then(|encoded| {
            let mut buffer = means.buffers.try_take(encoded.len())?;
            buffer.clear();
            buffer.extend_from_slice(encoded);
            Some(buffer)
        });
        let mut results = results.lock();
        results.bytes += buffer.as_ref().map_or(0, |buffer| buffer.len());
        let outcome = match buffer {
            None => Outcome::Lowered,
            Some(_) if results.bytes > pieces.worth_bytes() => Outcome::AsItIs,
            _ => Outcome::Encoded,
        };
        if results.outcome == Outcome::Encoded {
            results.outcome = outcome;
        }
        if results.outcome == Outcome::Encoded {
            results.encoded[index] = buffer;
        } else {
            results.encoded.clear();
        }
    }
}

impl<C: Column> Large<C> {
    pub(crate) fn pieces(&self) -> &PieceCoding {
        &self.pieces
    }

    /// The column, all pieces of which were encoded, or one could not be.
    pub(crate) fn finish(self) -> Done<C> {
        let Self { column, seen, coding, lowered, pieces, results } = self;
        let Results { encoded, outcome, .. } = results.into_inner();
        let done = Done { seen, coding, lowered, ..Done::as_it_is(column) };
        match outcome {
            Outcome::AsItIs => done,
            Outcome::Lowered => Done { coding: Coding::None, lowered: true, ..done },
            Outcome::Encoded => {
                let encoded: Vec<Buffer> = encoded.into_iter().flatten().collect();
                assert_eq!(encoded.len(), pieces.count(), "all pieces of the column");
                let head = pieces.head(encoded.iter().map(|piece| &piece[..]));
                let bodies = encoded.into_iter().enumerate().map(|(index, piece)| {
                    let body = pieces.body(index, &piece);
                    (piece, body)
                });
                let stored = Pieces { head, bodies: bodies.collect() };
                let mut digest = BlockDigest::default();
                (0..).map_while(|index| stored.get(index)).for_each(|part| digest.update(part));
                let (codec, checksums) = (pieces.codec(), digest.finish().into());
                Done { codec, checksums, stored: Stored::Pieces(stored), ..done }
            }
        }
    }
}

/// Ranges spread over a large column, which begin where blocks of `for` do.
fn samples(element: Element, raw_bytes: usize) -> impl Iterator<Item = Range<usize>> {
    let block = FOR_BLOCK * element.size();
    let bytes = SAMPLE_BYTES.max(block) / block * block;
    (0..SAMPLES).map(move |part| {
        let start = raw_bytes / SAMPLES * part / block * block;
        start..raw_bytes.min(start + bytes)
    })
}

/// The raw bytes of a range that does not go beyond one of the column's pieces.
fn within<'a, C: Column>(column: &'a C, range: &Range<usize>) -> Option<&'a [u8]> {
    let mut start = range.start;
    let pieces = (0..).map_while(|index| column.piece(index));
    for piece in pieces {
        match start.checked_sub(piece.len()) {
            Some(behind) => start = behind,
            None => return piece.get(start..start + range.len()),
        }
    }
    None
}

/// Appends the raw bytes of a range.
fn gather<C: Column>(column: &C, range: Range<usize>, to: &mut Vec<u8>) {
    let Range { start: mut skipped, .. } = range;
    let mut left = range.len();
    let pieces = (0..).map_while(|index| column.piece(index));
    for piece in pieces {
        let from = skipped.min(piece.len());
        let now = left.min(piece.len() - from);
        to.extend_from_slice(&piece[from..from + now]);
        (skipped, left) = (skipped - from, left - now);
        if left == 0 {
            return;
        }
    }
}
