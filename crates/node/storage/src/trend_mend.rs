//! Repairs the trends of a killed recorder: open files are closed, and rows in tails go into a file
//! of their own after the existing ones. Reading does not require this; it makes trends
//! self-contained runs.
//!
//! A tail is deleted when its rows are in a file that is closed and durable. An interrupted repair
//! can be started again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use catchment_frame::{Codings, ColumnCoding, Numbering, Schema};
use serde::Serialize;

use crate::error::StorageError;
use crate::open;
use crate::repair::{FileRepair, Outcome, repair};
use crate::run::Run;
use crate::trend::{TrendKind, tails};
use crate::trend_files::{TrendLengths, join_frames};
use crate::write::{Ending, NewRun, RunWriter, WriteOptions};

/// The result for one trend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrendMend {
    /// Its folder.
    pub folder: PathBuf,
    /// Files that were closed, or cannot be.
    pub closed: Vec<FileRepair>,
    /// Rows of all series that were moved from tails into a file.
    pub rows: u64,
    /// Unreadable parts of the tails.
    pub unreadable: Vec<String>,
}

/// Repairs those trends of a run's folder that need it. The run must not be recorded meanwhile.
///
/// # Errors
/// The system refuses to read, write or sync.
pub fn mend_trends(run: &Path) -> Result<Vec<TrendMend>, StorageError> {
    let mut mends = Vec::new();
    let trends = run.join("trends");
    for (folder, kind) in [trends.clone(), trends.join("counters")]
        .iter()
        .flat_map(|folder| [(folder, TrendKind::Second), (folder, TrendKind::Minute)])
    {
        let folder = folder.join(kind.name());
        if folder.is_dir() && !is_whole(&folder)? {
            mends.push(mend(&folder, kind)?);
        }
    }
    Ok(mends)
}

/// Whether there are no tails, and all files are closed.
fn is_whole(folder: &Path) -> Result<bool, StorageError> {
    let run = match Run::open(folder) {
        Ok(run) => run,
        Err(StorageError::NoFiles { .. }) => return Ok(tails(folder)?.is_empty()),
        Err(error) if is_unreadable(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    Ok(run.closed() && tails(folder)?.is_empty())
}

fn mend(folder: &Path, kind: TrendKind) -> Result<TrendMend, StorageError> {
    let mut mend = TrendMend {
        folder: folder.to_owned(),
        closed: Vec::new(),
        rows: 0,
        unreadable: Vec::new(),
    };
    if !open::paths(folder)?.is_empty() {
        let repaired = repair(folder)?.files.into_iter();
        mend.closed = repaired.filter(|file| file.outcome != Outcome::Intact).collect();
    }
    let tails = tails(folder)?;
    let mut behind = Behind::open(folder, kind)?;
    for tail in &tails {
        match Run::open(tail) {
            Ok(run) => behind.take(&run, &mut mend)?,
            Err(StorageError::NoFiles { .. }) => {}
            Err(error) if error.is_damage() => mend.unreadable.push(error.to_string()),
            Err(error) => return Err(error),
        }
    }
    if let Some(writer) = behind.writer {
        writer.finish(Ending::default())?;
    }
    if mend.unreadable.is_empty() {
        for tail in tails {
            let failed = |source| StorageError::Write { path: tail.clone(), source };
            std::fs::remove_dir_all(&tail).map_err(failed)?;
        }
    }
    Ok(mend)
}

/// The data written after the existing files.
struct Behind {
    folder: PathBuf,
    /// Rows of a whole frame, in nanoseconds.
    frame_ns: u64,
    next_index: u32,
    /// All rows before that time are in files.
    end_ns: u64,
    writer: Option<RunWriter>,
}

impl Behind {
    fn open(folder: &Path, kind: TrendKind) -> Result<Self, StorageError> {
        // A file that was never begun, or cannot be read, still has its number.
        let named = open::paths(folder)?.iter().filter_map(|path| named_index(path)).max();
        let (last, end_ns) = match Run::open(folder) {
            Ok(run) => {
                let last = run.files().map(|file| file.header.file_index).max();
                let ends = run.channel_frames().iter().map(|one| one.summary.info.time_last_ns);
                (last.max(named), ends.max().unwrap_or(0))
            }
            Err(StorageError::NoFiles { .. }) => (named, 0),
            Err(error) if is_unreadable(&error) => (named, 0),
            Err(error) => return Err(error),
        };
        let next_index = last.map_or(0, |last| last.saturating_add(1));
        let lengths = TrendLengths::offline();
        let rows = match kind {
            TrendKind::Second => lengths.second[0],
            TrendKind::Minute => lengths.minute[0],
        };
        let (folder, frame_ns) = (folder.to_owned(), rows * kind.period_ns());
        Ok(Self { folder, frame_ns, next_index, end_ns, writer: None })
    }

    /// Writes the frames of a tail that are after the existing ones.
    fn take(&mut self, tail: &Run, mend: &mut TrendMend) -> Result<(), StorageError> {
        let mut together = BTreeMap::new();
        for (index, frame) in tail.channel_frames().iter().enumerate() {
            let info = frame.summary.info;
            if info.time_first_ns >= self.end_ns {
                let cell = info.time_first_ns / self.frame_ns;
                together.entry(cell).or_insert(index..index).end = index + 1;
            }
        }
        for frames in together.into_values() {
            let rows = tail.channel_frames()[frames.clone()].iter().map(|one| one.summary.info);
            let rows: u64 = rows.map(|info| info.rows / 5).sum();
            if self.writer.is_none() {
                self.writer = Some(self.begin(tail)?);
            }
            let Some(writer) = &mut self.writer else { continue };
            match join_frames(writer, tail, frames) {
                Ok(end_ns) => {
                    self.end_ns = end_ns;
                    mend.rows += rows;
                }
                Err(error) if error.is_damage() => mend.unreadable.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn begin(&self, tail: &Run) -> Result<RunWriter, StorageError> {
        let header = tail.header();
        let name = tail.files().next().and_then(|file| file.path.file_stem()?.to_str());
        let name = name.and_then(|name| Some(name.rsplit_once('-')?.0)).unwrap_or("trend");
        let run = NewRun {
            folder: self.folder.clone(),
            name: name.to_owned(),
            run: header.run,
            run_number: header.run_number,
            config: header.config.clone(),
            emulated: header.emulated,
            schema: Schema::clone(&header.schema),
            numbering: Numbering::File,
            variant: 0,
            base: None,
        };
        let codings = Codings::new(ColumnCoding::Auto);
        let first_index = self.next_index;
        RunWriter::create(run, WriteOptions { codings, first_index, ..WriteOptions::small() })
    }
}

/// Whether a folder could not be opened because all its files have unreadable headers: `repair`
/// reports each.
fn is_unreadable(error: &StorageError) -> bool {
    matches!(error, StorageError::Frame { .. }) && error.is_damage()
}

/// The number at the end of a file's name.
fn named_index(path: &Path) -> Option<u32> {
    path.file_stem()?.to_str()?.rsplit_once('-')?.1.parse().ok()
}
