//! Golden files of version 1.0: they hold what stands beside them. They are never written again.

#![expect(clippy::disallowed_methods, reason = "golden files are read from the repository")]

mod common;

use std::path::PathBuf;

use catchment_frame::{Codec, FileReader, ReadAt};
use catchment_model::{Entry, Ledger};
use common::{Events, Model, Random};
use serde_json::{Value, json};

struct Golden {
    name: &'static str,
    about: &'static str,
    model: Model,
    codec: Codec,
    closed: bool,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1.0")
}

fn goldens() -> Vec<Golden> {
    let lz4 = "LZ4; fragments missing, empty ones that are not missing, a source that is silent in \
               the second frame, increments, a last frame without events";
    vec![
        golden("events-raw", "uncompressed; all fragments there; closed", Codec::None, true),
        golden("events-lz4-missing", lz4, Codec::Lz4, true),
        golden(
            "events-unclosed",
            "killed: two whole frames, a third without its header, preallocated zeros",
            Codec::None,
            false,
        ),
    ]
}

fn golden(name: &'static str, about: &'static str, codec: Codec, closed: bool) -> Golden {
    let mut model = Model::new(3);
    // The entries that version 1.0 knew: later ones stand behind them.
    model.header.ledger_entries.0.truncate(ENTRIES_OF_1_0);
    let mut random = Random(0x0c0f_fee0 + name.len() as u64);
    let missing = codec == Codec::Lz4;
    let mut all = Vec::new();
    for frame in 0..3usize {
        let rows = if missing { [40, 30, 0][frame] } else { [12, 7, 9][frame] };
        all.push(some_events(&mut random, frame, rows, missing));
    }
    for events in &all {
        model.ledger.add(&events.ledger(&model.header.schema));
        model.frames.push(events.frame(&model.header.schema, codec));
    }
    for source in &mut model.ledger.sources {
        source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
    }
    model.flags.run_ended = true;
    model.flags.data_lost = missing;
    Golden { name, about, model, codec, closed }
}

fn some_events(random: &mut Random, frame: usize, rows: usize, missing: bool) -> Events {
    let mut events = Events {
        keys: (0..rows as u64).map(|row| 16_777_210 + 100 * frame as u64 + row).collect(),
        times_ns: (0..rows as u64)
            .map(|row| 1_750_000_001_000_000_000 + 1_000_000 * frame as u64 + 250_001 * row)
            .collect(),
        flags: vec![0; rows],
        fragments: Vec::new(),
        increment: None,
    };
    let mut increment = Ledger::new(3);
    for source in 0..3usize {
        let mut fragments = Vec::new();
        for row in 0..rows {
            let silent = missing && source == 2 && frame == 1;
            let gone = silent || (missing && source == 1 && row % 7 == 3);
            if gone && source != 2 {
                events.flags[row] |= 0b11;
            }
            let bytes = if missing && row % 5 == 0 { 0 } else { 16 + random.below(30) };
            fragments.push((!gone).then(|| random.bytes(bytes)));
        }
        let there = fragments.iter().flatten().count() as u64;
        increment.sources[source][Entry::PacketsReceived] = there / 4 + 1;
        increment.sources[source][Entry::PacketsAccepted] = there / 4 + 1;
        increment.sources[source][Entry::FragmentsReceived] = there;
        events.fragments.push(fragments);
    }
    events.increment = Some(increment);
    events
}

impl Golden {
    fn describe(&self, frames: Vec<Value>, ledger: Option<Value>) -> Value {
        let header = &self.model.header;
        let sources = header.schema.sources.iter().map(|source| {
            json!({ "id": source.id, "name": source.name, "group": source.group,
                    "protocol": source.protocol, "required": source.required })
        });
        json!({
            "about": self.about,
            "version": "1.0",
            "codec": self.codec.to_string(),
            "closed": self.closed,
            "run_ended": self.closed,
            "data_lost": self.closed && self.model.flags.data_lost,
            "run": header.run.to_string(),
            "run_number": header.run_number,
            "file_index": header.file_index,
            "file_id": format!("{:016x}", header.file_id),
            "created_ns": header.created_ns,
            "writer": header.writer,
            "config": header.config,
            "sources": sources.collect::<Vec<_>>(),
            "frames": frames,
            "ledger": ledger,
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Per source's name, the entries that are not zero.
fn ledger_json(ledger: &Ledger, model: &Model) -> Value {
    let named = model.header.schema.sources.iter().zip(&ledger.sources);
    let sources = named.map(|(info, counts)| {
        let counts = counts.iter().filter(|(_, count)| *count != 0);
        let counts = counts.map(|(entry, count)| (entry.name().to_owned(), count.into()));
        (info.name.clone(), Value::Object(counts.collect()))
    });
    Value::Object(sources.collect())
}

/// A frame as a reader of the specification gets it from the file.
fn frame_as_read<R: ReadAt>(file: &FileReader<R>, frame: usize, model: &Model) -> Value {
    let columns = file.event_columns();
    let mut bytes = Vec::new();
    let mut numbers = |column: Option<u32>, size: usize| -> Vec<u64> {
        file.read(frame, column.expect("a standard column"), &mut bytes).expect("reads");
        let number = |b: &[u8]| b.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        bytes.chunks_exact(size).map(number).collect()
    };
    let (keys, times) = (numbers(columns.key, 8), numbers(columns.time, 8));
    let flags = numbers(columns.flags, 4);
    let rows = file.frames()[frame].info.rows as usize;
    assert_eq!(keys.len(), rows);
    let mut fragments = serde_json::Map::new();
    for (info, source) in file.header().schema.sources.iter().zip(&columns.sources) {
        let lengths = numbers(source.lengths, 4);
        let validity = numbers(source.validity, 1);
        let payload: Vec<u8> = numbers(source.payload, 1).iter().map(|&byte| byte as u8).collect();
        let mut start = 0;
        let mut row = |row: usize| {
            let there = match (lengths.is_empty(), validity.is_empty()) {
                (true, _) => false,
                (false, true) => true,
                (false, false) => validity[row / 8] >> (row % 8) & 1 == 1,
            };
            let end = start + lengths.get(row).map_or(0, |&length| length as usize);
            let fragment = &payload[start..end];
            start = end;
            there.then(|| hex(fragment))
        };
        let all: Vec<_> = (0..rows).map(&mut row).collect();
        assert_eq!(start, payload.len());
        fragments.insert(info.name.clone(), all.into());
    }
    let (mut ledger, problems) = file.frame_ledger(frame);
    assert!(problems.is_empty());
    for counts in &mut ledger.sources {
        for entry in
            [Entry::FragmentsRecorded, Entry::FragmentBytesRecorded, Entry::FragmentsMissing]
        {
            counts[entry] = 0;
        }
    }
    json!({
        "sequence": file.frames()[frame].info.sequence,
        "keys": keys,
        "times_ns": times,
        "flags": flags,
        "fragments": fragments,
        "ledger_increment": ledger_json(&ledger, model),
    })
}

#[test]
fn golden_files_hold_what_stands_beside_them() {
    for golden in goldens() {
        let path = folder().join(golden.name);
        let bytes = std::fs::read(path.with_extension("catch")).expect("the golden file");
        let text = std::fs::read(path.with_extension("json")).expect("the description");
        let expected: Value = serde_json::from_slice(&text).expect("JSON");
        let file = FileReader::open(&bytes).expect("opens");
        assert_eq!(file.closed(), golden.closed);
        assert_eq!(file.header(), &golden.model.header);
        assert!(file.verify_index().is_empty());
        let count = file.frames().len();
        assert!((0..count).all(|frame| file.verify_frame(frame).is_empty()));
        let frames = (0..count).map(|frame| frame_as_read(&file, frame, &golden.model)).collect();
        let ledger = file.ledger().expect("a ledger").map(|l| ledger_json(l, &golden.model));
        assert_eq!(golden.describe(frames, ledger), expected, "{}", golden.name);
        if golden.codec == Codec::Lz4 {
            let lz4 = |frame| file.columns(frame).expect("a directory").into_iter();
            assert!((0..count).flat_map(lz4).filter(|e| e.codec == Codec::Lz4).count() >= 5);
        }
    }
}

/// How many entries the ledger had in version 1.0.
const ENTRIES_OF_1_0: usize = 28;
