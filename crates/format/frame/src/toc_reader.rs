//! Reading trailer and TOC: the root when a file is opened, a column's list when first needed.

use std::ops::Range;

use catchment_codec::{Codec, CodecError};
use catchment_model::Ledger;
use catchment_model::limits::FRAME_BYTES_MAX;

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::checksum::{crc32c, crc32c_around};
use crate::error::{ColumnProblem, FrameError, FrameRef, Part};
use crate::frame::{ColumnEntry, FrameInfo, FrameSummary, Origin};
use crate::header::FileHeader;
use crate::kinds::FrameKind;
use crate::ledger::{EntryNames, decode_ledger};
use crate::lists::{FrameEntry, ListRecord};
use crate::positions::{Position, decode_positions};
use crate::read_at::{Ahead, ReadAt, read_exact};
use crate::stored::{StoredColumn, check_entry, read_frame_header};
use crate::toc::{
    BLOCK_RECORD_BYTES, FILE_HEADER, FRAME_RECORD_BYTES, FRAMES, FRAMES_LEDGER, INDEX,
    INDEX_BLOCK_RECORDS, INDEX_BLOCKS, INDEX_RECORD_BYTES, LEDGER, LISTS, ORIGIN_BYTES, POSITIONS,
    TRAILER_BYTES, TRAILER_CRC_AT, TRAILER_MAGIC, TocFlags,
};
use crate::{BLOCK_BYTES, VERSION_MAJOR};

/// The trailer's fields, checked against the file's length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trailer {
    /// The minor version of the program that closed the file.
    pub minor: u16,
    pub file_id: u64,
    pub toc_offset: u64,
    pub toc_bytes: u64,
}

impl Trailer {
    /// Reads the last block of a file with that length.
    pub(crate) fn read<R: ReadAt + ?Sized>(
        reader: &R,
        file_bytes: u64,
    ) -> Result<Self, FrameError> {
        let part = Part::Trailer;
        let Some(offset) = file_bytes.checked_sub(BLOCK_BYTES) else {
            let (expected, got) = (BLOCK_BYTES, file_bytes);
            return Err(FrameError::Truncated { part, offset: 0, expected, got });
        };
        let mut block = [0; TRAILER_BYTES];
        read_exact(reader, part, offset, &mut block)?;
        if block[..8] != TRAILER_MAGIC {
            let got = block[..8].try_into().expect("eight bytes");
            return Err(FrameError::Magic { part, got });
        }
        let (expected, got) =
            (u32_at(&block, TRAILER_CRC_AT), crc32c_around(&block, TRAILER_CRC_AT));
        if got != expected {
            return Err(FrameError::Checksum { part, expected, got });
        }
        let (major, minor) = (u16_at(&block, 8), u16_at(&block, 10));
        if major != VERSION_MAJOR {
            return Err(FrameError::Version { major, minor });
        }
        let trailer = Self {
            minor,
            file_id: u64_at(&block, 16),
            toc_offset: u64_at(&block, 32),
            toc_bytes: u64_at(&block, 40),
        };
        let field = |field, expected, got| Err(FrameError::Field { part, field, expected, got });
        if u64_at(&block, 24) != file_bytes {
            return field("file_bytes", "the file's length", u64_at(&block, 24));
        }
        if trailer.toc_bytes > FRAME_BYTES_MAX
            || trailer.toc_offset.checked_add(trailer.toc_bytes) != Some(offset)
        {
            return field("toc_offset", "toc_bytes before the trailer", trailer.toc_offset);
        }
        if !trailer.toc_offset.is_multiple_of(BLOCK_BYTES) || trailer.toc_bytes == 0 {
            return field("toc_offset", "a multiple of 4,096", trailer.toc_offset);
        }
        Ok(trailer)
    }
}

/// The file and the position at which a TOC or checkpoint is expected.
pub(crate) struct TocLocator {
    pub frame: FrameRef,
    pub kind: FrameKind,
    pub offset: u64,
    pub file_id: u64,
}

/// The root of a TOC or checkpoint, and methods that read the rest.
#[derive(Debug)]
pub(crate) struct Toc {
    pub flags: TocFlags,
    /// Checkpoints: the offset of the previous one, 0 for none.
    pub previous: u64,
    /// The frames, until the reader takes them.
    pub frames: Vec<FrameSummary>,
    pub frame_count: usize,
    /// Its name in errors.
    frame: FrameRef,
    summary: FrameSummary,
    columns: Vec<ColumnEntry>,
    blocks: Vec<IndexBlock>,
    index_record_bytes: u64,
}

#[derive(Debug)]
struct IndexBlock {
    first_column: u32,
    records: u32,
    crc32c: u32,
}

impl Toc {
    /// Reads the trailer of a file with that length, and the TOC that it names.
    pub(crate) fn of_file<R: ReadAt + ?Sized>(
        reader: &R,
        file_bytes: u64,
    ) -> Result<Self, FrameError> {
        Self::of_trailer(reader, &Trailer::read(reader, file_bytes)?, file_bytes)
    }

    /// Reads the TOC that the trailer names.
    pub(crate) fn of_trailer<R: ReadAt + ?Sized>(
        reader: &R,
        trailer: &Trailer,
        file_bytes: u64,
    ) -> Result<Self, FrameError> {
        let locator = TocLocator {
            frame: FrameRef::Toc,
            kind: FrameKind::Toc,
            offset: trailer.toc_offset,
            file_id: trailer.file_id,
        };
        // Header, list of frames and blocks of the index are adjacent.
        let toc = Self::read(&Ahead::new(reader, locator.offset), &locator, file_bytes)?;
        if toc.summary.frame_bytes != trailer.toc_bytes {
            let (field, expected) = ("frame_bytes", "the trailer's toc_bytes");
            let (part, got) = (Part::FrameHeader(trailer.toc_offset), toc.summary.frame_bytes);
            return Err(FrameError::Field { part, field, expected, got });
        }
        Ok(toc)
    }

    /// Reads the frame's header, the list of frames and the blocks of the column index.
    pub(crate) fn read<R: ReadAt + ?Sized>(
        reader: &R,
        locator: &TocLocator,
        file_bytes: u64,
    ) -> Result<Self, FrameError> {
        let (head, header) = read_frame_header(reader, locator.offset, file_bytes)?;
        let summary = head.summary;
        let part = Part::FrameHeader(locator.offset);
        let field = |field, expected, got| Err(FrameError::Field { part, field, expected, got });
        if summary.info.file_id != locator.file_id {
            return field("file_id", "the file header's", summary.info.file_id);
        }
        if summary.info.kind != locator.kind {
            let expected = match locator.kind {
                FrameKind::Toc => "3 (TOC)",
                _ => "4 (checkpoint)",
            };
            return field("kind", expected, u64::from(summary.info.kind.number()));
        }
        let mut toc = Self {
            flags: TocFlags::from_bits(summary.info.flags),
            previous: head.previous,
            frames: Vec::new(),
            frame_count: 0,
            frame: locator.frame,
            summary,
            columns: head.entries(&header).collect(),
            blocks: Vec::new(),
            index_record_bytes: 0,
        };
        toc.index_record_bytes = toc.record_bytes(INDEX, INDEX_RECORD_BYTES)?;
        toc.read_frames(reader)?;
        toc.read_blocks(reader)?;
        Ok(toc)
    }

    /// The id of the file to which it belongs.
    pub(crate) fn file_id(&self) -> u64 {
        self.summary.info.file_id
    }

    /// Whether it is a TOC, not a checkpoint.
    pub(crate) fn is_toc(&self) -> bool {
        self.summary.info.kind == FrameKind::Toc
    }

    /// Its offset in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.summary.offset
    }

    /// The offset of its end in the file.
    pub(crate) fn end(&self) -> u64 {
        self.summary.offset + self.summary.frame_bytes
    }

    /// The range of its column index in the file.
    pub(crate) fn index_bytes(&self) -> Option<Range<u64>> {
        let entry = self.entry(INDEX).ok()?;
        let start = self.summary.offset.checked_add(entry.offset)?;
        Some(start..start.checked_add(entry.stored_bytes)?)
    }

    /// The offset of the first frame that it lists; `None` once the frames are taken.
    pub(crate) fn frames_begin(&self) -> Option<u64> {
        self.frames.first().map(|frame| frame.offset)
    }

    /// The TOC's copy of the file header, without padding.
    pub(crate) fn file_header<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
    ) -> Result<Vec<u8>, FrameError> {
        let mut bytes = Vec::new();
        self.read_column(reader, FILE_HEADER, &mut bytes)?;
        Ok(bytes)
    }

    /// Whether it has the positions of sources.
    pub(crate) fn has_positions(&self) -> bool {
        self.entry(POSITIONS).is_ok()
    }

    /// The newest positions of sources; none if it does not have them.
    pub(crate) fn positions<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
    ) -> Result<Option<Vec<Position>>, FrameError> {
        if !self.has_positions() {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        self.read_column(reader, POSITIONS, &mut bytes)?;
        let problem = |problem| FrameError::column(self.frame, POSITIONS, problem);
        decode_positions(&bytes).map(Some).map_err(problem)
    }

    /// The ledger's total.
    pub(crate) fn ledger<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
        names: &EntryNames,
        source_count: usize,
    ) -> Result<Ledger, FrameError> {
        self.read_ledger(reader, LEDGER, names, source_count)
    }

    /// The sum of what the file's frames count; none if it does not have it.
    pub(crate) fn frames_ledger<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
        names: &EntryNames,
        source_count: usize,
    ) -> Result<Option<Ledger>, FrameError> {
        match self.entry(FRAMES_LEDGER) {
            Ok(_) => self.read_ledger(reader, FRAMES_LEDGER, names, source_count).map(Some),
            Err(_) => Ok(None),
        }
    }

    fn read_ledger<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
        column: u32,
        names: &EntryNames,
        source_count: usize,
    ) -> Result<Ledger, FrameError> {
        let mut bytes = Vec::new();
        self.read_column(reader, column, &mut bytes)?;
        decode_ledger(&bytes, names, source_count)
            .map_err(|problem| FrameError::column(self.frame, column, problem))
    }

    /// A column's entries in the frames that have it; `None` if no frame has it.
    pub(crate) fn list<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
        column: u32,
    ) -> Result<Option<Vec<FrameEntry>>, FrameError> {
        let after = self.blocks.partition_point(|block| block.first_column <= column);
        let Some(block) = after.checked_sub(1) else { return Ok(None) };
        let Some(record) = self.index_record(reader, block, column)? else { return Ok(None) };
        let part = Part::TocList(column);
        let list = ListRecord::decode(&record, part, self.frame_count)?;
        let bytes = self.read_part(reader, part, LISTS, list.offset, list.stored_bytes)?;
        list.entries(column, part, &bytes, self.frame_count).map(Some)
    }

    /// The columns with lists, rising.
    pub(crate) fn listed<R: ReadAt + ?Sized>(&self, reader: &R) -> Result<Vec<u32>, FrameError> {
        let mut bytes = Vec::new();
        self.read_column(reader, INDEX, &mut bytes)?;
        let records = bytes.chunks_exact(self.index_record_bytes as usize);
        Ok(records.map(|record| u32_at(record, 0)).collect())
    }

    /// Checks the whole TOC, a piece at a time.
    pub(crate) fn verify<R: ReadAt + ?Sized>(&self, reader: &R) -> Vec<FrameError> {
        let verify = |entry| self.stored(reader, entry).verify_stored().err();
        self.columns.iter().filter_map(verify).collect()
    }

    fn read_frames<R: ReadAt + ?Sized>(&mut self, reader: &R) -> Result<(), FrameError> {
        let record_bytes = self.record_bytes(FRAMES, FRAME_RECORD_BYTES)? as usize;
        let mut bytes = Vec::new();
        self.read_column(reader, FRAMES, &mut bytes)?;
        self.frames.reserve_exact(bytes.len() / record_bytes);
        let mut end = 0;
        for record in bytes.chunks_exact(record_bytes) {
            let frame = decode_frame_record(record, self.summary.info.file_id);
            let next = frame.offset.checked_add(frame.frame_bytes);
            let fits = frame.offset >= end
                && frame.offset.is_multiple_of(BLOCK_BYTES)
                && frame.frame_bytes.is_multiple_of(BLOCK_BYTES)
                && frame.frame_bytes > 0
                && frame.frame_bytes <= FRAME_BYTES_MAX
                && u64::from(frame.header_bytes) <= frame.frame_bytes
                && next.is_some_and(|next| next <= self.summary.offset);
            let Some(next) = next.filter(|_| fits) else {
                let (field, expected) = ("a frame's offset", "frames in order before their table");
                let problem = ColumnProblem::Field { field, expected, got: frame.offset };
                return Err(FrameError::column(self.frame, FRAMES, problem));
            };
            end = next;
            self.frames.push(frame);
        }
        self.frame_count = self.frames.len();
        if self.frame_count as u64 != self.summary.info.rows {
            let (field, expected) = ("rows", "the table's rows");
            let problem = ColumnProblem::Field { field, expected, got: self.frame_count as u64 };
            return Err(FrameError::column(self.frame, FRAMES, problem));
        }
        Ok(())
    }

    fn read_blocks<R: ReadAt + ?Sized>(&mut self, reader: &R) -> Result<(), FrameError> {
        let record_bytes = self.record_bytes(INDEX_BLOCKS, BLOCK_RECORD_BYTES)? as usize;
        let mut bytes = Vec::new();
        self.read_column(reader, INDEX_BLOCKS, &mut bytes)?;
        let blocks = bytes.chunks_exact(record_bytes).map(|record| IndexBlock {
            first_column: u32_at(record, 0),
            records: u32_at(record, 4),
            crc32c: u32_at(record, 8),
        });
        self.blocks = blocks.collect();
        let rising = self.blocks.windows(2).all(|w| w[0].first_column < w[1].first_column);
        let counts = |block: &IndexBlock| block.records as usize <= INDEX_BLOCK_RECORDS;
        if rising && self.blocks.iter().all(counts) {
            return Ok(());
        }
        let (field, expected) = ("first column", "rising, with at most 128 records a block");
        let problem = ColumnProblem::Field { field, expected, got: 0 };
        Err(FrameError::column(self.frame, INDEX_BLOCKS, problem))
    }

    fn index_record<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
        block: usize,
        column: u32,
    ) -> Result<Option<Vec<u8>>, FrameError> {
        let part = Part::TocIndex(column);
        let IndexBlock { records, crc32c: expected, .. } = self.blocks[block];
        let start = (block * INDEX_BLOCK_RECORDS) as u64 * self.index_record_bytes;
        let wanted = u64::from(records) * self.index_record_bytes;
        let bytes = self.read_part(reader, part, INDEX, start, wanted)?;
        let got = crc32c(&bytes);
        if got != expected {
            return Err(FrameError::Checksum { part, expected, got });
        }
        let mut records = bytes.chunks_exact(self.index_record_bytes as usize);
        Ok(records.find(|record| u32_at(record, 0) == column).map(<[u8]>::to_vec))
    }

    /// Bytes of one record of a TOC's column; 1 if it has none.
    fn record_bytes(&self, id: u32, least: usize) -> Result<u64, FrameError> {
        let entry = self.entry(id)?;
        if entry.rows == 0 && entry.raw_bytes == 0 {
            return Ok(least as u64);
        }
        let record_bytes = entry.raw_bytes.checked_div(entry.rows).unwrap_or(0);
        let exact = record_bytes.checked_mul(entry.rows) == Some(entry.raw_bytes);
        if exact && record_bytes >= least as u64 && record_bytes <= u64::from(u16::MAX) {
            return Ok(record_bytes);
        }
        let (field, expected) = ("raw_bytes", "rows times a record's size");
        let problem = ColumnProblem::Field { field, expected, got: entry.raw_bytes };
        Err(FrameError::column(self.frame, id, problem))
    }

    fn entry(&self, id: u32) -> Result<&ColumnEntry, FrameError> {
        self.columns.iter().find(|entry| entry.id == id).ok_or_else(|| {
            let reason = "the TOC does not have this column";
            FrameError::column(self.frame, id, ColumnProblem::Content { reason })
        })
    }

    fn read_column<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
        id: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        self.stored(reader, self.entry(id)?).read(out)
    }

    fn stored<'a, R: ReadAt + ?Sized>(
        &'a self,
        reader: &'a R,
        entry: &'a ColumnEntry,
    ) -> StoredColumn<'a, R> {
        let (frame, summary) = (self.frame, &self.summary);
        StoredColumn { reader, frame, summary, entry, schema: None }
    }

    /// Some bytes of an unencoded column.
    fn read_part<R: ReadAt + ?Sized>(
        &self,
        reader: &R,
        part: Part,
        id: u32,
        start: u64,
        wanted: u64,
    ) -> Result<Vec<u8>, FrameError> {
        let entry = self.entry(id)?;
        let fail = |problem| FrameError::column(self.frame, id, problem);
        check_entry(&self.summary, entry).map_err(fail)?;
        if entry.codec != Codec::None {
            return Err(fail(CodecError::Unknown(entry.codec).into()));
        }
        if start.checked_add(wanted).is_none_or(|end| end > entry.stored_bytes) {
            let (field, expected) = ("offset", "within the TOC's column");
            return Err(FrameError::Field { part, field, expected, got: start });
        }
        let mut bytes = vec![0; wanted as usize];
        read_exact(reader, part, self.summary.offset + entry.offset + start, &mut bytes)?;
        Ok(bytes)
    }
}

/// The TOC's copy of the file header, checked and without padding.
pub(crate) fn header_from_toc<R: ReadAt + ?Sized>(
    reader: &R,
    toc: &Toc,
) -> Result<Vec<u8>, FrameError> {
    let mut bytes = toc.file_header(reader)?;
    let (header, _) = FileHeader::decode(&bytes)?;
    if header.file_id != toc.summary.info.file_id {
        let (part, field, expected) = (Part::FileHeader, "file_id", "the TOC's");
        return Err(FrameError::Field { part, field, expected, got: header.file_id });
    }
    bytes.truncate(crate::header::used_bytes(&bytes));
    Ok(bytes)
}

fn decode_frame_record(record: &[u8], file_id: u64) -> FrameSummary {
    FrameSummary {
        offset: u64_at(record, 0),
        frame_bytes: u64_at(record, 8),
        header_bytes: u32_at(record, 72),
        header_crc32c: u32_at(record, 76),
        column_count: u32_at(record, 28),
        info: FrameInfo {
            kind: FrameKind::from_number(u16_at(record, 24)),
            flags: u16_at(record, 26),
            file_id,
            sequence: u64_at(record, 16),
            time_first_ns: u64_at(record, 32),
            time_last_ns: u64_at(record, 40),
            key_first: u64_at(record, 48),
            key_last: u64_at(record, 56),
            rows: u64_at(record, 64),
            origin: match record.get(FRAME_RECORD_BYTES..FRAME_RECORD_BYTES + ORIGIN_BYTES) {
                Some(origin) => Origin::decode(origin),
                None => Origin::SINGLE,
            },
        },
    }
}
