//! The event link: how front-ends deliver fragments of events, as service 1 of the
//! [session layer](crate::session). Here are the bytes of its data connections, both ways, and of
//! its part of the table of logs. The specification is docs/spec/event-link.md.
//!
//! A log is a source; its items are fragments, marks and abandoned ranges. [`parse`] finds the next
//! message in the bytes that have arrived, and [`Data::read`] checks it against the bounds of its
//! table. Whether a sequence is the expected one, a source is known, a part goes on where the last
//! one ended, and a key rises is for the state of the session. Nothing allocates, and no bytes make
//! anything panic.
//!
//! [`EventLink`] is the protocol in configurations: over sessions, which receivers keep, or as
//! datagrams of one source, without session (section 12).

use crate::fields::{bound, closed, fields, open};
use crate::message::{Type, bound_sequences};
use crate::session::{
    Attach, Bounds, Encoder, Fault, Fields, Fixed, Message, REASONS, RECORDS_MAX, Records,
    SEQUENCE_END,
};
use crate::{Decoded, Decoder, Part as PartOf, Protocol, Reason, Transport};

pub use crate::session::{parse, parse_head};

/// The protocol's name in configurations and files.
pub const NAME: &str = "event-link";
/// Default for the bytes of a source's longest fragment, 1 MiB.
pub const FRAGMENT_BYTES_DEFAULT: u64 = 1 << 20;

/// The version of the event link that this module has.
pub const VERSION: u8 = 1;
/// Bytes of the longest fragment, 1,920 MiB.
pub const FRAGMENT_BYTES_MAX: u64 = 1_920 << 20;
/// The most sequences of one abandoned range.
pub const ABANDONED_MAX: u64 = 1 << 40;
/// The most items that a sender may say it holds of a source: more fit into no memory.
pub const HELD_MAX: u64 = 1 << 40;
/// Bytes of a [`FragmentRecord`] in a message of which no fragment names groups.
pub const FRAGMENT_RECORD_BYTES_MIN: usize = 16;

const TYPES: &[Type] = &[
    Type::of::<Fragments>().records(FRAGMENT_RECORD_BYTES_MIN, 1, RECORDS_MAX).body(0),
    Type::of::<Part>().body(1),
    Type::of::<Heartbeats>().records(Heartbeat::BYTES, 0, RECORDS_MAX),
    Type::of::<Mark>().text(),
    Type::of::<Attach>(),
];

/// The bounds of a data connection of events. `message_bytes_max` is the welcome's.
pub const fn bounds(message_bytes_max: u32) -> Bounds {
    Bounds::data(TYPES, message_bytes_max)
}

closed! {
    /// What the keys of a source are. Section 1.
    KeyKind: u8 {
        /// Numbers of events.
        Number = 1,
        /// Times in nanoseconds.
        Time = 2,
    }
}

closed! {
    /// Whether events wait for a source. Section 1.
    Presence: u8 {
        /// As configured, else required.
        Configured = 0,
        /// Its absence is a loss.
        Required = 1,
        /// Its absence is shown.
        Optional = 2,
        /// It may or may not contribute.
        Sparse = 3,
    }
}

fields! {
    /// A source in the table of logs: [`Log::service`](crate::session::Log::service). Section 1.
    SourceLog: 40 {
        /// Bytes of its longest fragment, 1 to [`FRAGMENT_BYTES_MAX`].
        0 fragment_bytes_max: u64 = 1..=FRAGMENT_BYTES_MAX,
        /// Bit *i*: takes part in events of group *i*; 0: in every event.
        8 groups: u64,
        /// Bits: [`REFERENCE`](Self::REFERENCE), [`MARKS`](Self::MARKS).
        16 flags: u32,
        /// What its keys are.
        20 key_kind: KeyKind,
        /// 16 to 48: keys wrap at that width; 64: whole keys, below 2^62. Others are refused when
        /// the log is admitted.
        21 key_bits: u8,
        /// Whether events wait for it.
        22 presence: Presence,
        /// What the payload is: a dtype of docs/spec/frame-file.md, section 4. 0, and a number that
        /// the recorder does not know: not known.
        23 dtype: u8,
        /// Sequence of its last mark *begin*; all ones: none.
        24 begin: u64,
    }
}

impl SourceLog {
    /// Flag: its fragments name the groups of their event.
    pub const REFERENCE: u32 = 1;
    /// Flag: it marks begin and end of runs.
    pub const MARKS: u32 = 2;
}

fields! {
    /// What is granted to a source: [`Grant::service`](crate::session::Grant::service). Section 1.
    SourceGrant: 32 {
        /// Bytes of its longest fragment, at most what was asked for; 0 if it is refused.
        0 fragment_bytes_max: u64 = 0..=FRAGMENT_BYTES_MAX,
    }
}

open! {
    /// What a recorder asks of a sender: [`Command::kind`](crate::session::Command::kind).
    /// Section 8.
    CommandKind: u16 {
        /// Get ready to start.
        PREPARE = 1 "prepare",
        /// Fragments from here on belong to the run.
        START = 2 "start",
        /// Send nothing until *continue*.
        PAUSE = 3 "pause",
        /// Go on.
        CONTINUE = 4 "continue",
        /// Make nothing more for this run.
        STOP = 5 "stop",
        /// Undo *prepare*.
        CANCEL = 6 "cancel",
        /// Take over the settings in the records.
        SET = 7 "set",
    }
}

fields! {
    /// Whole fragments of one source, whose bytes stand in the body one behind another. Section 2.
    Fragments: type 32, 24 {
        /// The source's log.
        8 log: u32,
        /// Of the first fragment; the others follow it.
        16 sequence: u64 = 0..=SEQUENCE_END,
    }
}

fields! {
    /// One fragment of [`Fragments`]. Section 2.
    FragmentRecord: 24 {
        /// Its key, as on the wire.
        0 key: u64,
        /// Its bytes.
        8 bytes: u32,
        /// Common to all fragments of the event that have one: a trigger's type; 0: it has none.
        12 tag: u8,
        /// The bits of [`PartFlags`](crate::PartFlags).
        13 flags: u8,
        /// Of a reference source, bit *i*: group *i* took part in the event. 0 where the record
        /// ends before.
        16 groups: u64,
    }
}

fields! {
    /// A part of one fragment: the body. Section 2.
    Part: type 33, 56 {
        /// The source's log.
        8 log: u32,
        /// As of [`FragmentRecord`].
        12 tag: u8,
        /// As of [`FragmentRecord`].
        13 flags: u8,
        /// The fragment's; all its parts have the same.
        16 sequence: u64 = 0..=SEQUENCE_END - 1,
        /// The fragment's key, as on the wire.
        24 key: u64,
        /// As of [`FragmentRecord`].
        32 groups: u64,
        /// Where in the fragment the body begins, in bytes.
        40 position: u64,
        /// Bytes of the whole fragment, at most [`FRAGMENT_BYTES_MAX`].
        48 fragment_bytes: u64 = 0..=FRAGMENT_BYTES_MAX,
    }
}

closed! {
    /// What a [`Mark`] says. Section 2.
    MarkKind: u16 {
        /// The run's items begin behind it.
        Begin = 1,
        /// The run's items end before it.
        End = 2,
        /// Fragments were made, and dropped by the sender.
        Abandoned = 3,
        /// Numbers begin again behind it.
        Numbering = 4,
        /// A setting changed before the next fragment.
        Setting = 5,
    }
}

open! {
    /// Why fragments were abandoned. Section 2.
    AbandonReason: u16 {
        /// Its buffer was full.
        BUFFER = 1 "buffer",
        /// The hardware failed.
        HARDWARE = 2 "hardware",
        /// The front-end was busy.
        BUSY = 3 "busy",
    }
}

fields! {
    /// An item without bytes. Its text is by kind. Section 2.
    Mark: type 34, 64 check has_count {
        /// The source's log.
        8 log: u32,
        /// What it says.
        12 kind: MarkKind,
        /// Of abandoned; otherwise 0.
        14 reason: AbandonReason,
        /// Of this item; of abandoned, of its first.
        16 sequence: u64,
        /// 1; of abandoned, 1 to [`ABANDONED_MAX`] sequences.
        24 count: u64,
        /// By kind.
        32 key: u64,
        /// By kind.
        40 key_last: u64,
        /// Bits: [`KEYS`](Self::KEYS).
        48 flags: u32,
        /// Of begin and end; otherwise 0.
        56 run_number: u64,
    }
}

impl Mark {
    /// Flag: `key` and `key_last` are known; otherwise they are 0.
    pub const KEYS: u32 = 1;
}

fn has_count(mark: &Mark) -> Result<(), Fault> {
    let max = if mark.kind == MarkKind::Abandoned { ABANDONED_MAX } else { 1 };
    bound("count", mark.count, 1..=max)?;
    bound_sequences(mark.sequence, mark.count)
}

fields! {
    /// A sign of life. Its records are sources of its connection, or none. Section 2.
    Heartbeats: type 35, 8 {}
}

fields! {
    /// A record of [`Heartbeats`]: where a source stands. Takes no sequence. Section 2.
    Heartbeat: 24 {
        /// The source's log.
        0 log: u32,
        /// Bits: [`IDLE`](Self::IDLE), [`LOW_WATER`](Self::LOW_WATER).
        4 flags: u32,
        /// Of the next item.
        8 sequence: u64 = 0..=SEQUENCE_END,
        /// No fragment with a lower key will follow.
        16 low_water: u64,
    }
}

impl Heartbeat {
    /// Flag: it may be silent for long.
    pub const IDLE: u32 = 1;
    /// Flag: `low_water` is known.
    pub const LOW_WATER: u32 = 2;
}

/// A message of a data connection, completely checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Data<'a> {
    /// The first message.
    Attach(Attach),
    /// With the body, which the fragments fill.
    Fragments(Fragments, Records<'a, FragmentRecord>, &'a [u8]),
    /// With the body, 1 byte or more, all within the fragment.
    Part(Part, &'a [u8]),
    /// With a text by kind.
    Mark(Mark, &'a str),
    /// Where sources stand.
    Heartbeat(Records<'a, Heartbeat>),
}

impl<'a> Data<'a> {
    /// Reads a message that was parsed within [`bounds`], of whose body the end may be missing.
    /// Returns `None` for one to be skipped: a type with bit 15 that this version does not know.
    ///
    /// # Errors
    /// A field that its table does not allow, or lengths that do not sum up to the body's.
    pub fn read(message: &Message<'a>) -> Result<Option<Self>, Fault> {
        let body = message.body;
        Ok(Some(match message.kind {
            Fragments::TYPE => {
                let fixed: Fragments = message.fixed()?;
                let records: Records<'_, FragmentRecord> = message.records()?;
                bound_sequences(fixed.sequence, records.len() as u64)?;
                // 4,096 times 2^32 fits into 64 bits.
                let got = records.iter().map(|record| u64::from(record.bytes)).sum();
                let body_bytes = message.body_bytes as u64;
                if got != body_bytes {
                    return Err(Fault::Sum { body: body_bytes, got });
                }
                Self::Fragments(fixed, records, body)
            }
            Part::TYPE => {
                let part: Part = message.fixed()?;
                let &Part { position, fragment_bytes, .. } = &part;
                let bytes = message.body_bytes as u64;
                if position.checked_add(bytes).is_none_or(|end| end > fragment_bytes) {
                    return Err(Fault::Part { position, bytes, fragment_bytes });
                }
                Self::Part(part, body)
            }
            Mark::TYPE => Self::Mark(message.fixed()?, message.text),
            Heartbeats::TYPE => Self::Heartbeat(message.records()?),
            Attach::TYPE => Self::Attach(message.fixed()?),
            _ => return Ok(None),
        }))
    }

    /// Writes it with its body to the beginning of `out`, and returns its bytes. Where the body is
    /// gathered from elsewhere, an [`Encoder`] writes the rest.
    ///
    /// # Panics
    /// As [`Encoder`]; the bytes that it was read from are room enough.
    pub fn encode(&self, number: u32, out: &mut [u8]) -> usize {
        match self {
            Self::Attach(attach) => Encoder::begin(out, number, attach).finish("", &[]),
            Self::Fragments(fixed, records, body) => {
                Encoder::begin(out, number, fixed).records(records).finish("", body)
            }
            Self::Part(part, body) => Encoder::begin(out, number, part).finish("", body),
            Self::Mark(mark, text) => Encoder::begin(out, number, mark).finish(text, &[]),
            Self::Heartbeat(sources) => {
                Encoder::begin(out, number, &Heartbeats {}).records(sources).finish("", &[])
            }
        }
    }
}

/// Each fragment of a message, with its bytes.
pub fn fragments<'a>(
    records: Records<'a, FragmentRecord>,
    mut body: &'a [u8],
) -> impl Iterator<Item = (FragmentRecord, &'a [u8])> {
    records.iter().map_while(move |record| {
        // Does not fail after `Data::read`.
        let (bytes, behind) = body.split_at_checked(record.bytes as usize)?;
        body = behind;
        Some((record, bytes))
    })
}

/// The event link as a source's protocol.
#[derive(Clone, Copy, Debug)]
pub struct EventLink {
    transport: Transport,
}

impl EventLink {
    /// Over sessions: a sender names its sources, and nothing is lost where a connection breaks.
    pub const SESSIONS: Self = Self { transport: Transport::Sessions };
    /// One message in each datagram, of one source.
    pub const DATAGRAMS: Self = Self { transport: Transport::Datagrams };
}

impl Protocol for EventLink {
    fn name(&self) -> &str {
        NAME
    }

    fn reasons(&self) -> &[Reason] {
        &REASONS
    }

    fn number_bits(&self) -> u32 {
        48
    }

    fn has_tags(&self) -> bool {
        true
    }

    fn fragment_bytes_max(&self) -> u64 {
        FRAGMENT_BYTES_DEFAULT
    }

    fn transport(&self) -> Transport {
        self.transport
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(Datagrams)
    }
}

/// Decodes datagrams of one source. They have no number: what is missing is missing from events.
struct Datagrams;

impl Datagrams {
    fn read(bytes: &[u8]) -> Result<Data<'_>, Fault> {
        let length = |expected: usize| {
            let (field, min, max) = ("a datagram", expected as u64, expected as u64);
            Fault::Length { field, min, max, got: bytes.len() as u64 }
        };
        // A datagram has fewer bytes than the least bound.
        let bounds = bounds(*crate::session::MESSAGE_BYTES_MAX.start());
        let message = parse(bytes, 0, bounds)?.ok_or(length(bytes.len() + 1))?;
        if message.used != bytes.len() {
            return Err(length(message.used));
        }
        match Data::read(&message)? {
            Some(Data::Attach(_)) | None => Err(Fault::Connection { got: message.kind }),
            Some(data) => Ok(data),
        }
    }
}

impl Decoder for Datagrams {
    fn decode(
        &mut self,
        _now_ns: u64,
        bytes: &[u8],
        parts: &mut Vec<PartOf>,
    ) -> Result<Decoded, usize> {
        let data = Self::read(bytes).map_err(|fault| fault.reason())?;
        let at = |body: &[u8]| (body.as_ptr().addr() - bytes.as_ptr().addr()) as u32;
        match data {
            Data::Fragments(_, records, body) => {
                let mut offset = at(body);
                parts.extend(records.iter().map(|record| {
                    let FragmentRecord { key, bytes, tag, flags, .. } = record;
                    let (number, fragment_bytes) = (key, bytes.into());
                    let none = PartOf::default();
                    let part = PartOf { number, fragment_bytes, offset, bytes, tag, flags, ..none };
                    offset += bytes;
                    part
                }));
            }
            Data::Part(part, body) => parts.push(PartOf {
                number: part.key,
                position: part.position,
                fragment_bytes: part.fragment_bytes,
                offset: at(body),
                bytes: body.len() as u32,
                tag: part.tag,
                flags: part.flags,
                ..PartOf::default()
            }),
            Data::Mark(..) | Data::Heartbeat(_) | Data::Attach(_) => {}
        }
        Ok(Decoded { used: bytes.len(), ..Decoded::default() })
    }

    fn explain(&self, bytes: &[u8]) -> String {
        let fault = Self::read(bytes).err();
        fault.map_or_else(|| "nothing is wrong with it".to_owned(), |fault| fault.to_string())
    }
}
