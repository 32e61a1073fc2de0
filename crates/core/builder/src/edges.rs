//! Where the run begins and ends by the marks of its sources: between keys that all have in common,
//! though each front-end starts and stops at a key of its own.
//!
//! ```text
//! source 0   | begin 7 8 9 10 11 ... 97 98 99 end |
//! source 1   |     begin 9 10 11 ... 97 end       |
//! the run    |           9 10 11 ... 97           |     7, 8, 98 and 99 are outside
//! ```
//!
//! - The run begins at the latest first key of the sources that have marked a begin. The first key
//!   of a source is the one that it first delivers or drops behind its mark. What it has passed
//!   before that by a promise alone is none; events that it has passed so wait for its first key,
//!   as far as events wait at all.
//! - It ends behind the earliest last key of those that have marked an end: what each has passed.
//!   One that has delivered and dropped nothing in the run has no last key, nor has one whose
//!   session has said no number: it is counted as missing in what the others delivered, and the
//!   run keeps that.
//! - Only required sources that are expected in all events move the edges, since an event without
//!   one of the others is complete; and an end only one that is awaited: what is dead, and what is
//!   idle, is judged by the others' edges.
//! - A begin counts until `edge_ns` after the first event that is wanted: a source that joins a run
//!   that is being recorded does not move its begin. An end counts whenever it arrives; the
//!   recorder accepts it only while the run is being stopped, and the mark of a source with a
//!   backlog arrives late.
//! - When its window closes, the begin is not behind what the slowest source has passed that is
//!   awaited or has taken part: a source whose numbers are far off does not discard the data of
//!   the others.
//! - What sources say are numbers, or times as their clocks have them. They move the edges when
//!   they have keys, as in a run that is stopped before each source has delivered something.
//!
//! An event closes when all awaited sources have passed its key, so that it is known by then
//! whether it is outside. What has closed stays as it is. By time an event is outside if all of its
//! window is.

use std::ops::{Range, RangeInclusive};

use crate::number::KEY_END;
use crate::{BuilderConfig, SourceRole};

/// What a matcher knows of the numbers that its sources say.
pub trait Promised {
    /// The key of a number of a source; none if its place is not fixed.
    fn key_of(&self, index: usize, number: u64) -> Option<u64>;

    /// Whether events wait for a source.
    fn is_awaited(&self, index: usize) -> bool;

    /// The key below which nothing of any awaited source will come.
    fn promised(&self) -> u64;

    /// The key below which nothing of a source will come, whether or not it is awaited; none if
    /// that is not known.
    fn passed_key(&self, index: usize) -> Option<u64>;
}

/// The edges of a run.
#[derive(Debug)]
pub struct Edges {
    /// By source; empty if none promises.
    sources: Vec<Source>,
    /// The run's keys.
    keys: Range<u64>,
    /// Events below wait for the first key of a source.
    waits_below: u64,
    edge_ns: u64,
    /// Whether marks may still move the begin.
    is_due: bool,
    /// When the first event was open that is wanted.
    begun_ns: Option<u64>,
    /// Whether a source has marked its end with a number that has no key yet.
    has_unplaced: bool,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    is_required: bool,
    /// Whether it has delivered or dropped something in the run.
    takes_part: bool,
    first: First,
    /// The number behind its last one, if it has marked its end and that has no key yet.
    end: Option<u64>,
}

/// The first number of a source behind its mark.
#[derive(Clone, Copy, Debug)]
enum First {
    /// It has marked no begin.
    Unmarked,
    /// It has delivered and dropped nothing. None below that number will follow, if there is one.
    Awaited(Option<u64>),
    /// It is known.
    Is(u64),
    /// It has moved the begin. What a later session of the source begins with does not.
    Taken,
}

impl Edges {
    pub fn new(config: &BuilderConfig) -> Self {
        let count = if config.promising.contains(&true) { config.sources.len() } else { 0 };
        let continued = config.continues.as_ref().map(|continues| &continues.sources);
        let source = |(index, role): (usize, &SourceRole)| Source {
            is_required: *role == SourceRole::Required,
            takes_part: continued.is_some_and(|sources| sources[index].is_some()),
            first: First::Unmarked,
            end: None,
        };
        Self {
            sources: config.sources[..count].iter().enumerate().map(source).collect(),
            keys: 0..u64::MAX,
            waits_below: 0,
            edge_ns: config.edge_ns,
            // A run that goes on has begun.
            is_due: count > 0 && config.continues.is_none(),
            begun_ns: None,
            has_unplaced: false,
        }
    }

    /// The key from which on events are not outside.
    pub fn begin_key(&self) -> u64 {
        self.keys.start
    }

    /// Whether an event of these keys is outside.
    #[inline]
    pub fn is_outside(&self, keys: RangeInclusive<u64>) -> bool {
        *keys.end() < self.keys.start || *keys.start() >= self.keys.end
    }

    /// Whether an event of that key, or that ends with it, waits for the first key of a source that
    /// has passed it by a promise alone.
    #[inline]
    pub fn waits(&self, key: u64) -> bool {
        key < self.waits_below
    }

    /// A source has marked that the run begins.
    pub fn begin(&mut self, index: usize, now_ns: u64) {
        if matches!(self.sources[index].first, First::Unmarked) && !self.is_late(now_ns) {
            self.await_first(index);
        }
    }

    /// A source numbers anew. What it has said of its numbers is not true any more.
    pub fn number_anew(&mut self, index: usize) {
        self.sources[index].end = None;
        if matches!(self.sources[index].first, First::Awaited(_) | First::Is(_)) {
            self.await_first(index);
        }
    }

    fn await_first(&mut self, index: usize) {
        let source = &mut self.sources[index];
        if self.is_due && source.is_required {
            source.first = First::Awaited(None);
        }
    }

    /// A source has delivered a number, and none below it.
    #[inline]
    pub fn deliver(&mut self, index: usize, number: u64) {
        let source = &mut self.sources[index];
        source.takes_part = true;
        if self.is_due && matches!(source.first, First::Awaited(_)) {
            source.first = First::Is(number);
        }
    }

    /// A source has promised that none below a number will follow.
    pub fn promise(&mut self, index: usize, number: u64) {
        if let First::Awaited(promised) = &mut self.sources[index].first {
            *promised = Some(number);
        }
    }

    /// A source has dropped what it has promised last.
    pub fn drop_first(&mut self, index: usize) {
        let source = &mut self.sources[index];
        source.takes_part = true;
        source.first = match source.first {
            First::Awaited(Some(number)) => First::Is(number),
            First::Awaited(None) => First::Taken,
            first => first,
        };
    }

    /// Whether a source has delivered or dropped something in the run.
    pub fn takes_part(&self, index: usize) -> bool {
        self.sources[index].takes_part
    }

    /// A source that is awaited has marked that the run ends. It has passed the numbers below that
    /// one. With 0 its session has said no number, as one that has just begun, and has no last key.
    pub fn end(&mut self, index: usize, passed: u64) {
        let source = &mut self.sources[index];
        if source.is_required && source.takes_part && passed > 0 {
            source.end = Some(passed);
            self.has_unplaced = true;
        }
    }

    /// Moves the edges to the numbers that are known, as far as they have keys. Called before
    /// events close. `is_wanted` says whether the first open event is.
    #[inline]
    pub fn settle(
        &mut self,
        promises: &impl Promised,
        is_wanted: impl FnOnce() -> bool,
        now_ns: u64,
    ) {
        if self.is_due {
            if self.begun_ns.is_none() && is_wanted() {
                self.begun_ns = Some(now_ns);
            }
            self.settle_begin(promises, now_ns);
        }
        if self.has_unplaced {
            self.settle_end(promises);
        }
    }

    #[cold]
    fn settle_begin(&mut self, promises: &impl Promised, now_ns: u64) {
        self.waits_below = 0;
        for (index, Source { first, .. }) in self.sources.iter_mut().enumerate() {
            let (First::Is(number) | First::Awaited(Some(number))) = *first else { continue };
            let Some(key) = promises.key_of(index, number) else { continue };
            let is_known = matches!(first, First::Is(_));
            if is_known {
                *first = First::Taken;
            }
            // What has no key says nothing about keys.
            match key <= KEY_END {
                true if is_known => self.keys.start = self.keys.start.max(key),
                true if promises.is_awaited(index) => self.waits_below = self.waits_below.max(key),
                _ => {}
            }
        }
        if self.is_late(now_ns) {
            // Also those that events do not wait for at this moment: if only the one whose numbers
            // are far off is awaited, the begin would stay there for the whole run.
            let sources = self.sources.iter().enumerate();
            let in_run = sources.filter(|(_, source)| source.is_required && source.takes_part);
            let passed = in_run.map(|(index, _)| promises.passed_key(index).unwrap_or(0)).min();
            let slowest = promises.promised().min(passed.unwrap_or(u64::MAX));
            self.keys.start = self.keys.start.min(slowest);
            self.sources.iter_mut().for_each(|source| source.first = First::Taken);
            (self.is_due, self.waits_below) = (false, 0);
        }
    }

    #[cold]
    fn settle_end(&mut self, promises: &impl Promised) {
        self.has_unplaced = false;
        for (index, source) in self.sources.iter_mut().enumerate() {
            let Some(number) = source.end else { continue };
            match promises.key_of(index, number) {
                Some(key) => {
                    self.keys.end = self.keys.end.min(key);
                    source.end = None;
                }
                None => self.has_unplaced = true,
            }
        }
    }

    /// Whether marks move the begin no more.
    fn is_late(&self, now_ns: u64) -> bool {
        self.begun_ns.is_some_and(|begun_ns| now_ns.saturating_sub(begun_ns) > self.edge_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sources whose numbers are keys. The first one is slow, and the other one far ahead.
    struct Sources {
        is_slow_awaited: bool,
    }

    const PASSED: [u64; 2] = [10, 100_001];

    impl Promised for Sources {
        fn key_of(&self, _: usize, number: u64) -> Option<u64> {
            Some(number)
        }

        fn is_awaited(&self, index: usize) -> bool {
            index == 1 || self.is_slow_awaited
        }

        fn promised(&self) -> u64 {
            if self.is_slow_awaited { PASSED[0] } else { PASSED[1] }
        }

        fn passed_key(&self, index: usize) -> Option<u64> {
            Some(PASSED[index])
        }
    }

    #[test]
    fn a_begin_that_is_far_off_is_set_back_also_while_the_slow_source_is_idle() {
        for is_slow_awaited in [true, false] {
            let mut config = BuilderConfig::new(vec![SourceRole::Required; 2]);
            (config.promising, config.edge_ns) = (vec![true; 2], 2);
            let mut edges = Edges::new(&config);
            (0..2).for_each(|index| edges.begin(index, 0));
            edges.deliver(0, 5);
            edges.deliver(1, 100_000);
            let sources = Sources { is_slow_awaited };
            edges.settle(&sources, || true, 0);
            assert_eq!(edges.begin_key(), 100_000);
            edges.settle(&sources, || true, 3);
            assert_eq!(edges.begin_key(), 10);
        }
    }

    #[test]
    fn a_session_that_has_said_no_number_has_no_last_key() {
        let mut config = BuilderConfig::new(vec![SourceRole::Required; 2]);
        config.promising = vec![true; 2];
        let mut edges = Edges::new(&config);
        (0..2).for_each(|index| edges.deliver(index, 5));
        edges.end(0, 0);
        edges.settle(&Sources { is_slow_awaited: true }, || true, 0);
        assert!(!edges.is_outside(5..=5));
        edges.end(1, 5);
        edges.settle(&Sources { is_slow_awaited: true }, || true, 0);
        assert!(edges.is_outside(5..=5));
    }
}
