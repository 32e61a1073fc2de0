//! Third-party file formats, read and written without I/O of our own.
//!
//! | module | format |
//! |---|---|
//! | [`gwf`] | IGWD frames version 8 (`.gwf`), which gravitational-wave detectors record |
//!
//! A reader supplies a [`ReadAt`], a writer a [`std::io::Write`]; nothing here opens a file, reads
//! a clock or starts a thread. Everything in a file is checked before it is used.

pub mod gwf;

pub use catchment_agent::ReadAt;
