//! Columns read a piece at a time, and decoded while they arrive.

use std::cell::RefCell;

use crate::common;
use catchment_fixtures::{Column, CountedReads, Frame, Random};
use catchment_frame::{Coding, ColumnEntry, ColumnProblem, FileReader, FrameError, FrameRef};
use common::{Encoded, Model};

/// Noise with quiet stretches: half of it compresses.
fn raw() -> Vec<u8> {
    let mut raw = Random::new(7).bytes(3 << 20);
    raw.chunks_exact_mut(2 << 10).for_each(|chunk| chunk[..1 << 10].fill(5));
    raw
}

fn encoded(coding: &str, raw: Vec<u8>) -> Encoded {
    let coding: Coding = coding.parse().expect("a coding");
    let columns = vec![Column::opaque(1_000, coding, raw)];
    let frame = Frame { columns, keys: (0, 0), times: (0, 0), rows: 0, kind: None };
    Model { frames: vec![frame], ..Model::new(1) }.encode()
}

fn read(file: &[u8], entry: &ColumnEntry, raw_bytes: usize) -> Result<Vec<u8>, FrameError> {
    let file = FileReader::open(file.to_vec()).expect("opens");
    let (mut stored, mut out) = (vec![0; entry.stored_bytes as usize], vec![0; raw_bytes]);
    file.stored_column(0, entry)?.read_decoded((&mut stored, &mut out), |_| {}).map(|()| out)
}

#[test]
fn a_column_read_in_pieces_is_what_was_written_and_each_byte_is_read_once() {
    for coding in ["lz4", "shuffle+lz4", "bitshuffle+lz4", "bitshuffle+zstd", "zstd", "none"] {
        let raw = raw();
        let encoded = encoded(coding, raw.clone());
        let entry = &encoded.entries[0][0];
        assert!(entry.stored_bytes > 512 << 10, "{coding}: {}", entry.stored_bytes);
        let counted = CountedReads::new(&encoded.closed);
        let file = FileReader::open(&counted).expect("opens");
        let opened = counted.bytes_read();
        let announced = RefCell::new(Vec::new());
        let (mut stored, mut out) = (vec![0; entry.stored_bytes as usize], vec![0; raw.len()]);
        let announce = |next: std::ops::Range<u64>| announced.borrow_mut().push(next);
        let column = file.stored_column(0, entry).expect("a frame");
        column.read_decoded((&mut stored, &mut out), announce).expect("reads");
        assert!(out == raw, "{coding}");
        assert_eq!(counted.bytes_read() - opened, entry.stored_bytes);
        let announced = announced.into_inner();
        assert!(announced.iter().all(|piece| piece.end - piece.start <= 256 << 10), "{coding}");
        assert!(announced.into_iter().flatten().eq(0..entry.stored_bytes), "{coding}");
    }
}

#[test]
fn a_bit_that_flipped_in_any_piece_is_a_wrong_checksum_of_that_column() {
    for coding in ["bitshuffle+lz4", "zstd"] {
        let encoded = encoded(coding, raw());
        let entry = encoded.entries[0][0];
        let begin = (encoded.frames[0].offset + entry.offset) as usize;
        for at in [0, 8, 20, 300_000, entry.stored_bytes as usize - 1] {
            let mut file = encoded.closed.clone();
            file[begin + at] ^= 4;
            let error = read(&file, &entry, 3 << 20).expect_err("is damaged");
            let FrameError::Column { frame, column, problem } = error else { panic!("{error}") };
            assert_eq!((frame, column), (FrameRef::Index(0), 1_000));
            assert!(matches!(problem, ColumnProblem::Checksum { .. }), "{problem}");
        }
    }
}

#[test]
fn bytes_with_the_right_checksum_that_do_not_decode_say_why() {
    let encoded = encoded("bitshuffle+lz4", raw());
    let mut entry = encoded.entries[0][0];
    let begin = (encoded.frames[0].offset + entry.offset) as usize;
    let mut file = encoded.closed.clone();
    // The position of the third block: beyond the chunk.
    file[begin + 16 + 8 + 3] = 0x7f;
    entry.crc32c = catchment_frame::crc32c(&file[begin..begin + entry.stored_bytes as usize]);
    let error = read(&file, &entry, 3 << 20).expect_err("is damaged").to_string();
    assert!(error.contains("blosc stream is"), "{error}");
}
