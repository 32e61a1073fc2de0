//! Wire protocols, one file each: pure functions from bytes to fragments and back.
//!
//! [`Decoder`] is what all protocols of event sources have in common, [`protocols`] lists them.
//! [`hadtu`]: the packets of HADES' read-out boards. [`link`]: Catchment's own packets of
//! continuous channels. [`sequence`]: numbers that wrap, and gaps in those that do not. Nothing
//! here allocates, panics or loops by a number that came from outside and was not checked.

mod decoder;
mod fuzzing;
pub mod hadtu;
pub mod link;
pub mod sequence;

use std::sync::Arc;

pub use decoder::{
    Decoded, Decoder, Part, PartFlags, Protocol, RECEIVER_REASONS, Reason, all_reasons,
};
#[doc(hidden)]
pub use fuzzing::{fuzz_decoder, fuzz_link, fuzz_packet};

/// The protocols that sources can have.
pub fn protocols() -> [Arc<dyn Protocol>; 1] {
    [Arc::new(hadtu::Hadtu)]
}
