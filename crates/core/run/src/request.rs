//! Requests, what is answered, and the memory of what was answered.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::state::{Action, Command, Illegal, State};

/// How many requests are remembered.
pub const REQUESTS_REMEMBERED: usize = 10_000;
/// The longest request id in bytes.
pub const REQUEST_BYTES_MAX: usize = 128;
/// The longest name of who asks, in bytes.
pub const WHO_BYTES_MAX: usize = 128;
/// The longest comment in bytes.
pub const COMMENT_BYTES_MAX: usize = 4_096;
/// The longest reason that is kept, in bytes; what is longer is cut.
pub const REASON_BYTES_MAX: usize = 1_024;

/// What a client calls its request: a repeated one is executed once. 1 to 128 visible ASCII bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(String);

/// A request for a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// What the client calls it.
    pub id: RequestId,
    /// What to do.
    pub command: Command,
    /// The device to do it; none: all. No device does anything alone: such a request is refused.
    pub device: Option<String>,
    /// Who asks.
    pub who: String,
    /// Why.
    pub comment: Option<String>,
    /// The version of the configuration to use; none: the newest.
    pub configuration: Option<u64>,
    /// The run that it is meant for, as [`crate::Control::set_run`] names it; none: whichever run
    /// there is. The request is refused if that run is not the current one.
    pub run: Option<u64>,
}

/// What a request is answered. A repeated one is answered alike, except that one which was under
/// way may have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is under way: [`crate::Control::poll`] gives the orders.
    Started(CommandResult),
    /// There was nothing to do for any device.
    Done(CommandResult),
    /// It is not done.
    Refused(Refusal),
    /// The same request came before and was not refused: this became of it, or is becoming.
    Repeat(CommandResult),
}

/// Why a request is not done. The last three are not remembered under the request's id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The state does not allow it.
    #[error(transparent)]
    Illegal(Illegal),
    /// Another command is under way.
    #[error("{command} by {who} is under way{}", waits(.waiting_for))]
    UnderWay {
        /// Its request.
        request: RequestId,
        /// Its command.
        command: Command,
        /// Who asked for it.
        who: String,
        /// Who has not answered yet.
        waiting_for: Vec<&'static str>,
    },
    /// There is no such device.
    #[error("there is no device {device}")]
    NoDevice {
        /// The path.
        device: String,
    },
    /// It is meant for a run that is not the current one.
    #[error("{command} is meant for run {run}, but {}", current_run(.current))]
    OtherRun {
        /// The command.
        command: Command,
        /// The run that it is meant for.
        run: u64,
        /// The current run, if there is one.
        current: Option<u64>,
    },
    /// The device goes with the others only.
    #[error("{device} does not {command} alone")]
    NotAlone {
        /// The path.
        device: String,
        /// The command.
        command: Command,
    },
    /// The id was used for another request.
    #[error("the request id {request} was used for another request: {command}")]
    IdUsed {
        /// The id.
        request: RequestId,
        /// The command of the first one.
        command: Command,
    },
    /// A name or comment is too long.
    #[error("{field} has {bytes} bytes: at most {bytes_max}")]
    TooLong {
        /// `who` or `comment`.
        field: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it may be.
        bytes_max: usize,
    },
    /// The node was shut down.
    #[error("the node was shut down")]
    Ended,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommandResult {
    /// What the client calls it.
    pub request: RequestId,
    /// What was asked for.
    pub command: Command,
    /// Of which device, if not of all.
    pub device: Option<String>,
    /// Who asked.
    pub who: String,
    /// How it stands.
    pub status: Status,
    /// The node's state at its end, or now if it is under way.
    pub state: State,
    /// Why it failed.
    pub reason: Option<Reason>,
    /// Why it was refused.
    pub refusal: Option<Refusal>,
    /// The run that it began or ended, as told by [`crate::Control::note_run`].
    pub run: Option<u64>,
    /// When it was asked for.
    pub began_ns: u64,
    /// When it ended.
    pub ended_ns: Option<u64>,
}

/// How a command stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Devices are at it.
    UnderWay,
    /// All devices did it.
    Done,
    /// Some device did not: see the reason.
    Failed,
    /// It was not begun.
    Refused,
}

/// What went wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reason {
    /// The device where it went wrong; none: control itself.
    pub device: Option<&'static str>,
    /// The step that failed; none: the device reported it by itself.
    pub action: Option<Action>,
    /// In plain words, at most 1,024 bytes.
    pub text: String,
    /// When.
    pub since_ns: u64,
}

/// A text is no request id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request id has 1 to {REQUEST_BYTES_MAX} visible ASCII characters, such as a UUID")]
pub struct RequestIdError;

impl RequestId {
    /// Checks a text.
    ///
    /// # Errors
    /// It is empty, too long, or has other characters than visible ASCII.
    pub fn new(text: impl Into<String>) -> Result<Self, RequestIdError> {
        let text = text.into();
        let fits = (1..=REQUEST_BYTES_MAX).contains(&text.len());
        if fits && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(Self(text))
        } else {
            Err(RequestIdError)
        }
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id of a command that control gives itself. Clients cannot take it: it has a space.
    pub(crate) fn own(number: u64) -> Self {
        Self(format!("catchment {number}"))
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Reason {
    /// A reason, cut to what is kept.
    pub(crate) fn new(
        device: Option<&'static str>,
        action: Option<Action>,
        text: &str,
        since_ns: u64,
    ) -> Self {
        let text = match text.trim() {
            "" => "no reason was given",
            text => &text[..text.floor_char_boundary(REASON_BYTES_MAX)],
        };
        Self { device, action, text: text.to_owned(), since_ns }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.device, self.action) {
            (Some(device), Some(action)) => write!(f, "{device}: {action}: {}", self.text),
            (Some(device), None) => write!(f, "{device}: {}", self.text),
            (None, _) => f.write_str(&self.text),
        }
    }
}

impl Request {
    /// Whether its texts are as short as they must be.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let comment = self.comment.as_deref().unwrap_or_default();
        for (field, text, bytes_max) in
            [("who", self.who.as_str(), WHO_BYTES_MAX), ("comment", comment, COMMENT_BYTES_MAX)]
        {
            if text.len() > bytes_max {
                return Err(Refusal::TooLong { field, bytes: text.len(), bytes_max });
            }
        }
        Ok(())
    }

    /// The result before it has one.
    pub(crate) fn result(&self, status: Status, state: State, now_ns: u64) -> CommandResult {
        CommandResult {
            request: self.id.clone(),
            command: self.command,
            device: self.device.clone(),
            who: self.who.clone(),
            status,
            state,
            reason: None,
            refusal: None,
            run: None,
            began_ns: now_ns,
            ended_ns: (status != Status::UnderWay).then_some(now_ns),
        }
    }
}

/// What became of the last 10,000 requests that have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    results: BTreeMap<RequestId, CommandResult>,
    // From the oldest to the newest: an id stands here once.
    ids: VecDeque<RequestId>,
}

impl Memory {
    pub(crate) fn find(&self, id: &RequestId) -> Option<&CommandResult> {
        self.results.get(id)
    }

    /// Remembers a result that is final. What is under way is not here: it cannot be forgotten.
    pub(crate) fn keep(&mut self, result: CommandResult) {
        let id = result.request.clone();
        if self.results.insert(id.clone(), result).is_none() {
            self.ids.push_back(id);
        }
        while self.ids.len() > REQUESTS_REMEMBERED {
            if let Some(oldest) = self.ids.pop_front() {
                self.results.remove(&oldest);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        assert_eq!(self.results.len(), self.ids.len(), "one place for each id");
        self.ids.len()
    }
}

fn current_run(current: &Option<u64>) -> String {
    match current {
        Some(run) => format!("the current run is {run}"),
        None => "there is no current run".to_owned(),
    }
}

fn waits(waiting_for: &[&str]) -> String {
    match waiting_for {
        [] => String::new(),
        [one] => format!(", waiting for {one}"),
        [one, rest @ ..] => format!(", waiting for {one} and {} more", rest.len()),
    }
}
