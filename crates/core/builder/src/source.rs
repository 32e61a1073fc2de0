//! One source: its numbers, its fragments in key order, and those beyond the window.

use std::collections::VecDeque;

use catchment_wire::sequence::Unwrapper;

use crate::{Fragment, SourceRole, window};

/// A fragment that was accepted. 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    pub key: u64,
    pub offset: u64,
    pub bytes: u32,
}

/// A fragment beyond the window.
#[derive(Clone, Copy, Debug)]
pub struct Parked {
    pub key: u64,
    pub arrived_ns: u64,
    pub fragment: Fragment,
}

/// Why a source's fragments need a closer look; none of them in the usual case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u8);

impl State {
    /// Nothing has come from it yet.
    pub const NEW: Self = Self(1);
    /// It has delivered nothing for a time-out, and is not waited for.
    pub const SILENT: Self = Self(2);
    /// It was silent and has not spoken since: it may have restarted or missed a wrap.
    pub const AWAY: Self = Self(4);
    /// Its last fragment was beyond the window.
    pub const AHEAD: Self = Self(8);
    /// Its numbers do not fit to the others'.
    pub const OUT_OF_STEP: Self = Self(16);

    pub fn has(self, any: Self) -> bool {
        self.0 & any.0 != 0
    }

    pub fn set(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub fn clear(&mut self, other: Self) {
        self.0 &= !other.0;
    }

    #[inline]
    pub fn is_usual(self) -> bool {
        self.0 == 0
    }
}

#[derive(Debug)]
pub struct Source {
    pub unwrapper: Unwrapper,
    /// What it adds to an event's weight.
    pub weight: u32,
    pub state: State,
    pub enabled: bool,
    pub required: bool,
    /// When a fragment of it was last accepted, or kept beyond the window.
    pub last_ns: u64,
    /// Accepted and in no cut yet, by ascending key.
    pub kept: VecDeque<Kept>,
    /// Beyond the window, by ascending key.
    pub parked: VecDeque<Parked>,
}

impl Source {
    pub fn new(role: SourceRole, unwrapper: Unwrapper) -> Self {
        let enabled = role != SourceRole::Disabled;
        let required = role == SourceRole::Required;
        Self {
            unwrapper,
            weight: window::weight(required),
            state: State::NEW,
            enabled,
            required,
            last_ns: 0,
            kept: VecDeque::with_capacity(if enabled { KEPT_AT_START } else { 0 }),
            parked: VecDeque::new(),
        }
    }

    /// Whether events wait for it.
    pub fn is_waited_for(&self) -> bool {
        let silent = State::SILENT;
        self.enabled && !self.state.has(silent) && !self.state.has(State::OUT_OF_STEP)
    }

    /// Keeps an accepted fragment at its place.
    #[inline]
    pub fn keep(&mut self, key: u64, fragment: &Fragment) {
        let kept = Kept { key, offset: fragment.offset, bytes: fragment.bytes };
        match self.kept.back() {
            Some(newest) if newest.key > key => self.keep_reordered(kept),
            _ => self.kept.push_back(kept),
        }
    }

    // Moves the kept after it: at most as many as the unwrapper takes for reordered.
    #[cold]
    fn keep_reordered(&mut self, kept: Kept) {
        let at = self.kept.partition_point(|other| other.key < kept.key);
        self.kept.insert(at, kept);
    }

    /// Keeps a fragment beyond the window.
    pub fn park(&mut self, parked: Parked) {
        let at = match self.parked.back() {
            Some(newest) if newest.key > parked.key => {
                self.parked.partition_point(|other| other.key <= parked.key)
            }
            _ => self.parked.len(),
        };
        self.parked.insert(at, parked);
    }
}

const KEPT_AT_START: usize = 256;
