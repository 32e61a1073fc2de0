//! Random histories of what control asks for, what senders answer, and breaks, against a sender
//! that knows what it was told.

use catchment_fixtures::Random;
use catchment_wire::session::{self, CONTROL, CONTROL_BYTES_MAX, Control, Release, Text, parse};

use super::*;
use crate::config::RecorderConfig;

const NAME: &str = "camera";
const RUN: ([u8; 16], u64) = ([7; 16], 42);
const GOALS: [Stage; 5] =
    [Stage::Free, Stage::Prepared, Stage::Running, Stage::Paused, Stage::Stopped];

fn hello(command: u64) -> Hello {
    Hello {
        session: 1,
        run: [0; 16],
        features: 0,
        buffer_bytes: 0,
        skew_bytes: 0,
        buffer_ms: 0,
        log_count: 1,
        data_connections: 1,
        release: Release::Durable,
        flags: Hello::ANSWERS,
        stage: session::Stage::None,
        stage_run: 0,
        command,
        name: Text::new(NAME).unwrap(),
        program: Text::new("test").unwrap(),
    }
}

/// A sender: what it was told, and where it is by that.
#[derive(Default)]
struct Sender {
    last: u64,
    stage: Stage,
    /// The last command, until it is answered, and where it leads.
    open: Option<(u64, Stage)>,
    settings: Vec<i64>,
}

impl Sender {
    /// Takes a command as a sender must see it: each once, one at a time, on a way that there is.
    fn take(&mut self, command: &Command, setting: Option<i64>) {
        if command.number == self.last {
            assert!(self.open.is_some(), "what was answered is not said again");
            return;
        }
        assert_eq!(command.number, self.last + 1);
        self.last = command.number;
        let kind = CommandKind(command.kind);
        let leads_to = match kind {
            CommandKind::PREPARE if self.stage == Stage::Stopped => (self.stage, Stage::Prepared),
            CommandKind::PREPARE => (Stage::Free, Stage::Prepared),
            CommandKind::START => (Stage::Prepared, Stage::Running),
            CommandKind::PAUSE => (Stage::Running, Stage::Paused),
            CommandKind::CONTINUE => (Stage::Paused, Stage::Running),
            CommandKind::CANCEL => (Stage::Prepared, Stage::Free),
            CommandKind::SET => (self.stage, self.stage),
            CommandKind::STOP => (self.stage, Stage::Stopped),
            other => panic!("{other:?}"),
        };
        assert_eq!(self.stage, leads_to.0, "{kind:?}");
        assert!(kind != CommandKind::STOP || matches!(self.stage, Stage::Running | Stage::Paused));
        self.settings.extend(setting);
        self.open = Some((command.number, leads_to.1));
    }
}

struct Rig {
    front_ends: FrontEnds,
    commander: Commander,
    sender: Sender,
    is_connected: bool,
}

impl Rig {
    fn new() -> Self {
        let front_ends = FrontEnds::new(&RecorderConfig::new("".into(), Vec::new()));
        let mut commander = Commander::new(&hello(0), RUN.1);
        commander.attach(NAME, &front_ends, "test");
        Self { front_ends, commander, sender: Sender::default(), is_connected: true }
    }

    /// A cycle of the thread that receives: it looks at what control asks for, and writes.
    fn cycle(&mut self) {
        if self.commander.is_behind(&self.front_ends) {
            self.commander.look(NAME, &self.front_ends);
        }
        if !self.is_connected || !self.commander.is_due() {
            return;
        }
        let mut out = vec![0; CONTROL_BYTES_MAX as usize];
        let bytes = self.commander.write((&mut out, 0), RUN);
        assert!(!self.commander.is_due(), "it is said once");
        let message = parse(&out[..bytes], 0, CONTROL).unwrap().unwrap();
        let Some(Control::Command(command, settings, _)) = Control::read(&message).unwrap() else {
            panic!("no command");
        };
        assert_eq!((command.run, command.run_number), RUN);
        let setting = settings.iter().next().map(|value| i64::from_le_bytes(value.value));
        self.sender.take(&command, setting);
    }

    fn answer(&mut self, answer: AnswerKind) {
        let Some((number, stage)) = self.sender.open.filter(|_| self.is_connected) else { return };
        if answer != AnswerKind::Working {
            self.sender.open = None;
        }
        if matches!(answer, AnswerKind::Agreed | AnswerKind::Done) {
            self.sender.stage = stage;
        }
        self.commander.answered(NAME, &self.front_ends, Answer { number, answer }, "no");
    }
}

#[test]
fn a_session_that_was_commanded_before_goes_on_from_where_it_is() {
    let stage_of =
        |stage, stage_run| Commander::new(&Hello { stage, stage_run, ..hello(7) }, RUN.1).stage();
    assert_eq!(stage_of(session::Stage::Running, 42), Stage::Running);
    assert_eq!(stage_of(session::Stage::Paused, 42), Stage::Paused);
    // The run before ended without it.
    assert_eq!(stage_of(session::Stage::Running, 41), Stage::Free);
}

#[test]
fn one_that_had_stopped_is_prepared_again_where_its_run_goes_on() {
    let mut rig = Rig::new();
    let stopped = Hello { stage: session::Stage::Stopped, stage_run: 42, ..hello(7) };
    rig.commander = Commander::new(&stopped, RUN.1);
    rig.sender = Sender { last: 7, stage: Stage::Stopped, ..Sender::default() };
    rig.commander.attach(NAME, &rig.front_ends, "test");
    rig.commander.drained(NAME, &rig.front_ends);
    for goal in [Stage::Prepared, Stage::Running] {
        rig.front_ends.go_to(goal);
        assert_eq!(rig.front_ends.arrived(), None);
        rig.cycle();
        rig.answer(AnswerKind::Done);
        assert_eq!((rig.sender.stage, rig.front_ends.arrived()), (goal, Some(Ok(()))));
    }
    rig.front_ends.go_to(Stage::Stopped);
    rig.cycle();
    rig.answer(AnswerKind::Done);
    // What it has made since it was prepared again is waited for, too.
    assert_eq!((rig.sender.stage, rig.front_ends.arrived()), (Stage::Stopped, None));
    rig.commander.drained(NAME, &rig.front_ends);
    assert_eq!(rig.front_ends.arrived(), Some(Ok(())));
}

#[test]
fn a_sender_is_brought_where_control_wants_it_whatever_happens() {
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let (mut rig, mut goal, mut changes) = (Rig::new(), None, Vec::new());
        for _ in 0..200 {
            match random.index(9) {
                0 => {
                    let wanted = GOALS[random.index(GOALS.len())];
                    rig.front_ends.go_to(wanted);
                    goal = Some(wanted);
                }
                1 => {
                    let value = changes.len() as i64;
                    let change = rig.front_ends.change(NAME, "gain", (Scalar::I64(value), "ada"));
                    changes.extend(change.ok().map(|number| (number, value)));
                }
                2 if rig.is_connected => {
                    rig.is_connected = false;
                    rig.front_ends.tell(NAME, FrontEnd::leave);
                }
                2 => {
                    rig.is_connected = true;
                    rig.commander.attach(NAME, &rig.front_ends, "test");
                }
                3 => rig.answer(AnswerKind::Refused),
                4 => rig.answer(AnswerKind::Working),
                5 => rig.commander.pass_time(NAME, &rig.front_ends, 1_000_000_000),
                _ => rig.answer(AnswerKind::Done),
            }
            // An answer that comes after it was given up is too late, and what it did unknown.
            if rig.sender.open.is_some() && rig.commander.open.is_none() {
                rig.sender.open = None;
            }
            rig.cycle();
        }
        // It comes back, and agrees to everything: it gets where it is wanted, if there is a way.
        if !rig.is_connected {
            rig.is_connected = true;
            rig.commander.attach(NAME, &rig.front_ends, "test");
        }
        let wanted = goal.unwrap_or(Stage::Running);
        rig.front_ends.go_to(wanted);
        for _ in 0..100 {
            rig.cycle();
            rig.answer(AnswerKind::Done);
        }
        assert_eq!(rig.sender.stage.step_to(wanted), None, "seed {seed}");
        assert_eq!(rig.front_ends.list()[NAME].stage, rig.sender.stage, "seed {seed}");
        assert_eq!(rig.front_ends.list()[NAME].doing, None, "seed {seed}");
        // Each change was sent once, in turn, unless the sender had gone away; all are answered.
        assert!(rig.sender.settings.is_sorted(), "seed {seed}: {:?}", rig.sender.settings);
        for (number, _) in changes {
            assert!(rig.front_ends.outcome(NAME, number).is_some(), "seed {seed}");
        }
        for (_, change) in rig.front_ends.take_made() {
            assert!(
                matches!(change.value, Scalar::I64(value) if rig.sender.settings.contains(&value))
            );
        }
    }
}
