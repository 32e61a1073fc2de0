//! Lists of a TOC or checkpoint: the positions of one column in the frames that have it.
//!
//! ```text
//!  0       4       6       8       12       16       24             32          40     48         56    ..64
//! +-------+-------+-------+-------+--------+--------+--------------+-----------+------+----------+--------------+
//! | frame | codec | dtype | flags | crc32c | offset | stored_bytes | raw_bytes | rows | start_ns | first_sample |
//! +-------+-------+-------+-------+--------+--------+--------------+-----------+------+----------+--------------+
//! ```
//!
//! Most of a record repeats the previous one, or rises with it. A list that gains by it is packed:
//! each 32-bit word is replaced by its difference from the previous record, and the differences are
//! shuffled and compressed. This turns 64 bytes into 8, so the index of a thousand channels is
//! small compared with their frames.

use std::collections::BTreeMap;

use catchment_codec::{Codec, Coding, ColumnEncoder, Element, decode_column};

use crate::bytes::{put, u16_at, u32_at, u64_at};
use crate::checksum::crc32c;
use crate::error::{FrameError, Part};
use crate::frame::{ColumnEntry, ENTRY_BYTES};

/// The index of a frame, and one column's entry in it.
pub type FrameEntry = (u32, ColumnEntry);

/// For each column: its entries, in order of the frame's index.
pub(crate) type Lists = BTreeMap<u32, Vec<FrameEntry>>;

/// Adds the directory of the frame with that index, which is higher than earlier ones.
pub(crate) fn add_frame(lists: &mut Lists, frame: u32, entries: &[ColumnEntry]) {
    for entry in entries {
        let list = lists.entry(entry.id).or_default();
        // A column may not appear twice in a directory; if it does, the first counts.
        if list.last().is_none_or(|(last, _)| *last != frame) {
            list.push((frame, *entry));
        }
    }
}

/// How a list was stored.
pub(crate) struct Packed {
    pub record_bytes: usize,
    /// The codec; none for a plain list.
    pub codec: Codec,
    /// 0 for a plain list.
    pub stored_bytes: u32,
}

/// Encodes lists one after another, in the same memory.
pub(crate) struct ListPacker {
    encoder: ColumnEncoder,
    records: Vec<u8>,
    differences: Vec<u8>,
}

impl ListPacker {
    pub(crate) fn new() -> Self {
        Self { encoder: ColumnEncoder::new(), records: Vec::new(), differences: Vec::new() }
    }

    /// Appends a list to `out`; frames are counted from `first`.
    pub(crate) fn pack(&mut self, list: &[FrameEntry], first: u32, out: &mut Vec<u8>) -> Packed {
        // Channels need the last two fields of a record; everything else is as in version 1.0.
        let timed = list.iter().any(|(_, entry)| (entry.start_ns, entry.first_sample) != (0, 0));
        let record_bytes = if timed { ENTRY_BYTES } else { LIST_RECORD_BYTES };
        self.records.clear();
        for (frame, entry) in list {
            let mut record = [0; ENTRY_BYTES];
            entry.encode(frame - first, &mut record);
            self.records.extend_from_slice(&record[..record_bytes]);
        }
        let plain = Packed { record_bytes, codec: Codec::None, stored_bytes: 0 };
        if list.len() < PACKED_RECORDS_MIN {
            out.extend_from_slice(&self.records);
            return plain;
        }
        self.differences.clone_from(&self.records);
        for at in (record_bytes..self.records.len()).step_by(4) {
            let word = u32_at(&self.records, at);
            let less = word.wrapping_sub(u32_at(&self.records, at - record_bytes));
            // Zigzag: small numbers of either sign have zeros in their high bytes.
            let zigzag = (less << 1) ^ ((less as i32 >> 31) as u32);
            put(&mut self.differences, at, zigzag.to_le_bytes());
        }
        let element = Element::record(record_bytes);
        let encoded = self.encoder.encode(CODING, element, &self.differences);
        let packed = u32::try_from(encoded.stored.len()).ok();
        match packed.filter(|_| encoded.codec != Codec::None) {
            Some(stored_bytes) => {
                out.extend_from_slice(encoded.stored);
                Packed { record_bytes, codec: encoded.codec, stored_bytes }
            }
            None => {
                out.extend_from_slice(&self.records);
                plain
            }
        }
    }
}

/// A list's record in the column index.
pub(crate) struct ListRecord {
    /// Its offset within the column of lists.
    pub offset: u64,
    pub stored_bytes: u64,
    crc32c: u32,
    records: u64,
    record_bytes: u64,
    codec: Codec,
}

impl ListRecord {
    /// Reads a record of the index of a table with that many frames. That number limits the size of
    /// an unpacked list before anything is allocated.
    pub(crate) fn decode(record: &[u8], part: Part, frames: usize) -> Result<Self, FrameError> {
        let field = |field, expected, got| Err(FrameError::Field { part, field, expected, got });
        let (records, record_bytes) =
            (u64::from(u32_at(record, 16)), u64::from(u16_at(record, 20)));
        if record_bytes < LIST_RECORD_BYTES as u64 {
            return field("record_bytes", "at least 48", record_bytes);
        }
        if records > frames as u64 {
            return field("records", "at most one per frame", records);
        }
        let codec = Codec::from_number(u16_at(record, 22));
        let stored_bytes = match codec {
            Codec::None => records * record_bytes,
            _ => u64::from(u32_at(record, 24)),
        };
        if codec != Codec::None && (record_bytes > PACKED_BYTES_MAX || record_bytes % 4 != 0) {
            return field("record_bytes", "whole words up to 252 in a packed list", record_bytes);
        }
        let (crc32c, offset) = (u32_at(record, 4), u64_at(record, 8));
        Ok(Self { offset, stored_bytes, crc32c, records, record_bytes, codec })
    }

    /// Decodes the list's stored bytes.
    pub(crate) fn entries(
        &self,
        column: u32,
        part: Part,
        stored: &[u8],
        frames: usize,
    ) -> Result<Vec<FrameEntry>, FrameError> {
        let (expected, got) = (self.crc32c, crc32c(stored));
        if got != expected {
            return Err(FrameError::Checksum { part, expected, got });
        }
        let mut unpacked = Vec::new();
        let mut records = stored;
        if self.codec != Codec::None {
            self.unpack(stored, &mut unpacked).ok_or_else(|| {
                let (field, expected) = ("a packed list", "bytes that decode to its records");
                FrameError::Field { part, field, expected, got: stored.len() as u64 }
            })?;
            records = &unpacked;
        }
        let mut entries = Vec::with_capacity(self.records as usize);
        let mut frame_min = 0;
        for record in records.chunks_exact(self.record_bytes as usize) {
            let frame = u32_at(record, 0);
            if frame < frame_min || frame as usize >= frames {
                let (field, expected) = ("frame", "a rising number of a frame");
                let got = u64::from(frame);
                return Err(FrameError::Field { part, field, expected, got });
            }
            frame_min = frame + 1;
            entries.push((frame, ColumnEntry::decode(column, record)));
        }
        Ok(entries)
    }

    fn unpack(&self, stored: &[u8], out: &mut Vec<u8>) -> Option<()> {
        decode_column(self.codec, stored, self.records * self.record_bytes, out).ok()?;
        let record_bytes = self.record_bytes as usize;
        for at in (record_bytes..out.len()).step_by(4) {
            let zigzag = u32_at(out, at);
            let less = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
            let word = u32_at(out, at - record_bytes).wrapping_add(less);
            put(out, at, word.to_le_bytes());
        }
        Some(())
    }
}

/// A record as in version 1.0; records that are read may be longer.
pub(crate) const LIST_RECORD_BYTES: usize = 48;
/// Shorter lists do not gain enough for the codec's own header.
const PACKED_RECORDS_MIN: usize = 8;
const PACKED_BYTES_MAX: u64 = 252;
const CODING: Coding = Coding::ShuffleZstd { level: 1 };

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Dtype;

    fn list(frames: u32, noise: u64) -> Vec<FrameEntry> {
        let entry = |frame: u32| {
            let mut state = u64::from(frame + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            state ^= state >> 29;
            let entry = ColumnEntry {
                id: 7,
                codec: Codec::Blosc,
                dtype: Dtype::I16,
                flags: 0,
                crc32c: state as u32,
                offset: 64 * (1_000 + (state >> 40) % noise),
                stored_bytes: 30_000 + (state >> 33) % noise,
                raw_bytes: 65_536,
                rows: 32_768,
                start_ns: 1_700_000_000_000_000_000 + 64_000_000_000 * u64::from(frame),
                first_sample: 16_384 * (1_700_000_000 + 64 * u64::from(frame)),
            };
            (3 * frame + 100, entry)
        };
        (0..frames).map(entry).collect()
    }

    fn record_of(packed: &Packed, stored: &[u8], records: u32) -> Vec<u8> {
        let mut record = vec![0; 32];
        put(&mut record, 4, crc32c(stored).to_le_bytes());
        put(&mut record, 16, records.to_le_bytes());
        put(&mut record, 20, (packed.record_bytes as u16).to_le_bytes());
        put(&mut record, 22, packed.codec.number().to_le_bytes());
        put(&mut record, 24, packed.stored_bytes.to_le_bytes());
        record
    }

    #[test]
    fn lists_survive_packing_and_long_ones_shrink() {
        let part = Part::TocList(7);
        let mut packer = ListPacker::new();
        for frames in [1, 7, 8, 64, 5_000] {
            let list = list(frames, 4_096);
            let mut stored = Vec::new();
            let packed = packer.pack(&list, 100, &mut stored);
            let record = record_of(&packed, &stored, frames);
            let found = ListRecord::decode(&record, part, 15_000).expect("decodes");
            assert_eq!(found.stored_bytes, stored.len() as u64);
            let entries = found.entries(7, part, &stored, 15_000).expect("decodes");
            let expected: Vec<_> = list.iter().map(|(frame, e)| (frame - 100, *e)).collect();
            assert_eq!(entries, expected);
            if frames >= 64 {
                let each = stored.len() / frames as usize;
                assert!(each <= 14, "{each} bytes a record in a list of {frames}");
            }
        }
    }

    #[test]
    fn packed_lists_that_lie_are_refused() {
        let part = Part::TocList(7);
        let list = list(64, 100);
        let mut stored = Vec::new();
        let packed = ListPacker::new().pack(&list, 100, &mut stored);
        let good = record_of(&packed, &stored, 64);
        let decode = |change: &dyn Fn(&mut Vec<u8>), frames| {
            let mut record = good.clone();
            change(&mut record);
            ListRecord::decode(&record, part, frames)?.entries(7, part, &stored, frames)
        };
        assert!(decode(&|_| (), 200).is_ok());
        assert!(decode(&|_| (), 63).is_err(), "more records than frames");
        assert!(decode(&|_| (), 100).is_err(), "frames that there are not");
        assert!(decode(&|record| put(record, 16, 65u32.to_le_bytes()), 200).is_err());
        assert!(decode(&|record| put(record, 20, 66u16.to_le_bytes()), 200).is_err());
        assert!(decode(&|record| put(record, 20, 47u16.to_le_bytes()), 200).is_err());
        assert!(decode(&|record| put(record, 20, 256u16.to_le_bytes()), 200).is_err());
        assert!(decode(&|record| put(record, 22, 99u16.to_le_bytes()), 200).is_err());
        assert!(decode(&|record| put(record, 22, 2u16.to_le_bytes()), 200).is_err());
        assert!(decode(&|record| record[4] ^= 1, 200).is_err());
    }
}
