//! The time to read one channel of 1,000, including opening the run.
//!
//! `cargo run --release -p catchment-storage --example read_latency -- FOLDER [CODING] [FRAMES]`
//! writes a run of 64 s frames into FOLDER, unless it is there, and reads it back: 50 channels at
//! 16,384 Hz, 150 at 2,048 Hz, 300 at 256 Hz, 500 at 16 Hz, f32 and i16 in turn. Prints medians.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use catchment_frame::{ChannelInfo, Dtype, Schema};
use catchment_model::SampleRate;
use catchment_storage::{
    ChannelColumn, ChannelFrame, Codings, ColumnCoding, ColumnData, Ending, Make, MakeBytes,
    NewRun, Run, RunWriter, Select, WriteOptions,
};

const FRAME_NS: u64 = 64_000_000_000;
const START_NS: u64 = 28_050_300 * FRAME_NS;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = arguments.first().ok_or("which folder?")?;
    let coding = arguments.get(1).map_or("none", String::as_str);
    let frames = arguments.get(2).map_or(Ok(2), |text| text.parse())?;
    let folder = Path::new(folder).join(coding.replace(':', "-"));
    if !folder.exists() {
        write(&folder, coding.parse()?, frames)?;
    }
    let opening = median(|| Run::open(&folder).map(drop))?;
    println!("open                       {opening:>10.1?}");
    for name in ["FAST-0000", "FAST-0001", "MID-0000", "LOW-0000", "LOW-0001", "SLOW-0000"] {
        let name = format!("L1:{name}");
        let last = START_NS + (frames - 1) * FRAME_NS;
        let select = Select::TimeNs(last..last + FRAME_NS);
        let mut bytes = 0;
        let mut read = 0;
        let time = median(|| {
            let run = Run::open(&folder)?;
            let opened = run.bytes_read();
            let segments = run.channel(&name).expect("is there").read(&select)?;
            bytes = segments.iter().map(|segment| segment.bytes.len()).sum::<usize>();
            read = run.bytes_read() - opened;
            Ok(())
        })?;
        let run = Run::open(&folder)?;
        let again = median(|| run.channel(&name).expect("is there").read(&select).map(drop))?;
        println!(
            "{name:<14} {bytes:>9} B {time:>10.1?} with opening, {again:>10.1?} without; {read} B read"
        );
    }
    let run = Run::open(&folder)?;
    let all: Vec<usize> = (0..run.channels().len()).collect();
    let begin = Instant::now();
    let read = run.read_many(&all, &Select::All)?;
    let bytes: usize = read.iter().flatten().map(|segment| segment.bytes.len()).sum();
    let seconds = begin.elapsed().as_secs_f64();
    println!("all channels: {:.2} GB/s of {} MB", bytes as f64 / seconds / 1e9, bytes / 1_000_000);
    Ok(())
}

fn write(folder: &Path, coding: ColumnCoding, frames: u64) -> Result<(), Box<dyn Error>> {
    let mut channels = Vec::new();
    for (name, count, rate) in
        [("FAST", 50, 16_384), ("MID", 150, 2_048), ("LOW", 300, 256), ("SLOW", 500, 16)]
    {
        for number in 0..count {
            let dtype = if number % 2 == 0 { Dtype::F32 } else { Dtype::I16 };
            let name = format!("L1:{name}-{number:04}");
            let info = ChannelInfo::new(name, dtype, SampleRate::new(rate, 1)?);
            channels.push(ChannelInfo { unit: "ct".into(), ..info });
        }
    }
    let schema = Schema::channels(Vec::new(), channels)?;
    let channels: Vec<_> = schema.columns.iter().filter_map(ChannelInfo::of).collect();
    let run = NewRun::new(folder, "bench", schema)?;
    let options = WriteOptions { codings: Codings::new(coding), ..WriteOptions::default() };
    let mut writer = RunWriter::create(run, options)?;
    let begin = Instant::now();
    for frame in 0..frames {
        let start_ns = START_NS + frame * FRAME_NS;
        let makers: Vec<Box<MakeBytes<'_>>> = channels
            .iter()
            .map(|info| {
                let (dtype, id) = (info.dtype, u64::from(info.id));
                let make: Box<MakeBytes<'_>> = Box::new(move |out: &mut [u8]| {
                    noise(dtype, id << 32 | frame, out);
                    Ok(())
                });
                make
            })
            .collect();
        let columns = channels.iter().zip(&makers).map(|(info, make)| {
            let first_sample = info.rate.first_sample_at(start_ns);
            let samples = info.rate.first_sample_at(start_ns + FRAME_NS) - first_sample;
            let raw_bytes = (samples * info.sample_bytes()) as usize;
            let samples = ColumnData::Make(Make { raw_bytes, make });
            ChannelColumn { id: info.id, first_sample, spans: &[], samples }
        });
        let columns = columns.collect();
        let end_ns = start_ns + FRAME_NS;
        writer.write_channels(ChannelFrame {
            start_ns,
            end_ns,
            columns,
            keys: (0, 0),
            increments: None,
        })?;
    }
    let report = writer.finish(Ending { run_ended: true, ..Ending::default() })?;
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "wrote {} MB raw, {} MB stored, in {seconds:.2} s: {:.2} GB/s raw",
        report.raw_bytes / 1_000_000,
        report.stored_bytes / 1_000_000,
        report.raw_bytes as f64 / seconds / 1e9,
    );
    Ok(())
}

/// A slow drift with noise of some tens of counts on it.
fn noise(dtype: Dtype, seed: u64, out: &mut [u8]) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut drift = 0.0f32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let white = ((state & 0xff) + (state >> 8 & 0xff) + (state >> 16 & 0xff)) as f32 - 382.0;
        drift = drift * 0.999 + white * 0.1;
        drift + white * 0.2
    };
    if dtype == Dtype::F32 {
        out.chunks_exact_mut(4).for_each(|b| b.copy_from_slice(&(next() * 1e-3).to_le_bytes()));
    } else {
        out.chunks_exact_mut(2).for_each(|b| b.copy_from_slice(&(next() as i16).to_le_bytes()));
    }
}

fn median(
    mut run: impl FnMut() -> Result<(), catchment_storage::StorageError>,
) -> Result<Duration, Box<dyn Error>> {
    let mut times = Vec::new();
    for _ in 0..21 {
        let begin = Instant::now();
        run()?;
        times.push(begin.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2])
}
