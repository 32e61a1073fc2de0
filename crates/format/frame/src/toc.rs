//! Writing the table of contents and the trailer.
//!
//! The TOC is a frame whose columns are: 1 the frames, 2 the blocks of the column index, 3 the
//! column index, 4 one list per column, 5 the ledger's total, 6 a copy of the file header, 7 the
//! newest positions of sources, if there are any, 8 the sum of what the file's frames count. To
//! find a column, 1, 2, one block of 3 and one list of 4 are needed. A checkpoint has the same
//! columns except 6 and 8, for the frames since the previous checkpoint.

use catchment_codec::{Codec, ColumnEncoder, Element};
use catchment_model::Ledger;

use crate::bytes::put;
use crate::checksum::{crc32c, crc32c_around};
use crate::frame::{ColumnEntry, FrameInfo, FrameSummary, Origin, write_frame_behind};
use crate::header::Decoded;
use crate::kinds::{Dtype, FrameKind};
use crate::ledger::{RECORD_BYTES, encode_ledger_total};
use crate::lists::{ListPacker, Lists, add_frame};
use crate::positions::{POSITION_BYTES, Positions, encode_positions};
use crate::{BLOCK_BYTES, VERSION_MAJOR, VERSION_MINOR};

/// How a file was closed, as stated in its TOC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TocFlags {
    /// The run was ended in order and this is its last file.
    pub run_ended: bool,
    /// The ledger shows a loss, or repair found damage.
    pub data_lost: bool,
    /// Closed by repair, not by its recorder.
    pub repaired: bool,
    /// The ledger covers only this file, not the run so far.
    pub ledger_of_file: bool,
    /// The ledger counts bad data: recorded fragments that are faulty.
    pub data_bad: bool,
}

impl TocFlags {
    /// The flags that follow from a ledger's total: whether data were lost, and whether some are
    /// bad.
    pub fn of_total(ledger: &Ledger) -> Self {
        let (data_lost, data_bad) = (ledger.balance().lost_data(), ledger.bad_data() > 0);
        Self { data_lost, data_bad, ..Self::default() }
    }

    pub(crate) fn bits(self) -> u16 {
        let Self { run_ended, data_lost, repaired, ledger_of_file, data_bad } = self;
        let flags = [run_ended, data_lost, repaired, ledger_of_file, data_bad];
        flags.iter().enumerate().map(|(bit, &set)| u16::from(set) << bit).sum()
    }

    pub(crate) fn from_bits(bits: u16) -> Self {
        let bit = |bit: u16| bits & (1 << bit) != 0;
        Self {
            run_ended: bit(0),
            data_lost: bit(1),
            repaired: bit(2),
            ledger_of_file: bit(3),
            data_bad: bit(4),
        }
    }
}

/// Collects the contents of a file's TOC.
#[derive(Debug)]
pub struct TocBuilder {
    /// The file header without its padding.
    file_header: Vec<u8>,
    file_id: u64,
    variant: u32,
    /// The minor version in its trailer.
    minor: u16,
    /// Records of the newest positions.
    positions: Vec<u8>,
    /// Records of the sum over the frames, if it was set.
    of_frames: Option<Vec<u8>>,
    frames: Vec<FrameSummary>,
    lists: Lists,
    /// The number of frames in checkpoints.
    checkpointed: usize,
    /// The offset of the newest checkpoint, 0 for none.
    checkpoint: u64,
    /// The end of the last frame or checkpoint.
    end: u64,
}

impl TocBuilder {
    /// A TOC without frames, for the file that begins with those bytes
    /// ([`crate::FileHeader::encode`]).
    ///
    /// # Panics
    /// If they are not a file header.
    pub fn new(encoded_file_header: &[u8]) -> Self {
        let Decoded { header, .. } = crate::FileHeader::decode_known(encoded_file_header, None)
            .expect("an encoded file header");
        let minor = match header.schema.has_positions() {
            // In a table of version 1.3, no column of positions means that there are none. In a
            // lower version, readers look for them in the frames.
            true => MINOR_WITHOUT_POSITIONS,
            false => VERSION_MINOR,
        };
        let used = crate::header::used_bytes(encoded_file_header);
        Self {
            file_header: encoded_file_header[..used].to_vec(),
            file_id: header.file_id,
            variant: header.variant,
            minor,
            positions: Vec::new(),
            of_frames: None,
            frames: Vec::new(),
            lists: Lists::new(),
            checkpointed: 0,
            checkpoint: 0,
            end: 0,
        }
    }

    /// Adds the next frame of the file.
    ///
    /// # Panics
    /// If it belongs to another file, or precedes the one added last.
    pub fn add_frame(&mut self, summary: FrameSummary, columns: &[ColumnEntry]) {
        assert_eq!(summary.info.file_id, self.file_id, "a frame of another file");
        assert!(summary.offset >= self.end, "frames in the order of the file");
        self.end = summary.offset + summary.frame_bytes;
        let index = self.frames.len() as u32;
        self.frames.push(summary);
        add_frame(&mut self.lists, index, columns);
    }

    /// Sets the newest positions of the run's sources: up to the frame added last, and not beyond.
    /// Without it, readers find them in the frames.
    pub fn set_positions(&mut self, positions: &Positions) {
        self.minor = VERSION_MINOR;
        self.positions.clear();
        encode_positions(positions.records(), &mut self.positions);
    }

    /// Sets the sum of what the file's frames count ([`crate::frame_ledger`]). Without it, readers
    /// find it in the frames.
    pub fn set_frames_ledger(&mut self, sum: &Ledger) {
        let records = self.of_frames.insert(Vec::new());
        encode_ledger_total(sum, records);
    }

    /// The frames so far.
    pub fn frames(&self) -> &[FrameSummary] {
        &self.frames
    }

    /// A checkpoint of the frames since the last one, to be written at `offset`, a multiple of 4
    /// KiB after the last frame. `ledger` is the total so far. Once it is written, the locator must
    /// name it ([`crate::encode_locator`]).
    ///
    /// # Panics
    /// If `offset` is not such a multiple.
    pub fn checkpoint(&mut self, offset: u64, ledger: &Ledger) -> (Vec<u8>, FrameSummary) {
        let first = self.checkpointed;
        let info = self.info(FrameKind::Checkpoint, first, TocFlags::default());
        let (bytes, summary) = self.table(info, first, offset, ledger);
        self.checkpointed = self.frames.len();
        self.checkpoint = offset;
        self.end = offset + summary.frame_bytes;
        (bytes, summary)
    }

    /// TOC and trailer, to be written at `offset`, a multiple of 4 KiB after the last frame. They
    /// end the file.
    ///
    /// # Panics
    /// If `offset` is not such a multiple.
    pub fn finish(&self, offset: u64, ledger_total: &Ledger, flags: TocFlags) -> Vec<u8> {
        let info = self.info(FrameKind::Toc, 0, flags);
        let (mut bytes, summary) = self.table(info, 0, offset, ledger_total);
        bytes.extend_from_slice(&trailer(self.file_id, offset, summary.frame_bytes, self.minor));
        bytes
    }

    /// The table of the frames from `first` on: a TOC or a checkpoint.
    fn table(
        &self,
        info: FrameInfo,
        first: usize,
        offset: u64,
        ledger_total: &Ledger,
    ) -> (Vec<u8>, FrameSummary) {
        assert!(offset >= self.end && offset.is_multiple_of(BLOCK_BYTES), "a table at {offset}");
        let (blocks, index, lists, list_count) = self.column_index(first as u32);
        let (frames, frame_record_bytes) = self.frame_records(first);
        let mut ledger = Vec::new();
        encode_ledger_total(ledger_total, &mut ledger);

        let record = |id, raw: &[u8], rows: usize| entry(id, Codec::None, raw.len(), rows);
        let (mut ledger_encoder, mut header_encoder) = (ColumnEncoder::new(), ColumnEncoder::new());
        let mut sum_encoder = ColumnEncoder::new();
        let ledger_stored = ledger_encoder.encode(Codec::Lz4, Element::Bytes, &ledger);
        let header_stored = header_encoder.encode(Codec::Lz4, Element::Bytes, &self.file_header);
        let header_bytes = self.file_header.len();
        let is_toc = info.kind == FrameKind::Toc;
        let mut columns: Vec<(ColumnEntry, &[u8])> = vec![
            (record(FRAMES, &frames, frames.len() / frame_record_bytes), &frames),
            (record(INDEX_BLOCKS, &blocks, blocks.len() / BLOCK_RECORD_BYTES), &blocks),
            (record(INDEX, &index, index.len() / INDEX_RECORD_BYTES), &index),
            (record(LISTS, &lists, list_count), &lists),
            (
                entry(LEDGER, ledger_stored.codec, ledger.len(), ledger.len() / RECORD_BYTES),
                ledger_stored.stored,
            ),
        ];
        // A checkpoint needs no copy of the file header, through which it is found.
        if is_toc {
            let header = entry(FILE_HEADER, header_stored.codec, header_bytes, header_bytes);
            columns.push((header, header_stored.stored));
        }
        if !self.positions.is_empty() {
            let rows = self.positions.len() / POSITION_BYTES;
            columns.push((record(POSITIONS, &self.positions, rows), &self.positions));
        }
        if let Some(sum) = self.of_frames.as_ref().filter(|_| is_toc) {
            let stored = sum_encoder.encode(Codec::Lz4, Element::Bytes, sum);
            let rows = sum.len() / RECORD_BYTES;
            columns.push((entry(FRAMES_LEDGER, stored.codec, sum.len(), rows), stored.stored));
        }
        let previous = if is_toc { 0 } else { self.checkpoint };
        let (bytes, summary, _) = write_frame_behind(info, previous, offset, &columns);
        (bytes, summary)
    }

    /// The header fields of a table of the frames from `first` on.
    fn info(&self, kind: FrameKind, first: usize, flags: TocFlags) -> FrameInfo {
        let frames = &self.frames[first..];
        let with_rows = || {
            frames
                .iter()
                .map(|frame| &frame.info)
                .filter(|info| info.rows > 0 && info.kind != FrameKind::SKIPPED)
        };
        let stream = self.frames.last().map_or(0, |last| last.info.origin.stream);
        FrameInfo {
            kind,
            flags: flags.bits(),
            file_id: self.file_id,
            sequence: self.frames.last().map_or(0, |last| last.info.numbers().1.wrapping_add(1)),
            time_first_ns: with_rows().map(|info| info.time_first_ns).min().unwrap_or(0),
            time_last_ns: with_rows().map(|info| info.time_last_ns).max().unwrap_or(0),
            key_first: with_rows().map(|info| info.key_first).min().unwrap_or(0),
            key_last: with_rows().map(|info| info.key_last).max().unwrap_or(0),
            rows: frames.len() as u64,
            // The origin of its sequence.
            origin: Origin { stream, variant: self.variant, ..Origin::SINGLE },
        }
    }

    /// Records of the frames, and the length of each: longer if any frame has an origin.
    fn frame_records(&self, first: usize) -> (Vec<u8>, usize) {
        let frames = &self.frames[first..];
        let single = frames.iter().all(|frame| frame.info.origin == Origin::SINGLE);
        let record_bytes =
            if single { FRAME_RECORD_BYTES } else { FRAME_RECORD_BYTES + ORIGIN_BYTES };
        let mut bytes = vec![0; frames.len() * record_bytes];
        for (frame, record) in frames.iter().zip(bytes.chunks_exact_mut(record_bytes)) {
            if !single {
                frame.info.origin.encode(&mut record[FRAME_RECORD_BYTES..]);
            }
            put(record, 0, frame.offset.to_le_bytes());
            put(record, 8, frame.frame_bytes.to_le_bytes());
            put(record, 16, frame.info.sequence.to_le_bytes());
            put(record, 24, frame.info.kind.number().to_le_bytes());
            put(record, 26, frame.info.flags.to_le_bytes());
            put(record, 28, frame.column_count.to_le_bytes());
            put(record, 32, frame.info.time_first_ns.to_le_bytes());
            put(record, 40, frame.info.time_last_ns.to_le_bytes());
            put(record, 48, frame.info.key_first.to_le_bytes());
            put(record, 56, frame.info.key_last.to_le_bytes());
            put(record, 64, frame.info.rows.to_le_bytes());
            put(record, 72, frame.header_bytes.to_le_bytes());
            put(record, 76, frame.header_crc32c.to_le_bytes());
        }
        (bytes, record_bytes)
    }

    /// The index's blocks, the index, the lists, and the number of records in all lists. Frames are
    /// counted from `first`.
    fn column_index(&self, first: u32) -> (Vec<u8>, Vec<u8>, Vec<u8>, usize) {
        let mut lists = Vec::new();
        let mut list_count = 0;
        let mut packer = ListPacker::new();
        let mut index = Vec::with_capacity(self.lists.len() * INDEX_RECORD_BYTES);
        for (&column, list) in &self.lists {
            let list = &list[list.partition_point(|(frame, _)| *frame < first)..];
            if list.is_empty() {
                continue;
            }
            let start = lists.len();
            let packed = packer.pack(list, first, &mut lists);
            let mut record = [0; INDEX_RECORD_BYTES];
            put(&mut record, 0, column.to_le_bytes());
            put(&mut record, 4, crc32c(&lists[start..]).to_le_bytes());
            put(&mut record, 8, (start as u64).to_le_bytes());
            put(&mut record, 16, (list.len() as u32).to_le_bytes());
            put(&mut record, 20, (packed.record_bytes as u16).to_le_bytes());
            put(&mut record, 22, packed.codec.number().to_le_bytes());
            put(&mut record, 24, packed.stored_bytes.to_le_bytes());
            index.extend_from_slice(&record);
            list_count += list.len();
        }
        let mut blocks = Vec::new();
        for block in index.chunks(INDEX_BLOCK_RECORDS * INDEX_RECORD_BYTES) {
            let mut record = [0; BLOCK_RECORD_BYTES];
            record[..4].copy_from_slice(&block[..4]);
            put(&mut record, 4, ((block.len() / INDEX_RECORD_BYTES) as u32).to_le_bytes());
            put(&mut record, 8, crc32c(block).to_le_bytes());
            blocks.extend_from_slice(&record);
        }
        (blocks, index, lists, list_count)
    }
}

/// A column of the TOC itself. [`write_frame`] sets the fields left at zero.
fn entry(id: u32, codec: Codec, raw_bytes: usize, rows: usize) -> ColumnEntry {
    let dtype = if id == FILE_HEADER { Dtype::U8 } else { Dtype::Record };
    ColumnEntry {
        id,
        codec,
        dtype,
        flags: 0,
        crc32c: 0,
        offset: 0,
        stored_bytes: 0,
        raw_bytes: raw_bytes as u64,
        rows: rows as u64,
        start_ns: 0,
        first_sample: 0,
    }
}

/// The last block of a file:
///
/// ```text
///  0       8       10      12       16        24           32           40          48  ..4,096
/// +-------+-------+-------+--------+---------+------------+------------+-----------+-----------+
/// | magic | major | minor | crc32c | file_id | file_bytes | toc_offset | toc_bytes | zeros     |
/// +-------+-------+-------+--------+---------+------------+------------+-----------+-----------+
/// ```
pub(crate) fn trailer(file_id: u64, toc_offset: u64, toc_bytes: u64, minor: u16) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES as usize];
    put(&mut block, 0, TRAILER_MAGIC);
    put(&mut block, 8, VERSION_MAJOR.to_le_bytes());
    put(&mut block, 10, minor.to_le_bytes());
    put(&mut block, 16, file_id.to_le_bytes());
    put(&mut block, 24, (toc_offset + toc_bytes + BLOCK_BYTES).to_le_bytes());
    put(&mut block, 32, toc_offset.to_le_bytes());
    put(&mut block, 40, toc_bytes.to_le_bytes());
    let crc = crc32c_around(&block[..TRAILER_BYTES], TRAILER_CRC_AT);
    put(&mut block, TRAILER_CRC_AT, crc.to_le_bytes());
    block
}

pub(crate) const TRAILER_MAGIC: [u8; 8] = *b"CTMCLOSE";
pub(crate) const TRAILER_BYTES: usize = 64;
pub(crate) const TRAILER_CRC_AT: usize = 12;

/// Column ids within a TOC.
pub(crate) const FRAMES: u32 = 1;
pub(crate) const INDEX_BLOCKS: u32 = 2;
pub(crate) const INDEX: u32 = 3;
pub(crate) const LISTS: u32 = 4;
pub(crate) const LEDGER: u32 = 5;
pub(crate) const FILE_HEADER: u32 = 6;
/// The newest positions of sources.
pub(crate) const POSITIONS: u32 = 7;
/// The sum of what the file's frames count.
pub(crate) const FRAMES_LEDGER: u32 = 8;
/// The highest minor version whose tables have no column of positions.
pub(crate) const MINOR_WITHOUT_POSITIONS: u16 = 2;

/// Sizes of the records that this version writes; those it reads may be longer.
pub(crate) const FRAME_RECORD_BYTES: usize = 80;
/// Added to a frame's record if frames have an origin.
pub(crate) const ORIGIN_BYTES: usize = 24;
pub(crate) const BLOCK_RECORD_BYTES: usize = 16;
pub(crate) const INDEX_RECORD_BYTES: usize = 32;
/// Records in one block of the column index.
pub(crate) const INDEX_BLOCK_RECORDS: usize = 128;
