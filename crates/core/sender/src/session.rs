//! A session: which connections there are, what travels on them, and when it goes on after a
//! break. docs/spec/session.md, sections 2 to 7.
//!
//! ```text
//! away -> connecting -> opening -> open -> closing -> ended
//!   ^          |           |        |         |
//!   '----------'-----------'--------'---------'   any break: close all, wait, connect
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use catchment_wire::event_link::{CommandKind, MarkKind};
use catchment_wire::session::{
    self as wire, Answer, AnswerKind, Attach, Bye, ByeReason, Control, Fault, Hello, LogPositions,
    OPENING_NS, Ping, Positions, Preamble, RECORDS_MAX, Records, Release, RunState, Welcome,
};

use crate::commands::Commands;
use crate::control::{Inbox, Incoming, Outbox};
use crate::counts::Counts;
use crate::data::DataConnection;
use crate::log::Log;
use crate::opening::{Agreed, Opening, hello, preamble, within};
use crate::reports::Reports;
use crate::retry::Retry;
use crate::source::{Fragment, Push, PushError, Source};
use crate::step::{Action, Connection, RunCommand, SenderState, Step};
use crate::{ConfigError, SenderConfig};

/// A sender's end of a session. See the [crate's page](crate).
pub struct SenderSession {
    config: SenderConfig,
    session: u64,
    logs: Vec<Log>,
    inbox: Inbox,
    outbox: Outbox,
    data: Vec<DataConnection>,
    phase: Phase,
    opening: Opening,
    agreed: Agreed,
    /// The run that held items belong to: that of the last welcome of which all grants came.
    run: [u8; 16],
    commands: Commands,
    reports: Reports,
    counts: Counts,
    /// Reports that were made when the last command came.
    reported_before: u64,
    retry: Retry,
    actions: VecDeque<Action>,
    /// When it was called last, and for how long the recorder was silent since.
    polled_ns: u64,
    silent_ns: u64,
    pings: Pings,
    /// It ends when everything is confirmed, and at this time in any case.
    finish_ns: Option<u64>,
    /// A data connection has ended, why, and when that is a break if no `bye` has come.
    ended: Option<(u64, Arc<str>)>,
    /// Why it is not open, or has ended.
    why: Option<Arc<str>>,
    has_released: bool,
}

/// For one gathering write: header and head, the payload in one or two pieces, padding.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slices<'a>(pub [&'a [u8]; 4]);

impl Slices<'_> {
    /// Bytes of all.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|slice| slice.len()).sum()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Away {
        until_ns: u64,
    },
    Connecting,
    Opening {
        until_ns: u64,
    },
    Open,
    /// A `bye` is said; afterwards it connects again, unless it ends.
    Closing {
        until_ns: u64,
        ends: bool,
    },
    Ended,
}

#[derive(Default)]
struct Pings {
    next_ns: u64,
    cookie: u64,
    /// The log at which the next ping begins, since not all may fit into one.
    log: usize,
}

impl SenderSession {
    /// A session with the number `session`, which is drawn at random when the sender starts. `seed`
    /// draws its waits. All memory is taken here.
    ///
    /// # Errors
    /// A configuration that no recorder would admit.
    ///
    /// # Panics
    /// A session of number 0.
    pub fn new(config: SenderConfig, session: u64, seed: u64) -> Result<Self, ConfigError> {
        assert!(session != 0, "0 is the number of no session");
        config.check()?;
        let is_packets = config.service == wire::Service::Channels;
        let count = config.sources.len();
        let connections = count.min(wire::DATA_CONNECTIONS_MAX.into());
        let logs: Vec<Log> = (config.sources.iter().enumerate())
            .map(|(index, source)| {
                let connection = (index % connections) as u16;
                let ring_bytes = config.ring_bytes(source);
                let source = Source::new(source.clone(), ring_bytes, is_packets);
                Log::new(source, index as u32, connection)
            })
            .collect();
        let of = |connection: usize| (connection..count).step_by(connections);
        let data = (0..connections)
            .map(|connection| {
                let logs = of(connection).map(|log| log as u32).collect();
                DataConnection::new(logs, is_packets)
            })
            .collect();
        let (inbox, outbox, commands) = Default::default();
        Ok(Self {
            config,
            session,
            logs,
            inbox,
            outbox,
            data,
            phase: Phase::Away { until_ns: 0 },
            opening: Opening::new(count),
            agreed: Agreed::default(),
            run: [0; 16],
            commands,
            reports: Reports::default(),
            counts: Counts::new(count),
            reported_before: 0,
            retry: Retry::new(seed),
            actions: VecDeque::new(),
            polled_ns: 0,
            silent_ns: 0,
            pings: Pings::default(),
            finish_ns: None,
            ended: None,
            why: None,
            has_released: false,
        })
    }

    /// The end of a source at which fragments go in.
    ///
    /// # Panics
    /// A number beyond the sources.
    pub fn source(&self, log: u32) -> &Source {
        &self.logs[log as usize].source
    }

    /// All sources, by number.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.logs.iter().map(|log| &log.source)
    }

    /// Appends a fragment to a log.
    ///
    /// # Errors
    /// As [`Source::push`].
    ///
    /// # Panics
    /// A number beyond the sources.
    pub fn push(&mut self, log: u32, fragment: Fragment<'_>) -> Result<Push, PushError> {
        self.source(log).push(fragment)
    }

    /// Data connections that it has when it is open.
    pub fn data_connections(&self) -> u16 {
        self.data.len() as u16
    }

    /// Where it stands.
    pub fn state(&self) -> SenderState {
        let why = || self.why.clone();
        match self.phase {
            Phase::Open => SenderState::Open,
            Phase::Opening { .. } => SenderState::Opening,
            Phase::Ended => SenderState::Ended(why()),
            _ => SenderState::Away(why().unwrap_or_else(|| "not connected yet".into())),
        }
    }

    /// Items of all sources that no answer has confirmed.
    pub fn unconfirmed(&self) -> u64 {
        self.sources().map(Source::unconfirmed).sum()
    }

    /// Whether anything was given back since the last call.
    pub fn take_released(&mut self) -> bool {
        std::mem::take(&mut self.has_released)
    }

    /// Nothing more comes from the front-end: ends as soon as everything is confirmed, and at the
    /// deadline in any case.
    pub fn finish(&mut self, deadline_ns: u64) {
        self.finish_ns = Some(deadline_ns);
        let reason = "the front-end has closed its session".into();
        self.sources().for_each(|source| source.end(&reason));
    }

    /// Answers a command that [`Action::Command`] has named; too late an answer is ignored.
    pub fn answer(&mut self, number: u64, answer: AnswerKind, text: &str) {
        let done = self.commands.answer(number, answer, text, &mut self.logs);
        let Some(RunCommand { kind, settings, .. }) = done else { return };
        match CommandKind(kind) {
            CommandKind::PREPARE | CommandKind::SET => {}
            kind => self.pause(kind == CommandKind::PAUSE),
        }
        for (name, value) in settings {
            self.reports.set(&name, &value, self.reported_before);
            self.pings.next_ns = 0;
        }
    }

    fn pause(&mut self, is_paused: bool) {
        self.agreed.is_paused = is_paused && self.config.stops_in_pause;
    }

    /// What the front-end reports of itself.
    pub fn reports(&self) -> &Reports {
        &self.reports
    }

    /// A connection that was asked for is there.
    pub fn opened(&mut self, now_ns: u64, connection: Connection) {
        match (connection, self.phase) {
            (Connection::Control, Phase::Connecting) => {
                self.phase = Phase::Opening { until_ns: now_ns + OPENING_NS };
                self.opening.begin();
                (self.silent_ns, self.polled_ns) = (0, now_ns);
            }
            (Connection::Data(number), Phase::Open) => {
                let Agreed { ticket, .. } = self.agreed;
                let attach = Attach { session: self.session, ticket, connection: number };
                let preamble = preamble(self.config.service, wire::Connection::Data);
                self.data[usize::from(number)].open(now_ns, &preamble, &attach);
            }
            _ => {}
        }
    }

    /// A connection is gone, or could not be made. Where a data connection ends first, `bye` may be
    /// under way on control.
    pub fn closed(&mut self, now_ns: u64, connection: Connection, why: &str) {
        match self.phase {
            Phase::Away { .. } | Phase::Ended => {}
            Phase::Open if let Connection::Data(number) = connection => {
                // Positions that are still under way may be within its last message.
                let data = &mut self.data[usize::from(number)];
                data.sent_within(&mut self.logs);
                data.reset();
                self.ended.get_or_insert_with(|| (now_ns + BYE_NS, why.into()));
            }
            Phase::Closing { ends: true, .. } => self.end(None),
            // The reason of our own `bye` tells more.
            Phase::Closing { ends: false, .. } => self.leave(now_ns),
            _ => self.break_off(now_ns, why, None),
        }
    }

    /// Takes what came on the control connection. A framing fault ends the connection, and the
    /// session resumes; the third one without progress ends the session.
    ///
    /// # Errors
    /// The fault, for a log.
    pub fn received(&mut self, now_ns: u64, mut bytes: &[u8]) -> Result<(), Fault> {
        self.silent_ns = 0;
        while !bytes.is_empty() && self.is_read() {
            let mut inbox = std::mem::take(&mut self.inbox);
            let taken = inbox.take(bytes);
            let handled = self.handle(now_ns, &mut inbox);
            if let Err(fault) = handled {
                let detail = inbox.messages.into();
                self.retry.fault();
                let retry_ms = if self.retry.is_over() { 0 } else { 1_000 };
                let bye = Bye { reason: ByeReason::MALFORMED, retry_ms, detail };
                self.why = Some(format!("the recorder's bytes: {fault}").into());
                self.outbox.send(&Control::Bye(bye, &fault.to_string()));
                self.phase = Phase::Closing { until_ns: now_ns + CLOSING_NS, ends: false };
                return Err(fault);
            }
            if self.is_read() {
                self.inbox = inbox;
            }
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// What a socket has to take next; nothing if it has nothing to take.
    pub fn transmit(&mut self, now_ns: u64, on: Connection) -> Slices<'_> {
        match on {
            Connection::Control => {
                if self.outbox.is_flushed() {
                    self.fill(now_ns);
                }
                Slices([self.outbox.outgoing(), &[], &[], &[]])
            }
            Connection::Data(number) if self.phase == Phase::Open => {
                let data = &mut self.data[usize::from(number)];
                data.compose(now_ns, &mut self.logs, &self.agreed);
                data.slices(&self.logs)
            }
            Connection::Data(_) => Slices::default(),
        }
    }

    /// Takes note of how much of it the socket took.
    ///
    /// # Panics
    /// More than it was given.
    pub fn sent(&mut self, on: Connection, bytes: usize) {
        match on {
            Connection::Control => self.outbox.sent(bytes),
            Connection::Data(number) => {
                self.data[usize::from(number)].sent(bytes, &mut self.logs);
            }
        }
    }

    /// Does what time asks for. To be called again after each action, and at `wake_at_ns` at the
    /// latest.
    pub fn work(&mut self, now_ns: u64) -> Step {
        let polled_ns = now_ns.saturating_sub(self.polled_ns).min(POLLED_NS_MAX);
        self.polled_ns = now_ns;
        match self.phase {
            Phase::Away { until_ns } if now_ns >= until_ns => {
                self.phase = Phase::Connecting;
                self.actions.push_back(Action::Connect(Connection::Control));
            }
            Phase::Opening { until_ns } if now_ns >= until_ns => {
                self.break_off(now_ns, "the recorder has not answered the hello for 3 s", None);
            }
            Phase::Open => {
                self.commands.work(now_ns, &mut self.logs);
                self.judge(now_ns, polled_ns);
                if let Some((_, why)) = self.ended.take_if(|(until_ns, _)| now_ns >= *until_ns) {
                    self.break_off(now_ns, &why, None);
                }
            }
            Phase::Closing { until_ns, ends } => {
                if ends && now_ns >= until_ns {
                    self.end(None);
                } else if !ends && (self.outbox.is_flushed() || now_ns >= until_ns) {
                    self.leave(now_ns);
                }
            }
            _ => {}
        }
        if let Some(deadline_ns) = self.finish_ns {
            self.try_to_finish(now_ns, deadline_ns);
        }
        Step { action: self.actions.pop_front(), wake_at_ns: self.wake_at_ns(now_ns) }
    }

    fn wake_at_ns(&self, now_ns: u64) -> u64 {
        let at = match self.phase {
            Phase::Away { until_ns } | Phase::Opening { until_ns } => until_ns,
            Phase::Closing { until_ns, .. } => until_ns,
            Phase::Connecting | Phase::Ended => u64::MAX,
            Phase::Open => {
                let data = self.data.iter();
                let data = data.map(|data| data.wake_at_ns(&self.logs, &self.agreed)).min();
                // A ping waits until the socket has taken what is before it.
                let is_flushed = self.outbox.is_flushed();
                let ping = if is_flushed { self.pings.next_ns } else { u64::MAX };
                let ended = self.ended.as_ref().map_or(u64::MAX, |(until_ns, _)| *until_ns);
                let at = self.commands.wake_at_ns(now_ns).min(data.unwrap_or(u64::MAX)).min(ping);
                let at = at.min(ended);
                at.min(now_ns + POLLED_NS_MAX)
            }
        };
        let is_ending = matches!(self.phase, Phase::Ended | Phase::Closing { ends: true, .. });
        self.finish_ns.filter(|_| !is_ending).map_or(at, |deadline_ns| at.min(deadline_ns))
    }

    /// Closes the session if its peer is silent, or takes nothing.
    fn judge(&mut self, now_ns: u64, polled_ns: u64) {
        self.silent_ns += polled_ns;
        let silence_ns = self.agreed.silence_ns;
        let stalled = self.data.iter_mut().map(|data| data.stalled(polled_ns)).max();
        if self.silent_ns >= silence_ns {
            self.break_off(now_ns, "the recorder is silent", None);
        } else if self.outbox.stalled(polled_ns) >= STALLED_NS_MAX {
            self.break_off(now_ns, "the recorder takes nothing of control", None);
        } else if stalled.is_some_and(|stalled_ns| stalled_ns >= silence_ns) {
            self.break_off(now_ns, "the recorder reads no data, and does not say so", None);
        }
    }

    fn try_to_finish(&mut self, now_ns: u64, deadline_ns: u64) {
        let unconfirmed = self.unconfirmed();
        if unconfirmed > 0 && now_ns < deadline_ns {
            return;
        }
        match self.phase {
            Phase::Open => {
                let bye = Bye { reason: ByeReason::DONE, retry_ms: 0, detail: unconfirmed };
                self.outbox.send(&Control::Bye(bye, ""));
                self.phase = Phase::Closing { until_ns: now_ns + CLOSING_NS, ends: true };
            }
            Phase::Closing { ends: true, .. } | Phase::Ended => {}
            _ => self.end(None),
        }
    }

    /// A `bye` was said.
    fn leave(&mut self, now_ns: u64) {
        let why = self.why.take().unwrap_or_default();
        match self.retry.is_over() {
            true => self.end(Some(&why)),
            false => self.break_off(now_ns, &why, None),
        }
    }

    /// All connections end, and the session goes on after a wait.
    fn break_off(&mut self, now_ns: u64, why: &str, wait_ns: Option<u64>) {
        let wait_ns = wait_ns.unwrap_or_else(|| self.retry.next_ns());
        self.close();
        self.why = Some(why.into());
        self.phase = Phase::Away { until_ns: now_ns + wait_ns };
    }

    /// The session is over.
    fn end(&mut self, why: Option<&str>) {
        self.close();
        self.why = why.map(Into::into);
        self.phase = Phase::Ended;
        let reason: Arc<str> = why.unwrap_or("the session has ended").into();
        self.sources().for_each(|source| source.end(&reason));
        self.has_released = true;
        self.actions.push_back(Action::End);
    }

    fn close(&mut self) {
        // A command is done whether the connection lasts or not: it is not given again.
        self.actions.retain(|action| !matches!(action, Action::Connect(_)));
        self.actions.push_back(Action::Close);
        self.ended = None;
        self.inbox = Inbox::default();
        self.outbox.reset();
        self.data.iter_mut().for_each(DataConnection::reset);
    }

    /// Whether what comes is looked at: after a fault no border in it can be trusted.
    fn is_read(&self) -> bool {
        match self.phase {
            Phase::Opening { .. } | Phase::Open => true,
            Phase::Closing { ends, .. } => ends,
            Phase::Away { .. } | Phase::Connecting | Phase::Ended => false,
        }
    }

    /// Makes the control messages that are due.
    fn fill(&mut self, now_ns: u64) {
        match self.phase {
            Phase::Opening { .. } => {
                let Self { config, session, logs, data, run, commands, .. } = self;
                let hello = || hello(config, *session, *run, commands, logs, data.len());
                self.opening.describe(&mut self.outbox, config, logs, hello);
            }
            Phase::Open => {
                self.commands.fill(&mut self.outbox);
                if now_ns >= self.pings.next_ns {
                    self.pings.next_ns = now_ns + self.agreed.ping_ns;
                    self.ping();
                    self.reports.fill(&mut self.outbox);
                    self.counts.fill(now_ns, &self.logs, &mut self.outbox);
                }
            }
            _ => {}
        }
    }

    /// A ping with the logs that have changed, as many as fit.
    fn ping(&mut self) {
        self.pings.cookie += 1;
        let (count, begin) = (self.logs.len(), self.pings.log);
        let (mut asked, mut fitting) = (0, 0);
        let logs = &mut self.logs;
        let changed = std::iter::from_fn(|| {
            while asked < count && fitting < PING_RECORDS_MAX {
                let index = (begin + asked) % count;
                asked += 1;
                if let Some(ping) = logs[index].ping() {
                    fitting += 1;
                    return Some(ping);
                }
            }
            None
        });
        self.outbox.records(&Ping { cookie: self.pings.cookie }, changed);
        self.pings.log = (begin + asked) % count;
    }

    /// Takes everything that is whole.
    fn handle(&mut self, now_ns: u64, inbox: &mut Inbox) -> Result<(), Fault> {
        while self.is_read() {
            let Some(incoming) = inbox.next()? else { return Ok(()) };
            if matches!(self.phase, Phase::Closing { .. }) {
                if let Incoming::Message(Control::Bye(..)) = incoming {
                    self.closed(now_ns, Connection::Control, "the recorder has closed the session");
                }
                continue;
            }
            match incoming {
                Incoming::Skipped => {}
                Incoming::Preamble(preamble) => self.take_versions(&preamble),
                Incoming::Message(message) => self.take(now_ns, &message)?,
            }
        }
        Ok(())
    }

    fn take(&mut self, now_ns: u64, message: &Control<'_>) -> Result<(), Fault> {
        let is_open = self.phase == Phase::Open;
        match message {
            Control::Bye(bye, text) => self.take_bye(now_ns, bye, text),
            Control::Welcome(welcome) if !is_open => {
                let (session, count) = (self.session, self.logs.len());
                let opening = &mut self.opening;
                if !opening.take_welcome(welcome, session, count, &mut self.agreed)? {
                    self.break_off(now_ns, "a recorder of a lower epoch has answered", None);
                }
            }
            Control::Grants(grants) if !is_open => {
                for grant in grants.iter() {
                    let release = self.config.release;
                    let items = self.opening.take_grant(&grant, &mut self.logs, release)?;
                    self.has_released = true;
                    if items > 0 {
                        self.actions.push_back(Action::GaveUp { log: grant.log, items });
                    }
                }
                if self.opening.is_complete(self.logs.len()) {
                    self.open(now_ns);
                }
            }
            Control::Positions(positions, logs) if is_open => {
                self.take_positions(positions, logs)?;
            }
            Control::Command(command, settings, text) if is_open => {
                let logs = self.logs.len();
                let taken = self.commands.take(now_ns, command, (settings, text), logs)?;
                let Some(taken) = taken else { return Ok(()) };
                let kind = CommandKind(taken.kind);
                if matches!(kind, CommandKind::PREPARE | CommandKind::START)
                    && command.run != self.agreed.run
                {
                    // Another run's stream has epochs of its own.
                    (self.agreed.run, self.agreed.epoch) = (command.run, 0);
                    self.run = command.run;
                }
                self.reported_before = self.reports.made();
                if self.config.has_callbacks {
                    self.commands.begin(&taken, &mut self.logs);
                    self.actions.push_back(Action::Command(taken));
                } else {
                    let agrees = kind == CommandKind::PREPARE;
                    let answer = if agrees { AnswerKind::Agreed } else { AnswerKind::Done };
                    self.answer(taken.number, answer, "");
                }
            }
            _ => return Err(Fault::Connection { got: kind_of(message) }),
        }
        Ok(())
    }

    /// The recorder's preamble: the versions that both sides have.
    fn take_versions(&mut self, answer: &Preamble) {
        let ours = preamble(self.config.service, wire::Connection::Control);
        if *answer != ours {
            let why = format!(
                "the recorder has session version up to {}, the service's version up to {}; this \
                 sender has {} and {}",
                answer.session_max, answer.service_max, ours.session_max, ours.service_max
            );
            self.end(Some(&why));
        }
    }

    fn take_bye(&mut self, now_ns: u64, bye: &Bye, text: &str) {
        let reason = bye.reason;
        let why = if text.is_empty() { reason.to_string() } else { format!("{reason}: {text}") };
        if bye.retry_ms == 0 {
            return self.end(Some(&why));
        }
        if reason == ByeReason::ENDING {
            self.logs.iter_mut().for_each(Log::run_ends);
        }
        self.break_off(now_ns, &why, Some(u64::from(bye.retry_ms) * 1_000_000));
    }

    /// All logs are answered.
    fn open(&mut self, now_ns: u64) {
        self.phase = Phase::Open;
        self.run = self.agreed.run;
        self.reports.renew();
        self.counts.open(now_ns, &self.logs);
        self.why = None;
        self.retry.reset();
        self.pings.next_ns = now_ns + self.agreed.ping_ns;
        self.pause(self.agreed.state == RunState::Paused);
        if matches!(self.agreed.state, RunState::Recording | RunState::Paused) {
            let run_number = self.agreed.run_number;
            self.commands.mark_run(MarkKind::Begin, run_number, &mut self.logs);
        }
        let data = (0..self.data.len() as u16).map(Connection::Data);
        self.actions.extend(data.map(Action::Connect));
    }

    fn take_positions(
        &mut self,
        positions: &Positions,
        logs: &Records<'_, LogPositions>,
    ) -> Result<(), Fault> {
        if positions.epoch < self.agreed.epoch {
            return Ok(());
        }
        self.agreed.epoch = positions.epoch;
        for (number, data) in self.data.iter_mut().enumerate() {
            data.heard(positions.received[number], positions.unread & 1 << number != 0);
        }
        let is_released_taken = self.config.release == Release::Taken;
        for LogPositions { log, taken, durable, .. } in logs.iter() {
            let count = self.logs.len() as u64;
            let Some(state) = self.logs.get_mut(log as usize) else {
                return Err(Fault::Bound { field: "log", min: 0, max: count - 1, got: log.into() });
            };
            if taken > state.sent_to {
                // Of a long message the recorder takes the first fragments before the last ones.
                self.data[usize::from(state.connection)].sent_within(&mut self.logs);
            }
            let state = &mut self.logs[log as usize];
            within("taken", taken, 0, state.sent_to)?;
            if taken > state.source.status().taken {
                self.retry.progress();
            }
            self.has_released |= state.settle(taken, durable, is_released_taken);
        }
        Ok(())
    }
}

impl std::fmt::Debug for SenderSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SenderSession")
            .field("name", &self.config.name)
            .field("session", &self.session)
            .field("phase", &self.phase)
            .finish_non_exhaustive()
    }
}

/// The number of a message's type.
fn kind_of(message: &Control<'_>) -> u16 {
    use catchment_wire::session::{Command, Fixed, Grants, Logs, Report};
    match message {
        Control::Hello(..) => Hello::TYPE,
        Control::Logs(..) => Logs::TYPE,
        Control::Welcome(..) => Welcome::TYPE,
        Control::Grants(..) => Grants::TYPE,
        Control::Ping(..) => Ping::TYPE,
        Control::Positions(..) => Positions::TYPE,
        Control::Command(..) => Command::TYPE,
        Control::Answer(..) => Answer::TYPE,
        Control::Report(..) => Report::TYPE,
        Control::Bye(..) => Bye::TYPE,
        Control::Files(..) => catchment_wire::storage_link::Files::TYPE,
        Control::Left(..) => catchment_wire::storage_link::Left::TYPE,
    }
}

/// Time for which a `bye` waits for its answer, or for the socket.
const CLOSING_NS: u64 = 1_000_000_000;
/// Time for which a data connection's end waits for a `bye`.
const BYE_NS: u64 = 50_000_000;
/// Time in which a peer takes something of control.
const STALLED_NS_MAX: u64 = 3_000_000_000;
/// Of the time between two calls, so much counts as silence.
const POLLED_NS_MAX: u64 = 250_000_000;
/// Logs of a ping: as many as fit.
const PING_RECORDS_MAX: usize = 681;
const _: () = assert!(PING_RECORDS_MAX <= RECORDS_MAX as usize);
