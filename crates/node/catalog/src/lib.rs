//! The catalogue of runs: what was recorded, when, by whom, how it ended, and where it lies.
//!
//! A data folder holds runs (`runs/run-…/`) and, in `runs/.catchment/`, this catalogue of them: one
//! SQLite database, `catalog.sqlite`. The files of the runs are the truth and the catalogue is made
//! from them again at any time ([`rebuild`]); only what people added (comments, remarks, quality,
//! who) and the runs that never came to a file stand nowhere else.
//!
//! ```text
//! next_run_number ──► starting ──begun──► recording ──ended──► complete | fault
//!                        │ failed             │ its process is gone
//!                        ▼                    ▼
//!                      failed             interrupted
//! ```
//!
//! Invariants:
//! - A run number is given once. It is durable in `catalog.sqlite` and in a small file beside it
//!   before it is returned; whichever of the two knows a higher one is right.
//! - The process that starts a run holds a lock on `live/NUMBER` until it ends. The kernel lets go
//!   of it however the process ends, so that a run whose lock is free and whose state is not final
//!   was interrupted: no clock and no heartbeat decides it.
//! - A catalogue that another process has locked delays no run: the run gets its number from the
//!   file beside it, and what is known of it waits in `pending/` for the next process that opens
//!   the catalogue ([`RunKnown::keep`]).
//! - The recorder's threads never use this crate: it writes when a run starts and ends, and on
//!   request.
//! - Each process that has the catalogue open holds a shared lock on `catalog.lock`; a rebuild
//!   holds an exclusive one, and announces it with a lock on `catalog.wanted` before. A [`Catalog`]
//!   is opened for one task and dropped; a program with frequent queries has a [`CachedCatalog`],
//!   which closes for a rebuild.
//!
//! Limits: run numbers up to [`RUN_NUMBER_MAX`], comments and remarks up to [`COMMENT_BYTES_MAX`],
//! names up to [`WHO_BYTES_MAX`], [`SPANS_PER_FILE_MAX`] rows of frames per file.

mod cached;
mod catalog;
mod configurations;
mod error;
mod facts;
mod files;
mod forwarded;
mod locations;
mod lock;
pub mod model;
mod numbers;
mod pending;
mod rebuild;
mod remarks;
mod row;
mod salvage;
mod schema;
mod search;
mod step;
mod target_sources;
#[cfg(test)]
mod tests;

pub use cached::CachedCatalog;
pub use catalog::{Catalog, NumberRequest, RunEnd};
pub use configurations::{Configuration, ConfigurationText};
pub use error::{CatalogError, check_comment};
pub use files::{Copy, FileRow, FrameKind, FrameSpan};
pub use forwarded::SpillForwarded;
pub use lock::{LiveRun, PATIENCE_AT_START};
pub use pending::{Begun, Over, RunKnown};
pub use rebuild::{RebuildReport, Renumbered, rebuild};
pub use remarks::Remark;
pub use row::{Quality, RunDetail, RunRow, RunState, Totals};
pub use schema::SCHEMA_VERSION;
pub use search::Search;
pub use target_sources::TargetSource;

/// The folder inside a data folder in which the catalogue stands.
pub const CATALOG_FOLDER: &str = ".catchment";
/// The database in that folder.
pub const CATALOG_FILE: &str = "catalog.sqlite";
/// The highest run number: what every reader of JSON keeps exactly.
pub const RUN_NUMBER_MAX: u64 = (1 << 53) - 1;
/// Bytes of a comment.
pub const COMMENT_BYTES_MAX: usize = 16 * 1024;
/// Remarks of one run.
pub const REMARKS_MAX: usize = 1_000;
/// Bytes of a person's or a program's name.
pub const WHO_BYTES_MAX: usize = 256;
/// Bytes of a configuration's text.
pub const CONFIGURATION_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Rows that describe the frames of one file: the more frames, the more of them one row covers.
pub const SPANS_PER_FILE_MAX: usize = 64;
/// Runs that one search returns at most.
pub const SEARCH_LIMIT_MAX: usize = 1_000;
