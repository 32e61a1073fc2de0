//! The tests of this crate over its public interface, as one program: it is linked once.

mod common;
mod conformance;
mod faults;
mod network_folder;
mod read;
mod real_faults;
mod refused;
mod stores;
