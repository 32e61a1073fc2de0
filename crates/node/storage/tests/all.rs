//! The tests of this crate over its public interface, as one program: it is linked once.

mod base;
mod blocks;
mod books;
mod channels;
mod common;
mod cuts;
mod folders;
mod growing;
mod later;
mod leftovers;
mod merge;
mod mutated;
mod read;
mod reduce;
mod reframe;
mod resume;
mod several;
mod signal;
mod trend_files;
mod trends;
mod whole;
mod write;
