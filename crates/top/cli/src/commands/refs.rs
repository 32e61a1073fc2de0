//! `catchment refs`: a run's channels for plain xarray.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use catchment_storage::{Run, glob};

use crate::export::with_suffix;
use crate::output::{Exit, Out, UsageError};
use crate::refs::{Options, references};

/// Writes references with which plain xarray opens the run's channels, without Catchment.
///
/// The references are kerchunk's JSON: open them with
/// `xarray.open_dataset(FILE, engine="kerchunk")`, or through fsspec's "reference" file system. The
/// chunks are the columns in the run's own files. What cannot be pointed at is copied to FILE.data:
/// times, chunks at the run's ends and at gaps. Columns stored by the codec `for` need the Python
/// package catchment installed. Missing samples are NaN; integer channels with gaps become floats.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A .catch file or a run's folder
    path: PathBuf,
    /// The file to write; without it RUN.refs.json beside the run
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only channels whose name fits this pattern (* and ?)
    #[arg(long, value_name = "PATTERN", default_value = "*")]
    channels: String,
    /// What stands before the files' names, such as s3://bucket/run/; without it their paths here
    #[arg(long, value_name = "URL")]
    prefix: Option<String>,
    /// Leaves out the times: start and sample rate stand in the attributes
    #[arg(long)]
    no_times: bool,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let run = Run::open(&arguments.path)?;
    let places = 0..run.channels().len();
    let channels: Vec<_> = places
        .filter_map(|place| run.channel_at(place))
        .filter(|channel| glob::matches(&arguments.channels, &channel.info().name))
        .collect();
    if channels.is_empty() {
        let all = run.channels().len();
        let message = format!("none of the run's {all} channels fits {:?}", arguments.channels);
        anyhow::bail!(UsageError(message));
    }
    let output = arguments.output.clone().unwrap_or_else(|| beside(run.path()));
    let data = with_suffix(&output, ".data");
    let prefix = arguments.prefix.as_deref();
    let options = Options {
        prefix,
        copies: match prefix {
            Some(prefix) => {
                format!("{prefix}{}", data.file_name().unwrap_or_default().to_string_lossy())
            }
            None => std::path::absolute(&data)?.display().to_string(),
        },
        times: !arguments.no_times,
    };
    let data_part = with_suffix(&data, ".part");
    let file =
        File::create(&data_part).with_context(|| format!("cannot make {}", data_part.display()))?;
    let mut copies = BufWriter::with_capacity(1 << 20, file);
    let (references, summary) = references(&run, &channels, &options, &mut copies)?;
    copies.flush().with_context(|| format!("cannot write {}", data_part.display()))?;
    // Under their names only when both are whole.
    let part = with_suffix(&output, ".part");
    std::fs::write(&part, references.to_string())
        .and_then(|()| std::fs::rename(&data_part, &data))
        .and_then(|()| std::fs::rename(&part, &output))
        .with_context(|| format!("cannot write {}", output.display()))?;
    if out.json {
        let mut object = serde_json::to_value(&summary)?;
        object["file"] = output.display().to_string().into();
        out.object(&object)?;
    }
    for line in &summary.left_out {
        out.say(format!("left out: {line}"))?;
    }
    out.say(format!(
        "{}: {} channels, {} chunks where they stand, {} copied ({} bytes)",
        output.display(),
        summary.channels,
        summary.chunks_referenced,
        summary.chunks_copied,
        summary.bytes_copied
    ))?;
    Ok(Exit::Done)
}

/// RUN.refs.json beside RUN.
fn beside(run: &Path) -> PathBuf {
    let run = std::path::absolute(run).unwrap_or_else(|_| run.to_owned());
    with_suffix(&run, ".refs.json")
}
