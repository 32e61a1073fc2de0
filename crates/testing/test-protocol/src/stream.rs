//! A protocol of connections, as somebody would add one: messages follow each other without gaps,
//! and each has a part of a fragment of any source.
//!
//! ```text
//! offset  bytes
//!      0      4  magic "TSTR"
//!      4      4  bytes of the part, at most 65,536
//!      8      6  event number
//!     14      2  id of the source
//!     16      8  bytes of the fragment
//!     24      8  position: where in the fragment this part belongs
//!     32      .  the part
//! ```
//!
//! The receiver answers with how many messages it has taken from the connection: 8 bytes, whenever
//! that has changed. All numbers are little-endian.

use catchment_model::Entry;
use catchment_wire::{Decoded, Decoder, Part, Protocol, Reason, Transport};

use crate::{NUMBER_BITS, NUMBER_MAX};

/// The protocol, for a source's configuration.
#[derive(Clone, Copy, Debug)]
pub struct TestStream;

impl Protocol for TestStream {
    fn name(&self) -> &str {
        "test-stream"
    }

    fn reasons(&self) -> &[Reason] {
        &[
            Reason { name: "magic", kind: Entry::PacketsMalformedHeader },
            Reason { name: "part", kind: Entry::PacketsMalformedFragment },
        ]
    }

    fn number_bits(&self) -> u32 {
        NUMBER_BITS
    }

    fn fragment_bytes_max(&self) -> u64 {
        4 << 20
    }

    fn transport(&self) -> Transport {
        Transport::Connections
    }

    fn decoder(&self) -> Box<dyn Decoder> {
        Box::new(StreamDecoder::default())
    }
}

#[derive(Default)]
struct StreamDecoder {
    decoded: u64,
    answered: u64,
}

impl Decoder for StreamDecoder {
    fn decode(
        &mut self,
        _now_ns: u64,
        bytes: &[u8],
        parts: &mut Vec<Part>,
    ) -> Result<Decoded, usize> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(Decoded::default());
        };
        let (words, _) = header.as_chunks::<8>();
        let [first, number, fragment_bytes, position] =
            [words[0], words[1], words[2], words[3]].map(u64::from_le_bytes);
        let part_bytes = first >> 32;
        if first as u32 != MAGIC {
            return Err(0);
        }
        let is_inside = position.checked_add(part_bytes).is_some_and(|end| end <= fragment_bytes);
        if part_bytes > PART_BYTES_MAX || !is_inside {
            return Err(1);
        }
        if (rest.len() as u64) < part_bytes {
            return Ok(Decoded::default());
        }
        parts.push(Part {
            number: number & NUMBER_MAX,
            position,
            fragment_bytes,
            offset: HEADER_BYTES as u32,
            bytes: part_bytes as u32,
            id: (number >> NUMBER_BITS) as u32,
            ..Part::default()
        });
        self.decoded += 1;
        let used = HEADER_BYTES + part_bytes as usize;
        Ok(Decoded { used, sent_once: true, ..Decoded::default() })
    }

    fn answer(&mut self, _now_ns: u64, is_held: bool, answer: &mut Vec<u8>) {
        let taken = self.decoded - u64::from(is_held);
        if taken != self.answered {
            self.answered = taken;
            answer.extend_from_slice(&taken.to_le_bytes());
        }
    }

    fn explain(&self, bytes: &[u8]) -> String {
        format!("{} bytes that begin no message of the test protocol", bytes.len())
    }
}

/// The messages of one fragment of a source, one behind the other.
pub fn message(id: u16, number: u64, fragment: &[u8]) -> Vec<u8> {
    messages(id, number, fragment).concat()
}

/// The messages of one fragment of a source, with parts of at most 65,536 bytes; an empty fragment
/// has one.
pub fn messages(id: u16, number: u64, fragment: &[u8]) -> Vec<Vec<u8>> {
    let part_bytes = PART_BYTES_MAX as usize;
    let message = |position: usize| {
        let part = &fragment[position..fragment.len().min(position + part_bytes)];
        let words = [
            u64::from(MAGIC) | (part.len() as u64) << 32,
            number & NUMBER_MAX | u64::from(id) << NUMBER_BITS,
            fragment.len() as u64,
            position as u64,
        ];
        let mut bytes = words.map(u64::to_le_bytes).as_flattened().to_vec();
        bytes.extend_from_slice(part);
        bytes
    };
    (0..fragment.len().max(1)).step_by(part_bytes).map(message).collect()
}

/// Bytes of a message's header.
const HEADER_BYTES: usize = 32;
/// Bytes of a message's part, at most.
const PART_BYTES_MAX: u64 = 65_536;
const MAGIC: u32 = u32::from_le_bytes(*b"TSTR");

#[cfg(test)]
mod tests {
    use catchment_wire::fuzz_decoder;

    use super::*;

    #[test]
    fn messages_are_whole_or_short_or_refused_at_any_length() {
        let good = message(3, 7, &[5; 100]);
        for length in 0..good.len() {
            fuzz_decoder(&TestStream, &good[..length]);
            let used = TestStream.decoder().decode(0, &good[..length], &mut Vec::new());
            assert_eq!(used.unwrap().used, 0, "{length} bytes");
        }
        for index in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[index] ^= 1 << bit;
                fuzz_decoder(&TestStream, &bad);
            }
        }
        let used = TestStream.decoder().decode(0, &good.repeat(2), &mut Vec::new());
        assert_eq!(used.unwrap().used, good.len());
    }
}
