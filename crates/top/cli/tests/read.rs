//! `catchment read` of the golden files: what is chosen, and tables that are read back.

mod support;

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampNanosecondType, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use catchment_model::{SourceId, TimeScale, Utc};
use catchment_storage::Run;
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
            let told = json(folder.path(), &[&read[..], &write[..]].concat(), 0);
            assert_eq!(told["files"][0], output);
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
    ] {
        let path = golden("v1.1/channels-none.catch");
        let read = ["read", path.to_str().expect("text")];
        let errors = stderr(folder.path(), &[&read[..], &options].concat(), 2);
        assert!(errors.contains(expected), "{options:?}: {errors}");
    }
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
    assert!(read(&format!("9999-12-31..{}", date(second))).is_empty());

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
            assert!(errors.contains("no channel \"X1:F46\" among"), "{errors}");
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
