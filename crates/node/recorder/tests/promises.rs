//! What front-ends over sessions promise decides when events close, however long the time-out is.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use catchment_builder::SourceRole;
use catchment_model::Entry;
use catchment_recorder::{LinkCounts, Recorder, RecorderConfig, SourceConfig};
use catchment_storage::{Run, Verdict, audit};
use catchment_wire::event_link::Heartbeat;

use crate::support;
use crate::support::front_end::{FrontEnd, Opening, fragments};
use crate::support::stepped::{MS, Stepped};

const LOW_WATER: u32 = Heartbeat::LOW_WATER;
const IDLE: u32 = Heartbeat::IDLE;

/// Sources over sessions, and a time-out that none of their events waits for.
fn config(folder: &Path, sources: &[(&str, SourceRole)]) -> RecorderConfig {
    let mut config = support::config(folder, 1);
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let source = |&(name, role): &(&str, SourceRole)| SourceConfig {
        role,
        fragment_bytes_max: 1 << 16,
        ..SourceConfig::over_session(name, address)
    };
    config.sources = sources.iter().map(source).collect();
    config.build.timeout_ns = 3_600_000_000_000;
    config
}

fn connect(recorder: &Recorder, name: &str, logs: &[&str]) -> FrontEnd {
    let address = recorder.addresses()[0];
    let logs: Vec<_> = logs.iter().map(|&log| (log, 0, 0)).collect();
    let opening = Opening::of(name, 7, &logs);
    let mut front_end = FrontEnd::connect(address, &opening);
    front_end.attach(address);
    front_end
}

/// Pings until what was said to the first is so. All are there meanwhile.
fn until(front_ends: &mut [&mut FrontEnd], is_so: impl Fn(&FrontEnd) -> bool) {
    while !is_so(front_ends[0]) {
        for front_end in &mut *front_ends {
            front_end.promise(&[]);
            front_end.ping();
        }
    }
}

/// Sends fragments of a log in one message, the first of which has that sequence.
fn send(front_end: &mut FrontEnd, log: u32, sequence: u64, keys: impl IntoIterator<Item = u64>) {
    let items: Vec<(u64, &[u8])> = keys.into_iter().map(|key| (key, &[9, 9][..])).collect();
    front_end.send(log, sequence, &items);
}

#[test]
fn a_camera_beside_a_trigger_is_no_loss_and_events_are_durable_up_to_its_marks() {
    let folder = tempfile::tempdir().unwrap();
    let sources = [("crate/trigger", SourceRole::Required), ("crate/camera", SourceRole::Sparse)];
    let recorder = Recorder::start(config(folder.path(), &sources)).unwrap();
    let mut front_end = connect(&recorder, "crate", &["trigger", "camera"]);
    for picture in 0..10 {
        let first = picture * 100;
        send(&mut front_end, 0, first, first..first + 50);
        send(&mut front_end, 1, picture, [first + 3]);
        // It promises nothing for the second half of these.
        send(&mut front_end, 0, first + 50, first + 50..first + 100);
        front_end.promise(&[(1, LOW_WATER, picture + 1, first + 60)]);
        until(&mut [&mut front_end], |one| one.durable(0) == first + 60);
    }
    let summary = recorder.stop().unwrap();
    let ledger = &summary.last.ledger;
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    assert_eq!(ledger.total()[Entry::FragmentsMissing], 0);
    let not_expected = ledger.sources.iter().map(|source| source[Entry::FragmentsNotExpected]);
    assert!(not_expected.eq([0, 990]), "neither a loss nor invisible");
    let run = Run::open(&summary.folder).unwrap();
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
    let events = support::fragments(&run);
    assert_eq!(events.len(), 1_000);
    let pictures = events.iter().filter(|(_, event)| event.contains_key(&1));
    assert!(pictures.map(|(key, _)| *key).eq((0..10).map(|picture| picture * 100 + 3)));
}

#[test]
fn one_source_of_ninety_that_sends_one_of_a_thousand_holds_up_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..90).map(|number| format!("crate/{number}")).collect();
    let role = |number| if number == 89 { SourceRole::Sparse } else { SourceRole::Required };
    let sources: Vec<_> = (0..).zip(&names).map(|(n, name)| (&name[..], role(n))).collect();
    let recorder = Recorder::start(config(folder.path(), &sources)).unwrap();
    let logs: Vec<&str> = names.iter().map(|name| &name["crate/".len()..]).collect();
    let mut front_end = connect(&recorder, "crate", &logs);
    for thousand in 0..3 {
        let first = thousand * 1_000;
        for part in (first..first + 1_000).step_by(250) {
            (0..89).for_each(|log| send(&mut front_end, log, part, part..part + 250));
            if part == first {
                send(&mut front_end, 89, thousand, [first]);
            }
        }
        // Its fragment says that it has none before.
        until(&mut [&mut front_end], |one| (0..89).all(|log| one.durable(log) == first + 1));
        front_end.promise(&[(89, LOW_WATER, thousand + 1, first + 1_000)]);
        until(&mut [&mut front_end], |one| (0..89).all(|log| one.durable(log) == first + 1_000));
    }
    let summary = recorder.stop().unwrap();
    let ledger = &summary.last.ledger;
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    assert_eq!(ledger.total()[Entry::FragmentsRecorded], 89 * 3_000 + 3);
    assert_eq!(audit(&Run::open(&summary.folder).unwrap()).unwrap().verdict, Verdict::Balanced);
}

#[test]
fn a_required_source_that_is_idle_or_gone_holds_up_nothing_and_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let sources = [("trigger", SourceRole::Required), ("wheel", SourceRole::Required)];
    let recorder = Recorder::start(config(folder.path(), &sources)).unwrap();
    let mut trigger = connect(&recorder, "trigger", &[""]);
    let mut wheel = connect(&recorder, "wheel", &[""]);
    send(&mut trigger, 0, 0, 0..20);
    send(&mut wheel, 0, 0, 0..10);
    until(&mut [&mut wheel, &mut trigger], |one| one.durable(0) == 10);
    wheel.promise(&[(0, IDLE, 10, 0)]);
    until(&mut [&mut trigger, &mut wheel], |one| one.durable(0) == 20);
    // Its next fragment counts again; then its connection ends without a word.
    send(&mut wheel, 0, 10, 20..25);
    until(&mut [&mut wheel, &mut trigger], |one| one.taken(0) == 15);
    send(&mut trigger, 0, 20, 20..40);
    until(&mut [&mut trigger, &mut wheel], |one| one.durable(0) == 25);
    drop(wheel);
    until(&mut [&mut trigger], |one| one.durable(0) == 40);
    let summary = recorder.stop().unwrap();
    let ledger = &summary.last.ledger;
    assert_eq!(ledger.sources[1][Entry::FragmentsMissing], 10 + 15);
    assert_eq!(ledger.total()[Entry::FragmentsRecorded], 40 + 15);
    assert!(ledger.balance().holds());
    let waited = LinkCounts { waits: 1, waited_ms: 1_000, ..LinkCounts::default() };
    assert_eq!(summary.last.links, [LinkCounts::default(), waited]);
}

#[test]
fn numbers_that_begin_again_by_a_mark_are_other_events() {
    let folder = tempfile::tempdir().unwrap();
    let sources = [("crate/a", SourceRole::Required), ("crate/b", SourceRole::Required)];
    let recorder = Recorder::start(config(folder.path(), &sources)).unwrap();
    let mut front_end = connect(&recorder, "crate", &["a", "b"]);
    (0..2).for_each(|log| send(&mut front_end, log, 0, 100..120));
    until(&mut [&mut front_end], |one| (0..2).all(|log| one.durable(log) == 20));
    front_end.number_anew(0, 20);
    send(&mut front_end, 0, 21, 0..20);
    until(&mut [&mut front_end], |one| one.taken(0) == 41);
    front_end.number_anew(1, 20);
    send(&mut front_end, 1, 21, 0..20);
    until(&mut [&mut front_end], |one| (0..2).all(|log| one.durable(log) == 41));
    let summary = recorder.stop().unwrap();
    let ledger = &summary.last.ledger;
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    let events = support::fragments(&Run::open(&summary.folder).unwrap());
    assert!(events.len() == 40 && events.values().all(|event| event.len() == 2));
}

#[test]
fn events_that_wait_no_more_for_a_source_behind_others_of_its_connection_are_counted() {
    let sources = [("crate/a", SourceRole::Required), ("crate/b", SourceRole::Required)];
    let mut config = config("".as_ref(), &sources);
    config.memory_bytes = 128 << 20;
    config.write.buffer_bytes = 64 << 10;
    config.build.timeout_ns = 500 * MS;
    let mut run = Stepped::begin(&config);
    let data = run.open_session_of("crate", &[("a", 0, 0), ("b", 0, 0)]);
    for log in 0..2 {
        run.write(data, &fragments(1 + log, log, 0, &[(0, &[1])]));
    }
    // The first one goes on alone, until its connection is held: what the other one would say
    // stands behind that.
    let bytes = vec![7; 60_000];
    for key in 1.. {
        let message = fragments(2 + key as u32, 0, key, &[(key, &bytes)]);
        if run.try_write(data, &message) < message.len() {
            break;
        }
        run.pass(1);
    }
    assert_eq!(run.snapshot().links, [LinkCounts::default(); 2]);
    run.pass(1_500);
    let [first, second] = run.snapshot().links[..] else { panic!("two sources") };
    assert_eq!(first, LinkCounts::default());
    assert!(second.fragments_skew > 0 && second.waits == 0, "{second:?}");
    assert!(second.fragments_skew <= run.count(Entry::FragmentsMissing));
}

#[test]
fn a_fragment_with_tag_0_is_compared_with_no_other_one() {
    let folder = tempfile::tempdir().unwrap();
    let sources = [("trigger", SourceRole::Required), ("camera", SourceRole::Required)];
    let recorder = Recorder::start(config(folder.path(), &sources)).unwrap();
    let mut trigger = connect(&recorder, "trigger", &[""]);
    let mut camera = connect(&recorder, "camera", &[""]);
    send(&mut trigger, 0, 0, 0..20);
    let bytes = vec![9; 1 << 16];
    let items: Vec<(u64, &[u8])> = (0..20).map(|key| (key, &bytes[..2])).collect();
    camera.send_tagged((0, 0), 0, &items[..10]);
    // One that is taken as its bytes come.
    camera.send_tagged((0, 10), 0, &[(10, &bytes)]);
    camera.send_tagged((0, 11), 2, &items[11..]);
    until(&mut [&mut trigger, &mut camera], |one| one.durable(0) == 20);
    let ledger = recorder.stop().unwrap().last.ledger;
    let bad = |source: usize| ledger.sources[source][Entry::FragmentsBadTag];
    assert_eq!([bad(0), bad(1)], [9, 9]);
}
