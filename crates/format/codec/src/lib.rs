//! Codecs of columns, framed as Zarr's codecs frame one chunk, so plain Python can read them.
//!
//! | codec | stored bytes |
//! |---|---|
//! | none | the raw bytes |
//! | lz4 | raw size as u32, then one LZ4 block |
//! | zstd | one Zstandard frame that states its raw size |
//! | blosc | one chunk of c-blosc 1: byte or bit shuffle, then LZ4 or Zstandard |
//! | pcodec | one standalone pcodec file |
//! | for | patched frame of reference, see `docs/spec/for-codec.md` |
//!
//! Pure functions from bytes to bytes: no files, no threads, no clock. The processor's instruction
//! sets are detected at run time; they change the speed and never a byte.
//!
//! ```
//! use catchment_codec::*;
//!
//! let samples: Vec<u8> = (0..4_000i16).flat_map(|i| (500 + i % 7).to_le_bytes()).collect();
//! let mut encoder = ColumnEncoder::new();
//! let encoded = encoder.encode(Coding::For, Element::I16, &samples);
//! assert!(encoded.stored.len() * 4 < samples.len());
//!
//! let mut decoded = Vec::new();
//! decode_column(encoded.codec, encoded.stored, samples.len() as u64, &mut decoded)?;
//! assert_eq!(decoded, samples);
//! # Ok::<(), CodecError>(())
//! ```

mod auto;
mod bits;
mod blosc;
mod codec;
mod coding;
mod cpu;
mod decode;
mod element;
mod encode;
mod error;
mod filter;
mod fuzz;
mod lz4;
mod numbers;
mod packing;
mod pieces;
mod sample;
#[cfg(target_arch = "x86_64")]
mod squares;
#[cfg(target_arch = "x86_64")]
mod swaps;

pub use auto::{Auto, Decision, Trial};
pub use codec::Codec;
pub use coding::{Coding, UnknownCoding};
pub use decode::{
    Progress, check_sizes, decode_ahead, decode_column, decode_into, decode_part, decode_rest,
    made_by, raw_bytes_of,
};
pub use element::{Element, UnknownElement};
pub use encode::{ColumnEncoder, Encoded};
pub use error::CodecError;
pub use fuzz::fuzz_column;
pub use packing::BLOCK as FOR_BLOCK;
pub use pieces::PieceCoding;
