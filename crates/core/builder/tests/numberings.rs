//! Numberings that sources which promise begin: by a mark, each at its own time, some of them late.

use std::collections::{BTreeMap, BTreeSet};

use catchment_builder::{SourceNote, SourceRole::Required};
use catchment_fixtures::Random;
use catchment_model::Entry;

use crate::promises::{config, mark};
use crate::support::{MS, Rig, S};

/// Where the keys of a numbering begin.
fn base(numbering: u64) -> u64 {
    numbering << 48
}

fn number_anew(rig: &mut Rig, source: usize) {
    rig.builder.note(0, source, SourceNote::Numbering);
}

#[test]
fn a_source_that_begins_with_a_mark_while_others_number_is_of_the_next_numbering() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    rig.send(0, 0, 100..110);
    number_anew(&mut rig, 1);
    rig.send(0, 1, 0..10);
    rig.poll(0);
    assert_eq!((rig.rows.len(), rig.builder.parked(1)), (10, 10));
    number_anew(&mut rig, 0);
    rig.send(0, 0, 0..10);
    rig.poll(0);
    assert_eq!(rig.rows.range(base(1)..).count(), 10);
    assert_eq!((rig.complete(), rig.lost()), (10, 0));
    rig.finish(MS);
}

#[test]
fn a_program_that_begins_again_with_a_mark_waits_for_the_others() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    rig.send_all(0, 0..2, 100..110);
    rig.poll(0);
    rig.builder.note(0, 1, SourceNote::Session { key_bits: 48 });
    number_anew(&mut rig, 1);
    rig.send(0, 1, 0..5);
    rig.send(0, 0, 110..115);
    rig.poll(0);
    assert_eq!((rig.rows.len(), rig.builder.parked(1)), (15, 5));
    // One that missed a numbering comes to it by its mark.
    rig.builder.note(0, 0, SourceNote::Session { key_bits: 48 });
    number_anew(&mut rig, 0);
    rig.send_all(0, 0..2, 5..10);
    rig.poll(0);
    assert_eq!((rig.rows.range(base(1)..).count(), rig.complete(), rig.lost()), (10, 15, 0));
    rig.finish(MS);
}

#[test]
fn sources_that_all_begin_with_a_mark_are_of_one_numbering() {
    let mut rig = Rig::whole(config(&[Required; 3]));
    for source in 0..3 {
        number_anew(&mut rig, source);
        rig.send(0, source, 0..10);
        rig.poll(0);
    }
    assert_eq!((rig.complete(), rig.total(Entry::NumberingRestarts)), (10, 0));
    rig.finish(MS);
}

#[test]
fn a_numbering_of_which_nothing_came_but_a_low_water_mark_holds_up_none() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    mark(&mut rig, 0, 0, 100);
    for source in 0..2 {
        number_anew(&mut rig, source);
        rig.send(0, source, 0..10);
        rig.poll(0);
    }
    rig.poll(0);
    assert_eq!((rig.complete(), rig.lost()), (10, 0));
    rig.finish(MS);
}

/// What a source says next.
#[derive(Clone, Copy)]
enum Step {
    Restart,
    Mark,
    Number(u64),
}

#[test]
fn numberings_that_some_sources_begin_late_lose_and_mix_nothing() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let (count, numberings) = (2 + random.below(4) as usize, 1 + random.below(4));
        let mut config = config(&vec![Required; count]);
        config.timeout_ns = 3_600 * S;
        let mut rig = Rig::whole(config);
        // The first number of each numbering, and by source what it says in each.
        let mut expected: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        let mut scripts: Vec<Vec<Vec<Step>>> = vec![Vec::new(); count];
        for numbering in 0..numberings {
            let first = random.below(1_000);
            for (source, script) in scripts.iter_mut().enumerate() {
                let mut steps = Vec::new();
                // The first source numbers from the beginning, without a mark.
                let is_late = numbering == 0 && numberings > 1 && source > 0 && random.chance(300);
                if numbering > 0 {
                    let restarts = random.chance(200);
                    steps.extend(restarts.then_some(Step::Restart).into_iter().chain([Step::Mark]));
                }
                let mut number = first + random.below(10);
                for _ in 0..if is_late { 0 } else { 1 + random.below(30) } {
                    expected.entry(base(numbering) + number).or_default().insert(source);
                    steps.push(Step::Number(number));
                    number += 1 + random.below(3);
                }
                script.push(steps);
            }
        }
        for numbering in 0..numberings {
            // None is two numberings ahead of another.
            let mut left: Vec<_> =
                scripts.iter().map(|all| all[numbering as usize].iter()).collect();
            if numbering < 2 {
                say(&mut rig, 0, left[0].next());
                say(&mut rig, 0, left[0].next());
            }
            while left.iter().any(|steps| steps.len() > 0) {
                let source = random.below(count as u64) as usize;
                for _ in 0..random.below(8) {
                    say(&mut rig, source, left[source].next());
                }
                if random.chance(300) {
                    rig.poll(0);
                }
            }
            // One begins the first numbering, and the next ones what others have marked.
            (0..3).for_each(|_| rig.poll(0));
        }
        rig.finish(MS);
        let there = |fragments: &[Option<(u64, u32)>]| -> BTreeSet<usize> {
            (0..count).filter(|&source| fragments[source].is_some()).collect()
        };
        let got = rig.rows.iter().map(|(&key, row)| (key, there(&row.fragments))).collect();
        assert_eq!(expected, got, "seed {seed}");
        assert_eq!(rig.lost(), 0, "seed {seed}");
    }
}

fn say(rig: &mut Rig, source: usize, step: Option<&Step>) {
    match step {
        Some(Step::Restart) => {
            rig.builder.note(0, source, SourceNote::Session { key_bits: 48 });
        }
        Some(Step::Mark) => number_anew(rig, source),
        Some(&Step::Number(number)) => rig.send(0, source, [number]),
        None => {}
    }
}
