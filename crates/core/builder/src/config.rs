//! Settings of the builder.

use catchment_model::limits::{FRAME_TARGET_BYTES_DEFAULT, SOURCES_MAX};

use crate::number::{KEY_END, NUMBER_BITS_MAX, NUMBER_BITS_MIN, WINDOW_EVENTS_MIN};

/// Whether events wait for a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceRole {
    /// An event without it is incomplete.
    #[default]
    Required,
    /// Events wait for it while it delivers, but are complete without it.
    Optional,
    /// It may be in an event or not: events are complete without it, and its silence says nothing.
    /// What it promises decides how long they wait for it, a time-out at most.
    Sparse,
    /// Its fragments are counted and discarded.
    Disabled,
}

impl SourceRole {
    /// Whether anything of it is recorded.
    pub fn is_enabled(self) -> bool {
        self != Self::Disabled
    }

    /// Whether an event without it is incomplete.
    pub fn is_required(self) -> bool {
        self == Self::Required
    }
}

/// What becomes of an event that lacks a required source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IncompletePolicy {
    /// It is a row like any other, flagged incomplete.
    #[default]
    Keep,
    /// It is dropped, and its fragments are counted as discarded.
    Drop,
}

/// Settings of a [`Builder`](crate::Builder) that every rule has; each has others of its own
/// ([`NumberConfig`](crate::NumberConfig), [`TimeConfig`](crate::TimeConfig)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuilderConfig {
    /// The sources, by number.
    pub sources: Vec<SourceRole>,
    /// Whether a source promises, by number: its numbers rise, each says that none below it will
    /// follow, and so do its notes ([`Builder::note`](crate::Builder::note)). It votes on nothing.
    /// Empty: none does.
    pub promising: Vec<bool>,
    /// The groups in whose events a source is expected, by number, one in each bit; 0: in all, as
    /// where this is empty. Sparse sources are expected in none.
    pub expected_in: Vec<u64>,
    /// How long an event waits for sources that may still deliver it, and after how long without
    /// deliveries a source counts as silent. Precise to an eighth.
    pub timeout_ns: u64,
    /// What becomes of incomplete events.
    pub incomplete: IncompletePolicy,
    /// Payload bytes of an event at most. A larger one is dropped when it closes, and its fragments
    /// are counted as discarded.
    pub event_bytes_max: u64,
    /// Payload bytes at which a frame is cut, at most `catchment_model::limits::COLUMN_BYTES_MAX`.
    /// A frame exceeds them by less than one event.
    pub frame_bytes: u64,
    /// Time after which a frame is cut whatever its size.
    pub frame_time_ns: u64,
    /// Payload that open events and parked fragments may hold together, without that of pausable
    /// sources. Beyond it the oldest events that the quorum has passed close, even incomplete ones.
    /// Half of it is for fragments that the quorum has not passed.
    pub waiting_bytes_max: u64,
    /// Number of fragments of one source that may be parked.
    pub parked_max: usize,
    /// Whether a source waits where it has no room, by number; empty: none does. Its fragments are
    /// never discarded for want of its share of the waiting memory: who receives them asks
    /// [`Builder::parked`](crate::Builder::parked), and takes no more.
    pub pausable: Vec<bool>,
    /// Whether a source's positions are asked for
    /// ([`Builder::first_undecided`](crate::Builder::first_undecided)), by number; empty: of none.
    /// If they are, absent and skipped events are counted when the next row is cut, and otherwise
    /// when its event closes.
    pub positions: Vec<bool>,
    /// How long marks of sources that promise move the begin of the run, from its first event on.
    pub edge_ns: u64,
    /// Where the run goes on, if another builder began it.
    pub continues: Option<Continues>,
}

/// Where a run goes on: events below the closed key are in frames, or were dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continues {
    /// The key below which all events are closed.
    pub closed_key: u64,
    /// By source: one above its newest key in those events, if its sender goes on behind that. None
    /// of a source that never came, or whose sender goes on wherever it is by now.
    pub sources: Vec<Option<u64>>,
}

impl BuilderConfig {
    /// The defaults, for these sources: 1 s time-out, 1 GiB waiting, frames of 32 MiB or 1 s,
    /// incomplete events kept, events of any size.
    pub fn new(sources: Vec<SourceRole>) -> Self {
        Self {
            sources,
            promising: Vec::new(),
            expected_in: Vec::new(),
            timeout_ns: 1_000_000_000,
            incomplete: IncompletePolicy::Keep,
            event_bytes_max: u64::MAX,
            frame_bytes: FRAME_TARGET_BYTES_DEFAULT,
            frame_time_ns: 1_000_000_000,
            waiting_bytes_max: 1 << 30,
            parked_max: 262_144,
            pausable: Vec::new(),
            positions: Vec::new(),
            edge_ns: EDGE_NS_DEFAULT,
            continues: None,
        }
    }

    /// Checks every setting and their relations, but for those that a rule has of its own.
    ///
    /// # Errors
    /// The first setting that cannot be.
    pub fn check(&self) -> Result<(), ConfigError> {
        let count = self.sources.len();
        if count == 0 || count > SOURCES_MAX {
            return Err(ConfigError::Sources { got: count });
        }
        if self.sources.iter().all(|&role| role == SourceRole::Disabled) {
            return Err(ConfigError::AllDisabled);
        }
        if self.timeout_ns < TIMEOUT_NS_MIN {
            return Err(ConfigError::Timeout { got: self.timeout_ns });
        }
        if self.frame_bytes == 0 {
            return Err(ConfigError::FrameBytes);
        }
        if let Some(Continues { closed_key, sources }) = &self.continues
            && (*closed_key >= KEY_END || sources.len() != count)
        {
            return Err(ConfigError::Continues { got: *closed_key });
        }
        if self.parked_max == 0 || self.parked_max > PARKED_MAX {
            return Err(ConfigError::Parked { got: self.parked_max });
        }
        Ok(())
    }

    /// Whether a source promises.
    pub(crate) fn is_promising(&self, source: usize) -> bool {
        self.promising.get(source).is_some_and(|&promises| promises)
    }
}

/// Settings that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No source, or more than the system's bound.
    #[error("expected 1 to {SOURCES_MAX} sources, got {got}")]
    Sources {
        /// How many there were.
        got: usize,
    },
    /// Not one sender for each source, or numbers that are no sender's.
    #[error("expected the sender of each of {sources} sources, got {got}")]
    Voters {
        /// How many there were.
        got: usize,
        /// How many sources there are.
        sources: usize,
    },
    /// Nothing would be recorded.
    #[error("all sources are disabled")]
    AllDisabled,
    /// A sparse source that does not promise: how long events wait for it is not known.
    #[error("source {index} is sparse, and does not promise")]
    Sparse {
        /// Its number.
        index: usize,
    },
    /// The event number's width.
    #[error("expected an event number of {NUMBER_BITS_MIN} to {NUMBER_BITS_MAX} bits, got {got}")]
    NumberBits {
        /// The width given.
        got: u32,
    },
    /// The window's length.
    #[error("expected a window of {WINDOW_EVENTS_MIN} to {max} events, a power of two, got {got}")]
    Window {
        /// The length given.
        got: u64,
        /// The longest with this width of event numbers.
        max: u64,
    },
    /// The reordering that is waited for.
    #[error("expected reordering below the window's {window} events, got {got}")]
    Reorder {
        /// The reordering given.
        got: u64,
        /// The window's length.
        window: u64,
    },
    /// The time-out.
    #[error("expected a time-out of at least {TIMEOUT_NS_MIN} ns, got {got}")]
    Timeout {
        /// The time-out given.
        got: u64,
    },
    /// The frame's size.
    #[error("expected frames of at least 1 byte, got 0")]
    FrameBytes,
    /// The multiple of keys at which frames are cut.
    #[error("expected frames of at least 1 key, got 0")]
    FrameKeys,
    /// Slices of keys that are dealt out over nodes.
    #[error("expected slices of keys and at least one of them, got {count} of {slice_keys} keys")]
    Slices {
        /// Keys of one slice.
        slice_keys: u64,
        /// How many slices a cycle of them has.
        count: u32,
    },
    /// The index of an owned slice.
    #[error("expected the index of one of {count} slices, got {got}")]
    SliceIndex {
        /// The index given.
        got: u32,
        /// How many slices there are.
        count: u32,
    },
    /// A change of the keys that are owned.
    #[error("expected a change of the owned keys beyond the last one, got one from key {from} on")]
    OwnedChange {
        /// The key from which on it should count.
        from: u64,
    },
    /// Where a run goes on.
    #[error("expected a position of each source, and a closed key below {KEY_END}, got {got}")]
    Continues {
        /// The key given.
        got: u64,
    },
    /// A setting of matching by time.
    #[error("expected {expected}, got {got}")]
    Time {
        /// Its name.
        key: &'static str,
        /// What it may be.
        expected: String,
        /// The value given, with its unit.
        got: String,
    },
    /// The number of parked fragments.
    #[error("expected 1 to {PARKED_MAX} parked fragments, got {got}")]
    Parked {
        /// The number given.
        got: usize,
    },
}

/// How long marks move the begin of a run by default.
pub const EDGE_NS_DEFAULT: u64 = 2_000_000_000;
/// The shortest time-out.
pub const TIMEOUT_NS_MIN: u64 = 1_000;
const PARKED_MAX: usize = 1 << 24;
