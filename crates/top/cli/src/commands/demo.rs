//! `catchment demo`: the whole chain on this machine, proved byte by byte.

use std::path::PathBuf;

use catchment_control::{Node, Watched};
use catchment_emulator::{EmulatorReport, SourceReport};
use catchment_recorder::{Recorder, RecorderConfig};
use serde::Serialize;

use crate::commands::emulate::Fault;
use crate::commands::report::{Summary, exit_of};
use crate::commands::run_control::look_on;
use crate::config::{Address, CodecLow, Rate, Size};
use crate::machine::need_space;
use crate::output::{Exit, Out, complain, grouped};
use crate::preset::Hades90;
use crate::prove::{Proof, prove};
use crate::register::{Register, who};
use crate::session::{Ends, Recording, record_told};
use crate::signals::Stop;
use crate::view::View;

/// Records an emulated HADES-like detector (90 sources on 90 UDP ports of this machine), reads
/// everything back and compares every byte with what was sent.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How long to record
    #[arg(long, default_value = "20", value_parser = super::run::seconds)]
    seconds: f64,
    /// Events per second: "4 kHz", 4000, or max
    #[arg(long, default_value = "4 kHz")]
    rate: Rate,
    /// Bytes that a packet gathers before it is sent; 0 sends every sub-event alone
    #[arg(long, value_name = "SIZE", default_value = "32 kB")]
    water_mark: Size,
    /// One sub-event of 60 kB per so many events and source, at random; 0 for none
    #[arg(long, value_name = "EVENTS", default_value_t = 1_000)]
    huge_every: u64,
    /// Let so many events in a row have one size per source, so that the sender can batch them
    #[arg(long, value_name = "EVENTS")]
    equal_bursts: Option<u32>,
    /// What payloads are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How columns are compressed
    #[arg(long, default_value = "auto")]
    codec: CodecLow,
    /// The folder in which the run makes a folder of its own, which is kept
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    out: PathBuf,
    /// A fault on purpose, may be repeated: lose=1e-3, duplicate=, reorder=, corrupt= (share of the
    /// packets), kill=SOURCE@EVENT, restart=SOURCE@EVENT with the source's name or number
    #[arg(long, value_name = "FAULT")]
    fault: Vec<Fault>,
    /// Where the page that shows it is served, while it runs; port 0 lets the system choose
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

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
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
    let mut emulator = high.emulator.expect("the preset has an emulator");
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
    let mut view = View::new(out);
    let described = emulator.clone();
    let mut config = RecorderConfig { emulated: true, ..high.recorder };
    let mut register = Register::take(&mut config, high.number, COMMENT)?;
    let (number, text) = (config.run_number, config.text.clone());
    let mut node = None;
    let began = |recorder: &Recorder, out: &mut Out| {
        register.began(recorder);
        let (who, comment, emulated) = (who(), COMMENT.into(), true);
        let watched = Watched { recorder, number, who, comment, emulated };
        node = page(arguments.listen, &text, watched, out);
    };
    let recorded =
        record_told(config, Some(emulator), Ends::default(), &stop, out, &mut view, began);
    let recording = match recorded {
        Ok(recording) => recording,
        Err(error) => {
            register.failed(&error);
            return Err(error);
        }
    };
    register.ended(&recording);
    if let Some(node) = &node {
        node.watched_ended();
    }
    let sent = recording.sent.as_ref().expect("a recording beside an emulator");
    let proof = prove(&recording, sent, &described, &stop, out)?;
    tell(&recording, sent, &proof, out)?;
    let exit = exit_of(&recording);
    Ok(if proof.holds() { exit } else { Exit::Failed })
}

/// Serves the page while the demonstration runs; without it goes on.
fn page(Address(listen): Address, text: &str, watched: Watched<'_>, out: &mut Out) -> Option<Node> {
    let node = match look_on(listen, text, watched) {
        Ok(node) => node,
        Err(error) => {
            complain(format_args!("there is no page to look at: {error}"));
            return None;
        }
    };
    // A reader that has gone is noticed where it matters.
    out.say(format_args!("Look at it in a browser: {}", node.url())).ok();
    Some(node)
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
        return out.object(&Object { summary: &summary, sent: totals, proof });
    }
    out.line(format_args!(
        "\nSent {} events as {} packets in {:.1} s, seed {}.",
        grouped(totals.events),
        grouped(total.packets_sent),
        sent.seconds,
        totals.seed
    ))?;
    summary.say(recording, out)?;
    proof.say(out)?;
    out.line(format_args!("\nLook at it with: catchment inspect {}", summary.folder))?;
    Ok(())
}
