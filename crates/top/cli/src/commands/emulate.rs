//! `catchment emulate`: emulated sources or channel links that send to any recorder.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::Context;
use catchment_config::{Address, RATE_HZ_DEFAULT, Rate, Size, Time, counted_up};
use catchment_console::{Exit, Out, Stop, UsageError};
use catchment_emulator::{
    Board, EmulatedSource, EmulatorConfig, EmulatorLive, EmulatorReport, EmulatorThread,
    LinkEmulatorConfig, SourceReport,
};
use catchment_model::near_matches;
use catchment_model::units::{Bytes, Count, grouped};
use catchment_session::{Fault, seconds};

use super::emulate_timer::{Group, Role};
use super::emulate_trains::ImageSize;
use super::generate::Multiple;
use super::{emulate_dummies, emulate_links, emulate_timer, emulate_trains};

/// Emulates the sources or channel links of a configuration file or a preset, or front-ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A configuration file with an [emulator] section, with links, with sources of trains or of
    /// declared layouts, or a preset: hades-90, alpha-72, ligo-1000, midas-dummy, xfel-trains
    #[arg(value_name = "CONFIG|PRESET")]
    pub(super) what: String,
    /// Target of the first source or link; the others use the following ports. Of front-ends, where
    /// the recorder listens
    #[arg(long, value_name = "IP:PORT")]
    pub(super) to: Option<Address>,
    /// Channels: how many times faster than real time, a number or max
    #[arg(long, value_name = "TIMES")]
    pub(super) multiple: Option<Multiple>,
    /// Channels: the number of links that a preset's channels are spread over
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) links: Option<u32>,
    /// Channels: the time of data that is sent together
    #[arg(long, value_name = "TIME")]
    pub(super) slice: Option<Time>,
    /// Front-ends: how many, 1 unless given
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) front_ends: Option<u32>,
    /// Front-ends: the number of the first, 0 unless given: it is called dummy-NUMBER
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(..=999_999))]
    pub(super) index: Option<u32>,
    /// Front-ends: bytes of each fragment, 10 kB unless given; declared layouts: of each body, on
    /// average
    #[arg(long, value_name = "SIZE")]
    pub(super) bytes: Option<Size>,
    /// Declared layouts: how much later than its event a fragment's time is at most
    #[arg(long, value_name = "TIME")]
    pub(super) jitter: Option<Time>,
    /// Declared layouts: how far the clocks drift apart, in ppm
    #[arg(long, value_name = "PPM")]
    pub(super) drift: Option<f64>,
    /// Declared layouts: the clocks begin so long before the first of them wraps, rather than with
    /// the time of day
    #[arg(long, value_name = "TIME")]
    pub(super) wrap_after: Option<Time>,
    /// Trains: how many feeders take turns, 1 unless given
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) feeders: Option<u32>,
    /// Trains: what runs here, feeders unless given
    #[arg(long, value_enum)]
    pub(super) role: Option<Role>,
    /// Trains: the feeder that runs here, from 0; the others of --feeders run elsewhere
    #[arg(long, value_name = "NUMBER")]
    pub(super) feeder: Option<u32>,
    /// Trains: feeders send at the ticks of this timer
    #[arg(long, value_name = "IP:PORT")]
    pub(super) timer: Option<Address>,
    /// Trains: where the timer listens; without --role timer it is a thread beside the feeders
    #[arg(long, value_name = "IP:PORT")]
    pub(super) listen: Option<Address>,
    /// Trains: a group of the timer's ticks, may be repeated; one for each feeder unless given
    #[arg(long, value_name = "NUMBER=RATE[+PHASE]")]
    pub(super) group: Vec<Group>,
    /// Trains: the number of the first run that the timer hands out, 1 unless given
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) first_run: Option<u64>,
    /// Trains: how many nodes get them in turn, on the ports from that of --to on
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) nodes: Option<u32>,
    /// Trains: images of each, 512 unless given
    #[arg(long, value_name = "COUNT")]
    pub(super) pulses: Option<u32>,
    /// Trains: rows and columns of an image, 1024x1024 unless given
    #[arg(long, value_name = "ROWSxCOLUMNS")]
    pub(super) image: Option<ImageSize>,
    /// Trains: what images show: noise, rings, spots (of a crystal), or those of a .npy file or of
    /// the trains of a recorded run, in their order
    #[arg(long, value_name = "WHAT|FILE|RUN")]
    pub(super) images: Option<String>,
    /// Trains: of one in so many a packet is left out
    #[arg(long, value_name = "TRAINS")]
    pub(super) drop_every: Option<u64>,
    /// Events or trains per second: "4 kHz", 4000, or max
    #[arg(long)]
    pub(super) rate: Option<Rate>,
    /// Bytes gathered in a packet before it is sent; 0 sends every sub-event alone
    #[arg(long, value_name = "SIZE")]
    pub(super) water_mark: Option<Size>,
    /// Mean number of events between random huge sub-events, per source; 0 for none
    #[arg(long, value_name = "EVENTS")]
    pub(super) huge_every: Option<u64>,
    /// Consecutive events with the same size per source
    #[arg(long, value_name = "EVENTS")]
    pub(super) equal_bursts: Option<u32>,
    /// Stop after this many seconds
    #[arg(long, value_parser = seconds)]
    pub(super) seconds: Option<f64>,
    /// Stop after this many events or trains
    #[arg(long)]
    pub(super) events: Option<u64>,
    /// Seed of the payloads
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// Inject a fault, may be repeated: lose=1e-3, duplicate=, reorder=, corrupt= (share of the
    /// packets), kill=SOURCE@EVENT, restart=SOURCE@EVENT with the source's name or number
    #[arg(long, value_name = "FAULT")]
    pub(super) fault: Vec<Fault>,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    if arguments.what == emulate_dummies::NAME {
        return emulate_dummies::run(&arguments, out);
    }
    if arguments.role == Some(Role::Timer) {
        return emulate_timer::run(&arguments, out);
    }
    if let Some(config) = emulate_trains::configure(&arguments)? {
        return emulate_trains::run(config, &arguments, out);
    }
    let of_trains = [
        arguments.feeders.is_some(),
        arguments.nodes.is_some(),
        arguments.pulses.is_some(),
        arguments.image.is_some(),
        arguments.images.is_some(),
        arguments.drop_every.is_some(),
        arguments.role.is_some(),
        arguments.feeder.is_some(),
        arguments.timer.is_some(),
        arguments.listen.is_some(),
        !arguments.group.is_empty(),
        arguments.first_run.is_some(),
    ];
    if of_trains.contains(&true) {
        let keys = "--feeders, --nodes, --pulses, --image, --images, --drop-every, --role, \
                    --feeder, --timer, --listen, --group and --first-run";
        anyhow::bail!(UsageError(format!("{keys} are for trains")));
    }
    if arguments.front_ends.is_some() || arguments.index.is_some() {
        anyhow::bail!(UsageError("--front-ends and --index are for midas-dummy".into()));
    }
    let of_boards = [
        arguments.bytes.is_some(),
        arguments.jitter.is_some(),
        arguments.drift.is_some(),
        arguments.wrap_after.is_some(),
    ];
    let emulated = configure(&arguments)?;
    let has_boards = match &emulated {
        Emulated::Sources(config) => config.sources.iter().any(|source| source.board.is_some()),
        Emulated::Links(_) => false,
    };
    if of_boards.contains(&true) && !has_boards {
        let keys = "--bytes, --jitter, --drift and --wrap-after";
        anyhow::bail!(UsageError(format!("{keys} are for sources of declared layouts")));
    }
    let config = match emulated {
        Emulated::Sources(config) => config,
        Emulated::Links(config) => return emulate_links::run(config, &arguments, out),
    };
    let report = follow(EmulatorThread::start(config)?, live_line, out)?;
    say_report(&report, out)?;
    Ok(Exit::Done)
}

/// Prints a line every second until the emulator ends or a signal arrives: what it sent in so many
/// seconds.
pub(super) fn follow<R: Send + 'static>(
    sender: EmulatorThread<R>,
    line: impl Fn(&EmulatorLive, f64) -> String,
    out: &mut Out,
) -> anyhow::Result<R> {
    let (stop, start) = (Stop::listen()?, Instant::now());
    let mut shown = start;
    while !sender.observer().ended() && !stop.asked() {
        std::thread::sleep(Duration::from_millis(20));
        if shown.elapsed() >= Duration::from_secs(1) {
            shown = Instant::now();
            out.say(line(sender.observer().live(), start.elapsed().as_secs_f64()))?;
            out.flush()?;
        }
    }
    Ok(sender.finish()?)
}

/// What is to be emulated.
enum Emulated {
    Sources(EmulatorConfig),
    Links(LinkEmulatorConfig),
}

fn configure(arguments: &Arguments) -> anyhow::Result<Emulated> {
    let path = Path::new(&arguments.what);
    let mut names = Vec::new();
    let mut config = if path.exists() || arguments.what.ends_with(".toml") {
        let high = catchment_config::load(path)?;
        let links = &high.recorder.links;
        match (&high.emulator, high.link_emulator) {
            (None, Some(emulated)) => return Ok(Emulated::Links(emulated)),
            (None, None) if !links.is_empty() => {
                return Ok(Emulated::Links(catchment_config::emulated_links(links)));
            }
            _ => {}
        }
        names.extend(high.recorder.sources.iter().map(|source| source.name.clone()));
        let boards = || catchment_config::emulated_boards(&high.recorder);
        let emulator = high.emulator.map_or_else(boards, |emulator| Ok(Some(emulator)));
        emulator.map_err(|error| UsageError(error.to_string()))?.with_context(|| {
            let path = path.display();
            UsageError(format!(
                "{path}: expected an [emulator] section, links or declared layouts, got none"
            ))
        })?
    } else if let Some(links) = emulate_links::preset(arguments)? {
        return Ok(Emulated::Links(links));
    } else if let Some(sources) = catchment_emulator::preset(&arguments.what) {
        names = preset_names(&sources);
        EmulatorConfig { sources, rate_hz: Some(RATE_HZ_DEFAULT), ..EmulatorConfig::default() }
    } else {
        let known =
            ["hades-90", "alpha-72", "ligo-1000", emulate_dummies::NAME, emulate_trains::NAME];
        let near = near_matches(&arguments.what, &known).join("");
        let hint = if near.is_empty() { String::new() } else { format!("; did you mean {near}?") };
        let what = &arguments.what;
        let known = known.join(", ");
        anyhow::bail!(UsageError(format!(
            "expected a file or a preset ({known}), got {what:?}{hint}"
        )));
    };
    if arguments.multiple.is_some() || arguments.links.is_some() || arguments.slice.is_some() {
        let message = "--multiple, --links and --slice are for channels, not for sources of events";
        anyhow::bail!(UsageError(message.into()));
    }
    if let Some(Address(first)) = arguments.to {
        config.targets = targets(&config, first)
            .ok_or_else(|| UsageError(format!("--to {first}: there are not enough ports above")))?;
    }
    if config.targets.is_empty() || config.targets.iter().any(|target| target.port() == 0) {
        anyhow::bail!(UsageError("expected --to IP:PORT, the first source's target".into()));
    }
    override_by(&mut config, arguments, &names)?;
    // The file and the presets are right: what is wrong now is an option, or does not go with them.
    config.check_values().map_err(|error| {
        let (option, expected, got) = (option_of(&error.key), error.expected, error.got);
        UsageError(format!("{option}: expected {expected}, got {got}"))
    })?;
    Ok(Emulated::Sources(config))
}

/// The option that sets a value of the emulator.
fn option_of(key: &str) -> String {
    match key.split('.').next_back().unwrap_or(key) {
        "mean" => "--bytes".to_owned(),
        _ if key.starts_with("sources[") => key.to_owned(),
        fault if key.starts_with("faults.") => format!("--fault {fault}="),
        "faults" => "--fault".to_owned(),
        option => format!("--{}", option.replace('_', "-")),
    }
}

/// The first source's target and the ports above, one for each source. Boards that share a port go
/// on sharing one, as connections do.
fn targets(config: &EmulatorConfig, first: SocketAddr) -> Option<Vec<SocketAddr>> {
    let mut ports: Vec<Option<SocketAddr>> = Vec::new();
    let target = |index: usize| {
        let is_stream = config.sources[index].board.as_ref().is_some_and(Board::is_stream);
        let shared = config.targets.get(index).copied().filter(|_| is_stream);
        let known = ports.iter().position(|port| port.is_some() && *port == shared);
        if known.is_none() {
            ports.push(shared);
        }
        counted_up(first, known.unwrap_or(ports.len() - 1) as u32)
    };
    (0..config.sources.len()).map(target).collect()
}

/// The names of a preset's sources, as its configuration has them: counted in each group.
fn preset_names(sources: &[EmulatedSource]) -> Vec<String> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    sources
        .iter()
        .map(|source| {
            let count = counts.entry(&source.group).or_default();
            *count += 1;
            format!("{}-{:02}", source.group, *count - 1)
        })
        .collect()
}

fn override_by(
    config: &mut EmulatorConfig,
    arguments: &Arguments,
    names: &[String],
) -> Result<(), UsageError> {
    if let Some(rate) = arguments.rate {
        config.rate_hz = rate.0;
    }
    if let Some(size) = arguments.water_mark {
        config.water_mark_bytes = usize::try_from(size.0).unwrap_or(usize::MAX);
    }
    config.huge_every = arguments.huge_every.unwrap_or(config.huge_every);
    config.equal_bursts = arguments.equal_bursts.or(config.equal_bursts);
    config.seconds = arguments.seconds.or(config.seconds);
    config.events = arguments.events.or(config.events);
    config.seed = arguments.seed.unwrap_or(config.seed);
    if let Some(bytes) = arguments.bytes {
        config.sources.iter_mut().for_each(|source| source.mean_bytes = bytes.0 as f64);
    }
    let clocks = &mut config.clocks;
    clocks.jitter_ns = arguments.jitter.map_or(clocks.jitter_ns, u64::from);
    clocks.drift = arguments.drift.unwrap_or(clocks.drift);
    clocks.wrap_after_ns = arguments.wrap_after.map(u64::from).or(clocks.wrap_after_ns);
    arguments.fault.iter().try_for_each(|fault| fault.apply(&mut config.faults, names))
}

fn live_line(live: &EmulatorLive, seconds: f64) -> String {
    let events = live.events.load(Relaxed);
    format!(
        "{seconds:.1} s  {} events  {} packets  {}  {} events/s",
        grouped(events),
        grouped(live.packets.load(Relaxed)),
        Bytes(live.bytes.load(Relaxed)),
        Count(events as f64 / seconds)
    )
}

fn say_report(report: &EmulatorReport, out: &mut Out) -> anyhow::Result<()> {
    if out.json {
        return Ok(out.object(report)?);
    }
    let total = report.total();
    out.line(format_args!(
        "Sent {} events in {:.1} s ({} events/s), seed {}, {:.0} % of a CPU.",
        grouped(report.events),
        report.seconds,
        Count(report.events as f64 / report.seconds.max(1e-9)),
        report.seed,
        report.cpu_ns as f64 / 1e7 / report.seconds.max(1e-9)
    ))?;
    out.line(format_args!(
        "  {} packets, {} fragments, {}",
        grouped(total.packets_sent),
        grouped(total.fragments_sent),
        Bytes(total.bytes_sent)
    ))?;
    say_faults(&total, "fragments", out)
}

/// The data that were not sent as configured, if any.
pub(super) fn say_faults(total: &SourceReport, unit: &str, out: &mut Out) -> anyhow::Result<()> {
    for (what, packets, fragments) in [
        ("not taken by the kernel", total.packets_unsent, total.fragments_unsent),
        ("lost on purpose", total.packets_lost, total.fragments_lost),
        ("sent twice", total.packets_duplicated, total.fragments_duplicated),
        ("sent out of order", total.packets_reordered, total.fragments_reordered),
        ("sent corrupt", total.packets_corrupted, total.fragments_corrupted),
        ("not made by a killed source", 0, total.fragments_killed),
        ("renumbered", 0, total.fragments_restarted),
    ] {
        if fragments > 0 {
            let (packets, fragments) = (grouped(packets), grouped(fragments));
            out.line(format_args!("  {what}: {packets} packets, {fragments} {unit}"))?;
        }
    }
    Ok(())
}
