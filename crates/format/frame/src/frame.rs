//! A frame's header, and the positions of its columns.
//!
//! ```text
//!  0       8              12              16     18      20            22            24             28
//! +-------+--------------+---------------+------+-------+-------------+-------------+--------------+-------+
//! | magic | header_bytes | header_crc32c | kind | flags | fixed_bytes | entry_bytes | column_count | zeros |
//! +-------+--------------+---------------+------+-------+-------------+-------------+--------------+-------+
//!  32            40        48         56              64             72          80         88     96  ..128
//! +-------------+---------+----------+---------------+--------------+-----------+----------+------+--------+
//! | frame_bytes | file_id | sequence | time_first_ns | time_last_ns | key_first | key_last | rows | more   |
//! +-------------+---------+----------+---------------+--------------+-----------+----------+------+--------+
//!  96         104      108     112           120           124       ..128
//! +----------+--------+-------+-------------+-------------+---------+
//! | previous | stream | epoch | first_slice | slice_count | variant |
//! +----------+--------+-------+-------------+-------------+---------+
//! then column_count entries of 64 bytes:
//!  0    4       6       8       12       16       24             32          40     48         56    ..64
//! +----+-------+-------+-------+--------+--------+--------------+-----------+------+----------+--------------+
//! | id | codec | dtype | flags | crc32c | offset | stored_bytes | raw_bytes | rows | start_ns | first_sample |
//! +----+-------+-------+-------+--------+--------+--------------+-----------+------+----------+--------------+
//! ```

use std::ops::Range;

use catchment_codec::Codec;
use catchment_model::limits::{COLUMN_BYTES_MAX, FRAME_BYTES_MAX};

use crate::blocks::{BLOCK_CHECKSUMS, BlockChecksums, CHECKED_BLOCK_BYTES, table_bytes};
use crate::bytes::{align_up, put, u16_at, u32_at, u64_at};
use crate::checksum::crc32c_around;
use crate::error::{FrameError, Part};
use crate::kinds::{Dtype, FrameKind};
use crate::{BLOCK_BYTES, COLUMN_ALIGN_BYTES, FRAME_HEADER_BYTES_MAX};

/// A frame's header except its columns. Ranges are zero if there are no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameInfo {
    /// Its contents.
    pub kind: FrameKind,
    /// By kind. Events and channels: bit 0 for a stage that was skipped, otherwise zero.
    pub flags: u16,
    /// The file header's.
    pub file_id: u64,
    /// Number of the frame within the run, from 0.
    pub sequence: u64,
    /// Smallest time, nanoseconds UTC. Channels: where the frame begins, in their time scale.
    pub time_first_ns: u64,
    /// Largest time, nanoseconds UTC. Channels: where the frame ends and the next may begin.
    pub time_last_ns: u64,
    /// Smallest key. Channels: number of the first slice, or 0.
    pub key_first: u64,
    /// Largest key. Channels: number of the last slice, or 0.
    pub key_last: u64,
    /// Events. Channels: samples of all columns together.
    pub rows: u64,
    /// The builder of the frame, and the slices of keys it covers.
    pub origin: Origin,
}

/// The builder of a frame if several build one run, and the data set of the run to which it
/// belongs. All zero if one recorder writes the run.
///
/// A frame is identified by run, stream, variant and sequence, in whatever file it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The recorder or builder within the run; each counts its own sequence.
    pub stream: u32,
    /// The epoch in which that stream owned its slices.
    pub epoch: u32,
    /// Number of the first slice of keys from which it has events.
    pub first_slice: u64,
    /// The number of consecutive slices that it covers; 0 if keys are not dealt out in slices.
    pub slice_count: u32,
    /// The data set of the run to which it belongs; 0 for all sources, unreduced.
    pub variant: u32,
}

impl Origin {
    /// The origin if one recorder builds all of a run.
    pub const SINGLE: Self =
        Self { stream: 0, epoch: 0, first_slice: 0, slice_count: 0, variant: 0 };

    /// Reads the 24 bytes as in frame headers and the TOC.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        Self {
            stream: u32_at(bytes, 0),
            epoch: u32_at(bytes, 4),
            first_slice: u64_at(bytes, 8),
            slice_count: u32_at(bytes, 16),
            variant: u32_at(bytes, 20),
        }
    }

    /// Writes those bytes.
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        put(bytes, 0, self.stream.to_le_bytes());
        put(bytes, 4, self.epoch.to_le_bytes());
        put(bytes, 8, self.first_slice.to_le_bytes());
        put(bytes, 16, self.slice_count.to_le_bytes());
        put(bytes, 20, self.variant.to_le_bytes());
    }
}

impl FrameInfo {
    /// A frame of events without contents.
    pub const EMPTY: Self = Self {
        kind: FrameKind::Events,
        flags: 0,
        file_id: 0,
        sequence: 0,
        time_first_ns: 0,
        time_last_ns: 0,
        key_first: 0,
        key_last: 0,
        rows: 0,
        origin: Origin::SINGLE,
    };

    /// The first and the last number that it covers: its own, and for a skipped frame those of the
    /// frames that it represents.
    pub fn numbers(&self) -> (u64, u64) {
        let frames = if self.kind == FrameKind::SKIPPED { self.rows.max(1) } else { 1 };
        (self.sequence, self.sequence.saturating_add(frames - 1))
    }
}

/// A column of one frame: its position and its storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnEntry {
    /// Its id in the schema.
    pub id: u32,
    /// Its codec.
    pub codec: Codec,
    /// The type of its elements.
    pub dtype: Dtype,
    /// Bits such as [`BLOCK_CHECKSUMS`](crate::BLOCK_CHECKSUMS); unknown ones are kept.
    pub flags: u32,
    /// CRC-32C of the stored bytes.
    pub crc32c: u32,
    /// Offset from the frame's start; set by [`FrameLayout::push`].
    pub offset: u64,
    /// Bytes as stored.
    pub stored_bytes: u64,
    /// Bytes as decoded.
    pub raw_bytes: u64,
    /// Length of the first axis.
    pub rows: u64,
    /// Channels: time of the first sample in nanoseconds; zero elsewhere.
    pub start_ns: u64,
    /// Channels: number of the first sample; zero elsewhere.
    pub first_sample: u64,
}

impl ColumnEntry {
    /// Writes the 64 bytes of an entry. `first` is the column's id in a directory, and the frame's
    /// index in a table's list.
    pub(crate) fn encode(&self, first: u32, bytes: &mut [u8]) {
        put(bytes, 0, first.to_le_bytes());
        put(bytes, 4, self.codec.number().to_le_bytes());
        put(bytes, 6, self.dtype.number().to_le_bytes());
        put(bytes, 8, self.flags.to_le_bytes());
        put(bytes, 12, self.crc32c.to_le_bytes());
        put(bytes, 16, self.offset.to_le_bytes());
        put(bytes, 24, self.stored_bytes.to_le_bytes());
        put(bytes, 32, self.raw_bytes.to_le_bytes());
        put(bytes, 40, self.rows.to_le_bytes());
        put(bytes, 48, self.start_ns.to_le_bytes());
        put(bytes, 56, self.first_sample.to_le_bytes());
    }

    /// Reads those bytes after the first number. In lists they may be 48, without times.
    pub(crate) fn decode(id: u32, bytes: &[u8]) -> Self {
        let timed = bytes.len() >= ENTRY_BYTES;
        Self {
            id,
            codec: Codec::from_number(u16_at(bytes, 4)),
            dtype: Dtype::from_number(u16_at(bytes, 6)),
            flags: u32_at(bytes, 8),
            crc32c: u32_at(bytes, 12),
            offset: u64_at(bytes, 16),
            stored_bytes: u64_at(bytes, 24),
            raw_bytes: u64_at(bytes, 32),
            rows: u64_at(bytes, 40),
            start_ns: if timed { u64_at(bytes, 48) } else { 0 },
            first_sample: if timed { u64_at(bytes, 56) } else { 0 },
        }
    }

    /// Whether it has a table of checksums by block: the flag is ignored for a short column.
    pub fn has_table(&self) -> bool {
        self.flags & BLOCK_CHECKSUMS != 0 && self.stored_bytes > CHECKED_BLOCK_BYTES
    }

    /// The range of its table, from the frame's start; empty if it has none. For an unchecked entry
    /// it may be anywhere.
    pub fn table_range(&self) -> Range<u64> {
        let at =
            self.offset.saturating_add(self.stored_bytes).saturating_add(COLUMN_ALIGN_BYTES - 1)
                & !(COLUMN_ALIGN_BYTES - 1);
        let bytes = if self.has_table() { table_bytes(self.stored_bytes) } else { 0 };
        at..at.saturating_add(bytes)
    }
}

/// A frame in a file: its offset, its length, and the contents of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSummary {
    /// Its offset in the file.
    pub offset: u64,
    /// Header, columns and padding.
    pub frame_bytes: u64,
    /// Fixed part and directory.
    pub header_bytes: u32,
    /// CRC-32C of the header.
    pub header_crc32c: u32,
    /// Columns in its directory.
    pub column_count: u32,
    /// Its header's fields.
    pub info: FrameInfo,
}

/// Computes the positions of a frame's columns and encodes its header, which is written last.
///
/// The caller writes each column's stored bytes to [`FrameLayout::next_offset`] and its table of
/// checksums by block, if any, to [`FrameLayout::table_offset`], then describes them with
/// [`FrameLayout::push`]. Bytes in between are padding, to be written as zero.
#[derive(Debug)]
pub struct FrameLayout {
    info: FrameInfo,
    /// Checkpoints: the offset of the previous one.
    previous: u64,
    header_space: u64,
    column_capacity: usize,
    entries: Vec<ColumnEntry>,
    next_offset: u64,
}

impl FrameLayout {
    /// Begins a frame of at most that many columns.
    ///
    /// # Panics
    /// If the directory would exceed 64 MiB.
    pub fn begin(info: FrameInfo, column_capacity: usize) -> Self {
        let entries = Vec::with_capacity(column_capacity);
        let mut layout =
            Self { info, previous: 0, header_space: 0, column_capacity, entries, next_offset: 0 };
        layout.restart(info, column_capacity);
        layout
    }

    /// Begins another frame in the same memory.
    ///
    /// # Panics
    /// If the directory would exceed 64 MiB.
    pub fn restart(&mut self, info: FrameInfo, column_capacity: usize) {
        let header_bytes = header_bytes(column_capacity);
        assert!(header_bytes <= FRAME_HEADER_BYTES_MAX, "frame header of {header_bytes} bytes");
        self.info = info;
        self.column_capacity = column_capacity;
        self.entries.clear();
        self.header_space = align_up(header_bytes, COLUMN_ALIGN_BYTES);
        self.next_offset = self.header_space;
    }

    /// Bytes reserved for the header at the frame's start.
    pub fn header_space(&self) -> usize {
        self.header_space as usize
    }

    /// The offset in the frame of the next column's stored bytes: a multiple of 64.
    pub fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// The offset in the frame of the table that follows that many stored bytes of the next column:
    /// a multiple of 64.
    pub fn table_offset(&self, stored_bytes: u64) -> u64 {
        align_up(self.next_offset + stored_bytes, COLUMN_ALIGN_BYTES)
    }

    /// Adds the column whose stored bytes were written to [`FrameLayout::next_offset`], and returns
    /// that offset. `entry.offset` need not be set. If its flags announce a table, the table was
    /// written after it.
    ///
    /// # Panics
    /// If there are more columns than announced to `begin`, or if column or frame exceed their
    /// limits.
    pub fn push(&mut self, entry: ColumnEntry) -> u64 {
        let offset = self.next_offset;
        let limit = column_bytes_max(self.info.kind);
        assert!(self.entries.len() < self.column_capacity, "more columns than were announced");
        assert!(entry.stored_bytes <= limit && entry.raw_bytes <= limit, "column: {entry:?}");
        let entry = ColumnEntry { offset, ..entry };
        self.next_offset = align_up(entry.table_range().end, COLUMN_ALIGN_BYTES);
        assert!(self.frame_bytes() <= FRAME_BYTES_MAX, "frame passes {FRAME_BYTES_MAX} bytes");
        self.entries.push(entry);
        offset
    }

    /// The frame's length with the columns so far, a multiple of 4 KiB.
    pub fn frame_bytes(&self) -> u64 {
        align_up(self.next_offset, BLOCK_BYTES)
    }

    /// The columns so far, with their offsets, as [`crate::TocBuilder::add_frame`] requires.
    pub fn entries(&self) -> &[ColumnEntry] {
        &self.entries
    }

    /// Writes the header into the frame's first [`FrameLayout::header_space`] bytes, and returns
    /// the frame's entry in the TOC for `offset` in the file.
    ///
    /// # Panics
    /// If `header` is shorter than the header space, or `offset` is not a multiple of 4 KiB.
    pub fn finish(&self, offset: u64, header: &mut [u8]) -> FrameSummary {
        assert!(offset.is_multiple_of(BLOCK_BYTES), "a frame at {offset}");
        let header = &mut header[..self.header_space as usize];
        header.fill(0);
        let used = header_bytes(self.entries.len()) as usize;
        encode_header(self, &mut header[..used]);
        FrameSummary {
            offset,
            frame_bytes: self.frame_bytes(),
            header_bytes: used as u32,
            header_crc32c: u32_at(header, CRC_AT),
            column_count: self.entries.len() as u32,
            info: self.info,
        }
    }
}

/// A whole frame in memory. Columns are entries with their stored bytes; offset, stored length and
/// checksum of an entry are set here, and tables are made if flags announce them. For tests, tools
/// and other uses where speed does not matter.
///
/// # Panics
/// As [`FrameLayout`] does.
pub fn write_frame(
    info: FrameInfo,
    offset: u64,
    columns: &[(ColumnEntry, &[u8])],
) -> (Vec<u8>, FrameSummary, Vec<ColumnEntry>) {
    write_frame_behind(info, 0, offset, columns)
}

/// As [`write_frame`], for a checkpoint with a previous one.
pub(crate) fn write_frame_behind(
    info: FrameInfo,
    previous: u64,
    offset: u64,
    columns: &[(ColumnEntry, &[u8])],
) -> (Vec<u8>, FrameSummary, Vec<ColumnEntry>) {
    let mut layout = FrameLayout::begin(info, columns.len());
    layout.previous = previous;
    let mut frame = vec![0; layout.header_space()];
    for (entry, stored) in columns {
        frame.resize(layout.next_offset() as usize, 0);
        frame.extend_from_slice(stored);
        let checksums = BlockChecksums::of(stored);
        let (crc32c, stored_bytes) = (checksums.crc32c(), stored.len() as u64);
        let entry = ColumnEntry { crc32c, stored_bytes, ..*entry };
        if entry.has_table() {
            frame.resize(layout.table_offset(stored_bytes) as usize, 0);
            checksums.encode_table(&mut frame);
        }
        layout.push(entry);
    }
    frame.resize(layout.frame_bytes() as usize, 0);
    let summary = layout.finish(offset, &mut frame);
    (frame, summary, layout.entries)
}

/// The fixed part of a frame's header, with its counts checked against each other.
pub(crate) struct Head {
    pub summary: FrameSummary,
    /// Checkpoints: the offset of the previous one, 0 for none.
    pub previous: u64,
    pub fixed_bytes: usize,
    pub entry_bytes: usize,
}

impl Head {
    /// Reads the fixed part of the header of the frame at `offset`. The checksum is not checked
    /// here, because the directory may not have been read yet; `None` if there is no magic.
    pub(crate) fn decode(offset: u64, bytes: &[u8]) -> Result<Self, FrameError> {
        let part = Part::FrameHeader(offset);
        if bytes.len() < FIXED_BYTES {
            let (expected, got) = (FIXED_BYTES as u64, bytes.len() as u64);
            return Err(FrameError::Truncated { part, offset, expected, got });
        }
        if bytes[..8] != MAGIC {
            let got = bytes[..8].try_into().expect("eight bytes");
            return Err(FrameError::Magic { part, got });
        }
        let header_bytes = u32_at(bytes, 8);
        let (fixed_bytes, entry_bytes) = (u16_at(bytes, 20), u16_at(bytes, 22));
        let (column_count, frame_bytes) = (u32_at(bytes, 24), u64_at(bytes, 32));
        // 16 + 32 * 16 bits: no overflow.
        let counted = u64::from(fixed_bytes) + u64::from(column_count) * u64::from(entry_bytes);
        let header = u64::from(header_bytes);
        let checks = [
            (
                "fixed_bytes",
                u64::from(fixed_bytes),
                "at least 128",
                fixed_bytes as usize >= FIXED_BYTES,
            ),
            (
                "entry_bytes",
                u64::from(entry_bytes),
                "at least 64",
                entry_bytes as usize >= ENTRY_BYTES,
            ),
            ("header_bytes", header, "what the counts give", header == counted),
            ("header_bytes", header, "at most 64 MiB", header <= FRAME_HEADER_BYTES_MAX),
            (
                "frame_bytes",
                frame_bytes,
                "a multiple of 4,096 from header_bytes to 64 GiB",
                frame_bytes.is_multiple_of(BLOCK_BYTES)
                    && (header..=FRAME_BYTES_MAX).contains(&frame_bytes),
            ),
        ];
        if let Some((field, got, expected, _)) = checks.into_iter().find(|(_, _, _, fits)| !fits) {
            return Err(FrameError::Field { part, field, expected, got });
        }
        let summary = FrameSummary {
            offset,
            frame_bytes,
            header_bytes,
            header_crc32c: u32_at(bytes, CRC_AT),
            column_count,
            info: FrameInfo {
                kind: FrameKind::from_number(u16_at(bytes, 16)),
                flags: u16_at(bytes, 18),
                file_id: u64_at(bytes, 40),
                sequence: u64_at(bytes, 48),
                time_first_ns: u64_at(bytes, 56),
                time_last_ns: u64_at(bytes, 64),
                key_first: u64_at(bytes, 72),
                key_last: u64_at(bytes, 80),
                rows: u64_at(bytes, 88),
                origin: Origin::decode(&bytes[ORIGIN_AT..]),
            },
        };
        let (fixed_bytes, entry_bytes) = (usize::from(fixed_bytes), usize::from(entry_bytes));
        Ok(Self { summary, previous: u64_at(bytes, 96), fixed_bytes, entry_bytes })
    }

    /// Checks the whole header's checksum. `header` is exactly `header_bytes` long.
    pub(crate) fn check(&self, header: &[u8]) -> Result<(), FrameError> {
        let got = crc32c_around(header, CRC_AT);
        let expected = self.summary.header_crc32c;
        if got == expected {
            return Ok(());
        }
        let part = Part::FrameHeader(self.summary.offset);
        Err(FrameError::Checksum { part, expected, got })
    }

    /// The directory. `header` is exactly `header_bytes` long.
    pub(crate) fn entries<'a>(
        &self,
        header: &'a [u8],
    ) -> impl ExactSizeIterator<Item = ColumnEntry> + use<'a> {
        let entries = header[self.fixed_bytes..].chunks_exact(self.entry_bytes);
        entries.map(|entry| ColumnEntry::decode(u32_at(entry, 0), entry))
    }
}

fn header_bytes(column_count: usize) -> u64 {
    FIXED_BYTES as u64 + column_count as u64 * ENTRY_BYTES as u64
}

/// The longest column allowed in a frame of that kind.
pub(crate) fn column_bytes_max(kind: FrameKind) -> u64 {
    match kind {
        FrameKind::Toc | FrameKind::Checkpoint => FRAME_BYTES_MAX,
        _ => COLUMN_BYTES_MAX,
    }
}

fn encode_header(layout: &FrameLayout, header: &mut [u8]) {
    let (info, entries) = (&layout.info, &layout.entries);
    put(header, 0, MAGIC);
    put(header, 8, (header.len() as u32).to_le_bytes());
    put(header, 16, info.kind.number().to_le_bytes());
    put(header, 18, info.flags.to_le_bytes());
    put(header, 20, (FIXED_BYTES as u16).to_le_bytes());
    put(header, 22, (ENTRY_BYTES as u16).to_le_bytes());
    put(header, 24, (entries.len() as u32).to_le_bytes());
    put(header, 32, layout.frame_bytes().to_le_bytes());
    put(header, 40, info.file_id.to_le_bytes());
    put(header, 48, info.sequence.to_le_bytes());
    put(header, 56, info.time_first_ns.to_le_bytes());
    put(header, 64, info.time_last_ns.to_le_bytes());
    put(header, 72, info.key_first.to_le_bytes());
    put(header, 80, info.key_last.to_le_bytes());
    put(header, 88, info.rows.to_le_bytes());
    put(header, 96, layout.previous.to_le_bytes());
    info.origin.encode(&mut header[ORIGIN_AT..]);
    for (entry, bytes) in entries.iter().zip(header[FIXED_BYTES..].chunks_exact_mut(ENTRY_BYTES)) {
        entry.encode(entry.id, bytes);
    }
    let crc = crc32c_around(header, CRC_AT);
    put(header, CRC_AT, crc.to_le_bytes());
}

/// The first bytes of every frame.
pub(crate) const MAGIC: [u8; 8] = *b"CTMFRAME";
/// Bytes of the fixed part known to this version.
pub(crate) const FIXED_BYTES: usize = 128;
/// Bytes of a directory entry known to this version.
pub(crate) const ENTRY_BYTES: usize = 64;
const CRC_AT: usize = 12;
const ORIGIN_AT: usize = 104;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::crc32c;

    fn info() -> FrameInfo {
        FrameInfo {
            kind: FrameKind::Events,
            flags: 0,
            file_id: 77,
            sequence: 5,
            time_first_ns: 10,
            time_last_ns: 20,
            key_first: 1,
            key_last: 2,
            rows: 2,
            origin: Origin {
                stream: 3,
                epoch: 4,
                first_slice: 1 << 40,
                slice_count: 6,
                variant: 7,
            },
        }
    }

    fn entry(id: u32, bytes: &[u8]) -> ColumnEntry {
        let (stored_bytes, raw_bytes) = (bytes.len() as u64, bytes.len() as u64);
        ColumnEntry {
            id,
            codec: Codec::None,
            dtype: Dtype::U8,
            flags: 0,
            crc32c: crc32c(bytes),
            offset: 0,
            stored_bytes,
            raw_bytes,
            rows: raw_bytes,
            start_ns: 0,
            first_sample: 0,
        }
    }

    #[test]
    fn header_and_directory_survive_their_bytes() {
        let columns: [&[u8]; 3] = [b"first", b"", b"third"];
        let columns: Vec<_> =
            columns.iter().enumerate().map(|(i, b)| (entry(i as u32, b), *b)).collect();
        let (frame, summary, entries) = write_frame(info(), 8_192, &columns);
        assert_eq!(frame.len() as u64, summary.frame_bytes);
        assert!(frame.len().is_multiple_of(4_096));
        let head = Head::decode(8_192, &frame).expect("decodes");
        assert_eq!(head.summary, summary);
        let header = &frame[..summary.header_bytes as usize];
        head.check(header).expect("checksum");
        assert!(head.entries(header).eq(entries.iter().copied()));
        for (entry, (_, stored)) in entries.iter().zip(&columns) {
            assert!(entry.offset.is_multiple_of(64));
            let start = entry.offset as usize;
            assert_eq!(frame[start..start + entry.stored_bytes as usize], **stored);
        }
    }

    #[test]
    fn header_is_zero_beyond_the_columns_that_came() {
        let mut layout = FrameLayout::begin(info(), 10);
        assert_eq!(layout.header_space(), 128 + 10 * 64);
        assert_eq!(layout.push(entry(3, b"abc")), 768);
        assert_eq!(layout.next_offset(), 832);
        let mut header = vec![0xff; 768];
        let summary = layout.finish(0, &mut header);
        assert_eq!((summary.header_bytes, summary.frame_bytes), (192, 4_096));
        assert!(header[192..].iter().all(|&byte| byte == 0));
    }
}
