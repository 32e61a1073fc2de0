//! UDP datagrams and TCP segments of a capture file: classic pcap, and pcapng.
//!
//! Read from the beginning to the end, a packet at a time; no more than [`BUFFER_BYTES`] are held.
//! Frames of Ethernet (with VLAN tags), of Linux' `any` device and of bare IP are understood,
//! others end the reading with an error.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};

use etherparse::{IpNumber, NetSlice, SlicedPacket, TransportSlice};
use pcap_parser::traits::{PcapNGPacketBlock as _, PcapReaderIterator};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};

use crate::captured_streams::Segment;

/// A datagram, a part of a connection's bytes, or why a captured packet is neither.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Captured {
    /// To this port.
    Datagram {
        port: u16,
        payload: Vec<u8>,
    },
    Segment(Segment),
    /// A piece of a packet that IP has cut.
    IpFragment,
    /// The capture has only the packet's beginning.
    CutShort,
    /// Neither UDP nor TCP.
    Other,
}

/// What is wrong with a capture file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CaptureError {
    #[error("expected a capture file, pcap or pcapng")]
    Foreign,
    #[error("packet {packet}: the file ends within it")]
    Truncated { packet: u64 },
    #[error("packet {packet}: expected at most {BUFFER_BYTES} bytes")]
    TooLong { packet: u64 },
    #[error("packet {packet}: expected a packet or a block of a capture file")]
    Malformed { packet: u64 },
    #[error(
        "packet {packet}: expected frames of Ethernet, Linux cooked or IP, got link type {got}"
    )]
    LinkType { packet: u64, got: i32 },
    #[error("packet {packet}: expected an interface that the file describes, got number {got}")]
    Interface { packet: u64, got: u32 },
    #[error("packet {packet}: cannot be read")]
    Unreadable { packet: u64 },
}

/// The longest packet or description of a file.
const BUFFER_BYTES: usize = 256 << 10;
/// Interfaces of a pcapng section.
const INTERFACES_MAX: usize = 1_024;
/// The header of frames of `any` in its second version.
const COOKED_2_BYTES: usize = 20;

/// The packets of a capture file.
pub(crate) struct Captures<'a> {
    file: Box<dyn PcapReaderIterator + Send + 'a>,
    /// The link type of each interface; a classic file has one.
    links: Vec<Linktype>,
    /// Packets before.
    packet: u64,
}

impl<'a> Captures<'a> {
    pub(crate) fn new(file: impl Read + Send + 'a) -> Result<Self, CaptureError> {
        let file = create_reader(BUFFER_BYTES, file).map_err(|error| match error {
            PcapError::ReadError => CaptureError::Unreadable { packet: 0 },
            _ => CaptureError::Foreign,
        })?;
        Ok(Self { file, links: Vec::new(), packet: 0 })
    }

    /// The next packet; none at the file's end.
    pub(crate) fn next(&mut self) -> Result<Option<Captured>, CaptureError> {
        let Self { file, links, packet } = self;
        loop {
            let number = *packet;
            let is_at_end = file.reader_exhausted();
            let (bytes, found) = match file.next() {
                Ok((bytes, block)) => (bytes, of_block(&block, links, packet)?),
                Err(PcapError::Eof) => return Ok(None),
                Err(PcapError::Incomplete(_)) if !is_at_end => {
                    file.refill().map_err(|_| CaptureError::Unreadable { packet: number })?;
                    continue;
                }
                Err(PcapError::BufferTooSmall) => {
                    return Err(CaptureError::TooLong { packet: number });
                }
                Err(PcapError::ReadError) => {
                    return Err(CaptureError::Unreadable { packet: number });
                }
                Err(PcapError::Incomplete(_) | PcapError::UnexpectedEof) => {
                    return Err(CaptureError::Truncated { packet: number });
                }
                Err(_) => return Err(CaptureError::Malformed { packet: number }),
            };
            file.consume(bytes);
            if found.is_some() {
                return Ok(found);
            }
        }
    }
}

/// The packet of a block, if it has one; of others, what they say of the interfaces is kept.
fn of_block(
    block: &PcapBlockOwned<'_>,
    links: &mut Vec<Linktype>,
    packet: &mut u64,
) -> Result<Option<Captured>, CaptureError> {
    let (interface, frame, whole) = match block {
        PcapBlockOwned::LegacyHeader(header) => {
            // The upper bits say whether frames have a check sequence.
            *links = vec![Linktype(header.network.0 & 0xffff)];
            return Ok(None);
        }
        PcapBlockOwned::Legacy(one) => (0, one.data, one.origlen),
        PcapBlockOwned::NG(Block::SectionHeader(_)) => {
            links.clear();
            return Ok(None);
        }
        PcapBlockOwned::NG(Block::InterfaceDescription(one)) if links.len() < INTERFACES_MAX => {
            links.push(one.linktype);
            return Ok(None);
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(one)) => {
            (one.if_id, one.packet_data(), one.origlen)
        }
        PcapBlockOwned::NG(Block::SimplePacket(one)) => (0, one.packet_data(), one.origlen),
        PcapBlockOwned::NG(_) => return Ok(None),
    };
    let number = *packet;
    *packet += 1;
    let link = links.get(interface as usize);
    let link = *link.ok_or(CaptureError::Interface { packet: number, got: interface })?;
    let sliced = match link {
        Linktype::ETHERNET => SlicedPacket::from_ethernet(frame),
        Linktype::LINUX_SLL => SlicedPacket::from_linux_sll(frame),
        Linktype::LINUX_SLL2 => {
            SlicedPacket::from_ip(frame.get(COOKED_2_BYTES..).unwrap_or_default())
        }
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => SlicedPacket::from_ip(frame),
        Linktype(got) => return Err(CaptureError::LinkType { packet: number, got }),
    };
    let is_cut = frame.len() < whole as usize;
    Ok(Some(match sliced {
        Ok(packet) if is_piece(&packet) => Captured::IpFragment,
        Ok(SlicedPacket { transport: Some(TransportSlice::Udp(udp)), .. }) => {
            Captured::Datagram { port: udp.destination_port(), payload: udp.payload().to_vec() }
        }
        Ok(packet) => segment(&packet).map_or(Captured::Other, Captured::Segment),
        Err(_) if is_cut => Captured::CutShort,
        Err(_) => Captured::Other,
    }))
}

fn segment(packet: &SlicedPacket<'_>) -> Option<Segment> {
    let Some(TransportSlice::Tcp(tcp)) = &packet.transport else { return None };
    let [from, to]: [IpAddr; 2] = match packet.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            [ip.header().source_addr(), ip.header().destination_addr()].map(IpAddr::from)
        }
        NetSlice::Ipv6(ip) => {
            [ip.header().source_addr(), ip.header().destination_addr()].map(IpAddr::from)
        }
        NetSlice::Arp(_) => return None,
    };
    Some(Segment {
        from: SocketAddr::new(from, tcp.source_port()),
        to: SocketAddr::new(to, tcp.destination_port()),
        sequence: tcp.sequence_number(),
        begins: tcp.syn(),
        payload: tcp.payload().to_vec(),
    })
}

fn is_piece(packet: &SlicedPacket<'_>) -> bool {
    let payload = packet.ip_payload();
    let transports = [IpNumber::UDP, IpNumber::TCP];
    payload.is_some_and(|payload| payload.fragmented && transports.contains(&payload.ip_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTION: u32 = 0x0a0d_0d0a;
    const INTERFACE: u32 = 1;
    const ENHANCED: u32 = 6;
    const MICROSECONDS: u32 = 0xa1b2_c3d4;
    const ETHERNET: u32 = 1;
    const UDP: u8 = 17;

    /// A frame with a datagram to a port; with a VLAN tag if that is odd.
    fn frame(port: u16, payload: &[u8]) -> Vec<u8> {
        let bytes = (payload.len() + 8) as u16;
        let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, UDP, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1];
        ip[2..4].copy_from_slice(&(20 + bytes).to_be_bytes());
        for word in [4_000, port, bytes, 0] {
            ip.extend(word.to_be_bytes());
        }
        ip.extend(payload);
        let tag: &[u8] = if port % 2 == 1 { &[0x81, 0, 0, 7] } else { &[] };
        [&[0; 12], tag, &[8, 0], &ip].concat()
    }

    fn words(is_big: bool, words: &[u32]) -> Vec<u8> {
        let bytes = |word: &u32| if is_big { word.to_be_bytes() } else { word.to_le_bytes() };
        words.iter().flat_map(bytes).collect()
    }

    fn classic(is_big: bool, frames: &[Vec<u8>]) -> Vec<u8> {
        let mut file = words(is_big, &[MICROSECONDS, 0, 0, 0, 65_535, ETHERNET]);
        for frame in frames {
            let bytes = frame.len() as u32;
            file.extend(words(is_big, &[1, 2, bytes, bytes]));
            file.extend(frame);
        }
        file
    }

    fn blocks(is_big: bool, frames: &[Vec<u8>]) -> Vec<u8> {
        let version = if is_big { 1 << 16 } else { 1 };
        let mut file = words(is_big, &[SECTION, 28, 0x1a2b_3c4d, version, u32::MAX, u32::MAX, 28]);
        let link = if is_big { ETHERNET << 16 } else { ETHERNET };
        file.extend(words(is_big, &[INTERFACE, 20, link, 0, 20]));
        // A block of a kind that says nothing of packets.
        file.extend(words(is_big, &[0xbad, 16, 0, 16]));
        for frame in frames {
            let (bytes, padding) = (frame.len() as u32, frame.len().next_multiple_of(4) as u32);
            file.extend(words(is_big, &[ENHANCED, 32 + padding, 0, 1, 2, bytes, bytes]));
            file.extend(frame);
            file.resize(file.len() + (padding - bytes) as usize, 0);
            file.extend(words(is_big, &[32 + padding]));
        }
        file
    }

    fn all(file: &[u8]) -> Result<Vec<Captured>, CaptureError> {
        let mut captures = Captures::new(file)?;
        std::iter::from_fn(|| captures.next().transpose()).collect()
    }

    #[test]
    fn datagrams_are_found_in_both_formats_and_both_byte_orders() {
        let frames = [frame(4_001, b"one"), frame(20_100, b""), frame(20_101, &[7; 300])];
        let expected: Vec<Captured> = [(4_001, &b"one"[..]), (20_100, b""), (20_101, &[7; 300])]
            .map(|(port, payload)| Captured::Datagram { port, payload: payload.to_vec() })
            .into();
        for is_big in [false, true] {
            assert_eq!(all(&classic(is_big, &frames)).unwrap(), expected);
            assert_eq!(all(&blocks(is_big, &frames)).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_no_whole_datagram_is_told_apart() {
        let mut fragment = frame(20_100, b"some");
        fragment[20] |= 0x20;
        let mut tcp = frame(20_100, b"some");
        tcp[23] = 6;
        let found = all(&classic(false, &[fragment, tcp, vec![0; 20]])).unwrap();
        assert_eq!(found, [Captured::IpFragment, Captured::Other, Captured::Other]);
        // Of the packet the capture has 45 bytes.
        let mut file = classic(false, &[frame(20_100, b"some")]);
        file[32..36].copy_from_slice(&45_u32.to_le_bytes());
        file.truncate(file.len() - 1);
        assert_eq!(all(&file).unwrap(), [Captured::CutShort]);
    }

    #[test]
    fn bad_files_are_refused_with_what_was_expected() {
        let error = |file: &[u8]| all(file).unwrap_err();
        assert_eq!(error(b"GIF89a"), CaptureError::Foreign);
        assert_eq!(error(b""), CaptureError::Foreign);
        let good = classic(false, &[frame(1, b"a"), frame(2, b"b")]);
        assert_eq!(error(&good[..good.len() - 3]), CaptureError::Truncated { packet: 1 });
        let mut long = good.clone();
        long[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(error(&long), CaptureError::TooLong { packet: 0 });
        let mut link = good.clone();
        link[20] = 99;
        assert_eq!(error(&link), CaptureError::LinkType { packet: 0, got: 99 });
        let good = blocks(false, &[frame(1, b"a")]);
        let mut short = good.clone();
        short[32..36].copy_from_slice(&3_u32.to_le_bytes());
        assert_eq!(error(&short), CaptureError::Malformed { packet: 0 });
    }

    #[test]
    fn no_bytes_of_a_file_break_the_reading() {
        for file in [classic(true, &[frame(1, b"abc")]), blocks(false, &[frame(1, b"abc")])] {
            for at in 0..file.len() {
                drop(all(&file[..at]));
                for flip in [1, 0x80] {
                    let mut changed = file.clone();
                    changed[at] ^= flip;
                    drop(all(&changed));
                }
            }
        }
    }
}
