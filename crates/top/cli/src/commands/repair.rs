//! `catchment repair`: closes what a killed recorder left open.

use std::path::{Path, PathBuf};

use catchment_catalog::{Catalog, CatalogError, PATIENCE_AT_START};
use catchment_console::{Exit, Out, complain};
use catchment_model::units::{Bytes, grouped};
use catchment_storage::{
    FileRepair, Leftovers, Outcome, Run, mend_trends, remove_leftovers, repair,
};

/// Closes the files that a killed recorder left open, after their last complete frame. Closed files
/// are not changed. A lost file header is restored from another file of the run, if there is one. A
/// file that was created ahead and never used is removed. In a run's folder trends are repaired
/// too: the rows in their tails are moved into their files. Never repair a run that is being
/// recorded. Exits with 3 if something in the files is damaged or missing, with 1 if a file cannot
/// be read at all.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A run's folder, or a .catch file
    run: PathBuf,
}

pub(crate) fn run(arguments: Arguments, out: &mut Out) -> anyhow::Result<Exit> {
    let leftovers = match arguments.run.is_dir() {
        true => remove_leftovers(&arguments.run)?,
        false => Leftovers::default(),
    };
    let mut report = repair(&arguments.run)?;
    let mends = mend_trends(&arguments.run)?;
    if out.json {
        let Leftovers { removed, cut, bytes } = &leftovers;
        let json = serde_json::json!({
            "files": report.files, "removed": removed, "cut": cut, "freed_bytes": bytes,
            "trends": mends, "damaged_copies": report.damaged_copies,
        });
        out.object(&json)?;
    }
    for path in &leftovers.removed {
        out.say(format_args!("{}: made ahead and never begun, removed", path.display()))?;
    }
    for path in &leftovers.cut {
        out.say(format_args!("{}: unused space behind its data, removed", path.display()))?;
    }
    mends.iter().for_each(|mend| report.files.extend_from_slice(&mend.closed));
    report.files.iter().try_for_each(|file| print(file, out))?;
    for copy in &report.damaged_copies {
        out.say(format_args!("{copy}"))?;
    }
    for mend in mends.iter().filter(|mend| mend.rows > 0 || !mend.unreadable.is_empty()) {
        let rows = grouped(mend.rows);
        out.say(format_args!("{}: {rows} rows of tails are in files now", mend.folder.display()))?;
        for unreadable in &mend.unreadable {
            out.say(format_args!("  {unreadable}"))?;
        }
    }
    // A catalogue that cannot be written stays behind the files only if these have changed.
    match update_catalog(&arguments.run) {
        Err(error) if report.closed() > 0 => {
            complain(format_args!("the catalogue was not updated: {error}"));
        }
        _ => {}
    }
    let hopeless = report.files.iter().any(|file| matches!(file.outcome, Outcome::Unreadable(_)));
    let damaged = mends.iter().any(|mend| !mend.unreadable.is_empty());
    Ok(match (hopeless, report.found_damage() || damaged) {
        (true, _) => Exit::Failed,
        (_, true) => Exit::Loss,
        (_, false) => Exit::Done,
    })
}

fn print(file: &FileRepair, out: &mut Out) -> anyhow::Result<()> {
    let outcome = match &file.outcome {
        Outcome::Intact => "intact".to_owned(),
        Outcome::Damaged => "closed, with columns that cannot be read".to_owned(),
        Outcome::Closed => format!("closed, {} now", Bytes(file.bytes_after)),
        Outcome::Blank if is_made_ahead(file) => "never begun: it can be deleted".to_owned(),
        Outcome::Blank => "empty".to_owned(),
        Outcome::Copy { of } => {
            format!("a copy of {}, not changed (keep it until that one is verified)", of.display())
        }
        Outcome::Unreadable(why) => format!("cannot be repaired: {why}"),
    };
    out.say(format_args!("{}: {outcome}, {}", file.path.display(), contents(file)))?;
    if let Some(from) = &file.header_from {
        let from = match *from == file.path {
            true => "its table of contents".to_owned(),
            false => from.display().to_string(),
        };
        out.say(format_args!("  its header was lost and was made again from {from}"))?;
    }
    if file.skipped_bytes > 0 {
        out.say(format_args!("  {} of unrecognized data", Bytes(file.skipped_bytes)))?;
    }
    if file.under_way_bytes > 0 {
        let bytes = Bytes(file.under_way_bytes);
        out.say(format_args!("  an incomplete frame was discarded ({bytes} at the end)"))?;
    }
    if file.frames_missing > 0 {
        out.say(format_args!("  {} frames are missing", grouped(file.frames_missing)))?;
    }
    for damaged in &file.damaged {
        out.say(format_args!("  {damaged}"))?;
    }
    Ok(())
}

/// What is in a file's frames: events, samples of channels or of trends, or both.
fn contents(file: &FileRepair) -> String {
    let mut parts = vec![format!("{} frames", grouped(file.frames))];
    for (count, what) in [(file.events, "events"), (file.samples, "samples")] {
        if count > 0 {
            parts.push(format!("{} {what}", grouped(count)));
        }
    }
    if file.frames == 0 { "no frames".to_owned() } else { parts.join(", ") }
}

/// Has the catalogue beside the run, if there is one that knows it, look at its files again.
fn update_catalog(run: &Path) -> Result<(), CatalogError> {
    let Ok(own) = run.canonicalize() else { return Ok(()) };
    let folder = if own.is_dir() { Some(&*own) } else { own.parent() };
    let Some((folder, data)) = folder.and_then(|folder| Some((folder, folder.parent()?))) else {
        return Ok(());
    };
    if !data.join(catchment_catalog::CATALOG_FOLDER).is_dir() {
        return Ok(());
    }
    let id = Run::open(folder)?.header().run;
    Catalog::open_within(data, PATIENCE_AT_START)?.scan_folder(folder, id)
}

/// Whether a file is one of a run's by its name.
fn is_made_ahead(file: &FileRepair) -> bool {
    file.path.extension().is_some_and(|extension| extension == catchment_storage::EXTENSION)
}
