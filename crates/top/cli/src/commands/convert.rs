//! `catchment convert`: GWF files into a run, a run into GWF files.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use catchment_console::{Exit, Out, Stop, UsageError, progress};
use catchment_convert::{
    ConvertError, EXTENSION, ExportOptions, ImportOptions, Report, export, import,
};
use catchment_model::units::{Bytes, counted, grouped};
use catchment_storage::{ColumnCoding, Done, Pattern};

use crate::export::part::NewFolder;
use crate::left_out::shortened;
use crate::names;

/// Converts GWF files (IGWD frames version 8) into a run, or a run's channels into GWF files.
///
/// IN is one or more .gwf files or a folder of them; OUT is then the folder of a new run. Or IN is
/// a run (its folder or a .catch file); OUT is then a folder for files
/// SITE-DESCRIPTION-GPS-SECONDS.gwf. Existing files are not changed. Exit code 3: samples, or the
/// flags that mark them as invalid, could not be converted; the omissions are listed and counted.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The inputs, and last the output
    #[arg(value_names = ["IN", "OUT"], num_args = 2.., required = true)]
    paths: Vec<PathBuf>,
    /// Only channels whose names match, may be repeated: "L1:FAST-*"
    #[arg(long, alias = "channels", value_name = "PATTERN")]
    channel: Vec<Pattern>,
    /// Seconds of data in a frame, which ends at a multiple of them
    #[arg(long, value_name = "SECONDS", default_value = "64",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    frame_seconds: u32,
    /// Seconds of data in a GWF file, no less than in a frame; without it those of a frame
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    file_seconds: Option<u32>,
    /// Of GWF files: the letter of the site; without it the first of the channels' names
    #[arg(long, value_name = "LETTERS", value_parser = site)]
    site: Option<String>,
    /// Of GWF files: the description in their names
    #[arg(long, value_name = "NAME", value_parser = description, default_value = "CATCHMENT")]
    description: String,
    /// Of GWF files: the level of zlib from 1 to 9, or 0 for none
    #[arg(long, value_name = "LEVEL", default_value = "2",
          value_parser = clap::value_parser!(u32).range(0..=9))]
    zlib: u32,
    /// Of a run: how columns are compressed
    #[arg(long, default_value = "auto")]
    codec: ColumnCoding,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let Some((output, inputs)) = arguments.paths.split_last() else {
        anyhow::bail!(UsageError("convert needs IN and OUT".into()));
    };
    let stop = Stop::listen()?;
    let bar = progress(out, "converting", 0);
    let go_on = |done: Done| -> ControlFlow<()> {
        bar.set_length(done.frames_total as u64);
        bar.set_position(done.frames as u64);
        stop.go_on()
    };
    let channels = &arguments.channel;
    let files = gwf_files(inputs)?;
    let report = if files.is_empty() {
        let [run] = inputs else {
            anyhow::bail!(UsageError("one run at a time, or .gwf files alone".into()));
        };
        if output.is_file() || has_extension(output) {
            let message = format!("{}: a folder for the .gwf files is wanted", output.display());
            anyhow::bail!(UsageError(message));
        }
        let frame_s = arguments.frame_seconds;
        let file_s = arguments.file_seconds.unwrap_or(frame_s);
        if file_s < frame_s {
            anyhow::bail!(UsageError(format!(
                "--file-seconds {file_s} is less than --frame-seconds {frame_s}: a file has whole \
                 frames"
            )));
        }
        let options = ExportOptions {
            frame_s,
            file_s,
            site: arguments.site,
            description: arguments.description,
            zlib: arguments.zlib,
        };
        export(run, output, channels, &options, go_on).map_err(explained)?
    } else {
        if output.exists() {
            anyhow::bail!(UsageError(format!("{} is there already", output.display())));
        }
        let options = ImportOptions { frame_s: arguments.frame_seconds, codec: arguments.codec };
        let folder = NewFolder::make(output)?;
        let report = import(&files, output, channels, &options, go_on).map_err(explained)?;
        folder.keep();
        report
    };
    bar.finish_and_clear();
    say(&report, output, out)?;
    let whole = report.left_out.is_empty() && !report.stopped;
    Ok(if whole { Exit::Done } else { Exit::Loss })
}

/// A pattern that fits no channel is an option that makes no sense.
fn explained(error: ConvertError) -> anyhow::Error {
    match error {
        ConvertError::UnknownChannel { pattern, channels } => {
            let channels: Vec<&str> = channels.iter().map(String::as_str).collect();
            names::unknown("channel", &pattern, &channels)
        }
        error => error.into(),
    }
}

fn say(report: &Report, output: &Path, out: &mut Out) -> anyhow::Result<()> {
    if out.json {
        out.object(report)?;
    }
    out.say(format_args!(
        "{}: {} channels, {} frames, {} samples ({}) in {} files of {}",
        output.display(),
        grouped(report.channels as u64),
        grouped(report.frames),
        grouped(report.samples),
        Bytes(report.sample_bytes),
        grouped(report.files.len() as u64),
        Bytes(report.file_bytes)
    ))?;
    for left_out in shortened(&report.left_out) {
        out.say(format_args!("  not converted: {left_out}"))?;
    }
    for note in shortened(&report.notes) {
        out.say(format_args!("  omitted: {note}"))?;
    }
    if report.channels_scaled > 0 {
        out.say(format_args!(
            "  note: {} with scale or offset as FrAdcData: most readers give raw counts, the \
             value is raw * slope + bias",
            counted(report.channels_scaled as u64, "channel")
        ))?;
    }
    if report.stopped {
        out.say("  stopped before the end; what was written is whole")?;
    }
    Ok(())
}

/// The GWF files among the inputs, those of folders included; none where a run is meant.
fn gwf_files(inputs: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for input in inputs {
        if input.is_dir() {
            let mut inside = Vec::new();
            for entry in std::fs::read_dir(input)? {
                let path = entry?.path();
                if has_extension(&path) {
                    inside.push(path);
                }
            }
            inside.sort();
            files.extend(inside);
        } else if has_extension(input) {
            files.push(input.clone());
        } else if !files.is_empty() {
            let message = format!("{} is no .gwf file", input.display());
            anyhow::bail!(UsageError(message));
        }
    }
    Ok(files)
}

fn has_extension(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == EXTENSION)
}

fn site(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphabetic());
    if fits { Ok(text.to_owned()) } else { Err("expected letters, such as L or HL".to_owned()) }
}

fn description(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if fits { Ok(text.to_owned()) } else { Err("expected letters, digits and _".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sites_and_descriptions_have_no_hyphens() {
        assert!(site("L").is_ok() && site("HLV").is_ok());
        assert!(site("").is_err() && site("L1").is_err() && site("L-").is_err());
        assert!(description("HOFT_C00").is_ok());
        assert!(description("").is_err() && description("a-b").is_err());
    }
}
