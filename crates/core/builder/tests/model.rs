//! The builder against a model, and against anything at all.
//!
//! The model is a map from key to fragments, filled in the order of pushing. As long as the sources
//! keep within the limits (reordering, skew, window, time-out) the builder must come to exactly the
//! same, whatever is lost, repeated or dead. Beyond the limits only the ledger must balance.

mod support;

use std::collections::BTreeMap;

use catchment_builder::{BuilderConfig, Fragment, FragmentFlags, IncompletePolicy, SourceRole};
use catchment_model::{Entry, EventFlags};
use support::{MS, Random, Rig, Row, S};

const REORDER_EVENTS: u64 = 256;
const WINDOW_EVENTS: u64 = 4_096;
const TIMEOUT_NS: u64 = 500 * MS;

#[test]
fn within_the_limits_the_builder_does_what_the_model_does() {
    for seed in 0..200 {
        let plan = Plan::new(seed);
        let mut rig = Rig::new(plan.config.clone());
        let mut model = Model::new(plan.config.clone());
        let (arrivals, end_ns) = plan.arrivals(&mut rig);
        let mut random = Random::new(seed ^ 0xbeef);
        let mut rest = &arrivals[..];
        while !rest.is_empty() {
            let now = rest[0].0 + random.below(5 * MS);
            let count = rest.partition_point(|(arrives_ns, _)| *arrives_ns <= now);
            let (batch, after) = rest.split_at(count);
            let fragments: Vec<Fragment> = batch.iter().map(|(_, fragment)| *fragment).collect();
            model.push(now, &fragments);
            rig.push(now, &fragments);
            rig.poll(now);
            rest = after;
            // Polls while nothing comes.
            let next = rest.first().map_or(end_ns, |(arrives_ns, _)| *arrives_ns);
            let mut quiet_ns = now + 100 * MS;
            while quiet_ns < next {
                rig.poll(quiet_ns);
                quiet_ns += 100 * MS;
            }
        }
        rig.finish(end_ns);
        model.compare(&rig, plan.tail_events(), &format!("seed {seed}: {plan:?}"));
    }
}

#[test]
fn beyond_all_limits_the_books_balance_at_every_step() {
    for seed in 0..300 {
        anything(seed);
    }
}

fn anything(seed: u64) {
    let mut random = Random::new(seed);
    let count = 1 + random.below(6) as usize;
    let roles = [SourceRole::Required, SourceRole::Optional, SourceRole::Disabled];
    let mut sources: Vec<SourceRole> =
        (0..count).map(|_| roles[random.below(5).saturating_sub(2) as usize]).collect();
    sources[0] = SourceRole::Required;
    let mut config = BuilderConfig::new(sources);
    config.number_bits = [16, 24, 32][random.below(3) as usize];
    (config.window_events, config.reorder_events) = (1 << (8 + random.below(6)), random.below(256));
    (config.timeout_ns, config.frame_time_ns) = (10 * MS, random.below(20 * MS));
    (config.frame_bytes, config.parked_max) =
        (1 + random.below(50_000), 1 + random.below(300) as usize);
    config.incomplete = [IncompletePolicy::Keep, IncompletePolicy::Drop][random.below(2) as usize];
    let mut rig = Rig::new(config);
    let mut next: Vec<u64> = vec![random.next(); count + 1];
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
            1 => *number = random.next(),
            2 => *number = number.wrapping_add(random.below(100_000)),
            3 => *number = number.wrapping_sub(random.below(20_000)),
            4 => next = vec![random.below(2); count + 1],
            5 => next = vec![random.next(); count + 1],
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

/// What the sources do in one run.
#[derive(Debug)]
struct Plan {
    config: BuilderConfig,
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
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = 1 + random.below(8);
        let roles = [SourceRole::Required, SourceRole::Optional, SourceRole::Disabled];
        let mut sources: Vec<SourceRole> =
            (0..count).map(|_| roles[random.below(8).saturating_sub(5) as usize]).collect();
        sources[0] = SourceRole::Required;
        let mut config = BuilderConfig::new(sources);
        config.window_events = WINDOW_EVENTS;
        config.reorder_events = REORDER_EVENTS;
        config.timeout_ns = TIMEOUT_NS;
        config.frame_bytes = 1 + random.below(200_000);
        config.frame_time_ns = random.below(2 * S);
        if random.chance(300) {
            config.incomplete = IncompletePolicy::Drop;
        }
        let events = 100 + random.below(2_000);
        Self {
            config,
            seed,
            events,
            first: [0, 1, 123_456, (1 << 24) - 600][random.below(4) as usize],
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

    /// All fragments with the times at which they come, in order; and when all is over.
    /// Events at the end to which not all sources have come, or one that died is still waited for.
    fn tail_events(&self) -> u64 {
        64 + 2 * TIMEOUT_NS / self.event_ns
    }

    fn arrivals(&self, rig: &mut Rig) -> (Vec<(u64, Fragment)>, u64) {
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
                        let mut fragment = rig.fragment(source, self.first + event, bytes);
                        fragment.tag = event as u8 ^ u8::from(random.chance(10));
                        let broken = random.chance(10);
                        fragment.flags = if broken { FragmentFlags::SENDER_ERROR } else { 0 };
                        arrivals.push((arrives_ns, fragment));
                    }
                }
            }
        }
        arrivals.sort_by_key(|(arrives_ns, _)| *arrives_ns);
        let end_ns = arrivals.last().map_or(0, |(last, _)| last + random.below(3 * S));
        (arrivals, end_ns)
    }
}

/// The obvious builder.
struct Model {
    config: BuilderConfig,
    events: BTreeMap<u64, (Row, u8)>,
    newest: Vec<u64>,
    skipped: Vec<u64>,
    reordered: Vec<u64>,
    duplicates: Vec<u64>,
    wrong_tag: Vec<u64>,
    flagged: Vec<u64>,
    disabled: Vec<u64>,
    first: Option<u64>,
}

impl Model {
    fn new(config: BuilderConfig) -> Self {
        let none = vec![0; config.sources.len()];
        Self {
            events: BTreeMap::new(),
            newest: none.clone(),
            skipped: vec![u64::MAX; config.sources.len()],
            reordered: none.clone(),
            duplicates: none.clone(),
            wrong_tag: none.clone(),
            flagged: none.clone(),
            disabled: none,
            first: None,
            config,
        }
    }

    fn push(&mut self, now_ns: u64, fragments: &[Fragment]) {
        for fragment in fragments {
            let source = fragment.source as usize;
            if self.config.sources[source] == SourceRole::Disabled {
                self.disabled[source] += 1;
                continue;
            }
            // Numbers wrap at most once, and the run is shorter than half a cycle.
            let first = *self.first.get_or_insert(fragment.number);
            let number = fragment.number;
            let key = if number + (1 << 23) < first { number + (1 << 24) } else { number };
            let (row, tag) = self.events.entry(key).or_insert_with(|| {
                let fragments = vec![None; self.config.sources.len()];
                (Row { time_ns: now_ns, flags: EventFlags::default(), fragments }, fragment.tag)
            });
            if row.fragments[source].is_some() {
                self.duplicates[source] += 1;
                continue;
            }
            let offset = if fragment.bytes > 0 { fragment.offset } else { 0 };
            row.fragments[source] = Some((offset, fragment.bytes));
            if *tag != fragment.tag {
                row.flags.insert(EventFlags::TAG_MISMATCH);
                self.wrong_tag[source] += 1;
            }
            if fragment.flags & FragmentFlags::SENDER_ERROR != 0 {
                row.flags.insert(EventFlags::SENDER_ERROR);
                self.flagged[source] += 1;
            }
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

    fn compare(&self, rig: &Rig, tail_events: u64, context: &str) {
        let roles = &self.config.sources;
        let count = roles.len();
        let keys = self.events.first_key_value().zip(self.events.last_key_value());
        let span = keys.map_or(0, |((first, _), (last, _))| last - first + 1);
        let absent = span - self.events.len() as u64;
        let end = keys.map_or(0, |(_, (last, _))| last + 1);
        let last = self.events.range(end.saturating_sub(tail_events)..).count() as u64;
        let absent_last = absent.min(tail_events.min(span) - last);
        let (mut missing, mut unrecorded, mut dropped) =
            (vec![0; count], vec![absent; count], vec![0; count]);
        let mut rows = BTreeMap::new();
        for (&key, (row, _)) in &self.events {
            let mut row = row.clone();
            let lacks = |s: usize| roles[s] == SourceRole::Required && row.fragments[s].is_none();
            let lacking: Vec<usize> = (0..count).filter(|&source| lacks(source)).collect();
            let drop = !lacking.is_empty() && self.config.incomplete == IncompletePolicy::Drop;
            for &source in &lacking {
                row.flags.insert(EventFlags::INCOMPLETE);
                (if drop { &mut unrecorded } else { &mut missing })[source] += 1;
            }
            if drop {
                (0..count).for_each(|s| dropped[s] += u64::from(row.fragments[s].is_some()));
            } else {
                rows.insert(key, row);
            }
        }
        assert_eq!(
            rig.rows.keys().collect::<Vec<_>>(),
            rows.keys().collect::<Vec<_>>(),
            "{context}"
        );
        let why = EventFlags::TIMED_OUT | EventFlags::OVERTAKEN | EventFlags::RUN_ENDED;
        for (key, built) in &rig.rows {
            let mut built = built.clone();
            let reason = EventFlags(built.flags.0 & why.0);
            built.flags = EventFlags(built.flags.0 & !why.0);
            assert_eq!(built, rows[key], "key {key}, {context}");
            let reasons = u32::from(built.flags.contains(EventFlags::INCOMPLETE));
            assert_eq!(reason.0.count_ones(), reasons, "one reason if incomplete: {context}");
        }
        for source in 0..count {
            let required = roles[source] == SourceRole::Required;
            let expected = [
                (Entry::FragmentsDuplicate, self.duplicates[source]),
                (Entry::FragmentsReordered, self.reordered[source]),
                (Entry::FragmentsWrongTag, self.wrong_tag[source]),
                (Entry::FragmentsFlaggedError, self.flagged[source]),
                (Entry::FragmentsDiscardedDisabled, self.disabled[source]),
                (Entry::FragmentsDiscardedIncomplete, dropped[source]),
                (Entry::FragmentsMissing, missing[source]),
                (Entry::FragmentsLate, 0),
                (Entry::FragmentsOutOfRange, 0),
                (Entry::NumberingRestarts, 0),
            ];
            for (entry, count) in expected {
                assert_eq!(rig.count(source, entry), count, "{entry} of {source}, {context}");
            }
            // What lies before the very last events is missing only if most came to those.
            let most = if required { unrecorded[source] } else { 0 };
            let got = rig.count(source, Entry::FragmentsMissingUnrecorded);
            let tail = if required { absent_last } else { 0 };
            assert!((most - tail..=most).contains(&got), "{got} of {most}, {context}");
        }
    }
}
