//! Trends written: from what passes while a run is written, or from a run that there is.
//!
//! Every channel's seconds are summed up on the threads that have its samples in their cache. When a
//! frame is done, the seconds that it completes become rows, and when an hour is complete (a day for
//! minutes) a frame of the trend's run.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use catchment_frame::{ChannelInfo, Schema, Span};
use catchment_model::SampleRate;
use catchment_trends::{Row, Statistic, TrendChannel, TrendSeries};

use crate::channels::Select;
use crate::coding::Codings;
use crate::error::StorageError;
use crate::parallel;
use crate::run::Run;
use crate::trend::TrendKind;
use crate::waiting::Waiting;
use crate::write::{
    ChannelColumn, ChannelFrame, ColumnData, ColumnHook, Ending, NewRun, RunWriter, WriteOptions,
    WriteReport, unwritable,
};

/// How trends are written.
#[derive(Clone, Debug, Default)]
pub struct TrendOptions {
    /// How their columns are encoded.
    pub codings: Codings,
}

/// What was written of trends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrendReport {
    /// The run of seconds.
    pub second: WriteReport,
    /// The run of minutes.
    pub minute: WriteReport,
    /// Channels that have no trend: of several numbers a sample.
    pub without: Vec<String>,
    /// Samples that came after their second had been written, and are in no row.
    pub late_samples: u64,
}

/// Writes the trends of one run's channels.
pub struct TrendWriter {
    sums: Arc<Sums>,
    second: TrendRun,
    minute: TrendRun,
    without: Vec<String>,
}

/// The channels' sums so far.
struct Sums {
    channels: Vec<(TrendChannel, Mutex<TrendSeries>)>,
    /// Places by column.
    places: HashMap<u32, usize>,
}

/// One of the two runs.
struct TrendRun {
    writer: RunWriter,
    /// Columns of each channel's five, in the order of [`Statistic::ALL`].
    ids: Vec<[u32; 5]>,
    rate: SampleRate,
    /// Rows of one frame.
    frame_rows: u64,
    waiting: Vec<Waiting>,
}

impl TrendWriter {
    /// Begins the trends of a run that is, or will be, in `folder`.
    ///
    /// # Errors
    /// Trends that are there already, or a disk that refuses.
    pub fn create(
        folder: &Path,
        run: &NewRun,
        options: &TrendOptions,
    ) -> Result<Self, StorageError> {
        let (mut channels, mut infos, mut without) = (Vec::new(), Vec::new(), Vec::new());
        let mut places = HashMap::new();
        for info in run.schema.columns.iter().filter_map(ChannelInfo::of) {
            match TrendChannel::of(&info) {
                Ok(channel) => {
                    places.insert(info.id, channels.len());
                    channels.push((channel, Mutex::default()));
                    infos.push(info);
                }
                Err(_) => without.push(info.name),
            }
        }
        let begin = |kind| TrendRun::create(folder, run, kind, &infos, options);
        let (second, minute) = (begin(TrendKind::Second)?, begin(TrendKind::Minute)?);
        Ok(Self { sums: Arc::new(Sums { channels, places }), second, minute, without })
    }

    /// What is to see the channels' samples: [`RunWriter::add_hook`].
    pub fn hook(&self) -> Box<dyn ColumnHook> {
        Box::new(Arc::clone(&self.sums))
    }

    /// Writes what is complete: no samples before that time will come any more.
    ///
    /// # Errors
    /// A disk that refuses.
    pub fn advance(&mut self, until_ns: u64) -> Result<(), StorageError> {
        let until = until_ns / TrendKind::Second.period_ns();
        for (place, (_, series)) in self.sums.channels.iter().enumerate() {
            let completed = lock(series).take_complete(until);
            take(&mut self.second.waiting[place], &completed.seconds);
            take(&mut self.minute.waiting[place], &completed.minutes);
        }
        self.second.write_complete(until)?;
        self.minute.write_complete(until / 60)
    }

    /// Writes the rest and closes both runs.
    ///
    /// # Errors
    /// A disk that refuses.
    pub fn finish(mut self, run_ended: bool) -> Result<TrendReport, StorageError> {
        let mut late_samples = 0;
        for (place, (_, series)) in self.sums.channels.iter().enumerate() {
            let mut series = lock(series);
            let completed = series.finish();
            late_samples += series.late_samples();
            take(&mut self.second.waiting[place], &completed.seconds);
            take(&mut self.minute.waiting[place], &completed.minutes);
        }
        self.second.write_complete(u64::MAX)?;
        self.minute.write_complete(u64::MAX)?;
        let ending = Ending { run_ended, ..Ending::default() };
        let second = self.second.writer.finish(ending.clone())?;
        let minute = self.minute.writer.finish(ending)?;
        Ok(TrendReport { second, minute, without: self.without, late_samples })
    }
}

impl Sums {
    fn add(&self, column: u32, first_sample: u64, spans: &[Span], raw: &[u8]) {
        let Some(&place) = self.places.get(&column) else { return };
        let (channel, series) = &self.channels[place];
        // Samples, spans and numbers were checked before they came here, and fit together.
        if let Ok(partial) = channel.partial(first_sample, spans, raw) {
            lock(series).add(&partial);
        }
    }
}

impl ColumnHook for Arc<Sums> {
    fn raw(&self, column: u32, first_sample: u64, spans: &[Span], raw: &[u8]) {
        self.add(column, first_sample, spans, raw);
    }
}

impl TrendRun {
    fn create(
        folder: &Path,
        run: &NewRun,
        kind: TrendKind,
        infos: &[ChannelInfo],
        options: &TrendOptions,
    ) -> Result<Self, StorageError> {
        let (rate, frame_rows) = match kind {
            TrendKind::Second => (SampleRate::new(1, 1), 3_600),
            TrendKind::Minute => (SampleRate::new(1, 60), 1_440),
        };
        let rate = rate.expect("both are in range");
        let channel = |info: &ChannelInfo, statistic: Statistic| ChannelInfo {
            unit: if statistic == Statistic::N { String::new() } else { info.unit.clone() },
            time_scale: info.time_scale,
            ..ChannelInfo::new(
                format!("{}.{}", info.name, statistic.suffix()),
                statistic.dtype(),
                rate,
            )
        };
        let channels = infos.iter().flat_map(|info| Statistic::ALL.map(|one| channel(info, one)));
        let schema = Schema::channels(Vec::new(), channels.collect())
            .map_err(|problem| unwritable("trend", &problem.to_string()))?;
        let ids: Vec<u32> =
            schema.columns.iter().filter_map(ChannelInfo::of).map(|c| c.id).collect();
        let (ids, _) = ids.as_chunks::<5>();
        let run = NewRun {
            folder: folder.join("trends").join(kind.name()),
            schema,
            config: run.config.clone(),
            name: format!("{}-{}", run.name, kind.name()),
            run: run.run,
            run_number: run.run_number,
        };
        let waiting = ids.iter().map(|_| waiting()).collect();
        let options = WriteOptions { codings: options.codings.clone(), ..WriteOptions::small() };
        let (ids, writer) = (ids.to_vec(), RunWriter::create(run, options)?);
        Ok(Self { writer, ids, rate, frame_rows, waiting })
    }

    /// Writes all frames whose rows are complete, that is, before `until`.
    fn write_complete(&mut self, until: u64) -> Result<(), StorageError> {
        loop {
            let first = self.waiting.iter().filter(|one| one.rows() > 0).map(Waiting::first).min();
            let Some(first) = first else { return Ok(()) };
            let begin = first / self.frame_rows * self.frame_rows;
            let end = begin + self.frame_rows;
            if end > until {
                return Ok(());
            }
            self.write_frame(begin, end)?;
        }
    }

    fn write_frame(&mut self, begin: u64, end: u64) -> Result<(), StorageError> {
        let mut rest: Vec<Waiting> =
            self.waiting.iter_mut().map(|one| one.split_off(end)).collect();
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
        self.writer.write_channels(frame)?;
        std::mem::swap(&mut self.waiting, &mut rest);
        Ok(())
    }
}

/// Makes the trends of a run that is there, beside it. `progress` hears of every frame: how many are
/// done, and how many there are.
///
/// # Errors
/// Trends that are there already, a column that cannot be read, or a disk that refuses.
pub fn make_trends(
    run: &Run,
    options: &TrendOptions,
    mut progress: impl FnMut(usize, usize),
) -> Result<TrendReport, StorageError> {
    let header = run.header();
    let parent = run.trend_folder(TrendKind::Second);
    let folder = parent.parent().and_then(Path::parent).unwrap_or(run.path());
    let name = run.files().next().map_or_else(String::new, |file| {
        let stem = file.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let stem = stem.unwrap_or_default();
        stem.rsplit_once('-').map_or(stem.clone(), |(name, _)| name.to_owned())
    });
    let new = NewRun {
        folder: folder.to_owned(),
        name,
        run: header.run,
        run_number: header.run_number,
        config: header.config.clone(),
        schema: Schema::clone(&header.schema),
    };
    let mut trends = TrendWriter::create(folder, &new, options)?;
    let frames = run.channel_frames();
    let places: Vec<usize> = (0..run.channels().len()).collect();
    for (frame, info) in frames.iter().enumerate() {
        let sums = &trends.sums;
        parallel::map(places.clone(), parallel::threads(), |place| {
            let Some(channel) = run.channel_at(place) else { return Ok(()) };
            for segment in channel.read_alone(&Select::Frames(frame..frame + 1))? {
                sums.add(channel.info().id, segment.first_sample, &[], &segment.bytes);
            }
            Ok(())
        })?;
        trends.advance(info.summary.info.time_last_ns)?;
        progress(frame + 1, frames.len());
    }
    trends.finish(run.ended())
}

/// Rows of a trend that are in no frame yet.
fn waiting() -> Waiting {
    Waiting::new(Statistic::ALL.map(|one| (one.dtype().bits().unwrap_or(0) / 8) as usize))
}

/// Takes rows behind those that wait already.
fn take(waiting: &mut Waiting, rows: &[Row]) {
    for row in rows {
        waiting.number(row.index, 1);
    }
    for (statistic, column) in Statistic::ALL.into_iter().zip(waiting.columns_mut()) {
        statistic.append(rows, column);
    }
}

fn lock<T>(series: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Sums are whole between two calls.
    series.lock().unwrap_or_else(PoisonError::into_inner)
}
