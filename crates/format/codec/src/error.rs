//! Errors of decoding.

use crate::codec::Codec;

/// Why a column's bytes cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// A codec that this version cannot decode.
    #[error("codec {0} cannot be decoded by this version")]
    Unknown(Codec),
    /// A size or a field of the codec's own header that cannot be.
    #[error("{field} is {got}, expected {expected}")]
    Field {
        /// The field.
        field: &'static str,
        /// What it could be.
        expected: &'static str,
        /// What it is.
        got: u64,
    },
    /// Bytes that do not decode.
    #[error("cannot be decoded: {reason}")]
    Decode {
        /// The decoder's message.
        reason: String,
    },
}
