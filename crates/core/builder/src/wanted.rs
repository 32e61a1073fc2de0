//! Which events are wanted. A run begins, pauses and ends between two events, so that no event is
//! split: a change applies to events that have not begun, and the others are built to their end.

use std::collections::VecDeque;

/// Number of changes stored, for late fragments.
const CHANGES_MAX: usize = 64;

/// The keys from which on events are wanted, or are not.
#[derive(Debug)]
pub struct Wanted {
    /// Before the first stored change.
    before: bool,
    /// By ascending key; each differs from the one before it.
    changes: VecDeque<(u64, bool)>,
    /// Changes that were made, and when, before the first key was known.
    at_start: Vec<(u64, bool)>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self { before: true, changes: VecDeque::new(), at_start: Vec::new() }
    }
}

impl Wanted {
    /// Whether the event of that key is.
    #[inline]
    pub fn has(&self, key: u64) -> bool {
        let known = self.changes.iter().rev().find(|(from, _)| *from <= key);
        known.map_or(self.before, |(_, wanted)| *wanted)
    }

    /// A change before the first key is known: from the events on that begin after `now_ns`.
    pub fn change_at_start(&mut self, now_ns: u64, wanted: bool) {
        self.at_start.truncate(CHANGES_MAX - 1);
        self.at_start.push((now_ns, wanted));
    }

    /// Whether changes before the first key have not been applied.
    pub fn waits_for_start(&self) -> bool {
        !self.at_start.is_empty()
    }

    /// Applies the changes that were made before the first key was known. `begun` is the key after
    /// the newest event that had begun at a time.
    pub fn start(&mut self, begun: impl Fn(u64) -> u64) {
        for (at_ns, wanted) in std::mem::take(&mut self.at_start) {
            self.change(begun(at_ns), wanted);
        }
    }

    /// The key from which on the last change counts.
    pub fn last_change(&self) -> u64 {
        self.changes.back().map_or(0, |(from, _)| *from)
    }

    /// From that key on events are wanted, or are not.
    pub fn change(&mut self, from: u64, wanted: bool) {
        while self.changes.pop_back_if(|(other, _)| *other >= from).is_some() {}
        if self.has(from) == wanted {
            return;
        }
        self.changes.push_back((from, wanted));
        if self.changes.len() > CHANGES_MAX
            && let Some((_, wanted)) = self.changes.pop_front()
        {
            self.before = wanted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_counts_from_its_key_on() {
        let mut wanted = Wanted::default();
        assert!(wanted.has(0));
        wanted.change(0, false);
        wanted.change(0, true);
        assert!(wanted.has(0) && wanted.changes.is_empty());
        wanted.change(10, false);
        wanted.change(20, true);
        assert_eq!([9, 10, 19, 20].map(|key| wanted.has(key)), [true, false, false, true]);
        // Nothing came between these two.
        wanted.change(20, false);
        assert_eq!([9, 10, 19, 20].map(|key| wanted.has(key)), [true, false, false, false]);
    }

    #[test]
    fn only_the_last_changes_are_remembered() {
        let mut wanted = Wanted::default();
        for change in 1..=101 {
            wanted.change(change * 10, change % 2 == 0);
        }
        assert_eq!(wanted.changes.len(), CHANGES_MAX);
        assert!(!wanted.has(1_010) && wanted.has(1_009));
        assert_eq!(wanted.has(0), wanted.before);
    }
}
