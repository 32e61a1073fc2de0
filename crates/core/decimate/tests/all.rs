//! The tests of this crate over its public interface, as one program: it is linked once.

mod designs;
mod filters;
mod streams;
