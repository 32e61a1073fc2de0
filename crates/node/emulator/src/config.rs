//! The configuration of an emulator.

use std::fmt::Display;
use std::net::SocketAddr;
use std::ops::RangeInclusive;

use catchment_model::limits::{DATAGRAM_BYTES_MAX, SOURCES_MAX};
use catchment_model::units::Size;
use catchment_wire::hadtu::{ByteOrder, PAYLOAD_BYTES_MAX, TRIGGER_NUMBER_BITS};
use catchment_wire::layouts;
use serde::{Deserialize, Deserializer};

use crate::boards::{Board, Clocks};

/// One source. A configuration file gives sizes per group.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmulatedSource {
    /// The group under which displays sum it up.
    pub group: String,
    /// Mean bytes of payload; the sub-event's header adds 16 bytes. The tests of HADES and DABC
    /// give sizes in the same way.
    #[serde(rename = "mean", deserialize_with = "Size::read")]
    pub mean_bytes: f64,
    /// Standard deviation of the payload's size, as a share of the mean.
    #[serde(default = "sigma_default")]
    pub sigma: f64,
    /// The id that its sub-events carry.
    #[serde(skip)]
    pub sub_event_id: u32,
    /// How its packets are written; as those of hadtu, if nothing declares that.
    #[serde(skip)]
    pub board: Option<Board>,
}

/// Injected faults. A packet has at most one of the first four.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// Share of the packets that are not sent.
    pub lose: f64,
    /// Share of the packets that are sent twice in a row.
    pub duplicate: f64,
    /// Share of the packets that are sent after their source's next one.
    pub reorder: f64,
    /// Share of the packets in which one bit is flipped, where the packet's trailer must reveal it.
    pub corrupt: f64,
    /// A source that sends nothing from that event on.
    #[serde(deserialize_with = "source_and_event")]
    pub kill: Option<(u32, u64)>,
    /// A source whose trigger numbers restart at 0 with that event.
    #[serde(deserialize_with = "source_and_event")]
    pub restart: Option<(u32, u64)>,
}

/// An emulator.
#[derive(Clone, Debug, PartialEq)]
pub struct EmulatorConfig {
    /// The sources; their order gives them their numbers.
    pub sources: Vec<EmulatedSource>,
    /// The target address of each source.
    pub targets: Vec<SocketAddr>,
    /// The seed of sizes, payloads and faults.
    pub seed: u64,
    /// Events per second; none sends as fast as possible.
    pub rate_hz: Option<f64>,
    /// A source's queue is sent when it has that many bytes; 0 sends every sub-event alone.
    pub water_mark_bytes: usize,
    /// A queue that is not full is sent when its oldest sub-event has waited that long.
    pub flush_ns: u64,
    /// One in that many sub-events of a source is huge, at random; 0 for none.
    pub huge_every: u64,
    /// Payload bytes of a huge one.
    pub huge_bytes: usize,
    /// Gives that many consecutive events one size per source, so that their packets are sent
    /// together.
    pub equal_bursts: Option<u32>,
    /// The first event; its low 24 bits are the first trigger number.
    pub first_event: u64,
    /// Ends after that many events.
    pub events: Option<u64>,
    /// Ends after that many seconds: with a rate, after exactly the events of that time.
    pub seconds: Option<f64>,
    /// Injected faults.
    pub faults: Faults,
    /// The clocks of sources whose packets are declared.
    pub clocks: Clocks,
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
            clocks: Clocks::default(),
            byte_order: ByteOrder::Big,
            cpu: None,
        }
    }
}

/// HADES as in the tests of its event builder: 60 sources of 116 bytes, 20 of 338 and 10 of 1,170,
/// each smeared by 20 %.
pub fn hades_90() -> Vec<EmulatedSource> {
    [("small", 60, 116.0), ("medium", 20, 338.0), ("large", 10, 1_170.0)]
        .into_iter()
        .flat_map(|(group, count, mean_bytes)| std::iter::repeat_n((group, mean_bytes), count))
        .zip(0x8000..)
        .map(|((group, mean_bytes), sub_event_id)| EmulatedSource {
            group: group.to_owned(),
            mean_bytes,
            sigma: sigma_default(),
            sub_event_id,
            board: None,
        })
        .collect()
}

/// ALPHA-g's detector: 64 boards of cathode pads and 8 of anode wires with clocks of 125 MHz, each
/// fragment in a datagram of 1.4 kB ([`alpha_72`] of layouts).
pub fn alpha_72() -> Vec<EmulatedSource> {
    let board = Board::new(layouts::alpha_72());
    let source = |(index, sub_event_id)| EmulatedSource {
        group: if index < ALPHA_PADS { "pad" } else { "wire" }.into(),
        mean_bytes: ALPHA_BODY_BYTES,
        sigma: 0.0,
        sub_event_id,
        board: Some(board.clone()),
    };
    (0..ALPHA_BOARDS).zip(1..).map(source).collect()
}

/// A source of a board that nothing says more of: 100 bytes.
pub fn plain_board(group: &str) -> EmulatedSource {
    EmulatedSource {
        group: group.to_owned(),
        mean_bytes: 100.0,
        sigma: 0.0,
        sub_event_id: 0,
        board: None,
    }
}

/// The sources of a preset; none if there is none of that name.
pub fn preset(name: &str) -> Option<Vec<EmulatedSource>> {
    match name {
        "hades-90" => Some(hades_90()),
        "alpha-72" => Some(alpha_72()),
        _ => None,
    }
}

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: expected {expected}, got {got}")]
pub struct ConfigError {
    /// The key, as in a configuration file if it has one.
    pub key: String,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub got: String,
}

impl EmulatorConfig {
    /// The event for a key that a recorder assigned to a fragment of `source`. Keys are events,
    /// except after a restart: from there on they count again, from the next cycle of the trigger
    /// numbers. Requires a first event below 2^24, since a recorder cannot know more of it.
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

    /// Mean bytes that all sources send per event, without packet headers.
    pub fn event_bytes(&self) -> f64 {
        let huge = match self.huge_every {
            0 => 0.0,
            every => self.huge_bytes as f64 * self.sources.len() as f64 / every as f64,
        };
        self.sources.iter().map(|source| source.mean_bytes + 16.0).sum::<f64>() + huge
    }

    /// Checks every value against its bounds.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let (sources, targets) = (self.sources.len(), self.targets.len());
        range("sources", sources, 1..=SOURCES_MAX)?;
        let expected = format_args!("one for each of the {sources} sources");
        require(targets == sources, "targets", expected, targets)?;
        for target in &self.targets {
            range("targets' ports", target.port(), 1..=u16::MAX)?;
        }
        self.check_values()
    }

    /// Checks everything that does not depend on the sources' targets.
    ///
    /// # Errors
    /// The first value out of bounds, by its key in `[emulator]`.
    pub fn check_values(&self) -> Result<(), ConfigError> {
        for (index, source) in self.sources.iter().enumerate() {
            source.check(&format!("sources[{index}]"))?;
        }
        range("rate", self.rate_hz.unwrap_or(1.0), 1e-3..=1e9)?;
        range("seconds", self.seconds.unwrap_or(0.0), 0.0..=1e9)?;
        for (key, bytes, most) in [
            ("water_mark", self.water_mark_bytes, DATAGRAM_BYTES_MAX),
            ("huge_bytes", self.huge_bytes, PAYLOAD_BYTES_MAX),
        ] {
            require(bytes <= most, key, format_args!("at most {most} bytes"), bytes)?;
        }
        let events = self.equal_bursts.unwrap_or(1);
        let expected = format_args!("1 to {EQUAL_BURSTS_MAX} events");
        require((1..=EQUAL_BURSTS_MAX).contains(&events), "equal_bursts", expected, events)?;
        range("first_event", self.first_event, 0..=1 << 62)?;
        range("events", self.events.unwrap_or(0), 0..=1 << 62)?;
        let (sources, faults) = (self.sources.len(), &self.faults);
        faults.check()?;
        self.clocks.check()?;
        let mut boards = self.sources.iter().filter_map(|source| source.board.as_ref()).peekable();
        if boards.peek().is_some() {
            require(
                self.huge_every == 0,
                "huge_every",
                "0 with declared layouts",
                self.huge_every,
            )?;
            let shows = faults.corrupt == 0.0 || boards.all(Board::shows_changes);
            let expected = "layouts with a checksum of the whole packet";
            require(shows, "faults.corrupt", expected, "one without")?;
        }
        for (key, at) in [("faults.kill", faults.kill), ("faults.restart", faults.restart)] {
            let Some((source, _)) = at else { continue };
            let expected = format_args!("a source below {sources}");
            require((source as usize) < sources, key, expected, source)?;
        }
        Ok(())
    }
}

impl EmulatedSource {
    /// Checks its sizes; `path` is the key of the table that contains them.
    ///
    /// # Errors
    /// The first one out of bounds, by its key.
    pub fn check(&self, path: &str) -> Result<(), ConfigError> {
        let (mean, sigma) = (self.mean_bytes, self.sigma);
        let expected = format_args!("4 to {PAYLOAD_BYTES_MAX} bytes");
        let fits = (4.0..=PAYLOAD_BYTES_MAX as f64).contains(&mean);
        require(fits, &format!("{path}.mean"), expected, mean)?;
        let expected = "a share of the mean, 0 to 10";
        require((0.0..=10.0).contains(&sigma), &format!("{path}.sigma"), expected, sigma)?;
        self.board.as_ref().map_or(Ok(()), |board| board.check(path, mean))
    }
}

impl Faults {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        for (key, share) in [
            ("faults.lose", self.lose),
            ("faults.duplicate", self.duplicate),
            ("faults.reorder", self.reorder),
            ("faults.corrupt", self.corrupt),
            ("faults", self.sum()),
        ] {
            let expected = "a share of the packets, 0 to 1";
            require((0.0..=1.0).contains(&share), key, expected, share)?;
        }
        Ok(())
    }

    /// The share of packets with a fault.
    pub(crate) fn sum(&self) -> f64 {
        self.lose + self.duplicate + self.reorder + self.corrupt
    }
}

/// As in HADES' tests.
fn sigma_default() -> f64 {
    0.2
}

/// `{ source = 3, event = 1000 }`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceEvent {
    source: u32,
    event: u64,
}

fn source_and_event<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<(u32, u64)>, D::Error> {
    SourceEvent::deserialize(deserializer).map(|at| Some((at.source, at.event)))
}

pub(crate) fn range<T: PartialOrd + Display>(
    key: &str,
    value: T,
    allowed: RangeInclusive<T>,
) -> Result<(), ConfigError> {
    let expected = format_args!("{} to {}", allowed.start(), allowed.end());
    require(allowed.contains(&value), key, expected, value)
}

pub(crate) fn require(
    holds: bool,
    key: &str,
    expected: impl Display,
    got: impl Display,
) -> Result<(), ConfigError> {
    if holds {
        return Ok(());
    }
    Err(ConfigError { key: key.into(), expected: expected.to_string(), got: got.to_string() })
}

/// ALPHA-g's boards, those of pads first, and the bytes of a fragment's body.
const ALPHA_BOARDS: usize = 72;
const ALPHA_PADS: usize = 64;
const ALPHA_BODY_BYTES: f64 = 1_372.0;
/// Consecutive events of one size.
const EQUAL_BURSTS_MAX: u32 = 1_024;
