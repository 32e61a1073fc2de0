//! The tests of this crate over its public interface, as one program: it is linked once.

mod begun_again;
mod closing;
mod conformance;
mod continuing;
mod cutting;
mod histories;
mod jumps;
mod matcher;
mod model;
mod owned;
mod positions;
mod promises;
mod quorum;
mod repetition;
mod support;
mod wanted;
