//! Why bytes of a session are not a message: the framing faults of docs/spec/session.md, section 9.
//! The last two are known only where the session is kept; all others are shown by the bytes alone.

use catchment_model::Entry;

use crate::decoder::Reason;

/// A framing fault. Its [`name`](Self::name) is for counting, its text for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The bytes begin no connection.
    #[error("a connection begins with \"\\x89CTSL\\r\\n\\x1a\", got {got:02x?}")]
    Magic {
        /// The first bytes, and zeros for those that have not arrived.
        got: [u8; 8],
    },
    /// The bytes begin no message.
    #[error("a message begins with the marker 0x4cc7, got {got:#06x}")]
    Marker {
        /// The first two bytes.
        got: u16,
    },
    /// A message is missing, or the bytes of one were miscounted.
    #[error("the message has the number {expected}, got {got}")]
    Number {
        /// Messages before this one, modulo 2^32.
        expected: u32,
        /// The header's number.
        got: u32,
    },
    /// The fixed part or the records do not fit their type, their table or the head.
    #[error("{field} is {min} to {max} here, and sizes are multiples of 8; got {got}")]
    Shape {
        /// The field of the shape.
        field: &'static str,
        /// Its lowest value.
        min: u64,
        /// Its highest value.
        max: u64,
        /// Its value.
        got: u64,
    },
    /// A type that this version does not have, or of another service.
    #[error("there is no message of type {got}")]
    Type {
        /// The header's type.
        got: u16,
    },
    /// A type that belongs on the other kind of connection.
    #[error("a message of type {got} does not travel on this kind of connection")]
    Connection {
        /// The header's type.
        got: u16,
    },
    /// A value that an enumeration does not have.
    #[error("{field} has no value {got}")]
    Kind {
        /// The field.
        field: &'static str,
        /// Its value.
        got: u64,
    },
    /// A value outside of the bounds that its table gives it.
    #[error("{field} is {min} to {max}, got {got}")]
    Bound {
        /// The field.
        field: &'static str,
        /// Its lowest value.
        min: u64,
        /// Its highest value.
        max: u64,
        /// Its value.
        got: u64,
    },
    /// A text that is too long, no UTF-8, or has a zero in it.
    #[error("{field} is UTF-8 of at most {bytes_max} bytes, without zeros in it")]
    Text {
        /// The field.
        field: &'static str,
        /// The longest text, in bytes.
        bytes_max: usize,
    },
    /// A length in the header that its connection or type does not allow.
    #[error("{field} has {min} to {max} bytes (a head a multiple of 8), got {got}")]
    Length {
        /// What has this length.
        field: &'static str,
        /// The shortest, in bytes.
        min: u64,
        /// The longest, in bytes.
        max: u64,
        /// Its length, in bytes.
        got: u64,
    },
    /// The fragments of a message do not fill its body.
    #[error("the fragments' bytes sum up to the body's {body}, got {got}")]
    Sum {
        /// Bytes of the body.
        body: u64,
        /// The sum over the records.
        got: u64,
    },
    /// A part reaches beyond its fragment.
    #[error("a part of {bytes} bytes at {position} is not within {fragment_bytes} bytes")]
    Part {
        /// Where in the fragment it begins, in bytes.
        position: u64,
        /// Its bytes.
        bytes: u64,
        /// Bytes of the whole fragment.
        fragment_bytes: u64,
    },
    /// The number of a log that the session does not have, or not on this connection.
    #[error("there is no log {got} on this connection")]
    UnknownLog {
        /// The number.
        got: u32,
    },
    /// An item beyond the next one of its log.
    #[error("the next item of the log has the sequence {expected}, got {got}")]
    Sequence {
        /// The sequence of the next item.
        expected: u64,
        /// The item's.
        got: u64,
    },
}

/// The reasons for counting, by [`Fault::reason`].
pub const REASONS: [Reason; 13] = [
    Reason { name: "marker", kind: Entry::PacketsMalformedHeader },
    Reason { name: "number", kind: Entry::PacketsMalformedHeader },
    Reason { name: "shape", kind: Entry::PacketsMalformedHeader },
    Reason { name: "type", kind: Entry::PacketsMalformedHeader },
    Reason { name: "connection", kind: Entry::PacketsMalformedHeader },
    Reason { name: "kind", kind: Entry::PacketsMalformedHeader },
    Reason { name: "bound", kind: Entry::PacketsMalformedHeader },
    Reason { name: "text", kind: Entry::PacketsMalformedHeader },
    Reason { name: "length", kind: Entry::PacketsMalformedLength },
    Reason { name: "sum", kind: Entry::PacketsMalformedLength },
    Reason { name: "part", kind: Entry::PacketsMalformedFragment },
    Reason { name: "unknown_log", kind: Entry::PacketsMalformedHeader },
    Reason { name: "sequence", kind: Entry::PacketsMalformedHeader },
];

impl Fault {
    /// Its index in [`REASONS`].
    pub fn reason(&self) -> usize {
        match self {
            Self::Magic { .. } | Self::Marker { .. } => 0,
            Self::Number { .. } => 1,
            Self::Shape { .. } => 2,
            Self::Type { .. } => 3,
            Self::Connection { .. } => 4,
            Self::Kind { .. } => 5,
            Self::Bound { .. } => 6,
            Self::Text { .. } => 7,
            Self::Length { .. } => 8,
            Self::Sum { .. } => 9,
            Self::Part { .. } => 10,
            Self::UnknownLog { .. } => 11,
            Self::Sequence { .. } => 12,
        }
    }

    /// Its name, under which it is counted.
    pub fn name(&self) -> &'static str {
        REASONS[self.reason()].name
    }
}
