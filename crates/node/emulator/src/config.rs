//! What an emulator needs to know.

use std::net::SocketAddr;

use catchment_model::limits::{DATAGRAM_BYTES_MAX, SOURCES_MAX};
use catchment_wire::hadtu::{ByteOrder, PAYLOAD_BYTES_MAX, TRIGGER_NUMBER_BITS};

/// One source.
#[derive(Clone, Debug, PartialEq)]
pub struct EmulatedSource {
    /// The group that displays sum it up in.
    pub group: String,
    /// Mean bytes of payload; the sub-event's header of 16 bytes comes on top. HADES' tests, and
    /// DABC's, give their sizes in the same way.
    pub mean_bytes: f64,
    /// Standard deviation of the payload's bytes, as a share of the mean.
    pub sigma: f64,
    /// The id that its sub-events carry.
    pub sub_event_id: u32,
}

/// Faults made on purpose. A packet has at most one of the first four.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    /// Share of the packets that are not sent.
    pub lose: f64,
    /// Share of the packets that are sent twice in a row.
    pub duplicate: f64,
    /// Share of the packets that are sent after their source's next one.
    pub reorder: f64,
    /// Share of the packets of which one bit is turned over, where the packet's trailer must show
    /// it.
    pub corrupt: f64,
    /// A source that sends nothing from that event on.
    pub kill: Option<(u32, u64)>,
    /// A source whose trigger numbers begin again at 0 with that event.
    pub restart: Option<(u32, u64)>,
}

/// An emulator.
#[derive(Clone, Debug, PartialEq)]
pub struct EmulatorConfig {
    /// The sources; their order gives them their numbers.
    pub sources: Vec<EmulatedSource>,
    /// Where each source sends to.
    pub targets: Vec<SocketAddr>,
    /// What sizes, payloads and faults are drawn from.
    pub seed: u64,
    /// Events per second; none sends as fast as it can.
    pub rate_hz: Option<f64>,
    /// A source's queue is sent when it has so many bytes; 0 sends every sub-event alone.
    pub water_mark_bytes: usize,
    /// A queue that is not full is sent when its oldest sub-event has waited so long.
    pub flush_ns: u64,
    /// One sub-event per so many events of a source is huge, at random; 0 for none.
    pub huge_every: u64,
    /// Payload bytes of a huge one.
    pub huge_bytes: usize,
    /// Lets so many events in a row have one size per source, so that their packets go out
    /// together.
    pub equal_bursts: Option<u32>,
    /// The first event; its low 24 bits are the first trigger number.
    pub first_event: u64,
    /// Ends after so many events.
    pub events: Option<u64>,
    /// Ends after so many seconds: with a rate, after exactly the events that belong to them.
    pub seconds: Option<f64>,
    /// Faults made on purpose.
    pub faults: Faults,
    /// The byte order of all headers.
    pub byte_order: ByteOrder,
    /// The CPU to run on.
    pub cpu: Option<usize>,
}

impl Default for EmulatorConfig {
    fn default() -> Self {
        Self {
            sources: Vec::new(),
            targets: Vec::new(),
            seed: 1,
            rate_hz: None,
            water_mark_bytes: 32_000,
            flush_ns: 100_000_000,
            huge_every: 0,
            huge_bytes: 60_000,
            equal_bursts: None,
            first_event: 1,
            events: None,
            seconds: None,
            faults: Faults::default(),
            byte_order: ByteOrder::Big,
            cpu: None,
        }
    }
}

/// HADES as its event builder was tested: 60 sources of 116 bytes, 20 of 338 and 10 of 1,170, each
/// smeared by 20 %.
pub fn hades_90() -> Vec<EmulatedSource> {
    [("small", 60, 116.0), ("medium", 20, 338.0), ("large", 10, 1_170.0)]
        .into_iter()
        .flat_map(|(group, count, mean_bytes)| std::iter::repeat_n((group, mean_bytes), count))
        .zip(0x8000..)
        .map(|((group, mean_bytes), sub_event_id)| EmulatedSource {
            group: group.to_owned(),
            mean_bytes,
            sigma: 0.2,
            sub_event_id,
        })
        .collect()
}

/// The sources of a preset; none of that name, no sources.
pub fn preset(name: &str) -> Option<Vec<EmulatedSource>> {
    (name == "hades-90").then(hades_90)
}

/// A configuration that cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A number is outside its range.
    #[error("{key}: expected {expected}, got {got}")]
    Range {
        /// The field.
        key: &'static str,
        /// What would have been right.
        expected: String,
        /// What stood there.
        got: String,
    },
    /// A source that a fault names does not exist.
    #[error("faults.{key}: expected a source below {sources}, got {got}")]
    FaultSource {
        /// Which fault.
        key: &'static str,
        /// How many sources there are.
        sources: usize,
        /// The source that was named.
        got: u32,
    },
    /// A channel whose type is none of a number.
    #[error("channel {channel}: expected a number type, got {got}")]
    ChannelType {
        /// The channel's name.
        channel: String,
        /// Its type's name.
        got: &'static str,
    },
    /// A channel whose samples have no elements.
    #[error("channel {channel}: expected a shape without 0, got {got:?}")]
    ChannelShape {
        /// The channel's name.
        channel: String,
        /// Its shape.
        got: Vec<u64>,
    },
    /// A channel's samples of one slice do not fit into one packet.
    #[error("channel {channel}: a slice has {got} bytes of it, a packet has room for {most}")]
    ChannelPart {
        /// The channel's name.
        channel: String,
        /// Most bytes of a slice.
        got: u64,
        /// Bytes of samples that a packet carries.
        most: usize,
    },
    /// There is not one target per source.
    #[error("targets: expected one for each of the {sources} sources, got {targets}")]
    Targets {
        /// How many sources there are.
        sources: usize,
        /// How many targets there are.
        targets: usize,
    },
}

impl EmulatorConfig {
    /// The event to which a key belongs that a recorder gave to a fragment of `source`. Keys are
    /// events, except behind a restart: there they count anew, from the trigger numbers' next turn
    /// on. Needs a first event below 2^24, as the recorder has no other way to know it.
    pub fn event_of_key(&self, source: u32, key: u64) -> u64 {
        if let Some((restarted, event)) = self.faults.restart
            && restarted == source
            && event > self.first_event
        {
            let turn = (((event - 1) >> TRIGGER_NUMBER_BITS) + 1) << TRIGGER_NUMBER_BITS;
            if key >= turn {
                return event + (key - turn);
            }
        }
        key
    }

    /// Mean bytes that all sources send for one event, packet headers not counted.
    pub fn event_bytes(&self) -> f64 {
        let huge = match self.huge_every {
            0 => 0.0,
            every => self.huge_bytes as f64 * self.sources.len() as f64 / every as f64,
        };
        self.sources.iter().map(|source| source.mean_bytes + 16.0).sum::<f64>() + huge
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let sources = self.sources.len();
        range("sources", sources, 1..=SOURCES_MAX)?;
        if self.targets.len() != sources {
            return Err(ConfigError::Targets { sources, targets: self.targets.len() });
        }
        for source in &self.sources {
            range("mean_bytes", source.mean_bytes, 4.0..=PAYLOAD_BYTES_MAX as f64)?;
            range("sigma", source.sigma, 0.0..=10.0)?;
        }
        for target in &self.targets {
            range("targets' ports", target.port(), 1..=u16::MAX)?;
        }
        if let Some(rate_hz) = self.rate_hz {
            range("rate_hz", rate_hz, 1e-3..=1e9)?;
        }
        if let Some(seconds) = self.seconds {
            range("seconds", seconds, 0.0..=1e9)?;
        }
        if let Some(events) = self.equal_bursts {
            range("equal_bursts", events, 1..=EQUAL_BURSTS_MAX)?;
        }
        range("water_mark_bytes", self.water_mark_bytes, 0..=DATAGRAM_BYTES_MAX)?;
        range("huge_bytes", self.huge_bytes, 0..=PAYLOAD_BYTES_MAX)?;
        range("first_event", self.first_event, 0..=1 << 62)?;
        range("events", self.events.unwrap_or(0), 0..=1 << 62)?;
        let faults = &self.faults;
        faults.check()?;
        for (key, place) in [("kill", faults.kill), ("restart", faults.restart)] {
            match place {
                Some((got, _)) if got as usize >= sources => {
                    return Err(ConfigError::FaultSource { key, sources, got });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Faults {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        for (key, share) in [
            ("faults.lose", self.lose),
            ("faults.duplicate", self.duplicate),
            ("faults.reorder", self.reorder),
            ("faults.corrupt", self.corrupt),
            ("the faults' sum", self.sum()),
        ] {
            range(key, share, 0.0..=1.0)?;
        }
        Ok(())
    }

    /// The share of packets that have a fault.
    pub(crate) fn sum(&self) -> f64 {
        self.lose + self.duplicate + self.reorder + self.corrupt
    }
}

pub(crate) fn range<T: PartialOrd + std::fmt::Display>(
    key: &'static str,
    value: T,
    allowed: std::ops::RangeInclusive<T>,
) -> Result<(), ConfigError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let expected = format!("{} to {}", allowed.start(), allowed.end());
    Err(ConfigError::Range { key, expected, got: value.to_string() })
}

/// Events of one size in a row.
const EQUAL_BURSTS_MAX: u32 = 1_024;
