//! What is kept of a file of an interrupted run, and how it is closed behind that.

use std::collections::BTreeMap;

use catchment_disk::EditFile;
use catchment_frame::{FrameKind, FrameSummary, Positions, close_behind, frame_ledger};
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
    /// Whether that sum was in the file's table, as its writer made it.
    pub(super) is_in_table: bool,
    pub(super) is_durable: bool,
}

impl Kept {
    /// Adds its first frames, which are kept, to those of the place, and what they count.
    pub(super) fn new(
        (found, is_durable): (Found, bool),
        frames: usize,
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
        // Where a table has no sum, or a damaged one, the frames have it.
        let listed = loses_none.then(|| reader.frames_ledger().ok().flatten()).flatten();
        let is_repaired = reader.flags().is_some_and(|flags| flags.repaired);
        let is_in_table = listed.is_some() && !is_repaired;
        let sum = listed.unwrap_or_else(|| {
            let mut sum = Ledger::new(sources);
            (0..frames).for_each(|frame| sum.add(&frame_ledger(reader, frame).0));
            sum
        });
        place.ledger.add(&sum);
        place.frames += frames as u64;
        place.events += events(&reader.frames()[..frames]);
        Self { found, frames, sum: (!is_whole).then_some(sum), is_in_table, is_durable }
    }

    pub(super) fn first_frames(&self) -> &[FrameSummary] {
        &self.found.reader.frames()[..self.frames]
    }

    /// Cuts the file behind the frames that are kept and closes it; one that is closed, loses none
    /// and has a whole table stays as it is. Returns its length.
    pub(super) fn close(self, total: &Ledger, positions: &Positions) -> Result<u64, StorageError> {
        let Self { found: Found { path, reader, .. }, frames: kept, sum, is_durable, .. } = self;
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
        let written = file.written();
        if let Some((from, to)) = cut_off {
            keep_superseded(&path, from, to)?;
        }
        file.write_at(closing.offset, &closing.bytes)?;
        // TOC and trailer are durable before anything after them is cut.
        file.sync()?;
        file.truncate(closing.file_bytes())?;
        file.keep_written(written);
        file.sync()?;
        list_cut(&path, &header, closing.file_bytes())?;
        Ok(closing.file_bytes())
    }
}

/// Has a place count once what several of its files have: items of a part whose folder was left
/// out, and is back, or frames that were written again because nobody knew whether they were
/// durable.
pub(super) fn count_once(files: &[Kept], place: &mut ResumedPlace) {
    let mut groups = BTreeMap::new();
    for (index, file) in files.iter().enumerate() {
        for (frame, mut copies) in again(&files[..index], file) {
            place.frames -= 1;
            place.events -= events(&file.first_frames()[frame..=frame]);
            let (first, at) = copies[0];
            copies.push((file, frame));
            // That of the last file has all of them.
            groups.insert((first.found.reader.header().file_index, at), copies);
        }
    }
    for copies in groups.values() {
        place.ledger = place.ledger.since(&surplus(copies));
    }
}

/// What the sums of files count of one frame, less what it counts. A sum that is in no table of the
/// writer's has of a damaged copy what can be read.
fn surplus(copies: &[(&Kept, usize)]) -> Ledger {
    let read = |&(file, frame): &(&Kept, usize)| frame_ledger(&file.found.reader, frame).0;
    let counts: Vec<Ledger> = copies.iter().map(read).collect();
    let mut whole = Ledger::new(counts[0].sources.len());
    counts.iter().for_each(|one| whole.add(&one.since(&whole)));
    let mut sum = Ledger::new(whole.sources.len());
    for ((file, _), own) in copies.iter().zip(&counts) {
        sum.add(if file.is_in_table { &whole } else { own });
    }
    sum.since(&whole)
}

fn events(frames: &[FrameSummary]) -> u64 {
    rows_of(frames.iter().map(|frame| frame.info), FrameKind::Events)
}

/// Of the first frames of a file, those that files before it have, too, and where.
fn again<'a>(before: &'a [Kept], file: &Kept) -> Vec<(usize, Vec<(&'a Kept, usize)>)> {
    let begins = |file: &Kept| file.found.reader.header().part.map(|part| part.first_item);
    // These rise within a file: the items of a part, or the numbers of frames.
    let order = |file: &Kept, frame: usize| {
        let number = file.first_frames()[frame].info.sequence;
        begins(file).map_or(number, |first| first.saturating_add(frame as u64))
    };
    let find = |older: &'a Kept, frame: usize| {
        let (frames, own) = (older.first_frames(), order(file, frame));
        let at = match begins(older) {
            Some(first) => usize::try_from(own.checked_sub(first)?).ok()?,
            None => frames.binary_search_by_key(&own, |one| one.info.sequence).ok()?,
        };
        // Other frames may have got the numbers of items that were not durable.
        let of = |one: &FrameSummary| (one.info.sequence, one.info.kind);
        (of(frames.get(at)?) == of(&file.first_frames()[frame])).then_some((older, at))
    };
    let last = |older: &Kept| Some(order(older, older.frames.checked_sub(1)?));
    let newest = before.iter().filter_map(last).max();
    // As a rule there are none.
    let shared = (0..file.frames).take_while(|&frame| Some(order(file, frame)) <= newest);
    let all = |frame| (frame, before.iter().filter_map(|older| find(older, frame)).collect());
    shared.map(all).filter(|(_, older): &(_, Vec<_>)| !older.is_empty()).collect()
}
