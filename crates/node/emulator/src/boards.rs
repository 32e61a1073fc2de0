//! Boards whose packets a configuration declares: each sends what its layout describes, a packet
//! for each fragment, or, where packets have records that say their own event, several up to the
//! water mark.
//!
//! Where layouts name groups, those of each event are drawn; boards of others send nothing. Where
//! packets of a board have several layouts, its events have them in turn, one in each packet, and
//! packets without fragments (settings) come between them.
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
use crate::content::{Draw, OVERSHOOT_BYTES, mix};

/// How a source's packets are written, if a configuration declares that.
#[derive(Clone, Debug)]
pub struct Board {
    /// Its layout, the first one with fragments.
    pub layouts: Layouts,
    /// Further layouts of its packets.
    pub others: Vec<Layouts>,
    /// How far its clock is ahead of the others', in nanoseconds.
    pub ahead_ns: i64,
    /// The groups that it is in, one in each bit; 0: it is in every event.
    pub expected_in: u64,
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
    /// They begin so long before the first one without seconds wraps; unset, or if there is none,
    /// with the time of day.
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
    /// What its clock shows.
    pub clock_ns: u64,
    /// Its random number and its bytes.
    pub draw: Draw,
    /// Its event.
    pub number: u64,
    pub tag: u8,
    pub id: u32,
    /// The groups that took part in its event.
    pub groups: u64,
    /// The order of the bytes, where a layout leaves it to the sender.
    pub is_big: bool,
}

/// What a board has made and not sent.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// How many fragments a packet has at most.
    pub fragments_max: u64,
    pub stamps: Vec<Stamp>,
    /// Bytes of their records.
    pub records_bytes: usize,
    /// When the first of them was made.
    pub since_ns: u64,
    /// Packets that were made before.
    pub sequence: u64,
}

impl PartialEq for Board {
    fn eq(&self, other: &Self) -> bool {
        let rest = |board: &Self| (board.ahead_ns, board.expected_in);
        let is_same = self.all().map(Layouts::layout).eq(other.all().map(Layouts::layout));
        is_same && rest(self) == rest(other)
    }
}

impl Board {
    /// A board without offset, in every event.
    pub fn new(layouts: Layouts) -> Self {
        Self { layouts, others: Vec::new(), ahead_ns: 0, expected_in: 0 }
    }

    /// The same, whose packets have these layouts; none if none of them has fragments.
    pub fn of(all: &[Layouts]) -> Option<Self> {
        let first = all.iter().position(has_fragments)?;
        let mut others = all.to_vec();
        let layouts = others.remove(first);
        Some(Self { others, ..Self::new(layouts) })
    }

    fn all(&self) -> impl Iterator<Item = &Layouts> {
        std::iter::once(&self.layouts).chain(&self.others)
    }

    /// How many fragments a packet may have.
    pub(crate) fn fragments_max(&self) -> u64 {
        let is_alone = !self.others.iter().any(has_fragments);
        if is_alone { self.layouts.fragments_max() } else { 1 }
    }

    /// The layout of an event's packets.
    fn of_event(&self, number: u64) -> &Layouts {
        let others = || self.others.iter().filter(|one| has_fragments(one));
        match (number % (others().count() as u64 + 1)) as usize {
            0 => &self.layouts,
            index => others().nth(index - 1).expect("there are as many"),
        }
    }

    /// An event's fragment of a length that its layout can have.
    pub(crate) fn fitted(&self, number: u64, draw: Draw) -> Draw {
        // Of one layout all that is drawn has such a length.
        match self.others.is_empty() {
            true => draw,
            false => Draw { bytes: self.of_event(number).body_bytes_near(draw.bytes), ..draw },
        }
    }

    /// The layout of a packet without fragments that follows so many packets, if one does.
    pub(crate) fn aside(&self, sequence: u64) -> Option<&Layouts> {
        let asides = || self.others.iter().filter(|one| !has_fragments(one));
        let count = asides().count() as u64;
        if count == 0 || !sequence.is_multiple_of(SETTINGS_EVERY) {
            return None;
        }
        asides().nth((sequence / SETTINGS_EVERY % count) as usize)
    }

    /// Whether it sends something of an event of these groups.
    pub(crate) fn takes_part(&self, groups: u64) -> bool {
        groups == 0 || self.expected_in == 0 || self.expected_in & groups != 0
    }

    /// Checks that its packets can be made: one of each layout is, and decoded again.
    pub(crate) fn check(&self, path: &str, mean_bytes: f64) -> Result<(), ConfigError> {
        self.all().try_for_each(|one| one_is_made(one, path, mean_bytes))
    }

    /// Whether any change of a bit in a packet shows.
    pub(crate) fn shows_changes(&self) -> bool {
        self.all().all(|one| one.layout().packet.is_checked())
    }

    /// Writes a packet of these fragments, one or more; returns its bytes. `sequence` packets were
    /// made before it.
    pub(crate) fn encode(
        &self,
        stamps: &[Stamp],
        sequence: u64,
        room: &mut [u8],
        mut fill: impl FnMut(Draw, &mut [u8]),
    ) -> Result<usize, EncodeError> {
        let layouts = self.of_event(stamps[0].number);
        let of = |index: usize| (stamps[index].values(layouts, sequence), stamps[index].draw.bytes);
        let fill = |index: usize, room: &mut [u8]| fill(stamps[index].draw, room);
        layouts.encode_several(stamps[0].is_big, (stamps.len(), of), room, fill)
    }
}

/// Checks that a packet of a layout can be made.
fn one_is_made(layouts: &Layouts, path: &str, mean_bytes: f64) -> Result<(), ConfigError> {
    let layout = layouts.layout();
    let key = format!("{path}.layout");
    let got = format!("{:?}", layout.name);
    require(!layout.is_stream, &key, "datagrams: connections are not emulated", &got)?;
    let mut room = vec![0; DATAGRAM_BYTES_MAX + OVERSHOOT_BYTES];
    let draw = Draw { h: 0, bytes: layouts.body_bytes_near(mean_bytes as usize) };
    let (since_ns, clock_ns, number, tag, id, groups) = (0, 0, 0, 0, 0, 0);
    let stamp = Stamp { since_ns, clock_ns, draw, number, tag, id, groups, is_big: true };
    let values = stamp.values(layouts, 0);
    let made = layouts.encode_one(true, &values, draw.bytes, &mut room, |_| {});
    let expected = "one whose packets can be made";
    let bytes = made.map_err(|error| ConfigError {
        key: key.clone(),
        expected: expected.into(),
        got: format!("{got}: {error}"),
    })?;
    let mut parts = Vec::new();
    let is_decoded = layouts.decoder().decode(0, &room[..bytes], &mut parts).is_ok();
    let is_one = match parts[..] {
        [part] => part.is_whole(),
        _ => parts.is_empty() && !has_fragments(layouts),
    };
    require(is_decoded && is_one, &key, expected, got)
}

fn has_fragments(layouts: &Layouts) -> bool {
    !layouts.layout().packet.skip
}

impl Stamp {
    /// Writes a packet without fragments that follows its own; returns its bytes. `sequence`
    /// packets were made before it.
    pub(crate) fn encode_aside(
        &self,
        layouts: &Layouts,
        sequence: u64,
        room: &mut [u8],
        fill: impl Fn(Draw, &mut [u8]),
    ) -> Result<usize, EncodeError> {
        let draw = Draw { bytes: layouts.body_bytes_near(SETTINGS_BYTES), ..self.draw };
        let values = Self { draw, ..*self }.values(layouts, sequence);
        layouts.encode_one(self.is_big, &values, draw.bytes, room, |room| fill(draw, room))
    }

    fn values(&self, layouts: &Layouts, sequence: u64) -> Values {
        let layout = layouts.layout();
        let (seconds, beside_ns) = match layout.has_seconds() {
            true => (self.clock_ns / NS_PER_S, self.clock_ns % NS_PER_S),
            false => (0, self.clock_ns),
        };
        let rate_hz = layout.clock().map_or(0, |(_, rate_hz)| rate_hz);
        // A clock of few bits wraps.
        let ticks = u128::from(beside_ns) * u128::from(rate_hz) / u128::from(NS_PER_S);
        Values {
            key: self.number,
            time: ticks as u64,
            seconds,
            sequence,
            source: self.id.into(),
            tag: self.tag.into(),
            groups: self.groups,
            total: self.draw.bytes as u64,
            ..Values::default()
        }
    }
}

impl Pending {
    /// Whether a fragment of that many bytes may be in one packet with those that wait.
    pub fn fits(&self, board: &Board, body_bytes: usize) -> bool {
        let records_bytes = self.records_bytes + board.layouts.record_bytes(body_bytes);
        self.stamps.is_empty() || board.layouts.packet_bytes(records_bytes).is_some()
    }

    /// Whether a packet of those that wait is to be sent.
    pub fn is_full(&self, board: &Board, water_mark_bytes: usize) -> bool {
        let bytes = || board.layouts.packet_bytes(self.records_bytes).unwrap_or(usize::MAX);
        self.stamps.len() as u64 >= self.fragments_max || bytes() >= water_mark_bytes
    }
}

/// The groups that boards are in, if a layout names those of each event.
pub(crate) fn groups_of<'a>(boards: impl Iterator<Item = &'a Board> + Clone) -> u64 {
    let are_named = boards.clone().any(|board| board.layouts.names_groups());
    boards.filter(|_| are_named).fold(0, |all, board| all | board.expected_in)
}

/// Those of an event, of all that there are: at least one, if there are any.
pub(crate) fn draw_groups(all: u64, seed: u64, event: u64) -> u64 {
    match mix(seed.rotate_left(32) ^ event) & all {
        0 => all,
        some => some,
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
        let jitter_ns = stamp.draw.h % (self.jitter_ns + 1);
        let clock_ns = first_ns.saturating_add(stamp.since_ns).saturating_add(jitter_ns);
        clock_ns.saturating_add_signed(drifted_ns).saturating_add_signed(board.ahead_ns)
    }

    /// What the clocks show when the emulator begins.
    pub(crate) fn first_ns<'a>(&self, boards: impl Iterator<Item = &'a Board>) -> u64 {
        let cycle = |board: &Board| {
            let layout = board.layouts.layout();
            // Seconds beside a time begin in 1970 and do not wrap with it.
            let (bits, rate_hz) = layout.clock().filter(|_| !layout.has_seconds())?;
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
/// One of so many packets has settings, where a layout has some.
const SETTINGS_EVERY: u64 = 16;
/// The bytes of such a packet's body, as near as its layout allows.
const SETTINGS_BYTES: usize = 16;
const JITTER_NS_MAX: u64 = NS_PER_S;
const DRIFT_PPM_MAX: f64 = 1_000.0;

#[cfg(test)]
mod tests {
    use std::iter::once;

    use catchment_wire::layouts::{Field, FieldKind, Role, alpha_72};

    use super::*;

    #[test]
    fn clocks_with_seconds_begin_with_the_time_of_day() {
        let clocks = Clocks { jitter_ns: 0, drift: 0.0, wrap_after_ns: Some(H) };
        let plain = Board::new(alpha_72());
        let mut layout = plain.layouts.layout().clone();
        let kind = FieldKind::Is(Role::Seconds);
        layout.packet.fields.push(Field { at: 20, width: 4, bits: None, kind });
        let with_seconds = Board::new(Layouts::new(layout).expect("a layout with seconds"));
        let begins_ns = |board: &Board| clocks.first_ns(once(board));
        // A clock of 48 bits at 125 MHz wraps within a month.
        assert!(begins_ns(&plain) < 31 * 24 * H);
        assert!(begins_ns(&with_seconds) > 31 * 24 * H);
    }
}
