//! The state of each clock, where events are built by time.

use super::horizon::Horizon;
use super::voter::Voter;
use crate::astray::Astray;

impl Horizon {
    /// By source: its newest time; whether it delivers nothing; whether its times do not fit.
    pub fn state(&self, index: usize) -> (Option<i64>, bool, bool) {
        let voter = &self.voters[index];
        let is_silent = match voter.promises {
            true => self.promises.is_silent(index),
            false => !voter.enabled || voter.is_silent(self.active_ns, self.timeout_ns),
        };
        let out_of_step = voter.out_of_step || voter.is_stuck(self.active_ns, self.timeout_ns);
        (voter.position.map(|it| it.stamp.ns), is_silent, out_of_step)
    }

    /// How the clock of a source differs from the others'.
    pub fn astray(&self, index: usize) -> Option<Astray> {
        let voter = &self.voters[index];
        if voter.is_stuck(self.active_ns, self.timeout_ns) {
            return Some(Astray::Stands);
        }
        if let Some(other) = self.other_of_two(index) {
            let ahead_ns = match voter.out_of_step {
                true => self.clock_ahead_ns(index),
                false => self.clock_ahead_ns(other).saturating_neg(),
            };
            let differ = voter.out_of_step || self.voters[other].out_of_step;
            return differ.then_some(Astray::OneOfTwo { ahead_ns });
        }
        voter.out_of_step.then_some(Astray::Clock { ahead_ns: self.clock_ahead_ns(index) })
    }

    /// How far the clock of a source is ahead of the quorum's.
    fn clock_ahead_ns(&self, index: usize) -> i64 {
        self.promises.ahead_ns(index).unwrap_or(self.voters[index].ahead_ns)
    }

    /// The other source, if two vote that deliver, and their clocks advance: where they differ,
    /// nothing says which of them is right.
    fn other_of_two(&self, index: usize) -> Option<usize> {
        let (active_ns, timeout_ns) = (self.active_ns, self.timeout_ns);
        let delivers = |voter: &Voter| {
            let is_heard = voter.heard_ns.is_some_and(|at_ns| active_ns - at_ns < timeout_ns);
            voter.votes() && is_heard && !voter.is_stuck(active_ns, timeout_ns)
        };
        let of = self.voters.iter().enumerate().filter(|(_, voter)| delivers(voter));
        let both: Vec<usize> = of.map(|(index, _)| index).take(3).collect();
        match both[..] {
            [one, other] if one == index => Some(other),
            [other, one] if one == index => Some(other),
            _ => None,
        }
    }
}
