//! Messages of front-ends that are taken while they come, fragment by fragment.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use catchment_model::{Entry, Ledger};
use catchment_recorder::{Recorder, RecorderConfig, SourceConfig};
use catchment_storage::Run;
use catchment_wire::event_link::EventLink;

use crate::support;
use crate::support::front_end::{FrontEnd, Opening, fragments, parts};

/// Bytes of fragments: some that are long, and some that are longer than a chunk of memory.
const LENGTHS: [usize; 8] = [100_000, 0, 333, 700_000, 65_536, 65_535, 0, 90_001];

/// The sources `camera` and `trigger`.
fn config(folder: &Path) -> RecorderConfig {
    let mut config = support::config(folder, 1);
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let source = |name: &str| SourceConfig {
        protocol: Arc::new(EventLink::SESSIONS),
        fragment_bytes_max: 1 << 20,
        ..SourceConfig::new(name.to_owned(), address)
    };
    config.sources = vec![source("camera"), source("trigger")];
    // Nothing is given up while a busy machine looks elsewhere.
    config.build.timeout_ns = 3_600_000_000_000;
    config
}

/// The front-end of a source, which holds items of these positions.
fn connect(recorder: &Recorder, name: &str, (first, made): (u64, u64)) -> FrontEnd {
    let logs = [("", first, made)];
    let opening = Opening::of(name, 7, &logs);
    let mut front_end = FrontEnd::connect(recorder.addresses()[0], &opening);
    front_end.attach(recorder.addresses()[0]);
    front_end
}

/// Cheap to make: a front-end that is busy for long on a loaded machine is taken for silent.
fn payload(key: u64) -> Vec<u8> {
    let mut payload = vec![key as u8; LENGTHS[key as usize % LENGTHS.len()]];
    for (index, byte) in payload.iter_mut().step_by(997).enumerate() {
        *byte = index as u8;
    }
    payload
}

/// One message of the fragments of these keys, whose sequences they are.
fn message(number: u32, keys: std::ops::Range<u64>) -> Vec<u8> {
    let first = keys.start;
    let all: Vec<_> = keys.map(|key| (key, payload(key))).collect();
    let items: Vec<_> = all.iter().map(|(key, bytes)| (*key, &bytes[..])).collect();
    fragments(number, 0, first, &items)
}

/// Sends the short fragments of these keys of the other source.
fn trigger(recorder: &Recorder, keys: &[u64]) {
    let mut front_end = connect(recorder, "trigger", (0, 0));
    for (sequence, &key) in (0..).zip(keys) {
        front_end.send(0, sequence, &[(key, &[key as u8])]);
    }
    front_end.ping_until(|one| one.taken(0) == keys.len() as u64);
}

/// Records the events of these keys to the end; the file has them, and nothing else.
fn end(recorder: Recorder, keys: &[u64]) -> Ledger {
    trigger(&recorder, keys);
    let summary = recorder.stop().unwrap();
    let ledger = summary.last.ledger.clone();
    assert!(ledger.balance().holds(), "{:?}", ledger.balance());
    let events = support::fragments(&Run::open(&summary.folder).unwrap());
    assert!(events.keys().eq(keys), "{:?}", events.keys());
    for (key, of_sources) in events {
        assert!(of_sources[&0] == payload(key), "event {key}");
        assert_eq!(of_sources[&1], [key as u8]);
    }
    ledger
}

/// As [`end`], of events of which nothing is lost.
fn end_whole(recorder: Recorder, count: u64) -> Ledger {
    let ledger = end(recorder, &(0..count).collect::<Vec<_>>());
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    ledger
}

#[test]
fn fragments_of_a_long_message_are_taken_before_its_end_and_none_twice() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut front_end = connect(&recorder, "camera", (0, 16));
    let bytes = message(front_end.next_message(), 0..16);
    // Up to within the long fragment of key 3, and then up to within that of key 11.
    let body_at = bytes.len() - padded(0..16);
    let at = |key: u64| body_at + (0..key).map(|key| payload(key).len()).sum::<usize>();
    let mut sent = 0;
    for (end, taken) in [(at(3) + 350_000, 3), (at(11) + 1, 11)] {
        front_end.send_bytes(&bytes[sent..end]);
        sent = end;
        front_end.ping_until(|one| one.taken(0) == taken);
    }
    drop(front_end);
    let mut front_end = connect(&recorder, "camera", (0, 16));
    assert_eq!(front_end.grants[0].next, 11);
    // It sends what it need not send, too.
    let bytes = message(front_end.next_message(), 8..16);
    front_end.send_bytes(&bytes);
    front_end.ping_until(|one| one.taken(0) == 16);
    let ledger = end_whole(recorder, 16);
    let camera = &ledger.sources[0];
    assert_eq!((camera[Entry::FragmentsRepeated], camera[Entry::LinkResumes]), (3, 1));
    assert_eq!((camera[Entry::FragmentsReceived], camera[Entry::PacketsAccepted]), (16, 1));
}

/// Bytes of the payload of these keys, with the padding behind it.
fn padded(keys: std::ops::Range<u64>) -> usize {
    keys.map(|key| payload(key).len()).sum::<usize>().next_multiple_of(8)
}

#[test]
fn a_long_message_may_come_in_pieces_of_any_size() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut front_end = connect(&recorder, "camera", (0, 0));
    let first = front_end.next_message();
    // One message, a fragment in parts, of which each is long, and another message.
    let all = [
        message(first, 0..8),
        parts(first + 1, 0, 8, 8, &payload(8), 70_000),
        message(first + 3, 9..16),
    ];
    let ends = all.iter().scan(0, |end, bytes| {
        *end += bytes.len();
        Some(*end)
    });
    let borders: Vec<usize> = std::iter::once(0).chain(ends).collect();
    let bytes = all.concat();
    let mut sent = 0;
    while sent < bytes.len() {
        // One by one around the borders of messages.
        let is_near = borders.iter().any(|border| border.abs_diff(sent) < 250);
        let next = borders.iter().find(|border| **border > sent + 250);
        let end = next.map_or(bytes.len(), |border| border - 250).min(sent + 50_000);
        let end = if is_near { sent + 1 } else { end };
        front_end.send_bytes(&bytes[sent..end]);
        sent = end;
    }
    front_end.ping_until(|one| one.taken(0) == 16);
    let ledger = end_whole(recorder, 16);
    assert_eq!(ledger.sources[0][Entry::PacketsAccepted], 4);
}

#[test]
fn content_faults_within_a_long_message_cost_their_fragments_alone() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut front_end = connect(&recorder, "camera", (0, 0));
    let too_long = vec![1; (1 << 20) + 1];
    let other = vec![2; 80_000];
    let [zero, two, three] = [0, 2, 3].map(payload);
    front_end.send(0, 0, &[(0, &zero), (0, &other), (1, &too_long), (2, &two)]);
    front_end.send(0, 4, &[(2, &other), (3, &three)]);
    front_end.ping_until(|one| one.taken(0) == 6);
    let ledger = end(recorder, &[0, 2, 3]);
    let camera = &ledger.sources[0];
    assert_eq!(camera[Entry::FragmentsDiscardedOrder], 2);
    assert_eq!(camera[Entry::FragmentsDiscardedTooLong], 1);
    assert_eq!((camera[Entry::FragmentsReceived], camera[Entry::FragmentsRecorded]), (6, 3));
}

#[test]
fn a_fault_of_framing_in_a_long_message_is_found_before_anything_of_it_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let mut front_end = connect(&recorder, "camera", (0, 0));
    // The records say another sum than the body has.
    let mut bytes = message(front_end.next_message(), 0..8);
    bytes[16 + 24 + 8] ^= 1;
    front_end.send_bytes(&bytes[..200_000]);
    let (_, text) = front_end.read_bye();
    assert!(text.contains("body"), "{text}");
    let mut front_end = connect(&recorder, "camera", (0, 8));
    assert_eq!(front_end.grants[0].next, 0);
    let bytes = message(front_end.next_message(), 0..8);
    front_end.send_bytes(&bytes);
    front_end.ping_until(|one| one.taken(0) == 8);
    end_whole(recorder, 8);
}

#[test]
fn memory_of_fragments_whose_connection_broke_is_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.memory_bytes = config.memory_bytes_min();
    let recorder = Recorder::start(config).unwrap();
    // Many times more than there is: within a fragment of a chunk, and within a longer one.
    for round in 0..60 {
        let mut front_end = connect(&recorder, "camera", (0, 16));
        let (key, until) = if round % 2 == 0 { (0, 60_000) } else { (3, 600_000) };
        let bytes = fragments(front_end.next_message(), 0, 0, &[(key, &payload(key))]);
        front_end.send_bytes(&bytes[..until]);
        front_end.ping_until(|one| one.data_read == 16 + 56 + until as u64);
        assert_eq!(front_end.taken(0), 0);
    }
    let mut front_end = connect(&recorder, "camera", (0, 16));
    assert_eq!(front_end.grants[0].next, 0);
    let bytes = message(front_end.next_message(), 0..2);
    front_end.send_bytes(&bytes);
    front_end.ping_until(|one| one.taken(0) == 2);
    let ledger = end_whole(recorder, 2);
    assert_eq!(ledger.sources[0][Entry::LinkResumes], 60);
}

#[test]
fn a_long_message_is_held_in_its_middle_while_there_is_no_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.memory_bytes = config.memory_bytes_min();
    let recorder = Recorder::start(config).unwrap();
    let mut front_end = connect(&recorder, "camera", (0, u64::from(u32::MAX)));
    // One source has more than it may have while the other one is waited for.
    let mut made = 0;
    let mut left = Vec::new();
    // A slow machine may be found not to read before it has taken any, or between two messages.
    while !(front_end.is_unread && (1..made).contains(&front_end.taken(0))) {
        if left.is_empty() {
            left = message(front_end.next_message() + made as u32 / 8, made..made + 8);
            made += 8;
        }
        let count = front_end.try_send_bytes(&left);
        left.drain(..count);
        front_end.ping();
    }
    drop(front_end);
    let mut front_end = connect(&recorder, "camera", (0, made));
    let next = front_end.grants[0].next;
    assert!(next < made, "{next} of {made}");
    let bytes = message(front_end.next_message(), next..made);
    let writer = std::thread::spawn(move || {
        front_end.send_bytes(&bytes);
        front_end.ping_until(|one| one.taken(0) == made);
        front_end
    });
    // It is read on as the events that wait in memory become whole.
    trigger(&recorder, &(0..made).collect::<Vec<_>>());
    let _front_end = writer.join().unwrap();
    let summary = recorder.stop().unwrap();
    let balance = summary.last.ledger.balance();
    assert!(balance.holds() && !balance.lost_data(), "{balance:?}");
    let events = support::fragments(&Run::open(&summary.folder).unwrap());
    assert_eq!(events.len() as u64, made);
    assert!(events.iter().all(|(key, of_sources)| of_sources[&0] == payload(*key)));
}
