//! Errors of decoding.

use crate::codec::Codec;

/// Why a column's bytes cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// A codec that this version cannot decode.
    #[error("codec {0} cannot be decoded by this version")]
    Unknown(Codec),
    /// A column whose bytes are in the base of the run.
    #[error("its bytes are in the base of the run")]
    Base,
    /// An impossible size or field in the codec's own header.
    #[error("{field} is {got}, expected {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// The possible values.
        expected: &'static str,
        /// The actual value.
        got: u64,
    },
    /// Bytes that do not decode.
    #[error("cannot be decoded: {reason}")]
    Decode {
        /// The decoder's message.
        reason: String,
    },
}
