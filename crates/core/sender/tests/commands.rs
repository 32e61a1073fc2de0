//! Commands of the recorder, and the marks that follow them.

use catchment_sender::testing::Taken;
use catchment_sender::{
    Action, ConfigError, Fragment, Push, Reading, ReportError, Reports, RunCommand, SenderConfig,
    SenderSession, Setting, SourceConfig,
};
use catchment_wire::event_link::{AbandonReason, CommandKind, MarkKind};
use catchment_wire::session::{
    AnswerKind, Hello, NONE, RunState, Text, Value, ValueKind, ValueType,
};

use crate::support::{MS, SECOND, Wire, config};

fn marking(has_callbacks: bool) -> SenderConfig {
    let source = SourceConfig { marks: true, ..SourceConfig::default() };
    SenderConfig { has_callbacks, ..config(vec![source]) }
}

/// What a setting is set to.
fn setting(value_type: ValueType, value: [u8; 8]) -> Value {
    let (kind, flags, log) = (ValueKind::SETTING, 0, NONE);
    let (unit, name) = (Text::new("").unwrap(), Text::new("gain").unwrap());
    Value { kind, value_type, flags, log, value, min: [0; 8], max: [0; 8], unit, name }
}

fn answers(wire: &Wire) -> Vec<AnswerKind> {
    wire.recorder.commands.iter().map(|(_, answer, _)| *answer).collect()
}

fn kinds(wire: &Wire) -> Vec<MarkKind> {
    let items = &wire.recorder.log("camera").unwrap().items;
    let marks = items.iter().filter_map(|(_, taken)| match taken {
        Taken::Mark { kind, .. } => Some(*kind),
        Taken::Fragment { .. } => None,
    });
    marks.collect()
}

#[test]
fn begin_and_end_of_a_run_stand_where_they_were_answered() {
    let mut wire = Wire::new(marking(false));
    wire.recorder.state = RunState::None;
    wire.settle();
    wire.push(0, 1, b"before");
    wire.recorder.command(CommandKind::PREPARE.0, 43, &[]);
    wire.settle();
    wire.recorder.command(CommandKind::START.0, 43, &[]);
    wire.settle();
    wire.push(0, 2, b"within");
    wire.recorder.command(CommandKind::STOP.0, 43, &[]);
    wire.settle();
    wire.push(0, 3, b"behind");
    wire.settle();
    let items = &wire.recorder.log("camera").unwrap().items;
    let numbers: Vec<u64> = items.iter().map(|(sequence, _)| *sequence).collect();
    assert_eq!(
        (kinds(&wire), numbers),
        (vec![MarkKind::Begin, MarkKind::End], vec![0, 1, 2, 3, 4])
    );
    assert!(matches!(items[3].1, Taken::Mark { keys: (0, 2), .. }), "{:?}", items[3]);
    assert_eq!(answers(&wire), [AnswerKind::Agreed, AnswerKind::Done, AnswerKind::Done]);
}

#[test]
fn what_is_sent_while_the_front_end_starts_is_of_the_run_whether_or_not_it_agrees() {
    for answer in [AnswerKind::Done, AnswerKind::Refused] {
        let mut wire = Wire::new(marking(true));
        wire.recorder.state = RunState::None;
        wire.settle();
        wire.push(0, 1, b"before");
        wire.recorder.command(CommandKind::PREPARE.0, 43, &[]);
        wire.settle();
        wire.sender.answer(1, AnswerKind::Agreed, "");
        wire.settle();
        assert!(kinds(&wire).is_empty());
        wire.recorder.command(CommandKind::START.0, 43, &[]);
        wire.settle();
        // As its callback does.
        wire.push(0, 2, b"within");
        wire.sender.answer(2, answer, "");
        wire.settle();
        let items = &wire.recorder.log("camera").unwrap().items;
        assert_eq!((kinds(&wire), items.len()), (vec![MarkKind::Begin], 3));
        assert!(matches!(items[1].1, Taken::Mark { .. }), "{:?}", items[1]);
        // The next run has its own.
        wire.recorder.command(CommandKind::PREPARE.0, 44, &[]);
        wire.settle();
        wire.sender.answer(3, AnswerKind::Agreed, "");
        wire.settle();
        wire.recorder.command(CommandKind::START.0, 44, &[]);
        wire.settle();
        wire.sender.answer(4, AnswerKind::Done, "");
        wire.settle();
        assert_eq!(kinds(&wire), [MarkKind::Begin; 2]);
    }
}

#[test]
fn who_joins_a_run_begins_it_once() {
    let mut wire = Wire::open(marking(false));
    wire.push(0, 1, b"data");
    wire.settle();
    wire.cut();
    wire.pass_time(SECOND);
    wire.push(0, 2, b"data");
    wire.settle();
    assert_eq!(kinds(&wire), [MarkKind::Begin]);
}

#[test]
fn a_command_is_done_once_and_its_answer_is_given_again() {
    let mut wire = Wire::open(marking(true));
    wire.recorder.command(CommandKind::PAUSE.0, 42, &[]);
    wire.settle();
    let command =
        RunCommand { number: 1, kind: CommandKind::PAUSE.0, run_number: 42, settings: Vec::new() };
    assert_eq!(wire.actions, [Action::Command(command)]);
    wire.pass_time(SECOND);
    wire.sender.answer(1, AnswerKind::Refused, "not now");
    wire.settle();
    wire.recorder.repeat_command();
    wire.settle();
    let answers: Vec<(u64, AnswerKind, &str)> =
        wire.recorder.commands.iter().map(|it| (it.0, it.1, it.2.as_str())).collect();
    let refused = (1, AnswerKind::Refused, "not now");
    assert_eq!(answers, [(1, AnswerKind::Working, ""), refused, refused]);
    assert_eq!(wire.actions.len(), 1);
}

#[test]
fn a_setting_is_marked_and_an_unknown_command_refused() {
    let mut wire = Wire::open(marking(false));
    let gain = setting(ValueType::F64, 2.5_f64.to_le_bytes());
    wire.recorder.command(CommandKind::SET.0, 42, &[gain]);
    wire.settle();
    wire.recorder.command(99, 42, &[]);
    wire.pass_time(MS);
    let last = wire.recorder.log("camera").unwrap().items.last().unwrap().1.clone();
    assert!(
        matches!(last, Taken::Mark { kind: MarkKind::Setting, text, .. } if text == "gain=2.5")
    );
    assert_eq!(answers(&wire), [AnswerKind::Done, AnswerKind::Refused]);
}

#[test]
fn a_command_whose_mark_has_no_room_is_worked_at_until_it_has() {
    let source = SourceConfig { fragment_bytes_max: 1_000, ..SourceConfig::default() };
    let small = SenderConfig { buffer_bytes: 65_536, ..config(vec![source]) };
    let mut wire = Wire::open(small);
    wire.recorder.is_durable_at_once = false;
    let source = wire.sender.source(0).clone();
    for key in 0.. {
        if source.push(Fragment::new(key, b"")) == Ok(Push::Full) {
            break;
        }
    }
    // Ranges of two reasons in turn are not joined.
    let reasons = [AbandonReason::BUFFER, AbandonReason::BUSY];
    let mut reasons = reasons.into_iter().cycle();
    while source.abandon(1, reasons.next().unwrap(), None) == Ok(Push::Accepted) {}
    let gain = setting(ValueType::U64, [5; 8]);
    wire.recorder.command(CommandKind::SET.0, 42, &[gain]);
    wire.pass_time(3 * SECOND);
    assert_eq!(answers(&wire), [AnswerKind::Working; 3]);
    wire.recorder.command(CommandKind::SET.0, 42, &[gain]);
    wire.settle();
    assert_eq!(answers(&wire).last(), Some(&AnswerKind::Refused));
    wire.recorder.is_durable_at_once = true;
    wire.recorder.tell_durable("camera", u64::MAX);
    wire.pass_time(SECOND);
    assert_eq!(kinds(&wire).last(), Some(&MarkKind::Setting));
    wire.recorder.command(CommandKind::SET.0, 42, &[gain]);
    wire.settle();
    assert_eq!(answers(&wire).last(), Some(&AnswerKind::Done));
}

#[test]
fn who_stops_in_a_pause_sends_nothing_meanwhile_and_says_so() {
    let mut wire = Wire::open(SenderConfig { stops_in_pause: true, ..marking(false) });
    assert_eq!(wire.recorder.hello.unwrap().flags, Hello::ANSWERS | Hello::STOPS_IN_PAUSE);
    let taken = |wire: &Wire| wire.recorder.log("camera").unwrap().taken;
    wire.push(0, 1, b"before");
    wire.settle();
    wire.recorder.command(CommandKind::PAUSE.0, 42, &[]);
    wire.settle();
    wire.push(0, 2, b"in the pause");
    wire.pass_time(4 * SECOND);
    assert_eq!((taken(&wire), wire.connects), (2, 1));
    wire.recorder.command(CommandKind::CONTINUE.0, 42, &[]);
    wire.settle();
    assert_eq!(taken(&wire), 3);
    // It comes back into a pause, which the run's stop ends.
    wire.recorder.state = RunState::Paused;
    wire.cut();
    wire.push(0, 3, b"in the pause");
    wire.pass_time(2 * SECOND);
    assert_eq!(taken(&wire), 3);
    wire.recorder.command(CommandKind::STOP.0, 42, &[]);
    wire.settle();
    assert_eq!((taken(&wire), kinds(&wire)), (5, vec![MarkKind::Begin, MarkKind::End]));
}

#[test]
fn more_skew_than_a_recorder_may_grant_is_refused() {
    let config = SenderConfig { skew_bytes: (1 << 30) + 1, ..marking(false) };
    let refused = SenderSession::new(config, 5, 1).map(|_session| ());
    assert_eq!(refused, Err(ConfigError::Skew { got: (1 << 30) + 1 }));
}

#[test]
fn what_is_reported_is_told_once_and_to_each_recorder_anew() {
    let mut wire = Wire::open(marking(true));
    let reports = wire.sender.reports().clone();
    let bounds = Some((Reading::F64(0.0), Reading::F64(20.0)));
    let gain = Setting { value: Reading::F64(2.0), unit: "dB".into(), bounds, is_writable: true };
    reports.setting("gain", gain.clone()).unwrap();
    reports.counter("images", 3, "").unwrap();
    reports.alarm("hot", Some("31 degrees")).unwrap();
    reports.status("cooling down").unwrap();
    let told = |wire: &mut Wire| {
        wire.pass_time(SECOND);
        wire.settle();
        let told = std::mem::take(&mut wire.recorder.reports).into_iter();
        let told = told.filter(|(value, _)| value.log == NONE);
        let mut told: Vec<(String, String)> =
            told.map(|(value, text)| (value.name.as_str().to_owned(), text)).collect();
        told.sort();
        told
    };
    let pair = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let all =
        [pair("", "cooling down"), pair("gain", ""), pair("hot", "31 degrees"), pair("images", "")];
    assert_eq!(told(&mut wire), all);
    reports.setting("gain", gain).unwrap();
    assert_eq!(told(&mut wire), [], "nothing has changed");
    reports.counter("images", 4, "").unwrap();
    assert_eq!(told(&mut wire), [pair("images", "")]);
    // Set from the page: its value is the new one from the answer on.
    let record = setting(ValueType::F64, 7.5_f64.to_le_bytes());
    wire.recorder.command(CommandKind::SET.0, 42, &[record]);
    wire.settle();
    assert_eq!(reports.reading("gain"), Some(Reading::F64(2.0)));
    wire.sender.answer(1, AnswerKind::Done, "");
    assert_eq!(told(&mut wire), [pair("gain", "")]);
    assert_eq!(reports.reading("gain"), Some(Reading::F64(7.5)));
    wire.cut();
    wire.pass_time(SECOND);
    assert_eq!(told(&mut wire), all);
}

#[test]
fn what_a_session_counts_of_its_sources_is_told_each_second_as_far_as_it_has_changed() {
    let source = |name: &str| SourceConfig { name: name.to_owned(), ..SourceConfig::default() };
    let mut wire = Wire::open(config(vec![source("a"), source("b"), source("c")]));
    let told = |wire: &mut Wire| {
        wire.pass_time(SECOND);
        wire.settle();
        let told = std::mem::take(&mut wire.recorder.reports).into_iter();
        let count = |value: &Value| u64::from_le_bytes(value.value);
        let of = |value: Value| (value.log, value.name.as_str().to_owned(), count(&value));
        let told: Vec<_> = told.map(|(value, _)| of(value)).collect();
        assert!(told.len() <= 16, "{told:?}");
        told
    };
    assert_eq!(told(&mut wire), [], "there is nothing to tell");
    wire.push(1, 1, b"one");
    wire.push(1, 2, b"two");
    wire.settle();
    let pair = |log, name: &str, count| (log, name.to_owned(), count);
    let first = [pair(1, "made", 2), pair(1, "taken", 2)];
    let (mut seen, mut rounds) = (Vec::new(), 0);
    while !first.iter().all(|one| seen.contains(one)) && rounds < 5 {
        seen.extend(told(&mut wire));
        rounds += 1;
    }
    assert!(first.iter().all(|one| seen.contains(one)), "{seen:?}");
    assert!(seen.iter().all(|(log, ..)| *log == 1), "{seen:?}");
    // The next opening tells all of it again, and that there was one.
    wire.cut();
    wire.pass_time(SECOND);
    let mut seen = Vec::new();
    (0..5).for_each(|_| seen.extend(told(&mut wire)));
    for one in [pair(0, "resumes", 1), pair(1, "made", 2), pair(2, "resumes", 1)] {
        assert_eq!(seen.iter().filter(|seen| **seen == one).count(), 1, "{one:?} in {seen:?}");
    }
}

#[test]
fn what_does_not_fit_into_a_report_is_refused() {
    let reports = Reports::default();
    let name = |name: &str| Err(ReportError::Name(name.to_owned()));
    assert_eq!(reports.counter("a b", 1, ""), name("a b"));
    assert_eq!(reports.counter("", 1, ""), name(""));
    let long = "x".repeat(1_025);
    assert!(reports.counter("a", 1, &long[..33]).is_err());
    assert!(reports.alarm("a", Some(&long)).is_err());
    assert!(reports.status("a\0").is_err());
    let bounds = Some((Reading::I64(0), Reading::I64(1)));
    let (value, unit) = (Reading::F64(0.5), String::new());
    let setting = Setting { value, unit, bounds, is_writable: true };
    assert_eq!(reports.setting("a", setting), Err(ReportError::Bounds("a".to_owned())));
    for number in 0..500 {
        reports.counter(&format!("n{number}"), 1, "").unwrap();
    }
    assert_eq!(reports.counter("another", 1, ""), Err(ReportError::TooMany));
    assert_eq!(reports.counter("n7", 2, ""), Ok(()));
}

#[test]
fn a_command_is_done_once_wherever_its_connection_is_cut() {
    for bytes in 1..=160 {
        let mut wire = Wire::open(marking(true));
        wire.recorder.command(CommandKind::PREPARE.0, 42, &[]);
        wire.cut_after[1] = Some(bytes);
        wire.pass_time(2 * SECOND);
        wire.recorder.repeat_command();
        wire.pass_time(SECOND);
        assert_eq!(wire.actions.len(), 1, "{bytes}: {:?}", wire.actions);
    }
}

#[test]
fn what_a_front_end_says_that_it_was_set_to_counts() {
    let mut wire = Wire::open(marking(true));
    let reports = wire.sender.reports().clone();
    let gain = |value| Setting {
        value: Reading::F64(value),
        unit: String::new(),
        bounds: None,
        is_writable: true,
    };
    reports.setting("gain", gain(2.0)).unwrap();
    let record = setting(ValueType::F64, 7.0_f64.to_le_bytes());
    wire.recorder.command(CommandKind::SET.0, 42, &[record]);
    wire.settle();
    // It can only do less.
    reports.setting("gain", gain(5.0)).unwrap();
    wire.sender.answer(1, AnswerKind::Done, "");
    assert_eq!(reports.reading("gain"), Some(Reading::F64(5.0)));
}
