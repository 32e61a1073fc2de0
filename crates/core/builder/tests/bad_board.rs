//! One board of 72 dies, restarts, floods, or has a wrong clock: what that costs the others.

use crate::support::{MS, Rig, S};
use catchment_builder::{
    Astray, BuilderConfig, ClockConfig, Flooding, Floods, Fragment, Group, SourceRole,
    SourceStatus, TimeConfig, TimeMatcher, Unmatched, regroup,
};
use catchment_fixtures::Random;
use catchment_model::{Entry, Piece};

const BOARDS: usize = 72;
const BAD: usize = 5;
const FIRST: u64 = 100_000 * MS;
/// One event each millisecond; the board is bad from the second one on.
const BAD_FROM: u64 = FIRST + 500 * MS;
const END: u64 = FIRST + 3_000 * MS;
const TIMEOUT: u64 = 1_000 * MS;

/// As the preset `alpha-72` builds: a window of 1 us, events of two boards at least.
fn rule(flooding: Flooding) -> TimeConfig {
    let mut time = TimeConfig::new(1_000, vec![ClockConfig::NS; BOARDS], TIMEOUT);
    (time.coincidence, time.unmatched, time.flooding) = (2, Unmatched::Count, flooding);
    time
}

fn rig(flooding: Flooding) -> Rig<TimeMatcher> {
    let mut config = BuilderConfig::new(vec![SourceRole::Required; BOARDS]);
    config.timeout_ns = TIMEOUT;
    let matcher = TimeMatcher::new(&config, &rule(flooding)).expect("settings that can be");
    Rig::with_matcher(&config, matcher)
}

/// What a board sends of an event: up to 100 ns later than that.
fn own(board: usize, event_ns: u64) -> u64 {
    event_ns + (event_ns / MS * 31 + board as u64 * 17) % 100
}

/// Builds what 72 boards send, of which one sends `bad(event)` from a time on; events go on within
/// a time-out at each step. Returns also of which boards `is_named` holds at the end.
fn build(
    (name, flooding): (&str, Flooding),
    mut bad: impl FnMut(u64) -> Vec<u64>,
    is_named: fn(&SourceStatus) -> bool,
) -> (Rig<TimeMatcher>, Vec<usize>) {
    let mut rig = rig(flooding);
    for event_ns in (FIRST..END).step_by(MS as usize) {
        for board in 0..BOARDS {
            let times = match board == BAD && event_ns >= BAD_FROM {
                true => bad(event_ns),
                false => vec![own(board, event_ns)],
            };
            let fragments: Vec<Fragment> = times
                .iter()
                .map(|&ns| {
                    let mut fragment = rig.fragment(board, 0, 100);
                    fragment.number = ns;
                    fragment
                })
                .collect();
            rig.push(event_ns, &fragments);
        }
        rig.poll(event_ns);
        let status = rig.builder.status();
        let built = status.events_complete + status.events_incomplete;
        // The first events wait until clocks are known, a dead board's for a time-out; both are
        // looked at each 64th of one.
        let waits_ns = TIMEOUT + TIMEOUT / 32 + 10 * MS;
        let due = event_ns.saturating_sub(FIRST + waits_ns) / MS;
        assert!(built >= due, "{name}: {built} events at {} ms", (event_ns - FIRST) / MS);
    }
    let status = rig.builder.status();
    let named = (0..BOARDS).filter(|&board| is_named(&status.sources[board])).collect();
    rig.finish(END + MS);
    (rig, named)
}

#[test]
fn one_bad_board_of_72_costs_the_others_nothing_and_is_named() {
    let is_bad = |one: &SourceStatus| one.silent || one.out_of_step || one.is_flooding;
    let (whole, named) = build(("none", Flooding::Exclude), |ns| vec![own(BAD, ns)], is_bad);
    assert!(named.is_empty());
    assert_eq!((whole.rows.len(), whole.complete(), whole.lost()), (3_000, 3_000, 0));

    let mut random = Random::new(72);
    let mut flood = |ns| {
        // 100 in each millisecond beside its own, anywhere.
        let mut times: Vec<u64> = (0..100).map(|_| ns - random.below(MS - 200)).collect();
        times.push(own(BAD, ns));
        times.sort_unstable();
        times
    };
    type Bad<'a> = (&'static str, &'a mut dyn FnMut(u64) -> Vec<u64>, fn(&SourceStatus) -> bool);
    let faults: [Bad<'_>; 5] = [
        ("dies", &mut |_| Vec::new(), |one| one.silent),
        (
            "restarts",
            // It is back after 50 ms, and its clock begins at zero.
            &mut |ns| ns.checked_sub(BAD_FROM + 50 * MS).into_iter().collect(),
            |one| one.out_of_step,
        ),
        ("floods", &mut flood, |one| one.is_flooding),
        ("is 1 s ahead", &mut |ns| vec![own(BAD, ns + S)], |one| {
            let Some(Astray::Clock { ahead_ns }) = one.astray else { return false };
            assert!(ahead_ns > 0 && ahead_ns.unsigned_abs().abs_diff(S) < 100 * MS, "{ahead_ns}");
            one.out_of_step
        }),
        ("is stuck", &mut |_| vec![BAD_FROM], |one| {
            one.out_of_step && one.astray == Some(Astray::Stands)
        }),
    ];
    for (name, bad, is_named) in faults {
        let (rig, named) = build((name, Flooding::Exclude), bad, is_named);
        assert_eq!(named, [BAD], "{name}");
        for board in (0..BOARDS).filter(|&board| board != BAD) {
            let [ledger, expected] = [&rig, &whole].map(|rig| &rig.ledger.sources[board]);
            assert_eq!(ledger, expected, "{name}: board {board}");
        }
        // Each event has all of them.
        let others = |row: &&crate::support::Row| {
            let boards = row.fragments.iter().enumerate();
            boards.filter(|(board, one)| *board != BAD && one.is_some()).count() == BOARDS - 1
        };
        assert_eq!(rig.rows.values().filter(others).count(), 3_000, "{name}");
        assert_eq!(rig.rows.len(), 3_000, "{name}");
    }
}

/// What the rule is for: a stray shortly before an event ends the event's window too early.
#[test]
fn a_source_that_floods_splits_events_only_until_it_is_found() {
    let strays = |ns: u64| {
        let before = (1..=40).rev().map(|step| ns - step * 20_000);
        before.chain([ns - 950, own(BAD, ns)]).collect()
    };
    let missing = [Flooding::Exclude, Flooding::Open].map(|flooding| {
        let (rig, named) = build(("floods", flooding), strays, |one| one.is_flooding);
        assert_eq!(named.is_empty(), flooding == Flooding::Open);
        rig.total(Entry::FragmentsMissing) - rig.count(BAD, Entry::FragmentsMissing)
    });
    assert!(missing[1] > 50_000 && missing[0] < missing[1] / 50, "{missing:?}");
}

/// A source opens events again when its flood is over.
#[test]
fn a_flood_ends() {
    let until = BAD_FROM + S;
    let times = |ns: u64| {
        let strays = (1..=40).rev().map(|step| ns - step * 20_000);
        strays.filter(|_| ns < until).chain([own(BAD, ns)]).collect()
    };
    let (rig, named) = build(("floods", Flooding::Exclude), times, |one| one.is_flooding);
    assert!(named.is_empty());
    // From then on it is in all events, those too of which it is the earliest.
    let after = rig.rows.range(until + 20 * MS..).filter(|(_, row)| row.present() == BOARDS);
    assert_eq!(after.count() as u64, (END - until) / MS - 20);
    assert!(rig.count(BAD, Entry::FragmentsDiscardedUnmatched) >= 39_500);
}

/// What is built again of the fragments is what the builder has built, also where a source floods
/// for a while, and where they are read in two parts.
#[test]
fn events_with_a_flood_are_built_again_as_they_were_built() {
    let until = BAD_FROM + S;
    let bad = |ns: u64| {
        let before = (1..=40).rev().map(|step| ns - step * 20_000);
        let strays = before.chain([ns - 950]);
        strays.filter(|_| ns < until).chain([own(BAD, ns)]).collect::<Vec<u64>>()
    };
    let (rig, _) = build(("floods", Flooding::Exclude), bad, |one| one.is_flooding);
    let present = |row: &crate::support::Row| {
        (0..BOARDS).filter(|&board| row.fragments[board].is_some()).collect::<Vec<usize>>()
    };
    let built: Vec<_> = rig.rows.iter().map(|(key, row)| (*key, present(row))).collect();
    let sent = |from_ns: u64, to_ns: u64| {
        let of_board = |board| {
            let times = |ns: u64| match board == BAD && ns >= BAD_FROM {
                true => bad(ns),
                false => vec![own(board, ns)],
            };
            let all = (from_ns..to_ns).step_by(MS as usize).flat_map(times);
            all.map(|time_ns| Piece { row: 0, time_ns, bytes: 100 }).collect::<Vec<Piece>>()
        };
        (0..BOARDS).map(of_board).collect::<Vec<_>>()
    };
    let events = |groups: &[Group]| {
        let events = groups.iter().filter(|group| group.is_event);
        events.map(|group| (group.anchor_ns, group.sources.clone())).collect::<Vec<_>>()
    };
    let new = |flooding| Floods::new(&rule(flooding), BOARDS as u32, TIMEOUT);
    let time = rule(Flooding::Exclude);
    let whole = regroup(&time, &sent(FIRST, END), &new(Flooding::Exclude), |_, _| true);
    assert_eq!(events(&whole), built);
    let open = regroup(&time, &sent(FIRST, END), &new(Flooding::Open), |_, _| true);
    assert_ne!(events(&open), built);
    // In the middle of the flood.
    let half = BAD_FROM + 300 * MS;
    let mut floods = new(Flooding::Exclude);
    let mut parts = regroup(&time, &sent(FIRST, half), &floods, |_, _| true);
    parts.iter().for_each(|group| floods.follow(&time, group));
    parts.extend(regroup(&time, &sent(half, END), &floods, |_, _| true));
    assert_eq!(parts, whole);
}
