//! What a target gets of each frame: all of it, or the columns of some sources and links.
//!
//! A target that gets only some has files of another variant of the run: their schema has no
//! columns of the others, and their ledger no counts.

use std::collections::HashSet;
use std::sync::Arc;

use catchment_frame::{ColumnKind, FrameInfo, FrameKind, Origin, Schema};

use crate::frames::FrameHead;
use crate::target_config::Variant;

/// What a target gets.
pub(crate) struct Selection {
    variant: Variant,
    schema: Arc<Schema>,
    /// Ids of its columns; none: all.
    columns: Option<HashSet<u32>>,
    /// The column of channels' gaps, which has no rows of samples.
    spans: Option<u32>,
    has_events: bool,
    has_channels: bool,
}

impl Selection {
    /// Of a run with that schema, whose first sources deliver events, and the others channels.
    pub(crate) fn new(variant: &Variant, full: &Arc<Schema>, event_sources: usize) -> Self {
        let schema = match &variant.stored {
            None => Arc::clone(full),
            Some(stored) => Arc::new(full.of_variant(stored)),
        };
        let has = |mut sources: std::ops::Range<usize>| sources.any(|one| variant.has(one));
        let ids = || schema.columns.iter().map(|column| column.id).collect();
        Self {
            columns: variant.stored.is_some().then(ids),
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
        own.columns = own.list.len() + 1;
        own.bytes_max = own.list.iter().map(|column| column.bytes_max).sum();
        self.variant.mask(&mut own.counts);
        self.variant.mask(&mut own.increment.sources);
        let samples = own.list.iter().filter(|column| Some(column.id) != self.spans);
        let rows = match head.info.kind {
            FrameKind::Channels => samples.map(|column| column.rows).sum(),
            _ => head.info.rows,
        };
        let origin = Origin { variant: self.variant.number, ..head.info.origin };
        own.info = FrameInfo { rows, origin, ..head.info };
        Arc::new(own)
    }

    /// Values by source, without those of sources that it does not have.
    pub(crate) fn of_sources(&self, values: &Arc<[u64]>) -> Arc<[u64]> {
        if self.columns.is_none() {
            return Arc::clone(values);
        }
        let mut own = values.to_vec();
        self.variant.mask(&mut own);
        own.into()
    }
}
