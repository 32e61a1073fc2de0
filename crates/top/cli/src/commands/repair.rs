//! `catchment repair`: closes what a killed recorder left open.

use std::path::{Path, PathBuf};

use catchment_catalog::{Catalog, CatalogError, PATIENCE_AT_START};
use catchment_model::units::Bytes;
use catchment_storage::{
    FileRepair, Leftovers, Outcome, Run, mend_trends, remove_leftovers, repair,
};

use crate::output::{Exit, Out, complain, grouped};

/// Closes the files that a killed recorder left open, behind their last whole frame. Files that are
/// closed stay as they are. A file header that is lost is made again from another file of the run,
/// if there is one. A file that was made ahead and never begun is removed. Of a run's folder the
/// trends are repaired too: what was in their tails goes into files of theirs. Never repair a run
/// that is being recorded. Exits with 3 if something in the files is damaged or missing, with 1 if
/// a file cannot be read at all.
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
    look_again(&arguments.run);
    if out.json {
        let removed = &leftovers.removed;
        let json =
            serde_json::json!({ "files": report.files, "removed": removed, "trends": mends });
        out.object(&json)?;
    }
    for path in &leftovers.removed {
        out.say(format_args!("{}: made ahead and never begun, removed", path.display()))?;
    }
    mends.iter().for_each(|mend| report.files.extend_from_slice(&mend.closed));
    report.files.iter().try_for_each(|file| tell(file, out))?;
    for mend in mends.iter().filter(|mend| mend.rows > 0 || !mend.unreadable.is_empty()) {
        let rows = grouped(mend.rows);
        out.say(format_args!("{}: {rows} rows of tails are in files now", mend.folder.display()))?;
        for unreadable in &mend.unreadable {
            out.say(format_args!("  {unreadable}"))?;
        }
    }
    if report.closed() > 0 {
        tell_catalog(&arguments.run);
    }
    let hopeless = report.files.iter().any(|file| matches!(file.outcome, Outcome::Unreadable(_)));
    let damaged = mends.iter().any(|mend| !mend.unreadable.is_empty());
    Ok(match (hopeless, report.found_damage() || damaged) {
        (true, _) => Exit::Failed,
        (_, true) => Exit::Loss,
        (_, false) => Exit::Done,
    })
}

/// Has the catalogue of runs, if there is one that knows this run, look at its files again.
fn look_again(folder: &Path) {
    let Some(data) = folder.canonicalize().ok().and_then(|own| Some(own.parent()?.to_owned()))
    else {
        return;
    };
    let Ok(number) = Run::open(folder).map(|run| run.header().run_number) else { return };
    let known = Catalog::open_read_only(&data).is_ok_and(|catalog| {
        let run = catalog.run(number).ok();
        let place = run.and_then(|detail| catalog.folder_of(&detail.run));
        place.is_some_and(|place| place.file_name() == folder.file_name())
    });
    if known {
        // A catalogue that cannot be written keeps what it knew; `catalog rebuild` looks, too.
        let _looked = Catalog::open(&data).and_then(|mut catalog| catalog.scan(number));
    }
}

fn tell(file: &FileRepair, out: &mut Out) -> anyhow::Result<()> {
    let outcome = match &file.outcome {
        Outcome::Intact => "intact".to_owned(),
        Outcome::Closed => format!("closed, {} now", Bytes(file.bytes_after)),
        Outcome::Blank if is_made_ahead(file) => "never begun: it can be deleted".to_owned(),
        Outcome::Blank => "there is nothing in it".to_owned(),
        Outcome::Copy => "another file of the folder once more: left as it is".to_owned(),
        Outcome::Unreadable(why) => format!("cannot be repaired: {why}"),
    };
    out.say(format_args!(
        "{}: {outcome}, {} frames, {} events",
        file.path.display(),
        grouped(file.frames),
        grouped(file.events)
    ))?;
    if let Some(from) = &file.header_from {
        let from = from.display();
        out.say(format_args!("  its header was lost and is made again from {from}"))?;
    }
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
    Ok(())
}

/// The catalogue beside the run, if there is one, learns what its files are now.
fn tell_catalog(run: &Path) {
    let folder = run.canonicalize().ok();
    let folder =
        folder.as_deref().and_then(|run| if run.is_dir() { Some(run) } else { run.parent() });
    let Some((folder, data)) = folder.and_then(|folder| Some((folder, folder.parent()?))) else {
        return;
    };
    // Without one there is nothing to tell.
    if !data.join(catchment_catalog::CATALOG_FOLDER).is_dir() {
        return;
    }
    let told = Run::open(folder).map_err(CatalogError::from).and_then(|run| {
        let mut catalog = Catalog::open_within(data, PATIENCE_AT_START)?;
        catalog.scan_folder(folder, run.header().run)
    });
    if let Err(error) = told {
        complain(format_args!("the catalogue does not know of the repair: {error}"));
    }
}

/// Whether a file is one of a run's by its name.
fn is_made_ahead(file: &FileRepair) -> bool {
    file.path.extension().is_some_and(|extension| extension == catchment_storage::EXTENSION)
}
