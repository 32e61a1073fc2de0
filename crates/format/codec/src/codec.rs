//! Codecs, framed as Zarr's codecs frame one chunk.
//!
//! | codec | stored bytes |
//! |---|---|
//! | none | the raw bytes |
//! | lz4 | raw size as u32, then one LZ4 block |

use std::fmt;

use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};

use crate::error::CodecError;

/// How a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// As it is.
    None,
    /// LZ4: raw size as u32, then one block.
    Lz4,
    /// Zstandard (reserved).
    Zstd,
    /// c-blosc (reserved).
    Blosc,
    /// pcodec (reserved).
    Pcodec,
    /// Frame of reference and bit-packing (reserved).
    For,
    /// A codec of a later version.
    Unknown(u16),
}

impl Codec {
    /// The number in directories.
    pub fn number(self) -> u16 {
        match self {
            Self::None => 0,
            Self::Lz4 => 1,
            Self::Zstd => 2,
            Self::Blosc => 3,
            Self::Pcodec => 4,
            Self::For => 5,
            Self::Unknown(number) => number,
        }
    }

    /// The codec of that number.
    pub fn from_number(number: u16) -> Self {
        match number {
            0 => Self::None,
            1 => Self::Lz4,
            2 => Self::Zstd,
            3 => Self::Blosc,
            4 => Self::Pcodec,
            5 => Self::For,
            other => Self::Unknown(other),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd => f.write_str("zstd"),
            Self::Blosc => f.write_str("blosc"),
            Self::Pcodec => f.write_str("pcodec"),
            Self::For => f.write_str("for"),
            Self::Unknown(number) => write!(f, "{number}"),
        }
    }
}

/// A column as it is to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    /// The codec that was used in the end.
    pub codec: Codec,
    /// The bytes to store: for [`Codec::None`] the raw bytes themselves.
    pub stored: &'a [u8],
}

/// Encodes columns one after the other. It keeps its working memory, so that nothing is allocated
/// once it has met the largest column.
pub struct ColumnEncoder {
    table: CompressTable,
    scratch: Vec<u8>,
}

impl ColumnEncoder {
    /// An encoder without working memory yet.
    pub fn new() -> Self {
        Self { table: CompressTable::large(), scratch: Vec::new() }
    }

    /// An encoder that will not allocate for columns of up to that many bytes.
    pub fn with_capacity(raw_bytes: usize) -> Self {
        Self {
            table: CompressTable::large(),
            scratch: vec![0; PREFIX_BYTES + get_maximum_output_size(raw_bytes)],
        }
    }

    /// Encodes `raw` with `codec`, or leaves it raw where that saves less than 5 %. Large columns
    /// are tried on samples first, so that data that do not compress cost little.
    ///
    /// # Panics
    /// If this version cannot encode that codec.
    pub fn encode<'a>(&'a mut self, codec: Codec, raw: &'a [u8]) -> Encoded<'a> {
        let as_it_is = Encoded { codec: Codec::None, stored: raw };
        match codec {
            Codec::None => as_it_is,
            Codec::Lz4 => match self.lz4(raw) {
                Some(stored_bytes) => Encoded { codec, stored: &self.scratch[..stored_bytes] },
                None => as_it_is,
            },
            other => panic!("codec {other} cannot be encoded by this version"),
        }
    }

    /// Leaves the encoded column in the scratch and returns its length, if it is worth it.
    fn lz4(&mut self, raw: &[u8]) -> Option<usize> {
        let worth_bytes = raw.len() - raw.len() / SAVING_MIN_DIVISOR;
        if raw.len() > LZ4_RAW_BYTES_MAX || worth_bytes <= PREFIX_BYTES || !self.samples_shrink(raw)
        {
            return None;
        }
        let block_bytes = self.lz4_block(raw);
        self.scratch[..PREFIX_BYTES].copy_from_slice(&(raw.len() as u32).to_le_bytes());
        let stored_bytes = PREFIX_BYTES + block_bytes;
        (stored_bytes <= worth_bytes).then_some(stored_bytes)
    }

    fn samples_shrink(&mut self, raw: &[u8]) -> bool {
        if raw.len() < TRIAL_RAW_BYTES_MIN {
            return true;
        }
        let middle = (raw.len() - SAMPLE_BYTES) / 2;
        let mut encoded_bytes = 0;
        for start in [0, middle, raw.len() - SAMPLE_BYTES] {
            encoded_bytes += self.lz4_block(&raw[start..start + SAMPLE_BYTES]);
        }
        // Short pieces compress a little worse than the whole, so that less is asked of them.
        encoded_bytes < 3 * SAMPLE_BYTES - 3 * SAMPLE_BYTES / SAMPLE_SAVING_MIN_DIVISOR
    }

    fn lz4_block(&mut self, raw: &[u8]) -> usize {
        let needed = PREFIX_BYTES + get_maximum_output_size(raw.len());
        if self.scratch.len() < needed {
            self.scratch.resize(needed, 0);
        }
        compress_into_with_table(raw, &mut self.scratch[PREFIX_BYTES..], &mut self.table)
            .expect("the scratch holds the largest possible output")
    }
}

impl Default for ColumnEncoder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ColumnEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ColumnEncoder {{ scratch_bytes: {} }}", self.scratch.len())
    }
}

/// Checks what an entry says of its sizes, before anything is allocated by them.
///
/// # Errors
/// A codec that this version does not know, and sizes that cannot be.
pub fn check_sizes(codec: Codec, stored_bytes: u64, raw_bytes: u64) -> Result<(), CodecError> {
    let (expected, fits) = match codec {
        Codec::None => ("stored_bytes", raw_bytes == stored_bytes),
        Codec::Lz4 => (
            "at most 255 * stored_bytes",
            stored_bytes >= PREFIX_BYTES as u64
                && raw_bytes <= LZ4_RAW_BYTES_MAX as u64
                && raw_bytes <= stored_bytes.saturating_mul(255),
        ),
        other => return Err(CodecError::Unknown(other)),
    };
    if fits {
        return Ok(());
    }
    Err(CodecError::Field { field: "raw_bytes", expected, got: raw_bytes })
}

/// Makes `buffer` exactly `bytes` long without writing zeros over what it had.
fn set_len(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    } else {
        buffer.truncate(bytes);
    }
}

/// Decodes `stored` into `out`, which becomes exactly `raw_bytes` long. Allocates `raw_bytes` at
/// most, and that only when they can come out of that many stored bytes.
///
/// # Errors
/// A codec that this version does not know, sizes that cannot be, bytes that do not decode.
pub fn decode_column(
    codec: Codec,
    stored: &[u8],
    raw_bytes: u64,
    out: &mut Vec<u8>,
) -> Result<(), CodecError> {
    check_sizes(codec, stored.len() as u64, raw_bytes)?;
    set_len(out, raw_bytes as usize);
    decode_into(codec, stored, out)
}

/// Decodes into a slice of exactly the raw size.
///
/// # Errors
/// A codec that this version does not know, sizes that cannot be, bytes that do not decode.
pub fn decode_into(codec: Codec, stored: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
    check_sizes(codec, stored.len() as u64, out.len() as u64)?;
    match codec {
        Codec::None => out.copy_from_slice(stored),
        Codec::Lz4 => {
            let prefix =
                u64::from(u32::from_le_bytes([stored[0], stored[1], stored[2], stored[3]]));
            if prefix != out.len() as u64 {
                let expected = "raw_bytes";
                return Err(CodecError::Field { field: "LZ4 raw size", expected, got: prefix });
            }
            let decoded = decompress_into(&stored[PREFIX_BYTES..], out)
                .map_err(|error| CodecError::Decode { reason: error.to_string() })?;
            if decoded != out.len() {
                let expected = "raw_bytes";
                let got = decoded as u64;
                return Err(CodecError::Field { field: "decoded bytes", expected, got });
            }
        }
        other => return Err(CodecError::Unknown(other)),
    }
    Ok(())
}

/// The raw size in front of an LZ4 block.
const PREFIX_BYTES: usize = 4;
/// The LZ4 format ends here.
const LZ4_RAW_BYTES_MAX: usize = 0x7e00_0000;
/// A codec must save one part in so many.
const SAVING_MIN_DIVISOR: usize = 20;
/// Columns below are simply encoded; above, three samples are tried first.
const TRIAL_RAW_BYTES_MIN: usize = 512 * 1024;
const SAMPLE_BYTES: usize = 16 * 1024;
const SAMPLE_SAVING_MIN_DIVISOR: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        (0..bytes)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 32) as u8
            })
            .collect()
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut encoder = ColumnEncoder::new();
        let mut out = vec![1; 10];
        for bytes in [0, 1, 4, 5, 100, 65_535, 65_536, 2_000_000] {
            let smooth: Vec<u8> = (0..bytes).map(|i| (i / 100) as u8).collect();
            for raw in [smooth, noise(bytes)] {
                for codec in [Codec::None, Codec::Lz4] {
                    let encoded = encoder.encode(codec, &raw);
                    decode_column(encoded.codec, encoded.stored, raw.len() as u64, &mut out)
                        .expect("decodes");
                    assert_eq!(out, raw);
                }
            }
        }
    }

    #[test]
    fn columns_that_do_not_shrink_are_left_raw_where_they_are() {
        let mut encoder = ColumnEncoder::with_capacity(2_000_000);
        let capacity = encoder.scratch.capacity();
        for bytes in [10, 5_000, 2_000_000] {
            let raw = noise(bytes);
            let encoded = encoder.encode(Codec::Lz4, &raw);
            assert_eq!(encoded.codec, Codec::None);
            assert!(std::ptr::eq(encoded.stored, raw.as_slice()));
        }
        let raw = vec![7; 2_000_000];
        let encoded = encoder.encode(Codec::Lz4, &raw);
        assert_eq!(encoded.codec, Codec::Lz4);
        assert_eq!(encoded.stored[..4], 2_000_000u32.to_le_bytes());
        assert!(encoded.stored.len() < 10_000);
        assert_eq!(encoder.scratch.capacity(), capacity);
    }

    #[test]
    fn lying_sizes_are_refused_before_anything_is_allocated() {
        let mut out = Vec::new();
        let field = |result| matches!(result, Err(CodecError::Field { .. }));
        assert!(field(decode_column(Codec::Lz4, &[0; 3], 0, &mut out)));
        assert!(field(decode_column(Codec::Lz4, &[0; 8], 1 << 60, &mut out)));
        assert!(field(decode_column(Codec::None, &[0; 8], 9, &mut out)));
        assert!(field(decode_column(Codec::Lz4, &[9, 0, 0, 0, 0], 8, &mut out)));
        assert_eq!(
            decode_column(Codec::Unknown(77), &[], 0, &mut out),
            Err(CodecError::Unknown(Codec::Unknown(77)))
        );
        assert!(out.capacity() < 100);
    }
}
