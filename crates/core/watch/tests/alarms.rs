//! Alarms in virtual time: raised, acknowledged, latched and cleared exactly by rule.

use catchment_watch::{
    ALARMS_MAX, AcknowledgeError, Alarm, AlarmState, Alarms, CLEARED_SHOWN_NS, Change, ChangeKind,
    Condition, FOLLOWED_MAX, GATHER_NS, GONE_NS, Quantity, RETELL_NS, ReadingTable, Rule,
    RuleProblem, Severity, default_rules,
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
    assert_eq!(rig.alarms.list().len(), 4);
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
fn sources_of_a_group_have_one_alarm_and_one_action_with_a_list() {
    let mut rig = Rig::new(silence_with_action());
    let name = |number: usize| format!("small-{number:02}");
    let ages = |rig: &mut Rig, silent: std::ops::Range<usize>| {
        for number in 0..60 {
            let age_s = if silent.contains(&number) { 6.0 } else { 0.1 };
            rig.table.set_group("source", &name(number), "small");
            rig.table.set_of("source", &name(number), "last_packet_seconds", age_s);
        }
    };
    ages(&mut rig, 0..20);
    assert!(rig.look_at_table(true).is_empty(), "others may follow within two seconds");
    assert_eq!(rig.only().state, AlarmState::Active, "it is shown at once");
    ages(&mut rig, 0..58);
    assert!(rig.look_at_table(true).is_empty());
    let changes = rig.look_at_table(true);
    assert_eq!((rig.now_s - 1) * S, GATHER_NS);
    let [change] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!((change.kind, &change.actions[..]), (Raised, &["mail".to_owned()][..]));
    let alarm = &change.alarm;
    let text = "58 of 60 sources in small are silent: small-00, small-01, small-02 and 55 more \
        (no packet for up to 6 s)";
    assert_eq!(alarm.text, text);
    assert_eq!((alarm.group.as_deref(), alarm.source.as_deref()), (Some("small"), None));
    assert_eq!((alarm.source_count, alarm.sources.len()), (58, 58));
    assert_eq!((alarm.since_ns, alarm.raised_count), (S, 1));
    // It ends when all are well, and says what it was about.
    ages(&mut rig, 3..4);
    (0..10).for_each(|_| assert!(rig.look_at_table(true).is_empty()));
    assert_eq!(rig.only().text, "small-03 is silent: no packet for 6 s");
    assert_eq!(rig.only().source.as_deref(), Some("small-03"));
    ages(&mut rig, 0..0);
    let ended: Vec<Change> = (0..6).flat_map(|_| rig.look_at_table(true)).collect();
    let [ended] = &ended[..] else { panic!("{ended:?}") };
    assert_eq!((ended.kind, ended.alarm.text.as_str()), (Cleared, text));
    assert_eq!((ended.alarm.source_count, ended.alarm.ended_ns), (58, Some(rig.now_s * S)));
}

#[test]
fn one_more_source_makes_an_acknowledged_alarm_active_again_and_is_told_of_now_and_then() {
    let mut rig = Rig::new(silence_with_action());
    let set = |rig: &mut Rig, source: &str, age_s: f64| {
        rig.table.set_group("source", source, "small");
        rig.table.set_of("source", source, "last_packet_seconds", age_s);
    };
    let after = |rig: &mut Rig, seconds: u64| -> Vec<(ChangeKind, u64, usize)> {
        let changes = (0..seconds).flat_map(|_| rig.look_at_table(true));
        changes.map(|one| (one.kind, one.alarm.source_count, one.actions.len())).collect()
    };
    for source in ["a", "b", "c", "d"] {
        set(&mut rig, source, 0.1);
    }
    set(&mut rig, "a", 6.0);
    assert_eq!(after(&mut rig, 5), [(Raised, 1, 1)]);
    rig.acknowledge().expect("it is active");
    set(&mut rig, "b", 6.0);
    assert!(after(&mut rig, 1).is_empty());
    assert_eq!((rig.only().state, rig.only().acknowledged_by), (AlarmState::Active, None));
    // Those that come one after the other are told of together, at most once a minute.
    let told_s = RETELL_NS / S;
    assert_eq!(after(&mut rig, told_s), [(ChangeKind::Worsened, 2, 1)]);
    set(&mut rig, "c", 6.0);
    assert!(after(&mut rig, 20).is_empty());
    set(&mut rig, "d", 6.0);
    assert_eq!(after(&mut rig, told_s), [(ChangeKind::Worsened, 4, 1)]);
    rig.acknowledge().expect("it is active");
    // What somebody knows of is no news when it comes back within ten minutes.
    set(&mut rig, "c", 0.1);
    assert!(after(&mut rig, 30).is_empty());
    set(&mut rig, "c", 6.0);
    assert!(after(&mut rig, 30).is_empty());
    assert_eq!(rig.only().state, AlarmState::Acknowledged);
    set(&mut rig, "c", 0.1);
    assert!(after(&mut rig, 700).is_empty());
    set(&mut rig, "c", 6.0);
    assert_eq!(after(&mut rig, 5), [(ChangeKind::Worsened, 4, 1)]);
}

#[test]
fn groups_of_a_rule_are_told_of_together() {
    let mut rig = Rig::new(silence_with_action());
    let set = |rig: &mut Rig, group: &str, age_s: f64| {
        let name = format!("{group}-0");
        rig.table.set_group("source", &name, group);
        rig.table.set_of("source", &name, "last_packet_seconds", age_s);
    };
    for group in ["x", "y", "z"] {
        set(&mut rig, group, 0.1);
    }
    set(&mut rig, "x", 6.0);
    assert!(rig.look_at_table(true).is_empty());
    for group in ["y", "z"] {
        set(&mut rig, group, 6.0);
    }
    assert!(rig.look_at_table(true).is_empty());
    let changes = rig.look_at_table(true);
    assert_eq!(changes.iter().filter(|one| one.kind == Raised).count(), 3, "{changes:?}");
    // A group that all have left has no alarm any more.
    rig.table.set_group("source", "z-0", "y");
    let cleared = rig.look_at_table(true);
    assert_eq!(cleared[0].kind, Cleared);
    assert_eq!(cleared[0].alarm.group.as_deref(), Some("z"));
}

#[test]
fn all_alarms_are_acknowledged_at_once_or_those_that_were_seen() {
    let rules = ["a", "b", "c"].map(|name| Rule { name: name.into(), ..rule("x", ABOVE) });
    let mut rig = Rig::new(rules.to_vec());
    rig.look(Some(20.0));
    let seen = rig.alarms.acknowledge_all(S, Some(&[2, 7]), "ada", Some("looking"));
    assert_eq!(seen.iter().map(|one| one.alarm.id).collect::<Vec<_>>(), [2]);
    assert_eq!(seen[0].alarm.comment.as_deref(), Some("looking"));
    let rest = rig.alarms.acknowledge_all(S, None, "ada", None);
    assert_eq!(rest.iter().map(|one| one.alarm.id).collect::<Vec<_>>(), [1, 3]);
    assert!(rig.alarms.acknowledge_all(S, None, "ada", None).is_empty());
}

#[test]
fn an_alarm_becomes_critical_and_active_again_where_its_value_is_that_bad() {
    let rule = Rule { critical_at: Some(30.0), ..rule("x", ABOVE) };
    let mut rig = Rig::new(vec![rule]);
    assert_eq!(rig.look(Some(20.0))[0].alarm.severity, Severity::Warning);
    rig.acknowledge().expect("it is active");
    let worse = rig.look(Some(31.0));
    assert_eq!((worse[0].kind, worse[0].actions.len()), (ChangeKind::Worsened, 1));
    let alarm = rig.only();
    assert_eq!((alarm.state, alarm.severity), (AlarmState::Active, Severity::Critical));
    rig.acknowledge().expect("it is active");
    assert!(rig.see(&[20.0, 31.0, 20.0]).is_empty(), "it stays critical until it is over");
    assert_eq!(rig.only().severity, Severity::Critical);
    rig.look(Some(0.0));
    rig.look(Some(20.0));
    assert_eq!(rig.only().severity, Severity::Warning);
    let at_once = rig.look(Some(99.0));
    assert_eq!(at_once[0].kind, ChangeKind::Worsened);
}

#[test]
fn what_is_stopped_on_purpose_is_wrong_no_moment_longer() {
    let mut rig = Rig::new(default_rules(S, 0.05));
    for _ in 0..20 {
        rig.table.set_of("source", "a", "last_packet_seconds", 8.0);
        rig.table.set_of("queue", "segments", "fill", 0.93);
        rig.table.set("rows_recorded", 77.0);
        rig.look_at_table(true);
    }
    let wrong = |rig: &Rig| rig.alarms.list().iter().filter(|alarm| alarm.is_wrong()).count();
    assert_eq!(wrong(&rig), 3);
    rig.table.clear();
    rig.look_at_table(false);
    assert_eq!(wrong(&rig), 0);
    for alarm in rig.alarms.list() {
        assert_eq!(alarm.ended_ns, Some(rig.now_s * S), "{}", alarm.name);
    }
}

#[test]
fn causes_come_before_their_effects() {
    let rules = default_rules(S, 0.05).into_iter().rev().collect();
    let mut rig = Rig::new(rules);
    rig.table.set_group("source", "a", "small");
    for _ in 0..30 {
        rig.table.set_of("source", "a", "last_packet_seconds", 8.0);
        rig.table.set_of("queue", "segments", "fill", 0.93);
        rig.table.set("loss_share", 0.9);
        rig.table.set("disk.hours_left", 0.0);
        rig.table.set("rows_recorded", 77.0);
        rig.look_at_table(true);
    }
    let list = rig.alarms.list();
    let names: Vec<&str> = list.iter().map(|alarm| alarm.name.as_str()).collect();
    assert_eq!(names, ["disk_space", "nothing_recorded", "source_silent", "loss", "queue_full"]);
    assert_eq!(list[0].text, "Disk is full: make room, and it is written again by itself");
    assert_eq!(list[3].text, "Losing 90 % of the data");
}

fn silence_with_action() -> Vec<Rule> {
    let mut rules = default_rules(S, 0.05);
    rules.retain(|rule| rule.name == "source_silent");
    rules[0].actions = vec!["mail".into()];
    rules
}

#[test]
fn a_sources_name_is_in_the_text_as_it_is() {
    let rule = Rule { text: "{source}: {value} > {threshold}".into(), ..rule("source.*.t", ABOVE) };
    let mut rig = Rig::new(vec![rule]);
    for (source, value) in [("rich-03", 12.345), ("X:a.b", 1e9), ("{value}", 11.0), ("cold", 1.0)] {
        rig.table.set_group("source", source, source);
        rig.table.set_of("source", source, "t", value);
    }
    rig.table.set("t", 99.0);
    rig.look_at_table(true);
    let mut texts: Vec<String> = rig.alarms.list().into_iter().map(|alarm| alarm.text).collect();
    texts.sort();
    assert_eq!(texts, ["X:a.b: 1 G > 10", "rich-03: 12.3 > 10", "{value}: 11 > 10"]);
}

#[test]
fn alarms_beyond_the_places_are_raised_when_there_is_one() {
    let mut rig = Rig::new(vec![rule("source.*.t", ABOVE)]);
    let source = |number: usize| format!("s{number:05}");
    for number in 0..FOLLOWED_MAX + 7 {
        rig.table.set_of("source", &source(number), "t", 1.0);
    }
    for number in 0..ALARMS_MAX + 2 {
        rig.table.set_group("source", &source(number), &source(number));
        rig.table.set_of("source", &source(number), "t", 20.0);
    }
    let changes: Vec<Change> = (0..3).flat_map(|_| rig.look_at_table(true)).collect();
    assert_eq!(changes.len(), ALARMS_MAX);
    rig.table.set_of("source", &source(5), "t", 1.0);
    let kinds: Vec<ChangeKind> =
        (0..3).flat_map(|_| rig.look_at_table(true)).map(|one| one.kind).collect();
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
    let critical = |at| bad(Rule { critical_at: Some(at), ..rule("x", ABOVE) });
    assert!(matches!(critical(9.0), RuleProblem::CriticalAt { .. }));
    assert!(matches!(critical(f64::INFINITY), RuleProblem::CriticalAt { .. }));
    let twice = Alarms::new(vec![rule("x", ABOVE), rule("y", ABOVE)]).expect_err("twice");
    assert_eq!(twice.problem, RuleProblem::Twice);
    for text in ["", "a b", "a.", ".a", "a..b", "s.*x.y", "*", "*.x", "s.*.", &"x".repeat(300)] {
        assert!(Quantity::new(text).is_err(), "{text}");
    }
}

#[test]
fn the_default_rules_are_there_and_find_what_they_are_for() {
    let rules = default_rules(S, 0.05);
    assert_eq!(
        rules.iter().map(|rule| &*rule.name).collect::<Vec<_>>().join(" "),
        "disk_space nothing_recorded run_interrupted loss bad_data next_file_refused \
         file_list_refused target_fault target_away target_spilling spill_lost spill_space \
         memory_space target_waits best_effort_target_waits source_silent source_out_of_step \
         source_flooding queue_full spill_full bad_sender bad_tag with_holes bad_checksum stranger \
         front_end_alarm front_end_refuses front_end_absent front_end_gone front_end_given_up \
         buffer_short held_at_run_end front_end_unheard"
    );
    let mut rig = Rig::new(rules);
    let mut texts = Vec::new();
    for _ in 0..30 {
        rig.table.set_of("source", "rich-03", "last_packet_seconds", 8.0);
        rig.table.set_of("source", "tof-1", "out_of_step", 1.0);
        rig.table.set_of("queue", "segments", "fill", 0.93);
        rig.table.set("loss_share", 0.015);
        rig.table.set("disk.hours_left", 0.5);
        rig.table.set("rows_recorded", 77.0);
        let changes = rig.look_at_table(true).into_iter();
        texts.extend(changes.map(|change| (rig.now_s, change.alarm.text)));
    }
    let texts: Vec<(u64, &str)> = texts.iter().map(|(at, text)| (*at, text.as_str())).collect();
    assert_eq!(
        texts,
        [
            (1, "Losing 1.5 % of the data"),
            (3, "rich-03 is silent: no packet for 8 s"),
            (5, "tof-1 is out of step: its numbers or clock do not fit, its data are in no event"),
            (5, "Queue segments is 93 % full"),
            (11, "Disk will be full in 30 min"),
            (11, "Nothing has reached the disk for 10 s"),
        ]
    );
}

#[test]
fn a_target_that_waits_for_its_disk_is_named_also_while_its_run_ends() {
    let mut rig = Rig::new(default_rules(S, 0.05));
    let mut seen = Vec::new();
    for second in 1..=30_u64 {
        let waits_s = if second <= 20 { second as f64 } else { 0.0 };
        rig.table.set_of("target", "raid (/data)", "waits_seconds", waits_s);
        rig.table.set_of("target", "copy (/mnt)", "best_effort_waits_seconds", waits_s);
        let changes = rig.look_at_table(second < 3).into_iter();
        seen.extend(changes.map(|one| (one.kind, one.alarm.severity, one.alarm.text)));
    }
    let text = "waits for its disk: a write, a sync or a close has not completed for";
    let said = |kind, severity, of, time| (kind, severity, format!("Target {of} {text} {time}"));
    let expected = [
        said(Raised, Severity::Critical, "raid (/data)", "8 s"),
        said(Raised, Severity::Warning, "copy (/mnt)", "8 s"),
        said(Cleared, Severity::Critical, "raid (/data)", "20 s"),
        said(Cleared, Severity::Warning, "copy (/mnt)", "20 s"),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn an_alarm_about_to_clear_says_what_was_wrong_last_and_not_what_is_well_now() {
    let mut rig = Rig::new(default_rules(S, 0.05));
    let mut seen = Vec::new();
    // Silent, and nothing recorded, until 20 s; then data come again.
    for second in 1..=30_u64 {
        let silent_s = if second <= 20 { second as f64 } else { 0.1 };
        rig.table.set_of("source", "hub-00", "last_packet_seconds", silent_s);
        rig.table.set("rows_recorded", second.saturating_sub(20) as f64);
        let changes = rig.look_at_table(true);
        seen.extend(changes.into_iter().map(|one| (rig.now_s, one.kind, one.alarm.text)));
        assert!(rig.alarms.list().iter().all(|alarm| !alarm.text.contains("less than")));
    }
    let seen: Vec<_> = seen.iter().map(|(at, kind, text)| (*at, *kind, text.as_str())).collect();
    assert_eq!(
        seen,
        [
            (8, Raised, "hub-00 is silent: no packet for 8 s"),
            (11, Raised, "Nothing has reached the disk for 10 s"),
            (26, Cleared, "Nothing has reached the disk for 19 s"),
            (26, Cleared, "hub-00 is silent: no packet for 20 s"),
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
        let mut raised = None;
        for (level, acknowledge) in steps {
            let value = [5.0, 9.0, 9.5, 20.0][usize::from(level)];
            let changes = rig.look(Some(value));
            model.look(rig.now_s, value);
            for change in &changes {
                // Raised and then latched or cleared, in turns; what is told is what is so.
                let is_raised = change.kind == Raised;
                prop_assert_ne!(raised.replace(is_raised), Some(is_raised));
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
        let mut rules = default_rules(u64::MAX, 0.05);
        let window_ns = 4 * S;
        let rises = Condition::RisesFaster { threshold: 1.0, clear_at: 0.0, window_ns };
        rules.push(rule("loss_per_second", rises));
        let mut alarms = Alarms::new(rules).expect("rules");
        for (now_ns, value, recording) in steps {
            let mut table = ReadingTable::default();
            table.set("loss_share", value);
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
