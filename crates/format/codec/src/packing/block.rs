//! One block of 1,024 words: to bytes and back.

use super::choose::{BLOCK_HEADER_BYTES, Way, best_width, choose, exception_bytes};
use super::lanes::{BLOCK, pack, unpack};
use super::word::Word;
use crate::error::CodecError;

/// The block's second byte: words above a reference.
pub const FRAME_OF_REFERENCE: u8 = 0;
/// The block's second byte: zigzag differences.
pub const DELTA: u8 = 1;

/// The most bytes that a block can take.
pub const fn block_bytes_max<T: Word>() -> usize {
    BLOCK_HEADER_BYTES + 2 * T::BYTES + BLOCK * T::BYTES
}

/// Reads a block's words from its raw bytes.
#[inline(always)]
pub fn words_of<T: Word>(raw: &[u8], words: &mut [T; BLOCK]) {
    for (word, bytes) in words.iter_mut().zip(raw.chunks_exact(T::BYTES)) {
        *word = T::read(bytes);
    }
}

#[inline(always)]
fn bytes_of<T: Word>(words: &[T], bytes: &mut [u8]) {
    for (word, bytes) in words.iter().zip(bytes.chunks_exact_mut(T::BYTES)) {
        word.write(bytes);
    }
}

/// Encodes a block into `out`, which has room for the longest block, and returns its length.
#[inline(always)]
pub fn encode_block<T: Word>(raw: &[u8], flip: T, out: &mut [u8]) -> usize {
    let mut words = [T::default(); BLOCK];
    words_of(raw, &mut words);
    let way = choose(&words, flip);
    let mut small = [T::default(); BLOCK];
    let mut at = BLOCK_HEADER_BYTES;
    let width = match way {
        Way::Floor(floor) => {
            for (small, word) in small.iter_mut().zip(&words) {
                *small = word.minus(floor);
            }
            let width = best_width(&small, None);
            put(out, &mut at, floor);
            width
        }
        Way::Middle(middle) => {
            for (small, word) in small.iter_mut().zip(&words) {
                *small = word.minus(middle).zigzag();
            }
            let width = best_width(&small, None);
            // The range of zigzag words of that width is symmetric around the middle.
            let half = if width.bits == 0 { 0 } else { 1 << (width.bits - 1) };
            let reference = middle.minus(T::low(half));
            for (small, word) in small.iter_mut().zip(&words) {
                *small = word.minus(reference);
            }
            put(out, &mut at, reference);
            width
        }
        Way::Delta(slope) => {
            for i in 1..BLOCK {
                small[i] = words[i].minus(words[i - 1]).minus(slope).zigzag();
            }
            put(out, &mut at, words[0]);
            put(out, &mut at, slope);
            best_width(&small, None)
        }
    };
    let mode = if matches!(way, Way::Delta(_)) { DELTA } else { FRAME_OF_REFERENCE };
    out[0] = width.bits as u8;
    out[1] = mode;
    out[2..4].copy_from_slice(&(width.exceptions as u16).to_le_bytes());
    let mut packed = [T::default(); BLOCK];
    pack(width.bits, &small, &mut packed);
    let packed_bytes = width.bits as usize * (BLOCK / 8);
    bytes_of(&packed, &mut out[at..at + packed_bytes]);
    at += packed_bytes;
    if width.exceptions > 0 {
        put_exceptions(&small, width.bits, width.exceptions, &mut out[at..]);
        at += width.exceptions * exception_bytes::<T>();
    }
    at
}

#[inline(always)]
fn put<T: Word>(out: &mut [u8], at: &mut usize, word: T) {
    word.write(&mut out[*at..*at + T::BYTES]);
    *at += T::BYTES;
}

/// Writes the indices of the words that do not fit, then the words.
#[inline(always)]
fn put_exceptions<T: Word>(small: &[T; BLOCK], bits: u32, count: usize, out: &mut [u8]) {
    const RUN: usize = 32;
    let (indices, rest) = out.split_at_mut(2 * count);
    let mut next = 0;
    for (n, run) in small.as_chunks::<RUN>().0.iter().enumerate() {
        let any = run.iter().fold(T::default(), |any, &word| any | word >> bits);
        if any == T::default() {
            continue;
        }
        for (i, &word) in run.iter().enumerate() {
            if word >> bits != T::default() {
                let index = (n * RUN + i) as u16;
                indices[2 * next..2 * next + 2].copy_from_slice(&index.to_le_bytes());
                word.write(&mut rest[next * T::BYTES..(next + 1) * T::BYTES]);
                next += 1;
            }
        }
    }
}

/// Decodes the block at the beginning of `stored` into 1,024 words' bytes and returns its length.
#[inline(always)]
pub fn decode_block<T: Word>(stored: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
    let header = Header::<T>::read(stored)?;
    let mut packed = [T::default(); BLOCK];
    let packed_bytes = header.width as usize * (BLOCK / 8);
    words_of(&stored[header.bytes..header.bytes + packed_bytes], &mut packed);
    let mut words = [T::default(); BLOCK];
    unpack(header.width, &packed, &mut words);
    let exceptions = &stored[header.bytes + packed_bytes..header.end];
    patch(&mut words, exceptions, header.exceptions, BLOCK)?;
    if header.mode == DELTA {
        for word in &mut words {
            *word = word.unzigzag().plus(header.slope);
        }
        words[0] = T::default();
        T::sum_up(&mut words, header.reference);
    } else {
        for word in &mut words {
            *word = word.plus(header.reference);
        }
    }
    bytes_of(&words, out);
    Ok(header.end)
}

/// Writes the exceptions' words over those at their indices.
#[inline(always)]
pub fn patch<T: Word>(
    words: &mut [T],
    exceptions: &[u8],
    count: usize,
    limit: usize,
) -> Result<(), CodecError> {
    let (indices, values) = exceptions.split_at(2 * count);
    for (index, value) in indices.chunks_exact(2).zip(values.chunks_exact(T::BYTES)) {
        let index = usize::from(u16::read(index));
        if index >= limit {
            let expected = "an index in its block";
            return Err(CodecError::Field { field: "exception", expected, got: index as u64 });
        }
        words[index] = T::read(value);
    }
    Ok(())
}

/// A block's header, checked against the available bytes.
pub struct Header<T> {
    /// Bits of a packed word.
    pub width: u32,
    /// Frame of reference or delta.
    pub mode: u8,
    /// The number of exceptions.
    pub exceptions: usize,
    /// The reference of the words; for a delta, its first word.
    pub reference: T,
    /// The reference of a delta's differences.
    pub slope: T,
    /// Bytes of the header.
    pub bytes: usize,
    /// Bytes of the whole block.
    pub end: usize,
}

impl<T: Word> Header<T> {
    /// Reads the header of a block of 1,024 words.
    #[inline(always)]
    pub fn read(stored: &[u8]) -> Result<Self, CodecError> {
        Self::read_tail(stored, BLOCK)
    }

    /// Reads the header of a block of that many words, at most 1,024.
    #[inline(always)]
    pub fn read_tail(stored: &[u8], count: usize) -> Result<Self, CodecError> {
        let field = |field, expected, got: usize| {
            Err(CodecError::Field { field, expected, got: got as u64 })
        };
        let short = || field("stored_bytes", "whole blocks", stored.len());
        if stored.len() < BLOCK_HEADER_BYTES {
            return short();
        }
        let (width, mode) = (u32::from(stored[0]), stored[1]);
        let exceptions = usize::from(u16::read(&stored[2..4]));
        if width > T::BITS {
            return field("width", "at most the element's bits", width as usize);
        }
        if mode > DELTA {
            return field("mode", "0 or 1", usize::from(mode));
        }
        if exceptions > count {
            return field("exceptions", "at most the block's elements", exceptions);
        }
        let fields = 1 + usize::from(mode == DELTA);
        let bytes = BLOCK_HEADER_BYTES + fields * T::BYTES;
        let end =
            bytes + (count * width as usize).div_ceil(8) + exceptions * exception_bytes::<T>();
        if end > stored.len() {
            return short();
        }
        let word = |index: usize| {
            let at = BLOCK_HEADER_BYTES + index * T::BYTES;
            T::read(&stored[at..at + T::BYTES])
        };
        let slope = if mode == DELTA { word(1) } else { T::default() };
        Ok(Self { width, mode, exceptions, reference: word(0), slope, bytes, end })
    }
}
