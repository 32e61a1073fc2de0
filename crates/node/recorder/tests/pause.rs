//! Runs begin, pause and end between two events: what nobody wanted is counted, and the books
//! balance.

use std::net::UdpSocket;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support;
use catchment_agent::Ingress;
use catchment_fixtures::{sender_to, wait_while};
use catchment_model::Entry;
use catchment_net::{ReceiverConfig, UdpReceiver};
use catchment_recorder::{Bind, Endpoint, Recorder, RecorderConfig, RecorderError, Snapshot};
use catchment_storage::{Run, Verdict, audit};
use catchment_wire::hadtu::ByteOrder;
use support::stepped::Stepped;
use support::{config, fragments, packet, senders, total};

/// Sends events from two sources and waits until they are recorded or discarded.
fn send(recorder: &Recorder, sockets: &[UdpSocket], events: std::ops::Range<u32>) {
    for event in events {
        for (source, socket) in sockets.iter().enumerate() {
            let packet = packet(source as u32, ByteOrder::Big, &[(event, &[1, 2, 3])]);
            socket.send(&packet).unwrap();
        }
        let received = || recorder.snapshot().ledger.total()[Entry::FragmentsReceived];
        let expected = u64::from(event) * 2;
        wait_while(|| {
            received() < expected || recorder.snapshot().ledger.balance().fragments_in_flight > 0
        });
    }
}

fn quick(folder: &std::path::Path) -> RecorderConfig {
    let mut config = config(folder, 2);
    config.frame.time_ns = 1_000_000;
    config
}

#[test]
fn what_comes_during_a_pause_is_counted_and_the_rest_is_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(quick(folder.path())).unwrap();
    let sockets = senders(&recorder);
    send(&recorder, &sockets, 1..11);
    recorder.pause(true);
    send(&recorder, &sockets, 11..31);
    recorder.pause(false);
    send(&recorder, &sockets, 31..41);
    let observer = recorder.observer();
    let summary = recorder.stop().unwrap();
    assert_eq!(observer.snapshot().ledger, summary.last.ledger);
    assert_eq!(total(&summary, Entry::FragmentsDiscardedPaused), 40);
    assert_eq!(total(&summary, Entry::FragmentsRecorded), 40);
    let balance = summary.last.ledger.balance();
    assert!(balance.holds() && !balance.lost_data(), "{balance:?}");
    let run = Run::open(&summary.folder).unwrap();
    let keys: Vec<u64> = fragments(&run).into_keys().collect();
    assert_eq!(keys, (1..11).chain(31..41).collect::<Vec<_>>());
    assert_eq!(audit(&run).unwrap().verdict, Verdict::Balanced);
}

#[test]
fn a_recorder_that_starts_paused_records_from_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start_paused(quick(folder.path())).unwrap();
    let sockets = senders(&recorder);
    send(&recorder, &sockets, 1..6);
    recorder.pause(false);
    send(&recorder, &sockets, 6..11);
    let summary = recorder.stop().unwrap();
    assert_eq!(total(&summary, Entry::FragmentsDiscardedPaused), 10);
    let run = Run::open(&summary.folder).unwrap();
    assert_eq!(fragments(&run).into_keys().collect::<Vec<_>>(), (6..11).collect::<Vec<_>>());
}

#[test]
fn a_run_that_ends_paused_closes_its_books() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(quick(folder.path())).unwrap();
    let sockets = senders(&recorder);
    send(&recorder, &sockets, 1..6);
    recorder.pause(true);
    send(&recorder, &sockets, 6..11);
    let summary = recorder.stop().unwrap();
    let run = Run::open(&summary.folder).unwrap();
    let report = audit(&run).unwrap();
    assert_eq!(report.verdict, Verdict::Balanced);
    let recorded = run.recorded_ledger().unwrap().unwrap().total();
    assert_eq!(recorded[Entry::FragmentsDiscardedPaused], 10);
}

/// Ends the senders also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Three sources that go on sending, whatever anybody records: events in datagrams of 1, 7 and 30.
fn send_for_ever(addresses: Vec<std::net::SocketAddr>, stop: &AtomicBool) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut waiting = vec![Vec::new(); addresses.len()];
    for event in 1_u32.. {
        for (source, address) in addresses.iter().enumerate() {
            waiting[source].push(event);
            if waiting[source].len() < [1, 7, 30][source] {
                continue;
            }
            let sub_events: Vec<(u32, &[u8])> =
                waiting[source].drain(..).map(|event| (event, &[1, 2, 3][..])).collect();
            // Nobody may be there to receive it.
            socket.send_to(&packet(source as u32, ByteOrder::Big, &sub_events), address).ok();
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // A trigger of some kilohertz: what is sent at once must fit into the sockets.
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn runs_begin_and_end_between_two_events_while_sources_go_on_sending() {
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut config = quick(folder.path());
        config.sources = support::sources(3);
        // No event is given up while a busy machine keeps the sender between two datagrams.
        config.build.timeout_ns = 3_600_000_000_000;
        // The senders go on between the runs: to nobody else.
        for (source, address) in config.sources.iter_mut().zip(support::free(3)) {
            source.address = address;
        }
        let mut recorder = Recorder::start_paused(config.clone()).unwrap();
        let addresses = recorder.addresses().to_vec();
        let stop = Stop(&stop);
        let stopping = stop.0;
        scope.spawn(move || send_for_ever(addresses, stopping));
        for run in 0..5 {
            recorder.begin_between_events();
            wait_while(|| recorder.counts().events_recorded < 200);
            let summary = recorder.stop().unwrap();
            let balance = summary.last.ledger.balance();
            assert!(balance.holds() && !balance.lost_data(), "run {run}: {balance:?}");
            assert_eq!(summary.last.counts.events_incomplete, 0, "run {run}");
            assert!(total(&summary, Entry::FragmentsDiscardedPaused) > 0, "run {run}");
            let events = fragments(&Run::open(&summary.folder).unwrap());
            assert!(events.values().all(|event| event.len() == 3), "run {run}");
            let keys: Vec<u64> = events.into_keys().collect();
            assert!(keys.windows(2).all(|pair| pair[1] == pair[0] + 1), "run {run}: {keys:?}");
            recorder = Recorder::start_paused(config.clone()).unwrap();
        }
    });
}

#[test]
fn what_is_sent_once_a_run_has_begun_belongs_to_it() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let recorder = Recorder::start_paused(quick(folder.path())).unwrap();
        let senders = support::senders(&recorder);
        recorder.begin_between_events();
        for event in 1..=10_u32 {
            for (source, sender) in (0..).zip(&senders) {
                sender.send(&packet(source, ByteOrder::Big, &[(event, &[1, 2, 3])])).unwrap();
            }
        }
        let summary = recorder.stop().unwrap();
        let sent = 10 * senders.len() as u64;
        assert_eq!(total(&summary, Entry::FragmentsDiscardedPaused), 0);
        assert_eq!(total(&summary, Entry::FragmentsRecorded), sent);
    }
}

/// Sockets, and one that sends to each, by the numbers of the sources.
#[derive(Default)]
struct Sockets(Vec<(usize, UdpSocket)>);

impl Bind for Sockets {
    fn bind(&mut self, ports: &[Endpoint<'_>]) -> Result<Box<dyn Ingress>, RecorderError> {
        let addresses: Vec<_> = ports.iter().map(|port| port.address).collect();
        let receiver = UdpReceiver::bind(&addresses, ReceiverConfig::default())?;
        for (index, port) in ports.iter().enumerate() {
            self.0.push((port.numbers[0], sender_to(receiver.local_addr(index))));
        }
        self.0.sort_by_key(|(source, _)| *source);
        Ok(Box::new(receiver))
    }
}

/// A recorder of four sources that is to begin between two events, and is stepped. The thread that
/// reads sources 0 and 2 is held up.
struct HeldUp {
    run: Stepped,
    sockets: Sockets,
}

impl HeldUp {
    fn begin() -> Self {
        let mut config = config("".as_ref(), 4);
        config.receive.threads = 2;
        config.build.timeout_ns = 3_600_000_000_000;
        let mut sockets = Sockets::default();
        let mut run = Stepped::begin_paused(&config, &mut sockets);
        run.held_up = Some("receive-0");
        run.begin_between_events();
        Self { run, sockets }
    }

    fn send(&mut self, source: usize, events: RangeInclusive<u32>) {
        for event in events {
            let packet = packet(source as u32, ByteOrder::Big, &[(event, &[1, 2, 3])]);
            self.sockets.0[source].1.send(&packet).unwrap();
            self.run.sent(1);
        }
    }

    /// Lets the thread go on, sends some whole events, and ends the run.
    fn end(mut self, events: RangeInclusive<u32>) -> Snapshot {
        self.run.held_up = None;
        self.run.pass(10);
        (0..4).for_each(|source| self.send(source, events.clone()));
        self.run.pass(10);
        self.run.end()
    }
}

#[test]
fn what_stood_in_a_socket_before_a_run_began_begins_none_of_its_events() {
    let mut held = HeldUp::begin();
    // The socket of source 2 was opened behind that of source 0. The others are heard, and slow.
    held.send(0, 1..=9);
    held.send(2, 7..=9);
    [1, 3].into_iter().for_each(|source| held.send(source, 1..=2));
    held.run.pass(1_000);
    [1, 3].into_iter().for_each(|source| held.send(source, 3..=9));
    let last = held.end(10..=20);
    let total = last.ledger.total();
    assert_eq!(last.counts.events_incomplete, 0, "{total:?}");
    assert_eq!(total[Entry::FragmentsDiscardedPaused], 9 + 3 + 2 * 9);
    assert_eq!(total[Entry::FragmentsRecorded], 4 * 11);
    assert!(!last.ledger.balance().lost_data(), "{total:?}");
}

#[test]
fn a_run_does_not_wait_for_ever_for_a_thread_that_does_not_read() {
    let mut held = HeldUp::begin();
    held.run.pass(2_010);
    (0..4).for_each(|source| held.send(source, 1..=5));
    let last = held.end(6..=10);
    let total = last.ledger.total();
    assert_eq!(total[Entry::FragmentsDiscardedPaused], 0, "{total:?}");
    assert_eq!(total[Entry::FragmentsRecorded], 4 * 10);
}
