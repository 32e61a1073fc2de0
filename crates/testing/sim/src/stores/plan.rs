//! The plan that follows from a seed.

use std::net::SocketAddr;
use std::sync::Arc;

use catchment_fixtures::Random;
use catchment_frame::{Codings, ColumnCoding};
use catchment_ports::{StoreFaults, StoreTimes};
use catchment_recorder::{NodeConfig, Place, RecorderConfig, SourceConfig, TargetConfig};
use catchment_wire::trains::{TrainSettings, Trains};

use crate::case::Case;
use crate::fault::{Fault, Faults};
use crate::groups::Part;
use crate::plan::{self, BEGIN_NS, MS, Plan, S, SourcePlan};

/// Everything that follows from a case.
#[derive(Debug)]
pub struct StoresPlan {
    /// The recorder, without what it receives.
    pub(super) base: Plan,
    /// The trains of each source, of one packet each.
    pub(super) sources: Vec<TrainSettings>,
    /// Trains of each source, and the time between two.
    pub(super) events: u64,
    pub(super) interval_ns: u64,
    /// The number of the target that is a storage node, or several.
    pub(super) target: usize,
    pub(super) nodes: Vec<NodePlan>,
    /// In the order of their times.
    pub(super) happenings: Vec<(u64, Happening)>,
    /// When the run is to end.
    pub(super) stop_ns: u64,
    /// When the recorder dies, if it does, and how long after that another one asks the node.
    pub(super) death: Option<(u64, u64)>,
}

/// A storage node.
#[derive(Clone, Debug)]
pub(super) struct NodePlan {
    pub(super) times: StoreTimes,
    /// Buffers of a stream's disk, and their bytes.
    pub(super) buffers: (usize, usize),
    pub(super) file_bytes: u64,
    /// After how many bytes a sync begins.
    pub(super) sync_bytes: u64,
    pub(super) memory_bytes: u64,
    pub(super) close_after_ns: u64,
    /// How many bytes the system takes of a connection before it has sent them.
    pub(super) window_bytes: usize,
    pub(super) has_single_bytes: bool,
    /// How late its answers are at most.
    pub(super) late_ns: u64,
}

/// Something that befalls a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Happening {
    pub(super) node: usize,
    pub(super) what: What,
}

/// What that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// Its connections end; `is_behind`: behind what it has taken, and before what it answered.
    Cut { is_behind: bool },
    /// Its connections are left without a word by whatever is between.
    HalfOpen,
    /// Nothing passes for so long.
    Stall(u64),
    /// The power fails, and comes back after so long, if at all.
    Crash(Option<u64>),
    /// Its agents are not called for so long.
    Hang(u64),
    /// It is ended in order, and started again so long after that.
    Restart(u64),
    /// Its disk does nothing wrong from then on.
    Calm,
}

impl StoresPlan {
    /// The plan of a case.
    pub fn of(case: Case) -> Self {
        let mut chance = case.chance("stores");
        let count = (1 + chance.index(3)).min(case.sources_max as usize);
        let bytes_max = [200, 4_000, 20_000][chance.index(3)];
        let source = |chance: &mut Random| TrainSettings {
            train_bytes: 1 + chance.below(bytes_max),
            payload_bytes: 20_000,
            ..TrainSettings::default()
        };
        let sources: Vec<_> = (0..count).map(|_| source(&mut chance)).collect();
        let events = (30 + chance.below(300)).min(case.events_max);
        let interval_ns = [2 * MS, 10 * MS, 30 * MS][chance.index(3)];
        let stop_ns = RUN_NS + (events + 1) * interval_ns + 50 * MS;
        let nodes = [1, 1, 1, 2, 2, 3][chance.index(6)];
        // A run goes on if one node has all of it.
        let dies = case.faults.has(Fault::Kill);
        let nodes = if dies { 1 } else { nodes };
        let nodes: Vec<_> = (0..nodes).map(|node| node_plan(&case, node, stop_ns)).collect();
        let mut happenings = Vec::new();
        for node in 0..nodes.len() {
            befall(&case, node, stop_ns, &mut happenings);
        }
        happenings.sort_unstable();
        let required = chance.chance(700) || dies;
        // Some target is required.
        let has_folder = !required || chance.chance(200) && !dies;
        let mut deaths = case.chance("death");
        let died_ns = RUN_NS + deaths.below(stop_ns - RUN_NS + S / 2);
        let longest_ns = [50 * MS, S, 4 * S][deaths.index(3)];
        let for_ns = deaths.below(longest_ns);
        let death = dies.then_some((died_ns, for_ns));
        let target = if has_folder { chance.index(2) } else { 0 };
        let number = has_folder.then_some(target);
        let targets = targets((&case, &mut chance), nodes.len(), (number, required));
        let base = base(case, &sources, targets, &mut chance);
        Self { base, sources, events, interval_ns, target, nodes, happenings, stop_ns, death }
    }

    /// How many sources and events it has.
    pub fn size(&self) -> (usize, u64) {
        (self.sources.len(), self.events)
    }

    pub(super) fn case(&self) -> &Case {
        &self.base.case
    }

    /// When the train of that number is sent.
    pub(super) fn sent_ns(&self, event: u64) -> u64 {
        RUN_NS + event * self.interval_ns
    }

    /// The bytes of a source's train.
    pub(super) fn fragment(&self, source: usize, event: u64) -> Vec<u8> {
        let mut chance = Random::new(self.case().seed ^ (event << 8) ^ source as u64);
        let words = std::iter::repeat_with(|| chance.next_u64().to_le_bytes());
        words.flatten().take(self.sources[source].train_bytes as usize).collect()
    }

    /// The packet that brings it: its bytes, and the mark behind them.
    pub(super) fn packet(&self, source: usize, event: u64) -> Vec<u8> {
        let settings = &self.sources[source];
        let fields = [
            (event, settings.frame_bytes),
            (FIRST_AND_LAST, settings.flags_bytes),
            (0, settings.packet_bytes),
        ];
        let mut packet = self.fragment(source, event);
        for (value, width) in fields {
            packet.extend(&value.to_le_bytes()[..width as usize]);
        }
        packet
    }
}

/// A node, and what its disk does wrong.
fn node_plan(case: &Case, node: usize, stop_ns: u64) -> NodePlan {
    let mut chance = case.chance(&format!("node {node}"));
    let has = |chance: &mut Random, fault| chance.chance(600) && case.faults.has(fault);
    let mut rate = |fault, most: u64| {
        let drawn = 1 + chance.below(most);
        if has(&mut chance, fault) { drawn } else { 0 }
    };
    let mut faults = StoreFaults {
        write_errors: rate(Fault::WriteError, 60_000),
        sync_errors: rate(Fault::SyncError, 100_000),
        open_errors: rate(Fault::OpenError, 300_000),
        finish_errors: rate(Fault::FinishError, 300_000),
        text_errors: rate(Fault::TextError, 200_000),
        hangs: rate(Fault::Hang, 10_000),
        ..StoreFaults::default()
    };
    if has(&mut chance, Fault::Full) {
        let from_ns = RUN_NS + chance.below(stop_ns - RUN_NS);
        faults.full_ns = Some((from_ns, from_ns + chance.below(6 * S)));
    }
    let is_slow = has(&mut chance, Fault::Slow);
    let times = StoreTimes {
        operation_ns_max: if is_slow { 300 * MS } else { [MS, 5 * MS, 20 * MS][chance.index(3)] },
        retries_ns_max: [0, 200 * MS][chance.index(2)],
        open_ns_max: if is_slow { 500 * MS } else { 10 * MS },
        allocate_bytes: [0, 256 << 10, 1 << 20][chance.index(3)],
        sync_interval_ns: [5 * MS, 50 * MS, 500 * MS][chance.index(3)],
        faults,
    };
    let is_small = has(&mut chance, Fault::SmallMemory);
    NodePlan {
        times,
        buffers: (2 + chance.index(4), 64 << 10),
        file_bytes: [128 << 10, 512 << 10, 1 << 30][chance.index(3)],
        sync_bytes: plan::sync_bytes(case).unwrap_or(u64::MAX),
        memory_bytes: if is_small { 6 << 20 } else { 32 << 20 },
        close_after_ns: [300 * MS, 5 * S, 20 * S][chance.index(3)],
        window_bytes: [2 << 10, 64 << 10, 256 << 10][chance.index(3)],
        has_single_bytes: has(&mut chance, Fault::SingleBytes),
        late_ns: if has(&mut chance, Fault::LateAnswers) { 300 * MS } else { MS },
    }
}

/// What befalls a node, and when.
fn befall(case: &Case, node: usize, stop_ns: u64, all: &mut Vec<(u64, Happening)>) {
    let mut chance = case.chance(&format!("what befalls node {node}"));
    let kinds = [
        Fault::Cut,
        Fault::LostAnswers,
        Fault::HalfOpen,
        Fault::Stall,
        Fault::NodeCrash,
        Fault::NodeHang,
        Fault::NodeRestart,
    ];
    let lasts_ns = stop_ns - RUN_NS + 2 * S;
    for fault in kinds {
        // What is drawn for one kind is the same whatever else there is.
        let mut chance = Random::new(chance.next_u64());
        let is_there = case.faults.has(fault) && chance.chance(600);
        for _ in 0..1 + chance.below(4) {
            let at_ns = RUN_NS + chance.below(lasts_ns);
            let long_ns = [100 * MS, S, 8 * S][chance.index(3)];
            let for_ns = chance.below(long_ns);
            let what = match fault {
                Fault::Cut => What::Cut { is_behind: false },
                Fault::LostAnswers => What::Cut { is_behind: true },
                Fault::HalfOpen => What::HalfOpen,
                Fault::Stall => What::Stall(for_ns),
                Fault::NodeCrash => What::Crash((!chance.chance(150)).then_some(for_ns)),
                Fault::NodeHang => What::Hang(for_ns),
                _ => What::Restart(for_ns),
            };
            if is_there {
                all.push((at_ns, Happening { node, what }));
            }
        }
    }
    // Mostly the disk is well again once the run is to end.
    if chance.chance(700) {
        all.push((stop_ns, Happening { node, what: What::Calm }));
    }
}

/// The target of the nodes, and a folder beside it if it has a number of two.
fn targets(
    (case, chance): (&Case, &mut Random),
    nodes: usize,
    (number, required): (Option<usize>, bool),
) -> Vec<TargetConfig> {
    let bytes = [None, Some(100 << 10), Some(1 << 20), Some(4 << 20)][chance.index(4)];
    let bytes = if case.faults.has(Fault::SmallMemory) { Some(64 << 10) } else { bytes };
    let addresses = (0..nodes).map(|node| format!("node-{node}:9000")).collect();
    let node = NodeConfig { addresses, certificate: None, token_file: None };
    let of_nodes = TargetConfig {
        place: Place::Node(node),
        trends: false,
        required,
        queue_bytes: bytes.filter(|_| !required),
        hold_bytes: bytes.filter(|_| required),
        ..TargetConfig::folder("nodes", "".into())
    };
    let mut all = vec![of_nodes];
    if let Some(number) = number {
        all.insert(1 - number, TargetConfig::folder("local", "".into()));
    }
    all
}

/// The recorder's plan: of these sources, with a disk of its own that does nothing wrong.
fn base(
    case: Case,
    settings: &[TrainSettings],
    targets: Vec<TargetConfig>,
    chance: &mut Random,
) -> Plan {
    let mut base = Plan::of(Case { faults: Faults::NONE, has_two_targets: false, ..case });
    base.case = case;
    let template: &SourcePlan = &base.sources[0];
    let (log, part) = (None, Part::default());
    let source = SourcePlan { in_parts: true, in_stream: false, log, part, ..template.clone() };
    base.sources = settings.iter().map(|_| source.clone()).collect();
    (base.senders, base.links, base.control) = (Vec::new(), Vec::new(), None);
    (base.begins_paused, base.goes_on, base.second_disk) = (false, false, None);
    base.stores.truncate(1);
    base.stores[0].faults = StoreFaults::default();
    base.stores = vec![base.stores[0]; targets.len()];
    let of = |(index, settings): (usize, &TrainSettings)| {
        let protocol = Trains::new(settings.clone()).expect("settings that can be");
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        SourceConfig {
            protocol: Arc::new(protocol),
            fragment_bytes_max: settings.train_bytes,
            ..SourceConfig::new(format!("t{index}"), address)
        }
    };
    let mut config = RecorderConfig::new("".into(), settings.iter().enumerate().map(of).collect());
    config.targets = targets;
    config.end_wait_ns = [S, 3 * S, 10 * S][chance.index(3)];
    config.receive.threads = 1 + chance.index(2);
    config.build.timeout_ns = [50 * MS, 300 * MS][chance.index(2)];
    config.sizes = plan::sizes(&case, 8);
    config.frame.bytes = [4 << 10, 32 << 10, 256 << 10][chance.index(3)];
    config.frame.time_ns = [20 * MS, 200 * MS, S][chance.index(3)];
    let coding = ["none", "none", "lz4"][chance.index(3)];
    config.frame.codings = Codings::new(coding.parse::<ColumnCoding>().expect("a coding"));
    config.encode.threads = 1 + chance.index(2);
    config.encode.bytes = config.sizes.encode_bytes_min;
    config.write.buffer_bytes = 64 << 10;
    config.write.buffer_count = 4;
    config.write.sync_bytes = plan::sync_bytes(&case);
    config.memory_bytes = config.memory_bytes_min()
        + match case.faults.has(Fault::SmallMemory) {
            true => chance.below(2 << 20),
            false => 64 << 20,
        };
    base.config = config;
    base
}

/// When the first train is sent.
pub(super) const RUN_NS: u64 = BEGIN_NS + S / 5;
/// The flags of a packet that is a train.
const FIRST_AND_LAST: u64 = 3;
