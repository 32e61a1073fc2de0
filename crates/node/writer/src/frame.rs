//! Frames that own their columns, and their one maker.
//!
//! Which columns a frame has, in which order, with which rows and ranges, is decided here for all
//! that write frames: a recorder gives ranges of its chunks as payload, and converters and trends
//! give buffers, or bytes yet to be made. Nothing but lengths, keys and flags is copied.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use catchment_codec::Coding;
use catchment_encoder::{Ask, Column, Element, Rule};
use catchment_frame::{
    ColumnCoding, ColumnInfo, ColumnKind, Dtype, EventColumns, FrameInfo, FrameKind, HOLE_BYTES,
    Hole, PIECE_BYTES, Position, Schema, Span, encode_holes, encode_ledger_increment,
    encode_ledger_total, encode_pieces, encode_positions, encode_spans,
};
use catchment_model::{Ledger, Piece, SourceId};

/// Columns of a frame beside those of sources: keys, times, flags, the ledger's increments,
/// positions of sources.
const EVENT_COLUMNS: usize = 5;
/// Columns of every source: lengths, validity, payload, holes, times, pieces, and whether it is
/// expected.
const SOURCE_COLUMNS: usize = 7;
/// Columns of a frame beside the channels: gaps, the ledger's increments, positions of sources.
const CHANNEL_COLUMNS: usize = 3;
/// Bytes of a ledger's record, and of a gap's.
const LEDGER_RECORD_BYTES: usize = 16;
const SPAN_BYTES: usize = 24;

/// Consecutive rows on their way into a file. `C` holds the raw bytes of a column.
#[derive(Debug)]
pub struct Frame<C> {
    /// Its header. File and number are set when it is written.
    pub info: FrameInfo,
    /// In the order in which they are written.
    pub columns: Vec<FrameColumn<C>>,
}

/// One column of a [`Frame`].
#[derive(Debug)]
pub struct FrameColumn<C> {
    /// Its directory entry, except for its bytes.
    pub form: ColumnForm,
    /// How it is encoded.
    pub ask: Ask,
    /// Whether it is so small that the frame's writer encodes it, and not an agent.
    pub is_small: bool,
    /// Its raw bytes.
    pub bytes: C,
}

/// The part of a column's directory entry that does not depend on its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnForm {
    /// Its id in the schema.
    pub id: u32,
    /// Type of its elements.
    pub dtype: Dtype,
    /// Its rows.
    pub rows: u64,
    /// Of a channel: the first sample's number.
    pub first_sample: u64,
    /// Of a channel: the first sample's time, in nanoseconds of its time scale.
    pub start_ns: u64,
    /// Whether another column of the frame says which of its values are none.
    pub is_qualified: bool,
}

impl ColumnForm {
    /// A column that is not a channel's.
    pub fn new(id: u32, dtype: Dtype, rows: u64) -> Self {
        Self { id, dtype, rows, first_sample: 0, start_ns: 0, is_qualified: false }
    }
}

impl<C> FrameColumn<C> {
    /// A column of few bytes.
    pub fn small(form: ColumnForm, element: Element, coding: Coding, bytes: C) -> Self {
        Self { form, ask: Ask::new(element, Rule::Fixed(coding)), is_small: true, bytes }
    }
}

/// Built events, as in a frame. `C` holds the payload of a source.
#[derive(Debug)]
pub struct EventFrame<'a, C> {
    /// Keys of the events.
    pub keys: &'a [u64],
    /// Their times: nanoseconds UTC.
    pub times_ns: &'a [u64],
    /// Their flags.
    pub flags: &'a [u32],
    /// The sources that have a fragment here, or are not expected in all events.
    pub sources: Vec<EventSource<'a, C>>,
    /// Ledger counts besides those that follow from the frame itself.
    pub increments: Option<&'a Ledger>,
}

/// One source's fragments in a frame.
#[derive(Debug)]
pub struct EventSource<'a, C> {
    /// The source.
    pub source: SourceId,
    /// Bytes of each row's fragment; empty if the source has none.
    pub lengths: &'a [u32],
    /// Which rows have one, one bit each; `None`: all.
    pub validity: Option<Cow<'a, [u8]>>,
    /// In which rows it is expected, one bit each; `None`: in all, or a sparse source.
    pub expected: Option<Cow<'a, [u8]>>,
    /// What is missing of the fragments, in order: zeros in the payload.
    pub holes: &'a [Hole],
    /// Each row's own time in ns, 0 where its fragment is missing; empty: not known.
    pub times: &'a [u64],
    /// The fragments of rows that have several, in order.
    pub pieces: &'a [Piece],
    /// The fragments, one after another.
    pub payload: C,
}

/// Channels of one interval of time. `C` holds the samples of a channel.
#[derive(Debug)]
pub struct ChannelFrame<'a, C> {
    /// The start of the interval: nanoseconds in the channels' time scale.
    pub start_ns: u64,
    /// Its end: the first nanosecond after it.
    pub end_ns: u64,
    /// The channels that have samples in it.
    pub columns: Vec<ChannelColumn<'a, C>>,
    /// Numbers of the first and last slice, if a link delivered it; otherwise 0.
    pub keys: (u64, u64),
    /// All ledger counts: none follow from a frame of channels itself.
    pub increments: Option<&'a Ledger>,
}

/// One channel's samples in a frame.
#[derive(Debug)]
pub struct ChannelColumn<'a, C> {
    /// The channel's column.
    pub id: u32,
    /// The number of the first sample.
    pub first_sample: u64,
    /// Where samples continue after a gap; empty if there is none.
    pub spans: &'a [Span],
    /// The samples, those of all pieces one after another.
    pub samples: C,
}

/// A frame has a column that its schema does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the schema has no column {column}")]
pub struct NoColumn {
    /// Its kind, or its id.
    pub column: String,
}

/// Makes the frames of a schema.
#[derive(Debug)]
pub struct FrameMaker {
    schema: Arc<Schema>,
    ids: EventColumns,
    spans: Option<u32>,
    /// By id.
    columns: BTreeMap<u32, Known>,
}

/// A column of the schema, and how it is encoded.
#[derive(Debug)]
struct Known {
    index: usize,
    ask: Ask,
    is_small: bool,
}

impl FrameMaker {
    /// For the frames of a schema whose columns are encoded as `coding` has it; with
    /// `encodes_small`, all but payload and samples by the frame's writer.
    pub fn new(
        schema: &Arc<Schema>,
        encodes_small: bool,
        coding: impl Fn(&ColumnInfo) -> ColumnCoding,
    ) -> Self {
        let known = |(index, info): (usize, &ColumnInfo)| {
            let is_data = matches!(info.kind, ColumnKind::FragmentPayload | ColumnKind::Channel);
            let ask = ask_of(info, coding(info));
            (info.id, Known { index, ask, is_small: encodes_small && !is_data })
        };
        Self {
            schema: Arc::clone(schema),
            ids: EventColumns::of(schema),
            spans: schema.column(None, &ColumnKind::ChannelSpans),
            columns: schema.columns.iter().enumerate().map(known).collect(),
        }
    }

    /// The most columns that a frame has, of events of that many sources or of that many channels.
    pub fn columns_max(source_count: usize, channel_count: usize) -> usize {
        let events = EVENT_COLUMNS + SOURCE_COLUMNS * source_count;
        events.max(CHANNEL_COLUMNS + channel_count)
    }

    /// The schema.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// A column of the schema.
    ///
    /// # Errors
    /// The schema does not have it.
    pub fn column(&self, id: u32) -> Result<&ColumnInfo, NoColumn> {
        Ok(&self.schema.columns[self.known(id)?.index])
    }

    /// Changes how a column is encoded from now on.
    pub fn set_coding(&mut self, id: u32, coding: ColumnCoding) {
        if let Some(known) = self.columns.get_mut(&id) {
            known.ask = ask_of(&self.schema.columns[known.index], coding);
        }
    }

    /// Makes `auto` choose the codings of channels again: a file has one for each channel, as far
    /// as the data permit.
    pub fn begin_file(&self) {
        for Known { index, ask, .. } in self.columns.values() {
            if let (ColumnKind::Channel, Rule::Auto(state)) =
                (&self.schema.columns[*index].kind, &ask.rule)
            {
                state.begin_file();
            }
        }
    }

    /// Makes a frame of events.
    ///
    /// # Errors
    /// The schema has no such columns.
    ///
    /// # Panics
    /// The schema has no such source.
    pub fn events<C: Column + From<Vec<u8>>>(
        &self,
        frame: EventFrame<'_, impl Into<C>>,
    ) -> Result<Frame<C>, NoColumn> {
        let EventFrame { keys, times_ns, flags, sources, increments } = frame;
        let (ids, rows) = (&self.ids, keys.len() as u64);
        let mut columns = Vec::with_capacity(EVENT_COLUMNS + SOURCE_COLUMNS * sources.len());
        if rows > 0 {
            let [keys, times_ns] = [keys, times_ns].map(|all| bytes_of(all, u64::to_le_bytes));
            let flags = bytes_of(flags, u32::to_le_bytes);
            columns.push(self.plain(ids.key, &ColumnKind::EventKey, rows, keys)?);
            columns.push(self.plain(ids.time, &ColumnKind::EventTime, rows, times_ns)?);
            columns.push(self.plain(ids.flags, &ColumnKind::EventFlags, rows, flags)?);
        }
        let mut records = Vec::new();
        increments.into_iter().for_each(|counts| encode_ledger_increment(counts, &mut records));
        columns.extend(self.increments(records)?);
        for EventSource { source, lengths, validity, expected, holes, times, pieces, payload } in
            sources
        {
            let (ids, lengths) = (ids.sources[source.index()], bytes_of(lengths, u32::to_le_bytes));
            if let Some(bits) = expected {
                let kind = ColumnKind::FragmentExpected;
                columns.push(self.plain(ids.expected, &kind, rows, bits.into_owned())?);
            }
            if lengths.is_empty() {
                continue;
            }
            columns.push(self.plain(ids.lengths, &ColumnKind::FragmentLengths, rows, lengths)?);
            if let Some(bits) = validity {
                let kind = ColumnKind::FragmentValidity;
                columns.push(self.plain(ids.validity, &kind, rows, bits.into_owned())?);
            }
            if !times.is_empty() {
                let times = bytes_of(times, u64::to_le_bytes);
                columns.push(self.plain(ids.times, &ColumnKind::FragmentTime, rows, times)?);
            }
            if !pieces.is_empty() {
                let (mut records, count) = (Vec::new(), pieces.len() as u64);
                encode_pieces(pieces, &mut records);
                columns.push(self.plain(
                    ids.pieces,
                    &ColumnKind::FragmentPieces,
                    count,
                    records,
                )?);
            }
            if !holes.is_empty() {
                let (mut records, count) = (Vec::new(), holes.len() as u64);
                encode_holes(holes, &mut records);
                columns.push(self.plain(ids.holes, &ColumnKind::FragmentHoles, count, records)?);
            }
            let payload: C = payload.into();
            if payload.raw_bytes() > 0 {
                let id = present(ids.payload, &ColumnKind::FragmentPayload)?;
                let mut column = self.rows(id, payload)?;
                column.form.is_qualified = !holes.is_empty();
                columns.push(column);
            }
        }
        let info = FrameInfo {
            kind: FrameKind::Events,
            time_first_ns: times_ns.iter().copied().min().unwrap_or(0),
            time_last_ns: times_ns.iter().copied().max().unwrap_or(0),
            key_first: keys.iter().copied().min().unwrap_or(0),
            key_last: keys.iter().copied().max().unwrap_or(0),
            rows,
            ..FrameInfo::EMPTY
        };
        Ok(Frame { info, columns })
    }

    /// Makes a frame of channels.
    ///
    /// # Errors
    /// The schema has no such columns.
    pub fn channels<C: Column + From<Vec<u8>>>(
        &self,
        frame: ChannelFrame<'_, impl Into<C>>,
    ) -> Result<Frame<C>, NoColumn> {
        let (mut records, mut spans) = (Vec::new(), Vec::new());
        frame.increments.into_iter().for_each(|counts| encode_ledger_total(counts, &mut records));
        let with_gaps = frame.columns.iter().filter(|column| !column.spans.is_empty());
        let mut with_gaps: Vec<_> = with_gaps.map(|column| (column.id, column.spans)).collect();
        with_gaps.sort_by_key(|(id, _)| *id);
        with_gaps.into_iter().for_each(|(id, gaps)| encode_spans(id, gaps, &mut spans));
        let mut columns = Vec::with_capacity(CHANNEL_COLUMNS + frame.columns.len());
        columns.extend(self.increments(records)?);
        if !spans.is_empty() {
            let rows = (spans.len() / SPAN_BYTES) as u64;
            columns.push(self.plain(self.spans, &ColumnKind::ChannelSpans, rows, spans)?);
        }
        let mut info = FrameInfo { kind: FrameKind::Channels, ..FrameInfo::EMPTY };
        for ChannelColumn { id, first_sample, samples, .. } in frame.columns {
            let mut column = self.rows(id, samples.into())?;
            let rate = self.column(id)?.rate;
            column.form.first_sample = first_sample;
            column.form.start_ns = rate.map_or(0, |rate| rate.time_ns(first_sample));
            info.rows += column.form.rows;
            columns.extend((column.form.rows > 0).then_some(column));
        }
        if info.rows > 0 {
            (info.time_first_ns, info.time_last_ns) = (frame.start_ns, frame.end_ns);
            (info.key_first, info.key_last) = frame.keys;
        }
        Ok(Frame { info, columns })
    }

    /// The column of the ledger's counts, if there are any.
    fn increments<C: From<Vec<u8>>>(
        &self,
        records: Vec<u8>,
    ) -> Result<Option<FrameColumn<C>>, NoColumn> {
        let rows = (records.len() / LEDGER_RECORD_BYTES) as u64;
        let (id, kind) = (self.ids.ledger_increment, ColumnKind::LedgerIncrement);
        (rows > 0).then(|| self.plain(id, &kind, rows, records)).transpose()
    }

    /// A column of the frame itself.
    fn plain<C: From<Vec<u8>>>(
        &self,
        id: Option<u32>,
        kind: &ColumnKind,
        rows: u64,
        bytes: Vec<u8>,
    ) -> Result<FrameColumn<C>, NoColumn> {
        self.encoded(present(id, kind)?, rows, bytes.into())
    }

    /// A column of payload or samples: its whole rows are counted, and all its bytes are kept.
    fn rows<C: Column>(&self, id: u32, bytes: C) -> Result<FrameColumn<C>, NoColumn> {
        let row_bytes = self.column(id)?.row_bytes().unwrap_or(1).max(1);
        self.encoded(id, bytes.raw_bytes() as u64 / row_bytes, bytes)
    }

    fn encoded<C>(&self, id: u32, rows: u64, bytes: C) -> Result<FrameColumn<C>, NoColumn> {
        let &Known { index, ref ask, is_small } = self.known(id)?;
        let form = ColumnForm::new(id, self.schema.columns[index].dtype, rows);
        Ok(FrameColumn { form, ask: ask.clone(), is_small, bytes })
    }

    fn known(&self, id: u32) -> Result<&Known, NoColumn> {
        self.columns.get(&id).ok_or_else(|| NoColumn { column: id.to_string() })
    }
}

/// The column with that id that holds the ledger's counts since the frame before, and the counts
/// that only this frame knows: records of the same source and entry add up.
pub fn ledger_column(id: u32, increment: &Ledger, own: &Ledger) -> (ColumnForm, Vec<u8>) {
    let mut records = Vec::new();
    encode_ledger_increment(increment, &mut records);
    encode_ledger_total(own, &mut records);
    let rows = (records.len() / LEDGER_RECORD_BYTES) as u64;
    (ColumnForm::new(id, Dtype::Record, rows), records)
}

/// The column with that id that holds the positions of sources.
pub fn position_column(id: u32, positions: &[Position]) -> (ColumnForm, Vec<u8>) {
    let mut records = Vec::new();
    encode_positions(positions, &mut records);
    (ColumnForm::new(id, Dtype::Record, positions.len() as u64), records)
}

fn present(id: Option<u32>, kind: &ColumnKind) -> Result<u32, NoColumn> {
    id.ok_or_else(|| NoColumn { column: kind.name().to_owned() })
}

fn ask_of(info: &ColumnInfo, coding: ColumnCoding) -> Ask {
    let element = match info.kind {
        ColumnKind::LedgerIncrement => Element::record(LEDGER_RECORD_BYTES),
        ColumnKind::ChannelSpans => Element::record(SPAN_BYTES),
        ColumnKind::FragmentHoles => Element::record(HOLE_BYTES),
        ColumnKind::FragmentPieces => Element::record(PIECE_BYTES),
        _ => info.element(),
    };
    Ask::new(element, Rule::of(coding, element))
}

/// The bytes of numbers, as in a file: `encode` is `to_le_bytes` of their type.
fn bytes_of<T: Copy, const BYTES: usize>(numbers: &[T], encode: fn(T) -> [u8; BYTES]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size_of_val(numbers));
    numbers.iter().for_each(|&number| bytes.extend_from_slice(&encode(number)));
    bytes
}
