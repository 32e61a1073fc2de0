//! Continuous channels of a run: their list, their positions, and reading them.
//!
//! A channel is read as [`Segment`]s: pieces without a gap, across the borders of frames and files.
//! The TOC gives the position of each frame's samples; samples themselves are read only as
//! requested: for a raw column, the rows and what is needed to check them; for an encoded one, all
//! its stored bytes.

use std::ops::Range;

use catchment_frame::{ChannelInfo, ColumnEntry, FrameError, FrameRef, SampleRun};

use crate::error::StorageError;
use crate::fetch::{self, Part};
use crate::open::RunFile;
use crate::parallel;
use crate::run::{Frame, Run};

/// The part of a channel to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Select {
    /// Everything.
    All,
    /// Samples in that range of time: nanoseconds in the channel's time scale.
    TimeNs(Range<u64>),
    /// Samples with these numbers.
    Samples(Range<u64>),
    /// Samples in these frames: indices into [`Run::channel_frames`].
    Frames(Range<usize>),
    /// Samples with these numbers in one frame: another may have the same numbers, after a clock
    /// was set back.
    FrameSamples(usize, Range<u64>),
}

/// Samples without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The number of the first one.
    pub first_sample: u64,
    /// The number of samples.
    pub samples: u64,
    /// Time of the first one: nanoseconds in the channel's time scale.
    pub start_ns: u64,
    /// Their bytes, little-endian. Frequent readers return the memory with
    /// [`give_back`](crate::give_back) after use.
    pub bytes: Vec<u8>,
}

/// The position of samples without a gap in one frame.
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
    /// The number of samples.
    pub samples: u64,
}

impl Piece {
    /// The number after the last sample.
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

/// Channels that are not in the run's files, but in another target's.
impl Run {
    /// The run's channels that are not in its files, but in another target's.
    pub fn channels_not_stored(&self) -> &[ChannelInfo] {
        &self.run_files()[0].reader.channel_columns().not_stored
    }

    /// The description of a channel, stored or not, by its index: those stored come first.
    pub fn channel_info(&self, index: usize) -> Option<&ChannelInfo> {
        self.channels().iter().chain(self.channels_not_stored()).nth(index)
    }

    /// Checks that a channel is not one whose samples are in another target's files.
    ///
    /// # Errors
    /// [`StorageError::NotStored`].
    pub fn check_channel_stored(&self, name: &str) -> Result<(), StorageError> {
        let channel = self.channels_not_stored().iter().find(|channel| channel.name == name);
        channel.map_or(Ok(()), |channel| Err(self.not_stored("channel", &channel.name)))
    }

    /// The channel with that index, none if there is none.
    ///
    /// # Errors
    /// [`StorageError::NotStored`].
    pub fn stored_channel(&self, index: usize) -> Result<Option<Channel<'_>>, StorageError> {
        let info = self.channel_info(index);
        info.map_or(Ok(()), |info| self.check_channel_stored(&info.name))?;
        Ok(self.channel_at(index))
    }
}

impl<'a> Channel<'a> {
    pub(crate) fn new(run: &'a Run, info: &'a ChannelInfo) -> Self {
        Self { run, info }
    }

    /// Its description.
    pub fn info(&self) -> &'a ChannelInfo {
        self.info
    }

    /// The positions of its samples, in the order of the frames. Reads no samples.
    ///
    /// # Errors
    /// An unreadable or impossible index.
    pub fn pieces(&self) -> Result<Vec<Piece>, StorageError> {
        self.pieces_in(&Select::All)
    }

    /// As [`Channel::pieces`], for a selection.
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

    /// Reads the columns of these pieces in stored form and checks their checksums, for callers
    /// that publish their positions.
    ///
    /// # Errors
    /// A column that is damaged or cannot be read.
    pub fn check_stored(&self, pieces: &[Piece]) -> Result<(), StorageError> {
        let check = |piece: &Piece| {
            let frame = &self.run.channel_frames()[piece.frame];
            let file = &self.run.run_files()[frame.file];
            let column = file.reader.stored_column(frame.index, &piece.entry);
            column.and_then(|column| column.verify_stored()).map_err(|error| file.error(error))
        };
        parallel::map(pieces.iter().collect(), parallel::threads(), check).map(drop)
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

    /// As [`Channel::plan`], only for the columns that `wanted` selects by the frame's index in
    /// [`Run::channel_frames`] and their number.
    pub(crate) fn plan_of(
        &self,
        select: &Select,
        wanted: &dyn Fn(usize, u32) -> bool,
    ) -> Result<fetch::Plan, StorageError> {
        let info = self.info();
        let parts = self.parts(select, wanted)?;
        Ok(fetch::Plan { rate: info.rate, row_bytes: info.sample_bytes(), parts })
    }

    /// The channel's columns in some of the channel frames: the frame's index, the file, the entry.
    fn locations(
        &self,
        range: Range<usize>,
    ) -> Result<Vec<(usize, usize, ColumnEntry)>, StorageError> {
        let mut locations = Vec::new();
        let mut rest = &self.run.channel_frames()[range.clone()];
        let mut position = range.start;
        while let Some(first) = rest.first() {
            // A copy is returned in the place of the first, between frames of another file.
            let follows =
                |pair: &&[Frame]| pair[0].file == pair[1].file && pair[0].index < pair[1].index;
            let here = 1 + rest.windows(2).take_while(follows).count();
            let (frames, later) = rest.split_at(here);
            let listed = self.run.run_files()[first.file].locations(self.info.id)?;
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

    /// What to read from each frame.
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
                // One nanosecond more, because times are rounded down.
                let end_ns = info.rate.time_ns(samples.end).saturating_add(1);
                self.run.channel_frames_between(&(info.rate.time_ns(samples.start)..end_ns))
            }
            Select::TimeNs(time) => self.run.channel_frames_between(time),
        };
        let mut parts = Vec::new();
        for (frame, file, entry) in self.locations(frames)? {
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

/// The samples of a column, run by run, with its entry checked.
fn runs(file: &RunFile, frame: usize, entry: &ColumnEntry) -> Result<Vec<SampleRun>, FrameError> {
    file.reader.stored_column(frame, entry)?.check()?;
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
