//! The builder alone: fragments per second on one core, cuts included.
//!
//! `cargo bench -p catchment-builder [-- --quick]`. Sources as HADES has them (means of 116, 338 and
//! 1,170 bytes in the proportion 6 : 2 : 1), all descriptors prepared before the clock runs. In
//! *packets* a source's fragments come in runs, in runs of one they come event by event.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use catchment_builder::{Builder, BuilderConfig, Cut, Fragment, SourceRole};

const SOURCE_COUNTS: [usize; 6] = [1, 10, 90, 100, 300, 1_000];

fn main() {
    // The test command runs benches too, small.
    let quick = std::env::args().any(|argument| argument == "--quick" || argument == "--test");
    let (fragments, rounds) = if quick { (200_000, 1) } else { (6_000_000, 3) };
    println!("| sources | run | M fragments/s | ns/fragment | frames |");
    println!("|---:|---:|---:|---:|---:|");
    for run in [100, 8, 1] {
        for source_count in SOURCE_COUNTS {
            let mut results: Vec<(f64, usize)> =
                (0..rounds).map(|_| measure(source_count, run, fragments)).collect();
            results.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (ns, frames) = results[rounds / 2];
            println!("| {source_count} | {run} | {:.1} | {ns:.1} | {frames} |", 1e3 / ns);
        }
    }
}

/// Nanoseconds per fragment, and frames cut.
fn measure(source_count: usize, run: usize, fragment_count: usize) -> (f64, usize) {
    let events = (fragment_count / source_count).div_ceil(run) * run;
    let pool = Pool::new(source_count, run);
    let mut builder =
        Builder::new(BuilderConfig::new(vec![SourceRole::Required; source_count])).expect("sound");
    let mut ends = vec![0; source_count];
    let mut batch = Vec::with_capacity(source_count * run);
    let mut spare: Option<Cut> = None;
    let (mut frames, mut fragments) = (0, 0);
    let mut spent_ns = 0;
    for turn in 0..events / run {
        pool.batch(turn, &mut ends, &mut batch);
        let started = Instant::now();
        // A push per packet, as if it had just been decoded, and a poll per millisecond at 50 kHz.
        let now_ns = (turn * run) as u64 * 20_000;
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
        spent_ns += started.elapsed().as_nanos();
    }
    let started = Instant::now();
    builder.finish(u64::MAX);
    while let Some(cut) = builder.cut(u64::MAX, spare.take()) {
        frames += 1;
        fragments += cut.columns.iter().map(|column| column.fragments).sum::<u64>();
        spare = Some(cut);
    }
    spent_ns += started.elapsed().as_nanos();
    assert_eq!(fragments, (events * source_count) as u64, "every fragment is in a frame");
    assert_eq!(builder.status().events_complete, events as u64, "every event is complete");
    (spent_ns as f64 / fragments as f64, frames)
}

/// Lengths, drawn before.
struct Pool {
    lengths: Vec<u32>,
    run: usize,
}

impl Pool {
    fn new(source_count: usize, run: usize) -> Self {
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
        Self { lengths, run }
    }

    /// The next `run` events of all sources; fragments follow each other in each source's segment.
    fn batch(&self, turn: usize, ends: &mut [u64], batch: &mut Vec<Fragment>) {
        batch.clear();
        for (source, end) in ends.iter_mut().enumerate() {
            for event in turn * self.run..(turn + 1) * self.run {
                let bytes = self.lengths[source * 64 + event % 64];
                batch.push(Fragment::new(source as u32, event as u32 & 0xff_ffff, *end, bytes));
                *end += u64::from(bytes);
            }
        }
    }
}
