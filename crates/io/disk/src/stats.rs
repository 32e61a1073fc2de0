//! Figures of a disk for the live view, readable from any thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use catchment_telemetry::FillLevel;

/// Figures of one [`Disk`](crate::Disk).
#[derive(Debug)]
pub struct DiskStats {
    engine: &'static str,
    buffers: Arc<FillLevel>,
    bytes_written: AtomicU64,
    writes: AtomicU64,
    errors: AtomicU64,
    in_flight: AtomicU64,
    direct: AtomicBool,
}

impl DiskStats {
    pub(crate) fn new(engine: &'static str, buffers: Arc<FillLevel>) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            engine,
            buffers,
            bytes_written: zero(),
            writes: zero(),
            errors: zero(),
            in_flight: zero(),
            direct: AtomicBool::new(false),
        }
    }

    /// The engine's name: `io_uring, registered buffers`, `io_uring` or `pwrite`.
    pub fn engine(&self) -> &'static str {
        self.engine
    }

    /// Bytes of the buffers that are filled or being written, of those that there are.
    pub fn buffers(&self) -> &FillLevel {
        &self.buffers
    }

    /// Bytes written without error since the start.
    pub fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Relaxed)
    }

    /// Writes completed without error.
    pub fn writes(&self) -> u64 {
        self.writes.load(Relaxed)
    }

    /// Operations that failed: writes, syncs and finishes.
    pub fn errors(&self) -> u64 {
        self.errors.load(Relaxed)
    }

    /// Writes and syncs that wait for the disk now.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Relaxed)
    }

    /// Whether the file written last bypasses the page cache (O_DIRECT).
    pub fn direct(&self) -> bool {
        self.direct.load(Relaxed)
    }

    pub(crate) fn set_direct(&self, direct: bool) {
        self.direct.store(direct, Relaxed);
    }

    pub(crate) fn begun(&self) {
        self.in_flight.fetch_add(1, Relaxed);
    }

    pub(crate) fn write_done(&self, bytes: Option<u64>) {
        self.in_flight.fetch_sub(1, Relaxed);
        match bytes {
            Some(bytes) => {
                self.bytes_written.fetch_add(bytes, Relaxed);
                self.writes.fetch_add(1, Relaxed);
            }
            None => self.failed(),
        }
    }

    pub(crate) fn sync_done(&self, good: bool) {
        self.in_flight.fetch_sub(1, Relaxed);
        if !good {
            self.failed();
        }
    }

    pub(crate) fn failed(&self) {
        self.errors.fetch_add(1, Relaxed);
    }
}
