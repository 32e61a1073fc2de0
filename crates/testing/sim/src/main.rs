//! `make sim`: seeds until it is stopped, on all cores, or one seed.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use catchment_model::SourceLedger;
use catchment_sim::case::Case;
use catchment_sim::fault::Fault;
use catchment_sim::{Fragments, Options, Report, shrink, simulate};

const USAGE: &str = "\
catchment-sim [SEED] [OPTIONS]

  SEED             run this seed alone; without it: seeds until stopped, over all cores
  --seeds N        so many seeds, from SEED or a new one on
  --faults A,B     only these kinds of faults, or none
  --sources N      no more sources
  --events N       no more events
  --two-targets    two targets in each run
  --time           events are built by time, and clocks lie
  --stores         storage nodes, which fail apart
  --trains         trains of feeders, too, in each run
  --trace          tell the story of the run, and write it to sim-SEED.json for Perfetto
  --hash           show the hash of the run's trace
  --first          stop at the first seed that fails
  --as-it-is       do not make a failing run smaller
  --threads N      as many seeds at once as that";

/// How often the rate is printed.
const SHOWN_EVERY: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    show_each_panic_once();
    match (options.seed, options.seeds) {
        (Some(seed), None) => one(&options, options.case(seed)),
        _ => many(&options),
    }
}

/// A panic is a failure of its run and is printed with it. Its location is printed here, and only
/// once: a failing run is simulated many times to reduce it.
fn show_each_panic_once() {
    let shown = Mutex::new(BTreeSet::new());
    std::panic::set_hook(Box::new(move |panic| {
        let place = panic.location().map(ToString::to_string);
        if shown.lock().is_ok_and(|mut shown| shown.insert(place)) {
            eprintln!("{panic}");
        }
    }));
}

fn one(options: &Options, case: Case) -> ExitCode {
    let report = simulate(case, options.is_traced);
    if options.is_traced {
        print!("{}{}", report.trace.lines(), report.files);
        let path = format!("sim-{}.json", case.seed);
        match std::fs::write(&path, report.trace.timeline().to_string()) {
            Ok(()) => println!("{path}: open it in https://ui.perfetto.dev"),
            Err(error) => eprintln!("{path}: {error}"),
        }
    }
    let (sources, events) = case.size();
    println!("{sources} sources, {events} events; faults: {}", case.faults);
    println!("{}; {} steps", report.fragments, report.trace.count());
    if options.shows_hash {
        println!("trace {:016x}", report.trace.hash());
    }
    match report.failure {
        None => {
            println!("all rules hold");
            ExitCode::SUCCESS
        }
        Some(why) => {
            show(options, case, why);
            ExitCode::FAILURE
        }
    }
}

/// Prints a failing run, and the smallest one like it.
fn show(options: &Options, case: Case, why: String) {
    println!("seed {case}: {why}");
    if !options.keeps_size {
        let (smallest, why) = shrink::shrink(case, why);
        println!("make sim SEED=\"{smallest}\"    # {why}");
    }
}

/// The results of all threads.
#[derive(Default)]
struct Found {
    happened: BTreeMap<Fault, (u64, u64)>,
    fragments: Fragments,
    ledger: SourceLedger,
    failed: Vec<u64>,
    hash: u64,
}

impl Found {
    fn add(&mut self, seed: u64, report: &Report) {
        for (&fault, &count) in &report.happened {
            let (runs, times) = self.happened.entry(fault).or_default();
            (*runs, *times) = (*runs + 1, *times + count);
        }
        self.fragments.add(&report.fragments);
        self.ledger.add(&report.ledger);
        // Threads finish their seeds in any order.
        self.hash = self.hash.wrapping_add(report.trace.hash());
        if report.failure.is_some() {
            self.failed.push(seed);
        }
    }
}

fn many(options: &Options) -> ExitCode {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let first = options.seed.unwrap_or(now << 24);
    let count = options.seeds.unwrap_or(u64::MAX - first);
    println!("seeds from {first} on, {} at once", options.threads);
    let (next, found, began) = (AtomicU64::new(0), Mutex::new(Found::default()), Instant::now());
    let work = || {
        loop {
            let index = next.fetch_add(1, Relaxed);
            if index >= count {
                return;
            }
            let case = options.case(first + index);
            let report = simulate(case, false);
            found.lock().expect("no thread panics").add(case.seed, &report);
            if let Some(why) = report.failure {
                show(options, case, why);
                if options.ends_at_first {
                    next.store(count, Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.threads).map(|_| scope.spawn(work)).collect();
        let mut shown = Instant::now();
        while threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            if shown.elapsed() >= SHOWN_EVERY {
                shown = Instant::now();
                let done = next.load(Relaxed).min(count);
                let minutes = began.elapsed().as_secs_f64() / 60.0;
                let failed = found.lock().expect("no thread panics").failed.len();
                println!("{done} seeds, {:.0} a minute, {failed} failed", done as f64 / minutes);
            }
        }
    });
    let found = found.into_inner().expect("no thread panics");
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    println!("{count} seeds in {:.1} s, {:.0} a minute", minutes * 60.0, count as f64 / minutes);
    let Fragments { sent, recorded, .. } = found.fragments;
    let percent = 100.0 * recorded as f64 / sent.max(1) as f64;
    println!("{}, {percent:.1} %", found.fragments);
    for (entry, count) in found.ledger.iter().filter(|(_, count)| *count > 0) {
        println!("{:>32} {count:>12}", entry.name());
    }
    for fault in Fault::ALL {
        let (runs, times) = found.happened.get(fault).copied().unwrap_or_default();
        println!("{:>14} {runs:>8} runs {times:>10} times", fault.name());
    }
    if options.shows_hash {
        println!("traces {:016x}", found.hash);
    }
    println!("{} failed: {:?}", found.failed.len(), found.failed);
    if found.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
