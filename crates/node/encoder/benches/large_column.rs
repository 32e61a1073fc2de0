//! One large column on one and on two encode threads: `cargo bench -p catchment-encoder`, with the
//! column's MiB behind `--`, else 256.

use std::thread::scope;
use std::time::Instant;

use catchment_agent::Agent;
use catchment_encoder::{Ask, Buffers, Coding, Element, EncoderPool, Level, PoolConfig, Rule};

fn main() {
    let mib = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(256);
    let mut state = 1_u64;
    let sample = |n: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((n / 5_000) as u16 ^ (state >> 59) as u16).to_le_bytes()
    };
    let mut column: Vec<u8> = (0..mib << 19).flat_map(sample).collect();
    println!("{mib} MiB of 16-bit samples: GB/s with 1 thread, with 2, ratio of the two");
    for coding in ["bitshuffle+lz4", "bitshuffle+zstd:1", "for", "lz4", "zstd:3"] {
        let mut speeds = Vec::new();
        let mut stored_bytes = 0;
        for threads in [1, 2] {
            let mut best_s = f64::INFINITY;
            for _ in 0..3 {
                let seconds;
                (column, stored_bytes, seconds) = encode(column, coding.parse().unwrap(), threads);
                best_s = best_s.min(seconds);
            }
            speeds.push(column.len() as f64 / 1e9 / best_s);
        }
        let (one, two, part) = (speeds[0], speeds[1], stored_bytes as f64 / column.len() as f64);
        println!("{coding:18} {one:.2} {two:.2} {:.2}, {part:.3} stored", two / one);
    }
}

/// Encodes a column, and returns it with its stored bytes and the time taken.
fn encode(column: Vec<u8>, coding: Coding, threads: usize) -> (Vec<u8>, usize, f64) {
    let bytes_max = 32 << 20;
    let buffers = Buffers::new(bytes_max);
    let mut pool = EncoderPool::new(PoolConfig { bytes_max, buffers, ..PoolConfig::default() });
    let (element, rule) = (Element::U16, Rule::Fixed(coding));
    let begun = Instant::now();
    pool.put(column, Ask { element, rule, level: Level::AsAsked });
    let mut first = pool.encoder();
    // The pieces are there once the column has been prepared.
    first.work(0);
    scope(|scope| {
        for mut encoder in (1..threads).map(|_| pool.encoder()) {
            scope.spawn(move || while encoder.work(0).done > 0 {});
        }
        while first.work(0).done > 0 {}
    });
    let done = pool.take().expect("it is encoded");
    let seconds = begun.elapsed().as_secs_f64();
    let stored_bytes = done.stored_bytes();
    (done.column, stored_bytes, seconds)
}
