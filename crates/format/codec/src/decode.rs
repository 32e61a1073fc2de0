//! Decoding: sizes first, then bytes.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use zstd_safe::DCtx;

use crate::codec::Codec;
use crate::cpu::Cpu;
use crate::encode::{LZ4_PREFIX_BYTES, LZ4_RAW_BYTES_MAX};
use crate::error::CodecError;
use crate::{blosc, lz4, numbers, packing};

/// The greatest expansion of a Zstandard block: 128 KiB from 4 bytes.
const ZSTD_RATIO_MAX: u64 = 32 * 1024;
/// pcodec's expansion of equal numbers: chunks of 2^18 numbers take more than 16 bytes.
const PCODEC_RATIO_MAX: u64 = 8 * 256 * 1024 / 16;

/// Checks the sizes of an entry, in bytes, before anything is allocated for them.
///
/// # Errors
/// A codec that this version does not know, or impossible sizes.
pub fn check_sizes(codec: Codec, stored_bytes: u64, raw_bytes: u64) -> Result<(), CodecError> {
    let times = |ratio: u64| raw_bytes <= stored_bytes.saturating_mul(ratio);
    let (expected, fits) = match codec {
        Codec::None => ("stored_bytes", raw_bytes == stored_bytes),
        Codec::Lz4 => (
            "at most 255 * stored_bytes",
            stored_bytes >= LZ4_PREFIX_BYTES as u64
                && raw_bytes <= LZ4_RAW_BYTES_MAX as u64
                && times(255),
        ),
        Codec::Zstd => ("at most 32,768 * stored_bytes", times(ZSTD_RATIO_MAX)),
        Codec::Blosc => {
            ("at most 32,768 * stored_bytes", times(ZSTD_RATIO_MAX) && raw_bytes <= i32::MAX as u64)
        }
        Codec::Pcodec => ("at most 131,072 * stored_bytes", times(PCODEC_RATIO_MAX)),
        Codec::For => {
            ("at most 683 * stored_bytes", raw_bytes <= packing::raw_bytes_max(stored_bytes))
        }
        Codec::Base => return Err(CodecError::Base),
        other @ Codec::Unknown(_) => return Err(CodecError::Unknown(other)),
    };
    if fits {
        return Ok(());
    }
    Err(CodecError::Field { field: "raw_bytes", expected, got: raw_bytes })
}

/// Decodes `stored` into `out`, which becomes exactly `raw_bytes` long. Allocates at most
/// `raw_bytes`, and only if that many can come from the stored bytes.
///
/// # Errors
/// A codec that this version does not know, impossible sizes, or bytes that do not decode.
pub fn decode_column(
    codec: Codec,
    stored: &[u8],
    raw_bytes: u64,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    check_sizes(codec, stored.len() as u64, raw_bytes)?;
    out.resize(raw_bytes as usize, 0);
    decode_into(codec, stored, out)
}

/// Decodes into a slice of exactly the raw size.
///
/// # Errors
/// A codec that this version does not know, impossible sizes, or bytes that do not decode.
pub fn decode_into(codec: Codec, stored: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    decode_rest(codec, stored, out, Progress::default())
}

/// Decodes the range `wanted` of a column's raw bytes to the same range of `out`, a slice of
/// exactly the raw size. The rest of `out` is undefined afterwards: blosc's other blocks are
/// skipped, other codecs decode everything.
///
/// # Errors
/// As [`decode_into`], for the blocks that are decoded.
pub fn decode_part(
    codec: Codec,
    stored: &[u8],
    wanted: Range<usize>,
    out: &mut [u8],
) -> Result<(), CodecError> {
    decode_rest(codec, stored, out, Progress { wanted: Some(wanted) })
}

/// The progress in decoding a column whose stored bytes are still arriving.
#[derive(Debug, Default)]
pub struct Progress {
    /// The bytes yet to be decoded of a column in blocks; all, unless a range was given.
    wanted: Option<Range<usize>>,
}

/// Decodes the blocks contained in a column's first `there` stored bytes, except those decoded
/// before: bytes that have just been read are in the CPU's caches, and the disk is slower than the
/// decoder. Only blosc's blocks can be decoded alone. Errors are left to [`decode_rest`].
///
/// # Panics
/// If `there` exceeds the length of `stored`.
pub fn decode_ahead(
    codec: Codec,
    stored: &[u8],
    there: usize,
    out: &mut [u8],
    progress: &mut Progress,
) {
    if codec == Codec::Blosc && there < stored.len() {
        // `decode_rest` meets the same error, and returns it.
        let blosc = |decoder: &mut Decoder| decoder.blosc(stored, there, out, progress);
        let _ = DECODER.with_borrow_mut(blosc);
    }
}

/// Decodes the rest of a column whose stored bytes have all arrived, into a slice of exactly the
/// raw size.
///
/// # Errors
/// As [`decode_into`].
pub fn decode_rest(
    codec: Codec,
    stored: &[u8],
    out: &mut [u8],
    mut progress: Progress,
) -> Result<(), CodecError> {
    check_sizes(codec, stored.len() as u64, out.len() as u64)?;
    match codec {
        Codec::None => out.copy_from_slice(stored),
        Codec::Lz4 => {
            let (prefix, block) = stored.split_at(LZ4_PREFIX_BYTES);
            let got = u64::from(u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]));
            if got != out.len() as u64 {
                let expected = "raw_bytes";
                return Err(CodecError::Field { field: "LZ4 raw size", expected, got });
            }
            decode_lz4(block, out)?;
        }
        Codec::Zstd => DECODER.with_borrow_mut(|decoder| decoder.zstd(stored, out))?,
        Codec::Blosc => DECODER
            .with_borrow_mut(|decoder| decoder.blosc(stored, stored.len(), out, &mut progress))?,
        Codec::Pcodec => numbers::decode(stored, out)?,
        Codec::For => packing::decode(Cpu::here(), stored, out)?,
        Codec::Base => return Err(CodecError::Base),
        other @ Codec::Unknown(_) => return Err(CodecError::Unknown(other)),
    }
    Ok(())
}

/// The raw size stated in stored bytes, for callers without a directory. Impossible sizes are
/// errors.
///
/// # Errors
/// A codec that does not state it, or bytes that are too short or impossible.
pub fn raw_bytes_of(codec: Codec, stored: &[u8]) -> Result<u64, CodecError> {
    let raw_bytes = match codec {
        Codec::None => stored.len() as u64,
        Codec::Lz4 => match stored.first_chunk() {
            Some(prefix) => u64::from(u32::from_le_bytes(*prefix)),
            None => {
                let (expected, got) = ("at least 4", stored.len() as u64);
                return Err(CodecError::Field { field: "stored_bytes", expected, got });
            }
        },
        Codec::Zstd => zstd_safe::get_frame_content_size(stored)
            .ok()
            .flatten()
            .ok_or_else(|| CodecError::Decode { reason: "no content size".to_owned() })?,
        Codec::Blosc => blosc::raw_bytes_of(stored)?,
        Codec::For => packing::raw_bytes_of(stored)?,
        Codec::Base => return Err(CodecError::Base),
        other @ (Codec::Pcodec | Codec::Unknown(_)) => return Err(CodecError::Unknown(other)),
    };
    check_sizes(codec, stored.len() as u64, raw_bytes)?;
    Ok(raw_bytes)
}

/// The coding of stored bytes, without its level, for which the first four bytes suffice: for blosc
/// the shuffle and the inner codec (`bitshuffle+lz4`), for all others the codec's name.
pub fn made_by(codec: Codec, head: &[u8]) -> Cow<'static, str> {
    match (codec, blosc::made_by(head)) {
        (Codec::Blosc, Some(coding)) => Cow::Borrowed(coding),
        _ => Cow::Owned(codec.to_string()),
    }
}

fn decode_lz4(block: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    whole(lz4::decode(block, out)?, out.len())
}

fn whole(decoded: usize, raw_bytes: usize) -> Result<(), CodecError> {
    if decoded == raw_bytes {
        return Ok(());
    }
    let (expected, got) = ("raw_bytes", decoded as u64);
    Err(CodecError::Field { field: "decoded bytes", expected, got })
}

thread_local! {
    /// Memory that decoding reuses.
    static DECODER: RefCell<Decoder> = const { RefCell::new(Decoder { zstd: None, filtered: Vec::new() }) };
}

struct Decoder {
    zstd: Option<DCtx<'static>>,
    filtered: Vec<u8>,
}

impl Decoder {
    fn zstd(&mut self, stored: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        decode_zstd(&mut self.zstd, stored, out)
    }

    fn blosc(
        &mut self,
        stored: &[u8],
        there: usize,
        out: &mut [u8],
        progress: &mut Progress,
    ) -> Result<(), CodecError> {
        let Self { zstd, filtered } = self;
        let wanted = progress.wanted.get_or_insert(0..out.len());
        let chunk = (stored, there, wanted);
        let result =
            blosc::decode(Cpu::here(), chunk, filtered, out, |inner, from, to| match inner {
                blosc::Inner::Lz4 => decode_lz4(from, to),
                blosc::Inner::Zstd => decode_zstd(zstd, from, to),
            });
        if filtered.len() > FILTERED_BYTES_KEPT {
            *filtered = Vec::new();
        }
        result
    }
}

/// Memory for a longer block, which only other writers make, is freed.
const FILTERED_BYTES_KEPT: usize = 4 * 1024 * 1024;

fn decode_zstd(
    context: &mut Option<DCtx<'static>>,
    stored: &[u8],
    out: &mut [u8],
) -> Result<(), CodecError> {
    let context = context.get_or_insert_with(DCtx::create);
    let decoded = context.decompress(out, stored).map_err(|code| {
        let reason = format!("Zstandard: {}", zstd_safe::get_error_name(code));
        CodecError::Decode { reason }
    })?;
    whole(decoded, out.len())
}
