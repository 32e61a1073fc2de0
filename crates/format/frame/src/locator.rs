//! The locator: the position of the newest checkpoint of an unfinished file.
//!
//! It is the last two blocks of the file header, each a slot, written alternately, so one of them
//! is always whole.
//!
//! ```text
//!  0       8        12      16        24           32       40            48    ..4,096
//! +-------+--------+-------+---------+------------+--------+-------------+-----------+
//! | magic | crc32c | zeros | file_id | generation | offset | frame_bytes | zeros     |
//! +-------+--------+-------+---------+------------+--------+-------------+-----------+
//! ```

use crate::BLOCK_BYTES;
use crate::bytes::{put, u32_at, u64_at};
use crate::checksum::crc32c_around;
use crate::frame::FrameSummary;

/// Encodes one slot of a file's locator, which names the newest checkpoint. Generations count from
/// 1; write the slot to [`locator_offset`] once the checkpoint has been written.
pub fn encode_locator(file_id: u64, generation: u64, checkpoint: &FrameSummary) -> [u8; 4096] {
    let mut block = [0; BLOCK_BYTES as usize];
    put(&mut block, 0, MAGIC);
    put(&mut block, 16, file_id.to_le_bytes());
    put(&mut block, 24, generation.to_le_bytes());
    put(&mut block, 32, checkpoint.offset.to_le_bytes());
    put(&mut block, 40, checkpoint.frame_bytes.to_le_bytes());
    let crc = crc32c_around(&block[..SLOT_BYTES], CRC_AT);
    put(&mut block, CRC_AT, crc.to_le_bytes());
    block
}

/// The offset in the file of the slot for that generation, for a header of `header_bytes` with room
/// for a locator ([`crate::FileHeader::locator`]).
///
/// # Panics
/// If the header is too short to have a locator.
pub fn locator_offset(header_bytes: u64, generation: u64) -> u64 {
    assert!(header_bytes > LOCATOR_BYTES, "a file header of {header_bytes} bytes has no locator");
    header_bytes - LOCATOR_BYTES + generation % 2 * BLOCK_BYTES
}

/// One slot, with checksum and file id checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Counts from 1; the higher of a file's two slots is the newer.
    pub generation: u64,
    /// The offset of the checkpoint in the file.
    pub offset: u64,
    /// The checkpoint's length in bytes.
    pub frame_bytes: u64,
}

impl Slot {
    /// Reads the first [`SLOT_BYTES`] bytes of a slot; `None` if they are not whole.
    pub(crate) fn decode(bytes: &[u8], file_id: u64) -> Option<Self> {
        let whole = bytes[..8] == MAGIC
            && u32_at(bytes, CRC_AT) == crc32c_around(bytes, CRC_AT)
            && u64_at(bytes, 16) == file_id;
        whole.then(|| Self {
            generation: u64_at(bytes, 24),
            offset: u64_at(bytes, 32),
            frame_bytes: u64_at(bytes, 40),
        })
    }
}

/// Both slots.
pub(crate) const LOCATOR_BYTES: u64 = 2 * BLOCK_BYTES;
/// The used bytes of a slot's block.
pub(crate) const SLOT_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"CTMCHECK";
const CRC_AT: usize = 8;
