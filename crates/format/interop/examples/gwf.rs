//! Examines GWF files, and measures how fast channels are read.
//!
//! ```text
//! gwf list FILE                   what a file holds
//! gwf sum FILE                    reads everything, prints sums of the samples' bytes
//! gwf speed CHANNEL FILE...       opens each file and reads one channel of all its frames
//! gwf write FILE CHANNELS RATE FRAMES SECONDS [raw]   writes float32 noise
//! ```
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an example opens files and takes the time"
)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use catchment_interop::ReadAt;
use catchment_interop::gwf::{
    Compress, FrameStart, GwfFile, GwfWriter, Series, VectorType, WriteOptions,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["list", path] => list(path),
        ["sum", path] => sum(path),
        ["speed", channel, ref paths @ ..] => speed(channel, paths),
        ["write", path, channels, rate, frames, seconds] => {
            let compress = Compress::Zlib { level: 1 };
            write(path, compress, [channels, rate, frames, seconds])
        }
        ["write", path, channels, rate, frames, seconds, "raw"] => {
            write(path, Compress::Raw, [channels, rate, frames, seconds])
        }
        _ => Err("gwf list FILE | sum FILE | speed CHANNEL FILE... | write FILE ...".into()),
    }
}

/// A file that can be read at any offset.
struct Source(File);

impl ReadAt for Source {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn bytes(&self) -> std::io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}

fn list(path: &str) -> Result<()> {
    let file = GwfFile::open(Source(File::open(path)?))?;
    println!("{:?}", file.index());
    for frame in file.frames() {
        println!("{frame:?}");
    }
    for (index, channel) in file.channels().iter().enumerate() {
        println!("{} {:?}", channel.name, file.info(index, 0)?);
    }
    file.verify()?;
    Ok(())
}

fn sum(path: &str) -> Result<()> {
    let file = GwfFile::open(Source(File::open(path)?))?;
    let mut samples = Vec::new();
    for (index, channel) in file.channels().iter().enumerate() {
        for frame in 0..file.frames().len() {
            let Some(info) = file.read(index, frame, &mut samples)? else { continue };
            let hex: String = samples.iter().map(|byte| format!("{byte:02x}")).collect();
            println!("{} {frame} {:?} {hex}", channel.name, info.kind);
        }
    }
    Ok(())
}

fn speed(channel: &str, paths: &[&str]) -> Result<()> {
    let start = Instant::now();
    let mut bytes = 0;
    let mut samples = Vec::new();
    for path in paths {
        let file = GwfFile::open(Source(File::open(path)?))?;
        let index = file.find(channel).ok_or("no such channel")?;
        for frame in 0..file.frames().len() {
            file.read(index, frame, &mut samples)?;
            bytes += samples.len();
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{bytes} bytes in {seconds:.4} s: {:.1} MB/s", bytes as f64 / seconds / 1e6);
    Ok(())
}

fn write(path: &str, compress: Compress, numbers: [&str; 4]) -> Result<()> {
    let [channels, rate, frames, seconds] = numbers.map(str::parse::<u32>);
    let (channels, rate, frames, seconds) = (channels?, rate?, frames?, seconds?);
    let options = WriteOptions { compress, ..WriteOptions::new("X1") };
    let out = std::io::BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut writer = GwfWriter::new(out, options)?;
    let names: Vec<String> = (0..channels).map(|index| format!("X1:NOISE-{index:04}")).collect();
    let mut state = 1u64;
    for frame in 0..frames {
        let noise: Vec<u8> = (0..rate * seconds)
            .flat_map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                ((state >> 40) as f32 / 1e7 - 0.8).to_le_bytes()
            })
            .collect();
        let start = FrameStart::new(1_400_000_000 + frame * seconds, seconds.into());
        let dx = 1.0 / f64::from(rate);
        let series: Vec<Series<'_>> =
            names.iter().map(|name| Series::new(name, VectorType::F32, dx, &noise)).collect();
        writer.frame(&FrameStart { number: frame, ..start }, &series)?;
    }
    writer.finish()?;
    Ok(())
}
