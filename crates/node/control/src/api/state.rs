//! The node at one moment.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use super::store::Store;

/// The node at one moment: the first thing that the page shows.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct State {
    /// The identity of the node.
    pub node: NodeInfo,
    /// The time of this state.
    pub time: String,
    /// Whether good data are being recorded, from the data flow.
    pub verdict: Verdict,
    /// idle, configured, armed, recording, paused, safe or fault.
    pub state: String,
    /// Why it is in safe or fault.
    pub reason: Option<String>,
    /// The command in progress.
    pub under_way: Option<UnderWay>,
    /// The commands allowed now.
    pub commands: Vec<CommandOffer>,
    /// Whether the data being recorded, or to be recorded, come from this node's own emulator.
    pub emulated: bool,
    /// The run being recorded.
    pub run: Option<RunNow>,
    /// The flow of data.
    pub rates: Rates,
    /// The losses of this run.
    pub loss: Loss,
    /// The bad data among those recorded: broken, or from another event.
    pub bad: Loss,
    /// How long memory lasts at this rate while a required target takes nothing: then front-ends
    /// wait, and datagrams are dropped; null while it need not.
    pub memory_seconds: Option<f64>,
    /// The share of the last 10 s in which data were discarded or paused.
    pub dead_time: f64,
    /// The destination of files.
    pub disk: Disk,
    /// The stages from left to right.
    pub flow: Vec<Flow>,
    /// The places that get the run's frames, or had those of the last run; empty before the first.
    pub targets: Vec<Target>,
    /// The folders that take what a storage node cannot take now; also before the first run.
    pub spills: Vec<Spill>,
    /// The storage node, if it is one: the run and all that belongs to it are empty then.
    pub store: Option<Store>,
    /// The condition of the sources.
    pub sources: SourceCounts,
    /// The numbers of alarms.
    pub alarms: AlarmCounts,
    /// Notices for the operator.
    pub warnings: Vec<String>,
}

/// The node.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct NodeInfo {
    /// Its name.
    pub name: String,
    /// The program's version.
    pub version: String,
    /// When it was started.
    pub started: String,
    /// Seconds since then.
    pub uptime_seconds: f64,
}

/// Whether good data are being recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Verdict {
    /// good, held, bad_data, loss, heavy_bad_data, heavy_loss or not_recording.
    pub level: String,
    /// The lost share of the data that should have been recorded in the last 10 s, 0 to 1; null if
    /// nothing is being recorded.
    pub loss_share: Option<f64>,
    /// The bad share of the data recorded in the last 10 s, 0 to 1; null if nothing is being
    /// recorded.
    pub bad_share: Option<f64>,
    /// The verdict in one line.
    pub text: String,
    /// The reasons, with their places.
    pub reasons: Vec<String>,
}

/// A command in progress.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct UnderWay {
    /// Its request id.
    pub request: String,
    /// The command.
    pub command: String,
    /// When it began.
    pub since: String,
    /// The devices that have not answered yet.
    pub waiting_for: Vec<String>,
    /// What it waits for, where somebody must do something, such as making room.
    pub reason: Option<String>,
}

/// A command that is allowed now.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CommandOffer {
    /// The command.
    pub name: String,
    /// The question to ask before it is sent.
    pub confirm: Option<String>,
}

/// The run being recorded.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct RunNow {
    /// Its number.
    pub number: u64,
    /// Its identity.
    pub id: String,
    /// The folder of its files.
    pub folder: String,
    /// When it began.
    pub started: String,
    /// Seconds since then.
    pub seconds: f64,
    /// Who started it.
    pub who: String,
    /// The comment given at its start.
    pub comment: String,
    /// Whether its data are emulated.
    pub emulated: bool,
    /// Events on disk.
    pub events: u64,
    /// Frames on disk.
    pub frames: u64,
    /// Files so far.
    pub files: u64,
    /// Bytes of its files.
    pub bytes_written: u64,
}

/// The flow of data over the last seconds.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Rates {
    /// Events built (slices if there are only channels).
    pub events_per_second: f64,
    /// Packets received.
    pub packets_per_second: f64,
    /// Bytes received.
    pub bytes_per_second: f64,
    /// Bytes written.
    pub bytes_written_per_second: f64,
    /// Fragments lost.
    pub loss_per_second: f64,
}

/// A run's losses, or its bad data.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Loss {
    /// Fragments and packets.
    pub count: u64,
    /// The share of the fragments that should have been recorded; for bad data, the share of the
    /// recorded ones.
    pub share: f64,
    /// The ledger entries that count them.
    pub by_entry: BTreeMap<String, u64>,
}

/// The destination of files.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Disk {
    /// The folder.
    pub folder: String,
    /// Bytes that can still be written; null if the system does not report them.
    pub free_bytes: Option<u64>,
    /// The size of the disk.
    pub total_bytes: Option<u64>,
    /// How long that lasts at the run's last write rate; 0 in fault for a full disk, null before
    /// anything was written.
    pub hours_left: Option<f64>,
}

/// A stage of the data path.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Flow {
    /// receive, build, encode, write or disk.
    pub name: String,
    /// The share of time that its threads work, 0 to 1.
    pub busy: f64,
    /// The queues in front of it.
    pub queues: Vec<Queue>,
    /// The bytes that it passes on.
    pub bytes_per_second: f64,
    /// Whether it limits the others.
    pub bottleneck: bool,
}

/// A place that gets the run's frames.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Whether the run waits for it; otherwise it is best effort.
    pub required: bool,
    /// The folder in which its run has a folder; null if it has none here.
    pub folder: Option<String>,
    /// The address of its storage node, or those of several, with commas; null if it is none.
    pub node: Option<String>,
    /// recording, spilling (it takes nothing, and its frames go to its spill), away (it takes
    /// nothing, and frames wait in memory), fault (its files cannot be written, or its node
    /// refuses them) or ended.
    pub state: String,
    /// Why it is spilling, away or in fault.
    pub reason: Option<String>,
    /// Bytes of its files.
    pub bytes_written: u64,
    /// The same over the last seconds.
    pub bytes_written_per_second: f64,
    /// Columns that wait for it; one that is larger than the queue waits alone.
    pub queue: Queue,
    /// The buffers of its disks; null if it has none.
    pub buffers: Option<Queue>,
    /// Its folders: one of them, if it has any, gets the present file.
    pub folders: Vec<TargetFolder>,
    /// Its storage nodes, if it has any: what each has taken of the run.
    pub nodes: Vec<TargetNode>,
    /// What became of the fragments of all sources in it, by the ledger's entry, without zeros:
    /// fragments_recorded, fragments_durable, fragments_not_taken (it is best effort and was
    /// behind, or keeps nothing), fragments_discarded_disk (its disk failed), fragments_removed,
    /// fragments_unconfirmed (a sync or the close of their file failed), fragments_spilled (they
    /// became durable in the spill), fragments_forwarded (those of them that became durable at the
    /// storage node, or in the folder, later, in this run).
    pub ledger: BTreeMap<String, u64>,
}

/// A storage node of a target.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TargetNode {
    /// Host and port.
    pub address: String,
    /// Whether frames can be sent to it.
    pub is_connected: bool,
    /// Frames that it has acknowledged as durable.
    pub frames_durable: u64,
    /// Stored bytes of these.
    pub bytes_durable: u64,
    /// Stored bytes of frames for it that it has not acknowledged.
    pub bytes_held: u64,
    /// Since when it takes nothing, in nanoseconds since 1970; null if it does.
    pub away_since_ns: Option<u64>,
    /// Why it takes nothing.
    pub away: Option<String>,
}

/// A folder of a target.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct TargetFolder {
    /// Where each run has a folder of its own.
    pub path: String,
    /// Whether frames go to a file there.
    pub is_current: bool,
    /// What can still be written there; null if it is not known.
    pub free_bytes: Option<u64>,
    /// Why its disk was left; it is tried again later.
    pub away: Option<String>,
    /// For how long its disk is waited for: since no write has completed although some are under
    /// way, or since the oldest sync or end of a file that is under way was ordered, if that is
    /// longer; 0 if nothing is under way.
    pub waits_seconds: f64,
}

/// The spill of a target.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Spill {
    /// The target.
    pub target: String,
    /// The folder.
    pub folder: String,
    /// The storage node for which it is, or the nodes; or the folder.
    pub node: String,
    /// The most bytes in it.
    pub bytes_max: u64,
    /// Frames that this run, or the last one, has written there.
    pub frames_spilled: u64,
    /// Their stored bytes.
    pub bytes_spilled: u64,
    /// Frames of this run, or the last one, and of earlier ones since the program began, that are
    /// durable at the node, or in the folder, and there no more.
    pub frames_forwarded: u64,
    /// Bytes of the files that had them.
    pub bytes_forwarded: u64,
    /// Frames of which that is so that could not be read again, and are lost.
    pub frames_lost: u64,
    /// Those of them whose files somebody had removed. The others were damaged.
    pub frames_removed: u64,
    /// Files that were kept aside because not all in them could be read.
    pub files_damaged: u64,
    /// Frames that wait there.
    pub frames_waiting: u64,
    /// Bytes of their files.
    pub bytes_waiting: u64,
    /// For how long its disk has not answered a call that is under way; 0 if none is.
    pub waits_seconds: f64,
    /// For how long it has room at the rate of the last seconds, while the frames of its target go
    /// there; otherwise null.
    pub room_seconds: Option<f64>,
    /// What somebody has to look at; also among the state's warnings.
    pub problems: Vec<String>,
}

/// A queue or pool.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// The present content.
    pub level_bytes: u64,
    /// The highest content so far.
    pub highest_bytes: u64,
    /// The capacity.
    pub capacity_bytes: u64,
}

/// The condition of the sources.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SourceCounts {
    /// All sources.
    pub count: u64,
    /// Required sources that have sent nothing for 5 s.
    pub silent: u64,
    /// Sources with loss in this run.
    pub with_loss: u64,
    /// Sources with bad data in this run.
    pub with_bad_data: u64,
}

/// The numbers of alarms that are not cleared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct AlarmCounts {
    /// Critical ones.
    pub critical: u64,
    /// Warnings.
    pub warning: u64,
    /// Alarms not acknowledged.
    pub unacknowledged: u64,
}

/// All sources, worst first.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SourceList {
    /// The sources.
    pub sources: Vec<SourceState>,
}

/// A source or link.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SourceState {
    /// Its name.
    pub name: String,
    /// Its number in the run.
    pub index: u64,
    /// Its group.
    pub group: String,
    /// events or channels.
    pub kind: String,
    /// good, bad_data, loss, out_of_step (its numbers do not match the others', and its data are
    /// discarded), silent, never, or off (there is no run, and arrivals are not being counted).
    pub status: String,
    /// Whether events wait for it.
    pub required: bool,
    /// The address to which it must send.
    pub address: String,
    /// The networks from which it may send; empty: any.
    pub from: Vec<String>,
    /// Packets received.
    pub packets_per_second: f64,
    /// Bytes received.
    pub bytes_per_second: f64,
    /// Its present loss.
    pub loss_per_second: f64,
    /// Its losses in this run, by entry.
    pub loss: BTreeMap<String, u64>,
    /// Its recorded bad data, by entry.
    pub bad: BTreeMap<String, u64>,
    /// The filled share of its receive buffer in the kernel, 0 to 1; null if the system does not
    /// report it, or if nothing is open.
    pub fill: Option<f64>,
    /// Its fragments that wait for the others to reach their numbers, or to confirm them.
    pub parked_fragments: u64,
    /// How its numbers, or its clock, differ from the others', while they do: `its numbers began
    /// again at 0 after 48,210, and the others are at 48,212`.
    pub astray: Option<String>,
    /// What befell its connections in this run, if it is delivered over a session.
    pub link: LinkState,
    /// How far its times are from those of its events; null unless events are built by time, and
    /// before the first one.
    pub offsets: Option<OffsetsState>,
    /// Seconds since its last packet.
    pub last_packet_seconds: Option<f64>,
    /// Its ledger, without zeros.
    pub ledger: BTreeMap<String, u64>,
    /// The entries of each target's ledger, as in the state's targets, for this source; empty if
    /// there is one target without a spill, whose entries are in `ledger`.
    pub targets: BTreeMap<String, BTreeMap<String, u64>>,
}

/// What befell the connections of a source that front-ends deliver, beside its ledger.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct LinkState {
    /// How often others waited for it, since its connection had ended without a word.
    pub waits: u64,
    /// For how many milliseconds, in all.
    pub waited_ms: u64,
    /// Its marks *begin* and *end* of other runs than this one.
    pub marks_ignored: u64,
    /// Rows without it of events that did not wait for it any more while its connection was held:
    /// there was no memory for what stands before it, or for it.
    pub fragments_skew: u64,
    /// Fragments that its sender abandoned in the run, by reason: buffer, hardware, busy, other.
    pub abandoned: BTreeMap<String, u64>,
    /// Items (fragments, marks, abandoned fragments, packets of a link) that its sender has made in
    /// its session, as far as it has said so.
    pub made: u64,
    /// Items of these that are in the recorder's memory, or were.
    pub taken: u64,
    /// Items of these that are durable: recorded, or counted out.
    pub durable: u64,
    /// Until when its sender keeps them: until they are `durable`, or `taken`. None if no session
    /// delivers it.
    pub release: Option<String>,
    /// How many milliseconds half of the items of the last seconds took from taken to durable, to a
    /// fifth of it.
    pub until_durable_ms_median: Option<f64>,
    /// The same, of 99 % of them.
    pub until_durable_ms_p99: Option<f64>,
}

/// Times of a source around events that it is not in.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub struct BeyondBin {
    /// Where the bin begins beyond the events' window; negative: where it ends before it. A bin is
    /// as wide as a quarter of the power of two below its distance.
    pub from_ns: i64,
    /// Nearest times of the source in it.
    pub count: u64,
}

/// A histogram of the times of a source less those of its events, in the last 5 to 10 s, or in
/// longer where events are rare (fewer than 1,000 in 5 s).
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct OffsetsState {
    /// Fragments in it.
    pub count: u64,
    /// Their mean offset.
    pub mean_ns: i64,
    /// Where the first of `bins` begins: the first that is not empty.
    pub first_ns: i64,
    /// How wide a bin is.
    pub bin_ns: u64,
    /// Fragments in each bin, up to the last that is not empty.
    pub bins: Vec<u64>,
    /// The `time_offset` that they suggest; null if no peak stands out of what is in events by
    /// chance.
    pub suggested_ns: Option<i64>,
    /// The window that then holds 99.9 % of the fragments of each source, the same in all of them;
    /// null if no source has a peak.
    pub window_ns: Option<u64>,
    /// Events that were looked at for sources that they have no fragment of: one of 16.
    pub looked: u64,
    /// Those of them without this source.
    pub missed: u64,
    /// Its nearest times before and behind these, without empty bins, up to 10 s.
    pub beyond: Vec<BeyondBin>,
    /// How far it is from most events, if that is beyond their window.
    pub beyond_ns: Option<i64>,
    /// How much faster its clock is than the events' time, in ppm, as last measured over 10 s or
    /// more; null where that is not known, or within what jitter lets expect.
    pub drift_ppm: Option<f64>,
}

/// All devices, flat, parents before children.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct DeviceList {
    /// The devices.
    pub devices: Vec<Device>,
}

/// A device.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Device {
    /// Its path in the tree.
    pub path: String,
    /// Its kind.
    pub kind: String,
    /// idle, configured, armed, recording, paused, safe or fault.
    pub state: String,
    /// Why it is in safe or fault.
    pub reason: Option<String>,
    /// The commands that it accepts now.
    pub commands: Vec<String>,
    /// Its properties and their values.
    #[schema(value_type = Object)]
    pub properties: serde_json::Map<String, serde_json::Value>,
    /// The path of their JSON Schema.
    pub schema: String,
}
