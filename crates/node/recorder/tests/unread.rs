//! A receive thread that is held up: what it has not read is waited for.

use catchment_model::Entry;
use catchment_recorder::RecorderConfig;

use crate::support;
use support::stepped::Stepped;

/// A thread for each of these sources; events wait for 1 s.
fn config(sources: u32) -> RecorderConfig {
    let mut config = support::config("".as_ref(), sources);
    (config.frame.bytes, config.frame.time_ns) = (256 << 10, 20_000_000);
    (config.write.buffer_bytes, config.write.preallocate_bytes) = (64 << 10, 1 << 20);
    config.receive.threads = sources as usize;
    config.build.timeout_ns = 1_000_000_000;
    config
}

/// Sends so many events each 100 ms while a thread is held up for so many of these, and lets it go
/// on.
fn hold_up(run: &mut Stepped, times: u32, events: u32) {
    run.send(20);
    run.held_up = Some("receive-1");
    for _ in 0..times {
        run.send(events);
        run.pass(100 - u64::from(events));
    }
    run.held_up = None;
    run.send(20);
}

#[test]
fn no_event_is_closed_for_a_thread_that_is_held_up_for_ten_seconds() {
    let mut run = Stepped::begin(&config(2));
    hold_up(&mut run, 100, 1);
    let last = run.end();
    assert_eq!((last.counts.events_complete, last.counts.events_incomplete), (140, 0));
    assert_eq!(last.ledger.total()[Entry::FragmentsLate], 0);
}

#[test]
fn no_event_is_closed_for_a_thread_that_has_not_read_yet_what_came_while_it_was_held_up() {
    // The other two sources have passed all these events. The thread needs several looks for what
    // stands in its socket.
    let mut run = Stepped::begin(&config(3));
    hold_up(&mut run, 100, 5);
    let last = run.end();
    assert_eq!((last.counts.events_complete, last.counts.events_incomplete), (540, 0));
    assert_eq!(last.ledger.total()[Entry::FragmentsLate], 0);
}

#[test]
fn a_thread_that_is_gone_is_not_waited_for() {
    let mut run = Stepped::begin(&config(2));
    hold_up(&mut run, 350, 1);
    let last = run.end();
    assert!(last.counts.events_incomplete > 200, "{:?}", last.counts);
    assert!(last.ledger.total()[Entry::FragmentsLate] > 0);
}
