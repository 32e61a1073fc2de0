//! The tests of this crate over its public interface, as one program: it is linked once.

mod channels;
mod checkpoints;
mod common;
mod golden;
mod golden_base;
mod golden_expected;
mod golden_holes;
mod golden_pieces;
mod golden_v1_1;
mod golden_v1_3;
mod growth;
mod malformed_checkpoints;
mod mutations;
mod pieces;
mod properties;
mod refresh;
mod repair;
mod toc;
