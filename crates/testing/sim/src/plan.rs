//! The plan that follows from a seed: the detector, the recorder's configuration, and the rates of
//! faults.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use catchment_builder::{IncompletePolicy, SourceRole};
use catchment_fixtures::Random;
use catchment_frame::{Codings, ColumnCoding, Dtype};
use catchment_ports::{StoreFaults, StoreTimes};
use catchment_recorder::{
    ChannelConfig, LinkConfig, RecorderConfig, Sizes, SourceConfig, TargetConfig,
};
use catchment_test_protocol as test_protocol;
use catchment_wire::Transport;
use catchment_wire::event_link::EventLink;
use catchment_wire::session::Release;

use crate::case::Case;
use crate::conductor::{self, Requests};
use crate::fault::{Fault, Faults};
use crate::groups::{self, Part};
use crate::links::{self, ChannelPlan, LinkPlan};
use crate::sessions::{self, LogPlan, SenderPlan};
use crate::settings::{self, Change};

/// A millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;
/// A second in nanoseconds.
pub const S: u64 = 1_000 * MS;
/// Bytes of the longest fragment that spans several packets: up to eight chunks.
pub const PART_FRAGMENT_BYTES_MAX: u64 = 500_000;

/// A source of the detector.
#[derive(Clone, Debug)]
pub struct SourcePlan {
    /// Whether its fragments span several packets, which are numbered.
    pub in_parts: bool,
    /// Whether these come over a connection.
    pub in_stream: bool,
    /// Where it stands among the logs of front-ends, if one of these delivers it over a session.
    pub log: Option<LogPlan>,
    /// Whether its words are big-endian.
    pub big_endian: bool,
    /// The longest payload.
    pub payload_bytes_max: u64,
    /// Events in one packet, if fragments are whole.
    pub batch: u64,
    /// How far it is behind the others.
    pub lag_ns: u64,
    /// Whether events wait for it.
    pub role: SourceRole,
    /// In which events it has a fragment.
    pub part: Part,
}

impl SourcePlan {
    /// Whether its fragments wait where there is no room.
    pub fn waits(&self) -> bool {
        self.in_stream || self.log.is_some()
    }

    /// Whether its fragments take many chunks.
    fn has_chains(&self) -> bool {
        self.payload_bytes_max == PART_FRAGMENT_BYTES_MAX
    }
}

/// Faults of the network, per thousand packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkPlan {
    /// Packets lost.
    pub lost: u64,
    /// Packets delivered twice.
    pub doubled: u64,
    /// Packets that others overtake.
    pub reordered: u64,
    /// Packets with a changed bit.
    pub corrupted: u64,
    /// How long a packet takes.
    pub delay_ns: u64,
    /// The extra delay of overtaken packets.
    pub reorder_ns: u64,
}

/// What a target gets of the detector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// By source and link: whether it gets anything of it.
    pub sources: Vec<bool>,
    /// By link: the channels that it gets.
    pub channels: Vec<Vec<bool>>,
}

impl Selected {
    /// Whether it gets all of a source or link.
    pub fn has_whole(&self, source: usize) -> bool {
        let link = source.checked_sub(self.sources.len() - self.channels.len());
        self.sources[source] && link.is_none_or(|link| self.channels[link].iter().all(|&has| has))
    }

    /// Whether it gets everything.
    pub fn is_all(&self) -> bool {
        (0..self.sources.len()).all(|source| self.has_whole(source))
    }
}

/// Everything that follows from a case.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The case.
    pub case: Case,
    /// The detector's sources.
    pub sources: Vec<SourcePlan>,
    /// The front-ends that deliver sources over sessions.
    pub senders: Vec<SenderPlan>,
    /// The detector's links, which follow the sources in the ledger.
    pub links: Vec<LinkPlan>,
    /// Events that the detector has.
    pub events: u64,
    /// The time between two events.
    pub interval_ns: u64,
    /// The first event's number.
    pub first_number: u64,
    /// The network.
    pub network: NetworkPlan,
    /// The disk of each target.
    pub stores: Vec<StoreTimes>,
    /// A second disk of the first target, whose files stand in the same folder here, so that what
    /// holds of a target's files holds of those of both disks.
    pub second_disk: Option<StoreTimes>,
    /// How many packets the buffers before the recorder hold.
    pub queue_packets: usize,
    /// What operators ask for, if there is run control.
    pub control: Option<Requests>,
    /// What operators set front-ends to.
    pub changes: Vec<Change>,
    /// Whether the run begins between two events.
    pub begins_paused: bool,
    /// Whether a recorder goes on with the run of one that died.
    pub goes_on: bool,
    /// The recorder's configuration.
    pub config: RecorderConfig,
}

/// The time at which everything begins.
pub const BEGIN_NS: u64 = 1_700_000_000_000_000_000;
/// The longest delay of packets while the network is slow.
pub const DELAY_NS_MAX: u64 = 900 * MS;
/// The longest time by which a source sends ahead of the others.
pub const AHEAD_NS_MAX: u64 = 3 * S;
/// How long the detector sends.
pub const DURATION_NS: u64 = 10 * S;

impl Plan {
    /// What follows from a case.
    pub fn of(case: Case) -> Self {
        let mut chance = case.chance("plan");
        // Long enough for the window and the ring of seen bits to wrap several times.
        let is_long = chance.below(16) == 0;
        let count = 1 + chance.below(if is_long { 2 } else { 5 }) as u32;
        // Of two sources one with other numbers is half of them: no majority knows better.
        let halves = case.faults.has(Fault::Misnumber) && case.chance("halves").below(2) == 0;
        let count = if halves { 2 } else { count };
        let parts = if is_long { 0 } else { [0, 0, 300, 1_000][chance.index(4)] };
        let sources: Vec<_> = (0..count).map(|_| source(&mut chance, parts)).collect();
        let (mut senders, sources) = sessions::draw(&case).with(sources);
        let has_chains = sources.iter().any(SourcePlan::has_chains);
        let sources: Vec<_> = sources
            .into_iter()
            .map(|source| match (is_long, has_chains) {
                (true, _) => SourcePlan { batch: 20, payload_bytes_max: 100, ..source },
                (false, true) => SourcePlan { batch: 1, ..source },
                (false, false) => source,
            })
            .collect();
        let sources = if is_long { sources } else { large(&case, sources) };
        let sources = some_required(sources);
        let is_beside = !senders.is_empty() && !is_long;
        let sources = over_connections(&case, sources, is_beside);
        let kept = sources.len().min(case.sources_max as usize);
        let mut sources = some_required(sources.into_iter().take(kept).collect());
        sessions::place(&mut senders, &mut sources);
        let events = match (is_long, has_chains) {
            (true, _) => 3_000 + chance.below(2_000),
            (false, true) => 30 + chance.below(60),
            (false, false) => 30 + chance.below(400),
        };
        let interval_ns = DURATION_NS / events;
        groups::draw(&case, &mut sources, (events, interval_ns));
        let events = events.min(case.events_max);
        // Numbers that wrap during the run, and others.
        let first_number = match chance.index(3) {
            0 => 0,
            1 => (1 << 24) - chance.below(200),
            _ => chance.below(1 << 24),
        };
        let stores = stores(&case);
        let second_disk = second_disk(&case);
        let queue_packets = queue_packets(&case);
        let begins_paused = chance.below(4) == 0;
        let links = links(&case, senders.is_empty());
        let mut config = config(&case, (&sources, &senders), interval_ns, &mut chance);
        let disks = 1 + usize::from(second_disk.is_some());
        add_targets(&case, (stores.len(), disks), &mut config);
        add_links(&case, &links, &mut config);
        select(&case, &mut config);
        let goes_on = goes_on(&case, &senders, &config);
        let control = conductor::draw(&case, &mut senders);
        let changes = settings::draw(&case, &mut senders);
        senders.extend(links::senders(&case, &links, &config));
        // Until it is started.
        let begins_paused = begins_paused || control.is_some();
        Self {
            case,
            sources,
            senders,
            links,
            events,
            interval_ns,
            first_number,
            network: network(&case),
            stores,
            second_disk,
            queue_packets,
            control,
            changes,
            begins_paused,
            goes_on,
            config,
        }
    }

    /// The front-end that delivers a link over a session.
    pub fn sender_of_link(&self, endpoint: usize) -> Option<usize> {
        self.senders.iter().position(|one| one.is_channels && one.sources[0] == endpoint)
    }

    /// Sources and links.
    pub fn endpoints(&self) -> usize {
        self.sources.len() + self.links.len()
    }

    /// What a target gets.
    pub fn selected(&self, target: usize) -> Selected {
        let target = self.config.targets.get(target);
        let is_named = |names: Option<&Vec<String>>, name: &String| {
            names.is_none_or(|names| names.contains(name))
        };
        let has = |name: &String| is_named(target.and_then(|one| one.sources.as_ref()), name);
        let of_links = self.config.links.iter().map(|link| {
            let channels = target.and_then(|target| target.channels.as_ref());
            let names = link.channels.iter().map(|channel| &channel.name);
            names.map(|name| has(&link.name) && is_named(channels, name)).collect()
        });
        let channels: Vec<Vec<bool>> = of_links.collect();
        let sources = self.config.sources.iter().map(|source| has(&source.name));
        let links = channels.iter().map(|channels| channels.contains(&true));
        Selected { sources: sources.chain(links).collect(), channels }
    }

    /// The bits in which all sources' numbers can be compared.
    pub fn number_bits(&self) -> u32 {
        number_bits(&self.sources)
    }
}

/// The bits in which all sources' numbers can be compared.
pub(crate) fn number_bits(sources: &[SourcePlan]) -> u32 {
    if sources.iter().all(|source| source.in_parts) { 48 } else { 24 }
}

/// In half of the runs with front-ends that have all to send again that is not durable. A target
/// that is not required is given a time, which is a real one. Narrow keys that begin again just
/// before a death go on in the old numbering.
fn goes_on(case: &Case, senders: &[SenderPlan], config: &RecorderConfig) -> bool {
    !senders.is_empty()
        && senders.iter().all(|sender| sender.release == Release::Durable)
        && !(case.faults.has(Fault::Renumber) || case.faults.has(Fault::Misnumber))
        && config.targets().iter().all(|target| target.required)
        && case.chance("goes on").chance(500)
}

pub(crate) fn queue_packets(case: &Case) -> usize {
    match case.faults.has(Fault::SmallBuffer) {
        true => 2 + case.chance("queue").below(60) as usize,
        false => 1 << 20,
    }
}

/// In half of the runs with a kill fragments are large: what it leaves of a frame is of interest if
/// the frame has several buffers.
fn large(case: &Case, sources: Vec<SourcePlan>) -> Vec<SourcePlan> {
    if !case.faults.has(Fault::Kill) || !case.chance("large").chance(500) {
        return sources;
    }
    let large = |one: SourcePlan| match one.in_parts {
        true => one,
        false => SourcePlan { payload_bytes_max: 12_000, ..one },
    };
    sources.into_iter().map(large).collect()
}

/// In every second run whose fragments are in parts these come over connections. Beside front-ends
/// all others do: where these have a listener, receive agents outlive connections at the run's end.
fn over_connections(case: &Case, sources: Vec<SourcePlan>, is_beside: bool) -> Vec<SourcePlan> {
    if !case.chance("streams").chance(500) {
        return sources;
    }
    let of = |one: SourcePlan| {
        let in_parts = one.in_parts || is_beside;
        SourcePlan { in_parts, in_stream: in_parts && one.log.is_none(), ..one }
    };
    sources.into_iter().map(of).collect()
}

/// Of sources that may all be optional, some that are not.
fn some_required(sources: Vec<SourcePlan>) -> Vec<SourcePlan> {
    match sources.iter().all(|source| source.role != SourceRole::Required) {
        true => sources.into_iter().map(required).collect(),
        false => sources,
    }
}

fn required(source: SourcePlan) -> SourcePlan {
    SourcePlan { role: SourceRole::Required, ..source }
}

fn source(chance: &mut Random, parts_per_thousand: u64) -> SourcePlan {
    let in_parts = chance.chance(parts_per_thousand);
    let longest = match in_parts {
        true => [100, 30_000, 190_000, PART_FRAGMENT_BYTES_MAX],
        false => [0, 100, 100, 4_000],
    };
    SourcePlan {
        in_parts,
        in_stream: false,
        log: None,
        big_endian: chance.below(2) == 0,
        payload_bytes_max: longest[chance.index(4)],
        batch: [1, 1, 1, 2, 5][chance.index(5)],
        lag_ns: chance.below(2) * chance.below(20 * MS),
        role: [
            SourceRole::Required,
            SourceRole::Required,
            SourceRole::Required,
            SourceRole::Optional,
        ][chance.index(4)],
        part: Part::default(),
    }
}

/// Every third run has links. Where no events come over sessions, half of them do.
fn links(case: &Case, may_be_sessions: bool) -> Vec<LinkPlan> {
    let (mut chance, mut sessions) = (case.chance("links"), case.chance("links over sessions"));
    let count = [0, 0, 0, 0, 1, 2][chance.index(6)].min(case.sources_max);
    let slice_ns = [50 * MS, 100 * MS, 250 * MS][chance.index(3)];
    let channel = |chance: &mut Random| ChannelPlan {
        dtype: [Dtype::I16, Dtype::F64, Dtype::U8][chance.index(3)],
        // Includes rates whose slices have different numbers of samples, or none.
        rate: [(256, 1), (1_000, 3), (1, 10), (2_048, 1)][chance.index(4)],
    };
    let link = |_| {
        let count = 1 + chance.below(5);
        let channels = (0..count).map(|_| channel(&mut chance)).collect();
        let is_session = may_be_sessions && sessions.below(2) == 0;
        LinkPlan { channels, slice_ns, channels_per_packet: 1 + chance.index(5), is_session }
    };
    (0..count).map(link).collect()
}

fn add_links(case: &Case, links: &[LinkPlan], config: &mut RecorderConfig) {
    if links.is_empty() {
        return;
    }
    let mut chance = case.chance("links' configuration");
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let of = |(index, plan): (usize, &LinkPlan)| {
        let channel = |(number, channel): (usize, &ChannelPlan)| {
            let name = format!("l{index}c{number}");
            ChannelConfig::new(name, channel.dtype, channel.sample_rate())
        };
        let channels = plan.channels.iter().enumerate().map(channel).collect();
        let slice_ns = plan.slice_ns;
        let link =
            LinkConfig { slice_ns, ..LinkConfig::new(format!("l{index}"), address, channels) };
        match plan.is_session {
            true => LinkConfig {
                address: SocketAddr::from(([127, 0, 0, 1], 7_200 + index as u16)),
                transport: Transport::Sessions,
                ..link
            },
            false => link,
        }
    };
    config.links = links.iter().enumerate().map(of).collect();
    let without = config.memory_bytes_min();
    config.trends = case.chance("trends").below(2) == 0;
    let of_trends = config.memory_bytes_min() - without;
    config.receive.link_threads = 1 + chance.index(2);
    config.frame.duration_ns = [500 * MS, S, 4 * S][chance.index(3)];
    config.frame.channel_bytes = [4 << 10, 256 << 10][chance.index(2)];
    // Several slices arrive within a time-out, too.
    config.build.timeout_ns = config.build.timeout_ns.max(6 * links[0].slice_ns);
    let least = config.memory_bytes_min();
    config.memory_bytes = match case.faults.has(Fault::SmallMemory) {
        true => least + chance.below(1 << 20),
        // So that as long fragments are granted with trends as without.
        false => config.memory_bytes.max(least).max(32 << 20) + of_trends,
    };
}

pub(crate) fn network(case: &Case) -> NetworkPlan {
    let mut chance = case.chance("network");
    let mut rate = |fault, most: u64| {
        let drawn = 1 + chance.below(most);
        if case.faults.has(fault) { drawn } else { 0 }
    };
    NetworkPlan {
        lost: rate(Fault::Loss, 60),
        doubled: rate(Fault::Duplicate, 200),
        reordered: rate(Fault::Reorder, 300),
        corrupted: rate(Fault::Corrupt, 60),
        delay_ns: 20_000 + chance.below(2 * MS),
        reorder_ns: [5 * MS, 50 * MS, 300 * MS][chance.index(3)],
    }
}

/// In every third run there are two targets, whose disks fail apart.
fn stores(case: &Case) -> Vec<StoreTimes> {
    let first = store(case, "store");
    let mut chance = case.chance("targets");
    if chance.below(3) > 0 && !case.has_two_targets {
        return vec![first];
    }
    let of_second = case.faults.iter().filter(|_| chance.chance(500));
    let faults = of_second.fold(Faults::NONE, Faults::with);
    vec![first, store(&Case { faults, ..*case }, "second store")]
}

/// In every fourth run the first target has two disks, which fail apart.
fn second_disk(case: &Case) -> Option<StoreTimes> {
    let mut chance = case.chance("disks");
    if chance.below(4) > 0 {
        return None;
    }
    let of_second = case.faults.iter().filter(|_| chance.chance(500));
    let faults = of_second.fold(Faults::NONE, Faults::with);
    Some(store(&Case { faults, ..*case }, "second disk"))
}

/// The targets of a run: so many, and so many disks of the first. The run does not wait for every
/// second one of the second ones.
pub(crate) fn add_targets(
    case: &Case,
    (count, disks): (usize, usize),
    config: &mut RecorderConfig,
) {
    let mut chance = case.chance("second target");
    let required = chance.below(2) == 0;
    let queue_bytes = [64 << 10, 512 << 10][chance.index(2)];
    let queue_bytes = Some(queue_bytes.min(config.memory_bytes / 2));
    let second = TargetConfig::folder("second", PathBuf::new());
    let second = TargetConfig { required, queue_bytes, ..second };
    let first = TargetConfig::folders("first", vec![PathBuf::new(); disks]);
    let targets = [first, second];
    let before = config.memory_bytes_min();
    config.targets = targets.into_iter().take(count).collect();
    // Buffers of a second disk.
    config.memory_bytes += config.memory_bytes_min() - before;
}

/// In every second run with two targets they get some sources, links and channels only. Each needs
/// a required target that gets all of it, which is the first one if the second does not.
fn select(case: &Case, config: &mut RecorderConfig) {
    let mut chance = case.chance("selections");
    if config.targets.len() < 2 || chance.below(2) == 0 {
        return;
    }
    let links: Vec<Vec<String>> = config
        .links
        .iter()
        .map(|link| link.channels.iter().map(|channel| channel.name.clone()).collect())
        .collect();
    let names = config.sources.iter().map(|source| &source.name);
    let names: Vec<String> =
        names.chain(config.links.iter().map(|link| &link.name)).cloned().collect();
    let first_link = config.sources.len();
    // The sources and links of which the target before has all.
    let mut whole: Vec<String> = Vec::new();
    for number in [1, 0] {
        let (mut sources, mut channels) = (Vec::new(), Vec::new());
        for (index, name) in names.iter().enumerate() {
            let of_link = index.checked_sub(first_link).map(|link| &links[link]);
            let must_have = number == 0 && !whole.contains(name);
            let share = if must_have { 2 } else { chance.below(3) };
            let all = of_link.into_iter().flatten();
            let own: Vec<String> = match share {
                1 => all.filter(|_| chance.below(2) == 0).cloned().collect(),
                _ => all.cloned().collect(),
            };
            if share > 0 && (of_link.is_none() || !own.is_empty()) {
                sources.push(name.clone());
                let is_whole = of_link.is_none_or(|all| all.len() == own.len());
                if is_whole && config.targets[number].required && number == 1 {
                    whole.push(name.clone());
                }
                channels.extend(own);
            }
        }
        if sources.is_empty() {
            // It gets everything.
            if config.targets[number].required {
                whole.clone_from(&names);
            }
            continue;
        }
        let has_links = sources.iter().any(|name| names[first_link..].contains(name));
        config.targets[number].sources = Some(sources);
        config.targets[number].channels = has_links.then_some(channels);
    }
}

pub(crate) fn store(case: &Case, purpose: &str) -> StoreTimes {
    let mut chance = case.chance(purpose);
    let mut rate = |fault, most: u64| {
        let drawn = 1 + chance.below(most);
        if case.faults.has(fault) { drawn } else { 0 }
    };
    let faults = StoreFaults {
        write_errors: rate(Fault::WriteError, 20_000),
        sync_errors: rate(Fault::SyncError, 30_000),
        open_errors: rate(Fault::OpenError, 200_000),
        finish_errors: rate(Fault::FinishError, 200_000),
        text_errors: rate(Fault::TextError, 300_000),
        hangs: rate(Fault::Hang, 2_000),
        finish_hangs: 0,
        torn_writes: rate(Fault::Torn, 30_000),
        misdirected_writes: rate(Fault::Misdirected, 30_000),
        full_ns: None,
    };
    let from = BEGIN_NS + chance.below(DURATION_NS);
    let until = from + chance.below(2 * S);
    let faults =
        StoreFaults { full_ns: case.faults.has(Fault::Full).then_some((from, until)), ..faults };
    let slow = case.faults.has(Fault::Slow);
    StoreTimes {
        operation_ns_max: if slow { 30 * MS + chance.below(600 * MS) } else { 2 * MS },
        // A drive tries again for a while.
        retries_ns_max: 3 * S,
        open_ns_max: if slow { 2 * S } else { 20 * MS },
        allocate_bytes: [0, 64 << 10, 1 << 20, 16 << 20][chance.index(4)],
        sync_interval_ns: [50 * MS, 200 * MS, S][chance.index(3)],
        faults,
    }
}

/// The longest time between events whose packets of one source may be mixed by the faults of a run:
/// the configuration of a recorder must allow for its network in the same way.
fn mixed_ns(case: &Case) -> u64 {
    let of = |fault, ns| if case.faults.has(fault) { ns } else { 0 };
    let delayed_ns = of(Fault::Delay, DELAY_NS_MAX) + of(Fault::Ahead, AHEAD_NS_MAX);
    delayed_ns + of(Fault::Reorder, network(case).reorder_ns)
}

/// After how many bytes a sync begins: in some runs.
pub(crate) fn sync_bytes(case: &Case) -> Option<u64> {
    let mut chance = case.chance("sync bytes");
    [None, None, Some(4 << 10), Some(256 << 10)][chance.index(4)]
}

/// The size of the smallest queues where so many fragments come in each interval. An agent takes
/// half a millisecond for a queue of 8: what brings more in that time for a whole run is too much
/// for the node.
pub(crate) fn queue_least(fragments: u64, interval_ns: u64) -> usize {
    if fragments * MS > 4 * interval_ns { 64 } else { 8 }
}

/// Sizes of queues, which are not below `least`, batches and chunks: in most runs so small that
/// they fill.
pub(crate) fn sizes(case: &Case, least: usize) -> Sizes {
    let mut chance = case.chance("sizes");
    if chance.below(8) == 0 {
        return Sizes::default();
    }
    let chunk_bytes_max = [64 << 10, 64 << 10, 256 << 10][chance.index(3)];
    let mut few = || least.max([8, 64, 256][chance.index(3)]);
    Sizes {
        batch_fragments: few(),
        ring_fragments: few(),
        cycle_fragments: few(),
        chunk_bytes_min: 64 << 10,
        chunk_bytes_max,
        frames_queued: 1 + chance.index(2),
        cycle_bytes: [16 << 10, 64 << 10, 4 << 20][chance.index(3)],
        encode_bytes_min: [4 << 10, 64 << 10, 1 << 20][chance.index(3)],
        toc_bytes_max: Sizes::default().toc_bytes_max,
        link_window_slices: [256, 4_096][chance.index(2)],
        rows_max: Sizes::default().rows_max,
    }
}

fn config(
    case: &Case,
    (sources, senders): (&[SourcePlan], &[SenderPlan]),
    interval_ns: u64,
    chance: &mut Random,
) -> RecorderConfig {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let source = |(index, plan): (usize, &SourcePlan)| {
        let (role, expected_in) = (plan.role, plan.part.configured());
        let config = SourceConfig::new(format!("s{index}"), address);
        let config = SourceConfig { role, expected_in, ..config };
        if let Some(LogPlan { sender, log, .. }) = plan.log {
            let sender = &senders[sender];
            return SourceConfig {
                name: sender.source_name(log),
                address: sender.address(),
                protocol: Arc::new(EventLink::SESSIONS),
                fragment_bytes_max: PART_FRAGMENT_BYTES_MAX,
                ..config
            };
        }
        match plan.in_parts {
            true if plan.in_stream => SourceConfig {
                protocol: Arc::new(test_protocol::TestStream),
                fragment_bytes_max: PART_FRAGMENT_BYTES_MAX,
                id: Some(index as u32),
                ..config
            },
            true => SourceConfig {
                protocol: Arc::new(test_protocol::TestProtocol),
                fragment_bytes_max: PART_FRAGMENT_BYTES_MAX,
                ..config
            },
            false => SourceConfig { id: Some(index as u32), ..config },
        }
    };
    let mut config =
        RecorderConfig::new("".into(), sources.iter().enumerate().map(source).collect());
    config.access.skew_bytes = senders.first().map_or(0, |one| one.skew.granted_bytes_max);
    config.receive.threads = 1 + chance.index(3);
    // Several packets of a source arrive within a time-out, as the horizon's rule requires.
    let batch = sources.iter().map(|source| source.batch).max().unwrap_or(1);
    config.build.timeout_ns = [50 * MS, 200 * MS, S][chance.index(3)].max(6 * batch * interval_ns);
    config.sizes = sizes(case, queue_least(sources.len() as u64, interval_ns));
    config.build.window_events = [256, 256, 1_024, 4_096][chance.index(4)];
    config.build.reorder_events = [64, config.build.window_events / 4][chance.index(2)];
    // A packet's first event is older than the packet.
    let mixed = mixed_ns(case) / interval_ns + 1 + if mixed_ns(case) > 0 { batch } else { 0 };
    config.build.reorder_events = config.build.reorder_events.max(mixed);
    config.build.window_events = config.build.window_events.max((4 * mixed).next_power_of_two());
    config.build.incomplete =
        if chance.below(6) == 0 { IncompletePolicy::Drop } else { IncompletePolicy::Keep };
    config.frame.bytes = [4 << 10, 32 << 10, 256 << 10][chance.index(3)];
    config.frame.time_ns = [20 * MS, 200 * MS, S][chance.index(3)];
    let coding = ["none", "none", "lz4", "auto"][chance.index(4)];
    config.frame.codings = Codings::new(coding.parse::<ColumnCoding>().expect("a coding"));
    config.encode.threads = 1 + chance.index(3);
    config.encode.bytes = config.sizes.encode_bytes_min;
    config.write.buffer_bytes = 64 << 10;
    config.write.buffer_count = 3 + chance.index(4);
    config.write.sync_bytes = sync_bytes(case);
    config.write.file_bytes = [512 << 10, 2 << 20, 1 << 30][chance.index(3)];
    config.write.file_time_ns = [None, Some(150 * MS), Some(S)][chance.index(3)];
    // Room for a good number of the longest events: only `small-memory` makes memory short.
    let event_bytes: u64 = sources.iter().map(|source| source.payload_bytes_max).sum();
    config.memory_bytes = config.memory_bytes_min().max(24 << 20) + 32 * event_bytes;
    if case.faults.has(Fault::SmallMemory) {
        config.memory_bytes = config.memory_bytes_min() + chance.below(1 << 20);
    }
    config
}
