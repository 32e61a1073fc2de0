//! Rewrites runs with other frames, files or codecs; the data are bit for bit the same.
//!
//! Frames of channels are cut at multiples of a duration, those of events at a size; or they stay
//! unchanged. A frame that is unchanged, including its codecs, is copied without decoding, but its
//! checksums are still checked. A damaged column of a channel becomes a gap.

use std::collections::HashSet;
use std::ops::{ControlFlow, Range};
use std::path::Path;

use catchment_builder::{Floods, TimeConfig};
use catchment_frame::{
    Codec, Codings, ColumnCoding, ColumnEntry, FrameKind, frame_ledger, is_in_base,
};
use catchment_model::Ledger;

use crate::base;
use crate::channels::Select;
use crate::error::StorageError;
use crate::events_buffer::EventsBuffer;
use crate::fetch::{self, Plan};
use crate::folders;
use crate::frame_index;
use crate::left_out::{Checked, LeftOut, channel_entries, stored};
use crate::parallel;
use crate::regroup;
use crate::run::{Frame, Run};
use crate::write::{
    ChannelColumn, ChannelFrame, ColumnData, Ending, Make, MakeBytes, NewRun, RunWriter,
    StoredColumn, WriteOptions, WriteReport, unwritable,
};

/// How to rewrite a run.
#[derive(Clone, Debug, Default)]
pub struct ReframeOptions {
    /// Time of one frame of channels, which begins at a multiple of it; `None`: unchanged.
    pub frame_ns: Option<u64>,
    /// Approximate raw bytes of one frame of events; `None`: unchanged.
    pub frame_bytes: Option<u64>,
    /// Other codecs; `None`: each column keeps its own.
    pub codings: Option<Codings>,
    /// Events by time that are built again; `None`: unchanged.
    pub rebuilt: Option<Rebuilt>,
    /// Files. The codings here are ignored.
    pub write: WriteOptions,
}

/// How events by time are built again, from the fragments of each frame.
#[derive(Clone, Debug)]
pub struct Rebuilt {
    /// The window, and who opens events. Fragments that are in none are kept, as late ones are.
    pub time: TimeConfig,
    /// Which sources flood at the run's start: none.
    pub floods: Floods,
    /// How long before the key of an event, as it was recorded, its fragments may be.
    pub before_ns: u64,
    /// By source, what is added to its times: where its offset was wrong. Empty: nothing.
    pub shifts_ns: Vec<i64>,
    /// The new run's configuration.
    pub config: String,
    /// Which set of the run's data the events are from now on.
    pub variant: u32,
    /// Whether to copy the payload. Otherwise the new files have index columns alone, and the run
    /// is their base.
    pub copy: bool,
}

/// The progress of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Frames of the source read so far.
    pub frames: usize,
    /// All frames of the source.
    pub frames_total: usize,
}

/// Rewrites a run into a folder: the same identity, samples, ledger and, unless they are built
/// again, events. Trends are not
/// copied. A damaged column of a channel becomes a gap in the copy: the report names it, and the
/// copy is marked as having lost data. `progress` returns whether to continue.
///
/// # Errors
/// Unreadable events, existing files of that name, a disk error, a stop by `progress`, or a run
/// that was opened from several folders. With a base: a path that is not UTF-8, or frames that are
/// not in the order of their numbers. Payload that stays in a base is not read: damage to it is no
/// error and not in the report, and the copy is not marked. [`verify`](crate::verify()) of the copy
/// finds it.
pub fn reframe(
    run: &Run,
    folder: &Path,
    name: &str,
    options: &ReframeOptions,
    mut progress: impl FnMut(Done) -> ControlFlow<()>,
) -> Result<WriteReport, StorageError> {
    folders::check_one(run, "reframing")?;
    if options.frame_ns == Some(0) || options.frame_bytes == Some(0) {
        return Err(unwritable("a frame", "it must be longer than nothing"));
    }
    let mut new = NewRun::again(run.header(), folder, name);
    if let Some(Rebuilt { config, variant, copy, .. }) = &options.rebuilt {
        (new.config, new.variant) = (config.clone(), *variant);
        if !copy {
            // Its path is relative to a folder that is there.
            std::fs::create_dir_all(folder)
                .map_err(|source| StorageError::Write { path: folder.to_owned(), source })?;
            new.base = Some(base::naming(run, folder)?);
        }
        new.schema = regroup::schema(new.schema);
    }
    let codings = options.codings.clone().unwrap_or_default();
    let writer = RunWriter::create(new, WriteOptions { codings, ..options.write.clone() })?;
    let frames = frame_index::locations(run.run_files(), run.copies());
    let done = Done { frames: 0, frames_total: frames.len() };
    let mut reframer =
        Reframer::new(run, options, writer, Report { done, progress: &mut progress });
    for (file, index) in frames {
        reframer.take(file, index)?;
        reframer.report.done.frames += 1;
        reframer.report.go_on()?;
    }
    reframer.finish()
}

/// Receives the progress.
struct Report<'a> {
    done: Done,
    progress: &'a mut dyn FnMut(Done) -> ControlFlow<()>,
}

impl Report<'_> {
    fn go_on(&mut self) -> Result<(), StorageError> {
        match (self.progress)(self.done) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(StorageError::Stopped),
        }
    }
}

struct Reframer<'a> {
    run: &'a Run,
    options: &'a ReframeOptions,
    report: Report<'a>,
    writer: RunWriter,
    events: EventsBuffer,
    /// Of events that are built again: which sources flood.
    floods: Option<Floods>,
    /// Ledger counts from frames of channels that are in no written frame.
    counted: Ledger,
    /// Where the next frame of channels begins.
    next_ns: Option<u64>,
    /// Where the latest frame read ends.
    end_ns: u64,
    /// Columns whose codec was adopted.
    codings: HashSet<u32>,
    checked: Checked,
    left_out: LeftOut,
}

impl<'a> Reframer<'a> {
    fn new(
        run: &'a Run,
        options: &'a ReframeOptions,
        writer: RunWriter,
        report: Report<'a>,
    ) -> Self {
        let sources = run.sources().len();
        let rebuilt = options.rebuilt.as_ref();
        let in_base = rebuilt.is_some_and(|rebuilt| !rebuilt.copy);
        let shifts_ns = rebuilt.map_or(Vec::new(), |rebuilt| rebuilt.shifts_ns.clone());
        let frames = run.channel_frames().iter();
        let start_ns = frames.map(|frame| frame.summary.info.time_first_ns).min();
        let next_ns = options.frame_ns.zip(start_ns).map(|(length, start)| start / length * length);
        Self {
            run,
            options,
            report,
            writer,
            events: EventsBuffer::new(sources, in_base, shifts_ns),
            floods: rebuilt.map(|rebuilt| rebuilt.floods.clone()),
            counted: Ledger::new(sources),
            next_ns,
            end_ns: 0,
            codings: HashSet::new(),
            checked: Checked::default(),
            left_out: LeftOut::default(),
        }
    }

    /// Processes the next frame of the source.
    fn take(&mut self, file: usize, index: usize) -> Result<(), StorageError> {
        let run_file = &self.run.run_files()[file];
        let summary = run_file.reader.frames()[index];
        let kind = summary.info.kind;
        if !matches!(kind, FrameKind::Events | FrameKind::Channels | FrameKind::SKIPPED) {
            return Ok(());
        }
        let (ledger, problems) = frame_ledger(&run_file.reader, index);
        let problem = problems.into_iter().next().map(|problem| run_file.error(problem));
        if kind == FrameKind::SKIPPED {
            // What it stands for is not there, but counted.
            problem.map_or(Ok(()), |problem| self.left_out.note(problem))?;
            self.counted.add(&ledger);
            return Ok(());
        }
        if self.options.codings.is_none() {
            self.keep_codings(file, index)?;
        }
        if kind == FrameKind::Events {
            let taken = match problem {
                Some(problem) => Err(problem),
                None => self.take_events(file, index, &ledger),
            };
            return taken.map_err(no_gap_of_events);
        }
        // Such a frame's counts are its own: without it the ledger of the others balances.
        problem.map_or(Ok(()), |problem| self.left_out.note(problem))?;
        self.counted.add(&ledger);
        if summary.info.rows == 0 {
            return Ok(());
        }
        let position = self.run.channel_frame_at(file, index).expect("a frame that is read");
        match self.options.frame_ns {
            None => self.write_frame(position).map(drop),
            Some(length) => {
                self.end_ns = self.end_ns.max(summary.info.time_last_ns);
                self.write_until(self.end_ns, length)
            }
        }
    }

    fn take_events(
        &mut self,
        file: usize,
        index: usize,
        ledger: &Ledger,
    ) -> Result<(), StorageError> {
        self.events.count(ledger);
        if let Some(position) = self.run.frame_at(file, index) {
            self.events.add(self.run, position)?;
        }
        if let (Some(rebuilt), Some(floods)) = (&self.options.rebuilt, &mut self.floods) {
            let rows = self.events.regroup(rebuilt, floods, self.run.sources())?;
            self.events.settle(rows, self.run.sources());
            return self.events.write_first(&mut self.writer, rows);
        }
        match self.options.frame_bytes {
            None => self.events.write_all(&mut self.writer),
            Some(bytes) => self.events.write_full(&mut self.writer, bytes),
        }
    }

    /// Makes columns keep their codec.
    fn keep_codings(&mut self, file: usize, index: usize) -> Result<(), StorageError> {
        let file = &self.run.run_files()[file];
        for entry in file.reader.columns(index).map_err(|error| file.error(error))? {
            let is_plain = entry.codec == Codec::None || is_in_base(entry.codec);
            if !is_plain && self.codings.insert(entry.id) {
                self.writer.set_coding(entry.id, ColumnCoding::Fixed(entry.codec.into()));
            }
        }
        Ok(())
    }

    /// Writes the frames of channels that end by that time.
    fn write_until(&mut self, until_ns: u64, length: u64) -> Result<(), StorageError> {
        while let Some(start) = self.next_ns
            && let end = start.saturating_add(length)
            && end <= until_ns
        {
            self.report.go_on()?;
            let is_empty = !self.write_stretch(start, end)?;
            let next = self.next_time(end, is_empty)?;
            // No frame begins after the last possible time.
            self.next_ns = next.map(|next| next / length * length).filter(|next| *next > start);
        }
        Ok(())
    }

    /// The time from `from_ns` on at which a frame has samples or, unless `at_sample`, may have
    /// some: gaps between frames may be long, and those in a frame as long as its header allows.
    fn next_time(&self, from_ns: u64, at_sample: bool) -> Result<Option<u64>, StorageError> {
        let mut next: Option<u64> = None;
        for frame in self.run.channel_frames() {
            let info = frame.summary.info;
            let time = match info.time_first_ns {
                _ if info.time_last_ns <= from_ns => None,
                first if first < from_ns && at_sample => {
                    self.first_sample_ns(from_ns..info.time_last_ns)?
                }
                first => Some(first.max(from_ns)),
            };
            next = next.into_iter().chain(time).min();
        }
        Ok(next)
    }

    /// The time of the first sample in a range of time.
    fn first_sample_ns(&self, time: Range<u64>) -> Result<Option<u64>, StorageError> {
        let (run, select) = (self.run, Select::TimeNs(time));
        let intact = |frame, column| self.checked.is_intact(frame, column);
        let mut next: Option<u64> = None;
        for channel in (0..run.channels().len()).filter_map(|index| run.channel_at(index)) {
            let plan = channel.plan_of(&select, &intact)?;
            let first = plan.parts.iter().map(|part| part.first_sample).min();
            next = next.into_iter().chain(first.map(|first| plan.rate.time_ns(first))).min();
        }
        Ok(next)
    }

    /// Writes all samples of an interval of time as one frame; returns false if there are none.
    fn write_stretch(&mut self, start_ns: u64, end_ns: u64) -> Result<bool, StorageError> {
        let time = start_ns..end_ns;
        let candidates = self.run.channel_frames_between(&time);
        let meets = |frame: &Frame| {
            frame.summary.info.time_first_ns < end_ns && start_ns < frame.summary.info.time_last_ns
        };
        let frames = &self.run.channel_frames()[candidates.clone()];
        let mut meeting = candidates.zip(frames).filter(|(_, frame)| meets(frame));
        for (position, _) in meeting.clone() {
            self.checked.check(self.run, position, &mut self.left_out)?;
        }
        if let (Some((position, frame)), None) = (meeting.next(), meeting.next()) {
            let info = frame.summary.info;
            if (info.time_first_ns, info.time_last_ns) == (start_ns, end_ns) {
                return self.write_frame(position);
            }
        }
        self.write_decoded(&Select::TimeNs(time), (start_ns, end_ns), (0, 0))
    }

    /// Writes one frame unchanged, or with other codecs; returns false if none of it can be read.
    fn write_frame(&mut self, position: usize) -> Result<bool, StorageError> {
        let frame = self.run.channel_frames()[position];
        let info = frame.summary.info;
        if self.options.codings.is_some() || self.options.write.trends.is_some() {
            let time = (info.time_first_ns, info.time_last_ns);
            let select = Select::Frames(position..position + 1);
            self.checked.check(self.run, position, &mut self.left_out)?;
            return self.write_decoded(&select, time, (info.key_first, info.key_last));
        }
        self.copy(&frame)
    }

    fn write_decoded(
        &mut self,
        select: &Select,
        (start_ns, end_ns): (u64, u64),
        keys: (u64, u64),
    ) -> Result<bool, StorageError> {
        let run = self.run;
        let mut plans = Vec::new();
        let intact = |frame, column| self.checked.is_intact(frame, column);
        for position in 0..run.channels().len() {
            let Some(channel) = run.channel_at(position) else { continue };
            let plan = channel.plan_of(select, &intact)?;
            if !plan.is_in_order() {
                return Err(unwritable("frames of another length", NOT_ORDERED));
            }
            if !plan.parts.is_empty() {
                let spans = plan.spans();
                plans.push((channel.info().id, plan, spans));
            }
        }
        let makers: Vec<Box<MakeBytes<'_>>> =
            plans.iter().map(|(_, plan, _)| make(run, plan)).collect();
        let columns = plans.iter().zip(&makers).map(|((id, plan, spans), make)| ChannelColumn {
            id: *id,
            first_sample: plan.parts[0].first_sample,
            spans,
            samples: ColumnData::Make(Make { raw_bytes: plan.bytes() as usize, make }),
        });
        let columns: Vec<_> = columns.collect();
        if columns.is_empty() {
            return Ok(false);
        }
        let increments = Some(&self.counted);
        self.writer.write_channels(ChannelFrame { start_ns, end_ns, columns, keys, increments })?;
        self.counted = Ledger::new(self.counted.sources.len());
        Ok(true)
    }

    /// Copies a frame's columns in stored form.
    fn copy(&mut self, frame: &Frame) -> Result<bool, StorageError> {
        let file = &self.run.run_files()[frame.file];
        let fail = |error| file.error(error);
        let mut read = Vec::new();
        let columns = channel_entries(self.run, frame)?;
        for (entry, bytes) in parallel::map(columns, parallel::threads(), |entry| {
            Ok((entry, stored(self.run, frame, &entry)))
        })? {
            read.extend(self.left_out.or_gap(bytes)?.map(|bytes| (entry, bytes)));
        }
        if read.is_empty() {
            return Ok(false);
        }
        let (entries, stored): (Vec<ColumnEntry>, Vec<Vec<u8>>) = read.into_iter().unzip();
        let spans = file.reader.spans(frame.index).map_err(fail)?;
        let gaps = entries.iter().map(|entry| {
            let runs = spans.runs(entry).map_err(|problem| {
                fail(catchment_frame::FrameError::Column {
                    frame: catchment_frame::FrameRef::Index(frame.index),
                    column: entry.id,
                    problem,
                })
            })?;
            let later = runs.iter().skip(1);
            Ok(later.map(|run| crate::Span { row: run.row, sample: run.first_sample }).collect())
        });
        let gaps: Vec<Vec<crate::Span>> = gaps.collect::<Result<_, StorageError>>()?;
        let columns = entries.iter().zip(&stored).zip(&gaps).map(|((entry, bytes), spans)| {
            let (codec, raw_bytes) = (entry.codec, entry.raw_bytes);
            let stored = StoredColumn { codec, raw_bytes, bytes, checksums: None };
            let samples = ColumnData::Stored(stored);
            ChannelColumn { id: entry.id, first_sample: entry.first_sample, spans, samples }
        });
        let info = frame.summary.info;
        let columns = columns.collect();
        self.writer.write_channels(ChannelFrame {
            start_ns: info.time_first_ns,
            end_ns: info.time_last_ns,
            columns,
            keys: (info.key_first, info.key_last),
            increments: Some(&self.counted),
        })?;
        self.counted = Ledger::new(self.counted.sources.len());
        Ok(true)
    }

    fn finish(mut self) -> Result<WriteReport, StorageError> {
        if let Some(length) = self.options.frame_ns {
            self.write_until(u64::MAX, length)?;
        }
        if self.options.rebuilt.is_some() {
            self.events.settle(self.events.keys.len(), self.run.sources());
        }
        self.events.write_all(&mut self.writer)?;
        self.writer.write_increments(FrameKind::Channels, &self.counted)?;
        self.writer.write_increments(FrameKind::Events, self.events.counted())?;
        // What was missing in an event may be in one that was built again; what is lost otherwise
        // is not.
        let by_ledger = |run: &Run| {
            let ledger = run.recorded_ledger()?;
            Ok::<_, StorageError>(ledger.is_some_and(|ledger| ledger.balance().lost_data()))
        };
        let was_lost = match self.options.rebuilt.is_some() && by_ledger(self.run)? {
            false => self.run.lost_data(),
            true => {
                let is_damaged = !self.run.damage().is_empty() || self.run.frames_missing() > 0;
                is_damaged || self.writer.ledger().balance().lost_data()
            }
        };
        let data_lost = was_lost || !self.left_out.is_empty();
        let run_ended = self.run.ended();
        let written = self.writer.finish(Ending { ledger: None, run_ended, data_lost })?;
        Ok(WriteReport { left_out: self.left_out.into_lines(), ..written })
    }
}

/// Why damaged events do not become gaps: the ledger accounts for every fragment, and has no entry
/// for fragments that were recorded and then lost.
fn no_gap_of_events(error: StorageError) -> StorageError {
    if !error.is_damage() {
        return error;
    }
    let problem = format!(
        "{error}; without these fragments the books would not balance. The other frames can be \
         read with `catchment read --frames`, and `catchment inspect --verify` lists all damage"
    );
    unwritable("the events", &problem)
}

/// Why frames cannot be cut or joined.
pub(crate) const NOT_ORDERED: &str = "the frames do not follow each other in time, as where a \
    clock was set back. As they are they can be copied: `catchment reframe` without --frame";

/// Reads a plan's samples when their turn comes.
pub(crate) fn make<'a>(run: &'a Run, plan: &'a Plan) -> Box<MakeBytes<'a>> {
    Box::new(move |out: &mut [u8]| fetch::fetch_into(run, plan, out))
}
