//! A trigger that names the groups of its events, and sources that are in one group each: of each
//! event a source is there, absent, or was not expected, in the file as in the ledger.

use std::ops::ControlFlow;
use std::path::Path;

use catchment_frontend::{Closed, Fragment, Frontend, SourceConfig as Sent};
use catchment_model::{Entry, EventFlags, SourceId};
use catchment_recorder::{Recorder, RecorderConfig, SourceConfig};
use catchment_storage::{ReframeOptions, Run, Verdict, audit, reframe, verify};

use crate::front_ends::LONG;
use crate::support::stdout;

/// The events of group 0 have even keys, those of group 1 odd ones.
const EVENTS: u64 = 300;
/// That of the left source which never comes.
const ABSENT: u64 = 100;

fn config(folder: &Path) -> RecorderConfig {
    let address = "127.0.0.1:0".parse().unwrap();
    let source = |name: &str, expected_in| SourceConfig {
        expected_in,
        ..SourceConfig::over_session(format!("crate/{name}"), address)
    };
    // Of the right one its front-end says it.
    let sources = vec![source("trigger", 0), source("left", 1 << 0), source("right", 0)];
    let mut config = RecorderConfig::new(folder.to_owned(), sources);
    config.memory_bytes = 256 << 20;
    config.frame.time_ns = 50_000_000;
    config.write.sync_interval_ns = 20_000_000;
    config.build.timeout_ns = 3_600_000_000_000;
    config
}

fn send(recorder: &Recorder) {
    let url = format!("catchment+tcp://{}", recorder.addresses()[0]);
    let of = |name: &str| Sent { name: name.into(), ..Sent::default() };
    let front_end = Frontend::builder(&url, "crate")
        .source_of(Sent { is_reference: true, ..of("trigger") })
        .source("left")
        .source_of(Sent { groups: 1 << 1, ..of("right") })
        .wait(LONG)
        .connect()
        .expect("the recorder is there");
    let [trigger, left, right] = front_end.sources() else { panic!("three sources") };
    for key in 0..EVENTS {
        let groups = 1 << (key % 2);
        trigger.send_fragment(Fragment { groups, ..Fragment::new(key, b"trigger") }).unwrap();
        match key % 2 {
            0 if key != ABSENT => left.send(key, b"left").unwrap(),
            0 => {}
            _ => right.send(key, b"right").unwrap(),
        }
    }
    front_end.sources().iter().for_each(|source| source.low_water(Some(EVENTS), false));
    assert_eq!(front_end.close(LONG), Closed::default());
}

fn check(run: &Run) {
    let frames = 0..run.frames().len();
    let mut keys = 0..EVENTS;
    let mut not_expected = [0; 3];
    for frame in frames {
        let events = run.events(frame).unwrap();
        let columns = [0, 1, 2].map(|source| run.fragments(frame, SourceId(source)).unwrap());
        for (row, &key) in events.keys().iter().enumerate() {
            assert_eq!(Some(key), keys.next());
            let got = columns
                .each_ref()
                .map(|column| (column.fragment(row).is_some(), column.is_expected(row)));
            let of_group = |is_its: bool| (is_its && key != ABSENT, is_its);
            let expected = [(true, true), of_group(key % 2 == 0), of_group(key % 2 == 1)];
            assert_eq!(got, expected, "event {key}");
            for (count, told) in not_expected.iter_mut().zip(got) {
                *count += u64::from(told == (false, false));
            }
            let lacking = if key == ABSENT { vec![SourceId(1)] } else { Vec::new() };
            assert_eq!(run.missing(frame, row).unwrap(), lacking, "event {key}");
            let is_incomplete = EventFlags(events.flags()[row]).contains(EventFlags::INCOMPLETE);
            assert_eq!(is_incomplete, key == ABSENT);
        }
    }
    assert_eq!(keys.next(), None);
    assert!(verify(run, |_| ()).is_intact());
    let report = audit(run).unwrap();
    assert_eq!(report.verdict, Verdict::DataLost, "one fragment never came: {report:?}");
    let missing = report.recomputed.sources.iter().map(|source| source[Entry::FragmentsMissing]);
    assert_eq!(missing.collect::<Vec<u64>>(), [0, 1, 0]);
    let counted = report.recomputed.sources.iter().map(|one| one[Entry::FragmentsNotExpected]);
    assert_eq!(counted.collect::<Vec<u64>>(), not_expected);
    assert!(not_expected[0] == 0 && not_expected[1] > 0 && not_expected[2] > 0);
}

/// What `catchment read` writes says which events expected a source.
fn check_read(run: &Path) {
    let read = |more: &[&str]| {
        let arguments = [&["read", run.to_str().unwrap(), "--source", "crate/left"], more].concat();
        stdout(run, &arguments, 0)
    };
    let text = read(&[]);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("event,time_ns,flags,bytes,fragment,expected"));
    for (key, line) in (0..).zip(lines) {
        let bytes = if key % 2 == 0 && key != ABSENT { "4,6c656674" } else { "," };
        assert!(line.ends_with(&format!(",{bytes},{}", u8::from(key % 2 == 0))), "{line}");
    }
    assert_eq!(text.lines().count() as u64, EVENTS + 1);
    for (format, output) in [("npy", "left"), ("arrow", "left.arrow"), ("parquet", "left.parquet")]
    {
        read(&["--format", format, "--output", output]);
    }
    let expected = std::fs::read(run.join("left.expected.npy")).unwrap();
    let expected = &expected[expected.len() - EVENTS as usize..];
    assert!(expected.iter().enumerate().all(|(key, &one)| one == u8::from(key % 2 == 0)));
    assert!(!run.join("left.times.npy").exists(), "events by number have no such times");
}

#[test]
fn a_fragment_that_never_came_is_missing_and_one_that_was_not_to_come_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    send(&recorder);
    let summary = recorder.stop().unwrap();
    let missing = summary.last.ledger.sources.iter().map(|one| one[Entry::FragmentsMissing]);
    assert_eq!(missing.collect::<Vec<u64>>(), [0, 1, 0]);
    assert_eq!(summary.last.counts.events_incomplete, 1);
    let run = Run::open(&summary.folder).unwrap();
    check(&run);
    check_read(&summary.folder);
    // Frames that are made anew say the same.
    let anew = tempfile::tempdir().unwrap();
    let options = ReframeOptions { frame_bytes: Some(2_000), ..ReframeOptions::default() };
    reframe(&run, anew.path(), "anew", &options, |_| ControlFlow::Continue(())).unwrap();
    check(&Run::open(anew.path()).unwrap());
}
