//! `catchment generate`: emulated channels straight into files, without a network between.

use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use catchment_config::{Size, Time};
use catchment_console::{Exit, Out, Stop, UsageError, progress};
use catchment_emulator::{ChannelContent, EmulatedChannel, channel_preset};
use catchment_frame::{ChannelInfo, Schema};
use catchment_model::TimeScale;
use catchment_model::units::Bytes;
use catchment_storage::{
    Codings, ColumnCoding, Ending, NewRun, Pattern, PatternError, RunWriter, WriteOptions,
    WriteReport,
};
use catchment_telemetry::utc_now;

use crate::export::part::NewFolder;
use crate::names;

/// Writes emulated channels directly into a new run.
///
/// Samples are made on the threads that encode them: coloured noise, the same for the same seed,
/// channel and time. Ctrl-C ends the run in order.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The channels: ligo-1000
    #[arg(value_name = "PRESET", default_value = "ligo-1000")]
    preset: String,
    /// The run's folder; it must not be there
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Seconds of data
    #[arg(long, value_parser = catchment_session::seconds, default_value = "64")]
    seconds: f64,
    /// How many times faster than real time: a number, or max
    #[arg(long, value_name = "TIMES", default_value = "max")]
    multiple: Multiple,
    /// Time of data in a frame
    #[arg(long, value_name = "TIME", default_value = "64 s")]
    frame: Time,
    /// How columns are compressed: none, lz4, zstd:3, bitshuffle+lz4, shuffle+zstd:1, pcodec, for,
    /// portable (other programs read it, too), auto
    #[arg(long, default_value = "auto")]
    codec: ColumnCoding,
    /// Another codec for some channels, by name or pattern: "L1:FAST-*=for"; may be repeated, the
    /// last that fits applies
    #[arg(long, value_name = "PATTERN=CODEC", value_parser = rule)]
    rule: Vec<(Pattern, ColumnCoding)>,
    /// Size of a file, in bytes
    #[arg(long, value_name = "SIZE", default_value = "16 GiB")]
    file_bytes: Size,
    /// When the data begin: nanoseconds of TAI, below 2^63, as when they end; without it now, at a
    /// border of frames
    #[arg(long, value_name = "NS")]
    start: Option<u64>,
    /// Seed of the samples
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Threads that generate and encode; 0: one per CPU
    #[arg(long, default_value = "0")]
    threads: usize,
}

/// How much faster than real time; none: as fast as it goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Multiple(pub(super) Option<f64>);

impl std::str::FromStr for Multiple {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self(None));
        }
        match text.parse::<f64>() {
            Ok(times) if (1e-3..=1e9).contains(&times) => Ok(Self(Some(times))),
            _ => Err(format!("expected a number of times real time, or max, got {text:?}")),
        }
    }
}

fn rule(text: &str) -> Result<(Pattern, ColumnCoding), String> {
    let (pattern, coding) = text.rsplit_once('=').ok_or("expected PATTERN=CODEC")?;
    let pattern = pattern.parse().map_err(|error: PatternError| error.to_string())?;
    let coding = coding.parse::<ColumnCoding>().map_err(|error| error.to_string())?;
    Ok((pattern, coding))
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let Some(channels) = channel_preset(&arguments.preset) else {
        let message = format!("no preset {:?}; there is ligo-1000", arguments.preset);
        anyhow::bail!(UsageError(message));
    };
    let names: Vec<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
    names::check(arguments.rule.iter().map(|(pattern, _)| pattern), &names)?;
    if arguments.frame.0 == 0 {
        anyhow::bail!(UsageError("--frame must be longer than 0".into()));
    }
    let start_ns = arguments.start.map_or_else(|| now_at_border(arguments.frame.0), Ok)?;
    let end_ns = end_of(start_ns, arguments.seconds)?;
    let (folder, stop) = (NewFolder::make(&arguments.out)?, Stop::listen()?);
    let begun = Instant::now();
    let report = generate(&arguments, &channels, start_ns..end_ns, &stop, out)?;
    folder.keep();
    let seconds = begun.elapsed().as_secs_f64();
    if out.json {
        out.object(&serde_json::json!({
            "folder": arguments.out,
            "files": report.files.len(),
            "frames": report.frames,
            "start_ns": start_ns,
            "raw_bytes": report.raw_bytes,
            "stored_bytes": report.stored_bytes,
            "file_bytes": report.file_bytes,
            "seconds": seconds,
        }))?;
    }
    out.say(format!(
        "{}: {} channels, {} frames, {} raw in {} on disk ({:.2} to 1), {:.0} MB/s raw",
        arguments.out.display(),
        channels.len(),
        report.frames,
        Bytes(report.raw_bytes),
        Bytes(report.file_bytes),
        report.raw_bytes as f64 / report.stored_bytes.max(1) as f64,
        report.raw_bytes as f64 / seconds / 1e6
    ))?;
    Ok(Exit::Done)
}

/// Writes frame after frame until the time is over or a signal arrives.
fn generate(
    arguments: &Arguments,
    channels: &[EmulatedChannel],
    time_ns: Range<u64>,
    stop: &Stop,
    out: &Out,
) -> anyhow::Result<WriteReport> {
    let Range { start: start_ns, end: end_ns } = time_ns;
    let infos = channels.iter().map(|channel| ChannelInfo {
        shape: channel.shape.clone(),
        unit: channel.unit.clone(),
        ..ChannelInfo::new(&channel.name, channel.dtype, channel.rate)
    });
    let schema = Schema::default().with_channels(infos.collect())?;
    let codings =
        arguments.rule.iter().fold(Codings::new(arguments.codec), |all, (pattern, coding)| {
            all.with(pattern.clone(), *coding)
        });
    let name = arguments.out.file_name().context("a folder's name")?.to_string_lossy();
    let new = NewRun { emulated: true, ..NewRun::new(&arguments.out, name, schema)? };
    let options = WriteOptions {
        file_bytes: arguments.file_bytes.0,
        threads: arguments.threads,
        codings,
        ..WriteOptions::default()
    };
    let mut writer = RunWriter::create(new, options)?;
    let content = ChannelContent::new(arguments.seed, channels);
    let frame_ns = arguments.frame.0;
    let bar = progress(out, "generating", (end_ns - start_ns).div_ceil(frame_ns));
    let begun = Instant::now();
    let mut from_ns = start_ns;
    while from_ns < end_ns && !stop.asked() {
        // Frames end at multiples of their length, whenever the first began.
        let to_ns = ((from_ns / frame_ns + 1).saturating_mul(frame_ns)).min(end_ns);
        if let Multiple(Some(times)) = arguments.multiple {
            let due = Duration::from_secs_f64((to_ns - start_ns) as f64 / 1e9 / times);
            stop.wait(begun + due);
        }
        writer.write_made(from_ns..to_ns, &|channel, first, bytes| {
            content.fill(channel as u32, first, bytes);
        })?;
        bar.inc(1);
        from_ns = to_ns;
    }
    bar.finish_and_clear();
    Ok(writer.finish(Ending { run_ended: true, ..Ending::default() })?)
}

/// Where so many seconds end. Readers have times as signed numbers of 64 bits
/// (docs/spec/link.md, 1.2).
fn end_of(start_ns: u64, seconds: f64) -> anyhow::Result<u64> {
    const END_NS: u64 = i64::MAX as u64;
    let end_ns = start_ns.saturating_add((seconds * 1e9) as u64);
    if end_ns > END_NS {
        anyhow::bail!(UsageError(format!(
            "--start {start_ns} and --seconds {seconds}: the data would end behind {END_NS} ns \
             (2262-04-11), the last time that 64 bits with a sign hold"
        )));
    }
    Ok(end_ns)
}

/// Now in TAI, at the last border of frames.
fn now_at_border(frame_ns: u64) -> anyhow::Result<u64> {
    let utc = utc_now().0;
    Ok(TimeScale::Utc.to_tai_ns(utc) / frame_ns * frame_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_of_real_time_are_numbers_or_max() {
        assert_eq!("max".parse(), Ok(Multiple(None)));
        assert_eq!("2.5".parse(), Ok(Multiple(Some(2.5))));
        for bad in ["", "0", "-1", "NaN", "fast"] {
            assert!(bad.parse::<Multiple>().is_err(), "{bad:?}");
        }
        assert!(rule("L1:FAST-*=lz4").is_ok_and(|(pattern, _)| pattern.as_str() == "L1:FAST-*"));
        assert!(rule("lz4").is_err());
    }
}
