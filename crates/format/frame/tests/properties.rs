//! The file against a simple model: written data are read back, cut files keep their whole frames,
//! flipped bits are found and named.

use crate::common;
use catchment_fixtures::{Column, CountedReads, Frame, Random};
use catchment_frame::{
    Codec, ColumnProblem, FileReader, FrameError, FrameRef, OpenOptions, SkippedReason, crc32c,
    verify_frame,
};
use common::{Encoded, Model, assert_holds, some_model};
use proptest::prelude::*;

fn columns() -> impl Strategy<Value = Vec<Column>> {
    let codec = prop_oneof![Just(Codec::None), Just(Codec::Lz4)];
    let bytes = prop_oneof![
        Just(0usize),
        1usize..200,
        4_000usize..4_200,
        Just(70_000usize),
        Just(1usize),
        60usize..70,
    ];
    let column = (codec, bytes, any::<u64>());
    prop::collection::vec(column, 0..12).prop_map(|columns| {
        let make = |(index, (codec, bytes, seed)): (usize, (Codec, usize, u64))| {
            // Ids that the schema does not have, in no order.
            let id = 1_000 + (index as u32 * 7) % 13;
            Column::opaque(id, codec, Random::new(seed | 1).bytes(bytes))
        };
        columns.into_iter().enumerate().map(make).collect()
    })
}

fn models() -> impl Strategy<Value = Model> {
    let frame = (columns(), any::<(u64, u64)>(), any::<(u64, u64)>(), 0u64..1_000)
        .prop_map(|(columns, keys, times, rows)| Frame { columns, keys, times, rows, kind: None });
    prop::collection::vec(frame, 0..6).prop_map(|frames| Model { frames, ..Model::new(2) })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..Default::default() })]

    #[test]
    fn what_was_written_is_read(model in models()) {
        let encoded = model.encode();
        let file = FileReader::open(&encoded.closed).expect("opens");
        prop_assert!(file.closed());
        assert_holds(&file, &model, model.frames.len());
        prop_assert_eq!(file.frames(), &encoded.frames);
        prop_assert_eq!(file.ledger().expect("a ledger"), Some(&model.ledger));
        prop_assert_eq!(file.flags(), Some(model.flags));
        prop_assert!(file.verify_index().is_empty());

        let file = FileReader::open(&encoded.unclosed).expect("opens");
        prop_assert!(!file.closed());
        prop_assert!(file.skipped().is_empty());
        assert_holds(&file, &model, model.frames.len());
        prop_assert_eq!(file.frames(), &encoded.frames);
    }

    #[test]
    fn frames_behind_a_hole_are_found(model in models(), hole in 0usize..6, garbage: bool) {
        let mut encoded = model.encode();
        prop_assume!(hole < encoded.frames.len());
        let gone = encoded.frames[hole];
        let range = gone.offset as usize..(gone.offset + gone.frame_bytes) as usize;
        encoded.unclosed[range].fill(if garbage { 0xee } else { 0 });
        let file = FileReader::open(&encoded.unclosed).expect("opens");
        let mut left = encoded.frames.clone();
        left.remove(hole);
        prop_assert_eq!(file.frames(), left);
        prop_assert_eq!(file.skipped().len(), 1);
        let skipped = &file.skipped()[0];
        prop_assert_eq!((skipped.offset, skipped.bytes), (gone.offset, gone.frame_bytes));
        prop_assert_eq!(matches!(skipped.reason, SkippedReason::NoHeader), garbage);
    }
}

/// The part of the file to which a byte belongs.
#[derive(Debug, PartialEq)]
enum Owner {
    Column(usize, u32),
    /// Bytes covered by a checksum.
    Checked,
    Padding,
}

fn owner(encoded: &Encoded, model: &Model, at: usize) -> Owner {
    let at = at as u64;
    let within = |start: u64, bytes: u64| (start..start + bytes).contains(&at);
    for (index, (frame, entries)) in encoded.frames.iter().zip(&encoded.entries).enumerate() {
        if within(frame.offset, u64::from(frame.header_bytes)) {
            return Owner::Checked;
        }
        for entry in entries {
            if within(frame.offset + entry.offset, entry.stored_bytes) {
                return Owner::Column(index, entry.id);
            }
        }
    }
    let bytes = |at: usize, count: usize| {
        let mut number = [0; 8];
        number[..count].copy_from_slice(&encoded.closed[at..at + count]);
        u64::from_le_bytes(number)
    };
    let toc = encoded.unclosed.len();
    let toc_columns = (0..bytes(toc + 24, 4) as usize).any(|column| {
        let entry = toc + 128 + 64 * column;
        within(toc as u64 + bytes(entry + 16, 8), bytes(entry + 24, 8))
    });
    let header_bytes = 64 + bytes(16, 4);
    let trailer = encoded.closed.len() as u64 - 4_096;
    let toc_header = within(toc as u64, bytes(toc + 8, 4));
    assert_eq!(model.frames.len(), encoded.frames.len());
    if at < header_bytes || toc_header || toc_columns || within(trailer, 64) {
        Owner::Checked
    } else {
        Owner::Padding
    }
}

/// Every byte gets one bit flipped; non-zero bytes get all of theirs flipped.
#[test]
fn a_flipped_bit_is_found_and_costs_one_column_at_most() {
    let model = some_model(3, 2, 10, Codec::Lz4);
    let encoded = model.encode();
    let mut bytes = encoded.closed.clone();
    let mut out = Vec::new();
    for at in 0..bytes.len() {
        let owner = owner(&encoded, &model, at);
        let first = at % 8;
        let bits = if bytes[at] == 0 { first..first + 1 } else { 0..8 };
        for bit in bits {
            bytes[at] ^= 1 << bit;
            let file = FileReader::open(&bytes).unwrap_or_else(|e| panic!("{at}.{bit}: {e}"));
            assert_eq!(file.header(), &model.header);
            assert_eq!(file.frames().len(), 2);
            let mut noticed = !file.closed() || file.header_problem().is_some();
            noticed |= !file.verify_index().is_empty();
            noticed |= (0..file.frames().len()).any(|f| !verify_frame(&file, f).is_empty());
            assert_eq!(noticed, owner != Owner::Padding, "byte {at}, bit {bit}, {owner:?}");
            for (frame, put_in) in model.frames.iter().enumerate() {
                for column in &put_in.columns {
                    match file.read(frame, column.id, &mut out) {
                        Ok(found) => {
                            assert!(found && out == column.raw, "wrong data: {at}.{bit}");
                            assert_ne!(owner, Owner::Column(frame, column.id));
                        }
                        Err(FrameError::Column {
                            frame: FrameRef::Index(f),
                            column: c,
                            problem: ColumnProblem::Checksum { .. },
                        }) => {
                            assert_eq!((f, c), (frame, column.id));
                            assert_eq!(owner, Owner::Column(frame, column.id));
                            assert!(out.is_empty());
                        }
                        Err(error) => panic!("byte {at}, bit {bit}: {error}"),
                    }
                }
            }
            bytes[at] ^= 1 << bit;
        }
    }
    assert_eq!(bytes, encoded.closed);
}

#[test]
fn a_file_cut_at_any_byte_keeps_every_whole_frame_before_the_cut() {
    let model = some_model(5, 4, 6, Codec::None);
    let encoded = model.encode();
    let header_used = 64 + u32::from_le_bytes(encoded.closed[16..20].try_into().unwrap()) as usize;
    for cut in 0..encoded.closed.len() {
        let bytes = &encoded.closed[..cut];
        let result = FileReader::open(bytes);
        if cut < header_used {
            assert!(matches!(result, Err(FrameError::Truncated { .. })), "cut at {cut}");
            continue;
        }
        let file = result.expect("opens");
        assert!(!file.closed());
        let whole = |f: &&catchment_frame::FrameSummary| f.offset + f.frame_bytes <= cut as u64;
        assert_holds(&file, &model, encoded.frames.iter().filter(whole).count());
    }
}

#[test]
fn frames_of_another_file_in_recycled_blocks_are_not_taken() {
    let mut other = some_model(1, 3, 5, Codec::None);
    other.header.file_id ^= 1;
    let model = some_model(1, 1, 5, Codec::None);
    let (old, new) = (other.encode(), model.encode());
    let mut bytes = old.unclosed.clone();
    bytes[..new.unclosed.len()].copy_from_slice(&new.unclosed);
    let file = FileReader::open(&bytes).expect("opens");
    assert_holds(&file, &model, 1);
    assert!(matches!(file.skipped()[0].reason, SkippedReason::OtherFile { .. }));
}

#[test]
fn a_growing_file_is_walked_to_the_first_border_without_a_frame() {
    let model = some_model(9, 3, 5, Codec::None);
    let encoded = model.encode();
    let mut bytes = encoded.unclosed.clone();
    let second = encoded.frames[1].offset as usize;
    bytes[second..second + 128].fill(0);
    bytes.resize(bytes.len() + (8 << 20), 0);
    let counted = CountedReads::new(bytes);
    let options = OpenOptions { search_bytes_max: 0, ..OpenOptions::default() };
    let file = FileReader::open_with(&counted, &options).expect("opens");
    assert_holds(&file, &model, 1);
    let file = FileReader::open(&counted).expect("opens");
    assert_eq!(file.frames().len(), 2);
    assert!(matches!(file.skipped()[1].reason, SkippedReason::Zeros));
    assert_eq!(file.skipped()[1].bytes, 8 << 20);
}

#[test]
fn an_unknown_codec_makes_its_column_unreadable_and_nothing_else() {
    let mut model = some_model(2, 1, 5, Codec::None);
    model.frames[0].columns.insert(1, Column::opaque(5_000, Codec::None, vec![1; 100]));
    let encoded = model.encode();
    let mut bytes = encoded.unclosed.clone();
    // The second directory entry gets a codec of a later version, and the header its checksum.
    let frame = encoded.frames[0].offset as usize;
    let header_bytes = encoded.frames[0].header_bytes as usize;
    bytes[frame + 128 + 64 + 4] = 200;
    bytes[frame + 12..frame + 16].fill(0);
    let crc = crc32c(&bytes[frame..frame + header_bytes]);
    bytes[frame + 12..frame + 16].copy_from_slice(&crc.to_le_bytes());
    let file = FileReader::open(&bytes).expect("opens");
    let mut out = Vec::new();
    let error = file.read(0, 5_000, &mut out).expect_err("no such codec");
    assert_eq!(
        error.to_string(),
        "frame 0, column 5000: codec 200 cannot be decoded by this version"
    );
    for column in model.frames[0].columns.iter().filter(|column| column.id != 5_000) {
        assert!(file.read(0, column.id, &mut out).expect("reads"));
        assert_eq!(out, column.raw);
    }
    assert!(verify_frame(&file, 0).is_empty(), "its checksum is right");
}
