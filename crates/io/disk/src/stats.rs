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
    refuses_direct: AtomicBool,
    refuses_blocks: AtomicBool,
}

impl DiskStats {
    pub(crate) fn new(engine: &'static str, buffers: Arc<FillLevel>) -> Self {
        let [direct, refuses_direct, refuses_blocks] = Default::default();
        Self { engine, buffers, direct, refuses_direct, refuses_blocks }
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

    /// What the file system has refused, as many network file systems do, and what files do
    /// without it.
    pub fn refusals(&self) -> impl Iterator<Item = &'static str> {
        let no_direct = "refuses direct writes (O_DIRECT): they go through the page cache";
        let no_blocks = "does not preallocate (fallocate): files get blocks as they are written";
        let refused = [(&self.refuses_direct, no_direct), (&self.refuses_blocks, no_blocks)];
        refused
            .into_iter()
            .filter_map(|(is_refused, what)| is_refused.load(Relaxed).then_some(what))
    }

    pub(crate) fn set_direct(&self, direct: bool) {
        self.direct.store(direct, Relaxed);
        if !direct {
            self.refuses_direct.store(true, Relaxed);
        }
    }

    pub(crate) fn set_refuses_blocks(&self) {
        self.refuses_blocks.store(true, Relaxed);
    }
}
