//! The frames of a run's files as two sequences: events and channels.
//!
//! Of a frame stored twice in the run, the sequences contain one copy ([`crate::copies`]), in the
//! place of the first: frames are returned in the order of their numbers, whichever copy is read.
//! Those of several folders are merged by their numbers ([`crate::folders`]); those of several
//! streams, whose numbers say nothing of each other, by their keys.

use std::ops::Range;

use catchment_frame::{FrameInfo, FrameKind};

use crate::copies::{Copies, Location};
use crate::folders;
use crate::open::RunFile;
use crate::run::Frame;

/// A run's frames in order, and whether their ranges can be searched.
pub(crate) struct FrameIndex {
    pub events: Vec<Frame>,
    pub channels: Vec<Frame>,
    pub copies: Copies,
    /// Whether frames are in the order of their numbers, because they are of several folders, or
    /// dealt.
    numbered: bool,
    /// `events` are of several streams, and in the order of their first keys.
    keyed: bool,
    /// The key ranges of `events` rise and do not overlap, as written by a recorder.
    keys_rise: bool,
    /// `channels` follow each other in time.
    times_rise: bool,
}

impl FrameIndex {
    /// Marks the repeated frames of the files, and lists the others.
    pub(crate) fn of(files: &mut [RunFile]) -> Self {
        let numbered = folders::are_by_number(files);
        let (copies, locations) = if numbered {
            let (locations, damaged) = folders::locations(files);
            (Copies::by_number(damaged), locations)
        } else {
            let copies = Copies::find(files);
            let locations = locations(files, &copies);
            (copies, locations)
        };
        let (mut events, mut channels) = (Vec::new(), Vec::new());
        let mut first_row = 0u64;
        for (file, index) in locations {
            let summary = files[file].reader.frames()[index];
            // A frame without rows carries only increments of the ledger.
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
        let info = |frame: &Frame| frame.summary.info;
        let stream = |frame: &Frame| frame.summary.info.origin.stream;
        let keyed = numbered && events.windows(2).any(|pair| stream(&pair[0]) != stream(&pair[1]));
        if keyed {
            events.sort_by_key(key);
            first_row = 0;
            for frame in &mut events {
                frame.first_row = first_row;
                first_row = first_row.saturating_add(frame.summary.info.rows);
            }
        }
        let keys_rise = events.iter().all(|frame| info(frame).key_first <= info(frame).key_last)
            && events.windows(2).all(|pair| info(&pair[0]).key_last < info(&pair[1]).key_first);
        let times_rise =
            channels.iter().all(|frame| info(frame).time_first_ns <= info(frame).time_last_ns)
                && channels.is_sorted_by(|a, b| info(a).time_last_ns <= info(b).time_first_ns);
        Self { events, channels, copies, numbered, keyed, keys_rise, times_rise }
    }

    /// Whether this begins with all frames of an earlier index, at the same positions.
    pub(crate) fn continues(&self, earlier: &Self) -> bool {
        let begins = |frames: &[Frame], earlier: &[Frame]| {
            let position = |frame: &Frame| (frame.file, frame.index);
            frames.iter().map(position).take(earlier.len()).eq(earlier.iter().map(position))
        };
        begins(&self.events, &earlier.events) && begins(&self.channels, &earlier.channels)
    }

    /// The index in `frames`, which are `events` or `channels`, of the frame that is read for that
    /// location: itself, or a copy of it elsewhere.
    pub(crate) fn in_place(&self, frames: &[Frame], place: Location) -> Option<usize> {
        let of = |frame: &Frame| self.copies.place_of((frame.file, frame.index));
        frames.binary_search_by_key(&place, of).ok()
    }

    /// The index in `frames` of the frame at that location, which has that header.
    pub(crate) fn position(
        &self,
        frames: &[Frame],
        location: Location,
        info: &FrameInfo,
    ) -> Option<usize> {
        let of = |frame: &Frame| folders::number(&frame.summary.info);
        let index = match self.numbered {
            true if self.keyed && info.kind == FrameKind::Events => {
                let wanted = (info.key_first, folders::number(info));
                frames.binary_search_by_key(&wanted, key).ok()?
            }
            true => frames.binary_search_by_key(&folders::number(info), of).ok()?,
            false => self.in_place(frames, self.copies.place_of(location))?,
        };
        ((frames[index].file, frames[index].index) == location).then_some(index)
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

    /// The frames of channels that can contain samples of that time.
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

/// The order of frames of several streams.
fn key(frame: &Frame) -> (u64, (u64, u32)) {
    let info = &frame.summary.info;
    (info.key_first, folders::number(info))
}

/// The frames of all files that are read, of any kind, in the order in which they are returned.
pub(crate) fn locations(files: &[RunFile], copies: &Copies) -> Vec<Location> {
    let of = |(file, run_file): (usize, &RunFile)| -> Vec<Location> {
        run_file.frames().map(|(index, _)| (file, index)).collect()
    };
    let mut locations: Vec<Location> = files.iter().enumerate().flat_map(of).collect();
    // A run without copies is already in order, which the sort finds in one pass.
    locations.sort_by_key(|&location| copies.place_of(location));
    locations
}
