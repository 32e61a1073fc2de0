//! The commands of a session, one at a time, each until it is answered; and what its sender
//! reports. docs/spec/session.md, section 9.

use catchment_wire::event_link::CommandKind;
use catchment_wire::session::{
    self, Answer, AnswerKind, Command, Encoder, Hello, NONE, Records, Text, Value, ValueKind,
    ValueType,
};

use crate::front_ends::{Change, FrontEnd, FrontEnds, Report, Scalar, Stage};

#[cfg(test)]
mod tests;

/// A command without an answer counts as refused after this time in which its sender was read.
const ANSWER_NS: u64 = 3_000_000_000;
/// What a record of a report costs of the time that passes, and the most that is saved up: 100
/// records a second, and 1,000 at once.
const RECORD_NS: u64 = 10_000_000;
const CREDIT_NS: u64 = 1_000 * RECORD_NS;
/// Names that a front-end may report of itself, and beside these of each of its logs.
const REPORTS_MAX: usize = 1_000;
const REPORTS_OF_LOG_MAX: usize = 32;

/// See the [module](self).
pub(crate) struct Commander {
    takes_commands: bool,
    stage: Stage,
    goal: Option<Stage>,
    goals: u64,
    /// What control had asked for when it was looked at last.
    asked: u64,
    /// The number of the last command, and of the last change of settings.
    number: u64,
    changed: u64,
    open: Option<Open>,
    has_refused: bool,
    is_drained: bool,
    /// Whether a ping is to say, before the start, what its sender had made when it was prepared.
    awaits_ping: bool,
    /// What its sender may still report.
    credit_ns: u64,
}

/// A command that is not answered.
struct Open {
    step: Step,
    is_due: bool,
    silent_ns: u64,
}

enum Step {
    To(CommandKind, Stage),
    Set(Change),
}

impl Step {
    fn kind(&self) -> CommandKind {
        match self {
            Self::To(kind, _) => *kind,
            Self::Set(_) => CommandKind::SET,
        }
    }
}

impl Commander {
    /// For a session that begins. One that was commanded in this run before the recorder died goes
    /// on from where it is.
    pub(crate) fn new(hello: &Hello, run_number: u64) -> Self {
        Self {
            takes_commands: hello.flags & Hello::ANSWERS != 0,
            stage: match hello.stage {
                _ if hello.stage_run != run_number as u16 => Stage::Free,
                session::Stage::None => Stage::Free,
                session::Stage::Prepared => Stage::Prepared,
                session::Stage::Running => Stage::Running,
                session::Stage::Paused => Stage::Paused,
                session::Stage::Stopped => Stage::Stopped,
            },
            goal: None,
            goals: 0,
            asked: 0,
            number: hello.command,
            changed: 0,
            open: None,
            has_refused: false,
            is_drained: false,
            awaits_ping: false,
            credit_ns: CREDIT_NS,
        }
    }

    /// Its session goes on into a run, or behind it.
    pub(crate) fn enter(self) -> Self {
        let open = self.open.filter(|open| matches!(open.step, Step::Set(_)));
        let (stage, goal, goals, asked) = (Stage::Free, None, 0, 0);
        let (has_refused, is_drained, awaits_ping) = (false, false, true);
        Self { stage, goal, goals, asked, has_refused, is_drained, awaits_ping, open, ..self }
    }

    /// Takes note of a ping. Whether it says what was made before a start that waits for it.
    pub(crate) fn is_prepared_to_start(&mut self, name: &str, front_ends: &FrontEnds) -> bool {
        let is_it = self.awaits_ping && self.stage == Stage::Prepared;
        if is_it {
            self.awaits_ping = false;
            self.go_on(name, front_ends);
        }
        is_it
    }

    /// Its hello has said what was made before the run: no ping is to say it. Returns whether one
    /// was.
    pub(crate) fn begin_at_hello(&mut self) -> bool {
        std::mem::take(&mut self.awaits_ping)
    }

    /// Whether its sender takes commands.
    pub(crate) fn takes_commands(&self) -> bool {
        self.takes_commands
    }

    /// Its sender is there, or is there again: what it has not answered is said again.
    pub(crate) fn attach(&mut self, name: &str, front_ends: &FrontEnds, program: &str) {
        if let Some(open) = &mut self.open {
            (open.is_due, open.silent_ns) = (true, 0);
        }
        let (takes_commands, stage) = (self.takes_commands, self.stage);
        front_ends.tell(name, |one| {
            (one.is_connected, one.takes_commands, one.stage) = (true, takes_commands, stage);
            one.has_left = false;
            program.clone_into(&mut one.program);
            // All of it is said again.
            one.reports.clear();
            one.status.clear();
        });
        self.look(name, front_ends);
    }

    /// Whether control has asked for something since it was looked at.
    #[inline]
    pub(crate) fn is_behind(&self, front_ends: &FrontEnds) -> bool {
        self.asked != front_ends.asked()
    }

    /// Looks at what control asks for.
    #[cold]
    pub(crate) fn look(&mut self, name: &str, front_ends: &FrontEnds) {
        let (goal, goals) = front_ends.goal();
        self.has_refused &= goals == self.goals;
        (self.asked, self.goal, self.goals) = (front_ends.asked(), goal, goals);
        self.go_on(name, front_ends);
    }

    /// Gives the next command, unless one is open.
    fn go_on(&mut self, name: &str, front_ends: &FrontEnds) {
        if !self.takes_commands || self.open.is_some() {
            return;
        }
        let step = self.goal.and_then(|goal| self.stage.step_to(goal));
        let is_early = |kind| kind == CommandKind::START && self.awaits_ping;
        let step = step
            .filter(|&(kind, _)| !self.has_refused && !is_early(kind))
            .map(|(kind, to)| Step::To(kind, to));
        let change = || front_ends.next_change(name, self.changed).map(Step::Set);
        let Some(step) = step.or_else(change) else {
            return front_ends.tell(name, |one| one.doing = None);
        };
        if let Step::Set(change) = &step {
            self.changed = change.number;
        }
        self.number += 1;
        let (doing, changed) = (step.kind().name(), self.changed);
        front_ends.tell(name, |one| (one.doing, one.change_sent) = (doing, changed));
        self.open = Some(Open { step, is_due: true, silent_ns: 0 });
    }

    /// Takes an answer; one to another command than the last is too late.
    pub(crate) fn answered(
        &mut self,
        name: &str,
        front_ends: &FrontEnds,
        answer: Answer,
        text: &str,
    ) {
        let is_own = answer.number == self.number;
        let Some(open) = self.open.as_mut().filter(|_| is_own) else { return };
        open.silent_ns = 0;
        let result = match answer.answer {
            AnswerKind::Working => return,
            AnswerKind::Agreed | AnswerKind::Done => Ok(()),
            AnswerKind::Refused => Err(text.to_owned()),
        };
        self.settle(name, front_ends, result);
    }

    /// So much time has passed in which its sender was read.
    pub(crate) fn pass_time(&mut self, name: &str, front_ends: &FrontEnds, passed_ns: u64) {
        self.credit_ns = (self.credit_ns + passed_ns).min(CREDIT_NS);
        let Some(open) = self.open.as_mut().filter(|open| !open.is_due) else { return };
        open.silent_ns += passed_ns;
        if open.silent_ns >= ANSWER_NS {
            self.settle(name, front_ends, Err("no answer for 3 s".to_owned()));
        }
    }

    fn settle(&mut self, name: &str, front_ends: &FrontEnds, result: Result<(), String>) {
        let Some(Open { step, .. }) = self.open.take() else { return };
        match (step, result) {
            (Step::Set(change), result) => {
                front_ends.tell(name, |one| one.settle(change.number, result));
            }
            (Step::To(_, stage), Ok(())) => {
                self.stage = stage;
                self.is_drained &= stage == Stage::Stopped;
                let is_drained = self.is_drained;
                front_ends.tell(name, |one| {
                    (one.stage, one.refusal, one.is_drained) = (stage, None, is_drained);
                });
            }
            (Step::To(kind, _), Err(why)) => {
                self.has_refused = true;
                let command = kind.name().unwrap_or_default();
                front_ends.tell(name, |one| one.refusal = Some((command, why)));
            }
        }
        self.go_on(name, front_ends);
    }

    /// How far its sender is with the run.
    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// Whether the run is being stopped.
    #[inline]
    pub(crate) fn is_to_stop(&self) -> bool {
        self.goal == Some(Stage::Stopped)
    }

    /// The number of the last command that was given; 0: none.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// All that its sender had made when it had stopped was taken.
    pub(crate) fn drained(&mut self, name: &str, front_ends: &FrontEnds) {
        if !std::mem::replace(&mut self.is_drained, true) {
            front_ends.tell(name, |one| one.is_drained = true);
        }
    }

    /// Whether a command is to be sent.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.is_due)
    }

    /// Writes the command that is due.
    pub(crate) fn write(
        &mut self,
        (out, message): (&mut [u8], u32),
        (run, run_number): ([u8; 16], u64),
    ) -> usize {
        let Some(open) = &mut self.open else { return 0 };
        (open.is_due, open.silent_ns) = (false, 0);
        let kind = open.step.kind().0;
        let command = Command { number: self.number, run, run_number, kind };
        let mut encoder = Encoder::begin(out, message, &command);
        let Step::Set(change) = &open.step else { return encoder.finish("", &[]) };
        let (value_type, value, text) = change.value.wire();
        let (kind, flags, log) = (ValueKind::SETTING, 0, NONE);
        let (min, max, name) = ([0; 8], [0; 8], change.setting);
        let unit = Text::new("").expect("it is short enough");
        let record = Value { kind, value_type, flags, log, value, min, max, unit, name };
        assert!(encoder.push(&record), "one record fits");
        encoder.finish(text, &[])
    }

    /// Takes what its sender reports, as far as it may report so much. `sources` are the names of
    /// its logs.
    pub(crate) fn reported(
        &mut self,
        (name, sources): (&str, &[String]),
        front_ends: &FrontEnds,
        records: Records<'_, Value>,
        text: &str,
    ) {
        let affordable = (self.credit_ns / RECORD_NS) as usize;
        let taken = records.len().min(affordable);
        self.credit_ns -= taken as u64 * RECORD_NS;
        front_ends.tell(name, |one| {
            one.reports_dropped += (records.len() - taken) as u64;
            let text = if records.len() == 1 { text } else { "" };
            for record in records.iter().take(taken) {
                one.reports_dropped += u64::from(one.take(&record, text, sources).is_none());
            }
        });
    }
}

impl FrontEnd {
    /// Takes a record of a report, or nothing of it. What is said of a log stands under the name of
    /// its source, so that logs do not replace each other's counts. Settings are the front-end's:
    /// a command names none of its logs.
    fn take(&mut self, record: &Value, text: &str, sources: &[String]) -> Option<()> {
        let name = record.name.as_str();
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if record.kind == ValueKind::STATUS {
            text.clone_into(&mut self.status);
            return Some(());
        }
        let is_name = !name.is_empty() && name.bytes().all(is_letter);
        if !is_name {
            return None;
        }
        let name = match record.log {
            NONE => name.to_owned(),
            _ if record.kind == ValueKind::SETTING => name.to_owned(),
            log => format!("{}.{name}", sources.get(log as usize)?),
        };
        let most = REPORTS_MAX + REPORTS_OF_LOG_MAX * sources.len();
        if self.reports.len() >= most && !self.reports.contains_key(&name) {
            return None;
        }
        let scalar = |bytes| Scalar::read(record.value_type, bytes, text);
        let unit = record.unit.as_str().to_owned();
        let report = match record.kind {
            ValueKind::COUNTER => Report::Counter { value: scalar(record.value)?, unit },
            ValueKind::SETTING => {
                let has_bounds = record.min != record.max;
                let bounds = || Some((scalar(record.min)?, scalar(record.max)?));
                let (value, bounds) =
                    (scalar(record.value)?, if has_bounds { Some(bounds()?) } else { None });
                let is_writable = record.flags & Value::WRITABLE != 0;
                Report::Setting { value, unit, bounds, is_writable }
            }
            ValueKind::ALARM => {
                let is_raised = record.flags & Value::RAISED != 0;
                Report::Alarm(is_raised.then(|| text.to_owned()))
            }
            _ => return None,
        };
        self.reports.insert(name, report);
        Some(())
    }
}

impl Scalar {
    fn read(value_type: ValueType, bytes: [u8; 8], text: &str) -> Option<Self> {
        Some(match value_type {
            ValueType::BOOL => Self::Bool(bytes[0] != 0),
            ValueType::I64 => Self::I64(i64::from_le_bytes(bytes)),
            ValueType::U64 => Self::U64(u64::from_le_bytes(bytes)),
            ValueType::F64 => Self::F64(f64::from_le_bytes(bytes)),
            ValueType::TEXT => Self::Text(text.to_owned()),
            _ => return None,
        })
    }

    fn wire(&self) -> (ValueType, [u8; 8], &str) {
        match self {
            Self::Bool(value) => (ValueType::BOOL, u64::from(*value).to_le_bytes(), ""),
            Self::I64(value) => (ValueType::I64, value.to_le_bytes(), ""),
            Self::U64(value) => (ValueType::U64, value.to_le_bytes(), ""),
            Self::F64(value) => (ValueType::F64, value.to_le_bytes(), ""),
            Self::Text(text) => (ValueType::TEXT, [0; 8], text),
        }
    }
}
