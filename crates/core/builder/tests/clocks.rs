//! What clocks do: they wrap, drift, jump, stick, and disagree when a run begins.

use crate::support::{MS, Rig, S};
use crate::time::{events, rig, send};
use catchment_builder::{Astray, Fragment, FragmentFlags, TimeMatcher, Unmatched};
use catchment_model::{Entry, EventFlags};

#[test]
fn clocks_that_wrap_are_one_time() {
    for bits in [32, 48] {
        let mut rig = rig(4, 1_000, |time| {
            for clock in &mut time.clocks {
                (clock.rate_hz, clock.bits) = (125_000_000, bits);
            }
        });
        let first = (1_u64 << bits) - 125_000 * 50;
        for event in 0..100_u64 {
            let now = event * MS;
            for source in 0..4 {
                let ticks = (first + event * 125_000 + source as u64) & ((1 << bits) - 1);
                send(&mut rig, now, source, &[ticks]);
            }
            rig.poll(now);
        }
        rig.finish(S);
        assert_eq!((rig.rows.len(), rig.complete(), rig.lost()), (100, 100, 0));
        let keys: Vec<u64> = rig.rows.keys().copied().collect();
        assert!(keys.windows(2).all(|pair| pair[1] - pair[0] == MS), "{bits} bits: {keys:?}");
    }
}

#[test]
fn sources_that_wrap_between_the_first_values_of_others_are_in_one_cycle() {
    let mut rig = rig(2, 1_000, |time| {
        for clock in &mut time.clocks {
            (clock.rate_hz, clock.bits) = (125_000_000, 48);
        }
    });
    for event in 0..10_u64 {
        let now = event * 100;
        for source in 0..2 {
            // The second is 20 ticks ahead, and in the next cycle from the start.
            let ticks =
                ((1_u64 << 48) - 10 + event * 125_000 + 20 * source as u64) & ((1 << 48) - 1);
            send(&mut rig, now, source, &[ticks]);
        }
        rig.poll(now);
    }
    rig.finish(S);
    assert_eq!((rig.rows.len(), rig.complete(), rig.lost()), (10, 10, 0));
}

const OUT_OF_STEP: EventFlags = EventFlags(EventFlags::UNMATCHED.0 | EventFlags::LATE.0);

#[test]
fn one_wrong_stamp_moves_nobody_and_is_out_of_range_or_a_row_of_its_own() {
    for (unmatched, kept) in [(Unmatched::Count, 0), (Unmatched::Keep, 1)] {
        let mut rig = rig(3, 100, |time| time.unmatched = unmatched);
        events(&mut rig, &[0, 1, 2], (1..=100).map(|event| event * MS));
        send(&mut rig, 100 * MS, 1, &[1 << 55]);
        events(&mut rig, &[0, 1, 2], (101..=4_000).map(|event| event * MS));
        rig.finish(4_001 * MS);
        assert_eq!((rig.complete(), rig.rows.len()), (4_000, 4_000 + kept));
        assert!((1..=4_000).all(|event| rig.rows.contains_key(&(event * MS))));
        assert_eq!(rig.rows.values().filter(|row| row.flags == OUT_OF_STEP).count(), kept);
        let counts = [Entry::FragmentsOutOfRange, Entry::FragmentsUnmatched];
        let kept = kept as u64;
        assert_eq!(counts.map(|entry| rig.count(1, entry)), [1 - kept, kept]);
        assert_eq!(rig.lost(), 1 - kept);
    }
}

/// Each of its packets comes twice.
#[test]
fn what_a_clock_out_of_step_says_is_recorded_once_and_moves_no_event() {
    for off_ns in [3 * S, 3_600 * S, 86_400 * S] {
        let mut rig = rig(3, 100, |_| {});
        events(&mut rig, &[0, 1, 2], (1..1_000).map(|event| event * MS));
        for ns in (1_000..=6_000).map(|event| event * MS) {
            send(&mut rig, ns, 2, &[ns + off_ns, ns + off_ns]);
            events(&mut rig, &[0, 1], [ns]);
        }
        rig.builder.finish(6_001 * MS);
        let cut = rig.builder.cut(6_001 * MS, None).unwrap();
        let is_aside = |row: &usize| cut.flags[*row] == OUT_OF_STEP.0;
        let (aside, events): (Vec<usize>, Vec<usize>) = (0..cut.keys.len()).partition(is_aside);
        assert!(events.iter().all(|&row| cut.keys[row] % MS == 0), "{off_ns}");
        let own: Vec<u64> = aside.iter().map(|&row| cut.columns[2].times[row]).collect();
        assert!(own.iter().all(|ns| ns % MS == 0 && *ns > off_ns), "{off_ns}");
        assert!(own.is_sorted_by(|one, next| one < next), "{off_ns}");
        assert!(cut.keys.iter().all(|&key| key < 6_001 * MS), "{off_ns}");
        assert!(own.len() > 500, "{off_ns}: {}", own.len());
    }
}

/// Each of its packets comes twice, and their numbers say so.
#[test]
fn what_a_clock_out_of_step_says_in_numbered_packets_is_recorded_once() {
    let mut rig = rig(3, 100, |_| {});
    events(&mut rig, &[0, 1, 2], (1..1_000).map(|event| event * MS));
    for ns in (1_000..=6_000).map(|event| event * MS) {
        for flags in [FragmentFlags::SENT_ONCE, 0] {
            let fragment = rig.fragment(2, 0, 100);
            rig.push(ns, &[Fragment { number: ns + 3_600 * S, flags, ..fragment }]);
        }
        events(&mut rig, &[0, 1], [ns]);
    }
    rig.finish(6_001 * MS);
    let aside = rig.rows.values().filter(|row| row.flags == OUT_OF_STEP).count() as u64;
    let counts = [Entry::FragmentsDuplicate, Entry::FragmentsAmbiguous, Entry::FragmentsUnmatched];
    assert_eq!(counts.map(|entry| rig.count(2, entry)), [aside, 0, aside]);
    assert_eq!((aside, rig.lost()), (5_001, 0));
}

/// Its packets have no sequence numbers, and some come again 3,000 packets later.
#[test]
fn what_may_have_come_long_before_is_recorded_once_and_counted_as_what_it_is() {
    let mut rig = rig(3, 100, |_| {});
    events(&mut rig, &[0, 1, 2], (1..1_000).map(|event| event * MS));
    let own = |ns: u64| ns + 3_600 * S;
    for event in 1_000..=9_000_u64 {
        let ns = event * MS;
        // A packet that comes again breaks what its clock claims for a moment.
        if event % 100 == 0 && event >= 7_000 {
            send(&mut rig, ns, 2, &[own(ns - 3_000 * MS)]);
        }
        send(&mut rig, ns, 2, &[own(ns)]);
        events(&mut rig, &[0, 1], [ns]);
    }
    rig.finish(9_001 * MS);
    let aside = rig.rows.values().filter(|row| row.flags == OUT_OF_STEP).count() as u64;
    let counts = [Entry::FragmentsDuplicate, Entry::FragmentsAmbiguous, Entry::FragmentsUnmatched];
    assert_eq!(counts.map(|entry| rig.count(2, entry)), [0, 21, aside]);
    assert_eq!(rig.count(2, Entry::FragmentsReceived), 999 + 8_001 + 21);
    assert_eq!((aside, rig.lost()), (8_001, 0));
}

#[test]
fn a_source_whose_clock_is_off_or_stuck_is_named_and_costs_the_others_nothing() {
    for wrong in [|_: u64| 77, |ns: u64| ns + 3 * S, |ns| ns - S, |ns| ns / 100_000] {
        let mut rig = rig(4, 100, |_| {});
        events(&mut rig, &[0, 1, 2, 3], (2_001..=2_100).map(|event| event * MS));
        for ns in (2_101..=6_000).map(|event| event * MS) {
            for source in 0..3 {
                send(&mut rig, ns, source, &[ns + source as u64]);
            }
            send(&mut rig, ns, 3, &[wrong(ns)]);
            rig.poll(ns);
        }
        let status = rig.builder.status();
        let of_sources: Vec<bool> = status.sources.iter().map(|one| one.out_of_step).collect();
        assert_eq!(of_sources, [false, false, false, true]);
        assert_eq!(status.open_events, 0, "nobody waits for it");
        rig.finish(6_001 * MS);
        let of_others = rig.rows.values().filter(|row| row.present() >= 3).count();
        assert_eq!(of_others, 4_000);
        assert!((0..3).all(|source| rig.count(source, Entry::FragmentsMissing) < 10));
    }
}

#[test]
fn how_far_a_clock_is_off_is_what_it_says_now() {
    // A restart, ahead and behind by more than any jump that is believed, and by less.
    let begin = 2_001 * MS;
    for (name, seconds) in [("restarts", -300), ("120 s ahead", 120), ("20 s back", -20), ("", 1)] {
        let expected_ns = seconds * S.cast_signed();
        let mut rig = rig(3, 1_000, |_| {});
        let mut said = 0;
        for event in 0..2_000 {
            let now = begin + event * 10 * MS;
            let on_clock = 300 * S + event * 10 * MS;
            for source in 0..3 {
                let is_wrong = source == 1 && event >= 300;
                let ns = on_clock.saturating_add_signed(if is_wrong { expected_ns } else { 0 });
                send(&mut rig, now, source, &[ns + source as u64]);
            }
            for late in 1..10 {
                rig.poll(now + late * MS);
                let Some(astray) = rig.builder.status().sources[1].astray else { continue };
                let Astray::Clock { ahead_ns } = astray else { panic!("{name}: {astray}") };
                assert!(ahead_ns.abs_diff(expected_ns) < 100 * MS, "{name}: {astray}");
                said += 1;
            }
        }
        assert!(said > 1_000, "{name}: it was said {said} times");
    }
}

/// A crystal that is 1 ppm off is a microsecond off after a second, and more later on.
#[test]
fn a_clock_that_drifts_is_matched_within_the_window_and_named_in_the_counters_beyond_it() {
    for sign in [1, -1] {
        let mut rig = rig(3, 1_000, |time| {
            (time.coincidence, time.unmatched) = (2, Unmatched::Count);
        });
        for event in 1..=3_000_u64 {
            let now = event * MS;
            send(&mut rig, now, 0, &[now]);
            send(&mut rig, now, 1, &[now]);
            send(&mut rig, now, 2, &[now.wrapping_add_signed(sign * event.cast_signed())]);
            rig.poll(now);
        }
        assert!(!rig.builder.status().sources[2].out_of_step, "it is far less off than `skew`");
        rig.finish(3_001 * MS);
        assert_eq!((rig.rows.len(), rig.complete(), rig.lost()), (3_000, 1_000, 0));
        let counts = [Entry::FragmentsMissing, Entry::FragmentsDiscardedUnmatched];
        let of_sources = [0, 1, 2].map(|source| counts.map(|entry| rig.count(source, entry)));
        assert_eq!(of_sources, [[0, 0], [0, 0], [2_000, 2_000]]);
    }
}

/// Before all clocks are known, packets are held; one that comes twice says nothing new of a clock.
#[test]
fn a_packet_that_comes_twice_before_clocks_are_known_costs_nothing() {
    let mut rig = rig(3, 100, |_| {});
    for ns in (1..=1_500).map(|event| event * MS) {
        // The third is not heard before the others have waited for a time-out.
        if ns > 1_200 * MS {
            send(&mut rig, ns, 2, &[ns]);
        }
        events(&mut rig, &[0, 1], [ns]);
        if ns % (5 * MS) == 0 {
            send(&mut rig, ns, 0, &[ns - 2 * MS]);
        }
    }
    rig.finish(1_501 * MS);
    assert_eq!((rig.complete(), rig.rows.len(), rig.lost()), (300, 1_500, 0));
    assert_eq!(rig.count(0, Entry::FragmentsDuplicate), 300);
}

/// A source that repeats its time is not silent, but has nothing more for the events that wait.
#[test]
fn a_slow_source_whose_clock_is_stuck_costs_one_time_out() {
    let mut rig = rig(3, 100, |_| {});
    for ns in (1..=3_000).map(|event| event * MS) {
        events(&mut rig, &[0, 1], [ns]);
        if ns % (100 * MS) == 0 {
            // Its clock stops after half a second.
            send(&mut rig, ns, 2, &[ns.min(500 * MS)]);
        }
        rig.poll(ns);
        let open = rig.builder.status().open_events;
        assert!(open <= 1_000 + 1_000 / 64 + 100, "{open} events wait at {} ms", ns / MS);
        let named = rig.builder.status().sources[2].out_of_step;
        assert_eq!(named, ns >= 1_500 * MS, "at {} ms", ns / MS);
    }
    let status = rig.builder.status();
    assert_eq!((status.open_events, status.sources[2].out_of_step), (0, true));
    rig.finish(3_001 * MS);
    // It was in five events; what it said from then on is one time.
    assert_eq!((rig.complete(), rig.rows.len()), (5, 3_000));
    assert_eq!(rig.count(2, Entry::FragmentsDuplicate), 25);
}

/// Out of step is out of step: another clock than before does not begin the time-out again.
#[test]
fn a_clock_that_is_slow_and_then_jumps_costs_one_time_out() {
    let mut rig = rig(3, 100, |_| {});
    for ns in (1..=3_000).map(|event| event * MS) {
        events(&mut rig, &[0, 1], [ns]);
        // A fifth of its speed after half a second, so that it is out of step by half a second
        // after another 625 ms; and then 3 s ahead.
        let slow = ns.min(500 * MS) + ns.saturating_sub(500 * MS) / 5;
        let ahead = if ns < 1_900 * MS { 0 } else { 3 * S };
        send(&mut rig, ns, 2, &[slow + ahead]);
        rig.poll(ns);
        let status = rig.builder.status();
        let (open, named) = (status.open_events, status.sources[2].out_of_step);
        assert!(ns >= 2_100 * MS || !named, "at {} ms", ns / MS);
        assert!(ns < 2_150 * MS || named && open <= 10, "{open} at {} ms", ns / MS);
    }
    rig.finish(3_001 * MS);
    let of_first = rig.rows.values().filter(|row| row.fragments[0].is_some());
    assert_eq!(of_first.count(), 3_000);
}

#[test]
fn a_clock_that_is_stuck_from_the_start_costs_one_time_out() {
    let mut rig = rig(3, 100, |_| {});
    for ns in (1..=1_500).map(|event| event * MS) {
        events(&mut rig, &[0, 1], [ns]);
        send(&mut rig, ns, 2, &[MS]);
        rig.poll(ns);
        let status = rig.builder.status();
        let built = status.events_complete + status.events_incomplete;
        assert!(ns < 1_050 * MS || built >= ns / MS - 1, "{built} events at {} ms", ns / MS);
    }
    rig.finish(1_501 * MS);
    assert_eq!((rig.complete(), rig.rows.len()), (1, 1_500));
}

/// What the second of two sources sends at a time, and the events that still have both.
type Partner = (&'static str, fn(u64) -> Option<u64>, usize);

#[test]
fn a_partner_that_never_agrees_costs_the_other_source_nothing() {
    let partners: [Partner; 4] = [
        ("stuck", |_| Some(MS), 1),
        ("dead after two", |ns| (ns <= 2 * MS).then_some(ns), 2),
        ("every ten seconds", |ns| (ns % (10 * S) == 500 * MS).then_some(ns), 1),
        ("off", |ns| Some(ns + 3_600 * S), 0),
    ];
    for (name, partner, both) in partners {
        let mut rig = rig(2, 100, |_| {});
        for ns in (1..=5_000).map(|event| event * MS) {
            send(&mut rig, ns, 0, &[ns]);
            send(&mut rig, ns, 1, &partner(ns).into_iter().collect::<Vec<_>>());
            rig.poll(ns);
            // Two time-outs until the run starts at the latest, and one in which it is awaited.
            let status = rig.builder.status();
            let built = status.events_complete + status.events_incomplete;
            assert!(ns < 3_050 * MS || built >= ns / MS - 1, "{name}: {built} at {} ms", ns / MS);
        }
        rig.finish(5_001 * MS);
        let of_first = rig.rows.values().filter(|row| row.fragments[0].is_some());
        assert_eq!((of_first.count(), rig.complete()), (5_000, both), "{name}");
        assert_eq!(rig.count(0, Entry::FragmentsOutOfRange), 0, "{name}");
    }
}

/// One clock that says nothing is not held until the end of the run.
#[test]
fn what_a_stuck_clock_says_alone_is_held_for_two_time_outs() {
    let mut rig = rig(2, 100, |_| {});
    for ns in (1..=2_100).map(|event| event * MS) {
        send(&mut rig, ns, 0, &[MS]);
        rig.poll(ns);
    }
    assert!(rig.count(0, Entry::FragmentsOutOfRange) >= 2_000);
    assert!(rig.builder.status().sources[0].out_of_step);
}

/// The last two are closest, so that they say what the time is: the first is not far from them.
#[test]
fn of_two_sets_of_clocks_the_closest_says_what_the_time_is() {
    let mut rig = rig(3, 100, |_| {});
    for ns in (1..=3_000).map(|event| event * MS) {
        for (source, ahead_ns) in [0, 450 * MS, 650 * MS].into_iter().enumerate() {
            send(&mut rig, ns, source, &[ns + ahead_ns]);
        }
        rig.poll(ns);
    }
    assert!(rig.builder.status().sources.iter().all(|source| !source.out_of_step));
    rig.finish(3_001 * MS);
    assert_eq!(rig.total(Entry::FragmentsOutOfRange), 0);
}

/// Times of short cycles are near any clock: near one that is about such a cycle ahead they are
/// wider apart.
#[test]
fn a_clock_that_is_ahead_takes_no_clocks_of_short_cycles_with_it() {
    let mut rig = rig(4, 100, |time| {
        (time.clocks[0].rate_hz, time.clocks[0].bits) = (125_000_000, 44);
        (time.clocks[2].bits, time.clocks[3].bits) = (32, 32);
    });
    let mask = (1 << 32) - 1;
    for event in 1..=3_000 {
        let (now, ns) = (event * MS, 100 * S + event * MS);
        for (source, ticks) in
            [ns / 8, ns + 4_200 * MS, ns & mask, ns & mask].into_iter().enumerate()
        {
            send(&mut rig, now, source, &[ticks]);
        }
        rig.poll(now);
    }
    let status = rig.builder.status();
    assert!(status.sources[1].out_of_step && !status.sources[0].out_of_step);
    rig.finish(3_001 * MS);
    let others = [0, 2, 3].map(|source| rig.count(source, Entry::FragmentsOutOfRange));
    assert_eq!(others, [0; 3]);
    assert!(rig.rows.values().filter(|row| row.present() == 3).count() == 3_000);
}

/// The clock with the longest cycle is half an hour off or more. Those that agree beside it say in
/// which cycle the short one is: in the one that is nearest to that clock it is near nobody.
#[test]
fn a_long_clock_that_is_off_hides_no_short_one_from_those_that_agree() {
    for (count, off_ns) in [(4, 3_601 * S), (4, 7_201 * S), (3, 3_601 * S), (3, 7_201 * S)] {
        let mut rig = rig(count, 100, |time| {
            time.clocks[0].rate_hz = 125_000_000;
            time.clocks[1].bits = 32;
            time.unmatched = Unmatched::Count;
        });
        let mask = (1 << 32) - 1;
        let send_all = |rig: &mut Rig<TimeMatcher>, now: u64, time_ns: u64| {
            send(rig, now, 0, &[(now + off_ns) / 8]);
            send(rig, now, 1, &[time_ns & mask]);
            (2..count).for_each(|source| send(rig, now, source, &[time_ns]));
            rig.poll(now);
        };
        for now in (1..=100).map(|event| event * MS) {
            send_all(&mut rig, now, now + 5_400 * S);
        }
        let status = rig.builder.status();
        assert!(status.events_incomplete >= 99, "the run has begun");
        // They are all set, and it is not: most agree at once.
        for now in (101..=200).map(|event| event * MS) {
            send_all(&mut rig, now, now + 9_002 * S);
        }
        let restarts = rig.builder.status().restarts_followed;
        assert_eq!(restarts, 1, "{count} sources, {off_ns} ns off");
        rig.finish(201 * MS);
        let whole = rig.rows.values().filter(|row| row.present() == count - 1).count();
        assert_eq!((whole, rig.rows.len()), (200, 200), "{count} sources, {off_ns} ns off");
        assert_eq!(rig.lost(), rig.count(0, Entry::FragmentsOutOfRange));
    }
}

/// Less than `skew` at once, and more than that together; or more at once.
#[test]
fn of_two_clocks_one_that_is_set_back_takes_the_other_with_it_no_more_and_both_are_named() {
    for (wrong, back_ns) in [(0, 400 * MS), (1, 400 * MS), (0, 5 * S), (1, 5 * S)] {
        let mut rig = rig(2, 100, |time| time.unmatched = Unmatched::Count);
        let right = 1 - wrong;
        for ns in (10_001..=18_000).map(|event| event * MS) {
            let set_back = [11_000 * MS, 13_000 * MS].into_iter().filter(|at| ns >= *at).count();
            send(&mut rig, ns, wrong, &[ns - set_back as u64 * back_ns]);
            send(&mut rig, ns, right, &[ns]);
            rig.poll(ns);
        }
        let sources = rig.builder.status().sources;
        let named = [wrong, right].map(|source| sources[source].astray);
        let [Some(Astray::OneOfTwo { ahead_ns }), Some(Astray::OneOfTwo { ahead_ns: of_other })] =
            named
        else {
            panic!("{wrong}, {back_ns}: {named:?}")
        };
        assert!(ahead_ns < -700_000_000 && of_other == -ahead_ns, "{named:?}");
        let out_of_step = [wrong, right].map(|source| sources[source].out_of_step);
        assert_eq!(out_of_step, [true, false], "{wrong}, {back_ns}");
        rig.finish(18_001 * MS);
        let of_right = rig.rows.values().filter(|row| row.fragments[right].is_some());
        assert_eq!(of_right.count(), 8_000, "{wrong}, {back_ns}");
    }
}

#[test]
fn in_a_run_that_ends_at_once_clocks_that_disagree_lose_one_source() {
    let mut rig = rig(2, 100, |time| time.unmatched = Unmatched::Count);
    for ns in (1..=100).map(|event| event * MS) {
        send(&mut rig, ns, 0, &[ns]);
        send(&mut rig, ns, 1, &[ns + 3_600 * S]);
        rig.poll(ns);
    }
    rig.finish(101 * MS);
    assert_eq!((rig.rows.len(), rig.lost()), (100, 100));
}

#[test]
fn when_most_clocks_are_set_the_others_follow_and_keys_rise() {
    for to in [5, 3_600 * S, 50 * S] {
        let mut rig = rig(3, 100, |_| {});
        events(&mut rig, &[0, 1, 2], (100_001..=100_100).map(|event| event * MS));
        for event in 1..=100_u64 {
            let now = (100_100 + event) * MS;
            for source in 0..3 {
                send(&mut rig, now, source, &[to + event * MS + source as u64]);
            }
            rig.poll(now);
        }
        rig.finish(200_000 * MS);
        assert_eq!((rig.complete(), rig.rows.len(), rig.lost()), (200, 200, 0), "to {to}");
        assert_eq!(rig.builder.status().restarts_followed, 1);
        assert_eq!(rig.total(Entry::NumberingRestarts), 3);
    }
}
