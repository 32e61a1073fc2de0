//! Why a channel cannot be decimated.

use catchment_frame::Dtype;

/// What is wrong with a factor, a channel or its samples.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimateError {
    /// No filter for this factor.
    #[error(
        "no decimation by {factor}: it must be from 1 to 2^20, without a prime factor above 31"
    )]
    Factor {
        /// The factor.
        factor: u64,
    },
    /// The filter design did not reach what is promised.
    #[error("no filter was found for a stage of {factor}: {reason}")]
    Design {
        /// The stage's factor.
        factor: u64,
        /// What the design said.
        reason: String,
    },
    /// The type holds no numbers.
    #[error("no decimation of type {}: it is of numbers only", dtype.name())]
    Dtype {
        /// The channel's type.
        dtype: Dtype,
    },
    /// A sample has no numbers, or too many.
    #[error("no decimation of samples of shape {shape:?}: they must have 1 to 4,096 numbers")]
    Shape {
        /// The shape of one sample.
        shape: Vec<u64>,
    },
    /// The bytes end within a sample.
    #[error("{bytes} bytes are no whole number of samples of {sample_bytes} bytes")]
    Bytes {
        /// Bytes given.
        bytes: usize,
        /// Bytes of a sample.
        sample_bytes: usize,
    },
    /// Samples come in the order of their numbers.
    #[error("sample {sample} after sample {expected} was due: they must come in order")]
    Order {
        /// The number of the first sample given.
        sample: u64,
        /// The lowest number that could have come.
        expected: u64,
    },
    /// Sample numbers beyond 2^62.
    #[error("{rows} samples from {sample} on reach beyond number 2^62")]
    Number {
        /// The number of the first sample given.
        sample: u64,
        /// Samples given.
        rows: u64,
    },
}
