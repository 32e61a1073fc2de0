//! The emulator with real sockets: arrivals match its report.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use catchment_agent::{Flow, Ingress as _};
use catchment_emulator::{
    Emulator, EmulatorConfig, EmulatorLive, EmulatorReport, Faults, hades_90, preset,
};
use catchment_fixtures::wait_while;
use catchment_net::{ReceiverConfig, UdpReceiver};
use catchment_wire::hadtu::{ByteOrder, Packet};

/// Nothing takes that long: reached only if the data never arrive.
const PATIENCE: Duration = Duration::from_secs(1_200);

/// Datagrams as they arrived, by source. The bursts are small enough for the socket buffers that
/// any user gets, so nothing needs to be received while they are sent.
pub(crate) struct Captured {
    pub(crate) datagrams: Vec<Vec<Vec<u8>>>,
    pub(crate) report: EmulatorReport,
    pub(crate) emulator: Emulator,
}

/// Takes that many datagrams, by the sockets of a receiver.
pub(crate) fn take_datagrams(
    receiver: &mut UdpReceiver,
    sockets: usize,
    mut left: u64,
) -> Vec<Vec<Vec<u8>>> {
    let mut datagrams = vec![Vec::new(); sockets];
    while left > 0 {
        receiver.readiness().wait(PATIENCE);
        let received = receiver.poll(&mut |arrival| {
            datagrams[arrival.endpoint].extend(arrival.datagrams().map(<[u8]>::to_vec));
            Flow::Taken
        });
        assert!(received.arrivals > 0, "{left} packets did not arrive");
        left -= received.arrivals;
    }
    datagrams
}

pub(crate) fn capture(config: EmulatorConfig) -> Captured {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let sources = config.sources.len();
    let mut receiver = UdpReceiver::bind(&vec![any; sources], ReceiverConfig::default()).unwrap();
    let targets = (0..sources).map(|index| receiver.local_addr(index)).collect();
    let emulator = Emulator::new(EmulatorConfig { targets, ..config }).unwrap();
    let live = EmulatorLive::default();
    let report = emulator.run(&AtomicBool::new(false), &live).unwrap();
    let total = report.total();
    assert_eq!(
        (live.events.load(Relaxed), live.packets.load(Relaxed), live.bytes.load(Relaxed)),
        (report.events, total.packets_sent, total.bytes_sent)
    );
    assert_eq!((total.packets_unsent, total.fragments_unsent), (0, 0));
    assert_eq!(
        total.fragments_sent,
        total.fragments_made - total.fragments_lost + total.fragments_duplicated
    );
    let datagrams = take_datagrams(&mut receiver, sources, total.packets_sent);
    for (source, datagrams) in report.sources.iter().zip(&datagrams) {
        assert_eq!(source.packets_sent, datagrams.len() as u64);
        assert_eq!(source.bytes_sent, datagrams.iter().map(|d| d.len() as u64).sum::<u64>());
    }
    Captured { datagrams, report, emulator }
}

impl Captured {
    /// The trigger numbers of a source's fragments in the order of their arrival; each payload is
    /// checked against its event. Packets that do not parse are left out.
    fn numbers(&self, source: usize) -> Vec<u32> {
        let (config, content) = (self.emulator.config(), self.emulator.content());
        let mut newest = config.first_event;
        let mut numbers = Vec::new();
        for packet in self.packets(source) {
            assert_eq!(packet.order(), config.byte_order);
            for sub_event in packet.sub_events() {
                let key = key_after(newest, sub_event.trigger_number.into());
                newest = newest.max(key);
                let event = config.event_of_key(source as u32, key);
                assert!(content.verify(source as u32, event, sub_event.payload()), "event {event}");
                assert_eq!(sub_event.trigger_tag, content.tag(event));
                assert_eq!(sub_event.id, config.sources[source].sub_event_id);
                assert!(!sub_event.error);
                numbers.push(sub_event.trigger_number);
            }
        }
        numbers
    }

    fn packets(&self, source: usize) -> impl Iterator<Item = Packet<'_>> {
        self.datagrams[source].iter().filter_map(|datagram| Packet::parse(datagram).ok())
    }

    fn sources(&self) -> std::ops::Range<usize> {
        0..self.datagrams.len()
    }
}

fn hades() -> EmulatorConfig {
    EmulatorConfig { sources: hades_90(), events: Some(60), ..EmulatorConfig::default() }
}

fn with_faults(water_mark_bytes: usize, faults: Faults) -> Captured {
    capture(EmulatorConfig { water_mark_bytes, faults, ..hades() })
}

#[test]
fn every_fragment_of_every_source_arrives_and_is_proved() {
    for byte_order in [ByteOrder::Big, ByteOrder::Little] {
        for (water_mark_bytes, equal_bursts) in
            [(0, None), (0, Some(16)), (1_500, None), (32_000, None)]
        {
            let captured =
                capture(EmulatorConfig { byte_order, water_mark_bytes, equal_bursts, ..hades() });
            assert_eq!(captured.report.events, 60);
            for source in captured.sources() {
                assert_eq!(captured.numbers(source), (1..=60).collect::<Vec<u32>>());
                let counts: Vec<usize> =
                    captured.packets(source).map(|packet| packet.sub_event_count()).collect();
                assert!(water_mark_bytes > 0 || counts == [1; 60]);
                assert!(water_mark_bytes != 32_000 || counts.len() <= 3);
            }
        }
    }
}

#[test]
fn a_packet_is_sent_when_its_queue_reaches_the_water_mark() {
    let captured = capture(EmulatorConfig { water_mark_bytes: 2_000, ..hades() });
    for source in captured.sources() {
        let sizes: Vec<usize> = captured.packets(source).map(|packet| packet.size()).collect();
        let (_, full) = sizes.split_last().unwrap();
        assert!(full.iter().all(|size| (2_000..2_000 + 2_400).contains(size)), "{sizes:?}");
    }
}

#[test]
fn huge_fragments_travel_with_any_water_mark() {
    for water_mark_bytes in [0, 32_000, 65_507] {
        let captured = capture(EmulatorConfig {
            sources: hades_90().split_off(75),
            water_mark_bytes,
            huge_every: 20,
            events: Some(20),
            ..hades()
        });
        let content = captured.emulator.content();
        let mut huge = 0;
        for source in captured.sources() {
            assert_eq!(captured.numbers(source), (1..=20).collect::<Vec<u32>>());
            huge += (1..=20).filter(|&event| content.is_huge(source as u32, event)).count();
        }
        assert!(huge > 0);
    }
}

#[test]
fn trigger_numbers_go_through_the_wrap() {
    let first_event = (1 << 24) - 20;
    let captured = capture(EmulatorConfig { first_event, ..hades() });
    let expected: Vec<u32> = (0x00ff_ffec..=0x00ff_ffff).chain(0..40).collect();
    for source in captured.sources() {
        assert_eq!(captured.numbers(source), expected);
    }
}

#[test]
fn lost_packets_are_exactly_those_reported() {
    for water_mark_bytes in [0, 1_000] {
        let faults = Faults { lose: 0.1, ..Faults::default() };
        let captured = with_faults(water_mark_bytes, faults);
        let total = captured.report.total();
        assert!(total.packets_lost > 50, "{total:?}");
        for source in captured.sources() {
            let report = captured.report.sources[source];
            assert_eq!(captured.numbers(source).len() as u64, 60 - report.fragments_lost);
        }
    }
}

#[test]
fn duplicated_packets_come_twice_in_a_row() {
    for water_mark_bytes in [0, 1_000] {
        let faults = Faults { duplicate: 0.1, ..Faults::default() };
        let captured = with_faults(water_mark_bytes, faults);
        assert!(captured.report.total().packets_duplicated > 50);
        for source in captured.sources() {
            let datagrams = &captured.datagrams[source];
            let twice = datagrams.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
            let report = captured.report.sources[source];
            assert_eq!(twice, report.packets_duplicated);
            let mut numbers = captured.numbers(source);
            assert_eq!(numbers.len() as u64, 60 + report.fragments_duplicated);
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers, (1..=60).collect::<Vec<u32>>());
        }
    }
}

#[test]
fn reordered_packets_come_after_their_next_one() {
    for water_mark_bytes in [0, 1_000] {
        let faults = Faults { reorder: 0.2, ..Faults::default() };
        let captured = with_faults(water_mark_bytes, faults);
        assert!(captured.report.total().packets_reordered > 50);
        for source in captured.sources() {
            let firsts: Vec<(u32, u64)> = captured
                .packets(source)
                .map(|packet| {
                    let first = packet.sub_events().next().unwrap().trigger_number;
                    (first, packet.sub_event_count() as u64)
                })
                .collect();
            let overtaken = firsts.windows(2).filter(|pair| pair[1].0 < pair[0].0);
            let (packets, fragments) =
                overtaken.fold((0, 0), |(p, f), pair| (p + 1, f + pair[1].1));
            let report = captured.report.sources[source];
            assert_eq!(
                (packets, fragments),
                (report.packets_reordered, report.fragments_reordered)
            );
            let mut numbers = captured.numbers(source);
            numbers.sort_unstable();
            assert_eq!(numbers, (1..=60).collect::<Vec<u32>>());
        }
    }
}

#[test]
fn corrupted_packets_are_all_noticed() {
    for water_mark_bytes in [0, 1_000] {
        let faults = Faults { corrupt: 0.2, ..Faults::default() };
        let captured = with_faults(water_mark_bytes, faults);
        assert!(captured.report.total().packets_corrupted > 100);
        for source in captured.sources() {
            let report = captured.report.sources[source];
            let datagrams = &captured.datagrams[source];
            let bad = datagrams.iter().filter(|datagram| Packet::parse(datagram).is_err()).count();
            assert_eq!(bad as u64, report.packets_corrupted);
            assert_eq!(captured.numbers(source).len() as u64, 60 - report.fragments_corrupted);
        }
    }
}

#[test]
fn all_faults_together_still_add_up() {
    let faults =
        Faults { lose: 0.1, duplicate: 0.1, reorder: 0.1, corrupt: 0.1, ..Faults::default() };
    for water_mark_bytes in [0, 700] {
        let captured = with_faults(water_mark_bytes, faults);
        for source in captured.sources() {
            let report = captured.report.sources[source];
            let datagrams = &captured.datagrams[source];
            let bad = datagrams.iter().filter(|datagram| Packet::parse(datagram).is_err()).count();
            assert_eq!(bad as u64, report.packets_corrupted);
            let mut numbers = captured.numbers(source);
            let all = numbers.len() as u64;
            assert_eq!(all, report.fragments_sent - report.fragments_corrupted);
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(all - numbers.len() as u64, report.fragments_duplicated);
            let missing = 60 - numbers.len() as u64;
            assert_eq!(missing, report.fragments_lost + report.fragments_corrupted);
        }
    }
}

#[test]
fn the_same_seed_makes_the_same_faults() {
    let faults = Faults { lose: 0.1, corrupt: 0.1, ..Faults::default() };
    let (one, two) = (with_faults(0, faults), with_faults(0, faults));
    assert_eq!(one.datagrams, two.datagrams);
    assert_eq!(one.report.sources, two.report.sources);
}

#[test]
fn a_killed_source_sends_nothing_from_that_event_on() {
    for water_mark_bytes in [0, 32_000] {
        for (at, sent) in [(41, 40), (1, 0), (1_000, 60)] {
            let faults = Faults { kill: Some((2, at)), ..Faults::default() };
            let captured = with_faults(water_mark_bytes, faults);
            assert_eq!(captured.numbers(2), (1..=sent).collect::<Vec<u32>>());
            assert_eq!(captured.numbers(3).len(), 60);
            let report = captured.report.sources[2];
            assert_eq!(report.fragments_made, u64::from(sent));
            assert_eq!(report.fragments_killed, 60 - u64::from(sent));
        }
    }
}

#[test]
fn a_restarted_source_begins_its_numbers_at_zero() {
    for water_mark_bytes in [0, 32_000] {
        let captured = capture(EmulatorConfig {
            first_event: 100_000,
            water_mark_bytes,
            faults: Faults { restart: Some((1, 100_025)), ..Faults::default() },
            ..hades()
        });
        // The numbers are unwrapped there, and every payload is verified for its event.
        let expected: Vec<u32> = (100_000..100_025).chain(0..35).collect();
        assert_eq!(captured.numbers(1), expected);
        assert_eq!(captured.numbers(0), (100_000..100_060).collect::<Vec<u32>>());
        assert_eq!(captured.report.sources[1].fragments_restarted, 35);
        assert_eq!(captured.report.total().fragments_restarted, 35);
    }
}

#[test]
fn a_rate_and_a_time_give_an_exact_number_of_events() {
    let config =
        EmulatorConfig { rate_hz: Some(1_000.0), seconds: Some(0.05), events: None, ..hades() };
    assert_eq!(capture(config).report.events, 50);
}

#[test]
fn stop_ends_a_run_without_end() {
    let sink = UdpReceiver::bind(&["127.0.0.1:0".parse().unwrap()], ReceiverConfig::default());
    let emulator = Emulator::new(EmulatorConfig {
        sources: hades_90()[..1].to_vec(),
        targets: vec![sink.unwrap().local_addr(0)],
        rate_hz: Some(1_000.0),
        ..EmulatorConfig::default()
    })
    .unwrap();
    let (stop, live) = (AtomicBool::new(false), EmulatorLive::default());
    let report = std::thread::scope(|scope| {
        let thread = scope.spawn(|| emulator.run(&stop, &live));
        wait_while(|| live.events.load(Relaxed) < 10);
        stop.store(true, Relaxed);
        thread.join().unwrap().unwrap()
    });
    assert!(report.events >= 10);
    assert_eq!(report.total().fragments_made, report.events);
}

#[test]
fn wrong_configurations_are_refused_with_what_was_expected() {
    let targets = vec!["127.0.0.1:9".parse().unwrap(); 90];
    let good = || EmulatorConfig { targets: targets.clone(), ..hades() };
    assert!(Emulator::new(good()).is_ok());
    let fault = |faults| EmulatorConfig { faults, ..good() };
    let cases = [
        (EmulatorConfig { targets: Vec::new(), ..good() }, "one for each of the 90 sources, got 0"),
        (EmulatorConfig { sources: Vec::new(), ..good() }, "sources: expected 1 to 4096, got 0"),
        (EmulatorConfig { rate_hz: Some(f64::NAN), ..good() }, "rate: expected"),
        (EmulatorConfig { rate_hz: Some(0.0), ..good() }, "rate: expected"),
        (
            EmulatorConfig { huge_bytes: 100_000, ..good() },
            "huge_bytes: expected at most 65448 bytes",
        ),
        (EmulatorConfig { equal_bursts: Some(0), ..good() }, "equal_bursts: expected 1"),
        (EmulatorConfig { water_mark_bytes: 100_000, ..good() }, "water_mark: expected"),
        (EmulatorConfig { seconds: Some(-1.0), ..good() }, "seconds: expected 0"),
        (
            fault(Faults { lose: 1.5, ..Faults::default() }),
            "faults.lose: expected a share of the packets, 0 to 1, got 1.5",
        ),
        (
            fault(Faults { lose: 0.6, corrupt: 0.6, ..Faults::default() }),
            "faults: expected a share",
        ),
        (fault(Faults { kill: Some((90, 1)), ..Faults::default() }), "faults.kill: expected"),
    ];
    for (config, expected) in cases {
        let error = Emulator::new(config).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn the_preset_is_hades_with_its_three_groups() {
    let sources = preset("hades-90").unwrap();
    let count = |group: &str| sources.iter().filter(|source| source.group == group).count();
    assert_eq!((count("small"), count("medium"), count("large")), (60, 20, 10));
    assert!(sources.iter().zip(0x8000..).all(|(source, id)| source.sub_event_id == id));
    assert_eq!(preset("hades"), None);
}

/// The key of a number of 24 bits: numbers wrap, and one that is far behind restarts.
fn key_after(newest: u64, number: u64) -> u64 {
    const TURN: u64 = 1 << 24;
    const REORDER_MAX: u64 = 16_384;
    let key = newest / TURN * TURN + number;
    match (newest.saturating_sub(key), key.saturating_sub(newest)) {
        (back, _) if back > REORDER_MAX => key + TURN,
        (_, ahead) if ahead > TURN / 2 => key.saturating_sub(TURN),
        _ => key,
    }
}
