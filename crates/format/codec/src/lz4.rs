//! Decoding of LZ4 blocks.
//!
//! Bit-shuffled samples give long literals, and runs that repeat two bytes for hundreds. Short
//! pieces are therefore copied sixteen bytes at a time, beyond their ends if there is room, with as
//! few length-dependent branches as possible, since the processor mispredicts those. A long repeat
//! doubles the part already made. No size is trusted: each is compared with the available bytes
//! before it is used.

use crate::error::CodecError;

/// Decodes a block to the beginning of `out`, and returns the number of bytes.
///
/// # Errors
/// A block that is cut short, that refers to bytes before its beginning, or that gives more bytes.
pub(crate) fn decode(block: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
    let (mut at, mut filled) = (0, 0);
    loop {
        let token = *block.get(at).ok_or_else(cut_short)?;
        at += 1;
        let literals = length(usize::from(token >> 4), block, &mut at)?;
        if literals > block.len() - at {
            return Err(cut_short());
        }
        if literals > out.len() - filled {
            return Err(too_long());
        }
        let near = literals <= CHUNK && block.len() - at >= CHUNK && out.len() - filled >= CHUNK;
        let bytes = if near { CHUNK } else { literals };
        // A constant length for short pieces, so that this is one instruction.
        match block[at..at + bytes].first_chunk::<CHUNK>().filter(|_| near) {
            Some(chunk) => out[filled..filled + CHUNK].copy_from_slice(chunk),
            None => out[filled..filled + bytes].copy_from_slice(&block[at..at + bytes]),
        }
        (at, filled) = (at + literals, filled + literals);
        if at == block.len() {
            return Ok(filled);
        }
        let Some(&[low, high]) = block[at..].first_chunk() else { return Err(cut_short()) };
        at += 2;
        let back = usize::from(u16::from_le_bytes([low, high]));
        let matched = length(usize::from(token & 15), block, &mut at)? + MATCH_MIN;
        if back == 0 || back > filled {
            let reason = "LZ4: a match refers to what is not there".to_owned();
            return Err(CodecError::Decode { reason });
        }
        if matched > out.len() - filled {
            return Err(too_long());
        }
        repeat(out, filled, back, matched);
        filled += matched;
    }
}

/// A length whose first four bits are in the token: more bytes follow while they are all ones.
#[inline(always)]
fn length(of_token: usize, block: &[u8], at: &mut usize) -> Result<usize, CodecError> {
    let mut length = of_token;
    if of_token == 15 {
        loop {
            let more = *block.get(*at).ok_or_else(cut_short)?;
            *at += 1;
            // Cannot overflow: a block is shorter than the memory, and a byte adds 255 at most.
            length += usize::from(more);
            if more != 255 {
                break;
            }
        }
    }
    Ok(length)
}

/// Writes `length` bytes from `filled` on, each equal to the one `back` bytes before it.
#[inline(always)]
fn repeat(out: &mut [u8], filled: usize, back: usize, length: usize) {
    let (from, mut to, end) = (filled - back, filled, filled + length);
    // From the repeated bytes to the last chunk that may be written.
    if let Some(room) = out[from..].get_mut(..back + length.max(2 * CHUNK) + 2 * CHUNK) {
        if back >= CHUNK {
            copy_chunk(room, 0, back);
            if length <= CHUNK {
                return;
            }
            copy_chunk(room, CHUNK, back + CHUNK);
            if length <= 2 * CHUNK {
                return;
            }
            if length <= SHORT_MAX {
                copy_chunk(room, 2 * CHUNK, back + 2 * CHUNK);
                copy_chunk(room, 3 * CHUNK, back + 3 * CHUNK);
                return;
            }
        } else if length <= RUN_MAX
            && let Some(chunk) = repeated(room, back)
        {
            let (chunks, _) = room[back..].as_chunks_mut::<CHUNK>();
            let (first, more) = chunks.split_first_chunk_mut::<2>().expect("room");
            *first = [chunk; 2];
            if length > 2 * CHUNK {
                more[..length.div_ceil(CHUNK) - 2].fill(chunk);
            }
            return;
        }
    }
    while to < end {
        // The part made so far repeats, too.
        let bytes = (to - from).min(end - to);
        out.copy_within(from..from + bytes, to);
        to += bytes;
    }
}

#[inline(always)]
fn copy_chunk(bytes: &mut [u8], from: usize, to: usize) {
    let mut chunk = [0; CHUNK];
    chunk.copy_from_slice(&bytes[from..from + CHUNK]);
    bytes[to..to + CHUNK].copy_from_slice(&chunk);
}

/// A chunk of the first one, two, four or eight bytes, over and over.
#[inline(always)]
fn repeated(bytes: &[u8], count: usize) -> Option<[u8; CHUNK]> {
    let word = match count {
        2 => u64::from(u16::from_le_bytes(*bytes.first_chunk()?)) * 0x0001_0001_0001_0001,
        1 => u64::from(bytes[0]) * 0x0101_0101_0101_0101,
        4 => u64::from(u32::from_le_bytes(*bytes.first_chunk()?)) * 0x0000_0001_0000_0001,
        8 => u64::from_le_bytes(*bytes.first_chunk()?),
        _ => return None,
    };
    Some((u128::from(word) << 64 | u128::from(word)).to_le_bytes())
}

#[cold]
fn cut_short() -> CodecError {
    CodecError::Decode { reason: "LZ4: the block is cut short".to_owned() }
}

#[cold]
fn too_long() -> CodecError {
    CodecError::Decode { reason: "LZ4: the block gives more than raw_bytes".to_owned() }
}

/// Bytes of a match that its token does not count.
const MATCH_MIN: usize = 4;
/// Bytes that are copied at once.
const CHUNK: usize = 16;
/// Longer matches are left to the system's copy function.
const SHORT_MAX: usize = 4 * CHUNK;
/// Longer runs are doubled: copying existing output is as fast as writing it, and then faster.
const RUN_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use lz4_flex::block::{compress, decompress_into};

    use super::*;

    fn decoded(block: &[u8], bytes: usize) -> Result<Vec<u8>, CodecError> {
        let mut out = vec![0xaa; bytes];
        let filled = decode(block, &mut out)?;
        out.truncate(filled);
        Ok(out)
    }

    fn random(seed: u64) -> impl FnMut(u64) -> usize {
        let mut state = seed | 1;
        move |below| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((state >> 33) % below) as usize
        }
    }

    /// Noise, and repeats of a few bytes or of many, near and far.
    fn mixed(seed: u64) -> Vec<u8> {
        let mut random = random(seed);
        let mut raw: Vec<u8> = Vec::new();
        for _ in 0..random(60) {
            let length = [5, 40, 700, 3_000][random(4)];
            let length = random(length);
            if random(2) == 0 || raw.is_empty() {
                raw.extend((0..length).map(|_| random(256) as u8));
            } else {
                let back = [1, 2, 3, 4, 8, 15, 16, 17, 63, 5_000][random(10)].min(raw.len());
                for _ in 0..length {
                    raw.push(raw[raw.len() - back]);
                }
            }
        }
        raw
    }

    #[test]
    fn blocks_of_another_encoder_give_back_what_they_were_made_of() {
        for seed in 0..500 {
            let raw = mixed(seed);
            let block = compress(&raw);
            assert_eq!(decoded(&block, raw.len()), Ok(raw.clone()), "seed {seed}");
            // With room behind it, the result is the same.
            assert_eq!(decoded(&block, raw.len() + 100), Ok(raw), "seed {seed}");
        }
    }

    #[test]
    fn a_block_that_is_wrong_is_refused_or_gives_what_another_decoder_makes_of_it() {
        for seed in 0..2_000 {
            let mut random = random(seed);
            let raw = mixed(seed % 100);
            let mut block = compress(&raw);
            for _ in 0..=random(3) {
                let at = random(block.len() as u64);
                block[at] = random(256) as u8;
            }
            if random(4) == 0 {
                block.truncate(random(block.len() as u64));
            }
            let mut theirs = vec![0; raw.len()];
            let filled = decompress_into(&block, &mut theirs);
            let ours = decoded(&block, raw.len());
            if let (Ok(ours), Ok(filled)) = (ours, filled) {
                assert!(ours == theirs[..filled], "seed {seed}");
            }
        }
    }

    #[test]
    fn blocks_that_cannot_be_are_refused_with_the_reason() {
        let reason = |block: &[u8], bytes| match decoded(block, bytes) {
            Err(CodecError::Decode { reason }) => reason,
            other => panic!("{other:?}"),
        };
        let short = "LZ4: the block is cut short";
        assert_eq!(reason(&[], 9), short);
        assert_eq!(reason(&[0x30, 1, 2], 9), short);
        assert_eq!(reason(&[0xf0, 255, 255], 9), short);
        // A literal, then half an offset; an offset, then no length.
        assert_eq!(reason(&[0x10, 1, 1], 9), short);
        assert_eq!(reason(&[0x1f, 1, 1, 0], 9), short);
        // A block ends with literals.
        assert_eq!(reason(&[0x10, 1, 1, 0], 9), short);
        let nowhere = "LZ4: a match refers to what is not there";
        assert_eq!(reason(&[0x10, 1, 0, 0, 0], 9), nowhere);
        assert_eq!(reason(&[0x10, 1, 2, 0, 0], 9), nowhere);
        let long = "LZ4: the block gives more than raw_bytes";
        assert_eq!(reason(&[0x30, 1, 2, 3], 2), long);
        assert_eq!(reason(&[0x10, 1, 1, 0, 0], 4), long);
        assert_eq!(decoded(&[0x10, 1, 1, 0, 0], 5), Ok(vec![1; 5]));
        assert_eq!(decoded(&[0], 0), Ok(vec![]));
    }
}
