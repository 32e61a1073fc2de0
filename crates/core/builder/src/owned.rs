//! Which keys a builder owns, where several nodes build the events of one run.
//!
//! ```text
//! slices(1000, 3, &[1])     key 0       1000      2000      3000      4000      5000
//!                               | other   | owned   | other   | other   | owned   | ..
//! ```
//!
//! Keys are dealt out, not numbers: where nodes are chosen by the number on the wire, a cycle of
//! the slices must divide the cycle of the numbers, or the two differ after the numbers wrap.

use std::ops::Range;

use crate::ConfigError;

/// The most slices in a cycle.
const SLICES_MAX: usize = 65_536;
/// The most changes of the rule.
const CHANGES_MAX: usize = 1_024;

/// The keys whose events a builder builds. All others belong to other nodes: they are never absent
/// here, and their fragments are counted as `fragments_not_owned` and discarded.
///
/// The rule may change from a key on, as when a node dies and others take over its slices.
///
/// ```
/// use catchment_builder::{KeyRule, OwnedKeys};
///
/// // The second of three nodes; from key 9,000 on there are two, and it is the first.
/// let mut owned = OwnedKeys::new(KeyRule::slices(1_000, 3, &[1]).unwrap());
/// owned.change(9_000, KeyRule::slices(1_000, 2, &[0]).unwrap()).unwrap();
/// assert!(owned.has(1_999) && !owned.has(2_000) && owned.has(10_000));
/// assert_eq!(owned.count(0..11_000), 3_000 + 1_000);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedKeys {
    /// What counts before the first change.
    first: KeyRule,
    /// By ascending key.
    changes: Vec<(u64, KeyRule)>,
}

/// A rule that says whether a key is owned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRule(Option<Slices>);

/// Slices of keys, dealt out in a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Slices {
    /// Keys of one slice.
    slice_keys: u64,
    /// For each slice of the cycle how many before it are owned; one more item for the end.
    owned_before: Vec<u32>,
}

impl KeyRule {
    /// All keys.
    pub fn all() -> Self {
        Self(None)
    }

    /// The keys that leave the remainder `index` when they are divided by `count`.
    ///
    /// # Errors
    /// A count of 0 or of more than 65,536; an index that is no remainder.
    pub fn modulo(count: u32, index: u32) -> Result<Self, ConfigError> {
        Self::slices(1, count, &[index])
    }

    /// Slices of `slice_keys` consecutive keys, the first of which begins at key 0. Of each `count`
    /// consecutive slices those at the indices `owned` are owned, which may be none.
    ///
    /// # Errors
    /// Slices without keys; a count of 0 or of more than 65,536; an index not below the count.
    pub fn slices(slice_keys: u64, count: u32, owned: &[u32]) -> Result<Self, ConfigError> {
        let fits = slice_keys.checked_mul(u64::from(count)).is_some_and(|cycle| cycle > 0);
        if !fits || count as usize > SLICES_MAX {
            return Err(ConfigError::Slices { slice_keys, count });
        }
        if let Some(&index) = owned.iter().find(|&&index| index >= count) {
            return Err(ConfigError::SliceIndex { got: index, count });
        }
        // First for each slice whether it is owned, then how many are up to it.
        let mut owned_before = vec![0; count as usize + 1];
        owned.iter().for_each(|&index| owned_before[index as usize + 1] = 1);
        (1..owned_before.len()).for_each(|end| owned_before[end] += owned_before[end - 1]);
        Ok(Self(Some(Slices { slice_keys, owned_before })))
    }

    /// Whether a key is owned.
    pub fn has(&self, key: u64) -> bool {
        self.0.as_ref().is_none_or(|slices| slices.has(key))
    }

    /// How many keys below `end` are owned.
    fn count_below(&self, end: u64) -> u64 {
        self.0.as_ref().map_or(end, |slices| slices.count_below(end))
    }
}

impl Slices {
    fn has(&self, key: u64) -> bool {
        let slice = self.slice_of(key);
        self.owned_before[slice] != self.owned_before[slice + 1]
    }

    fn count_below(&self, end: u64) -> u64 {
        let cycles = end / (self.slice_keys * self.count());
        let per_cycle = u64::from(self.owned_before[self.count() as usize]);
        let owned = cycles * per_cycle + u64::from(self.owned_before[self.slice_of(end)]);
        let rest = if self.has(end) { end % self.slice_keys } else { 0 };
        owned * self.slice_keys + rest
    }

    fn slice_of(&self, key: u64) -> usize {
        ((key / self.slice_keys) % self.count()) as usize
    }

    // Slices in a cycle.
    fn count(&self) -> u64 {
        self.owned_before.len() as u64 - 1
    }
}

impl OwnedKeys {
    /// All keys.
    pub fn all() -> Self {
        Self::default()
    }

    /// The keys of one rule.
    pub fn new(rule: KeyRule) -> Self {
        Self { first: rule, changes: Vec::new() }
    }

    /// From the key `from` on another rule counts.
    ///
    /// # Errors
    /// A key that is not beyond that of the last change; more than 1,024 changes.
    pub fn change(&mut self, from: u64, rule: KeyRule) -> Result<(), ConfigError> {
        let rises = self.changes.last().is_none_or(|(last, _)| *last < from);
        if !rises || self.changes.len() >= CHANGES_MAX {
            return Err(ConfigError::OwnedChange { from });
        }
        self.changes.push((from, rule));
        Ok(())
    }

    /// Whether all keys are owned, whatever they are.
    #[inline]
    pub fn are_all(&self) -> bool {
        self.first.0.is_none() && self.changes.is_empty()
    }

    /// Whether a key is owned.
    #[inline]
    pub fn has(&self, key: u64) -> bool {
        self.are_all() || self.rule_of(key).has(key)
    }

    /// How many of these keys are owned.
    pub fn count(&self, keys: Range<u64>) -> u64 {
        if self.are_all() {
            return keys.end.saturating_sub(keys.start);
        }
        let mut count = 0;
        let rules = std::iter::once((0, &self.first))
            .chain(self.changes.iter().map(|(from, rule)| (*from, rule)));
        let ends = self.changes.iter().map(|(from, _)| *from).chain([u64::MAX]);
        for ((from, rule), end) in rules.zip(ends) {
            let (from, end) = (from.max(keys.start), end.min(keys.end));
            if from < end {
                count += rule.count_below(end) - rule.count_below(from);
            }
        }
        count
    }

    /// Whether none of these keys is owned.
    #[inline]
    pub fn has_none_of(&self, keys: Range<u64>) -> bool {
        keys.is_empty() || !self.are_all() && self.count(keys) == 0
    }

    /// The key that a sender had reached before `newest`, where the one that it delivered before is
    /// `previous`: that one, or the key just before `newest` if all between are other nodes'.
    #[inline]
    pub(crate) fn reached_before(&self, newest: u64, previous: u64) -> u64 {
        let all_others = || self.has_none_of(previous + 1..newest);
        if !self.are_all() && previous < newest && all_others() { newest - 1 } else { previous }
    }

    fn rule_of(&self, key: u64) -> &KeyRule {
        let later = self.changes.iter().rev().find(|(from, _)| *from <= key);
        later.map_or(&self.first, |(_, rule)| rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_what_asking_for_each_key_says() {
        let rules = || {
            [
                KeyRule::all(),
                KeyRule::modulo(3, 2).unwrap(),
                KeyRule::slices(7, 4, &[3, 0]).unwrap(),
                KeyRule::slices(5, 1, &[0]).unwrap(),
                KeyRule::slices(5, 2, &[]).unwrap(),
            ]
        };
        for first in rules() {
            for second in rules() {
                let mut owned = OwnedKeys::new(first.clone());
                owned.change(40, second.clone()).unwrap();
                owned.change(70, first.clone()).unwrap();
                for (start, end) in (0..100).flat_map(|start| (0..120).map(move |end| (start, end)))
                {
                    let each = (start..end).filter(|&key| owned.has(key)).count() as u64;
                    assert_eq!(owned.count(start..end), each, "{start}..{end} of {owned:?}");
                    assert_eq!(owned.has_none_of(start..end), each == 0);
                }
            }
        }
    }

    #[test]
    fn the_nodes_of_a_rule_own_every_key_once() {
        for key in 0..1_000 {
            let owners =
                |rule: &dyn Fn(u32) -> KeyRule| (0..3).filter(|&i| rule(i).has(key)).count();
            assert_eq!(owners(&|index| KeyRule::modulo(3, index).unwrap()), 1);
            assert_eq!(owners(&|index| KeyRule::slices(40, 3, &[index]).unwrap()), 1);
        }
    }

    #[test]
    fn rules_that_cannot_be_are_refused() {
        let slices = |slice_keys, count| Err(ConfigError::Slices { slice_keys, count });
        assert_eq!(KeyRule::slices(0, 3, &[0]), slices(0, 3));
        assert_eq!(KeyRule::modulo(0, 0), slices(1, 0));
        assert_eq!(KeyRule::slices(u64::MAX, 2, &[0]), slices(u64::MAX, 2));
        assert_eq!(KeyRule::modulo(65_537, 0), slices(1, 65_537));
        assert_eq!(KeyRule::modulo(3, 3), Err(ConfigError::SliceIndex { got: 3, count: 3 }));
        let mut owned = OwnedKeys::all();
        owned.change(5, KeyRule::all()).unwrap();
        assert_eq!(owned.change(5, KeyRule::all()), Err(ConfigError::OwnedChange { from: 5 }));
    }
}
