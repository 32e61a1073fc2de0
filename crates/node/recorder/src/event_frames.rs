//! Frames of events: how a cut is represented in a file.

use std::sync::Arc;

use catchment_builder::Cut;
use catchment_encoder::{Ask, Coding, Rule};
use catchment_frame::{
    ColumnCoding, Dtype, EventColumns, FrameInfo, FrameKind, Schema, SourceColumns,
};
use catchment_writer::{ColumnForm, Frame, FrameColumn};

use crate::columns::{ChunkBytes, ColumnBytes};
use crate::frame_maker::FrameMaker;
use crate::pool::ChunkPool;

/// Columns of every events frame: keys, times, flags, and the ledger's increments.
const FRAME_COLUMNS: usize = 4;
/// Columns of every source: lengths, validity, payload.
const SOURCE_COLUMNS: usize = 3;

/// The most columns that a frame of events of that many sources has.
pub(crate) fn event_columns_max(source_count: usize) -> usize {
    FRAME_COLUMNS + SOURCE_COLUMNS * source_count
}

/// Makes frames of events.
pub(crate) struct EventFrames {
    schema: Arc<Schema>,
    pool: Arc<ChunkPool>,
    keys: u32,
    times: u32,
    flags: u32,
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

impl EventFrames {
    /// For the events of a schema's first sources, one for each coding. None if it has no columns
    /// of events.
    ///
    /// # Panics
    /// If the schema is not one that [`Schema::events`] made.
    pub(crate) fn new(
        schema: &Arc<Schema>,
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
                ask: Ask::new(element, Rule::of(*coding, element)),
            }
        };
        let compresses = codings.iter().any(|coding| *coding != ColumnCoding::NONE);
        Some(Self {
            schema: Arc::clone(schema),
            pool,
            keys: columns.key?,
            times: id(columns.time),
            flags: id(columns.flags),
            sources: columns.sources.iter().zip(codings).map(source).collect(),
            small: if compresses { Coding::Lz4 } else { Coding::None },
        })
    }
}

impl FrameMaker for EventFrames {
    fn source_of(&self, index: usize) -> usize {
        index
    }

    fn small_coding(&self) -> Coding {
        self.small
    }

    fn frame(&mut self, cut: &mut Cut) -> Frame<ColumnBytes> {
        let rows = cut.keys.len() as u64;
        let info = FrameInfo {
            kind: FrameKind::Events,
            time_first_ns: cut.times_ns.iter().copied().min().unwrap_or(0),
            time_last_ns: cut.times_ns.iter().copied().max().unwrap_or(0),
            key_first: cut.keys.first().copied().unwrap_or(0),
            key_last: cut.keys.last().copied().unwrap_or(0),
            rows,
            ..FrameInfo::EMPTY
        };
        let small = |id, dtype: Dtype, bytes| {
            let (form, element) = (ColumnForm::new(id, dtype, rows), dtype.element());
            FrameColumn::small(form, element, self.small, bytes)
        };
        let mut columns = Vec::with_capacity(event_columns_max(cut.columns.len()));
        columns.push(small(self.keys, Dtype::U64, ColumnBytes::of_u64(&cut.keys)));
        columns.push(small(self.times, Dtype::U64, ColumnBytes::of_u64(&cut.times_ns)));
        columns.push(small(self.flags, Dtype::U32, ColumnBytes::of_u32(&cut.flags)));
        for (index, source) in self.sources.iter().enumerate() {
            let Some(column) = cut.columns.get_mut(index).filter(|one| one.fragments > 0) else {
                continue;
            };
            let lengths = ColumnBytes::of_u32(&column.lengths);
            columns.push(small(source.lengths, Dtype::U32, lengths));
            if let Some(bits) = column.validity.take() {
                columns.push(small(source.validity, Dtype::Bits, ColumnBytes::Own(bits)));
            }
            let rows = column.payload_bytes / source.row_bytes;
            let chunks = ChunkBytes::take(index, cut, &self.pool);
            columns.push(FrameColumn {
                form: ColumnForm::new(source.payload, source.dtype, rows),
                ask: source.ask.clone(),
                is_small: false,
                bytes: ColumnBytes::Chunks(chunks),
            });
        }
        Frame { schema: Arc::clone(&self.schema), info, columns }
    }
}
