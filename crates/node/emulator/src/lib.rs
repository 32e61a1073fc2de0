//! Emulated detectors whose every byte can be verified.
//!
//! [`Emulator`] sends the packets of a detector's boards: hadtu packets on UDP, one port per
//! source. The content of a fragment is a pure function of seed, source and event ([`Content`]), so
//! a reader can recompute every recorded byte. A source whose packets a configuration declares
//! sends those ([`Board`]), over UDP or a connection, with a clock where they have times
//! ([`Clocks`]). Faults are injected on
//! request, drawn from the same seed, and reported exactly ([`EmulatorReport`]).
//!
//! [`LinkEmulator`] does the same for continuous channels, whose samples are a pure function of
//! seed, channel and sample number ([`ChannelContent`]).
//!
//! [`DummyConfig`]: front-ends that send fragments over the event link, as fast as they are taken
//! ([`DummyContent`]).
//!
//! [`TrainConfig`]: feeders of trains, to one node or several in turn ([`TrainContent`]).

mod boards;
mod channel_content;
mod channels;
mod config;
mod content;
mod dummy;
mod emulator;
mod faults;
mod link_config;
mod link_emulator;
mod outlet;
mod pace;
mod pictures;
mod report;
mod sender;
mod stream;
mod thread;
mod trains;

pub use boards::{Board, Clocks};
pub use channel_content::ChannelContent;
pub use channels::{EmulatedChannel, channel_preset, ligo_1000};
pub use config::{
    ConfigError, EmulatedSource, EmulatorConfig, Faults, alpha_72, hades_90, plain_board, preset,
};
pub use content::{Content, mix};
pub use dummy::{DummyConfig, DummyContent, DummyReport};
pub use emulator::{Emulator, EmulatorError};
pub use link_config::{EmulatedLink, LinkEmulatorConfig};
pub use link_emulator::LinkEmulator;
pub use pictures::{GivenImages, Pictures};
pub use report::{EmulatorLive, EmulatorReport, LinkEmulatorReport, SourceReport};
pub use thread::{EmulatorObserver, EmulatorThread};
pub use trains::{
    DROPPED_MAX, Images, MadeTrain, TRAINS_HZ_DEFAULT, TrainConfig, TrainContent, TrainReport,
};
