//! Runs whose payload is in another run's files: their base.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::common;
use catchment_builder::{ClockConfig, Floods, TimeConfig};
use catchment_fixtures::hadtu_sources;
use catchment_frame::{FileReader, Numbering, Schema};
use catchment_model::{EventFlags, SourceId};
use catchment_storage::{
    ColumnData, Ending, EventFrame, EventSource, NewRun, Rebuilt, ReframeOptions, Run, RunOptions,
    RunWriter, StorageError, Verdict, WriteOptions, audit, merge, reframe, verify,
};

/// A folder with the golden run and, in a folder of its own, its base.
struct Golden {
    folder: tempfile::TempDir,
}

impl Golden {
    fn new() -> Self {
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format/frame/tests/golden/v1.3");
        let made = Self { folder: tempfile::tempdir().unwrap() };
        for (name, file) in [("anew", "in-base.catch"), ("run", "base.catch")] {
            std::fs::create_dir(made.path(name)).unwrap();
            std::fs::copy(golden.join(file), made.path(name).join("golden-00000.catch")).unwrap();
        }
        made.rename_base("../run");
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Changes what a file's header says.
    fn change(&self, name: &str, change: impl FnOnce(&mut serde_json::Value)) {
        common::change_header(&self.path(name).join("golden-00000.catch"), 3, change);
    }

    fn rename_base(&self, path: &str) {
        self.change("anew", |metadata| metadata["base"]["path"] = path.into());
    }

    fn open(&self) -> Run {
        Run::open(self.path("anew")).unwrap()
    }
}

fn fragments(run: &Run) -> Result<Vec<Option<Vec<u8>>>, StorageError> {
    let mut fragments = Vec::new();
    for frame in 0..run.frames().len() {
        let column = run.fragments(frame, SourceId(0))?;
        fragments.extend((0..column.rows()).map(|row| column.fragment(row).map(<[u8]>::to_vec)));
    }
    Ok(fragments)
}

fn described() -> Vec<Option<Vec<u8>>> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format/frame/tests/golden/v1.3");
    let text = std::fs::read(golden.join("in-base.json")).unwrap();
    let about: serde_json::Value = serde_json::from_slice(&text).unwrap();
    serde_json::from_value(about["fragments"].clone()).unwrap()
}

#[test]
fn payload_is_read_from_the_base_as_if_it_were_there() {
    let golden = Golden::new();
    let run = golden.open();
    assert_eq!(fragments(&run).unwrap(), described());
    assert_eq!(fragments(&Run::open(golden.path("run")).unwrap()).unwrap(), described());
    // A part of the fragment of event 5, which is in the second part of its frame.
    let part = run.fragment_part(0, SourceId(0), 5, 1..3).unwrap().unwrap();
    assert_eq!(part.bytes, described()[5].as_ref().unwrap()[1..3]);
    let storage = run.stored_payload(0).unwrap().unwrap();
    assert_eq!(storage.codings.into_iter().collect::<Vec<_>>(), [("base".to_owned(), 2)]);
    assert_eq!(storage.stored_bytes, 4 * 48);
    assert_ne!(audit(&run).unwrap().verdict, Verdict::Incomplete);
}

#[test]
fn a_base_that_was_moved_is_given_and_one_that_is_missing_is_named() {
    let golden = Golden::new();
    std::fs::rename(golden.path("run"), golden.path("elsewhere")).unwrap();
    let run = golden.open();
    // What needs no payload is there.
    assert_eq!(run.events(0).unwrap().keys()[5], 5_000);
    assert_eq!(run.expected(0, SourceId(0)).unwrap(), catchment_storage::Validity::All);
    let error = fragments(&run).unwrap_err();
    assert!(matches!(error, StorageError::NoBase { .. }) && !error.is_damage());
    let text = error.to_string();
    let path = golden.path("anew").join("../run");
    assert!(text.contains(&format!("in its base, {} (run ", path.display())), "{text}");
    let report = verify(&run, |_| ());
    assert_eq!(report.problem_count, 1, "{:?}", report.problems);
    assert_eq!(report.problems[0].problem, text);
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Incomplete);
    // It is looked for again.
    std::fs::rename(golden.path("elsewhere"), golden.path("run")).unwrap();
    assert_eq!(fragments(&run).unwrap(), described());
    std::fs::rename(golden.path("run"), golden.path("elsewhere")).unwrap();
    let options = RunOptions { base: Some(golden.path("elsewhere")), ..RunOptions::default() };
    let run = Run::open_with(golden.path("anew"), options).unwrap();
    assert_eq!(fragments(&run).unwrap(), described());
    assert_eq!(run.base_path(), Some(&*golden.path("elsewhere")));
}

#[test]
fn what_is_not_the_base_is_refused() {
    let golden = Golden::new();
    let refused = || {
        let run = golden.open();
        let error = fragments(&run).unwrap_err();
        // Each payload column of the source is named, or the base as a whole.
        let report = verify(&run, |_| ());
        assert!(!report.is_intact() && report.problem_count <= 3, "{:?}", report.problems);
        error.to_string()
    };
    for path in [golden.path("run").to_str().unwrap(), ""] {
        golden.rename_base(path);
        assert!(refused().contains("it is named by an absolute or empty path"), "{}", refused());
    }
    let options = RunOptions { base: Some(golden.path("run")), ..RunOptions::default() };
    let run = Run::open_with(golden.path("anew"), options).unwrap();
    assert_eq!(fragments(&run).unwrap(), described());
    golden.rename_base(".");
    assert!(refused().contains("it is variant 2147484148 of the run, expected 0"), "{}", refused());
    golden.change("anew", |metadata| metadata["base"]["variant"] = 2_147_484_148_u64.into());
    assert!(refused().contains("it is itself without the payload"), "{}", refused());
    golden.change("anew", |metadata| metadata["base"]["variant"] = 0.into());
    golden.rename_base("../run");
    golden.change("run", |metadata| metadata["run"] = "0".repeat(32).into());
    assert!(refused().contains(&format!("it is of run {}", "0".repeat(32))), "{}", refused());
    let id = golden.open().header().run.to_string();
    golden.change("run", |metadata| metadata["run"] = id.into());
    assert_eq!(fragments(&golden.open()).unwrap(), described());
    // The same run in other frames.
    let run = Run::open(golden.path("run")).unwrap();
    let options = ReframeOptions { frame_bytes: Some(100), ..ReframeOptions::default() };
    let cut = golden.path("cut");
    reframe(&run, &cut, "cut", &options, |_| ControlFlow::Continue(())).unwrap();
    golden.rename_base("../cut");
    assert!(refused().contains("it is another frame"), "{}", refused());
    golden.change("anew", |metadata| drop(metadata.as_object_mut().unwrap().remove("base")));
    assert!(refused().contains("its file names none"), "{}", refused());
}

#[test]
fn verifying_looks_for_the_base_once() {
    let golden = Golden::new();
    let cut = golden.path("cut");
    let options = ReframeOptions { frame_bytes: Some(100), ..ReframeOptions::default() };
    let run = Run::open(golden.path("run")).unwrap();
    reframe(&run, &cut, "cut", &options, |_| ControlFlow::Continue(())).unwrap();
    golden.rename_base("../later");
    // Each frame would find other frames in a base that was not there at the beginning.
    let report = verify(&golden.open(), |_| {
        let _ = std::fs::rename(&cut, golden.path("later"));
    });
    assert_eq!((report.frames, report.problem_count), (2, 1), "{:?}", report.problems);
    assert!(golden.path("later").exists());
    let again = verify(&golden.open(), |_| ());
    assert!(again.problems.iter().all(|one| one.problem.contains("it is another frame")));
    assert!(!again.is_intact());
}

#[test]
fn a_folder_with_payload_is_read_and_merged_with_one_whose_payload_is_in_a_base() {
    let golden = Golden::new();
    let go_on = |_| ControlFlow::Continue(());
    reframe(&golden.open(), &golden.path("copy"), "copy", &ReframeOptions::default(), go_on)
        .unwrap();
    // The second frame is in the other folder alone.
    let copied = golden.path("copy").join("copy-00000.catch");
    let bytes = std::fs::read(&copied).unwrap();
    let end = FileReader::open(&bytes[..]).unwrap().frames()[1].offset;
    std::fs::write(&copied, &bytes[..end as usize]).unwrap();
    let both = |second: &str, base: Option<PathBuf>| {
        let options = RunOptions { base, ..RunOptions::default() };
        Run::open_folders(&[golden.path("copy"), golden.path(second)], options).unwrap()
    };
    let run = both("anew", None);
    let folders: Vec<usize> = run.files().map(|file| file.folder).collect();
    assert_eq!(run.frames().iter().map(|frame| folders[frame.file]).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(fragments(&run).unwrap(), described());
    let deep = golden.path("deep/merged");
    merge(&run, &deep, "merged", &WriteOptions::small(), go_on).unwrap();
    let merged = Run::open(&deep).unwrap();
    assert_eq!(fragments(&merged).unwrap(), described());
    assert!(verify(&merged, |_| ()).is_intact());
    // What names a base, and has payload of its own, cannot be built again without a copy.
    let own = golden.path("own");
    std::fs::create_dir(&own).unwrap();
    std::fs::write(own.join("copy-00000.catch"), &bytes).unwrap();
    common::change_header(&own.join("copy-00000.catch"), 3, |metadata| {
        metadata["base"] = serde_json::json!({ "path": "../run" });
    });
    let time = TimeConfig::new(100, vec![ClockConfig::NS], 1_000_000_000);
    let rebuilt = Some(rebuilt(time, 0, false));
    let options = ReframeOptions { rebuilt, ..ReframeOptions::default() };
    let error =
        reframe(&Run::open(&own).unwrap(), &golden.path("no"), "no", &options, go_on).unwrap_err();
    assert!(error.to_string().contains("some of the payload"), "{error}");
    // Two bases, of which one is not there at first.
    std::fs::create_dir(golden.path("second")).unwrap();
    let named = golden.path("anew").join("golden-00000.catch");
    std::fs::copy(&named, golden.path("second").join("golden-00000.catch")).unwrap();
    golden.change("second", |metadata| metadata["base"]["path"] = "../other".into());
    let folders = ["anew", "second"].map(|name| golden.path(name));
    let read = || fragments(&Run::open_folders(&folders, RunOptions::default()).unwrap());
    assert_eq!(read().unwrap(), described());
    std::fs::create_dir(golden.path("other")).unwrap();
    let base = golden.path("run").join("golden-00000.catch");
    std::fs::copy(base, golden.path("other").join("golden-00000.catch")).unwrap();
    let error = read().unwrap_err().to_string();
    assert!(error.contains("/other is not the base") && error.contains("another than"), "{error}");
    let options = RunOptions { base: Some(golden.path("run")), ..RunOptions::default() };
    assert_eq!(fragments(&Run::open_folders(&folders, options).unwrap()).unwrap(), described());
    golden.change("second", |metadata| {
        metadata["base"] = serde_json::json!({ "path": "../run", "variant": 7 });
    });
    let error = read().unwrap_err().to_string();
    assert!(error.contains("variant 7 of the run, and variant 0"), "{error}");
    assert_eq!(fragments(&both("anew", None)).unwrap(), described());
}

#[test]
fn a_base_in_other_codecs_is_the_same_and_a_copy_needs_none() {
    let golden = Golden::new();
    let run = Run::open(golden.path("run")).unwrap();
    let codings = catchment_storage::Codings::new("lz4".parse().unwrap());
    let options = ReframeOptions { codings: Some(codings), ..ReframeOptions::default() };
    let go_on = |_| ControlFlow::Continue(());
    reframe(&run, &golden.path("smaller"), "smaller", &options, go_on).unwrap();
    golden.rename_base("../smaller");
    assert_eq!(fragments(&golden.open()).unwrap(), described());
    reframe(&golden.open(), &golden.path("copy"), "copy", &ReframeOptions::default(), go_on)
        .unwrap();
    let copy = Run::open(golden.path("copy")).unwrap();
    assert_eq!((copy.base_path(), copy.header().variant), (None, golden.open().header().variant));
    assert_eq!(fragments(&copy).unwrap(), described());
    assert!(verify(&copy, |_| ()).is_intact());
}

/// With this window, and the last source's times moved.
fn rebuilt(time: TimeConfig, shift_ns: i64, copy: bool) -> Rebuilt {
    let sources = time.clocks.len();
    let mut shifts_ns = vec![0; sources];
    shifts_ns[sources - 1] = shift_ns;
    let floods = Floods::new(&time, sources as u32, 1_000_000_000);
    let variant = (1 << 31) + time.window_ns as u32 + shift_ns.unsigned_abs() as u32;
    // Each row was one fragment, and its key was the time of that.
    let before_ns = 0;
    Rebuilt { time, floods, before_ns, shifts_ns, config: String::new(), variant, copy }
}

const EVENTS: u64 = 10;

/// Of an event, each source's time and bytes: too far apart for the window of the recording.
fn sent(event: u64, source: u64) -> (u64, Vec<u8>) {
    (10_000 * (event + 1) + 300 * source, vec![(16 * event + source) as u8; 3 + event as usize])
}

/// A row of one fragment.
struct Apart {
    source: u64,
    key: u64,
    ns: u64,
    bytes: Vec<u8>,
    flags: EventFlags,
}

fn all_apart() -> Vec<Apart> {
    let row = |row| {
        let (source, (ns, bytes)) = (row % 2, sent(row / 2, row % 2));
        Apart { source, key: ns, ns, bytes, flags: EventFlags::UNMATCHED }
    };
    (0..2 * EVENTS).map(row).collect()
}

/// A run whose fragments are rows of their own; now and then an event's two are in two frames.
fn write_apart(folder: &Path, numbering: Numbering, rows: &[Apart]) {
    let schema = Schema::events(hadtu_sources(2, |_| true));
    let both = [SourceId(0), SourceId(1)];
    let schema = schema.with_times(both).with_expected(both);
    let run = NewRun { numbering, ..NewRun::new(folder, "run", schema).unwrap() };
    let file_bytes = if numbering == Numbering::File { 1 } else { 1 << 20 };
    let options = WriteOptions { file_bytes, ..WriteOptions::small() };
    let mut writer = RunWriter::create(run, options).unwrap();
    for frame in rows.chunks(5) {
        let keys: Vec<u64> = frame.iter().map(|row| row.key).collect();
        let flags: Vec<u32> = frame.iter().map(|row| row.flags.0).collect();
        let of_source = |source| {
            let own = |row: &Apart| match row.source == source {
                true => (row.ns, row.bytes.clone()),
                false => (0, Vec::new()),
            };
            let (times, bytes): (Vec<u64>, Vec<Vec<u8>>) = frame.iter().map(own).unzip();
            let lengths: Vec<u32> = bytes.iter().map(|bytes| bytes.len() as u32).collect();
            let there = times.iter().enumerate().map(|(row, ns)| u8::from(*ns > 0) << row);
            let bits = vec![there.sum::<u8>()];
            (times, lengths, bits, bytes.concat())
        };
        let columns = [0, 1].map(of_source);
        let sources =
            (0..).zip(&columns).map(|(id, (times, lengths, bits, payload))| EventSource {
                source: SourceId(id),
                lengths,
                validity: Some(bits.into()),
                expected: Some(bits.into()),
                holes: &[],
                times,
                pieces: &[],
                payload: ColumnData::Raw(payload),
            });
        let sources = sources.collect();
        let frame =
            EventFrame { keys: &keys, times_ns: &keys, flags: &flags, sources, increments: None };
        writer.write_events(frame).unwrap();
    }
    writer.finish(Ending { ledger: None, run_ended: true, data_lost: false }).unwrap();
}

/// Of each event its key and its fragments.
fn events(run: &Run) -> Vec<(u64, [Option<Vec<u8>>; 2])> {
    let mut events = Vec::new();
    for frame in 0..run.frames().len() {
        let read = run.events(frame).unwrap();
        let columns = [0, 1].map(|source| run.fragments(frame, SourceId(source)).unwrap());
        events.extend(read.keys().iter().enumerate().map(|(row, &key)| {
            (key, columns.each_ref().map(|column| column.fragment(row).map(<[u8]>::to_vec)))
        }));
    }
    events
}

#[test]
fn events_are_built_again_without_their_payload_also_over_the_borders_of_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write_apart(&path("run"), Numbering::Run, &all_apart());
    let mut with_a_wrong_time = all_apart();
    let (key, flags) = (with_a_wrong_time[2].key + 1, EventFlags::UNMATCHED | EventFlags::LATE);
    let wrong = Apart { source: 1, key, ns: 86_400_000_000_000, bytes: vec![7], flags };
    with_a_wrong_time.insert(3, wrong);
    write_apart(&path("wrong"), Numbering::Run, &with_a_wrong_time);
    let rebuild = |from: &str, to: &str, (window_ns, shift_ns), copy| {
        let run = Run::open(path(from)).unwrap();
        let time = TimeConfig::new(window_ns, vec![ClockConfig::NS; 2], 1_000_000_000);
        let rebuilt = Some(rebuilt(time, shift_ns, copy));
        let options = ReframeOptions { rebuilt, ..ReframeOptions::default() };
        reframe(&run, &path(to), to, &options, |_| ControlFlow::Continue(()))
    };
    let moved = |from: &str, to: &str, (window_ns, shift_ns), copy| {
        rebuild(from, to, (window_ns, shift_ns), copy).unwrap();
        let run = Run::open(path(to)).unwrap();
        let report = verify(&run, |_| ());
        assert!(report.is_intact(), "{:?}", report.problems);
        run
    };
    let build = |from: &str, to: &str, window_ns, copy| moved(from, to, (window_ns, 0), copy);
    let wide = build("run", "wide", 500, false);
    let whole: Vec<_> = (0..EVENTS)
        .map(|event| (sent(event, 0).0, [0, 1].map(|source| Some(sent(event, source).1))))
        .collect();
    assert_eq!(events(&wide), whole);
    assert_eq!(events(&build("run", "copy", 500, true)), whole);
    let base = path("run").canonicalize().unwrap();
    assert_eq!(wide.base_path().unwrap().canonicalize().unwrap(), base);
    for source in 0..2 {
        let stored = wide.stored_payload(source).unwrap().unwrap();
        assert_eq!(stored.codings.keys().collect::<Vec<_>>(), ["base"]);
        let bytes = (0..EVENTS).map(|event| sent(event, 0).1.len() as u64).sum::<u64>();
        assert_eq!(stored.raw_bytes, bytes);
    }
    // Back to what was recorded: the base stays the run that has the payload.
    let narrow = build("wide", "narrow", 100, false);
    assert_eq!(events(&narrow), events(&Run::open(path("run")).unwrap()));
    assert_eq!(narrow.base_path().unwrap().canonicalize().unwrap(), base);
    // The second source's offset was wrong: by as much that frames which follow have what is of an
    // event, on both sides.
    assert_eq!(events(&moved("run", "mended", (100, -300), false)), whole);
    assert_eq!(events(&moved("mended", "back", (100, 300), true)), events(&narrow));
    for events_off in [-4_i64, 4] {
        let to = format!("off by {events_off}");
        let off = moved("run", &to, (100, 10_000 * events_off - 300), false);
        let at = |ns: i64, source: u64| {
            let event = ns / 10_000 - 1 - if source == 1 { events_off } else { 0 };
            let is_sent = (0..EVENTS.cast_signed()).contains(&event);
            is_sent.then(|| sent(event.cast_unsigned(), source).1)
        };
        let expected: Vec<_> = (1..)
            .map(|event| 10_000 * event)
            .take_while(|&ns| at(ns, 0).is_some() || at(ns, 1).is_some())
            .map(|ns| (ns.cast_unsigned(), [at(ns, 0), at(ns, 1)]))
            .collect();
        let found = events(&off);
        // No time is before the first one there is.
        let early = found.iter().take_while(|(key, _)| *key < 10_000).count();
        assert_eq!(early, if events_off < 0 { 4 } else { 0 }, "{found:?}");
        assert_eq!(found[early..], expected);
    }
    // What a clock said that was out of step is no time: it moves no key, and stays marked.
    let wrong = build("wrong", "wrong anew", 500, false);
    let mut with_wrong = whole.clone();
    with_wrong.insert(1, (sent(0, 0).0 + 1, [None, Some(vec![7])]));
    assert_eq!(events(&wrong), with_wrong);
    assert_eq!(wrong.events(0).unwrap().flags()[1], flags.0);
    // Numbers that begin again in each file do not say which frame is meant.
    write_apart(&path("by-file"), Numbering::File, &all_apart());
    let error = rebuild("by-file", "no", (500, 0), false).unwrap_err().to_string();
    assert!(error.contains("not in the order of their numbers"), "{error}");
    assert_eq!(events(&build("by-file", "copied", 500, true)), whole);
}
