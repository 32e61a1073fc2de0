//! The base: the run whose files have the payload of this file's fragments, where events were built
//! again. A column with codec [`Codec::Base`] has records in place of its bytes:
//!
//! ```text
//!  0        4          8          16          24          32       40      48
//! +--------+----------+----------+-----------+-----------+--------+-------+
//! | stream | reserved | sequence | key_first | raw_bytes | offset | bytes |
//! +--------+----------+----------+-----------+-----------+--------+-------+
//! ```
//!
//! The column's raw bytes are the parts, one after another: no frame of the base is in them twice
//! ([`PartOrder`]), so that reading a column decodes it once. What a frame of the base is compared
//! with is part of its identity: a base that was written again with other codecs is the same.

use std::collections::HashMap;

use catchment_codec::Codec;
use serde::{Deserialize, Serialize};

use crate::bytes::{put, u32_at, u64_at};
use crate::error::ColumnProblem;
use crate::holes::unqualified;

/// Where the payload of a file's fragments is: in files of the same run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseFiles {
    /// Their folder, or the one file, relative to the folder of the file that says it.
    pub path: String,
    /// The variant of the run that they are.
    #[serde(default)]
    pub variant: u32,
}

/// A part of the payload of the same source in one frame of the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasePart {
    /// The frame's stream.
    pub stream: u32,
    /// The frame's number.
    pub sequence: u64,
    /// The frame's first key.
    pub key_first: u64,
    /// Raw bytes of the source's payload in that frame.
    pub raw_bytes: u64,
    /// Where in these the part begins.
    pub offset: u64,
    /// How long it is; never 0.
    pub bytes: u64,
}

/// The order of a column's parts: those of a frame follow one another and rise in offset without
/// overlapping, and the frames of a stream rise in number.
#[derive(Clone, Debug, Default)]
pub struct PartOrder {
    /// Of each stream its last frame, and where the last part of that ends.
    streams: HashMap<u32, (u64, u64)>,
    last_stream: Option<u32>,
}

impl PartOrder {
    /// Takes the next part, whose end does not overflow. Returns whether it may follow those
    /// before.
    #[must_use]
    pub fn take(&mut self, part: &BasePart) -> bool {
        let before = self.streams.insert(part.stream, (part.sequence, part.offset + part.bytes));
        let last_stream = self.last_stream.replace(part.stream);
        before.is_none_or(|(sequence, end)| {
            let continues =
                last_stream == Some(part.stream) && sequence == part.sequence && end <= part.offset;
            continues || sequence < part.sequence
        })
    }
}

/// Whether a column's bytes are in the base, with holes or without.
pub fn is_in_base(codec: Codec) -> bool {
    unqualified(codec).unwrap_or(codec) == Codec::Base
}

/// Appends records.
pub fn encode_base_parts(parts: &[BasePart], out: &mut Vec<u8>) {
    out.reserve(parts.len() * BASE_PART_BYTES);
    for part in parts {
        let mut record = [0; BASE_PART_BYTES];
        put(&mut record, 0, part.stream.to_le_bytes());
        put(&mut record, 8, part.sequence.to_le_bytes());
        put(&mut record, 16, part.key_first.to_le_bytes());
        put(&mut record, 24, part.raw_bytes.to_le_bytes());
        put(&mut record, 32, part.offset.to_le_bytes());
        put(&mut record, 40, part.bytes.to_le_bytes());
        out.extend_from_slice(&record);
    }
}

/// Reads the records of a column with that many raw bytes.
///
/// # Errors
/// Parts that are empty, not within their payload or not in order ([`PartOrder`]), or do not add up
/// to the column's bytes.
pub fn decode_base_parts(stored: &[u8], raw_bytes: u64) -> Result<Vec<BasePart>, ColumnProblem> {
    if !stored.len().is_multiple_of(BASE_PART_BYTES) {
        let (field, expected) = ("stored_bytes", "a multiple of 48");
        return Err(ColumnProblem::Field { field, expected, got: stored.len() as u64 });
    }
    let mut parts = Vec::with_capacity(stored.len() / BASE_PART_BYTES);
    let (mut sum, mut order) = (0_u64, PartOrder::default());
    for record in stored.chunks_exact(BASE_PART_BYTES) {
        let part = BasePart {
            stream: u32_at(record, 0),
            sequence: u64_at(record, 8),
            key_first: u64_at(record, 16),
            raw_bytes: u64_at(record, 24),
            offset: u64_at(record, 32),
            bytes: u64_at(record, 40),
        };
        let end = part.offset.checked_add(part.bytes).filter(|_| part.bytes > 0);
        if end.is_none_or(|end| end > part.raw_bytes) {
            let reason = "a part is empty, or not within its payload in the base";
            return Err(ColumnProblem::Content { reason });
        }
        if !order.take(&part) {
            let reason = "its parts are not in the order of frames and offsets of the base";
            return Err(ColumnProblem::Content { reason });
        }
        sum = sum.saturating_add(part.bytes);
        parts.push(part);
    }
    if sum != raw_bytes {
        let reason = "its parts do not add up to its raw_bytes";
        return Err(ColumnProblem::Content { reason });
    }
    Ok(parts)
}

/// Bytes of a record.
pub const BASE_PART_BYTES: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    const PART: BasePart =
        BasePart { stream: 1, sequence: 7, key_first: 9, raw_bytes: 100, offset: 90, bytes: 10 };

    #[test]
    fn parts_survive_being_written() {
        let parts = [PART, BasePart { sequence: 8, offset: 0, ..PART }];
        let mut stored = Vec::new();
        encode_base_parts(&parts, &mut stored);
        assert_eq!(stored.len(), 2 * BASE_PART_BYTES);
        assert_eq!(decode_base_parts(&stored, 20), Ok(parts.to_vec()));
        assert_eq!(decode_base_parts(&[], 0), Ok(Vec::new()));
    }

    #[test]
    fn parts_that_cannot_be_are_refused() {
        let refused = |part: BasePart, raw_bytes, cut: usize| {
            let mut stored = Vec::new();
            encode_base_parts(&[part], &mut stored);
            stored.truncate(cut);
            decode_base_parts(&stored, raw_bytes).unwrap_err().to_string()
        };
        let whole = BASE_PART_BYTES;
        assert!(refused(PART, 10, 47).contains("stored_bytes is 47"));
        assert!(refused(PART, 11, whole).contains("add up"));
        for part in [
            BasePart { bytes: 0, ..PART },
            BasePart { offset: 91, ..PART },
            BasePart { offset: u64::MAX, ..PART },
        ] {
            assert!(refused(part, part.bytes, whole).contains("not within"), "{part:?}");
        }
    }

    #[test]
    fn a_frame_is_decoded_once_for_the_parts_of_a_column() {
        let at = |stream, sequence, offset| BasePart { stream, sequence, offset, ..PART };
        let read = |parts: &[BasePart]| {
            let mut stored = Vec::new();
            encode_base_parts(parts, &mut stored);
            decode_base_parts(&stored, 10 * parts.len() as u64)
        };
        // Frames of two streams in the order of their keys, of one of them two parts.
        let good = [at(1, 4, 0), at(0, 7, 0), at(0, 7, 10), at(1, 5, 20), at(0, 9, 0)];
        assert_eq!(read(&good), Ok(good.to_vec()));
        for bad in [
            [at(0, 7, 0), at(0, 7, 0)],
            [at(0, 7, 0), at(0, 7, 9)],
            [at(0, 7, 10), at(0, 7, 0)],
            [at(0, 7, 0), at(0, 6, 10)],
        ] {
            assert!(read(&bad).unwrap_err().to_string().contains("order"), "{bad:?}");
        }
        let alternating = [at(0, 7, 0), at(1, 7, 0), at(0, 7, 10)];
        assert!(read(&alternating).unwrap_err().to_string().contains("order"));
    }

    #[test]
    fn a_payload_in_the_base_can_have_holes() {
        assert!(is_in_base(Codec::Base) && is_in_base(crate::qualified(Codec::Base)));
        assert!(!is_in_base(Codec::None) && !is_in_base(crate::qualified(Codec::None)));
    }
}
