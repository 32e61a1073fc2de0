//! Finding frames without a TOC: from header to header, and past holes.
//!
//! A hole is searched in big blocks for the next 4 KiB border with an acceptable header. Work is
//! bounded by the file's length: each border is read once, and headers longer than a block that
//! turn out wrong are read only as long as their total does not exceed the file.

use std::fmt;
use std::ops::Range;

use crate::bytes::align_up;
use crate::error::{FrameError, Part};
use crate::frame::{ColumnEntry, FrameSummary, Head, MAGIC};
use crate::kinds::FrameKind;
use crate::lists::{Lists, add_frame};
use crate::read_at::{ReadAt, read_available, read_exact};
use crate::toc::TRAILER_MAGIC;
use crate::{BLOCK_BYTES, FRAME_HEADER_BYTES_MAX};

/// A range of a file in which there is no frame.
#[derive(Debug)]
pub struct Skipped {
    /// Its offset.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// Why there is no frame at its beginning.
    pub reason: SkippedReason,
}

/// Why there is no frame.
#[derive(Debug)]
pub enum SkippedReason {
    /// Only zeros: preallocated space that was never written.
    Zeros,
    /// Bytes that are not a frame.
    NoHeader,
    /// A damaged frame header.
    Header(FrameError),
    /// A frame of another file, in recycled blocks of the disk.
    OtherFile {
        /// That file's id.
        file_id: u64,
    },
    /// A whole header, but the file ends before its frame does.
    CutOff {
        /// The length of the frame.
        frame_bytes: u64,
    },
    /// The system could not read it.
    Unreadable(FrameError),
}

impl SkippedReason {
    /// Whether data may have been lost there. Preallocated zeros are normal.
    pub fn is_damage(&self) -> bool {
        !matches!(self, Self::Zeros)
    }
}

impl fmt::Display for SkippedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeros => f.write_str("zeros"),
            Self::NoHeader => f.write_str("no frame header"),
            Self::Header(error) | Self::Unreadable(error) => error.fmt(f),
            Self::OtherFile { file_id } => write!(f, "a frame of another file ({file_id:016x})"),
            Self::CutOff { frame_bytes } => {
                write!(f, "the file ends within a frame of {frame_bytes} bytes")
            }
        }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {}: {}", self.bytes, self.offset, self.reason)
    }
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    pub frames: Vec<FrameSummary>,
    pub lists: Lists,
    pub skipped: Vec<Skipped>,
    /// The offsets of checkpoints.
    pub checkpoints: Vec<u64>,
    /// The range of the TOC, if there is one at the end.
    pub toc: Option<Range<u64>>,
    /// The end of the last frame or checkpoint.
    pub end: u64,
}

/// A file to walk, and the limit of searches.
pub(crate) struct Walker<'a, R: ?Sized> {
    pub reader: &'a R,
    pub file_bytes: u64,
    pub file_id: u64,
    /// How far a hole is searched for the next frame.
    pub search_bytes_max: u64,
}

impl<R: ReadAt + ?Sized> Walker<'_, R> {
    /// Finds all frames from `start` on, a 4 KiB border.
    pub(crate) fn walk(&self, start: u64) -> Walk {
        let mut walk = Walk { end: start, ..Walk::default() };
        let mut effort_bytes = self.effort_bytes();
        let mut window = Window::default();
        let mut offset = start;
        while offset < self.file_bytes {
            match self.accept(offset, &mut effort_bytes) {
                Ok((summary, entries)) => {
                    offset += summary.frame_bytes;
                    walk.add(summary, &entries);
                }
                Err(Rejected::Trailer) => break,
                Err(Rejected::Because(reason)) => {
                    let found = self.search(offset, &mut window, &mut effort_bytes);
                    let reason = match reason {
                        SkippedReason::NoHeader if found.zeros => SkippedReason::Zeros,
                        other => other,
                    };
                    walk.skipped.push(Skipped { offset, bytes: found.end - offset, reason });
                    if !found.frame {
                        break;
                    }
                    offset = found.end;
                }
            }
        }
        walk
    }

    /// Finds the frames from `start` on that follow each other directly. Stops where there is none
    /// yet, and before a TOC.
    pub(crate) fn follow(&self, start: u64) -> Walk {
        let mut walk = Walk { end: start, ..Walk::default() };
        let mut effort_bytes = self.effort_bytes();
        while walk.end < self.file_bytes && walk.toc.is_none() {
            let Ok((summary, entries)) = self.accept(walk.end, &mut effort_bytes) else { break };
            walk.add(summary, &entries);
        }
        walk
    }

    pub(crate) fn effort_bytes(&self) -> u64 {
        self.file_bytes.saturating_add(FRAME_HEADER_BYTES_MAX)
    }

    /// Searches for the next border after `hole` where the walk can continue.
    fn search(&self, hole: u64, window: &mut Window, effort: &mut u64) -> Search {
        let bound = hole.saturating_add(self.search_bytes_max.max(BLOCK_BYTES));
        let end = self.file_bytes.min(bound);
        let mut zeros = self.data_from(hole) > hole || is_zero(window.block(self, hole));
        let mut offset = hole + BLOCK_BYTES;
        while offset < end {
            let data = if window.holds(offset) { offset } else { self.data_from(offset) };
            if data > offset {
                offset = data;
                continue;
            }
            let block = window.block(self, offset);
            if block.starts_with(&MAGIC) {
                if self.accept(offset, effort).is_ok() {
                    return Search { end: offset, zeros, frame: true };
                }
                zeros = false;
            } else if block.starts_with(&TRAILER_MAGIC) && offset + BLOCK_BYTES == self.file_bytes {
                return Search { end: offset, zeros, frame: true };
            } else {
                zeros = zeros && is_zero(block);
            }
            offset += BLOCK_BYTES;
        }
        Search { end, zeros, frame: false }
    }

    /// The first border from `offset` on after which there may be bytes other than zero. An
    /// unbounded search, for repair, does not rely on the file system for this.
    pub(crate) fn data_from(&self, offset: u64) -> u64 {
        if self.search_bytes_max == u64::MAX {
            return offset;
        }
        let data = self.reader.next_data(offset).unwrap_or(self.file_bytes);
        (data / BLOCK_BYTES * BLOCK_BYTES).max(offset)
    }

    /// The frame at `offset`, if there is a whole one.
    pub(crate) fn accept(&self, offset: u64, effort: &mut u64) -> Result<Frame, Rejected> {
        let because = |reason| Err(Rejected::Because(reason));
        let part = Part::FrameHeader(offset);
        let available = self.file_bytes - offset;
        let mut header = vec![0; available.min(BLOCK_BYTES) as usize];
        if let Err(error) = read_exact(self.reader, part, offset, &mut header) {
            return because(SkippedReason::Unreadable(error));
        }
        let head = match Head::decode(offset, &header) {
            Ok(head) => head,
            Err(FrameError::Magic { got, .. })
                if got == TRAILER_MAGIC && available == BLOCK_BYTES =>
            {
                return Err(Rejected::Trailer);
            }
            Err(FrameError::Magic { .. } | FrameError::Truncated { .. }) => {
                return because(SkippedReason::NoHeader);
            }
            Err(error) => return because(SkippedReason::Header(error)),
        };
        let summary = head.summary;
        if summary.info.file_id != self.file_id {
            return because(SkippedReason::OtherFile { file_id: summary.info.file_id });
        }
        let header_bytes = u64::from(summary.header_bytes);
        if header_bytes > available {
            return because(SkippedReason::CutOff { frame_bytes: summary.frame_bytes });
        }
        let first = header.len().min(header_bytes as usize);
        if header_bytes > BLOCK_BYTES {
            let (field, expected) =
                ("header_bytes", "a header worth reading after so many wrong ones");
            let Some(left) = effort.checked_sub(header_bytes) else {
                let error = FrameError::Field { part, field, expected, got: header_bytes };
                return because(SkippedReason::Header(error));
            };
            *effort = left;
        }
        header.resize(header_bytes as usize, 0);
        let rest = offset + first as u64;
        if let Err(error) = read_exact(self.reader, part, rest, &mut header[first..]) {
            return because(SkippedReason::Unreadable(error));
        }
        if let Err(error) = head.check(&header) {
            return because(SkippedReason::Header(error));
        }
        if summary.frame_bytes > available {
            return because(SkippedReason::CutOff { frame_bytes: summary.frame_bytes });
        }
        if header_bytes > BLOCK_BYTES {
            // An accepted frame costs nothing: the walk continues after it.
            *effort += header_bytes;
        }
        Ok((summary, head.entries(&header).collect()))
    }
}

impl Walk {
    fn add(&mut self, summary: FrameSummary, entries: &[ColumnEntry]) {
        if summary.info.kind == FrameKind::Toc {
            self.toc = Some(summary.offset..summary.offset + summary.frame_bytes);
            return;
        }
        // A TOC followed by a frame is not the one at the file's end.
        self.toc = None;
        self.end = summary.offset + summary.frame_bytes;
        if summary.info.kind == FrameKind::Checkpoint {
            self.checkpoints.push(summary.offset);
            return;
        }
        let index = self.frames.len() as u32;
        self.frames.push(summary);
        add_frame(&mut self.lists, index, entries);
    }
}

pub(crate) type Frame = (FrameSummary, Vec<ColumnEntry>);

/// The result of a search.
struct Search {
    /// Where the hole, or the search, ends.
    end: u64,
    /// Whether everything before is zero.
    zeros: bool,
    /// Whether a frame, or the trailer, is at the end.
    frame: bool,
}

pub(crate) enum Rejected {
    /// The trailer is here: the end.
    Trailer,
    Because(SkippedReason),
}

/// The piece of the file being searched.
#[derive(Default)]
pub(crate) struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The 4 KiB at `offset`; fewer at the end, none if the system cannot read them.
    pub(crate) fn block<R: ReadAt + ?Sized>(
        &mut self,
        walker: &Walker<'_, R>,
        offset: u64,
    ) -> &[u8] {
        if !self.holds(offset) {
            self.start = offset;
            self.fill(walker);
        }
        let at = (offset - self.start) as usize;
        let end = self.bytes.len().min(at + BLOCK_BYTES as usize);
        self.bytes.get(at..end).unwrap_or(&[])
    }

    pub(crate) fn holds(&self, offset: u64) -> bool {
        (self.start..self.start + self.bytes.len() as u64).contains(&offset)
    }

    fn fill<R: ReadAt + ?Sized>(&mut self, walker: &Walker<'_, R>) {
        let left = walker.file_bytes.saturating_sub(self.start);
        // The unreadable part may be one bad block: then only this block is skipped.
        for bytes in [WINDOW_BYTES, BLOCK_BYTES] {
            let bytes = align_up(bytes, BLOCK_BYTES).min(left) as usize;
            self.bytes.resize(bytes, 0);
            match read_available(walker.reader, Part::Hole, self.start, &mut self.bytes) {
                Ok(filled) => return self.bytes.truncate(filled),
                Err(_) => self.bytes.clear(),
            }
        }
    }
}

/// Whether a file has only zeros there. An unreadable part is not zero.
pub fn is_zero_between<R: ReadAt + ?Sized>(reader: &R, start: u64, end: u64) -> bool {
    let mut bytes = vec![0; WINDOW_BYTES as usize];
    let mut offset = start;
    while let Some(data) = reader.next_data(offset).filter(|&data| data < end) {
        offset = data.max(offset);
        let piece = &mut bytes[..(end - offset).min(WINDOW_BYTES) as usize];
        match read_available(reader, Part::Hole, offset, piece) {
            Ok(filled) if filled == piece.len() && is_zero(piece) => offset += filled as u64,
            _ => return false,
        }
        if offset >= end {
            break;
        }
    }
    true
}

/// Whether there are bytes, and all are zero. Checked in pieces, so that the compiler can vectorize
/// it.
fn is_zero(block: &[u8]) -> bool {
    !block.is_empty()
        && block.chunks(256).all(|piece| piece.iter().fold(0, |any, byte| any | byte) == 0)
}

const WINDOW_BYTES: u64 = 1024 * 1024;
