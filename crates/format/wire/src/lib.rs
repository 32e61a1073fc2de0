//! Wire protocols, one file each: pure functions from bytes to fragments and back.
//!
//! [`Decoder`] is the common interface of all protocols of event sources, [`protocols`] lists them.
//! [`hadtu`]: the packets of HADES' read-out boards. [`link`]: Catchment's own packets of
//! continuous channels. [`sequence`]: numbers that wrap, and gaps in those that do not. Nothing
//! here allocates, panics, or loops over an unchecked number from outside.

mod decoder;
mod fuzzing;
pub mod hadtu;
pub mod link;
pub mod sequence;

use std::sync::Arc;

pub use decoder::{
    CUT_OFF, Decoded, Decoder, PARTS_MAX, Part, PartFlags, Protocol, RECEIVER_REASONS, Reason,
    Transport, all_reasons,
};
#[doc(hidden)]
pub use fuzzing::{fuzz_decoder, fuzz_link, fuzz_packet};

/// The protocols that a source can use.
pub fn protocols() -> [Arc<dyn Protocol>; 1] {
    [Arc::new(hadtu::Hadtu)]
}
