//! Runs written without a recorder, read back.

use crate::common;
use catchment_disk::FaultControl;
use catchment_fixtures::wait_while;
use catchment_frame::{ChannelInfo, Coding, Dtype, Schema};
use catchment_model::{Entry, Ledger, SampleRate, SourceId};
use catchment_storage::{
    ChannelColumn, ChannelFrame, Codings, ColumnCoding, ColumnData, Ending, EventFrame,
    EventSource, Make, NewRun, Run, RunWriter, Select, StorageError, Verdict, WriteOptions, audit,
    verify,
};
use common::{fragment, header, key, time_ns};

fn schema() -> Schema {
    Schema::clone(&header(3, 0).schema)
}

/// Writes events with all fragments except those of source 1 in every third event.
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
        validity: (source == 1).then_some(bits[..].into()),
        expected: None,
        holes: &[],
        times: &[],
        pieces: &[],
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
fn files_are_made_no_faster_than_the_disk_closes_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().join("run");
    let run = NewRun::new(&folder, "events", schema()).expect("a run");
    let disk = FaultControl::default();
    // One frame a file, and a buffer for each.
    let options = WriteOptions {
        file_bytes: 1,
        buffer_bytes: 32 << 10,
        buffers: 400,
        faults: Some(disk.clone()),
        ..WriteOptions::small()
    };
    disk.stall(true);
    let write = std::thread::spawn(move || {
        let mut writer = RunWriter::create(run, options).expect("begins");
        (0..100).for_each(|event| write_events(&mut writer, event..event + 1));
        writer.finish(Ending { run_ended: true, ..Ending::default() }).expect("ends")
    });
    // Until it has checked the disk repeatedly without making a file.
    let files = || std::fs::read_dir(&folder).map_or(0, Iterator::count);
    let mut last = (0, 0);
    wait_while(|| {
        if files() != last.0 {
            last = (files(), disk.polls());
        }
        !write.is_finished() && disk.polls() - last.1 < 30
    });
    disk.stall(false);
    let report = write.join().expect("no error");
    assert_eq!((report.frames, report.files.len()), (100, 100));
    let run = Run::open(&folder).expect("opens");
    assert!(run.ended() && run.problems().is_empty());
    assert_eq!((run.files().len(), run.event_count()), (100, 100));
}

#[test]
fn a_file_has_its_name_only_when_it_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = || -> Vec<_> {
        let entries = std::fs::read_dir(folder.path()).expect("lists");
        let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
        names.sort();
        names
    };
    let run = || NewRun::new(folder.path(), "events", schema()).expect("a run");
    let mut writer = RunWriter::create(run(), WriteOptions::small()).expect("begins");
    write_events(&mut writer, 0..10);
    assert_eq!(names(), ["events-00000.catch.part", "files.jsonl"]);
    drop(writer);
    assert!(names().is_empty());
    let mut writer = RunWriter::create(run(), WriteOptions::small()).expect("begins");
    write_events(&mut writer, 0..10);
    writer.finish(Ending::default()).expect("ends");
    assert_eq!(names(), ["events-00000.catch", "files.jsonl"]);
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
        expected: None,
        holes: &[],
        times: &[],
        pieces: &[],
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

#[test]
fn frames_larger_than_the_buffers_are_read_back_whatever_their_headers_take() {
    const SECOND_NS: u64 = 1_000_000_000;
    for (channels, threads, buffer_bytes) in [(3, 1, 4 << 10), (40, 2, 8 << 10), (200, 3, 8 << 10)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let rate = SampleRate::new(4_096, 1).expect("a rate");
        let infos = (0..channels).map(|n| ChannelInfo::new(format!("X:{n}"), Dtype::I16, rate));
        let schema = Schema::channels(Vec::new(), infos.collect()).expect("a schema");
        let ids: Vec<_> = schema.columns.iter().filter_map(ChannelInfo::of).map(|c| c.id).collect();
        let run = NewRun::new(folder.path().join("run"), "large", schema).expect("a run");
        let codings = Codings::new(ColumnCoding::Fixed(Coding::None))
            .with("X:1*".parse().unwrap(), ColumnCoding::Fixed(Coding::Lz4));
        let options = WriteOptions {
            threads,
            buffer_bytes,
            codings,
            // Some frames fit surely, some do not.
            file_bytes: 3 * (channels as u64 + 1) * 8_192,
            ..WriteOptions::small()
        };
        let mut writer = RunWriter::create(run, options).expect("begins");
        let sample =
            |channel: usize, number: u64| ((number >> 5) as i16).wrapping_mul(channel as i16);
        for second in 0..9 {
            let makers: Vec<_> = (0..channels)
                .map(|channel| {
                    move |bytes: &mut [u8]| {
                        for (number, out) in (second * 4_096..).zip(bytes.chunks_exact_mut(2)) {
                            out.copy_from_slice(&sample(channel, number).to_le_bytes());
                        }
                        Ok(())
                    }
                })
                .collect();
            let columns = makers.iter().zip(&ids).map(|(make, &id)| ChannelColumn {
                id,
                first_sample: second * 4_096,
                spans: &[],
                samples: ColumnData::Make(Make { raw_bytes: 8_192, make }),
            });
            let frame = ChannelFrame {
                start_ns: second * SECOND_NS,
                end_ns: (second + 1) * SECOND_NS,
                columns: columns.collect(),
                keys: (0, 0),
                increments: None,
            };
            writer.write_channels(frame).expect("writes");
        }
        let report = writer.finish(Ending { run_ended: true, ..Ending::default() }).expect("ends");
        assert!(report.files.len() > 1, "{report:?}");
        let run = Run::open(folder.path().join("run")).expect("opens");
        assert!(run.closed() && verify(&run, |_| {}).is_intact());
        for channel in 0..channels {
            let read = run.channel_at(channel).expect("is there").read(&Select::All);
            let read = read.expect("reads");
            assert_eq!((read.len(), read[0].samples), (1, 9 * 4_096));
            let expected = (0..9 * 4_096).flat_map(|number| sample(channel, number).to_le_bytes());
            assert!(read[0].bytes.iter().copied().eq(expected), "channel {channel} of {channels}");
        }
    }
}

#[test]
fn a_run_is_not_gone_on_with_behind_a_frame_that_could_not_be_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = NewRun::new(folder.path(), "events", schema()).expect("a run");
    let mut writer = RunWriter::create(run, WriteOptions::small()).expect("begins");
    write_events(&mut writer, 0..10);
    let fails = |_: &mut [u8]| Err(StorageError::NoEvent { key: 3 });
    let payload = ColumnData::Make(Make { raw_bytes: 8, make: &fails });
    let source = EventSource {
        source: SourceId(0),
        lengths: &[8],
        validity: None,
        expected: None,
        holes: &[],
        times: &[],
        pieces: &[],
        payload,
    };
    let frame = EventFrame {
        keys: &[key(10)],
        times_ns: &[time_ns(10)],
        flags: &[0],
        sources: vec![source],
        increments: None,
    };
    let error = writer.write_events(frame).expect_err("cannot be made");
    assert!(matches!(error, StorageError::NoEvent { key: 3 }), "{error:?}");
    let error = writer.finish(Ending::default()).expect_err("is not whole");
    assert!(matches!(error, StorageError::Unwritable { .. }), "{error:?}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("lists").count(), 0);
}

#[test]
fn portable_columns_are_coded_by_their_types() {
    let folder = tempfile::tempdir().expect("a folder");
    let rate = SampleRate::new(4_096, 1).expect("a rate");
    let infos = [("counts", Dtype::I16), ("volts", Dtype::F32)];
    let infos = infos.map(|(name, dtype)| ChannelInfo::new(name, dtype, rate)).to_vec();
    let schema = Schema::channels(Vec::new(), infos).expect("a schema");
    let ids: Vec<_> = schema.columns.iter().filter_map(ChannelInfo::of).map(|c| c.id).collect();
    let run = NewRun::new(folder.path().join("run"), "portable", schema).expect("a run");
    let portable: ColumnCoding = "portable".parse().expect("is one");
    assert_eq!(portable.to_string(), "portable");
    let options = WriteOptions { codings: Codings::new(portable), ..WriteOptions::small() };
    let mut writer = RunWriter::create(run, options).expect("begins");
    let counts: Vec<u8> = (0..4_096_i16).flat_map(|n| (n / 7).to_le_bytes()).collect();
    let volts: Vec<u8> = (0..4_096_i16).flat_map(|n| f32::from(n / 9).to_le_bytes()).collect();
    let columns = ids.iter().zip([&counts, &volts]).map(|(&id, raw)| ChannelColumn {
        id,
        first_sample: 0,
        spans: &[],
        samples: ColumnData::Raw(raw),
    });
    let frame = ChannelFrame {
        start_ns: 0,
        end_ns: 1_000_000_000,
        columns: columns.collect(),
        keys: (0, 0),
        increments: None,
    };
    writer.write_channels(frame).expect("writes");
    writer.finish(Ending { run_ended: true, ..Ending::default() }).expect("ends");
    let run = Run::open(folder.path().join("run")).expect("opens");
    let made = |id| run.stored(id).expect("is read").codings.into_keys().collect::<Vec<_>>();
    assert_eq!(made(ids[0]), ["bitshuffle+lz4"]);
    assert_eq!(made(ids[1]), ["shuffle+zstd"]);
    let read = run.channel("volts").expect("is there").read(&Select::All).expect("reads");
    assert!(read[0].bytes == volts);
}
