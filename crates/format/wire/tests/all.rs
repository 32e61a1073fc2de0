//! The tests of this crate over its public interface, as one program: it is linked once.

mod hadtu;
mod layout_errors;
mod layout_streams;
mod layout_variants;
mod layouts;
mod link;
mod malformed_inputs;
mod malformed_links;
mod malformed_sessions;
mod sequence;
mod session;
mod trains;
