//! Checkpoints: tables of contents so far, so that an unfinished file is opened without a walk.
//!
//! A checkpoint lists the frames since the one before it, which its header names. The newest one is
//! found by the locator: the last two blocks of the file header, each a slot, written in turn, so
//! that one of them is always whole.
//!
//! ```text
//!  0       8        12      16        24           32       40            48    ..4,096
//! +-------+--------+-------+---------+------------+--------+-------------+-----------+
//! | magic | crc32c | zeros | file_id | generation | offset | frame_bytes | zeros     |
//! +-------+--------+-------+---------+------------+--------+-------------+-----------+
//! ```

use std::io;

use crate::BLOCK_BYTES;
use crate::bytes::{put, u32_at, u64_at};
use crate::checksum::crc32c_around;
use crate::error::{FrameError, FrameRef, Part};
use crate::frame::FrameSummary;
use crate::kinds::FrameKind;
use crate::read_at::{ReadAt, read_available, read_exact};
use crate::toc_reader::{Toc, TocPlace};

/// One slot of a file's locator: what says where the newest checkpoint stands. Generations count
/// from 1; the slot goes to [`locator_offset`] once the checkpoint is written.
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

/// Where the slot of that generation stands in a file whose header has `header_bytes` and room for
/// a locator ([`crate::FileHeader::locator`]).
///
/// # Panics
/// If the header is too short to have a locator.
pub fn locator_offset(header_bytes: u64, generation: u64) -> u64 {
    assert!(header_bytes > LOCATOR_BYTES, "a file header of {header_bytes} bytes has no locator");
    header_bytes - LOCATOR_BYTES + generation % 2 * BLOCK_BYTES
}

/// What a slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    generation: u64,
    offset: u64,
    frame_bytes: u64,
}

impl Slot {
    fn decode(bytes: &[u8], file_id: u64) -> Option<Self> {
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

/// The checkpoints of an unfinished file in its order, and where the newest one ends. `None`
/// without a whole chain: then the file is walked.
pub(crate) fn read_chain<R: ReadAt + ?Sized>(
    reader: &R,
    file_id: u64,
    first_frame: u64,
    file_bytes: u64,
) -> Option<(Vec<Toc>, u64)> {
    let mut slots = Vec::new();
    for generation in 0..2 {
        let mut bytes = [0; SLOT_BYTES];
        let offset = locator_offset(first_frame, generation);
        if read_exact(reader, Part::FileHeader, offset, &mut bytes).is_ok() {
            slots.extend(Slot::decode(&bytes, file_id));
        }
    }
    slots.sort_unstable_by_key(|slot| std::cmp::Reverse(slot.generation));
    // The older checkpoint is a good way in too, should the newest be damaged.
    slots.iter().find_map(|slot| chain(reader, slot, file_id, first_frame, file_bytes).ok())
}

/// Follows the chain from the checkpoint that a slot names to the file's first.
fn chain<R: ReadAt + ?Sized>(
    reader: &R,
    slot: &Slot,
    file_id: u64,
    first_frame: u64,
    file_bytes: u64,
) -> Result<(Vec<Toc>, u64), FrameError> {
    let mut pieces: Vec<Toc> = Vec::new();
    let mut offset = slot.offset;
    loop {
        let toc = read_checkpoint(reader, offset, file_id, file_bytes)?;
        let part = Part::FrameHeader(offset);
        let field = |field, expected, got| Err(FrameError::Field { part, field, expected, got });
        let (end, previous) = (toc.end(), toc.previous);
        match pieces.last() {
            None if toc.end() - offset != slot.frame_bytes => {
                return field("frame_bytes", "the locator's", toc.end() - offset);
            }
            // Each piece ends before what the next one lists, so that all are shorter than the
            // file.
            Some(next) if next.frames_begin().is_some_and(|begin| begin < end) => {
                return field("previous", "a checkpoint before the frames listed", offset);
            }
            _ => {}
        }
        pieces.push(toc);
        if previous == 0 {
            break;
        }
        if previous < first_frame || previous >= offset || !previous.is_multiple_of(BLOCK_BYTES) {
            return field("previous", "an earlier place behind the file header", previous);
        }
        offset = previous;
    }
    pieces.reverse();
    let begin = pieces.iter().find_map(Toc::frames_begin);
    if begin.is_some_and(|begin| begin < first_frame) {
        let (part, field) = (Part::FrameHeader(slot.offset), "a frame's offset");
        let (expected, got) = ("behind the file header", begin.unwrap_or(0));
        return Err(FrameError::Field { part, field, expected, got });
    }
    let end = pieces.last().map_or(first_frame, Toc::end);
    Ok((pieces, end))
}

/// Reads the root of the checkpoint at `offset`, most often in one piece.
pub(crate) fn read_checkpoint<R: ReadAt + ?Sized>(
    reader: &R,
    offset: u64,
    file_id: u64,
    file_bytes: u64,
) -> Result<Toc, FrameError> {
    let place = TocPlace {
        frame: FrameRef::Checkpoint(offset),
        kind: FrameKind::Checkpoint,
        offset,
        file_id,
    };
    Toc::read(&Ahead::new(reader, offset), &place, file_bytes)
}

/// A reader that has the first bytes from some offset on already.
pub(crate) struct Ahead<'a, R: ?Sized> {
    reader: &'a R,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a, R: ReadAt + ?Sized> Ahead<'a, R> {
    pub(crate) fn new(reader: &'a R, start: u64) -> Self {
        let mut bytes = vec![0; AHEAD_BYTES];
        // What cannot be read ahead is read, and fails, when it is asked for.
        let part = Part::FrameHeader(start);
        let filled = read_available(reader, part, start, &mut bytes).unwrap_or(0);
        bytes.truncate(filled);
        Self { reader, start, bytes }
    }
}

impl<R: ReadAt + ?Sized> ReadAt for Ahead<'_, R> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let at = offset.checked_sub(self.start).filter(|&at| at < self.bytes.len() as u64);
        let Some(at) = at else { return self.reader.read_at(offset, buffer) };
        let known = &self.bytes[at as usize..];
        let count = known.len().min(buffer.len());
        buffer[..count].copy_from_slice(&known[..count]);
        Ok(count)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.reader.bytes()
    }
}

/// Both slots.
pub(crate) const LOCATOR_BYTES: u64 = 2 * BLOCK_BYTES;
/// Header, frames and index blocks of a TOC or checkpoint of 64 frames with 2,000 columns.
const AHEAD_BYTES: usize = 8_192;
const MAGIC: [u8; 8] = *b"CTMCHECK";
const SLOT_BYTES: usize = 64;
const CRC_AT: usize = 8;
