//! The builder alone: fragments per second on one core, cuts included.
//!
//! `cargo bench -p catchment-builder [-- --quick]`. Sources as HADES has them (means of 116, 338
//! and 1,170 bytes in the proportion 6 : 2 : 1) at 50 kHz of virtual time. A source's fragments
//! come in packets: one push each, and a poll after every 64 pushes. Packets of one fragment come
//! event by event, which is the hardest case: each touches another source. The descriptors, about
//! 10,000 at a time, are prepared outside the measured time. All rounds do the same; for each such
//! batch the shortest time counts, because a shared machine takes the core away now and then.
//! Then follow sources that promise, with keys that are further apart than the window, and events
//! by time, 20 us apart, with a window of 100 ns and one of 100 ms.
//!
//! Last, or alone with `-- --ratios`, what is asked of the matcher by time: its rate over that of
//! the matcher by number at 10 sources, its rate at 1,000 sources over that at 10, and its cost
//! with longer windows over that with the shortest. What is compared is measured in turn, round by
//! round, and the median of the ratios is printed: a machine that is slower for a while is so for
//! all. A round's cost is that of its median batch.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use catchment_builder::{
    Builder, BuilderConfig, ClockConfig, Cut, Fragment, Matcher, SourceRole, TimeConfig,
    TimeMatcher,
};

const SOURCE_COUNTS: [usize; 6] = [1, 10, 90, 100, 300, 1_000];
const BATCH_FRAGMENTS: usize = 10_000;
const RUNS: [usize; 3] = [100, 10, 1];
/// Keys further apart than two windows.
const APART: u64 = 1 << 20;

fn main() {
    // The test command runs benches too, small: only `cargo bench` says `--bench`.
    let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    let quick = has("--quick") || !has("--bench");
    let (fragments, rounds) = if quick { (200_000, 1) } else { (6_000_000, 3) };
    if has("--ratios") {
        return ratios(quick);
    }
    println!("| sources | fragments per packet | M fragments/s | ns/fragment | frames |");
    println!("|---:|---:|---:|---:|---:|");
    // A profiler looks at one case: `SOURCESxRUN`.
    let only = std::env::args().find_map(|argument| {
        let (sources, run) = argument.split_once('x')?;
        Some((sources.parse().ok()?, run.parse().ok()?))
    });
    let all = RUNS.into_iter().flat_map(|run| SOURCE_COUNTS.map(|sources| (sources, run)));
    let print = |source_count, run, fragments, apart: u64| {
        let mut best = Round::default();
        for _ in 0..rounds {
            best.keep_best_of(measure(source_count, run, fragments, apart));
        }
        let ns = best.batches_ns.iter().sum::<u64>() as f64 / best.fragments as f64;
        let (rate, frames) = (1e3 / ns, best.frames);
        let apart = if apart > 1 { format!(", {apart} apart") } else { String::new() };
        println!("| {source_count} | {run}{apart} | {rate:.1} | {ns:.1} | {frames} |");
    };
    for (source_count, run) in only.map_or_else(|| all.collect(), |only| vec![only]) {
        print(source_count, run, fragments, 1);
    }
    if only.is_none() {
        [10, 1_000].into_iter().for_each(|sources| print(sources, 1, fragments / 30, APART));
        for (sources, run, window_ns) in BY_TIME {
            let mut best = Round::default();
            for _ in 0..rounds {
                best.keep_best_of(measure_by_time(sources, run, fragments, window_ns));
            }
            let ns = best.batches_ns.iter().sum::<u64>() as f64 / best.fragments as f64;
            let (rate, frames) = (1e3 / ns, best.frames);
            println!(
                "| {sources} | {run}, by time, {window_ns} ns | {rate:.1} | {ns:.1} | {frames} |"
            );
        }
        println!();
        ratios(quick);
    }
}

/// Prints what is asked of the matcher by time, beside what it is to be.
fn ratios(quick: bool) {
    let (fragments, rounds) = if quick { (20_000, 1) } else { (1_000_000, 7) };
    // Of a batch: those during which the core was taken away do not count.
    let cost = |mut round: Round| {
        round.batches_ns.pop();
        let batches = round.batches_ns.len() as f64;
        let batch_ns = median(round.batches_ns.into_iter().map(|ns| ns as f64).collect());
        batch_ns * batches / round.fragments as f64
    };
    println!(
        "| fragments per packet | time / number, 10 sources | time, 1,000 sources / 10 | highest \
         cost of a window / that of 100 ns, 10 sources | 1,000 sources |"
    );
    println!("|---:|---:|---:|---:|---:|");
    println!("| to be | at least 0.20 | at least 0.60 | 1 | 1 |");
    for run in RATIO_RUNS {
        let mut all = [const { Vec::new() }; 4];
        for _ in 0..rounds {
            let by_number = cost(measure(10, run, fragments, 1));
            let by_window = [(10, run), (1_000, run.min(10))].map(|(sources, run)| {
                WINDOWS_NS.map(|ns| cost(measure_by_time(sources, run, fragments, ns)))
            });
            let highest = |costs: [f64; 4]| costs.into_iter().fold(0.0, f64::max) / costs[0];
            let [few, many] = by_window;
            let round = [by_number / few[0], few[0] / many[0], highest(few), highest(many)];
            all.iter_mut().zip(round).for_each(|(all, one)| all.push(one));
        }
        let [number, many, flat_few, flat_many] = all.map(median);
        println!("| {run} | {number:.2} | {many:.2} | {flat_few:.2} | {flat_many:.2} |");
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Fragments per packet in the ratios; of 1,000 sources 10 at most, so that batches stay small.
const RATIO_RUNS: [usize; 3] = [100, 10, 1];
/// From far below the time between events to 5,000 of them.
const WINDOWS_NS: [u64; 4] = [100, 10_000, 1_000_000, 100_000_000];

/// Sources, fragments per packet, and the window in ns.
const BY_TIME: [(usize, usize, u64); 8] = [
    (10, 100, 100),
    (10, 1, 100),
    (10, 100, 100_000_000),
    (10, 1, 100_000_000),
    (1_000, 10, 100),
    (1_000, 1, 100),
    (1_000, 10, 100_000_000),
    (1_000, 1, 100_000_000),
];
/// From one event to the next, on the clocks.
const EVENT_NS: u64 = 20_000;

fn measure_by_time(source_count: usize, run: usize, fragments: usize, window_ns: u64) -> Round {
    let config = BuilderConfig::new(vec![SourceRole::Required; source_count]);
    let clock = ClockConfig { rate_hz: 1_000_000_000, bits: 48, ..ClockConfig::NS };
    let time = TimeConfig::new(window_ns, vec![clock; source_count], config.timeout_ns);
    let matcher = TimeMatcher::new(&config, &time).expect("sound");
    let builder = Builder::with_matcher(&config, matcher).expect("sound");
    measure_with(builder, Pool::new(source_count, run, EVENT_NS), fragments)
}

#[derive(Default)]
struct Round {
    batches_ns: Vec<u64>,
    fragments: u64,
    frames: u64,
}

impl Round {
    fn keep_best_of(&mut self, other: Self) {
        if self.batches_ns.is_empty() {
            *self = other;
        } else {
            let both = self.batches_ns.iter_mut().zip(other.batches_ns);
            both.for_each(|(mine, theirs)| *mine = theirs.min(*mine));
        }
    }
}

fn measure(source_count: usize, run: usize, fragment_count: usize, apart: u64) -> Round {
    let pool = Pool::new(source_count, run, apart);
    let mut config = BuilderConfig::new(vec![SourceRole::Required; source_count]);
    if apart > 1 {
        (config.promising, config.number_bits) = (vec![true; source_count], 48);
    }
    measure_with(Builder::new(config).expect("sound"), pool, fragment_count)
}

fn measure_with<M: Matcher>(mut builder: Builder<M>, pool: Pool, fragment_count: usize) -> Round {
    let (source_count, run, batch_events) = (pool.lengths.len() / 64, pool.run, pool.batch_events);
    let events = (fragment_count / source_count).div_ceil(batch_events) * batch_events;
    let mut ends = vec![0; source_count];
    let mut batch = Vec::with_capacity(source_count * batch_events);
    let mut spare: Option<Cut> = None;
    let (mut frames, mut fragments) = (0, 0);
    let mut batches_ns = Vec::with_capacity(events / batch_events + 1);
    for cycle in 0..events / batch_events {
        pool.batch(cycle, &mut ends, &mut batch);
        let started = Instant::now();
        let now_ns = (cycle * batch_events) as u64 * 20_000;
        for (count, packet) in batch.chunks(run).enumerate() {
            builder.push(now_ns, packet);
            if count % 64 == 63 {
                builder.poll(now_ns);
            }
        }
        builder.poll(now_ns);
        while let Some(cut) = builder.cut(now_ns, spare.take()) {
            frames += 1;
            fragments += cut.columns.iter().map(|column| column.fragments).sum::<u64>();
            spare = Some(black_box(cut));
        }
        batches_ns.push(started.elapsed().as_nanos() as u64);
    }
    let started = Instant::now();
    builder.finish(u64::MAX);
    while let Some(cut) = builder.cut(u64::MAX, spare.take()) {
        frames += 1;
        fragments += cut.columns.iter().map(|column| column.fragments).sum::<u64>();
        spare = Some(cut);
    }
    batches_ns.push(started.elapsed().as_nanos() as u64);
    assert_eq!(fragments, (events * source_count) as u64, "every fragment is in a frame");
    assert_eq!(builder.status().events_complete, events as u64, "every event is complete");
    Round { batches_ns, fragments, frames }
}

/// Lengths, drawn before.
struct Pool {
    lengths: Vec<u32>,
    run: usize,
    batch_events: usize,
    /// From one key to the next.
    apart: u64,
}

impl Pool {
    fn new(source_count: usize, run: usize, apart: u64) -> Self {
        let mut random = 1_u64;
        let mut lengths = vec![0; source_count * 64];
        for (index, length) in lengths.iter_mut().enumerate() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mean = match (index / 64) % 9 {
                0..6 => 116,
                6..8 => 338,
                _ => 1_170,
            };
            *length = mean * (80 + (random >> 33) as u32 % 41) / 100 / 4 * 4;
        }
        let batch_events = (BATCH_FRAGMENTS / source_count).div_ceil(run) * run;
        Self { lengths, run, batch_events, apart }
    }

    /// The next events of all sources; fragments follow each other in each source's segment.
    fn batch(&self, cycle: usize, ends: &mut [u64], batch: &mut Vec<Fragment>) {
        batch.clear();
        let first = cycle * self.batch_events;
        for first in (first..first + self.batch_events).step_by(self.run) {
            for (source, end) in ends.iter_mut().enumerate() {
                for event in first..first + self.run {
                    let bytes = self.lengths[source * 64 + event % 64];
                    let number = match self.apart {
                        1 => event as u64 & 0xff_ffff,
                        apart => event as u64 * apart,
                    };
                    batch.push(Fragment::new(source as u32, number, *end, bytes));
                    *end += u64::from(bytes);
                }
            }
        }
    }
}
