//! The rest after the last whole block: fewer than 1,024 elements, packed one after another, and
//! the bytes of a partial element.

use super::block::{DELTA, FRAME_OF_REFERENCE, Header, patch, words_of};
use super::choose::{BLOCK_HEADER_BYTES, exception_bytes};
use super::lanes::BLOCK;
use super::word::Word;
use crate::error::CodecError;

/// Encodes the tail, without exceptions, and returns its length.
pub fn encode_tail<T: Word>(raw: &[u8], flip: T, out: &mut [u8]) -> usize {
    let count = raw.len() / T::BYTES;
    let rest = &raw[count * T::BYTES..];
    let mut at = 0;
    if count > 0 {
        let mut words = [T::default(); BLOCK];
        words_of(&raw[..count * T::BYTES], &mut words);
        let words = &words[..count];
        let floor = words.iter().map(|&word| word ^ flip).min().unwrap_or_default() ^ flip;
        let above = words.iter().fold(T::default(), |all, word| all | word.minus(floor));
        let delta = |i: usize| words[i].minus(words[i - 1]).zigzag();
        let between = (1..count).fold(T::default(), |all, i| all | delta(i));
        let as_delta =
            between.length() as usize * count + 8 * T::BYTES < above.length() as usize * count;
        let width = if as_delta { between.length() } else { above.length() };
        out[0] = width as u8;
        out[1] = if as_delta { DELTA } else { FRAME_OF_REFERENCE };
        out[2..4].fill(0);
        at = BLOCK_HEADER_BYTES;
        let fields = [if as_delta { words[0] } else { floor }, T::default()];
        for field in &fields[..1 + usize::from(as_delta)] {
            field.write(&mut out[at..at + T::BYTES]);
            at += T::BYTES;
        }
        let small = |i: usize| match (as_delta, i) {
            (true, 0) => T::default(),
            (true, _) => delta(i),
            (false, _) => words[i].minus(floor),
        };
        at += pack_plain(width, (0..count).map(|i| small(i).wide()), &mut out[at..]);
    }
    out[at..at + rest.len()].copy_from_slice(rest);
    at + rest.len()
}

/// Packs words one after another, the lowest bit first.
fn pack_plain(width: u32, words: impl Iterator<Item = u64>, out: &mut [u8]) -> usize {
    let (mut bits, mut held, mut at) = (0u128, 0, 0);
    for word in words {
        bits |= u128::from(word) << held;
        held += width;
        while held >= 8 {
            out[at] = bits as u8;
            at += 1;
            bits >>= 8;
            held -= 8;
        }
    }
    if held > 0 {
        out[at] = bits as u8;
        at += 1;
    }
    at
}

/// Decodes the tail and returns its length.
pub fn decode_tail<T: Word>(stored: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
    let count = out.len() / T::BYTES;
    let (out, rest) = out.split_at_mut(count * T::BYTES);
    let mut at = 0;
    if count > 0 {
        let header = Header::<T>::read_tail(stored, count)?;
        let packed_bytes = (count * header.width as usize).div_ceil(8);
        let mut words = [T::default(); BLOCK];
        unpack_plain(header.width, &stored[header.bytes..], &mut words[..count]);
        let exceptions = header.exceptions * exception_bytes::<T>();
        let exceptions = &stored[header.bytes + packed_bytes..][..exceptions];
        patch(&mut words, exceptions, header.exceptions, count)?;
        let mut sum = header.reference;
        for (i, word) in words[..count].iter_mut().enumerate() {
            if header.mode == DELTA {
                if i > 0 {
                    sum = sum.plus(word.unzigzag()).plus(header.slope);
                }
                *word = sum;
            } else {
                *word = word.plus(header.reference);
            }
        }
        for (word, bytes) in words.iter().zip(out.chunks_exact_mut(T::BYTES)) {
            word.write(bytes);
        }
        at = header.end;
    }
    match stored.get(at..at + rest.len()) {
        Some(bytes) => rest.copy_from_slice(bytes),
        None => {
            let (expected, got) = ("the bytes behind the last element", stored.len() as u64);
            return Err(CodecError::Field { field: "stored_bytes", expected, got });
        }
    }
    Ok(at + rest.len())
}

fn unpack_plain<T: Word>(width: u32, packed: &[u8], words: &mut [T]) {
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    let (mut bits, mut held) = (0u128, 0);
    let mut bytes = packed.iter();
    for word in words {
        while held < width {
            bits |= u128::from(bytes.next().copied().unwrap_or(0)) << held;
            held += 8;
        }
        *word = T::low(bits as u64 & mask);
        bits >>= width;
        held -= width;
    }
}
