//! The audit of several folders of one run: what each has, and what all of them have together.

use std::path::PathBuf;

use catchment_frame::{ColumnKind, FrameError, TocFlags, frame_ledger};
use catchment_model::{Entry, Ledger};
use serde::Serialize;

use super::{Closing, Difference, Open, Verdict, audit};
use crate::copies::{DamagedCopy, numbers_identify};
use crate::error::StorageError;
use crate::folders::{self, MissingFrames, OF_FRAME};
use crate::open::RunFile;
use crate::run::{Run, RunOptions};
use crate::verify::{Problem, holes, in_file};

/// What one of several folders has of a run, and how that agrees with its own ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FolderAudit {
    /// Its path.
    pub path: PathBuf,
    /// The target of which it is one of several folders.
    pub target: Option<String>,
    /// The stream of its frames.
    pub stream: u32,
    /// Its files, without copies.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Frames with rows, each once.
    pub frames: u64,
    /// How many of them no other folder has.
    pub frames_alone: u64,
    /// Frames of its stream that it lacks, as do the other folders of its target, and another has.
    pub frames_lacking: u64,
    /// The result for its own ledger, with the other folders of its target; none if there are no
    /// others: then it is the run's.
    pub verdict: Option<Verdict>,
    /// How its part of the run was closed.
    pub closing: Option<Closing>,
    /// Where its own total and its columns differ.
    pub differences: Vec<Difference>,
    /// What its own ledger leaves open.
    pub open: Vec<Open>,
    /// Whether all of it can be read.
    pub is_readable: bool,
}

impl FolderAudit {
    /// Whether its ledger and its files disagree although all of them can be read.
    pub fn contradicts_itself(&self) -> bool {
        self.verdict == Some(Verdict::NotBalanced) && self.is_readable
    }
}

/// The folders of a run, compared.
pub(super) struct Several {
    pub(super) folders: Vec<FolderAudit>,
    /// The number of places, each with a ledger of its own.
    pub(super) places: usize,
    pub(super) frames_repeated: u64,
    pub(super) frames_missing: u64,
    pub(super) missing: Vec<MissingFrames>,
    /// Whether the places of the ledger have all that they counted, so that every entry can be
    /// compared. Otherwise increments are missing, and only entries of the frames are the same
    /// wherever these are.
    pub(super) is_ledger_whole: bool,
}

impl Several {
    pub(super) fn of(run: &Run) -> Result<Self, StorageError> {
        let files = run.run_files();
        let mut several = Self {
            folders: Vec::new(),
            places: run.all_files().places().count(),
            frames_repeated: 0,
            frames_missing: run.frames_missing(),
            missing: folders::missing(run),
            is_ledger_whole: true,
        };
        if run.paths().len() < 2 || !files.iter().all(numbers_identify) {
            return Ok(several);
        }
        several.folders = run.paths().iter().map(|path| empty(path.clone())).collect();
        several.count(files);
        if several.places > 1 {
            several.compare(run)?;
        }
        Ok(several)
    }

    /// Counts files, and frames by who has them.
    fn count(&mut self, files: &[RunFile]) {
        let mut places = vec![0; self.folders.len()];
        for file in files {
            let folder = &mut self.folders[file.folder];
            (folder.files, folder.target) = (folder.files + 1, file.header().target.clone());
            folder.file_bytes += file.reader.file_bytes();
            folder.stream = folders::stream(std::slice::from_ref(file));
            places[file.folder] = file.place;
        }
        let owners = folders::owners(files);
        for of_frame in owners.chunk_by(|one, other| one.0 == other.0) {
            for (_, folder) in of_frame {
                self.folders[*folder].frames += 1;
            }
            if let [(_, alone)] = of_frame {
                self.folders[*alone].frames_alone += 1;
            }
            self.frames_repeated += u64::from(of_frame.len() > 1);
            let stream = of_frame[0].0.0;
            for (folder, place) in self.folders.iter_mut().zip(&places) {
                let has = |owner: &(_, usize)| places[owner.1] == *place;
                let lacks = folder.files > 0 && folder.stream == stream;
                folder.frames_lacking += u64::from(lacks && !of_frame.iter().any(has));
            }
        }
    }

    /// Compares each place with its own ledger.
    fn compare(&mut self, run: &Run) -> Result<(), StorageError> {
        let files = run.all_files();
        let of_ledger = |files: &[RunFile]| {
            let of = files[0].place;
            run.all_files().of_ledgers().any(|(_, files)| files[0].place == of)
        };
        for (_, files) in files.places() {
            let mut folders: Vec<usize> = files.iter().map(|file| file.folder).collect();
            folders.dedup();
            let paths: Vec<_> = folders.iter().map(|&folder| &run.paths()[folder]).collect();
            let report = audit(&Run::open_folders(&paths, RunOptions::default())?)?;
            let is_readable = report.problems.is_empty();
            if of_ledger(files) {
                let has_holes = files.iter().any(|file| holes(file).next().is_some());
                self.is_ledger_whole &= report.verdict != Verdict::Incomplete && !has_holes;
            }
            for folder in folders {
                let folder = &mut self.folders[folder];
                (folder.verdict, folder.closing) = (Some(report.verdict), Some(report.closing));
                folder.is_readable = is_readable;
                folder.differences.clone_from(&report.differences);
                folder.open.clone_from(&report.open);
            }
        }
        Ok(())
    }

    /// Takes away what is missing or broken in one place and is in another: all that opening has
    /// found, if the run has ended and no number is missing.
    pub(super) fn take_covered(
        &self,
        run: &Run,
        incomplete: &mut Vec<Problem>,
        problems: &mut Vec<Problem>,
    ) -> Vec<Problem> {
        if self.places < 2 || !run.ended() || self.frames_missing > 0 {
            return Vec::new();
        }
        let mut covered = std::mem::take(incomplete);
        for file in run.run_files() {
            covered.extend(holes(file).map(|skipped| in_file(file, skipped.to_string())));
        }
        problems.retain(|problem| !covered.contains(problem));
        covered
    }

    /// The entries of which the recorder's total and what is recomputed must be the same.
    pub(super) fn compared(&self) -> &'static [Entry] {
        if self.is_ledger_whole { Entry::ALL } else { &OF_FRAME }
    }
}

/// Counts an unreadable frame by a copy in another place or part, which has the same rows; its
/// increments are its own: readers take it, and not the copy, so that without these it stays a
/// problem. Returns the copy, if there is one that can be read, and where it is.
pub(super) fn count_by_copy<'a>(
    run: &'a Run,
    (file, frame): (&RunFile, usize),
    counts: &mut Ledger,
    errors: &[FrameError],
) -> Option<(DamagedCopy, (&'a RunFile, usize))> {
    let files = run.run_files();
    let first = errors.first().filter(|_| folders::are_by_number(files))?;
    let increments = file.header().schema.column(None, &ColumnKind::LedgerIncrement);
    let of_increments = |error: &FrameError| match error {
        FrameError::Column { column, .. } => Some(*column) == increments,
        _ => true,
    };
    if errors.iter().any(of_increments) {
        return None;
    }
    let index = files.iter().position(|one| std::ptr::eq(one, file))?;
    let read = folders::others(files, (index, frame)).find_map(|(other, frame)| {
        let (ledger, errors) = frame_ledger(&files[other].reader, frame);
        errors.is_empty().then_some((ledger, &files[other], frame))
    });
    let (ledger, whole, whole_frame) = read?;
    for (counts, of_copy) in counts.sources.iter_mut().zip(&ledger.sources) {
        OF_FRAME.iter().for_each(|&entry| counts[entry] = of_copy[entry]);
    }
    let problem = format!("{}: {first}", file.path.display());
    let (path, whole_file) = (file.path.clone(), whole.path.clone());
    let copy = DamagedCopy { file: path, frame, problem, whole_file, whole_frame };
    Some((copy, (whole, whole_frame)))
}

/// How a run is closed of which the ledgers are in several places.
pub(super) fn closing(run: &Run) -> Closing {
    let flags: Option<Vec<TocFlags>> =
        run.all_files().lasts().map(|last| last.reader.flags()).collect();
    let flags = flags.unwrap_or_default();
    match () {
        () if run.being_recorded() => Closing::Recording,
        () if run.paths().iter().any(|path| path.is_file()) => Closing::Part,
        () if flags.is_empty() => Closing::Killed,
        () if flags.iter().all(|flags| flags.run_ended) => Closing::Ended,
        () if flags.iter().any(|flags| flags.repaired) => Closing::Repaired,
        () => Closing::Killed,
    }
}

fn empty(path: PathBuf) -> FolderAudit {
    FolderAudit {
        path,
        target: None,
        stream: 0,
        files: 0,
        file_bytes: 0,
        frames: 0,
        frames_alone: 0,
        frames_lacking: 0,
        verdict: None,
        closing: None,
        differences: Vec::new(),
        open: Vec::new(),
        is_readable: true,
    }
}
