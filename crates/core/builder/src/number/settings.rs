//! Settings of matching by number, in its own words; the rest stands in [`BuilderConfig`].

use std::collections::BTreeSet;

use crate::{BuilderConfig, ConfigError, KeyBlocks, Needs, OwnedKeys, SourceRole};

/// Settings of a [`NumberMatcher`](crate::NumberMatcher).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberConfig {
    /// The keys whose events this builder builds, where several nodes share those of one run.
    /// Fragments of others are discarded and counted.
    pub owned: OwnedKeys,
    /// How many bits the event number has on the wire, in the fewest of all sources.
    pub number_bits: u32,
    /// The source whose fragments name the groups of their events, though it does not promise.
    /// None: the first that promises and names some.
    pub reference: Option<usize>,
    /// The sender of each source; senders are numbered without gaps and vote on positions. Empty:
    /// each source is its own sender.
    pub voters: Vec<u32>,
    /// Distance behind the position of its sender within which a number is never a restart, but a
    /// repetition.
    pub number_back_max: u64,
    /// How many consecutive keys can be open at a time, and how many rows a frame has at most. A
    /// power of two.
    pub window_events: u64,
    /// How far behind the position of its sender a fragment may arrive and be waited for; and how
    /// far ahead of it, or of the quorum, a single number is accepted.
    pub reorder_events: u64,
    /// Whether keys that all sources skip alike are always lost, however many they are, as where a
    /// key is a time.
    pub skips_are_losses: bool,
    /// Whether memory is admitted event by event before fragments come here, for all sources of an
    /// event or for none: then what a source has that the others have not reached takes nothing
    /// that they need, and has no bound of its own.
    pub is_admitted: bool,
    /// Frames are cut at multiples of this key, counted within one cycle of the event numbers, and
    /// where the numbers restart. None: only size and time cut.
    pub frame_keys_multiple: Option<u64>,
}

impl Default for NumberConfig {
    /// All keys, 24-bit numbers, a window of 262,144 events, reordering by up to 4,096 events.
    fn default() -> Self {
        Self {
            owned: OwnedKeys::all(),
            number_bits: 24,
            reference: None,
            voters: Vec::new(),
            number_back_max: 0,
            window_events: 262_144,
            reorder_events: 4_096,
            skips_are_losses: false,
            is_admitted: false,
            frame_keys_multiple: None,
        }
    }
}

impl NumberConfig {
    /// Checks every setting beside those that other rules have, too.
    ///
    /// # Errors
    /// The first setting that cannot be.
    pub fn check(&self, config: &BuilderConfig) -> Result<(), ConfigError> {
        let count = config.sources.len();
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
        let is_sparse = |index: &usize| config.sources[*index] == SourceRole::Sparse;
        let mut sparse = (0..count).filter(is_sparse);
        if let Some(index) = sparse.find(|&index| !config.is_promising(index)) {
            return Err(ConfigError::Sparse { index });
        }
        if self.reorder_events >= window {
            return Err(ConfigError::Reorder { got: self.reorder_events, window });
        }
        if self.frame_keys_multiple == Some(0) {
            return Err(ConfigError::FrameKeys);
        }
        Ok(())
    }

    /// What the rule needs of its builder. What a port names is known by ordinals.
    pub(super) fn needs(&self) -> Needs {
        let cycle_bits = self.number_bits;
        Needs {
            rows_max: self.window_events,
            blocks: self.frame_keys_multiple.map(|keys| KeyBlocks { keys, cycle_bits }),
            ordinals: self.reference.is_some(),
        }
    }

    /// How many senders have required sources.
    pub(super) fn required_voter_count(&self, sources: &[SourceRole]) -> usize {
        let required = |&index: &usize| sources[index] == SourceRole::Required;
        let required = (0..sources.len()).filter(required);
        required.map(|index| self.voter_of(index)).collect::<BTreeSet<_>>().len()
    }

    /// The sender of a source.
    pub(super) fn voter_of(&self, source: usize) -> usize {
        self.voters.get(source).map_or(source, |&voter| voter as usize)
    }

    /// How many senders so many sources have.
    pub(super) fn voter_count(&self, sources: usize) -> usize {
        (0..sources).map(|source| self.voter_of(source) + 1).max().unwrap_or(0)
    }
}

/// The widest event numbers: keys have 2^14 cycles of them.
pub const NUMBER_BITS_MAX: u32 = 48;
/// The shortest window.
pub const WINDOW_EVENTS_MIN: u64 = 256;
pub(crate) const NUMBER_BITS_MIN: u32 = 16;
const WINDOW_EVENTS_MAX: u64 = 1 << 24;
