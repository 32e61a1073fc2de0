//! The node's readers on a recorder's files: repair, audit, verify.
//!
//! Readers open real files; nothing else here does: a life's files are copied to a folder for them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use catchment_fixtures::Random;
use catchment_model::{Entry, Ledger, SourceId};
use catchment_ports::StoreFault;
use catchment_storage::{Run, RunOptions, Select, StorageError, Verdict, audit, repair, verify};

use crate::fault::Fault;
use crate::recorded::{Recorded, disk_lied, read};
use crate::recorder::Life;
use crate::walk::{WalkedFile, WalkedFragment, WalkedFrame, walk};
use crate::world::Outcome;

/// Checks the readers' results for a life's files, whose contents the oracle knows.
///
/// # Errors
/// The first wrong result.
pub fn check(outcome: &Outcome, life: &Life, recorded: &Recorded) -> Result<(), String> {
    let folder = copy(outcome, life)?;
    let folder = folder.path();
    if recorded.files.is_empty() {
        return Ok(());
    }
    if life.has_crashed {
        return check_repaired(folder, life, recorded);
    }
    check_together(outcome, life, recorded).map_err(|why| format!("with other targets: {why}"))?;
    let run = match Run::open(folder) {
        Ok(run) => run,
        // The disk wrote something else over the header.
        Err(_) if disk_lied(life) => return Ok(()),
        Err(error) => return Err(format!("cannot be opened: {error}")),
    };
    let report = match audit(&run) {
        Ok(report) => report,
        // The disk had not written the total.
        Err(_) if disk_lied(life) => return Ok(()),
        Err(error) => return Err(format!("cannot be audited: {error}")),
    };
    // What the disk did not confirm of the last file is in the live ledger alone.
    let unconfirmed = |ledger: &Ledger| ledger.total()[Entry::FragmentsUnconfirmed];
    let said = report.recorded.as_ref().map_or(0, unconfirmed);
    let is_known = unconfirmed(&life.last.ledger) == said;
    let lost = is_known && life.last.ledger.balance().lost_data();
    let here = recorded.counts.iter().map(|counts| counts[0]).sum::<u64>();
    let counted = life.last.ledger.total()[Entry::FragmentsRecorded];
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

/// The files of a life, in a folder of the real disk.
fn copy(outcome: &Outcome, life: &Life) -> Result<tempfile::TempDir, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("a folder for readers: {error}"))?;
    copy_to(folder.path(), outcome, life)?;
    Ok(folder)
}

/// Puts the files of a life into a folder, which is made if it is not there.
pub(crate) fn copy_to(folder: &Path, outcome: &Outcome, life: &Life) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("a folder: {error}"))?;
    for (path, bytes) in outcome.files.all() {
        if let Ok(name) = path.strip_prefix(&life.folder) {
            let path = folder.join(name);
            std::fs::write(&path, bytes).map_err(|error| format!("{name:?}: {error}"))?;
        }
    }
    Ok(())
}

/// The folders of all targets, read as one run, give every frame that is in one of them once, and
/// count its fragments as recorded. Checked with the life of the first target.
fn check_together(outcome: &Outcome, life: &Life, recorded: &Recorded) -> Result<(), String> {
    if life.others.is_empty() || life.others.iter().any(|(folder, _)| *folder == life.folder) {
        return Ok(());
    }
    let all = outcome.lives.iter().find(|all| all.folder == life.folder).ok_or("no such life")?;
    let lives: Vec<Life> = all.of_targets().collect();
    let others = lives[1..].iter().map(|life| read(outcome, life));
    let others = others.collect::<Result<Vec<_>, _>>()?;
    let recorded: Vec<&Recorded> = std::iter::once(recorded).chain(&others).collect();
    let is_usable = |one: &&Recorded| !one.files.is_empty() && one.damage.is_empty();
    if lives.iter().any(disk_lied) || !recorded.iter().all(is_usable) {
        return Ok(());
    }
    let folders = lives.iter().map(|life| copy(outcome, life)).collect::<Result<Vec<_>, _>>()?;
    let run = Run::open_folders(&folders, RunOptions::default());
    // One that has all is read, or what all have alike.
    let variants: Vec<u64> = recorded.iter().map(|one| one.files[0].variant).collect();
    let least = variants.iter().min().copied().unwrap_or(0);
    let run = match run {
        Err(StorageError::VariantDiffers { .. }) if least > 0 => {
            let differ = variants.iter().any(|&variant| variant != least);
            return if differ { Ok(()) } else { Err("variants that do not differ".to_owned()) };
        }
        run => run.map_err(|error| format!("cannot be opened: {error}"))?,
    };
    let recorded = recorded.into_iter().filter(|one| one.files[0].variant == least);
    let recorded: Vec<&Recorded> = recorded.collect();
    // The first folder that has a frame of that number.
    let mut frames = BTreeMap::new();
    for file in recorded.iter().flat_map(|recorded| &recorded.files) {
        for frame in file.frames.iter().filter(|frame| frame.rows > 0) {
            frames.entry(frame.sequence).or_insert((file, frame));
        }
    }
    let expected = |is_channels: bool| -> Vec<&(&WalkedFile, &WalkedFrame)> {
        frames.values().filter(|(_, frame)| frame.is_channels == is_channels).collect()
    };
    let (events, channels) = (expected(false), expected(true));
    same_numbers(&events, run.frames())?;
    same_numbers(&channels, run.channel_frames())?;
    let mut counts = vec![0; run.sources().len()];
    for (index, (file, frame)) in events.into_iter().enumerate() {
        same_fragments(&run, index, (file, frame), &mut counts)
            .map_err(|why| format!("frame {}: {why}", frame.sequence))?;
    }
    for (index, (file, frame)) in channels.into_iter().enumerate() {
        file.samples(frame, |name, _, pieces| same_samples(&run, index, name, pieces))?;
    }
    check_ledger(&run, &counts[..outcome.plan.sources.len()])
}

/// The frames of a run are these, in this order.
fn same_numbers(
    expected: &[&(&WalkedFile, &WalkedFrame)],
    frames: &[catchment_storage::Frame],
) -> Result<(), String> {
    let expected: Vec<u64> = expected.iter().map(|(_, frame)| frame.sequence).collect();
    let found: Vec<u64> = frames.iter().map(|frame| frame.summary.info.sequence).collect();
    if found != expected {
        return Err(format!("frames {expected:?} are there, readers have {found:?}"));
    }
    Ok(())
}

/// A frame's fragments are these; counts them by source.
fn same_fragments(
    run: &Run,
    index: usize,
    (file, frame): (&WalkedFile, &WalkedFrame),
    counts: &mut [u64],
) -> Result<(), String> {
    let events = run.events(index).map_err(|error| error.to_string())?;
    let sources = (0..run.sources().len() as u32).map(SourceId);
    let stored = sources.filter(|source| run.check_stored(*source).is_ok());
    let columns = stored.map(|source| Ok((source.index(), run.fragments(index, source)?)));
    let columns = columns.collect::<Result<BTreeMap<_, _>, StorageError>>();
    let columns = columns.map_err(|error| error.to_string())?;
    let mut wrong = None;
    file.fragments(frame, |WalkedFragment { key, row, source, bytes, .. }| {
        if events.keys().get(row) != Some(&key) || columns[&source].fragment(row) != bytes {
            wrong
                .get_or_insert(format!("event {key}: another fragment of source {source} is read"));
        }
        counts[source] += u64::from(bytes.is_some());
    })?;
    wrong.map_or(Ok(()), Err)
}

/// A frame's samples of a channel are these.
fn same_samples(
    run: &Run,
    index: usize,
    name: &str,
    pieces: &[(u64, &[u8])],
) -> Result<(), String> {
    let channel = run.channel(name).ok_or_else(|| format!("no channel {name}"))?;
    let read =
        channel.read(&Select::Frames(index..index + 1)).map_err(|error| error.to_string())?;
    let read: Vec<(u64, &[u8])> =
        read.iter().map(|segment| (segment.first_sample, &segment.bytes[..])).collect();
    let pieces: Vec<_> = pieces.iter().filter(|(_, bytes)| !bytes.is_empty()).copied().collect();
    if read != pieces {
        return Err(format!("{name}: other samples are read"));
    }
    Ok(())
}

/// The ledger of several folders counts as recorded what is read of them.
fn check_ledger(run: &Run, counts: &[u64]) -> Result<(), String> {
    let ledger = run.recorded_ledger().map_err(|error| error.to_string())?;
    let Some(ledger) = ledger.filter(|_| run.ended()) else { return Ok(()) };
    for (source, (&count, counted)) in counts.iter().zip(&ledger.sources).enumerate() {
        let recorded = counted[Entry::FragmentsRecorded];
        if recorded != count && counted[Entry::FragmentsRemoved] == 0 {
            return Err(format!("source {source}: {count} are read, {recorded} are counted"));
        }
        let balance = counted.balance();
        if !balance.holds() {
            return Err(format!("source {source}: the ledger does not balance: {balance:?}"));
        }
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
