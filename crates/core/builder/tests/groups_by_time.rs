//! Who is expected, by time: the reference source names the groups of each event.

use std::collections::BTreeMap;

use catchment_builder::{
    BuilderConfig, ClockConfig, Fragment, SourceNote, SourceRole, TimeConfig, TimeMatcher,
    Unmatched,
};
use catchment_fixtures::Random;
use catchment_model::{Entry, EventFlags};

use crate::support::{MS, Rig, S};

use SourceRole::{Optional, Required, Sparse};

const BYTES: u64 = 100;
/// Events of all, with which clocks become known.
const BEGUN: u64 = 3;

/// Sources of which the first one opens events and names groups; the others are in these.
fn rig(
    roles: &[SourceRole],
    expected_in: &[u64],
    change: impl FnOnce(&mut BuilderConfig, &mut TimeConfig),
) -> Rig<TimeMatcher> {
    let mut config =
        BuilderConfig { expected_in: expected_in.to_vec(), ..BuilderConfig::new(roles.to_vec()) };
    let clocks = vec![ClockConfig::NS; roles.len()];
    let mut time = TimeConfig::new(100, clocks, config.timeout_ns);
    time.openers = (0..roles.len()).map(|index| index == 0).collect();
    (time.before_ns, time.reference) = (100, Some(0));
    change(&mut config, &mut time);
    let matcher = TimeMatcher::new(&config, &time).expect("settings that can be");
    Rig::with_matcher(&config, matcher)
}

fn send(rig: &mut Rig<TimeMatcher>, now_ns: u64, source: usize, ns: u64) {
    let fragment = rig.fragment(source, 0, BYTES as u32);
    rig.push(now_ns, &[Fragment { number: ns, ..fragment }]);
}

/// A fragment of the reference source.
fn open(rig: &mut Rig<TimeMatcher>, now_ns: u64, ns: u64, groups: u64) {
    rig.builder.note(now_ns, 0, SourceNote::Named(groups));
    send(rig, now_ns, 0, ns);
}

/// Three events of all, after which every clock is known.
fn begin(rig: &mut Rig<TimeMatcher>) {
    for event in 1..=BEGUN {
        open(rig, event * MS, event * MS, u64::MAX);
        (1..3).for_each(|source| send(rig, event * MS, source, event * MS));
        rig.poll(event * MS);
    }
    assert_eq!(rig.builder.status().events_complete, BEGUN);
}

#[test]
fn an_event_waits_for_the_sources_of_its_groups_and_for_no_other() {
    let mut rig = rig(&[Required; 3], &[0, 0b01, 0b10], |_, _| {});
    begin(&mut rig);
    for event in BEGUN + 1..=50 {
        let now = event * MS;
        // The second group is there in each tenth event.
        let groups = if event % 10 == 1 { 0b11 } else { 0b01 };
        open(&mut rig, now, now, groups);
        if groups == 0b11 {
            send(&mut rig, now, 2, now + 5);
        }
        // Each fifth event of the first group lacks its source.
        if event % 5 != 4 {
            send(&mut rig, now, 1, now + 7);
        }
        rig.poll(now);
        let expected = if event % 5 == 4 { event - 1 } else { event };
        let status = rig.builder.status();
        assert_eq!(status.events_complete + status.events_incomplete, expected, "at {event}");
    }
    rig.finish(S);
    assert_eq!(rig.rows.len(), 50);
    assert_eq!(
        (rig.count(1, Entry::FragmentsMissing), rig.count(2, Entry::FragmentsMissing)),
        (10, 0)
    );
    let of_second: Vec<bool> = rig.rows.values().map(|row| row.expected[2]).collect();
    let named: Vec<bool> = (1..=50).map(|event| event <= BEGUN || event % 10 == 1).collect();
    assert_eq!(of_second, named);
}

#[test]
fn where_no_group_is_named_everyone_is_expected() {
    let mut rig = rig(&[Required; 3], &[0, 0b01, 0b10], |_, _| {});
    for event in 1..=10 {
        let now = event * MS;
        open(&mut rig, now, now, if event % 2 == 0 { 0 } else { 0b01 });
        send(&mut rig, now, 1, now);
        rig.poll(now);
    }
    rig.finish(S);
    assert_eq!((rig.count(2, Entry::FragmentsMissing), rig.complete()), (5, 5));
}

/// What a source sends that the event does not expect is no part of it, and never late, whether it
/// comes before the event closes or long after.
#[test]
fn early_and_late_a_fragment_that_was_not_expected_is_unmatched() {
    for unmatched in [Unmatched::Keep, Unmatched::Count] {
        for is_late in [false, true] {
            let mut rig = rig(&[Required; 3], &[0, 0b01, 0b10], |_, time| {
                time.unmatched = unmatched;
            });
            begin(&mut rig);
            if !is_late {
                send(&mut rig, 4 * MS, 2, 4 * MS + 3);
            }
            for event in BEGUN + 1..=20 {
                open(&mut rig, event * MS, event * MS, 0b01);
                send(&mut rig, event * MS, 1, event * MS);
                rig.poll(event * MS);
            }
            assert_eq!(rig.builder.status().events_complete, 20);
            if is_late {
                send(&mut rig, 20 * MS, 2, 4 * MS + 3);
            }
            // An event that expects it takes what it has for that.
            open(&mut rig, 21 * MS, 21 * MS, 0b10);
            send(&mut rig, 21 * MS, 2, 21 * MS + 50);
            rig.poll(21 * MS);
            rig.finish(S);
            let alone = rig.rows.values().filter(|row| row.flags == EventFlags::UNMATCHED);
            let counted = rig.count(2, Entry::FragmentsDiscardedUnmatched);
            let expected = if unmatched == Unmatched::Keep { (1, 0) } else { (0, 1) };
            assert_eq!((alone.count() as u64, counted), expected, "late: {is_late}");
            assert_eq!((rig.complete(), rig.count(2, Entry::FragmentsLate)), (21, 0));
        }
    }
}

#[test]
fn the_source_that_names_groups_is_the_only_one_that_opens_events() {
    let config = BuilderConfig::new(vec![Required; 2]);
    let mut time = TimeConfig::new(100, vec![ClockConfig::NS; 2], config.timeout_ns);
    time.reference = Some(0);
    for openers in [vec![], vec![true, true], vec![false, true]] {
        time.openers = openers;
        let refused = TimeMatcher::new(&config, &time).unwrap_err().to_string();
        assert!(refused.contains("the source alone that names groups"), "{refused}");
    }
    time.openers = vec![true, false];
    assert!(TimeMatcher::new(&config, &time).is_ok());
}

/// What was sent in a random history, by source in the order of time.
struct History {
    roles: Vec<SourceRole>,
    expected_in: Vec<u64>,
    sent: Vec<Vec<u64>>,
    /// What the reference source's fragments name.
    named: Vec<u64>,
}

/// An event: its anchor, what it names, and by source the index of its fragment.
type Event = (u64, u64, Vec<Option<usize>>);

impl History {
    fn new(random: &mut Random, count: usize, window_ns: u64) -> Self {
        let roles = (0..count).map(|source| match random.below(5) * source as u64 {
            0 | 4.. => Required,
            1 | 2 => Optional,
            _ => Sparse,
        });
        let roles: Vec<_> = roles.collect();
        let expected_in =
            (0..count as u64).map(|source| source.min(1) * random.below(16)).collect();
        let events = (4_000 / count as u64).max(20);
        let apart_ns = 3 * window_ns + random.below(5 * MS);
        let mut sent = vec![Vec::new(); count];
        let mut named = Vec::new();
        let mut groups = 1;
        for event in 1..=events {
            let begin = S + event * apart_ns;
            if random.chance(300) {
                groups = random.below(16);
            }
            let takes_part = |random: &mut Random, source: usize| source == 0 || random.chance(800);
            for (source, sent) in sent.iter_mut().enumerate() {
                // In the first event all are there, so that each clock is known.
                if event > 1 && !takes_part(random, source) {
                    continue;
                }
                // Around the window, and beyond it.
                let ns = begin - window_ns + random.below(3 * window_ns);
                let ns = if source == 0 { begin } else { ns };
                if sent.last().is_none_or(|last| *last < ns) {
                    sent.push(ns);
                }
                if source > 0 && random.chance(100) {
                    let more = ns + 1 + random.below(window_ns);
                    sent.push(more);
                }
            }
            named.push(groups);
        }
        Self { roles, expected_in, sent, named }
    }

    fn is_expected(&self, source: usize, groups: u64) -> bool {
        let expected_in = if self.roles[source] == Sparse { 0 } else { self.expected_in[source] };
        source == 0 || groups == 0 || expected_in == 0 || expected_in & groups > 0
    }

    /// All events in turn: each takes of the sources that it expects the first fragment in its
    /// window that none before has taken. The rest is in none.
    fn events(&self, before_ns: u64, window_ns: u64) -> Vec<Event> {
        let mut taken: Vec<Vec<bool>> =
            self.sent.iter().map(|sent| vec![false; sent.len()]).collect();
        let of_anchor = |(&anchor, &groups): (&u64, &u64)| {
            let window = anchor - before_ns..=anchor + window_ns;
            let of_source = |source: usize| {
                if !self.is_expected(source, groups) {
                    return None;
                }
                let sent = self.sent[source].iter().zip(&mut taken[source]);
                let mut free =
                    sent.enumerate().filter(|(_, (ns, taken))| !**taken && window.contains(ns));
                let (index, (_, taken)) = free.next()?;
                *taken = true;
                Some(index)
            };
            (anchor, groups, (0..self.sent.len()).map(of_source).collect())
        };
        self.sent[0].iter().zip(&self.named).map(of_anchor).collect()
    }

    /// Sends everything, sources behind each other by up to `delay_ns`.
    fn run(&self, random: &mut Random, rig: &mut Rig<TimeMatcher>, delay_ns: u64) {
        let mut arrivals = Vec::new();
        for (source, sent) in self.sent.iter().enumerate() {
            let delay_ns = random.below(delay_ns);
            arrivals.extend((0..).zip(sent).map(|(index, ns)| (ns + delay_ns, source, index)));
        }
        arrivals.sort_unstable();
        // The rig looks at every source's ledger with each.
        let polls_per_thousand = if self.sent.len() > 100 { 10 } else { 200 };
        for (now_ns, source, index) in arrivals {
            let index: usize = index;
            let ns = self.sent[source][index];
            match source {
                0 if index == 0 || self.named[index - 1] != self.named[index] => {
                    open(rig, now_ns, ns, self.named[index]);
                }
                _ => send(rig, now_ns, source, ns),
            }
            if random.chance(polls_per_thousand) {
                rig.poll(now_ns);
            }
        }
        rig.finish(1_000 * S);
    }
}

#[test]
fn random_histories_come_to_what_a_simple_model_says_in_whatever_order_sources_arrive() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let count = [2, 3, 7, 40, 300, 1_000][(seed % 6) as usize];
        let window_ns = [100, 10_000, MS][random.below(3) as usize];
        let before_ns = window_ns / 2;
        let history = History::new(&mut random, count, window_ns);
        let expected = history.events(before_ns, window_ns);
        let mut rig = rig(&history.roles, &history.expected_in, |_, time| {
            (time.window_ns, time.before_ns) = (window_ns, before_ns);
            time.span_ns_max = 16 * window_ns;
            time.clocks.iter_mut().for_each(|clock| clock.lag_ns = 200 * MS);
        });
        history.run(&mut random, &mut rig, 50 * MS);
        let sent: usize = history.sent.iter().map(Vec::len).sum();
        let mut rows =
            rig.rows.iter().filter(|(_, row)| !row.flags.contains(EventFlags::UNMATCHED));
        let mut in_events = 0;
        let mut missing = BTreeMap::new();
        for (anchor, groups, of_sources) in &expected {
            let (key, row) =
                rows.next().unwrap_or_else(|| panic!("seed {seed}: no event {anchor}"));
            assert!(*key >= *anchor, "seed {seed}");
            for (source, of_source) in of_sources.iter().enumerate() {
                let which = row.fragments[source].map(|(offset, _)| (offset / BYTES) as usize);
                assert_eq!(which, *of_source, "seed {seed}, {count} sources, {source} at {anchor}");
                let is_expected = history.is_expected(source, *groups);
                assert_eq!(row.expected[source], is_expected, "seed {seed}, {source} at {anchor}");
                let is_missing =
                    of_source.is_none() && is_expected && history.roles[source] == Required;
                *missing.entry(source).or_insert(0) += u64::from(is_missing);
            }
            in_events += of_sources.iter().flatten().count();
            let lacks = |source: &usize| {
                history.roles[*source] == Required && history.is_expected(*source, *groups)
            };
            let lacking = (0..count).filter(lacks).any(|source| of_sources[source].is_none());
            assert_eq!(
                row.flags.contains(EventFlags::INCOMPLETE),
                lacking,
                "seed {seed}, {anchor}"
            );
        }
        assert!(rows.next().is_none(), "seed {seed}");
        let alone = rig.total(Entry::FragmentsUnmatched) as usize;
        assert_eq!((alone, rig.lost()), (sent - in_events, 0), "seed {seed}");
        for (source, count) in missing {
            assert_eq!(rig.count(source, Entry::FragmentsMissing), count, "seed {seed}, {source}");
        }
    }
}

/// The reference is ahead, and so is nothing of the source's own that may still come before it.
#[test]
fn a_fragment_that_is_in_no_event_is_not_late_within_its_sources_reorder() {
    let mut rig = rig(&[Required; 3], &[0, 0b01, 0b10], |_, time| {
        time.clocks[1].reorder_ns = 50_000;
    });
    for event in 1..=20 {
        let now = event * MS;
        open(&mut rig, now, now, 0b11);
        (1..3).for_each(|source| send(&mut rig, now, source, now));
        rig.poll(now);
        let (now, event_ns) = (now + MS / 2, now);
        // Between two events, in the wrong order, and the reference is ahead.
        open(&mut rig, now, now, 0b10);
        send(&mut rig, now, 2, now);
        send(&mut rig, now, 1, event_ns + 120_000);
        rig.poll(now);
        send(&mut rig, now, 1, event_ns + 100_000);
        rig.poll(now);
    }
    rig.finish(S);
    assert_eq!(rig.count(1, Entry::FragmentsLate), 0);
    assert_eq!(rig.count(1, Entry::FragmentsUnmatched), 2 * 20);
    rig.check_ledger();
}
