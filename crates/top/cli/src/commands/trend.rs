//! `catchment trend`: trends of a run that was recorded without.

use std::path::PathBuf;

use catchment_storage::{Codings, ColumnCoding, Run, TrendKind, TrendOptions, make_trends};

use crate::output::{Exit, Out, UsageError, progress};

/// Computes mean, minimum, maximum, rms and count of every channel, per second and per minute, into
/// RUN/trends.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A run's folder
    path: PathBuf,
    /// How columns are compressed: none, lz4, zstd:3, bitshuffle+lz4, shuffle+zstd:1, pcodec, for, auto
    #[arg(long, default_value = "auto")]
    codec: ColumnCoding,
    /// Delete the channels' trends that are there first, such as those of a recorder that was killed
    /// before the last of them were in files. Those of the recorder's own counters stay
    #[arg(long)]
    replace: bool,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let run = Run::open(&arguments.path)?;
    if arguments.replace {
        replace(&run)?;
    }
    let options = TrendOptions { codings: Codings::new(arguments.codec) };
    let bar = progress(out, "computing trends", run.channel_frames().len() as u64);
    let report = make_trends(&run, &options, |done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    })?;
    bar.finish_and_clear();
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
    Ok(Exit::Done)
}

/// Deletes the trends of a run's channels.
fn replace(run: &Run) -> anyhow::Result<()> {
    if run.being_recorded() {
        anyhow::bail!(UsageError("the run is being recorded, and its trends with it".into()));
    }
    for folder in [TrendKind::Second, TrendKind::Minute].map(|kind| run.trend_folder(kind)) {
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let message = format!("cannot delete {}", folder.display());
                return Err(anyhow::Error::new(error).context(message));
            }
            _ => {}
        }
    }
    Ok(())
}
