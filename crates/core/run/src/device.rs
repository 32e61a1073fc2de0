//! Devices: where they stand in the tree, how long they may take.

use std::fmt;

use crate::state::{Action, Command};

/// The most devices that one control holds.
pub const DEVICES_MAX: usize = 4_096;
/// The longest path in bytes.
pub const PATH_BYTES_MAX: usize = 256;
/// The most segments of a path.
pub const PATH_SEGMENTS_MAX: usize = 8;
/// The longest that a device may be given for a step: one hour.
pub const TIMEOUT_NS_MAX: u64 = 3_600 * S;

const S: u64 = 1_000_000_000;
/// For each action, in their order: opening and closing files may take a disk's stall.
const TIMEOUTS_NS: [u64; Action::COUNT] =
    [5 * S, 10 * S, 5 * S, 2 * S, 2 * S, 10 * S, 5 * S, 5 * S, S, 5 * S];

/// Where a device stands: `node/recorder/write`. 1 to 8 segments of letters, digits, `-`, `_`, `.`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DevicePath(String);

/// What control must know of a device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeviceSpec {
    /// Where it stands. A device's parents need not be devices themselves.
    pub path: DevicePath,
    /// What it is, for people: `receiver`.
    pub kind: String,
    /// How far it is from where data end: 0 for the last sink, more towards the sources. Steps that
    /// begin something go through the tree upwards, steps that end something downwards; devices of
    /// the same order take them at the same time.
    pub order: u32,
    /// What happens to a run when it fails by itself.
    pub on_fault: OnFault,
    /// The commands that it, with the devices below it, takes without the rest of the tree.
    pub alone: Vec<Command>,
    timeouts_ns: [u64; Action::COUNT],
}

/// What happens to a run when one of its devices reports a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnFault {
    /// The others go on, and so does it when it reports that it is well again: a full disk.
    GoOn,
    /// The run is stopped: without it there is none.
    StopRun,
}

/// What cannot be a tree of devices, or a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// No device at all.
    #[error("there must be a device")]
    None,
    /// More than there may be.
    #[error("{count} devices: at most {DEVICES_MAX}")]
    TooMany {
        /// How many.
        count: usize,
    },
    /// Twice the same path.
    #[error("the device {path} is there twice")]
    Twice {
        /// The path.
        path: DevicePath,
    },
    /// No time, or too much.
    #[error("{path} has {timeout_ns} ns to {action}: it must be 1 to {TIMEOUT_NS_MAX}")]
    Timeout {
        /// The device.
        path: DevicePath,
        /// The step.
        action: Action,
        /// The time.
        timeout_ns: u64,
    },
    /// Not a path.
    #[error(
        "`{text}` is no path of a device: 1 to {PATH_SEGMENTS_MAX} names of letters, digits, `-`, `_` or `.` with `/` between"
    )]
    Path {
        /// The beginning of what was given.
        text: String,
    },
}

impl DevicePath {
    /// Takes a path apart and checks it.
    ///
    /// # Errors
    /// It is none.
    pub fn new(text: impl Into<String>) -> Result<Self, DeviceError> {
        let text = text.into();
        let segment = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
                && part.bytes().any(|byte| byte != b'.')
        };
        let mut parts = text.split('/');
        let fits = text.len() <= PATH_BYTES_MAX && parts.clone().count() <= PATH_SEGMENTS_MAX;
        if fits && parts.all(segment) {
            Ok(Self(text))
        } else {
            Err(DeviceError::Path { text: text.chars().take(PATH_BYTES_MAX).collect() })
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is `other` or stands below it.
    pub fn is_within(&self, other: &Self) -> bool {
        self.0.strip_prefix(&other.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for DevicePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl DeviceSpec {
    /// A device with the usual time-outs, whose faults do not end a run.
    pub fn new(path: DevicePath, kind: impl Into<String>, order: u32) -> Self {
        let on_fault = OnFault::GoOn;
        let kind = kind.into();
        Self { path, kind, order, on_fault, alone: Vec::new(), timeouts_ns: TIMEOUTS_NS }
    }

    /// Says how long it may take for a step.
    #[must_use]
    pub fn timeout(mut self, action: Action, timeout_ns: u64) -> Self {
        self.timeouts_ns[action as usize] = timeout_ns;
        self
    }

    /// Says what its faults do to a run.
    #[must_use]
    pub fn on_fault(mut self, on_fault: OnFault) -> Self {
        self.on_fault = on_fault;
        self
    }

    /// Says which commands it takes alone.
    #[must_use]
    pub fn alone(mut self, commands: &[Command]) -> Self {
        self.alone = commands.to_vec();
        self
    }

    /// How long it may take for a step.
    pub fn timeout_ns(&self, action: Action) -> u64 {
        self.timeouts_ns[action as usize]
    }
}

/// Checks that these can be a tree.
pub(crate) fn check(specs: &[DeviceSpec]) -> Result<(), DeviceError> {
    if specs.is_empty() {
        return Err(DeviceError::None);
    }
    if specs.len() > DEVICES_MAX {
        return Err(DeviceError::TooMany { count: specs.len() });
    }
    let mut paths: Vec<&DevicePath> = specs.iter().map(|spec| &spec.path).collect();
    paths.sort_unstable();
    if let Some(pair) = paths.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(DeviceError::Twice { path: pair[0].clone() });
    }
    for spec in specs {
        for &action in Action::ALL {
            let timeout_ns = spec.timeout_ns(action);
            if timeout_ns == 0 || timeout_ns > TIMEOUT_NS_MAX {
                return Err(DeviceError::Timeout { path: spec.path.clone(), action, timeout_ns });
            }
        }
    }
    Ok(())
}
