//! Catchment's words in types: ids, event flags, units, limits and the ledger.
//!
//! All other crates use these types; nothing here does I/O, starts a thread or reads a clock.

pub mod event;
pub mod ids;
pub mod ledger;
pub mod limits;
pub mod moment;
mod named;
pub mod near;
pub mod piece;
pub mod printable;
pub mod rate;
pub mod time_scale;
pub mod units;
pub mod utc;

pub use event::{CloseReason, EventFlags};
pub use ids::{RunId, SourceId};
pub use ledger::{Balance, Entry, Ledger, REASONS_MAX, SourceLedger};
pub use moment::{Moment, UTC_BEGINS_NS};
pub use near::near_matches;
pub use piece::Piece;
pub use printable::{printable, printable_json, printable_lines};
pub use rate::{RateError, SampleRate};
pub use time_scale::{LEAP_SECONDS_KNOWN_UNTIL_UTC_NS, TimeScale, TimeScaleError};
pub use utc::{ParseUtcError, Utc};
