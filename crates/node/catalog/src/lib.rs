//! The catalogue of runs: what was recorded, when, by whom, how it ended, and where it lies.
//!
//! A data folder holds runs (`runs/run-…/`) and, in `runs/.catchment/`, this catalogue of them: one
//! SQLite database, `catalog.sqlite`. The files of the runs are the truth and the catalogue is made
//! from them again at any time ([`rebuild`]); only what people added (comments, remarks, quality,
//! who) and the runs that never came to a file stand nowhere else.
//!
//! ```text
//! next_run_number ──► starting ──begin_run──► recording ──end_run──► complete | fault
//!                        │ fail_run               │ its process is gone
//!                        ▼                        ▼
//!                      failed                 interrupted
//! ```
//!
//! Invariants:
//! - A run number is given once. It is durable in `catalog.sqlite` and in a small file beside it
//!   before anybody is told; whichever of the two knows a higher one is right.
//! - Whoever starts a run holds a lock on `live/NUMBER` until it ends. The kernel lets go of it
//!   however the process ends, so that a run whose lock is free and whose state is not final was
//!   interrupted: no clock and no heartbeat decides it.
//! - A catalogue that another process has holds up nothing: a run gets its number from the file
//!   beside it, and what is known of the run waits in `pending/` for whoever opens the catalogue
//!   next ([`RunKnown::keep`]).
//! - The recorder's threads never see this crate: it writes when a run starts and ends, and when
//!   somebody asks.
//! - Whoever has the catalogue open holds a shared lock on `catalog.lock`; a rebuild holds it
//!   alone, and announces itself with a lock on `catalog.wanted` before. A [`Catalog`] is opened
//!   for what one wants of it and dropped; a program that is asked often has a [`KeptCatalog`],
//!   which steps aside.
//!
//! Limits: run numbers up to [`RUN_NUMBER_MAX`], comments and remarks up to [`COMMENT_BYTES_MAX`],
//! names up to [`WHO_BYTES_MAX`], [`SPANS_PER_FILE_MAX`] rows of frames per file.

mod annotate;
mod catalog;
mod configurations;
mod error;
mod facts;
mod files;
mod kept;
mod lock;
mod numbers;
mod pending;
mod rebuild;
mod remarks;
mod row;
mod salvage;
mod schema;
mod search;
mod step;
#[cfg(test)]
mod tests;

pub use catalog::{Catalog, NumberRequest, RunEnd, check_comment};
pub use configurations::{Configuration, ConfigurationText};
pub use error::CatalogError;
pub use files::{Copy, FileRow, FrameKind, FrameSpan};
pub use kept::KeptCatalog;
pub use lock::{LiveRun, PATIENCE_AT_START};
pub use pending::{Begun, Over, RunKnown};
pub use rebuild::{RebuildReport, Renumbered, rebuild};
pub use remarks::Remark;
pub use row::{Quality, RunDetail, RunRow, RunState, Totals};
pub use schema::SCHEMA_VERSION;
pub use search::Search;

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
