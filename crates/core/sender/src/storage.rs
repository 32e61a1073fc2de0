//! The session of a stream of encoded frames: one log, one control connection and one data
//! connection. docs/spec/storage-link.md.
//!
//! Frames stay with their owner, which composes data messages from them and asks here where to go
//! on, and what is durable. What is common with other senders is common here: the control
//! connection's bytes, waits between attempts, and the rules of docs/spec/session.md.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use catchment_wire::session::{
    self as wire, Attach, Bye, ByeReason, Connection as Line, Control, Encoder, Fault, Fields,
    Grant, GrantAnswer, Hello, LogPing, LogPositions, Logs, OPENING_NS, Ping, Positions, Preamble,
    Release, Service, Stage, Text, Welcome,
};
use catchment_wire::storage_link::{self, StoredFiles, StreamGrant, StreamLog};

use crate::control::{Inbox, Incoming, Outbox};
use crate::left::{Asked, LeftOfStream};
use crate::retry::Retry;
use crate::step::{Action, Connection, SenderState, Step};

/// What a stream's sender says of itself.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// Unique at the node: the run's name, with stream and variant.
    pub name: String,
    /// Program and version.
    pub program: String,
    /// What it may show; empty: nothing.
    pub token: String,
    /// The run's identity.
    pub run: [u8; 16],
    /// Number of the stream within the run.
    pub stream: u32,
    /// The data set of the run that it has.
    pub variant: u32,
    /// Bytes that it holds at most.
    pub buffer_bytes: u64,
    /// The number of its first frame.
    pub first: u64,
    /// Whether the node gets some of the run's frames: items are counted, and have numbers of
    /// their own.
    pub is_dealt: bool,
}

/// A sender's end of the session of a stream.
pub struct StreamSession {
    config: StreamConfig,
    session: u64,
    phase: Phase,
    inbox: Inbox,
    outbox: Outbox,
    retry: Retry,
    actions: VecDeque<Action>,
    is_welcomed: bool,
    agreed: Agreed,
    log: LogState,
    /// Which files are closed, if it has said something new of that.
    files: Option<Vec<StoredFiles>>,
    /// What the node has of it, if that is asked for.
    left: Option<Asked>,
    /// Whether the node is to cut off what it has from `made` on.
    cuts: bool,
    /// Of a stream that is dealt, the numbers that it is asked for, and the flags of that.
    numbers: Option<(Range<u64>, u32)>,
    polled_ns: u64,
    silent_ns: u64,
    ping_ns: u64,
    cookie: u64,
    /// Bytes written to the data connection, those that were read of it, and for how long some
    /// were not.
    sent: u64,
    received: u64,
    stalled_ns: u64,
    ends: bool,
    /// A data connection has ended, why, and when that is a break if no `bye` has come.
    broken: Option<(u64, Arc<str>)>,
    why: Option<Arc<str>>,
}

/// What the last welcome granted.
#[derive(Default)]
struct Agreed {
    ticket: [u8; 16],
    ping_ns: u64,
    silence_ns: u64,
    message_bytes_max: usize,
    generation: u64,
}

/// The positions of the log.
#[derive(Clone, Copy, Debug, Default)]
struct LogState {
    /// The lowest number that is held, and the next one.
    first: u64,
    made: u64,
    /// Where to go on after the last welcome.
    next: u64,
    durable: u64,
    /// Whether the node says that nothing of it can be written now.
    waits: bool,
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
    Attaching {
        until_ns: u64,
    },
    Open,
    /// A `bye` is said; afterwards it connects again, unless it ends.
    Closing {
        until_ns: u64,
    },
    Ended,
}

impl StreamSession {
    /// A session with the number `session`, which is drawn at random. `seed` draws its waits.
    ///
    /// # Errors
    /// A name that no node would admit.
    ///
    /// # Panics
    /// A session of number 0.
    pub fn new(config: StreamConfig, session: u64, seed: u64) -> Result<Self, String> {
        assert!(session != 0, "0 is the number of no session");
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.:/".contains(letter);
        let name = &config.name;
        let fits = Text::<64>::new(name).is_some() && !name.is_empty();
        if !fits || !name.chars().all(is_letter) {
            let expected = "expected a name of 1 to 64 letters, digits and -_.:/";
            return Err(format!("{expected}, got {name:?}"));
        }
        let first = config.first;
        Ok(Self {
            config,
            session,
            phase: Phase::Away { until_ns: 0 },
            inbox: Inbox::default(),
            outbox: Outbox::default(),
            retry: Retry::of_stream(seed),
            actions: VecDeque::new(),
            is_welcomed: false,
            agreed: Agreed::default(),
            log: LogState { first, made: first, next: first, durable: first, waits: false },
            files: None,
            left: None,
            cuts: false,
            numbers: None,
            polled_ns: 0,
            silent_ns: 0,
            ping_ns: 0,
            cookie: 0,
            sent: 0,
            received: 0,
            stalled_ns: 0,
            ends: false,
            broken: None,
            why: None,
        })
    }

    /// Where it stands.
    pub fn state(&self) -> SenderState {
        let why = || self.why.clone();
        match self.phase {
            Phase::Open => SenderState::Open,
            Phase::Opening { .. } | Phase::Attaching { .. } => SenderState::Opening,
            Phase::Ended => SenderState::Ended(why()),
            _ => SenderState::Away(why().unwrap_or_else(|| "not connected yet".into())),
        }
    }

    /// Whether data may be sent.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// All frames below this number are durable.
    pub fn durable(&self) -> u64 {
        self.log.durable
    }

    /// Which files of the stream are closed, if the node has said something new of that: the frames
    /// in them, checked one by one.
    pub fn take_files(&mut self) -> Option<Vec<StoredFiles>> {
        self.files.take()
    }

    /// Asks the node what it has of the stream, and sends nothing: the sender that it had is dead.
    /// To be called before it connects.
    pub fn ask(&mut self) {
        self.left = Some(Asked::default());
        self.log.made = ASKING_MADE;
    }

    /// As [`StreamSession::ask`], where the run goes on at that number: what the node has from
    /// there on is cut off before it answers.
    pub fn ask_below(&mut self, end: u64) {
        self.ask();
        (self.cuts, self.log.made) = (true, end);
    }

    /// As [`StreamSession::ask`], of a stream that is dealt: what frames of these numbers count. Or
    /// the node `cuts`, in the order of items, from the first one on that has their end or more.
    pub fn ask_dealt(&mut self, numbers: Range<u64>, cuts: bool) {
        self.ask();
        self.numbers = Some((numbers, if cuts { StreamLog::CUTS } else { StreamLog::SUMS }));
    }

    /// What the node has of the stream, once, when it has said all of that.
    pub fn take_left(&mut self) -> Option<LeftOfStream> {
        self.left.as_mut()?.take_whole()
    }

    /// Whether the node says that it can write nothing now.
    pub fn waits(&self) -> bool {
        self.is_open() && self.log.waits
    }

    /// Connects at once if it waits for that, since time has become short.
    pub fn hurry(&mut self, now_ns: u64) {
        self.retry.reset();
        if let Phase::Away { until_ns } = &mut self.phase {
            *until_ns = (*until_ns).min(now_ns);
        }
    }

    /// The number at which to go on since the session was opened last.
    pub fn next(&self) -> u64 {
        self.log.next
    }

    /// The writer generation that was granted.
    pub fn generation(&self) -> u64 {
        self.agreed.generation
    }

    /// Bytes of the longest data message.
    pub fn message_bytes_max(&self) -> usize {
        self.agreed.message_bytes_max
    }

    /// The time between signs of life on the data connection.
    pub fn alive_ns(&self) -> u64 {
        self.agreed.ping_ns
    }

    /// The numbers up to this one are made: frames below it are held until they are durable.
    pub fn made(&mut self, made: u64) {
        self.log.made = self.log.made.max(made);
    }

    /// What was made and not taken goes elsewhere: the next item is the one at which the session
    /// goes on.
    pub fn rewind(&mut self) {
        self.log.made = self.log.next;
    }

    /// The session breaks, for that reason, and connects again later.
    pub fn interrupt(&mut self, now_ns: u64, why: &str) {
        if !matches!(self.phase, Phase::Away { .. } | Phase::Ended) {
            self.break_off(now_ns, why, None);
        }
    }

    /// Everything is durable, or given up: says `bye`.
    pub fn finish(&mut self) {
        self.ends = true;
    }

    /// The first bytes of a data connection, once it is there: preamble and attach.
    pub fn attach(&mut self, out: &mut Vec<u8>) {
        let Agreed { ticket, .. } = self.agreed;
        out.extend_from_slice(&preamble(Line::Data).encode());
        let at = out.len();
        out.resize(at + ATTACH_BYTES_MAX, 0);
        let attach = Attach { session: self.session, ticket, connection: 0 };
        let bytes = Encoder::begin(&mut out[at..], 0, &attach).finish("", &[]);
        out.truncate(at + bytes);
    }

    /// A connection that was asked for is there.
    pub fn opened(&mut self, now_ns: u64, connection: Connection) {
        match (connection, self.phase) {
            (Connection::Control, Phase::Connecting) => {
                self.phase = Phase::Opening { until_ns: now_ns + OPENING_NS };
                (self.inbox, self.is_welcomed) = (Inbox::default(), false);
                self.outbox.reset();
                self.describe();
                (self.silent_ns, self.polled_ns) = (0, now_ns);
            }
            (Connection::Data(_), Phase::Attaching { .. }) => {
                self.phase = Phase::Open;
                (self.sent, self.received, self.stalled_ns) = (0, 0, 0);
                self.why = None;
            }
            _ => {}
        }
    }

    /// A connection is gone, or could not be made.
    pub fn closed(&mut self, now_ns: u64, connection: Connection, why: &str) {
        match (self.phase, connection) {
            (Phase::Away { .. } | Phase::Ended, _) => {}
            (Phase::Opening { .. }, Connection::Control) if self.inbox.is_empty() => {
                let why = "the storage node has closed the connection before it said anything: is \
                           it under TLS?";
                self.break_off(now_ns, why, None);
            }
            // A `bye` may be under way on control.
            (Phase::Open, Connection::Data(_)) => {
                self.broken.get_or_insert_with(|| (now_ns + BYE_NS, why.into()));
            }
            (Phase::Closing { .. }, _) if self.ends => self.end(None),
            (Phase::Closing { .. }, _) => self.leave(now_ns, None),
            _ => self.break_off(now_ns, why, None),
        }
    }

    /// Takes what came on the control connection. A framing fault ends the connection, and the
    /// session resumes.
    ///
    /// # Errors
    /// The fault, for a log.
    pub fn received(&mut self, now_ns: u64, mut bytes: &[u8]) -> Result<(), Fault> {
        self.silent_ns = 0;
        while !bytes.is_empty() && self.is_read() {
            let mut inbox = std::mem::take(&mut self.inbox);
            let taken = inbox.take(bytes);
            let handled = self.handle(now_ns, &mut inbox);
            self.inbox = inbox;
            if let Err(fault) = handled {
                let detail = self.inbox.messages.into();
                let bye = Bye { reason: ByeReason::MALFORMED, retry_ms: 1_000, detail };
                let hint = if self.inbox.has_begun() { "" } else { ": is it under TLS?" };
                self.why = Some(format!("the storage node's bytes: {fault}{hint}").into());
                self.outbox.send(&Control::Bye(bye, &fault.to_string()));
                self.phase = Phase::Closing { until_ns: now_ns + CLOSING_NS };
                return Err(fault);
            }
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// What the control connection has to take next.
    pub fn outgoing(&mut self, now_ns: u64) -> &[u8] {
        if self.outbox.is_flushed() && self.phase == Phase::Open && now_ns >= self.ping_ns {
            self.ping(now_ns);
        }
        self.outbox.outgoing()
    }

    /// It took so many bytes of that.
    pub fn control_sent(&mut self, bytes: usize) {
        self.outbox.sent(bytes);
    }

    /// The data connection took so many bytes.
    pub fn data_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// Does what time asks for. To be called again after each action, and at `wake_at_ns` at the
    /// latest.
    pub fn work(&mut self, now_ns: u64) -> Step {
        let polled_ns = now_ns.saturating_sub(self.polled_ns).min(POLLED_NS_MAX);
        self.polled_ns = now_ns;
        match self.phase {
            Phase::Away { .. } if self.ends => self.end(None),
            Phase::Away { until_ns } if now_ns >= until_ns => {
                self.phase = Phase::Connecting;
                self.actions.push_back(Action::Connect(Connection::Control));
            }
            Phase::Opening { until_ns } | Phase::Attaching { until_ns } if now_ns >= until_ns => {
                self.break_off(now_ns, "the storage node has not answered for 3 s", None);
            }
            Phase::Open => self.judge(now_ns, polled_ns),
            Phase::Closing { until_ns } if now_ns >= until_ns => match self.ends {
                true => self.end(None),
                false => self.leave(now_ns, None),
            },
            Phase::Closing { .. } if !self.ends && self.outbox.is_flushed() => {
                self.leave(now_ns, None);
            }
            _ => {}
        }
        let action = self.actions.pop_front();
        Step { action, wake_at_ns: self.wake_at_ns(now_ns) }
    }

    fn wake_at_ns(&self, now_ns: u64) -> u64 {
        match self.phase {
            Phase::Away { until_ns } | Phase::Opening { until_ns } => until_ns,
            Phase::Attaching { until_ns } | Phase::Closing { until_ns } => until_ns,
            Phase::Connecting | Phase::Ended => u64::MAX,
            Phase::Open => {
                let broken = self.broken.as_ref().map_or(u64::MAX, |(until_ns, _)| *until_ns);
                self.ping_ns.min(broken).min(now_ns + POLLED_NS_MAX)
            }
        }
    }

    /// Closes the session if its peer is silent, or takes nothing, or its end is due.
    fn judge(&mut self, now_ns: u64, polled_ns: u64) {
        if let Some((_, why)) = self.broken.take_if(|(until_ns, _)| now_ns >= *until_ns) {
            return self.break_off(now_ns, &why, None);
        }
        if self.ends {
            let detail = self.log.made - self.log.durable;
            let bye = Bye { reason: ByeReason::DONE, retry_ms: 0, detail };
            self.outbox.send(&Control::Bye(bye, ""));
            self.phase = Phase::Closing { until_ns: now_ns + CLOSING_NS };
            return;
        }
        self.silent_ns += polled_ns;
        let waits = self.sent > self.received;
        self.stalled_ns = if waits { self.stalled_ns + polled_ns } else { 0 };
        if self.silent_ns >= self.agreed.silence_ns {
            self.break_off(now_ns, "the storage node is silent", None);
        } else if self.outbox.stalled(polled_ns) >= STALLED_NS_MAX {
            self.break_off(now_ns, "the storage node takes nothing of control", None);
        } else if self.stalled_ns >= self.agreed.silence_ns {
            let why = "the storage node reads no data, and does not say so";
            self.break_off(now_ns, why, None);
        }
    }

    /// Whether what comes on control is looked at.
    pub fn is_read(&self) -> bool {
        !matches!(self.phase, Phase::Away { .. } | Phase::Connecting | Phase::Ended)
    }

    fn handle(&mut self, now_ns: u64, inbox: &mut Inbox) -> Result<(), Fault> {
        while self.is_read() {
            let Some(incoming) = inbox.next()? else { return Ok(()) };
            match incoming {
                Incoming::Skipped => {}
                Incoming::Preamble(preamble) => self.take_preamble(&preamble),
                Incoming::Message(Control::Bye(bye, text)) => self.take_bye(now_ns, &bye, text),
                Incoming::Message(Control::Welcome(welcome)) => self.take_welcome(&welcome)?,
                Incoming::Message(Control::Grants(grants)) => {
                    for grant in grants.iter() {
                        self.take_grant(now_ns, &grant)?;
                    }
                }
                Incoming::Message(Control::Positions(positions, logs)) => {
                    self.take_positions(&positions, logs.iter())?;
                }
                Incoming::Message(Control::Files(files, stored)) => {
                    exactly("log", files.log.into(), 0)?;
                    self.files = Some(stored.iter().collect());
                }
                Incoming::Message(Control::Left(left, parts)) => {
                    let is_open = matches!(self.phase, Phase::Attaching { .. } | Phase::Open);
                    // Otherwise nobody has asked.
                    if let Some(asked) = self.left.as_mut().filter(|_| is_open) {
                        asked.take(&left, parts.iter())?;
                    }
                }
                // A stream takes no commands.
                Incoming::Message(_) => {}
            }
        }
        Ok(())
    }

    fn take_preamble(&mut self, theirs: &Preamble) {
        if theirs.session_min == 0 || theirs.service_min == 0 {
            let why = format!(
                "the storage node has version {} of sessions and {} of the storage link, this is \
                 version {} and {}",
                theirs.session_max,
                theirs.service_max,
                wire::VERSION,
                storage_link::VERSION
            );
            self.end(Some(why.into()));
        }
    }

    fn take_bye(&mut self, now_ns: u64, bye: &Bye, text: &str) {
        if matches!(self.phase, Phase::Closing { .. }) && self.ends {
            return self.end(None);
        }
        let why = match text {
            "" => format!("the storage node ends the session: {}", bye.reason),
            text => format!("the storage node ends the session: {}: {text}", bye.reason),
        };
        match bye.retry_ms {
            0 => self.end(Some(why.into())),
            retry_ms => self.break_off(now_ns, &why, Some(u64::from(retry_ms) * 1_000_000)),
        }
    }

    fn take_welcome(&mut self, welcome: &Welcome) -> Result<(), Fault> {
        let got = <Welcome as wire::Fixed>::TYPE;
        if self.is_welcomed || !matches!(self.phase, Phase::Opening { .. }) {
            return Err(Fault::Connection { got });
        }
        exactly("session", welcome.session, self.session)?;
        exactly("log_count", welcome.log_count.into(), 1)?;
        self.is_welcomed = true;
        self.agreed = Agreed {
            ticket: welcome.ticket,
            ping_ns: u64::from(welcome.ping_ms) * 1_000_000,
            silence_ns: u64::from(welcome.silence_ms) * 1_000_000,
            message_bytes_max: welcome.message_bytes_max as usize,
            generation: self.agreed.generation,
        };
        Ok(())
    }

    fn take_grant(&mut self, now_ns: u64, grant: &Grant) -> Result<(), Fault> {
        let is_opening = matches!(self.phase, Phase::Opening { .. }) && self.is_welcomed;
        if !is_opening {
            return Err(Fault::Connection { got: <wire::Grants as wire::Fixed>::TYPE });
        }
        exactly("log", grant.log.into(), 0)?;
        if grant.answer != GrantAnswer::Joins {
            let why = format!("the storage node refuses the stream: {}", grant.reason);
            self.end(Some(why.into()));
            return Ok(());
        }
        within("next", grant.next, self.log.first, self.log.made)?;
        self.log.waits = false;
        self.agreed.generation = StreamGrant::read(&grant.service)?.generation;
        self.log.next = grant.next;
        self.phase = Phase::Attaching { until_ns: now_ns + OPENING_NS };
        self.is_durable(grant.durable)?;
        self.ping_ns = now_ns;
        self.actions.push_back(Action::Connect(Connection::Data(0)));
        Ok(())
    }

    fn take_positions(
        &mut self,
        positions: &Positions,
        logs: impl Iterator<Item = LogPositions>,
    ) -> Result<(), Fault> {
        let received = positions.received[0];
        if received != self.received || positions.unread & 1 != 0 {
            self.stalled_ns = 0;
        }
        self.received = received;
        for log in logs {
            exactly("log", log.log.into(), 0)?;
            within("taken", log.taken, 0, self.taken_max())?;
            self.is_durable(log.durable)?;
            self.log.waits = log.flags & LogPositions::WAITS != 0;
        }
        Ok(())
    }

    /// The node can have taken no item from this one on: between the grant and the data connection,
    /// it has what was granted. What was made beyond that may go elsewhere, and others get its
    /// numbers.
    fn taken_max(&self) -> u64 {
        match self.phase {
            Phase::Attaching { .. } => self.log.next,
            _ => self.log.made,
        }
    }

    fn is_durable(&mut self, durable: u64) -> Result<(), Fault> {
        within("durable", durable, 0, self.taken_max())?;
        if durable > self.log.durable {
            // It gets on: a break is met at once again.
            self.retry.reset();
        }
        self.log.durable = self.log.durable.max(durable);
        self.log.first = self.log.first.max(self.log.durable);
        Ok(())
    }

    /// Puts preamble, hello and the table of its one log into the outbox.
    fn describe(&mut self) {
        let StreamConfig { name, program, run, stream, variant, .. } = &self.config;
        let name = Text::new(name).expect("the configuration is checked");
        let empty = || Text::new("").expect("it fits");
        let program = Text::new(program).unwrap_or_else(|| Text::new("").expect("it fits"));
        let hello = Hello {
            session: self.session,
            run: *run,
            features: 0,
            buffer_bytes: self.config.buffer_bytes.min(1 << 40),
            skew_bytes: 0,
            buffer_ms: 0,
            log_count: 1,
            data_connections: 1,
            release: Release::Durable,
            flags: 0,
            stage: Stage::None,
            stage_run: 0,
            command: 0,
            name,
            program,
        };
        let dealt = if self.config.is_dealt { StreamLog::DEALT } else { 0 };
        let asks = if self.left.is_some() { StreamLog::ASKS } else { 0 };
        let cuts = if self.cuts { StreamLog::CUTS } else { 0 };
        let LogState { first, made, .. } = self.log;
        let none = (first..made, 0);
        let (Range { start: first, end: made }, asked) = self.numbers.clone().unwrap_or(none);
        let flags = dealt | asks | cuts | asked;
        let generation = self.agreed.generation;
        let of_stream = StreamLog { stream: *stream, variant: *variant, generation, flags };
        let mut service = [0; 40];
        of_stream.write(&mut service);
        let log = wire::Log { log: 0, connection: 0, first, made, service, name: empty() };
        self.outbox.preamble(&preamble(Line::Control));
        self.outbox.send(&Control::Hello(hello, &self.config.token));
        self.outbox.records(&Logs {}, std::iter::once(log));
    }

    fn ping(&mut self, now_ns: u64) {
        self.ping_ns = now_ns + self.agreed.ping_ns;
        self.cookie += 1;
        let record = LogPing { log: 0, flags: 0, made: self.log.made, held_bytes: 0 };
        self.outbox.records(&Ping { cookie: self.cookie }, std::iter::once(record));
    }

    /// The session breaks: all connections are closed, and it connects again later.
    fn break_off(&mut self, now_ns: u64, why: &str, retry_ns: Option<u64>) {
        self.why = Some(why.into());
        match self.ends {
            true => self.end(None),
            false => self.leave(now_ns, retry_ns),
        }
    }

    fn leave(&mut self, now_ns: u64, retry_ns: Option<u64>) {
        // A node that tells to come again keeps that up for ever, too.
        let wait_ns = self.retry.next_ns().max(retry_ns.unwrap_or(0));
        self.phase = Phase::Away { until_ns: now_ns + wait_ns };
        self.drop_connections();
        self.actions.push_back(Action::Close);
    }

    /// The session ends, for a reason or in order.
    fn end(&mut self, why: Option<Arc<str>>) {
        if self.phase == Phase::Ended {
            return;
        }
        (self.phase, self.why) = (Phase::Ended, why);
        self.drop_connections();
        self.actions.extend([Action::Close, Action::End]);
    }

    fn drop_connections(&mut self) {
        self.actions.clear();
        self.broken = None;
        self.left.iter_mut().for_each(Asked::begin_again);
        self.inbox = Inbox::default();
        self.outbox.reset();
    }
}

fn preamble(connection: Line) -> Preamble {
    Preamble {
        session_min: wire::VERSION,
        session_max: wire::VERSION,
        service: Service::Storage,
        service_min: storage_link::VERSION,
        service_max: storage_link::VERSION,
        connection,
    }
}

fn within(field: &'static str, got: u64, min: u64, max: u64) -> Result<(), Fault> {
    crate::opening::within(field, got, min, max)
}

fn exactly(field: &'static str, got: u64, expected: u64) -> Result<(), Fault> {
    within(field, got, expected, expected)
}

/// Above the number of any frame.
const ASKING_MADE: u64 = 1 << 62;
/// Bytes of an attach, at most.
const ATTACH_BYTES_MAX: usize = 128;
/// How long a `bye` may wait for the socket, or for its answer.
const CLOSING_NS: u64 = 1_000_000_000;
/// How long a `bye` is waited for once the data connection has ended.
const BYE_NS: u64 = 50_000_000;
/// The most of a time between two polls that counts as silence.
const POLLED_NS_MAX: u64 = 250_000_000;
const STALLED_NS_MAX: u64 = 3_000_000_000;
