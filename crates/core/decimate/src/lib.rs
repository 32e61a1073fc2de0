//! Decimating channels for reduced data sets: every `factor`th sample of what an anti-aliasing
//! filter leaves.
//!
//! What is promised, for every factor ([`Design`]):
//! - Up to 0.8 of the decimated channel's Nyquist frequency amplitudes are kept within 0.01 dB.
//! - From its Nyquist frequency on everything is suppressed by at least 100 dB, so that nothing
//!   folds into the output; between the two the gain falls.
//! - The phase is linear and the delay taken out: output sample `n` is at the time of input sample
//!   `n * factor`, exactly, as both are numbered from the epoch.
//! - An output is there only where the filter's whole support is, in one run without a gap: about
//!   27 output samples are missing at either end of a run ([`Design::half_support`]).
//! - Constants and straight lines are kept. Sums are carried in `f64`.
//! - Where frames begin and end makes no difference, to the bit.
//!
//! Pure: no I/O, no thread, no clock.

mod channel;
mod decimator;
mod design;
mod error;
mod runs;
mod stage;

pub use channel::{ChannelDecimator, Decimated, OutputType};
pub use decimator::Decimator;
pub use design::{Design, factor_between};
pub use error::DecimateError;
pub use runs::Runs;
