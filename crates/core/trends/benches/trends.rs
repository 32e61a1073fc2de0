//! The kernels alone, on one core: GB/s of raw samples for each type and several rates.
//!
//! `cargo bench -p catchment-trends [-- --quick]`. A column of 1 MiB, as a worker of the codec pool
//! has it in its cache, is turned into a partial again and again; the shortest of the rounds
//! counts, because a shared machine takes the core away now and then. The last column is what share
//! of a core 100 MB/s take. The last row is the mixture of the emulator's thousand channels, in
//! frames of 64 s.

#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a bench reads the clock")]

use std::hint::black_box;
use std::time::Instant;

use catchment_frame::Dtype;
use catchment_model::SampleRate;
use catchment_trends::{Partial, TrendChannel};

const DTYPES: [Dtype; 12] = [
    Dtype::I16,
    Dtype::F32,
    Dtype::U8,
    Dtype::I8,
    Dtype::U16,
    Dtype::U32,
    Dtype::I32,
    Dtype::U64,
    Dtype::I64,
    Dtype::F64,
    Dtype::C64,
    Dtype::C128,
];
const COLUMN_BYTES: usize = 1 << 20;

fn main() {
    // The test command runs benches too, small: only `cargo bench` says `--bench`.
    let has = |wanted: &str| std::env::args().any(|argument| argument == wanted);
    let quick = has("--quick") || !has("--bench");
    let (rounds, turns) = if quick { (1, 2) } else { (30, 40) };
    println!("| type | rate | values | GB/s | share of a core at 100 MB/s |");
    println!("|---|---:|---|---:|---:|");
    for dtype in DTYPES {
        for (hz, scaled) in [(16_384, false), (16_384, true), (256, false), (16, false)] {
            if hz != 16_384 && !matches!(dtype, Dtype::I16 | Dtype::F32) {
                continue;
            }
            let rate = SampleRate::new(hz, 1).expect("sound");
            let mut channel = TrendChannel::new(dtype, &[], rate).expect("numbers");
            if scaled {
                channel = channel.scaled(1.5e-3, -2.0).expect("finite");
            }
            let gb_per_s = measure(&channel, &column(dtype), rounds, turns);
            let values = if scaled { "scaled" } else { "raw" };
            let share = 10.0 / gb_per_s;
            println!("| {} | {rate} | {values} | {gb_per_s:.1} | {share:.2} % |", dtype.name());
        }
    }
    let gb_per_s = thousand_channels(rounds);
    println!("| 1,000 channels | mixed | raw | {gb_per_s:.1} | {:.2} % |", 10.0 / gb_per_s);
}

/// The mixture of the preset `ligo-1000`: half of each rate `f32`, half `i16`.
fn thousand_channels(rounds: usize) -> f64 {
    let (mut bytes, mut seconds) = (0.0, 0.0);
    for (hz, channels) in [(16_384, 50), (2_048, 150), (256, 300), (16, 500)] {
        for (dtype, sample_bytes) in [(Dtype::F32, 4), (Dtype::I16, 2)] {
            let rate = SampleRate::new(hz, 1).expect("sound");
            let channel = TrendChannel::new(dtype, &[], rate).expect("numbers");
            let frame_bytes = hz as usize * 64 * sample_bytes;
            let column = &column(dtype)[..frame_bytes.min(COLUMN_BYTES)];
            let gb_per_s = measure(&channel, column, rounds, channels / 2);
            let of_rate = (frame_bytes * channels / 2) as f64;
            bytes += of_rate;
            seconds += of_rate / gb_per_s / 1e9;
        }
    }
    bytes / seconds / 1e9
}

fn measure(channel: &TrendChannel, column: &[u8], rounds: usize, turns: usize) -> f64 {
    let mut partial = Partial::default();
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let started = Instant::now();
        for turn in 0..turns {
            let first = 1_000_000_000 + turn as u64;
            let done = channel.partial_into(first, &[], black_box(column), &mut partial);
            done.expect("whole samples");
            black_box(&partial);
        }
        best = best.min(started.elapsed().as_secs_f64());
    }
    assert!(!partial.seconds().is_empty());
    (column.len() * turns) as f64 / best / 1e9
}

/// Noise that is finite in every type.
fn column(dtype: Dtype) -> Vec<u8> {
    let mut random = 1_u64;
    let numbers = std::iter::repeat_with(|| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as i16
    });
    match dtype {
        Dtype::F32 | Dtype::C64 => {
            numbers.take(COLUMN_BYTES / 4).flat_map(|x| f32::from(x).to_le_bytes()).collect()
        }
        Dtype::F64 | Dtype::C128 => {
            numbers.take(COLUMN_BYTES / 8).flat_map(|x| f64::from(x).to_le_bytes()).collect()
        }
        _ => numbers.take(COLUMN_BYTES / 2).flat_map(i16::to_le_bytes).collect(),
    }
}
