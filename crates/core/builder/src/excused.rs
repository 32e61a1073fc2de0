//! Keys that a source which promises has passed without a fragment of theirs in a row, and why is
//! counted: its sender abandoned them, they were content faults, or came late. Others that it has
//! passed it was never sent. By time they are its times.

use std::ops::Range;

/// Ranges kept of one source. Where there are more, neighbours are joined.
const RANGES_MAX: usize = 1_024;

/// By source, ranges of keys in rising order, with keys between them.
#[derive(Debug, Default)]
pub struct Excused(Vec<Vec<Range<u64>>>);

impl Excused {
    /// These keys of a source are excused. Those below `closed` are forgotten.
    pub fn add(&mut self, index: usize, keys: Range<u64>, closed: u64) {
        if self.0.len() <= index {
            self.0.resize_with(index + 1, Vec::new);
        }
        let ranges = &mut self.0[index];
        if ranges.first().is_some_and(|first| first.end <= closed) {
            ranges.retain(|range| range.end > closed);
        }
        let first = ranges.partition_point(|range| range.end < keys.start);
        let end = ranges.partition_point(|range| range.start <= keys.end);
        let first = match first == end && ranges.len() == RANGES_MAX {
            // With the one before, though what is between was not said.
            true => first.saturating_sub(1),
            false => first,
        };
        let end = if ranges.len() == RANGES_MAX { end.max(first + 1) } else { end };
        let met = &ranges[first..end];
        let start = met.first().map_or(keys.start, |range| range.start.min(keys.start));
        let end_key = met.last().map_or(keys.end, |range| range.end.max(keys.end));
        ranges.splice(first..end, std::iter::once(start..end_key));
    }

    /// Removes and returns the ranges of a source.
    pub fn take(&mut self, index: usize) -> Vec<Range<u64>> {
        self.0.get_mut(index).map(std::mem::take).unwrap_or_default()
    }

    /// Whether a key of a source is.
    pub fn has(&self, index: usize, key: u64) -> bool {
        self.has_some_of(index, key..key + 1)
    }

    /// Whether some key of a source is, of these.
    pub fn has_some_of(&self, index: usize, keys: Range<u64>) -> bool {
        self.0.get(index).is_some_and(|ranges| {
            let next = ranges.partition_point(|range| range.end <= keys.start);
            ranges.get(next).is_some_and(|range| range.start < keys.end)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use catchment_fixtures::Random;

    use super::*;

    #[test]
    fn each_key_is_excused_that_was_said_and_memory_is_bounded() {
        for seed in 0..50 {
            let (mut random, mut excused, mut model) =
                (Random::new(seed), Excused::default(), BTreeSet::new());
            for _ in 0..300 {
                let start = random.below(2_000);
                let keys = start..start + 1 + random.below(5);
                model.extend(keys.clone());
                excused.add(1, keys, 0);
                assert!((0..2_010).all(|key| excused.has(1, key) == model.contains(&key)));
            }
            assert!(!excused.has(0, 5) && !excused.has(2, 5));
            let some = |keys: Range<u64>| model.range(keys).next().is_some();
            for start in 0..2_010 {
                let keys = start..start + 1 + start % 7;
                assert_eq!(excused.has_some_of(1, keys.clone()), some(keys));
            }
        }
        let mut excused = Excused::default();
        (0..10_000).for_each(|key| excused.add(0, 2 * key..2 * key + 1, 0));
        assert!(excused.0[0].len() <= RANGES_MAX && excused.has(0, 19_998));
        excused.add(0, 30_000..30_001, 25_000);
        assert!(excused.0[0].len() == 1 && excused.has(0, 30_000));
    }
}
