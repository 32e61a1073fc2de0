//! Front-ends over sessions: what they deliver is whole in the file, whatever breaks, and what they
//! must not say costs them no more than the specification says.

use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use catchment_disk::FaultPlan;
use catchment_fixtures::wait_while;
use catchment_model::{Entry, Ledger, RunId};
use catchment_net::TlsServer;
use catchment_recorder::{
    HeldAtRunEnd, LinkAccess, LinkCounts, Listener, Recorder, RecorderConfig, Report, RunSummary,
    Scalar, SourceConfig, TlsRule,
};
use catchment_storage::{Run, Verdict, audit};
use catchment_wire::event_link::{EventLink, MarkKind};
use catchment_wire::session::{
    ByeReason, GrantAnswer, LogPing, NONE, Text, Value, ValueKind, ValueType,
};

use crate::support;
use crate::support::front_end::{FrontEnd, Opening, attached, fragments};

const LOGS: [(&str, u64, u64); 3] = [("a", 0, 0), ("b", 0, 0), ("c", 0, 0)];

/// The sources `camera/a`, `camera/b` and `camera/c`.
fn config(folder: &Path) -> RecorderConfig {
    let mut config = support::config(folder, 1);
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let source = |(name, ..): &(&str, u64, u64)| SourceConfig {
        protocol: Arc::new(EventLink::SESSIONS),
        fragment_bytes_max: 3 << 20,
        ..SourceConfig::new(format!("camera/{name}"), address)
    };
    config.sources = LOGS.iter().map(source).collect();
    // Nothing is given up while a busy machine looks elsewhere.
    config.build.timeout_ns = 3_600_000_000_000;
    config
}

fn opening<'a>(session: u64, logs: &'a [(&'a str, u64, u64)]) -> Opening<'a> {
    Opening::of("camera", session, logs)
}

fn connect(recorder: &Recorder, opening: &Opening<'_>) -> FrontEnd {
    let address = recorder.addresses()[0];
    let mut front_end = FrontEnd::connect(address, opening);
    front_end.attach(address);
    front_end
}

fn fragment(log: u32, key: u64) -> Vec<u8> {
    let bytes = [10, 70_000, 0, 333][(key + u64::from(log)) as usize % 4];
    (0..bytes).map(|byte| (byte as u64 / 3 + key + u64::from(log)) as u8).collect()
}

/// Sends the fragments of these keys of all logs, whose sequences are the keys.
fn send(front_end: &mut FrontEnd, keys: std::ops::Range<u64>) {
    for key in keys {
        for log in 0..3 {
            front_end.send(log, key, &[(key, &fragment(log, key))]);
        }
    }
}

fn until_durable(front_end: &mut FrontEnd, position: u64) {
    while !(0..3).all(|log| front_end.durable(log) == position) {
        front_end.promise(&[]);
        front_end.ping();
    }
}

fn end(recorder: Recorder) -> (RunSummary, Ledger) {
    let summary = recorder.stop().unwrap();
    let ledger = summary.last.ledger.clone();
    assert!(ledger.balance().holds(), "{:?}", ledger.balance());
    (summary, ledger)
}

/// The file has the fragments of all logs and of these keys, and nothing else.
fn check(summary: &RunSummary, keys: std::ops::Range<u64>, verdict: Verdict) {
    let run = Run::open(&summary.folder).unwrap();
    assert_eq!(audit(&run).unwrap().verdict, verdict);
    let events = support::fragments(&run);
    assert!(events.keys().copied().eq(keys), "{:?}", events.keys());
    for (key, of_sources) in events {
        for log in 0..3 {
            assert!(of_sources[&log] == fragment(log, key), "event {key}, log {log}");
        }
    }
}

#[test]
fn what_a_front_end_delivers_is_in_the_file_and_is_said_to_be_taken() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut front_end = connect(&recorder, &opening(7, &LOGS));
    let welcome = front_end.welcome.unwrap();
    assert_eq!((welcome.session, welcome.run), (7, recorder.run().0));
    let granted: Vec<_> = front_end.grants.iter().map(|one| (one.answer, one.source)).collect();
    assert_eq!(granted, [0, 1, 2].map(|source| (GrantAnswer::Joins, source)));
    send(&mut front_end, 0..50);
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 50));
    let (summary, ledger) = end(recorder);
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    assert_eq!(ledger.sources[0][Entry::PacketsAccepted], 50);
    check(&summary, 0..50, Verdict::Balanced);
    assert_eq!(front_end.read_bye().0.reason, ByeReason::ENDING);
    assert_eq!([0, 1, 2].map(|log| front_end.durable(log)), [50; 3]);
}

#[test]
fn positions_go_on_where_a_disk_does_not_confirm_a_file_and_what_it_has_is_counted() {
    for by_sync in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let plan = FaultPlan::default();
        let control = plan.control.clone();
        let mut config = config(folder.path());
        config.write.faults = Some(plan);
        if !by_sync {
            config.write.sync_interval_ns = 3_600_000_000_000;
            config.write.file_time_ns = Some(100_000_000);
        }
        let recorder = Recorder::start(config).unwrap();
        let mut front_end = connect(&recorder, &opening(7, &LOGS));
        send(&mut front_end, 0..10);
        until_durable(&mut front_end, 10);
        // A file that is left is synced before it is closed.
        control.fail_syncs(Some(libc::EIO));
        if !by_sync {
            control.fail_finishes(Some(libc::EIO));
        }
        send(&mut front_end, 10..20);
        let unconfirmed =
            |recorder: &Recorder| recorder.snapshot().ledger.total()[Entry::FragmentsUnconfirmed];
        wait_while(|| {
            // A data connection on which nothing comes is closed.
            front_end.promise(&[]);
            front_end.ping();
            assert_eq!([0, 1, 2].map(|log| front_end.durable(log)), [10; 3]);
            unconfirmed(&recorder) == 0
        });
        control.fail_syncs(None);
        control.fail_finishes(None);
        // It sends nothing more before it hears that: its ring is full.
        until_durable(&mut front_end, 20);
        let count = unconfirmed(&recorder);
        assert!((1..=30).contains(&count), "{count}");
        send(&mut front_end, 20..40);
        until_durable(&mut front_end, 40);
        let (summary, ledger) = end(recorder);
        let total = ledger.total();
        assert_eq!(total[Entry::FragmentsUnconfirmed], count);
        assert!(ledger.balance().lost_data());
        let run = Run::open(&summary.folder).unwrap();
        let books = run.recorded_ledger().unwrap().unwrap().total();
        assert_eq!(books[Entry::FragmentsUnconfirmed], count);
        assert_eq!(audit(&run).unwrap().verdict, Verdict::DataLost);
        // The disk kept all of it this time; some may have come while there was no file.
        if total[Entry::FragmentsDiscardedDisk] == 0 {
            check(&summary, 0..40, Verdict::DataLost);
        }
    }
}

#[test]
fn many_fragments_in_one_message_and_one_in_many() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut front_end = connect(&recorder, &opening(7, &LOGS));
    let small: Vec<u8> = (0..100).collect();
    let many: Vec<(u64, &[u8])> = (0..1_000).map(|key| (key, &small[..])).collect();
    let long: Vec<u8> = (0..3 << 20).map(|byte: u32| (byte / 7) as u8).collect();
    for log in 0..3 {
        front_end.send(log, 0, &many);
        front_end.send_parts(log, 1_000, 1_000, &long, 100_000);
        front_end.send(log, 1_001, &[(1_001, &[]), (1_002, &[1])]);
    }
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 1_003));
    let (summary, ledger) = end(recorder);
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    let events = support::fragments(&Run::open(&summary.folder).unwrap());
    assert_eq!(events.len(), 1_003);
    for log in 0..3 {
        assert!(events[&999][&log] == small && events[&1_000][&log] == long);
        assert!(events[&1_001][&log].is_empty() && events[&1_002][&log] == [1]);
    }
}

#[test]
fn a_session_goes_on_where_it_was_and_repeats_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut front_end = connect(&recorder, &opening(7, &LOGS));
    send(&mut front_end, 0..20);
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 20));
    // A part of a fragment, and a part of a message: both begin again.
    let bytes = fragment(0, 20);
    let half = fragments(front_end.next_message(), 0, 20, &[(20, &bytes)]);
    front_end.send_bytes(&half[..half.len() / 2]);
    drop(front_end);
    let held = LOGS.map(|(name, ..)| (name, 15, 30));
    let mut front_end = connect(&recorder, &opening(7, &held));
    let next: Vec<u64> = front_end.grants.iter().map(|one| one.next).collect();
    assert_eq!(next, [20; 3]);
    // It sends what it need not send, too.
    send(&mut front_end, 18..30);
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 30));
    let (summary, ledger) = end(recorder);
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    let of_source = &ledger.sources[0];
    assert_eq!((of_source[Entry::FragmentsRepeated], of_source[Entry::LinkResumes]), (2, 1));
    check(&summary, 0..30, Verdict::Balanced);
}

#[test]
fn marks_of_another_run_change_nothing_and_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut front_end = connect(&recorder, &opening(7, &LOGS));
    let own = front_end.welcome.unwrap().run_number;
    for (sequence, mark) in [(MarkKind::End, own + 1), (MarkKind::Begin, own)].iter().enumerate() {
        (0..3).for_each(|log| front_end.mark(log, sequence as u64, *mark));
    }
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 2));
    let (summary, ledger) = end(recorder);
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    let ignored = LinkCounts { marks_ignored: 1, ..LinkCounts::default() };
    assert_eq!(summary.last.links, [ignored; 3]);
}

#[test]
fn what_is_held_of_another_run_is_given_up_and_was_not_said_to_be_durable() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    // The second hello comes from a sender that has not read the answer to the first one.
    for made in [10, 12] {
        let held = LOGS.map(|(name, ..)| (name, 3, made));
        let opening = Opening { run: [9; 16], ..opening(7, &held) };
        let mut front_end = FrontEnd::connect(recorder.addresses()[0], &opening);
        for grant in &front_end.grants {
            let said = (grant.answer, grant.next, grant.durable);
            assert_eq!(said, (GrantAnswer::RunEnded, made, 3));
        }
        if made == 12 {
            front_end.attach(recorder.addresses()[0]);
            send(&mut front_end, 12..20);
            front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 20));
        }
    }
    // It is told of that run, once, and is in no count of this one.
    let observer = recorder.observer();
    let items = |items| HeldAtRunEnd { front_end: "camera".into(), run: RunId([9; 16]), items };
    assert_eq!(observer.front_ends().take_held(), [items(3 * 7), items(3 * 2)]);
    assert_eq!(observer.front_ends().take_held(), []);
    assert_eq!(observer.front_ends().list()["camera"].held_at_run_end, 3 * 9);
    let (summary, ledger) = end(recorder);
    assert_eq!(ledger.sources[0][Entry::FragmentsReceived], 8);
    check(&summary, 12..20, Verdict::Balanced);
}

#[test]
fn a_session_of_which_three_messages_in_a_row_are_malformed_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let observer = recorder.observer();
    let given_up = || observer.front_ends().list()["camera"].given_up.clone();
    let malformed = |held: u64, sends: u64| {
        let logs = LOGS.map(|(name, ..)| (name, 0, held));
        let mut front_end = connect(&recorder, &opening(7, &logs));
        if sends > 0 {
            send(&mut front_end, held..held + sends);
            front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == held + sends));
        }
        front_end.send_bytes(&[0; 64]);
        let (bye, _) = front_end.read_bye();
        assert_eq!(bye.reason, ByeReason::MALFORMED);
        bye.retry_ms
    };
    assert_eq!([malformed(0, 0), malformed(0, 0)], [1_000; 2]);
    // What is taken between two faults shows that it is no defect that goes on for ever.
    assert_eq!([malformed(0, 5), malformed(5, 0)], [1_000; 2]);
    assert_eq!(given_up(), None);
    assert_eq!(malformed(5, 0), 0);
    assert!(given_up().is_some_and(|why| why.contains("marker")), "{:?}", given_up());
    // Its program was mended, and begins a session of its own.
    let mut front_end = connect(&recorder, &opening(8, &LOGS));
    front_end.ping();
    assert_eq!(given_up(), None);
    drop(front_end);
    end(recorder);
}

#[test]
fn a_buffer_that_is_full_of_what_is_not_durable_yet_is_too_small() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.frame.time_ns = 3_600_000_000_000;
    let recorder = Recorder::start(config).unwrap();
    let observer = recorder.observer();
    let short = || observer.front_ends().list()["camera"].buffer_short();
    let mut front_end = connect(&recorder, &opening(7, &LOGS));
    send(&mut front_end, 0..5);
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 5));
    assert_eq!(short(), None);
    front_end.ping_with(LogPing::FULL, &[5; 3]);
    wait_while(|| {
        front_end.promise(&[]);
        front_end.ping();
        short().is_none()
    });
    let why = short().unwrap();
    assert!(why.contains("full of what waits to be durable"), "{why}");
    end(recorder);
}

#[test]
fn what_sources_of_one_front_end_count_stands_under_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut front_end = connect(&recorder, &opening(7, &LOGS));
    let made = |log: u32, count: u64| Value {
        kind: ValueKind::COUNTER,
        value_type: ValueType::U64,
        flags: 0,
        log,
        value: count.to_le_bytes(),
        min: [0; 8],
        max: [0; 8],
        unit: Text::new("").unwrap(),
        name: Text::new("made").unwrap(),
    };
    // The last one is of no log.
    front_end.report(&[made(0, 10), made(2, 12), made(NONE, 99), made(3, 1)], "");
    front_end.ping();
    let one = recorder.observer().front_ends().list().remove("camera").unwrap();
    let count = |value| Report::Counter { value: Scalar::U64(value), unit: String::new() };
    let expected = [("camera/a.made", 10), ("camera/c.made", 12), ("made", 99)];
    let expected = expected.map(|(name, value)| (name.to_owned(), count(value)));
    assert_eq!((one.reports, one.reports_dropped), (expected.into(), 1));
    end(recorder);
}

#[test]
fn reasons_of_abandoned_fragments_and_the_way_to_durable_are_shown_by_source() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut front_end = connect(&recorder, &opening(7, &LOGS));
    let mut position = 0;
    // What is durable as soon as it is looked at has no time that could be measured.
    while recorder.snapshot().progress[0].delay.is_none() {
        send(&mut front_end, position..position + 10);
        position += 10;
        until_durable(&mut front_end, position);
    }
    let shown = recorder.snapshot().progress[0];
    assert_eq!((shown.made, shown.taken, shown.durable), (position, position, position));
    assert_eq!(shown.release, Some("durable"));
    let delay = shown.delay.unwrap();
    assert!(delay.median_ns > 0 && delay.median_ns <= delay.p99_ns, "{delay:?}");
    let (hardware, unknown) = ((3, 2), (2, 77));
    front_end.abandon(1, position, hardware);
    front_end.abandon(1, position + 3, unknown);
    front_end.ping_until(|one| one.taken(1) == position + 5);
    let (summary, ledger) = end(recorder);
    assert_eq!(ledger.sources[1][Entry::FragmentsAbandoned], 5);
    let abandoned = [0, 1, 2].map(|log| summary.last.links[log].abandoned);
    assert_eq!(abandoned, [[0; 4], [0, 3, 0, 2], [0; 4]]);
}

#[test]
fn bytes_of_a_message_that_is_not_whole_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut front_end = connect(&recorder, &opening(7, &LOGS));
    let message = fragments(front_end.next_message(), 0, 0, &[(0, &[7; 50_000])]);
    let half = &message[..message.len() / 2];
    front_end.send_bytes(half);
    // The preamble and the attach come before it.
    front_end.ping_until(|one| one.data_read == 16 + 56 + half.len() as u64);
    front_end.send_bytes(&message[half.len()..]);
    front_end.ping_until(|one| one.taken(0) == 1);
    assert_eq!(front_end.data_read, 16 + 56 + message.len() as u64);
    let (_, ledger) = end(recorder);
    assert_eq!(ledger.sources[0][Entry::FragmentsReceived], 1);
}

#[test]
fn a_malformed_message_ends_the_session_and_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut front_end = connect(&recorder, &opening(7, &LOGS));
    send(&mut front_end, 0..10);
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 10));
    // The sequence after the next.
    front_end.send(1, 11, &[(11, &[1])]);
    let (bye, text) = front_end.read_bye();
    assert_eq!((bye.reason, bye.retry_ms), (ByeReason::MALFORMED, 1_000));
    assert!(text.contains("sequence 10, got 11"), "{text}");
    let held = LOGS.map(|(name, ..)| (name, 10, 20));
    let mut front_end = connect(&recorder, &opening(7, &held));
    send(&mut front_end, 10..20);
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 20));
    let (summary, ledger) = end(recorder);
    let refused: u64 = ledger.sources.iter().map(|one| one[Entry::PacketsRefused]).sum();
    assert_eq!(refused, 1);
    check(&summary, 0..20, Verdict::Balanced);
}

#[test]
fn a_key_that_does_not_rise_costs_its_fragment_alone() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut front_end = connect(&recorder, &opening(7, &LOGS));
    send(&mut front_end, 0..5);
    let long = vec![0; (3 << 20) + 8];
    for log in 0..3 {
        front_end.send(log, 5, &[(4, &[1]), (1 << 62, &[2])]);
        front_end.send_parts(log, 7, 5, &long, 100_000);
    }
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 8));
    for key in 6..10 {
        (0..3).for_each(|log| front_end.send(log, key + 2, &[(key, &fragment(log, key))]));
    }
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 12));
    let (summary, ledger) = end(recorder);
    let of_source = &ledger.sources[2];
    assert_eq!(of_source[Entry::FragmentsDiscardedOrder], 2);
    assert_eq!(of_source[Entry::FragmentsDiscardedTooLong], 1);
    assert_eq!(of_source[Entry::FragmentsReceived], 12);
    let events = support::fragments(&Run::open(&summary.folder).unwrap());
    assert!(events.keys().copied().eq((0..5).chain(6..10)));
}

#[test]
fn strangers_are_told_why_and_harm_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let address = recorder.addresses()[0];
    let mut front_end = connect(&recorder, &opening(7, &LOGS));
    send(&mut front_end, 0..10);
    let refused = |opening: &Opening<'_>| {
        let mut other = FrontEnd::connect(address, opening);
        let (bye, text) = other.read_bye();
        (bye.reason, text)
    };
    let other = Opening { name: "wheel", ..opening(8, &[("", 0, 0)]) };
    let (reason, text) = refused(&other);
    assert_eq!(reason, ByeReason::NAME);
    assert!(text.contains("\"wheel\""), "{text}");
    let (bye, _) = FrontEnd::connect(address, &opening(8, &LOGS)).read_bye();
    // It may be the same one, started again: its events are waited for for 1 s.
    assert_eq!((bye.reason, bye.retry_ms), (ByeReason::NAME_IN_USE, 500));
    assert_eq!(refused(&Opening { name: "a b", ..opening(9, &LOGS) }).0, ByeReason::NAME);
    // Another ticket, and a second connection of the same number.
    let welcome = front_end.welcome.unwrap();
    for ticket in [[9; 16], welcome.ticket] {
        let mut rest = Vec::new();
        let _reset = attached(address, 7, ticket).read_to_end(&mut rest);
        assert!(rest.is_empty());
    }
    // Bytes that are no session's.
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut stream, b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let _reset = stream.read_to_end(&mut Vec::new());
    send(&mut front_end, 10..20);
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 20));
    let (summary, ledger) = end(recorder);
    assert_eq!(ledger.sources[0][Entry::PacketsRefused], 3);
    check(&summary, 0..20, Verdict::Balanced);
}

#[test]
fn a_front_end_whose_process_died_begins_another_session_and_what_it_held_is_its_loss() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut front_end = connect(&recorder, &opening(7, &LOGS));
    send(&mut front_end, 0..10);
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 10));
    // What it had made and not sent dies with it.
    front_end.ping_made(&[13, 10, 11]);
    drop(front_end);
    let is_heard = |reason| reason == Some(ByeReason::NAME_IN_USE);
    let mut front_end = FrontEnd::connect(recorder.addresses()[0], &opening(8, &LOGS));
    // Until its end is noticed.
    wait_while(|| {
        let was_heard = is_heard(front_end.bye.as_ref().map(|(bye, _)| bye.reason));
        if was_heard {
            front_end = FrontEnd::connect(recorder.addresses()[0], &opening(8, &LOGS));
        }
        was_heard
    });
    front_end.attach(recorder.addresses()[0]);
    for key in 10..20 {
        (0..3).for_each(|log| front_end.send(log, key - 10, &[(key, &fragment(log, key))]));
    }
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 10));
    let (summary, ledger) = end(recorder);
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    let lost = [0, 1, 2].map(|log| ledger.sources[log][Entry::FragmentsLostSender]);
    assert_eq!(lost, [3, 0, 1]);
    check(&summary, 0..20, Verdict::Balanced);
}

#[test]
fn a_connection_that_ends_while_it_is_held_waits_for_nothing_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    // One source waits for the others, and has memory for a few of its fragments.
    config.memory_bytes = config.memory_bytes_min();
    let recorder = Recorder::start(config).unwrap();
    let mut front_end = connect(&recorder, &opening(7, &LOGS));
    let long = vec![5; 100_000];
    let mut sent = 0;
    // Until more waits than is on its way.
    while sent - front_end.taken(0) < 20 {
        front_end.send(0, sent, &[(sent, &long)]);
        sent += 1;
        front_end.ping();
    }
    drop(front_end);
    let held = [("a", 0, sent), ("b", 0, sent), ("c", 0, sent)];
    let mut front_end = connect(&recorder, &opening(7, &held));
    let next = front_end.grants[0].next;
    assert!(next < sent && front_end.grants[1].next == 0);
    // Those that the others wait for come first now.
    for key in 0..sent {
        (1..3).for_each(|log| front_end.send(log, key, &[(key, &[log as u8])]));
    }
    for key in next..sent {
        front_end.send(0, key, &[(key, &long)]);
    }
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == sent));
    let (summary, ledger) = end(recorder);
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    let events = support::fragments(&Run::open(&summary.folder).unwrap());
    assert_eq!(events.len() as u64, sent);
    assert!(events.values().all(|of_sources| of_sources[&0] == long && of_sources[&2] == [2]));
}

#[test]
fn what_is_sent_while_a_run_begins_is_recorded_and_behind_its_end_it_is_not_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start_paused(config(folder.path())).unwrap();
    let mut front_end = std::thread::scope(|scope| {
        scope.spawn(|| recorder.begin_between_events());
        let mut front_end = connect(&recorder, &opening(7, &LOGS));
        send(&mut front_end, 0..20);
        front_end
    });
    front_end.ping_until(|one| (0..3).all(|log| one.taken(log) == 20));
    let ended = std::thread::spawn(move || end(recorder));
    // One log goes on sending, and is told of nothing that is in no file.
    let mut key = 20;
    while front_end.bye.is_none() && front_end.try_send(&[(key, &fragment(0, key))]) {
        key += 1;
        front_end.read_what_came();
    }
    let (summary, ledger) = ended.join().unwrap();
    front_end.read_bye();
    assert_eq!(ledger.sources[0][Entry::FragmentsDiscardedPaused], 0);
    let run = Run::open(&summary.folder).unwrap();
    let recorded = support::fragments(&run).values().filter(|event| event.contains_key(&0)).count();
    assert_eq!(front_end.durable(0), recorded as u64);
}

#[test]
fn a_source_is_delivered_by_one_log_and_by_keys_that_the_builder_has() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let address = recorder.addresses()[0];
    let logs = [("a", 0, 0), ("a", 0, 0), ("d", 0, 0)];
    let front_end = FrontEnd::connect(address, &opening(7, &logs));
    let granted: Vec<_> = front_end.grants.iter().map(|one| (one.answer, one.reason)).collect();
    let refused = |reason| (GrantAnswer::Refused, reason);
    let joins = (GrantAnswer::Joins, ByeReason::DONE);
    assert_eq!(granted, [joins, refused(ByeReason::NAME_IN_USE), refused(ByeReason::NAME)]);
    drop(front_end);
    let narrow = Opening { key_bits: 12, ..opening(8, &LOGS) };
    wait_while(|| {
        let front_end = FrontEnd::connect(address, &narrow);
        let reason = front_end.bye.expect("it is refused").0.reason;
        assert!([ByeReason::NAME_IN_USE, ByeReason::MIXED].contains(&reason), "{reason:?}");
        reason != ByeReason::MIXED
    });
    end(recorder);
}

/// Listeners beside the first one: under TLS, with TLS for control, and for nobody from here.
fn listeners(folder: &Path) -> Vec<Listener> {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (folder.join("certificate"), folder.join("key"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let certificate = Some(TlsServer::for_links(&certificate, &key).unwrap());
    let listener = |tls, from: &[&str]| Listener {
        address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
        from: from.iter().map(|network| network.parse().unwrap()).collect(),
        access: LinkAccess { tls, certificate: certificate.clone(), ..LinkAccess::default() },
    };
    vec![
        listener(TlsRule::All, &[]),
        listener(TlsRule::Control, &[]),
        listener(TlsRule::None, &["127.0.0.2"]),
    ]
}

#[test]
fn a_connection_is_admitted_by_the_rule_of_its_listener() {
    let folder = tempfile::tempdir().unwrap();
    let config = RecorderConfig { listeners: listeners(folder.path()), ..config(folder.path()) };
    let recorder = Recorder::start(config).unwrap();
    let &[clear, all, control, nobody] = recorder.listeners() else { panic!("four listeners") };
    assert_eq!(recorder.addresses(), [clear; 3]);
    for listener in [all, control] {
        let (bye, text) = FrontEnd::connect(listener, &opening(7, &LOGS)).read_bye();
        assert_eq!((bye.reason, bye.retry_ms), (ByeReason::TLS_REQUIRED, 0), "{text}");
    }
    let mut closed = std::net::TcpStream::connect(nobody).unwrap();
    let _reset = closed.read_to_end(&mut Vec::new());
    // Control came in the clear, where it may; its items do not, where they may not. Whoever has
    // seen the ticket could try that: it costs the connection alone.
    let mut front_end = FrontEnd::connect(clear, &opening(7, &LOGS));
    let welcome = front_end.welcome.expect("it was welcomed");
    let mut closed = attached(all, welcome.session, welcome.ticket);
    let _reset = closed.read_to_end(&mut Vec::new());
    front_end.attach(control);
    send(&mut front_end, 0..10);
    until_durable(&mut front_end, 10);
    let (summary, ledger) = end(recorder);
    check(&summary, 0..10, Verdict::Balanced);
    assert_eq!(ledger.sources[0][Entry::PacketsRefused], 4);
}

#[test]
fn a_data_connection_that_is_refused_is_counted_for_its_own_session() {
    let folder = tempfile::tempdir().unwrap();
    let config = RecorderConfig { listeners: listeners(folder.path()), ..config(folder.path()) };
    let recorder = Recorder::start(config).unwrap();
    let &[clear, all, ..] = recorder.listeners() else { panic!("four listeners") };
    let opening = Opening { name: "camera/c", ..opening(7, &[("", 0, 0)]) };
    let front_end = FrontEnd::connect(clear, &opening);
    let welcome = front_end.welcome.expect("it was welcomed");
    for ticket in [welcome.ticket, [0; 16]] {
        let mut closed = attached(all, welcome.session, ticket);
        let _reset = closed.read_to_end(&mut Vec::new());
    }
    drop(front_end);
    let (_, ledger) = end(recorder);
    // Without a ticket it is nobody's: the first source counts that.
    let refused = ledger.sources.iter().map(|source| source[Entry::PacketsRefused]);
    assert!(refused.eq([1, 0, 1]));
}
