//! Wire protocols, one file each: pure functions from bytes to fragments and back.
//!
//! [`Decoder`] is the common interface of all protocols of event sources, [`protocols`] lists them.
//! [`hadtu`]: the packets of HADES' read-out boards. [`link`]: Catchment's own packets of
//! continuous channels. [`trains`]: trains of images, which span many packets. [`layouts`]:
//! datagrams that a configuration declares. [`session`], [`event_link`], [`channel_link`] and
//! [`storage_link`]: sessions over TCP, and events, channels and encoded frames in them.
//! [`sequence`]: numbers that wrap, and gaps in those that do not.
//!
//! Nothing here allocates, panics, or loops over an unchecked number from outside.

pub mod channel_link;
mod decoder;
pub mod event_link;
mod fault;
mod fields;
mod fuzzing;
pub mod hadtu;
pub mod layouts;
pub mod link;
mod message;
pub mod sequence;
pub mod session;
pub mod storage_link;
mod stored_files;
pub mod trains;

use std::sync::Arc;

pub use decoder::{
    CUT_OFF, Decoded, Decoder, FragmentChecksum, PARTS_MAX, Part, PartFlags, Protocol,
    RECEIVER_REASONS, Reason, Transport, all_reasons,
};
#[doc(hidden)]
pub use fuzzing::{
    fuzz_channels, fuzz_decoder, fuzz_events, fuzz_layout, fuzz_link, fuzz_packet, fuzz_session,
    fuzz_storage, fuzz_train, train_layouts,
};

/// The protocols that a source with an address of its own can use.
pub fn protocols() -> [Arc<dyn Protocol>; 3] {
    let trains = trains::Trains::new(trains::TrainSettings::default());
    let trains = trains.expect("the defaults are within their bounds");
    [Arc::new(hadtu::Hadtu), Arc::new(event_link::EventLink::DATAGRAMS), Arc::new(trains)]
}
