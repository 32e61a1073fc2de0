//! The tests of this crate over its public interface, as one program: it is linked once.

mod by_time;
mod cli;
mod convert;
mod damaged;
mod ends;
mod follow;
mod front_ends;
mod groups;
mod guide;
mod gwf;
mod hang_up;
mod held_up;
mod layouts;
mod life;
mod link_sessions;
mod links;
mod names;
mod network;
mod read;
mod refs;
mod resume;
mod rewrite;
mod store;
mod support;
mod targets;
mod trains;
