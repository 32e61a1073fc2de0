//! The channel link over sessions: packets of [`crate::link`] as the items of a log, as
//! service 2 of the [session layer](crate::session). Here are the bytes of its data connections.
//! The specification is docs/spec/session.md, section 11.

use catchment_model::limits::DATAGRAM_BYTES_MAX;

use crate::fields::{Fixed as _, bound, fields};
use crate::link::{self, MAGIC};
use crate::message::Type;
use crate::session::{Attach, Bounds, Encoder, Fault, Message, SEQUENCE_END};

/// The version of the channel link that this module has.
pub const VERSION: u8 = 1;
/// Bytes of the longest message that a recorder of channels takes.
pub const MESSAGE_BYTES_MAX: u32 = 131_064;

/// Bytes of the longest packet: that of a datagram.
pub const PACKET_BYTES_MAX: usize = DATAGRAM_BYTES_MAX;

const TYPES: &[Type] = &[Type::of::<Samples>().body(0), Type::of::<Attach>()];

/// The bounds of a data connection of channels.
pub const BOUNDS: Bounds = Bounds::data(TYPES, MESSAGE_BYTES_MAX);

fields! {
    /// One packet of a link: the body. Without one, a sign of life. Section 11.
    Samples: type 48, 24 {
        /// The link's log.
        8 log: u32,
        /// Of the item; of a message that takes none, that of the next item.
        16 sequence: u64 = 0..=SEQUENCE_END,
    }
}

impl Samples {
    /// Whether a body is an item. A heartbeat takes no sequence, and neither does no packet.
    pub fn is_item(packet: &[u8]) -> bool {
        let is_heartbeat = packet.get(5) == Some(&(link::Kind::Heartbeat as u8));
        !(packet.is_empty() || is_heartbeat && packet.starts_with(&MAGIC))
    }
}

/// A message of a data connection, whose framing is completely checked. The packet is not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Data<'a> {
    /// The first message.
    Attach(Attach),
    /// With the packet.
    Samples(Samples, &'a [u8]),
}

impl<'a> Data<'a> {
    /// Reads a message that was parsed within [`BOUNDS`]. Returns `None` for one to be skipped: a
    /// type with bit 15 that this version does not know.
    ///
    /// # Errors
    /// A field that its table does not allow, or a packet that is longer than a datagram.
    pub fn read(message: &Message<'a>) -> Result<Option<Self>, Fault> {
        Ok(Some(match message.kind {
            Samples::TYPE => {
                let samples: Samples = message.fixed()?;
                let (max, got) = (PACKET_BYTES_MAX as u64, message.body_bytes as u64);
                if got > max {
                    return Err(Fault::Length { field: "a packet", min: 0, max, got });
                }
                let is_item = Samples::is_item(message.body);
                let end = SEQUENCE_END - u64::from(is_item);
                bound("sequence", samples.sequence, 0..=end)?;
                Self::Samples(samples, message.body)
            }
            Attach::TYPE => Self::Attach(message.fixed()?),
            _ => return Ok(None),
        }))
    }

    /// Writes it with its body to the beginning of `out`, and returns its bytes.
    ///
    /// # Panics
    /// As [`Encoder`]; the bytes that it was read from are room enough.
    pub fn encode(&self, number: u32, out: &mut [u8]) -> usize {
        match self {
            Self::Attach(attach) => Encoder::begin(out, number, attach).finish("", &[]),
            Self::Samples(samples, packet) => {
                Encoder::begin(out, number, samples).finish("", packet)
            }
        }
    }
}
