//! Front-ends whose keys are times, and a recorder in this process that builds events by them.

use std::net::SocketAddr;
use std::path::Path;

use catchment_fixtures::wait_while;
use catchment_frontend::{Error, Frontend, KeyKind, SourceConfig as OfSource};
use catchment_model::{Entry, SourceId};
use catchment_recorder::{MatchRule, Recorder, RecorderConfig, SourceConfig, TimeRule};
use catchment_storage::{Run, Verdict, audit, verify};

use crate::front_ends::LONG;

fn front_end(address: SocketAddr, name: &str, key_kind: KeyKind) -> Result<Frontend, Error> {
    let source = OfSource { key_kind, ..OfSource::default() };
    let builder = Frontend::builder(&format!("catchment+tcp://{address}"), name);
    builder.source_of(source).wait(LONG).connect()
}

/// Of these front-ends; an event has so many fragments of each.
fn config(folder: &Path, names: &[&str], fragments_max: u32) -> RecorderConfig {
    let source = |name: &&str| {
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        SourceConfig::over_session((*name).to_owned(), address)
    };
    let sources = names.iter().map(source).collect();
    let mut config = RecorderConfig::new(folder.to_owned(), sources);
    config.memory_bytes = 256 << 20;
    config.frame.time_ns = 50_000_000;
    config.write.sync_interval_ns = 20_000_000;
    // What is durable before that was closed by no time-out.
    config.build.timeout_ns = 3_600_000_000_000;
    config.build.rule = MatchRule::Time;
    let fragments_max = Some(fragments_max);
    config.build.time = TimeRule { window_ns: Some(200), fragments_max, ..TimeRule::default() };
    config
}

fn at(event: u64) -> u64 {
    1_000_000_000_000 + event * 1_000_000
}

/// All that a front-end has made is durable.
fn wait_for(front_end: &Frontend) {
    let status = || front_end.sources()[0].status();
    wait_while(|| status().durable < status().made);
}

#[test]
fn front_ends_are_events_by_their_times_and_one_that_is_idle_or_marks_delays_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["trigger", "camera", "clock"];
    let recorder = Recorder::start(config(folder.path(), &names, 1)).unwrap();
    let to = recorder.addresses()[0];
    let refused = front_end(to, "camera", KeyKind::Number).expect_err("it counts").to_string();
    let expected = "source \"camera\": expected keys that are times of 64 bits";
    assert!(refused.contains(expected), "{refused}");
    let all: Vec<Frontend> =
        names.iter().map(|name| front_end(to, name, KeyKind::Time).unwrap()).collect();
    let send = |events: std::ops::Range<u64>, which: &[usize]| {
        for event in events {
            let times = which.iter().map(|&one| (one, at(event) + 8 * one as u64));
            times.for_each(|(one, time)| all[one].send(time, &[event as u8; 100]).unwrap());
        }
    };
    send(0..300, &[0, 1, 2]);
    all.iter().for_each(wait_for);
    all[1].sources()[0].low_water(None, true);
    send(300..400, &[0, 2]);
    wait_for(&all[0]);
    wait_for(&all[2]);
    // Until its next fragment is there nobody waits for the camera; so that one is there first.
    all[1].send(at(400) + 8, &[400_u64 as u8; 100]).unwrap();
    let status = || all[1].sources()[0].status();
    wait_while(|| status().taken < status().made);
    send(400..401, &[0, 2]);
    send(401..500, &[0, 1, 2]);
    // What the camera does not have it has passed.
    send(500..510, &[0, 2]);
    all[1].sources()[0].low_water(Some(at(510)), false);
    wait_for(&all[0]);
    for one in all {
        assert!(one.close(LONG).is_confirmed());
    }
    let run = Run::open(&recorder.stop().unwrap().folder).unwrap();
    assert!(verify(&run, |_| ()).is_intact());
    let report = audit(&run).unwrap();
    assert_eq!(report.verdict, Verdict::DataLost, "{report:?}");
    let mut count = 0;
    for frame in 0..run.frames().len() {
        let read = run.events(frame).unwrap();
        for source in 0..3_u32 {
            let column = run.fragments(frame, SourceId(source)).unwrap();
            for (row, &key) in read.keys().iter().enumerate() {
                let event = (key - at(0)) / 1_000_000;
                let is_there = source != 1 || !((300..400).contains(&event) || event >= 500);
                let own = column.times_ns().get(row).copied().unwrap_or(0);
                let expected = if is_there { key + 8 * u64::from(source) } else { 0 };
                assert_eq!(own, expected, "event {event} of source {source}");
                assert_eq!(column.fragment(row).is_some(), is_there);
            }
        }
        count += read.keys().len();
    }
    assert_eq!(count, 510);
    let ledger = run.recorded_ledger().unwrap().expect("of the whole run");
    let of_camera = |entry| ledger.sources[1][entry];
    assert_eq!(of_camera(Entry::FragmentsMissing), 110);
    assert_eq!(of_camera(Entry::FragmentsNotSent), 10, "it had passed those");
}

#[test]
fn two_fragments_of_a_front_end_are_pieces_of_an_event_and_each_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["trigger", "camera"];
    let recorder = Recorder::start(config(folder.path(), &names, 2)).unwrap();
    let to = recorder.addresses()[0];
    let all = names.map(|name| front_end(to, name, KeyKind::Time).unwrap());
    // Of the camera two, of one time in each second event.
    let camera = |event: u64| [at(event) + 8, at(event) + 8 + event % 2];
    for event in 0..300 {
        all[0].send(at(event), &[event as u8; 10]).unwrap();
        for time in camera(event) {
            all[1].send(time, &[event as u8; 20]).unwrap();
        }
    }
    // No more of the last events come.
    all.iter().for_each(|one| one.sources()[0].low_water(Some(at(300)), false));
    all.iter().for_each(wait_for);
    for one in all {
        assert!(one.close(LONG).is_confirmed());
    }
    let run = Run::open(&recorder.stop().unwrap().folder).unwrap();
    assert!(verify(&run, |_| ()).is_intact());
    let report = audit(&run).unwrap();
    assert_eq!(report.verdict, Verdict::Balanced, "{report:?}");
    let mut count = 0;
    for frame in 0..run.frames().len() {
        let keys = run.events(frame).unwrap().keys().to_vec();
        let columns = [0, 1].map(|one| run.fragments(frame, SourceId(one)).unwrap());
        for (row, key) in keys.into_iter().enumerate() {
            assert_eq!(key, at(count));
            let lengths = [0, 1].map(|one| columns[one].fragment(row).map(|bytes| bytes.len()));
            assert_eq!(lengths, [Some(10), Some(40)], "event {count}");
            assert!(columns[0].pieces(row..row + 1).is_empty());
            let pieces = columns[1].pieces(row..row + 1);
            let found: Vec<_> = pieces.iter().map(|piece| (piece.time_ns, piece.bytes)).collect();
            assert_eq!(found, camera(count).map(|time| (time, 20)));
            count += 1;
        }
    }
    assert_eq!(count, 300);
    let ledger = run.recorded_ledger().unwrap().expect("of the whole run");
    assert_eq!(ledger.sources[1][Entry::FragmentsRecorded], 600);
}
