//! The disk's rate: aligned writes through each engine, compared with plain O_DIRECT `pwrite`.
//!
//! `cargo bench -p catchment-disk --bench write -- [FOLDER] [MiB per run] [rounds]`. Files are
//! deleted at once.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use catchment_disk::{DiskConfig, EngineChoice, WriteRate, measure_direct_write};

fn main() {
    let words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let words: Vec<String> = words.collect();
    let folder = words.first().map_or_else(std::env::temp_dir, PathBuf::from);
    // Small by default, so that it can run with the tests.
    let mebibytes: u64 = words.get(1).map_or(64, |text| text.parse().expect("MiB per run"));
    let rounds: usize = words.get(2).map_or(1, |text| text.parse().expect("rounds"));
    println!(
        "{mebibytes} MiB per run in {}: rate and CPU of one core, {rounds} runs, best last",
        folder.display()
    );
    for (engine, name) in
        [(EngineChoice::Auto, "io_uring"), (EngineChoice::Portable, "pwrite thread")]
    {
        for (buffer_mebibytes, buffer_count) in [(1, 4), (1, 16), (2, 8), (4, 4), (4, 8), (8, 4)] {
            let config = DiskConfig {
                buffer_bytes: buffer_mebibytes << 20,
                buffer_count,
                engine,
                ..DiskConfig::default()
            };
            let label = format!("{name}, {buffer_mebibytes} MiB x {buffer_count}");
            report(&label, rounds, || {
                measure_direct_write(&folder, mebibytes << 20, config.clone(), false)
                    .expect("the folder can be written")
            });
        }
    }
    report("one pwrite at a time, 4 MiB", rounds, || plain(&folder, mebibytes));
}

fn report(label: &str, rounds: usize, mut measure: impl FnMut() -> WriteRate) {
    let mut rates: Vec<WriteRate> = (0..rounds).map(|_| measure()).collect();
    rates.sort_by(|a, b| a.bytes_per_second().total_cmp(&b.bytes_per_second()));
    let figures = rates.iter().map(|rate| {
        let (speed, cpu) = (rate.bytes_per_second() / 1e6, rate.cpu_share() * 100.0);
        format!("{speed:5.0} MB/s {cpu:3.0} %")
    });
    println!("{label:32} {}", figures.collect::<Vec<_>>().join(" | "));
}

fn plain(folder: &Path, mebibytes: u64) -> WriteRate {
    let path = folder.join(format!("catchment-plain-{}.tmp", std::process::id()));
    let bytes = 4_usize << 20;
    let layout = Layout::from_size_align(bytes, 4_096).expect("a valid layout");
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc_zeroed(layout) };
    assert!(!memory.is_null(), "4 MiB of memory");
    // SAFETY: the memory has just been allocated, is that long, and is initialised.
    let buffer = unsafe { std::slice::from_raw_parts_mut(memory, bytes) };
    for (index, byte) in buffer.iter_mut().enumerate() {
        *byte = (index.wrapping_mul(0x9e37_79b9) >> 16) as u8;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let direct = options.clone().custom_flags(libc::O_DIRECT).open(&path);
    let file = direct.or_else(|_| options.open(&path)).expect("the folder can be written");
    let count = (mebibytes / 4).max(1);
    let (start, cpu_start_ns) = (Instant::now(), cpu_ns());
    for index in 0..count {
        file.write_all_at(buffer, index * bytes as u64).expect("a write");
    }
    file.sync_data().expect("a sync");
    let seconds = start.elapsed().as_secs_f64();
    let cpu_ns = cpu_ns() - cpu_start_ns;
    std::fs::remove_file(&path).expect("the file is there");
    // SAFETY: allocated above with this layout, and `buffer` is not used again.
    unsafe { dealloc(memory, layout) };
    WriteRate { bytes: count * bytes as u64, seconds, cpu_ns }
}

fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` can be written to.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    assert_eq!(result, 0, "a process has a CPU clock");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
