//! Golden files of version 1.3 of events that were built again: index columns, and the run with the
//! payload, their base, beside them.

use catchment_codec::CodecError;
use catchment_fixtures::Events;
use catchment_frame::{
    BASE_PART_BYTES, BaseFiles, BasePart, Codec, ColumnProblem, EventColumns, FileReader,
    FrameError, encode_base_parts, frame_ledger, qualified, verify_frame,
};
use catchment_model::Entry;
use serde_json::{Value, json};

use crate::common::{Model, written};
use crate::golden_v1_3::read_golden;

const EVENTS: u64 = 12;
/// Rows of a frame of the base, and of the events that were built again.
const ROWS: [u64; 2] = [4, 6];
/// Events built again with a window of 500 ns.
const VARIANT: u32 = (1 << 31) | 500;

/// The fragment of an event; every fifth has none.
fn fragment(event: u64) -> Option<Vec<u8>> {
    (event % 5 != 3).then(|| (0..3 + event % 4).map(|at| (16 * event + at) as u8).collect())
}

fn payload(events: std::ops::Range<u64>) -> Vec<u8> {
    events.filter_map(fragment).flatten().collect()
}

/// The events in frames of so many rows.
fn model(rows: u64) -> Model {
    let mut model = Model::new(1);
    for first in (0..EVENTS).step_by(rows as usize) {
        let events = Events {
            keys: (first..first + rows).map(|event| 1_000 * event).collect(),
            times_ns: (first..first + rows)
                .map(|event| 1_750_000_000_000_000_000 + event)
                .collect(),
            flags: (first..first + rows).map(|event| u32::from(event % 5 == 3)).collect(),
            fragments: vec![(first..first + rows).map(fragment).collect()],
            increment: None,
        };
        model.frames.push(events.frame(&model.header.schema, Codec::None));
    }
    model
}

/// The parts of the base that a frame of the new events consists of.
fn parts(frame: u64) -> Vec<BasePart> {
    let mut parts = Vec::new();
    for sequence in 0..EVENTS / ROWS[0] {
        let all = sequence * ROWS[0]..(sequence + 1) * ROWS[0];
        let mine = frame * ROWS[1]..(frame + 1) * ROWS[1];
        let (from, to) = (all.start.max(mine.start), all.end.min(mine.end));
        if from < to {
            let bytes = |events| payload(events).len() as u64;
            parts.push(BasePart {
                stream: 0,
                sequence,
                key_first: 1_000 * all.start,
                raw_bytes: bytes(all.clone()),
                offset: bytes(all.start..from),
                bytes: bytes(from..to),
            });
        }
    }
    parts
}

/// Names and bytes of the files, and their descriptions.
pub(crate) fn goldens() -> Vec<(&'static str, Vec<u8>, Value)> {
    let fragments: Vec<_> = (0..EVENTS).map(fragment).collect();
    let base = json!({
        "about": "events of one source, by key and fragment: the base of in-base",
        "closed": true,
        "fragments": fragments,
        "of_1_2": "the same",
    });
    let mut anew = model(ROWS[1]);
    anew.header.variant = VARIANT;
    anew.header.base = Some(BaseFiles { path: "base.catch".into(), variant: 0 });
    let id = EventColumns::of(&anew.header.schema).sources[0].payload.expect("a column");
    for (index, frame) in anew.frames.iter_mut().enumerate() {
        let column = frame.columns.iter_mut().find(|column| column.id == id).expect("a payload");
        column.raw.clear();
        encode_base_parts(&parts(index as u64), &mut column.raw);
    }
    let in_base = written(&anew, |frame, entry| {
        if entry.id == id {
            entry.codec = Codec::Base;
            entry.raw_bytes = parts(frame as u64).iter().map(|part| part.bytes).sum();
            entry.rows = entry.raw_bytes;
        }
    });
    let record = |part: BasePart| {
        json!([part.stream, part.sequence, part.key_first, part.raw_bytes, part.offset, part.bytes])
    };
    let records = |frame| parts(frame).into_iter().map(record).collect::<Vec<_>>();
    let described = json!({
        "about": "the same events in other frames, with codec base: by frame its parts (stream, \
                  sequence, key_first, raw_bytes, offset, bytes)",
        "closed": true,
        "variant": VARIANT,
        "base": "base.catch",
        "parts": (0..EVENTS / ROWS[1]).map(records).collect::<Vec<_>>(),
        "fragments": fragments,
        "of_1_2": "the events without the payload, which is unreadable: its codec is unknown",
    });
    vec![("base", written(&model(ROWS[0]), |_, _| ()), base), ("in-base", in_base, described)]
}

#[test]
fn golden_payload_in_a_base_is_its_parts_and_no_bytes_of_its_own() {
    let (bytes, beside) = read_golden("in-base");
    let (of_base, _) = read_golden("base");
    let (file, base) = (FileReader::open(&bytes).unwrap(), FileReader::open(&of_base).unwrap());
    assert_eq!(file.header().run, base.header().run);
    let named = file.header().base.as_ref().expect("it names its base");
    assert_eq!((&*named.path, named.variant), ("base.catch", base.header().variant));
    let id = file.event_columns().sources[0].payload.expect("a column");
    let mut raw = Vec::new();
    for frame in 0..file.frames().len() {
        assert!(verify_frame(&file, frame).is_empty(), "frame {frame}");
        let entry = file.find(frame, id).unwrap().expect("there");
        assert_eq!(entry.codec.number(), 6);
        let error = file.read_column(frame, &entry, &mut raw).expect_err("it has no bytes");
        let FrameError::Column { problem: ColumnProblem::Codec(problem), .. } = error else {
            panic!("{error}");
        };
        assert_eq!(problem, CodecError::Base);
        let parts = file.stored_column(frame, &entry).unwrap().base_parts().expect("its parts");
        let mut payload = Vec::new();
        for part in &parts {
            let index = part.sequence as usize;
            assert!(base.read(index, id, &mut raw).expect("a column"));
            assert_eq!(raw.len() as u64, part.raw_bytes);
            assert_eq!(base.frames()[index].info.key_first, part.key_first);
            payload.extend_from_slice(&raw[part.offset as usize..][..part.bytes as usize]);
        }
        let rows = ROWS[1] * frame as u64..ROWS[1] * (frame as u64 + 1);
        assert_eq!(payload, self::payload(rows));
        assert_eq!(beside["parts"][frame].as_array().unwrap().len(), parts.len());
        // Books need no payload.
        let (ledger, problems) = frame_ledger(&file, frame);
        assert!(problems.is_empty());
        let recorded = ledger.sources[0][Entry::FragmentBytesRecorded];
        assert_eq!(recorded, payload.len() as u64);
    }
}

#[test]
fn parts_that_lie_are_named() {
    let (good, _) = read_golden("in-base");
    let file = FileReader::open(&good).unwrap();
    let id = file.event_columns().sources[0].payload.expect("a column");
    let entry = file.find(0, id).unwrap().expect("there");
    let at = (file.frames()[0].offset + entry.offset) as usize;
    // A byte of the first part's `bytes`: with a wrong checksum, and with the right one.
    let mut damaged = good.clone();
    damaged[at + 40] ^= 1;
    let named = |bytes: &[u8]| {
        let file = FileReader::open(bytes).unwrap();
        verify_frame(&file, 0).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(named(&damaged).iter().any(|one| one.contains("checksum")), "{:?}", named(&damaged));
    let mut model = model(ROWS[1]);
    for column in model.frames.iter_mut().flat_map(|frame| &mut frame.columns) {
        if column.id == id {
            column.raw = vec![1; BASE_PART_BYTES];
        }
    }
    let lies = written(&model, |_, entry| {
        if entry.id == id {
            (entry.codec, entry.raw_bytes, entry.rows) = (Codec::Base, 9, 9);
        }
    });
    assert!(
        named(&lies).iter().any(|one| one.contains("not within its payload")),
        "{:?}",
        named(&lies)
    );
}

#[test]
fn no_column_but_a_payload_can_be_in_a_base() {
    let mut model = model(ROWS[1]);
    let id = EventColumns::of(&model.header.schema).time.expect("a column");
    let bytes = 8 * ROWS[1];
    let part = BasePart { raw_bytes: bytes, offset: 0, bytes, ..parts(0)[0] };
    for column in model.frames.iter_mut().flat_map(|frame| &mut frame.columns) {
        if column.id == id {
            column.raw.clear();
            encode_base_parts(&[part], &mut column.raw);
        }
    }
    for codec in [Codec::Base, qualified(Codec::Base)] {
        let file = written(&model, |_, entry| {
            if entry.id == id {
                (entry.codec, entry.raw_bytes, entry.rows) = (codec, bytes, ROWS[1]);
            }
        });
        let file = FileReader::open(&file).unwrap();
        let errors = verify_frame(&file, 0);
        assert!(errors.iter().any(|one| one.to_string().contains("payload only")), "{errors:?}");
    }
}
