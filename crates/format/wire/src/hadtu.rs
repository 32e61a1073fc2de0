//! `hadtu`: the protocol of HADES' read-out boards (TRB3), a queue of sub-events in one UDP
//! datagram.
//!
//! ```text
//! offset      bytes
//!      0          4  S: size of the queue, this header and the sub-events' padding included
//!      4          4  decoding, 0x00020001
//!      8      S - 8  sub-events, each padded to a multiple of 8 bytes
//!  S up to 8     32  trailer: the datagram's first 32 bytes again
//! ```
//!
//! One sub-event, `size` bytes long before its padding:
//!
//! ```text
//! offset      bytes
//!      0          4  size, these 16 bytes included
//!      4          4  decoding, 0x00020011
//!      8          4  id of the source; bit 31: the source says that its data are broken
//!     12          4  trigger number (24 bits) << 8 | trigger tag (8 bits)
//!     16  size - 16  payload, none is legal
//! ```
//!
//! Every word is in its sender's byte order, which a decoding word reveals: its most significant
//! byte is zero and its least significant is not. The packet's own decoding word applies to the
//! packet's header, each sub-event's to that sub-event. Only the order is taken from it: boards use
//! several values.
//!
//! In a queue shorter than 32 bytes, the trailer overlaps the bytes that it repeats. The rule stays
//! the same (byte *i* of the trailer equals byte *i* of the datagram), so an empty queue is its
//! header five times over. DABC compares in the same way.

use catchment_model::{Entry, limits::DATAGRAM_BYTES_MAX};

use crate::decoder::{Decoded, Decoder, Part, PartFlags, Protocol, Reason};

/// The protocol as a receiver uses it. A fragment is a sub-event, including its header.
#[derive(Clone, Copy, Debug)]
pub struct Hadtu;

impl Protocol for Hadtu {
    fn name(&self) -> &str {
        NAME
    }

    fn reasons(&self) -> &[Reason] {
        &[
            Reason { name: "short", kind: Entry::PacketsMalformedShort },
            Reason { name: "length", kind: Entry::PacketsMalformedLength },
            Reason { name: "decoding", kind: Entry::PacketsMalformedHeader },
            Reason { name: "trailer", kind: Entry::PacketsMalformedChecksum },
            Reason { name: "sub_event", kind: Entry::PacketsMalformedFragment },
        ]
    }

    fn number_bits(&self) -> u32 {
        TRIGGER_NUMBER_BITS
    }

    fn id_bits(&self) -> u32 {
        ID_END.ilog2()
    }

    fn has_tags(&self) -> bool {
        true
    }

    fn fragment_bytes_max(&self) -> u64 {
        (SUB_EVENT_HEADER_BYTES + PAYLOAD_BYTES_MAX) as u64
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(HadtuDecoder)
    }
}

/// Its name in configurations and files.
pub const NAME: &str = "hadtu";

/// Bytes of a packet's header.
pub const PACKET_HEADER_BYTES: usize = 8;
/// Bytes of a packet's trailer.
pub const TRAILER_BYTES: usize = 32;
/// Bytes of a sub-event's header.
pub const SUB_EVENT_HEADER_BYTES: usize = 16;
/// Bytes of the shortest packet: an empty queue.
pub const PACKET_BYTES_MIN: usize = PACKET_HEADER_BYTES + TRAILER_BYTES;
/// Bytes of payload that one sub-event can carry in one datagram.
pub const PAYLOAD_BYTES_MAX: usize =
    (DATAGRAM_BYTES_MAX - PACKET_BYTES_MIN - SUB_EVENT_HEADER_BYTES) & !7;
/// The decoding word of packets sent here.
pub const PACKET_DECODING: u32 = 0x0002_0001;
/// The usual decoding word of a board's sub-events: 32-bit words, trigger type 1.
pub const SUB_EVENT_DECODING: u32 = 0x0002_0011;
/// Marks, in the id word, data that their source reports as broken.
pub const ERROR_BIT: u32 = 1 << 31;
/// Ids of sources are below this: the bit is not part of an id.
pub const ID_END: u32 = ERROR_BIT;
/// Bits of the trigger number.
pub const TRIGGER_NUMBER_BITS: u32 = 24;

/// The order of the bytes in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first, as TRB boards send.
    Big,
}

impl ByteOrder {
    /// The order of a sender, from the four bytes of a decoding word on the wire.
    #[inline]
    fn of_decoding(bytes: [u8; 4]) -> Option<Self> {
        match (bytes[0], bytes[3]) {
            (0, 1..) => Some(Self::Big),
            (1.., 0) => Some(Self::Little),
            _ => None,
        }
    }

    #[inline]
    fn read(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    #[inline]
    fn write(self, word: u32) -> [u8; 4] {
        match self {
            Self::Little => word.to_le_bytes(),
            Self::Big => word.to_be_bytes(),
        }
    }
}

/// Why a datagram is not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Shorter than the shortest packet.
    #[error("a packet has at least {PACKET_BYTES_MIN} bytes, got {got}")]
    Short {
        /// Bytes of the datagram.
        got: usize,
    },
    /// The size word gives a different length, or an impossible one.
    #[error("the size word says a datagram of {expected} bytes, got {got}")]
    Length {
        /// Bytes that a datagram with this size word has.
        expected: u64,
        /// Bytes of the datagram.
        got: usize,
    },
    /// The decoding word gives no byte order.
    #[error("a decoding word such as {PACKET_DECODING:#010x} was expected, got {got:#010x}")]
    Decoding {
        /// The word, read as big-endian.
        got: u32,
    },
    /// The trailer is not a copy of the datagram's beginning.
    #[error("the trailer differs from the datagram's first {TRAILER_BYTES} bytes")]
    Trailer,
    /// A sub-event's header is impossible.
    #[error("the sub-event at byte {offset} cannot have size {size} and decoding {decoding:#010x}")]
    SubEvent {
        /// Its offset in bytes from the datagram's beginning.
        offset: usize,
        /// Its size word, or the bytes left for its header.
        size: u32,
        /// Its decoding word, read as big-endian; 0 if there was no room for one.
        decoding: u32,
    },
}

impl PacketError {
    /// Its index in the protocol's list of reasons.
    fn reason(&self) -> usize {
        match self {
            Self::Short { .. } => 0,
            Self::Length { .. } => 1,
            Self::Decoding { .. } => 2,
            Self::Trailer => 3,
            Self::SubEvent { .. } => 4,
        }
    }
}

struct HadtuDecoder;

impl Decoder for HadtuDecoder {
    #[inline]
    fn decode(
        &mut self,
        _now_ns: u64,
        datagram: &[u8],
        parts: &mut Vec<Part>,
    ) -> Result<Decoded, usize> {
        // In the checking pass: a second one over the headers of a full packet costs a fifth of
        // receiving it.
        let parsed = Packet::parse_with(datagram, |offset, words, order, bytes| {
            let (id, trigger) = (order.read(words[2]), order.read(words[3]));
            let error = if id & ERROR_BIT == 0 { 0 } else { PartFlags::SENDER_ERROR };
            let order = if order == ByteOrder::Big { PartFlags::BIG_ENDIAN } else { 0 };
            parts.push(Part {
                lane: 0,
                number: u64::from(trigger >> 8),
                position: 0,
                fragment_bytes: bytes as u64,
                offset: offset as u32,
                bytes: bytes as u32,
                id: id & !ERROR_BIT,
                tag: trigger as u8,
                flags: error | order,
                groups: 0,
            });
        });
        match parsed {
            Ok(_) => Ok(Decoded::default()),
            Err(error) => {
                parts.clear();
                Err(error.reason())
            }
        }
    }

    fn explain(&self, datagram: &[u8]) -> String {
        Packet::parse(datagram).err().map_or_else(String::new, |error| error.to_string())
    }
}

/// A completely checked datagram.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    // Header, sub-events and the last one's padding: S rounded up to 8 bytes.
    queue: &'a [u8],
    size: usize,
    count: usize,
    order: ByteOrder,
}

impl<'a> Packet<'a> {
    /// Checks size word, decoding, length, trailer and every sub-event's size and decoding before
    /// anything is returned: a datagram that is malformed anywhere is dropped whole.
    ///
    /// # Errors
    /// A datagram that is not a packet; see [`PacketError`].
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Result<Self, PacketError> {
        Self::parse_with(datagram, |_, _, _, _| {})
    }

    /// As [`Packet::parse`], passing on each sub-event once it has been checked: its offset in the
    /// datagram, its words, their order and its size. Those before a malformed one have also been
    /// passed on.
    #[inline]
    fn parse_with(
        datagram: &'a [u8],
        each: impl FnMut(usize, [[u8; 4]; 4], ByteOrder, usize),
    ) -> Result<Self, PacketError> {
        let got = datagram.len();
        let Some(head) = datagram.first_chunk::<TRAILER_BYTES>() else {
            return Err(PacketError::Short { got });
        };
        if got < PACKET_BYTES_MIN {
            return Err(PacketError::Short { got });
        }
        let decoding = [head[4], head[5], head[6], head[7]];
        let Some(order) = ByteOrder::of_decoding(decoding) else {
            return Err(PacketError::Decoding { got: u32::from_be_bytes(decoding) });
        };
        let size = order.read([head[0], head[1], head[2], head[3]]);
        let padded = (u64::from(size) + 7) & !7;
        let expected = padded + TRAILER_BYTES as u64;
        if expected != got as u64 || size < PACKET_HEADER_BYTES as u32 {
            return Err(PacketError::Length { expected, got });
        }
        let (queue, trailer) = datagram.split_at(got - TRAILER_BYTES);
        if trailer != head {
            return Err(PacketError::Trailer);
        }
        let count = check_sub_events(queue, size as usize, each)?;
        Ok(Self { queue, size: size as usize, count, order })
    }

    /// Its sub-events, in the order of the datagram.
    #[inline]
    pub fn sub_events(&self) -> SubEvents<'a> {
        SubEvents { rest: &self.queue[PACKET_HEADER_BYTES..], left: self.count }
    }

    /// The number of its sub-events.
    #[inline]
    pub fn sub_event_count(&self) -> usize {
        self.count
    }

    /// The byte order of its header.
    #[inline]
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// The size word: bytes of the queue, trailer excluded.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }
}

/// One source's part of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubEvent<'a> {
    /// All of it as received: including the 16-byte header, without the padding.
    pub bytes: &'a [u8],
    /// The source's id, error bit cleared.
    pub id: u32,
    /// The source reports that its data are broken.
    pub error: bool,
    /// The trigger number, 24 bits.
    pub trigger_number: u32,
    /// The trigger tag.
    pub trigger_tag: u8,
    /// The byte order of its header.
    pub order: ByteOrder,
    /// The decoding word.
    pub decoding: u32,
}

impl<'a> SubEvent<'a> {
    /// The data after the header, in the source's own format.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[SUB_EVENT_HEADER_BYTES..]
    }
}

/// The sub-events of a packet.
#[derive(Clone, Debug)]
pub struct SubEvents<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Iterator for SubEvents<'a> {
    type Item = SubEvent<'a>;

    #[inline]
    fn next(&mut self) -> Option<SubEvent<'a>> {
        if self.left == 0 {
            return None;
        }
        // None of these fails after Packet::parse; `?` instead of a panic costs nothing.
        let words = words_of(self.rest)?;
        let order = ByteOrder::of_decoding(words[1])?;
        let size = order.read(words[0]) as usize;
        let bytes = self.rest.get(..size)?;
        self.rest = self.rest.get((size + 7) & !7..)?;
        self.left -= 1;
        let id = order.read(words[2]);
        let trigger = order.read(words[3]);
        Some(SubEvent {
            bytes,
            id: id & !ERROR_BIT,
            error: id & ERROR_BIT != 0,
            trigger_number: trigger >> 8,
            trigger_tag: trigger as u8,
            order,
            decoding: order.read(words[1]),
        })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for SubEvents<'_> {}

/// A sub-event's header except its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubEventHeader {
    /// The decoding word, usually [`SUB_EVENT_DECODING`].
    pub decoding: u32,
    /// The source's id, 31 bits.
    pub id: u32,
    /// Whether the source reports that its data are broken.
    pub error: bool,
    /// The trigger number; its low 24 bits are sent.
    pub trigger_number: u32,
    /// The trigger tag.
    pub trigger_tag: u8,
}

/// Writes one packet into a buffer of the caller: begin (or resume), push, finish.
///
/// The encoder has no memory of its own, so a queue that fills over a long time consists of the
/// buffer and the number that [`used`](Self::used) returned.
#[derive(Debug)]
pub struct PacketEncoder<'b> {
    buffer: &'b mut [u8],
    used: usize,
    order: ByteOrder,
}

impl<'b> PacketEncoder<'b> {
    /// An empty queue at the beginning of `buffer`.
    ///
    /// # Panics
    /// A buffer shorter than [`PACKET_BYTES_MIN`].
    #[inline]
    pub fn begin(buffer: &'b mut [u8], order: ByteOrder) -> Self {
        Self::resume(buffer, order, PACKET_HEADER_BYTES)
    }

    /// Continues a queue that was begun in the same buffer and order.
    ///
    /// # Panics
    /// A `used` that leaves no room for the trailer, or that no encoder returned.
    #[inline]
    pub fn resume(buffer: &'b mut [u8], order: ByteOrder, used: usize) -> Self {
        assert!(used >= PACKET_HEADER_BYTES && used.is_multiple_of(8));
        assert!(used + TRAILER_BYTES <= buffer.len());
        Self { buffer, used, order }
    }

    /// Bytes of the queue so far, with the header, without the trailer.
    #[inline]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Whether there is no sub-event yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.used == PACKET_HEADER_BYTES
    }

    /// Whether a sub-event with that payload still fits into the buffer and into one datagram.
    #[inline]
    pub fn fits(&self, payload_bytes: usize) -> bool {
        let room = self.buffer.len().min(DATAGRAM_BYTES_MAX) - TRAILER_BYTES - self.used;
        payload_bytes <= PAYLOAD_BYTES_MAX
            && (SUB_EVENT_HEADER_BYTES + payload_bytes + 7) & !7 <= room
    }

    /// Appends a sub-event; returns false and does nothing if it does not fit.
    #[inline]
    pub fn push(&mut self, header: &SubEventHeader, payload: &[u8]) -> bool {
        self.push_with(header, payload.len(), |room| room[..payload.len()].copy_from_slice(payload))
    }

    /// Appends a sub-event whose payload `fill` writes in place. `fill` gets the buffer from the
    /// beginning of the payload to the end of the buffer, and may write more than the payload, such
    /// as whole vectors: the excess is overwritten. Returns false without calling `fill` if it does
    /// not fit.
    #[inline]
    pub fn push_with(
        &mut self,
        header: &SubEventHeader,
        payload_bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> bool {
        if !self.fits(payload_bytes) {
            return false;
        }
        let size = SUB_EVENT_HEADER_BYTES + payload_bytes;
        let error = if header.error { ERROR_BIT } else { 0 };
        let area = &mut self.buffer[self.used..];
        // One 16-byte store; four separate words would be four.
        let words = [
            size as u32,
            header.decoding,
            (header.id & !ERROR_BIT) | error,
            header.trigger_number << 8 | u32::from(header.trigger_tag),
        ]
        .map(|word| self.order.write(word));
        area[..SUB_EVENT_HEADER_BYTES].copy_from_slice(words.as_flattened());
        fill(&mut area[SUB_EVENT_HEADER_BYTES..]);
        let padded = (size + 7) & !7;
        area[size..padded].fill(0);
        self.used += padded;
        true
    }

    /// Writes header and trailer and returns the bytes of the datagram, at the beginning of the
    /// buffer.
    #[inline]
    pub fn finish(self) -> usize {
        let size = self.order.write(self.used as u32);
        let decoding = self.order.write(PACKET_DECODING);
        self.buffer[..PACKET_HEADER_BYTES].copy_from_slice([size, decoding].as_flattened());
        // Eight bytes at a time, from the front: if the trailer overlaps the bytes that it repeats,
        // the later words read what the earlier ones wrote.
        for offset in (0..TRAILER_BYTES).step_by(8) {
            self.buffer.copy_within(offset..offset + 8, self.used + offset);
        }
        self.used + TRAILER_BYTES
    }
}

#[inline]
fn words_of(bytes: &[u8]) -> Option<[[u8; 4]; 4]> {
    let (words, _) = bytes.first_chunk::<SUB_EVENT_HEADER_BYTES>()?.as_chunks::<4>();
    words.try_into().ok()
}

/// The number of sub-events in `queue[8..size]`; `queue` is longer by less than 8 bytes.
#[inline]
fn check_sub_events(
    queue: &[u8],
    size: usize,
    mut each: impl FnMut(usize, [[u8; 4]; 4], ByteOrder, usize),
) -> Result<usize, PacketError> {
    let mut offset = PACKET_HEADER_BYTES;
    let mut count = 0;
    while offset < size {
        let left = size - offset;
        let words = match words_of(&queue[offset..]) {
            Some(words) if left >= SUB_EVENT_HEADER_BYTES => words,
            _ => return Err(PacketError::SubEvent { offset, size: left as u32, decoding: 0 }),
        };
        let order = ByteOrder::of_decoding(words[1]);
        let bytes = order.unwrap_or(ByteOrder::Big).read(words[0]);
        let fits = (SUB_EVENT_HEADER_BYTES..=left).contains(&(bytes as usize));
        let Some(order) = order.filter(|_| fits) else {
            let decoding = u32::from_be_bytes(words[1]);
            return Err(PacketError::SubEvent { offset, size: bytes, decoding });
        };
        each(offset, words, order, bytes as usize);
        offset += (bytes as usize + 7) & !7;
        count += 1;
    }
    Ok(count)
}

const _: () = {
    assert!(PAYLOAD_BYTES_MAX == 65_448);
    // Offsets and sizes within a datagram never come near the end of 32 bits.
    assert!(DATAGRAM_BYTES_MAX < u32::MAX as usize);
};
