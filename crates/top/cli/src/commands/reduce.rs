//! `catchment reduce`: a smaller run, of some channels and at lower rates.

use std::path::PathBuf;

use catchment_config::Time;
use catchment_console::{Exit, Out, Stop, progress};
use catchment_model::SampleRate;
use catchment_model::units::grouped;
use catchment_storage::{
    Codings, ColumnCoding, PatternError, ReduceOptions, Reduction, Run, Selection, reduce,
};

use super::reframe::{Files, name_of, say};
use crate::export::part::NewFolder;
use crate::left_out::{report_damage, report_left_out};
use crate::names;

/// Writes a reduced data set: chosen channels, decimated where asked.
///
/// Decimation uses a linear-phase filter whose delay is compensated: the pass band, up to 0.8 of
/// the new Nyquist frequency, changes by less than 0.01 dB; aliases are suppressed by at least
/// 100 dB. At the ends and on both sides of each gap the filter lacks neighbours: 28 to 30 samples
/// of the new rate are left out there, and the report says how many seconds that is of each
/// channel; exit code 3 if nothing is left of one that had samples. A damaged column becomes a gap
/// and is reported; exit code 3.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A .catch file or a run's folder
    path: PathBuf,
    /// The new run's folder; it must not be there
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Channels by name or pattern, with a rate if they are to be decimated:
    /// "L1:FAST-*=256 Hz"; may be repeated, the last that fits applies
    #[arg(long, alias = "channels", value_name = "PATTERN[=RATE]", value_parser = selection,
          required = true)]
    channel: Vec<Selection>,
    /// Time of data in a frame; default: as in the run's first frame
    #[arg(long, value_name = "TIME")]
    frame: Option<Time>,
    /// Round decimated integers to their own type instead of converting them to floats
    #[arg(long)]
    keep_type: bool,
    /// How columns are compressed: none, lz4, zstd:3, bitshuffle+lz4, shuffle+zstd:1, pcodec, for,
    /// portable (other programs read it, too), auto
    #[arg(long, default_value = "auto")]
    codec: ColumnCoding,
    #[command(flatten)]
    files: Files,
}

fn selection(text: &str) -> Result<Selection, String> {
    let (pattern, rate) = match text.rsplit_once('=') {
        Some((pattern, rate)) => (pattern, Some(rate)),
        None => (text, None),
    };
    let pattern = pattern.parse().map_err(|error: PatternError| error.to_string())?;
    let rate = rate.map(str::parse::<SampleRate>).transpose().map_err(|error| error.to_string())?;
    Ok(Selection { pattern, rate })
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let run = Run::open(&arguments.path)?;
    let exit = report_damage(&run);
    let patterns: Vec<_> = arguments.channel.iter().map(|one| one.pattern.clone()).collect();
    names::channels(&run, &patterns)?;
    let options = ReduceOptions {
        select: arguments.channel.clone(),
        frame_ns: arguments.frame.map(|time| time.0),
        keep_dtype: arguments.keep_type,
        codings: Codings::new(arguments.codec),
        write: arguments.files.options(),
    };
    let (folder, stop) = (NewFolder::make(&arguments.out)?, Stop::listen()?);
    let bar = progress(out, "reducing", 0);
    let report = reduce(&run, &arguments.out, &name_of(&arguments.out), &options, |done| {
        bar.set_length(done.frames_total as u64);
        bar.set_position(done.frames as u64);
        stop.go_on()
    })?;
    folder.keep();
    bar.finish_and_clear();
    let decimated = report.decimated.iter().map(in_json).collect::<Vec<_>>();
    say(&arguments.out, &report.write, &[("decimated", decimated.into())], out)?;
    for reduction in report.decimated.iter().take(SHOWN_MAX) {
        out.say(format!("  {}", in_words(reduction)))?;
    }
    if report.decimated.len() > SHOWN_MAX {
        out.say(format!("  and {} more", report.decimated.len() - SHOWN_MAX))?;
    }
    if report.saturated > 0 {
        out.say(format!("  {} numbers were set to a limit of their type", report.saturated))?;
    }
    // Of a channel that never delivered anything, nothing was lost.
    let empty = report.decimated.iter();
    let empty = empty.filter(|one| one.samples_before > 0 && one.samples_after == 0);
    let empty = empty.map(|one| format!("{}: nothing is left at {}", one.name, one.rate_after));
    let left_out: Vec<_> = report.write.left_out.iter().cloned().chain(empty).collect();
    Ok(exit.and(report_left_out(&left_out)))
}

fn in_words(reduction: &Reduction) -> String {
    let Reduction { name, rate_before, rate_after, samples_before, samples_after } = reduction;
    let (before, after) = (grouped(*samples_before), grouped(*samples_after));
    let seconds = reduction.seconds_left_out();
    format!(
        "{name}: {rate_before} -> {rate_after}, {before} samples -> {after}; {seconds:.1} s at \
         the ends and gaps are left out"
    )
}

fn in_json(reduction: &Reduction) -> serde_json::Value {
    serde_json::json!({
        "name": reduction.name,
        "rate_before_hz": reduction.rate_before.hz(),
        "rate_after_hz": reduction.rate_after.hz(),
        "samples_before": reduction.samples_before,
        "samples_after": reduction.samples_after,
        "seconds_left_out": reduction.seconds_left_out(),
    })
}

/// Decimated channels that are shown.
const SHOWN_MAX: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_is_a_pattern_and_perhaps_a_rate() {
        assert_eq!(
            selection("L1:*"),
            Ok(Selection { pattern: "L1:*".parse().unwrap(), rate: None })
        );
        let decimated = selection("L1:FAST-*=256 Hz").expect("a selection");
        assert_eq!(decimated.rate, SampleRate::new(256, 1).ok());
        assert!(selection("L1:*=fast").is_err() && selection("L1:[=256 Hz").is_err());
    }
}
