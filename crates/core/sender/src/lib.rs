//! A sender's end of a session: everything that docs/spec/session.md and docs/spec/event-link.md
//! ask of a front-end, as pure state. No socket, no clock, no thread: time is an argument, bytes
//! are slices, so that the Rust client, the Python package and the simulator run the same code.
//!
//! Fragments go in by [`Source`], from any thread, and stay in the rings that were made at the
//! start until an answer gives them back. [`SenderSession`] belongs to one thread: it says what to
//! connect ([`Step`]), what each socket has to take next ([`SenderSession::transmit`]), and takes
//! what came ([`SenderSession::received`]). One copy is made of a fragment, into the ring; a
//! message's payload goes to the socket from there. Nothing is allocated for a fragment.
//!
//! - The sequence of an item is fixed when it goes in; the log of a source has no gaps.
//! - What is held is sent again after any break, from where the recorder says.
//! - Nothing is given back but by an answer (positions or grants), and no answer is believed beyond
//!   what was sent.
//! - Positions of a lower epoch of the same stream than was seen are ignored.
//!
//! Limits: 4,096 sources, 16 data connections, 32 KiB of control bytes each way beside what a
//! hello needs, and an entry for each 256 bytes of a ring (at least 4,096).

mod commands;
mod config;
mod control;
mod counts;
mod data;
mod keys;
mod left;
mod log;
mod opening;
mod reports;
mod retry;
mod ring;
mod session;
mod source;
mod step;
mod storage;
pub mod testing;

pub use config::{ConfigError, SenderConfig, SourceConfig};
pub use left::LeftOfStream;
pub use reports::{Reading, ReportError, Reports, Setting};
pub use session::{SenderSession, Slices};
pub use source::{Fragment, Push, PushError, Source, SourceStatus};
pub use step::{Action, Connection, RunCommand, SenderState, Step};
pub use storage::{StreamConfig, StreamSession};
