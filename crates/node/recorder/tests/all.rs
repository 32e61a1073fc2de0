//! The tests of this crate over its public interface, as one program: it is linked once.

mod alignment;
mod bad_data;
mod channels;
mod commands;
mod connections;
mod disk_faults;
mod disk_full;
mod folders;
mod gauges;
mod injected_faults;
mod links;
mod memory;
mod parts;
mod pause;
mod promises;
mod resume;
mod samples;
mod sessions;
mod slow_parts;
mod stepped;
mod stop;
mod strangers;
mod support;
mod targets;
mod typed;
mod unread;
