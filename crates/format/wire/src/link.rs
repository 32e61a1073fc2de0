//! `link`: Catchment's own protocol for continuous channels; one UDP datagram carries parts of one
//! slice of time. The specification is docs/spec/link.md.
//!
//! ```text
//! offset  bytes
//!      0      4  magic "CTLK"
//!      4      1  version, 1
//!      5      1  kind: 1 samples, 2 heartbeat
//!      6      2  flags, 0
//!      8      4  link: the sender's number
//!     12      2  entry count n
//!     14      2  reserved
//!     16      8  sequence: packets of samples that the link sent before
//!     24      8  slice
//!     32      8  slice_ns: the slice is the time from slice * slice_ns, slice_ns long
//!     40      8  reserved
//!     48   16 n  entries: channel u32, first sample u32, bytes u32, reserved u32
//!      .      .  each entry's samples, in the entries' order, padded with zeros to 8 bytes
//! ```
//!
//! All numbers are little-endian, and so are the samples.

use catchment_model::{Entry as LedgerEntry, SampleRate, limits::DATAGRAM_BYTES_MAX};

use crate::decoder::{Decoded, Decoder, Part, Protocol, Reason, Transport};
use crate::sequence::Arrival;

mod gaps;

use gaps::LinkGaps;

/// Why a datagram of a link is refused: it contradicts itself ([`PacketError`]), or the receiver's
/// configuration ([`SLICE_LENGTH`], [`CHANNEL`]).
pub const REASONS: &[Reason] = &[
    Reason { name: "short", kind: LedgerEntry::PacketsMalformedShort },
    Reason { name: "length", kind: LedgerEntry::PacketsMalformedLength },
    Reason { name: "foreign", kind: LedgerEntry::PacketsMalformedHeader },
    Reason { name: "slice", kind: LedgerEntry::PacketsMalformedHeader },
    Reason { name: "entry", kind: LedgerEntry::PacketsMalformedFragment },
    Reason { name: "slice_length", kind: LedgerEntry::PacketsMalformedHeader },
    Reason { name: "channel", kind: LedgerEntry::PacketsMalformedFragment },
];
/// The reason for slices whose length is not the configured one.
pub const SLICE_LENGTH: usize = 5;
/// The reason for an entry that does not match the configuration of its channel and slice.
pub const CHANNEL: usize = 6;

/// Bytes of a packet's header, which is all that a heartbeat has.
pub const HEADER_BYTES: usize = 48;
/// Bytes of an entry in a packet's table.
pub const ENTRY_BYTES: usize = 16;
/// Bytes of samples that one entry can carry in one datagram.
pub const SAMPLES_BYTES_MAX: usize = (DATAGRAM_BYTES_MAX - HEADER_BYTES - ENTRY_BYTES) & !7;
/// Nanoseconds of the longest slice: an hour.
pub const SLICE_NS_MAX: u64 = 3_600_000_000_000;
/// Default for the nanoseconds of a slice: a quarter of a second.
pub const SLICE_NS_DEFAULT: u64 = 250_000_000;
/// Its name in files.
pub const NAME: &str = "link";
/// The first bytes of every packet.
pub const MAGIC: [u8; 4] = *b"CTLK";
/// The version of the protocol.
pub const VERSION: u8 = 1;

/// The purpose of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// It carries samples.
    Samples = 1,
    /// It only reports the progress of its sender.
    Heartbeat = 2,
}

/// A packet's header except the number of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Samples or a heartbeat.
    pub kind: Kind,
    /// The sender's number.
    pub link: u32,
    /// How many packets of samples the link sent before this one. A heartbeat takes no number.
    pub sequence: u64,
    /// The slice of the samples; for a heartbeat, the first slice not yet sent completely.
    pub slice: u64,
    /// Nanoseconds per slice.
    pub slice_ns: u64,
}

/// One channel's entry in a packet's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EntryHeader {
    /// The channel's number within its link.
    pub channel: u32,
    /// Samples of the channel in this slice that come before the entry's first.
    pub first_sample: u32,
    /// Bytes of samples; 0 means that the channel has none in this slice.
    pub bytes: u32,
}

impl EntryHeader {
    #[inline]
    fn read(entry: &[u8; ENTRY_BYTES]) -> Self {
        let word = |offset| u32::from_le_bytes(bytes_at(entry, offset));
        Self { channel: word(0), first_sample: word(4), bytes: word(8) }
    }
}

/// One channel's part of one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The channel's number within its link.
    pub channel: u32,
    /// Samples of the channel in this slice that come before the first one here.
    pub first_sample: u32,
    /// The samples, padding excluded.
    pub samples: &'a [u8],
}

/// Why a datagram is not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Shorter than a header.
    #[error("a packet has at least {HEADER_BYTES} bytes, got {got}")]
    Short {
        /// Bytes of the datagram.
        got: usize,
    },
    /// Another protocol, another version, or a kind of packet that this version does not have.
    #[error("a packet begins with {MAGIC:02x?}, version {VERSION} and kind 1 or 2, got {got:02x?}")]
    Foreign {
        /// The datagram's first six bytes.
        got: [u8; 6],
    },
    /// Slices outside the range of time.
    #[error(
        "a slice has 1 to {SLICE_NS_MAX} ns and ends within 2^63 ns, got slice {slice} of {slice_ns} ns"
    )]
    Slice {
        /// The slice's number.
        slice: u64,
        /// Nanoseconds per slice.
        slice_ns: u64,
    },
    /// The entries require a different length.
    #[error("the entries say a datagram of {expected} bytes, got {got}")]
    Length {
        /// Bytes that a datagram with these entries has.
        expected: usize,
        /// Bytes of the datagram.
        got: usize,
    },
    /// An entry's samples reach beyond the datagram.
    #[error("entry {index} has {left} bytes for its samples, got {bytes}")]
    Entry {
        /// Which one.
        index: usize,
        /// The bytes that it claims.
        bytes: u32,
        /// The bytes that there are.
        left: usize,
    },
}

impl PacketError {
    /// Its index in [`REASONS`].
    pub fn reason(&self) -> usize {
        match self {
            Self::Short { .. } => 0,
            Self::Length { .. } => 1,
            Self::Foreign { .. } => 2,
            Self::Slice { .. } => 3,
            Self::Entry { .. } => 4,
        }
    }
}

/// A completely checked datagram.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    header: Header,
    table: &'a [[u8; ENTRY_BYTES]],
    samples: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Checks the header and every entry's length before anything is returned: a datagram that is
    /// malformed anywhere is dropped whole. The receiver, which has the channels' configuration,
    /// checks that a channel exists and that the bytes are whole samples.
    ///
    /// # Errors
    /// A datagram that is not a packet; see [`PacketError`].
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Result<Self, PacketError> {
        let got = datagram.len();
        let Some((head, body)) = datagram.split_first_chunk::<HEADER_BYTES>() else {
            return Err(PacketError::Short { got });
        };
        let kind = match (head[..4] == MAGIC, head[4], head[5]) {
            (true, VERSION, 1) => Kind::Samples,
            (true, VERSION, 2) => Kind::Heartbeat,
            _ => return Err(PacketError::Foreign { got: bytes_at(head, 0) }),
        };
        let slice = u64::from_le_bytes(bytes_at(head, 24));
        let slice_ns = u64::from_le_bytes(bytes_at(head, 32));
        if !is_slice(slice, slice_ns) {
            return Err(PacketError::Slice { slice, slice_ns });
        }
        let count = usize::from(u16::from_le_bytes(bytes_at(head, 12)));
        let table_bytes = count * ENTRY_BYTES;
        let Some((table, samples)) = body.split_at_checked(table_bytes) else {
            return Err(PacketError::Length { expected: HEADER_BYTES + table_bytes, got });
        };
        let (table, _) = table.as_chunks::<ENTRY_BYTES>();
        let mut used = 0;
        for (index, entry) in table.iter().enumerate() {
            let bytes = EntryHeader::read(entry).bytes;
            let left = samples.len() - used;
            let padded = (u64::from(bytes) + 7) & !7;
            if padded > left as u64 {
                return Err(PacketError::Entry { index, bytes, left });
            }
            used += padded as usize;
        }
        if used != samples.len() || (kind == Kind::Heartbeat && count != 0) {
            let entries = if kind == Kind::Heartbeat { 0 } else { table_bytes + used };
            return Err(PacketError::Length { expected: HEADER_BYTES + entries, got });
        }
        let link = u32::from_le_bytes(bytes_at(head, 8));
        let sequence = u64::from_le_bytes(bytes_at(head, 16));
        Ok(Self { header: Header { kind, link, sequence, slice, slice_ns }, table, samples })
    }

    /// Its header.
    #[inline]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Its entries, in the order of the datagram; none in a heartbeat.
    #[inline]
    pub fn entries(&self) -> Entries<'a> {
        Entries { table: self.table.iter(), samples: self.samples }
    }

    /// The number of its entries.
    #[inline]
    pub fn entry_count(&self) -> usize {
        self.table.len()
    }
}

/// The entries of a packet.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    table: std::slice::Iter<'a, [u8; ENTRY_BYTES]>,
    samples: &'a [u8],
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        let EntryHeader { channel, first_sample, bytes } = EntryHeader::read(self.table.next()?);
        let bytes = bytes as usize;
        // Neither fails after Packet::parse; `?` instead of a panic costs nothing.
        let samples = self.samples.get(..bytes)?;
        self.samples = self.samples.get((bytes + 7) & !7..)?;
        Some(Entry { channel, first_sample, samples })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.table.size_hint()
    }
}

impl ExactSizeIterator for Entries<'_> {}

/// The protocol of one link, with its configured channels. A fragment is one channel's part of one
/// slice; its number is the slice's. A packet with an entry whose length does not match the
/// channel's rate in that slice is refused whole.
#[derive(Clone, Debug)]
pub struct Link {
    /// Nanoseconds of data in one slice.
    pub slice_ns: u64,
    /// Its channels, by their numbers.
    pub channels: Vec<Channel>,
    /// How its packets come: as datagrams, or as items of a session.
    pub transport: Transport,
}

/// A channel in the receiver's configuration.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    rate: SampleRate,
    sample_bytes: u64,
    /// Bytes in every slice, if all have the same number of samples.
    slice_bytes: Option<u64>,
}

impl Channel {
    /// A channel with samples of `sample_bytes` bytes, for slices of that length.
    pub fn new(rate: SampleRate, sample_bytes: u64, slice_ns: u64) -> Self {
        // The number is constant: a slice is a whole number of samples.
        let ticks = u128::from(slice_ns) * u128::from(rate.num());
        let whole = ticks.is_multiple_of(u128::from(rate.den()) * 1_000_000_000);
        let bytes = rate.first_sample_at(slice_ns).saturating_mul(sample_bytes);
        Self { rate, sample_bytes, slice_bytes: whole.then_some(bytes) }
    }

    #[inline]
    fn bytes_in(&self, slice: u64, slice_ns: u64) -> u64 {
        self.slice_bytes.unwrap_or_else(|| {
            let samples = self.rate.samples_of_slice(slice, slice_ns);
            (samples.end - samples.start).saturating_mul(self.sample_bytes)
        })
    }
}

impl Link {
    /// The reason not to use a packet, if there is one.
    fn fault(&self, packet: &Packet<'_>) -> Option<usize> {
        let header = packet.header();
        if header.slice_ns != self.slice_ns {
            return Some(SLICE_LENGTH);
        }
        let fits = |entry: Entry<'_>| {
            self.channels.get(entry.channel as usize).is_some_and(|channel| {
                let expected = channel.bytes_in(header.slice, self.slice_ns);
                entry.first_sample == 0 && entry.samples.len() as u64 == expected
            })
        };
        (!packet.entries().all(fits)).then_some(CHANNEL)
    }
}

impl Protocol for Link {
    fn name(&self) -> &str {
        NAME
    }

    fn reasons(&self) -> &[Reason] {
        REASONS
    }

    fn number_bits(&self) -> u32 {
        u64::BITS
    }

    fn fragment_bytes_max(&self) -> u64 {
        SAMPLES_BYTES_MAX as u64
    }

    fn transport(&self) -> Transport {
        self.transport
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(LinkDecoder { link: self.clone(), gaps: LinkGaps::new(self.channels.len()) })
    }
}

struct LinkDecoder {
    link: Link,
    gaps: LinkGaps,
}

impl Decoder for LinkDecoder {
    fn decode(
        &mut self,
        now_ns: u64,
        datagram: &[u8],
        parts: &mut Vec<Part>,
    ) -> Result<Decoded, usize> {
        let packet = Packet::parse(datagram).map_err(|error| error.reason())?;
        if let Some(reason) = self.link.fault(&packet) {
            return Err(reason);
        }
        let (arrival, missing) = self.gaps.take(packet.header(), packet.entry_count(), now_ns);
        let number = packet.header().slice;
        parts.extend(packet.entries().map(|Entry { channel, samples, .. }| {
            let bytes = samples.len() as u32;
            let offset = (samples.as_ptr() as usize - datagram.as_ptr() as usize) as u32;
            Part {
                lane: channel,
                number,
                fragment_bytes: bytes.into(),
                offset,
                bytes,
                ..Part::default()
            }
        }));
        let sent_once = arrival.is_some_and(|arrival| arrival != Arrival::Repeated);
        Ok(Decoded { missing, sent_once, ..Decoded::default() })
    }

    fn settle(&mut self) -> u64 {
        self.gaps.settle()
    }

    fn explain(&self, datagram: &[u8]) -> String {
        let packet = match Packet::parse(datagram) {
            Ok(packet) => packet,
            Err(error) => return error.to_string(),
        };
        match self.link.fault(&packet) {
            Some(SLICE_LENGTH) => "its slices do not have the configured length".into(),
            Some(_) => {
                "an entry does not match the configuration of its channel in that slice".into()
            }
            None => String::new(),
        }
    }
}

/// Writes one packet into a buffer of the caller: begin, push the entries, finish with their
/// samples. The table precedes the samples, so all entries are pushed before any samples are
/// written.
#[derive(Debug)]
pub struct PacketEncoder<'b> {
    buffer: &'b mut [u8],
    count: usize,
    // Bytes of the samples so far, padding included.
    samples_bytes: usize,
}

impl<'b> PacketEncoder<'b> {
    /// A packet without entries at the beginning of `buffer`.
    ///
    /// # Panics
    /// A buffer shorter than [`HEADER_BYTES`], or slices that [`Packet::parse`] would refuse.
    #[inline]
    pub fn begin(buffer: &'b mut [u8], header: &Header) -> Self {
        assert!(is_slice(header.slice, header.slice_ns), "{header:?} has no time");
        let head = buffer.first_chunk_mut::<HEADER_BYTES>().expect("a buffer holds a header");
        head.fill(0);
        head[..4].copy_from_slice(&MAGIC);
        head[4] = VERSION;
        head[5] = header.kind as u8;
        head[8..12].copy_from_slice(&header.link.to_le_bytes());
        head[16..24].copy_from_slice(&header.sequence.to_le_bytes());
        head[24..32].copy_from_slice(&header.slice.to_le_bytes());
        head[32..40].copy_from_slice(&header.slice_ns.to_le_bytes());
        Self { buffer, count: 0, samples_bytes: 0 }
    }

    /// Bytes of the datagram with the entries so far.
    #[inline]
    pub fn packet_bytes(&self) -> usize {
        HEADER_BYTES + self.count * ENTRY_BYTES + self.samples_bytes
    }

    /// The number of entries pushed.
    #[inline]
    pub fn entry_count(&self) -> usize {
        self.count
    }

    /// Appends an entry whose samples [`finish_with`](Self::finish_with) will request; returns
    /// false and does nothing if it does not fit into the buffer and into one datagram.
    ///
    /// # Panics
    /// An entry in a heartbeat.
    #[inline]
    pub fn push(&mut self, entry: &EntryHeader) -> bool {
        assert_eq!(self.buffer[5], Kind::Samples as u8, "a heartbeat has no entries");
        let room = self.buffer.len().min(DATAGRAM_BYTES_MAX) - self.packet_bytes();
        let padded = (u64::from(entry.bytes) + 7) & !7;
        if padded + ENTRY_BYTES as u64 > room as u64 {
            return false;
        }
        let offset = HEADER_BYTES + self.count * ENTRY_BYTES;
        let words = [entry.channel, entry.first_sample, entry.bytes, 0].map(u32::to_le_bytes);
        self.buffer[offset..offset + ENTRY_BYTES].copy_from_slice(words.as_flattened());
        self.count += 1;
        self.samples_bytes += padded as usize;
        true
    }

    /// Calls `fill` to write each entry's samples in place, in the entries' order, and returns the
    /// bytes of the datagram, which begins at the start of the buffer.
    #[inline]
    pub fn finish_with(self, mut fill: impl FnMut(&EntryHeader, &mut [u8])) -> usize {
        let packet_bytes = self.packet_bytes();
        self.buffer[12..14].copy_from_slice(&(self.count as u16).to_le_bytes());
        let table_end = HEADER_BYTES + self.count * ENTRY_BYTES;
        let (front, mut rest) = self.buffer[..packet_bytes].split_at_mut(table_end);
        let (table, _) = front[HEADER_BYTES..].as_chunks::<ENTRY_BYTES>();
        for entry in table {
            let entry = EntryHeader::read(entry);
            let bytes = entry.bytes as usize;
            let (area, behind) = rest.split_at_mut((bytes + 7) & !7);
            area[bytes..].fill(0);
            fill(&entry, &mut area[..bytes]);
            rest = behind;
        }
        packet_bytes
    }
}

/// Writes a heartbeat to the start of `buffer` and returns its bytes.
///
/// # Panics
/// As [`PacketEncoder::begin`].
pub fn encode_heartbeat(buffer: &mut [u8], header: &Header) -> usize {
    let header = Header { kind: Kind::Heartbeat, ..*header };
    PacketEncoder::begin(buffer, &header).packet_bytes()
}

/// Whether the slice's end, in nanoseconds, fits into 63 bits.
#[inline]
fn is_slice(slice: u64, slice_ns: u64) -> bool {
    let begin = u128::from(slice) * u128::from(slice_ns);
    (1..=SLICE_NS_MAX).contains(&slice_ns) && begin + u128::from(slice_ns) <= i64::MAX as u128
}

#[inline]
fn bytes_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[offset..offset + N]);
    out
}

const _: () = {
    assert!(SAMPLES_BYTES_MAX == 65_440);
    // The number of entries that fit into a datagram fits into 16 bits.
    assert!((DATAGRAM_BYTES_MAX - HEADER_BYTES) / ENTRY_BYTES <= u16::MAX as usize);
    assert!(SLICE_NS_DEFAULT <= SLICE_NS_MAX);
};
