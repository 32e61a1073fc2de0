//! Chunks of c-blosc 1, format version 2, written and read here, so that only Rust handles their
//! sizes. Blocks are not split into streams when written; both forms are read.

use std::ops::Range;

use crate::cpu::Cpu;
use crate::error::CodecError;
use crate::filter::{bitshuffle, bitunshuffle, shuffle, unshuffle};

const HEADER_BYTES: usize = 16;
const VERSION: u8 = 2;
/// c-blosc does not split shorter raw sizes; shorter blocks are not split.
const STREAM_BYTES_MIN: usize = 128;
const STREAMS_MAX: usize = 16;

const SHUFFLE: u8 = 1;
const COPIED: u8 = 2;
const BITSHUFFLE: u8 = 4;
const RESERVED: u8 = 8;
const WHOLE_BLOCKS: u8 = 16;

/// The kind of shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    None,
    Bytes,
    Bits,
}

/// The compressor of the shuffled blocks, by its number in a chunk's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    Lz4 = 1,
    Zstd = 4,
}

/// Bytes of a block of such elements: rows of bits have an odd number of cache lines, so that they
/// do not map to the same lines of the cache.
pub(crate) fn block_bytes(size: usize, inner: Inner) -> usize {
    let target = match inner {
        Inner::Lz4 => 64 * 1024,
        Inner::Zstd => 256 * 1024,
    };
    let step = 512 * size;
    let rows = (target / step).max(1);
    step * if rows.is_multiple_of(2) { rows - 1 } else { rows }
}

/// The name of a chunk's coding, without its level, from its first four bytes.
pub(crate) fn made_by(head: &[u8]) -> Option<&'static str> {
    let (&flags, &size) = (head.get(2)?, head.get(3)?);
    let shuffled = flags & SHUFFLE != 0 && size > 1;
    Some(match (flags >> 5, flags & (SHUFFLE | BITSHUFFLE)) {
        _ if flags & COPIED != 0 => "copied",
        (1, BITSHUFFLE) => "bitshuffle+lz4",
        (4, BITSHUFFLE) => "bitshuffle+zstd",
        (1, _) if shuffled => "shuffle+lz4",
        (4, _) if shuffled => "shuffle+zstd",
        (1, _) => "lz4",
        (4, _) => "zstd",
        _ => return None,
    })
}

/// The most bytes that a chunk can take, including what its compressor may need while it works.
pub(crate) fn encoded_bytes_max(raw_bytes: usize, size: usize) -> usize {
    let block = block_bytes(size, Inner::Lz4);
    let blocks = raw_bytes.div_ceil(block);
    HEADER_BYTES + 8 * blocks + raw_bytes + block_bytes(size, Inner::Zstd) / 100 + 1024
}

/// Encodes a chunk. `compress` compresses a block to the beginning of the space that it is given
/// and returns the number of bytes, or nothing if it does not fit.
pub(crate) fn encode(
    (cpu, filter, inner, size): (Cpu, Filter, Inner, usize),
    raw: &[u8],
    filtered: &mut Vec<u8>,
    out: &mut [u8],
    mut compress: impl FnMut(&[u8], &mut [u8]) -> Option<usize>,
) -> usize {
    let block_bytes = block_bytes(size, inner).min(raw.len());
    let blocks = raw.len().div_ceil(block_bytes.max(1));
    let flag = match filter {
        Filter::None => 0,
        Filter::Bytes => SHUFFLE,
        Filter::Bits => BITSHUFFLE,
    };
    out[..4].copy_from_slice(&[VERSION, 1, flag | WHOLE_BLOCKS | (inner as u8) << 5, size as u8]);
    out[4..8].copy_from_slice(&(raw.len() as u32).to_le_bytes());
    out[8..12].copy_from_slice(&(block_bytes as u32).to_le_bytes());
    let mut at = HEADER_BYTES + 4 * blocks;
    if filtered.len() < block_bytes {
        filtered.resize(block_bytes, 0);
    }
    for (index, block) in raw.chunks(block_bytes.max(1)).enumerate() {
        let start = HEADER_BYTES + 4 * index;
        out[start..start + 4].copy_from_slice(&(at as u32).to_le_bytes());
        let filtered = &mut filtered[..block.len()];
        match filter {
            Filter::None => filtered.copy_from_slice(block),
            Filter::Bytes => shuffle(size, block, filtered),
            Filter::Bits => bitshuffle(cpu, size, block, filtered),
        }
        let stream = &mut out[at + 4..];
        let bytes = match compress(filtered, stream) {
            Some(bytes) if bytes < block.len() => bytes,
            _ => {
                stream[..block.len()].copy_from_slice(filtered);
                block.len()
            }
        };
        out[at..at + 4].copy_from_slice(&(bytes as u32).to_le_bytes());
        at += 4 + bytes;
    }
    out[12..16].copy_from_slice(&(at as u32).to_le_bytes());
    at
}

/// Where the blocks of a chunk stand that was encoded here.
pub(crate) fn body(chunk: &[u8]) -> Range<usize> {
    HEADER_BYTES + 4 * block_count(chunk)..chunk.len()
}

fn block_count(chunk: &[u8]) -> usize {
    number(chunk, 4).div_ceil(number(chunk, 8).max(1)) as usize
}

/// The header and offsets of a chunk that has the blocks of these chunks, encoded here with the
/// same parameters from consecutive whole blocks.
pub(crate) fn joined_head<'a>(
    raw_bytes: usize,
    chunks: impl Iterator<Item = &'a [u8]> + Clone,
) -> Vec<u8> {
    let blocks: usize = chunks.clone().map(block_count).sum();
    let mut head = Vec::with_capacity(HEADER_BYTES + 4 * blocks);
    let first = chunks.clone().next().expect("a piece at least");
    head.extend_from_slice(&first[..HEADER_BYTES]);
    head[4..8].copy_from_slice(&(raw_bytes as u32).to_le_bytes());
    let mut at = head.capacity();
    for chunk in chunks {
        let body = body(chunk);
        for block in 0..block_count(chunk) {
            let offset = number(chunk, HEADER_BYTES + 4 * block) as usize;
            head.extend_from_slice(&((at + offset - body.start) as u32).to_le_bytes());
        }
        at += body.len();
    }
    head[12..16].copy_from_slice(&(at as u32).to_le_bytes());
    head
}

/// The raw size stated in a chunk.
pub(crate) fn raw_bytes_of(stored: &[u8]) -> Result<u64, CodecError> {
    if stored.len() < HEADER_BYTES {
        let (expected, got) = ("at least 16", stored.len() as u64);
        return Err(CodecError::Field { field: "stored_bytes", expected, got });
    }
    Ok(u64::from(number(stored, 4)))
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The description of a chunk's blocks, from its first bytes.
struct Blocks {
    inner: Inner,
    filter: Filter,
    size: usize,
    block_bytes: usize,
    /// Each byte of an element has its own stream in whole blocks.
    split: bool,
}

impl Blocks {
    /// The description for a chunk with that many raw bytes; none if it is copied.
    fn of(stored: &[u8], raw_bytes: usize) -> Result<Option<Self>, CodecError> {
        let field = |field, expected, got: usize| {
            Err(CodecError::Field { field, expected, got: got as u64 })
        };
        let stated = raw_bytes_of(stored)?;
        if stated != raw_bytes as u64 {
            return field("blosc raw size", "raw_bytes", stated as usize);
        }
        let (flags, size) = (stored[2], usize::from(stored[3]));
        let block_bytes = number(stored, 8) as usize;
        if stored[0] != VERSION {
            return field("blosc version", "2", usize::from(stored[0]));
        }
        if number(stored, 12) as usize != stored.len() {
            return field("blosc stored size", "stored_bytes", number(stored, 12) as usize);
        }
        if raw_bytes == 0 {
            return Ok(None);
        }
        if flags & RESERVED != 0 || size == 0 {
            return field("blosc flags and element size", "known ones", usize::from(flags));
        }
        if flags & COPIED != 0 {
            if stored.len() != HEADER_BYTES + raw_bytes {
                return field("stored_bytes", "16 more than raw_bytes", stored.len());
            }
            return Ok(None);
        }
        let inner = match flags >> 5 {
            1 => Inner::Lz4,
            4 => Inner::Zstd,
            other => return field("blosc inner codec", "1 (LZ4) or 4 (Zstandard)", other.into()),
        };
        if block_bytes == 0 || block_bytes > raw_bytes {
            return field("blosc block size", "at most raw_bytes", block_bytes);
        }
        let blocks = raw_bytes.div_ceil(block_bytes);
        if (stored.len() - HEADER_BYTES) / 4 < blocks {
            return field("blosc blocks", "what stored_bytes hold", blocks);
        }
        // As in c-blosc: the byte shuffle applies if a chunk has both flags.
        let filter = match flags & (SHUFFLE | BITSHUFFLE) {
            0 => Filter::None,
            BITSHUFFLE => Filter::Bits,
            _ if size == 1 => Filter::None,
            _ => Filter::Bytes,
        };
        let split = flags & WHOLE_BLOCKS == 0
            && size <= STREAMS_MAX
            && block_bytes / size >= STREAM_BYTES_MIN;
        Ok(Some(Self { inner, filter, size, block_bytes, split }))
    }
}

/// Decodes a chunk into exactly its raw bytes, or only the blocks that contain the wanted bytes.
/// `decompress` fills a stream's raw bytes.
///
/// Of a chunk that is still arriving, the first `there` bytes are used, and `wanted` begins after
/// the bytes decoded before. Decoding goes as far as blocks are whole; errors are left to the last
/// call.
pub(crate) fn decode(
    cpu: Cpu,
    (stored, there, wanted): (&[u8], usize, &mut Range<usize>),
    filtered: &mut Vec<u8>,
    out: &mut [u8],
    mut decompress: impl FnMut(Inner, &[u8], &mut [u8]) -> Result<(), CodecError>,
) -> Result<(), CodecError> {
    let all = there == stored.len();
    if !all && there < HEADER_BYTES {
        return Ok(());
    }
    let Some(blocks) = Blocks::of(stored, out.len())? else {
        if all && !out.is_empty() {
            out.copy_from_slice(&stored[HEADER_BYTES..]);
        }
        return Ok(());
    };
    let Blocks { inner, filter, size, block_bytes, split } = blocks;
    if filter != Filter::None && filtered.len() < block_bytes {
        filtered.resize(block_bytes, 0);
    }
    let first = wanted.start / block_bytes;
    for (index, block) in out.chunks_mut(block_bytes).enumerate().skip(first) {
        if wanted.start >= wanted.end {
            break;
        }
        let entry = HEADER_BYTES + 4 * index;
        if entry + 4 > there {
            return Ok(());
        }
        let at = number(stored, entry) as usize;
        let streams = if split && block.len() == block_bytes { size } else { 1 };
        let target = match filter {
            Filter::None => &mut *block,
            _ => &mut filtered[..block.len()],
        };
        if !all && !has_streams(&stored[..there], at, streams) {
            return Ok(());
        }
        let decompress = |from: &[u8], to: &mut [u8]| decompress(inner, from, to);
        match fill_block(&stored[..there], at, streams, target, decompress) {
            Err(_) if !all => return Ok(()),
            filled => filled?,
        }
        match filter {
            Filter::None => {}
            Filter::Bits => bitunshuffle(cpu, size, &filtered[..block.len()], block),
            Filter::Bytes => unshuffle(size, &filtered[..block.len()], block),
        }
        wanted.start = (index + 1) * block_bytes;
    }
    Ok(())
}

/// Whether that many streams from `at` on are there: half a block would be decoded again.
fn has_streams(there: &[u8], mut at: usize, streams: usize) -> bool {
    (0..streams).all(|_| {
        let left = there.len().checked_sub(at);
        let bytes = left.filter(|left| *left >= 4).map(|_| number(there, at) as usize);
        at = bytes.and_then(|bytes| at.checked_add(4 + bytes)).unwrap_or(usize::MAX);
        at <= there.len()
    })
}

/// Fills a block from its streams, one after another from `at` on.
fn fill_block(
    stored: &[u8],
    mut at: usize,
    streams: usize,
    block: &mut [u8],
    mut decompress: impl FnMut(&[u8], &mut [u8]) -> Result<(), CodecError>,
) -> Result<(), CodecError> {
    if !block.len().is_multiple_of(streams) {
        let (expected, got) = ("a multiple of its streams", block.len() as u64);
        return Err(CodecError::Field { field: "blosc block size", expected, got });
    }
    for raw in block.chunks_mut(block.len() / streams) {
        let outside = |got: usize| {
            let expected = "within the chunk";
            Err(CodecError::Field { field: "blosc stream", expected, got: got as u64 })
        };
        if at < HEADER_BYTES || at > stored.len() - 4 {
            return outside(at);
        }
        let bytes = number(stored, at) as usize;
        at += 4;
        if bytes > stored.len() - at {
            return outside(at);
        }
        let stream = &stored[at..at + bytes];
        at += bytes;
        if bytes == raw.len() {
            raw.copy_from_slice(stream);
        } else {
            decompress(stream, raw)?;
        }
    }
    Ok(())
}
