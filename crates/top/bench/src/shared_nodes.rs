//! Builders that share storage nodes, over runs one behind the other: whether each node gets its
//! share of them, and what it costs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use catchment_model::Entry;
use catchment_recorder::{
    FrameFeed, NodeConfig, NodeShare, Place, RecorderConfig, SourceConfig, TargetConfig,
};
use serde::Serialize;

use crate::Bench;
use crate::control_node::own_seconds;
use crate::front_ends::process_seconds;
use crate::report::{Section, bytes, met, percent, table};
use crate::search::median;
use crate::store_node::Node;

const FRAME_BYTES: usize = 1 << 20;
const EVENTS: u32 = 32;
/// What a builder, or a node, may hold in all.
const MEMORY_BYTES: u64 = 192 << 20;
/// What a builder holds until it is durable.
const HOLD_BYTES: u64 = 64 << 20;
/// How far a node may be from the mean of all, over all runs.
const BALANCE: f64 = 0.10;

/// How many builders send how much to how many nodes, and how often.
#[derive(Clone, Copy)]
struct Scale {
    builders: u32,
    /// Bytes per second of a builder.
    builder_bytes: f64,
    nodes: u32,
    runs: u32,
    frames: u32,
}

/// Those of reference 001: two event builders to one data mover, and sixteen to five.
const SCALES: [Scale; 4] = [
    Scale { builders: 2, builder_bytes: 15e6, nodes: 1, runs: 3, frames: 72 },
    Scale { builders: 2, builder_bytes: 25e6, nodes: 1, runs: 3, frames: 120 },
    Scale { builders: 2, builder_bytes: 35e6, nodes: 1, runs: 3, frames: 167 },
    Scale { builders: 16, builder_bytes: 11e6, nodes: 5, runs: 20, frames: 52 },
];
const QUICK: Scale = Scale { builders: 2, builder_bytes: 11e6, nodes: 2, runs: 2, frames: 8 };

/// A run of all builders.
#[derive(Clone, Debug, Serialize)]
struct Taken {
    bytes_per_second: f64,
    /// By node.
    node_bytes: Vec<u64>,
    imbalance: f64,
}

/// All runs.
#[derive(Debug, Serialize)]
pub(crate) struct Shared {
    builders: u32,
    builder_bytes_per_second: f64,
    nodes: u32,
    /// Over all runs.
    imbalance: f64,
    /// Of one CPU: all nodes, and all builders.
    nodes_percent: f64,
    builders_percent: f64,
    runs: Vec<Taken>,
}

impl Shared {
    fn worst(&self) -> f64 {
        self.runs.iter().map(|run| run.imbalance).fold(0.0, f64::max)
    }
}

pub(crate) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<(Section, Vec<Shared>)> {
    let scales = if bench.quick { &[QUICK][..] } else { &SCALES };
    let rows: Vec<Shared> =
        scales.iter().map(|scale| share(bench, *scale)).collect::<anyhow::Result<_>>()?;
    let rate = |one: &Shared| bytes(median(one.runs.iter().map(|run| run.bytes_per_second)));
    let table = table(
        &rows,
        &[
            ("builders", &|one| one.builders.to_string()),
            ("each", &|one| bytes(one.builder_bytes_per_second)),
            ("nodes", &|one| one.nodes.to_string()),
            ("runs", &|one| one.runs.len().to_string()),
            ("bytes/s", &|one| rate(one)),
            ("builders' CPU", &|one| percent(one.builders_percent)),
            ("nodes' CPU", &|one| percent(one.nodes_percent)),
            ("in all", &|one| percent(one.builders_percent + one.nodes_percent)),
            ("imbalance", &|one| percent(one.imbalance * 100.0)),
            ("<= 10 %", &|one| met(bench.quick, one.imbalance <= BALANCE)),
            ("in the worst run", &|one| percent(one.worst() * 100.0)),
        ],
    );
    let section = Section::new("Builders that share storage nodes", table).note(
        "Runs one behind the other without a pause, of some 5 s each; nodes are processes on this \
         machine, and each builder is what a recorder has behind its builder, in a thread of the \
         bench: with links, datagrams and namespaces the same is `make test-long ARGS=shared`. \
         Bytes/s: of all builders, until all is durable; median. CPU: of all builders, of \
         all nodes, and their sum, percent of one. Each builder and each node has 192 MiB. \
         Imbalance: of the node whose bytes, over all runs, are farthest from the mean. Every \
         fragment was durable in every run.",
    );
    Ok((section, rows))
}

fn share(bench: &mut Bench<'_>, scale: Scale) -> anyhow::Result<Shared> {
    let (memory_bytes, preallocate_bytes) =
        if bench.quick { (64 << 20, 4 << 20) } else { (MEMORY_BYTES, 64 << 20) };
    let start = |number| {
        let name = format!("store-{}-{number}", std::process::id());
        Node::start_in(&bench.scratch.join(name), memory_bytes, preallocate_bytes)
    };
    let mut nodes = (0..scale.nodes).map(start).collect::<anyhow::Result<Vec<Node>>>()?;
    let addresses: Vec<String> = nodes.iter().map(|node| node.address.clone()).collect();
    let payload: Arc<[u8]> = (0..FRAME_BYTES).map(|at| (at * 31) as u8).collect();
    let Scale { builders, builder_bytes, .. } = scale;
    let (mut runs, begin, cpu) = (Vec::new(), Instant::now(), process_seconds());
    for run in 0..scale.runs {
        bench.now(format!("{builders} builders to {} nodes, run {run}", scale.nodes))?;
        runs.push(taken(scale, &addresses, &payload)?);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let builders_percent = (process_seconds() - cpu) * 100.0 / seconds;
    let mut of_nodes = 0.0;
    for node in &mut nodes {
        of_nodes += own_seconds(node.process())?;
        let counts = node.end()?;
        if counts.bad() > 0 || !counts.streams.iter().all(|one| one.has_ended) {
            bench.broken.push(format!("nodes that are shared: {counts:?}"));
        }
    }
    let of_node = |node: usize| runs.iter().map(|run| run.node_bytes[node]).sum();
    let all: Vec<u64> = (0..addresses.len()).map(of_node).collect();
    Ok(Shared {
        builders,
        builder_bytes_per_second: builder_bytes,
        nodes: scale.nodes,
        imbalance: imbalance(&all),
        nodes_percent: of_nodes * 100.0 / seconds,
        builders_percent,
        runs,
    })
}

/// A run of all builders: what each node has of it.
fn taken(scale: Scale, addresses: &[String], payload: &Arc<[u8]>) -> anyhow::Result<Taken> {
    let begin = Instant::now();
    let shares: Vec<anyhow::Result<Vec<NodeShare>>> = std::thread::scope(|scope| {
        let feed = || feed(addresses, scale, payload);
        let feeds: Vec<_> = (0..scale.builders).map(|_| scope.spawn(feed)).collect();
        let failed = |_| Err(anyhow::anyhow!("a builder has panicked"));
        feeds.into_iter().map(|one| one.join().unwrap_or_else(failed)).collect()
    });
    let seconds = begin.elapsed().as_secs_f64();
    let mut node_bytes = vec![0; addresses.len()];
    for shares in shares {
        for (sum, share) in node_bytes.iter_mut().zip(shares?) {
            *sum += share.bytes_durable;
        }
    }
    let all: u64 = node_bytes.iter().sum();
    let imbalance = imbalance(&node_bytes);
    Ok(Taken { bytes_per_second: all as f64 / seconds, node_bytes, imbalance })
}

/// How far the node that is farthest from the mean is from it.
fn imbalance(node_bytes: &[u64]) -> f64 {
    let mean = node_bytes.iter().sum::<u64>() as f64 / node_bytes.len() as f64;
    node_bytes.iter().map(|&one| (one as f64 / mean - 1.0).abs()).fold(0.0, f64::max)
}

/// Sends a builder's frames as one run, at its rate; what each node has of it.
fn feed(
    addresses: &[String],
    Scale { frames, builder_bytes, .. }: Scale,
    payload: &Arc<[u8]>,
) -> anyhow::Result<Vec<NodeShare>> {
    let source = SourceConfig::new("frames".to_owned(), ([127, 0, 0, 1], 0).into());
    let node = NodeConfig { addresses: addresses.to_vec(), ..NodeConfig::at("") };
    let target = TargetConfig {
        place: Place::Node(node),
        trends: false,
        hold_bytes: Some(HOLD_BYTES),
        ..TargetConfig::folder("nodes", "".into())
    };
    let config = RecorderConfig::new("".into(), vec![source]);
    let config = RecorderConfig { targets: vec![target], memory_bytes: MEMORY_BYTES, ..config };
    let mut feed = FrameFeed::start(&config)?;
    let begin = Instant::now();
    let every = Duration::from_secs_f64(FRAME_BYTES as f64 / builder_bytes);
    for frame in 0..frames {
        std::thread::sleep((every * frame).saturating_sub(begin.elapsed()));
        feed.put(EVENTS, payload)?;
    }
    let last = feed.finish()?;
    let target = &last.targets[0];
    let (durable, sent) =
        (target.ledger.total()[Entry::FragmentsDurable], u64::from(frames * EVENTS));
    let state = &target.state;
    anyhow::ensure!(durable == sent, "{durable} of {sent} fragments are durable: {state:?}");
    Ok(target.nodes.clone())
}
