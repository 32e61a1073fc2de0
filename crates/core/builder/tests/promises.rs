//! Sources that promise: events close exactly when nothing of them can come any more, in random
//! histories of numbers and marks against a model that knows every fragment.

use std::collections::{BTreeMap, BTreeSet};

use crate::support;
use catchment_builder::{Astray, BuilderConfig, Fragment, NumberConfig, SourceNote, SourceRole};
use catchment_fixtures::Random;
use catchment_model::{Entry, EventFlags};
use support::{MS, Rig, S, window};

use SourceRole::{Optional, Required, Sparse};

/// These sources promise, and rows are cut at once.
pub(crate) fn config(roles: &[SourceRole]) -> BuilderConfig {
    let mut config = BuilderConfig::new(roles.to_vec());
    config.frame_bytes = 1;
    let all = vec![true; roles.len()];
    (config.promising, config.pausable, config.positions) = (all.clone(), all.clone(), all);
    config
}

/// The same with a short window.
fn short(roles: &[SourceRole]) -> Rig {
    Rig::by_number(config(roles), NumberConfig { number_bits: 48, ..window(256, 16) })
}

fn keys(rig: &Rig) -> Vec<u64> {
    rig.rows.keys().copied().collect()
}

pub(crate) fn mark(rig: &mut Rig, now_ns: u64, source: usize, number: u64) {
    rig.builder.note(now_ns, source, SourceNote::LowWater(number));
}

#[test]
fn an_event_closes_once_each_awaited_source_has_passed_it() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    rig.send(0, 0, 0..10);
    rig.poll(0);
    assert!(rig.rows.is_empty());
    // Its first fragment says that it lacks the five before.
    rig.send(MS, 1, [5]);
    rig.poll(MS);
    assert_eq!(keys(&rig), [0, 1, 2, 3, 4, 5]);
    assert_eq!(rig.complete(), 1);
    let why = EventFlags::INCOMPLETE | EventFlags::OVERTAKEN;
    assert_eq!(rig.rows[&4].flags, why);
    mark(&mut rig, 2 * MS, 1, 8);
    rig.poll(2 * MS);
    assert_eq!(keys(&rig), [0, 1, 2, 3, 4, 5, 6, 7]);
    mark(&mut rig, 3 * MS, 1, 7);
    rig.send(3 * MS, 1, [8, 9]);
    rig.poll(3 * MS);
    assert_eq!((rig.rows.len(), rig.complete(), rig.count(1, Entry::FragmentsMissing)), (10, 3, 7));
    rig.finish(4 * MS);
    assert_eq!(rig.lost(), 0);
}

#[test]
fn an_idle_source_is_left_out_until_its_next_fragment() {
    let mut rig = Rig::whole(config(&[Required, Optional]));
    rig.send_all(0, 0..2, 0..5);
    rig.builder.note(0, 1, SourceNote::Idle(true));
    rig.send(MS, 0, 5..10);
    rig.poll(MS);
    assert_eq!(rig.rows.len(), 10);
    // What it brings below the horizon is late.
    rig.send(2 * MS, 1, [7, 12]);
    rig.send(2 * MS, 0, 10..15);
    rig.poll(2 * MS);
    assert_eq!((keys(&rig).last(), rig.count(1, Entry::FragmentsLate)), (Some(&12), 1));
    rig.builder.note(3 * MS, 1, SourceNote::Idle(true));
    rig.poll(3 * MS);
    assert_eq!(rig.rows.len(), 15);
    rig.builder.note(4 * MS, 1, SourceNote::Idle(false));
    rig.send(4 * MS, 0, [15]);
    rig.poll(4 * MS);
    assert_eq!(rig.rows.len(), 15);
    rig.finish(5 * MS);
}

#[test]
fn a_silent_source_costs_one_time_out_and_counts_again_when_it_speaks() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    rig.send_all(0, 0..2, 0..10);
    let mut key = 10;
    for ms in 1..=3_000 {
        rig.send(ms * MS, 0, [key]);
        if ms == 1_000 {
            rig.builder.note(S, 1, SourceNote::Quiet);
        }
        rig.poll(ms * MS);
        key += 1;
        match ms {
            0..1_000 => assert_eq!(rig.rows.len(), 10),
            // Precise to an eighth.
            1_200.. => assert_eq!(rig.rows.len() as u64, key),
            _ => {}
        }
    }
    assert!(rig.builder.status().sources[1].silent);
    assert_eq!(rig.count(1, Entry::FragmentsMissing), key - 10);
    rig.send(3_000 * MS, 1, [key]);
    rig.send(3_000 * MS, 0, key..key + 2);
    rig.poll(3_000 * MS);
    assert!(!rig.builder.status().sources[1].silent);
    assert_eq!(keys(&rig).last(), Some(&key));
    rig.finish(3_001 * MS);
}

#[test]
fn an_event_after_which_nobody_delivers_waits_for_one_time_out_and_the_source_is_not_silent() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    rig.send_all(0, 0..2, 0..10);
    rig.send(0, 0, [10]);
    for ms in 1..5_000 {
        if ms == 1_000 {
            rig.builder.note(S, 1, SourceNote::Quiet);
        }
        rig.poll(ms * MS);
        assert_eq!(rig.rows.len(), if ms < 1_000 { 10 } else { 11 });
    }
    assert_eq!(rig.rows[&10].flags, EventFlags::INCOMPLETE | EventFlags::TIMED_OUT);
    assert!(!rig.builder.status().sources[1].silent);
    // After the pause it is waited for.
    rig.send(5 * S, 0, [11]);
    rig.poll(5 * S);
    rig.send(5 * S + MS, 1, [11]);
    rig.poll(5 * S + MS);
    assert_eq!(rig.rows[&11].flags, EventFlags::default());
    rig.finish(6 * S);
}

#[test]
fn time_in_which_nothing_was_pushed_is_no_silence() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    rig.send_all(0, 0..2, 0..10);
    rig.send(0, 0, [10]);
    rig.poll(0);
    rig.builder.resume(60 * S);
    rig.poll(60 * S);
    assert_eq!(rig.rows.len(), 10);
    // A source that is held has not been read, for longer than a time-out.
    for ms in 0..3_000 {
        rig.builder.hold(60 * S + ms * MS, 1);
        rig.poll(60 * S + ms * MS);
    }
    assert_eq!(rig.rows.len(), 10);
    rig.send(63 * S, 1, [10]);
    rig.poll(63 * S);
    assert_eq!(rig.complete(), 11);
    rig.finish(64 * S);
}

#[test]
fn a_required_source_whose_connection_fell_silent_is_waited_for_until_its_wait_ends() {
    let mut rig = Rig::whole(config(&[Required, Required, Optional]));
    rig.send_all(0, 0..3, 0..10);
    (1..3).for_each(|source| rig.builder.note(0, source, SourceNote::Waited));
    let send = |rig: &mut Rig, ms: std::ops::Range<u64>| {
        for ms in ms {
            rig.send(ms * MS, 0, [9 + ms]);
            rig.poll(ms * MS);
        }
    };
    send(&mut rig, 1..4_000);
    assert_eq!(rig.rows.len(), 10);
    assert!(rig.builder.status().sources[2].silent, "an optional one gets a time-out");
    // It is back, and brings what it had.
    rig.builder.note(4 * S, 1, SourceNote::Attached);
    rig.send(4 * S, 1, 10..3_000);
    rig.poll(4 * S);
    assert_eq!((keys(&rig).last(), rig.count(1, Entry::FragmentsMissing)), (Some(&2_999), 0));
    rig.builder.note(4 * S, 1, SourceNote::Waited);
    send(&mut rig, 4_000..6_000);
    assert_eq!(keys(&rig).last(), Some(&2_999));
    rig.builder.note(6 * S, 1, SourceNote::Gone);
    rig.poll(6 * S);
    assert_eq!(keys(&rig).last(), Some(&6_008));
    // Another session, whose first number has its place among the keys.
    rig.builder.note(6 * S, 1, SourceNote::Session { key_bits: 24 });
    rig.send(6 * S, 0, 6_009..6_020);
    rig.poll(6 * S);
    assert_eq!(keys(&rig).last(), Some(&6_008));
    rig.send(6 * S, 1, 6_009..6_020);
    rig.poll(6 * S);
    assert_eq!((keys(&rig).last(), rig.lost()), (Some(&6_019), 0));
    rig.finish(7 * S);
}

#[test]
fn the_run_begins_with_the_lowest_key_of_all() {
    let mut rig = short(&[Required; 3]);
    rig.send(0, 0, 1_000_000..1_000_010);
    rig.send(0, 1, 1_000..1_005);
    rig.poll(0);
    assert!(rig.rows.is_empty());
    rig.send(MS, 2, [3, 1_002]);
    rig.poll(MS);
    assert_eq!(keys(&rig), [3, 1_000, 1_001, 1_002]);
    (1..3).for_each(|source| mark(&mut rig, 2 * MS, source, 2_000_000));
    rig.poll(2 * MS);
    assert_eq!((keys(&rig).last(), rig.rows.len()), (Some(&1_000_009), 16));
    rig.finish(3 * MS);
    assert_eq!(rig.lost(), 0);
}

#[test]
fn a_source_that_says_nothing_at_the_start_costs_one_time_out() {
    let mut rig = Rig::whole(config(&[Required, Required, Sparse]));
    rig.send(0, 0, 70..80);
    for ms in 0..=1_000 {
        assert!(rig.rows.is_empty());
        rig.poll(ms * MS);
    }
    assert_eq!((rig.rows.len(), rig.rows[&70].present()), (10, 1));
    rig.send(S, 1, 79..90);
    rig.send(S, 0, 80..90);
    rig.poll(S);
    assert_eq!((rig.complete(), rig.count(1, Entry::FragmentsLate)), (10, 1));
    rig.finish(2 * S);
}

#[test]
fn a_source_far_ahead_loses_nothing_and_closes_nothing() {
    let mut rig = short(&[Required; 2]);
    rig.send_all(0, 0..2, 0..1);
    rig.send(0, 0, 1..5_000);
    rig.poll(0);
    assert_eq!((rig.rows.len(), rig.builder.parked(0)), (1, 4_744));
    for first in (1..5_000).step_by(100) {
        rig.send(MS, 1, first..5_000.min(first + 100));
        rig.poll(MS);
    }
    rig.finish(2 * MS);
    assert_eq!((rig.complete(), rig.lost()), (5_000, 0));
}

#[test]
fn what_comes_before_parked_fragments_are_taken_closes_no_event_without_them() {
    let mut rig = short(&[Required; 2]);
    rig.send_all(0, 0..2, 0..1);
    rig.send(0, 0, [1_000, 1_005, 1_258]);
    mark(&mut rig, 0, 1, 1_010);
    rig.poll(0);
    // The window has moved past the second one, so that the third is in it, and still parked.
    assert_eq!((rig.rows.len(), rig.builder.parked(0)), (3, 1));
    rig.send(0, 1, [1_260]);
    mark(&mut rig, 0, 0, 1_300);
    rig.poll(0);
    rig.finish(MS);
    assert_eq!((keys(&rig).split_off(3), rig.lost()), (vec![1_258, 1_260], 0));
}

#[test]
fn memory_that_runs_short_closes_the_oldest_event_of_sources_that_cannot_wait() {
    let mut config = config(&[Required; 2]);
    (config.pausable, config.waiting_bytes_max) = (Vec::new(), 10_000);
    let mut rig = Rig::whole(config);
    rig.send_all(0, 0..2, 0..1);
    rig.send(0, 0, 1..151);
    rig.poll(0);
    assert_eq!(rig.rows.len(), 51);
    assert_eq!(rig.rows[&50].flags, EventFlags::INCOMPLETE | EventFlags::OVERTAKEN);
    rig.finish(MS);
}

#[test]
fn a_camera_beside_a_trigger_is_no_loss_and_delays_events_by_its_marks_alone() {
    let mut rig = Rig::whole(config(&[Required, Sparse]));
    let mut pictures = Vec::new();
    for ms in 0..3_000 {
        rig.send(ms * MS, 0, [ms]);
        match ms % 100 {
            // Ten pictures a second, which come 5 ms after their event.
            5 => {
                rig.send(ms * MS, 1, [ms - 5]);
                pictures.push(ms - 5);
            }
            _ if ms % 10 == 0 => mark(&mut rig, ms * MS, 1, ms.saturating_sub(5)),
            _ => {}
        }
        rig.poll(ms * MS);
        assert!(rig.rows.len() as u64 + 20 > ms, "{ms}");
    }
    rig.finish(3 * S);
    let with_picture = rig.rows.iter().filter(|(_, row)| row.fragments[1].is_some());
    assert_eq!(with_picture.map(|(&key, _)| key).collect::<Vec<u64>>(), pictures);
    assert_eq!((rig.complete(), rig.lost(), rig.total(Entry::FragmentsMissing)), (3_000, 0, 0));
}

#[test]
fn a_sparse_source_without_marks_delays_events_by_a_time_out_at_most() {
    let mut rig = Rig::whole(config(&[Required, Sparse]));
    rig.send_all(0, 0..2, 0..1);
    for ms in 1..5_000 {
        rig.send(ms * MS, 0, [ms]);
        if ms % 800 == 0 {
            rig.send(ms * MS, 1, [ms]);
        }
        rig.poll(ms * MS);
        assert!(rig.rows.len() as u64 + 1_000 >= ms, "{ms}");
    }
    rig.finish(5 * S);
    assert_eq!((rig.lost(), rig.total(Entry::FragmentsMissing), rig.complete()), (0, 0, 5_000));
    assert!((800..4_900).step_by(800).all(|key| rig.rows[&key].present() == 2));
}

#[test]
fn one_source_of_ninety_that_sends_one_of_a_thousand_delays_and_loses_nothing() {
    for role in [Sparse, Required] {
        let mut roles = vec![Required; 90];
        roles[89] = role;
        let mut rig = Rig::whole(config(&roles));
        for first in (0..10_000).step_by(500) {
            let now_ns = first * MS / 10;
            (0..89).for_each(|source| rig.send(now_ns, source, first..first + 500));
            if first % 1_000 == 0 {
                rig.send(now_ns, 89, [first]);
            }
            mark(&mut rig, now_ns, 89, first + 500);
            rig.poll(now_ns);
            assert_eq!(rig.rows.len() as u64, first + 500);
        }
        rig.finish(2 * S);
        let missing = if role == Required { 10_000 - 10 } else { 0 };
        assert_eq!((rig.lost(), rig.total(Entry::FragmentsMissing)), (0, missing));
        assert_eq!(rig.rows.values().filter(|row| row.present() == 90).count(), 10);
    }
}

#[test]
fn a_numbering_begins_once_each_awaited_source_has_marked_it() {
    let mut rig = Rig::whole(config(&[Required, Required, Required]));
    rig.send_all(0, 0..3, 100..110);
    rig.builder.note(0, 2, SourceNote::Gone);
    rig.builder.note(0, 0, SourceNote::Numbering);
    rig.send(0, 0, 0..10);
    rig.send(0, 1, 110..115);
    rig.poll(0);
    // The numbers of the one are of no event yet, and the other one's are.
    assert_eq!((keys(&rig).last(), rig.builder.parked(0)), (Some(&114), 10));
    rig.builder.note(MS, 1, SourceNote::Numbering);
    rig.send(MS, 1, 5..10);
    rig.poll(MS);
    let base = 1 << 48;
    assert_eq!(keys(&rig).split_off(15), (base..base + 10).collect::<Vec<u64>>());
    assert_eq!(rig.count(0, Entry::NumberingRestarts), 1);
    // One that has missed it holds nothing up, and is out of range until it has marked it.
    rig.builder.note(2 * MS, 2, SourceNote::Attached);
    rig.send(2 * MS, 2, 110..115);
    rig.send_all(2 * MS, 0..2, 10..15);
    rig.poll(2 * MS);
    assert_eq!((rig.rows.len(), rig.count(2, Entry::FragmentsOutOfRange)), (30, 5));
    let missed = rig.builder.status().sources[2];
    assert_eq!((missed.out_of_step, missed.astray), (true, Some(Astray::Missed)));
    rig.builder.note(3 * MS, 2, SourceNote::Numbering);
    rig.send_all(3 * MS, 0..3, 15..20);
    rig.poll(3 * MS);
    assert_eq!((rig.rows.len(), rig.complete()), (35, 10 + 5));
    rig.finish(4 * MS);
}

/// Pushes a fragment of more bits than those of the voters.
fn send_whole(rig: &mut Rig, now_ns: u64, source: usize, number: u64) {
    let fragment = Fragment { number, ..rig.fragment(source, 0, 100) };
    rig.push(now_ns, &[fragment]);
}

#[test]
fn beside_sources_that_vote_an_event_waits_for_quorum_and_marks() {
    let mut config = config(&[Required, Required, Sparse]);
    config.promising = vec![false, false, true];
    config.pausable = config.promising.clone();
    let mut rig =
        Rig::by_number(config, NumberConfig { reorder_events: 2, ..NumberConfig::default() });
    // The link's keys are whole; the voters' numbers are of 24 bits.
    let far = 7 << 24;
    rig.builder.note(0, 2, SourceNote::Session { key_bits: 64 });
    send_whole(&mut rig, 0, 2, far + 1_000);
    rig.poll(0);
    assert_eq!(rig.builder.parked(2), 1);
    rig.send_all(MS, 0..2, 1_000..1_010);
    rig.poll(MS);
    assert_eq!(keys(&rig), [1_000]);
    mark(&mut rig, 2 * MS, 2, far + 1_005);
    rig.poll(2 * MS);
    assert_eq!(keys(&rig).last(), Some(&1_004));
    mark(&mut rig, 3 * MS, 2, far + 2_000);
    rig.poll(3 * MS);
    assert_eq!(keys(&rig).last(), Some(&1_009));
    send_whole(&mut rig, 4 * MS, 2, far + 2_002);
    rig.send_all(4 * MS, 0..2, 1_010..2_010);
    rig.poll(4 * MS);
    assert_eq!((keys(&rig).last(), rig.rows[&2_002].present()), (Some(&2_002), 3));
    // All number anew, the link by a mark.
    rig.builder.note(5 * MS, 2, SourceNote::Numbering);
    rig.send(5 * MS, 2, [3]);
    for ms in 300..310 {
        rig.send_all(ms * MS, 0..2, ms - 300..ms - 299);
        rig.poll(ms * MS);
    }
    mark(&mut rig, 310 * MS, 2, 20);
    rig.poll(310 * MS);
    let base = 1 << 24;
    assert_eq!(keys(&rig).split_off(1_010), (base..base + 10).collect::<Vec<u64>>());
    assert_eq!((rig.rows[&(base + 3)].present(), rig.lost()), (3, 0));
    rig.finish(S);
}

#[test]
fn where_those_that_vote_fall_silent_the_marks_decide() {
    let mut config = config(&[Required, Required, Required]);
    config.promising = vec![false, true, true];
    let mut rig = Rig::new(config);
    for ms in 0..3_000 {
        rig.send_all(ms * MS, 1..3, ms..ms + 1);
        rig.poll(ms * MS);
    }
    // The voter has never been heard.
    assert_eq!((rig.rows.len(), rig.lost()), (3_000, 0));
    rig.finish(3 * S);
}

#[test]
fn events_close_as_a_model_says_that_knows_every_fragment() {
    for seed in 0..100 {
        History::new(seed).run();
    }
}

#[test]
fn the_ledger_balances_whatever_sources_promise() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let roles: Vec<SourceRole> = (0..1 + random.below(5))
            .map(|index| match random.below(4) * index {
                0 => Required,
                1 => Optional,
                _ => Sparse,
            })
            .collect();
        let count = roles.len();
        let mut config = config(&roles);
        let number_bits = [16, 24, 48][random.below(3) as usize];
        let number = NumberConfig { number_bits, ..window(256, random.below(256)) };
        config.timeout_ns = 10 * MS;
        config.parked_max = 1 + random.below(300) as usize;
        for (index, role) in roles.iter().enumerate() {
            let promises = *role == Sparse || random.chance(700);
            (config.promising[index], config.pausable[index]) = (promises, random.chance(500));
        }
        let mut rig = Rig::by_number(config, number);
        let mut next = vec![random.next_u64(); count];
        let mut now = random.below(S);
        for _ in 0..400 {
            now += random.below(2 * MS);
            let source = random.below(count as u64) as usize;
            match random.below(40) {
                0 => next[source] = random.next_u64(),
                1 => next[source] = next[source].wrapping_sub(random.below(20_000)),
                2 => next[source] = next[source].wrapping_add(random.below(20_000)),
                3 => next = vec![random.next_u64() >> random.below(64); count],
                _ => {}
            }
            let note = match random.below(23) {
                0 => Some(SourceNote::Numbering),
                1 => Some(SourceNote::Session { key_bits: random.below(70) as u32 }),
                2 => Some(SourceNote::Idle(random.chance(500))),
                3 => Some(SourceNote::Waited),
                4 => Some(SourceNote::Gone),
                5 => Some(SourceNote::Attached),
                6 => Some(SourceNote::LowWater(random.next_u64() >> random.below(64))),
                7..10 => Some(SourceNote::LowWater(next[source])),
                10 => Some(SourceNote::Begin),
                11 => Some(SourceNote::End(random.next_u64() >> random.below(64))),
                12 => Some(SourceNote::Quiet),
                _ => None,
            };
            if let Some(note) = note {
                rig.builder.note(now, source, note);
            }
            let fragments: Vec<_> = (0..random.below(60))
                .map(|_| {
                    next[source] = next[source].wrapping_add(random.below(4));
                    let mut fragment = rig.fragment(source, 0, random.below(2_000) as u32);
                    fragment.number = next[source];
                    fragment
                })
                .collect();
            rig.push(now, &fragments);
            if random.chance(100) {
                rig.builder.set_recording(random.chance(500));
            }
            if random.chance(700) {
                rig.builder.poll(now);
            }
            if random.chance(300) {
                rig.collect(now);
            }
        }
        rig.finish(now);
    }
}

/// A run without time-outs, and what is known of each of its fragments.
struct History {
    seed: u64,
    random: Random,
    rig: Rig,
    sources: Vec<Model>,
    /// By key and source, the offsets of fragments that wait for their event's end.
    open: BTreeMap<u64, BTreeMap<usize, u64>>,
    rows: BTreeMap<u64, BTreeMap<usize, u64>>,
    late: u64,
    has_begun: bool,
    /// No key below it can take a fragment.
    closed: u64,
    now_ns: u64,
}

struct Model {
    key_bits: u32,
    /// The key of its number 0; none before its first number.
    zero: Option<u64>,
    /// Nothing below this key will come of it.
    mark: u64,
    is_idle: bool,
    steps: u64,
    pushed: u64,
    /// By ordinal, the keys of what is open.
    undecided: BTreeSet<(u64, u64)>,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = 1 + random.below(6) as usize;
        let role = |index: usize, random: &mut Random| match random.below(4) {
            0 if index > 0 => Sparse,
            1 if index > 0 => Optional,
            _ => Required,
        };
        let roles: Vec<SourceRole> = (0..count).map(|index| role(index, &mut random)).collect();
        let mut config = config(&roles);
        config.timeout_ns = 3_600 * S;
        config.frame_bytes = 1 + random.below(2_000);
        config.frame_time_ns = 0;
        let mut rig = Rig::whole(config);
        let origin = [0, 5, (1 << 24) - 300, 1 << 40][random.below(4) as usize];
        let model = |index: usize, random: &mut Random| Model {
            // The first one's numbers are the keys.
            key_bits: [64, 16, 24, 48][random.below(4) as usize * usize::from(index > 0)],
            zero: None,
            mark: 0,
            is_idle: false,
            steps: [1, 1, 3, 300][random.below(4) as usize],
            pushed: 0,
            undecided: BTreeSet::new(),
        };
        let sources: Vec<Model> = (0..count).map(|index| model(index, &mut random)).collect();
        for (index, source) in sources.iter().enumerate() {
            let note = SourceNote::Session { key_bits: source.key_bits };
            rig.builder.note(0, index, note);
        }
        Self {
            seed,
            random,
            rig,
            sources,
            open: BTreeMap::new(),
            rows: BTreeMap::new(),
            late: 0,
            has_begun: false,
            closed: origin,
            now_ns: S,
        }
    }

    fn run(mut self) {
        for _ in 0..400 {
            let index = self.random.below(self.sources.len() as u64) as usize;
            match self.random.below(20) {
                0 if index > 0 => {
                    let is_idle = self.random.chance(500);
                    self.rig.builder.note(self.now_ns, index, SourceNote::Idle(is_idle));
                    self.sources[index].is_idle = is_idle;
                }
                1..5 => {
                    let key = self.next_key(index);
                    let number = self.number(index, key);
                    self.rig.builder.note(self.now_ns, index, SourceNote::LowWater(number));
                    self.sources[index].mark = key;
                }
                _ => self.send(index),
            }
            if self.random.chance(600) {
                self.poll();
            }
            self.now_ns += self.random.below(20 * MS);
        }
        self.rig.finish(self.now_ns);
        self.rows.append(&mut self.open);
        self.check();
    }

    /// A key that a source may deliver next: near the others.
    fn next_key(&mut self, index: usize) -> u64 {
        let newest = self.sources.iter().map(|source| source.mark).max().unwrap_or(0);
        let awaited = self.sources.iter().filter(|source| !source.is_idle && source.zero.is_some());
        let slowest = awaited.map(|source| source.mark).min().unwrap_or(newest);
        let source = &self.sources[index];
        let skipped = self.random.below(source.steps);
        match source.zero {
            None => newest.max(self.closed) + self.random.below(100),
            // Within what 16 bits tell apart.
            Some(_) if source.mark > slowest + 8_000 => source.mark,
            Some(_) => source.mark + skipped,
        }
    }

    fn number(&mut self, index: usize, key: u64) -> u64 {
        let source = &mut self.sources[index];
        let cycle = 1_u64.checked_shl(source.key_bits).unwrap_or(0);
        let number = if cycle == 0 { key } else { key % cycle };
        key - *source.zero.get_or_insert(key - number)
    }

    fn send(&mut self, index: usize) {
        let count = self.random.below(60);
        let mut fragments = Vec::new();
        for _ in 0..count {
            let key = self.next_key(index);
            let number = self.number(index, key);
            let bytes = 1 + self.random.below(100) as u32;
            let fragment = self.rig.fragment(index, number, bytes);
            fragments.push(fragment);
            let source = &mut self.sources[index];
            (source.mark, source.is_idle) = (key + 1, false);
            let ordinal = source.pushed;
            source.pushed += 1;
            if self.has_begun && key < self.closed {
                self.late += 1;
                continue;
            }
            source.undecided.insert((ordinal, key));
            self.open.entry(key).or_default().insert(index, fragment.offset);
        }
        self.rig.push(self.now_ns, &fragments);
    }

    fn poll(&mut self) {
        self.rig.poll(self.now_ns);
        let awaited = self.sources.iter().filter(|source| !source.is_idle);
        let promised = awaited.map(|source| source.mark).min().unwrap_or(u64::MAX);
        let have_spoken = self.sources.iter().all(|source| source.is_idle || source.zero.is_some());
        if let Some((&lowest, _)) = self.open.first_key_value()
            && !self.has_begun
            && have_spoken
        {
            (self.has_begun, self.closed) = (true, lowest.min(promised));
        }
        if !self.has_begun {
            return assert!(self.rig.rows.is_empty());
        }
        while let Some((key, row)) = self.open.pop_first() {
            if key >= promised {
                self.open.insert(key, row);
                break;
            }
            self.closed = key + 1;
            self.rows.insert(key, row);
        }
        self.check();
        for (index, source) in self.sources.iter_mut().enumerate() {
            source.undecided.retain(|(_, key)| *key >= self.closed);
            let first = source.undecided.first().map_or(source.pushed, |(ordinal, _)| *ordinal);
            let got = self.rig.builder.first_undecided(index);
            assert_eq!(got, first, "seed {}, source {index}", self.seed);
        }
    }

    fn check(&self) {
        let Self { seed, rig, rows, .. } = self;
        assert!(rig.rows.keys().eq(rows.keys()), "seed {seed}: {:?}, {:?}", keys(rig), rows.keys());
        for (key, row) in rows {
            let offsets = rig.rows[key].fragments.iter().map(|one| one.map(|(offset, _)| offset));
            let expected = (0..self.sources.len()).map(|index| row.get(&index).copied());
            assert!(offsets.eq(expected), "seed {seed}, event {key}");
        }
        assert_eq!(rig.total(Entry::FragmentsLate), self.late, "seed {seed}");
        assert_eq!(rig.lost(), self.late, "seed {seed}");
    }
}
