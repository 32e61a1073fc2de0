//! How far each source has come, now and a time-out ago: what decides whom an event still waits for.

/// Into how many periods a time-out is divided.
pub const PERIODS: u64 = 8;

#[derive(Debug)]
pub struct Progress {
    // All "reached" are the newest key plus 1; 0 before the first.
    reached: Vec<u64>,
    // The same for sources that are waited for, NOT_WAITED for others.
    waited: Vec<u64>,
    // `reached` as it was at the ends of the last periods, oldest at `oldest`.
    samples: Vec<Vec<u64>>,
    oldest: usize,
    scratch: Vec<u64>,
}

impl Progress {
    pub fn new(source_count: usize) -> Self {
        let column = || vec![0; source_count];
        Self {
            reached: column(),
            waited: column(),
            samples: (0..=PERIODS).map(|_| column()).collect(),
            oldest: 0,
            scratch: Vec::with_capacity(source_count),
        }
    }

    /// One more than the source's newest key; 0 before its first.
    #[inline]
    pub fn reached(&self, source: usize) -> u64 {
        self.reached[source]
    }

    /// Sets how far a source has come, and whether it is waited for.
    #[inline]
    pub fn set(&mut self, source: usize, reached: u64, waited: bool) {
        self.reached[source] = reached;
        self.waited[source] = if waited { reached } else { NOT_WAITED };
    }

    /// Sets whether a source is waited for.
    pub fn wait_for(&mut self, source: usize, waited: bool) {
        self.set(source, self.reached[source], waited);
    }

    /// What the slowest source that is waited for has reached; none if none is.
    pub fn slowest(&self) -> Option<u64> {
        let slowest = self.waited.iter().copied().fold(NOT_WAITED, u64::min);
        (slowest != NOT_WAITED).then_some(slowest)
    }

    /// Ends a period.
    pub fn sample(&mut self) {
        self.samples[self.oldest].copy_from_slice(&self.reached);
        self.oldest = (self.oldest + 1) % self.samples.len();
    }

    /// The bound below which every key had been passed, a time-out ago, by more than half of the
    /// sources that are waited for now; without such sources there is no bound.
    ///
    /// So one source that lags behind cannot hold the others' events for longer than a time-out, and
    /// one that runs ahead cannot make events time out before the others have come to them.
    pub fn passed_long_ago(&mut self) -> u64 {
        let then = &self.samples[self.oldest];
        self.scratch.clear();
        let both = self.waited.iter().zip(then);
        self.scratch.extend(both.filter(|(now, _)| **now != NOT_WAITED).map(|(_, then)| *then));
        if self.scratch.is_empty() {
            return u64::MAX;
        }
        let middle = (self.scratch.len() - 1) / 2;
        *self.scratch.select_nth_unstable(middle).1
    }
}

const NOT_WAITED: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_needs_more_than_half_of_the_sources_past_the_key() {
        let mut progress = Progress::new(4);
        for (source, reached) in [10, 20, 30, 40].into_iter().enumerate() {
            progress.set(source, reached, true);
        }
        progress.sample();
        for _ in 0..PERIODS {
            assert_eq!(progress.passed_long_ago(), 0);
            progress.sample();
        }
        // Keys below 20 were passed by three of four, keys from 20 on by two of four only.
        assert_eq!(progress.passed_long_ago(), 20);
        progress.wait_for(0, false);
        assert_eq!(progress.passed_long_ago(), 30);
        (1..4).for_each(|source| progress.wait_for(source, false));
        assert_eq!(progress.passed_long_ago(), u64::MAX);
        assert_eq!(progress.slowest(), None);
    }
}
