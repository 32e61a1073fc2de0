//! Frames of channels: samples, gaps, times and the ledger, and their errors.

use crate::common;
use catchment_fixtures::{Column, Frame, Random};
use catchment_frame::{
    ChannelColumns, Codec, ColumnKind, Dtype, FileReader, OpenOptions, Span, encode_spans,
    frame_ledger, verify_frame,
};
use catchment_model::{Entry, TimeScale};
use common::channels::{FIRST_NS, FRAME_NS, channel_model};
use common::{Model, assert_holds};

#[test]
fn samples_are_read_with_their_numbers_and_times() {
    for gaps in [false, true] {
        let (model, samples) = channel_model(41 + u64::from(gaps), 6, gaps, Codec::Lz4);
        let encoded = model.encode();
        let walk = OpenOptions { ignore_toc: true, ..OpenOptions::default() };
        for options in [OpenOptions::default(), walk] {
            let file = FileReader::open_with(&encoded.closed, &options).expect("opens");
            assert_holds(&file, &model, 6);
            for (frame, expected) in samples.iter().enumerate() {
                assert!(verify_frame(&file, frame).is_empty(), "{:?}", verify_frame(&file, frame));
                let spans = file.spans(frame).expect("spans");
                for one in expected {
                    let entry = file.find(frame, one.id).expect("finds").expect("there");
                    assert_eq!(spans.runs(&entry).expect("runs"), one.runs);
                    let channel = file.channel_columns().by_id(one.id).expect("a channel");
                    assert_eq!(entry.start_ns, channel.rate.time_ns(entry.first_sample));
                    assert!(entry.start_ns >= FIRST_NS + frame as u64 * FRAME_NS);
                }
            }
        }
    }
}

#[test]
fn channels_are_found_by_name() {
    let (model, _) = channel_model(43, 1, false, Codec::None);
    let bytes = model.encode().closed;
    let file = FileReader::open(&bytes).expect("opens");
    let channels = file.channel_columns();
    assert_eq!(*channels, ChannelColumns::of(&model.header.schema));
    let by_name = |name: &str| channels.channels.iter().find(|channel| channel.name == name);
    let fast = by_name("X1:FAST").expect("there");
    assert_eq!((fast.dtype, fast.rate.num(), fast.sample_bytes()), (Dtype::I16, 2_048, 2));
    assert_eq!((fast.scale, fast.offset), (Some(0.000_305), Some(-1.5)));
    assert_eq!(fast.time_scale, TimeScale::Gps);
    assert_eq!(by_name("X1:VECTOR").expect("there").sample_bytes(), 3);
    let column = model.header.schema.columns.iter().find(|c| c.id == fast.id).expect("a column");
    assert_eq!((&column.kind, column.source), (&ColumnKind::Channel, Some(0)));
}

#[test]
fn increments_of_channels_say_everything_themselves() {
    let (model, samples) = channel_model(44, 3, true, Codec::None);
    let bytes = model.encode().closed;
    let file = FileReader::open(&bytes).expect("opens");
    for (frame, samples) in samples.iter().enumerate() {
        let (ledger, problems) = frame_ledger(&file, frame);
        assert!(problems.is_empty());
        let counts = &ledger.sources[0];
        assert_eq!(counts[Entry::FragmentsRecorded], samples.len() as u64);
        assert_eq!(counts[Entry::FragmentsMissing], 5 - samples.len() as u64);
        assert_eq!(counts[Entry::FragmentsDurable], 0);
        assert_eq!(ledger.sources[1][Entry::FragmentsMissing], 0);
    }
}

/// The errors that `verify_frame` finds in frame 0 of a changed model.
fn problems_of(change: impl FnOnce(&mut Model)) -> Vec<String> {
    let (mut model, _) = channel_model(45, 1, false, Codec::None);
    change(&mut model);
    let bytes = model.encode().closed;
    let file = FileReader::open(&bytes).expect("opens");
    verify_frame(&file, 0).iter().map(ToString::to_string).collect()
}

#[test]
fn what_channels_say_that_cannot_be_is_named() {
    assert!(problems_of(|_| ()).is_empty());
    let one = |problems: Vec<String>, text: &str| {
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(text), "{problems:?}");
    };
    one(problems_of(|m| m.frames[0].columns[0].start.1 += 1), "start_ns is 1400000000000000001");
    one(problems_of(|m| m.frames[0].columns[0].start.0 += 1), "the time of first_sample");
    // The header contradicts it as well.
    let rows = problems_of(|m| m.frames[0].columns[1].rows -= 1);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows[0].contains("what rows, dtype and shape give"), "{rows:?}");
    assert!(rows[1].contains("the samples of all channels"), "{rows:?}");
    one(problems_of(|m| m.frames[0].columns[1].dtype = Dtype::F64), "dtype is 10");
    let early = problems_of(|m| m.frames[0].times.1 -= FRAME_NS / 2);
    assert!(early.iter().all(|text| text.contains("in the frame's time range")), "{early:?}");
    assert_eq!(early.len(), 4);
    let backwards = problems_of(|m| m.frames[0].times.1 = FIRST_NS - 1);
    assert!(backwards[0].contains("time_last_ns"), "{backwards:?}");
    let add_spans = |model: &mut Model, column: u32, spans: &[Span]| {
        let id = model.header.schema.column(None, &ColumnKind::ChannelSpans).expect("spans");
        let mut raw = Vec::new();
        encode_spans(column, spans, &mut raw);
        let mut column = Column::opaque(id, Codec::None, raw);
        column.dtype = Dtype::Record;
        model.frames[0].columns.push(column);
    };
    let fast = |m: &Model| m.frames[0].columns[0].id;
    let lie = Span { row: 5_000, sample: u64::MAX };
    one(problems_of(|m| add_spans(m, fast(m), &[lie])), "outside of the column's rows");
    let lie = Span { row: 5, sample: u64::MAX };
    one(problems_of(|m| add_spans(m, fast(m), &[lie])), "pass 64 bits");
    let lie = Span { row: 5, sample: u64::MAX - 5_000 };
    one(problems_of(|m| add_spans(m, fast(m), &[lie])), "in the frame's time range");
    let lie = Span { row: 5, sample: 1 };
    one(problems_of(|m| add_spans(m, 77_777, &[lie])), "column 77777: there are spans of it");
    one(problems_of(|m| add_spans(m, fast(m), &[lie, lie])), "not in the order");
}

#[test]
fn typed_payload_need_not_be_whole_arrays() {
    use catchment_frame::PayloadType;
    use catchment_model::SourceId;
    let i16s = PayloadType {
        dtype: Dtype::I16,
        shape: vec![8],
        skip: 16,
        record_bytes: 0,
        fields: Vec::new(),
    };
    let mut model = common::some_model(46, 8, 9, Codec::Lz4);
    let schema = catchment_frame::Schema::clone(&model.header.schema);
    let schema = schema.with_payload_type(SourceId(0), i16s);
    model.header.schema = schema.expect("a schema").into();
    let payload = model.header.schema.column(Some(SourceId(0)), &ColumnKind::FragmentPayload);
    for frame in &mut model.frames {
        for column in frame.columns.iter_mut().filter(|c| Some(c.id) == payload) {
            column.dtype = Dtype::I16;
            column.rows = column.raw.len() as u64 / 2;
        }
    }
    let odd =
        |frame: &Frame| frame.columns.iter().any(|c| Some(c.id) == payload && c.raw.len() % 2 == 1);
    assert!(model.frames.iter().any(odd), "some payload is not whole elements");
    let encoded = model.encode();
    let file = FileReader::open(&encoded.closed).expect("opens");
    assert_holds(&file, &model, 8);
    assert!((0..8).all(|frame| verify_frame(&file, frame).is_empty()));
    let frame = model.frames.iter().position(odd).expect("found above");
    let columns = &mut model.frames[frame].columns;
    let column = columns.iter_mut().find(|c| Some(c.id) == payload).expect("payload");
    column.rows += 1;
    let encoded = model.encode();
    let file = FileReader::open(&encoded.closed).expect("opens");
    assert!(verify_frame(&file, frame)[0].to_string().contains("what rows, dtype and shape give"));
}

#[test]
fn flipped_bits_of_channels_are_found_and_named_and_the_rest_stays_readable() {
    let (model, _) = channel_model(47, 3, true, Codec::Lz4);
    let encoded = model.encode();
    let mut random = Random::new(48);
    let mut out = Vec::new();
    for (frame, entries) in encoded.entries.iter().enumerate() {
        for hit in entries {
            let mut bytes = encoded.closed.clone();
            let at = encoded.frames[frame].offset + hit.offset;
            let at = at as usize + random.index(hit.stored_bytes as usize);
            bytes[at] ^= 1 << random.index(8);
            let file = FileReader::open(&bytes).expect("opens");
            for other in 0..3 {
                let problems: Vec<_> =
                    verify_frame(&file, other).iter().map(ToString::to_string).collect();
                if other != frame {
                    assert!(problems.is_empty());
                    continue;
                }
                let name = format!("frame {frame}, column {}: checksum", hit.id);
                assert!(problems.len() == 1 && problems[0].starts_with(&name), "{problems:?}");
            }
            for column in &model.frames[frame].columns {
                let read = file.read(frame, column.id, &mut out);
                assert_eq!(read.is_ok(), column.id != hit.id);
                assert!(column.id == hit.id || out == column.raw);
            }
        }
    }
}
