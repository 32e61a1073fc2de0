//! Sources that may send from some addresses only: what comes from elsewhere is no part of the run,
//! and no loss of theirs.

use std::net::UdpSocket;

use crate::support;
use catchment_fixtures::wait_while;
use catchment_model::Entry;
use catchment_recorder::Recorder;
use catchment_storage::{Run, Verdict, audit};
use catchment_wire::hadtu::ByteOrder;
use support::links::{FIRST, Sender, channels};
use support::{config, fragments, packet, senders};

/// Sends these from an address of this machine.
fn send_from(from: &str, recorder: &Recorder, source: usize, packets: &[Vec<u8>]) {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    for packet in packets {
        socket.send_to(packet, recorder.addresses()[source]).unwrap();
    }
}

fn packets(source: u32, events: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    events.map(|event| packet(source, ByteOrder::Big, &[(event, &[1, 2, 3])])).collect()
}

#[test]
fn packets_from_elsewhere_are_refused_before_they_are_parsed_and_the_books_balance() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), 2);
    config.sources[0].from = vec!["127.0.0.2".parse().unwrap(), "10.0.0.0/8".parse().unwrap()];
    let recorder = Recorder::start(config).unwrap();
    send_from("127.0.0.2", &recorder, 0, &packets(0, 1..11));
    // The unrestricted source hears everybody.
    let open = &senders(&recorder)[1];
    packets(1, 1..11).iter().for_each(|packet| assert!(open.send(packet).is_ok()));
    // Events that never were, and what is no packet at all.
    let forged = packets(0, 5..25);
    send_from("127.0.0.3", &recorder, 0, &forged);
    send_from("127.0.0.4", &recorder, 0, &[b"no packet".to_vec()]);
    let count = |entry| recorder.snapshot().ledger.sources[0][entry];
    wait_while(|| count(Entry::PacketsAccepted) < 10 || count(Entry::PacketsRefused) < 21);
    let summary = recorder.stop().unwrap();
    let ledger = &summary.last.ledger;
    let restricted = &ledger.sources[0];
    assert_eq!((restricted[Entry::PacketsReceived], restricted[Entry::PacketsAccepted]), (10, 10));
    let bytes = forged.iter().map(Vec::len).sum::<usize>() as u64 + 9;
    let refused = [Entry::PacketsRefused, Entry::PacketBytesRefused].map(|entry| restricted[entry]);
    assert_eq!(refused, [21, bytes]);
    assert_eq!(ledger.sources[1][Entry::PacketsRefused], 0);
    let balance = ledger.balance();
    assert!(balance.holds() && !balance.lost_data(), "{balance:?}");
    let run = Run::open(&summary.folder).unwrap();
    let events = fragments(&run);
    assert_eq!(events.keys().copied().collect::<Vec<_>>(), (1..11).collect::<Vec<_>>());
    assert!(events.values().all(|event| event.len() == 2));
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
    // One sentence, however many packets; the first to send is named for sure.
    let warnings: Vec<_> =
        summary.last.warnings.iter().filter(|text| text.contains("refused")).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("source s0: 21 packets from 127.0.0.3"), "{warnings:?}");
}

#[test]
fn a_link_is_as_restricted_as_a_source() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = support::links::config(folder.path());
    config.links[0].from = vec!["127.0.0.2".parse().unwrap()];
    let recorder = Recorder::start(config).unwrap();
    let mut sender = Sender::new(&recorder, 0, channels());
    let all: Vec<_> = (FIRST..FIRST + 4).map(|slice| sender.packet(slice, &[0, 1, 2, 3])).collect();
    send_from("127.0.0.2", &recorder, 0, &all);
    send_from("127.0.0.1", &recorder, 0, &all);
    let count = |entry| recorder.snapshot().ledger.sources[0][entry];
    wait_while(|| count(Entry::PacketsAccepted) < 4 || count(Entry::PacketsRefused) < 4);
    let summary = recorder.stop().unwrap();
    let link = &summary.last.ledger.sources[0];
    assert_eq!(link[Entry::FragmentsRecorded], 16);
    assert_eq!((link[Entry::FragmentsDuplicate], link[Entry::FragmentsTimeRepeated]), (0, 0));
    assert!(link.balance().holds() && !link.balance().lost_data());
    assert!(summary.last.warnings.iter().any(|text| text.starts_with("source link: 4 packets")));
}
