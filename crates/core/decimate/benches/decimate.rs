//! Decimation alone, on one core: millions of input samples per second.
//!
//! `cargo bench -p catchment-decimate [-- --quick]`. The shortest of the rounds counts, because a
//! shared machine takes the core away now and then.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use catchment_decimate::{ChannelDecimator, Decimated, Design, OutputType};
use catchment_frame::Dtype;

const SAMPLES: usize = 1 << 18;

fn main() {
    // The test command runs benches too, small: only `cargo bench` says `--bench`.
    let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    let quick = has("--quick") || !has("--bench");
    let (factors, rounds): (&[u64], _) =
        if quick { (&[2, 8], 1) } else { (&[2, 3, 4, 7, 8, 16, 31, 60, 64, 1_000, 16_384], 15) };
    println!("| factor | taps by stage | design ms | i16 MS/s | f32 MS/s |");
    println!("|---:|---|---:|---:|---:|");
    for factor in factors {
        let started = Instant::now();
        let design = Design::new(*factor).expect("a factor");
        let design_ms = started.elapsed().as_secs_f64() * 1e3;
        let taps: Vec<String> = design.stages().map(|(m, taps)| format!("{taps}/{m}")).collect();
        let [int, float] = [Dtype::I16, Dtype::F32].map(|dtype| measure(&design, dtype, rounds));
        let taps = taps.join(" ");
        println!("| {factor} | {taps} | {design_ms:.1} | {int:.0} | {float:.0} |");
    }
}

fn measure(design: &Design, dtype: Dtype, rounds: usize) -> f64 {
    let noise = (0..SAMPLES).map(|n| (n.wrapping_mul(40_503) % 9_973) as i16);
    let column: Vec<u8> = match dtype {
        Dtype::I16 => noise.flat_map(i16::to_le_bytes).collect(),
        _ => noise.flat_map(|x| f32::from(x).to_le_bytes()).collect(),
    };
    let mut channel =
        ChannelDecimator::new(design, dtype, &[], OutputType::Float).expect("numbers");
    let mut decimated = Decimated::default();
    let mut best = f64::INFINITY;
    for round in 0..rounds {
        decimated.clear();
        let started = Instant::now();
        let done = channel.push((round * SAMPLES) as u64, black_box(&column), &mut decimated);
        done.expect("in order");
        best = best.min(started.elapsed().as_secs_f64());
        black_box(&decimated);
    }
    SAMPLES as f64 / best / 1e6
}
