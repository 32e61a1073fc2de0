//! The trend thread: merges what frames say of each channel's seconds, and writes rows of seconds and
//! of minutes as runs of their own, in `trends/second` and `trends/minute` of the run's folder.
//!
//! Rows are kept until an hour's (a day's) are complete and then make one frame, so that years are read
//! in few pieces; where there are very many channels a frame is cut before rows take too much memory.
//! The recorder's own counters have rows among them, as `catchment:NAME`.
//!
//! A disk that refuses ends the trends, and not the recording: `catchment trend` makes them again.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use catchment_codec::Coding;
use catchment_frame::{ChannelInfo, Schema, Span};
use catchment_model::{Entry, RunId, SampleRate, SourceId, TimeScale};
use catchment_storage::{
    ChannelColumn, ChannelFrame, Codings, ColumnCoding, ColumnData, Ending, NewRun, RunWriter,
    StorageError, TrendKind, WriteOptions,
};
use catchment_trends::{Completed, CounterTrend, Row, Statistic, TrendChannel, TrendSeries, spans};
use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::clock::Clock;
use crate::config::RecorderConfig;
use crate::live::Live;
use crate::trend::Seconds;
use crate::write::RunIdentity;

/// How often the recorder's counters are looked at.
const COUNTERS_EVERY: Duration = Duration::from_millis(250);
/// Rows of all channels that wait for their frame, of 64 bytes each.
const ROWS_MAX: usize = 1 << 18;

/// What the trend thread takes of the memory budget: rows that wait, their frame, and the two runs'
/// disk buffers.
pub(crate) const MEMORY_BYTES: usize = 64 << 20;

/// What one frame says of the channels' seconds.
pub(crate) struct FrameSeconds {
    /// By channel, in the order of all links' channels.
    pub(crate) channels: Vec<(usize, Seconds)>,
    /// No later frame has samples before this time, in the channels' time scale.
    pub(crate) until_ns: u64,
}

/// What the trends of a recorder are.
pub(crate) struct TrendPlan {
    /// The run's folder.
    pub(crate) folder: PathBuf,
    pub(crate) run: RunId,
    pub(crate) run_number: u64,
    pub(crate) name: String,
    /// The channels that have a trend, by name and unit, each with its place among all channels.
    pub(crate) channels: Vec<(usize, String, String)>,
    /// How many channels there are.
    pub(crate) channel_count: usize,
    pub(crate) time_scale: TimeScale,
}

/// The trend thread's state.
pub(crate) struct Trends {
    clock: Clock,
    live: Arc<Live>,
    frames: Receiver<FrameSeconds>,
    time_scale: TimeScale,
    series: Vec<TrendSeries>,
    counters: Vec<CounterTrend>,
    // Of seconds, and of minutes.
    runs: [TrendRun; 2],
}

/// One of the two runs.
struct TrendRun {
    writer: RunWriter,
    period_ns: u64,
    channels: Table,
    counters: Table,
}

/// Rows of channels that share frames.
struct Table {
    /// The id of each one's first column; none where it has no trend.
    ids: Vec<Option<u32>>,
    rows: Vec<Vec<Row>>,
    waiting: usize,
    /// Rows of a whole frame; it begins and ends at multiples of them.
    frame_rows: u64,
}

impl TrendPlan {
    /// The trends of a recorder's channels.
    pub(crate) fn of(config: &RecorderConfig, identity: &RunIdentity) -> Self {
        let channels = || config.links.iter().flat_map(|link| &link.channels);
        let with_trend = channels().enumerate().filter(|(_, channel)| {
            // Others have none: arrays have no one value.
            TrendChannel::new(channel.dtype, &channel.shape, channel.rate).is_ok()
        });
        Self {
            folder: identity.folder.clone(),
            run: identity.run,
            run_number: config.run_number,
            name: identity.name.clone(),
            channels: with_trend
                .map(|(place, channel)| (place, channel.name.clone(), channel.unit.clone()))
                .collect(),
            channel_count: channels().count(),
            time_scale: config.links.first().map_or(TimeScale::Tai, |link| link.time_scale),
        }
    }
}

impl Trends {
    /// Makes the runs.
    ///
    /// # Errors
    /// A folder or a file that cannot be made.
    pub(crate) fn new(
        plan: &TrendPlan,
        (clock, live): (Clock, &Arc<Live>),
        frames: Receiver<FrameSeconds>,
    ) -> Result<Self, StorageError> {
        Ok(Self {
            clock,
            live: Arc::clone(live),
            frames,
            time_scale: plan.time_scale,
            series: vec![TrendSeries::new(); plan.channel_count],
            counters: vec![CounterTrend::new(); counter_names().count()],
            runs: [
                // Frames of an hour in files of a day; frames of a day in files of a month.
                TrendRun::new(plan, TrendKind::Second, (3_600, 24))?,
                TrendRun::new(plan, TrendKind::Minute, (1_440, 30))?,
            ],
        })
    }

    /// Merges and writes until the write thread has ended.
    pub(crate) fn run(mut self) {
        let (live, frames) = (Arc::clone(&self.live), self.frames.clone());
        let result = match self.record() {
            Ok(()) => self.finish(),
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            live.warn_once(format!("the trends end: {error}"));
            // What comes is not waited for; `catchment trend` makes trends of it.
            while frames.recv().is_ok() {}
        }
    }

    fn record(&mut self) -> Result<(), StorageError> {
        loop {
            match self.frames.recv_timeout(COUNTERS_EVERY) {
                Ok(frame) => self.take(frame)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.count()?;
        }
        let late: u64 = self.series.iter().map(TrendSeries::late_samples).sum();
        if late > 0 {
            self.live.warn_once(format!(
                "{late} samples are in no trend: their times were before others'"
            ));
        }
        let rest = self.series.iter_mut().map(TrendSeries::finish).collect::<Vec<_>>();
        self.keep(rest, |run| &mut run.channels, u64::MAX)?;
        let rest = self.counters.iter_mut().map(CounterTrend::finish).collect::<Vec<_>>();
        self.keep(rest, |run| &mut run.counters, u64::MAX)
    }

    fn finish(self) -> Result<(), StorageError> {
        for run in self.runs {
            run.writer.finish(Ending { run_ended: true, ..Ending::default() })?;
        }
        Ok(())
    }

    fn take(&mut self, frame: FrameSeconds) -> Result<(), StorageError> {
        for (channel, seconds) in &frame.channels {
            for (second, accumulator) in seconds {
                self.series[*channel].add_second(*second, accumulator);
            }
        }
        let until = frame.until_ns / 1_000_000_000;
        let completed = self.series.iter_mut().map(|series| series.take_complete(until));
        let completed = completed.collect::<Vec<_>>();
        self.keep(completed, |run| &mut run.channels, until)
    }

    /// Looks at the recorder's counters.
    fn count(&mut self) -> Result<(), StorageError> {
        let now_ns = TimeScale::Utc.convert_ns(self.time_scale, self.clock.now_ns());
        for (trend, value) in self.counters.iter_mut().zip(counter_values(&self.live)) {
            trend.push(now_ns, value as f64);
        }
        let until = now_ns / 1_000_000_000;
        let completed = self.counters.iter_mut().map(|trend| trend.take_complete(until));
        let completed = completed.collect::<Vec<_>>();
        self.keep(completed, |run| &mut run.counters, until)
    }

    /// Keeps completed rows, and writes those whose frame is complete.
    fn keep(
        &mut self,
        completed: Vec<Completed>,
        table: impl Fn(&mut TrendRun) -> &mut Table,
        until_second: u64,
    ) -> Result<(), StorageError> {
        let [seconds, minutes] = &mut self.runs;
        for (channel, Completed { seconds: of_seconds, minutes: of_minutes }) in
            completed.into_iter().enumerate()
        {
            table(seconds).add(channel, of_seconds);
            table(minutes).add(channel, of_minutes);
        }
        seconds.write_complete(&table, until_second)?;
        minutes.write_complete(&table, until_second / 60)
    }
}

impl TrendRun {
    fn new(
        plan: &TrendPlan,
        kind: TrendKind,
        (frame_rows, file_frames): (u64, u64),
    ) -> Result<Self, StorageError> {
        let period_ns = kind.period_ns();
        let rate = SampleRate::new(1, period_ns / 1_000_000_000);
        let rate = rate.expect("a row per second, or per minute");
        let mut channels = Vec::new();
        let mut of_channel = |name: &str, unit: &str| {
            for statistic in Statistic::ALL {
                let unit = if statistic == Statistic::N { "" } else { unit };
                channels.push(ChannelInfo {
                    time_scale: plan.time_scale,
                    unit: unit.to_owned(),
                    ..ChannelInfo::new(
                        format!("{name}.{}", statistic.suffix()),
                        statistic.dtype(),
                        rate,
                    )
                });
            }
        };
        plan.channels.iter().for_each(|(_, name, unit)| of_channel(name, unit));
        counter_names().for_each(|name| of_channel(&name, ""));
        let refused = |error: catchment_frame::SchemaError| StorageError::Unwritable {
            what: "trends".to_owned(),
            problem: error.to_string(),
        };
        let schema = Schema::channels(Vec::new(), channels).map_err(refused)?;
        let first = catchment_frame::ChannelColumns::of(&schema).channels;
        let mut firsts = first.chunks(Statistic::ALL.len()).map(|of_one| of_one[0].id);
        let mut ids = vec![None; plan.channel_count];
        for ((place, _, _), id) in plan.channels.iter().zip(&mut firsts) {
            ids[*place] = Some(id);
        }
        let counters = Table::new(firsts.map(Some).collect(), frame_rows);
        let run = NewRun {
            folder: plan.folder.join("trends").join(kind.name()),
            name: format!("{}-{}", plan.name, kind.name()),
            run: plan.run,
            run_number: plan.run_number,
            config: String::new(),
            schema,
        };
        let options = WriteOptions {
            codings: Codings::new(ColumnCoding::Fixed(Coding::BitshuffleLz4)),
            file_time_ns: Some(file_frames * frame_rows * period_ns),
            ..WriteOptions::small()
        };
        let writer = RunWriter::create(run, options)?;
        Ok(Self { writer, period_ns, channels: Table::new(ids, frame_rows), counters })
    }

    fn write_complete(
        &mut self,
        table: &impl Fn(&mut Self) -> &mut Table,
        until: u64,
    ) -> Result<(), StorageError> {
        while let Some((begin, end, rows)) = table(self).take_frame(until) {
            let ids = table(self).ids.clone();
            self.write((begin, end), &ids, &rows)?;
            table(self).reuse(rows);
        }
        Ok(())
    }

    fn write(
        &mut self,
        (begin, end): (u64, u64),
        ids: &[Option<u32>],
        rows: &[Vec<Row>],
    ) -> Result<(), StorageError> {
        let mut bytes = Vec::new();
        let mut pieces = Vec::new();
        let gaps: Vec<Vec<Span>> = rows.iter().map(|rows| spans(rows)).collect();
        for (channel, rows) in rows.iter().enumerate() {
            let (Some(id), Some(first)) = (ids[channel], rows.first()) else { continue };
            for (id, statistic) in (id..).zip(Statistic::ALL) {
                let start = bytes.len();
                statistic.append(rows, &mut bytes);
                pieces.push((id, channel, first.index, start..bytes.len()));
            }
        }
        let column = |(id, channel, first_sample, range): (u32, usize, u64, std::ops::Range<_>)| {
            let samples = ColumnData::Raw(&bytes[range]);
            ChannelColumn { id, first_sample, spans: &gaps[channel], samples }
        };
        self.writer.write_channels(ChannelFrame {
            start_ns: begin.saturating_mul(self.period_ns),
            end_ns: end.saturating_mul(self.period_ns),
            columns: pieces.into_iter().map(column).collect(),
            keys: (0, 0),
            increments: None,
        })
    }
}

impl Table {
    fn new(ids: Vec<Option<u32>>, frame_rows: u64) -> Self {
        Self { rows: vec![Vec::new(); ids.len()], ids, waiting: 0, frame_rows }
    }

    fn add(&mut self, channel: usize, rows: Vec<Row>) {
        if self.ids[channel].is_some() {
            self.waiting += rows.len();
            self.rows[channel].extend(rows);
        }
    }

    /// Rows of the next frame, from the first of them to the second number, if it is complete: no row
    /// before `until` is to come.
    fn take_frame(&mut self, until: u64) -> Option<(u64, u64, Vec<Vec<Row>>)> {
        let first = self.rows.iter().filter_map(|rows| rows.first()).map(|row| row.index).min()?;
        let border = (first / self.frame_rows + 1) * self.frame_rows;
        let end = if until >= border {
            border
        } else if self.waiting >= ROWS_MAX {
            until.max(first + 1)
        } else {
            return None;
        };
        let mut taken = Vec::with_capacity(self.rows.len());
        for rows in &mut self.rows {
            let later = rows.split_off(rows.partition_point(|row| row.index < end));
            taken.push(std::mem::replace(rows, later));
        }
        self.waiting -= taken.iter().map(Vec::len).sum::<usize>();
        Some((first, end, taken))
    }

    /// Takes memory back where it is of use.
    fn reuse(&mut self, taken: Vec<Vec<Row>>) {
        for (rows, mut old) in self.rows.iter_mut().zip(taken) {
            if rows.is_empty() {
                old.clear();
                *rows = old;
            }
        }
    }
}

/// The recorder's counters that have trends: the ledger's lines, and what was written.
fn counter_names() -> impl Iterator<Item = String> {
    let entries = Entry::ALL.iter().map(|entry| entry.name());
    entries.chain(["frames_recorded", "bytes_written"]).map(|name| format!("catchment:{name}"))
}

fn counter_values(live: &Live) -> impl Iterator<Item = u64> + '_ {
    let sources = live.ledger.source_count() as u32;
    let entry = move |&entry: &Entry| {
        (0..sources).map(|source| live.ledger.read(SourceId(source), entry)).sum()
    };
    let counters = &live.counters;
    let written = [&counters.frames_recorded, &counters.bytes_written];
    Entry::ALL.iter().map(entry).chain(written.map(|counter| counter.load(Relaxed)))
}
