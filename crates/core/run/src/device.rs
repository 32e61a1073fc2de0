//! What control must know of a device.

use crate::state::Action;

/// The longest that a device may be given for a step: one hour.
pub const TIMEOUT_NS_MAX: u64 = 3_600 * S;

const S: u64 = 1_000_000_000;

/// A device of the line.
#[derive(Clone, Debug)]
pub struct DeviceSpec {
    /// Its path: `node/recorder/write`. No two devices have the same.
    pub path: &'static str,
    /// What it is, for people: `writer`.
    pub kind: &'static str,
    /// Whether the run is stopped when it reports a fault. Otherwise the others go on, and so does
    /// it when it reports that it is well again: a full disk.
    pub stops_run: bool,
    /// How long it may take for a step, from 1 to [`TIMEOUT_NS_MAX`].
    pub timeout_ns: fn(Action) -> u64,
}

impl DeviceSpec {
    /// A device with the usual time-outs, whose faults do not end a run.
    pub fn new(path: &'static str, kind: &'static str) -> Self {
        Self { path, kind, stops_run: false, timeout_ns: usual_timeout_ns }
    }
}

/// How long a step usually may take: opening and closing files may take a disk's stall.
pub fn usual_timeout_ns(action: Action) -> u64 {
    match action {
        Action::Safe => S,
        Action::Pause | Action::Resume => 2 * S,
        Action::Arm | Action::Stop => 10 * S,
        Action::Configure | Action::Start | Action::Disarm | Action::Reset | Action::Shutdown => {
            5 * S
        }
    }
}
