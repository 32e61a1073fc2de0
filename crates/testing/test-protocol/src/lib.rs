//! A protocol as somebody would add one ("Adding a protocol" in CONTRIBUTING.md): packets are
//! numbered and have a checksum, and a fragment may go on over any number of them.
//!
//! ```text
//! offset  bytes
//!      0      4  magic "TEST"
//!      4      4  sum of all bytes behind it
//!      8      8  sequence: packets that the source sent before
//!     16      6  event number
//!     22      2  id of the source
//!     24      8  bytes of the fragment
//!     32      8  position: where in the fragment this part belongs
//!     40      .  the part, to the datagram's end
//! ```
//!
//! All numbers are little-endian.

mod stream;

pub use stream::{TestStream, message, messages};

use catchment_model::Entry;
use catchment_wire::{Decoded, Decoder, Part, Protocol, Reason};

/// Bytes of a packet's header.
pub const HEADER_BYTES: usize = 40;

/// The protocol, for a source's configuration.
#[derive(Clone, Copy, Debug)]
pub struct TestProtocol;

impl Protocol for TestProtocol {
    fn name(&self) -> &str {
        "test"
    }

    fn reasons(&self) -> &[Reason] {
        &[
            Reason { name: "short", kind: Entry::PacketsMalformedShort },
            Reason { name: "magic", kind: Entry::PacketsMalformedHeader },
            Reason { name: "sum", kind: Entry::PacketsMalformedChecksum },
            Reason { name: "part", kind: Entry::PacketsMalformedFragment },
        ]
    }

    fn number_bits(&self) -> u32 {
        NUMBER_BITS
    }

    fn fragment_bytes_max(&self) -> u64 {
        4 << 20
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(TestDecoder)
    }
}

struct TestDecoder;

impl Decoder for TestDecoder {
    fn decode(
        &mut self,
        _now_ns: u64,
        datagram: &[u8],
        parts: &mut Vec<Part>,
    ) -> Result<Decoded, usize> {
        let Some((header, part)) = datagram.split_first_chunk::<HEADER_BYTES>() else {
            return Err(0);
        };
        let (words, _) = header.as_chunks::<8>();
        let [first, sequence, number, fragment_bytes, position] =
            [words[0], words[1], words[2], words[3], words[4]].map(u64::from_le_bytes);
        if first as u32 != MAGIC {
            return Err(1);
        }
        if (first >> 32) as u32 != sum(&datagram[8..]) {
            return Err(2);
        }
        let bytes = part.len() as u64;
        if position.checked_add(bytes).is_none_or(|end| end > fragment_bytes) {
            return Err(3);
        }
        parts.push(Part {
            lane: 0,
            number: number & NUMBER_MAX,
            position,
            fragment_bytes,
            offset: HEADER_BYTES as u32,
            bytes: bytes as u32,
            id: (number >> NUMBER_BITS) as u32,
            tag: 0,
            flags: 0,
            groups: 0,
        });
        Ok(Decoded { sequence: Some(sequence), ..Decoded::default() })
    }

    fn explain(&self, datagram: &[u8]) -> String {
        format!("{} bytes that are no packet of the test protocol", datagram.len())
    }
}

/// The packets of one fragment in order, with parts of at most that many bytes; an empty fragment
/// has one packet.
pub fn packets(number: u64, fragment: &[u8], part_bytes: usize, sequence: u64) -> Vec<Vec<u8>> {
    let positions = (0..fragment.len().max(1)).step_by(part_bytes);
    let packet = |(sequence, position): (u64, usize)| {
        let part = &fragment[position..fragment.len().min(position + part_bytes)];
        packet(sequence, number, fragment.len() as u64, (position as u64, part))
    };
    (sequence..).zip(positions).map(packet).collect()
}

/// A packet with a part of a fragment, given by its position and its bytes. The source's id is in
/// the number's upper 16 bits.
pub fn packet(
    sequence: u64,
    number: u64,
    fragment_bytes: u64,
    (position, part): (u64, &[u8]),
) -> Vec<u8> {
    let words = [u64::from(MAGIC), sequence, number, fragment_bytes, position];
    let mut packet = words.map(u64::to_le_bytes).as_flattened().to_vec();
    packet.extend_from_slice(part);
    let sum = sum(&packet[8..]);
    packet[4..8].copy_from_slice(&sum.to_le_bytes());
    packet
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum: u32, &byte| sum.wrapping_add(byte.into()))
}

/// Bits of an event number.
const NUMBER_BITS: u32 = 48;
const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;
const MAGIC: u32 = u32::from_le_bytes(*b"TEST");

#[cfg(test)]
mod tests {
    use catchment_wire::fuzz_decoder;

    use super::*;

    #[test]
    fn damaged_packets_are_refused_with_a_reason_of_the_protocol() {
        let good = packet(1, 2, 100, (40, &[7; 60]));
        assert_eq!(
            TestProtocol.decoder().decode(0, &good, &mut Vec::new()).unwrap().sequence,
            Some(1)
        );
        fuzz_decoder(&TestProtocol, &good);
        for length in 0..good.len() {
            fuzz_decoder(&TestProtocol, &good[..length]);
            let mut changed = good.clone();
            changed[length] ^= 0x81;
            fuzz_decoder(&TestProtocol, &changed);
            assert!(
                TestProtocol.decoder().decode(0, &changed, &mut Vec::new()).is_err(),
                "{length}"
            );
        }
        let beyond = packet(1, 2, 100, (u64::MAX - 1, &[7; 60]));
        assert_eq!(TestProtocol.decoder().decode(0, &beyond, &mut Vec::new()), Err(3));
    }
}
