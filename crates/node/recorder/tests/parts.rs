//! Sources of another protocol than `hadtu`, whose fragments go on over many packets: whole in the
//! file whatever the order of the packets, and in the ledger whatever is missing.

use crate::support;
use std::net::UdpSocket;
use std::sync::Arc;

use catchment_fixtures::wait_while;
use catchment_frame::ColumnCoding;
use catchment_model::{Entry, Ledger, SourceLedger};
use catchment_recorder::{Recorder, RecorderConfig, RunSummary, SourceConfig};
use catchment_storage::{Run, Verdict, audit};
use catchment_test_protocol::{HEADER_BYTES, TestProtocol, packet, packets};
use catchment_wire::{Protocol, Transport, all_reasons};

/// Bytes of a part in a large datagram.
const PART_BYTES: usize = 60_000;

fn config(folder: &std::path::Path) -> RecorderConfig {
    let mut config = support::config(folder, 2);
    // What is unfinished is given up at the end, and not while a busy machine looks elsewhere.
    config.build.timeout_ns = 3_600_000_000_000;
    let address = config.sources[0].address;
    config.sources.insert(
        0,
        SourceConfig {
            protocol: Arc::new(TestProtocol),
            fragment_bytes_max: 3 << 20,
            ..SourceConfig::new("test", address)
        },
    );
    config
}

fn fragment(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|byte| (byte as u64 / 3 + number) as u8).collect()
}

/// Sends them one by one, each when the one before was taken, so that the kernel drops none.
fn send(recorder: &Recorder, socket: &UdpSocket, source: usize, datagrams: &[Vec<u8>]) {
    for datagram in datagrams {
        let taken = |recorder: &Recorder| {
            recorder.snapshot().ledger.sources[source][Entry::PacketsReceived]
        };
        let before = taken(recorder);
        socket.send(datagram).unwrap();
        wait_while(|| taken(recorder) == before);
    }
}

fn end(recorder: Recorder) -> (RunSummary, Ledger) {
    let summary = recorder.stop().unwrap();
    let ledger = summary.last.ledger.clone();
    assert!(ledger.balance().holds(), "{:?}", ledger.balance());
    (summary, ledger)
}

/// The malformed packets by reason; they add up to those by kind.
fn reasons(ledger: &SourceLedger) -> Vec<(&'static str, u64)> {
    let names = all_reasons(TestProtocol.reasons(), Transport::Datagrams).map(|reason| reason.name);
    let reasons = names.zip(ledger.reasons).filter(|(_, count)| *count > 0).collect::<Vec<_>>();
    let total: u64 = reasons.iter().map(|(_, count)| count).sum();
    assert_eq!(total, ledger.balance().packets_malformed);
    reasons
}

#[test]
fn fragments_of_many_packets_are_built_with_those_of_other_protocols() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path())).unwrap();
    let sockets = support::senders(&recorder);
    let mut sequence = 0;
    for number in 0..8_u64 {
        // Less than a packet, several chunks, and a whole number of chunks.
        let bytes = [10, 1_200_000, 2 << 20, 0][number as usize % 4];
        let mut datagrams = packets(number, &fragment(number, bytes), PART_BYTES, sequence);
        sequence += datagrams.len() as u64;
        if number % 2 == 1 {
            datagrams.reverse();
        }
        send(&recorder, &sockets[0], 0, &datagrams);
        for source in 1..3_u32 {
            let payload = vec![source as u8; 100];
            let little = catchment_wire::hadtu::ByteOrder::Little;
            let packet = support::packet(source - 1, little, &[(number as u32, &payload)]);
            send(&recorder, &sockets[source as usize], source as usize, &[packet]);
        }
    }
    let (summary, ledger) = end(recorder);
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    assert_eq!(ledger.sources[0][Entry::PacketsReceived], sequence);
    let run = Run::open(&summary.folder).unwrap();
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
    let events = support::fragments(&run);
    assert_eq!(events.keys().copied().collect::<Vec<u64>>(), (0..8).collect::<Vec<u64>>());
    for (number, sources) in events {
        let bytes = [10, 1_200_000, 2 << 20, 0][number as usize % 4];
        assert!(sources[&0] == fragment(number, bytes), "event {number}");
        assert_eq!((sources[&1].len(), sources[&2].len()), (116, 116), "event {number}");
    }
    let source = &run.sources()[0];
    assert_eq!(source.protocol, "test");
    let expected =
        ["short", "magic", "sum", "part", "fragment_too_long", "fragment_length_changed"];
    assert_eq!(source.malformed_reasons, expected);
}

#[test]
fn a_fragment_larger_than_the_memory_for_encoding_is_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.sources.truncate(1);
    config.frame.codings = "lz4".parse::<ColumnCoding>().unwrap().into();
    (config.encode.bytes, config.encode.threads) = (1 << 20, 2);
    let recorder = Recorder::start(config).unwrap();
    let sockets = support::senders(&recorder);
    let mut sequence = 0;
    for number in 0..4 {
        let datagrams = packets(number, &fragment(number, 3 << 20), PART_BYTES, sequence);
        sequence += datagrams.len() as u64;
        send(&recorder, &sockets[0], 0, &datagrams);
    }
    let (summary, ledger) = end(recorder);
    assert!(!ledger.balance().lost_data(), "{:?}", ledger.balance());
    assert_eq!(ledger.total()[Entry::BytesCompressionLowered], 0);
    let run = Run::open(&summary.folder).unwrap();
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
    for (number, sources) in support::fragments(&run) {
        assert!(sources[&0] == fragment(number, 3 << 20), "event {number}");
    }
    let files = std::fs::read_dir(&summary.folder).unwrap().map(|file| file.unwrap());
    let bytes: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes < 8 << 20, "{bytes} of 12 MiB stored");
}

#[test]
fn what_is_missing_repeated_or_impossible_is_in_the_ledger_and_harms_no_other_fragment() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.sources.truncate(1);
    let recorder = Recorder::start(config).unwrap();
    let sockets = support::senders(&recorder);
    let send = |datagrams: &[Vec<u8>]| send(&recorder, &sockets[0], 0, datagrams);
    let parts =
        |number, sequence| packets(number, &fragment(number, 200_000), PART_BYTES, sequence);
    send(&parts(0, 0));
    // Its third packet never comes.
    let mut lacking = parts(1, 4);
    lacking.remove(2);
    send(&lacking);
    // All of its packets twice.
    let twice = parts(2, 8);
    send(&twice);
    send(&twice);
    // Longer than may be; another length than before; cut short; damaged.
    send(&[packet(12, 3, 4 << 20, (0, &[0; 100]))]);
    let third = parts(3, 13);
    send(&third[..2]);
    send(&[packet(17, 3, 200_001, (180_000, &[0; 100]))]);
    send(&third[2..]);
    send(&[third[0][..HEADER_BYTES - 1].to_vec()]);
    let mut damaged = third[1].clone();
    damaged[100] ^= 1;
    send(&[damaged]);
    send(&parts(4, 18));
    let (summary, ledger) = end(recorder);
    let of = &ledger.sources[0];
    assert_eq!(of[Entry::FragmentsReceived], 5);
    assert_eq!((of[Entry::FragmentsRecorded], of[Entry::FragmentsDiscardedUnfinished]), (4, 1));
    assert_eq!(of[Entry::FragmentPartsRepeated], 4);
    // One packet was not sent; those that were refused have no number.
    assert_eq!(of[Entry::PacketsMissing], 3);
    let expected =
        [("short", 1), ("sum", 1), ("fragment_too_long", 1), ("fragment_length_changed", 1)];
    assert_eq!(reasons(of), expected);
    let run = Run::open(&summary.folder).unwrap();
    let report = audit(&run).unwrap();
    assert_eq!(report.verdict, Verdict::DataLost, "{report:?}");
    // The file says the same.
    let stored = run.recorded_ledger().unwrap().unwrap();
    assert_eq!(stored.sources[0].reasons, of.reasons);
    let events = support::fragments(&run);
    for number in [0, 2, 3, 4] {
        assert!(events[&number][&0] == fragment(number, 200_000), "event {number}");
    }
}

#[test]
fn a_number_that_comes_anew_in_new_packets_is_no_packet_that_came_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.sources.truncate(1);
    let recorder = Recorder::start(config).unwrap();
    let sockets = support::senders(&recorder);
    let parts =
        |number, sequence| packets(number, &fragment(number, 100_000), PART_BYTES, sequence);
    for (sequence, number) in (0..).step_by(2).zip([7, 8, 9, 8, 10]) {
        send(&recorder, &sockets[0], 0, &parts(number, sequence));
    }
    let (_, ledger) = end(recorder);
    let of = &ledger.sources[0];
    assert_eq!((of[Entry::FragmentsReceived], of[Entry::FragmentsRecorded]), (5, 4));
    assert_eq!((of[Entry::FragmentPartsRepeated], of[Entry::FragmentsTimeRepeated]), (0, 1));
}

#[test]
fn events_that_are_too_large_are_discarded_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.sources.truncate(1);
    let address = config.sources[0].address;
    config.sources.push(SourceConfig { name: "other".into(), ..config.sources[0].clone() });
    config.sources[1].address = address;
    config.build.event_bytes_max = Some(1_000_000);
    let recorder = Recorder::start(config).unwrap();
    let sockets = support::senders(&recorder);
    let mut sequence = 0;
    for number in 0..6_u64 {
        // The fourth event holds too much; the fifth one has a fragment that does alone.
        let bytes = [400_000, 100_000, 500_000, 500_001, 400_000, 400_000][number as usize];
        for (source, socket) in sockets.iter().enumerate() {
            let bytes = if (number, source) == (4, 0) { 1_000_001 } else { bytes };
            let datagrams = packets(number, &fragment(number, bytes), PART_BYTES, sequence);
            send(&recorder, socket, source, &datagrams);
        }
        sequence += 20;
    }
    let (summary, ledger) = end(recorder);
    for source in &ledger.sources {
        assert_eq!(source[Entry::FragmentsDiscardedTooLarge], 1, "{source:?}");
    }
    assert_eq!(ledger.sources[0][Entry::FragmentsRecorded], 4);
    assert_eq!(ledger.sources[1][Entry::FragmentsRecorded], 5);
    assert_eq!(reasons(&ledger.sources[0]), [("fragment_too_long", 17)]);
    let warnings = summary.last.warnings.concat();
    assert!(
        warnings.contains("event 3 has 1.00 MB, more than build.event_bytes_max"),
        "{warnings}"
    );
    let run = Run::open(&summary.folder).unwrap();
    assert_eq!(support::fragments(&run).into_keys().collect::<Vec<_>>(), [0, 1, 2, 4, 5]);
    assert_eq!(audit(&run).unwrap().verdict, Verdict::DataLost);
}

#[test]
fn memory_that_cannot_hold_two_of_the_largest_events_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    config.sources.truncate(1);
    assert_eq!(config.check(), Ok(()));
    config.sources[0].fragment_bytes_max = 128 << 20;
    // The limit of events holds for fragments, too.
    assert_eq!(config.check(), Ok(()));
    assert!(config.lowered().concat().contains("fragments add up to 134 MB"));
    config.build.event_bytes_max = Some(128 << 20);
    let refused = config.check().unwrap_err();
    assert_eq!(refused.key, "memory.budget", "{refused}");
    config.sources[0].fragment_bytes_max = 1_921 << 20;
    let refused = config.check().unwrap_err();
    assert_eq!(refused.key, "sources[0].fragment_bytes_max", "{refused}");
}
