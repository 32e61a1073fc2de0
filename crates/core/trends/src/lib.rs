//! Trends: mean, minimum, maximum, root mean square and number of a channel's samples, per second
//! and per minute.
//!
//! Computed while recording, from each frame's samples as they pass: [`TrendChannel::partial`]
//! gives what a frame says of the seconds that it touches, on any thread; a [`TrendSeries`] per
//! channel merges that and gives rows; [`Statistic`] and [`spans`] make channels of them. Seconds
//! and minutes are counted from the epoch of the channel's own time scale.
//!
//! What is in a row:
//! - The values are physical ones, `raw * scale + offset`, in `f64`. Integers beyond 2^53 are
//!   rounded to the nearest `f64` first.
//! - NaN and infinite values are left out of everything and counted in
//!   [`Statistics::not_finite`]. A second of nothing else has a row with `n` 0 and NaN.
//! - Values at a limit (a saturated ADC) are what was measured: they take part, and are counted in
//!   [`Statistics::saturated`] besides.
//! - Samples that are lost take no part. A second without a sample has no row.
//! - Mean and rms are within 1e-13 of the exact ones, of the largest magnitude; minimum and maximum
//!   are exact. Where frames begin and end, and which CPU it is, makes no difference beyond that.
//!
//! Pure: no I/O, no thread, no clock.

pub use catchment_frame::Span;

mod accumulator;
mod columns;
mod counter;
mod element;
mod error;
mod kernel;
mod partial;
mod series;
mod watch;

pub use accumulator::{Accumulator, Statistics};
pub use columns::{Statistic, spans};
pub use counter::CounterTrend;
pub use error::TrendError;
pub use partial::{Partial, TrendChannel};
pub use series::{Completed, Row, TrendSeries};
pub use watch::{Seconds, Seen, Watch};
