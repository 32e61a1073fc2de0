//! Frames on their way into disk buffers: what is the same for events and for channels.
//!
//! Large columns are encoded by the pool's threads, in parallel, and streamed in their order; small
//! ones are encoded here. Columns that are stored as they are go straight from the chunks to the
//! disk buffers.

use std::sync::Arc;

use catchment_builder::{Cut, Span};
use catchment_disk::FileId;
use catchment_encoder::{Coding, Column, Done, Element, EncoderPool};
use catchment_frame::{
    Codec, ColumnEncoder, ColumnEntry, Crc32c, Dtype, FrameInfo, FrameKind, FrameLayout,
    FrameSummary, encode_ledger_increment, encode_ledger_total,
};
use catchment_model::Ledger;

use crate::pool::ChunkPool;
use crate::stream::{Jobs, Stream};
use crate::trend::{Seen, Watch};

/// A frame without anything.
pub(crate) const NO_FRAME: FrameInfo = FrameInfo {
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

/// The most bytes that the header of a frame of so many columns takes.
pub(crate) fn header_bytes_max(column_count: usize) -> usize {
    FrameLayout::begin(NO_FRAME, column_count).header_space()
}

/// A frame that was streamed: as the TOC will list it.
pub(crate) struct WrittenFrame {
    pub(crate) summary: FrameSummary,
    pub(crate) entries: Vec<ColumnEntry>,
}

/// What a column is, but for its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) id: u32,
    pub(crate) dtype: Dtype,
    pub(crate) rows: u64,
    /// Channels: the first sample's number and time.
    pub(crate) first_sample: u64,
    pub(crate) start_ns: u64,
}

impl Form {
    /// A column that is no channel's.
    pub(crate) fn new(id: u32, dtype: Dtype, rows: u64) -> Self {
        Self { id, dtype, rows, first_sample: 0, start_ns: 0 }
    }

    /// The entry of such a column; its place comes later.
    pub(crate) fn entry(self, codec: Codec, sizes: (u64, u64), crc32c: u32) -> ColumnEntry {
        let (stored_bytes, raw_bytes) = sizes;
        let Self { id, dtype, rows, first_sample, start_ns } = self;
        ColumnEntry {
            id,
            codec,
            dtype,
            flags: 0,
            crc32c,
            offset: 0,
            stored_bytes,
            raw_bytes,
            rows,
            start_ns,
            first_sample,
        }
    }
}

/// The raw bytes of a column: ranges of a pool's chunks.
pub(crate) struct Raw {
    /// Which column of the cut it is.
    pub(crate) index: usize,
    pub(crate) pool: Arc<ChunkPool>,
    pub(crate) spans: Vec<Span>,
    pub(crate) bytes: usize,
    /// What the samples are watched for, if they are.
    pub(crate) watch: Option<Watch>,
}

impl Raw {
    /// A column's payload. Its spans are the raw bytes' until [`Raw::give_back`].
    pub(crate) fn take(index: usize, cut: &mut Cut, pool: &Arc<ChunkPool>) -> Self {
        let column = &mut cut.columns[index];
        let bytes = column.payload_bytes as usize;
        let spans = std::mem::take(&mut column.spans);
        Self { index, pool: Arc::clone(pool), spans, bytes, watch: None }
    }

    /// Puts the spans back, so that their chunks are freed with the cut.
    pub(crate) fn give_back(&mut self, cut: &mut Cut) {
        cut.columns[self.index].spans = std::mem::take(&mut self.spans);
    }

    fn span(&self, span: &Span) -> &[u8] {
        // SAFETY: the spans came from the receive threads through the builder, and their chunks are
        // given back only after this frame's cut has been handed back, with all its spans.
        unsafe { self.pool.bytes(span.offset, span.bytes) }
    }
}

impl Column for Raw {
    type Seen = Seen;

    fn raw_bytes(&self) -> usize {
        self.bytes
    }

    fn pieces<'a>(&'a self, take: &mut dyn FnMut(&'a [u8])) {
        for span in &self.spans {
            take(self.span(span));
        }
    }

    fn looks(&self) -> bool {
        self.watch.is_some()
    }

    fn look(&self, seen: &mut Seen, bytes: &[u8]) {
        if let Some(watch) = &self.watch {
            watch.look(seen, bytes);
        }
    }

    fn whole(&self) -> Option<&[u8]> {
        match &self.spans[..] {
            [span] => Some(self.span(span)),
            _ => None,
        }
    }
}

/// The pool's threads, as frames use them.
pub(crate) type Encoders = EncoderPool<Raw>;

/// What streaming frames needs, kept from one to the next.
pub(crate) struct FrameMemory {
    layout: FrameLayout,
    small: ColumnEncoder,
    /// The raw bytes of a small column.
    bytes: Vec<u8>,
}

/// Where a frame is streamed to.
pub(crate) struct Target<'a, T> {
    pub(crate) jobs: &'a mut Jobs<T>,
    pub(crate) file: FileId,
    pub(crate) offset: u64,
}

/// A frame that is being streamed.
pub(crate) struct FrameStream<'a, T> {
    memory: &'a mut FrameMemory,
    jobs: &'a mut Jobs<T>,
    stream: Stream,
    offset: u64,
}

impl FrameMemory {
    pub(crate) fn new() -> Self {
        let layout = FrameLayout::begin(NO_FRAME, 0);
        Self { layout, small: ColumnEncoder::new(), bytes: Vec::new() }
    }

    /// Begins a frame of at most so many columns.
    pub(crate) fn begin<'a, T>(
        &'a mut self,
        target: Target<'a, T>,
        info: FrameInfo,
        column_count: usize,
    ) -> FrameStream<'a, T> {
        self.layout.restart(info, column_count);
        let Target { jobs, file, offset } = target;
        let mut stream = jobs.begin(file, offset);
        jobs.pad_to(&mut stream, self.layout.header_space() as u64);
        FrameStream { memory: self, jobs, stream, offset }
    }
}

impl<T> FrameStream<'_, T> {
    /// A small column of these raw bytes.
    pub(crate) fn small(
        &mut self,
        form: Form,
        (coding, element): (Coding, Element),
        bytes: impl Iterator<Item = u8>,
    ) {
        self.memory.bytes.clear();
        self.memory.bytes.extend(bytes);
        self.gathered(form, (coding, element));
    }

    /// What only this frame can say, and what the ledger counted since the frame before.
    pub(crate) fn ledger(&mut self, id: u32, increment: &Ledger, own: &Ledger, coding: Coding) {
        self.memory.bytes.clear();
        encode_ledger_increment(increment, &mut self.memory.bytes);
        // Records of the same source and entry add up.
        encode_ledger_total(own, &mut self.memory.bytes);
        let records = (self.memory.bytes.len() / LEDGER_RECORD_BYTES) as u64;
        self.gathered(Form::new(id, Dtype::Record, records), (coding, Element::U8));
    }

    fn gathered(&mut self, form: Form, (coding, element): (Coding, Element)) {
        let Self { memory, jobs, stream, .. } = self;
        jobs.pad_to(stream, memory.layout.next_offset());
        let encoded = memory.small.encode(coding, element, &memory.bytes);
        let mut crc = Crc32c::new();
        jobs.append_checked(stream, encoded.stored, &mut crc);
        let sizes = (encoded.stored.len() as u64, memory.bytes.len() as u64);
        memory.layout.push(form.entry(encoded.codec, sizes, crc.finish()));
    }

    /// A column straight from the chunks: the one copy on the way to the disk.
    pub(crate) fn as_it_is(&mut self, form: Form, raw: &Raw) {
        let Self { memory, jobs, stream, .. } = self;
        jobs.pad_to(stream, memory.layout.next_offset());
        let mut crc = Crc32c::new();
        raw.pieces(&mut |piece| jobs.append_checked(stream, piece, &mut crc));
        let bytes = raw.bytes as u64;
        memory.layout.push(form.entry(Codec::None, (bytes, bytes), crc.finish()));
    }

    /// A column that the pool has encoded.
    pub(crate) fn encoded(&mut self, form: Form, done: &Done<Raw>) {
        let Self { memory, jobs, stream, .. } = self;
        jobs.pad_to(stream, memory.layout.next_offset());
        done.stored(&mut |piece| jobs.append(stream, piece));
        let sizes = (done.stored_bytes() as u64, done.column.bytes as u64);
        memory.layout.push(form.entry(done.codec, sizes, done.crc32c));
    }

    /// Ends the frame, but for the job, which the caller ends.
    pub(crate) fn finish(self) -> (Stream, WrittenFrame) {
        let Self { memory, jobs, mut stream, offset } = self;
        jobs.pad_to(&mut stream, memory.layout.frame_bytes());
        let summary = memory.layout.finish(offset, jobs.first(&mut stream));
        (stream, WrittenFrame { summary, entries: memory.layout.entries().to_vec() })
    }
}

const LEDGER_RECORD_BYTES: usize = 16;
