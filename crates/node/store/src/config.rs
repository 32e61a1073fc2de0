//! The configuration of a storage node.

use std::net::SocketAddr;
use std::path::PathBuf;

use catchment_disk::DiskConfig;
use catchment_net::LinkAccess;

/// What a storage node is to do.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Where recorders connect.
    pub address: SocketAddr,
    /// How they connect.
    pub access: LinkAccess,
    /// Where the folders of streams are. Of several, each file goes to the one that is best when
    /// it is begun: by free space, and by how fast its disk was lately.
    pub folders: Vec<PathBuf>,
    /// Bytes of frames that are not written yet, over all streams. A longer frame is refused.
    pub memory_bytes: u64,
    /// The size at which a file is left.
    pub file_bytes: u64,
    /// The disk of a stream, in each folder: buffers and the time between syncs. Faults are those
    /// of the first folder.
    pub disk: DiskConfig,
    /// So many bytes of a file's frames begin a sync, too, unless one is under way.
    pub sync_bytes: u64,
    /// How long after its sender is gone a stream's files are closed; those of an earlier node, how
    /// long after the start.
    pub close_after_ns: u64,
}
