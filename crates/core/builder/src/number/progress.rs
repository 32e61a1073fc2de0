//! How far each voter has come, now and one time-out ago. This decides which voters an event still
//! waits for.

/// Number of periods in a time-out.
pub const PERIODS: u64 = 8;

#[derive(Debug)]
pub struct Progress {
    // All "reached" are the newest key plus 1; 0 before the first.
    reached: Vec<u64>,
    // 0 for voters that are waited for, NOT_WAITED for others.
    waited: Vec<u64>,
    // `reached` as it was at the ends of the last periods, oldest at `oldest`.
    samples: Vec<Vec<u64>>,
    oldest: usize,
    scratch: Vec<u64>,
}

impl Progress {
    pub fn new(voter_count: usize) -> Self {
        let column = || vec![0; voter_count];
        Self {
            reached: column(),
            waited: vec![NOT_WAITED; voter_count],
            samples: (0..=PERIODS).map(|_| column()).collect(),
            oldest: 0,
            scratch: Vec::with_capacity(voter_count),
        }
    }

    /// Sets what a voter has reached, and whether events wait for it.
    pub fn set(&mut self, voter: usize, reached: u64, waited: bool) {
        self.reached[voter] = reached;
        self.wait_for(voter, waited);
    }

    /// Sets what a voter has reached for which events wait.
    #[inline]
    pub fn reach(&mut self, voter: usize, reached: u64) {
        debug_assert!(self.waited[voter] == 0, "voter {voter} is not waited for");
        self.reached[voter] = reached;
    }

    /// What a voter has reached.
    pub fn reached(&self, voter: usize) -> u64 {
        self.reached[voter]
    }

    /// Sets whether events wait for a voter.
    pub fn wait_for(&mut self, voter: usize, waited: bool) {
        self.waited[voter] = if waited { 0 } else { NOT_WAITED };
    }

    /// What the slowest voter that is waited for has reached; none if none is.
    pub fn slowest(&self) -> Option<u64> {
        let both = self.reached.iter().zip(&self.waited);
        let slowest = both.fold(NOT_WAITED, |slowest, (reached, not)| slowest.min(reached | not));
        (slowest != NOT_WAITED).then_some(slowest)
    }

    /// Ends a period.
    pub fn sample(&mut self) {
        self.samples[self.oldest].copy_from_slice(&self.reached);
        self.oldest = (self.oldest + 1) % self.samples.len();
    }

    /// The bound below which every key has been passed by more than half of the voters that are
    /// waited for; none if none is.
    pub fn passed(&mut self) -> Option<u64> {
        Self::middle(&mut self.scratch, &self.reached, &self.waited)
    }

    /// The same a time-out ago, for the voters that are waited for now.
    pub fn passed_long_ago(&mut self) -> Option<u64> {
        Self::middle(&mut self.scratch, &self.samples[self.oldest], &self.waited)
    }

    fn middle(scratch: &mut Vec<u64>, reached: &[u64], waited: &[u64]) -> Option<u64> {
        scratch.clear();
        let both = reached.iter().zip(waited);
        scratch.extend(both.filter(|(_, not)| **not == 0).map(|(reached, _)| *reached));
        let middle = scratch.len().checked_sub(1)? / 2;
        Some(*scratch.select_nth_unstable(middle).1)
    }
}

const NOT_WAITED: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_passed_when_more_than_half_of_the_voters_are_past_it() {
        let mut progress = Progress::new(4);
        for (voter, reached) in [10, 20, 30, 40].into_iter().enumerate() {
            progress.set(voter, reached, true);
        }
        progress.sample();
        for _ in 0..PERIODS {
            assert_eq!((progress.passed(), progress.passed_long_ago()), (Some(20), Some(0)));
            progress.sample();
        }
        // Keys below 20 were passed by three of four, keys from 20 on by two of four only.
        assert_eq!(progress.passed_long_ago(), Some(20));
        progress.wait_for(0, false);
        assert_eq!(progress.passed_long_ago(), Some(30));
        (1..4).for_each(|voter| progress.wait_for(voter, false));
        assert_eq!((progress.passed(), progress.passed_long_ago()), (None, None));
        assert_eq!(progress.slowest(), None);
    }
}
