//! Boards whose packets a configuration declares: each sends what its layout describes, a packet
//! for each fragment, or, where packets have records, several up to the water mark: of several
//! events, or, where the packet's head says the event, of one.
//!
//! Where layouts name groups, those of each event are drawn; boards of others send nothing. Events
//! have the layouts of a board in turn, one in each packet, and of each its kinds of records.
//! What is no fragment comes now and then: packets (settings), records (fillers), and what stands
//! behind the records that are counted. Fragments that have parts are sent in parts.
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
use catchment_wire::hadtu::PAYLOAD_BYTES_MAX;
use catchment_wire::layouts::{EncodeError, Layouts, PacketShape, RecordShape, Values};
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
    /// How many fragments it sends of each event, its pieces, with one time.
    pub pieces: u32,
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

/// What a fragment, or a part of one, says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// Since its clock's beginning.
    pub since_ns: u64,
    /// What its clock shows.
    pub clock_ns: u64,
    /// Its random number, and the bytes that are sent of it here.
    pub draw: Draw,
    /// Where they begin in it, and how many it has.
    pub position: usize,
    pub total: usize,
    /// The kind of its record.
    pub kind: usize,
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
    /// How many records a packet has at most.
    pub records_max: u64,
    /// Whether all of them are of one event.
    pub is_of_event: bool,
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
        let rest = |board: &Self| (board.ahead_ns, board.expected_in, board.pieces);
        let is_same = self.all().map(Layouts::layout).eq(other.all().map(Layouts::layout));
        is_same && rest(self) == rest(other)
    }
}

impl Board {
    /// A board without offset, in every event.
    pub fn new(layouts: Layouts) -> Self {
        Self { layouts, others: Vec::new(), ahead_ns: 0, expected_in: 0, pieces: 1 }
    }

    /// The same, whose packets have these layouts; none if none of them has fragments.
    pub fn of(all: &[Layouts]) -> Option<Self> {
        let first = all.iter().position(has_fragments)?;
        let mut others = all.to_vec();
        let layouts = others.remove(first);
        Some(Self { others, ..Self::new(layouts) })
    }

    /// The same, with so many fragments of each event, if these can be told from repetitions: their
    /// packets are counted, and they are not sent in parts.
    pub fn with_pieces(self, pieces: u32) -> Self {
        let is_told = |one: &Layouts| one.has_sequence() && !one.layout().has_parts();
        let are_told = self.all().all(|one| is_told(one) || !has_fragments(one));
        Self { pieces: if are_told { pieces.max(1) } else { 1 }, ..self }
    }

    /// Whether its packets follow each other on a connection.
    pub fn is_stream(&self) -> bool {
        self.layouts.layout().is_stream
    }

    fn all(&self) -> impl Iterator<Item = &Layouts> {
        std::iter::once(&self.layouts).chain(&self.others)
    }

    /// What waits of it: nothing yet. Each packet has one record, if it is sent alone.
    pub(crate) fn pending(&self, is_alone: bool, sequence: u64) -> Pending {
        // Events have layouts in turn, so that a packet has one.
        let is_single = is_alone || self.others.iter().any(has_fragments);
        let records_max = if is_single { 1 } else { self.layouts.records_max() };
        let is_of_event = self.layouts.is_of_event();
        Pending { records_max, is_of_event, sequence, ..Pending::default() }
    }

    /// The layout of an event's packets, and the kind of its records.
    fn of_event(&self, number: u64) -> (&Layouts, usize) {
        let others = || self.others.iter().filter(|one| has_fragments(one));
        let count = others().count() as u64 + 1;
        let layouts = match (number % count) as usize {
            0 => &self.layouts,
            index => others().nth(index - 1).expect("there are as many"),
        };
        let kinds = layouts.kinds(false).count().max(1) as u64;
        (layouts, layouts.kinds(false).nth((number / count % kinds) as usize).unwrap_or(0))
    }

    /// The length that is drawn near `wanted` bytes: one that a fragment can have, where all are
    /// of one kind.
    pub(crate) fn drawn(&self, wanted: usize) -> usize {
        match self.has_one_kind() {
            true => self.layouts.fragment_bytes_near(self.of_event(0).1, wanted),
            false => wanted,
        }
    }

    /// An event's fragment of a length that its layout can have.
    pub(crate) fn fitted(&self, number: u64, draw: Draw) -> Draw {
        if self.has_one_kind() {
            return draw;
        }
        let (layouts, kind) = self.of_event(number);
        Draw { bytes: layouts.fragment_bytes_near(kind, draw.bytes), ..draw }
    }

    /// Whether its fragments are of one layout and one kind of record.
    fn has_one_kind(&self) -> bool {
        self.others.is_empty() && self.layouts.kinds(false).nth(1).is_none()
    }

    /// A fragment as it is sent: whole, or in parts.
    pub(crate) fn parts(&self, whole: Stamp) -> impl Iterator<Item = Stamp> + use<> {
        let (layouts, kind) = self.of_event(whole.number);
        parts(layouts, Stamp { kind, ..whole })
    }

    /// The bytes of a fragment's record, or of that of a part.
    pub(crate) fn record_bytes(&self, stamp: &Stamp) -> usize {
        self.of_event(stamp.number).0.record_bytes(stamp.kind, stamp.draw.bytes)
    }

    /// The layout of a packet without fragments that follows so many packets, if one does.
    pub(crate) fn aside(&self, sequence: u64) -> Option<&Layouts> {
        let asides = || self.others.iter().filter(|one| !has_fragments(one));
        let count = asides().count() as u64;
        if count == 0 || !sequence.is_multiple_of(ASIDE_EVERY) {
            return None;
        }
        asides().nth((sequence / ASIDE_EVERY % count) as usize)
    }

    /// Whether it sends something of an event of these groups.
    pub(crate) fn takes_part(&self, groups: u64) -> bool {
        groups == 0 || self.expected_in == 0 || self.expected_in & groups != 0
    }

    /// Checks that its packets can be made: one of each layout is, and decoded again.
    pub(crate) fn check(&self, path: &str, mean_bytes: f64) -> Result<(), ConfigError> {
        self.all().try_for_each(|one| packets_are_made(one, path, mean_bytes))
    }

    /// Whether any change of a bit in a packet shows.
    pub(crate) fn shows_changes(&self) -> bool {
        self.all().all(|one| one.layout().packet.is_checked())
    }

    /// Writes a packet of these fragments, one or more; returns its bytes. `sequence` packets were
    /// made before it. `fill` writes the bytes of a draw from a position on.
    pub(crate) fn encode(
        &self,
        stamps: &[Stamp],
        sequence: u64,
        room: &mut [u8],
        fill: impl FnMut(Draw, usize, &mut [u8]),
    ) -> Result<usize, EncodeError> {
        let (layouts, _) = self.of_event(stamps[0].number);
        Beside::of(layouts, stamps, sequence).encode(layouts, (stamps, sequence), room, fill)
    }
}

/// What a packet has beside its fragments.
#[derive(Clone, Copy, Debug, Default)]
struct Beside {
    /// The kind and the body's bytes of a record that is skipped.
    record: Option<(usize, usize)>,
    /// Bytes behind the records that are counted.
    rest_bytes: usize,
}

impl Beside {
    /// Of a packet with these fragments: one of so many has something, as far as there is room.
    fn of(layouts: &Layouts, stamps: &[Stamp], sequence: u64) -> Self {
        let turn = sequence + 1;
        if !turn.is_multiple_of(ASIDE_EVERY) {
            return Self::default();
        }
        let of_stamp = |stamp: &Stamp| layouts.record_bytes(stamp.kind, stamp.draw.bytes);
        let used: usize = stamps.iter().map(of_stamp).sum();
        let has_room = |bytes: usize| layouts.packet_bytes(used + bytes).is_some();
        let kinds = layouts.kinds(true).count().max(1) as u64;
        let kind = layouts.kinds(true).nth((turn / ASIDE_EVERY % kinds) as usize);
        let record = kind.map(|kind| (kind, layouts.body_bytes_near(kind, ASIDE_BYTES)));
        let bytes_of = |(kind, bytes): (usize, usize)| layouts.record_bytes(kind, bytes);
        let fits = |one: &(usize, usize)| {
            (stamps.len() as u64) < layouts.records_max() && has_room(bytes_of(*one))
        };
        let record = record.filter(fits);
        let is_passed_over = layouts.layout().packet.skip_rest;
        let has_rest = is_passed_over && has_room(record.map_or(0, bytes_of) + ASIDE_BYTES);
        Self { record, rest_bytes: if has_rest { ASIDE_BYTES } else { 0 } }
    }

    fn encode(
        &self,
        layouts: &Layouts,
        (stamps, sequence): (&[Stamp], u64),
        room: &mut [u8],
        mut fill: impl FnMut(Draw, usize, &mut [u8]),
    ) -> Result<usize, EncodeError> {
        let last = stamps[stamps.len() - 1];
        let record = |index: usize| {
            let stamp = stamps.get(index).copied().unwrap_or(last);
            let values = stamp.values(layouts, sequence);
            let own = (stamp.kind, stamp.draw.bytes);
            let (kind, body_bytes) = self.record.filter(|_| index == stamps.len()).unwrap_or(own);
            RecordShape { kind, values, body_bytes }
        };
        let count = stamps.len() + usize::from(self.record.is_some());
        let fill = |index: usize, room: &mut [u8]| match stamps.get(index) {
            Some(stamp) => fill(stamp.draw, stamp.position, room),
            None => {
                let bytes = if index < count { record(index).body_bytes } else { self.rest_bytes };
                fill(Draw { bytes, ..last.draw }, 0, room);
            }
        };
        let (is_big, rest_bytes) = (last.is_big, self.rest_bytes);
        layouts.encode_in_place(&PacketShape { is_big, count, record, rest_bytes }, room, fill)
    }
}

/// A fragment as it is sent with a layout and its kind of record.
fn parts(layouts: &Layouts, whole: Stamp) -> impl Iterator<Item = Stamp> + use<> {
    let total = whole.draw.bytes;
    let cut = layouts.cut(whole.kind, total, PARTS);
    let part = cut.map_or(total, |cut| cut.part).max(1);
    (0..total.max(1)).step_by(part).map(move |position| {
        let draw = Draw { bytes: part.min(total - position), ..whole.draw };
        Stamp { draw, position, total, ..whole }
    })
}

/// Checks that all kinds of packets of a layout can be made: each is, and decoded again.
fn packets_are_made(layouts: &Layouts, path: &str, mean_bytes: f64) -> Result<(), ConfigError> {
    let layout = layouts.layout();
    let key = format!("{path}.layout");
    let refuse = |got: String| ConfigError {
        key: key.clone(),
        expected: "one whose packets can be made".into(),
        got: format!("{:?}: {got}", layout.name),
    };
    if layout.packet.bytes.is_some() && !layout.records.is_empty() {
        return Err(refuse("packet.bytes, which records do not always fill".into()));
    }
    let mut room = vec![0; DATAGRAM_BYTES_MAX + OVERSHOOT_BYTES];
    if !has_fragments(layouts) {
        let draw = Draw { h: 0, bytes: 0 };
        let made = Stamp::new(draw).encode_aside(layouts, 0, &mut room, |_, _, _| {});
        let bytes = made.map_err(|error| refuse(error.to_string()))?;
        return is_read_as_made(layouts, &room[..bytes], None).map_err(refuse);
    }
    let mut kinds: Vec<usize> = layouts.kinds(false).collect();
    if kinds.is_empty() {
        kinds.push(0);
    }
    for kind in kinds {
        let bytes = layouts.fragment_bytes_near(kind, mean_bytes as usize);
        if bytes > PAYLOAD_BYTES_MAX {
            let got = format!("fragments of {bytes} bytes; at most {PAYLOAD_BYTES_MAX} are sent");
            return Err(refuse(got));
        }
        // With nothing beside it, and with each kind of what is skipped.
        let turns = layouts.kinds(true).count().max(1) as u64;
        let whole = Stamp { kind, ..Stamp::new(Draw { h: 0, bytes }) };
        for stamp in parts(layouts, whole) {
            for sequence in (0..=turns).map(|turn| (turn * ASIDE_EVERY).saturating_sub(1)) {
                let beside = Beside::of(layouts, &[stamp], sequence);
                let made = beside.encode(layouts, (&[stamp], sequence), &mut room, |_, _, _| {});
                let bytes = made.map_err(|error| refuse(error.to_string()))?;
                is_read_as_made(layouts, &room[..bytes], Some((stamp, beside))).map_err(refuse)?;
            }
        }
    }
    Ok(())
}

/// Whether a packet is read as it was made: with a fragment, or a part of one, and what is beside
/// it, or with none.
///
/// # Errors
/// As what it is read.
fn is_read_as_made(
    layouts: &Layouts,
    packet: &[u8],
    made: Option<(Stamp, Beside)>,
) -> Result<(), String> {
    let mut found = Vec::new();
    let decoded = layouts.decoder().decode(0, packet, &mut found);
    let is_whole = |used| used == packet.len() || !layouts.layout().is_stream;
    if !decoded.is_ok_and(|decoded| is_whole(decoded.used)) {
        let refused = layouts.describe(packet).refused;
        return Err(refused.map_or_else(|| "its length".to_owned(), |(_, why)| why));
    }
    let beside = made.and_then(|(_, beside)| beside.record);
    let own = made.map(|(stamp, _)| stamp.kind).filter(|_| !layouts.layout().records.is_empty());
    let kinds: Vec<usize> = own.into_iter().chain(beside.map(|(kind, _)| kind)).collect();
    let read = layouts.kinds_of(packet);
    if let Some((made, read)) = kinds.iter().zip(&read).find(|(made, read)| made != read) {
        return Err(format!("its record[{made}] would be read as record[{read}]"));
    }
    let is_same = match (made, &found[..]) {
        (None, []) => true,
        (Some((stamp, _)), [part]) => match layouts.cut(stamp.kind, stamp.total, PARTS) {
            None => part.is_whole(),
            Some(_) => {
                let place = [stamp.position, stamp.total].map(|bytes| bytes as u64);
                [part.position, part.fragment_bytes] == place
            }
        },
        _ => false,
    };
    is_same.then_some(()).ok_or_else(|| "it would be read as another fragment".to_owned())
}

fn has_fragments(layouts: &Layouts) -> bool {
    !layouts.layout().packet.skip
}

impl Stamp {
    /// Of a fragment that says nothing else.
    fn new(draw: Draw) -> Self {
        let (since_ns, clock_ns, number, tag, id, groups) = (0, 0, 0, 0, 0, 0);
        let (position, total, kind) = (0, draw.bytes, 0);
        let is_big = true;
        Self { since_ns, clock_ns, draw, position, total, kind, number, tag, id, groups, is_big }
    }

    /// Whether its fragment ends with it.
    pub(crate) fn is_last(&self) -> bool {
        self.position + self.draw.bytes == self.total
    }

    /// Writes a packet without fragments that follows its own; returns its bytes. `sequence`
    /// packets were made before it.
    pub(crate) fn encode_aside(
        &self,
        layouts: &Layouts,
        sequence: u64,
        room: &mut [u8],
        fill: impl Fn(Draw, usize, &mut [u8]),
    ) -> Result<usize, EncodeError> {
        let draw = Draw { bytes: layouts.body_bytes_near(0, ASIDE_BYTES), ..self.draw };
        let values = self.values(layouts, sequence);
        layouts.encode_one(self.is_big, &values, draw.bytes, room, |room| fill(draw, 0, room))
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
            position: self.position as u64,
            total: self.total as u64,
            ..Values::default()
        }
    }
}

impl Pending {
    /// Whether a fragment, or a part of one, may be in one packet with those that wait.
    pub fn fits(&self, board: &Board, stamp: &Stamp) -> bool {
        let Some(first) = self.stamps.first() else { return true };
        let records_bytes = self.records_bytes + board.record_bytes(stamp);
        let is_of_it = first.number == stamp.number || !self.is_of_event;
        is_of_it && board.layouts.packet_bytes(records_bytes).is_some()
    }

    /// Whether a packet of those that wait is to be sent.
    pub fn is_full(&self, board: &Board, water_mark_bytes: usize) -> bool {
        let bytes = || board.layouts.packet_bytes(self.records_bytes).unwrap_or(usize::MAX);
        self.stamps.len() as u64 >= self.records_max || bytes() >= water_mark_bytes
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
/// One of so many packets has what is no fragment, where a layout has that.
const ASIDE_EVERY: u64 = 16;
/// The bytes of its body, as near as the layout allows.
const ASIDE_BYTES: usize = 16;
/// A fragment that is sent in parts has so many, or more.
const PARTS: usize = 3;
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
