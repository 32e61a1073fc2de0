//! Reduces a failing run: fewer kinds of faults, fewer sources, fewer events, while it still fails.

use crate::case::Case;
use crate::simulate;

/// The smallest case found that fails in the same way, and its failure.
pub fn shrink(case: Case, failure: String) -> (Case, String) {
    let (mut best, mut why) = (case, failure);
    loop {
        let before = best;
        for fault in best.faults.iter() {
            take(&mut best, &mut why, |best| Case { faults: best.faults.without(fault), ..best });
        }
        for sources_max in 1..best.size().0 as u32 {
            if take(&mut best, &mut why, |best| Case { sources_max, ..best }) {
                break;
            }
        }
        for divisor in [16, 4, 2] {
            let events = best.size().1;
            take(&mut best, &mut why, |best| Case {
                events_max: (events / divisor).max(1),
                ..best
            });
        }
        if best == before {
            return (best, why);
        }
    }
}

/// Accepts a smaller case if it also fails.
fn take(best: &mut Case, why: &mut String, smaller: impl Fn(Case) -> Case) -> bool {
    let case = smaller(*best);
    if case == *best {
        return false;
    }
    let Some(failure) = simulate(case, false).failure else { return false };
    (*best, *why) = (case, failure);
    true
}
