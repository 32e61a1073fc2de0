//! The commands, a file each.

pub(crate) mod audit;
pub(crate) mod catalog;
pub(crate) mod convert;
pub(crate) mod ctl;
mod ctl_store;
pub(crate) mod decode;
pub(crate) mod emulate;
mod emulate_dummies;
mod emulate_links;
mod emulate_timer;
mod emulate_trains;
pub(crate) mod generate;
pub(crate) mod inspect;
pub(crate) mod merge;
pub(crate) mod read;
pub(crate) mod reduce;
pub(crate) mod reframe;
pub(crate) mod refs;
pub(crate) mod repair;
pub(crate) mod run;
mod run_control;
mod run_offsets;
pub(crate) mod store;
pub(crate) mod token;
pub(crate) mod trend;
