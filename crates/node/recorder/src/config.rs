//! The configuration of a recorder. The tables of a configuration file whose keys are fields here
//! are deserialized into these types; [`RecorderConfig::check`] has the bounds of all values.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use catchment_builder::{EDGE_NS_DEFAULT, IncompletePolicy, OwnedKeys, SourceRole};
use catchment_frame::{Codings, ColumnCoding, PayloadType};
use catchment_model::RunId;
use catchment_model::limits::{FRAME_BYTES_MAX, FRAME_TARGET_BYTES_DEFAULT};
use catchment_model::units::{Size, Time};
use catchment_net::{LinkAccess, Network};
use catchment_wire::event_link::EventLink;
use catchment_wire::hadtu::Hadtu;
use catchment_wire::{Protocol, Transport, all_reasons, link};
use serde::{Deserialize, Deserializer};

use crate::accept::Accept;
use crate::budget::SystemMemory;
use crate::link_access::Listener;
use crate::links::{Lane, LinkConfig, lanes};
use crate::match_rule::{MatchRule, SourceClock, TimeRule};
use crate::pool::populated_bytes;
use crate::sizes::Sizes;
use crate::standby::Standby;
use crate::target_config::TargetConfig;
use crate::write_config::{WriteConfig, some_size};

/// A recorder: its sources, how it builds, where it writes.
#[derive(Clone, Debug)]
pub struct RecorderConfig {
    /// The folder in which the run makes a folder of its own: its files, if there are no targets,
    /// and its trends.
    pub folder: PathBuf,
    /// The places that get the run's frames; none: `folder` is the only one.
    pub targets: Vec<TargetConfig>,
    /// The run's number, chosen by the program that starts it.
    pub run_number: u64,
    /// The sources; their order gives them their numbers.
    pub sources: Vec<SourceConfig>,
    /// How front-ends connect.
    pub access: LinkAccess,
    /// How long their marks move the begin, from the first event on.
    pub edge_ns: u64,
    /// Where else they connect, beside the address of their sources: all of these have one then.
    pub listeners: Vec<Listener>,
    /// Which of them are admitted that are no `sources`.
    pub accept: Vec<Accept>,
    /// Where they go on when the run ends, and come from when it begins. Without it, they connect
    /// for each run.
    pub standby: Option<Standby>,
    /// How long the run's end waits for a storage node that cannot be reached, or that says that it
    /// can write nothing: of the time that the end may take, by default that of the default.
    pub end_wait_ns: u64,
    /// The links that bring channels; they are numbered behind the sources.
    pub links: Vec<LinkConfig>,
    /// How datagrams are received.
    pub receive: ReceiveConfig,
    /// The run's identity, where several nodes record one run; a new one by default.
    pub run_id: Option<RunId>,
    /// A timer that says at each start which run it is, and its number, in place of `run_id`.
    pub timer: Option<SocketAddr>,
    /// This node's number among them, in every frame: each has another.
    pub stream: u32,
    /// The events that this node builds, where several nodes share those of a run; all by default.
    pub own: OwnedKeys,
    /// How events are built.
    pub build: BuildConfig,
    /// How frames are cut and encoded.
    pub frame: FrameConfig,
    /// How columns are compressed.
    pub encode: EncodeConfig,
    /// Whether trends are computed while recording: of the links' channels, and of the recorder's
    /// own counters.
    pub trends: bool,
    /// How files are written.
    pub write: WriteConfig,
    /// The memory that the node may use for data, in bytes: segments, descriptors, frames and disk
    /// buffers.
    pub memory_bytes: u64,
    /// The configuration as text (TOML), kept in every file of the run.
    pub text: String,
    /// Whether an emulator sends the recorded data: every file of the run says so.
    pub emulated: bool,
    /// Sizes of the queues, batches and chunks between the agents.
    pub sizes: Sizes,
}

/// One source and the port that it sends to.
#[derive(Clone, Debug)]
pub struct SourceConfig {
    /// Its name, unique in the run.
    pub name: String,
    /// The group in which displays summarize it.
    pub group: String,
    /// Where its datagrams arrive. Port 0 lets the system choose.
    pub address: SocketAddr,
    /// The protocol of its datagrams.
    pub protocol: Arc<dyn Protocol>,
    /// The id that its fragments must carry; none accepts any.
    pub id: Option<u32>,
    /// Bytes of its longest fragment: a fragment that declares more is refused.
    pub fragment_bytes_max: u64,
    /// The networks from which it may send; packets of others are refused. Empty: any.
    pub from: Vec<Network>,
    /// Whether events wait for it.
    pub role: SourceRole,
    /// The groups in whose events it is expected, one in each bit, where the reference source
    /// names those that took part; 0: in all, unless its front-end says more. Of a sparse source it
    /// says nothing.
    pub expected_in: u64,
    /// How its times fit those of the others, where events are built by time.
    pub clock: SourceClock,
    /// The contents of its fragments, if known.
    pub payload: Option<PayloadType>,
}

impl SourceConfig {
    /// A required source of `hadtu` packets with defaults for everything else: any sender, any id.
    pub fn new(name: impl Into<String>, address: SocketAddr) -> Self {
        let protocol = Hadtu;
        Self {
            name: name.into(),
            group: "sources".into(),
            address,
            fragment_bytes_max: protocol.fragment_bytes_max(),
            protocol: Arc::new(protocol),
            id: None,
            from: Vec::new(),
            role: SourceRole::Required,
            expected_in: 0,
            clock: SourceClock::default(),
            payload: None,
        }
    }

    /// A required source that a front-end delivers over a session to that address.
    pub fn over_session(name: impl Into<String>, address: SocketAddr) -> Self {
        let protocol = EventLink::SESSIONS;
        Self {
            fragment_bytes_max: protocol.fragment_bytes_max(),
            protocol: Arc::new(protocol),
            ..Self::new(name, address)
        }
    }

    /// Whether a front-end delivers it over a session, so that positions of its log are recorded.
    pub fn is_link(&self) -> bool {
        self.protocol.transport() == Transport::Sessions
    }

    /// Whether an event may not expect it, if a reference source names the groups of events.
    pub(crate) fn may_be_unexpected(&self) -> bool {
        let is_expected = matches!(self.role, SourceRole::Required | SourceRole::Optional);
        is_expected && (self.expected_in > 0 || self.is_link())
    }

    /// Whether it waits where there is no room: on a connection, and not with datagrams.
    pub(crate) fn is_pausable(&self) -> bool {
        self.protocol.transport().is_connections()
    }
}

/// How datagrams are received.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReceiveConfig {
    /// Receive threads of sources, which are distributed over them in turn.
    pub threads: usize,
    /// Receive threads of links, which are distributed over them in turn.
    pub link_threads: usize,
    /// The CPUs that receive agents are pinned to, in turn; empty leaves the choice to the system.
    pub cpus: Vec<usize>,
    /// How long a thread keeps polling after its last datagram before it sleeps.
    #[serde(deserialize_with = "Time::read")]
    pub spin: Duration,
    /// How long it then lets datagrams gather in the sockets before it reads them.
    #[serde(deserialize_with = "Time::read")]
    pub coalesce: Duration,
    /// The requested socket buffer, per source.
    #[serde(rename = "socket_buffer", deserialize_with = "Size::read")]
    pub socket_buffer_bytes: usize,
}

/// How events are built.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BuildConfig {
    /// What fragments of an event have in common.
    #[serde(rename = "match")]
    pub rule: MatchRule,
    /// How their times agree, if that is it.
    pub time: TimeRule,
    /// How long an event waits for its missing sources.
    #[serde(rename = "timeout", deserialize_with = "Time::read")]
    pub timeout_ns: u64,
    /// By number: how many events may be open at once; a power of two.
    pub window_events: u64,
    /// By number: how far a source's fragments may be out of order.
    pub reorder_events: u64,
    /// The treatment of incomplete events.
    pub incomplete: IncompletePolicy,
    /// Bytes of an event at most; larger ones are refused. A quarter of the sources' chunks unless
    /// it is set.
    #[serde(deserialize_with = "some_size")]
    pub event_bytes_max: Option<u64>,
    /// The CPU that the build agent is pinned to.
    pub cpu: Option<usize>,
}

/// How frames are cut and encoded.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FrameConfig {
    /// The payload at which a frame is cut.
    #[serde(deserialize_with = "Size::read")]
    pub bytes: u64,
    /// The age at which a frame is cut even if it is small.
    #[serde(rename = "time", deserialize_with = "Time::read")]
    pub time_ns: u64,
    /// The data time that a frame of channels covers: it is cut at multiples of it.
    #[serde(rename = "duration", deserialize_with = "Time::read")]
    pub duration_ns: u64,
    /// The bytes of samples at which a frame of channels is cut even if it covers less. A quarter
    /// of the channels' share of the memory, if that is less.
    #[serde(deserialize_with = "Size::read")]
    pub channel_bytes: u64,
    /// How the columns of sources and channels are encoded.
    #[serde(rename = "codec", deserialize_with = "one_coding")]
    pub codings: Codings,
}

/// How columns are encoded by threads of their own.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EncodeConfig {
    /// Threads; by default as many as there are CPUs.
    pub threads: usize,
    /// Raw bytes that may be in these threads at once; a thirty-second of the memory, if that is
    /// less.
    #[serde(deserialize_with = "Size::read")]
    pub bytes: usize,
}

impl Default for ReceiveConfig {
    fn default() -> Self {
        Self {
            threads: 1,
            link_threads: 1,
            cpus: Vec::new(),
            spin: Duration::ZERO,
            coalesce: Duration::from_micros(500),
            socket_buffer_bytes: 16 << 20,
        }
    }
}

impl Default for BuildConfig {
    fn default() -> Self {
        Self {
            rule: MatchRule::Number,
            time: TimeRule::default(),
            timeout_ns: 1_000_000_000,
            window_events: 1 << 18,
            reorder_events: 4_096,
            incomplete: IncompletePolicy::Keep,
            event_bytes_max: None,
            cpu: None,
        }
    }
}

impl Default for FrameConfig {
    fn default() -> Self {
        Self {
            bytes: FRAME_TARGET_BYTES_DEFAULT,
            time_ns: 1_000_000_000,
            duration_ns: 64_000_000_000,
            channel_bytes: 256 << 20,
            codings: Codings::new(ColumnCoding::Auto),
        }
    }
}

impl Default for EncodeConfig {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads: threads.min(64), bytes: 32 << 20 }
    }
}

/// A configuration that no recorder can run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: expected {expected}, got {got}")]
pub struct ConfigError {
    /// The key, as it stands in the configuration file.
    pub key: String,
    /// The accepted values.
    pub expected: String,
    /// The value found.
    pub got: String,
}

impl RecorderConfig {
    /// A recorder of these sources with defaults for everything else.
    pub fn new(folder: PathBuf, sources: Vec<SourceConfig>) -> Self {
        Self {
            folder,
            targets: Vec::new(),
            run_number: 1,
            sources,
            access: LinkAccess::default(),
            edge_ns: EDGE_NS_DEFAULT,
            listeners: Vec::new(),
            accept: Vec::new(),
            standby: None,
            end_wait_ns: Self::end_wait_of(10_000_000_000),
            links: Vec::new(),
            receive: ReceiveConfig::default(),
            run_id: None,
            timer: None,
            stream: 0,
            own: OwnedKeys::all(),
            build: BuildConfig::default(),
            frame: FrameConfig::default(),
            encode: EncodeConfig::default(),
            trends: false,
            write: WriteConfig::default(),
            memory_bytes: SystemMemory::now().default_budget_bytes(),
            text: String::new(),
            emulated: false,
            sizes: Sizes::default(),
        }
    }

    /// The chunks' share of the memory budget: three quarters of what disk buffers and encoding
    /// leave. The rest is for descriptors and for the columns' lengths, which grow with the chunks.
    pub(crate) fn chunk_bytes(&self) -> u64 {
        self.memory_bytes.saturating_sub(self.fixed_bytes()) / 4 * 3
    }

    /// Buffers and trends, and the memory for encoding.
    fn fixed_bytes(&self) -> u64 {
        self.buffer_bytes() + self.encoding_bytes_of(self.memory_bytes)
    }

    /// If anything is compressed, the columns in the threads, results kept for reuse, and the
    /// threads' own memory, which is as much again; and the results of long fragments.
    fn encoding_bytes_of(&self, memory_bytes: u64) -> u64 {
        match self.frame.codings.compresses() {
            true => {
                4 * self.encode_bytes_of(memory_bytes) as u64 + self.long_bytes_of(memory_bytes)
            }
            false => 0,
        }
    }

    /// The places that get the run's frames.
    pub fn targets(&self) -> Vec<TargetConfig> {
        match self.targets.is_empty() {
            true => vec![TargetConfig::folder("local", self.folder.clone())],
            false => self.targets.clone(),
        }
    }

    /// Buffers of the disks and of connections, columns that wait for best-effort targets, frames
    /// that are read back from spills, and trends.
    fn buffer_bytes(&self) -> u64 {
        let targets = self.targets();
        let folders: usize = targets.iter().map(|target| target.place.folders().len()).sum();
        let queues: u64 = targets.iter().map(|target| target.best_effort_bytes(self)).sum();
        let buffers = folders * self.write.buffer_bytes * self.write.buffer_count + queues as usize;
        // A frame that may have to be copied to another disk is held until it is copied.
        let several = targets.iter().filter(|target| target.place.folders().len() > 1).count();
        let channels = if self.links.is_empty() { 0 } else { self.frame.channel_bytes };
        let held = several * self.frame.bytes.max(channels) as usize;
        let trends = if self.trends { crate::trend_agent::memory_bytes(self) } else { 0 };
        let pausable = self.sources.iter().filter(|source| source.is_pausable());
        let ports: BTreeSet<SocketAddr> = pausable.map(|source| source.address).collect();
        let links = self.links.iter().filter(|link| link.is_session()).count();
        let agents = ports.len().min(self.receive.threads) + links.min(self.receive.link_threads);
        let others = (buffers + held + trends + agents * self.tcp_config().bytes_max()) as u64;
        others.saturating_add(self.read_back_bytes())
    }

    /// The budget that leaves `bytes` bytes beside the fixed parts.
    pub(crate) fn memory_bytes_with(&self, bytes: u64) -> u64 {
        let rest = self.buffer_bytes().saturating_add(bytes);
        // Encoding gets a quarter of the whole at most: each step finds two bits of it.
        let step = |whole, _| rest.saturating_add(self.encoding_bytes_of(whole));
        (0..u64::BITS / 2).fold(rest, step)
    }

    /// Raw bytes that may be in the encode threads at once: compression is the default, and must
    /// leave room in a small budget.
    pub(crate) fn encode_bytes(&self) -> usize {
        self.encode_bytes_of(self.memory_bytes)
    }

    fn encode_bytes_of(&self, memory_bytes: u64) -> usize {
        self.encode.bytes.min((memory_bytes / 32) as usize).max(self.sizes.encode_bytes_min)
    }

    /// Bytes of columns that wait for a required target. Compressed ones are in the memory for
    /// encoding; others are in chunks.
    pub(crate) fn target_queue_bytes(&self) -> u64 {
        match self.frame.codings.compresses() {
            true => self.encode_bytes() as u64,
            false => self.sizes.cycle_bytes as u64,
        }
    }

    /// Bytes of encoded columns in use, beyond which large columns are stored as they are: one is
    /// encoded, one waits for the targets, and one is copied.
    pub(crate) fn encoded_bytes_max(&self) -> usize {
        let long = self.long_bytes_of(self.memory_bytes);
        let column = (2 * self.event_frame_bytes()).max(self.encode_bytes() as u64);
        long.saturating_add(3 * column) as usize
    }

    /// Room for encoded columns of fragments that are longer than two frames: two such columns, or
    /// an eighth of the budget.
    fn long_bytes_of(&self, memory_bytes: u64) -> u64 {
        let event = self.build.event_bytes_max.unwrap_or(u64::MAX);
        let fragments = self.sources.iter().map(|source| source.fragment_bytes_max.min(event));
        let longest = fragments.max().unwrap_or(0);
        match longest > self.frame.bytes.saturating_mul(2).max(self.encode.bytes as u64) {
            true => longest.saturating_mul(2).min(memory_bytes / 8),
            false => 0,
        }
    }

    /// The share of the sources' chunks: half, if links are configured, too.
    pub(crate) fn segment_bytes(&self) -> u64 {
        if self.links.is_empty() { self.chunk_bytes() } else { self.chunk_bytes() / 2 }
    }

    /// The share of the links' chunks.
    pub(crate) fn link_segment_bytes(&self) -> u64 {
        if self.sources.is_empty() { self.chunk_bytes() } else { self.chunk_bytes() / 2 }
    }

    /// How much of the memory the system provides before the run begins, which takes
    /// seconds on a busy machine.
    pub fn bytes_made_ready(&self) -> u64 {
        let longest = self.sources.iter().map(|source| self.fragment_bytes_max(source)).max();
        let groups = [
            longest.map(|longest| (longest, self.segment_bytes())),
            (!self.links.is_empty()).then(|| (0, self.link_segment_bytes())),
        ];
        let of_group = |(longest, bytes): (u64, u64)| populated_bytes(longest, bytes as usize);
        groups.into_iter().flatten().map(|group| of_group(group) as u64).sum()
    }

    /// The samples at which a frame of channels is cut.
    pub(crate) fn channel_frame_bytes(&self) -> u64 {
        self.frame.channel_bytes.min(self.link_segment_bytes() / CHANNEL_FRAMES).max(1)
    }

    /// The payload at which a frame of events is cut. Where frames are compressed, several must
    /// fit: compression is lowered while they wait, and the columns under way still take a while.
    pub(crate) fn event_frame_bytes(&self) -> u64 {
        match self.frame.codings.compresses() {
            true => self.frame.bytes.min(self.segment_bytes() / EVENT_FRAMES).max(4_096),
            false => self.frame.bytes,
        }
    }

    /// The budget with which frames of events are not cut for want of memory.
    pub(crate) fn memory_bytes_for_events(&self) -> u64 {
        let shares = if self.links.is_empty() { 1 } else { 2 };
        let chunks = self.frame.bytes.saturating_mul(EVENT_FRAMES * shares);
        self.memory_bytes_with(chunks.div_ceil(3).saturating_mul(4))
    }

    /// The budget with which memory does not limit frames of channels of that size.
    pub(crate) fn memory_bytes_for(&self, channel_frame_bytes: u64) -> u64 {
        let shares = if self.sources.is_empty() { 1 } else { 2 };
        let chunks = channel_frame_bytes.saturating_mul(CHANNEL_FRAMES * shares);
        self.memory_bytes_with(chunks.div_ceil(3).saturating_mul(4))
    }

    /// The largest frame of either kind.
    pub(crate) fn frame_bytes_max(&self) -> u64 {
        if self.links.is_empty() {
            self.event_frame_bytes()
        } else {
            self.event_frame_bytes().max(self.channel_frame_bytes())
        }
    }

    /// The number of sources and links: each has a ledger.
    pub(crate) fn ledger_count(&self) -> usize {
        self.sources.len() + self.links.len()
    }

    /// The names of all sources and links, in the ledger's order.
    pub(crate) fn ledger_names(&self) -> Vec<String> {
        let sources = self.sources.iter().map(|source| source.name.clone());
        sources.chain(self.links.iter().map(|link| link.name.clone())).collect()
    }

    /// The names of the reasons for malformed packets that each source and link counts.
    pub(crate) fn ledger_reasons(&self) -> Vec<Vec<&'static str>> {
        let of_source = |source: &SourceConfig| -> Vec<&'static str> {
            let (own, transport) = (source.protocol.reasons(), source.protocol.transport());
            all_reasons(own, transport).map(|reason| reason.name).collect()
        };
        let of_link: Vec<&str> =
            all_reasons(link::REASONS, Transport::Datagrams).map(|reason| reason.name).collect();
        let sources = self.sources.iter().map(of_source);
        sources.chain(self.links.iter().map(|_| of_link.clone())).collect()
    }

    /// Slices in a whole frame of channels.
    pub(crate) fn frame_slices(&self) -> u64 {
        let slice_ns = self.links.first().map_or(1, |link| link.slice_ns);
        (self.frame.duration_ns / slice_ns.max(1)).max(1)
    }

    /// All channels, and the links of all lanes of chunks.
    pub(crate) fn lanes(&self) -> (Vec<Lane>, Vec<u32>) {
        lanes(&self.links, self.frame.duration_ns)
    }

    /// The most bytes that a frame's header takes.
    pub(crate) fn frame_header_bytes_max(&self) -> usize {
        catchment_writer::header_bytes_max(self.frame_columns_max())
    }

    /// Columns of the largest frame.
    pub(crate) fn frame_columns_max(&self) -> usize {
        let channels = self.links.iter().map(|link| link.channels.len()).sum();
        catchment_writer::FrameMaker::columns_max(self.sources.len(), channels)
    }

    /// Bytes of an event at most.
    pub(crate) fn event_bytes_max(&self) -> u64 {
        self.event_bytes_max_of(self.segment_bytes())
    }

    fn event_bytes_max_of(&self, segment_bytes: u64) -> u64 {
        let unset = || (segment_bytes / 4).clamp(1, FRAME_BYTES_MAX);
        self.build.event_bytes_max.unwrap_or_else(unset)
    }

    /// The longest fragment of a source that can be in an event.
    pub(crate) fn fragment_bytes_max(&self, source: &SourceConfig) -> u64 {
        source.fragment_bytes_max.min(self.event_bytes_max())
    }

    /// The bytes of two events of the longest fragments of all sources, given `segment_bytes` of
    /// chunks: one that waits for its last fragment, and one that is being written.
    pub(crate) fn two_events_bytes(&self, segment_bytes: u64) -> u64 {
        let event = self.event_bytes_max_of(segment_bytes);
        2 * self.sources.iter().map(|source| source.fragment_bytes_max.min(event)).sum::<u64>()
    }

    /// The least bytes of chunks that hold their own [`two_events_bytes`](Self::two_events_bytes)
    /// beside what may be set aside for front-ends.
    pub(crate) fn two_events_bytes_min(&self) -> u64 {
        // Both grow with the chunks, ever more slowly: once they fit, they also fit in more.
        let set_aside = |bytes| self.set_aside_bytes_max(bytes);
        let all = |bytes| self.two_events_bytes(bytes).saturating_add(set_aside(bytes));
        let (mut least, mut enough) = (0, all(u64::MAX));
        while least < enough {
            let middle = least + (enough - least) / 2;
            let is_enough = all(middle) <= middle && middle > 0;
            (least, enough) = if is_enough { (least, middle) } else { (middle + 1, enough) };
        }
        enough
    }

    /// The least budget with which these sources and buffers can be recorded.
    pub fn memory_bytes_min(&self) -> u64 {
        let (_, chunk_lanes) = self.lanes();
        let lanes = self.sources.len().max(chunk_lanes.len()) as u64;
        let segments = lanes * 4 * self.sizes.chunk_bytes_min as u64 + 2 * self.frame.bytes;
        let segments = segments.max(self.two_events_bytes_min());
        let parts = if self.links.is_empty() || self.sources.is_empty() { 1 } else { 2 };
        // Divisions round; an incomplete chunk does not count.
        self.memory_bytes_with((segments * parts).div_ceil(3) * 4 + 4)
    }
}

/// The number of frames of channels that their memory holds: one being filled, one being encoded,
/// and room for two.
const CHANNEL_FRAMES: u64 = 4;
/// The number of frames of events that their memory holds: with half of them waiting, nothing is
/// compressed.
const EVENT_FRAMES: u64 = 8;
/// One coding for all columns, if a file names one; its rules are added.
fn one_coding<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Codings, D::Error> {
    ColumnCoding::deserialize(deserializer).map(Codings::new)
}

#[cfg(test)]
mod tests {
    use catchment_model::units::Bytes;

    use super::*;
    use crate::spill::SpillConfig;
    use crate::target_config::{NodeConfig, Place};

    #[test]
    fn two_events_of_the_longest_fragments_must_fit_the_chunks() {
        let address = "127.0.0.1:0".parse().unwrap();
        let train = |index: usize| SourceConfig {
            fragment_bytes_max: 1_100 << 20,
            ..SourceConfig::new(format!("s{index}"), address)
        };
        let mut config = RecorderConfig::new("runs".into(), (0..16).map(train).collect());
        let least = config.memory_bytes_min();
        for (memory_bytes, fits) in [(16 << 30, false), (least - 8, false), (least, true)] {
            config.memory_bytes = memory_bytes;
            let refused = config.check_values().err().map(|refused| refused.to_string());
            assert_eq!(refused.is_none(), fits, "{memory_bytes}: {refused:?}");
            assert!(refused.is_none_or(|text| text.contains("take 36.9 GB")));
        }
        assert_eq!(config.segment_bytes() >> 20, 2 * 16 * 1_100);
        let builder = crate::builder_config::builder_config(&config);
        assert_eq!(builder.waiting_bytes_max >> 20, 2 * 16 * 1_100);
        assert_eq!(builder.event_bytes_max, config.segment_bytes() / 4);
        // If no event may be that large, no fragment may be.
        config.build.event_bytes_max = Some(100 << 20);
        assert_eq!(config.fragment_bytes_max(&config.sources[0]), 100 << 20);
        assert_eq!(config.two_events_bytes_min(), (2 * 16 * 100) << 20);
        // Two sources may fill a quarter each, however little that is.
        config.sources.truncate(2);
        config.build.event_bytes_max = None;
        assert!(config.memory_bytes_min() < 1 << 30);
    }

    #[test]
    fn frames_that_are_read_back_from_a_spill_are_in_the_budget_and_named() {
        let source = SourceConfig::new("source".to_owned(), "127.0.0.1:0".parse().unwrap());
        let mut config = RecorderConfig::new("runs".into(), vec![source]);
        config.frame.bytes = 8 << 20;
        let spill = Some(SpillConfig { folder: "spill".into(), bytes_max: 1 << 30 });
        let mib: u64 = 1 << 20;
        let nodes = |count| {
            let addresses = vec!["there:1".to_owned(); count];
            let place = Place::Node(NodeConfig { addresses, ..NodeConfig::at("") });
            let hold_bytes = Some(16 << 20);
            TargetConfig { place, hold_bytes, ..TargetConfig::folder("one", "runs".into()) }
        };
        // An eighth of what is held, and of 64 MiB where an earlier run is forwarded.
        let dealt = 3 * ((16 * mib) / 24) + 3 * ((64 * mib) / 24);
        let folder = TargetConfig::folder("one", "runs".into());
        for (target, expected) in
            [(folder, 24 * mib), (nodes(1), 24 * mib), (nodes(3), 24 * mib + dealt)]
        {
            config.targets = vec![target.clone()];
            let before = config.buffer_bytes();
            config.targets = vec![TargetConfig { spill: spill.clone(), ..target }];
            assert_eq!(config.buffer_bytes() - before, expected);
            config.memory_bytes = config.memory_bytes_min();
            config.check_values().unwrap();
            config.memory_bytes -= 8;
            let refused = config.check_values().unwrap_err().to_string();
            let words = format!("{} for frames read back from spills", Bytes(expected));
            assert!(refused.contains("memory.budget") && refused.contains(&words), "{refused}");
        }
    }

    #[test]
    fn a_budget_that_is_named_leaves_what_it_was_named_for() {
        for codec in ["none", "auto"] {
            for (buffer_bytes, encode_bytes) in
                [(1 << 16, 32 << 20), (4 << 20, 2 << 20), (16 << 20, 1 << 30)]
            {
                let mut config = RecorderConfig::new("runs".into(), Vec::new());
                config.frame.codings = codec.parse::<ColumnCoding>().unwrap().into();
                (config.write.buffer_bytes, config.encode.bytes) = (buffer_bytes, encode_bytes);
                for bytes in [1 << 10, 5 << 20, 90 << 20, 3 << 30] {
                    config.memory_bytes = config.memory_bytes_with(bytes);
                    let left = config.memory_bytes - config.fixed_bytes();
                    // But for what divisions round, four times.
                    assert!(left.abs_diff(bytes) <= 8, "{codec}, {bytes}: {left}");
                }
            }
        }
    }
}
