//! Why a required source is absent from an event: what it passed without a fragment, and nobody
//! accounted for, was not sent.

use catchment_builder::{SourceNote, SourceRole::Required};
use catchment_model::Entry;

use crate::promises::{config, mark};
use crate::support::{MS, Rig, S};

fn not_sent(rig: &Rig) -> (u64, u64) {
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
