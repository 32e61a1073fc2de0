//! `catchment refs`: a run's channels for plain xarray.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use catchment_console::{Exit, Out};
use catchment_model::units::{counted, grouped};
use catchment_storage::{Pattern, Run};

use crate::export::with_suffix;
use crate::left_out::report_damage;
use crate::names;
use crate::refs::{Options, references};

/// Writes references with which plain xarray opens the run's channels, without Catchment.
///
/// The references are kerchunk's JSON, for xarray with zarr and fsspec (below). The chunks are the
/// columns in the run's own files. Data that references cannot describe are copied to FILE.data:
/// times, chunks at the run's ends and at gaps, and columns with the codecs `for` and `pcodec`,
/// which plain xarray does not read and which are recompressed. Missing samples are NaN; integer
/// channels with gaps become floats.
///
/// Exit code 3: channels were left out; they are listed with the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// A .catch file or a run's folder
    path: PathBuf,
    /// The file to write; without it RUN.refs.json beside the run
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only channels whose names fit; may be repeated
    #[arg(long, alias = "channels", value_name = "PATTERN")]
    channel: Vec<Pattern>,
    /// Prefix of the names of the .catch files and of FILE.data, such as s3://bucket/run/; default:
    /// their paths on this machine
    #[arg(long, value_name = "URL")]
    prefix: Option<String>,
    /// Reference columns of every codec in the run's files: readers then need the Python package
    /// catchment for `for`, and numcodecs with pcodec
    #[arg(long)]
    as_stored: bool,
    /// Omit the times: start and sample rate are in the attributes
    #[arg(long)]
    no_times: bool,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let run = Run::open(&arguments.path)?;
    let exit = report_damage(&run);
    let indices = names::channels(&run, &arguments.channel)?;
    let channels: Vec<_> = indices.into_iter().filter_map(|index| run.channel_at(index)).collect();
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
        as_stored: arguments.as_stored,
    };
    let data_part = with_suffix(&data, ".part");
    let file =
        File::create(&data_part).with_context(|| format!("cannot make {}", data_part.display()))?;
    let mut copies = BufWriter::with_capacity(1 << 20, file);
    let (references, summary) = references(&run, &channels, &options, &mut copies)?;
    copies.flush().with_context(|| format!("cannot write {}", data_part.display()))?;
    if summary.channels == 0 {
        // What cannot be removed stays as a file that nothing names.
        std::fs::remove_file(&data_part).ok();
        anyhow::bail!("no channel can be referenced: {}", summary.left_out.join("; "));
    }
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
        "{}: {}, {} where they stand, {} copied ({})",
        output.display(),
        counted(summary.channels as u64, "channel"),
        counted(summary.chunks_referenced, "chunk"),
        grouped(summary.chunks_copied),
        counted(summary.bytes_copied, "byte")
    ))?;
    out.say(format!(
        "  {} where they stand checked now; readers of this file check nothing",
        counted(summary.bytes_checked, "byte")
    ))?;
    if summary.channels_transcoded > 0 {
        out.say(format!(
            "  {} of them have columns that plain xarray does not read (for, pcodec): {} chunks \
             recompressed, {} bytes of those copied (--as-stored points at them)",
            summary.channels_transcoded, summary.chunks_transcoded, summary.bytes_transcoded
        ))?;
    }
    say_how_to_read(&output, &data, prefix, out)?;
    Ok(if summary.left_out.is_empty() { exit } else { Exit::Loss })
}

/// Which files must be where, and how to open them.
fn say_how_to_read(
    output: &Path,
    data: &Path,
    prefix: Option<&str>,
    out: &mut Out,
) -> anyhow::Result<()> {
    if let Some(prefix) = prefix {
        let data = data.display();
        out.say(format!("  copy the run's .catch files and {data} to {prefix}, names unchanged"))?;
    }
    // In quotes as Python has them, too.
    let file = serde_json::to_string(&output.display().to_string())?;
    out.say("  in Python:")?;
    Ok(READ.lines().try_for_each(|line| out.say(line.replace("FILE", &file)))?)
}

/// RUN.refs.json beside RUN.
fn beside(run: &Path) -> PathBuf {
    let run = std::path::absolute(run).unwrap_or_else(|_| run.to_owned());
    with_suffix(&run, ".refs.json")
}

/// How plain xarray opens FILE.
const READ: &str = r#"    import xarray
    store = {"storage_options": {"fo": FILE}, "consolidated": False}
    xarray.open_dataset("reference://", engine="zarr", backend_kwargs=store)"#;

const AFTER_HELP: &str = r#"FILE names the .catch files, and FILE.data with copied chunks, by their
paths here. With --prefix URL/ it names both at the URL:
copy the .catch files and FILE.data to that URL, names unchanged; FILE can be anywhere.
Every column that FILE points at is read and checked now, and a channel with a damaged one is
left out (exit code 3). Programs that read FILE check nothing: damage that comes later they
give as data.
In Python, with xarray, zarr and fsspec:
    import xarray
    store = {"storage_options": {"fo": "FILE"}, "consolidated": False}
    xarray.open_dataset("reference://", engine="zarr", backend_kwargs=store)"#;
