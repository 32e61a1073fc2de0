//! Settings of the builder.

use std::collections::BTreeSet;

use catchment_model::limits::{FRAME_TARGET_BYTES_DEFAULT, SOURCES_MAX};

use crate::OwnedKeys;
use crate::number::KEY_END;

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

/// Settings of a [`Builder`](crate::Builder).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuilderConfig {
    /// The sources, by number.
    pub sources: Vec<SourceRole>,
    /// The keys whose events this builder builds, where several nodes share those of one run.
    /// Fragments of others are discarded and counted. All by default.
    pub owned: OwnedKeys,
    /// How many bits the event number has on the wire, in the fewest of all sources.
    pub number_bits: u32,
    /// Whether a source promises, by number: its numbers rise, each says that none below it will
    /// follow, and so do its notes ([`Builder::note`](crate::Builder::note)). It votes on nothing.
    /// Empty: none does.
    pub promising: Vec<bool>,
    /// The groups in whose events a source is expected, by number, one in each bit; 0: in all, as
    /// where this is empty. Sparse sources are expected in none.
    pub expected_in: Vec<u64>,
    /// By number: the source whose fragments name the groups of their events, though it does not
    /// promise. None: the first that promises and names some.
    pub reference: Option<usize>,
    /// The sender of each source; senders are numbered without gaps and vote on positions. Empty:
    /// each source is its own sender.
    pub voters: Vec<u32>,
    /// Distance behind the position of its sender within which a number is never a restart, but a
    /// repetition.
    pub number_back_max: u64,
    /// How long an event waits for sources that may still deliver it, and after how long without
    /// deliveries a source counts as silent. Precise to an eighth.
    pub timeout_ns: u64,
    /// How many consecutive keys can be open at a time. A power of two.
    pub window_events: u64,
    /// How far behind the position of its sender a fragment may arrive and be waited for; and how
    /// far ahead of it, or of the quorum, a single number is accepted.
    pub reorder_events: u64,
    /// Whether keys that all sources skip alike are always lost, however many they are, as where a
    /// key is a time.
    pub skips_are_losses: bool,
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
    /// Frames are cut at multiples of this key, counted within one cycle of the event numbers, and
    /// where the numbers restart. None: only size and time cut.
    pub frame_keys_multiple: Option<u64>,
    /// Payload that open events and parked fragments may hold together, without that of pausable
    /// sources. Beyond it the oldest events that the quorum has passed close, even incomplete ones.
    /// Half of it is for fragments that the quorum has not passed.
    pub waiting_bytes_max: u64,
    /// Whether memory is admitted event by event before fragments come here, for all sources of an
    /// event or for none: then what a source has that the others have not reached takes nothing
    /// that they need, and has no bound of its own.
    pub is_admitted: bool,
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
    /// Whether a rule that knows no promises takes sparse sources all the same.
    pub sparse_without_promises: bool,
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
    /// The defaults, for these sources: all keys, 24-bit numbers, 1 s time-out, a window of 262,144
    /// events, reordering by up to 4,096 events, 1 GiB waiting, frames of 32 MiB or 1 s, incomplete
    /// events kept, events of any size.
    pub fn new(sources: Vec<SourceRole>) -> Self {
        Self {
            sources,
            owned: OwnedKeys::all(),
            number_bits: 24,
            promising: Vec::new(),
            expected_in: Vec::new(),
            reference: None,
            voters: Vec::new(),
            number_back_max: 0,
            timeout_ns: 1_000_000_000,
            window_events: 262_144,
            reorder_events: 4_096,
            skips_are_losses: false,
            incomplete: IncompletePolicy::Keep,
            event_bytes_max: u64::MAX,
            frame_bytes: FRAME_TARGET_BYTES_DEFAULT,
            frame_time_ns: 1_000_000_000,
            frame_keys_multiple: None,
            waiting_bytes_max: 1 << 30,
            is_admitted: false,
            parked_max: 262_144,
            pausable: Vec::new(),
            positions: Vec::new(),
            edge_ns: EDGE_NS_DEFAULT,
            continues: None,
            sparse_without_promises: false,
        }
    }

    /// Checks every setting and their relations.
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
        if !(NUMBER_BITS_MIN..=NUMBER_BITS_MAX).contains(&self.number_bits) {
            return Err(ConfigError::NumberBits { got: self.number_bits });
        }
        // A number must have one key within the window and around it.
        let window_max = WINDOW_EVENTS_MAX.min(1 << (self.number_bits - 2));
        let window = self.window_events;
        if !window.is_power_of_two() || !(WINDOW_EVENTS_MIN..=window_max).contains(&window) {
            return Err(ConfigError::Window { got: window, max: window_max });
        }
        let sender = |voter: &u32| (*voter as usize) < count;
        if !self.voters.is_empty() && self.voters.iter().filter(|v| sender(v)).count() != count {
            return Err(ConfigError::Voters { got: self.voters.len(), sources: count });
        }
        let is_sparse = |index: &usize| self.sources[*index] == SourceRole::Sparse;
        let mut sparse = (0..count).filter(is_sparse);
        if let Some(index) =
            sparse.find(|&index| !self.sparse_without_promises && !self.is_promising(index))
        {
            return Err(ConfigError::Sparse { index });
        }
        if self.reorder_events >= self.window_events {
            return Err(ConfigError::Reorder { got: self.reorder_events, window });
        }
        if self.timeout_ns < TIMEOUT_NS_MIN {
            return Err(ConfigError::Timeout { got: self.timeout_ns });
        }
        if self.frame_bytes == 0 {
            return Err(ConfigError::FrameBytes);
        }
        if self.frame_keys_multiple == Some(0) {
            return Err(ConfigError::FrameKeys);
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

    /// How many senders have required sources.
    pub(crate) fn required_voter_count(&self) -> usize {
        let required = |&index: &usize| self.sources[index] == SourceRole::Required;
        let required = (0..self.sources.len()).filter(required);
        required.map(|index| self.voter_of(index)).collect::<BTreeSet<_>>().len()
    }

    /// Whether a source promises.
    pub(crate) fn is_promising(&self, source: usize) -> bool {
        self.promising.get(source).is_some_and(|&promises| promises)
    }

    /// The sender of a source.
    pub(crate) fn voter_of(&self, source: usize) -> usize {
        self.voters.get(source).map_or(source, |&voter| voter as usize)
    }

    pub(crate) fn voter_count(&self) -> usize {
        (0..self.sources.len()).map(|source| self.voter_of(source) + 1).max().unwrap_or(0)
    }
}

/// Settings that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
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
        expected: &'static str,
        /// The value given.
        got: u64,
    },
    /// The number of parked fragments.
    #[error("expected 1 to {PARKED_MAX} parked fragments, got {got}")]
    Parked {
        /// The number given.
        got: usize,
    },
}

/// The widest event numbers: keys have 2^14 cycles of them.
pub const NUMBER_BITS_MAX: u32 = 48;
/// The shortest window.
pub const WINDOW_EVENTS_MIN: u64 = 256;
/// How long marks move the begin of a run by default.
pub const EDGE_NS_DEFAULT: u64 = 2_000_000_000;
/// The shortest time-out.
pub const TIMEOUT_NS_MIN: u64 = 1_000;
pub(crate) const NUMBER_BITS_MIN: u32 = 16;
const WINDOW_EVENTS_MAX: u64 = 1 << 24;
const PARKED_MAX: usize = 1 << 24;
