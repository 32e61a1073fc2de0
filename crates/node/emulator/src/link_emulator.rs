//! Emulated channel links: their packets, made and sent tick by tick.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use catchment_model::TimeScale;
use catchment_model::limits::DATAGRAM_BYTES_MAX;
use catchment_net::Datagram;
use catchment_telemetry::utc_now;
use catchment_wire::link::{
    EntryHeader, HEADER_BYTES, Header, Kind, PacketEncoder, encode_heartbeat,
};

use crate::channel_content::ChannelContent;
use crate::config::ConfigError;
use crate::emulator::EmulatorError;
use crate::link_config::{LinkEmulatorConfig, Plan};
use crate::outlet::Outlet;
use crate::pace::Schedule;
use crate::report::{EmulatorLive, LinkEmulatorReport};
use crate::sender::Traffic;
use crate::thread::{Sent, send};

/// Emulated channel links, checked and ready to run.
#[derive(Clone, Debug)]
pub struct LinkEmulator {
    config: LinkEmulatorConfig,
    content: ChannelContent,
    plan: Plan,
}

impl LinkEmulator {
    /// Checks the configuration and computes the tables.
    ///
    /// # Errors
    /// An invalid configuration.
    pub fn new(config: LinkEmulatorConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let content = ChannelContent::new(config.seed, &config.channels);
        let plan = Plan::new(&config);
        Ok(Self { config, content, plan })
    }

    /// The configuration.
    pub fn config(&self) -> &LinkEmulatorConfig {
        &self.config
    }

    /// The content that it sends, by the channels' indices in the configuration.
    pub fn content(&self) -> &ChannelContent {
        &self.content
    }

    /// Sends on the calling thread until the configured end, or until `stop` is set, and then the
    /// rest of the slice. The packets of a slice are spread over its time. `live` counts slices as
    /// events, and heartbeats as packets too.
    ///
    /// # Errors
    /// Sockets that cannot be made, or an unavailable CPU. Later refusals by the kernel are counted
    /// in the report.
    pub fn run(
        &self,
        stop: &AtomicBool,
        live: &EmulatorLive,
    ) -> Result<LinkEmulatorReport, EmulatorError> {
        let config = &self.config;
        let targets: Vec<_> = config.links.iter().map(|link| link.target).collect();
        let mut outlet = Outlet::new(&targets, config.seed, &config.faults, corrupt_bit, stop)?;
        outlet.connect(&config.links)?;
        let first_slice = config.first_slice.unwrap_or_else(|| self.present());
        let run = Run::new(self, outlet, first_slice);
        let sent = send(config.cpu, &self.schedule(), run, stop, live)?;
        let Sent { traffic: mut run, events: slices, refused, seconds, cpu_ns } = sent;
        run.outlet.close();
        Ok(LinkEmulatorReport {
            seed: config.seed,
            first_slice,
            slice_ns: config.slice_ns,
            slices,
            sample_bytes: run.sample_bytes,
            heartbeats: run.heartbeats,
            seconds,
            cpu_ns,
            refused,
            links: run.outlet.into_reports(),
        })
    }

    /// When each packet is due.
    fn schedule(&self) -> Schedule {
        let config = &self.config;
        let packets = self.plan.packets.len() as u64;
        let slice_s = config.slice_ns as f64 / 1e9;
        let by_time = match (config.multiple, config.seconds) {
            (Some(multiple), Some(seconds)) => Some((seconds * multiple / slice_s).round() as u64),
            _ => None,
        };
        let slices = match (config.slices, by_time) {
            (Some(slices), Some(by_time)) => Some(slices.min(by_time)),
            (slices, by_time) => slices.or(by_time),
        };
        Schedule {
            rate_hz: config.multiple.map(|multiple| packets as f64 * multiple / slice_s),
            event_bytes: config.byte_rate() * slice_s / packets as f64 + HEADER_BYTES as f64,
            burst: 1,
            first_event: 0,
            events: slices.map(|slices| slices.saturating_mul(packets)),
            seconds: if by_time.is_some() { None } else { config.seconds },
        }
    }

    /// The present slice.
    fn present(&self) -> u64 {
        TimeScale::Utc.convert_ns(self.config.time_scale, utc_now().0) / self.config.slice_ns
    }
}

/// The state of a run.
struct Run<'a> {
    emulator: &'a LinkEmulator,
    outlet: Outlet<'a>,
    buffer: Box<[u8]>,
    // The current slice, and its next packet.
    slice: u64,
    packet: usize,
    // The slice's samples, rate by rate.
    samples: Vec<Range<u64>>,
    // Packets made, link by link.
    sequences: Vec<u64>,
    sample_bytes: u64,
    heartbeats: u64,
    /// When the next heartbeats are due.
    heartbeat_ns: u64,
}

impl<'a> Run<'a> {
    fn new(emulator: &'a LinkEmulator, outlet: Outlet<'a>, slice: u64) -> Self {
        Self {
            emulator,
            outlet,
            buffer: vec![0; DATAGRAM_BYTES_MAX].into(),
            slice,
            packet: 0,
            samples: Vec::new(),
            sequences: vec![0; emulator.config.links.len()],
            sample_bytes: 0,
            heartbeats: 0,
            heartbeat_ns: 0,
        }
    }

    /// Makes the next packet and sends it. As the packets of a slice differ in size and are nearly
    /// as large as possible, the kernel could not join any; each is sent on its own.
    fn send_next(&mut self) {
        let LinkEmulator { config, content, plan } = self.emulator;
        if self.packet == 0 {
            let samples = plan.rates.iter();
            let samples = samples.map(|rate| rate.samples_of_slice(self.slice, config.slice_ns));
            self.samples.clear();
            self.samples.extend(samples);
        }
        let packet = &plan.packets[self.packet];
        let header = self.header(Kind::Samples, packet.link);
        let mut encoder = PacketEncoder::begin(&mut self.buffer, &header);
        for channel in &packet.channels {
            let samples = &self.samples[channel.rate];
            let bytes = (samples.end - samples.start) as usize * channel.sample_bytes;
            let entry =
                EntryHeader { channel: channel.number, first_sample: 0, bytes: bytes as u32 };
            assert!(encoder.push(&entry), "the plan leaves room");
            self.sample_bytes += bytes as u64;
        }
        let mut channels = packet.channels.iter();
        let bytes = encoder.finish_with(|_, out| {
            let channel = channels.next().expect("an entry for each");
            content.fill(channel.channel, self.samples[channel.rate].start, out);
        });
        let fragments = packet.channels.len() as u64;
        self.outlet.report(packet.link as u32).fragments_made += fragments;
        let datagram = Datagram { offset: 0, bytes: bytes as u32 };
        self.outlet.ship(packet.link as u32, &self.buffer, &[datagram], fragments);
        self.sequences[packet.link] += 1;
        self.packet += 1;
        if self.packet == plan.packets.len() {
            self.packet = 0;
            self.slice += 1;
        }
    }

    fn send_heartbeats(&mut self) {
        for link in 0..self.sequences.len() {
            let header = self.header(Kind::Heartbeat, link);
            let mut bytes = [0; HEADER_BYTES];
            encode_heartbeat(&mut bytes, &header);
            self.heartbeats += u64::from(self.outlet.send_aside(link as u32, &bytes));
        }
    }

    fn header(&self, kind: Kind, link: usize) -> Header {
        Header {
            kind,
            link: self.emulator.config.links[link].number,
            sequence: self.sequences[link],
            slice: self.slice,
            slice_ns: self.emulator.config.slice_ns,
        }
    }
}

impl Traffic for Run<'_> {
    fn send(&mut self, due: u64, elapsed_ns: u64) -> u64 {
        let slice = self.slice;
        (0..due).for_each(|_| self.send_next());
        if elapsed_ns >= self.heartbeat_ns {
            self.send_heartbeats();
            self.heartbeat_ns += self.emulator.config.heartbeat_ns;
        }
        self.slice - slice
    }

    /// Sends the rest of the slice, held packets, and the last heartbeats.
    fn finish(&mut self) -> u64 {
        let slice = self.slice;
        while self.packet != 0 {
            self.send_next();
        }
        (0..self.sequences.len()).for_each(|link| self.outlet.release(link as u32));
        (0..LAST_HEARTBEATS).for_each(|_| self.send_heartbeats());
        self.slice - slice
    }

    fn take_sent(&mut self) -> catchment_net::Sent {
        self.outlet.take_sent()
    }
}

/// A bit of magic, version or kind, where any change is detected.
fn corrupt_bit(_packet: &[u8], number: usize) -> usize {
    number % (6 * 8)
}

/// So that losing one does no harm.
const LAST_HEARTBEATS: u32 = 3;
