//! A receive thread that is held up: what it has not read is waited for.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use catchment_model::Entry;
use catchment_recorder::{RecorderConfig, SourceConfig};
use catchment_wire::hadtu::ByteOrder;

use crate::support;
use support::front_end::fragments;
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

#[test]
fn connections_and_sockets_take_turns_where_there_is_no_room_for_descriptors() {
    let mut config = support::config("".as_ref(), 1);
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    config.sources.insert(0, SourceConfig::over_session("one", address));
    config.sources.insert(1, SourceConfig::over_session("two", address));
    config.receive.threads = 1;
    let sizes = &mut config.sizes;
    let few = [&mut sizes.batch_fragments, &mut sizes.ring_fragments, &mut sizes.cycle_fragments];
    few.into_iter().for_each(|few| *few = 8);
    let mut run = Stepped::begin(&config);
    let [one, two] = ["one", "two"].map(|name| run.open_session(name));
    // More than is built in the milliseconds that follow, in messages that fill the ring each.
    for (message, first) in (1..).zip((0..1_600).step_by(16)) {
        let items: Vec<(u64, &[u8])> = (first..first + 16).map(|key| (key, &[1][..])).collect();
        run.write(one, &fragments(message, 0, first, &items));
    }
    run.pass(1);
    run.write(two, &fragments(1, 0, 0, &[(0, &[2])]));
    let packet = support::packet(0, ByteOrder::Big, &[(0, &[3])]);
    // The front-ends come to one port.
    run.send_from(address, 1, packet);
    run.pass(3);
    assert!(run.left(one) > 0, "{:?}", run.snapshot());
    let ledger = run.snapshot().ledger;
    let received = |source: usize| ledger.sources[source][Entry::FragmentsReceived];
    assert_eq!([received(1), received(2)], [1, 1]);
}
