//! Channel links as configured, and the values that follow.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;

use catchment_frame::Dtype;
use catchment_model::limits::SOURCES_MAX;
use catchment_model::printable::label_fault;
use catchment_model::{SampleRate, TimeScale};
use catchment_net::Network;
use catchment_wire::Transport;
use catchment_wire::link::{SAMPLES_BYTES_MAX, SLICE_NS_DEFAULT, SLICE_NS_MAX};

use crate::check::{check_name, refuse, require};
use crate::config::ConfigError;

/// A link: one sender of many channels, and the port that it sends to.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// Its name, unique among sources and links.
    pub name: String,
    /// The group in which displays summarize it.
    pub group: String,
    /// Where its packets arrive. Port 0 lets the system choose.
    pub address: SocketAddr,
    /// What carries its packets: datagrams, or a session (docs/spec/session.md, section 11).
    pub transport: Transport,
    /// The networks from which it may send; packets of others are refused. Empty: any.
    pub from: Vec<Network>,
    /// Nanoseconds of data in one slice; the same for all links of a recorder.
    pub slice_ns: u64,
    /// The time scale of its times; the same for all links of a recorder.
    pub time_scale: TimeScale,
    /// Its channels; their order gives them their numbers within the link.
    pub channels: Vec<ChannelConfig>,
}

/// A channel of a link.
#[derive(Clone, Debug)]
pub struct ChannelConfig {
    /// Its name, unique in the run.
    pub name: String,
    /// The type of its samples' elements: a number or a complex number.
    pub dtype: Dtype,
    /// The shape of one sample; empty for a scalar.
    pub shape: Vec<u64>,
    /// Samples per second.
    pub rate: SampleRate,
    /// The unit of its values; may be empty.
    pub unit: String,
    /// The factor of raw values.
    pub scale: Option<f64>,
    /// The offset added after scaling.
    pub offset: Option<f64>,
}

impl LinkConfig {
    /// A link with slices of the usual length, in TAI.
    pub fn new(name: impl Into<String>, address: SocketAddr, channels: Vec<ChannelConfig>) -> Self {
        Self {
            name: name.into(),
            group: "links".into(),
            address,
            transport: Transport::Datagrams,
            from: Vec::new(),
            slice_ns: SLICE_NS_DEFAULT,
            time_scale: TimeScale::Tai,
            channels,
        }
    }

    /// Whether it comes over a session, so that positions of its log are recorded.
    pub fn is_session(&self) -> bool {
        self.transport == Transport::Sessions
    }
}

impl ChannelConfig {
    /// A scalar channel without unit.
    pub fn new(name: impl Into<String>, dtype: Dtype, rate: SampleRate) -> Self {
        Self {
            name: name.into(),
            dtype,
            shape: Vec::new(),
            rate,
            unit: String::new(),
            scale: None,
            offset: None,
        }
    }

    /// Bytes of one sample.
    pub fn sample_bytes(&self) -> u64 {
        let elements = self.shape.iter().fold(1_u64, |all, &one| all.saturating_mul(one));
        self.dtype.bytes_of(elements).unwrap_or(u64::MAX)
    }

    /// Checks the channel against the capacity of a slice of that length; `path` is the key of its
    /// table.
    fn check(&self, path: &str, slice_ns: u64) -> Result<(), ConfigError> {
        let name = &self.name;
        let require = |holds, key: &str, expected: fmt::Arguments<'_>, got: &dyn fmt::Display| {
            require(holds, &format!("{path}.{key}"), expected, got)
        };
        let number =
            !matches!(self.dtype, Dtype::Opaque | Dtype::Bits | Dtype::Record | Dtype::Unknown(_));
        require(number, "dtype", format_args!("a type of numbers"), &self.dtype.name())?;
        let (most, bytes) = (SAMPLES_BYTES_MAX as u64, self.sample_bytes());
        let expected = format_args!("samples of 1 to {most} bytes ({name})");
        require((1..=most).contains(&bytes), "shape", expected, &bytes)?;
        let longest = match self.slice_ns_longest() / NS_PER_MS {
            0 => "even slices of 1 ms have more".to_owned(),
            ms => format!("slices of at most {ms} ms"),
        };
        let expected = format_args!("at most {most} bytes in a slice ({name}), so {longest}");
        let slice_ms = slice_ns as f64 / NS_PER_MS as f64;
        let got = format_args!("{} in {slice_ms} ms", self.slice_bytes_max(slice_ns));
        require(self.fits(slice_ns), "rate", expected, &got)?;
        let scale = self.scale.unwrap_or(1.0);
        let expected = format_args!("a finite number other than 0 ({name})");
        require(scale.is_finite() && scale != 0.0, "scale", expected, &scale)?;
        let offset = self.offset.unwrap_or(0.0);
        require(offset.is_finite(), "offset", format_args!("a finite number ({name})"), &offset)
    }

    /// Whether each of its slices fits into a datagram.
    fn fits(&self, slice_ns: u64) -> bool {
        self.slice_bytes_max(slice_ns) <= SAMPLES_BYTES_MAX as u64
    }

    /// The most bytes that it has in one slice. A slice has the samples of its length, or one less:
    /// the first one has all of them, since a sample is at its beginning.
    fn slice_bytes_max(&self, slice_ns: u64) -> u64 {
        self.sample_bytes().saturating_mul(self.rate.first_sample_at(slice_ns))
    }

    /// The longest slice that fits; its samples must be of 1 byte at least.
    fn slice_ns_longest(&self) -> u64 {
        self.rate.time_ns(SAMPLES_BYTES_MAX as u64 / self.sample_bytes())
    }
}

/// How long slices are by default: the longest part of a second in whole milliseconds, up to 250
/// ms, with which each channel's slice fits into a datagram and a frame of that duration consists
/// of whole slices. If there is none, the shortest slice, for which the checks report what does not
/// fit.
pub fn slice_ns_default(links: &[LinkConfig], duration_ns: u64) -> u64 {
    let lengths = (SLICE_NS_MIN..=SLICE_NS_DEFAULT).rev().step_by(NS_PER_MS as usize);
    let lengths = lengths.filter(|ns| NS_PER_S.is_multiple_of(*ns));
    let mut lengths = lengths.filter(|ns| duration_ns.is_multiple_of(*ns));
    let channels = || links.iter().flat_map(|link| &link.channels);
    lengths.find(|&ns| channels().all(|channel| channel.fits(ns))).unwrap_or(SLICE_NS_MIN)
}

/// Checks the links against their bounds and each other.
pub(crate) fn check_links(links: &[LinkConfig], duration_ns: u64) -> Result<(), ConfigError> {
    let channels = links.iter().map(|link| link.channels.len()).sum::<usize>();
    let expected = format_args!("at most {SOURCES_MAX} channels in all links");
    require(channels <= SOURCES_MAX, "links.channels", expected, channels)?;
    let mut names = BTreeSet::new();
    for (index, link) in links.iter().enumerate() {
        let key = format!("links[{index}].slice");
        let slice = link.slice_ns;
        let fits = (SLICE_NS_MIN..=SLICE_NS_MAX).contains(&slice);
        require(fits, &key, "1 ms to 1 h", format_args!("{slice} ns"))?;
        let same = slice == links[0].slice_ns && link.time_scale == links[0].time_scale;
        require(same, &key, "the same slice and time scale for all links", &link.name)?;
        let whole = duration_ns.is_multiple_of(slice);
        let expected = format_args!("a multiple of the links' slice, {slice} ns");
        require(whole, "frame.duration", expected, format_args!("{duration_ns} ns"))?;
        let is_known = link.transport != Transport::Connections;
        let key = format!("links[{index}].transport");
        require(is_known, &key, "datagrams or sessions", "connections without a session")?;
        let count = link.channels.len();
        require(count > 0, &format!("links[{index}].channels"), "at least one channel", count)?;
        for (number, channel) in link.channels.iter().enumerate() {
            let path = format!("links[{index}].channels[{number}]");
            let (key, name) = (format!("{path}.name"), &channel.name);
            check_name(&key, name, &mut names)?;
            // The recorder's own counters have these names among the trends.
            let own = name.starts_with(COUNTER_PREFIX);
            let expected = format_args!("a name that does not begin with {COUNTER_PREFIX}");
            require(!own, &key, expected, format_args!("{name:?}"))?;
            refuse(&format!("{path}.unit"), label_fault(&channel.unit))?;
            channel.check(&path, slice)?;
        }
    }
    Ok(())
}

/// The destination of a channel's samples: its link, and the chunks that it shares with others or
/// has alone.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    /// The link's index.
    pub(crate) link: usize,
    /// The index of its chunks: channels that would not fill one in a frame share them.
    pub(crate) chunk_lane: u32,
    pub(crate) rate: SampleRate,
    pub(crate) sample_bytes: u64,
}

/// All channels of all links, in order, and how many lanes of chunks they take.
pub(crate) fn lanes(links: &[LinkConfig], duration_ns: u64) -> (Vec<Lane>, Vec<u32>) {
    let mut lanes = Vec::new();
    // The link of each lane of chunks; each link's first one is for its slow channels.
    let mut chunk_lanes: Vec<u32> = Vec::new();
    for (index, link) in links.iter().enumerate() {
        let shared = chunk_lanes.len() as u32;
        chunk_lanes.push(index as u32);
        for channel in &link.channels {
            let samples = channel.rate.first_sample_at(duration_ns);
            let own = samples.saturating_mul(channel.sample_bytes()) >= OWN_CHUNK_BYTES_MIN;
            let chunk_lane = if own { chunk_lanes.len() as u32 } else { shared };
            if own {
                chunk_lanes.push(index as u32);
            }
            let (rate, sample_bytes) = (channel.rate, channel.sample_bytes());
            lanes.push(Lane { link: index, chunk_lane, rate, sample_bytes });
        }
    }
    (lanes, chunk_lanes)
}

/// The prefix of the names of the recorder's counters, which have trends beside the channels.
pub(crate) const COUNTER_PREFIX: &str = "catchment:";
/// Nanoseconds of the shortest slice supported.
pub(crate) const SLICE_NS_MIN: u64 = NS_PER_MS;
const NS_PER_MS: u64 = 1_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// Channels that bring fewer bytes per frame share chunks with others.
const OWN_CHUNK_BYTES_MIN: u64 = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(name: &str, dtype: Dtype, hz: u64) -> ChannelConfig {
        ChannelConfig::new(name, dtype, SampleRate::new(hz, 1).unwrap())
    }

    fn link(channels: Vec<ChannelConfig>) -> LinkConfig {
        LinkConfig::new("link", "127.0.0.1:0".parse().unwrap(), channels)
    }

    #[test]
    fn slow_channels_of_a_link_share_chunks() {
        let links = [
            link(vec![channel("a", Dtype::I16, 16), channel("b", Dtype::F32, 16_384)]),
            link(vec![channel("c", Dtype::I16, 16), channel("d", Dtype::I16, 1)]),
        ];
        let (lanes, chunk_lanes) = lanes(&links, 64_000_000_000);
        let indices: Vec<_> = lanes.iter().map(|lane| (lane.link, lane.chunk_lane)).collect();
        assert_eq!(indices, [(0, 0), (0, 1), (1, 2), (1, 2)]);
        assert_eq!(chunk_lanes, [0, 0, 1]);
    }

    #[test]
    fn links_that_cannot_work_are_refused() {
        let check = |link: LinkConfig| check_links(&[link], 64_000_000_000).map_err(|e| e.key);
        let refused = |key: &str| Err(key.to_owned());
        assert_eq!(check(link(vec![channel("a", Dtype::F32, 65_440)])), Ok(()));
        assert_eq!(
            check(link(vec![channel("a", Dtype::F32, 65_441)])),
            refused("links[0].channels[0].rate")
        );
        assert_eq!(
            check(link(vec![channel("a", Dtype::Bits, 1)])),
            refused("links[0].channels[0].dtype")
        );
        assert_eq!(check(link(Vec::new())), refused("links[0].channels"));
        let twice = vec![channel("a", Dtype::F32, 1), channel("a", Dtype::F32, 1)];
        assert_eq!(check(link(twice)), refused("links[0].channels[1].name"));
        let shaped = |shape: &[u64]| {
            check(link(vec![ChannelConfig {
                shape: shape.to_vec(),
                ..channel("a", Dtype::F32, 1)
            }]))
        };
        assert_eq!(shaped(&[2, 8_180]), Ok(()));
        assert_eq!(shaped(&[2, 8_181]), refused("links[0].channels[0].shape"));
        assert_eq!(shaped(&[2, 0]), refused("links[0].channels[0].shape"));
        assert_eq!(shaped(&[1 << 40, 1 << 40]), refused("links[0].channels[0].shape"));
        let odd = LinkConfig { slice_ns: 3_000_000, ..link(vec![channel("a", Dtype::F32, 1)]) };
        assert_eq!(check(odd), refused("frame.duration"));
    }

    #[test]
    fn slices_are_the_longest_round_ones_that_fit_every_channel() {
        let default = |channels: Vec<ChannelConfig>, duration_ns| {
            let links = [link(vec![channel("slow", Dtype::F64, 1)]), link(channels)];
            let slice_ns = slice_ns_default(&links, duration_ns);
            let fit = links[1].channels.iter().all(|channel| channel.check("", slice_ns).is_ok());
            (slice_ns / NS_PER_MS, fit)
        };
        let of = |dtype, hz| default(vec![channel("a", dtype, hz)], 64_000_000_000);
        assert_eq!(of(Dtype::F32, 65_440), (250, true));
        assert_eq!(of(Dtype::F32, 65_441), (200, true));
        assert_eq!(of(Dtype::F32, 1_000_000), (10, true));
        assert_eq!(of(Dtype::C128, 1_000_000), (4, true));
        assert_eq!(of(Dtype::U8, 1_000_000), (50, true));
        assert_eq!(of(Dtype::U8, 65_440_000), (1, true));
        assert_eq!(of(Dtype::U8, 65_440_001), (1, false));
        let vector = ChannelConfig { shape: vec![512], ..channel("a", Dtype::F64, 64) };
        assert_eq!(default(vec![vector], 64_000_000_000), (200, true));
        // Whole slices of a frame, where there are such.
        assert_eq!(default(Vec::new(), 100_000_000), (100, true));
        assert_eq!(default(Vec::new(), 1_000), (1, true));
    }

    #[test]
    fn the_longest_slice_that_is_told_is_the_longest_that_fits() {
        for (dtype, hz) in [(Dtype::F32, 1_000_000), (Dtype::C64, 65_441), (Dtype::I16, 16_384)] {
            let channel = channel("a", dtype, hz);
            let longest_ns = channel.slice_ns_longest();
            assert!(channel.fits(longest_ns) && !channel.fits(longest_ns + NS_PER_MS));
            let refused = channel.check("", longest_ns + NS_PER_S).unwrap_err();
            let limit = format!("slices of at most {} ms", longest_ns / NS_PER_MS);
            assert!(refused.expected.ends_with(&limit), "{refused:?}");
        }
        let refused = channel("a", Dtype::C128, 10_000_000).check("", SLICE_NS_MIN).unwrap_err();
        assert!(refused.expected.ends_with("even slices of 1 ms have more"), "{refused:?}");
    }
}
