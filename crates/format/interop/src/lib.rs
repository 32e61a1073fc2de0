//! Other people's file formats, read and written without I/O of our own.
//!
//! | module | format |
//! |---|---|
//! | [`gwf`] | IGWD frames version 8 (`.gwf`), which gravitational-wave detectors record |
//!
//! A reader brings a [`ReadAt`], a writer a [`std::io::Write`]; nothing here opens a file, reads a
//! clock or starts a thread. Whatever a file says is checked before it is believed.

pub mod gwf;

pub use catchment_agent::ReadAt;
