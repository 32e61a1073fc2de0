//! Run control: what everything that runs may be asked for, and how a line of devices follows.
//!
//! [`Control`] takes [`Request`]s, gives devices [`Order`]s, takes their replies, and decides. It
//! promises:
//! - One command at a time; an illegal one is refused with the reason.
//! - A request id is executed once and answered alike (the last [`REQUESTS_REMEMBERED`]).
//! - Steps that begin something reach sinks first, steps that end something reach sources first.
//! - If a device fails or hangs in a command that begins something, the others go back to where
//!   they were. Who cannot is made *safe*; who cannot even be made safe is in *fault*. When a
//!   command has ended, all its devices are in one state, or in *safe* or *fault* with a reason
//!   that is kept.
//! - A command that ends something is never undone: who fails is made *safe*, the others go on.
//! - Every order has a deadline, and a reply after it changes nothing. So every command ends; a
//!   shutdown within its drain time and the longest time-out for *safe*.
//!
//! Pure: no I/O, no thread, no clock.

mod control;
mod course;
mod device;
mod request;
mod state;
#[cfg(test)]
mod tests;

pub use control::{Control, DRAIN_NS_MAX, Failed, Order, Purpose, Reply, UnderWay};
pub use course::Device;
pub use device::{DeviceSpec, TIMEOUT_NS_MAX, usual_timeout_ns};
pub use request::{
    Answer, COMMENT_BYTES_MAX, CommandResult, REASON_BYTES_MAX, REQUEST_BYTES_MAX,
    REQUESTS_REMEMBERED, Reason, Refusal, Request, RequestId, RequestIdError, Status,
    WHO_BYTES_MAX,
};
pub use state::{Action, Command, Illegal, State, transition};
