//! What arrived of a source's fragments, and when.

use std::collections::BTreeMap;

/// The fragments of which anything arrived at a recorder, by their index in what the source sent.
#[derive(Clone, Debug, Default)]
pub struct Arrivals {
    of: BTreeMap<usize, Arrival>,
    /// When fragments were whole, in the order of time, with their indices.
    pub whole: Vec<(u64, usize)>,
}

/// What arrived of a fragment.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When the first part arrived.
    pub first_ns: u64,
    /// When it was whole.
    pub whole_ns: Option<u64>,
    /// Whether each part has arrived.
    parts: Vec<bool>,
}

impl Arrivals {
    /// A part of a fragment, of so many, arrives.
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

    /// What arrived of a fragment, if anything did.
    pub fn of(&self, index: usize) -> Option<&Arrival> {
        self.of.get(&index)
    }

    /// All of them, by their index.
    pub fn all(&self) -> impl Iterator<Item = (usize, &Arrival)> {
        self.of.iter().map(|(&index, arrival)| (index, arrival))
    }

    /// How many fragments had a part arrive between these times.
    pub fn touched_between(&self, from_ns: u64, until_ns: u64) -> usize {
        let is_in = |one: &&Arrival| {
            one.first_ns <= until_ns && one.whole_ns.is_none_or(|whole| whole >= from_ns)
        };
        self.of.values().filter(is_in).count()
    }
}
