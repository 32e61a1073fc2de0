//! Which fragments of a source are undecided: whose row was not cut yet, and which were not
//! discarded.
//!
//! A source's fragments are numbered in the order in which they are pushed: these are their
//! *ordinals*. What is undecided is in one of the builder's queues, so that nothing has to be
//! known of a fragment that left them, and the first undecided one is at a queue's front. A queue
//! is in the order of keys, and since keys of a source rise it is in that of ordinals, too: a few
//! runs of consecutive ones. Where it is not, as after a restart that was not one, the lowest
//! ordinal stands for all that the queue has, until these are gone.

use std::collections::VecDeque;

/// The fragments of one source.
#[derive(Debug, Default)]
pub struct Undecided {
    /// How many were pushed.
    pub pushed: u64,
    /// Of the queue of accepted fragments.
    pub accepted: Ordinals,
    /// One above the highest key that was cut; 0 before the first.
    pub decided_key: u64,
}

/// The ordinals of a queue, from its front.
#[derive(Debug, Default)]
pub struct Ordinals {
    /// Each is behind those of the run before it.
    runs: VecDeque<Run>,
}

/// Neighbours in a queue.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The lowest ordinal, and one above the highest.
    first: u64,
    end: u64,
    count: u64,
    /// Whether they are consecutive; otherwise they are in any order.
    is_ordered: bool,
}

impl Ordinals {
    /// Fragments with `count` ordinals from `first` on came into the queue, at its end.
    pub fn put_last(&mut self, first: u64, count: u64) {
        let end = first + count;
        match self.runs.back_mut() {
            Some(run) if run.end > first => self.put_mixed(first, count),
            Some(run) if run.end == first && run.is_ordered => {
                (run.end, run.count) = (end, run.count + count);
            }
            _ => self.runs.push_back(Run { first, end, count, is_ordered: true }),
        }
    }

    /// A fragment came into the queue at that place.
    #[cold]
    pub fn put_at(&mut self, place: usize, ordinal: u64) {
        let (mut index, mut before) = (0, place as u64);
        while let Some(run) = self.runs.get(index).filter(|run| run.count <= before) {
            (index, before) = (index + 1, before - run.count);
        }
        let follows = index.checked_sub(1).is_none_or(|last| self.runs[last].end <= ordinal);
        let Some(run) = self.runs.get(index).copied() else { return self.put_last(ordinal, 1) };
        // Nothing lies between consecutive ordinals.
        if before > 0 || !follows || ordinal >= run.first {
            return self.put_mixed(ordinal, 1);
        }
        match index.checked_sub(1).map(|last| &mut self.runs[last]) {
            Some(last) if last.is_ordered && last.end == ordinal => {
                (last.end, last.count) = (ordinal + 1, last.count + 1);
            }
            _ => {
                let one = Run { first: ordinal, end: ordinal + 1, count: 1, is_ordered: true };
                self.runs.insert(index, one);
            }
        }
    }

    /// Fragments came in, and the order of all that is there is not known any more.
    #[cold]
    pub fn put_mixed(&mut self, first: u64, count: u64) {
        let mut all = Run { first, end: first + count, count, is_ordered: false };
        for run in self.runs.drain(..) {
            (all.first, all.end) = (all.first.min(run.first), all.end.max(run.end));
            all.count += run.count;
        }
        self.runs.push_back(all);
    }

    /// That many fragments left the queue at its front.
    pub fn take(&mut self, mut count: u64) {
        while count > 0 {
            let Some(run) = self.runs.front_mut() else { break };
            let taken = run.count.min(count);
            (run.count, count) = (run.count - taken, count - taken);
            if run.is_ordered {
                run.first += taken;
            }
            if run.count == 0 {
                self.runs.pop_front();
            }
        }
        assert_eq!(count, 0, "no more leave a queue than came in");
    }

    /// One fragment left the queue at its end.
    pub fn take_last(&mut self) {
        let Some(run) = self.runs.back_mut() else { return };
        run.count -= 1;
        run.end -= u64::from(run.is_ordered);
        if run.count == 0 {
            self.runs.pop_back();
        }
    }

    /// An ordinal that none in the queue is below; none if it is empty.
    pub fn first(&self) -> Option<u64> {
        self.runs.front().map(|run| run.first)
    }
}

#[cfg(test)]
mod tests {
    use catchment_fixtures::Random;

    use super::*;

    #[test]
    fn consecutive_ordinals_are_one_run() {
        let mut queue = Ordinals::default();
        (0..1_000).for_each(|ordinal| queue.put_last(ordinal, 1));
        assert_eq!((queue.runs.len(), queue.first()), (1, Some(0)));
        queue.take(999);
        queue.put_last(1_005, 2);
        // Some that came late, and in their order.
        (1_001..1_004).zip(1..).for_each(|(ordinal, place)| queue.put_at(place, ordinal));
        assert_eq!((queue.runs.len(), queue.first()), (3, Some(999)));
        queue.take(3);
        assert_eq!(queue.first(), Some(1_003));
        queue.take(2);
        assert_eq!(queue.first(), Some(1_006));
        queue.take(1);
        assert_eq!(queue.first(), None);
    }

    #[test]
    fn the_first_is_never_above_any_that_is_there_and_exact_where_they_are_in_order() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let (mut queue, mut model) = (Ordinals::default(), VecDeque::new());
            let (mut late, mut next) = (Vec::new(), 0);
            for _ in 0..500 {
                match random.below(6) {
                    0 => {
                        late.push(next);
                        next += 1;
                    }
                    1 if !late.is_empty() => {
                        let ordinal = late.remove(random.below(late.len() as u64) as usize);
                        let place = match seed % 2 {
                            0 => model.partition_point(|&other| other < ordinal),
                            _ => random.below(model.len() as u64 + 1) as usize,
                        };
                        queue.put_at(place, ordinal);
                        model.insert(place, ordinal);
                    }
                    1 | 2 => {
                        let count = random.below(1 + model.len() as u64);
                        queue.take(count);
                        model.drain(..count as usize);
                    }
                    _ => {
                        let count = 1 + random.below(5);
                        queue.put_last(next, count);
                        model.extend(next..next + count);
                        next += count;
                    }
                }
                let lowest = model.iter().min().copied();
                match seed % 2 {
                    0 => assert_eq!(queue.first(), lowest, "seed {seed}"),
                    _ => assert!(queue.first() <= lowest, "seed {seed}"),
                }
                assert_eq!(queue.first().is_some(), lowest.is_some());
            }
            queue.take(model.len() as u64);
            assert_eq!(queue.first(), None);
        }
    }
}
