//! Runs begin, pause and end between two events.

use crate::support;
use catchment_builder::{BuilderConfig, SourceRole};
use catchment_model::Entry;
use support::{MS, Rig, S};

#[test]
fn an_event_that_had_begun_is_built_to_its_end_and_the_next_is_not_wanted() {
    let mut rig = Rig::required(2);
    rig.send(0, 0, 0..10);
    rig.send(0, 1, 0..7);
    rig.poll(0);
    rig.builder.set_recording(false);
    assert!(!rig.builder.is_drained());
    rig.send(MS, 0, 10..20);
    rig.send(MS, 1, 7..20);
    rig.poll(MS);
    assert!(rig.builder.is_drained());
    rig.builder.set_recording(true);
    rig.send_all(2 * MS, 0..2, 20..30);
    rig.finish(2 * MS);
    assert_eq!(
        rig.rows.keys().copied().collect::<Vec<_>>(),
        (0..10).chain(20..30).collect::<Vec<_>>()
    );
    assert_eq!(rig.ledger.total()[Entry::FragmentsDiscardedPaused], 20);
    let status = rig.builder.status();
    assert_eq!((status.events_complete, status.events_unwanted), (20, 10));
}

#[test]
fn what_nobody_wants_cannot_be_missing() {
    let mut rig = Rig::required(2);
    rig.builder.set_recording(false);
    // Source 1 is heard for the first time in the middle of things, and source 0 not to the end.
    rig.send(0, 0, 0..10);
    rig.send(0, 1, 4..10);
    rig.poll(0);
    rig.builder.set_recording(true);
    rig.send_all(MS, 0..2, 10..20);
    rig.poll(MS);
    rig.builder.set_recording(false);
    rig.send(2 * MS, 1, 20..25);
    rig.finish(2 * MS);
    assert_eq!(rig.rows.keys().copied().collect::<Vec<_>>(), (10..20).collect::<Vec<_>>());
    let total = rig.ledger.total();
    assert_eq!(total[Entry::FragmentsDiscardedPaused], 10 + 6 + 5);
    assert!(!rig.ledger.balance().lost_data(), "{total:?}");
}

#[test]
fn what_comes_too_late_for_an_event_that_nobody_wanted_is_no_loss() {
    let mut rig = Rig::required(2);
    rig.builder.set_recording(false);
    rig.send(0, 0, 0..10_000);
    rig.poll(0);
    rig.builder.set_recording(true);
    rig.send(MS, 0, 10_000..30_000);
    rig.send(MS, 1, 9_000..30_000);
    rig.poll(MS);
    rig.send(2 * MS, 1, 0..5);
    rig.finish(2 * MS);
    let total = rig.ledger.total();
    assert_eq!(total[Entry::FragmentsLate], 0, "{total:?}");
    assert!(total[Entry::FragmentsDiscardedPaused] > 10_000 - 9_000, "{total:?}");
}

#[test]
fn a_loss_before_the_end_is_a_loss() {
    let mut rig = Rig::required(2);
    rig.send(0, 0, 0..10);
    rig.send(0, 1, (0..10).filter(|key| *key != 5));
    rig.poll(0);
    rig.builder.set_recording(false);
    rig.send_all(MS, 0..2, 10..20);
    rig.finish(MS);
    assert_eq!(rig.rows.len(), 10);
    assert_eq!(rig.ledger.total()[Entry::FragmentsMissing], 1);
}

#[test]
fn what_was_wanted_before_the_start_counts_from_what_had_come_by_then() {
    let mut rig = Rig::required(3);
    // No quorum yet: two must agree.
    rig.send(0, 0, 100..110);
    rig.poll(0);
    rig.builder.set_recording(false);
    assert!(!rig.builder.is_drained());
    rig.send(MS, 0, 110..120);
    rig.poll(MS);
    rig.builder.set_recording(true);
    rig.send(2 * MS, 0, 120..130);
    rig.send_all(2 * MS, 1..3, 100..130);
    rig.finish(3 * MS);
    let keys: Vec<u64> = rig.rows.keys().copied().collect();
    assert_eq!(keys, (100..110).chain(120..130).collect::<Vec<_>>());
    assert_eq!(rig.ledger.total()[Entry::FragmentsDiscardedPaused], 30);
}

#[test]
fn the_last_that_was_wanted_before_the_start_counts() {
    use SourceRole::{Disabled, Required};
    // As often as is remembered, and more often; and when nothing waits any more.
    for changes in [1, 2, 63, 64, 65, 100] {
        let mut rig = Rig::new(BuilderConfig::new(vec![Required, Required, Required, Disabled]));
        let mut now = 0;
        rig.send(now, 0, [5]);
        rig.poll(now);
        for change in 0..changes {
            rig.builder.set_recording(change % 2 == 1);
        }
        // While others than the voters deliver, time counts, and what is held expires.
        for _ in 0..30 {
            now += 100 * MS;
            rig.send(now, 3, [0]);
            rig.poll(now);
        }
        assert_eq!(rig.lost(), 1, "{changes}");
        rig.builder.set_recording(changes % 2 == 1);
        for step in 0..200 {
            now += 10 * MS;
            rig.send_all(now, 0..3, step * 10..(step + 1) * 10);
            rig.poll(now);
        }
        rig.finish(now + S);
        let wanted = changes % 2 == 1;
        assert_eq!(rig.complete(), if wanted { 2_000 } else { 0 }, "{changes}");
    }
}
