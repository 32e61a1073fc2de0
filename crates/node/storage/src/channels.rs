//! Continuous channels of a run: what there is, where it stands, and reading it.
//!
//! A channel is read as [`Segment`]s: pieces without a gap, across the borders of frames and files.
//! Where each frame's samples stand is known from the TOC; samples themselves are read only as far
//! as they are asked for: of a column that is stored as it is, only the rows; of an encoded one,
//! all its stored bytes, which are checked.

use std::ops::Range;
use std::sync::Arc;

use catchment_frame::{ChannelInfo, ColumnEntry, FrameError, FrameKind, FrameRef, SampleRun};

use crate::error::StorageError;
use crate::fetch::{self, Part};
use crate::open::RunFile;
use crate::parallel;
use crate::run::{Frame, Run};

/// What is to be read of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    /// All there is.
    All,
    /// Samples whose time is in that range: nanoseconds in the channel's time scale.
    TimeNs(Range<u64>),
    /// Samples of these numbers.
    Samples(Range<u64>),
    /// Samples in these frames: indices into [`Run::channel_frames`].
    Frames(Range<usize>),
    /// Samples of these numbers in one frame: another may have the same ones, after a clock was set
    /// back.
    FrameSamples(usize, Range<u64>),
}

/// Samples without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The number of the first one.
    pub first_sample: u64,
    /// How many there are.
    pub samples: u64,
    /// Time of the first one: nanoseconds in the channel's time scale.
    pub start_ns: u64,
    /// Their bytes, little-endian. Frequent readers return the memory with
    /// [`give_back`](crate::give_back) after use.
    pub bytes: Vec<u8>,
}

/// Samples without a gap in one frame: where they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The frame: an index into [`Run::channel_frames`].
    pub frame: usize,
    /// The channel's column in that frame.
    pub entry: ColumnEntry,
    /// The first one's row in the column.
    pub row: u64,
    /// The number of the first one.
    pub first_sample: u64,
    /// How many there are.
    pub samples: u64,
}

impl Piece {
    /// The number behind the last sample.
    pub fn end_sample(&self) -> u64 {
        self.first_sample + self.samples
    }
}

/// A channel of a run.
#[derive(Clone, Copy)]
pub struct Channel<'a> {
    run: &'a Run,
    info: &'a ChannelInfo,
}

impl Run {
    /// The channels, in the order of the schema.
    pub fn channels(&self) -> &[ChannelInfo] {
        &self.first_file().reader.channel_columns().channels
    }

    /// The channel of that name.
    pub fn channel(&self, name: &str) -> Option<Channel<'_>> {
        let info = self.channels().iter().find(|channel| channel.name == name)?;
        Some(Channel { run: self, info })
    }

    /// The channel of that index into [`Run::channels`].
    pub fn channel_at(&self, index: usize) -> Option<Channel<'_>> {
        self.channels().get(index).map(|info| Channel { run: self, info })
    }

    /// Reads several channels at once: indices into [`Run::channels`]. Adjacent columns are read
    /// together, and decoded by several threads.
    ///
    /// # Errors
    /// No such channel, or a column that cannot be read.
    pub fn read_many(
        &self,
        channels: &[usize],
        select: &Select,
    ) -> Result<Vec<Vec<Segment>>, StorageError> {
        self.read_many_by(channels, select, parallel::threads())
    }

    /// As [`Run::read_many`], on the caller's thread alone.
    pub(crate) fn read_many_alone(
        &self,
        channels: &[usize],
        select: &Select,
    ) -> Result<Vec<Vec<Segment>>, StorageError> {
        self.read_many_by(channels, select, 1)
    }

    fn read_many_by(
        &self,
        channels: &[usize],
        select: &Select,
        threads: usize,
    ) -> Result<Vec<Vec<Segment>>, StorageError> {
        let mut plans = Vec::with_capacity(channels.len());
        for &index in channels {
            let none = || StorageError::NoChannel { name: format!("number {index}") };
            plans.push(self.channel_at(index).ok_or_else(none)?.plan(select)?);
        }
        fetch::fetch(self, plans, threads)
    }
}

impl Run {
    /// Where a column stands in some of the channel frames: the frame's index among them, the file,
    /// the entry.
    fn locations_of(
        &self,
        column: u32,
        range: Range<usize>,
    ) -> Result<Vec<(usize, usize, ColumnEntry)>, StorageError> {
        let mut locations = Vec::new();
        let mut rest = &self.channel_frames()[range.clone()];
        let mut position = range.start;
        while let Some(first) = rest.first() {
            let here = rest.partition_point(|frame| frame.file == first.file);
            let (frames, later) = rest.split_at(here);
            let listed = locations_in(&self.run_files()[first.file], column)?;
            let begin = listed.partition_point(|(index, _)| (*index as usize) < first.index);
            let mut frames = frames.iter().zip(position..).peekable();
            for (index, entry) in &listed[begin..] {
                while frames.next_if(|(frame, _)| frame.index < *index as usize).is_some() {}
                let Some((frame, position)) = frames.peek() else { break };
                if frame.index == *index as usize {
                    locations.push((*position, first.file, *entry));
                }
            }
            (rest, position) = (later, position + here);
        }
        Ok(locations)
    }

    /// The channel frames that can hold samples of that time.
    pub(crate) fn channel_frames_between(&self, time: &Range<u64>) -> Range<usize> {
        let frames = self.channel_frames();
        let info = |frame: &Frame| frame.summary.info;
        if !self.channels_ordered() {
            return 0..frames.len();
        }
        let start = frames.partition_point(|frame| info(frame).time_last_ns <= time.start);
        let end = frames.partition_point(|frame| info(frame).time_first_ns < time.end);
        start..end.max(start)
    }
}

/// Where a column stands in a file: as the TOC says it, or the frames themselves where its list is
/// damaged.
pub(crate) fn locations_in(
    file: &RunFile,
    column: u32,
) -> Result<Arc<[(u32, ColumnEntry)]>, StorageError> {
    if let Ok(locations) = file.reader.places(column) {
        return Ok(locations);
    }
    let mut locations = Vec::new();
    for frame in 0..file.reader.frames().len() {
        let found = file.reader.find(frame, column).map_err(|error| file.error(error))?;
        locations.extend(found.map(|entry| (frame as u32, entry)));
    }
    Ok(locations.into())
}

/// Whether frames follow each other in time, as they are written.
pub(crate) fn ordered(frames: &[Frame]) -> bool {
    let info = |frame: &Frame| frame.summary.info;
    frames.iter().all(|frame| info(frame).time_first_ns <= info(frame).time_last_ns)
        && frames.is_sorted_by(|a, b| info(a).time_last_ns <= info(b).time_first_ns)
}

/// The frames of channels in a run's files.
pub(crate) fn channel_frames(files: &[RunFile]) -> Vec<Frame> {
    let mut frames = Vec::new();
    for (file, run_file) in files.iter().enumerate() {
        for (index, summary) in run_file.frames() {
            // A frame without samples carries increments of the ledger alone.
            if summary.info.kind == FrameKind::Channels && summary.info.rows > 0 {
                frames.push(Frame { file, index, first_row: 0, summary: *summary });
            }
        }
    }
    frames
}

impl<'a> Channel<'a> {
    /// What it is.
    pub fn info(&self) -> &'a ChannelInfo {
        self.info
    }

    /// Where its samples stand, in the order of the frames. Reads no samples.
    ///
    /// # Errors
    /// An index that cannot be read, or says what cannot be.
    pub fn pieces(&self) -> Result<Vec<Piece>, StorageError> {
        self.pieces_in(&Select::All)
    }

    /// As [`Channel::pieces`], of what is selected.
    ///
    /// # Errors
    /// As [`Channel::pieces`].
    pub fn pieces_in(&self, select: &Select) -> Result<Vec<Piece>, StorageError> {
        let piece = |part: &Part| Piece {
            frame: part.frame,
            entry: part.entry,
            row: part.row,
            first_sample: part.first_sample,
            samples: part.samples,
        };
        Ok(self.parts(select, &|_, _| true)?.iter().map(piece).collect())
    }

    /// From the first sample's time to the end of the last one: nanoseconds in the channel's time
    /// scale. Reads no samples.
    ///
    /// # Errors
    /// As [`Channel::pieces`].
    pub fn time_range(&self) -> Result<Option<Range<u64>>, StorageError> {
        let pieces = self.pieces()?;
        let rate = self.info().rate;
        let first = pieces.iter().map(|piece| piece.first_sample).min();
        let end = pieces.iter().map(Piece::end_sample).max();
        Ok(first.zip(end).map(|(first, end)| rate.time_ns(first)..rate.time_ns(end)))
    }

    /// Reads samples: pieces without a gap, in the order of the frames.
    ///
    /// # Errors
    /// A column that cannot be read.
    pub fn read(&self, select: &Select) -> Result<Vec<Segment>, StorageError> {
        self.read_by(select, parallel::threads())
    }

    /// Reads samples on the caller's thread alone, for callers with threads of their own.
    pub(crate) fn read_alone(&self, select: &Select) -> Result<Vec<Segment>, StorageError> {
        self.read_by(select, 1)
    }

    fn read_by(&self, select: &Select, threads: usize) -> Result<Vec<Segment>, StorageError> {
        let mut read = fetch::fetch(self.run, vec![self.plan(select)?], threads)?;
        Ok(read.pop().unwrap_or_default())
    }

    pub(crate) fn plan(&self, select: &Select) -> Result<fetch::Plan, StorageError> {
        self.plan_of(select, &|_, _| true)
    }

    /// As [`Channel::plan`], of those columns alone of which `wanted` says so: by the frame's index
    /// in [`Run::channel_frames`] and their number.
    pub(crate) fn plan_of(
        &self,
        select: &Select,
        wanted: &dyn Fn(usize, u32) -> bool,
    ) -> Result<fetch::Plan, StorageError> {
        let info = self.info();
        let parts = self.parts(select, wanted)?;
        Ok(fetch::Plan { rate: info.rate, row_bytes: info.sample_bytes(), parts })
    }

    /// What is to be read of each frame.
    fn parts(
        &self,
        select: &Select,
        columns: &dyn Fn(usize, u32) -> bool,
    ) -> Result<Vec<Part>, StorageError> {
        let info = self.info();
        let wanted = match select {
            Select::All | Select::Frames(_) => 0..u64::MAX,
            Select::Samples(samples) | Select::FrameSamples(_, samples) => samples.clone(),
            Select::TimeNs(time) => {
                info.rate.first_sample_at(time.start)..info.rate.first_sample_at(time.end)
            }
        };
        let all = self.run.channel_frames().len();
        let frames = match select {
            Select::All => 0..all,
            Select::Frames(frames) => {
                let end = frames.end.min(all);
                frames.start.min(end)..end
            }
            Select::FrameSamples(frame, _) => {
                let start = (*frame).min(all);
                start..start.saturating_add(1).min(all)
            }
            Select::Samples(samples) => {
                // A nanosecond more: times are rounded down.
                let end_ns = info.rate.time_ns(samples.end).saturating_add(1);
                self.run.channel_frames_between(&(info.rate.time_ns(samples.start)..end_ns))
            }
            Select::TimeNs(time) => self.run.channel_frames_between(time),
        };
        let mut parts = Vec::new();
        for (frame, file, entry) in self.run.locations_of(info.id, frames)? {
            if entry.first_sample < wanted.end && entry.rows > 0 && columns(frame, entry.id) {
                self.parts_of(&mut parts, (frame, file, entry), &wanted)?;
            }
        }
        Ok(parts)
    }

    /// The wanted samples of one frame's column.
    fn parts_of(
        &self,
        parts: &mut Vec<Part>,
        (frame, file, entry): (usize, usize, ColumnEntry),
        wanted: &Range<u64>,
    ) -> Result<(), StorageError> {
        let run_file = &self.run.run_files()[file];
        let index = self.run.channel_frames()[frame].index;
        let runs = runs(run_file, index, &entry).map_err(|error| run_file.error(error))?;
        for run in runs {
            let end = run.first_sample + run.rows;
            let first = wanted.start.clamp(run.first_sample, end);
            let last = wanted.end.clamp(first, end);
            if first < last {
                parts.push(Part {
                    file,
                    frame,
                    entry,
                    row: run.row + (first - run.first_sample),
                    first_sample: first,
                    samples: last - first,
                });
            }
        }
        Ok(())
    }
}

/// The samples of a column, run by run, its entry checked.
fn runs(file: &RunFile, frame: usize, entry: &ColumnEntry) -> Result<Vec<SampleRun>, FrameError> {
    file.reader.check_column(frame, entry)?;
    let runs = file.spans(frame)?.runs(entry);
    runs.map_err(|problem| FrameError::Column {
        frame: FrameRef::Index(frame),
        column: entry.id,
        problem,
    })
}

impl std::fmt::Debug for Channel<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Channel").field(self.info()).finish()
    }
}
