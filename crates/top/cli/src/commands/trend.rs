//! `catchment trend`: computes the trends of a run that was recorded without them.

use std::path::PathBuf;

use catchment_console::{Exit, Out, Stop, UsageError, progress};
use catchment_model::units::grouped;
use catchment_storage::{
    Codings, ColumnCoding, EXTENSION, Run, TrendKind, TrendOptions, make_trends, replace_trends,
};

use crate::left_out::{report_damage, report_left_out};

/// Computes mean, minimum, maximum, rms and count of every channel, per second and per minute, into
/// RUN/trends. Exits with 3 if samples came too late to be in them, or are damaged.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A run's folder
    path: PathBuf,
    /// How columns are compressed: none, lz4, zstd:3, bitshuffle+lz4, shuffle+zstd:1, pcodec, for,
    /// portable (other programs read it, too), auto
    #[arg(long, default_value = "auto")]
    codec: ColumnCoding,
    /// Recompute existing trends, such as those of a recorder that was killed before the last rows
    /// were in files. The old trends stay until the new ones are complete, and where data have been
    /// damaged since; trends of the recorder's own counters are not touched
    #[arg(long)]
    replace: bool,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let run = Run::open(&arguments.path)?;
    if run.channels().is_empty() {
        let message = format!("{} has no channels: trends are theirs", run.path().display());
        anyhow::bail!(UsageError(message));
    }
    match arguments.replace {
        true if run.being_recorded() => {
            let message = "the run is being recorded, and its trends with it";
            anyhow::bail!(UsageError(message.into()));
        }
        false => refuse_where_there_are(&run)?,
        true => {}
    }
    let mut exit = report_damage(&run);
    let options = TrendOptions { codings: Codings::new(arguments.codec) };
    let stop = Stop::listen()?;
    let bar = progress(out, "computing trends", run.channel_frames().len() as u64);
    let at = |done: usize, total: usize| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        stop.go_on()
    };
    let report = match arguments.replace {
        true => replace_trends(&run, &options, at)?,
        false => make_trends(&run, &options, at)?,
    };
    bar.finish_and_clear();
    exit = exit.and(report_left_out(&report.left_out));
    if out.json {
        out.object(&serde_json::json!({
            "second": { "files": report.second.files, "file_bytes": report.second.file_bytes },
            "minute": { "files": report.minute.files, "file_bytes": report.minute.file_bytes },
            "without": report.without,
            "late_samples": report.late_samples,
        }))?;
    }
    for (name, written) in [("second", &report.second), ("minute", &report.minute)] {
        let bytes = catchment_model::units::Bytes(written.file_bytes);
        out.say(format!("  by {name}: {} frames, {bytes}", written.frames))?;
    }
    if !report.without.is_empty() {
        out.say(format!("  without a trend: {}", report.without.join(", ")))?;
    }
    if report.late_samples == 0 {
        return Ok(exit);
    }
    out.say(format_args!(
        "  too late: {} samples are in no row, since their second had been written: frames of the \
         run overlap in time",
        grouped(report.late_samples)
    ))?;
    Ok(Exit::Loss)
}

/// An error if the channels have trends.
fn refuse_where_there_are(run: &Run) -> anyhow::Result<()> {
    for folder in [TrendKind::Second, TrendKind::Minute].map(|kind| run.trend_folder(kind)) {
        // One that is not there, or cannot be listed, is met again when trends are made.
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut paths = entries.map(|entry| entry.path());
        // Files of trends, or tails of them.
        if paths.any(|path| path.is_dir() || path.extension().is_some_and(|ext| ext == EXTENSION)) {
            anyhow::bail!(
                "{} has trends already: a run that was recorded has them from its recorder. \
                 --replace recomputes them",
                folder.display()
            );
        }
    }
    Ok(())
}
