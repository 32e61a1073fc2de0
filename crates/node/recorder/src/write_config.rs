//! How files are written, and what their disks are told of it.

use catchment_disk::{DiskConfig, EngineChoice, FaultPlan};
use catchment_model::limits::FILE_BYTES_DEFAULT;
use catchment_model::units::{Size, Time};
use serde::{Deserialize, Deserializer};

/// How files are written.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WriteConfig {
    /// The size at which the next file begins.
    #[serde(deserialize_with = "Size::read")]
    pub file_bytes: u64,
    /// The age at which the next file begins.
    #[serde(rename = "file_time", deserialize_with = "Time::read")]
    pub file_time_ns: Option<u64>,
    /// How often written frames are made durable (fdatasync).
    #[serde(rename = "sync_interval", deserialize_with = "Time::read")]
    pub sync_interval_ns: u64,
    /// So many written bytes begin a sync, too, unless one is under way; none: only time does.
    #[serde(deserialize_with = "some_size")]
    pub sync_bytes: Option<u64>,
    /// How writes reach the disk.
    pub engine: EngineChoice,
    /// Bytes of one write.
    #[serde(deserialize_with = "Size::read")]
    pub buffer_bytes: usize,
    /// Writes that may be in flight, and buffers that are being filled.
    pub buffer_count: usize,
    /// How far ahead of the writes a file's blocks are allocated.
    #[serde(deserialize_with = "Size::read")]
    pub preallocate_bytes: u64,
    /// The CPU that the write agent is pinned to.
    pub cpu: Option<usize>,
    /// Injected faults, for tests.
    #[serde(skip)]
    pub faults: Option<FaultPlan>,
}

impl Default for WriteConfig {
    fn default() -> Self {
        Self {
            file_bytes: FILE_BYTES_DEFAULT,
            file_time_ns: None,
            sync_interval_ns: 1_000_000_000,
            sync_bytes: None,
            engine: EngineChoice::Auto,
            buffer_bytes: 4 << 20,
            buffer_count: 8,
            preallocate_bytes: 1 << 30,
            cpu: None,
            faults: None,
        }
    }
}

/// The disk's part of the configuration.
pub(crate) fn disk_config(write: &WriteConfig) -> DiskConfig {
    DiskConfig {
        name: None,
        beside: None,
        helpers: None,
        buffer_bytes: write.buffer_bytes,
        buffer_count: write.buffer_count,
        preallocate_bytes: write.preallocate_bytes,
        file_bytes: write.file_bytes,
        keeps_reserve: true,
        engine: write.engine,
        sync_interval_ns: write.sync_interval_ns,
        threads: None,
        faults: write.faults.clone(),
    }
}

/// Where front-ends deliver, a frame is cut at this payload unless the file says otherwise: they
/// hold what is not durable (docs/decisions/event-link.md). Frames of many sources have columns of
/// a useful size.
pub fn link_frame_bytes(sources: usize) -> u64 {
    if sources <= LINK_FEW_SOURCES { 4 << 20 } else { 8 << 20 }
}
/// See [`link_frame_bytes`]: bytes of one write, since a sync waits for those before it, and how
/// many there may be. A frame's header must fit into one.
pub fn link_buffers(sources: usize) -> (usize, usize) {
    if sources <= 1_000 { (1 << 20, 16) } else { (4 << 20, 8) }
}
/// As many as have a connection each.
const LINK_FEW_SOURCES: usize = 16;
/// See [`link_frame_bytes`]: how often, and after how many bytes, what was written is synced.
pub const LINK_SYNC_NS: u64 = 20_000_000;
/// A storage node, whose senders hold what is not durable, does the same.
pub const LINK_SYNC_BYTES: u64 = 8 << 20;
/// See [`link_frame_bytes`]: the age at which it is cut.
pub const LINK_FRAME_TIME_NS: u64 = 250_000_000;

/// A size, where none need be set.
pub(crate) fn some_size<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<u64>, D::Error> {
    Size::read(deserializer).map(Some)
}
