//! The tests of this crate over its public interface, as one program: it is linked once.

mod board_packets;
mod boards;
mod channel_content;
mod content;
mod dummy;
mod emulator;
mod link_emulator;
mod trains;
