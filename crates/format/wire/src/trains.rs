//! `trains`: the train transfer protocol of European XFEL's train builder,
//! docs/spec/train-transfer.md.
//!
//! A train is a fragment that spans many datagrams. Each carries a part of it and a *mark*, which
//! by default stands behind the part:
//!
//! ```text
//! offset        bytes
//!      0  up to 8,184  bytes of the train, from packet * 8,184 on
//!                   4  frame: the train's number
//!                   1  flags: start, end, padding
//!                   3  packet: its number in the train, from 0
//! ```
//!
//! Widths, order, byte order and the place of the mark are [`TrainSettings`], checked when the
//! protocol is made. A train's length is one of them too, so that each packet alone tells where its
//! bytes belong, and trains are put together in any order.

use std::ops::Range;

use catchment_model::Entry;
use catchment_model::limits::{DATAGRAM_BYTES_MAX, FRAGMENT_BYTES_MAX};
use simd_adler32::Adler32;

use crate::decoder::{Decoded, Decoder, FragmentChecksum, Part, Protocol, Reason};
use crate::hadtu::ByteOrder;

/// Its name in configurations and files.
pub const NAME: &str = "trains";

/// Bytes of a train's checksum.
const CHECKSUM_BYTES: u64 = 4;

/// Bits of a packet's flags.
pub mod flags {
    /// The train's first packet.
    pub const START: u32 = 1;
    /// Its last packet.
    pub const END: u32 = 2;
    /// The last packet is as long as the others.
    pub const PADDING: u32 = 4;
}

/// The layout of trains and of their packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainSettings {
    /// Bytes of every train.
    pub train_bytes: u64,
    /// Bytes of the train in every packet but the last.
    pub payload_bytes: u32,
    /// Where the mark stands.
    pub mark: MarkPlace,
    /// The order of the mark's fields.
    pub fields: [MarkField; 3],
    /// Width of the frame number in bytes.
    pub frame_bytes: u32,
    /// Width of the flags in bytes.
    pub flags_bytes: u32,
    /// Width of the packet number in bytes.
    pub packet_bytes: u32,
    /// The order of the bytes of the mark's fields and of the checksum.
    pub byte_order: ByteOrder,
    /// Where a train has the Adler-32 of all bytes before it, if it has one.
    pub adler32_at: Option<u64>,
    /// The most bytes that a train may lack without being given up; an eighth of it unless set.
    pub holes_bytes_max: Option<u64>,
}

/// Where a packet has its mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkPlace {
    /// Behind the train's bytes.
    Trailer,
    /// Before the train's bytes.
    Header,
}

/// A field of the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkField {
    /// The train's number.
    Frame,
    /// See [`flags`].
    Flags,
    /// The packet's number in its train.
    Packet,
}

impl Default for TrainSettings {
    fn default() -> Self {
        Self {
            train_bytes: 1_073_754_173,
            payload_bytes: 8_184,
            mark: MarkPlace::Trailer,
            fields: [MarkField::Frame, MarkField::Flags, MarkField::Packet],
            frame_bytes: 4,
            flags_bytes: 1,
            packet_bytes: 3,
            byte_order: ByteOrder::Little,
            adler32_at: None,
            holes_bytes_max: None,
        }
    }
}

/// A setting out of its bounds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: expected {expected}, got {got}")]
pub struct SettingError {
    /// The setting.
    pub key: &'static str,
    /// Its bounds.
    pub expected: String,
    /// Its value.
    pub got: u64,
}

/// The protocol with its settings. A fragment is a train.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trains {
    settings: TrainSettings,
    /// Packets of a train, and bytes of it in the last one.
    packets: u64,
    rest: usize,
    mark_bytes: usize,
    /// The fields' places in the mark.
    frame: Range<usize>,
    flags: Range<usize>,
    packet: Range<usize>,
}

impl Trains {
    /// The protocol with these settings.
    ///
    /// # Errors
    /// The first setting out of its bounds.
    pub fn new(settings: TrainSettings) -> Result<Self, SettingError> {
        let widths = [settings.frame_bytes, settings.flags_bytes, settings.packet_bytes];
        let within = |key, got: u64, bounds: Range<u64>| match bounds.contains(&got) {
            true => Ok(()),
            false => {
                let expected = format!("{} to {}", bounds.start, bounds.end - 1);
                Err(SettingError { key, expected, got })
            }
        };
        within("frame_bytes", widths[0].into(), 3..9)?;
        within("flags_bytes", widths[1].into(), 1..5)?;
        within("packet_bytes", widths[2].into(), 1..5)?;
        let mark_bytes = widths.iter().sum::<u32>() as usize;
        let most = (DATAGRAM_BYTES_MAX - mark_bytes) as u64;
        within("payload_bytes", settings.payload_bytes.into(), 1..most + 1)?;
        let least = if settings.adler32_at.is_some() { CHECKSUM_BYTES } else { 1 };
        within("train_bytes", settings.train_bytes, least..FRAGMENT_BYTES_MAX + 1)?;
        let payload = u64::from(settings.payload_bytes);
        let packets = settings.train_bytes.div_ceil(payload);
        within("train_bytes / payload_bytes", packets, 1..(1 << (8 * widths[2])) + 1)?;
        if let Some(at) = settings.adler32_at {
            within("adler32_at", at, 0..settings.train_bytes - CHECKSUM_BYTES + 1)?;
        }
        let place = |field: MarkField| {
            let width = |field| widths[field as usize] as usize;
            let index = settings.fields.iter().position(|one| *one == field)?;
            let begin = settings.fields[..index].iter().map(|&before| width(before)).sum::<usize>();
            Some(begin..begin + width(field))
        };
        let each_once = || SettingError {
            key: "fields",
            expected: "frame, flags and packet, each once".into(),
            got: settings.fields.len() as u64,
        };
        let [frame, flags, packet] = [MarkField::Frame, MarkField::Flags, MarkField::Packet]
            .map(|field| place(field).ok_or_else(each_once));
        Ok(Self {
            packets,
            rest: (settings.train_bytes - (packets - 1) * payload) as usize,
            mark_bytes,
            frame: frame?,
            flags: flags?,
            packet: packet?,
            settings,
        })
    }

    /// The settings.
    pub fn settings(&self) -> &TrainSettings {
        &self.settings
    }

    /// Packets of a train.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Bytes of a full packet.
    pub fn packet_bytes(&self) -> usize {
        self.settings.payload_bytes as usize + self.mark_bytes
    }

    /// The bytes of a train that a packet carries.
    pub fn range(&self, packet: u64) -> Range<u64> {
        let begin = packet * u64::from(self.settings.payload_bytes);
        let end = begin + u64::from(self.settings.payload_bytes);
        begin..end.min(self.settings.train_bytes)
    }

    /// Writes a packet into `buffer`, which has room for a full one, and returns its length. `fill`
    /// writes the bytes of the train that it carries.
    ///
    /// # Panics
    /// A packet beyond the last one, or a buffer that is too short.
    pub fn encode(
        &self,
        (frame, packet): (u64, u64),
        buffer: &mut [u8],
        fill: impl FnOnce(&mut [u8]),
    ) -> usize {
        assert!(packet < self.packets, "a train has {} packets", self.packets);
        let range = self.range(packet);
        let payload = (range.end - range.start) as usize;
        let (begin, mark) = match self.settings.mark {
            MarkPlace::Trailer => (0, payload),
            MarkPlace::Header => (self.mark_bytes, 0),
        };
        fill(&mut buffer[begin..begin + payload]);
        let mark = &mut buffer[mark..mark + self.mark_bytes];
        let order = self.settings.byte_order;
        put(order, frame, &mut mark[self.frame.clone()]);
        put(order, self.flags_of(packet).into(), &mut mark[self.flags.clone()]);
        put(order, packet, &mut mark[self.packet.clone()]);
        payload + self.mark_bytes
    }

    fn flags_of(&self, packet: u64) -> u32 {
        let start = if packet == 0 { flags::START } else { 0 };
        start | if packet + 1 == self.packets { flags::END } else { 0 }
    }

    #[inline]
    fn parse(&self, datagram: &[u8]) -> Result<Part, PacketError> {
        let got = datagram.len();
        let Some(payload) = got.checked_sub(self.mark_bytes).filter(|&bytes| bytes > 0) else {
            return Err(PacketError::Short { expected: self.mark_bytes + 1, got });
        };
        let (offset, mark) = match self.settings.mark {
            MarkPlace::Trailer => (0, &datagram[payload..]),
            MarkPlace::Header => (self.mark_bytes, &datagram[..self.mark_bytes]),
        };
        let field = |range: &Range<usize>| take(self.settings.byte_order, &mark[range.clone()]);
        let packet = field(&self.packet);
        if packet >= self.packets {
            return Err(PacketError::Packet { packets: self.packets, got: packet });
        }
        let said = field(&self.flags) as u32 & (flags::START | flags::END | flags::PADDING);
        let (expected, is_last) = (self.flags_of(packet), packet + 1 == self.packets);
        let padding = if is_last { said & flags::PADDING } else { 0 };
        if said != expected | padding {
            return Err(PacketError::Flags { packet, expected, got: said });
        }
        let full = self.settings.payload_bytes as usize;
        let bytes = if is_last { self.rest } else { full };
        let expected = if padding > 0 { full } else { bytes };
        if payload != expected {
            return Err(PacketError::Length { expected: expected + self.mark_bytes, got });
        }
        Ok(Part {
            number: field(&self.frame),
            position: packet * full as u64,
            fragment_bytes: self.settings.train_bytes,
            offset: offset as u32,
            bytes: bytes as u32,
            ..Part::default()
        })
    }
}

impl Protocol for Trains {
    fn name(&self) -> &str {
        NAME
    }

    fn reasons(&self) -> &[Reason] {
        &[
            Reason { name: "short", kind: Entry::PacketsMalformedShort },
            Reason { name: "packet", kind: Entry::PacketsMalformedFragment },
            Reason { name: "flags", kind: Entry::PacketsMalformedHeader },
            Reason { name: "length", kind: Entry::PacketsMalformedLength },
        ]
    }

    fn number_bits(&self) -> u32 {
        8 * self.settings.frame_bytes
    }

    fn fragment_bytes_max(&self) -> u64 {
        self.settings.train_bytes
    }

    fn part_bytes_max(&self) -> Option<u64> {
        Some(self.settings.payload_bytes.into())
    }

    fn holes_bytes_max(&self) -> Option<u64> {
        let unset = self.settings.train_bytes / HOLES_SHARE;
        Some(self.settings.holes_bytes_max.unwrap_or(unset)).filter(|&bytes| bytes > 0)
    }

    fn has_several_senders(&self) -> bool {
        true
    }

    fn checksum(&self) -> Option<FragmentChecksum> {
        let big_endian = self.settings.byte_order == ByteOrder::Big;
        self.settings.adler32_at.map(|offset| FragmentChecksum { offset, big_endian })
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(TrainDecoder(self.clone()))
    }
}

/// The Adler-32 of bytes in several pieces.
#[derive(Clone, Default)]
pub struct Checksum(Adler32);

impl Checksum {
    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The checksum of all bytes so far.
    pub fn value(&self) -> u32 {
        self.0.finish()
    }
}

impl FragmentChecksum {
    /// Whether a fragment has the checksum of its bytes. `pieces` are all of it, in order.
    pub fn is_right<'a>(&self, pieces: impl Iterator<Item = &'a [u8]>) -> bool {
        let (mut sum, mut said, mut count, mut before) = (Checksum::default(), [0; 4], 0, 0_u64);
        for piece in pieces {
            let summed = self.offset.saturating_sub(before).min(piece.len() as u64) as usize;
            let (first, rest) = piece.split_at(summed);
            sum.add(first);
            let wanted = rest.iter().take(said.len() - count);
            for (said, byte) in said[count..].iter_mut().zip(wanted) {
                (*said, count) = (*byte, count + 1);
            }
            before += piece.len() as u64;
            if count == said.len() {
                break;
            }
        }
        let order = if self.big_endian { ByteOrder::Big } else { ByteOrder::Little };
        count == said.len() && take(order, &said) == u64::from(sum.value())
    }
}

struct TrainDecoder(Trains);

impl Decoder for TrainDecoder {
    #[inline]
    fn decode(
        &mut self,
        _now_ns: u64,
        datagram: &[u8],
        parts: &mut Vec<Part>,
    ) -> Result<Decoded, usize> {
        let part = self.0.parse(datagram).map_err(|error| error.reason())?;
        parts.push(part);
        Ok(Decoded::default())
    }

    fn explain(&self, datagram: &[u8]) -> String {
        self.0.parse(datagram).err().map_or_else(String::new, |error| error.to_string())
    }
}

/// Why a datagram is not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum PacketError {
    #[error("a packet has at least {expected} bytes, got {got}")]
    Short { expected: usize, got: usize },
    #[error("a train has {packets} packets, got number {got}")]
    Packet { packets: u64, got: u64 },
    #[error("packet {packet} has the flags {expected:#x}, got {got:#x}")]
    Flags { packet: u64, expected: u32, got: u32 },
    #[error("such a packet has {expected} bytes, got {got}")]
    Length { expected: usize, got: usize },
}

impl PacketError {
    /// Its index in the protocol's list of reasons.
    fn reason(&self) -> usize {
        match self {
            Self::Short { .. } => 0,
            Self::Packet { .. } => 1,
            Self::Flags { .. } => 2,
            Self::Length { .. } => 3,
        }
    }
}

/// A number of at most 8 bytes.
#[inline]
fn take(order: ByteOrder, bytes: &[u8]) -> u64 {
    let add = |number: u64, &byte: &u8| number << 8 | u64::from(byte);
    match order {
        ByteOrder::Big => bytes.iter().fold(0, add),
        ByteOrder::Little => bytes.iter().rev().fold(0, add),
    }
}

/// Writes the lowest bytes of a number.
fn put(order: ByteOrder, number: u64, bytes: &mut [u8]) {
    let length = bytes.len();
    for (index, byte) in bytes.iter_mut().enumerate() {
        let place = if order == ByteOrder::Big { length - 1 - index } else { index };
        *byte = (number >> (8 * place)) as u8;
    }
}

/// A train may lack one in so many bytes, unless it is set.
const HOLES_SHARE: u64 = 8;
