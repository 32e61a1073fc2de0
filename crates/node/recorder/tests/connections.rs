//! Sources that share connections: several on one, one on several, whole in the file whatever the
//! pieces in which their bytes come, and in the ledger whatever is cut off or malformed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::Arc;

use catchment_fixtures::wait_while;
use catchment_model::{Entry, Ledger};
use catchment_recorder::{Recorder, RecorderConfig, RunSummary, SourceConfig};
use catchment_storage::{Run, Verdict, audit};
use catchment_test_protocol::{TestStream, message, messages};
use catchment_wire::{Protocol as _, Transport, all_reasons};

use crate::support;

/// Sources with the ids 7, 8, .. that share one port, and behind them a source of hadtu.
fn config(folder: &Path, sources: u32) -> RecorderConfig {
    let mut config = support::config(folder, 1);
    let address = config.sources[0].address;
    let source = |number: u32| SourceConfig {
        protocol: Arc::new(TestStream),
        id: Some(7 + number),
        fragment_bytes_max: 3 << 20,
        ..SourceConfig::new(format!("t{number}"), address)
    };
    config.sources.splice(0..0, (0..sources).map(source));
    // Nothing is given up while a busy machine looks elsewhere.
    config.build.timeout_ns = 3_600_000_000_000;
    config
}

fn fragment(source: u32, number: u64) -> Vec<u8> {
    // Of one part, of several chunks, of a whole number of parts, and empty.
    let bytes = [10, 1_200_000, 131_072, 0, 65_537][(number + u64::from(source)) as usize % 5];
    (0..bytes).map(|byte| (byte as u64 / 3 + number + u64::from(source)) as u8).collect()
}

fn connect(recorder: &Recorder) -> TcpStream {
    TcpStream::connect(recorder.addresses()[0]).unwrap()
}

/// Waits until so many fragments of a source were received.
fn wait_for(recorder: &Recorder, source: usize, fragments: u64) {
    wait_while(|| recorder.snapshot().ledger.sources[source][Entry::FragmentsReceived] < fragments);
}

fn end(recorder: Recorder) -> (RunSummary, Ledger) {
    let summary = recorder.stop().unwrap();
    let ledger = summary.last.ledger.clone();
    assert!(ledger.balance().holds(), "{:?}", ledger.balance());
    (summary, ledger)
}

fn check_events(summary: &RunSummary, sources: u32, count: u64) {
    let run = Run::open(&summary.folder).unwrap();
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
    let events = support::fragments(&run);
    assert_eq!(events.keys().copied().collect::<Vec<u64>>(), (0..count).collect::<Vec<u64>>());
    for (number, of_sources) in events {
        for source in 0..sources {
            let is_it = of_sources[&source] == fragment(source, number);
            assert!(is_it, "event {number}, source {source}");
        }
    }
}

#[test]
fn several_sources_share_a_connection_beside_one_of_datagrams() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path(), 3)).unwrap();
    let addresses = recorder.addresses().to_vec();
    assert!(addresses[0] == addresses[1] && addresses[1] == addresses[2], "{addresses:?}");
    let datagrams = &support::senders(&recorder)[3];
    let mut stream = connect(&recorder);
    for number in 0..10 {
        let all: Vec<u8> =
            (0..3).flat_map(|id| message(7 + id as u16, number, &fragment(id, number))).collect();
        stream.write_all(&all).unwrap();
        let payload = [1; 100];
        let little = catchment_wire::hadtu::ByteOrder::Little;
        let packet = support::packet(0, little, &[(number as u32, &payload)]);
        datagrams.send(&packet).unwrap();
        wait_for(&recorder, 3, number + 1);
    }
    (0..3).for_each(|source| wait_for(&recorder, source, 10));
    let (summary, ledger) = end(recorder);
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    check_events(&summary, 3, 10);
    let run = Run::open(&summary.folder).unwrap();
    assert_eq!(run.sources()[0].protocol, "test-stream");
    assert_eq!(run.sources()[0].malformed_reasons.last().unwrap(), "cut_off");
}

#[test]
fn a_sender_is_answered_what_was_taken_also_after_its_last_message() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), 1);
    config.sources.truncate(1);
    let recorder = Recorder::start(config).unwrap();
    let mut stream = connect(&recorder);
    let mut sent = 0;
    for number in 0..20 {
        let messages = messages(7, number, &fragment(0, number));
        sent += messages.len() as u64;
        stream.write_all(&messages.concat()).unwrap();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answers = Vec::new();
    stream.read_to_end(&mut answers).unwrap();
    let (answers, rest) = answers.as_chunks::<8>();
    let answers: Vec<u64> = answers.iter().copied().map(u64::from_le_bytes).collect();
    assert!(rest.is_empty() && answers.is_sorted(), "{answers:?}, {rest:?}");
    assert_eq!(answers.last(), Some(&sent));
    let (summary, ledger) = end(recorder);
    assert_eq!(ledger.sources[0][Entry::PacketsAccepted], sent);
    check_events(&summary, 1, 20);
}

#[test]
fn bytes_that_come_one_by_one_are_the_same_fragments() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), 2);
    config.sources.truncate(2);
    let recorder = Recorder::start(config).unwrap();
    // A source may have a connection of its own as well.
    let mut streams = [connect(&recorder), connect(&recorder)];
    for number in 0..4_u64 {
        for (id, stream) in streams.iter_mut().enumerate() {
            stream.set_nodelay(true).unwrap();
            let bytes = message(7 + id as u16, number, &fragment(id as u32, number));
            let (begin, rest) = bytes.split_at(bytes.len().min(100));
            begin.iter().for_each(|byte| stream.write_all(&[*byte]).unwrap());
            stream.write_all(rest).unwrap();
        }
    }
    (0..2).for_each(|source| wait_for(&recorder, source, 4));
    let (summary, ledger) = end(recorder);
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    check_events(&summary, 2, 4);
}

#[test]
fn a_sender_that_is_faster_than_memory_waits_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), 2);
    config.sources.truncate(2);
    config.memory_bytes = 256 << 20;
    config.sources.iter_mut().for_each(|source| source.fragment_bytes_max = 3 << 20);
    let recorder = Recorder::start(config).unwrap();
    // The second source says nothing for so long that the first one's fragments, which wait for
    // it, take all memory that they may.
    let mut first = connect(&recorder);
    let count = 300;
    let writer = std::thread::spawn(move || {
        for number in 0..count {
            first.write_all(&message(7, number, &vec![number as u8; 1 << 20])).unwrap();
        }
        first
    });
    let received = || recorder.snapshot().ledger.sources[0][Entry::FragmentsReceived];
    let mut before = (received(), 0);
    wait_while(|| {
        // Held: the same number in many looks, and less than all.
        let now = received();
        before = if now > 0 && now == before.0 { (now, before.1 + 1) } else { (now, 0) };
        before.1 < 1_000 && now < count
    });
    assert!(received() < count, "all of it was taken at once");
    assert_eq!(recorder.snapshot().ledger.sources[0][Entry::FragmentsDiscardedMemory], 0);
    let mut second = connect(&recorder);
    for number in 0..count {
        second.write_all(&message(8, number, &[8; 10])).unwrap();
    }
    let _first = writer.join().unwrap();
    (0..2).for_each(|source| wait_for(&recorder, source, count));
    let (summary, ledger) = end(recorder);
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    let run = Run::open(&summary.folder).unwrap();
    let events = support::fragments(&run);
    assert_eq!(events.len() as u64, count);
    for (number, sources) in events {
        assert!(sources[&0] == vec![number as u8; 1 << 20] && sources[&1] == [8; 10], "{number}");
    }
}

#[test]
fn long_fragments_within_each_other_do_not_hold_their_connection_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), 4);
    config.sources.truncate(4);
    config.memory_bytes = 256 << 20;
    let recorder = Recorder::start(config).unwrap();
    let mut connection = connect(&recorder);
    // More than the source's share of memory, and nothing of it is ever whole.
    let long = vec![1; 3 << 20];
    for number in 0..12 {
        connection.write_all(&messages(7, number, &long)[0]).unwrap();
    }
    connection.write_all(&message(7, 100, &[7; 10])).unwrap();
    wait_for(&recorder, 0, 13);
    let (_, ledger) = end(recorder);
    assert_eq!(ledger.total()[Entry::FragmentsDiscardedUnfinished], 12);
    assert_eq!(ledger.total()[Entry::FragmentsRecorded], 1);
}

#[test]
fn what_is_cut_off_malformed_or_of_nobody_is_counted_and_harms_no_other_connection() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), 1);
    config.sources.truncate(1);
    let recorder = Recorder::start(config).unwrap();
    let mut good = connect(&recorder);
    good.write_all(&message(7, 0, &[1; 100])).unwrap();
    wait_for(&recorder, 0, 1);
    // Ends within a message.
    let mut cut = connect(&recorder);
    cut.write_all(&message(7, 1, &[2; 100])[..50]).unwrap();
    drop(cut);
    let malformed =
        |recorder: &Recorder| recorder.snapshot().ledger.total().balance().packets_malformed;
    wait_while(|| malformed(&recorder) < 1);
    // What is no message ends its connection; what was before it stays.
    let mut bad = connect(&recorder);
    bad.write_all(&message(7, 2, &[3; 100])).unwrap();
    bad.write_all(&[0xff; 64]).unwrap();
    let closed = bad.read(&mut [0; 1]);
    assert!(!matches!(closed, Ok(1)), "{closed:?}");
    wait_while(|| malformed(&recorder) < 2);
    // Of an id that nobody has, and longer than may be.
    good.write_all(&message(9, 1, &[4; 100])).unwrap();
    good.write_all(&message(7, 1, &[2; 100])).unwrap();
    wait_for(&recorder, 0, 4);
    good.write_all(&message(7, 3, &vec![5; (3 << 20) + 1])[..40]).unwrap();
    wait_while(|| malformed(&recorder) < 2);
    drop(good);
    wait_while(|| malformed(&recorder) < 3);
    let (summary, ledger) = end(recorder);
    let of = &ledger.sources[0];
    assert_eq!((of[Entry::FragmentsReceived], of[Entry::FragmentsRecorded]), (4, 3));
    assert_eq!(of[Entry::FragmentsUnknownSource], 1);
    assert_eq!((of[Entry::PacketsReceived], of[Entry::PacketsAccepted]), (7, 4));
    let run = Run::open(&summary.folder).unwrap();
    assert_eq!(support::fragments(&run).len(), 3);
}

#[test]
fn a_run_that_ends_while_a_connection_is_held_or_within_a_message_counts_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), 2);
    config.sources.truncate(2);
    let recorder = Recorder::start(config).unwrap();
    let mut first = connect(&recorder);
    let count = 300;
    // Nothing of the second source comes, so that the first one is held.
    let writer = std::thread::spawn(move || {
        let mut fragments = (0..count).map(|number| message(7, number, &vec![1; 1 << 20]));
        // It ends when the recorder closes the connection.
        while fragments.next().is_some_and(|bytes| first.write_all(&bytes).is_ok()) {}
    });
    let mut second = connect(&recorder);
    second.write_all(&message(8, 0, &[2; 100])[..50]).unwrap();
    wait_for(&recorder, 0, 10);
    let (_, ledger) = end(recorder);
    writer.join().unwrap();
    let [first, second] = [&ledger.sources[0], &ledger.sources[1]];
    assert!(first[Entry::FragmentsReceived] < count, "all of it was taken");
    // Half of a message is cut off, and counted for the first source of the port.
    let cut_off = all_reasons(TestStream.reasons(), Transport::Connections).count() - 1;
    assert!((1..=2).contains(&first.reasons[cut_off]), "{:?}", first.reasons);
    assert_eq!(second[Entry::FragmentsReceived], 0);
    assert!(ledger.balance().lost_data());
}

#[test]
fn sources_that_share_a_port_have_one_protocol_the_same_senders_and_other_ids() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut SourceConfig)| {
        let mut config = config(folder.path(), 2);
        change(&mut config.sources[1]);
        config.check().unwrap_err().to_string()
    };
    assert_eq!(config(folder.path(), 2).check(), Ok(()));
    let id = refused(&|source| source.id = Some(7));
    assert!(id.starts_with("sources[1].id: expected an id other than that of t0"), "{id}");
    let none = refused(&|source| source.id = None);
    assert!(none.starts_with("sources[1].id: expected a number"), "{none}");
    let from = refused(&|source| source.from = vec!["10.0.0.0/8".parse().unwrap()]);
    assert!(from.starts_with("sources[1].from: expected the networks of t0"), "{from}");
}

#[test]
fn a_connection_from_elsewhere_is_closed_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), 1);
    config.sources.truncate(1);
    config.sources[0].address = "[::]:0".parse().unwrap();
    config.sources[0].from = vec!["10.0.0.0/8".parse().unwrap()];
    let recorder = Recorder::start(config).unwrap();
    let port = recorder.addresses()[0].port();
    let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let closed = stranger.read(&mut [0; 1]);
    assert!(!matches!(closed, Ok(1)), "{closed:?}");
    wait_while(|| recorder.snapshot().ledger.sources[0][Entry::PacketsRefused] == 0);
    let (_, ledger) = end(recorder);
    assert_eq!(ledger.sources[0][Entry::PacketsReceived], 0);
}

#[test]
fn a_source_that_dies_holds_the_others_for_a_time_out_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), 2);
    config.sources.truncate(2);
    config.build.timeout_ns = 1_000_000_000;
    config.build.reorder_events = 8;
    let recorder = Recorder::start(config).unwrap();
    let [mut first, mut second] = [connect(&recorder), connect(&recorder)];
    for number in 0..3 {
        second.write_all(&message(8, number, &[8; 10])).unwrap();
    }
    let count = 300;
    for number in 0..count {
        // Blocks while the connection is held.
        first.write_all(&message(7, number, &vec![number as u8; 1 << 20])).unwrap();
    }
    wait_for(&recorder, 0, count);
    let (summary, ledger) = end(recorder);
    assert_eq!(ledger.sources[0][Entry::FragmentsRecorded], count);
    assert_eq!(ledger.sources[1][Entry::FragmentsMissing], count - 3);
    assert_eq!(support::fragments(&Run::open(&summary.folder).unwrap()).len() as u64, count);
}
