//! Checks every checksum of a run, and reports what is broken.

use std::path::{Path, PathBuf};

use catchment_frame::{
    Condition, FrameError, FrameRef, FrameSummary, Skipped, SkippedReason, is_in_base, verify_frame,
};
use catchment_model::SourceId;
use serde::Serialize;

use crate::copies::Location;
use crate::error::StorageError;
use crate::folders;
use crate::open::{Names, RunFile};
use crate::run::Run;
use crate::whole::{Extent, Whole};

/// Something broken, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file; the run's folder if a whole file is concerned.
    pub file: PathBuf,
    /// The frame's index in that file, from 0.
    pub frame: Option<usize>,
    /// The meaning of the column, by the specification's name.
    pub column: Option<String>,
    /// The column's source.
    pub source: Option<String>,
    /// The column's channel.
    pub channel: Option<String>,
    /// The error.
    pub problem: String,
}

/// The progress of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the frames checked so far.
    pub done_bytes: u64,
    /// Bytes of all frames.
    pub total_bytes: u64,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// The number of files read.
    pub files: u64,
    /// Frames in them, without the TOCs.
    pub frames: u64,
    /// Columns in these.
    pub columns: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Files without a TOC: being recorded, or left by a killed recorder. That alone is not damage;
    /// a file that was closed and no longer is, is also among the problems.
    pub unclosed: Vec<PathBuf>,
    /// Whether all files are there, as far as known; missing ones are among the problems.
    pub extent: Extent,
    /// Frames that are missing, by the numbers of the existing ones. A recorder whose disk failed
    /// leaves such gaps, and counts their intended contents in the ledger.
    pub frames_missing: u64,
    /// The problems: the first 10,000.
    pub problems: Vec<Problem>,
    /// The number of problems.
    pub problem_count: u64,
}

impl VerifyReport {
    /// Whether everything in the files is undamaged, and no required file or frame is missing.
    pub fn is_intact(&self) -> bool {
        self.problem_count == 0 && self.frames_missing == 0
    }

    fn add(&mut self, problem: Problem) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }
}

/// Reads the whole run and checks every checksum, and that columns match each other; of several
/// folders, all files, and that frames of one number are the same; of a run with a base, also what
/// it has of that one. `progress` is called after every
/// frame.
pub fn verify(run: &Run, mut progress: impl FnMut(Progress)) -> VerifyReport {
    let mut report = VerifyReport::default();
    let mut at = Progress { done_bytes: 0, total_bytes: frame_bytes(run) };
    for problem in run.problems().iter().filter(|problem| problem.is_damage()) {
        report.add(of_folder(run.path(), problem.to_string()));
    }
    let whole = Whole::of(run);
    report.extent = whole.extent;
    whole.problems.into_iter().for_each(|problem| report.add(problem));
    report.frames_missing = run.frames_missing();
    differing(run).for_each(|problem| report.add(problem));
    // Asked once: what is not the base can take long to open, and is among the problems of the
    // whole.
    let has_base = run.check_base().is_ok();
    for (number, file) in run.run_files().iter().enumerate() {
        report.files += 1;
        verify_index(file, &mut report);
        for (index, frame) in file.reader.frames().iter().enumerate() {
            let errors = verify_frame(&file.reader, index);
            let copy = if errors.is_empty() { None } else { whole_copy(run, (number, index)) };
            for error in errors {
                let mut problem = problem_in(file, Some(index), error);
                if let Some(copy) = &copy {
                    problem.problem.push_str(copy);
                }
                report.add(problem);
            }
            if has_base {
                in_base(run, (number, index), &mut report);
            }
            report.frames += 1;
            report.columns += u64::from(frame.column_count);
            report.bytes = report.bytes.saturating_add(frame.frame_bytes);
            at.done_bytes = report.bytes;
            progress(at);
        }
    }
    report
}

/// Frames that are not read because the run has another one with the same number, and differ from
/// it.
fn differing(run: &Run) -> impl Iterator<Item = Problem> {
    let files = run.run_files();
    let differing = match folders::are_by_number(files) {
        true => folders::differing(run),
        false => run.copies().differing.clone(),
    };
    differing.into_iter().map(|((file, frame), (read_file, read_frame))| {
        let sequence = files[file].reader.frames()[frame].info.sequence;
        let read = files[read_file].path.display();
        let problem = format!(
            "its kind, ranges, rows or columns are others than those of frame {read_frame} of \
             {read}, which has the same number {sequence} and is read instead"
        );
        Problem { frame: Some(frame), ..in_file(&files[file], problem) }
    })
}

/// Checks the payload of a frame whose bytes are in the run's base, which is there, if named.
fn in_base(run: &Run, (number, index): Location, report: &mut VerifyReport) {
    let file = &run.run_files()[number];
    // A directory that cannot be read is named already.
    let mut entries = file.reader.columns(index).unwrap_or_default();
    entries.retain(|entry| is_in_base(entry.codec));
    let position = run.frame_at(number, index).filter(|_| !entries.is_empty());
    let Some(position) = position else { return };
    for (source, columns) in run.sources().iter().zip(&file.reader.event_columns().sources) {
        if !entries.iter().any(|entry| Some(entry.id) == columns.payload) {
            continue;
        }
        let Err(error) = run.fragments(position, SourceId(source.id)) else { continue };
        let (column, name) = (Some("fragment_payload".to_owned()), Some(source.name.clone()));
        let problem = match &error {
            StorageError::Column { path, problem, .. } if *path == file.path => problem.clone(),
            other => other.to_string(),
        };
        let known = report.problems.iter().any(|known| {
            (&known.file, known.frame, &known.problem) == (&file.path, Some(index), &problem)
        });
        if !known {
            let problem = in_file(file, problem);
            report.add(Problem { frame: Some(index), column, source: name, ..problem });
        }
    }
}

/// The whole copy of a damaged frame.
fn whole_copy(run: &Run, location: Location) -> Option<String> {
    let files = run.run_files();
    let is_whole = |&(file, frame): &Location| verify_frame(&files[file].reader, frame).is_empty();
    let (file, frame) = match folders::are_by_number(files) {
        true => folders::others(files, location).find(is_whole),
        false => run.copies().others(location).find(is_whole),
    }?;
    Some(format!("; frame {frame} of {} is a whole copy", files[file].path.display()))
}

/// A frame's error with the names of file, column and source.
pub(crate) fn problem_in(file: &RunFile, frame: Option<usize>, error: FrameError) -> Problem {
    let path = file.path.clone();
    let FrameError::Column { frame: FrameRef::Index(frame), column, problem } = error else {
        let problem = error.to_string();
        return Problem { file: path, frame, column: None, source: None, channel: None, problem };
    };
    let Names { kind, source, channel } = file.names(column);
    let (frame, column, problem) = (Some(frame), Some(kind), problem.to_string());
    let channel = channel.map(String::from);
    Problem { file: path, frame, column, source, channel, problem }
}

pub(crate) fn of_folder(folder: &Path, problem: String) -> Problem {
    Problem {
        file: folder.to_owned(),
        frame: None,
        column: None,
        source: None,
        channel: None,
        problem,
    }
}

/// File header, TOC, and the findings of a walk.
fn verify_index(file: &RunFile, report: &mut VerifyReport) {
    if let Some(error) = file.reader.header_problem() {
        let problem = format!("{error} (read from the TOC's copy)");
        report.add(in_file(file, problem));
    }
    for error in file.reader.verify_index() {
        report.add(problem_in(file, None, error));
    }
    if let Condition::Unclosed(_) = file.reader.condition() {
        report.unclosed.push(file.path.clone());
    }
    for skipped in holes(file) {
        report.add(in_file(file, skipped.to_string()));
    }
}

/// Where a file without a TOC has neither a frame nor zeros, but should have one. Its end is where
/// a frame was being written: its header would have been written last, so a missing one there is
/// not damage.
pub(crate) fn holes(file: &RunFile) -> impl Iterator<Item = &Skipped> {
    let last = file.reader.frames().last();
    file.reader
        .skipped()
        .iter()
        .filter(|skipped| skipped.reason.is_damage())
        // While a file is written, headers may be completed in an order other than that of their
        // frames.
        .filter(|skipped| !(file.locked && has_no_header(skipped)))
        .filter(move |skipped| !is_under_way(skipped, last))
}

/// Bytes of the frame being written at a file's end.
pub(crate) fn under_way_bytes(file: &RunFile) -> u64 {
    let last = file.reader.frames().last();
    let under_way = file.reader.skipped().iter().filter(|skipped| is_under_way(skipped, last));
    under_way.fold(0, |sum, skipped| sum.saturating_add(skipped.bytes))
}

/// Whether a hole after the last whole frame is where one was being written.
pub(crate) fn is_under_way(skipped: &Skipped, last: Option<&FrameSummary>) -> bool {
    let end = last.map_or(0, |last| last.offset.saturating_add(last.frame_bytes));
    skipped.offset >= end && has_no_header(skipped)
}

fn has_no_header(skipped: &Skipped) -> bool {
    matches!(skipped.reason, SkippedReason::NoHeader | SkippedReason::OtherFile { .. })
}

pub(crate) fn in_file(file: &RunFile, problem: String) -> Problem {
    Problem {
        file: file.path.clone(),
        frame: None,
        column: None,
        source: None,
        channel: None,
        problem,
    }
}

fn frame_bytes(run: &Run) -> u64 {
    let frames = run.run_files().iter().flat_map(|file| file.reader.frames());
    frames.fold(0, |sum, frame| sum.saturating_add(frame.frame_bytes))
}

const PROBLEMS_MAX: usize = 10_000;
