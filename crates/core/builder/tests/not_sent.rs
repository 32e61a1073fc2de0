//! Why a required source is absent from an event: what it passed without a fragment, and nobody
//! accounted for, was not sent.

use catchment_builder::{
    ClockConfig, Matcher, SourceNote, SourceRole::Required, TimeConfig, TimeMatcher,
};
use catchment_model::Entry;

use crate::promised_times::{BEGIN, sent_once, settings};
use crate::promises::{config, mark};
use crate::support::{MS, Rig, S};

fn not_sent<M: Matcher>(rig: &Rig<M>) -> (u64, u64) {
    (rig.count(1, Entry::FragmentsMissing), rig.count(1, Entry::FragmentsNotSent))
}

#[test]
fn keys_that_a_source_passed_were_not_sent_unless_it_said_that_it_dropped_them() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    rig.send(0, 0, 0..40);
    rig.send(0, 1, 0..5);
    rig.poll(0);
    // It dropped 10 to 12, and what had 20 was too long.
    mark(&mut rig, 0, 1, 10);
    rig.builder.note(0, 1, SourceNote::Excused(13));
    mark(&mut rig, 0, 1, 20);
    rig.builder.note(0, 1, SourceNote::Excused(21));
    rig.send(0, 1, [30]);
    rig.poll(0);
    assert_eq!(rig.rows.len(), 31);
    assert_eq!(not_sent(&rig), (31 - 6, 31 - 6 - 4));
    rig.finish(MS);
    // Of the last ones it had not said whether they will come.
    assert_eq!(not_sent(&rig), (40 - 6, 31 - 6 - 4));
}

#[test]
fn keys_that_a_source_dropped_before_the_first_numbering_were_sent_to_nobody_else() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    // It dropped the first one, and three behind its first fragment; 6 it never had.
    mark(&mut rig, 0, 1, 0);
    rig.builder.note(0, 1, SourceNote::Excused(1));
    rig.send(0, 1, [1]);
    mark(&mut rig, 0, 1, 2);
    rig.builder.note(0, 1, SourceNote::Excused(5));
    rig.send(0, 1, [5, 7]);
    rig.poll(0);
    assert!(rig.rows.is_empty());
    rig.send(MS, 0, 0..8);
    rig.poll(MS);
    assert_eq!((rig.rows.len(), not_sent(&rig)), (8, (5, 1)));
    rig.finish(2 * MS);
}

#[test]
fn keys_that_a_source_dropped_of_a_numbering_that_has_not_begun_were_not_kept_from_it() {
    let mut rig = Rig::whole(config(&[Required; 2]));
    rig.send_all(0, 0..2, 0..5);
    rig.poll(0);
    rig.builder.note(0, 1, SourceNote::Numbering);
    rig.send(0, 1, [0]);
    mark(&mut rig, 0, 1, 1);
    rig.builder.note(0, 1, SourceNote::Excused(4));
    rig.send(0, 1, [4, 6]);
    rig.builder.note(MS, 0, SourceNote::Numbering);
    rig.send(MS, 0, 0..7);
    rig.poll(MS);
    assert_eq!((rig.rows.len(), not_sent(&rig)), (12, (4, 1)));
    rig.finish(2 * MS);
}

#[test]
fn what_came_late_was_sent_and_what_nobody_waited_for_is_not_known() {
    let mut frames = config(&[Required; 2]);
    // All rows are cut together.
    (frames.frame_bytes, frames.frame_time_ns) = (1 << 20, 3_600 * S);
    let mut rig = Rig::whole(frames);
    rig.send_all(0, 0..2, 0..5);
    rig.builder.note(0, 1, SourceNote::Idle(true));
    rig.send(0, 0, 5..10);
    rig.poll(0);
    rig.send(MS, 1, [7]);
    rig.poll(MS);
    assert_eq!(rig.count(1, Entry::FragmentsLate), 1);
    rig.builder.note(MS, 1, SourceNote::Gone);
    rig.send(MS, 0, 10..15);
    rig.finish(2 * MS);
    // It passed 5 and 6, came late for 7, and was gone then.
    assert_eq!(not_sent(&rig), (10, 2));
}

/// Clocks begin at 0 in the next numbering, which is put behind all that was before.
#[test]
fn times_that_a_source_dropped_before_the_clocks_were_known_were_not_kept_from_the_run() {
    let config = settings(&[Required; 2], &[0, 1]);
    let time = TimeConfig::new(1_000, vec![ClockConfig::NS; 2], config.timeout_ns);
    let matcher = TimeMatcher::new(&config, &time).expect("settings that can be");
    let mut rig = Rig::with_matcher(&config, matcher);
    let send = |rig: &mut Rig<TimeMatcher>, source: usize, (now_ns, ns): (u64, u64)| {
        let fragment = sent_once(ns, rig.fragment(source, 0, 100));
        rig.push(now_ns, &[fragment]);
    };
    (0..2).for_each(|one| rig.builder.note(BEGIN, one, SourceNote::Session { key_bits: 64 }));
    for event in 1..=50 {
        let ns = BEGIN + event * MS;
        (0..2).for_each(|source| send(&mut rig, source, (ns, ns)));
        rig.poll(ns);
    }
    let begin_ns = BEGIN + 51 * MS;
    (0..2).for_each(|source| rig.builder.note(begin_ns, source, SourceNote::Numbering));
    for event in 1..=50 {
        let (now_ns, ns) = (begin_ns + event * MS, event * MS);
        send(&mut rig, 0, (now_ns, ns));
        match event {
            // It drops these and says so, and never had that one.
            2..5 => {
                rig.builder.note(now_ns, 1, SourceNote::LowWater(ns));
                rig.builder.note(now_ns, 1, SourceNote::Excused(ns + 1));
            }
            30 => {}
            _ => send(&mut rig, 1, (now_ns, ns)),
        }
        rig.poll(now_ns);
    }
    rig.finish(begin_ns + 51 * MS);
    assert_eq!((rig.rows.len(), rig.builder.status().restarts_followed), (100, 1));
    assert_eq!(not_sent(&rig), (4, 1));
}
