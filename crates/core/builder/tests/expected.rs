//! Who is expected in an event: sources that share a group with those which its reference source
//! names.

use std::collections::{BTreeMap, BTreeSet};

use catchment_builder::{BuilderConfig, IncompletePolicy, NumberConfig, SourceNote, SourceRole};
use catchment_fixtures::Random;
use catchment_model::{Entry, EventFlags};

use crate::promises::{config, mark};
use crate::support::{MS, Rig, window};

use catchment_builder::SourceRole::{Optional, Required, Sparse};

const INCOMPLETE: EventFlags = EventFlags::INCOMPLETE;

fn name(rig: &mut Rig, source: usize, groups: u64) {
    rig.builder.note(0, source, SourceNote::Named(groups));
}

/// A trigger, sources in group 0 and in group 1, and one in all events.
fn detector() -> BuilderConfig {
    BuilderConfig { expected_in: vec![0, 1, 2, 0], ..config(&[Required; 4]) }
}

#[test]
fn a_source_of_another_group_is_not_missing_and_one_of_the_event_is() {
    let mut rig = Rig::whole(detector());
    name(&mut rig, 0, 1);
    rig.send(0, 0, 0..10);
    name(&mut rig, 0, 2);
    rig.send(0, 0, 10..20);
    rig.send(0, 3, 0..20);
    rig.send(0, 1, (0..10).filter(|key| *key != 5));
    // One that was not expected is there.
    rig.send(0, 2, [7, 10, 12, 13, 14, 15, 16, 17, 18, 19]);
    (1..3).for_each(|source| mark(&mut rig, 0, source, 20));
    rig.poll(0);
    assert_eq!(rig.rows.len(), 20);
    let incomplete = rig.rows.iter().filter(|(_, row)| row.flags.contains(INCOMPLETE));
    assert_eq!(incomplete.map(|(key, _)| *key).collect::<Vec<u64>>(), [5, 11]);
    let missing = (0..4).map(|source| rig.count(source, Entry::FragmentsMissing));
    assert_eq!(missing.collect::<Vec<u64>>(), [0, 1, 1, 0]);
    assert_eq!(rig.rows[&3].expected, [true, true, false, true]);
    assert_eq!(rig.rows[&7].expected, [true, true, false, true]);
    assert!(rig.rows[&7].fragments[2].is_some());
    rig.finish(MS);
}

#[test]
fn without_a_fragment_of_the_reference_source_everyone_is_expected() {
    let mut rig = Rig::whole(detector());
    name(&mut rig, 0, 1);
    rig.send(0, 0, [0, 2]);
    // Nor does one of them that names none.
    name(&mut rig, 0, 0);
    rig.send(0, 0, [3]);
    for source in [1, 3] {
        rig.send(0, source, 0..4);
    }
    mark(&mut rig, 0, 2, 4);
    rig.poll(0);
    assert_eq!(rig.count(2, Entry::FragmentsMissing), 2);
    assert_eq!([0, 1, 2, 3].map(|key| rig.rows[&key].expected[2]), [false, true, false, true]);
    rig.finish(MS);
}

#[test]
fn a_port_that_is_not_expected_is_not_waited_for() {
    let mut config = detector();
    config.promising = vec![true, false, false, false];
    config.pausable = Vec::new();
    let mut rig = Rig::new(config);
    rig.send_all(0, 0..4, 0..10);
    rig.poll(0);
    assert_eq!(rig.complete(), 10);
    name(&mut rig, 0, 1);
    for key in 10..20 {
        for source in [0, 1, 3] {
            rig.send(0, source, [key]);
        }
        rig.poll(0);
        assert_eq!(rig.complete() as u64, key + 1);
    }
    rig.finish(MS);
    assert_eq!(rig.total(Entry::FragmentsMissing), 0);
}

#[test]
fn what_a_hello_says_of_groups_counts_and_a_second_reference_source_names_nothing() {
    let mut rig = Rig::whole(config(&[Required; 3]));
    rig.builder.note(0, 1, SourceNote::ExpectedIn(2));
    name(&mut rig, 0, 1);
    name(&mut rig, 2, 2);
    rig.send(0, 0, 0..5);
    rig.send(0, 2, 0..5);
    mark(&mut rig, 0, 1, 5);
    rig.poll(0);
    assert_eq!((rig.complete(), rig.count(1, Entry::FragmentsMissing)), (5, 0));
    rig.finish(MS);
}

/// Ports, of which the first names the groups of the others.
fn named_by_the_first() -> Rig {
    let mut config = BuilderConfig::new(vec![Required; 3]);
    config.expected_in = vec![0, 1, 2];
    Rig::by_number(config, NumberConfig { reference: Some(0), ..NumberConfig::default() })
}

#[test]
fn a_port_names_groups_if_the_settings_say_so() {
    let mut rig = named_by_the_first();
    for key in 0..40 {
        if key % 4 == 0 {
            name(&mut rig, 0, 1 + key / 4 % 2);
        }
        rig.send(0, 0, [key]);
        rig.send(0, 1 + (key / 4 % 2) as usize, [key]);
        if key % 7 == 0 {
            rig.poll(0);
        }
    }
    // The newest event of the other one is passed by it.
    rig.finish(MS);
    assert_eq!((rig.complete(), rig.total(Entry::FragmentsMissing)), (40, 0));
    let expected = |key: u64| {
        let is_first = (key / 4).is_multiple_of(2);
        [true, is_first, !is_first]
    };
    assert!(rig.rows.iter().all(|(key, row)| row.expected == expected(*key)));
}

#[test]
fn who_is_expected_does_not_depend_on_whether_the_reference_source_comes_first() {
    for order in [[0, 1, 2], [1, 2, 0], [2, 0, 1]] {
        let mut rig = named_by_the_first();
        // Those of the groups are further than fragments may be reordered.
        let keys = 0..12_288;
        for source in order {
            for key in keys.clone().filter(|key| source == 0 || key % 2 == source as u64 - 1) {
                if source == 0 {
                    name(&mut rig, 0, 1 + key % 2);
                }
                rig.send(0, source, [key]);
                if key % 1_024 < 2 {
                    rig.poll(0);
                }
            }
            rig.poll(0);
        }
        rig.finish(MS);
        assert_eq!((rig.complete(), rig.total(Entry::FragmentsMissing)), (12_288, 0), "{order:?}");
        assert_eq!(rig.lost(), 0, "{order:?}");
    }
}

/// What was sent in a random history, and what the builder was told.
struct History {
    roles: Vec<SourceRole>,
    expected_in: Vec<u64>,
    drops: bool,
    /// What the trigger named, by key.
    named: BTreeMap<u64, u64>,
    /// By source, the keys of its fragments.
    there: Vec<BTreeSet<u64>>,
}

impl History {
    fn run(seed: u64) -> (Self, Rig) {
        let mut random = Random::new(seed);
        let count = 2 + random.below(5) as usize;
        let roles: Vec<_> = (0..count)
            .map(|source| match random.below(4) * source as u64 {
                0 | 3.. => Required,
                1 => Optional,
                _ => Sparse,
            })
            .collect();
        let drops = random.chance(300);
        let mut config = BuilderConfig {
            expected_in: (0..count).map(|_| random.below(8)).collect(),
            frame_bytes: 1 + random.below(5_000),
            timeout_ns: 3_600_000 * MS,
            ..config(&roles)
        };
        if drops {
            config.incomplete = IncompletePolicy::Drop;
        }
        let number = NumberConfig { number_bits: 48, ..window(256, 8) };
        let (expected_in, mut rig) = (config.expected_in.clone(), Rig::by_number(config, number));
        let (mut named, mut there) = (BTreeMap::new(), vec![BTreeSet::new(); count]);
        let (mut next, mut groups) = (vec![0; count], 0);
        for _ in 0..400 {
            let source = random.below(count as u64) as usize;
            for _ in 0..random.below(40) {
                if source == 0 && random.chance(200) {
                    groups = random.below(8);
                    name(&mut rig, 0, groups);
                }
                // Far ahead of the window, too.
                next[source] += [1, 1, 1, 2, 3, 30][random.below(6) as usize];
                let key = next[source];
                rig.send(0, source, [key]);
                there[source].insert(key);
                if source == 0 {
                    named.insert(key, groups);
                }
            }
            if random.chance(500) {
                rig.poll(0);
            }
        }
        let last = next.iter().max().map_or(0, |last| last + 1);
        (0..count).for_each(|source| mark(&mut rig, 0, source, last));
        rig.poll(0);
        rig.finish(MS);
        (Self { roles, expected_in, drops, named, there }, rig)
    }

    fn is_expected(&self, source: usize, key: u64) -> bool {
        let groups = self.named.get(&key).copied().unwrap_or(0);
        self.roles[source] == Sparse
            || groups == 0
            || self.expected_in[source] == 0
            || self.expected_in[source] & groups > 0
    }

    fn lacks(&self, source: usize, key: u64) -> bool {
        self.roles[source] == Required
            && self.is_expected(source, key)
            && !self.there[source].contains(&key)
    }
}

#[test]
fn each_event_expects_those_that_its_trigger_named_in_random_histories() {
    for seed in 0..30 {
        let (history, rig) = History::run(seed);
        let sources = || 0..history.roles.len();
        let keys: BTreeSet<u64> = history.there.iter().flatten().copied().collect();
        for &key in &keys {
            let is_complete = !sources().any(|source| history.lacks(source, key));
            match rig.rows.get(&key) {
                Some(row) => {
                    assert_eq!(!row.flags.contains(INCOMPLETE), is_complete, "seed {seed}, {key}");
                    let expected: Vec<bool> =
                        sources().map(|source| history.is_expected(source, key)).collect();
                    assert_eq!(row.expected, expected, "seed {seed}, {key}");
                }
                None => assert!(history.drops && !is_complete, "seed {seed}, {key}"),
            }
        }
        let absent = rig.builder.status().events_absent;
        for source in sources().filter(|&source| history.roles[source] == Required) {
            let missing = keys.iter().filter(|&&key| history.lacks(source, key)).count() as u64;
            let of_rows = rig.count(source, Entry::FragmentsMissing);
            let unrecorded = rig.count(source, Entry::FragmentsMissingUnrecorded);
            let skipped = rig.count(source, Entry::FragmentsSkipped);
            assert_eq!(of_rows + unrecorded - absent, missing, "seed {seed}, {source}, {skipped}");
        }
    }
}
