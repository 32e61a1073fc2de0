//! Counts and descriptors until the caller fetches them.

use catchment_model::{Entry, SourceId};

use crate::{Discard, Fragment};

/// The ledger's increments, per source, and the fragments discarded.
#[derive(Debug)]
pub struct Tally {
    counts: Vec<[u64; Entry::COUNT]>,
    // The sources whose counts are not all zero.
    touched: Vec<u32>,
    is_touched: Vec<bool>,
    discards: Vec<Discard>,
}

impl Tally {
    pub fn new(source_count: usize) -> Self {
        Self {
            counts: vec![[0; Entry::COUNT]; source_count],
            touched: Vec::with_capacity(source_count),
            is_touched: vec![false; source_count],
            discards: Vec::new(),
        }
    }

    /// Counts for a source.
    pub fn add(&mut self, source: usize, entry: Entry, count: u64) {
        if count == 0 {
            return;
        }
        self.counts[source][entry as usize] += count;
        if !self.is_touched[source] {
            self.is_touched[source] = true;
            self.touched.push(source as u32);
        }
    }

    /// Counts a fragment that is not used, and notes it.
    pub fn discard(&mut self, discard: Discard) {
        self.add(discard.source.index(), discard.reason, 1);
        self.note(discard);
    }

    /// Notes a fragment that is not used, and is counted later.
    pub fn note(&mut self, discard: Discard) {
        self.discards.push(discard);
    }

    /// Notes a fragment that names no source.
    pub fn discard_of_no_source(&mut self, fragment: &Fragment) {
        let &Fragment { offset, source, bytes, .. } = fragment;
        let reason = Entry::FragmentsUnknownSource;
        let (source, ordinal) = (SourceId(source.into()), 0);
        self.discards.push(Discard { source, offset, bytes, reason, ordinal });
    }

    /// Moves the discarded fragments to `into`'s end.
    pub fn take_discards(&mut self, into: &mut Vec<Discard>) {
        into.append(&mut self.discards);
    }

    /// Returns all counts and resets them.
    pub fn take_counts(&mut self, mut add: impl FnMut(SourceId, Entry, u64)) {
        for source in self.touched.drain(..) {
            let counts = &mut self.counts[source as usize];
            for (&entry, count) in Entry::ALL.iter().zip(counts) {
                if *count > 0 {
                    add(SourceId(source), entry, std::mem::take(count));
                }
            }
            self.is_touched[source as usize] = false;
        }
    }
}
