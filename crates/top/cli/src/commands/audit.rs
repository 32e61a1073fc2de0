//! `catchment audit`: the books of a run, done again from its files.

use std::path::PathBuf;

use catchment_model::ledger::Role;
use catchment_storage::{AuditReport, Closing, Run, Verdict, audit};

use crate::output::{Exit, Out, grouped};
use crate::view::loss_reasons;

/// Recomputes the ledger from the files and compares it with what the recorder wrote. Exits with 1 if
/// the books do not balance, with 3 if they do and data were lost.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A run's folder, or a .catch file
    run: PathBuf,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let run = Run::open(&arguments.run)?;
    let report = audit(&run)?;
    if out.json {
        out.object(&report)?;
    } else {
        say(&report, &run, out)?;
    }
    Ok(match report.verdict {
        Verdict::Balanced => Exit::Done,
        Verdict::DataLost => Exit::Loss,
        Verdict::NotBalanced => Exit::Failed,
    })
}

fn say(report: &AuditReport, run: &Run, out: &mut Out) -> anyhow::Result<()> {
    let total = report.recomputed.total();
    let closing = match report.closing {
        Closing::Ended => "ended in order",
        Closing::Repaired => "closed by repair",
        Closing::NotClosed => "not closed: still recording, or its recorder was killed",
        Closing::Part => "part of a run",
    };
    out.line(format_args!("{} ({closing})", run.path().display()))?;
    out.line(format_args!(
        "  {} events in {} frames of {} sources",
        grouped(report.events),
        grouped(report.frames),
        report.sources.len()
    ))?;
    for (entry, count) in total.iter() {
        // What came in and went out always, everything else only if it happened.
        let always = matches!(entry.role(), Role::PacketsIn | Role::PacketsOut | Role::FragmentsIn)
            || entry == catchment_model::Entry::FragmentsRecorded;
        if always || count > 0 {
            out.line(format_args!("  {:<32} {:>18}", entry.name(), grouped(count)))?;
        }
    }
    for difference in report.differences.iter().take(TOLD) {
        out.line(format_args!(
            "  {}: {} is {} in the file and {} by its columns",
            difference.source,
            difference.entry,
            grouped(difference.recorded),
            grouped(difference.recomputed)
        ))?;
    }
    for open in report.open.iter().take(TOLD) {
        out.line(format_args!(
            "  {}: {} fragments and {} packets are unexplained",
            open.source, open.fragments, open.packets
        ))?;
    }
    if report.frames_missing > 0 {
        out.line(format_args!("  {} frames are missing", grouped(report.frames_missing)))?;
    }
    for problem in report.problems.iter().take(TOLD) {
        out.line(format_args!("  {}: {}", problem.file.display(), problem.problem))?;
    }
    let reasons = loss_reasons(&total);
    let verdict = match report.verdict {
        Verdict::Balanced => "The books balance; nothing was lost.".to_owned(),
        Verdict::DataLost if reasons.is_empty() => "The books balance; data were lost.".to_owned(),
        Verdict::DataLost => format!("The books balance; data were lost: {reasons}."),
        Verdict::NotBalanced => "THE BOOKS DO NOT BALANCE.".to_owned(),
    };
    out.line(verdict)?;
    Ok(())
}

/// Lines of each kind of trouble that are told; `--json` has all.
const TOLD: usize = 20;
