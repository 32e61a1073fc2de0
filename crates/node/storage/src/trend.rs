//! Trends of a run: mean, minimum, maximum, rms and count of every channel, per second and per
//! minute.
//!
//! They are separate runs, in `RUN/trends/second` and `RUN/trends/minute`, whose channels are named
//! `CHANNEL.mean`, `.min`, `.max`, `.rms` and `.n`. A second without a sample has no row. Those of
//! the recorder's counters are in `RUN/trends/counters/second` and `RUN/trends/counters/minute`.
//!
//! While a run is recorded, and if its recorder was killed, the newest rows are in tails: folders
//! `tail-N` in these, where N is the rows of a whole frame (`trend_files.rs`). Reading appends them
//! to the others.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catchment_frame::Dtype;
use parking_lot::Mutex;

use crate::channels::{Segment, Select};
use crate::error::StorageError;
use crate::open;
use crate::run::Run;

catchment_model::named! {
    /// The kind of trend, by the name of its folder.
    TrendKind {
        /// A row for every second.
        Second = "second",
        /// A row for every minute.
        Minute = "minute",
    }
}

impl TrendKind {
    /// The time that a row covers.
    pub fn period_ns(self) -> u64 {
        match self {
            Self::Second => 1_000_000_000,
            Self::Minute => 60_000_000_000,
        }
    }

    /// The time in one of its files: a day, or a month of thirty days.
    pub(crate) fn file_ns(self) -> u64 {
        match self {
            Self::Second => 86_400_000_000_000,
            Self::Minute => 30 * 86_400_000_000_000,
        }
    }
}

/// The suffixes of the five names.
pub const TREND_SUFFIXES: [&str; 5] = [".mean", ".min", ".max", ".rms", ".n"];

/// A channel's trend: one item of each for every second, or minute, that has samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trend {
    /// The start of each: nanoseconds in the channel's time scale.
    pub start_ns: Vec<u64>,
    /// The mean of its samples.
    pub mean: Vec<f64>,
    /// The smallest of its samples.
    pub min: Vec<f64>,
    /// The largest of its samples.
    pub max: Vec<f64>,
    /// The square root of the mean of the samples' squares.
    pub rms: Vec<f64>,
    /// The number of samples.
    pub n: Vec<u32>,
}

/// The trends of a run: their folder, and their runs as far as they have been opened.
pub(crate) struct Trends {
    folder: PathBuf,
    /// By folder: the run of the long frames and its tails, in order of decreasing frame length.
    opened: Mutex<HashMap<PathBuf, Vec<Arc<Run>>>>,
}

impl Trends {
    /// The trends in a run's folder, or beside a file in it.
    pub(crate) fn new(run: &Path) -> Self {
        let folder = if run.is_dir() { Some(run) } else { run.parent() };
        Self { folder: folder.unwrap_or(run).join("trends"), opened: Mutex::default() }
    }

    /// The folder with all of them.
    pub(crate) fn of_run(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn folder(&self, kind: TrendKind) -> PathBuf {
        self.folder.join(kind.name())
    }

    pub(crate) fn counter_folder(&self, kind: TrendKind) -> PathBuf {
        self.folder.join(COUNTERS).join(kind.name())
    }

    /// The trends in the first folder that has any.
    pub(crate) fn of_first(runs: &[PathBuf]) -> Self {
        let has_trends = |run: &&PathBuf| Self::new(run).folder.is_dir();
        let found = if runs.len() > 1 { runs.iter().find(has_trends) } else { None };
        Self::new(found.unwrap_or(&runs[0]))
    }

    /// The run of a trend's long frames.
    pub(crate) fn run(&self, kind: TrendKind) -> Result<Option<Arc<Run>>, StorageError> {
        let folder = self.folder(kind);
        Ok(self.levels(&folder)?.into_iter().find(|run| run.path() == folder))
    }

    /// The trend of a channel or a counter.
    pub(crate) fn trend(
        &self,
        channel: &str,
        kind: TrendKind,
        select: &Select,
    ) -> Result<Option<Trend>, StorageError> {
        for folder in [self.folder(kind), self.counter_folder(kind)] {
            let mut trend: Option<Trend> = None;
            for run in self.levels(&folder)? {
                let Some(rows) = rows_of(&run, channel, select)? else { continue };
                trend.get_or_insert_default().append(rows);
            }
            if trend.is_some() {
                return Ok(trend);
            }
        }
        Ok(None)
    }

    /// The names of the counters with a trend.
    pub(crate) fn counter_names(&self, kind: TrendKind) -> Result<Vec<String>, StorageError> {
        let mut names = Vec::new();
        for run in self.levels(&self.counter_folder(kind))? {
            let rows =
                run.channels().iter().filter_map(|info| info.name.strip_suffix(TREND_SUFFIXES[0]));
            for name in rows {
                if !names.iter().any(|known| known == name) {
                    names.push(name.to_owned());
                }
            }
        }
        Ok(names)
    }

    /// The run of a trend's long frames, and its tails, as they are now.
    pub(crate) fn levels(&self, folder: &Path) -> Result<Vec<Arc<Run>>, StorageError> {
        let mut opened = self.opened.lock();
        let known = opened.entry(folder.to_owned()).or_default();
        if let [only] = &known[..]
            && only.ended()
        {
            return Ok(known.clone());
        }
        let mut before = std::mem::take(known);
        let mut folders = vec![folder.to_owned()];
        folders.extend(tails(folder)?);
        // The tails with the shortest frames are read first: rows that leave one of them meanwhile
        // are found in a longer frame.
        while let Some(folder) = folders.pop() {
            let index = before.iter().position(|run| run.path() == folder);
            let run = index.map(|index| before.swap_remove(index));
            known.extend(newest(run, &folder)?);
        }
        known.reverse();
        Ok(known.clone())
    }
}

/// A channel's rows in a run of trends.
fn rows_of(run: &Run, channel: &str, select: &Select) -> Result<Option<Trend>, StorageError> {
    let mut columns = Vec::new();
    for suffix in TREND_SUFFIXES {
        let name = format!("{channel}{suffix}");
        let Some(index) = run.channels().iter().position(|info| info.name == name) else {
            return Ok(None);
        };
        columns.push(index);
    }
    let columns = columns.try_into().expect("a column for each suffix");
    rows_in(run, columns, select).map(Some)
}

/// The rows in these columns of a run of trends, in the order of [`TREND_SUFFIXES`].
pub(crate) fn rows_in(
    run: &Run,
    columns: [usize; TREND_SUFFIXES.len()],
    select: &Select,
) -> Result<Trend, StorageError> {
    let read = run.read_many(&columns, select)?;
    let mut trend = Trend::default();
    for segment in &read[0] {
        let period = run.channels()[columns[0]].rate;
        let samples = segment.first_sample..segment.first_sample + segment.samples;
        trend.start_ns.extend(samples.map(|sample| period.time_ns(sample)));
    }
    let values = |index: usize| {
        let dtype = run.channels()[columns[index]].dtype;
        let values = values(dtype, &read[index]);
        values.filter(|values| values.len() == trend.start_ns.len()).ok_or_else(|| {
            let what = run.channels()[columns[index]].name.clone();
            StorageError::Trend { path: run.path().to_owned(), what }
        })
    };
    let [mean, min, max, rms, n] = [values(0), values(1), values(2), values(3), values(4)];
    trend.n = n?.into_iter().map(|n| n as u32).collect();
    (trend.mean, trend.min, trend.max, trend.rms) = (mean?, min?, max?, rms?);
    Ok(trend)
}

impl Trend {
    /// Appends the rows after those already present.
    pub(crate) fn append(&mut self, mut rows: Self) {
        let last = self.start_ns.last().copied();
        let first = rows.start_ns.partition_point(|&start| last.is_some_and(|last| start <= last));
        self.start_ns.extend(rows.start_ns.drain(first..));
        self.mean.extend(rows.mean.drain(first..));
        self.min.extend(rows.min.drain(first..));
        self.max.extend(rows.max.drain(first..));
        self.rms.extend(rows.rms.drain(first..));
        self.n.extend(rows.n.drain(first..));
    }
}

/// The name of the folder of a tail whose whole frames have that many rows.
pub(crate) fn tail_name(rows: u64) -> String {
    format!("{TAIL}{rows}")
}

/// The folders of a trend's tails, in order of decreasing frame length.
pub(crate) fn tails(folder: &Path) -> Result<Vec<PathBuf>, StorageError> {
    let entries = match catchment_disk::list_folder(folder) {
        Ok(entries) => entries,
        Err(error) if error.io().is_some_and(|io| io.kind() == ErrorKind::NotFound) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error.into()),
    };
    let rows = |name: &str| name.strip_prefix(TAIL)?.parse::<u64>().ok();
    let tails = entries.into_iter().filter(|entry| entry.is_folder);
    let mut tails: Vec<_> =
        tails.filter_map(|entry| Some((rows(&entry.name)?, entry.path))).collect();
    tails.sort_by_key(|(rows, _)| std::cmp::Reverse(*rows));
    Ok(tails.into_iter().map(|(_, path)| path).collect())
}

/// A folder's run in its present state; `None` if it does not exist, or is still empty.
fn newest(known: Option<Arc<Run>>, folder: &Path) -> Result<Option<Arc<Run>>, StorageError> {
    let mut known = known;
    for _ in 0..TRIES {
        let looked = look(known.take(), folder);
        match looked {
            Ok(run) => return Ok(Some(run)),
            Err(StorageError::NoFiles { .. }) => return Ok(None),
            // A file was removed when a tail was restarted, or the folder at the run's end.
            Err(error)
                if error.system().is_some_and(|(_, io)| io.kind() == ErrorKind::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn look(known: Option<Arc<Run>>, folder: &Path) -> Result<Arc<Run>, StorageError> {
    if let Some(mut run) = known {
        let paths = open::paths(folder)?;
        let all_there = run.run_files().iter().all(|file| paths.contains(&file.path));
        // Other threads may still read it in its earlier state.
        if all_there && let Some(alone) = Arc::get_mut(&mut run) {
            alone.refresh()?;
            return Ok(run);
        }
    }
    Run::open(folder).map(Arc::new)
}

/// Numbers as f64; `None` if they are not plain numbers.
fn values(dtype: Dtype, segments: &[Segment]) -> Option<Vec<f64>> {
    let size = (dtype.bits()? / 8) as usize;
    let one = |b: &[u8]| -> Option<f64> {
        Some(match dtype {
            Dtype::U8 => f64::from(b[0]),
            Dtype::I8 => f64::from(b[0] as i8),
            Dtype::U16 => f64::from(u16::from_le_bytes(b.try_into().ok()?)),
            Dtype::I16 => f64::from(i16::from_le_bytes(b.try_into().ok()?)),
            Dtype::U32 => f64::from(u32::from_le_bytes(b.try_into().ok()?)),
            Dtype::I32 => f64::from(i32::from_le_bytes(b.try_into().ok()?)),
            Dtype::U64 => u64::from_le_bytes(b.try_into().ok()?) as f64,
            Dtype::I64 => i64::from_le_bytes(b.try_into().ok()?) as f64,
            Dtype::F32 => f64::from(f32::from_le_bytes(b.try_into().ok()?)),
            Dtype::F64 => f64::from_le_bytes(b.try_into().ok()?),
            _ => return None,
        })
    };
    segments.iter().flat_map(|segment| segment.bytes.chunks_exact(size)).map(one).collect()
}

/// The folder of the counters' trends.
const COUNTERS: &str = "counters";
/// The prefix of the names of tails' folders.
const TAIL: &str = "tail-";
/// Retries of opening a folder whose files are being removed.
const TRIES: usize = 16;
