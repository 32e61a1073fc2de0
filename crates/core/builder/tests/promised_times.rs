//! Front-ends in the time matcher: what their low-water marks, their silence and their clocks do.

use std::collections::{BTreeMap, BTreeSet};

use catchment_builder::{
    Astray, BuilderConfig, ClockConfig, Continues, Fragment, FragmentFlags, Late, SourceNote,
    SourceRole, TimeConfig, TimeMatcher,
};
use catchment_fixtures::Random;
use catchment_model::{Entry, EventFlags};

use crate::pieces::offsets;
use crate::support::{MS, Rig, S};

const WINDOW: u64 = 1_000;
const DAY: u64 = 86_400 * S;
/// When a test begins, as all clocks have it.
pub(crate) const BEGIN: u64 = 10 * DAY;

/// A run of ports and front-ends.
struct Run(Rig<TimeMatcher>);

pub(crate) fn settings(roles: &[SourceRole], front_ends: &[usize]) -> BuilderConfig {
    let mut config = BuilderConfig::new(roles.to_vec());
    config.frame_bytes = 1;
    config.promising = (0..roles.len()).map(|source| front_ends.contains(&source)).collect();
    (config.positions, config.pausable) = (config.promising.clone(), config.promising.clone());
    config
}

impl Run {
    fn of(config: &BuilderConfig, change: impl FnOnce(&mut TimeConfig)) -> Self {
        let clocks = vec![ClockConfig::NS; config.sources.len()];
        let mut time = TimeConfig::new(WINDOW, clocks, config.timeout_ns);
        change(&mut time);
        let matcher = TimeMatcher::new(config, &time).expect("settings that can be");
        let mut run = Self(Rig::with_matcher(config, matcher));
        for source in 0..config.sources.len() {
            run.say(BEGIN, source, SourceNote::Session { key_bits: 64 });
        }
        run
    }

    fn new(roles: &[SourceRole], front_ends: &[usize]) -> Self {
        Self::of(&settings(roles, front_ends), |_| {})
    }

    /// Required front-ends.
    fn front_ends(count: usize) -> Self {
        Self::new(&vec![SourceRole::Required; count], &(0..count).collect::<Vec<_>>())
    }

    fn say(&mut self, now_ns: u64, source: usize, note: SourceNote) {
        self.0.builder.note(now_ns, source, note);
    }

    fn send(&mut self, now_ns: u64, source: usize, times: &[u64]) {
        let fragment = |&ns: &u64| sent_once(ns, self.0.fragment(source, 0, 100));
        let fragments: Vec<Fragment> = times.iter().map(fragment).collect();
        self.0.push(now_ns, &fragments);
    }

    /// An event each millisecond, of these sources, at its own time.
    fn events(&mut self, sources: &[usize], events: std::ops::Range<u64>) {
        for event in events {
            for &source in sources {
                self.send(at(event), source, &[at(event) + source as u64]);
            }
            self.0.poll(at(event));
        }
    }

    /// Rows in which all of these are.
    fn whole(&self, sources: &[usize]) -> usize {
        let is_whole =
            |row: &&crate::support::Row| sources.iter().all(|&one| row.fragments[one].is_some());
        self.0.rows.values().filter(is_whole).count()
    }
}

fn at(event: u64) -> u64 {
    BEGIN + event * MS
}

/// Of that time, and as fragments of a link are: known not to be repetitions.
pub(crate) fn sent_once(ns: u64, fragment: Fragment) -> Fragment {
    Fragment { number: ns, flags: FragmentFlags::SENT_ONCE, ..fragment }
}

/// The times of a source's fragments in an event, which may have `most`: equal or each beyond the
/// one before.
fn pieces(event: u64, ns: u64, most: u32) -> impl Iterator<Item = u64> {
    let (count, turn) = (1 + event % u64::from(most), event / u64::from(most) % 2);
    (0..count).map(move |piece| ns + turn * piece)
}

#[test]
fn events_close_as_soon_as_every_front_end_has_passed_them() {
    let mut run = Run::front_ends(2);
    run.events(&[0, 1], 1..11);
    for event in 11..21 {
        run.send(at(event), 0, &[at(event)]);
        run.0.poll(at(event));
        assert_eq!(run.0.rows.len() as u64, event - 1, "it is waited for");
        run.say(at(event), 1, SourceNote::LowWater(at(event) + WINDOW));
        run.0.poll(at(event));
        assert_eq!(run.0.rows.len() as u64, event - 1, "one in its window may come");
        run.say(at(event), 1, SourceNote::LowWater(at(event) + WINDOW + 1));
        run.0.poll(at(event));
        assert_eq!(run.0.rows.len() as u64, event);
    }
    let of_second = |run: &Run, entry| run.0.count(1, entry);
    assert_eq!(of_second(&run, Entry::FragmentsMissing), 10);
    assert_eq!(of_second(&run, Entry::FragmentsNotSent), 10);
    // What it dropped and said so is counted by its word.
    for event in 21..31 {
        run.send(at(event), 0, &[at(event)]);
        run.say(at(event), 1, SourceNote::LowWater(at(event) + 5));
        run.say(at(event), 1, SourceNote::Excused(at(event) + 5));
        run.say(at(event), 1, SourceNote::LowWater(at(event) + WINDOW + 1));
        run.0.poll(at(event));
    }
    assert_eq!(run.0.rows.len(), 30);
    assert_eq!(of_second(&run, Entry::FragmentsMissing), 20);
    assert_eq!(of_second(&run, Entry::FragmentsNotSent), 10);
    run.events(&[0, 1], 31..41);
    run.0.finish(at(41));
    assert_eq!((run.0.complete(), run.0.lost()), (20, 0));
}

#[test]
fn one_that_is_idle_or_gone_delays_nobody_and_is_awaited_when_it_is_back() {
    for gone in [false, true] {
        let mut run = Run::front_ends(3);
        run.events(&[0, 1, 2], 1..11);
        let away = if gone { SourceNote::Gone } else { SourceNote::Idle(true) };
        run.say(at(11), 2, away);
        run.events(&[0, 1], 11..5_000);
        assert_eq!(run.0.rows.len(), 4_999, "nothing waits");
        let back = if gone { SourceNote::Attached } else { SourceNote::Idle(false) };
        run.say(at(5_000), 2, back);
        run.events(&[0, 1], 5_000..5_010);
        assert_eq!(run.0.rows.len(), 4_999, "it is awaited");
        for event in 5_000..5_010 {
            run.send(at(5_010), 2, &[at(event) + 2]);
        }
        run.0.poll(at(5_010));
        assert_eq!((run.0.rows.len(), run.whole(&[0, 1, 2])), (5_009, 20));
        run.0.finish(at(5_011));
        assert_eq!(run.0.lost(), 0);
    }
}

#[test]
fn one_that_hangs_costs_one_time_out_and_one_that_fell_silent_its_wait() {
    let mut run = Run::front_ends(3);
    run.events(&[0, 1, 2], 1..11);
    run.events(&[0, 1], 11..1_500);
    assert_eq!(run.0.rows.len(), 10, "its connection may be cut");
    run.say(at(1_500), 2, SourceNote::Quiet);
    run.events(&[0, 1], 1_500..2_000);
    assert_eq!(run.0.rows.len(), 1_999);
    assert!(matches!(&run.0.builder.status().sources[2], it if it.given_up && it.silent));
    // Its connection breaks without a word: others wait, however long, and nothing is lost.
    run.events(&[0, 1, 2], 2_000..2_010);
    run.events(&[0, 1], 2_010..4_510);
    run.say(at(4_510), 2, SourceNote::Waited);
    run.events(&[0, 1], 4_510..6_000);
    assert_eq!(run.0.rows.len(), 2_009);
    run.say(at(6_000), 2, SourceNote::Attached);
    run.send(at(6_000), 2, &(2_010..6_000).map(at).collect::<Vec<_>>());
    run.0.poll(at(6_000));
    run.events(&[0, 1, 2], 6_000..6_010);
    run.0.finish(at(6_011));
    assert_eq!((run.0.rows.len(), run.0.complete(), run.0.lost()), (6_009, 4_020, 0));
}

#[test]
fn while_only_marks_come_an_event_waits_for_them_and_not_for_a_silent_port() {
    // A port, and two front-ends. The second one may be far behind.
    let config = settings(&[SourceRole::Required; 3], &[1, 2]);
    let mut run = Run::of(&config, |time| time.skew_ns = 10 * S);
    run.events(&[0, 1, 2], 1..11);
    run.send(at(11), 1, &[at(11)]);
    // The second front-end is slow, and says so; the port never comes.
    for event in 12..6_000 {
        run.say(at(event), 1, SourceNote::LowWater(at(event)));
        run.say(at(event), 2, SourceNote::LowWater(at(11) - 6_000 + event));
        run.0.poll(at(event));
        assert_eq!(run.0.rows.len(), 10);
    }
    run.send(at(6_000), 2, &[at(11)]);
    run.0.poll(at(6_000));
    assert_eq!((run.0.rows.len(), run.whole(&[1, 2])), (11, 11));
    // After that pause it is as if nothing had been.
    run.events(&[0, 1, 2], 6_001..6_101);
    run.0.finish(at(6_102));
    assert_eq!((run.0.rows.len(), run.0.complete(), run.0.lost()), (111, 110, 0));
}

#[test]
fn a_slow_camera_is_in_the_events_that_it_saw_and_delays_the_others_by_its_marks_alone() {
    let roles = [SourceRole::Required, SourceRole::Sparse];
    let mut run = Run::of(&settings(&roles, &[0, 1]), |time| time.openers = vec![true, false]);
    for event in 1..2_001 {
        run.send(at(event), 0, &[at(event)]);
        run.0.poll(at(event));
        // 40 ms behind the trigger.
        if event > 40 && event % 100 == 0 {
            run.send(at(event), 1, &[at(event - 40) + 7]);
        } else if event > 40 {
            run.say(at(event), 1, SourceNote::LowWater(at(event - 40) + 500));
        }
        run.0.poll(at(event));
        assert!(event < 50 || run.0.rows.len() as u64 >= event - 42, "{}", run.0.rows.len());
    }
    run.0.finish(at(2_001));
    assert_eq!((run.0.rows.len(), run.0.complete(), run.whole(&[0, 1])), (2_000, 2_000, 20));
    assert_eq!(run.0.lost(), 0);
}

#[test]
fn the_key_messages_of_the_source_that_opens_events_say_who_is_expected() {
    let mut config = settings(&[SourceRole::Required; 3], &[0, 1, 2]);
    config.expected_in = vec![0, 1, 2];
    let opens = |time: &mut TimeConfig| {
        (time.openers, time.reference) = (vec![true, false, false], Some(0));
    };
    let mut run = Run::of(&config, opens);
    for event in 1..101_u64 {
        let second = event.is_multiple_of(2);
        run.say(at(event), 0, SourceNote::Named(if second { 2 } else { 1 }));
        run.send(at(event), 0, &[at(event)]);
        run.send(at(event), if second { 2 } else { 1 }, &[at(event) + 5]);
        run.0.poll(at(event));
        // All clocks are known with the third value of each.
        let expected = if event < 6 { 0 } else { event };
        assert_eq!(run.0.rows.len() as u64, expected, "none waits for the other group");
    }
    run.0.finish(at(101));
    assert_eq!((run.0.complete(), run.0.total(Entry::FragmentsMissing)), (100, 0));
    assert!(run.0.rows.values().all(|row| row.expected[1] != row.expected[2]));
}

#[test]
fn what_is_sent_again_after_a_long_break_is_whole_beside_a_port_and_steps_of_any_length() {
    let mut run = Run::new(&[SourceRole::Required; 3], &[1, 2]);
    // Events are 2 s apart: longer than any step that is believed of a port's clock at once.
    let apart = |event: u64| BEGIN + 1_700 * event * MS;
    for event in 1..5 {
        (0..3).for_each(|source| run.send(apart(event), source, &[apart(event)]));
        run.0.poll(apart(event));
    }
    run.say(apart(5), 1, SourceNote::Waited);
    run.say(apart(5), 2, SourceNote::Waited);
    for event in 5..25 {
        run.send(apart(event), 0, &[apart(event)]);
        run.0.poll(apart(event));
    }
    for source in [1, 2] {
        run.say(apart(25), source, SourceNote::Attached);
    }
    for event in 5..25 {
        let now_ns = apart(25) + event * 100 * MS;
        run.send(now_ns, 1 + (event % 2) as usize, &[apart(event)]);
        run.send(now_ns, 2 - (event % 2) as usize, &[apart(event)]);
        run.0.poll(now_ns);
    }
    for event in 27..30 {
        (0..3).for_each(|source| run.send(apart(event), source, &[apart(event)]));
        run.0.poll(apart(event));
    }
    run.0.finish(apart(31));
    assert_eq!((run.0.rows.len(), run.0.complete(), run.0.lost()), (27, 27, 0));
}

#[test]
fn a_clock_that_is_a_day_off_costs_the_others_one_time_out_at_most() {
    for ahead in [false, true] {
        let roles = [SourceRole::Required, SourceRole::Required, SourceRole::Required];
        let mut run = Run::new(&roles, &[1, 2]);
        run.events(&[0, 1], 1..11);
        let off = |event| if ahead { at(event) + DAY } else { at(event) - DAY };
        for event in 11..4_000 {
            run.send(at(event), 2, &[off(event)]);
            run.events(&[0, 1], event..event + 1);
        }
        let status = run.0.builder.status();
        assert!(status.sources[2].out_of_step, "ahead: {ahead}");
        let Some(Astray::Clock { ahead_ns }) = status.sources[2].astray else { panic!("{ahead}") };
        let expected_ns = if ahead { DAY as i64 } else { -(DAY as i64) };
        assert!(expected_ns.abs_diff(ahead_ns) < S, "{ahead}: {ahead_ns}");
        run.0.finish(at(4_001));
        assert_eq!(run.whole(&[0, 1]), 3_999, "ahead: {ahead}");
        let keys: Vec<u64> = run.0.rows.keys().copied().filter(|&key| key < at(4_001)).collect();
        assert!((1..4_000).all(|event| keys.contains(&at(event))), "ahead: {ahead}");
        for source in 0..2 {
            let lost = [Entry::FragmentsLate, Entry::FragmentsOutOfRange];
            assert_eq!(lost.map(|entry| run.0.count(source, entry)), [0; 2]);
        }
    }
}

#[test]
fn who_promises_too_much_costs_nobody_else_a_fragment() {
    let roles = [SourceRole::Required, SourceRole::Required, SourceRole::Sparse];
    for reach in [100 * MS, 400 * MS, DAY] {
        let mut config = settings(&roles, &[0, 1]);
        config.timeout_ns = S;
        let mut run = Run::of(&config, |time| time.openers = vec![true, true, false]);
        run.events(&[0, 1], 1..11);
        for event in 11..2_000 {
            run.say(at(event), 1, SourceNote::LowWater(at(event) + reach));
            run.send(at(event), 0, &[at(event)]);
            run.0.poll(at(event));
            // A sparse port, within its lag.
            if event > 120 {
                run.send(at(event), 2, &[at(event - 100) + 3]);
            }
            run.send(at(event), 1, &[at(event) + 1]);
            run.0.poll(at(event));
        }
        run.0.finish(at(2_001));
        for source in [0, 2] {
            assert_eq!(run.0.count(source, Entry::FragmentsLate), 0, "{reach}");
            assert_eq!(run.0.count(source, Entry::FragmentsOutOfRange), 0, "{reach}");
        }
        assert_eq!(run.whole(&[0, 2]), 2_000 - 121, "{reach}");
    }
}

#[test]
fn a_new_session_goes_on_and_new_numberings_of_all_begin_behind_all_keys() {
    let mut run = Run::front_ends(2);
    run.events(&[0, 1], 1..101);
    run.say(at(101), 1, SourceNote::Gone);
    run.say(at(101), 1, SourceNote::Session { key_bits: 64 });
    run.events(&[0, 1], 101..201);
    assert_eq!((run.0.rows.len(), run.0.complete()), (200, 200));
    // Their clocks begin at 0.
    for source in 0..2 {
        run.say(at(201), source, SourceNote::Numbering);
    }
    for event in 201..301 {
        for source in 0..2 {
            run.send(at(event), source, &[at(event) - at(200) + source as u64]);
        }
        run.0.poll(at(event));
    }
    run.0.finish(at(302));
    assert_eq!((run.0.rows.len(), run.0.complete(), run.0.lost()), (300, 300, 0));
    assert_eq!(run.0.builder.status().restarts_followed, 1);
}

/// A front-end, and what of its log is undecided, in order.
#[derive(Default)]
struct Log {
    next: u64,
    made: u64,
    undecided: BTreeMap<u64, u64>,
    idle: bool,
}

/// What became of fragments is known of each, by rows and discards since they were seen last.
fn check_positions(
    rig: &Rig<TimeMatcher>,
    logs: &mut [Log],
    (rows, seen): (&mut usize, &mut usize),
) {
    for row in rig.rows.values().skip(*rows) {
        for (source, log) in logs.iter_mut().enumerate() {
            for offset in offsets(row, source) {
                assert!(log.undecided.remove(&offset).is_some(), "it is recorded once");
            }
        }
    }
    *rows = rig.rows.len();
    for discard in &rig.discards[*seen..] {
        let log = &mut logs[discard.source.index()];
        let ordinal = log.undecided.remove(&discard.offset).expect("discarded once");
        assert_eq!(discard.ordinal, ordinal, "{discard:?}");
    }
    *seen = rig.discards.len();
    for (index, log) in logs.iter().enumerate() {
        let first = log.undecided.values().next().copied().unwrap_or(log.made);
        assert_eq!(rig.builder.first_undecided(index), first, "source {index}");
    }
}

#[test]
fn in_random_histories_no_fragment_is_lost_and_positions_are_exact() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let count = 2 + random.below(4) as usize;
        let mut config =
            settings(&vec![SourceRole::Required; count], &(0..count).collect::<Vec<_>>());
        (config.timeout_ns, config.frame_bytes) = (60 * S, 1 + random.below(5_000));
        let most = 1 + seed as u32 / 2 % 3;
        let mut run = Run::of(&config, |time| {
            time.late = if seed.is_multiple_of(2) { Late::Keep } else { Late::Count };
            time.fragments_max = most;
        });
        let mut logs: Vec<Log> = (0..count).map(|_| Log { next: 1, ..Log::default() }).collect();
        let (mut now_ns, mut sent) = (BEGIN, BTreeSet::new());
        let (mut dropped, mut seen, mut rows) = (Vec::new(), 0, 0);
        for _ in 0..400 {
            let index = random.below(count as u64) as usize;
            let slowest = logs.iter().map(|log| log.next).min().unwrap();
            let log = &mut logs[index];
            match random.below(10) {
                // What its sender drops.
                0 if log.made > 5 && !log.idle => {
                    let ns = at(log.next) + index as u64;
                    run.say(now_ns, index, SourceNote::LowWater(ns));
                    run.say(now_ns, index, SourceNote::Excused(ns));
                    dropped.push(log.next);
                    log.next += 1;
                }
                1 => run.say(now_ns, index, SourceNote::LowWater(at(log.next) - 1)),
                2 => {
                    run.say(now_ns, index, SourceNote::Waited);
                    run.say(now_ns, index, SourceNote::Attached);
                }
                _ => {
                    let ahead = (slowest + 60).saturating_sub(log.next).min(20);
                    for event in log.next..log.next + random.below(ahead + 1) {
                        for ns in pieces(event, at(event) + index as u64, most) {
                            let fragment = sent_once(ns, run.0.fragment(index, 0, 50));
                            log.undecided.insert(fragment.offset, log.made);
                            log.made += 1;
                            run.0.push(now_ns, &[fragment]);
                            if random.below(4) == 0 {
                                run.0.poll(now_ns);
                            }
                        }
                        log.next = event + 1;
                        sent.insert(event);
                    }
                }
            }
            now_ns += random.below(3 * MS);
            run.0.poll(now_ns);
            check_positions(&run.0, &mut logs, (&mut rows, &mut seen));
        }
        run.0.finish(now_ns);
        assert_eq!(run.0.lost(), 0, "seed {seed}");
        let made: u64 = logs.iter().map(|log| log.made).sum();
        assert_eq!(run.0.total(Entry::FragmentsRecorded), made, "seed {seed}");
        assert_eq!(run.0.rows.len(), sent.len(), "seed {seed}");
        let alone = EventFlags::UNMATCHED;
        assert!(run.0.rows.values().all(|row| !row.flags.contains(alone)), "seed {seed}");
        let entries = [Entry::FragmentsMissing, Entry::FragmentsNotSent];
        let [missing, not_sent] = entries.map(|entry| run.0.total(entry));
        let dropped = dropped.iter().filter(|event| sent.contains(event)).count() as u64;
        assert!(
            missing >= dropped && not_sent == 0,
            "seed {seed}: {missing}, {dropped}, {not_sent}"
        );
    }
}

#[test]
fn each_event_is_in_one_of_two_lives_wherever_the_first_one_ends() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let count = 1 + random.below(4) as usize;
        let mut config =
            settings(&vec![SourceRole::Required; count], &(0..count).collect::<Vec<_>>());
        (config.timeout_ns, config.frame_bytes) = (60 * S, 1 + random.below(20_000));
        let (mut next, mut seen, mut now_ns) = (vec![1_u64; count], 1_u64, BEGIN);
        let most = 1 + seed as u32 % 3;
        for life in 0..4 {
            let mut run = Run::of(&config, |time| time.fragments_max = most);
            for _ in 0..60 {
                let source = random.below(count as u64) as usize;
                let slowest = *next.iter().min().unwrap();
                let ahead = (slowest + 60).saturating_sub(next[source]).min(40);
                let end = next[source] + random.below(ahead + 1);
                let of_event = |event| pieces(event, at(event) + 3, most);
                let times: Vec<u64> = (next[source]..end).flat_map(of_event).collect();
                run.send(now_ns, source, &times);
                next[source] = end;
                now_ns += random.below(5 * MS);
                run.0.poll(now_ns);
            }
            if life == 3 {
                run.0.finish(now_ns);
            }
            for (&key, row) in &run.0.rows {
                assert_eq!(key, at(seen) + 3, "seed {seed}, life {life}");
                assert!(life == 3 || row.present() == count, "seed {seed}, life {life}: {row:?}");
                let of_event = pieces(seen, key, most).count();
                let all = |source: usize| [0, of_event].contains(&offsets(row, source).len());
                assert!((0..count).all(all), "seed {seed}, life {life}: {row:?}");
                seen += 1;
            }
            let builder = &run.0.builder;
            let key = |source| Some(builder.decided_key(source)).filter(|&key| key > 0);
            let sources = (0..count).map(key).collect();
            let go_on = Continues { closed_key: builder.closed_key(), sources };
            next.fill(seen);
            config.continues = (go_on.closed_key > 0).then_some(go_on).or(config.continues);
            // Whatever time passes between them.
            now_ns += random.below(3_600) * S;
        }
        assert!(seen > 1, "seed {seed}");
    }
}

#[test]
fn what_comes_again_below_the_closed_key_is_late_and_clocks_that_fell_do_not_take_keys_back() {
    let mut config = settings(&[SourceRole::Required; 2], &[0, 1]);
    config.continues = Some(Continues { closed_key: at(100) + 1, sources: vec![Some(at(100)); 2] });
    let mut run = Run::of(&config, |_| {});
    run.send(at(101), 0, &[at(99), at(100)]);
    run.events(&[0, 1], 101..111);
    assert_eq!(run.0.count(0, Entry::FragmentsLate), 2);
    assert_eq!((run.0.rows.len(), run.0.complete()), (10, 10));
    let mut run = Run::of(&config, |_| {});
    for event in 1..11 {
        (0..2).for_each(|source| run.send(at(100 + event), source, &[event * MS]));
        run.0.poll(at(100 + event));
    }
    run.0.finish(at(111));
    assert_eq!((run.0.rows.len(), run.0.complete(), run.0.lost()), (10, 10, 0));
    let keys: Vec<u64> = run.0.rows.keys().copied().collect();
    assert!(keys[0] > at(100) && keys.windows(2).all(|pair| pair[1] - pair[0] == MS), "{keys:?}");
}

#[test]
fn what_is_sent_again_at_once_is_taken_however_far_apart_its_times_are() {
    let mut config = settings(&[SourceRole::Required; 2], &[0, 1]);
    config.continues = Some(Continues { closed_key: at(1), sources: vec![Some(at(1)); 2] });
    let mut run = Run::of(&config, |_| {});
    let times: Vec<u64> = (1..21).map(|step| at(1) + step * 10 * S).collect();
    let now_ns = BEGIN + 3_600 * S;
    // One has gone on further than the other before the recorder died.
    run.send(now_ns, 0, &times);
    run.send(now_ns, 1, &times[..5]);
    run.0.poll(now_ns);
    run.send(now_ns + MS, 1, &times[5..]);
    run.0.poll(now_ns + MS);
    run.0.finish(now_ns + 2 * MS);
    assert_eq!((run.0.rows.len(), run.0.complete(), run.0.lost()), (20, 20, 0));
}

#[test]
fn a_run_begins_and_ends_at_windows_that_all_front_ends_have() {
    // The second one's clock is a bit behind, and it starts and stops earlier or later.
    let own = |event: u64| at(event) - WINDOW / 2;
    for (first, last) in [(4, 96), (1, 96), (4, 99), (1, 99)] {
        let mut run = Run::front_ends(2);
        (0..2).for_each(|source| run.say(at(1), source, SourceNote::Begin));
        for event in 1..100 {
            run.send(at(event), 0, &[at(event)]);
            if (first..=last).contains(&event) {
                run.send(at(event), 1, &[own(event)]);
            }
            run.0.poll(at(event));
            if event == last {
                run.say(at(event), 1, SourceNote::End(own(event) + 1));
            }
        }
        run.say(at(100), 0, SourceNote::End(at(99) + 1));
        run.0.poll(at(100));
        let whole = last + 1 - first;
        assert_eq!(run.0.rows.len() as u64, whole, "nothing waits for the end of the run");
        run.0.finish(at(100));
        let outside = [0, 1].map(|source| run.0.count(source, Entry::FragmentsOutsideRun));
        assert_eq!(outside, [99 - whole, 0]);
        assert_eq!((run.0.complete() as u64, run.0.lost()), (whole, 0));
        assert_eq!(run.0.total(Entry::FragmentsMissing), 0);
    }
}

#[test]
fn what_is_missing_between_the_edges_of_a_run_by_time_is_lost() {
    let mut run = Run::front_ends(3);
    (0..3).for_each(|source| run.say(at(1), source, SourceNote::Begin));
    // Of the second one an event in the middle is missing. The third one only promises.
    run.events(&[0, 1], 1..20);
    run.events(&[0], 20..21);
    run.events(&[0, 1], 21..40);
    for event in 40..4_000 {
        run.say(at(event), 2, SourceNote::LowWater(at(event)));
        run.events(&[0, 1], event..event + 1);
    }
    assert_eq!(run.0.rows.len(), 3_998, "a promise is no first time");
    // It dies, and its mark is heard of when nothing waits for it any more.
    run.events(&[0, 1], 4_000..6_000);
    run.say(at(6_000), 2, SourceNote::End(at(3_999)));
    (0..2).for_each(|source| run.say(at(6_000), source, SourceNote::End(0)));
    run.0.poll(at(6_000));
    run.0.finish(at(6_000));
    assert_eq!((run.0.rows.len(), run.0.total(Entry::FragmentsOutsideRun)), (5_999, 0));
    let missing = [1, 2].map(|source| run.0.count(source, Entry::FragmentsMissing));
    assert_eq!(missing, [1, 5_999]);
}

#[test]
fn a_run_by_time_that_is_stopped_before_clocks_stand_has_what_its_front_ends_share() {
    let mut run = Run::front_ends(2);
    (0..2).for_each(|source| run.say(at(1), source, SourceNote::Begin));
    run.send(at(1), 0, &[at(1), at(2)]);
    run.say(at(2), 0, SourceNote::End(at(2) + 1));
    run.send(at(2), 1, &[at(2), at(3)]);
    run.say(at(3), 1, SourceNote::End(at(3) + 1));
    run.0.poll(at(3));
    run.0.finish(at(3));
    assert_eq!((run.0.rows.len(), run.0.complete(), run.0.lost()), (1, 1, 0));
    assert_eq!([0, 1].map(|source| run.0.count(source, Entry::FragmentsOutsideRun)), [1, 1]);
}

#[test]
fn when_memory_is_short_the_oldest_event_closes_though_its_clock_is_ahead() {
    let mut config = settings(&[SourceRole::Required; 3], &[1]);
    config.waiting_bytes_max = 10_000;
    let mut run = Run::of(&config, |_| {});
    run.events(&[0, 1, 2], 1..11);
    // A port whose clock is ahead by more than `skew`, and by less than is a claim.
    for event in 11..600 {
        run.send(at(event), 2, &[at(event) + 900 * MS]);
        run.events(&[0, 1], event..event + 1);
        let waiting_bytes = run.0.builder.status().waiting_bytes;
        assert!(waiting_bytes <= 10_000, "event {event}: {waiting_bytes}");
    }
    run.0.finish(at(600));
}

#[test]
fn one_front_end_that_opens_all_events_is_as_any_opener_where_nobody_is_in_groups() {
    let mut run = Run::of(&settings(&[SourceRole::Required; 3], &[0, 1, 2]), |time| {
        (time.openers, time.reference) = (vec![true, false, false], Some(0));
    });
    run.events(&[0, 1, 2], 1..11);
    // Of two fragments in no event the earlier one comes later.
    run.send(at(11), 1, &[at(11) + 5]);
    run.send(at(12), 0, &[at(12)]);
    run.0.poll(at(12));
    run.send(at(12), 2, &[at(11) + 3, at(12) + 2]);
    run.send(at(12), 1, &[at(12) + 1]);
    run.0.poll(at(12));
    run.0.finish(at(13));
    let alone = run.0.rows.iter().filter(|(_, row)| row.flags.contains(EventFlags::UNMATCHED));
    assert_eq!(alone.map(|(key, _)| *key).collect::<Vec<_>>(), [at(11) + 3, at(11) + 5]);
    assert_eq!((run.whole(&[0, 1, 2]), run.0.lost()), (11, 0));
}

#[test]
fn what_a_session_abandons_before_its_first_fragment_is_excused() {
    let mut run = Run::front_ends(2);
    run.events(&[0, 1], 1..11);
    run.say(at(11), 1, SourceNote::Session { key_bits: 64 });
    (11..21).for_each(|event| run.send(at(event), 0, &[at(event)]));
    // As the receive agent says it of a mark with keys.
    run.say(at(21), 1, SourceNote::LowWater(at(11) + 1));
    run.say(at(21), 1, SourceNote::Excused(at(20) + 1));
    run.events(&[0, 1], 21..31);
    run.0.finish(at(31));
    let entries = [Entry::FragmentsMissing, Entry::FragmentsNotSent];
    assert_eq!(entries.map(|entry| run.0.count(1, entry)), [10, 0]);
}

#[test]
fn a_sparse_front_end_is_waited_for_its_lag_when_all_others_are_idle() {
    let roles = [SourceRole::Required, SourceRole::Sparse];
    let mut run = Run::of(&settings(&roles, &[0, 1]), |time| time.openers = vec![true, false]);
    run.events(&[0, 1], 1..101);
    run.send(at(101), 0, &[at(101)]);
    run.say(at(101), 0, SourceNote::Idle(true));
    run.0.poll(at(101));
    assert_eq!(run.0.rows.len(), 100, "its sender may hold what belongs to the event");
    run.send(at(141), 1, &[at(101) + 7]);
    run.0.poll(at(141));
    assert_eq!(run.whole(&[0, 1]), 101);
    // It has nothing of the next one.
    run.send(at(200), 0, &[at(200)]);
    run.say(at(200), 0, SourceNote::Idle(true));
    run.0.poll(at(440));
    assert_eq!(run.0.rows.len(), 101);
    run.0.poll(at(460));
    assert_eq!((run.0.rows.len(), run.0.lost()), (102, 0));
}

#[test]
fn a_run_that_goes_on_waits_for_a_front_end_until_its_wait_ends() {
    let mut config = settings(&[SourceRole::Required; 2], &[0, 1]);
    config.continues = Some(Continues { closed_key: at(1), sources: vec![Some(at(1)); 2] });
    let time = TimeConfig::new(WINDOW, vec![ClockConfig::NS; 2], config.timeout_ns);
    let matcher = TimeMatcher::new(&config, &time).expect("settings that can be");
    let mut run = Run(Rig::with_matcher(&config, matcher));
    run.say(at(2), 0, SourceNote::Session { key_bits: 64 });
    run.events(&[0], 2..5_000);
    assert_eq!(run.0.rows.len(), 0, "it may come and send again what it holds");
    // The receive agent ends the wait for one that does not come (`sessions.rs`).
    run.say(at(5_000), 1, SourceNote::Gone);
    run.events(&[0], 5_000..5_010);
    assert_eq!((run.0.rows.len(), run.0.lost()), (5_008, 0));
    run.0.finish(at(5_010));
}
