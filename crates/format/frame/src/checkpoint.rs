//! Checkpoints: tables of contents so far, which open an unfinished file without a walk.
//!
//! A checkpoint lists the frames since the previous one, which its header names. The locator gives
//! the newest one.

use crate::BLOCK_BYTES;
use crate::error::{FrameError, FrameRef, Part};
use crate::kinds::FrameKind;
use crate::locator::{SLOT_BYTES, Slot, locator_offset};
use crate::read_at::{Ahead, ReadAt, read_exact};
use crate::toc_reader::{Toc, TocLocator};

/// The checkpoints of an unfinished file in order, and the end of the newest one. `None` without a
/// whole chain: then the file is walked.
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
    // If the newest checkpoint is damaged, the older one is almost as good.
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
            // Each piece ends before the range that the next one lists, so all of them are shorter
            // than the file.
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
            return field("previous", "an earlier offset behind the file header", previous);
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
    let locator = TocLocator {
        frame: FrameRef::Checkpoint(offset),
        kind: FrameKind::Checkpoint,
        offset,
        file_id,
    };
    Toc::read(&Ahead::new(reader, offset), &locator, file_bytes)
}
