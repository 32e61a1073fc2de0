//! Sources that may send from some addresses only: what comes from elsewhere is no part of the run,
//! and no loss of theirs. Nor is what a stranger sends to a port that hears everybody.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use crate::support;
use catchment_fixtures::wait_while;
use catchment_model::Entry;
use catchment_recorder::{Recorder, SourceConfig};
use catchment_storage::{Run, Verdict, audit};
use catchment_test_protocol::{self as test_protocol, TestProtocol};
use catchment_wire::hadtu::ByteOrder;
use support::links::{FIRST, Sender, channels};
use support::stepped::Stepped;
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

/// A source's socket, and where it sends from.
fn own(recorder: &Recorder, source: usize) -> (UdpSocket, SocketAddr) {
    let socket = senders(recorder).swap_remove(source);
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[test]
fn fragments_with_another_id_from_elsewhere_are_a_strangers_and_it_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), 2);
    config.build.timeout_ns = 60_000_000_000;
    let recorder = Recorder::start(config).unwrap();
    let [(first, _), (second, _)] = [0, 1].map(|source| own(&recorder, source));
    let (stranger, address) = own(&recorder, 0);
    let count = |entry| recorder.snapshot().ledger.sources[0][entry];
    packets(1, 1..11).iter().for_each(|packet| assert!(second.send(packet).is_ok()));
    for (index, packet) in packets(0, 1..11).iter().enumerate() {
        first.send(packet).unwrap();
        wait_while(|| count(Entry::FragmentsReceived) < 2 * index as u64 + 1);
        // It is source 1's, and it was given the wrong port.
        stranger.send(&packets(1, 1..2)[0]).unwrap();
        wait_while(|| count(Entry::FragmentsReceived) < 2 * index as u64 + 2);
    }
    let summary = recorder.stop().unwrap();
    let source = &summary.last.ledger.sources[0];
    assert_eq!((source[Entry::FragmentsForeign], source[Entry::FragmentsUnknownSource]), (10, 0));
    let balance = summary.last.ledger.balance();
    assert!(balance.holds() && !balance.lost_data(), "{balance:?}");
    let words = summary.last.strangers[&0].words("s0");
    let expected =
        format!("packets from {address} do not belong to s0: their id is 0x8001, not 0x8000");
    assert_eq!(words, expected);
    assert!(summary.last.warnings.contains(&format!("{expected} (10 fragments)")));
    assert_eq!(audit(&Run::open(&summary.folder).unwrap()).unwrap().verdict, Verdict::Balanced);
}

#[test]
fn numbers_of_a_stranger_are_no_loss_whether_it_came_before_the_source_or_after() {
    for stranger_first in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path(), 3);
        // However slow the machine is: neither of the two is taken for gone.
        config.build.timeout_ns = 60_000_000_000;
        let recorder = Recorder::start(config).unwrap();
        let sockets = senders(&recorder);
        let (stranger, address) = own(&recorder, 0);
        let received =
            |source: usize| recorder.snapshot().ledger.sources[source][Entry::FragmentsReceived];
        let mut expected = 0;
        let mut send = |socket: &UdpSocket, number: u32| {
            socket.send(&packets(0, number..number + 1)[0]).unwrap();
            expected += 1;
            wait_while(|| received(0) < expected);
        };
        for number in 1..200 {
            if stranger_first {
                send(&stranger, 50_000_000 + number);
            }
            send(&sockets[0], number);
            if !stranger_first {
                send(&stranger, 50_000_000 + number);
            }
            for (source, socket) in sockets.iter().enumerate().skip(1) {
                let packet = &packets(source as u32, number..number + 1)[0];
                socket.send(packet).unwrap();
                wait_while(|| received(source) < u64::from(number));
            }
        }
        let summary = recorder.stop().unwrap();
        let source = &summary.last.ledger.sources[0];
        assert_eq!(source[Entry::FragmentsRecorded], 199, "{source:?}");
        assert_eq!(source[Entry::FragmentsForeign], 199, "{source:?}");
        let balance = summary.last.ledger.balance();
        assert!(balance.holds() && !balance.lost_data(), "{balance:?}");
        let words = summary.last.strangers[&0].words("s0");
        assert_eq!(words, format!("packets from {address} do not belong to s0"));
    }
}

#[test]
fn a_source_that_itself_sends_another_id_is_a_loss() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(folder.path(), 1)).unwrap();
    let (socket, _) = own(&recorder, 0);
    packets(1, 1..11).iter().for_each(|packet| assert!(socket.send(packet).is_ok()));
    wait_while(|| recorder.snapshot().ledger.total()[Entry::FragmentsReceived] < 10);
    let summary = recorder.stop().unwrap();
    let total = summary.last.ledger.total();
    assert_eq!((total[Entry::FragmentsUnknownSource], total[Entry::FragmentsForeign]), (10, 0));
    assert!(summary.last.ledger.balance().lost_data() && summary.last.strangers.is_empty());
}

fn host(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], 5_000))
}

/// A packet of one event, as a source of that number sends it.
fn event(source: u32, number: u32) -> Vec<u8> {
    packets(source, number..number + 1).remove(0)
}

/// A recorder of three sources, of which two send an event each millisecond.
struct Three {
    run: Stepped,
    next: u32,
}

impl Three {
    fn begin() -> Self {
        Self { run: Stepped::begin(&config("".as_ref(), 3)), next: 1 }
    }

    /// The next event of two sources, and what source 0's port gets of it.
    fn step(&mut self, port: impl FnOnce(&mut Stepped, u32)) {
        port(&mut self.run, self.next);
        for source in 1..3 {
            self.run.send_from(host(source as u8), source, event(source as u32, self.next));
        }
        self.next += 1;
        self.run.pass(1);
    }
}

#[test]
fn a_source_that_begins_anew_from_another_address_is_no_stranger_and_loses_from_its_first_packet() {
    // Numbers that come to those of the others, and such that never do.
    for (begin, recorded, late, out_of_range) in [(1, 4_000, 0, 499), (50_000_000, 500, 0, 4_000)] {
        let mut three = Three::begin();
        let (before, after) = (host(10), host(11));
        (0..500).for_each(|_| three.step(|run, next| run.send_from(before, 0, event(0, next))));
        for number in begin..begin + 4_000 {
            three.step(|run, _| run.send_from(after, 0, event(0, number)));
            if number == begin + 3_000 {
                let during = three.run.snapshot();
                assert!(during.strangers.is_empty(), "{:?}", during.strangers);
            }
        }
        let last = three.run.end();
        let source = &last.ledger.sources[0];
        assert_eq!(source[Entry::FragmentsForeign], 0, "{source:?}");
        let counts = [Entry::FragmentsRecorded, Entry::FragmentsLate, Entry::FragmentsOutOfRange];
        let expected = [recorded, late, out_of_range];
        assert_eq!(counts.map(|entry| source[entry]), expected, "{begin}: {source:?}");
        let named = |text: &&String| text.contains("do not belong");
        assert_eq!(last.warnings.iter().find(named), None);
    }
}

#[test]
fn a_source_that_goes_on_from_another_address_loses_nothing_and_is_no_stranger() {
    let mut three = Three::begin();
    for index in 0..4_000 {
        let sender = host(if index < 500 { 10 } else { 11 });
        three.step(|run, next| run.send_from(sender, 0, event(0, next)));
    }
    let last = three.run.end();
    let source = &last.ledger.sources[0];
    assert_eq!((source[Entry::FragmentsRecorded], source[Entry::FragmentsForeign]), (4_000, 0));
    assert!(last.strangers.is_empty() && !last.ledger.balance().lost_data());
}

#[test]
fn a_stranger_is_no_loss_of_a_source_that_is_slower_than_the_time_out() {
    let mut three = Three::begin();
    let mut strange = 0;
    for index in 0..8_000 {
        three.step(|run, next| {
            if index % 2_000 == 0 {
                run.send_from(host(10), 0, event(0, next));
            }
            // It is source 1's, and it was given the wrong port.
            run.send_from(host(11), 0, event(1, next));
        });
        strange += 1;
    }
    let last = three.run.end();
    let source = &last.ledger.sources[0];
    assert_eq!(source[Entry::FragmentsForeign], strange, "{source:?}");
    assert_eq!((source[Entry::FragmentsUnknownSource], source[Entry::FragmentsRecorded]), (0, 4));
    let words = last.strangers[&0].words("s0");
    assert!(words.starts_with("packets from 10.0.0.11:5000 do not belong to s0"), "{words}");
}

#[test]
fn a_sender_of_which_no_packet_can_be_decoded_is_not_named_as_the_stranger() {
    let mut three = Three::begin();
    for _ in 0..2_000 {
        three.step(|run, next| {
            run.send_from(host(10), 0, event(0, next));
            run.send_from(host(11), 0, event(1, next));
            run.send_broken_from(host(12), 0);
        });
    }
    let last = three.run.end();
    assert_eq!(last.ledger.sources[0][Entry::FragmentsForeign], 2_000);
    assert_eq!(last.strangers[&0].sender, host(11));
}

#[test]
fn packet_numbers_of_a_stranger_are_no_gap_of_the_source() {
    let mut config = config("".as_ref(), 3);
    let address = config.sources[0].address;
    config.sources[0] = SourceConfig {
        protocol: Arc::new(TestProtocol),
        id: Some(7),
        ..SourceConfig::new("test", address)
    };
    let mut three = Three { run: Stepped::begin(&config), next: 1 };
    let numbered = |id: u64, sequence: u64, number: u32| {
        test_protocol::packet(sequence, id << 48 | u64::from(number), 3, (0, &[1, 2, 3]))
    };
    for sequence in 0..1_000 {
        three.step(|run, next| {
            // One of its own is lost: that shows.
            if sequence != 500 {
                run.send_from(host(10), 0, numbered(7, sequence, next));
            }
            run.send_from(host(11), 0, numbered(8, 70_000 + 3 * sequence, next));
        });
    }
    let last = three.run.end();
    let source = &last.ledger.sources[0];
    assert_eq!(source[Entry::FragmentsForeign], 1_000, "{source:?}");
    assert_eq!((source[Entry::PacketsMissing], source[Entry::FragmentsRecorded]), (1, 999));
}

#[test]
fn two_whose_fragments_all_fit_are_both_named_while_they_send_in_turn() {
    let mut three = Three::begin();
    let words = "two send to s0 in turn, 10.0.0.10:5000 and 10.0.0.11:5000: one is a stranger, \
                 or it has two addresses";
    for index in 0..3_000 {
        three.step(|run, next| {
            // The other one is sometimes before the source, and sometimes after it.
            let senders = if index % 2 == 0 { [10, 11] } else { [11, 10] };
            senders.into_iter().for_each(|sender| run.send_from(host(sender), 0, event(0, next)));
        });
    }
    let during = three.run.snapshot();
    let source = &during.ledger.sources[0];
    assert_eq!(source[Entry::FragmentsForeign], 0, "{source:?}");
    assert_eq!(during.strangers[&0].words("s0"), words);
    assert!(during.warnings.contains(&words.to_owned()), "{:?}", during.warnings);
    let turns = during.alignment[0].sender_turns;
    assert!((900..3_000).contains(&turns), "{turns}");
    // One of them ends.
    for _ in 0..3_000 {
        three.step(|run, next| run.send_from(host(10), 0, event(0, next)));
    }
    let after = three.run.snapshot();
    assert!(after.strangers.is_empty() && !after.warnings.contains(&words.to_owned()));
    three.run.end();
}
