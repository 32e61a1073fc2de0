//! The samples that GWF frames are made of, stretch by stretch.

use std::collections::BTreeMap;
use std::ops::Range;

use catchment_model::TimeScale;
use catchment_storage::{Frame, Run, Segment, Select};

use crate::export::ExportedChannel;
use crate::{ConvertError, NS_PER_S};

/// A channel's samples in a stretch of time.
pub(super) struct Stretch<'a> {
    /// Those up to the first gap, if there are any.
    pub(super) samples: Option<&'a [u8]>,
    pub(super) first_sample: u64,
    /// How many there are, behind gaps too.
    pub(super) count: u64,
    /// Whether some of them are there twice, or behind later ones: a clock was set back.
    pub(super) went_back: bool,
    /// How many belong there.
    pub(super) wanted: u64,
    /// Whether none is missing.
    pub(super) whole: bool,
}

/// Reads the run block by block: no less than a frame of the run, so that none is decoded often.
///
/// A column that cannot be read costs its channel that frame of the run, which then is a gap.
pub(super) struct Feed<'a> {
    run: &'a Run,
    pub(super) channels: &'a [ExportedChannel<'a>],
    pub(super) scale: TimeScale,
    /// The time of the samples that are in memory, in GPS nanoseconds.
    block: Range<u64>,
    segments: Vec<Vec<Segment>>,
    /// Why columns cannot be read, by channel and frame.
    damaged: BTreeMap<(usize, usize), String>,
}

impl<'a> Feed<'a> {
    /// Nothing is read yet.
    pub(super) fn new(run: &'a Run, channels: &'a [ExportedChannel<'a>], scale: TimeScale) -> Self {
        let (block, segments, damaged) = (0..0, Vec::new(), BTreeMap::new());
        Self { run, channels, scale, block, segments, damaged }
    }

    /// The columns that could not be read, and why.
    pub(super) fn damaged(&self) -> impl Iterator<Item = String> {
        let name = |channel: usize| &self.run.channels()[channel].name;
        self.damaged.iter().map(move |(&(channel, frame), error)| {
            format!("{}: frame {frame} of the run: {error}", name(channel))
        })
    }

    /// The first GPS time from there on at which the run has samples, by its frames; none if all
    /// are before.
    pub(super) fn next(&self, gps_ns: u64) -> Option<u64> {
        let frames = self.run.channel_frames().iter().map(|frame| frame.summary.info);
        let later = frames.filter(|info| self.scale.to_gps_ns(info.time_last_ns) > gps_ns);
        later.map(|info| self.scale.to_gps_ns(info.time_first_ns).max(gps_ns)).min()
    }

    /// The channels' samples in that GPS time.
    pub(super) fn load(&mut self, gps: &Range<u64>) -> Result<Vec<Stretch<'_>>, ConvertError> {
        let time = self.in_scale(gps)?;
        if gps.start < self.block.start || gps.end > self.block.end {
            self.block = self.block_of(gps, &time);
            let time = self.in_scale(&self.block)?;
            let frames: Vec<usize> = overlapping(self.run.channel_frames(), &time).collect();
            self.segments = self.read(&frames);
        }
        let channels = self.channels.iter().zip(&self.segments);
        Ok(channels.map(|(channel, segments)| stretch(channel, segments, &time)).collect())
    }

    /// Whether that GPS time can be loaded, before anything is written.
    pub(super) fn check(&self, gps: &Range<u64>) -> Result<(), ConvertError> {
        let time = self.in_scale(gps)?;
        self.in_scale(&self.block_of(gps, &time)).map(drop)
    }

    /// The block that is read with that time: to the end of the run's frames that it meets.
    fn block_of(&self, gps: &Range<u64>, time: &Range<u64>) -> Range<u64> {
        let frames = self.run.channel_frames();
        let ends = overlapping(frames, time).map(|frame| frames[frame].summary.info.time_last_ns);
        let end = ends.max().map_or(gps.end, |end_ns| self.scale.to_gps_ns(end_ns).max(gps.end));
        gps.start..end
    }

    /// Reads whole frames: a part of a column that is not compressed would be read unchecked.
    fn read(&mut self, frames: &[usize]) -> Vec<Vec<Segment>> {
        let indices: Vec<usize> = self.channels.iter().map(|channel| channel.index).collect();
        if let (Some(&first), Some(&last)) = (frames.first(), frames.last())
            && last - first + 1 == frames.len()
            && let Ok(segments) = self.run.read_many(&indices, &Select::Frames(first..last + 1))
        {
            return segments;
        }
        // One column that cannot be read is enough to fail them all.
        indices.iter().map(|&index| self.undamaged(index, frames)).collect()
    }

    /// The readable samples of a channel in those frames; the rest is noted as damaged.
    fn undamaged(&mut self, index: usize, frames: &[usize]) -> Vec<Segment> {
        let Some(channel) = self.run.channel_at(index) else { return Vec::new() };
        let mut segments: Vec<Segment> = Vec::new();
        for &frame in frames {
            match channel.read(&Select::Frames(frame..frame + 1)) {
                Ok(read) => read.into_iter().for_each(|segment| join(&mut segments, segment)),
                Err(error) => {
                    self.damaged.entry((index, frame)).or_insert_with(|| error.to_string());
                }
            }
        }
        segments
    }

    /// GPS time in the channels' time scale.
    fn in_scale(&self, gps: &Range<u64>) -> Result<Range<u64>, ConvertError> {
        let convert = |time_ns| TimeScale::Gps.convert_ns(self.scale, time_ns);
        let time = convert(gps.start)..convert(gps.end);
        if time.end.checked_sub(time.start) != Some(gps.end - gps.start) {
            let (start_s, end_s) = (gps.start / NS_PER_S, gps.end / NS_PER_S);
            return Err(ConvertError::LeapSecond { start_s, end_s });
        }
        Ok(time)
    }
}

/// The frames that can hold samples of that time.
fn overlapping(frames: &[Frame], time: &Range<u64>) -> impl Iterator<Item = usize> {
    frames.iter().enumerate().filter_map(|(index, frame)| {
        let info = &frame.summary.info;
        (info.time_first_ns < time.end && info.time_last_ns > time.start).then_some(index)
    })
}

/// Adds samples to those before them, where none is between.
fn join(segments: &mut Vec<Segment>, next: Segment) {
    match segments.last_mut() {
        Some(last) if last.first_sample + last.samples == next.first_sample => {
            last.samples += next.samples;
            last.bytes.extend_from_slice(&next.bytes);
        }
        _ => segments.push(next),
    }
}

fn stretch<'a>(
    channel: &ExportedChannel<'_>,
    segments: &'a [Segment],
    time: &Range<u64>,
) -> Stretch<'a> {
    let rate = channel.info.rate;
    let wanted = rate.first_sample_at(time.start)..rate.first_sample_at(time.end);
    let mut stretch = Stretch {
        samples: None,
        first_sample: wanted.start,
        count: 0,
        wanted: wanted.end - wanted.start,
        went_back: false,
        whole: false,
    };
    let width = channel.kind.bytes();
    let mut before = wanted.start;
    for segment in segments {
        let end = segment.first_sample + segment.samples;
        let first = wanted.start.max(segment.first_sample);
        let last = wanted.end.min(end);
        if first >= last {
            continue;
        }
        stretch.count += last - first;
        stretch.went_back |= first < before;
        before = before.max(last);
        if stretch.samples.is_none() {
            let from = (first - segment.first_sample) as usize * width;
            let bytes = (last - first) as usize * width;
            stretch.samples = Some(&segment.bytes[from..from + bytes]);
            stretch.first_sample = first;
        }
    }
    stretch.whole = stretch.count == stretch.wanted
        && stretch
            .samples
            .is_some_and(|samples| samples.len() as u64 == stretch.count * width as u64);
    stretch
}
