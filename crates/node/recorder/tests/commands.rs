//! What front-ends are told to do, what they answer, and what they report of themselves.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use catchment_fixtures::wait_while;
use catchment_recorder::{
    FrontEnds, Observer, Recorder, RecorderConfig, Report, Scalar, SourceConfig, Stage,
};
use catchment_wire::event_link::CommandKind;
use catchment_wire::session::{AnswerKind, Hello, NONE, Text, Value, ValueKind, ValueType};
use tempfile::TempDir;

use crate::support;
use crate::support::front_end::{FrontEnd, Opening};

const LOGS: [(&str, u64, u64); 1] = [("", 0, 0)];

fn config(folder: &Path) -> RecorderConfig {
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let source = |name: &str| SourceConfig::over_session(name.to_owned(), address);
    let mut config = support::config(folder, 1);
    config.sources = ["camera", "voltage"].map(source).to_vec();
    config
}

fn begin(is_paused: bool) -> (TempDir, Recorder, Observer) {
    let folder = tempfile::tempdir().unwrap();
    let start = if is_paused { Recorder::start_paused } else { Recorder::start };
    let recorder = start(config(folder.path())).unwrap();
    let observer = recorder.observer();
    (folder, recorder, observer)
}

fn connect(recorder: &Recorder, name: &str) -> FrontEnd {
    connect_again(recorder, name, 0)
}

/// One that has seen so many commands.
fn connect_again(recorder: &Recorder, name: &str, command: u64) -> FrontEnd {
    let opening = Opening::of(name, 7, &LOGS);
    FrontEnd::connect_as(recorder.addresses()[0], &opening, (Hello::ANSWERS, command))
}

/// Waits until all are there, or have refused.
fn arrive(front_ends: &FrontEnds) -> Result<(), String> {
    wait_while(|| front_ends.arrived().is_none());
    front_ends.arrived().unwrap()
}

/// Waits until a change of the camera's is answered.
fn outcome(front_ends: &FrontEnds, number: u64) -> Result<(), String> {
    wait_while(|| front_ends.outcome("camera", number).is_none());
    front_ends.outcome("camera", number).unwrap()
}

fn value(kind: ValueKind, name: &str, value: i64) -> Value {
    Value {
        kind,
        value_type: ValueType::I64,
        flags: Value::WRITABLE,
        log: NONE,
        value: value.to_le_bytes(),
        min: 0_i64.to_le_bytes(),
        max: 10_i64.to_le_bytes(),
        unit: Text::new("dB").unwrap(),
        name: Text::new(name).unwrap(),
    }
}

#[test]
fn a_required_front_end_that_refuses_is_named_and_the_others_are_told() {
    let (_folder, recorder, observer) = begin(true);
    let front_ends = observer.front_ends();
    let (mut camera, mut voltage) = (connect(&recorder, "camera"), connect(&recorder, "voltage"));
    front_ends.go_to(Stage::Prepared);
    assert_eq!(camera.commanded(1), (1, CommandKind::PREPARE));
    assert_eq!(voltage.commanded(1), (1, CommandKind::PREPARE));
    camera.answer(1, AnswerKind::Working, "");
    camera.answer(1, AnswerKind::Agreed, "");
    voltage.answer(1, AnswerKind::Refused, "the crate is off");
    let refused = arrive(front_ends).unwrap_err();
    assert_eq!(refused, "the front-end voltage refuses prepare: the crate is off");
    front_ends.go_to(Stage::Stopped);
    assert_eq!(camera.commanded(2), (2, CommandKind::CANCEL));
    camera.answer(2, AnswerKind::Done, "");
    assert_eq!(arrive(front_ends), Ok(()));
    assert_eq!(voltage.commands.len(), 1, "what it refused need not be undone");
    recorder.stop().unwrap();
}

#[test]
fn who_comes_later_is_brought_to_where_the_others_are_and_a_command_outlives_a_break() {
    let (_folder, recorder, observer) = begin(false);
    let front_ends = observer.front_ends();
    front_ends.go_to(Stage::Running);
    assert_eq!(arrive(front_ends), Ok(()), "nobody is there");
    let mut camera = connect(&recorder, "camera");
    assert_eq!(camera.commanded(1), (1, CommandKind::PREPARE));
    // Another number than the last one's is too late, and counts for nothing.
    camera.answer(9, AnswerKind::Refused, "late");
    drop(camera);
    let mut camera = connect_again(&recorder, "camera", 1);
    assert_eq!(camera.welcome.unwrap().command, 1);
    assert_eq!(camera.commanded(1), (1, CommandKind::PREPARE), "it is said again");
    camera.answer(1, AnswerKind::Agreed, "");
    assert_eq!(camera.commanded(2), (2, CommandKind::START));
    camera.answer(2, AnswerKind::Done, "");
    assert_eq!(arrive(front_ends), Ok(()));
    front_ends.go_to(Stage::Paused);
    assert_eq!(camera.commanded(3), (3, CommandKind::PAUSE));
    camera.answer(3, AnswerKind::Done, "");
    front_ends.go_to(Stage::Running);
    assert_eq!(camera.commanded(4), (4, CommandKind::CONTINUE));
    camera.answer(4, AnswerKind::Done, "");
    assert_eq!(arrive(front_ends), Ok(()));
    assert_eq!(front_ends.list()["camera"].stage, Stage::Running);
    recorder.stop().unwrap();
}

#[test]
fn a_required_front_end_that_goes_away_while_it_prepares_has_not_agreed() {
    let (_folder, recorder, observer) = begin(true);
    let front_ends = observer.front_ends();
    let (mut camera, mut voltage) = (connect(&recorder, "camera"), connect(&recorder, "voltage"));
    front_ends.go_to(Stage::Prepared);
    assert_eq!(voltage.commanded(1), (1, CommandKind::PREPARE));
    drop(voltage);
    wait_while(|| front_ends.list()["voltage"].is_connected);
    assert_eq!(camera.commanded(1), (1, CommandKind::PREPARE));
    camera.answer(1, AnswerKind::Agreed, "");
    let refused = arrive(front_ends).unwrap_err();
    assert_eq!(refused, "the front-end voltage refuses prepare: it has gone away");
    recorder.stop().unwrap();
}

#[test]
fn a_stop_waits_for_what_was_made_before_it() {
    let (_folder, recorder, observer) = begin(false);
    let front_ends = observer.front_ends();
    let mut camera = connect(&recorder, "camera");
    camera.attach(recorder.addresses()[0]);
    front_ends.go_to(Stage::Running);
    for count in [1, 2] {
        let (number, _) = camera.commanded(count);
        camera.answer(number, AnswerKind::Done, "");
    }
    assert_eq!(arrive(front_ends), Ok(()));
    front_ends.go_to(Stage::Stopped);
    assert_eq!(camera.commanded(3), (3, CommandKind::STOP));
    camera.answer(3, AnswerKind::Done, "");
    // One fragment was made, and is on its way.
    camera.ping_made(&[1]);
    assert_eq!((front_ends.arrived(), front_ends.under_way()), (None, vec!["camera".to_owned()]));
    camera.send(0, 0, &[(0, &[1, 2, 3])]);
    assert_eq!(arrive(front_ends), Ok(()));
    let summary = recorder.stop().unwrap();
    assert_eq!(summary.last.counts.events_recorded, 1);
}

#[test]
fn settings_are_reported_and_set_and_reports_are_bounded() {
    let (_folder, recorder, observer) = begin(false);
    let front_ends = observer.front_ends();
    let mut camera = connect(&recorder, "camera");
    camera.report(&[value(ValueKind::SETTING, "gain", 3), value(ValueKind::COUNTER, "n", 5)], "");
    camera.report(&[value(ValueKind::STATUS, "", 0)], "cooling down");
    camera.report(&[Value { flags: 1, ..value(ValueKind::ALARM, "hot", 0) }], "31 degrees");
    // Names that are none, kinds and types that are not known.
    camera.report(
        &[
            value(ValueKind::COUNTER, "a b", 1),
            value(ValueKind(9), "a", 1),
            Value { value_type: ValueType(77), ..value(ValueKind::COUNTER, "a", 1) },
        ],
        "",
    );
    camera.ping();
    let one = front_ends.list().remove("camera").unwrap();
    let (unit, bounds) = ("dB".to_owned(), Some((Scalar::I64(0), Scalar::I64(10))));
    let gain = Report::Setting { value: Scalar::I64(3), unit, bounds, is_writable: true };
    assert_eq!(one.reports["gain"], gain);
    assert_eq!(one.reports["hot"], Report::Alarm(Some("31 degrees".to_owned())));
    assert_eq!((one.status.as_str(), one.reports_dropped), ("cooling down", 3));
    assert_eq!(one.reports.len(), 3);

    let number = front_ends.change("camera", "gain", (Scalar::I64(4), "ada")).unwrap();
    assert_eq!(camera.commanded(1), (1, CommandKind::SET));
    let (_, settings, _) = &camera.commands[0];
    assert_eq!((settings[0].name.as_str(), settings[0].value), ("gain", 4_i64.to_le_bytes()));
    camera.answer(1, AnswerKind::Refused, "it is in use");
    let refused = outcome(front_ends, number);
    assert_eq!(refused, Err("it is in use".to_owned()));
    let number =
        front_ends.change("camera", "label", (Scalar::Text("left".to_owned()), "ada")).unwrap();
    assert_eq!(camera.commanded(2), (2, CommandKind::SET));
    assert_eq!(camera.commands[1].2, "left");
    camera.answer(2, AnswerKind::Done, "");
    assert_eq!(outcome(front_ends, number), Ok(()));

    let many = [value(ValueKind::COUNTER, "n", 5); 100];
    // Far more than the time that this takes may allow.
    for _ in 0..300 {
        camera.report(&many, "");
    }
    camera.ping();
    assert!(front_ends.list()["camera"].reports_dropped > 1_000);
    drop(camera);
    wait_while(|| front_ends.list()["camera"].is_connected);
    let gone = front_ends.change("camera", "gain", (Scalar::I64(4), "ada")).unwrap_err();
    assert_eq!(gone, "the front-end camera is not connected");
    recorder.stop().unwrap();
}
