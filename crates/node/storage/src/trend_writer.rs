//! Writing trends: from samples while a run is written, or from an existing run.
//!
//! Every channel's seconds are summed on the threads that have its samples in their cache. When a
//! frame is done, the seconds that it completes become rows, and go into the trend's files
//! (`trend_files.rs`).

use std::collections::HashMap;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catchment_frame::{ChannelInfo, Codings, Schema};
use catchment_trends::{Seconds, TrendChannel, TrendSeries};

use crate::channels::{Segment, Select};
use crate::error::StorageError;
use crate::left_out::LeftOut;
use crate::parallel;
use crate::run::Run;
use crate::trend::TrendKind;
use crate::trend_files::{NewTrends, TrendFiles, TrendFilesReport, TrendLengths};
use crate::write::{NewRun, WriteReport, unwritable};

/// How to write trends.
#[derive(Clone, Debug, Default)]
pub struct TrendOptions {
    /// How their columns are encoded.
    pub codings: Codings,
}

/// The written trends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrendReport {
    /// The run of seconds.
    pub second: WriteReport,
    /// The run of minutes.
    pub minute: WriteReport,
    /// Channels without a trend: those with several numbers per sample.
    pub without: Vec<String>,
    /// Samples that arrived after their second had been written, and are in no row.
    pub late_samples: u64,
    /// Damaged parts of the run that are in no row, one line per place.
    pub left_out: Vec<String>,
}

/// Writes the trends of one run's channels.
pub struct TrendWriter {
    /// The channels that have a trend and the indices of their series, by column.
    channels: HashMap<u32, (usize, Arc<TrendChannel>)>,
    series: Vec<TrendSeries>,
    files: TrendFiles,
    without: Vec<String>,
}

impl TrendWriter {
    /// Begins the trends of a run that is, or will be, in `folder`.
    ///
    /// # Errors
    /// Existing trends, or a disk error.
    pub fn create(
        folder: &Path,
        run: &NewRun,
        options: &TrendOptions,
    ) -> Result<Self, StorageError> {
        Self::create_in(folder.join("trends"), run, options)
    }

    /// Begins trends in their own folder.
    fn create_in(
        folder: PathBuf,
        run: &NewRun,
        options: &TrendOptions,
    ) -> Result<Self, StorageError> {
        let (mut infos, mut without) = (Vec::new(), Vec::new());
        let mut channels = HashMap::new();
        for info in run.schema.columns.iter().filter_map(ChannelInfo::of) {
            match TrendChannel::of(&info) {
                Ok(channel) => {
                    channels.insert(info.id, (infos.len(), Arc::new(channel)));
                    infos.push(info);
                }
                Err(_) => without.push(info.name),
            }
        }
        let files = TrendFiles::create(&NewTrends {
            continues: false,
            folder,
            name: run.name.clone(),
            run: run.run,
            run_number: run.run_number,
            config: run.config.clone(),
            emulated: run.emulated,
            series: infos,
            codings: options.codings.clone(),
            lengths: TrendLengths::offline(),
            faults: None,
        })?;
        let series = vec![TrendSeries::new(); channels.len()];
        Ok(Self { channels, series, files, without })
    }

    /// The observer for the samples of a channel's column; none if it has no trend.
    pub(crate) fn channel(&self, column: u32) -> Option<Arc<TrendChannel>> {
        self.channels.get(&column).map(|(_, channel)| Arc::clone(channel))
    }

    /// Takes the sums observed in a column's samples.
    pub(crate) fn add(&mut self, column: u32, seconds: &Seconds) {
        let Some((index, _)) = self.channels.get(&column) else { return };
        for (second, accumulator) in seconds {
            self.series[*index].add_second(*second, accumulator);
        }
    }

    /// Writes complete seconds: no samples before that time will arrive any more.
    ///
    /// # Errors
    /// A disk error.
    pub fn advance(&mut self, until_ns: u64) -> Result<(), StorageError> {
        let until = until_ns / TrendKind::Second.period_ns();
        for (index, series) in self.series.iter_mut().enumerate() {
            self.files.add(index, &series.take_complete(until));
        }
        self.files.advance(until)
    }

    /// Writes the rest and closes both runs; `data_lost` means that samples are missing.
    ///
    /// # Errors
    /// A disk error.
    pub fn finish(mut self, run_ended: bool, data_lost: bool) -> Result<TrendReport, StorageError> {
        let mut late_samples = 0;
        for (index, series) in self.series.iter_mut().enumerate() {
            self.files.add(index, &series.finish());
            late_samples += series.late_samples();
        }
        let TrendFilesReport { second, minute } = self.files.finish_with(run_ended, data_lost)?;
        let (without, left_out) = (self.without, Vec::new());
        Ok(TrendReport { second, minute, without, late_samples, left_out })
    }
}

/// Makes the trends of an existing run, in its folder. `progress` is called for every frame, with
/// the number done and the total, and returns whether to continue. Damaged columns are left out of
/// the rows: the report names them, and the trends are marked as having lost data. If anything
/// fails, no partial trend remains.
///
/// # Errors
/// Existing trends, a disk error, or a stop by `progress`.
pub fn make_trends(
    run: &Run,
    options: &TrendOptions,
    progress: impl FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<TrendReport, StorageError> {
    let trends = create_for(trends_folder(run), run, options)?;
    make(trends, run, Damage::LeftOut, progress).inspect_err(|_| {
        // The trends just made, which are incomplete. If they stay, `replace_trends` is needed.
        KINDS.iter().for_each(|kind| drop(remove(&run.trend_folder(*kind))));
    })
}

/// Makes the trends of a run's channels again, whether there are any or not. They are made
/// separately, and replace the existing ones once they are durable: if anything fails, the old ones
/// stay. Those of the recorder's counters are not touched. The run must not be recorded meanwhile.
///
/// # Errors
/// A damaged column: the existing trends may have rows from its samples, and are worth more than
/// new ones without. A disk error, or a stop by `progress`.
pub fn replace_trends(
    run: &Run,
    options: &TrendOptions,
    progress: impl FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<TrendReport, StorageError> {
    let folder = trends_folder(run);
    let [new, old] = ["new", "old"].map(|name| folder.join(name));
    // An interrupted exchange may have left a trend only in `old`.
    for kind in KINDS {
        let (there, aside) = (run.trend_folder(kind), old.join(kind.name()));
        if !there.exists() && aside.exists() {
            rename(&aside, &there)?;
        }
    }
    remove(&new)?;
    remove(&old)?;
    let made = create_for(new.clone(), run, options)
        .and_then(|new| make(new, run, Damage::Refused, progress));
    let report = match made {
        Ok(report) => report,
        Err(error) => {
            // The first error counts. The rest of it is not a trend, and is removed the next time.
            let _removed = remove(&new);
            return Err(error);
        }
    };
    std::fs::create_dir_all(&old)
        .map_err(|source| StorageError::Write { path: old.clone(), source })?;
    for kind in KINDS {
        let (there, aside) = (run.trend_folder(kind), old.join(kind.name()));
        if there.exists() {
            rename(&there, &aside)?;
        }
        if let Err(error) = rename(&new.join(kind.name()), &there) {
            if aside.exists() {
                let _back = rename(&aside, &there);
            }
            return Err(error);
        }
    }
    catchment_disk::sync_folder(&folder)?;
    remove(&new)?;
    remove(&old)?;
    Ok(report)
}

/// The path of a run's trends, whether they exist or not.
fn trends_folder(run: &Run) -> PathBuf {
    let second = run.trend_folder(TrendKind::Second);
    second.parent().map_or_else(|| run.path().join("trends"), Path::to_owned)
}

/// Begins trends of an existing run.
fn create_for(
    trends: PathBuf,
    run: &Run,
    options: &TrendOptions,
) -> Result<TrendWriter, StorageError> {
    let header = run.header();
    let name = run.files().next().map_or_else(String::new, |file| {
        let stem = file.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let stem = stem.unwrap_or_default();
        stem.rsplit_once('-').map_or(stem.clone(), |(name, _)| name.to_owned())
    });
    let new = NewRun {
        folder: trends.clone(),
        name,
        run: header.run,
        run_number: header.run_number,
        config: header.config.clone(),
        emulated: header.emulated,
        schema: Schema::clone(&header.schema),
        numbering: header.numbering,
        variant: 0,
        base: None,
    };
    TrendWriter::create_in(trends, &new, options)
}

/// The treatment of damaged columns.
#[derive(Clone, Copy)]
enum Damage {
    LeftOut,
    Refused,
}

fn make(
    mut trends: TrendWriter,
    run: &Run,
    damage: Damage,
    mut progress: impl FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<TrendReport, StorageError> {
    let mut left_out = LeftOut::default();
    let frames = run.channel_frames();
    let all: Vec<usize> = (0..run.channels().len()).collect();
    for (frame, info) in frames.iter().enumerate() {
        let select = Select::Frames(frame..frame + 1);
        let with_trend = &trends.channels;
        let seen = parallel::map(all.clone(), parallel::threads(), |index| {
            let Some(channel) = run.channel_at(index) else { return Ok(None) };
            let column = channel.info().id;
            let Some((_, trend)) = with_trend.get(&column) else { return Ok(None) };
            match channel.read_alone(&select) {
                Err(error) if error.is_damage() => Ok(Some(Err(error))),
                Err(error) => Err(error),
                // Samples, spans and numbers were checked when they were read, and are consistent.
                Ok(segments) => Ok(Some(Ok((column, seconds(trend, &segments))))),
            }
        })?;
        for seen in seen.into_iter().flatten() {
            match (seen, damage) {
                (Ok((column, seconds)), _) => trends.add(column, &seconds),
                (Err(damaged), Damage::LeftOut) => left_out.note(damaged)?,
                (Err(damaged), Damage::Refused) => return Err(not_replaced(&damaged)),
            }
        }
        trends.advance(info.summary.info.time_last_ns)?;
        if progress(frame + 1, frames.len()).is_break() {
            return Err(StorageError::Stopped);
        }
    }
    let report = trends.finish(run.ended(), run.lost_data() || !left_out.is_empty())?;
    Ok(TrendReport { left_out: left_out.into_lines(), ..report })
}

fn not_replaced(damaged: &StorageError) -> StorageError {
    let problem = format!(
        "{damaged}; those that are there may have rows of these samples, and stay. To have trends of \
         what can be read instead, move the folder of the trends elsewhere and make them anew"
    );
    unwritable("the new trends", &problem)
}

/// The sums of segments for the seconds that they touch.
fn seconds(trend: &TrendChannel, segments: &[Segment]) -> Seconds {
    let partials = segments
        .iter()
        .filter_map(|segment| trend.partial(segment.first_sample, &[], &segment.bytes).ok());
    partials.flat_map(|partial| partial.seconds().to_vec()).collect()
}

fn rename(from: &Path, to: &Path) -> Result<(), StorageError> {
    std::fs::rename(from, to).map_err(|source| StorageError::Write { path: to.to_owned(), source })
}

/// Deletes a folder, if it is there.
fn remove(folder: &Path) -> Result<(), StorageError> {
    match std::fs::remove_dir_all(folder) {
        Err(source) if source.kind() != ErrorKind::NotFound => {
            Err(StorageError::Write { path: folder.to_owned(), source })
        }
        _ => Ok(()),
    }
}

const KINDS: [TrendKind; 2] = [TrendKind::Second, TrendKind::Minute];
