//! The node at one moment.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// The node at one moment: what the page shows first.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct State {
    /// Who this is.
    pub node: NodeInfo,
    /// When this was so.
    pub time: String,
    /// Whether good data are being recorded, from the data flow.
    pub verdict: Verdict,
    /// idle, configured, armed, recording, paused, safe or fault.
    pub state: String,
    /// Why it is in safe or fault.
    pub reason: Option<String>,
    /// The command that is being done.
    pub under_way: Option<UnderWay>,
    /// The commands that are legal now.
    pub commands: Vec<CommandOffer>,
    /// Whether what is recorded, or will be, comes from this node's own emulator.
    pub emulated: bool,
    /// The run that is being recorded.
    pub run: Option<RunNow>,
    /// What flows.
    pub rates: Rates,
    /// What this run has lost.
    pub loss: Loss,
    /// What of the recorded data is bad: broken, or of another event.
    pub bad: Loss,
    /// The share of the last 10 s in which data were discarded or paused.
    pub dead_time: f64,
    /// Where files go.
    pub disk: Disk,
    /// The stages from left to right.
    pub flow: Vec<Flow>,
    /// How the sources are.
    pub sources: SourceCounts,
    /// How many alarms there are.
    pub alarms: AlarmCounts,
    /// What the operator should know.
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
    /// Since then.
    pub uptime_seconds: f64,
}

/// Whether good data are being recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Verdict {
    /// good, held, bad_data, loss, heavy_bad_data, heavy_loss or not_recording.
    pub level: String,
    /// The share of what should have been recorded in the last 10 s that was lost, 0 to 1; null
    /// where nothing is recorded.
    pub loss_share: Option<f64>,
    /// The share of what was recorded in the last 10 s that is bad, 0 to 1; null where nothing is
    /// recorded.
    pub bad_share: Option<f64>,
    /// In one line.
    pub text: String,
    /// Why and where.
    pub reasons: Vec<String>,
}

/// A command that is being done.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct UnderWay {
    /// Its request id.
    pub request: String,
    /// What is being done.
    pub command: String,
    /// Since when.
    pub since: String,
    /// The devices that have not answered yet.
    pub waiting_for: Vec<String>,
}

/// A command that is legal now.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CommandOffer {
    /// The command.
    pub name: String,
    /// What to ask before it is sent.
    pub confirm: Option<String>,
}

/// The run that is being recorded.
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
    /// Since then.
    pub seconds: f64,
    /// Who started it.
    pub who: String,
    /// What they said.
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

/// What flows, over the last seconds.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Rates {
    /// Events built (slices, where there are only channels).
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

/// What a run has lost, or what of it is bad.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Loss {
    /// Fragments and packets.
    pub count: u64,
    /// Of the fragments that should be there; of bad ones: of those that are.
    pub share: f64,
    /// Entries of the ledger that say so.
    pub by_entry: BTreeMap<String, u64>,
}

/// Where files go.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Disk {
    /// The folder.
    pub folder: String,
    /// What can still be written; null where the system does not say.
    pub free_bytes: Option<u64>,
    /// How large it is.
    pub total_bytes: Option<u64>,
    /// How long that lasts at the rate at which the run last wrote; 0 in fault for a full disk,
    /// null before anything was written.
    pub hours_left: Option<f64>,
}

/// A stage of the data's way.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Flow {
    /// receive, build, encode, write or disk.
    pub name: String,
    /// The share of its threads' time that it works, 0 to 1.
    pub busy: f64,
    /// What waits for it.
    pub queues: Vec<Queue>,
    /// What it passes on.
    pub bytes_per_second: f64,
    /// Whether it limits the others.
    pub bottleneck: bool,
}

/// A queue or pool.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub level_bytes: u64,
    /// The most that was in it.
    pub highest_bytes: u64,
    /// The most that it can hold.
    pub capacity_bytes: u64,
}

/// How the sources are.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SourceCounts {
    /// All.
    pub count: u64,
    /// Those that are required and have sent nothing for 5 s.
    pub silent: u64,
    /// Those with loss in this run.
    pub with_loss: u64,
    /// Those with bad data in this run.
    pub with_bad_data: u64,
}

/// How many alarms there are, of those that are not cleared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct AlarmCounts {
    /// Critical ones.
    pub critical: u64,
    /// Warnings.
    pub warning: u64,
    /// Those that nobody acknowledged.
    pub unacknowledged: u64,
}

/// All sources, worst first.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SourceList {
    /// Them.
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
    /// good, bad_data, loss, out_of_step (its numbers do not fit to the others', and its data are
    /// discarded), silent, never, or off (there is neither a run, nor are arrivals counted before
    /// one).
    pub status: String,
    /// Whether events wait for it.
    pub required: bool,
    /// Where it must send to.
    pub address: String,
    /// The networks that it may send from; empty: anybody.
    pub from: Vec<String>,
    /// Packets received.
    pub packets_per_second: f64,
    /// Bytes received.
    pub bytes_per_second: f64,
    /// What it loses.
    pub loss_per_second: f64,
    /// What it has lost in this run, by entry.
    pub loss: BTreeMap<String, u64>,
    /// What of it is recorded and bad, by entry.
    pub bad: BTreeMap<String, u64>,
    /// The share of its receive buffer in the kernel that is taken, 0 to 1; null where the system
    /// does not say, or nothing is open.
    pub fill: Option<f64>,
    /// Its fragments that wait for the others to come to their numbers, or to confirm them.
    pub parked_fragments: u64,
    /// Since its last packet.
    pub last_packet_seconds: Option<f64>,
    /// Its ledger, without zeros.
    pub ledger: BTreeMap<String, u64>,
}

/// All devices, flat, parents before children.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct DeviceList {
    /// Them.
    pub devices: Vec<Device>,
}

/// A device.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Device {
    /// Where it stands in the tree.
    pub path: String,
    /// What it is.
    pub kind: String,
    /// idle, configured, armed, recording, paused, safe or fault.
    pub state: String,
    /// Why it is in safe or fault.
    pub reason: Option<String>,
    /// The commands that it takes now.
    pub commands: Vec<String>,
    /// Its properties and their values.
    #[schema(value_type = Object)]
    pub properties: serde_json::Map<String, serde_json::Value>,
    /// Where their JSON Schema is.
    pub schema: String,
}
