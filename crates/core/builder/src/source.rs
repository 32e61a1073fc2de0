//! One source: its accepted fragments in key order.

use std::collections::VecDeque;
use std::ops::Range;

use crate::{Fragment, FragmentFlags, SourceRole};

/// A fragment that was accepted. 24 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    pub key: u64,
    pub offset: u64,
    pub bytes: u32,
    pub tag: u8,
    /// Whether its sender marked it as broken.
    pub bad_sender: bool,
}

const _: () = assert!(size_of::<Accepted>() == 24);

/// A source: the queue of its accepted fragments, and what the matcher uses for each of them, in
/// one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub struct Source {
    /// Accepted and in no cut yet, by ascending key.
    pub accepted: VecDeque<Accepted>,
    /// One more than its newest key; 0 before its first.
    pub reached: u64,
    /// The keys that its newest one skipped, up to and with that one, until it is confirmed.
    skipped: Range<u64>,
    /// The sender that delivers it.
    voter: u16,
    pub enabled: bool,
    pub required: bool,
    /// Whether it is full: it may hold no more of keys that others have not passed.
    pub full: bool,
    /// Which of two senders its newest accepted fragment is of, or the one that has since taken the
    /// place of one that is gone.
    other_sender: bool,
    /// Which of the two last took the place of one that is gone.
    new_sender: bool,
}

const _: () = assert!(size_of::<Source>() == 64);

impl Source {
    pub fn new(role: SourceRole, voter: usize) -> Self {
        let enabled = role.is_enabled();
        Self {
            // There are fewer sources than 16 bits can count.
            voter: voter as u16,
            enabled,
            required: role == SourceRole::Required,
            full: false,
            other_sender: false,
            new_sender: false,
            reached: 0,
            skipped: 0..0,
            accepted: VecDeque::with_capacity(if enabled { ACCEPTED_AT_START } else { 0 }),
        }
    }

    /// The sender that delivers it.
    #[inline]
    pub fn voter(&self) -> usize {
        self.voter as usize
    }

    /// Takes its next key, and returns whether a later one came before it.
    pub fn reach(&mut self, key: u64) -> bool {
        let reordered = key < self.reached;
        self.reached = match key == self.reached {
            true => key + 1,
            false => self.reach_out_of_order(self.reached, key),
        };
        reordered
    }

    /// What it has reached with a key that is not the next one. A single early or garbled key makes
    /// one key after it reordered, not all that it skipped.
    #[cold]
    pub fn reach_out_of_order(&mut self, reached: u64, key: u64) -> u64 {
        if key >= reached {
            self.skipped = reached..key + 1;
            return key + 1;
        }
        if self.skipped.end == reached && self.skipped.contains(&key) {
            self.skipped = 0..0;
            return key + 1;
        }
        reached
    }

    /// Takes the sender of a fragment for its own, if that has taken the place of one that is gone.
    #[inline]
    pub fn replace_sender(&mut self, fragment: &Fragment) {
        let other = fragment.is_of_other_sender();
        if fragment.flags & FragmentFlags::NEW_SENDER != 0 && other != self.new_sender {
            // What is accepted decides from then on.
            (self.new_sender, self.other_sender) = (other, other);
        }
    }

    /// Whether its own sender is the one whose fragments carry the flag for it.
    pub fn is_other_sender(&self) -> bool {
        self.other_sender
    }

    /// Whether a fragment that fits to no event is a stranger's: of another sender than what fits.
    pub fn is_foreign(&self, fragment: &Fragment) -> bool {
        self.reached > 0 && fragment.is_of_other_sender() != self.other_sender
    }

    /// Bytes of its accepted fragments of keys from `key` on.
    pub fn bytes_from(&self, key: u64) -> u64 {
        let accepted = self.accepted.iter().rev().take_while(|accepted| accepted.key >= key);
        accepted.map(|accepted| u64::from(accepted.bytes)).sum()
    }

    /// Appends an accepted fragment in key order.
    #[inline]
    pub fn append(&mut self, key: u64, fragment: &Fragment) {
        self.other_sender = fragment.is_of_other_sender();
        match self.accepted.back() {
            Some(newest) if newest.key > key => self.insert_reordered(key, fragment),
            _ => self.accepted.push_back(Accepted::of(key, fragment)),
        }
    }

    // Shifts those after it.
    #[cold]
    fn insert_reordered(&mut self, key: u64, fragment: &Fragment) {
        let at = self.accepted.partition_point(|other| other.key < key);
        self.accepted.insert(at, Accepted::of(key, fragment));
    }
}

impl Accepted {
    // Made where it is stored: a value that is also passed on by reference would go over the stack.
    #[inline]
    fn of(key: u64, fragment: &Fragment) -> Self {
        let &Fragment { offset, bytes, tag, .. } = fragment;
        Self { key, offset, bytes, tag, bad_sender: fragment.is_flagged() }
    }
}

const ACCEPTED_AT_START: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_early_key_makes_one_reordered_and_a_packet_that_came_late_all_of_its_keys() {
        let reordered = |keys: &[u64]| {
            let mut source = Source::new(SourceRole::Required, 0);
            keys.iter().filter(|&&key| source.reach(key)).copied().collect::<Vec<u64>>()
        };
        assert_eq!(reordered(&[0, 1, 3, 2, 4, 5]), [2]);
        assert_eq!(reordered(&[0, 1, 1_000, 2, 3, 4, 5]), [2]);
        assert_eq!(reordered(&[0, 1, 1_000, 3, 4, 2]), [3, 2]);
        assert_eq!(reordered(&[0, 1, 4, 2, 3, 5, 6, 2]), [2, 2]);
        assert_eq!(reordered(&[0, 5, 6, 1, 2, 3, 4, 7]), [1, 2, 3, 4]);
        assert_eq!(reordered(&[7, 9, 20, 21, 30]), [0; 0]);
    }
}
