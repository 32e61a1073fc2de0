//! Several fragments of a source in one event of the time matcher.

use catchment_builder::{
    BuilderConfig, ClockConfig, ConfigError, Fragment, FragmentFlags, IncompletePolicy, Late,
    SourceRole, TimeConfig, TimeMatcher, Unmatched, WindowKind,
};
use catchment_fixtures::Random;
use catchment_model::{Entry, EventFlags};

use crate::support::{MS, Rig, Row, S};

/// Required sources of which an event has up to `fragments_max` fragments.
fn rig(
    count: usize,
    fragments_max: u32,
    change: impl FnOnce(&mut BuilderConfig, &mut TimeConfig),
) -> Rig<TimeMatcher> {
    let mut config = BuilderConfig::new(vec![SourceRole::Required; count]);
    let clocks = vec![ClockConfig::NS; count];
    let mut time = TimeConfig::new(100, clocks, config.timeout_ns);
    time.fragments_max = fragments_max;
    change(&mut config, &mut time);
    let matcher = TimeMatcher::new(&config, &time).expect("settings that can be");
    Rig::with_matcher(&config, matcher)
}

/// Sends a fragment whose packet is known to be new. Returns its offset.
fn send(rig: &mut Rig<TimeMatcher>, now_ns: u64, source: usize, ns: u64) -> u64 {
    let fragment = rig.fragment(source, 0, 100);
    let fragment = Fragment { number: ns, flags: FragmentFlags::SENT_ONCE, ..fragment };
    rig.push(now_ns, &[fragment]);
    fragment.offset
}

fn send_all(rig: &mut Rig<TimeMatcher>, now_ns: u64, source: usize, times: &[u64]) {
    for &ns in times {
        send(rig, now_ns, source, ns);
    }
}

/// The offsets of a source's fragments in a row, in the row's order.
pub(crate) fn offsets(row: &Row, source: usize) -> Vec<u64> {
    match &*row.pieces[source] {
        [] => row.fragments[source].iter().map(|(offset, _)| *offset).collect(),
        pieces => pieces.iter().map(|(offset, ..)| *offset).collect(),
    }
}

/// How many fragments of each source the rows have.
fn counts(rig: &Rig<TimeMatcher>) -> Vec<Vec<usize>> {
    let of_row = |row: &Row| (0..row.fragments.len()).map(|one| offsets(row, one).len()).collect();
    rig.rows.values().map(of_row).collect()
}

#[test]
fn an_event_has_one_to_65535_fragments_of_a_source() {
    let config = BuilderConfig::new(vec![SourceRole::Required]);
    let time = TimeConfig::new(100, vec![ClockConfig::NS], config.timeout_ns);
    for (fragments_max, can_be) in [(0, false), (1, true), (65_535, true), (65_536, false)] {
        let time = TimeConfig { fragments_max, ..time.clone() };
        let refused = TimeMatcher::new(&config, &time).err();
        let expected = ConfigError::Time {
            key: "fragments_max",
            expected: "1 to 65535".into(),
            got: fragments_max.to_string(),
        };
        assert_eq!(refused, (!can_be).then_some(expected));
    }
}

#[test]
fn two_packets_of_a_trigger_are_one_fragment_of_the_event_which_is_closed_at_once() {
    let mut rig = rig(2, 2, |_, time| time.openers = vec![true, false]);
    let mut sent = Vec::new();
    for now in (1..=10).map(|event| event * MS) {
        sent.push([send(&mut rig, now, 1, now + 5), send(&mut rig, now, 1, now + 40)]);
        send_all(&mut rig, now, 0, &[now, now + 1]);
        rig.poll(now);
    }
    rig.collect(11 * MS);
    let status = rig.builder.status();
    // Nothing that may come is of an event that is full.
    assert_eq!((status.events_complete, status.fragments_held), (10, 10 * 4));
    rig.finish(12 * MS);
    assert_eq!((rig.complete(), rig.lost()), (10, 0));
    assert_eq!(rig.rows.values().map(|row| offsets(row, 1)).collect::<Vec<_>>(), sent);
    let row = &rig.rows[&MS];
    assert_eq!(row.pieces[1], [(0, 100, MS + 5), (100, 100, MS + 40)]);
    assert_eq!(row.fragments[1], Some((0, 200)));
    assert_eq!(rig.count(1, Entry::FragmentsRecorded), 20);
    assert_eq!(rig.total(Entry::FragmentsReordered), 0);
}

#[test]
fn what_is_beyond_the_most_opens_the_next_event_or_is_a_row_of_its_own() {
    for opens in [true, false] {
        let mut rig = rig(2, 2, |_, time| time.openers = vec![true, opens]);
        for now in (1..=10).map(|event| event * MS) {
            send_all(&mut rig, now, 1, &[now + 5, now + 40, now + 41]);
            send_all(&mut rig, now, 0, &[now]);
            rig.poll(now);
        }
        rig.finish(S);
        assert_eq!(counts(&rig), [[1, 2], [0, 1]].repeat(10));
        let of_surplus = rig.rows.values().skip(1).step_by(2);
        let flags = if opens { EventFlags::INCOMPLETE } else { EventFlags::UNMATCHED };
        assert!(of_surplus.map(|row| row.flags).all(|found| found.contains(flags)));
        assert_eq!(rig.lost(), 0);
    }
}

#[test]
fn equal_times_are_pieces_if_their_packets_are_new_and_at_most_so_many() {
    for polls in [true, false] {
        let mut rig = rig(2, 2, |_, _| {});
        for now in (1..=100).map(|event| event * MS) {
            // The first two are an event, then two of the same time, and one too many.
            for ns in [now, now + 10, now + 10, now + 10] {
                send(&mut rig, now, 1, ns);
                send(&mut rig, now, 0, ns);
                if polls {
                    rig.poll(now);
                }
            }
            // It came twice, as far as anyone knows.
            let repeated = Fragment { number: now + 10, ..rig.fragment(1, 0, 100) };
            rig.push(now, &[repeated]);
        }
        rig.finish(S);
        assert_eq!(counts(&rig), [[2, 2], [1, 1]].repeat(100), "{polls}");
        assert_eq!(rig.count(1, Entry::FragmentsTimeRepeated), 100);
        assert_eq!(rig.count(1, Entry::FragmentsDuplicate), 100);
        assert_eq!(rig.total(Entry::FragmentsReordered), 0);
        assert!(rig.builder.status().sources.iter().all(|source| !source.out_of_step));
    }
}

#[test]
fn many_pieces_of_one_time_are_no_stuck_clock() {
    let mut rig = rig(2, 100, |_, _| {});
    for now in (1..=20).map(|event| event * MS) {
        send_all(&mut rig, now, 0, &[now; 60]);
        send(&mut rig, now, 1, now);
        rig.poll(now);
        assert!(!rig.builder.status().sources[0].out_of_step);
    }
    rig.finish(S);
    assert_eq!(counts(&rig), [[60, 1]].repeat(20));
    assert_eq!(rig.count(0, Entry::FragmentsRecorded), 1_200);
}

#[test]
fn a_piece_that_comes_after_its_event_is_closed_is_late_and_no_event_of_its_own() {
    for late in [Late::Count, Late::Keep] {
        let mut rig = rig(2, 3, |_, time| time.late = late);
        for now in (1..=50).map(|event| event * MS) {
            (0..2).for_each(|source| send_all(&mut rig, now, source, &[now, now + 20]));
            rig.poll(now);
            // Of the event before, which is closed since both have passed it; and that once more.
            if now == 50 * MS {
                send_all(&mut rig, now, 1, &[now - MS + 30, now - MS + 30]);
            }
        }
        rig.finish(S);
        let kept = usize::from(late == Late::Keep);
        assert_eq!(counts(&rig).len(), 50 + kept);
        assert_eq!(rig.complete(), 50);
        assert_eq!(rig.count(1, Entry::FragmentsLate), 1 - kept as u64);
        assert_eq!(rig.count(1, Entry::FragmentsTimeRepeated), 1);
    }
}

#[test]
fn each_piece_of_an_opener_moves_the_end_up_to_the_longest_span() {
    let mut rig = rig(2, 9, |_, time| {
        (time.kind, time.span_ns_max) = (WindowKind::Gap, 250);
    });
    for now in (1..=50).map(|event| event * MS) {
        // 90 ns from one to the next: what is behind the span is the next event.
        let times: Vec<u64> = (0..4).map(|piece| now + 90 * piece).collect();
        send_all(&mut rig, now, 0, &times);
        send_all(&mut rig, now, 1, &[now + 240]);
        rig.poll(now);
    }
    rig.finish(S);
    assert_eq!(counts(&rig), [[3, 1], [1, 0]].repeat(50));
    assert_eq!(rig.builder.status().events_capped, 50);
}

#[test]
fn events_that_are_dropped_are_dropped_with_all_their_pieces() {
    let mut rig = rig(2, 2, |config, _| config.incomplete = IncompletePolicy::Drop);
    for event in 1..=40 {
        let now = event * MS;
        send_all(&mut rig, now, 0, &[now, now + 3]);
        // Every fourth event lacks it, and every third has one piece.
        if event % 4 > 0 {
            send_all(&mut rig, now, 1, &[now + 1, now + 2][..1 + usize::from(event % 3 > 0)]);
        }
        if event % 10 == 0 {
            rig.poll(now);
        }
    }
    rig.finish(S);
    assert_eq!((rig.complete(), rig.rows.len()), (30, 30));
    assert_eq!(rig.count(0, Entry::FragmentsDiscardedIncomplete), 20);
    for (key, row) in &rig.rows {
        let times: Vec<u64> = row.pieces[0].iter().map(|piece| piece.2).collect();
        assert_eq!(times, [*key, key + 3]);
    }
}

#[test]
fn a_piece_with_another_tag_than_its_event_is_counted() {
    let mut rig = rig(2, 3, |_, _| {});
    for now in (1..=10).map(|event| event * MS) {
        for (source, ns, tag) in [(0, 0, 7), (0, 1, 7), (0, 2, 8), (1, 0, 7)] {
            let fragment = rig.fragment(source, 0, 100);
            rig.push(now, &[Fragment { number: now + ns, tag, ..fragment }]);
        }
        rig.poll(now);
    }
    rig.finish(S);
    assert!(rig.rows.values().all(|row| row.flags.contains(EventFlags::TAG_MISMATCH)));
    assert_eq!(
        (rig.count(0, Entry::FragmentsBadTag), rig.count(1, Entry::FragmentsBadTag)),
        (10, 0)
    );
}

#[test]
fn by_time_a_source_without_tags_is_compared_with_no_other_one() {
    let mut rig = rig(3, 2, |_, _| {});
    for now in (1..=10).map(|event| event * MS) {
        for (source, tag, flags) in [(0, 0, FragmentFlags::UNTAGGED), (1, 7, 0), (2, 7, 0)] {
            let fragment = rig.fragment(source, 0, 100);
            let number = now + source as u64;
            rig.push(now, &[Fragment { number, tag, flags, ..fragment }]);
        }
        rig.poll(now);
    }
    rig.finish(S);
    assert_eq!(rig.complete(), 10);
    assert!(rig.rows.values().all(|row| row.flags == EventFlags::default()));
    assert_eq!([0, 1, 2].map(|source| rig.count(source, Entry::FragmentsBadTag)), [0; 3]);
}

/// What every interleaving comes to: of each source the times and offsets that it sent, in the
/// order of time; and rows by key, with the offsets of each source's fragments.
pub(crate) fn sorted_and_grouped(
    sent: &[Vec<(u64, u64)>],
    time: &TimeConfig,
) -> Vec<(u64, Vec<Vec<u64>>)> {
    let mut heads = vec![0; sent.len()];
    let mut rows: Vec<(u64, Vec<Vec<u64>>)> = Vec::new();
    loop {
        let head = |source: usize| sent[source].get(heads[source]).map(|(ns, _)| *ns);
        let lowest = |opens: bool| {
            let those = (0..sent.len()).filter(|&source| time.opens(source) == opens);
            those.filter_map(|source| Some((head(source)?, source))).min()
        };
        let (anchor, other) = (lowest(true), lowest(false));
        let is_lone = |ns: u64| anchor.is_none_or(|(anchor_ns, _)| ns + time.before_ns < anchor_ns);
        let (first_ns, alone) = match (anchor, other) {
            (_, Some((ns, source))) if is_lone(ns) => (ns, Some(source)),
            (Some((ns, _)), _) => (ns, None),
            (None, _) => return rows,
        };
        let most = time.fragments_max as usize;
        let mut end_ns = first_ns + time.window_ns;
        if time.kind == WindowKind::Gap {
            let openers = (0..sent.len()).filter(|&source| time.opens(source));
            let mut times: Vec<u64> = openers
                .flat_map(|source| sent[source][heads[source]..].iter().take(most))
                .map(|(ns, _)| *ns)
                .collect();
            times.sort_unstable();
            for ns in times {
                if ns <= end_ns {
                    end_ns = (ns + time.window_ns).min(first_ns + time.span_ns_max);
                }
            }
        }
        let mut row = vec![Vec::new(); sent.len()];
        for (source, row) in row.iter_mut().enumerate() {
            let rest = sent[source][heads[source]..].iter();
            let taken = match alone {
                Some(one) => rest.take(usize::from(one == source)).map(|one| one.1).collect(),
                None => {
                    rest.take(most).take_while(|one| one.0 <= end_ns).map(|one| one.1).collect()
                }
            };
            *row = taken;
            heads[source] += row.len();
        }
        let after = rows.last().map_or(0, |(key, _)| key + 1);
        rows.push((first_ns.max(after), row));
    }
}

#[test]
fn random_histories_come_to_what_sorting_everything_gives() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let count = [1, 2, 3, 9, 100][random.below(5) as usize];
        let most = [1, 2, 3, 8, 65_535][random.below(5) as usize];
        let mut time = None;
        let mut rig = rig(count, most, |config, new| {
            config.parked_max = 1 << 20;
            new.window_ns = [100, 10_000, MS][random.below(3) as usize];
            new.kind = [WindowKind::First, WindowKind::Gap][random.below(2) as usize];
            new.span_ns_max = new.window_ns * (1 + random.below(8));
            if random.chance(400) {
                new.openers = (0..count).map(|one| one == 0 || random.chance(300)).collect();
                new.before_ns = random.below(2 * new.window_ns);
            }
            for clock in &mut new.clocks {
                clock.reorder_ns = [0, 20 * MS][random.below(2) as usize];
            }
            time = Some(new.clone());
        });
        let time = time.expect("the settings");
        let events = (2_000 / count as u64).max(12);
        let apart_ns = 1 + random.below(4 * time.window_ns);
        let spread_ns = 1 + random.below(2 * time.window_ns);
        let mut arrivals = Vec::new();
        for source in 0..count {
            let (delay_ns, reorder_ns) = (random.below(50 * MS), time.clocks[source].reorder_ns);
            let mut times = Vec::new();
            for event in 0..events {
                let pieces = if random.chance(700) { 1 } else { random.below(6) };
                let ns = S + event * apart_ns;
                times.extend((0..pieces).map(|_| ns + random.below(spread_ns)));
                // Some have the same time.
                if let Some(&last) = times.last().filter(|_| random.chance(200)) {
                    times.push(last);
                }
            }
            times.sort_unstable();
            let (mut last, mut equal) = (0, 0);
            times.retain(|&ns| {
                (last, equal) = if ns == last { (last, equal + 1) } else { (ns, 1) };
                equal <= most
            });
            let mut at_ns = 0;
            for ns in times {
                let scatter_ns = if reorder_ns > 0 { random.below(10 * MS) } else { 0 };
                let own_ns = ns + delay_ns + scatter_ns;
                // In order, unless it reorders.
                at_ns = if reorder_ns > 0 { own_ns } else { own_ns.max(at_ns) };
                arrivals.push((at_ns, source, ns));
            }
        }
        arrivals.sort_by_key(|&(at_ns, ..)| at_ns);
        let mut sent = vec![Vec::new(); count];
        for (at_ns, source, ns) in arrivals {
            sent[source].push((ns, send(&mut rig, at_ns, source, ns)));
            if random.chance(300) {
                rig.poll(at_ns);
            }
        }
        sent.iter_mut().for_each(|sent| sent.sort_by_key(|&(ns, _)| ns));
        rig.finish(100 * S);
        let expected = sorted_and_grouped(&sent, &time);
        for ((&key, row), (anchor, of_sources)) in rig.rows.iter().zip(&expected) {
            let found: Vec<Vec<u64>> = (0..count).map(|source| offsets(row, source)).collect();
            assert_eq!(
                (key, &found),
                (*anchor, of_sources),
                "seed {seed}, {count} sources, {time:?}"
            );
        }
        assert_eq!((rig.rows.len(), rig.lost()), (expected.len(), 0), "seed {seed}");
    }
}

#[test]
fn whatever_sources_send_the_ledger_balances() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let count = 1 + random.below(5) as usize;
        let mut rig = rig(count, 1 + random.below(4) as u32, |config, time| {
            time.window_ns = 1 + random.below(2 * MS);
            time.span_ns_max = 4 * time.window_ns;
            time.kind = [WindowKind::First, WindowKind::Gap][random.below(2) as usize];
            time.unmatched = [Unmatched::Keep, Unmatched::Count][random.below(2) as usize];
            time.late = [Late::Keep, Late::Count][random.below(2) as usize];
            time.coincidence = 1 + random.below(count.min(2) as u64) as u32;
            config.frame_bytes = 1 + random.below(5_000);
            config.parked_max = 20 + random.below(100) as usize;
            config.waiting_bytes_max = 1_000 + random.below(20_000);
        });
        let mut now = S;
        for _ in 0..2_000 {
            now += random.below(MS);
            let source = random.below(count as u64) as usize;
            match random.below(300) {
                0 => now += random.below(3 * S),
                1 => rig.builder.set_recording(random.chance(700)),
                _ => {}
            }
            for _ in 0..random.below(4) {
                let ns = (now - random.below(MS)) / 50_000 * 50_000;
                let flags = if random.chance(800) { FragmentFlags::SENT_ONCE } else { 0 };
                let fragment = rig.fragment(source, 0, random.below(300) as u32);
                rig.push(now, &[Fragment { number: ns, flags, ..fragment }]);
            }
            if random.chance(500) {
                rig.poll(now);
            }
        }
        rig.finish(now);
    }
}
