//! Emulated channel links with real sockets: arrivals match their report.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_emulator::{
    EmulatedChannel, EmulatedLink, EmulatorLive, EmulatorThread, Faults, LinkEmulator,
    LinkEmulatorConfig, LinkEmulatorReport, ligo_1000,
};
use catchment_fixtures::wait_while;
use catchment_frame::Dtype;
use catchment_model::{SampleRate, TimeScale};
use catchment_net::{ReceiverConfig, UdpReceiver};
use catchment_wire::link::{Header, Kind, Packet};
use catchment_wire::sequence::Gaps;

use crate::emulator::take_datagrams;

/// Datagrams as they arrived, by link. There are few enough for the socket buffers that any user
/// gets, so nothing needs to be received while they are sent.
struct Captured {
    datagrams: Vec<Vec<Vec<u8>>>,
    report: LinkEmulatorReport,
    emulator: LinkEmulator,
}

fn capture(links: usize, config: LinkEmulatorConfig) -> Captured {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut receiver = UdpReceiver::bind(&vec![any; links], ReceiverConfig::default()).unwrap();
    let targets: Vec<SocketAddr> = (0..links).map(|index| receiver.local_addr(index)).collect();
    let links_config = EmulatedLink::dealt(config.channels.len(), &targets);
    let emulator = LinkEmulator::new(LinkEmulatorConfig { links: links_config, ..config }).unwrap();
    let live = EmulatorLive::default();
    let report = emulator.run(&AtomicBool::new(false), &live).unwrap();
    let total = report.total();
    assert_eq!(live.events.load(Relaxed), report.slices);
    assert_eq!(live.packets.load(Relaxed), total.packets_sent + report.heartbeats);
    assert_eq!((total.packets_unsent, total.fragments_unsent), (0, 0));
    assert_eq!(
        total.fragments_sent,
        total.fragments_made - total.fragments_lost + total.fragments_duplicated
    );
    let packets = total.packets_sent + report.heartbeats;
    let datagrams = take_datagrams(&mut receiver, links, packets);
    Captured { datagrams, report, emulator }
}

/// For the given slice, where the samples of its part begin, and how many bytes there are.
type Parts = BTreeMap<(u32, u64), Vec<usize>>;

impl Captured {
    /// The parts in a link's packets, each verified byte by byte.
    fn parts(&self, link: usize) -> Parts {
        let (config, content) = (self.emulator.config(), self.emulator.content());
        let mut parts = Parts::new();
        for packet in self.packets(link) {
            let Header { kind, slice, slice_ns, link: number, .. } = *packet.header();
            assert_eq!((number, slice_ns), (config.links[link].number, config.slice_ns));
            assert!(kind == Kind::Samples || packet.entry_count() == 0);
            for entry in packet.entries() {
                let channel = config.links[link].channels[entry.channel as usize];
                let rate = config.channels[channel as usize].rate;
                let samples = rate.samples_of_slice(slice, slice_ns);
                let expected = (samples.end - samples.start) as usize;
                assert_eq!(entry.samples.len(), expected * content.sample_bytes(channel));
                assert_eq!(entry.first_sample, 0);
                assert!(content.verify(channel, samples.start, entry.samples));
                parts.entry((channel, slice)).or_default().push(entry.samples.len());
            }
        }
        parts
    }

    fn packets(&self, link: usize) -> impl Iterator<Item = Packet<'_>> {
        self.datagrams[link].iter().filter_map(|datagram| Packet::parse(datagram).ok())
    }

    fn samples(&self, link: usize) -> impl Iterator<Item = Packet<'_>> {
        self.packets(link).filter(|packet| packet.header().kind == Kind::Samples)
    }

    /// What a receiver counts as missing.
    fn missing(&self, link: usize) -> u64 {
        let mut gaps = Gaps::new();
        let mut missing = 0;
        for packet in self.packets(link) {
            let sequence = packet.header().sequence;
            missing += match packet.header().kind {
                Kind::Samples => gaps.take(sequence).1,
                Kind::Heartbeat => gaps.expect(sequence),
            };
        }
        missing + gaps.settle()
    }
}

fn channel(name: &str, dtype: Dtype, num: u64, den: u64) -> EmulatedChannel {
    let rate = SampleRate::new(num, den).unwrap();
    EmulatedChannel { name: name.into(), dtype, shape: Vec::new(), rate, unit: "V".into() }
}

/// A few channels of odd rates, small enough for any socket buffer.
fn few() -> LinkEmulatorConfig {
    LinkEmulatorConfig {
        channels: vec![
            channel("fast", Dtype::F32, 4_096, 1),
            channel("third", Dtype::I16, 1_000, 3),
            channel("minute", Dtype::F64, 1, 60),
            channel("complex", Dtype::C64, 100, 1),
            channel("byte", Dtype::U8, 77, 1),
            EmulatedChannel { shape: vec![2, 3], ..channel("matrix", Dtype::I16, 100, 3) },
        ],
        slice_ns: 62_500_000,
        multiple: None,
        packet_bytes: 1_400,
        first_slice: Some(28_000_000_000),
        slices: Some(20),
        ..LinkEmulatorConfig::default()
    }
}

#[test]
fn every_sample_of_every_channel_arrives_and_is_proved() {
    for links in [1, 2, 5] {
        let captured = capture(links, few());
        assert_eq!(captured.report.slices, 20);
        assert_eq!(captured.report.first_slice, 28_000_000_000);
        let mut parts: Parts = BTreeMap::new();
        let mut bytes = 0;
        for link in 0..links {
            assert_eq!(captured.missing(link), 0);
            for (number, packet) in captured.samples(link).enumerate() {
                assert_eq!(packet.header().sequence, number as u64);
            }
            parts.extend(captured.parts(link));
        }
        for channel in 0..6 {
            for slice in 0..20 {
                let part = &parts[&(channel, 28_000_000_000 + slice)];
                assert_eq!(part.len(), 1, "channel {channel}, slice {slice}");
                bytes += part[0] as u64;
            }
        }
        assert_eq!((parts.len(), captured.report.sample_bytes), (120, bytes));
        assert_eq!(captured.report.total().fragments_made, 120);
    }
}

#[test]
fn a_slice_of_the_preset_is_sent_at_its_multiple_and_to_its_end() {
    // A tenth of the channels: 50 kB per slice and link.
    let channels: Vec<EmulatedChannel> = ligo_1000().into_iter().step_by(10).collect();
    let captured = capture(
        2,
        LinkEmulatorConfig {
            channels,
            multiple: Some(100.0),
            seconds: Some(0.0051),
            packet_bytes: 33_000,
            ..LinkEmulatorConfig::default()
        },
    );
    // Half a second of data and a little is two slices, whatever the clock of this machine does.
    assert_eq!(captured.report.slices, 2);
    for link in 0..2 {
        assert_eq!(captured.parts(link).len(), 100);
        let last = captured.packets(link).last().unwrap();
        assert_eq!(last.header().kind, Kind::Heartbeat);
        assert_eq!(last.header().sequence, captured.report.links[link].packets_sent);
        assert_eq!(last.header().slice, captured.report.first_slice + 2);
    }
}

#[test]
fn without_a_first_slice_the_links_begin_with_the_present() {
    for time_scale in [TimeScale::Tai, TimeScale::Gps] {
        let now = || {
            let utc = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
            TimeScale::Utc.convert_ns(time_scale, utc) / 62_500_000
        };
        let before = now();
        let config = LinkEmulatorConfig { first_slice: None, slices: Some(1), time_scale, ..few() };
        let first = capture(1, config).report.first_slice;
        assert!((before..=now()).contains(&first));
    }
}

#[test]
fn a_stop_ends_the_run_behind_a_whole_slice() {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let receiver = UdpReceiver::bind(&[any], ReceiverConfig::default()).unwrap();
    let links = EmulatedLink::dealt(6, &[receiver.local_addr(0)]);
    let emulator = LinkEmulator::new(LinkEmulatorConfig { links, slices: None, ..few() }).unwrap();
    let (stop, live) = (AtomicBool::new(false), EmulatorLive::default());
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| emulator.run(&stop, &live).unwrap());
        wait_while(|| live.events.load(Relaxed) < 3);
        stop.store(true, Relaxed);
        running.join().unwrap()
    });
    assert!(report.slices >= 3);
    assert_eq!(report.total().fragments_made, 6 * report.slices);
}

#[test]
fn lost_packets_are_missing_from_the_sequence() {
    let faults = Faults { lose: 0.2, ..Faults::default() };
    let captured = capture(2, LinkEmulatorConfig { faults, slices: Some(100), ..few() });
    for link in 0..2 {
        let report = &captured.report.links[link];
        assert!(report.packets_lost > 10);
        // The first packets may be among them: these are unknown.
        let first = captured.packets(link).next().unwrap().header().sequence;
        assert_eq!(captured.missing(link), report.packets_lost - first);
        let parts: usize = captured.parts(link).values().map(Vec::len).sum();
        assert_eq!(parts as u64, report.fragments_made - report.fragments_lost);
    }
}

#[test]
fn packets_sent_twice_or_out_of_order_are_not_missing() {
    let faults = Faults { duplicate: 0.2, reorder: 0.2, ..Faults::default() };
    let captured = capture(1, LinkEmulatorConfig { faults, slices: Some(100), ..few() });
    let report = &captured.report.links[0];
    assert!(report.packets_duplicated > 10 && report.packets_reordered > 10);
    let parts = captured.parts(0);
    assert_eq!(parts.len(), 600);
    let copies: usize = parts.values().map(|part| part.len() - 1).sum();
    assert_eq!(copies as u64, report.fragments_duplicated);
    let sequences: Vec<u64> = captured.samples(0).map(|packet| packet.header().sequence).collect();
    let steps_back = sequences.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert_eq!(steps_back as u64, report.packets_reordered);
    // One overtaken by the very first packet arrives before anything is known.
    assert_eq!(captured.missing(0), 0);
}

#[test]
fn a_corrupt_packet_is_refused_by_the_decoder() {
    let faults = Faults { corrupt: 0.3, ..Faults::default() };
    let captured = capture(1, LinkEmulatorConfig { faults, slices: Some(100), ..few() });
    let report = &captured.report.links[0];
    let refused = captured.datagrams[0].iter().filter(|bytes| Packet::parse(bytes).is_err());
    assert_eq!(refused.count() as u64, report.packets_corrupted);
    assert!(report.packets_corrupted > 10);
    let parts: usize = captured.parts(0).values().map(Vec::len).sum();
    assert_eq!(parts as u64, report.fragments_made - report.fragments_corrupted);
}

#[test]
fn the_same_seed_sends_the_same_packets() {
    let faults = Faults { lose: 0.1, duplicate: 0.1, ..Faults::default() };
    let sent = |seed| {
        capture(1, LinkEmulatorConfig { faults, seed, heartbeat_ns: 1 << 60, ..few() }).datagrams
    };
    assert_eq!(sent(1), sent(1));
    assert_ne!(sent(1), sent(2));
}

#[test]
fn a_thread_sends_until_it_is_stopped_and_is_observed_beyond_its_end() {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let receiver = UdpReceiver::bind(&[any], ReceiverConfig::default()).unwrap();
    let channels = ligo_1000()[..2].to_vec();
    let links = EmulatedLink::dealt(channels.len(), &[receiver.local_addr(0)]);
    let config = LinkEmulatorConfig { channels, links, ..LinkEmulatorConfig::default() };
    let thread = EmulatorThread::start_links(config).unwrap();
    let observer = thread.observer().clone();
    wait_while(|| observer.live().packets.load(Relaxed) == 0);
    assert!(!observer.ended());
    let report = thread.finish().unwrap();
    assert!(observer.ended());
    let sent = report.total().packets_sent + report.heartbeats;
    assert_eq!(observer.live().events.load(Relaxed), report.slices);
    assert_eq!(observer.live().packets.load(Relaxed), sent);
    assert_eq!(observer.threads()[0].name, "emulate-links");
}
