//! A frame that is put together from messages, and the body of a message on its way to where it
//! belongs.

use std::collections::BTreeSet;
use std::sync::Arc;

use catchment_codec::Codec;
use catchment_encoder::{Buffer, Buffers};
use catchment_frame::{
    BlockDigest, Dtype, EntryNames, FileHeader, FrameInfo, FrameKind, Origin, Schema,
    decode_ledger, unqualified,
};
use catchment_wire::storage_link::{COLUMN_BYTES_MAX, Column, End, Frame, HEADER_BYTES_MAX, Open};
use catchment_writer::ColumnForm;

use crate::items::{ColumnBytes, StoredFrame};
use crate::memory::{Memory, Reserved};

/// What a message is that cannot be taken, although its framing is in order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is not what its sender said it would be: the session ends, and is resumed.
    Corrupt(String),
    /// It cannot be taken, however often it is sent.
    Unfit(String),
    /// There is no memory for it now.
    Later(String),
}

type Taken<T> = Result<T, Refusal>;

fn unfit<T>(text: String) -> Taken<T> {
    Err(Refusal::Unfit(text))
}

/// What a stream's sender says of its files.
#[derive(Debug)]
pub(crate) struct StreamHeader {
    bytes: Vec<u8>,
    pub(crate) header: FileHeader,
    columns: BTreeSet<u32>,
    _memory: Reserved,
}

impl StreamHeader {
    pub(crate) fn decode(bytes: Vec<u8>, memory: Reserved) -> Taken<Self> {
        let header = match FileHeader::decode(&bytes) {
            Ok((header, _)) => header,
            Err(error) => return unfit(format!("the header of its files: {error}")),
        };
        let columns = header.schema.columns.iter().map(|column| column.id).collect();
        Ok(Self { bytes, header, columns, _memory: memory })
    }

    /// Whether another one, as encoded, describes the same files.
    pub(crate) fn is(&self, other: &[u8]) -> bool {
        self.bytes == other
    }

    fn schema(&self) -> &Arc<Schema> {
        &self.header.schema
    }

    fn entries(&self) -> &EntryNames {
        &self.header.ledger_entries
    }
}

/// The parts of a header that came.
#[derive(Debug, Default)]
pub(crate) struct HeaderParts {
    bytes: Vec<u8>,
    /// Bytes of the whole.
    all: usize,
    memory: Option<Reserved>,
}

impl HeaderParts {
    /// The next part is announced. The first one takes memory for the whole; for one that is only
    /// compared, if the stream's header `is_known`.
    pub(crate) fn begin(&mut self, open: &Open, memory: &Memory, is_known: bool) -> Taken<()> {
        let header_bytes = u64::from(open.header_bytes);
        if open.offset == 0 && header_bytes <= HEADER_BYTES_MAX {
            *self = Self::default();
            let bytes = header_bytes * if is_known { 1 } else { HEADER_COPIES };
            let (room, capacity) = (memory.room(), memory.capacity());
            let text = format!("the header of its files takes {bytes} bytes, and memory.budget");
            if bytes > capacity {
                return unfit(format!("{text} has {capacity} for headers here"));
            }
            let Some(memory) = memory.reserve(bytes) else {
                let text = format!("{text} has {room} left of {capacity} for headers here");
                return Err(Refusal::Later(text));
            };
            self.all = open.header_bytes as usize;
            (self.bytes, self.memory) = (Vec::with_capacity(self.all), Some(memory));
        }
        let is_next = open.offset as usize == self.bytes.len();
        if !is_next || open.header_bytes as usize != self.all {
            return unfit("a part of the header of files is missing".to_owned());
        }
        Ok(())
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The whole, and its memory, once it is there.
    pub(crate) fn finish(&mut self) -> Option<(Vec<u8>, Reserved)> {
        let memory = self.memory.take_if(|_| self.bytes.len() == self.all)?;
        Some((std::mem::take(self).bytes, memory))
    }
}

/// A frame of which some columns are missing.
#[derive(Debug)]
pub(crate) struct Partial {
    frame: Frame,
    info: FrameInfo,
    /// One above the last sequence that it takes in the log.
    end: u64,
    begun_ns: u64,
    memory: Reserved,
    used: u64,
    columns: Vec<ColumnBytes>,
    ids: BTreeSet<u32>,
    /// The column of which bytes are missing.
    column: Option<PartialColumn>,
}

#[derive(Debug)]
struct PartialColumn {
    column: Column,
    stored: Buffer,
    filled: usize,
    digest: BlockDigest,
}

impl Partial {
    pub(crate) fn new(
        frame: Frame,
        (stream, variant): (u32, u32),
        end: u64,
        memory: Reserved,
        begun_ns: u64,
    ) -> Self {
        let Frame { epoch, first_slice, slice_count, .. } = frame;
        let info = FrameInfo {
            kind: FrameKind::from_number(frame.kind),
            flags: frame.flags,
            file_id: 0,
            sequence: frame.sequence,
            time_first_ns: frame.time_first_ns,
            time_last_ns: frame.time_last_ns,
            key_first: frame.key_first,
            key_last: frame.key_last,
            rows: frame.rows,
            origin: Origin { stream, epoch, first_slice, slice_count, variant },
        };
        let (columns, ids) = (Vec::new(), BTreeSet::new());
        Self { frame, info, end, begun_ns, memory, used: 0, columns, ids, column: None }
    }

    /// The most that a frame's buffers take: their sizes are powers of two.
    pub(crate) fn memory_bytes(frame: &Frame) -> u64 {
        2 * frame.bytes_max + BUFFER_BYTES_MIN * u64::from(frame.columns_max)
    }

    /// Checks what a frame says of itself.
    pub(crate) fn check(frame: &Frame, header: &StreamHeader) -> Taken<()> {
        let kind = FrameKind::from_number(frame.kind);
        let is_known =
            matches!(kind, FrameKind::Events | FrameKind::Channels) || kind == FrameKind::SKIPPED;
        let numbers = if kind == FrameKind::SKIPPED { frame.rows.max(1) } else { 1 };
        if !is_known || numbers != frame.numbers {
            return unfit(format!("frame {} has a kind that is not stored", frame.sequence));
        }
        if frame.columns_max as usize > header.schema().columns.len() {
            let most = header.schema().columns.len();
            return unfit(format!("frame {} has more than {most} columns", frame.sequence));
        }
        Ok(())
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.frame.sequence
    }

    /// A part of a column is announced.
    pub(crate) fn begin_column(
        &mut self,
        column: &Column,
        header: &StreamHeader,
        buffers: &Buffers,
    ) -> Taken<()> {
        if let Some(partial) = &mut self.column {
            let same = Column { offset: 0, crc32c: 0, ..*column };
            let first = Column { offset: 0, crc32c: 0, ..partial.column };
            if same != first || column.offset != partial.filled as u64 {
                return unfit(format!("a part of column {} is missing", partial.column.id));
            }
            partial.column.crc32c = column.crc32c;
            return Ok(());
        }
        let is_known = header.columns.contains(&column.id) && self.ids.insert(column.id);
        if !is_known || self.columns.len() as u32 >= self.frame.columns_max || column.offset != 0 {
            return unfit(format!("column {} does not belong there", column.id));
        }
        self.used += column.stored_bytes;
        if self.used > self.frame.bytes_max || column.stored_bytes > COLUMN_BYTES_MAX {
            let sequence = self.sequence();
            return unfit(format!("frame {sequence} has more bytes than it said"));
        }
        let codec = Codec::from_number(column.codec);
        let is_raw = unqualified(codec).unwrap_or(codec) == Codec::None;
        if is_raw && column.raw_bytes != column.stored_bytes {
            return unfit(format!("column {} is not compressed, and has two lengths", column.id));
        }
        let bytes = column.stored_bytes as usize;
        let mut stored = buffers.take(bytes);
        // What a buffer had before is overwritten, or never looked at.
        stored.truncate(bytes);
        stored.resize(bytes, 0);
        let digest = BlockDigest::default();
        self.column = Some(PartialColumn { column: *column, stored, filled: 0, digest });
        Ok(())
    }

    /// Where the next so many bytes of the column go.
    pub(crate) fn room(&mut self, bytes: usize) -> &mut [u8] {
        match &mut self.column {
            Some(PartialColumn { stored, filled, .. }) => &mut stored[*filled..][..bytes],
            None => &mut [],
        }
    }

    /// So many bytes are there.
    pub(crate) fn filled(&mut self, bytes: usize) {
        if let Some(PartialColumn { stored, filled, digest, .. }) = &mut self.column {
            digest.update(&stored[*filled..][..bytes]);
            *filled += bytes;
        }
    }

    /// The body of a column's message is there: the column is, too, if that was the last.
    pub(crate) fn end_column(&mut self) -> Taken<()> {
        let is_whole = |one: &mut PartialColumn| one.filled as u64 == one.column.stored_bytes;
        let Some(partial) = self.column.take_if(is_whole) else { return Ok(()) };
        let PartialColumn { column, stored, mut digest, .. } = partial;
        let checksums = digest.finish();
        if checksums.crc32c() != column.crc32c {
            return Err(Refusal::Corrupt(format!(
                "column {} of frame {} came with the CRC-32C {:08x}, and was sent with {:08x}",
                column.id,
                self.frame.sequence,
                checksums.crc32c(),
                column.crc32c
            )));
        }
        let form = ColumnForm {
            first_sample: column.first_sample,
            start_ns: column.start_ns,
            ..ColumnForm::new(column.id, Dtype::from_number(column.dtype), column.rows)
        };
        let codec = Codec::from_number(column.codec);
        let bytes = ColumnBytes::new(form, codec, column.raw_bytes, stored);
        let _new = bytes.checksums.set(checksums);
        self.columns.push(bytes);
        Ok(())
    }

    /// The frame's end has come with these records.
    pub(crate) fn finish(
        mut self,
        end: &End,
        records: &[u8],
        header: &StreamHeader,
    ) -> Taken<StoredFrame> {
        let is_whole = self.column.is_none() && end.columns as usize == self.columns.len();
        if !is_whole || end.sequence != self.frame.sequence {
            return unfit(format!("columns of frame {} are missing", self.frame.sequence));
        }
        let sources = header.schema().sources.len();
        let ledger = match decode_ledger(records, header.entries(), sources) {
            Ok(ledger) => ledger,
            Err(problem) => return unfit(format!("the counts of a frame: {problem}")),
        };
        self.memory.shrink(self.columns.iter().map(ColumnBytes::memory_bytes).sum());
        Ok(StoredFrame {
            info: self.info,
            columns: self.columns,
            ledger,
            end: self.end,
            taken_ns: 0,
            _memory: self.memory,
        })
    }

    /// When it began to come.
    pub(crate) fn begun_ns(&self) -> u64 {
        self.begun_ns
    }

    /// Its stored bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.used
    }
}

/// The smallest buffer.
const BUFFER_BYTES_MIN: u64 = 256;
/// What a header takes as long as its stream is open, in lengths of it: as it came, as it was
/// decoded, which is twice that at most, and for the writer.
const HEADER_COPIES: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_streams_take_no_more_memory_than_there_is_for_them() {
        let memory = Memory::new("headers", 8_000);
        let part = |header_bytes, offset| Open { log: 0, header_bytes, offset };
        let (mut one, mut other) = (HeaderParts::default(), HeaderParts::default());
        assert!(matches!(one.begin(&part(2_001, 0), &memory, false), Err(Refusal::Unfit(_))));
        assert_eq!(one.begin(&part(1_500, 0), &memory, false), Ok(()));
        one.take(&[0; 1_000]);
        assert!(one.finish().is_none());
        let refused = other.begin(&part(600, 0), &memory, false);
        assert!(matches!(refused, Err(Refusal::Later(_))), "{refused:?}");
        // One that is known is compared, and no more.
        assert_eq!(other.begin(&part(600, 0), &memory, true), Ok(()));
        assert_eq!(memory.content(), 6_600);
        // From the beginning, as another one.
        assert_eq!(one.begin(&part(1_000, 0), &memory, false), Ok(()));
        assert_eq!(memory.content(), 4_600);
        one.take(&[0; 999]);
        assert_eq!(one.begin(&part(1_000, 999), &memory, false), Ok(()));
        one.take(&[0; 1]);
        let (bytes, held) = one.finish().expect("it is whole");
        assert_eq!((bytes.len(), memory.content()), (1_000, 4_600));
        drop((held, other));
        assert_eq!(memory.content(), 0);
        assert!(matches!(one.begin(&part(1_000, 999), &memory, false), Err(Refusal::Unfit(_))));
    }
}
