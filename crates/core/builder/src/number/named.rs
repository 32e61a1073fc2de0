//! Which groups took part in an event: a fragment of the *reference source*, a trigger, names them.
//! Then sources that are in other groups are not expected in the event
//! (docs/spec/event-link.md, section 7).
//!
//! The groups come as notes between the fragments, one wherever they change, so that descriptors
//! need no room for them. What is named is kept by the ordinal of the first fragment until all
//! fragments that it counts for are in events, and then by event: 8 bytes for each key of the
//! window. At most as many ordinals are kept as fragments may be parked.

use std::collections::VecDeque;

use crate::{BuilderConfig, NumberConfig};

/// What the reference source names.
#[derive(Debug)]
pub struct Named {
    /// The source that the settings say, or else the first that named groups; none other names any.
    reference: Option<usize>,
    /// From an ordinal of it on, what its fragments name.
    runs: VecDeque<(u64, u64)>,
    /// What is named for open events, by key modulo their number; 0: nothing. Empty if no source
    /// can name any.
    of_events: Vec<u64>,
}

impl Named {
    pub fn new(config: &BuilderConfig, number: &NumberConfig) -> Self {
        let reference = number.reference;
        let can_be_named = reference.is_some() || config.promising.contains(&true);
        let count = if can_be_named { number.window_events as usize } else { 0 };
        Self { reference, runs: VecDeque::new(), of_events: vec![0; count] }
    }

    /// The fragments of a source from that ordinal on name these groups. None before `first` waits
    /// for its event.
    pub fn name(&mut self, index: usize, (first, ordinal): (u64, u64), groups: u64) {
        if *self.reference.get_or_insert(index) != index || self.of_events.is_empty() {
            return;
        }
        while self.runs.get(1).is_some_and(|(from, _)| *from <= first) {
            self.runs.pop_front();
        }
        self.runs.pop_back_if(|(from, _)| *from == ordinal);
        if self.runs.back().is_none_or(|(_, last)| *last != groups) {
            self.runs.push_back((ordinal, groups));
        }
    }

    /// Whether a source names groups.
    pub fn is_reference(&self, index: usize) -> bool {
        self.reference == Some(index)
    }

    /// Fragments of a source came into events that are open: those of consecutive ordinals that no
    /// note is between.
    #[inline]
    pub fn accept(&mut self, index: usize, ordinal: u64, keys: impl IntoIterator<Item = u64>) {
        if self.reference == Some(index) {
            let run = self.runs.partition_point(|(from, _)| *from <= ordinal).checked_sub(1);
            let groups = run.map_or(0, |run| self.runs[run].1);
            let mask = self.of_events.len() as u64 - 1;
            for key in keys {
                self.of_events[(key & mask) as usize] = groups;
            }
        }
    }

    /// The groups that took part in an open event; 0 if they were not named.
    pub fn of(&self, key: u64) -> u64 {
        let mask = (self.of_events.len() as u64).wrapping_sub(1);
        self.of_events.get((key & mask) as usize).copied().unwrap_or(0)
    }

    /// The same of an event that closes.
    pub fn take(&mut self, key: u64) -> u64 {
        let groups = self.of(key);
        if groups > 0 {
            let mask = self.of_events.len() as u64 - 1;
            self.of_events[(key & mask) as usize] = 0;
        }
        groups
    }
}
