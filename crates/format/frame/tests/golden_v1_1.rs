//! Golden files of version 1.1: channels and typed payload in every coding, and an unfinished file
//! with checkpoints. Their contents match the descriptions beside them, and they are never
//! rewritten. Stored bytes are not compared: another version of a codec's library may choose
//! others.

#![expect(clippy::disallowed_methods, reason = "golden files are read from the repository")]

use std::path::PathBuf;

use crate::common;
use catchment_codec::Coding;
use catchment_fixtures::Events;
use catchment_frame::{
    ChannelInfo, ColumnKind, Dtype, FieldInfo, FileHeader, FileReader, PayloadType, ReadAt,
    SampleRun, Schema, verify_frame,
};
use catchment_model::{Entry, Ledger, SampleRate, SourceId, TimeScale};
use common::channels::{Samples, channel_frame};
use common::{GoldenRandom, Model, header};
use serde_json::{Value, json};

const CODINGS: [(&str, Coding); 9] = [
    ("none", Coding::None),
    ("lz4", Coding::Lz4),
    ("zstd", Coding::Zstd { level: 3 }),
    ("bitshuffle-lz4", Coding::BitshuffleLz4),
    ("bitshuffle-zstd", Coding::BitshuffleZstd { level: 3 }),
    ("shuffle-lz4", Coding::ShuffleLz4),
    ("shuffle-zstd", Coding::ShuffleZstd { level: 3 }),
    ("pcodec", Coding::Pcodec { level: 8 }),
    ("for", Coding::For),
];

/// Frames of 1 s begin here: TAI 1_700_000_000 s.
const FIRST_S: u64 = 1_700_000_000;
const S: u64 = 1_000_000_000;

/// A channel of every type, and one of vectors with a rate that is a fraction.
fn channels() -> Vec<ChannelInfo> {
    let dtypes = (Dtype::U8.number()..=Dtype::C128.number()).map(Dtype::from_number);
    let rate = SampleRate::new(256, 1).expect("a rate");
    let mut channels: Vec<_> = dtypes
        .map(|dtype| ChannelInfo {
            unit: "ct".into(),
            ..ChannelInfo::new(format!("X1:{}", dtype.name().to_uppercase()), dtype, rate)
        })
        .collect();
    channels.push(ChannelInfo {
        shape: vec![2, 3],
        unit: "V".into(),
        scale: Some(0.25),
        offset: Some(-32.0),
        source: Some(0),
        ..ChannelInfo::new("X1:VECTOR", Dtype::I16, SampleRate::new(200, 7).expect("a rate"))
    });
    channels
}

/// A slow wave with a little noise, so that every codec saves something.
fn value(random: &mut GoldenRandom, sample: u64, element: u64) -> i64 {
    let phase = (sample + 16 * element) % 128;
    let wave = phase.min(128 - phase) as i64;
    wave / 2 + random.index(3) as i64
}

fn encode(value: i64, dtype: Dtype, out: &mut Vec<u8>) {
    match dtype {
        Dtype::U8 | Dtype::I8 => out.push(value as u8),
        Dtype::U16 | Dtype::I16 => out.extend((value as u16).to_le_bytes()),
        Dtype::U32 | Dtype::I32 => out.extend((value as u32).to_le_bytes()),
        Dtype::U64 | Dtype::I64 => out.extend((value as u64).to_le_bytes()),
        Dtype::F32 => out.extend((value as f32 / 4.0).to_le_bytes()),
        Dtype::F64 => out.extend((value as f64 / 4.0).to_le_bytes()),
        Dtype::C64 => out.extend([value as f32, -0.5].into_iter().flat_map(f32::to_le_bytes)),
        Dtype::C128 => out.extend([value as f64, -0.5].into_iter().flat_map(f64::to_le_bytes)),
        other => panic!("{other:?} is no number"),
    }
}

/// The first frame has all samples; the second has gaps and no sample of every third channel.
fn samples(schema: &Schema, frame: u64) -> Vec<Samples> {
    let mut random = GoldenRandom(0x601d_0011 + frame);
    let channels = schema.columns.iter().filter_map(ChannelInfo::of);
    let present = channels.enumerate().filter(|(index, _)| frame == 0 || index % 3 != 2);
    let one = |(_, channel): (usize, ChannelInfo)| {
        let range = channel.rate.samples_of_slice(FIRST_S + frame, S);
        let (start, count) = (range.start, range.end - range.start);
        let runs = if frame == 0 {
            vec![SampleRun { row: 0, rows: count, first_sample: start }]
        } else {
            let quarter = count / 4;
            vec![
                SampleRun { row: 0, rows: 3, first_sample: start + 1 },
                SampleRun { row: 3, rows: quarter, first_sample: start + quarter },
                SampleRun { row: 3 + quarter, rows: 1, first_sample: start + count - 1 },
            ]
        };
        let elements = channel.shape.iter().product::<u64>();
        let mut raw = Vec::new();
        for sample in runs.iter().flat_map(|run| run.first_sample..run.first_sample + run.rows) {
            for element in 0..elements {
                encode(value(&mut random, sample, element), channel.dtype, &mut raw);
            }
        }
        Samples { id: channel.id, runs, raw }
    };
    present.map(one).collect()
}

fn increment(samples: &[Samples]) -> Ledger {
    let mut increment = Ledger::new(1);
    let counts = &mut increment.sources[0];
    counts[Entry::FragmentsRecorded] = samples.len() as u64;
    counts[Entry::FragmentBytesRecorded] = samples.iter().map(|one| one.raw.len() as u64).sum();
    counts[Entry::FragmentsMissing] = 13 - samples.len() as u64;
    increment
}

fn channel_golden(coding: Coding, count: usize, frames: u64) -> Model {
    let mut model = Model { header: header(1), ..Model::new(1) };
    let channels = channels().into_iter().take(count).collect();
    let schema = Schema::channels(model.header.schema.sources.clone(), channels);
    model.header.schema = schema.expect("a schema").into();
    for frame in 0..frames {
        let samples = samples(&model.header.schema, frame);
        let counted = increment(&samples);
        let mut made = channel_frame(&model.header, 0, &samples, Some(&counted), coding);
        made.times = ((FIRST_S + frame) * S, (FIRST_S + frame + 1) * S);
        model.frames.push(made);
        model.ledger.add(&counted);
    }
    let counts = &mut model.ledger.sources[0];
    counts[Entry::FragmentsDurable] = counts[Entry::FragmentsRecorded];
    model.flags.run_ended = true;
    model
}

/// Sources with arrays behind a header, with records, and without a type.
fn typed_golden(coding: Coding) -> (Model, Vec<Events>) {
    let mut model = Model::new(3);
    let field = |name: &str, dtype, shape: &[u64], offset| FieldInfo {
        name: name.into(),
        dtype,
        shape: shape.to_vec(),
        offset,
    };
    let arrays = PayloadType {
        dtype: Dtype::I16,
        shape: vec![4, 8],
        skip: 16,
        record_bytes: 0,
        fields: Vec::new(),
    };
    let records = PayloadType {
        dtype: Dtype::Record,
        shape: Vec::new(),
        skip: 0,
        record_bytes: 16,
        fields: vec![
            field("time", Dtype::U64, &[], 0),
            field("channel", Dtype::U16, &[], 8),
            field("amplitude", Dtype::I16, &[2], 12),
        ],
    };
    let schema = Schema::clone(&model.header.schema)
        .with_payload_type(SourceId(0), arrays)
        .and_then(|schema| schema.with_payload_type(SourceId(1), records));
    model.header.schema = schema.expect("a schema").into();
    let mut random = GoldenRandom(0x601d_0012);
    let mut all = Vec::new();
    for frame in 0..2u64 {
        let rows = 24;
        let mut events = Events {
            keys: (0..rows).map(|row| 100 * frame + row).collect(),
            times_ns: (0..rows).map(|row| FIRST_S * S + 1_000_000 * frame + 1_000 * row).collect(),
            flags: vec![0; rows as usize],
            fragments: vec![Vec::new(); 3],
            increment: None,
        };
        for row in 0..rows {
            let mut array = vec![0xa0; 16];
            // A truncated fragment stays as it is; in the second frame some are missing.
            let elements = if (frame, row) == (1, 5) { 7 } else { 32 };
            (0..elements).for_each(|i| encode(value(&mut random, row, i), Dtype::I16, &mut array));
            let missing = frame == 1 && row % 6 == 2;
            events.fragments[0].push((!missing).then_some(array));
            let mut records = Vec::new();
            for index in 0..row % 4 {
                records.extend((1_000 * row + index).to_le_bytes());
                records.extend((index as u16).to_le_bytes());
                records.extend([0; 2]);
                records.extend((-5i16 - row as i16).to_le_bytes());
                records.extend(7i16.to_le_bytes());
            }
            events.fragments[1].push(Some(records));
            events.fragments[2].push(Some(vec![row as u8; 3]));
            events.flags[row as usize] = u32::from(missing);
        }
        model.ledger.add(&events.ledger(&model.header.schema));
        model.frames.push(events.frame(&model.header.schema, coding));
        all.push(events);
    }
    for source in &mut model.ledger.sources {
        source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
    }
    model.flags.run_ended = true;
    (model, all)
}

/// Frames of events and channels alternating, two checkpoints, a frame after them, zeros.
fn unfinished_golden() -> (Model, Vec<u8>) {
    let (mut model, _) = typed_golden(Coding::Lz4);
    let channels = channels().into_iter();
    let channels = channels.map(|one| ChannelInfo { time_scale: TimeScale::Utc, ..one }).take(3);
    let schema = Schema::clone(&model.header.schema).with_channels(channels.collect());
    model.header.schema = schema.expect("a schema").into();
    model.header.locator = true;
    model.checkpoint_every = 2;
    let events = std::mem::take(&mut model.frames);
    for frame in 0..5u64 {
        if frame % 2 == 0 {
            model.frames.push(events[frame as usize / 2 % 2].clone());
            continue;
        }
        let samples = samples(&model.header.schema, frame / 2);
        let mut made = channel_frame(&model.header, 0, &samples, None, Coding::Lz4);
        made.times = ((FIRST_S + frame / 2) * S, (FIRST_S + frame / 2 + 1) * S);
        model.frames.push(made);
    }
    let mut bytes = model.encode().unclosed;
    bytes.resize(bytes.len() + 8_192, 0);
    (model, bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file's description of its channels.
fn describe_channels<R: ReadAt>(file: &FileReader<R>) -> Value {
    let channel = |one: &ChannelInfo| {
        json!({ "id": one.id, "name": one.name, "dtype": one.dtype.name(), "shape": one.shape,
                "rate": [one.rate.num(), one.rate.den()], "time_scale": one.time_scale.name(),
                "unit": one.unit, "scale": one.scale, "offset": one.offset })
    };
    file.channel_columns().channels.iter().map(channel).collect::<Vec<_>>().into()
}

/// The file's description of its typed payload.
fn describe_payload<R: ReadAt>(file: &FileReader<R>) -> Value {
    let payload = |source: u32| {
        let id = file.event_columns().sources[source as usize].payload;
        let column = file.header().schema.columns.iter().find(|c| Some(c.id) == id)?;
        let kind = column.payload_type()?;
        let fields = kind.fields.iter().map(|field| {
            json!({ "name": field.name, "dtype": field.dtype.name(), "shape": field.shape,
                    "offset": field.offset })
        });
        Some(json!({ "dtype": kind.dtype.name(), "fragment_shape": kind.shape, "skip": kind.skip,
                     "record_bytes": kind.record_bytes, "fields": fields.collect::<Vec<_>>() }))
    };
    (0..file.header().schema.sources.len() as u32).map(payload).collect::<Vec<_>>().into()
}

/// Every column of a frame, decoded; for channels also the numbering of samples.
fn describe_frame<R: ReadAt>(file: &FileReader<R>, frame: usize) -> Value {
    let info = file.frames()[frame].info;
    let spans = file.spans(frame).expect("spans");
    let mut columns = serde_json::Map::new();
    let mut bytes = Vec::new();
    for entry in file.columns(frame).expect("a directory") {
        file.read_column(frame, &entry, &mut bytes).expect("reads");
        let schema = file.header().schema.columns.iter();
        let column = schema.clone().find(|c| c.id == entry.id).expect("in the schema");
        let source = column.source.filter(|_| column.kind != ColumnKind::Channel);
        let mut value = json!({ "kind": column.kind.name(), "source": source,
                                "dtype": entry.dtype.name(), "rows": entry.rows, "raw": hex(&bytes) });
        if column.kind == ColumnKind::Channel {
            let runs = spans.runs(&entry).expect("runs");
            let runs: Vec<_> =
                runs.iter().map(|r| json!([r.row, r.rows, r.first_sample])).collect();
            value["name"] = column.name.clone().into();
            value["start_ns"] = entry.start_ns.into();
            value["runs"] = runs.into();
        }
        columns.insert(entry.id.to_string(), value);
    }
    json!({ "kind": info.kind.name(), "sequence": info.sequence, "rows": info.rows,
            "time_first_ns": info.time_first_ns, "time_last_ns": info.time_last_ns,
            "columns": columns })
}

/// The description beside a file, for readers in other languages: the same for all codings.
fn describe<R: ReadAt>(file: &FileReader<R>, about: &str) -> Value {
    let frames = 0..file.frames().len();
    json!({
        "about": about,
        "version": "1.1",
        "closed": file.closed(),
        "run": file.header().run.to_string(),
        "channels": describe_channels(file),
        "payload": describe_payload(file),
        "frames": frames.map(|frame| describe_frame(file, frame)).collect::<Vec<_>>(),
    })
}

struct Golden {
    name: String,
    /// Of the description.
    beside: &'static str,
    about: &'static str,
    coding: Coding,
    bytes: Vec<u8>,
}

fn goldens() -> Vec<Golden> {
    let mut all = Vec::new();
    for (name, coding) in CODINGS {
        all.push(Golden {
            name: format!("channels-{name}"),
            beside: "channels",
            about: "a channel of every type and one of vectors; a whole frame and one with gaps",
            coding,
            bytes: channel_golden(coding, 13, 2).encode().closed,
        });
        all.push(Golden {
            name: format!("typed-{name}"),
            beside: "typed",
            about: "arrays behind 16 bytes, records, bytes; one fragment cut short, some missing",
            coding,
            bytes: typed_golden(coding).0.encode().closed,
        });
    }
    all.push(Golden {
        name: "many-frames".into(),
        beside: "many-frames",
        about: "twelve frames of two channels, so that the TOC's lists are packed",
        coding: Coding::For,
        bytes: channel_golden(Coding::For, 2, 12).encode().closed,
    });
    all.push(Golden {
        name: "unfinished".into(),
        beside: "unfinished",
        about: "killed: events and channels (UTC) in turn, two checkpoints, one frame behind, zeros",
        coding: Coding::Lz4,
        bytes: unfinished_golden().1,
    });
    all
}

fn path(name: &str, extension: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1.1");
    folder.join(format!("{name}.{extension}"))
}

#[test]
fn golden_files_hold_what_stands_beside_them() {
    for golden in goldens() {
        let made = FileReader::open(&golden.bytes).expect("opens");
        let described = describe(&made, golden.about);
        let (file, beside) = (path(&golden.name, "catch"), path(golden.beside, "json"));
        let bytes = std::fs::read(&file).expect("the golden file");
        assert!(bytes.len() < 80_000, "{} has {} bytes", golden.name, bytes.len());
        let text = std::fs::read(&beside).expect("the description");
        let expected: Value = serde_json::from_slice(&text).expect("JSON");
        let read = FileReader::open(&bytes).expect("opens");
        // Entries are only ever appended: the file has those of its time.
        let entries = &read.header().ledger_entries;
        for (number, &entry) in (0..entries.0.len()).zip(Entry::ALL) {
            assert_eq!(entries.entry(number as u16), Some(entry));
        }
        let header = FileHeader { ledger_entries: entries.clone(), ..made.header().clone() };
        assert_eq!(*read.header(), header);
        assert_eq!(describe(&read, golden.about), expected, "{}", golden.name);
        assert_eq!(described, expected, "{} is made differently", golden.name);
        assert!(read.verify_index().is_empty());
        // The lists of TOC and checkpoints agree with the frames' own headers.
        for frame in 0..read.frames().len() {
            for entry in read.columns(frame).expect("a directory") {
                assert_eq!(read.find(frame, entry.id).expect("a list"), Some(entry));
            }
        }
        let problems: Vec<_> =
            (0..read.frames().len()).flat_map(|f| verify_frame(&read, f)).collect();
        assert!(problems.is_empty(), "{}: {problems:?}", golden.name);
        assert_eq!(read.ledger().expect("no error"), made.ledger().expect("no error"));
    }
}

#[test]
fn every_coding_is_really_used() {
    for golden in goldens() {
        let bytes = std::fs::read(path(&golden.name, "catch")).expect("the golden file");
        let file = FileReader::open(&bytes).expect("opens");
        let entries = (0..file.frames().len()).flat_map(|frame| file.columns(frame).expect("read"));
        let used = entries.filter(|entry| entry.codec == golden.coding.codec()).count();
        // pcodec does not support single bytes, nor `for` floats: substitutes are used.
        let least = if golden.beside == "channels" { 6 } else { 2 };
        assert!(used >= least, "{}: {used}", golden.name);
    }
}

#[test]
fn the_unfinished_file_is_opened_by_its_checkpoints() {
    let bytes = std::fs::read(path("unfinished", "catch")).expect("the golden file");
    let file = FileReader::open(&bytes).expect("opens");
    assert!(!file.closed() && file.header().locator);
    assert_eq!(file.frames().len(), 5);
    let at_checkpoint = file.ledger_at_checkpoint().expect("no error");
    assert_eq!(at_checkpoint.map(|(frames, _)| frames), Some(4));
}
