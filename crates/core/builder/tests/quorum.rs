//! Wrong numbers cost their own events and no other.

use crate::support;
use catchment_builder::{BuilderConfig, Fragment, FragmentFlags, SourceRole};
use catchment_model::Entry;
use support::{MS, Rig, S, window};

/// Sends events of all sources at 400 Hz, ten at a time; `change` makes other numbers of some.
fn deliver(
    rig: &mut Rig,
    now_ns: &mut u64,
    sources: usize,
    numbers: std::ops::Range<u64>,
    change: impl Fn(usize, u64) -> u64,
) {
    for first in numbers.clone().step_by(10) {
        for source in 0..sources {
            let packet = first..(first + 10).min(numbers.end);
            rig.send(*now_ns, source, packet.map(|number| change(source, number)));
        }
        rig.poll(*now_ns);
        *now_ns += 25 * MS;
    }
}

/// Nothing comes for so long; the builder is polled as a recorder polls it.
fn pause(rig: &mut Rig, now_ns: &mut u64, pause_ns: u64) {
    for _ in 0..20 {
        *now_ns += pause_ns / 20;
        rig.poll(*now_ns);
    }
}

#[test]
fn a_garbled_number_before_a_pause_costs_one_fragment() {
    for sources in [1, 2, 10, 90] {
        for added in [5_000, 65_536, 100_000, 0x4_0000, 0x80_0000, 1_u64.wrapping_neg() - 50_000] {
            for pause_ns in [0, 800 * MS, 1_200 * MS, 2 * S] {
                // In the middle, or the last before the pause.
                for garbled in [1_000, 1_599] {
                    let mut rig = Rig::required(sources);
                    let mut now = 0;
                    let change = |source, number: u64| match (source, number) {
                        (0, number) if number == garbled => number.wrapping_add(added),
                        _ => number,
                    };
                    deliver(&mut rig, &mut now, sources, 0..1_600, change);
                    pause(&mut rig, &mut now, pause_ns);
                    deliver(&mut rig, &mut now, sources, 1_600..4_000, change);
                    rig.finish(now);
                    let case = format!("{sources} sources, {added} at {garbled}, {pause_ns} ns");
                    let total = rig.ledger.total();
                    assert_eq!(total[Entry::FragmentsOutOfRange], 1, "{case}: {total:?}");
                    assert_eq!(rig.lost(), 1, "{case}: {total:?}");
                    assert_eq!(rig.complete(), 3_999, "{case}");
                    let missing =
                        total[Entry::FragmentsMissing] + total[Entry::FragmentsMissingUnrecorded];
                    assert_eq!(missing, 1, "{case}: {total:?}");
                }
            }
        }
    }
}

#[test]
fn all_who_go_on_from_2_after_10_500_lose_nothing() {
    for sources in [1, 2, 10, 90] {
        for (last, pause_ns) in [(10_500, 2 * S), (10_500, 300 * MS), (10_500, 0), (2_000, 2 * S)] {
            let mut rig = Rig::required(sources);
            let mut now = 0;
            deliver(&mut rig, &mut now, sources, 1..last, |_, number| number);
            pause(&mut rig, &mut now, pause_ns);
            deliver(&mut rig, &mut now, sources, 2..802, |_, number| number);
            rig.finish(now);
            let case =
                format!("{sources} sources, {last}, {pause_ns} ns: {:?}", rig.ledger.total());
            assert_eq!(rig.complete() as u64, last - 1 + 800, "{case}");
            assert!(!rig.ledger.balance().lost_data(), "{case}");
            assert_eq!(rig.total(Entry::NumberingRestarts), sources as u64, "{case}");
            let restart = rig.builder.status().last_restart.expect("numbers restarted");
            assert_eq!((restart.from, restart.to), (last - 1, 2), "{case}");
        }
    }
}

#[test]
fn a_source_that_runs_ahead_spends_its_own_share_and_costs_nobody_else() {
    for sources in [3, 10, 40] {
        let mut config = BuilderConfig::new(vec![SourceRole::Required; sources]);
        config.waiting_bytes_max = 36 << 20;
        let mut rig = Rig::new(config);
        let mut now = 0;
        deliver(&mut rig, &mut now, sources, 0..400, |_, number| number);
        // One sends 60 kB fragments of events that the others have not come to.
        for first in 0..300 {
            let ahead = 400 + first * 18..418 + first * 18;
            let fragments: Vec<_> = ahead.map(|number| rig.fragment(1, number, 60_000)).collect();
            rig.push(now, &fragments);
            for source in (0..sources).filter(|&source| source != 1) {
                rig.send(now, source, 400 + first * 4..404 + first * 4);
            }
            rig.poll(now);
            now += 10 * MS;
        }
        for number in (1_600..8_000).step_by(10) {
            for source in (0..sources).filter(|&source| source != 1) {
                rig.send(now, source, number..number + 10);
            }
            rig.poll(now);
            now += 10 * MS;
        }
        rig.finish(now);
        let others = (0..sources).filter(|&source| source != 1);
        for source in others {
            let ledger = &rig.ledger.sources[source];
            assert_eq!(ledger[Entry::FragmentsRecorded], 8_000, "{sources}: {ledger:?}");
            assert!(!ledger.balance().lost_data(), "{sources}: {ledger:?}");
        }
        let own = &rig.ledger.sources[1];
        assert!(own[Entry::FragmentsOutOfRange] > 0, "{own:?}");
        assert_eq!(rig.lost(), own[Entry::FragmentsOutOfRange], "{own:?}");
    }
}

#[test]
fn half_of_the_sources_move_nobody_and_one_more_moves_all() {
    for (restarted, epoch) in [(5, false), (6, true)] {
        let config = BuilderConfig::new(vec![SourceRole::Required; 10]);
        let mut rig = Rig::by_number(config, window(8_192, 4_096));
        let mut now = 0;
        let change = |source, number: u64| match source {
            source if source < restarted && number >= 30_000 => number - 29_990,
            _ => number,
        };
        deliver(&mut rig, &mut now, 10, 29_000..33_000, change);
        rig.finish(now);
        let total = rig.ledger.total();
        let followed = rig.builder.status().restarts_followed;
        assert_eq!(followed, u64::from(epoch), "{restarted}: {total:?}");
        assert_eq!(rig.complete(), 1_000, "{restarted}");
        // Of those who moved, or stayed, alone.
        let alone = if epoch { 6..10 } else { 0..5 };
        for source in 0..10 {
            let lost = rig.ledger.sources[source].balance().fragments_dropped;
            assert_eq!(lost > 0, alone.contains(&source), "{restarted}, {source}: {lost}");
        }
    }
}

#[test]
fn two_senders_at_one_port_do_not_begin_anew_at_each_packet() {
    for sources in [1, 3] {
        let mut rig = Rig::required(sources);
        let mut now = 0;
        for first in (0..4_000).step_by(10) {
            for source in 0..sources {
                rig.send(now, source, first..first + 10);
            }
            rig.send(now, 0, 1_000_000 + first..1_000_010 + first);
            rig.poll(now);
            now += 25 * MS;
        }
        rig.finish(now);
        let total = rig.ledger.total();
        assert_eq!(total[Entry::NumberingRestarts], 0, "{sources}: {total:?}");
        assert_eq!(rig.complete(), 4_000, "{sources}: {total:?}");
        assert_eq!(rig.lost(), 4_000, "the second sender's: {total:?}");
    }
}

#[test]
fn a_second_sender_at_a_port_is_no_loss_of_the_source_whichever_came_first() {
    for (own, foreign) in [(0, FragmentFlags::OTHER_SENDER), (FragmentFlags::OTHER_SENDER, 0)] {
        let mut rig = Rig::required(3);
        let mut now = 0;
        let of_sender = |rig: &mut Rig, first: u64, flags| -> Vec<Fragment> {
            let numbers = first..first + 10;
            let fragment = |number| Fragment { flags, ..rig.fragment(0, number, 100) };
            numbers.map(fragment).collect()
        };
        for first in (0..4_000).step_by(10) {
            // One of its own is lost: that shows.
            let mut fragments = of_sender(&mut rig, first, own);
            fragments.truncate(if first == 2_000 { 9 } else { 10 });
            rig.push(now, &fragments);
            rig.send_all(now, 1..3, first..first + 10);
            let fragments = of_sender(&mut rig, 1_000_000 + first, foreign);
            rig.push(now, &fragments);
            rig.poll(now);
            now += 25 * MS;
        }
        rig.finish(now);
        let total = rig.ledger.total();
        assert_eq!((rig.complete(), rig.lost()), (3_999, 0), "{total:?}");
        assert_eq!(rig.count(0, Entry::FragmentsForeign), 4_000);
        assert_eq!(rig.ledger.balance().fragments_lost, 1, "{total:?}");
    }
}

#[test]
fn a_source_that_goes_on_from_elsewhere_out_of_step_is_a_loss() {
    let mut rig = Rig::required(3);
    let mut now = 0;
    for first in (0..4_000).step_by(10) {
        rig.send_all(now, 1..3, first..first + 10);
        // Its port has heard nobody else for long when it has numbers of its own.
        rig.send(
            now,
            0,
            if first < 1_000 { first..first + 10 } else { 50_000_000 + first..50_000_010 + first },
        );
        rig.poll(now);
        now += 25 * MS;
    }
    rig.finish(now);
    assert_eq!((rig.count(0, Entry::FragmentsForeign), rig.lost()), (0, 3_000));
}

#[test]
fn a_source_that_begins_anew_from_another_address_loses_what_fits_nowhere_from_its_first_packet() {
    // Numbers that were current before, and such that never were.
    for begin in [0, 50_000_000] {
        let mut rig = Rig::required(3);
        let mut now = 0;
        for first in (0..4_000).step_by(10) {
            rig.send_all(now, 1..3, first..first + 10);
            let (from, flags) = match first {
                0..1_000 => (first, 0),
                // The receive agent knows a second later that the other address is silent.
                1_000..1_400 => (begin + first - 1_000, FragmentFlags::OTHER_SENDER),
                _ => {
                    (begin + first - 1_000, FragmentFlags::OTHER_SENDER | FragmentFlags::NEW_SENDER)
                }
            };
            let fragment = |number| Fragment { flags, ..rig.fragment(0, number, 100) };
            let fragments: Vec<Fragment> = (from..from + 10).map(fragment).collect();
            rig.push(now, &fragments);
            if first == 1_390 {
                assert_eq!(rig.count(0, Entry::FragmentsForeign), 0);
            }
            rig.poll(now);
            now += 25 * MS;
        }
        rig.finish(now);
        assert_eq!((rig.count(0, Entry::FragmentsForeign), rig.lost()), (0, 3_000), "{begin}");
        let own = rig.builder.status().sources[0].other_sender;
        assert!(own, "{begin}");
    }
}

#[test]
fn a_stranger_is_taken_for_the_source_until_the_source_is_heard_again() {
    let mut rig = Rig::required(3);
    let mut now = 0;
    let flagged = FragmentFlags::OTHER_SENDER;
    for first in (0..4_000).step_by(10) {
        rig.send_all(now, 1..3, first..first + 10);
        // The source pauses for longer than the time-out, while a stranger sends.
        let flags = match first {
            0..1_400 => flagged,
            _ => flagged | FragmentFlags::NEW_SENDER,
        };
        let foreign = |number| Fragment { flags, ..rig.fragment(0, number, 100) };
        let fragments: Vec<Fragment> =
            (50_000_000 + first..50_000_010 + first).map(foreign).collect();
        rig.push(now, &fragments);
        if !(1_000..1_500).contains(&first) {
            rig.send(now, 0, first..first + 10);
        }
        rig.poll(now);
        now += 25 * MS;
    }
    rig.finish(now);
    let (foreign, lost) = (rig.count(0, Entry::FragmentsForeign), rig.lost());
    assert_eq!(foreign + lost, 4_000);
    // What came in the pause, and was held.
    assert!((400..1_500).contains(&lost), "{lost}");
    assert_eq!(rig.count(0, Entry::FragmentsRecorded), 3_500);
}

#[test]
fn numbers_at_random_of_one_source_cost_the_others_nothing() {
    let mut rig = Rig::required(4);
    let mut random = catchment_fixtures::Random::new(11);
    let mut now = 0;
    for first in (0..4_000).step_by(10) {
        for source in 0..3 {
            rig.send(now, source, first..first + 10);
        }
        let numbers: Vec<u64> = (0..50).map(|_| random.next_u64()).collect();
        rig.send(now, 3, numbers);
        rig.poll(now);
        now += 25 * MS;
    }
    rig.finish(now);
    let total = rig.ledger.total();
    assert_eq!(total[Entry::NumberingRestarts], 0, "{total:?}");
    for source in 0..3 {
        let ledger = &rig.ledger.sources[source];
        assert_eq!(ledger[Entry::FragmentsRecorded], 4_000, "{ledger:?}");
        // At the very end, some of the numbers may be those of events that have not come.
        let missing = ledger[Entry::FragmentsMissing] + ledger[Entry::FragmentsMissingUnrecorded];
        assert!(missing < 20, "{ledger:?}");
    }
}

#[test]
fn without_a_majority_the_largest_group_is_followed_after_a_time_out() {
    // At the start, and after numbers that all had agreed on.
    for agreed in [0, 1_000] {
        let mut rig = Rig::required(5);
        let mut now = 0;
        deliver(&mut rig, &mut now, 5, 0..agreed, |_, number| number);
        pause(&mut rig, &mut now, if agreed > 0 { 300 * MS } else { 0 });
        // Two agree, and none of the other three with any.
        let apart = |source: usize, number: u64| match source {
            0 | 1 => number + 1_000_000,
            other => number + 2_000_000 * other as u64,
        };
        deliver(&mut rig, &mut now, 5, agreed..agreed + 4_000, apart);
        let status = rig.builder.status();
        let out_of_step: Vec<bool> = status.sources.iter().map(|it| it.out_of_step).collect();
        assert_eq!(out_of_step, [false, false, true, true, true], "{agreed}");
        rig.finish(now);
        for source in 0..5 {
            let recorded = rig.count(source, Entry::FragmentsRecorded);
            let expected = agreed + if source < 2 { 4_000 } else { 0 };
            assert_eq!(recorded, expected, "{agreed}, source {source}: {:?}", rig.ledger.total());
        }
        assert_eq!(rig.total(Entry::NumberingRestarts), if agreed > 0 { 2 } else { 0 }, "{agreed}");
    }
}

#[test]
fn a_lone_sender_whose_fragments_change_places_is_recorded_from_its_first() {
    let mut rig = Rig::required(1);
    let mut now = 0;
    deliver(&mut rig, &mut now, 1, 0..400, |_, number| number ^ 1);
    assert!(rig.builder.status().base_key > 380, "{:?}", rig.builder.status());
    rig.finish(now);
    assert_eq!((rig.complete(), rig.lost()), (400, 0));
}

#[test]
fn half_of_the_sources_dead_at_the_start_cost_nothing_where_memory_is_short() {
    let mut config = BuilderConfig::new(vec![SourceRole::Required; 10]);
    config.waiting_bytes_max = 1 << 20;
    let mut rig = Rig::new(config);
    // 10 MB in the time-out in which the others count as voters.
    for step in 0..200 {
        for source in 0..5 {
            rig.send(step * 5 * MS, source, step * 100..(step + 1) * 100);
        }
        rig.poll(step * 5 * MS);
        assert!(rig.builder.status().waiting_bytes <= 1 << 20);
    }
    rig.finish(S);
    assert_eq!((rig.rows.len(), rig.lost()), (20_000, 0), "{:?}", rig.ledger.total());
}

#[test]
fn numbers_garbled_by_little_in_most_sources_before_a_pause_cost_those_alone() {
    for (sources, garbled) in [(1, 1), (4, 3), (10, 6), (10, 10)] {
        let mut rig = Rig::required(sources);
        let mut now = 0;
        // The last before the pause, by no more than what is believed at once.
        let change = |source, number| match number {
            1_599 if source < garbled => number + 1_000,
            _ => number,
        };
        deliver(&mut rig, &mut now, sources, 0..1_600, change);
        pause(&mut rig, &mut now, 3 * S);
        deliver(&mut rig, &mut now, sources, 1_600..4_000, |_, number| number);
        rig.finish(now);
        let total = rig.ledger.total();
        let case = format!("{garbled} of {sources}: {total:?}");
        assert_eq!(rig.lost(), 0, "{case}");
        // In the event that it named the garbled one took the place of the right one.
        assert_eq!(total[Entry::FragmentsDuplicate], garbled as u64, "{case}");
        assert_eq!(total[Entry::FragmentsRecorded], 4_000 * sources as u64 - garbled as u64);
        // Nobody sent 1,599 where all sources garbled it.
        assert_eq!(rig.rows.len(), if garbled < sources { 4_000 } else { 3_999 }, "{case}");
        assert!(total[Entry::FragmentsReordered] <= garbled as u64, "{case}");
    }
}

#[test]
fn two_wrong_numbers_of_a_majority_before_a_pause_do_not_blank_what_follows() {
    for (wrong, sources) in [(6, 10), (10, 10), (2, 3), (3, 3), (2, 2), (46, 90)] {
        for added in [10_000, 65_536, 3_000_000, 1_u64.wrapping_neg() - 900] {
            for pause_ms in
                [0, 800, 1_200, 1_600, 1_900, 2_000, 2_100, 2_200, 2_300, 2_500, 3_000, 9_000]
            {
                let mut rig = Rig::required(sources);
                let mut now = 0;
                let change = |source, number: u64| match number {
                    1_000..1_002 if source < wrong => number.wrapping_add(added),
                    _ => number,
                };
                deliver(&mut rig, &mut now, sources, 0..1_002, change);
                pause(&mut rig, &mut now, pause_ms * MS);
                deliver(&mut rig, &mut now, sources, 1_002..5_002, change);
                rig.finish(now);
                let total = rig.ledger.total();
                let case = format!("{wrong} of {sources}, {added}, {pause_ms} ms: {total:?}");
                let sent = sources as u64 * 5_002;
                // At worst what the others send while the majority is held, a time-out.
                let most = (sources as u64 * 2).max((sources - wrong) as u64 * 430) + 10;
                let recorded = total[Entry::FragmentsRecorded];
                assert!(recorded + most >= sent, "{} not recorded: {case}", sent - recorded);
            }
        }
    }
}

#[test]
fn a_jump_counts_with_all_that_followed_it_once_it_is_no_longer_on_probation() {
    let mut rig = Rig::required(3);
    let mut now = 0;
    deliver(&mut rig, &mut now, 3, 0..400, |_, number| number);
    // Two leave out 20,000 events; soon after, no source delivers any more.
    for first in (20_400..20_500).step_by(25) {
        rig.send_all(now, 0..2, first..first + 25);
        rig.send(now, 2, [400 + (first - 20_400) / 25]);
        rig.poll(now);
        now += 25 * MS;
    }
    pause(&mut rig, &mut now, 4 * S);
    let status = rig.builder.status();
    assert_eq!(status.base_key, 20_500, "what two of three have passed: {status:?}");
    rig.finish(now);
    assert_eq!((rig.complete(), rig.lost()), (400, 0));
}

#[test]
fn what_a_new_numbering_lacks_is_missing_however_much_of_it_was_held_before_it_counted() {
    for (events, sources) in [(100, 1), (240, 1), (240, 3)] {
        let config = BuilderConfig::new(vec![SourceRole::Required; sources]);
        let mut rig = Rig::by_number(config, window(256, 64));
        rig.send_all(0, 0..sources, 0..50);
        rig.poll(0);
        // So soon after their last fragments, other numbers are no restart yet.
        rig.send_all(MS, 0..sources, 5_000..5_030);
        rig.send_all(MS, 0..sources, 5_031..5_000 + events);
        rig.poll(MS);
        assert_eq!(rig.builder.status().restarts_followed, 0);
        rig.poll(S);
        rig.finish(S);
        let of_all = |count: u64| count * sources as u64;
        let total = rig.ledger.total();
        assert_eq!(total[Entry::NumberingRestarts], of_all(1), "{total:?}");
        assert_eq!((rig.rows.len() as u64, rig.lost()), (49 + events, 0), "{total:?}");
        assert_eq!(total[Entry::FragmentsMissingUnrecorded], of_all(1), "{total:?}");
    }
}
