//! A front-end that says what a test tells it to, byte by byte as in docs/spec/session.md.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use catchment_wire::event_link::{
    self, AbandonReason, CommandKind, Data, FragmentRecord, Fragments, Heartbeat, Heartbeats,
    KeyKind, Mark, MarkKind, Part, Presence, SourceLog,
};
use catchment_wire::session::{
    Answer, AnswerKind, Attach, Bye, CONTROL, CONTROL_BYTES_MAX, Command, Connection, Control,
    Encoder, Fields, Grant, Hello, Log, LogPing, LogPositions, Logs, Ping, Preamble, Records,
    Release, Report, Service, Stage, Text, Value, Welcome, parse,
};

/// A control connection, and the data connection of its session.
pub struct FrontEnd {
    control: TcpStream,
    data: Option<TcpStream>,
    /// Bytes of control that were received and not read.
    received: Vec<u8>,
    /// Messages read and written of control, and written of data.
    read: u32,
    written: u32,
    items: u32,
    cookie: u64,
    pub welcome: Option<Welcome>,
    pub grants: Vec<Grant>,
    /// By log, what was said last.
    pub positions: Vec<LogPositions>,
    /// Bytes of its data connection that were said to be read.
    pub data_read: u64,
    /// Whether that is held, as was said last.
    pub is_unread: bool,
    pub bye: Option<(Bye, String)>,
    /// What it was commanded: settings with their text.
    pub commands: Vec<(Command, Vec<Value>, String)>,
}

/// What a hello says.
pub struct Opening<'a> {
    pub name: &'a str,
    pub session: u64,
    pub run: [u8; 16],
    /// By log: its name, `first` and `made`.
    pub logs: &'a [(&'a str, u64, u64)],
    pub key_bits: u8,
    /// Whether its logs mark begin and end of runs.
    pub marks: bool,
}

impl<'a> Opening<'a> {
    /// Of a sender that holds nothing of another run, whose logs have whole keys and no marks.
    pub fn of(name: &'a str, session: u64, logs: &'a [(&'a str, u64, u64)]) -> Self {
        Self { name, session, run: [0; 16], logs, key_bits: 64, marks: false }
    }
}

pub fn preamble(connection: Connection) -> [u8; 16] {
    let (service, versions) = (Service::Events, (1, 1));
    Preamble {
        session_min: versions.0,
        session_max: versions.1,
        service,
        service_min: versions.0,
        service_max: versions.1,
        connection,
    }
    .encode()
}

/// One message of whole fragments: keys and bytes.
pub fn fragments(number: u32, log: u32, sequence: u64, items: &[(u64, &[u8])]) -> Vec<u8> {
    tagged(number, (log, sequence), 1, items)
}

/// The same with that tag.
pub fn tagged(
    number: u32,
    (log, sequence): (u32, u64),
    tag: u8,
    items: &[(u64, &[u8])],
) -> Vec<u8> {
    let body = items.iter().map(|(_, bytes)| *bytes).collect::<Vec<_>>().concat();
    let mut out = vec![0; body.len() + 64 + items.len() * 24];
    let mut message = Encoder::begin(&mut out, number, &Fragments { log, sequence });
    for &(key, bytes) in items {
        let bytes = bytes.len() as u32;
        let record = FragmentRecord { key, bytes, tag, flags: 0, groups: 0 };
        assert!(message.push_short(&record, event_link::FRAGMENT_RECORD_BYTES_MIN));
    }
    let bytes = message.finish("", &body);
    out.truncate(bytes);
    out
}

/// The messages of one fragment in parts of so many bytes.
pub fn parts(number: u32, log: u32, sequence: u64, key: u64, bytes: &[u8], each: usize) -> Vec<u8> {
    let mut all = Vec::new();
    for (index, part) in bytes.chunks(each).enumerate() {
        let mut out = vec![0; part.len() + 128];
        let position = (index * each) as u64;
        let fragment_bytes = bytes.len() as u64;
        let (tag, flags, groups) = (1, 0, 0);
        let head = Part { log, tag, flags, sequence, key, groups, position, fragment_bytes };
        let length = Data::Part(head, part).encode(number + index as u32, &mut out);
        all.extend_from_slice(&out[..length]);
    }
    all
}

/// The first bytes on control: the preamble, a hello and the table of its logs.
pub fn hello(opening: &Opening<'_>, said: (u8, u64)) -> Vec<u8> {
    hello_of(opening, said, (0, 1))
}

/// The same of a front-end that asks for that skew, and has its logs on so many data connections in
/// turn.
pub fn hello_of(
    opening: &Opening<'_>,
    (flags, command): (u8, u64),
    (skew_bytes, data_connections): (u64, u16),
) -> Vec<u8> {
    let mut bytes = vec![0; CONTROL_BYTES_MAX as usize];
    let hello = Hello {
        session: opening.session,
        run: opening.run,
        features: 0,
        buffer_bytes: 1 << 26,
        skew_bytes,
        buffer_ms: 0,
        log_count: opening.logs.len() as u32,
        data_connections,
        release: Release::Durable,
        flags,
        stage: Stage::None,
        stage_run: 0,
        command,
        name: Text::new(opening.name).unwrap(),
        program: Text::new("test").unwrap(),
    };
    let length = Encoder::begin(&mut bytes, 0, &hello).finish("", &[]);
    let mut all = preamble(Connection::Control).to_vec();
    all.extend_from_slice(&bytes[..length]);
    let mut message = Encoder::begin(&mut bytes, 1, &Logs {});
    for (log, &(name, first, made)) in (0..).zip(opening.logs) {
        let mut service = [0; 40];
        SourceLog {
            fragment_bytes_max: 3 << 20,
            groups: 0,
            flags: if opening.marks { SourceLog::MARKS } else { 0 },
            key_kind: KeyKind::Number,
            key_bits: opening.key_bits,
            presence: Presence::Configured,
            dtype: 0,
            begin: u64::MAX,
        }
        .write(&mut service);
        let name = Text::new(name).unwrap();
        let connection = log as u16 % data_connections;
        assert!(message.push(&Log { log, connection, first, made, service, name }));
    }
    let length = message.finish("", &[]);
    all.extend_from_slice(&bytes[..length]);
    all
}

impl FrontEnd {
    /// Connects and says hello. What is answered is read until grants or a bye have come.
    pub fn connect(address: SocketAddr, opening: &Opening<'_>) -> Self {
        Self::connect_as(address, opening, (0, 0))
    }

    /// The same, with flags and the number of the last command in the hello.
    pub fn connect_as(address: SocketAddr, opening: &Opening<'_>, said: (u8, u64)) -> Self {
        Self::connect_asking(address, opening, said, 0)
    }

    /// The same, of one that asks for that skew.
    pub fn connect_asking(
        address: SocketAddr,
        opening: &Opening<'_>,
        said: (u8, u64),
        skew_bytes: u64,
    ) -> Self {
        let control = TcpStream::connect(address).unwrap();
        let mut front_end = Self {
            control,
            data: None,
            received: Vec::new(),
            read: 0,
            written: 0,
            items: 0,
            cookie: 0,
            welcome: None,
            grants: Vec::new(),
            positions: Vec::new(),
            data_read: 0,
            is_unread: false,
            bye: None,
            commands: Vec::new(),
        };
        front_end.written = 2;
        let hello = hello_of(opening, said, (skew_bytes, 1));
        front_end.control.write_all(&hello).unwrap();
        let mut answer = [0; 16];
        front_end.control.read_exact(&mut answer).unwrap();
        assert_eq!(answer, preamble(Connection::Control));
        let count = opening.logs.len();
        front_end.read_until(|one| one.grants.len() == count || one.bye.is_some());
        front_end
    }

    /// Attaches a data connection.
    pub fn attach(&mut self, address: SocketAddr) {
        let welcome = self.welcome.expect("it was welcomed");
        self.data = Some(attached(address, welcome.session, welcome.ticket));
        self.items = 1;
    }

    /// Sends whole fragments of a log.
    pub fn send(&mut self, log: u32, sequence: u64, items: &[(u64, &[u8])]) {
        let bytes = fragments(self.items, log, sequence, items);
        self.items += 1;
        self.send_bytes(&bytes);
    }

    /// The same with that tag.
    pub fn send_tagged(&mut self, at: (u32, u64), tag: u8, items: &[(u64, &[u8])]) {
        let bytes = tagged(self.items, at, tag, items);
        self.items += 1;
        self.send_bytes(&bytes);
    }

    /// Sends the mark behind which the numbers of a log begin again.
    pub fn number_anew(&mut self, log: u32, sequence: u64) {
        self.mark(log, sequence, (MarkKind::Numbering, 0));
    }

    /// Sends a mark of a kind, of the run of that number.
    pub fn mark(&mut self, log: u32, sequence: u64, (kind, run_number): (MarkKind, u64)) {
        let (reason, count, key, key_last, flags) = (AbandonReason(0), 1, 0, 0, 0);
        let mark = Mark { log, kind, reason, sequence, count, key, key_last, flags, run_number };
        self.send_mark(mark);
    }

    /// Sends the mark that names so many fragments as abandoned for a reason, without their keys.
    pub fn abandon(&mut self, log: u32, sequence: u64, (count, reason): (u64, u16)) {
        let (kind, reason) = (MarkKind::Abandoned, AbandonReason(reason));
        let (key, key_last, flags, run_number) = (0, 0, 0, 0);
        let mark = Mark { log, kind, reason, sequence, count, key, key_last, flags, run_number };
        self.send_mark(mark);
    }

    fn send_mark(&mut self, mark: Mark) {
        let mut out = [0; 128];
        let bytes = Data::Mark(mark, "").encode(self.items, &mut out);
        self.items += 1;
        self.send_bytes(&out[..bytes]);
    }

    /// Sends what logs promise: by log, its flags, the sequence of its next item and a low-water
    /// key.
    pub fn promise(&mut self, promises: &[(u32, u32, u64, u64)]) {
        let mut out = vec![0; 64 + promises.len() * 24];
        let mut message = Encoder::begin(&mut out, self.items, &Heartbeats {});
        for &(log, flags, sequence, low_water) in promises {
            assert!(message.push(&Heartbeat { log, flags, sequence, low_water }));
        }
        let bytes = message.finish("", &[]);
        self.items += 1;
        self.send_bytes(&out[..bytes]);
    }

    /// Sends whole fragments of log 0, whose sequences are the keys, unless the connection is gone
    /// or takes nothing more.
    pub fn try_send(&mut self, items: &[(u64, &[u8])]) -> bool {
        let bytes = fragments(self.items, 0, items[0].0, items);
        self.items += 1;
        let data = self.data.as_mut().expect("it is attached");
        data.set_write_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
        data.write_all(&bytes).is_ok()
    }

    /// Reads what has come on control.
    pub fn read_what_came(&mut self) {
        self.control.set_nonblocking(true).unwrap();
        let mut bytes = [0; 4_096];
        while let Ok(count @ 1..) = self.control.read(&mut bytes) {
            self.received.extend_from_slice(&bytes[..count]);
        }
        self.control.set_nonblocking(false).unwrap();
        while self.read_one() {}
    }

    /// Sends a fragment in parts.
    pub fn send_parts(&mut self, log: u32, sequence: u64, key: u64, bytes: &[u8], each: usize) {
        let messages = parts(self.items, log, sequence, key, bytes, each);
        self.items += bytes.len().div_ceil(each) as u32;
        self.send_bytes(&messages);
    }

    /// Sends bytes on the data connection as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.data.as_ref().expect("it is attached").write_all(bytes).unwrap();
    }

    /// Sends bytes on the data connection as they are, until it takes no more for a moment. Returns
    /// how many it took.
    pub fn try_send_bytes(&mut self, bytes: &[u8]) -> usize {
        let data = self.data.as_mut().expect("it is attached");
        data.set_write_timeout(Some(std::time::Duration::from_millis(50))).unwrap();
        data.write(bytes).unwrap_or(0)
    }

    /// The number of the next message on the data connection.
    pub fn next_message(&self) -> u32 {
        self.items
    }

    /// Sends a ping, and reads until it is answered.
    pub fn ping(&mut self) {
        self.ping_made(&[]);
    }

    /// Reads until it has so many commands, and returns the last one's number and kind.
    pub fn commanded(&mut self, count: usize) -> (u64, CommandKind) {
        self.read_until(|one| one.commands.len() == count);
        let (command, ..) = self.commands[count - 1];
        (command.number, CommandKind(command.kind))
    }

    /// So many messages were sent as bytes.
    pub fn passed_messages(&mut self, count: u32) {
        self.items += count;
    }

    /// Answers a command.
    pub fn answer(&mut self, number: u64, answer: AnswerKind, text: &str) {
        self.say(&Control::Answer(Answer { number, answer }, text));
    }

    /// Sends a report.
    pub fn report(&mut self, values: &[Value], text: &str) {
        let mut out = vec![0; CONTROL_BYTES_MAX as usize];
        let mut message = Encoder::begin(&mut out, self.written, &Report {});
        values.iter().for_each(|value| assert!(message.push(value)));
        let length = message.finish(text, &[]);
        self.written += 1;
        self.control.write_all(&out[..length]).unwrap();
    }

    fn say(&mut self, message: &Control<'_>) {
        let mut out = vec![0; CONTROL_BYTES_MAX as usize];
        let length = message.encode(self.written, &mut out);
        self.written += 1;
        self.control.write_all(&out[..length]).unwrap();
    }

    /// Sends a ping that says how many items logs have made, and reads until it is answered.
    pub fn ping_made(&mut self, made: &[u64]) {
        self.ping_with(0, made);
    }

    /// The same, with flags for all of them.
    pub fn ping_with(&mut self, flags: u32, made: &[u64]) {
        self.cookie += 1;
        let mut out = [0; 256];
        let ping = Ping { cookie: self.cookie };
        let mut message = Encoder::begin(&mut out, self.written, &ping);
        for (log, &made) in (0..).zip(made) {
            assert!(message.push(&LogPing { log, flags, made, held_bytes: 0 }));
        }
        let length = message.finish("", &[]);
        self.written += 1;
        self.control.write_all(&out[..length]).unwrap();
        let cookie = self.cookie;
        self.read_until(|one| one.cookie > cookie);
    }

    /// Pings until what was said is so.
    pub fn ping_until(&mut self, is_so: impl Fn(&Self) -> bool) {
        while !is_so(self) {
            self.ping();
        }
    }

    /// Reads until something is so.
    pub fn read_until(&mut self, is_so: impl Fn(&Self) -> bool) {
        while !is_so(self) {
            if !self.read_one() {
                let mut bytes = [0; 4_096];
                let count = self.control.read(&mut bytes).unwrap();
                assert!(count > 0, "control ended: {:?}, {:?}", self.bye, self.positions);
                self.received.extend_from_slice(&bytes[..count]);
            }
        }
    }

    /// Reads a message that was received, if there is one.
    fn read_one(&mut self) -> bool {
        let Some(message) = parse(&self.received, self.read, CONTROL).unwrap() else {
            return false;
        };
        let used = message.used;
        match Control::read(&message).unwrap().unwrap() {
            Control::Welcome(welcome) => self.welcome = Some(welcome),
            Control::Grants(grants) => self.grants.extend(grants.iter()),
            Control::Positions(positions, logs) => {
                if positions.cookie == self.cookie && self.cookie > 0 {
                    self.cookie += 1;
                }
                self.data_read = positions.received[0];
                self.is_unread = positions.unread & 1 != 0;
                keep(&mut self.positions, logs);
            }
            Control::Command(command, settings, text) => {
                self.commands.push((command, settings.iter().collect(), text.to_owned()));
            }
            Control::Bye(bye, text) => self.bye = Some((bye, text.to_owned())),
            other => panic!("{other:?}"),
        }
        self.read += 1;
        self.received.drain(..used);
        true
    }

    /// Reads to the end, which a bye precedes.
    pub fn read_bye(&mut self) -> (Bye, String) {
        self.read_until(|one| one.bye.is_some());
        let mut rest = Vec::new();
        let _reset = self.control.read_to_end(&mut rest);
        self.bye.clone().unwrap()
    }

    /// What was said to be taken of a log.
    pub fn taken(&self, log: u32) -> u64 {
        let mut logs = self.positions.iter();
        logs.find(|one| one.log == log).map_or(0, |one| one.taken)
    }

    /// What was said to be durable of a log.
    pub fn durable(&self, log: u32) -> u64 {
        let mut logs = self.positions.iter();
        logs.find(|one| one.log == log).map_or(0, |one| one.durable)
    }
}

fn keep(positions: &mut Vec<LogPositions>, logs: Records<'_, LogPositions>) {
    for log in logs.iter() {
        positions.retain(|one| one.log != log.log);
        positions.push(log);
    }
}

/// A data connection that says that it is a session's.
pub fn attached(address: SocketAddr, session: u64, ticket: [u8; 16]) -> TcpStream {
    let mut data = TcpStream::connect(address).unwrap();
    data.write_all(&attach(session, ticket)).unwrap();
    data
}

/// The first bytes on a data connection of a session.
pub fn attach(session: u64, ticket: [u8; 16]) -> Vec<u8> {
    let mut out = [0; 64];
    let attach = Attach { session, ticket, connection: 0 };
    let length = Data::Attach(attach).encode(0, &mut out);
    [&preamble(Connection::Data)[..], &out[..length]].concat()
}
