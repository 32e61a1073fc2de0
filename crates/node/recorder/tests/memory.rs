//! What a recorder does whose memory is short: its agents, stepped in virtual time.

use crate::support;
use catchment_model::Entry;
use support::stepped::Stepped;

#[test]
fn a_source_that_is_gone_costs_the_others_nothing_when_memory_is_short() {
    let mut config = support::config("".as_ref(), 6);
    config.frame.bytes = 1 << 20;
    config.write.buffer_count = 4;
    // To hold every event for its time-out would take 20 MB a second of the 10 MB that are left.
    config.memory_bytes = 18 << 20;
    let mut run = Stepped::begin(&config);
    run.send(400);
    run.silent = Some(2);
    run.send(4_000);
    let last = run.end();
    let total = last.ledger.total();
    assert_eq!(total[Entry::FragmentsDiscardedMemory], 0, "{total:?}");
    let lost = |source: usize| last.ledger.sources[source].balance().fragments_lost;
    assert_eq!((0..6).map(lost).collect::<Vec<_>>(), [0, 0, 4_000, 0, 0, 0], "{total:?}");
    assert_eq!((last.counts.events_complete, last.counts.events_incomplete), (400, 4_000));
}
