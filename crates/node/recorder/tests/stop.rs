//! How a run ends, in virtual time: what sources send late, and how long it is waited for.

use std::path::PathBuf;
use std::sync::Arc;

use catchment_agent::{Agent, Ingress, Waker};
use catchment_fixtures::Random;
use catchment_model::{Balance, Entry, RunId};
use catchment_ports::{MemoryStore, QueueIngress, Queues, StoreTimes, VirtualClock};
use catchment_recorder::{
    Assembly, AssemblyParts, Bind, Endpoint, Observer, RecorderConfig, RecorderError, SourceConfig,
    TargetStore,
};
use catchment_test_protocol::{self as test_protocol, TestProtocol};
use catchment_wire::hadtu::ByteOrder;

use crate::support;
use support::links::{FIRST, Sender, channels};

const MS: u64 = 1_000_000;

struct Bound(Queues);

impl Bind for Bound {
    fn bind(&mut self, ports: &[Endpoint<'_>]) -> Result<Box<dyn Ingress>, RecorderError> {
        let queues = ports.iter().map(|_| self.0.add(1_000)).collect();
        Ok(Box::new(QueueIngress::new(&self.0, queues, 64)))
    }
}

/// A recorder whose agents are called every 100 us.
struct Virtual {
    clock: VirtualClock,
    queues: Queues,
    assembly: Assembly,
    agents: Vec<Box<dyn Agent>>,
    observer: Observer,
}

impl Virtual {
    fn begin(config: &RecorderConfig) -> Self {
        let clock = VirtualClock::at(1_000 * MS);
        let (count, bytes) = (config.write.buffer_count, config.write.buffer_bytes);
        let times = StoreTimes {
            operation_ns_max: MS,
            open_ns_max: MS,
            allocate_bytes: 1 << 30,
            sync_interval_ns: 100 * MS,
            ..StoreTimes::default()
        };
        let parts = AssemblyParts {
            trends: None,
            run: RunId([1; 16]),
            name: "run".to_owned(),
            targets: vec![TargetStore {
                folders: vec![(
                    PathBuf::from("run-1"),
                    MemoryStore::new((clock.clone(), 1), (count, bytes), times),
                )],
                nodes: Vec::new(),
                entropy: Box::new(Random::new(1)),
                waker: Waker::default(),
            }],
            entropy: || Box::new(Random::new(9)),
            frames: Waker::default(),
            encoders: Waker::default(),
            is_paused: false,
            now_ns: clock.now_ns(),
        };
        let mut bound = Bound(Queues::default());
        let mut assembly =
            Assembly::new(config, parts, &mut bound, |store, path| store.create(&path)).unwrap();
        let agents = std::mem::take(&mut assembly.agents).into_iter().map(|(_, agent)| agent);
        let (agents, observer) = (agents.collect(), assembly.observer());
        Self { clock, queues: bound.0, assembly, agents, observer }
    }

    fn pass(&mut self, ns: u64) {
        let end_ns = self.clock.now_ns() + ns;
        while self.clock.now_ns() < end_ns {
            self.clock.advance_to(self.clock.now_ns() + MS / 10);
            let now_ns = self.clock.now_ns();
            self.agents.retain_mut(|agent| {
                loop {
                    let work = agent.work(now_ns);
                    if work.ended || work.is_blocked || work.wake_at_ns > now_ns {
                        return !work.ended;
                    }
                }
            });
        }
    }

    fn send(&mut self, source: u32, number: u32) {
        let packet = support::packet(source, ByteOrder::Big, &[(number, &[1, 2, 3])]);
        assert!(self.queues.send(source as usize, packet));
    }

    /// Waits for the end: how long it took, and what became of everything.
    fn end(mut self) -> (u64, Balance, u64) {
        let from_ns = self.clock.now_ns();
        while !self.agents.is_empty() {
            self.pass(MS);
        }
        let ledger = self.observer.snapshot().ledger;
        let took_ns = self.clock.now_ns() - from_ns;
        (took_ns, ledger.balance(), ledger.total()[Entry::FragmentsRecorded])
    }
}

fn recorder() -> Virtual {
    let mut config = support::config("".as_ref(), 2);
    config.receive.threads = 2;
    let mut recorder = Virtual::begin(&config);
    for number in 0..20 {
        (0..2).for_each(|source| recorder.send(source, number));
        recorder.pass(10 * MS);
    }
    recorder
}

#[test]
fn a_source_that_stands_still_at_the_stop_tears_no_event() {
    for (begins_ms, stall_ms) in [(0, 300), (10, 150), (49, 299), (120, 400), (290, 300)] {
        let mut recorder = recorder();
        recorder.assembly.stop();
        let mut number = 20;
        for _ in 0..begins_ms / 10 {
            (0..2).for_each(|source| recorder.send(source, number));
            recorder.pass(10 * MS);
            number += 1;
        }
        recorder.send(0, number);
        recorder.pass(stall_ms * MS);
        recorder.send(1, number);
        let (_, balance, recorded) = recorder.end();
        assert!(balance.holds() && !balance.lost_data(), "{begins_ms} {stall_ms} {balance:?}");
        assert_eq!(recorded, 2 * (u64::from(number) + 1), "{begins_ms} {stall_ms}");
    }
}

#[test]
fn a_stop_waits_for_nothing_where_all_sources_came_to_the_same_event() {
    let recorder = recorder();
    recorder.assembly.stop();
    let (took_ns, balance, recorded) = recorder.end();
    assert!(took_ns < 100 * MS, "{took_ns}");
    assert!(!balance.lost_data() && recorded == 40, "{balance:?}");
}

#[test]
fn a_source_that_stays_away_is_waited_for_until_the_time_out() {
    let mut recorder = recorder();
    recorder.send(0, 20);
    recorder.assembly.stop();
    let (took_ns, balance, recorded) = recorder.end();
    assert!((1_000 * MS..1_600 * MS).contains(&took_ns), "{took_ns}");
    assert!(balance.holds() && balance.fragments_lost == 1 && recorded == 41, "{balance:?}");
}

#[test]
fn what_comes_with_the_last_look_is_the_beginning_of_an_event_and_its_rest_is_waited_for() {
    let mut config = support::config("".as_ref(), 2);
    config.receive.threads = 1;
    let mut recorder = Virtual::begin(&config);
    for number in 0..20 {
        (0..2).for_each(|source| recorder.send(source, number));
        recorder.pass(10 * MS);
    }
    recorder.assembly.stop();
    // Its first agent receives: called once more, it would take what there is, and end.
    while recorder.agents[0].work(recorder.clock.now_ns()).wake_at_ns != 0 {
        recorder.clock.advance_to(recorder.clock.now_ns() + MS / 10);
        let now_ns = recorder.clock.now_ns();
        recorder.agents[1..].iter_mut().for_each(|agent| {
            agent.work(now_ns);
        });
    }
    recorder.send(0, 20);
    recorder.pass(MS);
    recorder.send(1, 20);
    let (took_ns, balance, recorded) = recorder.end();
    assert!(balance.holds() && !balance.lost_data() && recorded == 42, "{recorded} {balance:?}");
    assert!(took_ns < 100 * MS, "{took_ns}");
}

/// A recorder of a link that has sent so many slices, and the link's sender.
fn link(slices: u64, which: &[usize]) -> (Virtual, Sender) {
    let mut recorder = Virtual::begin(&support::links::config("".as_ref()));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sender = Sender { socket, channels: channels(), sequence: 0 };
    assert!(recorder.queues.send(0, sender.packet(FIRST, &[0, 1, 2, 3])));
    for slice in FIRST + 1..FIRST + slices {
        recorder.pass(50 * MS);
        assert!(recorder.queues.send(0, sender.packet(slice, which)));
    }
    (recorder, sender)
}

#[test]
fn a_link_that_stands_still_at_the_stop_tears_no_slice() {
    for stall_ms in [60, 100, 200, 400] {
        let (mut recorder, mut sender) = link(8, &[0, 1, 2, 3]);
        recorder.assembly.stop();
        assert!(recorder.queues.send(0, sender.packet(FIRST + 8, &[0, 1])));
        recorder.pass(stall_ms * MS);
        assert!(recorder.queues.send(0, sender.packet(FIRST + 8, &[2, 3])));
        let (_, balance, recorded) = recorder.end();
        assert!(balance.holds() && !balance.lost_data(), "{stall_ms} {balance:?}");
        assert_eq!(recorded, 9 * 4, "{stall_ms}");
    }
}

#[test]
fn a_stop_waits_for_nothing_where_a_slice_is_whole_or_a_channel_is_off() {
    for which in [&[0, 1, 2, 3][..], &[0, 1, 3]] {
        let (recorder, _) = link(8, which);
        recorder.assembly.stop();
        let (took_ns, balance, recorded) = recorder.end();
        assert!(took_ns < 100 * MS, "{took_ns}");
        assert!(balance.holds() && recorded == 4 + 7 * which.len() as u64, "{balance:?}");
    }
}

#[test]
fn a_source_that_stands_still_within_a_fragment_at_the_stop_does_not_tear_it() {
    let mut config = support::config("".as_ref(), 1);
    let address = config.sources[0].address;
    config.sources[0] = SourceConfig {
        protocol: Arc::new(TestProtocol),
        id: Some(7),
        ..SourceConfig::new("test", address)
    };
    let mut recorder = Virtual::begin(&config);
    let part = |sequence: u64, position| {
        let number = 7 << 48 | (sequence / 2);
        test_protocol::packet(sequence, number, 6, (position, &[1, 2, 3]))
    };
    for sequence in 0..41 {
        assert!(recorder.queues.send(0, part(sequence, 3 * (sequence % 2))));
        recorder.pass(5 * MS);
    }
    recorder.assembly.stop();
    recorder.pass(200 * MS);
    assert!(recorder.queues.send(0, part(41, 3)));
    let (_, balance, recorded) = recorder.end();
    assert!(balance.holds() && !balance.lost_data() && recorded == 21, "{recorded} {balance:?}");
}

#[test]
fn what_had_arrived_at_the_stop_is_taken_however_long_it_takes() {
    let mut recorder = recorder();
    for number in 20..900 {
        (0..2).for_each(|source| recorder.send(source, number));
    }
    recorder.assembly.stop();
    // A machine that is so slow that each look at the sockets takes 200 ms.
    while !recorder.agents.is_empty() {
        recorder.clock.advance_to(recorder.clock.now_ns() + 200 * MS);
        let now_ns = recorder.clock.now_ns();
        recorder.agents.retain_mut(|agent| !agent.work(now_ns).ended);
    }
    let ledger = recorder.observer.snapshot().ledger;
    assert_eq!(ledger.total()[Entry::FragmentsReceived], 2 * 900, "{:?}", ledger.total());
}
