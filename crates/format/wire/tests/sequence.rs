//! Numbers unwrapped, against what is known of how they were made.

use catchment_wire::sequence::{
    AHEAD_MAX, Arrival, Gaps, NUMBER_BITS_MAX, OLD_MAX, REORDER_MAX, REORDER_MAX_AT_ZERO, Step,
    Unwrapper, WINDOW,
};
use proptest::prelude::*;

const SPAN: u64 = 1 << 24;

fn at(newest: u64) -> Unwrapper {
    let mut unwrapper = Unwrapper::new(24);
    unwrapper.realign(newest);
    assert_eq!(unwrapper.unwrap(newest & 0x00ff_ffff), (newest, Step::Forward));
    unwrapper
}

#[test]
fn the_first_number_is_its_own_key() {
    for number in [0, 1, 5_000_000, 0x00ff_ffff] {
        assert_eq!(Unwrapper::new(24).unwrap(number), (number, Step::Forward));
    }
}

#[test]
fn keys_go_on_through_the_wrap() {
    let mut unwrapper = at(SPAN - 2);
    assert_eq!(unwrapper.unwrap(0x00ff_ffff), (SPAN - 1, Step::Forward));
    assert_eq!(unwrapper.unwrap(0), (SPAN, Step::Forward));
    assert_eq!(unwrapper.unwrap(1), (SPAN + 1, Step::Forward));
    assert_eq!(unwrapper.unwrap(0x00ff_ffff), (SPAN - 1, Step::Backward));
    assert_eq!(unwrapper.newest(), Some(SPAN + 1));
}

#[test]
fn a_number_again_is_backward_by_nothing() {
    let mut unwrapper = at(77);
    assert_eq!(unwrapper.unwrap(77), (77, Step::Backward));
}

#[test]
fn an_overtaken_number_keeps_its_key() {
    let mut unwrapper = at(100_000);
    assert_eq!(unwrapper.unwrap(99_999), (99_999, Step::Backward));
    let oldest = 100_000 - REORDER_MAX;
    assert_eq!(unwrapper.unwrap(oldest), (oldest, Step::Backward));
    assert_eq!(unwrapper.unwrap(oldest - 1), (SPAN + oldest - 1, Step::Restart));
}

#[test]
fn sources_that_restart_together_get_the_same_keys() {
    let keys: Vec<u64> = [20_000, 20_003, 2_000_000, SPAN / 2]
        .into_iter()
        .map(|newest| {
            let mut unwrapper = at(newest);
            unwrapper.unwrap(0);
            unwrapper.unwrap(1).0
        })
        .collect();
    assert_eq!(keys, [SPAN + 1; 4]);
    // From beyond the middle of the range it looks like a wrap, and the keys are the same.
    assert_eq!(at(SPAN - 100).unwrap(0), (SPAN, Step::Forward));
}

#[test]
fn number_zero_restarts_sooner_than_others() {
    let near = REORDER_MAX_AT_ZERO;
    assert_eq!(at(near).unwrap(0), (0, Step::Backward));
    assert_eq!(at(near + 1).unwrap(0), (SPAN, Step::Restart));
    assert_eq!(at(near + 1).unwrap(1), (1, Step::Backward));
    assert_eq!(at(near + 2).unwrap(1), (SPAN + 1, Step::Restart));
    assert_eq!(at(near + 3).unwrap(2), (2, Step::Backward));
}

#[test]
fn nothing_comes_to_lie_below_key_zero() {
    let mut unwrapper = at(5);
    assert_eq!(unwrapper.unwrap(0x00ff_fffe), (SPAN + 0x00ff_fffe, Step::Restart));
}

#[test]
fn a_jump_of_a_hundred_thousand_is_forward() {
    let mut unwrapper = at(SPAN - 50_000);
    assert_eq!(unwrapper.unwrap(50_000), (SPAN + 50_000, Step::Forward));
}

#[test]
fn realign_moves_whole_turns_only() {
    let mut unwrapper = at(1_000);
    unwrapper.realign(5 * SPAN + 20);
    assert_eq!(unwrapper.newest(), Some(5 * SPAN + 1_000));
    assert_eq!(unwrapper.unwrap(1_001), (5 * SPAN + 1_001, Step::Forward));

    let mut silent = Unwrapper::new(24);
    silent.realign(3 * SPAN + 5);
    assert_eq!(silent.newest(), None);
    assert_eq!(silent.unwrap(0x00ff_ffff), (3 * SPAN - 1, Step::Forward));
}

#[test]
fn the_ends_of_the_ranges_do_not_overflow() {
    let mut unwrapper = Unwrapper::new(32);
    unwrapper.realign(u64::MAX);
    for number in [0, u64::MAX, 1 << 31, 0, u64::from(u32::MAX) - 20_000] {
        unwrapper.unwrap(number);
    }
    assert_eq!(Unwrapper::new(24).unwrap(u64::MAX), (0x00ff_ffff, Step::Forward));
}

#[test]
fn bounds_can_be_narrower_than_the_range() {
    let mut unwrapper = Unwrapper::new(24).within(10, 1_000);
    assert_eq!(unwrapper.unwrap(5_000), (5_000, Step::Forward));
    assert_eq!(unwrapper.unwrap(6_000), (6_000, Step::Forward));
    assert_eq!(unwrapper.unwrap(5_990), (5_990, Step::Backward));
    assert_eq!(unwrapper.unwrap(5_989), (SPAN + 5_989, Step::Restart));
    assert_eq!(unwrapper.unwrap(6_990), (2 * SPAN + 6_990, Step::Restart));
    // Half of the range stays the most.
    let mut unwrapper = Unwrapper::new(24).within(10, u64::MAX);
    unwrapper.unwrap(0);
    assert_eq!(unwrapper.unwrap(SPAN / 2 - 1).1, Step::Forward);
    assert_eq!(unwrapper.unwrap(SPAN - 1).1, Step::Restart);
}

#[test]
fn numbers_of_48_bits_begin_anew_until_no_turn_is_left() {
    let span = 1 << NUMBER_BITS_MAX;
    let mut unwrapper = Unwrapper::new(NUMBER_BITS_MAX).within(10, 1_000);
    unwrapper.unwrap(1_000_000);
    let turns = (1_u64 << 62) / span;
    for turn in 1..=turns {
        let number = turn % 2 * 500_000;
        assert_eq!(unwrapper.unwrap(number), (turn * span + number, Step::Restart));
    }
    assert_eq!(unwrapper.unwrap(700_000), (turns * span + 700_000, Step::Backward));
    assert_eq!(unwrapper.newest(), Some(turns * span));
}

proptest! {
    #[test]
    fn steps_within_reach_of_the_newest_give_the_true_keys(
        first in 0..4 * SPAN,
        steps in proptest::collection::vec((-3_000_i64..8_000, any::<bool>()), 1..300),
    ) {
        let mut unwrapper = at(first);
        let mut newest = first;
        for (step, far) in steps {
            let step = if far { step * 500 } else { step };
            if step < 0 && (step as u64).wrapping_neg() > REORDER_MAX_AT_ZERO { continue }
            let Some(key) = newest.checked_add_signed(step) else { continue };
            let expected = if step > 0 { Step::Forward } else { Step::Backward };
            prop_assert_eq!(unwrapper.unwrap(key % SPAN), (key, expected));
            newest = newest.max(key);
            prop_assert_eq!(unwrapper.newest(), Some(newest));
        }
    }

    #[test]
    fn a_restart_is_found_wherever_it_happens(
        newest in REORDER_MAX_AT_ZERO + 1..6 * SPAN,
        sent in 1..50_u64,
    ) {
        let mut unwrapper = at(newest);
        let turn = (newest / SPAN + 1) * SPAN;
        let turn = if newest % SPAN <= REORDER_MAX_AT_ZERO { return Ok(()) } else { turn };
        for number in 0..sent {
            prop_assert_eq!(unwrapper.unwrap(number).0, turn + number);
        }
    }

    #[test]
    fn nearest_is_what_a_search_finds(number in 0..SPAN, near in 0..10 * SPAN) {
        let found = (0..12)
            .map(|turn| turn * SPAN + number)
            .min_by_key(|key| (key.abs_diff(near), u64::MAX - key))
            .unwrap();
        prop_assert_eq!(Unwrapper::new(24).nearest(number, near), found);
    }
}

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
    assert_eq!(gaps.take(2), (Arrival::Late, 0));
    assert_eq!(gaps.expect(3), 0, "an old heartbeat");
    assert_eq!(gaps.settle(), 2);
    assert_eq!(gaps.next(), Some(4));
}

#[test]
fn a_sender_that_counts_anew_loses_nothing_but_what_was_open() {
    for (newest, anew) in [(100_000, 0), (5_000, 3), (5, AHEAD_MAX + 7), (200_000, 1_500)] {
        let mut gaps = Gaps::new();
        gaps.take(newest - 2);
        gaps.take(newest);
        assert_eq!(gaps.take(anew), (Arrival::Restart, 1), "{newest} {anew}");
        assert_eq!(gaps.take(anew + 2), (Arrival::New, 0));
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
    /// Numbers in any order within the window, some lost and some twice: what is handed out as
    /// missing is what was lost between the first and the last.
    #[test]
    fn missing_numbers_are_those_that_never_came(
        fates in prop::collection::vec((0_u8..10, 0_u64..WINDOW / 2), 1..4_000),
        first in 0_u64..1 << 40,
    ) {
        let mut sent: Vec<(u64, u64)> = Vec::new();
        for (number, (fate, delay)) in (first..).zip(&fates) {
            let copies = match fate { 0 => 0, 1 => 2, _ => 1 };
            let place = number + if *fate > 6 { *delay } else { 0 };
            sent.extend(std::iter::repeat_n((place, number), copies));
        }
        sent.sort_unstable();
        let mut gaps = Gaps::new();
        let mut missing = 0;
        for (_, number) in &sent {
            missing += gaps.take(*number).1;
        }
        missing += gaps.settle();
        // Those before the first that came are not known of; those behind it in time are.
        if let Some((_, begin)) = sent.first() {
            let numbers = sent.iter().map(|(_, number)| *number).filter(|number| number >= begin);
            let end = numbers.clone().max().unwrap() + 1;
            let came = numbers.collect::<std::collections::BTreeSet<_>>().len() as u64;
            prop_assert_eq!(missing, end - begin - came);
        }
    }
}
