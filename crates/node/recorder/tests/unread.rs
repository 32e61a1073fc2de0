//! A receive thread that is held up: what it has not read is waited for.

use catchment_model::Entry;
use catchment_recorder::RecorderConfig;

use crate::support;
use support::stepped::Stepped;

/// Two threads, each of which receives from half of the sources; events wait for 1 s.
fn config() -> RecorderConfig {
    let mut config = support::detector::small_frames("".as_ref(), None);
    config.receive.threads = 2;
    config.build.timeout_ns = 1_000_000_000;
    config
}

/// Sends an event each 100 ms while a thread is held up, and lets it go on.
fn hold_up(run: &mut Stepped, events: u32) {
    run.send(20);
    run.held_up = Some("receive-1");
    for _ in 0..events {
        run.send(1);
        run.pass(99);
    }
    run.held_up = None;
    run.send(20);
}

#[test]
fn no_event_is_closed_for_a_thread_that_is_held_up_for_ten_seconds() {
    let mut run = Stepped::begin(&config());
    hold_up(&mut run, 100);
    let last = run.end();
    assert_eq!((last.counts.events_complete, last.counts.events_incomplete), (140, 0));
    assert_eq!(last.ledger.total()[Entry::FragmentsLate], 0);
}

#[test]
fn a_thread_that_is_gone_is_not_waited_for() {
    let mut run = Stepped::begin(&config());
    hold_up(&mut run, 350);
    let last = run.end();
    assert!(last.counts.events_incomplete > 200, "{:?}", last.counts);
    assert!(last.ledger.total()[Entry::FragmentsLate] > 0);
}
