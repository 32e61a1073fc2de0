//! Merges the trends of a run's folders into those of one folder: each row once, from the first
//! folder in which it can be read.
//!
//! Trends of channels and of the recorder's counters are merged apart, as they stand. Rows are read
//! an hour of all series at a time, and written as long frames: tails, which an interrupted run
//! has, are among what is read, and no more there.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;

use catchment_frame::{ChannelInfo, Codings};
use catchment_trends::{Completed, Row, Statistics};

use crate::channels::Select;
use crate::error::StorageError;
use crate::left_out::LeftOut;
use crate::open::FileProblem;
use crate::run::Run;
use crate::trend::{TREND_SUFFIXES, Trend, TrendKind, Trends, rows_in};
use crate::trend_files::{NewTrends, TrendFiles, TrendLengths};
use crate::write::NewRun;

/// The time that is read at once, and the longest time of a frame: minutes are in frames of a day.
const HOUR_NS: u64 = 3_600_000_000_000;
const FRAME_HOURS_MAX: u64 = 48;

/// What was merged.
#[derive(Debug, Default)]
pub(crate) struct MergedTrends {
    /// Rows of seconds and of minutes.
    pub(crate) rows: u64,
    /// What could be read in no folder: a line each.
    pub(crate) left_out: LeftOut,
}

/// What is known of the run when its trends are closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closing {
    pub(crate) run_ended: bool,
    pub(crate) data_lost: bool,
}

/// Merges the trends that stand in the folders of these paths, or beside these files, if there are
/// any, into those of a new run. `go_on` returns whether to continue.
///
/// # Errors
/// A disk error, or a stop by `go_on`.
pub(crate) fn merge_trends(
    paths: &[PathBuf],
    new: &NewRun,
    codings: &Codings,
    closing: Closing,
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<MergedTrends, StorageError> {
    let mut merged = MergedTrends::default();
    let mut all: Vec<Trends> = Vec::new();
    for trends in paths.iter().map(|path| Trends::new(path)) {
        // Several files of a run stand beside the same trends.
        if !all.iter().any(|one| one.of_run() == trends.of_run()) {
            all.push(trends);
        }
    }
    for are_counters in [false, true] {
        let folder = |trends: &Trends, kind| match are_counters {
            true => trends.counter_folder(kind),
            false => trends.folder(kind),
        };
        let mut levels = |trends: &Trends, kind| -> Result<Vec<Level>, StorageError> {
            let levels = merged.left_out.or_gap(trends.levels(&folder(trends, kind)))?;
            Ok(levels.into_iter().flatten().map(Level::of).collect())
        };
        let mut sources = Vec::new();
        for trends in &all {
            sources.push(Source {
                second: levels(trends, TrendKind::Second)?,
                minute: levels(trends, TrendKind::Minute)?,
            });
        }
        let of_new = Trends::new(&new.folder);
        let into = folder(&of_new, TrendKind::Second);
        let into = into.parent().expect("it is in the run's folder").to_owned();
        let new_trends = |series| NewTrends {
            folder: into,
            name: new.name.clone(),
            run: new.run,
            run_number: new.run_number,
            config: new.config.clone(),
            emulated: new.emulated,
            series,
            codings: codings.clone(),
            lengths: TrendLengths::offline(),
            faults: None,
            continues: false,
        };
        merge(&sources, new_trends, closing, &mut merged, go_on)?;
    }
    Ok(merged)
}

/// The trends of one folder.
struct Source {
    second: Vec<Level>,
    minute: Vec<Level>,
}

impl Source {
    fn levels(&self, kind: TrendKind) -> &[Level] {
        match kind {
            TrendKind::Second => &self.second,
            TrendKind::Minute => &self.minute,
        }
    }
}

/// A run of trends: the long frames, or a tail.
struct Level {
    run: Arc<Run>,
    /// The columns of a series, by its name.
    columns: HashMap<String, [usize; TREND_SUFFIXES.len()]>,
}

impl Level {
    fn of(run: Arc<Run>) -> Self {
        let indexes = run.channels().iter().enumerate();
        let by_name: HashMap<&str, usize> =
            indexes.map(|(index, info)| (&*info.name, index)).collect();
        let mut columns = HashMap::new();
        for name in run.channels().iter().filter_map(series_of) {
            let of = |suffix: &str| by_name.get(&*format!("{name}{suffix}")).copied();
            if let [Some(mean), Some(min), Some(max), Some(rms), Some(n)] = TREND_SUFFIXES.map(of) {
                columns.insert(name.to_owned(), [mean, min, max, rms, n]);
            }
        }
        drop(by_name);
        Self { run, columns }
    }

    /// Whether there are rows for all times of its frames in that range.
    fn is_in(&self, rows: &BTreeMap<u64, Row>, kind: TrendKind, range: &Range<u64>) -> bool {
        let infos = self.run.channel_frames().iter().map(|frame| frame.summary.info);
        let mut reached =
            infos.filter(|it| it.time_first_ns < range.end && it.time_last_ns > range.start);
        reached.all(|info| {
            let first = info.time_first_ns.max(range.start) / kind.period_ns();
            let last = (info.time_last_ns.min(range.end) - 1) / kind.period_ns();
            (first..=last).all(|index| rows.contains_key(&index))
        })
    }
}

/// The name of the series of which a column has the means.
fn series_of(info: &ChannelInfo) -> Option<&str> {
    info.name.strip_suffix(TREND_SUFFIXES[0])
}

fn merge(
    sources: &[Source],
    new_trends: impl FnOnce(Vec<ChannelInfo>) -> NewTrends,
    Closing { run_ended, data_lost }: Closing,
    merged: &mut MergedTrends,
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<(), StorageError> {
    name_problems(sources, &mut merged.left_out);
    let levels = || sources.iter().flat_map(|one| one.second.iter().chain(&one.minute));
    let mut series: Vec<ChannelInfo> = Vec::new();
    let (mut known, mut hours) = (BTreeSet::new(), BTreeSet::new());
    for level in levels() {
        for info in level.run.channels() {
            let Some(name) = series_of(info).filter(|name| known.insert((*name).to_owned())) else {
                continue;
            };
            series.push(ChannelInfo { name: name.to_owned(), ..info.clone() });
        }
        for frame in level.run.channel_frames() {
            let info = frame.summary.info;
            let (first, last) = (info.time_first_ns / HOUR_NS, info.time_last_ns / HOUR_NS);
            if last.saturating_sub(first) > FRAME_HOURS_MAX {
                let path = level.run.path().display();
                merged.left_out.name(format!("{path}: a frame of trends is longer than two days"));
            } else {
                hours.extend(first..=last);
            }
        }
    }
    if series.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = series.iter().map(|info| info.name.clone()).collect();
    let mut files = TrendFiles::create(&new_trends(series))?;
    for hour in hours {
        let range = hour * HOUR_NS..(hour + 1).saturating_mul(HOUR_NS);
        for (index, name) in names.iter().enumerate() {
            let rows = |kind: TrendKind, merged: &mut MergedTrends| {
                rows_of(sources, (name.as_str(), kind), &range, merged)
            };
            let seconds = rows(TrendKind::Second, merged)?;
            let minutes = rows(TrendKind::Minute, merged)?;
            merged.rows += (seconds.len() + minutes.len()) as u64;
            files.add(index, &Completed { seconds, minutes });
        }
        files.advance((hour + 1).saturating_mul(3_600))?;
        if go_on().is_break() {
            return Err(StorageError::Stopped);
        }
    }
    files.finish_with(run_ended, data_lost || !merged.left_out.is_empty())?;
    Ok(())
}

/// Names the files of trends that cannot be opened, unless a folder that has such trends has none:
/// it is unknown what was in them.
fn name_problems(sources: &[Source], left_out: &mut LeftOut) {
    for kind in [TrendKind::Second, TrendKind::Minute] {
        let mut of_kind = sources.iter().map(|one| one.levels(kind)).filter(|one| !one.is_empty());
        // Files that were made ahead and never begun had nothing.
        let is_lost = |problem: &&FileProblem| matches!(problem, FileProblem::Unreadable { .. });
        let is_whole = |level: &Level| !level.run.problems().iter().any(|one| is_lost(&one));
        if of_kind.any(|levels| levels.iter().all(is_whole)) {
            continue;
        }
        for level in sources.iter().flat_map(|one| one.levels(kind)) {
            let path = level.run.path().display();
            let problems = level.run.problems().iter().filter(is_lost);
            problems.for_each(|problem| left_out.name(format!("{path}: {problem}")));
        }
    }
}

/// The rows of a series in an hour. What cannot be read is named where no folder has all rows of
/// that time.
fn rows_of(
    sources: &[Source],
    (name, kind): (&str, TrendKind),
    range: &Range<u64>,
    merged: &mut MergedTrends,
) -> Result<Vec<Row>, StorageError> {
    let select = Select::TimeNs(range.clone());
    let mut rows: BTreeMap<u64, Row> = BTreeMap::new();
    let mut damaged: Vec<(&Level, StorageError)> = Vec::new();
    for source in sources {
        let mut of_source = Trend::default();
        for level in source.levels(kind) {
            let Some(columns) = level.columns.get(name) else { continue };
            match rows_in(&level.run, *columns, &select) {
                Ok(read) => of_source.append(read),
                Err(error) if error.is_damage() => damaged.push((level, error)),
                Err(error) => return Err(error),
            }
        }
        for (at, &start_ns) in of_source.start_ns.iter().enumerate() {
            let index = start_ns / kind.period_ns();
            let statistics = Statistics {
                mean: of_source.mean[at],
                min: of_source.min[at],
                max: of_source.max[at],
                rms: of_source.rms[at],
                n: of_source.n[at].into(),
                not_finite: 0,
                saturated: 0,
            };
            rows.entry(index).or_insert(Row { index, statistics });
        }
    }
    damaged.retain(|(level, _)| !level.is_in(&rows, kind, range));
    damaged.into_iter().try_for_each(|(_, error)| merged.left_out.note(error))?;
    Ok(rows.into_values().collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use catchment_model::{RunId, SampleRate};

    use super::*;
    use catchment_frame::{Dtype, Schema};

    const BEGIN: u64 = 1_700_000_000;

    fn row(index: u64, mean: f64) -> Row {
        let (min, max, rms) = (mean - 1.0, mean + 1.0, mean);
        Row {
            index,
            statistics: Statistics { mean, min, max, rms, n: 7, not_finite: 0, saturated: 0 },
        }
    }

    fn new_trends(run: &Path, names: &[&str], lengths: TrendLengths) -> NewTrends {
        NewTrends {
            folder: run.join("trends"),
            name: "run".to_owned(),
            run: RunId([7; 16]),
            run_number: 1,
            config: String::new(),
            emulated: true,
            series: names
                .iter()
                .map(|name| {
                    ChannelInfo::new((*name).to_owned(), Dtype::F64, SampleRate::new(1, 1).unwrap())
                })
                .collect(),
            codings: Codings::default(),
            lengths,
            faults: None,
            continues: false,
        }
    }

    fn merge_into(folder: &Path, paths: &[PathBuf]) -> MergedTrends {
        let new = NewRun {
            folder: folder.to_owned(),
            name: "run".to_owned(),
            run: RunId([7; 16]),
            run_number: 1,
            config: String::new(),
            emulated: true,
            schema: Schema::channels(Vec::new(), Vec::new()).unwrap(),
            numbering: catchment_frame::Numbering::File,
            variant: 0,
            stream: 0,
            superseded: Vec::new(),
            base: None,
        };
        let closing = Closing { run_ended: true, data_lost: false };
        let go_on = &mut || ControlFlow::Continue(());
        merge_trends(paths, &new, &Codings::default(), closing, go_on).unwrap()
    }

    #[test]
    fn each_row_stands_once_in_what_was_merged_whichever_folder_has_it() {
        let root = tempfile::tempdir().unwrap();
        let [one, two, three] = ["one", "two", "three"].map(|name| root.path().join(name));
        // A folder that was written offline, and lacks some seconds in the middle.
        let mut files =
            TrendFiles::create(&new_trends(&one, &["a", "b"], TrendLengths::offline())).unwrap();
        let lacks = |second: &u64| !(4_000..4_100).contains(second);
        for series in 0..2 {
            let rows = (0..8_000).filter(lacks).map(|one| row(BEGIN + one, series as f64));
            let minutes = (0..10).map(|one| row(BEGIN / 60 + one, 100.0)).collect();
            files.add(series, &Completed { seconds: rows.collect(), minutes });
        }
        files.finish(true).unwrap();
        // One whose recorder was killed: the newest rows are in tails. It has no b.
        let mut files =
            TrendFiles::create(&new_trends(&two, &["a"], TrendLengths::recording())).unwrap();
        for second in 0..9_000 {
            files.add(0, &Completed { seconds: vec![row(BEGIN + second, 5.0)], minutes: vec![] });
            files.advance(BEGIN + second + 1).unwrap();
        }
        drop(files);
        let merged = merge_into(&three, &[one, two]);
        assert!(merged.left_out.is_empty(), "{merged:?}");
        let trends = Trends::new(&three);
        let read = |name: &str, kind| {
            let trend = trends.trend(name, kind, &Select::All).unwrap().expect("it is there");
            trend.start_ns.into_iter().zip(trend.mean).collect::<Vec<_>>()
        };
        let a = read("a", TrendKind::Second);
        // The last rows of a tail that was not written to its end were with the killed recorder.
        let last = a.len() as u64;
        assert!((8_980..=9_000).contains(&last), "{last}");
        for (second, &(start_ns, mean)) in a.iter().enumerate() {
            let second = second as u64;
            let expected = if second < 8_000 && lacks(&second) { 0.0 } else { 5.0 };
            assert_eq!((start_ns, mean), ((BEGIN + second) * 1_000_000_000, expected));
        }
        assert_eq!(read("b", TrendKind::Second).len(), 7_900);
        assert_eq!(read("a", TrendKind::Minute).len(), 10);
        assert_eq!(merged.rows, last + 7_900 + 20);
        assert!(crate::trend::tails(&trends.folder(TrendKind::Second)).unwrap().is_empty());
    }

    #[test]
    fn folders_without_trends_give_none() {
        let root = tempfile::tempdir().unwrap();
        let merged = merge_into(&root.path().join("new"), &[root.path().to_owned()]);
        assert_eq!(merged.rows, 0);
        assert!(!root.path().join("new").exists());
    }
}
