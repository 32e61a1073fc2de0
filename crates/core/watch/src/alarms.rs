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
//! A latched alarm whose cause was undone is *withdrawn*: it is cleared without acknowledgement.
//!
//! There is one alarm for a rule and a group of the things that it looks at, however many of them
//! are wrong; *wrong* and *well* are decided for each thing. Things that become wrong within
//! [`crate::GATHER_NS`] are announced together. One that becomes wrong while others of its alarm
//! are makes an acknowledged alarm *active* again, and is announced, but not more often than every
//! [`crate::RETELL_NS`].
//!
//! An acknowledgement is of the things that took part. What was acknowledged, was cleared, and is
//! wrong again within the time for which its acknowledgement holds is *acknowledged* at once, and
//! no one is notified.

use std::collections::BTreeMap;

use crate::alarm::{AcknowledgeError, Alarm, AlarmState, Change};
use crate::quantity::ReadingTable;
use crate::rule::{Rule, RuleError, check};
use crate::standing::{Gathered, Standing};
use crate::tracker::Tracker;

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
    alarms: Vec<Standing>,
    last_id: u64,
    now_ns: u64,
}

#[derive(Clone, Debug)]
struct Followed {
    rule: Rule,
    // By thing: a source's name, or nothing.
    things: BTreeMap<String, Thing>,
}

#[derive(Clone, Debug)]
struct Thing {
    group: String,
    tracker: Tracker,
}

impl Alarms {
    /// No alarms yet.
    ///
    /// # Errors
    /// A rule that cannot be.
    pub fn new(rules: Vec<Rule>) -> Result<Self, RuleError> {
        check(&rules)?;
        let follow = |rule| Followed { rule, things: BTreeMap::new() };
        Ok(Self {
            rules: rules.into_iter().map(follow).collect(),
            alarms: Vec::new(),
            last_id: 0,
            now_ns: 0,
        })
    }

    /// Other rules from now on. What is followed by a rule that stays as it was goes on, its alarms
    /// and who acknowledged them too. Alarms of rules that are gone are gone; of a rule that is
    /// otherwise only those that are latched stay, since nobody has seen them: what is wrong by the
    /// new one is raised again. Numbers go on, so that none ever means another alarm.
    ///
    /// # Errors
    /// A rule that cannot be; all stays as it was.
    pub fn change(&mut self, rules: Vec<Rule>) -> Result<(), RuleError> {
        check(&rules)?;
        let mut before = std::mem::take(&mut self.rules);
        self.alarms.retain(|Standing { alarm, .. }| {
            let now = rules.iter().find(|rule| rule.name == alarm.name);
            let same = now.is_some_and(|now| before.iter().any(|old| old.rule == *now));
            same || (now.is_some() && alarm.state == AlarmState::Latched)
        });
        let followed = |rule: Rule| {
            let same = before.iter().position(|old| old.rule == rule);
            let new = Followed { rule, things: BTreeMap::new() };
            same.map_or(new, |index| before.swap_remove(index))
        };
        self.rules = rules.into_iter().map(followed).collect();
        Ok(())
    }

    /// Looks at all quantities; to be called at least every second. Time that goes back stands
    /// still.
    pub fn observe(
        &mut self,
        now_ns: u64,
        recording: bool,
        readings: &ReadingTable,
    ) -> Vec<Change> {
        self.now_ns = self.now_ns.max(now_ns);
        let now_ns = self.now_ns;
        let mut rules = std::mem::take(&mut self.rules);
        let mut followed: usize = rules.iter().map(|rule| rule.things.len()).sum();
        let mut changes = Vec::new();
        for one in &mut rules {
            self.read(one, &mut followed, readings);
            let Followed { rule, things } = one;
            let counts = recording || !rule.only_while_recording;
            let mut groups: BTreeMap<&str, Gathered<'_>> = BTreeMap::new();
            for (name, thing) in things.iter_mut() {
                let edge = thing.tracker.step(now_ns, counts, rule);
                let thing = &*thing;
                let gathered = groups.entry(&thing.group).or_default();
                gathered.add(name, &thing.tracker, edge, rule);
            }
            for (group, gathered) in &groups {
                changes.extend(self.apply(rule, group, gathered));
            }
            // A group that nothing is in any more.
            let groups: Vec<&str> = groups.into_keys().collect();
            for standing in self.alarms.iter_mut().filter(|one| one.alarm.name == rule.name) {
                let group = standing.alarm.group.as_deref().unwrap_or_default();
                if standing.alarm.is_wrong() && !groups.contains(&group) {
                    changes.extend(standing.clear(now_ns, rule));
                }
            }
            changes.extend(self.announce(rule));
            let before = things.len();
            things.retain(|_, thing| !thing.tracker.is_forgotten(now_ns, rule));
            followed -= before - things.len();
        }
        self.rules = rules;
        let rules = &self.rules;
        self.alarms.retain(|Standing { alarm, .. }| {
            alarm.state != AlarmState::Cleared
                || alarm.ended_ns.is_none_or(|ended_ns| {
                    let held_ns = held_ns(rules, &alarm.name);
                    now_ns.saturating_sub(ended_ns) <= held_ns.max(CLEARED_SHOWN_NS)
                })
        });
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
        let Some(standing) = self.alarms.iter_mut().find(|one| one.alarm.id == id) else {
            return Err(AcknowledgeError::Unknown { id });
        };
        match standing.alarm.state {
            AlarmState::Active | AlarmState::Latched => {}
            AlarmState::Acknowledged => return Err(AcknowledgeError::Already { id }),
            AlarmState::Cleared => return Err(AcknowledgeError::Cleared { id }),
        }
        let cut = |text: &str| text[..text.floor_char_boundary(COMMENT_BYTES_MAX)].to_owned();
        let held_ns = held_ns(&self.rules, &standing.alarm.name);
        Ok(standing.acknowledge(self.now_ns, held_ns, cut(who), comment.map(cut)))
    }

    /// The cause of a rule's alarms was undone: one that is latched is cleared, though nobody has
    /// seen it.
    pub fn withdraw(&mut self, rule: &str) {
        for Standing { alarm, .. } in self.alarms.iter_mut().filter(|one| one.alarm.name == rule) {
            if alarm.state == AlarmState::Latched {
                alarm.state = AlarmState::Cleared;
            }
        }
    }

    /// Somebody has seen all alarms that nobody has acknowledged, or those of them that are named.
    pub fn acknowledge_all(
        &mut self,
        now_ns: u64,
        only: Option<&[u64]>,
        who: &str,
        comment: Option<&str>,
    ) -> Vec<Change> {
        let wanted = |id: &u64| only.is_none_or(|only| only.contains(id));
        let ids: Vec<u64> = self.list().iter().map(|alarm| alarm.id).filter(wanted).collect();
        let done = ids.into_iter().map(|id| self.acknowledge(now_ns, id, who, comment));
        // What is acknowledged or cleared already needs nobody.
        done.filter_map(Result::ok).collect()
    }

    /// All alarms: active ones first, then latched, acknowledged and cleared ones; within these the
    /// most severe, then causes before their effects, then the newest first.
    pub fn list(&self) -> Vec<Alarm> {
        let rank = |alarm: &Alarm| {
            let rule = self.rules.iter().find(|one| one.rule.name == alarm.name);
            rule.map_or(u8::MAX, |one| one.rule.quantity.cause_rank())
        };
        let mut alarms: Vec<_> =
            self.alarms.iter().map(|one| (rank(&one.alarm), one.alarm.clone())).collect();
        alarms.sort_by_key(|(rank, alarm)| {
            use std::cmp::Reverse;
            (alarm.state, Reverse(alarm.severity), *rank, Reverse(alarm.since_ns), alarm.id)
        });
        alarms.into_iter().map(|(_, alarm)| alarm).collect()
    }

    /// Reads what a rule looks at.
    fn read(&mut self, one: &mut Followed, followed: &mut usize, readings: &ReadingTable) {
        let (now_ns, Followed { rule, things }) = (self.now_ns, one);
        let new = |group: &str| Thing { group: group.to_owned(), tracker: Tracker::new(now_ns) };
        // A thing that was never read has not changed, either.
        if rule.wants_unread() && things.is_empty() && *followed < FOLLOWED_MAX {
            things.insert(rule.quantity.thing().to_owned(), new(""));
            *followed += 1;
        }
        readings.each(&rule.quantity, &mut |name, value| {
            let group = match rule.quantity.is_of_each() {
                true => readings.group(rule.quantity.family(), name).unwrap_or_default(),
                false => "",
            };
            if !things.contains_key(name) {
                if *followed >= FOLLOWED_MAX {
                    return;
                }
                things.insert(name.to_owned(), new(group));
                *followed += 1;
            }
            if let Some(thing) = things.get_mut(name) {
                if thing.group != group {
                    group.clone_into(&mut thing.group);
                }
                thing.tracker.read(now_ns, value, rule);
            }
        });
    }

    /// Brings a rule's alarm of a group up to what was found.
    fn apply(&mut self, rule: &Rule, group: &str, gathered: &Gathered<'_>) -> Vec<Change> {
        let found = self.alarms.iter().position(|one| one.is_of(rule, group));
        if gathered.is_well() {
            let wrong = found.filter(|index| self.alarms[*index].alarm.is_wrong());
            let cleared = wrong.map(|index| self.alarms[index].clear(self.now_ns, rule));
            return cleared.unwrap_or_default();
        }
        let index = match found {
            Some(index) => index,
            // What is about to be well needs no alarm any more.
            None if !gathered.is_wrong() => return Vec::new(),
            None => match self.allocate(rule, group) {
                Some(index) => index,
                // Tried again whenever one looks.
                None => return Vec::new(),
            },
        };
        self.alarms[index].look(self.now_ns, rule, gathered).into_iter().collect()
    }

    /// Announcements of a rule's alarms: as soon as one is due, of all of them.
    fn announce(&mut self, rule: &Rule) -> Vec<Change> {
        let now_ns = self.now_ns;
        let mut unannounced: Vec<&mut Standing> = self.alarms.iter_mut().collect();
        unannounced.retain(|one| one.alarm.name == rule.name && one.has_unannounced());
        if !unannounced.iter().any(|one| one.is_due(now_ns, rule)) {
            return Vec::new();
        }
        unannounced.into_iter().filter_map(|one| one.announce(now_ns, rule)).collect()
    }

    /// A new alarm's index; when there are too many, the one that was cleared first goes.
    fn allocate(&mut self, rule: &Rule, group: &str) -> Option<usize> {
        if self.alarms.len() >= ALARMS_MAX {
            let cleared = self.alarms.iter().enumerate();
            let cleared = cleared.filter(|(_, one)| one.alarm.state == AlarmState::Cleared);
            let oldest = cleared.min_by_key(|(_, one)| one.alarm.ended_ns);
            let (oldest, _) = oldest?;
            self.alarms.remove(oldest);
        }
        self.last_id += 1;
        self.alarms.push(Standing::new(self.last_id, rule, group));
        Some(self.alarms.len() - 1)
    }
}

/// For how long an acknowledgement of a rule's alarms holds.
fn held_ns(rules: &[Followed], name: &str) -> u64 {
    let rule = rules.iter().find(|one| one.rule.name == name);
    rule.map_or(0, |one| one.rule.acknowledged_for_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Quantity;
    use crate::rule::Condition;

    #[test]
    fn an_alarm_whose_cause_was_undone_waits_for_nobody() {
        let condition = Condition::Above { threshold: 10.0, clear_at: 8.0 };
        let quantity = Quantity::new("x").unwrap();
        let rule = Rule { latch: true, ..Rule::new("hot", quantity, condition) };
        let mut alarms = Alarms::new(vec![rule]).unwrap();
        let look = |alarms: &mut Alarms, second: u64, value: f64, withdrawn: &str| {
            let mut readings = ReadingTable::default();
            readings.set("x", value);
            alarms.observe(second * 1_000_000_000, true, &readings);
            alarms.withdraw(withdrawn);
            let alarm = &alarms.alarms[0].alarm;
            (alarm.state, alarm.ended_ns)
        };
        assert_eq!(look(&mut alarms, 1, 20.0, "hot"), (AlarmState::Active, None), "it is wrong");
        let ended_ns = Some(2_000_000_000);
        assert_eq!(look(&mut alarms, 2, 0.0, "cold"), (AlarmState::Latched, ended_ns));
        assert_eq!(look(&mut alarms, 3, 0.0, "hot"), (AlarmState::Cleared, ended_ns));
    }
}
