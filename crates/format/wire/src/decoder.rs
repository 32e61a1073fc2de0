//! The common interface of protocols to a receiver: a message goes in, parts of fragments come
//! out, or the reason why it has none.
//!
//! A *message* is a datagram, or a run of a connection's bytes whose end the protocol defines. Each
//! connection has a decoder of its own.
//!
//! A fragment is whole in one datagram or spans many: each *part* gives its position in the
//! fragment, and the fragment's length. Receivers assemble the parts, in any order.

use std::fmt;

use catchment_model::{Entry, REASONS_MAX};

use crate::layouts::Layouts;

/// A protocol of a source (`protocol = "NAME"` in a configuration), with its settings from that
/// configuration. Several sources may share one.
pub trait Protocol: fmt::Debug + Send + Sync {
    /// Its name in configurations and files.
    fn name(&self) -> &str;

    /// The reasons for which its decoders refuse a message. With the receiver's there are at most
    /// [`REASONS_MAX`].
    fn reasons(&self) -> &[Reason];

    /// The number of bits in its event numbers.
    fn number_bits(&self) -> u32;

    /// If its numbers are times: the ticks of the clock in a second. It wraps at the
    /// [`number_bits`](Self::number_bits).
    fn clock_hz(&self) -> Option<u64> {
        None
    }

    /// The layouts that a configuration declares, if it is made of some: from these, packets are
    /// made, too.
    fn declared(&self) -> &[Layouts] {
        &[]
    }

    /// The number of bits in the ids of sources that its fragments carry; 0 if they carry none, or
    /// if these are no setting.
    fn id_bits(&self) -> u32 {
        0
    }

    /// Default for the bytes of its longest fragment.
    fn fragment_bytes_max(&self) -> u64;

    /// The most bytes of a fragment that a message carries; none if it can carry a whole one.
    fn part_bytes_max(&self) -> Option<u64> {
        None
    }

    /// The most bytes that a fragment may lack and still be recorded, zeros in its holes. None: a
    /// fragment of which anything is missing is given up.
    fn holes_bytes_max(&self) -> Option<u64> {
        None
    }

    /// The checksum that each of its fragments has, if any.
    fn checksum(&self) -> Option<FragmentChecksum> {
        None
    }

    /// Whether its fragments name the groups that took part in their event ([`Part::groups`]).
    fn names_groups(&self) -> bool {
        false
    }

    /// Whether its fragments have a tag ([`Part::tag`]). Otherwise they are not compared with those
    /// of other sources.
    fn has_tags(&self) -> bool {
        false
    }

    /// Whether several senders may deliver the fragments of one source. Otherwise all but one are
    /// strangers.
    fn has_several_senders(&self) -> bool {
        false
    }

    /// How its messages arrive.
    fn transport(&self) -> Transport {
        Transport::Datagrams
    }

    /// A decoder for one sender: of datagrams to one port, or of one connection.
    fn decoder(&self) -> Box<dyn Decoder>;
}

/// Where a fragment has the Adler-32 of all bytes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentChecksum {
    /// The checksum's position in the fragment.
    pub offset: u64,
    /// Whether its most significant byte comes first.
    pub big_endian: bool,
}

/// How a protocol's messages arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// As datagrams (UDP), one source to a port. Without room for it, a datagram is dropped and
    /// counted.
    Datagrams,
    /// Over connections (TCP), any number to a port. Sources may share a port; a connection may
    /// deliver any of them, and fragments name their source by its id. Without room, the connection
    /// is not read, and its sender waits.
    Connections,
    /// Over sessions (docs/spec/session.md), to a port that sources share. A log of a session names
    /// its source. Without room, a session's data connection is not read.
    Sessions,
}

impl Transport {
    /// Whether it is over connections, of sessions or not: without room, a sender waits.
    pub fn is_connections(self) -> bool {
        self != Self::Datagrams
    }
}

/// All reasons that a source counts, by index: its protocol's own, then the receiver's.
///
/// # Panics
/// More than [`REASONS_MAX`] reasons.
pub fn all_reasons(own: &[Reason], transport: Transport) -> impl Iterator<Item = Reason> + '_ {
    assert!(own.len() + RECEIVER_REASONS.len() < REASONS_MAX, "too many reasons");
    let of_connections = transport.is_connections().then_some(CUT_OFF);
    own.iter().copied().chain(RECEIVER_REASONS).chain(of_connections)
}

/// The reason for refusing a message, as named by its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// One word, or two with an underscore.
    pub name: &'static str,
    /// The ledger's kind, common to all protocols.
    pub kind: Entry,
}

/// Decodes the messages of one sender. It may keep state from earlier ones.
pub trait Decoder: Send {
    /// Appends the parts of a message to `parts`, which the caller has emptied: at most
    /// [`PARTS_MAX`]. `bytes` is a datagram, or all bytes of a connection from the beginning of a
    /// message on. The message is checked completely before anything is appended: a message that is
    /// malformed anywhere is dropped whole, and ends its connection. Allocates nothing itself, and
    /// never panics. `now_ns` is the receiver's time.
    ///
    /// # Errors
    /// The index of the reason in [`Protocol::reasons`].
    fn decode(
        &mut self,
        now_ns: u64,
        bytes: &[u8],
        parts: &mut Vec<Part>,
    ) -> Result<Decoded, usize>;

    /// The message decoded last is of a sender that is none of its sources: its
    /// [`sequence`](Decoded::sequence) is not continued.
    fn disown(&mut self) {}

    /// Called when no further message will arrive. Returns how many are missing beyond those
    /// counted before.
    fn settle(&mut self) -> u64 {
        0
    }

    /// Appends what is to be sent to the sender of a connection now to `answer`, which is empty:
    /// whole messages of the protocol, at most 64 KiB, or nothing. Called after each cycle in which
    /// messages arrived, and every 20 ms at least, while the sender has taken all earlier answers;
    /// what waits meanwhile is state of the decoder. `is_held` says that the last message has not
    /// been taken completely, and that its sender waits.
    fn answer(&mut self, _now_ns: u64, _is_held: bool, _answer: &mut Vec<u8>) {}

    /// Describes in a sentence what is wrong with a message that [`decode`](Self::decode) has just
    /// refused. For diagnosis, not for every packet: it allocates.
    fn explain(&self, bytes: &[u8]) -> String;
}

/// The most parts that one message may have.
pub const PARTS_MAX: usize = 4_096;

/// A message's data besides its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// On a connection, the bytes of the message; 0 if its end has not arrived. A message has less
    /// than 128 KiB, so that a longer fragment comes in parts. Not used for datagrams.
    pub used: usize,
    /// How many messages its source sent before it, if the protocol has this number: a gap means
    /// losses on the network.
    pub sequence: Option<u64>,
    /// How many more messages are now known to be missing, if the decoder tracks the numbers
    /// itself instead of returning a `sequence`.
    pub missing: u64,
    /// How many of its records are no fragments by their kind.
    pub skipped: u64,
    /// Whether such a decoder can rule out that the message is a repetition.
    pub sent_once: bool,
}

/// Bytes of a message that are a fragment, or a part of one.
///
/// Invariants: `offset + bytes` lies within the message, and `position + bytes` within
/// `fragment_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The number of its source among the sources of its sender: 0 if there is only one, and on
    /// connections, where [`id`](Self::id) says it.
    pub lane: u32,
    /// The event number, as on the wire.
    pub number: u64,
    /// The position of these bytes in the fragment.
    pub position: u64,
    /// Bytes of the whole fragment.
    pub fragment_bytes: u64,
    /// Where the message has these bytes.
    pub offset: u32,
    /// The number of these bytes.
    pub bytes: u32,
    /// The source number in the fragment, or 0 if the protocol has none.
    pub id: u32,
    /// A value common to all fragments of one event besides the number: a trigger's type.
    pub tag: u8,
    /// Conditions, see [`PartFlags`].
    pub flags: u8,
    /// The groups that took part in its event, one in each bit; 0 if it names none.
    pub groups: u16,
}

// In what alignment left over.
const _: () = assert!(size_of::<Part>() == 48);

impl Part {
    /// Whether it is a whole fragment.
    #[inline]
    pub fn is_whole(&self) -> bool {
        u64::from(self.bytes) == self.fragment_bytes
    }
}

/// The bits of [`Part::flags`].
pub struct PartFlags;

impl PartFlags {
    /// The source marked its own data as broken.
    pub const SENDER_ERROR: u8 = 1;
    /// The fragment's numbers are big-endian.
    pub const BIG_ENDIAN: u8 = 2;
}

/// The reasons for which receivers refuse a message that a decoder has accepted. A source counts
/// them behind its protocol's reasons.
pub const RECEIVER_REASONS: [Reason; 2] = [
    // A fragment longer than its source's `fragment_bytes_max`.
    Reason { name: "fragment_too_long", kind: Entry::PacketsMalformedFragment },
    // A part that gives a different length of its fragment than earlier parts.
    Reason { name: "fragment_length_changed", kind: Entry::PacketsMalformedFragment },
];

/// The reason for refusing the beginning of a message whose connection ended before its end. It is
/// counted behind [`RECEIVER_REASONS`].
pub const CUT_OFF: Reason = Reason { name: "cut_off", kind: Entry::PacketsMalformedShort };
