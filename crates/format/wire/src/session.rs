//! The session layer: how a sender and a recorder open, keep, resume and close a session over TCP.
//! Here are its bytes, both ways: preamble, framing, and the messages of control connections, with
//! [`Attach`], the first one of each data connection. The specification is docs/spec/session.md.
//!
//! A connection is a [`Preamble`] and then messages. [`parse`] finds the next one in the bytes that
//! have arrived, and checks its framing; [`Control::read`] or the service (events:
//! [`event_link`](crate::event_link)) checks each of its fields against the bounds of its table.
//! What one message alone cannot show is not checked here: sequences, the numbers of logs, names
//! and tokens, and what was granted. Nothing allocates, and no bytes make anything panic.

use crate::fields::{bound, closed, fields, open};
use crate::message::Type;
use crate::stored_files::{Files, LEFT_PARTS_MAX, Left, LeftPart, STORED_FILES_MAX, StoredFiles};

pub use crate::fault::{Fault, REASONS};
pub use crate::fields::{Fields, Fixed, Records, Text};
pub use crate::message::{
    Bounds, CONTROL_BYTES_MAX, DATA_HEAD_BYTES_MAX, Encoder, HEADER_BYTES, MESSAGE_BYTES_MAX,
    Message, PART_BYTES_MAX, RECORDS_MAX, SEQUENCE_END, SHAPE_BYTES, TEXT_BYTES_MAX, parse,
    parse_head,
};

/// The version of the session layer that this module has.
pub const VERSION: u8 = 1;
/// The most logs of a session. More are answered [`ByeReason::TOO_MANY`], as is the next.
pub const LOGS_MAX: u32 = 4_096;
/// The most data connections of a session.
pub const DATA_CONNECTIONS_MAX: u16 = 16;
/// The most settings in a [`Command`].
pub const SETTINGS_MAX: u32 = 64;
/// How often a sender pings, unless its welcome says otherwise. Section 5.
pub const PING_MS: u32 = 500;
/// The silence after which a side closes, unless the welcome says otherwise. Section 5.
pub const SILENCE_MS: u32 = 2_500;
/// [`SILENCE_MS`] in nanoseconds.
pub const SILENCE_NS: u64 = SILENCE_MS as u64 * 1_000_000;
/// The time that an opening may take.
pub const OPENING_NS: u64 = 3_000_000_000;
/// When a sender connects again that came too early.
pub const LATER_MS: u32 = 200;
/// The same of one whose name another session has, perhaps that of its own killed process, of which
/// the end is not read yet: well within the second for which events wait for it. Section 9.
pub const IN_USE_MS: u32 = 500;
/// In place of a log's number: the sender itself, or no source.
pub const NONE: u32 = u32::MAX;

/// The first bytes of each connection.
const MAGIC: [u8; 8] = *b"\x89CTSL\r\n\x1a";

/// The bounds of a control connection.
pub const CONTROL: Bounds = Bounds::control(&[
    Type::of::<Hello>().text(),
    Type::of::<Welcome>(),
    Type::of::<Ping>().records(LogPing::BYTES, 0, RECORDS_MAX),
    Type::of::<Positions>().records(LogPositions::BYTES, 0, RECORDS_MAX),
    Type::of::<Command>().records(Value::BYTES, 0, SETTINGS_MAX).text(),
    Type::of::<Answer>().text(),
    Type::of::<Report>().records(Value::BYTES, 1, RECORDS_MAX).text(),
    Type::of::<Bye>().text(),
    Type::of::<Logs>().records(Log::BYTES, 1, RECORDS_MAX),
    Type::of::<Grants>().records(Grant::BYTES, 1, RECORDS_MAX),
    Type::of::<Files>().records(StoredFiles::BYTES, 0, STORED_FILES_MAX),
    Type::of::<Left>().records(LeftPart::BYTES, 0, LEFT_PARTS_MAX),
]);

closed! {
    /// What a session carries. Section 11.
    Service: u8 {
        /// Events: [`event_link`](crate::event_link).
        Events = 1,
        /// Channels: packets of [`link`](crate::link).
        Channels = 2,
        /// Encoded frames.
        Storage = 3,
    }
}

closed! {
    /// The kinds of connections. Section 2.
    Connection: u8 {
        /// Read at all times, by both sides.
        Control = 1,
        /// From the sender to the recorder, which may hold it.
        Data = 2,
    }
}

fields! {
    /// The first 16 bytes of each connection from its sender, and of a control connection from its
    /// recorder. Section 2.
    Preamble: 16 check has_ranges {
        /// Lowest version of the session layer that the peer accepts. The recorder's answer has the
        /// agreed one here and in `session_max`, and 0 here if there is none.
        8 session_min: u8,
        /// Highest version of the session layer, 1 or more.
        9 session_max: u8 = 1..=255,
        /// What the session carries.
        10 service: Service,
        /// Lowest version of the service, as `session_min`.
        11 service_min: u8,
        /// Highest version of the service, 1 or more.
        12 service_max: u8 = 1..=255,
        /// Which connection this is.
        13 connection: Connection,
    }
}

fn has_ranges(preamble: &Preamble) -> Result<(), Fault> {
    let &Preamble { session_min, session_max, service_min, service_max, .. } = preamble;
    bound("session_min", session_min.into(), 0..=session_max.into())?;
    bound("service_min", service_min.into(), 0..=service_max.into())
}

impl Preamble {
    /// Reads the preamble at the beginning of a connection. Returns `None` while more bytes are
    /// needed.
    ///
    /// # Errors
    /// [`Fault::Magic`] from the first byte on that is not the magic's; a service or a kind of
    /// connection that this version does not have; a range that is empty.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, Fault> {
        let begin = &bytes[..bytes.len().min(MAGIC.len())];
        if !MAGIC.starts_with(begin) {
            let mut got = [0; MAGIC.len()];
            got[..begin.len()].copy_from_slice(begin);
            return Err(Fault::Magic { got });
        }
        bytes.get(..Self::BYTES).map(Self::read).transpose()
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        self.write(&mut bytes);
        bytes
    }
}

closed! {
    /// How long a sender keeps an item. Section 6.
    Release: u8 {
        /// Until it is durable.
        Durable = 1,
        /// Until it is taken.
        Taken = 2,
    }
}

closed! {
    /// Where a sender is in a run, by the commands that it has agreed to. Section 4.
    #[derive(Default)]
    Stage: u8 {
        /// In none.
        #[default]
        None = 0,
        /// Prepared.
        Prepared = 1,
        /// Started.
        Running = 2,
        /// Paused.
        Paused = 3,
        /// Stopped.
        Stopped = 4,
    }
}

fields! {
    /// The sender's first message. Its text is the token. Section 4.
    Hello: type 1, 176 {
        /// Drawn at random when the sender starts; not 0.
        8 session: u64 = 1..=u64::MAX,
        /// Identity of the run to which the items belong that the sender holds; zeros: none, or not
        /// known.
        16 run: [u8; 16],
        /// Bits that the sender offers.
        32 features: u64,
        /// Bytes of all its buffers together, at most 2^40.
        40 buffer_bytes: u64 = 0..=1 << 40,
        /// How far logs of one connection may be out of order, at most 2^30 bytes.
        48 skew_bytes: u64 = 0..=1 << 30,
        /// How many milliseconds its buffers last at its highest rate; 0: not known.
        56 buffer_ms: u32,
        /// The number of logs that follow; up to [`LOGS_MAX`] are admitted.
        60 log_count: u32 = 1..=u64::MAX,
        /// The number of data connections; up to [`DATA_CONNECTIONS_MAX`] are admitted.
        64 data_connections: u16 = 1..=u64::MAX,
        /// When items are released.
        66 release: Release,
        /// Bits: [`ANSWERS`](Self::ANSWERS), [`STOPS_IN_PAUSE`](Self::STOPS_IN_PAUSE).
        67 flags: u8,
        /// Where it is in a run.
        68 stage: Stage,
        /// The low bits of that run's number.
        70 stage_run: u16,
        /// Number of the last command that it has seen in this session; 0: none.
        72 command: u64,
        /// Of the sender. Its letters are for admission to check.
        80 name: Text<64>,
        /// Name and version of the program, for display.
        144 program: Text<32>,
    }
}

impl Hello {
    /// Flag: it answers commands.
    pub const ANSWERS: u8 = 1;
    /// Flag: it stops sending in a pause.
    pub const STOPS_IN_PAUSE: u8 = 2;
}

fields! {
    /// Follows the hello until all logs are described. Section 4.
    Logs: type 10, 8 {}
}

fields! {
    /// A record of [`Logs`]: one of the sender's logs. Section 4.
    Log: 128 check is_held {
        /// Its number: 0, 1, 2, ... over all records.
        0 log: u32,
        /// The data connection that carries it.
        4 connection: u16,
        /// Lowest sequence that the sender still holds; equal to `made` if it holds none.
        8 first: u64,
        /// Items so far, at most [`SEQUENCE_END`].
        16 made: u64 = 0..=SEQUENCE_END,
        /// What the service says of it.
        24 service: [u8; 40],
        /// Unique in the session; may be empty if there is one log.
        64 name: Text<64>,
    }
}

fn is_held(log: &Log) -> Result<(), Fault> {
    bound("first", log.first, 0..=log.made)
}

closed! {
    /// What the recorder does. Section 4.
    RunState: u16 {
        /// There is no run.
        None = 0,
        /// A run is prepared.
        Prepared = 1,
        /// A run is recorded.
        Recording = 2,
        /// A run is paused.
        Paused = 3,
    }
}

fields! {
    /// The recorder's answer to a hello that it admits. Section 4.
    Welcome: type 2, 112 check has_pings {
        /// The hello's.
        8 session: u64,
        /// Identity of the current run; zeros: none.
        16 run: [u8; 16],
        /// Random; admits this session's data connections until this control connection ends.
        32 ticket: [u8; 16],
        /// Number of that run; 0: none.
        48 run_number: u64,
        /// Number of the recorder's stream within the run.
        56 stream: u32,
        /// Epoch of that stream.
        60 epoch: u32,
        /// What the recorder does.
        64 state: RunState,
        /// Bits that both sides have.
        72 features: u64,
        /// Number of the last command that was given to this session; 0: none.
        80 command: u64,
        /// Interval of pings in milliseconds, 100 to 10,000.
        88 ping_ms: u32 = 100..=10_000,
        /// Silence in milliseconds after which a side closes: 3 `ping_ms` to 60,000.
        92 silence_ms: u32 = 0..=60_000,
        /// Bytes by which logs of one connection may be out of order.
        96 skew_bytes: u64 = 0..=1 << 30,
        /// Bytes of the longest message on data connections: a multiple of 8 within
        /// [`MESSAGE_BYTES_MAX`].
        104 message_bytes_max: u32,
        /// The hello's.
        108 log_count: u32,
    }
}

fn has_pings(welcome: &Welcome) -> Result<(), Fault> {
    let max = welcome.message_bytes_max;
    let (least, most) = (*MESSAGE_BYTES_MAX.start(), *MESSAGE_BYTES_MAX.end());
    bound("message_bytes_max", max.into(), least.into()..=most.into())?;
    bound("message_bytes_max modulo 8", u64::from(max % 8), 0..=0)?;
    bound("silence_ms", welcome.silence_ms.into(), 3 * u64::from(welcome.ping_ms)..=60_000)
}

closed! {
    /// What is granted to a log. Section 4.
    GrantAnswer: u16 {
        /// It joins the run.
        Joins = 1,
        /// It waits for the next run; its items are read, and counted as outside.
        Waits = 2,
        /// Its run has ended: it goes on with what is made from now on.
        RunEnded = 3,
        /// It is refused, and sends nothing.
        Refused = 4,
    }
}

fields! {
    /// Follows the welcome until all logs are answered. Section 4.
    Grants: type 11, 8 {}
}

fields! {
    /// A record of [`Grants`]: the answer to one log. Section 4.
    Grant: 64 check is_behind {
        /// The log's number.
        0 log: u32,
        /// What is granted.
        4 answer: GrantAnswer,
        /// Of a refusal.
        6 reason: ByeReason,
        /// The sequence with which the sender goes on.
        8 next: u64 = 0..=SEQUENCE_END,
        /// Position: all items below are durable. At most `next`.
        16 durable: u64,
        /// The source's number in the run's files; [`NONE`]: none.
        24 source: u32,
        /// What the service says of it.
        32 service: [u8; 32],
    }
}

fn is_behind(grant: &Grant) -> Result<(), Fault> {
    bound("durable", grant.durable, 0..=grant.next)
}

fields! {
    /// The first message of a data connection. Section 4.
    Attach: type 3, 40 {
        /// The session.
        8 session: u64,
        /// The welcome's.
        16 ticket: [u8; 16],
        /// The number of this data connection, from 0.
        32 connection: u16,
    }
}

fields! {
    /// The sender's sign of life. Its records are the logs that changed. Section 5.
    Ping: type 4, 16 {
        /// Any number; rises.
        8 cookie: u64,
    }
}

fields! {
    /// What a sender says of one log in a [`Ping`]. Section 5.
    LogPing: 24 {
        /// The log's number.
        0 log: u32,
        /// Bits: [`FULL`](Self::FULL), [`ALL_SENT`](Self::ALL_SENT).
        4 flags: u32,
        /// Items so far.
        8 made: u64 = 0..=SEQUENCE_END,
        /// Bytes that it holds.
        16 held_bytes: u64,
    }
}

impl LogPing {
    /// Flag: its buffer is full.
    pub const FULL: u32 = 1;
    /// Flag: nothing of it is unsent.
    pub const ALL_SENT: u32 = 2;
}

fields! {
    /// What the recorder has. Its records are the logs that changed. Section 5.
    Positions: type 5, 152 {
        /// Of the ping that it answers; 0: none.
        8 cookie: u64,
        /// Epoch of the stream.
        16 epoch: u32,
        /// Bit *i*: data connection *i* is held, or its thread has not polled for 250 ms.
        20 unread: u16,
        /// Of each data connection: all bytes that were read from it, its preamble included.
        24 received: [u64; 16],
    }
}

fields! {
    /// What the recorder has of one log. Section 5.
    LogPositions: 24 check is_taken {
        /// The log's number.
        0 log: u32,
        /// Bits: [`DISCARDED`](Self::DISCARDED), [`WAITS`](Self::WAITS).
        4 flags: u32,
        /// Position: all items below are in the recorder's memory.
        8 taken: u64 = 0..=SEQUENCE_END,
        /// Position: all items below are durable. At most `taken`.
        16 durable: u64,
    }
}

impl LogPositions {
    /// Flag: its items are discarded, since there is no run, or a paused one.
    pub const DISCARDED: u32 = 1;
    /// Flag: nothing of it can be written now (storage link).
    pub const WAITS: u32 = 2;
}

fn is_taken(log: &LogPositions) -> Result<(), Fault> {
    bound("durable", log.durable, 0..=log.taken)
}

fields! {
    /// From the recorder to the sender. Its records are settings, its text is by kind. Section 9.
    Command: type 6, 48 {
        /// Rises by 1 with each command of a session, from 1.
        8 number: u64 = 1..=u64::MAX,
        /// Identity of the run.
        16 run: [u8; 16],
        /// Number of the run.
        32 run_number: u64,
        /// Defined by the service; an unknown one is answered [`AnswerKind::Refused`].
        40 kind: u16,
    }
}

closed! {
    /// How a sender answers a command. Section 9.
    AnswerKind: u16 {
        /// It will do it.
        Agreed = 1,
        /// It will not; the text says why.
        Refused = 2,
        /// It is at work; said again each second.
        Working = 3,
        /// It has done it.
        Done = 4,
    }
}

fields! {
    /// From the sender to the recorder. Its text is the reason of a refusal. Section 9.
    Answer: type 7, 24 {
        /// The command's number.
        8 number: u64,
        /// The answer.
        16 answer: AnswerKind,
    }
}

open! {
    /// What a [`Value`] is. One of an unknown kind or type is dropped and counted.
    ValueKind: u8 {
        /// A counter.
        COUNTER = 1 "counter",
        /// A setting.
        SETTING = 2 "setting",
        /// An alarm; its sentence is the text.
        ALARM = 3 "alarm",
        /// A line of status.
        STATUS = 4 "status",
    }
}

open! {
    /// The type of a [`Value`].
    ValueType: u8 {
        /// 0 or 1, in the first byte.
        BOOL = 1 "bool",
        /// Signed, 64 bits.
        I64 = 2 "i64",
        /// Unsigned, 64 bits.
        U64 = 3 "u64",
        /// Floating point, 64 bits.
        F64 = 4 "f64",
        /// The text of the message, which has one record.
        TEXT = 5 "text",
    }
}

fields! {
    /// From the sender to the recorder. Its text is that of its record, if it has one. Section 9.
    Report: type 8, 8 {}
}

fields! {
    /// A record of [`Report`] and of [`Command`]: a counter, setting, alarm or status. Section 9.
    Value: 128 {
        /// What it is.
        0 kind: ValueKind,
        /// The type of value, min and max.
        1 value_type: ValueType,
        /// Bits: [`RAISED`](Self::RAISED), [`WRITABLE`](Self::WRITABLE).
        2 flags: u16,
        /// The log that it belongs to; [`NONE`]: the sender.
        4 log: u32,
        /// The value, little-endian; zeros for a text.
        8 value: [u8; 8],
        /// Of a setting, its lowest value; equal to `max`: no bounds.
        16 min: [u8; 8],
        /// Of a setting, its highest value.
        24 max: [u8; 8],
        /// The value's unit.
        32 unit: Text<32>,
        /// Its name.
        64 name: Text<64>,
    }
}

impl Value {
    /// Flag of an alarm: it is raised.
    pub const RAISED: u16 = 1;
    /// Flag of a setting: it can be set.
    pub const WRITABLE: u16 = 2;
}

open! {
    /// Why a session ends or a log is refused. Section 9 says what `detail` is of each.
    ByeReason: u16 {
        /// In order.
        DONE = 0 "done",
        /// A data connection has other versions than its control connection.
        VERSION = 1 "version",
        /// No token, an unknown one, or one of another role.
        TOKEN = 2 "token",
        /// Not allowed by the token's pattern, or no valid name.
        NAME = 3 "name",
        /// Another session of this name is heard.
        NAME_IN_USE = 4 "name_in_use",
        /// More memory than the recorder may hold.
        DOES_NOT_FIT = 5 "does_not_fit",
        /// Key kinds or building rules that do not go together.
        MIXED = 6 "mixed",
        /// The recorder repairs files, or asks its targets.
        LATER = 7 "later",
        /// A framing fault.
        MALFORMED = 8 "malformed",
        /// Silence, or a peer that takes nothing.
        SILENT = 9 "silent",
        /// Too many sessions, connections or logs.
        TOO_MANY = 10 "too_many",
        /// An unknown session or ticket.
        UNKNOWN = 11 "unknown",
        /// Another session of this name was admitted.
        SUPERSEDED = 12 "superseded",
        /// The listener admits no such connection.
        TLS_REQUIRED = 13 "tls_required",
        /// The recorder ends in order.
        ENDING = 14 "ending",
    }
}

fields! {
    /// The last message of a side. Its text is a sentence. Section 7.
    Bye: type 9, 24 {
        /// Why.
        8 reason: ByeReason,
        /// When to connect again, in milliseconds, at most 60,000; 0: not at all.
        12 retry_ms: u32 = 0..=60_000,
        /// By reason.
        16 detail: u64,
    }
}

/// A message of a control connection, completely checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Control<'a> {
    /// With the token.
    Hello(Hello, &'a str),
    /// The sender's logs.
    Logs(Records<'a, Log>),
    /// The answer to a hello.
    Welcome(Welcome),
    /// The answers to its logs.
    Grants(Records<'a, Grant>),
    /// A sign of life.
    Ping(Ping, Records<'a, LogPing>),
    /// What the recorder has.
    Positions(Positions, Records<'a, LogPositions>),
    /// With the settings, and a text by kind.
    Command(Command, Records<'a, Value>, &'a str),
    /// With the reason of a refusal.
    Answer(Answer, &'a str),
    /// With the text of a single record.
    Report(Records<'a, Value>, &'a str),
    /// With a sentence.
    Bye(Bye, &'a str),
    /// Of the storage link: which files of the stream are closed.
    Files(Files, Records<'a, StoredFiles>),
    /// Of the storage link: a part of what describes what the node has of the stream.
    Left(Left, Records<'a, LeftPart>),
}

impl<'a> Control<'a> {
    /// Reads a message that was parsed within the bounds [`CONTROL`]. Returns `None` for one to be
    /// skipped: a type with bit 15 that this version does not know.
    ///
    /// # Errors
    /// A field that its table does not allow.
    pub fn read(message: &Message<'a>) -> Result<Option<Self>, Fault> {
        let text = message.text;
        Ok(Some(match message.kind {
            Hello::TYPE => Self::Hello(message.fixed()?, text),
            Logs::TYPE => Self::Logs(message.records()?),
            Welcome::TYPE => Self::Welcome(message.fixed()?),
            Grants::TYPE => Self::Grants(message.records()?),
            Ping::TYPE => Self::Ping(message.fixed()?, message.records()?),
            Positions::TYPE => Self::Positions(message.fixed()?, message.records()?),
            Command::TYPE => Self::Command(message.fixed()?, message.records()?, text),
            Answer::TYPE => Self::Answer(message.fixed()?, text),
            Report::TYPE => Self::Report(message.records()?, text),
            Bye::TYPE => Self::Bye(message.fixed()?, text),
            Files::TYPE => Self::Files(message.fixed()?, message.records()?),
            Left::TYPE => Self::Left(message.fixed()?, message.records()?),
            _ => return Ok(None),
        }))
    }

    /// Writes it to the beginning of `out`, and returns its bytes. Messages that are made record by
    /// record are written by an [`Encoder`].
    ///
    /// # Panics
    /// As [`Encoder`]; [`CONTROL_BYTES_MAX`] are room for all that was read.
    pub fn encode(&self, number: u32, out: &mut [u8]) -> usize {
        match self {
            Self::Hello(hello, text) => Encoder::begin(out, number, hello).finish(text, &[]),
            Self::Logs(logs) => Encoder::begin(out, number, &Logs {}).records(logs).finish("", &[]),
            Self::Welcome(welcome) => Encoder::begin(out, number, welcome).finish("", &[]),
            Self::Grants(grants) => {
                Encoder::begin(out, number, &Grants {}).records(grants).finish("", &[])
            }
            Self::Ping(ping, logs) => {
                Encoder::begin(out, number, ping).records(logs).finish("", &[])
            }
            Self::Positions(positions, logs) => {
                Encoder::begin(out, number, positions).records(logs).finish("", &[])
            }
            Self::Command(command, values, text) => {
                Encoder::begin(out, number, command).records(values).finish(text, &[])
            }
            Self::Answer(answer, text) => Encoder::begin(out, number, answer).finish(text, &[]),
            Self::Report(values, text) => {
                Encoder::begin(out, number, &Report {}).records(values).finish(text, &[])
            }
            Self::Bye(bye, text) => Encoder::begin(out, number, bye).finish(text, &[]),
            Self::Files(files, records) => {
                Encoder::begin(out, number, files).records(records).finish("", &[])
            }
            Self::Left(left, parts) => {
                Encoder::begin(out, number, left).records(parts).finish("", &[])
            }
        }
    }
}
