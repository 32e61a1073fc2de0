//! What every building rule is held to: a model, and anything at all.
//!
//! The model is a map from event to fragments, filled in the order of pushing. As long as the
//! sources keep within the limits (reordering, skew, window, time-out) a matcher must come to
//! exactly the same, whatever is lost, repeated, dead or another node's. Beyond the limits only the
//! ledger must balance.
//!
//! A new rule implements [`Rule`] and calls these functions from tests of its own.

use std::collections::BTreeMap;
use std::ops::Range;

use catchment_builder::{
    BuilderConfig, Fragment, FragmentFlags, IncompletePolicy, KeyRule, Matcher, OwnedKeys,
    SourceRole,
};
use catchment_fixtures::Random;
use catchment_model::{Entry, EventFlags};

use crate::support::{MS, Rig, Row, S};

/// A building rule. Tests count events; the rule says what fragments carry of that.
pub trait Rule {
    type Matcher: Matcher;

    /// Whether events that no source delivered are counted as absent.
    const COUNTS_ABSENT: bool;

    fn matcher(config: &BuilderConfig, limits: &Limits) -> Self::Matcher;

    /// What the fragment of a source carries as the number of an event. Sources may differ by what
    /// the rule allows.
    fn number(event: u64, source: usize) -> u64;

    /// The event of a row's key.
    fn event(key: u64) -> u64;
}

/// What each rule says in its own settings.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bits of the number, if fragments carry one.
    pub number_bits: u32,
    /// Events that may be open, or wait to be cut.
    pub window_events: u64,
    /// How far a source's fragments may be out of order.
    pub reorder_events: u64,
    /// Other events belong to other nodes.
    pub owned: OwnedKeys,
}

/// Which events a plan's builder owns.
#[derive(Clone, Copy, Debug)]
pub enum Owned {
    /// All.
    All,
    /// As the seed says, by a rule that may change during the run. The key of an event must be the
    /// event itself.
    Some,
}

const REORDER_EVENTS: u64 = 256;
const WINDOW_EVENTS: u64 = 4_096;
const TIMEOUT_NS: u64 = 500 * MS;

/// Within the limits a matcher does what the model does.
pub fn does_what_the_model_does<R: Rule>(owned: Owned) {
    for seed in 0..200 {
        let plan = Plan::new(seed, owned);
        let matcher = R::matcher(&plan.config, &plan.limits);
        let mut rig = Rig::with_matcher(&plan.config, matcher);
        let mut model = Model::new(plan.config.clone(), plan.limits.owned.clone());
        let (arrivals, end_ns) = plan.arrivals::<R>(&mut rig);
        let mut random = Random::new(seed ^ 0xbeef);
        let mut rest = &arrivals[..];
        while !rest.is_empty() {
            let now = rest[0].arrives_ns + random.below(5 * MS);
            let count = rest.partition_point(|arrival| arrival.arrives_ns <= now);
            let (batch, after) = rest.split_at(count);
            let fragments: Vec<Fragment> = batch.iter().map(|arrival| arrival.fragment).collect();
            model.push(now, batch);
            rig.push(now, &fragments);
            rig.poll(now);
            rest = after;
            // Polls while nothing comes.
            let next = rest.first().map_or(end_ns, |arrival| arrival.arrives_ns);
            let mut quiet_ns = now + 100 * MS;
            while quiet_ns < next {
                rig.poll(quiet_ns);
                quiet_ns += 100 * MS;
            }
        }
        rig.finish(end_ns);
        model.compare::<R>(&rig, plan.tail_events(), &format!("seed {seed}: {plan:?}"));
    }
}

/// Beyond all limits the ledger balances at every step.
pub fn balances_whatever_comes<R: Rule>() {
    for seed in 0..300 {
        anything::<R>(seed);
    }
}

fn anything<R: Rule>(seed: u64) {
    let mut random = Random::new(seed);
    let count = 1 + random.below(6) as usize;
    let roles = [SourceRole::Required, SourceRole::Optional, SourceRole::Disabled];
    let mut sources: Vec<SourceRole> =
        (0..count).map(|_| roles[random.below(5).saturating_sub(2) as usize]).collect();
    sources[0] = SourceRole::Required;
    let mut config = BuilderConfig::new(sources);
    let number_bits = [16, 24, 32][random.below(3) as usize];
    let (window_events, reorder_events) = (1 << (8 + random.below(6)), random.below(256));
    (config.timeout_ns, config.frame_time_ns) = (10 * MS, random.below(20 * MS));
    (config.frame_bytes, config.parked_max) =
        (1 + random.below(50_000), 1 + random.below(300) as usize);
    config.incomplete = [IncompletePolicy::Keep, IncompletePolicy::Drop][random.below(2) as usize];
    let owned = some_owned(&mut random, 0, 1 << 16);
    let limits = Limits { number_bits, window_events, reorder_events, owned };
    let mut rig = Rig::with_matcher(&config, R::matcher(&config, &limits));
    let mut next: Vec<u64> = vec![random.next_u64(); count + 1];
    let mut now = random.below(S);
    for _ in 0..400 {
        now = match random.below(20) {
            0 => now.saturating_sub(random.below(50 * MS)),
            1 => now + random.below(100 * MS),
            _ => now + random.below(2 * MS),
        };
        let source = random.below(count as u64 + 1) as usize;
        let number = &mut next[source];
        match random.below(60) {
            0 => *number = 0,
            1 => *number = random.next_u64(),
            2 => *number = number.wrapping_add(random.below(100_000)),
            3 => *number = number.wrapping_sub(random.below(20_000)),
            4 => next = vec![random.below(2); count + 1],
            5 => next = vec![random.next_u64(); count + 1],
            _ => {}
        }
        let fragments: Vec<Fragment> = (0..random.below(80))
            .map(|_| {
                let scatter = if random.chance(50) { random.below(600) } else { 0 };
                let number = next[source].wrapping_sub(scatter);
                next[source] = next[source].wrapping_add(random.below(8) / 3);
                let mut fragment = rig.fragment(source, 0, random.below(2_000) as u32);
                fragment.number = number;
                fragment.tag = u8::from(random.chance(10));
                fragment.flags = random.below(4) as u8;
                fragment
            })
            .collect();
        rig.push(now, &fragments);
        if random.chance(700) {
            rig.builder.poll(now);
        }
        if random.chance(300) {
            rig.collect(now);
        }
    }
    rig.finish(now);
}

/// All keys, or some, by one rule or two.
fn some_owned(random: &mut Random, first: u64, events: u64) -> OwnedKeys {
    let rule = |random: &mut Random| match random.below(4) {
        0 => KeyRule::all(),
        1 => KeyRule::modulo(3, random.below(3) as u32).unwrap(),
        _ => {
            let count = 1 + random.below(5) as u32;
            let owned: Vec<u32> = (0..count).filter(|_| random.chance(500)).collect();
            KeyRule::slices(1 + random.below(40), count, &owned).unwrap()
        }
    };
    let mut owned = OwnedKeys::new(rule(random));
    if random.chance(500) {
        owned.change(first + 1 + random.below(events), rule(random)).unwrap();
    }
    owned
}

/// A fragment, when it comes, and of which event it is.
struct Arrival {
    arrives_ns: u64,
    event: u64,
    fragment: Fragment,
}

/// What the sources do in one run.
#[derive(Debug)]
struct Plan {
    /// Whether senders also send what others own.
    sends_all: bool,
    config: BuilderConfig,
    limits: Limits,
    seed: u64,
    events: u64,
    first: u64,
    event_ns: u64,
    lose: u64,
    repeat: u64,
    skip: u64,
    packet_events: u64,
    scatter_events: u64,
    pause_at: u64,
}

impl Plan {
    fn new(seed: u64, owned: Owned) -> Self {
        let mut random = Random::new(seed);
        let count = 1 + random.below(8);
        let roles = [SourceRole::Required, SourceRole::Optional, SourceRole::Disabled];
        let mut sources: Vec<SourceRole> =
            (0..count).map(|_| roles[random.below(8).saturating_sub(5) as usize]).collect();
        sources[0] = SourceRole::Required;
        let mut config = BuilderConfig::new(sources);
        let mut limits = Limits {
            number_bits: 24,
            window_events: WINDOW_EVENTS,
            reorder_events: REORDER_EVENTS,
            owned: OwnedKeys::all(),
        };
        config.timeout_ns = TIMEOUT_NS;
        config.frame_bytes = 1 + random.below(200_000);
        config.frame_time_ns = random.below(2 * S);
        if random.chance(300) {
            config.incomplete = IncompletePolicy::Drop;
        }
        let events = 100 + random.below(2_000);
        let first = [0, 1, 123_456, (1 << 24) - 600][random.below(4) as usize];
        let mut of_owned = Random::new(seed ^ 0x00ed);
        if let Owned::Some = owned {
            limits.owned = some_owned(&mut of_owned, first, events);
        }
        Self {
            sends_all: of_owned.chance(500),
            config,
            limits,
            seed,
            events,
            first,
            // A time-out's events fit into half the window; a time-out is many events.
            event_ns: 2 * TIMEOUT_NS / WINDOW_EVENTS + random.below(TIMEOUT_NS / 40),
            lose: [0, 5, 200][random.below(3) as usize],
            repeat: [0, 5, 200][random.below(3) as usize],
            skip: [0, 5, 200][random.below(3) as usize],
            packet_events: 1 + random.below(16),
            scatter_events: random.below(REORDER_EVENTS / 2),
            pause_at: random.below(2 * events),
        }
    }

    /// Events at the end to which not all sources have come, or one that died is still waited for.
    fn tail_events(&self) -> u64 {
        64 + 2 * TIMEOUT_NS / self.event_ns
    }

    /// All fragments in the order in which they come; and when all is over.
    fn arrivals<R: Rule>(&self, rig: &mut Rig<R::Matcher>) -> (Vec<Arrival>, u64) {
        let mut random = Random::new(self.seed ^ 0xf00d);
        let mut arrivals = Vec::new();
        // In time, reordering and skew keep within a quarter of the time-out.
        let scatter_ns = (self.scatter_events * self.event_ns).min(TIMEOUT_NS / 8);
        let skipped: Vec<bool> = (0..self.events).map(|_| random.chance(self.skip)).collect();
        for source in 0..self.config.sources.len() {
            let delay_ns = random.below(TIMEOUT_NS / 8);
            let dies_at = random.below(3 * self.events);
            for packet in 0..self.events.div_ceil(self.packet_events) {
                let events = packet * self.packet_events
                    ..self.events.min((packet + 1) * self.packet_events).min(dies_at);
                let lost = random.chance(self.lose);
                let copies = 1 + usize::from(random.chance(self.repeat));
                for _ in 0..if lost { 0 } else { copies } {
                    let pause_ns = if events.start > self.pause_at { 20 * TIMEOUT_NS } else { 0 };
                    let arrives_ns = packet * self.packet_events * self.event_ns
                        + (pause_ns + delay_ns + random.below(scatter_ns + 1));
                    for event in events.clone().filter(|&event| !skipped[event as usize]) {
                        let bytes = random.below(500) as u32 * u32::from(!random.chance(100));
                        let event = self.first + event;
                        let mut fragment = rig.fragment(source, 0, bytes);
                        fragment.number = R::number(event, source);
                        fragment.tag = event as u8 ^ u8::from(random.chance(10));
                        let broken = random.chance(10);
                        fragment.flags = if broken { FragmentFlags::SENDER_ERROR } else { 0 };
                        if self.sends_all || self.limits.owned.has(event) {
                            arrivals.push(Arrival { arrives_ns, event, fragment });
                        }
                    }
                }
            }
        }
        arrivals.sort_by_key(|arrival| arrival.arrives_ns);
        let last_ns = arrivals.last().map_or(0, |arrival| arrival.arrives_ns);
        let end_ns = if arrivals.is_empty() { 0 } else { last_ns + random.below(3 * S) };
        (arrivals, end_ns)
    }
}

/// A source's fragment in an event: its tag, and whether its sender marks it as broken.
type Mark = Option<(u8, bool)>;

/// Whether a source's fragment has another tag than more than half of its event's.
fn has_bad_tag(marks: &[Mark], source: usize) -> bool {
    let present = || marks.iter().flatten();
    marks[source].is_some_and(|(tag, _)| {
        2 * present().filter(|(other, _)| *other == tag).count() <= present().count()
    })
}

/// The obvious builder.
struct Model {
    config: BuilderConfig,
    owned: OwnedKeys,
    /// With the tag of each source's fragment, and whether it is marked as broken.
    events: BTreeMap<u64, (Row, Vec<Mark>)>,
    newest: Vec<u64>,
    skipped: Vec<u64>,
    reordered: Vec<u64>,
    duplicates: Vec<u64>,
    disabled: Vec<u64>,
    not_owned: Vec<u64>,
}

impl Model {
    fn new(config: BuilderConfig, owned: OwnedKeys) -> Self {
        let none = vec![0; config.sources.len()];
        Self {
            events: BTreeMap::new(),
            newest: none.clone(),
            skipped: vec![u64::MAX; config.sources.len()],
            reordered: none.clone(),
            duplicates: none.clone(),
            disabled: none.clone(),
            not_owned: none,
            config,
            owned,
        }
    }

    fn push(&mut self, now_ns: u64, arrivals: &[Arrival]) {
        for &Arrival { event: key, fragment, .. } in arrivals {
            let source = fragment.source as usize;
            if self.config.sources[source] == SourceRole::Disabled {
                self.disabled[source] += 1;
                continue;
            }
            if !self.owned.has(key) {
                self.not_owned[source] += 1;
                continue;
            }
            let (row, marks) = self.events.entry(key).or_insert_with(|| {
                let count = self.config.sources.len();
                let (flags, fragments) = (EventFlags::default(), vec![None; count]);
                let (time_ns, expected) = (now_ns, vec![true; count]);
                let pieces = vec![Vec::new(); count];
                (Row { time_ns, flags, fragments, pieces, expected }, vec![None; count])
            });
            if row.fragments[source].is_some() {
                self.duplicates[source] += 1;
                continue;
            }
            let offset = if fragment.bytes > 0 { fragment.offset } else { 0 };
            row.fragments[source] = Some((offset, fragment.bytes));
            if marks.iter().flatten().any(|&(tag, _)| tag != fragment.tag) {
                row.flags = row.flags | EventFlags::TAG_MISMATCH;
            }
            if fragment.is_flagged() {
                row.flags = row.flags | EventFlags::SENDER_ERROR;
            }
            marks[source] = Some((fragment.tag, fragment.is_flagged()));
            // One that came alone before others makes one of them reordered, not all.
            let (end, skipped) = (self.newest[source], self.skipped[source]);
            self.reordered[source] += u64::from(key < end);
            if key >= end {
                self.skipped[source] = if key > end { end } else { u64::MAX };
                self.newest[source] = key + 1;
            } else if key >= skipped {
                (self.newest[source], self.skipped[source]) = (key + 1, u64::MAX);
            }
        }
    }

    /// What was counted when a source's fragments came.
    fn counted(&self, source: usize) -> [(Entry, u64); 7] {
        [
            (Entry::FragmentsDuplicate, self.duplicates[source]),
            (Entry::FragmentsReordered, self.reordered[source]),
            (Entry::FragmentsDiscardedDisabled, self.disabled[source]),
            (Entry::FragmentsNotOwned, self.not_owned[source]),
            (Entry::FragmentsLate, 0),
            (Entry::FragmentsOutOfRange, 0),
            (Entry::NumberingRestarts, 0),
        ]
    }

    fn compare<R: Rule>(&self, rig: &Rig<R::Matcher>, tail_events: u64, context: &str) {
        let roles = &self.config.sources;
        let count = roles.len();
        let keys = self.events.first_key_value().zip(self.events.last_key_value());
        let range = keys.map_or(0..0, |((&first, _), (&last, _))| first..last + 1);
        let owned = |keys: Range<u64>| self.owned.count(keys);
        let absent = match R::COUNTS_ABSENT {
            true => owned(range.clone()) - self.events.len() as u64,
            false => 0,
        };
        let tail = range.start.max(range.end.saturating_sub(tail_events))..range.end;
        let last = self.events.range(tail.clone()).count() as u64;
        let absent_last = absent.min(owned(tail) - last);
        let (mut missing, mut unrecorded, mut dropped) =
            (vec![0; count], vec![absent; count], vec![0; count]);
        let (mut bad_sender, mut bad_tag) = (vec![0; count], vec![0; count]);
        let mut rows = BTreeMap::new();
        for (&key, (row, marks)) in &self.events {
            let mut row = row.clone();
            let lacks = |s: usize| roles[s] == SourceRole::Required && row.fragments[s].is_none();
            let lacking: Vec<usize> = (0..count).filter(|&source| lacks(source)).collect();
            let drop = !lacking.is_empty() && self.config.incomplete == IncompletePolicy::Drop;
            for &source in &lacking {
                row.flags = row.flags | EventFlags::INCOMPLETE;
                (if drop { &mut unrecorded } else { &mut missing })[source] += 1;
            }
            if drop {
                (0..count).for_each(|s| dropped[s] += u64::from(row.fragments[s].is_some()));
                continue;
            }
            for (source, mark) in marks.iter().enumerate() {
                bad_tag[source] += u64::from(has_bad_tag(marks, source));
                bad_sender[source] += u64::from(mark.is_some_and(|(_, broken)| broken));
            }
            rows.insert(key, row);
        }
        let built: BTreeMap<u64, &Row> =
            rig.rows.iter().map(|(&key, row)| (R::event(key), row)).collect();
        assert_eq!(built.len(), rig.rows.len(), "an event is built once: {context}");
        assert!(
            built.keys().eq(rows.keys()),
            "{:?} and {:?}: {context}",
            built.keys(),
            rows.keys()
        );
        let why = EventFlags::TIMED_OUT | EventFlags::OVERTAKEN | EventFlags::RUN_ENDED;
        for (key, built) in built {
            let mut built = built.clone();
            let reason = EventFlags(built.flags.0 & why.0);
            built.flags = EventFlags(built.flags.0 & !why.0);
            assert_eq!(built, rows[&key], "event {key}, {context}");
            let reasons = u32::from(built.flags.contains(EventFlags::INCOMPLETE));
            assert_eq!(reason.0.count_ones(), reasons, "one reason if incomplete: {context}");
        }
        for source in 0..count {
            let expected = [
                (Entry::FragmentsDiscardedIncomplete, dropped[source]),
                (Entry::FragmentsMissing, missing[source]),
                (Entry::FragmentsBadSender, bad_sender[source]),
                (Entry::FragmentsBadTag, bad_tag[source]),
            ];
            for (entry, count) in expected.into_iter().chain(self.counted(source)) {
                assert_eq!(rig.count(source, entry), count, "{entry} of {source}, {context}");
            }
            let required = roles[source] == SourceRole::Required;
            // What lies before the very last events is missing only if most came to those.
            let most = if required { unrecorded[source] } else { 0 };
            let got = rig.count(source, Entry::FragmentsMissingUnrecorded);
            let tail = if required { absent_last } else { 0 };
            assert!((most - tail..=most).contains(&got), "{got} of {most}, {context}");
        }
    }
}
