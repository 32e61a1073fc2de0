//! Front-ends on their way to where an order of run control has them go, and back if some refuse.

use crate::front_ends::{FrontEnds, Stage};

/// Where an order of run control has all front-ends go.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// There, within so many nanoseconds.
    pub to: (Stage, u64),
    /// Where they go if that fails, so that what others have done is undone.
    pub back: Option<(Stage, u64)>,
}

/// Front-ends on their way, looked at from time to time.
#[derive(Debug)]
pub struct Move {
    to: Stage,
    until_ns: u64,
    back: Option<(Stage, u64)>,
    /// Why they go back.
    failed: Option<String>,
}

impl Move {
    /// Has all go.
    pub fn begin(front_ends: &FrontEnds, way: Way, now_ns: u64) -> Self {
        let Way { to: (to, within_ns), back } = way;
        front_ends.go_to(to);
        Self { to, until_ns: now_ns.saturating_add(within_ns), back, failed: None }
    }

    /// Where they are to be now.
    pub fn to(&self) -> Stage {
        self.to
    }

    /// What became of it; none while some are under way.
    pub fn look(&mut self, front_ends: &FrontEnds, now_ns: u64) -> Option<Result<(), String>> {
        let is_late = now_ns >= self.until_ns;
        let silent = || Err(format!("no answer from {}", front_ends.under_way().join(", ")));
        let arrived = front_ends.arrived().or_else(|| is_late.then(silent))?;
        match (self.failed.take(), arrived, self.back.take()) {
            (Some(why), ..) => Some(Err(why)),
            (None, Err(why), Some((stage, within_ns))) => {
                front_ends.go_to(stage);
                (self.to, self.until_ns) = (stage, now_ns.saturating_add(within_ns));
                self.failed = Some(why);
                None
            }
            (None, arrived, _) => Some(arrived),
        }
    }
}
