//! A golden file of version 1.3 with `fragment_expected`: events in which sources were not
//! expected.

use catchment_codec::Coding;
use catchment_fixtures::Column;
use catchment_frame::{Codec, Dtype, EventColumns, FileReader, Schema, frame_ledger, verify_frame};
use catchment_model::{Entry, Ledger, SourceId};
use serde_json::{Value, json};

use crate::common::some_model;
use crate::golden_v1_3::read_golden;

const FRAMES: usize = 3;
const ROWS: usize = 11;

/// Whether a source is expected in a row; the first source is in all, and has no column.
fn is_expected(frame: usize, source: usize, row: usize) -> bool {
    source == 0 || !(row * 5 + frame * 3 + source).is_multiple_of(4)
}

/// Name and bytes of the file, and its description.
pub(crate) fn golden() -> (&'static str, Vec<u8>, Value) {
    let mut model = some_model(23, FRAMES, ROWS, Codec::None);
    let schema = Schema::clone(&model.header.schema).with_expected([SourceId(1), SourceId(2)]);
    let columns = EventColumns::of(&schema);
    model.header.schema = schema.into();
    for (frame, made) in model.frames.iter_mut().enumerate() {
        for (source, ids) in columns.sources.iter().enumerate() {
            let raw_of = |id: Option<u32>| {
                let mut all = made.columns.iter();
                all.find(|column| Some(column.id) == id).map(|column| column.raw.clone())
            };
            let there = match (raw_of(ids.lengths), raw_of(ids.validity)) {
                (None, _) => vec![0; ROWS.div_ceil(8)],
                (Some(_), None) => vec![0xff; ROWS.div_ceil(8)],
                (Some(_), Some(bits)) => bits,
            };
            let is_there = |row: usize| there[row / 8] & 1 << (row % 8) != 0;
            let excused =
                (0..ROWS).filter(|&row| !is_expected(frame, source, row) && !is_there(row));
            let missing = &mut model.ledger.sources[source][Entry::FragmentsMissing];
            *missing = missing.saturating_sub(excused.count() as u64);
            let Some(id) = ids.expected else { continue };
            let mut raw = vec![0; ROWS.div_ceil(8)];
            for row in (0..ROWS).filter(|&row| is_expected(frame, source, row)) {
                raw[row / 8] |= 1 << (row % 8);
            }
            let (codec, dtype, rows) = (Coding::None, Dtype::Bits, ROWS as u64);
            made.columns.push(Column { id, codec, dtype, rows, raw, start: (0, 0) });
        }
    }
    let bits = |frame, source| (0..ROWS).map(|row| is_expected(frame, source, row)).collect();
    let of_frame = |frame| (0..3).map(|source| bits(frame, source)).collect::<Vec<Vec<bool>>>();
    let missing = |ledger: &Ledger| {
        let of_sources = ledger.sources.iter().map(|source| source[Entry::FragmentsMissing]);
        of_sources.collect::<Vec<u64>>()
    };
    let described = json!({
        "about": "by frame, source and row whether the source is expected; of source 0 no column \
                  says it",
        "closed": true,
        "expected": (0..FRAMES).map(of_frame).collect::<Vec<_>>(),
        "fragments_missing": missing(&model.ledger),
        "of_1_2": "the same, but for fragments_missing: each row without a fragment is one",
    });
    ("expected", model.encode().closed, described)
}

#[test]
fn golden_rows_that_were_not_expected_are_not_missing() {
    let (bytes, beside) = read_golden("expected");
    let file = FileReader::open(&bytes).expect("opens");
    let mut sum = Ledger::new(3);
    for frame in 0..file.frames().len() {
        assert!(verify_frame(&file, frame).is_empty(), "frame {frame}");
        sum.add(&frame_ledger(&file, frame).0);
    }
    let missing = sum.sources.iter().map(|source| source[Entry::FragmentsMissing]);
    let missing: Vec<u64> = missing.collect();
    assert_eq!(beside["fragments_missing"], json!(missing));
    let rows = file.frames().iter().map(|frame| frame.info.rows).sum::<u64>();
    let recorded = sum.sources.iter().map(|source| source[Entry::FragmentsRecorded]);
    let lacking = recorded.zip(missing).filter(|(recorded, missing)| recorded + missing < rows);
    assert!(lacking.count() > 0, "some were not expected");
}
