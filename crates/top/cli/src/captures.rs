//! UDP datagrams of a capture file: classic pcap, and pcapng.
//!
//! Read from the beginning to the end, a packet at a time; no more than [`BLOCK_BYTES_MAX`] are
//! held. Frames of Ethernet (with VLAN tags), of Linux' `any` device and of bare IP are understood,
//! others end the reading with an error.

use std::io::Read;

/// A datagram, or why a captured packet is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Captured {
    /// To this port.
    Datagram { port: u16, payload: Vec<u8> },
    /// A piece of a datagram that IP has cut.
    IpFragment,
    /// The capture has only the packet's beginning.
    CutShort,
    /// Not UDP.
    Other,
}

/// What is wrong with a capture file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaptureError {
    #[error("expected a capture file, pcap or pcapng, got one that begins with {got:#010x}")]
    Magic { got: u32 },
    #[error("packet {packet}: expected {expected} more bytes, the file ends before them")]
    Truncated { packet: u64, expected: usize },
    #[error("packet {packet}: expected at most {BLOCK_BYTES_MAX} bytes, got {got}")]
    TooLong { packet: u64, got: u32 },
    #[error("packet {packet}: expected a block of at least {expected} bytes, got {got}")]
    Block { packet: u64, expected: usize, got: u32 },
    #[error(
        "packet {packet}: expected frames of Ethernet, Linux cooked or IP, got link type {got}"
    )]
    LinkType { packet: u64, got: u32 },
    #[error("packet {packet}: expected an interface that the file describes, got number {got}")]
    Interface { packet: u64, got: u32 },
    #[error("packet {packet}: {source}")]
    Io { packet: u64, source: std::io::Error },
}

/// The longest block of a file: a captured packet, or a description.
const BLOCK_BYTES_MAX: u32 = 1 << 20;
/// Interfaces of a pcapng section.
const INTERFACES_MAX: usize = 1_024;

/// The packets of a capture file.
pub(crate) struct Captures<R> {
    file: R,
    is_ng: bool,
    is_big: bool,
    /// The link type of each interface; a classic file has one.
    links: Vec<u32>,
    /// Packets before.
    packet: u64,
}

impl<R: Read> Captures<R> {
    pub(crate) fn new(mut file: R) -> Result<Self, CaptureError> {
        let mut magic = [0; 4];
        read_whole(&mut file, &mut magic, 0)?;
        let magic = u32::from_le_bytes(magic);
        let mut captures = Self { file, is_ng: false, is_big: false, links: Vec::new(), packet: 0 };
        match magic {
            SECTION => captures.section()?,
            MICROSECONDS | NANOSECONDS => captures.classic_header()?,
            _ if [MICROSECONDS, NANOSECONDS].contains(&magic.swap_bytes()) => {
                captures.is_big = true;
                captures.classic_header()?;
            }
            got => return Err(CaptureError::Magic { got }),
        }
        Ok(captures)
    }

    /// The next packet; none at the file's end.
    pub(crate) fn next(&mut self) -> Result<Option<Captured>, CaptureError> {
        let found = if self.is_ng { self.next_of_blocks() } else { self.next_of_classic() };
        let Some((link, bytes, whole)) = found? else { return Ok(None) };
        self.packet += 1;
        let is_cut = bytes.len() < whole as usize;
        self.captured(link, &bytes, is_cut).map(Some)
    }

    fn classic_header(&mut self) -> Result<(), CaptureError> {
        self.is_ng = false;
        let mut rest = [0; 20];
        read_whole(&mut self.file, &mut rest, 0)?;
        // The upper bits say whether frames have a check sequence.
        self.links = vec![self.u32(&rest[16..]) & 0xffff];
        Ok(())
    }

    fn next_of_classic(&mut self) -> Result<Option<(u32, Vec<u8>, u32)>, CaptureError> {
        let mut header = [0; 16];
        if !self.begins(&mut header)? {
            return Ok(None);
        }
        let (captured, whole) = (self.u32(&header[8..]), self.u32(&header[12..]));
        Ok(Some((self.links[0], self.bytes(captured)?, whole)))
    }

    fn next_of_blocks(&mut self) -> Result<Option<(u32, Vec<u8>, u32)>, CaptureError> {
        loop {
            let mut kind = [0; 4];
            if !self.begins(&mut kind)? {
                return Ok(None);
            }
            if u32::from_le_bytes(kind) == SECTION {
                self.section()?;
                continue;
            }
            let kind = self.u32(&kind);
            let body = self.block()?;
            match kind {
                INTERFACE if self.links.len() < INTERFACES_MAX => {
                    let body = self.at_least(&body, 8)?;
                    // A number of 2 bytes, and 2 that are reserved.
                    let link = self.u32(body);
                    self.links.push(if self.is_big { link >> 16 } else { link & 0xffff });
                }
                ENHANCED => {
                    let body = self.at_least(&body, 20)?;
                    let [interface, captured, whole] =
                        [0, 12, 16].map(|at: usize| self.u32(&body[at..]));
                    let link = self.links.get(interface as usize).copied();
                    let fault = CaptureError::Interface { packet: self.packet, got: interface };
                    let link = link.ok_or(fault)?;
                    let bytes = self.at_least(body, 20 + captured as usize)?;
                    let bytes = bytes[20..20 + captured as usize].to_vec();
                    return Ok(Some((link, bytes, whole)));
                }
                SIMPLE => {
                    let body = self.at_least(&body, 4)?;
                    let whole = self.u32(body);
                    let fault = CaptureError::Interface { packet: self.packet, got: 0 };
                    let link = *self.links.first().ok_or(fault)?;
                    let bytes = &body[4..];
                    let bytes = bytes[..bytes.len().min(whole as usize)].to_vec();
                    return Ok(Some((link, bytes, whole)));
                }
                _ => {}
            }
        }
    }

    /// A section's header behind its first 4 bytes: it says the byte order of what follows.
    fn section(&mut self) -> Result<(), CaptureError> {
        let mut start = [0; 8];
        read_whole(&mut self.file, &mut start, self.packet)?;
        let order = [start[4], start[5], start[6], start[7]];
        self.is_big = match order {
            [0x4d, 0x3c, 0x2b, 0x1a] => false,
            [0x1a, 0x2b, 0x3c, 0x4d] => true,
            _ => return Err(CaptureError::Magic { got: u32::from_le_bytes(order) }),
        };
        self.is_ng = true;
        self.links.clear();
        let bytes = self.u32(&start);
        self.bytes(self.rest_of_block(bytes, 12)?).map(drop)
    }

    /// The body of a block, behind its type.
    fn block(&mut self) -> Result<Vec<u8>, CaptureError> {
        let mut bytes = [0; 4];
        read_whole(&mut self.file, &mut bytes, self.packet)?;
        let mut body = self.bytes(self.rest_of_block(self.u32(&bytes), 8)?)?;
        // The length again.
        body.truncate(body.len() - 4);
        Ok(body)
    }

    /// Bytes of a block behind its first `before`, with at least its length at its end.
    fn rest_of_block(&self, bytes: u32, before: u32) -> Result<u32, CaptureError> {
        let expected = before as usize + 4;
        let fault = CaptureError::Block { packet: self.packet, expected, got: bytes };
        match bytes.checked_sub(before) {
            Some(rest) if rest >= 4 && bytes.is_multiple_of(4) => Ok(rest),
            _ => Err(fault),
        }
    }

    fn at_least<'a>(&self, body: &'a [u8], expected: usize) -> Result<&'a [u8], CaptureError> {
        let got = body.len() as u32;
        let fault = CaptureError::Block { packet: self.packet, expected, got };
        if body.len() >= expected { Ok(body) } else { Err(fault) }
    }

    fn bytes(&mut self, count: u32) -> Result<Vec<u8>, CaptureError> {
        if count > BLOCK_BYTES_MAX {
            return Err(CaptureError::TooLong { packet: self.packet, got: count });
        }
        let mut bytes = vec![0; count as usize];
        read_whole(&mut self.file, &mut bytes, self.packet)?;
        Ok(bytes)
    }

    /// Reads what begins a packet; false at the file's end.
    fn begins(&mut self, header: &mut [u8]) -> Result<bool, CaptureError> {
        loop {
            match self.file.read(&mut header[..1]) {
                Ok(0) => return Ok(false),
                Ok(_) => break,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(CaptureError::Io { packet: self.packet, source }),
            }
        }
        read_whole(&mut self.file, &mut header[1..], self.packet).map(|()| true)
    }

    fn u32(&self, bytes: &[u8]) -> u32 {
        let word = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if self.is_big { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }

    fn captured(&self, link: u32, frame: &[u8], is_cut: bool) -> Result<Captured, CaptureError> {
        let ip = match link {
            ETHERNET => ip_of_ethernet(frame),
            RAW | RAW_IPV4 | RAW_IPV6 => Some(frame),
            COOKED => frame.get(16..),
            COOKED_2 => frame.get(20..),
            got => return Err(CaptureError::LinkType { packet: self.packet - 1, got }),
        };
        Ok(match ip.and_then(datagram) {
            // Padding of a frame may be cut.
            Some(Captured::CutShort) if !is_cut => Captured::Other,
            Some(captured) => captured,
            None if is_cut => Captured::CutShort,
            None => Captured::Other,
        })
    }
}

/// What stands behind the addresses and VLAN tags of an Ethernet frame, if it is IP.
fn ip_of_ethernet(frame: &[u8]) -> Option<&[u8]> {
    let mut rest = frame.get(12..)?;
    loop {
        let (kind, behind) = rest.split_first_chunk::<2>()?;
        match u16::from_be_bytes(*kind) {
            0x8100 | 0x88a8 => rest = behind.get(2..)?,
            0x0800 | 0x86dd => return Some(behind),
            _ => return None,
        }
    }
}

/// The datagram of an IP packet.
fn datagram(ip: &[u8]) -> Option<Captured> {
    let be = |at: usize| Some(u16::from_be_bytes([*ip.get(at)?, *ip.get(at + 1)?]));
    let begin = match ip.first()? >> 4 {
        4 => {
            let (is_udp, fragment) = (*ip.get(9)? == UDP, be(6)? & 0x3fff);
            match (is_udp, fragment) {
                (false, _) => return Some(Captured::Other),
                (true, 0) => 4 * usize::from(ip.first()? & 0xf),
                (true, _) => return Some(Captured::IpFragment),
            }
        }
        6 => match *ip.get(6)? {
            UDP => 40,
            44 => return Some(Captured::IpFragment),
            _ => return Some(Captured::Other),
        },
        _ => return Some(Captured::Other),
    };
    let (port, bytes) = (be(begin + 2)?, usize::from(be(begin + 4)?));
    let payload = ip.get(begin + 8..begin + bytes.max(8));
    let payload = payload.map(<[u8]>::to_vec);
    Some(payload.map_or(Captured::CutShort, |payload| Captured::Datagram { port, payload }))
}

fn read_whole(file: &mut impl Read, bytes: &mut [u8], packet: u64) -> Result<(), CaptureError> {
    let expected = bytes.len();
    file.read_exact(bytes).map_err(|source| match source.kind() {
        std::io::ErrorKind::UnexpectedEof => CaptureError::Truncated { packet, expected },
        _ => CaptureError::Io { packet, source },
    })
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;
const RAW: u32 = 101;
const COOKED: u32 = 113;
const RAW_IPV4: u32 = 228;
const RAW_IPV6: u32 = 229;
const COOKED_2: u32 = 276;
const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with a datagram to a port; with a VLAN tag if that is odd.
    fn frame(port: u16, payload: &[u8]) -> Vec<u8> {
        let bytes = (payload.len() + 8) as u16;
        let mut ip = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, UDP, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1];
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
        let mut file = words(is_big, &[SECTION, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
        let link = if is_big { ETHERNET << 16 } else { ETHERNET };
        file.extend(words(is_big, &[INTERFACE, 20, link, 0, 20]));
        // A block of a kind that says nothing of packets.
        file.extend(words(is_big, &[5, 16, 0, 16]));
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
        let error = |file: &[u8]| all(file).unwrap_err().to_string();
        assert!(error(b"GIF89a").starts_with("expected a capture file, pcap or pcapng, got"));
        let good = classic(false, &[frame(1, b"a"), frame(2, b"b")]);
        let cut = error(&good[..good.len() - 3]);
        assert_eq!(cut, "packet 1: expected 43 more bytes, the file ends before them");
        let mut long = good.clone();
        long[32..36].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(error(&long).contains("packet 0: expected at most 1048576 bytes, got 4294967295"));
        let mut link = good.clone();
        link[20] = 99;
        assert!(error(&link).ends_with("got link type 99"));
        let good = blocks(false, &[frame(1, b"a")]);
        let mut short = good.clone();
        short[32..36].copy_from_slice(&3_u32.to_le_bytes());
        assert!(error(&short).contains("expected a block of at least 12 bytes, got 3"));
    }

    #[test]
    fn no_bytes_of_a_file_break_the_reading() {
        for file in [classic(true, &[frame(1, b"abc")]), blocks(false, &[frame(1, b"abc")])] {
            for at in 0..file.len() {
                drop(all(&file[..at]));
                for flip in [1, 0x80, 0xff] {
                    let mut changed = file.clone();
                    changed[at] ^= flip;
                    drop(all(&changed));
                }
            }
        }
    }
}
