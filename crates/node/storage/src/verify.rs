//! Every checksum of a run, and what is broken.

use std::path::PathBuf;

use catchment_frame::{
    Condition, FrameError, FrameRef, FrameSummary, Skipped, SkippedReason, verify_frame,
};
use serde::Serialize;

use crate::copies::Location;
use crate::open::{Names, RunFile};
use crate::run::Run;
use crate::whole::{Extent, Whole};

/// Something broken, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file; the run's folder where a whole file is concerned.
    pub file: PathBuf,
    /// The frame's index in that file, from 0.
    pub frame: Option<usize>,
    /// What the column means, by the specification's name.
    pub column: Option<String>,
    /// The source that the column belongs to.
    pub source: Option<String>,
    /// The channel that the column is.
    pub channel: Option<String>,
    /// What is wrong.
    pub problem: String,
}

/// How far a verification has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of frames that are checked.
    pub done_bytes: u64,
    /// Bytes of all frames.
    pub total_bytes: u64,
}

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Files that were read.
    pub files: u64,
    /// Frames in them, without the TOCs.
    pub frames: u64,
    /// Columns in these.
    pub columns: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Files without a TOC: being recorded, or left by a recorder that was killed. That alone is no
    /// damage; a file that was closed and is not any more is among the problems too.
    pub unclosed: Vec<PathBuf>,
    /// What is known of whether all files are there; those that are missing are among the problems.
    pub extent: Extent,
    /// Frames that are missing, by the numbers of those that are there. A recorder whose disk
    /// failed leaves such gaps, and counts in the ledger what was to be in them.
    pub frames_missing: u64,
    /// What is broken: the first 10,000 of it.
    pub problems: Vec<Problem>,
    /// How much is broken.
    pub problem_count: u64,
}

impl VerifyReport {
    /// Whether everything that is there is as it was written, and no file or frame that must be
    /// there is missing.
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

/// Reads the whole run and checks every checksum, and that columns fit each other. `progress` is
/// called after every frame.
pub fn verify(run: &Run, mut progress: impl FnMut(Progress)) -> VerifyReport {
    let mut report = VerifyReport::default();
    let mut at = Progress { done_bytes: 0, total_bytes: frame_bytes(run) };
    for problem in run.problems().iter().filter(|problem| problem.is_damage()) {
        report.add(of_folder(run, problem.to_string()));
    }
    let whole = Whole::of(run);
    report.extent = whole.extent;
    whole.problems.into_iter().for_each(|problem| report.add(problem));
    report.frames_missing = run.frames_missing();
    differing(run).for_each(|problem| report.add(problem));
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
            report.frames += 1;
            report.columns += u64::from(frame.column_count);
            report.bytes = report.bytes.saturating_add(frame.frame_bytes);
            at.done_bytes = report.bytes;
            progress(at);
        }
    }
    report
}

/// Frames that are not read because the run has another one of the same number, and differ from it.
fn differing(run: &Run) -> impl Iterator<Item = Problem> {
    let files = run.run_files();
    run.copies().differing.iter().map(|&((file, frame), (read_file, read_frame))| {
        let sequence = files[file].reader.frames()[frame].info.sequence;
        let read = files[read_file].path.display();
        let problem = format!(
            "its kind, ranges, rows or columns are others than those of frame {read_frame} of \
             {read}, which has the same number {sequence} and is read instead"
        );
        Problem { frame: Some(frame), ..in_file(&files[file], problem) }
    })
}

/// Where a damaged frame has a whole copy.
fn whole_copy(run: &Run, location: Location) -> Option<String> {
    let files = run.run_files();
    let is_whole = |&(file, frame): &Location| verify_frame(&files[file].reader, frame).is_empty();
    let (file, frame) = run.copies().others(location).find(is_whole)?;
    Some(format!("; frame {frame} of {} is a whole copy", files[file].path.display()))
}

/// A frame's error with the names of what it concerns.
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

pub(crate) fn of_folder(run: &Run, problem: String) -> Problem {
    Problem {
        file: run.path().to_owned(),
        frame: None,
        column: None,
        source: None,
        channel: None,
        problem,
    }
}

/// File header, TOC, and what a walk came across.
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

/// Where a file without a TOC has neither a frame nor zeros, though it should have. Its end is
/// where a frame was under way: its header would have come last, so that none there is no damage.
pub(crate) fn holes(file: &RunFile) -> impl Iterator<Item = &Skipped> {
    let last = file.reader.frames().last();
    file.reader
        .skipped()
        .iter()
        .filter(|skipped| skipped.reason.is_damage())
        // While a file is written, headers may be complete in another order than their frames
        // stand.
        .filter(|skipped| !(file.locked && has_no_header(skipped)))
        .filter(move |skipped| !is_under_way(skipped, last))
}

/// Bytes of the frame that was under way at a file's end.
pub(crate) fn under_way_bytes(file: &RunFile) -> u64 {
    let last = file.reader.frames().last();
    let under_way = file.reader.skipped().iter().filter(|skipped| is_under_way(skipped, last));
    under_way.fold(0, |sum, skipped| sum.saturating_add(skipped.bytes))
}

/// Whether a hole behind the last whole frame is where one was under way.
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
