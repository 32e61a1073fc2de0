//! Alarms: raised, acknowledged, latched, cleared.
//!
//! ```text
//!                    wrong for `delay`
//!   (nothing) ───────────────────────────► active ──── acknowledge ───► acknowledged
//!       ▲  ▲                               ▲  │  │                           │
//!       │  │ 10 min        wrong again     │  │  │ well for `clear_delay`    │ well
//!       │  └──────────── cleared ──────────┘  │  └── latch: latched ─┐       │
//!       │                 ▲  ▲ ▲              │ well       │  │       │       │
//!       │                 │  │ └──────────────┘            │  └─ wrong again ─► active
//!       │                 │  └──── acknowledge ────────────┘          │
//!       │                 └──────────────────────────────────────────┴───────┘
//! ```
//!
//! A cleared one that is wrong again within the time for which its acknowledgement holds is
//! *acknowledged* at once, and nobody is told.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::quantity::Readings;
use crate::rule::{Rule, RuleError, Severity, check};
use crate::tracker::{Edge, Tracker};

/// The most alarms that are kept at once.
pub const ALARMS_MAX: usize = 1_000;
/// The most things that rules are followed for: a rule for each of 1,000 sources counts 1,000.
pub const FOLLOWED_MAX: usize = 20_000;
/// How long a cleared alarm is shown.
pub const CLEARED_SHOWN_NS: u64 = 600 * 1_000_000_000;
/// The longest name or comment of an acknowledgement in bytes; what is longer is cut.
pub const COMMENT_BYTES_MAX: usize = 1_024;

/// The rules, and the alarms that came of them.
#[derive(Clone, Debug)]
pub struct Alarms {
    rules: Vec<Followed>,
    alarms: Vec<Alarm>,
    /// There was no place for an alarm, and none was cleared since.
    full: bool,
    last_id: u64,
    now_ns: u64,
    not_raised: u64,
    not_followed: u64,
}

#[derive(Clone, Debug)]
struct Followed {
    rule: Rule,
    // By thing: a source's name, or nothing.
    trackers: BTreeMap<String, Tracker>,
}

/// An alarm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alarm {
    /// Its number: no other has had it, also before rules were changed.
    pub id: u64,
    /// The rule's name.
    pub name: String,
    /// How much somebody should care.
    pub severity: Severity,
    /// Where it stands.
    pub state: AlarmState,
    /// What is wrong, in plain words.
    pub text: String,
    /// The value (of a rate: per second; of a silence: seconds) now, or when it was wrong last: as
    /// the text says it. None: it could not be read.
    pub value: Option<f64>,
    /// Where it becomes wrong.
    pub threshold: f64,
    /// The source, queue or the like that it is about.
    pub source: Option<String>,
    /// When it was raised, the last time.
    pub since_ns: u64,
    /// How often it was raised.
    pub raised_count: u64,
    /// Who acknowledged it.
    pub acknowledged_by: Option<String>,
    /// What they said.
    pub comment: Option<String>,
    /// When it was cleared.
    pub cleared_ns: Option<u64>,
}

/// Where an alarm stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlarmState {
    /// It is wrong, and nobody has said that they know.
    Active,
    /// All is well again, but nobody has seen that it was wrong.
    Latched,
    /// It is wrong, and somebody knows.
    Acknowledged,
    /// All is well again.
    Cleared,
}

/// What happened to an alarm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// What.
    pub kind: ChangeKind,
    /// The alarm after it.
    pub alarm: Alarm,
    /// What is to be done, by name. Empty where nobody is to be told.
    pub actions: Vec<String>,
}

/// What can happen to an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is wrong: active, or acknowledged if that still holds.
    Raised,
    /// It is well again, but latched.
    Latched,
    /// It is well again.
    Cleared,
    /// Somebody knows.
    Acknowledged,
}

/// Why an alarm was not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcknowledgeError {
    /// There is no such alarm, or no longer.
    #[error("there is no alarm {id}")]
    Unknown {
        /// The number.
        id: u64,
    },
    /// Somebody was faster.
    #[error("alarm {id} was acknowledged before")]
    Already {
        /// The number.
        id: u64,
    },
    /// It is gone by itself.
    #[error("alarm {id} was cleared before")]
    Cleared {
        /// The number.
        id: u64,
    },
}

impl Alarms {
    /// No alarms yet.
    ///
    /// # Errors
    /// A rule that cannot be.
    pub fn new(rules: Vec<Rule>) -> Result<Self, RuleError> {
        check(&rules)?;
        let follow = |rule| Followed { rule, trackers: BTreeMap::new() };
        Ok(Self {
            rules: rules.into_iter().map(follow).collect(),
            alarms: Vec::new(),
            full: false,
            last_id: 0,
            now_ns: 0,
            not_raised: 0,
            not_followed: 0,
        })
    }

    /// Other rules from now on. What is followed by a rule that stays as it was goes on, its alarms
    /// and who acknowledged them too. Alarms of rules that are gone are gone; of a rule that is
    /// otherwise only those that are latched stay, since nobody has seen them: what is wrong by the
    /// new one is raised anew. Numbers go on, so that none ever means another alarm.
    ///
    /// # Errors
    /// A rule that cannot be; all stays as it was.
    pub fn change(&mut self, rules: Vec<Rule>) -> Result<(), RuleError> {
        check(&rules)?;
        let mut before = std::mem::take(&mut self.rules);
        self.alarms.retain(|alarm| {
            let now = rules.iter().find(|rule| rule.name == alarm.name);
            let same = now.is_some_and(|now| before.iter().any(|old| old.rule == *now));
            same || (now.is_some() && alarm.state == AlarmState::Latched)
        });
        let followed = |rule: Rule| {
            let same = before.iter().position(|old| old.rule == rule);
            let new = Followed { rule, trackers: BTreeMap::new() };
            same.map_or(new, |index| before.swap_remove(index))
        };
        self.rules = rules.into_iter().map(followed).collect();
        self.full = self.alarms.len() >= ALARMS_MAX && self.full;
        Ok(())
    }

    /// Looks at all quantities; to be called at least every second. Time that goes back stands still.
    pub fn observe(
        &mut self,
        now_ns: u64,
        recording: bool,
        readings: &impl Readings,
    ) -> Vec<Change> {
        self.now_ns = self.now_ns.max(now_ns);
        let now_ns = self.now_ns;
        let mut rules = std::mem::take(&mut self.rules);
        let mut followed: usize = rules.iter().map(|rule| rule.trackers.len()).sum();
        let mut changes = Vec::new();
        for Followed { rule, trackers } in &mut rules {
            let counts = recording || !rule.only_while_recording;
            // A thing that was never read has not changed, either.
            if rule.wants_unread() && trackers.is_empty() && followed < FOLLOWED_MAX {
                trackers.insert(rule.quantity.thing().to_owned(), Tracker::new(now_ns));
                followed += 1;
            }
            readings.each(&rule.quantity, &mut |thing, value| {
                if !trackers.contains_key(thing) {
                    if followed >= FOLLOWED_MAX {
                        self.not_followed += 1;
                        return;
                    }
                    trackers.insert(thing.to_owned(), Tracker::new(now_ns));
                    followed += 1;
                }
                if let Some(tracker) = trackers.get_mut(thing) {
                    tracker.read(now_ns, value, rule);
                }
            });
            for (thing, tracker) in trackers.iter_mut() {
                let edge = tracker.step(now_ns, counts, rule);
                changes.extend(self.apply(rule, thing, tracker, edge));
            }
            let before = trackers.len();
            trackers.retain(|_, tracker| !tracker.is_forgotten(now_ns, rule));
            followed -= before - trackers.len();
        }
        self.rules = rules;
        let shown = |alarm: &Alarm, rules: &[Followed]| {
            let rule = rules.iter().find(|followed| followed.rule.name == alarm.name);
            let held_ns = rule.map_or(0, |followed| followed.rule.acknowledged_for_ns);
            alarm.cleared_ns.is_none_or(|cleared_ns| {
                now_ns.saturating_sub(cleared_ns) <= held_ns.max(CLEARED_SHOWN_NS)
            })
        };
        let rules = &self.rules;
        self.alarms.retain(|alarm| alarm.state != AlarmState::Cleared || shown(alarm, rules));
        changes
    }

    /// Somebody has seen an alarm.
    ///
    /// # Errors
    /// There is none of that number, or nothing to acknowledge about it.
    pub fn acknowledge(
        &mut self,
        now_ns: u64,
        id: u64,
        who: &str,
        comment: Option<&str>,
    ) -> Result<Change, AcknowledgeError> {
        self.now_ns = self.now_ns.max(now_ns);
        let Some(alarm) = self.alarms.iter_mut().find(|alarm| alarm.id == id) else {
            return Err(AcknowledgeError::Unknown { id });
        };
        match alarm.state {
            AlarmState::Active => alarm.state = AlarmState::Acknowledged,
            AlarmState::Latched => {
                alarm.state = AlarmState::Cleared;
                alarm.cleared_ns = Some(self.now_ns);
                self.full = false;
            }
            AlarmState::Acknowledged => return Err(AcknowledgeError::Already { id }),
            AlarmState::Cleared => return Err(AcknowledgeError::Cleared { id }),
        }
        let cut = |text: &str| text[..text.floor_char_boundary(COMMENT_BYTES_MAX)].to_owned();
        alarm.acknowledged_by = Some(cut(who));
        alarm.comment = comment.map(cut);
        let kind = ChangeKind::Acknowledged;
        Ok(Change { kind, alarm: alarm.clone(), actions: Vec::new() })
    }

    /// All alarms: active ones first, then latched, acknowledged and cleared ones; within these the
    /// most severe, then the newest first.
    pub fn list(&self) -> Vec<Alarm> {
        let mut alarms = self.alarms.clone();
        alarms.sort_by_key(|alarm| {
            use std::cmp::Reverse;
            (alarm.state, Reverse(alarm.severity), Reverse(alarm.since_ns), alarm.id)
        });
        alarms
    }

    /// The rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().map(|followed| &followed.rule)
    }

    /// How often something was wrong and there was no place for one more alarm.
    pub fn not_raised(&self) -> u64 {
        self.not_raised
    }

    /// How often something could not be looked at, since rules are followed for too many things.
    pub fn not_followed(&self) -> u64 {
        self.not_followed
    }

    /// Brings the list of alarms up to what a tracker found.
    fn apply(
        &mut self,
        rule: &Rule,
        thing: &str,
        tracker: &mut Tracker,
        edge: Option<Edge>,
    ) -> Option<Change> {
        // Most have nothing to say. Of what is well but not yet cleared the last that was wrong
        // stands: a silence of less than a second would be no silence. Nobody looks through all
        // alarms for each that has no place.
        let settled = !tracker.on || !tracker.wrong || (self.full && !tracker.raised);
        if edge.is_none() && settled {
            return None;
        }
        let source = Some(thing).filter(|thing| !thing.is_empty());
        let mut alarms = self.alarms.iter().enumerate();
        let found = alarms
            .find(|(_, alarm)| alarm.name == rule.name && alarm.source.as_deref() == source)
            .map(|(index, _)| index);
        if edge == Some(Edge::Well) {
            return self.clear(rule, found?, std::mem::take(&mut tracker.raised));
        }
        let (value, text) = (tracker.measure(), rule.words(source, tracker.measure()));
        if tracker.raised {
            let alarm = &mut self.alarms[found?];
            (alarm.value, alarm.text) = (value.or(alarm.value), text);
            return None;
        }
        let index = match found {
            Some(index) => index,
            None => match self.place(rule, source) {
                Some(index) => index,
                None => {
                    // Counted once; it is tried again whenever one looks.
                    self.not_raised += u64::from(edge.is_some());
                    return None;
                }
            },
        };
        tracker.raised = true;
        let alarm = &mut self.alarms[index];
        let held = |cleared_ns| self.now_ns.saturating_sub(cleared_ns) <= rule.acknowledged_for_ns;
        let known = alarm.acknowledged_by.is_some() && alarm.cleared_ns.is_some_and(held);
        if known {
            alarm.state = AlarmState::Acknowledged;
        } else {
            alarm.state = AlarmState::Active;
            alarm.acknowledged_by = None;
            alarm.comment = None;
        }
        // They may be another rule's of this name, if this one was changed.
        (alarm.severity, alarm.threshold) = (rule.severity, rule.condition.threshold());
        (alarm.value, alarm.text, alarm.cleared_ns) = (value, text, None);
        alarm.since_ns = self.now_ns;
        alarm.raised_count += 1;
        let actions = if known { Vec::new() } else { rule.actions.clone() };
        Some(Change { kind: ChangeKind::Raised, alarm: alarm.clone(), actions })
    }

    /// All is well again.
    fn clear(&mut self, rule: &Rule, index: usize, raised: bool) -> Option<Change> {
        let alarm = &mut self.alarms[index];
        if !raised {
            return None;
        }
        let told = alarm.state == AlarmState::Active;
        let kind = if told && rule.latch {
            alarm.state = AlarmState::Latched;
            ChangeKind::Latched
        } else {
            alarm.state = AlarmState::Cleared;
            alarm.cleared_ns = Some(self.now_ns);
            self.full = false;
            ChangeKind::Cleared
        };
        // Whoever acknowledged it looks at the page; the others were told and are told again.
        let actions = if told { rule.actions.clone() } else { Vec::new() };
        Some(Change { kind, alarm: alarm.clone(), actions })
    }

    /// A place for a new alarm; when there is none, the one that was cleared first goes.
    fn place(&mut self, rule: &Rule, source: Option<&str>) -> Option<usize> {
        if self.alarms.len() >= ALARMS_MAX {
            let cleared = self.alarms.iter().enumerate();
            let cleared = cleared.filter(|(_, alarm)| alarm.state == AlarmState::Cleared);
            let oldest = cleared.min_by_key(|(_, alarm)| alarm.cleared_ns);
            let Some((oldest, _)) = oldest else {
                self.full = true;
                return None;
            };
            self.alarms.remove(oldest);
        }
        self.last_id += 1;
        self.alarms.push(Alarm {
            id: self.last_id,
            name: rule.name.clone(),
            severity: rule.severity,
            state: AlarmState::Active,
            text: String::new(),
            value: None,
            threshold: rule.condition.threshold(),
            source: source.map(str::to_owned),
            since_ns: self.now_ns,
            raised_count: 0,
            acknowledged_by: None,
            comment: None,
            cleared_ns: None,
        });
        Some(self.alarms.len() - 1)
    }
}
