//! A sender of sessions written from docs/spec/session.md and docs/spec/event-link.md, which shares
//! no code with that of the clients, and does what is allowed and odd: tiny messages, fragments in
//! parts of any size with other logs between them, repeats from below what it is asked for,
//! heartbeats anywhere, ranges that are joined and sent again, types that are to be skipped,
//! fragments that are to be refused.

use std::collections::{BTreeMap, VecDeque};

use catchment_fixtures::Random;
use catchment_sender::{Action, Connection, RunCommand, Step};
use catchment_wire::event_link::{
    CommandKind, Heartbeat, Heartbeats, KeyKind, MarkKind, Presence, SourceLog,
};
use catchment_wire::session::{
    self as wire, Answer, AnswerKind, Attach, Bye, CONTROL, CONTROL_BYTES_MAX, Command, Control,
    Encoder, Fields, Grant, GrantAnswer, Hello, LogPing, Logs, Ping, Preamble, Release, Service,
    Text, parse,
};

use self::log::{Log, What};
use self::order::Order;
use self::report::Said;
use crate::plan::{MS, S};
use crate::sessions::SkewPlan;
use crate::settings;

mod log;
mod order;
mod report;

pub use self::log::LogConfig;

/// A sender of these logs.
pub struct Naive {
    name: String,
    session: u64,
    release: Release,
    chance: Random,
    phase: Phase,
    actions: VecDeque<Action>,
    logs: Vec<Log>,
    /// The run that its items belong to.
    run: [u8; 16],
    ticket: [u8; 16],
    /// The run of the welcome, and the logs that were answered.
    welcome: Option<[u8; 16]>,
    /// Bytes of the longest body that it sends.
    body_bytes_max: usize,
    granted: usize,
    control: Outgoing,
    data: Vec<Outgoing>,
    /// For how much of a skew it asks, whether it keeps to it, and how much it was granted.
    skew: SkewPlan,
    skew_bytes: u64,
    /// By data connection, what was sent over it.
    orders: Vec<Order>,
    inbox: Vec<u8>,
    has_preamble: bool,
    received: u32,
    cookie: u64,
    ping_ns: u64,
    polled_ns: u64,
    silent_ns: u64,
    /// Whether it answers commands; the last one, and what it has answered to that.
    pub answers_commands: bool,
    /// Whether it marks begin and end of runs.
    pub marks_runs: bool,
    /// Whether it reports before each ping how many items its logs have; what it has reported
    /// before pings that are not answered, and before the last one that is.
    pub reports: bool,
    unheard: VecDeque<(u64, Said)>,
    heard: Said,
    /// What it is set to, by name.
    pub settings: BTreeMap<String, String>,
    command: RunCommand,
    answer: Option<AnswerKind>,
    /// Where that has brought it, and in the run of which number.
    at: (wire::Stage, u64),
    /// What it was told wrongly.
    pub wrong: Option<String>,
}

enum Phase {
    Away(u64),
    Connecting,
    Opening(u64),
    Open,
    Ended(String),
}

/// What a connection has to take.
#[derive(Default)]
struct Outgoing {
    bytes: VecDeque<u8>,
    messages: u32,
    is_open: bool,
    message_ns: u64,
}

impl Naive {
    /// A sender with that number, name and these logs.
    pub fn new(
        (session, name): (u64, &str),
        logs: &[LogConfig],
        (release, skew): (Release, SkewPlan),
        mut chance: Random,
    ) -> Self {
        let connections = 1 + chance.index(logs.len().min(wire::DATA_CONNECTIONS_MAX.into()));
        let log = |(index, config): (usize, &LogConfig)| Log {
            config: config.clone(),
            connection: (index % connections) as u16,
            items: VecDeque::new(),
            made: 0,
            held_bytes: 0,
            next: 0,
            part: None,
            released: 0,
            durable: 0,
            last_key: None,
            promise: None,
            is_unsaid: false,
        };
        Self {
            name: name.to_owned(),
            session,
            release,
            phase: Phase::Away(0),
            actions: VecDeque::new(),
            logs: logs.iter().enumerate().map(log).collect(),
            run: [0; 16],
            ticket: [0; 16],
            welcome: None,
            body_bytes_max: 0,
            granted: 0,
            control: Outgoing::default(),
            data: (0..connections).map(|_| Outgoing::default()).collect(),
            skew,
            skew_bytes: 0,
            orders: vec![Order::default(); connections],
            inbox: Vec::new(),
            has_preamble: false,
            received: 0,
            cookie: 0,
            ping_ns: 0,
            polled_ns: 0,
            silent_ns: 0,
            answers_commands: false,
            marks_runs: false,
            reports: false,
            unheard: VecDeque::new(),
            heard: Said::default(),
            settings: BTreeMap::new(),
            command: RunCommand { number: 0, kind: 0, run_number: 0, settings: Vec::new() },
            answer: None,
            at: (wire::Stage::None, 0),
            wrong: None,
            chance,
        }
    }

    /// Puts a fragment into a log, with the groups that it names; false where there is no room.
    pub fn push(&mut self, log: usize, (key, groups): (u64, u64), bytes: &[u8]) -> bool {
        let log = &mut self.logs[log];
        if log.held_bytes + bytes.len() as u64 > log.config.ring_bytes {
            return false;
        }
        log.last_key = Some(key);
        log.add(1, What::Fragment { key, groups, bytes: bytes.to_vec() });
        true
    }

    /// Promises that no lower key of a log follows, and whether it is idle.
    pub fn promise(&mut self, log: usize, key: u64, is_idle: bool) {
        let log = &mut self.logs[log];
        (log.promise, log.is_unsaid) = (Some((key, is_idle)), true);
    }

    /// Puts in a fragment that must be refused, if there can be one: with the key of the fragment
    /// before it, or an earlier time, and now and then too long as well.
    pub fn fault(&mut self, log: usize) -> bool {
        let log = &mut self.logs[log];
        let least = u64::from(log.config.key_kind == KeyKind::Time);
        let Some(key) = log.last_key.and_then(|key| key.checked_sub(least)) else { return false };
        let longest = log.config.fragment_bytes_max;
        let bytes = if self.chance.chance(300) { longest + 1 } else { longest.min(50) };
        log.add(1, What::Fragment { key, groups: 0, bytes: vec![9; bytes as usize] });
        true
    }

    /// Puts in fragments that were dropped.
    pub fn abandon(&mut self, log: usize, count: u64, keys: Option<(u64, u64)>) {
        self.logs[log].add(count, What::Abandoned(keys));
    }

    /// Numbers begin again.
    pub fn renumber(&mut self, log: usize, key: u64) {
        self.logs[log].last_key = None;
        self.logs[log].add(1, What::Mark(MarkKind::Numbering, key));
    }

    /// Puts in a mark.
    pub fn mark(&mut self, log: usize) {
        let kind = match self.chance.index(3) {
            0 if !self.marks_runs => MarkKind::Begin,
            1 if !self.marks_runs => MarkKind::End,
            _ => MarkKind::Setting,
        };
        self.logs[log].add(1, What::Mark(kind, 0));
    }

    /// Items of a log so far, and its durable position.
    pub fn status(&self, log: usize) -> (u64, u64) {
        (self.logs[log].made, self.logs[log].durable)
    }

    /// How many items of a log its recorder must have heard of at least; none while it is away.
    pub fn reported(&self, log: usize) -> Option<u64> {
        let heard = self.heard.made.get(log).copied().unwrap_or(0);
        matches!(self.phase, Phase::Open).then_some(heard)
    }

    /// The settings that its recorder must have heard of; none while it is away.
    pub fn heard_settings(&self) -> BTreeMap<String, String> {
        let is_open = matches!(self.phase, Phase::Open);
        if is_open { self.heard.settings.clone() } else { BTreeMap::new() }
    }

    /// How many data connections it has.
    pub fn data_connections(&self) -> usize {
        self.data.len()
    }

    /// The first bytes that it says.
    pub fn hello_alone(&mut self) -> Vec<u8> {
        self.hello();
        std::mem::take(&mut self.control.bytes).into()
    }

    /// Why it has ended.
    pub fn why_ended(&self) -> Option<String> {
        if let Phase::Ended(why) = &self.phase { Some(why.clone()) } else { None }
    }

    /// What time asks for.
    pub fn work(&mut self, now_ns: u64) -> Step {
        let passed_ns = now_ns.saturating_sub(self.polled_ns).min(250 * MS);
        self.polled_ns = now_ns;
        match self.phase {
            Phase::Away(until_ns) if now_ns >= until_ns => {
                self.phase = Phase::Connecting;
                self.actions.push_back(Action::Connect(Connection::Control));
            }
            Phase::Opening(until_ns) if now_ns >= until_ns => self.break_off(now_ns, 100 * MS),
            Phase::Open => {
                self.silent_ns += passed_ns;
                if self.silent_ns >= SILENCE_NS {
                    self.break_off(now_ns, 100 * MS);
                } else if now_ns >= self.ping_ns {
                    self.ping_ns = now_ns + PING_NS;
                    self.ping();
                }
            }
            _ => {}
        }
        let wake_at_ns = match self.phase {
            Phase::Away(until_ns) | Phase::Opening(until_ns) => until_ns,
            Phase::Open => self.ping_ns.min(now_ns + 100 * MS),
            Phase::Connecting | Phase::Ended(_) => u64::MAX,
        };
        Step { action: self.actions.pop_front(), wake_at_ns }
    }

    /// A connection is there.
    pub fn opened(&mut self, now_ns: u64, connection: Connection) {
        match (connection, &self.phase) {
            (Connection::Control, Phase::Connecting) => {
                self.phase = Phase::Opening(now_ns + 3 * S);
                (self.silent_ns, self.polled_ns) = (0, now_ns);
                self.hello();
            }
            (Connection::Data(number), Phase::Open) => {
                let attach =
                    Attach { session: self.session, ticket: self.ticket, connection: number };
                self.orders[usize::from(number)] = Order::default();
                let of = &mut self.data[usize::from(number)];
                *of = Outgoing { is_open: true, message_ns: now_ns, ..Outgoing::default() };
                of.bytes.extend(preamble(wire::Connection::Data).encode());
                of.message(|out, number| Encoder::begin(out, number, &attach).finish("", &[]));
            }
            _ => {}
        }
    }

    /// A connection is gone, or was not made.
    pub fn closed(&mut self, now_ns: u64) {
        if !matches!(self.phase, Phase::Away(_) | Phase::Ended(_)) {
            self.break_off(now_ns, 100 * MS);
        }
    }

    fn break_off(&mut self, now_ns: u64, wait_ns: u64) {
        self.phase = Phase::Away(now_ns + wait_ns);
        self.actions.clear();
        self.actions.push_back(Action::Close);
        self.control = Outgoing::default();
        self.data.iter_mut().for_each(|data| *data = Outgoing::default());
        self.inbox.clear();
        (self.has_preamble, self.received, self.welcome, self.granted) = (false, 0, None, 0);
        // Another recorder may have heard nothing.
        self.unheard.clear();
        self.heard = Said::default();
    }

    /// Takes what came on control.
    pub fn received(&mut self, now_ns: u64, bytes: &[u8]) {
        self.silent_ns = 0;
        if !matches!(self.phase, Phase::Opening(_) | Phase::Open) {
            return;
        }
        let mut inbox = std::mem::take(&mut self.inbox);
        inbox.extend_from_slice(bytes);
        let mut used = 0;
        if !self.has_preamble && inbox.len() >= Preamble::BYTES {
            (self.has_preamble, used) = (true, Preamble::BYTES);
        }
        while self.has_preamble {
            match parse(&inbox[used..], self.received, CONTROL) {
                Ok(Some(message)) => {
                    used += message.used;
                    self.received += 1;
                    match Control::read(&message) {
                        Ok(Some(control)) => self.take(now_ns, &control),
                        Ok(None) => {}
                        Err(fault) => self.wrong = Some(fault.to_string()),
                    }
                    if !self.has_preamble {
                        return;
                    }
                }
                Ok(None) => break,
                Err(fault) => {
                    self.wrong = Some(fault.to_string());
                    break;
                }
            }
        }
        inbox.drain(..used);
        self.inbox = inbox;
    }

    fn take(&mut self, now_ns: u64, control: &Control<'_>) {
        match control {
            Control::Welcome(welcome) => {
                (self.ticket, self.welcome) = (welcome.ticket, Some(welcome.run));
                self.body_bytes_max = welcome.message_bytes_max as usize - HEAD_BYTES;
                self.skew_bytes = welcome.skew_bytes;
            }
            Control::Grants(grants) => {
                for grant in grants.iter() {
                    self.granted += 1;
                    self.take_grant(&grant);
                }
                if self.granted == self.logs.len()
                    && let Some(run) = self.welcome
                {
                    self.run = run;
                    self.phase = Phase::Open;
                    self.ping_ns = now_ns;
                    let data = (0..self.data.len() as u16).map(Connection::Data);
                    self.actions.extend(data.map(Action::Connect));
                }
            }
            Control::Positions(positions, logs) => {
                let is_answered = |(cookie, _): &mut (u64, _)| *cookie <= positions.cookie;
                while let Some((_, said)) = self.unheard.pop_front_if(is_answered) {
                    self.heard = said;
                }
                for one in logs.iter() {
                    let log = &mut self.logs[one.log as usize];
                    log.durable = log.durable.max(one.durable);
                    let is_taken = self.release == Release::Taken;
                    log.release(if is_taken { one.taken } else { one.durable });
                }
            }
            Control::Command(command, values, text) if command.number > self.command.number => {
                let &Command { number, kind, run_number, .. } = command;
                let setting = settings::of_command(kind, values.iter().next(), text);
                let settings = setting.into_iter().collect();
                self.command = RunCommand { number, kind, run_number, settings };
                self.answer = None;
                self.actions.push_back(Action::Command(self.command.clone()));
            }
            Control::Command(command, ..) if command.number == self.command.number => {
                self.say_answer();
            }
            Control::Bye(Bye { retry_ms: 0, .. }, text) => {
                self.break_off(now_ns, 0);
                self.phase = Phase::Ended((*text).to_owned());
            }
            Control::Bye(bye, _) => self.break_off(now_ns, u64::from(bye.retry_ms) * MS),
            _ => {}
        }
    }

    /// Answers a command, if it is still that at which it is.
    pub fn answer(&mut self, number: u64, answer: AnswerKind) {
        if number != self.command.number {
            return;
        }
        self.answer = Some(answer);
        let has_done = answer != AnswerKind::Refused;
        if has_done && CommandKind(self.command.kind) == CommandKind::SET {
            for (name, value) in &self.command.settings {
                let text = format!("{name}={value}");
                self.logs.iter_mut().for_each(|log| log.add(1, What::Setting(text.clone())));
            }
        } else if has_done {
            let stage = match CommandKind(self.command.kind) {
                CommandKind::PREPARE => wire::Stage::Prepared,
                CommandKind::START | CommandKind::CONTINUE => wire::Stage::Running,
                CommandKind::PAUSE => wire::Stage::Paused,
                CommandKind::STOP => wire::Stage::Stopped,
                _ => wire::Stage::None,
            };
            self.at = (stage, self.command.run_number);
            self.mark_run();
        }
        self.say_answer();
    }

    /// Marks in all logs what the command that it has obeyed says of the run.
    fn mark_run(&mut self) {
        let kind = match CommandKind(self.command.kind) {
            CommandKind::START => MarkKind::Begin,
            CommandKind::STOP => MarkKind::End,
            _ => return,
        };
        for log in self.logs.iter_mut().filter(|_| self.marks_runs) {
            let key_last = log.last_key.filter(|_| kind == MarkKind::End);
            let run_number = self.command.run_number;
            log.add(1, What::Edge { kind, key_last, run_number });
        }
    }

    fn say_answer(&mut self) {
        if let Some(answer) = self.answer.filter(|_| matches!(self.phase, Phase::Open)) {
            let answer = Answer { number: self.command.number, answer };
            self.control.message(|out, at| Encoder::begin(out, at, &answer).finish("", &[]));
        }
    }

    fn take_grant(&mut self, grant: &Grant) {
        let Some(log) = self.logs.get_mut(grant.log as usize) else {
            self.wrong = Some(format!("log {}", grant.log));
            return;
        };
        let is_ended = grant.answer == GrantAnswer::RunEnded;
        let is_taken = self.release == Release::Taken;
        log.durable = log.durable.max(grant.durable);
        log.release(if is_ended || is_taken { grant.next } else { grant.durable });
        // It begins with what was taken long ago.
        let back = if is_ended { 0 } else { self.chance.below(4) };
        let from = grant.next.saturating_sub(back);
        let at = log.items.iter().find(|item| item.end() > from);
        (log.next, log.part) = (at.map_or(log.made, |item| item.sequence), None);
        log.is_unsaid = log.promise.is_some();
    }

    /// What a connection is to take next.
    pub fn transmit(&mut self, now_ns: u64, on: Connection, room: usize) -> Vec<u8> {
        let of = match on {
            Connection::Control => &mut self.control,
            Connection::Data(number) => {
                self.compose(now_ns, number);
                &mut self.data[usize::from(number)]
            }
        };
        let count = of.bytes.len().min(room);
        of.bytes.drain(..count).collect()
    }

    fn hello(&mut self) {
        let Self { name, session, logs, data, run, release, control, command, .. } = self;
        let Self { answers_commands, marks_runs, skew, at: (stage, run_number), .. } = self;
        let marks = if *marks_runs { SourceLog::MARKS } else { 0 };
        let is_shared = data.len() < logs.len();
        let holds = logs.iter().any(|log| log.released < log.made);
        let hello = Hello {
            session: *session,
            run: if holds { *run } else { [0; 16] },
            features: 0,
            buffer_bytes: 1 << 20,
            skew_bytes: if is_shared { skew.asked_bytes } else { 0 },
            buffer_ms: 0,
            log_count: logs.len() as u32,
            data_connections: data.len() as u16,
            release: *release,
            flags: u8::from(*answers_commands),
            stage: *stage,
            stage_run: *run_number as u16,
            command: command.number,
            name: Text::new(name).expect("a name"),
            program: Text::new("naive").expect("a name"),
        };
        *control = Outgoing::default();
        control.bytes.extend(preamble(wire::Connection::Control).encode());
        control.message(|out, number| Encoder::begin(out, number, &hello).finish("", &[]));
        // One message for each log.
        for (number, log) in (0..).zip(logs) {
            let mut service = [0; SourceLog::BYTES];
            let LogConfig { name, key_kind, key_bits, fragment_bytes_max, .. } = &log.config;
            let reference = if log.config.is_reference { SourceLog::REFERENCE } else { 0 };
            SourceLog {
                fragment_bytes_max: *fragment_bytes_max,
                groups: log.config.groups,
                flags: marks | reference,
                key_kind: *key_kind,
                key_bits: *key_bits,
                presence: Presence::Configured,
                dtype: 0,
                begin: u64::MAX,
            }
            .write(&mut service);
            let record = wire::Log {
                log: number,
                connection: log.connection,
                first: log.released,
                made: log.made,
                service,
                name: Text::new(name).expect("a name"),
            };
            control.message(|out, number| {
                let mut message = Encoder::begin(out, number, &Logs {});
                assert!(message.push(&record), "one log fits");
                message.finish("", &[])
            });
        }
    }

    fn ping(&mut self) {
        self.cookie += 1;
        if self.reports {
            self.report();
        }
        let Self { cookie, logs, control, chance, .. } = self;
        if chance.chance(100) {
            control.skipped();
        }
        control.message(|out, number| {
            let mut message = Encoder::begin(out, number, &Ping { cookie: *cookie });
            for (log, of) in (0..).zip(logs).filter(|_| chance.chance(700)) {
                let (made, held_bytes) = (of.made, of.held_bytes);
                let ping = LogPing { log, flags: 0, made, held_bytes };
                assert!(message.push(&ping), "they fit");
            }
            message.finish("", &[])
        });
    }

    /// Makes the next message of a data connection.
    fn compose(&mut self, now_ns: u64, number: u16) {
        let Self { logs, data, orders, chance, body_bytes_max, .. } = self;
        let (of, order) = (&mut data[usize::from(number)], &mut orders[usize::from(number)]);
        if !of.is_open || !of.bytes.is_empty() {
            return;
        }
        let own = |log: &Log| log.connection == number;
        // What others on the connection may send depends on it.
        let is_new = |log: &Log| own(log) && log.has_news();
        if logs.iter().any(is_new) {
            of.heartbeat(logs.iter_mut().enumerate().filter(|(_, log)| is_new(log)));
            of.message_ns = now_ns;
            return;
        }
        let mut unsent: Vec<usize> =
            (0..logs.len()).filter(|&at| own(&logs[at]) && logs[at].next < logs[at].made).collect();
        let keeps = self.skew.is_kept && logs.iter().filter(|log| own(log)).count() > 1;
        if keeps {
            let own: Vec<(usize, &Log)> =
                logs.iter().enumerate().filter(|(_, log)| own(log)).collect();
            unsent.retain(|&log| order.allows((log, self.skew_bytes), &own));
        }
        let is_due = now_ns >= of.message_ns + PING_NS;
        match unsent.get(chance.index(unsent.len().max(1))) {
            None if !is_due => return,
            Some(_) if chance.chance(50) => of.skipped(),
            Some(&log) if !chance.chance(100) => {
                if keeps {
                    order.sends(log, &logs[log]);
                }
                logs[log].compose((log as u32, *body_bytes_max, keeps), of, chance);
            }
            _ => {
                let records = logs.iter_mut().enumerate().filter(|(_, log)| own(log));
                of.heartbeat(records.filter(|(_, log)| log.part.is_none() && chance.chance(500)));
            }
        }
        of.message_ns = now_ns;
    }
}

impl Outgoing {
    /// Appends a message.
    fn message(&mut self, encode: impl FnOnce(&mut [u8], u32) -> usize) {
        self.long_message(0, encode);
    }

    /// Appends a message with a body of so many bytes.
    fn long_message(&mut self, bytes: usize, encode: impl FnOnce(&mut [u8], u32) -> usize) {
        let mut out = vec![0; HEAD_BYTES + bytes];
        let bytes = encode(&mut out, self.messages);
        self.messages += 1;
        self.bytes.extend(&out[..bytes]);
    }

    /// Appends a heartbeat with what these logs say.
    fn heartbeat<'a>(&mut self, logs: impl Iterator<Item = (usize, &'a mut Log)>) {
        let records: Vec<Heartbeat> = logs.map(|(log, of)| of.heartbeat(log as u32)).collect();
        self.message(|out, number| {
            let mut message = Encoder::begin(out, number, &Heartbeats {});
            assert!(records.iter().all(|record| message.push(record)), "they fit");
            message.finish("", &[])
        });
    }

    /// Appends a message of a type that is to be skipped.
    fn skipped(&mut self) {
        self.message(|out, number| {
            let bytes = Encoder::begin(out, number, &Heartbeats {}).finish("", &[]);
            out[2..4].copy_from_slice(&0x8123_u16.to_le_bytes());
            bytes
        });
    }
}

fn preamble(connection: wire::Connection) -> Preamble {
    Preamble {
        session_min: 1,
        session_max: 1,
        service: Service::Events,
        service_min: 1,
        service_max: 1,
        connection,
    }
}

/// As a welcome grants them.
const PING_NS: u64 = 500 * MS;
const SILENCE_NS: u64 = 2_500 * MS;
/// Room for a message without its body, and for all of one on control.
const HEAD_BYTES: usize = 32 << 10;
const _: () = assert!(HEAD_BYTES > CONTROL_BYTES_MAX as usize);
