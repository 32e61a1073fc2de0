//! `catchment demo`: the whole chain on this machine, verified byte by byte.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use catchment_config::{Address, Hades90, High, Rate, Size};
use catchment_console::{Exit, Out, Stop, complain, need_space};
use catchment_control::{
    Configuration, ConfigurationFault, Configure, LogFormat, LogLevel, Logs, Node, NodeError,
    Settings,
};
use catchment_emulator::{EmulatorReport, SourceReport};
use catchment_model::units::grouped;
use catchment_storage::ColumnCoding;
use serde::Serialize;

use crate::fault::Fault;
use crate::prove::{Proof, prove};
use crate::report::{Summary, exit_of};
use crate::session::{Ends, Recording, Session, configuration, own_settings, seconds};

/// Records an emulated HADES-like detector (90 sources on 90 UDP ports of this machine), reads
/// everything back and compares every byte with what was sent.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// How long to record
    #[arg(long, default_value = "20", value_parser = seconds)]
    seconds: f64,
    /// Events per second: "4 kHz", 4000, or max
    #[arg(long, default_value = "4 kHz")]
    rate: Rate,
    /// Bytes gathered in a packet before it is sent; 0 sends every sub-event alone
    #[arg(long, value_name = "SIZE", default_value = "32 kB")]
    water_mark: Size,
    /// Mean number of events between random sub-events of 60 kB, per source; 0 for none
    #[arg(long, value_name = "EVENTS", default_value_t = 1_000)]
    huge_every: u64,
    /// Consecutive events with the same size per source, so that the sender can batch them
    #[arg(long, value_name = "EVENTS")]
    equal_bursts: Option<u32>,
    /// Seed of the payloads
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How columns are compressed
    #[arg(long, default_value = "auto")]
    codec: ColumnCoding,
    /// The folder of the runs; the new run's folder stays there
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    out: PathBuf,
    /// Inject a fault, may be repeated: lose=1e-3, duplicate=, reorder=, corrupt= (share of the
    /// packets), kill=SOURCE@EVENT, restart=SOURCE@EVENT with the source's name or number
    #[arg(long, value_name = "FAULT")]
    fault: Vec<Fault>,
    /// Address of the web page during the demo; port 0 lets the system choose
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:0")]
    listen: Address,
}

/// What the catalogue of runs says of it.
const COMMENT: &str = "catchment demo";

/// What a program is told.
#[derive(Serialize)]
struct Object<'a> {
    #[serde(flatten)]
    summary: &'a Summary,
    sent: Sent,
    proof: &'a Proof,
}

#[derive(Serialize)]
struct Sent {
    seed: u64,
    events: u64,
    seconds: f64,
    #[serde(flatten)]
    total: SourceReport,
}

/// Runs the demonstration.
///
/// # Errors
/// What kept it from recording or from reading back.
pub fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let preset = Hades90 {
        folder: arguments.out.clone(),
        rate: arguments.rate,
        water_mark_bytes: arguments.water_mark.0,
        huge_every: arguments.huge_every,
        equal_bursts: arguments.equal_bursts,
        seed: arguments.seed,
        codec: arguments.codec,
    };
    need_space(&preset.folder, preset.bytes_for(arguments.seconds))?;
    let high = preset.high()?;
    let mut emulator = high.emulator.clone().expect("the preset has an emulator");
    emulator.seconds = Some(arguments.seconds);
    let names: Vec<String> =
        high.recorder.sources.iter().map(|source| source.name.clone()).collect();
    for fault in &arguments.fault {
        fault.apply(&mut emulator.faults, &names)?;
    }
    let stop = Stop::listen()?;
    out.say(format_args!(
        "hades-90: rate {}, water mark {} bytes, one huge sub-event per {} events, seed {}.",
        arguments.rate, arguments.water_mark.0, arguments.huge_every, arguments.seed
    ))?;
    out.flush()?;
    let (described, config) = (emulator.clone(), high.recorder.clone());
    let demo = Demo {
        text: config.text.clone(),
        configuration: configuration(High { emulator: Some(emulator), ..high }, true),
    };
    let node = start(demo, arguments.listen, out)?;
    let session = Session {
        config: &config,
        number: None,
        ends: Ends::default(),
        seconds_planned: Some(arguments.seconds),
        stop: &stop,
    };
    let recording = session.follow(node, out)?;
    let sent = recording.sent.as_ref().context("the emulator did not end in order")?;
    let proof = prove(&recording, sent, &described, &stop, out)?;
    tell(&recording, sent, &proof, out)?;
    let exit = exit_of(&recording);
    Ok(if proof.holds() { exit } else { Exit::Failed })
}

/// The configuration of the demonstration, which stays as it is.
struct Demo {
    text: String,
    configuration: Configuration,
}

impl Configure for Demo {
    fn read(&self) -> Result<String, String> {
        Ok(self.text.clone())
    }

    fn check(&self, _text: &str) -> Result<Configuration, ConfigurationFault> {
        Ok(self.configuration.clone())
    }
}

/// Starts the node, with the page if it can be served.
fn start(demo: Demo, Address(listen): Address, out: &mut Out) -> anyhow::Result<Node> {
    let demo = Arc::new(demo);
    let settings = |listen| Settings {
        name: "demo".into(),
        comment: Some(COMMENT.into()),
        ..own_settings(listen)
    };
    let logs = Logs::start(LogFormat::None, LogLevel::INFO);
    match Node::start(settings(Some(listen)), demo.clone(), Arc::clone(&logs)) {
        Ok(node) => {
            let url = node.url().unwrap_or_default();
            out.say(format_args!("Look at it in a browser: {url}"))?;
            Ok(node)
        }
        Err(error @ (NodeError::Listen { .. } | NodeError::Unprotected { .. })) => {
            complain(format_args!("there is no page to look at: {error}"));
            Node::start(settings(None), demo, logs).context("cannot start the node")
        }
        Err(error) => Err(error).context("cannot start the node"),
    }
}

fn tell(
    recording: &Recording,
    sent: &EmulatorReport,
    proof: &Proof,
    out: &mut Out,
) -> anyhow::Result<()> {
    let summary = Summary::of(recording);
    let total = sent.total();
    let totals = Sent { seed: sent.seed, events: sent.events, seconds: sent.seconds, total };
    if out.json {
        return Ok(out.object(&Object { summary: &summary, sent: totals, proof })?);
    }
    out.line("")?;
    out.line(format_args!(
        "Sent {} events as {} packets in {:.1} s, seed {}.",
        grouped(totals.events),
        grouped(total.packets_sent),
        sent.seconds,
        totals.seed
    ))?;
    summary.say(recording, out)?;
    proof.say(out)?;
    out.line("")?;
    out.line(format_args!("Look at it with: catchment inspect {}", summary.folder))?;
    Ok(())
}
