//! All tests of the crate but that of allocations, as one program.

mod breaks;
mod commands;
mod golden;
mod order;
mod sessions;
mod streams;
mod support;
