//! The trend agent: merges the seconds of each channel from the frames, samples the recorder's own
//! counters, and has rows of seconds and of minutes written ([`TrendStore`]): the channels' rows in
//! the channels' time scale as frames arrive, the counters' rows in UTC as time passes. Each
//! required folder gets them, unless its target wants none: of the channels that it gets.
//!
//! A disk that refuses writes costs rows only if it does so for long, and they are counted;
//! recording is not affected. Nor does recording wait for this agent, whose store may wait for the
//! disk while it writes an hour, once the memory for received data fills: such frames have no
//! trend, and are counted ([`TrendFeed`]).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use catchment_agent::{Agent, Waker, Work};
use catchment_codec::Coding;
use catchment_disk::FaultControl;
use catchment_frame::{ChannelInfo, Dtype};
use catchment_model::{Entry, Ledger, RunId, SampleRate, SourceId, SourceLedger, TimeScale};
use catchment_storage::{
    Codings, ColumnCoding, NewTrends, StorageError, TrendFiles, TrendLengths, mend_trends,
};
use catchment_trends::{Completed, CounterTrend, Seconds, TrendChannel, TrendSeries};
use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError};

use crate::config::{ConfigError, RecorderConfig};
use crate::counts::Counts;
use crate::file::RunIdentity;
use crate::links::COUNTER_PREFIX;
use crate::live::Live;
use crate::target_config::{TargetConfig, Variant};

/// The interval at which the recorder's counters are sampled: at whole multiples, so that the last
/// samples in two seconds are a second apart, and a counter that grows steadily has a steady rate.
const COUNTERS_EVERY_NS: u64 = 250_000_000;
/// Frames that wait for the trend agent.
const FRAMES_QUEUED: usize = 16;
/// The most sources and links with which each has counters of its own.
const SOURCES_MAX: usize = 128;
/// A frame that is further ahead of those before it may come from a wrong clock.
const AHEAD_NS: u64 = 3_600_000_000_000;
/// The counters of a source that have a trend.
const OF_SOURCE: [Entry; 6] = [
    Entry::PacketsReceived,
    Entry::PacketBytesReceived,
    Entry::PacketsDroppedByKernel,
    Entry::FragmentsReceived,
    Entry::FragmentsRecorded,
    Entry::FragmentsMissing,
];
/// The fraction of the memory budget that trends of sources' counters may take.
const MEMORY_SHARE: u64 = 8;

/// The channels' seconds of one frame.
pub(crate) struct FrameSeconds {
    /// By channel, in the order of all links' channels.
    pub(crate) channels: Vec<(usize, Seconds)>,
    /// No later frame has samples before this time, in the channels' time scale.
    pub(crate) until_ns: u64,
}

/// The frames agent's queue to the trend agent, which ends when this is dropped.
pub(crate) struct TrendFeed {
    /// None when nothing more will follow.
    frames: Option<Sender<FrameSeconds>>,
    live: Arc<Live>,
    /// Wakes the trend agent.
    trends: Waker,
}

/// The destination of rows of trends; the store decides what it keeps of each series and when it
/// writes.
pub trait TrendStore: Send {
    /// Takes the completed seconds of a series.
    fn add(&mut self, series: usize, rows: &Completed);

    /// Writes the rows that are complete before that second.
    ///
    /// # Errors
    /// The store's error, if something could not be written.
    fn advance(&mut self, until: u64) -> Result<(), String>;

    /// Writes the remaining rows and closes the files.
    ///
    /// # Errors
    /// As [`TrendStore::advance`].
    fn finish(&mut self) -> Result<(), String>;

    /// Rows that are in no file, because the store refused for too long.
    fn rows_lost(&self) -> u64;
}

impl TrendStore for Box<dyn TrendStore> {
    fn add(&mut self, series: usize, rows: &Completed) {
        (**self).add(series, rows);
    }

    fn advance(&mut self, until: u64) -> Result<(), String> {
        (**self).advance(until)
    }

    fn finish(&mut self) -> Result<(), String> {
        (**self).finish()
    }

    fn rows_lost(&self) -> u64 {
        (**self).rows_lost()
    }
}

impl TrendStore for TrendFiles {
    fn add(&mut self, series: usize, rows: &Completed) {
        Self::add(self, series, rows);
    }

    fn advance(&mut self, until: u64) -> Result<(), String> {
        Self::advance(self, until).map_err(|error| error.to_string())
    }

    fn finish(&mut self) -> Result<(), String> {
        Self::finish(self, true).map(drop).map_err(|error| error.to_string())
    }

    fn rows_lost(&self) -> u64 {
        Self::rows_lost(self)
    }
}

/// The trends of a recorder.
pub(crate) struct TrendPlan {
    folders: Vec<TrendFolder>,
    run: RunId,
    run_number: u64,
    emulated: bool,
    name: String,
    /// The number of channels.
    channel_count: usize,
    counters: Vec<(String, Counter)>,
    faults: Option<FaultControl>,
    /// Whether there are trends of the run that go on.
    continues: bool,
}

/// The trends of one target.
struct TrendFolder {
    /// The run's folder there.
    folder: PathBuf,
    /// Its channels that have a trend, each with its index among all channels.
    channels: Vec<(usize, ChannelInfo)>,
}

/// A counter of the recorder.
#[derive(Clone, Copy)]
enum Counter {
    /// The sum over all sources and links.
    Total(Entry),
    FramesRecorded,
    BytesWritten,
    /// Events, and slices of channels.
    EventsRecorded,
    Source(SourceId, Entry),
}

/// The trend agent's state.
pub(crate) struct Trends<T> {
    live: Arc<Live>,
    frames: Receiver<FrameSeconds>,
    series: Vec<TrendSeries>,
    /// By folder that has channels with a trend.
    channel_files: Vec<ChannelTrends<T>>,
    /// The last frame, if it is far ahead of those before: the next one shows whether its clock was
    /// right.
    held: Option<FrameSeconds>,
    /// The end of the frames so far, in the channels' time scale.
    until_ns: Option<u64>,
    time_scale: TimeScale,
    samples_ahead: u64,
    /// Samples without a trend counted so far.
    samples_noted: u64,
    counters: Vec<(Counter, CounterTrend)>,
    /// By folder.
    counter_files: Vec<T>,
    counted_ns: u64,
}

/// The trends of channels in one folder.
struct ChannelTrends<T> {
    files: T,
    /// The index among the files' series of each channel that has one.
    series_of: Vec<Option<usize>>,
}

/// The part of the memory budget that trends take.
pub(crate) fn memory_bytes(config: &RecorderConfig) -> usize {
    let channels = config.links.iter().map(|link| link.channels.len()).sum();
    let of_channels = if channels > 0 { TrendFiles::memory_bytes(channels) } else { 0 };
    let folders = config.targets().iter().filter_map(TargetConfig::trends_folder).count();
    folders * (of_channels + TrendFiles::memory_bytes(counters(config).len()))
}

impl FrameSeconds {
    fn samples(&self) -> u64 {
        let seconds = self.channels.iter().flat_map(|(_, seconds)| seconds);
        seconds.map(|(_, accumulator)| accumulator.n() + accumulator.not_finite()).sum()
    }
}

impl TrendFeed {
    /// The two ends of the queue to a trend agent.
    pub(crate) fn new(live: &Arc<Live>, trends: Waker) -> (Self, Receiver<FrameSeconds>) {
        let (frames, received) = crossbeam_channel::bounded(FRAMES_QUEUED);
        (Self { frames: Some(frames), live: Arc::clone(live), trends }, received)
    }

    /// Passes the seconds of a frame on. If the trend agent is behind and there is time, they are
    /// returned, to be offered again; if there is no time the frame has no trend, and its samples
    /// are counted: data come first, and `catchment trend` can compute the trends later.
    pub(crate) fn offer(&self, frame: FrameSeconds, has_time: bool) -> Option<FrameSeconds> {
        let frames = self.frames.as_ref()?;
        match frames.try_send(frame) {
            Ok(()) => self.trends.wake(),
            Err(TrySendError::Full(frame)) if has_time => return Some(frame),
            Err(TrySendError::Full(frame)) => {
                self.live.counters.trend_samples_late.fetch_add(frame.samples(), Relaxed);
            }
            // The trend agent ends after the write agent, or by a panic, which the join reports.
            Err(TrySendError::Disconnected(_)) => {}
        }
        None
    }
}

impl Drop for TrendFeed {
    fn drop(&mut self) {
        self.frames = None;
        self.trends.wake();
    }
}

impl TrendPlan {
    /// The trends of a recorder's channels and counters.
    ///
    /// # Errors
    /// Impossible channels.
    pub(crate) fn of(
        config: &RecorderConfig,
        identity: &RunIdentity,
        continues: bool,
    ) -> Result<Self, ConfigError> {
        let schema = crate::schema::schema(config)?;
        // Others have no trend: values that are not numbers have no mean.
        let channels: Vec<_> = schema.columns.iter().filter_map(ChannelInfo::of).collect();
        let with_trend = |(_, channel): &(usize, &ChannelInfo)| TrendChannel::of(channel).is_ok();
        let folder = |(target, variant): (&TargetConfig, Variant)| {
            let of_target = |(index, _): &(usize, &ChannelInfo)| variant.has_channel(*index);
            let own = channels.iter().enumerate().filter(with_trend).filter(of_target);
            Some(TrendFolder {
                folder: target.trends_folder()?.join(&identity.name),
                channels: own.map(|(index, channel)| (index, channel.clone())).collect(),
            })
        };
        Ok(Self {
            folders: config.targets().iter().zip(Variant::of(config)).filter_map(folder).collect(),
            run: identity.run,
            run_number: config.run_number,
            emulated: config.emulated,
            name: identity.name.clone(),
            channel_count: channels.len(),
            counters: counters(config),
            faults: config.write.faults.as_ref().map(|plan| plan.control.clone()),
            continues,
        })
    }

    /// Whether any folder has trends.
    pub(crate) fn has_folders(&self) -> bool {
        !self.folders.is_empty()
    }

    /// Mends the files that a recorder has left whose run goes on.
    ///
    /// # Errors
    /// A file cannot be read, or mended.
    pub(crate) fn mend(&self) -> Result<(), StorageError> {
        let mut left = self.folders.iter().filter(|_| self.continues);
        left.try_for_each(|one| mend_trends(&one.folder).map(drop))
    }

    /// Makes the files of a folder.
    ///
    /// # Errors
    /// The folder or a file cannot be made.
    pub(crate) fn files(
        &self,
        folder: PathBuf,
        series: Vec<ChannelInfo>,
    ) -> Result<TrendFiles, StorageError> {
        TrendFiles::create(&NewTrends {
            folder,
            name: self.name.clone(),
            run: self.run,
            run_number: self.run_number,
            emulated: self.emulated,
            config: String::new(),
            series,
            codings: Codings::new(ColumnCoding::Fixed(Coding::BitshuffleLz4)),
            lengths: TrendLengths::recording(),
            faults: self.faults.clone(),
            continues: self.continues,
        })
    }
}

impl<T> Trends<T> {
    /// The agent of a plan. `make` makes the store of each folder's channels, and that of its
    /// counters, from its path and its series.
    ///
    /// # Errors
    /// That of `make`.
    pub(crate) fn new<E>(
        plan: &TrendPlan,
        live: &Arc<Live>,
        frames: Receiver<FrameSeconds>,
        mut make: impl FnMut(PathBuf, Vec<ChannelInfo>) -> Result<T, E>,
    ) -> Result<Self, E> {
        let mut all = plan.folders.iter().flat_map(|folder| &folder.channels);
        let time_scale = all.next().map_or(TimeScale::Utc, |(_, channel)| channel.time_scale);
        let one_hertz = SampleRate::new(1, 1).expect("a rate");
        let counter = |(name, _): &(String, Counter)| ChannelInfo {
            time_scale: TimeScale::Utc,
            ..ChannelInfo::new(name.clone(), Dtype::U64, one_hertz)
        };
        let counters: Vec<_> = plan.counters.iter().map(counter).collect();
        let (mut channel_files, mut counter_files) = (Vec::new(), Vec::new());
        for TrendFolder { folder, channels } in &plan.folders {
            let folder = folder.join("trends");
            if !channels.is_empty() {
                let mut series_of = vec![None; plan.channel_count];
                for (series, (channel, _)) in channels.iter().enumerate() {
                    series_of[*channel] = Some(series);
                }
                let channels = channels.iter().map(|(_, info)| info.clone()).collect();
                let files = make(folder.clone(), channels)?;
                channel_files.push(ChannelTrends { files, series_of });
            }
            counter_files.push(make(folder.join("counters"), counters.clone())?);
        }
        Ok(Self {
            live: Arc::clone(live),
            frames,
            series: vec![TrendSeries::new(); plan.channel_count],
            channel_files,
            held: None,
            until_ns: None,
            time_scale,
            samples_ahead: 0,
            samples_noted: 0,
            counters: plan.counters.iter().map(|(_, of)| (*of, CounterTrend::new())).collect(),
            counter_files,
            counted_ns: 0,
        })
    }
}

impl<T: TrendStore> Agent for Trends<T> {
    /// Merges and writes until the write agent has ended.
    fn work(&mut self, now_ns: u64) -> Work {
        if self.counted_ns == 0 {
            self.counted_ns = now_ns;
        }
        let taken = match self.frames.try_recv() {
            Ok(frame) => {
                self.take(frame, now_ns);
                1
            }
            Err(TryRecvError::Empty) => 0,
            Err(TryRecvError::Disconnected) => {
                self.count(now_ns);
                self.finish();
                return Work::ended();
            }
        };
        if now_ns / COUNTERS_EVERY_NS != self.counted_ns / COUNTERS_EVERY_NS {
            self.count(now_ns);
        }
        match taken {
            0 => Work::until(0, next_count_ns(now_ns)),
            taken => Work::again(taken),
        }
    }
}

impl<T: TrendStore> Trends<T> {
    /// Takes a frame, or holds it back: rows only advance in time, so that one frame from the
    /// future would leave all later ones without a trend.
    fn take(&mut self, frame: FrameSeconds, now_ns: u64) {
        if let Some(held) = self.held.take() {
            match frame.until_ns.saturating_add(AHEAD_NS) < held.until_ns {
                true => self.samples_ahead += held.samples(),
                false => self.merge(&held),
            }
        }
        // The first frame is compared with the recorder's own clock, which may be behind, or the
        // data old.
        let ahead_ns = match self.until_ns {
            Some(until_ns) => frame.until_ns.saturating_sub(until_ns),
            None => TimeScale::Utc.convert_ns(self.time_scale, now_ns).abs_diff(frame.until_ns),
        };
        match ahead_ns > AHEAD_NS {
            true => self.held = Some(frame),
            false => self.merge(&frame),
        }
    }

    fn merge(&mut self, frame: &FrameSeconds) {
        self.until_ns = Some(frame.until_ns);
        for (channel, seconds) in &frame.channels {
            for (second, accumulator) in seconds {
                self.series[*channel].add_second(*second, accumulator);
            }
        }
        let until = frame.until_ns / 1_000_000_000;
        self.keep_channels(|series| series.take_complete(until));
        let advance = |one: &mut ChannelTrends<T>| one.files.advance(until);
        let advanced: Vec<_> = self.channel_files.iter_mut().map(advance).collect();
        self.note(advanced);
    }

    /// Samples the recorder's counters.
    fn count(&mut self, now_ns: u64) {
        self.counted_ns = now_ns;
        let until = now_ns / 1_000_000_000;
        let (ledger, counts) = (self.live.total(), self.live.counts());
        let total = ledger.total();
        for (series, (counter, trend)) in self.counters.iter_mut().enumerate() {
            trend.push(now_ns, counter.read(&ledger, &total, &counts) as f64);
            let rows = trend.take_complete(until);
            self.counter_files.iter_mut().for_each(|files| files.add(series, &rows));
        }
        let advance = |files: &mut T| files.advance(until);
        let advanced: Vec<_> = self.counter_files.iter_mut().map(advance).collect();
        self.note(advanced);
    }

    fn finish(&mut self) {
        if let Some(held) = self.held.take() {
            self.merge(&held);
        }
        self.keep_channels(TrendSeries::finish);
        for (series, (_, trend)) in self.counters.iter_mut().enumerate() {
            let rows = trend.finish();
            self.counter_files.iter_mut().for_each(|files| files.add(series, &rows));
        }
        let ended: Vec<_> = self.stores().map(TrendStore::finish).collect();
        self.note(ended);
    }

    /// All files.
    fn stores(&mut self) -> impl Iterator<Item = &mut T> {
        self.channel_files.iter_mut().map(|one| &mut one.files).chain(&mut self.counter_files)
    }

    fn keep_channels(&mut self, take: impl Fn(&mut TrendSeries) -> Completed) {
        for (channel, series) in self.series.iter_mut().enumerate() {
            let rows = take(series);
            for ChannelTrends { files, series_of } in &mut self.channel_files {
                if let Some(index) = series_of[channel] {
                    files.add(index, &rows);
                }
            }
        }
    }

    /// Reports errors and counts the rows that are in no file.
    fn note(&mut self, written: Vec<Result<(), String>>) {
        for error in written.into_iter().filter_map(Result::err) {
            self.live.warn_once(format!("trends: {error}"));
        }
        let counters = &self.live.counters;
        let late: u64 = self.series.iter().map(TrendSeries::late_samples).sum();
        let left_out = late + self.samples_ahead;
        // The write agent also counts there.
        counters.trend_samples_late.fetch_add(left_out - self.samples_noted, Relaxed);
        self.samples_noted = left_out;
        let of_channels = self.channel_files.iter().map(|one| &one.files);
        let lost = of_channels.chain(&self.counter_files).map(TrendStore::rows_lost).sum();
        counters.trend_rows_lost.store(lost, Relaxed);
    }
}

impl Counter {
    fn read(self, ledger: &Ledger, total: &SourceLedger, counts: &Counts) -> u64 {
        match self {
            Self::Total(entry) => total[entry],
            Self::FramesRecorded => counts.frames_recorded,
            Self::BytesWritten => counts.bytes_written,
            Self::EventsRecorded => counts.events_recorded.saturating_add(counts.slices_recorded),
            Self::Source(source, entry) => ledger.sources[source.index()][entry],
        }
    }
}

/// The time of the next sample of the counters.
fn next_count_ns(now_ns: u64) -> u64 {
    (now_ns / COUNTERS_EVERY_NS + 1) * COUNTERS_EVERY_NS
}

/// The counters that have trends: the ledger's lines, the written frames and bytes, and, if there
/// are not too many sources for the memory, some lines of each source.
fn counters(config: &RecorderConfig) -> Vec<(String, Counter)> {
    let total =
        |&entry: &Entry| (format!("{COUNTER_PREFIX}{}", entry.name()), Counter::Total(entry));
    let mut counters: Vec<_> = Entry::ALL.iter().map(total).collect();
    counters.push((format!("{COUNTER_PREFIX}frames_recorded"), Counter::FramesRecorded));
    counters.push((format!("{COUNTER_PREFIX}bytes_written"), Counter::BytesWritten));
    counters.push((format!("{COUNTER_PREFIX}events_recorded"), Counter::EventsRecorded));
    let sources = config.sources.iter().map(|source| &source.name);
    let names: Vec<_> = sources.chain(config.links.iter().map(|link| &link.name)).collect();
    let with_sources = counters.len() + names.len() * OF_SOURCE.len();
    let bytes = TrendFiles::memory_bytes(with_sources) as u64;
    if names.len() <= SOURCES_MAX && bytes <= config.memory_bytes / MEMORY_SHARE {
        for (source, name) in (0..).map(SourceId).zip(names) {
            let of = |&entry: &Entry| {
                (format!("{COUNTER_PREFIX}{name}:{}", entry.name()), Counter::Source(source, entry))
            };
            counters.extend(OF_SOURCE.iter().map(of));
        }
    }
    counters
}

#[cfg(test)]
mod tests {
    use catchment_trends::Accumulator;

    use super::*;

    fn frame(samples: usize) -> FrameSeconds {
        let seconds = vec![(7, std::iter::repeat_n(1.5, samples).collect::<Accumulator>())];
        FrameSeconds { channels: vec![(0, seconds)], until_ns: 8_000_000_000 }
    }

    #[test]
    fn counters_are_looked_at_at_the_same_places_of_each_second() {
        let mut now_ns = 1_700_000_000_123_456_789;
        for phase in [250, 500, 750, 0, 250] {
            now_ns = next_count_ns(now_ns);
            assert_eq!(now_ns % 1_000_000_000 / 1_000_000, phase);
            // It is never on time.
            now_ns += 7_000_000;
        }
    }

    #[test]
    fn a_trend_agent_that_is_behind_is_waited_for_while_there_is_time_and_then_no_more() {
        let live = Arc::new(Live::new(&RecorderConfig::new("".into(), Vec::new())));
        let late = || live.counters.trend_samples_late.load(Relaxed);
        let (feed, frames) = TrendFeed::new(&live, Waker::default());
        for _ in 0..FRAMES_QUEUED {
            assert!(feed.offer(frame(1), false).is_none(), "room needs no time");
        }
        assert_eq!((late(), frames.len()), (0, FRAMES_QUEUED));
        assert!(feed.offer(frame(5), false).is_none());
        assert_eq!(late(), 5);
        let back = feed.offer(frame(20), true).expect("there is time to offer it again");
        assert_eq!((back.samples(), late()), (20, 5));
        frames.recv().unwrap();
        assert!(feed.offer(back, true).is_none());
        assert_eq!(late(), 5);
        let samples: Vec<u64> = frames.try_iter().map(|frame| frame.samples()).collect();
        assert_eq!((samples.len(), samples.last()), (FRAMES_QUEUED, Some(&20)));
        drop(frames);
        assert!(feed.offer(frame(1), true).is_none());
        assert_eq!(late(), 5, "an agent that failed is reported by the join");
    }
}
