//! How fast the clocks of sources drift against the events' time.
//!
//! The mean offsets of five intervals are compared, each of 2.5 s of the events' time and 200
//! fragments at least: the first and the last are 10 s apart or more. Nothing is added to what a
//! fragment costs: whoever reads the histograms ([`Offsets`]) pushes them.
//!
//! A drift is named if it is more than five times what jitter lets expect, and steady: a clock that
//! was set, or an event's earliest source that died, moves the mean once. Only fragments of events
//! count, so that a clock which is out of the window within 12.5 s has no drift here.

use super::offsets::Offsets;

/// The drift of each source's clock.
#[derive(Clone, Debug, Default)]
pub struct Drifts {
    sources: Vec<Source>,
}

impl Drifts {
    /// Takes the offsets of the same sources when events were built up to a time; 0: none was.
    pub fn push(&mut self, at_ns: u64, all: &[Offsets]) {
        if at_ns > 0 {
            self.sources.resize_with(all.len(), Source::default);
            let sources = self.sources.iter_mut().zip(all);
            sources.for_each(|(source, offsets)| source.push(at_ns, offsets));
        }
    }

    /// By source: how much faster its clock is than the events' time, in ppm; none if that is not
    /// known, or within what jitter lets expect.
    pub fn ppm(&self) -> Vec<Option<f64>> {
        self.sources.iter().map(Source::ppm).collect()
    }
}

#[derive(Clone, Debug, Default)]
struct Source {
    /// Where the interval began that is not complete.
    begin: Option<(u64, Offsets)>,
    /// The last complete ones.
    means: Vec<Mean>,
}

impl Source {
    fn push(&mut self, at_ns: u64, offsets: &Offsets) {
        let Some((begin_ns, begin)) = &mut self.begin else {
            self.begin = Some((at_ns, offsets.clone()));
            return;
        };
        let count = offsets.count.saturating_sub(begin.count);
        if count == 0 {
            *begin_ns = at_ns;
        }
        if count < COUNT_MIN || at_ns.saturating_sub(*begin_ns) < INTERVAL_NS {
            return;
        }
        let middle_ns = begin_ns.midpoint(at_ns);
        self.means.push(Mean::of(&offsets.since(begin), middle_ns));
        if self.means.len() > INTERVALS {
            self.means.remove(0);
        }
        self.begin = Some((at_ns, offsets.clone()));
    }

    fn ppm(&self) -> Option<f64> {
        let (first, last) = (self.means.first()?, self.means.last()?);
        let (moved_ns, base_ns) = first.to(last);
        let is_clear = moved_ns.abs() > 5.0 * (first.variance + last.variance).sqrt();
        // After a pause the clock may be another.
        let is_paused = self.means.windows(2).any(|two| two[0].to(&two[1]).1 > 0.4 * base_ns);
        // A step within an interval shows in two differences of means: they would be all of it.
        let is_steady = self.means.windows(3).all(|three| {
            let (part_ns, time_ns) = three[0].to(&three[2]);
            (part_ns - moved_ns * time_ns / base_ns).abs() <= moved_ns.abs() / 4.0
        });
        let is_named = self.means.len() == INTERVALS && is_clear && !is_paused && is_steady;
        is_named.then(|| moved_ns / base_ns * 1e6)
    }
}

/// The mean offset in an interval.
#[derive(Clone, Copy, Debug)]
struct Mean {
    /// The interval's middle.
    at_ns: u64,
    ns: f64,
    /// Of the mean, in ns².
    variance: f64,
}

impl Mean {
    fn of(counted: &Offsets, at_ns: u64) -> Self {
        let (count, bin_ns) = (counted.count as f64, counted.bin_ns as f64);
        let ns = counted.sum_ns as f64 / count;
        let squares = counted.bins.iter().enumerate().map(|(bin, &fragments)| {
            let away_ns = counted.first_ns as f64 + (bin as f64 + 0.5) * bin_ns - ns;
            fragments as f64 * away_ns * away_ns
        });
        // What is within a bin; and a nanosecond that no number of fragments makes more precise.
        let variance = (squares.sum::<f64>() / count + bin_ns * bin_ns / 12.0) / count + 1.0;
        Self { at_ns, ns, variance }
    }

    /// How far the mean moved to a later one, in what time.
    fn to(&self, later: &Self) -> (f64, f64) {
        (later.ns - self.ns, later.at_ns.saturating_sub(self.at_ns) as f64)
    }
}

const INTERVALS: usize = 5;
const INTERVAL_NS: u64 = 2_500_000_000;
const COUNT_MIN: u64 = 200;

#[cfg(test)]
mod tests {
    use catchment_fixtures::Random;

    use super::*;
    use crate::{ClockConfig, TimeConfig};

    const S: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;
    /// Any time.
    const BEGIN_NS: u64 = 1_700_000_000 * S;

    /// What is named each half second of so many, of a source with an event each millisecond whose
    /// offset at a time is given, with a jitter of 200 ns; none: it is in no event.
    fn named(seconds: u64, seed: u64, at: impl Fn(u64) -> Option<i64>) -> Vec<Option<f64>> {
        let time = TimeConfig::new(100_000, vec![ClockConfig::NS], S);
        let (mut offsets, mut drifts) = (Offsets::new(&time, true), Drifts::default());
        let mut random = Random::new(seed);
        let mut named = Vec::new();
        for ms in 0..1_000 * seconds {
            if let Some(ns) = at(ms * MS) {
                offsets.add(ns + random.below(200).cast_signed());
            }
            if ms % 500 == 499 {
                drifts.push(BEGIN_NS + ms * MS, std::slice::from_ref(&offsets));
                named.push(drifts.ppm()[0]);
            }
        }
        named
    }

    /// Where it is after a time at so many ppm.
    fn drifted(from_ns: i64, ppm: f64) -> impl Fn(u64) -> Option<i64> {
        move |since_ns| Some(from_ns + (since_ns as f64 * ppm / 1e6) as i64)
    }

    #[test]
    fn a_clock_that_drifts_is_named_with_its_rate() {
        for (from_ns, ppm) in [(1_000, 3.0), (90_000, -3.0), (1_000, 0.02), (0, 0.012)] {
            let named = named(24, 1, drifted(from_ns, ppm));
            // Five intervals take 12.5 s.
            assert!(named[..24].iter().all(Option::is_none), "{ppm}: {named:?}");
            let near = |one: &f64| (one - ppm).abs() < ppm.abs() / 4.0;
            assert!(named[26..].iter().flatten().all(near), "{ppm}: {named:?}");
            assert!(named[26..].iter().flatten().count() >= 15, "{ppm}: {named:?}");
        }
    }

    #[test]
    fn jitter_alone_is_no_drift() {
        for seed in 0..20 {
            let named = named(60, seed, drifted(1_000, 0.0));
            assert!(named.iter().all(Option::is_none), "{seed}: {named:?}");
        }
    }

    #[test]
    fn a_clock_that_is_set_does_not_drift() {
        for at_ms in (10_000..16_000).step_by(250) {
            let set = |since_ns| Some(if since_ns < at_ms * MS { 1_000 } else { 9_000 });
            let named = named(40, at_ms, set);
            assert!(named.iter().all(Option::is_none), "{at_ms}: {named:?}");
        }
        // While it is away, for an hour or for some seconds.
        for back_ns in [3_600 * S, 21 * S] {
            let set = |since_ns| match since_ns {
                _ if since_ns < 20 * S => Some(1_000),
                _ if since_ns < back_ns => None,
                _ => Some(9_000),
            };
            let named = named(back_ns / S + 40, 7, set);
            assert!(named.iter().all(Option::is_none), "{back_ns}: {named:?}");
        }
    }
}
