//! What a disk is told of the configuration.

use catchment_disk::DiskConfig;

use crate::config::WriteConfig;

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
