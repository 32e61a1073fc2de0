//! The node's readers on a recorder's files: repair, audit, verify.
//!
//! Readers open real files; nothing else here does: a life's files are copied to a folder for them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use catchment_fixtures::Random;
use catchment_ports::StoreFault;
use catchment_storage::{Run, Verdict, audit, repair, verify};

use crate::fault::Fault;
use crate::recorded::{Recorded, disk_lied};
use crate::recorder::Life;
use crate::walk::walk;
use crate::world::Outcome;

/// Checks the readers' results for a life's files, whose contents the oracle knows.
///
/// # Errors
/// The first wrong result.
pub fn check(outcome: &Outcome, life: &Life, recorded: &Recorded) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| format!("a folder for readers: {error}"))?;
    let folder = folder.path();
    let mut paths = Vec::new();
    for (path, bytes) in outcome.files.all() {
        if let Ok(name) = path.strip_prefix(&life.folder) {
            let path = folder.join(name);
            std::fs::write(&path, bytes).map_err(|error| format!("{name:?}: {error}"))?;
            paths.push(path);
        }
    }
    if recorded.files.is_empty() {
        return Ok(());
    }
    if life.has_crashed {
        return check_repaired(folder, life, recorded);
    }
    let run = Run::open(folder).map_err(|error| format!("cannot be opened: {error}"))?;
    let report = match audit(&run) {
        Ok(report) => report,
        // The disk had not written the total.
        Err(_) if disk_lied(life) => return Ok(()),
        Err(error) => return Err(format!("cannot be audited: {error}")),
    };
    let lost = life.last.ledger.balance().lost_data();
    let here = recorded.counts.iter().map(|counts| counts[0]).sum::<u64>();
    let counted = life.last.ledger.total()[catchment_model::Entry::FragmentsRecorded];
    let is_good = report.verdict == Verdict::Balanced;
    // An audit reads no payload: verify does.
    let is_damaged = here < counted || !recorded.damage.is_empty();
    if is_good && (lost || (is_damaged && verify(&run, |_| ()).is_intact())) {
        return Err(format!("balanced and intact: lost {lost}, {here} of {counted} are there"));
    }
    let is_well = life.disk.iter().all(|&fault| fault == StoreFault::Hang);
    if is_well {
        let report = verify(&run, |_| ());
        if !report.is_intact() {
            return Err(format!("the disk did nothing wrong, and verify finds {report:?}"));
        }
    }
    let is_right = match report.verdict {
        Verdict::Balanced => !lost,
        Verdict::DataLost => lost || !is_well,
        // A file that could not be closed, or that is missing from the list of files.
        Verdict::Incomplete => !is_well,
        Verdict::NotBalanced => disk_lied(life),
    };
    if !is_right {
        return Err(format!("the audit says {:?}, lost: {lost}: {report:?}", report.verdict));
    }
    drop(run);
    if outcome.plan.case.faults.has(Fault::Flip) && !disk_lied(life) {
        check_flipped(folder, &mut outcome.plan.case.chance("flip"))?;
    }
    Ok(())
}

/// Files left by a crash can be repaired and read, and are reported as not whole.
fn check_repaired(folder: &Path, life: &Life, recorded: &Recorded) -> Result<(), String> {
    repair(folder).map_err(|error| format!("cannot be repaired: {error}"))?;
    let run = Run::open(folder).map_err(|error| format!("repaired, cannot be opened: {error}"))?;
    let report = audit(&run).map_err(|error| format!("repaired, cannot be audited: {error}"))?;
    let is_ended = recorded.files.last().and_then(|file| file.toc.as_ref());
    let is_ended = is_ended.is_some_and(crate::walk::WalkedToc::run_ended);
    let is_right = match report.verdict {
        Verdict::DataLost | Verdict::Incomplete => true,
        // A total that was written after columns that were not.
        Verdict::NotBalanced => disk_lied(life) || !recorded.damage.is_empty(),
        Verdict::Balanced => false,
    };
    if !is_right && !is_ended {
        return Err(format!("repaired, the audit says {:?}", report.verdict));
    }
    let mut frames = 0;
    for path in frame_files(folder)? {
        let bytes = std::fs::read(&path).map_err(|error| error.to_string())?;
        // Repair learns nothing more about a file whose header is gone.
        frames += walk(&bytes).ok().flatten().map_or(0, |file| file.frames.len());
    }
    let before: usize = recorded.files.iter().map(|file| file.frames.len()).sum();
    if frames < before {
        return Err(format!("{before} frames before the repair, {frames} behind"));
    }
    let read = run.frames().len() + run.channel_frames().len();
    // One that was given up may still be there, beside that which has its number now.
    let frames = recorded.files.iter().flat_map(|file| &file.frames);
    let with_rows = frames.filter(|frame| frame.rows > 0).map(|frame| frame.sequence);
    let with_rows = with_rows.collect::<BTreeSet<u64>>().len();
    if read < with_rows {
        return Err(format!("{with_rows} frames with rows, readers have {read}"));
    }
    Ok(())
}

/// A column with a flipped bit is found.
fn check_flipped(folder: &Path, chance: &mut Random) -> Result<(), String> {
    let paths = frame_files(folder)?;
    let path = &paths[chance.index(paths.len())];
    let mut bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    let Some(file) = walk(&bytes)? else { return Ok(()) };
    // Outside columns and tables there is padding, which no reader reads.
    let offset = chance.index(bytes.len());
    let Some((frame, column)) = file.column_at(offset as u64) else { return Ok(()) };
    bytes[offset] ^= 1 << chance.below(8);
    std::fs::write(path, &bytes).map_err(|error| error.to_string())?;
    let run = Run::open(folder).map_err(|error| format!("flipped, cannot be opened: {error}"))?;
    let report = verify(&run, |_| ());
    let is_it = |problem: &&catchment_storage::Problem| {
        problem.file == *path && problem.frame == Some(frame) && problem.column.is_some()
    };
    match report.problems.iter().filter(is_it).count() {
        0 => {
            let found = &report.problems;
            Err(format!(
                "a flipped bit in column {column} of frame {frame} was not found: {found:?}"
            ))
        }
        _ => Ok(()),
    }
}

fn frame_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = folder.read_dir().map_err(|error| error.to_string())?;
    let paths = entries.flatten().map(|entry| entry.path());
    let is_frames = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "catch");
    let mut paths: Vec<_> = paths.filter(is_frames).collect();
    paths.sort();
    Ok(paths)
}
