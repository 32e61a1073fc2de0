//! The front-end's client: delivers fragments of events to a recorder over TCP, so that nothing is
//! lost when the network, the recorder or both fail for a while.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! let camera = catchment_frontend::Frontend::connect("catchment+tcp://daq1:7100", "camera")?;
//! for key in 0..1_000 {
//!     camera.send(key, b"an image")?;
//! }
//! assert!(camera.close(Duration::from_secs(10)).is_confirmed());
//! # Ok::<(), catchment_frontend::Error>(())
//! ```
//!
//! [`send`](Frontend::send) copies a fragment into the front-end's ring, and returns; it waits only
//! while the ring is full. The fragment leaves the ring when it is *durable*: on every disk that
//! the recorder's configuration requires. One thread of the client connects, sends from the ring,
//! takes acknowledgements, and resumes after a break; what was not acknowledged is sent again, and
//! the recorder drops what it has. Nothing is allocated for a fragment, and no system call is made
//! for it unless that thread sleeps.
//!
//! Nothing is dropped by the client. Who would rather drop than wait uses
//! [`try_send`](Frontend::try_send), and says what was dropped by
//! [`abandon`](SourceHandle::abandon). [`close`](Frontend::close) waits until everything is durable
//! and returns what is not.
//!
//! [`testing::Recorder`] is a recorder for the tests of front-ends: no node is needed for them.
//!
//! The specification is docs/spec/event-link.md. `catchment://` is under TLS.

mod address;
mod builder;
mod error;
mod frontend;
mod service;
mod sockets;
pub mod testing;

pub use builder::{Builder, Callbacks};
pub use catchment_sender::{
    ConfigError, Fragment, Push, PushError, Reading, ReportError, Reports, RunCommand, SenderState,
    Setting, SourceConfig, SourceStatus,
};
pub use catchment_wire::event_link::{AbandonReason, CommandKind, KeyKind, Presence};
pub use catchment_wire::session::Release;
pub use error::Error;
pub use frontend::{Closed, Frontend, SourceHandle};
