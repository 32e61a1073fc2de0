//! The configuration of an emulator of channel links, and the packing of channels into packets.

use std::net::SocketAddr;

use catchment_model::limits::{DATAGRAM_BYTES_MAX, SOURCES_MAX};
use catchment_model::{SampleRate, TimeScale};
use catchment_wire::link::{ENTRY_BYTES, HEADER_BYTES, SLICE_NS_DEFAULT, SLICE_NS_MAX};

use crate::channels::EmulatedChannel;
use crate::config::{ConfigError, Faults, range, require};

/// One sender of channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmulatedLink {
    /// The number in its packets.
    pub number: u32,
    /// Its target address.
    pub target: SocketAddr,
    /// Its name, if it goes there over a session and not as datagrams.
    pub session: Option<String>,
    /// Its channels by their indices in the configuration's list, in the order of their numbers
    /// within the link.
    pub channels: Vec<u32>,
}

impl EmulatedLink {
    /// One link per target, with the channels dealt out one by one: channel `c` of all is number
    /// `c / n` of link `c % n`.
    pub fn dealt(channels: usize, targets: &[SocketAddr]) -> Vec<Self> {
        (0..)
            .zip(targets)
            .map(|(number, &target)| {
                let channels = (number..channels as u32).step_by(targets.len()).collect();
                Self { number, target, session: None, channels }
            })
            .collect()
    }
}

/// An emulator of channel links.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkEmulatorConfig {
    /// The channels of all links; their order gives them their content.
    pub channels: Vec<EmulatedChannel>,
    /// The links. A channel may be in several, or in none.
    pub links: Vec<EmulatedLink>,
    /// The seed of samples and faults.
    pub seed: u64,
    /// Nanoseconds per slice.
    pub slice_ns: u64,
    /// The time scale from whose epoch samples and slices are counted.
    pub time_scale: TimeScale,
    /// Seconds of data per second; none sends as fast as possible.
    pub multiple: Option<f64>,
    /// Bytes of a packet, at most.
    pub packet_bytes: usize,
    /// The first slice; none means the present one.
    pub first_slice: Option<u64>,
    /// Ends after that many slices.
    pub slices: Option<u64>,
    /// Ends after that many seconds: with a multiple, after exactly the slices of that time.
    pub seconds: Option<f64>,
    /// Nanoseconds between a link's heartbeats.
    pub heartbeat_ns: u64,
    /// Injected faults, except kill and restart, which links do not have.
    pub faults: Faults,
    /// The CPU to run on.
    pub cpu: Option<usize>,
}

impl Default for LinkEmulatorConfig {
    fn default() -> Self {
        Self {
            channels: Vec::new(),
            links: Vec::new(),
            seed: 1,
            slice_ns: SLICE_NS_DEFAULT,
            time_scale: TimeScale::Tai,
            multiple: Some(1.0),
            packet_bytes: 60_000,
            first_slice: None,
            slices: None,
            seconds: None,
            heartbeat_ns: 1_000_000_000,
            faults: Faults::default(),
            cpu: None,
        }
    }
}

impl LinkEmulatorConfig {
    /// Mean bytes of samples per second of data, over all links.
    pub fn byte_rate(&self) -> f64 {
        let channels = self.links.iter().flat_map(|link| &link.channels);
        channels.map(|channel| self.channels[*channel as usize].byte_rate()).sum()
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        range("channels", self.channels.len(), 1..=CHANNELS_MAX)?;
        range("links", self.links.len(), 1..=SOURCES_MAX)?;
        range("slice_ns", self.slice_ns, 1_000_000..=SLICE_NS_MAX)?;
        range("packet_bytes", self.packet_bytes, 512..=DATAGRAM_BYTES_MAX)?;
        range("heartbeat_ns", self.heartbeat_ns, 1_000_000..=1 << 62)?;
        // A slice's time has 63 bits; half of the range is left for the run.
        range("first_slice", self.first_slice.unwrap_or(0), 0..=(1 << 62) / self.slice_ns)?;
        range("slices", self.slices.unwrap_or(0), 0..=(1 << 61) / self.slice_ns)?;
        range("multiple", self.multiple.unwrap_or(1.0), 1e-6..=1e6)?;
        // As data time, too, these are less than the run's half of the range.
        range("seconds", self.seconds.unwrap_or(0.0), 0.0..=1e9)?;
        let data_s = self.seconds.unwrap_or(0.0) * self.multiple.unwrap_or(0.0);
        range("seconds of data", data_s, 0.0..=1e9)?;
        self.faults.check()?;
        let most = self.packet_bytes - HEADER_BYTES - ENTRY_BYTES;
        for channel in &self.channels {
            let key = format!("channel {}", channel.name);
            let number = channel.element_bytes() != 0;
            require(number, &key, "a number type", channel.dtype.name())?;
            let shape = format_args!("{:?}", channel.shape);
            require(!channel.shape.contains(&0), &key, "a shape without 0", shape)?;
            let got = self.part_bytes_max(channel);
            let expected =
                format_args!("at most {most} bytes in a slice, which a packet has room for");
            require(got <= (most & !7) as u64, &key, expected, got)?;
        }
        for link in &self.links {
            range("links' channels", link.channels.len(), 1..=CHANNELS_MAX)?;
            range("targets' ports", link.target.port(), 1..=u16::MAX)?;
            for &channel in &link.channels {
                range("links' channels", channel as usize, 0..=self.channels.len() - 1)?;
            }
        }
        Ok(())
    }

    /// Allows packets as large as a datagram can be, if some channel's part of a slice needs that.
    pub fn make_room(&mut self) {
        let room = self.packet_bytes.saturating_sub(HEADER_BYTES + ENTRY_BYTES) & !7;
        if self.channels.iter().any(|channel| self.part_bytes_max(channel) > room as u64) {
            self.packet_bytes = DATAGRAM_BYTES_MAX;
        }
    }

    /// The most bytes of a channel's samples in one slice. A slice has that many samples, or one
    /// fewer.
    fn part_bytes_max(&self, channel: &EmulatedChannel) -> u64 {
        let samples = channel.rate.first_sample_at(self.slice_ns);
        samples.saturating_mul(channel.sample_bytes() as u64)
    }
}

/// The packing of channels into packets, the same for every slice.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The packets of one slice, link by link.
    pub packets: Vec<PlannedPacket>,
    /// The distinct rates.
    pub rates: Vec<SampleRate>,
}

#[derive(Clone, Debug)]
pub(crate) struct PlannedPacket {
    pub link: usize,
    pub channels: Vec<PlannedChannel>,
    // Including the entries' headers.
    bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedChannel {
    /// Its number within the link.
    pub number: u32,
    /// Its index in the configuration's list.
    pub channel: u32,
    /// Its rate's index in the plan.
    pub rate: usize,
    pub sample_bytes: usize,
}

impl Plan {
    /// Packs the largest parts first, each into the first packet with room.
    pub fn new(config: &LinkEmulatorConfig) -> Self {
        let mut rates: Vec<SampleRate> = Vec::new();
        let mut packets: Vec<PlannedPacket> = Vec::new();
        for (link, emulated) in config.links.iter().enumerate() {
            let mut parts: Vec<(usize, PlannedChannel)> = (0..)
                .zip(&emulated.channels)
                .map(|(number, &index)| {
                    let channel = &config.channels[index as usize];
                    let known = rates.iter().position(|rate| *rate == channel.rate);
                    let rate = known.unwrap_or_else(|| {
                        rates.push(channel.rate);
                        rates.len() - 1
                    });
                    let sample_bytes = channel.sample_bytes();
                    let bytes = config.part_bytes_max(channel).next_multiple_of(8) as usize;
                    let planned = PlannedChannel { number, channel: index, rate, sample_bytes };
                    (ENTRY_BYTES + bytes, planned)
                })
                .collect();
            parts.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
            let first = packets.len();
            for (bytes, channel) in parts {
                let room = config.packet_bytes - HEADER_BYTES - bytes;
                let packet = match packets[first..].iter_mut().find(|packet| packet.bytes <= room) {
                    Some(packet) => packet,
                    None => packets.push_mut(PlannedPacket { link, channels: vec![], bytes: 0 }),
                };
                packet.bytes += bytes;
                packet.channels.push(channel);
            }
        }
        Self { packets, rates }
    }
}

/// The total number of channels.
const CHANNELS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::ligo_1000;

    fn config(links: u16) -> LinkEmulatorConfig {
        let targets: Vec<SocketAddr> =
            (0..links).map(|port| ([127, 0, 0, 1], 5_000 + port).into()).collect();
        let channels = ligo_1000();
        let links = EmulatedLink::dealt(channels.len(), &targets);
        LinkEmulatorConfig { channels, links, ..LinkEmulatorConfig::default() }
    }

    #[test]
    fn every_channel_is_in_one_packet_of_its_link() {
        for links in [1, 3, 8] {
            let config = config(links);
            config.check().unwrap();
            let plan = Plan::new(&config);
            assert_eq!(plan.rates.len(), 4);
            let mut seen = vec![0; 1_000];
            for packet in &plan.packets {
                assert!(packet.bytes + HEADER_BYTES <= config.packet_bytes);
                for channel in &packet.channels {
                    seen[channel.channel as usize] += 1;
                    let link = &config.links[packet.link];
                    assert_eq!(link.channels[channel.number as usize], channel.channel);
                }
            }
            assert_eq!(seen, [1; 1_000]);
            // 908 kB of samples and 16 kB of entries.
            assert!(plan.packets.len() <= 16 + usize::from(links), "{}", plan.packets.len());
        }
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        let refused = |change: fn(&mut LinkEmulatorConfig)| {
            let mut config = config(2);
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert_eq!(
            refused(|config| config.slice_ns = 1_000_000_000),
            "channel L1:FAST-0000: expected at most 59936 bytes in a slice, which a packet has room for, got \
             65536"
        );
        assert!(refused(|config| config.links.clear()).contains("links"));
        assert!(refused(|config| config.links[1].channels.push(1_000)).contains("0 to 999"));
        assert!(refused(|config| config.links[0].channels.clear()).contains("channels"));
        assert!(refused(|config| config.slice_ns = 0).contains("slice_ns"));
        assert!(refused(|config| config.multiple = Some(0.0)).contains("multiple"));
        assert!(refused(|config| config.multiple = Some(f64::NAN)).contains("multiple"));
        assert!(refused(|config| config.first_slice = Some(u64::MAX)).contains("first_slice"));
        assert!(refused(|config| config.faults.lose = 1.5).contains("faults.lose"));
        assert!(
            refused(|config| config.channels[7].dtype = catchment_frame::Dtype::Opaque)
                .contains("L1:FAST-0007: expected a number type")
        );
        assert!(refused(|config| config.channels[7].shape = vec![2, 0]).contains("without 0"));
        assert_eq!(
            refused(|config| config.channels[999].shape = vec![125, 60]),
            "channel L1:STATE-0499: expected at most 59936 bytes in a slice, which a packet has room for, \
             got 60000"
        );
        let endless = refused(|config| config.channels[999].shape = vec![1 << 40, 1 << 40]);
        assert!(endless.contains("at most 59936 bytes in a slice"), "{endless}");
    }

    #[test]
    fn packets_are_larger_than_usual_only_where_a_channel_needs_it() {
        let mut config = config(1);
        config.make_room();
        assert_eq!(config.packet_bytes, LinkEmulatorConfig::default().packet_bytes);
        config.channels[999].shape = vec![125, 60];
        config.make_room();
        config.check().unwrap();
        assert!(Plan::new(&config).packets.iter().any(|packet| packet.bytes >= 60_000));
    }
}
