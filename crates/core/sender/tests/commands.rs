//! Commands of the recorder, and the marks that follow them.

use catchment_sender::testing::Taken;
use catchment_sender::{Action, RunCommand, SenderConfig, SourceConfig};
use catchment_wire::event_link::{CommandKind, MarkKind};
use catchment_wire::session::{AnswerKind, NONE, RunState, Text, Value, ValueKind, ValueType};

use crate::support::{MS, SECOND, Wire, config};

fn marking(has_callbacks: bool) -> SenderConfig {
    let source = SourceConfig { marks: true, ..SourceConfig::default() };
    SenderConfig { has_callbacks, ..config(vec![source]) }
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
    let answers: Vec<AnswerKind> = wire.recorder.commands.iter().map(|answer| answer.1).collect();
    assert_eq!(answers, [AnswerKind::Agreed, AnswerKind::Done, AnswerKind::Done]);
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
    let gain = Value {
        kind: ValueKind::SETTING,
        value_type: ValueType::F64,
        flags: 0,
        log: NONE,
        value: 2.5_f64.to_le_bytes(),
        min: [0; 8],
        max: [0; 8],
        unit: Text::new("").unwrap(),
        name: Text::new("gain").unwrap(),
    };
    wire.recorder.command(CommandKind::SET.0, 42, &[gain]);
    wire.settle();
    wire.recorder.command(99, 42, &[]);
    wire.pass_time(MS);
    let last = wire.recorder.log("camera").unwrap().items.last().unwrap().1.clone();
    assert!(
        matches!(last, Taken::Mark { kind: MarkKind::Setting, text, .. } if text == "gain=2.5")
    );
    let answers: Vec<AnswerKind> = wire.recorder.commands.iter().map(|answer| answer.1).collect();
    assert_eq!(answers, [AnswerKind::Done, AnswerKind::Refused]);
}
