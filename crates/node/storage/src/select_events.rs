//! Which events of a run are to be read: by key, by time, by frame.
//!
//! Frames that hold none of them are passed over by what their headers say. Of the others the
//! events' own columns are read, and a source's fragments only where a row is selected.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use catchment_model::SourceId;

use crate::column::FragmentRows;
use crate::error::StorageError;
use crate::run::{Frame, Run};

/// Which events are to be read: those of which all three are true. The default is all events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectEvents {
    /// The key is one of these.
    pub keys: RangeInclusive<u64>,
    /// The first fragment arrived then: nanoseconds since 1970, UTC. Without it at any time.
    pub time_ns: Option<Range<u64>>,
    /// It is in one of these frames: indices into [`Run::frames`].
    pub frames: Range<usize>,
}

impl Default for SelectEvents {
    fn default() -> Self {
        Self { keys: 0..=u64::MAX, time_ns: None, frames: 0..usize::MAX }
    }
}

impl SelectEvents {
    /// Whether a frame can hold such an event, by its header.
    fn meets(&self, index: usize, frame: &Frame) -> bool {
        let info = &frame.summary.info;
        let in_time = self.time_ns.as_ref().is_none_or(|time| {
            !time.is_empty() && info.time_first_ns < time.end && time.start <= info.time_last_ns
        });
        let in_keys = info.key_first <= *self.keys.end() && *self.keys.start() <= info.key_last;
        self.frames.contains(&index) && in_keys && in_time
    }
}

impl Run {
    /// The frames that can hold selected events, by their headers: indices into [`Run::frames`].
    /// Reads nothing.
    pub fn frames_in(&self, select: &SelectEvents) -> Vec<usize> {
        let candidates = self.frames_between(*select.keys.start(), *select.keys.end());
        candidates.filter(|&index| select.meets(index, &self.frames()[index])).collect()
    }

    /// The rows of the selected events of a frame: ranges that rise and do not touch.
    ///
    /// # Errors
    /// No such frame, or a column that cannot be read.
    pub fn rows_in(
        &self,
        frame: usize,
        select: &SelectEvents,
    ) -> Result<Vec<Range<usize>>, StorageError> {
        let (all, count) = (self.frames(), self.frames().len());
        let header = all.get(frame).ok_or(StorageError::NoFrame { index: frame, count })?;
        if !select.meets(frame, header) {
            return Ok(Vec::new());
        }
        let events = self.events(frame)?;
        Ok(events.rows_at(&select.keys, select.time_ns.as_ref()))
    }

    /// The fragments of a source in the selected events, frame by frame. A frame's column is read
    /// when the iterator comes to it.
    pub fn fragments_in(
        &self,
        source: SourceId,
        select: SelectEvents,
    ) -> impl Iterator<Item = Result<FragmentRows, StorageError>> + '_ {
        self.frames_in(&select).into_iter().flat_map(move |frame| {
            let read = || {
                let ranges = self.rows_in(frame, &select)?;
                if ranges.is_empty() {
                    return Ok(Vec::new());
                }
                let column = self.fragments(frame, source)?;
                let rows = |rows| FragmentRows { frame, rows, column: Arc::clone(&column) };
                Ok(ranges.into_iter().map(rows).collect())
            };
            match read() {
                Ok(parts) => parts.into_iter().map(Ok).collect(),
                Err(error) => vec![Err(error)],
            }
        })
    }

    /// The fragments of a source with keys from `first` to `last`, both included: as
    /// [`Run::fragments_in`].
    pub fn fragments_between(
        &self,
        source: SourceId,
        first: u64,
        last: u64,
    ) -> impl Iterator<Item = Result<FragmentRows, StorageError>> + '_ {
        self.fragments_in(source, SelectEvents { keys: first..=last, ..SelectEvents::default() })
    }
}
