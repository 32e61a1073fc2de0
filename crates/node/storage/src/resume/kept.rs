//! What is kept of a file of an interrupted run, and how it is closed behind that.

use std::collections::BTreeSet;

use catchment_disk::EditFile;
use catchment_frame::{FrameKind, Positions, close_behind, frame_ledger};
use catchment_model::Ledger;

use super::ResumedPlace;
use super::place::keep_superseded;
use crate::error::StorageError;
use crate::repair::{Found, rows_of};
use crate::whole::list_cut;

/// A file, and what is kept of it.
pub(super) struct Kept {
    pub(super) found: Found,
    /// How many of its frames.
    pub(super) frames: usize,
    /// The sum of what these count; none if the file is closed, loses none, and has a whole table.
    pub(super) sum: Option<Ledger>,
    pub(super) is_durable: bool,
}

impl Kept {
    /// Adds its first frames, which are kept, to those of the place, and what they count. An item
    /// that stands in one of the files before it, too, is there already.
    pub(super) fn new(
        (found, is_durable): (Found, bool),
        frames: usize,
        before: &[Self],
        place: &mut ResumedPlace,
    ) -> Self {
        let reader = &found.reader;
        let loses_none = reader.closed() && frames == reader.frames().len();
        // A power cut takes parts of a table that was not durable: the trailer may outlive them.
        let is_whole = loses_none && (is_durable || reader.verify_tables().is_empty());
        let sources = reader.header().schema.sources.len();
        if place.ledger.sources.is_empty() {
            place.ledger = Ledger::new(sources);
        }
        let sum_of = |frames: &mut dyn Iterator<Item = usize>| {
            let mut sum = Ledger::new(sources);
            frames.for_each(|frame| sum.add(&frame_ledger(reader, frame).0));
            sum
        };
        // Where a table has no sum, or a damaged one, the frames have it.
        let listed = loses_none.then(|| reader.frames_ledger().ok().flatten()).flatten();
        let sum = listed.unwrap_or_else(|| sum_of(&mut (0..frames)));
        let again = items_again(before, &found, frames);
        place.ledger.add(&sum.since(&sum_of(&mut again.iter().copied())));
        let new = (0..frames).filter(|frame| !again.contains(frame));
        place.frames += (frames - again.len()) as u64;
        place.events += rows_of(new.map(|frame| reader.frames()[frame].info), FrameKind::Events);
        Self { found, frames, sum: (!is_whole).then_some(sum), is_durable }
    }

    /// Cuts the file behind the frames that are kept and closes it; one that is closed, loses none
    /// and has a whole table stays as it is. Returns its length.
    pub(super) fn close(self, total: &Ledger, positions: &Positions) -> Result<u64, StorageError> {
        let Self { found: Found { path, reader, .. }, frames: kept, sum, is_durable } = self;
        let (frames, file_bytes) = (reader.frames(), reader.file_bytes());
        let Some(sum) = sum else {
            if !is_durable {
                drop(reader);
                EditFile::open(&path)?.sync()?;
            }
            return Ok(file_bytes);
        };
        let failed = |source| StorageError::Frame { path: path.clone(), source };
        let closing = close_behind(&reader, kept, (total, &sum), positions);
        let closing = closing.map_err(failed)?;
        let cut_off = frames.get(kept).zip(frames.last());
        let cut_off = cut_off.map(|(first, last)| (first.offset, last.offset + last.frame_bytes));
        let header = reader.header().clone();
        drop(reader);
        // Nobody else cuts it meanwhile.
        let file = EditFile::open(&path)?;
        if let Some((from, to)) = cut_off {
            keep_superseded(&path, from, to)?;
        }
        file.write_at(closing.offset, &closing.bytes)?;
        // TOC and trailer are durable before anything after them is cut.
        file.sync()?;
        file.truncate(closing.file_bytes())?;
        file.sync()?;
        list_cut(&path, &header, closing.file_bytes())?;
        Ok(closing.file_bytes())
    }
}

/// The frames of a file of a part, of the first ones, that are items of a file before it, too: its
/// folder was left out, and is back.
fn items_again(before: &[Kept], found: &Found, frames: usize) -> BTreeSet<usize> {
    let begins = |found: &Found| found.reader.header().part.map(|part| part.first_item);
    let of = |file: &Kept, item: u64| {
        let index = usize::try_from(item.checked_sub(begins(&file.found)?)?).ok()?;
        let frame = file.found.reader.frames()[..file.frames].get(index)?;
        Some((frame.info.sequence, frame.info.kind))
    };
    let end = |file: &Kept| Some(begins(&file.found)?.saturating_add(file.frames as u64));
    let first = begins(found).unwrap_or(u64::MAX);
    let end = before.iter().filter_map(end).max().unwrap_or(0);
    let shared = end.saturating_sub(first).min(frames as u64) as usize;
    let is_again = |&frame: &usize| {
        let (info, item) = (found.reader.frames()[frame].info, first + frame as u64);
        // Other frames may have got the numbers of items that were not durable.
        before.iter().any(|file| of(file, item) == Some((info.sequence, info.kind)))
    };
    (0..shared).filter(is_again).collect()
}
