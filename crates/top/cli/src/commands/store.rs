//! `catchment store`: a storage node.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use catchment_console::{Exit, Out, Stop};
use catchment_model::units::{Bytes, counted};
use catchment_session::seconds;
use catchment_store::Node;

/// Takes frames from recorders as CONFIG says, until Ctrl-C or --seconds.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The configuration file (TOML), with [store]
    config: PathBuf,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
    /// Only check the configuration
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let config = catchment_config::load_store(&arguments.config)?;
    let folders = config.folders.iter().map(|folder| folder.display().to_string());
    let folders: Vec<String> = folders.collect();
    if arguments.check {
        out.say(format_args!("{}: a storage node, no fault", arguments.config.display()))?;
        return Ok(Exit::Done);
    }
    let stop = Stop::listen()?;
    let node = Node::start(config).context("cannot start the storage node")?;
    let address = node.address();
    out.say(format_args!("Storing at {address}, in {}", folders.join(" and ")))?;
    if out.json {
        out.object(&serde_json::json!({ "address": address, "folders": folders }))?;
    }
    out.flush()?;
    let until = arguments.seconds.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let is_due = || until.is_some_and(|until| Instant::now() >= until);
    while !stop.asked() && !is_due() && !node.has_failed() {
        stop.wait(Instant::now() + LOOK_EVERY);
    }
    let last = node.stop()?;
    if out.json {
        out.object(&last)?;
    }
    let frames = counted(last.frames_taken, "frame");
    let streams = counted(last.streams.len() as u64, "stream");
    let bytes = Bytes(last.bytes_taken);
    out.say(format_args!("Stored {frames}, {bytes}, of {streams}"))?;
    for stream in &last.streams {
        if let Some(trouble) = &stream.trouble {
            out.say(format_args!("{}: {trouble}", stream.name))?;
        }
    }
    Ok(Exit::Done)
}

const LOOK_EVERY: Duration = Duration::from_millis(200);
