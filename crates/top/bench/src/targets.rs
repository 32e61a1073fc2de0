//! hades-90 to one folder, to two required ones on one disk, to a storage node on this machine, to
//! a folder and a node, and to none; how long a fragment takes until it is durable there; and what
//! is lost while targets are frozen (`frozen.rs`).
//!
//! A disk that others share changes its rate within seconds, and one that was idle is faster for a
//! while. So each recording stands beside a limit of its own, measured right before and behind it.

use std::time::Instant;

use catchment_config::Rate;
use catchment_recorder::{NodeConfig, Place, RecorderConfig, TargetConfig};
use serde::Serialize;

use crate::Bench;
use crate::control_node::own_seconds;
use crate::discard;
use crate::front_ends::{Delay, delay};
use crate::frozen;
use crate::limits::direct_write_once;
use crate::loopback::tcp;
use crate::pauses::{self, Paused};
use crate::point::{Load, Point, measure_with};
use crate::report::{Report, Section, bytes, met, percent, table};
use crate::search::{Plan, Try, median};
use crate::shared_nodes::{self, Shared};
use crate::store_node::Node;

/// A set of targets.
#[derive(Clone, Copy)]
struct Arrangement {
    name: &'static str,
    /// By the address of the node, if there is one.
    arrange: fn(&mut RecorderConfig, &str),
    has_node: bool,
    limit: Limit,
}

/// What the recorder can at most reach.
#[derive(Clone, Copy)]
enum Limit {
    /// The disk's rate, over so many folders.
    DirectWrite(f64),
    /// The smaller of this and of a connection's.
    DirectWriteOrTcp(f64),
    ReceiveAndDiscard,
}

/// What a node may hold.
const NODE_BYTES: u64 = 512 << 20;
const PREALLOCATED_BYTES: u64 = 256 << 20;
/// The rate at which delays are measured, in bytes per second.
const DELAYED_BYTES: f64 = 50e6;

/// The rates of reference 001, in events per second.
const RATES: [f64; 3] = [1_000.0, 2_000.0, 4_000.0];

const ONE_FOLDER: &str = "one folder";
const NODE: &str = "a storage node";
const FOLDER_AND_NODE: &str = "a folder and a storage node on one disk";
const TWO_FOLDERS: &str = "two required folders on one disk";

const ARRANGEMENTS: [Arrangement; 5] = [
    Arrangement {
        name: ONE_FOLDER,
        arrange: |_, _| {},
        has_node: false,
        limit: Limit::DirectWrite(1.0),
    },
    Arrangement {
        name: TWO_FOLDERS,
        arrange: two,
        has_node: false,
        limit: Limit::DirectWrite(2.0),
    },
    Arrangement { name: NODE, arrange: node, has_node: true, limit: Limit::DirectWriteOrTcp(1.0) },
    Arrangement {
        name: FOLDER_AND_NODE,
        arrange: folder_and_node,
        has_node: true,
        limit: Limit::DirectWriteOrTcp(2.0),
    },
    Arrangement { name: "none", arrange: none, has_node: false, limit: Limit::ReceiveAndDiscard },
];

/// All that is measured.
#[derive(Debug, Serialize)]
struct All {
    found: Vec<Found>,
    fixed: Vec<Fixed>,
    pauses: Vec<Paused>,
    frozen: Vec<frozen::Frozen>,
    shared: Vec<Shared>,
}

/// Recordings at a rate of reference 001.
#[derive(Debug, Serialize)]
struct Fixed {
    name: &'static str,
    rate_hz: f64,
    rounds: Vec<Recorded>,
}

/// Recordings at the highest rate without loss.
#[derive(Debug, Serialize)]
struct Found {
    name: &'static str,
    rounds: Vec<Round>,
    /// None where nothing is kept.
    delay: Option<Delay>,
}

#[derive(Debug, Serialize)]
struct Round {
    limit_bytes_per_second: f64,
    #[serde(flatten)]
    recorded: Recorded,
}

/// One recording to an arrangement.
#[derive(Debug, Serialize)]
struct Recorded {
    /// Of one CPU, while it took frames and wrote them; the node is a process of its own.
    node_percent: Option<f64>,
    /// Seconds of a core for each GB, of the recorder and the node together.
    all_seconds_per_gb: f64,
    #[serde(flatten)]
    point: Point,
}

impl Round {
    fn share(&self) -> f64 {
        self.recorded.point.durable_bytes_per_second / self.limit_bytes_per_second
    }

    /// The rate of events that could go on.
    fn durable_hz(&self) -> f64 {
        let point = &self.recorded.point;
        let Point { sent_hz, bytes_per_second, durable_bytes_per_second, .. } = *point;
        sent_hz * durable_bytes_per_second / bytes_per_second
    }
}

pub(crate) fn run(bench: &mut Bench<'_>) -> anyhow::Result<Report> {
    let mut found = Vec::new();
    for arrangement in ARRANGEMENTS {
        let rounds = rounds(bench, arrangement)?;
        let keeps = !matches!(arrangement.limit, Limit::ReceiveAndDiscard);
        let delay = keeps.then(|| until_durable(bench, arrangement)).transpose()?;
        found.push(Found { name: arrangement.name, rounds, delay });
    }
    let section = rates_section(bench, &found);
    let delays = delays_section(&found);
    let two = found.iter().find(|one| one.name == TWO_FOLDERS);
    let rounds = two.map_or(&[][..], |two| &two.rounds);
    let durable = (!rounds.is_empty()).then(|| median(rounds.iter().map(Round::durable_hz)));
    let fixed = fixed(bench)?;
    let (frozen, while_frozen) = frozen::run(bench, durable.unwrap_or(2_000.0))?;
    let (paused, pauses) = pauses::run(bench)?;
    let mut sections = vec![section, fixed_section(bench, &fixed), delays, frozen, paused];
    // What fails at the end does not take the other figures with it.
    let shared = match shared_nodes::measure(bench) {
        Ok((nodes, shared)) => {
            sections.push(nodes);
            shared
        }
        Err(error) => {
            bench.broken.push(format!("builders that share storage nodes: {error}"));
            Vec::new()
        }
    };
    let all = All { found, fixed, pauses, frozen: while_frozen, shared };
    Report::new("targets", bench, sections, &all)
}

fn rates_section(bench: &Bench<'_>, found: &[Found]) -> Section {
    let share = if bench.quick { |_: f64| "-".to_owned() } else { |share| format!("{share:.2}") };
    let middle = |one: &Found, figure: fn(&Round) -> f64, shown: fn(f64) -> String| match one {
        Found { rounds, .. } if rounds.is_empty() => "-".to_owned(),
        Found { rounds, .. } => shown(median(rounds.iter().map(figure))),
    };
    let has_node = |one: &Found| one.rounds.iter().any(|one| one.recorded.node_percent.is_some());
    let rates = table(
        found,
        &[
            ("targets", &|one| one.name.to_owned()),
            ("bytes/s", &|one| middle(one, |round| round.recorded.point.bytes_per_second, bytes)),
            ("until durable", &|one| {
                middle(one, |round| round.recorded.point.durable_bytes_per_second, bytes)
            }),
            ("receive", &|one| middle(one, |round| round.recorded.point.receive_percent, percent)),
            ("build", &|one| middle(one, |round| round.recorded.point.build_percent, percent)),
            ("write", &|one| middle(one, |round| round.recorded.point.write_percent, percent)),
            ("emulate", &|one| middle(one, |round| round.recorded.point.emulate_percent, percent)),
            ("node", &|one| match has_node(one) {
                true => {
                    middle(one, |round| round.recorded.node_percent.unwrap_or_default(), percent)
                }
                false => "-".to_owned(),
            }),
            ("s/GB", &|one| middle(one, |round| round.recorded.all_seconds_per_gb, seconds_per_gb)),
            ("limit", &|one| middle(one, |round| round.limit_bytes_per_second, bytes)),
            ("share", &|one| middle(one, Round::share, share)),
        ],
    );
    Section::new("Highest rate without loss", rates)
        .note(
            "Bytes/s: of one target, at the highest rate that lost nothing; until durable: over \
             the time until all was on disk, without what memory holds at the end.",
        )
        .note(
            "Limit: direct write, half of it for two places, with a node the smaller of that and \
             of TCP loopback, or receive and discard flat out; the mean of right before and right \
             behind each recording. Share: until durable, of its limit; median of the recordings.",
        )
        .note(both_note(bench, found))
}

fn delays_section(found: &[Found]) -> Section {
    let delays = table(
        found.iter().filter_map(|one| Some((one.name, one.delay.as_ref()?))),
        &[
            ("targets", &|(name, _)| (*name).to_owned()),
            ("bytes/s", &|(_, delay)| bytes(delay.bytes_per_second)),
            ("median", &|(_, delay)| format!("{:.1} ms", delay.median_ms)),
            ("99 %", &|(_, delay)| format!("{:.1} ms", delay.p99_ms)),
        ],
    );
    Section::new("From send until durable", delays)
        .note("Fragments of 10 kB of one front-end, in all targets.")
}

fn seconds_per_gb(seconds: f64) -> String {
    format!("{seconds:.2}")
}

/// Whether two targets by different ways cost no more than one write and one send.
fn both_note(bench: &Bench<'_>, found: &[Found]) -> String {
    let cost = |name: &str| {
        let one = found.iter().find(|one| one.name == name && !one.rounds.is_empty())?;
        Some(median(one.rounds.iter().map(|round| round.recorded.all_seconds_per_gb)))
    };
    let costs = (cost(FOLDER_AND_NODE), cost(ONE_FOLDER), cost(NODE), cost("none"));
    let (Some(both), Some(folder), Some(node), Some(none)) = costs else {
        return "S/GB: seconds of a core, of the recorder and the node.".to_owned();
    };
    // Each alone receives and builds, too; both together do that once.
    let (extra, each) = (both - none, folder + node - 2.0 * none);
    format!(
        "S/GB: seconds of a core, of the recorder and the node. Beyond receiving and building \
         (*none*), a folder and a node together cost {extra:.2}, each alone {:.2} and {:.2}. Asked: \
         no more than one write and one send (by more than a tenth). {}",
        folder - none,
        node - none,
        met(bench.quick, extra <= 1.1 * each)
    )
}

/// Records at the rates of reference 001 to all arrangements.
fn fixed(bench: &mut Bench<'_>) -> anyhow::Result<Vec<Fixed>> {
    let rates = if bench.quick { &RATES[..1] } else { &RATES[..] };
    let seconds = bench.seconds().min(2.0);
    let mut all = Vec::new();
    for arrangement in ARRANGEMENTS {
        for &rate_hz in rates {
            let name = arrangement.name;
            let rounds = bench.rounds(format!("{name}, {rate_hz:.0} Hz"), |bench| {
                record(bench, arrangement, (rate_hz, seconds))
            })?;
            all.push(Fixed { name, rate_hz, rounds });
        }
    }
    Ok(all)
}

fn fixed_section(bench: &Bench<'_>, fixed: &[Fixed]) -> Section {
    let of = |one: &Fixed, figure: fn(&Recorded) -> f64| median(one.rounds.iter().map(figure));
    let table = table(
        fixed,
        &[
            ("targets", &|one| one.name.to_owned()),
            ("rate", &|one| format!("{:.0} kHz", one.rate_hz / 1e3)),
            ("bytes/s", &|one| bytes(of(one, |recorded| recorded.point.bytes_per_second))),
            (
                "nothing lost",
                &|one| match one.rounds.iter().filter(|one| !one.point.whole).count() {
                    0 => "yes".to_owned(),
                    lost => format!("**lost in {lost} of {}**", one.rounds.len()),
                },
            ),
            ("receive", &|one| percent(of(one, |recorded| recorded.point.receive_percent))),
            ("build", &|one| percent(of(one, |recorded| recorded.point.build_percent))),
            ("write", &|one| percent(of(one, |recorded| recorded.point.write_percent))),
            ("node", &|one| match one.rounds.iter().any(|one| one.node_percent.is_some()) {
                true => percent(of(one, |recorded| recorded.node_percent.unwrap_or_default())),
                false => "-".to_owned(),
            }),
            ("s/GB", &|one| seconds_per_gb(of(one, |recorded| recorded.all_seconds_per_gb))),
        ],
    );
    Section::new("Rates of reference 001", table).note(format!(
        "hades-90 in packets of 32 kB, {:.1} s each, median of {}. Percent of one CPU; s/GB: \
         core-seconds of everything but the emulator, with the node's.",
        bench.seconds().min(2.0),
        bench.repeats()
    ))
}

/// One recording, with the node that it needs.
fn record(
    bench: &mut Bench<'_>,
    arrangement: Arrangement,
    (hz, seconds): (f64, f64),
) -> anyhow::Result<Recorded> {
    let mut node = arrangement.node(bench)?;
    let address = node.as_ref().map_or("", |node| &node.address).to_owned();
    let change = |config: &mut RecorderConfig| (arrangement.arrange)(config, &address);
    let begin = Instant::now();
    let point = measure_with(bench, Load::FULL, Rate(Some(hz)), seconds, change)?;
    let alone = point.core_seconds_per_gb;
    let Some(node) = &mut node else {
        return Ok(Recorded { node_percent: None, all_seconds_per_gb: alone, point });
    };
    let of_node = own_seconds(node.process())?;
    let percent = of_node * 100.0 / begin.elapsed().as_secs_f64();
    let counts = node.end()?;
    if counts.bad() > 0 {
        bench.broken.push(format!("{}: {counts:?}", arrangement.name));
    }
    let gb = point.targets.iter().map(|one| one.recorded_bytes).max().unwrap_or(0) as f64 / 1e9;
    let all_seconds_per_gb = alone + of_node / gb.max(1e-9);
    Ok(Recorded { node_percent: Some(percent), all_seconds_per_gb, point })
}

/// Recordings at the highest rate without loss, each between two measurements of its limit.
fn rounds(bench: &mut Bench<'_>, arrangement: Arrangement) -> anyhow::Result<Vec<Round>> {
    let seconds = bench.seconds().min(4.0);
    // The rounds below confirm the rate.
    let plan = Plan { confirmations: 0, ..Plan::from(20_000.0) };
    let found = bench.highest(arrangement.name, plan, |bench, hz| {
        let point = record(bench, arrangement, (hz, seconds))?.point;
        Ok(Try { reached: point.whole && point.rate_kept, value: () })
    })?;
    let mut rounds = Vec::new();
    let Some((mut hz, _)) = found else { return Ok(rounds) };
    let mut before = limit(bench, arrangement)?;
    for _ in 0..4 * bench.repeats() {
        bench.now(format!("{}, {hz:.0} Hz between two limits", arrangement.name))?;
        let recorded = record(bench, arrangement, (hz, seconds))?;
        let behind = limit(bench, arrangement)?;
        match recorded.point.whole && recorded.point.rate_kept {
            true => {
                let limit_bytes_per_second = f64::midpoint(before, behind);
                rounds.push(Round { limit_bytes_per_second, recorded });
            }
            false => hz *= 0.96,
        }
        if rounds.len() == bench.repeats() {
            break;
        }
        before = behind;
    }
    Ok(rounds)
}

fn limit(
    bench: &mut Bench<'_>,
    Arrangement { name, limit, .. }: Arrangement,
) -> anyhow::Result<f64> {
    bench.now(format!("{name}, the limit"))?;
    Ok(match limit {
        Limit::DirectWrite(folders) => direct_write_once(bench, None)?.bytes_per_second / folders,
        Limit::DirectWriteOrTcp(places) => {
            let write = direct_write_once(bench, None)?.bytes_per_second / places;
            write.min(tcp(bench.seconds().min(1.0))?)
        }
        Limit::ReceiveAndDiscard => discard::flat_out(bench, Load::FULL)?.bytes_per_second,
    })
}

impl Arrangement {
    /// The node that it needs.
    fn node(&self, bench: &Bench<'_>) -> anyhow::Result<Option<Node>> {
        let start = || Node::start(&bench.scratch, NODE_BYTES, PREALLOCATED_BYTES);
        self.has_node.then(start).transpose()
    }
}

/// How long a fragment takes until it is durable in all targets.
fn until_durable(bench: &mut Bench<'_>, arrangement: Arrangement) -> anyhow::Result<Delay> {
    bench.now(format!("{}, until durable", arrangement.name))?;
    let node = arrangement.node(bench)?;
    let address = node.as_ref().map_or("", |node| &node.address).to_owned();
    delay(bench, DELAYED_BYTES, |config| (arrangement.arrange)(config, &address))
}

fn node_target(address: &str) -> TargetConfig {
    let place = Place::Node(NodeConfig::at(address));
    TargetConfig { place, trends: false, ..TargetConfig::folder("node", "node".into()) }
}

fn node(config: &mut RecorderConfig, address: &str) {
    config.targets = vec![node_target(address)];
}

fn folder_and_node(config: &mut RecorderConfig, address: &str) {
    let folder = TargetConfig::folder("folder", config.folder.clone());
    config.targets = vec![folder, node_target(address)];
}

fn two(config: &mut RecorderConfig, _: &str) {
    let first = TargetConfig::folder("first", config.folder.clone());
    let second = TargetConfig::folder("second", config.folder.join("second"));
    config.targets = vec![first, second];
}

fn none(config: &mut RecorderConfig, _: &str) {
    let none = TargetConfig::folder("none", config.folder.clone());
    config.targets = vec![TargetConfig { place: Place::None, ..none }];
}
