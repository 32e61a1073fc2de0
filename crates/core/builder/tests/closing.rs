//! When events close, and with what flags.

use crate::support;
use catchment_builder::{BuilderConfig, FragmentFlags, IncompletePolicy, SourceRole, TooLarge};
use catchment_model::{Entry, EventFlags};
use support::{MS, Rig, S, window};

#[test]
fn an_event_closes_as_soon_as_all_sources_delivered_it() {
    let mut rig = Rig::required(3);
    rig.send_all(0, 0..3, 0..10);
    rig.send_all(0, 0..2, 10..20);
    rig.poll(0);
    let status = rig.builder.status();
    assert_eq!((status.events_complete, status.open_events, status.base_key), (10, 10, 10));
    assert_eq!((status.released_bytes, status.waiting_bytes), (3_000, 2_000));
}

#[test]
fn a_source_that_never_speaks_leaves_6999_of_6999_events_incomplete_and_kept() {
    let mut rig = Rig::required(4);
    for event in 0..6_999 {
        rig.send_all(event * MS, 0..3, event..event + 1);
        rig.poll(event * MS);
    }
    rig.poll(9 * S);
    assert_eq!(rig.builder.status().events_incomplete, 6_999);
    rig.finish(9 * S);
    assert_eq!(rig.rows.len(), 6_999);
    let incomplete = |flags: EventFlags| flags.contains(EventFlags::INCOMPLETE);
    assert!(rig.rows.values().all(|row| row.present() == 3 && incomplete(row.flags)));
    assert_eq!(rig.count(3, Entry::FragmentsMissing), 6_999);
    assert_eq!(rig.lost(), 0);
}

#[test]
fn a_dead_source_costs_one_time_out_and_not_one_per_event() {
    let mut rig = Rig::required(3);
    let mut open_max = 0;
    for step in 0..300 {
        let (now, events) = (step * 10 * MS, step * 1_000..(step + 1) * 1_000);
        rig.send_all(now, 0..2, events.clone());
        if step < 50 {
            rig.send(now, 2, events);
        }
        rig.poll(now);
        if step > 170 {
            open_max = open_max.max(rig.builder.status().open_events);
        }
    }
    // Long after its death only what may still be reordered is open.
    assert!(open_max <= 4_096 + 1_000, "{open_max}");
    rig.finish(3 * S);
    assert_eq!((rig.rows.len(), rig.complete()), (300_000, 50_000));
    assert_eq!(rig.count(2, Entry::FragmentsMissing), 250_000);
}

#[test]
fn an_event_that_most_sources_have_passed_waits_for_one_that_may_have_sent_what_is_unread() {
    let mut rig = Rig::required(4);
    rig.send_all(0, 0..4, 0..5);
    for step in 0..100 {
        let now = step * 100 * MS;
        rig.send_all(now, 0..3, 5 + step..6 + step);
        rig.builder.hold_unread(now, 3);
        rig.poll(now);
    }
    assert_eq!(rig.builder.status().open_events, 100);
    rig.send(10 * S, 3, 5..105);
    rig.poll(10 * S);
    let status = rig.builder.status();
    assert_eq!((status.events_complete, status.events_incomplete, rig.lost()), (105, 0, 0));
    // What is missing when all is read is waited for as ever.
    for step in 0..30 {
        let now = 10 * S + step * 100 * MS;
        rig.send_all(now, 0..3, 105 + step..106 + step);
        rig.poll(now);
    }
    let open = rig.builder.status().open_events;
    assert!((1..20).contains(&open), "{open}");
    rig.finish(13 * S);
}

#[test]
fn an_event_waits_for_a_source_that_was_never_heard_while_what_it_sent_is_unread() {
    for heard in [1, 3] {
        let mut rig = Rig::by_number(
            BuilderConfig::new(vec![SourceRole::Required; heard + 1]),
            window(4_096, 2),
        );
        for step in 0..100 {
            let now = step * 100 * MS;
            rig.send_all(now, 0..heard, step..step + 1);
            rig.builder.hold_unread(now, heard);
            rig.poll(now);
        }
        assert_eq!(rig.builder.status().open_events, 100);
        rig.send(10 * S, heard, 0..100);
        rig.poll(10 * S);
        rig.finish(10 * S);
        assert_eq!((rig.complete(), rig.rows.len(), rig.lost()), (100, 100, 0));
        assert_eq!(rig.total(Entry::NumberingRestarts), 0);
    }
}

#[test]
fn an_event_does_not_wait_for_a_source_that_was_silent_before_its_thread_was_held_up() {
    let mut rig = Rig::required(4);
    for step in 0..100 {
        let now = step * 100 * MS;
        rig.send_all(now, 0..3, step..step + 1);
        if step >= 20 {
            rig.builder.hold_unread(now, 3);
        }
        rig.poll(now);
    }
    let status = rig.builder.status();
    assert!(status.sources[3].silent && status.open_events < 20, "{}", status.open_events);
    rig.finish(10 * S);
}

#[test]
fn an_event_times_out_when_a_source_does_not_deliver_it() {
    let mut rig = Rig::required(2);
    rig.send_all(0, 0..2, 0..5);
    rig.send(10 * MS, 0, 5..6);
    // While no source delivers, none is silent.
    rig.poll(9 * S);
    assert_eq!(rig.builder.status().open_events, 1);
    for step in 0..15 {
        rig.send(9 * S + step * 100 * MS, 0, 6 + step..7 + step);
        rig.poll(9 * S + step * 100 * MS);
    }
    assert!(rig.builder.status().sources[1].silent);
    assert!((1..10).contains(&rig.builder.status().events_timed_out));
    rig.finish(11 * S);
    assert_eq!(rig.rows[&5].flags, EventFlags::INCOMPLETE | EventFlags::TIMED_OUT);
    assert_eq!(rig.rows[&5].time_ns, 10 * MS);
}

#[test]
fn after_a_stop_of_the_process_what_waits_in_its_sockets_is_not_late() {
    for cycles_between in [1, 20] {
        let mut rig = Rig::required(3);
        let cycle = |rig: &mut Rig, now| {
            rig.builder.resume(now);
            rig.poll(now);
        };
        // One sends packets of so many events that it is behind the others.
        for step in 0..200 {
            let now = step * 10 * MS;
            rig.send_all(now, 0..2, step * 10..(step + 1) * 10);
            if step % 20 == 0 {
                rig.send(now, 2, (step * 10).saturating_sub(200)..step * 10);
            }
            cycle(&mut rig, now);
        }
        assert_eq!(rig.builder.status().events_timed_out, 0);
        let mut now = 2 * S + 30 * S;
        cycle(&mut rig, now);
        // Socket after socket is read.
        for source in 0..3 {
            let from = if source == 2 { 1_800 } else { 2_000 };
            for _ in 0..cycles_between {
                now += 10 * MS;
                cycle(&mut rig, now);
            }
            rig.send(now, source, from..3_500);
            cycle(&mut rig, now);
        }
        let status = rig.builder.status();
        assert_eq!((status.events_timed_out, status.open_events), (0, 0));
        // Time passes all the same: an event whose fragment does not come is given up.
        for step in 0..300 {
            now += 10 * MS;
            rig.send_all(now, 0..2, 3_500 + step..3_501 + step);
            cycle(&mut rig, now);
        }
        assert!(rig.builder.status().events_timed_out > 0);
        rig.finish(now);
        assert_eq!(rig.count(2, Entry::FragmentsLate), 0);
        assert_eq!(rig.complete(), 3_500);
    }
}

#[test]
fn a_lost_fragment_is_given_up_when_all_sources_are_past_it() {
    let mut rig = Rig::required(2);
    rig.send(0, 0, 0..6_000);
    rig.send(0, 1, (0..6_000).filter(|&event| event != 10));
    rig.poll(0);
    let status = rig.builder.status();
    assert_eq!((status.events_overtaken, status.events_complete), (1, 5_999));
    rig.finish(0);
    assert_eq!(rig.rows[&10].flags, EventFlags::INCOMPLETE | EventFlags::OVERTAKEN);
}

#[test]
fn one_source_that_lags_holds_the_others_for_no_longer_than_the_time_out() {
    // Source 4 delivers one event in ten of what the others do, in order, without a gap.
    let mut rig = Rig::required(5);
    let mut oldest_ns = 0;
    for step in 0..500 {
        let now = step * 10 * MS;
        rig.send_all(now, 0..4, step * 100..(step + 1) * 100);
        rig.send(now, 4, step * 10..(step + 1) * 10);
        rig.poll(now);
        let waits = now.saturating_sub(rig.builder.status().base_key * MS / 10);
        oldest_ns = oldest_ns.max(waits);
    }
    assert!(oldest_ns < 1_500 * MS, "{oldest_ns}");
    rig.finish(5 * S);
    assert_eq!(rig.rows.len(), 50_000);
    assert!((0..4).all(|source| rig.count(source, Entry::FragmentsMissing) == 0));
    let (late, missing) =
        (rig.count(4, Entry::FragmentsLate), rig.count(4, Entry::FragmentsMissing));
    assert!(late > 0 && missing == 45_000 + late, "{late}, {missing}");
}

#[test]
fn optional_sources_are_waited_for_and_not_missed() {
    use SourceRole::{Optional, Required};
    let mut rig = Rig::new(BuilderConfig::new(vec![Required, Optional]));
    rig.send(0, 0, 0..10);
    rig.send(MS, 1, 0..5);
    rig.poll(MS);
    assert_eq!(rig.builder.status().open_events, 5);
    rig.poll(2 * S);
    rig.finish(2 * S);
    assert_eq!(rig.complete(), 10);
    assert_eq!(rig.rows.values().map(|row| row.present()).sum::<usize>(), 15);
    assert_eq!(rig.total(Entry::FragmentsMissing), 0);
}

#[test]
fn disabled_and_unknown_sources_are_counted_and_take_no_part() {
    use SourceRole::{Disabled, Required};
    let mut rig = Rig::new(BuilderConfig::new(vec![Required, Disabled]));
    rig.send_all(0, 0..4, 0..10);
    rig.poll(0);
    assert_eq!(rig.builder.status().events_complete, 10);
    rig.finish(0);
    assert_eq!(rig.count(1, Entry::FragmentsDiscardedDisabled), 10);
    assert_eq!(rig.builder.status().fragments_of_no_source, 20);
    assert_eq!(rig.complete(), 10);
}

#[test]
fn a_different_tag_is_counted_and_flagged_and_the_fragment_kept() {
    let mut rig = Rig::required(2);
    rig.send(0, 0, 0..3);
    for number in 0..3 {
        let mut fragment = rig.fragment(1, number, 50);
        fragment.tag = u8::from(number == 1);
        fragment.flags = if number == 2 { FragmentFlags::SENDER_ERROR } else { 0 };
        rig.push(0, &[fragment]);
    }
    rig.finish(0);
    let flags: Vec<EventFlags> = rig.rows.values().map(|row| row.flags).collect();
    assert_eq!(flags, [EventFlags::default(), EventFlags::TAG_MISMATCH, EventFlags::SENDER_ERROR]);
    // Of two sources neither is known to be the right one.
    assert_eq!([0, 1].map(|source| rig.count(source, Entry::FragmentsBadTag)), [1, 1]);
    assert_eq!([0, 1].map(|source| rig.count(source, Entry::FragmentsBadSender)), [0, 1]);
    assert!(rig.rows.values().all(|row| row.present() == 2));
}

#[test]
fn the_source_at_another_trigger_is_named_and_not_those_that_came_after_it() {
    for first in 0..5 {
        let mut rig = Rig::required(5);
        // Source 2 is at another trigger from event 10 on; whoever comes first opens the events.
        for source in (0..5).map(|source| (first + source) % 5) {
            for number in 0..100 {
                let mut fragment = rig.fragment(source, number, 50);
                let tag = if source == 2 && number >= 10 { number + 1 } else { number };
                fragment.tag = tag as u8;
                rig.push(0, &[fragment]);
            }
        }
        rig.finish(0);
        let bad: Vec<u64> =
            (0..5).map(|source| rig.count(source, Entry::FragmentsBadTag)).collect();
        assert_eq!(bad, [0, 0, 90, 0, 0], "source {first} came first");
    }
}

#[test]
fn a_source_without_tags_is_compared_with_no_other_one() {
    for first in 0..4 {
        let mut rig = Rig::required(4);
        // Source 0 has no tags, and source 3 is at another trigger from event 10 on.
        for source in (0..4).map(|source| (first + source) % 4) {
            for number in 0..20 {
                let mut fragment = rig.fragment(source, number, 50);
                fragment.tag = [0, 7, 7, if number >= 10 { 0 } else { 7 }][source];
                fragment.flags = if source == 0 { FragmentFlags::UNTAGGED } else { 0 };
                rig.push(0, &[fragment]);
            }
        }
        rig.finish(0);
        let bad = [0, 1, 2, 3].map(|source| rig.count(source, Entry::FragmentsBadTag));
        assert_eq!(bad, [0, 0, 0, 10], "source {first} came first");
        let differ = rig.rows.values().filter(|row| row.flags == EventFlags::TAG_MISMATCH);
        assert_eq!((differ.count(), rig.rows.len()), (10, 20));
    }
}

#[test]
fn bad_fragments_of_events_that_are_dropped_are_not_counted() {
    let config = BuilderConfig {
        incomplete: IncompletePolicy::Drop,
        ..BuilderConfig::new(vec![SourceRole::Required; 3])
    };
    let mut rig = Rig::new(config);
    for source in 0..3 {
        for number in (0..10).filter(|&number| source != 0 || number < 5) {
            let mut fragment = rig.fragment(source, number, 50);
            fragment.tag = u8::from(source == 1);
            fragment.flags = FragmentFlags::SENDER_ERROR;
            rig.push(0, &[fragment]);
        }
    }
    rig.finish(0);
    assert_eq!(rig.rows.len(), 5);
    let counts = |entry| [0, 1, 2].map(|source| rig.count(source, entry));
    assert_eq!(counts(Entry::FragmentsBadTag), [0, 5, 0]);
    assert_eq!(counts(Entry::FragmentsBadSender), [5, 5, 5]);
}

#[test]
fn repeated_and_late_fragments_are_told_apart_after_their_event_closed() {
    let mut rig = Rig::required(2);
    rig.send(0, 0, 0..6_000);
    rig.send(0, 1, (0..6_000).filter(|&event| event != 1_500));
    rig.poll(0);
    rig.send(0, 0, [5_999, 1_500]);
    rig.send(0, 1, [1_500, 1_501]);
    rig.poll(0);
    rig.finish(0);
    assert_eq!(rig.count(0, Entry::FragmentsDuplicate), 2);
    assert_eq!(rig.count(1, Entry::FragmentsDuplicate), 1);
    assert_eq!(rig.count(1, Entry::FragmentsLate), 1);
}

#[test]
fn dropped_incomplete_events_are_in_no_frame_and_in_the_books() {
    let mut config = BuilderConfig::new(vec![SourceRole::Required; 3]);
    config.incomplete = IncompletePolicy::Drop;
    let mut rig = Rig::new(config);
    rig.send_all(0, 0..2, 0..100);
    rig.send(0, 2, (0..100).filter(|event| event % 10 != 0));
    rig.finish(0);
    assert_eq!((rig.rows.len(), rig.complete()), (90, 90));
    assert_eq!(rig.builder.status().events_dropped, 10);
    assert_eq!(rig.total(Entry::FragmentsDiscardedIncomplete), 20);
    assert_eq!(rig.count(2, Entry::FragmentsMissingUnrecorded), 10);
    assert_eq!(rig.total(Entry::FragmentsMissing), 0);
    assert!(rig.end_seen);
}

#[test]
fn keys_that_nobody_delivered_are_missing_in_every_required_source() {
    use SourceRole::{Optional, Required};
    let mut rig = Rig::new(BuilderConfig::new(vec![Required, Required, Optional]));
    for source in 0..3 {
        rig.send(0, source, (7..10_000).filter(|event| !(500..530).contains(event)));
    }
    rig.poll(0);
    rig.finish(0);
    assert_eq!(rig.complete(), 10_000 - 7 - 30);
    assert_eq!(rig.builder.status().events_absent, 30);
    let missing: Vec<u64> =
        (0..3).map(|source| rig.count(source, Entry::FragmentsMissingUnrecorded)).collect();
    assert_eq!(missing, [30, 30, 0]);
}

#[test]
fn sources_of_very_different_rates_lose_nothing() {
    // One source has every event, one every 1,000th, one every 20,000th (0.4 s).
    use SourceRole::{Optional, Required};
    let mut rig = Rig::new(BuilderConfig::new(vec![Required, Optional, Optional]));
    for step in 0..1_000 {
        let now = step * 2 * MS;
        rig.send(now, 0, step * 100..(step + 1) * 100);
        for (source, every) in [(1, 1_000), (2, 20_000)] {
            let numbers = (step * 100..(step + 1) * 100).filter(|event| event % every == 0);
            rig.send(now + MS, source, numbers);
        }
        rig.poll(now + MS);
    }
    rig.finish(2 * S);
    assert_eq!((rig.rows.len(), rig.complete()), (100_000, 100_000));
    let fragments: usize = rig.rows.values().map(|row| row.present()).sum();
    assert_eq!(fragments, 100_000 + 100 + 5);
    assert_eq!(rig.lost(), 0);
}

#[test]
fn nothing_is_late_after_all_sources_were_silent() {
    let mut rig = Rig::required(3);
    rig.send_all(0, 0..3, 0..1_000);
    rig.poll(0);
    for second in 0..100 {
        rig.poll(second * S);
    }
    // The first source to return is 20,000 events ahead before the last one delivers.
    for (nth, source) in [0, 1, 2].into_iter().enumerate() {
        let now = 100 * S + nth as u64 * 50 * MS;
        rig.send(now, source, 1_000..21_000);
        rig.poll(now);
    }
    rig.finish(101 * S);
    assert_eq!((rig.rows.len(), rig.complete()), (21_000, 21_000));
}

#[test]
fn events_slower_than_the_time_out_complete() {
    let mut rig = Rig::required(3);
    for event in 0..50 {
        for source in 0..3 {
            let now = event * 3 * S + source as u64 * 100 * MS;
            rig.send(now, source, [event]);
            rig.poll(now);
        }
    }
    rig.finish(200 * S);
    assert_eq!((rig.rows.len(), rig.complete()), (50, 50));
}

#[test]
fn a_slow_trigger_does_not_keep_a_dead_source_alive() {
    // Three events a second: the time between them counts little, but it counts.
    let mut rig = Rig::required(2);
    for event in 0..60 {
        let now = event * 333 * MS;
        rig.send(now, 0, [event]);
        if event < 10 {
            rig.send(now, 1, [event]);
        }
        rig.poll(now);
        rig.poll(now + 200 * MS);
    }
    assert!(rig.builder.status().sources[1].silent);
    assert!(rig.builder.status().open_events < 10);
    rig.finish(20 * S);
    assert_eq!((rig.rows.len(), rig.complete()), (60, 10));
}

#[test]
fn a_source_that_joins_late_is_in_every_event_from_then_on() {
    let mut rig = Rig::required(3);
    for step in 0..600 {
        let (now, events) = (step * 10 * MS, step * 100..(step + 1) * 100);
        rig.send_all(now, 0..2, events.clone());
        if step >= 300 {
            rig.send(now, 2, events);
        }
        rig.poll(now);
    }
    rig.finish(6 * S);
    assert_eq!((rig.rows.len(), rig.complete()), (60_000, 30_000));
    assert_eq!(rig.lost(), 0);
}

#[test]
fn a_clock_that_goes_back_is_harmless() {
    let mut rig = Rig::required(2);
    rig.send_all(5 * S, 0..2, 0..10);
    rig.poll(5 * S);
    rig.send_all(3 * S, 0..2, 10..20);
    rig.poll(0);
    rig.collect(1);
    rig.finish(2 * S);
    assert_eq!(rig.complete(), 20);
    assert!(rig.rows.values().all(|row| row.time_ns == 5 * S));
}

#[test]
fn a_run_without_fragments_ends_without_a_frame() {
    let mut rig = Rig::required(2);
    rig.poll(0);
    rig.poll(u64::MAX);
    rig.finish(u64::MAX);
    assert!(rig.rows.is_empty() && !rig.end_seen);
}

#[test]
fn fragments_in_random_order_within_the_limit_are_all_built() {
    for source_count in [1, 3] {
        let mut rig = Rig::required(source_count);
        let mut random = catchment_fixtures::Random::new(7);
        for source in 0..source_count {
            let mut numbers: Vec<u64> = (1..50_001).collect();
            // Shuffled within blocks: none is further from its place than a block.
            for block in numbers.chunks_mut(4_000) {
                for last in (1..block.len()).rev() {
                    block.swap(last, random.below(last as u64 + 1) as usize);
                }
            }
            rig.send(0, source, numbers);
        }
        rig.poll(0);
        rig.finish(0);
        assert_eq!((rig.rows.len(), rig.complete()), (50_000, 50_000));
        assert!(rig.count(0, Entry::FragmentsReordered) > 40_000);
        let lost_or_repeated = rig.lost() + rig.total(Entry::FragmentsDuplicate);
        assert_eq!(lost_or_repeated, 0);
    }
}

#[test]
fn events_close_early_when_those_that_wait_hold_too_much() {
    let config = BuilderConfig {
        waiting_bytes_max: 20_000,
        ..BuilderConfig::new(vec![SourceRole::Required; 3])
    };
    let mut rig = Rig::new(config);
    // Two of three deliver; nothing times out in no time at all.
    for event in 0..1_000 {
        rig.send_all(0, 0..2, event..event + 1);
        rig.poll(0);
        assert!(rig.builder.status().waiting_bytes <= 20_000);
    }
    assert_eq!(rig.builder.status().open_events, 100);
    rig.send_all(0, 2..3, 900..1_000);
    rig.finish(0);
    assert_eq!((rig.rows.len(), rig.complete()), (1_000, 100));
    assert!(rig.rows[&0].flags.contains(EventFlags::OVERTAKEN));
    assert_eq!(rig.count(2, Entry::FragmentsMissing), 900);
    rig.check_ledger();
}

/// Nobody else could need the half that is kept for those that others wait for.
#[test]
fn the_only_source_of_a_run_has_all_memory_that_may_wait() {
    let config = BuilderConfig {
        waiting_bytes_max: 20_000,
        ..BuilderConfig::new(vec![SourceRole::Required])
    };
    let mut rig = Rig::new(config);
    // What comes first waits until it is known where the numbers begin.
    for number in 0..3 {
        let long = rig.fragment(0, number, 6_000);
        rig.push(number * MS, &[long]);
        rig.poll(number * MS);
    }
    rig.finish(3 * MS);
    assert_eq!((rig.rows.len(), rig.lost()), (3, 0));
    assert_eq!(rig.count(0, Entry::FragmentsOutOfRange), 0);
    rig.check_ledger();
}

/// Rows that nobody cuts, because the disk stalls, keep the window from moving. What comes
/// meanwhile is not ahead of the quorum: it waits, within the receiver's memory, and is recorded.
#[test]
fn a_backlog_of_rows_costs_no_fragment() {
    for sources in [1, 3] {
        let config = BuilderConfig {
            waiting_bytes_max: 64 * 1_000,
            ..BuilderConfig::new(vec![SourceRole::Required; sources])
        };
        for cut_at_last in [false, true] {
            let mut rig = Rig::by_number(config.clone(), window(256, 16));
            for event in 0..2_000 {
                rig.send_all(event * MS, 0..sources, event..event + 1);
                rig.builder.poll(event * MS);
            }
            if cut_at_last {
                (0..100).for_each(|step| rig.poll((2_000 + step) * MS));
            }
            rig.finish(2_200 * MS);
            assert_eq!((rig.rows.len(), rig.complete()), (2_000, 2_000), "{sources} sources");
            assert_eq!(rig.lost(), 0);
        }
    }
}

/// Beyond the count of fragments that a source may park, it is memory that is missing.
#[test]
fn a_backlog_beyond_what_may_be_parked_is_discarded_for_want_of_memory() {
    let config =
        BuilderConfig { parked_max: 100, ..BuilderConfig::new(vec![SourceRole::Required]) };
    let mut rig = Rig::by_number(config, window(256, 16));
    for event in 0..1_000 {
        rig.send(event * MS, 0, event..event + 1);
        rig.builder.poll(event * MS);
    }
    rig.finish(S);
    let discarded = rig.count(0, Entry::FragmentsDiscardedMemory);
    assert_eq!(rig.rows.len() as u64 + discarded, 1_000);
    assert!(rig.rows.len() > 100 && discarded > 0);
    assert_eq!(rig.count(0, Entry::FragmentsOutOfRange), 0);
}

#[test]
fn an_event_that_holds_too_much_is_dropped_and_counted() {
    let config =
        BuilderConfig { event_bytes_max: 250, ..BuilderConfig::new(vec![SourceRole::Required; 3]) };
    let mut rig = Rig::new(config);
    for number in 0..10 {
        for source in 0..3 {
            let bytes = match number {
                4 => 100,
                // What it lacks is missing, too.
                5 if source == 0 => continue,
                5 => 200,
                _ => 80,
            };
            let fragment = rig.fragment(source, number, bytes);
            rig.push(number * MS, &[fragment]);
        }
    }
    rig.finish(20 * S);
    assert_eq!(rig.rows.keys().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 6, 7, 8, 9]);
    assert_eq!(rig.total(Entry::FragmentsDiscardedTooLarge), 5);
    assert_eq!(rig.count(0, Entry::FragmentsMissingUnrecorded), 1);
    let status = rig.builder.status();
    assert_eq!((status.events_complete, status.events_incomplete), (8, 0));
    let largest = TooLarge { key: 5, bytes: 400 };
    assert_eq!((status.events_too_large, status.last_too_large), (2, Some(largest)));
}
