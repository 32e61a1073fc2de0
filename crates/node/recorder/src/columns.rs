//! One frame's columns, on their way from chunks into disk buffers.

use std::sync::Arc;

use catchment_builder::{ColumnCut, Cut};
use catchment_disk::FileId;
use catchment_frame::{
    Codec, ColumnEncoder, ColumnEntry, Crc32c, Dtype, EventColumns, FrameInfo, FrameKind,
    FrameLayout, FrameSummary, Schema, SourceColumns, encode_ledger_increment,
};
use catchment_model::Ledger;

use crate::pool::ChunkPool;
use crate::stream::{Jobs, Stream};

/// Columns of every events frame: keys, times, flags, and the ledger's increments.
const FRAME_COLUMNS: usize = 4;
/// Columns of every source: lengths, validity, payload.
const SOURCE_COLUMNS: usize = 3;

const NO_FRAME: FrameInfo = FrameInfo {
    kind: FrameKind::Events,
    flags: 0,
    file_id: 0,
    sequence: 0,
    time_first_ns: 0,
    time_last_ns: 0,
    key_first: 0,
    key_last: 0,
    rows: 0,
};

/// Encodes frames. It keeps its working memory.
pub(crate) struct FrameWriter {
    pool: Arc<ChunkPool>,
    codec: Codec,
    encoder: ColumnEncoder,
    layout: FrameLayout,
    keys: u32,
    times: u32,
    flags: u32,
    ledger: u32,
    sources: Vec<[u32; SOURCE_COLUMNS]>,
    bytes: Vec<u8>,
}

/// A frame that was streamed: as the TOC will list it.
pub(crate) struct WrittenFrame {
    pub(crate) summary: FrameSummary,
    pub(crate) entries: Vec<ColumnEntry>,
}

/// What a column is, but for its bytes.
#[derive(Clone, Copy)]
struct Column {
    id: u32,
    dtype: Dtype,
    rows: u64,
}

impl FrameWriter {
    /// # Panics
    /// If the schema is not one that [`Schema::events`] made.
    pub(crate) fn new(schema: &Schema, pool: Arc<ChunkPool>, codec: Codec) -> Self {
        let columns = EventColumns::of(schema);
        let id = |id: Option<u32>| id.expect("a column of every schema of events");
        let of_source =
            |source: &SourceColumns| [source.lengths, source.validity, source.payload].map(id);
        Self {
            pool,
            codec,
            encoder: ColumnEncoder::new(),
            layout: FrameLayout::begin(NO_FRAME, 0),
            keys: id(columns.key),
            times: id(columns.time),
            flags: id(columns.flags),
            ledger: id(columns.ledger_increment),
            sources: columns.sources.iter().map(of_source).collect(),
            bytes: Vec::new(),
        }
    }

    /// The most bytes that the header of a frame of that many sources takes.
    pub(crate) fn header_bytes_max(source_count: usize) -> usize {
        FrameLayout::begin(NO_FRAME, FRAME_COLUMNS + SOURCE_COLUMNS * source_count).header_space()
    }

    /// Streams a frame to that offset of a file. The caller ends the job.
    pub(crate) fn write<T>(
        &mut self,
        jobs: &mut Jobs<T>,
        file: FileId,
        offset: u64,
        (info, cut, increment): (FrameInfo, &Cut, &Ledger),
    ) -> (Stream, WrittenFrame) {
        let with_data = cut.columns.iter().filter(|column| column.fragments > 0).count();
        self.layout.restart(info, FRAME_COLUMNS + SOURCE_COLUMNS * with_data);
        let mut stream = jobs.begin(file, offset);
        jobs.pad_to(&mut stream, self.layout.header_space() as u64);
        let rows = info.rows;
        self.set_bytes(cut.keys.iter().flat_map(|key| key.to_le_bytes()));
        self.column(jobs, &mut stream, Column { id: self.keys, dtype: Dtype::U64, rows });
        self.set_bytes(cut.times_ns.iter().flat_map(|time| time.to_le_bytes()));
        self.column(jobs, &mut stream, Column { id: self.times, dtype: Dtype::U64, rows });
        self.set_bytes(cut.flags.iter().flat_map(|flags| flags.to_le_bytes()));
        self.column(jobs, &mut stream, Column { id: self.flags, dtype: Dtype::U32, rows });
        self.bytes.clear();
        encode_ledger_increment(increment, &mut self.bytes);
        let records = (self.bytes.len() / 16) as u64;
        let ledger = Column { id: self.ledger, dtype: Dtype::Record, rows: records };
        self.column(jobs, &mut stream, ledger);
        for (index, column) in cut.columns.iter().enumerate() {
            if column.fragments > 0 {
                self.source(jobs, &mut stream, self.sources[index], rows, column);
            }
        }
        jobs.pad_to(&mut stream, self.layout.frame_bytes());
        let summary = self.layout.finish(offset, jobs.first(&mut stream));
        (stream, WrittenFrame { summary, entries: self.layout.entries().to_vec() })
    }

    fn source<T>(
        &mut self,
        jobs: &mut Jobs<T>,
        stream: &mut Stream,
        [lengths, validity, payload]: [u32; SOURCE_COLUMNS],
        rows: u64,
        column: &ColumnCut,
    ) {
        self.set_bytes(column.lengths.iter().flat_map(|length| length.to_le_bytes()));
        self.column(jobs, stream, Column { id: lengths, dtype: Dtype::U32, rows });
        if let Some(bits) = &column.validity {
            self.bytes.clear();
            self.bytes.extend_from_slice(bits);
            self.column(jobs, stream, Column { id: validity, dtype: Dtype::Bits, rows });
        }
        let payload = Column { id: payload, dtype: Dtype::U8, rows: column.payload_bytes };
        if self.codec == Codec::None {
            self.payload_as_it_is(jobs, stream, payload, column);
        } else {
            self.bytes.clear();
            for span in &column.spans {
                // SAFETY: the spans came from the receive threads through the builder, and their
                // chunks are given back only after this frame's cut has been handed back.
                let bytes = unsafe { self.pool.bytes(span.offset, span.bytes) };
                self.bytes.extend_from_slice(bytes);
            }
            self.column(jobs, stream, payload);
        }
    }

    /// Payload straight from the chunks: the one copy on the way to the disk.
    fn payload_as_it_is<T>(
        &mut self,
        jobs: &mut Jobs<T>,
        stream: &mut Stream,
        column: Column,
        cut: &ColumnCut,
    ) {
        jobs.pad_to(stream, self.layout.next_offset());
        let mut crc = Crc32c::new();
        for span in &cut.spans {
            // SAFETY: as above.
            let bytes = unsafe { self.pool.bytes(span.offset, span.bytes) };
            jobs.append_checked(stream, bytes, &mut crc);
        }
        let bytes = cut.payload_bytes;
        self.layout.push(entry(column, Codec::None, bytes, bytes, crc.finish()));
    }

    /// The column whose raw bytes are in `self.bytes`.
    fn column<T>(&mut self, jobs: &mut Jobs<T>, stream: &mut Stream, column: Column) {
        jobs.pad_to(stream, self.layout.next_offset());
        let encoded = self.encoder.encode(self.codec, &self.bytes);
        let mut crc = Crc32c::new();
        jobs.append_checked(stream, encoded.stored, &mut crc);
        let (stored, raw) = (encoded.stored.len() as u64, self.bytes.len() as u64);
        self.layout.push(entry(column, encoded.codec, stored, raw, crc.finish()));
    }

    fn set_bytes(&mut self, bytes: impl Iterator<Item = u8>) {
        self.bytes.clear();
        self.bytes.extend(bytes);
    }
}

fn entry(column: Column, codec: Codec, stored: u64, raw: u64, crc32c: u32) -> ColumnEntry {
    ColumnEntry {
        id: column.id,
        codec,
        dtype: column.dtype,
        flags: 0,
        crc32c,
        offset: 0,
        stored_bytes: stored,
        raw_bytes: raw,
        rows: column.rows,
        start_ns: 0,
        first_sample: 0,
    }
}
