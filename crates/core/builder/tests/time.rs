//! The time matcher: the model that every building rule is held to, and what only this rule does.

use crate::conformance::{Limits, Owned, Rule, balances_whatever_comes, does_what_the_model_does};
use crate::support::{MS, Rig, S};
use catchment_builder::{
    BuilderConfig, ClockConfig, Fragment, FragmentFlags, Late, SourceRole, TimeConfig, TimeMatcher,
    Unmatched, WindowKind,
};
use catchment_fixtures::Random;
use catchment_model::{Entry, EventFlags};

struct ByTime;

/// Nanoseconds between events on the boards' clocks, and how far sources differ.
const APART: u64 = 100_000;
const JITTER: u64 = 70;

impl Rule for ByTime {
    type Matcher = TimeMatcher;

    const COUNTS_ABSENT: bool = false;

    fn matcher(config: &BuilderConfig, limits: &Limits) -> TimeMatcher {
        let reorder_ns = (limits.reorder_events * APART).min(config.timeout_ns / 4);
        let clock = ClockConfig { reorder_ns, ..ClockConfig::NS };
        let clocks = vec![clock; config.sources.len()];
        let mut time = TimeConfig::new(10 * JITTER, clocks, config.timeout_ns);
        // These clocks are slower than this machine's: their lead falls all the time.
        time.skew_ns = 3_600 * S;
        time.rows_max = limits.window_events;
        TimeMatcher::new(config, &time).expect("settings that can be")
    }

    fn number(event: u64, source: usize) -> u64 {
        10 * APART + event * APART + (event * 31 + source as u64 * 17) % JITTER
    }

    fn event(key: u64) -> u64 {
        key / APART - 10
    }
}

#[test]
fn within_the_limits_the_time_matcher_does_what_the_model_does() {
    does_what_the_model_does::<ByTime>(Owned::All);
}

#[test]
fn beyond_all_limits_its_ledger_balances_at_every_step() {
    balances_whatever_comes::<ByTime>();
}

/// A rig of required sources with clocks that count nanoseconds in 64 bits.
pub(crate) fn rig(
    count: usize,
    window_ns: u64,
    change: impl FnOnce(&mut TimeConfig),
) -> Rig<TimeMatcher> {
    rig_of(vec![SourceRole::Required; count], window_ns, change)
}

pub(crate) fn rig_of(
    roles: Vec<SourceRole>,
    window_ns: u64,
    change: impl FnOnce(&mut TimeConfig),
) -> Rig<TimeMatcher> {
    let config = BuilderConfig::new(roles);
    let clocks = vec![ClockConfig::NS; config.sources.len()];
    let mut time = TimeConfig::new(window_ns, clocks, config.timeout_ns);
    change(&mut time);
    let matcher = TimeMatcher::new(&config, &time).expect("settings that can be");
    Rig::with_matcher(&config, matcher)
}

pub(crate) fn send(rig: &mut Rig<TimeMatcher>, now_ns: u64, source: usize, times: &[u64]) {
    let fragments: Vec<Fragment> = times
        .iter()
        .map(|&ticks| {
            let mut fragment = rig.fragment(source, 0, 100);
            fragment.number = ticks;
            fragment
        })
        .collect();
    rig.push(now_ns, &fragments);
}

/// Sends and polls at the time of the event itself.
pub(crate) fn events(
    rig: &mut Rig<TimeMatcher>,
    sources: &[usize],
    times: impl IntoIterator<Item = u64>,
) {
    for ns in times {
        for &source in sources {
            send(rig, ns, source, &[ns + source as u64]);
        }
        rig.poll(ns);
    }
}

#[test]
fn an_event_in_which_all_delivered_is_closed_at_once() {
    let mut rig = rig(3, 100, |_| {});
    events(&mut rig, &[0, 1, 2], (1..=10).map(|event| event * MS));
    rig.collect(11 * MS);
    let status = rig.builder.status();
    assert_eq!((status.events_complete, status.fragments_held), (10, 10 * 3));
    rig.finish(12 * MS);
    assert_eq!(
        rig.rows.keys().copied().collect::<Vec<_>>(),
        (1..=10).map(|e| e * MS).collect::<Vec<_>>()
    );
    assert_eq!(rig.complete(), 10);
}

#[test]
fn a_dead_source_costs_one_time_out_and_a_repeated_fragment_is_counted() {
    let mut rig = rig(3, 100, |_| {});
    events(&mut rig, &[0, 1, 2], (1..=100).map(|event| event * MS));
    for ns in (101..=2_500).map(|event| event * MS) {
        events(&mut rig, &[0, 1], [ns]);
        send(&mut rig, ns, 0, &[ns]);
        if ns < 1_100 * MS {
            assert!(rig.builder.status().events_complete <= 100, "events wait for it");
        }
    }
    rig.poll(2_500 * MS);
    let status = rig.builder.status();
    assert_eq!((status.events_incomplete, status.open_events), (2_400, 0));
    assert_eq!(rig.count(0, Entry::FragmentsDuplicate), 2_400);
    // It is back, and events wait for it again.
    events(&mut rig, &[0, 1, 2], (2_501..=2_600).map(|event| event * MS));
    rig.finish(2_601 * MS);
    assert_eq!((rig.complete(), rig.lost()), (200, 0));
    assert_eq!(rig.count(2, Entry::FragmentsMissing), 2_400);
}

#[test]
fn a_reference_defines_events_and_what_is_near_none_is_a_row_of_its_own_or_counted() {
    for unmatched in [Unmatched::Keep, Unmatched::Count] {
        let mut rig = rig(3, 50, |time| {
            time.openers = vec![true, false, false];
            (time.before_ns, time.unmatched) = (200, unmatched);
        });
        for event in 1..=100_u64 {
            let now = event * MS;
            send(&mut rig, now, 1, &[now - 200]);
            send(&mut rig, now, 0, &[now]);
            send(&mut rig, now, 2, &[now + 50, now + 51]);
            rig.poll(now);
        }
        rig.finish(S);
        assert_eq!(rig.complete(), 100);
        let alone = rig.rows.values().filter(|row| row.flags == EventFlags::UNMATCHED);
        match unmatched {
            Unmatched::Keep => {
                let alone: Vec<_> = alone.collect();
                assert_eq!((alone.len(), rig.count(2, Entry::FragmentsUnmatched)), (100, 100));
                let nobody_is_absent = |row: &&_| {
                    let row: &crate::support::Row = row;
                    row.present() == 1 && !row.expected[0] && !row.expected[1]
                };
                assert!(alone.iter().all(nobody_is_absent));
                assert_eq!(rig.total(Entry::FragmentsMissing), 0);
            }
            Unmatched::Count => {
                assert_eq!((alone.count(), rig.rows.len()), (0, 100));
                assert_eq!(rig.count(2, Entry::FragmentsDiscardedUnmatched), 100);
                assert_eq!(rig.lost(), 0);
            }
        }
    }
}

#[test]
fn so_many_sources_within_the_window_are_an_event() {
    let mut rig = rig(4, 100, |time| {
        (time.coincidence, time.unmatched) = (2, Unmatched::Count);
    });
    for event in 1..=100_u64 {
        let now = event * MS;
        // Noise of one, then an event of some.
        send(&mut rig, now, 3, &[now - 500]);
        for source in 0..1 + (event % 3) as usize {
            send(&mut rig, now, source, &[now]);
        }
        rig.poll(now);
    }
    rig.finish(S);
    let of_two = (1..=100).filter(|event| event % 3 > 0).count();
    assert_eq!(rig.rows.len(), of_two);
    assert_eq!(rig.count(3, Entry::FragmentsDiscardedUnmatched), 100);
    assert_eq!(rig.count(0, Entry::FragmentsDiscardedUnmatched), (100 - of_two) as u64);
}

#[test]
fn gaps_chain_fragments_up_to_the_longest_span() {
    let mut rig = rig(5, 100, |time| {
        (time.kind, time.span_ns_max) = (WindowKind::Gap, 250);
    });
    for event in 1..=50_u64 {
        let now = event * MS;
        // 90 ns from one to the next: the last is beyond the span.
        for source in 0..4 {
            send(&mut rig, now, source, &[now + 90 * source as u64]);
        }
        rig.poll(now);
    }
    rig.finish(S);
    let present: Vec<usize> = rig.rows.values().map(|row| row.present()).collect();
    assert_eq!(present, [3, 1].repeat(50));
}

#[test]
fn late_fragments_are_counted_or_rows_of_their_own() {
    for late in [Late::Count, Late::Keep] {
        let mut rig = rig(3, 100, |time| time.late = late);
        events(&mut rig, &[0, 1, 2], (1..=100).map(|event| event * MS));
        // The third falls silent, and comes again with what it had.
        events(&mut rig, &[0, 1], (101..=1_500).map(|event| event * MS));
        // Its packet comes twice.
        send(&mut rig, 1_500 * MS, 2, &[1_200 * MS, 1_200 * MS]);
        events(&mut rig, &[0, 1, 2], (1_501..=1_510).map(|event| event * MS));
        rig.finish(1_511 * MS);
        let rows = rig.rows.values().filter(|row| row.flags.contains(EventFlags::LATE)).count();
        let counted = rig.count(2, Entry::FragmentsLate);
        assert_eq!((rows, counted), if late == Late::Keep { (1, 0) } else { (0, 1) });
        assert_eq!(rig.count(2, Entry::FragmentsDuplicate), 1);
    }
}

/// It is behind all times that are remembered of the fragments that were taken.
#[test]
fn a_late_fragment_that_comes_twice_is_recorded_once_however_late_it_is() {
    let mut rig = rig(2, 100, |time| time.late = Late::Keep);
    for event in 1..=1_500_u64 {
        let sources: &[usize] = if event == 50 { &[0] } else { &[0, 1] };
        events(&mut rig, sources, [event * MS / 10]);
    }
    send(&mut rig, 150 * MS, 1, &[5 * MS + 1, 5 * MS + 1]);
    rig.finish(151 * MS);
    let late = rig.rows.values().filter(|row| row.flags.contains(EventFlags::LATE));
    assert_eq!((late.count(), rig.count(1, Entry::FragmentsDuplicate)), (1, 1));
}

/// It sends to the port of the first source, with times that fit and are late.
#[test]
fn a_stranger_whose_fragments_are_late_does_not_become_the_sources_sender() {
    for late in [Late::Count, Late::Keep] {
        let mut rig = rig(2, 100, |time| time.late = late);
        for event in 1..=200_u64 {
            events(&mut rig, &[0, 1], [event * MS]);
            if event > 100 {
                let mut stranger = rig.fragment(0, 0, 100);
                (stranger.number, stranger.flags) =
                    ((event - 50) * MS + 7, FragmentFlags::OTHER_SENDER);
                rig.push(event * MS, &[stranger]);
                assert!(!rig.builder.status().sources[0].other_sender, "{late:?}: {event}");
            }
        }
        rig.finish(201 * MS);
        let counts = [Entry::FragmentsLate, Entry::FragmentsForeign, Entry::FragmentsUnmatched];
        assert_eq!(counts.map(|entry| rig.count(0, entry)), [0, 100, 0], "{late:?}");
        assert_eq!((rig.rows.len(), rig.complete(), rig.lost()), (200, 200, 0), "{late:?}");
    }
}

#[test]
fn when_nobody_delivers_the_last_events_close_after_two_time_outs() {
    let mut rig = rig(3, 100, |_| {});
    events(&mut rig, &[0, 1, 2], (1..=100).map(|event| event * MS));
    events(&mut rig, &[0, 1], [101 * MS]);
    rig.poll(2_000 * MS);
    assert_eq!(rig.builder.status().events_incomplete, 0);
    rig.poll(2_102 * MS);
    assert_eq!(rig.builder.status().events_timed_out, 1);
    // A pause of all is no silence of one: the first that comes again does not close events.
    events(&mut rig, &[0], [10_000 * MS]);
    events(&mut rig, &[1, 2], [10_000 * MS]);
    rig.finish(10_001 * MS);
    assert_eq!(rig.complete(), 101);
}

#[test]
fn events_do_not_wait_longer_than_its_lag_for_a_sparse_source() {
    let roles = vec![SourceRole::Required, SourceRole::Required, SourceRole::Sparse];
    let mut rig = rig_of(roles, 100, |time| time.clocks[2].lag_ns = 20 * MS);
    for ns in (1..=1_000).map(|event| event * MS) {
        for source in 0..2 {
            send(&mut rig, ns, source, &[ns]);
        }
        // Now and then, and 10 ms later.
        if ns % (100 * MS) == 60 * MS {
            send(&mut rig, ns, 2, &[ns - 10 * MS]);
        }
        rig.poll(ns);
        let status = rig.builder.status();
        assert!(status.open_events <= 22, "{}", status.open_events);
    }
    rig.finish(1_001 * MS);
    let with_it = rig.rows.values().filter(|row| row.present() == 3).count();
    assert_eq!((with_it, rig.complete(), rig.lost()), (10, 1_000, 0));
}

#[test]
fn a_sparse_source_out_of_order_is_waited_for_as_its_clock_says() {
    let roles = vec![SourceRole::Required, SourceRole::Sparse];
    let mut rig = rig_of(roles, 100, |time| {
        (time.clocks[1].lag_ns, time.clocks[1].reorder_ns) = (20 * MS, 20 * MS);
    });
    for ns in (1..=1_000).map(|event| event * MS) {
        send(&mut rig, ns, 0, &[ns]);
        // Two at a time, 10 ms later, and the second one first.
        if ns % (100 * MS) == 50 * MS {
            send(&mut rig, ns, 1, &[ns - 10 * MS]);
        }
        rig.poll(ns);
        if ns % (100 * MS) == 52 * MS {
            send(&mut rig, ns, 1, &[ns - 13 * MS]);
        }
    }
    rig.finish(1_001 * MS);
    assert_eq!((rig.complete(), rig.lost()), (1_000, 0));
    assert_eq!(rig.rows.values().filter(|row| row.present() == 2).count(), 20);
}

#[test]
fn unwanted_events_are_dropped_and_their_own_times_with_them() {
    let mut rig = rig(2, 100, |_| {});
    events(&mut rig, &[0, 1], (1..=10).map(|event| event * MS));
    rig.builder.set_recording(false);
    events(&mut rig, &[0, 1], (11..=20).map(|event| event * MS));
    rig.builder.set_recording(true);
    events(&mut rig, &[0, 1], (21..=30).map(|event| event * MS));
    rig.builder.finish(31 * MS);
    let cut = rig.builder.cut(31 * MS, None).unwrap();
    let expected: Vec<u64> = (1..=10).chain(21..=30).map(|event| event * MS).collect();
    assert_eq!(cut.keys, expected);
    let of_second: Vec<u64> = expected.iter().map(|ns| ns + 1).collect();
    assert_eq!((&cut.columns[0].times, &cut.columns[1].times), (&expected, &of_second));
}

#[test]
fn what_is_in_no_event_is_wanted_by_its_time_and_not_by_its_key() {
    let mut rig = rig(3, 100, |time| {
        (time.openers, time.coincidence) = (vec![true, true, false], 2);
        time.before_ns = 50;
    });
    events(&mut rig, &[0, 1, 2], (1..=10).map(|event| event * MS));
    // The first one is within reach of the second, and its row comes behind that one's.
    send(&mut rig, 11 * MS, 2, &[11 * MS - 40]);
    send(&mut rig, 11 * MS, 0, &[11 * MS]);
    rig.builder.set_recording(false);
    rig.finish(12 * MS);
    assert_eq!((rig.complete(), rig.total(Entry::FragmentsUnmatched)), (10, 2));
    assert_eq!(rig.total(Entry::FragmentsDiscardedPaused), 0);
}

/// Sorts everything, and groups once: what every interleaving comes to.
fn sorted_and_grouped(sent: &[Vec<u64>], window_ns: u64) -> Vec<(u64, Vec<Option<u64>>)> {
    let mut heads = vec![0; sent.len()];
    let mut rows = Vec::new();
    loop {
        let head = |source: usize| sent[source].get(heads[source]).copied();
        let Some(anchor) = (0..sent.len()).filter_map(head).min() else { return rows };
        let of_source = |source: usize| head(source).filter(|&ns| ns <= anchor + window_ns);
        let row: Vec<Option<u64>> = (0..sent.len()).map(of_source).collect();
        (0..sent.len()).for_each(|source| heads[source] += usize::from(row[source].is_some()));
        rows.push((anchor, row));
    }
}

#[test]
fn random_histories_of_up_to_a_thousand_sources_come_to_what_sorting_everything_gives() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let count = [1, 2, 7, 40, 300, 1_000][(seed % 6) as usize];
        let window_ns = [100, 10_000, MS, 100 * MS][random.below(4) as usize];
        let bits = [32, 40, 48, 64][random.below(4) as usize];
        let first = random.next_u64() >> (70 - bits);
        let rate_hz = [1_000_000_000, 125_000_000, 333_333_333][random.below(3) as usize];
        let reorder_ns = [0, 20 * MS][random.below(2) as usize];
        let mut rig = rig(count, window_ns, |time| {
            for clock in &mut time.clocks {
                (clock.rate_hz, clock.bits, clock.reorder_ns) = (rate_hz, bits, reorder_ns);
            }
        });
        let events = (4_000 / count as u64).max(12);
        let apart_ns = 50_000 + random.below(5 * MS);
        // Times of the clock, in ticks, and when they arrive.
        let (mut sent, mut arrivals) = (vec![Vec::new(); count], Vec::new());
        let ns_of = |ticks: u64| (u128::from(ticks) * 1_000_000_000 / u128::from(rate_hz)) as u64;
        for (source, sent) in sent.iter_mut().enumerate() {
            let delay_ns = random.below(50 * MS);
            let mut last = 0;
            for event in 0..events {
                if random.chance(100) && event > 3 {
                    continue;
                }
                let ns = event * apart_ns + random.below(1 + window_ns.min(apart_ns / 2));
                let ticks = first + (u128::from(ns) * u128::from(rate_hz) / 1_000_000_000) as u64;
                if ticks <= last {
                    continue;
                }
                last = ticks;
                sent.push(ns_of(ticks));
                let scatter_ns = if reorder_ns > 0 { random.below(10 * MS) } else { 0 };
                let ticks = if bits == 64 { ticks } else { ticks & ((1 << bits) - 1) };
                arrivals.push((ns + delay_ns + scatter_ns, source, ticks));
            }
        }
        arrivals.sort_by_key(|&(at_ns, ..)| at_ns);
        for (at_ns, source, ticks) in arrivals {
            send(&mut rig, at_ns, source, &[ticks]);
            if random.chance(50) {
                rig.poll(at_ns);
            }
        }
        rig.finish(100 * S);
        let rows: Vec<(u64, Vec<bool>)> = rig
            .rows
            .iter()
            .map(|(&key, row)| (key, row.fragments.iter().map(Option::is_some).collect()))
            .collect();
        let expected = sorted_and_grouped(&sent, window_ns);
        assert_eq!(rows.len(), expected.len(), "seed {seed}, {count} sources");
        // Times are those of the reference's first cycle.
        let base = rows[0].0.wrapping_sub(expected[0].0);
        for ((key, row), (anchor, of_sources)) in rows.iter().zip(&expected) {
            let present: Vec<bool> = of_sources.iter().map(Option::is_some).collect();
            assert!(key.wrapping_sub(base).abs_diff(*anchor) <= 1, "{key} {anchor}, seed {seed}");
            assert_eq!(*row, present, "event {anchor}, seed {seed}, {count} sources");
        }
        assert_eq!(rig.lost(), 0, "seed {seed}");
    }
}

#[test]
fn whatever_clocks_do_the_ledger_balances_and_keys_rise() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let count = 1 + random.below(9) as usize;
        let roles = [SourceRole::Required, SourceRole::Optional, SourceRole::Sparse];
        let mut roles: Vec<_> = (0..count).map(|_| roles[random.below(3) as usize]).collect();
        roles[0] = SourceRole::Required;
        let mut rig = rig_of(roles, 1 + random.below(2 * MS), |time| {
            time.kind = [WindowKind::First, WindowKind::Gap][random.below(2) as usize];
            time.unmatched = [Unmatched::Keep, Unmatched::Count][random.below(2) as usize];
            time.late = [Late::Keep, Late::Count][random.below(2) as usize];
            if random.chance(500) {
                time.openers = (0..count).map(|index| index == 0 || random.chance(300)).collect();
                time.before_ns = random.below(3 * MS);
            }
            for clock in &mut time.clocks {
                clock.bits = [36, 48, 64][random.below(3) as usize];
                clock.rate_hz = [1_000_000_000, 125_000_000][random.below(2) as usize];
                clock.offset_ns = random.below(4 * MS).cast_signed() - 2 * MS as i64;
                clock.reorder_ns = [0, 100 * MS][random.below(2) as usize];
            }
        });
        let mut shift = vec![0_i64; count];
        let mut now = S;
        for _ in 0..2_000 {
            now += random.below(3 * MS);
            let source = random.below(count as u64) as usize;
            match random.below(300) {
                0 => shift[source] = random.next_u64().cast_signed() >> random.below(60),
                1 => shift.fill(random.next_u64().cast_signed() >> random.below(60)),
                2 => now += random.below(5 * S),
                3 => rig.builder.set_recording(random.chance(700)),
                4 => shift.fill(0),
                _ => {}
            }
            let times: Vec<u64> = (0..random.below(4))
                .map(|_| now.wrapping_add_signed(shift[source]).wrapping_sub(random.below(MS)))
                .collect();
            send(&mut rig, now, source, &times);
            if random.chance(500) {
                rig.poll(now);
            }
        }
        rig.finish(now);
    }
}
