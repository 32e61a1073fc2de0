//! `catchment repair`: closes what a killed recorder left open.

use std::path::PathBuf;

use catchment_model::units::Bytes;
use catchment_storage::{Outcome, repair};

use crate::output::{Exit, Out, grouped};

/// Closes the files that a killed recorder left open, behind their last whole frame. Files that are
/// closed stay as they are. Never repair a run that is being recorded. Exits with 3 if something in
/// the files is damaged or missing, with 1 if a file cannot be read at all.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A run's folder, or a .catch file
    run: PathBuf,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let report = repair(&arguments.run)?;
    if out.json {
        out.object(&report)?;
    }
    for file in &report.files {
        let outcome = match &file.outcome {
            Outcome::Intact => "intact".to_owned(),
            Outcome::Closed => format!("closed, {} now", Bytes(file.bytes_after)),
            Outcome::Blank => "never begun: it can be deleted".to_owned(),
            Outcome::Unreadable(why) => format!("cannot be repaired: {why}"),
        };
        out.say(format_args!(
            "{}: {outcome}, {} frames, {} events",
            file.path.display(),
            grouped(file.frames),
            grouped(file.events)
        ))?;
        if file.skipped_bytes > 0 {
            out.say(format_args!("  {} were neither frames nor zeros", Bytes(file.skipped_bytes)))?;
        }
        if file.under_way_bytes > 0 {
            let bytes = Bytes(file.under_way_bytes);
            out.say(format_args!("  a frame that was under way is given up ({bytes} at the end)"))?;
        }
        if file.frames_missing > 0 {
            out.say(format_args!("  {} frames are missing", grouped(file.frames_missing)))?;
        }
        for damaged in &file.damaged {
            out.say(format_args!("  {damaged}"))?;
        }
    }
    let hopeless = report.files.iter().any(|file| matches!(file.outcome, Outcome::Unreadable(_)));
    Ok(match (hopeless, report.found_damage()) {
        (true, _) => Exit::Failed,
        (_, true) => Exit::Loss,
        (_, false) => Exit::Done,
    })
}
