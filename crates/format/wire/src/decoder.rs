//! What every protocol is to a receiver: a datagram goes in, parts of fragments come out, or a
//! reason why it is none.
//!
//! A fragment is whole in one datagram, or goes on over many: each *part* says where in its
//! fragment it belongs, and how long the fragment is. Receivers put parts together, in any order.

use std::fmt;

use catchment_model::{Entry, REASONS_MAX};

/// A protocol of a source (`protocol = "NAME"` in a configuration), with its settings from that
/// configuration. Several sources may share one.
pub trait Protocol: fmt::Debug + Send + Sync {
    /// Its name in configurations and files.
    fn name(&self) -> &str;

    /// Why its decoders refuse a datagram. Together with [`RECEIVER_REASONS`] there are at most
    /// [`REASONS_MAX`].
    fn reasons(&self) -> &[Reason];

    /// How many bits its event numbers have.
    fn number_bits(&self) -> u32;

    /// Bytes of its longest fragment unless a source's configuration says otherwise.
    fn fragment_bytes_max(&self) -> u64;

    /// A decoder for one sender.
    fn decoder(&self) -> Box<dyn Decoder>;
}

/// All reasons that a source counts, by their index: its protocol's own, then the receiver's.
///
/// # Panics
/// More than [`REASONS_MAX`].
pub fn all_reasons(own: &[Reason]) -> impl Iterator<Item = Reason> + '_ {
    assert!(own.len() + RECEIVER_REASONS.len() <= REASONS_MAX);
    own.iter().copied().chain(RECEIVER_REASONS)
}

/// Why a datagram is refused, in a protocol's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// One word or two with an underscore.
    pub name: &'static str,
    /// The kind that the ledger has for all protocols.
    pub kind: Entry,
}

/// Decodes the datagrams of one sender. It may keep what it needs from earlier ones.
pub trait Decoder: Send {
    /// Appends the parts of the datagram to `parts`, which the caller has emptied. The datagram is
    /// checked from end to end before anything is appended: what is malformed anywhere is dropped
    /// whole. Allocates nothing itself, and never panics. `now_ns` is the receiver's time.
    ///
    /// # Errors
    /// The index of the reason in [`Protocol::reasons`].
    fn decode(
        &mut self,
        now_ns: u64,
        datagram: &[u8],
        parts: &mut Vec<Part>,
    ) -> Result<Decoded, usize>;

    /// No further datagram will come. Returns how many are missing beyond those counted before.
    fn settle(&mut self) -> u64 {
        0
    }

    /// Says in a sentence what is wrong with a datagram that [`decode`](Self::decode) has just
    /// refused. For diagnosis, not for every packet: it allocates.
    fn explain(&self, datagram: &[u8]) -> String;
}

/// What a datagram says beside its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decoded {
    /// How many datagrams its source sent before it, where the protocol says so: a gap in these
    /// numbers is what the network lost.
    pub sequence: Option<u64>,
    /// How many more datagrams are now known to be missing, if the decoder tracks the numbers
    /// itself instead of returning a `sequence`.
    pub missing: u64,
    /// Whether such a decoder knows that the datagram is not a repetition.
    pub sent_once: bool,
}

/// Bytes of a datagram that are a fragment, or a part of one.
///
/// Invariants: `offset + bytes` lies within the datagram, and `position + bytes` within
/// `fragment_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The number of its source among the sources of its sender: 0 if there is only one.
    pub lane: u32,
    /// The event number, as on the wire.
    pub number: u64,
    /// Where the fragment has these bytes.
    pub position: u64,
    /// Bytes of the whole fragment.
    pub fragment_bytes: u64,
    /// Where the datagram has these bytes.
    pub offset: u32,
    /// How many there are.
    pub bytes: u32,
    /// The number that the fragment gives its source, or 0 where the protocol has none.
    pub id: u32,
    /// What all fragments of one event have in common beside the number: a trigger's type.
    pub tag: u8,
    /// Conditions, see [`PartFlags`].
    pub flags: u8,
}

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

/// Why receivers refuse a datagram that a decoder has accepted. A source counts them behind its
/// protocol's reasons.
pub const RECEIVER_REASONS: [Reason; 2] = [
    // A fragment that is longer than `fragment_bytes_max` of its source.
    Reason { name: "fragment_too_long", kind: Entry::PacketsMalformedFragment },
    // A part that says another length of its fragment than the parts before.
    Reason { name: "fragment_length_changed", kind: Entry::PacketsMalformedFragment },
];
