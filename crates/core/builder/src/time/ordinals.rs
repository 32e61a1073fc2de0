//! The ordinals of a source's fragments that wait, in the order of their queue, so that each leaves
//! it with its own. They rise, but where a source's clock began anew while fragments waited.

use std::collections::VecDeque;
use std::ops::Range;

#[derive(Debug, Default)]
pub struct Ordinals {
    queue: VecDeque<u64>,
    /// Whether they may not rise, until the queue is empty.
    is_mixed: bool,
}

impl Ordinals {
    /// Fragments came to the queue's end.
    pub fn extend(&mut self, ordinals: Range<u64>) {
        self.is_mixed |= self.queue.back().is_some_and(|last| *last >= ordinals.start);
        self.queue.extend(ordinals);
    }

    /// A fragment came into the queue at that place.
    pub fn insert(&mut self, place: usize, ordinal: u64) {
        if place == self.queue.len() {
            // One more piece of the same time.
            return self.extend(ordinal..ordinal + 1);
        }
        self.is_mixed = true;
        self.queue.insert(place, ordinal);
    }

    /// The first fragment left the queue.
    pub fn pop(&mut self) -> Option<u64> {
        let first = self.queue.pop_front();
        self.is_mixed &= !self.queue.is_empty();
        first
    }

    /// The lowest of them; none if there are none.
    pub fn lowest(&self) -> Option<u64> {
        match self.is_mixed {
            true => self.queue.iter().min().copied(),
            false => self.queue.front().copied(),
        }
    }
}
