//! Missing numbers, compared with the known losses.

use catchment_wire::sequence::{AHEAD_MAX, Arrival, Gaps, OLD_MAX, WINDOW};
use proptest::prelude::*;

#[test]
fn a_skipped_number_is_missing_when_the_window_has_gone_by() {
    let mut gaps = Gaps::new();
    assert_eq!(gaps.take(7), (Arrival::New, 0));
    assert_eq!(gaps.take(9), (Arrival::New, 0));
    for number in 10..8 + WINDOW {
        assert_eq!(gaps.take(number), (Arrival::New, 0));
    }
    assert_eq!(gaps.take(8 + WINDOW), (Arrival::New, 1));
    assert_eq!(gaps.settle(), 0);
}

#[test]
fn an_overtaken_number_is_late_once_and_never_missing() {
    let mut gaps = Gaps::new();
    gaps.take(0);
    gaps.take(3);
    assert_eq!(gaps.take(1), (Arrival::Late, 0));
    assert_eq!(gaps.take(1), (Arrival::Repeated, 0));
    assert_eq!(gaps.take(3), (Arrival::Repeated, 0));
    assert_eq!(gaps.settle(), 1);
    assert_eq!(gaps.take(2), (Arrival::Repeated, 0), "it was handed out as missing");
    assert_eq!(gaps.settle(), 0);
}

#[test]
fn a_heartbeat_tells_of_the_packets_before_it() {
    let mut gaps = Gaps::new();
    assert_eq!(gaps.take(0), (Arrival::New, 0));
    assert_eq!(gaps.expect(1), 0);
    assert_eq!(gaps.settle(), 0);
    assert_eq!(gaps.expect(4), 0);
    assert_eq!(gaps.next(), Some(1), "one heartbeat alone is not believed");
    assert_eq!(gaps.expect(4), 0);
    assert_eq!(gaps.take(2), (Arrival::Late, 0));
    assert_eq!(gaps.expect(3), 0, "an old heartbeat");
    assert_eq!(gaps.settle(), 2);
    assert_eq!(gaps.next(), Some(4));
}

#[test]
fn one_packet_with_a_wrong_number_is_no_gap_and_no_restart() {
    for wrong in [0, 3, 100_000, (1 << 31) + 200_000, AHEAD_MAX + 200_000, u64::MAX] {
        let mut gaps = Gaps::new();
        for number in 198_000..200_000 {
            assert_eq!(gaps.take(number), (Arrival::New, 0));
        }
        for number in 200_000..200_010 {
            assert_eq!(gaps.take(wrong).1, 0, "{wrong}");
            assert_eq!(gaps.take(wrong), (Arrival::Repeated, 0), "{wrong} came twice");
            assert_eq!(gaps.expect(wrong ^ 1 << 40), 0);
            assert_eq!(gaps.take(number), (Arrival::New, 0), "{wrong}");
        }
        assert_eq!((gaps.settle(), gaps.next()), (0, Some(200_010)), "{wrong}");
    }
}

#[test]
fn a_long_gap_is_counted_when_the_next_packet_agrees() {
    let mut gaps = Gaps::new();
    assert_eq!(gaps.take(9), (Arrival::New, 0));
    assert_eq!(gaps.take(100_009), (Arrival::New, 0));
    assert_eq!(gaps.take(100_010), (Arrival::New, 99_999 - WINDOW + 2));
    assert_eq!(gaps.settle(), WINDOW - 2);
    // In the other order, and from heartbeats.
    assert_eq!(gaps.take(200_001), (Arrival::New, 0));
    let missing = gaps.take(200_000).1;
    assert_eq!(missing + gaps.settle(), 99_989);
    assert_eq!((gaps.expect(200_005), gaps.expect(200_005)), (0, 0));
    assert_eq!(gaps.settle(), 3);
}

#[test]
fn a_gap_that_is_larger_than_what_is_missing_is_a_restart() {
    let mut gaps = Gaps::new();
    gaps.take(9);
    assert_eq!(gaps.take_within(11, 1), (Arrival::New, 0));
    // Three are skipped, but only two can be missing.
    assert_eq!(gaps.take_within(15, 2), (Arrival::New, 0));
    assert_eq!(gaps.take_within(16, 2), (Arrival::Restart, 1));
    assert_eq!(gaps.take_within(50_000, 10), (Arrival::New, 0));
    assert_eq!(gaps.take_within(50_002, 10), (Arrival::Restart, 0));
    assert_eq!(gaps.settle(), 1);
}

#[test]
fn a_sender_that_counts_anew_loses_nothing_but_what_was_open() {
    for (newest, anew) in [(100_000, 0), (5_000, 3), (5, AHEAD_MAX + 7), (200_000, 1_500)] {
        let mut gaps = Gaps::new();
        gaps.take(newest - 2);
        gaps.take(newest);
        assert_eq!(gaps.take(anew), (Arrival::New, 0), "{newest} {anew}");
        assert_eq!(gaps.take(anew + 2), (Arrival::Restart, 1), "{newest} {anew}");
        assert_eq!(gaps.settle(), 1);
    }
}

#[test]
fn an_old_packet_is_no_restart() {
    let mut gaps = Gaps::new();
    gaps.take(OLD_MAX + WINDOW);
    assert_eq!(gaps.take(WINDOW + 1), (Arrival::Repeated, 0));
    assert_eq!(gaps.take(OLD_MAX + WINDOW + 1), (Arrival::New, 0));
    assert_eq!(gaps.settle(), 0);
}

#[test]
fn the_last_numbers_of_all_do_not_overflow() {
    let mut gaps = Gaps::new();
    for number in [u64::MAX - 1, u64::MAX, u64::MAX, 0, u64::MAX] {
        gaps.take(number);
        gaps.expect(number);
    }
}

proptest! {
    /// Numbers in any order within the window, some lost and some repeated: the numbers reported as
    /// missing are those lost between the first and the last.
    #[test]
    fn missing_numbers_are_those_that_never_came(
        fates in prop::collection::vec((0_u8..10, 0_u64..WINDOW / 2), 1..4_000),
        first in 0_u64..1 << 40,
    ) {
        let mut sent: Vec<(u64, u64)> = Vec::new();
        for (number, (fate, delay)) in (first..).zip(&fates) {
            let copies = match fate { 0 => 0, 1 => 2, _ => 1 };
            let position = number + if *fate > 6 { *delay } else { 0 };
            sent.extend(std::iter::repeat_n((position, number), copies));
        }
        sent.sort_unstable();
        let mut gaps = Gaps::new();
        let mut missing = 0;
        for (_, number) in &sent {
            missing += gaps.take(*number).1;
        }
        missing += gaps.settle();
        // Numbers before the first to arrive are unknown; those after it in time are known.
        if let Some((_, begin)) = sent.first() {
            let numbers = sent.iter().map(|(_, number)| *number).filter(|number| number >= begin);
            let end = numbers.clone().max().unwrap() + 1;
            let came = numbers.collect::<std::collections::BTreeSet<_>>().len() as u64;
            prop_assert_eq!(missing, end - begin - came);
        }
    }
}
