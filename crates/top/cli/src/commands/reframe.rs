//! `catchment reframe`: other frames, files and codecs for the same data.

use std::path::{Path, PathBuf};

use catchment_builder::WindowKind;
use catchment_config::edit::set;
use catchment_config::{Size, Time};
use catchment_console::{Exit, Out, Stop, UsageError, progress};
use catchment_model::units::Bytes;
use catchment_storage::{
    Codings, ColumnCoding, Rebuilt, ReframeOptions, Run, RunOptions, WriteOptions, WriteReport,
    reframe,
};

use crate::export::part::NewFolder;
use crate::left_out::{report_damage, report_left_out};

/// Rewrites a run's data bit for bit: in longer or shorter frames, in one file or several, with
/// another codec, or, by time, in other events. The run itself is not changed; events that are
/// built again refer to it for their payload. A damaged column of a channel becomes a gap in the
/// new run and is reported; exit code 3.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A .catch file or a run's folder
    path: PathBuf,
    /// The new run's folder; it must not be there
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Time of data in a frame of channels: "64 s"; default: unchanged
    #[arg(long, value_name = "TIME")]
    frame: Option<Time>,
    /// Bytes of a frame of events; default: unchanged
    #[arg(long, value_name = "SIZE")]
    frame_bytes: Option<Size>,
    /// Another codec for all columns: none, lz4, zstd:3, bitshuffle+lz4, shuffle+zstd:1, pcodec,
    /// for, portable (other programs read it, too), auto; default: unchanged
    #[arg(long)]
    codec: Option<ColumnCoding>,
    /// Build events by time again, with this window. The new files have index columns alone: they
    /// name this run, relative to their folder, as the base that has the payload
    #[arg(long, value_name = "TIME", conflicts_with = "frame_bytes")]
    window: Option<Time>,
    /// With --window: within the window of an event's first fragment, or of its last one; default:
    /// as recorded
    #[arg(long, value_name = "first|gap", requires = "window", value_parser = ["first", "gap"])]
    kind: Option<String>,
    /// With --window: copy the payload, too
    #[arg(long, requires = "window")]
    copy: bool,
    /// Where the run is that has the payload, if events were built again without it and the run is
    /// not where the files say
    #[arg(long, value_name = "RUN")]
    base: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
}

/// How files are cut.
#[derive(Debug, clap::Args)]
pub(crate) struct Files {
    /// Size of a file, in bytes
    #[arg(long, value_name = "SIZE", default_value = "16 GiB")]
    file_bytes: Size,
    /// Time of data in a file
    #[arg(long, value_name = "TIME")]
    file_time: Option<Time>,
}

impl Files {
    pub(crate) fn options(&self) -> WriteOptions {
        WriteOptions {
            file_bytes: self.file_bytes.0,
            file_time_ns: self.file_time.map(|time| time.0),
            ..WriteOptions::default()
        }
    }
}

/// The new run's name: that of its folder.
pub(crate) fn name_of(out: &Path) -> String {
    out.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Says what was written; JSON has `more`, too.
pub(crate) fn say(
    folder: &Path,
    report: &WriteReport,
    more: &[(&str, serde_json::Value)],
    out: &mut Out,
) -> anyhow::Result<()> {
    if out.json {
        let mut object = serde_json::json!({
            "folder": folder,
            "files": report.files.len(),
            "frames": report.frames,
            "raw_bytes": report.raw_bytes,
            "stored_bytes": report.stored_bytes,
            "file_bytes": report.file_bytes,
        });
        more.iter().for_each(|(key, value)| object[key] = value.clone());
        return Ok(out.object(&object)?);
    }
    out.line(format!(
        "{}: {} frames in {} file(s), {} raw in {} on disk",
        folder.display(),
        report.frames,
        report.files.len(),
        Bytes(report.raw_bytes),
        Bytes(report.file_bytes)
    ))?;
    Ok(())
}

/// How the run's events are built with another window: otherwise as its configuration has it.
fn rebuilt(run: &Run, window: Time, arguments: &Arguments) -> anyhow::Result<Rebuilt> {
    let refused = |why: String| UsageError(format!("--window: {why}"));
    let mut config = run.config().to_owned();
    let mut put = |key, value: String| {
        config = set(&config, "build.time", key, value.into()).map_err(|_| {
            refused("the run's events are not by time, or its recorder did not say how".into())
        })?;
        Ok::<_, UsageError>(())
    };
    put("window", format!("{} ns", window.0))?;
    if let Some(kind) = &arguments.kind {
        put("kind", kind.clone())?;
    }
    let high =
        catchment_config::check(run.path(), &config).map_err(|error| refused(error.to_string()))?;
    let time = high.recorder.time_config();
    let time = time.ok_or_else(|| refused("the run's events are not by time".into()))?;
    // One set of data for each window and kind; a window has less than 30 bits.
    let by_gap = u32::from(time.kind == WindowKind::Gap) << 30;
    let variant = 1 << 31 | by_gap | time.window_ns as u32;
    Ok(Rebuilt { time, config, variant, copy: arguments.copy })
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let options = RunOptions { base: arguments.base.clone(), ..RunOptions::default() };
    let run = Run::open_with(&arguments.path, options)?;
    let exit = report_damage(&run);
    let options = ReframeOptions {
        frame_ns: arguments.frame.map(|time| time.0),
        frame_bytes: arguments.frame_bytes.map(|size| size.0),
        codings: arguments.codec.map(Codings::new),
        rebuilt: arguments.window.map(|window| rebuilt(&run, window, &arguments)).transpose()?,
        write: arguments.files.options(),
    };
    let (folder, stop) = (NewFolder::make(&arguments.out)?, Stop::listen()?);
    let bar = progress(out, "reframing", 0);
    let report = reframe(&run, &arguments.out, &name_of(&arguments.out), &options, |done| {
        bar.set_length(done.frames_total as u64);
        bar.set_position(done.frames as u64);
        stop.go_on()
    })?;
    folder.keep();
    bar.finish_and_clear();
    say(&arguments.out, &report, &[], out)?;
    Ok(exit.and(report_left_out(&report.left_out)))
}
