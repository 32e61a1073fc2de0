//! Sources that run ahead, wrap, restart together or alone, or send a garbled number.

use crate::support;
use catchment_builder::{Astray, BuilderConfig, NumberConfig, SourceRole};
use catchment_model::Entry;
use support::{MS, Rig, S, window};

const CYCLE: u64 = 1 << 24;

#[test]
fn a_source_100000_events_ahead_is_kept_until_the_others_come() {
    for source_count in [2, 4] {
        let mut rig = Rig::required(source_count);
        rig.send(0, 0, 0..100_000);
        // The others follow at 4 kHz: they come to the last event 25 s after it was sent.
        for step in 0..1_250 {
            let now = 10 * MS + step * 20 * MS;
            let events = step * 80..(step + 1) * 80;
            rig.send(now, 0, events.start + 100_000..events.end + 100_000);
            rig.send_all(now, 1..source_count, events);
            rig.poll(now);
        }
        assert_eq!(rig.builder.status().events_complete, 100_000, "{source_count} sources");
        rig.send_all(26 * S, 1..source_count, 100_000..200_000);
        rig.poll(26 * S);
        rig.finish(26 * S);
        assert_eq!((rig.rows.len(), rig.complete()), (200_000, 200_000));
    }
}

#[test]
fn a_source_ahead_beyond_the_window_is_parked_and_stops_nobody() {
    let config = BuilderConfig::new(vec![SourceRole::Required; 3]);
    let mut rig = Rig::by_number(config, window(4_096, 256));
    rig.send(0, 0, 0..7_000);
    for step in 0..70 {
        rig.send_all(step * MS, 1..3, step * 100..(step + 1) * 100);
        rig.poll(step * MS);
    }
    rig.finish(S);
    assert_eq!((rig.rows.len(), rig.complete()), (7_000, 7_000));
    assert!(rig.rows.values().all(|row| row.time_ns == 0), "when the first fragment came");
}

#[test]
fn what_is_too_far_ahead_is_counted_out_of_range() {
    let mut config = BuilderConfig::new(vec![SourceRole::Required; 3]);
    config.parked_max = 500;
    let mut rig = Rig::by_number(config, window(1_024, 256));
    rig.send_all(0, 0..3, 0..10);
    rig.poll(0);
    rig.send(0, 0, 10..4_000);
    rig.poll(0);
    // The window was 10..1,034 when they came; 500 are parked.
    rig.send_all(MS, 1..3, 10..4_000);
    for step in 2..20 {
        rig.poll(step * MS);
    }
    rig.finish(S);
    assert_eq!(rig.count(0, Entry::FragmentsOutOfRange), 4_000 - 1_034 - 500);
    assert_eq!(rig.count(0, Entry::FragmentsRecorded), 1_534);
}

#[test]
fn a_pausable_source_that_is_ahead_loses_nothing_for_want_of_its_share() {
    for pausable in [false, true] {
        let mut config = BuilderConfig::new(vec![SourceRole::Required; 2]);
        (config.waiting_bytes_max, config.pausable) = (100_000, vec![pausable, false]);
        let mut rig = Rig::new(config);
        rig.send_all(0, 0..2, 0..10);
        rig.poll(0);
        for step in 1..20 {
            rig.send(step * MS, 0, step * 100..(step + 1) * 100);
            rig.poll(step * MS);
        }
        assert_eq!(rig.count(0, Entry::FragmentsOutOfRange) == 0, pausable);
        rig.finish(S);
    }
}

#[test]
fn what_a_pausable_source_holds_closes_no_event_that_waits_for_another_one() {
    for pausable in [false, true] {
        let mut config = BuilderConfig::new(vec![SourceRole::Required; 3]);
        (config.waiting_bytes_max, config.pausable) = (100_000, vec![pausable, false, false]);
        let mut rig = Rig::new(config);
        rig.send_all(0, 0..3, 0..10);
        rig.poll(0);
        // Events wait for the last source, which is ten behind, with long fragments of the first.
        for number in 10..200 {
            let now = number * MS;
            let long = rig.fragment(0, number, 40_000);
            rig.push(now, &[long]);
            rig.send(now, 1, [number]);
            rig.send(now, 2, number.checked_sub(10).filter(|&number| number >= 10));
            rig.poll(now);
        }
        rig.finish(S);
        let overtaken = rig.builder.status().events_overtaken;
        assert_eq!((overtaken == 0, rig.lost() == 0), (pausable, pausable));
    }
}

#[test]
fn what_a_pausable_source_holds_takes_no_share_of_another_one() {
    for pausable in [false, true] {
        let mut config = BuilderConfig::new(vec![SourceRole::Required; 4]);
        (config.waiting_bytes_max, config.pausable) = (100_000, vec![pausable; 1]);
        let mut rig = Rig::new(config);
        rig.send_all(0, 0..4, 0..10);
        rig.poll(0);
        // The first two are ahead, the second with less than the half that is for such sources.
        let long: Vec<_> = (10..30).map(|number| rig.fragment(0, number, 40_000)).collect();
        rig.push(MS, &long);
        rig.send(MS, 1, 10..210);
        rig.poll(MS);
        rig.send(2 * MS, 1, 210..220);
        rig.finish(S);
        assert_eq!(rig.count(1, Entry::FragmentsOutOfRange), if pausable { 0 } else { 10 });
    }
}

#[test]
fn a_dead_source_is_found_silent_while_the_others_are_held() {
    let mut rig = Rig::required(2);
    rig.send_all(0, 0..2, 0..10);
    rig.poll(0);
    // One dies, and there is no room for what the other has next.
    rig.send(MS, 0, 10..200);
    for step in 0..30 {
        let now = 2 * MS + step * 100 * MS;
        rig.builder.hold(now, 0);
        rig.poll(now);
    }
    let status = rig.builder.status();
    assert_eq!((status.sources[0].silent, status.sources[1].silent), (false, true));
    assert_eq!((rig.rows.len(), rig.complete()), (200, 10));
    rig.finish(4 * S);
}

#[test]
fn the_window_follows_when_most_sources_have_moved_on() {
    let config = BuilderConfig::new(vec![SourceRole::Required; 3]);
    let mut rig = Rig::by_number(config, window(4_096, 256));
    rig.send_all(0, 0..3, 0..100);
    // Nothing of 3,000,000 events came from any source; one source is still alive.
    rig.send_all(10 * MS, 0..2, 3_000_000..3_001_000);
    rig.send(10 * MS, 2, 100..110);
    for step in 1..70 {
        rig.send(step * 10 * MS, 2, 100 + step * 10..110 + step * 10);
        rig.poll(step * 10 * MS);
    }
    rig.send(S, 2, 3_000_000..3_001_000);
    rig.poll(S);
    rig.finish(2 * S);
    assert_eq!(rig.complete(), 1_100);
    // Further than a window: it is not known that there were events between.
    let restart = rig.builder.status().last_restart.expect("numbers restarted");
    assert_eq!((restart.from, restart.to), (99, 3_000_000), "where most were before");
    assert_eq!(rig.total(Entry::FragmentsMissingUnrecorded), 0);
}

#[test]
fn numbers_that_all_sources_skip_alike_are_no_loss() {
    for (sources, skipped) in [(2, 5_000), (90, 12_400)] {
        let mut rig = Rig::required(sources);
        let mut now = 0;
        for first in [77_100, 77_500 + skipped] {
            for step in 0..40 {
                rig.send_all(now, 0..sources, first + step * 10..first + (step + 1) * 10);
                rig.poll(now);
                now += 25 * MS;
            }
            now += 2 * S;
        }
        // Enough for the first event after the jump to be overtaken.
        rig.finish(now);
        let case = format!("{sources}: {:?}", rig.ledger.total());
        assert_eq!((rig.rows.len(), rig.complete()), (800, 800), "{case}");
        assert!(!rig.ledger.balance().lost_data(), "{case}");
        assert_eq!(rig.total(Entry::FragmentsMissingUnrecorded), 0, "{case}");
        let status = rig.builder.status();
        let jump = status.last_jump.expect("numbers jumped");
        assert_eq!((jump.to - jump.from, jump.sources as usize), (skipped, sources), "{case}");
        assert_eq!((status.jumps, status.events_absent), (1, 0), "{case}");
        for source in 0..sources {
            assert_eq!(rig.count(source, Entry::FragmentsSkipped), skipped, "{case}");
        }
    }
}

/// In the first time-out an event waits for a source that may still begin, but one that has sent
/// nothing says nothing of what the others skipped.
#[test]
fn numbers_skipped_alike_are_no_loss_while_another_source_is_awaited() {
    let mut rig = Rig::required(3);
    for first in [0, 5_400] {
        for step in 0..40 {
            let now = first * 100_000 + step * 8 * MS;
            rig.send_all(now, 0..2, first + step * 10..first + (step + 1) * 10);
            rig.poll(now);
        }
    }
    // The run ends before the third counts as silent.
    rig.finish(900 * MS);
    let status = rig.builder.status();
    assert_eq!((rig.rows.len(), status.jumps, status.events_absent), (800, 1, 0));
    let counts = [Entry::FragmentsSkipped, Entry::FragmentsMissingUnrecorded]
        .map(|entry| rig.count(0, entry));
    assert_eq!(counts, [5_000, 0]);
}

#[test]
fn numbers_that_a_lone_source_skips_or_few_that_all_skip_are_missing() {
    for (sources, skipped) in [(1, 12_400), (3, 4_096), (3, 1)] {
        let mut rig = Rig::required(sources);
        for first in [0, 400 + skipped] {
            for step in 0..40 {
                let now = first * 10_000 + step * 25 * MS;
                rig.send_all(now, 0..sources, first + step * 10..first + (step + 1) * 10);
                rig.poll(now);
            }
        }
        rig.finish(10 * S);
        let case = format!("{sources}: {:?}", rig.ledger.total());
        assert_eq!(rig.builder.status().jumps, 0, "{case}");
        assert_eq!(rig.count(0, Entry::FragmentsMissingUnrecorded), skipped, "{case}");
        assert!(rig.ledger.balance().lost_data(), "{case}");
    }
}

#[test]
fn numbers_that_one_of_three_does_not_skip_are_missing_in_the_others() {
    let mut rig = Rig::required(3);
    let mut now = 0;
    for step in 0..900_u64 {
        let numbers = step * 10..(step + 1) * 10;
        for source in 0..3 {
            if source == 2 || !(100..800).contains(&step) {
                rig.send(now, source, numbers.clone());
            }
        }
        rig.poll(now);
        now += 25 * MS;
    }
    rig.finish(now);
    let total = rig.ledger.total();
    assert_eq!((total[Entry::FragmentsSkipped], rig.lost()), (0, 0), "{total:?}");
    assert_eq!(total[Entry::FragmentsMissing], 2 * 7_000, "{total:?}");
}

#[test]
fn numbers_wrap_without_a_trace() {
    let mut rig = Rig::required(3);
    for step in 0..200 {
        for source in 0..3 {
            // Up to 2,000 events between them.
            let first = CYCLE - 10_000 + step * 100 + source as u64 * 1_000;
            rig.send(step * MS, source, first..first + 100);
        }
        rig.poll(step * MS);
    }
    rig.finish(S);
    assert_eq!(rig.rows.len(), 22_000);
    assert_eq!(rig.complete(), 18_000);
    assert!(rig.rows.contains_key(&(CYCLE + 1)));
    assert_eq!(rig.lost() + rig.total(Entry::NumberingRestarts), 0);
}

#[test]
fn all_sources_restart_at_slightly_different_times_and_nothing_is_lost() {
    for last_event in [4_200, 20_000, 300_000] {
        for silence_ns in [0, 5 * S] {
            restart_together(5, last_event, silence_ns);
        }
    }
}

fn restart_together(source_count: usize, last_event: u64, silence_ns: u64) {
    let mut rig = Rig::required(source_count);
    let mut now = 0;
    for first in (0..last_event).step_by(500) {
        rig.send_all(now, 0..source_count, first..(first + 500).min(last_event));
        rig.poll(now);
        now += 10 * MS;
    }
    for _ in 0..silence_ns / (100 * MS) {
        now += 100 * MS;
        rig.poll(now);
    }
    // Source 0 restarts 80 ms before source 4, which meanwhile delivers the end of what was.
    let mut sent = vec![0; source_count];
    for step in 0..400 {
        for (source, sent) in sent.iter_mut().enumerate() {
            if step < source * 2 {
                let number = last_event + step as u64;
                rig.send(now, source, [number]);
            } else {
                rig.send(now, source, *sent..*sent + 50);
                *sent += 50;
            }
        }
        rig.poll(now);
        now += 10 * MS;
    }
    rig.finish(now);
    let restarts = rig.total(Entry::NumberingRestarts);
    assert_eq!(restarts, source_count as u64, "{last_event} {silence_ns}");
    assert_eq!(rig.total(Entry::FragmentsReordered), 0);
    assert_eq!(rig.lost(), 0, "{last_event} {silence_ns}: {:?}", rig.ledger.total());
    assert_eq!(rig.builder.status().restarts_followed, 1);
    let after: Vec<_> = rig.rows.range(CYCLE..).collect();
    assert!((0..source_count).all(|s| rig.count(s, Entry::FragmentsMissingUnrecorded) == 0));
    assert_eq!(after.len() as u64, sent[0]);
    let complete = after.iter().filter(|(_, row)| row.present() == source_count).count();
    assert_eq!(complete as u64, sent[source_count - 1]);
}

#[test]
fn a_restart_after_a_silence_is_seen_however_few_events_there_were() {
    let mut rig = Rig::required(3);
    rig.send_all(0, 0..3, 0..1_000);
    for step in 0..30 {
        rig.poll(step * 100 * MS);
    }
    for step in 0..20 {
        let now = 3 * S + step * 10 * MS;
        rig.send_all(now, 0..3, step * 100..(step + 1) * 100);
        rig.poll(now);
    }
    rig.finish(4 * S);
    assert_eq!((rig.rows.len(), rig.complete()), (3_000, 3_000));
    assert_eq!(rig.total(Entry::NumberingRestarts), 3);
}

#[test]
fn a_single_source_restarts_as_often_as_it_likes() {
    let mut rig = Rig::required(1);
    for cycle in 0..5 {
        for step in 0..100 {
            let now = cycle * S + step * 10 * MS;
            rig.send(now, 0, 1 + step * 60..1 + (step + 1) * 60);
            rig.poll(now);
        }
    }
    rig.finish(5 * S);
    assert_eq!((rig.rows.len(), rig.complete()), (30_000, 30_000));
    assert_eq!(rig.count(0, Entry::NumberingRestarts), 4);
    assert_eq!(rig.count(0, Entry::FragmentsMissingUnrecorded), 0);
}

#[test]
fn one_source_that_restarts_alone_stops_nobody_and_each_of_its_fragments_is_counted() {
    for source_count in [2, 5] {
        let mut rig = Rig::required(source_count);
        let mut restarted = 0;
        for step in 0..600 {
            let (now, events) = (step * 10 * MS, step * 200..(step + 1) * 200);
            rig.send_all(now, 1..source_count, events.clone());
            if step < 300 {
                rig.send(now, 0, events);
            } else {
                rig.send(now, 0, (step - 300) * 200..(step - 299) * 200);
                restarted += 200;
            }
            rig.poll(now);
        }
        let status = rig.builder.status();
        let astray = status.sources[0].astray;
        let is_told = |astray| {
            let Astray::Numbers { after, others, .. } = astray else { return false };
            after == Some(59_999) && others > 119_000
        };
        assert!(status.sources[0].out_of_step && astray.is_some_and(is_told), "{astray:?}");
        rig.finish(6 * S);
        assert_eq!((rig.rows.len(), rig.complete()), (120_000, 60_000));
        let not_used =
            rig.count(0, Entry::FragmentsOutOfRange) + rig.count(0, Entry::FragmentsLate);
        assert_eq!((not_used, rig.lost()), (restarted, restarted), "{source_count} sources");
        assert_eq!(rig.total(Entry::NumberingRestarts), 0, "no quorum restarted");
        assert_eq!(rig.count(0, Entry::FragmentsMissing), 60_000);
        assert!((1..source_count).all(|source| rig.count(source, Entry::FragmentsMissing) == 0));
    }
}

#[test]
fn a_source_out_of_step_is_back_when_the_others_restart_too() {
    let mut rig = Rig::required(4);
    for step in 0..600 {
        let now = step * 10 * MS;
        // Source 3 restarts at step 250, alone; all restart at step 400.
        for source in 0..4 {
            let since = if step >= 400 {
                400
            } else if source == 3 && step >= 250 {
                250
            } else {
                0
            };
            rig.send(now, source, (step - since) * 200..(step - since + 1) * 200);
        }
        rig.poll(now);
    }
    assert!(!rig.builder.status().sources[3].out_of_step);
    rig.finish(6 * S);
    assert_eq!(rig.complete(), 50_000 + 40_000);
    assert_eq!(rig.lost(), 30_000, "what it sent while it was out of step");
}

#[test]
fn a_source_that_was_away_for_more_than_half_a_turn_finds_back() {
    let config = BuilderConfig::new(vec![SourceRole::Required; 3]);
    let number = NumberConfig { number_bits: 20, ..NumberConfig::default() };
    let mut rig = Rig::by_number(config, number);
    let numbers = |step: u64| step * 4_000..step * 4_000 + 200;
    // Only some events of each step are sent, so that most of a cycle goes by in 200 steps.
    for step in 0..400 {
        let now = step * 50 * MS;
        rig.send_all(now, 0..2, numbers(step));
        if !(100..300).contains(&step) {
            rig.send(now, 2, numbers(step));
        }
        rig.poll(now);
    }
    rig.finish(30 * S);
    assert_eq!((rig.rows.len(), rig.complete()), (80_000, 40_000));
    assert_eq!(rig.lost(), 0);
}

#[test]
fn a_source_that_was_away_for_more_than_a_window_joins_the_one_that_is_ahead() {
    let config = BuilderConfig::new(vec![SourceRole::Required; 2]);
    let mut rig = Rig::by_number(config, window(256, 64));
    // At 1 kHz, the second source lacks 430 events, less than a time-out, and the run ends a
    // little later.
    for step in 0..160 {
        let now = step * 5 * MS;
        rig.send(now, 0, step * 5..(step + 1) * 5);
        if !(20..106).contains(&step) {
            rig.send(now, 1, step * 5..(step + 1) * 5);
        }
        rig.poll(now);
    }
    rig.finish(2 * S);
    assert_eq!((rig.rows.len(), rig.complete()), (800, 370));
    assert_eq!(rig.lost(), 0);
    assert_eq!(rig.count(0, Entry::FragmentsRecorded), 800);
    assert_eq!(rig.count(1, Entry::FragmentsMissing), 430);
}

#[test]
fn a_garbled_number_costs_one_fragment() {
    for source_count in [1, 2, 3] {
        for garbled in [5_000_000, 12_000_000, 3] {
            let mut rig = Rig::required(source_count);
            for step in 0..300 {
                let (now, events) = (step * 10 * MS, 100_000 + step * 100..100_100 + step * 100);
                rig.send_all(now, 1..source_count, events.clone());
                rig.send(now, 0, events.map(|n| if n == 110_099 { garbled } else { n }));
                rig.poll(now);
            }
            rig.finish(3 * S);
            assert_eq!(rig.lost(), 1, "{source_count} sources, {garbled}");
            let complete = rig.rows.range(..CYCLE).filter(|(_, row)| row.present() == source_count);
            assert_eq!(complete.count(), 29_999, "{source_count} sources, {garbled}");
        }
    }
}

#[test]
fn sources_that_begin_at_different_places_of_the_first_window_are_aligned() {
    let mut rig = Rig::required(3);
    rig.send(0, 0, CYCLE - 10..CYCLE + 20_000);
    rig.send(0, 1, CYCLE - 5_000..CYCLE + 20_000);
    rig.send(MS, 2, CYCLE + 5..CYCLE + 20_000);
    rig.poll(MS);
    rig.finish(2 * MS);
    assert_eq!(rig.rows.len(), 25_000);
    assert_eq!(rig.complete(), 20_000 - 5);
    assert_eq!(rig.lost(), 0);
}

#[test]
fn fragments_that_change_places_beyond_the_window_are_kept_in_order() {
    let config = BuilderConfig::new(vec![SourceRole::Required; 3]);
    let mut rig = Rig::by_number(config, window(1_024, 256));
    rig.send_all(0, 0..3, 0..10);
    rig.poll(0);
    let swapped = |number: u64| (number - number % 10) + 9 - number % 10;
    rig.send(MS, 0, (10..4_000).map(swapped));
    // One of those came twice.
    rig.send(MS, 0, [3_000 + 990]);
    for step in 1..400 {
        rig.send_all(step * MS, 1..3, step * 10..(step + 1) * 10);
        rig.poll(step * MS);
    }
    rig.finish(S);
    assert_eq!((rig.complete(), rig.lost()), (4_000, 0), "{:?}", rig.ledger.total());
    assert_eq!(rig.total(Entry::FragmentsDuplicate), 1);
}

#[test]
fn packets_that_came_twice_are_duplicates_whatever_garbled_numbers_follow_them() {
    for garbled in [0, 1, 3, 6] {
        let mut rig = Rig::required(3);
        let mut now = 0;
        for step in 0..400 {
            rig.send_all(now, 0..3, step * 10..(step + 1) * 10);
            if step == 100 {
                rig.send(now, 1, 900..1_000);
                // Each makes a claim of its own, more than are remembered.
                rig.send(now, 1, (0..garbled).map(|count| 2_000_000 + count * 1_000_000));
            }
            rig.poll(now);
            now += 25 * MS;
        }
        rig.finish(now);
        assert_eq!(rig.total(Entry::FragmentsDuplicate), 100, "{garbled}");
        assert_eq!((rig.lost(), rig.complete()), (garbled, 4_000), "{garbled}");
    }
}

#[test]
fn what_is_held_behind_others_is_taken_when_the_quorum_comes_near_it() {
    let mut rig = Rig::required(3);
    let mut now = 0;
    rig.send_all(now, 0..3, 0..1_000);
    rig.poll(now);
    // Behind 190 packets that came twice, one that is 10,000 ahead; then the sender is silent.
    rig.send(now, 0, 800..990);
    rig.send(now, 0, [11_000]);
    for step in 10..170 {
        rig.send_all(now, 1..3, step * 100..(step + 1) * 100);
        rig.poll(now);
        now += 10 * MS;
    }
    rig.finish(now);
    assert_eq!(rig.rows[&11_000].present(), 3);
    assert_eq!((rig.total(Entry::FragmentsDuplicate), rig.lost()), (190, 0));
}

#[test]
fn where_no_keys_are_left_numbers_that_begin_anew_are_counted_and_the_run_ends() {
    const BITS: u32 = catchment_builder::NUMBER_BITS_MAX;
    let config = BuilderConfig::new(vec![SourceRole::Required]);
    let mut rig = Rig::by_number(config, NumberConfig { number_bits: BITS, ..window(256, 16) });
    // Each time in the next cycle, of which there are 2^14.
    let cycles = 1 << (62 - BITS);
    for cycle in 0..=cycles {
        let first = if cycle == cycles { 500 } else { cycle % 2 * 1_000 };
        for step in 0..4 {
            let now = cycle * S + step * 100 * MS;
            rig.send(now, 0, [first + step]);
            rig.builder.poll(now);
        }
        rig.collect(cycle * S + 300 * MS);
    }
    rig.finish(cycles * S + 400 * MS);
    assert_eq!(rig.count(0, Entry::NumberingRestarts), cycles - 1);
    assert_eq!((rig.complete() as u64, rig.lost()), (cycles * 4, 4));
}
