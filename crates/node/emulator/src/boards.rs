//! Boards whose packets a configuration declares: each sends what its layout describes, a packet
//! for each fragment.
//!
//! ```text
//! event's time -> + jitter -> + what the board's clock is ahead, and drifts -> ticks -> wrapped
//! ```
//!
//! An event's time is that of the schedule, so that clocks run as fast as real ones. All values
//! are a pure function of seed, source and event, but for the time at which the clocks begin.

use std::time::{SystemTime, UNIX_EPOCH};

use catchment_model::limits::DATAGRAM_BYTES_MAX;
use catchment_model::units::Time;
use catchment_wire::Protocol as _;
use catchment_wire::layouts::{EncodeError, Layouts, Values};
use serde::Deserialize;

use crate::config::{ConfigError, require};
use crate::content::OVERSHOOT_BYTES;

/// How a source's packets are written, if a configuration declares that.
#[derive(Clone, Debug)]
pub struct Board {
    /// Its layout.
    pub layouts: Layouts,
    /// How far its clock is ahead of the others', in nanoseconds.
    pub ahead_ns: i64,
}

/// The clocks of all boards whose layouts have times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Clocks {
    /// How much later than its event a fragment's time is at most.
    #[serde(rename = "jitter", deserialize_with = "Time::read")]
    pub jitter_ns: u64,
    /// How far the clocks drift apart, in ppm: the first board's is so much slower than time, the
    /// last one's so much faster.
    pub drift: f64,
    /// They begin so long before the first of them wraps; without it with the time of day.
    #[serde(rename = "wrap_after", deserialize_with = "some_time")]
    pub wrap_after_ns: Option<u64>,
}

fn some_time<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Time::read(deserializer).map(Some)
}

/// What a fragment says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// Since its clock's beginning.
    pub since_ns: u64,
    /// Its random number.
    pub drawn: u64,
    /// Its event, and the packets before it.
    pub number: u64,
    pub tag: u8,
    pub id: u32,
    pub body_bytes: usize,
    /// The order of the bytes, where a layout leaves it to the sender.
    pub is_big: bool,
}

impl PartialEq for Board {
    fn eq(&self, other: &Self) -> bool {
        self.layouts.layout() == other.layouts.layout() && self.ahead_ns == other.ahead_ns
    }
}

impl Board {
    /// A board without offset.
    pub fn new(layouts: Layouts) -> Self {
        Self { layouts, ahead_ns: 0 }
    }

    /// Checks that its packets can be made: one is, and decoded again.
    pub(crate) fn check(&self, path: &str, mean_bytes: f64) -> Result<(), ConfigError> {
        let layout = self.layouts.layout();
        let key = format!("{path}.layout");
        let got = format!("{:?}", layout.name);
        require(!layout.is_stream, &key, "datagrams: connections are not emulated", &got)?;
        let mut room = vec![0; DATAGRAM_BYTES_MAX + OVERSHOOT_BYTES];
        let body_bytes = self.layouts.body_bytes_near(mean_bytes as usize);
        let stamp =
            Stamp { since_ns: 0, drawn: 0, number: 0, tag: 0, id: 0, body_bytes, is_big: true };
        let made = self.encode(&stamp, 0, &mut room, |_| {});
        let expected = "one whose packets can be made";
        let bytes = made.map_err(|error| ConfigError {
            key: key.clone(),
            expected: expected.into(),
            got: format!("{got}: {error}"),
        })?;
        let mut parts = Vec::new();
        let is_decoded = self.layouts.decoder().decode(0, &room[..bytes], &mut parts).is_ok();
        let is_one = parts.len() == 1 && parts[0].is_whole();
        require(is_decoded && is_one, &key, expected, got)
    }

    /// Whether any change of a bit in a packet shows.
    pub(crate) fn shows_changes(&self) -> bool {
        self.layouts.layout().packet.is_checked()
    }

    /// Writes a packet; returns its bytes. `clock_ns` is what its clock shows at the fragment.
    pub(crate) fn encode(
        &self,
        stamp: &Stamp,
        clock_ns: u64,
        room: &mut [u8],
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<usize, EncodeError> {
        let layout = self.layouts.layout();
        let (seconds, beside_ns) = match layout.has_seconds() {
            true => (clock_ns / NS_PER_S, clock_ns % NS_PER_S),
            false => (0, clock_ns),
        };
        let rate_hz = layout.clock().map_or(0, |(_, rate_hz)| rate_hz);
        // A clock of few bits wraps.
        let ticks = u128::from(beside_ns) * u128::from(rate_hz) / u128::from(NS_PER_S);
        let values = Values {
            key: stamp.number,
            time: ticks as u64,
            seconds,
            sequence: stamp.number,
            source: stamp.id.into(),
            tag: stamp.tag.into(),
            total: stamp.body_bytes as u64,
            ..Values::default()
        };
        self.layouts.encode_one(stamp.is_big, &values, stamp.body_bytes, room, fill)
    }
}

impl Clocks {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let fits = self.jitter_ns <= JITTER_NS_MAX;
        require(fits, "clocks.jitter", "at most 1 s", Time(self.jitter_ns))?;
        let after_ns = self.wrap_after_ns.unwrap_or(0);
        require(after_ns <= H, "clocks.wrap_after", "at most 1 h", Time(after_ns))?;
        let fits = (0.0..=DRIFT_PPM_MAX).contains(&self.drift);
        require(fits, "clocks.drift", "0 to 1000 ppm", self.drift)
    }

    /// What a board's clock shows at a fragment: the `index`th of `count`.
    pub(crate) fn at(
        &self,
        (index, count): (usize, usize),
        (board, first_ns): (&Board, u64),
        stamp: &Stamp,
    ) -> u64 {
        let share = 2.0 * index as f64 / (count.max(2) - 1) as f64 - 1.0;
        let drifted_ns = (stamp.since_ns as f64 * share * self.drift / 1e6) as i64;
        let jitter_ns = stamp.drawn % (self.jitter_ns + 1);
        let clock_ns = first_ns.saturating_add(stamp.since_ns).saturating_add(jitter_ns);
        clock_ns.saturating_add_signed(drifted_ns).saturating_add_signed(board.ahead_ns)
    }

    /// What the clocks show when the emulator begins.
    pub(crate) fn first_ns<'a>(&self, boards: impl Iterator<Item = &'a Board>) -> u64 {
        let cycle = |board: &Board| {
            let (bits, rate_hz) = board.layouts.layout().clock()?;
            u64::try_from((1_u128 << bits) * u128::from(NS_PER_S) / u128::from(rate_hz)).ok()
        };
        match (self.wrap_after_ns, boards.filter_map(cycle).min()) {
            (Some(after_ns), Some(cycle_ns)) => cycle_ns.saturating_sub(after_ns),
            _ => {
                let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since_epoch.as_nanos()).unwrap_or(0)
            }
        }
    }
}

const NS_PER_S: u64 = 1_000_000_000;
const H: u64 = 3_600 * NS_PER_S;
const JITTER_NS_MAX: u64 = NS_PER_S;
const DRIFT_PPM_MAX: f64 = 1_000.0;
