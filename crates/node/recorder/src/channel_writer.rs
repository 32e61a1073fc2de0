//! The columns of one frame of channels, piece by piece.

use std::ops::Range;
use std::sync::Arc;

use catchment_builder::{ColumnCut, Cut};
use catchment_encoder::{Ask, Coding, Element, Rule};
use catchment_frame::{
    ChannelColumns, ChannelInfo, ColumnCoding, Dtype, FrameInfo, FrameKind, Schema, Span,
    encode_spans,
};
use catchment_model::{Entry, SampleRate};
use catchment_trends::TrendChannel;

use crate::coding::rule_for;
use crate::frame_stream::{ColumnWriter, Form, Making, Next, Piece, Raw};
use crate::links::Lane;
use crate::pool::ChunkPool;
use crate::slices::slice_of;
use crate::trend::{Seconds, Watch};
use crate::wiring::Channels;

/// Columns of every channels frame but for the channels: gaps, and the ledger's increments.
const FRAME_COLUMNS: usize = 2;
/// Bytes of a gap's record.
const SPAN_BYTES: usize = 24;

/// The most columns that a frame of that many channels has.
pub(crate) fn channel_columns_max(channel_count: usize) -> usize {
    FRAME_COLUMNS + channel_count
}

/// Makes frames of channels, piece by piece.
pub(crate) struct ChannelWriter {
    pool: Arc<ChunkPool>,
    slice_ns: u64,
    spans: u32,
    ledger: u32,
    channels: Vec<Channel>,
    // Of the frame that is being made.
    step: Step,
    /// The next column that is to be encoded.
    next: usize,
    slices: Vec<u64>,
    gaps: Vec<Span>,
    records: Vec<u8>,
    positions: Vec<Position>,
    seconds: Vec<(usize, Seconds)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Spans,
    Columns,
    End,
}

struct Channel {
    /// The ledger's number of its link.
    source: usize,
    id: u32,
    dtype: Dtype,
    rate: SampleRate,
    sample_bytes: u64,
    ask: Ask,
    /// What its trend needs to know of it, if it has one.
    trend: Option<Arc<TrendChannel>>,
}

/// Where a channel's samples of a frame begin, and which of the frame's gaps are its own.
#[derive(Clone, Default)]
struct Position {
    first_sample: u64,
    gaps: Range<usize>,
}

impl ChannelWriter {
    /// For the channels of a schema, which belong to these lanes. `first_link` is the ledger's
    /// number of the first link; `trends` says whether seconds are looked at.
    ///
    /// # Panics
    /// If the schema is not one with these channels.
    pub(crate) fn new(
        schema: &Schema,
        wired: Channels,
        first_link: usize,
        slice_ns: u64,
        codings: &[ColumnCoding],
        trends: bool,
    ) -> Self {
        let columns = ChannelColumns::of(schema);
        let id = |id: Option<u32>| id.expect("a column of every schema of channels");
        assert_eq!(columns.channels.len(), wired.lanes.len(), "a column for every lane");
        let channel = |((info, lane), coding): ((&ChannelInfo, &Lane), &ColumnCoding)| {
            let element = info.dtype.element();
            Channel {
                source: first_link + lane.link,
                id: info.id,
                dtype: info.dtype,
                rate: lane.rate,
                sample_bytes: lane.sample_bytes,
                ask: Ask {
                    element,
                    rule: rule_for(*coding, element),
                    level: catchment_encoder::Level::AsAsked,
                },
                trend: TrendChannel::of(info).ok().filter(|_| trends).map(Arc::new),
            }
        };
        let lanes = columns.channels.iter().zip(&wired.lanes);
        Self {
            pool: wired.pool,
            slice_ns,
            spans: id(columns.spans),
            ledger: id(columns.ledger_increment),
            channels: lanes.zip(codings).map(channel).collect(),
            step: Step::Spans,
            next: 0,
            slices: Vec::new(),
            gaps: Vec::new(),
            records: Vec::new(),
            positions: Vec::new(),
            seconds: Vec::new(),
        }
    }

    /// Codings are chosen anew: a file has one for each channel, as far as the data let it.
    pub(crate) fn begin_file(&self) {
        for channel in &self.channels {
            if let Rule::Auto(state) = &channel.ask.rule {
                state.begin_file();
            }
        }
    }

    /// What the header of a frame says.
    pub(crate) fn info(&self, cut: &Cut) -> FrameInfo {
        let slice = |key: Option<&u64>| key.map_or(0, |&key| slice_of(key));
        let (first, last) = (slice(cut.keys.first()), slice(cut.keys.last()));
        let end = if cut.keys.is_empty() { 0 } else { last + 1 };
        let samples =
            |(column, channel): (&ColumnCut, &Channel)| column.payload_bytes / channel.sample_bytes;
        FrameInfo {
            kind: FrameKind::Channels,
            time_first_ns: first.saturating_mul(self.slice_ns),
            time_last_ns: end.saturating_mul(self.slice_ns),
            key_first: first,
            key_last: last,
            rows: cut.columns.iter().zip(&self.channels).map(samples).sum(),
            ..FrameInfo::EMPTY
        }
    }

    /// Hands out what a frame holds and misses of each link, channel by channel.
    pub(crate) fn count(&mut self, cut: &Cut, mut add: impl FnMut(usize, &ColumnCut)) {
        self.slices.clear();
        self.slices.extend(cut.keys.iter().map(|&key| slice_of(key)));
        for (channel, column) in self.channels.iter().zip(&cut.columns) {
            add(channel.source, column);
        }
    }

    /// The most columns that a frame of this cut has.
    pub(crate) fn columns_max(&self, cut: &Cut) -> usize {
        channel_columns_max(cut.columns.iter().filter(|one| one.payload_bytes > 0).count())
    }

    /// Begins a frame, whose cut the caller has counted ([`ChannelWriter::count`]).
    pub(crate) fn begin(&mut self, cut: &Cut) {
        self.number_samples(cut);
        (self.step, self.next) = (Step::Spans, 0);
    }

    /// Gives the encode agents as many columns as there is room for.
    fn encode(&mut self, making: &mut Making<'_>) {
        let Making { encoders, cut, throttle, .. } = making;
        let Some(encoders) = encoders else { return };
        while let Some(column) = cut.columns.get(self.next) {
            let (index, bytes) = (self.next, column.payload_bytes as usize);
            if bytes > 0 && !encoders.has_room(bytes) {
                break;
            }
            self.next += 1;
            if bytes > 0 {
                let raw = Raw { watch: self.watch(index), ..Raw::take(index, cut, &self.pool) };
                let level = throttle.level();
                encoders.put(raw, Ask { level, ..self.channels[index].ask.clone() });
            }
        }
    }

    /// What the frame that was made last says of its channels' seconds; a frame of increments
    /// alone says nothing.
    pub(crate) fn take_seconds(&mut self) -> Vec<(usize, Seconds)> {
        std::mem::take(&mut self.seconds)
    }

    /// What a channel's samples of this frame are watched for.
    fn watch(&self, index: usize) -> Option<Watch> {
        let (channel, position) = (&self.channels[index], &self.positions[index]);
        Some(Watch {
            channel: Arc::clone(channel.trend.as_ref()?),
            sample_bytes: channel.sample_bytes as usize,
            first_sample: position.first_sample,
            gaps: self.gaps[position.gaps.clone()].to_vec(),
        })
    }

    /// Finds each channel's first sample, and the gaps.
    fn number_samples(&mut self, cut: &Cut) {
        self.records.clear();
        self.positions.clear();
        self.gaps.clear();
        let in_a_row = self.slices.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        for (channel, column) in self.channels.iter().zip(&cut.columns) {
            let mut position = Position::default();
            if column.payload_bytes > 0 && in_a_row && column.validity.is_none() {
                position.first_sample = channel.samples_of(self.slices[0], self.slice_ns).start;
            } else if column.payload_bytes > 0 {
                let first = self.gaps.len();
                position.first_sample =
                    channel.find_gaps(&self.slices, self.slice_ns, column, &mut self.gaps);
                position.gaps = first..self.gaps.len();
                encode_spans(channel.id, &self.gaps[first..], &mut self.records);
            }
            self.positions.push(position);
        }
    }
}

impl ColumnWriter for ChannelWriter {
    fn next(&mut self, making: &mut Making<'_>) -> Next {
        if self.step == Step::Spans {
            self.step = Step::Columns;
            if !self.records.is_empty() {
                let rows = (self.records.len() / SPAN_BYTES) as u64;
                let form = Form::new(self.spans, Dtype::Record, rows);
                let bytes = self.records.iter().copied();
                return Next::Piece(making.memory.small(form, Coding::None, Element::U8, bytes));
            }
        }
        if self.step == Step::End {
            return Next::End;
        }
        self.encode(making);
        let Making { memory, encoders, increment, own, .. } = making;
        let Some(encoders) = encoders else { unreachable!("channels have encode agents") };
        match encoders.take() {
            Some(done) => {
                let index = done.column.index;
                let (channel, position) = (&self.channels[index], &self.positions[index]);
                let bytes = done.column.bytes as u64;
                if done.lowered {
                    own.sources[channel.source][Entry::BytesCompressionLowered] += bytes;
                }
                let form = Form {
                    id: channel.id,
                    dtype: channel.dtype,
                    rows: bytes / channel.sample_bytes,
                    first_sample: position.first_sample,
                    start_ns: channel.rate.time_ns(position.first_sample),
                };
                Next::Piece(Piece::Encoded(form, done))
            }
            None if encoders.under_way() > 0 => Next::Wait,
            None => {
                self.step = Step::End;
                // Last, since it says what became of the columns before it.
                Next::Piece(memory.ledger(self.ledger, increment, own, Coding::None))
            }
        }
    }

    fn copied(&mut self, piece: Piece, making: &mut Making<'_>) {
        let Piece::Encoded(_, mut done) = piece else { return };
        done.column.give_back(making.cut);
        if let Some(encoders) = &mut making.encoders {
            encoders.give_back(done.stored);
        }
        let index = done.column.index;
        if self.channels[index].trend.is_some() {
            self.seconds.push((index, done.seen.seconds));
        }
    }
}

impl Channel {
    fn samples_of(&self, slice: u64, slice_ns: u64) -> Range<u64> {
        self.rate.samples_of_slice(slice, slice_ns)
    }

    /// The first sample that is there, and where samples are numbered anew behind it.
    fn find_gaps(
        &self,
        slices: &[u64],
        slice_ns: u64,
        column: &ColumnCut,
        gaps: &mut Vec<Span>,
    ) -> u64 {
        let (mut first, mut next, mut row) = (None, 0, 0);
        for (index, &slice) in slices.iter().enumerate() {
            // Nothing in a slice is nothing missing, if the channel is that slow.
            if column.lengths[index] == 0 {
                continue;
            }
            let samples = self.samples_of(slice, slice_ns);
            if first.is_none() {
                first = Some(samples.start);
            } else if samples.start != next {
                gaps.push(Span { row, sample: samples.start });
            }
            row += u64::from(column.lengths[index]) / self.sample_bytes;
            next = samples.end;
        }
        first.unwrap_or(0)
    }
}
