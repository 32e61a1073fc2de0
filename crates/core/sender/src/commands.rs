//! Commands of the recorder: each is done once, and its answer repeated when it is asked again.

use catchment_wire::event_link::{CommandKind, MarkKind};
use catchment_wire::session::{
    Answer, AnswerKind, Command, Control, Fault, NONE, Records, Stage, Value, ValueType,
};

use crate::control::Outbox;
use crate::log::Log;
use crate::source::{MarkItem, Push};
use crate::step::RunCommand;

/// The last command, and what became of it.
#[derive(Default)]
pub(crate) struct Commands {
    /// Its number; 0: there was none.
    pub last: u64,
    /// It waits for the caller's answer.
    open: Option<RunCommand>,
    answer: Option<(AnswerKind, String)>,
    /// The answer is to be sent: a refusal now, others as soon as their marks are in the logs.
    is_due: bool,
    /// *Working* is to be said, and when again.
    is_working: bool,
    working_ns: u64,
    /// Marks that wait for room in their logs. The answer waits for them.
    marks: Vec<(u32, MarkItem)>,
    /// Where it is in a run, and the low bits of that run's number.
    pub stage: Stage,
    pub stage_run: u16,
    /// The run that logs have begun and not ended.
    begun: Option<u64>,
}

impl Commands {
    /// Takes a command of a session with so many logs, with its settings and their text. Returns it
    /// if it is new and to be done.
    pub fn take(
        &mut self,
        now_ns: u64,
        command: &Command,
        (settings, text): (&Records<'_, Value>, &str),
        logs: usize,
    ) -> Result<Option<RunCommand>, Fault> {
        let is_known = |log| log == NONE || (log as usize) < logs;
        if let Some(value) = settings.iter().find(|value| !is_known(value.log)) {
            return Err(Fault::UnknownLog { got: value.log });
        }
        if command.number < self.last {
            return Ok(None);
        }
        if command.number == self.last {
            self.is_due = self.answer.is_some();
            return Ok(None);
        }
        self.last = command.number;
        (self.open, self.answer, self.is_working) = (None, None, false);
        // With more records the text is none of theirs.
        let text = if settings.len() == 1 { text } else { "" };
        let is_known = CommandKind(command.kind).name().is_some();
        let settings = match (is_known, self.marks.is_empty()) {
            (false, _) => Err(format!("no command has the kind {}", command.kind)),
            (_, false) => Err("the marks of the command before wait for room".to_owned()),
            _ => settings.iter().map(|value| setting(&value, text)).collect(),
        };
        self.working_ns = now_ns + WORKING_NS;
        match settings {
            Ok(settings) => {
                let Command { number, kind, run_number, .. } = *command;
                self.open = Some(RunCommand { number, kind, run_number, settings });
            }
            Err(why) => self.answer = Some((AnswerKind::Refused, why)),
        }
        self.is_due = self.answer.is_some();
        Ok(self.open.clone())
    }

    /// A new command is about to be handed to the front-end. What it makes while it starts belongs
    /// to the run, so the mark stands before all of that. If it refuses, the mark stays: without a
    /// fragment behind it the run's begin does not move, and its end does not without a *stop*.
    pub fn begin(&mut self, command: &RunCommand, logs: &mut [Log]) {
        if CommandKind(command.kind) == CommandKind::START {
            self.mark_run(MarkKind::Begin, command.run_number, logs);
        }
    }

    /// Takes the answer to the command that is open; another one's is too late, and ignored.
    /// Returns a command that is done.
    pub fn answer(
        &mut self,
        number: u64,
        kind: AnswerKind,
        text: &str,
        logs: &mut [Log],
    ) -> Option<RunCommand> {
        let command = self.open.take_if(|command| command.number == number)?;
        let is_done = matches!(kind, AnswerKind::Agreed | AnswerKind::Done);
        let is_prepare = CommandKind(command.kind) == CommandKind::PREPARE;
        let kind = if is_done && is_prepare { AnswerKind::Agreed } else { kind };
        if is_done {
            self.mark(&command, logs);
        }
        let text = if kind == AnswerKind::Refused && text.is_empty() { "refused" } else { text };
        let end = text.floor_char_boundary(TEXT_BYTES);
        let text = text[..end].replace('\0', " ");
        (self.answer, self.is_due, self.is_working) = (Some((kind, text)), true, false);
        is_done.then_some(command)
    }

    /// The marks by which logs say that a run begins for them, or ends; each once.
    pub fn mark_run(&mut self, kind: MarkKind, run_number: u64, logs: &mut [Log]) {
        let begun = (kind == MarkKind::Begin).then_some(run_number);
        if self.begun == begun {
            return;
        }
        self.begun = begun;
        for log in logs.iter().filter(|log| log.source.config().marks) {
            let text = String::new();
            self.marks.push((log.number, MarkItem { kind, key_last: None, run_number, text }));
        }
        self.insert(logs);
    }

    /// Has *working* said each second, and marks put into logs that had no room for them.
    pub fn work(&mut self, now_ns: u64, logs: &mut [Log]) {
        if !self.marks.is_empty() {
            self.insert(logs);
        }
        if self.is_at_work() && now_ns >= self.working_ns {
            self.working_ns = now_ns + WORKING_NS;
            self.is_working = true;
        }
    }

    /// Whether a command is not answered: nothing said for 3 s counts as refused.
    fn is_at_work(&self) -> bool {
        self.open.is_some() || self.is_due && !self.marks.is_empty()
    }

    /// When it has to be called again.
    pub fn wake_at_ns(&self, now_ns: u64) -> u64 {
        let working = if self.is_at_work() { self.working_ns } else { u64::MAX };
        if self.marks.is_empty() { working } else { working.min(now_ns + MARKS_AGAIN_NS) }
    }

    /// Puts what is due to be said into the outbox.
    pub fn fill(&mut self, outbox: &mut Outbox) {
        let number = self.last;
        if std::mem::take(&mut self.is_working) {
            outbox.send(&Control::Answer(Answer { number, answer: AnswerKind::Working }, ""));
        }
        let may_go = |answer| answer == AnswerKind::Refused || self.marks.is_empty();
        if let Some((answer, text)) = self.answer.as_ref().filter(|(answer, _)| may_go(*answer))
            && std::mem::take(&mut self.is_due)
        {
            outbox.send(&Control::Answer(Answer { number, answer: *answer }, text));
        }
    }

    /// What a command that is agreed to leaves in the logs.
    fn mark(&mut self, command: &RunCommand, logs: &mut [Log]) {
        let stage = match CommandKind(command.kind) {
            CommandKind::PREPARE => Some(Stage::Prepared),
            CommandKind::START | CommandKind::CONTINUE => Some(Stage::Running),
            CommandKind::PAUSE => Some(Stage::Paused),
            CommandKind::STOP => Some(Stage::Stopped),
            CommandKind::CANCEL => Some(Stage::None),
            _ => None,
        };
        if let Some(stage) = stage {
            (self.stage, self.stage_run) = (stage, command.run_number as u16);
        }
        match CommandKind(command.kind) {
            CommandKind::START => self.mark_run(MarkKind::Begin, command.run_number, logs),
            CommandKind::STOP => {
                self.mark_run(MarkKind::End, command.run_number, logs);
                // What it makes from now on is of no run, whatever becomes of its connection.
                logs.iter_mut().for_each(Log::run_ends);
            }
            CommandKind::PREPARE => logs.iter_mut().for_each(Log::run_begins),
            CommandKind::SET => {
                for log in logs.iter() {
                    for (name, value) in &command.settings {
                        let (kind, key_last) = (MarkKind::Setting, None);
                        let text = format!("{name}={value}");
                        let mark = MarkItem { kind, key_last, run_number: 0, text };
                        self.marks.push((log.number, mark));
                    }
                }
                self.insert(logs);
            }
            _ => {}
        }
    }

    fn insert(&mut self, logs: &mut [Log]) {
        self.marks.retain(|(log, mark)| {
            logs[*log as usize].source.mark(None, mark.clone()) == Push::Full
        });
    }
}

/// A setting's name, and its value as text; or why it can be none.
fn setting(value: &Value, text: &str) -> Result<(String, String), String> {
    let (name, bytes) = (value.name.as_str().to_owned(), value.value);
    let text = match value.value_type {
        ValueType::BOOL => (bytes[0] != 0).to_string(),
        ValueType::I64 => i64::from_le_bytes(bytes).to_string(),
        ValueType::U64 => u64::from_le_bytes(bytes).to_string(),
        ValueType::F64 => f64::from_le_bytes(bytes).to_string(),
        ValueType::TEXT => text.to_owned(),
        _ => return Err("a value of unknown type".to_owned()),
    };
    // Both are the text of a mark.
    match name.len() + 1 + text.len() <= TEXT_BYTES {
        true => Ok((name, text)),
        false => Err(format!("the value of {name} is too long")),
    }
}

/// A command that is not answered is said to be worked at so often.
const WORKING_NS: u64 = 1_000_000_000;
/// Marks without room are tried again so often.
const MARKS_AGAIN_NS: u64 = 10_000_000;
/// Bytes of a text.
const TEXT_BYTES: usize = 1_024;
