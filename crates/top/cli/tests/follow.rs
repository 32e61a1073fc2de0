//! `catchment read --follow` with the real binary, while a run is written frame by frame.

use std::io::{BufRead, Read};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use crate::support;
use catchment_frame::{ChannelInfo, Dtype, Schema, SourceInfo};
use catchment_model::{SampleRate, SourceId};
use catchment_storage::{
    ChannelColumn, ChannelFrame, ColumnData, Ending, EventFrame, EventSource, Growing, NewRun,
    RunWriter, WriteOptions,
};
use support::{catchment, only_run, started, stdout};

const NS: u64 = 1_000_000_000;
const START_S: u64 = 1_795_219_200;

/// Begins the run `run`, whose files can be read while they grow and are two seconds long.
fn begin(folder: &Path, schema: Schema) -> RunWriter {
    let new = NewRun::new(folder.join("run"), "run", schema).unwrap();
    let growing = Some(Growing { durable: false, listed: true });
    let options = WriteOptions { growing, file_time_ns: Some(2 * NS), ..WriteOptions::small() };
    RunWriter::create(new, options).unwrap()
}

fn end(writer: RunWriter) {
    let report = writer.finish(Ending { run_ended: true, ..Ending::default() }).unwrap();
    assert!(report.files.len() > 1, "{report:?}");
}

/// A channel of 4 Hz, whose samples are their numbers.
fn counting() -> Schema {
    let rate = SampleRate::new(4, 1).unwrap();
    let channels = vec![ChannelInfo::new("X1:COUNT", Dtype::U64, rate)];
    Schema::channels(Vec::new(), channels).unwrap()
}

/// The numbers of the samples of a second.
fn samples(second: u64) -> std::ops::Range<u64> {
    let first = (START_S + second) * 4;
    first..first + 4
}

fn write_samples(writer: &mut RunWriter, second: u64) {
    let bytes: Vec<u8> = samples(second).flat_map(u64::to_le_bytes).collect();
    let start_ns = (START_S + second) * NS;
    let id = writer.run().schema.columns.iter().find_map(ChannelInfo::of).unwrap().id;
    let first_sample = samples(second).start;
    let samples = ColumnData::Raw(&bytes);
    let columns = vec![ChannelColumn { id, first_sample, spans: &[], samples }];
    let (end_ns, keys) = (start_ns + NS, (0, 0));
    let frame = ChannelFrame { start_ns, end_ns, columns, keys, increments: None };
    writer.write_channels(frame).unwrap();
}

/// The lines of a second of that channel.
fn sample_lines(second: u64) -> String {
    let line = |sample: u64| format!("{},{sample}\n", sample * NS / 4);
    samples(second).map(line).collect()
}

/// As many lines as there are in `expected`; waits for them.
fn next_lines(lines: &mut impl BufRead, expected: &str) -> String {
    let mut read = String::new();
    for _ in expected.lines() {
        lines.read_line(&mut read).unwrap();
    }
    read
}

#[test]
fn samples_are_printed_frame_by_frame_and_reading_ends_with_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut writer = begin(folder, counting());
    write_samples(&mut writer, 0);
    let read = ["read", "run", "--channel", "X1:*", "--follow"];
    let (mut child, mut lines) = started(folder, &read, "time_ns,X1:COUNT");
    for second in 0..5 {
        if second > 0 {
            // What is not written yet cannot have been printed: the next lines are of this frame.
            write_samples(&mut writer, second);
        }
        let expected = sample_lines(second);
        assert_eq!(next_lines(&mut lines, &expected), expected);
        assert_eq!(child.try_wait().unwrap(), None, "the run goes on");
    }
    end(writer);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!((child.wait().unwrap().code(), rest.as_str()), (Some(0), ""));
}

#[test]
fn following_is_stopped_by_a_signal_with_what_came_printed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut writer = begin(folder, counting());
    (0..2).for_each(|second| write_samples(&mut writer, second));
    let from = format!("{}..", (START_S * 4 + 2) * NS / 4);
    let read = ["read", "run", "--channel", "X1:COUNT", "--time", &from, "--follow"];
    let (mut child, mut lines) = started(folder, &read, "time_ns,X1:COUNT");
    let expected: String = [sample_lines(0), sample_lines(1)].concat();
    let expected: String = expected.split_inclusive('\n').skip(2).collect();
    assert_eq!(next_lines(&mut lines, &expected), expected);
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!((child.wait().unwrap().code(), rest.as_str()), (Some(0), ""));
}

/// The fragment of an event.
fn fragment(event: u64) -> Vec<u8> {
    vec![event as u8; event as usize % 7]
}

fn write_events(writer: &mut RunWriter, events: std::ops::Range<u64>) {
    let keys: Vec<u64> = events.clone().collect();
    let times_ns: Vec<u64> = events.clone().map(|event| START_S * NS + event * NS / 4).collect();
    let lengths: Vec<u32> = events.clone().map(|event| fragment(event).len() as u32).collect();
    let payload: Vec<u8> = events.flat_map(fragment).collect();
    let source = EventSource {
        source: SourceId(0),
        lengths: &lengths,
        validity: None,
        expected: None,
        holes: &[],
        times: &[],
        pieces: &[],
        payload: ColumnData::Raw(&payload),
    };
    let flags = vec![0; keys.len()];
    writer
        .write_events(EventFrame {
            keys: &keys,
            times_ns: &times_ns,
            flags: &flags,
            sources: vec![source],
            increments: None,
        })
        .unwrap();
}

/// Looks at a file until it has so many bytes.
fn grown(path: &Path, bytes: usize, child: &mut Child) -> Vec<u8> {
    loop {
        let found = std::fs::read(path).unwrap_or_default();
        if found.len() >= bytes {
            return found;
        }
        assert_eq!(child.try_wait().unwrap(), None, "it has {} bytes of {bytes}", found.len());
        std::thread::sleep(LOOK_EVERY);
    }
}

#[test]
fn a_file_of_fragments_grows_with_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let name = "board".to_owned();
    let (group, protocol) = ("boards".to_owned(), "hadtu".to_owned());
    let source = SourceInfo {
        id: 0,
        name,
        group,
        protocol,
        required: true,
        malformed_reasons: Vec::new(),
        stored: true,
        sparse: false,
    };
    let mut writer = begin(folder, Schema::events(vec![source]));
    let read = ["read", "run", "--source", "board", "--follow", "--output", "fragments"];
    let mut child = catchment(folder, &[&read[..], &["--format", "raw"]].concat()).spawn().unwrap();
    let mut expected = Vec::new();
    for events in [0..3, 3..9, 9..10, 10..40] {
        write_events(&mut writer, events.clone());
        expected.extend(events.flat_map(fragment));
        let found = grown(&folder.join("fragments"), expected.len(), &mut child);
        assert!(found == expected, "{found:?}");
    }
    end(writer);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(std::fs::read(folder.join("fragments")).unwrap() == expected);
}

#[test]
fn what_was_followed_while_it_was_recorded_is_what_is_read_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let demo = ["demo", "--seconds", "2", "--rate", "500", "--water-mark", "64 kB"];
    let (mut recorder, mut lines) = started(folder, &demo, " on disk");
    let run = only_run(folder);
    let run = run.to_str().unwrap();
    let mut followers = [vec!["read", run], vec!["read", run, "--source", "0", "--events", "9.."]]
        .map(|read| {
            let (child, lines) = started(folder, &[&read[..], &["--follow"]].concat(), "event,");
            (read, child, lines)
        });
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(recorder.wait().unwrap().code(), Some(0), "{rest}");
    for (read, child, lines) in &mut followers {
        let mut followed = String::new();
        lines.read_to_string(&mut followed).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        let whole = stdout(folder, read, 0);
        let (_, whole) = whole.split_once('\n').unwrap();
        assert!(
            followed == whole,
            "{} lines of {}",
            followed.lines().count(),
            whole.lines().count()
        );
        assert!(whole.lines().count() >= 900, "{rest}");
    }
}

/// As often as the reader polls.
const LOOK_EVERY: Duration = Duration::from_millis(20);
