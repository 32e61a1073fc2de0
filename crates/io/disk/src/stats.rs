//! Figures of a disk for the live view, readable from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use catchment_telemetry::FillLevel;

/// Figures of one [`Disk`](crate::Disk).
#[derive(Debug)]
pub struct DiskStats {
    engine: &'static str,
    buffers: Arc<FillLevel>,
    direct: AtomicBool,
}

impl DiskStats {
    pub(crate) fn new(engine: &'static str, buffers: Arc<FillLevel>) -> Self {
        Self { engine, buffers, direct: AtomicBool::new(false) }
    }

    /// The engine's name: `io_uring, registered buffers`, `io_uring` or `pwrite`.
    pub fn engine(&self) -> &'static str {
        self.engine
    }

    /// Bytes of the buffers being filled or written, and of all buffers.
    pub fn buffers(&self) -> &FillLevel {
        &self.buffers
    }

    /// Whether the file written last bypasses the page cache (O_DIRECT).
    pub fn direct(&self) -> bool {
        self.direct.load(Relaxed)
    }

    pub(crate) fn set_direct(&self, direct: bool) {
        self.direct.store(direct, Relaxed);
    }
}
