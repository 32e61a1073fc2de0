//! Frames of channels: how a cut of slices is represented in a file.

use std::ops::Range;
use std::sync::Arc;

use catchment_builder::{ColumnCut, Cut};
use catchment_encoder::{Ask, Coding, Element, Rule};
use catchment_frame::{
    ChannelColumns, ChannelInfo, ColumnCoding, Dtype, FrameInfo, FrameKind, Schema, Span,
    encode_spans,
};
use catchment_model::SampleRate;
use catchment_trends::{TrendChannel, Watch};
use catchment_writer::{ColumnForm, Frame, FrameColumn};

use crate::columns::{ChunkBytes, ColumnBytes};
use crate::frame_maker::FrameMaker;
use crate::links::Lane;
use crate::pool::ChunkPool;
use crate::slices::slice_of;
use crate::wiring::Channels;

/// Columns of every channels frame besides the channels: gaps, and the ledger's increments.
const FRAME_COLUMNS: usize = 2;
/// Bytes of a gap's record.
const SPAN_BYTES: usize = 24;

/// The most columns that a frame of that many channels has.
pub(crate) fn channel_columns_max(channel_count: usize) -> usize {
    FRAME_COLUMNS + channel_count
}

/// Makes frames of channels.
pub(crate) struct ChannelFrames {
    schema: Arc<Schema>,
    pool: Arc<ChunkPool>,
    slice_ns: u64,
    spans: u32,
    channels: Vec<Channel>,
    // Of the current frame.
    slices: Vec<u64>,
    gaps: Vec<Span>,
}

struct Channel {
    /// The ledger's number of its link.
    source: usize,
    id: u32,
    dtype: Dtype,
    rate: SampleRate,
    sample_bytes: u64,
    ask: Ask,
    /// The properties that its trend needs, if it has one.
    trend: Option<Arc<TrendChannel>>,
}

impl ChannelFrames {
    /// For the channels of a schema, which belong to these lanes. `first_link` is the ledger's
    /// number of the first link; `trends` says whether trends are computed.
    ///
    /// # Panics
    /// If the schema is not one with these channels.
    pub(crate) fn new(
        schema: &Arc<Schema>,
        wired: Channels,
        first_link: usize,
        slice_ns: u64,
        codings: &[ColumnCoding],
        trends: bool,
    ) -> Self {
        let columns = ChannelColumns::of(schema);
        assert_eq!(columns.channels.len(), wired.lanes.len(), "a column for every lane");
        let channel = |((info, lane), coding): ((&ChannelInfo, &Lane), &ColumnCoding)| {
            let element = info.dtype.element();
            Channel {
                source: first_link + lane.link,
                id: info.id,
                dtype: info.dtype,
                rate: lane.rate,
                sample_bytes: lane.sample_bytes,
                ask: Ask::new(element, Rule::of(*coding, element)),
                trend: TrendChannel::of(info).ok().filter(|_| trends).map(Arc::new),
            }
        };
        let lanes = columns.channels.iter().zip(&wired.lanes);
        Self {
            schema: Arc::clone(schema),
            pool: wired.pool,
            slice_ns,
            spans: columns.spans.expect("a column of every schema of channels"),
            channels: lanes.zip(codings).map(channel).collect(),
            slices: Vec::new(),
            gaps: Vec::new(),
        }
    }

    /// The header of a frame.
    fn info(&self, cut: &Cut) -> FrameInfo {
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
}

impl FrameMaker for ChannelFrames {
    /// Codings are chosen again: a file has one for each channel, as far as the data permit.
    fn begin_file(&self) {
        for channel in &self.channels {
            if let Rule::Auto(state) = &channel.ask.rule {
                state.begin_file();
            }
        }
    }

    fn source_of(&self, index: usize) -> usize {
        self.channels[index].source
    }

    fn small_coding(&self) -> Coding {
        Coding::None
    }

    fn frame(&mut self, cut: &mut Cut) -> Frame<ColumnBytes> {
        let info = self.info(cut);
        self.slices.clear();
        self.slices.extend(cut.keys.iter().map(|&key| slice_of(key)));
        self.gaps.clear();
        let in_a_row = self.slices.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let with_data = (0..self.channels.len().min(cut.columns.len()))
            .filter(|&index| cut.columns[index].payload_bytes > 0);
        let (mut columns, mut records) = (Vec::new(), Vec::new());
        for index in with_data.collect::<Vec<_>>() {
            let (channel, column) = (&self.channels[index], &cut.columns[index]);
            let first_gap = self.gaps.len();
            let first_sample = if in_a_row && column.validity.is_none() {
                channel.samples_of(self.slices[0], self.slice_ns).start
            } else {
                channel.find_gaps(&self.slices, self.slice_ns, column, &mut self.gaps)
            };
            let gaps = &self.gaps[first_gap..];
            encode_spans(channel.id, gaps, &mut records);
            let watch = channel.trend.as_ref().map(|trend| {
                Watch::new(Arc::clone(trend), channel.sample_bytes as usize, first_sample, gaps)
            });
            let form = ColumnForm {
                id: channel.id,
                dtype: channel.dtype,
                rows: column.payload_bytes / channel.sample_bytes,
                first_sample,
                start_ns: channel.rate.time_ns(first_sample),
            };
            let ask = channel.ask.clone();
            let mut chunks = ChunkBytes::take(index, cut, &self.pool);
            chunks.watch = watch;
            let bytes = ColumnBytes::Chunks(chunks);
            columns.push(FrameColumn { form, ask, is_small: false, bytes });
        }
        if !records.is_empty() {
            let rows = (records.len() / SPAN_BYTES) as u64;
            let form = ColumnForm::new(self.spans, Dtype::Record, rows);
            let bytes = ColumnBytes::Own(records);
            columns.insert(0, FrameColumn::small(form, Element::Bytes, Coding::None, bytes));
        }
        Frame { schema: Arc::clone(&self.schema), info, columns }
    }
}

impl Channel {
    fn samples_of(&self, slice: u64, slice_ns: u64) -> Range<u64> {
        self.rate.samples_of_slice(slice, slice_ns)
    }

    /// The first sample present, and where the sample numbers jump behind it.
    fn find_gaps(
        &self,
        slices: &[u64],
        slice_ns: u64,
        column: &ColumnCut,
        gaps: &mut Vec<Span>,
    ) -> u64 {
        let (mut first, mut next, mut row) = (None, 0, 0);
        for (index, &slice) in slices.iter().enumerate() {
            // A slice without samples lacks none, if the channel is that slow.
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
