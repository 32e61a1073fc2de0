//! The tests of this crate over its public interface, as one program: it is linked once.

mod commands;
mod history;
mod security;
mod sources;
mod stored;
mod stores;
mod stream;
mod support;
mod targets;
