//! The tests of this crate over its public interface, as one program: it is linked once.

mod alarms;
mod flow;
