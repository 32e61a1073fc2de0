//! The frames of a run's files as two sequences: those of events, and those of channels.
//!
//! A frame can be in a run twice: sent or written again, because it was not known that it had been
//! written. It is identified by stream, variant and sequence, in any file; of frames with one
//! identity that agree in what they hold, readers take the first. Only variant 0 is read, so that
//! stream and sequence tell frames apart.

use std::collections::HashMap;
use std::ops::Range;

use catchment_frame::{ColumnEntry, FrameInfo, FrameKind, FrameSummary, Numbering};

use crate::open::RunFile;
use crate::run::Frame;

/// A run's frames in order, and whether their ranges can be searched.
pub(crate) struct FrameIndex {
    pub events: Vec<Frame>,
    pub channels: Vec<Frame>,
    /// The key ranges of `events` rise and do not overlap, as a recorder writes them.
    keys_rise: bool,
    /// `channels` follow each other in time.
    times_rise: bool,
}

impl FrameIndex {
    /// Marks the repeated frames of the files, and lists the others.
    pub(crate) fn of(files: &mut [RunFile]) -> Self {
        mark_repeated(files);
        let (mut events, mut channels) = (Vec::new(), Vec::new());
        let mut first_row = 0u64;
        for (file, run_file) in files.iter().enumerate() {
            for (index, &summary) in run_file.frames() {
                // A frame without rows carries increments of the ledger alone.
                match summary.info.kind {
                    FrameKind::Events if summary.info.rows > 0 => {
                        events.push(Frame { file, index, first_row, summary });
                        first_row = first_row.saturating_add(summary.info.rows);
                    }
                    FrameKind::Channels if summary.info.rows > 0 => {
                        channels.push(Frame { file, index, first_row: 0, summary });
                    }
                    _ => {}
                }
            }
        }
        let info = |frame: &Frame| frame.summary.info;
        let keys_rise = events.iter().all(|frame| info(frame).key_first <= info(frame).key_last)
            && events.windows(2).all(|pair| info(&pair[0]).key_last < info(&pair[1]).key_first);
        let times_rise =
            channels.iter().all(|frame| info(frame).time_first_ns <= info(frame).time_last_ns)
                && channels.is_sorted_by(|a, b| info(a).time_last_ns <= info(b).time_first_ns);
        Self { events, channels, keys_rise, times_rise }
    }

    /// Whether this begins with all frames of an earlier one, under the same indices.
    pub(crate) fn continues(&self, earlier: &Self) -> bool {
        let begins = |frames: &[Frame], earlier: &[Frame]| {
            let position = |frame: &Frame| (frame.file, frame.index);
            frames.iter().map(position).take(earlier.len()).eq(earlier.iter().map(position))
        };
        begins(&self.events, &earlier.events) && begins(&self.channels, &earlier.channels)
    }

    /// The frames of events whose key ranges overlap that one.
    pub(crate) fn events_between(&self, first: u64, last: u64) -> impl Iterator<Item = usize> {
        let info = |index: usize| &self.events[index].summary.info;
        let candidates: Range<usize> = if self.keys_rise {
            let start = self.events.partition_point(|f| f.summary.info.key_last < first);
            let end = self.events.partition_point(|f| f.summary.info.key_first <= last);
            start..end
        } else {
            0..self.events.len()
        };
        candidates.filter(move |&i| info(i).key_first <= last && first <= info(i).key_last)
    }

    /// The frames of channels that can hold samples of that time.
    pub(crate) fn channels_between(&self, time: &Range<u64>) -> Range<usize> {
        let info = |frame: &Frame| frame.summary.info;
        if !self.times_rise {
            return 0..self.channels.len();
        }
        let start = self.channels.partition_point(|frame| info(frame).time_last_ns <= time.start);
        let end = self.channels.partition_point(|frame| info(frame).time_first_ns < time.end);
        start..end.max(start)
    }

    /// Whether the frames of channels follow each other in time.
    pub(crate) fn channels_ordered(&self) -> bool {
        self.times_rise
    }
}

/// Finds the frames of each file that stand in the run before.
fn mark_repeated(files: &mut [RunFile]) {
    let found = if rises(files) { Vec::new() } else { find(files) };
    files.iter_mut().for_each(|file| file.repeated.clear());
    for (file, index) in found {
        files[file].repeated.push(index);
    }
}

/// Whether every stream's numbers rise through all files: then no frame stands twice, and nothing
/// more need be looked at.
fn rises(files: &[RunFile]) -> bool {
    let mut newest: HashMap<u32, u64> = HashMap::new();
    let mut infos = files.iter().flat_map(|file| file.reader.frames()).map(|frame| &frame.info);
    infos.all(|info| {
        let before = newest.insert(info.origin.stream, info.sequence);
        before.is_none_or(|before| before < info.sequence)
    })
}

fn find(files: &[RunFile]) -> Vec<(usize, usize)> {
    let mut first: HashMap<(u32, u64), (usize, usize)> = HashMap::new();
    let mut found = Vec::new();
    for (file, run_file) in files.iter().enumerate() {
        for (index, frame) in run_file.reader.frames().iter().enumerate() {
            let identity = (frame.info.origin.stream, frame.info.sequence);
            let location = *first.entry(identity).or_insert((file, index));
            if location != (file, index) && agree(files, location, (file, index)) {
                found.push((file, index));
            }
        }
    }
    found
}

/// Whether two frames say the same: ranges and rows, and all columns by their sizes. Since version
/// 1.3 a frame that is written again may have other codecs, and with them other checksums. In
/// files of before, and where each file numbers its frames anew, as in trends, frames with equal
/// numbers can be different ones: there checksums must be equal, too.
fn agree(files: &[RunFile], one: (usize, usize), other: (usize, usize)) -> bool {
    let frame =
        |(file, index): (usize, usize)| -> &FrameSummary { &files[file].reader.frames()[index] };
    // Whoever sent a frame again may have had another epoch: stream and sequence are its identity.
    let info = |location| {
        let FrameInfo { kind, time_first_ns, time_last_ns, key_first, key_last, rows, .. } =
            frame(location).info;
        (kind, time_first_ns, time_last_ns, key_first, key_last, rows)
    };
    if info(one) != info(other) {
        return false;
    }
    let identifies = |(file, _): (usize, usize)| numbers_identify(&files[file]);
    let stored_alike = !(identifies(one) && identifies(other));
    let columns = |(file, index): (usize, usize)| files[file].reader.columns(index);
    let (Ok(one), Ok(other)) = (columns(one), columns(other)) else { return false };
    let contents = |entry: &ColumnEntry| {
        let stored = stored_alike.then_some((entry.codec, entry.crc32c));
        (entry.id, entry.raw_bytes, entry.rows, stored)
    };
    // A damaged header's columns come from the TOC, in another order.
    let sorted = |entries: Vec<ColumnEntry>| {
        let mut contents: Vec<_> = entries.iter().map(contents).collect();
        contents.sort_unstable_by_key(|&(id, ..)| id);
        contents
    };
    sorted(one) == sorted(other)
}

/// Whether the numbers of a file's frames are those of the run's frames, as its header says.
fn numbers_identify(file: &RunFile) -> bool {
    let minor = file.reader.header_rest().minor;
    minor >= NUMBERING_MINOR && file.header().numbering == Numbering::Run
}

/// The minor version since which headers say what the numbers count.
const NUMBERING_MINOR: u16 = 3;
