//! `catchment run`: the recorder that a file describes.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use catchment_catalog::check_comment;
use catchment_config::{Address, High};
use catchment_console::{Exit, Out, Stop, UsageError, complain};
use catchment_control::{
    LogFormat, LogLevel, Logs, Node, Settings, Start, check_certificate, check_protection,
    own_folder,
};
use catchment_model::units::counted;
use catchment_session::{Ends, Session, Summary, exit_of, own_settings, seconds};
use serde::Serialize;

use crate::commands::run_control::{File, serve, tell};
use crate::commands::run_offsets::Measured;

/// Records what CONFIG describes until Ctrl-C, --seconds or --events.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The configuration file (TOML); see examples/
    config: PathBuf,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
    /// Stop after this many built events
    #[arg(long, value_name = "COUNT")]
    events: Option<u64>,
    /// Serve the API and the web page at this address; see also [control] in the file
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<Address>,
    /// With control: wait for a command before the first run begins
    #[arg(long)]
    manual: bool,
    /// With control: accept unencrypted commands without a token from any address
    #[arg(long)]
    without_protection: bool,
    /// Begin a new run, even if the last one was interrupted and could go on
    #[arg(long)]
    no_resume: bool,
    /// Emulate the sources and links as described by [emulator] in the file; without it only data
    /// from the network are recorded
    #[arg(long)]
    emulate: bool,
    /// A comment on the run, stored in the catalogue of runs
    #[arg(long, value_name = "TEXT", default_value = "")]
    comment: String,
    /// With build.match = "time": say how far each source's times are from those of its events, and
    /// the offset and the window that this suggests
    #[arg(long)]
    measure_offsets: bool,
    /// Only check the configuration
    #[arg(long)]
    check: bool,
}

/// A recording in figures, with its number in the catalogue.
#[derive(Serialize)]
struct Numbered<'a> {
    number: Option<u64>,
    #[serde(flatten)]
    summary: &'a Summary,
    #[serde(skip_serializing_if = "Option::is_none")]
    offsets: Option<&'a Measured>,
}

/// Reads a configuration and says what it describes, without recording.
fn check(arguments: &Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let path = &arguments.config;
    let high = catchment_config::load_to_record(path)?;
    if let Some((settings, _)) = control(arguments, &high) {
        let folder = own_folder(&high.recorder.folder);
        check_certificate(&settings)
            .and_then(|()| check_protection(&settings, &folder))
            .map_err(|error| UsageError(error.to_string()))?;
    }
    let (sources, links) = (high.recorder.sources.len(), high.recorder.links.len());
    let channels: usize = high.recorder.links.iter().map(|link| link.channels.len()).sum();
    if out.json {
        let counts = serde_json::json!({
            "sources": sources, "links": links, "channels": channels,
            "lowered": high.recorder.lowered(), "warnings": high.recorder.warnings(),
        });
        out.object(&counts)?;
    }
    let count = |number: usize, thing| counted(number as u64, thing);
    let what = match links {
        0 => count(sources, "source"),
        _ => {
            let (links, channels) = (count(links, "link"), count(channels, "channel"));
            format!("{}, {links} of {channels}", count(sources, "source"))
        }
    };
    out.say(format_args!("{}: {what}, no fault", path.display()))?;
    for lowered in high.recorder.lowered() {
        out.say(format_args!("Lowered: {lowered}."))?;
    }
    for warning in high.recorder.warnings() {
        out.say(format_args!("Warning: {warning}."))?;
    }
    Ok(Exit::Done)
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    if arguments.check {
        return check(&arguments, out);
    }
    check_comment(&arguments.comment).map_err(|fault| UsageError(fault.to_string()))?;
    let high = catchment_config::load(&arguments.config)?;
    if arguments.emulate && high.emulator.is_none() && high.link_emulator.is_none() {
        let path = arguments.config.display();
        anyhow::bail!(UsageError(format!("--emulate: expected [emulator] in {path}, got none")));
    }
    if arguments.measure_offsets && !high.recorder.is_by_time() {
        let message = "--measure-offsets: expected build.match = \"time\", got \"number\"";
        anyhow::bail!(UsageError(message.into()));
    }
    let ends = Ends { seconds: arguments.seconds, events: arguments.events };
    let controlled = control(&arguments, &high);
    let emulate = arguments.emulate || high.control.as_ref().is_some_and(|one| one.emulate);
    if controlled.is_some() && !emulate && (high.emulator.is_some() || high.link_emulator.is_some())
    {
        complain(
            "[emulator] is not used: only --emulate, or emulate = true in [control], has the node \
             send what it describes",
        );
    }
    let file = File { path: arguments.config.clone(), emulate: arguments.emulate };
    match controlled {
        Some(_) if arguments.measure_offsets => {
            let message = "--measure-offsets is for a run without [control] and --listen, whose \
                           page shows the offsets";
            anyhow::bail!(UsageError(message.into()))
        }
        Some((settings, log)) => {
            let ended = serve(Arc::new(file), settings, log, ends, out, |_, _| Ok(()))?;
            tell(&ended, out)
        }
        None if !high.recorder.accept.is_empty() => {
            let message = "[[accept]] is for a node: expected [control], or --listen";
            anyhow::bail!(UsageError(message.into()))
        }
        None => record(&arguments, &high, file, ends, out),
    }
}

/// Records one run that only this program controls.
fn record(
    arguments: &Arguments,
    high: &High,
    file: File,
    ends: Ends,
    out: &mut Out,
) -> anyhow::Result<Exit> {
    let stop = Stop::listen()?;
    let (comment, resume) = (comment(arguments), !arguments.no_resume);
    let settings = Settings { comment, resume, ..own_settings(None) };
    let logs = Logs::start(LogFormat::None, LogLevel::INFO);
    let node = Node::start(settings, Arc::new(file), logs).context("cannot start the node")?;
    let session = Session {
        config: &high.recorder,
        number: high.number,
        ends,
        seconds_planned: ends.seconds,
        stop: &stop,
    };
    let recording = session.follow(node, out)?;
    let summary = Summary::of(&recording);
    let number = Some(recording.number).filter(|number| *number > 0);
    let offsets = arguments.measure_offsets.then(|| Measured::of(&recording, high));
    if out.json {
        out.object(&Numbered { number, summary: &summary, offsets: offsets.as_ref() })?;
    }
    let what = number.map_or("Recorded".to_owned(), |number| format!("Run {number} recorded"));
    out.say(format_args!("{what} {:.1} s.", recording.seconds))?;
    summary.say(&recording, out)?;
    offsets.map_or(Ok(()), |offsets| offsets.say(out))?;
    Ok(exit_of(&recording))
}

fn comment(arguments: &Arguments) -> Option<String> {
    Some(arguments.comment.clone()).filter(|comment| !comment.is_empty())
}

/// How the node is controlled: as the file says, and what the command line says otherwise.
fn control(arguments: &Arguments, high: &High) -> Option<(Settings, (LogFormat, LogLevel))> {
    let listen = arguments.listen.map(|Address(address)| address);
    let (mut settings, log) = match (&high.control, listen) {
        (Some(control), _) => (control.settings.clone(), (control.log, control.level)),
        (None, Some(address)) => {
            let actions = high.actions.clone();
            let settings = Settings { actions, ..Settings::new(Some(address)) };
            (settings, (LogFormat::Text, LogLevel::INFO))
        }
        (None, None) => return None,
    };
    settings.listen = listen.or(settings.listen);
    settings.without_protection |= arguments.without_protection;
    settings.comment = comment(arguments);
    settings.resume = !arguments.no_resume;
    if arguments.manual {
        settings.start = Start::Manual;
    }
    Some((settings, log))
}
