//! Recordings as a terminal shows them: a node that one program alone controls, the view of a
//! recorder at work, the report on a recording that has ended, and the proof that what was recorded
//! is what was sent.
//!
//! The demonstration is here, and has a program of its own, `catchment-demo`, which compiles in
//! half the time of `catchment`: that needs Arrow, Parquet, GWF and the benches besides.

pub mod demo;
mod fault;
mod prove;
mod report;
mod session;
mod view;

pub use fault::{Fault, FaultTarget};
pub use report::{Balance, Malformed, Summary, entries, exit_of, malformed_reasons};
pub use session::{Ends, Recording, Session, Sockets, configuration, own_settings, seconds, who};
pub use view::{bad_reasons, loss_reasons};

use catchment_config::ConfigFileError;
use catchment_console::{Exit, Out, UsageError, chain, complain};

/// What the help of every program says of its exit codes.
pub const EXIT_CODES: &str =
    "Exit codes: 0 done, 1 failed, 2 bad usage or configuration, 3 done, with loss or bad data.";

/// The exit code of a command that has ended; what went wrong is printed.
pub fn exit_code(result: anyhow::Result<Exit>, out: &mut Out) -> i32 {
    let result = result.and_then(|exit| {
        out.flush()?;
        Ok(exit)
    });
    match result {
        Ok(exit) => exit as i32,
        Err(error) => {
            out.flush().ok();
            complain(chain(&error));
            let usage = error.chain().any(|cause| {
                cause.is::<UsageError>()
                    || cause.is::<ConfigFileError>()
                    || cause.is::<catchment_recorder::ConfigError>()
            });
            (if usage { Exit::Usage } else { Exit::Failed }) as i32
        }
    }
}
