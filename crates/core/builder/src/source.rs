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

/// What tells fragments that came after a later one.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// One more than the newest key; 0 before the first.
    reached: u64,
    /// What `reached` was before the newest key, if that skipped others.
    resumed: u64,
}

impl Order {
    /// Takes the next key; whether it came after a later one. A single one that came before others,
    /// or was garbled, makes one of those reordered and not all.
    #[inline]
    pub fn is_reordered(&mut self, key: u64) -> bool {
        let reordered = key < self.reached;
        if !reordered {
            self.resumed = if key == self.reached { u64::MAX } else { self.reached };
            self.reached = key + 1;
        } else if key >= self.resumed {
            (self.reached, self.resumed) = (key + 1, u64::MAX);
        }
        reordered
    }
}

/// What each packet touches is the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Source {
    /// Accepted and in no cut yet, by ascending key.
    pub kept: VecDeque<Kept>,
    pub order: Order,
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
    /// Which of them is tried next.
    pub tried: usize,
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
            order: Order { reached: 0, resumed: u64::MAX },
            kept: VecDeque::with_capacity(if enabled { KEPT_AT_START } else { 0 }),
            ahead: VecDeque::new(),
            held: VecDeque::new(),
            tried: 0,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_early_key_makes_one_reordered_and_a_packet_that_came_late_all_of_its_keys() {
        let reordered = |keys: &[u64]| {
            let mut order = Order { reached: 0, resumed: u64::MAX };
            keys.iter().filter(|&&key| order.is_reordered(key)).copied().collect::<Vec<u64>>()
        };
        assert_eq!(reordered(&[0, 1, 3, 2, 4, 5]), [2]);
        assert_eq!(reordered(&[0, 1, 1_000, 2, 3, 4, 5]), [2]);
        assert_eq!(reordered(&[0, 1, 1_000, 3, 4, 2]), [3, 2]);
        assert_eq!(reordered(&[0, 5, 6, 1, 2, 3, 4, 7]), [1, 2, 3, 4]);
        assert_eq!(reordered(&[7, 9, 20, 21, 30]), [0; 0]);
    }
}
