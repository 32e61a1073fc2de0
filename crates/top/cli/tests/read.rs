//! `catchment read` of the golden files: what is chosen, and tables that are read back.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::support;
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use catchment_frame::{ChannelInfo, Dtype, Schema, SourceInfo};
use catchment_model::{EventFlags, SampleRate, SourceId, TimeScale, Utc};
use catchment_storage::{
    ChannelColumn, ChannelFrame, ColumnData, Ending, NewRun, Run, RunWriter, WriteOptions,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use support::{json, output, stderr, stdout};

fn golden(name: &str) -> PathBuf {
    let folder = "../../format/frame/tests/golden";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).join(name)
}

/// Event, time, flags and the fragments of two sources.
type Row = (u64, u64, u32, [Option<Vec<u8>>; 2]);

/// The events of a run, frame by frame.
fn recorded(path: &Path) -> Vec<Vec<Row>> {
    let run = Run::open(path).expect("opens");
    let frame = |frame| {
        let events = run.events(frame).expect("reads");
        let columns = [0, 1].map(|id| run.fragments(frame, SourceId(id)).expect("reads"));
        let row = |row: usize| {
            let fragments = columns.each_ref().map(|column| column.fragment(row).map(Vec::from));
            (events.keys()[row], events.times_ns()[row], events.flags()[row], fragments)
        };
        (0..events.len()).map(row).collect()
    };
    (0..run.frames().len()).map(frame).collect()
}

/// The first column of what is printed, without its head.
fn events_printed(path: &Path, options: &[&str]) -> Vec<u64> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = path.to_str().expect("text");
    let text = stdout(folder.path(), &[&["read", path], options].concat(), 0);
    let first = |line: &str| line.split(',').next().and_then(|number| number.parse().ok());
    text.lines().skip(1).map(|line| first(line).expect("a number")).collect()
}

fn tables(path: &Path) -> Vec<RecordBatch> {
    let file = File::open(path).expect("opens");
    if path.extension().is_some_and(|extension| extension == "parquet") {
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
        let reader = reader.build().expect("a reader");
        return reader.map(|batch| batch.expect("reads")).collect();
    }
    let reader = arrow_ipc::reader::FileReader::try_new(file, None).expect("an Arrow file");
    reader.map(|batch| batch.expect("reads")).collect()
}

/// The rows of a table as [`recorded`] gives them, with the fragments of one source.
fn rows_of(batch: &RecordBatch, source: usize) -> Vec<Row> {
    let fragments = batch.column(3).as_binary::<i64>();
    let row = |row: usize| {
        let mut of = [None, None];
        of[source] = fragments.is_valid(row).then(|| fragments.value(row).to_vec());
        let time = batch.column(1).as_primitive::<TimestampNanosecondType>().value(row);
        let key = batch.column(0).as_primitive::<UInt64Type>().value(row);
        (key, time as u64, batch.column(2).as_primitive::<UInt32Type>().value(row), of)
    };
    (0..batch.num_rows()).map(row).collect()
}

#[test]
fn tables_of_events_read_back_as_they_were_recorded() {
    for name in ["v1.0/events-lz4-missing.catch", "v1.1/typed-zstd.catch"] {
        let (path, folder) = (golden(name), tempfile::tempdir().expect("a folder"));
        let recorded = recorded(&path);
        for (format, source) in [("parquet", 0), ("arrow", 0), ("parquet", 1), ("arrow", 1)] {
            let output = format!("{source}.{format}");
            let number = source.to_string();
            let read = ["read", path.to_str().expect("text"), "--source", &number];
            let write = ["--format", format, "--output", &output, "--json"];
            let printed = json(folder.path(), &[&read[..], &write[..]].concat(), 0);
            assert_eq!(printed["files"][0], output);
            let batches = tables(&folder.path().join(&output));
            let name = &Run::open(&path).expect("opens").sources()[source].name.clone();
            let schema = batches[0].schema();
            let names: Vec<_> = schema.fields().iter().map(|field| field.name()).collect();
            assert_eq!(names, ["event", "time", "flags", name]);
            let expected = recorded.iter().flatten().cloned().map(|mut row| {
                row.3[1 - source] = None;
                row
            });
            let found: Vec<Row> = batches.iter().flat_map(|batch| rows_of(batch, source)).collect();
            assert_eq!(found, expected.collect::<Vec<_>>(), "{name} as {format}");
        }
        let all: Vec<_> = recorded.iter().flatten().collect();
        assert!(all.iter().any(|row| row.3.contains(&None)), "some are missing");
        assert!(all.iter().any(|row| row.2 != 0), "some are flagged");
    }
}

#[test]
fn events_are_chosen_by_time_frame_and_number() {
    let path = golden("v1.1/typed-none.catch");
    let frames = recorded(&path);
    let keys = |rows: &[Row]| rows.iter().map(|row| row.0).collect::<Vec<_>>();
    let [first, second] = &frames[..] else { panic!("{} frames", frames.len()) };
    let time = format!("{}..{}", first[20].1, second[3].1);
    let expected = [keys(&first[20..]), keys(&second[..3])].concat();
    assert_eq!(events_printed(&path, &["--time", &time]), expected);
    let of_source = ["--time", &time, "--source", "2"];
    assert_eq!(events_printed(&path, &of_source), expected);
    assert_eq!(events_printed(&path, &["--frames", "1.."]), keys(second));
    assert_eq!(events_printed(&path, &["--frames", "..1", "--source", "2"]), keys(first));
    assert_eq!(events_printed(&path, &["--frames", "1..2", "--time", &time]), keys(&second[..3]));
    let numbers = format!("{}..", first[22].0);
    let both = events_printed(&path, &["--events", &numbers, "--frames", "0..1", "--time", &time]);
    assert_eq!(both, keys(&first[22..]));
    for nothing in [["--frames", "2.."], ["--time", "..5"], ["--events", "..0"]] {
        assert!(events_printed(&path, &nothing).is_empty(), "{nothing:?}");
    }
}

#[test]
fn samples_are_chosen_by_frame_as_by_time() {
    let path = golden("v1.1/channels-none.catch");
    let run = Run::open(&path).expect("opens");
    let channel = &run.channels()[0];
    let pieces = run.channel_at(0).expect("a channel").pieces().expect("reads");
    let times = |frames: std::ops::Range<usize>| -> Vec<u64> {
        let there = pieces.iter().filter(|piece| frames.contains(&piece.frame));
        there.flat_map(|p| channel.rate.times_ns(p.first_sample).take(p.samples as usize)).collect()
    };
    let frames = run.channel_frames().len();
    assert!(frames > 1 && !times(1..frames).is_empty() && !times(0..1).is_empty());
    let read = |options: &[&str]| {
        events_printed(&path, &[&["--channel", channel.name.as_str()], options].concat())
    };
    assert_eq!(read(&[]), times(0..frames));
    assert_eq!(read(&["--frames", "1.."]), times(1..frames));
    assert_eq!(read(&["--frames", "..1"]), times(0..1));
    let from = times(0..1)[1];
    let both = read(&["--frames", "..1", "--time", &format!("{from}..")]);
    assert_eq!(both, times(0..1)[1..]);
    assert!(read(&["--frames", "100..200"]).is_empty());
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for (options, expected) in [
        (["--frames", "1..2", "--follow", "--json"], "cannot be used with '--follow'"),
        (["--channel", "*", "--events", "1..2"], "cannot be used with"),
        (["--format", "csv", "--frames", "1-2"], "expected FIRST..END"),
        (["--format", "csv", "--frames", "5..2"], "5 is behind 2"),
        (["--json", "--format", "csv", "--channel=X1:F64"], "--json needs --output"),
    ] {
        let path = golden("v1.1/channels-none.catch");
        let read = ["read", path.to_str().expect("text")];
        let errors = stderr(folder.path(), &[&read[..], &options].concat(), 2);
        assert!(errors.contains(expected), "{options:?}: {errors}");
    }
}

/// A run of one link: `X:PLAIN`, and `X:TRIPLE` whose samples are three numbers each.
fn of_a_link(folder: &Path) -> PathBuf {
    let named = |name: &str| name.to_owned();
    let (name, group, protocol) = (named("crate"), named(""), named("link"));
    let link = SourceInfo {
        id: 0,
        name,
        group,
        protocol,
        required: false,
        malformed_reasons: Vec::new(),
        stored: true,
        sparse: false,
    };
    let rate: SampleRate = "10".parse().expect("a rate");
    let plain = ChannelInfo::new("X:PLAIN", Dtype::F32, rate);
    let triple = ChannelInfo { shape: vec![3], ..ChannelInfo::new("X:TRIPLE", Dtype::F32, rate) };
    let schema = Schema::new(vec![link]).with_channels(vec![plain, triple]).expect("a schema");
    let run = NewRun::new(folder.join("run"), "run", schema).expect("a run");
    let mut writer = RunWriter::create(run, WriteOptions::small()).expect("begins");
    let infos = writer.run().schema.columns.iter().filter_map(ChannelInfo::of);
    let ids: Vec<u32> = infos.map(|info| info.id).collect();
    let bytes: Vec<u8> = (0..30).flat_map(|number| (number as f32).to_le_bytes()).collect();
    let column = |id, bytes| {
        let samples = ColumnData::Raw(bytes);
        ChannelColumn { id, first_sample: 0, spans: &[], samples }
    };
    let columns = vec![column(ids[0], &bytes[..40]), column(ids[1], &bytes)];
    let (end_ns, keys) = (1_000_000_000, (0, 0));
    let frame = ChannelFrame { start_ns: 0, end_ns, columns, keys, increments: None };
    writer.write_channels(frame).expect("writes");
    writer.finish(Ending { run_ended: true, ..Ending::default() }).expect("ends");
    folder.join("run")
}

#[test]
fn what_has_no_events_is_refused_with_the_channels_that_there_are() {
    let folder = tempfile::tempdir().expect("a folder");
    of_a_link(folder.path());
    let errors = stderr(folder.path(), &["read", "run"], 2);
    assert!(errors.contains("run has channels and no events"), "{errors}");
    assert!(errors.contains("by --channel: X:PLAIN, X:TRIPLE\n"), "{errors}");
    let errors = stderr(folder.path(), &["read", "run", "--source", "crate"], 2);
    assert!(errors.contains("crate is a link, which delivers channels"), "{errors}");
    let many = golden("v1.1/channels-none.catch");
    let errors = stderr(folder.path(), &["read", many.to_str().expect("text")], 2);
    assert!(errors.contains(" more, which `inspect --channels` lists"), "{errors}");
}

#[test]
fn an_empty_selection_is_said_in_a_line() {
    let folder = tempfile::tempdir().expect("a folder");
    of_a_link(folder.path());
    for nothing in [["--time", "2026-11-21..2026-11-22"], ["--frames", "99.."]] {
        let read = ["read", "run", "--channel", "X:PLAIN"];
        let shown = stderr(folder.path(), &[&read[..], &nothing].concat(), 0);
        assert_eq!(shown.lines().count(), 1, "{shown}");
        assert!(shown.contains("those of X:PLAIN are of 0..1000000000 in nanoseconds of TAI"));
    }
    let events = golden("v1.1/typed-none.catch");
    let read = ["read", events.to_str().expect("text")];
    let all = events_printed(&events, &[]);
    for nothing in [["--frames", "99.."], ["--time", "..5"], ["--events", "500000000.."]] {
        let shown = stderr(folder.path(), &[&read[..], &nothing].concat(), 0);
        assert_eq!(shown.lines().count(), 1, "{shown}");
        let (first, last) = (all[0], all[all.len() - 1]);
        assert!(shown.contains(&format!("from number {first} to {last}")), "{shown}");
    }
    assert!(stderr(folder.path(), &read, 0).is_empty());
}

#[test]
fn samples_of_several_numbers_are_an_array_of_more_dimensions() {
    let folder = tempfile::tempdir().expect("a folder");
    of_a_link(folder.path());
    for (name, shape) in [("X:PLAIN", "(10,)"), ("X:TRIPLE", "(10, 3)")] {
        let read = ["read", "run", "--channel", name, "--format", "npy", "--output", name];
        stdout(folder.path(), &read, 0);
        let bytes =
            std::fs::read(folder.path().join(format!("{name}.samples.npy"))).expect("reads");
        let head = String::from_utf8_lossy(&bytes[10..256]);
        assert!(head.contains("'descr': '<f4'"), "{head}");
        assert!(head.contains(&format!("'shape': {shape}")), "{head}");
        assert_eq!(bytes.len(), 256 + if shape == "(10,)" { 40 } else { 120 });
    }
}

#[test]
fn every_format_has_all_events_of_a_source_and_says_where_it_is_missing() {
    let path = golden("v1.0/events-lz4-missing.catch");
    let recorded: Vec<Row> = recorded(&path).into_iter().flatten().collect();
    let folder = tempfile::tempdir().expect("a folder");
    for source in [0, 1] {
        let number = source.to_string();
        let read = ["read", path.to_str().expect("text"), "--source", &number];
        let text = stdout(folder.path(), &read, 0);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines.len(), recorded.len());
        for (line, (key, time, flags, fragments)) in lines.iter().zip(&recorded) {
            let fragment = fragments[source].as_ref().map_or(",".to_owned(), |bytes| {
                let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{},{hex}", bytes.len())
            });
            let flags = EventFlags(*flags);
            assert_eq!(**line, format!("{key},{time},{flags},{fragment}"));
        }
        let write = ["--format", "npy", "--output", &number];
        stdout(folder.path(), &[&read[..], &write].concat(), 0);
        let array = |name: &str| {
            let path = folder.path().join(format!("{number}.{name}.npy"));
            std::fs::read(path).expect("reads").split_off(256)
        };
        let keys: Vec<u8> = recorded.iter().flat_map(|row| row.0.to_le_bytes()).collect();
        assert_eq!(array("keys"), keys);
        let valid: Vec<u8> = recorded.iter().map(|row| u8::from(row.3[source].is_some())).collect();
        assert_eq!(array("valid"), valid);
        assert_eq!(array("offsets").len(), 8 * (recorded.len() + 1));
        let payload: Vec<u8> =
            recorded.iter().flat_map(|row| row.3[source].clone()).flatten().collect();
        assert_eq!(array("payload"), payload);
    }
    assert!(recorded.iter().any(|row| row.3.contains(&None)), "some are missing");
}

#[test]
fn times_are_dates_as_well_as_nanoseconds() {
    let path = golden("v1.1/channels-none.catch");
    let run = Run::open(&path).expect("opens");
    let channel = &run.channels()[0];
    assert_eq!(channel.time_scale, TimeScale::Tai);
    let all = run.channel_at(0).expect("a channel").time_range().expect("reads").expect("samples");
    let read =
        |time: &str| events_printed(&path, &["--channel", channel.name.as_str(), "--time", time]);
    // A second of the channel's scale, and the same instant in UTC.
    let second = all.start / 1_000_000_000 + 1;
    let ns = second * 1_000_000_000;
    let expected = read(&format!("{ns}.."));
    assert!(!expected.is_empty() && expected.len() < read("..").len());
    let date = |seconds: u64| {
        let text = Utc(seconds * 1_000_000_000).to_string();
        text.trim_end_matches('Z').to_owned()
    };
    assert_eq!(read(&format!("{}..9999-12-31", date(second))), expected);
    assert_eq!(read(&format!("{}Z..", date(second - 37))), expected);
    assert_eq!(read(&format!("{}+01:00..", date(second - 37 + 3600))), expected);
    let reversed = format!("9999-12-31..{}", date(second));
    let read = ["read", path.to_str().expect("text"), "--channel", &channel.name];
    let folder = tempfile::tempdir().expect("a folder");
    let errors = stderr(folder.path(), &[&read[..], &["--time", &reversed]].concat(), 2);
    assert!(errors.contains("is behind") && errors.contains("of tai"), "{errors}");

    let events = golden("v1.0/events-raw.catch");
    let rows = events_printed(&events, &["--time", "2020-01-01..9999-12-31"]);
    assert_eq!(rows, events_printed(&events, &[]));
    assert!(!rows.is_empty() && events_printed(&events, &["--time", "..2020-01-01"]).is_empty());
}

#[test]
fn every_command_takes_the_channels_by_one_name_and_by_its_plural() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = golden("v1.1/channels-none.catch");
    let run = run.to_str().expect("text");
    for option in ["--channel", "--channels"] {
        let named =
            |name: &str| folder.path().join(format!("{name}{option}")).display().to_string();
        for command in [
            vec!["read", run],
            vec!["refs", run, "--output", &named("refs")],
            vec!["reduce", run, "--out", &named("reduced")],
            vec!["convert", run, &named("gwf")],
        ] {
            let chosen = [&command[..], &[option, "X1:F64"]].concat();
            let code = output(folder.path(), &chosen).status.code();
            assert!(matches!(code, Some(0 | 3)), "{chosen:?}: {code:?}");
            let none = [&command[..], &[option, "X1:F46"]].concat();
            let errors = stderr(folder.path(), &none, 2);
            assert!(errors.contains("no channel matches \"X1:F46\""), "{errors}");
            assert!(errors.contains("did you mean") && errors.contains("X1:F64"), "{errors}");
        }
    }
    let errors = stderr(
        folder.path(),
        &["trend", golden("v1.0/events-raw.catch").to_str().expect("text")],
        2,
    );
    assert!(errors.contains("has no channels"), "{errors}");
}
