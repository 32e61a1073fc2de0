//! What the commands and the benches share on a terminal.
//!
//! [`Out`] writes text for people or one JSON object for programs, [`Exit`] is the exit code,
//! [`Stop`] turns Ctrl-C and other signals into an end in order, [`Client`] calls the HTTP API of a
//! node, and [`need_space`] refuses a recording that the disk has no room for.

mod client;
mod error;
mod output;
mod signals;
mod space;

pub use client::{Client, Target};
pub use error::{ConsoleError, UsageError};
pub use output::{Exit, Out, Table, chain, complain, progress};
pub use signals::{Stop, outlive_file_limits};
pub use space::need_space;
