//! Rules of alarms.

use catchment_model::named;
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;

/// The most rules.
pub const RULES_MAX: usize = 256;
/// The most actions of a rule.
pub const ACTIONS_MAX: usize = 16;
/// The longest name of a rule or an action, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// The longest text of a rule, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;
/// The longest time in a rule: a day.
pub const TIME_NS_MAX: u64 = 86_400 * S;

const S: u64 = 1_000_000_000;

named! {
    /// How urgent an alarm is.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    Severity {
        /// Good to know.
        Info = "info",
        /// Look when you can.
        Warning = "warning",
        /// Look now.
        Critical = "critical",
    }
}

/// When something is wrong. `clear_at`: where it is well again, on the good side of the threshold,
/// so that a value that wavers about the threshold makes one alarm and not many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    /// Wrong above the threshold, until not above `clear_at`.
    Above {
        /// Wrong above this.
        threshold: f64,
        /// Well at or below this.
        clear_at: f64,
    },
    /// Wrong below the threshold, until not below `clear_at`.
    Below {
        /// Wrong below this.
        threshold: f64,
        /// Well at or above this.
        clear_at: f64,
    },
    /// Wrong when it rises by more per second, over the window; a fall is a negative rise.
    RisesFaster {
        /// Per second.
        threshold: f64,
        /// Well at or below this.
        clear_at: f64,
        /// Over this time.
        window_ns: u64,
    },
    /// Wrong when it falls by more per second (a positive number), over the window.
    FallsFaster {
        /// Per second.
        threshold: f64,
        /// Well at or below this.
        clear_at: f64,
        /// Over this time.
        window_ns: u64,
    },
    /// Wrong when it has not changed, or could not be read, for so long.
    NoChange {
        /// For so long.
        for_ns: u64,
    },
}

/// A rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name, unique: `source_silent`.
    pub name: String,
    /// What it looks at.
    pub quantity: Quantity,
    /// When that is wrong.
    pub condition: Condition,
    /// For how long it must be wrong.
    pub delay_ns: u64,
    /// For how long it must be well.
    pub clear_delay_ns: u64,
    /// Whether an alarm that was not acknowledged stays when all is well again.
    pub latch: bool,
    /// For how long after an alarm was cleared an acknowledgement holds: when it comes back within
    /// that, no one is notified again.
    pub acknowledged_for_ns: u64,
    /// Whether it counts only while a run is recording.
    pub only_while_recording: bool,
    /// How urgent an alarm is.
    pub severity: Severity,
    /// Beyond this, on the bad side of the threshold, it is critical whatever `severity` says.
    pub critical_at: Option<f64>,
    /// What is shown; `{source}`, `{value}`, `{threshold}` stand for what they say. `{time}` is the
    /// value as a time (of `…hours_left` in hours, otherwise in seconds): `12 s`, `2.4 hours`;
    /// `{percent}` the value as a share of one: `85 %`. Of several sources `{source}` names the
    /// first ones, and the value is the worst.
    pub text: String,
    /// What is shown of several sources of a group, where that is otherwise: `{things}` says how
    /// many of how many (`58 of 60 sources in small`), `{sources}` names the first ones.
    pub text_many: Option<String>,
    /// What is shown of a value of zero (of a time: of less than 1 s), where that is otherwise.
    pub text_zero: Option<String>,
    /// Names of what is to be done.
    pub actions: Vec<String>,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("alarm {rule}: {problem}")]
pub struct RuleError {
    /// Its name.
    pub rule: String,
    /// What is wrong.
    pub problem: RuleProblem,
}

/// What can be wrong with a rule.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum RuleProblem {
    /// No name, or too long.
    #[error("a name has 1 to {NAME_BYTES_MAX} bytes")]
    Name,
    /// Twice the same name.
    #[error("there are two of that name")]
    Twice,
    /// Too many rules.
    #[error("there are more than {RULES_MAX} rules")]
    TooMany,
    /// Too many actions.
    #[error("it has more than {ACTIONS_MAX} actions")]
    Actions,
    /// Too long a text.
    #[error("its text is longer than {TEXT_BYTES_MAX} bytes")]
    Text,
    /// A threshold that is no number.
    #[error("its threshold must be a finite number, not {threshold}")]
    Threshold {
        /// What it is.
        threshold: f64,
    },
    /// The value at which it clears is beyond the threshold.
    #[error("it cannot clear at {clear_at} with the threshold {threshold}")]
    ClearAt {
        /// Where it clears.
        clear_at: f64,
        /// The threshold.
        threshold: f64,
    },
    /// The value at which it is critical is on the good side of the threshold, or of a silence.
    #[error("it cannot be critical at {critical_at} with the threshold {threshold}")]
    CriticalAt {
        /// Where it is critical.
        critical_at: f64,
        /// The threshold.
        threshold: f64,
    },
    /// A time that is too long, or none where there must be one.
    #[error("{time_ns} ns is no time that it could take: up to a day")]
    Time {
        /// The time.
        time_ns: u64,
    },
}

impl Condition {
    /// The number at which something becomes wrong: of a silence its seconds.
    pub fn threshold(&self) -> f64 {
        match *self {
            Self::Above { threshold, .. }
            | Self::Below { threshold, .. }
            | Self::RisesFaster { threshold, .. }
            | Self::FallsFaster { threshold, .. } => threshold,
            Self::NoChange { for_ns } => for_ns as f64 * 1e-9,
        }
    }

    /// Whether one measure is worse than another.
    pub(crate) fn is_worse(&self, measure: f64, than: f64) -> bool {
        match self {
            Self::Below { .. } => measure < than,
            _ => measure > than,
        }
    }

    /// The window of a rate.
    pub(crate) fn window_ns(&self) -> Option<u64> {
        match *self {
            Self::RisesFaster { window_ns, .. } | Self::FallsFaster { window_ns, .. } => {
                Some(window_ns)
            }
            _ => None,
        }
    }

    /// Whether a measure (the value, or its rate) is wrong, after it was (`on`) or was not.
    pub(crate) fn is_wrong(&self, measure: f64, on: bool) -> bool {
        match *self {
            Self::Below { threshold, clear_at } => {
                if on {
                    measure < clear_at
                } else {
                    measure < threshold
                }
            }
            Self::Above { threshold, clear_at }
            | Self::RisesFaster { threshold, clear_at, .. }
            | Self::FallsFaster { threshold, clear_at, .. } => {
                if on {
                    measure > clear_at
                } else {
                    measure > threshold
                }
            }
            Self::NoChange { for_ns } => measure >= for_ns as f64 * 1e-9,
        }
    }
}

impl Rule {
    /// A rule that takes effect at once, does not latch, counts always, warns, and tells by its
    /// name, value and threshold.
    pub fn new(name: &str, quantity: Quantity, condition: Condition) -> Self {
        Self {
            name: name.to_owned(),
            quantity,
            condition,
            delay_ns: 0,
            clear_delay_ns: 0,
            latch: false,
            acknowledged_for_ns: 0,
            only_while_recording: false,
            severity: Severity::Warning,
            critical_at: None,
            text_many: None,
            text_zero: None,
            text: format!("{}: {{source}} {{value}} (limit {{threshold}})", name.replace('_', " ")),
            actions: Vec::new(),
        }
    }

    fn check(&self) -> Result<(), RuleProblem> {
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX {
            return Err(RuleProblem::Name);
        }
        let long = |action: &String| action.is_empty() || action.len() > NAME_BYTES_MAX;
        if self.actions.len() > ACTIONS_MAX || self.actions.iter().any(long) {
            return Err(RuleProblem::Actions);
        }
        let texts = [Some(&self.text), self.text_many.as_ref(), self.text_zero.as_ref()];
        if texts.into_iter().flatten().any(|text| text.len() > TEXT_BYTES_MAX) {
            return Err(RuleProblem::Text);
        }
        let threshold = self.condition.threshold();
        if !threshold.is_finite() {
            return Err(RuleProblem::Threshold { threshold });
        }
        let (clear_at, reached) = match self.condition {
            Condition::Below { clear_at, .. } => (clear_at, clear_at >= threshold),
            Condition::Above { clear_at, .. }
            | Condition::RisesFaster { clear_at, .. }
            | Condition::FallsFaster { clear_at, .. } => (clear_at, clear_at <= threshold),
            Condition::NoChange { .. } => (0.0, true),
        };
        if !reached || !clear_at.is_finite() {
            return Err(RuleProblem::ClearAt { clear_at, threshold });
        }
        if let Some(critical_at) = self.critical_at {
            let better = self.condition.is_worse(threshold, critical_at);
            if better || !critical_at.is_finite() {
                return Err(RuleProblem::CriticalAt { critical_at, threshold });
            }
        }
        let must = match self.condition {
            Condition::NoChange { for_ns } => Some(for_ns),
            condition => condition.window_ns(),
        };
        if let Some(time_ns) = must.filter(|&time_ns| time_ns == 0 || time_ns > TIME_NS_MAX) {
            return Err(RuleProblem::Time { time_ns });
        }
        let times = [self.delay_ns, self.clear_delay_ns, self.acknowledged_for_ns];
        match times.into_iter().find(|&time_ns| time_ns > TIME_NS_MAX) {
            Some(time_ns) => Err(RuleProblem::Time { time_ns }),
            None => Ok(()),
        }
    }
}

/// Checks rules, each and together.
pub(crate) fn check(rules: &[Rule]) -> Result<(), RuleError> {
    for (index, rule) in rules.iter().enumerate() {
        let twice = rules[..index].iter().any(|other| other.name == rule.name);
        let problem = match rule.check() {
            _ if index >= RULES_MAX => Some(RuleProblem::TooMany),
            Err(problem) => Some(problem),
            Ok(()) => twice.then_some(RuleProblem::Twice),
        };
        if let Some(problem) = problem {
            let rule = rule.name.chars().take(NAME_BYTES_MAX).collect();
            return Err(RuleError { rule, problem });
        }
    }
    Ok(())
}
