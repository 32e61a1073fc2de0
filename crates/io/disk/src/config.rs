//! The configuration of a [`Disk`](crate::Disk).

use std::sync::Arc;

use catchment_model::limits::DISK_ALIGN_BYTES;
use catchment_telemetry::ThreadTimes;

use crate::{DiskError, DiskHelpers, FaultPlan, Waker};

/// How writes reach the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineChoice {
    /// io_uring if the kernel allows it, otherwise `pwrite`.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// `pwrite` on a thread of its own.
    Portable,
}

/// The configuration of a disk. The defaults are those of docs/decisions/disk-writes.md.
#[derive(Clone, Debug)]
pub struct DiskConfig {
    /// Which of several disks of a program it is: the end of the names of its buffers and threads.
    pub name: Option<String>,
    /// Wakes the thread of another disk, which is that of this one, too.
    pub beside: Option<Waker>,
    /// The helper threads, if this disk shares those of others in its folder.
    pub helpers: Option<DiskHelpers>,
    /// Bytes of one buffer: a multiple of 4 KiB, at most 256 MiB.
    pub buffer_bytes: usize,
    /// Buffers in the pool, 2 to 1,024. This is also the maximum number of writes in flight.
    pub buffer_count: usize,
    /// Bytes by which a file is preallocated at a time: less near the end of the file, and if
    /// little space is free. 0: no preallocation.
    pub preallocate_bytes: u64,
    /// The approximate final size of a file: nothing is preallocated beyond it.
    pub file_bytes: u64,
    /// Whether data leave a reserve on the file system for what must be written when the disk is
    /// full: a sixty-fourth of it, at most 64 MiB.
    pub keeps_reserve: bool,
    /// How writes reach the kernel.
    pub engine: EngineChoice,
    /// Time between two syncs, for [`Disk::sync_due`](crate::Disk::sync_due).
    pub sync_interval_ns: u64,
    /// Where the threads of this disk alone register their CPU time.
    pub threads: Option<Arc<ThreadTimes>>,
    /// Injected faults. For tests; `None` everywhere else.
    pub faults: Option<FaultPlan>,
}

impl Default for DiskConfig {
    fn default() -> Self {
        Self {
            name: None,
            beside: None,
            helpers: None,
            buffer_bytes: 4 << 20,
            buffer_count: 8,
            preallocate_bytes: 1 << 30,
            file_bytes: u64::MAX,
            keeps_reserve: false,
            engine: EngineChoice::Auto,
            sync_interval_ns: 1_000_000_000,
            threads: None,
            faults: None,
        }
    }
}

impl DiskConfig {
    /// Bytes of memory used by the pool of buffers.
    pub fn memory_bytes(&self) -> u64 {
        self.buffer_bytes as u64 * self.buffer_count as u64
    }

    /// The name of one of its threads.
    pub(crate) fn thread(&self, thread: &str) -> String {
        match &self.name {
            Some(name) => format!("{thread}-{name}"),
            None => thread.to_owned(),
        }
    }

    /// The name of its buffers.
    pub(crate) fn buffers(&self) -> String {
        match &self.name {
            Some(name) => format!("write buffers {name}"),
            None => "write buffers".to_owned(),
        }
    }

    /// Checks every value against its bounds.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self) -> Result<(), DiskError> {
        let wrong = |field, expected, got: u64| Err(DiskError::Config { field, expected, got });
        let aligned = |bytes: u64| bytes.is_multiple_of(DISK_ALIGN_BYTES as u64);
        let bytes = self.buffer_bytes;
        if !(DISK_ALIGN_BYTES..=BUFFER_BYTES_MAX).contains(&bytes) || !aligned(bytes as u64) {
            return wrong("buffer_bytes", "a multiple of 4 KiB, up to 256 MiB", bytes as u64);
        }
        if !(2..=BUFFERS_MAX).contains(&self.buffer_count) {
            return wrong("buffer_count", "2 to 1,024", self.buffer_count as u64);
        }
        if !aligned(self.preallocate_bytes) || self.preallocate_bytes > PREALLOCATE_BYTES_MAX {
            let expected = "a multiple of 4 KiB, up to 1 TiB";
            return wrong("preallocate_bytes", expected, self.preallocate_bytes);
        }
        Ok(())
    }
}

/// The kernel's limit for one registered buffer is 1 GiB, for one write 2 GiB.
const BUFFER_BYTES_MAX: usize = 256 << 20;
const BUFFERS_MAX: usize = 1_024;
const PREALLOCATE_BYTES_MAX: u64 = 1 << 40;
