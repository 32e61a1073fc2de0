//! `catchment bench`: published tables, measured here, beside the published figures.
//!
//! Each bench has a file that measures, and where they are long one that makes its tables. They
//! share `Bench`, `search.rs` (the highest rate without loss), `recording.rs` (one recording of
//! an emulated detector), `front_ends.rs` (one of front-ends in a process of their own) and
//! `report.rs`, which prints the tables and writes them as JSON and Markdown; plots are drawn from
//! that JSON (`python.rs`).

mod alpha;
mod builder;
mod codec_libraries;
mod codecs;
mod control;
mod control_asking;
mod control_node;
mod decoders;
mod discard;
mod follower;
mod front_ends;
mod frozen;
mod hades;
mod ligo_cold;
mod ligo_data;
mod ligo_quiet;
mod ligo_read;
mod ligo_read_tables;
mod ligo_record;
mod ligo_recording;
mod ligo_space;
mod limits;
mod loopback;
mod machine;
mod matchers;
mod midas_dummy;
mod midas_sources;
mod part;
mod pauses;
mod point;
mod process;
mod python;
mod recording;
mod report;
mod search;
mod shared_nodes;
mod soak;
mod stalls;
mod store;
mod store_node;
mod store_plain;
mod targets;
mod xfel;
mod xfel_nodes;
mod xfel_tables;

use std::path::PathBuf;

use catchment_console::{Exit, Out, Stop, complain};
pub use soak::{SoakArguments, run as soak};

/// Measures this machine and prints a table; writes it as JSON and Markdown too.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to measure
    #[arg(value_enum)]
    name: Name,
    /// Seconds instead of minutes, each figure once: shows that the bench works, not what is
    /// possible
    #[arg(long)]
    quick: bool,
    /// Where NAME.json and NAME.md go
    #[arg(long, value_name = "FOLDER", default_value = "bench/results")]
    out: PathBuf,
    /// Where runs are recorded; they are deleted afterwards
    #[arg(long, value_name = "FOLDER", default_value = "runs")]
    scratch: PathBuf,
    /// What a process beside the bench does, in JSON
    #[arg(long, hide = true)]
    part: Option<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Name {
    /// What the machine can do: receive and discard, direct write, memory copy, builder alone
    Limits,
    /// The builder alone: events by number and by time
    Builder,
    /// The tests of HADES' event builder, and the highest rates without loss
    Hades,
    /// alpha-72 built by time: what is on disk beside what is received, and written, at most
    Alpha,
    /// LIGO-T000108's table: one channel read back, beside HDF5, GWF and Parquet
    LigoRead,
    /// What full frames, second trends and minute trends take, raw, gzipped, with each codec
    LigoSpace,
    /// What each coding makes of data of several kinds, and how fast, beside gzip and memory copies
    Codecs,
    /// ligo-1000 recorded at the highest rate that loses nothing; trends' cost; a follower's
    LigoRecord,
    /// hades-90 to folders, storage nodes, both and none, also while they are frozen or pause
    Targets,
    /// Frames to a storage node on this machine, and to its disk
    Store,
    /// A front-end to disk over the event link, until its fragments are durable
    MidasDummy,
    /// European XFEL's trains of 1 GB: received, checked, put together and on disk
    Xfel,
    /// How soon the API answers while the node records as much as it can without loss
    Control,
}

/// The means of every bench.
pub(crate) struct Bench<'a> {
    pub(crate) quick: bool,
    pub(crate) scratch: PathBuf,
    pub(crate) stop: Stop,
    pub(crate) out: &'a mut Out,
    bar: indicatif::ProgressBar,
    /// Runs whose ledger did not balance, or whose events were not as they were sent.
    pub(crate) broken: Vec<String>,
}

impl Bench<'_> {
    /// How often each figure is measured.
    pub(crate) fn repeats(&self) -> usize {
        if self.quick { 1 } else { 3 }
    }

    /// How long one measurement lasts.
    pub(crate) fn seconds(&self) -> f64 {
        if self.quick { 0.4 } else { 5.0 }
    }

    /// Shows on a terminal what is being measured.
    ///
    /// # Errors
    /// The bench is to stop.
    pub(crate) fn now(&self, message: impl Into<String>) -> anyhow::Result<()> {
        anyhow::ensure!(!self.stop.asked(), "stopped before the end; nothing was written");
        self.bar.set_message(message.into());
        self.bar.tick();
        Ok(())
    }
}

/// Runs one bench: measures, prints its tables, and writes them into a folder.
///
/// # Errors
/// Something could not be measured, or its tables not be written.
pub fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    if let Some(part) = &arguments.part {
        return part::run(part, out).map(|()| Exit::Done);
    }
    let bar = if out.json {
        indicatif::ProgressBar::hidden()
    } else {
        indicatif::ProgressBar::new_spinner()
    };
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    let mut bench = Bench {
        quick: arguments.quick,
        scratch: arguments.scratch,
        stop: Stop::listen()?,
        out,
        bar,
        broken: Vec::new(),
    };
    let result = match arguments.name {
        Name::Limits => limits::run(&mut bench),
        Name::Builder => matchers::run(&mut bench),
        Name::Hades => hades::run(&mut bench),
        Name::Alpha => alpha::run(&mut bench),
        Name::LigoRead => ligo_read::run(&mut bench),
        Name::LigoSpace => ligo_space::run(&mut bench),
        Name::Codecs => codecs::run(&mut bench),
        Name::LigoRecord => ligo_record::run(&mut bench),
        Name::Targets => targets::run(&mut bench),
        Name::Store => store::run(&mut bench),
        Name::MidasDummy => midas_dummy::run(&mut bench),
        Name::Xfel => xfel::run(&mut bench),
        Name::Control => control::run(&mut bench),
    };
    bench.bar.finish_and_clear();
    let report = result?;
    for broken in &bench.broken {
        complain(broken);
    }
    let exit = if bench.broken.is_empty() { Exit::Done } else { Exit::Failed };
    report.finish(&arguments.out, bench.out)?;
    use Name::{Codecs, LigoRead, LigoSpace, Store, Targets};
    if matches!(arguments.name, LigoRead | LigoSpace | Codecs | Store | Targets) {
        match python::Python::draw(&report.json_path(&arguments.out)) {
            Ok(drawn) => drawn
                .iter()
                .try_for_each(|path| bench.out.say(format_args!("drawn: {}", path.display())))?,
            Err(why) => complain(format_args!("no plots: {why}")),
        }
    }
    Ok(exit)
}
