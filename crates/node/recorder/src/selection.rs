//! What a target gets of each frame: all of it, or the columns of some sources, links and channels.
//!
//! A target that gets only some has files of another variant of the run: their schema has no
//! columns of the others, and their ledger no counts of other sources and links. Of a link of which
//! a target gets some channels it counts all fragments, with the bytes of these channels and what
//! is missing in them.

use std::collections::BTreeSet;
use std::sync::Arc;

use catchment_encoder::Done;
use catchment_frame::{
    ChannelColumns, ColumnKind, FrameInfo, FrameKind, Origin, Position, Schema, select_spans,
};
use catchment_writer::{ColumnForm, EncodedColumn};

use crate::column_bytes::ColumnBytes;
use crate::frame_counts::ChannelCounts;
use crate::frames::{FrameHead, SharedColumn};
use crate::target_config::{Share, Variant};

/// What a target gets.
pub(crate) struct Selection {
    variant: Variant,
    schema: Arc<Schema>,
    /// Ids of its columns; none: all.
    columns: Option<BTreeSet<u32>>,
    /// The channels that it does not get of links of which it gets others: their positions among
    /// all channels, and the numbers of these links in the ledger.
    left_out: Vec<(usize, usize)>,
    /// The column of channels' gaps, which has no rows of samples.
    spans: Option<u32>,
    has_events: bool,
    has_channels: bool,
}

impl Selection {
    /// Of a run with that schema, whose first sources deliver events, and the others channels.
    pub(crate) fn new(variant: &Variant, full: &Arc<Schema>, event_sources: usize) -> Self {
        let channels = ChannelColumns::of(full).channels;
        let others = (0..channels.len()).filter(|&position| !variant.has_channel(position));
        let others: BTreeSet<u32> = others.map(|position| channels[position].id).collect();
        let stored: Vec<bool> = (0..full.sources.len()).map(|source| variant.has(source)).collect();
        let schema = match &variant.selected {
            None => Arc::clone(full),
            Some(_) => Arc::new(full.of_variant(&stored, |id| !others.contains(&id))),
        };
        let has = |mut sources: std::ops::Range<usize>| sources.any(|one| variant.has(one));
        let ids = || schema.columns.iter().map(|column| column.id).collect();
        let left_out = channels.iter().enumerate().filter_map(|(position, channel)| {
            let link = channel.source? as usize;
            let is_left_out = variant.share(link) == Share::Part && others.contains(&channel.id);
            is_left_out.then_some((position, link))
        });
        Self {
            columns: variant.selected.is_some().then(ids),
            left_out: left_out.collect(),
            spans: schema.column(None, &ColumnKind::ChannelSpans),
            has_events: has(0..event_sources),
            has_channels: has(event_sources..full.sources.len()),
            variant: variant.clone(),
            schema,
        }
    }

    /// The schema of its files.
    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Whether it has anything of frames of that kind.
    pub(crate) fn has_frames(&self, kind: FrameKind) -> bool {
        match kind {
            FrameKind::Events => self.has_events,
            FrameKind::Channels => self.has_channels,
            _ => true,
        }
    }

    /// Whether it has that column.
    pub(crate) fn has_column(&self, id: u32) -> bool {
        self.columns.as_ref().is_none_or(|columns| columns.contains(&id))
    }

    /// A frame as it is there.
    pub(crate) fn head(&self, head: &Arc<FrameHead>) -> Arc<FrameHead> {
        if self.columns.is_none() {
            return Arc::clone(head);
        }
        let mut own = FrameHead::clone(head);
        own.schema = Arc::clone(&self.schema);
        own.list.retain(|column| self.has_column(column.id));
        own.columns = own.list.len() + own.columns_of_target();
        own.bytes_max = own.list.iter().map(|column| column.bytes_max).sum();
        self.variant.mask(&mut own.counts);
        for &(position, link) in &self.left_out {
            let Some(&ChannelCounts { bytes, missing }) = own.channels.get(position) else { break };
            own.counts[link].bytes -= bytes;
            own.counts[link].missing -= missing;
        }
        self.variant.mask(&mut own.increment.sources);
        let has = |one: &&Position| self.variant.has(one.source as usize) || one.session == 0;
        own.positions = own.positions.iter().filter(has).copied().collect();
        let samples = own.list.iter().filter(|column| Some(column.id) != self.spans);
        let rows = match head.info.kind {
            FrameKind::Channels => samples.map(|column| column.rows).sum(),
            _ => head.info.rows,
        };
        let origin = Origin { variant: self.variant.number, ..head.info.origin };
        own.info = match rows {
            // Ranges are those of rows.
            0 => FrameInfo {
                kind: head.info.kind,
                sequence: head.info.sequence,
                origin,
                ..FrameInfo::EMPTY
            },
            _ => FrameInfo { rows, origin, ..head.info },
        };
        Arc::new(own)
    }

    /// A column as it is there; none if the target does not get it.
    pub(crate) fn column(&self, column: &SharedColumn) -> Option<SharedColumn> {
        let id = column.form.id;
        if !self.has_column(id) {
            return None;
        }
        if self.columns.is_none() || Some(id) != self.spans {
            return Some(Arc::clone(column));
        }
        // Gaps of all channels are in one column, which is small and stored as it is.
        let pieces = (0..).map_while(|index| column.done.stored_piece(index));
        let records = pieces.flatten().copied().collect::<Vec<u8>>();
        let own = select_spans(&records, |id| self.has_column(id));
        let rows = column.form.rows * own.len() as u64 / records.len().max(1) as u64;
        (rows > 0).then(|| {
            let raw_bytes = own.len() as u64;
            let done = Done::as_it_is(ColumnBytes::Own(own));
            let form = ColumnForm { rows, ..column.form };
            Arc::new(EncodedColumn { form, raw_bytes, done })
        })
    }
}
