//! What can be wrong with a channel or its samples.

use catchment_frame::Dtype;

/// Why there is no trend.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TrendError {
    /// The type holds no numbers.
    #[error("no trend of type {}: it is of numbers only", dtype.name())]
    Dtype {
        /// The channel's type.
        dtype: Dtype,
    },
    /// A sample has no elements, or more than memory can hold.
    #[error("no trend of samples of shape {shape:?}: expected some elements that memory can hold")]
    Shape {
        /// The shape of one sample.
        shape: Vec<u64>,
    },
    /// Scale or offset that is no number.
    #[error("scale {scale} and offset {offset} must be finite")]
    Values {
        /// The scale.
        scale: f64,
        /// The offset.
        offset: f64,
    },
    /// The bytes end within a sample.
    #[error("{bytes} bytes are no whole number of samples of {sample_bytes} bytes")]
    Bytes {
        /// Bytes given.
        bytes: usize,
        /// Bytes of a sample.
        sample_bytes: usize,
    },
    /// Spans that do not rise, or begin behind the last row.
    #[error("span {index} (row {row}, sample {sample}) does not follow the one before it")]
    Span {
        /// Which span.
        index: usize,
        /// Its row.
        row: u64,
        /// Its sample number.
        sample: u64,
    },
    /// Sample numbers whose time 64 bits of nanoseconds do not hold.
    #[error("{rows} samples from {sample} on reach beyond the times that can be told")]
    Time {
        /// First sample number.
        sample: u64,
        /// Samples.
        rows: u64,
    },
}
