//! One rule followed for one thing: from values to *wrong* and *well*.

use std::collections::VecDeque;

use crate::rule::{Condition, Rule};

/// A thing that could not be read for so long is no longer there: what was wrong about it is over.
pub const GONE_NS: u64 = 60 * 1_000_000_000;
/// Into how many parts a rate's window is cut.
const PARTS: u64 = 16;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    Wrong,
    Well,
}

#[derive(Clone, Debug)]
pub(crate) struct Tracker {
    /// Whether it is wrong, delays over.
    pub(crate) on: bool,
    /// Whether it is wrong at this moment, delays or not.
    pub(crate) wrong: bool,
    value: Option<f64>,
    seen_ns: u64,
    changed_ns: u64,
    // Since when it is otherwise than `on` says.
    otherwise_ns: Option<u64>,
    // For rates: values over the window, the first at its beginning or before.
    history: VecDeque<(u64, f64)>,
    measure: Option<f64>,
}

impl Tracker {
    pub(crate) fn new(now_ns: u64) -> Self {
        Self {
            on: false,
            wrong: false,
            value: None,
            seen_ns: now_ns,
            changed_ns: now_ns,
            otherwise_ns: None,
            history: VecDeque::new(),
            measure: None,
        }
    }

    /// The value was read. What is no number counts as not read.
    pub(crate) fn read(&mut self, now_ns: u64, value: f64, rule: &Rule) {
        if !value.is_finite() {
            return;
        }
        if self.value != Some(value) {
            self.changed_ns = now_ns;
        }
        self.value = Some(value);
        self.seen_ns = now_ns;
        let Some(window_ns) = rule.condition.window_ns() else { return };
        let due = |&(last_ns, _): &(u64, f64)| now_ns - last_ns >= window_ns.div_ceil(PARTS);
        if self.history.back().is_none_or(due) {
            self.history.push_back((now_ns, value));
        }
        let begin_ns = now_ns.saturating_sub(window_ns);
        while self.history.get(1).is_some_and(|&(second_ns, _)| second_ns <= begin_ns) {
            self.history.pop_front();
        }
    }

    /// Decides, after what could be read was. `counts`: whether the rule is in force.
    pub(crate) fn step(&mut self, now_ns: u64, counts: bool, rule: &Rule) -> Option<Edge> {
        let wrong = if counts {
            self.measure = self.measure_at(now_ns, &rule.condition);
            self.wrong(now_ns, rule)
        } else {
            // When the rule is in force again, it starts from nothing.
            self.changed_ns = now_ns;
            self.history.clear();
            Some(false)
        };
        // What cannot be read stays as it was.
        self.wrong = wrong.unwrap_or(self.wrong);
        let Some(wrong) = wrong.filter(|&wrong| wrong != self.on) else {
            self.otherwise_ns = None;
            return None;
        };
        let since_ns = *self.otherwise_ns.get_or_insert(now_ns);
        let delay_ns = match (wrong, counts) {
            (true, _) => rule.delay_ns,
            (false, true) => rule.clear_delay_ns,
            // What was stopped on purpose is not wrong for a moment longer.
            (false, false) => 0,
        };
        if now_ns - since_ns < delay_ns {
            return None;
        }
        self.on = wrong;
        self.otherwise_ns = None;
        Some(if wrong { Edge::Wrong } else { Edge::Well })
    }

    /// What was compared with the threshold.
    pub(crate) fn measure(&self) -> Option<f64> {
        self.measure
    }

    /// Whether there is nothing left to follow.
    pub(crate) fn is_forgotten(&self, now_ns: u64, rule: &Rule) -> bool {
        let settled = !self.on && self.otherwise_ns.is_none();
        settled && now_ns - self.seen_ns >= GONE_NS && !rule.wants_unread()
    }

    /// Wrong or not; none: it cannot be said, and stays as it is.
    fn wrong(&self, now_ns: u64, rule: &Rule) -> Option<bool> {
        let silence = matches!(rule.condition, Condition::NoChange { .. });
        if !silence && now_ns > self.seen_ns {
            return (now_ns - self.seen_ns >= GONE_NS).then_some(false);
        }
        Some(rule.condition.is_wrong(self.measure?, self.on))
    }

    fn measure_at(&self, now_ns: u64, condition: &Condition) -> Option<f64> {
        match condition {
            Condition::Above { .. } | Condition::Below { .. } => self.value,
            Condition::NoChange { .. } => Some((now_ns - self.changed_ns) as f64 * 1e-9),
            Condition::RisesFaster { .. } => self.rise(),
            Condition::FallsFaster { .. } => self.rise().map(|rise| -rise),
        }
    }

    /// Per second, over a window that is at least nearly full.
    fn rise(&self) -> Option<f64> {
        let (&(first_ns, first), value) = (self.history.front()?, self.value?);
        let elapsed_ns = self.seen_ns.saturating_sub(first_ns);
        (elapsed_ns > 0).then(|| (value - first) / (elapsed_ns as f64 * 1e-9))
    }
}

impl Rule {
    /// Whether it is about one thing's silence, which is one too if the thing was never read.
    pub(crate) fn wants_unread(&self) -> bool {
        matches!(self.condition, Condition::NoChange { .. }) && !self.quantity.is_of_each()
    }
}
