//! Wire protocols, one file each: pure functions from bytes to fragments and back.
//!
//! [`Decoder`] is the common interface of all protocols of event sources, [`protocols`] lists them.
//! [`hadtu`]: the packets of HADES' read-out boards. [`link`]: Catchment's own packets of
//! continuous channels. [`session`] and [`event_link`]: sessions over TCP, and events in them.
//! [`sequence`]: numbers that wrap, and gaps in those that do not.
//!
//! Nothing here allocates, panics, or loops over an unchecked number from outside.

mod decoder;
pub mod event_link;
mod fault;
mod fields;
mod fuzzing;
pub mod hadtu;
pub mod link;
mod message;
pub mod sequence;
pub mod session;

use std::sync::Arc;

pub use decoder::{
    CUT_OFF, Decoded, Decoder, PARTS_MAX, Part, PartFlags, Protocol, RECEIVER_REASONS, Reason,
    Transport, all_reasons,
};
#[doc(hidden)]
pub use fuzzing::{fuzz_decoder, fuzz_events, fuzz_link, fuzz_packet, fuzz_session};

/// The protocols that a source with an address of its own can use.
pub fn protocols() -> [Arc<dyn Protocol>; 2] {
    [Arc::new(hadtu::Hadtu), Arc::new(event_link::EventLink::DATAGRAMS)]
}
