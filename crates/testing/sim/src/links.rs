//! Emulated channel links: what they send, and what their samples are.
//!
//! A sample's value follows from seed, link, channel and the sample's number, so any sample found
//! in a file can be checked. Packets are encoded here from docs/spec/link.md.

use catchment_fixtures::Random;
use catchment_frame::Dtype;
use catchment_model::SampleRate;
use catchment_recorder::{LinkConfig, RecorderConfig};
use catchment_wire::channel_link::PACKET_BYTES_MAX;
use catchment_wire::session::Release;

use crate::case::Case;
use crate::detector::Packet;
use crate::fault::Fault;
use crate::plan::Plan;
use crate::sessions::{SenderPlan, SkewPlan};

/// A link of the detector.
#[derive(Clone, Debug)]
pub struct LinkPlan {
    /// Its channels.
    pub channels: Vec<ChannelPlan>,
    /// Length of a slice in nanoseconds.
    pub slice_ns: u64,
    /// Channels per packet.
    pub channels_per_packet: usize,
    /// Whether its packets come over a session.
    pub is_session: bool,
}

/// A channel of a link.
#[derive(Clone, Copy, Debug)]
pub struct ChannelPlan {
    /// The type of its samples.
    pub dtype: Dtype,
    /// Samples per second, as numerator and denominator.
    pub rate: (u64, u64),
}

impl ChannelPlan {
    /// Bytes of a sample.
    pub fn sample_bytes(&self) -> u64 {
        self.dtype.bytes_of(1).expect("a number")
    }

    /// The rate as the node's type.
    pub fn sample_rate(&self) -> SampleRate {
        SampleRate::new(self.rate.0, self.rate.1).expect("a rate")
    }

    /// The numbers of the samples of a slice.
    pub fn samples_of(&self, slice: u64, slice_ns: u64) -> std::ops::Range<u64> {
        let (num, den) = (u128::from(self.rate.0), u128::from(self.rate.1) * 1_000_000_000);
        let first = |slice: u64| {
            let ticks = u128::from(slice) * u128::from(slice_ns) * num;
            u64::try_from(ticks.div_ceil(den)).expect("a number of a sample")
        };
        first(slice)..first(slice + 1)
    }
}

/// The front-ends that deliver links over sessions, each one link.
pub(crate) fn senders(case: &Case, links: &[LinkPlan], config: &RecorderConfig) -> Vec<SenderPlan> {
    let of = |(index, link): (usize, &LinkConfig)| {
        let mut chance = case.chance(&format!("session of link {index}"));
        let small = PACKET_BYTES_MAX as u64 + chance.below(64 << 10);
        SenderPlan {
            name: link.name.clone(),
            sources: vec![config.sources.len() + index],
            port: link.address.port(),
            ring_bytes: if case.faults.has(Fault::SmallRing) { small } else { 16 << 20 },
            socket_bytes: [500, 16 << 10, 256 << 10][chance.index(3)],
            abandons: false,
            release: Release::Durable,
            is_odd: false,
            is_naive: false,
            marks: false,
            reports: false,
            manners: None,
            has_settings: false,
            skew: SkewPlan::default(),
            is_channels: true,
        }
    };
    let all = config.links.iter().enumerate();
    all.filter(|(index, _)| links[*index].is_session).map(of).collect()
}

/// The bytes of a sample; short types use the first of them.
pub fn sample(seed: u64, (link, channel): (usize, usize), number: u64) -> [u8; 8] {
    // Some channels keep the same value for long.
    if !channel.is_multiple_of(2) {
        return (number / 64).to_le_bytes();
    }
    let place = (link as u64) << 32 | channel as u64;
    let seed = seed ^ place.rotate_left(17) ^ number.wrapping_mul(0x2545_f491);
    Random::new(seed).next_u64().to_le_bytes()
}

/// A running link.
#[derive(Debug)]
pub struct LinkState {
    index: usize,
    plan: LinkPlan,
    seed: u64,
    sequence: u64,
    last: Vec<Packet>,
}

impl LinkState {
    /// A link that starts.
    pub fn new(index: usize, plan: &LinkPlan, seed: u64) -> Self {
        Self { index, plan: plan.clone(), seed, sequence: 0, last: Vec::new() }
    }

    /// The links of a plan.
    pub(crate) fn of_plan(plan: &Plan) -> Vec<Self> {
        let link = |(index, link)| Self::new(index, link, plan.case.seed);
        plan.links.iter().enumerate().map(link).collect()
    }

    /// Stops the link; its packet numbers will restart.
    pub fn die(&mut self) {
        self.sequence = 0;
    }

    /// Repeats the last packets sent.
    pub fn again(&self) -> Vec<Packet> {
        self.last.clone()
    }

    /// A heartbeat.
    pub fn heartbeat(&self, slice: u64) -> Packet {
        Packet::unknown(self.header(2, slice, 0))
    }

    /// The packets of a slice.
    pub fn slice(&mut self, slice: u64) -> Vec<Packet> {
        let channels: Vec<usize> = (0..self.plan.channels.len()).collect();
        let mut packets = Vec::new();
        for channels in channels.chunks(self.plan.channels_per_packet) {
            packets.push(Packet::unknown(self.packet(slice, channels)));
            self.sequence += 1;
        }
        self.last.clone_from(&packets);
        packets
    }

    fn header(&self, kind: u8, slice: u64, entries: u16) -> Vec<u8> {
        let mut packet = b"CTLK".to_vec();
        packet.extend_from_slice(&[1, kind, 0, 0]);
        packet.extend_from_slice(&(self.index as u32).to_le_bytes());
        packet.extend_from_slice(&entries.to_le_bytes());
        packet.extend_from_slice(&[0; 2]);
        for word in [self.sequence, slice, self.plan.slice_ns, 0] {
            packet.extend_from_slice(&word.to_le_bytes());
        }
        packet
    }

    fn packet(&self, slice: u64, channels: &[usize]) -> Vec<u8> {
        let mut packet = self.header(1, slice, channels.len() as u16);
        let mut samples = Vec::new();
        for &channel in channels {
            let plan = &self.plan.channels[channel];
            let bytes = plan.sample_bytes() as usize;
            let numbers = plan.samples_of(slice, self.plan.slice_ns);
            let begin = samples.len();
            for number in numbers {
                let sample = sample(self.seed, (self.index, channel), number);
                samples.extend_from_slice(&sample[..bytes]);
            }
            let all = samples.len() - begin;
            for word in [channel as u32, 0, all as u32, 0] {
                packet.extend_from_slice(&word.to_le_bytes());
            }
            samples.resize(samples.len().next_multiple_of(8), 0);
        }
        packet.extend_from_slice(&samples);
        packet
    }
}
