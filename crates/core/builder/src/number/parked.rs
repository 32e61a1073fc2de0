//! Fragments that are in no event yet. A source *parks* fragments of two kinds:
//!
//! - *ahead*: with keys beyond the window, of a sender that is ahead of the others. They enter when
//!   the window reaches their keys.
//! - *held*: with numbers that their sender claims and nothing has confirmed. They enter when the
//!   sender or the quorum takes that position, and are given up after two time-outs.
//!
//! Parked fragments have no effect on other sources: each source has a share of the memory for them
//! and for events that the quorum has not passed (`shares.rs`), and they close no event. A source
//! parks at most `parked_max` fragments.

use std::collections::VecDeque;

use super::horizon::Quorum;
use super::numbers::Numbers;
use crate::undecided::Ordinals;
use crate::{BuilderConfig, Fragment, NumberConfig};

/// A fragment beyond the window, of a sender that is ahead.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    pub key: u64,
    pub ordinal: u64,
    pub arrived_ns: u64,
    pub fragment: Fragment,
}

/// A fragment of a claim that is not decided.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// The claim.
    pub claim: u32,
    pub ordinal: u64,
    pub arrived_ns: u64,
    /// When it is given up, in active time.
    pub expires_ns: u64,
    pub fragment: Fragment,
    /// Its rank among all fragments ever held, which [`Parked::hold`] sets.
    pub order: u64,
}

/// The parked fragments of all sources.
#[derive(Debug)]
pub struct Parked {
    sources: Vec<ParkedSource>,
    /// The sources that each voter delivers.
    sources_of: Vec<Vec<u32>>,
    /// The most parked fragments of one source.
    source_max: usize,
    count: usize,
    bytes: u64,
    /// Number of fragments ever held.
    held_ever: u64,
}

#[derive(Debug)]
struct ParkedSource {
    /// The sender that delivers it.
    voter: usize,
    /// Beyond the window, by ascending key.
    ahead: VecDeque<Ahead>,
    /// Of these.
    ordinals: Ordinals,
    /// Held under claims, in the order of arrival.
    held: VecDeque<Held>,
    /// Index of the held one that is tried next.
    tried: usize,
}

impl Parked {
    pub fn new(config: &BuilderConfig, number: &NumberConfig) -> Self {
        let count = config.sources.len();
        let mut sources_of = vec![Vec::new(); number.voter_count(count)];
        let sources = (0..count).map(|index| {
            let voter = number.voter_of(index);
            sources_of[voter].push(index as u32);
            let (ahead, ordinals) = (VecDeque::new(), Ordinals::default());
            ParkedSource { voter, ahead, ordinals, held: VecDeque::new(), tried: 0 }
        });
        Self {
            sources: sources.collect(),
            sources_of,
            source_max: config.parked_max,
            count: 0,
            bytes: 0,
            held_ever: 0,
        }
    }

    /// Number of parked fragments of all sources.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of parked fragments of a source.
    pub fn count_of(&self, index: usize) -> usize {
        self.sources[index].count()
    }

    /// Bytes of a source's fragments that are held, or of keys from `key` on.
    pub fn bytes_from(&self, index: usize, key: u64) -> u64 {
        let source = &self.sources[index];
        let ahead = source.ahead.iter().rev().take_while(|ahead| ahead.key >= key);
        let held = source.held.iter().map(|held| held.fragment.bytes);
        ahead.map(|ahead| ahead.fragment.bytes).chain(held).map(u64::from).sum()
    }

    /// Whether a source may park another fragment.
    pub fn has_room(&self, index: usize) -> bool {
        self.sources[index].count() < self.source_max
    }

    /// Whether a source has nearly as many parked fragments as it may have.
    pub fn is_crowded(&self) -> bool {
        let most = self.source_max - self.source_max / 4;
        self.sources.iter().any(|source| source.count() >= most)
    }

    /// Whether a source has fragments beyond the window.
    #[inline]
    pub fn is_ahead(&self, index: usize) -> bool {
        self.count > 0 && !self.sources[index].ahead.is_empty()
    }

    /// Whether a source has a fragment of that key beyond the window.
    pub fn has_ahead(&self, index: usize, key: u64) -> bool {
        self.sources[index].ahead.binary_search_by_key(&key, |ahead| ahead.key).is_ok()
    }

    /// The lowest key beyond the window.
    pub fn lowest_ahead(&self) -> Option<u64> {
        self.sources.iter().filter_map(|source| source.ahead.front()).map(|ahead| ahead.key).min()
    }

    /// A source's fragments beyond the window, by ascending key.
    pub fn ahead(&self, index: usize) -> impl DoubleEndedIterator<Item = &Ahead> {
        self.sources[index].ahead.iter()
    }

    /// Whether some source has so many fragments beyond the window.
    pub fn has_run(&self, count: usize) -> bool {
        self.sources.iter().any(|source| source.ahead.len() >= count)
    }

    /// Removes and returns the newest of a source's fragments beyond the window, if its key is
    /// `from` or more.
    pub fn pop_ahead_from(&mut self, index: usize, from: u64) -> Option<Ahead> {
        let source = &mut self.sources[index];
        let ahead = source.ahead.pop_back_if(|ahead| ahead.key >= from)?;
        source.ordinals.take_last();
        self.leave(&ahead.fragment);
        Some(ahead)
    }

    /// An ordinal that no parked fragment of a source is below; none if it has none.
    pub fn first_ordinal(&self, index: usize) -> Option<u64> {
        let source = &self.sources[index];
        // Fragments are held as they come, and in that order.
        let held = source.held.front().map(|held| held.ordinal);
        [source.ordinals.first(), held].into_iter().flatten().min()
    }

    /// Parks a fragment beyond the window, in key order.
    pub fn park_ahead(&mut self, index: usize, ahead: Ahead) {
        self.enter(&ahead.fragment);
        let ParkedSource { ahead: queue, ordinals, .. } = &mut self.sources[index];
        let at = match queue.back() {
            Some(newest) if newest.key > ahead.key => {
                queue.partition_point(|other| other.key <= ahead.key)
            }
            _ => queue.len(),
        };
        match at == queue.len() {
            true => ordinals.put_last(ahead.ordinal, 1),
            false => ordinals.put_at(at, ahead.ordinal),
        }
        queue.insert(at, ahead);
    }

    /// Removes and returns the lowest of a source's fragments beyond the window, if its key is
    /// below `end`.
    pub fn pop_ahead_below(&mut self, index: usize, end: u64) -> Option<Ahead> {
        let source = &mut self.sources[index];
        let ahead = source.ahead.pop_front_if(|ahead| ahead.key < end)?;
        source.ordinals.take(1);
        self.leave(&ahead.fragment);
        Some(ahead)
    }

    /// Holds a fragment of a claim until it expires.
    pub fn hold(&mut self, index: usize, held: Held) {
        self.enter(&held.fragment);
        let order = self.held_ever;
        self.held_ever += 1;
        self.sources[index].held.push_back(Held { order, ..held });
    }

    /// The held fragments of a source, in the order of arrival.
    pub fn held(&self, index: usize) -> impl Iterator<Item = &Held> + Clone {
        self.sources[index].held.iter()
    }

    /// Removes and returns the oldest held fragment of a source, if `is_due`.
    pub fn pop_oldest_held(
        &mut self,
        index: usize,
        is_due: impl FnOnce(&Held) -> bool,
    ) -> Option<Held> {
        let held = self.sources[index].held.pop_front_if(|held| is_due(held))?;
        self.leave(&held.fragment);
        Some(held)
    }

    /// Removes and returns the held fragments of a source for which `is_due`, in the order of
    /// arrival.
    pub fn remove_held(&mut self, index: usize, is_due: impl Fn(&Held) -> bool) -> Vec<Held> {
        let queue = &mut self.sources[index].held;
        let (due, others): (Vec<Held>, Vec<Held>) = queue.drain(..).partition(is_due);
        queue.extend(others);
        due.iter().for_each(|held| self.leave(&held.fragment));
        due
    }

    /// Removes and returns the newest held fragments of a voter that are of a claim, each with its
    /// source. Older ones, behind those of other claims, stay.
    pub fn pop_newest_of_claim(&mut self, voter: usize, claim: u32) -> Vec<(usize, Held)> {
        let mut popped = Vec::new();
        for &index in &self.sources_of[voter] {
            let index = index as usize;
            let queue = &mut self.sources[index].held;
            while let Some(held) = queue.pop_back_if(|held| held.claim == claim) {
                popped.push((index, held));
            }
        }
        popped.iter().for_each(|(_, held)| self.leave(&held.fragment));
        popped
    }

    /// Removes and returns the held fragments of these claims (of voters, grouped by them), each
    /// with its source, in the order of arrival.
    pub fn take_claims(&mut self, claims: &[(usize, u32)]) -> Vec<(usize, Held)> {
        let mut taken: Vec<(usize, Held)> = Vec::new();
        for of_voter in claims.chunk_by(|(one, _), (other, _)| one == other) {
            for at in 0..self.sources_of[of_voter[0].0].len() {
                let index = self.sources_of[of_voter[0].0][at] as usize;
                let claimed = |held: &Held| of_voter.iter().any(|(_, claim)| *claim == held.claim);
                let claimed = self.remove_held(index, claimed);
                taken.extend(claimed.into_iter().map(|held| (index, held)));
            }
        }
        taken.sort_by_key(|(_, held)| held.order);
        taken
    }

    /// Hands held fragments of a source that are of its voter's `latest` claim to `accept`, and
    /// removes those that it returns true for. Each call tries up to `tried_max`, and continues
    /// where the last one stopped: fragments of other claims at the front expire later.
    pub fn try_held(
        &mut self,
        index: usize,
        latest: Option<u32>,
        tried_max: usize,
        mut accept: impl FnMut(&Held) -> bool,
    ) {
        let ParkedSource { held, tried, .. } = &mut self.sources[index];
        // Claims that the sender has abandoned were garbled, or of an older position.
        let Some(latest) = latest.filter(|_| !held.is_empty()) else { return };
        let begin = if *tried < held.len() { *tried } else { 0 };
        let end = held.len().min(begin.saturating_add(tried_max));
        let mut stayed = begin;
        for at in begin..end {
            let one = held[at];
            if one.claim == latest && accept(&one) {
                self.count -= 1;
                self.bytes -= u64::from(one.fragment.bytes);
            } else {
                held[stayed] = one;
                stayed += 1;
            }
        }
        held.drain(stayed..end);
        *tried = stayed;
    }

    /// The lowest held numbers of the members of a quorum, source by source, in ascending order, as
    /// offsets from its anchor.
    pub fn begins(&self, quorum: &Quorum, numbers: Numbers) -> Vec<i64> {
        let lowest = |source: &ParkedSource| {
            let claim = quorum.claim_of(source.voter)?;
            let held = source.held.iter().filter(|held| held.claim == claim);
            held.map(|held| numbers.offset(quorum.anchor, held.fragment.number)).min()
        };
        let mut begins: Vec<i64> = self.sources.iter().filter_map(lowest).collect();
        begins.sort_unstable();
        begins
    }

    /// The numbers of the fragments that arrived up to `at_ns` and are held under the claims of a
    /// quorum.
    pub fn numbers_begun(&self, quorum: &Quorum, at_ns: u64) -> impl Iterator<Item = u64> {
        let of_source = move |source: &ParkedSource| {
            let claim = quorum.claim_of(source.voter);
            let begun = move |held: &&Held| Some(held.claim) == claim && held.arrived_ns <= at_ns;
            source.held.iter().filter(begun).map(|held| held.fragment.number).collect::<Vec<_>>()
        };
        self.sources.iter().flat_map(of_source)
    }

    fn enter(&mut self, fragment: &Fragment) {
        self.count += 1;
        self.bytes += u64::from(fragment.bytes);
    }

    fn leave(&mut self, fragment: &Fragment) {
        self.count -= 1;
        self.bytes -= u64::from(fragment.bytes);
    }
}

impl ParkedSource {
    fn count(&self) -> usize {
        self.ahead.len() + self.held.len()
    }
}
