//! A golden file of version 1.3 with holes: parts of fragments that did not come.

use catchment_codec::Coding;
use catchment_fixtures::Column;
use catchment_frame::{
    Codec, ColumnEntry, Dtype, EventColumns, FileReader, Hole, Schema, encode_holes, frame_ledger,
    qualified, unqualified, verify_frame,
};
use catchment_model::{Entry, SourceId};
use serde_json::{Value, json};

use crate::common::{some_model, written};
use crate::golden_v1_3::read_golden;

const ROWS: usize = 6;
/// Of the second source's fragments: row, offset and bytes, by frame. The third frame has none.
const HOLES: [&[(u64, u64, u64)]; 3] = [&[(0, 0, 3), (0, 5, 1), (4, 2, 6)], &[(2, 0, 8)], &[]];

/// Name and bytes of the file, and its description.
pub(crate) fn golden() -> (&'static str, Vec<u8>, Value) {
    let mut model = some_model(31, HOLES.len(), ROWS, Codec::None);
    let schema = Schema::clone(&model.header.schema).with_holes([SourceId(1)]);
    let ids = EventColumns::of(&schema).sources[1];
    model.header.schema = schema.into();
    let mut data = Vec::new();
    for (made, holes) in model.frames.iter_mut().zip(HOLES) {
        // Fragments of 8 bytes in all rows.
        made.columns.retain(|column| Some(column.id) != ids.validity);
        let lengths = [8_u32; ROWS];
        let mut payload: Vec<u8> = (1..=8 * ROWS as u8).collect();
        for &(row, offset, bytes) in holes {
            let from = (8 * row + offset) as usize;
            payload[from..from + bytes as usize].fill(0);
        }
        data.push(payload.clone());
        for (id, raw, dtype) in [
            (
                ids.lengths,
                lengths.iter().flat_map(|length| length.to_le_bytes()).collect(),
                Dtype::U32,
            ),
            (ids.payload, payload, Dtype::U8),
        ] {
            let id = id.expect("a column");
            made.columns.retain(|column| column.id != id);
            let (codec, rows) =
                (Coding::None, dtype.bytes_of(1).map_or(0, |one| raw.len() as u64 / one));
            made.columns.push(Column { id, codec, dtype, rows, raw, start: (0, 0) });
        }
        let mut raw = Vec::new();
        let hole = |&(row, offset, bytes): &(u64, u64, u64)| Hole { row, offset, bytes };
        encode_holes(&holes.iter().map(hole).collect::<Vec<_>>(), &mut raw);
        if !raw.is_empty() {
            let (id, rows) = (ids.holes.expect("a column"), holes.len() as u64);
            let (codec, dtype) = (Coding::None, Dtype::Record);
            made.columns.push(Column { id, codec, dtype, rows, raw, start: (0, 0) });
        }
    }
    let payload = ids.payload.expect("a column");
    let qualify = |frame: usize, entry: &mut ColumnEntry| {
        if entry.id == payload && !HOLES[frame].is_empty() {
            entry.codec = qualified(entry.codec);
        }
    };
    let file = written(&model, qualify);
    let described = json!({
        "about": "by frame, the holes of source 1 (row, offset, bytes) and its payload in hex",
        "closed": true,
        "holes": HOLES,
        "payload": data.iter().map(|bytes| hex(bytes)).collect::<Vec<_>>(),
        "fragments_with_holes": 3,
        "fragment_bytes_lost": 18,
        "of_1_2": "the payload of source 1 is unreadable in frames 0 and 1: its codec is unknown",
    });
    ("holes", file, described)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn golden_holes_are_counted_and_their_payload_is_none_without_them() {
    let (bytes, beside) = read_golden("holes");
    let file = FileReader::open(&bytes).expect("opens");
    let ids = file.event_columns().sources[1];
    let (mut with_holes, mut lost, mut payload) = (0, 0, Vec::new());
    for (frame, holes) in HOLES.iter().enumerate() {
        assert!(verify_frame(&file, frame).is_empty(), "frame {frame}");
        let (ledger, problems) = frame_ledger(&file, frame);
        assert!(problems.is_empty(), "{problems:?}");
        with_holes += ledger.sources[1][Entry::FragmentsWithHoles];
        lost += ledger.sources[1][Entry::FragmentBytesLost];
        let entry = file.find(frame, ids.payload.expect("there")).unwrap().expect("there");
        let plain = unqualified(entry.codec);
        assert_eq!(plain.is_some(), !holes.is_empty());
        // As it stands, nobody takes its zeros for data.
        assert_eq!(file.read_column(frame, &entry, &mut payload).is_ok(), holes.is_empty());
        let entry = ColumnEntry { codec: plain.unwrap_or(entry.codec), ..entry };
        file.read_column(frame, &entry, &mut payload).expect("its bytes");
        assert_eq!(beside["payload"][frame], json!(hex(&payload)));
    }
    assert_eq!(beside["fragments_with_holes"], json!(with_holes));
    assert_eq!(beside["fragment_bytes_lost"], json!(lost));
}

#[test]
fn holes_that_lie_are_named() {
    let (good, _) = read_golden("holes");
    let ids = FileReader::open(&good).expect("opens").event_columns().sources[1];
    let holes = ids.holes.expect("a column");
    let payload = ids.payload.expect("a column");
    type Change = fn(&mut Vec<u8>);
    let lies: [(u32, Change, &str); 4] = [
        (holes, |raw| raw[8] = 7, "its holes are not apart"),
        (holes, |raw| raw[0] = 9, "its holes are not apart"),
        (holes, |raw| raw.truncate(71), "a multiple of 24"),
        (payload, |raw| raw[0] = 1, "there are bytes in its holes"),
    ];
    for (id, change, words) in lies {
        let mut model = some_model(31, 1, ROWS, Codec::None);
        let schema = Schema::clone(&model.header.schema).with_holes([SourceId(1)]);
        model.header.schema = schema.into();
        let file = FileReader::open(&good).expect("opens");
        let mut codecs = Vec::new();
        model.frames[0].columns = file
            .columns(0)
            .unwrap()
            .into_iter()
            .map(|entry| {
                let codec = unqualified(entry.codec).unwrap_or(entry.codec);
                let (mut raw, plain) = (Vec::new(), ColumnEntry { codec, ..entry });
                file.read_column(0, &plain, &mut raw).unwrap();
                if entry.id == id {
                    change(&mut raw);
                }
                codecs.push((entry.id, entry.codec));
                let (id, dtype, rows) = (entry.id, entry.dtype, entry.rows);
                Column { id, codec: Coding::None, dtype, rows, raw, start: (0, 0) }
            })
            .collect();
        let file = written(&model, |_, entry| {
            entry.codec = codecs.iter().find(|(id, _)| *id == entry.id).expect("there").1;
        });
        let file = FileReader::open(&file).expect("opens");
        let problems = verify_frame(&file, 0);
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(problems.iter().any(|one| one.contains(words)), "{words}: {problems:?}");
    }
}
