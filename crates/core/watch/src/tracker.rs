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
    /// Whether an alarm says so.
    pub(crate) raised: bool,
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
            raised: false,
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
            // When the rule is in force again, all begins anew.
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
        let delay_ns = if wrong { rule.delay_ns } else { rule.clear_delay_ns };
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

    /// The rule's text with its words filled in.
    pub(crate) fn words(&self, source: Option<&str>, value: Option<f64>) -> String {
        let hours = self.quantity.as_str().ends_with("hours_left")
            && !matches!(self.condition, Condition::NoChange { .. });
        let seconds = |value: f64| if hours { value * 3_600.0 } else { value };
        let said = |say: fn(f64) -> String| value.map_or_else(|| "?".to_owned(), say);
        let time = value.map_or_else(|| "?".to_owned(), |value| time(seconds(value)));
        let text = self
            .text
            .replace("{value}", &said(short))
            .replace("{time}", &time)
            .replace("{percent}", &said(|value| format!("{:.0} %", value * 100.0)))
            .replace("{threshold}", &short(self.condition.threshold()));
        // Last: a source's name may look like one of the others.
        match source {
            Some(source) => text.replace("{source}", source),
            // Its place goes, and the space behind it.
            None => text.replace("{source} ", "").replace("{source}", ""),
        }
    }
}

/// A time for people.
fn time(seconds: f64) -> String {
    match seconds {
        ..1.0 => "less than 1 s".to_owned(),
        ..120.0 => format!("{:.0} s", seconds.floor()),
        ..7_200.0 => format!("{:.0} min", (seconds / 60.0).floor()),
        ..172_800.0 => format!("{:.1} hours", seconds / 3_600.0),
        _ => format!("{:.1} days", seconds / 86_400.0),
    }
}

/// A number for people: three digits.
fn short(value: f64) -> String {
    let magnitude = value.abs();
    let (value, unit) = match magnitude {
        0.0 => return "0".to_owned(),
        ..1e-6 => return format!("{}0.000001", if value < 0.0 { "above -" } else { "below " }),
        ..1e7 => (value, ""),
        ..1e9 => (value / 1e6, " M"),
        ..1e12 => (value / 1e9, " G"),
        ..1e15 => (value / 1e12, " T"),
        _ => return format!("{value:.2e}"),
    };
    let digits = 2 - (value.abs().log10().floor() as i32).clamp(-6, 2);
    let mut text = format!("{value:.0$}", digits.max(0) as usize);
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    text + unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_read_as_a_person_writes_them() {
        let numbers = [0.0, 12.34, 1_234_567.0, 1e7, -2.5e9, 0.000_928, 3e-9, 0.85, f64::MAX];
        let expected =
            ["0", "12.3", "1234567", "10 M", "-2.5 G", "0.000928", "below 0.000001", "0.85"];
        for (number, expected) in numbers.into_iter().zip(expected) {
            assert_eq!(short(number), expected);
        }
        let times = [0.2, 3.34, 119.9, 120.0, 8_640.0, 1e6, f64::INFINITY];
        let expected = ["less than 1 s", "3 s", "119 s", "2 min", "2.4 hours", "11.6 days"];
        for (seconds, expected) in times.into_iter().zip(expected) {
            assert_eq!(time(seconds), expected);
        }
    }

    #[test]
    fn how_long_the_disk_lasts_is_told_in_units_of_its_size() {
        let rules = crate::default_rules(1_000_000_000);
        let disk = rules.iter().find(|rule| rule.name == "disk_space").unwrap();
        assert_eq!(disk.words(None, Some(9.28e-4)), "the disk is full in 3 s");
        assert_eq!(disk.words(None, Some(0.75)), "the disk is full in 45 min");
        let queue = rules.iter().find(|rule| rule.name == "queue_full").unwrap();
        assert_eq!(queue.words(Some("segments"), Some(0.85)), "the queue segments is 85 % full");
        let rate = crate::Quantity::new("events_per_second").unwrap();
        let low = Rule::new("low_rate", rate, Condition::Below { threshold: 5.0, clear_at: 6.0 });
        assert_eq!(low.words(None, Some(4.25)), "low rate: 4.25 (limit 5)");
    }
}
