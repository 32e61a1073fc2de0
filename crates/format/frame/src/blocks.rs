//! Checksums by block, which make it worthwhile to read a part of a column.
//!
//! The checksum in a column's entry covers all of its stored bytes. A large column is followed by a
//! table with the checksum of each block of them, so a reader of some rows checks only the blocks
//! that contain them, not the whole column:
//!
//! ```text
//!  offset                   offset + stored_bytes    T: the next multiple of 64
//! +--------------------------+---------+------------------------------+----------+
//! | stored bytes             | padding | crc32c of each 64 KiB: 4 n   | crc32c   |
//! +--------------------------+---------+------------------------------+----------+
//! ```
//!
//! The last checksum covers the entry's crc32c (u32) and stored_bytes (u64) before the table's
//! values: data and table left from earlier use of a recycled extent match each other, but not the
//! entry.
//!
//! A table is at most 129,028 bytes, for 0x7E000000 stored bytes.

use std::ops::Range;

use crate::COLUMN_ALIGN_BYTES;
use crate::bytes::{align_up, u32_at};
use crate::checksum::{Crc32c, combined};

/// Bit of a column's flags: the column is followed by a table of checksums by block.
pub const BLOCK_CHECKSUMS: u32 = 1;
/// Stored bytes covered by one checksum, and the most that a column without a table has.
pub const CHECKED_BLOCK_BYTES: u64 = 64 << 10;

/// Bytes of a frame taken by a column with that many stored bytes, including its table and padding.
pub fn stored_space(stored_bytes: u64) -> u64 {
    let behind = align_up(stored_bytes, COLUMN_ALIGN_BYTES);
    align_up(behind + table_bytes(stored_bytes), COLUMN_ALIGN_BYTES)
}

/// The flags that writers set for a column with that many stored bytes.
pub fn column_flags(stored_bytes: u64) -> u32 {
    if table_bytes(stored_bytes) > 0 { BLOCK_CHECKSUMS } else { 0 }
}

/// Length of the table for that many stored bytes; 0 for a column that has none.
pub(crate) fn table_bytes(stored_bytes: u64) -> u64 {
    if stored_bytes <= CHECKED_BLOCK_BYTES {
        return 0;
    }
    4 * stored_bytes.div_ceil(CHECKED_BLOCK_BYTES) + 4
}

/// Checksums of stored bytes: of each block, and of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockChecksums {
    blocks: Vec<u32>,
    crc32c: u32,
    bytes: u64,
}

impl BlockChecksums {
    /// The checksums of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut digest = BlockDigest::default();
        digest.update(bytes);
        digest.finish()
    }

    /// Those that damaged bytes were stored with, for a copy in which readers find the damage, too:
    /// the column's checksum, and the table's if it could be read. Otherwise the blocks' are those
    /// of the bytes as they are, which do not combine to the column's: readers check all of it.
    pub fn of_damaged(bytes: &[u8], crc32c: u32, table: Option<Blocks>) -> Self {
        let blocks = table.map_or_else(|| Self::of(bytes).blocks, |table| table.checksums);
        Self { blocks, crc32c, bytes: bytes.len() as u64 }
    }

    /// The number of bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The checksum of all bytes, for the column's entry.
    pub fn crc32c(&self) -> u32 {
        self.crc32c
    }

    /// Appends the table that follows the column: nothing if the column is short.
    pub fn encode_table(&self, table: &mut Vec<u8>) {
        if self.bytes <= CHECKED_BLOCK_BYTES {
            return;
        }
        let start = table.len();
        self.blocks.iter().for_each(|crc| table.extend_from_slice(&crc.to_le_bytes()));
        let crc = table_crc(self.crc32c, self.bytes, &table[start..]);
        table.extend_from_slice(&crc.to_le_bytes());
    }
}

/// Computes the checksums of stored bytes that arrive in parts.
#[derive(Clone, Debug, Default)]
pub struct BlockDigest {
    /// Of the complete blocks.
    whole: BlockChecksums,
    /// Of the incomplete block.
    block: Crc32c,
    block_bytes: u64,
}

impl BlockDigest {
    /// Adds the next bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = (CHECKED_BLOCK_BYTES - self.block_bytes) as usize;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.block.update(now);
            self.block_bytes += now.len() as u64;
            bytes = later;
            if self.block_bytes == CHECKED_BLOCK_BYTES {
                self.end_block();
            }
        }
    }

    fn end_block(&mut self) {
        let (block, bytes) = (std::mem::take(&mut self.block).finish(), self.block_bytes);
        self.whole.crc32c = combined(self.whole.crc32c, block, bytes);
        self.whole.blocks.push(block);
        self.whole.bytes += bytes;
        self.block_bytes = 0;
    }

    /// Returns and clears the checksums of all bytes.
    pub fn finish(&mut self) -> BlockChecksums {
        if self.block_bytes > 0 {
            self.end_block();
        }
        std::mem::take(&mut self.whole)
    }
}

/// The checksum over a table's values and the column's entry.
fn table_crc(column_crc32c: u32, stored_bytes: u64, values: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    crc.update(&column_crc32c.to_le_bytes());
    crc.update(&stored_bytes.to_le_bytes());
    crc.update(values);
    crc.finish()
}

/// The checksums of a column's blocks, from its table; if it has no table, its own, as if it were
/// one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    checksums: Vec<u32>,
    /// Bytes of each block but the last.
    block_bytes: u64,
    stored_bytes: u64,
}

impl Blocks {
    /// One block, checked by the checksum in the entry.
    pub fn whole(crc32c: u32, stored_bytes: u64) -> Self {
        Self { checksums: vec![crc32c], block_bytes: stored_bytes.max(1), stored_bytes }
    }

    /// From a table that was read; none if it does not belong to an entry with this checksum and
    /// that many stored bytes, or if its values do not combine to that checksum.
    pub fn decode(crc32c: u32, stored_bytes: u64, table: &[u8]) -> Option<Self> {
        if table.len() as u64 != table_bytes(stored_bytes) || table.is_empty() {
            return None;
        }
        let (values, crc) = table.split_at(table.len() - 4);
        if table_crc(crc32c, stored_bytes, values) != u32_at(crc, 0) {
            return None;
        }
        let checksums: Vec<u32> = values.chunks_exact(4).map(|value| u32_at(value, 0)).collect();
        let blocks = Self { checksums, block_bytes: CHECKED_BLOCK_BYTES, stored_bytes };
        // A writer can seal wrong values: `verify`, which checks the whole column, would accept a
        // column that no reader of a part can read.
        (blocks.combined() == crc32c).then_some(blocks)
    }

    /// The checksum of all bytes, combined from the blocks.
    fn combined(&self) -> u32 {
        self.checksums.iter().enumerate().fold(0, |crc, (block, &behind)| {
            let Range { start, end } = self.bytes_of(&(block..block + 1));
            combined(crc, behind, end - start)
        })
    }

    /// The number of blocks.
    pub fn count(&self) -> usize {
        self.checksums.len()
    }

    /// The blocks that contain these stored bytes.
    pub fn holding(&self, bytes: &Range<u64>) -> Range<usize> {
        if bytes.is_empty() {
            return 0..0;
        }
        let end = bytes.end.div_ceil(self.block_bytes).min(self.count() as u64);
        (bytes.start / self.block_bytes).min(end) as usize..end as usize
    }

    /// The stored bytes of those blocks.
    pub fn bytes_of(&self, blocks: &Range<usize>) -> Range<u64> {
        let at = |block: usize| (block as u64 * self.block_bytes).min(self.stored_bytes);
        at(blocks.start)..at(blocks.end)
    }

    /// Begins to check these blocks, whose bytes arrive in order.
    pub fn check(&self, blocks: Range<usize>) -> BlockCheck<'_> {
        BlockCheck { blocks: self, next: blocks, crc: Crc32c::new(), crc_bytes: 0 }
    }
}

/// Blocks being checked.
#[derive(Debug)]
pub struct BlockCheck<'a> {
    blocks: &'a Blocks,
    /// The next block and those after it.
    next: Range<usize>,
    crc: Crc32c,
    crc_bytes: u64,
}

/// A block that is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadBlock {
    /// Its range of the column's stored bytes.
    pub bytes: Range<u64>,
    /// The expected checksum.
    pub expected: u32,
    /// The actual checksum.
    pub got: u32,
}

impl BlockCheck<'_> {
    /// Adds the next bytes; those after the last block are ignored.
    ///
    /// # Errors
    /// A block whose last byte has arrived and whose checksum is wrong.
    pub fn update(&mut self, mut bytes: &[u8]) -> Result<(), BadBlock> {
        while !self.next.is_empty() && !bytes.is_empty() {
            let range = self.blocks.bytes_of(&(self.next.start..self.next.start + 1));
            let room = (range.end - range.start - self.crc_bytes) as usize;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.crc.update(now);
            self.crc_bytes += now.len() as u64;
            bytes = later;
            if now.len() == room {
                let got = std::mem::take(&mut self.crc).finish();
                let expected = self.blocks.checksums[self.next.start];
                if got != expected {
                    return Err(BadBlock { bytes: range, expected, got });
                }
                self.next.start += 1;
                self.crc_bytes = 0;
            }
        }
        Ok(())
    }

    /// Whether all blocks have been checked.
    pub fn is_over(&self) -> bool {
        self.next.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::crc32c;
    use crate::frame::ColumnEntry;
    use crate::kinds::Dtype;
    use catchment_codec::Codec;

    fn bytes(count: usize) -> Vec<u8> {
        (0..count as u32).map(|n| (n * 7 + n / 251) as u8).collect()
    }

    fn decode(entry: &ColumnEntry, table: &[u8]) -> Option<Blocks> {
        Blocks::decode(entry.crc32c, entry.stored_bytes, table)
    }

    fn entry(stored: &[u8]) -> ColumnEntry {
        let stored_bytes = stored.len() as u64;
        ColumnEntry {
            id: 1,
            codec: Codec::None,
            dtype: Dtype::U8,
            flags: column_flags(stored_bytes),
            crc32c: crc32c(stored),
            offset: 192,
            stored_bytes,
            raw_bytes: stored_bytes,
            rows: stored_bytes,
            start_ns: 0,
            first_sample: 0,
        }
    }

    #[test]
    fn a_table_has_the_checksum_of_each_block_however_the_bytes_came() {
        for count in [65_537, 131_072, 200_000] {
            let stored = bytes(count);
            let mut table = Vec::new();
            BlockChecksums::of(&stored).encode_table(&mut table);
            let range = entry(&stored).table_range();
            assert_eq!(range.start, (192 + count as u64).next_multiple_of(64));
            assert_eq!(range.end - range.start, table.len() as u64);
            for part in [1_000, 65_536, 70_001] {
                let mut digest = BlockDigest::default();
                stored.chunks(part).for_each(|part| digest.update(part));
                let checksums = digest.finish();
                assert_eq!(digest.finish(), BlockChecksums::default());
                assert_eq!(checksums.crc32c(), crc32c(&stored), "{count} in {part}");
                let mut again = Vec::new();
                checksums.encode_table(&mut again);
                assert_eq!(again, table);
            }
            let values = table.chunks_exact(4).map(|value| u32_at(value, 0));
            let expected = stored.chunks(CHECKED_BLOCK_BYTES as usize).map(crc32c);
            assert!(values.clone().take(values.len() - 1).eq(expected));
            assert_eq!(table.len() as u64, table_bytes(count as u64));
        }
    }

    #[test]
    fn short_columns_have_no_table_whatever_their_flag() {
        for count in [0, 1, 65_535, 65_536] {
            let stored = bytes(count);
            let mut table = Vec::new();
            BlockChecksums::of(&stored).encode_table(&mut table);
            assert!(table.is_empty());
            let flagged = ColumnEntry { flags: BLOCK_CHECKSUMS, ..entry(&stored) };
            assert!(!flagged.has_table() && flagged.table_range().is_empty());
            assert_eq!(stored_space(count as u64), (count as u64).next_multiple_of(64));
            assert!(decode(&flagged, &table).is_none());
        }
        assert_eq!(stored_space(65_537), 65_600 + 64);
    }

    #[test]
    fn a_table_of_other_bytes_is_refused() {
        let stored = bytes(200_000);
        let (good, mut table) = (entry(&stored), Vec::new());
        BlockChecksums::of(&stored).encode_table(&mut table);
        assert_eq!(decode(&good, &table).expect("fits").count(), 4);
        // Data and table of another column match each other, but not the entry.
        assert!(decode(&ColumnEntry { crc32c: 1, ..good }, &table).is_none());
        let longer = ColumnEntry { stored_bytes: 200_001, ..good };
        assert!(decode(&longer, &table).is_none());
        for at in 0..table.len() {
            let mut bad = table.clone();
            bad[at] ^= 0x10;
            assert!(decode(&good, &bad).is_none(), "byte {at}");
        }
        assert!(decode(&good, &table[..table.len() - 4]).is_none());
        // A wrong value under a right last checksum.
        let values = table.len() - 4;
        for at in 0..values {
            let mut wrong = table[..values].to_vec();
            wrong[at] ^= 0x10;
            let crc = table_crc(good.crc32c, good.stored_bytes, &wrong);
            wrong.extend_from_slice(&crc.to_le_bytes());
            assert!(decode(&good, &wrong).is_none(), "byte {at}");
        }
    }

    #[test]
    fn a_damaged_block_is_named_and_others_are_given() {
        let mut stored = bytes(200_000);
        let (good, mut table) = (entry(&stored), Vec::new());
        BlockChecksums::of(&stored).encode_table(&mut table);
        let blocks = decode(&good, &table).expect("fits");
        stored[131_072] ^= 1;
        for (range, damaged) in [(0..131_072, false), (131_072..200_000, true), (5..131_073, true)]
        {
            let held = blocks.holding(&range);
            let bytes = blocks.bytes_of(&held);
            let mut check = blocks.check(held);
            let slice = &stored[bytes.start as usize..bytes.end as usize];
            let checked = slice.chunks(30_000).try_for_each(|part| check.update(part));
            assert_eq!(checked.is_err(), damaged, "{range:?}");
            assert!(damaged || check.is_over());
            if let Err(bad) = checked {
                assert_eq!(bad.bytes, 131_072..196_608);
            }
        }
        assert!(blocks.holding(&(7..7)).is_empty());
        assert_eq!(blocks.holding(&(65_535..65_537)), 0..2);
    }
}
