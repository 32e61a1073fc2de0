//! Parts of a damaged run that a rewritten run lacks: unreadable data become gaps.

use std::collections::{BTreeMap, BTreeSet};

use catchment_frame::{ColumnEntry, FrameError, FrameRef};

use crate::error::StorageError;
use crate::parallel;
use crate::run::{Frame, Run};

/// What was left out, one line per place.
///
/// It names at most [`LINES_MAX`] places, since a file can have any number.
#[derive(Debug, Default)]
pub(crate) struct LeftOut {
    lines: BTreeSet<String>,
    more: u64,
}

impl LeftOut {
    /// Notes data that cannot be read.
    ///
    /// # Errors
    /// The error itself if it is not damage: a failing disk is not a gap.
    pub(crate) fn note(&mut self, error: StorageError) -> Result<(), StorageError> {
        if !error.is_damage() {
            return Err(error);
        }
        self.name(error.to_string());
        Ok(())
    }

    /// Notes a line.
    pub(crate) fn name(&mut self, line: String) {
        if self.lines.len() < LINES_MAX {
            self.lines.insert(line);
        } else {
            self.more += 1;
        }
    }

    /// The result of a read, or nothing if the data are damaged.
    ///
    /// # Errors
    /// As [`LeftOut::note`].
    pub(crate) fn or_gap<T>(
        &mut self,
        read: Result<T, StorageError>,
    ) -> Result<Option<T>, StorageError> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) => self.note(error).map(|()| None),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The lines, in order.
    pub(crate) fn into_lines(self) -> Vec<String> {
        let more = (self.more > 0).then(|| format!("and {} more places", self.more));
        self.lines.into_iter().chain(more).collect()
    }
}

/// The damaged columns of channels, by frame; determined when a frame is first reached.
///
/// Once begun, a frame cannot be written without a column that turns out to be damaged, so
/// checksums are checked before. The data to be decoded then usually come from the page cache.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    frames: BTreeMap<usize, BTreeSet<u32>>,
}

impl Checked {
    /// Checks the channels' columns of a frame, unless that has been done.
    ///
    /// # Errors
    /// A failing disk.
    pub(crate) fn check(
        &mut self,
        run: &Run,
        frame_index: usize,
        left_out: &mut LeftOut,
    ) -> Result<(), StorageError> {
        if self.frames.contains_key(&frame_index) {
            return Ok(());
        }
        let frame = run.channel_frames()[frame_index];
        let entries = channel_entries(run, &frame)?;
        let checked = parallel::map(entries, parallel::threads(), |entry| {
            Ok((entry.id, stored(run, &frame, &entry).map(drop)))
        })?;
        let mut damaged = BTreeSet::new();
        for (id, read) in checked {
            if left_out.or_gap(read)?.is_none() {
                damaged.insert(id);
            }
        }
        self.frames.insert(frame_index, damaged);
        Ok(())
    }

    /// Whether a column of a checked frame can be read.
    pub(crate) fn is_intact(&self, frame_index: usize, column: u32) -> bool {
        self.frames.get(&frame_index).is_none_or(|damaged| !damaged.contains(&column))
    }
}

/// The entries of channels' columns in a frame's directory.
pub(crate) fn channel_entries(run: &Run, frame: &Frame) -> Result<Vec<ColumnEntry>, StorageError> {
    let file = &run.run_files()[frame.file];
    let channels = file.reader.channel_columns();
    let entries = file.reader.columns(frame.index).map_err(|error| file.error(error))?;
    Ok(entries.into_iter().filter(|entry| channels.by_id(entry.id).is_some()).collect())
}

/// The stored bytes of a channel's column, verified by their checksum and by the numbers of their
/// samples.
pub(crate) fn stored(
    run: &Run,
    frame: &Frame,
    entry: &ColumnEntry,
) -> Result<Vec<u8>, StorageError> {
    let file = &run.run_files()[frame.file];
    let read = || -> Result<Vec<u8>, FrameError> {
        let column = file.reader.stored_column(frame.index, entry)?;
        column.check()?;
        file.spans(frame.index)?.runs(entry).map_err(|problem| FrameError::Column {
            frame: FrameRef::Index(frame.index),
            column: entry.id,
            problem,
        })?;
        let mut bytes = vec![0; entry.stored_bytes as usize];
        let at = frame.summary.offset + entry.offset;
        column.read_bytes(at, &mut bytes)?;
        column.check_stored(&bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| file.error(error))
}

/// The most places that are named.
const LINES_MAX: usize = 10_000;
