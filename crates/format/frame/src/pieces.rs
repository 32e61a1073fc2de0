//! Pieces: the fragments of a source of which one row has several. The records of
//! `fragment_pieces`.
//!
//! ```text
//!  0     8         16      24
//! +-----+---------+-------+
//! | row | time_ns | bytes |
//! +-----+---------+-------+
//! ```
//!
//! The bytes of a row's pieces stand in the payload one after another, in the order of the records.

use catchment_model::Piece;

use crate::bytes::{put, u64_at};
use crate::error::ColumnProblem;

/// Appends records.
pub fn encode_pieces(pieces: &[Piece], out: &mut Vec<u8>) {
    out.reserve(pieces.len() * PIECE_BYTES);
    for &Piece { row, time_ns, bytes } in pieces {
        let mut record = [0; PIECE_BYTES];
        put(&mut record, 0, row.to_le_bytes());
        put(&mut record, 8, time_ns.to_le_bytes());
        put(&mut record, 16, bytes.to_le_bytes());
        out.extend_from_slice(&record);
    }
}

/// Reads the records of a frame. `length` gives the bytes of a row in the payload, or none where
/// there is no fragment.
///
/// # Errors
/// Records that are out of order, are of a row without fragments, are alone in their row, or do not
/// add up to its bytes.
pub fn decode_pieces(
    bytes: &[u8],
    length: impl Fn(u64) -> Option<u64>,
) -> Result<Vec<Piece>, ColumnProblem> {
    if !bytes.len().is_multiple_of(PIECE_BYTES) {
        let (field, expected) = ("raw_bytes", "a multiple of 24");
        return Err(ColumnProblem::Field { field, expected, got: bytes.len() as u64 });
    }
    let piece = |record: &[u8]| Piece {
        row: u64_at(record, 0),
        time_ns: u64_at(record, 8),
        bytes: u64_at(record, 16),
    };
    let pieces: Vec<Piece> = bytes.chunks_exact(PIECE_BYTES).map(piece).collect();
    let wrong = |reason| Err(ColumnProblem::Content { reason });
    if !pieces.is_sorted_by_key(|piece| (piece.row, piece.time_ns)) {
        return wrong("its pieces are not in the order of rows and times");
    }
    for of_row in pieces.chunk_by(|one, other| one.row == other.row) {
        let sum = of_row.iter().try_fold(0_u64, |sum, piece| sum.checked_add(piece.bytes));
        match length(of_row[0].row) {
            None => return wrong("it has pieces of a row without a fragment"),
            Some(_) if of_row.len() < 2 => return wrong("it has a row of one piece"),
            Some(length) if sum != Some(length) => {
                return wrong("the pieces of a row do not add up to its length");
            }
            Some(_) => {}
        }
    }
    Ok(pieces)
}

/// How many fragments there are beside one in each row.
pub fn further_pieces(pieces: &[Piece]) -> u64 {
    let rows = pieces.chunk_by(|one, other| one.row == other.row).count();
    (pieces.len() - rows) as u64
}

/// Bytes of a record.
pub const PIECE_BYTES: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_several_in_order_and_add_up_to_their_row() {
        let piece = |row, time_ns, bytes| Piece { row, time_ns, bytes };
        let length = |row| [Some(100), None, Some(7), Some(0)].get(row as usize).copied().flatten();
        let read = |pieces: &[Piece]| {
            let mut bytes = Vec::new();
            encode_pieces(pieces, &mut bytes);
            decode_pieces(&bytes, length)
        };
        let good = [piece(0, 5, 60), piece(0, 5, 40), piece(2, 1, 0), piece(2, 2, 7)];
        assert_eq!(read(&good).as_deref(), Ok(&good[..]));
        assert_eq!(further_pieces(&good), 2);
        assert_eq!(read(&[]).as_deref(), Ok(&[][..]));
        let order = "its pieces are not in the order of rows and times";
        let sum = "the pieces of a row do not add up to its length";
        let nobody = "it has pieces of a row without a fragment";
        let bad: [(&[Piece], &str); 9] = [
            (&[piece(0, 5, 100)], "it has a row of one piece"),
            (&[piece(0, 5, 60), piece(0, 4, 40)], order),
            (&[piece(2, 1, 0), piece(2, 2, 7), piece(0, 5, 60), piece(0, 5, 40)], order),
            (&[piece(0, 5, 60), piece(2, 1, 7), piece(0, 5, 40)], order),
            (&[piece(0, 5, 60), piece(0, 5, 41)], sum),
            (&[piece(0, 5, u64::MAX), piece(0, 5, 101)], sum),
            (&[piece(0, 5, u64::MAX), piece(0, 5, u64::MAX), piece(0, 5, 102)], sum),
            (&[piece(1, 5, 0), piece(1, 5, 0)], nobody),
            (&[piece(4, 5, 0), piece(4, 5, 0)], nobody),
        ];
        for (pieces, reason) in bad {
            assert_eq!(read(pieces), Err(ColumnProblem::Content { reason }), "{pieces:?}");
        }
        assert!(decode_pieces(&[0; 25], length).is_err());
    }
}
