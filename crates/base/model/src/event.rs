//! A built event's data besides its fragments.

use std::fmt;

/// Conditions of one event, one bit each; stored with the event in the frame file (`u32`).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct EventFlags(pub u32);

impl EventFlags {
    /// At least one required source is missing.
    pub const INCOMPLETE: Self = Self(1);
    /// Closed because its time-out passed.
    pub const TIMED_OUT: Self = Self(1 << 1);
    /// Closed because the sources, or the window, had moved on.
    pub const OVERTAKEN: Self = Self(1 << 2);
    /// Its fragments do not all carry the same trigger tag.
    pub const TAG_MISMATCH: Self = Self(1 << 3);
    /// A source marked its own data as broken.
    pub const SENDER_ERROR: Self = Self(1 << 4);
    /// Closed because the run ended.
    pub const RUN_ENDED: Self = Self(1 << 5);
    /// The checksum of a fragment is not that of its bytes.
    pub const BAD_CHECKSUM: Self = Self(1 << 6);
    /// Its one fragment belongs to no event; with [`LATE`](Self::LATE): its source's clock was out
    /// of step.
    pub const UNMATCHED: Self = Self(1 << 7);
    /// Its one fragment came after its event was closed.
    pub const LATE: Self = Self(1 << 8);

    /// Every flag with its name, lowest bit first.
    pub const NAMES: [(Self, &'static str); 9] = [
        (Self::INCOMPLETE, "incomplete"),
        (Self::TIMED_OUT, "timed_out"),
        (Self::OVERTAKEN, "overtaken"),
        (Self::TAG_MISMATCH, "tag_mismatch"),
        (Self::SENDER_ERROR, "sender_error"),
        (Self::RUN_ENDED, "run_ended"),
        (Self::BAD_CHECKSUM, "bad_checksum"),
        (Self::UNMATCHED, "unmatched"),
        (Self::LATE, "late"),
    ];

    /// Whether all bits of `other` are set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for EventFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Display for EventFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (flag, name) in Self::NAMES {
            if self.contains(flag) {
                write!(f, "{separator}{name}")?;
                separator = "+";
            }
        }
        if separator.is_empty() { f.write_str("complete") } else { Ok(()) }
    }
}

impl fmt::Debug for EventFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventFlags({self})")
    }
}

/// Why an event closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// Every awaited source had delivered.
    Complete,
    /// Its time-out passed.
    TimedOut,
    /// All sources still delivering had moved past it, or the window had.
    Overtaken,
    /// The run ended.
    RunEnded,
}

impl CloseReason {
    /// The flag that records this reason; none for a complete event.
    pub fn flag(self) -> EventFlags {
        match self {
            Self::Complete => EventFlags::default(),
            Self::TimedOut => EventFlags::TIMED_OUT,
            Self::Overtaken => EventFlags::OVERTAKEN,
            Self::RunEnded => EventFlags::RUN_ENDED,
        }
    }
}
