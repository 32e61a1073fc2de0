//! Seeds in every test run: the first ones, and those that once failed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use catchment_sim::case::Case;
use catchment_sim::fault::{AT_STORES, BY_TIME, Fault, Faults};
use catchment_sim::plan::{MS, Plan};
use catchment_sim::schedule::Schedule;
use catchment_sim::{Fragments, Options, oracle, simulate, stores, time, world};

/// A number of seeds, not a time, so that a slow machine tests the same as a fast one.
const SEEDS: u64 = 500;
/// The same of events by time.
const SEEDS_BY_TIME: u64 = 150;
/// The same of storage nodes.
const SEEDS_OF_STORES: u64 = 25;

/// Runs all of these on as many threads as there are CPUs, and names those that fail.
fn all_hold(cases: &[Case]) {
    let next = AtomicU64::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut failed = Vec::new();
        while let Some(&case) = cases.get(next.fetch_add(1, Relaxed) as usize) {
            if let Some(why) = simulate(case, false).failure {
                failed.push(format!("make sim SEED=\"{case}\"    # {why}"));
            }
        }
        failed
    };
    let failed: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_rule_holds_for_the_first_seeds() {
    let cases: Vec<_> = (0..SEEDS).map(Case::of).collect();
    all_hold(&cases);
}

#[test]
fn every_rule_holds_for_the_first_seeds_whose_events_are_built_by_time() {
    let cases: Vec<_> = (0..SEEDS_BY_TIME).map(Case::by_time).collect();
    all_hold(&cases);
}

#[test]
fn every_rule_holds_for_the_first_seeds_with_storage_nodes() {
    let cases: Vec<_> = (0..SEEDS_OF_STORES).map(Case::stored).collect();
    all_hold(&cases);
}

#[test]
fn every_rule_holds_for_seeds_that_once_failed() {
    let lines = include_str!("../seeds.txt").lines();
    let lines = lines.map(|line| line.split('#').next().unwrap_or_default().trim());
    let case = |line: &str| {
        let options = Options::parse(std::iter::once(line.to_owned())).expect("a case");
        options.case(options.seed.expect("a seed"))
    };
    let cases: Vec<_> = lines.filter(|line| !line.is_empty()).map(case).collect();
    assert!(!cases.is_empty());
    all_hold(&cases);
}

#[test]
fn a_disk_that_is_full_at_the_end_leaves_no_total_that_the_frames_do_not_add_up_to() {
    let only = Case { events_max: 60, sources_max: 1, faults: Faults::NONE, ..Case::of(2) };
    let mut plan = Plan::of(only);
    plan.stores.truncate(1);
    plan.config.targets.truncate(1);
    plan.stores[0].operation_ns_max = 400 * MS;
    // Nothing is preallocated, so the space runs out at once.
    plan.stores[0].allocate_bytes = 0;
    let stop_ns = Schedule::of(&plan).stop_ns;
    // Until then the last frame is refused, or the table of contents, or both.
    for until_ms in (0..4_000).step_by(40) {
        let full_ns = (stop_ns - 3_000 * MS, stop_ns + until_ms * MS);
        plan.stores[0].faults.full_ns = Some(full_ns);
        let outcome = world::run(&plan, false).expect("it ends");
        assert!(outcome.happened.contains_key(&Fault::Full), "{until_ms} ms");
        assert_eq!(oracle::check(&outcome).map(drop), Ok(()), "{until_ms} ms");
    }
}

#[test]
fn one_case_has_one_trace_and_another_case_another() {
    // Two runs of one seed have identical traces, and runs of different seeds never do.
    let hashes = |seed| {
        let run = || simulate(Case::of(seed), false).trace;
        let (one, other) = (run(), run());
        assert_eq!((one.hash(), one.count()), (other.hash(), other.count()), "seed {seed}");
        one.hash()
    };
    let mut all: Vec<u64> = (1_000..1_020).map(hashes).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 20);
}

#[test]
fn a_trace_tells_the_story_in_lines_and_for_a_timeline_viewer() {
    let case = Case { events_max: 20, faults: Faults::NONE, ..Case::of(3) };
    let report = simulate(case, true);
    let lines = report.trace.lines();
    assert!(lines.contains(" sends event 19 ") && lines.contains("write has ended"), "{lines}");
    let timeline = report.trace.timeline();
    let events = timeline["traceEvents"].as_array().unwrap();
    let names = events.iter().filter(|event| event["ph"] == "M");
    assert!(names.count() >= 4 && events.iter().any(|event| event["name"] == "work"));
}

#[test]
fn every_kind_of_fault_happens_in_some_run_and_none_in_a_run_without() {
    let (mut all, mut held) = (0, 0);
    let without = |seed| Case { faults: Faults::NONE, ..Case::of(seed) };
    for seed in 0..20 {
        let report = simulate(without(seed), false);
        assert_eq!(report.failure, None);
        let Fragments { sent, required, recorded } = report.fragments;
        assert!(report.happened.is_empty() && sent == recorded && sent > 0, "seed {seed}");
        (all, held) = (all + sent, held + required);
    }
    // The lower bound covers most of what was sent.
    assert!(2 * held > all, "{held} of {all}");
    let others = |fault: &&Fault| !BY_TIME.contains(fault) && !AT_STORES.contains(fault);
    let by_number = Fault::ALL.iter().filter(others);
    let mut missing: Vec<Fault> = by_number.copied().collect();
    // Only some runs have connections, to which some faults happen.
    for seed in 0..500 {
        let happened = simulate(Case::of(seed), false).happened;
        missing.retain(|fault| !happened.contains_key(fault));
        if missing.is_empty() {
            break;
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn by_time_every_lie_and_every_other_fault_happens_in_some_run_and_none_in_a_run_without() {
    let mut held = 0;
    for seed in 0..12 {
        let case = Case { faults: Faults::NONE, ..Case::by_time(seed) };
        let report = simulate(case, false);
        assert_eq!(report.failure, None, "seed {seed}");
        assert!(report.happened.is_empty() && report.fragments.recorded > 0, "seed {seed}");
        held += report.fragments.required;
    }
    assert!(held > 0, "the model says what rows are");
    let mut missing: Vec<Fault> = time::FAULTS.to_vec();
    for seed in 0..300 {
        let happened = simulate(Case::by_time(seed), false).happened;
        missing.retain(|fault| !happened.contains_key(fault));
        if missing.is_empty() {
            break;
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn at_stores_every_fault_happens_in_some_run_and_none_in_a_run_without() {
    for seed in 0..12 {
        let case = Case { faults: Faults::NONE, ..Case::stored(seed) };
        let report = simulate(case, false);
        assert_eq!(report.failure, None, "seed {seed}");
        assert!(report.happened.is_empty() && report.fragments.recorded > 0, "seed {seed}");
        // One case has one trace here, too.
        assert_eq!(report.trace.hash(), simulate(case, false).trace.hash(), "seed {seed}");
    }
    let mut missing: Vec<Fault> = stores::FAULTS.to_vec();
    for seed in 0..300 {
        let happened = simulate(Case::stored(seed), false).happened;
        missing.retain(|fault| !happened.contains_key(fault));
        if missing.is_empty() {
            break;
        }
    }
    assert!(missing.is_empty(), "{missing:?}");
}
