//! A storage node at one moment.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// A storage node at one moment.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct Store {
    /// Where recorders connect.
    pub address: String,
    /// Whether their connections are under TLS.
    pub tls: bool,
    /// Whether they have to show a token.
    pub tokens: bool,
    /// The streams that it has had since it began, the newest last.
    pub streams: Vec<StoreStream>,
    /// Its folders.
    pub folders: Vec<StoreFolder>,
    /// Frames that came.
    pub frames: StoreFrames,
    /// Sessions that were refused or ended for a fault of their sender, by the reason that it was
    /// told.
    pub refusals: BTreeMap<String, u64>,
    /// Connections that ended before they said what they are.
    pub connections_unopened: u64,
    /// Connections that were closed for a framing fault.
    pub faults: u64,
    /// Bytes of frames that are not written yet, and the most that may wait.
    pub waiting_bytes: u64,
    /// The most that may wait, with the buffers for what comes next.
    pub memory_bytes: u64,
}

/// What became of frames that came.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StoreFrames {
    /// Whole, with the checksums that their sender said.
    pub taken: u64,
    /// Bytes of these.
    pub taken_bytes: u64,
    /// There already, and not written again.
    pub repeated: u64,
    /// With another checksum than their sender said: refused, and sent again.
    pub corrupt: u64,
    /// Refused, since they cannot be taken however often they are sent.
    pub unfit: u64,
    /// Refused, since a later writer has opened their stream.
    pub superseded: u64,
}

/// A stream: what one recorder sends of one run.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StoreStream {
    /// Its name, and that of its folder.
    pub name: String,
    /// The run's identity.
    pub run: String,
    /// The number of the stream within the run.
    pub stream: u32,
    /// The data set of the run that it has; 0: all of it.
    pub variant: u32,
    /// Who sends it, or did last.
    pub recorder: Option<String>,
    /// open, waits (its frames cannot be written now), broken_off (its sender is gone and has not
    /// ended it), cut_off (the same, and it was closed since) or ended.
    pub state: String,
    /// Why it waits.
    pub reason: Option<String>,
    /// Frames below this number have come.
    pub taken: u64,
    /// Frames below this number are durable.
    pub durable: u64,
    /// Bytes of its frames that were written since the node began.
    pub bytes_written: u64,
    /// The same by second, lately.
    pub bytes_written_per_second: f64,
    /// Syncs of its files.
    pub syncs: StoreSyncs,
}

/// How long syncs of files took.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StoreSyncs {
    /// How many there were.
    pub count: u64,
    /// All together.
    pub total_seconds: f64,
    /// The last one.
    pub last_seconds: f64,
    /// The longest.
    pub longest_seconds: f64,
}

/// A folder of a storage node.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
pub struct StoreFolder {
    /// Where it is.
    pub path: String,
    /// What can still be written to its file system; null: its disk does not answer.
    pub free_bytes: Option<u64>,
    /// The size of its file system.
    pub total_bytes: Option<u64>,
    /// Bytes of frames that were written there since the node began.
    pub bytes_written: u64,
    /// The same by second, lately.
    pub bytes_written_per_second: f64,
    /// How often it failed.
    pub failures: u64,
    /// Why nothing can be written there, until something is.
    pub fault: Option<String>,
}
