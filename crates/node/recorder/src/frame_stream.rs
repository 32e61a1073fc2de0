//! A frame on its way into disk buffers: what is the same for events and for channels.
//!
//! A frame is a sequence of *pieces*, its columns as they are stored. Large columns are encoded by
//! the encode agents and come in their order; small ones are encoded here. Columns that are stored
//! as they are go straight from the chunks to the disk buffers.

use std::sync::Arc;

use catchment_agent::Store;
use catchment_builder::{Cut, Span};
use catchment_encoder::{Coding, Column, Done, Element, EncoderPool, Stored};
use catchment_frame::{
    Codec, ColumnEncoder, ColumnEntry, Crc32c, Dtype, FrameInfo, FrameLayout, FrameSummary,
    encode_ledger_increment, encode_ledger_total,
};
use catchment_model::Ledger;

use crate::coding::CompressionThrottle;
use crate::jobs::{Jobs, Stream};
use crate::pool::ChunkPool;
use crate::trend::{Seen, Watch};

/// The most bytes that the header of a frame of so many columns takes.
pub(crate) fn header_bytes_max(column_count: usize) -> usize {
    FrameLayout::begin(FrameInfo::EMPTY, column_count).header_space()
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

    fn span(&self, index: usize) -> Option<&[u8]> {
        let span = self.spans.get(index)?;
        // SAFETY: the spans came from the receive agents through the builder, and their chunks are
        // given back only after this frame's cut has been handed back, with all its spans.
        Some(unsafe { self.pool.bytes(span.offset, span.bytes) })
    }
}

impl Column for Raw {
    type Seen = Seen;

    fn raw_bytes(&self) -> usize {
        self.bytes
    }

    fn pieces<'a>(&'a self, take: &mut dyn FnMut(&'a [u8])) {
        (0..).map_while(|index| self.span(index)).for_each(take);
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
        if self.spans.len() == 1 { self.span(0) } else { None }
    }
}

/// The pool of encode agents, as frames use it.
pub(crate) type Encoders = EncoderPool<Raw>;

/// A column as it is stored.
pub(crate) enum Piece {
    /// A small column of so many raw bytes, whose stored bytes are the memory's.
    Small(Form, Codec, usize),
    /// Straight from the chunks: the one copy on the way to the disk.
    AsItIs(Form, Raw),
    /// Encoded by an agent.
    Encoded(Form, Done<Raw>),
}

/// A frame that is being made: what its writer works with.
pub(crate) struct Making<'a> {
    pub(crate) memory: &'a mut FrameMemory,
    pub(crate) encoders: Option<&'a mut Encoders>,
    pub(crate) cut: &'a mut Cut,
    /// What the ledger counted since the frame before.
    pub(crate) increment: &'a Ledger,
    /// What only this frame says, entry by entry. Filled while the frame is made.
    pub(crate) own: &'a mut Ledger,
    /// How much compression there is time for.
    pub(crate) throttle: &'a mut CompressionThrottle,
}

/// What comes next of a frame.
#[expect(clippy::large_enum_variant, reason = "made once for each column, and moved at once")]
pub(crate) enum Next {
    Piece(Piece),
    /// The encode agents have it.
    Wait,
    /// Nothing: all pieces were handed out.
    End,
}

/// Makes frames of one kind, piece by piece.
pub(crate) trait ColumnWriter {
    /// The frame's next piece; the one before has been copied.
    fn next(&mut self, making: &mut Making<'_>) -> Next;

    /// A piece has been copied: what it held is given back.
    fn copied(&mut self, piece: Piece, making: &mut Making<'_>);
}

/// What streaming frames needs, kept from one to the next.
pub(crate) struct FrameMemory {
    layout: FrameLayout,
    small: ColumnEncoder,
    /// The raw bytes of a small column, and those that are stored.
    raw: Vec<u8>,
    stored: Vec<u8>,
}

impl FrameMemory {
    pub(crate) fn new() -> Self {
        let layout = FrameLayout::begin(FrameInfo::EMPTY, 0);
        Self { layout, small: ColumnEncoder::new(), raw: Vec::new(), stored: Vec::new() }
    }

    /// A small column of these raw bytes.
    pub(crate) fn small(
        &mut self,
        form: Form,
        coding: Coding,
        element: Element,
        bytes: impl Iterator<Item = u8>,
    ) -> Piece {
        self.raw.clear();
        self.raw.extend(bytes);
        self.gathered(form, coding, element)
    }

    /// What only this frame can say, and what the ledger counted since the frame before.
    pub(crate) fn ledger(
        &mut self,
        id: u32,
        increment: &Ledger,
        own: &Ledger,
        coding: Coding,
    ) -> Piece {
        self.raw.clear();
        encode_ledger_increment(increment, &mut self.raw);
        // Records of the same source and entry add up.
        encode_ledger_total(own, &mut self.raw);
        let records = (self.raw.len() / LEDGER_RECORD_BYTES) as u64;
        self.gathered(Form::new(id, Dtype::Record, records), coding, Element::U8)
    }

    fn gathered(&mut self, form: Form, coding: Coding, element: Element) -> Piece {
        let raw_bytes = self.raw.len();
        let encoded = self.small.encode(coding, element, &self.raw);
        let codec = encoded.codec;
        if codec == Codec::None {
            std::mem::swap(&mut self.raw, &mut self.stored);
        } else {
            self.stored.clear();
            self.stored.extend_from_slice(encoded.stored);
        }
        Piece::Small(form, codec, raw_bytes)
    }
}

/// A frame that is being streamed.
pub(crate) struct FrameStream<B> {
    stream: Stream<B>,
    offset: u64,
    /// The piece that is being copied, and how far: which part of its bytes, and where in it.
    piece: Option<Piece>,
    part: usize,
    at: usize,
    /// Of what was copied of a piece that no agent has encoded.
    crc: Crc32c,
}

impl<B: std::ops::DerefMut<Target = [u8]> + Send> FrameStream<B> {
    /// Begins a frame of at most so many columns, which is streamed to that offset of a file.
    pub(crate) fn begin(
        memory: &mut FrameMemory,
        stream: Stream<B>,
        offset: u64,
        info: FrameInfo,
        column_count: usize,
    ) -> Self {
        memory.layout.restart(info, column_count);
        Self { stream, offset, piece: None, part: 0, at: 0, crc: Crc32c::new() }
    }

    /// Whether the next piece can be put in.
    pub(crate) fn is_free(&self) -> bool {
        self.piece.is_none()
    }

    /// Puts the next piece in.
    pub(crate) fn put(&mut self, piece: Piece) {
        assert!(self.piece.is_none(), "the piece before is copied");
        (self.piece, self.part, self.at) = (Some(piece), 0, 0);
        self.crc = Crc32c::new();
    }

    /// Copies the piece into buffers, as far as there are any and the budget of bytes lasts.
    /// Returns it when it is copied.
    pub(crate) fn copy<S: Store<Buffer = B>, K>(
        &mut self,
        memory: &mut FrameMemory,
        jobs: &mut Jobs<S, K>,
        budget: &mut usize,
    ) -> Option<Piece> {
        let Self { stream, piece, part, at, crc, .. } = self;
        if !jobs.pad_to(stream, memory.layout.next_offset()) {
            return None;
        }
        while let Some(bytes) = piece.as_ref()?.part(*part, memory) {
            let rest = &bytes[*at..];
            let now = &rest[..rest.len().min(*budget)];
            let copied = match piece {
                Some(Piece::Encoded(..)) => jobs.append(stream, now),
                _ => jobs.append_checked(stream, now, crc),
            };
            *budget -= copied;
            *at += copied;
            if copied < rest.len() {
                return None;
            }
            (*part, *at) = (*part + 1, 0);
        }
        let piece = piece.take()?;
        memory.layout.push(piece.entry(memory, crc));
        Some(piece)
    }

    /// Fills the frame's last block and its header; none where there is no buffer for that yet.
    pub(crate) fn close<S: Store<Buffer = B>, K>(
        &mut self,
        memory: &mut FrameMemory,
        jobs: &mut Jobs<S, K>,
    ) -> Option<WrittenFrame> {
        if !jobs.pad_to(&mut self.stream, memory.layout.frame_bytes()) {
            return None;
        }
        let summary = memory.layout.finish(self.offset, jobs.first(&mut self.stream));
        Some(WrittenFrame { summary, entries: memory.layout.entries().to_vec() })
    }

    /// The job's stream, when the frame is closed.
    pub(crate) fn into_stream(self) -> Stream<B> {
        self.stream
    }
}

impl Piece {
    /// Its stored bytes, part by part.
    fn part<'a>(&'a self, index: usize, memory: &'a FrameMemory) -> Option<&'a [u8]> {
        match self {
            Self::Small(..) => (index == 0).then_some(&memory.stored[..]),
            Self::AsItIs(_, raw) => raw.span(index),
            Self::Encoded(_, done) => match &done.stored {
                Stored::Raw => done.column.span(index),
                Stored::Encoded(bytes) => (index == 0).then_some(&bytes[..]),
            },
        }
    }

    /// The column's entry in the frame's directory, but for its offset. `crc` is that of a piece
    /// that no agent has encoded.
    fn entry(&self, memory: &FrameMemory, crc: &Crc32c) -> ColumnEntry {
        let (form, codec, stored_bytes, raw_bytes, crc32c) = match self {
            Self::Small(form, codec, raw_bytes) => {
                (form, *codec, memory.stored.len(), *raw_bytes, crc.finish())
            }
            Self::AsItIs(form, raw) => (form, Codec::None, raw.bytes, raw.bytes, crc.finish()),
            Self::Encoded(form, done) => {
                (form, done.codec, done.stored_bytes(), done.column.bytes, done.crc32c)
            }
        };
        let Form { id, dtype, rows, first_sample, start_ns } = *form;
        ColumnEntry {
            id,
            codec,
            dtype,
            flags: 0,
            crc32c,
            offset: 0,
            stored_bytes: stored_bytes as u64,
            raw_bytes: raw_bytes as u64,
            rows,
            start_ns,
            first_sample,
        }
    }
}

const LEDGER_RECORD_BYTES: usize = 16;
