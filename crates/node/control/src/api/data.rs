//! Runs, configurations, alarms, logs, history and samples.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Runs, newest first.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct RunList {
    /// Them.
    pub runs: Vec<Run>,
    /// What to give as `before` for older ones.
    pub next: Option<u64>,
}

/// What somebody said of a run, or with a command. Remarks are appended and never changed.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Remark {
    /// When.
    pub time: String,
    /// Who; empty if nobody wrote that down.
    pub who: String,
    /// The command that it was said with, or remark; comment: from before there were remarks.
    pub kind: String,
    /// What.
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
    /// What was said when it was started.
    pub comment: String,
    /// The version of its configuration.
    pub configuration: Option<u64>,
    /// Whether its data are emulated.
    pub emulated: bool,
    /// recording, complete, fault, interrupted or failed.
    pub state: String,
    /// Why it is in that state, where it did not end as it should.
    pub reason: Option<String>,
    /// unknown, good, bad, or what the experiment says.
    pub quality: String,
    /// Events on disk.
    pub events: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Frames on disk.
    pub frames: u64,
    /// Files.
    pub files: u64,
    /// What was lost.
    pub loss_count: u64,
    /// How many of the recorded fragments are bad.
    pub bad_count: u64,
    /// The folder of its files.
    pub folder: String,
    /// What was said of it, the oldest first; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remarks: Option<Vec<Remark>>,
}

/// The books of a run, without zeros.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct RunLedger {
    /// Whether everything is accounted for; null while the run is recorded, and where its files,
    /// which have the books of each source, are not at hand.
    pub balanced: Option<bool>,
    /// All sources together.
    pub totals: BTreeMap<String, u64>,
    /// Each source's.
    pub sources: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Versions of the configuration, newest first.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct ConfigurationList {
    /// Them.
    pub configurations: Vec<ConfigurationVersion>,
    /// The one that the next run will have.
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
    /// Who brought it.
    pub who: String,
    /// The text; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Alarms that are not cleared, and the last that were.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct AlarmList {
    /// Them.
    pub alarms: Vec<Alarm>,
}

/// An alarm.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Alarm {
    /// What to acknowledge it by.
    pub id: String,
    /// Its rule.
    pub name: String,
    /// info, warning or critical.
    pub severity: String,
    /// active, latched, acknowledged or cleared.
    pub state: String,
    /// What is wrong.
    pub text: String,
    /// The worst value now, or when it was wrong last.
    pub value: Option<f64>,
    /// The bound that it passed.
    pub threshold: Option<f64>,
    /// When it was raised.
    pub since: String,
    /// When it was cleared; of a latched one, when all was well again. Null while it is wrong.
    pub ended: Option<String>,
    /// Who acknowledged it.
    pub acknowledged_by: Option<String>,
    /// The source or queue that it is about, if it is one.
    pub source: Option<String>,
    /// The group of sources that it is about.
    pub group: Option<String>,
    /// The sources or queues that it is about, at most 1,000.
    pub sources: Vec<String>,
    /// How many it is about.
    pub source_count: u64,
}

/// The last lines of the log, newest last.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct LogList {
    /// Them.
    pub lines: Vec<LogLine>,
}

/// A line of the log.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LogLine {
    /// Its number since the start: what to give as `before`.
    pub number: u64,
    /// When.
    pub time: String,
    /// error, warn, info, debug or trace.
    pub level: String,
    /// The part of the program.
    pub target: String,
    /// What.
    pub message: String,
    /// What with.
    pub fields: BTreeMap<String, String>,
}

/// The last lines of the audit log, newest last.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Audit {
    /// Them.
    pub lines: Vec<AuditLine>,
}

/// Who did what.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
pub struct AuditLine {
    /// When.
    pub time: String,
    /// Who.
    pub who: String,
    /// Their role.
    pub role: String,
    /// From where.
    pub from: String,
    /// What.
    pub what: String,
    /// What came of it.
    pub result: String,
    /// Their request's id, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// What they said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// Plots.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct History {
    /// Of the first point.
    pub start: String,
    /// Between points.
    pub step_seconds: f64,
    /// The values; null where nothing is known.
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
    /// What was lost.
    pub loss_per_second: Vec<Option<f64>>,
}

/// A source's latest recorded data.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Sample {
    /// The source.
    pub name: String,
    /// The event's number; null for channels.
    pub event: Option<u64>,
    /// When it came; for a channel the time of the first value shown.
    pub time: String,
    /// The payload, or the values shown, in hexadecimal: at most 4,096 bytes.
    pub bytes: String,
    /// Bytes of the whole payload, or of all values shown.
    pub total_bytes: u64,
    /// As an array, where its type is known.
    pub array: Option<SampleArray>,
    /// Of the last frame's payloads, or of the channel's latest values.
    pub histogram: SampleHistogram,
    /// Which of the link's channels; null for sources of events.
    pub channel: Option<SampleChannel>,
}

/// The channel that a sample of a link is of.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SampleChannel {
    /// Its name.
    pub name: String,
    /// The unit of its values.
    pub unit: String,
    /// What its values as stored are multiplied by; null: 1.
    pub scale: Option<f64>,
    /// What is then added; null: 0.
    pub offset: Option<f64>,
    /// Samples per second.
    pub rate_hz: f64,
    /// The number of the first sample shown, counted from its time scale's epoch.
    pub first_sample: u64,
    /// How many are shown: the latest.
    pub samples: u64,
    /// How many channels the link has.
    pub channel_count: u64,
    /// Their names, at most 2,000; none where a channel was asked for by name.
    pub channels: Vec<String>,
}

/// A payload as an array.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SampleArray {
    /// Its numbers' type, as numpy names it.
    pub dtype: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// The first values, of a channel the latest: at most 1,024, as stored; null for
    /// what is no finite number.
    pub values: Vec<Option<f64>>,
}

/// A histogram.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct SampleHistogram {
    /// payload_bytes or value.
    pub what: String,
    /// Borders of the bins: one more than there are counts.
    pub edges: Vec<f64>,
    /// How many in each bin.
    pub counts: Vec<u64>,
}

/// Whether the node is alive.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Health {
    /// alive.
    pub status: String,
}
