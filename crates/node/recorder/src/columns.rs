//! The columns of one frame of events.

use std::sync::Arc;

use catchment_builder::Cut;
use catchment_encoder::{Ask, Coding, Element, Level};
use catchment_frame::{ColumnCoding, Dtype, EventColumns, FrameInfo, Schema, SourceColumns};
use catchment_model::{Entry, Ledger};

use crate::coding::{Lowering, rule_for};
use crate::frames::{Encoders, Form, FrameMemory, FrameStream, Raw, Target, WrittenFrame};
use crate::pool::ChunkPool;
use crate::stream::Stream;

/// Columns of every events frame: keys, times, flags, and the ledger's increments.
const FRAME_COLUMNS: usize = 4;
/// Columns of every source: lengths, validity, payload.
const SOURCE_COLUMNS: usize = 3;

/// The most columns that a frame of events of that many sources has.
pub(crate) fn event_columns_max(source_count: usize) -> usize {
    FRAME_COLUMNS + SOURCE_COLUMNS * source_count
}

/// What a frame says beside its rows.
pub(crate) struct Books<'a> {
    /// What the ledger counted since the frame before.
    pub(crate) increment: &'a Ledger,
    /// What only this frame says, entry by entry. Filled while the frame is streamed.
    pub(crate) own: &'a mut Ledger,
    /// How much compression there is time for.
    pub(crate) lowering: &'a mut Lowering,
}

/// Streams frames of events.
pub(crate) struct EventWriter {
    pool: Arc<ChunkPool>,
    keys: u32,
    times: u32,
    flags: u32,
    ledger: u32,
    sources: Vec<Source>,
    /// How small columns are encoded.
    small: Coding,
}

struct Source {
    lengths: u32,
    validity: u32,
    payload: u32,
    dtype: Dtype,
    /// Bytes of a row of payload.
    row_bytes: u64,
    ask: Ask,
}

impl EventWriter {
    /// For the events of the first so many sources of a schema. None if it has no columns of
    /// events.
    ///
    /// # Panics
    /// If the schema is not one that [`Schema::events`] made.
    pub(crate) fn new(
        schema: &Schema,
        pool: Arc<ChunkPool>,
        codings: &[ColumnCoding],
    ) -> Option<Self> {
        let columns = EventColumns::of(schema);
        let id = |id: Option<u32>| id.expect("a column of every schema of events");
        let source = |(source, coding): (&SourceColumns, &ColumnCoding)| {
            let payload = id(source.payload);
            let info = schema.columns.iter().find(|column| column.id == payload);
            let info = info.expect("a column of the schema");
            let element = info.dtype.element();
            Source {
                lengths: id(source.lengths),
                validity: id(source.validity),
                payload,
                dtype: info.dtype,
                row_bytes: info.row_bytes().unwrap_or(1).max(1),
                ask: Ask { element, rule: rule_for(*coding, element), level: Level::AsAsked },
            }
        };
        let compresses = codings.iter().any(|coding| *coding != ColumnCoding::NONE);
        Some(Self {
            pool,
            keys: columns.key?,
            times: id(columns.time),
            flags: id(columns.flags),
            ledger: id(columns.ledger_increment),
            sources: columns.sources.iter().zip(codings).map(source).collect(),
            small: if compresses { Coding::Lz4 } else { Coding::None },
        })
    }

    /// Streams a frame. The caller ends the job.
    pub(crate) fn write<T>(
        &self,
        (memory, encoders): (&mut FrameMemory, Option<&mut Encoders>),
        target: Target<'_, T>,
        (info, cut): (FrameInfo, &mut Cut),
        mut books: Books<'_>,
    ) -> (Stream, WrittenFrame) {
        let with_data = cut.columns.iter().filter(|column| column.fragments > 0).count();
        let rows = info.rows;
        let mut frame = memory.begin(target, info, event_columns_max(with_data));
        let keys = cut.keys.iter().flat_map(|key| key.to_le_bytes());
        frame.small(Form::new(self.keys, Dtype::U64, rows), (self.small, Element::U64), keys);
        let times = cut.times_ns.iter().flat_map(|time| time.to_le_bytes());
        frame.small(Form::new(self.times, Dtype::U64, rows), (self.small, Element::U64), times);
        let flags = cut.flags.iter().flat_map(|flags| flags.to_le_bytes());
        frame.small(Form::new(self.flags, Dtype::U32, rows), (self.small, Element::U32), flags);
        self.payloads(&mut frame, encoders, cut, &mut books);
        // Last, since it says what became of the columns before it.
        frame.ledger(self.ledger, books.increment, books.own, self.small);
        frame.finish()
    }

    fn payloads<T>(
        &self,
        frame: &mut FrameStream<'_, T>,
        encoders: Option<&mut Encoders>,
        cut: &mut Cut,
        books: &mut Books<'_>,
    ) {
        let pool = &self.pool;
        let Some(encoders) = encoders else {
            for index in 0..cut.columns.len() {
                if cut.columns[index].fragments > 0 {
                    self.lengths(frame, cut, index);
                    let mut raw = Raw::take(index, cut, pool);
                    frame.as_it_is(self.sources[index].form(raw.bytes as u64), &raw);
                    raw.give_back(cut);
                }
            }
            return;
        };
        for index in 0..cut.columns.len() {
            if cut.columns[index].fragments > 0 {
                let raw = Raw::take(index, cut, pool);
                while !encoders.has_room(raw.bytes) {
                    self.land(frame, encoders, cut, books);
                }
                match books.lowering.level() {
                    Level::None => self.raw(frame, encoders, cut, (raw, books)),
                    level => encoders.put(raw, Ask { level, ..self.sources[index].ask.clone() }),
                }
            }
        }
        while encoders.under_way() > 0 {
            self.land(frame, encoders, cut, books);
        }
    }

    /// Streams a column that there is no time to compress, as it would be where nothing is: the
    /// threads that encode go behind other programs, and this one does not wait for them.
    fn raw<T>(
        &self,
        frame: &mut FrameStream<'_, T>,
        encoders: &mut Encoders,
        cut: &mut Cut,
        (mut raw, books): (Raw, &mut Books<'_>),
    ) {
        while encoders.under_way() > 0 {
            self.land(frame, encoders, cut, books);
        }
        let (source, bytes) = (&self.sources[raw.index], raw.bytes as u64);
        self.lengths(frame, cut, raw.index);
        frame.as_it_is(source.form(bytes), &raw);
        if source.ask.compresses() {
            books.own.sources[raw.index][Entry::BytesCompressionLowered] += bytes;
        }
        raw.give_back(cut);
    }

    /// Streams the oldest column of the pool, and what belongs before it.
    fn land<T>(
        &self,
        frame: &mut FrameStream<'_, T>,
        encoders: &mut Encoders,
        cut: &mut Cut,
        books: &mut Books<'_>,
    ) {
        let Some(mut done) = encoders.take() else { return };
        let index = done.column.index;
        self.lengths(frame, cut, index);
        let bytes = done.column.bytes as u64;
        frame.encoded(self.sources[index].form(bytes), &done);
        if done.lowered {
            books.own.sources[index][Entry::BytesCompressionLowered] += bytes;
        }
        done.column.give_back(cut);
        encoders.give_back(done.stored);
    }

    fn lengths<T>(&self, frame: &mut FrameStream<'_, T>, cut: &Cut, index: usize) {
        let (source, column) = (&self.sources[index], &cut.columns[index]);
        let rows = column.lengths.len() as u64;
        let lengths = column.lengths.iter().flat_map(|length| length.to_le_bytes());
        let form = Form::new(source.lengths, Dtype::U32, rows);
        frame.small(form, (self.small, Element::U32), lengths);
        if let Some(bits) = &column.validity {
            let form = Form::new(source.validity, Dtype::Bits, rows);
            frame.small(form, (self.small, Element::U8), bits.iter().copied());
        }
    }
}

impl Source {
    fn form(&self, bytes: u64) -> Form {
        Form::new(self.payload, self.dtype, bytes / self.row_bytes)
    }
}
