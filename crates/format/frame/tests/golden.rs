//! Golden files of events, of versions 1.0 and 1.2: their contents match the descriptions beside
//! them. Those of 1.0 are never rewritten. Those of 1.2 are, until that version is released, by
//! `CATCHMENT_GOLDEN_WRITE=1 cargo test -p catchment-frame --test all golden`.

#![expect(clippy::disallowed_methods, reason = "golden files are read from the repository")]

use std::path::PathBuf;

use crate::common;
use catchment_fixtures::Events;
use catchment_frame::{
    Codec, EntryNames, FileReader, OpenOptions, Origin, ReadAt, Schema, frame_ledger, verify_frame,
};
use catchment_model::{Entry, Ledger, SourceLedger};
use common::{GoldenRandom, Model};
use serde_json::{Value, json};

struct Golden {
    version: &'static str,
    name: &'static str,
    about: &'static str,
    model: Model,
    codec: Codec,
    closed: bool,
}

impl Golden {
    fn path(&self, extension: &str) -> PathBuf {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        folder.join(format!("v{}/{}.{extension}", self.version, self.name))
    }
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
        of_streams(),
    ]
}

/// Two builders' frames in one file, and malformed packets by their sources' own reasons.
fn of_streams() -> Golden {
    let about = "frames of two streams, epochs and slices; malformed packets by reason";
    let count = |counts: &mut SourceLedger| {
        counts[Entry::PacketsReceived] += 5;
        counts[Entry::PacketsMalformedShort] = 2;
        counts[Entry::PacketsMalformedChecksum] = 3;
        counts.reasons[..2].copy_from_slice(&[2, 3]);
    };
    let Golden { mut model, .. } = golden_with("events-streams", about, Codec::Lz4, true, count);
    model.header.ledger_entries = entries_of_1_2();
    let mut schema = Schema::clone(&model.header.schema);
    schema.sources[0].malformed_reasons = vec!["short".into(), "trailer".into()];
    model.header.schema = schema.into();
    let origin = |stream, epoch, first_slice| Origin {
        stream,
        epoch,
        first_slice,
        slice_count: 4,
        variant: 0,
    };
    model.origins = vec![origin(1, 1, 0), origin(2, 1, 4), origin(1, 2, 1 << 40)];
    Golden { version: "1.2", name: "events-streams", about, model, codec: Codec::Lz4, closed: true }
}

/// The entries of version 1.2, two of which have had other names since version 1.3.
fn entries_of_1_2() -> EntryNames {
    let mut entries = EntryNames::default();
    entries.0.truncate(ENTRIES_OF_1_2);
    for name in &mut entries.0 {
        *name = name.replace("bad_tag", "wrong_tag").replace("bad_sender", "flagged_error");
    }
    entries
}

fn golden(name: &'static str, about: &'static str, codec: Codec, closed: bool) -> Golden {
    golden_with(name, about, codec, closed, |_| {})
}

/// As [`golden`], with further counts in the first frame's increment.
fn golden_with(
    name: &'static str,
    about: &'static str,
    codec: Codec,
    closed: bool,
    count: impl Fn(&mut SourceLedger),
) -> Golden {
    let mut model = Model::new(3);
    model.header.ledger_entries = entries_of_1_2();
    // The entries of version 1.0: later ones follow them.
    model.header.ledger_entries.0.truncate(ENTRIES_OF_1_0);
    // Two of them have had other names since version 1.2.
    for name in &mut model.header.ledger_entries.0 {
        *name = name.replace("malformed_header", "malformed_decoding");
        *name = name.replace("malformed_checksum", "malformed_trailer");
    }
    let mut random = GoldenRandom(0x0c0f_fee0 + name.len() as u64);
    let missing = codec == Codec::Lz4;
    let mut all = Vec::new();
    for frame in 0..3usize {
        let rows = if missing { [40, 30, 0][frame] } else { [12, 7, 9][frame] };
        all.push(some_events(&mut random, frame, rows, missing));
    }
    count(&mut all[0].increment.as_mut().expect("an increment").sources[0]);
    for events in &all {
        model.ledger.add(&events.ledger(&model.header.schema));
        model.frames.push(events.frame(&model.header.schema, codec));
    }
    for source in &mut model.ledger.sources {
        source[Entry::FragmentsDurable] = source[Entry::FragmentsRecorded];
    }
    model.flags.run_ended = true;
    model.flags.data_lost = missing;
    Golden { version: "1.0", name, about, model, codec, closed }
}

fn some_events(random: &mut GoldenRandom, frame: usize, rows: usize, missing: bool) -> Events {
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
            let bytes = if missing && row % 5 == 0 { 0 } else { 16 + random.index(30) };
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
        let mut described = json!({
            "about": self.about,
            "version": self.version,
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
        });
        if self.version != "1.0" {
            described["malformed_reasons"] = reasons_json(&self.model);
        }
        described
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// By source name, the non-zero entries.
fn ledger_json(ledger: &Ledger, model: &Model) -> Value {
    let named = model.header.schema.sources.iter().zip(&ledger.sources);
    let sources = named.map(|(info, counts)| {
        let counts = counts.iter().filter(|(_, count)| *count != 0);
        let counts = counts.map(|(entry, count)| (entry.name().to_owned(), count.into()));
        (info.name.clone(), Value::Object(counts.collect()))
    });
    Value::Object(sources.collect())
}

/// A frame as a reader written from the specification gets it from the file.
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
    let (mut ledger, problems) = frame_ledger(file, frame);
    assert!(problems.is_empty());
    for counts in &mut ledger.sources {
        for entry in
            [Entry::FragmentsRecorded, Entry::FragmentBytesRecorded, Entry::FragmentsMissing]
        {
            counts[entry] = 0;
        }
    }
    let Origin { stream, epoch, first_slice, slice_count, .. } = file.frames()[frame].info.origin;
    let mut described = json!({
        "sequence": file.frames()[frame].info.sequence,
        "keys": keys,
        "times_ns": times,
        "flags": flags,
        "fragments": fragments,
        "ledger_increment": ledger_json(&ledger, model),
    });
    if !model.origins.is_empty() {
        described["origin"] = json!([stream, epoch, first_slice, slice_count]);
    }
    described
}

fn describe<R: ReadAt>(file: &FileReader<R>, golden: &Golden) -> Value {
    let frames = 0..file.frames().len();
    let frames = frames.map(|frame| frame_as_read(file, frame, &golden.model)).collect();
    let ledger = file.ledger().expect("a ledger").map(|l| ledger_json(l, &golden.model));
    golden.describe(frames, ledger)
}

/// By source name, the malformed packets by reason.
fn reasons_json(model: &Model) -> Value {
    let named = model.header.schema.sources.iter().zip(&model.ledger.sources);
    let sources = named.map(|(info, counts)| {
        let counted = info.malformed_reasons.iter().zip(counts.reasons);
        let counted = counted.map(|(name, count)| (name.clone(), count.into()));
        (info.name.clone(), Value::Object(counted.collect()))
    });
    Value::Object(sources.collect())
}

fn write(golden: &Golden) {
    let path = golden.path("catch");
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    let bytes = golden.model.encode().closed;
    std::fs::write(&path, &bytes).expect("written");
    let file = FileReader::open(&bytes).expect("opens");
    let text = serde_json::to_string(&describe(&file, golden)).expect("JSON") + "\n";
    std::fs::write(golden.path("json"), text).expect("written");
}

#[test]
fn golden_files_hold_what_stands_beside_them() {
    for golden in goldens() {
        if golden.version != "1.0" && std::env::var_os("CATCHMENT_GOLDEN_WRITE").is_some() {
            write(&golden);
        }
        let bytes = std::fs::read(golden.path("catch")).expect("the golden file");
        let text = std::fs::read(golden.path("json")).expect("the description");
        let expected: Value = serde_json::from_slice(&text).expect("JSON");
        let file = FileReader::open(&bytes).expect("opens");
        assert_eq!(file.closed(), golden.closed);
        assert_eq!(file.header(), &golden.model.header);
        assert!(file.verify_index().is_empty());
        let count = file.frames().len();
        assert!((0..count).all(|frame| verify_frame(&file, frame).is_empty()));
        assert_eq!(describe(&file, &golden), expected, "{}", golden.name);
        let origins: Vec<Origin> = file.frames().iter().map(|frame| frame.info.origin).collect();
        assert!(golden.model.origins.is_empty() || origins == golden.model.origins);
        // The TOC agrees with the frames' own headers.
        let walked = OpenOptions { ignore_toc: true, ..OpenOptions::default() };
        let walked = FileReader::open_with(&bytes, &walked).expect("opens");
        assert!(
            walked.frames().iter().map(|frame| frame.info).eq(file.frames().iter().map(|f| f.info))
        );
        if let Some(ledger) = file.ledger().expect("a ledger") {
            let reasons =
                |ledger: &Ledger| ledger.sources.iter().map(|one| one.reasons).collect::<Vec<_>>();
            assert_eq!(reasons(ledger), reasons(&golden.model.ledger));
        }
        if golden.codec == Codec::Lz4 {
            let lz4 = |frame| file.columns(frame).expect("a directory").into_iter();
            assert!((0..count).flat_map(lz4).filter(|e| e.codec == Codec::Lz4).count() >= 5);
        }
    }
}

/// How many entries the ledger had in version 1.0.
const ENTRIES_OF_1_0: usize = 28;
/// And in version 1.2.
const ENTRIES_OF_1_2: usize = 38;
