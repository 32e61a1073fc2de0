//! Reduced data sets: some of a run's channels, some of them at lower rates.
//!
//! Channels are decimated through the filters of `catchment-decimate`, whose guarantees hold here:
//! aliases are suppressed, times are kept exactly, and if the filter lacks samples, at the ends and
//! beside gaps, there is no output. The borders of source frames make no difference.

use std::ops::ControlFlow;
use std::path::Path;

use catchment_decimate::{ChannelDecimator, Decimated, Design, OutputType, factor_between};
use catchment_frame::{ChannelInfo, Codings, ColumnProblem, FrameError, FrameRef, Pattern, Schema};
use catchment_model::SampleRate;
use parking_lot::Mutex;

use crate::channels::{Segment, Select};
use crate::error::StorageError;
use crate::left_out::LeftOut;
use crate::parallel;
use crate::reframe::{Done, NOT_ORDERED};
use crate::run::Run;
use crate::waiting::Waiting;
use crate::write::{
    ChannelColumn, ChannelFrame, ColumnData, Ending, NewRun, RunWriter, WriteOptions, WriteReport,
    unwritable,
};

/// A selection of channels and their rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Names that match this pattern.
    pub pattern: Pattern,
    /// The highest rate: channels above it are decimated to it, by a whole factor. `None`:
    /// unchanged.
    pub rate: Option<SampleRate>,
}

/// The specification of a reduced data set.
#[derive(Clone, Debug, Default)]
pub struct ReduceOptions {
    /// The channels: the last selection whose pattern matches a name applies.
    pub select: Vec<Selection>,
    /// Time of one frame, which begins at a multiple of it; `None`: that of the source's first one.
    pub frame_ns: Option<u64>,
    /// Whether decimated integers are rounded to their own type instead of becoming floating-point
    /// numbers.
    pub keep_dtype: bool,
    /// How columns are encoded.
    pub codings: Codings,
    /// Files. The codings here are ignored.
    pub write: WriteOptions,
}

/// The report on a reduced data set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReduceReport {
    /// What was written.
    pub write: WriteReport,
    /// The channels that were decimated.
    pub decimated: Vec<Reduction>,
    /// Numbers clipped to a limit of their type.
    pub saturated: u64,
}

/// A channel that was decimated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// Its name.
    pub name: String,
    /// Its rate in the source.
    pub rate_before: SampleRate,
    /// Its rate now.
    pub rate_after: SampleRate,
    /// Samples that went in.
    pub samples_before: u64,
    /// Samples that came out: none at the ends and beside gaps, where the filter lacks neighbours.
    pub samples_after: u64,
}

impl Reduction {
    /// Seconds of input without output.
    pub fn seconds_left_out(&self) -> f64 {
        let seconds = |samples: u64, rate: SampleRate| samples as f64 / rate.hz();
        let (before, after) = (self.samples_before, self.samples_after);
        (seconds(before, self.rate_before) - seconds(after, self.rate_after)).max(0.0)
    }
}

/// One channel being processed.
struct Reduced {
    /// Its index among the source's channels.
    index: usize,
    /// Its column in the new run.
    id: u32,
    rate: SampleRate,
    decimator: Option<ChannelDecimator>,
    decimated: Decimated,
    /// Samples that went into the decimator, and that came out.
    samples: (u64, u64),
    /// Its numbers clipped to a limit of their type.
    saturated: u64,
    /// The time by which output lags behind input.
    delay_ns: u64,
    waiting: Waiting,
}

/// Writes a reduced data set: a separate run with the same number and configuration, without
/// events. A damaged column becomes a gap: the report names it, and the copy is marked as having
/// lost data. `progress` returns whether to continue.
///
/// # Errors
/// No channel selected, a rate that cannot be reached by a whole factor, frames that are not in
/// order of time, a disk error, or a stop by `progress`.
pub fn reduce(
    run: &Run,
    folder: &Path,
    name: &str,
    options: &ReduceOptions,
    mut progress: impl FnMut(Done) -> ControlFlow<()>,
) -> Result<ReduceReport, StorageError> {
    if !run.channels_ordered() {
        return Err(unwritable("a reduced data set", NOT_ORDERED));
    }
    let (schema, channels, mut decimated) = plan(run, options)?;
    let header = run.header();
    let new = NewRun {
        run_number: header.run_number,
        config: header.config.clone(),
        emulated: header.emulated,
        ..NewRun::new(folder, name, schema)?
    };
    let write = WriteOptions { codings: options.codings.clone(), ..options.write.clone() };
    let mut writer = RunWriter::create(new, write)?;
    let frames = run.channel_frames();
    let first = frames.first().map(|frame| frame.summary.info);
    let length = first.map(|info| info.time_last_ns - info.time_first_ns).unwrap_or(1);
    let length = options.frame_ns.unwrap_or(length).max(1);
    let delay_ns = channels.iter().map(|channel| channel.delay_ns).max().unwrap_or(0);
    let channels: Vec<_> = channels.into_iter().map(Mutex::new).collect();
    let mut left_out = LeftOut::default();
    for (index, frame) in frames.iter().enumerate() {
        let taken = parallel::map(
            channels.iter().collect(),
            parallel::threads(),
            |channel: &Mutex<Reduced>| lock(channel).take(run, index),
        )?;
        taken.into_iter().flatten().try_for_each(|damage| left_out.note(damage))?;
        let complete_ns = frame.summary.info.time_last_ns.saturating_sub(delay_ns);
        write_complete(&mut writer, &channels, complete_ns, length)?;
        if progress(Done { frames: index + 1, frames_total: frames.len() }).is_break() {
            return Err(StorageError::Stopped);
        }
    }
    write_complete(&mut writer, &channels, u64::MAX, length)?;
    let counted = channels.iter().map(lock).filter(|channel| channel.decimator.is_some());
    for (reduction, channel) in decimated.iter_mut().zip(counted) {
        (reduction.samples_before, reduction.samples_after) = channel.samples;
    }
    let saturated = channels.iter().map(|channel| lock(channel).saturated).sum();
    let data_lost = run.lost_data() || !left_out.is_empty();
    let run_ended = run.ended();
    let write = writer.finish(Ending { ledger: None, run_ended, data_lost })?;
    let write = WriteReport { left_out: left_out.into_lines(), ..write };
    Ok(ReduceReport { write, decimated, saturated })
}

/// The new schema, and the treatment of each channel in it.
fn plan(
    run: &Run,
    options: &ReduceOptions,
) -> Result<(Schema, Vec<Reduced>, Vec<Reduction>), StorageError> {
    let (mut infos, mut channels, mut reductions) = (Vec::new(), Vec::new(), Vec::new());
    for (index, info) in run.channels().iter().enumerate() {
        let fits = |one: &&Selection| one.pattern.fits(&info.name);
        let Some(selection) = options.select.iter().rev().find(fits) else { continue };
        let output = if options.keep_dtype { OutputType::Same } else { OutputType::Float };
        let mut new = info.clone();
        let mut decimator = None;
        let mut delay_ns = 0;
        if let Some(rate) = selection.rate.filter(|rate| is_above(info.rate, *rate)) {
            let failed = |problem: &str| unwritable(&format!("{} at {rate}", info.name), problem);
            let factor = factor_between(info.rate, rate);
            let factor = factor.ok_or_else(|| failed("its rate is no multiple of that"))?;
            let design = Design::new(factor).map_err(|error| failed(&error.to_string()))?;
            let made = ChannelDecimator::new(&design, info.dtype, &info.shape, output);
            let made = made.map_err(|error| failed(&error.to_string()))?;
            delay_ns = info.rate.time_ns(design.half_support() + factor).saturating_add(1);
            new.dtype = made.output_dtype();
            new.rate = rate;
            decimator = Some(made);
            let (name, rate_before) = (info.name.clone(), info.rate);
            let (samples_before, samples_after) = (0, 0);
            reductions.push(Reduction {
                name,
                rate_before,
                rate_after: rate,
                samples_before,
                samples_after,
            });
        }
        let waiting = Waiting::new([new.sample_bytes() as usize]);
        let (rate, decimated) = (new.rate, Decimated::default());
        let (id, saturated) = (0, 0);
        channels.push(Reduced {
            index,
            id,
            rate,
            decimator,
            decimated,
            samples: (0, 0),
            saturated,
            delay_ns,
            waiting,
        });
        infos.push(new);
    }
    if infos.is_empty() {
        return Err(unwritable("a reduced data set", "no channel has a name that fits"));
    }
    let schema = Schema::channels(run.sources().to_vec(), infos);
    let schema = schema.map_err(|error| unwritable("schema", &error.to_string()))?;
    let ids = schema.columns.iter().filter_map(ChannelInfo::of).map(|info| info.id);
    channels.iter_mut().zip(ids).for_each(|(channel, id)| channel.id = id);
    Ok((schema, channels, reductions))
}

impl Reduced {
    /// Takes the samples of the source's next frame. If they are damaged, there are none, and the
    /// reason is returned.
    fn take(&mut self, run: &Run, frame: usize) -> Result<Option<StorageError>, StorageError> {
        let Some(channel) = run.channel_at(self.index) else { return Ok(None) };
        let segments = match channel.read_alone(&Select::Frames(frame..frame + 1)) {
            Err(error) if error.is_damage() => return Ok(Some(error)),
            read => read?,
        };
        if let Some(beyond) = segments.iter().find(|one| is_beyond_time(channel.info().rate, one)) {
            let frame = run.channel_frames()[frame];
            let file = &run.run_files()[frame.file];
            let problem = ColumnProblem::Field {
                field: "first_sample",
                expected: "with all samples at times of 64 bits",
                got: beyond.first_sample,
            };
            let (column, frame) = (channel.info().id, FrameRef::Index(frame.index));
            return Ok(Some(file.error(FrameError::Column { frame, column, problem })));
        }
        for segment in segments {
            let Some(decimator) = &mut self.decimator else {
                self.waiting.take(segment.first_sample, &segment.bytes);
                continue;
            };
            self.samples.0 += segment.samples;
            decimator
                .push(segment.first_sample, &segment.bytes, &mut self.decimated)
                .map_err(|error| unwritable(&channel.info().name, &error.to_string()))?;
        }
        if let Some(first) = self.decimated.first_sample() {
            let starts = [catchment_frame::Span { row: 0, sample: first }];
            let starts: Vec<_> = starts.iter().chain(self.decimated.spans()).copied().collect();
            let row_bytes = self.decimated.bytes().len() / self.decimated.rows() as usize;
            for (index, start) in starts.iter().enumerate() {
                let end = starts.get(index + 1).map_or(self.decimated.rows(), |next| next.row);
                let bytes = start.row as usize * row_bytes..end as usize * row_bytes;
                self.waiting.take(start.sample, &self.decimated.bytes()[bytes]);
            }
        }
        self.samples.1 += self.decimated.rows();
        self.saturated += self.decimated.saturated();
        self.decimated.clear();
        Ok(None)
    }
}

/// Writes the frames that end by that time.
fn write_complete(
    writer: &mut RunWriter,
    channels: &[Mutex<Reduced>],
    until_ns: u64,
    length: u64,
) -> Result<(), StorageError> {
    loop {
        let mut locked: Vec<_> = channels.iter().map(lock).collect();
        let filled = locked.iter().filter(|channel| channel.waiting.rows() > 0);
        let first = filled.map(|channel| channel.rate.time_ns(channel.waiting.first())).min();
        let Some(first_ns) = first else { return Ok(()) };
        let start_ns = first_ns / length * length;
        let end_ns = start_ns.saturating_add(length);
        if end_ns > until_ns {
            return Ok(());
        }
        let later: Vec<Waiting> = locked
            .iter_mut()
            .map(|channel| {
                let end = channel.rate.first_sample_at(end_ns);
                channel.waiting.split_off(end)
            })
            .collect();
        let columns = locked.iter().filter(|channel| channel.waiting.rows() > 0);
        let columns = columns.map(|channel| ChannelColumn {
            id: channel.id,
            first_sample: channel.waiting.first(),
            spans: channel.waiting.spans(),
            samples: ColumnData::Raw(&channel.waiting.columns()[0]),
        });
        let columns: Vec<_> = columns.collect();
        if columns.is_empty() {
            // Not one sample is before the end: the next round would be the same.
            return Err(unwritable("a reduced data set", "times of samples do not fit 64 bits"));
        }
        let (keys, increments) = ((0, 0), None);
        writer.write_channels(ChannelFrame { start_ns, end_ns, columns, keys, increments })?;
        locked.iter_mut().zip(later).for_each(|(channel, later)| channel.waiting = later);
    }
}

/// Whether the time of a segment's last sample exceeds 64 bits.
fn is_beyond_time(rate: SampleRate, segment: &Segment) -> bool {
    let last = segment.first_sample.saturating_add(segment.samples.saturating_sub(1));
    rate.time_ns(last) == u64::MAX
}

fn is_above(rate: SampleRate, other: SampleRate) -> bool {
    let cross = |a: SampleRate, b: SampleRate| u128::from(a.num()) * u128::from(b.den());
    cross(rate, other) > cross(other, rate)
}

fn lock(channel: &Mutex<Reduced>) -> parking_lot::MutexGuard<'_, Reduced> {
    // After a panic elsewhere the whole operation ends.
    channel.lock()
}
