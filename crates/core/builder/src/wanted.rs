//! Which events are wanted. A run begins, pauses and ends between two events, so that no event is
//! split: a change applies to events that have not begun, and the others are built to their end.

use std::collections::VecDeque;

use crate::Builder;
use crate::horizon::Quorum;

/// Number of changes stored, for late fragments.
const CHANGES_MAX: usize = 64;

/// The keys from which on events are wanted, or are not.
#[derive(Debug)]
pub struct Wanted {
    /// Before the first stored change.
    before: bool,
    /// By ascending key; each differs from the one before it.
    changes: VecDeque<(u64, bool)>,
    /// Changes that were made, and when, before a quorum set the first position.
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

    /// From that key on events are wanted, or are not.
    fn change(&mut self, from: u64, wanted: bool) {
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

impl Builder {
    /// Sets whether events that begin from now on are wanted. Unwanted events are built as others
    /// are and then discarded (`fragments_discarded_paused`); fragments missing in them are not
    /// counted.
    pub fn set_recording(&mut self, wanted: bool) {
        let reach = self.horizon.reach();
        let from = match (self.horizon.is_started(), self.window.open) {
            (false, _) if self.parked_count > 0 || !self.wanted.at_start.is_empty() => {
                // The key is not known yet.
                self.wanted.at_start.truncate(CHANGES_MAX - 1);
                self.wanted.at_start.push((self.now_ns, wanted));
                return;
            }
            (false, _) => 0,
            (true, 0) => self.window.base,
            // Events that only a source ahead has begun have not begun.
            (true, _) => self.window.newest.min(reach) + 1,
        };
        self.wanted.change(from, wanted);
    }

    /// Applies the changes that were made before the start, each from the newest event that had
    /// begun by then.
    pub(crate) fn want_at_start(&mut self, quorum: &Quorum, key: u64, number: u64) {
        let numbers = self.horizon.rules().numbers;
        for (at_ns, wanted) in std::mem::take(&mut self.wanted.at_start) {
            let mut from = 0;
            for source in &self.sources {
                let claim = quorum.claim_of(source.voter);
                let begun = source.rare.held.iter().filter(|held| Some(held.claim) == claim);
                for held in begun.filter(|held| held.arrived_ns <= at_ns) {
                    let offset = numbers.offset(number, held.fragment.number);
                    from = from.max(key.saturating_add_signed(offset) + 1);
                }
            }
            self.wanted.change(from, wanted);
        }
    }

    /// Whether all events are closed that began before the last change by
    /// [`set_recording`](Self::set_recording).
    pub fn is_drained(&mut self) -> bool {
        if !self.wanted.at_start.is_empty() {
            return false;
        }
        let from = self.wanted.changes.back().map_or(0, |(from, _)| *from);
        self.window.head().is_none_or(|(key, _)| key >= from)
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
