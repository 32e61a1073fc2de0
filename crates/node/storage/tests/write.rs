//! Runs written without a recorder, read back.

mod common;

use catchment_frame::Schema;
use catchment_model::{Entry, Ledger, SourceId};
use catchment_storage::{
    ColumnData, Ending, EventFrame, EventSource, Make, NewRun, Run, RunWriter, StorageError,
    Verdict, WriteOptions, audit, verify,
};
use common::{fragment, header, key, time_ns};

fn schema() -> Schema {
    Schema::clone(&header(3, 0).schema)
}

/// Writes events with all fragments but those of source 1 in every third event.
fn write_events(writer: &mut RunWriter, events: std::ops::Range<u64>) {
    let keys: Vec<_> = events.clone().map(key).collect();
    let times_ns: Vec<_> = events.clone().map(time_ns).collect();
    let flags: Vec<_> = events.clone().map(|event| u32::from(event.is_multiple_of(3))).collect();
    let has = |source: u32, event: u64| source != 1 || !event.is_multiple_of(3);
    let mut payloads = Vec::new();
    let mut lengths = Vec::new();
    let mut increments = Ledger::new(3);
    let mut bits = vec![0u8; keys.len().div_ceil(8)];
    for source in 0..3 {
        let of = |event| if has(source, event) { fragment(source, event) } else { Vec::new() };
        let fragments: Vec<_> = events.clone().map(of).collect();
        lengths.push(fragments.iter().map(|f| f.len() as u32).collect::<Vec<_>>());
        payloads.push(fragments.concat());
        let count = events.clone().filter(|&event| has(source, event)).count() as u64;
        increments.sources[source as usize][Entry::FragmentsReceived] = count;
    }
    for (row, event) in events.clone().enumerate().filter(|(_, event)| has(1, *event)) {
        bits[row / 8] |= u8::from(has(1, event)) << (row % 8);
    }
    let made = |bytes: &mut [u8]| {
        bytes.copy_from_slice(&payloads[2]);
        Ok(())
    };
    let data = |source: usize| match source {
        2 => ColumnData::Make(Make { raw_bytes: payloads[2].len(), make: &made }),
        _ => ColumnData::Raw(&payloads[source]),
    };
    let sources = (0..3).map(|source| EventSource {
        source: SourceId(source as u32),
        lengths: &lengths[source],
        validity: (source == 1).then_some(&bits[..]),
        payload: data(source),
    });
    let sources = sources.collect();
    let frame = EventFrame {
        keys: &keys,
        times_ns: &times_ns,
        flags: &flags,
        sources,
        increments: Some(&increments),
    };
    writer.write_events(frame).expect("writes");
}

#[test]
fn events_written_are_read_back_and_their_books_balance() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = NewRun::new(folder.path().join("run"), "events", schema()).expect("a run");
    let options = WriteOptions { file_bytes: 64 << 10, ..WriteOptions::small() };
    let mut writer = RunWriter::create(run, options).expect("begins");
    for start in (0..600).step_by(50) {
        write_events(&mut writer, start..start + 50);
    }
    let report = writer.finish(Ending { run_ended: true, ..Ending::default() }).expect("ends");
    assert_eq!(report.frames, 12);
    assert!(report.files.len() > 1, "{report:?}");

    let run = Run::open(folder.path().join("run")).expect("opens");
    assert!(run.closed() && run.ended() && run.problems().is_empty());
    assert_eq!((run.files().len(), run.event_count()), (report.files.len(), 600));
    for event in 0..600 {
        let (frame, row) = run.find(key(event)).expect("reads").expect("is there");
        for source in 0..3 {
            let column = run.fragments(frame, SourceId(source)).expect("reads");
            let expected =
                (source != 1 || !event.is_multiple_of(3)).then(|| fragment(source, event));
            assert_eq!(column.fragment(row), expected.as_deref());
        }
    }
    assert!(verify(&run, |_| {}).is_intact());
    let audit = audit(&run).expect("reads");
    assert!(audit.is_balanced(), "{audit:?}");
    assert_eq!(audit.verdict, Verdict::DataLost, "source 1 lacks fragments");
}

#[test]
fn a_file_has_its_name_only_when_it_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = || -> Vec<_> {
        let entries = std::fs::read_dir(folder.path()).expect("lists");
        entries.map(|entry| entry.expect("an entry").file_name()).collect()
    };
    let run = || NewRun::new(folder.path(), "events", schema()).expect("a run");
    let mut writer = RunWriter::create(run(), WriteOptions::small()).expect("begins");
    write_events(&mut writer, 0..10);
    assert_eq!(names(), ["events-00000.catch.part"]);
    drop(writer);
    assert!(names().is_empty());
    let mut writer = RunWriter::create(run(), WriteOptions::small()).expect("begins");
    write_events(&mut writer, 0..10);
    writer.finish(Ending::default()).expect("ends");
    assert_eq!(names(), ["events-00000.catch"]);
    let again = RunWriter::create(run(), WriteOptions::small());
    assert!(matches!(again, Err(StorageError::Disk(_))), "{again:?}");
}

#[test]
fn columns_that_do_not_fit_each_other_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = NewRun::new(folder.path(), "events", schema()).expect("a run");
    let mut writer = RunWriter::create(run, WriteOptions::small()).expect("begins");
    let source = |lengths, payload| EventSource {
        source: SourceId(0),
        lengths,
        validity: None,
        payload: ColumnData::Raw(payload),
    };
    let frame = |flags, sources| EventFrame {
        keys: &[1, 2],
        times_ns: &[5, 6],
        flags,
        sources,
        increments: None,
    };
    for wrong in [
        frame(&[0], Vec::new()),
        frame(&[0, 0], vec![source(&[1], b"a")]),
        frame(&[0, 0], vec![source(&[1, 1], b"abc")]),
    ] {
        let error = writer.write_events(wrong).expect_err("does not fit");
        assert!(matches!(error, StorageError::Unwritable { .. }), "{error}");
    }
    writer.write_events(frame(&[0, 0], vec![source(&[1, 1], b"ab")])).expect("fits");
}
