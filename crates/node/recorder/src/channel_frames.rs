//! Frames of channels: how a cut of slices is represented in a file.

use std::ops::Range;
use std::sync::Arc;

use catchment_builder::{ColumnCut, Cut};
use catchment_encoder::Coding;
use catchment_frame::{ChannelColumns, ChannelInfo, Span};
use catchment_model::SampleRate;
use catchment_trends::{TrendChannel, Watch};
use catchment_writer::{ChannelColumn, ChannelFrame, Frame, FrameMaker};

use crate::column_bytes::{ChunkBytes, ColumnBytes};
use crate::frames::CutFrames;
use crate::links::Lane;
use crate::pool::ChunkPool;
use crate::slices::slice_of;
use crate::wiring::Channels;

/// Makes frames of channels.
pub(crate) struct ChannelFrames {
    maker: Arc<FrameMaker>,
    pool: Arc<ChunkPool>,
    slice_ns: u64,
    channels: Vec<Channel>,
    // Of the current frame.
    slices: Vec<u64>,
    gaps: Vec<Span>,
}

struct Channel {
    /// The ledger's number of its link.
    source: usize,
    id: u32,
    rate: SampleRate,
    sample_bytes: u64,
    /// The properties that its trend needs, if it has one.
    trend: Option<Arc<TrendChannel>>,
}

impl ChannelFrames {
    /// For the channels of the maker's schema, which belong to these lanes. `first_link` is the
    /// ledger's number of the first link; `trends` says whether trends are computed.
    ///
    /// # Panics
    /// If the schema is not one with these channels.
    pub(crate) fn new(
        maker: &Arc<FrameMaker>,
        wired: Channels,
        first_link: usize,
        slice_ns: u64,
        trends: bool,
    ) -> Self {
        let columns = ChannelColumns::of(maker.schema());
        assert_eq!(columns.channels.len(), wired.lanes.len(), "a column for every lane");
        let channel = |(info, lane): (&ChannelInfo, &Lane)| Channel {
            source: first_link + lane.link,
            id: info.id,
            rate: lane.rate,
            sample_bytes: lane.sample_bytes,
            trend: TrendChannel::of(info).ok().filter(|_| trends).map(Arc::new),
        };
        Self {
            maker: Arc::clone(maker),
            pool: wired.pool,
            slice_ns,
            channels: columns.channels.iter().zip(&wired.lanes).map(channel).collect(),
            slices: Vec::new(),
            gaps: Vec::new(),
        }
    }
}

impl CutFrames for ChannelFrames {
    fn source_of(&self, index: usize) -> usize {
        self.channels[index].source
    }

    fn small_coding(&self) -> Coding {
        Coding::None
    }

    fn frame(&mut self, cut: &mut Cut) -> Frame<ColumnBytes> {
        self.slices.clear();
        self.slices.extend(cut.keys.iter().map(|&key| slice_of(key)));
        self.gaps.clear();
        let in_a_row = self.slices.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let mut present = Vec::with_capacity(cut.columns.len());
        for (index, column) in cut.columns.iter_mut().enumerate() {
            if column.payload_bytes == 0 {
                continue;
            }
            let (channel, first_gap) = (&self.channels[index], self.gaps.len());
            let first_sample = if in_a_row && column.validity.is_none() {
                channel.samples_of(self.slices[0], self.slice_ns).start
            } else {
                channel.find_gaps(&self.slices, self.slice_ns, column, &mut self.gaps)
            };
            let gaps = first_gap..self.gaps.len();
            present.push((first_sample, gaps, ChunkBytes::take(index, column, &self.pool)));
        }
        let column = |(first_sample, gaps, mut samples): (u64, Range<usize>, ChunkBytes)| {
            let (channel, spans) = (&self.channels[samples.index], &self.gaps[gaps]);
            samples.watch = channel.trend.as_ref().map(|trend| {
                Watch::new(Arc::clone(trend), channel.sample_bytes as usize, first_sample, spans)
            });
            ChannelColumn { id: channel.id, first_sample, spans, samples }
        };
        let (first, last) = self.slices.first().zip(self.slices.last()).unwrap_or((&0, &0));
        let frame = ChannelFrame {
            start_ns: first.saturating_mul(self.slice_ns),
            end_ns: (last + 1).saturating_mul(self.slice_ns),
            columns: present.into_iter().map(column).collect(),
            keys: (*first, *last),
            increments: None,
        };
        self.maker.channels(frame).expect("columns of every schema of channels")
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
