//! Codecs of columns, framed as Zarr's codecs frame one chunk, so that plain Python reads them.
//!
//! Pure functions from bytes to bytes: no files, no threads, no clock.

mod codec;
mod error;

pub use codec::{Codec, ColumnEncoder, Encoded, check_sizes, decode_column, decode_into};
pub use error::CodecError;
