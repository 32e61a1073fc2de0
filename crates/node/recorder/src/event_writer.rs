//! The columns of one frame of events, piece by piece.

use std::sync::Arc;

use catchment_encoder::{Ask, Coding, Done, Element, Level};
use catchment_frame::{ColumnCoding, Dtype, EventColumns, Schema, SourceColumns};
use catchment_model::Entry;

use crate::coding::rule_for;
use crate::frame_stream::{ColumnWriter, Form, Making, Next, Piece, Raw};
use crate::pool::ChunkPool;

/// Columns of every events frame: keys, times, flags, and the ledger's increments.
const FRAME_COLUMNS: usize = 4;
/// Columns of every source: lengths, validity, payload.
const SOURCE_COLUMNS: usize = 3;

/// The most columns that a frame of events of that many sources has.
pub(crate) fn event_columns_max(source_count: usize) -> usize {
    FRAME_COLUMNS + SOURCE_COLUMNS * source_count
}

/// Makes frames of events, piece by piece.
pub(crate) struct EventWriter {
    pool: Arc<ChunkPool>,
    keys: u32,
    times: u32,
    flags: u32,
    ledger: u32,
    sources: Vec<Source>,
    /// How small columns are encoded.
    small: Coding,
    // Of the frame that is being made.
    step: Step,
    /// The next column that is to be encoded.
    next: usize,
    /// Payload that follows when what belongs before it has been handed out.
    payload: Option<Payload>,
}

/// How far a frame is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Keys,
    Times,
    Flags,
    Columns,
    Lengths(usize),
    Validity(usize),
    Payload,
    End,
}

enum Payload {
    AsItIs(Raw),
    Encoded(Done<Raw>),
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
            step: Step::Keys,
            next: 0,
            payload: None,
        })
    }

    /// Begins a frame.
    pub(crate) fn begin(&mut self) {
        (self.step, self.next) = (Step::Keys, 0);
        assert!(self.payload.is_none(), "the frame before was made to its end");
    }

    /// The next column whose payload is ready: as many others as there is room for are given to the
    /// encode agents. None where these have it, or there is no other column.
    fn next_column(&mut self, making: &mut Making<'_>) -> Option<(usize, Payload)> {
        let Making { encoders, cut, own, throttle, .. } = making;
        while let Some(column) = cut.columns.get(self.next) {
            let (index, bytes) = (self.next, column.payload_bytes);
            if column.fragments == 0 {
                self.next += 1;
                continue;
            }
            let level = match encoders {
                Some(encoders) if !encoders.has_room(bytes as usize) => break,
                Some(_) => throttle.level(),
                None => Level::None,
            };
            match encoders {
                Some(encoders) if level != Level::None => {
                    self.next += 1;
                    let ask = Ask { level, ..self.sources[index].ask.clone() };
                    encoders.put(Raw::take(index, cut, &self.pool), ask);
                }
                // Columns go in their order.
                Some(encoders) if encoders.under_way() > 0 => break,
                // A column that there is no time to compress is streamed as it would be where
                // nothing is: the encode agents go behind other programs, and are not waited for.
                _ => {
                    self.next += 1;
                    if encoders.is_some() && self.sources[index].ask.compresses() {
                        own.sources[index][Entry::BytesCompressionLowered] += bytes;
                    }
                    return Some((index, Payload::AsItIs(Raw::take(index, cut, &self.pool))));
                }
            }
        }
        let done = encoders.as_mut()?.take()?;
        let index = done.column.index;
        if done.lowered {
            own.sources[index][Entry::BytesCompressionLowered] += done.column.bytes as u64;
        }
        Some((index, Payload::Encoded(done)))
    }
}

impl ColumnWriter for EventWriter {
    fn next(&mut self, making: &mut Making<'_>) -> Next {
        let rows = making.cut.keys.len() as u64;
        loop {
            let Making { memory, cut, .. } = &mut *making;
            let (step, piece) = match self.step {
                Step::Keys => {
                    let bytes = cut.keys.iter().flat_map(|key| key.to_le_bytes());
                    let form = Form::new(self.keys, Dtype::U64, rows);
                    (Step::Times, memory.small(form, self.small, Element::U64, bytes))
                }
                Step::Times => {
                    let bytes = cut.times_ns.iter().flat_map(|time| time.to_le_bytes());
                    let form = Form::new(self.times, Dtype::U64, rows);
                    (Step::Flags, memory.small(form, self.small, Element::U64, bytes))
                }
                Step::Flags => {
                    let bytes = cut.flags.iter().flat_map(|flags| flags.to_le_bytes());
                    let form = Form::new(self.flags, Dtype::U32, rows);
                    (Step::Columns, memory.small(form, self.small, Element::U32, bytes))
                }
                Step::Columns => match self.next_column(making) {
                    Some((index, payload)) => {
                        (self.step, self.payload) = (Step::Lengths(index), Some(payload));
                        continue;
                    }
                    None if making.encoders.as_ref().is_some_and(|pool| pool.under_way() > 0) => {
                        return Next::Wait;
                    }
                    None => {
                        // Last, since it says what became of the columns before it.
                        let Making { memory, increment, own, .. } = making;
                        (Step::End, memory.ledger(self.ledger, increment, own, self.small))
                    }
                },
                Step::Lengths(index) => {
                    let lengths = &cut.columns[index].lengths;
                    let bytes = lengths.iter().flat_map(|length| length.to_le_bytes());
                    let form =
                        Form::new(self.sources[index].lengths, Dtype::U32, lengths.len() as u64);
                    let piece = memory.small(form, self.small, Element::U32, bytes);
                    (Step::Validity(index), piece)
                }
                Step::Validity(index) => {
                    let column = &cut.columns[index];
                    let Some(bits) = &column.validity else {
                        self.step = Step::Payload;
                        continue;
                    };
                    let rows = column.lengths.len() as u64;
                    let form = Form::new(self.sources[index].validity, Dtype::Bits, rows);
                    let bytes = bits.iter().copied();
                    (Step::Payload, memory.small(form, self.small, Element::U8, bytes))
                }
                Step::Payload => {
                    let piece = match self.payload.take().expect("a column's payload") {
                        Payload::AsItIs(raw) => {
                            Piece::AsItIs(self.sources[raw.index].form(raw.bytes as u64), raw)
                        }
                        Payload::Encoded(done) => {
                            let (index, bytes) = (done.column.index, done.column.bytes as u64);
                            Piece::Encoded(self.sources[index].form(bytes), done)
                        }
                    };
                    (Step::Columns, piece)
                }
                Step::End => return Next::End,
            };
            self.step = step;
            return Next::Piece(piece);
        }
    }

    fn copied(&mut self, piece: Piece, making: &mut Making<'_>) {
        match piece {
            Piece::Small(..) => {}
            Piece::AsItIs(_, mut raw) => raw.give_back(making.cut),
            Piece::Encoded(_, mut done) => {
                done.column.give_back(making.cut);
                if let Some(encoders) = &mut making.encoders {
                    encoders.give_back(done.stored);
                }
            }
        }
    }
}

impl Source {
    fn form(&self, bytes: u64) -> Form {
        Form::new(self.payload, self.dtype, bytes / self.row_bytes)
    }
}
