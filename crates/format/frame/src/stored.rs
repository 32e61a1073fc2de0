//! One column of one frame in stored form: checked before it is read, and after.
//!
//! A reader that plans its own reads, of several columns at once or of some rows of one, calls
//! [`StoredColumn::check`] first: it compares the entry with its frame and the schema, before its
//! sizes are used for allocating or reading.

use std::borrow::Cow;
use std::ops::Range;

use catchment_codec::{
    Codec, Progress, check_sizes, decode_ahead, decode_into, decode_part, decode_rest, made_by,
};
use catchment_model::limits::{COLUMN_BYTES_MAX, FRAME_BYTES_MAX};

use crate::base::{BasePart, decode_base_parts};
use crate::blocks::{BadBlock, Blocks};
use crate::checksum::{Crc32c, crc32c};
use crate::error::{ColumnProblem, FrameError, FrameRef, Part};
use crate::frame::{ColumnEntry, FIXED_BYTES, FrameSummary, Head, column_bytes_max};
use crate::known::KnownSchema;
use crate::read_at::{ReadAt, read_exact};
use crate::{BLOCK_BYTES, COLUMN_ALIGN_BYTES};

/// The stored bytes of one column of one frame. All errors name the frame and the column.
pub struct StoredColumn<'a, R: ?Sized> {
    pub(crate) reader: &'a R,
    pub(crate) frame: FrameRef,
    pub(crate) summary: &'a FrameSummary,
    pub(crate) entry: &'a ColumnEntry,
    /// `None` for the columns of a TOC or checkpoint, whose rows no schema describes.
    pub(crate) schema: Option<&'a KnownSchema>,
}

impl<R: ReadAt + ?Sized> StoredColumn<'_, R> {
    /// Checks the entry against its frame, the schema and its codec's limits, without reading
    /// anything.
    ///
    /// # Errors
    /// An impossible field.
    pub fn check(&self) -> Result<(), FrameError> {
        let entry = self.entry;
        let checked = self.schema.map_or(Ok(()), |schema| schema.check_rows(entry));
        checked
            .and_then(|()| check_entry(self.summary, entry))
            .and_then(|()| Ok(check_sizes(entry.codec, entry.stored_bytes, entry.raw_bytes)?))
            .map_err(|problem| self.error(problem))
    }

    /// Fills `out` with bytes of the file, from `offset` from the file's start.
    ///
    /// # Errors
    /// A failed read, or a file that ends earlier.
    pub fn read_bytes(&self, offset: u64, out: &mut [u8]) -> Result<(), FrameError> {
        read_exact(self.reader, Part::Column(self.frame, self.entry.id), offset, out)
    }

    /// Checks the length and the checksum of the column's stored bytes.
    ///
    /// # Errors
    /// Damaged bytes.
    pub fn check_stored(&self, stored: &[u8]) -> Result<(), FrameError> {
        self.check_crc(crc32c(stored), stored.len() as u64)
    }

    /// Reads an encoded column into `stored`, checks it and decodes it into `out`: each piece is
    /// decoded before the next one is read, while it is in the CPU's caches. `before` is called
    /// with the range of stored bytes to be read next.
    ///
    /// # Errors
    /// As [`StoredColumn::read_bytes`] and [`StoredColumn::decode`].
    ///
    /// # Panics
    /// If the lengths of `stored` and `out` differ from the entry's.
    pub fn read_decoded(
        &self,
        (stored, out): (&mut [u8], &mut [u8]),
        before: impl Fn(Range<u64>),
    ) -> Result<(), FrameError> {
        let entry = self.entry;
        assert_eq!((stored.len() as u64, out.len() as u64), (entry.stored_bytes, entry.raw_bytes));
        let (mut crc, mut progress) = (Crc32c::new(), Progress::default());
        let mut there = 0;
        while there < stored.len() {
            let end = stored.len().min(there + DECODED_PIECE_BYTES);
            before(there as u64..end as u64);
            let piece = &mut stored[there..end];
            self.read_bytes(self.offset() + there as u64, piece)?;
            crc.update(piece);
            there = end;
            decode_ahead(entry.codec, stored, there, out, &mut progress);
        }
        self.check_crc(crc.finish(), there as u64)?;
        decode_rest(entry.codec, stored, out, progress).map_err(|error| self.error(error.into()))
    }

    /// Checks the column's stored bytes and decodes the range `wanted` of its raw bytes to the same
    /// range of `out`, which has the full raw length. The rest of `out` is undefined afterwards.
    ///
    /// # Errors
    /// Bytes that are damaged or do not decode.
    pub fn decode(
        &self,
        stored: &[u8],
        wanted: Range<usize>,
        out: &mut [u8],
    ) -> Result<(), FrameError> {
        self.check_stored(stored)?;
        if self.entry.codec == Codec::None {
            if out.len() != stored.len() {
                let (field, expected) = ("raw_bytes", "stored_bytes");
                let got = out.len() as u64;
                return Err(self.error(ColumnProblem::Field { field, expected, got }));
            }
            out.copy_from_slice(stored);
            return Ok(());
        }
        decode_part(self.entry.codec, stored, wanted, out).map_err(|error| self.error(error.into()))
    }

    /// The parts of the base of which a column with [`Codec::Base`] consists, checked.
    ///
    /// # Errors
    /// A column that is no payload, an entry that does not match its frame, damaged bytes, or parts
    /// that cannot be.
    pub fn base_parts(&self) -> Result<Vec<BasePart>, FrameError> {
        let entry = self.entry;
        let checked = match self.schema.filter(|schema| schema.is_payload(entry.id)) {
            Some(schema) => schema.check_rows(entry),
            None => Err(ColumnProblem::Content { reason: "codec base is for payload only" }),
        };
        checked
            .and_then(|()| check_entry(self.summary, entry))
            .map_err(|problem| self.error(problem))?;
        let mut stored = vec![0; entry.stored_bytes as usize];
        self.read_bytes(self.offset(), &mut stored)?;
        self.check_stored(&stored)?;
        decode_base_parts(&stored, entry.raw_bytes).map_err(|problem| self.error(problem))
    }

    /// The coding of the stored bytes, named like [`Coding`](crate::Coding) but without its level.
    /// Reads their first four.
    ///
    /// # Errors
    /// An entry that does not match its frame, or a failed read.
    pub fn made_by(&self) -> Result<Cow<'static, str>, FrameError> {
        check_entry(self.summary, self.entry).map_err(|problem| self.error(problem))?;
        let mut head = [0; 4];
        let head = &mut head[..self.entry.stored_bytes.min(4) as usize];
        self.read_bytes(self.offset(), head)?;
        Ok(made_by(self.entry.codec, head))
    }

    /// Reads, checks and decodes the column: `out` becomes its raw bytes.
    pub(crate) fn read(&self, out: &mut Vec<u8>) -> Result<(), FrameError> {
        self.check()?;
        let raw_bytes = self.entry.raw_bytes as usize;
        // Encoded bytes are read to after the decoded ones: one buffer, reused by the caller.
        let stored_at = if self.entry.codec == Codec::None { 0 } else { raw_bytes };
        out.resize(stored_at + self.entry.stored_bytes as usize, 0);
        let (raw, stored) = out.split_at_mut(stored_at);
        let result = self.read_bytes(self.offset(), stored).and_then(|()| {
            self.check_stored(stored)?;
            if self.entry.codec == Codec::None {
                return Ok(());
            }
            decode_into(self.entry.codec, stored, raw).map_err(|error| self.error(error.into()))
        });
        // A damaged column returns no bytes.
        out.truncate(if result.is_ok() { raw_bytes } else { 0 });
        result
    }

    /// The checksums of the column's blocks, from its table; none if it has no table. They allow a
    /// part of the column to be checked.
    ///
    /// # Errors
    /// A table that cannot be read, is beyond the frame, or does not match the entry: the column
    /// must then be checked as a whole.
    pub fn blocks(&self) -> Result<Option<Blocks>, FrameError> {
        if !self.entry.has_table() {
            return Ok(None);
        }
        check_entry(self.summary, self.entry).map_err(|problem| self.error(problem))?;
        let range = self.entry.table_range();
        if range.end > self.summary.frame_bytes {
            return Err(self.error(ColumnProblem::Table));
        }
        let mut table = vec![0; (range.end - range.start) as usize];
        self.read_bytes(self.summary.offset + range.start, &mut table)?;
        let &ColumnEntry { crc32c, stored_bytes, .. } = self.entry;
        Blocks::decode(crc32c, stored_bytes, &table)
            .map(Some)
            .ok_or_else(|| self.error(ColumnProblem::Table))
    }

    /// The error for a damaged block.
    pub fn block_error(&self, BadBlock { bytes, expected, got }: BadBlock) -> FrameError {
        let Range { start, end } = bytes;
        if (start, end) == (0, self.entry.stored_bytes) {
            return self.error(ColumnProblem::Checksum { expected, got });
        }
        self.error(ColumnProblem::Block { start, end, expected, got })
    }

    /// Reads the stored bytes a piece at a time and checks their checksum.
    ///
    /// # Errors
    /// A failed read, or damaged bytes.
    pub fn verify_stored(&self) -> Result<(), FrameError> {
        check_entry(self.summary, self.entry).map_err(|problem| self.error(problem))?;
        let stored_bytes = self.entry.stored_bytes;
        let mut piece = vec![0; stored_bytes.min(VERIFIED_PIECE_BYTES) as usize];
        let mut crc = Crc32c::new();
        let mut done = 0;
        while done < stored_bytes {
            let bytes = (stored_bytes - done).min(VERIFIED_PIECE_BYTES) as usize;
            self.read_bytes(self.offset() + done, &mut piece[..bytes])?;
            crc.update(&piece[..bytes]);
            done += bytes as u64;
        }
        self.check_crc(crc.finish(), done)
    }

    /// The column's offset in the file. Its entry has been checked.
    fn offset(&self) -> u64 {
        self.summary.offset + self.entry.offset
    }

    fn check_crc(&self, got: u32, stored_bytes: u64) -> Result<(), FrameError> {
        let expected = self.entry.crc32c;
        if got == expected && stored_bytes == self.entry.stored_bytes {
            return Ok(());
        }
        Err(self.error(ColumnProblem::Checksum { expected, got }))
    }

    fn error(&self, problem: ColumnProblem) -> FrameError {
        FrameError::column(self.frame, self.entry.id, problem)
    }
}

/// Reads and checks the header of the frame at `offset`.
pub(crate) fn read_frame_header<R: ReadAt + ?Sized>(
    reader: &R,
    offset: u64,
    file_bytes: u64,
) -> Result<(Head, Vec<u8>), FrameError> {
    let part = Part::FrameHeader(offset);
    let available = file_bytes.saturating_sub(offset);
    let mut header = vec![0; available.min(BLOCK_BYTES) as usize];
    read_exact(reader, part, offset, &mut header)?;
    let head = Head::decode(offset, &header)?;
    let header_bytes = u64::from(head.summary.header_bytes);
    if head.summary.frame_bytes > available {
        let (expected, got) = (head.summary.frame_bytes, available);
        return Err(FrameError::Truncated { part, offset, expected, got });
    }
    let first = header.len().min(header_bytes as usize);
    header.resize(header_bytes as usize, 0);
    read_exact(reader, part, offset + first as u64, &mut header[first..])?;
    head.check(&header)?;
    Ok((head, header))
}

/// Checks an entry against its frame, before it is used for allocating or reading.
pub(crate) fn check_entry(
    summary: &FrameSummary,
    entry: &ColumnEntry,
) -> Result<(), ColumnProblem> {
    let bytes_max = column_bytes_max(summary.info.kind);
    const { assert!(FRAME_BYTES_MAX == 64 << 30 && COLUMN_BYTES_MAX == 0x7e00_0000) };
    let at_most = match bytes_max {
        FRAME_BYTES_MAX => "at most 64 GiB",
        _ => "at most 0x7E000000 (2,016 MiB)",
    };
    // A TOC may state a smaller header than necessary.
    let header_bytes = u64::from(summary.header_bytes).max(FIXED_BYTES as u64);
    let end = entry.offset.checked_add(entry.stored_bytes);
    let checks = [
        (
            "offset",
            entry.offset,
            "a multiple of 64",
            entry.offset.is_multiple_of(COLUMN_ALIGN_BYTES),
        ),
        ("offset", entry.offset, "behind the header", entry.offset >= header_bytes),
        ("offset", entry.offset, "within the frame", entry.offset <= summary.frame_bytes),
        (
            "stored_bytes",
            entry.stored_bytes,
            "within the frame",
            end.is_some_and(|end| end <= summary.frame_bytes),
        ),
        ("stored_bytes", entry.stored_bytes, at_most, entry.stored_bytes <= bytes_max),
        ("raw_bytes", entry.raw_bytes, at_most, entry.raw_bytes <= bytes_max),
    ];
    match checks.into_iter().find(|(_, _, _, fits)| !fits) {
        Some((field, got, expected, _)) => Err(ColumnProblem::Field { field, expected, got }),
        None => Ok(()),
    }
}

/// Small enough for each CPU's own cache.
const DECODED_PIECE_BYTES: usize = 256 << 10;
const VERIFIED_PIECE_BYTES: u64 = 1 << 20;
