//! The files of trends: rows of seconds and of minutes, for any number of series, as runs.
//!
//! ```text
//! rows ─► trends/second/tail-10 ─► trends/second/tail-180 ─► trends/second
//!          frames of 10 rows        of 180                    of 3,600: an hour
//! ```
//!
//! Rows made offline wait in memory until their hour (day) is complete. While recording, rows must
//! be readable at once and survive a kill, but years must be readable in few pieces: a run of short
//! frames, a *tail*, therefore holds the rows that are not yet in a longer frame. When a longer
//! frame is complete, it is made from the tail's frames, and once it is durable, the tail restarts.
//! So a row is stored once or, for a moment, twice, and is never missing: a reader that reads tails
//! first, and takes from each only the rows after those of the longer frames, gets every row once.
//!
//! Frames begin and end at multiples of their rows, and contain the rows that exist.
//!
//! Limits: a row of a series takes 36 bytes; frames are shortened to stay below 1 GiB. During disk
//! errors, [`ROWS_WAITING`] rows of each series wait, and the oldest beyond these are lost and
//! counted; callers may continue to call.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use catchment_disk::FaultControl;
use catchment_frame::{ChannelInfo, Numbering, Schema};
use catchment_model::{RunId, SampleRate};
use catchment_trends::{Completed, Row, Statistic};
use parking_lot::Mutex;

use crate::channels::{Segment, Select};
use crate::error::StorageError;
use crate::open;
use crate::run::Run;
use crate::trend::{TrendKind, tail_name};
use crate::waiting::Waiting;
use crate::write::{
    ChannelColumn, ChannelFrame, ColumnData, Ending, Growing, Make, MakeBytes, NewRun, RunWriter,
    TOGETHER_BYTES, WriteOptions, WriteReport, unwritable,
};
use catchment_frame::Codings;

/// Rows of each series that wait in memory during disk errors.
pub const ROWS_WAITING: usize = 256;

/// Rows of a frame: in the long files, and in each tail, in decreasing order. Each is a multiple of
/// the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrendLengths {
    /// Of seconds.
    pub second: Vec<u64>,
    /// Of minutes.
    pub minute: Vec<u64>,
}

impl TrendLengths {
    /// For rows made offline: an hour and a day.
    pub fn offline() -> Self {
        Self { second: vec![3_600], minute: vec![1_440] }
    }

    /// For rows to be read at once.
    pub fn recording() -> Self {
        Self { second: vec![3_600, 180, 10], minute: vec![1_440, 60, 1] }
    }
}

/// Trends to be written.
#[derive(Clone, Debug)]
pub struct NewTrends {
    /// The folder in which the folders `second` and `minute` are made.
    pub folder: PathBuf,
    /// The prefix of the names of the run's files.
    pub name: String,
    /// The run's identity.
    pub run: RunId,
    /// The run's number for people.
    pub run_number: u64,
    /// The run's configuration, or none.
    pub config: String,
    /// Whether the run's data are emulated.
    pub emulated: bool,
    /// The series of the rows: name, unit and time scale are used.
    pub series: Vec<ChannelInfo>,
    /// How columns of the long files are encoded.
    pub codings: Codings,
    /// The lengths of frames. If there are tails, all files are read while they grow.
    pub lengths: TrendLengths,
    /// Faults of files with tails, for tests.
    pub faults: Option<FaultControl>,
    /// Whether they go on behind files that are there, without tails.
    pub continues: bool,
}

/// The two runs of trends.
#[derive(Debug)]
pub struct TrendFiles {
    second: TrendRun,
    minute: TrendRun,
}

/// The written trends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrendFilesReport {
    /// The run of seconds.
    pub second: WriteReport,
    /// The run of minutes.
    pub minute: WriteReport,
}

impl TrendFiles {
    /// The most memory that these files take if there are tails: waiting rows, columns in progress,
    /// tables of contents.
    pub fn memory_bytes(series: usize) -> usize {
        let frames = (series * 3_600 * ROW_BYTES).min(2 * TOGETHER_BYTES);
        let tables = (series * 54 * 5 * 80).min(2 * TOC_BYTES as usize);
        (2 << 20) + 2 * series * ROWS_WAITING * ROW_BYTES + frames + tables
    }

    /// Begins the files.
    ///
    /// # Errors
    /// Existing trends, or a disk error.
    pub fn create(trends: &NewTrends) -> Result<Self, StorageError> {
        Ok(Self {
            second: TrendRun::create(trends, TrendKind::Second, &trends.lengths.second)?,
            minute: TrendRun::create(trends, TrendKind::Minute, &trends.lengths.minute)?,
        })
    }

    /// Takes rows of a series, after all its earlier ones.
    pub fn add(&mut self, series: usize, completed: &Completed) {
        self.second.add(series, &completed.seconds);
        self.minute.add(series, &completed.minutes);
    }

    /// Writes complete frames: no series gets a row before that second any more.
    ///
    /// # Errors
    /// A disk error. Rows then wait, and are tried again with later ones.
    pub fn advance(&mut self, until_second: u64) -> Result<(), StorageError> {
        let second = self.second.advance(until_second);
        second.and(self.minute.advance(until_second / 60))
    }

    /// Writes the rest and closes the files; no tails are left.
    ///
    /// # Errors
    /// A disk error. Everything written so far stays readable, including tails.
    pub fn finish(&mut self, run_ended: bool) -> Result<TrendFilesReport, StorageError> {
        self.finish_with(run_ended, false)
    }

    /// The same; `data_lost` means that the run lacks samples.
    pub(crate) fn finish_with(
        &mut self,
        run_ended: bool,
        data_lost: bool,
    ) -> Result<TrendFilesReport, StorageError> {
        let ending = Ending { run_ended, data_lost, ..Ending::default() };
        let second = self.second.finish(ending.clone());
        let minute = self.minute.finish(ending);
        Ok(TrendFilesReport { second: second?, minute: minute? })
    }

    /// Rows that are in no file and never will be, because disk errors lasted too long.
    pub fn rows_lost(&self) -> u64 {
        self.second.rows_lost + self.minute.rows_lost
    }
}

/// One of the two runs.
#[derive(Debug)]
struct TrendRun {
    /// The long files, and the tails.
    levels: Vec<Level>,
    /// Columns of each series, in the order of [`Statistic::ALL`].
    ids: Vec<[u32; 5]>,
    rate: SampleRate,
    waiting: Vec<Waiting>,
    /// After an error: nothing is tried before rows up to here are complete.
    retry_at: u64,
    rows_lost: u64,
}

/// Frames of one length.
#[derive(Debug)]
struct Level {
    folder: PathBuf,
    writer: RunWriter,
    /// Rows of a whole frame.
    rows: u64,
    /// All rows before that number are in it, or in a longer frame, or lost.
    end: u64,
}

impl TrendRun {
    fn create(trends: &NewTrends, kind: TrendKind, lengths: &[u64]) -> Result<Self, StorageError> {
        let rate = SampleRate::new(1, kind.period_ns() / 1_000_000_000).expect("both are in range");
        let columns = trends.series.iter().flat_map(|series| {
            Statistic::ALL.map(|statistic| ChannelInfo {
                unit: if statistic == Statistic::N { String::new() } else { series.unit.clone() },
                time_scale: series.time_scale,
                ..ChannelInfo::new(
                    format!("{}.{}", series.name, statistic.suffix()),
                    statistic.dtype(),
                    rate,
                )
            })
        });
        let schema = Schema::channels(Vec::new(), columns.collect())
            .map_err(|problem| unwritable("trend", &problem.to_string()))?;
        let ids: Vec<u32> =
            schema.columns.iter().filter_map(ChannelInfo::of).map(|c| c.id).collect();
        let ids = ids.as_chunks::<5>().0.to_vec();
        let lengths = shortened(lengths, ids.len());
        let mut levels = Vec::new();
        for (index, &rows) in lengths.iter().enumerate() {
            let folder = trends.folder.join(kind.name());
            let folder = if index == 0 { folder } else { folder.join(tail_name(rows)) };
            let run = NewRun {
                folder: folder.clone(),
                name: format!("{}-{}", trends.name, kind.name()),
                run: trends.run,
                run_number: trends.run_number,
                config: trends.config.clone(),
                emulated: trends.emulated,
                schema: schema.clone(),
                numbering: Numbering::File,
                variant: 0,
                stream: 0,
                superseded: Vec::new(),
                base: None,
            };
            let growing = (lengths.len() > 1)
                .then(|| Growing { durable: index + 1 < lengths.len(), listed: index == 0 });
            // Only the disk's own faults apply to files that are not read before they are whole.
            let faults = growing.as_ref().and(trends.faults.clone());
            let first_index = match index == 0 && trends.continues {
                true => open::next_index(std::slice::from_ref(&folder)),
                false => 0,
            };
            let options = WriteOptions {
                first_index,
                // Tails are read and deleted soon.
                codings: if index == 0 { trends.codings.clone() } else { Codings::default() },
                file_time_ns: growing.as_ref().map(|_| kind.file_ns()),
                toc_bytes: if growing.is_some() { TOC_BYTES } else { 64 << 20 },
                growing,
                faults,
                ..WriteOptions::small()
            };
            levels.push(Level { folder, writer: RunWriter::create(run, options)?, rows, end: 0 });
        }
        let waiting = ids.iter().map(|_| waiting()).collect();
        Ok(Self { levels, ids, rate, waiting, retry_at: 0, rows_lost: 0 })
    }

    fn add(&mut self, series: usize, rows: &[Row]) {
        let waiting = &mut self.waiting[series];
        rows.iter().for_each(|row| waiting.number(row.index, 1));
        for (statistic, column) in Statistic::ALL.into_iter().zip(waiting.columns_mut()) {
            statistic.append(rows, column);
        }
    }

    fn advance(&mut self, until: u64) -> Result<(), StorageError> {
        if until < self.retry_at {
            return Ok(());
        }
        let written = self.write_complete(until);
        if written.is_err() {
            let shortest = self.levels.last().map_or(1, |level| level.rows);
            self.retry_at = until.saturating_add(shortest);
            self.drop_oldest(shortest);
        }
        written
    }

    fn finish(&mut self, ending: Ending) -> Result<WriteReport, StorageError> {
        let written = self.write_complete(u64::MAX);
        if written.is_err() {
            self.rows_lost += self.rows_waiting();
        }
        written?;
        for upper in (0..self.levels.len() - 1).rev() {
            self.lengthen(upper, u64::MAX)?;
        }
        let tails = self.levels.split_off(1);
        let long = self.levels.pop().expect("the long files");
        for Level { folder, writer, .. } in tails {
            drop(writer);
            // Everything in it is in the long files, so leaving it does no harm.
            let _deleted = std::fs::remove_dir_all(folder);
        }
        long.writer.finish(ending)
    }

    /// Writes all frames whose rows are complete, that is, before `until`.
    fn write_complete(&mut self, until: u64) -> Result<(), StorageError> {
        loop {
            let filled = self.waiting.iter().filter(|one| one.rows() > 0);
            let Some(first) = filled.map(Waiting::first).min() else { return Ok(()) };
            let Some(end) = self.frame_end(first, until) else { return Ok(()) };
            self.write_waiting(first, end)?;
            for upper in (0..self.levels.len() - 1).rev() {
                let rows = self.levels[upper].rows;
                self.lengthen(upper, end / rows * rows)?;
            }
        }
    }

    /// Where a frame that begins with a row must end, if it is complete. Tails' frames are written
    /// as late as possible, so that they are few, and do not cross the border of a longer one.
    fn frame_end(&self, first: u64, until: u64) -> Option<u64> {
        let (shortest, tails) = self.levels.split_last().expect("the long files");
        let rows = tails.last().map_or(shortest.rows, |longer| longer.rows);
        let border = (first / rows + 1) * rows;
        let due = !tails.is_empty() && until.saturating_sub(first) >= shortest.rows;
        if until >= border { Some(border) } else { due.then_some(until) }
    }

    /// Writes a frame of the waiting rows before `end`.
    fn write_waiting(&mut self, begin: u64, end: u64) -> Result<(), StorageError> {
        let later: Vec<Waiting> = self.waiting.iter_mut().map(|one| one.split_off(end)).collect();
        let filled = self.waiting.iter().zip(&self.ids).filter(|(one, _)| one.rows() > 0);
        let columns = filled.flat_map(|(one, ids)| {
            ids.iter().zip(one.columns()).map(|(&id, column)| ChannelColumn {
                id,
                first_sample: one.first(),
                spans: one.spans(),
                samples: ColumnData::Raw(column),
            })
        });
        let frame = ChannelFrame {
            start_ns: self.rate.time_ns(begin),
            end_ns: self.rate.time_ns(end),
            columns: columns.collect(),
            keys: (0, 0),
            increments: None,
        };
        let level = self.levels.last_mut().expect("the long files");
        let written = level.writer.write_channels(frame);
        match &written {
            Ok(()) => {
                self.waiting = later;
                level.end = end;
            }
            Err(_) => self.waiting.iter_mut().zip(later).for_each(|(one, later)| one.join(later)),
        }
        written
    }

    /// Makes frames of a level from those of the tail below it, as far as `done`, and restarts that
    /// tail.
    fn lengthen(&mut self, upper: usize, done: u64) -> Result<(), StorageError> {
        if self.levels[upper].end >= done {
            return Ok(());
        }
        let (level, rate) = (&self.levels[upper], self.rate);
        let tail = Run::open_with_cache(&self.levels[upper + 1].folder, 0)?;
        let row = |time_ns: u64| rate.first_sample_at(time_ns);
        let mut frames: BTreeMap<u64, Range<usize>> = BTreeMap::new();
        let mut left = false;
        for (index, frame) in tail.channel_frames().iter().enumerate() {
            let info = frame.summary.info;
            let first = row(info.time_first_ns);
            left |= row(info.time_last_ns) > done;
            if first >= level.end && row(info.time_last_ns) <= done {
                frames.entry(first / level.rows).or_insert(index..index).end = index + 1;
            }
        }
        let mut damage = None;
        for frames in frames.into_values() {
            match self.join_frames(upper, &tail, frames.clone()) {
                // Unreadable rows will not become readable.
                Err(error) if error.is_damage() => {
                    let rows = |frame: &crate::Frame| frame.summary.info.rows / 5;
                    self.rows_lost += tail.channel_frames()[frames].iter().map(rows).sum::<u64>();
                    damage.get_or_insert(error);
                }
                result => result?,
            }
        }
        self.levels[upper].end = done;
        if !left {
            self.levels[upper + 1].begin_anew()?;
        }
        damage.map_or(Ok(()), Err)
    }

    /// Writes one frame from the frames of a tail.
    fn join_frames(
        &mut self,
        upper: usize,
        tail: &Run,
        frames: Range<usize>,
    ) -> Result<(), StorageError> {
        let level = &mut self.levels[upper];
        let end_ns = join_frames(&mut level.writer, tail, frames)?;
        // If a later frame fails, this one is not made again.
        level.end = self.rate.first_sample_at(end_ns);
        Ok(())
    }

    fn rows_waiting(&self) -> u64 {
        self.waiting.iter().map(Waiting::rows).sum()
    }

    /// Drops the oldest rows if too many wait.
    fn drop_oldest(&mut self, rows: u64) {
        let most = (self.waiting.len() * ROWS_WAITING) as u64;
        while self.rows_waiting() > most {
            let filled = self.waiting.iter().filter(|one| one.rows() > 0);
            let first = filled.map(Waiting::first).min().unwrap_or(0);
            for waiting in &mut self.waiting {
                let later = waiting.split_off(first + rows);
                self.rows_lost += std::mem::replace(waiting, later).rows();
            }
        }
    }
}

impl Level {
    /// Begins the run's only file, without the rows of earlier ones.
    fn begin_anew(&mut self) -> Result<(), StorageError> {
        self.writer.begin_anew()?;
        let current = self.writer.current_path().map(Path::to_owned);
        for path in open::paths(&self.folder)? {
            if Some(&path) != current.as_ref() {
                // If it stays, its rows are found twice, and the longer frame's are taken.
                let _deleted = std::fs::remove_file(path);
            }
        }
        Ok(())
    }
}

/// Writes one frame from the frames of a tail. Returns its end, in nanoseconds.
pub(crate) fn join_frames(
    writer: &mut RunWriter,
    tail: &Run,
    frames: Range<usize>,
) -> Result<u64, StorageError> {
    let infos = || tail.channel_frames()[frames.clone()].iter().map(|one| one.summary.info);
    let start_ns = infos().map(|info| info.time_first_ns).min().unwrap_or(0);
    let end_ns = infos().map(|info| info.time_last_ns).max().unwrap_or(0);
    let select = &Select::Frames(frames.clone());
    let mut numbers = Vec::new();
    for index in (0..tail.channels().len()).step_by(5) {
        let Some(channel) = tail.channel_at(index) else { continue };
        let plan = channel.plan(select)?;
        let first = plan.parts.first().map(|part| part.first_sample);
        let rows: u64 = plan.parts.iter().map(|part| part.samples).sum();
        numbers.extend(first.map(|first| (index, first, rows, plan.spans())));
    }
    let rows = numbers.iter().map(|(_, _, rows, _)| *rows).max().unwrap_or(0);
    let batch = &Mutex::new(Batch::new(tail, select, rows));
    let makers = numbers.iter().flat_map(|&(index, ..)| {
        (index..index + 5).map(move |index| {
            Box::new(move |out: &mut [u8]| batch.lock().read(index, out)) as Box<MakeBytes<'_>>
        })
    });
    let makers: Vec<_> = makers.collect();
    let columns = numbers.iter().zip(makers.chunks(5)).flat_map(|(numbers, makers)| {
        let (index, first_sample, rows, spans) = numbers;
        tail.channels()[*index..].iter().zip(makers).map(move |(info, make)| {
            let raw_bytes = (rows * info.sample_bytes()) as usize;
            let samples = ColumnData::Make(Make { raw_bytes, make });
            ChannelColumn { id: info.id, first_sample: *first_sample, spans, samples }
        })
    });
    let columns = columns.collect();
    let frame = ChannelFrame { start_ns, end_ns, columns, keys: (0, 0), increments: None };
    writer.write_channels(frame)?;
    Ok(end_ns)
}

/// Columns of a tail, read some at a time: a frame of a tail has thousands of adjacent columns of
/// some hundred bytes, and all columns together would take much memory.
struct Batch<'a> {
    tail: &'a Run,
    select: &'a Select,
    /// How many are read at a time.
    columns: usize,
    /// The most recently read ones: the first one's index, and their samples.
    first: usize,
    read: Vec<Vec<Segment>>,
}

impl<'a> Batch<'a> {
    /// None yet, for columns with at most that many rows.
    fn new(tail: &'a Run, select: &'a Select, rows: u64) -> Self {
        let columns = (BATCH_BYTES / (8 * rows.max(1))).max(1) as usize;
        Self { tail, select, columns, first: 0, read: Vec::new() }
    }

    /// Returns all rows of the column with that index in [`Run::channels`].
    fn read(&mut self, index: usize, out: &mut [u8]) -> Result<(), StorageError> {
        if !(self.first..self.first + self.read.len()).contains(&index) {
            let all = self.tail.channels().len();
            let indices: Vec<usize> = (index..all.min(index + self.columns)).collect();
            self.read = self.tail.read_many_alone(&indices, self.select)?;
            self.first = index;
        }
        let mut rest = out;
        for segment in &self.read[index - self.first] {
            match rest.split_at_mut_checked(segment.bytes.len()) {
                Some((now, later)) => {
                    now.copy_from_slice(&segment.bytes);
                    rest = later;
                }
                None => return Err(self.contradiction(index)),
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(self.contradiction(index)) }
    }

    /// A column whose rows differ from those of its series' first one.
    fn contradiction(&self, index: usize) -> StorageError {
        let what = self.tail.channels()[index].name.clone();
        StorageError::Trend { path: self.tail.path().to_owned(), what }
    }
}

/// Lengths with which the frames of that many series are not too large.
fn shortened(lengths: &[u64], series: usize) -> Vec<u64> {
    let mut lengths = lengths.to_vec();
    let most = (FRAME_BYTES / (series.max(1) * ROW_BYTES)) as u64;
    let next = lengths.get(1).copied().unwrap_or(1);
    let whole = lengths[0];
    let fits = |rows: &u64| *rows <= most && whole.is_multiple_of(*rows);
    let multiples = (1..=whole / next).rev().map(|times| times * next);
    lengths[0] = multiples.into_iter().find(fits).unwrap_or(next);
    lengths
}

/// Rows of a series that are not yet in a frame.
fn waiting() -> Waiting {
    Waiting::new(Statistic::ALL.map(|one| (one.dtype().bits().unwrap_or(0) / 8) as usize))
}

/// Bytes of a row: four numbers of 8, one of 4.
const ROW_BYTES: usize = 36;
/// Longer frames are shortened.
const FRAME_BYTES: usize = 1 << 30;
/// Bytes read from a tail at a time.
const BATCH_BYTES: u64 = 512 << 10;
/// Size of a long file's table of contents at which the next file is begun.
const TOC_BYTES: u64 = 16 << 20;
