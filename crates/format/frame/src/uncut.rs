//! Files with an unreadable header that were closed, and not cut behind their trailer: the TOC has
//! the header, and says where each frame belongs.
//!
//! A disk that puts a write in the wrong place may have put a frame over the header. Before the
//! header is written again, such a frame is moved to its own place, if that has none.
//!
//! ```text
//!    0     16 KiB
//! | 2 |   | 0 | 1 |   | 3 | TOC | trailer | zeros      as it is found
//! | header  | 0 | 1 | 2 | 3 | TOC | trailer | zeros      and with the rewrites
//! ```

use crate::BLOCK_BYTES;
use crate::error::{FrameRef, Part};
use crate::frame::{ColumnEntry, FrameSummary};
use crate::header::FileHeader;
use crate::read_at::{ReadAt, read_exact};
use crate::stored::StoredColumn;
use crate::toc_reader::{Toc, Trailer, header_from_toc};
use crate::walk::{Walker, is_zero_between};

/// Bytes to write into a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// Their offset.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// What to write, in this order, into a file with an unreadable header: the header, from its TOC,
/// and before that the frames that stand in its place. `None` without a trailer that only zeros
/// follow, or without a whole TOC.
pub fn header_of_uncut<R: ReadAt>(reader: &R) -> Option<Vec<Rewrite>> {
    let file_bytes = contents_end(reader, reader.bytes().ok()?);
    let trailer = Trailer::read(reader, file_bytes).ok()?;
    let toc = Toc::of_trailer(reader, &trailer, file_bytes).ok()?;
    let mut header = header_from_toc(reader, &toc).ok()?;
    let (_, first_frame) = FileHeader::decode(&header).ok()?;
    if first_frame > toc.offset() {
        return None;
    }
    header.resize(first_frame as usize, 0);
    let walker = Walker { reader, file_bytes, file_id: toc.file_id(), search_bytes_max: 0 };
    let borders = (0..first_frame).step_by(BLOCK_BYTES as usize);
    let mut rewrites: Vec<_> =
        borders.filter_map(|offset| moved(&walker, &toc.frames, offset)).collect();
    rewrites.push(Rewrite { offset: 0, bytes: header });
    Some(rewrites)
}

/// The frame at `offset`, if it is whole, at the place where the TOC lists it, if none is there.
fn moved<R: ReadAt>(
    walker: &Walker<'_, R>,
    listed: &[FrameSummary],
    offset: u64,
) -> Option<Rewrite> {
    let mut effort_bytes = walker.effort_bytes();
    let (summary, entries) = walker.accept(offset, &mut effort_bytes).ok()?;
    let identity = |one: &FrameSummary| (one.info.sequence, one.frame_bytes, one.header_crc32c);
    let place = listed.iter().find(|&one| identity(one) == identity(&summary))?.offset;
    let is_taken = place >= walker.file_bytes || walker.accept(place, &mut effort_bytes).is_ok();
    let is_whole = |entry: &ColumnEntry| {
        let (reader, frame, summary) = (walker.reader, FrameRef::Index(0), &summary);
        StoredColumn { reader, frame, summary, entry, schema: None }.verify_stored().is_ok()
    };
    if is_taken || !entries.iter().all(is_whole) {
        return None;
    }
    let mut bytes = vec![0; summary.frame_bytes as usize];
    read_exact(walker.reader, Part::FrameHeader(offset), offset, &mut bytes).ok()?;
    Some(Rewrite { offset: place, bytes })
}

/// The end of the last block that is not zero.
fn contents_end<R: ReadAt>(reader: &R, file_bytes: u64) -> u64 {
    let mut end = file_bytes;
    for step_bytes in [ZEROS_BYTES, BLOCK_BYTES] {
        while end > 0 {
            let start = (end - 1) / step_bytes * step_bytes;
            if !is_zero_between(reader, start, end) {
                break;
            }
            end = start;
        }
    }
    end
}

/// Zeros at the end are looked for in pieces of this, and then by blocks.
const ZEROS_BYTES: u64 = 1024 * 1024;
