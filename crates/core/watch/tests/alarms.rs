//! Alarms in virtual time: raised, acknowledged, latched and cleared exactly by rule.

use catchment_watch::{
    ALARMS_MAX, AcknowledgeError, Alarm, AlarmState, Alarms, CLEARED_SHOWN_NS, Change, ChangeKind,
    Condition, FOLLOWED_MAX, GONE_NS, Quantity, ReadingTable, Rule, RuleProblem, Severity,
    default_rules,
};
use proptest::prelude::*;

const S: u64 = 1_000_000_000;
const ABOVE: Condition = Condition::Above { threshold: 10.0, clear_at: 8.0 };

fn rule(quantity: &str, condition: Condition) -> Rule {
    Rule { actions: vec!["mail".into()], ..Rule::new("hot", name(quantity), condition) }
}

fn name(quantity: &str) -> Quantity {
    Quantity::new(quantity).expect("a quantity")
}

struct Rig {
    alarms: Alarms,
    table: ReadingTable,
    now_s: u64,
}

impl Rig {
    fn new(rules: Vec<Rule>) -> Self {
        let alarms = Alarms::new(rules).expect("rules");
        Self { alarms, table: ReadingTable::default(), now_s: 0 }
    }

    /// One look a second at a value that may be unreadable.
    fn look(&mut self, value: Option<f64>) -> Vec<Change> {
        self.table.clear();
        if let Some(value) = value {
            self.table.set("x", value);
        }
        self.look_at_table(true)
    }

    fn look_at_table(&mut self, recording: bool) -> Vec<Change> {
        self.now_s += 1;
        self.alarms.observe(self.now_s * S, recording, &self.table)
    }

    /// What happened while these were seen, one a second.
    fn see(&mut self, values: &[f64]) -> Vec<(u64, ChangeKind)> {
        let mut seen = Vec::new();
        for &value in values {
            let changes = self.look(Some(value));
            seen.extend(changes.iter().map(|change| (self.now_s, change.kind)));
        }
        seen
    }

    fn only(&self) -> Alarm {
        let list = self.alarms.list();
        assert_eq!(list.len(), 1, "{list:?}");
        list[0].clone()
    }

    fn acknowledge(&mut self) -> Result<Change, AcknowledgeError> {
        let id = self.only().id;
        self.alarms.acknowledge(self.now_s * S, id, "ada", Some("looking"))
    }
}

use ChangeKind::{Acknowledged, Cleared, Latched, Raised};

#[test]
fn a_value_that_wavers_about_the_threshold_makes_one_alarm() {
    let mut rig = Rig::new(vec![rule("x", ABOVE)]);
    let wavering: Vec<f64> = (0..1_000).map(|step| 9.0 + f64::from(step % 5)).collect();
    assert_eq!(rig.see(&wavering), [(3, Raised)]);
    assert_eq!(rig.see(&[8.0]), [(1_001, Cleared)]);
    let alarm = rig.only();
    assert_eq!((alarm.raised_count, alarm.value, alarm.threshold), (1, Some(13.0), 10.0));
}

#[test]
fn short_spikes_and_short_lulls_count_for_nothing() {
    let rule = Rule { delay_ns: 2 * S, clear_delay_ns: 3 * S, ..rule("x", ABOVE) };
    let mut rig = Rig::new(vec![rule]);
    assert!(rig.see(&[20.0, 20.0, 0.0, 20.0, 20.0, 0.0]).is_empty());
    assert_eq!(rig.see(&[20.0, 20.0, 20.0, 0.0, 0.0, 0.0, 20.0]), [(9, Raised)]);
    assert_eq!(rig.see(&[0.0, 0.0, 0.0, 0.0]), [(17, Cleared)]);
}

#[test]
fn an_alarm_that_nobody_saw_is_latched_and_one_that_somebody_saw_is_not() {
    let rule = Rule { latch: true, ..rule("x", ABOVE) };
    let mut rig = Rig::new(vec![rule]);
    assert_eq!(rig.see(&[20.0, 0.0]), [(1, Raised), (2, Latched)]);
    assert_eq!(rig.only().state, AlarmState::Latched);
    assert_eq!(rig.see(&[20.0, 0.0]), [(3, Raised), (4, Latched)]);
    assert_eq!(rig.only().raised_count, 2);
    let change = rig.acknowledge().expect("it is latched");
    assert_eq!((change.kind, change.alarm.state), (Acknowledged, AlarmState::Cleared));
    assert_eq!(rig.acknowledge(), Err(AcknowledgeError::Cleared { id: 1 }));
    assert_eq!(rig.see(&[20.0]), [(5, Raised)]);
    rig.acknowledge().expect("it is active");
    assert_eq!(rig.acknowledge(), Err(AcknowledgeError::Already { id: 1 }));
    assert_eq!(rig.see(&[0.0]), [(6, Cleared)]);
    assert_eq!(rig.alarms.acknowledge(0, 7, "", None), Err(AcknowledgeError::Unknown { id: 7 }));
}

#[test]
fn changed_rules_leave_the_alarms_of_the_others_and_their_numbers_as_they_are() {
    let named = |name: &str, quantity: &str| Rule { name: name.into(), ..rule(quantity, ABOVE) };
    let latching = Rule { latch: true, ..named("latching", "y") };
    let rules = vec![named("kept", "x"), named("changed", "x"), named("gone", "x"), latching];
    let mut rig = Rig::new(rules.clone());
    let look = |rig: &mut Rig, x: f64, y: f64| {
        rig.table.set("x", x);
        rig.table.set("y", y);
        let changes = rig.look_at_table(true);
        changes.into_iter().map(|one| (one.alarm.name, one.alarm.id, one.kind)).collect::<Vec<_>>()
    };
    assert_eq!(look(&mut rig, 20.0, 20.0).len(), 4);
    assert_eq!(look(&mut rig, 20.0, 0.0), [("latching".into(), 4, Latched)]);
    rig.alarms.acknowledge(2 * S, 1, "ada", None).expect("it is active");

    let [kept, changed, _, latching] = <[Rule; 4]>::try_from(rules).expect("four");
    let changed = Rule { delay_ns: S, ..changed };
    let other = Condition::Above { threshold: 15.0, clear_at: 8.0 };
    let latching = Rule { condition: other, ..latching };
    let bad = Rule { name: String::new(), ..kept.clone() };
    assert!(rig.alarms.change(vec![bad]).is_err());
    assert_eq!((rig.alarms.list().len(), rig.alarms.rules().count()), (4, 4));
    let new = named("new", "y");
    rig.alarms.change(vec![changed, new, latching, kept]).expect("rules");
    let states = |rig: &Rig| {
        let list = rig.alarms.list().into_iter();
        list.map(|alarm| (alarm.id, alarm.state)).collect::<Vec<_>>()
    };
    assert_eq!(states(&rig), [(4, AlarmState::Latched), (1, AlarmState::Acknowledged)]);

    // Nobody is told again of what is known; what is new has a number that no other had.
    assert!(look(&mut rig, 20.0, 0.0).is_empty());
    let raised = look(&mut rig, 20.0, 20.0);
    assert_eq!(raised.len(), 3, "{raised:?}");
    assert!(raised.contains(&("changed".into(), 5, Raised)), "{raised:?}");
    assert!(raised.contains(&("new".into(), 6, Raised)), "{raised:?}");
    assert!(raised.contains(&("latching".into(), 4, Raised)), "{raised:?}");
    let list = rig.alarms.list();
    let again = list.iter().find(|alarm| alarm.id == 4).expect("it is there");
    assert_eq!((again.threshold, again.raised_count), (15.0, 2));
    rig.alarms.change(Vec::new()).expect("no rules");
    assert!(rig.alarms.list().is_empty());
}

#[test]
fn an_acknowledgement_holds_for_as_long_as_the_rule_says() {
    let rule = Rule { acknowledged_for_ns: 5 * S, ..rule("x", ABOVE) };
    let mut rig = Rig::new(vec![rule]);
    assert_eq!(rig.look(Some(20.0))[0].actions, ["mail"]);
    rig.acknowledge().expect("it is active");
    let cleared = rig.look(Some(0.0));
    assert!(cleared[0].actions.is_empty(), "who acknowledged it needs no mail");
    for _ in 0..4 {
        rig.look(Some(0.0));
    }
    let again = rig.look(Some(20.0));
    assert_eq!((again[0].kind, again[0].alarm.state), (Raised, AlarmState::Acknowledged));
    assert_eq!(again[0].alarm.acknowledged_by.as_deref(), Some("ada"));
    assert!(again[0].actions.is_empty());
    for _ in 0..6 {
        rig.look(Some(0.0));
    }
    rig.look(Some(0.0));
    let late = rig.look(Some(20.0));
    assert_eq!(
        (late[0].alarm.state, late[0].alarm.acknowledged_by.as_deref()),
        (AlarmState::Active, None)
    );
    assert_eq!(late[0].actions, ["mail"]);
}

#[test]
fn values_below_and_rates_up_and_down() {
    let below = Condition::Below { threshold: 1.0, clear_at: 1.5 };
    let mut rig = Rig::new(vec![rule("x", below)]);
    assert_eq!(rig.see(&[2.0, 0.9, 1.4, 1.5]), [(2, Raised), (4, Cleared)]);

    let rises = Condition::RisesFaster { threshold: 5.0, clear_at: 2.0, window_ns: 4 * S };
    let falls = Condition::FallsFaster { threshold: 5.0, clear_at: 2.0, window_ns: 4 * S };
    let falls = Rule { name: "falling".into(), ..rule("x", falls) };
    let mut rig = Rig::new(vec![rule("x", rises), falls]);
    let steady = [100.0; 6];
    assert!(rig.see(&steady).is_empty());
    // 24 within 4 s, once; then it is flat again and the window moves on.
    assert_eq!(rig.see(&[124.0, 124.0, 124.0, 124.0, 124.0]), [(7, Raised), (11, Cleared)]);
    assert_eq!(rig.see(&[118.0, 112.0, 100.0]), [(14, Raised)]);
    assert_eq!(rig.alarms.list()[0].name, "falling");
    assert_eq!(rig.alarms.list()[0].value, Some(6.0));
}

#[test]
fn what_does_not_change_or_cannot_be_read_is_silent() {
    let silence = Condition::NoChange { for_ns: 3 * S };
    let mut rig = Rig::new(vec![rule("x", silence)]);
    // Never read at all: since the first look.
    let kinds: Vec<usize> = (0..5).map(|_| rig.look(None).len()).collect();
    assert_eq!(kinds, [0, 0, 0, 1, 0]);
    assert_eq!(rig.see(&[1.0, 2.0, 2.0, 2.0, 2.0]), [(6, Cleared), (10, Raised)]);
    assert_eq!(rig.see(&[3.0]), [(11, Cleared)]);
    let recording_only = Rule { only_while_recording: true, ..rule("x", silence) };
    let mut rig = Rig::new(vec![recording_only]);
    assert!((0..9).all(|_| rig.look_at_table(false).is_empty()));
    let kinds: Vec<usize> = (0..4).map(|_| rig.look_at_table(true).len()).collect();
    assert_eq!(kinds, [0, 0, 1, 0], "it counts from the last look before it recorded");
    assert_eq!(rig.look_at_table(false)[0].kind, Cleared);
}

#[test]
fn what_cannot_be_read_stays_as_it_is_and_is_gone_after_a_minute() {
    let mut rig = Rig::new(vec![rule("x", ABOVE)]);
    rig.look(Some(20.0));
    for _ in 1..GONE_NS / S {
        assert!(rig.look(Some(f64::NAN)).is_empty());
        assert_eq!(rig.only().state, AlarmState::Active);
    }
    assert_eq!(rig.look(None)[0].kind, Cleared);
    for _ in 0..=CLEARED_SHOWN_NS / S {
        rig.look(None);
    }
    assert!(rig.alarms.list().is_empty());
}

#[test]
fn each_source_has_an_alarm_of_its_own_and_its_name_is_in_the_text() {
    let rule = Rule { text: "{source}: {value} > {threshold}".into(), ..rule("source.*.t", ABOVE) };
    let mut rig = Rig::new(vec![rule]);
    for (source, value) in [("rich-03", 12.345), ("X:a.b", 1e9), ("{value}", 11.0), ("cold", 1.0)] {
        rig.table.set_of("source", source, "t", value);
    }
    rig.table.set("t", 99.0);
    assert_eq!(rig.look_at_table(true).len(), 3);
    let mut texts: Vec<String> = rig.alarms.list().into_iter().map(|alarm| alarm.text).collect();
    texts.sort();
    assert_eq!(texts, ["X:a.b: 1 G > 10", "rich-03: 12.3 > 10", "{value}: 11 > 10"]);
}

#[test]
fn alarms_beyond_the_places_are_counted_and_raised_when_there_is_one() {
    let mut rig = Rig::new(vec![rule("source.*.t", ABOVE)]);
    let source = |number: usize| format!("s{number:05}");
    for number in 0..FOLLOWED_MAX + 7 {
        rig.table.set_of("source", &source(number), "t", 1.0);
    }
    for number in 0..ALARMS_MAX + 2 {
        rig.table.set_of("source", &source(number), "t", 20.0);
    }
    assert_eq!(rig.look_at_table(true).len(), ALARMS_MAX);
    assert!(rig.look_at_table(true).is_empty());
    assert_eq!((rig.alarms.not_raised(), rig.alarms.not_followed()), (2, 14));
    rig.table.set_of("source", &source(5), "t", 1.0);
    let kinds: Vec<ChangeKind> = rig.look_at_table(true).iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [Cleared, Raised], "the cleared one made place");
    assert_eq!(rig.alarms.list().len(), ALARMS_MAX);
}

#[test]
fn the_worst_alarms_come_first() {
    let severe = |name: &str, severity| Rule { name: name.into(), severity, ..rule("x", ABOVE) };
    let rules = vec![
        severe("i", Severity::Info),
        severe("c", Severity::Critical),
        severe("w", Severity::Warning),
    ];
    let mut rig = Rig::new(rules);
    rig.look(Some(20.0));
    let list = rig.alarms.list();
    let names: Vec<&str> = list.iter().map(|alarm| alarm.name.as_str()).collect();
    assert_eq!(names, ["c", "w", "i"]);
    rig.alarms.acknowledge(S, list[0].id, "ada", None).expect("it is active");
    assert_eq!(rig.alarms.list()[2].name, "c");
}

#[test]
fn impossible_rules_are_refused() {
    let bad = |rule: Rule| Alarms::new(vec![rule]).expect_err("a bad rule").problem;
    let above = |threshold, clear_at| Condition::Above { threshold, clear_at };
    assert!(matches!(bad(rule("x", above(f64::NAN, 0.0))), RuleProblem::Threshold { .. }));
    assert!(matches!(bad(rule("x", above(1.0, 2.0))), RuleProblem::ClearAt { .. }));
    let below = Condition::Below { threshold: 2.0, clear_at: 1.0 };
    assert!(matches!(bad(rule("x", below)), RuleProblem::ClearAt { .. }));
    let silence = Condition::NoChange { for_ns: 0 };
    assert_eq!(bad(rule("x", silence)), RuleProblem::Time { time_ns: 0 });
    let window = Condition::RisesFaster { threshold: 1.0, clear_at: 0.0, window_ns: u64::MAX };
    assert_eq!(bad(rule("x", window)), RuleProblem::Time { time_ns: u64::MAX });
    let slow = Rule { delay_ns: u64::MAX, ..rule("x", ABOVE) };
    assert_eq!(bad(slow), RuleProblem::Time { time_ns: u64::MAX });
    assert_eq!(bad(Rule { name: String::new(), ..rule("x", ABOVE) }), RuleProblem::Name);
    assert_eq!(
        bad(Rule { actions: vec!["a".into(); 17], ..rule("x", ABOVE) }),
        RuleProblem::Actions
    );
    let twice = Alarms::new(vec![rule("x", ABOVE), rule("y", ABOVE)]).expect_err("twice");
    assert_eq!(twice.problem, RuleProblem::Twice);
    for text in ["", "a b", "a.", ".a", "a..b", "s.*x.y", "*", "*.x", "s.*.", &"x".repeat(300)] {
        assert!(Quantity::new(text).is_err(), "{text}");
    }
}

#[test]
fn the_default_rules_are_there_and_find_what_they_are_for() {
    let rules = default_rules(S);
    let names: Vec<String> = rules.iter().map(|rule| rule.name.clone()).collect();
    assert_eq!(
        names,
        [
            "source_silent",
            "source_out_of_step",
            "loss",
            "queue_full",
            "disk_space",
            "nothing_recorded"
        ]
    );
    let mut rig = Rig::new(rules);
    let mut texts = Vec::new();
    for _ in 0..30 {
        rig.table.set_of("source", "rich-03", "last_packet_seconds", 8.0);
        rig.table.set_of("source", "tof-1", "out_of_step", 1.0);
        rig.table.set_of("queue", "segments", "fill", 0.93);
        rig.table.set("loss_per_second", 1.5);
        rig.table.set("disk.hours_left", 0.5);
        rig.table.set("rows_recorded", 77.0);
        texts.extend(
            rig.look_at_table(true).into_iter().map(|change| (rig.now_s, change.alarm.text)),
        );
    }
    let texts: Vec<(u64, &str)> = texts.iter().map(|(at, text)| (*at, text.as_str())).collect();
    assert_eq!(
        texts,
        [
            (1, "rich-03 is silent: no packet for 8 s"),
            (1, "data are lost: 1.5 per second"),
            (3, "tof-1 is out of step: its numbers are not the others', its data are discarded"),
            (3, "the queue segments is 93 % full"),
            (11, "the disk is full in 30 min"),
            (11, "nothing has reached the disk for 10 s"),
        ]
    );
}

#[test]
fn an_alarm_about_to_clear_says_what_was_wrong_last_and_not_what_is_well_now() {
    let mut rig = Rig::new(default_rules(S));
    let mut seen = Vec::new();
    // Silent, and nothing recorded, until 20 s; then data come again.
    for second in 1..=30_u64 {
        let silent_s = if second <= 20 { second as f64 } else { 0.1 };
        rig.table.set_of("source", "hub-00", "last_packet_seconds", silent_s);
        rig.table.set("rows_recorded", second.saturating_sub(20) as f64);
        let changes = rig.look_at_table(true);
        seen.extend(changes.into_iter().map(|one| (rig.now_s, one.kind, one.alarm.text)));
        for alarm in rig.alarms.list() {
            assert!(!alarm.text.contains("less than"), "{}", alarm.text);
        }
    }
    let seen: Vec<_> = seen.iter().map(|(at, kind, text)| (*at, *kind, text.as_str())).collect();
    assert_eq!(
        seen,
        [
            (6, Raised, "hub-00 is silent: no packet for 6 s"),
            (11, Raised, "nothing has reached the disk for 10 s"),
            (26, Cleared, "hub-00 is silent: no packet for 20 s"),
            (26, Cleared, "nothing has reached the disk for 19 s"),
        ]
    );
    let values: Vec<_> = rig.alarms.list().into_iter().map(|alarm| alarm.value).collect();
    assert_eq!(values, [Some(19.0), Some(20.0)]);
}

/// The rule again, from the list of all that was seen.
struct Model {
    rule: Rule,
    seen: Vec<f64>,
    on: bool,
    state: Option<AlarmState>,
    known: bool,
    cleared_s: u64,
}

impl Model {
    fn look(&mut self, now_s: u64, value: f64) {
        self.seen.push(value);
        let limit = if self.on { 8.0 } else { 10.0 };
        let otherwise = |value: &&f64| (**value > limit) != self.on;
        let streak = self.seen.iter().rev().take_while(otherwise).count() as u64;
        let delay_ns = if self.on { self.rule.clear_delay_ns } else { self.rule.delay_ns };
        if streak == 0 || (streak - 1) * S < delay_ns {
            return;
        }
        self.on = !self.on;
        self.seen.clear();
        if self.on {
            let held = (now_s - self.cleared_s) * S <= self.rule.acknowledged_for_ns;
            self.known = self.known && self.state == Some(AlarmState::Cleared) && held;
            let known = self.known;
            self.state = Some(if known { AlarmState::Acknowledged } else { AlarmState::Active });
        } else if self.state == Some(AlarmState::Active) && self.rule.latch {
            self.state = Some(AlarmState::Latched);
        } else {
            self.state = Some(AlarmState::Cleared);
            self.cleared_s = now_s;
        }
    }

    fn acknowledge(&mut self, now_s: u64) -> bool {
        match self.state {
            Some(AlarmState::Active) => self.state = Some(AlarmState::Acknowledged),
            Some(AlarmState::Latched) => {
                self.state = Some(AlarmState::Cleared);
                self.cleared_s = now_s;
            }
            _ => return false,
        }
        self.known = true;
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..Default::default() })]

    #[test]
    fn alarms_do_what_the_rule_says(
        delay_s in 0_u64..4,
        clear_delay_s in 0_u64..4,
        held_s in 0_u64..8,
        latch in any::<bool>(),
        steps in prop::collection::vec((0_u8..4, prop::bool::weighted(0.1)), 1..300),
    ) {
        let rule = Rule {
            delay_ns: delay_s * S,
            clear_delay_ns: clear_delay_s * S,
            acknowledged_for_ns: held_s * S,
            latch,
            ..rule("x", ABOVE)
        };
        let mut model = Model {
            rule: rule.clone(),
            seen: Vec::new(),
            on: false,
            state: None,
            known: false,
            cleared_s: 0,
        };
        let mut rig = Rig::new(vec![rule]);
        let mut told = None;
        for (level, acknowledge) in steps {
            let value = [5.0, 9.0, 9.5, 20.0][usize::from(level)];
            let changes = rig.look(Some(value));
            model.look(rig.now_s, value);
            for change in &changes {
                // Raised and then latched or cleared, in turns; what is told is what is so.
                let is_raised = change.kind == Raised;
                prop_assert_ne!(told.replace(is_raised), Some(is_raised));
            }
            let list = rig.alarms.list();
            prop_assert_eq!(list.first().map(|alarm| alarm.state), model.state);
            prop_assert!(list.len() <= 1);
            if let Some(alarm) = list.first().filter(|_| acknowledge) {
                let done = rig.alarms.acknowledge(rig.now_s * S, alarm.id, "ada", None).is_ok();
                prop_assert_eq!(done, model.acknowledge(rig.now_s));
            }
        }
    }

    #[test]
    fn no_readings_and_no_times_break_anything(
        steps in prop::collection::vec((any::<u64>(), any::<f64>(), any::<bool>()), 1..60),
    ) {
        let mut rules = default_rules(u64::MAX);
        let window_ns = 4 * S;
        let rises = Condition::RisesFaster { threshold: 1.0, clear_at: 0.0, window_ns };
        rules.push(rule("loss_per_second", rises));
        let mut alarms = Alarms::new(rules).expect("rules");
        for (now_ns, value, recording) in steps {
            let mut table = ReadingTable::default();
            table.set("loss_per_second", value);
            table.set("disk.hours_left", value);
            table.set_of("source", "a", "last_packet_seconds", value);
            for change in alarms.observe(now_ns, recording, &table) {
                let _ = alarms.acknowledge(now_ns, change.alarm.id, "ada", None);
            }
            prop_assert!(alarms.list().len() <= 6);
        }
    }
}
