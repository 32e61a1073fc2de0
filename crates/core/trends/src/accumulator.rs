//! What is kept of the samples of one second: enough for every statistic, and mergeable.
//!
//! The mean and the mean square come from a sum and a sum of squares, each carried in two `f64`:
//! the sum and what rounding took from it. The two-sum of Knuth and Møller finds that part exactly,
//! so that merging a day's seconds loses no digit, in whatever order they come. Welford's and
//! Chan's recurrences guard the *variance* against cancellation; a trend holds the rms, a sum of
//! nothing but positive numbers, which needs no guard (docs/decisions/trend-values.md).

/// Statistics of any number of samples. Two that are merged give what all samples together give.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accumulator {
    count: u64,
    not_finite: u64,
    saturated: u64,
    sum: Sum,
    squares: Sum,
    min: f64,
    max: f64,
}

impl Accumulator {
    /// No sample yet.
    pub const EMPTY: Self = Self {
        count: 0,
        not_finite: 0,
        saturated: 0,
        sum: Sum::ZERO,
        squares: Sum::ZERO,
        min: f64::INFINITY,
        max: f64::NEG_INFINITY,
    };

    /// Takes one value. NaN and infinities are counted and have no part in anything else.
    pub fn push(&mut self, value: f64) {
        if value.is_finite() {
            self.count += 1;
            self.sum.add(value);
            self.squares.add(value * value);
            self.min = self.min.min(value);
            self.max = self.max.max(value);
        } else {
            self.not_finite += 1;
        }
    }

    /// Takes all that another has seen.
    pub fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.not_finite += other.not_finite;
        self.saturated += other.saturated;
        self.sum.merge(other.sum);
        self.squares.merge(other.squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Takes what a kernel found in one block.
    #[inline]
    pub(crate) fn take(&mut self, block: &Block) {
        self.count += block.count;
        self.not_finite += block.not_finite;
        self.saturated += block.saturated;
        self.sum.add(block.sum);
        self.squares.add(block.squares);
        self.min = self.min.min(block.min);
        self.max = self.max.max(block.max);
    }

    /// Whether nothing was seen, not even a value that is not finite.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.not_finite == 0
    }

    /// The samples that the statistics are of: the finite ones.
    pub fn n(&self) -> u64 {
        self.count
    }

    /// Samples that were NaN or infinite.
    pub fn not_finite(&self) -> u64 {
        self.not_finite
    }

    /// The statistics of what was seen.
    pub fn statistics(&self) -> Statistics {
        let Self { count: n, not_finite, saturated, min, max, .. } = *self;
        if n == 0 {
            let none = f64::NAN;
            return Statistics {
                mean: none,
                min: none,
                max: none,
                rms: none,
                n,
                not_finite,
                saturated,
            };
        }
        let count = n as f64;
        // Rounding must not put the mean of equal values beside them, nor the rms below the mean.
        let mean = (self.sum.value() / count).max(min).min(max);
        let largest = min.abs().max(max.abs());
        let rms = (self.squares.value() / count).sqrt();
        let rms = if rms.is_finite() { rms.min(largest).max(mean.abs()) } else { rms };
        Statistics { mean, min, max, rms, n, not_finite, saturated }
    }
}

impl Default for Accumulator {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl FromIterator<f64> for Accumulator {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut accumulator = Self::EMPTY;
        values.into_iter().for_each(|value| accumulator.push(value));
        accumulator
    }
}

/// Mean, minimum, maximum, root mean square and number of the samples of some time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// The mean. NaN, like the three after it, where `n` is 0.
    pub mean: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// The square root of the mean of the squares; infinite where squares are beyond `f64`.
    pub rms: f64,
    /// The finite samples, which the four are of.
    pub n: u64,
    /// Samples that were NaN or infinite, left out.
    pub not_finite: u64,
    /// Samples at the limits of their type or channel. They are among the `n`.
    pub saturated: u64,
}

/// What a kernel finds in a block of samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub count: u64,
    pub not_finite: u64,
    pub saturated: u64,
    pub sum: f64,
    pub squares: f64,
    pub min: f64,
    pub max: f64,
}

/// A sum with the part that rounding took from it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sum {
    high: f64,
    low: f64,
}

impl Sum {
    const ZERO: Self = Self { high: 0.0, low: 0.0 };

    #[inline]
    fn add(&mut self, term: f64) {
        let sum = self.high + term;
        let of_term = sum - self.high;
        let lost = (self.high - (sum - of_term)) + (term - of_term);
        self.high = sum;
        // Beyond f64 there is nothing left to keep.
        if lost.is_finite() {
            self.low += lost;
        }
    }

    fn merge(&mut self, other: Self) {
        self.add(other.high);
        self.low += other.low;
    }

    fn value(self) -> f64 {
        self.high + self.low
    }
}
