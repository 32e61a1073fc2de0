//! The tests of this crate over its public interface, as one program: it is linked once.

mod bad_board;
mod begun_again;
mod closing;
mod conformance;
mod continuing;
mod cutting;
mod expected;
mod groups_by_time;
mod histories;
mod jumps;
mod matcher;
mod model;
mod not_sent;
mod numberings;
mod owned;
mod pieces;
mod positions;
mod promised_times;
mod promises;
mod quorum;
mod repetition;
mod support;
mod time;
mod wanted;
