//! An alarm of one rule and one group of things: from the values of its things at each look to what
//! is shown and who is notified.

use std::collections::BTreeMap;

use crate::alarm::{Alarm, AlarmState, Change, ChangeKind, SOURCES_LISTED_MAX};
use crate::rule::{Rule, Severity};
use crate::tracker::{Edge, Tracker};
use crate::words::Subject;

/// Things that become wrong within this are announced together.
pub const GATHER_NS: u64 = 2 * 1_000_000_000;
/// More things in an alarm that was announced are not announced again within this.
pub const RETELL_NS: u64 = 60 * 1_000_000_000;

/// What a rule found in one group of things at one look.
#[derive(Debug, Default)]
pub(crate) struct Gathered<'a> {
    /// Things that are looked at.
    total: usize,
    /// Those that are wrong, delays over.
    on: Vec<&'a str>,
    began: Vec<&'a str>,
    ended: Vec<&'a str>,
    /// Whether any is wrong at this moment, delays or not.
    is_wrong: bool,
    worst: Option<f64>,
}

/// An alarm and what only its keeper sees.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) alarm: Alarm,
    /// What is to be announced, and since when.
    unannounced: Option<(ChangeKind, u64)>,
    announced_ns: Option<u64>,
    /// Things that took part since it was raised, and when they were well again, if they are.
    part: BTreeMap<String, Option<u64>>,
    /// Until when acknowledgements hold, by thing; of one that is wrong without end.
    known_until_ns: BTreeMap<String, u64>,
    /// Whether it was critical when it was acknowledged.
    known_critical: bool,
    /// The alarm when it was about the most things, the last of such moments.
    peak: Option<Alarm>,
}

impl<'a> Gathered<'a> {
    pub(crate) fn add(&mut self, name: &'a str, one: &Tracker, edge: Option<Edge>, rule: &Rule) {
        self.total += 1;
        if edge == Some(Edge::Well) {
            self.ended.push(name);
        }
        if !one.on {
            return;
        }
        if edge == Some(Edge::Wrong) {
            self.began.push(name);
        }
        self.on.push(name);
        if one.wrong {
            self.is_wrong = true;
            let worse = one.measure().filter(|measure| {
                self.worst.is_none_or(|worst| rule.condition.is_worse(*measure, worst))
            });
            self.worst = worse.or(self.worst);
        }
    }

    /// Whether nothing is wrong.
    pub(crate) fn is_well(&self) -> bool {
        self.on.is_empty()
    }

    /// Whether anything is wrong at this moment, and not about to be well.
    pub(crate) fn is_wrong(&self) -> bool {
        self.is_wrong
    }
}

impl Standing {
    /// An alarm that was not raised yet.
    pub(crate) fn new(id: u64, rule: &Rule, group: &str) -> Self {
        let alarm = Alarm {
            id,
            name: rule.name.clone(),
            severity: rule.severity,
            state: AlarmState::Cleared,
            text: String::new(),
            value: None,
            threshold: rule.condition.threshold(),
            source: None,
            group: Some(group.to_owned()).filter(|group| !group.is_empty()),
            sources: Vec::new(),
            source_count: 0,
            since_ns: 0,
            raised_count: 0,
            acknowledged_by: None,
            comment: None,
            ended_ns: None,
        };
        Self {
            alarm,
            unannounced: None,
            announced_ns: None,
            part: BTreeMap::new(),
            known_until_ns: BTreeMap::new(),
            known_critical: false,
            peak: None,
        }
    }

    pub(crate) fn is_of(&self, rule: &Rule, group: &str) -> bool {
        self.alarm.name == rule.name && self.alarm.group.as_deref().unwrap_or_default() == group
    }

    /// Something is wrong. Announces at once only what was acknowledged before; the rest waits in
    /// `unannounced`.
    pub(crate) fn look(
        &mut self,
        now_ns: u64,
        rule: &Rule,
        gathered: &Gathered<'_>,
    ) -> Option<Change> {
        for name in &gathered.ended {
            if let Some(ended_ns) = self.part.get_mut(*name) {
                *ended_ns = Some(now_ns);
            }
            if let Some(until_ns) = self.known_until_ns.get_mut(*name) {
                *until_ns = now_ns.saturating_add(rule.acknowledged_for_ns);
            }
        }
        let raised = !self.alarm.is_wrong();
        let known = gathered.on.iter().all(|name| self.is_known(name, now_ns));
        let worse = gathered.began.iter().any(|name| !self.is_known(name, now_ns));
        if raised {
            self.raise(now_ns, rule, known);
        } else if worse {
            self.worsen(now_ns);
        }
        for name in &gathered.on {
            match self.part.get_mut(*name) {
                Some(ended_ns) => *ended_ns = None,
                None => drop(self.part.insert((*name).to_owned(), None)),
            }
            if let Some(until_ns) = self.known_until_ns.get_mut(*name).filter(|one| **one >= now_ns)
            {
                *until_ns = u64::MAX;
            }
        }
        // Of what is well but not yet cleared the last that was wrong stands: a silence of less
        // than a second would be no silence.
        if gathered.is_wrong {
            self.describe(now_ns, rule, gathered);
        }
        let silently = raised && known;
        silently.then(|| Change {
            kind: ChangeKind::Raised,
            alarm: self.alarm.clone(),
            actions: Vec::new(),
        })
    }

    /// All is well again.
    pub(crate) fn clear(&mut self, now_ns: u64, rule: &Rule) -> Vec<Change> {
        let raised = self.unannounced.filter(|(kind, _)| *kind == ChangeKind::Raised);
        let raised = raised.and_then(|_| self.announce(now_ns, rule));
        let mut changes: Vec<Change> = raised.into_iter().collect();
        self.unannounced = None;
        let held_until_ns = now_ns.saturating_add(rule.acknowledged_for_ns);
        for until_ns in self.known_until_ns.values_mut() {
            *until_ns = held_until_ns.min(*until_ns);
        }
        let alarm = &mut self.alarm;
        if let Some(peak) = self.peak.take() {
            (alarm.text, alarm.value) = (peak.text, peak.value);
            (alarm.source, alarm.sources) = (peak.source, peak.sources);
            alarm.source_count = peak.source_count;
        }
        let announced = alarm.state == AlarmState::Active;
        let kind = if announced && rule.latch {
            alarm.state = AlarmState::Latched;
            ChangeKind::Latched
        } else {
            alarm.state = AlarmState::Cleared;
            ChangeKind::Cleared
        };
        alarm.ended_ns = Some(now_ns);
        // An alarm that was acknowledged is being watched on the page; others were announced and
        // their end is announced too.
        let actions = if announced { rule.actions.clone() } else { Vec::new() };
        changes.push(Change { kind, alarm: alarm.clone(), actions });
        changes
    }

    /// Whether the announcement is due: things that become wrong one after the other are announced
    /// together.
    pub(crate) fn is_due(&self, now_ns: u64, rule: &Rule) -> bool {
        let Some((kind, since_ns)) = self.unannounced else { return false };
        let gathered_ns = if rule.quantity.is_of_each() { since_ns + GATHER_NS } else { since_ns };
        let again_ns = match self.announced_ns {
            Some(announced_ns) if kind == ChangeKind::Worsened => announced_ns + RETELL_NS,
            _ => 0,
        };
        now_ns >= gathered_ns.max(again_ns)
    }

    /// Announces what is to be announced.
    pub(crate) fn announce(&mut self, now_ns: u64, rule: &Rule) -> Option<Change> {
        let (kind, _) = self.unannounced.take()?;
        self.announced_ns = Some(now_ns);
        Some(Change { kind, alarm: self.alarm.clone(), actions: rule.actions.clone() })
    }

    /// Whether anything is to be announced.
    pub(crate) fn has_unannounced(&self) -> bool {
        self.unannounced.is_some()
    }

    /// It is acknowledged. `held_ns`: for how long that holds for things that are well again.
    pub(crate) fn acknowledge(
        &mut self,
        now_ns: u64,
        held_ns: u64,
        who: String,
        comment: Option<String>,
    ) -> Change {
        // Nothing is to be announced any more.
        self.unannounced = None;
        if self.alarm.state == AlarmState::Latched {
            self.alarm.state = AlarmState::Cleared;
            self.alarm.ended_ns = Some(now_ns);
        } else {
            self.alarm.state = AlarmState::Acknowledged;
        }
        let well = self.alarm.state == AlarmState::Cleared;
        for (name, ended_ns) in &self.part {
            let held = well || ended_ns.is_some();
            let until_ns = if held { now_ns.saturating_add(held_ns) } else { u64::MAX };
            self.known_until_ns.insert(name.clone(), until_ns);
        }
        self.known_critical = self.alarm.severity == Severity::Critical;
        self.alarm.acknowledged_by = Some(who);
        self.alarm.comment = comment;
        let kind = ChangeKind::Acknowledged;
        Change { kind, alarm: self.alarm.clone(), actions: Vec::new() }
    }

    fn raise(&mut self, now_ns: u64, rule: &Rule, known: bool) {
        self.known_until_ns.retain(|_, until_ns| *until_ns >= now_ns);
        self.part.clear();
        self.peak = None;
        let alarm = &mut self.alarm;
        if known {
            alarm.state = AlarmState::Acknowledged;
        } else {
            alarm.state = AlarmState::Active;
            alarm.acknowledged_by = None;
            alarm.comment = None;
            self.known_critical = false;
            self.unannounced = Some((ChangeKind::Raised, now_ns));
        }
        // They may be another rule's of this name, if this one was changed.
        (alarm.severity, alarm.threshold) = (rule.severity, rule.condition.threshold());
        alarm.ended_ns = None;
        alarm.since_ns = now_ns;
        alarm.raised_count += 1;
    }

    fn worsen(&mut self, now_ns: u64) {
        if self.alarm.state == AlarmState::Acknowledged {
            self.alarm.state = AlarmState::Active;
            self.alarm.acknowledged_by = None;
            self.alarm.comment = None;
        }
        self.unannounced.get_or_insert((ChangeKind::Worsened, now_ns));
    }

    /// Brings what the alarm says up to what is wrong now.
    fn describe(&mut self, now_ns: u64, rule: &Rule, gathered: &Gathered<'_>) {
        let value = gathered.worst;
        let subject = Subject {
            names: &gathered.on,
            total: gathered.total,
            group: self.alarm.group.as_deref(),
            family: rule.quantity.family(),
        };
        let text = rule.words(&subject, value);
        let alarm = &mut self.alarm;
        (alarm.value, alarm.text) = (value.or(alarm.value), text);
        let names = gathered.on.iter().filter(|name| !name.is_empty());
        alarm.sources = names.take(SOURCES_LISTED_MAX).map(|name| (*name).to_owned()).collect();
        alarm.source_count = match gathered.on[..] {
            [""] => 0,
            _ => gathered.on.len() as u64,
        };
        alarm.source = match &alarm.sources[..] {
            [one] => Some(one.clone()),
            _ => None,
        };
        let critical = rule.critical_at.zip(value);
        let critical = critical.is_some_and(|(at, value)| rule.condition.is_worse(value, at));
        if critical && alarm.severity < Severity::Critical {
            alarm.severity = Severity::Critical;
            if !(self.known_critical && alarm.state == AlarmState::Acknowledged) {
                self.worsen(now_ns);
                // That is no more of the same.
                self.announced_ns = None;
            }
        }
        let alarm = &self.alarm;
        if self.peak.as_ref().is_none_or(|peak| peak.source_count <= alarm.source_count) {
            self.peak = Some(alarm.clone());
        }
    }

    fn is_known(&self, name: &str, now_ns: u64) -> bool {
        self.known_until_ns.get(name).is_some_and(|until_ns| now_ns <= *until_ns)
    }
}
