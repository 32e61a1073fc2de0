//! Holes: parts of fragments that did not come. The records of `fragment_holes`.
//!
//! ```text
//!  0     8        16      24
//! +-----+--------+-------+
//! | row | offset | bytes |
//! +-----+--------+-------+
//! ```
//!
//! Their bytes are zeros in the payload, whose codec is then *qualified*: readers that do not look
//! at the records cannot take the zeros for data.

use catchment_codec::Codec;

use crate::bytes::{put, u64_at};
use crate::error::ColumnProblem;

/// A part of a row's fragment that did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The row.
    pub row: u64,
    /// Where it begins in the fragment.
    pub offset: u64,
    /// How long it is; never 0.
    pub bytes: u64,
}

/// The codec of a column whose values are not what the schema says without something else of its
/// frame.
pub fn qualified(codec: Codec) -> Codec {
    Codec::from_number(codec.number() | QUALIFIED)
}

/// The codec of a qualified column's bytes; none of another column.
pub fn unqualified(codec: Codec) -> Option<Codec> {
    let number = codec.number();
    (number & QUALIFIED != 0).then(|| Codec::from_number(number & !QUALIFIED))
}

/// Appends records.
pub fn encode_holes(holes: &[Hole], out: &mut Vec<u8>) {
    out.reserve(holes.len() * HOLE_BYTES);
    for &Hole { row, offset, bytes } in holes {
        let mut record = [0; HOLE_BYTES];
        put(&mut record, 0, row.to_le_bytes());
        put(&mut record, 8, offset.to_le_bytes());
        put(&mut record, 16, bytes.to_le_bytes());
        out.extend_from_slice(&record);
    }
}

/// Reads the records of a frame. `length` gives the bytes of a row's fragment, or none where there
/// is no fragment.
///
/// # Errors
/// Records that are out of order, touch or overlap, are empty, or are not within a fragment.
pub fn decode_holes(
    bytes: &[u8],
    length: impl Fn(u64) -> Option<u64>,
) -> Result<Vec<Hole>, ColumnProblem> {
    if !bytes.len().is_multiple_of(HOLE_BYTES) {
        let (field, expected) = ("raw_bytes", "a multiple of 24");
        return Err(ColumnProblem::Field { field, expected, got: bytes.len() as u64 });
    }
    let mut holes: Vec<Hole> = Vec::with_capacity(bytes.len() / HOLE_BYTES);
    for record in bytes.chunks_exact(HOLE_BYTES) {
        let hole =
            Hole { row: u64_at(record, 0), offset: u64_at(record, 8), bytes: u64_at(record, 16) };
        let end = hole.offset.checked_add(hole.bytes).filter(|_| hole.bytes > 0);
        let is_within = length(hole.row).zip(end).is_some_and(|(length, end)| end <= length);
        let is_behind = holes.last().is_none_or(|last| {
            (last.row, last.offset.saturating_add(last.bytes)) < (hole.row, hole.offset)
        });
        if !is_within || !is_behind {
            let reason = "its holes are not apart, in order and within their fragments";
            return Err(ColumnProblem::Content { reason });
        }
        holes.push(hole);
    }
    Ok(holes)
}

/// Bytes of a record.
pub const HOLE_BYTES: usize = 24;
/// The bit of a qualified codec's number.
const QUALIFIED: u16 = 1 << 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_apart_in_order_and_within_a_fragment() {
        let hole = |row, offset, bytes| Hole { row, offset, bytes };
        let length = |row| [Some(100), None, Some(7)].get(row as usize).copied().flatten();
        let read = |holes: &[Hole]| {
            let mut bytes = Vec::new();
            encode_holes(holes, &mut bytes);
            decode_holes(&bytes, length)
        };
        let good = [hole(0, 0, 10), hole(0, 11, 89), hole(2, 0, 7)];
        assert_eq!(read(&good).as_deref(), Ok(&good[..]));
        assert_eq!(read(&[]).as_deref(), Ok(&[][..]));
        let bad: [&[Hole]; 8] = [
            &[hole(0, 0, 10), hole(0, 10, 1)],
            &[hole(0, 0, 10), hole(0, 9, 3)],
            &[hole(2, 0, 1), hole(0, 0, 1)],
            &[hole(0, 0, 0)],
            &[hole(0, 99, 2)],
            &[hole(1, 0, 1)],
            &[hole(3, 0, 1)],
            &[hole(0, u64::MAX, 2)],
        ];
        for holes in bad {
            assert!(read(holes).is_err(), "{holes:?}");
        }
        assert!(decode_holes(&[0; 25], length).is_err());
    }

    #[test]
    fn a_qualified_codec_leads_back_to_its_own() {
        for number in 0..6 {
            let codec = Codec::from_number(number);
            assert_eq!(unqualified(codec), None);
            assert_eq!(qualified(codec), Codec::Unknown(32_768 + number));
            assert_eq!(unqualified(qualified(codec)), Some(codec));
        }
    }
}
