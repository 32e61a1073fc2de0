//! Files: aligned direct writes with several in flight, positioned reads, and a fault-injecting
//! disk.
//!
//! A writer thread uses [`Disk`]: a pool of aligned [`Buffer`]s, positioned writes that complete
//! later, syncs, and files that helper threads open, preallocate and finish, so that neither a
//! switch of files nor a slow `fsync` delays the writer. It has three engines: io_uring, plain
//! `pwrite` if io_uring is refused, and, for tests, a wrapper round either that fails as a
//! [`FaultPlan`] specifies. Readers use [`ReadFile`], repair uses [`EditFile`], and small data that
//! are read back at once go through the [`PageCache`].
//!
//! Invariants:
//! - A [`Disk`] creates files and never opens an existing one: recorded data are never overwritten.
//! - Every accepted operation gives exactly one [`Completion`], whatever the disk does.
//! - A buffer is held by the caller, in one write, or free: an error returns it to the pool.
//! - In steady state a write allocates nothing, and one call of [`Disk::poll`] makes at most one
//!   `io_uring_enter`.
//!
//! Limits: [`FILES_MAX`] files at a time, [`SYNCS_MAX`] unfinished syncs, 2 to 1,024 buffers of
//! 4 KiB to 256 MiB.

mod ahead;
mod aside;
mod buffer;
mod config;
mod descriptors;
mod direct;
mod disk;
mod engine;
mod error;
mod event;
mod faults;
mod files;
mod helper;
mod mapping;
mod measure;
mod open_file;
mod opening;
mod page_cache;
mod port;
mod portable;
mod read;
mod room;
mod stats;

pub use ahead::{lower_io_priority, prefer_huge_pages, release_free_memory};
pub use aside::append_lines;
pub use buffer::Buffer;
pub use catchment_agent::{Completion, CompletionKind, FileId, Presence};
pub use config::{DiskConfig, EngineChoice};
pub use direct::{DirectBytes, DirectReader, Ticket};
pub use disk::{Disk, FILES_MAX, SYNCS_MAX};
pub use error::DiskError;
pub use event::{DiskSleeper, Waker};
pub use faults::{FaultControl, FaultPlan};
pub use helper::DiskHelpers;
pub use measure::{WriteRate, measure_direct_copy, measure_direct_write};
pub use page_cache::PageCache;
pub use read::{
    EditFile, FolderEntry, ReadFile, free_bytes, last_written, list_files, list_folder,
    open_regular, sync_folder,
};
pub use stats::DiskStats;
