//! `catchment run`: the recorder that a file describes.

use std::path::PathBuf;

use catchment_recorder::Recorder;
use serde::Serialize;

use crate::commands::report::{Summary, exit_of};
use crate::config;
use crate::output::{Exit, Out};
use crate::register::Register;
use crate::session::{Ends, record_told};
use crate::signals::Stop;
use crate::view::View;

/// Records what CONFIG describes until Ctrl-C, --seconds or --events.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The configuration file (TOML); see examples/
    config: PathBuf,
    /// Stop after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
    /// Stop after so many built events
    #[arg(long, value_name = "COUNT")]
    events: Option<u64>,
    /// What the run is for, kept in the catalogue of runs
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
    /// Only check the configuration
    #[arg(long)]
    check: bool,
}

/// A recording in figures, with its place in the catalogue.
#[derive(Serialize)]
struct Numbered<'a> {
    number: Option<u64>,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// A time of at least a millisecond.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (1e-3..=1e7).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds such as 20 or 0.5".into()),
    }
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let high = config::load(&arguments.config)?;
    if arguments.check {
        let (sources, links) = (high.recorder.sources.len(), high.recorder.links.len());
        let channels: usize = high.recorder.links.iter().map(|link| link.channels.len()).sum();
        if out.json {
            let counts = serde_json::json!({
                "sources": sources, "links": links, "channels": channels,
                "lowered": high.recorder.lowered(),
            });
            out.object(&counts)?;
        }
        let what = match links {
            0 => format!("{sources} sources"),
            _ => format!("{sources} sources, {links} links of {channels} channels"),
        };
        out.say(format_args!("{}: {what}, no fault", arguments.config.display()))?;
        for lowered in high.recorder.lowered() {
            out.say(format_args!("Lowered: {lowered}."))?;
        }
        return Ok(Exit::Done);
    }
    let stop = Stop::listen()?;
    let ends = Ends { seconds: arguments.seconds, events: arguments.events };
    let mut view = View::new(out);
    let mut config = high.recorder;
    let mut register = Register::take(&mut config, high.number, &arguments.comment)?;
    let number = register.number();
    let began = |recorder: &Recorder| register.began(recorder);
    let recording = match record_told(config, None, ends, &stop, out, &mut view, began) {
        Ok(recording) => recording,
        Err(error) => {
            register.failed(&error);
            return Err(error);
        }
    };
    register.ended(&recording);
    let summary = Summary::of(&recording);
    if out.json {
        out.object(&Numbered { number, summary: &summary })?;
    }
    let what = number.map_or("Recorded".to_owned(), |number| format!("Run {number} recorded"));
    out.say(format_args!("{what} {:.1} s.", recording.seconds))?;
    summary.say(&recording, out)?;
    Ok(exit_of(&recording))
}
