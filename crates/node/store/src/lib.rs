//! A storage node: `catchment store`.
//!
//! ```text
//! recorders ══► TcpReceiver ──► Receive ── frames ──► Writer, one a stream ──► FrameFiles, Disk
//!                    ◄── positions ──┘  ▲                 │ what is durable
//!                                       └── StreamState ◄─┘
//! ```
//!
//! `Receive` keeps the sessions of the storage link (docs/spec/storage-link.md)
//! and puts frames together: it is a frame's place until all its columns are there and their
//! checksums are those that its sender said. A `Writer` writes the frames of one
//! stream to files of its own, in a folder of the stream's name, and publishes up to which number
//! they are durable: synced, in order, without a gap. The node itself ([`Node`]) makes folders and
//! threads, and ends the files of an earlier node, as a recorder that goes on with a run
//! does: when their stream is opened again, or when nobody has opened it for as long as a stream
//! without a sender is kept.
//!
//! Invariants:
//! - What is said to be durable is in files that were synced after it was written.
//! - A frame is known by its number in the stream: one that is there is not written again.
//! - After a fault of the disk a stream's files are cut behind what is durable, and its sender
//!   sends the rest again: nothing of which the system was unsure is kept.
//! - Frames that are not written yet have one bound in bytes for all streams; a connection whose
//!   next frame has no room is not read.

mod assembly;
mod config;
mod described;
mod disk_watch;
mod folder_marks;
mod frames;
mod host;
mod items;
mod marks;
mod memory;
mod node;
mod receive;
mod sessions;
mod state;
mod stored;
mod writer;
mod writers;

pub use assembly::{Assembly, AssemblyParts, SteppedWriter};
pub use config::StoreConfig;
pub use folder_marks::{absent_folders, absent_words};
pub use node::{Node, StoreError};
pub use state::{NodeObserver, NodeSnapshot, PhaseSnapshot, StoreFolder, StreamSnapshot};
