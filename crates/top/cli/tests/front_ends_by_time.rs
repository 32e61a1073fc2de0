//! Front-ends whose keys are times, beside a board with a clock: events of what they send.

use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

use catchment_fixtures::wait_while;
use catchment_frontend::{Frontend, KeyKind, SourceConfig};
use catchment_model::{Entry, EventFlags, SourceId};
use catchment_storage::{Run, Verdict, audit, verify};

use crate::by_time::{Boards, config};
use crate::front_ends::{LONG, Wire};
use crate::support::{free, free_ports, interrupt, only_run, started};

/// Nanoseconds between events, and where the first one is.
const APART: u64 = 1_000_000;
const FIRST: u64 = 1_000_000 * APART;

/// Front-ends, with more of their sources' tables, and a board, whose number comes behind theirs.
fn configure(folder: &Path, front_ends: &[(&str, &str)]) -> (String, u16, SocketAddr) {
    let address = free();
    let source = |(name, more): &(&str, &str)| {
        format!("[[sources]]\nname = \"{name}\"\nvia = \"link\"\n{more}\n")
    };
    let sources: Vec<String> = front_ends.iter().map(source).collect();
    let more = format!(
        "[frame]\ntime = \"50 ms\"\n[[listen]]\naddress = \"{address}\"\n{}",
        sources.concat()
    );
    let port = free_ports(1);
    let path = config(folder, port, 1, &more);
    // Nothing is given up while a busy machine looks elsewhere.
    let text = std::fs::read_to_string(&path).unwrap().replace("60 s", "1 h");
    std::fs::write(&path, text).unwrap();
    (path, port, address)
}

fn front_end(address: SocketAddr, name: &str) -> Frontend {
    let source = SourceConfig { key_kind: KeyKind::Time, ..SourceConfig::default() };
    let builder = Frontend::builder(&format!("catchment+tcp://{address}"), name);
    builder.source_of(source).wait(LONG).connect().expect("the recorder is there")
}

/// All that a front-end has sent is durable.
fn wait_for(front_end: &Frontend) {
    wait_while(|| front_end.sources()[0].status().durable < front_end.sources()[0].status().made);
}

fn at(event: u64) -> u64 {
    FIRST + event * APART
}

/// By event: its time, and whether it is flagged; and by source, its own time and last byte.
type Event = (u64, EventFlags, Vec<Option<(u64, u8)>>);

/// The events of a run whose books balance.
fn events(folder: &Path, sources: u32, verdict: Verdict) -> (Run, Vec<Event>) {
    let run = Run::open(only_run(folder)).unwrap();
    assert!(verify(&run, |_| ()).is_intact());
    let report = audit(&run).unwrap();
    assert_eq!(report.verdict, verdict, "{report:?}");
    let mut all = Vec::new();
    for frame in 0..run.frames().len() {
        let read = run.events(frame).unwrap();
        let columns: Vec<_> =
            (0..sources).map(|one| run.fragments(frame, SourceId(one)).unwrap()).collect();
        for (row, &key) in read.keys().iter().enumerate() {
            let of_source = columns.iter().map(|column| {
                let bytes = column.fragment(row)?;
                Some((column.times_ns()[row], bytes[bytes.len() - 1]))
            });
            all.push((key, EventFlags(read.flags()[row]), of_source.collect()));
        }
    }
    (run, all)
}

#[test]
fn two_front_ends_and_a_board_are_events_by_their_times_and_an_idle_one_delays_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (config, port, address) =
        configure(folder.path(), &[("trigger", ""), ("camera", "role = \"optional\"")]);
    let mut board = Boards::new(&config, port, 1);
    let (child, mut lines) = started(folder.path(), &["run", &config], "Recording");
    let (trigger, camera) = (front_end(address, "trigger"), front_end(address, "camera"));
    let mut send = |events: std::ops::Range<u64>, with_camera: bool| {
        for event in events {
            board.send(0, at(event) / 8, 1 + event as usize % 50);
            trigger.send(at(event) + 8, &[event as u8; 40]).unwrap();
            if with_camera {
                camera.send(at(event) + 16, &[event as u8; 90]).unwrap();
            }
            // As on their clocks: a burst would fill the board's socket.
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    };
    send(0..200, true);
    // It says that it is idle: what the others send is durable at once, and not in an hour.
    camera.sources()[0].low_water(None, true);
    wait_for(&camera);
    send(200..300, false);
    wait_for(&trigger);
    // It is back before the others go on: behind them it would be late.
    camera.send(at(300) + 16, &[300_u64 as u8; 90]).unwrap();
    wait_while(|| camera.sources()[0].status().taken < camera.sources()[0].status().made);
    send(300..301, false);
    send(301..400, true);
    assert!(camera.close(LONG).is_confirmed() && trigger.close(LONG).is_confirmed());
    let code = interrupt(child);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(code, Some(0), "{rest}");
    let (run, events) = events(folder.path(), 3, Verdict::Balanced);
    assert_eq!(events.len(), 400, "{rest}");
    for (event, (key, flags, of_source)) in (0..).zip(events) {
        assert_eq!((key, flags), (at(event), EventFlags::default()));
        let byte = event as u8;
        let camera = (!(200..300).contains(&event)).then_some((at(event) + 16, byte));
        assert_eq!(of_source[..2], [Some((at(event) + 8, byte)), camera]);
        // The last bytes of a board are its checksum.
        assert_eq!(of_source[2].map(|(time_ns, _)| time_ns), Some(at(event)));
    }
    let ledger = run.recorded_ledger().unwrap().expect("of the whole run");
    assert_eq!(ledger.sources[1][Entry::FragmentsRecorded], 300);
    assert_eq!(ledger.total()[Entry::FragmentsUnmatched], 0);
}

#[test]
fn a_slow_camera_beside_a_fast_trigger_is_in_its_events_and_no_loss_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let (config, port, address) =
        configure(folder.path(), &[("trigger", ""), ("camera", "role = \"sparse\"")]);
    let mut board = Boards::new(&config, port, 1);
    let (child, mut lines) = started(folder.path(), &["run", &config], "Recording");
    let (trigger, camera) = (front_end(address, "trigger"), front_end(address, "camera"));
    for event in 0..400 {
        board.send(0, at(event) / 8, 40);
        trigger.send(at(event) + 8, &[event as u8; 40]).unwrap();
        // An image of each fiftieth; of the others it says that they have passed.
        match event % 50 {
            7 => camera.send(at(event) + 100, &[event as u8; 30_000]).unwrap(),
            _ => camera.sources()[0].low_water(Some(at(event) + 201), false),
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // Not its time-out, but what it has said closes the events.
    wait_for(&trigger);
    assert!(camera.close(LONG).is_confirmed() && trigger.close(LONG).is_confirmed());
    let code = interrupt(child);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(code, Some(0), "{rest}");
    let (_, events) = events(folder.path(), 3, Verdict::Balanced);
    assert_eq!(events.len(), 400, "{rest}");
    for (event, (key, flags, of_source)) in (0..).zip(events) {
        assert_eq!((key, flags), (at(event), EventFlags::default()));
        let image = (event % 50 == 7).then_some((at(event) + 100, event as u8));
        assert_eq!(of_source[1], image, "event {event}");
    }
}

#[test]
fn a_front_end_that_is_killed_is_its_own_loss_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (config, port, address) = configure(folder.path(), &[("trigger", ""), ("camera", "")]);
    let mut board = Boards::new(&config, port, 1);
    let (child, mut lines) = started(folder.path(), &["run", &config], "Recording");
    let wire = Wire::to(address);
    let (trigger, camera) = (front_end(address, "trigger"), front_end(wire.address, "camera"));
    for event in 0..200 {
        board.send(0, at(event) / 8, 40);
        trigger.send(at(event) + 8, &[1; 40]).unwrap();
        camera.send(at(event) + 16, &[2; 40]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    wait_for(&camera);
    wire.kill();
    for event in 200..400 {
        board.send(0, at(event) / 8, 40);
        trigger.send(at(event) + 8, &[1; 40]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    wait_for(&trigger);
    drop(camera);
    assert!(trigger.close(LONG).is_confirmed());
    let code = interrupt(child);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(code, Some(3), "{rest}");
    let (run, events) = events(folder.path(), 3, Verdict::DataLost);
    assert_eq!(events.len(), 400, "{rest}");
    for (event, (key, _, of_source)) in (0..).zip(events) {
        assert_eq!((key, of_source[1].is_some()), (at(event), event < 200));
        assert!(of_source[0].is_some() && of_source[2].is_some(), "event {event}");
    }
    let ledger = run.recorded_ledger().unwrap().expect("of the whole run");
    let missing = |source: usize| ledger.sources[source][Entry::FragmentsMissing];
    assert_eq!([0, 1, 2].map(missing), [0, 200, 0]);
}

#[test]
fn a_front_end_of_numbers_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (config, _, address) = configure(folder.path(), &[("counter", "")]);
    let (child, _lines) = started(folder.path(), &["run", &config], "Recording");
    let counter = Frontend::builder(&format!("catchment+tcp://{address}"), "counter");
    let refused = counter.wait(LONG).connect();
    let text = refused.expect_err("it counts").to_string();
    assert!(text.contains("source \"counter\": expected keys that are times of 64 bits"), "{text}");
    interrupt(child);
}
