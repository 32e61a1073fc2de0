//! Runs, configurations, alarms, logs, history and samples.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Runs, newest first.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct RunList {
    /// The runs.
    pub runs: Vec<Run>,
    /// The value of `before` to request older ones.
    pub next: Option<u64>,
}

/// A remark about a run, or with a command. Remarks are appended and never changed.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Remark {
    /// When it was made.
    pub time: String,
    /// Who made it; empty if unknown.
    pub who: String,
    /// The command with which it was given, or remark; comment: from before there were remarks.
    pub kind: String,
    /// Its text.
    pub text: String,
}

/// A run in the catalogue.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Run {
    /// Its number.
    pub number: u64,
    /// Its identity.
    pub id: String,
    /// When it began.
    pub started: Option<String>,
    /// When it ended.
    pub ended: Option<String>,
    /// Who started it.
    pub who: String,
    /// The comment given at its start.
    pub comment: String,
    /// The version of its configuration.
    pub configuration: Option<u64>,
    /// Whether its data are emulated.
    pub emulated: bool,
    /// recording, complete, fault, interrupted or failed.
    pub state: String,
    /// Why it is in that state, if it did not end normally.
    pub reason: Option<String>,
    /// unknown, good, bad, or a value of the experiment's own.
    pub quality: String,
    /// Events on disk.
    pub events: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Frames on disk.
    pub frames: u64,
    /// Files.
    pub files: u64,
    /// Lost fragments and packets.
    pub loss_count: u64,
    /// How many of the recorded fragments are bad.
    pub bad_count: u64,
    /// The folder of its files.
    pub folder: String,
    /// The remarks, the oldest first; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remarks: Option<Vec<Remark>>,
    /// Where its frames were sent, by target; not in lists, and empty of runs of versions that did
    /// not note it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub locations: Option<Vec<RunLocation>>,
    /// What became of each source's fragments in each target, once the run has ended; not in
    /// lists, and empty if there was one target without a spill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub targets: Option<Vec<TargetSource>>,
}

/// What became of a source's fragments in a target.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct TargetSource {
    /// The target's name.
    pub target: String,
    /// The name of the source, or of the link.
    pub source: String,
    /// Entries of the target's ledger, as in `targets` of a source, without zeros.
    pub entries: BTreeMap<String, u64>,
}

/// A folder or storage node to which frames of a run were sent. What is not known, as while the run
/// is recorded, is null.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct RunLocation {
    /// The target of which it is a part, or the whole.
    pub target: String,
    /// folder, node (a storage node) or spill (frames that wait for a storage node).
    pub kind: String,
    /// The path of the folder in which runs have folders, or the node's host and port.
    pub address: String,
    /// The name of the run's folder there.
    pub name: String,
    /// Whether the run waits for the target.
    pub required: bool,
    /// Durable frames; null for one of several folders. Of a spill, those that waited there when
    /// the run ended, and have been forwarded to the node since, or not.
    pub frames: Option<u64>,
    /// Their bytes; null for a node that got frames from a spill, too.
    pub bytes: Option<u64>,
    /// Of a node: the lowest number of its frames. Other nodes of the target have those in between
    /// that it has not.
    pub first_frame: Option<u64>,
    /// The highest.
    pub last_frame: Option<u64>,
    /// Of a folder: the indexes of its files, each the first and the last of some that follow each
    /// other.
    pub files: Vec<[u32; 2]>,
    /// Of a node: which frames are in which of the files that it has closed, in the order of these.
    pub file_frames: Vec<FileFrames>,
}

impl From<catchment_frame::RunLocation> for RunLocation {
    fn from(location: catchment_frame::RunLocation) -> Self {
        Self {
            target: location.target,
            kind: location.kind.name().into(),
            address: location.address,
            name: location.name,
            required: location.required,
            frames: location.frames,
            bytes: location.bytes,
            first_frame: location.first_frame,
            last_frame: location.last_frame,
            files: location.files.into_iter().map(|(first, last)| [first, last]).collect(),
            file_frames: location.file_frames.into_iter().map(FileFrames::from).collect(),
        }
    }
}

/// Closed files of a storage node: one, or several between two indexes.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct FileFrames {
    /// The index of the first one: file 7 of the folder `run-1` is `run-1-00007.catch`.
    pub first_file: u32,
    /// That of the last one.
    pub last_file: u32,
    /// How many there are.
    pub files: u32,
    /// The lowest number of their frames.
    pub first_frame: u64,
    /// The highest. Other nodes of the target may have some in between.
    pub last_frame: u64,
}

impl From<catchment_frame::FileFrames> for FileFrames {
    fn from(files: catchment_frame::FileFrames) -> Self {
        let catchment_frame::FileFrames { first_file, last_file, files, first_frame, last_frame } =
            files;
        Self { first_file, last_file, files, first_frame, last_frame }
    }
}

/// The ledger of a run, without zeros.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct RunLedger {
    /// Whether everything is accounted for; null while the run is recorded, and if its files, which
    /// have each source's ledger, are not available.
    pub balanced: Option<bool>,
    /// The sum over all sources.
    pub totals: BTreeMap<String, u64>,
    /// The ledger of each source.
    pub sources: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Versions of the configuration, newest first.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct ConfigurationList {
    /// The versions.
    pub configurations: Vec<ConfigurationVersion>,
    /// The version for the next run.
    pub present: Option<u64>,
}

/// A version of the configuration.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct ConfigurationVersion {
    /// Its number.
    pub version: u64,
    /// SHA-256 of the text.
    pub sha256: String,
    /// When it was first seen.
    pub time: String,
    /// Who supplied it.
    pub who: String,
    /// The text; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Alarms that are not cleared, and the most recently cleared ones.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct AlarmList {
    /// The alarms.
    pub alarms: Vec<Alarm>,
}

/// An alarm.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Alarm {
    /// The id with which to acknowledge it.
    pub id: String,
    /// Its rule.
    pub name: String,
    /// info, warning or critical.
    pub severity: String,
    /// active, latched, acknowledged or cleared.
    pub state: String,
    /// The problem.
    pub text: String,
    /// The worst value now, or when it was last wrong.
    pub value: Option<f64>,
    /// The bound that it passed.
    pub threshold: Option<f64>,
    /// When it was raised.
    pub since: String,
    /// When it was cleared; for a latched one, when everything was well again. Null while it is
    /// wrong.
    pub ended: Option<String>,
    /// Who acknowledged it.
    pub acknowledged_by: Option<String>,
    /// The source or queue that it concerns, if any.
    pub source: Option<String>,
    /// The group of sources that it concerns.
    pub group: Option<String>,
    /// The sources or queues that it concerns, at most 1,000.
    pub sources: Vec<String>,
    /// How many sources or queues it concerns.
    pub source_count: u64,
}

/// The last lines of the log, newest last.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct LogList {
    /// The lines.
    pub lines: Vec<LogLine>,
}

/// A line of the log.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LogLine {
    /// Its number since the start: the value of `before` to request older ones.
    pub number: u64,
    /// When it was logged.
    pub time: String,
    /// error, warn, info, debug or trace.
    pub level: String,
    /// The part of the program.
    pub target: String,
    /// The message.
    pub message: String,
    /// The message's fields.
    pub fields: BTreeMap<String, String>,
}

/// The last lines of the audit log, newest last.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Audit {
    /// The lines.
    pub lines: Vec<AuditLine>,
}

/// One action in the audit log.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct AuditLine {
    /// When it happened.
    pub time: String,
    /// Who acted.
    pub who: String,
    /// Their role.
    pub role: String,
    /// The client's address.
    pub from: String,
    /// The action.
    pub what: String,
    /// Its outcome.
    pub result: String,
    /// Their request's id, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The comment that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Plots.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct History {
    /// The time of the first point.
    pub start: String,
    /// The time between points.
    pub step_seconds: f64,
    /// The values; null if unknown.
    pub series: Series,
}

/// Values over time.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Series {
    /// Events built.
    pub events_per_second: Vec<Option<f64>>,
    /// Bytes received.
    pub bytes_per_second: Vec<Option<f64>>,
    /// Bytes written.
    pub bytes_written_per_second: Vec<Option<f64>>,
    /// Fragments lost.
    pub loss_per_second: Vec<Option<f64>>,
}

/// A source's latest recorded data.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Sample {
    /// The source.
    pub name: String,
    /// The event's number; null for channels.
    pub event: Option<u64>,
    /// When it arrived; for a channel, the time of the first value shown.
    pub time: String,
    /// The payload, or the values shown, in hexadecimal: at most 4,096 bytes.
    pub bytes: String,
    /// Bytes of the whole payload, or of all values shown.
    pub total_bytes: u64,
    /// The payload as an array, if its type is known.
    pub array: Option<SampleArray>,
    /// A histogram of the last frame's payloads, or of the channel's latest values.
    pub histogram: SampleHistogram,
    /// What the last frame's last events say of the source, in order, at most 64; none of channels.
    pub answers: Vec<SampleAnswer>,
    /// The link's channel; null for sources of events.
    pub channel: Option<SampleChannel>,
}

/// Whether a source is in an event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct SampleAnswer {
    /// The event's number.
    pub event: u64,
    /// there, absent or not_expected.
    pub answer: &'static str,
}

/// The channel of a link's sample.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SampleChannel {
    /// Its name.
    pub name: String,
    /// The unit of its values.
    pub unit: String,
    /// The factor for stored values; null: 1.
    pub scale: Option<f64>,
    /// The offset to add after that; null: 0.
    pub offset: Option<f64>,
    /// Samples per second.
    pub rate_hz: f64,
    /// The number of the first sample shown, counted from its time scale's epoch.
    pub first_sample: u64,
    /// How many are shown, the latest ones.
    pub samples: u64,
    /// The number of the link's channels.
    pub channel_count: u64,
    /// Their names, at most 2,000; empty if a channel was requested by name.
    pub channels: Vec<String>,
}

/// A payload as an array.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SampleArray {
    /// The type of its numbers, in numpy's notation.
    pub dtype: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// The first values, for a channel the latest: at most 1,024, as stored; null for non-finite
    /// numbers.
    pub values: Vec<Option<f64>>,
}

/// A histogram.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SampleHistogram {
    /// payload_bytes or value.
    pub what: String,
    /// Borders of the bins: one more than the number of counts.
    pub edges: Vec<f64>,
    /// The count in each bin.
    pub counts: Vec<u64>,
}

/// Whether the node is alive.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Health {
    /// alive.
    pub status: String,
}
