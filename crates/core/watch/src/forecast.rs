//! How long what is free lasts: a disk, a spill, memory.

use crate::rates::Rates;

/// How long what is free lasts at the rate at which it is filled, or was last.
#[derive(Clone, Debug)]
pub struct Forecast {
    window_ns: u64,
    rates: Rates,
    per_second: Option<f64>,
    is_filling: bool,
}

impl Forecast {
    /// With rates over that time.
    pub fn new(window_ns: u64) -> Self {
        Self { window_ns, rates: Rates::new(window_ns), per_second: None, is_filling: false }
    }

    /// What was filled up to now, in all. After `still_ns` without more nothing is being filled;
    /// none: it cannot be filled now.
    pub fn push(&mut self, now_ns: u64, filled: u64, still_ns: Option<u64>) {
        self.rates.push(now_ns, &[filled]);
        let age_ns = self.rates.since_grown_ns(0, now_ns);
        self.is_filling = age_ns.zip(still_ns).is_some_and(|(age_ns, still_ns)| age_ns <= still_ns);
        if self.is_filling {
            let rate = self.rates.per_second(0).filter(|rate| *rate > 0.0);
            self.per_second = rate.or(self.per_second);
        } else {
            // Time in which nothing was filled does not lower the rate of what follows.
            self.rates = Rates::new(self.window_ns);
            self.rates.push(now_ns, &[filled]);
        }
    }

    /// Whether it is being filled.
    pub fn is_filling(&self) -> bool {
        self.is_filling
    }

    /// For how many seconds that many bytes last, also while nothing is filled. None before
    /// anything was.
    pub fn seconds(&self, free: u64) -> Option<f64> {
        Some(free as f64 / self.per_second?)
    }

    /// The same while it is being filled.
    pub fn seconds_now(&self, free: u64) -> Option<f64> {
        self.seconds(free).filter(|_| self.is_filling)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_rate_is_that_of_what_is_filled_and_stands_only_while_it_is() {
        let (mut forecast, still_ns) = (Forecast::new(10 * S), Some(3 * S));
        (0..100).for_each(|second| forecast.push(second * S, 0, still_ns));
        assert_eq!((forecast.seconds(1_000), forecast.is_filling()), (None, false));
        for second in 1..=5 {
            forecast.push((99 + second) * S, second * 100, still_ns);
        }
        // Not less for the time before.
        assert_eq!(forecast.seconds_now(1_000).map(f64::round), Some(10.0));
        for second in 105..130 {
            forecast.push(second * S, 500, still_ns);
        }
        assert_eq!(forecast.seconds_now(1_000), None, "nothing is filled now");
        let last = forecast.seconds(1_000).unwrap();
        assert!((10.0..25.0).contains(&last), "it is that of the last time: {last}");
        forecast.push(131 * S, 600, still_ns);
        forecast.push(132 * S, 700, None);
        assert!(!forecast.is_filling(), "it is filled in no way that counts");
    }
}
