//! Sixteen builders that share five storage nodes, over twenty runs one behind the other: whether
//! each node gets its share of each run, and all of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use catchment_model::Entry;
use catchment_recorder::{
    FrameFeed, NodeConfig, NodeShare, Place, RecorderConfig, SourceConfig, TargetConfig,
};
use serde::Serialize;

use crate::Bench;
use crate::report::{Section, bytes, met, percent, table};
use crate::search::median;
use crate::store_node::Node;

/// Bytes per second of a builder, and of its frames.
const BUILDER_BYTES: f64 = 11e6;
const FRAME_BYTES: usize = 1 << 20;
const EVENTS: u32 = 32;
/// What a builder holds until it is durable.
const HOLD_BYTES: u64 = 64 << 20;
/// How far a node may be from the mean of all, over all runs.
const BALANCE: f64 = 0.10;

/// How many builders send how much to how many nodes, and how often.
struct Scale {
    builders: u32,
    nodes: u32,
    runs: u32,
    frames: u32,
    memory_bytes: u64,
    preallocate_bytes: u64,
}

impl Scale {
    fn of(bench: &Bench<'_>) -> Self {
        match bench.quick {
            true => Self {
                builders: 2,
                nodes: 2,
                runs: 2,
                frames: 8,
                memory_bytes: 64 << 20,
                preallocate_bytes: 4 << 20,
            },
            false => Self {
                builders: 16,
                nodes: 5,
                runs: 20,
                frames: 52,
                memory_bytes: 256 << 20,
                preallocate_bytes: 64 << 20,
            },
        }
    }
}

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
    nodes: u32,
    /// Over all runs.
    imbalance: f64,
    runs: Vec<Taken>,
}

pub(crate) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<(Section, Shared)> {
    let scale = Scale::of(bench);
    let Scale { memory_bytes, preallocate_bytes, .. } = scale;
    let start = |number| {
        let name = format!("store-{}-{number}", std::process::id());
        Node::start_in(&bench.scratch.join(name), memory_bytes, preallocate_bytes)
    };
    let mut nodes = (0..scale.nodes).map(start).collect::<anyhow::Result<Vec<Node>>>()?;
    let addresses: Vec<String> = nodes.iter().map(|node| node.address.clone()).collect();
    let payload: Arc<[u8]> = (0..FRAME_BYTES).map(|at| (at * 31) as u8).collect();
    let mut runs = Vec::new();
    for run in 0..scale.runs {
        bench.now(format!("{} builders to {} nodes, run {run}", scale.builders, scale.nodes))?;
        runs.push(taken(&scale, &addresses, &payload)?);
    }
    for node in &mut nodes {
        let counts = node.end()?;
        if counts.bad() > 0 || !counts.streams.iter().all(|one| one.has_ended) {
            bench.broken.push(format!("nodes that are shared: {counts:?}"));
        }
    }
    let worst = runs.iter().map(|run| run.imbalance).fold(0.0, f64::max);
    let of_node = |node: usize| runs.iter().map(|run| run.node_bytes[node]).sum();
    let all: Vec<u64> = (0..addresses.len()).map(of_node).collect();
    let Scale { builders, nodes: of_nodes, .. } = scale;
    let row = Shared { builders, nodes: of_nodes, imbalance: imbalance(&all), runs };
    let rate = |one: &Shared| bytes(median(one.runs.iter().map(|run| run.bytes_per_second)));
    let table = table(
        [&row],
        &[
            ("builders", &|one| one.builders.to_string()),
            ("nodes", &|one| one.nodes.to_string()),
            ("runs", &|one| one.runs.len().to_string()),
            ("bytes/s", &|one| rate(one)),
            ("imbalance", &|one| percent(one.imbalance * 100.0)),
            ("<= 10 %", &|one| met(bench.quick, one.imbalance <= BALANCE)),
            ("in the worst run", &|_| percent(worst * 100.0)),
        ],
    );
    let section = Section::new("Builders that share storage nodes", table).note(format!(
        "Runs one behind the other without a pause, in each of which a builder sends {} at {}/s; \
         nodes are processes on this machine. Bytes/s: of all builders, until all is durable; median. \
         Imbalance: of the node whose bytes, over all runs, are farthest from the mean. Every \
         fragment was durable in every run.",
        bytes(f64::from(scale.frames) * FRAME_BYTES as f64),
        bytes(BUILDER_BYTES)
    ));
    Ok((section, row))
}

/// A run of all builders: what each node has of it.
fn taken(scale: &Scale, addresses: &[String], payload: &Arc<[u8]>) -> anyhow::Result<Taken> {
    let begin = Instant::now();
    let shares: Vec<anyhow::Result<Vec<NodeShare>>> = std::thread::scope(|scope| {
        let feed = || feed(addresses, scale.frames, payload);
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

/// Sends so many frames as one run, at a builder's rate; what each node has of it.
fn feed(addresses: &[String], frames: u32, payload: &Arc<[u8]>) -> anyhow::Result<Vec<NodeShare>> {
    let source = SourceConfig::new("frames".to_owned(), ([127, 0, 0, 1], 0).into());
    let node = NodeConfig { addresses: addresses.to_vec(), ..NodeConfig::at("") };
    let target = TargetConfig {
        place: Place::Node(node),
        trends: false,
        hold_bytes: Some(HOLD_BYTES),
        ..TargetConfig::folder("nodes", "".into())
    };
    let config = RecorderConfig::new("".into(), vec![source]);
    let mut feed = FrameFeed::start(&RecorderConfig { targets: vec![target], ..config })?;
    let begin = Instant::now();
    let every = Duration::from_secs_f64(FRAME_BYTES as f64 / BUILDER_BYTES);
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
