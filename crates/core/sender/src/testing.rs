//! A recorder for tests, as pure state: written from the specification, with nothing of the
//! sender's code. It takes what comes, keeps it, and answers; a test tells it what is durable, cuts
//! connections, restarts it, and looks at what it took.
//!
//! It is for the tests of front-ends and of this crate, and checks all that a recorder must check
//! of a session: order of messages, sequences, numbers of logs, parts, skew excepted.

mod taken;

use std::collections::BTreeMap;

use catchment_wire::event_link::{self, Data, SourceGrant, SourceLog};
use catchment_wire::session::{
    self as wire, AnswerKind, Bye, ByeReason, CONTROL, Command, Control, Encoder, Fields, Grant,
    GrantAnswer, Grants, Hello, Log, LogPositions, Positions, Preamble, RunState, Value, Welcome,
    parse_head,
};

pub use taken::{Taken, TakenLog};

/// A recorder for tests. Connections have numbers that the caller chooses.
#[derive(Debug)]
pub struct TestRecorder {
    /// Of its stream.
    pub epoch: u32,
    /// Identity of its run; zeros: none.
    pub run: [u8; 16],
    /// What it does.
    pub state: RunState,
    /// The longest message that it grants.
    pub message_bytes_max: u32,
    /// Everything is durable as soon as it is taken.
    pub is_durable_at_once: bool,
    /// Data connections are not read; the caller passes nothing of them on.
    pub is_held: bool,
    /// Of a message the fragments are taken as they come, before all of it is there.
    pub takes_early: bool,
    /// It does not say that it holds them: a defect that a sender must notice.
    pub hides_held: bool,
    /// Every hello is answered by this.
    pub refusal: Option<(Bye, String)>,
    /// What grants answer, where a source is named here.
    pub answers: BTreeMap<String, (GrantAnswer, ByeReason)>,
    /// Positions name so many items more than it took: a defect that a sender must notice.
    pub overstates: u64,
    /// The newest hello.
    pub hello: Option<Hello>,
    /// What senders did wrong.
    pub faults: Vec<String>,
    /// Fragments as they came: the number of the log, and the key.
    pub arrived: Vec<(u32, u64)>,
    /// Answers of senders: number, answer, text.
    pub commands: Vec<(u64, AnswerKind, String)>,
    /// What senders have reported, with its text.
    pub reports: Vec<(Value, String)>,
    connections: BTreeMap<usize, Peer>,
    sessions: BTreeMap<u64, Session>,
    tickets: u8,
}

#[derive(Debug, Default)]
struct Peer {
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    received: u32,
    sent: u32,
    bytes: u64,
    role: Role,
    is_closing: bool,
}

#[derive(Debug, Default)]
enum Role {
    #[default]
    New,
    Opening(Option<Box<Hello>>, Vec<Log>),
    Control(u64),
    NewData,
    Data(u64, u16),
}

#[derive(Debug)]
struct Session {
    control: Option<usize>,
    data: [Option<usize>; 16],
    ticket: [u8; 16],
    logs: Vec<TakenLog>,
    command: u64,
    command_kind: u16,
    is_changed: bool,
}

impl Default for TestRecorder {
    fn default() -> Self {
        Self {
            epoch: 0,
            run: [7; 16],
            state: RunState::Recording,
            message_bytes_max: 131_064,
            is_durable_at_once: true,
            is_held: false,
            takes_early: false,
            hides_held: false,
            refusal: None,
            answers: BTreeMap::new(),
            overstates: 0,
            hello: None,
            faults: Vec::new(),
            arrived: Vec::new(),
            commands: Vec::new(),
            reports: Vec::new(),
            connections: BTreeMap::new(),
            sessions: BTreeMap::new(),
            tickets: 0,
        }
    }
}

impl TestRecorder {
    /// A connection comes.
    pub fn opened(&mut self, connection: usize) {
        self.connections.insert(connection, Peer::default());
    }

    /// A connection is gone.
    pub fn closed(&mut self, connection: usize) {
        if self.connections.remove(&connection).is_some() {
            for session in self.sessions.values_mut() {
                session.control.take_if(|control| *control == connection);
                for data in &mut session.data {
                    data.take_if(|data| *data == connection);
                }
            }
        }
    }

    /// Takes what came on a connection. Of one that is to be closed, nothing is taken.
    pub fn received(&mut self, connection: usize, bytes: &[u8]) {
        let Some(peer) = self.connections.get_mut(&connection) else { return };
        if peer.is_closing {
            return;
        }
        peer.bytes += bytes.len() as u64;
        peer.inbox.extend_from_slice(bytes);
        let mut inbox = std::mem::take(&mut peer.inbox);
        let mut used = 0;
        loop {
            match self.take(connection, &inbox[used..]) {
                Ok(0) => break,
                Ok(bytes) => used += bytes,
                Err(fault) => {
                    self.faults.push(fault.clone());
                    self.refuse(connection, ByeReason::MALFORMED, 1_000, &fault);
                    break;
                }
            }
        }
        inbox.drain(..used);
        if let Some(peer) = self.connections.get_mut(&connection) {
            peer.inbox = inbox;
        }
        self.tell(false);
    }

    /// What a connection is to be sent; the caller takes from its front.
    pub fn outgoing(&mut self, connection: usize) -> Option<&mut Vec<u8>> {
        self.connections.get_mut(&connection).map(|peer| &mut peer.outbox)
    }

    /// Whether a connection is to be closed when everything is sent.
    pub fn is_closing(&self, connection: usize) -> bool {
        self.connections.get(&connection).is_none_or(|peer| peer.is_closing)
    }

    /// Whether it is a data connection, which it does not read while it is held.
    pub fn is_data(&self, connection: usize) -> bool {
        let role = self.connections.get(&connection).map(|peer| &peer.role);
        matches!(role, Some(Role::NewData | Role::Data(..)))
    }

    /// How much of a connection to read at a time at most: no more than its preamble before it is
    /// known what it is, since a data connection may be held.
    pub fn read_bytes_max(&self, connection: usize) -> usize {
        let peer = self.connections.get(&connection);
        match peer.filter(|peer| matches!(peer.role, Role::New)) {
            Some(peer) => Preamble::BYTES - peer.inbox.len(),
            None => usize::MAX,
        }
    }

    /// Closes all connections at once.
    pub fn cut(&mut self) {
        for peer in self.connections.values_mut() {
            (peer.is_closing, peer.outbox) = (true, Vec::new());
        }
        for session in self.sessions.values_mut() {
            (session.control, session.data) = (None, [None; 16]);
        }
    }

    /// Dies and comes back: what was not durable is forgotten, the epoch rises.
    pub fn restart(&mut self) {
        self.cut();
        self.epoch += 1;
        for log in self.sessions.values_mut().flat_map(|session| &mut session.logs) {
            log.items.retain(|(sequence, _)| *sequence < log.durable);
            (log.taken, log.part) = (log.durable, None);
        }
    }

    /// Ends in order: each session is told so, and connects again.
    pub fn end_run(&mut self, run: [u8; 16], retry_ms: u32) {
        self.run = run;
        let controls: Vec<usize> =
            self.sessions.values().filter_map(|session| session.control).collect();
        for control in controls {
            self.refuse(control, ByeReason::ENDING, retry_ms, "the run has ended");
        }
    }

    /// Says that all below a position is durable, as far as it is taken.
    pub fn tell_durable(&mut self, source: &str, position: u64) {
        for session in self.sessions.values_mut() {
            for log in session.logs.iter_mut().filter(|log| log.name == source) {
                log.durable = log.durable.max(position.min(log.taken));
                session.is_changed = true;
            }
        }
        self.tell(false);
    }

    /// Sends positions to everybody, also if nothing has changed.
    pub fn tell_positions(&mut self) {
        self.tell(true);
    }

    /// Gives each session a command, and returns its number.
    pub fn command(&mut self, kind: u16, run_number: u64, settings: &[Value]) -> u64 {
        let (run, mut last) = (self.run, 0);
        let controls: Vec<(usize, u64)> = (self.sessions.values_mut())
            .filter_map(|session| {
                session.command += 1;
                session.command_kind = kind;
                Some((session.control?, session.command))
            })
            .collect();
        for (control, number) in controls {
            last = number;
            let command = Command { number, run, run_number, kind };
            self.send_command(control, &command, settings);
        }
        last
    }

    /// Gives each session the number of its last command again.
    pub fn repeat_command(&mut self) {
        let (run, run_number) = (self.run, 42);
        let sessions = self.sessions.values();
        let of =
            |session: &Session| Some((session.control?, session.command, session.command_kind));
        let controls: Vec<(usize, u64, u16)> = sessions.filter_map(of).collect();
        for (control, number, kind) in controls {
            self.send_command(control, &Command { number, run, run_number, kind }, &[]);
        }
    }

    fn send_command(&mut self, control: usize, command: &Command, settings: &[Value]) {
        self.send(control, |number, out| {
            let mut encoder = Encoder::begin(out, number, command);
            assert!(settings.iter().all(|value| encoder.push(value)), "settings fit");
            encoder.finish("", &[])
        });
    }

    /// All logs that it ever saw, by session and number.
    pub fn logs(&self) -> impl Iterator<Item = &TakenLog> {
        self.sessions.values().flat_map(|session| &session.logs)
    }

    /// The log of a source: that of the session with the highest number.
    pub fn log(&self, source: &str) -> Option<&TakenLog> {
        self.logs().filter(|log| log.name == source).last()
    }

    /// Whether a session is attached with all its data connections.
    pub fn is_attached(&self) -> bool {
        self.sessions.values().any(|session| {
            let has = |log: &TakenLog| session.data[usize::from(log.connection)].is_some();
            session.control.is_some() && session.logs.iter().all(has)
        })
    }

    /// Takes one message, and returns its bytes; 0 if it is not whole.
    fn take(&mut self, id: usize, bytes: &[u8]) -> Result<usize, String> {
        let Some(peer) = self.connections.get_mut(&id) else { return Ok(0) };
        if peer.is_closing {
            return Ok(0);
        }
        let fault = |fault: wire::Fault| fault.to_string();
        if let Role::New = peer.role {
            let Some(preamble) = Preamble::parse(bytes).map_err(fault)? else { return Ok(0) };
            peer.role = match preamble.connection {
                wire::Connection::Control => {
                    peer.outbox.extend_from_slice(&preamble.encode());
                    Role::Opening(None, Vec::new())
                }
                wire::Connection::Data => Role::NewData,
            };
            return Ok(Preamble::BYTES);
        }
        let bounds = match self.is_data(id) {
            true => event_link::bounds(self.message_bytes_max),
            false => CONTROL,
        };
        let peer = self.connections.get_mut(&id).expect("it is there");
        let head = parse_head(bytes, peer.received, bounds).map_err(fault)?;
        let Some(message) = head.filter(|message| message.used <= bytes.len()) else {
            if let (Some(message), Role::Data(number, connection)) = (head, &peer.role)
                && self.takes_early
            {
                let data = Data::read(&message).map_err(fault)?.ok_or("an unknown type")?;
                let session = self.sessions.get_mut(number).ok_or("an unknown session")?;
                session.take_early(*connection, &data)?;
                session.settle(self.is_durable_at_once);
            }
            return Ok(0);
        };
        peer.received += 1;
        match std::mem::take(&mut peer.role) {
            Role::NewData => {
                let Some(Data::Attach(attach)) = Data::read(&message).map_err(fault)? else {
                    return Err("a data connection begins with attach".to_owned());
                };
                let session = self.sessions.get_mut(&attach.session);
                let Some(session) = session.filter(|session| session.ticket == attach.ticket)
                else {
                    return Err("a wrong ticket".to_owned());
                };
                session.data[usize::from(attach.connection)] = Some(id);
                peer.role = Role::Data(attach.session, attach.connection);
            }
            Role::Data(number, connection) => {
                peer.role = Role::Data(number, connection);
                let data = Data::read(&message).map_err(fault)?.ok_or("an unknown type")?;
                let at_once = self.is_durable_at_once;
                let session = self.sessions.get_mut(&number).ok_or("an unknown session")?;
                session.take(connection, &data)?;
                if let Data::Fragments(fixed, records, _) = data {
                    self.arrived.extend(records.iter().map(|record| (fixed.log, record.key)));
                }
                session.settle(at_once);
            }
            Role::Control(number) => {
                peer.role = Role::Control(number);
                let control = Control::read(&message).map_err(fault)?.ok_or("an unknown type")?;
                self.control(id, number, &control)?;
            }
            Role::Opening(hello, logs) => {
                let control = Control::read(&message).map_err(fault)?.ok_or("an unknown type")?;
                self.open(id, hello, logs, &control)?;
            }
            Role::New => return Err("no preamble".to_owned()),
        }
        Ok(message.used)
    }

    fn open(
        &mut self,
        id: usize,
        mut hello: Option<Box<Hello>>,
        mut logs: Vec<Log>,
        message: &Control<'_>,
    ) -> Result<(), String> {
        match (message, &hello) {
            (Control::Hello(first, _), None) => hello = Some(Box::new(*first)),
            (Control::Logs(records), Some(_)) => logs.extend(records.iter()),
            _ => return Err(format!("out of turn: {message:?}")),
        }
        let first = hello.as_ref().ok_or("no hello")?;
        let is_complete = logs.len() as u32 == first.log_count;
        let in_order = logs.iter().enumerate().all(|(index, log)| log.log as usize == index);
        if !in_order {
            return Err("logs are in no order".to_owned());
        }
        if is_complete {
            return self.answer_hello(id, first, &logs);
        }
        if let Some(peer) = self.connections.get_mut(&id) {
            peer.role = Role::Opening(hello, logs);
        }
        Ok(())
    }

    fn answer_hello(&mut self, id: usize, hello: &Hello, logs: &[Log]) -> Result<(), String> {
        self.hello = Some(*hello);
        if let Some((bye, text)) = self.refusal.clone() {
            self.refuse(id, bye.reason, bye.retry_ms, &text);
            return Ok(());
        }
        self.tickets = self.tickets.wrapping_add(1);
        let is_known = self.sessions.contains_key(&hello.session);
        let session = self.sessions.entry(hello.session).or_insert_with(|| Session {
            control: None,
            data: [None; 16],
            ticket: [0; 16],
            logs: Vec::new(),
            command: hello.command,
            command_kind: 0,
            is_changed: false,
        });
        let old: Vec<usize> =
            session.data.iter_mut().filter_map(Option::take).chain(session.control).collect();
        (session.control, session.ticket) = (Some(id), [self.tickets; 16]);
        let grants = session.grant(hello, logs, is_known, self.run, &self.answers)?;
        let welcome = Welcome {
            session: hello.session,
            run: self.run,
            ticket: session.ticket,
            run_number: 42,
            stream: 0,
            epoch: self.epoch,
            state: self.state,
            features: 0,
            command: session.command,
            ping_ms: 500,
            silence_ms: 2_500,
            skew_bytes: hello.skew_bytes,
            message_bytes_max: self.message_bytes_max,
            log_count: hello.log_count,
        };
        for old in old {
            if let Some(peer) = self.connections.get_mut(&old) {
                peer.is_closing = true;
            }
        }
        if let Some(peer) = self.connections.get_mut(&id) {
            peer.role = Role::Control(hello.session);
        }
        self.send(id, |number, out| Control::Welcome(welcome).encode(number, out));
        for grants in grants.chunks(255) {
            self.send(id, |number, out| {
                let mut encoder = Encoder::begin(out, number, &Grants {});
                assert!(grants.iter().all(|grant| encoder.push(grant)), "grants fit");
                encoder.finish("", &[])
            });
        }
        Ok(())
    }

    fn control(&mut self, id: usize, number: u64, message: &Control<'_>) -> Result<(), String> {
        match message {
            Control::Ping(ping, logs) => {
                let session = self.sessions.get_mut(&number).ok_or("an unknown session")?;
                for ping in logs.iter() {
                    let log = session.logs.get_mut(ping.log as usize).ok_or("an unknown log")?;
                    log.pinged = Some((ping.made, ping.flags));
                }
                self.positions(id, number, ping.cookie);
            }
            Control::Answer(answer, text) => {
                self.commands.push((answer.number, answer.answer, (*text).to_owned()));
            }
            Control::Report(values, text) => {
                self.reports.extend(values.iter().map(|value| (value, (*text).to_owned())));
            }
            Control::Bye(..) => self.refuse(id, ByeReason::DONE, 0, ""),
            _ => return Err(format!("out of turn: {message:?}")),
        }
        Ok(())
    }

    /// Tells sessions their positions, if these have changed and everything before is sent.
    fn tell(&mut self, is_asked: bool) {
        let due: Vec<(usize, u64)> = (self.sessions.iter())
            .filter(|(_, session)| session.is_changed || is_asked)
            .filter_map(|(number, session)| Some((session.control?, *number)))
            .filter(|(control, _)| {
                let peer = self.connections.get(control);
                peer.is_some_and(|peer| peer.outbox.len() < POSITIONS_WAIT_BYTES)
            })
            .collect();
        for (control, number) in due {
            self.positions(control, number, 0);
        }
    }

    fn positions(&mut self, control: usize, number: u64, cookie: u64) {
        let Some(session) = self.sessions.get_mut(&number) else { return };
        session.is_changed = false;
        let bytes = |id: Option<usize>| {
            id.and_then(|id| self.connections.get(&id)).map_or(0, |peer| peer.bytes)
        };
        let received = session.data.map(bytes);
        let unread = if self.is_held && !self.hides_held { u16::MAX } else { 0 };
        let positions = Positions { cookie, epoch: self.epoch, unread, received };
        let logs: Vec<LogPositions> = (session.logs.iter().enumerate())
            .map(|(index, log)| {
                let more = self.overstates;
                let (log, taken, durable) = (index as u32, log.taken + more, log.durable + more);
                LogPositions { log, flags: 0, taken, durable }
            })
            .collect();
        for logs in logs.chunks(675) {
            self.send(control, |number, out| {
                let mut encoder = Encoder::begin(out, number, &positions);
                assert!(logs.iter().all(|log| encoder.push(log)), "positions fit");
                encoder.finish("", &[])
            });
        }
    }

    /// Says `bye` on the control connection of `id`'s session, or on `id`, and closes it.
    fn refuse(&mut self, id: usize, reason: ByeReason, retry_ms: u32, text: &str) {
        let mut control = id;
        for session in self.sessions.values() {
            if session.data.contains(&Some(id)) {
                control = session.control.unwrap_or(id);
            }
        }
        let bye = Bye { reason, retry_ms, detail: 0 };
        self.send(control, |number, out| Control::Bye(bye, text).encode(number, out));
        for id in [id, control] {
            if let Some(peer) = self.connections.get_mut(&id) {
                peer.is_closing = true;
            }
        }
    }

    fn send(&mut self, id: usize, write: impl FnOnce(u32, &mut [u8]) -> usize) {
        let Some(peer) = self.connections.get_mut(&id).filter(|peer| !peer.is_closing) else {
            return;
        };
        let mut out = vec![0; 16_384];
        let bytes = write(peer.sent, &mut out);
        peer.outbox.extend_from_slice(&out[..bytes]);
        peer.sent += 1;
    }
}

impl Session {
    /// Answers to all logs.
    fn grant(
        &mut self,
        hello: &Hello,
        logs: &[Log],
        is_known: bool,
        run: [u8; 16],
        answers: &BTreeMap<String, (GrantAnswer, ByeReason)>,
    ) -> Result<Vec<Grant>, String> {
        let is_other_run = hello.run != [0; 16] && hello.run != run;
        let mut grants = Vec::new();
        for log in logs {
            let service = SourceLog::read(&log.service).map_err(|fault| fault.to_string())?;
            let name = match log.name.as_str() {
                "" => hello.name.as_str().to_owned(),
                name => format!("{}/{name}", hello.name.as_str()),
            };
            let answer = answers.get(&name).copied();
            let (answer, reason) = answer.unwrap_or((GrantAnswer::Joins, ByeReason::DONE));
            if !is_known {
                self.logs.push(TakenLog { name, taken: log.first, ..TakenLog::default() });
            }
            let kept = &mut self.logs[log.log as usize];
            kept.connection = log.connection;
            kept.fragment_bytes_max = service.fragment_bytes_max;
            kept.part = None;
            if is_other_run {
                kept.taken = log.made;
            }
            kept.taken = kept.taken.max(log.first);
            let answer = if is_other_run { GrantAnswer::RunEnded } else { answer };
            let mut service = [0; SourceGrant::BYTES];
            SourceGrant { fragment_bytes_max: kept.fragment_bytes_max }.write(&mut service);
            let (next, durable, source) = (kept.taken, kept.durable, log.log);
            grants.push(Grant { log: log.log, answer, reason, next, durable, source, service });
        }
        Ok(grants)
    }

    /// Takes a message of a data connection.
    fn take(&mut self, connection: u16, data: &Data<'_>) -> Result<(), String> {
        self.is_changed = true;
        match data {
            Data::Fragments(fixed, records, body) => {
                let log = self.log(connection, fixed.log)?;
                let all = event_link::fragments(*records, body);
                for (sequence, (record, bytes)) in (fixed.sequence..).zip(all) {
                    let event_link::FragmentRecord { key, tag, flags, groups, .. } = record;
                    let bytes = bytes.to_vec();
                    log.push(sequence, 1, Taken::Fragment { key, bytes, tag, flags, groups })?;
                }
            }
            Data::Part(part, body) => self.log(connection, part.log)?.part(part, body)?,
            Data::Mark(mark, text) => {
                let event_link::Mark { kind, count, key, key_last, .. } = *mark;
                let text = (*text).to_owned();
                let taken = Taken::Mark { kind, count, keys: (key, key_last), text };
                self.log(connection, mark.log)?.push(mark.sequence, count, taken)?;
            }
            Data::Heartbeat(records) => {
                for beat in records.iter() {
                    let log = self.log(connection, beat.log)?;
                    if beat.sequence > log.taken {
                        return Err(format!(
                            "a heartbeat of {} above {}",
                            beat.sequence, log.taken
                        ));
                    }
                    let is_known = beat.flags & event_link::Heartbeat::LOW_WATER != 0;
                    let is_idle = beat.flags & event_link::Heartbeat::IDLE != 0;
                    log.promised = Some((is_known.then_some(beat.low_water), is_idle));
                }
            }
            Data::Attach(_) => return Err("attach again".to_owned()),
        }
        Ok(())
    }

    /// Makes all that was taken durable, if that is so at once.
    fn settle(&mut self, is_at_once: bool) {
        for log in self.logs.iter_mut().filter(|_| is_at_once) {
            log.durable = log.taken;
        }
    }

    /// Takes the fragments of a message that are there. With the message they come again, and count
    /// as repeats.
    fn take_early(&mut self, connection: u16, data: &Data<'_>) -> Result<(), String> {
        let Data::Fragments(fixed, records, body) = data else { return Ok(()) };
        let log = self.log(connection, fixed.log)?;
        let there = event_link::fragments(*records, body).count() as u64;
        match fixed.sequence + there > log.taken {
            true => self.take(connection, data),
            false => Ok(()),
        }
    }

    fn log(&mut self, connection: u16, log: u32) -> Result<&mut TakenLog, String> {
        let found = self.logs.get_mut(log as usize);
        found
            .filter(|found| found.connection == connection)
            .ok_or_else(|| format!("log {log} is not on data connection {connection}"))
    }
}

/// Positions wait as state while so much is not sent.
const POSITIONS_WAIT_BYTES: usize = 16_384;
