//! Which parts of a source's fragments arrived, and when.

use std::collections::BTreeMap;

/// The fragments of which at least one part arrived at a recorder, by their index among the
/// source's sent fragments.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    of: BTreeMap<usize, Arrival>,
    /// When fragments became whole, in order of time, with their indices.
    pub whole: Vec<(u64, usize)>,
    /// When a front-end's fragments in parts became whole, in order: each took chunks of its own.
    pub in_parts: Vec<u64>,
}

/// The arrival of one fragment.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When its first part arrived.
    pub first_ns: u64,
    /// When it became whole.
    pub whole_ns: Option<u64>,
    /// Whether each part has arrived.
    parts: Vec<bool>,
}

impl Arrivals {
    /// Records the arrival of one of a fragment's parts.
    pub fn add(&mut self, index: usize, (part, parts): (usize, usize), now_ns: u64) {
        let arrival = self.of.entry(index).or_insert_with(|| Arrival {
            first_ns: now_ns,
            whole_ns: None,
            parts: vec![false; parts],
        });
        arrival.parts[part] = true;
        if arrival.whole_ns.is_none() && arrival.parts.iter().all(|&is_there| is_there) {
            arrival.whole_ns = Some(now_ns);
            self.whole.push((now_ns, index));
        }
    }

    /// The arrival of a fragment, if any part arrived.
    pub fn of(&self, index: usize) -> Option<&Arrival> {
        self.of.get(&index)
    }

    /// All arrivals, by fragment index.
    pub fn all(&self) -> impl Iterator<Item = (usize, &Arrival)> {
        self.of.iter().map(|(&index, arrival)| (index, arrival))
    }

    /// How many of a front-end's fragments in parts became whole between these times.
    pub fn in_parts_between(&self, from_ns: u64, until_ns: u64) -> usize {
        let before = |ns: u64| self.in_parts.partition_point(|&at| at < ns);
        before(until_ns + 1) - before(from_ns)
    }

    /// How many fragments had a part arrive between these times.
    pub fn touched_between(&self, from_ns: u64, until_ns: u64) -> usize {
        let is_in = |one: &&Arrival| {
            one.first_ns <= until_ns && one.whole_ns.is_none_or(|whole| whole >= from_ns)
        };
        self.of.values().filter(is_in).count()
    }
}
