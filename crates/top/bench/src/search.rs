//! How figures are measured: in rounds, several cases in turn, and the highest rate that something
//! sustains, found by trying.

use std::fmt::Display;
use std::ops::ControlFlow;

use catchment_model::units::Count;

use crate::Bench;

impl Bench<'_> {
    /// Measures as often as each figure is.
    ///
    /// # Errors
    /// Those of `measure`, or the bench is to stop.
    pub(crate) fn rounds<T>(
        &mut self,
        what: impl Display,
        mut measure: impl FnMut(&mut Self) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<T>> {
        let [rounds] = self.in_turn(what, [()], |bench, ()| measure(bench))?;
        Ok(rounds)
    }

    /// Measures several cases in turn, each as often as each figure is.
    ///
    /// # Errors
    /// As [`Bench::rounds`].
    pub(crate) fn in_turn<C: Copy, T, const N: usize>(
        &mut self,
        what: impl Display,
        cases: [C; N],
        mut measure: impl FnMut(&mut Self, C) -> anyhow::Result<T>,
    ) -> anyhow::Result<[Vec<T>; N]> {
        let mut all = [const { Vec::new() }; N];
        for round in 1..=self.repeats() {
            for (case, results) in cases.into_iter().zip(&mut all) {
                self.now(format!("{what}, {round}"))?;
                results.push(measure(self, case)?);
            }
        }
        Ok(all)
    }

    /// The highest rate that is reached, by [`highest`]. A quick bench tries one low rate once: it
    /// shows that it works, not how far it goes.
    ///
    /// # Errors
    /// As [`Bench::rounds`].
    pub(crate) fn highest<T>(
        &mut self,
        what: impl Display,
        plan: Plan,
        mut attempt: impl FnMut(&mut Self, f64) -> anyhow::Result<Try<T>>,
    ) -> anyhow::Result<Option<(f64, Vec<T>)>> {
        let quick = self.quick;
        let mut attempt = |rate| {
            self.now(format!("{what}, {}{}", Count(rate), plan.unit))?;
            attempt(self, rate)
        };
        if quick {
            return Ok(Some((plan.quick, vec![attempt(plan.quick)?.value])));
        }
        highest(plan, attempt)
    }
}

/// How to search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The first rate to try.
    pub(crate) start: f64,
    /// No higher rate is tried.
    pub(crate) most: f64,
    /// What rates are in, behind a prefix such as "k".
    pub(crate) unit: &'static str,
    /// The rate that a quick bench tries.
    pub(crate) quick: f64,
    /// The factor between tries on the way up.
    pub(crate) step: f64,
    /// How often the gap between the highest rate reached and the lowest one missed is halved.
    pub(crate) halvings: u32,
    /// How often in a row the result must be reached.
    pub(crate) confirmations: u32,
}

impl Plan {
    /// As most rates of events are found.
    pub(crate) const fn from(start: f64) -> Self {
        let (most, unit, quick) = (10e6, "Hz", 1_000.0);
        Self { start, most, unit, quick, step: 1.2, halvings: 3, confirmations: 3 }
    }
}

/// The result of one try.
#[derive(Clone, Debug)]
pub(crate) struct Try<T> {
    /// Whether all was sent and nothing lost.
    pub(crate) reached: bool,
    pub(crate) value: T,
}

/// The highest rate that was reached as often as the plan asks, with the results of those tries;
/// none if not even a sixteenth of the first rate was. A rate counts as failed only when it fails
/// twice, so that one disturbance does not end the way up; the rate that is returned was reached
/// each time.
///
/// # Errors
/// Those of `attempt`.
fn highest<T, E>(
    plan: Plan,
    mut attempt: impl FnMut(f64) -> Result<Try<T>, E>,
) -> Result<Option<(f64, Vec<T>)>, E> {
    let mut reaches =
        |rate: f64| -> Result<bool, E> { Ok(attempt(rate)?.reached || attempt(rate)?.reached) };
    let mut good = None;
    let mut bad = None;
    let mut rate = plan.start;
    let lowest = plan.start / 16.0;
    while rate >= lowest && rate <= plan.most {
        let reached = reaches(rate)?;
        let bound = if reached { &mut good } else { &mut bad };
        *bound = Some(rate);
        rate = match (good, bad) {
            (Some(_), Some(_)) => break,
            (Some(_), None) => rate * plan.step,
            _ => rate / plan.step,
        };
    }
    let Some(mut reached) = good else { return Ok(None) };
    if let Some(mut failed) = bad {
        for _ in 0..plan.halvings {
            let middle = (reached + failed) / 2.0;
            *(if reaches(middle)? { &mut reached } else { &mut failed }) = middle;
        }
    }
    while reached >= lowest {
        let confirmed =
            (0..plan.confirmations).try_fold(Vec::new(), |mut values, _| match attempt(reached) {
                Ok(Try { reached: true, value }) => {
                    values.push(value);
                    ControlFlow::Continue(values)
                }
                Ok(Try { reached: false, .. }) => ControlFlow::Break(Ok(())),
                Err(error) => ControlFlow::Break(Err(error)),
            });
        match confirmed {
            ControlFlow::Continue(values) => return Ok(Some((reached, values))),
            ControlFlow::Break(Err(error)) => return Err(error),
            ControlFlow::Break(Ok(())) => reached *= 0.96,
        }
    }
    Ok(None)
}

/// The smallest of some figures that so many percent of them do not exceed; not a number if there
/// is none.
pub(crate) fn percentile(percent: f64, figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    let rank = (figures.len() as f64 * percent / 100.0).ceil() as usize;
    figures.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The one of some results whose figure is in the middle.
pub(crate) fn middle<T>(mut results: Vec<T>, figure: impl Fn(&T) -> f64) -> T {
    results.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
    results.swap_remove(results.len() / 2)
}

/// The middle one of some figures; the mean of the two middle ones where their number is even.
pub(crate) fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.into_iter().collect();
    figures.sort_by(f64::total_cmp);
    match figures.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => figures[count / 2],
        count => f64::midpoint(figures[count / 2 - 1], figures[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan { step: 1.25, halvings: 4, ..Plan::from(1_000.0) };

    fn search(limit_hz: f64, disturbed: &[usize]) -> Option<f64> {
        let mut tries = 0;
        let found = highest(PLAN, |rate| {
            tries += 1;
            let reached = rate <= limit_hz && !disturbed.contains(&tries);
            Ok::<_, ()>(Try { reached, value: rate })
        });
        found.unwrap().map(|(rate, values)| {
            assert_eq!(values, [rate; 3]);
            rate
        })
    }

    #[test]
    fn the_highest_rate_is_found_from_below_and_from_above() {
        for limit in [90.0, 700.0, 1_000.0, 5_432.0, 123_456.0] {
            let found = search(limit, &[]).unwrap();
            assert!(found <= limit && found > limit * 0.95, "{found} of {limit}");
        }
        assert_eq!(search(1.0, &[]), None);
    }

    #[test]
    fn one_disturbance_does_not_end_the_search() {
        for disturbed in 1..20 {
            let found = search(5_432.0, &[disturbed]).unwrap();
            assert!(found > 5_432.0 * 0.9, "{found} when try {disturbed} was disturbed");
        }
    }

    #[test]
    fn an_error_ends_the_search() {
        assert_eq!(highest(PLAN, |_| Err::<Try<()>, _>("broken")).unwrap_err(), "broken");
    }

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0]), 2.5);
        assert!(median([]).is_nan());
    }
}
