//! A golden file of version 1.3 with pieces: rows that have several fragments of one source.

use catchment_codec::Coding;
use catchment_fixtures::Column;
use catchment_frame::{
    Codec, ColumnKind, Dtype, EventColumns, FileReader, Schema, encode_pieces, frame_ledger,
    verify_frame,
};
use catchment_model::{Entry, Piece, SourceId};
use serde_json::{Value, json};

use crate::common::{Model, some_model, written};
use crate::golden_v1_3::read_golden;

const ROWS: usize = 6;
/// Bytes of the second source's fragments, by frame and row. The third frame has no pieces.
const FRAGMENTS: [[&[u32]; ROWS]; 3] = [
    [&[3, 5], &[8], &[], &[0, 8], &[1, 2, 5], &[8]],
    [&[8], &[4, 4], &[8], &[8], &[8], &[7, 0, 1]],
    [&[8], &[8], &[], &[8], &[8], &[8]],
];

/// Time of a fragment: 5 ns after the one before it, 100 ns from row to row.
fn time_ns(row: usize, number: usize) -> u64 {
    1_000 + 100 * row as u64 + 5 * number as u64
}

fn pieces_of(frame: usize) -> Vec<Piece> {
    let rows = FRAGMENTS[frame].iter().enumerate().filter(|(_, of_row)| of_row.len() > 1);
    rows.flat_map(|(row, of_row)| {
        of_row.iter().enumerate().map(move |(number, &bytes)| Piece {
            row: row as u64,
            time_ns: time_ns(row, number),
            bytes: bytes.into(),
        })
    })
    .collect()
}

fn schema(schema: &Schema) -> Schema {
    schema.clone().with_times([SourceId(1)]).with_pieces([SourceId(1)])
}

fn model() -> Model {
    let mut model = some_model(37, FRAGMENTS.len(), ROWS, Codec::None);
    model.header.schema = schema(&model.header.schema).into();
    let ids = EventColumns::of(&model.header.schema).sources[1];
    for (frame, made) in model.frames.iter_mut().enumerate() {
        let lengths = FRAGMENTS[frame].map(|of_row| of_row.iter().sum::<u32>());
        let times = std::array::from_fn::<u64, ROWS, _>(|row| {
            if FRAGMENTS[frame][row].is_empty() { 0 } else { time_ns(row, 0) }
        });
        let bits = (0..ROWS).filter(|&row| !FRAGMENTS[frame][row].is_empty());
        let bits = bits.fold(0_u8, |bits, row| bits | 1 << row);
        let (mut records, pieces) = (Vec::new(), pieces_of(frame));
        encode_pieces(&pieces, &mut records);
        let columns = [
            (ids.lengths, lengths.iter().flat_map(|one| one.to_le_bytes()).collect(), Dtype::U32),
            (ids.validity, vec![bits], Dtype::Bits),
            (ids.payload, (1..=lengths.iter().sum::<u32>() as u8).collect(), Dtype::U8),
            (ids.times, times.iter().flat_map(|one| one.to_le_bytes()).collect(), Dtype::U64),
            (ids.pieces, records, Dtype::Record),
        ];
        for (id, raw, dtype) in columns {
            let id = id.expect("a column");
            made.columns.retain(|column| column.id != id);
            let rows = match dtype {
                Dtype::U8 => raw.len() as u64,
                Dtype::Record => pieces.len() as u64,
                _ => ROWS as u64,
            };
            if !raw.is_empty() {
                let codec = Coding::None;
                made.columns.push(Column { id, codec, dtype, rows, raw, start: (0, 0) });
            }
        }
    }
    model
}

/// Name and bytes of the file, and its description.
pub(crate) fn golden() -> (&'static str, Vec<u8>, Value) {
    let of_frame = |frame: usize| {
        let pieces = pieces_of(frame);
        let records = pieces.iter().map(|piece| (piece.row, piece.time_ns, piece.bytes));
        json!(records.collect::<Vec<_>>())
    };
    let described = json!({
        "about": "by frame, the pieces of source 1 (row, time, bytes); its payload is 1, 2, 3, ..",
        "closed": true,
        "pieces": (0..FRAGMENTS.len()).map(of_frame).collect::<Vec<_>>(),
        "fragments_recorded": 23,
        "of_1_2": "the same payload; a row counts as one fragment",
    });
    ("pieces", written(&model(), |_, _| ()), described)
}

#[test]
fn golden_pieces_are_counted_and_their_records_stand_as_specified() {
    let (bytes, beside) = read_golden("pieces");
    let file = FileReader::open(&bytes).expect("opens");
    let ids = file.event_columns().sources[1];
    let (mut fragments, mut records) = (0, Vec::new());
    for frame in 0..FRAGMENTS.len() {
        let problems = verify_frame(&file, frame);
        assert!(problems.is_empty(), "frame {frame}: {problems:?}");
        let (ledger, problems) = frame_ledger(&file, frame);
        assert!(problems.is_empty(), "frame {frame}: {problems:?}");
        fragments += ledger.sources[1][Entry::FragmentsRecorded];
        let entry = file.find(frame, ids.pieces.expect("there")).unwrap();
        assert_eq!(entry.is_some(), frame < 2, "absent where each row has one");
        if let Some(entry) = entry.filter(|_| frame == 0) {
            file.read_column(frame, &entry, &mut records).expect("its records");
        }
    }
    assert_eq!(beside["fragments_recorded"], json!(fragments));
    // Row 0, 1,005 ns, 5 bytes.
    let second = [0, 0, 0, 0, 0, 0, 0, 0, 0xed, 3, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(records[24..48], second);
    let schema = &file.header().schema;
    assert_eq!(ColumnKind::from("fragment_pieces"), ColumnKind::FragmentPieces);
    assert_eq!(schema.column(Some(SourceId(1)), &ColumnKind::FragmentPieces), ids.pieces);
}

#[test]
fn pieces_that_lie_are_named() {
    let ids = EventColumns::of(&model().header.schema).sources[1];
    let [pieces, times, validity, lengths] =
        [ids.pieces, ids.times, ids.validity, ids.lengths].map(|id| id.expect("a column"));
    type Change = fn(&mut Column);
    let lies: [(u32, Change, &str); 9] = [
        (pieces, |it| it.raw[16] = 4, "the pieces of a row do not add up to its length"),
        (pieces, |it| it.raw[23] = 0xff, "the pieces of a row do not add up to its length"),
        (pieces, |it| it.raw[9] = 9, "its pieces are not in the order of rows and times"),
        (pieces, |it| it.raw[0] = 3, "its pieces are not in the order of rows and times"),
        (pieces, |it| drop(it.raw.drain(..24)), "it has a row of one piece"),
        (pieces, |it| drop(it.raw.drain(..3)), "a multiple of 24"),
        (pieces, |it| it.rows -= 1, "rows"),
        (times, |it| it.raw[0] += 1, "the time of a row is not that of its first piece"),
        (validity, |it| it.raw[0] &= !1, "it has pieces of a row without a fragment"),
    ];
    for (id, change, words) in lies {
        let mut model = model();
        let column = model.frames[0].columns.iter_mut().find(|one| one.id == id);
        change(column.expect("a column"));
        let file = written(&model, |_, _| ());
        let problems = verify_frame(&FileReader::open(&file).expect("opens"), 0);
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(problems.iter().any(|one| one.contains(words)), "{words}: {problems:?}");
    }
    let mut model = model();
    let gone = [Some(lengths), Some(validity), ids.payload];
    model.frames[0].columns.retain(|column| !gone.contains(&Some(column.id)));
    let file = written(&model, |_, _| ());
    let problems = verify_frame(&FileReader::open(&file).expect("opens"), 0);
    let words = "there are fragments but no lengths";
    assert!(problems.iter().any(|one| one.to_string().contains(words)), "{problems:?}");
}
