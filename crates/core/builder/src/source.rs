//! One source: its fragments in key order, and those that are parked.

use std::collections::VecDeque;

use crate::{Fragment, SourceRole, window};

/// A fragment that was accepted. 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    pub key: u64,
    pub offset: u64,
    pub bytes: u32,
}

/// A fragment beyond the window: its sender runs ahead.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    pub key: u64,
    pub arrived_ns: u64,
    pub fragment: Fragment,
}

/// A fragment whose number is where its sender does not stand, kept until it is known what it
/// means.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The sender's claim that it belongs to.
    pub claim: u32,
    /// Its place among all that were ever held.
    pub order: u64,
    pub arrived_ns: u64,
    /// When it is given up, in time that counts.
    pub expires_ns: u64,
    pub fragment: Fragment,
}

/// What each packet touches is the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Source {
    /// Accepted and in no cut yet, by ascending key.
    pub kept: VecDeque<Kept>,
    /// One more than its newest key; 0 before its first.
    pub reached: u64,
    /// The sender that delivers it.
    pub voter: usize,
    /// What it adds to an event's weight.
    pub weight: u32,
    pub enabled: bool,
    pub required: bool,
    /// Whether it may hold no more of what others have not come to.
    pub full: bool,
    /// Beyond the window, by ascending key.
    pub ahead: VecDeque<Ahead>,
    /// Kept under a claim, as they came.
    pub held: VecDeque<Held>,
    /// Bytes of the last two.
    pub parked_bytes: u64,
}

const _: () = assert!(std::mem::offset_of!(Source, ahead) <= 64);

impl Source {
    pub fn new(role: SourceRole, voter: usize) -> Self {
        let enabled = role != SourceRole::Disabled;
        let required = role == SourceRole::Required;
        Self {
            voter,
            weight: window::weight(required),
            enabled,
            required,
            full: false,
            reached: 0,
            kept: VecDeque::with_capacity(if enabled { KEPT_AT_START } else { 0 }),
            ahead: VecDeque::new(),
            held: VecDeque::new(),
            parked_bytes: 0,
        }
    }

    /// How many of its fragments are parked.
    pub fn parked_count(&self) -> usize {
        self.ahead.len() + self.held.len()
    }

    /// Bytes of its fragments that are parked, or of keys from `key` on.
    pub fn bytes_from(&self, key: u64) -> u64 {
        let kept = self.kept.iter().rev().take_while(|kept| kept.key >= key);
        self.parked_bytes + kept.map(|kept| u64::from(kept.bytes)).sum::<u64>()
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

    // Moves the kept after it.
    #[cold]
    fn keep_reordered(&mut self, kept: Kept) {
        let at = self.kept.partition_point(|other| other.key < kept.key);
        self.kept.insert(at, kept);
    }

    /// Keeps a fragment beyond the window.
    pub fn run_ahead(&mut self, ahead: Ahead) {
        let at = match self.ahead.back() {
            Some(newest) if newest.key > ahead.key => {
                self.ahead.partition_point(|other| other.key <= ahead.key)
            }
            _ => self.ahead.len(),
        };
        self.ahead.insert(at, ahead);
    }
}

const KEPT_AT_START: usize = 256;
