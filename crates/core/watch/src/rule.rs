//! Rules of alarms.

use catchment_model::{Entry, named};
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
/// A folder of a storage node with less has little space.
const FOLDER_BYTES_MIN: f64 = (1_u64 << 30) as f64;
/// A disk that completes nothing for this long counts as hung.
const WAITS_S: f64 = 5.0;
/// Anything at all is wrong.
const ANY: Condition = Condition::Above { threshold: 0.0, clear_at: 0.0 };

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

/// The rules that there are without any configuration, for frames that are cut that often. They
/// read `source.*.last_packet_seconds`, `.out_of_step` and `.flooding`, `loss_share`, `bad_share`,
/// bad data and `of_strangers` of each source, `queue.*.fill`, `disk.hours_left`, `rows_recorded`
/// (events and slices on disk), `next_file_refused`, `file_list_refused`, `target.*.fault`,
/// `.away`, `.waits_seconds` and `.best_effort_waits_seconds`, `spill.*.fill`, `.frames_lost`, and
/// `alarms`, `refuses`, `absent`, `given_up`, `buffer_short` and `held_at_run_end` of each
/// front-end. Loss and bad data are critical from that share on.
pub fn default_rules(frame_ns: u64, heavy_loss_share: f64) -> Vec<Rule> {
    let no_rows_ns = frame_ns.saturating_mul(3).clamp(10 * S, TIME_NS_MAX);
    let rules = [
        disk_space(),
        recording(usual(
            "nothing_recorded",
            "rows_recorded",
            Condition::NoChange { for_ns: no_rows_ns },
            Severity::Critical,
            "Nothing has reached the disk for {time}",
        )),
        Rule {
            latch: true,
            ..usual(
                "run_interrupted",
                "interrupted_run",
                ANY,
                Severity::Warning,
                "Run {value} was interrupted: the program or the machine went down while it \
                 recorded. What had reached the disk can be read",
            )
        },
        recording(Rule {
            latch: true,
            clear_delay_ns: 60 * S,
            critical_at: Some(heavy_loss_share),
            ..usual("loss", "loss_share", ANY, Severity::Warning, "Losing {percent} of the data")
        }),
        recording(Rule {
            latch: true,
            clear_delay_ns: 60 * S,
            ..usual(
                "bad_data",
                "bad_share",
                Condition::Above { threshold: heavy_loss_share, clear_at: heavy_loss_share },
                Severity::Critical,
                "{percent} of the recorded data are bad",
            )
        }),
    ];
    let rules = rules.into_iter().chain(rules_of_files()).chain(rules_of_waits());
    rules
        .chain(rules_of_many())
        .chain(rules_of_bad_sources())
        .chain(rules_of_front_ends())
        .collect()
}

/// The rules of a storage node without any configuration. They read `disk.hours_left`,
/// `folder.*.fault`, `folder.*.free_bytes`, `stream.*.waits`, `stream.*.broken_off`,
/// `frames_refused` and `sessions_refused`.
pub fn store_rules() -> Vec<Rule> {
    let of = |rule: Rule, text_many: &str| Rule { text_many: Some(text_many.into()), ..rule };
    let refused = |name: &str, text: &str| {
        let condition = Condition::RisesFaster { threshold: 0.0, clear_at: 0.0, window_ns: 10 * S };
        Rule { latch: true, ..usual(name, name, condition, Severity::Warning, text) }
    };
    let little = Condition::Below { threshold: FOLDER_BYTES_MIN, clear_at: 2.0 * FOLDER_BYTES_MIN };
    vec![
        disk_space(),
        of(
            usual(
                "folder_fault",
                "folder.*.fault",
                ANY,
                Severity::Critical,
                "Folder {source} cannot be written",
            ),
            "{things} cannot be written: {sources}",
        ),
        of(
            usual(
                "folder_space",
                "folder.*.free_bytes",
                little,
                Severity::Warning,
                "Folder {source} has less than 1 GiB left",
            ),
            "{things} have less than 1 GiB left: {sources}",
        ),
        of(
            Rule {
                delay_ns: 2 * S,
                ..usual(
                    "stream_waits",
                    "stream.*.waits",
                    ANY,
                    Severity::Critical,
                    "Stream {source} cannot be written: its recorder holds its frames",
                )
            },
            "{things} cannot be written: {sources} (their recorders hold their frames)",
        ),
        of(
            Rule {
                // A recorder that resumes is back within that time.
                delay_ns: 5 * S,
                latch: true,
                ..usual(
                    "stream_broken_off",
                    "stream.*.broken_off",
                    ANY,
                    Severity::Warning,
                    "Stream {source} broke off: its recorder is gone and has not ended it",
                )
            },
            "{things} broke off: {sources} (their recorders are gone and have not ended them)",
        ),
        refused("frames_refused", "Frames are refused: {value} a second"),
        refused("sessions_refused", "Connections are refused: {value} a second"),
    ]
}

/// The usual rules on what front-ends say. What an alarm says stands behind its front-end's name.
fn rules_of_front_ends() -> [Rule; 7] {
    let of = |name, quantity, severity, text: &str, text_many: &str| Rule {
        text_many: Some(text_many.into()),
        ..usual(name, quantity, ANY, severity, text)
    };
    [
        of(
            "front_end_alarm",
            "front_end.*.alarms",
            Severity::Warning,
            "Front-end {source} raises an alarm",
            "Front-ends raise alarms: {sources}",
        ),
        of(
            "front_end_refuses",
            "front_end.*.refuses",
            Severity::Warning,
            "Front-end {source} refuses a command",
            "Front-ends refuse a command: {sources}",
        ),
        of(
            "front_end_absent",
            "front_end.*.absent",
            Severity::Critical,
            "Front-end {source} has gone away",
            "Front-ends have gone away: {sources}",
        ),
        of(
            "front_end_given_up",
            "front_end.*.given_up",
            Severity::Critical,
            "Front-end {source} sends what is malformed, and was given up",
            "Front-ends send what is malformed, and were given up: {sources}",
        ),
        of(
            "buffer_short",
            "front_end.*.buffer_short",
            Severity::Warning,
            "The buffer of front-end {source} is too small for its rate",
            "The buffers of front-ends are too small for their rates: {sources}",
        ),
        of(
            "held_at_run_end",
            "front_end.*.held_at_run_end",
            Severity::Critical,
            "Front-end {source} held {value} items of a run that had ended: they are in no file",
            "Front-ends held items of a run that had ended: {sources} (they are in no file)",
        ),
        of(
            "front_end_unheard",
            "front_end.*.unheard",
            Severity::Warning,
            "The node does not listen for front-ends at {source}",
            "The node does not listen for front-ends at {sources}",
        ),
    ]
}

/// The usual rules on what a disk refuses while the data are taken.
fn rules_of_files() -> [Rule; 5] {
    let refused =
        |name, quantity, text| recording(usual(name, quantity, ANY, Severity::Warning, text));
    let many = "{things} cannot be written: {sources} (frames are discarded there)";
    [
        refused(
            "next_file_refused",
            "next_file_refused",
            "The next file cannot be made: recording goes on in the open one",
        ),
        refused(
            "file_list_refused",
            "file_list_refused",
            "The list of the run's files cannot be written: recording goes on",
        ),
        Rule {
            text_many: Some(many.into()),
            ..refused(
                "target_fault",
                "target.*.fault",
                "Target {source} cannot be written: frames are discarded there, and counted",
            )
        },
        recording(Rule {
            // A connection that breaks is back within that time.
            delay_ns: 3 * S,
            text_many: Some("{things} are away: {sources} (their frames wait in memory)".into()),
            ..usual(
                "target_away",
                "target.*.away",
                ANY,
                Severity::Critical,
                "Target {source} is away: its frames wait in memory",
            )
        }),
        Rule {
            latch: true,
            text_many: Some(
                "Spilled frames of {things} are lost: {sources} (their files were removed or are \
                 damaged)"
                    .into(),
            ),
            ..usual(
                "spill_lost",
                "spill.*.frames_lost",
                Condition::RisesFaster { threshold: 0.0, clear_at: 0.0, window_ns: 10 * S },
                Severity::Critical,
                "Spilled frames of target {source} are lost: their files were removed or are \
                 damaged",
            )
        },
    ]
}

/// The usual rules on disks that complete nothing, also while a run ends. Network file systems
/// pause for some seconds, and go on.
fn rules_of_waits() -> [Rule; 2] {
    let of = |name, quantity, severity| Rule {
        text_many: Some(
            "Disks of targets have not completed a write, a sync or a close for up to {time}: \
             {sources}"
                .into(),
        ),
        ..usual(
            name,
            quantity,
            Condition::Above { threshold: WAITS_S, clear_at: WAITS_S },
            severity,
            "Target {source} waits for its disk: a write, a sync or a close has not completed for \
             {time}",
        )
    };
    let best_effort = "target.*.best_effort_waits_seconds";
    [
        of("target_waits", "target.*.waits_seconds", Severity::Critical),
        of("best_effort_target_waits", best_effort, Severity::Warning),
    ]
}

/// The usual rules on each source, queue and spill.
fn rules_of_many() -> [Rule; 5] {
    let many = |rule, delay_ns, text: &str| {
        recording(Rule { delay_ns, text_many: Some(text.into()), ..rule })
    };
    let silent = usual(
        "source_silent",
        "source.*.last_packet_seconds",
        Condition::Above { threshold: 5.0, clear_at: 2.0 },
        Severity::Critical,
        "{source} is silent: no packet for {time}",
    );
    let out_of_step = usual(
        "source_out_of_step",
        "source.*.out_of_step",
        ANY,
        Severity::Critical,
        "{source} is out of step: its numbers are not the others', its data are discarded",
    );
    let flooding = usual(
        "source_flooding",
        "source.*.flooding",
        ANY,
        Severity::Warning,
        "{source} floods: most of its fragments are in no event, and it opens none",
    );
    let full = |name, quantity, text| {
        let condition = Condition::Above { threshold: 0.8, clear_at: 0.6 };
        usual(name, quantity, condition, Severity::Warning, text)
    };
    let queue_full = full("queue_full", "queue.*.fill", "Queue {source} is {percent} full");
    let spill_full = full("spill_full", "spill.*.fill", "The spill of {source} is {percent} full");
    let silent_many = "{things} are silent: {sources} (no packet for up to {time})";
    let out_of_step_many = "{things} are out of step: {sources} (their numbers are not the \
        others', their data are discarded)";
    [
        many(silent, 0, silent_many),
        // While all sources restart, each may be out of step for a moment.
        many(out_of_step, 2 * S, out_of_step_many),
        many(
            flooding,
            0,
            "{things} flood: {sources} (most of their fragments are in no event, and they open \
             none)",
        ),
        many(queue_full, 2 * S, "{things} are up to {percent} full: {sources}"),
        spill_full,
    ]
}

/// The usual rules on what a source sends and should not, and on what others send to its port.
fn rules_of_bad_sources() -> [Rule; 5] {
    let rises = |name, entry: &str, text: &str, text_many: &str| {
        let condition = Condition::RisesFaster { threshold: 0.0, clear_at: 0.0, window_ns: 10 * S };
        let quantity = format!("source.*.{entry}");
        let rule = usual(name, &quantity, condition, Severity::Warning, text);
        recording(Rule { latch: true, text_many: Some(text_many.into()), ..rule })
    };
    [
        rises(
            "bad_sender",
            Entry::FragmentsBadSender.name(),
            "{source} marks its data as broken: {value} fragments a second",
            "{things} mark their data as broken: {sources} (up to {value} fragments a second)",
        ),
        rises(
            "bad_tag",
            Entry::FragmentsBadTag.name(),
            "{source} is at another trigger than its events: {value} fragments a second",
            "{things} are at another trigger than their events: {sources} (up to {value} \
             fragments a second)",
        ),
        rises(
            "with_holes",
            Entry::FragmentsWithHoles.name(),
            "{source} has fragments of which a part is missing: {value} a second",
            "{things} have fragments of which a part is missing: {sources} (up to {value} a \
             second)",
        ),
        rises(
            "bad_checksum",
            Entry::FragmentsBadChecksum.name(),
            "{source} has fragments with a wrong checksum: {value} a second",
            "{things} have fragments with a wrong checksum: {sources} (up to {value} a second)",
        ),
        rises(
            "stranger",
            "of_strangers",
            "Somebody else sends to the port of {source}: {value} fragments a second are not its \
             own",
            "Somebody else sends to the ports of {things}: {sources} (up to {value} fragments a \
             second are not their own)",
        ),
    ]
}

fn disk_space() -> Rule {
    Rule {
        delay_ns: 10 * S,
        text_zero: Some("Disk is full: make room, and recording resumes by itself".into()),
        ..usual(
            "disk_space",
            "disk.hours_left",
            Condition::Below { threshold: 1.0, clear_at: 1.5 },
            Severity::Critical,
            "Disk will be full in {time}",
        )
    }
}

fn usual(name: &str, quantity: &str, condition: Condition, severity: Severity, text: &str) -> Rule {
    let quantity = Quantity::new(quantity).expect("a quantity's name");
    let (clear_delay_ns, acknowledged_for_ns) = (5 * S, 600 * S);
    let rule = Rule::new(name, quantity, condition);
    Rule { severity, text: text.into(), clear_delay_ns, acknowledged_for_ns, ..rule }
}

fn recording(rule: Rule) -> Rule {
    Rule { only_while_recording: true, ..rule }
}
