//! A run begins and ends by the marks of its sources, at keys that all have.

use std::collections::{BTreeSet, VecDeque};

use catchment_builder::{Continues, SourceNote, SourceRole};
use catchment_fixtures::Random;
use catchment_model::Entry;

use crate::promises::config;
use crate::support::{MS, Rig, S};

use SourceRole::{Optional, Required};

fn mark(rig: &mut Rig, now_ns: u64, note: SourceNote, sources: &[usize]) {
    sources.iter().for_each(|&source| rig.builder.note(now_ns, source, note));
}

fn keys(rig: &Rig) -> Vec<u64> {
    rig.rows.keys().copied().collect()
}

fn of_all(rig: &Rig, entry: Entry) -> u64 {
    rig.ledger.total()[entry]
}

#[test]
fn a_run_begins_at_the_latest_first_key_and_ends_with_the_earliest_last_one() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    mark(&mut rig, 0, SourceNote::Begin, &[0]);
    rig.send(0, 0, 7..12);
    rig.poll(0);
    mark(&mut rig, MS, SourceNote::Begin, &[1]);
    rig.send(MS, 1, 9..12);
    rig.poll(MS);
    assert_eq!(keys(&rig), [9, 10, 11]);
    // One stops three keys later than the other, in either order.
    rig.send(S, 0, 12..100);
    mark(&mut rig, S, SourceNote::End(0), &[0]);
    rig.send(S, 1, 12..90);
    rig.poll(S);
    assert_eq!(rig.rows.len(), 81);
    rig.send(2 * S, 1, 90..97);
    mark(&mut rig, 2 * S, SourceNote::End(0), &[1]);
    rig.poll(2 * S);
    assert!(keys(&rig).into_iter().eq(9..97));
    rig.finish(2 * S);
    assert_eq!((rig.count(0, Entry::FragmentsOutsideRun), rig.lost()), (2 + 3, 0));
    assert_eq!((rig.complete(), of_all(&rig, Entry::FragmentsMissing)), (88, 0));
}

#[test]
fn what_is_missing_between_the_edges_is_lost_and_what_was_dropped_at_the_begin_is_a_first_key() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    mark(&mut rig, 0, SourceNote::Begin, &[0, 1]);
    rig.send(0, 0, 0..20);
    // It promises, and drops 5 and 6 before it delivers anything.
    rig.builder.note(0, 1, SourceNote::LowWater(5));
    rig.builder.note(0, 1, SourceNote::Excused(7));
    rig.send(0, 1, [7, 8, 10, 11]);
    mark(&mut rig, MS, SourceNote::End(0), &[1, 0]);
    rig.poll(MS);
    assert!(keys(&rig).into_iter().eq(5..12));
    rig.finish(MS);
    let missing = rig.count(1, Entry::FragmentsMissing);
    assert_eq!((missing, rig.count(0, Entry::FragmentsOutsideRun)), (3, 5 + 8));
}

#[test]
fn one_that_joins_later_or_is_optional_or_in_some_events_alone_moves_nothing() {
    let mut rig = Rig::whole(config(&[Required, Required, Optional, Required]));
    mark(&mut rig, 0, SourceNote::Gone, &[1]);
    mark(&mut rig, 0, SourceNote::ExpectedIn(2), &[3]);
    mark(&mut rig, 0, SourceNote::Begin, &[0, 2, 3]);
    rig.send(0, 0, 0..10);
    rig.send(0, 2, 4..10);
    rig.send(0, 3, [7, 9]);
    rig.poll(0);
    assert_eq!(rig.rows.len(), 10);
    rig.send(5 * S, 0, 10..20);
    mark(&mut rig, 5 * S, SourceNote::Session { key_bits: 48 }, &[1]);
    mark(&mut rig, 5 * S, SourceNote::Begin, &[1]);
    rig.send(5 * S, 1, 15..20);
    rig.send(5 * S, 3, [11]);
    mark(&mut rig, 5 * S, SourceNote::End(0), &[2, 3]);
    rig.poll(5 * S);
    assert_eq!((rig.rows.len(), rig.count(1, Entry::FragmentsMissing)), (20, 15));
    rig.finish(5 * S);
    assert_eq!(of_all(&rig, Entry::FragmentsOutsideRun), 0);
}

#[test]
fn the_end_of_a_source_for_which_nothing_waits_is_ignored() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    mark(&mut rig, 0, SourceNote::Begin, &[0, 1]);
    rig.send_all(0, 0..2, 0..10);
    // The second one is given up.
    rig.builder.note(0, 1, SourceNote::Quiet);
    for (key, ms) in (10..).zip(0..3_000) {
        rig.send(ms * MS, 0, [key]);
        rig.poll(ms * MS);
    }
    assert!(rig.builder.status().sources[1].silent);
    mark(&mut rig, 3 * S, SourceNote::End(0), &[1]);
    rig.send(3 * S, 0, 3_010..3_020);
    mark(&mut rig, 3 * S, SourceNote::End(0), &[0]);
    rig.poll(3 * S);
    rig.finish(3 * S);
    assert_eq!((rig.rows.len(), of_all(&rig, Entry::FragmentsOutsideRun)), (3_020, 0));
}

#[test]
fn a_source_that_delivered_nothing_is_missing_and_moves_no_end() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    mark(&mut rig, 0, SourceNote::Begin, &[0, 1]);
    // The key of its mark, behind those of the run before.
    rig.builder.note(0, 1, SourceNote::LowWater(3));
    rig.send(0, 0, 5..15);
    mark(&mut rig, MS, SourceNote::End(0), &[1, 0]);
    rig.poll(MS);
    rig.finish(MS);
    assert!(keys(&rig).into_iter().eq(5..15));
    let missing = rig.count(1, Entry::FragmentsMissing);
    assert_eq!((missing, of_all(&rig, Entry::FragmentsOutsideRun)), (10, 0));
}

#[test]
fn a_promise_is_no_first_key_and_what_it_passes_waits_for_one() {
    let promised = || {
        let mut rig = Rig::whole(config(&[Required; 2]));
        mark(&mut rig, 0, SourceNote::Begin, &[0, 1]);
        rig.send(0, 0, 0..10);
        rig.builder.note(0, 1, SourceNote::LowWater(5));
        rig.poll(0);
        assert!(rig.rows.is_empty());
        rig
    };
    // It delivers behind what it promised: the run begins there.
    let mut rig = promised();
    rig.send(MS, 1, 7..10);
    rig.poll(MS);
    assert!(keys(&rig).into_iter().eq(7..10));
    rig.finish(MS);
    assert_eq!((rig.count(0, Entry::FragmentsOutsideRun), rig.lost()), (7, 0));
    // It promises on and on, and delivers nothing: that is missing, and nothing is taken away.
    let mut rig = promised();
    for (key, ms) in (10..).zip(1..3_000) {
        rig.send(ms * MS, 0, [key]);
        rig.builder.note(ms * MS, 1, SourceNote::LowWater(key));
        rig.poll(ms * MS);
    }
    assert!(keys(&rig).into_iter().eq(0..3_008));
    mark(&mut rig, 3 * S, SourceNote::End(0), &[0, 1]);
    rig.finish(3 * S);
    assert_eq!((rig.rows.len(), of_all(&rig, Entry::FragmentsOutsideRun)), (3_009, 0));
    assert_eq!(rig.count(1, Entry::FragmentsMissing), 3_009);
}

#[test]
fn a_source_whose_numbers_are_far_off_discards_the_others_only_while_the_run_begins() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    mark(&mut rig, 0, SourceNote::Begin, &[0, 1]);
    rig.send(0, 0, 0..10);
    rig.send(0, 1, [100_000]);
    rig.poll(0);
    rig.send(3 * S, 0, 10..20);
    rig.poll(3 * S);
    assert!(rig.rows.is_empty());
    rig.send(4 * S, 0, 20..30);
    rig.poll(4 * S);
    assert!(keys(&rig).into_iter().eq(20..30));
    rig.finish(4 * S);
    assert_eq!(rig.count(0, Entry::FragmentsOutsideRun), 20);
    assert_eq!(rig.count(1, Entry::FragmentsMissing), 10);
}

#[test]
fn keys_of_nobody_before_the_begin_are_no_absent_events() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    mark(&mut rig, 0, SourceNote::Begin, &[0, 1]);
    rig.send(0, 0, [7, 8, 11, 13]);
    rig.send(0, 1, [11, 13]);
    rig.poll(0);
    rig.finish(0);
    assert_eq!((keys(&rig), rig.count(0, Entry::FragmentsOutsideRun)), (vec![11, 13], 2));
    // The event 12, of which nobody delivered anything.
    let missing = [Entry::FragmentsMissing, Entry::FragmentsMissingUnrecorded];
    assert_eq!(missing.map(|entry| of_all(&rig, entry)), [0, 2]);
}

#[test]
fn the_first_mark_of_a_run_that_has_long_begun_moves_nothing() {
    let mut rig = Rig::whole(config(&[Required, Required]));
    mark(&mut rig, 0, SourceNote::Gone, &[1]);
    rig.send(0, 0, 0..10);
    rig.poll(0);
    rig.poll(4 * S);
    // Its events are open while the other one joins, at a later key.
    mark(&mut rig, 5 * S, SourceNote::Session { key_bits: 48 }, &[1]);
    mark(&mut rig, 5 * S, SourceNote::Begin, &[1]);
    rig.send(5 * S, 0, 10..20);
    rig.send(5 * S, 1, 15..20);
    rig.poll(5 * S);
    rig.finish(5 * S);
    assert_eq!((rig.rows.len(), of_all(&rig, Entry::FragmentsOutsideRun)), (20, 0));
    assert_eq!(rig.count(1, Entry::FragmentsMissing), 15);
}

#[test]
fn an_end_counts_however_late_a_source_with_a_backlog_comes_to_it() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    mark(&mut rig, 0, SourceNote::Begin, &[0, 1]);
    rig.send(0, 0, 0..100);
    mark(&mut rig, 0, SourceNote::End(0), &[0]);
    // The other one stopped first, and what it had made takes ten seconds.
    for key in 0..90 {
        rig.send((key + 1) * S / 9, 1, [key]);
        rig.poll((key + 1) * S / 9);
        assert_eq!(rig.rows.len() as u64, key + 1);
    }
    mark(&mut rig, 10 * S, SourceNote::End(0), &[1]);
    rig.poll(10 * S);
    rig.finish(10 * S);
    assert_eq!((rig.rows.len(), rig.count(0, Entry::FragmentsOutsideRun)), (90, 10));
    assert_eq!(of_all(&rig, Entry::FragmentsMissing), 0);
}

#[test]
fn a_run_that_is_stopped_before_all_have_spoken_ends_at_what_its_sources_have_in_common() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    mark(&mut rig, 0, SourceNote::Begin, &[0, 1]);
    rig.send(0, 0, 0..10);
    mark(&mut rig, MS, SourceNote::End(0), &[0]);
    rig.poll(MS);
    assert!(rig.rows.is_empty());
    rig.send(2 * MS, 1, 4..20);
    mark(&mut rig, 3 * MS, SourceNote::End(0), &[1]);
    rig.poll(3 * MS);
    rig.finish(4 * MS);
    assert!(keys(&rig).into_iter().eq(4..10));
    let outside = [0, 1].map(|source| rig.count(source, Entry::FragmentsOutsideRun));
    assert_eq!((outside, of_all(&rig, Entry::FragmentsMissing)), ([4, 10], 0));
}

#[test]
fn an_end_that_is_followed_by_another_session_before_the_run_has_numbers_is_none() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    mark(&mut rig, 0, SourceNote::Begin, &[0]);
    rig.builder.note(0, 0, SourceNote::LowWater(5));
    mark(&mut rig, 0, SourceNote::End(0), &[0]);
    mark(&mut rig, MS, SourceNote::Session { key_bits: 48 }, &[0]);
    rig.send(MS, 0, 100..110);
    rig.send(MS, 1, 100..110);
    rig.poll(MS);
    rig.finish(2 * MS);
    assert_eq!((rig.rows.len(), of_all(&rig, Entry::FragmentsOutsideRun)), (10, 0));
}

#[test]
fn one_that_begins_long_after_the_others_but_before_anything_is_wanted_moves_the_begin() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    rig.builder.set_recording(false);
    mark(&mut rig, 0, SourceNote::Begin, &[0]);
    rig.send(0, 0, 0..10);
    mark(&mut rig, 10 * S, SourceNote::Begin, &[1]);
    rig.poll(10 * S);
    rig.builder.set_recording(true);
    rig.send(10 * S + MS, 0, 10..30);
    rig.send(10 * S + MS, 1, 20..30);
    rig.poll(10 * S + MS);
    rig.finish(10 * S + MS);
    assert_eq!((rig.rows.len(), of_all(&rig, Entry::FragmentsMissing)), (10, 0));
}

#[test]
fn a_source_that_has_nothing_left_to_send_again_ends_a_run_that_goes_on() {
    let mut settings = config(&[Required; 2]);
    settings.continues = Some(Continues { closed_key: 98, sources: vec![Some(98); 2] });
    let mut rig = Rig::whole(settings);
    mark(&mut rig, 0, SourceNote::Session { key_bits: 48 }, &[0, 1]);
    rig.send(0, 0, 98..100);
    // All of the second one was decided before.
    mark(&mut rig, MS, SourceNote::End(98), &[1]);
    mark(&mut rig, MS, SourceNote::End(100), &[0]);
    rig.poll(MS);
    rig.finish(MS);
    let outside = rig.count(0, Entry::FragmentsOutsideRun);
    assert_eq!((rig.rows.len(), outside, of_all(&rig, Entry::FragmentsMissing)), (0, 2, 0));
}

#[test]
fn a_session_that_begins_before_the_stop_and_says_nothing_ends_the_run_for_no_other() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    mark(&mut rig, 0, SourceNote::Begin, &[0, 1]);
    rig.send_all(0, 0..2, 0..10);
    rig.poll(0);
    mark(&mut rig, MS, SourceNote::Session { key_bits: 48 }, &[1]);
    mark(&mut rig, MS, SourceNote::Begin, &[1]);
    rig.send(MS, 0, 10..20);
    mark(&mut rig, MS, SourceNote::End(0), &[1]);
    mark(&mut rig, MS, SourceNote::End(20), &[0]);
    rig.poll(MS);
    rig.finish(MS);
    assert_eq!((rig.rows.len(), of_all(&rig, Entry::FragmentsOutsideRun)), (20, 0));
    assert_eq!(rig.count(1, Entry::FragmentsMissing), 10);
}

/// What a source does, in its order.
enum Step {
    Says(SourceNote),
    Sends(u64),
}

#[test]
fn in_random_histories_the_run_is_what_its_required_sources_have_in_common() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let count = 1 + random.index(4);
        let roles: Vec<SourceRole> =
            (0..count).map(|_| [Required, Required, Optional][random.index(3)]).collect();
        let sent: Vec<BTreeSet<u64>> = (0..count)
            .map(|_| {
                let (first, last) = (random.below(20), 20 + random.below(40));
                let between = (first + 1..last).filter(|_| random.chance(800));
                [first, last].into_iter().chain(between.collect::<Vec<_>>()).collect()
            })
            .collect();
        let mut steps: Vec<VecDeque<Step>> = sent.iter().map(steps_of).collect();
        let mut rig = Rig::whole(config(&roles));
        let mut now_ns = 0;
        while let Some(source) = pick(&steps, &mut random) {
            now_ns += MS;
            match steps[source].pop_front() {
                Some(Step::Says(note)) => rig.builder.note(now_ns, source, note),
                Some(Step::Sends(key)) => rig.send(now_ns, source, [key]),
                None => {}
            }
            if random.chance(300) {
                rig.poll(now_ns);
            }
        }
        rig.poll(now_ns);
        let required = || (0..count).filter(|&source| roles[source] == Required);
        let begin = required().filter_map(|source| sent[source].first()).max().copied();
        let last = required().filter_map(|source| sent[source].last()).min().copied();
        let is_in = |key: &u64| {
            begin.is_none_or(|begin| *key >= begin) && last.is_none_or(|last| *key <= last)
        };
        let all: BTreeSet<u64> = sent.iter().flatten().copied().filter(is_in).collect();
        assert!(keys(&rig).into_iter().eq(all.iter().copied()), "seed {seed}");
        rig.finish(now_ns);
        for (source, sent) in sent.iter().enumerate() {
            let outside = sent.iter().filter(|key| !is_in(key)).count() as u64;
            assert_eq!(rig.count(source, Entry::FragmentsOutsideRun), outside, "seed {seed}");
        }
        for source in required() {
            let counted = begin.zip(all.last()).map(|(begin, last)| begin..=*last);
            let lacks = |key: &u64| !sent[source].contains(key);
            let missing = counted.map_or(0, |keys| keys.filter(lacks).count() as u64);
            // Of events of which nobody delivered anything, too.
            let counted = [Entry::FragmentsMissing, Entry::FragmentsMissingUnrecorded];
            let counted: u64 = counted.map(|entry| rig.count(source, entry)).iter().sum();
            assert_eq!(counted, missing, "seed {seed}");
        }
    }
}

fn steps_of(keys: &BTreeSet<u64>) -> VecDeque<Step> {
    let sends = keys.iter().map(|&key| Step::Sends(key));
    let (begin, end) = (Step::Says(SourceNote::Begin), Step::Says(SourceNote::End(0)));
    std::iter::once(begin).chain(sends).chain([end]).collect()
}

/// One of the sources that have something left to do.
fn pick(steps: &[VecDeque<Step>], random: &mut Random) -> Option<usize> {
    let left: Vec<_> = (0..steps.len()).filter(|&source| !steps[source].is_empty()).collect();
    (!left.is_empty()).then(|| left[random.index(left.len())])
}
