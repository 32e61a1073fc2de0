//! Our own codec, `for`: patched frame of reference and zigzag differences, bit-packed in blocks of
//! 1,024 elements. Specified in `docs/spec/for-codec.md`.

mod block;
mod choose;
mod lanes;
mod sum;
mod tail;
mod word;

use block::{block_bytes_max, decode_block, encode_block};
use choose::BLOCK_HEADER_BYTES;
pub use lanes::BLOCK;
use tail::{decode_tail, encode_tail};
use word::Word;

use crate::cpu::Cpu;
use crate::error::CodecError;

/// Bytes in front of the first block.
pub(crate) const HEADER_BYTES: usize = 16;
const VERSION: u8 = 1;

/// The most bytes that this many raw ones can take.
pub(crate) fn encoded_bytes_max(raw_bytes: usize) -> usize {
    // The shortest block of 8-bit elements has the largest share of headers.
    let blocks = raw_bytes / BLOCK + 1;
    HEADER_BYTES + raw_bytes + blocks * (BLOCK_HEADER_BYTES + 16) + 16
}

/// The most raw bytes that can come from this many stored ones.
pub(crate) fn raw_bytes_max(stored_bytes: u64) -> u64 {
    // A block of 1,024 equal elements of 8 bytes takes 12 bytes.
    stored_bytes.saturating_mul((8 * BLOCK as u64).div_ceil(12))
}

/// Encodes elements of 1, 2, 4 or 8 bytes and returns the encoded length. `out` has room for
/// [`encoded_bytes_max`].
pub(crate) fn encode(cpu: Cpu, size: usize, signed: bool, raw: &[u8], out: &mut [u8]) -> usize {
    out[..HEADER_BYTES].copy_from_slice(&header(size, raw.len()));
    let blocks = &mut out[HEADER_BYTES..];
    HEADER_BYTES
        + match size {
            1 => encode_on::<u8>(cpu, signed, raw, blocks),
            2 => encode_on::<u16>(cpu, signed, raw, blocks),
            4 => encode_on::<u32>(cpu, signed, raw, blocks),
            _ => encode_on::<u64>(cpu, signed, raw, blocks),
        }
}

/// The header of that many raw bytes.
pub(crate) fn header(size: usize, raw_bytes: usize) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    (header[0], header[1]) = (VERSION, size as u8);
    header[8..].copy_from_slice(&(raw_bytes as u64).to_le_bytes());
    header
}

/// The raw size stated in an encoded column.
pub(crate) fn raw_bytes_of(stored: &[u8]) -> Result<u64, CodecError> {
    let field = |field, expected, got| Err(CodecError::Field { field, expected, got });
    if stored.len() < HEADER_BYTES {
        return field("stored_bytes", "at least 16", stored.len() as u64);
    }
    if stored[0] != VERSION {
        return field("for version", "1", u64::from(stored[0]));
    }
    if !matches!(stored[1], 1 | 2 | 4 | 8) {
        return field("for element bytes", "1, 2, 4 or 8", u64::from(stored[1]));
    }
    if stored[2..8] != [0; 6] {
        return field("for reserved bytes", "0", 1);
    }
    Ok(u64::read(&stored[8..16]))
}

/// Decodes into exactly the raw bytes.
pub(crate) fn decode(cpu: Cpu, stored: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    let got = raw_bytes_of(stored)?;
    if got != out.len() as u64 {
        return Err(CodecError::Field { field: "for raw size", expected: "raw_bytes", got });
    }
    let blocks = &stored[HEADER_BYTES..];
    match stored[1] {
        1 => decode_on::<u8>(cpu, blocks, out),
        2 => decode_on::<u16>(cpu, blocks, out),
        4 => decode_on::<u32>(cpu, blocks, out),
        _ => decode_on::<u64>(cpu, blocks, out),
    }
}

/// The same code, compiled for the processor's instruction set.
macro_rules! compiled_for {
    ($name:ident, $inner:ident, ($($arg:ident: $T:ty),*) -> $R:ty) => {
        fn $name<T: Word>(cpu: Cpu, $($arg: $T),*) -> $R {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,bmi2")]
                fn avx512<T: Word>($($arg: $T),*) -> $R {
                    $inner::<T>($($arg),*)
                }
                #[target_feature(enable = "avx2,bmi2")]
                fn avx2<T: Word>($($arg: $T),*) -> $R {
                    $inner::<T>($($arg),*)
                }
                match cpu {
                    // SAFETY: this value is only made if the processor has these.
                    Cpu::Avx512 | Cpu::Gfni => return unsafe { avx512::<T>($($arg),*) },
                    // SAFETY: as above.
                    Cpu::Avx2 => return unsafe { avx2::<T>($($arg),*) },
                    Cpu::Any => {}
                }
            }
            let _ = cpu;
            $inner::<T>($($arg),*)
        }
    };
}

compiled_for!(encode_on, encode_blocks, (signed: bool, raw: &[u8], out: &mut [u8]) -> usize);
compiled_for!(decode_on, decode_blocks, (stored: &[u8], out: &mut [u8]) -> Result<(), CodecError>);

#[inline(always)]
fn encode_blocks<T: Word>(signed: bool, raw: &[u8], out: &mut [u8]) -> usize {
    let flip = if signed { T::TOP } else { T::default() };
    let mut at = 0;
    let blocks = raw.chunks_exact(BLOCK * T::BYTES);
    let tail = blocks.remainder();
    for block in blocks {
        let space = block_bytes_max::<T>();
        at += encode_block(block, flip, &mut out[at..at + space]);
    }
    at + encode_tail::<T>(tail, flip, &mut out[at..])
}

#[inline(always)]
fn decode_blocks<T: Word>(stored: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    let mut at = 0;
    let mut blocks = out.chunks_exact_mut(BLOCK * T::BYTES);
    for block in &mut blocks {
        at += decode_block::<T>(&stored[at..], block)?;
    }
    at += decode_tail::<T>(&stored[at..], blocks.into_remainder())?;
    if at == stored.len() {
        return Ok(());
    }
    let (expected, got) = ("where the last block ends", stored.len() as u64);
    Err(CodecError::Field { field: "stored_bytes", expected, got })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of each kind: a pedestal with noise and spikes, a slope, one value, full width.
    fn sorts(size: usize, count: usize) -> Vec<u8> {
        let mut state = 5u64;
        let mut raw = Vec::new();
        for i in 0..count as u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_041);
            let noise = state >> 60;
            let value = match (i / 1024) % 5 {
                0 if noise == 3 && i % 40 == 1 => state >> 3,
                0 => 70 + noise,
                1 => 3 * i + noise / 8,
                2 => 17,
                3 => state >> 7,
                _ => (noise / 4).wrapping_sub(2),
            };
            raw.extend_from_slice(&value.to_le_bytes()[..size]);
        }
        raw
    }

    #[test]
    fn every_processor_gives_the_same_bytes() {
        for size in [1, 2, 4, 8] {
            for signed in [false, true] {
                let raw = sorts(size, 12 * BLOCK + 77);
                let mut encodings = Vec::new();
                for cpu in Cpu::all_here() {
                    let mut out = vec![0xaa; encoded_bytes_max(raw.len())];
                    let bytes = encode(cpu, size, signed, &raw, &mut out);
                    out.truncate(bytes);
                    let mut back = vec![0; raw.len()];
                    decode(cpu, &out, &mut back).expect("decodes");
                    assert!(back == raw, "{size} {signed} {cpu:?}");
                    encodings.push(out);
                }
                assert!(encodings.windows(2).all(|pair| pair[0] == pair[1]));
            }
        }
    }

    #[test]
    fn no_input_takes_more_than_the_most() {
        for size in [1, 2, 4, 8] {
            let mut state = 1u64;
            let raw: Vec<u8> = (0..40 * BLOCK + 13)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (state >> 56) as u8
                })
                .collect();
            let mut out = vec![0; encoded_bytes_max(raw.len())];
            let bytes = encode(Cpu::Any, size, false, &raw, &mut out);
            assert!(bytes <= out.len());
        }
    }
}
