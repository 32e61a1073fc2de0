//! `catchment audit`: recomputes a run's ledger from its files and compares.

use std::path::PathBuf;

use catchment_console::{Exit, Out};
use catchment_model::ledger::Role;
use catchment_model::units::{Bytes, counted, grouped};
use catchment_session::{bad_reasons, loss_reasons};
use catchment_storage::{
    AuditReport, Closing, Difference, Extent, FileProblem, FolderAudit, MissingFrames, Run,
    RunOptions, Verdict, audit,
};

use crate::commands::inspect::UNKNOWN_EXTENT;

/// Recomputes the ledger from the files and compares it with the recorder's. Exits with 1 if the
/// ledger does not balance, or files or their ends are missing; with 3 if data were lost, as is or
/// may be the case in an interrupted run, or if some of what was recorded is bad.
///
/// Several folders of one run are balanced together: what each has, what is there twice, what is
/// missing in all; and each by its own ledger.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A run's folder, or a .catch file; or several folders of one run: of its targets, of the
    /// disks of one, of storage nodes, of nodes that shared it
    #[arg(value_name = "RUN", required = true)]
    paths: Vec<PathBuf>,
    /// Where the run is that has the payload, if events were built again without it and the run is
    /// not where the files say
    #[arg(long, value_name = "RUN")]
    base: Option<PathBuf>,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let options = RunOptions { base: arguments.base, ..RunOptions::default() };
    let run = Run::open_folders(&arguments.paths, options)?;
    let report = audit(&run)?;
    if out.json {
        out.object(&report)?;
    } else {
        say(&report, &run, out)?;
    }
    Ok(match report.verdict {
        Verdict::Balanced if report.recomputed.bad_data() > 0 => Exit::Loss,
        Verdict::Balanced => Exit::Done,
        Verdict::DataLost => Exit::Loss,
        Verdict::NotBalanced | Verdict::Incomplete => Exit::Failed,
    })
}

fn say(report: &AuditReport, run: &Run, out: &mut Out) -> anyhow::Result<()> {
    let total = report.recomputed.total();
    let closing = match report.closing {
        _ if report.verdict == Verdict::Incomplete => "not complete",
        Closing::Ended => "ended in order",
        Closing::Repaired => "closed by repair",
        Closing::Recording => "still being recorded",
        Closing::Killed if report.extent == Extent::Ended => "not ended in order",
        Closing::Killed => "not ended: its recorder was killed",
        Closing::Part => "part of a run",
    };
    let paths: Vec<_> = run.paths().iter().map(|path| path.display().to_string()).collect();
    out.line(format_args!("{} ({closing})", paths.join(" and ")))?;
    out.line(format_args!("  {}", contents(report)))?;
    for (entry, count) in total.iter() {
        // What came in and went out always, everything else only if it happened.
        let always = matches!(entry.role(), Role::PacketsIn | Role::PacketsOut | Role::FragmentsIn)
            || entry == catchment_model::Entry::FragmentsRecorded;
        if always || count > 0 {
            out.line(format_args!("  {:<32} {:>18}", entry.name(), grouped(count)))?;
        }
    }
    for difference in report.differences.iter().take(TOLD) {
        out.line(format_args!("  {}", difference_line(difference)))?;
    }
    if report.verdict == Verdict::NotBalanced {
        for open in report.open.iter().take(TOLD) {
            out.line(format_args!(
                "  {}: {} fragments and {} packets are unexplained",
                open.source, open.fragments, open.packets
            ))?;
        }
    }
    say_folders(report, run, out)?;
    let others = report.incomplete.iter().filter(|problem| !report.problems.contains(problem));
    for problem in report.problems.iter().chain(others).take(TOLD) {
        out.line(format_args!("  {}: {}", problem.file.display(), problem.problem))?;
    }
    for copy in report.damaged_copies.iter().take(TOLD) {
        out.line(format_args!("  {copy}"))?;
    }
    for problem in report.elsewhere.iter().take(TOLD) {
        let (file, problem) = (problem.file.display(), &problem.problem);
        out.line(format_args!("  {file}: {problem}; another folder has what it lacks"))?;
    }
    for sentence in conclusions(report) {
        out.line(sentence)?;
    }
    Ok(())
}

/// What each of several folders has, and what is missing in all.
fn say_folders(report: &AuditReport, run: &Run, out: &mut Out) -> anyhow::Result<()> {
    for folder in &report.folders {
        out.line(format_args!("  {}", folder_line(folder)))?;
        for difference in folder.differences.iter().take(TOLD) {
            out.line(format_args!("    {}", difference_line(difference)))?;
        }
    }
    for problem in run.problems() {
        if let FileProblem::Variant { .. } = problem {
            out.line(format_args!("  {problem}"))?;
        }
    }
    if report.frames_repeated > 0 {
        let frames = counted(report.frames_repeated, "frame");
        out.line(format_args!("  in more than one folder: {frames}"))?;
    }
    if report.frames_missing > 0 {
        let named = match &report.missing[..] {
            [] => String::new(),
            ranges => format!(": {}", ranges_of(ranges)),
        };
        out.line(format_args!("  {} frames are missing{named}", grouped(report.frames_missing)))?;
    }
    Ok(())
}

/// What one of several folders has.
fn folder_line(folder: &FolderAudit) -> String {
    let FolderAudit { files, file_bytes, frames, frames_alone, frames_lacking, .. } = folder;
    let mut line = format!(
        "{}: {}, {}, {}",
        folder.path.display(),
        counted(*files, "file"),
        Bytes(*file_bytes),
        counted(*frames, "frame")
    );
    if let Some(target) = &folder.target {
        line += &format!(" of target {target}");
    }
    if *frames_alone > 0 {
        line += &format!(", {} in no other", grouped(*frames_alone));
    }
    if *frames_lacking > 0 {
        line += &format!(", lacks {} that are in others", grouped(*frames_lacking));
    }
    match folder.verdict {
        None => {}
        Some(Verdict::Balanced) => line += "; balances by itself",
        Some(Verdict::DataLost) => line += "; balances by itself, with loss",
        Some(Verdict::Incomplete) => line += "; not complete by itself",
        Some(Verdict::NotBalanced) => line += "; DOES NOT BALANCE BY ITSELF",
    }
    line
}

/// Where the file and its columns differ.
fn difference_line(difference: &Difference) -> String {
    let Difference { source, entry, recorded, recomputed } = difference;
    let [recorded, recomputed] = [*recorded, *recomputed].map(grouped);
    format!("{source}: {entry} is {recorded} in the file and {recomputed} by its columns")
}

/// Frames by their numbers.
pub(crate) fn ranges_of(ranges: &[MissingFrames]) -> String {
    let named = ranges.iter().take(TOLD).map(|range| {
        let stream = match range.stream {
            0 => String::new(),
            stream => format!(" of stream {stream}"),
        };
        match range.count() {
            1 => format!("{}{stream}", range.first),
            _ => format!("{} to {}{stream}", range.first, range.last),
        }
    });
    let more = (ranges.len() > TOLD).then(|| "and more".to_owned());
    named.chain(more).collect::<Vec<_>>().join(", ")
}

/// The contents of the files, of sources and of links.
fn contents(report: &AuditReport) -> String {
    let others = report.links + report.not_stored;
    let (sources, links) = (report.sources.len().saturating_sub(others), report.links);
    let count = |number: usize, thing| counted(number as u64, thing);
    let mut parts = Vec::new();
    if sources > 0 || report.channels == 0 {
        parts.push(format!("{} of {}", counted(report.events, "event"), count(sources, "source")));
    }
    match (report.channels, links) {
        (0, _) => {}
        (channels, 0) => parts.push(count(channels, "channel")),
        (channels, links) => {
            parts.push(format!("{} of {}", count(channels, "channel"), count(links, "link")));
        }
    }
    let absent = match report.not_stored {
        0 => String::new(),
        absent => format!("; {} not stored here", count(absent, "source")),
    };
    format!("{} in {}{absent}", parts.join(" and "), counted(report.frames, "frame"))
}

/// The audit's conclusions, in sentences.
fn conclusions(report: &AuditReport) -> Vec<String> {
    let in_flight = grouped(report.fragments_in_flight());
    let mut sentences = Vec::new();
    match report.closing {
        Closing::Recording => {
            sentences.push(format!("It is still being recorded; {in_flight} fragments in flight."));
        }
        // What is in flight is in the files that are missing, or may be.
        _ if report.verdict == Verdict::Incomplete => {}
        Closing::Killed | Closing::Repaired => {
            let killed = match report.extent {
                Extent::Ended => "when the run ended",
                _ => "when the recorder was killed",
            };
            sentences.push(format!("{in_flight} fragments were in flight {killed}."));
            if report.under_way_bytes > 0 {
                sentences.push(format!("A frame was incomplete {killed}."));
            }
            sentences.push(
                "Packets that arrived after its last frame are lost and were not counted."
                    .to_owned(),
            );
        }
        Closing::Ended | Closing::Part => {}
    }
    if report.extent == Extent::Unknown {
        sentences.push(UNKNOWN_EXTENT.to_owned());
    }
    let reasons = loss_reasons(&report.recomputed);
    let interrupted = match report.extent {
        Extent::Ended => "not ended in order",
        _ => "interrupted",
    };
    sentences.push(match (report.verdict, report.closing) {
        (Verdict::NotBalanced, _) => "THE LEDGER DOES NOT BALANCE.".to_owned(),
        (Verdict::Incomplete, _) => {
            let count = match report.incomplete.len() {
                1 => "1 problem concerns a whole file".to_owned(),
                more => format!("{} problems concern whole files", grouped(more as u64)),
            };
            format!("THE RUN IS NOT COMPLETE: {count}.")
        }
        (_, Closing::Killed | Closing::Repaired) if reasons.is_empty() => {
            format!("Data were lost: the run was {interrupted}.")
        }
        (_, Closing::Killed | Closing::Repaired) => {
            format!("Data were lost: the run was {interrupted}, and before that {reasons}.")
        }
        (Verdict::DataLost, _) if reasons.is_empty() => "Data were lost.".to_owned(),
        (Verdict::DataLost, _) => format!("Data were lost: {reasons}."),
        (Verdict::Balanced, Closing::Ended) => "The ledger balances; nothing was lost.".to_owned(),
        (Verdict::Balanced, Closing::Part) => "Nothing in this part was lost.".to_owned(),
        (Verdict::Balanced, Closing::Recording) => {
            "Nothing else is unaccounted for so far.".to_owned()
        }
    });
    let bad = bad_reasons(&report.recomputed.total());
    if !bad.is_empty() {
        sentences.push(format!("Some of the recorded data are bad: {bad}."));
    }
    sentences
}

/// Lines printed of each kind of problem; `--json` has all.
const TOLD: usize = 20;
