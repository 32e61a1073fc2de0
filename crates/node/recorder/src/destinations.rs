//! The senders of a port, and where the fragments of their sources go.

use std::sync::Arc;

use catchment_model::SourceId;
use catchment_wire::Protocol;

/// The senders of a port, as the configuration describes them.
#[derive(Clone, Debug)]
pub(crate) struct SenderConfig {
    /// At least one. What belongs to no source alone is counted for the first.
    pub(crate) sources: Vec<SenderSource>,
    pub(crate) protocol: Arc<dyn Protocol>,
    /// Whether strangers are distinguished from it by their addresses.
    pub(crate) tells_strangers: bool,
    /// By lane, where its sources' fragments go; on connections, which name sources, in any order.
    pub(crate) lanes: Vec<Destination>,
}

/// A source of a sender.
#[derive(Clone, Debug)]
pub(crate) struct SenderSource {
    /// Its number in the ledger, and its name, by which a session delivers it.
    pub(crate) number: SourceId,
    pub(crate) name: String,
    /// The groups in whose events it is expected, 0 if not said; none of a sparse source.
    pub(crate) expected_in: Option<u64>,
    /// The warning about big-endian fragments, if they matter; it is issued once.
    pub(crate) if_big_endian: Option<String>,
}

/// The destination of a source's fragments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    /// The source's number in the builder.
    pub(crate) source: u32,
    /// Where they are counted: at first an index of the sender's `sources`.
    pub(crate) account: u32,
    /// The id that they must carry.
    pub(crate) id: Option<u32>,
    /// The chunk to which they are copied; several sources may share one.
    pub(crate) chunk: u32,
    /// Their alignment in the chunk, in bytes: a power of two.
    pub(crate) align: u32,
    pub(crate) fragment_bytes_max: u64,
}

impl SenderConfig {
    pub(crate) fn is_connection(&self) -> bool {
        self.protocol.transport().is_connections()
    }

    /// Bytes of the longest fragment of any of its sources.
    pub(crate) fn fragment_bytes_max(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.fragment_bytes_max).max().unwrap_or(0)
    }
}
